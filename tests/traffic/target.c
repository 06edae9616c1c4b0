/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receiving half of a QP: keeps receives posted, assigns each message to the operation that it
 * must be, verifies what the writes before it left in memory, and opens the next round when one is
 * complete: plans it, binds a window over its area where the plan has one, and grants it to the
 * initiator. Owned by the worker.
 */
#include <string.h>

#include "traffic.h"

#define QUIET	    0.03 /* seconds without a message after which the rest of a lossy round is lost */
#define QUIET_LOOKS 3

/* The next operation whose receive is not posted yet; NULL when no further round is planned. */
static const struct op *next_to_post(struct target *tg)
{
	for (;;) {
		const struct round *round = &tg->rounds[tg->post_round & 1];

		if (tg->post_round >= tg->opened)
			return NULL;
		for (; tg->post_op < round->n; tg->post_op++)
			if (consumes_receive(round->ops[tg->post_op].kind))
				return &round->ops[tg->post_op++];
		tg->post_round++;
		tg->post_op = 0;
	}
}

static void post_srq(struct worker *w)
{
	const struct config *cfg = &w->end->cfg;
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_sge sge[MAX_SGE];
	struct chunk *c = arena_alloc(&w->srq_arena, receive_capacity(cfg), cfg->sge_max, &w->rng);
	int err;

	if (!c) /* an older one is still waiting: its memory is in the way */
		return;
	wr.wr_id = RECEIVE_ID | (uint64_t)(c - w->srq_arena.chunks);
	wr.sg_list = sge;
	wr.num_sge = arena_sges(&w->srq_arena, c, sge);
	err = ibv_post_srq_recv(w->srq, &wr, &bad);
	if (err)
		fail(NULL, "ibv_post_srq_recv: %s", strerror(err));
	w->srq_posted++;
}

/* With RC each receive is as long as its message, or a little longer. */
static struct chunk *own_chunk(struct qp *qp)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct target *tg = &qp->tg;
	uint32_t round = tg->post_round, cap;
	unsigned at = tg->post_op;
	const struct op *op;
	struct chunk *c;

	if (lossy(cfg))
		return arena_alloc(&tg->arena, receive_capacity(cfg), cfg->sge_max, &w->rng);
	op = next_to_post(tg);
	if (!op)
		return NULL;
	cap = op->kind == OP_WRITE_IMM ? 0 : op->len;
	if (rng_below(&w->rng, 2))
		cap += rng_below(&w->rng, 64);
	c = arena_alloc(&tg->arena, cap, cfg->sge_max, &w->rng);
	if (!c) { /* later */
		tg->post_round = round;
		tg->post_op = at;
	}
	return c;
}

static bool post_own(struct qp *qp)
{
	struct worker *w = qp->worker;
	struct target *tg = &qp->tg;
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_sge sge[MAX_SGE];
	struct chunk *c;
	int err;

	if (tg->post_tail - tg->post_head == w->receives)
		return false;
	c = own_chunk(qp);
	if (!c)
		return false;
	wr.wr_id = RECEIVE_ID | (uint64_t)(qp - w->qps) << 32 | tg->post_tail;
	wr.sg_list = sge;
	wr.num_sge = arena_sges(&tg->arena, c, sge);
	tg->posted[tg->post_tail++ % w->receives] = c;
	err = ibv_post_recv(qp->qp, &wr, &bad);
	if (err)
		fail(qp, "ibv_post_recv: %s", strerror(err));
	return true;
}

void receive_fill(struct qp *qp)
{
	struct worker *w = qp->worker;
	unsigned before;

	if (!w->srq) {
		while (post_own(qp))
			;
		return;
	}
	do {
		before = w->srq_posted;
		if (w->srq_posted < w->receives)
			post_srq(w);
	} while (w->srq_posted != before);
}

static void grant(struct qp *qp, uint32_t round, uint32_t key)
{
	struct msg msg = {.type = MSG_GRANT, .q = qp - qp->worker->qps, .round = round, .key = key};

	receive_fill(qp);
	tell(qp->worker, &msg);
}

static void post_local_inv(struct qp *qp, unsigned area)
{
	struct ibv_send_wr wr = {0}, *bad;
	int err;

	sq_claim(qp, OP_LOCAL_INV, true, &wr.wr_id);
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.invalidate_rkey = qp->tg.type2_key[area];
	err = ibv_post_send(qp->qp, &wr, &bad);
	if (err)
		fail(qp, "ibv_post_send of local_inv: %s", strerror(err));
	qp->tg.type2_bound[area] = false;
}

static void post_bind(struct qp *qp, unsigned area, int type)
{
	struct target *tg = &qp->tg;
	struct ibv_mw_bind_info info = {
		.mr = tg->area_mr,
		.addr = (uintptr_t)tg->area[area],
		.length = area_size(&qp->worker->end->cfg),
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE},
			   *bad;
	int err;

	sq_claim(qp, OP_BIND_MW, true, &wr.wr_id);
	if (type == 1) {
		bind.wr_id = wr.wr_id;
		err = ibv_bind_mw(qp->qp, tg->mw[area][0], &bind);
		tg->window_key = tg->mw[area][0]->rkey;
	} else {
		tg->window_key = ibv_inc_rkey(tg->type2_key[area]);
		wr.bind_mw.mw = tg->mw[area][1];
		wr.bind_mw.rkey = tg->window_key;
		wr.bind_mw.bind_info = info;
		err = ibv_post_send(qp->qp, &wr, &bad);
		/* A type 2 window's key is the consumer's to keep; rxe takes the old one from here. */
		tg->type2_key[area] = tg->mw[area][1]->rkey = tg->window_key;
		tg->type2_bound[area] = true;
	}
	if (err)
		fail(qp, "bind of a type %d window: %s", type, strerror(err));
	tg->opening = true;
}

/* A window covers the area of the round last opened: the round may begin. */
void target_bound(struct qp *qp)
{
	qp->tg.opening = false;
	grant(qp, qp->tg.opened - 1, qp->tg.window_key);
}

/* Opens the next round, if it is its turn and the send queue has room for what it takes. */
static bool open_next(struct qp *qp)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct target *tg = &qp->tg;
	unsigned area = tg->opened & 1, ahead = lossy(cfg) ? 1 : 2;
	struct round *round = &tg->rounds[area], *last = &tg->rounds[!area];
	uint64_t before = tg->opened ? last->before + last->n : 0;

	if (tg->last_opened || tg->opening || tg->opened - tg->current >= ahead || sq_room(qp) < 2)
		return false;
	if (tg->type2_bound[area])
		post_local_inv(qp, area);
	plan_round(cfg, qp->q, !w->end->side, tg->opened, before, round);
	memset(tg->seen[area], 0, sizeof(tg->seen[area]));
	tg->opened++;
	tg->last_opened = before + round->n >= cfg->ops;
	if (round->window)
		post_bind(qp, area, round->window);
	else
		grant(qp, round->number, qp->tg.area_mr->rkey);
	return true;
}

void target_start(struct qp *qp)
{
	receive_fill(qp);
	while (open_next(qp))
		;
}

/* What the round's atomics have made of the private words. */
static void account_atomics(struct target *tg, const struct round *round)
{
	unsigned i;

	for (i = 0; i < round->n; i++) {
		const struct op *op = &round->ops[i];

		if (op->place != PRIVATE_WORD)
			continue;
		if (op->kind == OP_FADD)
			tg->fadd_word += op->value;
		else if (op->kind == OP_CAS && !op->miss)
			tg->cas_word = op->value;
	}
}

static void finish_round(struct qp *qp)
{
	struct end *end = qp->worker->end;
	struct target *tg = &qp->tg;
	struct round *round = &tg->rounds[tg->current & 1];
	unsigned missing = round->messages - tg->arrived;

	missing += verify_area(qp, round);
	tg->lost += missing;
	atomic_fetch_add(&end->lost, missing);
	account_atomics(tg, round);
	tg->current++;
	tg->next = tg->verified = tg->arrived = 0;
	tg->sent_told = false;
	tg->finished = tg->last_opened && tg->current == tg->opened;
}

bool target_step(struct qp *qp)
{
	struct target *tg = &qp->tg;

	/* Time alone says little on a busy machine: this thread must also have looked in vain. */
	if (tg->sent_told && !tg->finished && ++tg->quiet_looks > QUIET_LOOKS &&
	    seconds_now() - tg->quiet_since > QUIET)
		finish_round(qp);
	receive_fill(qp);
	return open_next(qp);
}

/* RC: the message must be the next one that the stream has. */
static void take_reliable(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct target *tg = &qp->tg;
	struct round *round = &tg->rounds[tg->current & 1];
	const struct op *op;

	if (tg->finished || tg->current >= tg->opened)
		fail(qp, "a message though no round is open: repeated, or sent without a grant");
	while (!consumes_receive(round->ops[tg->next].kind))
		tg->next++;
	op = &round->ops[tg->next++];
	verify_message(a, op);
	if (op->kind == OP_SEND_INV) {
		unsigned area = tg->current & 1;

		if (!(a->wc->wc_flags & qp->worker->end->with_inv) ||
		    a->wc->invalidated_rkey != tg->type2_key[area])
			fail(qp, "send_inv: flags %#x, key %#x, expected %#x", a->wc->wc_flags,
			     a->wc->invalidated_rkey, tg->type2_key[area]);
		tg->type2_bound[area] = false;
	}
	verify_writes(qp, round, tg->verified, tg->next);
	tg->verified = tg->next;
	tg->arrived++;
	if (tg->next == round->n)
		finish_round(qp);
}

/* Finds the first unseen operation of a round that the message can be; -1 if none. */
static int find_fit(const struct arrival *a, const struct round *round, const bool *seen,
		    bool want_seen)
{
	unsigned i;

	for (i = 0; i < round->n; i++)
		if (consumes_receive(round->ops[i].kind) && seen[i] == want_seen &&
		    message_fits(a, &round->ops[i]))
			return i;
	return -1;
}

/* Not a message that was missing: a second copy of one, or nothing that was ever sent. */
static void take_unexpected(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct end *end = qp->worker->end;
	struct target *tg = &qp->tg;
	uint32_t back;

	for (back = 0; back < 2 && back <= tg->current; back++) {
		uint32_t number = tg->current - back;

		if (number >= tg->opened ||
		    find_fit(a, &tg->rounds[number & 1], tg->seen[number & 1], true) < 0)
			continue;
		if (end->cfg.qp_type == IBV_QPT_UD && end->opt->allow_dup) {
			tg->duplicates++;
			atomic_fetch_add(&end->duplicates, 1);
			return;
		}
		fail(qp, "a message of %u bytes, round %u, came twice or out of order",
		     a->wc->byte_len, number);
	}
	fail(qp,
	     "a message of %u bytes, flags %#x, is none that was sent: corrupt (round %u, %u of "
	     "%u had arrived)",
	     a->wc->byte_len, a->wc->wc_flags, tg->current, tg->arrived,
	     tg->rounds[tg->current & 1].messages);
}

/* UC and UD: the message must be one that has not come, and with UC a later one than the last. */
static void take_lossy(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct worker *w = qp->worker;
	struct end *end = qp->worker->end;
	struct target *tg = &qp->tg;
	bool ordered = end->cfg.qp_type == IBV_QPT_UC;
	uint32_t number;
	int i = -1;

	for (number = tg->current ? tg->current - 1 : 0; number < tg->opened; number++) {
		i = find_fit(a, &tg->rounds[number & 1], tg->seen[number & 1], false);
		if (i >= 0)
			break;
	}
	if (i < 0) {
		take_unexpected(a);
		return;
	}
	if (!ordered && a->wc->qp_num != w->qps[((qp - w->qps) + number) % w->nqps].qp->qp_num)
		fail(qp, "a datagram of round %u came to QP %#x", number, a->wc->qp_num);
	if (ordered) {
		memset(tg->seen[number & 1], true, i);
		if (number == tg->current && number)
			memset(tg->seen[(number - 1) & 1], true, MAX_ROUND);
	}
	tg->seen[number & 1][i] = true;
	tg->quiet_since = seconds_now();
	tg->quiet_looks = 0;
	if (number != tg->current) {
		tg->late++;
		tg->lost--;
		atomic_fetch_add(&end->late, 1);
		atomic_fetch_sub(&end->lost, 1);
		return;
	}
	if (tg->rounds[number & 1].ops[i].kind == OP_WRITE_IMM)
		verify_writes(qp, &tg->rounds[number & 1], i, i + 1);
	if (++tg->arrived == tg->rounds[number & 1].messages ||
	    (ordered && i + 1u == tg->rounds[number & 1].n))
		finish_round(qp);
}

/* The chunk of a completion; a QP's own receives complete in the order in which they were posted. */
static struct chunk *take_posted(struct qp *qp, const struct ibv_wc *wc)
{
	struct worker *w = qp->worker;
	struct target *tg = &qp->tg;
	uint64_t id = wc->wr_id & ~RECEIVE_ID;

	if (w->srq) {
		if (id >= w->srq_arena.max_chunks || !w->srq_arena.chunks[id].busy)
			fail(qp, "a completion of receive %llu, which is not posted",
			     (unsigned long long)id);
		w->srq_posted--;
		return &w->srq_arena.chunks[id];
	}
	if ((uint32_t)id != tg->post_head || tg->post_head == tg->post_tail ||
	    id >> 32 != (uint64_t)(qp - w->qps))
		fail(qp,
		     "a completion of receive %#llx, expected %u: lost, repeated or out of order",
		     (unsigned long long)id, tg->post_head);
	return tg->posted[tg->post_head++ % w->receives];
}

/* UD: the stream is the sender's, whatever QP it came to. */
static struct qp *stream_of(struct qp *qp, const struct ibv_wc *wc)
{
	struct worker *w = qp->worker;
	unsigned i;

	if (w->end->cfg.qp_type != IBV_QPT_UD)
		return qp;
	for (i = 0; i < w->nqps; i++)
		if (w->qps[i].peer.qpn == wc->src_qp)
			return &w->qps[i];
	fail(qp, "a datagram from QP %#x, which is none of the peer's", wc->src_qp);
}

void target_receive(struct qp *qp, const struct ibv_wc *wc)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct arrival a = {.arena = w->srq ? &w->srq_arena : &qp->tg.arena, .wc = wc};
	size_t bad, used = wc->byte_len;

	if (wc->status != IBV_WC_SUCCESS)
		fail(qp, "a receive ended with %s (vendor %#x)", ibv_wc_status_str(wc->status),
		     wc->vendor_err);
	if (wc->qp_num != qp->qp->qp_num)
		fail(qp, "a completion of a receive names QP %#x", wc->qp_num);
	a.chunk = take_posted(qp, wc);
	a.qp = stream_of(qp, wc);
	if (cfg->qp_type == IBV_QPT_UD)
		verify_grh(&a);
	atomic_fetch_add(&w->end->messages, 1);
	a.qp->tg.messages++;
	if (lossy(cfg))
		take_lossy(&a);
	else
		take_reliable(&a);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		used = 0;
	/* UC: a message that lost its end may have used this receive before (9.8.2.2). */
	if (cfg->qp_type == IBV_QPT_UC)
		used = a.chunk->capacity;
	if (!arena_release(a.arena, a.chunk, used, &bad))
		fail(qp, "a message of %u bytes changed memory beside its pieces, at %zu",
		     wc->byte_len, bad);
	receive_fill(qp);
}

void target_done(struct qp *qp, const struct msg *msg)
{
	struct end *end = qp->worker->end;

	atomic_fetch_add(&end->peer_fadds, msg->fadds);
	atomic_fetch_add(&end->peer_swaps, msg->swaps);
	qp->tg.peer_done = true;
}

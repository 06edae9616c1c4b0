/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receiving half of a QP: keeps receives posted, assigns each message to the operation that it
 * must be, verifies what the writes before it left in memory, and opens the next round when one is
 * complete: plans it, binds a window over its area where the plan has one, and grants it to the
 * initiator. Owned by the worker.
 */
#include <arpa/inet.h>
#include <string.h>

#include "traffic.h"

static struct round *round_at(struct target *tg, uint32_t number)
{
	return &tg->rounds[number % ROUNDS];
}

static bool *seen_at(struct target *tg, uint32_t number)
{
	return tg->seen[number % ROUNDS];
}

/* The next operation whose receive is not posted yet; NULL when no further round is planned. */
static const struct op *next_to_post(struct target *tg)
{
	for (;;) {
		const struct round *round = round_at(tg, tg->post_round);

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

	if (w->closing)
		return;
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
	struct ibv_send_wr wr = {0};
	int err;

	sq_claim(qp, OP_LOCAL_INV, true, &wr.wr_id);
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.invalidate_rkey = qp->tg.type2_key[area];
	err = post_sends(qp, &wr);
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
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE};
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
		err = post_sends(qp, &wr);
		/* A type 2 window's key is the consumer's to keep; rxe takes the old one from here.
		 * */
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
	struct round *round = round_at(tg, tg->opened), *last = round_at(tg, tg->opened - 1);
	uint64_t before = tg->opened ? last->before + last->n : 0;

	if (tg->last_opened || tg->opening || tg->opened - tg->current >= ahead || sq_room(qp) < 2)
		return false;
	if (tg->type2_bound[area])
		post_local_inv(qp, area);
	plan_round(cfg, qp->q, !w->end->side, tg->opened, before, round);
	memset(seen_at(tg, tg->opened), 0, sizeof(tg->seen[0]));
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
	struct round *round = round_at(tg, tg->current);
	struct msg msg = {.type = MSG_ENDED, .q = qp - qp->worker->qps, .round = round->number};
	unsigned missing = round->messages - tg->arrived;

	missing += verify_area(qp, round);
	tg->lost += missing;
	atomic_fetch_add(&end->lost, missing);
	account_atomics(tg, round);
	tg->current++;
	tg->next = tg->verified = tg->arrived = 0;
	if (lossy(&end->cfg))
		tell(qp->worker, &msg);
	tg->finished = tg->last_opened && tg->current == tg->opened;
}

bool target_step(struct qp *qp)
{
	receive_fill(qp);
	return open_next(qp);
}

/* RC: the message must be the next one that the stream has. */
static void take_reliable(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct target *tg = &qp->tg;
	struct round *round = round_at(tg, tg->current);
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

/* A datagram's round determines the QP that it goes to. */
static bool came_to_its_qp(const struct arrival *a, uint32_t number)
{
	const struct qp *qp = a->qp;
	const struct worker *w = qp->worker;

	return w->end->cfg.qp_type != IBV_QPT_UD ||
	       a->wc->qp_num == w->qps[((qp - w->qps) + number) % w->nqps].qp->qp_num;
}

/* Finds the first operation of a round, seen before or not, that the message can be; -1 if none. */
static int find_fit(const struct arrival *a, uint32_t number, bool want_seen)
{
	struct target *tg = &a->qp->tg;
	const struct round *round = round_at(tg, number);
	const bool *seen = seen_at(tg, number);
	unsigned i;

	if (!came_to_its_qp(a, number))
		return -1;
	for (i = 0; i < round->n; i++)
		if (consumes_receive(round->ops[i].kind) && seen[i] == want_seen &&
		    message_fits(a, &round->ops[i]))
			return i;
	return -1;
}

/* The oldest round that is remembered. */
static uint32_t oldest(const struct target *tg)
{
	return tg->opened > ROUNDS ? tg->opened - ROUNDS : 0;
}

/* Not a message that was missing: a second copy of one, or nothing that was ever sent. */
static void take_unexpected(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct end *end = qp->worker->end;
	struct target *tg = &qp->tg;
	uint32_t number;

	for (number = oldest(tg); number < tg->opened; number++) {
		if (find_fit(a, number, true) < 0)
			continue;
		if (end->cfg.qp_type == IBV_QPT_UD && end->opt->allow_dup) {
			tg->duplicates++;
			atomic_fetch_add(&end->duplicates, 1);
			return;
		}
		fail(qp, "a message of %u bytes, round %u, came twice or out of order (round %u)",
		     a->wc->byte_len, number, tg->current);
	}
	fail(qp,
	     "a message of %u bytes, flags %#x, at QP %#x is none that was sent there: corrupt "
	     "(round %u, %u of %u had arrived)",
	     a->wc->byte_len, a->wc->wc_flags, a->wc->qp_num, tg->current, tg->arrived,
	     round_at(tg, tg->current)->messages);
}

/* With UC rounds follow each other. */
static void check_order(const struct arrival *a, uint32_t number)
{
	struct qp *qp = a->qp;
	struct target *tg = &qp->tg;

	if (qp->worker->end->cfg.qp_type != IBV_QPT_UC)
		return;
	if (number < tg->newest)
		fail(qp, "out of order: a message of round %u after one of round %u", number,
		     tg->newest);
	tg->newest = number;
}

static bool is_marker(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct end *end = qp->worker->end;
	struct op op;

	if (!(a->wc->wc_flags & IBV_WC_WITH_IMM))
		return false;
	op = marker_op(&end->cfg, qp->q, !end->side, ntohl(a->wc->imm_data));
	return message_fits(a, &op);
}

/* What was sent before it has come, or never will. One of a round that has ended says nothing. */
static void take_marker(const struct arrival *a)
{
	struct target *tg = &a->qp->tg;
	uint32_t number = ntohl(a->wc->imm_data);

	if (number >= tg->opened)
		fail(a->qp, "a marker of round %u, which has not begun", number);
	if (!came_to_its_qp(a, number))
		fail(a->qp, "a marker of round %u came to QP %#x", number, a->wc->qp_num);
	check_order(a, number);
	if (number == tg->current)
		finish_round(a->qp);
}

/* UC and UD: the message must be one that has not come, and with UC a later one than the last. */
static void take_lossy(const struct arrival *a)
{
	struct qp *qp = a->qp;
	struct target *tg = &qp->tg;
	struct end *end = qp->worker->end;
	bool ordered = end->cfg.qp_type == IBV_QPT_UC;
	uint32_t number = 0, back;
	int i = -1;

	/* Short ones of different rounds may be alike: rather one of the newest. */
	for (back = 0; back < (ordered ? 1 : ROUNDS) && back < tg->opened; back++) {
		number = tg->opened - 1 - back;
		i = find_fit(a, number, false);
		if (i >= 0)
			break;
	}
	if (i < 0) {
		take_unexpected(a);
		return;
	}
	check_order(a, number);
	if (ordered)
		memset(seen_at(tg, number), true, i);
	seen_at(tg, number)[i] = true;
	if (number != tg->current) {
		if (ordered)
			fail(qp, "a message of %u bytes came after its round's marker",
			     a->wc->byte_len);
		tg->late++;
		tg->lost--;
		atomic_fetch_add(&end->late, 1);
		atomic_fetch_sub(&end->lost, 1);
		return;
	}
	if (round_at(tg, number)->ops[i].kind == OP_WRITE_IMM)
		verify_writes(qp, round_at(tg, number), i, i + 1);
	if (++tg->arrived == round_at(tg, number)->messages ||
	    (ordered && i + 1u == round_at(tg, number)->n))
		finish_round(qp);
}

/* The chunk of a completion; a QP's own receives complete in the order in which they were posted.
 * */
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

/* Gives the memory of a receive back. */
static void release(struct qp *qp, const struct arrival *a, size_t used)
{
	size_t bad;

	/* UC: a message that lost its end may have used this receive before (9.8.2.2). */
	if (qp->worker->end->cfg.qp_type == IBV_QPT_UC)
		used = a->chunk->capacity;
	if (!arena_release(a->arena, a->chunk, used, &bad))
		fail(qp, "a receive changed memory beside its pieces or message, at %zu", bad);
}

void target_receive(struct qp *qp, const struct ibv_wc *wc)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct arrival a = {.arena = w->srq ? &w->srq_arena : &qp->tg.arena, .wc = wc};
	bool flushed = w->closing && wc->status == IBV_WC_WR_FLUSH_ERR;

	if (wc->status != IBV_WC_SUCCESS && !flushed)
		fail(qp, "a receive ended with %s (vendor %#x)", ibv_wc_status_str(wc->status),
		     wc->vendor_err);
	if (wc->qp_num != qp->qp->qp_num)
		fail(qp, "a completion of a receive names QP %#x", wc->qp_num);
	a.chunk = take_posted(qp, wc);
	if (flushed) {
		release(qp, &a, 0);
		return;
	}
	a.qp = stream_of(qp, wc);
	if (cfg->qp_type == IBV_QPT_UD)
		verify_grh(&a);
	if (lossy(cfg) && is_marker(&a)) {
		take_marker(&a);
	} else {
		atomic_fetch_add(&w->end->messages, 1);
		a.qp->tg.messages++;
		if (lossy(cfg))
			take_lossy(&a);
		else
			take_reliable(&a);
	}
	release(qp, &a, wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? 0 : wc->byte_len);
	receive_fill(qp);
}

void target_close(struct qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int err = ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);

	if (err)
		fail(qp, "to ERR: %s", strerror(err));
}

/* Each receive of its own has come back. */
bool target_closed(const struct qp *qp)
{
	return qp->worker->srq || qp->tg.post_head == qp->tg.post_tail;
}

void target_done(struct qp *qp, const struct msg *msg)
{
	struct end *end = qp->worker->end;

	atomic_fetch_add(&end->peer_fadds, msg->fadds);
	atomic_fetch_add(&end->peer_swaps, msg->swaps);
	qp->tg.peer_done = true;
}

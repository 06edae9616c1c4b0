/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The sending half of a QP: posts the rounds that the target grants, in lists of up to four work
 * requests, randomly signaled, and accounts for every entry of the send queue: a completion must
 * be the oldest signaled one's, and stands for all unsignaled ones before it. Owned by the worker.
 */
#include <stdio.h>
#include <string.h>

#include "traffic.h"

#define BATCH	    4
#define FIRST_PAUSE 0.001 /* seconds after the last operation of a round until its first marker */
#define MOST_PAUSE  0.064

struct batch {
	struct ibv_send_wr wr[BATCH];
	struct ibv_sge sge[BATCH][MAX_SGE];
	struct chunk *inlined[BATCH];
	unsigned n;
};

void initiator_start(struct qp *qp)
{
	struct worker *w = qp->worker;

	plan_round(&w->end->cfg, qp->q, w->end->side, 0, 0, &qp->in.round);
}

unsigned sq_room(const struct qp *qp)
{
	return qp->worker->end->cfg.depth - (qp->in.tail - qp->in.head);
}

struct wqe *sq_claim(struct qp *qp, enum kind kind, bool signaled, uint64_t *wr_id)
{
	struct initiator *in = &qp->in;
	struct wqe *wqe = &in->sq[in->tail % qp->worker->end->cfg.depth];

	memset(wqe, 0, sizeof(*wqe));
	wqe->kind = kind;
	wqe->signaled = signaled;
	in->unsignaled = signaled ? 0 : in->unsignaled + 1;
	/* The QP's place among the worker's, and the entry's number. */
	*wr_id = (uint64_t)(qp - qp->worker->qps) << 32 | in->tail;
	in->tail++;
	in->posted++;
	return wqe;
}

/* The next operation sends on what this READ brings. */
static bool relayed(const struct initiator *in)
{
	return in->round.ops[in->next].kind == OP_READ && in->next + 1 < in->round.n &&
	       in->round.ops[in->next + 1].relay;
}

static void name_remote(struct qp *qp, const struct op *op, struct wqe *wqe, struct ibv_send_wr *wr)
{
	struct initiator *in = &qp->in;
	const struct grant *grant = &in->grants[in->round.number & 1];
	bool cas = op->kind == OP_CAS, atomic = cas || op->kind == OP_FADD;
	uint64_t addr;
	uint32_t key;

	switch (op->place) {
	case IN_AREA:
		addr = qp->peer.area[in->round.number & 1] + op->off;
		key = grant->key;
		break;
	case IN_SOURCE:
		addr = qp->peer.source + op->off;
		key = qp->peer.source_key;
		break;
	case PRIVATE_WORD:
		addr = qp->peer.words + 8 * cas;
		key = qp->peer.words_key;
		break;
	default: addr = qp->peer.shared + 8 * cas; key = qp->peer.shared_key;
	}
	if (!atomic) {
		wr->wr.rdma.remote_addr = addr;
		wr->wr.rdma.rkey = key;
		return;
	}
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.rkey = key;
	if (op->place == SHARED_WORD) {
		wqe->compare = cas ? atomic_load(&qp->worker->end->cas_seen) : 1;
		wr->wr.atomic.compare_add = wqe->compare;
		wr->wr.atomic.swap = wqe->compare + 1;
	} else if (cas) {
		wqe->expect = in->cas_word;
		wr->wr.atomic.compare_add = op->miss ? ~in->cas_word : in->cas_word;
		wr->wr.atomic.swap = op->value;
		if (!op->miss)
			in->cas_word = op->value;
	} else {
		wqe->expect = in->fadd_word;
		wr->wr.atomic.compare_add = op->value;
		in->fadd_word += op->value;
	}
}

static void fill_wr(struct qp *qp, const struct op *op, struct wqe *wqe, struct ibv_send_wr *wr)
{
	static const enum ibv_wr_opcode opcodes[] = {
		[OP_SEND] = IBV_WR_SEND,
		[OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[OP_SEND_INV] = IBV_WR_SEND_WITH_INV,
		[OP_WRITE] = IBV_WR_RDMA_WRITE,
		[OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[OP_READ] = IBV_WR_RDMA_READ,
		[OP_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
		[OP_FADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct worker *w = qp->worker;
	struct initiator *in = &qp->in;
	bool fenced = op->fence && !w->end->cfg.no_fence;

	wr->opcode = opcodes[op->kind];
	wr->send_flags = (wqe->signaled ? IBV_SEND_SIGNALED : 0) | (fenced ? IBV_SEND_FENCE : 0);
	if (op->solicited && consumes_receive(op->kind))
		wr->send_flags |= IBV_SEND_SOLICITED;
	if (op->kind == OP_SEND_IMM || op->kind == OP_WRITE_IMM)
		wr->imm_data = op->imm;
	if (op->kind == OP_SEND_INV)
		wr->invalidate_rkey = in->grants[in->round.number & 1].key;
	if (w->end->cfg.qp_type == IBV_QPT_UD) {
		/* Each round goes to the next one of the peer's QPs. */
		unsigned to = ((qp - w->qps) + wqe->round) % w->nqps;

		wr->wr.ud.ah = qp->ah;
		wr->wr.ud.remote_qpn = w->qps[to].peer.qpn;
		wr->wr.ud.remote_qkey = QKEY;
	} else if (op->kind > OP_SEND_INV) {
		name_remote(qp, op, wqe, wr);
	}
}

static struct chunk *take_chunk(struct qp *qp, const struct op *op)
{
	struct worker *w = qp->worker;
	struct initiator *in = &qp->in;
	bool atomic = op->kind == OP_CAS || op->kind == OP_FADD;
	struct chunk *c = in->relay;

	if (op->relay) {
		in->relay = NULL;
		return c;
	}
	c = arena_alloc(&in->arena, op->len, atomic ? 1 : w->end->cfg.sge_max, &w->rng);
	if (c && op->kind < OP_READ)
		arena_fill(&in->arena, c, op->key, op->key_off);
	return c;
}

/* Is it posted only when all before it are complete, in place of being fenced? */
static bool waits_for_all(const struct config *cfg, const struct op *op)
{
	return op->fence && cfg->no_fence;
}

/* Adds the next operation of the round to the batch; false if memory or entries have run out. */
static bool batch_add(struct qp *qp, struct batch *b)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct initiator *in = &qp->in;
	const struct op *op = &in->round.ops[in->next];
	struct ibv_send_wr *wr = &b->wr[b->n];
	struct chunk *chunk;
	struct wqe *wqe;
	bool last = in->next + 1 == in->round.n, signaled;

	if (waits_for_all(cfg, op) && (b->n || in->head != in->tail))
		return false;
	if (!sq_room(qp))
		return false;
	chunk = take_chunk(qp, op);
	if (!chunk)
		return false;
	/* Unsignaled ones must not hold back what the next one needs. */
	signaled = last || waits_for_all(cfg, op + 1) || !rng_below(&w->rng, 3) ||
		   in->unsignaled >= cfg->depth / 4 || !arena_fits(&in->arena, cfg->max_size);
	memset(wr, 0, sizeof(*wr));
	wqe = sq_claim(qp, op->kind, signaled, &wr->wr_id);
	wqe->op = *op;
	wqe->round = in->round.number;
	wqe->chunk = chunk;
	wqe->keep = relayed(in);
	if (wqe->keep)
		in->relay = chunk;
	fill_wr(qp, op, wqe, wr);
	wr->sg_list = b->sge[b->n];
	wr->num_sge = arena_sges(&in->arena, chunk, wr->sg_list);
	b->inlined[b->n] = NULL;
	if (op->kind < OP_READ && !op->relay && op->len <= cfg->inline_max &&
	    rng_below(&w->rng, 2)) {
		wr->send_flags |= IBV_SEND_INLINE;
		b->inlined[b->n] = chunk;
		wqe->chunk = NULL;
	}
	if (b->n)
		b->wr[b->n - 1].next = wr;
	b->n++;
	in->next++;
	return true;
}

static void end_of_round(struct qp *qp)
{
	struct initiator *in = &qp->in;
	const struct config *cfg = &qp->worker->end->cfg;
	uint64_t before = in->round.before + in->round.n;

	in->grants[in->round.number & 1].given = false;
	in->sent_round = in->round.number;
	if (lossy(cfg)) {
		in->marking = true;
		in->pause = FIRST_PAUSE;
		in->mark_at = seconds_now() + in->pause;
	}
	if (before >= cfg->ops) {
		in->all_sent = true;
		return;
	}
	plan_round(cfg, qp->q, qp->worker->end->side, in->round.number + 1, before, &in->round);
	in->next = 0;
}

/* The target has all of the round that will ever come. */
void initiator_ended(struct qp *qp, uint32_t round)
{
	struct initiator *in = &qp->in;

	if (!in->marking || round != in->sent_round)
		fail(qp, "the other end says that round %u has ended, which is not under way",
		     round);
	in->marking = false;
}

/* Any of these may be lost, so another one follows until the target has said that one has come. */
static bool send_marker(struct qp *qp)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct initiator *in = &qp->in;
	struct ibv_send_wr wr = {0};
	struct ibv_sge sge[MAX_SGE];
	struct chunk *chunk;
	struct wqe *wqe;
	int err;

	if (in->head != in->tail || seconds_now() < in->mark_at)
		return false;
	chunk = arena_alloc(&in->arena, MARKER_LEN, cfg->sge_max, &w->rng);
	if (!chunk) /* cannot be: the queue is empty */
		fail(qp, "no room for a marker");
	wqe = sq_claim(qp, OP_MARKER, true, &wr.wr_id);
	wqe->op = marker_op(cfg, qp->q, w->end->side, in->sent_round);
	wqe->round = in->sent_round;
	wqe->chunk = chunk;
	arena_fill(&in->arena, chunk, wqe->op.key, wqe->op.key_off);
	fill_wr(qp, &wqe->op, wqe, &wr);
	wr.sg_list = sge;
	wr.num_sge = arena_sges(&in->arena, chunk, sge);
	err = post_sends(qp, &wr);
	if (err)
		fail(qp, "ibv_post_send of a marker: %s", strerror(err));
	in->pause = in->pause * 2 < MOST_PAUSE ? in->pause * 2 : MOST_PAUSE;
	in->mark_at = seconds_now() + in->pause;
	return true;
}

/* Once everything is complete, says so. */
static bool tell_done(struct qp *qp)
{
	struct initiator *in = &qp->in;
	struct msg msg = {.type = MSG_DONE,
			  .q = qp - qp->worker->qps,
			  .fadds = in->fadds,
			  .swaps = in->swaps};

	if (in->done || !in->all_sent || in->head != in->tail)
		return false;
	in->done = true;
	tell(qp->worker, &msg);
	return true;
}

bool initiator_step(struct qp *qp)
{
	struct worker *w = qp->worker;
	struct initiator *in = &qp->in;
	unsigned want = 1 + rng_below(&w->rng, BATCH), i;
	struct batch b = {.n = 0};
	size_t off;
	int err;

	if (in->marking)
		return send_marker(qp);
	if (tell_done(qp))
		return true;
	if (in->all_sent || !in->grants[in->round.number & 1].given)
		return false;
	while (b.n < want && in->next < in->round.n && batch_add(qp, &b))
		;
	if (!b.n)
		return false;
	err = post_sends(qp, b.wr);
	if (err)
		fail(qp, "ibv_post_send of %s: %s", kind_names[in->round.ops[in->next - 1].kind],
		     strerror(err));
	/* Inline data has been taken: the buffer may be used for something else. */
	for (i = 0; i < b.n; i++)
		if (b.inlined[i] &&
		    !arena_release(&in->arena, b.inlined[i], b.inlined[i]->capacity, &off))
			fail(qp, "a post with inline data changed memory beside it, at %zu", off);
	if (in->next == in->round.n)
		end_of_round(qp);
	return true;
}

/* A queue entry whose completion is now known. */
static void complete(struct qp *qp, struct wqe *wqe)
{
	struct end *end = qp->worker->end;
	struct initiator *in = &qp->in;
	size_t off;
	uint8_t found;

	atomic_fetch_add(&end->kinds[wqe->kind], 1);
	if (wqe->kind == OP_BIND_MW) {
		target_bound(qp);
		return;
	}
	if (wqe->kind == OP_LOCAL_INV)
		return;
	if (wqe->kind != OP_MARKER) {
		atomic_fetch_add(&end->ops, 1);
		atomic_fetch_add(&end->bytes, wqe->op.len);
	}
	if (!wqe->chunk)
		return;
	if (wqe->kind == OP_CAS || wqe->kind == OP_FADD) {
		verify_atomic(qp, wqe);
	} else if (wqe->kind == OP_READ) {
		verify_read(qp, wqe);
		if (wqe->keep)
			return;
	} else if (!arena_matches(&in->arena, wqe->chunk, 0, wqe->op.key, wqe->op.key_off,
				  wqe->op.len, &off, &found)) {
		fail_byte(qp, &wqe->op, "what was sent has changed", off,
			  pattern_byte(wqe->op.key, wqe->op.key_off + off), found);
	}
	if (!arena_release(&in->arena, wqe->chunk, wqe->op.len, &off))
		fail(qp, "%s of %u bytes changed memory beside its pieces, at %zu",
		     kind_names[wqe->kind], wqe->op.len, off);
}

static void check_wc(struct qp *qp, const struct wqe *wqe, const struct ibv_wc *wc)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[OP_SEND] = IBV_WC_SEND,
		[OP_SEND_IMM] = IBV_WC_SEND,
		[OP_SEND_INV] = IBV_WC_SEND,
		[OP_WRITE] = IBV_WC_RDMA_WRITE,
		[OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
		[OP_READ] = IBV_WC_RDMA_READ,
		[OP_CAS] = IBV_WC_COMP_SWAP,
		[OP_FADD] = IBV_WC_FETCH_ADD,
		[OP_BIND_MW] = IBV_WC_BIND_MW,
		[OP_LOCAL_INV] = IBV_WC_LOCAL_INV,
		[OP_MARKER] = IBV_WC_SEND,
	};

	if (wc->status != IBV_WC_SUCCESS)
		fail(qp, "%s of %u bytes in round %u ended with %s (vendor %#x)",
		     kind_names[wqe->kind], wqe->op.len, wqe->round, ibv_wc_status_str(wc->status),
		     wc->vendor_err);
	if (wc->opcode != opcodes[wqe->kind])
		fail(qp, "the completion of a %s has opcode %d", kind_names[wqe->kind], wc->opcode);
	if (wc->qp_num != qp->qp->qp_num)
		fail(qp, "a completion names QP %#x", wc->qp_num);
}

void initiator_completion(struct qp *qp, const struct ibv_wc *wc)
{
	struct initiator *in = &qp->in;
	unsigned depth = qp->worker->end->cfg.depth, at = in->head;
	uint32_t id = wc->wr_id;

	while (at != in->tail && !in->sq[at % depth].signaled && wc->status == IBV_WC_SUCCESS)
		at++;
	if (at == in->tail)
		fail(qp, "a completion (id %#llx, %s) though no signaled request is open",
		     (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	/* An error may report an unsignaled one, but not one that is not open. */
	if (wc->status != IBV_WC_SUCCESS && id - in->head < in->tail - in->head)
		at = id;
	if (id != at)
		fail(qp,
		     "completion of request %u, expected %u (%s): lost, repeated or out of order",
		     id, at, kind_names[in->sq[at % depth].kind]);
	check_wc(qp, &in->sq[at % depth], wc);
	for (; in->head != at + 1; in->head++, in->completed++)
		complete(qp, &in->sq[in->head % depth]);
}

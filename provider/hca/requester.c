/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester (IBTA vol. 1, 9.7.2 to 9.7.4, 9.8, 9.9): turns send WRs into request packets. Under
 * the engine lock.
 *
 * The send queue is a ring with three cursors:
 *
 *      tail            send           head
 *       | sent, not     | offset bytes |
 *       | acknowledged  | of it sent   | posted
 *
 * A retry moves send (and psn) back to the packet that is missing; which opcode a packet has
 * follows from its place in its message alone, so a message resumes wherever it was cut. A long
 * RDMA READ is asked for in several requests, so that no more answers are under way than the window
 * allows.
 */
#include <errno.h>
#include <string.h>

#include "hca/batch.h"
#include "hca/completer.h"
#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/memory.h"
#include "hca/pace.h"
#include "hca/peer.h"
#include "hca/polling.h"
#include "hca/requester.h"
#include "hca/responder.h"

#define PACKET_OVERHEAD 64	    /* what a packet costs the window beside its payload */
#define READ_CHUNK	(64u << 10) /* a multiple of every MTU */
#define ACK_EVERY	16	    /* packets; also on the last one of every batch */
#define FULL_RETRY_NS	200000	    /* when the socket was full */
#define REFER_PROBES	2	    /* after so many a neighbour is sent payload, not its address */

static enum urxe_opcode request_opcode(const struct urxe_qp *qp, uint8_t op, bool first, bool last)
{
	/* Columns: middle, first, last, only. */
	static const uint8_t rc[][4] = {
		[IBV_WR_RDMA_WRITE] = {URXE_RC_WRITE_MIDDLE, URXE_RC_WRITE_FIRST,
				       URXE_RC_WRITE_LAST, URXE_RC_WRITE_ONLY},
		[IBV_WR_RDMA_WRITE_WITH_IMM] = {URXE_RC_WRITE_MIDDLE, URXE_RC_WRITE_FIRST,
						URXE_RC_WRITE_LAST_IMM, URXE_RC_WRITE_ONLY_IMM},
		[IBV_WR_SEND] = {URXE_RC_SEND_MIDDLE, URXE_RC_SEND_FIRST, URXE_RC_SEND_LAST,
				 URXE_RC_SEND_ONLY},
		[IBV_WR_SEND_WITH_IMM] = {URXE_RC_SEND_MIDDLE, URXE_RC_SEND_FIRST,
					  URXE_RC_SEND_LAST_IMM, URXE_RC_SEND_ONLY_IMM},
		[IBV_WR_SEND_WITH_INV] = {URXE_RC_SEND_MIDDLE, URXE_RC_SEND_FIRST,
					  URXE_RC_SEND_LAST_INV, URXE_RC_SEND_ONLY_INV},
		[IBV_WR_ATOMIC_WRITE] = {0, 0, 0, URXE_RC_ATOMIC_WRITE},
	};

	return rc[op][first | last << 1] + qp->transport->service;
}

/* A read's or atomic's buffer must be writable before it is asked for. */
static bool local_buffer_ok(struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	uint64_t va;

	for (unsigned i = 0; i < wqe->num_sge; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];

		if (sge->length && !urxe_reach_own(qp, wqe, sge->lkey, sge->addr, sge->length,
						   RMEMPOOL_LOCAL_WRITE, &va))
			return false;
	}
	return true;
}

/* False: not yet. */
static bool run_local(struct urxe_qp *qp, struct urxe_send_wqe *wqe)
{
	switch (wqe->opcode == IBV_WR_BIND_MW ? urxe_mw_execute_bind(qp, wqe)
					      : urxe_invalidate(qp, wqe->imm)) {
	case URXE_BOUND: break;
	case URXE_NOT_BOUND: wqe->error = IBV_WC_MW_BIND_ERR; break;
	case URXE_BOUND_LATER: urxe_engine_hold(qp); return false;
	}
	wqe->done = true;
	return true;
}

/* Gives a WR its PSNs and checks what can be checked before it starts. */
static void start_wqe(struct urxe_qp *qp, struct urxe_send_wqe *wqe)
{
	wqe->started = true;
	wqe->first_psn = qp->proto.psn;
	if (wr_is_local(wqe->opcode)) {
		wqe->last_psn = urxe_psn_add(qp->proto.psn, -1);
		wqe->started = run_local(qp, wqe);
		return;
	}
	wqe->last_psn = urxe_psn_add(qp->proto.psn, urxe_packets_of(qp, wqe->length) - 1);
	if (wr_is_answered(wqe->opcode)) {
		if (!qp->proto.attr.max_rd_atomic)
			wqe->error = IBV_WC_LOC_QP_OP_ERR;
		else if (wqe->opcode != IBV_WR_ATOMIC_WRITE && !local_buffer_ok(qp, wqe))
			wqe->error = IBV_WC_LOC_PROT_ERR;
	} else if (qp->transport->addressed && wqe->length > qp->proto.mtu) {
		wqe->error = IBV_WC_LOC_LEN_ERR;
	}
}

/* May this WR begin now? Otherwise something that will happen later makes the QP ready again. */
static bool may_start(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	return atomic_load(&qp->proto.state) != IBV_QPS_SQD &&
	       !((wqe->flags & IBV_SEND_FENCE) && qp->proto.rd_count);
}

/*
 * The bytes of a read to ask for next: up to the next multiple of READ_CHUNK, so that a retry never
 * asks for PSNs of two requests at once. A responder that had seen only the first of them would
 * answer for both, and then not know that it had.
 */
static uint32_t read_chunk(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	uint32_t left = wqe->length - qp->proto.offset,
		 chunk = READ_CHUNK - qp->proto.offset % READ_CHUNK;

	return left < chunk ? left : chunk;
}

/* Where the next header is to be written. */
static void *next_header(struct urxe_tx_packet *pkt, size_t len)
{
	uint8_t *at = pkt->header + pkt->header_len;

	pkt->header_len += len;
	return at;
}

static inline __attribute__((always_inline)) void
put_bth(struct urxe_qp *qp, struct urxe_tx_packet *pkt, enum urxe_opcode opcode, bool solicited,
	uint32_t payload, uint32_t qpn, uint32_t srqn)
{
	urxe_bth_fill(next_header(pkt, sizeof(struct urxe_bth)), opcode,
		      qp->proto.migreq | (solicited ? URXE_BTH_SE : 0), urxe_pad_of(payload),
		      urxe_qp_pkey(qp), qpn, false, qp->proto.psn);
	if (qp->transport->shared_receive)
		urxe_xrceth_fill(next_header(pkt, sizeof(struct urxe_xrceth)), srqn);
}

static void awaits_answer(struct urxe_qp *qp, uint32_t last)
{
	qp->rd_ends[(qp->proto.rd_first + qp->proto.rd_count++) % qp->proto.rd_size] = last;
}

static void build_read(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct urxe_tx_packet *pkt)
{
	uint32_t len = read_chunk(qp, wqe), n = urxe_packets_of(qp, len);

	put_bth(qp, pkt, URXE_RC_READ_REQUEST + qp->transport->service, false, 0,
		qp->proto.attr.dest_qp_num, wqe->rdma.srqn);
	urxe_reth_fill(next_header(pkt, sizeof(struct urxe_reth)),
		       wqe->rdma.remote_addr + qp->proto.offset, wqe->rdma.rkey, len);
	urxe_pace_packet(qp, n, 0);
	qp->proto.offset += len;
	qp->proto.psn = urxe_psn_add(qp->proto.psn, n);
	awaits_answer(qp, urxe_psn_add(qp->proto.psn, -1));
	urxe_peer_sent(qp, len + (uint64_t)n * PACKET_OVERHEAD);
}

static void build_atomic(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct urxe_tx_packet *pkt)
{
	bool swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	put_bth(qp, pkt, (swap ? URXE_RC_COMPARE_SWAP : URXE_RC_FETCH_ADD) + qp->transport->service,
		wqe->flags & IBV_SEND_SOLICITED, 0, qp->proto.attr.dest_qp_num, wqe->rdma.srqn);
	urxe_atomic_fill(next_header(pkt, sizeof(struct urxe_atomic_eth)), wqe->rdma.remote_addr,
			 wqe->rdma.rkey, swap ? wqe->rdma.swap : wqe->rdma.compare_add,
			 swap ? wqe->rdma.compare_add : 0);
	urxe_pace_packet(qp, 1, 0);
	qp->proto.offset = wqe->length;
	awaits_answer(qp, qp->proto.psn);
	qp->proto.psn = urxe_psn_add(qp->proto.psn, 1);
	urxe_peer_sent(qp, wqe->length + PACKET_OVERHEAD);
}

/* May the rest of the payload go to a neighbour by reference? It stays where it is until the WR
 * ends. */
static bool may_refer(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe, uint32_t left)
{
	return qp->transport->reliable && !wqe->inlined && left > URXE_COPY_MOST &&
	       qp->probes <= REFER_PROBES;
}

/*
 * The payload that one packet may carry: the path MTU, or to a neighbour a run of several. Those
 * still count as many PSNs as packets would, so that the rest may go by UDP, and neither end need
 * know what the other does.
 */
static uint32_t most_payload(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe,
			     uint32_t left, bool *refer)
{
	uint32_t run;

	*refer = false;
	if (!qp->near || left <= qp->proto.mtu)
		return qp->proto.mtu;
	urxe_hca.now_is_old = true;
	*refer = may_refer(qp, wqe, left);
	run = urxe_wire_run(urxe_hca.wire, &qp->proto.path, qp->proto.attr.dest_qp_num, refer);
	return run ? run : qp->proto.mtu;
}

/* A packet of a SEND or RDMA WRITE: false when its data is not ours to send. */
static bool build_data(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct urxe_batch *batch,
		       struct urxe_tx_packet *pkt)
{
	uint32_t left = wqe->length - qp->proto.offset;
	uint32_t most = most_payload(qp, wqe, left, &pkt->refer);
	uint32_t len = left < most ? left : most, span = urxe_packets_of(qp, len);
	bool first = qp->proto.offset == 0, last = len == left;
	enum urxe_opcode opcode = request_opcode(qp, wqe->opcode, first, last);
	struct urxe_opmask mask = urxe_opcodes[opcode].mask;
	int pieces = urxe_gather(qp, wqe, qp->proto.offset, len, 0, urxe_batch_iov(batch));

	if (pieces < 0)
		return false;
	put_bth(qp, pkt, opcode, last && (wqe->flags & IBV_SEND_SOLICITED), len,
		qp->transport->connected ? qp->proto.attr.dest_qp_num : wqe->ud.qpn,
		wqe->rdma.srqn);
	if (urxe_op_any(mask, URXE_OP_HAS_DETH))
		urxe_deth_fill(next_header(pkt, sizeof(struct urxe_deth)), wqe->ud.qkey,
			       qp->proto.source_qpn);
	if (urxe_op_any(mask, URXE_OP_HAS_RETH))
		urxe_reth_fill(next_header(pkt, sizeof(struct urxe_reth)), wqe->rdma.remote_addr,
			       wqe->rdma.rkey, wqe->length);
	if (urxe_op_any(mask, URXE_OP_HAS_IMM))
		memcpy(next_header(pkt, sizeof(wqe->imm)), &wqe->imm, sizeof(wqe->imm));
	else if (urxe_op_any(mask, URXE_OP_HAS_IETH))
		urxe_ieth_fill(next_header(pkt, sizeof(struct urxe_ieth)), wqe->imm);
	pkt->span = span;
	/* The first time from where it lies; again, from a copy: the program may be writing to it,
	 * and then its ICRC would never fit. */
	if (!qp->near && qp->transport->reliable &&
	    urxe_psn_diff(qp->proto.psn, qp->proto.max_psn) < 0)
		urxe_batch_stage(batch, pieces, len);
	else
		urxe_batch_payload(batch, pieces, len);
	if (wqe->opcode == IBV_WR_ATOMIC_WRITE)
		awaits_answer(qp, qp->proto.psn);
	urxe_pace_packet(qp, span, len);
	qp->proto.offset += len;
	qp->proto.psn = urxe_psn_add(qp->proto.psn, span);
	if (qp->transport->reliable)
		urxe_peer_sent(qp, len + PACKET_OVERHEAD);
	return true;
}

/* There is no room for what the QP sends: its timer resumes sending. */
void urxe_requester_pause(struct urxe_qp *qp)
{
	qp->full_wait = true;
	qp->rnr_until = urxe_now() + FULL_RETRY_NS;
	urxe_completer_arm(qp);
}

static void wait_for_room(struct urxe_qp *qp, const struct urxe_path *path, uint32_t qpn)
{
	urxe_engine_full(qp, path, qpn);
	urxe_requester_pause(qp);
}

/* The same for packets that were built: they are to be built again, from this one on. */
static void send_later(struct urxe_qp *qp, const struct urxe_path *path, unsigned i)
{
	const struct urxe_bth *bth = (const struct urxe_bth *)urxe_hca.tx[i].header;

	urxe_requester_rewind(qp, urxe_bth_psn(bth));
	wait_for_room(qp, path, urxe_bth_qpn(bth));
}

/* What UC and UD send is done when it has left; false when not all of it has. */
static bool send_unreliable(struct urxe_qp *qp, struct urxe_batch *batch)
{
	unsigned n = batch->n, sent = urxe_batch_send(batch);

	if (sent < n)
		send_later(qp, batch->path, sent);
	return sent == n;
}

static bool wqe_sent(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	return urxe_psn_diff(qp->proto.psn, wqe->last_psn) > 0;
}

/* Where the requester stands after a run. */
enum outcome {
	OUT_IDLE,   /* nothing left, or waiting for an event that will make it ready */
	OUT_WINDOW, /* the peer's window is full */
	OUT_ROOM,   /* a neighbour's ring is */
	OUT_PACED,  /* its rate is exhausted */
	OUT_FULL,   /* the batch is full: more to do */
	OUT_MORE,   /* built; go on */
};

/* Would the next packet find a neighbour's ring full? */
static bool no_room(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	bool asks = wr_is_read(wqe->opcode) || wr_is_atomic(wqe->opcode);
	uint32_t len = asks ? 0 : wqe->length - qp->proto.offset;

	return qp->near && urxe_wire_full(urxe_hca.wire, &qp->proto.path,
					  qp->proto.attr.dest_qp_num, len, may_refer(qp, wqe, len));
}

void urxe_requester_skip(struct urxe_qp *qp, struct urxe_send_wqe *wqe)
{
	wqe->started = true;
	wqe->done = true;
	wqe->first_psn = qp->proto.psn;
	wqe->last_psn = urxe_psn_add(qp->proto.psn, -1);
	sq_advance(&qp->sq);
}

/* A long run leaves at once: the neighbour copies it while the next one is copied. */
static bool ends_batch(const struct urxe_batch *batch)
{
	const struct urxe_tx_packet *last;

	if (!batch->n)
		return false;
	last = &urxe_hca.tx[batch->n - 1];
	return last->payload_len > URXE_COPY_MOST && !last->refer;
}

/* The next packet of the WR at the cursor. */
static enum outcome build_one(struct urxe_qp *qp, struct urxe_batch *batch)
{
	struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, qp->sq.send);
	bool reliable = qp->transport->reliable;
	struct urxe_tx_packet *pkt;

	if (!urxe_pace_admits(qp))
		return OUT_PACED;
	if (!wqe->started) {
		if (!may_start(qp, wqe))
			return OUT_IDLE;
		switch (wqe->by_packets || qp->proto.attr.rate_limit ? URXE_DIRECT_NO
								     : urxe_direct_run(qp, wqe)) {
		case URXE_DIRECT_DONE: urxe_requester_skip(qp, wqe); return OUT_MORE;
		case URXE_DIRECT_MORE: return OUT_FULL;
		case URXE_DIRECT_NO: break;
		}
		start_wqe(qp, wqe);
	}
	if (wqe->error || !wqe->started)
		return OUT_IDLE;
	if (wqe->done && wr_is_local(wqe->opcode)) {
		sq_advance(&qp->sq);
		return OUT_MORE;
	}
	if (reliable && (!urxe_peer_admits(qp) ||
			 urxe_psn_diff(qp->proto.psn, qp->proto.una) > URXE_PSN_WINDOW))
		return OUT_WINDOW;
	if (wr_is_answered(wqe->opcode) && qp->proto.rd_count >= qp->proto.attr.max_rd_atomic)
		return OUT_IDLE;
	if (qp->transport->addressed) {
		if (batch->n && !urxe_same_path(batch->path, &wqe->ud.path) &&
		    !send_unreliable(qp, batch))
			return OUT_IDLE;
		batch->path = &wqe->ud.path;
	}
	if (ends_batch(batch))
		return OUT_FULL;
	if (!batch->n && no_room(qp, wqe))
		return OUT_ROOM;
	pkt = urxe_batch_add(batch);
	if (!pkt)
		return OUT_FULL;
	if (wr_is_read(wqe->opcode)) {
		build_read(qp, wqe, pkt);
	} else if (wr_is_atomic(wqe->opcode)) {
		build_atomic(qp, wqe, pkt);
	} else if (!build_data(qp, wqe, batch, pkt)) {
		urxe_batch_undo(batch);
		wqe->error = IBV_WC_LOC_PROT_ERR;
		return OUT_IDLE;
	}
	if (wqe_sent(qp, wqe)) {
		sq_advance(&qp->sq);
		qp->proto.offset = 0;
		if (!reliable)
			wqe->done = true;
	}
	return OUT_MORE;
}

static void request_ack(struct urxe_tx_packet *pkt)
{
	struct urxe_bth *bth = (struct urxe_bth *)pkt->header;

	bth->psn |= htobe32(URXE_BTH_ACKREQ);
}

void urxe_requester_start_clocks(struct urxe_qp *qp)
{
	urxe_engine_clock();
	qp->progress_at = urxe_hca.now;
	qp->probes = 0;
}

static void send_reliable(struct urxe_qp *qp, struct urxe_batch *batch)
{
	unsigned n = batch->n, sent;
	bool with_ack;

	for (unsigned i = ACK_EVERY - 1; i < n; i += ACK_EVERY)
		request_ack(&urxe_hca.tx[i]);
	request_ack(&urxe_hca.tx[n - 1]);
	if (urxe_psn_diff(qp->proto.psn, qp->proto.max_psn) > 0) {
		if (!qp->rtt_start) {
			qp->rtt_start = urxe_hca.now;
			qp->rtt_psn = urxe_psn_add(qp->proto.psn, -1);
		}
		qp->proto.max_psn = qp->proto.psn;
	}
	/* What the program answers with and the acknowledgement of what it answers leave
	 * together. */
	with_ack = qp->ack_later && urxe_responder_add_ack(qp, batch);
	sent = urxe_batch_send(batch);
	if (with_ack && sent <= n)
		qp->proto.ack_due = true;
	if (sent < n)
		send_later(qp, batch->path, sent);
	else
		urxe_completer_arm(qp);
}

bool urxe_requester_has_work(const struct urxe_qp *qp)
{
	return atomic_load_explicit(&qp->sq.send, memory_order_relaxed) !=
	       atomic_load(&qp->sq.head);
}

bool urxe_requester_may_run(struct urxe_qp *qp)
{
	int state = atomic_load(&qp->proto.state);

	if (qp->overrun) {
		qp->overrun = false;
		urxe_qp_fail(qp, IBV_EVENT_QP_FATAL);
		state = IBV_QPS_ERR;
	}
	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE) {
		urxe_qp_flush(qp);
		return false;
	}
	return (state == IBV_QPS_RTS || state == IBV_QPS_SQD) && !qp->rnr_until &&
	       urxe_requester_has_work(qp) && urxe_pace_wait(qp);
}

void urxe_requester_run(struct urxe_qp *qp)
{
	bool reliable = qp->transport->reliable;
	enum outcome out = OUT_IDLE;
	struct urxe_batch batch;

	if (!urxe_requester_may_run(qp))
		return;
	urxe_engine_look_near(qp);
	/* Not when a retry has moved back: its own packets would put the timeout off for ever. */
	if (reliable && qp->proto.una == qp->proto.psn && qp->proto.psn == qp->proto.max_psn)
		urxe_requester_start_clocks(qp);
	urxe_batch_begin(&batch, &qp->proto.path);
	while (urxe_requester_has_work(qp)) {
		out = build_one(qp, &batch);
		if (out != OUT_MORE)
			break;
		out = OUT_IDLE;
	}
	if (reliable && batch.n)
		send_reliable(qp, &batch);
	else if (batch.n)
		send_unreliable(qp, &batch);
	if (!urxe_requester_has_work(qp))
		urxe_pace_idle(qp);
	urxe_set_flying(qp, reliable && qp->proto.una != qp->proto.psn);
	urxe_completer_retire(qp);
	if (out == OUT_WINDOW)
		urxe_peer_wait(qp);
	else if (out == OUT_ROOM)
		wait_for_room(qp, &qp->proto.path, qp->proto.attr.dest_qp_num);
	else if (out == OUT_FULL || out == OUT_PACED)
		urxe_engine_ready(qp);
}

/* WRs of UC and UD that counted as sent when their last packet was built. */
static void not_done_from(struct urxe_qp *qp, uint32_t i)
{
	for (; i != atomic_load(&qp->sq.head) && sq_wqe(&qp->sq, i)->started; i++)
		if (!wr_is_local(sq_wqe(&qp->sq, i)->opcode))
			sq_wqe(&qp->sq, i)->done = false;
}

/* Moves the cursor to a PSN that was already given out, or to the end of those. */
void urxe_requester_rewind(struct urxe_qp *qp, uint32_t psn)
{
	uint32_t head = atomic_load(&qp->sq.head), i = atomic_load(&qp->sq.tail);

	urxe_peer_forget(qp);
	while (qp->proto.rd_count &&
	       urxe_psn_diff(qp->rd_ends[(qp->proto.rd_first + qp->proto.rd_count - 1) %
					 qp->proto.rd_size],
			     psn) >= 0)
		qp->proto.rd_count--;
	qp->proto.psn = psn;
	qp->proto.offset = 0;
	qp->rtt_start = 0;
	for (; i != head; i++) {
		const struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, i);

		if (!wqe->started || wqe->error)
			break;
		if (wr_is_local(wqe->opcode))
			continue;
		if (urxe_psn_diff(psn, wqe->last_psn) <= 0) {
			int32_t into = urxe_psn_diff(psn, wqe->first_psn);

			qp->proto.offset = into > 0 ? (uint32_t)into * qp->proto.mtu : 0;
			break;
		}
	}
	qp->sq.send = i;
	if (!qp->transport->reliable)
		not_done_from(qp, i);
}

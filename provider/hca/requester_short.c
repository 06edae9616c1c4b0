/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The requester's short way. A program that sends one small message and waits for the answer pays
 * for every step: so a SEND that is alone in its queue, of one packet, to a neighbour, is written
 * into the neighbour's ring where it will lie, with the acknowledgement that waits behind it. What
 * it does is what requester.c does for such a WR; anything that is not so simple (a retry, a fence,
 * a full ring, faults, a key that does not fit) is left to that. One-sided WRs that can be carried
 * out directly go the same way.
 */
#include <string.h>

#include "hca/completer.h"
#include "hca/engine.h"
#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "hca/requester.h"
#include "hca/responder.h"

/* Is there one WR, which has not begun, on a QP that sends without a hitch? */
static bool is_simple(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, uint32_t send)
{
	return qp->near && atomic_load_explicit(&qp->sq.head, memory_order_acquire) - send == 1 &&
	       !wqe->started && qp->proto.psn == qp->proto.max_psn && !qp->rnr_until &&
	       !qp->proto.attr.rate_limit && !qp->overrun &&
	       atomic_load_explicit(&qp->proto.state, memory_order_relaxed) == IBV_QPS_RTS &&
	       qp->transport->service == URXE_SERVICE_RC &&
	       !(wqe->flags & IBV_SEND_FENCE && qp->proto.rd_count) &&
	       (qp->ack_later || cds_list_empty(&qp->ready_node)) &&
	       urxe_psn_diff(qp->proto.psn, qp->proto.una) < URXE_PSN_WINDOW;
}

/* Writes the message's packet; returns how many bytes it has. */
static uint32_t put_message(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe, bool imm,
			    const struct iovec *iov, int pieces, uint8_t *to)
{
	uint32_t pad = urxe_pad_of(wqe->length);
	uint8_t *at = to + sizeof(struct urxe_bth);

	urxe_bth_fill((struct urxe_bth *)to, imm ? URXE_RC_SEND_ONLY_IMM : URXE_RC_SEND_ONLY,
		      qp->proto.migreq | (wqe->flags & IBV_SEND_SOLICITED ? URXE_BTH_SE : 0), pad,
		      urxe_qp_pkey(qp), qp->proto.attr.dest_qp_num, true, qp->proto.psn);
	if (imm) {
		memcpy(at, &wqe->imm, sizeof(wqe->imm));
		at += sizeof(wqe->imm);
	}
	for (int i = 0; i < pieces; i++) {
		memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	memset(at, 0, pad);
	return at + pad - to;
}

static void has_left(struct urxe_qp *qp, struct urxe_send_wqe *wqe)
{
	if (qp->proto.una == qp->proto.psn)
		urxe_requester_start_clocks(qp);
	if (!qp->rtt_start) {
		qp->rtt_start = urxe_hca.now;
		qp->rtt_psn = qp->proto.psn;
	}
	wqe->started = true;
	wqe->first_psn = wqe->last_psn = qp->proto.psn;
	qp->proto.psn = qp->proto.max_psn = urxe_psn_add(qp->proto.psn, 1);
	sq_advance(&qp->sq);
	qp->direct.behind_packets = true;
	urxe_set_flying(qp, true);
	urxe_completer_arm(qp);
}

static bool send_short(struct urxe_qp *qp, struct urxe_send_wqe *wqe)
{
	bool imm = wqe->opcode == IBV_WR_SEND_WITH_IMM;
	uint32_t first = sizeof(struct urxe_bth) + (imm ? sizeof(wqe->imm) : 0) + wqe->length +
			 urxe_pad_of(wqe->length);
	bool with_ack = qp->ack_later && first + URXE_ACK_LEN <= URXE_PAIR_MAX &&
			urxe_responder_ack_alone(qp);
	uint32_t len = first + (with_ack ? URXE_ACK_LEN : 0);
	int pieces = urxe_gather(qp, wqe, 0, wqe->length, 0, urxe_hca.iov);
	struct urxe_short way;
	uint8_t *to;

	if (pieces < 0)
		return false;
	to = urxe_wire_short(urxe_hca.wire, &qp->proto.path, qp->proto.attr.dest_qp_num, len, &way);
	if (!to)
		return false;
	to += put_message(qp, wqe, imm, urxe_hca.iov, pieces, to);
	if (urxe_memory_lost())
		return false;
	if (with_ack) {
		urxe_responder_put_ack(qp, to);
		cds_list_del_init(&qp->ready_node);
		qp->ack_later = false;
	}
	urxe_wire_short_send(urxe_hca.wire, &qp->proto.path, &way, first, len);
	has_left(qp, wqe);
	if (qp->ack_later)
		urxe_engine_send_ack(qp); /* it did not fit, and goes by itself */
	return true;
}

bool urxe_requester_short(struct urxe_qp *qp)
{
	uint32_t send = atomic_load_explicit(&qp->sq.send, memory_order_relaxed);
	struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, send);

	if (!is_simple(qp, wqe, send))
		return false;
	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM: return wqe->length <= qp->proto.mtu && send_short(qp, wqe);
	default: break;
	}
	switch (urxe_direct_run(qp, wqe)) {
	case URXE_DIRECT_DONE: break;
	case URXE_DIRECT_MORE: return false;
	case URXE_DIRECT_NO: wqe->by_packets = true; return false;
	}
	urxe_requester_skip(qp, wqe);
	urxe_completer_retire(qp);
	return true;
}

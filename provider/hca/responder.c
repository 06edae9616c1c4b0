/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder of RC (IBTA vol. 1, 9.6, 9.7.4, 9.7.5): takes request packets in the standard's
 * order of checks, has them executed, and queues the answers. Under the engine lock.
 *
 * Answers leave in PSN order: the data of reads and the results of atomics wait in a ring, and one
 * acknowledgement, the newest, goes before or behind them. Results of atomics are kept beside it,
 * so that a repeated one is answered and not executed again.
 */
#include <string.h>

#include "hca/responder.h"
#include "host/log.h"

#define IN_ORDER_MAX (1u << 20) /* bytes of reads that later requests wait for */

static void set_ack(struct urxe_qp *qp, uint8_t syndrome, uint32_t psn)
{
	qp->proto.ack_due = true;
	qp->proto.ack_syndrome = syndrome;
	qp->proto.ack_psn = psn;
}

static void queue_ack(struct urxe_qp *qp, uint32_t psn)
{
	set_ack(qp, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, psn);
	urxe_engine_ack_waits(qp);
}

void urxe_responder_acknowledge(struct urxe_qp *qp)
{
	if (qp->transport->reliable && qp->transport->request && !qp->proto.ack_due)
		queue_ack(qp, qp->proto.executed_psn);
}

static void queue_nak(struct urxe_qp *qp, uint8_t syndrome, uint32_t psn)
{
	set_ack(qp, syndrome, psn);
	urxe_engine_ready(qp);
}

bool urxe_sequence_ok(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	bool inside = qp->proto.last_opcode != URXE_NUM_OPCODES;
	struct urxe_opmask last;

	if (urxe_op_any(pkt->mask, URXE_OP_START) || urxe_op_any(pkt->mask, URXE_OP_ANSWERED))
		return !inside;
	if (!inside)
		return false;
	last = urxe_opcodes[qp->proto.last_opcode].mask;
	return urxe_op_any(last, URXE_OP_SEND) == urxe_op_any(pkt->mask, URXE_OP_SEND);
}

/* Drops the answers that wait, from psn on: the peer asks for all of it again. */
static void forget_answers(struct urxe_qp *qp, uint32_t psn)
{
	while (urxe_answers_wait(qp)) {
		struct urxe_response *newest = urxe_response_at(qp, qp->proto.response_head - 1);

		if (urxe_psn_diff(newest->last_psn, psn) < 0)
			return;
		if (urxe_psn_diff(newest->next_psn, psn) < 0) {
			newest->last_psn = urxe_psn_add(psn, -1);
			return;
		}
		qp->proto.response_head--;
	}
}

void urxe_responder_refuse_repeated(struct urxe_qp *qp, uint32_t psn)
{
	queue_nak(qp, URXE_AETH_NAK | URXE_NAK_REMOTE_ACCESS, psn);
}

/* A read that is asked for again is answered again, if all of it was asked for before. */
static void repeat_read(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	uint32_t len = urxe_reth_length(pkt->reth);
	uint32_t end = urxe_psn_add(psn, urxe_packets_of(qp, len));

	if (urxe_psn_diff(end, qp->proto.epsn) > 0 || len > (uint64_t)qp->proto.mtu << 23)
		return;
	if (urxe_execute_read(qp, pkt, psn) == URXE_ACCESS)
		urxe_responder_refuse_repeated(qp, psn);
}

/* An atomic that was executed is not executed again: its result was kept (9.7.5.1.3). */
static void repeat_atomic(struct urxe_qp *qp, uint32_t psn)
{
	for (unsigned i = 0; i < qp->proto.atomic_size; i++) {
		if (qp->atomics[i].valid && qp->atomics[i].psn == psn) {
			urxe_queue_atomic(qp, &qp->atomics[i], qp->proto.msn);
			return;
		}
	}
}

/*
 * A request that was executed before (9.7.5.1.3). The peer has gone back to it, and will repeat
 * all that follows: answers that were not sent yet are forgotten. The acknowledgement of a SEND or
 * WRITE names the last of those, never the PSN of a read or atomic, whose answer may be missing.
 */
static void rc_duplicate(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	urxe_count(qp->port, URXE_CNT_DUP_REQ);
	if (!urxe_permits(qp, pkt))
		return;
	if (!urxe_op_any(pkt->mask, URXE_OP_ANSWERED)) {
		/* A NAK that waits to be sent says as much, and more. */
		if (!qp->proto.ack_due)
			queue_ack(qp, qp->proto.executed_psn);
		return;
	}
	forget_answers(qp, psn);
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		repeat_read(qp, pkt, psn);
	else if (urxe_op_any(pkt->mask, URXE_OP_ATOMIC_WRITE))
		urxe_queue_done(qp, psn, qp->proto.msn);
	else
		repeat_atomic(qp, psn);
}

/*
 * Data of a read is fetched when it is sent. A request that follows a read could change it, or take
 * away the window that it goes through: the standard leaves that order to a fence, but what waits
 * is sent first, as an adapter that works in order would. Of very long reads this is not promised.
 * False: the peer has no room for it now.
 */
static bool send_reads_first(struct urxe_qp *qp)
{
	uint64_t waiting = 0;

	for (uint16_t i = qp->proto.response_send; i != qp->proto.response_head; i++)
		waiting += urxe_response_at(qp, i)->length;
	if (waiting > IN_ORDER_MAX)
		return true;
	while (urxe_answers_wait(qp) && urxe_responder_run(qp))
		;
	return !urxe_answers_wait(qp);
}

void urxe_responder_refuse(struct urxe_qp *qp, enum urxe_verdict verdict, uint32_t psn)
{
	static const struct {
		uint8_t nak;
		int event;
	} how[] = {
		[URXE_INVALID] = {URXE_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR},
		[URXE_ACCESS] = {URXE_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR},
		[URXE_OPERATIONAL] = {URXE_NAK_REMOTE_OPERATIONAL, 0},
	};

	urxe_log(URXE_LOG_DEBUG, "QP 0x%06x: request with PSN 0x%06x refused, NAK code %u",
		 qp->proto.qpn, psn, how[verdict].nak);
	queue_nak(qp, URXE_AETH_NAK | how[verdict].nak, psn);
	urxe_responder_run(qp);
	urxe_qp_fail(qp, how[verdict].event);
}

void urxe_responder_executed(struct urxe_qp *qp, bool asks, uint32_t psn)
{
	if (qp->proto.ack_due &&
	    qp->proto.ack_syndrome == (URXE_AETH_NAK | URXE_NAK_PSN_SEQUENCE)) {
		qp->proto.ack_psn = qp->proto.epsn;
		return;
	}
	qp->proto.nak_sent = false;
	if (asks)
		queue_ack(qp, psn);
}

/* Takes n packets that were executed before off the beginning of a run. */
static bool trim(const struct urxe_qp *qp, struct urxe_packet *pkt, uint32_t n)
{
	static const uint8_t rest[] = {
		[URXE_RC_SEND_FIRST] = URXE_RC_SEND_MIDDLE,
		[URXE_RC_SEND_ONLY] = URXE_RC_SEND_LAST,
		[URXE_RC_SEND_ONLY_IMM] = URXE_RC_SEND_LAST_IMM,
		[URXE_RC_SEND_ONLY_INV] = URXE_RC_SEND_LAST_INV,
		[URXE_RC_WRITE_FIRST] = URXE_RC_WRITE_MIDDLE,
		[URXE_RC_WRITE_ONLY] = URXE_RC_WRITE_LAST,
		[URXE_RC_WRITE_ONLY_IMM] = URXE_RC_WRITE_LAST_IMM,
	};
	uint32_t bytes = n * qp->proto.mtu;

	if (!urxe_op_any(pkt->mask, URXE_OP_SEND | URXE_OP_WRITE) || pkt->payload_len <= bytes)
		return false;
	if (urxe_op_any(pkt->mask, URXE_OP_START)) {
		pkt->opcode = rest[pkt->opcode & ~URXE_SERVICE_MASK] + qp->transport->service;
		pkt->mask = urxe_opcodes[pkt->opcode].mask;
		pkt->reth = NULL;
	}
	pkt->span -= n;
	pkt->payload_len -= bytes;
	if (pkt->refs)
		pkt->refs_offset += bytes;
	else
		pkt->payload += bytes;
	return true;
}

void urxe_rc_request(struct urxe_qp *qp, const struct urxe_packet *whole,
		     const struct urxe_rx_packet *rx)
{
	struct urxe_packet part = *whole;
	const struct urxe_packet *pkt = &part;
	uint32_t psn = urxe_bth_psn(pkt->bth), last = urxe_psn_add(psn, pkt->span - 1), next;
	int32_t ahead = urxe_psn_diff(psn, qp->proto.epsn);
	enum urxe_verdict verdict;

	if (urxe_psn_diff(last, qp->proto.epsn) < 0) {
		rc_duplicate(qp, pkt, psn);
		return;
	}
	if (ahead < 0) {
		urxe_count(qp->port, URXE_CNT_DUP_REQ);
		if (!trim(qp, &part, -ahead))
			return;
		psn = qp->proto.epsn;
	}
	if (ahead > 0) {
		urxe_count(qp->port, URXE_CNT_OUT_OF_SEQ_REQ);
		if (!qp->proto.nak_sent) {
			qp->proto.nak_sent = true;
			queue_nak(qp, URXE_AETH_NAK | URXE_NAK_PSN_SEQUENCE, qp->proto.epsn);
		}
		return;
	}
	if (urxe_answers_wait(qp) && !urxe_op_any(pkt->mask, URXE_OP_READ_REQ) &&
	    !send_reads_first(qp) && pkt->ieth)
		return; /* it would take their window away: it comes again */
	if (atomic_load(&qp->proto.state) == IBV_QPS_ERR)
		return; /* what waited could not be read any more */
	verdict = urxe_sequence_ok(qp, pkt) ? urxe_execute(qp, pkt, psn) : URXE_INVALID;
	if (verdict == URXE_RNR) {
		urxe_count(qp->port, URXE_CNT_SND_RNR);
		qp->proto.nak_sent = true;
		queue_nak(qp, URXE_AETH_RNR_NAK | qp->proto.attr.min_rnr_timer, psn);
		return;
	}
	if (verdict == URXE_LOST)
		return;
	if (verdict != URXE_DONE) {
		urxe_responder_refuse(qp, verdict, psn);
		return;
	}
	if (urxe_op_any(pkt->mask, URXE_OP_END)) {
		qp->proto.msn = (qp->proto.msn + 1) & URXE_PSN_MASK;
		qp->proto.last_opcode = URXE_NUM_OPCODES;
	} else {
		qp->proto.last_opcode = pkt->opcode;
	}
	next = urxe_psn_add(last, 1);
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		next = urxe_psn_add(psn, urxe_packets_of(qp, urxe_reth_length(pkt->reth)));
	else if (!urxe_op_any(pkt->mask, URXE_OP_ANSWERED))
		qp->proto.executed_psn = last;
	urxe_responder_expect(qp, next);
	/* Those that carry an answer have that. */
	urxe_responder_executed(qp,
				!urxe_op_any(pkt->mask, URXE_OP_ANSWERED) &&
					(urxe_bth_ackreq(pkt->bth) || qp->proto.ack_due),
				last);
}

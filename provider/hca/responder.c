/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder (IBTA vol. 1, 9.6, 9.7.4, 9.7.5, 9.8.3): takes request packets in the standard's order
 * of checks, has them executed, and owes the answers. Under the engine lock.
 *
 * Answers leave in PSN order: the data of reads and the results of atomics wait in a ring, and one
 * acknowledgement, the newest, goes before or behind them. Results of atomics are kept beside it, so that a
 * repeated one is answered and not executed again.
 */
#include <string.h>

#include "hca/responder.h"
#include "host/log.h"

#define UC_LATE	     (1 << 16)	/* PSNs */
#define IN_ORDER_MAX (1u << 20) /* bytes of reads that later requests wait for */

static void set_ack(struct urxe_qp *qp, uint8_t syndrome, uint32_t psn)
{
	qp->ack_due = true;
	qp->ack_syndrome = syndrome;
	qp->ack_psn = psn;
}

static void owe_ack(struct urxe_qp *qp, uint32_t psn)
{
	set_ack(qp, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, psn);
	urxe_engine_owing(qp);
}

static void owe(struct urxe_qp *qp, uint8_t syndrome, uint32_t psn)
{
	set_ack(qp, syndrome, psn);
	urxe_engine_ready(qp);
}

/* Does this packet continue what came before (9.7.4.1.2)? */
static bool sequence_ok(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	bool inside = qp->last_opcode != URXE_NUM_OPCODES;
	struct urxe_opmask last;

	if (urxe_op_any(pkt->mask, URXE_OP_START) ||
	    urxe_op_any(pkt->mask, URXE_OP_READ_REQ | URXE_OP_ATOMIC))
		return !inside;
	if (!inside)
		return false;
	last = urxe_opcodes[qp->last_opcode].mask;
	return urxe_op_any(last, URXE_OP_SEND) == urxe_op_any(pkt->mask, URXE_OP_SEND);
}

/* ---- RC ---- */

/* Drops what is owed from psn on: the peer asks for all of it again. */
static void forget_answers(struct urxe_qp *qp, uint32_t psn)
{
	while (qp->response_head != qp->response_send) {
		struct urxe_response *newest = urxe_response_at(qp, qp->response_head - 1);

		if (urxe_psn_diff(newest->last_psn, psn) < 0)
			return;
		if (urxe_psn_diff(newest->next_psn, psn) < 0) {
			newest->last_psn = urxe_psn_add(psn, -1);
			return;
		}
		qp->response_head--;
	}
}

/* A read that is asked for again is answered again, if all of it was asked for before. */
static void repeat_read(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	uint32_t len = urxe_reth_length(pkt->reth);
	uint32_t end = urxe_psn_add(psn, len ? (len - 1) / qp->mtu + 1 : 1);

	if (urxe_psn_diff(end, qp->epsn) > 0 || len > (uint64_t)qp->mtu << 23)
		return;
	if (urxe_execute_read(qp, pkt, psn) == URXE_ACCESS)
		owe(qp, URXE_AETH_NAK | URXE_NAK_REMOTE_ACCESS, psn);
}

/* An atomic that was executed is not executed again: its result was kept (9.7.5.1.3). */
static void repeat_atomic(struct urxe_qp *qp, uint32_t psn)
{
	for (unsigned i = 0; i < qp->atomic_size; i++) {
		if (qp->atomics[i].valid && qp->atomics[i].psn == psn) {
			urxe_owe_atomic(qp, &qp->atomics[i]);
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
	urxe_count(qp->dev, URXE_CNT_DUP_REQ);
	if (!urxe_permits(qp, pkt))
		return;
	if (!urxe_op_any(pkt->mask, URXE_OP_READ_REQ | URXE_OP_ATOMIC)) {
		/* A NAK that waits to be sent says as much, and more. */
		if (!qp->ack_due)
			owe_ack(qp, qp->executed_psn);
		return;
	}
	forget_answers(qp, psn);
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		repeat_read(qp, pkt, psn);
	else
		repeat_atomic(qp, psn);
}

/*
 * Data of a read is fetched when it is sent. A request that follows a read could change it, or take
 * away the window that it goes through: the standard leaves that order to a fence, but what is owed
 * is sent first, as an adapter that works in order would. Of very long reads this is not promised.
 */
static void send_reads_first(struct urxe_qp *qp)
{
	uint64_t owed = 0;

	for (uint16_t i = qp->response_send; i != qp->response_head; i++)
		owed += urxe_response_at(qp, i)->length;
	if (owed > IN_ORDER_MAX)
		return;
	while (qp->response_send != qp->response_head && urxe_responder_run(qp))
		;
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

	urxe_log(URXE_LOG_DEBUG, "QP 0x%06x: request with PSN 0x%06x refused, NAK code %u", qp->qpn,
		 psn, how[verdict].nak);
	owe(qp, URXE_AETH_NAK | how[verdict].nak, psn);
	urxe_responder_run(qp);
	urxe_qp_fail(qp, how[verdict].event);
}

void urxe_responder_executed(struct urxe_qp *qp, bool asks, uint32_t psn)
{
	if (qp->ack_due && qp->ack_syndrome == (URXE_AETH_NAK | URXE_NAK_PSN_SEQUENCE)) {
		qp->ack_psn = qp->epsn;
		return;
	}
	qp->nak_sent = false;
	if (asks)
		owe_ack(qp, psn);
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
	uint32_t bytes = n * qp->mtu;

	if (!urxe_op_any(pkt->mask, URXE_OP_SEND | URXE_OP_WRITE) || pkt->payload_len <= bytes)
		return false;
	if (urxe_op_any(pkt->mask, URXE_OP_START)) {
		pkt->opcode = (enum urxe_opcode)rest[pkt->opcode];
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

static void rc_request(struct urxe_qp *qp, const struct urxe_packet *whole)
{
	struct urxe_packet part = *whole;
	const struct urxe_packet *pkt = &part;
	uint32_t psn = urxe_bth_psn(pkt->bth), last = urxe_psn_add(psn, pkt->span - 1);
	int32_t ahead = urxe_psn_diff(psn, qp->epsn);
	enum urxe_verdict verdict;

	if (urxe_psn_diff(last, qp->epsn) < 0) {
		rc_duplicate(qp, pkt, psn);
		return;
	}
	if (ahead < 0) {
		urxe_count(qp->dev, URXE_CNT_DUP_REQ);
		if (!trim(qp, &part, -ahead))
			return;
		psn = qp->epsn;
	}
	if (ahead > 0) {
		urxe_count(qp->dev, URXE_CNT_OUT_OF_SEQ_REQ);
		if (!qp->nak_sent) {
			qp->nak_sent = true;
			owe(qp, URXE_AETH_NAK | URXE_NAK_PSN_SEQUENCE, qp->epsn);
		}
		return;
	}
	if (qp->response_send != qp->response_head && !urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		send_reads_first(qp);
	if (atomic_load(&qp->state) == IBV_QPS_ERR)
		return; /* what was owed could not be read any more */
	verdict = sequence_ok(qp, pkt) ? urxe_execute(qp, pkt, psn) : URXE_INVALID;
	if (verdict == URXE_RNR) {
		urxe_count(qp->dev, URXE_CNT_SND_RNR);
		qp->nak_sent = true;
		owe(qp, URXE_AETH_RNR_NAK | qp->attr.min_rnr_timer, psn);
		return;
	}
	if (verdict == URXE_LOST)
		return;
	if (verdict != URXE_DONE) {
		urxe_responder_refuse(qp, verdict, psn);
		return;
	}
	if (urxe_op_any(pkt->mask, URXE_OP_END)) {
		qp->msn = (qp->msn + 1) & URXE_PSN_MASK;
		qp->last_opcode = URXE_NUM_OPCODES;
	} else {
		qp->last_opcode = pkt->opcode;
	}
	qp->epsn = urxe_psn_add(last, 1);
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ)) {
		uint32_t len = urxe_reth_length(pkt->reth);

		qp->epsn = urxe_psn_add(psn, len ? (len - 1) / qp->mtu + 1 : 1);
	} else if (!urxe_op_any(pkt->mask, URXE_OP_ATOMIC)) {
		qp->executed_psn = last;
	}
	/* Those that carry an answer have that. */
	urxe_responder_executed(qp,
				!urxe_op_any(pkt->mask, URXE_OP_READ_REQ | URXE_OP_ATOMIC) &&
					(urxe_bth_ackreq(pkt->bth) || qp->ack_due),
				last);
}

/* ---- UC ---- */

/* A lost packet loses its message, silently; the next first packet starts anew (9.8.2.2). */
static void uc_request(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	uint32_t psn = urxe_bth_psn(pkt->bth);

	int32_t ahead = urxe_psn_diff(psn, qp->epsn);

	/* Just behind what was received: a duplicate, or too late to be in order. Far behind, and
	 * before the first packet, it is a peer that counts from elsewhere. */
	if (qp->uc_received && ahead < 0 && ahead > -UC_LATE)
		return;
	qp->uc_received = true;
	if (urxe_op_any(pkt->mask, URXE_OP_START)) {
		qp->drop_message = false;
		qp->last_opcode = URXE_NUM_OPCODES;
		qp->recv_offset = 0;
	} else if (psn != qp->epsn) {
		qp->drop_message = true;
	}
	qp->epsn = urxe_psn_add(psn, pkt->span);
	if (qp->drop_message)
		return;
	if (!sequence_ok(qp, pkt) || urxe_execute(qp, pkt, psn) != URXE_DONE) {
		qp->drop_message = true;
		qp->last_opcode = URXE_NUM_OPCODES;
		return;
	}
	qp->last_opcode = urxe_op_any(pkt->mask, URXE_OP_END) ? URXE_NUM_OPCODES : pkt->opcode;
}

/* ---- UD ---- */

/* RFC 1071, over a header of 20 bytes whose checksum field is zero. */
static uint16_t ip_checksum(const uint8_t *header)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < 20; i += 2)
		sum += header[i] << 8 | header[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void put16(uint8_t *at, uint16_t value)
{
	at[0] = value >> 8;
	at[1] = value;
}

/* The 40 bytes before a UD payload: a GRH, or an IPv4 header in the last 20 of them (A17.4.3). */
static void fill_grh(uint8_t grh[40], const struct urxe_rx_packet *rx)
{
	uint16_t udp_len = 8 + rx->len + URXE_ICRC_LEN;

	memset(grh, 0, 40);
	if (IN6_IS_ADDR_V4MAPPED(&rx->sgid)) {
		uint8_t *ip = grh + 20;

		ip[0] = 0x45;
		ip[1] = rx->traffic_class;
		put16(ip + 2, 20 + udp_len);
		put16(ip + 6, 0x4000);
		ip[8] = rx->hop_limit;
		ip[9] = IPPROTO_UDP;
		memcpy(ip + 12, &rx->sgid.s6_addr[12], 4);
		memcpy(ip + 16, &rx->dgid.s6_addr[12], 4);
		put16(ip + 10, ip_checksum(ip));
		return;
	}
	struct urxe_grh *h = (struct urxe_grh *)grh;

	urxe_grh_set_class(h, rx->traffic_class, 0);
	h->payload_len = htobe16(udp_len);
	h->next_header = IPPROTO_UDP;
	h->hop_limit = rx->hop_limit;
	h->sgid = rx->sgid;
	h->dgid = rx->dgid;
}

/*
 * RoCE has no SL. What stands in its place says of which kind the header before the payload is (A17.4.5.1 asks
 * for that, and ibv_wc has no field for it): these are the values of mlx5 and hns, and UCX up to 1.17 drops
 * what does not have them.
 */
#define WC_SL_IPV6 1
#define WC_SL_IPV4 2

static void ud_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		       const struct urxe_rx_packet *rx)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.wc_flags = IBV_WC_GRH,
		.sl = IN6_IS_ADDR_V4MAPPED(&rx->sgid) ? WC_SL_IPV4 : WC_SL_IPV6,
		.solicited = urxe_bth_se(pkt->bth),
	};
	uint8_t grh[40];

	if (urxe_deth_qkey(pkt->deth) != qp->attr.qkey || pkt->payload_len > qp->mtu)
		return;
	if (!urxe_recv_take(qp))
		return;
	qp->recv_offset = 0;
	fill_grh(grh, rx);
	if (qp->recv_wqe->length < sizeof(grh) + pkt->payload_len) {
		urxe_recv_failed(qp, IBV_WC_LOC_LEN_ERR);
		return;
	}
	if (urxe_recv_data(qp, grh, sizeof(grh)) != IBV_WC_SUCCESS ||
	    urxe_recv_data(qp, pkt->payload, pkt->payload_len) != IBV_WC_SUCCESS) {
		urxe_recv_failed(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	cqe.byte_len = qp->recv_offset;
	cqe.src_qp = urxe_deth_sqp(pkt->deth);
	if (pkt->imm) {
		cqe.wc_flags |= IBV_WC_WITH_IMM;
		cqe.imm = pkt->imm->imm;
	}
	urxe_recv_complete(qp, &cqe);
}

void urxe_responder_packet(struct urxe_qp *qp, const struct urxe_packet *pkt,
			   const struct urxe_rx_packet *rx)
{
	switch (qp->ibv.qp_type) {
	case IBV_QPT_RC: rc_request(qp, pkt); break;
	case IBV_QPT_UC: uc_request(qp, pkt); break;
	default: ud_request(qp, pkt, rx); break;
	}
}

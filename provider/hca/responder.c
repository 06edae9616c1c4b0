/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder (IBTA vol. 1, 9.6, 9.7.4, 9.7.5, 9.8.3): executes request packets, in the standard's
 * order of checks, and owes the answers. Under the engine lock.
 *
 * Answers leave in PSN order: the data of reads and the results of atomics wait in a ring, and one
 * acknowledgement, the newest, goes before or behind them. Results of atomics are kept beside it, so that a
 * repeated one is answered and not executed again.
 */
#include <string.h>

#include "hca/batch.h"
#include "hca/engine.h"
#include "hca/memory.h"
#include "host/log.h"

#define UC_LATE	      (1 << 16)	 /* PSNs */
#define IN_ORDER_MAX  (1u << 20) /* bytes of reads that later requests wait for */
#define FULL_RETRY_NS 200000	 /* when the socket was full */

/* What became of a request packet. */
enum verdict {
	DONE,	     /* executed, or part of a message */
	DROP,	     /* silently */
	LOST,	     /* as if it had never come */
	RNR,	     /* no receive WR */
	INVALID,     /* NAK: invalid request */
	ACCESS,	     /* NAK: remote access error */
	OPERATIONAL, /* NAK: remote operational error */
};

static struct urxe_response *response(const struct urxe_qp *qp, uint16_t index)
{
	return &qp->responses[index % qp->response_size];
}

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

/* ---- receiving into a receive WR ---- */

static bool take_recv(struct urxe_qp *qp)
{
	struct urxe_srq *srq = qp->srq;

	if (qp->recv_busy)
		return true;
	if (!urxe_rq_take(srq ? &srq->rq : &qp->rq, qp->recv_wqe))
		return false;
	qp->recv_busy = true;
	qp->recv_offset = 0;
	if (srq && srq->limit) {
		bool below;

		pthread_mutex_lock(&srq->rq.lock);
		below = srq->limit && urxe_rq_count(&srq->rq) < srq->limit;
		if (below)
			srq->limit = 0;
		pthread_mutex_unlock(&srq->rq.lock);
		if (below)
			urxe_event_srq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	return true;
}

/* Where len bytes at the place reached in the receive buffer go: *n pieces of our memory. */
static enum ibv_wc_status recv_pieces(struct urxe_qp *qp, uint32_t len, struct iovec *iov,
				      unsigned *n)
{
	struct urxe_recv_wqe *wqe = qp->recv_wqe;
	uint32_t skip = qp->recv_offset;

	*n = 0;
	if (len > wqe->length - skip)
		return IBV_WC_LOC_LEN_ERR;
	for (unsigned i = 0; i < wqe->num_sge && len; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t piece;
		uint64_t va;

		if (skip >= sge->length) {
			skip -= sge->length;
			continue;
		}
		piece = sge->length - skip < len ? sge->length - skip : len;
		if (!urxe_reach(qp, sge->lkey, sge->addr + skip, piece, MEMPOOL_LOCAL_WRITE, false,
				&va))
			return IBV_WC_LOC_PROT_ERR;
		iov[(*n)++] = (struct iovec){(void *)(uintptr_t)va, piece};
		len -= piece;
		skip = 0;
	}
	return IBV_WC_SUCCESS;
}

/* Writes to the receive buffer; a status other than success is the local error that stops it. */
static enum ibv_wc_status recv_data(struct urxe_qp *qp, const void *data, uint32_t len)
{
	struct iovec iov[URXE_MAX_SGE];
	const uint8_t *from = data;
	unsigned n;
	enum ibv_wc_status status = recv_pieces(qp, len, iov, &n);

	if (status != IBV_WC_SUCCESS)
		return status;
	for (unsigned i = 0; i < n; i++) {
		urxe_copy_visible(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
	qp->recv_offset += len;
	return IBV_WC_SUCCESS;
}

/* The same for a payload that lies in the sender's memory; *lost: it is not there any more. */
static enum ibv_wc_status recv_refs(struct urxe_qp *qp, const struct urxe_packet *pkt, bool *lost)
{
	struct iovec iov[URXE_MAX_SGE];
	unsigned n;
	enum ibv_wc_status status = recv_pieces(qp, pkt->payload_len, iov, &n);

	*lost = false;
	if (status != IBV_WC_SUCCESS)
		return status;
	*lost = urxe_wire_pull(pkt->refs, pkt->refs_offset, iov, n, pkt->payload_len);
	if (!*lost)
		qp->recv_offset += pkt->payload_len;
	return IBV_WC_SUCCESS;
}

static void complete_recv(struct urxe_qp *qp, struct urxe_cqe *cqe)
{
	cqe->wr_id = qp->recv_wqe->wr_id;
	cqe->qp_num = qp->qpn;
	qp->recv_busy = false;
	urxe_count(qp->dev, URXE_CNT_RDMA_RECV);
	urxe_cq_push(qp->rcq, qp, cqe);
}

/* A local error of the receive side: told to the program here, and to the peer by a NAK. */
static enum verdict recv_failed(struct urxe_qp *qp, enum ibv_wc_status status)
{
	struct urxe_cqe cqe = {.status = status, .opcode = IBV_WC_RECV};

	if (qp->ibv.qp_type != IBV_QPT_RC) {
		/* UC and UD: without an SRQ the WR is kept for the next message (class D of table
		 * 62), with one it is spent. */
		qp->drop_message = true;
		if (qp->srq)
			complete_recv(qp, &cqe);
		else
			qp->recv_offset = 0;
		return DROP;
	}
	complete_recv(qp, &cqe);
	return status == IBV_WC_LOC_LEN_ERR ? INVALID : OPERATIONAL;
}

/* The message is whole: its completion, if it has one. */
static void complete_message(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = qp->recv_offset,
		.solicited = urxe_bth_se(pkt->bth),
	};

	if (pkt->imm) {
		cqe.wc_flags = IBV_WC_WITH_IMM;
		cqe.imm = pkt->imm->imm;
	} else if (pkt->ieth) {
		cqe.wc_flags = IBV_WC_WITH_INV;
		cqe.imm = urxe_ieth_rkey(pkt->ieth);
	}
	if (urxe_op_any(pkt->mask, URXE_OP_WRITE)) {
		cqe.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		cqe.byte_len = qp->write.total;
	}
	complete_recv(qp, &cqe);
}

/* ---- the operations ---- */

static enum verdict execute_send(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	enum ibv_wc_status status;
	bool lost = false;

	if (urxe_op_any(pkt->mask, URXE_OP_START) && !take_recv(qp))
		return RNR;
	if (!qp->recv_busy)
		return DROP;
	if (pkt->refs)
		status = recv_refs(qp, pkt, &lost);
	else
		status = recv_data(qp, pkt->payload, pkt->payload_len);
	if (status != IBV_WC_SUCCESS)
		return recv_failed(qp, status);
	if (lost)
		return LOST;
	if (!urxe_op_any(pkt->mask, URXE_OP_END))
		return DONE;
	if (pkt->ieth && !urxe_invalidate(qp, urxe_ieth_rkey(pkt->ieth), false)) {
		recv_failed(qp, IBV_WC_LOC_PROT_ERR);
		return ACCESS;
	}
	complete_message(qp, pkt);
	return DONE;
}

/* Data of an RDMA WRITE into place, its last bytes last; false when it was lost on the way. */
static bool write_data(const struct urxe_packet *pkt, void *to, uint32_t len)
{
	uint32_t last = len > 8 ? 8 : len;
	uint8_t end[8];
	struct iovec iov[2] = {{to, len - last}, {end, last}};

	if (!pkt->refs) {
		urxe_copy_visible(to, pkt->payload, len);
		return true;
	}
	if (urxe_wire_pull(pkt->refs, pkt->refs_offset, iov, 2, len))
		return false;
	urxe_copy_visible((uint8_t *)to + len - last, end, last);
	return true;
}

static enum verdict execute_write(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	uint32_t len = pkt->payload_len;
	uint64_t va;

	if (pkt->reth) {
		uint32_t total = urxe_reth_length(pkt->reth);

		/* The whole range is checked before its first byte is written. */
		if (!urxe_reach(qp, urxe_reth_rkey(pkt->reth), urxe_reth_va(pkt->reth), total,
				MEMPOOL_REMOTE_WRITE, true, &va))
			return ACCESS;
		qp->write.va = urxe_reth_va(pkt->reth);
		qp->write.rkey = urxe_reth_rkey(pkt->reth);
		qp->write.left = qp->write.total = total;
	}
	if (len > qp->write.left || (urxe_op_any(pkt->mask, URXE_OP_END) && len != qp->write.left))
		return INVALID;
	if (pkt->imm && !take_recv(qp))
		return RNR;
	if (len) {
		if (!urxe_reach(qp, qp->write.rkey, qp->write.va, len, MEMPOOL_REMOTE_WRITE, true,
				&va))
			return ACCESS;
		if (!write_data(pkt, (void *)(uintptr_t)va, len))
			return LOST;
		qp->write.va += len;
		qp->write.left -= len;
	}
	if (pkt->imm)
		complete_message(qp, pkt);
	return DONE;
}

/* A place in the ring for a new answer; NULL when the peer has more outstanding than it may. */
static struct urxe_response *new_response(struct urxe_qp *qp)
{
	if ((uint16_t)(qp->response_head - qp->response_send) >= qp->response_size)
		return NULL;
	return response(qp, qp->response_head++);
}

/* Owes the result of an atomic that was executed now or before. */
static bool owe_atomic(struct urxe_qp *qp, const struct urxe_atomic_result *result)
{
	struct urxe_response *resp = new_response(qp);

	if (!resp)
		return false;
	*resp = (struct urxe_response){
		.atomic = true,
		.first_psn = result->psn,
		.next_psn = result->psn,
		.last_psn = result->psn,
		.msn = result->msn,
		.original = result->original,
	};
	urxe_engine_ready(qp);
	return true;
}

static enum verdict execute_read(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	uint32_t len = urxe_reth_length(pkt->reth);
	struct urxe_response *resp;
	uint64_t va;

	if (len > URXE_MAX_MSG)
		return INVALID;
	if (!urxe_reach(qp, urxe_reth_rkey(pkt->reth), urxe_reth_va(pkt->reth), len,
			MEMPOOL_REMOTE_READ, true, &va))
		return ACCESS;
	resp = new_response(qp);
	if (!resp)
		return INVALID;
	*resp = (struct urxe_response){
		.first_psn = psn,
		.next_psn = psn,
		.last_psn = urxe_psn_add(psn, len ? (len - 1) / qp->mtu : 0),
		.msn = (qp->msn + 1) & URXE_PSN_MASK,
		.rkey = urxe_reth_rkey(pkt->reth),
		.va = urxe_reth_va(pkt->reth),
		.length = len,
	};
	urxe_engine_ready(qp);
	return DONE;
}

static enum verdict execute_atomic(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	uint64_t addr = urxe_atomic_va(pkt->atomic), va, value, *target;
	struct urxe_atomic_result *result;

	if (addr & 7)
		return INVALID;
	if (!urxe_reach(qp, urxe_atomic_rkey(pkt->atomic), addr, 8, MEMPOOL_REMOTE_ATOMIC, true,
			&va))
		return ACCESS;
	if (va & 7)
		return INVALID;
	if ((uint16_t)(qp->response_head - qp->response_send) >= qp->response_size)
		return INVALID;
	target = (uint64_t *)(uintptr_t)va;
	if (pkt->opcode == URXE_RC_FETCH_ADD) {
		value = __atomic_fetch_add(target, urxe_atomic_swap_add(pkt->atomic),
					   __ATOMIC_SEQ_CST);
	} else {
		value = urxe_atomic_compare(pkt->atomic);
		__atomic_compare_exchange_n(target, &value, urxe_atomic_swap_add(pkt->atomic),
					    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	result = &qp->atomics[qp->atomic_next++ % qp->atomic_size];
	*result = (struct urxe_atomic_result){
		.valid = true,
		.psn = psn,
		.msn = (qp->msn + 1) & URXE_PSN_MASK,
		.original = value,
	};
	owe_atomic(qp, result);
	return DONE;
}

/* ---- the checks ---- */

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

/* First and middle packets are full, last ones not empty (9.7.4.1.6). */
static bool length_ok(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	uint32_t full = (uint32_t)pkt->span * qp->mtu;

	if (!urxe_op_any(pkt->mask, URXE_OP_SEND | URXE_OP_WRITE))
		return true;
	if (!urxe_op_any(pkt->mask, URXE_OP_END))
		return pkt->payload_len == full;
	if (!urxe_op_any(pkt->mask, URXE_OP_START) && !pkt->payload_len)
		return false;
	return pkt->payload_len <= full && (pkt->span == 1 || pkt->payload_len > full - qp->mtu);
}

/* Does the QP take such requests at all? */
static bool permitted(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	unsigned access = qp->attr.qp_access_flags;

	if (urxe_op_any(pkt->mask, URXE_OP_WRITE))
		return access & IBV_ACCESS_REMOTE_WRITE;
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		return access & IBV_ACCESS_REMOTE_READ;
	if (urxe_op_any(pkt->mask, URXE_OP_ATOMIC))
		return access & IBV_ACCESS_REMOTE_ATOMIC;
	return true;
}

static enum verdict execute(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	if (!permitted(qp, pkt) || !length_ok(qp, pkt))
		return INVALID;
	if (urxe_op_any(pkt->mask, URXE_OP_SEND))
		return execute_send(qp, pkt);
	if (urxe_op_any(pkt->mask, URXE_OP_WRITE))
		return execute_write(qp, pkt);
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		return execute_read(qp, pkt, psn);
	return execute_atomic(qp, pkt, psn);
}

/* ---- RC ---- */

/* Drops what is owed from psn on: the peer asks for all of it again. */
static void forget_answers(struct urxe_qp *qp, uint32_t psn)
{
	while (qp->response_head != qp->response_send) {
		struct urxe_response *newest = response(qp, qp->response_head - 1);

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
	if (execute_read(qp, pkt, psn) == ACCESS)
		owe(qp, URXE_AETH_NAK | URXE_NAK_REMOTE_ACCESS, psn);
}

/* An atomic that was executed is not executed again: its result was kept (9.7.5.1.3). */
static void repeat_atomic(struct urxe_qp *qp, uint32_t psn)
{
	for (unsigned i = 0; i < qp->atomic_size; i++) {
		if (qp->atomics[i].valid && qp->atomics[i].psn == psn) {
			owe_atomic(qp, &qp->atomics[i]);
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
	if (!permitted(qp, pkt))
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
		owed += response(qp, i)->length;
	if (owed > IN_ORDER_MAX)
		return;
	while (qp->response_send != qp->response_head && urxe_responder_run(qp))
		;
}

static void rc_failed(struct urxe_qp *qp, enum verdict verdict, uint32_t psn)
{
	static const struct {
		uint8_t nak;
		int event;
	} how[] = {
		[INVALID] = {URXE_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR},
		[ACCESS] = {URXE_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR},
		[OPERATIONAL] = {URXE_NAK_REMOTE_OPERATIONAL, 0},
	};

	urxe_log(URXE_LOG_DEBUG, "QP 0x%06x: request with PSN 0x%06x refused, NAK code %u", qp->qpn,
		 psn, how[verdict].nak);
	owe(qp, URXE_AETH_NAK | how[verdict].nak, psn);
	urxe_responder_run(qp);
	urxe_qp_fail(qp, how[verdict].event);
}

/*
 * An executed request: acknowledged if that was asked for. When a gap behind it was noticed in the
 * same turn, the report of that gap moves on to what is missing now, since what came after it was
 * dropped.
 */
static void answer_executed(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	if (qp->ack_due && qp->ack_syndrome == (URXE_AETH_NAK | URXE_NAK_PSN_SEQUENCE)) {
		qp->ack_psn = qp->epsn;
		return;
	}
	qp->nak_sent = false;
	if (!urxe_op_any(pkt->mask, URXE_OP_READ_REQ | URXE_OP_ATOMIC) &&
	    (urxe_bth_ackreq(pkt->bth) || qp->ack_due))
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
	enum verdict verdict;

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
	verdict = sequence_ok(qp, pkt) ? execute(qp, pkt, psn) : INVALID;
	if (verdict == RNR) {
		urxe_count(qp->dev, URXE_CNT_SND_RNR);
		qp->nak_sent = true;
		owe(qp, URXE_AETH_RNR_NAK | qp->attr.min_rnr_timer, psn);
		return;
	}
	if (verdict == LOST)
		return;
	if (verdict != DONE) {
		rc_failed(qp, verdict, psn);
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
	answer_executed(qp, pkt, last);
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
	if (!sequence_ok(qp, pkt) || execute(qp, pkt, psn) != DONE) {
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

static void ud_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		       const struct urxe_rx_packet *rx)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.wc_flags = IBV_WC_GRH,
		.solicited = urxe_bth_se(pkt->bth),
	};
	uint8_t grh[40];

	if (urxe_deth_qkey(pkt->deth) != qp->attr.qkey || pkt->payload_len > qp->mtu)
		return;
	if (!take_recv(qp))
		return;
	qp->recv_offset = 0;
	fill_grh(grh, rx);
	if (qp->recv_wqe->length < sizeof(grh) + pkt->payload_len) {
		recv_failed(qp, IBV_WC_LOC_LEN_ERR);
		return;
	}
	if (recv_data(qp, grh, sizeof(grh)) != IBV_WC_SUCCESS ||
	    recv_data(qp, pkt->payload, pkt->payload_len) != IBV_WC_SUCCESS) {
		recv_failed(qp, IBV_WC_LOC_PROT_ERR);
		return;
	}
	cqe.byte_len = qp->recv_offset;
	cqe.src_qp = urxe_deth_sqp(pkt->deth);
	if (pkt->imm) {
		cqe.wc_flags |= IBV_WC_WITH_IMM;
		cqe.imm = pkt->imm->imm;
	}
	complete_recv(qp, &cqe);
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

/* ---- answers ---- */

static void put_answer(struct urxe_qp *qp, struct urxe_tx_packet *pkt, enum urxe_opcode opcode,
		       uint32_t payload, uint32_t psn)
{
	urxe_bth_fill((struct urxe_bth *)pkt->header, opcode, false, urxe_pad_of(payload),
		      URXE_PKEY_DEFAULT, qp->attr.dest_qp_num, false, psn);
	pkt->header_len = sizeof(struct urxe_bth);
}

static void put_aeth(struct urxe_tx_packet *pkt, uint8_t syndrome, uint32_t msn)
{
	urxe_aeth_fill((struct urxe_aeth *)(pkt->header + pkt->header_len), syndrome, msn);
	pkt->header_len += sizeof(struct urxe_aeth);
}

static void build_atomic_answer(struct urxe_qp *qp, struct urxe_response *resp,
				struct urxe_tx_packet *pkt)
{
	put_answer(qp, pkt, URXE_RC_ATOMIC_ACKNOWLEDGE, 0, resp->first_psn);
	put_aeth(pkt, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, resp->msn);
	urxe_atomic_ack_fill((struct urxe_atomic_ack_eth *)(pkt->header + pkt->header_len),
			     resp->original);
	pkt->header_len += sizeof(struct urxe_atomic_ack_eth);
}

/* The next packet of a read's data; false when the memory is no longer readable. */
static bool build_read_answer(struct urxe_qp *qp, struct urxe_response *resp,
			      struct urxe_batch *batch, struct urxe_tx_packet *pkt)
{
	static const uint8_t opcodes[] = {URXE_RC_READ_RESPONSE_MIDDLE, URXE_RC_READ_RESPONSE_FIRST,
					  URXE_RC_READ_RESPONSE_LAST, URXE_RC_READ_RESPONSE_ONLY};
	uint32_t offset = (uint32_t)urxe_psn_diff(resp->next_psn, resp->first_psn) * qp->mtu;
	uint32_t left = resp->length - offset, most = qp->near ? URXE_MAX_RUN : qp->mtu;
	uint32_t len = left < most ? left : most;
	bool first = offset == 0, last = len == left;
	uint64_t va;

	if (!urxe_reach(qp, resp->rkey, resp->va + offset, len, MEMPOOL_REMOTE_READ, true, &va))
		return false;
	put_answer(qp, pkt, opcodes[first | last << 1], len, resp->next_psn);
	if (first || last)
		put_aeth(pkt, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, resp->msn);
	if (len) {
		/* A copy: the program may write to the memory at any time, and the ICRC must fit
		 * what is sent. */
		struct iovec *iov = urxe_batch_iov(batch);

		iov->iov_base = (void *)(uintptr_t)va;
		iov->iov_len = len;
		pkt->span = (len + qp->mtu - 1) / qp->mtu;
		if (qp->near)
			urxe_batch_payload(batch, 1, len);
		else
			urxe_batch_stage(batch, 1, len);
	}
	return true;
}

/* So many PSNs of the oldest answer that is owed are built, or sent. */
static void advance(struct urxe_qp *qp, unsigned span)
{
	struct urxe_response *resp = response(qp, qp->response_send);

	resp->next_psn = urxe_psn_add(resp->next_psn, span);
	if (urxe_psn_diff(resp->next_psn, resp->last_psn) > 0)
		qp->response_send++;
}

/* Fills the batch with answers; false when the memory of a read is gone. */
static bool build_answers(struct urxe_qp *qp, struct urxe_batch *batch)
{
	while (qp->response_send != qp->response_head) {
		struct urxe_response *resp = response(qp, qp->response_send);
		struct urxe_tx_packet *pkt = urxe_batch_add(batch);

		if (!pkt)
			return true;
		if (resp->atomic) {
			build_atomic_answer(qp, resp, pkt);
		} else if (!build_read_answer(qp, resp, batch, pkt)) {
			urxe_batch_undo(batch);
			return false;
		}
		advance(qp, pkt->span);
	}
	return true;
}

static void build_ack(struct urxe_qp *qp, struct urxe_batch *batch)
{
	struct urxe_tx_packet *pkt = urxe_batch_add(batch);

	if (!pkt)
		return;
	put_answer(qp, pkt, URXE_RC_ACKNOWLEDGE, 0, qp->ack_psn);
	put_aeth(pkt, qp->ack_syndrome, qp->msn);
	qp->ack_due = false;
}

/* Is the acknowledgement for something that came before the answers that wait? */
static bool ack_comes_first(const struct urxe_qp *qp)
{
	return qp->ack_due &&
	       (qp->response_send == qp->response_head ||
		urxe_psn_diff(qp->ack_psn, response(qp, qp->response_send)->next_psn) < 0);
}

/* What is owed, before answers are built: only what has left is not owed any more. */
struct owed {
	uint16_t send;	   /* cursor of the ring */
	uint32_t next_psn; /* of the response there */
	bool ack_due;
};

/* The first n of the answers that were built have left, the socket was full for the others. */
static void owe_again(struct urxe_qp *qp, const struct owed *before, bool ack_first, unsigned n)
{
	uint16_t i = before->send;

	for (; i != qp->response_send; i++)
		response(qp, i)->next_psn = response(qp, i)->first_psn;
	if (i != qp->response_head && i != before->send)
		response(qp, i)->next_psn = response(qp, i)->first_psn;
	qp->response_send = i = before->send;
	if (i != qp->response_head)
		response(qp, i)->next_psn = before->next_psn;
	qp->ack_due = before->ack_due && !(ack_first && n);
	for (unsigned k = ack_first; k < n; k++)
		advance(qp, urxe_hca.tx[k].span);
	urxe_engine_full(qp, &qp->path, qp->attr.dest_qp_num);
	qp->answer_at = urxe_now() + FULL_RETRY_NS;
	urxe_completer_arm_answers(qp);
}

bool urxe_responder_add_ack(struct urxe_qp *qp, struct urxe_batch *batch)
{
	if (!qp->ack_due || qp->response_send != qp->response_head || qp->answer_at)
		return false;
	build_ack(qp, batch);
	return !qp->ack_due;
}

void urxe_responder_ack_again(struct urxe_qp *qp)
{
	qp->ack_due = true;
}

bool urxe_responder_run(struct urxe_qp *qp)
{
	struct owed before = {.send = qp->response_send, .ack_due = qp->ack_due};
	struct urxe_batch batch;
	bool readable, ack_first;
	unsigned n, sent;

	if (!qp->ack_due && qp->response_send == qp->response_head)
		return true;
	if (qp->answer_at)
		return false;
	urxe_engine_look_near(qp);
	if (qp->response_send != qp->response_head)
		before.next_psn = response(qp, qp->response_send)->next_psn;
	urxe_batch_begin(&batch, &qp->path);
	ack_first = ack_comes_first(qp);
	if (ack_first)
		build_ack(qp, &batch);
	readable = build_answers(qp, &batch);
	if (!readable) {
		uint32_t psn = response(qp, qp->response_send)->next_psn;

		qp->response_send = qp->response_head;
		qp->ack_due = false;
		urxe_batch_send(&batch);
		rc_failed(qp, ACCESS, psn);
		return false;
	}
	if (qp->ack_due && qp->response_send == qp->response_head)
		build_ack(qp, &batch);
	n = batch.n;
	sent = urxe_batch_send(&batch);
	if (sent < n) {
		owe_again(qp, &before, ack_first, sent);
		return false;
	}
	if (qp->ack_due || qp->response_send != qp->response_head)
		urxe_engine_ready(qp);
	return true;
}

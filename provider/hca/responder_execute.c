/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Executing request packets (IBTA vol. 1, 9.7.4.1.3 to 9.7.4.1.7): the checks that need no more
 * than the packet and the QP, receive WRs, and the operations. Under the engine lock.
 */
#include <string.h>

#include "hca/direct.h"
#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "hca/responder.h"
#include "hca/tag_matching.h"

/* ---- receiving into a receive WR ---- */

bool urxe_recv_take(struct urxe_qp *qp)
{
	struct urxe_srq *srq = qp->srq;

	if (qp->proto.recv_busy)
		return true;
	if (!urxe_rq_take(srq ? &srq->rq : &qp->rq, qp->recv_wqe))
		return false;
	qp->proto.recv_busy = true;
	qp->proto.recv_offset = 0;
	if (srq && srq->limit) {
		bool below;

		urxe_lock(&srq->rq.lock);
		below = srq->limit && urxe_rq_count(&srq->rq) < srq->limit;
		if (below)
			srq->limit = 0;
		urxe_unlock(&srq->rq.lock);
		if (below)
			urxe_event_srq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
	}
	return true;
}

/* Where len bytes at the place reached in the receive buffer go: *n pieces of our memory. */
static enum ibv_wc_status recv_pieces(struct urxe_qp *qp, uint32_t len, struct iovec *iov, int *n)
{
	if (len > qp->recv_wqe->length - qp->proto.recv_offset)
		return IBV_WC_LOC_LEN_ERR;
	*n = urxe_gather_receive(qp, qp->proto.recv_offset, len, iov);
	return *n < 0 ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

/* Writes to the receive buffer; a status other than success is the local error that stops it. */
enum ibv_wc_status urxe_recv_data(struct urxe_qp *qp, const void *data, uint32_t len)
{
	struct iovec iov[URXE_MAX_SGE];
	const uint8_t *from = data;
	int n;
	enum ibv_wc_status status = recv_pieces(qp, len, iov, &n);

	if (status != IBV_WC_SUCCESS)
		return status;
	for (int i = 0; i < n; i++) {
		urxe_copy_visible(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
	if (urxe_memory_lost())
		return IBV_WC_LOC_PROT_ERR;
	qp->proto.recv_offset += len;
	return IBV_WC_SUCCESS;
}

/* The same for a payload that lies in the sender's memory; *lost: it is not there any more. */
static enum ibv_wc_status recv_refs(struct urxe_qp *qp, const struct urxe_packet *pkt, bool *lost)
{
	struct iovec iov[URXE_MAX_SGE];
	int n;
	enum ibv_wc_status status = recv_pieces(qp, pkt->payload_len, iov, &n);

	*lost = false;
	if (status != IBV_WC_SUCCESS)
		return status;
	*lost = urxe_direct_pull(pkt->refs, pkt->refs_offset, iov, n, pkt->payload_len);
	if (urxe_memory_lost())
		return IBV_WC_LOC_PROT_ERR;
	if (!*lost)
		qp->proto.recv_offset += pkt->payload_len;
	return IBV_WC_SUCCESS;
}

void urxe_recv_complete(struct urxe_qp *qp, struct urxe_cqe *cqe)
{
	if (qp->tm)
		urxe_tm_mark(qp, cqe);
	cqe->wr_id = qp->recv_wqe->wr_id;
	cqe->qp_num = qp->proto.qpn;
	qp->proto.recv_busy = false;
	urxe_count(qp->port, URXE_CNT_RDMA_RECV);
	urxe_cq_add(qp->rcq, qp, cqe);
}

/* A local error of the receive side: a completion for the program, and a NAK for the peer. */
enum urxe_verdict urxe_recv_failed(struct urxe_qp *qp, enum ibv_wc_status status)
{
	struct urxe_cqe cqe = {.status = status, .opcode = IBV_WC_RECV};

	if (!qp->transport->reliable) {
		/* UC and UD: without an SRQ the WR is kept for the next message (class D of table
		 * 62), with one it is spent. */
		qp->proto.drop_message = true;
		if (qp->srq)
			urxe_recv_complete(qp, &cqe);
		else
			qp->proto.recv_offset = 0;
		return URXE_DROP;
	}
	urxe_recv_complete(qp, &cqe);
	return status == IBV_WC_LOC_LEN_ERR ? URXE_INVALID : URXE_OPERATIONAL;
}

/* The message is whole: its completion, if it has one. */
static void complete_message(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = qp->proto.recv_offset,
		.solicited = urxe_bth_se(pkt->bth),
	};

	if (qp->tm && urxe_tm_read(qp))
		return;
	if (pkt->imm) {
		cqe.wc_flags = IBV_WC_WITH_IMM;
		cqe.imm = pkt->imm->imm;
	} else if (pkt->ieth) {
		cqe.wc_flags = IBV_WC_WITH_INV;
		cqe.imm = be32toh(pkt->ieth->rkey);
	}
	if (urxe_op_any(pkt->mask, URXE_OP_WRITE)) {
		cqe.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
		cqe.byte_len = qp->proto.write.total;
	}
	urxe_recv_complete(qp, &cqe);
}

/* ---- the operations ---- */

static enum urxe_verdict begin_message(struct urxe_qp *qp, const struct urxe_packet *pkt,
				       struct urxe_packet *rest)
{
	if (qp->tm)
		return urxe_tm_begin(qp, pkt, rest);
	return urxe_recv_take(qp) ? URXE_DONE : URXE_RNR;
}

static enum urxe_verdict execute_send(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	enum ibv_wc_status status;
	struct urxe_packet rest;
	bool lost = false;
	uint32_t before;

	if (urxe_op_any(pkt->mask, URXE_OP_START)) {
		enum urxe_verdict verdict = begin_message(qp, pkt, &rest);

		if (verdict != URXE_DONE)
			return verdict;
		if (qp->tm)
			pkt = &rest;
	}
	if (!qp->proto.recv_busy)
		return URXE_DROP;
	before = qp->proto.recv_offset;
	if (pkt->refs)
		status = recv_refs(qp, pkt, &lost);
	else
		status = urxe_recv_data(qp, pkt->payload, pkt->payload_len);
	if (status != IBV_WC_SUCCESS)
		return urxe_recv_failed(qp, status);
	if (lost)
		return URXE_LOST;
	if (!urxe_op_any(pkt->mask, URXE_OP_END))
		return URXE_DONE;
	switch (pkt->ieth ? urxe_invalidate(qp, be32toh(pkt->ieth->rkey)) : URXE_BOUND) {
	case URXE_BOUND: break;
	case URXE_NOT_BOUND: urxe_recv_failed(qp, IBV_WC_LOC_PROT_ERR); return URXE_ACCESS;
	case URXE_BOUND_LATER: qp->proto.recv_offset = before; return URXE_LOST;
	}
	complete_message(qp, pkt);
	return URXE_DONE;
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
	if (urxe_direct_pull(pkt->refs, pkt->refs_offset, iov, 2, len))
		return false;
	urxe_copy_visible((uint8_t *)to + len - last, end, last);
	return true;
}

static enum urxe_verdict execute_write(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	uint32_t len = pkt->payload_len;
	uint64_t va;
	bool whole;

	if (pkt->reth) {
		uint32_t total = urxe_reth_length(pkt->reth);

		/* The whole range is checked before its first byte is written. */
		if (!urxe_reach(qp, urxe_reth_rkey(pkt->reth), urxe_reth_va(pkt->reth), total,
				RMEMPOOL_REMOTE_WRITE, true, &va))
			return URXE_ACCESS;
		qp->proto.write.va = urxe_reth_va(pkt->reth);
		qp->proto.write.rkey = urxe_reth_rkey(pkt->reth);
		qp->proto.write.left = qp->proto.write.total = total;
	}
	if (len > qp->proto.write.left ||
	    (urxe_op_any(pkt->mask, URXE_OP_END) && len != qp->proto.write.left))
		return URXE_INVALID;
	if (pkt->imm && !urxe_recv_take(qp))
		return URXE_RNR;
	if (len) {
		if (!urxe_reach(qp, qp->proto.write.rkey, qp->proto.write.va, len,
				RMEMPOOL_REMOTE_WRITE, true, &va))
			return URXE_ACCESS;
		whole = write_data(pkt, (void *)(uintptr_t)va, len);
		if (urxe_memory_lost())
			return URXE_ACCESS;
		if (!whole)
			return URXE_LOST;
		qp->proto.write.va += len;
		qp->proto.write.left -= len;
	}
	if (pkt->imm)
		complete_message(qp, pkt);
	return URXE_DONE;
}

/* Has the peer as many answers outstanding as it may? */
static bool is_full(const struct urxe_qp *qp)
{
	return (uint16_t)(qp->proto.response_head - qp->proto.response_send) >=
	       qp->proto.response_size;
}

/* A place in the ring for an answer, which will be sent; NULL: there is none. */
static struct urxe_response *queue(struct urxe_qp *qp)
{
	if (is_full(qp))
		return NULL;
	urxe_engine_ready(qp);
	return urxe_response_at(qp, qp->proto.response_head++);
}

void urxe_queue_atomic(struct urxe_qp *qp, const struct urxe_atomic_result *result, uint32_t msn)
{
	struct urxe_response *resp = queue(qp);

	if (resp)
		*resp = (struct urxe_response){
			.atomic = true,
			.first_psn = result->psn,
			.next_psn = result->psn,
			.last_psn = result->psn,
			.msn = msn,
			.original = result->original,
		};
}

bool urxe_queue_done(struct urxe_qp *qp, uint32_t psn, uint32_t msn)
{
	struct urxe_response *resp = queue(qp);

	if (resp)
		*resp = (struct urxe_response){
			.first_psn = psn,
			.next_psn = psn,
			.last_psn = psn,
			.msn = msn,
		};
	return resp;
}

enum urxe_verdict urxe_execute_read(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	uint32_t len = urxe_reth_length(pkt->reth);
	bool repeated = psn != qp->proto.epsn;
	struct urxe_response *resp;
	uint64_t va;

	if (len > URXE_MAX_MSG)
		return URXE_INVALID;
	if (!urxe_reach(qp, urxe_reth_rkey(pkt->reth), urxe_reth_va(pkt->reth), len,
			RMEMPOOL_REMOTE_READ, true, &va))
		return URXE_ACCESS;
	resp = queue(qp);
	if (!resp)
		return URXE_INVALID;
	*resp = (struct urxe_response){
		.first_psn = psn,
		.next_psn = psn,
		.last_psn = urxe_psn_add(psn, urxe_packets_of(qp, len) - 1),
		/* A repeated request was counted before (9.7.7.1). */
		.msn = urxe_psn_add(qp->proto.msn, !repeated),
		.rkey = urxe_reth_rkey(pkt->reth),
		.va = urxe_reth_va(pkt->reth),
		.length = len,
		.repeated = repeated,
	};
	return URXE_DONE;
}

static enum urxe_verdict execute_atomic(struct urxe_qp *qp, const struct urxe_packet *pkt,
					uint32_t psn)
{
	bool add = (pkt->opcode & ~URXE_SERVICE_MASK) == URXE_RC_FETCH_ADD;
	uint64_t addr = be64toh(pkt->atomic->va), swap_add = be64toh(pkt->atomic->swap_add);
	uint64_t va, value;
	struct urxe_atomic_result *result;

	if (addr & 7)
		return URXE_INVALID;
	if (!urxe_reach(qp, be32toh(pkt->atomic->rkey), addr, 8, RMEMPOOL_REMOTE_ATOMIC, true, &va))
		return URXE_ACCESS;
	if (va & 7 || is_full(qp))
		return URXE_INVALID;
	value = urxe_atomic(va, add, add ? swap_add : be64toh(pkt->atomic->compare), swap_add);
	if (urxe_memory_lost())
		return URXE_ACCESS;
	result = &qp->atomics[qp->proto.atomic_next++ % qp->proto.atomic_size];
	*result = (struct urxe_atomic_result){
		.valid = true,
		.psn = psn,
		.original = value,
	};
	urxe_queue_atomic(qp, result, urxe_psn_add(qp->proto.msn, 1));
	return URXE_DONE;
}

/* ATOMIC WRITE (annex A19): eight bytes that become visible at once. */
static enum urxe_verdict execute_atomic_write(struct urxe_qp *qp, const struct urxe_packet *pkt,
					      uint32_t psn)
{
	uint64_t addr = urxe_reth_va(pkt->reth), va, value;

	if (pkt->payload_len != sizeof(value) || pkt->refs || pkt->span != 1 ||
	    urxe_reth_length(pkt->reth) != sizeof(value) || addr & 7)
		return URXE_INVALID;
	if (!urxe_reach(qp, urxe_reth_rkey(pkt->reth), addr, sizeof(value), RMEMPOOL_REMOTE_WRITE,
			true, &va))
		return URXE_ACCESS;
	if (va & 7 || !urxe_queue_done(qp, psn, urxe_psn_add(qp->proto.msn, 1)))
		return URXE_INVALID;
	memcpy(&value, pkt->payload, sizeof(value));
	__atomic_store_n((uint64_t *)(uintptr_t)va, value, __ATOMIC_SEQ_CST);
	if (urxe_memory_lost()) {
		qp->proto.response_head--;
		return URXE_ACCESS;
	}
	return URXE_DONE;
}

/* ---- the checks ---- */

/* First and middle packets are full, last ones not empty (9.7.4.1.6). */
static bool length_ok(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	uint32_t full = (uint32_t)pkt->span * qp->proto.mtu;

	if (!urxe_op_any(pkt->mask, URXE_OP_SEND | URXE_OP_WRITE))
		return true;
	if (!urxe_op_any(pkt->mask, URXE_OP_END))
		return pkt->payload_len == full;
	if (!urxe_op_any(pkt->mask, URXE_OP_START) && !pkt->payload_len)
		return false;
	return pkt->payload_len <= full &&
	       (pkt->span == 1 || pkt->payload_len > full - qp->proto.mtu);
}

bool urxe_permits(const struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	unsigned access = qp->proto.attr.qp_access_flags;

	if (urxe_op_any(pkt->mask, URXE_OP_WRITE | URXE_OP_ATOMIC_WRITE))
		return access & IBV_ACCESS_REMOTE_WRITE;
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		return access & IBV_ACCESS_REMOTE_READ;
	if (urxe_op_any(pkt->mask, URXE_OP_ATOMIC))
		return access & IBV_ACCESS_REMOTE_ATOMIC;
	return true;
}

enum urxe_verdict urxe_execute(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	if (!urxe_permits(qp, pkt) || !length_ok(qp, pkt))
		return URXE_INVALID;
	if (urxe_op_any(pkt->mask, URXE_OP_SEND))
		return execute_send(qp, pkt);
	if (urxe_op_any(pkt->mask, URXE_OP_WRITE))
		return execute_write(qp, pkt);
	if (urxe_op_any(pkt->mask, URXE_OP_READ_REQ))
		return urxe_execute_read(qp, pkt, psn);
	if (urxe_op_any(pkt->mask, URXE_OP_ATOMIC_WRITE))
		return execute_atomic_write(qp, pkt, psn);
	return execute_atomic(qp, pkt, psn);
}

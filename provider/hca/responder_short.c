/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder's short way: a SEND of one packet that is the next to be expected, into one buffer
 * that it fits, as responder.c and responder_execute.c would take it. Whatever is not so simple is
 * left to them.
 */
#include <string.h>

#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "hca/responder.h"

/* Is this the packet that is expected, with nothing left over from those before? */
static bool is_next(const struct urxe_qp *qp, const struct urxe_bth *bth)
{
	return urxe_bth_psn(bth) == qp->proto.epsn && qp->proto.last_opcode == URXE_NUM_OPCODES &&
	       !qp->proto.recv_busy && !urxe_answers_wait(qp) &&
	       (!qp->proto.ack_due || urxe_aeth_kind(qp->proto.ack_syndrome) == URXE_AETH_ACK);
}

/* The receive WR, if the message fits into its one buffer, which is at *to. */
static const struct urxe_recv_wqe *buffer_for(struct urxe_qp *qp, const struct urxe_rq *rq,
					      uint32_t len, void **to)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	const struct urxe_recv_wqe *wqe = rq_wqe(rq, tail);
	uint64_t va;

	if (tail == atomic_load_explicit(&rq->head, memory_order_acquire) || wqe->num_sge != 1 ||
	    !len || len > wqe->sge[0].length ||
	    !urxe_reach_receive(qp, wqe->sge[0].lkey, wqe->sge[0].addr, len, &va))
		return NULL;
	*to = (void *)(uintptr_t)va;
	return wqe;
}

bool urxe_responder_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx)
{
	const struct urxe_bth *bth = (const struct urxe_bth *)rx->bth;
	bool imm = bth->opcode == URXE_RC_SEND_ONLY_IMM;
	uint32_t head = sizeof(*bth) + (imm ? sizeof(struct urxe_immdt) : 0);
	uint32_t pad = urxe_bth_pad(bth), len = rx->len - head - pad;
	struct urxe_rq *rq = qp->srq ? &qp->srq->rq : &qp->rq;
	const struct urxe_recv_wqe *wqe;
	struct urxe_cqe *cqe;
	void *to;

	if (rx->len < head + pad || len > qp->proto.mtu || rx->span != 1 || rx->refs ||
	    !is_next(qp, bth) || (qp->srq && (qp->srq->limit || qp->srq->tm)))
		return false;
	wqe = buffer_for(qp, rq, len, &to);
	if (!wqe)
		return false;
	urxe_copy_visible(to, rx->bytes + head, len);
	if (urxe_memory_lost())
		return false;
	urxe_count(qp->port, URXE_CNT_RDMA_RECV);
	cqe = urxe_cq_claim(qp->rcq, qp);
	if (cqe) {
		urxe_cqe_clear(cqe);
		cqe->wr_id = wqe->wr_id;
		cqe->status = IBV_WC_SUCCESS;
		cqe->opcode = IBV_WC_RECV;
		cqe->byte_len = len;
		cqe->qp_num = qp->proto.qpn;
		cqe->solicited = urxe_bth_se(bth);
		if (imm) {
			cqe->wc_flags = IBV_WC_WITH_IMM;
			memcpy(&cqe->imm, bth + 1, sizeof(cqe->imm));
		}
	}
	/* Before the program sees the completion, and can count on the place. */
	atomic_store_explicit(&rq->tail, atomic_load_explicit(&rq->tail, memory_order_relaxed) + 1,
			      memory_order_release);
	if (cqe)
		urxe_cq_push(qp->rcq, cqe);
	urxe_prefetch((const uint8_t *)wqe + rq->stride, 64);
	qp->proto.executed_psn = qp->proto.epsn;
	urxe_responder_expect(qp, urxe_psn_add(qp->proto.epsn, 1));
	qp->proto.msn = (qp->proto.msn + 1) & URXE_PSN_MASK;
	urxe_responder_executed(qp, urxe_bth_ackreq(bth) || qp->proto.ack_due,
				qp->proto.executed_psn);
	return true;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The two ways into a send queue (ibv_post_send, and with --api wr the calls of ibv_qp_ex) and out
 * of a CQ (ibv_poll_cq, and with --cq ex the calls of ibv_cq_ex). The rest of the program sees
 * lists of work requests and arrays of completions. Called by the worker whose QP or CQ it is.
 */
#include <errno.h>
#include <string.h>

#include "traffic.h"

uint64_t send_ops(uint32_t qp_type)
{
	uint64_t ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

	if (qp_type != IBV_QPT_UD)
		ops |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (qp_type == IBV_QPT_RC)
		ops |= IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
		       IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
		       IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
	return ops;
}

static void set_payload(struct ibv_qp_ex *qpx, const struct ibv_send_wr *wr)
{
	struct ibv_data_buf bufs[MAX_SGE];
	int i;

	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(qpx, wr->sg_list[0].lkey, wr->sg_list[0].addr,
				       wr->sg_list[0].length);
		else
			ibv_wr_set_sge_list(qpx, wr->num_sge, wr->sg_list);
		return;
	}
	for (i = 0; i < wr->num_sge; i++) {
		bufs[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
		bufs[i].length = wr->sg_list[i].length;
	}
	if (wr->num_sge == 1)
		ibv_wr_set_inline_data(qpx, bufs[0].addr, bufs[0].length);
	else
		ibv_wr_set_inline_data_list(qpx, wr->num_sge, bufs);
}

static void build(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *qpx = qp->qpx;
	uint32_t rkey = wr->wr.rdma.rkey;
	uint64_t addr = wr->wr.rdma.remote_addr;

	qpx->wr_id = wr->wr_id;
	qpx->wr_flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND: ibv_wr_send(qpx); break;
	case IBV_WR_SEND_WITH_IMM: ibv_wr_send_imm(qpx, wr->imm_data); break;
	case IBV_WR_SEND_WITH_INV: ibv_wr_send_inv(qpx, wr->invalidate_rkey); break;
	case IBV_WR_RDMA_WRITE: ibv_wr_rdma_write(qpx, rkey, addr); break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		ibv_wr_rdma_write_imm(qpx, rkey, addr, wr->imm_data);
		break;
	case IBV_WR_RDMA_READ: ibv_wr_rdma_read(qpx, rkey, addr); break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		ibv_wr_atomic_cmp_swp(qpx, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
				      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qpx, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					wr->wr.atomic.compare_add);
		break;
	case IBV_WR_BIND_MW:
		ibv_wr_bind_mw(qpx, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		return;
	case IBV_WR_LOCAL_INV: ibv_wr_local_inv(qpx, wr->invalidate_rkey); return;
	default: fail(qp, "no such work request: %d", wr->opcode);
	}
	if (qp->qp->qp_type == IBV_QPT_UD)
		ibv_wr_set_ud_addr(qpx, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	set_payload(qpx, wr);
}

int post_sends(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (!qp->qpx)
		return ibv_post_send(qp->qp, wr, &bad);
	ibv_wr_start(qp->qpx);
	for (; wr; wr = wr->next)
		build(qp, wr);
	return ibv_wr_complete(qp->qpx);
}

/* What is not valid with this status, opcode and flags is left zero. */
static void read_wc(struct ibv_cq_ex *cq, unsigned with_inv, struct ibv_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cq->wr_id;
	wc->status = cq->status;
	wc->qp_num = ibv_wc_read_qp_num(cq);
	wc->vendor_err = ibv_wc_read_vendor_err(cq);
	if (wc->status != IBV_WC_SUCCESS)
		return;
	wc->opcode = ibv_wc_read_opcode(cq);
	wc->wc_flags = ibv_wc_read_wc_flags(cq);
	wc->byte_len = ibv_wc_read_byte_len(cq);
	wc->src_qp = ibv_wc_read_src_qp(cq);
	if (wc->wc_flags & IBV_WC_WITH_IMM)
		wc->imm_data = ibv_wc_read_imm_data(cq);
	else if (wc->wc_flags & with_inv)
		wc->invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
}

int poll_completions(struct worker *w, struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	int n = 0, err;

	if (!w->end->opt->cq_ex)
		return ibv_poll_cq(cq, max, wc);
	err = ibv_start_poll(ex, &attr);
	if (err == ENOENT)
		return 0;
	if (err)
		fail_errno("ibv_start_poll", err);
	do {
		read_wc(ex, w->end->with_inv, &wc[n]);
		err = ++n < max ? ibv_next_poll(ex) : ENOENT;
	} while (!err);
	if (err != ENOENT)
		fail_errno("ibv_next_poll", err);
	ibv_end_poll(ex);
	return n;
}

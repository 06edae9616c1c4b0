/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The extended posting interface, ibv_wr_post(3). wr_start takes the send queue's lock, wr_complete
 * or wr_abort gives it back; each operation claims a place, each setter fills the newest one. The
 * first error sticks and is returned by wr_complete, which then posts nothing.
 */
#include <errno.h>
#include <string.h>

#include "hca/engine.h"
#include "hca/send.h"

static struct urxe_qp *of(struct ibv_qp_ex *ex)
{
	return caa_container_of(ex, struct urxe_qp, ex);
}

static void fail(struct urxe_qp *qp, int error)
{
	if (error && !qp->wr_error)
		qp->wr_error = error;
}

/* No SRQ has this number, and no path this link layer: nothing was set yet. */
#define NO_SRQ	 UINT32_MAX
#define NO_WHERE URXE_NUM_LINKS

static void forget_address(const struct urxe_qp *qp, struct urxe_send_wqe *wqe)
{
	if (qp->transport->addressed)
		wqe->ud.path.link = NO_WHERE;
	else if (qp->transport->shared_receive)
		wqe->rdma.srqn = NO_SRQ;
}

/* Is what the setters must say there? */
static bool is_whole(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	if (wr_is_atomic(wqe->opcode) && !wqe->length)
		return false;
	if (qp->transport->addressed)
		return wqe->ud.path.link != NO_WHERE;
	return !qp->transport->shared_receive || wr_is_local(wqe->opcode) ||
	       wqe->rdma.srqn != NO_SRQ;
}

/* Claims a place for an operation, with immediate data or an R_Key to invalidate; NULL when this
 * round of posting has failed. */
static struct urxe_send_wqe *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t imm)
{
	struct urxe_qp *qp = of(ex);
	struct urxe_send_wqe *wqe;

	fail(qp, urxe_sq_check(qp, opcode, ex->wr_flags & ~IBV_SEND_INLINE));
	wqe = qp->wr_error ? NULL : urxe_sq_claim(qp);
	qp->wr_wqe = wqe;
	if (!wqe) {
		fail(qp, ENOMEM);
		return NULL;
	}
	wqe->wr_id = ex->wr_id;
	wqe->opcode = opcode;
	wqe->flags = ex->wr_flags;
	wqe->imm = imm;
	forget_address(qp, wqe);
	return wqe;
}

static struct urxe_send_wqe *rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
				  uint64_t addr, uint32_t imm)
{
	struct urxe_send_wqe *wqe = begin(ex, opcode, imm);

	if (!wqe)
		return NULL;
	wqe->rdma.rkey = rkey;
	wqe->rdma.remote_addr = addr;
	return wqe;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	rdma(ex, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
			      uint64_t swap)
{
	struct urxe_send_wqe *wqe = rdma(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, 0);

	if (!wqe)
		return;
	wqe->rdma.compare_add = compare;
	wqe->rdma.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct urxe_send_wqe *wqe = rdma(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, 0);

	if (wqe)
		wqe->rdma.compare_add = add;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *data)
{
	struct urxe_send_wqe *wqe = rdma(ex, IBV_WR_ATOMIC_WRITE, rkey, addr, 0);

	if (!wqe)
		return;
	wqe->inlined = true;
	wqe->length = URXE_ATOMIC_LEN;
	memcpy(wqe->sge, data, URXE_ATOMIC_LEN);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, IBV_WR_SEND_WITH_IMM, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, IBV_WR_SEND_WITH_INV, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	begin(ex, IBV_WR_LOCAL_INV, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct urxe_send_wqe *wqe = begin(ex, IBV_WR_BIND_MW, 0);

	if (wqe)
		fail(of(ex), urxe_mw_set_bind(of(ex), wqe, mw, rkey, info));
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (of(ex)->wr_wqe)
		fail(of(ex), urxe_sq_set_ud(of(ex), of(ex)->wr_wqe, ah, qpn, qkey));
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	if (of(ex)->wr_wqe)
		of(ex)->wr_wqe->rdma.srqn = srqn;
}

/* The operation that gets data; an ATOMIC WRITE has its own. */
static struct urxe_send_wqe *to_fill(struct urxe_qp *qp)
{
	if (!qp->wr_wqe || qp->wr_wqe->opcode != IBV_WR_ATOMIC_WRITE)
		return qp->wr_wqe;
	fail(qp, EINVAL);
	return NULL;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *sges)
{
	struct urxe_qp *qp = of(ex);
	struct urxe_send_wqe *wqe = to_fill(qp);

	if (!wqe)
		return;
	wqe->inlined = false; /* whatever was set before */
	fail(qp, urxe_sq_set_sges(qp, wqe, sges, n));
	if (wr_is_atomic(wqe->opcode)) {
		if (wqe->length < 8)
			fail(qp, EINVAL);
		wqe->length = 8;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *bufs)
{
	struct urxe_qp *qp = of(ex);
	struct urxe_send_wqe *wqe = to_fill(qp);

	if (!wqe)
		return;
	fail(qp, urxe_sq_check(qp, wqe->opcode, IBV_SEND_INLINE));
	wqe->inlined = true;
	wqe->length = 0; /* whatever was set before */
	if (n && !bufs) {
		fail(qp, EINVAL);
		return;
	}
	for (size_t i = 0; i < n; i++)
		fail(qp, urxe_sq_add_inline(qp, wqe, bufs[i].addr, bufs[i].length));
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct urxe_qp *qp = of(ex);

	/* A thread that a fork left behind may have it. */
	if (!urxe_inherited(qp->forks))
		urxe_lock_program(&qp->sq.lock);
	qp->wr_error = 0;
	qp->wr_wqe = NULL;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct urxe_qp *qp = of(ex);

	qp->sq.build = atomic_load(&qp->sq.head);
	urxe_unlock_program(&qp->sq.lock);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct urxe_qp *qp = of(ex);
	uint32_t bytes = 0;

	fail(qp, urxe_sq_state_errno(qp));
	for (uint32_t i = atomic_load(&qp->sq.head); i != qp->sq.build; i++) {
		const struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, i);

		bytes += wqe->length;
		if (!is_whole(qp, wqe))
			fail(qp, EINVAL);
	}
	if (qp->wr_error) {
		int error = qp->wr_error;

		wr_abort(ex);
		return error;
	}
	urxe_sq_publish(qp, bytes);
	return 0;
}

void urxe_wr_fill_ops(struct urxe_qp *qp, uint64_t ops)
{
	struct ibv_qp_ex *ex = &qp->ex;

	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->transport->addressed)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (qp->transport->shared_receive)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
	if (ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = wr_local_inv;
	if (ops & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = wr_bind_mw;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Posting to a send queue (IBTA vol. 1, 11.4.1.1). What is wrong with a WR and can be seen here is
 * an errno; what can only be seen when it runs (keys, lengths of UD messages) is a completion.
 *
 * Small messages are gathered: while packets of a QP are under way, a few more WRs wait for
 * company, since the answers will turn the engine, or a poll will. The first WR of an idle QP
 * leaves at once.
 */
#include <errno.h>
#include <string.h>

#include "hca/engine.h"
#include "hca/send.h"
#include "hca/tag_matching.h"

#define GATHER_WRS   32
#define GATHER_BYTES 16384

int urxe_sq_state_errno(const struct urxe_qp *qp)
{
	switch (atomic_load(&qp->proto.state)) {
	case IBV_QPS_RESET:
	case IBV_QPS_INIT:
	case IBV_QPS_RTR: return EINVAL;
	default: break;
	}
	if (qp->tm)
		return ENOMEM; /* its send queue has no place for the program */
	return urxe_inherited(qp->forks) ? EIO : 0;
}

/* The bit of an opcode: its own, but for those that were given none. */
static uint32_t operation_of(unsigned opcode)
{
	if (opcode <= IBV_WR_DRIVER1)
		return 1u << opcode;
	return opcode == IBV_WR_ATOMIC_WRITE ? IBV_QP_EX_WITH_ATOMIC_WRITE : 0;
}

int urxe_sq_check(const struct urxe_qp *qp, unsigned opcode, unsigned flags)
{
	if (!(qp->transport->operations & operation_of(opcode)))
		return EINVAL;
	if ((flags & IBV_SEND_INLINE) && (wr_is_read(opcode) || wr_is_atomic(opcode)))
		return EINVAL;
	return 0;
}

struct urxe_send_wqe *urxe_sq_claim(struct urxe_qp *qp)
{
	struct urxe_sq *sq = &qp->sq;
	struct urxe_send_wqe *wqe = sq_wqe(sq, sq->build);

	if (sq->build - atomic_load_explicit(&sq->tail, memory_order_acquire) >= sq->max_wr)
		return NULL;
	memset(wqe, 0, offsetof(struct urxe_send_wqe, rdma));
	sq->build++;
	urxe_prefetch((uint8_t *)wqe + sq->stride, 128);
	return wqe;
}

int urxe_sq_set_sges(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const struct ibv_sge *sges,
		     size_t n)
{
	uint64_t length = 0;

	if (n > qp->sq.max_sge || (n && !sges))
		return EINVAL;
	for (size_t i = 0; i < n; i++) {
		urxe_sge_copy(&wqe->sge[i], &sges[i]);
		length += sges[i].length;
	}
	if (length > URXE_MAX_MSG)
		return EINVAL;
	wqe->num_sge = n;
	wqe->length = length;
	return 0;
}

int urxe_sq_add_inline(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const void *data, size_t len)
{
	if (len > qp->sq.max_inline - wqe->length)
		return ENOMEM;
	if (len == sizeof(uint64_t)) /* a word, which many messages are, without a call */
		memcpy((uint8_t *)wqe->sge + wqe->length, data, sizeof(uint64_t));
	else if (len) /* no bytes may have no address */
		memcpy((uint8_t *)wqe->sge + wqe->length, data, len);
	wqe->inlined = true;
	wqe->length += len;
	return 0;
}

/* Mostly it is the same context, too, which is known without a look at it. */
static bool same_device(const struct ibv_context *a, const struct ibv_context *b)
{
	return a == b || a->device == b->device;
}

int urxe_sq_set_ud(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		   uint32_t qkey)
{
	if (!ah || !same_device(ah->context, qp->ibv.context) ||
	    to_pd(ah->pd)->number != qp->pd->number)
		return EINVAL;
	wqe->ud.path = to_ah(ah)->path;
	wqe->ud.qpn = qpn & URXE_QPN_MASK;
	/* A Q_Key with the high bit set stands for the QP's own (10.2.5). */
	wqe->ud.qkey = qkey & URXE_QKEY_PRIVILEGED ? qp->proto.attr.qkey : qkey;
	return 0;
}

static int set_data(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int ret;

	if (wr->num_sge < 0 || (wr->num_sge && !wr->sg_list))
		return EINVAL;
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return urxe_sq_set_sges(qp, wqe, wr->sg_list, wr->num_sge);
	wqe->inlined = true;
	for (int i = 0; i < wr->num_sge; i++) {
		ret = urxe_sq_add_inline(qp, wqe, (void *)(uintptr_t)wr->sg_list[i].addr,
					 wr->sg_list[i].length);
		if (ret)
			return ret;
	}
	return 0;
}

static int set_atomic(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int ret = urxe_sq_set_sges(qp, wqe, wr->sg_list, wr->num_sge);

	if (ret)
		return ret;
	if (wqe->length < 8)
		return EINVAL;
	wqe->length = 8;
	wqe->rdma.srqn = wr->qp_type.xrc.remote_srqn;
	wqe->rdma.remote_addr = wr->wr.atomic.remote_addr;
	wqe->rdma.rkey = wr->wr.atomic.rkey;
	wqe->rdma.compare_add = wr->wr.atomic.compare_add;
	wqe->rdma.swap = wr->wr.atomic.swap;
	return 0;
}

static int build(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	int ret;

	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM: wqe->imm = wr->imm_data; break;
	case IBV_WR_SEND_WITH_INV: wqe->imm = wr->invalidate_rkey; break;
	case IBV_WR_LOCAL_INV: wqe->imm = wr->invalidate_rkey; return 0;
	case IBV_WR_BIND_MW:
		return urxe_mw_set_bind(qp, wqe, wr->bind_mw.mw, wr->bind_mw.rkey,
					&wr->bind_mw.bind_info);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return set_atomic(qp, wqe, wr);
	default: break;
	}
	ret = set_data(qp, wqe, wr);
	if (ret)
		return ret;
	if (qp->transport->addressed)
		return urxe_sq_set_ud(qp, wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				      wr->wr.ud.remote_qkey);
	wqe->rdma.srqn = wr->qp_type.xrc.remote_srqn;
	wqe->rdma.remote_addr = wr->wr.rdma.remote_addr;
	wqe->rdma.rkey = wr->wr.rdma.rkey;
	return wr->opcode == IBV_WR_ATOMIC_WRITE && wqe->length != URXE_ATOMIC_LEN ? EINVAL : 0;
}

static int post_one(struct urxe_qp *qp, const struct ibv_send_wr *wr, uint32_t *bytes)
{
	int ret = urxe_sq_check(qp, wr->opcode, wr->send_flags);
	struct urxe_send_wqe *wqe;

	if (ret)
		return ret;
	wqe = urxe_sq_claim(qp);
	if (!wqe)
		return ENOMEM;
	ret = build(qp, wqe, wr);
	if (ret)
		qp->sq.build--;
	else
		*bytes += wqe->length;
	return ret;
}

/* Sees that what was published gets sent: now, or with what follows it. */
static void get_going(struct urxe_qp *qp, uint32_t waiting, uint32_t bytes)
{
	if (atomic_load(&qp->flying) && waiting < GATHER_WRS && bytes < GATHER_BYTES) {
		urxe_engine_defer(qp);
		/* The last answer may have come in between, and then nothing would turn. */
		if (atomic_load(&qp->flying))
			return;
	}
	urxe_engine_kick(qp);
}

void urxe_sq_publish(struct urxe_qp *qp, uint32_t bytes)
{
	uint32_t waiting, gathered;

	/* A locked operation follows in each case before we rely on others to have seen it. */
	atomic_store_explicit(&qp->sq.head, qp->sq.build, memory_order_release);
	waiting = qp->sq.build - atomic_load_explicit(&qp->sq.send, memory_order_relaxed);
	gathered = waiting == 1 ? bytes : qp->sq.gathered + bytes;
	qp->sq.gathered = gathered < GATHER_BYTES ? gathered : 0;
	urxe_unlock_program(&qp->sq.lock);
	get_going(qp, waiting, gathered);
}

int urxe_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct urxe_qp *qp = to_qp(ibv);
	uint32_t bytes = 0;
	int ret = urxe_sq_state_errno(qp);

	if (ret) {
		*bad = wr;
		return ret;
	}
	urxe_lock_program(&qp->sq.lock);
	for (; wr; wr = wr->next) {
		ret = post_one(qp, wr, &bytes);
		if (ret) {
			*bad = wr;
			break;
		}
	}
	urxe_sq_publish(qp, bytes);
	return ret;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues and shared receive queues (IBTA vol. 1, 10.2.9, 11.4.1.2): a ring that programs
 * fill under its lock and the engine empties.
 */
#include <errno.h>
#include <string.h>

#include "hca/engine.h"

int urxe_rq_init(struct urxe_rq *rq, struct ibv_pd *pd, enum urxe_buffer_type type, uint32_t max_wr,
		 uint32_t max_sge)
{
	uint32_t size = 1;

	while (size < max_wr)
		size <<= 1;
	rq->max_wr = max_wr;
	rq->max_sge = max_sge;
	rq->mask = size - 1;
	rq->stride = sizeof(struct urxe_recv_wqe) + max_sge * sizeof(struct ibv_sge);
	rq->wqes = NULL;
	rq->lock.elided = to_pd(pd)->td;
	if (max_wr)
		rq->wqes = urxe_buffer_alloc(pd, (size_t)size * rq->stride, type, &rq->custom);
	return max_wr && !rq->wqes ? -ENOMEM : 0;
}

void urxe_rq_fini(struct urxe_rq *rq, struct ibv_pd *pd, enum urxe_buffer_type type)
{
	urxe_buffer_free(pd, rq->wqes, type, rq->custom);
}

uint32_t urxe_rq_count(const struct urxe_rq *rq)
{
	return atomic_load(&rq->head) - atomic_load(&rq->tail);
}

/* Under rq->lock. */
static int rq_post(struct urxe_rq *rq, const struct ibv_recv_wr *wr)
{
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);
	struct urxe_recv_wqe *wqe;
	uint64_t length = 0;

	if (urxe_rq_count(rq) >= rq->max_wr)
		return ENOMEM;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge || (wr->num_sge && !wr->sg_list))
		return EINVAL;
	wqe = rq_wqe(rq, head);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++) {
		urxe_sge_copy(&wqe->sge[i], &wr->sg_list[i]);
		length += wr->sg_list[i].length;
	}
	wqe->length = length > UINT32_MAX ? UINT32_MAX : length;
	urxe_prefetch((uint8_t *)wqe + rq->stride, 64);
	atomic_store_explicit(&rq->head, head + 1, memory_order_release);
	return 0;
}

static int post(struct urxe_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = 0;

	urxe_lock_program(&rq->lock);
	for (; wr; wr = wr->next) {
		ret = rq_post(rq, wr);
		if (ret) {
			*bad = wr;
			break;
		}
	}
	urxe_unlock_program(&rq->lock);
	return ret;
}

/* Moves the oldest WR out of the ring. Engine. */
bool urxe_rq_take(struct urxe_rq *rq, struct urxe_recv_wqe *into)
{
	uint32_t tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	const struct urxe_recv_wqe *wqe;

	if (tail == atomic_load_explicit(&rq->head, memory_order_acquire))
		return false;
	wqe = rq_wqe(rq, tail);
	memcpy(into, wqe, sizeof(*wqe) + wqe->num_sge * sizeof(wqe->sge[0]));
	atomic_store_explicit(&rq->tail, tail + 1, memory_order_release);
	return true;
}

int urxe_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct urxe_qp *qp = to_qp(ibv);
	int ret;

	if (ibv->srq || atomic_load(&qp->proto.state) == IBV_QPS_RESET) {
		*bad = wr;
		return EINVAL;
	}
	ret = post(&qp->rq, wr, bad);
	/* To a QP in error they come back at once. Posted first, then the
	 * state: see flush_receives(). */
	atomic_signal_fence(memory_order_seq_cst);
	if (atomic_load(&qp->proto.state) == IBV_QPS_ERR) {
		urxe_engine_lock();
		urxe_qp_flush(qp);
		urxe_engine_unlock();
	}
	return ret;
}

int urxe_post_srq_recv(struct ibv_srq *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post(&to_srq(ibv)->rq, wr, bad);
}

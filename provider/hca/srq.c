/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues as verbs (ibv_create_srq(3)); their ring is in rq.c. */
#include <errno.h>
#include <stdlib.h>

#include "hca/engine.h"

struct ibv_srq *urxe_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_attr *want = &attr->attr;
	struct urxe_srq *srq;

	if (!want->max_wr || want->max_wr > URXE_MAX_SRQ_WR || want->max_sge > URXE_MAX_SGE) {
		errno = EINVAL;
		return NULL;
	}
	if (to_context(pd->context)->stale) {
		errno = EIO;
		return NULL;
	}
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	if (urxe_rq_init(&srq->rq, want->max_wr, want->max_sge)) {
		free(srq);
		errno = ENOMEM;
		return NULL;
	}
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	atomic_fetch_add(&to_pd(pd)->users, 1);
	return &srq->ibv;
}

struct ibv_srq *urxe_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return urxe_create_srq(attr->pd, &basic);
}

/* Moves the WRs to a ring of another size. Under the engine lock and rq.lock. */
static int resize(struct urxe_rq *rq, uint32_t max_wr)
{
	struct urxe_rq bigger = *rq;
	uint32_t count = urxe_rq_count(rq);

	if (max_wr < count)
		return EINVAL;
	if (urxe_rq_init(&bigger, max_wr, rq->max_sge))
		return ENOMEM;
	atomic_store(&bigger.tail, 0);
	atomic_store(&bigger.head, 0);
	for (uint32_t i = 0; i < count; i++)
		urxe_rq_take(rq, rq_wqe(&bigger, i));
	free(rq->wqes);
	rq->wqes = bigger.wqes;
	rq->mask = bigger.mask;
	rq->max_wr = max_wr;
	atomic_store(&rq->tail, 0);
	atomic_store(&rq->head, count);
	return 0;
}

int urxe_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct urxe_srq *srq = to_srq(ibv);
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.max_wr;
	int ret = 0;

	if (to_context(ibv->context)->stale)
		return EIO;
	if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) || !max_wr || max_wr > URXE_MAX_SRQ_WR ||
	    ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > max_wr))
		return EINVAL;
	urxe_engine_lock();
	urxe_lock(&srq->rq.lock);
	if (mask & IBV_SRQ_MAX_WR)
		ret = !(mask & IBV_SRQ_LIMIT) && srq->limit > max_wr ? EINVAL
								     : resize(&srq->rq, max_wr);
	if (!ret && (mask & IBV_SRQ_LIMIT))
		srq->limit = attr->srq_limit;
	urxe_unlock(&srq->rq.lock);
	urxe_engine_unlock();
	return ret;
}

int urxe_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct urxe_srq *srq = to_srq(ibv);

	if (to_context(ibv->context)->stale)
		return EIO;
	urxe_lock(&srq->rq.lock);
	attr->max_wr = srq->rq.max_wr;
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
	urxe_unlock(&srq->rq.lock);
	return 0;
}

int urxe_destroy_srq(struct ibv_srq *ibv)
{
	struct urxe_srq *srq = to_srq(ibv);

	if (atomic_load(&srq->users))
		return EBUSY;
	if (!to_context(ibv->context)->stale) {
		urxe_events_forget(to_context(ibv->context), &srq->async);
		urxe_events_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed,
				 &srq->async.taken);
	}
	atomic_fetch_sub(&to_pd(ibv->pd)->users, 1);
	urxe_rq_fini(&srq->rq);
	free(srq);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues as verbs (ibv_create_srq(3)); their ring is in rq.c. */
#include <errno.h>
#include <stdlib.h>

#include "hca/engine.h"
#include "hca/tag_matching.h"
#include "hca/xrc.h"

struct ibv_srq *urxe_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_attr *want = attr ? &attr->attr : NULL;
	struct urxe_srq *srq;

	if (!want || !want->max_wr || want->max_wr > URXE_MAX_SRQ_WR ||
	    want->max_sge > URXE_MAX_SGE)
		return urxe_fail(EINVAL);
	if (!urxe_context_here(pd->context))
		return NULL;
	srq = urxe_object_new(pd->context, URXE_SRQS, sizeof(*srq));
	if (!srq)
		return NULL;
	if (urxe_rq_init(&srq->rq, pd, URXE_BUFFER_SRQ, want->max_wr, want->max_sge)) {
		urxe_object_free(pd->context, URXE_SRQS, srq);
		return urxe_fail(ENOMEM);
	}
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = pd;
	srq->forks = urxe_forks;
	urxe_pd_use(to_pd(pd), 1);
	return &srq->ibv;
}

static enum ibv_srq_type type_of(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
}

static int check_ex(const struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
	static const uint32_t needed[] = {
		[IBV_SRQT_BASIC] = IBV_SRQ_INIT_ATTR_PD,
		[IBV_SRQT_XRC] =
			IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD,
		[IBV_SRQT_TM] = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	};
	enum ibv_srq_type type = type_of(attr);
	bool has_cq = type != IBV_SRQT_BASIC;

	if ((attr->comp_mask & ~(IBV_SRQ_INIT_ATTR_RESERVED - 1u)) || type > IBV_SRQT_TM)
		return EOPNOTSUPP;
	if ((attr->comp_mask & needed[type]) != needed[type] || !attr->pd ||
	    attr->pd->context != context ||
	    (has_cq && (!attr->cq || attr->cq->context != context)) ||
	    (type == IBV_SRQT_XRC && (!attr->xrcd || attr->xrcd->context != context)))
		return EINVAL;
	return has_cq && urxe_inherited(to_cq(attr->cq)->forks) ? EIO : 0;
}

static int add_tm(struct urxe_srq *srq, const struct ibv_srq_init_attr_ex *attr)
{
	int ret = urxe_tm_create(&attr->tm_cap, &srq->tm);

	if (ret)
		return ret;
	srq->cq = to_cq(attr->cq);
	atomic_fetch_add(&srq->cq->users, 1);
	return 0;
}

struct ibv_srq *urxe_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};
	struct ibv_srq *srq;
	int ret = check_ex(context, attr);

	if (ret)
		return urxe_fail(ret);
	srq = urxe_create_srq(attr->pd, &basic);
	if (!srq)
		return NULL;
	if (type_of(attr) == IBV_SRQT_XRC)
		ret = -urxe_xrc_add_srq(to_srq(srq), attr->xrcd, attr->cq);
	else if (type_of(attr) == IBV_SRQT_TM)
		ret = add_tm(to_srq(srq), attr);
	if (!ret)
		return srq;
	urxe_destroy_srq(srq);
	return urxe_fail(ret);
}

/* Moves the WRs to an empty ring and exchanges the rings. Under the engine lock and rq.lock. */
static int move(struct urxe_rq *rq, struct urxe_rq *other)
{
	uint32_t count = urxe_rq_count(rq);
	struct urxe_rq old;

	if (other->max_wr < count)
		return EINVAL;
	for (uint32_t i = 0; i < count; i++)
		urxe_rq_take(rq, rq_wqe(other, i));
	old = *rq;
	rq->wqes = other->wqes;
	rq->custom = other->custom;
	rq->mask = other->mask;
	rq->max_wr = other->max_wr;
	atomic_store(&rq->tail, 0);
	atomic_store(&rq->head, count);
	other->wqes = old.wqes;
	other->custom = old.custom;
	return 0;
}

/* resized: a ring of the new size, if there is one; afterwards, what is to be freed. */
static int modify(struct urxe_srq *srq, const struct ibv_srq_attr *attr, int mask,
		  struct urxe_rq *resized)
{
	int ret = 0;

	if (mask & IBV_SRQ_MAX_WR)
		ret = !(mask & IBV_SRQ_LIMIT) && srq->limit > attr->max_wr
			      ? EINVAL
			      : move(&srq->rq, resized);
	if (!ret && (mask & IBV_SRQ_LIMIT))
		srq->limit = attr->srq_limit;
	return ret;
}

int urxe_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct urxe_srq *srq = to_srq(ibv);
	uint32_t max_wr = attr && mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.max_wr;
	struct urxe_rq resized = {0};
	int ret;

	if (urxe_inherited(srq->forks))
		return EIO;
	if (!attr || (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) || !max_wr ||
	    max_wr > URXE_MAX_SRQ_WR || ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > max_wr))
		return EINVAL;
	/* Without a lock, as this may be the program's allocator. */
	if ((mask & IBV_SRQ_MAX_WR) &&
	    urxe_rq_init(&resized, ibv->pd, URXE_BUFFER_SRQ, max_wr, srq->rq.max_sge))
		return ENOMEM;
	urxe_engine_lock();
	urxe_lock(&srq->rq.lock);
	ret = modify(srq, attr, mask, &resized);
	urxe_unlock(&srq->rq.lock);
	urxe_engine_unlock();
	urxe_rq_fini(&resized, ibv->pd, URXE_BUFFER_SRQ);
	return ret;
}

int urxe_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	struct urxe_srq *srq = to_srq(ibv);

	if (urxe_inherited(srq->forks))
		return EIO;
	if (!attr)
		return EINVAL;
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
	urxe_xrc_remove_srq(srq);
	if (!urxe_inherited(srq->forks)) {
		urxe_events_forget(to_context(ibv->context), &srq->async);
		urxe_events_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed,
				 &srq->async.taken);
	}
	if (srq->tm)
		atomic_fetch_sub(&srq->cq->users, 1);
	urxe_tm_destroy(srq->tm);
	urxe_rq_fini(&srq->rq, ibv->pd, URXE_BUFFER_SRQ);
	urxe_pd_use(to_pd(ibv->pd), -1);
	urxe_object_free(ibv->context, URXE_SRQS, srq);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Asynchronous events (ibv_get_async_event(3)): a queue per context. */
#include <errno.h>
#include <stdlib.h>

#include "hca/engine.h"
#include "hca/fdqueue.h"
#include "hca/wq.h"
#include "hca/xrc.h"

/* In the queue of a context. */
struct event {
	struct cds_list_head node;
	struct ibv_async_event ibv;
	struct urxe_async *async; /* of the object; NULL: of the port */
};

int urxe_events_create(struct urxe_fdqueue **out, int *fd)
{
	struct urxe_fdqueue *events = calloc(1, sizeof(*events));
	int ret;

	if (!events)
		return -ENOMEM;
	ret = urxe_fdqueue_init(events);
	if (ret) {
		free(events);
		return ret;
	}
	*fd = events->fd;
	*out = events;
	return 0;
}

void urxe_events_destroy(struct urxe_fdqueue *events, bool inherited)
{
	struct event *event, *next;

	/* Another thread of the parent may have been in the middle of changing the list. */
	if (!inherited)
		cds_list_for_each_entry_safe (event, next, &events->entries, node)
			free(event);
	urxe_fdqueue_fini(events);
	free(events);
}

static void push(struct ibv_context *context, const struct ibv_async_event *ibv,
		 struct urxe_async *async)
{
	struct urxe_fdqueue *events = to_context(context)->events;
	struct event *event = malloc(sizeof(*event));

	if (!event)
		return;
	event->ibv = *ibv;
	event->async = async;
	pthread_mutex_lock(&events->lock);
	if (async)
		async->queued++;
	urxe_fdqueue_push(events, &event->node);
	pthread_mutex_unlock(&events->lock);
}

/* A program does not know the QP that its work queue is of. */
static void event_wq(struct urxe_qp *qp)
{
	struct ibv_async_event event = {.element.wq = qp->wq, .event_type = IBV_EVENT_WQ_FATAL};

	qp->wq->state = IBV_WQS_ERR;
	push(qp->ibv.context, &event, &qp->async);
}

void urxe_event_qp(struct urxe_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = {.element.qp = &qp->ibv, .event_type = type};

	if (qp->wq)
		event_wq(qp);
	else if (qp->borrowed)
		urxe_xrc_event(qp, type);
	else
		push(qp->ibv.context, &event, &qp->async);
}

void urxe_event_cq(struct urxe_cq *cq, enum ibv_event_type type)
{
	struct ibv_async_event event = {.element.cq = &cq->ibv, .event_type = type};

	push(cq->ibv.context, &event, &cq->async);
}

void urxe_event_srq(struct urxe_srq *srq, enum ibv_event_type type)
{
	struct ibv_async_event event = {.element.srq = &srq->ibv, .event_type = type};

	push(srq->ibv.context, &event, &srq->async);
}

void urxe_event_port(struct urxe_context *ctx, unsigned port, enum ibv_event_type type)
{
	struct ibv_async_event event = {.element.port_num = port, .event_type = type};

	push(&ctx->vctx.context, &event, NULL);
}

/* The object goes away: events about it that nobody took go with it. */
void urxe_events_forget(struct urxe_context *ctx, const struct urxe_async *async)
{
	struct urxe_fdqueue *queue = ctx->events;
	struct event *event, *next;

	pthread_mutex_lock(&queue->lock);
	cds_list_for_each_entry_safe (event, next, &queue->entries, node) {
		if (!async->queued)
			break;
		if (event->async == async) {
			event->async->queued--;
			urxe_fdqueue_remove(queue, &event->node);
			free(event);
		}
	}
	pthread_mutex_unlock(&queue->lock);
}

/* Destroying an object waits until the events taken about it are acknowledged. */
void urxe_events_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
		      const uint32_t *taken)
{
	pthread_mutex_lock(mutex);
	while (*completed != *taken)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

int urxe_get_async_event(struct ibv_context *context, struct ibv_async_event *ibv)
{
	struct urxe_fdqueue *queue;
	struct cds_list_head *node;
	struct event *event;

	if (urxe_missing(ibv))
		return -1;
	/* The descriptor is the parent's too: it would miss what is taken here. */
	if (urxe_inherited(to_context(context)->forks)) {
		errno = EIO;
		return -1;
	}
	queue = to_context(context)->events;
	node = urxe_fdqueue_take(queue);
	if (!node)
		return -1;
	event = cds_list_entry(node, struct event, node);
	*ibv = event->ibv;
	if (event->async) {
		event->async->queued--;
		event->async->taken++;
	}
	pthread_mutex_unlock(&queue->lock);
	free(event);
	return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	(*completed)++;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

enum urxe_event_about urxe_event_about(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR: return URXE_ABOUT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: return URXE_ABOUT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: return URXE_ABOUT_SRQ;
	case IBV_EVENT_WQ_FATAL: return URXE_ABOUT_WQ;
	default: return URXE_ABOUT_DEVICE;
	}
}

void urxe_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_srq *srq = event->element.srq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_cq *cq = event->element.cq;

	if (urxe_event_about(event->event_type) == URXE_ABOUT_WQ)
		qp = urxe_wq_qp(event->element.wq);
	switch (urxe_event_about(event->event_type)) {
	case URXE_ABOUT_CQ: ack(&cq->mutex, &cq->cond, &cq->async_events_completed); break;
	case URXE_ABOUT_WQ:
	case URXE_ABOUT_QP: ack(&qp->mutex, &qp->cond, &qp->events_completed); break;
	case URXE_ABOUT_SRQ: ack(&srq->mutex, &srq->cond, &srq->events_completed); break;
	default: break;
	}
}

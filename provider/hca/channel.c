/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Completion channels (ibv_create_comp_channel(3), ibv_get_cq_event(3)). */
#include <errno.h>
#include <stdlib.h>

#include "hca/engine.h"
#include "hca/fdqueue.h"

struct urxe_channel {
	struct ibv_comp_channel ibv;
	struct urxe_fdqueue queue; /* of struct urxe_channel_event */
	unsigned forks;
};

struct urxe_channel_event {
	struct cds_list_head node;
	struct cds_list_head cq_node;
	struct urxe_cq *cq;
};

static struct urxe_channel *of(struct ibv_comp_channel *channel)
{
	return caa_container_of(channel, struct urxe_channel, ibv);
}

struct ibv_comp_channel *urxe_create_comp_channel(struct ibv_context *context)
{
	struct urxe_channel *channel;
	int ret;

	if (!urxe_context_here(context))
		return NULL;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	ret = urxe_fdqueue_init(&channel->queue);
	if (ret) {
		free(channel);
		return urxe_fail(-ret);
	}
	channel->forks = urxe_forks;
	channel->ibv.context = context;
	channel->ibv.fd = channel->queue.fd;
	return &channel->ibv;
}

bool urxe_channel_inherited(struct ibv_comp_channel *channel)
{
	return urxe_inherited(of(channel)->forks);
}

int urxe_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct urxe_channel *channel = of(ibv);

	if (__atomic_load_n(&ibv->refcnt, __ATOMIC_SEQ_CST))
		return EBUSY;
	urxe_fdqueue_fini(&channel->queue);
	free(channel);
	return 0;
}

/* An armed CQ has a completion: one event. Without memory for it the CQ stays silent, as a full
 * kernel queue would; nothing else can be done here. */
void urxe_channel_notify(struct urxe_cq *cq)
{
	struct urxe_channel *channel = of(cq->ibv.channel);
	struct urxe_channel_event *event = malloc(sizeof(*event));

	if (!event)
		return;
	event->cq = cq;
	pthread_mutex_lock(&channel->queue.lock);
	cds_list_add_tail(&event->cq_node, &cq->event_node);
	urxe_fdqueue_push(&channel->queue, &event->node);
	pthread_mutex_unlock(&channel->queue.lock);
}

/* The CQ goes away: events that nobody took go with it. */
void urxe_channel_forget(struct urxe_cq *cq)
{
	struct urxe_channel *channel = of(cq->ibv.channel);
	struct urxe_channel_event *event, *next;

	pthread_mutex_lock(&channel->queue.lock);
	cds_list_for_each_entry_safe (event, next, &cq->event_node, cq_node) {
		urxe_fdqueue_remove(&channel->queue, &event->node);
		free(event);
	}
	CDS_INIT_LIST_HEAD(&cq->event_node);
	pthread_mutex_unlock(&channel->queue.lock);
}

int urxe_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **cq_context)
{
	struct urxe_channel *channel = of(ibv);
	struct urxe_channel_event *event;
	struct cds_list_head *node;

	if (urxe_missing(cq) || urxe_missing(cq_context))
		return -1;
	/* The descriptor is the parent's too: it would miss what is taken here. */
	if (urxe_inherited(channel->forks)) {
		errno = EIO;
		return -1;
	}
	node = urxe_fdqueue_take(&channel->queue);
	if (!node)
		return -1;
	event = cds_list_entry(node, struct urxe_channel_event, node);
	cds_list_del(&event->cq_node);
	event->cq->events_taken++;
	*cq = &event->cq->ibv;
	*cq_context = event->cq->ibv.cq_context;
	pthread_mutex_unlock(&channel->queue.lock);
	free(event);
	return 0;
}

void urxe_ack_cq_events(struct ibv_cq *cq, unsigned nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipSendNotify, VipRecvNotify, VipCQNotify. What has completed already is handed over at once, by
 * the caller; otherwise the registration waits, and the helper thread calls the handler.
 * Registrations are guarded by the lock of their CQ, the list of CQs that have some by the NIC's
 * wait_lock.
 */
#include <stdlib.h>

#include "vipl/helper.h"
#include "vipl/nic.h"

/* What a handler is to be called with. */
struct call {
	struct vipl_notice notice;
	VIP_VI_HANDLE vi;
	VIP_BOOLEAN recv;
	VIP_DESCRIPTOR *descriptor;
};

static void carry_out(struct vipl_nic *nic, const struct call *call)
{
	if (call->notice.vi_handler)
		call->notice.vi_handler(call->notice.context, nic->handle, call->vi,
					call->descriptor);
	else
		call->notice.cq_handler(call->notice.context, nic->handle, call->vi, call->recv);
}

/* The queue whose own a CQ is. */
static struct vipl_queue *owner(struct vipl_cq *cq)
{
	return (struct vipl_queue *)((char *)cq - offsetof(struct vipl_queue, own));
}

/* Something that has completed: of a queue, or an entry of a CQ. */
static bool take(struct vipl_cq *cq, struct call *call)
{
	struct vipl_queue *queue;

	if (!cq->handle) {
		queue = owner(cq);
		call->vi = queue->vi->handle;
		vipl_queue_take(queue, &call->descriptor);
		return call->descriptor;
	}
	return vipl_cq_take(cq, &call->vi, &call->recv);
}

static struct vipl_notices *notices(struct vipl_cq *cq)
{
	return cq->handle ? &cq->notices : &owner(cq)->notices;
}

/* The list of CQs that the helper looks after. */
static void set_served(struct vipl_cq *cq, bool served)
{
	struct vipl_nic *nic = cq->nic;

	pthread_mutex_lock(&nic->wait_lock);
	if (served && !cq->served)
		LIST_INSERT_HEAD(&nic->served, cq, notice_link);
	else if (!served && cq->served)
		LIST_REMOVE(cq, notice_link);
	cq->served = served;
	if (served)
		cq->fired = true;
	pthread_mutex_unlock(&nic->wait_lock);
}

void vipl_notices_cancel(struct vipl_cq *cq, struct vipl_queue *queue)
{
	struct vipl_notices *list = queue ? &queue->notices : &cq->notices;
	struct vipl_notice *notice;

	while ((notice = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, link);
		cq->noticed--;
		free(notice);
	}
	if (!cq->noticed)
		set_served(cq, false);
}

/* The next call that is due, with a registration and something for it; else the CQ is armed. */
static bool next_call(struct vipl_cq *cq, struct call *call)
{
	struct vipl_notice *notice;

	owned_lock(&cq->lock);
	notice = cq->ibv && cq->noticed ? STAILQ_FIRST(notices(cq)) : NULL;
	if (!notice) {
		vipl_cq_unlock(cq);
		return false;
	}
	if (!take(cq, call) && (ibv_req_notify_cq(cq->ibv, 0) || !take(cq, call))) {
		vipl_cq_unlock(cq);
		return false;
	}
	STAILQ_REMOVE_HEAD(notices(cq), link);
	if (!--cq->noticed)
		set_served(cq, false);
	call->notice = *notice;
	free(notice);
	vipl_cq_unlock(cq);
	return true;
}

/* A CQ with registrations for which something has come. */
static struct vipl_cq *next_fired(struct vipl_nic *nic)
{
	struct vipl_cq *cq;

	pthread_mutex_lock(&nic->wait_lock);
	LIST_FOREACH(cq, &nic->served, notice_link)
	{
		if (cq->fired)
			break;
	}
	if (cq)
		cq->fired = false;
	pthread_mutex_unlock(&nic->wait_lock);
	return cq;
}

void vipl_notices_serve(struct vipl_nic *nic)
{
	struct vipl_cq *cq;
	struct call call;

	while (!nic->orphan && (cq = next_fired(nic))) {
		while (!nic->orphan && next_call(cq, &call))
			carry_out(nic, &call);
	}
}

/* Hands over what is there, or keeps the registration. */
static VIP_RETURN notify(struct vipl_cq *cq, const struct vipl_notice *wanted)
{
	struct call call = {.notice = *wanted};
	struct vipl_nic *nic = cq->nic;
	struct vipl_notice *notice = malloc(sizeof(*notice));

	if (!notice || vipl_helper_start(nic)) {
		free(notice);
		return VIP_ERROR_RESOURCE;
	}
	*notice = *wanted;
	owned_lock(&cq->lock);
	if (!cq->ibv) {
		vipl_cq_unlock(cq);
		free(notice);
		return VIP_INVALID_PARAMETER;
	}
	/* Earlier registrations come first. */
	if (STAILQ_EMPTY(notices(cq)) && take(cq, &call)) {
		vipl_cq_unlock(cq);
		free(notice);
		carry_out(nic, &call);
		return VIP_SUCCESS;
	}
	STAILQ_INSERT_TAIL(notices(cq), notice, link);
	cq->noticed++;
	set_served(cq, true);
	vipl_cq_unlock(cq);
	vipl_helper_kick(nic);
	return VIP_SUCCESS;
}

static VIP_RETURN notify_queue(struct vipl_queue *queue, void *context, VIP_VI_CALLBACK handler)
{
	struct vipl_notice notice = {.context = context, .vi_handler = handler};

	if (__atomic_load_n(&queue->cq, __ATOMIC_RELAXED) != &queue->own)
		return VIP_ERROR_RESOURCE;
	return notify(&queue->own, &notice);
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE handle, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && handler ? notify_queue(&vi->sq, context, handler) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE handle, VIP_PVOID context, VIP_VI_CALLBACK handler)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && handler ? notify_queue(&vi->rq, context, handler) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE handle, VIP_PVOID context, VIP_CQ_CALLBACK handler)
{
	struct vipl_cq *cq = vipl_handle_lookup(handle, VIPL_KIND_CQ);
	struct vipl_notice notice = {.context = context, .cq_handler = handler};

	return cq && handler ? notify(cq, &notice) : VIP_INVALID_PARAMETER;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* VipCreateCQ and its kin, and the CQs of queues that have none of the program's (cq.h). */
#include <errno.h>
#include <stdlib.h>

#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/object.h"
#include "vipl/wait.h"

#define ENTRIES_AT_LEAST 128  /* of a verbs CQ; a small one stays in the processor's cache */
#define UNGROWN_AT_LEAST 4096 /* the same, on devices that cannot make one larger later */
#define RESERVE_STEP	 64

/* The lock is here already: where a device knows the flag, it takes none of its own. */
static struct ibv_cq *create_unlocked(struct vipl_cq *cq, struct vipl_nic *nic, unsigned entries)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = entries,
					   .cq_context = cq,
					   .channel = nic->channel,
					   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					   .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(nic->context, &attr);

	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

static struct ibv_cq *create_ibv(struct vipl_cq *cq, struct vipl_nic *nic, unsigned entries)
{
	unsigned most = nic->limits.max_cqe;
	struct ibv_cq *ibv;

	if (nic->iwarp && entries < UNGROWN_AT_LEAST)
		entries = UNGROWN_AT_LEAST;
	if (entries > most)
		entries = most;
	ibv = create_unlocked(cq, nic, entries);
	return ibv ? ibv : ibv_create_cq(nic->context, entries, cq, nic->channel, 0);
}

int vipl_cq_open(struct vipl_cq *cq, struct vipl_nic *nic, unsigned entries, void *handle)
{
	struct ibv_cq *ibv =
		create_ibv(cq, nic, entries < ENTRIES_AT_LEAST ? ENTRIES_AT_LEAST : entries);

	if (!ibv)
		return -errno;
	owned_lock(&cq->lock);
	cq->deferred = 0;
	cq->nic = nic;
	cq->handle = handle;
	cq->head = cq->tail = 0;
	cq->reserved = 0;
	cq->broken = NULL;
	STAILQ_INIT(&cq->notices);
	cq->noticed = 0;
	pthread_mutex_lock(&nic->wait_lock);
	cq->served = false;
	cq->fired = false;
	pthread_mutex_unlock(&nic->wait_lock);
	cq->users = 0;
	cq->ibv = ibv;
	cq->capacity = ibv->cqe;
	owned_unlock(&cq->lock);
	return 0;
}

void vipl_cq_close(struct vipl_cq *cq)
{
	struct ibv_cq *ibv;

	owned_lock(&cq->lock);
	ibv = cq->ibv;
	cq->ibv = NULL;
	vipl_notices_cancel(cq, NULL);
	cq->deferred |= VIPL_WAKE; /* its waiters */
	vipl_cq_unlock(cq);
	if (ibv)
		ibv_destroy_cq(ibv);
}

/*
 * More work requests than a CQ has room for would be lost with their completions. A queue reserves
 * room as it needs it, and keeps it.
 */
int vipl_cq_reserve(struct vipl_cq *cq, unsigned count)
{
	unsigned wanted = cq->reserved + count;

	if (wanted > cq->capacity) {
		unsigned entries = wanted * 2;

		if (entries > (unsigned)cq->nic->limits.max_cqe)
			entries = cq->nic->limits.max_cqe;
		if (wanted > entries || ibv_resize_cq(cq->ibv, entries))
			return -ENOMEM;
		cq->capacity = cq->ibv->cqe;
		if (wanted > cq->capacity)
			return -ENOMEM;
	}
	cq->reserved = wanted;
	return 0;
}

/* The queue that an entry is for; NULL: its VI has gone. */
static struct vipl_queue *queue_of(const struct vipl_cq *cq, const struct vipl_cq_entry *entry)
{
	struct vipl_vi *vi = vipl_handle_lookup(entry->vi, VIPL_KIND_VI);
	struct vipl_queue *queue = NULL;

	if (vi)
		queue = entry->recv ? &vi->rq : &vi->sq;
	return queue && queue->cq == cq ? queue : NULL;
}

/*
 * Programs that take descriptors by VipSendDone() and VipRecvDone() alone leave their entries
 * behind. Of each queue only the last ones are kept, as many as there are descriptors to take.
 */
static void drop_stale(struct vipl_cq *cq)
{
	unsigned mask = cq->size - 1, first = cq->tail;

	for (unsigned i = cq->tail; i != cq->head; i--) {
		struct vipl_cq_entry entry = cq->entries[(i - 1) & mask];
		struct vipl_queue *queue = queue_of(cq, &entry);

		if (queue && queue->kept < queue->done - queue->head) {
			queue->kept++;
			cq->entries[--first & mask] = entry;
		}
	}
	cq->head = first;
	for (unsigned i = cq->head; i != cq->tail; i++) {
		struct vipl_queue *queue = queue_of(cq, &cq->entries[i & mask]);

		if (queue)
			queue->kept = 0;
	}
}

static bool double_size(struct vipl_cq *cq)
{
	unsigned size = cq->size ? cq->size * 2 : 64;
	struct vipl_cq_entry *entries = malloc(size * sizeof(*entries));

	if (!entries)
		return false;
	for (unsigned i = cq->head; i != cq->tail; i++)
		entries[i % size] = cq->entries[i % cq->size];
	free(cq->entries);
	cq->entries = entries;
	cq->size = size;
	return true;
}

bool vipl_cq_make_room(struct vipl_cq *cq)
{
	VIP_ERROR_DESCRIPTOR error = {.NicHandle = cq->nic->handle,
				      .CQHandle = cq->handle,
				      .ResourceCode = VIP_RESOURCE_CQ,
				      .ErrorCode = VIP_ERROR_CATASTROPHIC};

	drop_stale(cq);
	if (cq->tail - cq->head < cq->size / 2 || double_size(cq))
		return true;
	if (cq->tail - cq->head < cq->size)
		return true;
	vipl_report(cq->nic, &error);
	return false;
}

void vipl_cq_run_deferred(struct vipl_cq *cq, unsigned deferred)
{
	struct vipl_vi *broken = cq->broken, *next;
	struct vipl_nic *nic = cq->nic;

	cq->deferred = 0;
	cq->broken = NULL;
	owned_unlock(&cq->lock);
	if (deferred & VIPL_WAKE)
		vipl_wake(nic, cq);
	for (; broken; broken = next) {
		next = broken->broken_next;
		vipl_vi_break(broken, broken->broken_code);
	}
}

VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE nic_handle, VIP_ULONG entries, VIP_CQ_HANDLE *handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	struct vipl_cq *cq;
	void *number;

	if (!nic || !handle || !entries)
		return VIP_INVALID_PARAMETER;
	*handle = NULL;
	if (entries > (VIP_ULONG)nic->limits.max_cqe)
		return VIP_ERROR_RESOURCE;
	cq = vipl_object_get(VIPL_KIND_CQ, sizeof(*cq));
	if (!cq)
		return VIP_ERROR_RESOURCE;
	number = vipl_handle_create(VIPL_KIND_CQ, cq);
	vipl_nic_lock(nic);
	if (!number || nic->closing || vipl_cq_open(cq, nic, entries, number)) {
		vipl_nic_unlock(nic);
		if (number)
			vipl_handle_destroy(number);
		vipl_object_put(VIPL_KIND_CQ, cq);
		return VIP_ERROR_RESOURCE;
	}
	LIST_INSERT_HEAD(&nic->cqs, cq, link);
	vipl_nic_unlock(nic);
	*handle = number;
	return VIP_SUCCESS;
}

void vipl_cq_free(struct vipl_cq *cq)
{
	vipl_handle_destroy(cq->handle);
	LIST_REMOVE(cq, link);
	vipl_cq_close(cq);
	vipl_object_put(VIPL_KIND_CQ, cq);
}

VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE handle)
{
	struct vipl_cq *cq = vipl_handle_lookup(handle, VIPL_KIND_CQ);
	VIP_RETURN result = VIP_SUCCESS;
	struct vipl_nic *nic;

	if (!cq)
		return VIP_INVALID_PARAMETER;
	nic = cq->nic;
	vipl_nic_lock(nic);
	if (cq->handle != handle)
		result = VIP_INVALID_PARAMETER;
	else if (cq->users)
		result = VIP_ERROR_RESOURCE;
	else
		vipl_cq_free(cq);
	vipl_nic_unlock(nic);
	return result;
}

/* There is always room for as many entries as descriptors; the number is a promise that can be kept
 * or not. */
VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE handle, VIP_ULONG entries)
{
	struct vipl_cq *cq = vipl_handle_lookup(handle, VIPL_KIND_CQ);
	VIP_RETURN result = VIP_SUCCESS;

	if (!cq || !entries)
		return VIP_INVALID_PARAMETER;
	if (entries > (VIP_ULONG)cq->nic->limits.max_cqe)
		return VIP_ERROR_RESOURCE;
	owned_lock(&cq->lock);
	if (!cq->ibv)
		result = VIP_INVALID_PARAMETER;
	else if (cq->tail - cq->head > entries)
		result = VIP_ERROR_RESOURCE;
	else if (entries > cq->capacity && ibv_resize_cq(cq->ibv, entries))
		result = VIP_ERROR_RESOURCE;
	if (cq->ibv)
		cq->capacity = cq->ibv->cqe;
	vipl_cq_unlock(cq);
	return result;
}

static __attribute__((noinline)) VIP_RETURN done_shared(struct vipl_cq *cq, VIP_VI_HANDLE *vi,
							VIP_BOOLEAN *recv)
{
	bool found;

	owned_lock_shared(&cq->lock, true);
	found = vipl_cq_take(cq, vi, recv);
	vipl_cq_unlock(cq);
	return found ? VIP_SUCCESS : VIP_NOT_DONE;
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE handle, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv)
{
	struct vipl_cq *cq = vipl_handle_lookup(handle, VIPL_KIND_CQ);
	bool found;

	if (!cq || !vi || !recv)
		return VIP_INVALID_PARAMETER;
	if (vipl_unlikely(!owned_lock_own(&cq->lock)))
		return done_shared(cq, vi, recv);
	found = vipl_cq_take(cq, vi, recv);
	vipl_cq_leave(cq);
	return found ? VIP_SUCCESS : VIP_NOT_DONE;
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE handle, VIP_ULONG timeout, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv)
{
	struct vipl_cq *cq = vipl_handle_lookup(handle, VIPL_KIND_CQ);
	struct vipl_deadline deadline;
	bool found = false;
	int ret = 0;

	if (!cq || !vi || !recv)
		return VIP_INVALID_PARAMETER;
	deadline = vipl_deadline(timeout);
	while (true) {
		owned_lock_often(&cq->lock);
		found = vipl_cq_take(cq, vi, recv);
		if (!found && !ret && cq->ibv && !ibv_req_notify_cq(cq->ibv, 0))
			found = vipl_cq_take(cq, vi, recv);
		if (!cq->ibv)
			ret = -ECANCELED;
		vipl_cq_unlock(cq);
		if (found)
			return VIP_SUCCESS;
		if (ret)
			return ret == -ETIMEDOUT ? VIP_TIMEOUT : VIP_INVALID_PARAMETER;
		ret = timeout ? vipl_wait(cq, &deadline) : -ETIMEDOUT;
	}
}

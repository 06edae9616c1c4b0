// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Work queues: how descriptors complete, and how they are taken (queue.h). */
#include <endian.h>
#include <errno.h>

#include "vipl/bounce.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/post.h"
#include "vipl/vi.h"

const struct vipl_access *vipl_queue_access(struct vipl_queue *queue, VIP_MEM_HANDLE handle,
					    struct vipl_access *copy)
{
	if (vipl_likely(copy->key == vipl_access_key(handle, vipl_queue_memory_generation(queue))))
		return copy;
	if (!vipl_memory_access(queue->nic, handle, queue->vi->ptag, copy))
		return copy;
	*copy = (struct vipl_access){0};
	return NULL;
}

/* Of a descriptor that is posted a program may take back the memory; then nobody is told. */
static void bury(struct vipl_queue *queue, struct vipl_slot *slot)
{
	struct vipl_access access;

	if (vipl_memory_access(queue->nic, slot->handle, queue->vi->ptag, &access) == -ENOENT)
		slot->descriptor = &queue->grave;
}

static __attribute__((noinline)) void look_again(struct vipl_queue *queue, struct vipl_slot *slot)
{
	struct vipl_work work;

	bury(queue, slot);
	if (!slot->bounce || (slot->descriptor != &queue->grave &&
			      !vipl_descriptor_read(queue, slot->descriptor, slot->handle, &work)))
		return;
	/* What has come cannot be copied to where it was to go. */
	vipl_bounce_drop(slot, queue->vi->domain);
	if (queue->recv || (slot->status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RDMA_READ)
		slot->status |= VIP_STATUS_PROTECTION_ERROR;
}

vipl_inline void check_memory(struct vipl_queue *queue, struct vipl_slot *slot)
{
	if (vipl_unlikely(slot->memory_generation != vipl_queue_memory_generation(queue)))
		look_again(queue, slot);
}

/* The status is written last: whoever sees it sees all that came before. */
static void write_status(VIP_DESCRIPTOR *descriptor, uint32_t status)
{
	__atomic_store_n(&descriptor->CS.Status, status, __ATOMIC_RELEASE);
}

/* The one at `done`, whose memory has been looked after; its entry of the CQ is the caller's. */
vipl_inline void end_one(struct vipl_queue *queue, struct vipl_slot *slot, uint32_t status)
{
	slot->status = status;
	write_status(slot->descriptor, status);
	queue->done++;
	queue->wrs -= slot->wrs;
}

vipl_inline void push_entry(struct vipl_queue *queue)
{
	if (queue->cq->handle)
		vipl_cq_push(queue->cq, queue->vi->handle, queue->recv);
}

static void finish_one(struct vipl_queue *queue, struct vipl_slot *slot, uint32_t status)
{
	end_one(queue, slot, status);
	push_entry(queue);
}

/* A malformed descriptor takes effect when it is its turn. */
static void finish_refused(struct vipl_queue *queue, struct vipl_slot *slot)
{
	uint32_t status = slot->status;

	check_memory(queue, slot);
	finish_one(queue, slot, status);
	queue->cq->deferred |= VIPL_WAKE;
	if (status & VIP_STATUS_ERROR_MASK & ~VIP_STATUS_DESC_FLUSHED_ERROR &&
	    queue->mode != VIPL_HOLD && queue->vi->reliable)
		vipl_vi_mark(queue, VIP_ERROR_CONN_LOST);
}

void vipl_queue_settle(struct vipl_queue *queue)
{
	while (queue->done != queue->tail) {
		struct vipl_slot *slot = vipl_slot(queue, queue->done);

		if (vipl_likely(!(slot->status & VIP_STATUS_DONE)))
			break;
		finish_refused(queue, slot);
	}
}

/* After one has completed: those behind it that have their status. */
vipl_inline void settle_behind(struct vipl_queue *queue)
{
	if (queue->done == queue->tail)
		return;
	if (vipl_unlikely(vipl_slot(queue, queue->done)->status & VIP_STATUS_DONE))
		vipl_queue_settle(queue);
}

static void finish(struct vipl_queue *queue, struct vipl_slot *slot, uint32_t status)
{
	finish_one(queue, slot, status | VIP_STATUS_DONE);
	settle_behind(queue);
}

void vipl_queue_flush(struct vipl_queue *queue)
{
	while (queue->done != queue->tail) {
		struct vipl_slot *slot = vipl_slot(queue, queue->done);
		uint32_t status = slot->status;

		if (!(status & VIP_STATUS_DONE))
			status |= VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_DONE;
		vipl_bounce_drop(slot, queue->vi->domain);
		check_memory(queue, slot);
		finish_one(queue, slot, status);
		queue->cq->deferred |= VIPL_WAKE;
	}
}

/* What a failed work request means; the reliability level tells some cases apart. */
static uint32_t error_status(const struct vipl_queue *queue, enum ibv_wc_status status)
{
	bool reception = queue->vi->attributes.ReliabilityLevel == VIP_SERVICE_RELIABLE_RECEPTION;

	switch (status) {
	case IBV_WC_WR_FLUSH_ERR: return VIP_STATUS_DESC_FLUSHED_ERROR;
	case IBV_WC_LOC_LEN_ERR: return VIP_STATUS_LENGTH_ERROR;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR: return VIP_STATUS_PROTECTION_ERROR;
	case IBV_WC_REM_ACCESS_ERR: return VIP_STATUS_RDMA_PROT_ERROR;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return reception ? VIP_STATUS_REMOTE_DESC_ERROR : VIP_STATUS_TRANSPORT_ERROR;
	default: return VIP_STATUS_TRANSPORT_ERROR;
	}
}

static void complete_error(struct vipl_queue *queue, struct vipl_slot *slot,
			   const struct ibv_wc *wc)
{
	uint32_t status = error_status(queue, wc->status);

	/* What ended the first part of a descriptor is what ended all of it. */
	if (!(slot->status & VIP_STATUS_ERROR_MASK))
		slot->status |= status;
	vipl_vi_mark(queue, VIP_ERROR_CONN_LOST);
	if (wc->wr_id & VIPL_WR_PART)
		return;
	vipl_bounce_drop(slot, queue->vi->domain);
	finish(queue, slot, slot->status);
}

/* The header that stands for immediate data on iWARP. Returns the status bits and the length. */
static uint32_t read_header(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
			    const struct ibv_wc *wc)
{
	const struct vipl_header *header =
		&queue->vi->headers[vipl_slot(queue, queue->done) - queue->slots];
	uint32_t flags = be32toh(header->flags), status = VIP_STATUS_OP_RECEIVE;

	if (wc->byte_len < sizeof(*header))
		return VIP_STATUS_OP_RECEIVE | VIP_STATUS_TRANSPORT_ERROR;
	descriptor->CS.Length = wc->byte_len - sizeof(*header);
	if (flags & VIPL_HEADER_RDMA_WRITE) {
		status = VIP_STATUS_OP_REMOTE_RDMA_WRITE;
		descriptor->CS.Length = be32toh(header->length);
	}
	if (flags & VIPL_HEADER_IMMEDIATE) {
		descriptor->CS.ImmediateData = be32toh(header->immediate);
		status |= VIP_STATUS_IMMEDIATE;
	}
	return status;
}

/* Of a message without header, into the program's memory alone. */
vipl_inline uint32_t read_message(VIP_DESCRIPTOR *descriptor, const struct ibv_wc *wc)
{
	uint32_t status = VIP_STATUS_OP_RECEIVE;

	descriptor->CS.Length = wc->byte_len;
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		status = VIP_STATUS_OP_REMOTE_RDMA_WRITE;
	if (wc->wc_flags & IBV_WC_WITH_IMM) {
		descriptor->CS.ImmediateData = be32toh(wc->imm_data);
		status |= VIP_STATUS_IMMEDIATE;
	}
	return status;
}

static void complete_recv(struct vipl_queue *queue, struct vipl_slot *slot, const struct ibv_wc *wc)
{
	VIP_DESCRIPTOR *descriptor = slot->descriptor;
	uint32_t status = queue->vi->headers ? read_header(queue, descriptor, wc)
					     : read_message(descriptor, wc);

	if (slot->bounce)
		vipl_bounce_scatter(slot, queue->vi->domain,
				    (status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RECEIVE
					    ? descriptor->CS.Length
					    : 0);
	finish(queue, slot, status | (slot->status & VIP_STATUS_ERROR_MASK));
}

static void complete_bounce(struct vipl_queue *queue, struct vipl_slot *slot)
{
	bool read = (slot->status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_RDMA_READ;

	vipl_bounce_scatter(slot, queue->vi->domain, read ? UINT64_MAX : 0);
}

static __attribute__((noinline)) void complete_any(struct vipl_queue *queue,
						   const struct ibv_wc *wc)
{
	struct vipl_slot *slot = vipl_slot(queue, queue->done);

	if ((wc->wr_id ^ queue->wr_id) >= VIPL_WR_QP)
		return; /* of a QP that has been destroyed */
	if (wc->wr_id & VIPL_WR_GREETING) {
		queue->wrs--;
		queue->vi->greeted |= wc->status == IBV_WC_SUCCESS && queue->recv;
		return;
	}
	if (queue->done == queue->tail)
		return;
	check_memory(queue, slot);
	if (wc->status != IBV_WC_SUCCESS) {
		complete_error(queue, slot, wc);
	} else if (queue->recv) {
		complete_recv(queue, slot, wc);
	} else {
		if (slot->bounce)
			complete_bounce(queue, slot);
		finish(queue, slot, slot->status);
	}
}

/*
 * Completes the descriptor at `done` if it is one as most are: it has succeeded, its memory is
 * as it was, and the message lies where the descriptor says. The caller sees to its entry of the
 * CQ, and to those behind it.
 */
vipl_inline bool complete_plain(struct vipl_queue *queue, const struct ibv_wc *wc)
{
	struct vipl_slot *slot = vipl_slot(queue, queue->done);
	uint32_t status;

	if (vipl_unlikely(wc->wr_id != queue->wr_id || queue->done == queue->tail ||
			  wc->status != IBV_WC_SUCCESS || slot->bounce ||
			  slot->memory_generation != vipl_queue_memory_generation(queue)))
		return false;
	if (!queue->recv)
		status = slot->status;
	else if (vipl_likely(!queue->vi->headers))
		status = read_message(slot->descriptor, wc);
	else
		return false;
	end_one(queue, slot, status | VIP_STATUS_DONE);
	return true;
}

vipl_inline void complete(struct vipl_queue *queue, const struct ibv_wc *wc)
{
	if (vipl_likely(complete_plain(queue, wc))) {
		push_entry(queue);
		settle_behind(queue);
	} else {
		complete_any(queue, wc);
	}
}

static __attribute__((noinline)) void complete_of_any(const struct ibv_wc *wc)
{
	complete(vipl_wr_queue(wc->wr_id), wc);
}

vipl_inline bool poll_one(const struct vipl_cq *cq, struct ibv_wc *wc)
{
	return vipl_likely(cq->ibv != NULL) && ibv_poll_cq(cq->ibv, 1, wc) > 0;
}

void vipl_cq_poll(struct vipl_cq *cq)
{
	struct ibv_wc wc;

	while (poll_one(cq, &wc))
		complete_of_any(&wc);
}

/* The next entry whose VI is still there. */
static bool take_entry(struct vipl_cq *cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv)
{
	while (cq->head != cq->tail) {
		struct vipl_cq_entry *entry = &cq->entries[cq->head++ & (cq->size - 1)];

		if (vipl_unlikely(!vipl_handle_lookup(entry->vi, VIPL_KIND_VI)))
			continue;
		*vi = entry->vi;
		*recv = entry->recv;
		return true;
	}
	return false;
}

/* What completes while there are no entries is given to the program without one. */
bool vipl_cq_take(struct vipl_cq *cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv)
{
	struct vipl_queue *queue;
	struct ibv_wc wc;

	while (vipl_likely(cq->head == cq->tail) || !take_entry(cq, vi, recv)) {
		if (!poll_one(cq, &wc))
			return false;
		queue = vipl_wr_queue(wc.wr_id);
		if (vipl_likely(complete_plain(queue, &wc))) {
			*vi = queue->vi->handle;
			*recv = queue->recv;
			settle_behind(queue);
			return true;
		}
		complete_any(queue, &wc);
	}
	return true;
}

/*
 * Takes what has completed until one of the queue's has. False: none has.
 *
 * What is most likely is known before the completion is: the processor reads the slot and the
 * descriptor while the completion still comes, as nothing of it but a comparison decides on them.
 */
static bool poll_queue(struct vipl_queue *queue)
{
	struct ibv_wc wc;

	do {
		if (!poll_one(queue->cq, &wc))
			return false;
		if (vipl_likely(wc.wr_id == queue->wr_id))
			complete(queue, &wc);
		else
			complete_of_any(&wc);
	} while (vipl_unlikely(queue->head == queue->done));
	return true;
}

VIP_RETURN vipl_queue_take_next(struct vipl_queue *queue, VIP_DESCRIPTOR **descriptor)
{
	*descriptor = NULL;
	if (queue->head == queue->tail)
		return vipl_unlikely(queue->mode == VIPL_CLOSED) ? VIP_INVALID_PARAMETER
								 : VIP_DESCRIPTOR_ERROR;
	return poll_queue(queue) ? vipl_queue_take_head(queue, descriptor) : VIP_NOT_DONE;
}

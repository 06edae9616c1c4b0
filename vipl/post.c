// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipPostSend, VipPostRecv (post.h; source, 2.1 and 2.3). A descriptor is one work request, which
 * is signalled; RDMA of more segments than the device takes is several, of which the last one is.
 * Guarded by the lock of the queue's CQ.
 */
#include <endian.h>
#include <errno.h>

#include "vipl/bounce.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/post.h"

#define RESERVE_STEP 64

/* Control bits that a plain descriptor may have (is_plain()). */
#define PLAIN ((unsigned)(VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE))

static inline struct vipl_slot *fill_slot(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
					  VIP_MEM_HANDLE handle)
{
	struct vipl_slot *slot = vipl_slot(queue, queue->tail);

	slot->descriptor = descriptor;
	slot->bounce = NULL;
	slot->handle = handle;
	slot->wrs = 0;
	slot->memory_generation = vipl_queue_memory_generation(queue);
	__builtin_prefetch(slot + 2, 1); /* the next line */
	return slot;
}

/* Room in the ring; what is too much is reported and forgotten. */
static struct vipl_slot *next_slot(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
				   VIP_MEM_HANDLE handle)
{
	if (queue->tail - queue->head < VIPL_DEPTH)
		return fill_slot(queue, descriptor, handle);
	vipl_report_vi(queue->vi, VIP_ERROR_VI_OVERRUN, descriptor, 0);
	return NULL;
}

/* A descriptor that needs no work request. After a malformed one a reliable connection sends no
 * more. */
static void post_finished(struct vipl_queue *queue, struct vipl_slot *slot, uint32_t status)
{
	slot->status |= status | VIP_STATUS_DONE;
	queue->tail++;
	if (status & ~VIP_STATUS_DESC_FLUSHED_ERROR && queue->vi->reliable &&
	    queue->mode == VIPL_OPEN)
		vipl_queue_set_mode(queue, VIPL_REFUSE);
	vipl_queue_settle(queue);
}

static void post_nowhere(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor)
{
	vipl_report_vi(queue->vi, VIP_ERROR_POST_DESC, descriptor, 0);
}

/* Room in the CQ for the completions of another so many work requests. */
static bool reserve(struct vipl_queue *queue, unsigned wrs)
{
	unsigned step = wrs > RESERVE_STEP ? wrs : RESERVE_STEP;

	if (vipl_likely(queue->wrs + wrs <= queue->reserved))
		return true;
	if (vipl_cq_reserve(queue->cq, step)) {
		step = wrs;
		if (vipl_cq_reserve(queue->cq, step))
			return false;
	}
	queue->reserved += step;
	return true;
}

static uint32_t operation_status(unsigned control)
{
	switch (control & VIP_CONTROL_OP_MASK) {
	case VIP_CONTROL_OP_RDMAWRITE: return VIP_STATUS_OP_RDMA_WRITE;
	case VIP_CONTROL_OP_RDMAREAD: return VIP_STATUS_OP_RDMA_READ;
	default: return VIP_STATUS_OP_SEND;
	}
}

static enum ibv_wr_opcode opcode(unsigned control)
{
	bool immediate = control & VIP_CONTROL_IMMEDIATE;

	switch (control & VIP_CONTROL_OP_MASK) {
	case VIP_CONTROL_OP_RDMAWRITE:
		return immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	case VIP_CONTROL_OP_RDMAREAD: return IBV_WR_RDMA_READ;
	default: return immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	}
}

/* The work request of a descriptor, for as many elements as it has. */
static void fill(const struct vipl_queue *queue, struct vipl_work *work, struct ibv_send_wr *wr)
{
	wr->wr_id = vipl_wr_id(queue);
	wr->next = NULL;
	wr->sg_list = work->sge;
	wr->num_sge = work->count;
	wr->opcode = opcode(work->control);
	wr->send_flags = IBV_SEND_SIGNALED;
	if (vipl_unlikely(work->control & VIP_CONTROL_QFENCE && queue->vi->reliable))
		wr->send_flags |= IBV_SEND_FENCE;
	wr->imm_data = htobe32(work->immediate);
	wr->wr.rdma.remote_addr = work->remote_addr;
	wr->wr.rdma.rkey = work->rkey;
}

/* How many work requests a send queue has room for: each descriptor to come shall find one. */
static unsigned room(const struct vipl_queue *queue)
{
	unsigned to_come = VIPL_DEPTH - (queue->tail - queue->head) - 1;

	return VIPL_DEPTH + VIPL_EXTRA_WRS - queue->wrs - to_come;
}

/* RDMA as several work requests. 0 or an errno. */
static int post_split(struct vipl_queue *queue, struct vipl_work *work, unsigned most,
		      unsigned count)
{
	struct ibv_send_wr wrs[VIPL_EXTRA_WRS + 1], *bad;

	for (unsigned i = 0; i < count; i++) {
		struct ibv_send_wr *wr = &wrs[i];

		fill(queue, work, wr);
		wr->sg_list = work->sge + i * most;
		wr->num_sge = work->count - i * most < most ? work->count - i * most : most;
		for (int j = 0; j < wr->num_sge; j++)
			work->remote_addr += wr->sg_list[j].length;
		if (i + 1 == count)
			break;
		wr->next = wr + 1;
		wr->wr_id |= VIPL_WR_PART;
		wr->send_flags &= ~IBV_SEND_SIGNALED;
	}
	return ibv_post_send(queue->vi->qp, wrs, &bad);
}

/* On devices without immediate data a header goes before each message, and a message after an RDMA
 * write. */
static int post_with_header(struct vipl_queue *queue, struct vipl_slot *slot,
			    struct vipl_work *work, unsigned *count)
{
	struct vipl_header *header = &queue->vi->headers[VIPL_DEPTH + (slot - queue->slots)];
	struct ibv_sge list[VIPL_MAX_SGE + 1] = {{.addr = (uintptr_t)header,
						  .length = sizeof(*header),
						  .lkey = queue->vi->headers_lkey}};
	bool write = (work->control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_RDMAWRITE;
	bool immediate = work->control & VIP_CONTROL_IMMEDIATE;
	struct ibv_send_wr first, second, *bad;

	header->flags = htobe32((immediate ? VIPL_HEADER_IMMEDIATE : 0) |
				(write ? VIPL_HEADER_RDMA_WRITE : 0));
	header->immediate = htobe32(work->immediate);
	header->length = htobe32(work->length);
	work->control &= ~VIP_CONTROL_IMMEDIATE;
	fill(queue, work, &first);
	second = first;
	if (write) {
		first.next = &second;
		first.wr_id |= VIPL_WR_PART;
		first.send_flags &= ~IBV_SEND_SIGNALED;
		second.send_flags = IBV_SEND_SIGNALED;
		second.opcode = IBV_WR_SEND;
		second.num_sge = 1;
		*count = 2;
	} else {
		for (unsigned i = 0; i < work->count; i++)
			list[i + 1] = work->sge[i];
		second.num_sge = work->count + 1;
	}
	second.sg_list = list;
	return ibv_post_send(queue->vi->qp, write ? &first : &second, &bad);
}

/* What is not one work request as it is. 0 or an errno; how many it has become. */
static int post_special(struct vipl_queue *queue, struct vipl_slot *slot, struct vipl_work *work,
			unsigned *wrs)
{
	unsigned op = work->control & VIP_CONTROL_OP_MASK, most = queue->max_sge;
	bool read = op == VIP_CONTROL_OP_RDMAREAD;
	int ret;

	if (read)
		most = queue->nic->read_sge;
	if (work->count > most) {
		unsigned parts = (work->count + most - 1) / most;

		if (op != VIP_CONTROL_OP_SENDRECV && !(work->control & VIP_CONTROL_IMMEDIATE) &&
		    parts <= room(queue) && reserve(queue, parts)) {
			*wrs = parts;
			return post_split(queue, work, most, parts);
		}
		ret = vipl_bounce_fit(slot, queue->vi->domain, work->sge, work->count, most, read);
		if (ret < 0)
			return -ret;
		work->count = ret;
	}
	if (queue->vi->headers &&
	    (op == VIP_CONTROL_OP_SENDRECV || work->control & VIP_CONTROL_IMMEDIATE)) {
		if (room(queue) < 2 || !reserve(queue, 2))
			return ENOMEM;
		return post_with_header(queue, slot, work, wrs);
	}
	return post_split(queue, work, most, 1);
}

/* The device has refused a work request: the descriptor comes back at once. */
static void post_failed(struct vipl_queue *queue, struct vipl_slot *slot)
{
	vipl_bounce_drop(slot, queue->vi->domain);
	slot->wrs = 0;
	post_finished(queue, slot, VIP_STATUS_TRANSPORT_ERROR);
}

static void post_send(struct vipl_queue *queue, struct vipl_slot *slot, struct vipl_work *work)
{
	struct ibv_send_wr wr, *bad;
	unsigned wrs = 1;
	int ret;

	if (vipl_unlikely(!reserve(queue, 1))) {
		ret = ENOMEM;
	} else if (vipl_unlikely(work->count > queue->nic->read_sge ||
				 queue->vi->headers != NULL)) {
		ret = post_special(queue, slot, work, &wrs);
	} else {
		fill(queue, work, &wr);
		if (work->length <= queue->vi->max_inline && wr.opcode != IBV_WR_RDMA_READ)
			wr.send_flags |= IBV_SEND_INLINE;
		ret = ibv_post_send(queue->vi->qp, &wr, &bad);
	}
	if (vipl_unlikely(ret)) {
		post_failed(queue, slot);
		return;
	}
	slot->wrs = wrs;
	queue->wrs += wrs;
	queue->tail++;
}

/* Gives the QP a receive. False: it cannot be. */
static bool give_recv(struct vipl_queue *queue, struct vipl_slot *slot, struct vipl_work *work)
{
	struct ibv_recv_wr wr = {.wr_id = vipl_wr_id(queue)}, *bad;
	struct ibv_sge list[VIPL_MAX_SGE + 1];
	struct vipl_vi *vi = queue->vi;
	int ret;

	if (!reserve(queue, 1))
		return false;
	if (vipl_unlikely(work->count > queue->max_sge)) {
		ret = vipl_bounce_fit(slot, vi->domain, work->sge, work->count, queue->max_sge,
				      true);
		if (ret < 0)
			return false;
		work->count = ret;
	}
	wr.sg_list = work->sge;
	wr.num_sge = work->count;
	if (vipl_unlikely(vi->headers != NULL)) {
		list[0] = (struct ibv_sge){.addr = (uintptr_t)&vi->headers[slot - queue->slots],
					   .length = sizeof(struct vipl_header),
					   .lkey = vi->headers_lkey};
		for (unsigned i = 0; i < work->count; i++)
			list[i + 1] = work->sge[i];
		wr.sg_list = list;
		wr.num_sge++;
	}
	if (ibv_post_recv(vi->qp, &wr, &bad)) {
		vipl_bounce_drop(slot, vi->domain);
		return false;
	}
	slot->wrs = 1;
	queue->wrs++;
	return true;
}

static void post_recv(struct vipl_queue *queue, struct vipl_slot *slot, struct vipl_work *work)
{
	if (vipl_likely(queue->mode == VIPL_HOLD || give_recv(queue, slot, work)))
		queue->tail++;
	else
		post_failed(queue, slot);
}

/* How many plain descriptors there is certainly room for. */
static void plan(struct vipl_queue *queue)
{
	unsigned room = VIPL_DEPTH - (queue->tail - queue->head);

	if (queue->mode != VIPL_OPEN || queue->vi->headers || !reserve(queue, 1))
		room = 0;
	else if (room > queue->reserved - queue->wrs)
		room = queue->reserved - queue->wrs;
	queue->plain_until = queue->tail + room;
}

/* Any descriptor, with all checks. */
static VIP_RETURN post_any(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
			   VIP_MEM_HANDLE memory)
{
	struct vipl_work work;
	struct vipl_slot *slot;
	uint32_t status;

	if (queue->mode == VIPL_CLOSED)
		return VIP_INVALID_PARAMETER;
	status = vipl_descriptor_read(queue, descriptor, memory, &work);
	if (status == VIPL_UNPOSTABLE) {
		post_nowhere(queue, descriptor);
		return VIP_SUCCESS;
	}
	slot = next_slot(queue, descriptor, memory);
	if (!slot)
		return VIP_SUCCESS;
	slot->status = queue->recv ? VIP_STATUS_OP_RECEIVE : operation_status(work.control);
	if (queue->mode == VIPL_REFUSE)
		post_finished(queue, slot, VIP_STATUS_DESC_FLUSHED_ERROR);
	else if (status)
		post_finished(queue, slot, status);
	else if (queue->recv)
		post_recv(queue, slot, &work);
	else
		post_send(queue, slot, &work);
	return VIP_SUCCESS;
}

static __attribute__((noinline)) VIP_RETURN
post_closely(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
	VIP_RETURN result = post_any(queue, descriptor, memory);

	plan(queue);
	return result;
}

/*
 * Whether it is a descriptor as most are, for a queue that is connected and has room: a message or
 * an RDMA write of one data segment, both in regions of which the queue has true copies. Any other
 * is read by vipl_descriptor_read().
 */
static inline bool is_plain(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			    VIP_MEM_HANDLE memory, unsigned *control, struct ibv_sge *sge)
{
	uint32_t generation = vipl_queue_memory_generation(queue);
	const struct vipl_access *access = &queue->home;
	uint64_t addr = (uintptr_t)descriptor;
	const VIP_DATA_SEGMENT *segment;
	unsigned rdma_write;

	if (queue->tail == queue->plain_until || addr % VIP_DESCRIPTOR_ALIGNMENT ||
	    !vipl_access_known(access, memory, generation) || !access->writable ||
	    !vipl_access_covers(access, addr, sizeof(*descriptor)))
		return false;
	*control = descriptor->CS.Control;
	rdma_write = *control & VIP_CONTROL_OP_RDMAWRITE;
	if (*control & (queue->recv ? ~0u : ~PLAIN) || descriptor->CS.SegCount != 1 + rdma_write)
		return false;
	segment = &descriptor->DS[rdma_write].Local;
	access = vipl_queue_cached(queue, segment->Handle);
	sge->addr = segment->Data.AddressBits;
	sge->length = segment->Length;
	sge->lkey = access->lkey;
	return sge->length && vipl_access_known(access, segment->Handle, generation) &&
	       vipl_access_covers(access, sge->addr, sge->length) &&
	       (queue->recv ? access->writable
			    : sge->length == descriptor->CS.Length &&
				      sge->length <= queue->vi->attributes.MaxTransferSize);
}

static inline int send_plain(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			     unsigned control, struct ibv_sge *sge)
{
	struct ibv_send_wr wr, *bad;

	wr.wr_id = vipl_wr_id(queue);
	wr.next = NULL;
	wr.sg_list = sge;
	wr.num_sge = 1;
	wr.opcode = opcode(control);
	wr.send_flags = IBV_SEND_SIGNALED;
	if (sge->length <= queue->vi->max_inline)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.imm_data = htobe32(descriptor->CS.ImmediateData);
	wr.wr.rdma.remote_addr = descriptor->DS[0].Remote.Data.AddressBits;
	wr.wr.rdma.rkey = descriptor->DS[0].Remote.Handle;
	return ibv_post_send(queue->vi->qp, &wr, &bad);
}

static inline int recv_plain(struct vipl_queue *queue, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = {.wr_id = vipl_wr_id(queue), .sg_list = sge, .num_sge = 1}, *bad;

	return ibv_post_recv(queue->vi->qp, &wr, &bad);
}

static inline void post_plain(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
			      VIP_MEM_HANDLE memory, unsigned control, struct ibv_sge *sge)
{
	struct vipl_slot *slot;
	int ret;

	if (queue->recv)
		ret = recv_plain(queue, sge);
	else
		ret = send_plain(queue, descriptor, control, sge);
	/* The message is on its way meanwhile. */
	slot = fill_slot(queue, descriptor, memory);
	slot->status = queue->recv ? VIP_STATUS_OP_RECEIVE : operation_status(control);
	if (vipl_unlikely(ret)) {
		post_failed(queue, slot);
		return;
	}
	slot->wrs = 1;
	queue->wrs++;
	queue->tail++;
}

static inline VIP_RETURN post(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
			      VIP_MEM_HANDLE memory)
{
	struct vipl_cq *cq = queue->cq;
	VIP_RETURN result = VIP_SUCCESS;
	struct ibv_sge sge;
	unsigned control;

	owned_lock_often(&cq->lock);
	if (vipl_likely(is_plain(queue, descriptor, memory, &control, &sge)))
		post_plain(queue, descriptor, memory, control, &sge);
	else
		result = post_closely(queue, descriptor, memory);
	vipl_cq_unlock(cq);
	return result;
}

VIP_RETURN VipPostSend(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? post(&vi->sq, descriptor, memory) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? post(&vi->rq, descriptor, memory) : VIP_INVALID_PARAMETER;
}

static struct ibv_sge greeting_sge(struct vipl_vi *vi)
{
	return (struct ibv_sge){.addr = (uintptr_t)&vi->headers[VIPL_HEADERS - 1],
				.length = sizeof(struct vipl_header),
				.lkey = vi->headers_lkey};
}

/* A work request that is of no descriptor. */
static int post_own(struct vipl_vi *vi, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret = ENOMEM;

	wr->wr_id = vipl_wr_id(&vi->sq) | VIPL_WR_GREETING;
	wr->send_flags = IBV_SEND_SIGNALED;
	owned_lock(&vi->sq.cq->lock);
	if (reserve(&vi->sq, 1))
		ret = ibv_post_send(vi->qp, wr, &bad);
	vi->sq.wrs += !ret;
	vipl_cq_unlock(vi->sq.cq);
	return -ret;
}

int vipl_post_greeting(struct vipl_vi *vi)
{
	struct ibv_sge sge = greeting_sge(vi);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	vi->headers[VIPL_HEADERS - 1] =
		(struct vipl_header){.flags = htobe32(VIPL_HEADER_GREETING)};
	return post_own(vi, &wr);
}

void vipl_post_knock(struct vipl_vi *vi)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};

	post_own(vi, &wr);
}

int vipl_post_greeting_recv(struct vipl_vi *vi)
{
	struct ibv_sge sge = greeting_sge(vi);
	struct ibv_recv_wr wr = {.wr_id = vipl_wr_id(&vi->rq) | VIPL_WR_GREETING,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;
	int ret = ENOMEM;

	vi->greeted = false;
	if (reserve(&vi->rq, 1))
		ret = ibv_post_recv(vi->qp, &wr, &bad);
	vi->rq.wrs += !ret;
	return -ret;
}

/* Their memory may have changed since they were posted: they are read again. */
void vipl_post_held(struct vipl_queue *queue)
{
	struct vipl_work work;

	for (unsigned i = queue->done; i != queue->tail; i++) {
		struct vipl_slot *slot = vipl_slot(queue, i);
		uint32_t status;

		if (slot->status & VIP_STATUS_DONE)
			continue;
		slot->memory_generation = vipl_queue_memory_generation(queue);
		status = vipl_descriptor_read(queue, slot->descriptor, slot->handle, &work);
		if (status == VIPL_UNPOSTABLE) {
			post_nowhere(queue, slot->descriptor);
			status = VIP_STATUS_PROTECTION_ERROR;
		} else if (!status && !give_recv(queue, slot, &work)) {
			status = VIP_STATUS_TRANSPORT_ERROR;
		}
		if (status)
			slot->status |= status | VIP_STATUS_DONE;
	}
	vipl_queue_settle(queue);
}

void vipl_post_take_back(struct vipl_queue *queue, struct vipl_slot *slot)
{
	vipl_bounce_drop(slot, queue->vi->domain);
	queue->wrs -= slot->wrs;
	slot->wrs = 0;
}

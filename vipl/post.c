// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipPostSend, VipPostRecv (post.h; source, 2.1 and 2.3). A descriptor is one work request, which
 * is signalled; RDMA of more segments than the device takes is several, of which the last one is.
 * Guarded by the lock of the queue's CQ.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>

#include "vipl/bounce.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/post.h"

#define RESERVE_STEP 64
#define MOST_PARTS   (VIPL_EXTRA_WRS + 1) /* that a descriptor becomes */

/* Control bits that a plain descriptor may have (is_plain()). */
#define PLAIN ((unsigned)(VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE))

vipl_inline struct vipl_slot *fill_slot(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
					VIP_MEM_HANDLE handle, unsigned wrs)
{
	struct vipl_slot *slot = vipl_slot(queue, queue->tail);

	slot->descriptor = descriptor;
	slot->bounce = NULL;
	slot->handle = handle;
	slot->wrs = wrs;
	slot->memory_generation = vipl_queue_memory_generation(queue);
	return slot;
}

/* Twice as many places; what is where the longer ring has it elsewhere moves to the new half. */
static void lengthen(struct vipl_queue *queue)
{
	unsigned places = queue->mask + 1;

	for (unsigned i = queue->head; i != queue->tail; i++) {
		if (i & places)
			queue->slots[i & (2 * places - 1)] = queue->slots[i & queue->mask];
	}
	queue->mask = 2 * places - 1;
}

/* Room in the ring; what is too much is reported and forgotten. */
static struct vipl_slot *next_slot(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
				   VIP_MEM_HANDLE handle)
{
	if (queue->tail - queue->head > queue->mask && queue->mask < VIPL_DEPTH - 1)
		lengthen(queue);
	if (queue->tail - queue->head <= queue->mask)
		return fill_slot(queue, descriptor, handle, 0);
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

/* What the bits of an operation, and that of immediate data, stand for. */
static const struct {
	uint32_t status;
	enum ibv_wr_opcode opcode;
} operations[] = {
	[VIP_CONTROL_OP_SENDRECV] = {VIP_STATUS_OP_SEND, IBV_WR_SEND},
	[VIP_CONTROL_OP_RDMAWRITE] = {VIP_STATUS_OP_RDMA_WRITE, IBV_WR_RDMA_WRITE},
	[VIP_CONTROL_OP_RDMAREAD] = {VIP_STATUS_OP_RDMA_READ, IBV_WR_RDMA_READ},
	[VIP_CONTROL_IMMEDIATE |
		VIP_CONTROL_OP_SENDRECV] = {VIP_STATUS_OP_SEND, IBV_WR_SEND_WITH_IMM},
	[VIP_CONTROL_IMMEDIATE |
		VIP_CONTROL_OP_RDMAWRITE] = {VIP_STATUS_OP_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM},
	[VIP_CONTROL_IMMEDIATE |
		VIP_CONTROL_OP_RDMAREAD] = {VIP_STATUS_OP_RDMA_READ, IBV_WR_RDMA_READ},
	[VIP_CONTROL_IMMEDIATE | VIP_CONTROL_OP_MASK] = {0},
};
#define OPERATION (VIP_CONTROL_OP_MASK | VIP_CONTROL_IMMEDIATE)

/* The work request of a descriptor, for as many elements as it has. */
static void fill(const struct vipl_queue *queue, struct vipl_work *work, struct ibv_send_wr *wr)
{
	wr->wr_id = queue->wr_id;
	wr->next = NULL;
	wr->sg_list = work->sge;
	wr->num_sge = work->count;
	wr->opcode = operations[work->control & OPERATION].opcode;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (vipl_unlikely(work->control & VIP_CONTROL_QFENCE && queue->vi->reliable))
		wr->send_flags |= IBV_SEND_FENCE;
	wr->imm_data = htobe32(work->immediate);
	wr->wr.rdma.remote_addr = work->remote_addr;
	wr->wr.rdma.rkey = work->rkey;
}

/*
 * How many work requests a descriptor may be: each one to come shall find one. Where the program
 * has not taken what has completed there is room for more in the QP, but not in post_split().
 */
static unsigned room(const struct vipl_queue *queue)
{
	unsigned to_come = VIPL_DEPTH - (queue->tail - queue->head) - 1;
	unsigned most = VIPL_DEPTH + VIPL_EXTRA_WRS - queue->wrs - to_come;

	return most < MOST_PARTS ? most : MOST_PARTS;
}

/* RDMA as several work requests. 0 or an errno. */
static int post_split(struct vipl_queue *queue, struct vipl_work *work, unsigned most,
		      unsigned count)
{
	struct ibv_send_wr wrs[MOST_PARTS], *bad;

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
	struct ibv_recv_wr wr = {.wr_id = queue->wr_id}, *bad;
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
static unsigned plain_room(struct vipl_queue *queue)
{
	unsigned room;

	/* Half of the places are for those to come: each time that they are used up takes long. */
	if (queue->tail - queue->head > queue->mask / 2 && queue->mask < VIPL_DEPTH - 1)
		lengthen(queue);
	room = queue->mask + 1 - (queue->tail - queue->head);
	if (queue->mode != VIPL_OPEN || queue->vi->headers || !reserve(queue, 1))
		return 0;
	return room < queue->reserved - queue->wrs ? room : queue->reserved - queue->wrs;
}

/* Where plain descriptors may lie: in the region of the last one. */
static void plan_places(struct vipl_queue *queue)
{
	const struct vipl_access *home = &queue->home;
	uint64_t skipped = -home->addr % VIP_DESCRIPTOR_ALIGNMENT;

	queue->places_key = home->key;
	queue->first_place = home->addr + skipped;
	queue->places = 0;
	if (home->writable && home->length > skipped)
		queue->places = (home->length - skipped) / sizeof(VIP_DESCRIPTOR);
}

/* What plain descriptors have in common. */
static void plan(struct vipl_queue *queue)
{
	queue->plain_until = queue->tail + plain_room(queue);
	plan_places(queue);
	if (queue->recv)
		queue->wr.recv = (struct ibv_recv_wr){
			.wr_id = queue->wr_id, .sg_list = &queue->sge, .num_sge = 1};
	else
		queue->wr.send = (struct ibv_send_wr){
			.wr_id = queue->wr_id, .sg_list = &queue->sge, .num_sge = 1};
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
	slot->status =
		queue->recv ? VIP_STATUS_OP_RECEIVE : operations[work.control & OPERATION].status;
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

static_assert(sizeof(VIP_DESCRIPTOR) == VIP_DESCRIPTOR_ALIGNMENT, "places of descriptors");

/* Whether it lies on a place in the region of that key; what is not
 * aligned comes out as too large. */
vipl_inline bool is_at_place(const struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			     uint64_t key)
{
	uint64_t offset = (uintptr_t)descriptor - queue->first_place;

	offset = offset / VIP_DESCRIPTOR_ALIGNMENT | offset << 58;
	return key == queue->places_key && offset < queue->places;
}

/*
 * Whether it is a descriptor as most are, for a queue that is connected and has room: a message or
 * an RDMA write of one data segment, both in regions of which the queue has true copies. Any other
 * is read by vipl_descriptor_read(). Fills in sge.
 */
vipl_inline bool is_plain(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			  VIP_MEM_HANDLE memory, bool recv, unsigned *control)
{
	uint32_t generation = vipl_queue_memory_generation(queue);
	const struct vipl_access *access;
	const VIP_DATA_SEGMENT *segment;
	VIP_MEM_HANDLE handle;
	unsigned rdma_write;
	uint32_t length;
	uint64_t addr;

	if (queue->tail == queue->plain_until ||
	    !is_at_place(queue, descriptor, vipl_access_key(memory, generation)))
		return false;
	*control = descriptor->CS.Control;
	rdma_write = recv ? 0 : *control & VIP_CONTROL_OP_RDMAWRITE;
	if (*control & (recv ? ~0u : ~PLAIN) || descriptor->CS.SegCount != 1 + rdma_write)
		return false;
	segment = &descriptor->DS[rdma_write].Local;
	addr = segment->Data.AddressBits;
	handle = segment->Handle;
	length = segment->Length;
	access = vipl_queue_cached(queue, handle);
	queue->sge.addr = addr;
	queue->sge.length = length;
	queue->sge.lkey = access->lkey;
	return length && access->key == vipl_access_key(handle, generation) &&
	       vipl_access_covers(access, addr, length) &&
	       (recv ? access->writable
		     : length == descriptor->CS.Length &&
				length <= queue->vi->attributes.MaxTransferSize);
}

vipl_inline int send_plain(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			   unsigned control)
{
	struct ibv_send_wr *wr = &queue->wr.send, *bad;

	wr->opcode = operations[control].opcode;
	wr->send_flags = IBV_SEND_SIGNALED;
	if (queue->sge.length <= queue->vi->max_inline)
		wr->send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	if (control) {
		wr->imm_data = htobe32(descriptor->CS.ImmediateData);
		wr->wr.rdma.remote_addr = descriptor->DS[0].Remote.Data.AddressBits;
		wr->wr.rdma.rkey = descriptor->DS[0].Remote.Handle;
	}
	return ibv_post_send(queue->vi->qp, wr, &bad);
}

vipl_inline void post_plain(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
			    VIP_MEM_HANDLE memory, bool recv, unsigned control)
{
	struct ibv_recv_wr *bad;
	struct vipl_slot *slot;
	int ret;

	if (recv)
		ret = ibv_post_recv(queue->vi->qp, &queue->wr.recv, &bad);
	else
		ret = send_plain(queue, descriptor, control);
	/* The message is on its way meanwhile. */
	slot = fill_slot(queue, descriptor, memory, 1);
	slot->status = recv ? VIP_STATUS_OP_RECEIVE : operations[control].status;
	if (vipl_unlikely(ret)) {
		post_failed(queue, slot);
		return;
	}
	queue->wrs++;
	queue->tail++;
}

vipl_inline VIP_RETURN post_one(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
				VIP_MEM_HANDLE memory, bool recv)
{
	unsigned control;

	if (vipl_unlikely(!is_plain(queue, descriptor, memory, recv, &control)))
		return post_closely(queue, descriptor, memory);
	post_plain(queue, descriptor, memory, recv, control);
	return VIP_SUCCESS;
}

static __attribute__((noinline)) VIP_RETURN
post_shared(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
	struct vipl_cq *cq = vipl_queue_lock(queue);
	VIP_RETURN result = post_one(queue, descriptor, memory, queue->recv);

	vipl_cq_unlock(cq);
	return result;
}

vipl_inline VIP_RETURN post(struct vipl_queue *queue, VIP_DESCRIPTOR *descriptor,
			    VIP_MEM_HANDLE memory, bool recv)
{
	struct vipl_cq *cq = vipl_queue_enter(queue);
	VIP_RETURN result;

	if (vipl_unlikely(!cq))
		return post_shared(queue, descriptor, memory);
	result = post_one(queue, descriptor, memory, recv);
	vipl_cq_leave(cq);
	return result;
}

VIP_RETURN VipPostSend(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? post(&vi->sq, descriptor, memory, false) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? post(&vi->rq, descriptor, memory, true) : VIP_INVALID_PARAMETER;
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

	wr->wr_id = vi->sq.wr_id | VIPL_WR_GREETING;
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
	struct ibv_recv_wr wr = {.wr_id = vi->rq.wr_id | VIPL_WR_GREETING,
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

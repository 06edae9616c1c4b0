// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Checks of a descriptor (post.h; source, 2.1). Called with the lock of the queue's CQ. */
#include "vipl/post.h"
#include "vipl/vi.h"

/* The descriptor itself, of which nothing is read before it is known to be there. */
static bool is_postable(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			VIP_MEM_HANDLE handle)
{
	const struct vipl_access *access = vipl_queue_access(queue, handle, &queue->home);
	uint64_t addr = (uintptr_t)descriptor, length = sizeof(descriptor->CS);

	if (addr % VIP_DESCRIPTOR_ALIGNMENT || !access || !access->writable ||
	    !vipl_access_covers(access, addr, length))
		return false;
	length += descriptor->CS.SegCount * sizeof(VIP_DESCRIPTOR_SEGMENT);
	return vipl_access_covers(access, addr, length);
}

/* Operations, and what may go with them. */
static bool is_well_formed(const struct vipl_queue *queue, unsigned control, unsigned segments)
{
	unsigned op = control & VIP_CONTROL_OP_MASK;

	if (control & VIP_CONTROL_RESERVED || segments > VIPL_MAX_SEGMENTS)
		return false;
	if (op == VIP_CONTROL_OP_SENDRECV)
		return true;
	if (queue->recv || !segments)
		return false;
	return op == VIP_CONTROL_OP_RDMAWRITE ||
	       (op == VIP_CONTROL_OP_RDMAREAD && !(control & VIP_CONTROL_IMMEDIATE) &&
		queue->vi->may_read);
}

/* One data segment. */
static bool read_segment(struct vipl_queue *queue, const VIP_DATA_SEGMENT *from, bool writes,
			 struct vipl_work *work)
{
	uint64_t addr = from->Data.AddressBits;
	uint32_t length = from->Length;
	const struct vipl_access *access;

	if (!length)
		return true;
	access = vipl_queue_access(queue, from->Handle, vipl_queue_cached(queue, from->Handle));
	if (vipl_unlikely(!access || (writes && !access->writable) ||
			  !vipl_access_covers(access, addr, length)))
		return false;
	work->count = vipl_segments_append(work->sge, work->count, addr, length, access->lkey);
	return true;
}

uint32_t vipl_descriptor_read(struct vipl_queue *queue, const VIP_DESCRIPTOR *descriptor,
			      VIP_MEM_HANDLE handle, struct vipl_work *work)
{
	const VIP_DESCRIPTOR_SEGMENT *segment;
	unsigned control, segments;
	uint64_t total = 0;
	bool writes;

	if (vipl_unlikely(!is_postable(queue, descriptor, handle)))
		return VIPL_UNPOSTABLE;
	segment = descriptor->DS;
	control = descriptor->CS.Control;
	segments = descriptor->CS.SegCount;
	work->control = control;
	work->length = descriptor->CS.Length;
	work->immediate = descriptor->CS.ImmediateData;
	work->count = 0;
	if (vipl_unlikely(!is_well_formed(queue, control, segments)))
		return VIP_STATUS_FORMAT_ERROR;
	if (control & VIP_CONTROL_OP_MASK) {
		work->remote_addr = segment->Remote.Data.AddressBits;
		work->rkey = segment->Remote.Handle;
		segment++;
		segments--;
	}
	writes = queue->recv || (control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_RDMAREAD;
	for (; segments; segments--, segment++) {
		if (vipl_unlikely(!read_segment(queue, &segment->Local, writes, work)))
			return VIP_STATUS_PROTECTION_ERROR;
		total += segment->Local.Length;
	}
	if (queue->recv)
		return 0;
	if (vipl_unlikely(total != work->length || total > queue->vi->attributes.MaxTransferSize))
		return VIP_STATUS_LENGTH_ERROR;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A work queue: descriptors in the order of posting, in a ring, of which only as much is used as
 * the program has ever had posted, so that it stays in the nearest cache.
 *
 *	   head            done            tail
 *	----+---------------+---------------+----
 *	    | completed     | posted        |
 *	----+---------------+---------------+----
 *
 * VipSendDone and VipRecvDone take from head. A descriptor that needs no work request, because it
 * is malformed or the VI is in the wrong state, is posted with its final status and completes when
 * it is its turn; the one at `done` therefore always waits for the device (or, in a receive queue
 * that holds, for a connection). A completion of the device belongs to the one at `done`, since a
 * QP completes in order.
 *
 * Everything here is guarded by the lock of the queue's CQ (cq.h). Which one that is changes under
 * the NIC's lock, and that of the CQ which it was until then; a queue that is closed is its own
 * CQ's. Who has looked up a VI that another thread destroys and makes anew finds out when it has
 * the lock (vipl_queue_lock()).
 */
#ifndef VIPL_QUEUE_H
#define VIPL_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vipl/cq.h"
#include "vipl/memory.h"
#include "vipl/segments.h"
#include "vipl/vi_state.h"

#define VIPL_DEPTH	  1024 /* descriptors in a queue; a power of two */
#define VIPL_SHORT	  64   /* places of a ring that has never had more; a power of two */
#define VIPL_EXTRA_WRS	  64   /* of a send queue, for RDMA that takes several */
#define VIPL_MAX_SGE	  4    /* that a work request of ours has */
#define VIPL_MAX_SEGMENTS 512  /* that a descriptor has, the address segment included */
#define VIPL_HEADERS	  (2 * VIPL_DEPTH + 1) /* of a VI on iWARP (vi.h) */

struct vipl_bounce;

struct vipl_slot {
	VIP_DESCRIPTOR *descriptor;
	struct vipl_bounce *bounce; /* NULL: none */
	VIP_MEM_HANDLE handle;
	uint32_t status; /* with VIP_STATUS_DONE: final */
	unsigned wrs;
	uint32_t memory_generation; /* when it was posted */
};

#define VIPL_CACHED_BITS 3
#define VIPL_CACHED	 (1 << VIPL_CACHED_BITS)

/* What plain descriptors (post.c) need comes first, together in few cache lines. */
struct vipl_queue {
	struct vipl_cq *cq;
	struct vipl_vi *vi;
	struct vipl_nic *nic;
	_Atomic uint32_t *memory_generation; /* the NIC's */
	struct vipl_slot *slots;
	uint64_t wr_id; /* of its work requests; another one for each QP */
	unsigned head, done, tail;
	unsigned mask;	      /* of the part of the slots that is in use */
	unsigned plain_until; /* up to this tail a plain descriptor (post.c) can be posted */
	enum vipl_mode mode;
	bool recv;
	unsigned max_sge;
	unsigned wrs;	   /* on their way */
	unsigned reserved; /* of the CQ */

	/* For plain descriptors (post.c), made by plan(). */
	uint64_t places_key; /* of the region of descriptors, which has so many aligned places */
	uint64_t first_place, places;
	struct ibv_sge sge;
	union {
		struct ibv_send_wr send;
		struct ibv_recv_wr recv;
	} wr;
	/* The regions of the last segments, by handle. */
	struct vipl_access cached[VIPL_CACHED] __attribute__((aligned(64)));
	struct vipl_access home; /* the region of the last descriptor */
	unsigned kept;		 /* entries of the CQ, while it looks for stale ones */
	struct vipl_notices notices;
	VIP_DESCRIPTOR grave; /* stands for one whose memory is not registered any more */
	struct vipl_cq own;   /* where there is none of the program's */
};

/*
 * The id of a work request: the queue's address, which has 6 bits to spare below and 16 above,
 * where the number of the QP is. VIPL_WR_PART marks those of a descriptor that another one of it
 * follows, VIPL_WR_GREETING one that is of no descriptor (post.h).
 */
#define VIPL_WR_PART	 1ull
#define VIPL_WR_GREETING 2ull
#define VIPL_WR_QP	 (1ull << 48)

static inline struct vipl_queue *vipl_wr_queue(uint64_t id)
{
	return (struct vipl_queue *)(uintptr_t)(id & 0xffffffffffc0ull);
}

/* What is still to come of the QP is not the queue's any more. */
static inline void vipl_queue_leave_qp(struct vipl_queue *queue)
{
	queue->wr_id += VIPL_WR_QP;
	queue->plain_until = queue->tail;
}

static inline void vipl_queue_set_mode(struct vipl_queue *queue, enum vipl_mode mode)
{
	queue->mode = mode;
	queue->plain_until = queue->tail;
}

static inline struct vipl_slot *vipl_slot(struct vipl_queue *queue, unsigned index)
{
	return &queue->slots[index & queue->mask];
}

static inline struct vipl_access *vipl_queue_cached(struct vipl_queue *queue, VIP_MEM_HANDLE handle)
{
	return &queue->cached[handle * 0x9e3779b1u >> (32 - VIPL_CACHED_BITS)];
}

static inline uint32_t vipl_queue_memory_generation(const struct vipl_queue *queue)
{
	return atomic_load_explicit(queue->memory_generation, memory_order_acquire);
}

/* Locks the queue's CQ; it may be another one meanwhile, whose lock guarded the change. */
static inline struct vipl_cq *vipl_queue_lock(struct vipl_queue *queue)
{
	struct vipl_cq *cq;

	while (true) {
		cq = __atomic_load_n(&queue->cq, __ATOMIC_ACQUIRE);
		owned_lock_often(&cq->lock);
		if (vipl_likely(__atomic_load_n(&queue->cq, __ATOMIC_ACQUIRE) == cq))
			return cq;
		vipl_cq_unlock(cq);
	}
}

/* The same by the thread that owns the lock, for vipl_cq_leave(). NULL: it does not. */
vipl_inline struct vipl_cq *vipl_queue_enter(struct vipl_queue *queue)
{
	struct vipl_cq *cq = __atomic_load_n(&queue->cq, __ATOMIC_ACQUIRE);

	if (vipl_unlikely(!owned_lock_own(&cq->lock)))
		return NULL;
	if (vipl_likely(__atomic_load_n(&queue->cq, __ATOMIC_ACQUIRE) == cq))
		return cq;
	vipl_cq_leave(cq);
	return NULL;
}

/* With the lock of the CQ that it leaves, and the NIC's. */
static inline void vipl_queue_move(struct vipl_queue *queue, struct vipl_cq *cq)
{
	__atomic_store_n(&queue->cq, cq, __ATOMIC_RELEASE);
}

/* A region, of which the copy may be there already; NULL: none that the queue may use. */
const struct vipl_access *vipl_queue_access(struct vipl_queue *queue, VIP_MEM_HANDLE handle,
					    struct vipl_access *copy);

/* Completes those at `done` that have their status; after posting, if there was none before. */
void vipl_queue_settle(struct vipl_queue *queue);
/* Completes all as flushed. */
void vipl_queue_flush(struct vipl_queue *queue);

/* Takes the descriptor at head, which has completed; the results of VipSendDone() with it. */
vipl_inline VIP_RETURN vipl_queue_take_head(struct vipl_queue *queue, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_slot *slot = vipl_slot(queue, queue->head++);

	*descriptor = slot->descriptor == &queue->grave ? NULL : slot->descriptor;
	return vipl_unlikely(slot->status & VIP_STATUS_ERROR_MASK) ? VIP_DESCRIPTOR_ERROR
								   : VIP_SUCCESS;
}

/* The same, or none, where none is known to have completed. */
VIP_RETURN vipl_queue_take_next(struct vipl_queue *queue, VIP_DESCRIPTOR **descriptor);

vipl_inline VIP_RETURN vipl_queue_take(struct vipl_queue *queue, VIP_DESCRIPTOR **descriptor)
{
	return queue->head == queue->done ? vipl_queue_take_next(queue, descriptor)
					  : vipl_queue_take_head(queue, descriptor);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Short MADs between an open umad file and fabricd: two rings in a memory file, one each way, so
 * that a MAD costs no system call but that of a wake-up.
 *
 *	+----------------------------------+
 *	| line 0: head, the producer's     |	a slot:
 *	+----------------------------------+	+-----+-----------------------------+
 *	| line 1: tail, idle: the consumer's|	| len | header and MAD, as in umad(7) |
 *	+----------------------------------+	+-----+-----------------------------+
 *	| 128 slots of 324 bytes           |
 *	+----------------------------------+
 *
 * A producer fills a slot and publishes it by one store to head, so that one that dies at any
 * instruction leaves the whole MAD or none. fabricd is woken by an event descriptor where it has
 * said that it is idle; the event descriptor of the program counts what it can read, as a
 * semaphore: it takes one off, and a slot is there.
 *
 * MADs that are longer, and those for which there is no slot, go by the file's socket. A producer
 * that has used the socket stays with it until it is empty, and a consumer looks at the socket when
 * the ring is empty, so that MADs arrive in the order in which they were sent. One exception, as
 * datagrams may have them: where a short and then a long MAD are sent between a consumer's look at
 * the empty ring and that at the socket, the long one arrives first.
 *
 * One thread at a time at each end. Where a child of fork(2) has the file too, both can read, and
 * the child writes to the socket.
 */
#ifndef URXE_FABRIC_MAD_RING_H
#define URXE_FABRIC_MAD_RING_H

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "fabric/protocol.h"

#define MAD_RING_SLOTS 128u

struct mad_slot {
	uint32_t len;
	uint8_t bytes[FABRIC_INLINE];
};

struct mad_ring {
	alignas(64) _Atomic uint32_t head; /* slots published */
	alignas(64) _Atomic uint32_t tail; /* slots taken */
	_Atomic uint32_t idle;		   /* the consumer is to be woken */
	alignas(64) struct mad_slot slots[MAD_RING_SLOTS];
};

/* The memory file. */
struct mad_rings {
	struct mad_ring to_fabric, to_program;
};

/* The next slot to fill; NULL: all are full. */
static inline struct mad_slot *mad_ring_room(struct mad_ring *r)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	if (head - atomic_load_explicit(&r->tail, memory_order_acquire) >= MAD_RING_SLOTS)
		return NULL;
	return &r->slots[head % MAD_RING_SLOTS];
}

/*
 * True: the consumer is idle, and this is the one that wakes it. Here head is written before idle
 * is read, in mad_ring_sleep() idle before head, all in one order (seq_cst): a producer that finds
 * the consumer awake has published before the consumer's last look.
 */
static inline bool mad_ring_publish(struct mad_ring *r)
{
	atomic_fetch_add_explicit(&r->head, 1, memory_order_seq_cst);
	return atomic_load_explicit(&r->idle, memory_order_seq_cst) && atomic_exchange(&r->idle, 0);
}

/* The length of the next MAD; -1: there is none. */
static inline ssize_t mad_ring_next(const struct mad_ring *r)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed), len;

	if (atomic_load_explicit(&r->head, memory_order_acquire) == tail)
		return -1;
	len = *(const volatile uint32_t *)&r->slots[tail % MAD_RING_SLOTS].len;
	return len < FABRIC_INLINE ? len : FABRIC_INLINE;
}

/*
 * Copies the next MAD, for the producer can still write to its slot, and takes it off. As
 * mad_ring_next(); -EINVAL: it is longer than room, and stays.
 */
static inline ssize_t mad_ring_take(struct mad_ring *r, uint8_t *bytes, size_t room)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	ssize_t len = mad_ring_next(r);

	if (len < 0)
		return len;
	if ((size_t)len > room)
		return -EINVAL;
	memcpy(bytes, r->slots[tail % MAD_RING_SLOTS].bytes, len);
	/* The slot is free after the copy (mad_ring_room() acquires); it fails where another
	 * process that has the file has taken this MAD. */
	if (!atomic_compare_exchange_strong(&r->tail, &tail, tail + 1))
		return mad_ring_take(r, bytes, room);
	return len;
}

/* The consumer goes to sleep; true: it had better look again. */
static inline bool mad_ring_sleep(struct mad_ring *r)
{
	atomic_store(&r->idle, 1);
	return atomic_load(&r->head) != atomic_load_explicit(&r->tail, memory_order_relaxed);
}

#endif

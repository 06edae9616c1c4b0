/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ring of packets in shared memory, with one producer and one consumer, which may be two
 * processes.
 *
 *	+--------------------------------------+
 *	| line 0: what the producer says       |
 *	+--------------------------------------+
 *	| line 1: what the consumer says       |
 *	+--------------------------------------+	a cell, one cache line:
 *	| cells: 256 of 64 bytes               |	+------+------+------+------+-----+--------+---------+
 *	+--------------------------------------+	| turn | kind | flow | span | len | offset | body 48 |
 *	| data: 256 KiB                        |	+------+------+------+------+-----+--------+---------+
 *	+--------------------------------------+
 *
 * A record takes a cell. Its bytes are in the cell's body when they fit, so that a small packet is
 * one line that goes from one cache to the other; else in a contiguous piece of the data, which is
 * used round and round as the cells are.
 *
 * The producer fills a cell (and data) and publishes it by one store to its turn, which says in
 * which lap around the ring it was filled. Nothing else is shared that the consumer acts on, so a
 * producer that dies at any instruction leaves either the whole record or none. The consumer says
 * now and then how many cells it has taken.
 *
 * No locks: each end is used by one thread at a time (under its engine's lock). urxe_ring_waits()
 * alone may be called by any thread of the consumer.
 */
#ifndef URXE_WIRE_RING_H
#define URXE_WIRE_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define URXE_RING_CELLS	 256u
#define URXE_RING_DATA	 (256u << 10)
#define URXE_RING_INLINE 48u
#define URXE_RING_LINE	 64u /* bytes of a cache line, on which a record's data begins */
#define URXE_RING_MAX	 (URXE_RING_DATA / 2) /* bytes of the longest record */

enum urxe_ring_kind {
	URXE_RECORD_NONE,
	URXE_RECORD_PACKET, /* BTH, headers, payload, pad */
	URXE_RECORD_REFS,   /* struct urxe_ring_refs: the payload lies in the producer's memory */
	URXE_RECORD_FLOW,   /* struct urxe_ring_flow: what `flow` stands for from now on */
	URXE_RECORD_PAIR,   /* two packets in the body, of one PSN each; span: bytes of the first */
};

struct urxe_cell {
	_Atomic uint32_t turn; /* lap + 1 */
	uint8_t kind;	       /* enum urxe_ring_kind */
	uint8_t flow;
	uint16_t span;	 /* PSNs that the packet stands for; of a pair, see above */
	uint32_t len;	 /* bytes of the record */
	uint32_t offset; /* of them in the data, when they are too many for the body */
	uint8_t body[URXE_RING_INLINE];
};
static_assert(sizeof(struct urxe_cell) == 64, "a cell is a cache line");

struct urxe_ring {
	/* The producer: its process, and how to read its memory. Written before the ring is
	 * opened. */
	uint64_t cookie; /* what it has at cookie_at */
	uint64_t cookie_at;
	uint32_t pid;		/* in its own pid namespace */
	_Atomic uint32_t epoch; /* references given in an earlier one are void */
	uint8_t unused0[40];
	/* The consumer. */
	_Atomic uint32_t taken; /* cells */
	_Atomic uint32_t pulls; /* it can read the producer's memory */
	uint8_t unused1[4096 - 72];
	struct urxe_cell cells[URXE_RING_CELLS];
	uint8_t data[URXE_RING_DATA];
};
static_assert(offsetof(struct urxe_ring, taken) == 64, "as in the picture");
static_assert(offsetof(struct urxe_ring, cells) == 4096, "as in the picture");

struct urxe_producer {
	struct urxe_ring *ring;
	uint32_t head;	    /* cells published */
	uint32_t taken;	    /* of them, as last seen */
	uint32_t data_head; /* bytes of data given out, and taken back, since the beginning */
	uint32_t data_tail;
	uint32_t claimed; /* data_head after the record that is being written */
	uint32_t data_end[URXE_RING_CELLS];
};

struct urxe_consumer {
	struct urxe_ring *ring;
	_Atomic uint32_t tail; /* cells taken */
	uint32_t reported;     /* of them, those that the producer knows of */
	uint32_t unreported;   /* bytes of the others */
	uint32_t len;	       /* of the record that urxe_ring_next() returned */
};

/* A ring whose memory is zero, or was cleared. */
void urxe_producer_init(struct urxe_producer *p, struct urxe_ring *ring);
void urxe_consumer_init(struct urxe_consumer *c, struct urxe_ring *ring);
/* By the consumer, when the producer is gone and a new one may come; and its own end, then. */
void urxe_ring_clear(struct urxe_ring *ring);
void urxe_consumer_reset(struct urxe_consumer *c);

/* Where to write a record of len bytes (1 … URXE_RING_MAX); NULL: the ring is full. Claiming again
 * without publishing takes the claim back. */
void *urxe_ring_claim(struct urxe_producer *p, uint32_t len);
/* The record that is written to the claim, whose len is more than URXE_RING_INLINE, begins `skip`
 * bytes (a multiple of 4) behind its beginning, and is so much shorter: where that is. */
void *urxe_ring_skip(struct urxe_producer *p, uint32_t skip);
/* Publishes what was written to the claim, of the same len, or as much shorter as was skipped. */
void urxe_ring_publish(struct urxe_producer *p, enum urxe_ring_kind kind, uint8_t flow,
		       uint16_t span, uint32_t len);
/*
 * The next record will follow soon: fetches its cell to be written. The consumer looks at that cell
 * again and again, so a first store to it waits until the other processor's copy is given up, which
 * takes as long as a hundred instructions, or several hundred between distant cores.
 */
static inline void urxe_ring_expect(const struct urxe_producer *p)
{
	const struct urxe_cell *cell = &p->ring->cells[p->head % URXE_RING_CELLS];

#ifdef __x86_64__
	/* The builtin fetches to write only where the compiler may assume the instruction, which
	 * processors that lack it ignore. */
	__asm__ volatile("prefetchw %0" : : "m"(*cell));
#else
	__builtin_prefetch(cell, 1);
#endif
}
/* Is there no cell left, or not room for len bytes? */
bool urxe_ring_full(struct urxe_producer *p, uint32_t len);
/* Has the consumer taken anything since this was last looked at, for a claim that found no room? */
bool urxe_ring_moved(const struct urxe_producer *p);

/*
 * A record. The fields are this process's own copy; what bytes points to lies in the ring, where
 * the producer can still change it: nothing there may be read twice. urxe_ring_copy() is for what
 * decides anything.
 */
struct urxe_record {
	enum urxe_ring_kind kind;
	uint8_t flow;
	uint16_t span;
	uint32_t len;
	void *bytes;
};

static inline bool urxe_ring_waits(const struct urxe_consumer *c)
{
	uint32_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
	const struct urxe_cell *cell = &c->ring->cells[tail % URXE_RING_CELLS];

	return atomic_load_explicit(&cell->turn, memory_order_acquire) ==
	       tail / URXE_RING_CELLS + 1;
}

/* Copies from a ring; the compiler may not read the ring again in place of the copy. */
static inline void urxe_ring_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" ::: "memory");
}

/* The next record, which stays where it is until urxe_ring_take(); false: none. Records that no
 * sound producer writes (of no known kind, or not within the ring) are skipped. Of one that is
 * longer than URXE_RING_INLINE at least 64 bytes may be read, of a shorter one that many. */
bool urxe_ring_next(struct urxe_consumer *c, struct urxe_record *rec);
void urxe_ring_take(struct urxe_consumer *c);
/* Reports to the producer what was taken. */
void urxe_ring_report(struct urxe_consumer *c);

#endif

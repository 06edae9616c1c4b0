/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The VA→PA table: the physical addresses of the pool's virtual ones, as runs that are as long as
 * possible. Position-independent, so that it can be part of an image:
 *
 *   +--------+---------------------+---------------------+----------------+----------------+
 *   | header | first[], area 0     | first[], area 1     | runs, area 0   | runs, area 1   |
 *   +--------+---------------------+---------------------+----------------+----------------+
 *
 *   run, 24 bytes:   | va | pa, or all ones: unknown | length |     in the order of va
 *   first[b]:        the first run that ends beyond the start of block b
 *
 * A change writes the whole table to the other area and makes that current by one store. That is
 * rare (only when blocks are added or removed) and short: there are few runs, which is the point
 * of the method. Readers take no lock; they repeat a lookup if the state has changed. As in
 * table.c all fields are atomic, stores are releases and loads acquires. One writer at a time,
 * which the caller ensures.
 */
#ifndef MEMPOOL_TRANSLATE_H
#define MEMPOOL_TRANSLATE_H

#include <stdatomic.h>

#include "mempool/mempool.h"

#define MEMPOOL_PA_UNKNOWN UINT64_MAX

struct mempool_pa_run {
	uint64_t va;
	uint64_t pa; /* or MEMPOOL_PA_UNKNOWN */
	uint64_t length;
};

struct mempool_vapa_run {
	_Atomic uint64_t va, pa, length;
};

struct mempool_vapa {
	/* Written at creation, then constant. */
	uint64_t base;
	uint32_t block_shift;
	uint32_t max_blocks;
	uint32_t max_runs;
	uint32_t unused;
	uint64_t first_offset[2]; /* from this structure */
	uint64_t runs_offset[2];
	/* generation << 32 | number of runs. The generation's low bit
	 * tells which area is current. */
	_Atomic uint64_t state __attribute__((aligned(64)));
};

size_t mempool_vapa_bytes(uint32_t max_blocks, uint32_t max_runs);
/* Creates an empty table in zeroed memory. */
void mempool_vapa_init(struct mempool_vapa *t, uint64_t base, unsigned block_shift,
		       uint32_t max_blocks, uint32_t max_runs);
/* Checks a table that another process wrote into that many bytes: that all of its references
 * stay within it. */
bool mempool_vapa_valid(const struct mempool_vapa *t, size_t bytes);
/* Replaces all of it; the runs are in the order of va and do not overlap. */
void mempool_vapa_set(struct mempool_vapa *t, const struct mempool_pa_run *runs, uint32_t count);
uint32_t mempool_vapa_count(const struct mempool_vapa *t);

/* The run that va lies in; false: none, and then run->va is where the next begins (or all ones). */
bool mempool_vapa_find(const struct mempool_vapa *t, uint64_t va, struct mempool_pa_run *run);

/*
 * Appends a run to a list, merged with the last one if it continues that virtually and physically.
 * Returns the new length of the list.
 */
uint32_t mempool_pa_append(struct mempool_pa_run *runs, uint32_t count, struct mempool_pa_run run);

/* The part of a segment that begins at addr and lies in a run, or before one: at most length
 * bytes. */
struct rmempool_segment mempool_pa_segment(const struct mempool_pa_run *run, bool inside,
					   uint64_t addr, uint64_t length);

/* A list of segments being built; count continues beyond max. */
struct mempool_segments {
	void *at;
	size_t size; /* of each, as the program knows it */
	unsigned max, count;
	struct rmempool_segment last;
};

/* Appends one, merged with the last one if it continues that. */
void mempool_segments_append(struct mempool_segments *list, struct rmempool_segment segment);

/* rmempool_translate() of a range that may have several segments. */
unsigned mempool_translate_all(const struct rmempool_image *image, uint64_t addr, uint64_t length,
			       struct rmempool_segment *segments, size_t size, unsigned max);

static inline _Atomic uint32_t *mempool_vapa_first(const struct mempool_vapa *t, uint64_t state)
{
	return (_Atomic uint32_t *)((uintptr_t)t + t->first_offset[(state >> 32) & 1]);
}

static inline struct mempool_vapa_run *mempool_vapa_runs(const struct mempool_vapa *t,
							 uint64_t state)
{
	return (struct mempool_vapa_run *)((uintptr_t)t + t->runs_offset[(state >> 32) & 1]);
}

/*
 * The common case: a block is one run, or part of one, and the range lies within it. false: it is
 * not, or the table is being changed. length is not 0.
 */
static inline bool mempool_translate_one(const struct mempool_vapa *t, uint64_t addr,
					 uint64_t length, struct rmempool_segment *segment)
{
	uint64_t state = atomic_load_explicit(&t->state, memory_order_acquire), offset, room, pa;
	uint64_t block = (addr - t->base) >> t->block_shift;
	uint32_t count = (uint32_t)state, n;
	const struct mempool_vapa_run *r;

	if (addr < t->base || block >= t->max_blocks || count > t->max_runs)
		return false;
	n = atomic_load_explicit(&mempool_vapa_first(t, state)[block], memory_order_acquire);
	if (n >= count)
		return false;
	r = &mempool_vapa_runs(t, state)[n];
	offset = addr - atomic_load_explicit(&r->va, memory_order_acquire);
	pa = atomic_load_explicit(&r->pa, memory_order_acquire);
	room = atomic_load_explicit(&r->length, memory_order_acquire);
	if (offset >= room || length > room - offset ||
	    atomic_load_explicit(&t->state, memory_order_acquire) != state)
		return false;
	segment->physical = pa != MEMPOOL_PA_UNKNOWN;
	segment->addr = segment->physical ? pa + offset : addr;
	segment->length = length;
	return true;
}

#endif

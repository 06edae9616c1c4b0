/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The layout of the registration table in memory, and its fast lookup. Private to table.c, which
 * draws and explains it, and to those for whom a function call would be a large part of the lookup:
 * match.c, and the adapter's engine.
 */
#ifndef MEMPOOL_ROW_H
#define MEMPOOL_ROW_H

#include <assert.h>
#include <stdatomic.h>

#include "mempool/table.h"

#define MEMPOOL_ROW_BITS     22
#define MEMPOOL_ROWS	     (1u << MEMPOOL_ROW_BITS)
#define MEMPOOL_TABLE_HEADER 4096u
#define MEMPOOL_BUCKET_BITS  2
#define MEMPOOL_BUCKET	     (1u << MEMPOOL_BUCKET_BITS) /* entries that are compared together */
#define MEMPOOL_USED	     (1u << 31)			 /* in an entry */

/* Flags of a row. */
#define MEMPOOL_KIND_BIT 30
#define MEMPOOL_PLAIN	 (1u << 29)
#define MEMPOOL_ONE	 (1u << 28)
#define MEMPOOL_ACCESS	 (MEMPOOL_ONE - 1)

typedef _Atomic uint32_t mempool_entry_t;

struct mempool_table_row {
	_Atomic uint32_t seq; /* not used in a spare */
	_Atomic uint32_t key;
	_Atomic uint32_t pd;
	_Atomic uint32_t flags;
	_Atomic uint64_t iova;
	_Atomic uint64_t length;
} __attribute__((aligned(32)));

struct mempool_table_rest {
	_Atomic uint64_t va;
	_Atomic uint32_t qpn;
	_Atomic uint32_t parent;
	_Atomic uint32_t object;
	uint32_t next_free; /* for the writer; not used in a spare */
};

struct mempool_table {
	/* Written at creation, then constant. */
	uint32_t max_rows;
	uint32_t max_order;
	uint64_t spare_offset;	 /* from a row to its spare */
	uint64_t rest_offset[2]; /* by the low bit of seq */
	uint64_t area_offset[2]; /* below 2^32 */
	uint64_t bytes;
	/*
	 * The current index: generation << 32 | offset of its area | 32 - log2(buckets). The
	 * generation's low bit tells which area it is.
	 */
	_Atomic uint64_t index __attribute__((aligned(64)));
	/* The writer's fields. */
	_Atomic uint32_t count __attribute__((aligned(64))); /* rows in use */
	uint32_t occupied; /* entries of the index that are not empty */
	uint32_t high;	   /* rows that were ever in use: 0 … high - 1 */
	uint32_t free_head;
};

static_assert(sizeof(struct mempool_table_row) == 32, "layout seen by other processes");
static_assert(sizeof(struct mempool_table_rest) == 24, "layout seen by other processes");
static_assert(sizeof(struct mempool_table) <= MEMPOOL_TABLE_HEADER, "layout");

static inline uint32_t mempool_hash_of(uint32_t key)
{
	return (key >> 8) * 0x9e3779b1u;
}

static inline mempool_entry_t *mempool_area(const struct mempool_table *t, uint64_t index)
{
	return (mempool_entry_t *)((uintptr_t)t + ((uint32_t)index & ~63u));
}

/* The bucket where a search starts. */
static inline uint32_t mempool_bucket(uint64_t index, uint32_t hash)
{
	return hash >> (index & 31);
}

static inline uint32_t mempool_entry_of(uint32_t hash, uint32_t n)
{
	return MEMPOOL_USED | hash << MEMPOOL_ROW_BITS | n;
}

/*
 * The row that an entry refers to if it is of a key with that hash (or, 1 time in 512, of another);
 * otherwise an invalid number.
 */
static inline uint32_t mempool_row_of(uint32_t entry, uint32_t hash)
{
	return entry ^ mempool_entry_of(hash, 0);
}

static inline struct mempool_table_row *mempool_row_at(const struct mempool_table *t, size_t n)
{
	return (struct mempool_table_row *)((uintptr_t)t + MEMPOOL_TABLE_HEADER) + n;
}

/* The row where a search finds nearly every key, or an invalid number. */
static inline uint32_t mempool_candidate(const struct mempool_table *t, uint32_t hash)
{
	uint64_t index = atomic_load_explicit(&t->index, memory_order_acquire);
	const mempool_entry_t *entry = mempool_area(t, index);
	uint32_t best = UINT32_MAX, n;

	entry += (size_t)mempool_bucket(index, hash) * MEMPOOL_BUCKET;
#pragma GCC unroll 4
	for (unsigned i = 0; i < MEMPOOL_BUCKET; i++) {
		n = mempool_row_of(atomic_load_explicit(&entry[i], memory_order_acquire), hash);
		best = n < best ? n : best;
	}
	return best;
}

/*
 * The fast permission check of a region for a request of length bytes, not 0. True: permitted;
 * false: undecided. It succeeds if the row is where the hash leads, its current version has that
 * flag (PLAIN or ONE, which only regions have), it is not being changed, and it permits the
 * request: the processor predicts this and also starts with the next request. *n and *seq: the row
 * and its version.
 */
static inline __attribute__((always_inline)) bool
mempool_glance(const struct mempool_table *t, uint32_t flag, uint32_t key, uint32_t pd,
	       uint64_t addr, uint64_t size, uint32_t rights, uint32_t *n, uint32_t *seq)
{
	const struct mempool_table_row *r;
	uint64_t offset, length;
	uint32_t flags;

	*n = mempool_candidate(t, mempool_hash_of(key));
	r = mempool_row_at(t, *n);
	if (__builtin_expect(*n >= MEMPOOL_ROWS, 0))
		return false;
	*seq = atomic_load_explicit(&r->seq, memory_order_acquire);
	if (!(*seq & 1) || atomic_load_explicit(&r->key, memory_order_acquire) != key ||
	    atomic_load_explicit(&r->pd, memory_order_acquire) != pd)
		return false;
	flags = atomic_load_explicit(&r->flags, memory_order_acquire);
	if (!(flags & flag) || (rights & ~(flags & MEMPOOL_ACCESS)))
		return false;
	offset = addr - atomic_load_explicit(&r->iova, memory_order_acquire);
	length = atomic_load_explicit(&r->length, memory_order_acquire);
	return offset < length && size - 1 < length - offset &&
	       atomic_load_explicit(&r->seq, memory_order_acquire) == *seq;
}

/* The same where the row does not matter: *va is where the request's memory lies. */
static inline __attribute__((always_inline)) bool
mempool_match_plain(const struct mempool_table *t, uint32_t key, uint32_t pd, uint64_t addr,
		    uint64_t length, uint32_t rights, uint64_t *va)
{
	uint32_t n, seq;

	if (!length || !mempool_glance(t, MEMPOOL_PLAIN, key, pd, addr, length, rights, &n, &seq))
		return false;
	*va = addr;
	return true;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Spans: runs of pages that are cut into slots of one size, and the sizes there are.
 *
 * Up to 128 bytes a class for each multiple of 16, then eight to each power of two, so that
 * rounding up wastes less than an eighth: 144, 160, … 256, 288, 320, … 32 KiB. A span is the least
 * number of pages, at least 16 KiB, that slots fill without a remainder; at most 60 KiB. A bit map
 * outside the pool has the free slots. Guarded by the pool's lock.
 */
#ifndef MEMPOOL_SPANS_H
#define MEMPOOL_SPANS_H

#include "mempool/pool.h"

static inline unsigned mempool_class_of(size_t length)
{
	unsigned log;

	if (length <= 128)
		return (length + 15) / 16 - 1;
	log = 63 - __builtin_clzl(length - 1);
	return 8 + (log - 7) * 8 + (((length - 1) >> (log - 3)) & 7);
}

static inline uint32_t mempool_class_bytes(unsigned cls)
{
	if (cls < 8)
		return (cls + 1) * 16;
	return (9 + cls % 8) << (cls / 8 + 3);
}

/* The class for a length (≤ MEMPOOL_CLASS_LIMIT) and alignment, or MEMPOOL_CLASSES: a run of
 * pages. */
static inline unsigned mempool_class_for(size_t length, size_t alignment)
{
	unsigned cls = mempool_class_of(length);

	if (alignment > MEMPOOL_PAGE)
		return MEMPOOL_CLASSES;
	while (cls < MEMPOOL_CLASSES && mempool_class_bytes(cls) & (alignment - 1))
		cls++;
	return cls;
}

/* Takes up to want slots, at least one if there is any memory; returns how many. */
unsigned mempool_spans_take(struct rmempool *pool, unsigned cls, uintptr_t *slots, unsigned want);
/* Frees one. */
void mempool_spans_give(struct rmempool *pool, const struct mempool_extent *extent);
/* Is that slot free (and in no thread's cache)? */
bool mempool_spans_free(const struct rmempool *pool, const struct mempool_extent *extent);
/* Runs of pages for longer buffers; 0: none. */
uintptr_t mempool_spans_take_large(struct rmempool *pool, size_t length, size_t alignment);
void mempool_spans_give_large(struct rmempool *pool, const struct mempool_extent *extent);

#endif

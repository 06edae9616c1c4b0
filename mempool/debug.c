/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Debug mode; see debug.h. Guarded by the pool's lock.
 */
#include "mempool/debug.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EDGE   0xa5
#define FREED  0xdb
#define FREED8 0xdbdbdbdbdbdbdbdbull

void mempool_debug_complain(struct rmempool *pool, uintptr_t addr, const char *what)
{
	atomic_fetch_add_explicit(&pool->errors, 1, memory_order_relaxed);
	fprintf(stderr, "libmempool: buffer at %#lx %s\n", (unsigned long)addr, what);
}

static uint64_t *trailer(const struct mempool_extent *extent)
{
	return (uint64_t *)(extent->addr + extent->length) - 1;
}

size_t mempool_debug_length(struct rmempool *pool, const struct mempool_extent *extent)
{
	size_t length = *trailer(extent) ^ pool->cookie ^ extent->addr;

	return length <= extent->length - MEMPOOL_DEBUG_ROOM ? length : 0;
}

void mempool_debug_dress(struct rmempool *pool, const struct mempool_extent *extent, size_t length)
{
	const uint64_t *words = (const uint64_t *)extent->addr;

	/* Zero: never used before. */
	for (size_t i = 0; i < extent->length / sizeof(*words); i++)
		if (words[i] && words[i] != FREED8) {
			mempool_debug_complain(pool, extent->addr,
					       "was written to after it was freed");
			break;
		}
	memset((char *)extent->addr + length, EDGE, extent->length - length);
	*trailer(extent) = length ^ pool->cookie ^ extent->addr;
}

static bool intact(struct rmempool *pool, const struct mempool_extent *extent)
{
	size_t length = mempool_debug_length(pool, extent);
	const unsigned char *bytes = (const unsigned char *)extent->addr;

	if (!length)
		return false;
	for (size_t i = length; i < extent->length - sizeof(uint64_t); i++)
		if (bytes[i] != EDGE)
			return false;
	return true;
}

int mempool_debug_undress(struct rmempool *pool, const struct mempool_extent *extent)
{
	if (!intact(pool, extent)) {
		mempool_debug_complain(pool, extent->addr, "was written to beyond its length");
		return -EOVERFLOW;
	}
	memset((void *)extent->addr, FREED, extent->length);
	return 0;
}

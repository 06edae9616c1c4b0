/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Debug mode: a buffer is followed by a pattern up to the end of its slot or run, and by its length
 * in the last eight bytes, disguised by a random number:
 *
 *   | length bytes for the program | 0xa5 0xa5 … (8 at least) | length ^ cookie |
 *
 * What is free is filled with 0xdb, so that writing to it shows when it is handed out again. The
 * pool's lock is held in all of these; what they find they count and say on standard error.
 */
#ifndef MEMPOOL_DEBUG_H
#define MEMPOOL_DEBUG_H

#include "mempool/pool.h"

#define MEMPOOL_DEBUG_ROOM 16

void mempool_debug_dress(struct rmempool *pool, const struct mempool_extent *extent, size_t length);
/* 0; -EOVERFLOW, and then it is left as it is. */
int mempool_debug_undress(struct rmempool *pool, const struct mempool_extent *extent);
/* The length that the program asked for; 0: it has been written over. */
size_t mempool_debug_length(struct rmempool *pool, const struct mempool_extent *extent);
void mempool_debug_complain(struct rmempool *pool, uintptr_t addr, const char *what);

#endif

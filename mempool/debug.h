/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Debug mode: a buffer is followed by a pattern up to the end of its slot or run, and by its length
 * in the last eight bytes, disguised by a random number:
 *
 *   | length bytes for the program | 0xa5 0xa5 … (8 at least) | length ^ cookie |
 *
 * Free memory is filled with 0xdb, so that a write to it is detected when it is allocated again.
 * The pool's lock is held in all of these; they count errors and report them on standard error.
 */
#ifndef MEMPOOL_DEBUG_H
#define MEMPOOL_DEBUG_H

#include "mempool/pool.h"

#define MEMPOOL_DEBUG_ROOM 16

void mempool_debug_dress(struct rmempool *pool, const struct mempool_extent *extent, size_t length);
/* 0; -EOVERFLOW: the pattern was overwritten, and the buffer is left as it is. */
int mempool_debug_undress(struct rmempool *pool, const struct mempool_extent *extent);
/* The length that the program requested; 0: it has been overwritten. */
size_t mempool_debug_length(struct rmempool *pool, const struct mempool_extent *extent);
void mempool_debug_complain(struct rmempool *pool, uintptr_t addr, const char *what);

#endif

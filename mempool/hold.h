/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What libmempool offers to an adapter in software, which pins nothing: to keep the blocks that
 * registered memory lies in. Not for programs, and not installed: liburxe looks the functions up by
 * name and version, since a program may have any release of libmempool, or none.
 *
 * A change of what these functions do or of the members below takes a new version; a structure that
 * is longer than the library's has zeroes behind. Any thread.
 */
#ifndef MEMPOOL_HOLD_H
#define MEMPOOL_HOLD_H

#include "mempool/mempool.h"

#define RMEMPOOL_HOLD_VERSION "MEMPOOL_PRIVATE_1"

struct rmempool_hold {
	int fd; /* of the file, as in rmempool_location */
	enum rmempool_pages pages;
	uint64_t file;	      /* a number that no other file of this process's pools ever has */
	uint64_t inode;	      /* of the file, should the program have closed fd */
	uint64_t base;	      /* the address of the file's first byte */
	bool resident;	      /* all pages are there, and may be written to */
	uint32_t first, last; /* which blocks: for rmempool_release() */
};

/* Of the first version: no structure is shorter. */
#define RMEMPOOL_HOLD_SIZE_1 48
_Static_assert(sizeof(struct rmempool_hold) == RMEMPOOL_HOLD_SIZE_1,
	       "a member more takes a new version");

/*
 * Keeps the blocks that [addr, addr + length) lies in, which must be of one file of a pool of this
 * process, until rmempool_release(): rmempool_shrink() passes them over, and rmempool_destroy()
 * leaves their huge pages to those who have mapped them. -EINVAL: the range is empty or no such
 * memory, or size is none of a structure.
 */
__attribute__((visibility("default"))) int rmempool_hold(const void *addr, size_t length,
							 struct rmempool_hold *hold, size_t size);
/* Once for each rmempool_hold() that returned 0, not after a fork. The pool may be gone by then. */
__attribute__((visibility("default"))) void rmempool_release(const struct rmempool_hold *hold);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A private interface for an adapter in software, which pins nothing: it keeps the blocks that
 * registered memory lies in. Not for programs, and not installed: liburxe looks the functions up by
 * name and version, since a program may have any release of libmempool, or none.
 *
 * A change of these functions or of the members below needs a new version. If the caller's
 * structure is longer than the library's, its end is zeroed. Any thread.
 */
#ifndef MEMPOOL_HOLD_H
#define MEMPOOL_HOLD_H

#include "mempool/mempool.h"

#define RMEMPOOL_HOLD_VERSION "MEMPOOL_PRIVATE_1"

struct rmempool_hold {
	int fd; /* of the file, as in rmempool_location */
	enum rmempool_pages pages;
	uint64_t
		file; /* a number that is unique among all files of this process's pools, also earlier ones */
	uint64_t inode;	      /* of the file, in case the program has closed fd */
	uint64_t base;	      /* the address of the file's first byte */
	bool resident;	      /* all pages are present and writable */
	uint32_t first, last; /* the blocks, for rmempool_release() */
};

/* Of the first version: no structure is shorter. */
#define RMEMPOOL_HOLD_SIZE_1 48
_Static_assert(sizeof(struct rmempool_hold) == RMEMPOOL_HOLD_SIZE_1,
	       "a member more takes a new version");

/*
 * Keeps the blocks of [addr, addr + length), which must lie in one file of a pool of this process,
 * until rmempool_release(): rmempool_shrink() skips them, and rmempool_destroy() does not free
 * their huge pages, which other processes may have mapped. -EINVAL: the range is empty or not such
 * memory, or size is not that of any version.
 */
__attribute__((visibility("default"))) int rmempool_hold(const void *addr, size_t length,
							 struct rmempool_hold *hold, size_t size);
/* Once for each rmempool_hold() that returned 0, but not after a fork. The pool may no longer
 * exist. */
__attribute__((visibility("default"))) void rmempool_release(const struct rmempool_hold *hold);

#endif

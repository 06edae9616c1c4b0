/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of a pool, for the units of this folder. Locks, outermost first:
 *
 *   list	all pools of the process (in fork.c)
 *   grow_lock	the set of blocks; held over system calls
 *   caches	the lists of thread caches (one lock for all pools, in alloc.c); below it each cache's
 *   mr_lock	registrations, domains, adapters; not held over ibv_reg_mr() and ibv_dereg_mr()
 *   lock	runs of pages, spans, statistics of the central part; never held over a system call
 *   locating	the list of pools again, for rmempool_hold(), which ibv_reg_mr() may call with
 *		any of the others held (in fork.c)
 */
#ifndef MEMPOOL_POOL_H
#define MEMPOOL_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "mempool/hold.h"
#include "mempool/image.h"
#include "mempool/mempool.h"
#include "mempool/pages.h"

#define MEMPOOL_CLASSES	    72
#define MEMPOOL_CLASS_LIMIT 32768ul /* longer buffers are runs of pages */
#define MEMPOOL_PAGE_KINDS  3	    /* enum rmempool_pages */

struct mempool_registration;
struct mempool_reuse;

struct mempool_block {
	_Atomic bool present;			   /* read without a lock too; set last */
	_Atomic uint8_t pages;			   /* enum rmempool_pages */
	struct mempool_registration *registration; /* shared keys, else NULL */
	uint32_t lkey, rkey;			   /* 0 without */
	_Atomic uint32_t holds;			   /* rmempool_hold() */
	uint32_t own_holds;			   /* of them, those of the registration */
};

/* A device, and the tables as its adapter sees them. */
struct mempool_adapter {
	struct mempool_adapter *next;
	void *context; /* struct ibv_context */
	struct rmempool_image image;
};

/* A PD of a device. */
struct mempool_domain {
	struct mempool_domain *next;
	struct ibv_pd *pd;
	void *context;
	uint32_t number;
	_Atomic unsigned users; /* registrations; more only under mr_lock */
	struct mempool_adapter *adapter;
};

struct rmempool {
	struct rmempool *next; /* in the list of all pools, see fork.c */
	struct rmempool_attr attr;
	uint64_t id; /* unique among all pools that this process ever had */
	/* Pool mapping: constant but for the blocks. */
	char *base;
	void *reserved; /* with room for the alignment of base */
	size_t reserved_bytes;
	unsigned block_shift;
	uint32_t max_blocks;
	uint32_t max_runs;
	pthread_mutex_t grow_lock;
	struct mempool_block *blocks;
	/*
	 * A page of its own that contains 1 while the blocks belong to this process. In a forked
	 * child without RMEMPOOL_FORK it reads 0, however the child was made: the kernel wipes the
	 * page.
	 */
	_Atomic uint32_t *here;
	uint64_t files;		     /* unique among all sets of files that this process ever had */
	int fds[MEMPOOL_PAGE_KINDS]; /* -1: none yet */
	uint64_t inodes[MEMPOOL_PAGE_KINDS];
	uint32_t block_count[MEMPOOL_PAGE_KINDS];
	uint64_t fallbacks;
	struct mempool_pa_run *runs; /* the VA→PA table, from which images are written */
	uint32_t run_count;

	/* Pool allocation. */
	pthread_mutex_t lock;
	struct mempool_page_heap pages;
	uint64_t *slots; /* bit n: the slot at (its span's page * 256 + n) is free */
	uint32_t spans[MEMPOOL_CLASSES]; /* lists of spans with free slots */
	uint64_t given, taken, failures; /* slots and runs of the central part */
	int64_t in_use;
	_Atomic uint64_t errors;
	struct mempool_thread_cache *caches;
	uint64_t cookie; /* debug mode: of the trailers */

	/* Registration. */
	pthread_mutex_t mr_lock;
	struct mempool_adapter *adapters;
	struct mempool_domain *domains;
	uint32_t domain_count; /* numbers given so far */
	struct mempool_registration **buckets;
	size_t bucket_count;
	uint64_t registrations, registered;
	struct mempool_reuse *reuse;
};

/* Functions of pool mapping for the other units: 0 or -errno; grow_lock held for the last three. */
int mempool_mapping_init(struct rmempool *pool);
void mempool_mapping_destroy(struct rmempool *pool);
int mempool_mapping_add(struct rmempool *pool, uint32_t block);
void mempool_mapping_remove(struct rmempool *pool, uint32_t block);
void mempool_mapping_publish(struct rmempool *pool); /* brings pool->runs up to date */

int mempool_locate_in(struct rmempool *pool, const void *addr, struct rmempool_location *location);
int mempool_hold_in(struct rmempool *pool, uintptr_t addr, size_t length,
		    struct rmempool_hold *hold);
void mempool_release_in(struct rmempool *pool, const struct rmempool_hold *hold);
/* Holds by others than the pool itself; of a block that contains no buffer. */
static inline bool mempool_block_held(const struct mempool_block *block)
{
	return atomic_load(&block->holds) > block->own_holds;
}

static inline bool mempool_is_ours(const struct rmempool *pool)
{
	return atomic_load_explicit(pool->here, memory_order_relaxed);
}

void mempool_mapping_inherit(struct rmempool *pool, bool inherit);
/* In a forked child: maps private copies of all blocks. */
int mempool_mapping_fork(struct rmempool *pool);

/* Appends the frames of pages of that size at addr to *runs: their new count. */
uint32_t mempool_pagemap_runs(const void *addr, size_t length, size_t page,
			      struct mempool_pa_run *runs, uint32_t count);

/* Pool allocation. */
int mempool_alloc_init(struct rmempool *pool);
void mempool_alloc_destroy(struct rmempool *pool);
void mempool_alloc_drain(struct rmempool *pool); /* empties the caches of all threads */
void mempool_alloc_query(struct rmempool *pool, struct rmempool_statistics *statistics);
void mempool_caches_hold(bool hold);		/* the lock of all lists of caches */
void mempool_alloc_fork(struct rmempool *pool); /* in a forked child, that lock held */

/* A buffer's place in the pool. */
struct mempool_extent {
	uintptr_t addr;
	size_t length; /* of the slot or run */
	uint32_t run;
	uint32_t slot; /* SPAN */
	uint8_t cls;
	bool large;
};

/*
 * The slot or run that an address lies in; false: none, or it is free as far as can be seen without
 * the caches. Callable without the lock only for a buffer that the caller owns.
 */
bool mempool_extent_at(struct rmempool *pool, uintptr_t addr, struct mempool_extent *extent);

/* Registration. */
int mempool_registration_init(struct rmempool *pool);
void mempool_registration_destroy(struct rmempool *pool);
bool mempool_registration_busy(struct rmempool *pool); /* any but shared and kept ones? */
int mempool_registration_drop(struct rmempool *pool, const struct mempool_extent *extent);
int mempool_share_block(struct rmempool *pool, uint32_t block);
int mempool_unshare_block(struct rmempool *pool, uint32_t block);
/* Writes the runs to all images, and the changes to their logs; grow_lock held. */
void mempool_registration_remap(struct rmempool *pool, uint32_t first, uint32_t count);
void mempool_registration_fork(struct rmempool *pool); /* in a forked child */
void mempool_registration_query(struct rmempool *pool, struct rmempool_statistics *statistics);

/* All pools of the process. */
void mempool_list_add(struct rmempool *pool);
void mempool_list_remove(struct rmempool *pool);

static inline bool mempool_has(const struct rmempool *pool, uintptr_t addr)
{
	return addr - (uintptr_t)pool->base < (size_t)pool->max_blocks << pool->block_shift;
}

static inline uint32_t mempool_block_of(const struct rmempool *pool, uintptr_t addr)
{
	return (addr - (uintptr_t)pool->base) >> pool->block_shift;
}

#endif

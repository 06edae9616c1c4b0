/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libmempool: a pool of registered memory for RDMA programs, after "A memory pool management method
 * and system for RDMA networks" (Hangzhou Dianzi University, 2023). Its steps, and their functions:
 *
 *   S1  map blocks of physically contiguous memory ahead of time; write virtual address, physical
 *       address and length to the VA→PA table			rmempool_create, _grow, _shrink
 *   S2  keep the blocks as a pool that buffers are cut from		rmempool_create
 *   S3  allocate a buffer by length, or fail			rmempool_alloc, _free
 *   S4  assign an L_Key and an R_Key; write keys, address, length
 *       and rights to the registration table				rmempool_register, _deregister
 *   S5  permission match: may these keys touch this range		rmempool_match
 *   S6  address translation: where is it				rmempool_translate
 *
 * The adapter uses S5 and S6 (rmempool_lookup), and keeps copies of both tables' entries in its fast
 * memory (rmempool_cache_*), filled from the tables' image (rmempool_image_*).
 *
 * Lengths and addresses are in bytes. Functions return 0 or a negative errno. Any thread may call
 * any of them at any time unless said otherwise. A pool, its buffers and registrations belong to the
 * process that created it, and a forked child does not have its memory (as after ibv_fork_init()),
 * unless the pool has RMEMPOOL_FORK.
 *
 * Structures may grow with the library, and are passed with their size as the program knows it. A
 * member that only the library knows is not written, or has its default; one that only the program
 * knows is written as 0, and must be 0 in attributes (-EINVAL). struct rmempool_mr is allocated by
 * the library and may grow at its end. struct rmempool_request does not change.
 */
#ifndef MEMPOOL_MEMPOOL_H
#define MEMPOOL_MEMPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct ibv_pd;
struct ibv_mr;
struct rmempool;
struct rmempool_image;
struct rmempool_cache;

/* Rights (IBTA vol. 1, 10.6.3). The values are those of enum ibv_access_flags. */
enum rmempool_access {
	RMEMPOOL_LOCAL_WRITE = 1 << 0,
	RMEMPOOL_REMOTE_WRITE = 1 << 1,
	RMEMPOOL_REMOTE_READ = 1 << 2,
	RMEMPOOL_REMOTE_ATOMIC = 1 << 3,
	RMEMPOOL_MW_BIND = 1 << 4,
};

/* Why a request may not access the memory; the caller turns it into a completion status or a
 * NAK. */
enum rmempool_verdict {
	RMEMPOOL_OK,
	RMEMPOOL_NO_KEY,   /* no such key, or of another kind */
	RMEMPOOL_WRONG_PD, /* of another protection domain (or window of another QP) */
	RMEMPOOL_OUT_OF_BOUNDS,
	RMEMPOOL_NO_RIGHTS,
};

/* Options of a pool. */
enum rmempool_flags {
	RMEMPOOL_NO_HUGE = 1 << 0,	/* ordinary memory only */
	RMEMPOOL_REQUIRE_HUGE = 1 << 1, /* huge pages only: fail instead of using ordinary memory */
	RMEMPOOL_DEBUG = 1 << 2,	/* find double frees, overflows and writes after free */
	RMEMPOOL_REUSE = 1 << 3,	/* keep registrations of the program's own memory */
	RMEMPOOL_LAZY = 1 << 4, /* allocate pages when they are touched, and not with their block */
	RMEMPOOL_FORK = 1 << 5, /* a forked child gets a copy of all buffers, at their addresses */
};

struct rmempool_attr {
	size_t size;  /* of this structure: rmempool_attr_init() sets it */
	size_t bytes; /* allocated at once, rounded up to whole blocks; may be 0 */
	size_t limit; /* the most that the pool may have; 1 block … 2^40, rounded up to whole blocks */
	size_t block_size; /* a power of two, 2 MiB … 2^36; 1 GiB pages are tried from 1 GiB on */
	int numa_node;	   /* allocate memory of this node only; -1: of any */
	unsigned flags;	   /* enum rmempool_flags */
	/*
	 * Shared keys: each block is registered once, on this PD and with this access, and buffers
	 * use the keys of their block. Such a key gives access to the whole block, including other
	 * buffers, and outlives the buffer: only for peers that are trusted with all of the pool.
	 * NULL: none.
	 */
	struct ibv_pd *shared_pd;
	int shared_access;
	unsigned max_registrations; /* at one time; 1 … 2^21 */
};

/*
 * Defaults: 16 MiB at once, at most 64 GiB (or what there are addresses for, in a process that is
 * limited), blocks of 2 MiB, any node, no flags, own keys.
 */
void rmempool_attr_init(struct rmempool_attr *attr, size_t size);

/*
 * Makes a pool (S1, S2); attr NULL: the defaults. -EINVAL (a value out of range, no such node),
 * -ENOMEM (also: RMEMPOOL_REQUIRE_HUGE and too few huge pages free), or the errno of ibv_reg_mr().
 */
int rmempool_create(const struct rmempool_attr *attr, struct rmempool **pool);
/*
 * Frees the pool. -EBUSY, and nothing is done, while a buffer is allocated or a registration
 * exists. No other thread may be using the pool.
 */
int rmempool_destroy(struct rmempool *pool);

/* Adds whole blocks for at least that many bytes, all or none. -ENOMEM: the limit, or no memory. */
int rmempool_grow(struct rmempool *pool, size_t bytes);
/*
 * Frees blocks that contain no buffer, at most that many bytes of them; *given (may be NULL) is the
 * number of bytes freed. Buffers are not moved: 0 bytes is no error.
 */
int rmempool_shrink(struct rmempool *pool, size_t bytes, size_t *given);

struct rmempool_buffer {
	void *addr;
	size_t length; /* usable bytes: the requested length, or up to an eighth more */
	uint32_t lkey; /* shared keys; 0: none (another mode, or the buffer spans two blocks) */
	uint32_t rkey;
};

/*
 * Allocates a buffer of length bytes at a multiple of alignment (S3): length 1 … the pool's size,
 * alignment a power of two up to the block size, or 0 for 16. Its content is undefined. Takes
 * constant time up to 32 KiB in the common case and never grows the pool. -ENOMEM, which is
 * counted. -EINVAL: length 0 or a bad alignment.
 */
int rmempool_alloc(struct rmempool *pool, size_t length, size_t alignment,
		   struct rmempool_buffer *buffer, size_t size);
/*
 * Frees a buffer and ends its registrations, whose handles become invalid: its keys no longer work
 * when this returns. -EINVAL: addr is not the start of a buffer, or (reliably with RMEMPOOL_DEBUG)
 * it has been freed before. -EBUSY: a memory window is bound to it; it stays allocated. With
 * RMEMPOOL_DEBUG -EOVERFLOW: it was written to beyond its length; it stays allocated. addr NULL: 0.
 */
int rmempool_free(struct rmempool *pool, void *addr);

/* The usable length of the buffer that begins at addr; 0: none begins there. */
size_t rmempool_length(struct rmempool *pool, const void *addr);

struct rmempool_mr {
	void *addr;
	size_t length;
	uint32_t lkey;
	uint32_t rkey;
	int access;
	uint32_t domain; /* the number of its PD in the registration table */
	struct ibv_pd *pd;
	struct ibv_mr *ibv; /* for functions that need one; not to be deregistered by hand */
};

/*
 * Registers [addr, addr + length), a buffer or a part of one, on any PD of any device, with keys
 * and a row of its own, exact to the byte (S4). access: enum ibv_access_flags. The registration
 * ends with rmempool_deregister() or with rmempool_free() of the buffer.
 *
 * Memory outside the pool can be registered too. With RMEMPOOL_REUSE such a registration is kept
 * when it is deregistered, and used again by the next one of the same range, PD and access, but
 * only without remote rights (a kept R_Key would stay valid), only for private anonymous memory,
 * and only where the kernel reports unmapping (userfaultfd). A thread that unmaps memory of a kept
 * registration waits until a thread of the library has handled the event.
 *
 * -EINVAL: the range is neither within a buffer nor outside the pool; bad access. -ENOSPC:
 * max_registrations exist. Otherwise the errno of ibv_reg_mr().
 */
int rmempool_register(struct rmempool *pool, struct ibv_pd *pd, void *addr, size_t length,
		      int access, struct rmempool_mr **mr);
/* Ends a registration. -EBUSY: a memory window is bound to it. */
int rmempool_deregister(struct rmempool *pool, struct rmempool_mr *mr);
/*
 * To be called before ibv_dealloc_pd(): ends the registrations on a PD that the pool keeps for
 * reuse. -EBUSY: registrations are in use, or the pool's shared keys are on this PD.
 */
int rmempool_forget(struct rmempool *pool, struct ibv_pd *pd);

struct rmempool_statistics {
	uint64_t bytes;	       /* in blocks now */
	uint64_t blocks;       /* now, by the pages they are made of: */
	uint64_t blocks_1g;    /* pages of 1 GiB */
	uint64_t blocks_2m;    /* pages of 2 MiB */
	uint64_t blocks_plain; /* ordinary memory */
	uint64_t
		fallbacks; /* times that no huge pages were available and ordinary memory was used */
	uint64_t runs;	   /* entries of the VA→PA table now */
	uint64_t in_use;   /* bytes of buffers, rounded up to slots and runs */
	uint64_t allocs;   /* buffers allocated */
	uint64_t frees;	   /* and freed */
	uint64_t failures;	/* -ENOMEM */
	uint64_t errors;	/* RMEMPOOL_DEBUG: double frees, overflows, writes after free */
	uint64_t registrations; /* now, including kept and shared ones */
	uint64_t registered;	/* calls of ibv_reg_mr() that succeeded */
	uint64_t reuse_hits;	/* registrations served from kept ones */
	uint64_t
		reuse_misses; /* RMEMPOOL_REUSE: registrations that could have been served so, and were not */
	uint64_t
		reuse_unmapped; /* kept registrations that ended because their memory was unmapped */
};

void rmempool_query(struct rmempool *pool, struct rmempool_statistics *statistics, size_t size);

/* The pages of a block. */
enum rmempool_pages {
	RMEMPOOL_PAGES_PLAIN,
	RMEMPOOL_PAGES_2M,
	RMEMPOOL_PAGES_1G,
};

/* Where an address of the pool lies in the memfd that backs it, for processes that want to map
 * it. */
struct rmempool_location {
	int fd;		 /* the pool's own; sealed against shrinking and growing */
	uint64_t offset; /* of the address in that file */
	size_t length;	 /* from there to the end of its block */
	enum rmempool_pages pages;
};

/* pool NULL: any pool of this process. -EINVAL: no memory of the pool, or a forked child's
 * parent's. */
int rmempool_locate(struct rmempool *pool, const void *addr, struct rmempool_location *location,
		    size_t size);

/*
 * The image of both tables for one device's adapter: a memfd without pointers in it, always up to
 * date. A handle belongs to the process that created it; another process that has the descriptor
 * opens its own with rmempool_image_open(), which can only read.
 *
 * rmempool_image() creates the image of a PD's device. The image exists until rmempool_destroy(),
 * the handle until rmempool_image_close(). -ENOMEM, -EMFILE.
 */
int rmempool_image(struct rmempool *pool, struct ibv_pd *pd, struct rmempool_image **image);
/* fd stays the caller's. -EINVAL: no image. -EPROTONOSUPPORT: of another version. -ENOMEM. */
int rmempool_image_open(int fd, struct rmempool_image **image);
/* The descriptor to pass to another process. It belongs to the image and is closed with the pool
 * or handle. */
int rmempool_image_fd(const struct rmempool_image *image);
void rmempool_image_close(struct rmempool_image *image);

/* An adapter's request. */
struct rmempool_request { /* 32 bytes */
	uint32_t lkey;	  /* 0: not given */
	uint32_t rkey;	  /* 0: not given */
	uint32_t domain;  /* of struct rmempool_mr */
	uint32_t rights;  /* enum rmempool_access, all are needed; remote ones need an R_Key */
	uint64_t addr;
	uint64_t length;
};

/* A piece of memory as the device addresses it. */
struct rmempool_segment {
	uint64_t addr; /* physical; or virtual, for a device behind an IOMMU or in software */
	uint64_t length;
	bool physical; /* false: the physical address is unknown and addr is the virtual one */
};

/*
 * Permission match (S5): if both keys are given, both must be valid and belong to one registration.
 * Length 0 accesses no memory and is RMEMPOOL_OK with any key (IBTA vol. 1, 9.4.3). The checks are
 * made in the order of the enumeration. Takes no lock and never waits.
 */
enum rmempool_verdict rmempool_match(const struct rmempool_image *image,
				     const struct rmempool_request *request);
/*
 * Address translation (S6): the segments of [addr, addr + length) in order, at most max of them,
 * each of size bytes. Returns the number needed, which may be more. Memory outside the pool's
 * blocks is returned as virtual. Takes no lock and never waits.
 */
unsigned rmempool_translate(const struct rmempool_image *image, uint64_t addr, uint64_t length,
			    struct rmempool_segment *segments, size_t size, unsigned max);
/* Both: *count is what rmempool_translate() returns, 0 unless RMEMPOOL_OK. */
enum rmempool_verdict rmempool_lookup(const struct rmempool_image *image,
				      const struct rmempool_request *request,
				      struct rmempool_segment *segments, size_t size, unsigned max,
				      unsigned *count);

/*
 * The cache unit: an adapter with room for a fixed number of entries, rows of the registration
 * table and runs of the VA→PA table together. A missing entry is fetched from the image and
 * replaces one that has not been used recently. Entries that changed in the image are dropped
 * before each answer. One thread at a time. entries: 2 … 2^20. -EINVAL, -ENOMEM.
 */
int rmempool_cache_create(struct rmempool_image *image, unsigned entries,
			  struct rmempool_cache **cache);
void rmempool_cache_destroy(struct rmempool_cache *cache);
/* rmempool_lookup(), answered from the cache where possible. */
enum rmempool_verdict rmempool_cache_lookup(struct rmempool_cache *cache,
					    const struct rmempool_request *request,
					    struct rmempool_segment *segments, size_t size,
					    unsigned max, unsigned *count);

struct rmempool_cache_statistics {
	uint64_t row_hits, row_misses; /* of the registration table, a key each */
	uint64_t run_hits, run_misses; /* of the VA→PA table, a segment each */
	uint64_t replaced;	       /* entries that were replaced by others */
	uint64_t dropped;	       /* entries that changed in the image */
	uint64_t flushes; /* times that the log was overrun and all entries were dropped */
	uint64_t used;	  /* entries now */
};

void rmempool_cache_query(const struct rmempool_cache *cache,
			  struct rmempool_cache_statistics *statistics, size_t size);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

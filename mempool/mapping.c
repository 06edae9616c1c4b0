/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pool mapping, the method's S1: blocks of memory, each at its place in one reserved range of
 * addresses, and their runs of physical memory.
 *
 *   addresses    | block 0 | block 1 |  (none)  | block 3 | ...            one reservation
 *   memfd, 2 MiB | block 0 |  hole   |   hole   | block 3 |                offset = address - base
 *   memfd, plain |  hole   | block 1 |   hole   |  hole   |
 *
 * There is one memfd for each size of pages, sparse, sealed and as large as the pool may get: three
 * descriptors at most. In a mapping of one by another process, an address of the pool lies at the
 * same offset.
 *
 * A hugetlb memfd can be created and sized without a huge page being free; only mmap() fails. A
 * block for which there are no huge pages gets ordinary ones, counted as a fallback.
 *
 * Everything here is guarded by grow_lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mempool/pool.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define MAX_NODES  1024
#define NODE_WORDS (MAX_NODES / (8 * sizeof(unsigned long)))

static const struct {
	const char *name;
	unsigned flags;
	size_t bytes;
} kinds[MEMPOOL_PAGE_KINDS] = {
	[RMEMPOOL_PAGES_PLAIN] = {"mempool", 0, MEMPOOL_PAGE},
	[RMEMPOOL_PAGES_2M] = {"mempool-2M", MFD_HUGETLB | MFD_HUGE_2MB, 2ul << 20},
	[RMEMPOOL_PAGES_1G] = {"mempool-1G", MFD_HUGETLB | MFD_HUGE_1GB, 1ul << 30},
};

static void *reserve(void *addr, size_t bytes)
{
	return mmap(addr, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (addr ? MAP_FIXED : 0), -1, 0);
}

static size_t pool_bytes(const struct rmempool *pool)
{
	return (size_t)pool->max_blocks << pool->block_shift;
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/* Whether there is a file for pages of a kind that the program has not closed. */
static bool file_is_there(const struct rmempool *pool, enum rmempool_pages kind)
{
	return pool->fds[kind] >= 0 && inode_of(pool->fds[kind]) == pool->inodes[kind];
}

/* The blocks lie in new files that belong to this process. */
static void take_possession(struct rmempool *pool)
{
	static _Atomic uint64_t count;

	pool->files = atomic_fetch_add(&count, 1) + 1;
	for (int i = 0; i < MEMPOOL_PAGE_KINDS; i++)
		pool->fds[i] = -1;
	atomic_store(pool->here, 1);
}

static int make_here(struct rmempool *pool)
{
	size_t bytes = sysconf(_SC_PAGESIZE);

	pool->here = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool->here == MAP_FAILED)
		return -ENOMEM;
	if (!madvise(pool->here, bytes, MADV_WIPEONFORK))
		return 0;
	munmap(pool->here, bytes);
	return -ENOSYS; /* before Linux 4.14 */
}

static int bind_node(void *addr, size_t bytes, int node)
{
	unsigned long mask[NODE_WORDS] = {0};

	if (node < 0)
		return 0;
	mask[node / (8 * sizeof(*mask))] |= 1ul << node % (8 * sizeof(*mask));
	return syscall(SYS_mbind, addr, bytes, MPOL_BIND, mask, MAX_NODES, MPOL_MF_STRICT) ? -errno
											   : 0;
}

int mempool_mapping_init(struct rmempool *pool)
{
	size_t block = 1ul << pool->block_shift;
	int err = make_here(pool);

	if (err)
		return err;
	take_possession(pool);
	/* The granularity of runs is a huge page. */
	pool->max_runs = (pool_bytes(pool) >> 21) + 1;
	pool->reserved_bytes = pool_bytes(pool) + block;
	pool->reserved = reserve(NULL, pool->reserved_bytes);
	if (pool->reserved == MAP_FAILED) {
		munmap(pool->here, sysconf(_SC_PAGESIZE));
		return -ENOMEM;
	}
	pool->base = (char *)(((uintptr_t)pool->reserved + block - 1) & ~(block - 1));
	pool->blocks = calloc(pool->max_blocks, sizeof(*pool->blocks));
	pool->runs = calloc(pool->max_runs, sizeof(*pool->runs));
	/* Checks the NUMA node now, so that a wrong one is not found only when the pool grows. */
	err = pool->blocks && pool->runs ? bind_node(pool->base, block, pool->attr.numa_node)
					 : -ENOMEM;
	if (err)
		mempool_mapping_destroy(pool);
	return err;
}

/* May pages of a kind be freed although other processes have mapped them? */
static bool may_punch(const struct rmempool *pool, int kind)
{
	if (!mempool_is_ours(pool))
		return false;
	for (uint32_t block = 0; block < pool->max_blocks; block++)
		if (kind != RMEMPOOL_PAGES_PLAIN && pool->blocks[block].pages == kind &&
		    atomic_load(&pool->blocks[block].holds))
			return false;
	return true;
}

void mempool_mapping_destroy(struct rmempool *pool)
{
	munmap(pool->reserved, pool->reserved_bytes);
	for (int i = 0; i < MEMPOOL_PAGE_KINDS; i++) {
		if (!file_is_there(pool, i))
			continue;
		/* Other processes may have mapped it; this frees its pages all the same. */
		if (may_punch(pool, i))
			fallocate(pool->fds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				  pool_bytes(pool));
		close(pool->fds[i]);
	}
	munmap(pool->here, sysconf(_SC_PAGESIZE));
	free(pool->blocks);
	free(pool->runs);
}

/* Moves it to a high number, where a program that closes or counts its descriptors is less
 * likely to meet it. */
static int move_up(int fd)
{
	struct rlimit limit;
	int up = -1;

	if (!getrlimit(RLIMIT_NOFILE, &limit))
		up = fcntl(fd, F_DUPFD_CLOEXEC, limit.rlim_cur < 1024 ? limit.rlim_cur / 2 : 512);
	if (up < 0)
		return fd;
	close(fd);
	return up;
}

/* The memfd for pages of a kind; -EBADF: the program has closed it. */
static int file_of(struct rmempool *pool, enum rmempool_pages kind)
{
	int fd = pool->fds[kind];

	if (fd >= 0)
		return file_is_there(pool, kind) ? fd : -EBADF;
	fd = mempool_memfd(kinds[kind].name, kinds[kind].flags, pool_bytes(pool));
	if (fd < 0)
		return fd;
	pool->fds[kind] = move_up(fd);
	pool->inodes[kind] = inode_of(pool->fds[kind]);
	return pool->fds[kind];
}

/* Populates the pages, so that a lack of memory is an error here and not a SIGBUS later. */
static int populate(int fd, void *addr, size_t bytes, uint64_t offset)
{
	if (!madvise(addr, bytes, MADV_POPULATE_WRITE))
		return 0;
	/* Before Linux 5.14 */
	if (errno == EINVAL && !fallocate(fd, 0, offset, bytes))
		return 0;
	return errno == EFAULT || errno == EHWPOISON || errno == ENOSPC ? -ENOMEM : -errno;
}

static void unmap_block(struct rmempool *pool, enum rmempool_pages kind, uint32_t block)
{
	size_t bytes = 1ul << pool->block_shift;
	uint64_t offset = (uint64_t)block << pool->block_shift;

	reserve(pool->base + offset, bytes);
	fallocate(file_of(pool, kind), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
}

static int map_block(struct rmempool *pool, enum rmempool_pages kind, uint32_t block)
{
	size_t bytes = 1ul << pool->block_shift;
	uint64_t offset = (uint64_t)block << pool->block_shift;
	char *addr = pool->base + offset;
	int fd = file_of(pool, kind), err;

	if (fd < 0)
		return fd;
	if (mmap(addr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) ==
	    MAP_FAILED) {
		err = -errno;
		reserve(addr, bytes); /* a failed mmap() may have unmapped the reservation */
		return err;
	}
	/* A child would share memory that should be copied, so it inherits none, as with
	 * ibv_fork_init(). */
	madvise(addr, bytes, MADV_DONTFORK);
	if (kind == RMEMPOOL_PAGES_PLAIN && !(pool->attr.flags & RMEMPOOL_NO_HUGE))
		madvise(addr, bytes, MADV_HUGEPAGE);
	err = bind_node(addr, bytes, pool->attr.numa_node);
	if (!err && !(pool->attr.flags & RMEMPOOL_LAZY))
		err = populate(fd, addr, bytes, offset);
	if (err)
		unmap_block(pool, kind, block);
	return err;
}

static bool wanted(const struct rmempool *pool, enum rmempool_pages kind)
{
	unsigned flags = pool->attr.flags;

	if (kind == RMEMPOOL_PAGES_PLAIN)
		return !(flags & RMEMPOOL_REQUIRE_HUGE);
	return !(flags & RMEMPOOL_NO_HUGE) && 1ul << pool->block_shift >= kinds[kind].bytes;
}

int mempool_mapping_add(struct rmempool *pool, uint32_t block)
{
	int err = -ENOMEM;

	for (int kind = MEMPOOL_PAGE_KINDS - 1; kind >= 0; kind--) {
		if (!wanted(pool, kind))
			continue;
		err = map_block(pool, kind, block);
		if (!err) {
			pool->blocks[block].pages = kind;
			pool->blocks[block].present = true;
			pool->block_count[kind]++;
			return 0;
		}
		if (kind != RMEMPOOL_PAGES_PLAIN)
			pool->fallbacks++;
	}
	return err;
}

void mempool_mapping_remove(struct rmempool *pool, uint32_t block)
{
	enum rmempool_pages kind = pool->blocks[block].pages;

	pool->blocks[block].present = false;
	pool->block_count[kind]--;
	unmap_block(pool, kind, block);
}

/*
 * Huge pages stay where they are. The kernel may move other pages unless they are pinned, so the
 * addresses that pagemap gives for those could be outdated when they are read.
 */
static uint32_t block_runs(struct rmempool *pool, uint32_t block, uint32_t count)
{
	char *addr = pool->base + ((size_t)block << pool->block_shift);
	enum rmempool_pages kind = pool->blocks[block].pages;
	size_t bytes = 1ul << pool->block_shift;

	if (kind != RMEMPOOL_PAGES_PLAIN)
		return mempool_pagemap_runs(addr, bytes, kinds[kind].bytes, pool->runs, count);
	return mempool_pa_append(pool->runs, count,
				 (struct mempool_pa_run){(uintptr_t)addr, MEMPOOL_PA_UNKNOWN,
							 bytes});
}

void mempool_mapping_publish(struct rmempool *pool)
{
	uint32_t count = 0;

	for (uint32_t block = 0; block < pool->max_blocks; block++)
		if (pool->blocks[block].present)
			count = block_runs(pool, block, count);
	pool->run_count = count;
}

/* Lets a child inherit the blocks, or not; one call for each run of them. */
void mempool_mapping_inherit(struct rmempool *pool, bool inherit)
{
	size_t block = 1ul << pool->block_shift;

	for (uint32_t at = 0, n; at < pool->max_blocks; at += n + 1) {
		for (n = 0; at + n < pool->max_blocks && pool->blocks[at + n].present;)
			n++;
		if (n)
			madvise(pool->base + at * block, n * block,
				inherit ? MADV_DOFORK : MADV_DONTFORK);
	}
}

/* Copies a block's data from a file to where the block is mapped now. */
static int copy_block(struct rmempool *pool, int from, uint32_t block)
{
	uint64_t at = (uint64_t)block << pool->block_shift, end = at + (1ul << pool->block_shift);

	while (at < end) {
		off_t data = lseek(from, at, SEEK_DATA), hole;
		ssize_t n;

		if (data < 0 && errno == ENXIO)
			return 0;
		/* A file system without SEEK_DATA has data everywhere. */
		at = data < 0 ? at : (uint64_t)data;
		hole = data < 0 ? (off_t)end : lseek(from, at, SEEK_HOLE);
		for (; at < end && (off_t)at < hole; at += n) {
			n = pread(from, pool->base + at,
				  ((uint64_t)hole < end ? (uint64_t)hole : end) - at, at);
			if (n <= 0)
				return n ? -errno : -EIO;
		}
	}
	return 0;
}

/* Copies a block's buffers from where it is mapped, which may be write-protected. */
static int copy_mapped(struct rmempool *pool, char *to, uint32_t block)
{
	size_t bytes = 1ul << pool->block_shift;
	uint32_t first = block << (pool->block_shift - MEMPOOL_PAGE_SHIFT);
	char *from = pool->base + block * bytes;

	if (mprotect(from, bytes, PROT_READ))
		return -errno;
	for (size_t at = 0; at < bytes; at += MEMPOOL_PAGE)
		if (mempool_pages_used(&pool->pages, first + at / MEMPOOL_PAGE))
			memcpy(to + at, from + at, MEMPOOL_PAGE);
	return 0;
}

/* The same as map_block() and copy_block(), for a file that the program has closed. */
static int replace_block(struct rmempool *pool, uint32_t block)
{
	size_t bytes = 1ul << pool->block_shift;
	char *at = pool->base + block * bytes, *copy;
	int fd = file_of(pool, RMEMPOOL_PAGES_PLAIN), err;

	if (fd < 0)
		return fd;
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, block * bytes);
	if (copy == MAP_FAILED)
		return -errno;
	err = copy_mapped(pool, copy, block);
	if (!err && mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
		err = -errno;
	if (err)
		munmap(copy, bytes);
	else
		madvise(at, bytes, MADV_DONTFORK);
	return err;
}

/* A child gets ordinary memory. */
int mempool_mapping_fork(struct rmempool *pool)
{
	int old[MEMPOOL_PAGE_KINDS], err = 0;

	for (int kind = 0; kind < MEMPOOL_PAGE_KINDS; kind++)
		old[kind] = file_is_there(pool, kind) ? pool->fds[kind] : -1;
	take_possession(pool);
	pool->attr.flags |= RMEMPOOL_LAZY;
	for (uint32_t block = 0; block < pool->max_blocks && !err; block++) {
		struct mempool_block *b = &pool->blocks[block];

		if (!b->present)
			continue;
		if (old[b->pages] < 0) {
			err = replace_block(pool, block);
		} else {
			err = map_block(pool, RMEMPOOL_PAGES_PLAIN, block);
			if (!err)
				err = copy_block(pool, old[b->pages], block);
		}
		pool->block_count[b->pages]--;
		pool->block_count[RMEMPOOL_PAGES_PLAIN]++;
		b->pages = RMEMPOOL_PAGES_PLAIN;
		b->holds = b->own_holds = 0;
	}
	for (int kind = 0; kind < MEMPOOL_PAGE_KINDS && !err; kind++)
		if (old[kind] >= 0)
			close(old[kind]);
	return err;
}

/* Without a lock: the caller has a buffer there, so the block stays. */
int mempool_locate_in(struct rmempool *pool, const void *addr, struct rmempool_location *location)
{
	size_t block_bytes = 1ul << pool->block_shift;
	struct mempool_block *block;
	uint64_t offset;

	if (!mempool_has(pool, (uintptr_t)addr) || !mempool_is_ours(pool))
		return -EINVAL;
	block = &pool->blocks[mempool_block_of(pool, (uintptr_t)addr)];
	if (!block->present)
		return -EINVAL;
	offset = (uintptr_t)addr - (uintptr_t)pool->base;
	*location = (struct rmempool_location){
		.fd = pool->fds[block->pages],
		.offset = offset,
		.length = block_bytes - (offset & (block_bytes - 1)),
		.pages = block->pages,
	};
	return 0;
}

static void let_go(struct rmempool *pool, uint32_t first, uint32_t end)
{
	for (uint32_t block = first; block < end; block++)
		atomic_fetch_sub(&pool->blocks[block].holds, 1);
}

/* Removing a block clears present and then checks holds; a hold counts first and then checks
 * present. */
static bool take_hold(struct rmempool *pool, uint32_t first, uint32_t last)
{
	for (uint32_t block = first; block <= last; block++) {
		struct mempool_block *b = &pool->blocks[block];

		atomic_fetch_add(&b->holds, 1);
		if (!atomic_load(&b->present) || b->pages != pool->blocks[first].pages) {
			let_go(pool, first, block + 1);
			return false;
		}
	}
	return true;
}

int mempool_hold_in(struct rmempool *pool, uintptr_t addr, size_t length,
		    struct rmempool_hold *hold)
{
	enum rmempool_pages kind;
	uint32_t first, last;

	if (!length || !mempool_has(pool, addr) || addr + length - 1 < addr ||
	    !mempool_has(pool, addr + length - 1) || !mempool_is_ours(pool))
		return -EINVAL;
	first = mempool_block_of(pool, addr);
	last = mempool_block_of(pool, addr + length - 1);
	if (!take_hold(pool, first, last))
		return -EINVAL;
	kind = pool->blocks[first].pages;
	*hold = (struct rmempool_hold){
		.fd = pool->fds[kind],
		.pages = kind,
		.file = pool->files * MEMPOOL_PAGE_KINDS + kind,
		.inode = pool->inodes[kind],
		.base = (uintptr_t)pool->base,
		.resident = !(pool->attr.flags & RMEMPOOL_LAZY),
		.first = first,
		.last = last,
	};
	return 0;
}

void mempool_release_in(struct rmempool *pool, const struct rmempool_hold *hold)
{
	let_go(pool, hold->first, hold->last + 1);
}

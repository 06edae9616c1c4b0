/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Physical addresses from /proc/self/pagemap. Without CAP_SYS_ADMIN the file can be read, but every
 * frame number is 0: that is treated as unknown. Any thread; nothing is shared.
 */
#include <fcntl.h>
#include <unistd.h>

#include "mempool/pool.h"

#define PRESENT	   (1ull << 63)
#define FRAME_MASK ((1ull << 55) - 1)

/* The physical address of a page, or MEMPOOL_PA_UNKNOWN. */
static uint64_t physical(int fd, uintptr_t addr, size_t kernel_page)
{
	uint64_t entry;

	if (fd < 0 || pread(fd, &entry, sizeof(entry), addr / kernel_page * sizeof(entry)) !=
			      (ssize_t)sizeof(entry))
		return MEMPOOL_PA_UNKNOWN;
	if (!(entry & PRESENT) || !(entry & FRAME_MASK))
		return MEMPOOL_PA_UNKNOWN;
	return (entry & FRAME_MASK) * kernel_page;
}

uint32_t mempool_pagemap_runs(const void *addr, size_t length, size_t page,
			      struct mempool_pa_run *runs, uint32_t count)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t kernel_page = sysconf(_SC_PAGESIZE);

	for (size_t at = 0; at < length; at += page) {
		uintptr_t va = (uintptr_t)addr + at;

		count = mempool_pa_append(runs, count,
					  (struct mempool_pa_run){va, physical(fd, va, kernel_page),
								  page});
	}
	if (fd >= 0)
		close(fd);
	return count;
}

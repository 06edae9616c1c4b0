// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * glibc lets the heap of any thread but the first grow by a page at a time: an mprotect(2), which
 * interrupts the processors that run the other threads, and a page fault, for each or every second
 * connection. So from time to time a larger block is taken, its pages brought in by one call, and
 * given back: what is behind the last object then is heap that is there. Below M_TRIM_THRESHOLD it
 * stays. To any other allocator this is a block that comes and goes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/heap.h"

#define FIRST (16u << 10) /* a thread that makes a few objects does without */
#define STEP  (96u << 10)
#define PAGE  4096u

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

void urxe_heap_expect(size_t bytes)
{
	static __thread size_t left __attribute__((tls_model("initial-exec"))) = FIRST;
	uintptr_t begin;
	void *block;

	if (bytes <= left) {
		left -= bytes;
		return;
	}
	block = malloc(STEP);
	if (!block)
		return;
	begin = ((uintptr_t)block + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	/* Before Linux 5.14 the pages come when they are touched. */
	madvise((void *)begin, STEP - PAGE, MADV_POPULATE_WRITE);
	free(block);
	left = STEP - PAGE;
}

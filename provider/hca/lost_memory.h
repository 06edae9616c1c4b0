/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory that a program takes away while it is registered: it unmaps or protects it, or truncates
 * the file behind it. Nothing is pinned, and to ask before each copy would cost a system call; so a
 * handler of SIGSEGV and SIGBUS answers for the memory when it is missed.
 *
 * A fault counts as that when the thread holds the engine lock and the address is one of a region.
 * Then the handler sees to it that the copy can end, and notes it:
 *
 *	nothing is mapped, or no page of the file	a page is put there until the copy has ended
 *	protected (mprotect)				that page may be read, and written if the
 *							region may, from now on
 *
 * The code that copies asks afterwards (urxe_memory_lost()): what was copied is then thrown away, the
 * region's keys lead nowhere any more, and the request ends as one with a bad key does. A region
 * registered on demand, which is asked about its pages before each copy, keeps its keys: another
 * thread was just between the two. All other faults are the program's.
 *
 * A program with a handler of its own keeps that, and this does nothing; nor in threads that block
 * the signal. What may rightly come after the memory has gone, a repeated read, does not rely on it
 * (urxe_batch_stage_checked()).
 */
#ifndef URXE_HCA_LOST_MEMORY_H
#define URXE_HCA_LOST_MEMORY_H

#include <sys/uio.h>

#include "wire/wire.h"

/* Before the first ordinary region is registered. */
void urxe_lost_memory_watch(void);

/* What a system call could not write to, for whatever reason: a copy would have missed what is not
 * there. Engine lock. */
void urxe_lost_memory_look(const struct iovec *iov, unsigned n);

bool urxe_lost_memory_void(void);
void urxe_lost_memory_forked(void);

/* After a copy from or to a program's memory: was a part of it not there? Once. Engine lock. */
static inline bool urxe_memory_lost(void)
{
	return urxe_wire_payload_lost() && urxe_lost_memory_void();
}

#endif

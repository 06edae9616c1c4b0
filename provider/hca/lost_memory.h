/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory that a program unmaps while it is registered. Nothing is pinned, and to ask before each
 * copy would cost a system call; so a handler of SIGSEGV answers for the memory when it is missed.
 *
 * A fault counts as that when the thread holds the engine lock and the address is one of an
 * ordinary region in which nothing is mapped. Then the handler puts a page of zeros there, so that
 * the copy can end, and notes it. Whoever copies asks afterwards (urxe_memory_lost()): what was
 * copied is then thrown away, the region's keys lead nowhere any more, and the request ends as one
 * with a bad key does. The page stays: to take it away again could hit what the program has put in
 * its place. All other faults are the program's.
 *
 * A program with a handler of its own keeps that, and this does nothing.
 */
#ifndef URXE_HCA_LOST_MEMORY_H
#define URXE_HCA_LOST_MEMORY_H

#include "wire/wire.h"

/* Before the first ordinary region is registered. */
void urxe_lost_memory_watch(void);

bool urxe_lost_memory_void(void);

/* After a copy from or to a program's memory: was a part of it not there? Once. Engine lock. */
static inline bool urxe_memory_lost(void)
{
	return urxe_wire_payload_lost() && urxe_lost_memory_void();
}

#endif

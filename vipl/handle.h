/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Handles: numbers that a program may keep, compare and misuse. A handle is looked up in a table
 * without touching what it might point to, so that a stale or foreign one, or any other number, is
 * just not found:
 *
 *	63 … 20   generation, never 0
 *	19 … 16   kind
 *	15 …  0   index into the table
 *
 * Objects behind handles are never given back to the system but used again (object.h): a thread
 * that has looked one up while another destroys it finds a closed object and not a hole. After
 * fork() the child has an empty table: its parent's objects are not its own.
 *
 * Any thread; lookups take no lock.
 */
#ifndef VIPL_HANDLE_H
#define VIPL_HANDLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "vipl/branch.h"

enum vipl_kind {
	VIPL_KIND_NIC = 1,
	VIPL_KIND_VI,
	VIPL_KIND_CQ,
	VIPL_KIND_PTAG,
	VIPL_KIND_CONN,
};

#define VIPL_HANDLES (1u << 16)

struct vipl_handle_entry {
	_Atomic uint64_t handle; /* 0: free */
	_Atomic(void *) object;
};

extern struct vipl_handle_entry vipl_handle_table[VIPL_HANDLES];

/* A handle for an object; NULL: there are as many as may be. */
void *vipl_handle_create(enum vipl_kind kind, void *object);
void vipl_handle_destroy(void *handle);

static inline void *vipl_handle_lookup(const void *handle, enum vipl_kind kind)
{
	uint64_t value = (uintptr_t)handle;
	struct vipl_handle_entry *entry = &vipl_handle_table[value % VIPL_HANDLES];
	void *object = atomic_load_explicit(&entry->object, memory_order_acquire);

	/*
	 * A free entry has no kind. The object is older than the handle that the caller has; who
	 * sees one that the entry has been given since sees the end of the handle as well.
	 */
	if (vipl_unlikely(atomic_load_explicit(&entry->handle, memory_order_acquire) != value ||
			  (value >> 16 & 0xf) != kind))
		return NULL;
	if (!object)
		__builtin_unreachable(); /* the compiler is to know that there is one */
	return object;
}

#endif

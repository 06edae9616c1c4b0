/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The registration table: each key with its memory, protection domain and rights. It implements two
 * steps of "A memory pool management method and system for RDMA networks": permission match (may
 * this key access this range) and address translation (where is it).
 *
 * Position-independent: a table is one run of memory with offsets and no pointers, so that it can
 * lie in shared memory and be read by peers. One writer at a time, in one process, which the caller
 * ensures. Readers take no lock, never wait for the writer and see a consistent row (two versions
 * and a sequence number for each row), also if the writer died in the middle of a change.
 */
#ifndef MEMPOOL_TABLE_H
#define MEMPOOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mempool/mempool.h" /* rights and verdicts */

enum mempool_kind {
	MEMPOOL_REGION = 1, /* memory region: L_Key and R_Key */
	MEMPOOL_WINDOW_1,   /* memory window type 1: R_Key, any QP of the PD */
	MEMPOOL_WINDOW_2,   /* memory window type 2B: R_Key, one QP */
};

/* One registration. */
struct mempool_row {
	uint64_t iova;	 /* first address as requests name it (0 when zero-based) */
	uint64_t length; /* bytes; 0 is a valid, empty region; iova + length ≤ 2^64 */
	uint64_t va;	 /* where iova lies in the owner's memory */
	uint32_t key;	 /* (24-bit index << 8) | consumer's byte */
	uint32_t pd;	 /* protection domain */
	uint32_t access; /* enum rmempool_access */
	uint32_t qpn;	 /* MEMPOOL_WINDOW_2: the QP it is bound to */
	uint32_t parent; /* windows: key of the region it is bound to */
	enum mempool_kind kind;
	uint32_t object; /* the file that contains va, as the owner numbers them; 0: not shown */
	uint32_t unused; /* no padding: rows are compared as memory */
};

struct mempool_table;

/*
 * Makes a table for up to max_rows registrations in ordinary memory; -ENOMEM. max_rows: 1 … 2^22.
 * Memory grows with use, not with max_rows (address space is reserved, pages come when touched).
 */
int mempool_table_create(unsigned max_rows, struct mempool_table **table);
void mempool_table_destroy(struct mempool_table *table);

/*
 * The same in the caller's memory, for tables that other processes map: mempool_table_bytes()
 * bytes, all zero (as a new file in shared memory is), aligned to 64. mempool_table_destroy() is
 * only for tables made by mempool_table_create(). Processes may map the table at different
 * addresses, readers also read-only. 0, or -EINVAL for a max_rows out of range.
 */
size_t mempool_table_bytes(unsigned max_rows);
int mempool_table_init(void *memory, unsigned max_rows, struct mempool_table **table);
/*
 * Checks a table that another process wrote into that many bytes: that it is one for max_rows, and
 * that all of its references stay within it.
 */
bool mempool_table_valid(const struct mempool_table *table, unsigned max_rows, size_t bytes);

/*
 * Adds a row under row->key. -EEXIST its upper 24 bits are in use, -ENOSPC full, -EINVAL (kind, a
 * range beyond 2^64, rights of 2^28 or more).
 */
int mempool_table_add(struct mempool_table *table, const struct mempool_row *row);
/*
 * Replaces the row of old_key, atomically for readers, by *row (whose key may differ). -ENOENT,
 * -EEXIST the upper 24 bits of the new key belong to another row, -EINVAL as above.
 */
int mempool_table_replace(struct mempool_table *table, uint32_t old_key,
			  const struct mempool_row *row);
/* Removes a row; -ENOENT. A reader that found it before may still be copying: the caller waits. */
int mempool_table_remove(struct mempool_table *table, uint32_t key);
/* Copies the row of a key; -ENOENT, and *row is undefined. */
int mempool_table_get(const struct mempool_table *table, uint32_t key, struct mempool_row *row);
unsigned mempool_table_count(const struct mempool_table *table);

/*
 * Permission match and address translation at once: may a request of protection domain pd (and, for
 * type 2 windows, QP qpn) with all of rights access [addr, addr + length) by key, and at which
 * address of the owner does that lie (*va)? Length 0 accesses no memory and is RMEMPOOL_OK with any
 * key and *va 0 (IBTA vol. 1, 9.4.3 and 10.6.6: R_Key is not checked for zero-length operations).
 * The checks are made in the order of enum rmempool_verdict. Lock-free, never waits for a writer,
 * any thread. remote: windows are accepted; otherwise only regions are (an L_Key).
 */
enum rmempool_verdict mempool_table_match(const struct mempool_table *table, uint32_t key,
					  uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t length,
					  uint32_t rights, bool remote, uint64_t *va);
/* The same; with RMEMPOOL_OK also the object of the row, 0 for length 0. */
enum rmempool_verdict mempool_table_match_object(const struct mempool_table *table, uint32_t key,
						 uint32_t pd, uint32_t qpn, uint64_t addr,
						 uint64_t length, uint32_t rights, bool remote,
						 uint64_t *va, uint32_t *object);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table: entries by key, read under RCU.
 *
 *	slots (grows by two)		arena (reserved once, touched as it fills)
 *	┌──────────┬─────────┐		┌─────────────────────────────┐
 *	│ hash: 32 │ i+1: 32 │ ───────►	│ entry i: 96 bytes	      │
 *	├──────────┼─────────┤		├─────────────────────────────┤
 *	│	0, free	     │		│ …			      │
 *	└──────────┴─────────┘		└─────────────────────────────┘
 *
 * Open addressing with linear probing, 5/16 to 3/4 full: 11 to 26 bytes an entry, and a lookup
 * touches one line of slots and the two of its entry. An entry holds the record as the SA sent it,
 * of which the GIDs and LIDs are at the same time the key; the rest of the key stands behind it.
 *
 * Readers hold sa_rcu_read_lock() and nothing else. A published entry does not change, but for its
 * atomics: a change is a new entry in the old one's slot. Writers are serialized by the caller. What
 * they take out is reused after a grace period, which is waited for once in SA_RETIRED changes.
 */
#ifndef SACACHE_TABLE_H
#define SACACHE_TABLE_H

#include <stdatomic.h>

#include "libsacache/record.h"

#define SA_RETIRED 1024

enum sa_entry_kind { SA_ENTRY_PATH, SA_ENTRY_FAILURE };

struct sa_entry {
	uint8_t record[SA_RECORD_SIZE];
	uint64_t service_id;
	uint16_t mask;
	uint16_t pkey;
	uint16_t qos_class;
	uint8_t sl;
	uint8_t tclass;
	uint8_t port;
	uint8_t kind;
	int8_t error;		     /* of a failure: negative errno */
	bool live;		     /* writers only: in use, and not waiting for readers */
	_Atomic uint32_t generation; /* of its port's SM when the SA was asked */
	_Atomic uint32_t state;	     /* failures counted << 8 | enum sacache_entry_flags */
	_Atomic uint32_t since; /* ms: the last counted failure; of a failure: when it is over */
};
_Static_assert(sizeof(struct sa_entry) == 96, "one and a half lines");

struct sa_slots {
	uint32_t mask;
	_Atomic uint64_t slot[];
};

struct sa_table {
	struct sa_slots *_Atomic slots;
	struct sa_entry *arena;
	uint64_t seed;
	/* Writers only. */
	uint32_t max_entries;
	uint32_t touched; /* entries of the arena that were ever used */
	uint32_t entries;
	uint32_t used; /* slots that are not empty, deleted ones included */
	uint32_t free; /* list of free entries, index + 1 */
	uint32_t hand; /* where the next to make room is looked for */
	uint32_t retired;
	uint32_t retiring[SA_RETIRED];
};

int sa_table_init(struct sa_table *table, uint32_t max_entries, uint64_t seed);
void sa_table_destroy(struct sa_table *table);

uint64_t sa_key_hash(const struct sacache_key *key, uint64_t seed);
/* Under sa_rcu_read_lock() or the writers' lock; NULL: no such key. */
struct sa_entry *sa_table_find(struct sa_table *table, const struct sacache_key *key);
/*
 * Adds an entry or replaces that of the key; its atomics come with it. *evicted tells whether another
 * made room. -ENOMEM.
 */
int sa_table_put(struct sa_table *table, const struct sacache_key *key,
		 const struct sa_entry *entry, bool *evicted);
void sa_table_remove(struct sa_table *table, struct sa_entry *entry);
/* The next entry in use from index *at on, which it advances; NULL: no more. */
struct sa_entry *sa_table_next(struct sa_table *table, uint32_t *at);
/* The memory that entries and slots take. */
uint64_t sa_table_bytes(const struct sa_table *table);

/* A key and the entry that stands for it. */
void sa_entry_key(const struct sa_entry *entry, struct sacache_key *key);
void sa_entry_init(struct sa_entry *entry, const struct sacache_key *key,
		   const uint8_t record[SA_RECORD_SIZE]);

#endif

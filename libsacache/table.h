/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table: entries by key, read under RCU.
 *
 *	slots (grows by two)	entries			rarely used fields
 *	┌─────────┬─────────┐	┌───────────────────┐	┌───────────────────┐
 *	│ hash: 7 │ i+1: 25 │──►│ entry i: 64 bytes │	│ more i: 32 bytes  │
 *	├─────────┼─────────┤	├───────────────────┤	├───────────────────┤
 *	│      0, free	    │	│ …		    │	│ …		    │
 *	└─────────┴─────────┘	└───────────────────┘	└───────────────────┘
 *				  both reserved once, touched as they fill
 *
 * The cost of a lookup is mostly cache misses. So it touches two lines, one of slots and that of
 * its entry, and both arrays are small: with 50,000 entries they take 3.4 MB. An entry is the
 * record as the SA sent it, most of which is also the key; the place of its service ID, which is 0
 * in nearly all records, holds the entry's state. Further fields are in `more`. Slots are 5/16 to
 * 13/16 full (open addressing, linear probing).
 *
 * Writers find all entries that lead to a GID by chains through `more`, from an array with an
 * element for four slots; and whether any begins at a GID by the number of entries with that hash
 * of the source. In total an entry takes 102 to 112 bytes.
 *
 * Readers hold only sa_rcu_read_lock(). A published entry does not change, except for its atomics:
 * a change is a new entry in the old one's slot. Writers are serialized by the caller. Removed
 * entries are reused after a grace period, which is waited for once in SA_RETIRED changes.
 */
#ifndef SACACHE_TABLE_H
#define SACACHE_TABLE_H

#include <stdatomic.h>

#include "libsacache/record.h"

#define SA_RETIRED 1024
#define SA_SOURCES 256

enum sa_entry_kind { SA_ENTRY_PATH, SA_ENTRY_FAILURE };

/* One line of a cache. */
struct sa_entry {
	union {
		struct {
			uint16_t mask : 9; /* of the key */
			uint16_t port : 4;
			uint16_t kind : 1;    /* enum sa_entry_kind */
			uint16_t special : 1; /* its sa_more has a part of the key or the record */
			_Atomic uint16_t
				state; /* failures counted << 8 | enum sacache_entry_flags */
			_Atomic uint32_t generation; /* of its port's SM when the SA was queried */
		};
		uint8_t record[SA_RECORD_SIZE]; /* from byte 8 on */
	};
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct sa_entry) == 64, "one line");

struct sa_more {
	uint64_t service_id; /* of the key */
	uint64_t record_service_id;
	uint16_t qos_class;
	uint8_t tclass;
	int8_t error;		/* of a failure: negative errno */
	bool live;		/* writers only: in use, and not waiting for readers */
	_Atomic uint32_t since; /* ms: the last counted failure; of a failure: when it expires */
	uint32_t
		next; /* writers only: the next entry whose destination has the same hash, index + 1 */
};
_Static_assert(sizeof(struct sa_more) == 32, "half a line");

/* An entry's state beside its key and record. */
struct sa_mark {
	uint32_t generation;
	uint32_t since;
	uint16_t state;
	int8_t error; /* of a failure */
};

struct sa_slots {
	uint32_t mask;
	_Atomic uint32_t slot[];
};

struct sa_table {
	struct sa_slots *_Atomic slots;
	struct sa_entry *entry;
	struct sa_more *more;
	uint64_t seed;
	/* Writers only. */
	uint32_t max_entries;
	uint32_t touched; /* entries that have ever been used */
	uint32_t entries;
	uint32_t used; /* slots that are not empty, including deleted ones */
	uint32_t free; /* list of free entries, index + 1 */
	uint32_t *chains;
	uint32_t chains_mask;
	uint32_t sources[SA_SOURCES]; /* entries by the hash of their source */
	uint32_t hand;		      /* where the next eviction starts */
	uint32_t retired;
	uint32_t retiring[SA_RETIRED];
};

int sa_table_init(struct sa_table *table, uint32_t max_entries, uint64_t seed);
void sa_table_destroy(struct sa_table *table);

uint64_t sa_key_hash(const struct sacache_key *key, uint64_t seed);
/* Under sa_rcu_read_lock() or the writers' lock; NULL: no such key. */
struct sa_entry *sa_table_find(struct sa_table *table, const struct sacache_key *key);
/*
 * Adds an entry or replaces that of the key; without a record it is a failure. *evicted tells
 * whether another was evicted. -ENOMEM.
 */
int sa_table_put(struct sa_table *table, const struct sacache_key *key,
		 const uint8_t record[SA_RECORD_SIZE], const struct sa_mark *mark, bool *evicted);
void sa_table_remove(struct sa_table *table, struct sa_entry *entry);
/* The next entry in use from index *at on, which is advanced; NULL: no more. */
struct sa_entry *sa_table_next(struct sa_table *table, uint32_t *at);
/*
 * The first entry that leads to a GID, and the one after another, which must be fetched before that
 * is removed; NULL: no more. Failures are listed by the GID of the query.
 */
struct sa_entry *sa_table_first_to(struct sa_table *table, const uint8_t gid[16]);
struct sa_entry *sa_table_next_to(struct sa_table *table, const struct sa_entry *entry);
/* Whether an entry may begin at a GID: with few false positives. */
bool sa_table_begins_at(const struct sa_table *table, const uint8_t gid[16]);
/* The memory used by entries and slots. */
uint64_t sa_table_bytes(const struct sa_table *table);

static inline struct sa_more *sa_entry_more(const struct sa_table *table,
					    const struct sa_entry *entry)
{
	return &table->more[entry - table->entry];
}

/* The key and record of an entry, on the wire and decoded. */
void sa_entry_key(const struct sa_table *table, const struct sa_entry *entry,
		  struct sacache_key *key);
void sa_entry_record(const struct sa_table *table, const struct sa_entry *entry,
		     uint8_t record[SA_RECORD_SIZE]);
void sa_entry_path(const struct sa_table *table, const struct sa_entry *entry,
		   struct sacache_path *path);

#endif

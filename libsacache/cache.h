/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The cache behind sacache.h: the table, its policy (policy.c), its ports (port.c) and the hosts
 * file (hosts.c).
 *
 * Locks, in this order: a port's lock (port.c), then cache->lock, which serializes all changes of
 * the table. Lookups take neither. No callback runs under a lock, except that of sacache_walk().
 */
#ifndef SACACHE_CACHE_H
#define SACACHE_CACHE_H

#include <pthread.h>

#include "libsacache/port_identity.h"
#include "libsacache/table.h"

/* Counters; those of struct sacache_stats in its order, without the two that describe the table. */
enum sa_count {
	SA_HITS,
	SA_NEGATIVE_HITS,
	SA_QUERY_MISS,
	SA_QUERY_OFF,
	SA_QUERY_SUSPECT,
	SA_QUERY_CHANGED,
	SA_QUERY_TABLE,
	SA_QUERY_PAST,
	SA_COALESCED,
	SA_STORED,
	SA_NOT_STORED,
	SA_CONFIRMED,
	SA_CHANGED,
	SA_FAILURES_COUNTED,
	SA_FAILURES_IGNORED,
	SA_DROPPED,
	SA_EVICTED,
	SA_SENT,
	SA_RETRIED,
	SA_RECEIVED,
	SA_BUSY,
	SA_TIMEOUTS,
	SA_STRAYS,
	SA_MALFORMED,
	SA_FOREIGN,
	SA_NOTICES_GID_IN,
	SA_NOTICES_GID_OUT,
	SA_NOTICES_LINK,
	SA_NOTICES_OTHER,
	SA_NOTICES_REPEATED,
	SA_NOTICES_MALFORMED,
	SA_NOTICES_FORGED,
	SA_SUBSCRIBED,
	SA_REFUSED,
	SA_SM_RESTARTS,
	SA_SM_CHANGES,
	SA_LID_CHANGES,
	SA_REREGISTERS,
	SA_PORT_DOWNS,
	SA_COUNTERS,
};
_Static_assert(sizeof(struct sacache_stats) == (2 + SA_COUNTERS) * sizeof(uint64_t), "same order");

/* Each thread counts in a stripe of its own, or hits would contend for a cache line; the last
 * stripe is shared. */
#define SA_STRIPES 32
struct sa_stripe {
	_Atomic uint64_t count[SA_COUNTERS];
} __attribute__((aligned(64)));

/* A port's subnet. */
struct sa_subnet {
	_Atomic bool caching;
	_Atomic uint32_t generation; /* raised when all records are to be queried again */
	_Atomic uint32_t links;	     /* raised when all remembered failures are to be dropped */
	_Atomic uint64_t outdated;   /* ms: when it was last raised, or the port was opened */
	bool used;		     /* a port has the number, or had it: that one */
	uint8_t gid[16];
};

struct sa_port;
struct sa_hosts;

struct sacache {
	struct sa_table table;
	struct sacache_attr attr;
	struct sa_subnet subnets[SACACHE_MAX_PORTS];
	pthread_mutex_t lock;
	uint64_t (*clock)(void); /* ms */
	struct sa_stripe stripes[SA_STRIPES];
	pthread_mutex_t ports_lock; /* taken before a port's lock */
	struct sa_port *ports[SACACHE_MAX_PORTS];
	pthread_mutex_t hosts_lock;
	struct sa_hosts *hosts;
};

/* -ENODEV: no such port is open. */
int sa_port_identify(struct sacache *cache, unsigned number, struct sa_port_identity *identity);
/* The records that were loaded for that port were valid while its SM had that GUID: if it is
 * another, all are queried again. */
void sa_port_expect_sm(struct sacache *cache, unsigned number, uint64_t guid);

#define SA_INTERNAL_CHANGED \
	(1u << 7) /* beside enum sacache_entry_flags: to be queried again because of a change */

uint64_t sa_clock_ms(void);
void sa_count(struct sacache *cache, enum sa_count what);
uint64_t sa_random_seed(void);

/* sacache_lookup() for a normalized key; *why tells the counter for a query. */
int sa_cache_lookup(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		    enum sa_count *why);
/*
 * Adds a record known from earlier, unless the table has one for that key: 1, 0, -ENOMEM. Under
 * cache->lock.
 */
int sa_cache_restore(struct sacache *cache, const struct sacache_key *key,
		     const uint8_t record[SA_RECORD_SIZE], uint32_t generation, unsigned failures);
/*
 * The same for a path, under a key for each of those masks: the number of records added, -EINVAL (a
 * mask), -ENOMEM. Takes cache->lock.
 */
int sa_cache_restore_path(struct sacache *cache, const struct sacache_path *path, unsigned port,
			  const uint32_t *masks, unsigned nmasks, uint32_t generation);
/*
 * Completes a query for a key that was sent in that generation: status, and if that is 0 the
 * record. Takes cache->lock.
 */
void sa_cache_answer(struct sacache *cache, const struct sacache_key *key, uint32_t generation,
		     int status, const uint8_t record[SA_RECORD_SIZE]);
/*
 * After an event that has all records of a port queried again: how many paths from
 * that GID wait for it, without those whose key has a component of `beyond`; and the
 * highest LID that they lead to.
 */
unsigned sa_cache_unconfirmed(struct sacache *cache, unsigned port, const uint8_t gid[16],
			      uint32_t beyond, uint16_t *highest);
/*
 * The SA has these paths, asked for in that generation: all there are from the port, so they answer
 * the queries for such records, unless several paths would and the record is none of them. Takes
 * cache->lock.
 */
void sa_cache_confirm(struct sacache *cache, unsigned port, uint32_t generation, uint32_t beyond,
		      const uint8_t *records, size_t count, size_t stride);
/* A port's number is assigned. Records of another port are removed; if it is the same one again,
 * the SA has to confirm its records. */
void sa_cache_begin_port(struct sacache *cache, unsigned port, const uint8_t gid[16]);
/* sacache_event() for a GID whose LID is now known: entries that already have it are left
 * unchanged. */
void sa_cache_lid(struct sacache *cache, unsigned port, const uint8_t gid[16], uint16_t lid);

#endif

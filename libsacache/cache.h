/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The cache behind sacache.h: the table, what decides over it (policy.c), its ports (port.c) and
 * the hosts file (hosts.c).
 *
 * Locks, in this order: a port's lock (port.c), then cache->lock, which serializes all changes of
 * the table. Lookups take neither. Nothing is called back under a lock, but for sacache_walk().
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

/* A thread counts in a stripe of its own, or hits would fight for a line; the last is for the rest.
 * */
#define SA_STRIPES 32
struct sa_stripe {
	_Atomic uint64_t count[SA_COUNTERS];
} __attribute__((aligned(64)));

/* What is known of a port's subnet. */
struct sa_subnet {
	_Atomic bool caching;
	_Atomic uint32_t generation; /* grows when all records are to be asked for again */
	_Atomic uint32_t links;	     /* grows when all failures remembered are to be forgotten */
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
/* What was put in for that port was so when its SM had that GUID: all is asked for again if it is
 * another. */
void sa_port_expect_sm(struct sacache *cache, unsigned number, uint64_t guid);

#define SA_INTERNAL_CHANGED \
	(1u << 7) /* beside enum sacache_entry_flags: asked again as it changed */

uint64_t sa_clock_ms(void);
void sa_count(struct sacache *cache, enum sa_count what);
uint64_t sa_random_seed(void);

/* sacache_lookup() for a normalized key; *why says what a query would be counted as. */
int sa_cache_lookup(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		    enum sa_count *why);
/*
 * Puts in what was known earlier, unless the table has a record for that key: 1, 0, -ENOMEM. Under
 * cache->lock.
 */
int sa_cache_restore(struct sacache *cache, const struct sacache_key *key,
		     const uint8_t record[SA_RECORD_SIZE], uint32_t generation, unsigned failures);
/*
 * The same for a path, by what it is found by with each of those masks: how many were put in,
 * -EINVAL (a mask), -ENOMEM. Takes cache->lock.
 */
int sa_cache_restore_path(struct sacache *cache, const struct sacache_path *path, unsigned port,
			  const uint32_t *masks, unsigned nmasks, uint32_t generation);
/*
 * The end of a query for a key that was asked in that generation: status, and if that is 0 the
 * record. Takes cache->lock.
 */
void sa_cache_answer(struct sacache *cache, const struct sacache_key *key, uint32_t generation,
		     int status, const uint8_t record[SA_RECORD_SIZE]);
/* A port's number is taken: by another port than before, perhaps, to which nothing of that one's
 * belongs. */
void sa_cache_begin_port(struct sacache *cache, unsigned port);
/* sacache_event() for a GID that is known to have that LID now: what has it already is left alone.
 * */
void sa_cache_lid(struct sacache *cache, unsigned port, const uint8_t gid[16], uint16_t lid);

#endif

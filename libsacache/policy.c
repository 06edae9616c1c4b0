/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The policy: which lookups the table answers, which records it stores, and how a record changes
 * when a connection fails or the subnet changes. Lookups run in any thread under RCU; all changes
 * of the table hold cache->lock.
 *
 * An entry's life:
 *
 *	answer ──► good ──failure──► suspect ──failures spread by backoff──► asked again
 *		    ▲			│					│
 *		    └── it works ───────┴─────────── the same answer ───────────┘
 *
 * A suspect record is still used: a machine that moves comes back with the same addresses.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/sized.h"
#include "libsacache/cache.h"
#include "libsacache/rcu.h"

#define FAILURES(state) ((state) >> 8)

uint64_t sa_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/*
 * Stripes of counters: a thread has one for itself in all caches and releases it when it ends. If
 * none is free, it shares the last. A locked instruction would make a hit half as long again.
 */
static _Atomic uint32_t stripes_taken;	 /* a bit for each */
static _Thread_local unsigned my_stripe; /* + 1 */
static pthread_key_t stripe_key;
static pthread_once_t stripe_once = PTHREAD_ONCE_INIT;

static void give_stripe(void *stripe)
{
	my_stripe = SA_STRIPES;
	atomic_fetch_and_explicit(&stripes_taken, ~(1u << ((uintptr_t)stripe - 1)),
				  memory_order_release);
}

static void make_stripe_key(void)
{
	/* Without a thread-specific key all threads share the last. */
	if (pthread_key_create(&stripe_key, give_stripe))
		atomic_store(&stripes_taken, UINT32_MAX);
}

static void take_stripe(void)
{
	uint32_t taken;

	pthread_once(&stripe_once, make_stripe_key);
	taken = atomic_load_explicit(&stripes_taken, memory_order_relaxed);
	do {
		my_stripe = taken == UINT32_MAX ? SA_STRIPES : __builtin_ctz(~taken) + 1;
		if (my_stripe >= SA_STRIPES) {
			my_stripe = SA_STRIPES;
			return;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&stripes_taken, &taken, taken | 1u << (my_stripe - 1), memory_order_acquire,
		memory_order_relaxed));
	if (pthread_setspecific(stripe_key, (void *)(uintptr_t)my_stripe))
		give_stripe((void *)(uintptr_t)my_stripe);
}

void sa_count(struct sacache *cache, enum sa_count what)
{
	_Atomic uint64_t *count;

	if (!my_stripe)
		take_stripe();
	count = &cache->stripes[my_stripe - 1].count[what];
	if (my_stripe == SA_STRIPES)
		atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
	else
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
				      memory_order_relaxed);
}

void sacache_stats(struct sacache *cache, struct sacache_stats *stats, size_t size)
{
	struct sacache_stats now;
	uint64_t *out = (uint64_t *)&now + 2;

	for (unsigned i = 0; i < SA_COUNTERS; i++) {
		out[i] = 0;
		for (unsigned s = 0; s < SA_STRIPES; s++)
			out[i] += atomic_load_explicit(&cache->stripes[s].count[i],
						       memory_order_relaxed);
	}
	pthread_mutex_lock(&cache->lock);
	now.entries = cache->table.entries;
	now.bytes = sa_table_bytes(&cache->table);
	pthread_mutex_unlock(&cache->lock);
	copy_out(stats, size, &now, sizeof(now));
}

bool sacache_caching(struct sacache *cache, unsigned port)
{
	switch (cache->attr.policy) {
	case SACACHE_ALWAYS: return true;
	case SACACHE_NEVER: return false;
	default:
		return port < SACACHE_MAX_PORTS &&
		       atomic_load_explicit(&cache->subnets[port].caching, memory_order_relaxed);
	}
}

/* The result of an entry at this moment, in sacache_lookup()'s terms. */
static int judge(struct sacache *cache, struct sa_entry *entry, enum sa_count *why)
{
	uint32_t state = atomic_load_explicit(&entry->state, memory_order_relaxed);

	if (entry->kind == SA_ENTRY_FAILURE) {
		const struct sa_more *more = sa_entry_more(&cache->table, entry);
		uint32_t until = atomic_load_explicit(&more->since, memory_order_relaxed);

		if (atomic_load_explicit(&entry->generation, memory_order_relaxed) !=
		    atomic_load_explicit(&cache->subnets[entry->port].links, memory_order_relaxed))
			return -ENOENT;
		return (int32_t)(until - (uint32_t)cache->clock()) > 0 ? more->error : -ENOENT;
	}
	if (!sacache_caching(cache, entry->port)) {
		*why = SA_QUERY_OFF;
		return -ENOENT;
	}
	if (state & SA_INTERNAL_CHANGED ||
	    atomic_load_explicit(&entry->generation, memory_order_relaxed) !=
		    atomic_load_explicit(&cache->subnets[entry->port].generation,
					 memory_order_relaxed)) {
		*why = SA_QUERY_CHANGED;
		return -ESTALE;
	}
	if (state & SACACHE_ASK_AGAIN) {
		*why = SA_QUERY_SUSPECT;
		return -ESTALE;
	}
	return 0;
}

int sa_cache_lookup(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		    enum sa_count *why)
{
	struct sa_entry *entry;
	int ret = -ENOENT;

	*why = sacache_caching(cache, key->port) ? SA_QUERY_MISS : SA_QUERY_OFF;
	if (cache->attr.policy == SACACHE_NEVER)
		return ret;
	sa_rcu_read_lock();
	entry = sa_table_find(&cache->table, key);
	if (entry) {
		ret = judge(cache, entry, why);
		if (!ret)
			sa_entry_path(&cache->table, entry, path);
	}
	sa_rcu_read_unlock();
	if (!ret)
		sa_count(cache, SA_HITS);
	else if (ret != -ENOENT && ret != -ESTALE)
		sa_count(cache, SA_NEGATIVE_HITS);
	return ret;
}

int sacache_lookup(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path)
{
	struct sacache_key exact;
	enum sa_count why;
	int ret = sa_key_normalize(key, &exact);

	return ret ? ret : sa_cache_lookup(cache, &exact, path, &why);
}

static int put(struct sacache *cache, const struct sacache_key *key, const uint8_t *record,
	       struct sa_mark mark)
{
	bool evicted;
	int ret = sa_table_put(&cache->table, key, record, &mark, &evicted);

	if (evicted)
		sa_count(cache, SA_EVICTED);
	return ret;
}

int sa_cache_restore(struct sacache *cache, const struct sacache_key *key,
		     const uint8_t record[SA_RECORD_SIZE], uint32_t generation, unsigned failures)
{
	const struct sa_entry *old = sa_table_find(&cache->table, key);
	struct sa_mark mark = {.generation = generation};
	int ret;

	if (old && old->kind == SA_ENTRY_PATH)
		return 0;
	if (failures >= cache->attr.suspect_limit)
		failures = cache->attr.suspect_limit - 1;
	if (failures)
		mark.state = failures << 8 | SACACHE_SUSPECT;
	mark.since = (uint32_t)cache->clock();
	ret = put(cache, key, record, mark);
	return ret ? ret : 1;
}

int sa_cache_restore_path(struct sacache *cache, const struct sacache_path *path, unsigned port,
			  const uint32_t *masks, unsigned nmasks, uint32_t generation)
{
	uint8_t record[SA_RECORD_SIZE];
	int ret = 0, count = 0;

	sa_record_encode(path, record);
	pthread_mutex_lock(&cache->lock);
	for (unsigned i = 0; ret >= 0 && i < nmasks; i++) {
		struct sacache_key key;

		ret = sa_key_of_path(path, masks[i], port, &key);
		if (!ret)
			ret = sa_cache_restore(cache, &key, record, generation, 0);
		if (ret > 0)
			count++;
	}
	pthread_mutex_unlock(&cache->lock);
	return ret < 0 ? ret : count;
}

/* One end of a record has that GID, and its LID is that one (0: any), or is not: the record is
 * outdated. */
static void mark_if(struct sa_entry *entry, unsigned port, const uint8_t *has, uint16_t lid,
		    bool other)
{
	if (entry->kind == SA_ENTRY_PATH && entry->port == port &&
	    (!lid || (sa_get16(has) != lid) == other))
		atomic_fetch_or(&entry->state, SACACHE_ASK_AGAIN | SA_INTERNAL_CHANGED);
}

/*
 * Records with that GID at an end. When an SM renumbers the subnet each answer calls this, so the
 * whole table is scanned only for the few GIDs that paths begin at. Under cache->lock.
 */
static void mark_moved(struct sacache *cache, unsigned port, const uint8_t *gid, uint16_t lid,
		       bool other)
{
	struct sa_table *table = &cache->table;
	struct sa_entry *entry = sa_table_first_to(table, gid);
	uint32_t at = 0;

	for (; entry; entry = sa_table_next_to(table, entry))
		mark_if(entry, port, entry->record + 40, lid, other);
	if (!sa_table_begins_at(table, gid))
		return;
	while ((entry = sa_table_next(table, &at)))
		if (!memcmp(entry->record + 24, gid, 16))
			mark_if(entry, port, entry->record + 42, lid, other);
}

static void remember_failure(struct sacache *cache, const struct sacache_key *key, int status)
{
	put(cache, key, NULL,
	    (struct sa_mark){.error = (int8_t)status,
			     .since = (uint32_t)cache->clock() + cache->attr.negative,
			     .generation = atomic_load(&cache->subnets[key->port].links)});
}

/* A query failed. A record that the SA may still confirm is kept; a suspect's count starts anew. */
static void answer_failure(struct sacache *cache, const struct sacache_key *key, int status)
{
	struct sa_entry *old = sa_table_find(&cache->table, key);

	if (old && old->kind == SA_ENTRY_PATH) {
		enum sa_count why;
		int verdict = judge(cache, old, &why);

		if (verdict == -ESTALE && why == SA_QUERY_SUSPECT) {
			atomic_store(&old->state, 1 << 8 | SACACHE_SUSPECT);
			atomic_store(&sa_entry_more(&cache->table, old)->since,
				     (uint32_t)cache->clock());
			return;
		}
		/* After a change the old path is dropped once the SA denies it. */
		if (status != -EHOSTUNREACH)
			return;
		sa_table_remove(&cache->table, old);
	}
	if (cache->attr.negative && cache->attr.policy != SACACHE_NEVER)
		remember_failure(cache, key, status);
}

static void answer_path(struct sacache *cache, const struct sacache_key *key, uint32_t generation,
			const uint8_t *record)
{
	struct sa_entry *old = sa_table_find(&cache->table, key);
	bool store = cache->attr.policy == SACACHE_ALWAYS || sa_record_raised(record);

	if (old && old->kind == SA_ENTRY_PATH) {
		uint8_t had[SA_RECORD_SIZE];

		sa_entry_record(&cache->table, old, had);
		if (sa_record_same(had, record)) {
			atomic_store(&old->state, 0);
			atomic_store(&old->generation, generation);
			sa_count(cache, SA_CONFIRMED);
			return;
		}
		sa_count(cache, SA_CHANGED);
		/* Other records with the LID it had are outdated as well. */
		if (sa_get16(had + 40) != sa_get16(record + 40) && !memcmp(had + 8, record + 8, 16))
			mark_moved(cache, key->port, had + 8, sa_get16(had + 40), false);
	}
	if (!store) {
		if (old)
			sa_table_remove(&cache->table, old);
		sa_count(cache, SA_NOT_STORED);
		return;
	}
	if (!put(cache, key, record, (struct sa_mark){.generation = generation}))
		sa_count(cache, SA_STORED);
}

void sa_cache_answer(struct sacache *cache, const struct sacache_key *key, uint32_t generation,
		     int status, const uint8_t record[SA_RECORD_SIZE])
{
	pthread_mutex_lock(&cache->lock);
	if (status) {
		answer_failure(cache, key, status);
	} else if (cache->attr.policy == SACACHE_NEVER) {
		sa_count(cache, SA_NOT_STORED);
	} else {
		if (sa_record_raised(record))
			atomic_store(&cache->subnets[key->port].caching, true);
		answer_path(cache, key, generation, record);
	}
	pthread_mutex_unlock(&cache->lock);
}

/* From an earlier generation, and nothing else is the matter with it. Under cache->lock. */
static bool unconfirmed(const struct sacache *cache, const struct sa_entry *entry, unsigned port,
			uint32_t beyond)
{
	return entry->kind == SA_ENTRY_PATH && entry->port == port && !(entry->mask & beyond) &&
	       atomic_load(&entry->generation) != atomic_load(&cache->subnets[port].generation) &&
	       !(atomic_load(&entry->state) & (SA_INTERNAL_CHANGED | SACACHE_ASK_AGAIN));
}

unsigned sa_cache_unconfirmed(struct sacache *cache, unsigned port, const uint8_t gid[16],
			      uint32_t beyond, uint16_t *highest)
{
	struct sa_entry *entry;
	unsigned count = 0;
	uint32_t at = 0;

	*highest = 0;
	pthread_mutex_lock(&cache->lock);
	while ((entry = sa_table_next(&cache->table, &at))) {
		if (!unconfirmed(cache, entry, port, beyond) ||
		    memcmp(entry->record + 24, gid, 16) != 0)
			continue;
		count++;
		if (sa_get16(entry->record + 40) > *highest)
			*highest = sa_get16(entry->record + 40);
	}
	pthread_mutex_unlock(&cache->lock);
	return count;
}

static int by_destination(const void *a, const void *b)
{
	return memcmp(*(const uint8_t *const *)a + 8, *(const uint8_t *const *)b + 8, 16);
}

/* Which of these paths the SA would answer an entry's key with: the one that the entry has, else
 * the only one; NULL: it would choose. */
static const uint8_t *answer_for(const struct sacache *cache, const struct sa_entry *entry,
				 const struct sacache_key *key, const uint8_t *const *paths,
				 size_t count)
{
	uint8_t had[SA_RECORD_SIZE];
	const uint8_t *answer = NULL;
	unsigned answers = 0;

	sa_entry_record(&cache->table, entry, had);
	for (; count; count--, paths++) {
		if (sa_record_same(had, *paths))
			return *paths;
		if (memcmp(had + 24, *paths + 24, 16) != 0 || !sa_record_answers(*paths, key))
			continue;
		answer = *paths;
		answers++;
	}
	return answers == 1 ? answer : NULL;
}

/* These paths lead to one GID. Under cache->lock. */
static void confirm_to(struct sacache *cache, unsigned port, uint32_t generation, uint32_t beyond,
		       const uint8_t *const *paths, size_t count)
{
	struct sa_entry *entry = sa_table_first_to(&cache->table, paths[0] + 8), *next;

	for (; entry; entry = next) {
		struct sacache_key key;
		const uint8_t *answer;

		next = sa_table_next_to(&cache->table, entry);
		if (!unconfirmed(cache, entry, port, beyond))
			continue;
		sa_entry_key(&cache->table, entry, &key);
		answer = answer_for(cache, entry, &key, paths, count);
		if (answer)
			answer_path(cache, &key, generation, answer);
	}
}

void sa_cache_confirm(struct sacache *cache, unsigned port, uint32_t generation, uint32_t beyond,
		      const uint8_t *records, size_t count, size_t stride)
{
	const uint8_t **paths = malloc(count * sizeof(*paths));

	if (!paths)
		return;
	for (size_t i = 0; i < count; i++)
		paths[i] = records + i * stride;
	qsort(paths, count, sizeof(*paths), by_destination);
	pthread_mutex_lock(&cache->lock);
	if (generation != atomic_load(&cache->subnets[port].generation))
		count = 0;
	for (size_t i = 0, n; i < count; i += n) {
		n = 1;
		while (i + n < count && !by_destination(&paths[i], &paths[i + n]))
			n++;
		confirm_to(cache, port, generation, beyond, paths + i, n);
	}
	pthread_mutex_unlock(&cache->lock);
	free(paths);
}

int sacache_store(struct sacache *cache, const struct sacache_key *key,
		  const struct sacache_path *path)
{
	struct sacache_key exact;
	uint8_t record[SA_RECORD_SIZE];
	uint32_t generation;
	int ret = sa_key_normalize(key, &exact);

	if (ret)
		return ret;
	sa_record_encode(path, record);
	if (!sa_record_answers(record, &exact))
		return -EINVAL;
	generation = atomic_load(&cache->subnets[exact.port].generation);
	pthread_mutex_lock(&cache->lock);
	ret = put(cache, &exact, record, (struct sa_mark){.generation = generation});
	if (!ret && sa_record_raised(record))
		atomic_store(&cache->subnets[exact.port].caching, true);
	if (!ret)
		sa_count(cache, SA_STORED);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

/* A failure within the backoff of the one before is not counted. */
static void suspect(struct sacache *cache, struct sa_entry *entry)
{
	struct sa_more *more = sa_entry_more(&cache->table, entry);
	uint32_t now = (uint32_t)cache->clock();
	uint32_t state = atomic_load(&entry->state);
	unsigned failures = FAILURES(state);

	if (failures) {
		uint64_t wait = (uint64_t)cache->attr.suspect_backoff << (failures - 1);

		if (now - atomic_load(&more->since) < (wait > INT32_MAX ? INT32_MAX : wait)) {
			sa_count(cache, SA_FAILURES_IGNORED);
			return;
		}
	}
	if (failures < cache->attr.suspect_limit)
		failures++;
	state = (state & 0xff) | SACACHE_SUSPECT | failures << 8;
	if (failures == cache->attr.suspect_limit)
		state |= SACACHE_ASK_AGAIN;
	atomic_store(&more->since, now);
	atomic_store(&entry->state, state);
	sa_count(cache, SA_FAILURES_COUNTED);
}

static void fail_or_drop(struct sacache *cache, struct sa_entry *entry)
{
	if (cache->attr.drop) {
		sa_table_remove(&cache->table, entry);
		sa_count(cache, SA_DROPPED);
	} else {
		suspect(cache, entry);
	}
}

int sacache_failed(struct sacache *cache, const struct sacache_key *key)
{
	struct sacache_key exact;
	struct sa_entry *entry;
	int ret = sa_key_normalize(key, &exact);

	if (ret)
		return ret;
	pthread_mutex_lock(&cache->lock);
	entry = sa_table_find(&cache->table, &exact);
	if (entry && entry->kind == SA_ENTRY_PATH)
		fail_or_drop(cache, entry);
	else
		ret = -ENOENT;
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

int sacache_connected(struct sacache *cache, const struct sacache_key *key)
{
	struct sacache_key exact;
	struct sa_entry *entry;
	int ret = sa_key_normalize(key, &exact);

	if (ret)
		return ret;
	pthread_mutex_lock(&cache->lock);
	entry = sa_table_find(&cache->table, &exact);
	if (!entry || entry->kind != SA_ENTRY_PATH)
		ret = -ENOENT;
	else if (!(atomic_load(&entry->state) & SA_INTERNAL_CHANGED))
		atomic_store(&entry->state, 0);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

static void gid_event(struct sacache *cache, unsigned port, enum sacache_event event,
		      const uint8_t *gid)
{
	struct sa_entry *entry = sa_table_first_to(&cache->table, gid), *next;

	for (; entry; entry = next) {
		bool failure = entry->kind == SA_ENTRY_FAILURE;

		next = sa_table_next_to(&cache->table, entry);
		if (entry->port != port)
			continue;
		if (event == SACACHE_GID_IN && failure)
			sa_table_remove(&cache->table, entry);
		/* A GID in service is no reason for a query; failures to connect are. */
		if (event == SACACHE_GID_OUT && !failure &&
		    (cache->attr.drop || !(atomic_load(&entry->state) & SACACHE_SUSPECT)))
			fail_or_drop(cache, entry);
	}
}

int sacache_event(struct sacache *cache, unsigned port, enum sacache_event event,
		  const uint8_t gid[16])
{
	if (port >= SACACHE_MAX_PORTS || (event <= SACACHE_LID_CHANGE && !gid) ||
	    event > SACACHE_LINK_CHANGE)
		return -EINVAL;
	pthread_mutex_lock(&cache->lock);
	switch (event) {
	case SACACHE_GID_OUT:
	case SACACHE_GID_IN: gid_event(cache, port, event, gid); break;
	case SACACHE_LID_CHANGE: mark_moved(cache, port, gid, 0, false); break;
	case SACACHE_REREGISTER:
	case SACACHE_NEW_SM:
		atomic_store(&cache->subnets[port].outdated, cache->clock());
		atomic_fetch_add(&cache->subnets[port].generation, 1);
		/* fall through: a path that one SM does not know, another may. */
	case SACACHE_LINK_CHANGE: atomic_fetch_add(&cache->subnets[port].links, 1); break;
	}
	pthread_mutex_unlock(&cache->lock);
	return 0;
}

/*
 * A port with several LIDs is reported by its first one: records of the others are queried again
 * each time, which costs a query and changes nothing.
 */
void sa_cache_lid(struct sacache *cache, unsigned port, const uint8_t gid[16], uint16_t lid)
{
	pthread_mutex_lock(&cache->lock);
	mark_moved(cache, port, gid, lid, true);
	pthread_mutex_unlock(&cache->lock);
}

void sa_cache_begin_port(struct sacache *cache, unsigned port, const uint8_t gid[16])
{
	struct sa_subnet *subnet = &cache->subnets[port];
	struct sa_entry *entry;
	uint32_t at = 0;

	if (subnet->used && !memcmp(subnet->gid, gid, 16)) {
		sacache_event(cache, port, SACACHE_REREGISTER, NULL);
		return;
	}
	subnet->used = true;
	memcpy(subnet->gid, gid, 16);
	pthread_mutex_lock(&cache->lock);
	while ((entry = sa_table_next(&cache->table, &at)))
		if (entry->port == port)
			sa_table_remove(&cache->table, entry);
	atomic_store(&subnet->caching, false);
	atomic_store(&subnet->outdated, cache->clock());
	pthread_mutex_unlock(&cache->lock);
}

int sacache_flush(struct sacache *cache, const uint8_t *gid, uint16_t lid)
{
	struct sa_entry *entry;
	uint32_t at = 0;
	int gone = 0;

	pthread_mutex_lock(&cache->lock);
	while ((entry = sa_table_next(&cache->table, &at))) {
		if ((gid && memcmp(entry->record + 8, gid, 16) != 0) ||
		    (lid && sa_get16(entry->record + 40) != lid))
			continue;
		sa_table_remove(&cache->table, entry);
		gone++;
	}
	pthread_mutex_unlock(&cache->lock);
	return gone;
}

static int visit(struct sacache *cache, struct sa_entry *entry, sacache_visit fn, void *arg)
{
	unsigned flags = atomic_load(&entry->state) & 0x7f;
	struct sacache_key key;
	struct sacache_path path;

	sa_entry_key(&cache->table, entry, &key);
	sa_entry_path(&cache->table, entry, &path);
	if (entry->kind == SA_ENTRY_FAILURE)
		flags |= SACACHE_NEGATIVE;
	else if (atomic_load(&entry->generation) !=
		 atomic_load(&cache->subnets[entry->port].generation))
		flags |= SACACHE_ASK_AGAIN;
	return fn(arg, &key, &path, flags);
}

int sacache_walk(struct sacache *cache, sacache_visit fn, void *arg)
{
	struct sa_entry *entry;
	uint32_t at = 0;
	int ret = 0;

	pthread_mutex_lock(&cache->lock);
	while (!ret && (entry = sa_table_next(&cache->table, &at)))
		ret = visit(cache, entry, fn, arg);
	pthread_mutex_unlock(&cache->lock);
	return ret;
}

unsigned sacache_walk_part(struct sacache *cache, uint32_t *at, unsigned most, sacache_visit fn,
			   void *arg)
{
	struct sa_entry *entry;
	unsigned count = 0;

	pthread_mutex_lock(&cache->lock);
	while (count < most && (entry = sa_table_next(&cache->table, at))) {
		count++;
		if (visit(cache, entry, fn, arg))
			break;
	}
	pthread_mutex_unlock(&cache->lock);
	return count;
}

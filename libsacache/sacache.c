/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Creates and destroys a cache. No other thread has the cache then.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "common/sized.h"
#include "libsacache/cache.h"
#include "libsacache/hosts.h"

static const struct sacache_attr defaults = {
	.size = sizeof(defaults),
	.policy = SACACHE_AUTO,
	.max_entries = 1 << 20,
	.negative = 1000,
	.suspect_limit = 4,
	.suspect_backoff = 500,
	.window = 64,
	.queue = 65536,
	.response_timeout = 1000,
	.retries = 4,
	.max_records = 65536,
};

void sacache_attr_init(struct sacache_attr *attr, size_t size)
{
	copy_defaults(attr, size, &defaults, sizeof(defaults));
}

uint64_t sa_random_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = (uint64_t)time(NULL) << 32 ^ (uintptr_t)&seed;
	return seed | 1;
}

static bool within(uint64_t value, uint64_t least, uint64_t most)
{
	return value >= least && value <= most;
}

static bool attr_valid(const struct sacache_attr *attr)
{
	return attr->policy <= SACACHE_NEVER && within(attr->max_entries, 1, 1 << 24) &&
	       attr->negative <= 3600000 && within(attr->suspect_limit, 1, 15) &&
	       within(attr->suspect_backoff, 1, 3600000) && within(attr->window, 1, 256) &&
	       within(attr->queue, 1, 1 << 20) && within(attr->response_timeout, 10, 60000) &&
	       attr->retries <= 15 && attr->rate <= 1000000 &&
	       within(attr->max_records, 1, 1 << 20) && attr->notices <= 86400000;
}

int sacache_create(const struct sacache_attr *wanted, struct sacache **out)
{
	struct sacache_attr attr = defaults;
	struct sacache *cache;
	int ret;

	ret = wanted ? copy_in(&attr, sizeof(attr), wanted) : 0;
	if (ret)
		return ret;
	if (!attr_valid(&attr))
		return -EINVAL;
	cache = aligned_alloc(64, (sizeof(*cache) + 63) / 64 * 64);
	if (!cache)
		return -ENOMEM;
	memset(cache, 0, sizeof(*cache));
	cache->attr = attr;
	if (!cache->attr.seed)
		cache->attr.seed = sa_random_seed();
	cache->clock = sa_clock_ms;
	ret = sa_table_init(&cache->table, attr.max_entries, cache->attr.seed);
	if (ret) {
		free(cache);
		return ret;
	}
	pthread_mutex_init(&cache->lock, NULL);
	pthread_mutex_init(&cache->ports_lock, NULL);
	pthread_mutex_init(&cache->hosts_lock, NULL);
	*out = cache;
	return 0;
}

void sacache_destroy(struct sacache *cache)
{
	if (!cache)
		return;
	for (unsigned i = 0; i < SACACHE_MAX_PORTS; i++)
		sacache_port_close(cache, i);
	sa_hosts_free(cache->hosts);
	sa_table_destroy(&cache->table);
	pthread_mutex_destroy(&cache->lock);
	pthread_mutex_destroy(&cache->ports_lock);
	pthread_mutex_destroy(&cache->hosts_lock);
	free(cache);
}

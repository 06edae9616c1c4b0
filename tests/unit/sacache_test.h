/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the tests of libsacache share: keys, paths, and a clock that stands until it is moved.
 */
#ifndef SACACHE_TEST_H
#define SACACHE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsacache/cache.h"

static uint64_t test_now = 1000;

static inline uint64_t test_clock(void)
{
	return test_now;
}

static inline uint64_t test_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

static inline void test_gid(uint32_t n, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	sa_put32(gid + 12, n);
}

/* The method's key: the destination's GID, all else wild. */
static inline struct sacache_key test_key(uint32_t n)
{
	struct sacache_key key = {.mask = SACACHE_DGID};

	test_gid(n, key.dgid);
	return key;
}

static inline struct sacache_path test_path(uint32_t n, uint16_t lid, bool raised)
{
	struct sacache_path path = {
		.dlid = lid,
		.slid = 1,
		.pkey = 0xffff,
		.mtu = 5,
		.rate = 3,
		.lifetime = 18,
		.reversible = true,
		.numb_path = 1,
		.reserved = {0, 0, 0, 0, 0, raised},
	};

	test_gid(n, path.dgid);
	test_gid(0, path.sgid);
	return path;
}

static inline struct sacache *test_cache(enum sacache_policy policy, bool drop, uint32_t max)
{
	struct sacache_attr attr;
	struct sacache *cache;

	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = policy;
	attr.drop = drop;
	attr.max_entries = max;
	attr.seed = 7;
	assert_int_equal(sacache_create(&attr, &cache), 0);
	test_now = 1000;
	cache->clock = test_clock;
	return cache;
}

/* The SA answers a key, as it is asked now. */
static inline void test_answer(struct sacache *cache, const struct sacache_key *key,
			       const struct sacache_path *path)
{
	uint8_t record[SA_RECORD_SIZE];

	sa_record_encode(path, record);
	sa_cache_answer(cache, key, atomic_load(&cache->subnets[key->port].generation), 0, record);
}

#endif

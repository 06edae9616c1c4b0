/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Readers of the cache beside writers that replace, remove and add entries and make the table grow.
 * The thread sanitizer watches this program. Threads share the cache and atomics.
 */
#include "sacache_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { PEERS = 4000, ROUNDS = 20 };

static struct sacache *cache;
static _Atomic bool ended;
static _Atomic unsigned wrong, found;

/* Peer n has a LID that fits its source LID, whatever version of the record is seen. */
static struct sacache_path version(unsigned n, unsigned v)
{
	struct sacache_path path = test_path(n, (uint16_t)(n * 7 + v), false);

	path.slid = (uint16_t)(n * 7 + v) ^ 0x5555;
	path.service_id = path.dlid * 0x100010001ull;
	return path;
}

static void *read_all(void *arg)
{
	uint64_t random = (uintptr_t)arg;
	unsigned mistakes = 0, hits = 0;

	while (!atomic_load(&ended)) {
		unsigned n = test_random(&random) % PEERS;
		struct sacache_key key = test_key(n);
		struct sacache_path path;

		/* The first half is never removed. */
		if (sacache_lookup(cache, &key, &path)) {
			mistakes += n < PEERS / 2;
			continue;
		}
		hits++;
		if (path.slid != (path.dlid ^ 0x5555) ||
		    path.service_id != path.dlid * 0x100010001ull ||
		    memcmp(path.dgid, key.dgid, 16) != 0)
			mistakes++;
	}
	atomic_fetch_add(&wrong, mistakes);
	atomic_fetch_add(&found, hits);
	return NULL;
}

static void *write_all(void *arg)
{
	unsigned odd = (uintptr_t)arg;

	for (unsigned v = 0; v < ROUNDS; v++)
		for (unsigned n = odd; n < PEERS; n += 2) {
			struct sacache_key key = test_key(n);
			struct sacache_path path = version(n, v);

			if (n >= PEERS / 2 && v % 2) {
				sacache_failed(cache, &key);
			} else {
				sacache_store(cache, &key, &path);
				if (n < PEERS / 2)
					sacache_connected(cache, &key);
			}
		}
	return NULL;
}

static void run(bool drop)
{
	pthread_t readers[2], writers[2];

	cache = test_cache(SACACHE_ALWAYS, drop, 1 << 16);
	atomic_store(&ended, false);
	atomic_store(&found, 0);
	for (unsigned n = 0; n < PEERS / 2; n++) {
		struct sacache_key key = test_key(n);
		struct sacache_path path = version(n, 0);

		assert_int_equal(sacache_store(cache, &key, &path), 0);
	}
	for (uintptr_t i = 0; i < 2; i++) {
		assert_int_equal(pthread_create(&readers[i], NULL, read_all, (void *)(i + 1)), 0);
		assert_int_equal(pthread_create(&writers[i], NULL, write_all, (void *)i), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&ended, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	assert_int_equal(atomic_load(&wrong), 0);
	assert_true(atomic_load(&found) > 0);
	sacache_destroy(cache);
}

static void readers_see_whole_records_while_they_are_replaced(void **state)
{
	run(false);
}

static void readers_see_whole_records_while_others_are_removed(void **state)
{
	run(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_see_whole_records_while_they_are_replaced),
		cmocka_unit_test(readers_see_whole_records_while_others_are_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

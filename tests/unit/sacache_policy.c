/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The path-record cache by itself: the method's rules as tables, keys, suspicion with its backoff,
 * what empties the cache and what does not, a random run against a simple model, and what an entry
 * costs.
 */
#include "sacache_test.h"

#include <time.h>

/* The method: each row is an answer of the SA, and what it leaves behind. */
static const struct {
	const char *what;
	enum sacache_policy policy;
	bool raised[3]; /* answers, in this order, for peers 1, 2, 3 */
	int found[3];	/* afterwards */
} method[] = {
	{"auto: nothing raised, nothing stored",
	 SACACHE_AUTO,
	 {0, 0, 0},
	 {-ENOENT, -ENOENT, -ENOENT}},
	{"auto: raised is stored from then on", SACACHE_AUTO, {0, 1, 0}, {-ENOENT, 0, -ENOENT}},
	{"auto: 0 does not switch caching off", SACACHE_AUTO, {1, 0, 1}, {0, -ENOENT, 0}},
	{"always: whatever the field", SACACHE_ALWAYS, {0, 1, 0}, {0, 0, 0}},
	{"never: not even when raised", SACACHE_NEVER, {1, 1, 1}, {-ENOENT, -ENOENT, -ENOENT}},
};

static void the_reserved_field_switches_caching_on(void **state)
{
	for (size_t i = 0; i < sizeof(method) / sizeof(method[0]); i++) {
		struct sacache *cache = test_cache(method[i].policy, false, 100);
		struct sacache_path path;

		for (unsigned n = 0; n < 3; n++) {
			struct sacache_key key = test_key(n + 1);
			struct sacache_path answer = test_path(n + 1, n + 10, method[i].raised[n]);

			assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
			test_answer(cache, &key, &answer);
		}
		for (unsigned n = 0; n < 3; n++) {
			struct sacache_key key = test_key(n + 1);
			int ret = sacache_lookup(cache, &key, &path);

			if (ret != method[i].found[n])
				fail_msg("%s: peer %u: %d", method[i].what, n + 1, ret);
			if (!ret)
				assert_int_equal(path.dlid, n + 10);
		}
		sacache_destroy(cache);
	}
}

static void caching_is_switched_on_for_each_subnet(void **state)
{
	struct sacache *cache = test_cache(SACACHE_AUTO, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, true);

	test_answer(cache, &key, &path);
	assert_true(sacache_caching(cache, 0));
	assert_false(sacache_caching(cache, 1));
	key.port = 1;
	assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
	sacache_destroy(cache);
}

/* Each changes one component of a key; all must be told apart, wildcards included. */
static const struct sacache_key variants[] = {
	{.mask = SACACHE_DGID},
	{.mask = SACACHE_DGID, .port = 1},
	{.mask = SACACHE_DGID | SACACHE_SGID},
	{.mask = SACACHE_DGID | SACACHE_SGID, .sgid = {1}},
	{.mask = SACACHE_DGID, .dgid = {1}},
	{.mask = SACACHE_DLID},
	{.mask = SACACHE_DLID, .dlid = 7},
	{.mask = SACACHE_DLID | SACACHE_SLID},
	{.mask = SACACHE_DLID | SACACHE_SLID, .slid = 7},
	{.mask = SACACHE_DGID | SACACHE_PKEY},
	{.mask = SACACHE_DGID | SACACHE_PKEY, .pkey = 7},
	{.mask = SACACHE_DGID | SACACHE_SL},
	{.mask = SACACHE_DGID | SACACHE_SL, .sl = 7},
	{.mask = SACACHE_DGID | SACACHE_TCLASS},
	{.mask = SACACHE_DGID | SACACHE_TCLASS, .tclass = 7},
	{.mask = SACACHE_DGID | SACACHE_SERVICE_ID},
	{.mask = SACACHE_DGID | SACACHE_SERVICE_ID, .service_id = 7},
	{.mask = SACACHE_DGID | SACACHE_QOS_CLASS},
	{.mask = SACACHE_DGID | SACACHE_QOS_CLASS, .qos_class = 7},
};

static struct sacache_path path_of(const struct sacache_key *key)
{
	struct sacache_path path = {
		.dlid = key->dlid, .slid = key->slid, .pkey = key->pkey, .sl = key->sl};

	memcpy(path.dgid, key->dgid, 16);
	memcpy(path.sgid, key->sgid, 16);
	return path;
}

static void keys_are_told_apart_by_every_component(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	const unsigned count = sizeof(variants) / sizeof(variants[0]);

	for (unsigned i = 0; i < count; i++) {
		struct sacache_path path = path_of(&variants[i]);

		path.preference = i;
		assert_int_equal(sacache_store(cache, &variants[i], &path), 0);
	}
	for (unsigned i = 0; i < count; i++) {
		struct sacache_key key = variants[i];
		struct sacache_path path;

		/* What the mask leaves out does not count. */
		if (!(key.mask & SACACHE_SLID))
			key.slid = 99;
		if (!(key.mask & SACACHE_SL))
			key.sl = 9;
		assert_int_equal(sacache_lookup(cache, &key, &path), 0);
		assert_int_equal(path.preference, i);
	}
	sacache_destroy(cache);
}

static void a_record_that_answers_another_key_is_refused(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(2, 10, true);

	assert_int_equal(sacache_store(cache, &key, &path), -EINVAL);
	key.mask = SACACHE_SGID;
	assert_int_equal(sacache_store(cache, &key, &path), -EINVAL);
	assert_int_equal(sacache_lookup(cache, &key, &path), -EINVAL);
	key = test_key(1);
	key.mask |= 1 << 20;
	assert_int_equal(sacache_lookup(cache, &key, &path), -EINVAL);
	key = test_key(1);
	key.port = SACACHE_MAX_PORTS;
	assert_int_equal(sacache_lookup(cache, &key, &path), -EINVAL);
	sacache_destroy(cache);
}

/* Failures at these times, with a limit of 4 and a backoff of 500 ms; the fourth that counts asks
 * again. */
static const struct {
	unsigned at;
	bool counts;
} failures[] = {
	{0, true},     {10, false},  {499, false},  {500, true},   {1000, false},
	{1499, false}, {1500, true}, {3000, false}, {3499, false}, {3500, true},
};

static void failures_spread_by_backoff_have_a_record_asked_for_again(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, false), found;
	const unsigned count = sizeof(failures) / sizeof(failures[0]);
	struct sacache_stats stats;
	unsigned counted = 0;
	enum sa_count why;

	assert_int_equal(sacache_failed(cache, &key), -ENOENT);
	test_answer(cache, &key, &path);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(sacache_lookup(cache, &key, &found), 0);
		test_now = 1000 + failures[i].at;
		assert_int_equal(sacache_failed(cache, &key), 0);
		counted += failures[i].counts;
		sacache_stats(cache, &stats, sizeof(stats));
		assert_int_equal(stats.failures_counted, counted);
		assert_int_equal(stats.failures_ignored, i + 1 - counted);
	}
	assert_int_equal(sacache_lookup(cache, &key, &found), -ESTALE);
	assert_int_equal(sa_cache_lookup(cache, &key, &found, &why), -ESTALE);
	assert_int_equal(why, SA_QUERY_SUSPECT);
	/* The SA says the same: all is well. */
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.confirmed, 1);
	sacache_destroy(cache);
}

static void a_connection_that_works_ends_the_suspicion(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, false);

	assert_int_equal(sacache_connected(cache, &key), -ENOENT);
	test_answer(cache, &key, &path);
	for (unsigned i = 0; i < 20; i++) {
		test_now += 100000;
		assert_int_equal(sacache_failed(cache, &key), 0);
		assert_int_equal(sacache_connected(cache, &key), 0);
		assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	}
	sacache_destroy(cache);
}

static void drop_forgets_at_the_first_failure(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, true, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, false);
	struct sacache_stats stats;

	test_answer(cache, &key, &path);
	assert_int_equal(sacache_failed(cache, &key), 0);
	assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.dropped, 1);
	assert_int_equal(stats.entries, 0);
	sacache_destroy(cache);
}

/* Events in the subnet, and what a lookup says afterwards for the GID itself and for another one.
 * */
static const struct {
	enum sacache_event event;
	bool drop;
	int same, other;
} events[] = {
	{SACACHE_GID_OUT, false, 0, 0},
	{SACACHE_GID_OUT, true, -ENOENT, 0},
	{SACACHE_GID_IN, false, 0, 0},
	{SACACHE_LID_CHANGE, false, -ESTALE, 0},
	{SACACHE_LID_CHANGE, true, -ESTALE, 0},
	{SACACHE_NEW_SM, false, -ESTALE, -ESTALE},
	{SACACHE_REREGISTER, false, -ESTALE, -ESTALE},
	{SACACHE_LINK_CHANGE, false, 0, 0},
	{SACACHE_LINK_CHANGE, true, 0, 0},
};

static void only_real_changes_have_records_asked_for_again(void **state)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct sacache *cache = test_cache(SACACHE_ALWAYS, events[i].drop, 100);
		struct sacache_key key = test_key(1), other = test_key(2);
		struct sacache_path path = test_path(1, 10, false), next = test_path(2, 11, false);
		struct sacache_path found;

		test_answer(cache, &key, &path);
		test_answer(cache, &other, &next);
		assert_int_equal(sacache_event(cache, 1, events[i].event, key.dgid), 0);
		assert_int_equal(sacache_lookup(cache, &key, &found), 0);
		assert_int_equal(sacache_event(cache, 0, events[i].event, key.dgid), 0);
		assert_int_equal(sacache_lookup(cache, &key, &found), events[i].same);
		assert_int_equal(sacache_lookup(cache, &other, &found), events[i].other);
		/* Once asked again, each is good. */
		test_answer(cache, &key, &path);
		test_answer(cache, &other, &next);
		assert_int_equal(sacache_lookup(cache, &key, &found), 0);
		assert_int_equal(sacache_lookup(cache, &other, &found), 0);
		sacache_destroy(cache);
	}
}

/* Trap 65 is no failure to connect: however often it comes, nobody is asked. */
static void a_gid_that_comes_and_goes_is_suspect_and_not_asked_for(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, false), found;
	struct sacache_stats stats;

	test_answer(cache, &key, &path);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(sacache_event(cache, 0, SACACHE_GID_OUT, key.dgid), 0);
		test_now += 100000;
		assert_int_equal(sacache_event(cache, 0, SACACHE_GID_IN, key.dgid), 0);
		assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	}
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.failures_counted, 1);
	/* Failures to connect still are. */
	for (unsigned i = 0; i < 3; i++) {
		test_now += 100000;
		assert_int_equal(sacache_failed(cache, &key), 0);
	}
	assert_int_equal(sacache_lookup(cache, &key, &found), -ESTALE);
	sacache_destroy(cache);
}

/* As the notice of a port's local change tells. */
static void a_lid_that_is_told_doubts_records_with_another_one(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1), other = test_key(2);
	struct sacache_path path = test_path(1, 10, false), next = test_path(2, 11, false), found;

	test_answer(cache, &key, &path);
	test_answer(cache, &other, &next);
	sa_cache_lid(cache, 0, key.dgid, 10);
	sa_cache_lid(cache, 1, key.dgid, 12);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	sa_cache_lid(cache, 0, key.dgid, 12);
	assert_int_equal(sacache_lookup(cache, &key, &found), -ESTALE);
	assert_int_equal(sacache_lookup(cache, &other, &found), 0);
	/* A connection that works by chance does not end that. */
	assert_int_equal(sacache_connected(cache, &key), 0);
	assert_int_equal(sacache_lookup(cache, &key, &found), -ESTALE);
	/* It is an end of both paths. */
	sa_cache_lid(cache, 0, path.sgid, 9);
	assert_int_equal(sacache_lookup(cache, &other, &found), -ESTALE);
	sacache_destroy(cache);
}

static void another_lid_in_an_answer_doubts_all_records_with_the_old_one(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1), narrow = test_key(1), other = test_key(2);
	struct sacache_path path = test_path(1, 10, false), next = test_path(2, 11, false), found;
	enum sa_count why;

	narrow.mask |= SACACHE_PKEY;
	narrow.pkey = 0x7fff;
	test_answer(cache, &key, &path);
	test_answer(cache, &narrow, &path);
	test_answer(cache, &other, &next);
	path.dlid = 20;
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	assert_int_equal(found.dlid, 20);
	assert_int_equal(sa_cache_lookup(cache, &narrow, &found, &why), -ESTALE);
	assert_int_equal(why, SA_QUERY_CHANGED);
	/* Not even a connection that works by chance makes it good. */
	assert_int_equal(sacache_connected(cache, &narrow), 0);
	assert_int_equal(sacache_lookup(cache, &narrow, &found), -ESTALE);
	assert_int_equal(sacache_lookup(cache, &other, &found), 0);
	sacache_destroy(cache);
}

static void an_answer_that_is_not_to_be_stored_takes_a_differing_record_along(void **state)
{
	struct sacache *cache = test_cache(SACACHE_AUTO, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, true), found;

	test_answer(cache, &key, &path);
	path.reserved[5] = 0;
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	path.dlid = 11;
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_lookup(cache, &key, &found), -ENOENT);
	assert_true(sacache_caching(cache, 0));
	sacache_destroy(cache);
}

static void failures_are_remembered_briefly(void **state)
{
	struct sacache *cache = test_cache(SACACHE_AUTO, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, true), found;

	sa_cache_answer(cache, &key, 0, -EHOSTUNREACH, NULL);
	assert_int_equal(sacache_lookup(cache, &key, &found), -EHOSTUNREACH);
	test_now += 999;
	assert_int_equal(sacache_lookup(cache, &key, &found), -EHOSTUNREACH);
	test_now += 1;
	assert_int_equal(sacache_lookup(cache, &key, &found), -ENOENT);
	sa_cache_answer(cache, &key, 0, -ETIMEDOUT, NULL);
	assert_int_equal(sacache_lookup(cache, &key, &found), -ETIMEDOUT);
	/* The machine is there again. */
	assert_int_equal(sacache_event(cache, 0, SACACHE_GID_IN, key.dgid), 0);
	assert_int_equal(sacache_lookup(cache, &key, &found), -ENOENT);
	sa_cache_answer(cache, &key, 0, -EIO, NULL);
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	sacache_destroy(cache);
}

static void a_link_or_another_sm_may_end_a_failure(void **state)
{
	static const enum sacache_event all[] = {SACACHE_LINK_CHANGE, SACACHE_NEW_SM,
						 SACACHE_REREGISTER};
	struct sacache_key key = test_key(1);
	struct sacache_path found;

	for (unsigned i = 0; i < 3; i++) {
		struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);

		sa_cache_answer(cache, &key, 0, -EHOSTUNREACH, NULL);
		assert_int_equal(sacache_event(cache, 1, all[i], NULL), 0);
		assert_int_equal(sacache_lookup(cache, &key, &found), -EHOSTUNREACH);
		assert_int_equal(sacache_event(cache, 0, all[i], NULL), 0);
		assert_int_equal(sacache_lookup(cache, &key, &found), -ENOENT);
		/* And may not. */
		sa_cache_answer(cache, &key, 0, -EHOSTUNREACH, NULL);
		assert_int_equal(sacache_lookup(cache, &key, &found), -EHOSTUNREACH);
		sacache_destroy(cache);
	}
}

static void a_suspect_survives_an_sa_that_does_not_know_it_for_the_moment(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, false), found;

	test_answer(cache, &key, &path);
	while (!sacache_lookup(cache, &key, &found)) {
		test_now += 60000;
		assert_int_equal(sacache_failed(cache, &key), 0);
	}
	sa_cache_answer(cache, &key, 0, -EHOSTUNREACH, NULL);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	/* After a new SM, on the other hand, its word counts. */
	assert_int_equal(sacache_event(cache, 0, SACACHE_NEW_SM, NULL), 0);
	sa_cache_answer(cache, &key, 1, -ETIMEDOUT, NULL);
	assert_int_equal(sacache_lookup(cache, &key, &found), -ESTALE);
	sa_cache_answer(cache, &key, 1, -EHOSTUNREACH, NULL);
	assert_int_equal(sacache_lookup(cache, &key, &found), -EHOSTUNREACH);
	sacache_destroy(cache);
}

/* An answer to a question from before the change is not good for after it. */
static void an_answer_older_than_a_change_is_asked_for_again(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 10, false);
	uint8_t record[SA_RECORD_SIZE];

	sa_record_encode(&path, record);
	assert_int_equal(sacache_event(cache, 0, SACACHE_REREGISTER, NULL), 0);
	sa_cache_answer(cache, &key, 0, 0, record);
	assert_int_equal(sacache_lookup(cache, &key, &path), -ESTALE);
	sacache_destroy(cache);
}

static int count_flags(void *arg, const struct sacache_key *key, const struct sacache_path *path,
		       unsigned flags)
{
	unsigned *seen = arg;

	assert_int_equal(key->mask, SACACHE_DGID);
	assert_memory_equal(key->dgid, path->dgid, 16);
	seen[0]++;
	seen[1] += !!(flags & SACACHE_SUSPECT);
	seen[2] += !!(flags & SACACHE_NEGATIVE);
	return 0;
}

static void walk_and_flush_see_every_entry(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 100);
	unsigned seen[3] = {0};

	for (unsigned n = 1; n <= 50; n++) {
		struct sacache_key key = test_key(n);
		struct sacache_path path = test_path(n, n % 5 + 1, false);

		test_answer(cache, &key, &path);
		if (n % 10 == 0)
			assert_int_equal(sacache_failed(cache, &key), 0);
		if (n % 25 == 0) {
			assert_int_equal(sacache_flush(cache, key.dgid, 0), 1);
			sa_cache_answer(cache, &key, 0, -EIO, NULL);
		}
	}
	assert_int_equal(sacache_walk(cache, count_flags, seen), 0);
	assert_int_equal(seen[0], 50);
	assert_int_equal(seen[1], 4);
	assert_int_equal(seen[2], 2);
	assert_int_equal(sacache_flush(cache, NULL, 2), 10);
	assert_int_equal(sacache_flush(cache, NULL, 0), 40);
	assert_int_equal(sacache_flush(cache, NULL, 0), 0);
	sacache_destroy(cache);
}

static void a_full_table_makes_room_and_keeps_its_size(void **state)
{
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 1000);
	struct sacache_stats stats;
	unsigned found = 0;

	for (unsigned n = 0; n < 10000; n++) {
		struct sacache_key key = test_key(n);
		struct sacache_path path = test_path(n, 1, false);

		test_answer(cache, &key, &path);
		assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	}
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.entries, 1000);
	assert_int_equal(stats.evicted, 9000);
	for (unsigned n = 0; n < 10000; n++) {
		struct sacache_key key = test_key(n);
		struct sacache_path path;

		found += !sacache_lookup(cache, &key, &path);
	}
	assert_int_equal(found, 1000);
	sacache_destroy(cache);
}

static void a_million_random_changes_agree_with_a_model(void **state)
{
	enum { PEERS = 3000 };
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 1 << 20);
	uint16_t *lids = calloc(PEERS, sizeof(*lids));
	uint64_t random = 42;
	unsigned entries = 0;
	struct sacache_stats stats;

	for (unsigned i = 0; i < 1000000; i++) {
		uint64_t r = test_random(&random);
		unsigned n = r % PEERS;
		struct sacache_key key = test_key(n);
		struct sacache_path path;
		int ret;

		switch (r >> 32 & 3) {
		case 0:
			lids[n] = (r >> 40 & 0xfff) + 1;
			path = test_path(n, lids[n], false);
			assert_int_equal(sacache_store(cache, &key, &path), 0);
			break;
		case 1:
			/* What is in the table is scanned: seldom. */
			if ((r >> 40) % 200)
				break;
			assert_int_equal(sacache_flush(cache, key.dgid, 0), !!lids[n]);
			lids[n] = 0;
			break;
		default:
			ret = sacache_lookup(cache, &key, &path);
			assert_int_equal(ret, lids[n] ? 0 : -ENOENT);
			if (!ret)
				assert_int_equal(path.dlid, lids[n]);
		}
	}
	for (unsigned n = 0; n < PEERS; n++)
		entries += !!lids[n];
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.entries, entries);
	free(lids);
	sacache_destroy(cache);
}

static void an_entry_takes_at_most_two_path_records(void **state)
{
	const unsigned lids = 49151; /* unicast LIDs of a subnet */
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 1 << 20);
	struct sacache_stats stats;

	for (unsigned n = 1; n <= lids; n++) {
		struct sacache_key key = test_key(n);
		struct sacache_path path = test_path(n, n, false);

		test_answer(cache, &key, &path);
	}
	sacache_stats(cache, &stats, sizeof(stats));
	assert_int_equal(stats.entries, lids);
	print_message("# %.1f bytes an entry\n", (double)stats.bytes / lids);
	assert_true(stats.bytes <= 2ull * SA_RECORD_SIZE * lids);
	sacache_destroy(cache);
}

/* A program may have been compiled with a shorter structure, or a longer one. */
static void reports_have_the_size_that_the_program_knows(void **state)
{
	struct sacache *cache = test_cache(SACACHE_AUTO, false, 100);
	struct {
		struct sacache_stats known;
		uint64_t more[4];
	} longer, shorter;

	memset(&longer, 0xff, sizeof(longer));
	sacache_stats(cache, &longer.known, sizeof(longer));
	assert_int_equal(longer.known.port_downs, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(longer.more[i], 0);
	memset(&shorter, 0xff, sizeof(shorter));
	sacache_stats(cache, &shorter.known, 2 * sizeof(uint64_t));
	assert_int_equal(shorter.known.entries, 0);
	assert_int_equal(shorter.known.hits, UINT64_MAX);
	sacache_destroy(cache);
}

static void attributes_have_the_size_that_the_program_knows(void **state)
{
	struct {
		struct sacache_attr known;
		uint64_t more;
	} attr;
	struct sacache *cache;

	memset(&attr, 0xff, sizeof(attr));
	sacache_attr_init(&attr.known, offsetof(struct sacache_attr, window));
	assert_int_equal(attr.known.suspect_limit, 4);
	assert_int_equal(attr.known.window, UINT32_MAX);
	assert_int_equal(sacache_create(&attr.known, &cache), 0);
	assert_int_equal(cache->attr.window, 64);
	sacache_destroy(cache);

	sacache_attr_init(&attr.known, sizeof(attr));
	assert_int_equal(attr.known.window, 64);
	assert_int_equal(attr.more, 0);
	assert_int_equal(sacache_create(&attr.known, &cache), 0);
	sacache_destroy(cache);
	attr.more = 1;
	assert_int_equal(sacache_create(&attr.known, &cache), -EINVAL);
}

static void attributes_out_of_range_are_refused(void **state)
{
	struct sacache_attr attr;
	struct sacache *cache;

#define REFUSED(field, value)                                             \
	do {                                                              \
		sacache_attr_init(&attr, sizeof(attr));                   \
		attr.field = value;                                       \
		assert_int_equal(sacache_create(&attr, &cache), -EINVAL); \
	} while (0)
	REFUSED(size, 0);
	REFUSED(policy, 3);
	REFUSED(max_entries, 0);
	REFUSED(max_entries, (1 << 24) + 1);
	REFUSED(suspect_limit, 0);
	REFUSED(suspect_limit, 16);
	REFUSED(suspect_backoff, 0);
	REFUSED(window, 0);
	REFUSED(window, 257);
	REFUSED(queue, 0);
	REFUSED(response_timeout, 9);
	REFUSED(retries, 16);
	REFUSED(max_records, 0);
	REFUSED(notices, 86400001);
	assert_int_equal(sacache_create(NULL, &cache), 0);
	assert_int_equal(sacache_event(cache, 0, SACACHE_GID_OUT, NULL), -EINVAL);
	assert_int_equal(sacache_event(cache, SACACHE_MAX_PORTS, SACACHE_NEW_SM, NULL), -EINVAL);
	assert_int_equal(sacache_port_close(cache, 0), -ENODEV);
	sacache_destroy(cache);
}

static void records_survive_encoding(void **state)
{
	uint64_t random = 3;

	for (unsigned i = 0; i < 10000; i++) {
		uint8_t record[SA_RECORD_SIZE], again[SA_RECORD_SIZE];
		struct sacache_path path;

		for (unsigned b = 0; b < sizeof(record); b++)
			record[b] = test_random(&random) >> 56;
		/* Bits that are reserved, and selectors that say "exactly". */
		record[44] &= 0x8f;
		for (unsigned b = 54; b <= 56; b++)
			record[b] = (record[b] & 0x3f) | 0x80;
		sa_record_decode(record, &path);
		sa_record_encode(&path, again);
		assert_memory_equal(record, again, sizeof(record));
	}
}

/* The chains of a table, against all of it. */
static void expect_chains(struct sa_table *table, unsigned gids)
{
	for (unsigned n = 0; n < gids; n++) {
		unsigned all = 0, found = 0, begin = 0;
		struct sa_entry *entry;
		uint32_t at = 0;
		uint8_t gid[16];

		test_gid(n, gid);
		while ((entry = sa_table_next(table, &at))) {
			all += !memcmp(entry->record + 8, gid, 16) &&
			       (entry->kind == SA_ENTRY_PATH || entry->mask & SACACHE_DGID);
			begin += !memcmp(entry->record + 24, gid, 16);
		}
		for (entry = sa_table_first_to(table, gid); entry;
		     entry = sa_table_next_to(table, entry), found++)
			assert_memory_equal(entry->record + 8, gid, 16);
		assert_int_equal(found, all);
		assert_true(sa_table_begins_at(table, gid) || !begin);
	}
}

static void all_that_leads_to_a_gid_is_found(void **state)
{
	enum { GIDS = 40, CHANGES = 20000 };
	static const uint32_t masks[] = {SACACHE_DGID, SACACHE_DGID | SACACHE_SGID,
					 SACACHE_DLID | SACACHE_SLID, SACACHE_DGID | SACACHE_SL};
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 700);
	uint64_t random = 9;

	for (unsigned i = 0; i < CHANGES; i++) {
		uint64_t r = test_random(&random);
		struct sacache_path path = test_path(r % GIDS, r >> 8 & 0x3ff, true);
		struct sacache_key key;

		test_gid(r >> 32 & 7, path.sgid);
		path.sl = r >> 40 & 0xf;
		assert_int_equal(sa_key_of_path(&path, masks[r >> 48 & 3], 0, &key), 0);
		if (!(r >> 52 & 7))
			sa_cache_answer(cache, &key, 0, -EHOSTUNREACH, NULL);
		else
			test_answer(cache, &key, &path);
		if (!(r >> 55 & 0x7f))
			sacache_flush(cache, path.dgid, 0);
		if (!(i % 500))
			expect_chains(&cache->table, GIDS);
	}
	assert_true(cache->table.entries > 600);
	sacache_flush(cache, NULL, 0);
	expect_chains(&cache->table, GIDS);
	for (unsigned n = 0; n < GIDS; n++) {
		uint8_t gid[16];

		test_gid(n, gid);
		assert_false(sa_table_begins_at(&cache->table, gid));
	}
	sacache_destroy(cache);
}

static uint64_t thread_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The time that it takes to put in two records of each host, whose LIDs begin after first. */
static uint64_t time_of_answers(struct sacache *cache, unsigned hosts, unsigned first)
{
	static const uint32_t masks[] = {SACACHE_DGID, SACACHE_DGID | SACACHE_SGID};
	uint64_t before = thread_time();

	for (unsigned n = 1; n <= hosts; n++) {
		struct sacache_path path = test_path(n, first + n, true);

		for (unsigned i = 0; i < 2; i++) {
			struct sacache_key key;

			assert_int_equal(sa_key_of_path(&path, masks[i], 0, &key), 0);
			test_answer(cache, &key, &path);
		}
	}
	return thread_time() - before;
}

/*
 * An answer with another LID looks for what has the old one: not in all of the table, where that
 * would take hundreds of times as long as the first answers.
 */
static void an_sm_that_numbers_all_anew_does_not_take_long(void **state)
{
	enum { HOSTS = 20000, MOST = 50 };
	struct sacache *cache = test_cache(SACACHE_ALWAYS, false, 1 << 20);
	uint64_t first = time_of_answers(cache, HOSTS, 0);

	assert_in_range(time_of_answers(cache, HOSTS, HOSTS), 0, MOST * first);
	sacache_destroy(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reserved_field_switches_caching_on),
		cmocka_unit_test(caching_is_switched_on_for_each_subnet),
		cmocka_unit_test(keys_are_told_apart_by_every_component),
		cmocka_unit_test(a_record_that_answers_another_key_is_refused),
		cmocka_unit_test(failures_spread_by_backoff_have_a_record_asked_for_again),
		cmocka_unit_test(a_connection_that_works_ends_the_suspicion),
		cmocka_unit_test(drop_forgets_at_the_first_failure),
		cmocka_unit_test(only_real_changes_have_records_asked_for_again),
		cmocka_unit_test(a_gid_that_comes_and_goes_is_suspect_and_not_asked_for),
		cmocka_unit_test(a_lid_that_is_told_doubts_records_with_another_one),
		cmocka_unit_test(another_lid_in_an_answer_doubts_all_records_with_the_old_one),
		cmocka_unit_test(an_answer_that_is_not_to_be_stored_takes_a_differing_record_along),
		cmocka_unit_test(failures_are_remembered_briefly),
		cmocka_unit_test(a_link_or_another_sm_may_end_a_failure),
		cmocka_unit_test(a_suspect_survives_an_sa_that_does_not_know_it_for_the_moment),
		cmocka_unit_test(an_answer_older_than_a_change_is_asked_for_again),
		cmocka_unit_test(walk_and_flush_see_every_entry),
		cmocka_unit_test(a_full_table_makes_room_and_keeps_its_size),
		cmocka_unit_test(a_million_random_changes_agree_with_a_model),
		cmocka_unit_test(an_entry_takes_at_most_two_path_records),
		cmocka_unit_test(all_that_leads_to_a_gid_is_found),
		cmocka_unit_test(an_sm_that_numbers_all_anew_does_not_take_long),
		cmocka_unit_test(reports_have_the_size_that_the_program_knows),
		cmocka_unit_test(attributes_have_the_size_that_the_program_knows),
		cmocka_unit_test(attributes_out_of_range_are_refused),
		cmocka_unit_test(records_survive_encoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

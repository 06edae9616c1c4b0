/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The reconnect procedure: its rules one by one at one end, and two ends over a wire that delays
 * and loses. Time stands until a test moves it; the SA's answers are given by the test
 * (sacache_query() is wrapped by the linker). One thread, but for the answer that comes from
 * another.
 */
#include "sacache_test.h"

#include <pthread.h>

#include "libsacache/reconnect.h"

enum { MIN = 10, MAX = 500, TIMEOUT = 300 };

/* What the SA is asked: the test answers. */
static struct {
	int status;
	bool later;
	struct sacache_path path;
	sacache_done done;
	void *arg;
	unsigned asked;
} sa;

int __wrap_sacache_query(struct sacache *cache, const struct sacache_key *key,
			 struct sacache_path *path, sacache_done done, void *arg);
int __wrap_sacache_query(struct sacache *cache, const struct sacache_key *key,
			 struct sacache_path *path, sacache_done done, void *arg)
{
	sa.asked++;
	sa.done = done;
	sa.arg = arg;
	if (sa.later)
		return -EINPROGRESS;
	*path = sa.path;
	return sa.status;
}

/* One end whose transport does nothing but to remember. */
struct end {
	struct sacache *cache;
	struct sacache_reconnect *set;
	struct sacache_peer *peer;
	int connect_status;
	int resolve_status;
	unsigned resolves, connects, abandons, ups, downs, wakes;
	uint32_t attempt, abandoned;
	uint16_t dlid; /* of the path to connect by, 0: none */
};

static uint64_t end_clock(void *ctx)
{
	return test_now;
}

static void end_wake(void *ctx)
{
	((struct end *)ctx)->wakes++;
}

static int end_connect(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path)
{
	struct end *end = ctx;

	assert_ptr_equal(user, end);
	end->connects++;
	end->attempt = attempt;
	end->dlid = path ? path->dlid : 0;
	return end->connect_status;
}

static int end_resolve(void *ctx, void *user, uint32_t attempt, struct sacache_key *key)
{
	struct end *end = ctx;

	end->resolves++;
	end->attempt = attempt;
	return end->resolve_status;
}

static void end_abandon(void *ctx, void *user, uint32_t attempt)
{
	struct end *end = ctx;

	end->abandons++;
	end->abandoned = attempt;
}

static void end_up(void *ctx, void *user, uint32_t attempt)
{
	((struct end *)ctx)->ups++;
}

static void end_down(void *ctx, void *user, uint32_t attempt, int status)
{
	((struct end *)ctx)->downs++;
}

static const struct sacache_reconnect_ops end_ops = {
	.size = sizeof(end_ops),
	.clock = end_clock,
	.wake = end_wake,
	.connect = end_connect,
	.abandon = end_abandon,
	.up = end_up,
	.down = end_down,
};

static const struct sacache_reconnect_ops resolving_ops = {
	.size = sizeof(resolving_ops),
	.clock = end_clock,
	.wake = end_wake,
	.resolve = end_resolve,
	.connect = end_connect,
	.abandon = end_abandon,
};

static struct sacache_reconnect_attr attr_of(uint64_t seed)
{
	struct sacache_reconnect_attr attr;

	sacache_reconnect_attr_init(&attr, sizeof(attr));
	attr.backoff_min = MIN;
	attr.backoff_max = MAX;
	attr.timeout = TIMEOUT;
	attr.seed = seed;
	return attr;
}

static void end_open(struct end *end, const struct sacache_reconnect_ops *ops,
		     enum sacache_role role, bool cache)
{
	struct sacache_reconnect_attr attr = attr_of(5);
	struct sacache_key key = test_key(1);

	memset(end, 0, sizeof(*end));
	memset(&sa, 0, sizeof(sa));
	sa.path = test_path(1, 17, false);
	test_now = 1000;
	if (cache) {
		end->cache = test_cache(SACACHE_ALWAYS, false, 100);
		test_answer(end->cache, &key, &sa.path);
	}
	assert_int_equal(sacache_reconnect_create(end->cache, &attr, ops, end, &end->set), 0);
	assert_int_equal(sacache_peer_add(end->set, end, role, cache ? &key : NULL, &end->peer), 0);
}

static void end_close(struct end *end)
{
	sacache_reconnect_destroy(end->set);
	sacache_destroy(end->cache);
}

/* To the next deadline, and what is due then. */
static void step(struct end *end)
{
	uint64_t next = sacache_reconnect_deadline(end->set);

	assert_true(next != UINT64_MAX);
	if (next > test_now)
		test_now = next;
	sacache_reconnect_run(end->set);
}

static void bring_up(struct end *end)
{
	while (sacache_peer_state(end->peer) != SACACHE_PEER_CONNECTING)
		step(end);
	assert_int_equal(sacache_peer_connected(end->peer, end->attempt), 0);
}

static void a_client_tries_at_once_and_again_after_failures(void **state)
{
	struct end end;

	end_open(&end, &end_ops, SACACHE_CLIENT, false);
	sacache_reconnect_run(end.set);
	assert_int_equal(end.connects, 1);
	for (unsigned i = 2; i < 20; i++) {
		uint64_t failed = test_now, most = (uint64_t)MIN << (i - 1);

		sacache_peer_failed(end.peer, end.attempt, -ECONNREFUSED);
		assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_WAITING);
		step(&end);
		assert_int_equal(end.connects, i);
		assert_in_range(test_now - failed, MIN, most < MAX ? most : MAX);
	}
	end_close(&end);
}

static void a_server_waits_for_the_first_connection(void **state)
{
	struct end end;
	uint32_t attempt;

	end_open(&end, &end_ops, SACACHE_SERVER, false);
	assert_true(sacache_reconnect_run(end.set) == UINT64_MAX);
	/* Not even when the first one was accepted and came to nothing. */
	assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), 0);
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_IDLE);
	assert_true(sacache_reconnect_deadline(end.set) == UINT64_MAX);
	assert_int_equal(end.abandoned, attempt);
	assert_int_equal(end.connects, 0);
	end_close(&end);
}

static void after_the_first_connection_a_server_tries_too(void **state)
{
	struct end end;
	uint32_t attempt;

	end_open(&end, &end_ops, SACACHE_SERVER, false);
	assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), 0);
	assert_int_equal(sacache_peer_connected(end.peer, attempt), 0);
	assert_int_equal(end.ups, 1);
	sacache_peer_failed(end.peer, attempt, -ECONNRESET);
	assert_int_equal(end.downs, 1);
	assert_int_equal(end.abandoned, attempt);
	step(&end);
	assert_int_equal(end.connects, 1);
	end_close(&end);
}

static void a_request_that_crosses_ones_own_is_rejected(void **state)
{
	struct end end;
	uint32_t attempt;

	end_open(&end, &end_ops, SACACHE_CLIENT, false);
	step(&end);
	assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), -EBUSY);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_CONNECTING);
	assert_int_equal(end.abandons, 0);
	/* The other end has done the same. Now one that comes first is accepted. */
	sacache_peer_failed(end.peer, end.attempt, -EBUSY);
	assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), 0);
	assert_int_equal(sacache_peer_connected(end.peer, attempt), 0);
	end_close(&end);
}

static void a_request_to_an_end_that_is_up_replaces_the_connection(void **state)
{
	struct end end;
	uint32_t attempt, old;

	end_open(&end, &end_ops, SACACHE_CLIENT, false);
	bring_up(&end);
	old = end.attempt;
	assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), 0);
	assert_int_equal(end.downs, 1);
	assert_int_equal(end.abandoned, old);
	/* What still is said of the old one changes nothing. */
	sacache_peer_failed(end.peer, old, -ECONNRESET);
	assert_int_equal(sacache_peer_connected(end.peer, old), -ESTALE);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_ACCEPTING);
	assert_int_equal(sacache_peer_connected(end.peer, attempt), 0);
	end_close(&end);
}

static void every_wait_ends(void **state)
{
	struct end end;
	uint32_t attempt;

	end_open(&end, &resolving_ops, SACACHE_CLIENT, false);
	end.resolve_status = -EINPROGRESS;
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_RESOLVING);
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_WAITING);
	end.resolve_status = 0;
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_CONNECTING);
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_WAITING);
	assert_int_equal(end.abandons, 2);
	assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), 0);
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_WAITING);
	assert_int_equal(end.abandoned, attempt);
	end_close(&end);
}

static void the_key_may_come_later(void **state)
{
	struct sacache_key key = test_key(1);
	struct end end;

	end_open(&end, &resolving_ops, SACACHE_CLIENT, true);
	end.resolve_status = -EINPROGRESS;
	step(&end);
	sacache_peer_resolved(end.peer, end.attempt - 1, 0, &key);
	assert_int_equal(end.connects, 0);
	sacache_peer_resolved(end.peer, end.attempt, 0, &key);
	assert_int_equal(end.connects, 1);
	assert_int_equal(end.dlid, 17);
	/* What needs no path connects without one, and what cannot be resolved is tried again. */
	sacache_peer_failed(end.peer, end.attempt, -ETIMEDOUT);
	step(&end);
	sacache_peer_resolved(end.peer, end.attempt, 0, NULL);
	assert_int_equal(end.connects, 2);
	assert_int_equal(end.dlid, 0);
	sacache_peer_failed(end.peer, end.attempt, -ETIMEDOUT);
	step(&end);
	sacache_peer_resolved(end.peer, end.attempt, -EHOSTUNREACH, NULL);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_WAITING);
	end_close(&end);
}

static void what_fails_at_once_is_tried_again(void **state)
{
	struct sacache_reconnect_stats stats;
	struct end end;

	end_open(&end, &end_ops, SACACHE_CLIENT, true);
	sa.status = -EHOSTUNREACH;
	step(&end);
	assert_int_equal(end.connects, 0);
	sa.status = 0;
	end.connect_status = -ENETUNREACH;
	step(&end);
	assert_int_equal(end.connects, 1);
	end.connect_status = 0;
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_CONNECTING);
	sacache_reconnect_stats(end.set, &stats, sizeof(stats));
	assert_int_equal(stats.no_path, 1);
	assert_int_equal(stats.failed, 2);
	end_close(&end);
}

static unsigned failures(struct end *end)
{
	struct sacache_stats stats;

	sacache_stats(end->cache, &stats, sizeof(stats));
	return stats.failures_counted + stats.failures_ignored;
}

static void the_cache_is_told_what_came_of_its_path(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;
	struct end end;

	end_open(&end, &end_ops, SACACHE_CLIENT, true);
	step(&end);
	/* That requests crossed says nothing against the path. */
	sacache_peer_failed(end.peer, end.attempt, -EBUSY);
	assert_int_equal(failures(&end), 0);
	step(&end);
	sacache_peer_failed(end.peer, end.attempt, -ECONNREFUSED);
	assert_int_equal(failures(&end), 1);
	bring_up(&end);
	sacache_peer_failed(end.peer, end.attempt, -ECONNRESET);
	assert_int_equal(failures(&end), 2);
	/* Four failures in a row make it asked for again; each time it worked in between. */
	for (unsigned i = 0; i < 10; i++) {
		bring_up(&end);
		test_now += 10000;
		sacache_peer_failed(end.peer, end.attempt, -ECONNRESET);
		assert_int_equal(sacache_lookup(end.cache, &key, &path), 0);
	}
	end_close(&end);
}

static void what_the_peer_connects_by_is_compared_with_the_record(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;
	struct end end;
	uint32_t attempt;

	end_open(&end, &end_ops, SACACHE_CLIENT, true);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(sacache_peer_request(end.peer, 17, &attempt), 0);
		assert_int_equal(sacache_peer_connected(end.peer, attempt), 0);
		test_now += 10000;
		sacache_peer_failed(end.peer, attempt, -ECONNRESET);
		assert_int_equal(sacache_lookup(end.cache, &key, &path), 0);
	}
	assert_int_equal(sacache_peer_request(end.peer, 18, &attempt), 0);
	assert_int_equal(sacache_peer_connected(end.peer, attempt), 0);
	assert_int_equal(sacache_lookup(end.cache, &key, &path), -ESTALE);
	end_close(&end);
}

static void *answer(void *arg)
{
	sa.done(sa.arg, *(int *)arg, *(int *)arg ? NULL : &sa.path);
	return NULL;
}

static void give_answer(int status)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, answer, &status), 0);
	pthread_join(thread, NULL);
}

static void an_answer_may_come_from_another_thread(void **state)
{
	struct end end;

	end_open(&end, &end_ops, SACACHE_CLIENT, true);
	sa.later = true;
	step(&end);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_ASKING);
	give_answer(0);
	assert_int_equal(end.wakes, 1);
	assert_int_equal(end.connects, 0);
	sacache_reconnect_run(end.set);
	assert_int_equal(end.connects, 1);
	assert_int_equal(end.dlid, 17);
	sacache_peer_failed(end.peer, end.attempt, -ETIMEDOUT);
	step(&end);
	give_answer(-EHOSTUNREACH);
	sacache_reconnect_run(end.set);
	assert_int_equal(sacache_peer_state(end.peer), SACACHE_PEER_WAITING);
	end_close(&end);
}

static void an_answer_may_come_too_late(void **state)
{
	uint32_t attempt;
	struct end end;

	/* A request was accepted before it came, and before it was looked at. */
	for (unsigned seen = 0; seen < 2; seen++) {
		end_open(&end, &end_ops, SACACHE_CLIENT, true);
		sa.later = true;
		step(&end);
		if (seen)
			give_answer(0);
		assert_int_equal(sacache_peer_request(end.peer, 0, &attempt), 0);
		if (!seen)
			give_answer(0);
		assert_int_equal(end.wakes, seen);
		sacache_reconnect_run(end.set);
		assert_int_equal(end.connects, 0);
		assert_int_equal(sacache_peer_connected(end.peer, attempt), 0);
		end_close(&end);
	}
	/* The peer is gone, and the whole set. */
	end_open(&end, &end_ops, SACACHE_CLIENT, true);
	sa.later = true;
	step(&end);
	sacache_peer_remove(end.peer);
	end_close(&end);
	give_answer(0);
	assert_int_equal(end.wakes, 0);
	end_open(&end, &end_ops, SACACHE_CLIENT, true);
	sa.later = true;
	step(&end);
	give_answer(0);
	end_close(&end);
}

static void attributes_out_of_range_are_refused(void **state)
{
	struct sacache_reconnect_attr attr = attr_of(0);
	struct sacache_reconnect *set;

	attr.backoff_min = MAX + 1;
	assert_int_equal(sacache_reconnect_create(NULL, &attr, &end_ops, NULL, &set), -EINVAL);
	attr = attr_of(0);
	attr.timeout = 0;
	assert_int_equal(sacache_reconnect_create(NULL, &attr, &end_ops, NULL, &set), -EINVAL);
	attr = attr_of(0);
	attr.size = 0;
	assert_int_equal(sacache_reconnect_create(NULL, &attr, &end_ops, NULL, &set), -EINVAL);
}

/* A program of another release: what it does not know has its default or is not called, and what
 * the library does not know must be 0. */
static void structures_of_other_releases_are_taken(void **state)
{
	struct {
		struct sacache_reconnect_attr known;
		uint64_t more;
	} attr;
	struct {
		struct sacache_reconnect_ops known;
		void (*more)(void *ctx);
	} ops = {.known = end_ops};
	struct sacache_reconnect *set;
	struct sacache_peer *peer;
	struct end end = {0};

	test_now = 1000;
	memset(&attr, 0xff, sizeof(attr));
	sacache_reconnect_attr_init(&attr.known, offsetof(struct sacache_reconnect_attr, timeout));
	assert_int_equal(attr.known.timeout, UINT32_MAX);
	/* up() and down() are not of that release: what is there is not read. */
	ops.known.size = offsetof(struct sacache_reconnect_ops, up);
	ops.known.up = (void *)1;
	assert_int_equal(sacache_reconnect_create(NULL, &attr.known, &ops.known, &end, &set), 0);
	assert_int_equal(sacache_peer_add(set, &end, SACACHE_CLIENT, NULL, &peer), 0);
	sacache_reconnect_run(set);
	assert_int_equal(sacache_peer_connected(peer, end.attempt), 0);
	assert_int_equal(sacache_peer_state(peer), SACACHE_PEER_UP);
	sacache_reconnect_destroy(set);

	sacache_reconnect_attr_init(&attr.known, sizeof(attr));
	assert_int_equal(attr.more, 0);
	ops.known = end_ops;
	ops.known.size = sizeof(ops);
	assert_int_equal(sacache_reconnect_create(NULL, &attr.known, &ops.known, &end, &set), 0);
	sacache_reconnect_destroy(set);
	attr.more = 1;
	assert_int_equal(sacache_reconnect_create(NULL, &attr.known, &ops.known, &end, &set),
			 -EINVAL);
	ops.more = (void *)1;
	assert_int_equal(sacache_reconnect_create(NULL, NULL, &ops.known, &end, &set), -EINVAL);
}

/* Many peers of one set, each with its own time: the earliest is always the next. */
static void deadlines_are_kept_in_order(void **state)
{
	struct sacache_reconnect_attr attr = attr_of(9);
	struct sacache_peer *peers[200];
	struct end end = {0};
	uint64_t random = 3, last = 0;

	test_now = 1000;
	assert_int_equal(sacache_reconnect_create(NULL, &attr, &end_ops, &end, &end.set), 0);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(sacache_peer_add(end.set, &end, SACACHE_CLIENT, NULL, &peers[i]),
				 0);
	sacache_reconnect_run(end.set);
	assert_int_equal(end.connects, 200);
	for (unsigned i = 0; i < 200; i++)
		sacache_peer_failed(peers[i], 1, -ECONNREFUSED);
	for (unsigned i = 0; i < 100; i++) {
		unsigned n = test_random(&random) % (200 - i);

		sacache_peer_remove(peers[n]);
		peers[n] = peers[199 - i];
	}
	/* Each comes up in its turn, so that none is due twice. */
	for (unsigned i = 0; i < 100; i++) {
		assert_in_range(sacache_reconnect_deadline(end.set), last, 1000 + 2 * MIN);
		last = test_now = sacache_reconnect_deadline(end.set);
		sacache_reconnect_run(end.set);
		for (unsigned p = 0; p < 100; p++)
			if (sacache_peer_state(peers[p]) == SACACHE_PEER_CONNECTING)
				assert_int_equal(sacache_peer_connected(peers[p], 2), 0);
		if (sacache_reconnect_deadline(end.set) == UINT64_MAX)
			break;
	}
	for (unsigned p = 0; p < 100; p++)
		assert_int_equal(sacache_peer_state(peers[p]), SACACHE_PEER_UP);
	end_close(&end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_tries_at_once_and_again_after_failures),
		cmocka_unit_test(a_server_waits_for_the_first_connection),
		cmocka_unit_test(after_the_first_connection_a_server_tries_too),
		cmocka_unit_test(a_request_that_crosses_ones_own_is_rejected),
		cmocka_unit_test(a_request_to_an_end_that_is_up_replaces_the_connection),
		cmocka_unit_test(every_wait_ends),
		cmocka_unit_test(the_key_may_come_later),
		cmocka_unit_test(what_fails_at_once_is_tried_again),
		cmocka_unit_test(the_cache_is_told_what_came_of_its_path),
		cmocka_unit_test(what_the_peer_connects_by_is_compared_with_the_record),
		cmocka_unit_test(an_answer_may_come_from_another_thread),
		cmocka_unit_test(an_answer_may_come_too_late),
		cmocka_unit_test(attributes_out_of_range_are_refused),
		cmocka_unit_test(structures_of_other_releases_are_taken),
		cmocka_unit_test(deadlines_are_kept_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

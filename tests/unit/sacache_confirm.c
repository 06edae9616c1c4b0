/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Records after a client re-registration (14.4.11): how many questions their confirmation costs,
 * and that no path of before is used without one.
 */
#include "sacache_net.h"

#include "libsacache/port.h"

static uint16_t lid_to(unsigned n)
{
	struct sacache_key key = test_key(n);
	struct sacache_path path;

	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	return path.dlid;
}

static int impatient(void **state)
{
	response_timeout = 20;
	return 0;
}

/* The SA has as long as the test takes. */
static int patient(void **state)
{
	response_timeout = 60000;
	return 0;
}

#define SET(change)                          \
	do {                                 \
		pthread_mutex_lock(&lock);   \
		change;                      \
		pthread_mutex_unlock(&lock); \
	} while (0)

/* The port has paths to all. */
static void begin_with_all(void)
{
	begin(true, false);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), net.peers_lid);
	SET(net.paths = 0);
}

static void go_away(void)
{
	CHANGE(net.state = 1, IBV_EVENT_PORT_ERR);
	AWAIT(stats().port_downs == 1);
}

static void come_back(void)
{
	CHANGE(net.state = 4, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(stats().reregisters == 1);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(look(n), -ESTALE);
}

static void a_port_that_was_away_confirms_all_by_one_table(void **state)
{
	begin_with_all();
	go_away();
	come_back();
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), 10);
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 0);
	assert_int_equal(stats().confirmed, HOSTS);
	assert_int_equal(stats().query_table, 1);
}

/* As a guest's adapter that moves: it is unplugged, and plugged in at another host. */
static void a_port_that_is_opened_again_confirms_all_by_one_table(void **state)
{
	unsigned again, other;

	begin_with_all();
	assert_int_equal(sacache_port_close(cache, port), 0);
	SET(net.lids[3] = 47);
	assert_int_equal(sacache_port_open(cache, "another", 1, &again), 0);
	assert_int_equal(again, port);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(look(n), -ESTALE);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), n == 3 ? 47 : 10);
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 0);
	/* Another one has none of its records. */
	assert_int_equal(sacache_port_close(cache, port), 0);
	SET(net.prefix = 1);
	assert_int_equal(sacache_port_open(cache, "another", 1, &other), 0);
	assert_int_equal(other, port);
	assert_int_equal(look(1), -ENOENT);
}

/* Nothing of what the SM says of itself tells that these LIDs have changed: docs/migrate.md. */
static void lids_that_changed_meanwhile_are_taken_from_the_table(void **state)
{
	begin_with_all();
	go_away();
	SET(net.lids[3] = 47);
	SET(net.lids[7] = 14);
	come_back();
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), n == 3 ? 47 : n == 7 ? 14 : 10);
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 0);
	assert_int_equal(stats().confirmed, HOSTS - 2);
	assert_int_equal(stats().changed, 2);
}

/* Which of them a query gets, only the SA knows. */
static void of_several_paths_the_table_confirms_one_and_replaces_none(void **state)
{
	begin_with_all();
	go_away();
	SET(net.two_paths = true);
	SET(net.lids[3] = 47);
	come_back();
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), n == 3 ? 47 : 10);
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 1);
	assert_int_equal(stats().confirmed, HOSTS - 1);
}

static void a_table_that_all_lids_differ_from_replaces_all(void **state)
{
	begin_with_all();
	go_away();
	SET(net.peers_lid = 11);
	come_back();
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), 11);
	assert_int_equal(stats().confirmed, 0);
	assert_int_equal(stats().changed, HOSTS);
	assert_int_equal(of_net(&net.paths), 0);
}

static void opened_long_ago(void)
{
	pthread_mutex_lock(&cache->ports[port]->lock);
	cache->ports[port]->returned = 0;
	pthread_mutex_unlock(&cache->ports[port]->lock);
}

/* As all ports after a restart of the SM: the SA is asked for as much as the table costs it. */
static void where_all_reregister_a_table_comes_after_as_many_queries_as_it_costs(void **state)
{
	begin(true, false);
	SET(net.peers_lid = 5 * 16);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(ask(n), 0);
	SET(net.paths = 0);
	opened_long_ago();
	come_back();
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(ask(n), 0);
	assert_int_equal(of_net(&net.paths), 6);
	assert_int_equal(of_net(&net.tables), 1);
}

static void few_records_are_cheaper_one_by_one(void **state)
{
	begin(true, false);
	SET(net.peers_lid = 5 * 16);
	for (unsigned n = 1; n <= 6; n++)
		assert_int_equal(ask(n), 0);
	go_away();
	CHANGE(net.state = 4, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(look(1) == -ESTALE);
	for (unsigned n = 1; n <= 6; n++)
		assert_int_equal(ask(n), 0);
	assert_int_equal(of_net(&net.tables), 0);
	assert_int_equal(of_net(&net.paths), 12);
}

/* A path may depend on it where the SM has a QoS policy (15.2.5.16). */
static void a_table_confirms_nothing_that_was_asked_for_with_a_service(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	begin_with_all();
	key.mask |= SACACHE_SERVICE_ID;
	key.service_id = 7;
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	go_away();
	come_back();
	assert_int_equal(lid_to(1), 10);
	assert_int_equal(sacache_lookup(cache, &key, &path), -ESTALE);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 2);
}

static void where_there_is_no_table_all_are_asked_for_one_by_one(void **state)
{
	begin_with_all();
	go_away();
	SET(net.has_no_table = true);
	come_back();
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), 10);
	assert_int_equal(of_net(&net.paths), HOSTS);
}

static void *resolve_one(void *arg)
{
	struct sacache_key key = test_key(1 + (uintptr_t)arg % HOSTS);
	struct sacache_path path = {0};
	int ret = sacache_resolve(cache, &key, &path, -1);

	return (void *)(intptr_t)(ret ? ret : path.dlid);
}

/* LIDs change again while the table is on its way. */
static void a_table_of_before_another_reregistration_confirms_nothing(void **state)
{
	pthread_t threads[2 * HOSTS];
	uint8_t held[SA_MAD_SIZE];
	struct sa_mad mad;

	begin_with_all();
	go_away();
	SET(net.holds_table = true);
	come_back();
	for (uintptr_t i = 0; i < 2 * HOSTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_one, (void *)i), 0);
	AWAIT(stats().coalesced == 2 * HOSTS);
	SET(memcpy(held, net.held, SA_MAD_SIZE); net.holds_table = false);
	CHANGE(net.peers_lid = 11, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(stats().reregisters == 2);
	pthread_mutex_lock(&lock);
	assert_int_equal(sa_mad_decode(held, SA_MAD_SIZE, &mad), 0);
	net.peers_lid = 10;
	answer_table(&mad);
	net.peers_lid = 11;
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < 2 * HOSTS; i++) {
		void *lid;

		pthread_join(threads[i], &lid);
		assert_int_equal((intptr_t)lid, 11);
	}
	assert_int_equal(stats().confirmed, 0);
	assert_int_equal(of_net(&net.tables), 2);
	assert_int_equal(of_net(&net.paths), 0);
}

/* It begins before its port has an SM, and asks before it sees that it has one. */
static void a_table_that_was_asked_for_without_an_sm_is_asked_for_again(void **state)
{
	pthread_t threads[HOSTS];
	unsigned again;

	begin_with_all();
	assert_int_equal(sacache_port_close(cache, port), 0);
	SET(net.state = 2; net.lid = 0; net.sm_lid = 0);
	assert_int_equal(sacache_port_open(cache, "another", 1, &again), 0);
	assert_int_equal(again, port);
	for (uintptr_t i = 0; i < HOSTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_one, (void *)i), 0);
	AWAIT(stats().coalesced == HOSTS);
	CHANGE(net.state = 4; net.lid = 5; net.sm_lid = 1, IBV_EVENT_CLIENT_REREGISTER);
	for (unsigned i = 0; i < HOSTS; i++) {
		void *lid;

		pthread_join(threads[i], &lid);
		assert_int_equal((intptr_t)lid, 10);
	}
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 0);
	assert_int_equal(stats().confirmed, HOSTS);
}

/* A program that begins then sees an SM that its records are not from, and no more. */
static void a_port_that_was_told_before_it_was_opened_confirms_all_by_one_table(void **state)
{
	begin(true, false);
	SET(net.peers_lid = 5 * 16);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(ask(n), 0);
	SET(net.paths = 0);
	CHANGE(net.sm_lid = net.sa_lid = net.answers_from = 2, IBV_EVENT_SM_CHANGE);
	AWAIT(stats().sm_changes == 1);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), 5 * 16);
	assert_int_equal(of_net(&net.tables), 1);
	assert_int_equal(of_net(&net.paths), 0);
}

/* Else the table would be outdated as soon as it is there. */
static void what_has_happened_to_the_port_is_read_before_the_table_is_asked_for(void **state)
{
	begin_with_all();
	go_away();
	come_back();
	CHANGE(net.peers_lid = 11, IBV_EVENT_CLIENT_REREGISTER);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(lid_to(n), 11);
	AWAIT(stats().reregisters == 2);
	for (unsigned n = 1; n <= HOSTS; n++)
		assert_int_equal(look(n), 0);
	assert_int_equal(of_net(&net.tables), 1);
}

static void no_change_is_missed_while_a_port_is_opened(void **state)
{
	struct sacache_path path;
	struct sacache_key key = test_key(1);
	unsigned again;

	begin_with_all();
	assert_int_equal(sacache_port_close(cache, port), 0);
	SET(net.lid_when_watched = 6);
	assert_int_equal(sacache_port_open(cache, "fake", 1, &again), 0);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(cache->ports[again]->lid, 6);
}

static void closing_a_port_ends_those_who_wait_for_a_table(void **state)
{
	pthread_t threads[HOSTS];

	begin_with_all();
	go_away();
	SET(net.holds_table = true);
	come_back();
	for (uintptr_t i = 0; i < HOSTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, resolve_one, (void *)i), 0);
	AWAIT(stats().coalesced == HOSTS);
	assert_int_equal(sacache_port_close(cache, port), 0);
	for (unsigned i = 0; i < HOSTS; i++) {
		void *status;

		pthread_join(threads[i], &status);
		assert_int_equal((intptr_t)status, -ECANCELED);
	}
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_port_that_was_away_confirms_all_by_one_table, patient),
		TEST(a_port_that_is_opened_again_confirms_all_by_one_table, patient),
		TEST(lids_that_changed_meanwhile_are_taken_from_the_table, patient),
		TEST(of_several_paths_the_table_confirms_one_and_replaces_none, patient),
		TEST(a_table_that_all_lids_differ_from_replaces_all, patient),
		TEST(where_all_reregister_a_table_comes_after_as_many_queries_as_it_costs, patient),
		TEST(few_records_are_cheaper_one_by_one, patient),
		TEST(a_table_confirms_nothing_that_was_asked_for_with_a_service, patient),
		TEST(where_there_is_no_table_all_are_asked_for_one_by_one, impatient),
		TEST(a_table_of_before_another_reregistration_confirms_nothing, patient),
		TEST(a_table_that_was_asked_for_without_an_sm_is_asked_for_again, patient),
		TEST(a_port_that_was_told_before_it_was_opened_confirms_all_by_one_table, patient),
		TEST(what_has_happened_to_the_port_is_read_before_the_table_is_asked_for, patient),
		TEST(no_change_is_missed_while_a_port_is_opened, patient),
		TEST(closing_a_port_ends_those_who_wait_for_a_table, patient),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

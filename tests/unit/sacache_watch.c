/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What a port sees of its subnet. Watched by the sanitizers. */
#include "sacache_net.h"

static void an_sm_that_moves_is_followed_and_all_is_asked_again(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.sm_lid = net.sa_lid = net.answers_from = 2, IBV_EVENT_SM_CHANGE);
	AWAIT(look(1) == -ESTALE);
	assert_int_equal(ask(1), 0);
	assert_int_equal(look(1), 0);
	assert_int_equal(stats().sm_changes, 1);
	assert_int_equal(stats().confirmed, 1);
	/* A busy machine may be slower than the response timeout. */
	assert_int_equal(of_net(&net.paths), 2 + stats().retried);
}

/* A query that is under way when the SM moves ends well. */
static void an_sm_that_moves_is_looked_for_when_it_does_not_answer(void **state)
{
	begin(false, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.sm_lid = net.sa_lid = net.answers_from = 2, 0);
	assert_int_equal(ask(2), 0);
	assert_int_equal(look(1), -ESTALE);
	assert_true(stats().retried > 0);
}

static void answers_from_elsewhere_are_dropped(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	begin(true, false);
	CHANGE(net.answers_from = 7, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(sacache_resolve(cache, &key, &path, 50), -ETIMEDOUT);
	assert_int_equal(look(1), -ENOENT);
	assert_true(stats().foreign > 0);
	/* Until the port says that the SM is there. */
	CHANGE(net.sm_lid = net.sa_lid = 7, IBV_EVENT_SM_CHANGE);
	assert_int_equal(ask(1), 0);
}

static void another_lid_of_the_port_makes_paths_from_it_asked_again(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.lid = 6, IBV_EVENT_LID_CHANGE);
	AWAIT(look(1) == -ESTALE);
	assert_int_equal(ask(1), 0);
	assert_int_equal(look(1), 0);
	assert_int_equal(stats().lid_changes, 1);
	assert_int_equal(stats().changed, 1);
}

static void client_reregister_makes_all_asked_again_and_subscribes(void **state)
{
	begin(true, true);
	assert_int_equal(ask(1), 0);
	AWAIT(stats().subscribed == 4);
	/* Of another port: none of our business. */
	CHANGE(net.event_port = 2, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(!of_net(&net.nevents));
	CHANGE(net.event_port = 1, IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(look(1) == -ESTALE);
	AWAIT(stats().subscribed == 8);
	assert_int_equal(stats().reregisters, 1);
}

static void a_port_that_goes_down_and_up_keeps_its_records(void **state)
{
	unsigned asked;

	begin(true, true);
	assert_int_equal(ask(1), 0);
	asked = of_net(&net.paths); /* once, or again on a busy machine */
	AWAIT(stats().subscribed == 4);
	CHANGE(net.state = 1, IBV_EVENT_PORT_ERR);
	AWAIT(stats().port_downs == 1);
	assert_int_equal(look(1), 0);
	CHANGE(net.state = 4, IBV_EVENT_PORT_ACTIVE);
	AWAIT(stats().subscribed == 8);
	assert_int_equal(look(1), 0);
	assert_int_equal(of_net(&net.paths), asked);
}

/*
 * 14.4.11: the SM of that LID was restarted, or read other LIDs from its file, while the port was
 * away. Nothing else says so: no notice is about another LID, and those of the absence are lost.
 */
static void a_port_that_comes_up_and_reregisters_has_no_path_of_before(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	begin(true, true);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(path.dlid, 10);
	AWAIT(stats().subscribed == 4);
	CHANGE(net.state = 1, IBV_EVENT_PORT_ERR);
	AWAIT(stats().port_downs == 1);
	CHANGE((net.state = 4, net.peers_lid = 11), IBV_EVENT_CLIENT_REREGISTER);
	AWAIT(look(1) == -ESTALE);
	assert_int_equal(sacache_resolve(cache, &key, &path, -1), 0);
	assert_int_equal(path.dlid, 11);
	assert_int_equal(stats().sm_changes + stats().lid_changes, 0);
}

static void another_subnet_makes_all_asked_again(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.prefix = 1, IBV_EVENT_GID_CHANGE);
	AWAIT(look(1) == -ESTALE);
}

static void without_libibverbs_the_port_is_read_now_and_then(void **state)
{
	begin(false, false);
	assert_int_equal(ask(1), 0);
	CHANGE(net.lid = 6, 0);
	AWAIT(look(1) == -ESTALE);
}

static void a_device_that_is_gone_is_closed(void **state)
{
	begin(true, false);
	assert_int_equal(ask(1), 0);
	AWAIT(of_net(&net.opened) == 1);
	CHANGE(, IBV_EVENT_DEVICE_FATAL);
	AWAIT(of_net(&net.opened) == 0);
	assert_int_equal(look(1), 0);
}

static void a_report_reaches_the_table_and_is_answered(void **state)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0x84, 0, 0, 4, 0, 65}, buf[SA_MAD_SIZE];
	struct sa_mad report = {
		.method = SA_REPORT, .tid = 1, .attribute = SA_ATTR_NOTICE, .data = data};
	struct sacache_stats s;

	begin(true, true);
	assert_int_equal(ask(1), 0);
	test_gid(1, data + 16);
	sa_mad_encode(&report, buf);
	pthread_mutex_lock(&lock);
	deliver(buf, 9);
	deliver(buf, 1);
	deliver(buf, 1);
	pthread_mutex_unlock(&lock);
	AWAIT(of_net(&net.responses) == 2);
	s = stats();
	assert_int_equal(s.notices_gid_out, 1);
	assert_int_equal(s.notices_forged, 1);
	assert_int_equal(s.notices_repeated, 1);
	assert_int_equal(s.failures_counted, 1);
	assert_int_equal(look(1), 0);
}

static void a_port_unsubscribes_when_it_is_closed(void **state)
{
	begin(true, true);
	AWAIT(stats().subscribed == 4);
	assert_int_equal(sacache_port_close(cache, port), 0);
	assert_int_equal(net.cancelled, 4);
}

static void an_sa_that_is_gone_does_not_hold_up_the_end(void **state)
{
	struct timespec begun, ended;

	begin(true, true);
	AWAIT(stats().subscribed == 4);
	CHANGE(net.sa_lid = 99, IBV_EVENT_PORT_ACTIVE);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	assert_int_equal(sacache_port_close(cache, port), 0);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_true(ended.tv_sec - begun.tv_sec <= 5);
	assert_int_equal(net.cancelled, 0);
}

/* The kernel gives the reports of a port to one program. */
static void where_another_has_the_reports_queries_work(void **state)
{
	begin(true, false);
	sacache_destroy(cache);
	net.taken = true;
	{
		struct sacache_attr attr;

		sacache_attr_init(&attr, sizeof(attr));
		attr.policy = SACACHE_ALWAYS;
		attr.notices = 1000;
		assert_int_equal(sacache_create(&attr, &cache), 0);
		assert_int_equal(sacache_port_open(cache, "fake", 1, &port), 0);
	}
	assert_int_equal(ask(1), 0);
	assert_int_equal(stats().refused, 1);
	assert_int_equal(of_net(&net.sets), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_sm_that_moves_is_followed_and_all_is_asked_again),
		TEST(an_sm_that_moves_is_looked_for_when_it_does_not_answer),
		TEST(answers_from_elsewhere_are_dropped),
		TEST(another_lid_of_the_port_makes_paths_from_it_asked_again),
		TEST(client_reregister_makes_all_asked_again_and_subscribes),
		TEST(a_port_that_goes_down_and_up_keeps_its_records),
		TEST(a_port_that_comes_up_and_reregisters_has_no_path_of_before),
		TEST(another_subnet_makes_all_asked_again),
		TEST(without_libibverbs_the_port_is_read_now_and_then),
		TEST(a_device_that_is_gone_is_closed),
		TEST(a_report_reaches_the_table_and_is_answered),
		TEST(a_port_unsubscribes_when_it_is_closed),
		TEST(an_sa_that_is_gone_does_not_hold_up_the_end),
		TEST(where_another_has_the_reports_queries_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

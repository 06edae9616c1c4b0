/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libreorder's source half: which path a flow takes, when it is moved, and what the shim says of
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "reorder/reorder.h"

#include <errno.h>
#include <string.h>

#define US ((int64_t)1000000)

static int64_t waits[4];

static int64_t wait_of(void *context, uint16_t destination, uint8_t path)
{
	return waits[path];
}

static const struct reorder_source_config usual = {
	.size = sizeof(usual),
	.flows = 4,
	.destinations = 2,
	.paths = 4,
	.high = 5 * US,
	.low = 4 * US,
	.gain = 3 * US,
	.most = INT64_MAX,
	.budget = UINT32_MAX,
	.pace = 10 * US,
	.inactive = 1000 * US,
	.fresh = 20 * US,
	.lately = 4 * US,
	.seed = 3,
	.wait = wait_of,
};

static struct reorder_source *make_counting(int64_t per_byte)
{
	struct reorder_source_config config = usual;
	struct reorder_source *source;

	config.per_byte = per_byte;

	waits[0] = waits[1] = waits[2] = waits[3] = US;
	assert_int_equal(reorder_source_create(&source, &config), 0);
	return source;
}

static struct reorder_source *make(void)
{
	return make_counting(0);
}

static struct reorder_shim route(struct reorder_source *source, unsigned f, int64_t now)
{
	struct reorder_key key = {{f, 0, 0, 0, 0}};
	struct reorder_shim shim = {0};

	assert_int_equal(reorder_source_route(source, &key, f, 0, 1000, now, &shim), 0);
	return shim;
}

static void clear(struct reorder_source *source, unsigned f, uint8_t epoch)
{
	struct reorder_key key = {{f, 0, 0, 0, 0}};

	reorder_source_clear(source, &key, f, epoch);
}

static void a_new_flow_takes_the_path_with_the_least_wait(void **state)
{
	struct reorder_source *source = make();

	waits[2] = 0;
	assert_int_equal(route(source, 1, US).path, 2);
	waits[3] = 0;
	waits[2] = US;
	assert_int_equal(route(source, 2, US).path, 3);
	reorder_source_destroy(source);
}

/* No path has a queue; each flow takes one that none before it sent by. */
static void a_busy_path_is_passed_over(void **state)
{
	struct reorder_source *source = make_counting(80);
	unsigned used = 0;

	for (unsigned f = 1; f <= 4; f++)
		used |= 1u << route(source, f, US).path;
	assert_int_equal(used, 15);
	reorder_source_destroy(source);
}

/* Its own bytes make a path busy, which is no reason to leave it. */
static void a_flow_does_not_leave_a_path_for_its_own_use(void **state)
{
	struct reorder_source *source = make_counting(80);
	uint8_t path = route(source, 1, US).path;

	for (int i = 0; i < 200; i++)
		assert_int_equal(route(source, 1, 2 * US).path, path);
	waits[path] = 20 * US;
	assert_int_not_equal(route(source, 1, 3 * US).path, path);
	reorder_source_destroy(source);
}

static void t_tx_is_when_the_packet_leaves(void **state)
{
	struct reorder_source *source = make();

	assert_int_equal(route(source, 1, 7 * US).t_tx, 8 * US / REORDER_TICK);
	reorder_source_destroy(source);
}

/* Both thresholds, and the gain. */
static void a_flow_is_moved_only_where_it_gains(void **state)
{
	struct reorder_source *source = make();
	uint8_t path = route(source, 1, US).path;

	waits[path] = 5 * US; /* not above high */
	assert_int_equal(route(source, 1, 2 * US).path, path);
	for (int i = 0; i < 4; i++)
		waits[i] = i == path ? 20 * US : 4 * US; /* none is below low */
	assert_int_equal(route(source, 1, 3 * US).path, path);
	for (int i = 0; i < 4; i++)
		waits[i] = i == path ? 6 * US : 7 * US / 2; /* saves too little */
	assert_int_equal(route(source, 1, 4 * US).path, path);
	waits[path] = 7 * US;
	assert_int_not_equal(route(source, 1, 5 * US).path, path);
	reorder_source_destroy(source);
}

static void rerouted_packets_tell_of_the_old_path_until_clear(void **state)
{
	struct reorder_source *source = make();
	struct reorder_shim first = route(source, 1, 100 * US), shim;

	waits[first.path] = 100 * US;
	shim = route(source, 1, 110 * US);
	assert_int_equal(shim.flags, REORDER_REROUTED);
	assert_int_equal(shim.old_path, first.path);
	assert_int_equal(shim.epoch, 1);
	assert_int_equal(shim.back, 1);
	assert_int_equal(shim.ago, 10 * US / REORDER_TICK / 64);
	assert_int_equal(route(source, 1, 111 * US).back, 2);
	clear(source, 1, 0); /* of another epoch */
	assert_int_equal(route(source, 1, 112 * US).flags, REORDER_REROUTED);
	clear(source, 1, 1);
	assert_int_equal(route(source, 1, 113 * US).flags, 0);
	reorder_source_destroy(source);
}

static void a_flow_is_not_moved_before_clear(void **state)
{
	struct reorder_source *source = make();
	uint8_t old = route(source, 1, US).path, now;

	waits[old] = 50 * US;
	now = route(source, 1, 2 * US).path;
	waits[now] = 100 * US;
	assert_int_equal(route(source, 1, 3 * US).path, now);
	clear(source, 1, 1);
	assert_int_not_equal(route(source, 1, 30 * US).path, now);
	reorder_source_destroy(source);
}

static void one_flow_is_moved_to_a_path_in_a_round_trip(void **state)
{
	struct reorder_source *source = make();
	struct reorder_source_counters counters;
	uint8_t to;

	for (int i = 0; i < 4; i++)
		waits[i] = i == 1 ? 0 : 90 * US;
	route(source, 1, US);
	route(source, 2, US);
	for (int i = 0; i < 4; i++)
		waits[i] = i == 2 ? 0 : 90 * US;
	to = route(source, 1, 2 * US).path;
	assert_int_equal(to, 2);
	assert_int_equal(route(source, 2, 3 * US).path, 1);
	assert_int_equal(route(source, 2, 13 * US).path, 2);
	reorder_source_counters(source, &counters, sizeof(counters));
	assert_int_equal(counters.held_back, 1);
	reorder_source_destroy(source);
}

static void feedback_counts_and_fades(void **state)
{
	struct reorder_source *source = make();
	struct reorder_shim fb = {
		.flags = REORDER_FEEDBACK, .fb_path = 1, .fb_wait = reorder_wait_encode(16 * US)};
	int64_t told = reorder_wait_decode(fb.fb_wait);

	reorder_source_feedback(source, 0, &fb, 10 * US);
	assert_int_equal(reorder_source_remote(source, 0, 1, 10 * US), told);
	assert_int_equal(reorder_source_remote(source, 1, 1, 10 * US), 0);
	assert_int_equal(reorder_source_remote(source, 0, 1, 31 * US), told / 2);
	fb.fb_path = 200; /* no such path */
	reorder_source_feedback(source, 0, &fb, 10 * US);
	reorder_source_destroy(source);
}

static void without_credit_nothing_is_moved(void **state)
{
	struct reorder_source *source = make();
	struct reorder_shim fb = {.flags = REORDER_NO_CREDIT};
	uint8_t path = route(source, 1, US).path;

	waits[path] = 50 * US;
	reorder_source_feedback(source, 0, &fb, 2 * US);
	assert_int_equal(route(source, 1, 3 * US).path, path);
	fb.flags = 0;
	reorder_source_feedback(source, 0, &fb, 4 * US);
	assert_int_not_equal(route(source, 1, 5 * US).path, path);
	reorder_source_destroy(source);
}

static void a_path_that_is_down_is_left_at_once(void **state)
{
	struct reorder_source *source = make();
	uint8_t path = route(source, 1, US).path, second;

	waits[path] = INT64_MAX;
	second = route(source, 1, 2 * US).path;
	assert_int_not_equal(second, path);
	waits[second] = INT64_MAX; /* and before CLEAR */
	assert_int_not_equal(route(source, 1, 3 * US).path, second);
	reorder_source_destroy(source);
}

static void a_full_table_falls_back_to_the_hash(void **state)
{
	struct reorder_source *source = make();
	struct reorder_key key = {{9, 0, 0, 0, 0}};
	struct reorder_shim shim;
	uint8_t path = reorder_source_ecmp(source, 9, 0);

	for (unsigned f = 1; f < 5; f++)
		route(source, f, US);
	assert_int_equal(reorder_source_route(source, &key, 9, 0, 1000, 2 * US, &shim), -ENOENT);
	assert_int_equal(reorder_source_ecmp(source, 9, 0), path);
	/* When there is room again it stays on that path, so that it does not overtake itself. */
	waits[path] = 9 * US;
	route(source, 1, 900 * US);
	assert_int_equal(reorder_source_route(source, &key, 9, 0, 1000, 1002 * US, &shim), -0);
	assert_int_equal(shim.path, path);
	reorder_source_destroy(source);
}

static void a_flow_moves_on_command(void **state)
{
	struct reorder_source *source = make();
	struct reorder_key key = {{1, 0, 0, 0, 0}}, none = {{5, 0, 0, 0, 0}};
	uint8_t path = route(source, 1, US).path;

	assert_int_equal(reorder_source_force(source, &none, 5), -ENOENT);
	assert_int_equal(reorder_source_force(source, &key, 1), 0);
	assert_int_not_equal(route(source, 1, 2 * US).path, path);
	assert_int_equal(reorder_source_force(source, &key, 1), -EBUSY);
	reorder_source_destroy(source);
}

static void structures_have_the_size_that_the_program_knows(void **state)
{
	struct {
		struct reorder_source_config known;
		uint64_t more;
	} config = {.known = usual};
	struct {
		struct reorder_source_counters known;
		uint64_t more;
	} counters;
	struct reorder_source *source;

	config.known.size = 0;
	assert_int_equal(reorder_source_create(&source, &config.known), -EINVAL);
	config.known.size = sizeof(config);
	config.more = 1;
	assert_int_equal(reorder_source_create(&source, &config.known), -EINVAL);
	config.more = 0;
	assert_int_equal(reorder_source_create(&source, &config.known), 0);
	route(source, 1, US);
	memset(&counters, 0xff, sizeof(counters));
	reorder_source_counters(source, &counters.known, sizeof(uint64_t));
	assert_int_equal(counters.known.packets, 1);
	assert_int_equal(counters.known.flows, UINT64_MAX);
	reorder_source_counters(source, &counters.known, sizeof(counters));
	assert_int_equal(counters.known.flows, 1);
	assert_int_equal(counters.more, 0);
	reorder_source_destroy(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_flow_takes_the_path_with_the_least_wait),
		cmocka_unit_test(a_busy_path_is_passed_over),
		cmocka_unit_test(a_flow_does_not_leave_a_path_for_its_own_use),
		cmocka_unit_test(t_tx_is_when_the_packet_leaves),
		cmocka_unit_test(a_flow_is_moved_only_where_it_gains),
		cmocka_unit_test(rerouted_packets_tell_of_the_old_path_until_clear),
		cmocka_unit_test(a_flow_is_not_moved_before_clear),
		cmocka_unit_test(one_flow_is_moved_to_a_path_in_a_round_trip),
		cmocka_unit_test(feedback_counts_and_fades),
		cmocka_unit_test(without_credit_nothing_is_moved),
		cmocka_unit_test(a_path_that_is_down_is_left_at_once),
		cmocka_unit_test(a_full_table_falls_back_to_the_hash),
		cmocka_unit_test(a_flow_moves_on_command),
		cmocka_unit_test(structures_have_the_size_that_the_program_knows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

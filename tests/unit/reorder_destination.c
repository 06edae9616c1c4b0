/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libreorder's destination half: what is held, until when, and what is counted. A frame is written
 * as path, epoch, sequence; time passes by microseconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "reorder/internal.h"

#include <errno.h>

#define US    ((int64_t)1000000)
#define START (1000 * US)

static unsigned clears, cleared_epoch, readies;

static void on_clear(void *context, uint16_t source, const struct reorder_key *key, uint32_t id,
		     uint8_t epoch)
{
	clears++;
	cleared_epoch = epoch;
}

static void on_ready(void *context, uint16_t port)
{
	readies++;
}

static struct reorder_destination *make(uint8_t queues)
{
	struct reorder_destination_config config = {
		.size = sizeof(config),
		.flows = 16,
		.packets = 100,
		.sources = 2,
		.paths = 4,
		.ports = 2,
		.ingresses = 2,
		.queues = queues,
		.rate = 100000000000,
		.before = US,
		.after = US,
		.margin = 10 * US,
		.hold = 100 * US,
		.inactive = 500 * US,
		.again = 20 * US,
		.held_ingress = 20000,
		.measure = true,
		.clear = on_clear,
		.ready = on_ready,
	};
	struct reorder_destination *d;

	clears = readies = 0;
	assert_int_equal(reorder_destination_create(&d, &config), 0);
	return d;
}

/* Flow f's packet number n by a path, which left at tx us; moved: packets since, and us ago. */
static int frame(struct reorder_destination *d, unsigned f, unsigned n, unsigned path,
		 unsigned epoch, int64_t tx, int back, int64_t ago, int64_t now)
{
	struct reorder_key key = {{f, 0, 0, 0, 0}};
	struct reorder_shim shim = {
		.flags = back ? REORDER_REROUTED : 0,
		.path = (uint8_t)path,
		.old_path = 0,
		.epoch = (uint8_t)epoch,
		.sequence = (uint16_t)n,
		.t_tx = (uint32_t)((START + tx * US) / REORDER_TICK),
		.back = (uint16_t)back,
		.ago = (int16_t)(ago * US / REORDER_TICK / 64),
	};
	struct reorder_packet packet = {
		.handle = f * 100 + n,
		.size = 1000,
		.id = f,
		.key = &key,
		.shim = &shim,
	};

	return reorder_enqueue(d, &packet, START + now * US);
}

static void expect(struct reorder_destination *d, uint32_t handle, int64_t now)
{
	assert_int_equal(reorder_ready(d, 0), handle != REORDER_NO_PACKET);
	assert_int_equal(reorder_dequeue(d, 0, START + now * US), handle);
}

static struct reorder_destination_counters count(struct reorder_destination *d)
{
	struct reorder_destination_counters c;

	reorder_destination_counters(d, &c, sizeof(c));
	return c;
}

static void packets_in_order_pass(void **state)
{
	struct reorder_destination *d = make(1);

	for (unsigned n = 1; n < 4; n++)
		frame(d, 1, n, 0, 0, n, 0, 0, n + 10);
	for (unsigned n = 1; n < 4; n++)
		expect(d, 100 + n, 20);
	expect(d, REORDER_NO_PACKET, 20);
	assert_int_equal(count(d).held, 0);
	reorder_destination_destroy(d);
}

/* Rules 1 and 3. */
static void a_rerouted_packet_waits_for_the_old_path(void **state)
{
	struct reorder_destination *d = make(1);

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 1, 3, 1, 1, 5, 1, 3, 11); /* 2 left 3 us before it */
	expect(d, 101, 12);
	expect(d, REORDER_NO_PACKET, 12);
	frame(d, 1, 2, 0, 0, 2, 0, 0, 14);
	expect(d, 102, 14);
	assert_int_equal(clears, 0);
	expect(d, 103, 14);
	assert_int_equal(clears, 1);
	assert_int_equal(cleared_epoch, 1);
	assert_int_equal(count(d).by_tail, 1);
	reorder_destination_destroy(d);
}

/* Rule 2. */
static void a_released_flow_queues_behind_what_is_held(void **state)
{
	struct reorder_destination *d = make(1);

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 2, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 2, 3, 1, 1, 5, 1, 3, 11);
	frame(d, 1, 3, 1, 1, 5, 1, 3, 11); /* behind flow 2's in the one queue */
	frame(d, 1, 2, 0, 0, 2, 0, 0, 12);
	frame(d, 1, 4, 1, 1, 6, 2, 4, 13); /* released, and not alone */
	expect(d, 101, 14);
	expect(d, 201, 14);
	expect(d, 102, 14);
	expect(d, REORDER_NO_PACKET, 14);
	frame(d, 2, 2, 0, 0, 2, 0, 0, 15);
	expect(d, 202, 15);
	expect(d, 203, 15);
	expect(d, 103, 15);
	expect(d, 104, 15);
	reorder_destination_destroy(d);
}

/* Rule 4. */
static void held_packets_follow_the_tail_out_of_the_normal_queue(void **state)
{
	struct reorder_destination *d = make(1);

	frame(d, 3, 1, 0, 0, 0, 0, 0, 9);
	frame(d, 1, 2, 1, 1, 5, 1, 3, 11);
	frame(d, 1, 1, 0, 0, 2, 0, 0, 12);
	expect(d, 301, 13);
	expect(d, 101, 13);
	expect(d, 102, 13);
	reorder_destination_destroy(d);
}

static void a_later_packet_of_the_path_proves_the_tail_lost(void **state)
{
	struct reorder_destination *d = make(1);

	frame(d, 1, 2, 1, 1, 5, 1, 3, 11);
	frame(d, 2, 1, 0, 0, 2, 0, 0, 12); /* left before the tail, or with it */
	expect(d, 201, 12);
	expect(d, REORDER_NO_PACKET, 12);
	frame(d, 2, 2, 0, 0, 3, 0, 0, 13);
	expect(d, 202, 13);
	expect(d, 102, 13);
	assert_int_equal(count(d).by_proof, 1);
	reorder_destination_destroy(d);
}

static void a_timer_ends_a_hold_that_nothing_else_ends(void **state)
{
	struct reorder_destination *d = make(1);
	int64_t due;

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 1, 3, 1, 1, 5, 1, 3, 11);
	expect(d, 101, 12);
	due = reorder_deadline(d);
	assert_in_range(due, START + 21 * US, START + 111 * US);
	reorder_expire(d, due - US);
	expect(d, REORDER_NO_PACKET, 20);
	reorder_expire(d, due);
	assert_true(readies > 0);
	expect(d, 103, 30);
	frame(d, 1, 2, 0, 0, 2, 0, 0, 200);
	assert_int_equal(count(d).by_timer, 1);
	assert_int_equal(count(d).late, 1);
	reorder_destination_destroy(d);
}

static void a_reroute_whose_tail_has_come_holds_nothing(void **state)
{
	struct reorder_destination *d = make(1);

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 1, 2, 1, 1, 5, 1, 5, 11);
	assert_int_equal(clears, 1);
	expect(d, 101, 12);
	expect(d, 102, 12);
	reorder_destination_destroy(d);
}

static void clear_is_repeated_while_it_seems_lost(void **state)
{
	struct reorder_destination *d = make(1);

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 1, 2, 1, 1, 5, 1, 5, 11);
	frame(d, 1, 3, 1, 1, 6, 2, 6, 12);
	assert_int_equal(clears, 1);
	frame(d, 1, 4, 1, 1, 30, 3, 30, 40);
	assert_int_equal(clears, 2);
	reorder_destination_destroy(d);
}

static void two_queues_keep_two_flows_apart(void **state)
{
	struct reorder_destination *d = make(2);

	frame(d, 2, 2, 1, 1, 5, 1, 3, 11);
	frame(d, 1, 2, 1, 1, 5, 1, 3, 11);
	frame(d, 1, 1, 0, 0, 2, 0, 0, 12);
	expect(d, 101, 14);
	expect(d, 102, 14);
	expect(d, REORDER_NO_PACKET, 14);
	assert_int_equal(count(d).queues_max, 2);
	assert_int_equal(count(d).shared, 0);
	reorder_destination_destroy(d);
}

static void flows_of_one_number_are_told_apart_by_their_keys(void **state)
{
	struct reorder_destination *d = make(1);
	struct reorder_key key = {{77, 0, 0, 0, 0}};
	struct reorder_shim shim = {.sequence = 9};
	struct reorder_packet other = {
		.handle = 7, .size = 100, .id = 1, .key = &key, .shim = &shim};

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 1, 3, 1, 1, 5, 1, 3, 11);
	assert_int_equal(reorder_enqueue(d, &other, START + 12 * US), 0);
	expect(d, 101, 12);
	expect(d, 7, 12);
	expect(d, REORDER_NO_PACKET, 12);
	reorder_destination_destroy(d);
}

/* Beyond the bound packets leave in the order they came, and credit is refused from an eighth of
 * it. */
static void held_bytes_are_bounded_for_each_ingress(void **state)
{
	struct reorder_destination *d = make(1);
	struct reorder_shim shim = {0};
	unsigned n;

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	expect(d, 101, 10);
	for (n = 3; n < 5; n++)
		frame(d, 1, n, 1, 1, 5, (int)n - 2, 3, 11);
	reorder_feedback(d, 0, &shim);
	assert_false(shim.flags & REORDER_NO_CREDIT);
	frame(d, 1, n++, 1, 1, 5, 3, 3, 11);
	reorder_feedback(d, 0, &shim);
	assert_true(shim.flags & REORDER_NO_CREDIT);
	for (; n < 24; n++)
		frame(d, 1, n, 1, 1, 5, (int)n - 2, 3, 11);
	assert_int_equal(count(d).by_bound, 1);
	for (n = 3; n < 24; n++)
		expect(d, 100 + n, 12);
	assert_int_equal(reorder_held_bytes(d), 0);
	reorder_destination_destroy(d);
}

static void a_packet_without_room_is_given_back(void **state)
{
	struct reorder_destination *d = make(1);
	int ret = 0;
	unsigned n;

	for (n = 1; n <= 100; n++)
		assert_int_equal(frame(d, 1, n, 0, 0, n, 0, 0, n + 10), 0);
	ret = frame(d, 1, n, 0, 0, n, 0, 0, n + 10);
	assert_int_equal(ret, -ENOBUFS);
	expect(d, 101, 200);
	assert_int_equal(frame(d, 1, n + 1, 0, 0, n, 0, 0, 201), 0);
	reorder_destination_destroy(d);
}

static void feedback_tells_the_wait_above_the_least(void **state)
{
	struct reorder_destination *d = make(1);
	struct reorder_shim shim = {0};
	int64_t wait[2];

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	frame(d, 2, 1, 1, 0, 1, 0, 0, 19); /* 8 us longer on its way */
	for (int i = 0; i < 2; i++) {
		reorder_feedback(d, 0, &shim);
		assert_true(shim.flags & REORDER_FEEDBACK);
		wait[shim.fb_path] = reorder_wait_decode(shim.fb_wait);
	}
	reorder_feedback(d, 0, &shim);
	assert_false(shim.flags & REORDER_FEEDBACK); /* nothing new */
	assert_int_equal(wait[0], 0);
	assert_in_range(wait[1], 15 * US / 2, 8 * US);
	reorder_destination_destroy(d);
}

/* Paths of one number end in the same queue: a packet of any source tells of it. */
static void a_wait_is_told_to_all_sources(void **state)
{
	struct reorder_destination *d = make(1);
	struct reorder_key key = {{9, 0, 0, 0, 0}};
	struct reorder_shim other = {.t_tx = (uint32_t)(START / REORDER_TICK)}, shim = {0};
	struct reorder_packet packet = {
		.handle = 9, .size = 1000, .source = 1, .id = 9, .key = &key, .shim = &other};

	frame(d, 1, 1, 0, 0, 0, 0, 0, 10);
	reorder_feedback(d, 0, &shim);
	assert_int_equal(shim.fb_wait, 0);
	reorder_enqueue(d, &packet, START + 70 * US); /* its clock is another */
	other.t_tx += (uint32_t)(US / REORDER_TICK);
	reorder_enqueue(d, &packet, START + 79 * US); /* 8 us longer on its way */
	reorder_feedback(d, 0, &shim);
	assert_true(shim.flags & REORDER_FEEDBACK);
	assert_int_equal(shim.fb_path, 0);
	assert_in_range(reorder_wait_decode(shim.fb_wait), 15 * US / 2, 8 * US);
	reorder_destination_destroy(d);
}

static void shims_are_read_as_they_were_written(void **state)
{
	struct reorder_shim shim = {
		REORDER_REROUTED | REORDER_FEEDBACK, 3, 4, 250, 65000, 7, 99, 0xfedcba98, 12, -345};
	struct reorder_shim back;
	uint8_t bytes[REORDER_SHIM_MAX];

	assert_int_equal(reorder_shim_encode(&shim, bytes), REORDER_SHIM_MAX);
	assert_int_equal(reorder_shim_decode(&back, bytes, sizeof(bytes)), REORDER_SHIM_MAX);
	assert_memory_equal(&back, &shim, sizeof(shim));
	assert_int_equal(reorder_shim_decode(&back, bytes, 15), -EINVAL);
	assert_int_equal(reorder_shim_decode(&back, bytes, 11), -EINVAL);
	bytes[0] ^= 0x40;
	assert_int_equal(reorder_shim_decode(&back, bytes, sizeof(bytes)), -EPROTO);
}

static void waits_are_coded_within_a_sixteenth(void **state)
{
	for (int64_t wait = 0; wait < 4000 * US; wait += wait / 7 + 5000) {
		int64_t back = reorder_wait_decode(reorder_wait_encode(wait));

		assert_true(back <= wait);
		assert_true(wait - back <= wait / 16 + 16384);
	}
	assert_int_equal(reorder_wait_encode(-5), 0);
	assert_int_equal(reorder_wait_encode(INT64_MAX), 255);
}

/* All entries that flow 16 may have are of flows in order: it gets one when it is moved. */
static void a_full_table_does_not_put_a_moved_flow_out_of_order(void **state)
{
	struct reorder_destination *d = make(1);

	for (unsigned f = 0; f < 4; f++) {
		frame(d, f, 1, 1, 0, 0, 0, 0, 10 + f);
		expect(d, f * 100 + 1, 10 + f);
	}
	frame(d, 16, 1, 0, 0, 0, 0, 0, 20);
	expect(d, 1601, 20);
	assert_int_equal(count(d).no_entry, 1);
	frame(d, 16, 3, 1, 1, 5, 1, 3, 21);
	expect(d, REORDER_NO_PACKET, 21);
	frame(d, 16, 2, 0, 0, 2, 0, 0, 24);
	expect(d, 1602, 24);
	expect(d, 1603, 24);
	assert_int_equal(count(d).evicted, 1);
	assert_int_equal(clears, 1);
	frame(d, 0, 2, 1, 0, 6, 0, 0, 30); /* it goes on without one */
	expect(d, 2, 30);
	reorder_destination_destroy(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_in_order_pass),
		cmocka_unit_test(a_rerouted_packet_waits_for_the_old_path),
		cmocka_unit_test(a_released_flow_queues_behind_what_is_held),
		cmocka_unit_test(held_packets_follow_the_tail_out_of_the_normal_queue),
		cmocka_unit_test(a_later_packet_of_the_path_proves_the_tail_lost),
		cmocka_unit_test(a_timer_ends_a_hold_that_nothing_else_ends),
		cmocka_unit_test(a_reroute_whose_tail_has_come_holds_nothing),
		cmocka_unit_test(clear_is_repeated_while_it_seems_lost),
		cmocka_unit_test(two_queues_keep_two_flows_apart),
		cmocka_unit_test(flows_of_one_number_are_told_apart_by_their_keys),
		cmocka_unit_test(held_bytes_are_bounded_for_each_ingress),
		cmocka_unit_test(a_packet_without_room_is_given_back),
		cmocka_unit_test(a_full_table_does_not_put_a_moved_flow_out_of_order),
		cmocka_unit_test(feedback_tells_the_wait_above_the_least),
		cmocka_unit_test(a_wait_is_told_to_all_sources),
		cmocka_unit_test(shims_are_read_as_they_were_written),
		cmocka_unit_test(waits_are_coded_within_a_sixteenth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

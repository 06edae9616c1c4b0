// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* How long the service thread leaves the wire to a program that polls (hca/lease.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "hca/lease.h"

static void renew(struct urxe_lease *lease, unsigned times)
{
	while (times--)
		urxe_lease_renewed(lease);
}

static void who_polls_is_left_alone_for_longer_and_longer(void **state)
{
	struct urxe_lease lease = {0};

	urxe_lease_begin(&lease);
	assert_int_equal(lease.span, 50000);
	renew(&lease, 1);
	assert_int_equal(lease.span, 100000);
	renew(&lease, 1);
	assert_int_equal(lease.span, 200000);
	renew(&lease, 1000);
	assert_int_equal(lease.span, 8000000);
}

/* Eight times in a row at first, then four times, then two, then once. */
static void a_lease_that_was_cut_has_to_be_renewed_more_often(void **state)
{
	static const struct {
		unsigned times;
		uint64_t before, after;
	} steps[] = {{8, 100000, 200000},
		     {4, 200000, 400000},
		     {2, 400000, 800000},
		     {1, 800000, 1600000}};
	struct urxe_lease lease = {.span = 400000};

	urxe_lease_ran_out(&lease, true);
	renew(&lease, 7);
	urxe_lease_ran_out(&lease, false);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		renew(&lease, steps[i].times - 1);
		assert_int_equal(lease.span, steps[i].before);
		renew(&lease, 1);
		assert_int_equal(lease.span, steps[i].after);
	}
}

static void a_lease_that_begins_anew_remembers_that_it_was_cut(void **state)
{
	struct urxe_lease lease = {.span = 100000};

	urxe_lease_ran_out(&lease, true);
	assert_int_equal(lease.span, 0);
	urxe_lease_begin(&lease);
	renew(&lease, 7);
	assert_int_equal(lease.span, 50000);
	renew(&lease, 1);
	assert_int_equal(lease.span, 100000);
}

static void a_lease_at_whose_end_packets_waited_is_cut_down_to_none(void **state)
{
	struct urxe_lease lease = {.span = 8000000};

	urxe_lease_ran_out(&lease, true);
	assert_int_equal(lease.span, 2000000);
	urxe_lease_ran_out(&lease, false);
	assert_int_equal(lease.span, 2000000);
	urxe_lease_ran_out(&lease, true);
	assert_int_equal(lease.span, 500000);
	urxe_lease_ran_out(&lease, true);
	assert_int_equal(lease.span, 125000);
	urxe_lease_ran_out(&lease, true);
	assert_int_equal(lease.span, 0);
}

static void a_lease_that_there_is_does_not_begin_anew(void **state)
{
	struct urxe_lease lease = {.span = 400000, .renewals = 7, .needed = 8};

	urxe_lease_begin(&lease);
	assert_int_equal(lease.span, 400000);
	renew(&lease, 1);
	assert_int_equal(lease.span, 800000);
}

/*
 * ib_write_lat: each end polls for its completion, which comes when the other's lease has run out,
 * and then watches its memory until its own has run out. In the time of the one's lease the other
 * renews as many as fit into it.
 */
static void two_programs_that_watch_their_memory_by_turns_come_down_from_long_leases(void **state)
{
	struct urxe_lease end[2] = {{.span = 8000000}, {.span = 8000000}};

	for (unsigned i = 0; i < 100; i++) {
		struct urxe_lease *polls = &end[i % 2], *watches = &end[!(i % 2)];

		for (uint64_t t = polls->span; polls->span && t <= watches->span; t += polls->span)
			urxe_lease_renewed(polls);
		urxe_lease_ran_out(watches, true);
		urxe_lease_begin(watches);
	}
	assert_int_equal(end[0].span, 50000);
	assert_int_equal(end[1].span, 50000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_polls_is_left_alone_for_longer_and_longer),
		cmocka_unit_test(a_lease_that_was_cut_has_to_be_renewed_more_often),
		cmocka_unit_test(a_lease_that_begins_anew_remembers_that_it_was_cut),
		cmocka_unit_test(a_lease_at_whose_end_packets_waited_is_cut_down_to_none),
		cmocka_unit_test(a_lease_that_there_is_does_not_begin_anew),
		cmocka_unit_test(
			two_programs_that_watch_their_memory_by_turns_come_down_from_long_leases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

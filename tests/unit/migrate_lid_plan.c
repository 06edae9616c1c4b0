/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The plan of LIDs where functions share their host's: base and floating LIDs, crossing guests,
 * limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "migrate/migrate.h"

static struct lid_host hosts[3];
static struct lid_guest guests[3];
static struct lid_plan plan;

static int setup(void **state)
{
	for (int i = 0; i < 3; i++) {
		hosts[i] = (struct lid_host){.guid = 0x100 + i, .base = 1 + i};
		guests[i] = (struct lid_guest){.guid = 0x200 + i, .host = LID_PLAN_NO_HOST};
	}
	plan = (struct lid_plan){.size = sizeof(plan),
				 .hosts = hosts,
				 .num_hosts = 3,
				 .guests = guests,
				 .num_guests = 2,
				 .linear_cap = 49152};
	return 0;
}

static void a_guest_s_lid_replaces_the_base_lid(void **state)
{
	guests[0].host = 0;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(hosts[0].lid, guests[0].floating);
	assert_int_equal(hosts[1].lid, 2);
	assert_int_not_equal(guests[0].floating, guests[1].floating);
	/* It moves: the source has its base LID again. */
	guests[0].host = 1;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(hosts[0].lid, 1);
	assert_int_equal(hosts[1].lid, guests[0].floating);
}

static void two_that_cross_are_one_plan(void **state)
{
	uint16_t floating[2];

	guests[0].host = 0;
	guests[1].host = 1;
	assert_int_equal(lid_plan_make(&plan), 0);
	floating[0] = guests[0].floating;
	floating[1] = guests[1].floating;
	guests[0].host = 1;
	guests[1].host = 0;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(hosts[0].lid, floating[1]);
	assert_int_equal(hosts[1].lid, floating[0]);
}

static void a_second_guest_on_a_host_is_refused(void **state)
{
	guests[0].host = 1;
	guests[1].host = 1;
	assert_int_equal(lid_plan_make(&plan), -EBUSY);
	assert_int_equal(plan.culprit, 1);
}

static void floating_lids_go_downwards_from_where_they_are_told(void **state)
{
	plan.floating_from = 49151;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(guests[0].floating, 49151);
	assert_int_equal(guests[1].floating, 49150);
}

static void by_default_they_lie_just_above_the_base_lids(void **state)
{
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(plan.first_floating, 6);
	assert_int_equal(guests[0].floating, 6);
	assert_int_equal(guests[1].floating, 5);
}

static void small_switches_clamp_them(void **state)
{
	plan.floating_from = 49151;
	plan.linear_cap = 4096;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(guests[0].floating, 4095);
}

static void they_are_aligned_to_the_lmc(void **state)
{
	plan.lmc = 2;
	for (int i = 0; i < 3; i++)
		hosts[i].base = 4 + 4 * i;
	plan.floating_from = 49151;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(guests[0].floating, 49148);
	assert_int_equal(guests[1].floating, 49144);
	plan.floating_from = 0;
	guests[0].floating = guests[1].floating = 0;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(guests[0].floating, 24);
	guests[0].floating = 25;
	assert_int_equal(lid_plan_make(&plan), -EINVAL);
}

static void lids_of_others_are_never_given(void **state)
{
	struct guid2lid taken;

	guid2lid_init(&taken);
	assert_int_equal(guid2lid_set(&taken, &(struct guid2lid_entry){0x300, 40, 49}), 0);
	plan.taken = &taken;
	plan.floating_from = 45;
	assert_int_equal(lid_plan_make(&plan), 0);
	assert_int_equal(guests[0].floating, 39);
	plan.linear_cap = 4;
	guests[0].floating = guests[1].floating = 0;
	assert_int_equal(lid_plan_make(&plan), -ENOSPC);
	guid2lid_destroy(&taken);
}

static void a_plan_has_the_size_that_the_program_knows(void **state)
{
	struct {
		struct lid_plan known;
		uint64_t more;
	} longer;

	plan.culprit = 77;
	plan.size = offsetof(struct lid_plan, culprit);
	guests[0].host = guests[1].host = 0;
	assert_int_equal(lid_plan_make(&plan), -EBUSY);
	assert_true(plan.first_floating);
	assert_int_equal(plan.culprit, 77);
	plan.size = 0;
	assert_int_equal(lid_plan_make(&plan), -EINVAL);

	longer.known = plan;
	longer.known.size = sizeof(longer);
	longer.more = 0;
	assert_int_equal(lid_plan_make(&longer.known), -EBUSY);
	assert_int_equal(longer.known.culprit, 1);
	assert_int_equal(longer.known.size, sizeof(longer));
	longer.more = 1;
	assert_int_equal(lid_plan_make(&longer.known), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_guest_s_lid_replaces_the_base_lid, setup),
		cmocka_unit_test_setup(two_that_cross_are_one_plan, setup),
		cmocka_unit_test_setup(a_second_guest_on_a_host_is_refused, setup),
		cmocka_unit_test_setup(floating_lids_go_downwards_from_where_they_are_told, setup),
		cmocka_unit_test_setup(by_default_they_lie_just_above_the_base_lids, setup),
		cmocka_unit_test_setup(small_switches_clamp_them, setup),
		cmocka_unit_test_setup(they_are_aligned_to_the_lmc, setup),
		cmocka_unit_test_setup(lids_of_others_are_never_given, setup),
		cmocka_unit_test_setup(a_plan_has_the_size_that_the_program_knows, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The matching list of a tag matching SRQ (hca/tag_list.h), beside a list that is searched entry by
 * entry. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "hca/tag_list.h"

#define ALL UINT64_MAX

static void the_oldest_match_is_taken(void **state)
{
	struct tag_list *list = tag_list_create(8);
	uint32_t handle;
	int first = tag_list_add(list, 5, ALL, &handle), any = tag_list_add(list, 0, 0, &handle);
	int second = tag_list_add(list, 5, ALL, &handle);

	tag_list_admit(list);
	assert_int_equal(tag_list_take(list, 5), first);
	assert_int_equal(tag_list_take(list, 5), any);
	assert_int_equal(tag_list_take(list, 5), second);
	assert_int_equal(tag_list_take(list, 5), -ENOENT);
	tag_list_destroy(list);
}

static void what_is_not_admitted_waits(void **state)
{
	struct tag_list *list = tag_list_create(8);
	uint32_t first, second;

	tag_list_add(list, 5, ALL, &first);
	assert_int_equal(tag_list_take(list, 5), -ENOENT);
	tag_list_admit(list);
	tag_list_add(list, 5, ALL, &second);
	assert_int_equal(tag_list_remove(list, first), 0);
	assert_int_equal(tag_list_take(list, 5), -ENOENT);
	tag_list_admit(list);
	assert_int_equal(tag_list_take(list, 5), 1);
	tag_list_destroy(list);
}

static void a_tag_with_bits_outside_its_mask_matches_nothing(void **state)
{
	struct tag_list *list = tag_list_create(8);
	uint32_t handle;

	assert_true(tag_list_add(list, 0x105, 0xff, &handle) >= 0);
	tag_list_admit(list);
	assert_int_equal(tag_list_take(list, 0x105), -ENOENT);
	assert_int_equal(tag_list_take(list, 5), -ENOENT);
	tag_list_destroy(list);
}

static void a_handle_does_not_name_the_next_entry(void **state)
{
	struct tag_list *list = tag_list_create(1);
	uint32_t old, next;

	assert_int_equal(tag_list_add(list, 1, ALL, &old), 0);
	assert_int_equal(tag_list_add(list, 2, ALL, &next), -ENOMEM);
	tag_list_admit(list);
	assert_int_equal(tag_list_take(list, 1), 0);
	assert_int_equal(tag_list_remove(list, old), -ENOENT);
	assert_int_equal(tag_list_add(list, 2, ALL, &next), 0);
	assert_int_not_equal(old, next);
	assert_int_equal(tag_list_remove(list, old), -ENOENT);
	assert_int_equal(tag_list_remove(list, 0xffffffff), -ENOENT);
	assert_int_equal(tag_list_remove(list, next), 0);
	assert_int_equal(tag_list_take(list, 2), -ENOENT);
	tag_list_destroy(list);
}

static void a_list_has_a_size(void **state)
{
	assert_null(tag_list_create(0));
	assert_null(tag_list_create((1u << 20) + 1));
}

/* ---- the same, searched entry by entry ---- */

#define ENTRIES 64

static struct {
	uint64_t tag, mask, order;
	uint32_t handle;
	bool used;
} model[ENTRIES];

static int model_take(uint64_t tag)
{
	int best = -ENOENT;

	for (int i = 0; i < ENTRIES; i++)
		if (model[i].used && (tag & model[i].mask) == model[i].tag &&
		    (best < 0 || model[i].order < model[best].order))
			best = i;
	if (best >= 0)
		model[best].used = false;
	return best;
}

static void random_operations_do_as_a_plain_list_does(void **state)
{
	static const uint64_t masks[] = {ALL, 0, 0xf, 0xf0, 0xff00000000000000};
	struct tag_list *list = tag_list_create(ENTRIES);
	uint64_t order = 0;

	for (int i = 0; i < ENTRIES; i++)
		model[i].handle = UINT32_MAX; /* of none */
	srandom(1);
	for (int round = 0; round < 200000; round++) {
		uint64_t mask = masks[random() % 5], tag = random() % 32 & mask;
		int place;

		switch (random() % 5) {
		case 0:
		case 1: {
			uint32_t handle;

			place = tag_list_add(list, tag, mask, &handle);
			tag_list_admit(list);
			if (place < 0) {
				for (int i = 0; i < ENTRIES; i++)
					assert_true(model[i].used);
				break;
			}
			assert_false(model[place].used);
			model[place].tag = tag;
			model[place].mask = mask;
			model[place].order = order++;
			model[place].handle = handle;
			model[place].used = true;
			memcpy(tag_list_room(list, place), &model[place].order, sizeof(order));
			break;
		}
		case 2:
			place = random() % ENTRIES;
			assert_int_equal(tag_list_remove(list, model[place].handle),
					 model[place].used ? place : -ENOENT);
			model[place].used = false;
			break;
		default:
			tag = random() % 32;
			place = tag_list_take(list, tag);
			assert_int_equal(place, model_take(tag));
			if (place >= 0)
				assert_memory_equal(tag_list_room(list, place), &model[place].order,
						    sizeof(order));
		}
	}
	tag_list_destroy(list);
}

/* ---- what a search costs ---- */

static int by_value(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1 : 1;
}

/* CPU time of taking the newest of that many entries and adding it again, the median of some runs.
 * */
static double cost(uint32_t entries)
{
	struct tag_list *list = tag_list_create(entries);
	double runs[9];
	uint32_t handle;

	for (uint32_t i = 0; i < entries; i++)
		tag_list_add(list, i, ALL, &handle);
	tag_list_admit(list);
	for (int run = 0; run < 9; run++) {
		struct timespec start, end;

		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
		for (int i = 0; i < 20000; i++) {
			assert_true(tag_list_take(list, entries - 1) >= 0);
			tag_list_add(list, entries - 1, ALL, &handle);
			tag_list_admit(list);
		}
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
		runs[run] = (end.tv_sec - start.tv_sec) * 1e9 + end.tv_nsec - start.tv_nsec;
	}
	tag_list_destroy(list);
	qsort(runs, 9, sizeof(runs[0]), by_value);
	return runs[4];
}

/* A search from entry to entry would cost a thousand times as much. */
static void a_long_list_is_searched_as_fast_as_a_short_one(void **state)
{
	assert_true(cost(10000) < 10 * cost(10));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_match_is_taken),
		cmocka_unit_test(what_is_not_admitted_waits),
		cmocka_unit_test(a_tag_with_bits_outside_its_mask_matches_nothing),
		cmocka_unit_test(a_handle_does_not_name_the_next_entry),
		cmocka_unit_test(a_list_has_a_size),
		cmocka_unit_test(random_operations_do_as_a_plain_list_does),
		cmocka_unit_test(a_long_list_is_searched_as_fast_as_a_short_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* How large payloads go to a neighbour (wire/way.h): the ways are tried, and the fastest is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "wire/way.h"

#define RECORD 32768u
#define LAG    50 /* records that the neighbour has not taken */

/* Two processes: what a KiB takes by each way, and how often each was used. */
struct pair {
	struct urxe_ways ways;
	unsigned ticks[URXE_NUM_WAYS];
	bool may_refer;
	uint64_t now;
	uint32_t head, taken;
	uint8_t sent_by[256];
	unsigned used[URXE_NUM_WAYS];
};

static void take(struct pair *p)
{
	p->now += (uint64_t)p->ticks[p->sent_by[p->taken++ % 256]] * (RECORD >> 10);
}

static void send(struct pair *p, unsigned records)
{
	memset(p->used, 0, sizeof(p->used));
	while (records--) {
		uint8_t way = p->ways.way;

		if (way == URXE_WAY_REFER && !p->may_refer)
			way = URXE_WAY_COPY;
		p->used[way]++;
		p->sent_by[p->head++ % 256] = way;
		if (p->head - p->taken > LAG)
			take(p);
		urxe_way_sent(&p->ways, RECORD, way == URXE_WAY_REFER, p->head, p->taken, p->now);
	}
}

static struct pair between(unsigned copy, unsigned past_caches, unsigned refer)
{
	return (struct pair){.ticks = {copy, past_caches, refer}, .may_refer = true, .now = 1};
}

static void the_fastest_way_is_used_and_the_others_now_and_then(void **state)
{
	for (unsigned fastest = 0; fastest < URXE_NUM_WAYS; fastest++) {
		struct pair p = between(fastest == 0 ? 100 : 150, fastest == 1 ? 100 : 150,
					fastest == 2 ? 100 : 150);

		send(&p, 2000);
		assert_int_equal(p.ways.best, fastest);
		for (unsigned way = 0; way < URXE_NUM_WAYS; way++)
			assert_in_range(p.ways.cost[way], p.ticks[way] * 9 / 10,
					p.ticks[way] * 11 / 10);
		send(&p, 100000);
		assert_in_range(p.used[fastest], 97000, 99900);
		for (unsigned way = 0; way < URXE_NUM_WAYS; way++)
			assert_true(p.used[way] >= 50);
	}
}

static void a_way_that_takes_twice_as_long_is_tried_rarely(void **state)
{
	struct pair p = between(100, 250, 400);

	send(&p, 2000);
	send(&p, 100000);
	assert_in_range(p.used[URXE_WAY_COPY], 98500, 99999);
	assert_true(p.used[URXE_WAY_PAST_CACHES] > 0);
}

/* The machine has moved the processors. */
static void a_way_that_becomes_faster_is_found(void **state)
{
	struct pair p = between(100, 150, 300);

	send(&p, 10000);
	assert_int_equal(p.ways.best, URXE_WAY_COPY);
	p.ticks[URXE_WAY_REFER] = 50;
	send(&p, 500000);
	assert_int_equal(p.ways.best, URXE_WAY_REFER);
	p.ticks[URXE_WAY_REFER] = 300;
	send(&p, 2000);
	assert_int_equal(p.ways.best, URXE_WAY_COPY);
}

static void small_differences_change_nothing(void **state)
{
	struct pair p = between(100, 95, 90);

	send(&p, 100000);
	assert_int_equal(p.ways.best, URXE_WAY_COPY);
}

/* The program stops between two messages; a trial has the time of its pause in it. */
static void a_pause_changes_nothing(void **state)
{
	struct pair p = between(100, 150, 150);

	for (unsigned i = 0; i < 50; i++) {
		send(&p, 2000);
		assert_int_equal(p.ways.best, URXE_WAY_COPY);
		if (i > 1)
			p.now += 1u << 30;
	}
}

static void what_cannot_be_referred_to_is_copied(void **state)
{
	struct pair p = between(150, 200, 1);

	p.may_refer = false;
	send(&p, 2000);
	assert_int_equal(p.ways.best, URXE_WAY_COPY);
	assert_int_equal(p.ways.cost[URXE_WAY_REFER], URXE_WAY_NEVER);
	p.may_refer = true;
	send(&p, 500000);
	assert_int_equal(p.ways.best, URXE_WAY_REFER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fastest_way_is_used_and_the_others_now_and_then),
		cmocka_unit_test(a_way_that_takes_twice_as_long_is_tried_rarely),
		cmocka_unit_test(a_way_that_becomes_faster_is_found),
		cmocka_unit_test(small_differences_change_nothing),
		cmocka_unit_test(a_pause_changes_nothing),
		cmocka_unit_test(what_cannot_be_referred_to_is_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

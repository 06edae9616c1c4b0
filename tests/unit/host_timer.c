// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The timer wheel: never early, at most a slot late when it is run in time, and safe against
 * whatever a callback does to other timers. The clock is the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/timer.h"

#define SLOT  (1ull << URXE_WHEEL_SHIFT)
#define TURN  (SLOT * URXE_WHEEL_SLOTS)
#define START 7777777777777ull /* in the middle of a slot and of a turn */

struct probe {
	struct urxe_timer timer;
	uint64_t deadline; /* as last armed */
	uint64_t fired_at; /* 0: not yet */
	unsigned fired;
	struct probe *victim; /* disarmed when this one fires */
	uint64_t again;	      /* re-armed so much later, once */
};

static struct urxe_wheel wheel;

static void arm(struct probe *p, uint64_t deadline)
{
	p->deadline = deadline;
	p->fired_at = 0;
	urxe_timer_arm(&wheel, &p->timer, deadline);
}

static void fire(struct urxe_timer *timer, uint64_t now)
{
	struct probe *p = caa_container_of(timer, struct probe, timer);

	assert_int_equal(timer->deadline, 0);
	assert_true(now >= p->deadline);
	p->fired++;
	p->fired_at = now;
	if (p->victim)
		urxe_timer_disarm(&wheel, &p->victim->timer);
	if (p->again) {
		uint64_t later = p->again;

		p->again = 0;
		arm(p, now + later);
	}
}

static void run(uint64_t now)
{
	urxe_wheel_run(&wheel, now, fire);
}

static int setup(void **state)
{
	urxe_wheel_init(&wheel, START);
	return 0;
}

static void test_nothing_armed(void **state)
{
	struct probe p = {0};

	assert_true(urxe_wheel_next(&wheel) == UINT64_MAX);
	run(START + 10 * TURN);
	urxe_timer_disarm(&wheel, &p.timer);
	assert_int_equal(wheel.armed, 0);
	assert_true(urxe_wheel_next(&wheel) == UINT64_MAX);
}

/* Deadlines around the edges of slots and turns; the clock goes in steps of less than a slot. */
static void test_never_early_hardly_late(void **state)
{
	static const uint64_t spans[] = {
		0,
		1,
		2,
		SLOT - 1,
		SLOT,
		SLOT + 1,
		3 * SLOT,
		TURN / 2,
		TURN - 1,
		TURN,
		TURN + 1,
		TURN + SLOT,
		2 * TURN,
		5 * TURN,
		17 * SLOT + 5,
		3 * TURN + 999,
	};
	static const uint64_t steps[] = {1000, SLOT / 3, SLOT - 1, SLOT};

	for (size_t s = 0; s < sizeof(spans) / sizeof(spans[0]); s++) {
		for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
			struct probe p = {0};
			uint64_t now = START;

			if (steps[k] == 1000 && spans[s] > 4 * SLOT)
				continue;
			urxe_wheel_init(&wheel, now);
			arm(&p, START + spans[s]);
			while (!p.fired) {
				assert_true(now <= p.deadline + SLOT + steps[k]);
				now += steps[k];
				run(now); /* fire() checks that it is not early */
			}
			assert_int_equal(wheel.armed, 0);
			run(now + 3 * TURN);
			assert_int_equal(p.fired, 1);
		}
	}
}

/* Whoever sleeps until next() serves every timer in time, and is not woken without need. */
static void test_next_is_enough(void **state)
{
	static struct probe probes[200];
	uint64_t now = START;
	unsigned wakes = 0, left = 200;

	memset(probes, 0, sizeof(probes));
	srand(1);
	for (unsigned i = 0; i < 200; i++)
		arm(&probes[i], START + (uint64_t)rand() % (4 * TURN));
	while (left) {
		uint64_t next = urxe_wheel_next(&wheel);

		assert_true(next != UINT64_MAX);
		for (unsigned i = 0; i < 200; i++)
			if (!probes[i].fired)
				assert_true(next <= probes[i].deadline + SLOT);
		if (next > now)
			now = next;
		run(now);
		left = 0;
		for (unsigned i = 0; i < 200; i++)
			left += !probes[i].fired;
		assert_true(++wakes < 10000);
	}
	for (unsigned i = 0; i < 200; i++)
		assert_true(probes[i].fired_at <= probes[i].deadline + SLOT);
	assert_true(urxe_wheel_next(&wheel) == UINT64_MAX);
}

/* Timers are mostly disarmed: a sleeper that they have been for is not woken for that. */
static void test_disarmed_timer_wakes_nobody(void **state)
{
	struct probe soon[3] = {0}, late = {0};

	for (unsigned i = 0; i < 3; i++)
		arm(&soon[i], START + (2 + 70 * i) * SLOT);
	arm(&late, START + 300 * SLOT);
	for (unsigned i = 0; i < 3; i++)
		urxe_timer_disarm(&wheel, &soon[i].timer);
	assert_in_range(urxe_wheel_next(&wheel), START + 299 * SLOT, START + 301 * SLOT);
	arm(&soon[1], START + 72 * SLOT);
	assert_in_range(urxe_wheel_next(&wheel), START + 71 * SLOT, START + 73 * SLOT);
}

/* A timer that is far away may make the sleeper look once a turn, not once a slot. */
static void test_far_timer_is_cheap(void **state)
{
	struct probe p = {0};
	uint64_t now = START;
	unsigned wakes = 0;

	arm(&p, START + 20 * TURN);
	while (!p.fired) {
		uint64_t next = urxe_wheel_next(&wheel);

		assert_true(next > now || !wakes);
		now = next > now ? next : now;
		run(now);
		wakes++;
	}
	assert_in_range(wakes, 1, 25);
}

/* Nobody ran the wheel for long: all that is due fires at once, and only that. */
static void test_long_pause(void **state)
{
	struct probe due[64], later = {0};

	memset(due, 0, sizeof(due));
	for (unsigned i = 0; i < 64; i++)
		arm(&due[i], START + i * (TURN / 10));
	arm(&later, START + 50 * TURN);
	run(START + 49 * TURN);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(due[i].fired, 1);
	assert_int_equal(later.fired, 0);
	assert_int_equal(wheel.armed, 1);
	run(START + 50 * TURN + SLOT);
	assert_int_equal(later.fired, 1);
}

static void test_rearm_moves(void **state)
{
	struct probe p = {0};

	arm(&p, START + 5 * SLOT);
	arm(&p, START + 2 * TURN); /* away */
	assert_int_equal(wheel.armed, 1);
	run(START + TURN);
	assert_int_equal(p.fired, 0);
	arm(&p, START + TURN + 3 * SLOT); /* nearer */
	assert_int_equal(wheel.armed, 1);
	run(START + TURN + 4 * SLOT);
	assert_int_equal(p.fired, 1);
	run(START + 4 * TURN);
	assert_int_equal(p.fired, 1);
}

static void test_past_deadline(void **state)
{
	struct probe p = {0}, zero = {0};

	run(START + 10 * TURN);
	arm(&p, START);
	arm(&zero, 0);
	assert_true(urxe_wheel_next(&wheel) <= START + 10 * TURN + SLOT);
	run(START + 10 * TURN + SLOT);
	assert_int_equal(p.fired, 1);
	assert_int_equal(zero.fired, 1);
}

static void test_disarm(void **state)
{
	struct probe a = {0}, b = {0};

	arm(&a, START + SLOT);
	arm(&b, START + SLOT);
	urxe_timer_disarm(&wheel, &a.timer);
	urxe_timer_disarm(&wheel, &a.timer);
	assert_int_equal(a.timer.deadline, 0);
	assert_int_equal(wheel.armed, 1);
	run(START + 3 * SLOT);
	assert_int_equal(a.fired, 0);
	assert_int_equal(b.fired, 1);
}

/* In the order of arming: the first takes the second, due in the same slot, away. */
static void test_disarm_within_callback(void **state)
{
	struct probe a = {0}, b = {0}, c = {0}, far = {0};

	a.victim = &b;
	c.victim = &far;
	arm(&a, START + SLOT);
	arm(&b, START + SLOT);
	arm(&c, START + SLOT);
	arm(&far, START + SLOT + TURN); /* same slot, a turn later */
	run(START + 3 * SLOT);
	assert_int_equal(a.fired, 1);
	assert_int_equal(b.fired, 0);
	assert_int_equal(c.fired, 1);
	assert_int_equal(wheel.armed, 0);
	run(START + 3 * TURN);
	assert_int_equal(b.fired, 0);
	assert_int_equal(far.fired, 0);
}

/* Into the slot that is being run, the next one, and the same one a turn later. */
static void test_rearm_within_callback(void **state)
{
	static const uint64_t later[] = {1, SLOT, TURN, 3 * TURN};

	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		struct probe p = {.again = later[i]};
		uint64_t now = START;

		urxe_wheel_init(&wheel, now);
		arm(&p, START + 5);
		while (p.fired < 2) {
			now += SLOT;
			run(now);
			assert_true(now <= START + later[i] + 6 * SLOT);
		}
		assert_int_equal(wheel.armed, 0);
	}
}

/* Random arming, moving and disarming against the plain truth. */
static void test_random(void **state)
{
	static struct probe probes[64];
	uint64_t now = START;

	memset(probes, 0, sizeof(probes));
	srand(42);
	for (unsigned round = 0; round < 200000; round++) {
		struct probe *p = &probes[rand() % 64];
		unsigned armed = 0;

		if (rand() % 4)
			arm(p, now + (uint64_t)rand() % (rand() % 8 ? 20 * SLOT : 3 * TURN));
		else
			urxe_timer_disarm(&wheel, &p->timer);
		now += (uint64_t)rand() % (rand() % 1000 ? SLOT : 2 * TURN);
		run(now);
		for (unsigned i = 0; i < 64; i++) {
			armed += probes[i].timer.deadline != 0;
			/* The slot of a deadline is looked at once it is over. */
			if (probes[i].timer.deadline)
				assert_true(probes[i].deadline + SLOT > now);
		}
		assert_int_equal(wheel.armed, armed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nothing_armed, setup),
		cmocka_unit_test_setup(test_never_early_hardly_late, setup),
		cmocka_unit_test_setup(test_next_is_enough, setup),
		cmocka_unit_test_setup(test_disarmed_timer_wakes_nobody, setup),
		cmocka_unit_test_setup(test_far_timer_is_cheap, setup),
		cmocka_unit_test_setup(test_long_pause, setup),
		cmocka_unit_test_setup(test_rearm_moves, setup),
		cmocka_unit_test_setup(test_past_deadline, setup),
		cmocka_unit_test_setup(test_disarm, setup),
		cmocka_unit_test_setup(test_disarm_within_callback, setup),
		cmocka_unit_test_setup(test_rearm_within_callback, setup),
		cmocka_unit_test_setup(test_random, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

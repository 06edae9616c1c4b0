// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Timers: see timer.h. One thread.
 */
#include "fabric/timer.h"

#include <stddef.h>
#include <string.h>

void timers_init(struct timers *t, uint64_t now, void *arg)
{
	memset(t, 0, sizeof(*t));
	t->done = now;
	t->arg = arg;
}

void timer_stop(struct timers *t, struct timer *timer)
{
	unsigned slot = timer->when % TIMER_SLOTS;

	if (!timer->at)
		return;
	*timer->at = timer->next;
	if (timer->next)
		timer->next->at = timer->at;
	timer->at = NULL;
	t->running--;
	if (!t->slots[slot])
		t->used[slot / 64] &= ~(1ull << slot % 64);
}

void timer_start(struct timers *t, struct timer *timer, uint64_t when, timer_fn *fn)
{
	unsigned slot;

	timer_stop(t, timer);
	if (when <= t->done)
		when = t->done + 1;
	slot = when % TIMER_SLOTS;
	timer->when = when;
	timer->fn = fn;
	timer->next = t->slots[slot];
	timer->at = &t->slots[slot];
	if (timer->next)
		timer->next->at = &timer->next;
	t->slots[slot] = timer;
	t->used[slot / 64] |= 1ull << slot % 64;
	t->running++;
}

/* A function may start and stop any timer: begin anew behind each. */
static void run_slot(struct timers *t, unsigned slot)
{
	struct timer *timer = t->slots[slot];

	while (timer) {
		if (timer->when > t->done) {
			timer = timer->next;
			continue;
		}
		timer_stop(t, timer);
		timer->fn(timer, t->arg);
		timer = t->slots[slot];
	}
}

void timers_run(struct timers *t, uint64_t now)
{
	uint64_t slots = now > t->done ? now - t->done : 0;
	uint64_t first = t->done + 1;

	if (!slots)
		return;
	if (slots > TIMER_SLOTS)
		slots = TIMER_SLOTS;
	t->done = now;
	for (uint64_t i = 0; i < slots && t->running; i++) {
		unsigned slot = (first + i) % TIMER_SLOTS;

		if (t->used[slot / 64] & 1ull << slot % 64)
			run_slot(t, slot);
	}
}

int timers_wait(const struct timers *t, uint64_t now)
{
	uint64_t first = t->done + 1;

	if (!t->running)
		return -1;
	for (unsigned i = 0; i < 1000; i++) {
		unsigned slot = (first + i) % TIMER_SLOTS;

		if (!t->used[slot / 64] && slot % 64 == 0) {
			i += 63;
			continue;
		}
		if (t->used[slot / 64] & 1ull << slot % 64)
			return first + i > now ? (int)(first + i - now) : 0;
	}
	return 1000;
}

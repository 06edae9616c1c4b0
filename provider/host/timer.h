/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The timer wheel: 1,024 slots of 2^17 ns (131 µs), so one turn is 134 ms. A timer that is due
 * later stays in its slot for further turns. Arming, disarming and finding the next deadline are
 * O(1) apart from a scan of 16 words. A wheel has no lock of its own: its owner serializes all
 * calls on it. In liburxe the engine lock guards both: the engine's and the connection manager's.
 */
#ifndef URXE_HOST_TIMER_H
#define URXE_HOST_TIMER_H

#include <stdint.h>
#include <urcu/list.h>

#define URXE_WHEEL_SLOTS 1024
#define URXE_WHEEL_SHIFT 17

struct urxe_timer {
	struct cds_list_head node;
	uint64_t deadline; /* CLOCK_MONOTONIC, ns; 0: not armed */
};

struct urxe_wheel {
	struct cds_list_head slots[URXE_WHEEL_SLOTS];
	uint64_t used[URXE_WHEEL_SLOTS / 64]; /* a bit per slot that may hold timers */
	uint64_t tick;			      /* all slots before it have been looked at */
	unsigned armed;
};

typedef void urxe_timer_fn(struct urxe_timer *timer, uint64_t now);

void urxe_wheel_init(struct urxe_wheel *wheel, uint64_t now);
/* Arms, or moves to another deadline. A deadline in the past fires at the next run. */
void urxe_timer_arm(struct urxe_wheel *wheel, struct urxe_timer *timer, uint64_t deadline);
void urxe_timer_disarm(struct urxe_wheel *wheel, struct urxe_timer *timer);
/* Calls fn for each timer that is due, disarmed before the call. */
void urxe_wheel_run(struct urxe_wheel *wheel, uint64_t now, urxe_timer_fn *fn);
/* A time by which urxe_wheel_run() should be called: not after the next deadline by more than a
 * slot; UINT64_MAX when nothing is armed. */
uint64_t urxe_wheel_next(struct urxe_wheel *wheel);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Timers by the millisecond: a wheel of 4,096 lists, one for each millisecond, and a bitmap of
 * those that are not empty. A timer further away than the wheel goes round stays in its list for
 * another turn. Starting and stopping cost the same however many there are, for each request that
 * is under way has one.
 *
 * One thread.
 */
#ifndef URXE_FABRIC_TIMER_H
#define URXE_FABRIC_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define TIMER_SLOTS 4096

struct timer;
typedef void timer_fn(struct timer *timer, void *arg);

struct timer {
	struct timer *next, **at; /* at: NULL while it is not running */
	uint64_t when;
	timer_fn *fn;
};

struct timers {
	struct timer *slots[TIMER_SLOTS];
	uint64_t used[TIMER_SLOTS / 64];
	uint64_t done; /* everything up to this millisecond has been run */
	void *arg;     /* for the functions */
	unsigned running;
};

/* now, when: in ms, of one clock. A timer that is running is moved. */
void timers_init(struct timers *t, uint64_t now, void *arg);
void timer_start(struct timers *t, struct timer *timer, uint64_t when, timer_fn *fn);
void timer_stop(struct timers *t, struct timer *timer);
/* Runs what is due. */
void timers_run(struct timers *t, uint64_t now);
/* How long to sleep, in ms, at most 1000; -1: as long as you like. */
int timers_wait(const struct timers *t, uint64_t now);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Threads that wait for completions. All CQs of a NIC handle have one completion channel, because a
 * descriptor for each of a thousand VIs would be more than a process may have. One of the waiting
 * threads, the leader, waits for the channel; it wakes those whose CQ an event is for, and hands
 * its place on when its own has come.
 */
#ifndef VIPL_WAIT_H
#define VIPL_WAIT_H

#include <stdbool.h>
#include <time.h>

#include "vipl/vipl.h"

struct vipl_nic;
struct vipl_cq;

struct vipl_deadline {
	bool infinite;
	struct timespec at; /* CLOCK_MONOTONIC */
};

struct vipl_deadline vipl_deadline(VIP_ULONG timeout);
bool vipl_deadline_passed(const struct vipl_deadline *deadline);
bool vipl_deadline_before(const struct vipl_deadline *a, const struct vipl_deadline *b);
/* For poll(): milliseconds, rounded up; -1: infinite. */
int vipl_deadline_left(const struct vipl_deadline *deadline);

/* Makes an eventfd readable. */
void vipl_ring(int fd);

/*
 * Until an event of an armed CQ has come, or something else has completed there. 0; -ETIMEDOUT;
 * -ECANCELED: the NIC closes.
 */
int vipl_wait(struct vipl_cq *cq, const struct vipl_deadline *deadline);

/* Wakes the threads that wait for a CQ; NULL: all. */
void vipl_wake(struct vipl_nic *nic, struct vipl_cq *cq);

/* Takes the events that the channel has, without waiting. Called without locks. */
void vipl_wait_take(struct vipl_nic *nic);

#endif

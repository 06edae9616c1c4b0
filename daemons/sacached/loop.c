/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The loop; loop.h draws when it looks and when it sleeps. In its own thread.
 */
#include <sched.h>

#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/clock.h"
#include "daemons/sacached/loop.h"

#define QUICK_REQUESTS 4

/* One round. False: the end. */
static bool turn(struct sacached *d, int how)
{
	return event_base_loop(d->base, how) >= 0 && !event_base_got_break(d->base);
}

/* Looks for requests until none comes for so long. False: the end. */
static bool look(struct sacached *d, const uint64_t *requests, uint64_t last)
{
	uint64_t seen = *requests, now = last;

	while (now - last <= d->config.spin) {
		sched_yield();
		if (!turn(d, EVLOOP_NONBLOCK))
			return false;
		now = clock_us();
		if (*requests != seen)
			last = now;
		seen = *requests;
	}
	return true;
}

void loop_run(struct sacached *d)
{
	const uint64_t *requests = &acm_server_stats(d->acm)->requests[ACM_OP_RESOLVE];
	uint64_t seen = *requests, last = 0;
	unsigned quick = 0;

	while (turn(d, EVLOOP_ONCE)) {
		uint64_t now;

		if (*requests == seen)
			continue;
		seen = *requests;
		now = clock_us();
		quick = now - last < 4 * d->config.spin ? quick + 1 : 0;
		last = now;
		if (quick < QUICK_REQUESTS)
			continue;
		if (!look(d, requests, last))
			break;
		quick = 0;
		seen = *requests;
		last = clock_us();
	}
}

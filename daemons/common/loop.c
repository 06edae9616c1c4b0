/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The event loop; loop.h draws when it polls and when it sleeps. In its own thread.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "daemons/common/loop.h"

#define QUICK_REQUESTS 4

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct loop *loop = arg;

	if (number == SIGHUP)
		loop->reload(loop->arg);
	else
		loop_quit(loop);
}

int loop_init(struct loop *loop, void (*reload)(void *arg), void *arg)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};

	*loop = (struct loop){.base = event_base_new(), .reload = reload, .arg = arg};
	for (unsigned i = 0; loop->base && i < 3; i++) {
		loop->signals[i] = evsignal_new(loop->base, numbers[i], on_signal, loop);
		if (!loop->signals[i] || event_add(loop->signals[i], NULL))
			loop_destroy(loop);
	}
	if (loop->base)
		return 0;
	log_error("no event loop: no memory or descriptor left");
	return -ENOMEM;
}

void loop_destroy(struct loop *loop)
{
	for (unsigned i = 0; i < 3; i++)
		if (loop->signals[i])
			event_free(loop->signals[i]);
	if (loop->base)
		event_base_free(loop->base);
	memset(loop, 0, sizeof(*loop));
}

void loop_quit(struct loop *loop)
{
	event_base_loopbreak(loop->base);
}

/* One round. False: the end. */
static bool run_once(struct loop *loop, int how)
{
	return event_base_loop(loop->base, how) >= 0 && !event_base_got_break(loop->base);
}

/* Polls until no request has come for that long. False: the end. */
static bool poll_requests(struct loop *loop, const uint64_t *requests, const unsigned *spin,
			  uint64_t last)
{
	uint64_t seen = *requests, now = last;

	while (now - last <= *spin) {
		sched_yield();
		if (!run_once(loop, EVLOOP_NONBLOCK))
			return false;
		now = clock_us();
		if (*requests != seen)
			last = now;
		seen = *requests;
	}
	return true;
}

void loop_run(struct loop *loop, const uint64_t *requests, const unsigned *spin)
{
	uint64_t seen = requests ? *requests : 0, last = 0;
	unsigned quick = 0;

	while (run_once(loop, EVLOOP_ONCE)) {
		uint64_t now;

		if (!requests || *requests == seen)
			continue;
		seen = *requests;
		now = clock_us();
		quick = now - last < 4 * *spin ? quick + 1 : 0;
		last = now;
		if (quick < QUICK_REQUESTS)
			continue;
		if (!poll_requests(loop, requests, spin, last))
			break;
		quick = 0;
		seen = *requests;
		last = clock_us();
	}
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A daemon's event loop: libevent's, with the signals SIGTERM and SIGINT (end) and SIGHUP (reload).
 *
 * To wake from sleep takes longer than to answer a small request. A daemon that counts its requests
 * can have the loop poll for a moment before it sleeps where requests follow one another quickly; a
 * polling loop yields the CPU between two looks (sched_yield(2)).
 *
 *	asleep ──4 requests, one within 4 × spin of the other──► polling ──none for spin──► asleep
 *
 * The calling thread is the loop's.
 */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include <stdint.h>

#include <event2/event.h>

struct loop {
	struct event_base *base;
	struct event *signals[3];
	void (*reload)(void *arg);
	void *arg;
};

/* reload(arg) is called at SIGHUP. 0 or a negative errno after a line in the log. */
int loop_init(struct loop *loop, void (*reload)(void *arg), void *arg);
void loop_destroy(struct loop *loop);
/*
 * Runs until loop_quit() or a signal that ends it. *requests counts what was asked so far, and the
 * loop polls for *spin microseconds, which may change meanwhile; both may be NULL: the loop never
 * polls.
 */
void loop_run(struct loop *loop, const uint64_t *requests, const unsigned *spin);
/* Ends the loop, as SIGTERM does. In the loop's thread. */
void loop_quit(struct loop *loop);

#endif

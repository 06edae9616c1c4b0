/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What happens, for whoever wants to hear of it while it happens: inbandctl watch, pages, the
 * database. An event has a number, counted up from the start of the process, and is a JSON object
 * with "event" (below), "number" and "ms" (since 1970). The latest EVENTS_KEPT are kept, so that a
 * listener that was away goes on where it stopped.
 *
 *	raised, cleared, explained, acknowledged	an alarm: the members of alarm_json()
 *	discovered	there is another model: "generation", "switches", "nodes", "links"
 *	link		"at" and perhaps "to" (CHIP:PORT), "state": "up", "lost", "testing"
 *	progress	of long work: "work" (what inbandctl calls it), "done", "of"
 *	plan		the plan has been edited
 *	ended		that work is over: "work", "failed"
 *
 * The loop's thread.
 */
#ifndef INBANDD_EVENTS_H
#define INBANDD_EVENTS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define EVENTS_KEPT 4096

/* Milliseconds since 1970: when something has happened. */
static inline uint64_t real_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

struct inbandd;
struct events;

struct listener {
	struct listener *next;
	/* The event is borrowed. The listener may leave in the call; others may neither come nor
	 * leave. */
	void (*hear)(struct listener *listener, uint64_t number, struct json_object *event);
};

int events_start(struct events **events);
void events_stop(struct events *events);
void events_listen(struct events *events, struct listener *listener);
/* Does nothing if it does not listen. */
void events_leave(struct events *events, struct listener *listener);
/* Adds number and time, and has everybody hear it. The event, which may be NULL for want of memory,
 * is put. */
void events_tell(struct events *events, const char *name, struct json_object *event);
/* The number of the latest; 0: there was none. */
uint64_t events_latest(const struct events *events);
/*
 * Has a listener hear those after number `after`. False: the next one after it is no longer kept,
 * or number is of another process: what a listener knows is to be read anew.
 */
bool events_replay(struct events *events, uint64_t after, struct listener *listener);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Events by time, and of one time in the order they were made. Most are due within microseconds:
 * they are put into buckets of a wheel without being sorted, and only those of the bucket whose
 * time has come are in a heap. What is due later than the wheel reaches waits in a second heap. One
 * thread.
 *
 *	now ─► heap │ bucket │ bucket │ … BUCKETS of them │ later
 *		    ▲ edge
 */
#ifndef INBAND_SIM_CALENDAR_H
#define INBAND_SIM_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct packet;

struct event {
	uint64_t at;
	uint64_t order; /* number << 8 | kind: events of one time in the order they were made */
	union {
		struct packet *packet;
		struct {
			uint32_t what, more;
		};
	};
};

struct heap {
	struct event *events;
	size_t count, size;
};

#define BUCKET_SHIFT 16 /* 65 ns */
#define BUCKETS	     2048

struct calendar {
	struct heap near, later;
	uint64_t edge; /* number of the first bucket that is not in near */
	struct bucket {
		struct event *events;
		uint32_t count, size;
	} buckets[BUCKETS];
	uint64_t filled[BUCKETS / 64];
};

void calendar_push(struct calendar *c, struct event event);
/* The next event, which stays; NULL: there is none. Valid until the next call. */
const struct event *calendar_peek(struct calendar *c);
/* Takes what calendar_peek() has shown. */
struct event calendar_pop(struct calendar *c);
/* With no events in it. */
void calendar_free(struct calendar *c);

#endif

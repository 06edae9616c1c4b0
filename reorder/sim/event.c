/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The queue of events. Nearly all lie within some microseconds, and there are about ten in each
 * nanosecond: they go to a wheel of 16,384 slots of 256 ps, each a short list in order of time.
 * What is further away (timers) goes to a binary heap. Events of one time leave in the order in
 * which they were added; those of the wheel before those of the heap.
 *
 *   event, 16 bytes:  | time (8) | kind (4 bits), index (28 bits) | next (4) |
 */
#include "reorder/sim/sim.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 16384u
#define SHIFT 8

struct event {
	int64_t time;
	uint32_t what, next;
};

struct far {
	int64_t time;
	uint64_t order_what; /* order in the upper half */
};

static struct event *events;
static uint32_t event_count, free_event;
static struct {
	uint32_t first, last;
} slot[SLOTS];
static uint64_t used[SLOTS / 64];
static int64_t base; /* number of the slot of the last event taken */
static struct far *heap;
static uint32_t far_count, far_room, order;

void event_init(void)
{
	memset(slot, 0xff, sizeof(slot));
	memset(used, 0, sizeof(used));
	events = NULL;
	heap = NULL;
	event_count = far_count = far_room = order = 0;
	free_event = NONE;
	base = 0;
}

void event_fini(void)
{
	free(events);
	free(heap);
	events = NULL;
	heap = NULL;
}

static uint32_t new_event(void)
{
	uint32_t e = free_event;

	if (e == NONE) {
		uint32_t more = event_count ? event_count : 16384;

		events = realloc(events, sizeof(*events) * (event_count + more));
		if (!events)
			abort();
		for (uint32_t i = 0; i < more; i++)
			events[event_count + i].next = i + 1 < more ? event_count + i + 1 : NONE;
		e = event_count;
		event_count += more;
	}
	free_event = events[e].next;
	return e;
}

static bool sooner(const struct far *a, const struct far *b)
{
	return a->time < b->time || (a->time == b->time && a->order_what < b->order_what);
}

static void add_far(int64_t time, uint32_t what)
{
	struct far e = {time, (uint64_t)order++ << 32 | what};
	uint32_t i = far_count++;

	if (far_count > far_room) {
		far_room = far_room ? 2 * far_room : 4096;
		heap = realloc(heap, sizeof(*heap) * far_room);
		if (!heap)
			abort();
	}
	for (; i && sooner(&e, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static void remove_far(void)
{
	struct far last = heap[--far_count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < far_count) {
		if (child + 1 < far_count && sooner(&heap[child + 1], &heap[child]))
			child++;
		if (!sooner(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
}

void event_add(int64_t now, int64_t time, enum event_kind kind, uint32_t index)
{
	int64_t number = time >> SHIFT;
	uint32_t what = (uint32_t)kind << 28 | index, e, n, before;

	if (number - base >= SLOTS) {
		add_far(time, what);
		return;
	}
	e = new_event();
	n = (uint32_t)number & (SLOTS - 1);
	events[e].time = time;
	events[e].what = what;
	if (slot[n].first == NONE) {
		slot[n].first = slot[n].last = e;
		events[e].next = NONE;
		used[n / 64] |= (uint64_t)1 << n % 64;
		return;
	}
	if (events[slot[n].last].time <= time) {
		events[slot[n].last].next = e;
		slot[n].last = e;
		events[e].next = NONE;
		return;
	}
	if (events[slot[n].first].time > time) {
		events[e].next = slot[n].first;
		slot[n].first = e;
		return;
	}
	before = slot[n].first;
	while (events[events[before].next].time <= time)
		before = events[before].next;
	events[e].next = events[before].next;
	events[before].next = e;
}

/* The first used slot from base on, or NONE. */
static uint32_t first_slot(void)
{
	uint32_t from = (uint32_t)base & (SLOTS - 1), word = from / 64;
	uint64_t bits = used[word] & ~(uint64_t)0 << from % 64;

	for (unsigned i = 0; i <= SLOTS / 64; i++) {
		if (bits)
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
		word = (word + 1) % (SLOTS / 64);
		bits = used[word];
		if (i == SLOTS / 64 - 1)
			bits &= ~(~(uint64_t)0 << from % 64);
	}
	return NONE;
}

bool event_next(int64_t *time, enum event_kind *kind, uint32_t *index)
{
	uint32_t n = first_slot(), e, what;

	if (n == NONE && !far_count)
		return false;
	if (n == NONE || (far_count && heap[0].time < events[slot[n].first].time)) {
		*time = heap[0].time;
		what = (uint32_t)heap[0].order_what;
		remove_far();
	} else {
		e = slot[n].first;
		*time = events[e].time;
		what = events[e].what;
		slot[n].first = events[e].next;
		if (slot[n].first == NONE)
			used[n / 64] &= ~((uint64_t)1 << n % 64);
		events[e].next = free_event;
		free_event = e;
	}
	base = *time >> SHIFT;
	*kind = (enum event_kind)(what >> 28);
	*index = what & 0xfffffff;
	return true;
}

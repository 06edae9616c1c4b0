/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See calendar.h. A simulation without memory has no meaning: it aborts. */
#include <stdlib.h>

#include "inband/sim/calendar.h"

static void grow(struct event **events, size_t size)
{
	*events = realloc(*events, size * sizeof(**events));
	if (!*events)
		abort();
}

static inline bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void heap_push(struct heap *h, struct event event)
{
	size_t i = h->count++;

	if (i == h->size) {
		h->size = i ? 2 * i : 256;
		grow(&h->events, h->size);
	}
	while (i && before(&event, &h->events[(i - 1) / 2])) {
		h->events[i] = h->events[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	h->events[i] = event;
}

static struct event heap_pop(struct heap *h)
{
	struct event first = h->events[0], last = h->events[--h->count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < h->count) {
		if (child + 1 < h->count && before(&h->events[child + 1], &h->events[child]))
			child++;
		if (!before(&h->events[child], &last))
			break;
		h->events[i] = h->events[child];
		i = child;
	}
	h->events[i] = last;
	return first;
}

void calendar_push(struct calendar *c, struct event event)
{
	uint64_t number = event.at >> BUCKET_SHIFT;
	struct bucket *b = &c->buckets[number % BUCKETS];

	if (number < c->edge) {
		heap_push(&c->near, event);
		return;
	}
	if (number - c->edge >= BUCKETS) {
		heap_push(&c->later, event);
		return;
	}
	if (b->count == b->size) {
		b->size = b->size ? 2 * b->size : 8;
		grow(&b->events, b->size);
	}
	b->events[b->count++] = event;
	c->filled[number % BUCKETS / 64] |= 1ull << number % 64;
}

/* The number of the first bucket with events in it; UINT64_MAX: none has. */
static uint64_t first_filled(const struct calendar *c)
{
	unsigned from = c->edge % BUCKETS, word = from / 64;
	uint64_t bits = c->filled[word] & ~0ull << from % 64;

	/* Once round, and the word where it began once more: its lower bits come last. */
	for (unsigned i = 0; i <= BUCKETS / 64; i++) {
		if (bits) {
			unsigned slot = word * 64 + __builtin_ctzll(bits);

			return c->edge + (slot - from + BUCKETS) % BUCKETS;
		}
		word = (word + 1) % (BUCKETS / 64);
		bits = c->filled[word];
	}
	return UINT64_MAX;
}

/* Has the wheel move on to the next events. False: there are none. */
static bool turn(struct calendar *c)
{
	uint64_t number = first_filled(c), later = UINT64_MAX;
	struct bucket *b;

	if (c->later.count)
		later = c->later.events[0].at >> BUCKET_SHIFT;
	if (later < number)
		number = later;
	if (number == UINT64_MAX)
		return false;
	c->edge = number + 1;
	b = &c->buckets[number % BUCKETS];
	for (uint32_t i = 0; i < b->count; i++)
		heap_push(&c->near, b->events[i]);
	b->count = 0;
	c->filled[number % BUCKETS / 64] &= ~(1ull << number % 64);
	while (c->later.count && (c->later.events[0].at >> BUCKET_SHIFT) < c->edge + BUCKETS)
		calendar_push(c, heap_pop(&c->later));
	return true;
}

const struct event *calendar_peek(struct calendar *c)
{
	return c->near.count || turn(c) ? c->near.events : NULL;
}

struct event calendar_pop(struct calendar *c)
{
	return heap_pop(&c->near);
}

void calendar_free(struct calendar *c)
{
	free(c->near.events);
	free(c->later.events);
	for (unsigned i = 0; i < BUCKETS; i++)
		free(c->buckets[i].events);
}

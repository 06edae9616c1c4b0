/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Links between leaves and spines: a queue, a rate, a delay, marks, and PFC.
 *
 * A frame's bytes are charged, in the switch it is in, to the link or port it came by. Above xoff
 * that link is paused (a port is not read any more); below half of it, it goes on. PAUSE and RESUME
 * go back by the other direction of the link: behind the frame that is being sent, with its rate
 * and its delay. Until then frames still come, for which the buffer must have room beyond xoff.
 */
#include <stdlib.h>

#include "daemons/urxe-switch/switch.h"

#define FIRST_PORT (2 * MAX_LEAVES * MAX_SPINES)
#define PFC_FRAME  64

struct link *link_of(struct daemon *d, unsigned leaf, unsigned spine, bool up)
{
	return &d->links[(leaf * MAX_SPINES + spine) * 2 + !up];
}

unsigned link_number(const struct daemon *d, const struct link *link)
{
	return (unsigned)(link - d->links);
}

static int64_t send_time(const struct daemon *d, size_t size)
{
	return d->settings.rate ? (int64_t)(size * 8000000000000u / d->settings.rate) : 0;
}

static uint64_t xoff(const struct daemon *d)
{
	return (uint64_t)d->settings.xoff_kb << 10;
}

/* The receiver of a link says PAUSE or RESUME. */
static void pause_link(struct daemon *d, struct link *link, bool pause)
{
	const struct link *back = link_of(d, link->leaf, link->spine, !link->up);
	int64_t start = back->free_at > d->now ? back->free_at : d->now;

	link->pausing = pause;
	link->pauses += pause;
	if (!link->up)
		reorder_pause(d->leaves[link->leaf].destination, link->spine, pause);
	schedule_at(d, start + send_time(d, PFC_FRAME) + back->delay,
		    pause ? LINK_PAUSE : LINK_RESUME, link_number(d, link));
}

bool charge(struct daemon *d, struct frame *frame, unsigned ingress)
{
	frame->ingress = (uint16_t)ingress;
	if (ingress >= FIRST_PORT) {
		struct port *port = &d->ports[ingress - FIRST_PORT];

		port->charged += frame->size;
		if (port->charged > xoff(d))
			port_stop(d, port, true);
		return true;
	}
	d->links[ingress].charged += frame->size;
	if (!d->links[ingress].pausing && d->links[ingress].charged > xoff(d))
		pause_link(d, &d->links[ingress], true);
	return d->links[ingress].charged <= (uint64_t)d->settings.buffer_kb << 10;
}

void uncharge(struct daemon *d, struct frame *frame)
{
	unsigned ingress = frame->ingress;

	frame->ingress = UINT16_MAX;
	if (ingress == UINT16_MAX)
		return;
	if (ingress >= FIRST_PORT) {
		struct port *port = &d->ports[ingress - FIRST_PORT];

		port->charged -= frame->size;
		if (port->stopped && port->charged <= xoff(d) / 2)
			port_stop(d, port, false);
		return;
	}
	d->links[ingress].charged -= frame->size;
	if (d->links[ingress].pausing && d->links[ingress].charged <= xoff(d) / 2)
		pause_link(d, &d->links[ingress], false);
}

static void drop(struct daemon *d, struct link *link, uint32_t f)
{
	link->drops++;
	frame_free(d, f);
}

/* At the other end: a spine sends it on to its leaf, a leaf to its port. */
static void deliver(struct daemon *d, struct link *link, uint32_t f)
{
	struct frame *frame = &d->frames[f];

	if (!d->spine_up[link->spine]) {
		drop(d, link, f);
		return;
	}
	if (!charge(d, frame, link_number(d, link))) {
		drop(d, link, f);
		return;
	}
	if (link->up)
		link_send(d, link_of(d, frame->to, link->spine, false), f);
	else
		leaf_from_spine(d, link->leaf, f);
}

static void mark(struct daemon *d, struct link *link, struct frame *frame)
{
	uint64_t least = (uint64_t)d->settings.mark_min_kb << 10;
	uint64_t most = (uint64_t)d->settings.mark_max_kb << 10, bytes = link->queue.bytes;

	if (bytes <= least ||
	    (bytes < most && (uint64_t)rand() % 5 * (most - least) >= (bytes - least)))
		return;
	link->marks += frame_mark(frame, d->settings.mark_all);
}

/* Puts the first frame on the link. */
static void transmit(struct daemon *d, struct link *link)
{
	uint32_t f = fifo_take(d, &link->queue);
	struct frame *frame = &d->frames[f];
	unsigned number = link_number(d, link);

	uncharge(d, frame);
	mark(d, link, frame);
	link->frames++;
	link->bytes += frame->size;
	link->free_at = (link->free_at > d->now - 1000000000 ? link->free_at : d->now) +
			send_time(d, frame->size);
	if (!send_time(d, frame->size) && !link->delay) {
		link->free_at = d->now;
		deliver(d, link, f);
		return;
	}
	frame->time = link->free_at + link->delay;
	if (link->flying.first == NONE)
		schedule_at(d, frame->time, LINK_ARRIVAL, number);
	fifo_add(d, &link->flying, f);
}

static void serve(struct daemon *d, struct link *link)
{
	while (link->queue.first != NONE && !link->paused && !link->pending) {
		if (link->free_at > d->now) {
			link->pending = true;
			schedule_at(d, link->free_at, LINK_FREE, link_number(d, link));
			return;
		}
		if (link->queue.first != NONE && link->free_at < d->now && d->settings.rate &&
		    link->frames && link->flying.first == NONE)
			link->free_at = d->now; /* it was idle */
		transmit(d, link);
	}
}

void link_send(struct daemon *d, struct link *link, uint32_t f)
{
	if (!d->spine_up[link->spine]) {
		drop(d, link, f);
		return;
	}
	if (link->queue.first == NONE && link->free_at < d->now)
		link->free_at = d->now;
	fifo_add(d, &link->queue, f);
	serve(d, link);
}

void link_free(struct daemon *d, unsigned number)
{
	d->links[number].pending = false;
	serve(d, &d->links[number]);
}

/* The sender of a link hears PAUSE or RESUME. */
void link_pause(struct daemon *d, unsigned number, bool pause)
{
	d->links[number].paused = pause;
	if (!pause)
		serve(d, &d->links[number]);
}

void link_arrival(struct daemon *d, unsigned number)
{
	struct link *link = &d->links[number];
	uint32_t f;

	while (link->flying.first != NONE && d->frames[link->flying.first].time <= d->now) {
		f = fifo_take(d, &link->flying);
		deliver(d, link, f);
	}
	if (link->flying.first != NONE)
		schedule_at(d, d->frames[link->flying.first].time, LINK_ARRIVAL, number);
}

/* A spine that goes down loses what it has; flows leave it with their next packets. */
void spine_set(struct daemon *d, unsigned spine, bool up)
{
	d->spine_up[spine] = up;
	for (unsigned leaf = 0; leaf < d->settings.num_leaves && !up; leaf++) {
		for (int way = 0; way < 2; way++) {
			struct link *link = link_of(d, leaf, spine, way);
			uint32_t f;

			while ((f = fifo_take(d, &link->queue)) != NONE)
				drop(d, link, f);
		}
	}
}

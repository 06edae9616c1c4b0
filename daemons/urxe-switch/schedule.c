/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What happens at a time: a binary heap, and a timerfd that is set for its first row. Time is
 * CLOCK_MONOTONIC in picoseconds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/urxe-switch/switch.h"

int64_t schedule_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec * 1000000000ll + t.tv_nsec) * 1000;
}

static bool earlier(const struct event_row *a, const struct event_row *b)
{
	return a->time < b->time || (a->time == b->time && (int32_t)(a->order - b->order) < 0);
}

/* Links have two events each, ports one; PAUSE and RESUME may be many on a link with a long delay.
 * */
static void grow(struct daemon *d)
{
	d->events_room *= 2;
	d->heap = realloc(d->heap, d->events_room * sizeof(*d->heap));
	if (!d->heap) {
		log_error("no memory for what is to happen");
		abort();
	}
}

void schedule_at(struct daemon *d, int64_t time, enum due kind, unsigned what)
{
	struct event_row e = {time, d->order++, (uint16_t)kind, (uint16_t)what};
	unsigned i = d->events++;

	if (i == d->events_room)
		grow(d);
	for (; i && earlier(&e, &d->heap[(i - 1) / 2]); i = (i - 1) / 2)
		d->heap[i] = d->heap[(i - 1) / 2];
	d->heap[i] = e;
}

static struct event_row take(struct daemon *d)
{
	struct event_row first = d->heap[0], last = d->heap[--d->events];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < d->events) {
		if (child + 1 < d->events && earlier(&d->heap[child + 1], &d->heap[child]))
			child++;
		if (!earlier(&d->heap[child], &last))
			break;
		d->heap[i] = d->heap[child];
		i = child;
	}
	d->heap[i] = last;
	return first;
}

static void happen(struct daemon *d, const struct event_row *e)
{
	switch ((enum due)e->kind) {
	case LINK_FREE: link_free(d, e->what); break;
	case LINK_ARRIVAL: link_arrival(d, e->what); break;
	case LINK_PAUSE: link_pause(d, e->what, true); break;
	case LINK_RESUME: link_pause(d, e->what, false); break;
	case LEAF_TIMER: leaf_timer(d, e->what); break;
	case PORT_FREE:
		d->ports[e->what].pending = false;
		port_pump(d, e->what);
		break;
	}
	leaves_settle(d);
}

void schedule_run(struct daemon *d)
{
	struct itimerspec at = {0};
	int64_t time;

	d->now = schedule_now();
	while (d->events && d->heap[0].time <= d->now) {
		struct event_row e = take(d);

		happen(d, &e);
	}
	time = d->events ? d->heap[0].time : 0;
	if (time == d->armed)
		return;
	d->armed = time;
	/* One nanosecond later is not too early. */
	at.it_value.tv_sec = time / 1000 / 1000000000;
	at.it_value.tv_nsec = time / 1000 % 1000000000 + (time ? 1 : 0);
	if (at.it_value.tv_nsec > 999999999)
		at.it_value.tv_nsec = 999999999;
	timerfd_settime(d->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *d = arg;
	uint64_t times;

	if (read(fd, &times, sizeof(times)) != sizeof(times))
		return;
	d->armed = 0;
	schedule_run(d);
}

int schedule_start(struct daemon *d)
{
	d->events_room = 4 * MAX_LEAVES * MAX_SPINES + MAX_PORTS;
	d->heap = calloc(d->events_room, sizeof(*d->heap));
	d->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (!d->heap || d->timer_fd < 0)
		return -ENOMEM;
	d->timer = event_new(d->loop.base, d->timer_fd, EV_READ | EV_PERSIST, on_timer, d);
	return d->timer && !event_add(d->timer, NULL) ? 0 : -ENOMEM;
}

void schedule_stop(struct daemon *d)
{
	if (d->timer)
		event_free(d->timer);
	if (d->timer_fd > 0)
		close(d->timer_fd);
	free(d->heap);
}

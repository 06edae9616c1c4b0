/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IPoIB without a fabric: time that passes when a test says so, timers, packets, and a queue pair
 * that keeps what was sent.
 */
#ifndef IPOIB_TEST_H
#define IPOIB_TEST_H

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

static struct ipoib ib;

/* ---- time ---- */

struct event {
	struct event *next;
	event_callback_fn fn;
	void *arg;
	uint64_t due, period; /* in ms; 0: not set */
	bool persists;
};

static struct event *timers;
static uint64_t now_ms;

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
			       event_callback_fn fn, void *arg);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
			       event_callback_fn fn, void *arg)
{
	struct event *timer = calloc(1, sizeof(*timer));

	*timer =
		(struct event){.next = timers, .fn = fn, .arg = arg, .persists = what & EV_PERSIST};
	timers = timer;
	return timer;
}

int __wrap_event_add(struct event *timer, const struct timeval *delay);
int __wrap_event_add(struct event *timer, const struct timeval *delay)
{
	uint64_t ms;

	if (!delay) /* of a descriptor */
		return 0;
	ms = (uint64_t)delay->tv_sec * 1000 + (uint64_t)delay->tv_usec / 1000;

	timer->due = now_ms + ms;
	timer->period = timer->persists ? ms : 0;
	return 0;
}

void __wrap_event_free(struct event *timer);
void __wrap_event_free(struct event *timer)
{
	struct event **p = &timers;

	while (*p != timer)
		p = &(*p)->next;
	*p = timer->next;
	free(timer);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = (time_t)(now_ms / 1000),
				 .tv_nsec = (long)(now_ms % 1000 * 1000000)};
	return 0;
}

/* Timers fire in the order of their times. */
static inline void pass(uint64_t ms)
{
	uint64_t end = now_ms + ms;

	for (;;) {
		struct event *first = NULL;

		for (struct event *t = timers; t; t = t->next)
			if (t->due && t->due <= end && (!first || t->due < first->due))
				first = t;
		if (!first)
			break;
		now_ms = first->due;
		first->due = first->period ? now_ms + first->period : 0;
		first->fn(-1, EV_TIMEOUT, first->arg);
	}
	now_ms = end;
}

/* ---- packets and the queue pair ---- */

struct sent {
	uint32_t qpn;
	uint16_t lid;
	uint8_t data[128];
	size_t len;
};

static struct sent sent[256];
static unsigned num_sent, num_packets;
static bool scarce, no_handle;

struct ipoib_packet *queue_packet(struct ipoib *of)
{
	struct ipoib_packet *packet = calloc(1, sizeof(*packet) + sizeof(sent->data));

	packet->data = (uint8_t *)(packet + 1);
	num_packets++;
	return packet;
}

void queue_free(struct ipoib *of, struct ipoib_packet *packet)
{
	num_packets--;
	free(packet);
}

void queue_send(struct ipoib *of, struct ipoib_packet *packet, const struct ipoib_way *way,
		uint32_t qpn)
{
	struct sent *s = &sent[num_sent++ % 256];

	assert_non_null(way->ah);
	assert_true(packet->len <= sizeof(s->data));
	*s = (struct sent){.qpn = qpn, .lid = way->lid, .len = packet->len};
	memcpy(s->data, packet->data, packet->len);
	queue_free(of, packet);
}

void queue_flush(struct ipoib *of)
{
}

bool queue_is_scarce(const struct ipoib *of)
{
	return scarce;
}

int queue_set_way(struct ipoib *of, struct ipoib_way *way, struct ibv_ah_attr *attr)
{
	if (no_handle)
		return -ENOMEM;
	*way = (struct ipoib_way){.ah = (void *)&sent, .lid = attr->dlid};
	return 0;
}

void queue_drop_way(struct ipoib *of, struct ipoib_way *way)
{
	*way = (struct ipoib_way){};
}

/* A packet of the kernel's that can be told from others. */
static inline struct ipoib_packet *numbered(uint8_t number)
{
	struct ipoib_packet *packet = queue_packet(&ib);

	packet->len = IPOIB_HEADER + 20;
	packet->data[IPOIB_HEADER] = number;
	return packet;
}

static inline uint8_t number_of(unsigned i)
{
	return sent[i].data[IPOIB_HEADER];
}

static inline struct in6_addr address(const char *text)
{
	struct in6_addr addr;
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, &addr), 1);
	return addr;
}

static inline int begin_test(void)
{
	log_level = LOG_EMERG;
	memset(&ib, 0, sizeof(ib));
	ib.pkey = 0xffff;
	ib.qpn = 0x111;
	ib.gid.raw[15] = 0x11;
	ib.options.port = 1;
	ib.carrier = true;
	now_ms = 1000000;
	num_sent = 0;
	scarce = no_handle = false;
	return 0;
}

/* Nothing is left behind. */
static inline int end_test(void)
{
	assert_null(timers);
	assert_int_equal(num_packets, 0);
	return 0;
}

#endif

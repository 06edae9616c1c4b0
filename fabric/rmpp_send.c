// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The sender of a MAD in segments (13.6; the kernel's mad_rmpp.c): sends up to the window that the
 * receiver opened, waits for acknowledgements, sends again from the last acknowledged segment when
 * none comes, and gives up after the retries, which each step has anew. A request then waits for
 * its answer. fabricd's thread.
 */
#include <errno.h>

#include "fabric/host.h"

#define ACK_TIMEOUT_MS 2000

/* The status that a program gets to see when the receiver gave up. */
#define ABORTED EINVAL

static void send_segment(struct mads *m, struct send *s, uint32_t segment)
{
	struct packet *p = m->ops->room(m);
	unsigned header = class_header_len(s->mad[MAD_CLASS]), room = MAD_LEN - header;
	unsigned payload = MAD_LEN - MAD_RMPP_LEN, pad = room - s->last_len;
	uint32_t paylen = 0;

	m->ops->address(m, s->agent, (const struct ib_user_mad_hdr *)s->hdr, p);
	memcpy(p->mad, s->mad, header);
	memcpy(p->mad + header, s->data + (size_t)(segment - 1) * room, room);
	p->mad[RMPP_VERSION] = 1;
	p->mad[RMPP_TYPE] = RMPP_DATA;
	p->mad[RMPP_FLAGS] = (p->mad[RMPP_FLAGS] & 0xf8) | RMPP_ACTIVE;
	p->mad[RMPP_STATUS] = 0;
	if (segment == 1) {
		p->mad[RMPP_FLAGS] |= RMPP_FIRST;
		paylen = s->segments * payload - pad;
	}
	if (segment == s->segments) {
		p->mad[RMPP_FLAGS] |= RMPP_LAST;
		paylen = payload - pad;
	}
	put32(p->mad + RMPP_SEGMENT, segment);
	put32(p->mad + RMPP_PAYLEN, paylen);
	m->ops->send(m);
}

static void timed_out(struct timer *timer, void *arg);

static void send_window(struct mads *m, struct send *s)
{
	uint32_t timeout =
		s->timeout_ms && s->timeout_ms < ACK_TIMEOUT_MS ? s->timeout_ms : ACK_TIMEOUT_MS;

	while (s->sent < s->window && s->sent < s->segments)
		send_segment(m, s, ++s->sent);
	timer_start(&m->timers, &s->timer, m->now + timeout, timed_out);
}

static void timed_out(struct timer *timer, void *arg)
{
	struct send *s = (struct send *)((char *)timer - offsetof(struct send, timer));

	if (!rmpp_send_again(arg, s))
		host_send_end(arg, s, ETIMEDOUT);
}

void rmpp_send_start(struct mads *m, struct send *s)
{
	send_window(m, s);
}

bool rmpp_send_again(struct mads *m, struct send *s)
{
	if (!s->retries)
		return false;
	s->retries--;
	s->sent = s->acked == s->segments ? 0 : s->acked;
	if (s->acked == s->segments)
		s->acked = 0; /* all arrived, yet no answer came: ask again */
	send_window(m, s);
	return true;
}

static void acknowledged(struct mads *m, struct send *s, uint32_t segment, uint32_t window)
{
	if (s->acked == s->segments)
		return; /* it comes again, while the answer is waited for */
	if (segment > s->segments || segment > s->window || window < segment) {
		host_send_end(m, s, ABORTED);
		return;
	}
	if (segment < s->acked || window < s->window)
		return; /* an old one */
	if (segment > s->acked)
		s->retries = ((const struct ib_user_mad_hdr *)s->hdr)->retries;
	s->acked = segment;
	s->window = window;
	if (s->sent < s->acked)
		s->sent = s->acked;
	if (s->acked < s->segments)
		send_window(m, s);
	else if (!s->timeout_ms || mad_is_response(s->mad))
		host_send_end(m, s, 0);
	else
		host_send_wait(m, s);
}

void rmpp_send_receive(struct mads *m, struct agent *agent, const struct packet *p)
{
	struct send *s = host_send_find(m, agent, p->mad);

	if (!s || !s->data)
		return;
	if (p->mad[RMPP_TYPE] == RMPP_ACK && !p->mad[RMPP_STATUS])
		acknowledged(m, s, get32(p->mad + RMPP_SEGMENT), get32(p->mad + RMPP_PAYLEN));
	else if (p->mad[RMPP_TYPE] == RMPP_STOP || p->mad[RMPP_TYPE] == RMPP_ABORT)
		host_send_end(m, s, ABORTED);
}

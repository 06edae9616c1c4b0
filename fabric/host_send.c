// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What programs send: the packet that a MAD goes in, requests that wait for their answers, retries
 * and timeouts, as the kernel's mad.c and user_mad.c have them. One thread at a time.
 */
#include <errno.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>

#include "fabric/host.h"

static unsigned slot_of(uint64_t tid)
{
	return (tid ^ tid >> 32 << 5) % SEND_TABLE;
}

struct send *host_send_find(struct mads *m, const struct agent *agent, const uint8_t *mad)
{
	uint64_t tid = get64(mad + MAD_TID);
	struct send *s = m->sends[slot_of(tid)];

	while (s && (s->tid != tid || s->agent != agent || s->mad[MAD_CLASS] != mad[MAD_CLASS]))
		s = s->hashed;
	return s;
}

static struct send *make(struct mads *m, struct agent *agent)
{
	struct send *s = m->free_sends;

	if (s)
		m->free_sends = s->next;
	else
		s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	memset(s, 0, offsetof(struct send, hdr));
	s->agent = agent;
	s->next = agent->sends;
	s->at = &agent->sends;
	if (s->next)
		s->next->at = &s->next;
	agent->sends = s;
	return s;
}

static void hash(struct mads *m, struct send *s)
{
	struct send **slot = &m->sends[slot_of(s->tid)];

	s->hashed = *slot;
	s->hash_at = slot;
	if (s->hashed)
		s->hashed->hash_at = &s->hashed;
	*slot = s;
}

void host_sends_free(struct mads *m)
{
	struct send *s;

	for (unsigned i = 0; i < SEND_TABLE; i++) {
		while ((s = m->sends[i])) {
			m->sends[i] = s->hashed;
			free(s->data);
			free(s);
		}
	}
	while ((s = m->free_sends)) {
		m->free_sends = s->next;
		free(s);
	}
}

void host_send_end(struct mads *m, struct send *s, int error)
{
	timer_stop(&m->timers, &s->timer);
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	*s->hash_at = s->hashed;
	if (s->hashed)
		s->hashed->hash_at = s->hash_at;
	if (error) {
		struct ib_user_mad_hdr hdr;

		memcpy(&hdr, s->hdr, sizeof(hdr));
		hdr.status = error;
		m->ops->deliver(m, s->agent->file, (const uint8_t *)&hdr, s->mad, MAD_HDR_LEN);
	}
	free(s->data);
	s->data = NULL;
	s->next = m->free_sends;
	m->free_sends = s;
}

void host_send_all_end(struct mads *m, struct agent *agent)
{
	while (agent->sends)
		host_send_end(m, agent->sends, 0);
}

/* ---- the packet ---- */

static void transmit(struct mads *m, const struct send *s)
{
	struct packet *p = m->ops->room(m);

	m->ops->address(m, s->agent, (const struct ib_user_mad_hdr *)s->hdr, p);
	memcpy(p->mad, s->mad, MAD_LEN);
	m->ops->send(m);
}

/* ---- waiting ---- */

static void timed_out(struct timer *timer, void *arg)
{
	struct send *s = (struct send *)((char *)timer - offsetof(struct send, timer));
	struct mads *m = arg;

	if (s->data && rmpp_send_again(m, s))
		return;
	if (s->answered_by_rmpp && s->retries) {
		s->retries--;
		host_send_wait(m, s);
	} else if (s->retries && !s->data) {
		s->retries--;
		transmit(m, s);
		host_send_wait(m, s);
	} else {
		host_send_end(m, s, ETIMEDOUT);
	}
}

void host_send_wait(struct mads *m, struct send *s)
{
	timer_start(&m->timers, &s->timer, m->now + s->timeout_ms, timed_out);
}

/* Sends it in segments (mad.c: ib_create_send_mad); the first send says how many. */
static int send_segments(struct mads *m, struct send *s, const uint8_t *mad, size_t len)
{
	unsigned header = class_header_len(mad[MAD_CLASS]), room = MAD_LEN - header;
	size_t data = len > header ? len - header : 0;

	s->segments = data ? (data + room - 1) / room : 1;
	s->last_len = data ? data - (size_t)(s->segments - 1) * room : 0;
	s->data = calloc(s->segments, room);
	if (!s->data)
		return ENOMEM;
	memcpy(s->data, mad + header, data);
	s->window = 1;
	rmpp_send_start(m, s);
	return 0;
}

static int send_tracked(struct mads *m, struct agent *agent, const uint8_t *umad, size_t len,
			bool segmented)
{
	const struct ib_user_mad_hdr *h = (const struct ib_user_mad_hdr *)umad;
	const uint8_t *mad = umad + FABRIC_UMAD_HDR;
	size_t mad_len = len - FABRIC_UMAD_HDR, first = mad_len < MAD_LEN ? mad_len : MAD_LEN;
	struct send *s = make(m, agent);
	int ret = 0;

	if (!s)
		return ENOMEM;
	memcpy(s->hdr, umad, FABRIC_UMAD_HDR);
	memcpy(s->mad, mad, first);
	memset(s->mad + first, 0, MAD_LEN - first);
	if (!mad_is_response(mad))
		put32(s->mad + MAD_TID, agent->tid);
	s->tid = get64(s->mad + MAD_TID);
	s->timeout_ms = h->timeout_ms;
	s->retries = h->retries;
	hash(m, s);
	if (segmented) {
		ret = send_segments(m, s, mad, mad_len);
	} else {
		transmit(m, s);
		host_send_wait(m, s);
	}
	if (ret)
		host_send_end(m, s, 0);
	return ret;
}

/* Nothing waits for it. */
static void send_once(struct mads *m, const struct agent *agent, const uint8_t *umad, size_t len)
{
	struct packet *p = m->ops->room(m);
	size_t n = len - FABRIC_UMAD_HDR < MAD_LEN ? len - FABRIC_UMAD_HDR : MAD_LEN;

	m->ops->address(m, agent, (const struct ib_user_mad_hdr *)umad, p);
	memcpy(p->mad, umad + FABRIC_UMAD_HDR, n);
	memset(p->mad + n, 0, MAD_LEN - n);
	if (!mad_is_response(p->mad))
		put32(p->mad + MAD_TID, agent->tid);
	m->ops->send(m);
}

static bool rmpp_wanted(const struct agent *agent, const uint8_t *mad)
{
	return agent->rmpp_version && !agent->user_rmpp && class_has_rmpp(mad[MAD_CLASS]) &&
	       mad[RMPP_FLAGS] & RMPP_ACTIVE;
}

int host_send(struct mads *m, struct agent *agent, const uint8_t *umad, size_t len)
{
	const struct ib_user_mad_hdr *h = (const struct ib_user_mad_hdr *)umad;
	const uint8_t *mad = umad + FABRIC_UMAD_HDR;
	_Alignas(struct ib_user_mad_hdr) uint8_t whole[FABRIC_INLINE] = {0};
	bool segmented;
	int ret;

	if (len < FABRIC_UMAD_HDR + MAD_RMPP_LEN ||
	    len < FABRIC_UMAD_HDR + class_header_len(mad[MAD_CLASS]))
		return EINVAL;
	/* What a program did not write of a MAD is zeros. */
	if (len < FABRIC_INLINE && !rmpp_wanted(agent, mad)) {
		memcpy(whole, umad, len);
		return host_send(m, agent, whole, FABRIC_INLINE);
	}
	segmented = rmpp_wanted(agent, mad);
	if (!segmented && len > FABRIC_UMAD_HDR + MAD_LEN)
		return EINVAL;
	ret = m->ops->check(m, agent, h, mad);
	if (ret)
		return ret;
	if (segmented || h->timeout_ms)
		return send_tracked(m, agent, umad, len, segmented);
	send_once(m, agent, umad, len);
	return 0;
}

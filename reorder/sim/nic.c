/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * NICs: requesters that send in turn, each at its rate, and responders that acknowledge each
 * packet.
 *
 * Go-back-N: what is out of order is discarded and answered by one NACK in 4 us; the requester goes
 * back to what is missing. IRN: the responder keeps it, the NACK names it, and the requester sends
 * only what is missing, with no more under way than the fabric holds (bandwidth times delay).
 * Timeouts: 4 ms; IRN 320 us, or 100 us with few packets under way. As in conweave-ns3, except that
 * packets are counted where that counts bytes.
 *
 * Each flow has its own pacing timer. With --conweave-ns3 a NIC has one for all its flows, as in
 * that simulator: it is set for the first flow that may go on when the NIC runs idle, and not set
 * earlier when another flow gets an earlier turn. That flow waits for the timer, or for whatever
 * else makes the NIC look at its flows: an acknowledgement, or the end of a transmission.
 */
#include "reorder/sim/sim.h"

#include <string.h>

#define NACK_GAP (4 * US)

static bool bit(const uint64_t *bits, uint32_t n)
{
	return n < 256 && bits[n / 64] >> n % 64 & 1;
}

static void set_bit(uint64_t *bits, uint32_t n)
{
	if (n < 256)
		bits[n / 64] |= (uint64_t)1 << n % 64;
}

/* Forget the first n. */
static void shift_bits(uint64_t *bits, uint32_t n)
{
	for (; n >= 64; n -= 64) {
		memmove(bits, bits + 1, 3 * sizeof(*bits));
		bits[3] = 0;
	}
	if (!n)
		return;
	for (int i = 0; i < 4; i++)
		bits[i] = bits[i] >> n | (i < 3 ? bits[i + 1] << (64 - n) : 0);
}

static bool empty(const uint64_t *bits)
{
	return !(bits[0] | bits[1] | bits[2] | bits[3]);
}

static uint32_t window(const struct sim *s)
{
	int64_t rtt = topology_base_rtt(s, 0, s->topology.hosts - 1);

	return (uint32_t)(rtt / (int64_t)(8000000000000 / s->options->rate) / MTU);
}

static bool may_send(struct sim *s, struct flow *flow)
{
	if (!s->options->irn)
		return flow->nxt < flow->packets;
	while (flow->nxt < flow->packets && bit(flow->sacked, flow->nxt - flow->una))
		flow->nxt++;
	if (flow->nxt >= flow->packets)
		return false;
	return flow->highest + 1 < flow->acked + window(s) || flow->nxt < flow->acked + window(s);
}

static void append(struct sim *s, uint32_t host, uint32_t flow)
{
	struct fifo *ready = &s->ready[host];

	s->flow[flow].ready = true;
	s->flow[flow].next_ready = NONE;
	if (ready->first == NONE)
		ready->first = flow;
	else
		s->flow[ready->last].next_ready = flow;
	ready->last = flow;
}

void nic_try(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];
	const struct port *port = &s->port[flow->source];

	if (s->options->ns3) {
		port_kick(s, flow->source);
		return;
	}
	if (flow->ready || flow->timed || !flow->alive || !may_send(s, flow))
		return;
	if (flow->available <= s->now || flow->available <= port->free_at) {
		append(s, flow->source, index);
		port_kick(s, flow->source);
		return;
	}
	flow->timed = true;
	event_add(s->now, flow->available, PACE, index);
}

void nic_start(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];

	flow->alive = true;
	dcqcn_start(s, flow);
	if (s->options->ns3)
		append(s, flow->source, index);
	nic_try(s, index);
}

static void set_rto(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];
	int64_t rto = 4 * MS;

	if (s->options->irn)
		rto = flow->highest > flow->acked + 3 ? 320 * US : 100 * US;
	flow->rto_at = s->now + rto;
	if (flow->rto_set)
		return;
	flow->rto_set = true;
	event_add(s->now, flow->rto_at, RTO, index);
}

void nic_timeout(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];

	flow->rto_set = false;
	if (!flow->alive)
		return;
	if (flow->rto_at > s->now) {
		flow->rto_set = true;
		event_add(s->now, flow->rto_at, RTO, index);
		return;
	}
	s->count.timeouts++;
	flow->recovering = s->options->irn;
	flow->recover_to = flow->nxt;
	flow->nxt = flow->una;
	set_rto(s, index);
	nic_try(s, index);
}

static uint32_t make_packet(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];
	uint32_t p = packet_new(s), payload = MTU;
	struct packet *packet = &s->packet[p];

	if (flow->nxt + 1 == flow->packets)
		payload = flow->last_size;
	packet->type = DATA;
	packet->flow = index;
	packet->number = flow->nxt;
	packet->size = (uint16_t)(payload + HEADERS);
	if (flow->nxt < flow->highest) {
		packet->flags |= RESENT;
		s->count.retransmitted++;
	}
	flow->nxt++;
	if (flow->nxt > flow->highest)
		flow->highest = flow->nxt;
	s->count.data_packets++;
	return p;
}

static int64_t pacing(const struct sim *s, const struct flow *flow, uint32_t size)
{
	return whole(s, (int64_t)(size * 8000000000000u / flow->rate));
}

void nic_wake(struct sim *s, uint32_t host)
{
	s->waking[host] = false;
	port_kick(s, host);
}

/* --conweave-ns3: all living flows are in the list, and those that cannot send are passed over. */
static uint32_t next_of_all(struct sim *s, uint32_t host)
{
	struct fifo *ready = &s->ready[host];
	int64_t soonest = INT64_MAX;
	uint32_t last = ready->last, index, p;
	struct flow *flow;

	do {
		index = ready->first;
		if (index == NONE)
			break;
		flow = &s->flow[index];
		ready->first = flow->next_ready;
		if (!flow->alive)
			continue;
		append(s, host, index);
		if (!may_send(s, flow))
			continue;
		if (flow->available > s->now) {
			soonest = flow->available < soonest ? flow->available : soonest;
			continue;
		}
		p = make_packet(s, index);
		flow->available = s->now + pacing(s, flow, s->packet[p].size);
		set_rto(s, index);
		return p;
	} while (index != last);
	if (soonest < INT64_MAX && !s->waking[host]) {
		s->waking[host] = true;
		event_add(s->now, soonest, WAKE, host);
	}
	return NONE;
}

/* The next flow in turn sends a packet. */
uint32_t nic_next(struct sim *s, uint32_t host)
{
	struct fifo *ready = &s->ready[host];
	uint32_t index, p;
	struct flow *flow;

	if (s->options->ns3)
		return next_of_all(s, host);
	while (ready->first != NONE) {
		index = ready->first;
		flow = &s->flow[index];
		ready->first = flow->next_ready;
		flow->ready = false;
		if (!flow->alive || !may_send(s, flow))
			continue;
		if (flow->available > s->now) { /* it was slowed down meanwhile */
			flow->timed = true;
			event_add(s->now, flow->available, PACE, index);
			continue;
		}
		p = make_packet(s, index);
		flow->available = s->now + pacing(s, flow, s->packet[p].size);
		set_rto(s, index);
		if (!may_send(s, flow))
			return p;
		if (flow->available <= s->now + s->packet[p].size * s->port[host].per_byte) {
			append(s, host, index);
		} else {
			flow->timed = true;
			event_add(s->now, flow->available, PACE, index);
		}
		return p;
	}
	return NONE;
}

static void finish(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];

	flow->alive = false;
	flow->done = true;
	flow->end = s->now;
	s->done++;
	s->digest = (s->digest ^ (uint64_t)(flow->end - flow->start) ^ index) * 0x100000001b3u;
}

static void advance(struct flow *flow, uint32_t una)
{
	if (una <= flow->una)
		return;
	shift_bits(flow->sacked, una - flow->una > 256 ? 256 : una - flow->una);
	flow->una = una;
}

static void receive_ack(struct sim *s, uint32_t p)
{
	const struct packet *packet = &s->packet[p];
	struct flow *flow = &s->flow[packet->flow];
	bool sacks = packet->type == NACK && s->options->irn;

	if (!flow->alive)
		return;
	advance(flow, packet->number);
	if (packet->number > flow->acked)
		flow->acked = packet->number;
	if (sacks && packet->sack >= flow->una)
		set_bit(flow->sacked, packet->sack - flow->una);
	while (bit(flow->sacked, 0))
		advance(flow, flow->una + 1);
	if (flow->nxt < flow->una)
		flow->nxt = flow->una;
	if (flow->una >= flow->packets) {
		finish(s, packet->flow);
		return;
	}
	if (flow->recovering && flow->una >= flow->recover_to)
		flow->recovering = false;
	if (flow->nxt > flow->una)
		set_rto(s, packet->flow);
	if (sacks && !flow->recovering) {
		flow->recover_to = flow->nxt;
		flow->recovering = true;
		flow->nxt = flow->una;
	} else if (packet->type == ACK && s->options->irn) {
		flow->recovering = false;
	} else if (packet->type == NACK && !s->options->irn) {
		flow->nxt = flow->una;
	}
	if (packet->flags & CNP)
		dcqcn_cnp(s, packet->flow);
	nic_try(s, packet->flow);
}

static void answer(struct sim *s, uint32_t data, enum packet_type type, uint32_t sack, bool cnp)
{
	uint32_t index = s->packet[data].flow, p = packet_new(s);
	struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[index];
	bool marked = s->packet[data].flags & CE;

	packet->type = (uint8_t)type;
	packet->flow = index;
	packet->size = ACK_SIZE;
	packet->number = flow->expected;
	packet->sack = sack;
	if (cnp || marked)
		packet->flags |= CNP;
	if (type == NACK)
		s->count.nacks++;
	switch_queue(s, p, flow->destination);
}

static void count_order(struct sim *s, struct flow *flow, const struct packet *packet)
{
	if (packet->number + 1 < flow->newest && !(packet->flags & RESENT))
		s->count.overtaken++;
	if (packet->number + 1 > flow->newest)
		flow->newest = packet->number + 1;
}

static void out_of_order(struct sim *s, struct flow *flow, uint32_t p)
{
	uint32_t ahead = s->packet[p].number - flow->expected;

	s->count.nic_out_of_order++;
	if (s->options->irn) {
		if (bit(flow->got, ahead) && s->now < flow->nack_at)
			return;
		set_bit(flow->got, ahead);
		flow->nack_at = s->now + NACK_GAP;
		answer(s, p, NACK, s->packet[p].number, true);
		return;
	}
	if (s->now < flow->nack_at && flow->nacked == flow->expected + 1)
		return;
	flow->nack_at = s->now + NACK_GAP;
	flow->nacked = flow->expected + 1;
	answer(s, p, NACK, 0, true);
}

static void receive_data(struct sim *s, uint32_t p)
{
	const struct packet *packet = &s->packet[p];
	struct flow *flow = &s->flow[packet->flow];

	count_order(s, flow, packet);
	if (packet->number > flow->expected) {
		out_of_order(s, flow, p);
		return;
	}
	if (packet->number == flow->expected) {
		do {
			flow->expected++;
			shift_bits(flow->got, 1);
		} while (bit(flow->got, 0));
	}
	if (s->options->irn && !empty(flow->got))
		answer(s, p, NACK, packet->number, false);
	else
		answer(s, p, ACK, 0, false);
}

void nic_receive(struct sim *s, uint32_t p)
{
	if (s->packet[p].type == DATA)
		receive_data(s, p);
	else
		receive_ack(s, p);
	packet_free(s, p);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ports and switches: transmission, the shared buffer with its thresholds, PFC, ECN marks, and
 * where a packet goes next.
 *
 * The buffer's rules and constants are conweave-ns3's (Broadcom's): each ingress has 2 packets of
 * its own and a headroom for what is under way when it pauses; the rest is shared. An ingress is
 * paused when it holds more than 1/16 of what is free of the shared part. Without PFC a packet is
 * dropped when its egress holds more than is free; in conweave-ns3, with PFC too. Control packets
 * are not charged. Marks are made when a packet leaves, by what its egress still holds.
 */
#include "reorder/sim/sim.h"

#include <stdlib.h>

#define FULL	     (MTU + HEADERS)
#define MARK_MIN     100000
#define MARK_MAX     400000
#define MARK_PERCENT 20
#define SLACK	     16
#define NS3_PAUSE    43

uint32_t packet_new(struct sim *s)
{
	uint32_t p = s->free_packet;

	if (p == NONE) {
		uint32_t more = s->packets ? s->packets : 65536;

		s->packet = realloc(s->packet, sizeof(*s->packet) * (s->packets + more));
		if (!s->packet)
			abort();
		for (uint32_t i = 0; i < more; i++)
			s->packet[s->packets + i].next = i + 1 < more ? s->packets + i + 1 : NONE;
		p = s->packets;
		s->packets += more;
	}
	s->free_packet = s->packet[p].next;
	s->packet[p] = (struct packet){.next = NONE};
	s->packets_out++;
	return p;
}

void packet_free(struct sim *s, uint32_t p)
{
	s->packet[p].next = s->free_packet;
	s->free_packet = p;
	s->packets_out--;
}

static void append(struct sim *s, struct fifo *fifo, uint32_t p)
{
	s->packet[p].next = NONE;
	if (fifo->first == NONE)
		fifo->first = p;
	else
		s->packet[fifo->last].next = p;
	fifo->last = p;
}

static uint32_t headroom_of(const struct port *port)
{
	return (uint32_t)(2 * port->delay / port->per_byte) + 2 * FULL;
}

/* The part of the buffer that ingresses share, and that egresses do. */
static int64_t shared_part(const struct sim *s, const struct node *node)
{
	return (int64_t)s->options->buffer -
	       node->ports * (int64_t)(headroom_of(&s->port[node->first_port]) + 8 * FULL);
}

static int64_t shared_egress(const struct sim *s, const struct node *node)
{
	return (int64_t)s->options->buffer - node->ports * (int64_t)(8 * FULL);
}

/* The time from which a port may send. */
static int64_t link_free(const struct sim *s, const struct port *port)
{
	int64_t at = port->free_at > port->pause_sent ? port->free_at : port->pause_sent;

	return at > s->now ? at : s->now;
}

/* A PAUSE or RESUME overtakes what is queued, not what is being sent. */
static void send_pause(struct sim *s, struct port *ingress, bool pause)
{
	uint32_t size = s->options->ns3 ? NS3_PAUSE : CONTROL;

	s->count.pauses += pause;
	if (ingress->pausing != pause) {
		ingress->pausing = pause;
		if (balance->paused)
			balance->paused(s, ingress);
	}
	ingress->pause_sent = link_free(s, ingress) + whole(s, size * ingress->per_byte);
	event_add(s->now, ingress->pause_sent + ingress->delay, pause ? PAUSE : RESUME,
		  ingress->peer);
}

static void pause_if_above(struct sim *s, const struct node *node, struct port *ingress)
{
	int64_t share = (shared_part(s, node) - node->used) / 16;

	if ((ingress->pausing && !s->options->pause_time) || s->options->irn)
		return;
	if ((int64_t)ingress->ingress - 2 * FULL > share || ingress->headroom)
		send_pause(s, ingress, true);
}

/* A pause ends by a RESUME, or by itself after the time it named. */
void port_pause(struct sim *s, uint32_t number)
{
	struct port *port = &s->port[number];

	port->paused = true;
	port->paused_until = s->now + s->options->pause_time;
	if (port->expiring || !s->options->pause_time)
		return;
	port->expiring = true;
	event_add(s->now, port->paused_until, EXPIRE, number);
}

void port_resume(struct sim *s, uint32_t number)
{
	s->port[number].paused = false;
	port_kick(s, number);
}

void port_expire(struct sim *s, uint32_t number)
{
	struct port *port = &s->port[number];

	port->expiring = port->paused && port->paused_until > s->now;
	if (port->expiring)
		event_add(s->now, port->paused_until, EXPIRE, number);
	else if (port->paused)
		port_resume(s, number);
}

static void resume_if_below(struct sim *s, const struct node *node, struct port *ingress)
{
	int64_t share = (shared_part(s, node) - node->used - SLACK) / 16;

	if (ingress->pausing && (int64_t)ingress->ingress - 2 * FULL < share && !ingress->headroom)
		send_pause(s, ingress, false);
}

void drop(struct sim *s, uint32_t p)
{
	s->count.drops++;
	if (!s->options->irn && !s->options->ns3)
		s->broken = "a lossless fabric dropped a packet";
	packet_free(s, p);
}

static bool admitted(struct sim *s, const struct node *node, const struct port *ingress,
		     const struct port *egress, uint32_t size)
{
	if (node->used + size > s->options->buffer)
		return false;
	if ((int64_t)egress->egress + size > shared_egress(s, node) - node->used &&
	    (s->options->irn || s->options->ns3))
		return false;
	return ingress->ingress + size <= FULL || node->used <= shared_part(s, node) ||
	       ingress->headroom + size <= headroom_of(ingress);
}

bool switch_charge(struct sim *s, uint32_t p, uint32_t port)
{
	struct packet *packet = &s->packet[p];
	struct port *egress = &s->port[port], *ingress = &s->port[packet->at];
	struct node *node = &s->node[egress->node];

	if (!admitted(s, node, ingress, egress, packet->size)) {
		drop(s, p);
		return false;
	}
	node->used += packet->size;
	ingress->ingress += packet->size;
	egress->egress += packet->size;
	if (node->used > shared_part(s, node))
		ingress->headroom += packet->size;
	if (node->used > node->used_max)
		node->used_max = node->used;
	packet->flags |= CHARGED;
	pause_if_above(s, node, ingress);
	return true;
}

static void discharge(struct sim *s, struct packet *packet, struct port *egress)
{
	struct node *node = &s->node[egress->node];
	struct port *ingress = &s->port[packet->at];

	packet->flags &= (uint8_t)~CHARGED;
	node->used -= packet->size;
	egress->egress -= packet->size;
	ingress->ingress -= packet->size;
	ingress->headroom = ingress->headroom > packet->size ? ingress->headroom - packet->size : 0;
	resume_if_below(s, node, ingress);
}

static void mark(struct sim *s, struct packet *packet, uint32_t port)
{
	uint64_t backlog =
		balance->backlog ? balance->backlog(s, port) : port_backlog(&s->port[port]);

	if (packet->type != DATA || backlog <= MARK_MIN || s->options->no_ecn)
		return;
	if (backlog < MARK_MAX && random_below(&s->random, 100 * (MARK_MAX - MARK_MIN)) >=
					  MARK_PERCENT * (backlog - MARK_MIN))
		return;
	packet->flags |= CE;
	s->count.marks++;
}

static uint32_t take_data(struct sim *s, uint32_t number)
{
	struct port *port = &s->port[number];
	uint32_t p = port->data.first;

	if (p == NONE)
		return NONE;
	port->data.first = s->packet[p].next;
	port->bytes -= s->packet[p].size;
	return p;
}

static uint32_t next_packet(struct sim *s, uint32_t number)
{
	struct port *port = &s->port[number];
	uint32_t p = port->control.first;

	if (p != NONE) {
		port->control.first = s->packet[p].next;
		return p;
	}
	if (port->paused)
		return NONE;
	if (!s->node[port->node].level)
		return nic_next(s, port->node);
	if (balance->dequeue && port->to_host)
		p = balance->dequeue(s, number);
	else
		p = take_data(s, number);
	if (p != NONE && s->packet[p].flags & CHARGED) {
		discharge(s, &s->packet[p], port);
		mark(s, &s->packet[p], number);
	}
	return p;
}

static bool more(const struct sim *s, uint32_t number)
{
	const struct port *port = &s->port[number];

	if (port->control.first != NONE || port->data.first != NONE)
		return true;
	if (!s->node[port->node].level)
		return s->ready[port->node].first != NONE;
	return balance->ready && port->to_host && balance->ready(s, number);
}

static void transmit(struct sim *s, uint32_t number)
{
	struct port *port = &s->port[number];
	uint32_t p = next_packet(s, number);
	struct packet *packet = &s->packet[p];

	if (p == NONE)
		return;
	port->free_at = link_free(s, port) + whole(s, packet->size * port->per_byte);
	packet->at = port->peer;
	s->count.hops++;
	event_add(s->now, port->free_at + port->delay, ARRIVE, p);
	if (more(s, number)) {
		port->pending = true;
		event_add(s->now, port->free_at, FREE, number);
	}
}

void port_kick(struct sim *s, uint32_t number)
{
	struct port *port = &s->port[number];

	if (port->pending)
		return;
	if (s->now >= port->free_at) {
		transmit(s, number);
		return;
	}
	port->pending = true;
	event_add(s->now, port->free_at, FREE, number);
}

void port_free(struct sim *s, uint32_t number)
{
	s->port[number].pending = false;
	transmit(s, number);
}

void switch_queue(struct sim *s, uint32_t p, uint32_t number)
{
	struct port *port = &s->port[number];
	struct packet *packet = &s->packet[p];

	if (packet->type == DATA) {
		append(s, &port->data, p);
		port->bytes += packet->size;
	} else {
		append(s, &port->control, p);
	}
	port_kick(s, number);
}

void switch_forward(struct sim *s, uint32_t p, uint32_t number)
{
	if (s->packet[p].type == DATA && !switch_charge(s, p, number))
		return;
	switch_queue(s, p, number);
}

/* The way of what goes back, acknowledgements and the methods' own packets: by the hash of the
 * flow. */
static void forward_control(struct sim *s, uint32_t p, uint32_t node, uint32_t host)
{
	const struct flow *flow = &s->flow[s->packet[p].flow];

	switch_queue(s, p, topology_route(s, node, host, flow->ecmp_back));
}

void switch_originate(struct sim *s, uint32_t node, uint32_t p, uint32_t host)
{
	s->count.control_bytes += s->packet[p].size;
	forward_control(s, p, node, host);
}

static void receive_data(struct sim *s, uint32_t p, uint32_t node)
{
	struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination), port;
	const struct node *n = &s->node[node];

	if (from != to && n->level == 1 && n->number == from)
		balance->at_source(s, p, node);
	else if (from != to && n->level > 1 && balance->at_core)
		balance->at_core(s, p, node);
	port = topology_route(s, node, flow->destination, packet->path);
	if (n->level == 1 && n->number == to && balance->at_destination &&
	    balance->at_destination(s, p, node, port))
		return;
	switch_forward(s, p, port);
}

void switch_receive(struct sim *s, uint32_t p)
{
	struct packet *packet = &s->packet[p];
	uint32_t node = s->port[packet->at].node;
	const struct flow *flow = &s->flow[packet->flow];
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination);
	const struct node *n = &s->node[node];

	if (packet->type == DATA) {
		receive_data(s, p, node);
		return;
	}
	if (n->level == 1 && from != to) {
		if (packet->to_switch && n->number == from) {
			balance->control(s, p, node);
			packet_free(s, p);
			return;
		}
		if (balance->at_ack && !packet->to_switch)
			balance->at_ack(s, p, node, n->number == to);
	}
	forward_control(s, p, node, flow->source);
}

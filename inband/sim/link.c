/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * FIFOs, credits and links. A FIFO is one of: a port's input, an NMA's output, a host's requests.
 * Its head goes where the packet's route says; while it cannot, the FIFO waits at the port whose
 * credits are used up, or at the chip whose NMA is full, and is taken up again from there. One
 * thread.
 */
#include <errno.h>

#include "inband/sim/sim.h"

void fifo_push(struct fifo *fifo, struct packet *packet)
{
	packet->next = NULL;
	if (fifo->head)
		fifo->tail->next = packet;
	else
		fifo->head = packet;
	fifo->tail = packet;
	fifo->count++;
}

void waiters_add(struct waiters *waiters, struct fifo *fifo)
{
	if (fifo->waiting)
		return;
	fifo->waiting = true;
	fifo->next_waiter = NULL;
	if (waiters->head)
		waiters->tail->next_waiter = fifo;
	else
		waiters->head = fifo;
	waiters->tail = fifo;
}

/* Each that waits now gets its turn once; one that still cannot move goes to the end. */
void waiters_kick(struct sim *sim, struct waiters *waiters)
{
	struct fifo *fifo = waiters->head;

	waiters->head = NULL;
	while (fifo) {
		struct fifo *next = fifo->next_waiter;

		fifo->waiting = false;
		fifo_advance(sim, fifo);
		fifo = next;
	}
}

/* Takes the head; its place is free for the next packet to this FIFO. */
static struct packet *shift(struct sim *sim, struct fifo *fifo)
{
	struct packet *packet = fifo->head;

	fifo->head = packet->next;
	fifo->count--;
	return packet;
}

static struct port *input_of(struct fifo *fifo)
{
	return (struct port *)((char *)fifo - offsetof(struct port, input));
}

static void give_credit(struct sim *sim, struct fifo *fifo)
{
	struct port *upstream;

	if (!fifo->port_input || input_of(fifo)->peer == MACHINE_NONE)
		return;
	upstream = &sim->ports[input_of(fifo)->peer];
	if (upstream->state != LINK_UP)
		return;
	upstream->credits++;
	waiters_kick(sim, &upstream->waiters);
}

/* A packet that a bad link damages is sent again by the link layer, found out by its CRC. */
static uint64_t damaged(struct sim *sim, struct packet *packet, struct port *out, struct port *in)
{
	uint64_t late = 0;

	while (sim_random(sim, 1000000) < in->error_rate) {
		struct nmp_packet wire;
		struct nmp nmp;
		unsigned hops;

		nmp_to_packet(&packet->nmp, packet->hop, &wire);
		nmp_flip(&wire, sim_random(sim, NMP_PACKET_BITS));
		if (nmp_from_packet(&wire, &nmp, &hops) != -EBADMSG)
			break;
		in->errors++;
		out->retries++;
		sim->counts.retries++;
		late += 2 * sim->config.times.hop;
	}
	return late;
}

static void transmit(struct sim *sim, struct packet *packet, struct port *out)
{
	struct port *in = &sim->ports[out->peer];
	const struct sim_times *t = &sim->config.times;
	uint64_t start = out->busy_until > sim->now ? out->busy_until : sim->now;

	out->credits--;
	out->sent++;
	out->busy_until = start + t->flits;
	sim->counts.link_packets++;
	packet->port = out->peer;
	packet->life = in->life;
	start += t->hop;
	if (t->busy)
		start += sim_random(sim, t->busy);
	if (in->error_rate)
		start += damaged(sim, packet, out, in);
	sim_at_packet(sim, start, EVENT_ARRIVE, packet);
}

/* The port that the head of a FIFO leaves by; NULL: it is for this chip. False: there is no such
 * port. */
static bool way_out(struct sim *sim, struct fifo *fifo, const struct packet *packet,
		    struct port **out)
{
	struct chip *chip = &sim->chips[fifo->chip];
	const struct nmp_route *route = &packet->nmp.forward;

	*out = NULL;
	if (chip->type == NMP_NIC) {
		if (!fifo->port_input)
			*out = &chip->ports[0];
		return true;
	}
	if (packet->hop == route->hops)
		return fifo->port_input; /* what an NMA sends has to leave */
	if (route->port[packet->hop] >= chip->nports)
		return false;
	*out = &chip->ports[route->port[packet->hop]];
	return true;
}

static void drop(struct sim *sim, struct fifo *fifo, struct port *out)
{
	struct packet *packet = shift(sim, fifo);

	if (out)
		out->dropped++;
	sim->counts.unroutable++;
	sim_packet_free(sim, packet);
}

/* What follows when a FIFO has become shorter. */
static void shortened(struct sim *sim, struct fifo *fifo)
{
	struct chip *chip = &sim->chips[fifo->chip];

	if (fifo->port_input)
		give_credit(sim, fifo);
	else if (fifo == &chip->output)
		nma_collect(sim, chip);
}

void fifo_advance(struct sim *sim, struct fifo *fifo)
{
	while (fifo->head && !fifo->waiting) {
		struct chip *chip = &sim->chips[fifo->chip];
		struct packet *packet = fifo->head;
		struct port *out;

		if (!way_out(sim, fifo, packet, &out) || (out && out->state != LINK_UP)) {
			drop(sim, fifo, out);
		} else if (out && !out->credits) {
			out->waits++;
			waiters_add(&out->waiters, fifo);
			return;
		} else if (out) {
			shift(sim, fifo);
			packet->hop += chip->type == NMP_NRC;
			transmit(sim, packet, out);
		} else {
			/* Once accepted the packet is the NMA's: it leaves the FIFO first. */
			shift(sim, fifo);
			if (!nma_accept(sim, chip, packet)) {
				packet->next = fifo->head;
				fifo->head = packet;
				if (!packet->next)
					fifo->tail = packet;
				fifo->count++;
				waiters_add(&chip->waiters, fifo);
				return;
			}
		}
		shortened(sim, fifo);
	}
}

void link_arrive(struct sim *sim, struct packet *packet)
{
	struct port *in = &sim->ports[packet->port];

	if (in->state != LINK_UP || in->life != packet->life) {
		sim->counts.unroutable++;
		sim_packet_free(sim, packet);
		return;
	}
	in->received++;
	fifo_push(&in->input, packet);
	fifo_advance(sim, &in->input);
}

void link_reset(struct sim *sim, struct port *port)
{
	struct fifo *fifo = &port->input;

	while (fifo->head)
		sim_packet_free(sim, shift(sim, fifo));
	port->credits = sim->config.credits;
	port->life++;
	/* Who waits to leave here is dropped by the state of the link. */
	waiters_kick(sim, &port->waiters);
}

static void go_down(struct sim *sim, struct port *port)
{
	bool was_up = port->state == LINK_UP;

	port->state = port->enabled ? LINK_DOWN : LINK_OFF;
	port->tag &= ~TAG_VALID;
	if (port->bist == BIST_RUNNING)
		port->bist = BIST_NO_LINK;
	if (!was_up)
		return;
	link_reset(sim, port);
	nma_fault(sim, sim_port_chip(sim, port), FAULT_LINK_DOWN, sim_port_number(sim, port),
		  port->light);
}

/* Light comes in from a chip that has power and sends. */
static bool can_link(struct sim *sim, const struct port *port)
{
	return port->peer != MACHINE_NONE && port->light && port->enabled && port->lanes &&
	       !sim_port_chip(sim, port)->dead && (sim_port_chip(sim, port)->status & STATUS_READY);
}

void link_update(struct sim *sim, struct port *port)
{
	struct port *peer = port->peer == MACHINE_NONE ? NULL : &sim->ports[port->peer];

	if (!peer || !can_link(sim, port) || !can_link(sim, peer)) {
		go_down(sim, port);
		if (peer)
			go_down(sim, peer);
		return;
	}
	if (port->state == LINK_UP && peer->state == LINK_UP)
		return;
	go_down(sim, port);
	go_down(sim, peer);
	sim_at(sim, sim->now + sim->config.times.handshake, EVENT_LINK_UP,
	       sim_port_index(sim, port), port->life);
	sim_at(sim, sim->now + sim->config.times.handshake, EVENT_LINK_UP,
	       sim_port_index(sim, peer), peer->life);
}

void link_handshaken(struct sim *sim, uint32_t index, uint32_t life)
{
	struct port *port = &sim->ports[index], *peer;
	struct chip *other;

	if (port->life != life || port->state == LINK_UP || port->peer == MACHINE_NONE)
		return;
	peer = &sim->ports[port->peer];
	if (!can_link(sim, port) || !can_link(sim, peer))
		return;
	other = sim_port_chip(sim, peer);
	port->state = LINK_UP;
	port->tag = tag_make(other->id, other->type, sim_port_number(sim, peer));
	port->handshakes++;
	if (sim->now)
		nma_fault(sim, sim_port_chip(sim, port), FAULT_LINK_UP, sim_port_number(sim, port),
			  port->handshakes);
}

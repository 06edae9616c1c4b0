/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ConWeave (SIGCOMM 2023), as its authors' simulator has it, and with a limit to its queues.
 *
 * Source: each epoch of a flow begins with a packet INIT that asks for an answer. Without one in
 * base round trip + 4 us the packet at hand becomes TAIL, the last by this path, and what follows
 * (phase 1) goes by another: one of two random paths of which no ECN notice came in 16 us. An
 * answer in time to INIT, any to TAIL, or a silence of theta_inactive begins the next epoch.
 *
 * Destination: packets of phase 1 before TAIL wait in a queue of their flow until TAIL comes, or
 * until it should have come by the times it and its predecessors were sent, and 16 us more.
 *
 * With a limit, a port has that many queues for all flows; a flow that finds none goes on out of
 * order, which is what the paper says a switch does.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <stdlib.h>

enum { PLAIN, INIT, TAIL };

struct sender {
	int64_t active, reply_by, tail;
	uint32_t epoch;
	uint8_t path, phase;
	bool known, stable;
};

struct receiver {
	int64_t sent0, received0, tail, flush_at;
	uint32_t epoch;
	uint32_t first, last, waiting; /* packets held */
	uint8_t phase;
	bool cached0, reordering, timer;
};

struct conweave {
	struct sender *sender;	   /* of each flow */
	struct receiver *receiver; /* of each flow */
	int64_t *bad_until;	   /* [tor][other tor][path] */
	uint16_t *queues;	   /* of each port, in use */
	uint64_t held_packets, held_bytes;
	int64_t inactive, flush, unknown;
};

#define REPLY_MORE (4 * US)
#define PATH_PAUSE (16 * US)

static int init(struct sim *s)
{
	size_t paths = (size_t)s->topology.tors * s->topology.tors * s->topology.paths;
	struct conweave *cw = calloc(1, sizeof(*cw));

	if (!cw)
		return -ENOMEM;
	s->balance = cw;
	cw->sender = calloc(s->flows, sizeof(*cw->sender));
	cw->receiver = calloc(s->flows, sizeof(*cw->receiver));
	cw->bad_until = calloc(paths, sizeof(*cw->bad_until));
	cw->queues = calloc(s->topology.ports, sizeof(*cw->queues));
	cw->inactive = s->topology.fat ? MS : 300 * US;
	cw->flush = s->topology.fat && !s->options->irn ? 64 * US : 16 * US;
	cw->unknown = !s->topology.fat ? 200 * US : s->options->irn ? 300 * US : 600 * US;
	return cw->sender && cw->receiver && cw->bad_until && cw->queues ? 0 : -ENOMEM;
}

static void fini(struct sim *s)
{
	struct conweave *cw = s->balance;

	free(cw->sender);
	free(cw->receiver);
	free(cw->bad_until);
	free(cw->queues);
	free(cw);
}

static int64_t *bad_until(struct sim *s, uint32_t from, uint32_t to, uint8_t path)
{
	struct conweave *cw = s->balance;

	return &cw->bad_until[((size_t)from * s->topology.tors + to) * s->topology.paths + path];
}

/* One of two random paths without recent marks. */
static bool good_path(struct sim *s, uint32_t from, uint32_t to, uint8_t *path)
{
	uint32_t paths = topology_paths(s, from, to);
	uint8_t first = (uint8_t)path_number(s, from, to, random_below(&s->random, paths));
	uint8_t second = (uint8_t)path_number(s, from, to, random_below(&s->random, paths));

	*path = first;
	if (*bad_until(s, from, to, first) <= s->now)
		return true;
	if (*bad_until(s, from, to, second) > s->now)
		return false;
	*path = second;
	return true;
}

static void begin_epoch(struct sim *s, const struct flow *flow, struct sender *sender)
{
	/* The round trip between ToRs: propagation only, as its authors count it. */
	sender->reply_by = s->now + REPLY_MORE +
			   topology_delay(s, flow->source, flow->destination) -
			   4 * s->options->delay;
	sender->epoch++;
	sender->phase = 0;
	sender->tail = 0;
}

/* Returns what the packet is, with its path and phase. */
static int next_step(struct sim *s, const struct flow *flow, struct sender *sender,
		     struct packet *packet)
{
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination);
	struct conweave *cw = s->balance;
	bool expired = !sender->known || sender->active + cw->inactive < s->now;
	bool stable = !expired && sender->stable;
	uint8_t path;
	bool good = good_path(s, from, to, &path);
	int what = PLAIN;

	if (expired || stable) {
		sender->stable = false;
		begin_epoch(s, flow, sender);
		what = INIT;
		if (!sender->known)
			sender->path = path;
		else if (expired && good) {
			sender->path = path;
			s->count.reroutes++;
		}
		packet->path = sender->path;
	} else if (sender->reply_by < s->now) {
		what = TAIL;
		packet->path = sender->path;
		packet->cw.phase = 0;
		sender->reply_by = INT64_MAX;
		sender->phase = 1;
		sender->tail = s->now;
		if (good) {
			s->count.reroutes += path != sender->path;
			sender->path = path;
		}
	} else {
		packet->path = sender->path;
		packet->cw.phase = sender->phase;
	}
	sender->known = true;
	sender->active = s->now;
	return what;
}

static void at_source(struct sim *s, uint32_t p, uint32_t node)
{
	struct conweave *cw = s->balance;
	struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	struct sender *sender = &cw->sender[packet->flow];

	packet->cw = (struct conweave_tag){.sent = s->now};
	packet->cw.what = (uint8_t)next_step(s, flow, sender, packet);
	packet->cw.path = packet->path;
	packet->cw.epoch = sender->epoch;
	packet->cw.tail = sender->tail;
}

static void tell(struct sim *s, uint32_t node, uint32_t data, enum packet_type type)
{
	uint32_t p = packet_new(s);
	struct packet *packet = &s->packet[p];

	packet->type = (uint8_t)type;
	packet->flow = s->packet[data].flow;
	packet->size = CONTROL;
	packet->cw = s->packet[data].cw;
	packet->to_switch = 1;
	switch_originate(s, node, p, s->flow[packet->flow].source);
}

static void control(struct sim *s, uint32_t p, uint32_t node)
{
	struct conweave *cw = s->balance;
	const struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	struct sender *sender = &cw->sender[packet->flow];

	if (packet->type == CW_NOTIFY) {
		*bad_until(s, tor_of(s, flow->source), tor_of(s, flow->destination),
			   packet->cw.path) = s->now + PATH_PAUSE;
		return;
	}
	if (packet->cw.epoch != sender->epoch || sender->phase != (packet->cw.what == TAIL))
		return;
	if (packet->cw.what == INIT &&
	    (s->now >= sender->reply_by || sender->reply_by == INT64_MAX))
		return;
	sender->stable = true;
	sender->reply_by = INT64_MAX;
}

/* Uncharged, held packets enter the buffer only when they leave their queue. */
static void pass_on(struct sim *s, uint32_t p, uint32_t port)
{
	if (s->options->held_uncharged)
		switch_forward(s, p, port);
	else
		switch_queue(s, p, port);
}

static void flush(struct sim *s, uint32_t index)
{
	struct conweave *cw = s->balance;
	struct receiver *r = &cw->receiver[index];
	uint32_t port = s->port[s->flow[index].destination].peer, p = r->first;

	cw->queues[port]--;
	r->reordering = false;
	r->phase = 1;
	r->first = NONE;
	while (p != NONE) {
		uint32_t next = s->packet[p].next;

		cw->held_packets--;
		cw->held_bytes -= s->packet[p].size;
		pass_on(s, p, port);
		p = next;
	}
}

static void schedule(struct sim *s, uint32_t index, int64_t time)
{
	struct conweave *cw = s->balance;
	struct receiver *r = &cw->receiver[index];

	if (time < s->now)
		time = s->now;
	r->flush_at = time;
	if (r->timer)
		return;
	r->timer = true;
	event_add(s->now, time, VOQ, index);
}

/* A timer that is too early waits on: TAIL's predecessors put it off. */
static void timer(struct sim *s, uint32_t index)
{
	struct conweave *cw = s->balance;
	struct receiver *r = &cw->receiver[index];

	r->timer = false;
	if (!r->reordering)
		return;
	if (r->flush_at > s->now) {
		schedule(s, index, r->flush_at);
		return;
	}
	s->count.timer_releases++;
	flush(s, index);
}

static bool hold(struct sim *s, uint32_t p, uint32_t port)
{
	struct conweave *cw = s->balance;
	struct receiver *r = &cw->receiver[s->packet[p].flow];

	if (!r->reordering) {
		if (s->options->queues && cw->queues[port] >= s->options->queues)
			return false;
		if (++cw->queues[port] > s->count.queues_max)
			s->count.queues_max = cw->queues[port];
		r->reordering = true;
		r->first = NONE;
		schedule(s, s->packet[p].flow,
			 (r->cached0 ? r->received0 + (r->tail > r->sent0 ? r->tail - r->sent0 : 0)
				     : s->now + cw->unknown) +
				 cw->flush);
	}
	if (!s->options->held_uncharged && !switch_charge(s, p, port))
		return true;
	s->packet[p].next = NONE;
	if (r->first == NONE)
		r->first = p;
	else
		s->packet[r->last].next = p;
	r->last = p;
	s->count.held++;
	if (++cw->held_packets > s->count.held_packets_max)
		s->count.held_packets_max = cw->held_packets;
	cw->held_bytes += s->packet[p].size;
	if (cw->held_bytes > s->count.held_bytes_max)
		s->count.held_bytes_max = cw->held_bytes;
	return true;
}

/* Which epoch and phase the flow is in by this packet; true if it came too early. */
static bool follow(struct sim *s, struct receiver *r, const struct conweave_tag *tag)
{
	bool early = false;

	if (!tag->phase) {
		r->sent0 = tag->sent;
		r->received0 = s->now;
	}
	if (r->epoch < tag->epoch) {
		r->epoch = tag->epoch;
		r->phase = tag->what == TAIL;
		early = tag->phase > r->phase;
		r->cached0 = !tag->phase;
	} else if (tag->what == TAIL) {
		r->phase |= !r->reordering;
	} else {
		early = r->phase < tag->phase;
	}
	if (!tag->phase)
		r->cached0 = true;
	if (tag->what == TAIL || tag->phase)
		r->tail = tag->tail;
	return early;
}

static bool at_destination(struct sim *s, uint32_t p, uint32_t node, uint32_t port)
{
	struct conweave *cw = s->balance;
	const struct conweave_tag tag = s->packet[p].cw;
	uint32_t index = s->packet[p].flow;
	const struct flow *flow = &s->flow[index];
	struct receiver *r = &cw->receiver[index];
	bool early, tail = tag.what == TAIL;

	if (tor_of(s, flow->source) == tor_of(s, flow->destination))
		return false;
	if (r->epoch > tag.epoch)
		return false;
	early = follow(s, r, &tag);
	if (!tag.phase && r->reordering && !tail)
		schedule(s, index,
			 s->now + (r->tail > r->sent0 ? r->tail - r->sent0 : 0) + cw->flush);
	if (s->packet[p].flags & CE)
		tell(s, node, p, CW_NOTIFY);
	if (tag.what != PLAIN)
		tell(s, node, p, CW_REPLY);
	if (tag.phase && early)
		return hold(s, p, port);
	if (tail && r->reordering) {
		switch_forward(s, p, port);
		flush(s, index);
		return true;
	}
	return false;
}

const struct balance balance_conweave = {
	.name = "conweave",
	.init = init,
	.fini = fini,
	.at_source = at_source,
	.at_destination = at_destination,
	.control = control,
	.timer = timer,
};

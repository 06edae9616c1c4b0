/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libreorder in the simulator: a source half and a destination half in each ToR. Data frames carry
 * the shim; acknowledgements carry it too, for its feedback only, and its bytes are charged to
 * both.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct half {
	struct sim *sim;
	uint32_t node;
};

struct shared {
	struct half *half; /* of each ToR: the context of its callbacks */
	uint32_t *kick;	   /* ports that may be ready */
	uint32_t kicks;
};

static struct reorder_key key_of(const struct sim *s, uint32_t flow)
{
	return (struct reorder_key){{s->flow[flow].source, s->flow[flow].destination, flow, 0, 0}};
}

static int64_t uplink_wait(void *context, uint16_t destination, uint8_t path)
{
	const struct half *half = context;
	struct sim *s = half->sim;
	uint32_t tor = s->node[half->node].number;
	const struct port *port = uplink_of(s, tor, path);
	int64_t busy = port->free_at - s->now;

	if (topology_paths(s, tor, destination) != s->topology.paths && path % (s->topology.k / 2))
		return INT64_MAX; /* in one pod the core switch does not matter: one path of each */
	return (busy > 0 ? busy : 0) + port->bytes * port->per_byte;
}

static int64_t uplink_penalty(void *context, uint16_t destination, uint8_t path)
{
	const struct half *half = context;
	struct sim *s = half->sim;

	return uplink_of(s, s->node[half->node].number, path)->paused ? REORDER_PAUSED : 0;
}

static void paused(struct sim *s, const struct port *ingress)
{
	if (s->node[ingress->node].destination && !ingress->to_host)
		reorder_pause(s->node[ingress->node].destination, ingress->local, ingress->pausing);
}

static void on_clear(void *context, uint16_t source, const struct reorder_key *key, uint32_t id,
		     uint8_t epoch)
{
	const struct half *half = context;
	struct sim *s = half->sim;
	uint32_t p = packet_new(s);
	struct packet *packet = &s->packet[p];

	packet->type = RO_CLEAR;
	packet->flow = (uint32_t)key->word[2];
	packet->size = CONTROL + 12;
	packet->to_switch = 1;
	packet->shim.epoch = epoch;
	reorder_feedback(s->node[half->node].destination, source, &packet->shim);
	s->count.clears++;
	switch_originate(s, half->node, p, s->flow[packet->flow].source);
}

static void on_ready(void *context, uint16_t port)
{
	const struct half *half = context;
	struct shared *shared = half->sim->balance;

	if (shared->kicks < half->sim->topology.ports)
		shared->kick[shared->kicks++] = half->sim->node[half->node].first_port + port;
}

/* After a call that may have made ports ready, and moved the timer. */
static void settle(struct sim *s, uint32_t node)
{
	struct shared *shared = s->balance;
	struct node *n = &s->node[node];
	int64_t due = reorder_deadline(n->destination);

	while (shared->kicks)
		port_kick(s, shared->kick[--shared->kicks]);
	if (due < n->timer) {
		n->timer = due;
		event_add(s->now, due > s->now ? due : s->now, HOLD, node);
	}
}

static int make_source(struct sim *s, struct node *n, struct half *half)
{
	const struct options *o = s->options;
	struct reorder_source_config config = {
		.size = sizeof(config),
		.flows = 16384,
		.destinations = (uint16_t)s->topology.tors,
		.paths = (uint8_t)s->topology.paths,
		.high = o->high,
		.low = o->low,
		.gain = o->gain,
		.most = o->most,
		.rest = o->rest,
		.budget = o->budget,
		.pace = o->pace,
		.inactive = 4 * MS,
		.fresh = o->fresh,
		.per_byte = 2 * (int64_t)(8000000000000 / o->rate),
		.lately = 4 * US,
		.seed = o->seed * 1000 + n->number + 1,
		.wait = uplink_wait,
		.penalty = uplink_penalty,
		.context = half,
	};

	return reorder_source_create(&n->source, &config);
}

static int make_destination(struct sim *s, struct node *n, struct half *half)
{
	const struct options *o = s->options;
	struct reorder_destination_config config = {
		.size = sizeof(config),
		.mode = o->sw ? REORDER_SW : REORDER_HW,
		.estimator = o->estimator_mg1 ? REORDER_MG1 : REORDER_SAMPLE,
		.measure = true,
		.flows = 16384,
		.packets = (uint32_t)(o->buffer / ACK_SIZE),
		.sources = (uint16_t)s->topology.tors,
		.paths = (uint8_t)s->topology.paths,
		.ports = n->ports,
		.ingresses = n->ports,
		.queues = (uint8_t)(o->queues && o->queues < REORDER_QUEUES ? o->queues
									    : REORDER_QUEUES),
		.rate = o->rate,
		.before = 2 * US,
		.after = 2 * US,
		.margin = o->margin,
		.hold = o->hold,
		.inactive = 2 * MS,
		.again = 50 * US,
		.held_ingress = o->irn ? o->buffer : o->buffer / 16 / 2,
		.ready = on_ready,
		.clear = on_clear,
		.context = half,
	};

	return reorder_destination_create(&n->destination, &config);
}

static int init(struct sim *s)
{
	struct shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return -ENOMEM;
	s->balance = shared;
	shared->half = calloc(s->topology.tors, sizeof(*shared->half));
	shared->kick = calloc(s->topology.ports, sizeof(*shared->kick));
	if (!shared->half || !shared->kick)
		return -ENOMEM;
	for (uint32_t i = 0; i < s->topology.tors; i++) {
		struct node *n = &s->node[s->topology.hosts + i];

		shared->half[i] = (struct half){s, s->topology.hosts + i};
		if (make_source(s, n, &shared->half[i]) || make_destination(s, n, &shared->half[i]))
			return -ENOMEM;
	}
	return 0;
}

static void fini(struct sim *s)
{
	struct shared *shared = s->balance;

	for (uint32_t i = 0; i < s->topology.tors; i++) {
		struct node *n = &s->node[s->topology.hosts + i];

		reorder_source_destroy(n->source);
		reorder_destination_destroy(n->destination);
	}
	free(shared->half);
	free(shared->kick);
	free(shared);
}

static void at_source(struct sim *s, uint32_t p, uint32_t node)
{
	struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	struct reorder_source *source = s->node[node].source;
	uint16_t to = (uint16_t)tor_of(s, flow->destination);
	struct reorder_key key = key_of(s, packet->flow);
	uint16_t extra;

	if (reorder_source_route(source, &key, flow->hash, to, packet->size, s->now,
				 &packet->shim)) {
		packet->path = reorder_source_ecmp(source, flow->hash, to);
		return;
	}
	packet->flags |= SHIMMED;
	packet->path = packet->shim.path;
	reorder_feedback(s->node[node].destination, to, &packet->shim);
	extra = s->options->header ? (uint16_t)reorder_shim_size(&packet->shim) : 0;
	packet->size += extra;
	s->count.control_bytes += extra;
}

/* The shim ends here: its bytes do not go on to the host. */
static bool at_destination(struct sim *s, uint32_t p, uint32_t node, uint32_t port)
{
	struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	struct reorder_key key = key_of(s, packet->flow);
	uint16_t source = (uint16_t)tor_of(s, flow->source);
	struct node *n = &s->node[node];
	struct reorder_packet r = {
		.handle = p,
		.port = s->port[port].local,
		.ingress = s->port[packet->at].local,
		.source = source,
		.id = flow->hash,
		.key = &key,
	};
	struct reorder_shim shim = packet->shim;

	if (packet->flags & SHIMMED) {
		r.shim = &shim;
		reorder_source_feedback(n->source, source, &shim, s->now);
		if (s->options->header)
			packet->size -= (uint16_t)reorder_shim_size(&shim);
	}
	r.size = packet->size;
	if (!switch_charge(s, p, port))
		return true;
	if (reorder_enqueue(n->destination, &r, s->now)) {
		s->broken = "no place for a packet that the buffer had room for";
		drop(s, p);
		return true;
	}
	port_kick(s, port);
	settle(s, node);
	return true;
}

static void at_ack(struct sim *s, uint32_t p, uint32_t node, bool source)
{
	struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	uint16_t extra = s->options->header ? REORDER_SHIM : 0;
	struct node *n = &s->node[node];

	if (source) {
		packet->shim = (struct reorder_shim){0};
		reorder_feedback(n->destination, (uint16_t)tor_of(s, flow->source), &packet->shim);
		packet->size += extra;
		s->count.control_bytes += extra;
		return;
	}
	reorder_source_feedback(n->source, (uint16_t)tor_of(s, flow->destination), &packet->shim,
				s->now);
	packet->size -= extra;
}

static void control(struct sim *s, uint32_t p, uint32_t node)
{
	const struct packet *packet = &s->packet[p];
	struct reorder_key key = key_of(s, packet->flow);
	const struct flow *flow = &s->flow[packet->flow];

	reorder_source_feedback(s->node[node].source, (uint16_t)tor_of(s, flow->destination),
				&packet->shim, s->now);
	reorder_source_clear(s->node[node].source, &key, flow->hash, packet->shim.epoch);
}

static void timer(struct sim *s, uint32_t node)
{
	struct node *n = &s->node[node];

	if (s->now < n->timer)
		return;
	n->timer = REORDER_NEVER;
	reorder_expire(n->destination, s->now);
	settle(s, node);
}

static uint32_t dequeue(struct sim *s, uint32_t number)
{
	const struct port *port = &s->port[number];

	return reorder_dequeue(s->node[port->node].destination, port->local, s->now);
}

static bool ready(const struct sim *s, uint32_t number)
{
	const struct port *port = &s->port[number];

	return reorder_ready(s->node[port->node].destination, port->local);
}

static uint64_t backlog(struct sim *s, uint32_t number)
{
	const struct port *port = &s->port[number];

	if (!port->to_host)
		return port->bytes;
	return reorder_backlog(s->node[port->node].destination, port->local);
}

static void finish(struct sim *s)
{
	for (uint32_t i = 0; i < s->topology.tors; i++) {
		const struct node *n = &s->node[s->topology.hosts + i];
		struct reorder_destination_counters d;
		struct reorder_source_counters c;
		uint64_t *sum = (uint64_t *)&s->source, *one = (uint64_t *)&c;

		reorder_destination_counters(n->destination, &d, sizeof(d));
		reorder_source_counters(n->source, &c, sizeof(c));
		for (size_t j = 0; j < sizeof(c) / sizeof(*sum); j++)
			sum[j] += one[j];
		s->count.held += d.held;
		s->count.timer_releases += d.by_timer + d.by_bound;
		if (d.held_packets_max > s->count.held_packets_max)
			s->count.held_packets_max = d.held_packets_max;
		if (d.held_bytes_max > s->count.held_bytes_max)
			s->count.held_bytes_max = d.held_bytes_max;
		if (d.queues_max > s->count.queues_max)
			s->count.queues_max = d.queues_max;
		for (int e = 0; e < REORDER_ESTIMATORS; e++) {
			s->destination.predictions[e] += d.predictions[e];
			s->destination.error[e] += d.error[e];
			s->destination.too_early[e] += d.too_early[e];
		}
		s->destination.by_tail += d.by_tail;
		s->destination.by_proof += d.by_proof;
		s->destination.by_timer += d.by_timer;
		s->destination.by_bound += d.by_bound;
		s->destination.shared += d.shared;
		s->destination.far += d.far;
		s->destination.late += d.late;
		if (reorder_held_packets(n->destination))
			s->broken = "packets are held when all flows are done";
	}
	s->count.reroutes = s->source.reroutes;
}

const struct balance balance_shared = {
	.name = "shared",
	.init = init,
	.fini = fini,
	.at_source = at_source,
	.at_destination = at_destination,
	.at_ack = at_ack,
	.control = control,
	.timer = timer,
	.dequeue = dequeue,
	.backlog = backlog,
	.ready = ready,
	.paused = paused,
	.finish = finish,
};

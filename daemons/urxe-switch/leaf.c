/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Leaves: where a frame goes, libreorder's halves, and the MAC addresses learnt from all ports.
 */
#include <errno.h>
#include <string.h>

#include "daemons/common/log.h"
#include "daemons/urxe-switch/switch.h"

#define US	   ((int64_t)1000000)
#define FIRST_PORT (2 * MAX_LEAVES * MAX_SPINES)

static int64_t uplink_wait(void *context, uint16_t destination, uint8_t path)
{
	const struct leaf *leaf = context;
	struct daemon *d = leaf->daemon;
	const struct link *link = link_of(d, leaf->number, path, true);
	int64_t wait = link->free_at > d->now ? link->free_at - d->now : 0;

	if (!d->spine_up[path])
		return INT64_MAX;
	if (d->settings.rate)
		wait += (int64_t)(link->queue.bytes * 8000000000000u / d->settings.rate);
	return wait;
}

static int64_t uplink_penalty(void *context, uint16_t destination, uint8_t path)
{
	const struct leaf *leaf = context;

	return link_of(leaf->daemon, leaf->number, path, true)->paused ? REORDER_PAUSED : 0;
}

/* CLEAR is a frame of its own: Ethernet, shim, key. */
static void on_clear(void *context, uint16_t source, const struct reorder_key *key, uint32_t id,
		     uint8_t epoch)
{
	struct leaf *leaf = context;
	struct daemon *d = leaf->daemon;
	struct reorder_shim shim = {.flags = REORDER_CLEAR, .epoch = epoch};
	uint32_t f = frame_new(d);
	struct frame *frame = &d->frames[f];

	if (f == NONE)
		return; /* it is repeated */
	frame->clear = true;
	frame->from = leaf->number;
	frame->to = (uint8_t)source;
	frame->id = id;
	frame->size = 14 + sizeof(*key);
	memset(frame->bytes + frame->start, 0, 14);
	memcpy(frame->bytes + frame->start + 14, key, sizeof(*key));
	reorder_feedback(leaf->destination, source, &shim);
	frame_push_shim(frame, &shim);
	frame->path = reorder_source_ecmp(leaf->source, id, source);
	link_send(d, link_of(d, leaf->number, frame->path, true), f);
}

static void on_ready(void *context, uint16_t port)
{
	const struct leaf *leaf = context;
	struct daemon *d = leaf->daemon;

	if (d->num_kicks < MAX_PORTS)
		d->kicks[d->num_kicks++] = leaf->ports[port];
}

static int create_halves(struct daemon *d, struct leaf *leaf)
{
	const struct settings *s = &d->settings;
	struct reorder_source_config source = {
		.size = sizeof(source),
		.flows = s->flows,
		.destinations = (uint16_t)s->num_leaves,
		.paths = (uint8_t)s->num_spines,
		.high = (int64_t)s->high,
		.low = INT64_MAX,
		.gain = (int64_t)s->gain,
		.most = INT64_MAX,
		.rest = 100 * US,
		.budget = UINT32_MAX,
		.pace = 50 * US,
		.inactive = 3000000 * US,
		.fresh = 1000 * US,
		.per_byte = 2 * (int64_t)(8000000000000 / (s->rate ? s->rate : 100000000000)),
		.lately = (int64_t)s->high * 2 / 5,
		.seed = leaf->number + 1u,
		.wait = uplink_wait,
		.penalty = uplink_penalty,
		.context = leaf,
	};
	struct reorder_destination_config destination = {
		.size = sizeof(destination),
		.mode = s->queues ? REORDER_HW : REORDER_SW,
		.flows = s->flows,
		.packets = s->frames,
		.sources = (uint16_t)s->num_leaves,
		.paths = (uint8_t)s->num_spines,
		.ports = (uint16_t)(leaf->num_ports ? leaf->num_ports : 1),
		.ingresses = (uint16_t)(s->num_spines + 1),
		.queues = (uint8_t)(s->queues ? s->queues : REORDER_QUEUES),
		.rate = s->host_rate ? s->host_rate : 100000000000,
		.before = 10 * US,
		.after = 10 * US,
		.margin = 2000 * US,
		.hold = (int64_t)s->hold,
		.inactive = 2000000 * US,
		.again = 1000 * US,
		.held_ingress = (uint64_t)s->xoff_kb << 9,
		.clear = on_clear,
		.ready = on_ready,
		.context = leaf,
	};
	int ret = reorder_source_create(&leaf->source, &source);

	return ret ? ret : reorder_destination_create(&leaf->destination, &destination);
}

int leaves_create(struct daemon *d)
{
	for (unsigned i = 0; i < d->settings.num_leaves; i++) {
		struct leaf *leaf = &d->leaves[i];
		int ret;

		leaf->daemon = d;
		leaf->number = (uint8_t)i;
		leaf->timer = REORDER_NEVER;
		for (unsigned p = 0; p < d->settings.num_ports; p++) {
			if (d->settings.ports[p].leaf != i)
				continue;
			d->ports[p].local = (uint16_t)leaf->num_ports;
			leaf->ports[leaf->num_ports++] = (uint16_t)p;
		}
		ret = create_halves(d, leaf);
		if (ret) {
			log_error("%s: %s", d->settings.leaves[i], strerror(-ret));
			return ret;
		}
		for (unsigned s = 0; s < d->settings.num_spines; s++) {
			for (int way = 0; way < 2; way++) {
				struct link *link = link_of(d, i, s, way);

				*link = (struct link){
					.leaf = (uint8_t)i, .spine = (uint8_t)s, .up = way};
				link->queue.first = link->flying.first = NONE;
				link->delay = (int64_t)d->settings.delay;
			}
			d->spine_up[s] = true;
		}
	}
	for (unsigned n = 0; n < d->settings.num_slower; n++)
		for (unsigned i = 0; i < d->settings.num_leaves; i++)
			link_of(d, i, d->settings.slower[n].spine, true)->delay +=
				(int64_t)d->settings.slower[n].delay;
	return 0;
}

void leaves_destroy(struct daemon *d)
{
	for (unsigned i = 0; i < MAX_LEAVES; i++) {
		reorder_source_destroy(d->leaves[i].source);
		reorder_destination_destroy(d->leaves[i].destination);
	}
}

static struct mac *macs_of(struct daemon *d, const uint8_t *address)
{
	uint32_t hash = 2166136261u;

	for (int i = 0; i < 6; i++)
		hash = (hash ^ address[i]) * 16777619u;
	return d->macs[(hash ^ hash >> 16) % MAC_SETS];
}

/* NULL: no frame has come from it. */
static const struct mac *mac_of(struct daemon *d, const uint8_t *address)
{
	const struct mac *macs = macs_of(d, address);

	for (unsigned i = 0; i < MAC_WAYS; i++)
		if (macs[i].seen && !memcmp(macs[i].address, address, 6))
			return &macs[i];
	return NULL;
}

/* In place of the one that has been silent for the longest time. */
static void learn(struct daemon *d, const uint8_t *address, unsigned port)
{
	struct mac *macs = macs_of(d, address), *mac = macs;

	if (address[0] & 1)
		return;
	for (unsigned i = 0; i < MAC_WAYS; i++) {
		if (macs[i].seen < mac->seen)
			mac = &macs[i];
		if (macs[i].seen && !memcmp(macs[i].address, address, 6)) {
			mac = &macs[i];
			break;
		}
	}
	memcpy(mac->address, address, 6);
	mac->port = (uint16_t)port;
	mac->seen = d->now;
}

/* To a port of this leaf, in its turn. */
static void to_port(struct daemon *d, struct leaf *leaf, uint32_t f,
		    const struct reorder_shim *shim)
{
	struct frame *frame = &d->frames[f];
	struct port *port = &d->ports[frame->port];
	struct reorder_packet packet = {
		.handle = f,
		.size = frame->size,
		.port = port->local,
		.ingress = shim ? frame->path : (uint16_t)d->settings.num_spines,
		.source = frame->from,
		.id = frame->id,
		.key = &frame->key,
		.shim = shim,
	};

	if (reorder_enqueue(leaf->destination, &packet, d->now)) {
		port->drops++;
		frame_free(d, f);
	}
	port_pump(d, frame->port);
}

static void to_fabric(struct daemon *d, struct leaf *leaf, uint32_t f)
{
	struct frame *frame = &d->frames[f];
	unsigned every = d->settings.reroute_every;
	struct reorder_shim shim;

	frame->path = reorder_source_ecmp(leaf->source, frame->id, frame->to);
	if (frame->roce) {
		if (every && ++leaf->shimmed >= every &&
		    !reorder_source_force(leaf->source, &frame->key, frame->id))
			leaf->shimmed = 0;
		if (!reorder_source_route(leaf->source, &frame->key, frame->id, frame->to,
					  frame->size, d->now, &shim)) {
			frame->path = shim.path;
			reorder_feedback(leaf->destination, frame->to, &shim);
			uncharge(d, frame);
			frame_push_shim(frame, &shim);
			charge(d, frame, FIRST_PORT + frame->port);
		}
	}
	link_send(d, link_of(d, leaf->number, frame->path, true), f);
}

static void forward(struct daemon *d, struct leaf *leaf, uint32_t f, unsigned to)
{
	struct frame *frame = &d->frames[f];

	frame->to = d->ports[to].leaf;
	if (frame->to == leaf->number) {
		frame->port = (uint16_t)to;
		to_port(d, leaf, f, NULL);
		return;
	}
	to_fabric(d, leaf, f); /* frame->port is still the one it came by, for the charge */
}

/* Broadcast, multicast, and addresses not seen yet: a copy to each other port. */
static void flood(struct daemon *d, struct leaf *leaf, uint32_t f, unsigned from)
{
	d->flooded++;
	for (unsigned to = 0; to < d->settings.num_ports; to++) {
		uint32_t copy;

		if (to == from)
			continue;
		copy = frame_new(d);
		if (copy == NONE)
			break;
		memcpy(&d->frames[copy].key, &d->frames[f].key,
		       offsetof(struct frame, bytes) - offsetof(struct frame, key) + HEADROOM +
			       d->frames[f].size);
		d->frames[copy].size = d->frames[f].size;
		d->frames[copy].from = leaf->number;
		d->frames[copy].id = d->frames[f].id;
		d->frames[copy].port = (uint16_t)to;
		d->frames[copy].to = d->ports[to].leaf;
		if (d->ports[to].leaf == leaf->number)
			to_port(d, leaf, copy, NULL);
		else
			link_send(d,
				  link_of(d, leaf->number,
					  reorder_source_ecmp(leaf->source, d->frames[copy].id,
							      d->ports[to].leaf),
					  true),
				  copy);
	}
	frame_free(d, f);
}

void leaf_from_host(struct daemon *d, unsigned port, uint32_t f)
{
	struct frame *frame = &d->frames[f];
	struct leaf *leaf = &d->leaves[d->ports[port].leaf];
	const uint8_t *bytes = frame->bytes + frame->start;
	const struct mac *mac;

	frame->from = leaf->number;
	frame->port = (uint16_t)port;
	frame_classify(frame);
	learn(d, bytes + 6, port);
	mac = mac_of(d, bytes);
	if (bytes[0] & 1 || !mac) {
		flood(d, leaf, f, port);
		return;
	}
	if (mac->port == port) { /* it is where it came from */
		frame_free(d, f);
		return;
	}
	charge(d, frame, FIRST_PORT + port);
	forward(d, leaf, f, mac->port);
}

static void take_clear(struct daemon *d, struct leaf *leaf, uint32_t f)
{
	struct frame *frame = &d->frames[f];
	struct reorder_shim shim;
	struct reorder_key key;

	if (frame_pop_shim(frame, &shim) || frame->size < 14 + sizeof(key)) {
		d->not_ours++;
	} else {
		memcpy(&key, frame->bytes + frame->start + 14, sizeof(key));
		reorder_source_feedback(leaf->source, frame->from, &shim, d->now);
		reorder_source_clear(leaf->source, &key, frame->id, shim.epoch);
	}
	frame_free(d, f);
}

/* Without reordering: packets leave as they come, and a reroute is over at once. */
static const struct reorder_shim *in_order_or_not(struct daemon *d, struct leaf *leaf,
						  struct frame *frame,
						  const struct reorder_shim *shim)
{
	if (d->settings.reorder)
		return shim;
	if (shim->flags & REORDER_REROUTED)
		on_clear(leaf, frame->from, &frame->key, frame->id, shim->epoch);
	return NULL;
}

void leaf_from_spine(struct daemon *d, unsigned number, uint32_t f)
{
	struct frame *frame = &d->frames[f];
	struct leaf *leaf = &d->leaves[number];
	struct reorder_shim shim;
	uint16_t ingress;
	const struct mac *mac;
	bool shimmed = frame->shimmed;

	if (frame->clear) {
		take_clear(d, leaf, f);
		return;
	}
	if (shimmed) {
		ingress = frame->ingress;
		uncharge(d, frame);
		if (frame_pop_shim(frame, &shim)) {
			d->not_ours++;
			frame_free(d, f);
			return;
		}
		charge(d, frame, ingress);
		reorder_source_feedback(leaf->source, frame->from, &shim, d->now);
	}
	if (!(frame->bytes[frame->start] & 1)) {
		mac = mac_of(d, frame->bytes + frame->start);
		if (mac && d->ports[mac->port].leaf == number)
			frame->port = mac->port;
	}
	if (d->ports[frame->port].leaf != number) { /* it has moved meanwhile */
		d->unknown++;
		frame_free(d, f);
		return;
	}
	to_port(d, leaf, f, shimmed ? in_order_or_not(d, leaf, frame, &shim) : NULL);
}

void leaf_timer(struct daemon *d, unsigned number)
{
	struct leaf *leaf = &d->leaves[number];

	if (d->now < leaf->timer)
		return;
	leaf->timer = REORDER_NEVER;
	reorder_expire(leaf->destination, d->now);
}

/* Ports that became ready, and timers that are earlier than before. */
void leaves_settle(struct daemon *d)
{
	while (d->num_kicks)
		port_pump(d, d->kicks[--d->num_kicks]);
	for (unsigned i = 0; i < d->settings.num_leaves; i++) {
		struct leaf *leaf = &d->leaves[i];
		int64_t due = reorder_deadline(leaf->destination);

		if (due >= leaf->timer)
			continue;
		leaf->timer = due;
		schedule_at(d, due, LEAF_TIMER, i);
	}
}

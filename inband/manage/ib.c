/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The operations of fabric.h in MADs. SMPs go by directed route, and need no subnet manager;
 * counters and reports go by LID, and do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "inband/manage/ib_mad.h"
#include "inband/registers.h"

#define FRESH_MS 1000 /* what one end of a link has told holds for the other so long */
#define LID_MS	 5000

#define TYPE_SWITCH 2
#define NO_PORT	    0xff

/* PortInfo: state, and the physical one; 4 is Active, and 5 LinkUp. */
#define STATE_ACTIVE  4
#define PHYS_POLLING  2
#define PHYS_DISABLED 3
#define PHYS_LINK_UP  5

void ib_options_init(struct ib_options *o)
{
	*o = (struct ib_options){.window = 64, .per_device = 8, .timeout = 1000, .tries = 3};
}

/* False: no memory. */
static bool take_node_info(struct ib_node *n, const uint8_t *info)
{
	unsigned ports = info[3] < IB_PORTS ? info[3] : IB_PORTS;

	if (ports >= n->seen_count) {
		struct ib_seen *seen = realloc(n->seen, (ports + 1) * sizeof(*seen));

		if (!seen)
			return false;
		memset(seen + n->seen_count, 0, (ports + 1 - n->seen_count) * sizeof(*seen));
		n->seen = seen;
		n->seen_count = ports + 1;
	}
	n->type = info[2] == TYPE_SWITCH ? NMP_NRC : NMP_NIC;
	n->ports = ports;
	n->local_port = info[36];
	if (n->type == NMP_NRC || n->local_port <= IB_NODE_PORTS)
		n->port_guid[n->type == NMP_NRC ? 0 : n->local_port] = get64(info + 20);
	return true;
}

static uint64_t node_guid(const uint8_t *info)
{
	return get64(info + 12);
}

static unsigned phys_of(const uint8_t *info)
{
	return info[33] >> 4;
}

static unsigned state_of(const uint8_t *info)
{
	return info[32] & 0xf;
}

/* ---- neighbours ---- */

static void have_name(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	uint64_t guid = op->facts.neighbours[ask->number].id;
	struct ib_node *n = ib_node_find(op->ib, guid);

	if (!status && n && !n->named)
		ib_node_name(op->ib, n, data);
}

static void tell(struct ib_op *op, unsigned p, const struct ib_seen *seen)
{
	op->facts.neighbours[p] = (struct neighbour){.state = NEIGHBOUR_UP,
						     .type = seen->type,
						     .port = seen->port,
						     .ports = seen->ports,
						     .id = seen->guid};
}

/* Both ends know now; the other need not ask. */
static void note(struct ib_op *op, unsigned p, struct ib_node *peer)
{
	struct ib_node *self = op->node;
	const struct ib_seen seen = {.guid = peer->guid,
				     .port = peer->local_port,
				     .ports = peer->ports + 1,
				     .type = peer->type};

	port_set_add(&self->up, p);
	tell(op, p, &seen);
	if (peer->local_port >= peer->seen_count)
		return;
	peer->seen[peer->local_port] = (struct ib_seen){.when = ib_clock(),
							.guid = self->guid,
							.port = p,
							.ports = self->ports + 1,
							.type = self->type};
}

static void have_peer(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	struct ib_node *peer = status ? NULL : ib_node_make(op->ib, node_guid(data));
	struct ib_ask *more;

	if (!peer || !take_node_info(peer, data)) {
		op->facts.neighbours[ask->number].state = NEIGHBOUR_LIGHT;
		return;
	}
	if (peer->local_port > IB_PORTS)
		return;
	peer->hops = ask->hops;
	memcpy(peer->path, ask->path, sizeof(peer->path));
	note(op, ask->number, peer);
	more = peer->named ? NULL : ib_ask(op, IB_SUBN, IB_NODE_DESC, 0, have_name);
	if (!more)
		return;
	more->number = ask->number;
	more->hops = ask->hops;
	memcpy(more->path, ask->path, sizeof(more->path));
	ib_submit(more);
}

/* The other end has told, since this operation was begun or shortly before. */
static bool is_fresh(const struct ib_op *op, unsigned p)
{
	const struct ib_seen *seen = p < op->node->seen_count ? &op->node->seen[p] : NULL;

	return seen && seen->when && seen->when + FRESH_MS >= op->begun;
}

static bool is_known(struct ib_op *op, const struct ib_ask *ask)
{
	if (!is_fresh(op, ask->number))
		return false;
	tell(op, ask->number, &op->node->seen[ask->number]);
	port_set_add(&op->node->up, ask->number);
	return true;
}

static void ask_peer(struct ib_op *op, unsigned p)
{
	struct ib_ask *ask = ib_ask(op, IB_SUBN, IB_NODE_INFO, 0, have_peer);

	if (!ask)
		return;
	ask->number = p;
	ask->path[++ask->hops] = p;
	ask->known = is_known;
	ib_submit(ask);
}

static void have_port(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	unsigned p = ask->number, phys;

	port_set_drop(&op->node->up, p);
	if (status) {
		ib_op_fail(op, status);
		return;
	}
	phys = phys_of(data);
	if (phys == PHYS_LINK_UP && state_of(data) > 1)
		ask_peer(op, p);
	else
		op->facts.neighbours[p].state =
			phys == PHYS_POLLING || phys <= 1 || phys == PHYS_DISABLED
				? NEIGHBOUR_NONE
				: NEIGHBOUR_LIGHT;
}

static void ask_port(struct ib_op *op, unsigned p)
{
	struct ib_ask *ask = ib_ask(op, IB_SUBN, IB_PORT_INFO, p, have_port);

	if (!ask)
		return;
	ask->number = p;
	ask->known = is_known;
	ib_submit(ask);
}

static void ask_ports(struct ib_op *op)
{
	const struct ib_node *n = op->node;

	op->facts.ports = n->ports + 1;
	/* The own adapter is reached by one port, and only what is behind that. */
	if (n->type != NMP_NRC) {
		if (op->ib->port <= n->ports)
			ask_port(op, op->ib->port);
		return;
	}
	for (unsigned p = 1; p <= n->ports; p++)
		ask_port(op, p);
}

static void have_own_name(struct ib_op *op, const struct ib_ask *ask, int status,
			  const uint8_t *data)
{
	if (!status)
		ib_node_name(op->ib, op->node, data);
}

static void ask_own_name(struct ib_op *op)
{
	struct ib_ask *ask =
		op->node->named ? NULL : ib_ask(op, IB_SUBN, IB_NODE_DESC, 0, have_own_name);

	if (ask)
		ib_submit(ask);
}

static void have_self(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	if (status) {
		ib_op_fail(op, status);
		return;
	}
	/* Another device is there now. */
	if (node_guid(data) != op->target->id) {
		ib_op_fail(op, -ETIMEDOUT);
		return;
	}
	if (!take_node_info(op->node, data)) {
		ib_op_fail(op, -ENOMEM);
		return;
	}
	ask_own_name(op);
	ask_ports(op);
}

static int neighbours(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct ib_op *op = ib_op_begin(f, t, done, arg);
	struct ib_ask *ask;

	if (!op)
		return -ENOMEM;
	op->node = ib_node_make(ib_of(f), t->id);
	if (!op->node) {
		free(op);
		return -ENOMEM;
	}
	/* Just found, it has been asked what it is; later it may be another that is there. */
	if (op->node->ports && is_fresh(op, op->node->local_port)) {
		ask_ports(op);
	} else {
		ask = ib_ask(op, IB_SUBN, IB_NODE_INFO, 0, have_self);
		if (ask)
			ib_submit(ask);
	}
	ib_op_end_later(op);
	return 0;
}

/* ---- a link, and a route ---- */

static unsigned lanes(unsigned width)
{
	switch (width) {
	case 1: return 1;
	case 2: return 4;
	case 4: return 8;
	case 8: return 12;
	case 16: return 2;
	default: return 0;
	}
}

static void have_link(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	struct link_facts *link = &op->facts.links[0];

	if (status) {
		ib_op_fail(op, status);
		return;
	}
	op->facts.ports = 1;
	link->light = phys_of(data) > PHYS_DISABLED;
	link->width = lanes(data[31]);
	link->state = phys_of(data) == PHYS_DISABLED   ? LINK_OFF
		      : state_of(data) == STATE_ACTIVE ? LINK_UP
						       : LINK_DOWN;
}

static int link_of(struct fabric *f, struct target *t, unsigned port, fabric_done *done, void *arg)
{
	struct ib_op *op = ib_op_begin(f, t, done, arg);
	struct ib_ask *ask = op ? ib_ask(op, IB_SUBN, IB_PORT_INFO, port, have_link) : NULL;

	if (ask)
		ib_submit(ask);
	if (op)
		ib_op_end_later(op);
	return op ? 0 : -ENOMEM;
}

static void have_block(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	uint8_t port = status ? NO_PORT : data[op->to->lid % 64];

	if (status) {
		ib_op_fail(op, status);
		return;
	}
	op->facts.output_ports = (struct port_set){0};
	if (port && port <= IB_PORTS)
		port_set_add(&op->facts.output_ports, port);
}

static void ask_block(struct ib_op *op)
{
	struct ib_ask *ask = ib_ask(op, IB_SUBN, IB_LFT, op->to->lid / 64, have_block);

	if (ask)
		ib_submit(ask);
}

static void have_lid(struct ib_op *op, const struct ib_ask *ask, int status, const uint8_t *data)
{
	struct ib_node *n = op->to;

	if (!status) {
		n->lid = get16(data + 16);
		n->lid_when = ib_clock();
	}
	if (status || !n->lid) {
		ib_op_fail(op, status ?: -ENOENT);
	}
}

/* Then have() goes on by op->to's LID. */
static void ask_lid(struct ib_op *op, void (*have)(struct ib_op *op, const struct ib_ask *ask,
						   int status, const uint8_t *data))
{
	const struct ib_node *n = op->to;
	struct ib_ask *ask =
		ib_ask(op, IB_SUBN, IB_PORT_INFO, n->type == NMP_NRC ? 0 : n->local_port, have);

	if (!ask)
		return;
	ask->hops = n->hops;
	memcpy(ask->path, n->path, sizeof(ask->path));
	ib_submit(ask);
}

static void have_lid_of_end(struct ib_op *op, const struct ib_ask *ask, int status,
			    const uint8_t *data)
{
	int before = op->status;

	have_lid(op, ask, status, data);
	if (op->status == before && !status)
		ask_block(op);
}

static bool lid_is_fresh(const struct ib_node *n)
{
	return n->lid && ib_clock() <= n->lid_when + LID_MS;
}

static int route(struct fabric *f, struct target *t, unsigned in_port, uint64_t to,
		 fabric_done *done, void *arg)
{
	struct ib_op *op = ib_op_begin(f, t, done, arg);

	if (!op)
		return -ENOMEM;
	op->to = ib_node_find(ib_of(f), to);
	if (!op->to)
		op->status = -ENOENT;
	else if (lid_is_fresh(op->to))
		ask_block(op);
	else
		ask_lid(op, have_lid_of_end);
	ib_op_end_later(op);
	return 0;
}

/* ---- counters ---- */

static const char *const counter_names[FABRIC_COUNTERS] = {
	"link",	    "link downed", "link recoveries", "errors", "sent",
	"received", "sent words",  "received words",  "waits",	"dropped"};

static void have_extended(struct ib_op *op, const struct ib_ask *ask, int status,
			  const uint8_t *data)
{
	uint64_t *c = op->facts.counters[ask->number];

	if (status) {
		ib_op_fail(op, status);
		return;
	}
	c[PORT_SENT_FLITS] = get64(data + 8);
	c[PORT_RECEIVED_FLITS] = get64(data + 16);
	c[PORT_SENT] = get64(data + 24);
	c[PORT_RECEIVED] = get64(data + 32);
}

static void have_counters(struct ib_op *op, const struct ib_ask *ask, int status,
			  const uint8_t *data)
{
	uint64_t *c = op->facts.counters[ask->number];

	if (status) {
		ib_op_fail(op, status);
		return;
	}
	c[PORT_RETRIES] = data[6];			    /* LinkErrorRecovery */
	c[PORT_HANDSHAKES] = data[7];			    /* LinkDowned */
	c[PORT_ERRORS] = get16(data + 8) + get16(data + 4); /* received, and symbols */
	c[PORT_DROPPED] = get16(data + 14);
	c[PORT_WAITS] = get32(data + 40);
}

static void ask_counters_of(struct ib_op *op, unsigned p, unsigned attribute,
			    void (*have)(struct ib_op *op, const struct ib_ask *ask, int status,
					 const uint8_t *data))
{
	struct ib_ask *ask = ib_ask(op, IB_PERF, attribute, p, have);

	if (!ask)
		return;
	ask->number = p;
	ask->lid = op->to->lid;
	ib_submit(ask);
}

static void ask_all_counters(struct ib_op *op)
{
	const struct ib_node *n = op->to;

	op->facts.ports = n->ports + 1;
	for (unsigned p = 1; p <= n->ports; p++) {
		if (n->type == NMP_NRC ? !port_set_has(&n->up, p) : p != n->local_port)
			continue;
		ask_counters_of(op, p, IB_PORT_COUNTERS_EXT, have_extended);
		ask_counters_of(op, p, IB_PORT_COUNTERS, have_counters);
	}
}

static void have_lid_for_counters(struct ib_op *op, const struct ib_ask *ask, int status,
				  const uint8_t *data)
{
	int before = op->status;

	have_lid(op, ask, status, data);
	if (op->status == before && !status)
		ask_all_counters(op);
}

static int counters(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct ib_op *op = ib_op_begin(f, t, done, arg);

	if (!op)
		return -ENOMEM;
	op->to = ib_node_find(ib_of(f), t->id);
	if (!op->to)
		op->status = -ENOENT;
	else if (lid_is_fresh(op->to))
		ask_all_counters(op);
	else
		ask_lid(op, have_lid_for_counters);
	ib_op_end_later(op);
	return 0;
}

/* ---- the rest ---- */

static int pause_for(struct fabric *f, uint64_t ps, fabric_done *done, void *arg)
{
	struct ib_op *op = ib_op_begin(f, NULL, done, arg);

	if (!op)
		return -ENOMEM;
	op->due = ib_clock() + ps / 1000000000;
	op->next = ib_of(f)->pauses;
	ib_of(f)->pauses = op;
	return 0;
}

static unsigned origin(struct fabric *f, struct target *t)
{
	target_init(t, NMP_NIC, ib_of(f)->guid);
	return ib_of(f)->port + 1;
}

static uint64_t now(struct fabric *f)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return ((uint64_t)at.tv_sec * 1000000000 + at.tv_nsec - ib_of(f)->begun) * 1000;
}

static const struct fabric_counts *counts(struct fabric *f)
{
	return &ib_of(f)->counts;
}

static const char *name_of(struct fabric *f, unsigned type, uint64_t id)
{
	const struct ib_node *n = ib_node_find(ib_of(f), id);

	return n ? n->name : NULL;
}

static uint64_t port_guid(struct fabric *f, uint64_t id, unsigned port)
{
	const struct ib_node *n = ib_node_find(ib_of(f), id);

	return n && port <= IB_NODE_PORTS ? n->port_guid[port] : 0;
}

static void destroy(struct fabric *f)
{
	struct ib *ib = ib_of(f);

	ib_mad_stop(ib);
	ib_nodes_free(ib);
	free(ib);
}

static const struct fabric_ops ib_ops = {
	.name = "InfiniBand",
	.counter_names = counter_names,
	.neighbours = neighbours,
	.link = link_of,
	.counters = counters,
	.route = route,
	.pause = pause_for,
	.subscribe = ib_subscribe,
	.origin = origin,
	.device_name = name_of,
	.port_guid = port_guid,
	.arm = ib_arm,
	.check = ib_check,
	.progress = ib_progress,
	.now = now,
	.counts = counts,
	.destroy = destroy,
};

/* The port that is meant: its names, and the device's GUID. */
static int find_port(struct ib *ib)
{
	char ca[UMAD_CA_NAME_LEN] = "";
	int number = 0;
	umad_port_t port;
	umad_ca_t device;

	if (ib->options.port && sscanf(ib->options.port, "%19[^:]:%d", ca, &number) < 1)
		return -ENODEV;
	if (umad_init() < 0 || umad_get_port(ca[0] ? ca : NULL, number, &port))
		return -ENODEV;
	snprintf(ib->ca, sizeof(ib->ca), "%s", port.ca_name);
	ib->port = port.portnum;
	ib->lid = port.base_lid;
	ib->sm_lid = port.sm_lid;
	ib->sm_sl = port.sm_sl;
	umad_release_port(&port);
	if (umad_get_ca(ib->ca, &device))
		return -ENODEV;
	ib->guid = be64toh(device.node_guid);
	umad_release_ca(&device);
	return 0;
}

int ib_create(const struct ib_options *options, struct fabric **fabric)
{
	struct ib *ib = calloc(1, sizeof(*ib));
	int ret;

	if (!ib)
		return -ENOMEM;
	ib->fabric.ops = &ib_ops;
	ib->options = *options;
	ib->fd = ib->event = -1;
	ib->begun = 0;
	ret = find_port(ib);
	if (!ret)
		ret = ib_mad_start(ib);
	if (ret) {
		destroy(&ib->fabric);
		return ret;
	}
	ib->begun = now(&ib->fabric) / 1000;
	*fabric = &ib->fabric;
	return 0;
}

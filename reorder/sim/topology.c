/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Leaf-spine fabrics and fat trees: nodes, ports, and the way from a switch to a host.
 *
 * Nodes: hosts, then ToRs, then (leaf-spine) spines, or (fat tree) aggregation and core switches.
 * Ports of a switch: those that lead up, then those that lead down. A path is the choice made on
 * the way up: a spine's number, or aggregation switch * k/2 + which of its core switches.
 *
 *   fat tree of k: k pods of k/2 ToRs and k/2 aggregation switches; (k/2)^2 core switches, those of
 *   a row connect to the aggregation switches of one number in all pods.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <stdlib.h>

static void link_up(struct sim *s, uint32_t a, uint32_t b)
{
	s->port[a].peer = (uint16_t)b;
	s->port[b].peer = (uint16_t)a;
}

static void make_ports(struct sim *s, uint32_t node, uint32_t ports, uint32_t *next)
{
	s->node[node].first_port = (uint16_t)*next;
	s->node[node].ports = (uint16_t)ports;
	for (uint32_t i = 0; i < ports; i++) {
		struct port *p = &s->port[*next + i];

		p->control.first = p->data.first = NONE;
		p->per_byte = (int64_t)(8000000000000 / s->options->rate);
		p->delay = s->options->delay;
		p->node = (uint16_t)node;
		p->local = (uint8_t)i;
	}
	*next += ports;
}

/* Up port i of node a to down port j of node b; b has up ports of its own first. */
static void connect_up(struct sim *s, uint32_t a, uint32_t i, uint32_t b, uint32_t b_up, uint32_t j)
{
	link_up(s, s->node[a].first_port + i, s->node[b].first_port + b_up + j);
}

static void make_nodes(struct sim *s, uint32_t first, uint32_t n, uint8_t level, uint32_t ports,
		       uint32_t per_pod, uint32_t *next)
{
	for (uint32_t i = 0; i < n; i++) {
		struct node *node = &s->node[first + i];

		node->level = level;
		node->number = (uint16_t)i;
		node->pod = (uint16_t)(per_pod ? i / per_pod : 0);
		node->timer = REORDER_NEVER;
		node->ecmp = (first + i) * 2654435761u;
		make_ports(s, first + i, ports, next);
	}
}

static void build_leaf_spine(struct sim *s)
{
	const struct options *o = s->options;
	struct topology *t = &s->topology;
	uint32_t next = 0, spine0 = t->hosts + t->tors;

	make_nodes(s, 0, t->hosts, 0, 1, 0, &next);
	make_nodes(s, t->hosts, t->tors, 1, o->spines + o->hosts, 0, &next);
	make_nodes(s, spine0, o->spines, 2, t->tors, 0, &next);
	for (uint32_t tor = 0; tor < t->tors; tor++) {
		for (uint32_t h = 0; h < o->hosts; h++)
			connect_up(s, tor * o->hosts + h, 0, t->hosts + tor, o->spines, h);
		for (uint32_t sp = 0; sp < o->spines; sp++)
			connect_up(s, t->hosts + tor, sp, spine0 + sp, 0, tor);
	}
}

static void build_fat_tree(struct sim *s)
{
	struct topology *t = &s->topology;
	uint32_t half = t->k / 2, next = 0, agg0 = t->hosts + t->tors, core0 = agg0 + t->tors;

	make_nodes(s, 0, t->hosts, 0, 1, 0, &next);
	make_nodes(s, t->hosts, t->tors, 1, half + t->per_tor, half, &next);
	make_nodes(s, agg0, t->tors, 2, half + half, half, &next);
	make_nodes(s, core0, half * half, 3, t->k, 0, &next);
	for (uint32_t tor = 0; tor < t->tors; tor++) {
		uint32_t pod = tor / half;

		for (uint32_t h = 0; h < t->per_tor; h++)
			connect_up(s, tor * t->per_tor + h, 0, t->hosts + tor, half, h);
		for (uint32_t a = 0; a < half; a++)
			connect_up(s, t->hosts + tor, a, agg0 + pod * half + a, half, tor % half);
	}
	for (uint32_t agg = 0; agg < t->tors; agg++)
		for (uint32_t c = 0; c < half; c++)
			connect_up(s, agg0 + agg, c, core0 + agg % half * half + c, 0, agg / half);
}

static int slow_links(struct sim *s)
{
	for (unsigned i = 0; i < s->options->slows; i++) {
		const struct slow_link *slow = &s->options->slow[i];
		const struct node *tor = &s->node[s->topology.hosts + slow->tor];
		struct port *p;

		if (slow->tor >= s->topology.tors ||
		    slow->up >= (s->topology.fat ? s->topology.k / 2 : s->topology.spines)) {
			fprintf(stderr, "fabric-sim: no link %u:%u\n", slow->tor, slow->up);
			return -EINVAL;
		}
		p = &s->port[tor->first_port + slow->up];
		p->per_byte = s->port[p->peer].per_byte = (int64_t)(8000000000000 / slow->rate);
	}
	return 0;
}

static void measure(struct sim *s)
{
	const struct options *o = s->options;
	struct topology *t = &s->topology;

	t->fat = o->fat;
	t->k = o->fat ? o->k : 2;
	t->spines = o->spines;
	t->per_tor = o->hosts;
	t->tors = o->fat ? o->k * o->k / 2 : o->leaves;
	t->hosts = t->tors * t->per_tor;
	t->paths = o->fat ? o->k * o->k / 4 : o->spines;
	t->nodes = t->hosts + t->tors + (o->fat ? t->tors + t->paths : o->spines);
	t->ports = t->hosts +
		   (o->fat ? t->tors * (o->k / 2 + t->per_tor) + t->tors * o->k + t->paths * o->k
			   : t->tors * (o->spines + o->hosts) + o->spines * t->tors);
}

int topology_build(struct sim *s)
{
	struct topology *t = &s->topology;

	measure(s);
	if (t->nodes > 60000 || t->ports > 65000) {
		fprintf(stderr, "fabric-sim: %u switches, hosts and %u ports are too many\n",
			t->nodes, t->ports);
		return -E2BIG;
	}
	s->node = calloc(t->nodes, sizeof(*s->node));
	s->port = calloc(t->ports, sizeof(*s->port));
	s->ready = malloc(t->hosts * sizeof(*s->ready));
	s->waking = calloc(t->hosts, sizeof(*s->waking));
	if (!s->node || !s->port || !s->ready || !s->waking)
		return -ENOMEM;
	if (t->fat)
		build_fat_tree(s);
	else
		build_leaf_spine(s);
	for (uint32_t h = 0; h < t->hosts; h++) {
		s->ready[h].first = NONE;
		s->port[s->port[h].peer].to_host = true;
	}
	return slow_links(s);
}

uint32_t topology_route(const struct sim *s, uint32_t node, uint32_t host, unsigned path)
{
	const struct topology *t = &s->topology;
	const struct node *n = &s->node[node];
	uint32_t tor = host / t->per_tor, half = t->k / 2;

	if (n->level == 1) {
		uint32_t ups = t->fat ? half : t->spines;

		if (n->number == tor)
			return n->first_port + ups + host % t->per_tor;
		return n->first_port + (t->fat ? path / half : path);
	}
	if (!t->fat)
		return n->first_port + tor;
	if (n->level == 3)
		return n->first_port + tor / half;
	if (n->pod == tor / half)
		return n->first_port + half + tor % half;
	return n->first_port + path % half;
}

uint32_t topology_paths(const struct sim *s, uint32_t from, uint32_t to)
{
	const struct topology *t = &s->topology;

	if (t->fat && from / (t->k / 2) == to / (t->k / 2))
		return t->k / 2;
	return t->paths;
}

static int64_t links_between(const struct sim *s, uint32_t a, uint32_t b)
{
	uint32_t from = tor_of(s, a), to = tor_of(s, b);

	if (from == to)
		return 2;
	if (s->topology.fat && from / (s->topology.k / 2) != to / (s->topology.k / 2))
		return 6;
	return 4;
}

/* The delay of all links there and back. */
int64_t topology_delay(const struct sim *s, uint32_t a, uint32_t b)
{
	return 2 * links_between(s, a, b) * s->options->delay;
}

/* That, and the time a full packet takes to be sent on each link of the way, once. */
int64_t topology_base_rtt(const struct sim *s, uint32_t a, uint32_t b)
{
	return topology_delay(s, a, b) +
	       links_between(s, a, b) * MTU * (int64_t)(8000000000000 / s->options->rate);
}

/* A path between two ToRs by a hash. */
uint8_t topology_hash_path(const struct sim *s, uint32_t hash, uint32_t from, uint32_t to)
{
	uint32_t paths = topology_paths(s, from, to);

	return (uint8_t)path_number(s, from, to, (uint32_t)((uint64_t)hash * paths >> 32));
}

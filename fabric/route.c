// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Routes of data packets (route.h). Any thread; the map may be written by fabricd at any time, so
 * what is read from it is checked before it is used as an index.
 */
#include "fabric/route.h"

#define VL_MANAGEMENT 15

static const struct fabric_node *node_of(const struct fabric_map *map,
					 const struct fabric_port *port)
{
	return fabric_map_node(map, port->node);
}

static uint32_t index_of(const struct fabric_map *map, const struct fabric_port *port)
{
	return port - fabric_map_port(map, 0);
}

static bool crossable(const struct fabric_port *port)
{
	return port->peer != FABRIC_NONE && hi4(port->info[PI_PHYS]) == PHYS_LINK_UP &&
	       fabric_port_state(port) == PORT_ACTIVE;
}

/* The other end of the cable, if data can enter there: an Armed port becomes Active by it. */
static const struct fabric_port *entrance(const struct fabric_map *map,
					  const struct fabric_port *out)
{
	const struct fabric_port *in = fabric_map_port(map, out->peer);
	uint8_t state = fabric_port_state(in);

	return state == PORT_ACTIVE || state == PORT_ARMED ? in : NULL;
}

/* VLs 0 … are configured (14.2.5.6). */
static unsigned operational_vls(const struct fabric_port *port)
{
	static const uint8_t vls[] = {1, 1, 2, 4, 8, 15};
	uint8_t code = hi4(port->info[PI_VLS_ENF]);

	return code < sizeof(vls) ? vls[code] : 15;
}

/* Is the VL that a packet of the SL would have at a port none of the port's? */
static bool lacks_vl(const struct fabric_map *map, const struct fabric_node *node, uint8_t in,
		     const struct fabric_port *out, uint8_t sl)
{
	uint8_t vl = fabric_vl(map, node, in, out->num, sl);

	return vl == VL_MANAGEMENT || vl >= operational_vls(out);
}

/* ---- P_Keys at switches (10.9.3, 14.2.5.7) ---- */

#define ENFORCE_IN  8
#define ENFORCE_OUT 4

static bool enforces(const struct fabric_map *map, const struct fabric_port *port, uint8_t bit)
{
	return port->num && port->info[PI_VLS_ENF] & bit && node_of(map, port)->type == NODE_SWITCH;
}

static bool in_partition(const struct fabric_map *map, const struct fabric_port *port,
			 uint16_t pkey)
{
	const uint16_t *keys = (const uint16_t *)fabric_map_bytes(map, port->pkeys);

	for (unsigned i = 0; i < port->pkey_cap; i++)
		if (keys[i] & 0x7fff && !((keys[i] ^ pkey) & 0x7fff))
			return true;
	return false;
}

enum fabric_loss fabric_link_pkey(const struct fabric_map *map, uint32_t index, uint16_t pkey,
				  uint32_t *at)
{
	const struct fabric_port *out = fabric_map_port(map, index), *in;

	*at = index;
	if (enforces(map, out, ENFORCE_OUT) && !in_partition(map, out, pkey))
		return FABRIC_LOST_XMIT_PKEY;
	if (out->peer == FABRIC_NONE)
		return FABRIC_ARRIVES;
	*at = out->peer;
	in = fabric_map_port(map, out->peer);
	return enforces(map, in, ENFORCE_IN) && !in_partition(map, in, pkey) ? FABRIC_LOST_RCV_PKEY
									     : FABRIC_ARRIVES;
}

enum fabric_loss fabric_route_pkey(const struct fabric_map *map, const struct fabric_route *r,
				   uint16_t pkey, unsigned *link, uint32_t *at)
{
	for (*link = 0; *link < r->num_links; ++*link) {
		enum fabric_loss loss = fabric_link_pkey(map, r->links[*link], pkey, at);

		if (loss == FABRIC_LOST_RCV_PKEY)
			++*link; /* it has crossed this one */
		if (loss != FABRIC_ARRIVES)
			return loss;
	}
	return FABRIC_ARRIVES;
}

/* ---- links ---- */

static void lose(const struct fabric_map *map, struct fabric_route *r, const struct fabric_port *at,
		 enum fabric_loss loss)
{
	r->to = index_of(map, at);
	r->loss = loss;
}

/* Over the cable of out; where it comes in, or NULL, and it is lost. in: the number of the port it
 * came in by. */
static const struct fabric_port *cross(const struct fabric_map *map, struct fabric_route *r,
				       const struct fabric_node *node, uint8_t in,
				       const struct fabric_port *out, uint8_t sl)
{
	const struct fabric_port *next = crossable(out) ? entrance(map, out) : NULL;
	uint8_t mtu = hi4(out->info[PI_MTU_SMSL]);

	if (!next || lacks_vl(map, node, in, out, sl) || r->num_links == FABRIC_HOPS_MAX) {
		lose(map, r, out, FABRIC_LOST_DISCARD);
		return NULL;
	}
	if (mtu < r->mtu)
		r->mtu = mtu;
	r->faulty = r->faulty || out->loss || out->corruption;
	r->arms = r->arms || fabric_port_state(next) == PORT_ARMED;
	r->enforced =
		r->enforced || enforces(map, out, ENFORCE_OUT) || enforces(map, next, ENFORCE_IN);
	r->delay += out->delay;
	r->links[r->num_links++] = index_of(map, out);
	return next;
}

void fabric_route_find(const struct fabric_map *map, uint32_t from, uint16_t dlid, uint8_t sl,
		       struct fabric_route *r)
{
	const struct fabric_port *at = fabric_map_port(map, from);
	const struct fabric_node *node = node_of(map, at);

	*r = (struct fabric_route){.mtu = 5, .to = from};
	if (fabric_port_state(at) != PORT_ACTIVE) {
		r->loss = FABRIC_LOST_UNSENT;
		return;
	}
	if (fabric_port_has_lid(at, dlid))
		return;
	at = cross(map, r, node, at->num, at, sl);
	while (at) {
		const struct fabric_port *end = at;
		uint8_t num;

		node = node_of(map, at);
		if (node->type == NODE_SWITCH)
			end = fabric_node_port(map, node, 0);
		if (fabric_port_has_lid(end, dlid)) {
			r->to = index_of(map, end);
			return;
		}
		if (node->type != NODE_SWITCH) {
			lose(map, r, at, FABRIC_LOST_RECEIVED);
			return;
		}
		num = fabric_lft(map, node, dlid);
		if (num > node->num_ports || !num) {
			lose(map, r, at, FABRIC_LOST_NO_ROUTE);
			return;
		}
		if (num == at->num) {
			lose(map, r, at, FABRIC_LOST_LOOPING);
			return;
		}
		at = cross(map, r, node, at->num, fabric_node_port(map, node, num), sl);
	}
}

/* ---- multicast ---- */

/* A copy that has come in at a switch, or at an adapter. */
struct copy {
	uint32_t at, depth;
	uint64_t delay;
};

/* The ports that a switch's multicast table has for a LID: 16 of them. */
static uint16_t group_ports(const struct fabric_map *map, const struct fabric_node *node,
			    uint16_t mlid, unsigned block)
{
	const uint16_t *table = (const uint16_t *)fabric_map_bytes(map, node->mft);
	unsigned i = mlid - LID_FIRST_MULTICAST;

	return i < FABRIC_MFT_LEN ? table[i * node->mft_blocks + block] : 0;
}

struct walk {
	const struct fabric_map *map;
	uint16_t mlid, pkey;
	uint8_t sl;
	struct fabric_tree *tree;
	struct fabric_branch *branch; /* that is being walked */
	struct copy todo[FABRIC_TREE_MAX + 1];
	unsigned num_todo;
};

/* Another branch begins at a link. */
static void add_branch(struct walk *w, uint8_t in, const struct fabric_port *out, struct copy c)
{
	struct fabric_tree *t = w->tree;

	if (t->num_branches > FABRIC_TREE_MAX)
		return;
	t->branches[t->num_branches++] = (struct fabric_branch){
		.parent = w->branch - t->branches,
		.mtu = w->branch->mtu,
		.out = index_of(w->map, out),
		.in = in,
		.depth = c.depth,
		.delay = c.delay,
	};
}

/* Over one cable. A tree with circles ends when it has too many links, or is too deep. */
static void copy_over(struct walk *w, uint8_t in, const struct fabric_port *out, struct copy c)
{
	struct fabric_tree *t = w->tree;
	struct fabric_route step = {.mtu = 5};
	enum fabric_loss loss = FABRIC_ARRIVES;
	const struct fabric_port *next;
	uint32_t at;

	if (t->num_links == FABRIC_TREE_MAX || c.depth == FABRIC_HOPS_MAX)
		return;
	next = cross(w->map, &step, node_of(w->map, out), in, out, w->sl);
	if (!next)
		return;
	t->enforced = t->enforced || step.enforced;
	if (step.enforced)
		loss = fabric_link_pkey(w->map, index_of(w->map, out), w->pkey, &at);
	if (w->branch->num_links && (step.faulty || loss || step.mtu < w->branch->mtu)) {
		add_branch(w, in, out, c);
		return;
	}
	if (!w->branch->num_links) {
		w->branch->faulty = step.faulty;
		w->branch->loss = loss;
		w->branch->mtu = step.mtu < w->branch->mtu ? step.mtu : w->branch->mtu;
	}
	w->branch->arms = w->branch->arms || step.arms;
	w->branch->num_links++;
	t->links[t->num_links++] = index_of(w->map, out);
	if (loss)
		return;
	c = (struct copy){index_of(w->map, next), c.depth + 1, c.delay + step.delay};
	if (node_of(w->map, next)->type == NODE_SWITCH)
		w->todo[w->num_todo++] = c;
	else
		t->ends[t->num_ends++] =
			(struct fabric_end){c.at, w->branch - t->branches, c.delay};
}

static void copy_at_switch(struct walk *w, struct copy c)
{
	const struct fabric_port *in = fabric_map_port(w->map, c.at);
	const struct fabric_node *node = node_of(w->map, in);

	for (unsigned block = 0; block < node->mft_blocks; block++) {
		uint16_t ports = group_ports(w->map, node, w->mlid, block);

		for (; ports; ports &= ports - 1) {
			unsigned num = block * 16 + __builtin_ctz(ports);

			if (num && num != in->num && num <= node->num_ports)
				copy_over(w, in->num, fabric_node_port(w->map, node, num), c);
		}
	}
}

static void walk_branch(struct walk *w, struct fabric_branch *b)
{
	const struct fabric_port *out = fabric_map_port(w->map, b->out);

	w->branch = b;
	b->first = w->tree->num_links;
	copy_over(w, b->in, out, (struct copy){.depth = b->depth, .delay = b->delay});
	while (w->num_todo)
		copy_at_switch(w, w->todo[--w->num_todo]);
}

void fabric_route_group(const struct fabric_map *map, uint32_t from, uint16_t mlid, uint8_t sl,
			uint16_t pkey, struct fabric_tree *t)
{
	const struct fabric_port *at = fabric_map_port(map, from);
	struct walk w = {map, mlid, pkey, sl, t, t->branches};

	t->num_links = 0;
	t->enforced = false;
	t->num_branches = t->num_ends = 1;
	t->branches[0] = (struct fabric_branch){.mtu = 5};
	t->ends[0] = (struct fabric_end){.port = from};
	if (fabric_port_state(at) != PORT_ACTIVE)
		return;
	add_branch(&w, at->num, at, (struct copy){0});
	for (uint32_t b = 1; b < t->num_branches; b++)
		walk_branch(&w, &t->branches[b]);
}

/* ---- faults ---- */

/* A number that looks random; splitmix64. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

enum fabric_loss fabric_link_fault(const struct fabric_map *map, uint32_t index, uint64_t flow,
				   uint64_t nth)
{
	const struct fabric_port *port = fabric_map_port(map, index);
	uint64_t draw;

	if (!(port->loss | port->corruption))
		return FABRIC_ARRIVES;
	draw = mix(mix(mix(map->seed ^ index) ^ flow) ^ nth);
	if (port->loss && (uint32_t)draw <= port->loss)
		return FABRIC_LOST_DISCARD;
	return port->corruption && draw >> 32 <= port->corruption ? FABRIC_LOST_CORRUPTED
								  : FABRIC_ARRIVES;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See routes.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/routes.h"

#define NO_RANK 255

static uint32_t *row(uint32_t *table, uint32_t chip)
{
	return table + (size_t)chip * TABLE_ENTRIES;
}

static bool usable(const struct machine *m, const bool *live, uint32_t port)
{
	uint32_t peer = m->ports[port].peer;

	return peer != MACHINE_NONE && (!live || (live[port] && live[peer]));
}

/* Steps from the nodes, breadth first over all cables, broken ones too: a fault moves no switch. */
static int rank_all(struct routes *r)
{
	const struct machine *m = r->machine;
	uint32_t *queue = malloc((m->nrcs + 1) * sizeof(*queue)), head = 0, tail = 0;
	unsigned at;

	if (!queue)
		return -ENOMEM;
	memset(r->rank, NO_RANK, m->chip_count);
	for (uint32_t c = 0; c < m->chip_count; c++) {
		uint32_t edge =
			m->chips[c].type == NMP_NIC ? machine_peer(m, c, 0, &at) : MACHINE_NONE;

		if (edge != MACHINE_NONE && m->chips[edge].type == NMP_NRC && r->rank[edge]) {
			r->rank[edge] = 0;
			queue[tail++] = edge;
		}
	}
	while (head < tail) {
		uint32_t c = queue[head++];

		for (unsigned p = 0; p < m->chips[c].ports; p++) {
			uint32_t next = machine_peer(m, c, p, &at);

			if (next == MACHINE_NONE || m->chips[next].type != NMP_NRC ||
			    r->rank[next] != NO_RANK)
				continue;
			r->rank[next] = r->rank[c] + 1;
			queue[tail++] = next;
		}
	}
	free(queue);
	return 0;
}

static int add_nodes(struct routes *r, const bool *live)
{
	const struct machine *m = r->machine;

	for (uint32_t c = 0; c < m->chip_count; c++) {
		uint32_t id = m->chips[c].id, edge;
		unsigned at;

		if (m->chips[c].type != NMP_NIC)
			continue;
		edge = machine_peer(m, c, 0, &at);
		if (edge == MACHINE_NONE || m->chips[edge].type != NMP_NRC)
			continue;
		if (id / m->frame_nodes >= TABLE_FRAMES)
			return -ENOTSUP;
		if (!usable(m, live, m->chips[c].first_port))
			continue;
		row(r->down, edge)[id / m->frame_nodes] |= 1u << at;
		row(r->down, edge)[TABLE_FRAMES + id % m->frame_nodes] |= 1u << at;
	}
	return 0;
}

/* What a neighbour reaches, its other end of the cable reaches through it. */
static void join(uint32_t *to, const uint32_t *first, const uint32_t *second, unsigned port)
{
	for (unsigned i = 0; i < TABLE_ENTRIES; i++)
		if (first[i] || (second && second[i]))
			to[i] |= 1u << port;
}

static int spread(struct routes *r, const bool *live, unsigned rank, bool down)
{
	const struct machine *m = r->machine;

	for (uint32_t c = 0; c < m->chip_count; c++) {
		if (m->chips[c].type != NMP_NRC || r->rank[c] != rank)
			continue;
		for (unsigned p = 0; p < m->chips[c].ports; p++) {
			unsigned at;
			uint32_t peer = machine_peer(m, c, p, &at);

			if (peer == MACHINE_NONE || m->chips[peer].type != NMP_NRC)
				continue;
			if (r->rank[peer] == rank)
				return -ENOTSUP;
			if (r->rank[peer] > rank)
				r->up_ports[c] |= 1u << p;
			if ((r->rank[peer] < rank) != down ||
			    !usable(m, live, machine_port_of(m, c, p)))
				continue;
			if (down)
				join(row(r->down, c), row(r->down, peer), NULL, p);
			else
				join(row(r->up, c), row(r->down, peer), row(r->up, peer), p);
		}
	}
	return 0;
}

int routes_create(const struct machine *m, const bool *live, struct routes **made)
{
	struct routes *r = calloc(1, sizeof(*r));
	unsigned highest = 0;
	int ret;

	if (!r)
		return -ENOMEM;
	r->machine = m;
	r->rank = malloc(m->chip_count + 1);
	r->up_ports = calloc(m->chip_count + 1, sizeof(*r->up_ports));
	r->down = calloc((size_t)m->chip_count * TABLE_ENTRIES + 1, sizeof(*r->down));
	r->up = calloc((size_t)m->chip_count * TABLE_ENTRIES + 1, sizeof(*r->up));
	ret = r->rank && r->up_ports && r->down && r->up ? rank_all(r) : -ENOMEM;
	if (!ret)
		ret = m->frame_nodes ? add_nodes(r, live) : -ENOTSUP;
	for (uint32_t c = 0; !ret && c < m->chip_count; c++)
		if (m->chips[c].type == NMP_NRC && r->rank[c] != NO_RANK && r->rank[c] > highest)
			highest = r->rank[c];
	for (unsigned rank = 0; !ret && rank <= highest; rank++)
		ret = spread(r, live, rank, true);
	for (unsigned rank = highest + 1; !ret && rank-- > 0;)
		ret = spread(r, live, rank, false);
	if (ret)
		routes_destroy(r);
	else
		*made = r;
	return ret;
}

void routes_destroy(struct routes *r)
{
	if (!r)
		return;
	free(r->rank);
	free(r->up_ports);
	free(r->down);
	free(r->up);
	free(r);
}

uint32_t routes_entry(const struct routes *r, uint32_t chip, unsigned in_port, unsigned index)
{
	unsigned frame = machine_frame(r->machine, chip);
	uint32_t down = row(r->down, chip)[index];

	/* The own frame is looked up node by node, and nodes of others by their frame. */
	if (index < TABLE_FRAMES ? index == frame : frame == FRAME_NONE)
		return 0;
	if (down)
		return down;
	/* What came from above goes up no more. */
	return r->up_ports[chip] >> in_port & 1 ? 0 : row(r->up, chip)[index];
}

unsigned routes_index(const struct machine *m, unsigned own_frame, uint32_t destination)
{
	unsigned frame = destination / m->frame_nodes;

	return frame == own_frame ? TABLE_FRAMES + destination % m->frame_nodes : frame;
}

/* All output ports that packets which came in by a port may take. */
static uint32_t any_entry(const struct machine *m,
			  uint32_t (*entry)(const void *arg, uint32_t chip, unsigned in_port,
					    unsigned index),
			  const void *arg, uint32_t in)
{
	uint32_t chip = m->ports[in].chip, ports = 0;

	for (unsigned i = 0; i < TABLE_ENTRIES; i++)
		ports |= entry(arg, chip, in - m->chips[chip].first_port, i);
	return ports;
}

/*
 * A link is named by the port it leads into. Links that nobody depends on any more are taken away
 * one after the other (Kahn's order); what is left has a cycle.
 */
int routes_cycle(const struct machine *m,
		 uint32_t (*entry)(const void *arg, uint32_t chip, unsigned in_port,
				   unsigned index),
		 const void *arg, uint32_t *port)
{
	uint32_t *out = calloc(m->port_count + 1, sizeof(*out));
	uint32_t *needed = calloc(m->port_count + 1, sizeof(*needed));
	uint32_t *queue = malloc((m->port_count + 1) * sizeof(*queue));
	uint32_t head = 0, tail = 0, links = 0;
	int ret = out && needed && queue ? 0 : -ENOMEM;

	for (uint32_t in = 0; !ret && in < m->port_count; in++) {
		const struct machine_chip *chip = &m->chips[m->ports[in].chip];

		if (m->ports[in].peer == MACHINE_NONE || chip->type != NMP_NRC)
			continue;
		links++;
		out[in] = any_entry(m, entry, arg, in);
		for (unsigned p = 0; p < chip->ports; p++)
			if (out[in] >> p & 1 && m->ports[chip->first_port + p].peer != MACHINE_NONE)
				needed[m->ports[chip->first_port + p].peer]++;
	}
	for (uint32_t in = 0; !ret && in < m->port_count; in++)
		if (m->ports[in].peer != MACHINE_NONE && !needed[in] &&
		    m->chips[m->ports[in].chip].type == NMP_NRC)
			queue[tail++] = in;
	while (!ret && head < tail) {
		uint32_t in = queue[head++];
		const struct machine_chip *chip = &m->chips[m->ports[in].chip];

		for (unsigned p = 0; p < chip->ports; p++) {
			uint32_t next = m->ports[chip->first_port + p].peer;

			if (out[in] >> p & 1 && next != MACHINE_NONE && !--needed[next] &&
			    m->chips[m->ports[next].chip].type == NMP_NRC)
				queue[tail++] = next;
		}
	}
	if (!ret && tail != links)
		for (uint32_t in = 0; in < m->port_count && !ret; in++)
			if (needed[in]) {
				*port = in;
				ret = 1;
			}
	free(out);
	free(needed);
	free(queue);
	return ret;
}

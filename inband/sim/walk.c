/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tables as they should be, and walks from NIC to NIC by the tables that the chips have, as data
 * packets are routed: of the ports that an entry allows, any whose link is up. One thread.
 */
#include <errno.h>
#include <string.h>

#include "inband/routes.h"
#include "inband/sim/sim.h"

#define TOO_FAR 20

/* One of the ports of an entry whose links are up; NULL: there is none. */
static struct port *choose(struct sim *sim, const struct chip *chip, uint32_t mask)
{
	uint32_t up = 0, skip;

	for (unsigned p = 0; p < chip->nports; p++)
		if (mask >> p & 1 && chip->ports[p].state == LINK_UP)
			up |= 1u << p;
	if (!up)
		return NULL;
	for (skip = sim_random(sim, __builtin_popcount(up)); skip; skip--)
		up &= up - 1;
	return &chip->ports[__builtin_ctz(up)];
}

/* Hops, or -1: *at is where the way ends. */
static int walk(struct sim *sim, uint32_t from, uint32_t to, uint32_t *at)
{
	uint32_t destination = sim->machine->chips[to].id;
	struct port *out = &sim->chips[from].ports[0];
	int hops = 0;

	*at = from;
	while (out && out->state == LINK_UP) {
		struct port *in = &sim->ports[out->peer];
		struct chip *chip = sim_port_chip(sim, in);

		*at = chip - sim->chips;
		if (*at == to)
			return hops;
		if (chip->type == NMP_NIC || ++hops > TOO_FAR)
			return -1;
		out = choose(sim, chip,
			     table_get(chip, sim_port_number(sim, in),
				       routes_index(sim->machine, chip->frame, destination)));
	}
	return -1;
}

void walk_random(struct sim *sim, uint32_t pairs, struct walk *w)
{
	const struct machine *m = sim->machine;
	uint32_t nics = m->nics + m->servers, at;

	memset(w, 0, sizeof(*w));
	while (pairs--) {
		uint32_t from = m->nrcs + sim_random(sim, nics),
			 to = m->nrcs + sim_random(sim, nics);
		int hops;

		if (from == to)
			continue;
		hops = walk(sim, from, to, &at);
		w->walks++;
		if (hops >= 0) {
			w->arrived++;
			if ((uint32_t)hops > w->most_hops)
				w->most_hops = hops;
			continue;
		}
		w->lost++;
		w->from = from;
		w->to = to;
		w->at = at;
	}
}

int walk_fill(struct sim *sim)
{
	const struct machine *m = sim->machine;
	struct routes *routes;
	int ret = routes_create(m, NULL, &routes);

	if (ret)
		return ret;
	for (uint32_t c = 0; c < m->nrcs && !ret; c++) {
		uint32_t all = (1u << m->chips[c].ports) - 1, up = routes->up_ports[c];
		/* Ports of one direction have one table. */
		const uint32_t groups[2] = {all & ~up, up};

		for (unsigned g = 0; g < 2; g++)
			for (unsigned i = 0; groups[g] && i < TABLE_ENTRIES && !ret; i++)
				ret = table_set(sim, &sim->chips[c], groups[g], i,
						routes_entry(routes, c, __builtin_ctz(groups[g]),
							     i));
	}
	routes_destroy(routes);
	return ret;
}

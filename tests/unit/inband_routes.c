/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Route tables: every pair of nodes, dead links, and cycles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/routes.h"

static struct machine *load(const char *what)
{
	struct machine *m;
	char error[256];

	assert_int_equal(machine_load(what, 1, &m, error, sizeof(error)), 0);
	return m;
}

/* Hops by all ports of each entry in turn, depth first; -1 if one of the ways is lost. */
static int longest(const struct routes *r, uint32_t in, uint32_t to, const bool *live, int hops)
{
	const struct machine *m = r->machine;
	uint32_t chip = m->ports[in].chip, mask;
	int most = -1;

	if (chip == to)
		return hops;
	if (m->chips[chip].type == NMP_NIC || hops > 12)
		return -1;
	mask = routes_entry(r, chip, in - m->chips[chip].first_port,
			    routes_index(m, machine_frame(m, chip), m->chips[to].id));
	for (unsigned p = 0; p < m->chips[chip].ports; p++) {
		uint32_t out = m->chips[chip].first_port + p;
		int way;

		if (!(mask >> p & 1))
			continue;
		if (m->ports[out].peer == MACHINE_NONE || (live && !live[out]))
			return -1;
		way = longest(r, m->ports[out].peer, to, live, hops + 1);
		if (way < 0)
			return -1;
		if (way > most)
			most = way;
	}
	return most;
}

static void every_way_of_every_pair_arrives(void **state)
{
	struct machine *m = load("tree:2,2,2,4");
	struct routes *r;

	assert_int_equal(routes_create(m, NULL, &r), 0);
	for (uint32_t from = m->nrcs; from < m->chip_count; from++)
		for (uint32_t to = m->nrcs; to < m->chip_count; to++)
			if (from != to)
				assert_in_range(longest(r, m->ports[m->chips[from].first_port].peer,
							to, NULL, 0),
						1, 7);
	routes_destroy(r);
	machine_destroy(m);
}

static void dead_links_are_in_no_entry(void **state)
{
	struct machine *m = load("tree:2,2,2,4");
	bool *live = malloc(m->port_count);
	struct routes *r;

	memset(live, 1, m->port_count);
	/* The first leaf switch loses its way down to a frame, and one of its ways up. */
	for (uint32_t p = 0, leaf = 0; p < m->port_count; p++) {
		const struct machine_chip *c = &m->chips[m->ports[p].chip];

		if (c->layer != LAYER_LEAF || m->ports[p].peer == MACHINE_NONE)
			continue;
		if (leaf == 0 || leaf == 2)
			live[p] = live[m->ports[p].peer] = false;
		leaf++;
	}
	assert_int_equal(routes_create(m, live, &r), 0);
	for (uint32_t from = m->nrcs; from < m->chip_count; from += 3)
		for (uint32_t to = m->nrcs; to < m->chip_count; to++)
			if (from != to)
				assert_in_range(longest(r, m->ports[m->chips[from].first_port].peer,
							to, live, 0),
						1, 7);
	routes_destroy(r);
	free(live);
	machine_destroy(m);
}

static uint32_t own(const void *arg, uint32_t chip, unsigned in_port, unsigned index)
{
	return routes_entry(arg, chip, in_port, index);
}

/* Tables that send everything up again. */
static uint32_t careless(const void *arg, uint32_t chip, unsigned in_port, unsigned index)
{
	const struct routes *r = arg;

	return routes_entry(r, chip, in_port, index) | r->up_ports[chip];
}

static void cycles_are_found_where_there_are_some(void **state)
{
	struct machine *m = load("tree:2,2,2,4");
	struct routes *r;
	uint32_t port = MACHINE_NONE;

	assert_int_equal(routes_create(m, NULL, &r), 0);
	assert_int_equal(routes_cycle(m, own, r, &port), 0);
	assert_int_equal(routes_cycle(m, careless, r, &port), 1);
	assert_true(port < m->port_count);
	routes_destroy(r);
	machine_destroy(m);
}

static void other_machines_are_refused(void **state)
{
	static const char text[] =
		"{\"chips\": [{\"type\": \"nrc\", \"id\": 0}, {\"type\": \"nrc\", \"id\": 1},"
		"{\"type\": \"nic\", \"id\": 0}, {\"type\": \"nic\", \"id\": 1}],"
		"\"cables\": [[\"nrc:0:0\", \"nic:0:0\"], [\"nrc:1:0\", \"nic:1:0\"],"
		"[\"nrc:0:1\", \"nrc:1:1\"]]}\n";
	FILE *file = fmemopen((char *)(uintptr_t)text, strlen(text), "r");
	struct machine *m;
	struct routes *r;
	char error[256];

	assert_int_equal(machine_read(file, &m, error, sizeof(error)), 0);
	fclose(file);
	assert_int_equal(routes_create(m, NULL, &r), -ENOTSUP);
	machine_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_way_of_every_pair_arrives),
		cmocka_unit_test(dead_links_are_in_no_entry),
		cmocka_unit_test(cycles_are_found_where_there_are_some),
		cmocka_unit_test(other_machines_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tianhe-2's wiring (paper, 2.3). The paper gives the numbers of chips, switches, ports and cables;
 * this wiring is derived, and agrees with all of them. 16 leaf cabinets of 3 groups serve 3
 * computer cabinets a group: 144 cabinets, of which the last is the service cabinet. Of the 24
 * ports of an NRC:
 *
 *	bottom switch	edge e (NRC 0–3)	0–7 nodes, then 4 + 3 or 3 + 4 to spines 0 and 1
 *	(6 NRCs)	spine s (NRC 4–5)	0–9 up, 10–23 to edges 0–3
 *			spine ⌊j/10⌋, port j mod 10 ─── leaf j of the group, port f (frame 0–11)
 *	leaf switch	(1 NRC)			0–11 down, port 12 + k ─── root 12 j + k
 *	root switch	edge (NRC 0–3)		0–11 down, 12–17 and 18–23 to spines 0 and 1
 *	(6 NRCs)	spine (NRC 4–5)		6 ports for each edge
 *			group g is at position (g + r) mod 48 of root r: edge ⌊position/12⌋
 *
 * With position g instead, NRCs would be 6.16 hops away on average and not 5.82; the paper's time
 * for a scan (4.5) says 5.76.
 */
#include <errno.h>
#include <string.h>

#include "inband/machine.h"

#define CABINETS       143 /* with computers */
#define ALL_CABINETS   144
#define FRAMES	       4
#define SLOTS	       32
#define GROUPS	       48
#define GROUP_FRAMES   12
#define LEAVES	       20
#define ROOTS	       240
#define ROOT_POSITIONS 48
#define MAX_SERVERS    8

/* NRCs are numbered through: bottom switches, leaf switches, root switches. */
static uint32_t bottom(unsigned frame, unsigned nrc)
{
	return frame * 6 + nrc;
}

static uint32_t leaf(unsigned group, unsigned j)
{
	return ALL_CABINETS * FRAMES * 6 + group * LEAVES + j;
}

static uint32_t root(unsigned r, unsigned nrc)
{
	return ALL_CABINETS * FRAMES * 6 + GROUPS * LEAVES + r * 6 + nrc;
}

static void add_switches(struct machine *m)
{
	for (unsigned i = 0; i < ALL_CABINETS * FRAMES * 6; i++)
		machine_add(m, &(struct machine_chip){.type = NMP_NRC,
						      .layer = i % 6 < 4 ? LAYER_EDGE : LAYER_SPINE,
						      .ports = MACHINE_NRC_PORTS,
						      .row = ROW_COMPUTE,
						      .cabinet = i / (FRAMES * 6),
						      .frame = i / 6 % FRAMES,
						      .position = i % 6,
						      .id = i});
	for (unsigned i = 0; i < GROUPS * LEAVES; i++)
		machine_add(m, &(struct machine_chip){.type = NMP_NRC,
						      .layer = LAYER_LEAF,
						      .ports = MACHINE_NRC_PORTS,
						      .row = ROW_LEAF,
						      .cabinet = i / (3 * LEAVES),
						      .frame = i / LEAVES % 3,
						      .board = i % LEAVES,
						      .id = leaf(0, i)});
	for (unsigned i = 0; i < ROOTS * 6; i++)
		machine_add(m, &(struct machine_chip){.type = NMP_NRC,
						      .layer = i % 6 < 4 ? LAYER_ROOT_EDGE
									 : LAYER_ROOT_SPINE,
						      .ports = MACHINE_NRC_PORTS,
						      .row = ROW_ROOT,
						      .cabinet = i / 180,
						      .board = i / 6 % 30,
						      .position = i % 6,
						      .id = root(0, i)});
}

static void add_node(struct machine *m, unsigned frame, unsigned slot)
{
	uint32_t nic = machine_add(m, &(struct machine_chip){.type = NMP_NIC,
							     .layer = LAYER_NODE,
							     .ports = 1,
							     .row = ROW_COMPUTE,
							     .cabinet = frame / FRAMES,
							     .frame = frame % FRAMES,
							     .board = 1 + slot / 2,
							     .position = slot % 2,
							     .id = frame * SLOTS + slot});

	machine_cable(m, bottom(frame, slot / 8), slot % 8, nic, 0, false);
}

/* 28 links inside: 4 between edge and spine when their sum is even, else 3. */
static void wire_bottom(struct machine *m, unsigned frame)
{
	unsigned down[2] = {10, 10};

	for (unsigned e = 0; e < 4; e++) {
		unsigned up = 8;

		for (unsigned s = 0; s < 2; s++)
			for (unsigned i = 0; i < ((e + s) % 2 ? 3u : 4u); i++)
				machine_cable(m, bottom(frame, e), up++, bottom(frame, 4 + s),
					      down[s]++, false);
	}
}

static void wire_root(struct machine *m, unsigned r)
{
	for (unsigned e = 0; e < 4; e++)
		for (unsigned s = 0; s < 2; s++)
			for (unsigned i = 0; i < 6; i++)
				machine_cable(m, root(r, e), 12 + 6 * s + i, root(r, 4 + s),
					      6 * e + i, false);
}

static void wire_group(struct machine *m, unsigned g)
{
	for (unsigned j = 0; j < LEAVES; j++) {
		for (unsigned f = 0; f < GROUP_FRAMES; f++)
			machine_cable(m, bottom(g * GROUP_FRAMES + f, 4 + j / 10), j % 10,
				      leaf(g, j), f, true);
		for (unsigned k = 0; k < 12; k++) {
			unsigned r = 12 * j + k, position = (g + r) % ROOT_POSITIONS;

			machine_cable(m, leaf(g, j), 12 + k, root(r, position / 12), position % 12,
				      true);
		}
	}
}

int machine_th2(unsigned servers, struct machine **machine)
{
	const unsigned nrcs = root(ROOTS, 0), nics = CABINETS * FRAMES * SLOTS;
	struct machine *m;
	int ret;

	if (!servers || servers > MAX_SERVERS)
		return -EINVAL;
	ret = machine_begin("th2", nrcs + nics + servers, &m);
	if (ret)
		return ret;
	add_switches(m);
	for (unsigned i = 0; i < nics; i++)
		add_node(m, i / SLOTS, i % SLOTS);
	/* The first in the first frame of the service cabinet; every other one far away, in the
	 * last. */
	for (unsigned i = 0; i < servers; i++)
		add_node(m, CABINETS * FRAMES + (i % 2 ? FRAMES - 1 : 0), 8 * (i / 2));
	m->frame_nodes = SLOTS;
	m->nics -= servers;
	m->servers = servers;
	for (unsigned i = 0; i < ALL_CABINETS * FRAMES; i++)
		wire_bottom(m, i);
	for (unsigned i = 0; i < GROUPS; i++)
		wire_group(m, i);
	for (unsigned i = 0; i < ROOTS; i++)
		wire_root(m, i);
	ret = machine_end(m);
	if (ret)
		machine_destroy(m);
	else
		*machine = m;
	return ret;
}

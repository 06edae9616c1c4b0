/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A small fat tree in the manner of Tianhe-2, for tests and first looks. Each frame has an edge NRC
 * with 8 nodes and a spine NRC, 4 links between them; the spine goes up to the leaf switches of its
 * group, and each root chip reaches every group by one leaf switch.
 */
#include <errno.h>

#include "inband/machine.h"

#define NODES 8

int machine_tree(unsigned groups, unsigned frames, unsigned leaves, unsigned roots,
		 unsigned servers, struct machine **machine)
{
	const unsigned all = groups * frames;
	uint32_t leaf, root, node, ids = 0;
	struct machine *m;
	int ret;

	if (!groups || groups > 24 || !frames || frames > 12 || !leaves || leaves > 10 ||
	    roots > 12 * leaves || !servers || servers > 8 || servers > all * NODES / 2)
		return -EINVAL;
	ret = machine_begin("tree", all * (2 + NODES) + groups * leaves + roots, &m);
	if (ret)
		return ret;
	for (unsigned i = 0; i < 2 * all; i++)
		machine_add(m, &(struct machine_chip){.type = NMP_NRC,
						      .layer = i % 2 ? LAYER_SPINE : LAYER_EDGE,
						      .ports = MACHINE_NRC_PORTS,
						      .row = ROW_COMPUTE,
						      .cabinet = i / 2 / 4,
						      .frame = i / 2 % 4,
						      .position = i % 2 ? 4 : 0,
						      .id = ids++});
	leaf = m->chip_count;
	for (unsigned i = 0; i < groups * leaves; i++)
		machine_add(m, &(struct machine_chip){.type = NMP_NRC,
						      .layer = LAYER_LEAF,
						      .ports = MACHINE_NRC_PORTS,
						      .row = ROW_LEAF,
						      .cabinet = i / leaves / 3,
						      .frame = i / leaves % 3,
						      .board = i % leaves,
						      .id = ids++});
	root = m->chip_count;
	for (unsigned i = 0; i < roots; i++)
		machine_add(m, &(struct machine_chip){.type = NMP_NRC,
						      .layer = LAYER_ROOT_EDGE,
						      .ports = MACHINE_NRC_PORTS,
						      .row = ROW_ROOT,
						      .cabinet = i / 30,
						      .board = i % 30,
						      .id = ids++});
	/* Servers take the first node and the last, the second and the last but one … */
	node = m->chip_count;
	for (unsigned i = 0; i < all * NODES; i++) {
		unsigned rank = i < all * NODES - servers ? i + (servers + 1) / 2
				: (i - (all * NODES - servers)) % 2
					? all * NODES - 1 - (i - (all * NODES - servers)) / 2
					: (i - (all * NODES - servers)) / 2;

		machine_add(m, &(struct machine_chip){.type = NMP_NIC,
						      .layer = LAYER_NODE,
						      .ports = 1,
						      .row = ROW_COMPUTE,
						      .cabinet = rank / NODES / 4,
						      .frame = rank / NODES % 4,
						      .board = 1 + rank % NODES / 2,
						      .position = rank % 2,
						      .id = rank});
		machine_cable(m, 2 * (rank / NODES), rank % NODES, node + i, 0, false);
	}
	m->frame_nodes = NODES;
	m->nics -= servers;
	m->servers = servers;
	for (unsigned i = 0; i < all; i++) {
		for (unsigned k = 0; k < 4; k++)
			machine_cable(m, 2 * i, NODES + k, 2 * i + 1, 10 + k, false);
		for (unsigned j = 0; j < leaves; j++)
			machine_cable(m, 2 * i + 1, j, leaf + i / frames * leaves + j, i % frames,
				      true);
	}
	for (unsigned g = 0; g < groups; g++)
		for (unsigned r = 0; r < roots; r++)
			machine_cable(m, leaf + g * leaves + r % leaves, 12 + r / leaves, root + r,
				      g, true);
	ret = machine_end(m);
	if (ret)
		machine_destroy(m);
	else
		*machine = m;
	return ret;
}

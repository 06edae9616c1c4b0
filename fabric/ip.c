// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* IP addresses of ports: ip.h. */
#include "fabric/ip.h"

#define FIRST_NET (127u << 24 | 77u << 16)
#define LAST_NET  (127u << 24 | 255u << 16)

/* An adapter of that host? */
static bool is_of(const struct fabric_node *node, uint32_t host)
{
	return node->type != NODE_SWITCH && node->host == host;
}

uint32_t fabric_ip_of_port(const struct fabric_map *map, uint32_t port)
{
	const struct fabric_port *p = fabric_map_port(map, port);
	const struct fabric_node *node = fabric_map_node(map, p->node);
	uint64_t nth = p->num - 1;

	if (node->type == NODE_SWITCH || !p->num || node->host >= 0xffff)
		return 0;
	for (uint32_t i = node->host; i < p->node; i++)
		if (is_of(fabric_map_node(map, i), node->host))
			nth += fabric_map_node(map, i)->num_ports;
	if (nth > (LAST_NET - FIRST_NET) >> 16)
		return 0;
	return FIRST_NET + (nth << 16) + node->host + 1;
}

uint32_t fabric_ip_port(const struct fabric_map *map, uint32_t ip)
{
	uint32_t host = (ip & 0xffff) - 1, nth;

	if (ip < FIRST_NET || ip >> 24 != 127 || host >= map->num_nodes)
		return FABRIC_NONE;
	nth = (ip - FIRST_NET) >> 16;
	for (uint32_t i = host; i < map->num_nodes; i++) {
		const struct fabric_node *node = fabric_map_node(map, i);

		if (!is_of(node, host))
			continue;
		if (nth < node->num_ports)
			return node->first_port + 1 + nth;
		nth -= node->num_ports;
	}
	return FABRIC_NONE;
}

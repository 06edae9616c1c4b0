// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Virtual functions of an adapter behind a virtual switch (vSwitch SR-IOV): each is an end port
 * with a LID, a GUID and P_Keys of its own, and for a subnet manager an adapter at a switch. Its
 * GUID is set and cleared while the fabric runs, as a hypervisor does for a virtual machine that
 * comes and goes. fabricd's thread.
 *
 *	leaf ---[1] virtual switch [2]--- the physical function, "h1"
 *	                           [3]--- function 1, "h1-vf1"
 *	                           [4]--- function 2, "h1-vf2"
 */
#include <stdlib.h>

#include "fabric/fabric.h"

static struct fabric_port *only_port(struct fabric *f, const struct fabric_node *node)
{
	return fabric_node_port(f->map, node, 1);
}

/* The node at the other end of a port's cable; NULL. */
static struct fabric_node *neighbour(struct fabric *f, const struct fabric_port *port)
{
	return port->peer == FABRIC_NONE ? NULL : node_of(f, port_at(f, port->peer));
}

const struct fabric_node *function_switch(struct fabric *f, const struct fabric_node *node)
{
	return node->type == NODE_SWITCH ? node : neighbour(f, only_port(f, node));
}

struct fabric_node *function_find(struct fabric *f, const struct fabric_node *node, unsigned num)
{
	node = function_switch(f, node);
	for (int i = 1; node && num && i <= node->num_ports; i++) {
		struct fabric_node *other = neighbour(f, fabric_node_port(f->map, node, i));

		if (other && other->function == num)
			return other;
	}
	return NULL;
}

void function_set_guid(struct fabric *f, struct fabric_node *node, uint64_t guid)
{
	struct fabric_port *port = only_port(f, node);
	bool disabled = port->disabled;

	if (port->guid == guid)
		return;
	link_set(f, port, false);
	timer_stop(&f->mads.timers, &f->ports[index_of(f, port)].lease);
	trap_forget(f, node);
	map_begin(f);
	node->guid = node->system_guid = port->guid = guid;
	fabric_port_reset(f, port);
	map_end(f);
	if (!guid)
		function_set_desc(f, node, NULL);
	link_set(f, port, !disabled);
	host_port_changed(f, port, false);
}

void function_enable(struct fabric *f, struct fabric_node *node, bool on)
{
	link_set(f, only_port(f, node), on);
}

const struct fabric_port *function_other(struct fabric *f, const struct fabric_node *node,
					 uint64_t guid)
{
	for (uint32_t i = 0; i < f->map->num_ports; i++) {
		const struct fabric_port *port = port_at(f, i);

		if (port->num && node_of(f, port) != node &&
		    (port->guid == guid || node_of(f, port)->guid == guid))
			return port;
	}
	return NULL;
}

void function_set_desc(struct fabric *f, struct fabric_node *node, const char *desc)
{
	char **own = &f->nodes[node - fabric_map_node(f->map, 0)].own_desc;
	char text[FABRIC_DESC_LEN + 1] = "";

	if (!desc && !*own)
		return;
	if (!*own)
		*own = strndup(node->desc, FABRIC_DESC_LEN);
	if (!*own)
		return; /* no memory: the name stays */
	memcpy(text, desc ? desc : *own, strnlen(desc ? desc : *own, FABRIC_DESC_LEN));
	if (!memcmp(node->desc, text, FABRIC_DESC_LEN))
		return;
	map_begin(f);
	memcpy(node->desc, text, FABRIC_DESC_LEN);
	map_end(f);
	trap_description(f, only_port(f, node));
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The description of a fabric in memory, and its printed form. One thread at a time.
 */
#include "fabric/topology.h"

#include <stdlib.h>
#include <string.h>

/* GUIDs that are made up: an OUI that is locally administered, "urxe" and a number. */
#define OWN_GUIDS 0x0255525845000000ull

const char *const topology_speeds[FABRIC_NUM_SPEEDS] = {"SDR", "DDR", "QDR", "FDR10",
							"FDR", "EDR", "HDR", "NDR"};

struct topology_node *topology_add(struct topology *t, uint8_t type, uint8_t num_ports,
				   const char *id, const char *desc)
{
	struct topology_node *n;

	if (t->num_nodes == t->room) {
		uint32_t room = t->room ? 2 * t->room : 64;

		n = realloc(t->nodes, room * sizeof(*n));
		if (!n)
			return NULL;
		t->nodes = n;
		t->room = room;
	}
	n = &t->nodes[t->num_nodes];
	memset(n, 0, sizeof(*n));
	n->ports = calloc(num_ports + 1, sizeof(*n->ports));
	if (!n->ports)
		return NULL;
	for (int i = 0; i <= num_ports; i++)
		n->ports[i].peer = FABRIC_NONE;
	n->type = type;
	n->num_ports = num_ports;
	snprintf(n->id, sizeof(n->id), "%s", id);
	snprintf(n->desc, sizeof(n->desc), "%s", desc);
	t->num_nodes++;
	return n;
}

void topology_connect(struct topology *t, uint32_t a, uint8_t a_port, uint32_t b, uint8_t b_port)
{
	struct topology_port *p = &t->nodes[a].ports[a_port], *q = &t->nodes[b].ports[b_port];

	p->peer = b;
	p->peer_port = b_port;
	q->peer = a;
	q->peer_port = a_port;
}

static void finish_port(struct topology_node *n, int num)
{
	struct topology_port *p = &n->ports[num];

	if (!p->guid)
		p->guid = n->type == NODE_SWITCH ? n->port0_guid
			  : n->function		 ? n->guid
						 : n->guid + num;
	if (!p->width) {
		p->width = 4;
		p->speed = FABRIC_SPEED_EDR;
	}
}

void topology_finish(struct topology *t)
{
	for (uint32_t i = 0; i < t->num_nodes; i++) {
		struct topology_node *n = &t->nodes[i];
		bool made = !n->guid;

		if (made) {
			n->vendor = 0x2c9;
			n->device = n->type == NODE_SWITCH ? 0xcb20 : n->function ? 0x1018 : 0x1017;
		}
		if (made && !n->no_guid) {
			/* As hardware: the node's, then its ports' behind it. */
			n->guid = OWN_GUIDS + ((uint64_t)i << 8);
			n->system_guid = n->guid;
		}
		if (!n->port0_guid)
			n->port0_guid = n->guid;
		for (int p = 1; p <= n->num_ports; p++)
			finish_port(n, p);
	}
}

uint32_t topology_lids(const struct topology *t)
{
	uint32_t lids = 0;

	for (uint32_t i = 0; i < t->num_nodes; i++) {
		const struct topology_node *n = &t->nodes[i];

		if (n->type == NODE_SWITCH)
			lids++; /* its port 0's */
		else
			for (int p = 1; p <= n->num_ports; p++)
				lids += n->ports[p].peer != FABRIC_NONE && n->ports[p].guid;
	}
	return lids;
}

void topology_free(struct topology *t)
{
	for (uint32_t i = 0; i < t->num_nodes; i++)
		free(t->nodes[i].ports);
	free(t->nodes);
	memset(t, 0, sizeof(*t));
}

/* ---- writing ---- */

struct name {
	char text[24];
};

/* As ibnetdiscover names a node: by its type and GUID; one without a GUID by its number. */
static struct name name_of(const struct topology *t, uint32_t node)
{
	const struct topology_node *n = &t->nodes[node];
	char letter = n->type == NODE_SWITCH ? 'S' : n->type == NODE_ROUTER ? 'R' : 'H';
	struct name name;

	if (n->no_guid)
		snprintf(name.text, sizeof(name.text), "function-%u", node);
	else
		snprintf(name.text, sizeof(name.text), "%c-%016llx", letter,
			 (unsigned long long)n->guid);
	return name;
}

static void write_port(const struct topology *t, const struct topology_node *n, int num, FILE *out)
{
	const struct topology_port *p = &n->ports[num];
	const struct topology_node *peer = &t->nodes[p->peer];

	fprintf(out, "[%d]", num);
	if (n->type != NODE_SWITCH)
		fprintf(out, "(%llx) ", (unsigned long long)p->guid);
	fprintf(out, "\t\"%s\"[%d]", name_of(t, p->peer).text, p->peer_port);
	if (peer->type != NODE_SWITCH)
		fprintf(out, "(%llx) ", (unsigned long long)peer->ports[p->peer_port].guid);
	if (n->type == NODE_SWITCH)
		fprintf(out, "\t\t# \"%s\" lid 0 %ux%s\n", peer->desc, p->width,
			topology_speeds[p->speed]);
	else
		fprintf(out, "\t\t# lid 0 lmc 0 \"%s\" lid 0 %ux%s\n", peer->desc, p->width,
			topology_speeds[p->speed]);
}

static void write_node(const struct topology *t, uint32_t node, FILE *out)
{
	const struct topology_node *n = &t->nodes[node];
	bool is_switch = n->type == NODE_SWITCH;

	fprintf(out, "\nvendid=0x%x\ndevid=0x%x\n", n->vendor, n->device);
	if (n->system_guid)
		fprintf(out, "sysimgguid=0x%llx\n", (unsigned long long)n->system_guid);
	if (n->function)
		fprintf(out, "function=%u\n", n->function);
	if (n->linear_cap)
		fprintf(out, "linearcap=%u\n", n->linear_cap);
	if (is_switch)
		fprintf(out,
			"switchguid=0x%llx(%llx)\nSwitch\t%u \"%s\"\t\t# \"%s\" %s port 0 "
			"lid 0 lmc 0\n",
			(unsigned long long)n->guid, (unsigned long long)n->port0_guid,
			n->num_ports, name_of(t, node).text, n->desc,
			n->enhanced_port0 ? "enhanced" : "base");
	else
		fprintf(out, "%sguid=0x%llx\n%s\t%u \"%s\"\t\t# \"%s\"\n",
			n->type == NODE_ROUTER ? "rt" : "ca", (unsigned long long)n->guid,
			n->type == NODE_ROUTER ? "Rt" : "Ca", n->num_ports, name_of(t, node).text,
			n->desc);
	for (int p = 1; p <= n->num_ports; p++)
		if (n->ports[p].peer != FABRIC_NONE)
			write_port(t, n, p, out);
}

void topology_write(const struct topology *t, FILE *out)
{
	for (uint32_t i = 0; i < t->num_nodes; i++)
		if (t->nodes[i].type == NODE_SWITCH)
			write_node(t, i, out);
	for (uint32_t i = 0; i < t->num_nodes; i++)
		if (t->nodes[i].type != NODE_SWITCH)
			write_node(t, i, out);
}

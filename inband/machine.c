/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A machine's arrays, names and places. See machine.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/machine.h"
#include "inband/registers.h"

static const struct {
	const char *name;
	char cabinet;
} layers[] = {
	[LAYER_NODE] = {"node", 'C'},		[LAYER_EDGE] = {"edge", 'C'},
	[LAYER_SPINE] = {"spine", 'C'},		[LAYER_LEAF] = {"leaf", 'L'},
	[LAYER_ROOT_EDGE] = {"root-edge", 'R'}, [LAYER_ROOT_SPINE] = {"root-spine", 'R'},
	[LAYER_OTHER] = {"other", '-'},
};

int machine_begin(const char *name, uint32_t chips, struct machine **machine)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	snprintf(m->name, sizeof(m->name), "%s", name);
	m->chips = calloc(chips, sizeof(*m->chips));
	m->ports = calloc((size_t)chips * MACHINE_NRC_PORTS, sizeof(*m->ports));
	if (!m->chips || !m->ports) {
		machine_destroy(m);
		return -ENOMEM;
	}
	*machine = m;
	return 0;
}

void machine_destroy(struct machine *m)
{
	if (!m)
		return;
	free(m->by_id[0]);
	free(m->by_id[1]);
	free(m->chips);
	free(m->ports);
	free(m->texts);
	free(m);
}

uint32_t machine_add(struct machine *m, const struct machine_chip *chip)
{
	struct machine_chip *c = &m->chips[m->chip_count];

	*c = *chip;
	c->first_port = m->port_count;
	for (unsigned i = 0; i < c->ports; i++) {
		m->ports[m->port_count].chip = m->chip_count;
		m->ports[m->port_count++].peer = MACHINE_NONE;
	}
	if (c->type == NMP_NRC)
		m->nrcs++;
	else
		m->nics++;
	return m->chip_count++;
}

void machine_cable(struct machine *m, uint32_t chip_a, unsigned port_a, uint32_t chip_b,
		   unsigned port_b, bool optical)
{
	uint32_t a = machine_port_of(m, chip_a, port_a), b = machine_port_of(m, chip_b, port_b);

	m->ports[a].peer = b;
	m->ports[b].peer = a;
	m->ports[a].optical = m->ports[b].optical = optical;
}

int machine_end(struct machine *m)
{
	struct machine_port *ports;

	for (uint32_t i = 0; i < m->chip_count; i++)
		if (m->chips[i].id >= m->ids[m->chips[i].type])
			m->ids[m->chips[i].type] = m->chips[i].id + 1;
	for (unsigned type = 0; type < 2; type++) {
		m->by_id[type] = malloc((m->ids[type] + 1) * sizeof(uint32_t));
		if (!m->by_id[type])
			return -ENOMEM;
		memset(m->by_id[type], 0xff, (m->ids[type] + 1) * sizeof(uint32_t));
	}
	for (uint32_t i = 0; i < m->chip_count; i++) {
		uint32_t *slot = &m->by_id[m->chips[i].type][m->chips[i].id];

		if (*slot != MACHINE_NONE)
			return -EINVAL;
		*slot = i;
	}
	ports = realloc(m->ports, (m->port_count + 1) * sizeof(*ports));
	if (ports)
		m->ports = ports;
	return 0;
}

uint32_t machine_peer(const struct machine *m, uint32_t chip, unsigned port, unsigned *peer_port)
{
	uint32_t peer = m->ports[machine_port_of(m, chip, port)].peer;

	if (peer == MACHINE_NONE)
		return MACHINE_NONE;
	*peer_port = peer - m->chips[m->ports[peer].chip].first_port;
	return m->ports[peer].chip;
}

uint32_t machine_find(const struct machine *m, enum nmp_chip type, uint32_t id)
{
	return id < m->ids[type] ? m->by_id[type][id] : MACHINE_NONE;
}

const char *machine_chip_name(const struct machine *m, uint32_t chip, char name[MACHINE_NAME_LEN])
{
	const struct machine_chip *c = &m->chips[chip];

	if (c->name)
		return c->name;
	switch (c->row == ROW_NONE ? LAYER_OTHER : c->layer) {
	case LAYER_EDGE:
	case LAYER_SPINE:
		snprintf(name, MACHINE_NAME_LEN, "S.bottom.%u.%u.%u", c->cabinet, c->frame,
			 c->position);
		break;
	case LAYER_LEAF: /* the group, as its cables are lettered, and the switch in it */
		snprintf(name, MACHINE_NAME_LEN, "S.leaf.%u.%u", c->cabinet * 3u + c->frame,
			 c->board);
		break;
	case LAYER_ROOT_EDGE:
	case LAYER_ROOT_SPINE:
		snprintf(name, MACHINE_NAME_LEN, "S.root.%u.%u", c->cabinet * 30u + c->board,
			 c->position);
		break;
	case LAYER_NODE: snprintf(name, MACHINE_NAME_LEN, "N.%u", c->id); break;
	default:
		snprintf(name, MACHINE_NAME_LEN, "%s:%u", c->type == NMP_NRC ? "nrc" : "nic",
			 c->id);
	}
	return name;
}

/* The number at the end of what is to be found, behind a colon. */
static bool split_port(const char *text, char *name, size_t length, unsigned *port)
{
	const char *colon = strrchr(text, ':');
	unsigned long number;
	char *end;

	if (!colon || (size_t)(colon - text) >= length)
		return false;
	number = strtoul(colon + 1, &end, 10);
	if (end == colon + 1 || *end || number >= NMP_PORTS)
		return false;
	memcpy(name, text, colon - text);
	name[colon - text] = 0;
	*port = number;
	return true;
}

uint32_t machine_find_name(const struct machine *m, const char *text, unsigned *port)
{
	char name[64], made[MACHINE_NAME_LEN];
	unsigned id;
	int end = 0;

	if (!port)
		snprintf(name, sizeof(name), "%s", text);
	else if (!split_port(text, name, sizeof(name), port))
		return MACHINE_NONE;
	if (sscanf(name, "nrc:%u%n", &id, &end) == 1 && !name[end])
		return machine_find(m, NMP_NRC, id);
	if (sscanf(name, "nic:%u%n", &id, &end) == 1 && !name[end])
		return machine_find(m, NMP_NIC, id);
	for (uint32_t i = 0; i < m->chip_count; i++)
		if (!strcmp(machine_chip_name(m, i, made), name))
			return port && *port >= m->chips[i].ports ? MACHINE_NONE : i;
	return MACHINE_NONE;
}

const char *machine_place(const struct machine *m, uint32_t chip, int port,
			  char place[MACHINE_PLACE_LEN])
{
	const struct machine_chip *c = &m->chips[chip];
	unsigned panel;
	int n;

	if (c->row == ROW_NONE) {
		char name[MACHINE_NAME_LEN];

		snprintf(place, MACHINE_PLACE_LEN, "%s port %d", machine_chip_name(m, chip, name),
			 port);
		return place;
	}
	n = snprintf(place, MACHINE_PLACE_LEN, "cabinet %c%u frame %u board %u %s %u",
		     layers[c->layer].cabinet, c->cabinet, c->frame, c->board,
		     c->type == NMP_NRC ? "NRC" : "NIC", c->position);
	if (port < 0)
		return place;
	if (!m->ports[machine_port_of(m, chip, port)].optical) {
		snprintf(place + n, MACHINE_PLACE_LEN - n, " port %d", port);
		return place;
	}
	/* A link of 8 lanes is two QSFP sockets of the switch's panel. */
	panel = port;
	if (c->layer == LAYER_SPINE)
		panel += 10u * (c->position - 4u);
	else if (c->layer == LAYER_ROOT_EDGE)
		panel += 12u * c->position;
	snprintf(place + n, MACHINE_PLACE_LEN - n, " port %d QSFP %u+%u", port, 2 * panel,
		 2 * panel + 1);
	return place;
}

unsigned machine_frame(const struct machine *m, uint32_t chip)
{
	const struct machine_chip *c = &m->chips[chip];

	return c->row == ROW_COMPUTE ? c->cabinet * 4u + c->frame : FRAME_NONE;
}

uint32_t machine_optical_links(const struct machine *m)
{
	uint32_t ends = 0;

	for (uint32_t i = 0; i < m->port_count; i++)
		ends += m->ports[i].optical && m->ports[i].peer != MACHINE_NONE;
	return ends / 2;
}

int machine_hops(const struct machine *m, uint32_t from, uint8_t *hops)
{
	uint32_t *queue = malloc((m->chip_count + 1) * sizeof(*queue)), head = 0, tail = 0;
	unsigned at;

	if (!queue)
		return -ENOMEM;
	memset(hops, 255, m->chip_count);
	for (unsigned p = 0; p < m->chips[from].ports; p++) {
		uint32_t next = machine_peer(m, from, p, &at);

		if (next != MACHINE_NONE && hops[next] == 255) {
			hops[next] = 0;
			queue[tail++] = next;
		}
	}
	while (head < tail) {
		uint32_t chip = queue[head++];

		for (unsigned p = 0; m->chips[chip].type == NMP_NRC && p < m->chips[chip].ports;
		     p++) {
			uint32_t next = machine_peer(m, chip, p, &at);

			if (next == MACHINE_NONE || hops[next] != 255 || next == from)
				continue;
			hops[next] = hops[chip] + 1;
			queue[tail++] = next;
		}
	}
	free(queue);
	return 0;
}

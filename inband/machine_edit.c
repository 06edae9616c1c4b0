/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A machine that is another one but for what was edited. Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/machine.h"

static void *copy_of(const void *from, size_t size)
{
	void *to = malloc(size + 1);

	return to && from ? memcpy(to, from, size) : to;
}

int machine_copy(const struct machine *from, struct machine **copy)
{
	struct machine *m = copy_of(from, sizeof(*from));
	char *at;

	if (!m)
		return -ENOMEM;
	m->chips = copy_of(from->chips, from->chip_count * sizeof(*m->chips));
	m->ports = copy_of(from->ports, from->port_count * sizeof(*m->ports));
	for (unsigned type = 0; type < 2; type++)
		m->by_id[type] = copy_of(from->by_id[type], from->ids[type] * sizeof(uint32_t));
	at = m->texts = calloc(m->chip_count + 1, MACHINE_NAME_LEN);
	if (!m->chips || !m->ports || !m->by_id[0] || !m->by_id[1] || !m->texts) {
		machine_destroy(m);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < m->chip_count; i++, at += MACHINE_NAME_LEN)
		if (m->chips[i].name)
			m->chips[i].name = strcpy(at, m->chips[i].name);
	*copy = m;
	return 0;
}

int machine_rename(struct machine *m, uint32_t chip, const char *name)
{
	uint32_t has = machine_find_name(m, name, NULL);
	char *to = (char *)m->texts + (size_t)chip * MACHINE_NAME_LEN;

	if (!machine_is_name(name))
		return -EINVAL;
	if (has != MACHINE_NONE && has != chip)
		return -EEXIST;
	strcpy(to, name);
	m->chips[chip].name = to;
	return 0;
}

int machine_move(struct machine *m, uint32_t chip, const struct machine_chip *place)
{
	struct machine_chip *c = &m->chips[chip];
	char name[MACHINE_NAME_LEN];

	/* A name that says where it stood would be another's now, or nobody's. */
	if (!c->name) {
		strcpy((char *)m->texts + (size_t)chip * MACHINE_NAME_LEN,
		       machine_chip_name(m, chip, name));
		c->name = (char *)m->texts + (size_t)chip * MACHINE_NAME_LEN;
	}
	c->row = place->row;
	c->cabinet = place->cabinet;
	c->frame = place->frame;
	c->board = place->board;
	c->position = place->position;
	return 0;
}

static void pull(struct machine *m, uint32_t port)
{
	uint32_t peer = m->ports[port].peer;

	if (peer != MACHINE_NONE)
		m->ports[peer].peer = MACHINE_NONE;
	m->ports[port].peer = MACHINE_NONE;
}

int machine_recable(struct machine *m, uint32_t a, unsigned port_a, uint32_t b, unsigned port_b)
{
	uint32_t end = machine_port_of(m, a, port_a);

	if (a == b)
		return -EINVAL;
	pull(m, end);
	if (b == MACHINE_NONE)
		return 0;
	pull(m, machine_port_of(m, b, port_b));
	machine_cable(m, a, port_a, b, port_b, m->ports[end].optical);
	return 0;
}

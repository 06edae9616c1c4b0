/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A machine as if it were an InfiniBand subnet: what ibnetdiscover would print of it, which ibsim
 * and `urxe fabric up` take. Ports count from 1 there. Any thread.
 */
#include <errno.h>

#include "inband/machine.h"

/* A locally administered GUID for each chip. */
static uint64_t guid_of(const struct machine_chip *c)
{
	return 0x0200000000000000ull | (uint64_t)(c->type == NMP_NRC ? 1 : 2) << 32 |
	       (uint64_t)c->id << 4;
}

static char letter(const struct machine_chip *c)
{
	return c->type == NMP_NRC ? 'S' : 'H';
}

static void write_chip(const struct machine *m, uint32_t chip, FILE *file)
{
	const struct machine_chip *c = &m->chips[chip];
	bool is_switch = c->type == NMP_NRC;
	uint64_t guid = guid_of(c);
	char name[MACHINE_NAME_LEN];
	unsigned peer_port;

	fprintf(file,
		"\nvendid=0x0\ndevid=0x0\nsysimgguid=0x%lx\n%s=0x%lx\n%s\t%u \"%c-%016lx\"\t\t# "
		"\"%s\"%s\n",
		guid, is_switch ? "switchguid" : "caguid", guid, is_switch ? "Switch" : "Ca",
		c->ports, letter(c), guid, machine_chip_name(m, chip, name),
		is_switch ? " base port 0 lid 0 lmc 0" : "");
	for (unsigned p = 0; p < c->ports; p++) {
		uint32_t peer = machine_peer(m, chip, p, &peer_port);

		if (peer == MACHINE_NONE)
			continue;
		fprintf(file, "[%u]", p + 1);
		if (!is_switch)
			fprintf(file, "(%lx)", guid + p + 1);
		fprintf(file, "\t\"%c-%016lx\"[%u]\n", letter(&m->chips[peer]),
			guid_of(&m->chips[peer]), peer_port + 1);
	}
}

int machine_write_topology(const struct machine *m, FILE *file)
{
	for (uint32_t i = 0; i < m->chip_count; i++)
		write_chip(m, i, file);
	return ferror(file) ? -EIO : 0;
}

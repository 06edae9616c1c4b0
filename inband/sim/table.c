/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Route tables of an NRC: one for each input port, 608 entries of 24 bits. Ports whose tables have
 * the same history share one, for most tables of a chip are alike. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/sim/sim.h"

uint32_t table_get(const struct chip *chip, unsigned port, unsigned index)
{
	const struct table *table = chip->tables ? chip->tables[port] : NULL;

	if (!table)
		return 0;
	return table->entry[index][0] | table->entry[index][1] << 8 | table->entry[index][2] << 16;
}

static void put(struct sim *sim, struct table *table)
{
	if (table && !--table->refs) {
		free(table);
		sim->memory -= sizeof(*table);
	}
}

/* A table that the selected ports have alone: theirs if they share one with nobody else, or a copy.
 * */
static struct table *own(struct sim *sim, struct chip *chip, uint32_t ports, unsigned first)
{
	struct table *old = chip->tables[first], *table = old;
	unsigned sharing = 0;

	for (unsigned p = 0; p < chip->nports; p++)
		sharing += (ports >> p & 1) && chip->tables[p] == old;
	if (!old || sharing != old->refs) {
		table = malloc(sizeof(*table));
		if (!table)
			return NULL;
		sim->memory += sizeof(*table);
		if (old)
			*table = *old;
		else
			memset(table, 0, sizeof(*table));
		table->refs = 0;
		for (unsigned p = 0; p < chip->nports; p++) {
			if (!(ports >> p & 1) || chip->tables[p] != old)
				continue;
			put(sim, old);
			chip->tables[p] = table;
			table->refs++;
		}
	}
	return table;
}

int table_set(struct sim *sim, struct chip *chip, uint32_t ports, unsigned index, uint32_t mask)
{
	uint32_t left = ports;

	if (!chip->tables) {
		chip->tables = calloc(chip->nports, sizeof(*chip->tables));
		if (!chip->tables)
			return -ENOMEM;
		sim->memory += chip->nports * sizeof(*chip->tables);
	}
	while (left && !chip->stuck) {
		unsigned first = __builtin_ctz(left);
		struct table *table = own(sim, chip, left, first);

		if (!table)
			return -ENOMEM;
		for (unsigned i = 0; i < 3; i++)
			table->entry[index][i] = mask >> 8 * i;
		for (unsigned p = first; p < chip->nports; p++)
			if (chip->tables[p] == table)
				left &= ~(1u << p);
	}
	return 0;
}

void table_drop(struct sim *sim, struct chip *chip)
{
	if (!chip->tables)
		return;
	for (unsigned p = 0; p < chip->nports; p++)
		put(sim, chip->tables[p]);
	free(chip->tables);
	chip->tables = NULL;
	sim->memory -= chip->nports * sizeof(*chip->tables);
}

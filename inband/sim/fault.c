/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is wrong with the machine: faults drawn by the seed before it starts, and single ones later.
 * Each cable and each chip is broken in one way at most. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/sim/sim.h"

static const char *const kinds[BREAKS] = {
	[BREAK_SWAP] = "swap",	   [BREAK_CUT] = "cut",		  [BREAK_DARK] = "dark",
	[BREAK_NARROW] = "narrow", [BREAK_DEGRADED] = "degraded", [BREAK_DEAD] = "dead",
	[BREAK_EEPROM] = "eeprom", [BREAK_REBOOT] = "reboot",
};

struct breaker {
	struct sim *sim;
	uint32_t *ends; /* of optical links: one port of each; those that are whole come first */
	uint32_t whole;
	bool *hit; /* chips */
	struct broken *list;
	unsigned count;
};

static struct broken *note(struct breaker *b, enum fault_kind kind, uint32_t port)
{
	struct broken *list = realloc(b->list, (b->count + 1) * sizeof(*list));

	if (!list)
		return NULL;
	b->list = list;
	list += b->count++;
	*list = (struct broken){.kind = kind, .chip2 = MACHINE_NONE};
	list->chip = b->sim->machine->ports[port].chip;
	list->port = port - b->sim->machine->chips[list->chip].first_port;
	return list;
}

static uint32_t draw_link(struct breaker *b)
{
	uint32_t i = sim_random(b->sim, b->whole), end = b->ends[i];

	b->ends[i] = b->ends[--b->whole];
	return end;
}

static uint32_t draw_chip(struct breaker *b)
{
	uint32_t chip;

	/* Not the management NICs, and of switches for the most part: those are what is looked
	 * after. */
	do
		chip = sim_random(b->sim, b->sim->machine->nrcs);
	while (b->hit[chip]);
	b->hit[chip] = true;
	return chip;
}

static void set_light(struct sim *sim, struct port *port, bool light, bool both)
{
	struct port *peer = &sim->ports[port->peer];

	port->light = light;
	if (both)
		peer->light = light;
	link_update(sim, port);
}

/* The far ends of two cables change places. */
static void swap_cables(struct sim *sim, struct port *a, struct port *b)
{
	struct port *far_a = &sim->ports[a->peer], *far_b = &sim->ports[b->peer];
	struct port *all[] = {a, b, far_a, far_b};

	a->peer = sim_port_index(sim, far_b);
	far_b->peer = sim_port_index(sim, a);
	b->peer = sim_port_index(sim, far_a);
	far_a->peer = sim_port_index(sim, b);
	for (unsigned i = 0; i < 4; i++) {
		all[i]->state = LINK_DOWN;
		all[i]->handshakes = 0;
		link_handshaken(sim, sim_port_index(sim, all[i]), all[i]->life);
	}
}

static int break_link(struct breaker *b, enum fault_kind kind)
{
	struct sim *sim = b->sim;
	uint32_t end = draw_link(b), other;
	struct port *port = &sim->ports[end];
	struct broken *broken = note(b, kind, end);

	if (!broken)
		return -ENOMEM;
	switch (kind) {
	case BREAK_SWAP:
		other = draw_link(b);
		broken->chip2 = sim->machine->ports[other].chip;
		broken->port2 = other - sim->machine->chips[broken->chip2].first_port;
		swap_cables(sim, port, &sim->ports[other]);
		break;
	case BREAK_NARROW: port->lanes = sim->ports[port->peer].lanes = LINK_LANES / 2; break;
	case BREAK_DEGRADED: port->error_rate = 1000 + sim_random(sim, 100000); break;
	default: set_light(sim, port, false, kind == BREAK_CUT);
	}
	return 0;
}

static int break_chip(struct breaker *b, enum fault_kind kind)
{
	struct sim *sim = b->sim;
	uint32_t number = kind == BREAK_EEPROM
				  ? sim_random(sim, sim->machine->nrcs + sim->machine->nics)
				  : draw_chip(b);
	struct chip *chip = &sim->chips[number];
	struct broken *broken = note(b, kind, sim->machine->chips[number].first_port);
	uint32_t address;

	if (!broken)
		return -ENOMEM;
	switch (kind) {
	case BREAK_DEAD: chip_kill(sim, chip); return 0;
	case BREAK_REBOOT:
		sim_at(sim, 1 + sim_random(sim, 100000) * SIM_US, EVENT_RESET, number, 0);
		return 0;
	default:
		address = sim_random(sim, EEPROM_BYTES);
		broken->port = address;
		return eeprom_write(sim, chip, address,
				    eeprom_read(sim, chip, address) ^ 1u << sim_random(sim, 8));
	}
}

/* "1%", "0.5%" or a fraction, in millionths. */
static bool parse_rate(const char *text, unsigned *rate, const char **end)
{
	char *after;
	double value = strtod(text, &after);

	if (after == text || value < 0)
		return false;
	value *= *after == '%' ? 1e4 : 1e6;
	if (value > 1e6)
		return false;
	*rate = value + 0.5;
	*end = after + (*after == '%');
	return true;
}

static int parse_word(struct breaker *b, const char *word)
{
	struct sim_config *config = &b->sim->config;
	const char *value = strchr(word, '='), *end;
	size_t length = value ? (size_t)(value - word) : 0;
	unsigned long n;
	char *after;
	int ret = 0;

	if (!length)
		return -EINVAL;
	value++;
	if (length == 4 && !strncmp(word, "loss", 4))
		return parse_rate(value, &config->loss, &end) && !*end ? 0 : -EINVAL;
	if (length == 3 && !strncmp(word, "dup", 3))
		return parse_rate(value, &config->duplicates, &end) && !*end ? 0 : -EINVAL;
	if (length == 5 && !strncmp(word, "delay", 5)) {
		if (!parse_rate(value, &config->delayed, &end) || *end != ':')
			return -EINVAL;
		n = strtoul(end + 1, &after, 10);
		config->delay = n * SIM_US;
		return after != end + 1 && !*after && n <= 10000000 ? 0 : -EINVAL;
	}
	n = strtoul(value, &after, 10);
	if (after == value || *after)
		return -EINVAL;
	for (unsigned kind = 0; kind < BREAKS; kind++) {
		if (strlen(kinds[kind]) != length || strncmp(word, kinds[kind], length))
			continue;
		if (kind < BREAK_DEAD ? n * (kind == BREAK_SWAP ? 2 : 1) > b->whole
				      : kind != BREAK_EEPROM && n > b->sim->machine->nrcs / 2)
			return -ERANGE;
		for (; n && !ret; n--)
			ret = kind < BREAK_DEAD ? break_link(b, kind) : break_chip(b, kind);
		return ret;
	}
	return -EINVAL;
}

int fault_apply(struct sim *sim, const char *text, struct broken **broken, unsigned *count,
		char *error, size_t length)
{
	const struct machine *m = sim->machine;
	struct breaker b = {.sim = sim};
	char *copy = strdup(text), *rest = copy, *word;
	int ret = 0;

	b.ends = malloc((m->port_count + 1) * sizeof(*b.ends));
	b.hit = calloc(m->chip_count, sizeof(*b.hit));
	if (!b.ends || !b.hit || !copy)
		ret = -ENOMEM;
	for (uint32_t i = 0; !ret && i < m->port_count; i++)
		if (m->ports[i].optical && m->ports[i].peer != MACHINE_NONE && m->ports[i].peer > i)
			b.ends[b.whole++] = i;
	while (!ret && (word = strsep(&rest, ",")))
		if (*word && (ret = parse_word(&b, word)))
			snprintf(error, length,
				 ret == -ERANGE
					 ? "%s: more than this machine has"
					 : "%s: there are swap, cut, dark, narrow, degraded, dead, "
					   "eeprom and reboot=NUMBER, loss and dup=PERCENT%%, "
					   "delay=PERCENT%%:MICROSECONDS",
				 word);
	free(copy);
	free(b.ends);
	free(b.hit);
	if (ret) {
		free(b.list);
		return ret;
	}
	*broken = b.list;
	*count = b.count;
	return 0;
}

static int mend(struct sim *sim, struct chip *chip, struct port *port)
{
	if (!port) {
		chip->dead = chip->stuck = false;
		chip_reset(sim, chip);
		return 0;
	}
	port->lanes = LINK_LANES;
	port->error_rate = 0;
	sim->ports[port->peer].lanes = LINK_LANES;
	sim->ports[port->peer].error_rate = 0;
	set_light(sim, port, true, true);
	return 0;
}

/* All chips of a board: "S.root.3" is S.root.3.0 to S.root.3.5. */
static unsigned tell_board(struct sim *sim, const char *board, bool dead)
{
	unsigned chips = 0;

	for (uint32_t i = 0; i < sim->machine->nrcs; i++) {
		char made[MACHINE_NAME_LEN];
		const char *name = machine_chip_name(sim->machine, i, made);

		if (strncmp(name, board, strlen(board)) || name[strlen(board)] != '.')
			continue;
		chips++;
		if (dead)
			chip_kill(sim, &sim->chips[i]);
		else
			mend(sim, &sim->chips[i], NULL);
	}
	return chips;
}

int fault_tell(struct sim *sim, const char *text, char *error, size_t length)
{
	char verb[16], name[64];
	unsigned number = 0;
	struct port *port = NULL;
	struct chip *chip;
	uint32_t index;

	if (sscanf(text, "%15s %63s", verb, name) != 2)
		goto unknown;
	index = machine_find_name(sim->machine, name, &number);
	if (index != MACHINE_NONE)
		port = &sim->ports[machine_port_of(sim->machine, index, number)];
	else
		index = machine_find_name(sim->machine, name, NULL);
	if (index == MACHINE_NONE && (!strcmp(verb, "dead") || !strcmp(verb, "mend")) &&
	    tell_board(sim, name, verb[0] == 'd'))
		return 0;
	if (index == MACHINE_NONE || (port && port->peer == MACHINE_NONE)) {
		snprintf(error, length, "%s: no such chip, or no cable at that port", name);
		return -ENOENT;
	}
	chip = &sim->chips[index];
	if (port && !strcmp(verb, "cut"))
		set_light(sim, port, false, true);
	else if (port && !strcmp(verb, "dark"))
		set_light(sim, port, false, false);
	else if (port && !strcmp(verb, "degraded"))
		port->error_rate = 50000;
	else if (!port && !strcmp(verb, "dead"))
		chip_kill(sim, chip);
	else if (!port && !strcmp(verb, "reboot"))
		chip_reset(sim, chip);
	else if (!port && !strcmp(verb, "stuck"))
		chip->stuck = true;
	else if (!strcmp(verb, "mend"))
		return mend(sim, chip, port);
	else
		goto unknown;
	return 0;
unknown:
	snprintf(error, length,
		 "cut, dark, degraded and mend CHIP:PORT; dead and mend CHIP or BOARD; "
		 "reboot and stuck CHIP");
	return -EINVAL;
}

void fault_print(const struct sim *sim, const struct broken *broken, unsigned count, FILE *file)
{
	const struct machine *m = sim->machine;
	char name[MACHINE_NAME_LEN], name2[MACHINE_NAME_LEN];

	for (unsigned i = 0; i < count; i++) {
		const struct broken *b = &broken[i];
		const char *first = machine_chip_name(m, b->chip, name);

		fprintf(file, "%s %s", kinds[b->kind], first);
		if (b->kind < BREAK_DEAD || b->kind == BREAK_EEPROM)
			fprintf(file, ":%u", b->port);
		if (b->chip2 != MACHINE_NONE)
			fprintf(file, " %s:%u", machine_chip_name(m, b->chip2, name2), b->port2);
		fputc('\n', file);
	}
}

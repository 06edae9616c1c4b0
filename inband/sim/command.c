/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What thsim answers beside the network: statistics, the truth about its faults, faults made now,
 * and the out-of-band way to a register. One thread.
 */
#include <string.h>

#include "inband/sim/host.h"
#include "inband/sim/serve.h"

static void print_stats(struct sim *sim, FILE *file)
{
	const struct sim_counts *c = &sim->counts;
	uint32_t least = UINT32_MAX, most = 0;
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "re");

	if (statm) {
		if (fscanf(statm, "%*u %lu", &pages) != 1)
			pages = 0;
		fclose(statm);
	}
	for (uint32_t i = 0; i < sim->machine->nrcs; i++) {
		if (sim->per_chip[i] < least)
			least = sim->per_chip[i];
		if (sim->per_chip[i] > most)
			most = sim->per_chip[i];
	}
	fprintf(file,
		"{\"time_us\":%.3f,\"nrc_requests\":%lu,\"nic_requests\":%lu,"
		"\"nrc_requests_least\":%u,\"nrc_requests_most\":%u,\"submitted\":%lu,"
		"\"responses\":%lu,\"reports\":%lu,\"refused\":%lu,\"lost\":%lu,"
		"\"duplicated\":%lu,\"delayed\":%lu,\"unroutable\":%lu,\"mpq_full\":%lu,"
		"\"link_retries\":%lu,\"link_packets\":%lu,\"events\":%lu,\"memory_mb\":%.1f}\n",
		sim->now / 1e6, c->requests[NMP_NRC], c->requests[NMP_NIC], least, most, c->packets,
		c->responses, c->reports, c->refused, c->lost, c->duplicated, c->delayed,
		c->unroutable, c->mpq_full, c->retries, c->link_packets, c->events,
		pages * 4096 / 1e6);
}

/*
 * By I2C and the board's processor: some 4.8 ms of virtual time, which passes if no host works. It
 * asks no link, so it also reaches a chip without one.
 */
static void out_of_band(struct sim *sim, const char *name, unsigned address, FILE *file)
{
	uint32_t index = machine_find_name(sim->machine, name, NULL);
	uint64_t until = sim->now + sim->config.times.out_of_band, value;

	if (index == MACHINE_NONE || chip_read(sim, &sim->chips[index], address, &value)) {
		fprintf(file, "error: no such chip or register\n");
		return;
	}
	while (sim_step(sim, until))
		;
	sim->now = until;
	chip_read(sim, &sim->chips[index], address, &value);
	fprintf(file, "0x%016lx after %.2f us\n", value, sim->config.times.out_of_band / 1e6);
}

static void print_walk(struct sim *sim, uint32_t pairs, FILE *file)
{
	char from[MACHINE_NAME_LEN], to[MACHINE_NAME_LEN], at[MACHINE_NAME_LEN];
	struct walk walk;

	walk_random(sim, pairs, &walk);
	fprintf(file, "%u walks, %u arrived, %u lost, at most %u hops\n", walk.walks, walk.arrived,
		walk.lost, walk.most_hops);
	if (walk.lost)
		fprintf(file, "one from %s to %s was lost at %s\n",
			machine_chip_name(sim->machine, walk.from, from),
			machine_chip_name(sim->machine, walk.to, to),
			machine_chip_name(sim->machine, walk.at, at));
}

static void clear_counts(struct sim *sim)
{
	memset(&sim->counts, 0, sizeof(sim->counts));
	memset(sim->per_chip, 0, sim->machine->chip_count * sizeof(*sim->per_chip));
}

void command_answer(struct sim *sim, const struct broken *broken, unsigned count,
		    const char *command, char *text)
{
	FILE *file = fmemopen(text, GLEX_MESSAGE, "w");
	char error[256], name[64];
	unsigned address;

	text[0] = 0;
	if (!file)
		return;
	if (!strcmp(command, "stats"))
		print_stats(sim, file);
	else if (!strcmp(command, "clear"))
		clear_counts(sim), fputs("ok\n", file);
	else if (!strcmp(command, "truth"))
		fault_print(sim, broken, count, file);
	else if (sscanf(command, "walk %u", &address) == 1)
		print_walk(sim, address, file);
	else if (sscanf(command, "oob %63s %x", name, &address) == 2)
		out_of_band(sim, name, address, file);
	else if (fault_tell(sim, command, error, sizeof(error)))
		fprintf(file, "error: %s; or stats, clear, truth, walk PAIRS, oob CHIP REGISTER\n",
			error);
	else
		fputs("ok\n", file);
	fclose(file);
}

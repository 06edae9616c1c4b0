/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Virtual time: what each kind of event calls. Events of one time happen in the order they were
 * made, so a run depends on its seed alone. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/sim/sim.h"

void sim_times_default(struct sim_times *t)
{
	*t = (struct sim_times){
		.hop = 438100,	/* 0.8762 us there and back (4.3) */
		.flits = 7070,	/* 792 bits at 112 Gb/s */
		.reg = 5959700, /* 4.3 */
		.reg_second =
			770300, /* 7.40 of formula (1), which is for two, less 0.67 and 5.9597 */
		.eeprom = 157826000,	  /* 4.3 */
		.eeprom_read = 150000000, /* 4.2 */
		.eeprom_write = 3000000000,
		.eeprom_write_first = 3007826000,
		.handshake = 2000 * SIM_US,
		.load = 50000 * SIM_US,
		.send = 335000, /* 7.40 less 6.73 us, half of it each (4.5) */
		.receive = 335000,
		.out_of_band = 4816660000, /* 4.1 */
	};
}

uint32_t sim_random(struct sim *sim, uint32_t below)
{
	/* splitmix64 */
	uint64_t z = sim->random += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return (z >> 32) * below >> 32;
}

struct packet *sim_packet(struct sim *sim)
{
	struct packet *packet = sim->free_packets;

	if (packet) {
		sim->free_packets = packet->next;
		memset(packet, 0, sizeof(*packet));
		return packet;
	}
	packet = calloc(1, sizeof(*packet));
	if (!packet)
		abort(); /* a simulation without memory has no meaning */
	sim->memory += sizeof(*packet);
	return packet;
}

void sim_packet_free(struct sim *sim, struct packet *packet)
{
	packet->next = sim->free_packets;
	sim->free_packets = packet;
}

void sim_at(struct sim *sim, uint64_t at, enum event_kind kind, uint32_t what, uint32_t more)
{
	calendar_push(&sim->calendar, (struct event){.at = at,
						     .order = sim->order++ << 8 | kind,
						     .what = what,
						     .more = more});
}

void sim_at_packet(struct sim *sim, uint64_t at, enum event_kind kind, struct packet *packet)
{
	calendar_push(&sim->calendar, (struct event){.at = at,
						     .order = sim->order++ << 8 | kind,
						     .packet = packet});
}

bool sim_step(struct sim *sim, uint64_t limit)
{
	const struct event *next = calendar_peek(&sim->calendar);
	struct event event;

	if (!next || next->at >= limit)
		return false;
	event = calendar_pop(&sim->calendar);
	sim->now = event.at;
	sim->counts.events++;
	switch ((enum event_kind)(event.order & 0xff)) {
	case EVENT_ARRIVE: link_arrive(sim, event.packet); break;
	case EVENT_UNIT: nma_unit_done(sim, event.what); break;
	case EVENT_LINK_UP: link_handshaken(sim, event.what, event.more); break;
	case EVENT_READY: chip_ready(sim, event.what); break;
	case EVENT_BIST: chip_bist_end(sim, event.what, event.more); break;
	case EVENT_RESET: chip_reset(sim, &sim->chips[event.what]); break;
	case EVENT_SUBMIT: host_submit(sim, event.packet); break;
	case EVENT_DELIVER: nma_accept(sim, &sim->chips[event.packet->port], event.packet); break;
	}
	return true;
}

/* Everything is powered, loaded and linked when the machine begins: time 0 is after that. */
static int power_up(struct sim *sim)
{
	const struct machine *m = sim->machine;

	for (uint32_t i = 0; i < m->port_count; i++) {
		struct port *port = &sim->ports[i];

		port->input.chip = m->ports[i].chip;
		port->input.port_input = true;
		port->peer = m->ports[i].peer;
		port->lanes = LINK_LANES;
		port->light = true;
		port->enabled = true;
		port->credits = sim->config.credits;
	}
	for (uint32_t i = 0; i < m->chip_count; i++) {
		struct chip *chip = &sim->chips[i];

		chip->ports = &sim->ports[m->chips[i].first_port];
		chip->type = m->chips[i].type;
		chip->nports = m->chips[i].ports;
		chip->id = m->chips[i].id;
		chip->output.chip = chip->outgoing.chip = i;
		chip->reports_end = &chip->reports;
		chip->temperature = 45000 + (int)sim_random(sim, 15000);
		chip->status = STATUS_READY;
		chip->frame = machine_frame(m, i);
		chip->table_select = (1u << MACHINE_NRC_PORTS) - 1;
	}
	for (uint32_t i = 0; i < m->port_count; i++)
		if (sim->ports[i].peer != MACHINE_NONE)
			link_handshaken(sim, i, 0);
	return 0;
}

int sim_create(const struct machine *machine, const struct sim_config *config, struct sim **made)
{
	struct sim *sim = calloc(1, sizeof(*sim));

	if (!sim)
		return -ENOMEM;
	sim->machine = machine;
	sim->config = *config;
	sim->random = config->seed;
	sim->chips = calloc(machine->chip_count, sizeof(*sim->chips));
	sim->ports = aligned_alloc(64, (machine->port_count + 1) * sizeof(*sim->ports));
	if (sim->ports)
		memset(sim->ports, 0, (machine->port_count + 1) * sizeof(*sim->ports));
	sim->per_chip = calloc(machine->chip_count, sizeof(*sim->per_chip));
	if (!sim->chips || !sim->ports || !sim->per_chip) {
		sim_destroy(sim);
		return -ENOMEM;
	}
	sim->memory += machine->chip_count * (sizeof(*sim->chips) + sizeof(*sim->per_chip)) +
		       machine->port_count * sizeof(*sim->ports);
	power_up(sim);
	*made = sim;
	return 0;
}

static void free_packets(struct packet *packet)
{
	while (packet) {
		struct packet *next = packet->next;

		free(packet);
		packet = next;
	}
}

void sim_destroy(struct sim *sim)
{
	if (!sim)
		return;
	while (calendar_peek(&sim->calendar)) {
		struct event event = calendar_pop(&sim->calendar);
		unsigned kind = event.order & 0xff;

		if (kind == EVENT_ARRIVE || kind == EVENT_SUBMIT || kind == EVENT_DELIVER)
			free(event.packet);
	}
	for (uint32_t i = 0; sim->chips && i < sim->machine->chip_count; i++) {
		struct chip *chip = &sim->chips[i];

		free_packets(chip->output.head);
		free_packets(chip->outgoing.head);
		for (unsigned u = 0; u < UNITS; u++) {
			free_packets(chip->units[u].head);
			free_packets(chip->units[u].done);
		}
		while (chip->reports) {
			struct report *next = chip->reports->next;

			free(chip->reports);
			chip->reports = next;
		}
		table_drop(sim, chip);
		eeprom_free(chip);
	}
	for (uint32_t i = 0; sim->ports && i < sim->machine->port_count; i++)
		free_packets(sim->ports[i].input.head);
	free_packets(sim->free_packets);
	calendar_free(&sim->calendar);
	free(sim->chips);
	free(sim->ports);
	free(sim->per_chip);
	free(sim);
}

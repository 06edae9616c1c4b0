/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A chip's registers, its reset, and its links' self-test. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "inband/sim/sim.h"

static unsigned read_port(struct sim *sim, const struct port *port, unsigned n, uint64_t *value)
{
	switch ((enum port_register)n) {
	case PORT_LINK:
		*value = (port->bist == BIST_RUNNING ? LINK_TESTING : port->state) |
			 (port->state == LINK_UP ? port->lanes : 0) << 8 |
			 (uint64_t)port->light << 16;
		break;
	case PORT_HANDSHAKES: *value = port->handshakes; break;
	case PORT_RETRIES: *value = port->retries; break;
	case PORT_ERRORS: *value = port->errors; break;
	case PORT_SENT: *value = port->sent; break;
	case PORT_RECEIVED: *value = port->received; break;
	case PORT_SENT_FLITS: *value = port->sent * NMP_FLITS; break;
	case PORT_RECEIVED_FLITS: *value = port->received * NMP_FLITS; break;
	case PORT_WAITS: *value = port->waits; break;
	case PORT_DROPPED: *value = port->dropped; break;
	case PORT_BIST_CONTROL: *value = port->bist == BIST_RUNNING; break;
	case PORT_BIST_TIME: *value = port->bist_time / SIM_US; break;
	case PORT_BIST_INTENSITY: *value = port->bist_intensity; break;
	case PORT_BIST_RESULT: *value = port->bist | (uint64_t)port->bist_errors << 8; break;
	case PORT_BIST_BITS: *value = port->bist_bits; break;
	case PORT_CONTROL: *value = port->enabled ? PORT_CONTROL_ENABLE : 0; break;
	default: return NMP_ERROR_ADDRESS;
	}
	return 0;
}

static uint64_t read_id(const struct chip *chip)
{
	return chip->id | (uint64_t)chip->type << 20 | (uint64_t)chip->nports << 24 | 1ull << 32;
}

/* A tag as it is now: without light nobody is known there. */
static uint32_t tag_of(const struct chip *chip, unsigned port)
{
	const struct port *p = &chip->ports[port];

	if (port >= chip->nports || p->peer == MACHINE_NONE || !p->light)
		return 0;
	return p->state == LINK_UP ? p->tag | TAG_LIGHT : TAG_LIGHT;
}

static uint64_t read_table(struct chip *chip)
{
	unsigned port = chip->table_select ? (unsigned)__builtin_ctz(chip->table_select) : 0;
	uint64_t value = table_get(chip, port, chip->table_index);

	if (chip->table_index + 1 < TABLE_ENTRIES)
		value |= (uint64_t)table_get(chip, port, chip->table_index + 1) << 32;
	chip->table_index = (chip->table_index + 2) % TABLE_ENTRIES;
	return value;
}

unsigned chip_read(struct sim *sim, struct chip *chip, uint32_t address, uint64_t *value)
{
	*value = 0;
	if (address >= (chip->type == NMP_NRC ? NRC_REGISTERS : NIC_REGISTERS))
		return NMP_ERROR_ADDRESS;
	if (address >= REG_PORT(0, 0)) {
		unsigned port = (address - REG_PORT(0, 0)) / 16;

		if (port >= chip->nports)
			return NMP_ERROR_ADDRESS;
		return read_port(sim, &chip->ports[port], address % 16, value);
	}
	if (address >= REG_TAGS) {
		unsigned port = 2 * (address - REG_TAGS);

		if (port >= MACHINE_NRC_PORTS)
			return NMP_ERROR_ADDRESS;
		*value = tag_of(chip, port) | (uint64_t)tag_of(chip, port + 1) << 32;
		return 0;
	}
	if (address >= REG_TABLE_INDEX && chip->type != NMP_NRC)
		return NMP_ERROR_ADDRESS;
	switch (address) {
	case REG_ID: *value = read_id(chip); break;
	case REG_STATUS: *value = chip->status; break;
	case REG_TEMPERATURE: *value = chip->temperature; break;
	case REG_UPTIME: *value = (sim->now - chip->born) / SIM_US; break;
	case REG_SCRATCH0: *value = chip->scratch[0]; break;
	case REG_SCRATCH1: *value = chip->scratch[1]; break;
	case REG_FRAME: *value = chip->frame | (uint64_t)sim->machine->frame_nodes << 16; break;
	case REG_FAULT_ENABLE: *value = chip->fault_enable; break;
	case REG_FAULT_MASK: *value = chip->fault_mask; break;
	case REG_FAULT_STATUS: *value = chip->fault_status; break;
	case REG_REPORT_TO: *value = chip->report_to; break;
	case REG_REPORT_ROUTE0: *value = chip->report_route[0]; break;
	case REG_REPORT_ROUTE1: *value = chip->report_route[1]; break;
	case REG_NMA_REQUESTS: *value = chip->requests; break;
	case REG_NMA_ERRORS: *value = chip->errors; break;
	case REG_NMA_DROPPED: *value = chip->dropped; break;
	case REG_NMA_REPORTS: *value = chip->report_count; break;
	case REG_TABLE_INDEX:
		*value = chip->table_index | (uint64_t)chip->table_select << 32;
		break;
	case REG_TABLE_DATA: *value = read_table(chip); break;
	default: return NMP_ERROR_ADDRESS;
	}
	return 0;
}

static void clear_counters(struct port *port)
{
	port->handshakes = port->retries = port->errors = port->waits = port->dropped = 0;
	port->sent = port->received = 0;
}

static void bist_start(struct sim *sim, struct port *port)
{
	port->bist_errors = 0;
	port->bist_bits = 0;
	if (port->state != LINK_UP || sim->ports[port->peer].bist == BIST_RUNNING) {
		port->bist = BIST_NO_LINK;
		return;
	}
	port->bist = BIST_RUNNING;
	port->bist_until = sim->now + port->bist_time;
	sim_at(sim, port->bist_until, EVENT_BIST, sim_port_index(sim, port), port->life);
}

/* The errors that a link of this quality shows in that many bits: one per packet it would damage.
 * */
static void bist_finish(struct sim *sim, struct port *port, uint64_t time, enum bist_state state)
{
	double bits =
		(double)time / 1e12 * 112e9 * port->lanes / LINK_LANES * port->bist_intensity / 100;
	double wrong = bits / NMP_PACKET_BITS * port->error_rate / 1e6;

	port->bist = state;
	port->bist_bits = bits;
	port->bist_errors = wrong > UINT32_MAX ? UINT32_MAX : (uint32_t)wrong;
}

void chip_bist_end(struct sim *sim, uint32_t index, uint32_t life)
{
	struct port *port = &sim->ports[index];

	if (port->bist == BIST_RUNNING && port->life == life && sim->now >= port->bist_until)
		bist_finish(sim, port, port->bist_time, BIST_DONE);
}

static unsigned write_port(struct sim *sim, struct port *port, unsigned n, uint64_t value)
{
	switch ((enum port_register)n) {
	case PORT_BIST_CONTROL:
		if (value > 1)
			return NMP_ERROR_VALUE;
		if (value && port->bist != BIST_RUNNING)
			bist_start(sim, port);
		else if (!value && port->bist == BIST_RUNNING)
			bist_finish(sim, port, sim->now - (port->bist_until - port->bist_time),
				    BIST_STOPPED);
		return 0;
	case PORT_BIST_TIME:
		if (value > 3600ull * 1000000)
			return NMP_ERROR_VALUE;
		port->bist_time = value * SIM_US;
		return 0;
	case PORT_BIST_INTENSITY:
		if (!value || value > 100)
			return NMP_ERROR_VALUE;
		port->bist_intensity = value;
		return 0;
	case PORT_CONTROL:
		if (value & ~(uint64_t)(PORT_CONTROL_ENABLE | PORT_CONTROL_CLEAR))
			return NMP_ERROR_VALUE;
		if (value & PORT_CONTROL_CLEAR)
			clear_counters(port);
		port->enabled = value & PORT_CONTROL_ENABLE;
		link_update(sim, port);
		return 0;
	default: return n < 16 ? NMP_ERROR_READ_ONLY : NMP_ERROR_ADDRESS;
	}
}

static unsigned write_table(struct sim *sim, struct chip *chip, uint64_t value)
{
	unsigned index = chip->table_index;

	for (unsigned i = 0; i < 2 && index + i < TABLE_ENTRIES; i++)
		if (table_set(sim, chip, chip->table_select, index + i, value >> 32 * i & 0xffffff))
			return NMP_ERROR_VALUE;
	chip->table_index = (index + 2) % TABLE_ENTRIES;
	return 0;
}

unsigned chip_write(struct sim *sim, struct chip *chip, uint32_t address, uint64_t value)
{
	uint64_t before;

	if (address >= (chip->type == NMP_NRC ? NRC_REGISTERS : NIC_REGISTERS))
		return NMP_ERROR_ADDRESS;
	if (address >= REG_PORT(0, 0)) {
		unsigned port = (address - REG_PORT(0, 0)) / 16;

		if (port >= chip->nports)
			return NMP_ERROR_ADDRESS;
		return write_port(sim, &chip->ports[port], address % 16, value);
	}
	if (address >= REG_TABLE_INDEX && chip->type != NMP_NRC)
		return NMP_ERROR_ADDRESS;
	switch (address) {
	case REG_SCRATCH0: chip->scratch[0] = value; return 0;
	case REG_SCRATCH1: chip->scratch[1] = value; return 0;
	case REG_FAULT_ENABLE:
		if (value & ~(uint64_t)FAULT_ALL)
			return NMP_ERROR_VALUE;
		chip->fault_enable = value;
		return 0;
	case REG_FAULT_MASK: chip->fault_mask = value & FAULT_ALL; return 0;
	case REG_FAULT_STATUS: chip->fault_status &= ~value; return 0;
	case REG_REPORT_TO: chip->report_to = value & (REPORT_ON | 0x3ffffff); return 0;
	case REG_REPORT_ROUTE0: chip->report_route[0] = value; return 0;
	case REG_REPORT_ROUTE1: chip->report_route[1] = value; return 0;
	case REG_TABLE_INDEX:
		if (value >> 32 >> chip->nports || (uint32_t)value >= TABLE_ENTRIES)
			return NMP_ERROR_VALUE;
		chip->table_select = value >> 32;
		chip->table_index = value;
		return 0;
	case REG_TABLE_DATA: return write_table(sim, chip, value);
	default:
		return chip_read(sim, chip, address, &before) ? NMP_ERROR_ADDRESS
							      : NMP_ERROR_READ_ONLY;
	}
}

static void lose_requests(struct sim *sim, struct chip *chip)
{
	for (unsigned i = 0; i < UNITS; i++) {
		struct unit *unit = &chip->units[i];

		while (unit->head) {
			struct packet *next = unit->head->next;

			sim_packet_free(sim, unit->head);
			unit->head = next;
		}
		if (unit->done)
			sim_packet_free(sim, unit->done);
		memset(unit, 0, sizeof(*unit));
	}
	while (chip->output.head) {
		struct packet *next = chip->output.head->next;

		sim_packet_free(sim, chip->output.head);
		chip->output.head = next;
	}
	chip->output.count = 0;
	while (chip->reports) {
		struct report *next = chip->reports->next;

		free(chip->reports);
		chip->reports = next;
	}
	chip->reports_end = &chip->reports;
}

static void lose_state(struct sim *sim, struct chip *chip)
{
	chip->status = 0;
	for (unsigned i = 0; i < chip->nports; i++) {
		chip->ports[i].bist = BIST_IDLE;
		link_update(sim, &chip->ports[i]);
		clear_counters(&chip->ports[i]);
		chip->ports[i].enabled = true;
	}
	lose_requests(sim, chip);
	table_drop(sim, chip);
	memset(chip->scratch, 0, sizeof(chip->scratch));
	chip->report_to = 0;
	memset(chip->report_route, 0, sizeof(chip->report_route));
	chip->fault_enable = chip->fault_mask = chip->fault_status = 0;
	chip->requests = chip->errors = chip->dropped = chip->report_count = 0;
	chip->table_select = (1u << MACHINE_NRC_PORTS) - 1;
	chip->table_index = 0;
	chip->id = NMP_NO_ID;
	chip->frame = FRAME_NONE;
}

void chip_reset(struct sim *sim, struct chip *chip)
{
	if (chip->dead)
		return;
	lose_state(sim, chip);
	chip->born = sim->now;
	sim_at(sim, sim->now + sim->config.times.load, EVENT_READY, chip - sim->chips, 0);
}

/* A table of 608 entries for each port, behind its mark. */
static void load_tables(struct sim *sim, struct chip *chip)
{
	static const char mark[4] = "RT01";

	for (unsigned i = 0; i < 4; i++)
		if (eeprom_read(sim, chip, EEPROM_TABLE_MARK + i) != (uint8_t)mark[i])
			return;
	for (unsigned port = 0; port < chip->nports; port++) {
		unsigned at = EEPROM_TABLES + port * EEPROM_TABLE_BYTES;

		for (unsigned i = 0; i < TABLE_ENTRIES; i++, at += 3)
			table_set(sim, chip, 1u << port, i,
				  eeprom_read(sim, chip, at) | eeprom_read(sim, chip, at + 1) << 8 |
					  eeprom_read(sim, chip, at + 2) << 16);
	}
	chip->status |= STATUS_TABLES;
}

void chip_ready(struct sim *sim, uint32_t index)
{
	struct chip *chip = &sim->chips[index];
	uint8_t header[EEPROM_HEADER];

	if (chip->dead || (chip->status & STATUS_READY))
		return;
	chip->status = STATUS_READY;
	if (eeprom_load(sim, chip, &chip->id)) {
		for (unsigned i = 0; i < sizeof(header); i++)
			header[i] = eeprom_read(sim, chip, i);
		chip->fault_enable =
			(header[EEPROM_FAULT_ENABLE] | header[EEPROM_FAULT_ENABLE + 1] << 8) &
			FAULT_ALL;
		chip->frame = header[EEPROM_FRAME] | header[EEPROM_FRAME + 1] << 8;
		if (chip->type == NMP_NRC)
			load_tables(sim, chip);
	} else {
		chip->id = NMP_NO_ID;
		chip->status |= STATUS_BAD_EEPROM;
	}
	for (unsigned i = 0; i < chip->nports; i++)
		link_update(sim, &chip->ports[i]);
}

void chip_kill(struct sim *sim, struct chip *chip)
{
	chip->dead = true;
	lose_state(sim, chip);
}

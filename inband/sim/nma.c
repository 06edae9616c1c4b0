/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The network management agent of a chip (paper, 3.4.3 and 3.5). Its five units:
 *
 *	distributor ──► register access ──┐
 *		    ──► EEPROM access  ──►├ collector ──► output FIFO ──► packer, to a port
 *			active report  ──►┘
 *
 * A unit serves one request at a time and holds its answer until the output FIFO has room. The
 * collector prefers register answers to EEPROM answers, and both to reports. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "inband/sim/sim.h"

static uint32_t index_of(const struct sim *sim, const struct chip *chip)
{
	return chip - sim->chips;
}

static uint64_t service_time(const struct sim *sim, const struct nmp *nmp)
{
	const struct sim_times *t = &sim->config.times;
	unsigned more = nmp->count ? nmp->count - 1 : 0;

	switch (nmp->type) {
	case NMP_REGISTER_READ: return t->reg + (more ? t->reg_second : 0);
	case NMP_EEPROM_READ: return t->eeprom + more * t->eeprom_read;
	case NMP_EEPROM_WRITE: return t->eeprom_write_first + more * t->eeprom_write;
	default: return t->reg; /* a write of two takes as long as of one (4.1) */
	}
}

static void serve(struct sim *sim, struct chip *chip, struct unit *unit)
{
	unit->busy = true;
	sim_at(sim, sim->now + service_time(sim, &unit->head->nmp), EVENT_UNIT,
	       index_of(sim, chip) * UNITS + (unit - chip->units), 0);
}

/* The answer leaves by the way back that the request brought, and shows the way it came by. */
static void turn_round(const struct chip *chip, struct packet *packet)
{
	struct nmp *nmp = &packet->nmp;
	struct nmp_route forward = nmp->forward;

	nmp->forward = nmp->back;
	nmp->back = forward;
	nmp->src_id = chip->id;
	nmp->src_type = chip->type;
	packet->hop = 0;
	packet->judged = false;
}

static unsigned access_registers(struct sim *sim, struct chip *chip, struct nmp *nmp, bool write)
{
	if (!nmp->count || nmp->count > NMP_MAX_REGISTERS)
		return NMP_ERROR_COUNT;
	for (unsigned i = 0; i < nmp->count; i++) {
		unsigned error =
			write ? chip_write(sim, chip, nmp->access[i].address, nmp->access[i].value)
			      : chip_read(sim, chip, nmp->access[i].address, &nmp->access[i].value);

		if (error) {
			nmp->access[0].address = nmp->access[i].address;
			return error;
		}
	}
	return 0;
}

static unsigned access_eeprom(struct sim *sim, struct chip *chip, struct nmp *nmp, bool write)
{
	if (!nmp->count || nmp->count > NMP_MAX_BYTES)
		return NMP_ERROR_COUNT;
	for (unsigned i = 0; i < nmp->count; i++) {
		uint32_t address = nmp->access[i].address;

		if (!write)
			nmp->access[i].value = eeprom_read(sim, chip, address);
		else if (eeprom_write(sim, chip, address, nmp->access[i].value))
			return NMP_ERROR_I2C;
	}
	return 0;
}

static void answer(struct sim *sim, struct chip *chip, struct packet *packet)
{
	struct nmp *nmp = &packet->nmp;
	bool eeprom = nmp_is_eeprom(nmp->type);
	bool write = nmp->type == NMP_REGISTER_WRITE || nmp->type == NMP_EEPROM_WRITE;
	unsigned error = eeprom ? access_eeprom(sim, chip, nmp, write)
				: access_registers(sim, chip, nmp, write);

	if (error) {
		nmp->error = error;
		nmp->type = eeprom ? NMP_EEPROM_ERROR : NMP_REGISTER_ERROR;
		chip->errors++;
	} else {
		nmp->type = nmp_response(nmp->type);
	}
	turn_round(chip, packet);
	sim->counts.responses++;
}

static struct packet *make_report(struct sim *sim, struct chip *chip)
{
	struct report *report = chip->reports;
	struct packet *packet = sim_packet(sim);
	struct nmp *nmp = &packet->nmp;

	nmp->type = NMP_REPORT;
	nmp->kind = nmp->sm = 1;
	nmp->rt_type = NMP_BY_SOURCE;
	nmp->dest_type = NMP_NIC;
	nmp->dest_id = chip->report_to & NMP_NO_ID;
	nmp->dest_vp = chip->report_to >> 20 & 0x3f;
	nmp->src_id = chip->id;
	nmp->src_type = chip->type;
	nmp->fault = report->fault;
	nmp->port = report->port;
	nmp->value = report->value;
	nmp->sequence = ++chip->report_count;
	nmp->forward.hops = chip->report_route[0] & 31;
	for (unsigned i = 0; i < NMP_MAX_HOPS; i++)
		nmp->forward.port[i] = (i < 11 ? chip->report_route[0] >> (5 + 5 * i)
					       : chip->report_route[1] >> 5 * (i - 11)) &
				       31;
	if (nmp->forward.hops > NMP_MAX_HOPS)
		nmp->forward.hops = NMP_MAX_HOPS;
	chip->reports = report->next;
	if (!chip->reports)
		chip->reports_end = &chip->reports;
	free(report);
	sim->counts.reports++;
	return packet;
}

/* The next by priority, or NULL. */
static struct packet *pick(struct sim *sim, struct chip *chip)
{
	for (unsigned i = 0; i < UNITS; i++) {
		struct unit *unit = &chip->units[i];
		struct packet *packet = unit->done;

		if (!packet)
			continue;
		unit->done = NULL;
		if (unit->head && !unit->busy)
			serve(sim, chip, unit);
		return packet;
	}
	return chip->reports ? make_report(sim, chip) : NULL;
}

void nma_collect(struct sim *sim, struct chip *chip)
{
	while (chip->output.count < sim->config.nma_output) {
		struct packet *packet = pick(sim, chip);

		if (!packet)
			return;
		if (packet->local) {
			host_deliver(sim, chip, packet);
			continue;
		}
		fifo_push(&chip->output, packet);
		if (chip->output.count == 1)
			fifo_advance(sim, &chip->output);
	}
}

void nma_unit_done(struct sim *sim, uint32_t what)
{
	struct chip *chip = &sim->chips[what / UNITS];
	struct unit *unit = &chip->units[what % UNITS];
	struct packet *packet = unit->head;

	if (!unit->busy)
		return; /* the chip has been reset */
	unit->busy = false;
	unit->head = packet->next;
	unit->count--;
	answer(sim, chip, packet);
	unit->done = packet;
	/* The unit goes on when its answer has left it. */
	nma_collect(sim, chip);
	waiters_kick(sim, &chip->waiters);
}

/* True: it is not to be delivered now; gone, or to come later. */
static bool judge(struct sim *sim, struct chip *chip, struct packet *packet)
{
	const struct sim_config *c = &sim->config;

	if (packet->judged || !(c->loss | c->duplicates | c->delayed))
		return false;
	packet->judged = true;
	if (sim_random(sim, 1000000) < c->loss) {
		sim->counts.lost++;
		sim_packet_free(sim, packet);
		return true;
	}
	if (sim_random(sim, 1000000) < c->duplicates) {
		struct packet *copy = sim_packet(sim);

		*copy = *packet;
		copy->port = index_of(sim, chip);
		sim_at_packet(sim, sim->now + SIM_US, EVENT_DELIVER, copy);
		sim->counts.duplicated++;
	}
	if (sim_random(sim, 1000000) < c->delayed) {
		packet->port = index_of(sim, chip);
		sim_at_packet(sim, sim->now + c->delay / 65536 * sim_random(sim, 65536),
			      EVENT_DELIVER, packet);
		sim->counts.delayed++;
		return true;
	}
	return false;
}

bool nma_accept(struct sim *sim, struct chip *chip, struct packet *packet)
{
	const struct nmp *nmp = &packet->nmp;
	struct unit *unit;

	if (!nmp_is_request(nmp->type) && chip->hosts) {
		if (!judge(sim, chip, packet))
			host_deliver(sim, chip, packet);
		return true;
	}
	if (nmp->dest_id != chip->id || nmp->dest_type != chip->type || chip->dead ||
	    !(chip->status & STATUS_READY) || !nmp_is_request(nmp->type)) {
		chip->dropped++;
		sim->counts.refused++;
		sim_packet_free(sim, packet);
		return true;
	}
	unit = &chip->units[nmp_is_eeprom(nmp->type) ? UNIT_EEPROM : UNIT_REGISTER];
	if (unit->count >= sim->config.nma_fifo) {
		/* A copy or a latecomer has no FIFO to wait in. */
		if (packet->judged) {
			sim_packet_free(sim, packet);
			return true;
		}
		return false;
	}
	if (judge(sim, chip, packet))
		return true;
	packet->next = NULL;
	if (unit->head)
		unit->tail->next = packet;
	else
		unit->head = packet;
	unit->tail = packet;
	unit->count++;
	chip->requests++;
	sim->per_chip[index_of(sim, chip)]++;
	sim->counts.requests[chip->type]++;
	if (!unit->busy && !unit->done)
		serve(sim, chip, unit);
	return true;
}

void nma_fault(struct sim *sim, struct chip *chip, enum fault fault, unsigned port, uint64_t value)
{
	struct report *report;

	if (chip->dead)
		return;
	chip->fault_status |= 1u << fault;
	if (!(chip->fault_enable & ~chip->fault_mask & 1u << fault) ||
	    !(chip->report_to & REPORT_ON))
		return;
	report = calloc(1, sizeof(*report));
	if (!report)
		abort();
	report->fault = fault;
	report->port = port;
	report->value = value;
	*chip->reports_end = report;
	chip->reports_end = &report->next;
	nma_collect(sim, chip);
}

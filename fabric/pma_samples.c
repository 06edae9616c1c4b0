// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Sampling by performance management agents (16.1.3.2 to 16.1.3.4): what a port counts during
 * SampleInterval ticks, after SampleStart ticks. Each node has one mechanism for all of its ports,
 * with fifteen counters of 32 bits that count the mandatory quantities. A Set while it samples
 * changes nothing.
 *
 * A tick is Tick + 1 times what a byte takes on one lane, which is 4 ns at 2.5 Gb/s. Ours are the
 * longest that there are, 82 ns to 1 us, and times are rounded up to the milliseconds of fabricd's
 * timers. fabricd's thread.
 */
#include <stdlib.h>

#include "fabric/fabric.h"
#include "fabric/ledger.h"

#define TICK	    255
#define COUNTERS    15
#define QUANTITIES  5
#define WIDTH_32    4
#define EXTENDED_64 0x80000000u

enum { PORT_SELECT = 65 };
enum {
	CONTROL_TICK = 66,
	CONTROL_WIDTH = 67,
	CONTROL_MASKS_0_9 = 68,
	CONTROL_MASKS_10_14 = 72,
	CONTROL_STATUS = 75,
	CONTROL_START = 92,
	CONTROL_INTERVAL = 96,
	CONTROL_TAG = 100,
	CONTROL_SELECT = 102,
};
enum {
	RESULT_TAG = 64,
	RESULT_STATUS = 66,
	RESULT_COUNTERS = 68,
	RESULT_EXTENDED_WIDTH = 68,
	RESULT_EXTENDED_COUNTERS = 72,
};

enum { DONE, STARTED, RUNNING };

struct sampler {
	struct timer timer;
	struct fabric_port *port;
	uint8_t status;
	uint16_t tag;
	uint32_t start, interval; /* ticks */
	uint16_t select[COUNTERS];
	uint64_t sampled[QUANTITIES]; /* at its begin; when it is done, meanwhile */
};

/* Picoseconds. */
static unsigned symbol_time(const struct fabric_port *port)
{
	static const uint16_t times[FABRIC_NUM_SPEEDS] = {
		[FABRIC_SPEED_SDR] = 4000,  [FABRIC_SPEED_DDR] = 2000, [FABRIC_SPEED_QDR] = 1000,
		[FABRIC_SPEED_FDR10] = 800, [FABRIC_SPEED_FDR] = 587,  [FABRIC_SPEED_EDR] = 320,
		[FABRIC_SPEED_HDR] = 160,   [FABRIC_SPEED_NDR] = 80,
	};

	return times[fabric_port_speed(port)];
}

/* A clock of milliseconds may be one behind. */
static uint64_t after(const struct fabric *f, const struct sampler *s, uint32_t ticks)
{
	uint64_t ns = (uint64_t)ticks * (TICK + 1) * symbol_time(s->port) / 1000;

	return (f->clock ? f->clock() : f->mads.now) + (ns + 999999) / 1000000 + 1;
}

/* In the order of their numbers in CounterSelect, from 1. */
static void quantities(struct fabric *f, const struct sampler *s, uint64_t values[QUANTITIES])
{
	const struct counters *c = count_of(f, s->port);

	ledgers_collect(f);
	values[0] = c->xmit_data;
	values[1] = c->rcv_data;
	values[2] = c->xmit_pkts;
	values[3] = c->rcv_pkts;
	values[4] = c->xmit_wait;
}

static void finish(struct timer *timer, void *arg)
{
	struct sampler *s = (struct sampler *)((char *)timer - offsetof(struct sampler, timer));
	uint64_t values[QUANTITIES];

	quantities(arg, s, values);
	for (unsigned i = 0; i < QUANTITIES; i++) /* fewer: a Set of the counter took them off */
		s->sampled[i] = values[i] < s->sampled[i] ? values[i] : values[i] - s->sampled[i];
	s->status = DONE;
}

static void begin(struct timer *timer, void *arg)
{
	struct sampler *s = (struct sampler *)((char *)timer - offsetof(struct sampler, timer));
	struct fabric *f = arg;

	quantities(f, s, s->sampled);
	s->status = RUNNING;
	timer_start(&f->mads.timers, timer, after(f, s, s->interval), finish);
}

static struct sampler *sampler_of(struct fabric *f, const struct fabric_port *port)
{
	struct node_private *n = &f->nodes[port->node];

	if (!n->sampler)
		n->sampler = calloc(1, sizeof(*n->sampler));
	return n->sampler;
}

static void sample(struct fabric *f, struct sampler *s, struct fabric_port *port,
		   const uint8_t *mad)
{
	s->port = port;
	s->start = get32(mad + CONTROL_START);
	s->interval = get32(mad + CONTROL_INTERVAL);
	s->tag = get16(mad + CONTROL_TAG);
	for (unsigned i = 0; i < COUNTERS; i++)
		s->select[i] = get16(mad + CONTROL_SELECT + 2 * i);
	memset(s->sampled, 0, sizeof(s->sampled));
	if (!s->interval)
		return;
	s->status = STARTED;
	if (s->start)
		timer_start(&f->mads.timers, &s->timer, after(f, s, s->start), begin);
	else
		begin(&s->timer, f);
}

static void put_control(uint8_t *mad, const struct sampler *s)
{
	memset(mad + CONTROL_TICK, 0, MAD_LEN - CONTROL_TICK);
	mad[CONTROL_TICK] = TICK;
	mad[CONTROL_WIDTH] = WIDTH_32;
	/* Fields of three bits: 1 is a counter of mandatory quantities. */
	put32(mad + CONTROL_MASKS_0_9, 01111111111);
	put16(mad + CONTROL_MASKS_10_14, 011111);
	mad[CONTROL_STATUS] = s->status;
	put32(mad + CONTROL_START, s->start);
	put32(mad + CONTROL_INTERVAL, s->interval);
	put16(mad + CONTROL_TAG, s->tag);
	for (unsigned i = 0; i < COUNTERS; i++)
		put16(mad + CONTROL_SELECT + 2 * i, s->select[i]);
}

uint16_t pma_samples_control(struct fabric *f, struct fabric_port *at, uint8_t *mad, bool set)
{
	const struct fabric_node *n = node_of(f, at);
	struct sampler *s = sampler_of(f, at);
	uint8_t num = mad[PORT_SELECT];

	if (!s || get32(mad + MAD_MOD) || num > n->num_ports || (!num && n->type != NODE_SWITCH))
		return STATUS_BAD_FIELD;
	if (set && s->status == DONE)
		sample(f, s, fabric_node_port(f->map, n, num), mad);
	put_control(mad, s);
	return 0;
}

/* What a counter has, once the sample is done. */
static uint64_t sampled(const struct sampler *s, unsigned counter)
{
	uint16_t quantity = s->select[counter];

	return s->status == DONE && quantity && quantity <= QUANTITIES ? s->sampled[quantity - 1]
								       : 0;
}

uint16_t pma_samples_result(struct fabric *f, struct fabric_port *at, uint8_t *mad, bool extended)
{
	const struct sampler *s = sampler_of(f, at);

	if (!s || get32(mad + MAD_MOD))
		return STATUS_BAD_FIELD;
	memset(mad + RESULT_TAG, 0, MAD_LEN - RESULT_TAG);
	put16(mad + RESULT_TAG, s->tag);
	put16(mad + RESULT_STATUS, s->status);
	if (extended)
		put32(mad + RESULT_EXTENDED_WIDTH, EXTENDED_64);
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t value = sampled(s, i);

		if (extended)
			put64(mad + RESULT_EXTENDED_COUNTERS + 8 * i, value);
		else
			put32(mad + RESULT_COUNTERS + 4 * i,
			      value < UINT32_MAX ? value : UINT32_MAX);
	}
	return 0;
}

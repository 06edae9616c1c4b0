// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The performance management agent of every node (16.1): ClassPortInfo, PortCounters,
 * PortCountersExtended, data by service level, the details of receive errors and discards, and
 * samples (pma_samples.c). What a counter shows is what the ports counted (struct counters) less
 * what it was set back by; classic counters stop at their largest value. The two kinds of data and
 * packet counters are set back each by itself, as in hardware. fabricd's thread.
 */
#include <stddef.h>
#include <stdlib.h>

#include "fabric/fabric.h"
#include "fabric/ledger.h"

#define ALL_PORTS 255

enum {
	PORT_SELECT = 65,
	COUNTER_SELECT = 66,
	COUNTER_SELECT2 = 82,
	EXT_SELECT2 = 68,
	SL_DATA = 68
};
enum { PMA_ALL_PORTS = 1 << 8, PMA_EXTENDED = 1 << 9, PMA_XMIT_WAIT = 1 << 12 };
#define PMA_MORE_EXTENDED (1 << 1) /* CapabilityMask2 */

/* One counter of an attribute: where it stands, how wide it is, and the bit that selects it. */
struct field {
	uint16_t counter; /* offset in struct counters */
	uint8_t at, bits; /* bits 4: of the byte's upper half, 5: of its lower half */
	uint8_t select;	  /* bit of CounterSelect; from 16 on of CounterSelect2 */
	bool own_base;
};

#define C(name) offsetof(struct counters, name)

static const struct field classic[] = {
	{C(symbol_errors), 68, 16, 0},	  {C(link_recovered), 70, 8, 1},
	{C(link_downed), 71, 8, 2},	  {C(rcv_errors), 72, 16, 3},
	{C(remote_physical), 74, 16, 4},  {C(switch_relay), 76, 16, 5},
	{C(xmit_discards), 78, 16, 6},	  {C(xmit_constraint), 80, 8, 7},
	{C(rcv_constraint), 81, 8, 8},	  {C(integrity), 83, 4, 9},
	{C(overrun), 83, 5, 10},	  {C(vl15_dropped), 86, 16, 11},
	{C(xmit_data), 88, 32, 12, true}, {C(rcv_data), 92, 32, 13, true},
	{C(xmit_pkts), 96, 32, 14, true}, {C(rcv_pkts), 100, 32, 15, true},
	{C(xmit_wait), 104, 32, 16},	  {C(qp1_dropped), 84, 16, 17},
};

static const struct field extended[] = {
	{C(xmit_data), 72, 64, 0},	   {C(rcv_data), 80, 64, 1},
	{C(xmit_pkts), 88, 64, 2},	   {C(rcv_pkts), 96, 64, 3},
	{C(ucast_xmit_pkts), 104, 64, 4},  {C(ucast_rcv_pkts), 112, 64, 5},
	{C(mcast_xmit_pkts), 120, 64, 6},  {C(mcast_rcv_pkts), 128, 64, 7},
	{C(symbol_errors), 136, 64, 16},   {C(link_recovered), 144, 64, 17},
	{C(link_downed), 152, 64, 18},	   {C(rcv_errors), 160, 64, 19},
	{C(remote_physical), 168, 64, 20}, {C(switch_relay), 176, 64, 21},
	{C(xmit_discards), 184, 64, 22},   {C(xmit_constraint), 192, 64, 23},
	{C(rcv_constraint), 200, 64, 24},  {C(integrity), 208, 64, 25},
	{C(overrun), 216, 64, 26},	   {C(vl15_dropped), 224, 64, 27},
	{C(xmit_wait), 232, 64, 28},	   {C(qp1_dropped), 240, 64, 29},
};

static const struct field receive_details[] = {
	{C(no_lft), 74, 16, 3},
	{C(looping), 78, 16, 5},
};

static const struct field discard_details[] = {
	{C(xmit_discards), 68, 16, 0},
};

#undef C

static uint64_t *counter(struct counters *c, const struct field *field)
{
	return (uint64_t *)((char *)c + field->counter);
}

/* What the classic data and packet counters were set back by: four words, in the order of the
 * struct. */
static uint64_t *base(struct counters *c, const struct field *field)
{
	return &c->classic_base[field->counter / sizeof(uint64_t)];
}

static uint64_t value(struct counters *c, const struct field *field)
{
	return *counter(c, field) - (field->own_base ? *base(c, field) : 0);
}

static void set_value(struct counters *c, const struct field *field, uint64_t v)
{
	if (field->own_base)
		*base(c, field) = *counter(c, field) - v;
	else
		*counter(c, field) = v;
}

static uint64_t read_field(const uint8_t *mad, const struct field *field)
{
	switch (field->bits) {
	case 4: return hi4(mad[field->at]);
	case 5: return lo4(mad[field->at]);
	case 8: return mad[field->at];
	case 16: return get16(mad + field->at);
	case 32: return get32(mad + field->at);
	default: return get64(mad + field->at);
	}
}

static uint64_t most(uint64_t v, uint64_t limit)
{
	return v < limit ? v : limit;
}

static void write_field(uint8_t *mad, const struct field *field, uint64_t v)
{
	switch (field->bits) {
	case 4: put_hi4(mad + field->at, most(v, 15)); break;
	case 5: put_lo4(mad + field->at, most(v, 15)); break;
	case 8: mad[field->at] = most(v, UINT8_MAX); break;
	case 16: put16(mad + field->at, most(v, UINT16_MAX)); break;
	case 32: put32(mad + field->at, most(v, UINT32_MAX)); break;
	default: put64(mad + field->at, v); break;
	}
}

/* A port, or all of them: first and last number; false for a port that is not there, and for an
 * attribute modifier, which has no meaning here (16.1.4). */
static bool ports_selected(const struct fabric_node *n, const uint8_t *mad, int *first, int *last)
{
	uint8_t select = mad[PORT_SELECT];
	int lowest = n->type == NODE_SWITCH ? 0 : 1;

	*first = *last = select;
	if (select == ALL_PORTS) {
		*first = lowest;
		*last = n->num_ports;
	}
	return !get32(mad + MAD_MOD) && *first >= lowest && *last <= n->num_ports;
}

static uint16_t counters(struct fabric *f, struct fabric_port *at, uint8_t *mad, bool set,
			 const struct field *fields, unsigned num, uint32_t select)
{
	struct fabric_node *n = node_of(f, at);
	uint8_t keep[4];
	int first, last;

	if (!ports_selected(n, mad, &first, &last))
		return STATUS_BAD_FIELD;
	for (int p = first; set && p <= last; p++)
		for (unsigned i = 0; i < num; i++)
			if (select & 1u << fields[i].select)
				set_value(count_of(f, fabric_node_port(f->map, n, p)), &fields[i],
					  read_field(mad, &fields[i]));
	memcpy(keep, mad + 64, 4);
	memset(mad + 64, 0, MAD_LEN - 64);
	memcpy(mad + 64, keep, 4);
	for (unsigned i = 0; i < num; i++) {
		uint64_t sum = 0;

		for (int p = first; p <= last; p++)
			sum += value(count_of(f, fabric_node_port(f->map, n, p)), &fields[i]);
		write_field(mad, &fields[i], sum);
	}
	return 0;
}

/* ---- by service level (16.1.4.7, 16.1.4.8) ---- */

static struct sl_counters *sl_counters_of(struct fabric *f, const struct fabric_port *port)
{
	struct counters *c = count_of(f, port);

	if (!c->by_sl)
		c->by_sl = calloc(1, sizeof(*c->by_sl));
	return c->by_sl;
}

void pma_count_sl(struct fabric *f, const struct fabric_port *out, uint8_t sl, uint64_t words)
{
	struct sl_counters *xmit = sl_counters_of(f, out);
	struct sl_counters *rcv = sl_counters_of(f, port_at(f, out->peer));

	if (xmit)
		xmit->xmit_data[sl % 16] += words;
	if (rcv)
		rcv->rcv_data[sl % 16] += words;
}

static uint16_t data_by_sl(struct fabric *f, struct fabric_port *at, uint8_t *mad, bool set,
			   bool rcv)
{
	struct fabric_node *n = node_of(f, at);
	uint16_t select = get16(mad + COUNTER_SELECT);
	uint64_t sums[16] = {0};
	int first, last;

	if (!ports_selected(n, mad, &first, &last))
		return STATUS_BAD_FIELD;
	for (int p = first; p <= last; p++) {
		struct sl_counters *c = sl_counters_of(f, fabric_node_port(f->map, n, p));
		uint64_t *data = !c ? NULL : rcv ? c->rcv_data : c->xmit_data;

		for (unsigned sl = 0; data && sl < 16; sl++) {
			if (set && select & 1u << sl)
				data[sl] = get32(mad + SL_DATA + 4 * sl);
			sums[sl] += data[sl];
		}
	}
	memset(mad + SL_DATA, 0, MAD_LEN - SL_DATA);
	for (unsigned sl = 0; sl < 16; sl++)
		put32(mad + SL_DATA + 4 * sl, most(sums[sl], UINT32_MAX));
	return 0;
}

static uint16_t class_port_info(uint8_t *mad)
{
	uint8_t *d = mad + PMA_DATA;

	if (get32(mad + MAD_MOD))
		return STATUS_BAD_FIELD;
	memset(d, 0, MAD_LEN - PMA_DATA);
	d[0] = 1;
	d[1] = 1;
	put16(d + 2, PMA_ALL_PORTS | PMA_EXTENDED | PMA_XMIT_WAIT);
	put32(d + 4, PMA_MORE_EXTENDED << 5 | 16);
	return 0;
}

#define LEN(array) (sizeof(array) / sizeof(*(array)))

static uint16_t attribute(struct fabric *f, struct fabric_port *port, uint8_t *mad, bool set)
{
	uint32_t select = get16(mad + COUNTER_SELECT);

	switch (get16(mad + MAD_ATTR)) {
	case ATTR_CLASS_PORT_INFO: return set ? STATUS_BAD_METHOD_ATTR : class_port_info(mad);
	case ATTR_COUNTERS:
		select |= (uint32_t)mad[COUNTER_SELECT2] << 16;
		return counters(f, port, mad, set, classic, LEN(classic), select);
	case ATTR_COUNTERS_EXT:
		select |= get32(mad + EXT_SELECT2) << 16;
		return counters(f, port, mad, set, extended, LEN(extended), select);
	case ATTR_RCV_ERROR_DETAILS:
		return counters(f, port, mad, set, receive_details, LEN(receive_details), select);
	case ATTR_XMIT_DISCARD_DETAILS:
		return counters(f, port, mad, set, discard_details, LEN(discard_details), select);
	case ATTR_SAMPLES_CONTROL: return pma_samples_control(f, port, mad, set);
	case ATTR_SAMPLES_RESULT:
	case ATTR_SAMPLES_RESULT_EXT:
		if (set)
			return STATUS_BAD_METHOD_ATTR;
		return pma_samples_result(f, port, mad,
					  get16(mad + MAD_ATTR) == ATTR_SAMPLES_RESULT_EXT);
	case ATTR_XMIT_DATA_SL: return data_by_sl(f, port, mad, set, false);
	case ATTR_RCV_DATA_SL: return data_by_sl(f, port, mad, set, true);
	default: return STATUS_BAD_METHOD_ATTR;
	}
}

bool pma_receive(struct fabric *f, struct packet *p)
{
	uint8_t *mad = p->mad, method = mad[MAD_METHOD];
	uint16_t status = STATUS_BAD_VERSION;

	/* To these there is no answer. */
	if (method == METHOD_SEND || method == METHOD_TRAP || method == METHOD_REPORT)
		return false;
	if (mad[MAD_CLASS_VERSION] == 1 && (method == METHOD_GET || method == METHOD_SET)) {
		ledgers_collect(f);
		status = attribute(f, port_at(f, p->port), mad, method == METHOD_SET);
	} else if (mad[MAD_CLASS_VERSION] == 1) {
		status = STATUS_BAD_METHOD;
	}
	mad[MAD_METHOD] = METHOD_GET_RESP;
	put16(mad + MAD_STATUS, status);
	return true;
}

void pma_get(struct fabric *f, struct fabric_port *port, uint16_t attr, uint8_t mad[MAD_LEN])
{
	memset(mad, 0, MAD_LEN);
	put16(mad + MAD_ATTR, attr);
	mad[PORT_SELECT] = port->num;
	ledgers_collect(f);
	put16(mad + MAD_STATUS, attribute(f, port, mad, false));
}

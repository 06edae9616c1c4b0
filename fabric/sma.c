// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The subnet management agent of every node (14.2, 14.3): checks, the M_Key (14.2.4), and the
 * attributes that are about the node as a whole. It answers as firmware does, whether a program
 * runs on the host or not. Ports are in sma_port_info.c, tables in sma_tables.c. fabricd's thread.
 */
#include "fabric/fabric.h"

#define VENDOR_MELLANOX 0x2c9

/* MlnxExtPortInfo: bit 0 of each is FDR10; of MEPI_CHANGE, that what is enabled is to change. */
enum { MEPI_CHANGE = 3, MEPI_SUPPORTED = 7, MEPI_ENABLED = 11, MEPI_ACTIVE = 15 };

static uint16_t get_node_desc(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	if (set)
		return STATUS_BAD_METHOD_ATTR;
	if (get32(mad + MAD_MOD))
		return STATUS_BAD_FIELD;
	memcpy(mad + SMP_DATA, node_of(f, in)->desc, FABRIC_DESC_LEN);
	return 0;
}

static uint16_t get_node_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	const struct fabric_node *n = node_of(f, in);
	uint8_t *d = mad + SMP_DATA;

	if (set)
		return STATUS_BAD_METHOD_ATTR;
	if (get32(mad + MAD_MOD))
		return STATUS_BAD_FIELD;
	memset(d, 0, SMP_DATA_LEN);
	d[0] = 1;
	d[1] = 1;
	d[2] = n->type;
	d[3] = n->num_ports;
	put64(d + 4, n->system_guid);
	put64(d + 12, n->guid);
	put64(d + 20, end_port(f, in)->guid);
	put16(d + 28, n->type == NODE_SWITCH ? FABRIC_PKEYS_SWITCH : FABRIC_PKEYS_HCA);
	put16(d + 30, n->device);
	put32(d + 32, n->revision);
	put32(d + 36, (uint32_t)in->num << 24 | n->vendor);
	return 0;
}

static uint16_t switch_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_node *n = node_of(f, in);
	uint8_t *d = mad + SMP_DATA, *have = n->switch_info;

	if (n->type != NODE_SWITCH)
		return STATUS_BAD_METHOD_ATTR;
	if (get32(mad + MAD_MOD))
		return STATUS_BAD_FIELD;
	if (set) {
		if (get16(d + 6) >= get16(have))
			return STATUS_BAD_FIELD;
		memcpy(have + 6, d + 6, 5); /* LinearFDBTop and the default ports */
		/* LifeTimeValue; PortStateChange is cleared by writing 1. */
		have[11] = (d[11] & 0xf8) | (have[11] & 4 & ~d[11]);
		memcpy(have + 18, d + 18, 2); /* MulticastFDBTop */
	}
	memset(d, 0, SMP_DATA_LEN);
	memcpy(d, have, sizeof(n->switch_info));
	return 0;
}

static uint16_t led_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_port *port = end_port(f, in);

	if (set)
		port->led = mad[SMP_DATA] >> 7;
	memset(mad + SMP_DATA, 0, SMP_DATA_LEN);
	mad[SMP_DATA] = port->led << 7;
	return 0;
}

/* Of one vendor: FDR10, a speed that PortInfo has no bit for. Its tools ask each port of that
 * vendor's nodes. What is enabled is for the next training of the link, as in PortInfo. */
static uint16_t mlnx_ext_port_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	const struct fabric_node *n = node_of(f, in);
	uint32_t num = get32(mad + MAD_MOD);
	uint8_t *d = mad + SMP_DATA;
	struct fabric_port *port;
	uint8_t supported;

	if (n->vendor != VENDOR_MELLANOX)
		return STATUS_BAD_METHOD_ATTR;
	if (num > n->num_ports)
		return STATUS_BAD_FIELD;
	port = num ? fabric_node_port(f->map, n, num) : in;
	supported = port->speed == FABRIC_SPEED_FDR10;
	if (set && d[MEPI_CHANGE] & 1) {
		if (d[MEPI_ENABLED] & ~supported)
			return STATUS_BAD_FIELD;
		port->fdr10 = (port->fdr10 & FABRIC_FDR10_ACTIVE) | d[MEPI_ENABLED];
	}
	memset(d, 0, SMP_DATA_LEN);
	d[MEPI_SUPPORTED] = supported;
	d[MEPI_ENABLED] = port->fdr10 & FABRIC_FDR10_ENABLED;
	d[MEPI_ACTIVE] = fabric_port_speed(port) == FABRIC_SPEED_FDR10;
	return 0;
}

typedef uint16_t attribute_fn(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set);

static attribute_fn *attribute(uint16_t id)
{
	switch (id) {
	case ATTR_NODE_DESC: return get_node_desc;
	case ATTR_NODE_INFO: return get_node_info;
	case ATTR_SWITCH_INFO: return switch_info;
	case ATTR_GUID_INFO: return sma_guid_info;
	case ATTR_PORT_INFO: return sma_port_info;
	case ATTR_PKEY_TABLE: return sma_pkey_table;
	case ATTR_SL_TO_VL: return sma_sl_to_vl;
	case ATTR_VL_ARB: return sma_vl_arb;
	case ATTR_LFT: return sma_lft;
	case ATTR_MFT: return sma_mft;
	case ATTR_LED_INFO: return led_info;
	case ATTR_MLNX_EXT_PORT_INFO: return mlnx_ext_port_info;
	default: return NULL;
	}
}

/* ---- M_Key ---- */

static void lease_over(struct timer *timer, void *arg)
{
	struct fabric *f = arg;
	struct port_private *mine =
		(struct port_private *)((char *)timer - offsetof(struct port_private, lease));
	struct fabric_port *port = port_at(f, mine - f->ports);

	/* 14.2.4.2: protection ends, so that a subnet manager that knows no key can take over. */
	port->info[PI_PROTECT_LMC] &= 0x3f;
}

bool sma_mkey_allows(struct fabric *f, struct fabric_port *port, const struct packet *packet)
{
	uint64_t key = get64(port->info + PI_MKEY);
	uint8_t level = port->info[PI_PROTECT_LMC] >> 6;
	struct timer *lease = &f->ports[index_of(f, port)].lease;
	uint16_t violations = get16(port->info + PI_MKEY_VIOL);
	uint16_t seconds = get16(port->info + PI_LEASE);

	if (!key || get64(packet->mad + SMP_MKEY) == key) {
		timer_stop(&f->mads.timers, lease);
		return true;
	}
	if (packet->mad[MAD_METHOD] == METHOD_GET && level < 2)
		return true;
	if (violations != 0xffff)
		put16(port->info + PI_MKEY_VIOL, violations + 1);
	if (seconds && !lease->at)
		timer_start(&f->mads.timers, lease, f->mads.now + seconds * 1000u, lease_over);
	trap_bad_mkey(f, port, packet);
	return false;
}

/* ---- the agent ---- */

static void finish(uint8_t *mad, uint16_t status)
{
	mad[MAD_METHOD] = METHOD_GET_RESP;
	put16(mad + MAD_STATUS, status | (mad[MAD_CLASS] == CLASS_SUBN_DR ? STATUS_DIRECTION : 0));
}

bool sma_receive(struct fabric *f, struct packet *p, bool *answer)
{
	uint8_t *mad = p->mad, method = mad[MAD_METHOD];
	struct fabric_port *end = port_at(f, p->port), *in = end;
	struct fabric_node *node = node_of(f, end);
	attribute_fn *fn;

	*answer = false;
	if (method == METHOD_TRAP_REPRESS) {
		if (sma_mkey_allows(f, end, p))
			trap_repress(f, end, mad);
		return true;
	}
	/* Answers, traps and questions to a subnet manager are the host's. */
	if ((method != METHOD_GET && method != METHOD_SET) ||
	    (get16(mad + MAD_ATTR) == ATTR_SM_INFO && node->type != NODE_SWITCH))
		return node->type == NODE_SWITCH;
	if (node->type == NODE_SWITCH && p->in_port)
		in = fabric_node_port(f->map, node, p->in_port);
	if (mad[MAD_CLASS_VERSION] != 1) {
		finish(mad, STATUS_BAD_VERSION);
		return *answer = true;
	}
	if (!sma_mkey_allows(f, end, p))
		return true;
	fn = attribute(get16(mad + MAD_ATTR));
	finish(mad, fn ? fn(f, in, mad, method == METHOD_SET) : STATUS_BAD_METHOD_ATTR);
	return *answer = true;
}

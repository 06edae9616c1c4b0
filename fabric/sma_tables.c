// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The tables of a node that a subnet manager reads and writes by blocks: GUIDs, P_Keys, SL to VL,
 * VL arbitration, linear and multicast forwarding (14.2.5.5 to 14.2.5.12). fabricd's thread.
 */
#include "fabric/fabric.h"

#define GUIDS_A_BLOCK  8
#define PKEYS_A_BLOCK  32
#define LIDS_A_BLOCK   64
#define MLIDS_A_BLOCK  32
#define VL_ARB_A_BLOCK 32 /* entries of two bytes */

uint16_t sma_guid_info(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_port *port = end_port(f, in);
	uint32_t block = get32(mad + MAD_MOD);
	uint8_t *d = mad + SMP_DATA;
	uint64_t *guids = (uint64_t *)fabric_map_bytes(f->map, port->guids);

	if (block >= (port->info[PI_GUID_CAP] + GUIDS_A_BLOCK - 1u) / GUIDS_A_BLOCK)
		return STATUS_BAD_FIELD;
	for (unsigned i = 0; i < GUIDS_A_BLOCK; i++) {
		unsigned at = block * GUIDS_A_BLOCK + i;

		/* The first is the port's own, for good. */
		if (set && at && at < port->info[PI_GUID_CAP])
			guids[at] = get64(d + 8 * i);
		put64(d + 8 * i, at ? at < port->info[PI_GUID_CAP] ? guids[at] : 0 : port->guid);
	}
	if (set)
		host_port_changed(f, port, false);
	return 0;
}

uint16_t sma_pkey_table(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_node *n = node_of(f, in);
	uint32_t modifier = get32(mad + MAD_MOD);
	unsigned block = modifier & 0xffff, num = modifier >> 16;
	struct fabric_port *port = in;
	uint8_t *d = mad + SMP_DATA;
	uint16_t *keys;

	if (n->type == NODE_SWITCH) {
		if (num > n->num_ports)
			return STATUS_BAD_FIELD;
		port = fabric_node_port(f->map, n, num);
	}
	if (block >= port->pkey_cap / PKEYS_A_BLOCK)
		return STATUS_BAD_FIELD;
	keys = (uint16_t *)fabric_map_bytes(f->map, port->pkeys) + block * PKEYS_A_BLOCK;
	if (set)
		map_begin(f);
	for (unsigned i = 0; i < PKEYS_A_BLOCK; i++) {
		if (set)
			keys[i] = get16(d + 2 * i);
		put16(d + 2 * i, keys[i]);
	}
	if (set) {
		map_end(f);
		host_port_changed(f, port, false);
	}
	return 0;
}

/* What the modifier's ports mean: of a switch in and out, of an adapter nothing. */
uint16_t sma_sl_to_vl(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_node *n = node_of(f, in);
	uint32_t modifier = get32(mad + MAD_MOD);
	unsigned from = modifier >> 8 & 0xff, to = modifier & 0xff;
	uint8_t *d = mad + SMP_DATA, *table;
	uint64_t at = in->num;

	if (n->type == NODE_SWITCH) {
		if (modifier >> 16 || from > n->num_ports || to > n->num_ports)
			return STATUS_BAD_FIELD;
		at = from * (n->num_ports + 1u) + to;
	}
	table = fabric_map_bytes(f->map, n->sl2vl + 8 * at);
	if (set)
		map_begin(f);
	for (unsigned i = 0; i < 8; i++) {
		if (set)
			table[i] = d[i] ^ fabric_default_vls[i];
		d[i] = table[i] ^ fabric_default_vls[i];
	}
	if (set)
		map_end(f);
	memset(d + 8, 0, SMP_DATA_LEN - 8);
	return 0;
}

/* Bytes that a port has of a part: 1 and 2 are the halves of the low priority table, 3 and 4 those
 * of the high priority one. */
static unsigned vl_arb_len(const struct fabric_port *port, unsigned part)
{
	unsigned cap = port->info[part < 3 ? PI_VLARB_LOW_CAP : PI_VLARB_HIGH_CAP];
	unsigned first = part % 2 ? 0 : VL_ARB_A_BLOCK;

	if (cap <= first)
		return 0;
	return 2 * (cap - first < VL_ARB_A_BLOCK ? cap - first : VL_ARB_A_BLOCK);
}

uint16_t sma_vl_arb(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_node *n = node_of(f, in);
	uint32_t modifier = get32(mad + MAD_MOD);
	unsigned part = modifier >> 16, num = modifier & 0xffff;
	uint8_t *d = mad + SMP_DATA, *table;
	struct fabric_port *port;
	unsigned len;

	if (n->type != NODE_SWITCH)
		num = in->num;
	if (num > n->num_ports || part < 1 || part > 4)
		return STATUS_BAD_FIELD;
	port = fabric_node_port(f->map, n, num);
	len = vl_arb_len(port, part);
	if (!len)
		return STATUS_BAD_FIELD;
	table = fabric_map_bytes(f->map, port->vlarb + FABRIC_VLARB_LEN / 2 * ((part - 1) / 2) +
						 SMP_DATA_LEN * ((part - 1) % 2));
	if (set)
		memcpy(table, d, len);
	memcpy(d, table, len);
	memset(d + len, 0, SMP_DATA_LEN - len);
	return 0;
}

uint16_t sma_lft(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_node *n = node_of(f, in);
	uint32_t block = get32(mad + MAD_MOD);
	uint8_t *d = mad + SMP_DATA, *table;

	if (n->type != NODE_SWITCH)
		return STATUS_BAD_METHOD_ATTR;
	if (block >= get16(n->switch_info) / LIDS_A_BLOCK) /* LinearFDBCap */
		return STATUS_BAD_FIELD;
	table = fabric_map_bytes(f->map, n->lft) + block * LIDS_A_BLOCK;
	if (set)
		map_begin(f);
	for (unsigned i = 0; i < LIDS_A_BLOCK; i++) {
		if (set)
			table[i] = 255 - d[i];
		d[i] = 255 - table[i];
	}
	if (set)
		map_end(f);
	return 0;
}

uint16_t sma_mft(struct fabric *f, struct fabric_port *in, uint8_t *mad, bool set)
{
	struct fabric_node *n = node_of(f, in);
	uint32_t modifier = get32(mad + MAD_MOD);
	unsigned block = modifier & 0x1ff, position = modifier >> 28;
	uint8_t *d = mad + SMP_DATA;
	uint16_t *table;

	if (n->type != NODE_SWITCH)
		return STATUS_BAD_METHOD_ATTR;
	if (modifier & 0x0ffffe00 || block >= FABRIC_MFT_LEN / MLIDS_A_BLOCK ||
	    position >= n->mft_blocks)
		return STATUS_BAD_FIELD;
	table = (uint16_t *)fabric_map_bytes(f->map, n->mft) +
		block * MLIDS_A_BLOCK * n->mft_blocks + position;
	if (set)
		map_begin(f);
	for (unsigned i = 0; i < MLIDS_A_BLOCK; i++, table += n->mft_blocks) {
		if (set)
			*table = get16(d + 2 * i);
		put16(d + 2 * i, *table);
	}
	if (set)
		map_end(f);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Makes the map of a fabric: lays the tables out, fills in what hardware has when it is switched
 * on, and seals the file. Pages that nobody writes cost nothing: tables are as large as the largest
 * hardware's, and their empty state is zeros. fabricd's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/ledger.h"
#include "fabric/member.h"
#include "fabric/names.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static uint64_t take(uint64_t *at, uint64_t len)
{
	uint64_t offset = (*at + 7) & ~7ull;

	*at = offset + len;
	return offset;
}

static unsigned mft_blocks(const struct topology_node *n)
{
	return (n->num_ports + 1 + 15) / 16;
}

/* The size of a map, and how many ports it has. */
static uint64_t measure(const struct topology *t, uint32_t *ports)
{
	uint64_t at = sizeof(struct fabric_map) + 8;

	*ports = 0;
	for (uint32_t i = 0; i < t->num_nodes; i++) {
		const struct topology_node *n = &t->nodes[i];
		uint64_t num = n->num_ports + 1;
		bool is_switch = n->type == NODE_SWITCH;

		*ports += num;
		at += sizeof(struct fabric_node) + num * sizeof(struct fabric_port);
		at += num * (FABRIC_VLARB_LEN + 8);
		at += num * (is_switch ? FABRIC_PKEYS_SWITCH : FABRIC_PKEYS_HCA) * 2 + 8 * num;
		at += (is_switch ? 1 : num) * (FABRIC_GUIDS * 8 + 8);
		at += is_switch ? num * num * 8 + 8 : num * 8 + 8;
		if (is_switch)
			at += FABRIC_LFT_LEN + FABRIC_MFT_LEN * mft_blocks(n) * 2 + 16;
	}
	return at + 4096;
}

static uint8_t width_bits(unsigned lanes)
{
	switch (lanes) {
	case 1: return 1;
	case 8: return 4;
	case 12: return 8;
	case 2: return 16;
	default: return 2;
	}
}

/* What a port can do and is set to when it is switched on (14.2.5.6), and the width and speed that
 * its description says are active. */
static void init_port_info(const struct fabric_node *n, struct fabric_port *port)
{
	uint8_t *info = port->info;
	bool is_switch = n->type == NODE_SWITCH, port0 = is_switch && !port->num;
	bool extended = port->speed >= FABRIC_SPEED_FDR && port->speed < FABRIC_NUM_SPEEDS;
	uint32_t cap = CAP_TRAP | CAP_SYS_IMAGE_GUID | CAP_LED | CAP_SL_MAP;

	if (n->type == NODE_CA)
		cap |= CAP_AUTO_MIGRATION | CAP_CM | CAP_VENDOR | CAP_MASK_NOTICE | CAP_REREG |
		       CAP_OTHER_NOTICE;
	else
		cap |= CAP_OTHER_NOTICE | CAP_MASK_NOTICE;
	if (extended || port0)
		cap |= CAP_EXT_SPEEDS;
	memset(info, 0, PI_LEN);
	put64(info + PI_PREFIX, 0xfe80000000000000ull);
	put32(info + PI_CAP, cap);
	info[PI_LOCAL_PORT] = port->num;
	info[PI_WIDTH_SUPPORTED] = info[PI_WIDTH_ENABLED] = port->width | 3;
	info[PI_WIDTH_ACTIVE] = port->width;
	info[PI_SPEED_STATE] = 7 << 4 | PORT_DOWN;
	info[PI_PHYS] = PHYS_POLLING << 4 | PHYS_POLLING;
	info[PI_SPEED] = (port->speed == FABRIC_SPEED_SDR   ? 1
			  : port->speed == FABRIC_SPEED_DDR ? 2
							    : 4)
				 << 4 |
			 7;
	if (extended) {
		uint8_t bit = 1 << (port->speed - FABRIC_SPEED_FDR);

		info[PI_EXT_SPEED] = bit << 4 | (2 * bit - 1);
		info[PI_EXT_ENABLED] = 2 * bit - 1;
	}
	port->fdr10 =
		port->speed == FABRIC_SPEED_FDR10 ? FABRIC_FDR10_ENABLED | FABRIC_FDR10_ACTIVE : 0;
	info[PI_MTU_SMSL] = 5 << 4; /* 4096 */
	info[PI_VLCAP] = (port0 ? 1 : 4) << 4;
	info[PI_VLARB_HIGH_CAP] = info[PI_VLARB_LOW_CAP] = port0 ? 0 : FABRIC_VLARB_CAP;
	info[PI_MTU_CAP] = 5;
	info[PI_VLS_ENF] = (port0 ? 1 : 4) << 4;
	info[PI_GUID_CAP] = is_switch ? (port0 ? 1 : 0) : FABRIC_GUIDS;
	info[PI_REREG_TIMEOUT] = 18;
	info[PI_RESP_TIME] = 16;
	info[PI_ERRORS] = 8 << 4 | 8;
	if (port0) {
		/* Never down: it is not behind a cable. A base port 0 is Active for good. */
		info[PI_SPEED_STATE] = 7 << 4 | (n->enhanced_port0 ? PORT_INIT : PORT_ACTIVE);
		info[PI_PHYS] = PHYS_LINK_UP << 4 | PHYS_POLLING;
		info[PI_SPEED] = 4 << 4 | 7;
	}
}

void fabric_port_reset(struct fabric *f, struct fabric_port *port)
{
	uint16_t *pkeys = (uint16_t *)fabric_map_bytes(f->map, port->pkeys);

	init_port_info(node_of(f, port), port);
	if (f->ports && f->ports[index_of(f, port)].sms) /* a program has its issm file open */
		put32(port->info + PI_CAP, get32(port->info + PI_CAP) | CAP_SM);
	memset(pkeys, 0, port->pkey_cap * sizeof(*pkeys));
	pkeys[0] = 0xffff;
	if (port->guids)
		memset(fabric_map_bytes(f->map, port->guids), 0, FABRIC_GUIDS * 8);
}

static uint64_t sl2vl_len(const struct fabric_node *n)
{
	unsigned ports = n->num_ports + 1;

	return (n->type == NODE_SWITCH ? ports * ports : ports) * 8;
}

static void init_port(struct fabric *f, const struct topology *t, uint32_t node, uint8_t num,
		      uint64_t *at)
{
	const struct topology_node *n = &t->nodes[node];
	const struct topology_port *p = &n->ports[num];
	struct fabric_node *mine = fabric_map_node(f->map, node);
	struct fabric_port *port = fabric_node_port(f->map, mine, num);
	bool is_switch = n->type == NODE_SWITCH;

	port->node = node;
	port->num = num;
	port->guid = num ? p->guid : n->port0_guid;
	port->peer = FABRIC_NONE;
	port->width = width_bits(p->width);
	port->speed = p->speed;
	port->pkey_cap = is_switch ? FABRIC_PKEYS_SWITCH : FABRIC_PKEYS_HCA;
	port->pkeys = take(at, port->pkey_cap * 2);
	port->vlarb = take(at, FABRIC_VLARB_LEN);
	if (!is_switch || !num)
		port->guids = take(at, FABRIC_GUIDS * 8);
	if (!is_switch && !num)
		return; /* an adapter has no port 0: the entry makes numbers indices */
	if (num && p->peer != FABRIC_NONE)
		port->peer = fabric_map_node(f->map, p->peer)->first_port + p->peer_port;
	fabric_port_reset(f, port);
}

/* What a subnet manager sets of it (14.2.5.4). */
static void reset_switch_info(uint8_t *info)
{
	put16(info + 6, 0); /* LinearFDBTop */
	info[8] = info[9] = info[10] = 255;
	info[11] = 0;
	put16(info + 18, 0); /* MulticastFDBTop */
}

static void init_switch_info(const struct topology_node *n, uint8_t *info)
{
	put16(info, n->linear_cap ? n->linear_cap : FABRIC_LFT_LEN);
	put16(info + 4, FABRIC_MFT_LEN);
	reset_switch_info(info);
	put16(info + 14, FABRIC_PKEYS_SWITCH);
	info[16] = 0xc0 | (n->enhanced_port0 ? 8 : 0); /* enforces partitions in and out */
}

static void init_node(struct fabric *f, const struct topology_node *n, struct fabric_node *mine,
		      uint64_t *at)
{
	mine->guid = n->guid;
	mine->system_guid = n->system_guid;
	mine->vendor = n->vendor;
	mine->device = n->device;
	mine->type = n->type;
	mine->num_ports = n->num_ports;
	mine->enhanced_port0 = n->enhanced_port0;
	mine->function = n->function;
	memcpy(mine->desc, n->desc, FABRIC_DESC_LEN);
	mine->sl2vl = take(at, sl2vl_len(mine));
	if (n->type != NODE_SWITCH)
		return;
	mine->mft_blocks = mft_blocks(n);
	*at = (*at + 63) & ~63ull;
	mine->lft = take(at, FABRIC_LFT_LEN);
	mine->mft = take(at, FABRIC_MFT_LEN * mine->mft_blocks * 2);
	init_switch_info(n, mine->switch_info);
}

static void reset_counters(struct counters *c)
{
	free(c->by_sl);
	memset(c, 0, sizeof(*c));
}

void fabric_node_reset(struct fabric *f, struct fabric_node *n)
{
	bool is_switch = n->type == NODE_SWITCH;

	ledgers_collect(f); /* counters are to have what was sent before, and then begin anew */
	map_begin(f);
	for (int i = !is_switch; i <= n->num_ports; i++) {
		struct fabric_port *port = fabric_node_port(f->map, n, i);
		struct port_private *mine = &f->ports[index_of(f, port)];

		timer_stop(&f->mads.timers, &mine->lease);
		fabric_port_reset(f, port);
		memset(fabric_map_bytes(f->map, port->vlarb), 0, FABRIC_VLARB_LEN);
		port->led = 0;
		mine->bad_packets = 0;
		reset_counters(&mine->count);
	}
	memset(fabric_map_bytes(f->map, n->sl2vl), 0, sl2vl_len(n));
	if (is_switch) {
		memset(fabric_map_bytes(f->map, n->lft), 0, FABRIC_LFT_LEN);
		memset(fabric_map_bytes(f->map, n->mft), 0, FABRIC_MFT_LEN * n->mft_blocks * 2);
		reset_switch_info(n->switch_info);
	}
	map_end(f);
	for (int i = 1; i <= n->num_ports; i++)
		host_port_changed(f, fabric_node_port(f->map, n, i), false);
}

static void fill(struct fabric *f, const struct topology *t)
{
	struct fabric_map *map = f->map;
	uint64_t at = sizeof(*map);
	uint32_t port = 0;

	map->num_nodes = t->num_nodes;
	map->nodes = take(&at, (uint64_t)t->num_nodes * sizeof(struct fabric_node));
	map->ports = take(&at, (uint64_t)map->num_ports * sizeof(struct fabric_port));
	for (uint32_t i = 0; i < t->num_nodes; i++) {
		fabric_map_node(map, i)->first_port = port;
		port += t->nodes[i].num_ports + 1;
	}
	for (uint32_t i = 0; i < t->num_nodes; i++)
		init_node(f, &t->nodes[i], fabric_map_node(map, i), &at);
	for (uint32_t i = 0; i < t->num_nodes; i++)
		for (int p = 0; p <= t->nodes[i].num_ports; p++)
			init_port(f, t, i, p, &at);
}

static int make_map(struct fabric *f, const struct topology *t, const char *name)
{
	uint32_t ports;
	uint64_t size = measure(t, &ports);

	f->map_fd = memfd_create("urxe-fabric", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f->map_fd < 0 || ftruncate(f->map_fd, size))
		return -errno;
	f->map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, f->map_fd, 0);
	if (f->map == MAP_FAILED) {
		f->map = NULL;
		return -errno;
	}
	if (fcntl(f->map_fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return -errno;
	f->map->magic = FABRIC_MAP_MAGIC;
	f->map->size = size;
	f->map->num_ports = ports;
	strncpy(f->map->name, name, sizeof(f->map->name) - 1);
	fill(f, t);
	if (names_number_hosts(f->map))
		return -ENOMEM;
	atomic_store(&f->map->alive, 1);
	return 0;
}

int fabric_create(struct fabric *f, const struct topology *t, const char *name)
{
	int ret;

	f->map_fd = -1;
	ret = make_map(f, t, name);
	if (!ret) {
		f->queue_mask = 255;
		f->queue = malloc((f->queue_mask + 1) * sizeof(*f->queue));
		f->ports = calloc(f->map->num_ports, sizeof(*f->ports));
		f->nodes = calloc(f->map->num_nodes, sizeof(*f->nodes));
		ret = mads_create(&f->mads, f->map->num_ports, &host_port_ops);
		if (!f->queue || !f->ports || !f->nodes)
			ret = -ENOMEM;
	}
	if (ret) {
		fabric_destroy(f);
		return ret;
	}
	for (uint32_t i = 0; i < f->map->num_ports; i++)
		link_begin(f, port_at(f, i));
	for (uint32_t i = 0; i < f->map->num_nodes; i++)
		trap_forget(f, fabric_map_node(f->map, i));
	return 0;
}

static void node_private_free(struct node_private *n)
{
	free(n->own_desc);
	free(n->sampler);
}

void fabric_destroy(struct fabric *f)
{
	fabric_forget_late(f);
	member_forget(f);
	mads_destroy(&f->mads);
	for (uint32_t i = 0; f->map && f->nodes && i < f->map->num_nodes; i++)
		node_private_free(&f->nodes[i]);
	for (uint32_t i = 0; f->map && f->ports && i < f->map->num_ports; i++)
		reset_counters(&f->ports[i].count);
	if (f->map) {
		atomic_store(&f->map->alive, 0);
		munmap(f->map, f->map->size);
	}
	if (f->map_fd >= 0)
		close(f->map_fd);
	free(f->queue);
	free(f->ports);
	free(f->nodes);
	f->map = NULL;
	f->map_fd = -1;
	f->queue = NULL;
	f->ports = NULL;
	f->nodes = NULL;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The sysfs view of a process on a host of a virtual fabric: the host's adapters under the names
 * urxe0, urxe1, …, their ports with link layer InfiniBand, and the devices umadN and issmN, in the
 * kernel's form. Its directories take the place of sysfs_tree.c's: RoCE devices are not there, and
 * the kernel's are not either.
 *
 *	/sys/class/infiniband/urxe0 → …/devices/virtual/urxe/urxe0/infiniband/urxe0: node_guid, ports/1/lid, …
 *	/sys/class/infiniband_mad/umad0 → …/devices/virtual/urxe/urxe0/infiniband_mad/umad0: ibdev, port
 *	/sys/class/infiniband_verbs/uverbs0, in the same way
 *	/dev/infiniband/umad0, issm0, and uverbs0, which cannot be opened
 *
 * A node's index holds the adapter (8 bits), the port (8 bits) and a slot of a table (16 bits).
 * Contents are read from the fabric's map at the moment of the call. Any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "host/fabric.h"
#include "preload/sysfs_attr.h"
#include "preload/umad.h"

#define MAD_MAJOR   231
#define ISSM_MINOR  64
#define VERBS_MINOR 192
#define SHOWN_GUIDS 16
#define SHOWN_PKEYS FABRIC_PKEYS_HCA

/* ---- what a node is about ---- */

static unsigned index_of(unsigned adapter, unsigned port, unsigned slot)
{
	return adapter << 24 | port << 16 | slot;
}

static unsigned adapter_of(const struct urxe_sysfs_node *node)
{
	return node->index >> 24;
}

static unsigned port_of(const struct urxe_sysfs_node *node)
{
	return node->index >> 16 & 0xff;
}

static unsigned slot_of(const struct urxe_sysfs_node *node)
{
	return node->index & 0xffff;
}

static const struct fabric_node *adapter(const struct urxe_fabric_host *host, unsigned i)
{
	return host && i < host->num_adapters ? fabric_map_node(host->map, host->adapters[i])
					      : NULL;
}

/* The adapter of a node of the view, and its port; false when the host has none of that number any
 * more. */
static bool find(const struct urxe_sysfs_node *node, const struct urxe_fabric_host **host,
		 const struct fabric_node **hca, const struct fabric_port **port)
{
	unsigned num = port_of(node);

	*host = urxe_fabric_host();
	*hca = adapter(*host, adapter_of(node));
	if (!*hca || num > (*hca)->num_ports)
		return false;
	*port = fabric_node_port((*host)->map, *hca, num);
	return true;
}

/* The number of umad and issm of a port: all ports of the host are counted through. */
static unsigned umad_of(unsigned adapter_index, unsigned port)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();
	unsigned n = port - 1;

	for (unsigned i = 0; i < adapter_index; i++)
		n += adapter(host, i) ? adapter(host, i)->num_ports : 0;
	return n;
}

static bool umad_port(unsigned number, unsigned *adapter_index, unsigned *port)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();

	for (*adapter_index = 0; adapter(host, *adapter_index); ++*adapter_index) {
		unsigned ports = adapter(host, *adapter_index)->num_ports;

		if (number < ports) {
			*port = number + 1;
			return true;
		}
		number -= ports;
	}
	return false;
}

/* ---- contents ---- */

static ssize_t print_guid(uint64_t guid, char *buf, size_t len)
{
	return snprintf(buf, len, "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
			(unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
			(unsigned)(guid & 0xffff));
}

#define SHOW(name)                                                                                 \
	static ssize_t print_##name(const struct urxe_fabric_host *host,                           \
				    const struct fabric_node *hca, const struct fabric_port *port, \
				    unsigned slot, char *buf, size_t len);                         \
	static ssize_t show_##name(const struct urxe_sysfs_node *node, char *buf, size_t len)      \
	{                                                                                          \
		const struct urxe_fabric_host *host;                                               \
		const struct fabric_node *hca;                                                     \
		const struct fabric_port *port;                                                    \
                                                                                                   \
		if (!find(node, &host, &hca, &port))                                               \
			return -ENODEV;                                                            \
		return print_##name(host, hca, port, slot_of(node), buf, len);                     \
	}                                                                                          \
	static ssize_t print_##name(const struct urxe_fabric_host *host,                           \
				    const struct fabric_node *hca, const struct fabric_port *port, \
				    unsigned slot, char *buf, size_t len)

SHOW(node_guid)
{
	return print_guid(hca->guid, buf, len);
}

SHOW(system_guid)
{
	return print_guid(hca->system_guid, buf, len);
}

SHOW(node_desc)
{
	return snprintf(buf, len, "%.*s\n", FABRIC_DESC_LEN, hca->desc);
}

SHOW(node_type)
{
	return snprintf(buf, len, hca->type == NODE_ROUTER ? "3: router\n" : "1: CA\n");
}

SHOW(hca_type)
{
	return snprintf(buf, len, "MT%u\n", hca->device);
}

SHOW(state)
{
	static const char *const names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
	uint8_t state = fabric_port_state(port);

	if (state > PORT_ACTIVE || !urxe_fabric_alive(host))
		state = PORT_DOWN;
	return snprintf(buf, len, "%u: %s\n", state, names[state]);
}

SHOW(phys_state)
{
	static const char *const names[] = {
		"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp"};
	uint8_t phys = hi4(port->info[PI_PHYS]);

	if (phys > PHYS_LINK_UP || !urxe_fabric_alive(host))
		phys = PHYS_POLLING;
	return snprintf(buf, len, "%u: %s\n", phys, names[phys]);
}

/* As the kernel's rate_show(): tenths of Gb/s a lane. */
SHOW(rate)
{
	static const struct {
		const char *name;
		unsigned rate;
	} speeds[FABRIC_NUM_SPEEDS] = {{"SDR", 25},  {"DDR", 50},  {"QDR", 100}, {"FDR10", 100},
				       {"FDR", 140}, {"EDR", 250}, {"HDR", 500}, {"NDR", 1000}};
	static const unsigned lanes[] = {1, 4, 8, 12, 2};
	unsigned i = 0, rate, speed = fabric_port_speed(port);

	while (i < 4 && !(port->info[PI_WIDTH_ACTIVE] & 1u << i))
		i++;
	rate = speeds[speed].rate * lanes[i];
	return snprintf(buf, len, "%u%s Gb/sec (%uX %s)\n", rate / 10, rate % 10 ? ".5" : "",
			lanes[i], speeds[speed].name);
}

SHOW(lid)
{
	return snprintf(buf, len, "0x%x\n", fabric_port_lid(port));
}

SHOW(lid_mask_count)
{
	return snprintf(buf, len, "%u\n", fabric_port_lmc(port));
}

SHOW(sm_lid)
{
	return snprintf(buf, len, "0x%x\n", get16(port->info + PI_SM_LID));
}

SHOW(sm_sl)
{
	return snprintf(buf, len, "%u\n", lo4(port->info[PI_MTU_SMSL]));
}

SHOW(cap_mask)
{
	return snprintf(buf, len, "0x%08x\n", get32(port->info + PI_CAP));
}

SHOW(pkey)
{
	const uint16_t *keys = (const uint16_t *)fabric_map_bytes(host->map, port->pkeys);

	return snprintf(buf, len, "0x%04x\n", slot < port->pkey_cap ? keys[slot] : 0);
}

SHOW(gid)
{
	const uint64_t *guids = (const uint64_t *)fabric_map_bytes(host->map, port->guids);
	uint64_t prefix = get64(port->info + PI_PREFIX), guid = slot ? guids[slot] : port->guid;
	ssize_t n = print_guid(prefix, buf, len);

	if (!guid && slot)
		return snprintf(buf, len, "0000:0000:0000:0000:0000:0000:0000:0000\n");
	buf[n - 1] = ':';
	return n + print_guid(guid, buf + n, len - n);
}

SHOW(gid_type)
{
	const uint64_t *guids = (const uint64_t *)fabric_map_bytes(host->map, port->guids);

	return !slot || guids[slot] ? snprintf(buf, len, "IB/RoCE v1\n") : -EINVAL;
}

static ssize_t show_mad_dev(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	dev_t rdev = urxe_sysfs_mad_rdev(node);

	return snprintf(buf, len, "%u:%u\n", major(rdev), minor(rdev));
}

static ssize_t show_name(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "urxe%u\n", adapter_of(node));
}

static ssize_t show_port(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "%u\n", port_of(node));
}

static ssize_t show_verbs_dev(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "%u:%u\n", MAD_MAJOR, VERBS_MINOR + adapter_of(node));
}

static ssize_t show_uevent(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "NAME=urxe%u\n", adapter_of(node));
}

/* ---- links ---- */

static ssize_t link_device(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "../../../urxe%u", adapter_of(node));
}

static ssize_t link_class(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/%s/infiniband/%s", node->name,
			node->name);
}

static ssize_t link_class_mad(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/urxe%u/infiniband_mad/%s",
			adapter_of(node), node->name);
}

static ssize_t link_class_verbs(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/urxe%u/infiniband_verbs/%s",
			adapter_of(node), node->name);
}

/* ---- the tables ---- */

static bool numbered(const struct urxe_sysfs_node *parent, struct urxe_sysfs_node *node, unsigned i,
		     unsigned n, urxe_sysfs_show_fn *show)
{
	if (i >= n)
		return false;
	node->type = URXE_SYSFS_FILE;
	node->show = show;
	node->index = index_of(adapter_of(parent), port_of(parent), i);
	snprintf(node->name, sizeof(node->name), "%u", i);
	return true;
}

static bool more_gids(const struct urxe_sysfs_node *parent, unsigned i,
		      struct urxe_sysfs_node *node)
{
	return numbered(parent, node, i, SHOWN_GUIDS, show_gid);
}

static bool more_types(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	return numbered(parent, node, i, SHOWN_GUIDS, show_gid_type);
}

static bool more_pkeys(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	return numbered(parent, node, i, SHOWN_PKEYS, show_pkey);
}

/* As the kernel's sysfs.c has them: offsets and widths, in bits, in the attribute. */
static const struct counter {
	const char *name;
	uint16_t attribute, at, bits;
} counters[] = {
	{"VL15_dropped", ATTR_COUNTERS, 176, 16},
	{"excessive_buffer_overrun_errors", ATTR_COUNTERS, 156, 4},
	{"link_downed", ATTR_COUNTERS, 56, 8},
	{"link_error_recovery", ATTR_COUNTERS, 48, 8},
	{"local_link_integrity_errors", ATTR_COUNTERS, 152, 4},
	{"multicast_rcv_packets", ATTR_COUNTERS_EXT, 512, 64},
	{"multicast_xmit_packets", ATTR_COUNTERS_EXT, 448, 64},
	{"port_rcv_constraint_errors", ATTR_COUNTERS, 136, 8},
	{"port_rcv_data", ATTR_COUNTERS_EXT, 128, 64},
	{"port_rcv_errors", ATTR_COUNTERS, 64, 16},
	{"port_rcv_packets", ATTR_COUNTERS_EXT, 256, 64},
	{"port_rcv_remote_physical_errors", ATTR_COUNTERS, 80, 16},
	{"port_rcv_switch_relay_errors", ATTR_COUNTERS, 96, 16},
	{"port_xmit_constraint_errors", ATTR_COUNTERS, 128, 8},
	{"port_xmit_data", ATTR_COUNTERS_EXT, 64, 64},
	{"port_xmit_discards", ATTR_COUNTERS, 112, 16},
	{"port_xmit_packets", ATTR_COUNTERS_EXT, 192, 64},
	{"port_xmit_wait", ATTR_COUNTERS, 320, 32},
	{"symbol_error", ATTR_COUNTERS, 32, 16},
	{"unicast_rcv_packets", ATTR_COUNTERS_EXT, 384, 64},
	{"unicast_xmit_packets", ATTR_COUNTERS_EXT, 320, 64},
};

static ssize_t show_counter(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	const struct counter *c = &counters[slot_of(node)];
	const struct urxe_fabric_host *host;
	const struct fabric_node *hca;
	const struct fabric_port *port;
	struct fabric_counters answer;
	const uint8_t *at = answer.mad + PMA_DATA + c->at / 8;
	uint64_t value;
	int ret;

	if (!find(node, &host, &hca, &port))
		return -ENODEV;
	ret = urxe_fabric_counters(hca->first_port + port_of(node), c->attribute, &answer);
	if (ret)
		return ret;
	switch (c->bits) {
	case 4: value = c->at % 8 ? lo4(*at) : hi4(*at); break;
	case 8: value = *at; break;
	case 16: value = get16(at); break;
	case 32: value = get32(at); break;
	default: value = get64(at);
	}
	return snprintf(buf, len, "%" PRIu64 "\n", value);
}

static bool more_counters(const struct urxe_sysfs_node *parent, unsigned i,
			  struct urxe_sysfs_node *node)
{
	if (!numbered(parent, node, i, sizeof(counters) / sizeof(*counters), show_counter))
		return false;
	snprintf(node->name, sizeof(node->name), "%s", counters[i].name);
	return true;
}

static const struct urxe_sysfs_dir dir_counters = {.more = more_counters};
static const struct urxe_sysfs_dir dir_gids = {.more = more_gids};
static const struct urxe_sysfs_dir dir_types = {.more = more_types};
static const struct urxe_sysfs_dir dir_pkeys = {.more = more_pkeys};

static const struct urxe_sysfs_attr gid_attrs[] = {DIRECTORY("types", &dir_types), END};
static const struct urxe_sysfs_dir dir_gid_attrs = {.fixed = gid_attrs};

static const struct urxe_sysfs_attr port[] = {
	FILE_SHOW("cap_mask", show_cap_mask),
	DIRECTORY("counters", &dir_counters),
	DIRECTORY("gid_attrs", &dir_gid_attrs),
	DIRECTORY("gids", &dir_gids),
	FILE_SHOW("lid", show_lid),
	FILE_SHOW("lid_mask_count", show_lid_mask_count),
	FILE_TEXT("link_layer", "InfiniBand\n"),
	FILE_SHOW("phys_state", show_phys_state),
	DIRECTORY("pkeys", &dir_pkeys),
	FILE_SHOW("rate", show_rate),
	FILE_SHOW("sm_lid", show_sm_lid),
	FILE_SHOW("sm_sl", show_sm_sl),
	FILE_SHOW("state", show_state),
	END,
};
static const struct urxe_sysfs_dir dir_port = {.fixed = port};

static bool more_ports(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	const struct fabric_node *hca = adapter(urxe_fabric_host(), adapter_of(parent));

	if (!hca || i >= hca->num_ports)
		return false;
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_port;
	node->index = index_of(adapter_of(parent), i + 1, 0);
	snprintf(node->name, sizeof(node->name), "%u", i + 1);
	return true;
}

static const struct urxe_sysfs_dir dir_ports = {.more = more_ports};

static const struct urxe_sysfs_attr device[] = {
	FILE_TEXT("board_id", "urxe\n"),
	{.name = "device", .type = URXE_SYSFS_LINK, .show = link_device},
	FILE_TEXT("fw_ver", URXE_VERSION "\n"),
	FILE_SHOW("hca_type", show_hca_type),
	FILE_TEXT("hw_rev", "0\n"),
	FILE_SHOW("node_desc", show_node_desc),
	FILE_SHOW("node_guid", show_node_guid),
	FILE_SHOW("node_type", show_node_type),
	DIRECTORY("ports", &dir_ports),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband"),
	FILE_SHOW("sys_image_guid", show_system_guid),
	FILE_SHOW("uevent", show_uevent),
	END,
};
static const struct urxe_sysfs_dir dir_device = {.fixed = device};

static const struct urxe_sysfs_attr mad[] = {
	FILE_SHOW("dev", show_mad_dev),
	{.name = "device", .type = URXE_SYSFS_LINK, .show = link_device},
	FILE_SHOW("ibdev", show_name),
	FILE_SHOW("port", show_port),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband_mad"),
	END,
};
static const struct urxe_sysfs_dir dir_mad = {.fixed = mad};

static const struct urxe_sysfs_attr verbs[] = {
	FILE_TEXT("abi_version", "1\n"),
	FILE_SHOW("dev", show_verbs_dev),
	{.name = "device", .type = URXE_SYSFS_LINK, .show = link_device},
	FILE_SHOW("ibdev", show_name),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband_verbs"),
	END,
};
static const struct urxe_sysfs_dir dir_verbs = {.fixed = verbs};

/* The uverbs of an adapter, as verbs_device.c numbers it. */
static bool name_verbs(unsigned adapter_index, struct urxe_sysfs_node *node)
{
	if (!adapter(urxe_fabric_host(), adapter_index))
		return false;
	node->index = index_of(adapter_index, 0, 0);
	snprintf(node->name, sizeof(node->name), "uverbs%u", adapter_index);
	return true;
}

static bool device_verbs(const struct urxe_sysfs_node *parent, unsigned i,
			 struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_verbs;
	return !i && name_verbs(adapter_of(parent), node);
}

static bool device_entry(const struct urxe_sysfs_node *parent, unsigned i,
			 struct urxe_sysfs_node *node)
{
	if (i)
		return false;
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_device;
	node->index = parent->index;
	snprintf(node->name, sizeof(node->name), "urxe%u", adapter_of(parent));
	return true;
}

/* umadN and issmN, in turn. */
static void name_mad(struct urxe_sysfs_node *node, unsigned i, unsigned number, unsigned port_num,
		     unsigned adapter_index)
{
	node->index = index_of(adapter_index, port_num, i % 2);
	snprintf(node->name, sizeof(node->name), "%s%u", i % 2 ? "issm" : "umad", number);
}

static bool device_mads(const struct urxe_sysfs_node *parent, unsigned i,
			struct urxe_sysfs_node *node)
{
	unsigned a = adapter_of(parent);
	const struct fabric_node *hca = adapter(urxe_fabric_host(), a);

	if (!hca || i / 2 >= hca->num_ports)
		return false;
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_mad;
	name_mad(node, i, umad_of(a, i / 2 + 1), i / 2 + 1, a);
	return true;
}

static const struct urxe_sysfs_dir dir_device_entry = {.more = device_entry};
static const struct urxe_sysfs_dir dir_device_mads = {.more = device_mads};
static const struct urxe_sysfs_dir dir_device_verbs = {.more = device_verbs};

static const struct urxe_sysfs_attr parent_device[] = {
	DIRECTORY("infiniband", &dir_device_entry),
	DIRECTORY("infiniband_mad", &dir_device_mads),
	DIRECTORY("infiniband_verbs", &dir_device_verbs),
	FILE_TEXT("numa_node", "-1\n"),
	END,
};
static const struct urxe_sysfs_dir dir_parent_device = {.fixed = parent_device};

static bool named(unsigned i, struct urxe_sysfs_node *node)
{
	if (!adapter(urxe_fabric_host(), i))
		return false;
	node->index = index_of(i, 0, 0);
	snprintf(node->name, sizeof(node->name), "urxe%u", i);
	return true;
}

static bool more_devices(const struct urxe_sysfs_node *parent, unsigned i,
			 struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_parent_device;
	return named(i, node);
}

static bool more_class(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_LINK;
	node->show = link_class;
	return named(i, node);
}

static bool each_mad(unsigned i, struct urxe_sysfs_node *node)
{
	unsigned a, port_num;

	if (!umad_port(i / 2, &a, &port_num))
		return false;
	name_mad(node, i, i / 2, port_num, a);
	return true;
}

static bool more_class_mad(const struct urxe_sysfs_node *parent, unsigned i,
			   struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_LINK;
	node->show = link_class_mad;
	return each_mad(i, node);
}

static int open_mad(const struct urxe_sysfs_node *node, int flags)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();
	struct urxe_umad_port of = {.port = port_of(node), .issm = slot_of(node)};

	if (!adapter(host, adapter_of(node)))
		return -ENODEV;
	of.node = host->adapters[adapter_of(node)];
	return urxe_umad_open(&of, flags);
}

/* What a program does with it goes through libibverbs' functions. */
static int open_verbs(const struct urxe_sysfs_node *node, int flags)
{
	return -ENXIO;
}

static bool more_class_verbs(const struct urxe_sysfs_node *parent, unsigned i,
			     struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_LINK;
	node->show = link_class_verbs;
	return name_verbs(i, node);
}

static bool more_dev(const struct urxe_sysfs_node *parent, unsigned i, struct urxe_sysfs_node *node)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();

	node->type = URXE_SYSFS_CHR;
	node->open = open_verbs;
	if (name_verbs(i, node))
		return true;
	i -= host ? host->num_adapters : 0;
	node->open = NULL;
	if (urxe_sysfs_rdma_cm_entry(i, node, URXE_SYSFS_CHR))
		return true;
	node->open = open_mad;
	return each_mad(i - 1, node);
}

dev_t urxe_sysfs_mad_rdev(const struct urxe_sysfs_node *node)
{
	if (!port_of(node))
		return makedev(MAD_MAJOR, VERBS_MINOR + adapter_of(node));
	return makedev(MAD_MAJOR,
		       umad_of(adapter_of(node), port_of(node)) + (slot_of(node) ? ISSM_MINOR : 0));
}

const struct urxe_sysfs_dir urxe_sysfs_fabric_devices = {.more = more_devices};
const struct urxe_sysfs_dir urxe_sysfs_fabric_class = {.more = more_class};

static const struct urxe_sysfs_attr class_verbs[] = {FILE_TEXT("abi_version", "6\n"), END};
const struct urxe_sysfs_dir urxe_sysfs_fabric_class_verbs = {.fixed = class_verbs,
							     .more = more_class_verbs};

static const struct urxe_sysfs_attr class_mad[] = {FILE_TEXT("abi_version", "5\n"), END};
const struct urxe_sysfs_dir urxe_sysfs_fabric_class_mad = {.fixed = class_mad,
							   .more = more_class_mad};

const struct urxe_sysfs_dir urxe_sysfs_fabric_dev = {.more = more_dev};

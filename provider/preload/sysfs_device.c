// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The directory of a device in the sysfs view, and those of its uverbs, umads and issms, in the
 * forms of the kernel's drivers/infiniband/core/sysfs.c: GUIDs as four groups, GIDs as eight,
 * states with their number in front, a newline at the end. Contents are made at the moment of the
 * call; nothing is kept.
 *
 * Any thread. Port and GIDs of a device are read under urxe_device_lock.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "fabric/map.h"
#include "hca/query.h"
#include "preload/rdma_cm.h"
#include "preload/sysfs_device.h"
#include "preload/umad.h"

/* The kernel's major number for umad and uverbs, and the first minors of the latter and of issm. */
#define IB_MAJOR     231
#define ISSM_MINOR   64
#define UVERBS_MINOR 192

#define FABRIC_GIDS 16 /* that are shown on a fabric */

#define SHOW(name) \
	static ssize_t show_##name(const struct urxe_sysfs_node *node, char *buf, size_t len)

/* ---- files of a port ---- */

static int read_port(const struct urxe_sysfs_node *node, struct urxe_port *port)
{
	struct urxe_device *dev = node->device->dev;

	if (!dev)
		return urxe_sysfs_fabric_port(node, port);
	urxe_device_lock();
	*port = dev->ports[node->port - 1];
	urxe_device_unlock();
	return 0;
}

#define SHOW_PORT(name, ...)                                        \
	SHOW(name)                                                  \
	{                                                           \
		struct urxe_port port;                              \
		int ret = read_port(node, &port);                   \
                                                                    \
		return ret ? ret : snprintf(buf, len, __VA_ARGS__); \
	}

static const char *const states[] = {"0: NOP", "1: DOWN", "2: INIT", "3: ARMED", "4: ACTIVE"};

SHOW_PORT(state, "%s\n", states[port.state <= IBV_PORT_ACTIVE ? port.state : IBV_PORT_DOWN])
SHOW_PORT(phys_state, "%s\n", port.state == IBV_PORT_ACTIVE ? "5: LinkUp" : "3: Disabled")
SHOW_PORT(cap_mask, "0x%08x\n", port.kind->sysfs_cap_mask | port.cap_flags)
SHOW_PORT(lid, "0x%x\n", port.lid)
SHOW_PORT(lid_mask_count, "%u\n", port.lmc)
SHOW_PORT(sm_lid, "0x%x\n", port.sm_lid)
SHOW_PORT(sm_sl, "%u\n", port.sm_sl)
SHOW_PORT(link_layer, "%s\n", port.kind->link_layer)
SHOW_PORT(rate, "%s\n", urxe_rate_of(port.speed_mbps)->text)
SHOW_PORT(pkey, "0x%04x\n", port.pkeys[node->index])

static ssize_t print_groups(const void *bytes, unsigned n, char *buf, size_t len)
{
	uint16_t g[8];
	ssize_t at = 0;

	memcpy(g, bytes, n * sizeof(*g));
	for (unsigned i = 0; i < n; i++)
		at += snprintf(buf + at, len - at, "%04x%c", ntohs(g[i]), i + 1 < n ? ':' : '\n');
	return at;
}

ssize_t urxe_sysfs_print_guid(uint64_t guid, char *buf, size_t len)
{
	return print_groups(&guid, 4, buf, len);
}

SHOW(gid)
{
	struct urxe_port port;
	int ret = read_port(node, &port);

	return ret ? ret : print_groups(&port.gids[node->index], 8, buf, len);
}

/* The attributes of an empty slot cannot be read; programs count on EINVAL to tell. */
static bool has_gid(const struct urxe_sysfs_node *node, struct urxe_port *port)
{
	return !read_port(node, port) && !urxe_gid_is_empty(&port->gids[node->index]);
}

SHOW(gid_type)
{
	struct urxe_port port;

	return has_gid(node, &port) ? snprintf(buf, len, "%s\n", port.kind->gid_type_name)
				    : -EINVAL;
}

SHOW(gid_ndev)
{
	struct urxe_port port;

	return has_gid(node, &port) && port.netdev.name[0]
		       ? snprintf(buf, len, "%s\n", port.netdev.name)
		       : -EINVAL;
}

static unsigned num_gids(const struct urxe_sysfs_node *node)
{
	return node->device->dev ? URXE_MAX_GIDS : FABRIC_GIDS;
}

static unsigned num_pkeys(const struct urxe_sysfs_node *node)
{
	struct urxe_device *dev = node->device->dev;

	return dev ? dev->ports[node->port - 1].pkey_len : FABRIC_PKEYS_HCA;
}

static const struct urxe_sysfs_dir gids = {.slots = num_gids, .show = show_gid};
static const struct urxe_sysfs_dir gid_types = {.slots = num_gids, .show = show_gid_type};
static const struct urxe_sysfs_dir gid_ndevs = {.slots = num_gids, .show = show_gid_ndev};
static const struct urxe_sysfs_dir pkeys = {.slots = num_pkeys, .show = show_pkey};

static const struct urxe_sysfs_attr gid_attr_entries[] = {
	DIRECTORY("ndevs", &gid_ndevs),
	DIRECTORY("types", &gid_types),
	END,
};
static const struct urxe_sysfs_dir gid_attrs = {.fixed = gid_attr_entries};

static const struct urxe_sysfs_attr port_entries[] = {
	FILE_SHOW("cap_mask", show_cap_mask),
	DIRECTORY("counters", &urxe_sysfs_counters),
	DIRECTORY("gid_attrs", &gid_attrs),
	DIRECTORY("gids", &gids),
	DIRECTORY("hw_counters", &urxe_sysfs_hw_counters, .netdev = true),
	FILE_SHOW("lid", show_lid),
	FILE_SHOW("lid_mask_count", show_lid_mask_count),
	FILE_SHOW("link_layer", show_link_layer),
	FILE_SHOW("phys_state", show_phys_state, .fabric = urxe_fabric_show_phys_state),
	DIRECTORY("pkeys", &pkeys),
	FILE_SHOW("rate", show_rate, .fabric = urxe_fabric_show_rate),
	FILE_SHOW("sm_lid", show_sm_lid),
	FILE_SHOW("sm_sl", show_sm_sl),
	FILE_SHOW("state", show_state),
	END,
};
static const struct urxe_sysfs_dir port_dir = {.fixed = port_entries};

static bool more_ports(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_DIR;
	node->dir = &port_dir;
	node->port = i + 1;
	snprintf(node->name, sizeof(node->name), "%u", node->port);
	return i < node->device->num_ports;
}

/* ---- files of a device ---- */

SHOW(name)
{
	return snprintf(buf, len, "%s\n", node->device->name);
}

SHOW(guid)
{
	return urxe_sysfs_print_guid(node->device->dev->guid, buf, len);
}

bool urxe_sysfs_netdev(const struct urxe_sysfs_node *node, char name[IF_NAMESIZE])
{
	name[0] = '\0';
	if (!node->device->dev)
		return false;
	urxe_device_lock();
	memcpy(name, node->device->dev->ports[0].netdev.name, IF_NAMESIZE);
	urxe_device_unlock();
	return name[0];
}

SHOW(netdev)
{
	char name[IF_NAMESIZE];

	urxe_sysfs_netdev(node, name);
	return snprintf(buf, len, "%s\n", name);
}

SHOW(uevent)
{
	return snprintf(buf, len, "NAME=%s\n", node->device->name);
}

SHOW(device)
{
	return snprintf(buf, len, "../../../%s", node->device->name);
}

static const struct urxe_sysfs_dir ports = {.more = more_ports};

static const struct urxe_sysfs_attr device_entries[] = {
	FILE_TEXT("board_id", "urxe\n"),
	LINK_SHOW("device", show_device),
	FILE_TEXT("fw_ver", URXE_VERSION "\n"),
	FILE_TEXT("hca_type", "urxe\n", .fabric = urxe_fabric_show_hca_type),
	FILE_TEXT("hw_rev", "0\n"),
	FILE_SHOW("node_desc", show_name, .fabric = urxe_fabric_show_node_desc),
	FILE_SHOW("node_guid", show_guid, .fabric = urxe_fabric_show_node_guid),
	FILE_TEXT("node_type", "1: CA\n", .fabric = urxe_fabric_show_node_type),
	FILE_SHOW("parent", show_netdev, .netdev = true),
	DIRECTORY("ports", &ports),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband"),
	FILE_SHOW("sys_image_guid", show_guid, .fabric = urxe_fabric_show_system_guid),
	FILE_SHOW("uevent", show_uevent),
	END,
};
static const struct urxe_sysfs_dir device_dir = {.fixed = device_entries};

/* ---- character devices ---- */

dev_t urxe_sysfs_rdev(const struct urxe_sysfs_node *node)
{
	return node->rdev ? node->rdev : urxe_rdma_cm_rdev();
}

SHOW(dev)
{
	dev_t rdev = urxe_sysfs_rdev(node);

	return snprintf(buf, len, "%u:%u\n", major(rdev), minor(rdev));
}

SHOW(port_num)
{
	return snprintf(buf, len, "%u\n", node->port);
}

SHOW(chr_uevent)
{
	dev_t rdev = urxe_sysfs_rdev(node);
	unsigned n = minor(rdev);
	ssize_t at = snprintf(buf, len, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/", major(rdev), n);

	if (!node->rdev)
		return at + snprintf(buf + at, len - at, "rdma_cm\nDEVMODE=0666\n");
	if (n >= UVERBS_MINOR)
		return at + snprintf(buf + at, len - at, "uverbs%u\n", n - UVERBS_MINOR);
	return at + snprintf(buf + at, len - at, "%s%u\n", node->index ? "issm" : "umad",
			     n - (node->index ? ISSM_MINOR : 0));
}

static const struct urxe_sysfs_attr verbs_entries[] = {
	FILE_TEXT("abi_version", "1\n"),
	FILE_SHOW("dev", show_dev),
	LINK_SHOW("device", show_device),
	FILE_SHOW("ibdev", show_name),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband_verbs"),
	FILE_SHOW("uevent", show_chr_uevent),
	END,
};
static const struct urxe_sysfs_dir verbs_dir = {.fixed = verbs_entries};

static const struct urxe_sysfs_attr mad_entries[] = {
	FILE_SHOW("dev", show_dev),
	LINK_SHOW("device", show_device),
	FILE_SHOW("ibdev", show_name),
	FILE_SHOW("port", show_port_num),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband_mad"),
	FILE_SHOW("uevent", show_chr_uevent),
	END,
};
static const struct urxe_sysfs_dir mad_dir = {.fixed = mad_entries};

static const struct urxe_sysfs_attr rdma_cm_entries[] = {
	FILE_TEXT("abi_version", "4\n"),
	FILE_SHOW("dev", show_dev),
	LINK_TEXT("subsystem", "../../../../class/misc"),
	FILE_SHOW("uevent", show_chr_uevent),
	END,
};
const struct urxe_sysfs_dir urxe_sysfs_rdma_cm_dir = {.fixed = rdma_cm_entries};

/* ---- the kinds ---- */

static bool adapter_entry(struct urxe_sysfs_node *node, unsigned i)
{
	strcpy(node->name, node->device->name);
	return !i;
}

static bool verbs_entry(struct urxe_sysfs_node *node, unsigned i)
{
	node->rdev = makedev(IB_MAJOR, UVERBS_MINOR + node->device->uverbs);
	snprintf(node->name, sizeof(node->name), "uverbs%u", node->device->uverbs);
	return !i;
}

/* On a fabric umadN and issmN, in turn. */
static bool mad_entry(struct urxe_sysfs_node *node, unsigned i)
{
	unsigned each = node->device->dev ? 1 : 2, number = node->device->first_umad + i / each;

	node->port = i / each + 1;
	node->index = i % each;
	node->rdev = makedev(IB_MAJOR, number + (node->index ? ISSM_MINOR : 0));
	snprintf(node->name, sizeof(node->name), "%s%u", node->index ? "issm" : "umad", number);
	return node->port <= node->device->num_ports;
}

static int open_mad(const struct urxe_sysfs_node *node, int flags)
{
	struct urxe_device *dev = node->device->dev;

	if (!dev)
		return urxe_sysfs_fabric_open(node, flags);
	return urxe_umad_open(&(struct urxe_umad_port){.roce = &dev->ports[0], .port = 1}, flags);
}

const struct urxe_sysfs_kind urxe_sysfs_adapters = {"infiniband", &device_dir, adapter_entry};
const struct urxe_sysfs_kind urxe_sysfs_verbs = {"infiniband_verbs", &verbs_dir, verbs_entry};
const struct urxe_sysfs_kind urxe_sysfs_mads = {"infiniband_mad", &mad_dir, mad_entry, open_mad};

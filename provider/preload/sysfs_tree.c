// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What there is in the sysfs view, as tables, and the devices it is about, which are found anew
 * when it is looked at and kept as a snapshot. What each file contains is in sysfs_show.c.
 *
 * Any thread.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/fabric.h"
#include "host/segment.h"
#include "preload/files.h"
#include "preload/sysfs_attr.h"
#include "preload/umad.h"

static _Atomic(const struct urxe_sysfs_devices *) snapshot;

/* One above the highest uverbsN or umadN that the kernel has, so that our numbers are nobody
 * else's. */
static int first_free(const char *class, const char *format)
{
	int first = 0;
	struct dirent *e;
	DIR *dir = urxe_files_kernel_opendir(class);

	if (!dir)
		return 0;
	while ((e = readdir(dir))) {
		int n;

		if (sscanf(e->d_name, format, &n) == 1 && n >= first)
			first = n + 1;
	}
	closedir(dir);
	return first;
}

const struct urxe_sysfs_devices *urxe_sysfs_refresh(void)
{
	static const struct urxe_sysfs_devices none;
	const struct urxe_sysfs_devices *old = atomic_load(&snapshot);
	struct urxe_sysfs_devices now, *fresh;

	if (urxe_fabric_wanted()) {
		urxe_fabric_host();
		return &none;
	}
	memset(&now, 0, sizeof(now));
	now.first_uverbs = first_free("/sys/class/infiniband_verbs", "uverbs%d");
	now.first_umad = first_free("/sys/class/infiniband_mad", "umad%d");
	now.len = urxe_devices(now.dev, URXE_MAX_DEVICES);
	if (now.len < 0) {
		now.len = 0;
		memset(now.dev, 0, sizeof(now.dev));
	}
	urxe_device_lock();
	for (int i = 0; i < now.len; i++)
		memcpy(now.netdev[i], now.dev[i]->ports[0].netdev.name, IF_NAMESIZE);
	urxe_device_unlock();

	if (old && !memcmp(old, &now, sizeof(now)))
		return old;
	fresh = malloc(sizeof(*fresh));
	if (!fresh)
		return old ? old : &none;
	*fresh = now;
	atomic_store(&snapshot, fresh);
	return fresh;
}

const struct urxe_sysfs_devices *urxe_sysfs_devices(void)
{
	const struct urxe_sysfs_devices *devs = atomic_load(&snapshot);

	return devs ? devs : urxe_sysfs_refresh();
}

static unsigned uverbs_of(const struct urxe_device *dev)
{
	return urxe_sysfs_devices()->first_uverbs + dev->index;
}

/* A RoCE device has one port. */
static unsigned umad_of(const struct urxe_device *dev)
{
	return urxe_sysfs_devices()->first_umad + dev->index;
}

static void set_entry(struct urxe_sysfs_node *node, enum urxe_sysfs_type type, const char *name)
{
	node->type = type;
	snprintf(node->name, sizeof(node->name), "%s", name);
}

static bool numbered(struct urxe_sysfs_node *node, unsigned i, unsigned n, urxe_sysfs_show_fn *show)
{
	if (i >= n)
		return false;
	node->type = URXE_SYSFS_FILE;
	node->show = show;
	node->index = i;
	snprintf(node->name, sizeof(node->name), "%u", i);
	return true;
}

static bool more_gids(const struct urxe_sysfs_node *parent, unsigned i,
		      struct urxe_sysfs_node *node)
{
	return numbered(node, i, URXE_MAX_GIDS, urxe_show_gid);
}

static bool more_types(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	return numbered(node, i, URXE_MAX_GIDS, urxe_show_gid_type);
}

static bool more_ndevs(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	return numbered(node, i, URXE_MAX_GIDS, urxe_show_gid_ndev);
}

static const struct urxe_sysfs_dir dir_gids = {.more = more_gids};
static const struct urxe_sysfs_dir dir_types = {.more = more_types};
static const struct urxe_sysfs_dir dir_ndevs = {.more = more_ndevs};

static const struct urxe_sysfs_attr gid_attrs[] = {
	DIRECTORY("ndevs", &dir_ndevs),
	DIRECTORY("types", &dir_types),
	END,
};
static const struct urxe_sysfs_dir dir_gid_attrs = {.fixed = gid_attrs};

static bool more_pkeys(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	return numbered(node, i, node->port->pkey_len, urxe_show_pkey);
}

static const struct urxe_sysfs_dir dir_pkeys = {.more = more_pkeys};

static const struct urxe_sysfs_attr counters[] = {
	FILE_TEXT("VL15_dropped", "0\n"),
	FILE_TEXT("excessive_buffer_overrun_errors", "0\n"),
	FILE_INDEX("link_downed", urxe_show_port_counter, URXE_PORT_DOWNED),
	FILE_TEXT("link_error_recovery", "0\n"),
	FILE_TEXT("local_link_integrity_errors", "0\n"),
	FILE_TEXT("multicast_rcv_packets", "0\n"),
	FILE_TEXT("multicast_xmit_packets", "0\n"),
	FILE_TEXT("port_rcv_constraint_errors", "0\n"),
	FILE_INDEX("port_rcv_data", urxe_show_port_counter, URXE_PORT_RCV_DATA),
	FILE_INDEX("port_rcv_errors", urxe_show_port_counter, URXE_PORT_RCV_ERRORS),
	FILE_INDEX("port_rcv_packets", urxe_show_port_counter, URXE_PORT_RCV_PACKETS),
	FILE_TEXT("port_rcv_remote_physical_errors", "0\n"),
	FILE_TEXT("port_rcv_switch_relay_errors", "0\n"),
	FILE_TEXT("port_xmit_constraint_errors", "0\n"),
	FILE_INDEX("port_xmit_data", urxe_show_port_counter, URXE_PORT_XMIT_DATA),
	FILE_INDEX("port_xmit_discards", urxe_show_port_counter, URXE_PORT_XMIT_DISCARDS),
	FILE_INDEX("port_xmit_packets", urxe_show_port_counter, URXE_PORT_XMIT_PACKETS),
	FILE_TEXT("port_xmit_wait", "0\n"),
	FILE_TEXT("symbol_error", "0\n"),
	FILE_INDEX("unicast_rcv_packets", urxe_show_port_counter, URXE_PORT_RCV_PACKETS),
	FILE_INDEX("unicast_xmit_packets", urxe_show_port_counter, URXE_PORT_XMIT_PACKETS),
	END,
};
static const struct urxe_sysfs_dir dir_counters = {.fixed = counters};

#define HW_COUNTER(id, name) FILE_INDEX(#name, urxe_show_hw_counter, URXE_CNT_##id),
static const struct urxe_sysfs_attr hw_counters[] = {
	URXE_COUNTERS(HW_COUNTER) FILE_TEXT("lifespan", "10\n"),
	END,
};
#undef HW_COUNTER
static const struct urxe_sysfs_dir dir_hw_counters = {.fixed = hw_counters};

static const struct urxe_sysfs_attr port[] = {
	FILE_SHOW("cap_mask", urxe_show_cap_mask),
	DIRECTORY("counters", &dir_counters),
	DIRECTORY("gid_attrs", &dir_gid_attrs),
	DIRECTORY("gids", &dir_gids),
	DIRECTORY("hw_counters", &dir_hw_counters),
	FILE_SHOW("lid", urxe_show_lid),
	FILE_SHOW("lid_mask_count", urxe_show_lid_mask_count),
	FILE_SHOW("link_layer", urxe_show_link_layer),
	FILE_SHOW("phys_state", urxe_show_phys_state),
	DIRECTORY("pkeys", &dir_pkeys),
	FILE_SHOW("rate", urxe_show_rate),
	FILE_SHOW("sm_lid", urxe_show_sm_lid),
	FILE_SHOW("sm_sl", urxe_show_sm_sl),
	FILE_SHOW("state", urxe_show_state),
	END,
};
static const struct urxe_sysfs_dir dir_port = {.fixed = port};

static bool more_ports(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	if (i >= node->dev->num_ports)
		return false;
	node->port = &node->dev->ports[i];
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_port;
	snprintf(node->name, sizeof(node->name), "%u", node->port->num);
	return true;
}

static const struct urxe_sysfs_dir dir_ports = {.more = more_ports};

static const struct urxe_sysfs_attr device[] = {
	FILE_TEXT("board_id", "urxe\n"),
	{.name = "device", .type = URXE_SYSFS_LINK, .show = urxe_show_device},
	FILE_TEXT("fw_ver", URXE_VERSION "\n"),
	FILE_TEXT("hca_type", "urxe\n"),
	FILE_TEXT("hw_rev", "0\n"),
	FILE_SHOW("node_desc", urxe_show_name),
	FILE_SHOW("node_guid", urxe_show_guid),
	FILE_TEXT("node_type", "1: CA\n"),
	FILE_SHOW("parent", urxe_show_netdev),
	DIRECTORY("ports", &dir_ports),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband"),
	FILE_SHOW("sys_image_guid", urxe_show_guid),
	FILE_SHOW("uevent", urxe_show_uevent),
	END,
};
static const struct urxe_sysfs_dir dir_device = {.fixed = device};

static const struct urxe_sysfs_attr uverbs[] = {
	FILE_TEXT("abi_version", "1\n"),
	FILE_SHOW("dev", urxe_show_uverbs_dev),
	{.name = "device", .type = URXE_SYSFS_LINK, .show = urxe_show_device},
	FILE_SHOW("ibdev", urxe_show_name),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband_verbs"),
	FILE_SHOW("uevent", urxe_show_uverbs_uevent),
	END,
};
static const struct urxe_sysfs_dir dir_uverbs = {.fixed = uverbs};

static const struct urxe_sysfs_attr umad[] = {
	FILE_SHOW("dev", urxe_show_umad_dev),
	{.name = "device", .type = URXE_SYSFS_LINK, .show = urxe_show_device},
	FILE_SHOW("ibdev", urxe_show_name),
	FILE_TEXT("port", "1\n"),
	LINK_TEXT("subsystem", "../../../../../../class/infiniband_mad"),
	FILE_SHOW("uevent", urxe_show_umad_uevent),
	END,
};
static const struct urxe_sysfs_dir dir_umad = {.fixed = umad};

static void name_umad(struct urxe_sysfs_node *node, enum urxe_sysfs_type type)
{
	node->type = type;
	node->index = umad_of(node->dev);
	snprintf(node->name, sizeof(node->name), "umad%u", node->index);
}

/* What lies below the parent device: one entry each. */
static bool parent_infiniband(const struct urxe_sysfs_node *parent, unsigned i,
			      struct urxe_sysfs_node *node)
{
	if (i)
		return false;
	set_entry(node, URXE_SYSFS_DIR, node->dev->name);
	node->dir = &dir_device;
	return true;
}

static bool parent_verbs(const struct urxe_sysfs_node *parent, unsigned i,
			 struct urxe_sysfs_node *node)
{
	if (i)
		return false;
	node->type = URXE_SYSFS_DIR;
	node->dir = &dir_uverbs;
	node->index = uverbs_of(node->dev);
	snprintf(node->name, sizeof(node->name), "uverbs%u", node->index);
	return true;
}

static bool parent_mad(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	if (i)
		return false;
	name_umad(node, URXE_SYSFS_DIR);
	node->dir = &dir_umad;
	return true;
}

static bool parent_net(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	if (i || !node->dev->ports[0].netdev.name[0])
		return false;
	set_entry(node, URXE_SYSFS_LINK, "");
	urxe_show_netdev(node, node->name, sizeof(node->name));
	node->name[strcspn(node->name, "\n")] = '\0';
	node->show = urxe_show_class_net;
	return true;
}

static const struct urxe_sysfs_dir dir_parent_infiniband = {.more = parent_infiniband};
static const struct urxe_sysfs_dir dir_parent_mad = {.more = parent_mad};
static const struct urxe_sysfs_dir dir_parent_verbs = {.more = parent_verbs};
static const struct urxe_sysfs_dir dir_parent_net = {.more = parent_net};

static const struct urxe_sysfs_attr parent_device[] = {
	DIRECTORY("infiniband", &dir_parent_infiniband),
	DIRECTORY("infiniband_mad", &dir_parent_mad),
	DIRECTORY("infiniband_verbs", &dir_parent_verbs),
	DIRECTORY("net", &dir_parent_net),
	FILE_SHOW("numa_node", urxe_show_numa_node),
	END,
};
static const struct urxe_sysfs_dir dir_parent_device = {.fixed = parent_device};

/* The directories that hold one entry per device. */
static bool each_device(unsigned i, struct urxe_sysfs_node *node)
{
	const struct urxe_sysfs_devices *devs = urxe_sysfs_devices();

	if (i >= (unsigned)devs->len)
		return false;
	node->dev = devs->dev[i];
	return true;
}

static bool more_devices(const struct urxe_sysfs_node *parent, unsigned i,
			 struct urxe_sysfs_node *node)
{
	if (!each_device(i, node))
		return false;
	set_entry(node, URXE_SYSFS_DIR, node->dev->name);
	node->dir = &dir_parent_device;
	return true;
}

static bool more_class(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	if (!each_device(i, node))
		return false;
	set_entry(node, URXE_SYSFS_LINK, node->dev->name);
	node->show = urxe_show_class_device;
	return true;
}

static bool more_class_verbs(const struct urxe_sysfs_node *parent, unsigned i,
			     struct urxe_sysfs_node *node)
{
	if (!each_device(i, node))
		return false;
	node->type = URXE_SYSFS_LINK;
	node->show = urxe_show_class_uverbs;
	node->index = uverbs_of(node->dev);
	snprintf(node->name, sizeof(node->name), "uverbs%u", node->index);
	return true;
}

static bool more_class_mad(const struct urxe_sysfs_node *parent, unsigned i,
			   struct urxe_sysfs_node *node)
{
	if (!each_device(i, node))
		return false;
	name_umad(node, URXE_SYSFS_LINK);
	node->show = urxe_show_class_umad;
	return true;
}

static int open_umad(const struct urxe_sysfs_node *node, int flags)
{
	const struct urxe_umad_port of = {.roce = &node->dev->ports[0], .port = 1};

	return urxe_umad_open(&of, flags);
}

/* Without a device of ours the connection manager's is the kernel's. */
bool urxe_sysfs_rdma_cm_entry(unsigned i, struct urxe_sysfs_node *node, enum urxe_sysfs_type type)
{
	if (i || (!urxe_fabric_wanted() && !urxe_sysfs_devices()->len))
		return false;
	set_entry(node, type, "rdma_cm");
	return true;
}

/* uverbs of all devices, umads of all, rdma_cm. */
static bool more_dev(const struct urxe_sysfs_node *parent, unsigned i, struct urxe_sysfs_node *node)
{
	unsigned devices = urxe_sysfs_devices()->len;

	if (i == 2 * devices)
		return i && urxe_sysfs_rdma_cm_entry(0, node, URXE_SYSFS_CHR);
	if (i > 2 * devices)
		return false;
	each_device(i % devices, node);
	if (i >= devices) {
		name_umad(node, URXE_SYSFS_CHR);
		node->open = open_umad;
		return true;
	}
	node->type = URXE_SYSFS_CHR;
	node->index = uverbs_of(node->dev);
	snprintf(node->name, sizeof(node->name), "uverbs%u", node->index);
	return true;
}

static const struct urxe_sysfs_dir dir_all_devices = {.more = more_devices};

static const struct urxe_sysfs_dir dir_class_infiniband = {
	.kernel = true,
	.merged = true,
	.more = more_class,
};

static const struct urxe_sysfs_attr class_verbs[] = {FILE_TEXT("abi_version", "6\n"), END};
static const struct urxe_sysfs_dir dir_class_verbs = {
	.kernel = true,
	.merged = true,
	.fixed = class_verbs,
	.more = more_class_verbs,
};

/* libibumad asks for the version before it lists the devices. */
static const struct urxe_sysfs_attr class_mad[] = {FILE_TEXT("abi_version", "5\n"), END};
static const struct urxe_sysfs_dir dir_class_mad = {
	.kernel = true,
	.merged = true,
	.fixed = class_mad,
	.more = more_class_mad,
};

static const struct urxe_sysfs_attr rdma_cm[] = {
	FILE_TEXT("abi_version", "4\n"),
	FILE_SHOW("dev", urxe_show_rdma_cm_dev),
	LINK_TEXT("subsystem", "../../../../class/misc"),
	FILE_SHOW("uevent", urxe_show_rdma_cm_uevent),
	END,
};
static const struct urxe_sysfs_dir dir_rdma_cm = {.fixed = rdma_cm};

static bool more_misc(const struct urxe_sysfs_node *parent, unsigned i,
		      struct urxe_sysfs_node *node)
{
	if (!urxe_sysfs_rdma_cm_entry(i, node, URXE_SYSFS_DIR))
		return false;
	node->dir = &dir_rdma_cm;
	return true;
}

static bool more_class_misc(const struct urxe_sysfs_node *parent, unsigned i,
			    struct urxe_sysfs_node *node)
{
	if (!urxe_sysfs_rdma_cm_entry(i, node, URXE_SYSFS_LINK))
		return false;
	node->text = "../../devices/virtual/misc/rdma_cm";
	return true;
}

static const struct urxe_sysfs_dir dir_misc = {.kernel = true, .more = more_misc};
static const struct urxe_sysfs_dir dir_class_misc = {.kernel = true, .more = more_class_misc};

static const struct urxe_sysfs_dir dir_dev_infiniband = {
	.kernel = true,
	.merged = true,
	.more = more_dev,
};

static const struct urxe_sysfs_attr class[] = {
	EITHER("infiniband", &dir_class_infiniband, &urxe_sysfs_fabric_class),
	EITHER("infiniband_mad", &dir_class_mad, &urxe_sysfs_fabric_class_mad),
	EITHER("infiniband_verbs", &dir_class_verbs, &urxe_sysfs_fabric_class_verbs),
	DIRECTORY("misc", &dir_class_misc),
	END,
};
static const struct urxe_sysfs_dir dir_class = {.kernel = true, .fixed = class};

static const struct urxe_sysfs_attr virtual[] = {
	DIRECTORY("misc", &dir_misc),
	EITHER("urxe", &dir_all_devices, &urxe_sysfs_fabric_devices),
	END,
};
static const struct urxe_sysfs_dir dir_virtual = {.kernel = true, .fixed = virtual};

static const struct urxe_sysfs_attr devices[] = {DIRECTORY("virtual", &dir_virtual), END};
static const struct urxe_sysfs_dir dir_devices = {.kernel = true, .fixed = devices};

static const struct urxe_sysfs_attr sys[] = {
	DIRECTORY("class", &dir_class),
	DIRECTORY("devices", &dir_devices),
	END,
};
static const struct urxe_sysfs_dir dir_sys = {.kernel = true, .fixed = sys};

static const struct urxe_sysfs_attr dev[] = {
	EITHER("infiniband", &dir_dev_infiniband, &urxe_sysfs_fabric_dev), END};
static const struct urxe_sysfs_dir dir_dev = {.kernel = true, .fixed = dev};

static const struct urxe_sysfs_attr root[] = {
	DIRECTORY("dev", &dir_dev),
	DIRECTORY("sys", &dir_sys),
	END,
};
const struct urxe_sysfs_dir urxe_sysfs_root = {.kernel = true, .fixed = root};

static void node_of_attr(const struct urxe_sysfs_attr *attr, struct urxe_sysfs_node *node)
{
	set_entry(node, attr->type, attr->name);
	node->dir = attr->fabric && urxe_fabric_wanted() ? attr->fabric : attr->dir;
	node->show = attr->show;
	node->text = attr->text;
	/* The files of a uverbs keep its number. */
	if (attr->index)
		node->index = attr->index;
}

/* A child belongs to the device and port of its parent, unless it says otherwise. */
static void node_inherit(const struct urxe_sysfs_node *dir, struct urxe_sysfs_node *node)
{
	memset(node, 0, sizeof(*node));
	node->dev = dir->dev;
	node->port = dir->port;
	node->index = dir->index;
}

bool urxe_sysfs_entry(const struct urxe_sysfs_node *dir, unsigned i, struct urxe_sysfs_node *node)
{
	const struct urxe_sysfs_attr *attr = dir->dir->fixed;

	node_inherit(dir, node);
	for (; attr && attr->name; attr++)
		if (!i--) {
			node_of_attr(attr, node);
			return true;
		}
	return dir->dir->more && dir->dir->more(dir, i, node);
}

bool urxe_sysfs_lookup(const struct urxe_sysfs_node *dir, const char *name,
		       struct urxe_sysfs_node *node)
{
	const struct urxe_sysfs_attr *attr = dir->dir->fixed;

	node_inherit(dir, node);
	for (; attr && attr->name; attr++)
		if (!strcmp(attr->name, name)) {
			node_of_attr(attr, node);
			return true;
		}
	for (unsigned i = 0; dir->dir->more; i++) {
		node_inherit(dir, node);
		if (!dir->dir->more(dir, i, node))
			break;
		if (!strcmp(node->name, name))
			return true;
	}
	return false;
}

ssize_t urxe_sysfs_show(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	if (node->text)
		return snprintf(buf, len, "%s", node->text);
	return node->show(node, buf, len);
}

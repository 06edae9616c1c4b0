// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The directories of the sysfs view, as tables, and the devices it is about, which are found anew
 * when it is looked at and kept as a snapshot. What the directory of a device holds is in
 * sysfs_device.c.
 *
 * Any thread.
 */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/fabric.h"
#include "host/sysinfo.h"
#include "preload/files.h"
#include "preload/rdma_cm.h"
#include "preload/sysfs_device.h"

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

/* Those on netdevs, which have one port each. */
static void find_devices(struct urxe_sysfs_devices *now)
{
	int first_umad = first_free("/sys/class/infiniband_mad", "umad%d"), n;
	struct urxe_device *devs[URXE_MAX_DEVICES];

	now->first_uverbs = first_free("/sys/class/infiniband_verbs", "uverbs%d");
	n = urxe_devices(devs, URXE_MAX_DEVICES);
	now->len = n < 0 ? 0 : n;
	urxe_device_lock();
	for (unsigned i = 0; i < now->len; i++) {
		struct urxe_sysfs_device *d = &now->at[i];

		d->dev = devs[i];
		d->num_ports = devs[i]->num_ports;
		d->first_umad = first_umad + devs[i]->index;
		d->uverbs = now->first_uverbs + devs[i]->index;
		strcpy(d->name, devs[i]->name);
		strcpy(d->netdev, devs[i]->ports[0].netdev.name);
	}
	urxe_device_unlock();
}

const struct urxe_sysfs_devices *urxe_sysfs_refresh(void)
{
	static const struct urxe_sysfs_devices none;
	const struct urxe_sysfs_devices *old = atomic_load(&snapshot);
	struct urxe_sysfs_devices now, *fresh;

	memset(&now, 0, sizeof(now));
	if (urxe_fabric_wanted())
		urxe_sysfs_fabric_devices(&now);
	else
		find_devices(&now);
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

static void set_entry(struct urxe_sysfs_node *node, enum urxe_sysfs_type type, const char *name)
{
	node->type = type;
	snprintf(node->name, sizeof(node->name), "%s", name);
}

/* ---- links to devices ---- */

static ssize_t show_class(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/%s/%s/%s", node->device->name,
			node->kind->class, node->name);
}

/* Entry *i of all devices together; false: *i is how many there are fewer. */
static bool nth(const struct urxe_sysfs_kind *kind, unsigned *i, struct urxe_sysfs_node *node)
{
	const struct urxe_sysfs_devices *devices = urxe_sysfs_devices();

	node->kind = kind;
	for (unsigned d = 0; d < devices->len; d++) {
		node->device = &devices->at[d];
		for (unsigned k = 0; kind->entry(node, k); k++)
			if (!(*i)--)
				return true;
	}
	return false;
}

static bool more_class(const struct urxe_sysfs_node *parent, unsigned i,
		       struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_LINK;
	node->show = show_class;
	return nth(parent->dir->kind, &i, node);
}

static const struct urxe_sysfs_dir class_infiniband = {
	.merged = true,
	.kind = &urxe_sysfs_adapters,
	.more = more_class,
};

static const struct urxe_sysfs_attr class_verbs_entries[] = {FILE_TEXT("abi_version", "6\n"), END};
static const struct urxe_sysfs_dir class_verbs = {
	.merged = true,
	.fixed = class_verbs_entries,
	.kind = &urxe_sysfs_verbs,
	.more = more_class,
};

/* libibumad asks for the version before it lists the devices. */
static const struct urxe_sysfs_attr class_mad_entries[] = {FILE_TEXT("abi_version", "5\n"), END};
static const struct urxe_sysfs_dir class_mad = {
	.merged = true,
	.fixed = class_mad_entries,
	.kind = &urxe_sysfs_mads,
	.more = more_class,
};

/* ---- the parents of devices ---- */

static ssize_t show_class_net(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "../../../../../class/net/%s", node->name);
}

static bool more_net(const struct urxe_sysfs_node *parent, unsigned i, struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_LINK;
	node->show = show_class_net;
	return !i && urxe_sysfs_netdev(node, node->name);
}

/* Of the netdev's device or, as for virtio, of the bus device above it; -1 where nobody says. */
static ssize_t show_numa_node(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	static const char *const places[] = {"device", "device/.."};
	char path[64 + IF_NAMESIZE], name[IF_NAMESIZE];
	bool found = false;

	for (unsigned i = 0; i < 2 && urxe_sysfs_netdev(node, name) && !found; i++) {
		snprintf(path, sizeof(path), "/sys/class/net/%s/%s/numa_node", name, places[i]);
		found = urxe_read_file(path, buf, len) > 0;
	}
	return found ? (ssize_t)strlen(buf) : snprintf(buf, len, "-1\n");
}

static bool more_of_device(const struct urxe_sysfs_node *parent, unsigned i,
			   struct urxe_sysfs_node *node)
{
	node->kind = parent->dir->kind;
	node->type = URXE_SYSFS_DIR;
	node->dir = node->kind->dir;
	return node->kind->entry(node, i);
}

static const struct urxe_sysfs_dir of_infiniband = {
	.kind = &urxe_sysfs_adapters,
	.more = more_of_device,
};
static const struct urxe_sysfs_dir of_mad = {.kind = &urxe_sysfs_mads, .more = more_of_device};
static const struct urxe_sysfs_dir of_verbs = {.kind = &urxe_sysfs_verbs, .more = more_of_device};
static const struct urxe_sysfs_dir of_net = {.more = more_net};

static const struct urxe_sysfs_attr parent_entries[] = {
	DIRECTORY("infiniband", &of_infiniband),  DIRECTORY("infiniband_mad", &of_mad),
	DIRECTORY("infiniband_verbs", &of_verbs), DIRECTORY("net", &of_net, .netdev = true),
	FILE_SHOW("numa_node", show_numa_node),	  END,
};
static const struct urxe_sysfs_dir parent_dir = {.fixed = parent_entries};

static bool more_parents(const struct urxe_sysfs_node *parent, unsigned i,
			 struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_DIR;
	node->dir = &parent_dir;
	return nth(&urxe_sysfs_adapters, &i, node);
}

static const struct urxe_sysfs_dir parents = {.more = more_parents};

/* ---- the connection manager's device, and /dev ---- */

/* Without a device of ours it is the kernel's. */
static bool rdma_cm_entry(unsigned i, struct urxe_sysfs_node *node, enum urxe_sysfs_type type)
{
	set_entry(node, type, "rdma_cm");
	return !i && (urxe_fabric_wanted() || urxe_sysfs_devices()->len);
}

static int open_rdma_cm(const struct urxe_sysfs_node *node, int flags)
{
	return urxe_rdma_cm_open(flags);
}

static bool more_dev(const struct urxe_sysfs_node *parent, unsigned i, struct urxe_sysfs_node *node)
{
	static const struct urxe_sysfs_kind *const kinds[] = {&urxe_sysfs_verbs, &urxe_sysfs_mads};

	node->type = URXE_SYSFS_CHR;
	for (unsigned k = 0; k < 2; k++) {
		node->open = kinds[k]->open;
		if (nth(kinds[k], &i, node))
			return true;
	}
	node->open = open_rdma_cm;
	node->device = NULL;
	node->rdev = 0;
	return rdma_cm_entry(i, node, URXE_SYSFS_CHR);
}

static bool more_misc(const struct urxe_sysfs_node *parent, unsigned i,
		      struct urxe_sysfs_node *node)
{
	node->dir = &urxe_sysfs_rdma_cm_dir;
	return rdma_cm_entry(i, node, URXE_SYSFS_DIR);
}

static bool more_class_misc(const struct urxe_sysfs_node *parent, unsigned i,
			    struct urxe_sysfs_node *node)
{
	node->text = "../../devices/virtual/misc/rdma_cm";
	return rdma_cm_entry(i, node, URXE_SYSFS_LINK);
}

static const struct urxe_sysfs_dir misc = {.kernel = true, .more = more_misc};
static const struct urxe_sysfs_dir class_misc = {.kernel = true, .more = more_class_misc};
static const struct urxe_sysfs_dir dev_infiniband = {.merged = true, .more = more_dev};

/* ---- what the kernel has too ---- */

static const struct urxe_sysfs_attr class_entries[] = {
	DIRECTORY("infiniband", &class_infiniband),
	DIRECTORY("infiniband_mad", &class_mad),
	DIRECTORY("infiniband_verbs", &class_verbs),
	DIRECTORY("misc", &class_misc),
	END,
};
static const struct urxe_sysfs_dir class_dir = {.kernel = true, .fixed = class_entries};

static const struct urxe_sysfs_attr virtual_entries[] = {
	DIRECTORY("misc", &misc),
	DIRECTORY("urxe", &parents),
	END,
};
static const struct urxe_sysfs_dir virtual_dir = {.kernel = true, .fixed = virtual_entries};

static const struct urxe_sysfs_attr devices_entries[] = {DIRECTORY("virtual", &virtual_dir), END};
static const struct urxe_sysfs_dir devices_dir = {.kernel = true, .fixed = devices_entries};

static const struct urxe_sysfs_attr sys_entries[] = {
	DIRECTORY("class", &class_dir),
	DIRECTORY("devices", &devices_dir),
	END,
};
static const struct urxe_sysfs_dir sys_dir = {.kernel = true, .fixed = sys_entries};

static const struct urxe_sysfs_attr dev_entries[] = {DIRECTORY("infiniband", &dev_infiniband), END};
static const struct urxe_sysfs_dir dev_dir = {.kernel = true, .fixed = dev_entries};

static const struct urxe_sysfs_attr root_entries[] = {
	DIRECTORY("dev", &dev_dir),
	DIRECTORY("sys", &sys_dir),
	END,
};
const struct urxe_sysfs_dir urxe_sysfs_root = {.kernel = true, .fixed = root_entries};

/* ---- entries of a directory ---- */

bool urxe_sysfs_merged(const struct urxe_sysfs_dir *dir)
{
	return dir->merged && !urxe_fabric_wanted();
}

static void node_of_attr(const struct urxe_sysfs_attr *attr, struct urxe_sysfs_node *node)
{
	bool fabric = attr->fabric && !node->device->dev;

	set_entry(node, attr->type, attr->name);
	node->dir = attr->dir;
	node->show = fabric ? attr->fabric : attr->show;
	node->text = fabric ? NULL : attr->text;
	/* The files of an issm keep its mark. */
	if (attr->index)
		node->index = attr->index;
}

/* A child belongs to the device and port of its parent, unless it says otherwise. */
static void node_inherit(const struct urxe_sysfs_node *dir, struct urxe_sysfs_node *node)
{
	memset(node, 0, sizeof(*node));
	node->device = dir->device;
	node->rdev = dir->rdev;
	node->port = dir->port;
	node->index = dir->index;
}

static bool slot(const struct urxe_sysfs_node *dir, unsigned i, struct urxe_sysfs_node *node)
{
	node->type = URXE_SYSFS_FILE;
	node->show = dir->dir->show;
	node->index = i;
	snprintf(node->name, sizeof(node->name), "%u", i);
	return i < dir->dir->slots(dir);
}

bool urxe_sysfs_entry(const struct urxe_sysfs_node *dir, unsigned i, struct urxe_sysfs_node *node)
{
	const struct urxe_sysfs_attr *attr = dir->dir->fixed;

	node_inherit(dir, node);
	for (; attr && attr->name; attr++)
		if (!(attr->netdev && !dir->device->dev) && !i--) {
			node_of_attr(attr, node);
			return true;
		}
	if (dir->dir->slots)
		return slot(dir, i, node);
	return dir->dir->more && dir->dir->more(dir, i, node);
}

bool urxe_sysfs_lookup(const struct urxe_sysfs_node *dir, const char *name,
		       struct urxe_sysfs_node *node)
{
	for (unsigned i = 0; urxe_sysfs_entry(dir, i, node); i++)
		if (!strcmp(node->name, name))
			return true;
	return false;
}

ssize_t urxe_sysfs_show(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	if (node->text)
		return snprintf(buf, len, "%s", node->text);
	return node->show(node, buf, len);
}

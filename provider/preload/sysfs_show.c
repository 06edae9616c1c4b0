// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What each file of the sysfs view contains, in the forms of the kernel's
 * drivers/infiniband/core/sysfs.c: GUIDs as four groups, GIDs as eight, states with their number in
 * front, a newline at the end. Contents are made from the device at the moment of the call; nothing
 * is kept.
 *
 * Any thread. Port and GIDs of a device are read under urxe_device_lock.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "hca/query.h"
#include "host/libc.h"
#include "host/segment.h"
#include "preload/rdma_cm.h"
#include "preload/sysfs_show.h"

/* The kernel's major number for umad and uverbs, and the first minor of the latter. */
#define UVERBS_MAJOR 231
#define UVERBS_MINOR 192

/* The one character device that belongs to no adapter. */
bool urxe_sysfs_is_rdma_cm(const struct urxe_sysfs_node *node)
{
	return node->type == URXE_SYSFS_CHR && !node->dev && !node->open;
}

dev_t urxe_sysfs_rdev(const struct urxe_sysfs_node *node)
{
	if (node->open)
		return node->dev ? makedev(UVERBS_MAJOR, node->index) : urxe_sysfs_mad_rdev(node);
	if (urxe_sysfs_is_rdma_cm(node))
		return urxe_rdma_cm_rdev();
	return makedev(UVERBS_MAJOR, UVERBS_MINOR + node->index);
}

#define SHOW(name) \
	ssize_t urxe_show_##name(const struct urxe_sysfs_node *node, char *buf, size_t len)

static ssize_t print_guid(uint64_t guid, char *buf, size_t len)
{
	uint16_t g[4];

	memcpy(g, &guid, sizeof(g));
	return snprintf(buf, len, "%04x:%04x:%04x:%04x\n", ntohs(g[0]), ntohs(g[1]), ntohs(g[2]),
			ntohs(g[3]));
}

SHOW(guid)
{
	return print_guid(node->dev->guid, buf, len);
}

SHOW(name)
{
	return snprintf(buf, len, "%s\n", node->dev->name);
}

SHOW(netdev)
{
	char name[IF_NAMESIZE];

	urxe_device_lock();
	memcpy(name, node->dev->ports[0].netdev.name, sizeof(name));
	urxe_device_unlock();
	return snprintf(buf, len, "%s\n", name);
}

SHOW(uevent)
{
	return snprintf(buf, len, "NAME=%s\n", node->dev->name);
}

static bool is_active(const struct urxe_sysfs_node *node)
{
	bool active;

	urxe_device_lock();
	active = node->port->state == IBV_PORT_ACTIVE;
	urxe_device_unlock();
	return active;
}

SHOW(state)
{
	return snprintf(buf, len, "%s\n", is_active(node) ? "4: ACTIVE" : "1: DOWN");
}

SHOW(phys_state)
{
	return snprintf(buf, len, "%s\n", is_active(node) ? "5: LinkUp" : "3: Disabled");
}

#define SHOW_PORT(name, format, field)                         \
	SHOW(name)                                             \
	{                                                      \
		unsigned value;                                \
                                                               \
		urxe_device_lock();                            \
		value = node->port->field;                     \
		urxe_device_unlock();                          \
		return snprintf(buf, len, format "\n", value); \
	}

SHOW_PORT(cap_mask, "0x%08x", kind->sysfs_cap_mask)
SHOW_PORT(lid, "0x%x", lid)
SHOW_PORT(lid_mask_count, "%u", lmc)
SHOW_PORT(sm_lid, "0x%x", sm_lid)
SHOW_PORT(sm_sl, "%u", sm_sl)
SHOW_PORT(pkey, "0x%04x", pkeys[node->index])

SHOW(link_layer)
{
	return snprintf(buf, len, "%s\n", node->port->kind->link_layer);
}

SHOW(rate)
{
	uint32_t mbps;

	urxe_device_lock();
	mbps = node->port->speed_mbps;
	urxe_device_unlock();
	return snprintf(buf, len, "%s\n", urxe_rate_of(mbps)->text);
}

SHOW(gid)
{
	uint16_t g[8];
	union ibv_gid gid;

	urxe_port_gid(node->port, node->index, &gid);
	memcpy(g, &gid, sizeof(g));
	return snprintf(buf, len, "%04x:%04x:%04x:%04x:%04x:%04x:%04x:%04x\n", ntohs(g[0]),
			ntohs(g[1]), ntohs(g[2]), ntohs(g[3]), ntohs(g[4]), ntohs(g[5]),
			ntohs(g[6]), ntohs(g[7]));
}

/* The attributes of an empty slot cannot be read; programs count on EINVAL to tell. */
static bool gid_is_empty(const struct urxe_sysfs_node *node)
{
	union ibv_gid gid;

	return !urxe_port_gid(node->port, node->index, &gid);
}

SHOW(gid_type)
{
	return gid_is_empty(node) ? -EINVAL
				  : snprintf(buf, len, "%s\n", node->port->kind->gid_type_name);
}

SHOW(gid_ndev)
{
	bool none = gid_is_empty(node) || !node->port->netdev.name[0];

	return none ? -EINVAL : urxe_show_netdev(node, buf, len);
}

static void counters_get(const struct urxe_port *port, uint64_t sum[URXE_NUM_COUNTERS])
{
	struct urxe_segment *seg;

	memset(sum, 0, sizeof(*sum) * URXE_NUM_COUNTERS);
	if (urxe_segment_view(&seg))
		return; /* nobody has opened a device yet */
	urxe_segment_counters_sum(seg, port->index, sum);
	urxe_segment_leave(seg);
}

SHOW(hw_counter)
{
	uint64_t sum[URXE_NUM_COUNTERS];

	counters_get(node->port, sum);
	return snprintf(buf, len, "%llu\n", (unsigned long long)sum[node->index]);
}

SHOW(port_counter)
{
	uint64_t sum[URXE_NUM_COUNTERS];
	uint64_t v = 0;

	counters_get(node->port, sum);
	switch ((enum urxe_port_counter)node->index) {
	case URXE_PORT_XMIT_DATA: v = sum[URXE_CNT_SENT_BYTES] / 4; break;
	case URXE_PORT_RCV_DATA: v = sum[URXE_CNT_RCVD_BYTES] / 4; break;
	case URXE_PORT_XMIT_PACKETS: v = sum[URXE_CNT_SENT_PKTS]; break;
	case URXE_PORT_RCV_PACKETS: v = sum[URXE_CNT_RCVD_PKTS]; break;
	case URXE_PORT_RCV_ERRORS: v = sum[URXE_CNT_ICRC_ERR] + sum[URXE_CNT_RCVD_BAD]; break;
	case URXE_PORT_XMIT_DISCARDS: v = sum[URXE_CNT_SEND_ERR]; break;
	case URXE_PORT_DOWNED: v = sum[URXE_CNT_LINK_DOWNED]; break;
	}
	return snprintf(buf, len, "%llu\n", (unsigned long long)v);
}

SHOW(uverbs_dev)
{
	return snprintf(buf, len, "%d:%d\n", UVERBS_MAJOR, UVERBS_MINOR + (int)node->index);
}

SHOW(umad_dev)
{
	return snprintf(buf, len, "%d:%u\n", UVERBS_MAJOR, node->index);
}

SHOW(umad_uevent)
{
	return snprintf(buf, len, "MAJOR=%d\nMINOR=%u\nDEVNAME=infiniband/umad%u\n", UVERBS_MAJOR,
			node->index, node->index);
}

SHOW(uverbs_uevent)
{
	return snprintf(buf, len, "MAJOR=%d\nMINOR=%d\nDEVNAME=infiniband/uverbs%u\n", UVERBS_MAJOR,
			UVERBS_MINOR + (int)node->index, node->index);
}

SHOW(rdma_cm_dev)
{
	dev_t rdev = urxe_rdma_cm_rdev();

	return snprintf(buf, len, "%u:%u\n", major(rdev), minor(rdev));
}

SHOW(rdma_cm_uevent)
{
	dev_t rdev = urxe_rdma_cm_rdev();

	return snprintf(buf, len, "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666\n",
			major(rdev), minor(rdev));
}

/* Of the netdev's device or, as for virtio, of the bus device above it; -1 where nobody says. */
SHOW(numa_node)
{
	static const char *const places[] = {"device", "device/.."};
	char path[64 + IF_NAMESIZE], name[IF_NAMESIZE];
	ssize_t n = -1;

	urxe_show_netdev(node, name, sizeof(name));
	name[strcspn(name, "\n")] = '\0';
	for (unsigned i = 0; i < 2 && n <= 0; i++) {
		int fd;

		snprintf(path, sizeof(path), "/sys/class/net/%s/%s/numa_node", name, places[i]);
		fd = urxe_libc.open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		n = urxe_libc.read(fd, buf, len);
		urxe_libc.close(fd);
	}
	return n > 0 ? n : snprintf(buf, len, "-1\n");
}

SHOW(device)
{
	return snprintf(buf, len, "../../../%s", node->dev->name);
}

SHOW(class_device)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/%s/infiniband/%s", node->dev->name,
			node->dev->name);
}

SHOW(class_umad)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/%s/infiniband_mad/umad%u",
			node->dev->name, node->index);
}

SHOW(class_uverbs)
{
	return snprintf(buf, len, "../../devices/virtual/urxe/%s/infiniband_verbs/uverbs%u",
			node->dev->name, node->index);
}

SHOW(class_net)
{
	return snprintf(buf, len, "../../../../../class/net/%s", node->name);
}

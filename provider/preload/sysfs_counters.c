// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The counters of a port in the sysfs view. Under "counters" are those of the standard
 * (PortCounters and PortCountersExtended, IBTA vol. 1, 16.1.3.5 and 16.1.4.11): on a fabric what
 * performance management reads, else those of our own that mean the same, and 0 where there is
 * none. Under "hw_counters" are our own, of all processes of the host together. Any thread.
 */
#include <inttypes.h>
#include <string.h>

#include "fabric/mad.h"
#include "host/segment.h"
#include "preload/sysfs_device.h"

#define OWN(id) (UINT64_C(1) << URXE_CNT_##id)

static const struct counter {
	const char *name;
	uint16_t attribute, at, bits; /* where the attribute has it, in bits */
	uint64_t own;		      /* the sum of these */
	unsigned unit;		      /* of which one counts that many; 0: 1 */
} counters[] = {
	{"VL15_dropped", ATTR_COUNTERS, 176, 16},
	{"excessive_buffer_overrun_errors", ATTR_COUNTERS, 156, 4},
	{"link_downed", ATTR_COUNTERS, 56, 8, OWN(LINK_DOWNED)},
	{"link_error_recovery", ATTR_COUNTERS, 48, 8},
	{"local_link_integrity_errors", ATTR_COUNTERS, 152, 4},
	{"multicast_rcv_packets", ATTR_COUNTERS_EXT, 512, 64},
	{"multicast_xmit_packets", ATTR_COUNTERS_EXT, 448, 64},
	{"port_rcv_constraint_errors", ATTR_COUNTERS, 136, 8},
	{"port_rcv_data", ATTR_COUNTERS_EXT, 128, 64, OWN(RCVD_BYTES), 4},
	{"port_rcv_errors", ATTR_COUNTERS, 64, 16, OWN(ICRC_ERR) | OWN(RCVD_BAD)},
	{"port_rcv_packets", ATTR_COUNTERS_EXT, 256, 64, OWN(RCVD_PKTS)},
	{"port_rcv_remote_physical_errors", ATTR_COUNTERS, 80, 16},
	{"port_rcv_switch_relay_errors", ATTR_COUNTERS, 96, 16},
	{"port_xmit_constraint_errors", ATTR_COUNTERS, 128, 8},
	{"port_xmit_data", ATTR_COUNTERS_EXT, 64, 64, OWN(SENT_BYTES), 4},
	{"port_xmit_discards", ATTR_COUNTERS, 112, 16, OWN(SEND_ERR)},
	{"port_xmit_packets", ATTR_COUNTERS_EXT, 192, 64, OWN(SENT_PKTS)},
	{"port_xmit_wait", ATTR_COUNTERS, 320, 32},
	{"symbol_error", ATTR_COUNTERS, 32, 16},
	{"unicast_rcv_packets", ATTR_COUNTERS_EXT, 384, 64, OWN(RCVD_PKTS)},
	{"unicast_xmit_packets", ATTR_COUNTERS_EXT, 320, 64, OWN(SENT_PKTS)},
};

static uint64_t sum_own(const struct urxe_sysfs_node *node, uint64_t which)
{
	uint64_t all[URXE_NUM_COUNTERS] = {0}, sum = 0;
	struct urxe_segment *seg;

	if (urxe_segment_view(&seg))
		return 0; /* nobody has opened a device yet */
	urxe_segment_counters_sum(seg, node->device->dev->ports[node->port - 1].index, all);
	urxe_segment_leave(seg);
	for (unsigned i = 0; i < URXE_NUM_COUNTERS; i++)
		sum += which >> i & 1 ? all[i] : 0;
	return sum;
}

static ssize_t show_counter(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	const struct counter *c = &counters[node->index];
	uint64_t value;
	int ret = 0;

	if (node->device->dev)
		value = sum_own(node, c->own) / (c->unit ? c->unit : 1);
	else
		ret = urxe_sysfs_fabric_counter(node, c->attribute, c->at, c->bits, &value);
	return ret ? ret : snprintf(buf, len, "%" PRIu64 "\n", value);
}

static bool more_counters(const struct urxe_sysfs_node *parent, unsigned i,
			  struct urxe_sysfs_node *node)
{
	if (i >= sizeof(counters) / sizeof(*counters))
		return false;
	node->type = URXE_SYSFS_FILE;
	node->show = show_counter;
	node->index = i;
	strcpy(node->name, counters[i].name);
	return true;
}

const struct urxe_sysfs_dir urxe_sysfs_counters = {.more = more_counters};

static ssize_t show_hw_counter(const struct urxe_sysfs_node *node, char *buf, size_t len)
{
	return snprintf(buf, len, "%" PRIu64 "\n", sum_own(node, UINT64_C(1) << node->index));
}

#define HW_COUNTER(id, name) FILE_SHOW(#name, show_hw_counter, .index = URXE_CNT_##id),
static const struct urxe_sysfs_attr hw_counters[] = {
	URXE_COUNTERS(HW_COUNTER) FILE_TEXT("lifespan", "10\n"),
	END,
};

const struct urxe_sysfs_dir urxe_sysfs_hw_counters = {.fixed = hw_counters};

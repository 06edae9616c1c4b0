// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A link layer for fuzzers: addresses are GIDs, everybody is on this host, and there is one port,
 * which packets out of a ring are not for. A path that another process names is of that port. */
#include <string.h>

#include "host/segment.h"
#include "wire/link.h"

/* As in a network namespace's segment. */
struct urxe_slots urxe_slots = {.last = URXE_SLOT_LAST};

void urxe_device_lock(void)
{
}

void urxe_device_unlock(void)
{
}

static int resolve(struct urxe_path *path, const struct urxe_port *port,
		   const struct ibv_ah_attr *attr, uint32_t hash)
{
	unsigned source = attr->grh.sgid_index < port->gid_len ? attr->grh.sgid_index : 0;

	(void)hash;
	memset(path, 0, sizeof(*path));
	memcpy(&path->src, &port->gids[source], sizeof(path->src));
	memcpy(&path->dst, &attr->grh.dgid, sizeof(path->dst));
	path->port = port->index;
	path->here = true;
	return 0;
}

static void gids(const struct urxe_path *path, union ibv_gid *src, union ibv_gid *dst)
{
	memcpy(src, &path->src, sizeof(*src));
	memcpy(dst, &path->dst, sizeof(*dst));
}

static int describe(const struct urxe_path *path, struct ibv_ah_attr *attr)
{
	union ibv_gid src;

	memset(attr, 0, sizeof(*attr));
	gids(path, &src, &attr->grh.dgid);
	attr->is_global = 1;
	attr->port_num = 1;
	return 0;
}

static void reverse(struct urxe_path *back, const struct urxe_path *came)
{
	*back = *came;
	back->src = came->dst;
	back->dst = came->src;
}

static void adjust(struct urxe_path *path, const struct ibv_ah_attr *attr)
{
	path->seen[0] = attr->grh.traffic_class;
}

static void arrive(struct urxe_wire *wire, struct urxe_path *path)
{
	(void)wire;
	path->port = URXE_NO_PORT;
	path->multicast = false;
}

static bool adopt(struct urxe_wire *wire, struct urxe_path *path)
{
	(void)wire;
	path->port = 0;
	return urxe_port(path->port);
}

static bool is_named(const struct urxe_link_addr *addr, const union ibv_gid *gid, uint16_t lid)
{
	(void)lid;
	return !memcmp(addr, gid, sizeof(*addr));
}

static void received(const struct urxe_rx_packet *pkt, uint8_t grh[40], struct urxe_link_wc *wc)
{
	(void)pkt;
	memset(grh, 0, 40);
	*wc = (struct urxe_link_wc){.grh = true};
}

static void group(struct urxe_link_addr *addr, const union ibv_gid *gid)
{
	memcpy(addr, gid, sizeof(*addr));
}

static const struct urxe_link_ops fuzz_link = {
	.has_other_ways = true,
	.resolve = resolve,
	.describe = describe,
	.reverse = reverse,
	.adjust = adjust,
	.adopt = adopt,
	.arrive = arrive,
	.gids = gids,
	.is_named = is_named,
	.received = received,
	.group = group,
};

void urxe_refused(const struct urxe_rx_packet *rx, bool qkey)
{
	(void)rx;
	(void)qkey;
}

const struct urxe_link_ops *const urxe_links[URXE_NUM_LINKS] = {
	[URXE_LINK_ROCE] = &fuzz_link,
	[URXE_LINK_FABRIC] = &fuzz_link,
};

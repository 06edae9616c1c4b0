/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ethernet addresses of what GIDs name (ibv_resolve_eth_l2_from_gid). Programs that build frames
 * ask for them; our own packets do not need them, because the kernel resolves neighbours when they
 * are sent. Any thread, without a lock.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "hca/engine.h"
#include "host/neigh.h"
#include "host/netdev.h"

#define NEIGHBOUR_NS	  3000000000ull /* as libibverbs waits */
#define NEIGHBOUR_LOOK_US 1000

/* RFC 1112, 6.4 and RFC 2464, 7. */
static void group_mac(const struct in6_addr *group, uint8_t mac[6])
{
	if (IN6_IS_ADDR_V4MAPPED(group)) {
		memcpy(mac, (const uint8_t[]){1, 0, 0x5e, group->s6_addr[13] & 0x7f}, 4);
		memcpy(mac + 4, &group->s6_addr[14], 2);
	} else {
		memset(mac, 0x33, 2);
		memcpy(mac + 2, &group->s6_addr[12], 4);
	}
}

/* What the kernel does not know it is made to look for. 0 or an errno. */
static int neighbour_mac(const struct urxe_path *path, unsigned ifindex, uint8_t mac[6])
{
	static const uint8_t none[6];
	bool scoped = IN6_IS_ADDR_LINKLOCAL(&path->dst.gid);
	uint64_t until = urxe_now() + NEIGHBOUR_NS;

	while (urxe_neigh_mac(&path->src.gid, &path->dst.gid, scoped ? ifindex : 0, mac)) {
		if (urxe_now() > until)
			return EHOSTUNREACH;
		usleep(NEIGHBOUR_LOOK_US);
	}
	return memcmp(mac, none, sizeof(none)) ? 0 : EHOSTUNREACH;
}

int urxe_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t mac[6], uint16_t *vid)
{
	struct urxe_port *port = urxe_context_port(context, attr->port_num);
	struct urxe_path path;
	int ret;

	if (!port || port->kind->verbs_link_layer != IBV_LINK_LAYER_ETHERNET || !attr->is_global)
		return EINVAL;
	ret = -urxe_path_from_av(to_context(context), attr, 0, &path);
	if (ret)
		return ret;
	if (path.multicast)
		group_mac(&path.dst.gid, mac);
	else if (path.here)
		memcpy(mac, port->netdev.mac, sizeof(port->netdev.mac));
	else
		ret = neighbour_mac(&path, urxe_port_ifindex(port), mac);
	if (!ret && vid)
		*vid = urxe_netdev_vlan(port->netdev.name);
	return ret;
}

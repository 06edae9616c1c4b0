/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ethernet addresses of what RoCE paths lead to. Programs that build frames ask for them; our own
 * packets do not need them, because the kernel resolves neighbours when they are sent. Any thread,
 * without a lock.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/neigh.h"
#include "host/netdev.h"
#include "wire/private.h"

#define NEIGHBOUR_NS	  3000000000ull /* as libibverbs waits */
#define NEIGHBOUR_LOOK_US 1000

/* RFC 1112, 6.4 and RFC 2464, 7. */
static void group_mac(const struct in6_addr *group, uint8_t mac[6])
{
	if (urxe_is_ipv4(group)) {
		memcpy(mac, (const uint8_t[]){1, 0, 0x5e, group->s6_addr[13] & 0x7f}, 4);
		memcpy(mac + 4, &group->s6_addr[14], 2);
	} else {
		memset(mac, 0x33, 2);
		memcpy(mac + 2, &group->s6_addr[12], 4);
	}
}

/* What the kernel does not know it is made to look for. 0 or -errno. */
static int neighbour_mac(const struct urxe_path *path, unsigned ifindex, uint8_t mac[6])
{
	static const uint8_t none[6];
	bool scoped = IN6_IS_ADDR_LINKLOCAL(&path->dst.gid);
	uint64_t until = urxe_now() + NEIGHBOUR_NS;

	while (urxe_neigh_look(&path->src.gid, &path->dst.gid, scoped ? ifindex : 0, mac)) {
		if (urxe_now() > until)
			return -EHOSTUNREACH;
		usleep(NEIGHBOUR_LOOK_US);
	}
	return memcmp(mac, none, sizeof(none)) ? 0 : -EHOSTUNREACH;
}

int urxe_roce_ethernet(const struct urxe_path *path, uint8_t mac[6], uint16_t *vlan)
{
	const struct urxe_port *port = urxe_port(path->port);
	int ret = 0;

	if (path->multicast)
		group_mac(&path->dst.gid, mac);
	else if (path->here)
		urxe_port_mac(port, mac);
	else
		ret = neighbour_mac(path, urxe_port_ifindex(port), mac);
	if (!ret)
		*vlan = urxe_netdev_vlan(port->netdev.name);
	return ret;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * IP addresses on a virtual fabric: those that its map gives each port (fabric/ip.h), those of
 * IPoIB (host/ipoib.h), and multicast groups, whose MGIDs are as rdma_cm makes them (RFC 4391,
 * section 4, with a signature of its own). Any thread.
 */
#include "wire/fabric_ip.h"

#include <errno.h>
#include <string.h>

#include "fabric/ip.h"
#include "host/fabric_device.h"
#include "host/ipoib.h"
#include "wire/private.h"

#define NET	  127 /* the first byte of all such addresses */
#define FIRST_NET 77

/* One that the subnet administrator made, for a program to pass on. */
static bool is_mgid(const struct in6_addr *ip)
{
	return (be32toh(ip->s6_addr32[0]) & 0xfff0ffff) == 0xff10a01b;
}

/* ff12:4001:<P_Key>::<28 bits of the group>, ff12:6001:<P_Key>:<80 bits of the group> */
static void mgid_of(const struct urxe_port *port, const struct in6_addr *ip, union ibv_gid *gid)
{
	uint16_t pkey = (port ? urxe_port_pkey(port, 0) : URXE_PKEY_DEFAULT) | URXE_PKEY_FULL;
	bool ipv4 = urxe_is_ipv4(ip);

	if (is_mgid(ip)) {
		memcpy(gid, ip, sizeof(*gid));
		return;
	}
	gid->raw[0] = 0xff;
	gid->raw[1] = 0x12;
	gid->raw[2] = ipv4 ? 0x40 : 0x60;
	gid->raw[3] = 0x01;
	gid->raw[4] = pkey >> 8;
	gid->raw[5] = pkey;
	if (ipv4) {
		memcpy(gid->raw + 12, &ip->s6_addr[12], 4);
		gid->raw[12] &= 0x0f;
	} else {
		memcpy(gid->raw + 6, &ip->s6_addr[6], 10);
	}
}

static int gid_behind_ipoib(const struct in6_addr *ip, union ibv_gid *gid)
{
	struct urxe_ipoib found;
	int ret = urxe_ipoib_look(ip, &found);

	*gid = found.gid;
	return ret;
}

int urxe_fabric_gid_of_ip(const struct urxe_port *port, const struct in6_addr *ip,
			  union ibv_gid *gid)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();
	const struct fabric_port *to;
	uint32_t index;

	memset(gid, 0, sizeof(*gid));
	if (urxe_is_multicast(ip)) {
		mgid_of(port, ip, gid);
		return 0;
	}
	if (!host)
		return -ENETUNREACH;
	if (!urxe_is_ipv4(ip) || ip->s6_addr[12] != NET)
		return gid_behind_ipoib(ip, gid);
	if (ip->s6_addr[13] < FIRST_NET)
		return -ENETUNREACH;
	index = fabric_ip_port(host->map, be32toh(ip->s6_addr32[3]));
	if (index == FABRIC_NONE)
		return -EHOSTUNREACH;
	to = fabric_map_port(host->map, index);
	memcpy(gid, to->info + PI_PREFIX, 8);
	gid->global.interface_id = htobe64(to->guid);
	return to->guid ? 0 : -EHOSTUNREACH;
}

bool urxe_fabric_own_ip(const struct urxe_port *port, bool ipv4, struct in6_addr *ip)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();
	uint32_t index = __atomic_load_n(&port->fabric_port, __ATOMIC_RELAXED), word;

	if (!host || !ipv4 || index >= host->map->num_ports)
		return false;
	word = fabric_ip_of_port(host->map, index);
	*ip = urxe_v4mapped((struct in_addr){htobe32(word)});
	return word;
}

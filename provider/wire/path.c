/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address vectors: from GIDs and traffic attributes to what the sockets want. Any thread: nothing
 * here touches a wire.
 */
#include <errno.h>
#include <string.h>

#include "wire/private.h"

/* IPv4 groups come in two dresses: ::ffff:239.1.2.3 (RoCEv2) and ff0e::ffff:239.1.2.3 (RoCEv1). */
static const uint8_t v4_group_prefix[12] = {0xff, 0x0e, [10] = 0xff, [11] = 0xff};

void urxe_wire_group_addr(struct in6_addr *addr, const union ibv_gid *gid)
{
	memcpy(addr, gid->raw, sizeof(*addr));
	if (!memcmp(gid->raw, v4_group_prefix, sizeof(v4_group_prefix)) &&
	    gid->raw[12] >> 4 == 0xe) {
		addr->s6_addr[0] = 0;
		addr->s6_addr[1] = 0;
	}
}

void urxe_path_sockaddr(union urxe_sockaddr *to, socklen_t *len, const struct in6_addr *addr,
			uint16_t port, unsigned ifindex)
{
	memset(to, 0, sizeof(*to));
	if (urxe_is_ipv4(addr)) {
		to->in.sin_family = AF_INET;
		to->in.sin_port = htons(port);
		to->in.sin_addr.s_addr = addr->s6_addr32[3];
		*len = sizeof(to->in);
		return;
	}
	to->in6.sin6_family = AF_INET6;
	to->in6.sin6_port = htons(port);
	to->in6.sin6_addr = *addr;
	if (IN6_IS_ADDR_LINKLOCAL(addr) || IN6_IS_ADDR_MULTICAST(addr))
		to->in6.sin6_scope_id = ifindex;
	*len = sizeof(to->in6);
}

/* Asks the kernel's routing for a way from here to there. What hinders the asking (no descriptor
 * left) is no answer: the packets will tell. */
static int probe_route(const struct urxe_path *path)
{
	union urxe_sockaddr from, to;
	socklen_t from_len, to_len;
	unsigned ifindex = path->dev->ifindex;
	int domain = urxe_is_ipv4(&path->sgid) ? AF_INET : AF_INET6;
	int fd = urxe_libc.socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return 0;
	urxe_path_sockaddr(&from, &from_len, &path->sgid, 0, ifindex);
	urxe_path_sockaddr(&to, &to_len, &path->dgid, URXE_UDP_PORT, ifindex);
	if (urxe_libc.bind(fd, &from.sa, from_len) || urxe_libc.connect(fd, &to.sa, to_len))
		ret = -EINVAL;
	urxe_libc.close(fd);
	return ret;
}

/* The same link-local address can be a neighbouring host's on another link. */
static bool is_here(const struct urxe_path *path, const struct in6_addr *addr)
{
	bool scoped = IN6_IS_ADDR_LINKLOCAL(addr);

	return urxe_device_has_address(addr, scoped ? path->dev->ifindex : 0);
}

int urxe_wire_path_init(struct urxe_path *path, struct urxe_device *dev, const union ibv_gid *sgid,
			const union ibv_gid *dgid, uint8_t traffic_class, uint8_t hop_limit,
			uint32_t flow_label, uint32_t hash)
{
	*path = (struct urxe_path){
		.dev = dev,
		.flow_label = flow_label & 0xfffff,
		.traffic_class = traffic_class,
		.hop_limit = hop_limit ? hop_limit : 64,
		.source = (hash * 0x9e3779b1u) >> 28,
	};
	static_assert(URXE_SEND_SOCKETS == 1 << 4, "the hash has 4 bits");
	memcpy(&path->sgid, sgid->raw, sizeof(path->sgid));
	urxe_wire_group_addr(&path->dgid, dgid);
	if (urxe_is_ipv4(&path->sgid) != urxe_is_ipv4(&path->dgid) ||
	    IN6_IS_ADDR_UNSPECIFIED(&path->sgid) || IN6_IS_ADDR_UNSPECIFIED(&path->dgid))
		return -EINVAL;
	if (urxe_is_multicast(&path->sgid))
		return -EINVAL;
	if (urxe_is_multicast(&path->dgid))
		return 0;
	path->here = is_here(path, &path->dgid);
	return path->here && is_here(path, &path->sgid) ? 0 : probe_route(path);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* IP addresses as GIDs have them, IPv6 or IPv4-mapped, and as sockets do. Pure functions. */
#ifndef URXE_HOST_ADDRESS_H
#define URXE_HOST_ADDRESS_H

#include <endian.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

static inline bool urxe_is_ipv4(const struct in6_addr *addr)
{
	return IN6_IS_ADDR_V4MAPPED(addr);
}

static inline struct in6_addr urxe_v4mapped(struct in_addr addr)
{
	struct in6_addr mapped = {.s6_addr32 = {0, 0, htobe32(0xffff), addr.s_addr}};

	return mapped;
}

static inline bool urxe_is_multicast(const struct in6_addr *addr)
{
	return urxe_is_ipv4(addr) ? addr->s6_addr[12] >> 4 == 0xe : IN6_IS_ADDR_MULTICAST(addr);
}

union urxe_ip_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* Fills in an address and returns its length; ifindex is the scope of link-local and multicast IPv6
 * addresses. */
static inline socklen_t urxe_ip_sockaddr(union urxe_ip_sockaddr *to, const struct in6_addr *addr,
					 uint16_t port, unsigned ifindex)
{
	memset(to, 0, sizeof(*to));
	if (urxe_is_ipv4(addr)) {
		to->in.sin_family = AF_INET;
		to->in.sin_port = htobe16(port);
		to->in.sin_addr.s_addr = addr->s6_addr32[3];
		return sizeof(to->in);
	}
	to->in6.sin6_family = AF_INET6;
	to->in6.sin6_port = htobe16(port);
	to->in6.sin6_addr = *addr;
	if (IN6_IS_ADDR_LINKLOCAL(addr) || IN6_IS_ADDR_MULTICAST(addr))
		to->in6.sin6_scope_id = ifindex;
	return sizeof(to->in6);
}

#endif

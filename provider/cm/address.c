/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which port has an address, and from where another is reached. The kernel's routes decide: a UDP
 * socket that is connected (which sends nothing) knows its source address. Ports are looked up as
 * last seen, because asking for them anew costs two netlink dumps.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "cm/address.h"
#include "host/libc.h"
#include "host/neigh.h"
#include "wire/wire.h"

unsigned urxe_sockaddr_size(uint16_t family)
{
	switch (family) {
	case AF_INET: return sizeof(struct sockaddr_in);
	case AF_INET6: return sizeof(struct sockaddr_in6);
	case AF_IB: return sizeof(struct urxe_sockaddr_ib);
	default: return 0;
	}
}

uint16_t urxe_sockaddr_port(const union urxe_sockaddr *addr)
{
	switch (addr->family) {
	case AF_INET: return be16toh(addr->v4.sin_port);
	case AF_INET6: return be16toh(addr->v6.sin6_port);
	case AF_IB: return be64toh(addr->ib.sid & addr->ib.sid_mask);
	default: return 0;
	}
}

void urxe_sockaddr_set_port(union urxe_sockaddr *addr, uint16_t port)
{
	switch (addr->family) {
	case AF_INET: addr->v4.sin_port = htobe16(port); break;
	case AF_INET6: addr->v6.sin6_port = htobe16(port); break;
	case AF_IB:
		addr->ib.sid = (addr->ib.sid & addr->ib.sid_mask) | htobe64(port);
		addr->ib.sid_mask = ~(__be64)0;
		break;
	}
}

bool urxe_sockaddr_is_any(const union urxe_sockaddr *addr)
{
	switch (addr->family) {
	case AF_INET: return (be32toh(addr->v4.sin_addr.s_addr) >> 24) == 0;
	case AF_INET6: return IN6_IS_ADDR_UNSPECIFIED(&addr->v6.sin6_addr);
	case AF_IB: return IN6_IS_ADDR_UNSPECIFIED((const struct in6_addr *)&addr->ib.addr);
	default: return false;
	}
}

bool urxe_sockaddr_is_linklocal(const union urxe_sockaddr *addr)
{
	return addr->family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->v6.sin6_addr);
}

void urxe_sockaddr_gid(const union urxe_sockaddr *addr, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	switch (addr->family) {
	case AF_INET:
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &addr->v4.sin_addr, 4);
		break;
	case AF_INET6: memcpy(gid, &addr->v6.sin6_addr, sizeof(*gid)); break;
	case AF_IB: *gid = addr->ib.addr; break;
	}
}

void urxe_sockaddr_of_gid(union urxe_sockaddr *addr, const union ibv_gid *gid, uint16_t port)
{
	memset(addr, 0, sizeof(*addr));
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid)) {
		addr->v4.sin_family = AF_INET;
		memcpy(&addr->v4.sin_addr, gid->raw + 12, 4);
	} else {
		addr->v6.sin6_family = AF_INET6;
		memcpy(&addr->v6.sin6_addr, gid, sizeof(*gid));
	}
	urxe_sockaddr_set_port(addr, port);
}

static struct urxe_port *find(const union urxe_sockaddr *addr)
{
	unsigned scope = urxe_sockaddr_is_linklocal(addr) ? addr->v6.sin6_scope_id : 0;
	union ibv_gid gid;

	urxe_sockaddr_gid(addr, &gid);
	for (unsigned i = 0; i < URXE_MAX_PORTS; i++) {
		struct urxe_port *port = urxe_port(i);

		if (port && !urxe_port_is_gone(port) &&
		    (!scope || scope == urxe_port_ifindex(port)) &&
		    urxe_port_gid_index(port, &gid) >= 0)
			return port;
	}
	return NULL;
}

static void refresh_ports(void)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];

	urxe_devices(devs, URXE_MAX_DEVICES);
}

void urxe_address_prepare(void)
{
	static _Atomic bool prepared;

	if (!atomic_exchange(&prepared, true))
		refresh_ports();
}

struct urxe_port *urxe_address_port(const union urxe_sockaddr *addr, bool refresh)
{
	struct urxe_port *port = find(addr);

	if (port || !refresh)
		return port;
	refresh_ports();
	return find(addr);
}

static int open_socket(const union urxe_sockaddr *addr)
{
	int fd = urxe_libc.socket(addr->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

/* An address that is nobody's own, though sockets can be bound to it. */
static bool is_group(const union urxe_sockaddr *addr)
{
	switch (addr->family) {
	case AF_INET:
		return IN_MULTICAST(be32toh(addr->v4.sin_addr.s_addr)) ||
		       addr->v4.sin_addr.s_addr == INADDR_BROADCAST;
	case AF_INET6: return IN6_IS_ADDR_MULTICAST(&addr->v6.sin6_addr);
	default: return false;
	}
}

/* Why an address that no device has cannot be bound. */
static int why_not(const union urxe_sockaddr *addr)
{
	union urxe_sockaddr any_port = *addr;
	int fd, ret = -ENODEV;

	if (is_group(addr))
		return -EADDRNOTAVAIL;
	fd = open_socket(addr);
	if (fd < 0)
		return fd;
	urxe_sockaddr_set_port(&any_port, 0);
	if (urxe_libc.bind(fd, &any_port.sa, urxe_sockaddr_size(addr->family)))
		ret = -errno;
	urxe_libc.close(fd);
	return ret;
}

/* net.ipv6.bindv6only, as a new socket has it. */
static bool v6only_by_default(void)
{
	int fd = urxe_libc.socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 0;
	socklen_t len = sizeof(on);

	if (fd < 0)
		return false;
	(void)!urxe_libc.getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, &len);
	urxe_libc.close(fd);
	return on;
}

static bool is_loopback(const union urxe_sockaddr *addr)
{
	switch (addr->family) {
	case AF_INET: return be32toh(addr->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
	default: return false;
	}
}

static void set_any(union urxe_sockaddr *addr)
{
	if (addr->family == AF_INET)
		addr->v4.sin_addr.s_addr = INADDR_ANY;
	else
		addr->v6.sin6_addr = in6addr_any;
}

void urxe_address_local(const union urxe_sockaddr *addr, struct urxe_source *found)
{
	memset(found, 0, sizeof(*found));
	found->addr = *addr;
	if (addr->family == AF_INET6)
		found->v6only = v6only_by_default();
	if (urxe_sockaddr_is_any(addr))
		return;
	if (addr->family == AF_IB) { /* RoCE has no LIDs to name */
		found->error = -ENODEV;
		return;
	}
	found->port = urxe_address_port(addr, true);
	if (found->port)
		return;
	/* As in the kernel, a loopback address that no device has is an any-address. */
	if (is_loopback(addr))
		set_any(&found->addr);
	else
		found->error = why_not(addr);
}

/* Gives the address that a port has: the first one of that family. */
static bool take_from(const struct urxe_port *port, union urxe_sockaddr *addr)
{
	union urxe_sockaddr own;
	bool found = false;

	urxe_device_lock();
	for (unsigned i = 0; port->state == IBV_PORT_ACTIVE && i < port->gid_len && !found; i++) {
		urxe_sockaddr_of_gid(&own, &port->gids[i], 0);
		found = own.family == addr->family && !urxe_sockaddr_is_any(&own) &&
			!urxe_sockaddr_is_linklocal(&own);
	}
	urxe_device_unlock();
	if (!found)
		return false;
	urxe_sockaddr_set_port(&own, urxe_sockaddr_port(addr));
	*addr = own;
	return true;
}

void urxe_address_this_host(union urxe_sockaddr *dst)
{
	if (!is_loopback(dst) || urxe_address_port(dst, true))
		return;
	for (unsigned i = 0; i < URXE_MAX_PORTS; i++) {
		const struct urxe_port *port = urxe_port(i);

		if (port && !urxe_port_is_gone(port) && take_from(port, dst))
			return;
	}
}

/* The kernel's choice of source, in found->addr. */
static int route(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
		 union urxe_sockaddr *chosen)
{
	union urxe_sockaddr from = *src, to = *dst;
	unsigned size = urxe_sockaddr_size(dst->family);
	socklen_t len = sizeof(*chosen);
	int fd = open_socket(dst), ret = 0;

	if (fd < 0)
		return fd;
	urxe_sockaddr_set_port(&from, 0);
	urxe_sockaddr_set_port(&to, URXE_UDP_PORT);
	if (!urxe_sockaddr_is_any(src) && urxe_libc.bind(fd, &from.sa, size))
		ret = -errno;
	else if (urxe_libc.connect(fd, &to.sa, size) ||
		 urxe_libc.getsockname(fd, &chosen->sa, &len))
		ret = -errno;
	urxe_libc.close(fd);
	return ret;
}

int urxe_address_look(const union urxe_sockaddr *src, const union urxe_sockaddr *dst)
{
	unsigned ifindex = urxe_sockaddr_is_linklocal(dst) ? dst->v6.sin6_scope_id : 0;
	struct in6_addr from, to;
	union ibv_gid gid;

	urxe_sockaddr_gid(src, &gid);
	memcpy(&from, &gid, sizeof(from));
	urxe_sockaddr_gid(dst, &gid);
	memcpy(&to, &gid, sizeof(to));
	return urxe_neigh_look(&from, &to, ifindex);
}

void urxe_address_source(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
			 struct urxe_source *found)
{
	memset(found, 0, sizeof(*found));
	if (dst->family == AF_IB) {
		found->error = -ENODEV;
		return;
	}
	/* To itself: no need to ask. A multicast group or a remote host has no device here. */
	if (urxe_sockaddr_is_any(src) && (found->port = urxe_address_port(dst, false))) {
		found->addr = *dst;
		urxe_sockaddr_set_port(&found->addr, 0);
		return;
	}
	found->error = route(src, dst, &found->addr);
	if (found->error)
		return;
	urxe_sockaddr_set_port(&found->addr, 0);
	found->port = urxe_address_port(&found->addr, true);
	if (found->port && urxe_address_look(&found->addr, dst))
		found->unresolved = true;
}

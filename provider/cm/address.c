/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which port has an address, and from where another is reached. For ports on netdevs the kernel's
 * routes decide: a UDP socket that is connected (which sends nothing) knows its source address.
 * Ports are looked up as last seen, because asking for them anew costs two netlink dumps.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "cm/address.h"
#include "host/ipoib.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/neigh.h"
#include "wire/headers.h"
#include "wire/link.h"
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

void urxe_sockaddr_in6(const union urxe_sockaddr *addr, struct in6_addr *in6)
{
	memset(in6, 0, sizeof(*in6));
	switch (addr->family) {
	case AF_INET:
		in6->s6_addr[10] = in6->s6_addr[11] = 0xff;
		memcpy(&in6->s6_addr[12], &addr->v4.sin_addr, 4);
		break;
	case AF_INET6: *in6 = addr->v6.sin6_addr; break;
	case AF_IB: memcpy(in6, &addr->ib.addr, sizeof(*in6)); break;
	}
}

void urxe_sockaddr_of_in6(union urxe_sockaddr *addr, const struct in6_addr *in6, uint16_t port)
{
	memset(addr, 0, sizeof(*addr));
	if (IN6_IS_ADDR_V4MAPPED(in6)) {
		addr->v4.sin_family = AF_INET;
		memcpy(&addr->v4.sin_addr, &in6->s6_addr[12], 4);
	} else {
		addr->v6.sin6_family = AF_INET6;
		addr->v6.sin6_addr = *in6;
	}
	urxe_sockaddr_set_port(addr, port);
}

int urxe_address_gid(const struct urxe_port *port, const union urxe_sockaddr *addr,
		     union ibv_gid *gid)
{
	struct in6_addr in6;

	if (addr->family == AF_IB) {
		*gid = addr->ib.addr;
		return 0;
	}
	urxe_sockaddr_in6(addr, &in6);
	return urxe_link_of_port(port)->gid_of_ip(port, &in6, gid);
}

/* One of the addresses that a fabric's map gives, or another one of the machine's own: such are
 * never behind IPoIB. */
static bool is_of_map(const union urxe_sockaddr *addr)
{
	return addr->family == AF_INET && be32toh(addr->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

uint16_t urxe_address_pkey(const struct urxe_port *port, const union urxe_sockaddr *addr)
{
	struct urxe_ipoib ipoib;
	struct in6_addr own;

	if (addr->family == AF_IB && addr->ib.pkey)
		return be16toh(addr->ib.pkey);
	urxe_sockaddr_in6(addr, &own);
	if (addr->family != AF_IB && urxe_link_of_port(port)->ask && !is_of_map(addr) &&
	    !urxe_ipoib_look(&own, &ipoib))
		return ipoib.pkey;
	return urxe_port_pkey(port, 0) | URXE_PKEY_FULL;
}

static bool takes_family(const struct urxe_port *port, uint16_t family)
{
	return family != AF_IB || urxe_link_of_port(port)->has_af_ib;
}

static bool has(const struct urxe_port *port, const union urxe_sockaddr *addr)
{
	union ibv_gid gid;

	return takes_family(port, addr->family) && !urxe_address_gid(port, addr, &gid) &&
	       urxe_port_gid_index(port, &gid) >= 0;
}

static struct urxe_port *find(const union urxe_sockaddr *addr)
{
	unsigned scope = urxe_sockaddr_is_linklocal(addr) ? addr->v6.sin6_scope_id : 0;
	struct urxe_port *port;

	urxe_for_each_port (port)
		if (!urxe_port_is_gone(port) && (!scope || scope == urxe_port_ifindex(port)) &&
		    has(port, addr))
			return port;
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

/*
 * The port that has an address (of IPv6 link-local ones, on that interface), as last seen; NULL.
 * With refresh it looks again when it finds none: then it makes system calls.
 */
static struct urxe_port *port_of(const union urxe_sockaddr *addr, bool refresh)
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

/* Does the fabric that the ports are of say where addresses are? A process has ports of one kind.
 */
static bool asks_fabric(void)
{
	const struct urxe_port *port = urxe_port(0);

	return port && urxe_link_of_port(port)->ask;
}

/* Why an address that no device has cannot be bound. */
static int why_not(const union urxe_sockaddr *addr)
{
	union urxe_sockaddr any_port = *addr;
	int fd, ret = -ENODEV;

	if (is_group(addr) || asks_fabric())
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

/* One of the addresses by which a fabric's hosts know each other. */
static bool is_of_fabric(const union urxe_sockaddr *addr)
{
	union ibv_gid gid;

	return asks_fabric() && urxe_address_gid(urxe_port(0), addr, &gid) != -ENETUNREACH;
}

static bool is_loopback(const union urxe_sockaddr *addr)
{
	switch (addr->family) {
	case AF_INET:
		return be32toh(addr->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET &&
		       !is_of_fabric(addr);
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
	found->port = port_of(addr, true);
	if (found->port)
		return;
	if (addr->family == AF_IB) {
		found->error = -ENODEV;
		return;
	}
	/* As in the kernel, a loopback address that no device has is an any-address. */
	if (is_loopback(addr))
		set_any(&found->addr);
	else
		found->error = why_not(addr);
}

/* Gives the address that a port has: the first one of that family. */
static bool take_from(const struct urxe_port *port, union urxe_sockaddr *addr)
{
	struct in6_addr own;

	if (port->state != IBV_PORT_ACTIVE || !takes_family(port, addr->family))
		return false;
	if (addr->family == AF_IB)
		return urxe_port_gid(port, 0, &addr->ib.addr);
	if (!urxe_link_of_port(port)->own_ip(port, addr->family == AF_INET, &own))
		return false;
	urxe_sockaddr_of_in6(addr, &own, urxe_sockaddr_port(addr));
	return true;
}

void urxe_address_this_host(union urxe_sockaddr *dst)
{
	bool any_gid = dst->family == AF_IB && urxe_sockaddr_is_any(dst);
	const struct urxe_port *port;

	if (!any_gid && (!is_loopback(dst) || port_of(dst, true)))
		return;
	urxe_for_each_port (port)
		if (!urxe_port_is_gone(port) && take_from(port, dst))
			return;
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
	struct urxe_ipoib found;
	uint8_t mac[6];

	urxe_sockaddr_in6(src, &from);
	urxe_sockaddr_in6(dst, &to);
	if (asks_fabric())
		return urxe_ipoib_look(&to, &found) == -EINPROGRESS ? -ENODATA : 0;
	return urxe_neigh_look(&from, &to, ifindex, mac);
}

/* The kernel's routes and neighbours, for ports on netdevs. */
static void source_by_kernel(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
			     struct urxe_source *found)
{
	found->error = route(src, dst, &found->addr);
	if (found->error)
		return;
	found->port = port_of(&found->addr, true);
	if (found->port && urxe_address_look(&found->addr, dst))
		found->unresolved = true;
}

static bool is_active(const struct urxe_port *port)
{
	return !urxe_port_is_gone(port) && port->state == IBV_PORT_ACTIVE;
}

/* How well a port leads to dst, as cma_resolve_ib_dev() of the kernel has it for AF_IB: by its GID,
 * else by the prefix. Any port leads to an IP address of its fabric. 0: not at all. */
static unsigned leads_to(struct urxe_port *port, const union urxe_sockaddr *dst)
{
	union ibv_gid own, gid;

	if (!is_active(port) || !takes_family(port, dst->family) ||
	    urxe_address_gid(port, dst, &gid))
		return 0;
	if (urxe_port_gid_index(port, &gid) >= 0)
		return 2;
	return dst->family != AF_IB || (urxe_port_gid(port, 0, &own) &&
					own.global.subnet_prefix == gid.global.subnet_prefix);
}

/* The address of a port in the family of dst. */
static void set_source(const struct urxe_port *port, const union urxe_sockaddr *dst,
		       union urxe_sockaddr *src)
{
	struct in6_addr own = {0};

	if (dst->family != AF_IB) {
		if (urxe_link_of_port(port)->own_ip(port, dst->family == AF_INET, &own))
			urxe_sockaddr_of_in6(src, &own, 0);
		return;
	}
	src->ib = (struct urxe_sockaddr_ib){
		.family = AF_IB, .pkey = dst->ib.pkey, .scope_id = dst->ib.scope_id};
	urxe_port_gid(port, 0, &src->ib.addr);
}

/* Why no port leads to an IP address of a fabric. */
static int why_unreached(const union urxe_sockaddr *dst)
{
	static _Atomic bool said;
	const struct urxe_port *port;
	union ibv_gid gid;

	urxe_for_each_port (port)
		if (is_active(port))
			return urxe_address_gid(port, dst, &gid) ?: -EADDRNOTAVAIL;
	if (!atomic_exchange(&said, true))
		urxe_log(URXE_LOG_ERROR,
			 "no port of this host is active: a fabric needs a subnet manager "
			 "(urxe run --host HOST -- opensm)");
	return -ENETUNREACH;
}

/* The interface of IPoIB that leads to dst; false: none does, or dst is no IP address. */
static bool source_by_ipoib(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
			    struct urxe_source *found)
{
	struct urxe_ipoib ipoib;
	struct urxe_port *port;
	struct in6_addr to;
	int ret;

	if (dst->family == AF_IB || is_of_map(dst) || is_group(dst))
		return false;
	urxe_sockaddr_in6(dst, &to);
	ret = urxe_ipoib_look(&to, &ipoib);
	if (ret == -ENETUNREACH)
		return false;
	found->addr = *src;
	found->error = ret == -EINPROGRESS ? 0 : ret;
	found->unresolved = ret == -EINPROGRESS;
	urxe_for_each_port (port)
		if (!found->error && is_active(port) &&
		    urxe_port_gid_index(port, &ipoib.own) >= 0 &&
		    (urxe_sockaddr_is_any(src) || has(port, src)))
			found->port = port;
	if (!found->error && !found->port)
		found->error = -EADDRNOTAVAIL;
	if (urxe_sockaddr_is_any(src))
		urxe_sockaddr_of_in6(&found->addr, &ipoib.from, 0);
	return true;
}

/* Without the kernel: a fabric's addresses say where they are. */
static void source_by_port(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
			   struct urxe_source *found)
{
	struct urxe_port *port;
	unsigned best = 0;

	if (source_by_ipoib(src, dst, found))
		return;
	urxe_for_each_port (port) {
		unsigned fit = leads_to(port, dst);

		if (fit > best && (urxe_sockaddr_is_any(src) || has(port, src))) {
			best = fit;
			found->port = port;
		}
	}
	found->addr = *src;
	if (found->port && urxe_sockaddr_is_any(src))
		set_source(found->port, dst, &found->addr);
	if (!found->port)
		found->error = dst->family == AF_IB ? -ENODEV : why_unreached(dst);
}

void urxe_address_source(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
			 struct urxe_source *found)
{
	memset(found, 0, sizeof(*found));
	urxe_address_prepare();
	if (dst->family == AF_IB || asks_fabric()) {
		source_by_port(src, dst, found);
	} else if (urxe_sockaddr_is_any(src) && (found->port = port_of(dst, false))) {
		/* To itself: no need to ask. A multicast group or a remote host has no device here.
		 */
		found->addr = *dst;
	} else {
		source_by_kernel(src, dst, found);
	}
	if (!found->error && found->addr.family != AF_IB)
		urxe_sockaddr_set_port(&found->addr, 0);
}

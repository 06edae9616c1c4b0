/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups. Each (port, group) that is joined has a socket of its own, bound to the
 * group's address: it gets a copy of the group's packets, however many have joined, while the
 * sockets bound to all addresses get none (IP_MULTICAST_ALL is off), so that no packet comes
 * twice. Guarded by the wire's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/fd.h"
#include "wire/private.h"

struct urxe_group {
	struct urxe_group *next;
	const struct urxe_port *port;
	struct in6_addr addr;
	unsigned joins;
	struct urxe_recv_socket sock;
};

static struct urxe_group **find(struct urxe_wire *wire, const struct urxe_port *port,
				const struct in6_addr *addr)
{
	struct urxe_group **link = &wire->groups;

	while (*link && ((*link)->port != port || !IN6_ARE_ADDR_EQUAL(&(*link)->addr, addr)))
		link = &(*link)->next;
	return link;
}

static int join(int fd, const struct in6_addr *addr, unsigned ifindex)
{
	struct group_req req = {.gr_interface = ifindex};
	int level = urxe_is_ipv4(addr) ? IPPROTO_IP : IPPROTO_IPV6;

	urxe_ip_sockaddr((union urxe_ip_sockaddr *)&req.gr_group, addr, 0, ifindex);
	return urxe_libc.setsockopt(fd, level, MCAST_JOIN_GROUP, &req, sizeof(req)) ? -errno : 0;
}

int urxe_roce_join(struct urxe_wire *wire, const struct urxe_port *port,
		   const struct urxe_link_addr *to)
{
	unsigned ifindex = urxe_port_ifindex(port);
	struct in6_addr addr = to->gid;
	struct urxe_group *group, **link;
	int ret;

	if (!urxe_is_multicast(&addr))
		return -EINVAL;
	link = find(wire, port, &addr);
	if (*link) {
		(*link)->joins++;
		return 0;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return -ENOMEM;
	ret = urxe_udp_open_group(&addr, ifindex);
	*group = (struct urxe_group){
		.port = port,
		.addr = addr,
		.joins = 1,
		.sock = {.fd = ret, .vlen = 1, .receive = urxe_receive},
	};
	if (ret >= 0)
		ret = join(group->sock.fd, &addr, ifindex)
			      ?: urxe_wire_watch(wire, group->sock.fd, &group->sock);
	if (!ret) {
		*link = group;
		return 0;
	}
	urxe_fd_close(group->sock.fd);
	free(group);
	return ret;
}

static void close_group(struct urxe_wire *wire, struct urxe_group **link)
{
	struct urxe_group *group = *link;

	*link = group->next;
	urxe_wire_forget(wire, &group->sock);
	urxe_fd_close(group->sock.fd);
	free(group);
}

void urxe_roce_leave(struct urxe_wire *wire, const struct urxe_port *port,
		     const struct urxe_link_addr *to)
{
	struct urxe_group **link = find(wire, port, &to->gid);

	if (*link && !--(*link)->joins)
		close_group(wire, link);
}

void urxe_mcast_close(struct urxe_wire *wire)
{
	while (wire->groups)
		close_group(wire, &wire->groups);
}

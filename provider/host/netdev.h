/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The network devices of this network namespace and their addresses, as the kernel's rtnetlink
 * tells them. A snapshot belongs to its caller; nothing is kept. Any thread.
 */
#ifndef URXE_HOST_NETDEV_H
#define URXE_HOST_NETDEV_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct nlmsghdr;

struct urxe_netdev {
	unsigned ifindex;
	char name[IF_NAMESIZE];
	unsigned flags; /* IFF_UP, IFF_RUNNING, IFF_LOOPBACK … */
	uint32_t mtu;	/* bytes */
	uint8_t mac[6]; /* zeros where there is no 48-bit one */
	bool link_local; /* the kernel gives it a link-local IPv6 address, when it is ready for packets */
};

struct urxe_netaddr {
	unsigned ifindex;
	bool tentative; /* being probed, or fe80:: for one to come: no packet is sent from it yet */
	struct in6_addr addr; /* IPv6, or ::ffff:a.b.c.d */
};

struct urxe_netdevs {
	struct urxe_netdev *devs; /* by ascending ifindex */
	unsigned num_devs;
	struct urxe_netaddr *addrs; /* in the kernel's order */
	unsigned num_addrs;
};

/* One dump of links and one of addresses (those whose probe has failed left out). -errno. */
int urxe_netdevs_load(struct urxe_netdevs *nds);
void urxe_netdevs_free(struct urxe_netdevs *nds);

const struct urxe_netdev *urxe_netdevs_by_index(const struct urxe_netdevs *nds, unsigned ifindex);
const struct urxe_netdev *urxe_netdevs_by_name(const struct urxe_netdevs *nds, const char *name);
/* Has it an address that packets can be sent from? */
bool urxe_netdev_has_address(const struct urxe_netdevs *nds, unsigned ifindex);

/* Mbit/s as the driver says it; 0 where it does not. */
uint32_t urxe_netdev_speed(const char *name);
/* The VLAN that it is of; 0xffff: none. */
uint16_t urxe_netdev_vlan(const char *name);

/* A route netlink socket, in the multicast groups (RTMGRP_…) given; -errno. */
int urxe_netlink_open(uint32_t groups, int flags);
/* Reads what has arrived, once: a length, 0 for a message that did not fit, or -errno. */
ssize_t urxe_netlink_read(int fd, void *buf, size_t len, int flags);
/* The netdev that a link or address message is about; 0 for other messages. */
unsigned urxe_netlink_ifindex(const struct nlmsghdr *nlh);

#define URXE_NETLINK_BUFFER 32768

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's addresses at one moment: this host's and those of its IPoIB neighbours. Reading them
 * waits for the kernel's lock of netdevs, so a worker thread does it. No state.
 */
#ifndef SACACHED_ADDRESS_SNAPSHOT_H
#define SACACHED_ADDRESS_SNAPSHOT_H

#include <ifaddrs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* An address of this host behind IPoIB. */
struct local_address {
	struct in6_addr ip; /* or IPv4-mapped */
	uint8_t gid[16];
	uint16_t pkey;
};

struct neighbour {
	struct in6_addr ip;
	uint8_t gid[16];
	bool gone;
};

/*
 * The IPoIB addresses among those of getifaddrs(): *count of them, to be freed; NULL if there are
 * none, or no memory.
 */
struct local_address *addresses_of_host(const struct ifaddrs *list, unsigned *count);
/* The same, of this host; -errno. */
int addresses_read_local(struct local_address **local, unsigned *count);

/* Parses RTM_NEWNEIGH or RTM_DELNEIGH; gone: the neighbour has no usable GID. False: the message
 * has no address. */
bool neighbour_parse(const struct nlmsghdr *header, struct neighbour *neighbour);
/* All neighbours that have a GID: *count of them, to be freed; -errno. */
int neighbours_read(struct neighbour **neighbours, size_t *count);

/* IPv4-mapped; false: of another family. */
bool address_of(const struct sockaddr *addr, struct in6_addr *ip);

#endif

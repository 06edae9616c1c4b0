/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What IP addresses mean in an InfiniBand subnet: of this host's the port that has them, of others' the
 * GID. The addresses of the host are read again when the kernel says that they changed. What is asked of
 * libsacache (the kernel's neighbours, a whole table each time, then the hosts file) is kept until the
 * kernel says that a neighbour changed, in a table of fixed size:
 *
 *	sets of 4 ──► address, GID or that there is none	a set is chosen by a hash of the address
 *
 * The loop's thread.
 */
#ifndef SACACHED_ADDRESSES_H
#define SACACHED_ADDRESSES_H

#include <ifaddrs.h>
#include <netinet/in.h>

#include "daemons/sacached/sacached.h"

/* An address of this host behind IPoIB. */
struct local_address {
	struct in6_addr ip; /* or IPv4-mapped */
	uint8_t gid[16];
	uint16_t pkey;
};

int addresses_start(struct sacached *d, struct addresses **addresses);
void addresses_stop(struct addresses *addresses);
/* The hosts file was read: what was kept of it is forgotten. */
void addresses_forget(struct addresses *addresses);

/*
 * The GID behind an address (IPv4 as IPv4-mapped); *kept: no one had to be asked. -ENODATA.
 */
int addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16],
		  bool *kept);
/*
 * The active port that an address of this host belongs to, and its partition (0: not known). NULL: it is
 * none of an InfiniBand port's.
 */
const struct sacached_port *addresses_port(struct addresses *addresses, const struct in6_addr *ip,
					   uint16_t *pkey);
/* The address by which this host would send there; -ENETUNREACH and the like. */
int addresses_source(const struct in6_addr *destination, struct in6_addr *source);
/* A host name of /etc/hosts; -ENODATA. */
int addresses_of_name(const char *name, struct in6_addr *ip);
/* The n-th address of this host with that GID and partition (0: any); NULL. */
const struct local_address *addresses_local(struct addresses *addresses, const uint8_t gid[16],
					    uint16_t pkey, unsigned n);

/*
 * The addresses behind IPoIB among those of getifaddrs(): *count of them, to be freed; NULL if there
 * are none, or no memory.
 */
struct local_address *addresses_of_host(const struct ifaddrs *list, unsigned *count);

#endif

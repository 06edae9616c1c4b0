/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Maps IP addresses to an InfiniBand subnet: an address of this host to its port, another's to its
 * GID. Both are kept in step with the kernel's tables, so that a lookup takes no system call:
 *
 *	at the start, and after lost notifications	a thread reads the host's addresses and all IPoIB neighbours
 *	rtnetlink notifications				a neighbour is added or removed; addresses are read again
 *
 * An address that is no neighbour's is looked up in the hosts file that libsacache has in memory.
 *
 * The loop's thread.
 */
#ifndef SACACHED_ADDRESSES_H
#define SACACHED_ADDRESSES_H

#include <netinet/in.h>

#include "daemons/sacached/address_snapshot.h"
#include "daemons/sacached/sacached.h"

/* Reads the tables and waits for that: before the loop runs. */
int addresses_start(struct sacached *d, struct addresses **addresses);
void addresses_stop(struct addresses *addresses);
/* Whether a worker thread is reading now. */
bool addresses_busy(const struct addresses *addresses);

/* The GID behind an address (IPv4 as IPv4-mapped). -ENODATA. */
int addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16]);
/*
 * The active port that an address of this host belongs to, and its partition (0: not known). NULL:
 * it is none of an InfiniBand port's.
 */
const struct sacached_port *addresses_port(struct addresses *addresses, const struct in6_addr *ip,
					   uint16_t *pkey);
/* The source address that this host would use to send there; -ENETUNREACH and other errors of
 * connect(). */
int addresses_source(const struct in6_addr *destination, struct in6_addr *source);
/* The n-th address of this host with that GID and partition (0: any); NULL. */
const struct local_address *addresses_local(struct addresses *addresses, const uint8_t gid[16],
					    uint16_t pkey, unsigned n);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Does the kernel know the link-layer address of the next hop to an address, and which is it? */
#ifndef URXE_HOST_NEIGH_H
#define URXE_HOST_NEIGH_H

#include <netinet/in.h>

/*
 * src, dst: unicast addresses as GIDs have them, src one of this host's; ifindex: of link-local
 * ones, else 0. 0: it is known, or none is needed, or that cannot be said (no route, no socket);
 * -ENODATA: it is not known, and the kernel has been made to look for it. mac: its Ethernet
 * address, zeros where it has none that is known. Some system calls; does not block. Any thread.
 */
int urxe_neigh_look(const struct in6_addr *src, const struct in6_addr *dst, unsigned ifindex,
		    uint8_t mac[6]);

#endif

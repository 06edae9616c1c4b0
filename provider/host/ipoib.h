/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IP addresses behind IPoIB, on a host of a virtual fabric: which GID has one. urxe-ipoib, which
 * speaks ARP and neighbour discovery for the interfaces of a network namespace, is asked by its
 * control socket. What it says holds for a second, so that what one command of a program looks up
 * twice is asked for once.
 */
#ifndef URXE_HOST_IPOIB_H
#define URXE_HOST_IPOIB_H

#include <infiniband/verbs.h>
#include <netinet/in.h>

struct urxe_ipoib {
	union ibv_gid gid;    /* of the address that was asked for */
	union ibv_gid own;    /* of the port that the interface is on */
	struct in6_addr from; /* the interface's address for packets there */
	uint16_t pkey;	      /* of the interface's partition */
};

/*
 * 0; -EINPROGRESS: its neighbour is being asked for, all but gid is known; -EHOSTUNREACH: nobody
 * has it; -ENETUNREACH: no such interface leads there. Some system calls; waits for urxe-ipoib, for
 * a tenth of a second at most. Any thread.
 */
int urxe_ipoib_look(const struct in6_addr *ip, struct urxe_ipoib *found);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's path resolution: a socket of NETLINK_RDMA in the group RDMA_NL_GROUP_LS, by which
 * rdma_cm, IPoIB and the like ask before they ask the SA. While there is a listener the kernel
 * waits for its answer, for 2 s unless told otherwise, so each question is answered in three
 * quarters of that time, by an error if need be; a listener whose answers the kernel does not
 * accept leaves.
 *
 * The kernel asks in the initial network namespace only. It accepts answers from CAP_NET_ADMIN of
 * the initial user namespace, which both who opened the socket and who sends must have.
 */
#ifndef SACACHED_NETLINK_H
#define SACACHED_NETLINK_H

#include "daemons/sacached/sacached.h"

struct netlink_stats {
	uint64_t paths;	    /* questions for one */
	uint64_t addresses; /* questions for the GID of an IP address */
	uint64_t answered;
	uint64_t errors;   /* answered by an error: the kernel asks the SA itself */
	uint64_t invalid;  /* of those, questions that could not be read */
	uint64_t late;	   /* not answered, since the kernel did not wait any more */
	uint64_t overruns; /* times that the kernel asked faster than was read */
	bool listening;
};

/*
 * Where the kernel has no such netlink, or not for this user, a warning says so, *netlink is NULL
 * or does not listen, and 0 is returned: the daemon serves others.
 */
int netlink_start(struct sacached *d, struct netlink **netlink);
void netlink_stop(struct netlink *netlink);
/* NULL: all 0. */
void netlink_stats(const struct netlink *netlink, struct netlink_stats *stats);

#endif

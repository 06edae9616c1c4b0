/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's path resolution: a socket of NETLINK_RDMA in the group RDMA_NL_GROUP_LS, by which
 * rdma_cm, IPoIB and other kernel users ask before they ask the SA. While the group has a listener
 * the kernel waits for its answer, for 2 s by default. So each query is answered within three
 * quarters of that time, if necessary with an error; and the daemon leaves the group if the kernel
 * refuses its answers.
 *
 * The kernel asks in the initial network namespace only. It accepts answers only with
 * CAP_NET_ADMIN in the initial user namespace, both of the process that opened the socket and of
 * the one that sends.
 */
#ifndef SACACHED_NETLINK_H
#define SACACHED_NETLINK_H

#include "daemons/sacached/sacached.h"

struct netlink_stats {
	uint64_t paths;	    /* queries for a path */
	uint64_t addresses; /* queries for the GID of an IP address */
	uint64_t answered;
	uint64_t errors;   /* answered with an error: the kernel asks the SA itself */
	uint64_t invalid;  /* of those, queries that could not be parsed */
	uint64_t late;	   /* not answered, since the kernel's timeout was over */
	uint64_t overruns; /* times that the receive buffer overflowed */
	bool listening;
};

/*
 * If the kernel has no such netlink, or not for this user, logs a warning and returns 0: *netlink
 * is NULL or does not listen, and the daemon serves its other clients.
 */
int netlink_start(struct sacached *d, struct netlink **netlink);
void netlink_stop(struct netlink *netlink);
/* NULL: all 0. */
void netlink_stats(const struct netlink *netlink, struct netlink_stats *stats);

#endif

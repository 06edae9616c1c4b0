/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IP addresses of this host and of its neighbours, kept in step with the kernel's tables. A worker
 * thread owns the snapshot that it reads until it ends. Notifications that arrive meanwhile are
 * newer than the snapshot: they are kept and applied to it afterwards.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/common/task.h"
#include "daemons/sacached/addresses.h"

#define AGAIN_S 10 /* until a failed read is tried again */

/* The worker thread's result. */
struct snapshot {
	bool with_neighbours;
	int status;
	struct local_address *local;
	unsigned nlocal;
	struct neighbour *neighbours;
	size_t nneighbours;
};

struct addresses {
	struct sacached *d;
	int fd; /* rtnetlink notifications */
	struct event *notification;
	struct event *retry;
	struct task *task;
	struct snapshot snapshot;	    /* the task's */
	bool local_stale, neighbours_stale; /* since the task began; or, without one, at all */
	struct local_address *local;
	unsigned count;
	void *neighbours; /* a tree of tsearch(3) of struct neighbour, by address; every one has a GID */
	void *changes; /* a second tree while a task runs: the neighbours that notifications named */
};

static int compare(const void *a, const void *b)
{
	return memcmp(&((const struct neighbour *)a)->ip, &((const struct neighbour *)b)->ip, 16);
}

static struct neighbour *find(void *const *tree, const struct in6_addr *ip)
{
	struct neighbour wanted = {.ip = *ip}, **node = tfind(&wanted, tree, compare);

	return node ? *node : NULL;
}

/* False: no memory. */
static bool put(void **tree, const struct neighbour *neighbour)
{
	struct neighbour *entry = find(tree, &neighbour->ip);

	if (!entry) {
		entry = malloc(sizeof(*entry));
		if (!entry)
			return false;
		*entry = *neighbour;
		if (tsearch(entry, tree, compare))
			return true;
		free(entry);
		return false;
	}
	*entry = *neighbour;
	return true;
}

static void drop(void **tree, const struct in6_addr *ip)
{
	struct neighbour *entry = find(tree, ip);

	if (!entry)
		return;
	tdelete(entry, tree, compare);
	free(entry);
}

static void drop_all(void **tree)
{
	tdestroy(*tree, free);
	*tree = NULL;
}

static const struct local_address *find_local(struct addresses *addresses,
					      const struct in6_addr *ip)
{
	for (unsigned i = 0; i < addresses->count; i++)
		if (!memcmp(&addresses->local[i].ip, ip, sizeof(*ip)))
			return &addresses->local[i];
	return NULL;
}

const struct local_address *addresses_local(struct addresses *addresses, const uint8_t gid[16],
					    uint16_t pkey, unsigned n)
{
	for (unsigned i = 0; i < addresses->count; i++) {
		const struct local_address *local = &addresses->local[i];

		if (!memcmp(local->gid, gid, 16) &&
		    (!pkey || !local->pkey || (local->pkey & 0x7fff) == (pkey & 0x7fff)) && !n--)
			return local;
	}
	return NULL;
}

int addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16])
{
	const struct local_address *local = find_local(addresses, ip);
	const struct neighbour *neighbour = find(&addresses->neighbours, ip);
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = *ip};

	if (!local && !neighbour)
		return sacache_hosts_lookup(addresses->d->cache, (struct sockaddr *)&v6, gid);
	memcpy(gid, local ? local->gid : neighbour->gid, 16);
	return 0;
}

const struct sacached_port *addresses_port(struct addresses *addresses, const struct in6_addr *ip,
					   uint16_t *pkey)
{
	const struct local_address *local = find_local(addresses, ip);
	uint8_t gid[16];

	*pkey = local ? local->pkey : 0;
	return addresses_gid(addresses, ip, gid) ? NULL : sacached_port_by_gid(addresses->d, gid);
}

int addresses_source(const struct in6_addr *destination, struct in6_addr *source)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED(destination);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(9)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
	struct sockaddr *to = v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
	socklen_t length = v4 ? sizeof(in) : sizeof(in6);
	int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0)
		return -errno;
	memcpy(&in.sin_addr, &destination->s6_addr[12], 4);
	in6.sin6_addr = *destination;
	if (connect(fd, to, length) || getsockname(fd, to, &length))
		ret = -errno;
	close(fd);
	if (!ret)
		address_of(to, source);
	return ret;
}

/* Reading the kernel's tables. */

static void read_snapshot(void *arg)
{
	struct addresses *addresses = arg;
	struct snapshot *snapshot = &addresses->snapshot;

	snapshot->status = addresses_read_local(&snapshot->local, &snapshot->nlocal);
	if (!snapshot->status && snapshot->with_neighbours)
		snapshot->status = neighbours_read(&snapshot->neighbours, &snapshot->nneighbours);
}

static void forget_snapshot(struct snapshot *snapshot)
{
	free(snapshot->local);
	free(snapshot->neighbours);
	memset(snapshot, 0, sizeof(*snapshot));
}

static void apply(const void *node, VISIT which, void *tree)
{
	const struct neighbour *change = *(const struct neighbour *const *)node;

	if (which != postorder && which != leaf)
		return;
	if (change->gone)
		drop(tree, &change->ip);
	else
		put(tree, change);
}

static void take_neighbours(struct addresses *addresses)
{
	const struct snapshot *snapshot = &addresses->snapshot;

	drop_all(&addresses->neighbours);
	for (size_t i = 0; i < snapshot->nneighbours; i++)
		put(&addresses->neighbours, &snapshot->neighbours[i]);
	twalk_r(addresses->changes, apply, &addresses->neighbours);
}

static void refresh(struct addresses *addresses);

static void take_snapshot(void *arg)
{
	const struct timeval later = {.tv_sec = AGAIN_S};
	struct addresses *addresses = arg;
	struct snapshot *snapshot = &addresses->snapshot;
	int status = snapshot->status;

	addresses->task = NULL;
	if (status) {
		log_warning("the kernel's addresses cannot be read: %s; trying again in %d s",
			    strerror(-status), AGAIN_S);
		addresses->local_stale = true;
		addresses->neighbours_stale |= snapshot->with_neighbours;
		event_add(addresses->retry, &later);
	} else {
		free(addresses->local);
		addresses->local = snapshot->local;
		addresses->count = snapshot->nlocal;
		snapshot->local = NULL;
		if (snapshot->with_neighbours)
			take_neighbours(addresses);
	}
	forget_snapshot(snapshot);
	drop_all(&addresses->changes);
	if (!status)
		refresh(addresses);
}

/* Rereads what is stale. If a task is running, it starts another one when that ends. */
static void refresh(struct addresses *addresses)
{
	if (addresses->task || !(addresses->local_stale || addresses->neighbours_stale))
		return;
	addresses->snapshot.with_neighbours = addresses->neighbours_stale;
	addresses->local_stale = addresses->neighbours_stale = false;
	if (task_start(addresses->d->base, &addresses->task, read_snapshot, take_snapshot,
		       addresses)) {
		addresses->snapshot.status = -EAGAIN;
		take_snapshot(addresses);
	}
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	refresh(arg);
}

/* Notifications of the kernel. */

static void neighbour_changed(struct addresses *addresses, const struct nlmsghdr *header)
{
	struct neighbour neighbour = {.gone = true};
	bool kept = true;

	if (!neighbour_parse(header, &neighbour))
		return;
	if (neighbour.gone)
		drop(&addresses->neighbours, &neighbour.ip);
	else
		kept = put(&addresses->neighbours, &neighbour);
	if (addresses->task && addresses->snapshot.with_neighbours)
		kept &= put(&addresses->changes, &neighbour);
	addresses->neighbours_stale |= !kept;
}

static void take_notification(struct addresses *addresses, const struct nlmsghdr *header)
{
	const struct ifinfomsg *link = NLMSG_DATA(header);

	switch (header->nlmsg_type) {
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH: neighbour_changed(addresses, header); break;
	case RTM_NEWLINK:
	case RTM_DELLINK: addresses->local_stale |= link->ifi_type == ARPHRD_INFINIBAND; break;
	default: addresses->local_stale = true;
	}
}

static void notification(evutil_socket_t fd, short what, void *arg)
{
	struct addresses *addresses = arg;
	uint32_t buf[4096];
	ssize_t got = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	int left = got;

	/* Some were lost (ENOBUFS): any entry may have changed. */
	if (got < 0 && errno == ENOBUFS)
		addresses->local_stale = addresses->neighbours_stale = true;
	for (struct nlmsghdr *header = (void *)buf; got > 0 && NLMSG_OK(header, left);
	     header = NLMSG_NEXT(header, left))
		take_notification(addresses, header);
	refresh(addresses);
}

static int listen_to_kernel(struct addresses *addresses)
{
	struct sockaddr_nl addr = {.nl_family = AF_NETLINK,
				   .nl_groups = RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR |
						RTMGRP_IPV6_IFADDR};

	addresses->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (addresses->fd < 0 || bind(addresses->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	addresses->notification = event_new(addresses->d->base, addresses->fd, EV_READ | EV_PERSIST,
					    notification, addresses);
	addresses->retry = event_new(addresses->d->base, -1, 0, on_retry, addresses);
	return addresses->notification && addresses->retry &&
			       !event_add(addresses->notification, NULL)
		       ? 0
		       : -ENOMEM;
}

int addresses_start(struct sacached *d, struct addresses **out)
{
	struct addresses *addresses = calloc(1, sizeof(*addresses));
	int ret;

	if (!addresses)
		return -ENOMEM;
	addresses->d = d;
	ret = listen_to_kernel(addresses);
	if (ret) {
		log_error("the kernel does not report address changes (netlink): %s",
			  strerror(-ret));
		addresses_stop(addresses);
		return ret;
	}
	/* After the subscription, which reports every later change. */
	addresses->snapshot.with_neighbours = true;
	read_snapshot(addresses);
	take_snapshot(addresses);
	*out = addresses;
	return 0;
}

bool addresses_busy(const struct addresses *addresses)
{
	return addresses->task;
}

void addresses_stop(struct addresses *addresses)
{
	if (!addresses)
		return;
	if (addresses->task)
		task_finish(addresses->task);
	forget_snapshot(&addresses->snapshot);
	drop_all(&addresses->neighbours);
	drop_all(&addresses->changes);
	if (addresses->notification)
		event_free(addresses->notification);
	if (addresses->retry)
		event_free(addresses->retry);
	if (addresses->fd >= 0)
		close(addresses->fd);
	free(addresses->local);
	free(addresses);
}

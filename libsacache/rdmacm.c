/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The reconnect procedure over rdma_cm: the program's calls; rdmacm.h describes its use. There are
 * no threads and no locks here: everything runs in the program's thread.
 *
 *	epoll ─┬─ event channel: events of ids
 *	       ├─ timerfd: the nearest deadline of the procedure
 *	       └─ eventfd: an answer of the SA has arrived
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "common/sized.h"
#include "libsacache/rdmacm_link.h"

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Before returning to the program: the nearest deadline may be earlier than before. */
static void set_timer(struct sacache_rdmacm *cm)
{
	uint64_t deadline = sacache_reconnect_deadline(cm->set);
	struct itimerspec at = {0};

	if (deadline == cm->armed)
		return;
	cm->armed = deadline;
	if (deadline != UINT64_MAX) {
		at.it_value.tv_sec = deadline / 1000;
		at.it_value.tv_nsec = deadline % 1000 * 1000000;
	}
	timerfd_settime(cm->timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* The program's calls. */

int sacache_rdmacm_run(struct sacache_rdmacm *cm)
{
	uint64_t count;
	int ret;

	do
		ret = sa_rdmacm_event(cm);
	while (!ret || ret == -EINTR);
	/* Both only wake the program. */
	while (read(cm->event, &count, sizeof(count)) > 0 ||
	       read(cm->timer, &count, sizeof(count)) > 0)
		cm->armed = 0;
	sacache_reconnect_run(cm->set);
	set_timer(cm);
	if (cm->gone)
		return -ENODEV;
	return ret == -EAGAIN ? 0 : ret;
}

int sacache_rdmacm_wait(struct sacache_rdmacm_peer *peer, int timeout)
{
	struct sacache_rdmacm *cm = peer->cm;
	struct pollfd fd = {.fd = cm->epoll, .events = POLLIN};
	uint64_t until = clock_ms() + (unsigned)timeout;

	for (;;) {
		int ret = sacache_rdmacm_run(cm), left = -1;

		if (ret)
			return ret;
		if (sacache_peer_state(peer->peer) == SACACHE_PEER_UP)
			return 0;
		if (timeout >= 0) {
			uint64_t now = clock_ms();

			if (now >= until)
				return -ETIMEDOUT;
			left = (int)(until - now);
		}
		if (poll(&fd, 1, left) < 0)
			return -errno;
	}
}

int sacache_rdmacm_fd(const struct sacache_rdmacm *cm)
{
	return cm->epoll;
}

uint16_t sacache_rdmacm_listens(const struct sacache_rdmacm *cm)
{
	return cm->listener ? be16toh(rdma_get_src_port(cm->listener)) : 0;
}

void sacache_rdmacm_stats(const struct sacache_rdmacm *cm, struct sacache_reconnect_stats *stats,
			  size_t size)
{
	sacache_reconnect_stats(cm->set, stats, size);
}

static size_t address_length(const struct sockaddr *address)
{
	switch (address->sa_family) {
	case AF_INET: return sizeof(struct sockaddr_in);
	case AF_INET6: return sizeof(struct sockaddr_in6);
	default: return 0;
	}
}

static int peer_start(struct sacache_rdmacm_peer *peer, enum sacache_role role)
{
	struct sacache_rdmacm *cm = peer->cm;
	int ret;

	if (!tsearch(peer, &cm->tree, sa_rdmacm_compare))
		return -ENOMEM;
	ret = sacache_peer_add(cm->set, peer, role, NULL, &peer->peer);
	if (ret)
		tdelete(peer, &cm->tree, sa_rdmacm_compare);
	return ret;
}

int sacache_rdmacm_add(struct sacache_rdmacm *cm, const struct sacache_rdmacm_name *wanted,
		       void *user, struct sacache_rdmacm_peer **out)
{
	struct sacache_rdmacm_name name = {0};
	struct sacache_rdmacm_peer *peer;
	size_t length;
	int ret = copy_in(&name, sizeof(name), wanted);

	if (ret)
		return ret;
	length = name.address ? address_length(name.address) : 0;
	if (name.address ? !length : name.role == SACACHE_CLIENT)
		return -EINVAL;
	if (sa_rdmacm_find(cm, name.local, name.remote))
		return -EEXIST;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	peer->local = name.local;
	peer->remote = name.remote;
	peer->cm = cm;
	peer->user = user;
	if (length)
		memcpy(&peer->address, name.address, length);
	ret = peer_start(peer, name.role);
	if (ret) {
		free(peer);
		return ret;
	}
	peer->next = cm->peers;
	peer->self = &cm->peers;
	if (peer->next)
		peer->next->self = &peer->next;
	cm->peers = peer;
	*out = peer;
	set_timer(cm);
	return 0;
}

void sacache_rdmacm_remove(struct sacache_rdmacm_peer *peer)
{
	struct sacache_rdmacm *cm = peer->cm;

	sacache_peer_remove(peer->peer);
	tdelete(peer, &cm->tree, sa_rdmacm_compare);
	*peer->self = peer->next;
	if (peer->next)
		peer->next->self = peer->self;
	free(peer);
	set_timer(cm);
}

void sacache_rdmacm_failed(struct sacache_rdmacm_peer *peer, int status)
{
	struct link *link = peer->link;

	if (link && sacache_peer_state(peer->peer) == SACACHE_PEER_UP) {
		sa_rdmacm_link_failed(link, status);
		set_timer(peer->cm);
	}
}

struct rdma_cm_id *sacache_rdmacm_id(const struct sacache_rdmacm_peer *peer)
{
	return sacache_peer_state(peer->peer) == SACACHE_PEER_UP ? peer->link->id : NULL;
}

/* Create and destroy. */

static const struct sacache_rdmacm_attr defaults = {
	.size = sizeof(defaults),
	.backlog = 128,
	.param = {.responder_resources = 1,
		  .initiator_depth = 1,
		  .retry_count = 7,
		  .rnr_retry_count = 7},
};

void sacache_rdmacm_attr_init(struct sacache_rdmacm_attr *attr, size_t size)
{
	copy_defaults(attr, size, &defaults, sizeof(defaults));
}

static int watch(struct sacache_rdmacm *cm, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return fd < 0 || epoll_ctl(cm->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static int open_descriptors(struct sacache_rdmacm *cm)
{
	int flags, ret;

	cm->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (cm->epoll < 0)
		return -errno;
	cm->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ret = watch(cm, cm->event);
	if (ret)
		return ret;
	cm->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	ret = watch(cm, cm->timer);
	if (ret)
		return ret;
	cm->channel = rdma_create_event_channel();
	if (!cm->channel)
		return -errno;
	flags = fcntl(cm->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(cm->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return -errno;
	return watch(cm, cm->channel->fd);
}

static int start_listening(struct sacache_rdmacm *cm)
{
	if (!cm->attr.listen)
		return 0;
	if (rdma_create_id(cm->channel, &cm->listener, NULL, RDMA_PS_TCP)) {
		cm->listener = NULL;
		return -errno;
	}
	if (rdma_bind_addr(cm->listener, (struct sockaddr *)cm->attr.listen) ||
	    rdma_listen(cm->listener, cm->attr.backlog))
		return -errno;
	return 0;
}

int sacache_rdmacm_create(const struct sacache_rdmacm_attr *wanted,
			  const struct sacache_rdmacm_ops *wanted_ops, void *ctx,
			  struct sacache_rdmacm **out)
{
	struct sacache_rdmacm_attr attr = defaults;
	struct sacache_rdmacm_ops ops = {0};
	struct sacache_reconnect_attr reconnect;
	struct sacache_rdmacm *cm;
	int ret = copy_in(&attr, sizeof(attr), wanted);

	if (!ret)
		ret = copy_in(&ops, sizeof(ops), wanted_ops);
	sacache_reconnect_attr_init(&reconnect, sizeof(reconnect));
	if (!ret && attr.reconnect)
		ret = copy_in(&reconnect, sizeof(reconnect), attr.reconnect);
	if (ret)
		return ret;
	if (!ops.prepare || !ops.release)
		return -EINVAL;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		return -ENOMEM;
	cm->attr = attr;
	cm->ops = ops;
	cm->ctx = ctx;
	cm->timeout = reconnect.timeout;
	cm->armed = UINT64_MAX;
	cm->epoll = cm->timer = cm->event = -1;
	ret = sacache_reconnect_create(attr.cache, &reconnect, &sa_rdmacm_procedure, cm, &cm->set);
	if (!ret)
		ret = open_descriptors(cm);
	if (!ret)
		ret = start_listening(cm);
	if (ret) {
		sacache_rdmacm_destroy(cm);
		return ret;
	}
	cm->attr.listen = NULL; /* the caller's, as this: */
	cm->attr.reconnect = NULL;
	*out = cm;
	return 0;
}

void sacache_rdmacm_destroy(struct sacache_rdmacm *cm)
{
	if (!cm)
		return;
	while (cm->peers)
		sacache_rdmacm_remove(cm->peers);
	sacache_reconnect_destroy(cm->set);
	if (cm->listener)
		rdma_destroy_id(cm->listener);
	if (cm->channel)
		rdma_destroy_event_channel(cm->channel);
	if (cm->timer >= 0)
		close(cm->timer);
	if (cm->event >= 0)
		close(cm->event);
	if (cm->epoll >= 0)
		close(cm->epoll);
	free(cm);
}

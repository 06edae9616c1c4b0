/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The reconnect procedure over rdma_cm; rdmacm.h tells how it is used. There are no threads and no
 * locks here: everything runs in the program's thread, but for wake_up(), which writes to an eventfd.
 *
 *	epoll ─┬─ event channel: what happens to ids
 *	       ├─ timerfd: the nearest deadline of the procedure
 *	       └─ eventfd: an answer of the SA has come
 *
 * An attempt has a link, which is its id's context; a peer has at most one. An event is acknowledged
 * before it is dealt with, because an id cannot be destroyed while one of its events is not.
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
#include <rdma/ib_user_sa.h>

#include "libsacache/rdmacm.h"

/*
 * Private data of a request, big-endian; of a rejection because requests crossed, the first word with
 * the lowest bit flipped.
 */
#define MAGIC 0x73616361u

struct names {
	uint32_t magic;
	uint32_t spare;
	uint64_t to;
	uint64_t from;
} __attribute__((packed));
_Static_assert(sizeof(struct names) == 24, "fits into a request beside rdma_cm's own header");

struct link {
	struct sacache_rdmacm_peer *peer;
	struct rdma_cm_id *id;
	uint32_t attempt;
	bool prepared;
};

struct sacache_rdmacm_peer {
	uint64_t local; /* with remote the key of the tree */
	uint64_t remote;
	struct sacache_rdmacm *cm;
	struct sacache_rdmacm_peer *next, **self;
	void *user;
	struct sacache_peer *peer;
	struct link *link;
	struct sockaddr_storage address; /* family 0: unknown */
};

struct sacache_rdmacm {
	struct sacache_rdmacm_attr attr;
	const struct sacache_rdmacm_ops *ops;
	void *ctx;
	struct sacache_reconnect *set;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	bool gone; /* the listener's device */
	int epoll, timer, event;
	uint64_t armed; /* what the timer is set to */
	void *tree;
	struct sacache_rdmacm_peer *peers;
};

static uint64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Before the program gets its thread back: something may be due earlier than it was. */
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

static void wake_up(void *ctx)
{
	const struct sacache_rdmacm *cm = ctx;
	uint64_t one = 1;

	/* It cannot fail: a counter that is full is readable, too. */
	if (write(cm->event, &one, sizeof(one)) < 0)
		return;
}

static int compare(const void *a, const void *b)
{
	const struct sacache_rdmacm_peer *one = a, *other = b;

	if (one->local != other->local)
		return one->local < other->local ? -1 : 1;
	return one->remote < other->remote ? -1 : one->remote > other->remote;
}

static struct sacache_rdmacm_peer *find_peer(struct sacache_rdmacm *cm, uint64_t local,
					     uint64_t remote)
{
	struct sacache_rdmacm_peer key = {.local = local, .remote = remote};
	struct sacache_rdmacm_peer **found = tfind(&key, &cm->tree, compare);

	return found ? *found : NULL;
}

/* Links. */

static struct link *link_create(struct sacache_rdmacm_peer *peer, uint32_t attempt)
{
	struct link *link = calloc(1, sizeof(*link));

	if (link) {
		link->peer = peer;
		link->attempt = attempt;
		peer->link = link;
	}
	return link;
}

static int link_prepare(struct link *link)
{
	struct sacache_rdmacm_peer *peer = link->peer;
	int ret = peer->cm->ops->prepare(peer->cm->ctx, peer->user, link->id);

	link->prepared = !ret;
	return ret;
}

/* An id that was connected says good-bye when it is destroyed, and one that was asked rejects. */
static void link_destroy(struct link *link)
{
	struct sacache_rdmacm_peer *peer = link->peer;

	peer->link = NULL;
	if (link->prepared)
		peer->cm->ops->release(peer->cm->ctx, peer->user, link->id);
	if (link->id)
		rdma_destroy_id(link->id);
	free(link);
}

static void link_failed(struct link *link, int status)
{
	sacache_peer_failed(link->peer->peer, link->attempt, status);
}

/* What the procedure asks for. */

static int resolve(void *ctx, void *user, uint32_t attempt, struct sacache_key *key)
{
	struct sacache_rdmacm *cm = ctx;
	struct sacache_rdmacm_peer *peer = user;
	struct link *link;

	if (!peer->address.ss_family)
		return -EDESTADDRREQ;
	link = link_create(peer, attempt);
	if (!link)
		return -ENOMEM;
	if (rdma_create_id(cm->channel, &link->id, link, RDMA_PS_TCP)) {
		link->id = NULL;
		return -errno;
	}
	if (rdma_resolve_addr(link->id, NULL, (struct sockaddr *)&peer->address,
			      (int)cm->attr.reconnect.timeout))
		return -errno;
	return -EINPROGRESS;
}

static int set_path(struct rdma_cm_id *id, const struct sacache_path *path)
{
	struct ib_path_rec_data data = {.flags = IB_PATH_GMP | IB_PATH_PRIMARY |
						 IB_PATH_BIDIRECTIONAL};

	_Static_assert(sizeof(data.path_rec) == 64, "a PathRecord");
	sacache_path_record(path, (uint8_t *)data.path_rec);
	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data));
}

/* Either way the next event is that the route is known. */
static int find_route(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path)
{
	struct sacache_rdmacm *cm = ctx;
	struct sacache_rdmacm_peer *peer = user;
	int ret = path ? set_path(peer->link->id, path)
		       : rdma_resolve_route(peer->link->id, (int)cm->attr.reconnect.timeout);

	return ret ? -errno : 0;
}

static void abandon(void *ctx, void *user, uint32_t attempt)
{
	struct sacache_rdmacm_peer *peer = user;

	if (peer->link)
		link_destroy(peer->link);
}

static void up(void *ctx, void *user, uint32_t attempt)
{
	struct sacache_rdmacm *cm = ctx;
	struct sacache_rdmacm_peer *peer = user;

	if (cm->ops->up)
		cm->ops->up(cm->ctx, peer->user, peer->link->id);
}

static void down(void *ctx, void *user, uint32_t attempt, int status)
{
	struct sacache_rdmacm *cm = ctx;
	struct sacache_rdmacm_peer *peer = user;

	if (cm->ops->down)
		cm->ops->down(cm->ctx, peer->user, peer->link->id, status);
}

static const struct sacache_reconnect_ops procedure = {
	.wake = wake_up,
	.resolve = resolve,
	.connect = find_route,
	.abandon = abandon,
	.up = up,
	.down = down,
};

/* What rdma_cm says. */

static bool on_infiniband(struct rdma_cm_id *id)
{
	struct ibv_port_attr port;

	return id->verbs && !ibv_query_port(id->verbs, id->port_num, &port) &&
	       port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

static void address_known(struct link *link)
{
	struct sacache_rdmacm *cm = link->peer->cm;
	struct rdma_ib_addr *ib = &link->id->route.addr.addr.ibaddr;
	struct sacache_key key = {
		.mask = SACACHE_DGID | SACACHE_SGID | SACACHE_PKEY,
		.pkey = be16toh(ib->pkey),
	};

	if (!cm->attr.cache || !on_infiniband(link->id)) {
		sacache_peer_resolved(link->peer->peer, link->attempt, 0, NULL);
		return;
	}
	memcpy(key.dgid, &ib->dgid, 16);
	memcpy(key.sgid, &ib->sgid, 16);
	key.port = cm->ops->port ? cm->ops->port(cm->ctx, link->id) : cm->attr.port;
	sacache_peer_resolved(link->peer->peer, link->attempt, 0, &key);
}

static void route_known(struct link *link)
{
	struct sacache_rdmacm_peer *peer = link->peer;
	struct rdma_conn_param param = peer->cm->attr.param;
	struct names names = {
		.magic = htobe32(MAGIC),
		.to = htobe64(peer->remote),
		.from = htobe64(peer->local),
	};
	int ret = link_prepare(link);

	param.private_data = &names;
	param.private_data_len = sizeof(names);
	if (!ret && rdma_connect(link->id, &param))
		ret = -errno;
	if (ret)
		link_failed(link, ret);
}

static void rejected(struct link *link, const struct names *said)
{
	bool crossed = be32toh(said->magic) == (MAGIC ^ 1);

	link_failed(link, crossed ? -EBUSY : -ECONNREFUSED);
}

static void link_event(struct link *link, enum rdma_cm_event_type event, int status,
		       const struct names *said)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED: address_known(link); break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED: route_known(link); break;
	case RDMA_CM_EVENT_ESTABLISHED:
		sacache_peer_connected(link->peer->peer, link->attempt);
		break;
	case RDMA_CM_EVENT_REJECTED: rejected(link, said); break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		link_failed(link, status < 0 && status != -EBUSY ? status : -EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_DISCONNECTED: link_failed(link, -ECONNRESET); break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: link_failed(link, -ENODEV); break;
	default: break;
	}
}

static void reject(struct rdma_cm_id *id, uint32_t magic)
{
	struct names said = {.magic = htobe32(magic)};

	rdma_reject(id, &said, sizeof(said));
	rdma_destroy_id(id);
}

/* The LID that the peer's request came from, if it came over InfiniBand: its path back leads there. */
static uint16_t lid_of(struct rdma_cm_id *id)
{
	return id->route.num_paths && on_infiniband(id) ? be16toh(id->route.path_rec->dlid) : 0;
}

static void accept_request(struct link *link)
{
	struct rdma_conn_param param = link->peer->cm->attr.param;
	int ret = link_prepare(link);

	if (!ret && rdma_accept(link->id, &param))
		ret = -errno;
	if (ret)
		link_failed(link, ret);
}

static void requested(struct sacache_rdmacm *cm, struct rdma_cm_id *id, const struct names *said)
{
	uint64_t to = be64toh(said->to), from = be64toh(said->from);
	struct sacache_rdmacm_peer *peer = NULL;
	struct link *link;
	uint32_t attempt;

	if (be32toh(said->magic) == MAGIC) {
		peer = find_peer(cm, to, from);
		if (!peer && cm->ops->admit) {
			cm->ops->admit(cm->ctx, to, from, rdma_get_peer_addr(id));
			peer = find_peer(cm, to, from);
		}
	}
	if (!peer) {
		reject(id, 0);
		return;
	}
	if (sacache_peer_request(peer->peer, lid_of(id), &attempt)) {
		reject(id, MAGIC ^ 1);
		return;
	}
	link = link_create(peer, attempt);
	if (!link) {
		reject(id, 0);
		sacache_peer_failed(peer->peer, attempt, -ENOMEM);
		return;
	}
	link->id = id;
	id->context = link;
	accept_request(link);
}

/* Returns -EAGAIN when there is no more. */
static int one_event(struct sacache_rdmacm *cm)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct names said = {0};
	struct rdma_cm_id *id;
	int status;

	if (rdma_get_cm_event(cm->channel, &event))
		return -errno;
	type = event->event;
	id = event->id;
	status = event->status;
	if ((type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_REJECTED) &&
	    event->param.conn.private_data && event->param.conn.private_data_len >= sizeof(said))
		memcpy(&said, event->param.conn.private_data, sizeof(said));
	rdma_ack_cm_event(event);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		requested(cm, id, &said);
	else if (id != cm->listener)
		link_event(id->context, type, status, &said);
	else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		cm->gone = true;
	return 0;
}

/* What the program calls. */

int sacache_rdmacm_run(struct sacache_rdmacm *cm)
{
	uint64_t count;
	int ret;

	do
		ret = one_event(cm);
	while (!ret || ret == -EINTR);
	/* Both only say that there is something to do. */
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

void sacache_rdmacm_stats(const struct sacache_rdmacm *cm, struct sacache_reconnect_stats *stats)
{
	sacache_reconnect_stats(cm->set, stats);
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

	if (!tsearch(peer, &cm->tree, compare))
		return -ENOMEM;
	ret = sacache_peer_add(cm->set, peer, role, NULL, &peer->peer);
	if (ret)
		tdelete(peer, &cm->tree, compare);
	return ret;
}

int sacache_rdmacm_add(struct sacache_rdmacm *cm, const struct sacache_rdmacm_name *name,
		       void *user, struct sacache_rdmacm_peer **out)
{
	size_t length = name->address ? address_length(name->address) : 0;
	struct sacache_rdmacm_peer *peer;
	int ret;

	if (name->address ? !length : name->role == SACACHE_CLIENT)
		return -EINVAL;
	if (find_peer(cm, name->local, name->remote))
		return -EEXIST;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return -ENOMEM;
	peer->local = name->local;
	peer->remote = name->remote;
	peer->cm = cm;
	peer->user = user;
	if (length)
		memcpy(&peer->address, name->address, length);
	ret = peer_start(peer, name->role);
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
	tdelete(peer, &cm->tree, compare);
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
		link_failed(link, status);
		set_timer(peer->cm);
	}
}

struct rdma_cm_id *sacache_rdmacm_id(const struct sacache_rdmacm_peer *peer)
{
	return sacache_peer_state(peer->peer) == SACACHE_PEER_UP ? peer->link->id : NULL;
}

/* Making and ending. */

void sacache_rdmacm_attr_init(struct sacache_rdmacm_attr *attr)
{
	*attr = (struct sacache_rdmacm_attr){
		.size = sizeof(*attr),
		.backlog = 128,
		.param = {.responder_resources = 1,
			  .initiator_depth = 1,
			  .retry_count = 7,
			  .rnr_retry_count = 7},
	};
	sacache_reconnect_attr_init(&attr->reconnect);
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

int sacache_rdmacm_create(const struct sacache_rdmacm_attr *attr,
			  const struct sacache_rdmacm_ops *ops, void *ctx,
			  struct sacache_rdmacm **out)
{
	struct sacache_rdmacm *cm;
	int ret;

	if (attr->size != sizeof(*attr) || !ops->prepare || !ops->release)
		return -EINVAL;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		return -ENOMEM;
	cm->attr = *attr;
	cm->ops = ops;
	cm->ctx = ctx;
	cm->armed = UINT64_MAX;
	cm->epoll = cm->timer = cm->event = -1;
	ret = sacache_reconnect_create(attr->cache, &attr->reconnect, &procedure, cm, &cm->set);
	if (!ret)
		ret = open_descriptors(cm);
	if (!ret)
		ret = start_listening(cm);
	if (ret) {
		sacache_rdmacm_destroy(cm);
		return ret;
	}
	cm->attr.listen = NULL; /* the caller's */
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

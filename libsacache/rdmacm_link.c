/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Attempts of the reconnect procedure as ids of rdma_cm. Everything here runs in the program's
 * thread, except wake_up(), which writes to an eventfd.
 *
 * An event is acknowledged before it is handled, because an id cannot be destroyed while one of its
 * events is unacknowledged.
 */
#include <endian.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/ib_user_sa.h>

#include "libsacache/rdmacm_link.h"

/*
 * Private data of a request, big-endian; of a rejection because requests crossed, the first word
 * with the lowest bit flipped.
 */
#define MAGIC 0x73616361u

struct names {
	uint32_t magic;
	uint32_t spare;
	uint64_t to;
	uint64_t from;
} __attribute__((packed));
_Static_assert(sizeof(struct names) == 24, "fits into a request beside rdma_cm's own header");

int sa_rdmacm_compare(const void *a, const void *b)
{
	const struct sacache_rdmacm_peer *one = a, *other = b;

	if (one->local != other->local)
		return one->local < other->local ? -1 : 1;
	return one->remote < other->remote ? -1 : one->remote > other->remote;
}

struct sacache_rdmacm_peer *sa_rdmacm_find(struct sacache_rdmacm *cm, uint64_t local,
					   uint64_t remote)
{
	struct sacache_rdmacm_peer key = {.local = local, .remote = remote};
	struct sacache_rdmacm_peer **found = tfind(&key, &cm->tree, sa_rdmacm_compare);

	return found ? *found : NULL;
}

static void wake_up(void *ctx)
{
	const struct sacache_rdmacm *cm = ctx;
	uint64_t one = 1;

	/* Cannot fail: a full counter is readable, too. */
	if (write(cm->event, &one, sizeof(one)) < 0)
		return;
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
	int ret = peer->cm->ops.prepare(peer->cm->ctx, peer->user, link->id);

	link->prepared = !ret;
	return ret;
}

/* Destroying an id disconnects it, or rejects its request. */
static void link_destroy(struct link *link)
{
	struct sacache_rdmacm_peer *peer = link->peer;

	peer->link = NULL;
	if (link->prepared)
		peer->cm->ops.release(peer->cm->ctx, peer->user, link->id);
	if (link->id)
		rdma_destroy_id(link->id);
	free(link);
}

void sa_rdmacm_link_failed(struct link *link, int status)
{
	sacache_peer_failed(link->peer->peer, link->attempt, status);
}

/* Operations of the procedure. */

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
	if (rdma_resolve_addr(link->id, NULL, (struct sockaddr *)&peer->address, (int)cm->timeout))
		return -errno;
	return -EINPROGRESS;
}

static int set_path(struct rdma_cm_id *id, const struct sacache_path *path)
{
	struct ib_path_rec_data data = {.flags = IB_PATH_GMP | IB_PATH_PRIMARY |
						 IB_PATH_BIDIRECTIONAL};

	_Static_assert(sizeof(data.path_rec) == 64, "a PathRecord");
	sacache_path_encode(path, (uint8_t *)data.path_rec);
	return rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &data, sizeof(data));
}

/* In either case the next event is that the route is resolved. */
static int find_route(void *ctx, void *user, uint32_t attempt, const struct sacache_path *path)
{
	struct sacache_rdmacm *cm = ctx;
	struct sacache_rdmacm_peer *peer = user;
	int ret = path ? set_path(peer->link->id, path)
		       : rdma_resolve_route(peer->link->id, (int)cm->timeout);

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

	if (cm->ops.up)
		cm->ops.up(cm->ctx, peer->user, peer->link->id);
}

static void down(void *ctx, void *user, uint32_t attempt, int status)
{
	struct sacache_rdmacm *cm = ctx;
	struct sacache_rdmacm_peer *peer = user;

	if (cm->ops.down)
		cm->ops.down(cm->ctx, peer->user, peer->link->id, status);
}

const struct sacache_reconnect_ops sa_rdmacm_procedure = {
	.size = sizeof(sa_rdmacm_procedure),
	.wake = wake_up,
	.resolve = resolve,
	.connect = find_route,
	.abandon = abandon,
	.up = up,
	.down = down,
};

/* Events of rdma_cm. */

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
	key.port = cm->ops.port ? cm->ops.port(cm->ctx, link->id) : cm->attr.port;
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
		sa_rdmacm_link_failed(link, ret);
}

static void rejected(struct link *link, const struct names *said)
{
	bool crossed = be32toh(said->magic) == (MAGIC ^ 1);

	sa_rdmacm_link_failed(link, crossed ? -EBUSY : -ECONNREFUSED);
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
		sa_rdmacm_link_failed(link,
				      status < 0 && status != -EBUSY ? status : -EHOSTUNREACH);
		break;
	case RDMA_CM_EVENT_DISCONNECTED: sa_rdmacm_link_failed(link, -ECONNRESET); break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL: sa_rdmacm_link_failed(link, -ENODEV); break;
	default: break;
	}
}

static void reject(struct rdma_cm_id *id, uint32_t magic)
{
	struct names said = {.magic = htobe32(magic)};

	rdma_reject(id, &said, sizeof(said));
	rdma_destroy_id(id);
}

/* The LID that the peer's request came from, if over InfiniBand: the path back leads there. */
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
		sa_rdmacm_link_failed(link, ret);
}

static void requested(struct sacache_rdmacm *cm, struct rdma_cm_id *id, const struct names *said)
{
	uint64_t to = be64toh(said->to), from = be64toh(said->from);
	struct sacache_rdmacm_peer *peer = NULL;
	struct link *link;
	uint32_t attempt;

	if (be32toh(said->magic) == MAGIC) {
		peer = sa_rdmacm_find(cm, to, from);
		if (!peer && cm->ops.admit) {
			cm->ops.admit(cm->ctx, to, from, rdma_get_peer_addr(id));
			peer = sa_rdmacm_find(cm, to, from);
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

/* Returns -EAGAIN when there are no more events. */
int sa_rdmacm_event(struct sacache_rdmacm *cm)
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

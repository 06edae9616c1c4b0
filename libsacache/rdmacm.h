/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libsacache-rdmacm: the reconnect procedure of <sacache/reconnect.h> over rdma_cm. A program says
 * who its peers are and makes their QPs; from then on they are connected again whenever they are
 * not.
 *
 * On an InfiniBand port the path comes from the cache, and is set (RDMA_OPTION_IB_PATH), so that no
 * query for it leaves the machine; where there is no such path (RoCE, iWARP) the route is resolved
 * as by any program. Requests carry the names of both ends in their private data.
 *
 *	cb prepare ──► (rdma_cm connects) ──► cb up ──► …traffic… ──► cb down ──► cb release
 *	     └────────── no connection came of it ───────────────────────────────────┘
 *
 * Callbacks run in the thread that calls the library. Either the program waits for
 * sacache_rdmacm_fd() among others, and calls sacache_rdmacm_run() when it is readable; or it lets
 * sacache_rdmacm_wait() do that until a peer is connected. One thread at a time may be in the
 * functions of a sacache_rdmacm and of its peers. Functions return 0 or a negative errno.
 */
#ifndef SACACHE_RDMACM_H
#define SACACHE_RDMACM_H

#include <rdma/rdma_cma.h>

#include "reconnect.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct sacache_rdmacm;
struct sacache_rdmacm_peer;

struct sacache_rdmacm_attr {
	size_t size;	       /* of this structure, as sacache_rdmacm_attr_init() sets it */
	struct sacache *cache; /* NULL: routes are always resolved by rdma_cm */
	unsigned port;	       /* of the cache, for keys; see also ops->port() */
	const struct sockaddr *listen; /* where requests of peers arrive; NULL: nowhere */
	int backlog;
	struct sacache_reconnect_attr reconnect;
	struct rdma_conn_param param; /* of connections; private data is the library's */
};

struct sacache_rdmacm_ops {
	/*
	 * A connection may come to be with that id: makes its QP (rdma_create_qp()), posts
	 * receives. 0, or an errno, and then it has left nothing behind.
	 */
	int (*prepare)(void *ctx, void *user, struct rdma_cm_id *id);
	/* Takes the QP away; the id is destroyed afterwards. Once for each prepare() that returned
	 * 0. */
	void (*release)(void *ctx, void *user, struct rdma_cm_id *id);
	/* Connected. May be NULL. */
	void (*up)(void *ctx, void *user, struct rdma_cm_id *id);
	/* The connection is lost; release() follows. May be NULL. */
	void (*down)(void *ctx, void *user, struct rdma_cm_id *id, int status);
	/*
	 * A request between names that no peer has. It may add the peer, which then is asked; the
	 * request is rejected otherwise. May be NULL.
	 */
	void (*admit)(void *ctx, uint64_t local, uint64_t remote, const struct sockaddr *from);
	/* Which port of the cache an id on an InfiniBand port belongs to. NULL: attr->port. */
	unsigned (*port)(void *ctx, struct rdma_cm_id *id);
};

/*
 * Who is connected with whom. The names are chosen by the program; what is local here is remote at
 * the other end, and both ends have to agree. address is where the peer listens.
 */
struct sacache_rdmacm_name {
	uint64_t local;
	uint64_t remote;
	const struct sockaddr *address; /* NULL: unknown; this end never tries */
	enum sacache_role role;
};

/* Listens nowhere, backlog 128, times as sacache_reconnect_attr_init(), 7 retries, 1 read each way.
 * */
void sacache_rdmacm_attr_init(struct sacache_rdmacm_attr *attr);
/* ops and attr->cache have to stay. -EINVAL, -ENOMEM, or what rdma_cm says. */
int sacache_rdmacm_create(const struct sacache_rdmacm_attr *attr,
			  const struct sacache_rdmacm_ops *ops, void *ctx,
			  struct sacache_rdmacm **cm);
/* Ends all connections; down() is not called, release() is. Not from a callback. */
void sacache_rdmacm_destroy(struct sacache_rdmacm *cm);

/* Readable when there is something to do. To be polled only. */
int sacache_rdmacm_fd(const struct sacache_rdmacm *cm);
/* Does what there is to do, and does not wait. -ENODEV: the device that it listens on is gone. */
int sacache_rdmacm_run(struct sacache_rdmacm *cm);
/* The TCP-like port it listens on, in host order; 0: none. */
uint16_t sacache_rdmacm_listens(const struct sacache_rdmacm *cm);
void sacache_rdmacm_stats(const struct sacache_rdmacm *cm, struct sacache_reconnect_stats *stats,
			  size_t size);

/* -EEXIST (those names), -EINVAL (a client without an address), -ENOMEM. */
int sacache_rdmacm_add(struct sacache_rdmacm *cm, const struct sacache_rdmacm_name *name,
		       void *user, struct sacache_rdmacm_peer **peer);
/* Ends its connection; down() is not called, release() is. Not from a callback. */
void sacache_rdmacm_remove(struct sacache_rdmacm_peer *peer);
/* The program found that the connection is broken, by a completion or by silence: an errno. */
void sacache_rdmacm_failed(struct sacache_rdmacm_peer *peer, int status);
/* The id that is connected, or NULL. */
struct rdma_cm_id *sacache_rdmacm_id(const struct sacache_rdmacm_peer *peer);
/*
 * Runs until the peer is connected, at most so many ms (-1: for ever). -ETIMEDOUT, -EINTR, or an
 * errno of sacache_rdmacm_run(). Not from a callback.
 */
int sacache_rdmacm_wait(struct sacache_rdmacm_peer *peer, int timeout);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

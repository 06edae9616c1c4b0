/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libsacache-rdmacm: the reconnect procedure of <sacache/reconnect.h> over rdma_cm. A program names
 * its peers and makes their QPs; from then on lost connections are established again.
 *
 * On an InfiniBand port the path comes from the cache, and is set (RDMA_OPTION_IB_PATH), so that no
 * query for it is sent; where there is no such path (RoCE, iWARP) rdma_cm resolves the route.
 * Requests carry the names of both ends in their private data.
 *
 *	cb prepare ──► (rdma_cm connects) ──► cb up ──► …traffic… ──► cb down ──► cb release
 *	     └────────── no connection was established ───────────────────────────────────┘
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
	size_t size;		       /* of this structure: sacache_rdmacm_attr_init() sets it */
	struct sacache *cache;	       /* NULL: routes are always resolved by rdma_cm */
	unsigned port;		       /* of the cache, for keys; see also ops->port() */
	const struct sockaddr *listen; /* address to listen on for peers' requests; NULL: none */
	int backlog;
	const struct sacache_reconnect_attr *reconnect; /* NULL: the defaults */
	struct rdma_conn_param param; /* of connections; private data is the library's */
};

struct sacache_rdmacm_ops {
	size_t size; /* of this structure as the program knows it */
	/*
	 * An attempt begins with that id: makes its QP (rdma_create_qp()) and posts receives. 0, or
	 * an errno, after undoing everything.
	 */
	int (*prepare)(void *ctx, void *user, struct rdma_cm_id *id);
	/* Destroys the QP; the id is destroyed afterwards. Once for each prepare() that returned
	 * 0. */
	void (*release)(void *ctx, void *user, struct rdma_cm_id *id);
	/* Connected. May be NULL. */
	void (*up)(void *ctx, void *user, struct rdma_cm_id *id);
	/* The connection is lost; release() follows. May be NULL. */
	void (*down)(void *ctx, void *user, struct rdma_cm_id *id, int status);
	/*
	 * A request with names that no peer has. The callback may add the peer, which then handles
	 * the request; otherwise it is rejected. May be NULL.
	 */
	void (*admit)(void *ctx, uint64_t local, uint64_t remote, const struct sockaddr *from);
	/* The cache's port for an id on an InfiniBand port. NULL: attr->port. */
	unsigned (*port)(void *ctx, struct rdma_cm_id *id);
};

/*
 * A connection's two ends. The program chooses the names: local here is remote at the other end,
 * and both ends must agree. address is where the peer listens.
 */
struct sacache_rdmacm_name {
	size_t size; /* of this structure as the program knows it */
	uint64_t local;
	uint64_t remote;
	const struct sockaddr *address; /* NULL: unknown; this end never connects */
	enum sacache_role role;
};

/* No listener, backlog 128, times as sacache_reconnect_attr_init(), 7 retries, 1 read each way. */
void sacache_rdmacm_attr_init(struct sacache_rdmacm_attr *attr, size_t size);
/* attr->cache must remain valid. -EINVAL, -ENOMEM, or rdma_cm's errno. */
int sacache_rdmacm_create(const struct sacache_rdmacm_attr *attr,
			  const struct sacache_rdmacm_ops *ops, void *ctx,
			  struct sacache_rdmacm **cm);
/* Ends all connections; down() is not called, release() is. Not from a callback. */
void sacache_rdmacm_destroy(struct sacache_rdmacm *cm);

/* Readable when sacache_rdmacm_run() has work. For poll() only. */
int sacache_rdmacm_fd(const struct sacache_rdmacm *cm);
/* Does all pending work without waiting. -ENODEV: the device of the listener was removed. */
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
/* Reports that the program found the connection broken, by a completion or a timeout: an errno. */
void sacache_rdmacm_failed(struct sacache_rdmacm_peer *peer, int status);
/* The connected id, or NULL. */
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

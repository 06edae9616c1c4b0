/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The parts of libsacache-rdmacm: rdmacm.c has the program's calls, rdmacm_link.c the procedure's
 * operations and rdma_cm's events. Everything runs in the program's thread.
 *
 * An attempt has a link, which is its id's context; a peer has at most one.
 */
#ifndef SACACHE_RDMACM_LINK_H
#define SACACHE_RDMACM_LINK_H

#include <sys/socket.h>

#include "libsacache/rdmacm.h"

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
	struct sacache_rdmacm_ops ops;
	void *ctx;
	uint32_t timeout; /* of the procedure */
	struct sacache_reconnect *set;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	bool gone; /* the listener's device was removed */
	int epoll, timer, event;
	uint64_t armed; /* the timer's setting */
	void *tree;
	struct sacache_rdmacm_peer *peers;
};

/* For sacache_reconnect_create(), with a struct sacache_rdmacm as ctx. */
extern const struct sacache_reconnect_ops sa_rdmacm_procedure;

/* Handles the next event; -EAGAIN: there is none. */
int sa_rdmacm_event(struct sacache_rdmacm *cm);
/* An attempt, or its connection, ended with an errno. */
void sa_rdmacm_link_failed(struct link *link, int status);
struct sacache_rdmacm_peer *sa_rdmacm_find(struct sacache_rdmacm *cm, uint64_t local,
					   uint64_t remote);
/* Orders peers by their names, for tsearch(). */
int sa_rdmacm_compare(const void *a, const void *b);

#endif

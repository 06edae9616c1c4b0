/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reliable datagrams between many nodes, in the style of RDS: a program sends to a node and need
 * not know of connections. There is one RC connection to each node, made and made again by
 * libsacache-rdmacm. What was sent and not acknowledged when a connection is lost is sent again
 * over the next, and what arrives again is dropped: each datagram is delivered once, and those of a
 * node in the order in which it sent them, as long as both processes live.
 *
 * A node that is started again knows nothing of what was under way: it is a stranger, and refused
 * (-ESTALE from datagrams_run()). One thread.
 */
#ifndef DATAGRAMS_H
#define DATAGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include <sacache/rdmacm.h>

#define DATAGRAM_SIZE 4000 /* at most */

struct datagrams;

/* A datagram from that node; it is valid during the call. */
typedef void (*datagrams_deliver)(void *ctx, unsigned from, const void *data, size_t size);

/* This is node self of nodes; each has the addresses of all, in the same order. cache may be NULL.
 * */
int datagrams_open(unsigned self, const struct sockaddr_in *nodes, unsigned count,
		   struct sacache *cache, datagrams_deliver deliver, void *ctx,
		   struct datagrams **out);
void datagrams_close(struct datagrams *d);
/* -EAGAIN: as many are under way to that node as can be; after datagrams_run() there may be room.
 * */
int datagrams_send(struct datagrams *d, unsigned to, const void *data, size_t size);
/* Does what there is to do; waits for it at most that long. */
int datagrams_run(struct datagrams *d, int ms);
/* How many are sent and not yet acknowledged. */
unsigned datagrams_under_way(const struct datagrams *d, unsigned to);
/* The connection to that node, NULL while there is none: to be tortured by tests. */
struct rdma_cm_id *datagrams_connection(const struct datagrams *d, unsigned to);

struct datagrams_stats {
	uint64_t sent, again, delivered, dropped;
	struct sacache_reconnect_stats connections;
};
void datagrams_stats(const struct datagrams *d, struct datagrams_stats *stats);

#endif

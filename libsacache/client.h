/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The SA client: queries for path records. It does no I/O and reads no clock: its owner passes MADs
 * and the time to it, and serializes all calls.
 *
 *	submit ──► queue ──window, rate──► slot: sent ──answer──► done
 *				     ▲	      │  │
 *				     └─────── │ ─┴─ busy: backs off, in its slot
 *			no answer: retry ◄────┘
 *
 * A transaction's low 32 bits are counter << 8 | slot, the upper ones belong to the kernel (15.4.1:
 * responses carry the request's); the highest of the low ones is set in those of notice.h. A query
 * that backs off keeps its slot, so that a busy SA gets fewer queries. Both waits double with each
 * try and have a random part.
 */
#ifndef SACACHE_CLIENT_H
#define SACACHE_CLIENT_H

#include "libsacache/cache.h"
#include "libsacache/mad.h"
#include "libsacache/rmpp.h"

#define SA_MAX_WINDOW 256
#define SA_BUCKETS    1024
#define SA_NEVER      UINT64_MAX

struct sa_query {
	struct sacache_key key; /* normalized */
	bool table;
	/* The owner's. */
	uint32_t generation;
	bool confirms; /* a table, which the cache's records are compared with */
	void *waiters;
	/* Private to the client. */
	struct sa_query *next_queued;
	struct sa_query *next_same_bucket;
};

enum sa_slot_state { SA_SLOT_FREE, SA_SLOT_SENT, SA_SLOT_BACKOFF };

struct sa_slot {
	enum sa_slot_state state;
	struct sa_query *query;
	uint32_t tid;
	unsigned tries; /* sent so far */
	uint64_t deadline;
	struct sa_rmpp rmpp;
};

struct sa_client_ops {
	/*
	 * Sends a MAD whose response is expected within so many ms; 0: none is expected. A MAD that
	 * cannot be sent counts as lost.
	 */
	void (*send)(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout);
	/*
	 * Completes a query, which is freed afterwards: 0 and the records, 64 bytes each, stride
	 * apart, or an errno. Must not call the client.
	 */
	void (*done)(void *ctx, struct sa_query *query, int status, const uint8_t *records,
		     size_t count, size_t stride);
	void (*count)(void *ctx, enum sa_count what);
};

struct sa_client {
	const struct sa_client_ops *ops;
	void *ctx;
	struct sacache_attr attr;
	uint8_t port_gid[16];
	uint64_t random;
	uint32_t counter;
	uint64_t credit; /* thousandths of a query that may be sent now */
	uint64_t credited;
	struct sa_query *head, **tail;
	unsigned queued;
	unsigned active;
	struct sa_query *buckets[SA_BUCKETS];
	struct sa_slot slots[SA_MAX_WINDOW];
};

void sa_client_init(struct sa_client *client, const struct sacache_attr *attr,
		    const uint8_t port_gid[16], const struct sa_client_ops *ops, void *ctx,
		    uint64_t now);
/* Ends all queries with that status. */
void sa_client_cancel(struct sa_client *client, int status);

/* The pending query for that key, or NULL. */
struct sa_query *sa_client_find(struct sa_client *client, const struct sacache_key *key,
				bool table);
/* Starts or queues one; NULL and *error: -EAGAIN (the queue is full), -ENOMEM. Does not call
 * done. */
struct sa_query *sa_client_submit(struct sa_client *client, const struct sacache_key *key,
				  bool table, uint64_t now, int *error);
/* Asks a pending table's question anew: what is on its way is not its answer any more. */
void sa_client_ask_again(struct sa_client *client, struct sa_query *table, uint64_t now);
/* A MAD arrived, from any source. */
void sa_client_receive(struct sa_client *client, const uint8_t *mad, size_t length, uint64_t now);
/* Does what is due; returns the time of the next call. */
uint64_t sa_client_run(struct sa_client *client, uint64_t now);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The answer to a message of ibacm's protocol: the source's port, the destination's GID, then the
 * path from the cache, or the key to query the SA with. No sockets. The loop's thread.
 */
#ifndef SACACHED_ACM_ANSWER_H
#define SACACHED_ACM_ANSWER_H

#include "daemons/sacached/acm.h"
#include "daemons/sacached/sacached.h"

enum acm_operation { ACM_OP_RESOLVE, ACM_OP_PERF, ACM_OP_EP, ACM_OPERATIONS };
#define ACM_STATUSES (ACM_EDESTTYPE + 1)

/* Counted since the start. */
struct acm_stats {
	uint64_t clients;  /* connected now */
	uint64_t accepted; /* ever, including those of before a restart */
	uint64_t kept;	   /* those of before a restart */
	uint64_t dropped;  /* for an invalid message */
	uint64_t full;	   /* times that the listener was paused, at max_clients */
	uint64_t requests[ACM_OPERATIONS];
	uint64_t answers[ACM_STATUSES]; /* answers by status */
	uint64_t count[ACM_COUNTERS];	/* ibacm's, and those of each port of struct sacached */
	uint64_t of_port[SACACHE_MAX_PORTS][ACM_COUNTERS];
};

/* A request whose answer needs the SA. */
struct acm_work {
	struct acm_request request;
	struct sacache_key key;
	uint16_t partition; /* of the source's netdev, or 0. The first lookup may be without it */
	bool chosen;	    /* source was not in the request */
	struct acm_address source;
};

/*
 * Answers a whole message into out (ACM_MAX_ANSWER) and returns the length. 0: work->key must be
 * resolved first (from the SA if work->request.query_sa); then call acm_continue() with the result,
 * which may return 0 again.
 */
size_t acm_begin(struct sacached *d, struct acm_stats *stats, const uint8_t *message, size_t length,
		 struct acm_work *work, uint8_t *out);
size_t acm_continue(struct sacached *d, struct acm_stats *stats, struct acm_work *work, int error,
		    const struct sacache_path *path, uint8_t *out);

#endif

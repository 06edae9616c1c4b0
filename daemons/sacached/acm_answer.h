/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached answers to a message of ibacm's protocol: the source's port, the destination's GID,
 * then the path from the table, or the key by which the SA has to be asked. No sockets. The loop's
 * thread.
 */
#ifndef SACACHED_ACM_ANSWER_H
#define SACACHED_ACM_ANSWER_H

#include "daemons/sacached/acm.h"
#include "daemons/sacached/sacached.h"

enum acm_operation { ACM_OP_RESOLVE, ACM_OP_PERF, ACM_OP_EP, ACM_OPERATIONS };
#define ACM_STATUSES (ACM_EDESTTYPE + 1)

/* Counted since the start. */
struct acm_stats {
	uint64_t clients;  /* now */
	uint64_t accepted; /* ever, those of before a restart included */
	uint64_t kept;	   /* those of before a restart */
	uint64_t dropped;  /* for what they sent */
	uint64_t full;	   /* times that the door was shut, as there were too many */
	uint64_t requests[ACM_OPERATIONS];
	uint64_t answers[ACM_STATUSES]; /* by status */
	uint64_t count[ACM_COUNTERS];	/* ibacm's, and those of each port of struct sacached */
	uint64_t of_port[SACACHE_MAX_PORTS][ACM_COUNTERS];
};

/* A request whose answer needs the SA. */
struct acm_work {
	struct acm_request request;
	struct sacache_key key;
	uint16_t partition; /* of the source's netdev, or 0: it may not be asked for at first */
	bool chosen;	    /* source was not in the request */
	struct acm_address source;
};

/*
 * Answers a whole message into out (ACM_MAX_ANSWER) and returns the length. 0: work->key is to be
 * resolved (past the table, if work->request.query_sa), then acm_continue() is called with what
 * came of that; which may return 0 again.
 */
size_t acm_begin(struct sacached *d, struct acm_stats *stats, const uint8_t *message, size_t length,
		 struct acm_work *work, uint8_t *out);
size_t acm_continue(struct sacached *d, struct acm_stats *stats, struct acm_work *work, int error,
		    const struct sacache_path *path, uint8_t *out);

#endif

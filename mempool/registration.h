/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registrations: the part that registration.c and reuse.c share.
 */
#ifndef MEMPOOL_REGISTRATION_H
#define MEMPOOL_REGISTRATION_H

#include "mempool/pool.h"

struct mempool_registration {
	struct rmempool_mr mr; /* what the program sees; first */
	struct mempool_domain *domain;
	uintptr_t buffer; /* the pool's buffer that it covers, or 0 */
	uint32_t run;
	struct mempool_registration *next; /* in its bucket, by buffer */

	/* Reuse, guarded by the lock of reuse.c. */
	bool watched; /* in the list of reuse.c */
	bool stale;   /* its memory has been unmapped */
	bool ready;   /* may be found */
	unsigned holders;
	struct mempool_registration *newer, *older;
};

/* Deregisters and frees a registration that is in no list any more. -errno: it still exists. */
int mempool_registration_end(struct rmempool *pool, struct mempool_registration *r);

/* Reuse: NULL where unmapping cannot be monitored. */
struct mempool_reuse *mempool_reuse_create(void);
/* Stops monitoring; every registration must have been removed. */
void mempool_reuse_destroy(struct mempool_reuse *reuse);
/* One that is kept for that range, PD and access, with its user count raised; NULL: none. */
struct mempool_registration *mempool_reuse_find(struct mempool_reuse *reuse, struct ibv_pd *pd,
						const void *addr, size_t length, int access);
/*
 * Monitors the range of a new registration, before ibv_reg_mr(), and lists it with one user; false:
 * it cannot be monitored. Then mempool_reuse_ready(), or _remove() after an error.
 */
bool mempool_reuse_watch(struct mempool_reuse *reuse, struct mempool_registration *r);
void mempool_reuse_ready(struct mempool_reuse *reuse, struct mempool_registration *r);
void mempool_reuse_remove(struct mempool_reuse *reuse, struct mempool_registration *r);
/* Drops a use. */
void mempool_reuse_put(struct mempool_reuse *reuse, struct mempool_registration *r);
/*
 * Removes one that is unused and must go, because its memory is gone or there are too many; or any
 * of that PD; or, with all, any. NULL: none. The caller ends it.
 */
struct mempool_registration *mempool_reuse_reap(struct mempool_reuse *reuse, struct ibv_pd *pd,
						bool all);
void mempool_reuse_query(struct mempool_reuse *reuse, struct rmempool_statistics *statistics);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registrations, as registration.c and reuse.c share them.
 */
#ifndef MEMPOOL_REGISTRATION_H
#define MEMPOOL_REGISTRATION_H

#include "mempool/pool.h"

struct mempool_registration {
	struct rmempool_mr mr; /* what the program sees; first */
	struct mempool_domain *domain;
	uintptr_t buffer; /* the pool's buffer that it is of, or 0 */
	uint32_t run;
	struct mempool_registration *next; /* in its bucket, by buffer */

	/* Reuse, guarded by the lock of reuse.c. */
	bool watched; /* in the list of reuse.c */
	bool stale;   /* its memory has been unmapped */
	bool ready;   /* may be found */
	unsigned holders;
	struct mempool_registration *newer, *older;
};

/* Ends a registration for good and frees it; in no list any more. -errno: it lives on. */
int mempool_registration_end(struct rmempool *pool, struct mempool_registration *r);

/* Reuse: NULL where unmapping cannot be watched. */
struct mempool_reuse *mempool_reuse_create(void);
/* Stops watching; every registration must have been taken out. */
void mempool_reuse_destroy(struct mempool_reuse *reuse);
/* One that is kept for that range, PD and access, now with a holder more; NULL: none. */
struct mempool_registration *mempool_reuse_find(struct mempool_reuse *reuse, struct ibv_pd *pd,
						const void *addr, size_t length, int access);
/*
 * Watches the range of a new registration, before ibv_reg_mr(), and lists it with one holder;
 * false: it cannot be watched. Then mempool_reuse_ready(), or _remove() if there was an error.
 */
bool mempool_reuse_watch(struct mempool_reuse *reuse, struct mempool_registration *r);
void mempool_reuse_ready(struct mempool_reuse *reuse, struct mempool_registration *r);
void mempool_reuse_remove(struct mempool_reuse *reuse, struct mempool_registration *r);
/* A holder less. */
void mempool_reuse_put(struct mempool_reuse *reuse, struct mempool_registration *r);
/*
 * Takes one out that nobody holds and that has to go: because its memory is gone or there are too
 * many; or any of that PD; or, with all, any. NULL: none. Its caller ends it.
 */
struct mempool_registration *mempool_reuse_reap(struct mempool_reuse *reuse, struct ibv_pd *pd,
						bool all);
void mempool_reuse_query(struct mempool_reuse *reuse, struct rmempool_statistics *statistics);

#endif

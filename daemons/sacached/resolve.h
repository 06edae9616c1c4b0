/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Resolves keys to paths for the modules that serve clients: libsacache's sacache_query(), whose
 * answers arrive in a port's thread, forwarded to the loop, with a deadline for each.
 *
 *	resolve_path ──► sacache_query ──hit──────────────┐
 *			      └─miss─► port's thread ──► list ──► loop ──► done
 *	deadline ──► timer ───────────────────────────────────────────────► done (-ETIMEDOUT)
 *
 * Call resolve_lookup() first for an answer from the cache without delay.
 */
#ifndef SACACHED_RESOLVE_H
#define SACACHED_RESOLVE_H

#include "daemons/sacached/sacached.h"

struct resolve;

/*
 * Looks a key up in the cache, as sacache_lookup(). A key that names a partition is also looked up
 * without it, and served if that record is in the partition. So requests with and without a
 * partition share one query.
 */
int resolve_lookup(struct sacached *d, const struct sacache_key *key, struct sacache_path *path);

/*
 * Calls done in the loop's thread, exactly once, after the return: with 0 and a path, with an error
 * of sacache_query(), or with -ETIMEDOUT after deadline (ms, at least 1). The query then goes on
 * and fills the cache. NULL: no memory, and done is not called.
 */
struct resolve *resolve_path(struct sacached *d, const struct sacache_key *key, unsigned deadline,
			     void (*done)(void *arg, int status, const struct sacache_path *path),
			     void *arg);
/* The same, but queries the SA even if the cache has the path (sacache_query_sa()). */
struct resolve *
resolve_past_table(struct sacached *d, const struct sacache_key *key, unsigned deadline,
		   void (*done)(void *arg, int status, const struct sacache_path *path), void *arg);
/* Cancels: done is not called any more. Not to be called after done was. */
void resolve_cancel(struct resolve *resolve);

int resolver_start(struct sacached *d, struct resolver **resolver);
/* After sacache_destroy(), since answers could still arrive before. Drops what is pending. */
void resolver_stop(struct resolver *resolver);

#endif

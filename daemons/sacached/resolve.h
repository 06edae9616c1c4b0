/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths by key for the modules that serve: libsacache's sacache_query(), whose answers come in a
 * port's thread, brought into the loop, with a deadline for each.
 *
 *	resolve_path ──► sacache_query ──hit──────────────┐
 *			      └─miss─► port's thread ──► list ──► loop ──► done
 *	deadline ──► timer ───────────────────────────────────────────────► done (-ETIMEDOUT)
 *
 * Who wants the table's answer at once calls resolve_lookup() first.
 */
#ifndef SACACHED_RESOLVE_H
#define SACACHED_RESOLVE_H

#include "daemons/sacached/sacached.h"

struct resolve;

/*
 * What the table says to a key, as sacache_lookup(); to one that names a partition also by the
 * record that was found without, if that is in it. So whoever asks with and without makes one
 * question together.
 */
int resolve_lookup(struct sacached *d, const struct sacache_key *key, struct sacache_path *path);

/*
 * done is called in the loop's thread, exactly once, after the return: with 0 and a path, or with
 * an error of sacache_query(), or with -ETIMEDOUT after deadline (ms, at least 1). The query goes
 * on then, for the table's sake. NULL: no memory, and done is not called.
 */
struct resolve *resolve_path(struct sacached *d, const struct sacache_key *key, unsigned deadline,
			     void (*done)(void *arg, int status, const struct sacache_path *path),
			     void *arg);
/* The same, though the table knows: by sacache_query_sa(). */
struct resolve *
resolve_past_table(struct sacached *d, const struct sacache_key *key, unsigned deadline,
		   void (*done)(void *arg, int status, const struct sacache_path *path), void *arg);
/* done is not called any more. Not after it was. */
void resolve_cancel(struct resolve *resolve);

int resolver_start(struct sacached *d, struct resolver **resolver);
/* After sacache_destroy(), or answers could still come. What is under way is dropped. */
void resolver_stop(struct resolver *resolver);

#endif

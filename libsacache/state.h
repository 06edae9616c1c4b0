/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table in a file, for a warm start; state_file.h has the picture of the file.
 *
 * Only records that would answer are in it: no failures, and nothing that is to be asked for again.
 * Ports that were not open when it was written are as they were in the file before. What changes
 * the table takes cache->lock.
 */
#ifndef SACACHE_STATE_H
#define SACACHE_STATE_H

#include "libsacache/cache.h"
#include "libsacache/state_file.h"

/* Puts the entries of those ports into the table. -ENODEV: they were all in another subnet. */
int sa_state_apply(struct sacache *cache, const struct sa_state *state,
		   const struct sa_port_identity *here, uint32_t ports,
		   struct sacache_state *report);

#endif

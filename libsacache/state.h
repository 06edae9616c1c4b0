/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table in a file, for a warm start; state_file.h has the picture of the file.
 *
 * It has only valid records: no failures, and none that are to be queried again. Records of ports
 * that were not open when it was written are kept from the file before. Changes of the table take
 * cache->lock.
 */
#ifndef SACACHE_STATE_H
#define SACACHE_STATE_H

#include "libsacache/cache.h"
#include "libsacache/state_file.h"

/* Adds the entries of those ports to the table. -ENODEV: they were all in another subnet. */
int sa_state_apply(struct sacache *cache, const struct sa_state *state,
		   const struct sa_port_identity *here, uint32_t ports,
		   struct sacache_state *report);

#endif

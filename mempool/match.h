/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rows of the registration table as libmempool uses them: kind MEMPOOL_REGION; qpn, which regions
 * do not use, tells whether the row is for an L_Key, an R_Key or both; parent is the other key.
 */
#ifndef MEMPOOL_MATCH_H
#define MEMPOOL_MATCH_H

#include "mempool/table.h"

#define MEMPOOL_REMOTE (RMEMPOOL_REMOTE_WRITE | RMEMPOOL_REMOTE_READ | RMEMPOOL_REMOTE_ATOMIC)
#define MEMPOOL_RIGHTS (RMEMPOOL_LOCAL_WRITE | MEMPOOL_REMOTE | RMEMPOOL_MW_BIND)

enum mempool_row_role {
	MEMPOOL_ROW_L = 1,
	MEMPOOL_ROW_R = 2,
	MEMPOOL_ROW_BOTH = 3,
};

/* The rows of a request's keys; NULL for a key that is not given or not in the table. */
enum rmempool_verdict mempool_judge(const struct rmempool_request *request,
				    const struct mempool_row *l, const struct mempool_row *r);

#endif

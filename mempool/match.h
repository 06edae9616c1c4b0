/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rows of the registration table as libmempool uses them: kind MEMPOOL_REGION, and in qpn, which
 * regions have no use for, whether the row is for an L_Key, an R_Key or both. parent is the other key.
 */
#ifndef MEMPOOL_MATCH_H
#define MEMPOOL_MATCH_H

#include "mempool/table.h"

#define MEMPOOL_REMOTE (MEMPOOL_REMOTE_WRITE | MEMPOOL_REMOTE_READ | MEMPOOL_REMOTE_ATOMIC)
#define MEMPOOL_RIGHTS (MEMPOOL_LOCAL_WRITE | MEMPOOL_REMOTE | MEMPOOL_MW_BIND)

enum mempool_row_role {
	MEMPOOL_ROW_L = 1,
	MEMPOOL_ROW_R = 2,
	MEMPOOL_ROW_BOTH = 3,
};

/* What a request's keys lead to; NULL for a key that is not given or not there. */
enum mempool_verdict mempool_judge(const struct mempool_request *request,
				   const struct mempool_row *l, const struct mempool_row *r);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's counters by name: for sacachectl in JSON, for Prometheus as metrics. Constant.
 */
#ifndef SACACHED_COUNTERS_H
#define SACACHED_COUNTERS_H

#include "daemons/common/counters.h"

extern const struct counters counters_of_cache;	   /* struct sacache_stats */
extern const struct counters counters_of_clients;  /* struct acm_stats */
extern const struct counters counters_of_requests; /* the same, by operation */
extern const struct counters counters_of_answers;  /* the same, by status */
extern const struct counters counters_of_kernel;   /* struct netlink_stats */
extern const struct counters counters_of_state;	   /* struct warm_status */

#endif

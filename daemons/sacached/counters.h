/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The cache's counters by name: for sacachectl in JSON, for Prometheus with what its exposition format
 * wants to be told. Constant.
 */
#ifndef SACACHED_COUNTERS_H
#define SACACHED_COUNTERS_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "libsacache/sacache.h"

struct counter {
	const char *name;   /* of the member of struct sacache_stats */
	const char *metric; /* several in a row may be one with different labels */
	const char *labels; /* "" or "{reason=\"miss\"}" */
	const char *help;   /* of the first of these, else NULL */
	size_t offset;
	bool gauge; /* it also falls */
};

extern const struct counter counters[];
extern const unsigned counters_count;

static inline uint64_t counter_value(const struct counter *counter,
				     const struct sacache_stats *stats)
{
	return *(const uint64_t *)((const char *)stats + counter->offset);
}

#endif

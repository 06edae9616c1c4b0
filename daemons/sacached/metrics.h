/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters for Prometheus, by HTTP at /metrics, where metrics_listen is set. In the loop's thread, by
 * libmicrohttpd's epoll descriptor.
 */
#ifndef SACACHED_METRICS_H
#define SACACHED_METRICS_H

#include "daemons/sacached/sacached.h"

int metrics_start(struct sacached *d, struct metrics **metrics);
void metrics_stop(struct metrics *metrics);

/* The text of /metrics (the exposition format 0.0.4); to be freed. NULL: no memory. */
char *metrics_text(struct sacached *d, size_t *length);

#endif

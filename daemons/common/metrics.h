/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Metrics for Prometheus: GET /metrics on an address and port of their own. The loop's thread.
 */
#ifndef DAEMON_METRICS_H
#define DAEMON_METRICS_H

#include <stdio.h>

#include <event2/event.h>

struct metrics;

/*
 * listen: "127.0.0.1:9843" or "[::1]:9843"; "": nobody is served, and *metrics stays as it is.
 * write(out, arg) is called for each request and writes all metrics (counters.h) but
 * NAME_build_info, which comes before them. 0 or a negative errno after a line in the log.
 */
int metrics_start(struct event_base *base, const char *listen, void (*write)(FILE *out, void *arg),
		  void *arg, struct metrics **metrics);
void metrics_stop(struct metrics *metrics);

#endif

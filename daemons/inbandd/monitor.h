/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The scan that inbandd does by itself, each `scan` seconds: ports at a threshold are alarms,
 * counters that have grown are lines of a file that is only appended to, and sums and the worst
 * ports are metrics, whatever the size of the network. The loop's thread.
 *
 *	1763834567890 S.leaf.3.7:4 retries=12 errors=3		ms since 1970, the port, what it has grown by
 */
#ifndef INBANDD_MONITOR_H
#define INBANDD_MONITOR_H

#include <stdio.h>

#include "daemons/inbandd/inbandd.h"

#define MONITOR_WORST 20 /* ports that metrics name */

struct monitor;

/* -EINVAL: thresholds make no sense, with a line in the log. */
int monitor_start(struct inbandd *d, struct monitor **monitor);
void monitor_stop(struct monitor *monitor);
/* Opens the file anew, as after it has been moved away. */
void monitor_reopen(struct monitor *monitor);
/* The model is another one. */
void monitor_forget(struct monitor *monitor);
void monitor_metrics(const struct monitor *monitor, FILE *out);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* sacached's metrics, for daemons/common/metrics.h. The loop's thread. */
#ifndef SACACHED_METRICS_TEXT_H
#define SACACHED_METRICS_TEXT_H

#include <stdio.h>

#include "daemons/sacached/sacached.h"

/* arg: struct sacached with its modules started. */
void metrics_write(FILE *out, void *arg);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the log was last told of each guest, so that something that lasts is one line and not one
 * for each look at it. A list belongs to one thread.
 */
#ifndef LIDTRACKD_SAID_H
#define LIDTRACKD_SAID_H

#include <stdbool.h>

struct said;

/* Is it something else than what was last said of that guest? It is taken for said from then on. */
bool said_new(struct said **list, const char *guest, const char *text);
/* What was said of it holds no longer: it is new when it comes again. NULL: of all guests. */
void said_over(struct said **list, const char *guest);

#endif

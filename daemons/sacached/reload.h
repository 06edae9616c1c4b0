/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What SIGHUP reads again: the configuration (what may change at run time), the hosts file with
 * GIDs that it names, and the one with names. A worker thread reads the first two, because the loop
 * must not wait for a disk.
 *
 * The loop's thread.
 */
#ifndef SACACHED_RELOAD_H
#define SACACHED_RELOAD_H

#include "daemons/sacached/sacached.h"

struct reload;

/* Loads the hosts file, and waits for that: before the loop runs. The source is kept. */
int reload_start(struct sacached *d, const struct config_source *source, struct reload **reload);
/* Before the cache is destroyed. */
void reload_stop(struct reload *reload);
/* Returns at once. A reload that is under way is followed by another one. */
void reload_begin(struct reload *reload);

#endif

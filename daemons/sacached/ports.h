/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The host's InfiniBand ports in struct sacached: opened in the cache at the start or when they
 * appear, closed when they are gone; state, LID, GIDs and P_Keys read again now and then.
 */
#ifndef SACACHED_PORTS_H
#define SACACHED_PORTS_H

#include "daemons/sacached/sacached.h"

/* Having none is no error: the daemon waits for one. */
int ports_start(struct sacached *d, struct ports **ports);
void ports_stop(struct ports *ports);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How the loop's thread waits. To be woken from sleep takes longer than to answer, so where requests follow
 * one another quickly it looks for the next one for a moment before it sleeps, and lets others have the
 * CPU meanwhile (sched_yield(2)).
 *
 *	asleep ──4 requests, one within 4 × spin of the other──► looking ──none for spin──► asleep
 */
#ifndef SACACHED_LOOP_H
#define SACACHED_LOOP_H

#include "daemons/sacached/sacached.h"

/* Until sacached_quit(). */
void loop_run(struct sacached *d);

#endif

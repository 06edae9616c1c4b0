/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What pollers do before and between their turns of the engine (engine.h). */
#ifndef URXE_HCA_POLLING_H
#define URXE_HCA_POLLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

void urxe_polling_init(void);
/*
 * For pollers, before a turn: it would find nothing, since no packet of a neighbour waits, nothing
 * is to be sent, and the last turn was some microseconds ago at most. Renews the lease. False where
 * there are no neighbours, whose packets can be seen.
 */
bool urxe_engine_quiet(void);
/* Under the lock: brings `now` up to date, to within some microseconds; returns urxe_ticks(). */
uint64_t urxe_engine_clock(void);
/* After so many turns in a row that found nothing, since that tick: lets others have the CPU, if it
 * is time for that. head is that of the polled CQ: the service thread may add to it meanwhile. */
void urxe_engine_give_way(unsigned idle, uint64_t since, const atomic_uint *head);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The service thread; engine.h says when it works. */
#ifndef URXE_HCA_SERVICE_H
#define URXE_HCA_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the thread look again. */
void urxe_service_wake(void);

int urxe_service_start(void);
void urxe_service_stop(void);
void urxe_service_forked(void);

/* A program polls, or posts large messages to neighbours: renews the lease. */
void urxe_engine_polled(uint64_t now);
/* A program will sleep on a channel: the service thread must watch the wire from now on. */
void urxe_engine_watch(void);

/* With the engine lock held: one turn of the engine, then gives the lock back. Were there packets?
 * Acknowledgements may wait for the program's answer: urxe_engine_ack_waits(). */
bool urxe_engine_turn(bool acks_may_wait);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The adapter as the floors above it use it: the engine's lock and clock, the host
 * segment, multicast membership. MADs are in gsi.h. Objects and protocol state are engine.h's and
 * hca.h's, which are this floor's own.
 */
#ifndef URXE_HCA_ADAPTER_H
#define URXE_HCA_ADAPTER_H

#include <stdbool.h>
#include <stdint.h>

#include "host/segment.h"
#include "host/ticks.h"
#include "wire/link.h"

/* First user starts it, last one stops it. -errno as from the segment and the wire. */
int urxe_engine_get(void);
void urxe_engine_put(void);

/*
 * The engine lock, which also guards the state of the connection manager. Its holder works for
 * all threads: it is held for microseconds.
 */
void urxe_engine_lock(void);
/* Runs what has become ready, gives the lock back, and sees to what was kicked meanwhile. */
void urxe_engine_unlock(void);

/*
 * Takes what is on the wire and does all that is due, unless another thread is doing so. often: the
 * caller polls for completions, so that it may own the lock (common/owned_lock.h).
 */
void urxe_engine_progress(bool often);
/* Does a packet of a neighbour wait? Any thread of a program that keeps the engine. */
bool urxe_engine_waits(void);
/* A program sleeps on a descriptor of ours: the service thread watches the wire meanwhile. The
 * second is a cleanup handler. */
void urxe_engine_sleeps(void);
void urxe_engine_woke(void *unused);

/* While the engine is held. */
struct urxe_segment *urxe_adapter_segment(void);
/* Under the lock: CLOCK_MONOTONIC, ns, as of the holder's last look; and with a look. */
uint64_t urxe_adapter_now(void);
uint64_t urxe_adapter_clock(void);
/* Under the lock: looks for processes of this host that have died, and reports them to one user of
 * QP 1 (gsi.h). */
void urxe_adapter_reap(void);
/* Under the lock: a path of a process that is dead, from its records, becomes one of this process,
 * which may have numbered the ports otherwise. False: there is no such port here. */
bool urxe_adapter_adopt(struct urxe_path *path);

/* Under the lock: packets to a multicast group by which UD QPs are attached to it. As
 * urxe_wire_mcast_join(); leave does nothing when the engine has ended. */
int urxe_adapter_join(const struct urxe_port *port, const struct urxe_link_addr *group);
void urxe_adapter_leave(const struct urxe_port *port, const struct urxe_link_addr *group);

#endif

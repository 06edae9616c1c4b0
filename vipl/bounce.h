/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Buffers that stand for runs of segments of which a device takes fewer: what is sent is copied
 * into them before, what is received out of them afterwards. Guarded by the lock of the queue's CQ.
 */
#ifndef VIPL_BOUNCE_H
#define VIPL_BOUNCE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

struct vipl_slot;
struct vipl_domain;

/*
 * Makes count elements fit into room by a buffer, for receiving or for sending; the new count, or
 * -ENOMEM. slot->bounce remembers it.
 */
int vipl_bounce_fit(struct vipl_slot *slot, struct vipl_domain *domain, struct ibv_sge *list,
		    unsigned count, unsigned room, bool recv);
/* Copies what has been received of a message of that length, and gives the buffer back. */
void vipl_bounce_scatter(struct vipl_slot *slot, struct vipl_domain *domain, uint64_t length);
/* Gives the buffer back, if there is one. */
void vipl_bounce_drop(struct vipl_slot *slot, struct vipl_domain *domain);

#endif

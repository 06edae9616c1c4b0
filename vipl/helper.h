/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The helper thread of a NIC handle, made when it is first needed: it takes the events of
 * connections and of the device, retries requests of peers, delivers errors and calls handlers of
 * Notify. Nothing on the way of data needs it.
 */
#ifndef VIPL_HELPER_H
#define VIPL_HELPER_H

#include <stdbool.h>

#include "vipl/vipl.h"
#include "vipl/wait.h"

struct vipl_nic;
struct vipl_cq;
struct vipl_queue;
struct vipl_vi;

/* Makes it, if there is none. -errno. Any lock may be held. */
int vipl_helper_start(struct vipl_nic *nic);
/* Ends it. True: it is the caller, and ends, and frees the NIC, when the handler that it is in
 * returns. */
bool vipl_helper_stop(struct vipl_nic *nic);
/* Lets it look at everything. */
void vipl_helper_kick(struct vipl_nic *nic);
/* The same at that time, or before. With the NIC's lock held. */
void vipl_helper_at(struct vipl_nic *nic, const struct vipl_deadline *when);

/* An error for the program's handler (VipErrorCallback). Any lock may be held. */
void vipl_report(struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error);
void vipl_report_vi(struct vipl_vi *vi, VIP_ERROR_CODE code, VIP_DESCRIPTOR *descriptor,
		    unsigned control);
/* Hands those that wait to the handler, without locks. */
void vipl_errors_deliver(struct vipl_nic *nic);
void vipl_errors_discard(struct vipl_nic *nic);

/* Calls handlers of Notify for what has completed, without locks. */
void vipl_notices_serve(struct vipl_nic *nic);
/* Forgets a CQ's registrations, with its lock held. */
void vipl_notices_cancel(struct vipl_cq *cq, struct vipl_queue *queue);

#endif

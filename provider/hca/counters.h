/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Counters objects (ibv_create_counters(3)): what flow rules have matched, at the places of the
 * object that the program names. Counted under the engine lock, read by any thread without it.
 */
#ifndef URXE_HCA_COUNTERS_H
#define URXE_HCA_COUNTERS_H

#include <stdint.h>
#include <infiniband/verbs.h>

struct ibv_counters *urxe_create_counters(struct ibv_context *context,
					  struct ibv_counters_init_attr *attr);
/* EBUSY: a flow counts there. */
int urxe_destroy_counters(struct ibv_counters *counters);
/* flow: NULL, or one that shall count there from now on. */
int urxe_attach_counters(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow);
int urxe_read_counters(struct ibv_counters *counters, uint64_t *values, uint32_t n, uint32_t flags);

/* A flow begins (1) or ends (-1) to count there; it has matched a frame. */
void urxe_counters_use(struct ibv_counters *counters, int n);
void urxe_counters_add(struct ibv_counters *counters, uint64_t bytes);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raw packet QPs (ibv_create_qp(3), IBV_QPT_RAW_PACKET): a send WR is a whole Ethernet frame, and a
 * frame that a flow rule (ibv_create_flow(3)) gives to the QP is a receive WR. Under the engine
 * lock.
 */
#ifndef URXE_HCA_RAW_PACKET_H
#define URXE_HCA_RAW_PACKET_H

#include "hca/engine.h"

/* The service's way to send (transport.h). */
void urxe_raw_run(struct urxe_qp *qp);
/* A QP begins and ends: -EPERM, -errno. */
int urxe_raw_attach(struct urxe_qp *qp);
void urxe_raw_detach(struct urxe_qp *qp);
/* In the child of a fork: its parent's QPs receive nothing here. */
void urxe_raw_packet_forked(void);

struct ibv_flow *urxe_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int urxe_destroy_flow(struct ibv_flow *flow);
/* What it matches is counted there from now on: EINVAL, it is counted elsewhere. Without the
 * lock. */
int urxe_flow_count(struct ibv_flow *flow, struct ibv_counters *counters);

#endif

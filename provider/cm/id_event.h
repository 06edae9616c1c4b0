/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handlers that rdma_cm ids give to the communication manager (connection.h). Engine lock. */
#ifndef URXE_CM_ID_EVENT_H
#define URXE_CM_ID_EVENT_H

#include "cm/id.h"

/* A connection's events, and the answer to a SIDR_REQ. */
int urxe_id_on_event(struct urxe_cm_id *conn, const struct urxe_cm_event *event);
int urxe_id_on_sidr_rep(struct urxe_cm_id *conn, const struct urxe_cm_event *event);

/* A passive connection is established or over: its listener need not be found for its sake. */
void urxe_id_leave_listener(struct urxe_id *id);
/* -EINVAL for 0, and for another one than it has. */
int urxe_id_set_qkey(struct urxe_id *id, uint32_t qkey);

#endif

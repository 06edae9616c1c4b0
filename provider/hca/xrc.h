/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Extended reliable connection (IBTA vol. 1, annex A14): an initiator QP sends as an RC QP does,
 * and each of its requests names the SRQ that receives it (XRCETH); a target QP belongs to an XRC
 * domain and to no SRQ, CQ or protection domain of its own: it has those of the SRQ that a request
 * names.
 */
#ifndef URXE_HCA_XRC_H
#define URXE_HCA_XRC_H

#include "hca/hca.h"

struct urxe_packet;
struct urxe_rx_packet;

struct ibv_xrcd *urxe_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
/* EBUSY: SRQs or target QPs of this process are in it. */
int urxe_close_xrcd(struct ibv_xrcd *xrcd);
/* In the child of a fork: forgets its parent's domains and numbers. */
void urxe_xrc_forked(void);
int urxe_get_srq_num(struct ibv_srq *srq, uint32_t *number);
/* Another handle of a target QP, of this process or another one's (qp->handle); the QP lives until
 * all have been destroyed. */
struct ibv_qp *urxe_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* The verbs of such a handle: an errno. Without the engine lock. */
int urxe_xrc_modify_handle(struct urxe_qp *qp, struct ibv_qp_attr *attr, int mask);
int urxe_xrc_query_handle(struct urxe_qp *qp, struct ibv_qp_attr *attr);
void urxe_xrc_close_handle(struct urxe_qp *qp);

/* An SRQ begins to be one of that domain: -errno. And ends. Without the engine lock. */
int urxe_xrc_add_srq(struct urxe_srq *srq, struct ibv_xrcd *xrcd, struct ibv_cq *cq);
void urxe_xrc_remove_srq(struct urxe_srq *srq);
/* A context goes away: its SRQs receive no more. Engine lock. */
void urxe_xrc_abandon(const struct ibv_context *context);

/* What a target QP is created with: EINVAL. attr gets the domain's own PD and CQ, which nobody
 * uses. */
int urxe_xrc_target(const struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		    struct urxe_xrcd **xrcd);
/* It begins to take requests, and ends: it has its own PD and CQ again. Engine lock. */
void urxe_xrc_attach(struct urxe_qp *qp, struct urxe_xrcd *xrcd);
void urxe_xrc_retract(struct urxe_qp *qp);
/* Nobody sees it any more. Without the engine lock. */
void urxe_xrc_detach(struct urxe_qp *qp);

/* The service's ways to take a request packet, and to send (transport.h). */
void urxe_xrc_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		      const struct urxe_rx_packet *rx);
void urxe_xrc_run(struct urxe_qp *qp);

/*
 * Requests for SRQs of other processes (xrc_loan.c): the engine starts, stops, and looks now and
 * then for processes that have died; a QP takes no more requests, and what is under way comes back
 * to nobody; a QP that is another process's has an event. Engine lock.
 */
void urxe_xrc_started(void);
void urxe_xrc_stopped(void);
void urxe_xrc_housekeep(void);
void urxe_xrc_end_loan(struct urxe_qp *qp);
void urxe_xrc_event(struct urxe_qp *qp, enum ibv_event_type type);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC target QPs and the SRQs of this process. SRQs have numbers of their own, whose low byte is
 * the process's slot, as that of a QPN is. Guarded by the engine lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/requester.h"
#include "hca/responder.h"
#include "hca/xrc_private.h"

#define SRQ_PLACES 65536

static struct urxe_srq *srqs[SRQ_PLACES]; /* by urxe_qpn_index() of the number */
static uint32_t next_place = 1;

void urxe_xrc_forked(void)
{
	xrc_domains_forked();
	xrc_loans_forked();
	xrc_openers_forked();
	memset(srqs, 0, sizeof(srqs));
	next_place = 1;
}

/* A domain's CQ is made with it. */
static bool is_inherited(const struct urxe_xrcd *xrcd)
{
	return urxe_inherited(to_cq(xrcd->cq)->forks);
}

/* ---- SRQs ---- */

struct urxe_srq *xrc_find_srq(uint32_t number)
{
	struct urxe_srq *srq = srqs[urxe_qpn_index(number) & (SRQ_PLACES - 1)];

	return srq && srq->number == number ? srq : NULL;
}

int urxe_xrc_add_srq(struct urxe_srq *srq, struct ibv_xrcd *xrcd, struct ibv_cq *cq)
{
	unsigned slot = urxe_segment_slot(urxe_hca.seg);
	int ret = -ENOMEM;

	if (is_inherited(to_xrcd(xrcd)))
		return -EIO;
	urxe_engine_lock();
	for (uint32_t i = 1; ret && i < urxe_qpn_indices(); i++) {
		uint32_t number = urxe_qpn_of(slot, next_place);

		next_place = next_place + 1 < urxe_qpn_indices() ? next_place + 1 : 1;
		if (srqs[urxe_qpn_index(number)])
			continue;
		srq->number = number;
		srq->xrcd = to_xrcd(xrcd);
		srq->cq = to_cq(cq);
		srqs[urxe_qpn_index(number)] = srq;
		ret = 0;
	}
	urxe_engine_unlock();
	if (ret)
		return ret;
	atomic_fetch_add(&srq->xrcd->users, 1);
	atomic_fetch_add(&srq->cq->users, 1);
	return 0;
}

/* What a target QP has of the SRQ that it received for last. */
static void set_own(struct urxe_qp *qp)
{
	static struct urxe_pd none = {.number = UINT32_MAX};

	qp->srq = NULL;
	if (qp->borrowed) {
		qp->pd = &none;
		qp->rcq = NULL;
		return;
	}
	qp->pd = to_pd(qp->xrcd->pd);
	qp->rcq = to_cq(qp->xrcd->cq);
}

/* Nobody finds it any more. Engine lock. */
static void retract_srq(struct urxe_srq *srq)
{
	struct urxe_qp *qp;

	if (xrc_find_srq(srq->number) == srq)
		srqs[urxe_qpn_index(srq->number)] = NULL;
	cds_list_for_each_entry (qp, &srq->xrcd->domain->targets, xrc_node) {
		if (qp->srq != srq)
			continue;
		qp->proto.recv_busy = false;
		set_own(qp);
	}
}

void urxe_xrc_remove_srq(struct urxe_srq *srq)
{
	if (!srq->xrcd)
		return;
	urxe_engine_lock();
	retract_srq(srq);
	urxe_engine_unlock();
	atomic_fetch_sub(&srq->xrcd->users, 1);
	atomic_fetch_sub(&srq->cq->users, 1);
}

void urxe_xrc_abandon(const struct ibv_context *context)
{
	for (uint32_t i = 1; i < urxe_qpn_indices(); i++)
		if (srqs[i] && srqs[i]->ibv.context == context)
			retract_srq(srqs[i]);
}

int urxe_get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
	if (!to_srq(ibv)->xrcd || !number)
		return EINVAL;
	*number = to_srq(ibv)->number;
	return 0;
}

/* ---- target QPs ---- */

int urxe_xrc_target(const struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		    struct urxe_xrcd **xrcd)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd ||
	    attr->xrcd->context != context)
		return EINVAL;
	*xrcd = to_xrcd(attr->xrcd);
	attr->comp_mask = (attr->comp_mask | IBV_QP_INIT_ATTR_PD) & ~IBV_QP_INIT_ATTR_XRCD;
	attr->pd = (*xrcd)->pd;
	attr->send_cq = attr->recv_cq = (*xrcd)->cq;
	attr->srq = NULL;
	attr->cap = (struct ibv_qp_cap){.max_recv_sge = URXE_MAX_SGE};
	return 0;
}

void urxe_xrc_attach(struct urxe_qp *qp, struct urxe_xrcd *xrcd)
{
	qp->xrcd = xrcd;
	cds_list_add(&qp->xrc_node, &xrcd->domain->targets);
	atomic_fetch_add(&xrcd->users, 1);
}

void urxe_xrc_retract(struct urxe_qp *qp)
{
	if (!qp->xrcd || cds_list_empty(&qp->xrc_node))
		return;
	urxe_xrc_end_loan(qp);
	xrc_forget_openers(qp);
	cds_list_del_init(&qp->xrc_node);
}

void urxe_xrc_detach(struct urxe_qp *qp)
{
	if (!qp->xrcd)
		return;
	cds_list_del_init(&qp->xrc_node); /* a child's copy of its parent's QP was not retracted */
	set_own(qp);
	free(qp->loan);
	atomic_fetch_sub(&qp->xrcd->users, 1);
	qp->xrcd = NULL;
}

struct ibv_qp *urxe_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
		IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct urxe_qp *qp;

	if (urxe_missing(attr))
		return NULL;
	if ((attr->comp_mask & ~(IBV_QP_OPEN_ATTR_RESERVED - 1u)))
		return urxe_fail(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV ||
	    !attr->xrcd || attr->xrcd->context != context)
		return urxe_fail(EINVAL);
	if (!urxe_context_here(context))
		return NULL;
	if (is_inherited(to_xrcd(attr->xrcd)))
		return urxe_fail(EIO);
	qp = xrc_open(context, attr);
	return qp ? &qp->ibv : NULL;
}

/* ---- requests ---- */

void xrc_take_request(struct urxe_qp *qp, const struct xrc_domain *domain,
		      const struct urxe_packet *pkt)
{
	struct urxe_srq *srq = xrc_find_srq(urxe_xrceth_srqn(pkt->xrceth));
	bool fits = srq && srq->xrcd->domain == domain && (!qp->proto.recv_busy || qp->srq == srq);

	if (!fits) {
		if (urxe_bth_psn(pkt->bth) == qp->proto.epsn)
			urxe_responder_refuse(qp, URXE_INVALID, qp->proto.epsn);
		return;
	}
	/* Another domain's request waits until then: it is repeated. */
	if (urxe_answers_wait(qp) && qp->pd != to_pd(srq->ibv.pd))
		return;
	qp->srq = srq;
	qp->pd = to_pd(srq->ibv.pd);
	qp->rcq = srq->cq;
	urxe_rc_request(qp, pkt, NULL);
}

void urxe_xrc_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		      const struct urxe_rx_packet *rx)
{
	if (!xrc_lend(qp, pkt, rx))
		xrc_take_request(qp, qp->xrcd->domain, pkt);
}

void urxe_xrc_run(struct urxe_qp *qp)
{
	if (qp->loan)
		xrc_lend_next(qp);
	urxe_requester_run(qp);
}

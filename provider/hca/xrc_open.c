/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Target QPs that are opened again (ibv_open_qp(3)), by the process that made them, their owner, or
 * by another one of the same domain. A handle of another process's asks the owner for each verb,
 * and waits for the answer:
 *
 *	handle ── CALL: serial, verb, attributes ──> owner
 *	       <── ANSWER: serial, errno, attributes ──
 *
 * Messages go by urxe_wire_send_message(). The owner counts handles by process: those of one that
 * has died are given up. The QP lives until the last handle, the owner's too, is destroyed; and no
 * longer than its owner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hca/xrc_private.h"

#define PATIENCE_NS 5000000000ull /* for an owner that is stopped, say */
#define LOOK_US	    20

enum verb { OPEN, CLOSE, QUERY, MODIFY };

struct xrc_call {
	uint32_t kind, qpn;
	uint64_t serial;
	uint64_t dev, ino; /* of the domain */
	uint32_t verb;
	int32_t mask;
	int32_t result;
	uint32_t zero;
	struct ibv_qp_attr attr;
};

/* ---- the owner ---- */

struct opener {
	struct cds_list_head node;
	struct urxe_qp *qp;
	unsigned slot, handles;
	uint32_t life;
};

static CDS_LIST_HEAD(openers);

static struct opener *find_opener(const struct urxe_qp *qp, unsigned slot)
{
	struct opener *o;

	cds_list_for_each_entry (o, &openers, node)
		if (o->qp == qp && o->slot == slot)
			return o;
	return NULL;
}

static int add_handle(struct urxe_qp *qp, unsigned slot)
{
	struct opener *o = find_opener(qp, slot);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return ENOMEM;
		o->qp = qp;
		o->slot = slot;
		o->life = urxe_segment_slot_life(urxe_hca.seg, slot);
		cds_list_add(&o->node, &openers);
	}
	o->handles++;
	qp->opened++;
	return 0;
}

static void free_opener(struct opener *o)
{
	cds_list_del(&o->node);
	free(o);
}

/* The last handle of all takes the QP with it. */
static void remove_handle(struct opener *o)
{
	struct urxe_qp *qp = o->qp;

	if (!--o->handles)
		free_opener(o);
	if (qp->opened)
		qp->opened--;
	else
		urxe_qp_dispose(qp);
}

/* Is a QP in the domain that a call means? One without a file is of this process only. */
static bool in_domain(const struct urxe_qp *qp, const struct xrc_call *c,
		      const struct xrc_domain *ours)
{
	const struct xrc_domain *d = qp->xrcd ? qp->xrcd->domain : NULL;

	if (!d || ours)
		return d && d == ours;
	return c->ino && d->ino == c->ino && d->dev == c->dev;
}

/* ours: the domain, where it is this process that calls; else NULL. */
static int carry_out(unsigned from, struct xrc_call *c, const struct xrc_domain *ours)
{
	struct urxe_qp *qp = urxe_engine_qp(c->qpn);
	struct opener *o;

	if (!qp || !in_domain(qp, c, ours))
		return EINVAL;
	if (c->verb == OPEN)
		return add_handle(qp, from);
	o = find_opener(qp, from);
	if (!o)
		return EINVAL;
	switch (c->verb) {
	case CLOSE: remove_handle(o); return 0;
	case QUERY: urxe_qp_attributes(qp, &c->attr); return 0;
	case MODIFY: return urxe_qp_modify(qp, &c->attr, c->mask);
	default: return EINVAL;
	}
}

void xrc_forget_openers(const struct urxe_qp *qp)
{
	struct opener *o, *next;

	cds_list_for_each_entry_safe (o, next, &openers, node)
		if (o->qp == qp)
			free_opener(o);
}

void xrc_openers_housekeep(void)
{
	struct opener *o, *next;

	cds_list_for_each_entry_safe (o, next, &openers, node) {
		if (urxe_segment_slot_life(urxe_hca.seg, o->slot) == o->life &&
		    urxe_segment_slot_alive(urxe_hca.seg, o->slot))
			continue;
		while (o->handles > 1)
			remove_handle(o);
		remove_handle(o);
		/* It may have taken others of that QP with it. */
		break;
	}
}

/* ---- handles ---- */

/* A thread that waits for an answer. Engine lock. */
struct waiter {
	struct cds_list_head node;
	uint64_t serial;
	_Atomic bool done;
	struct xrc_call *call;
};

static CDS_LIST_HEAD(waiters);
static uint64_t last_serial;

static void answered(const struct xrc_call *answer)
{
	struct waiter *w;

	cds_list_for_each_entry (w, &waiters, node) {
		if (w->serial != answer->serial)
			continue;
		*w->call = *answer;
		atomic_store(&w->done, true);
	}
}

void xrc_open_message(unsigned from, const void *bytes, uint32_t len)
{
	struct xrc_call c;

	if (len != sizeof(c))
		return;
	memcpy(&c, bytes, sizeof(c));
	if (c.kind == XRC_ANSWER) {
		answered(&c);
		return;
	}
	c.kind = XRC_ANSWER;
	c.result = carry_out(from, &c, NULL);
	urxe_wire_send_message(urxe_hca.wire, from, &c, sizeof(c));
}

/* Asks another process. */
static void ask(unsigned owner, struct xrc_call *c)
{
	struct waiter w = {.call = c};
	uint64_t until = urxe_now() + PATIENCE_NS;
	int ret;

	urxe_engine_lock();
	w.serial = c->serial = ++last_serial;
	cds_list_add(&w.node, &waiters);
	ret = urxe_wire_send_message(urxe_hca.wire, owner, c, sizeof(*c));
	urxe_engine_unlock();
	while (!ret && !atomic_load(&w.done) && urxe_now() < until &&
	       urxe_segment_slot_alive(urxe_hca.seg, owner)) {
		urxe_engine_progress(false);
		usleep(LOOK_US);
	}
	urxe_engine_lock();
	cds_list_del(&w.node);
	/* An owner that was stopped will still open it. */
	if (!ret && c->verb == OPEN && !atomic_load(&w.done)) {
		c->verb = CLOSE;
		urxe_wire_send_message(urxe_hca.wire, owner, c, sizeof(*c));
	}
	urxe_engine_unlock();
}

/* An errno: the owner's, or EIO when there is no answer. */
static int call(const struct xrc_domain *domain, uint32_t qpn, enum verb verb,
		struct ibv_qp_attr *attr, int mask)
{
	unsigned owner = urxe_owner_of(urxe_hca.seg, qpn);
	struct xrc_call c = {
		.kind = XRC_CALL,
		.qpn = qpn,
		.dev = domain->dev,
		.ino = domain->ino,
		.verb = verb,
		.mask = mask,
		.result = EIO,
	};

	if (attr)
		c.attr = *attr;
	if (owner == urxe_segment_slot(urxe_hca.seg)) {
		urxe_engine_lock();
		c.result = carry_out(owner, &c, domain);
		urxe_engine_unlock();
	} else if (domain->ino) {
		ask(owner, &c);
	} else {
		c.result = EINVAL;
	}
	if (attr && !c.result)
		*attr = c.attr;
	return c.result;
}

struct urxe_qp *xrc_open(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
	struct urxe_xrcd *xrcd = to_xrcd(attr->xrcd);
	struct urxe_qp *qp;
	int ret;

	if (attr->qp_num > URXE_QPN_MASK || !urxe_owner_of(urxe_hca.seg, attr->qp_num)) {
		errno = EINVAL;
		return NULL;
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	ret = call(xrcd->domain, attr->qp_num, OPEN, NULL, 0);
	if (ret) {
		free(qp);
		errno = ret == EIO ? EINVAL : ret; /* there is no such process, and no such QP */
		return NULL;
	}
	qp->handle = true;
	qp->forks = urxe_forks;
	qp->ibv.context = context;
	qp->ibv.qp_type = IBV_QPT_XRC_RECV;
	qp->ibv.qp_num = qp->ibv.handle = qp->proto.qpn = attr->qp_num;
	if (attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT)
		qp->ibv.qp_context = attr->qp_context;
	qp->transport = urxe_transport_of(IBV_QPT_XRC_RECV);
	qp->port = urxe_context_port(context, 1);
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	CDS_INIT_LIST_HEAD(&qp->mcast);
	qp->xrcd = xrcd;
	atomic_fetch_add(&xrcd->users, 1);
	return qp;
}

int urxe_xrc_modify_handle(struct urxe_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr copy = *attr;
	int ret = call(qp->xrcd->domain, qp->proto.qpn, MODIFY, &copy, mask);

	if (!ret && (mask & IBV_QP_STATE))
		qp->ibv.state = attr->qp_state;
	return ret;
}

int urxe_xrc_query_handle(struct urxe_qp *qp, struct ibv_qp_attr *attr)
{
	int ret = call(qp->xrcd->domain, qp->proto.qpn, QUERY, attr, 0);

	if (!ret)
		qp->ibv.state = attr->qp_state;
	return ret;
}

/* An owner that does not answer any more has no QP that could stay. */
void urxe_xrc_close_handle(struct urxe_qp *qp)
{
	if (!urxe_inherited(qp->forks))
		call(qp->xrcd->domain, qp->proto.qpn, CLOSE, NULL, 0);
	atomic_fetch_sub(&qp->xrcd->users, 1);
	free(qp);
}

void xrc_openers_forked(void)
{
	CDS_INIT_LIST_HEAD(&openers);
	CDS_INIT_LIST_HEAD(&waiters);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs as verbs: create and destroy (IBTA vol. 1, 11.2.5), and what happens to their queues
 * in RESET and in the error states. Under the engine lock, where a QP has been created.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/completer.h"
#include "hca/dead_qp.h"
#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/path_migration.h"
#include "hca/peer.h"
#include "hca/tag_matching.h"
#include "hca/wq.h"
#include "hca/xrc.h"
#include "host/heap.h"
#include "wire/raw.h"

/* ---- create and destroy ---- */

static bool has_flag(const struct ibv_qp_init_attr_ex *attr, enum ibv_qp_create_flags flag)
{
	return (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && (attr->create_flags & flag);
}

/* The right that raw packets need, too: any QP's packets can be imitated. */
static int check_source(const struct ibv_qp_init_attr_ex *attr)
{
	if (!has_flag(attr, IBV_QP_CREATE_SOURCE_QPN))
		return 0;
	return attr->source_qpn > URXE_QPN_MASK ? EINVAL : -urxe_raw_permitted();
}

/* Objects of another context mean nothing to this one, as their handles do in the kernel. */
static bool are_of(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	return attr->pd->context == context && attr->send_cq->context == context &&
	       attr->recv_cq->context == context && (!attr->srq || attr->srq->context == context);
}

static int check_create(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	const struct urxe_transport *transport = urxe_transport_of(attr->qp_type);

	if (!transport)
		return EOPNOTSUPP;
	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    (attr->create_flags & ~transport->create_flags))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    (attr->send_ops_flags & ~(uint64_t)transport->operations))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || !attr->send_cq ||
	    !attr->recv_cq || !are_of(context, attr))
		return EINVAL;
	if (urxe_inherited(to_cq(attr->send_cq)->forks) ||
	    urxe_inherited(to_cq(attr->recv_cq)->forks) ||
	    (attr->srq && urxe_inherited(to_srq(attr->srq)->forks)))
		return EIO;
	if (cap->max_send_wr > URXE_MAX_QP_WR || cap->max_send_sge > URXE_MAX_SGE ||
	    cap->max_inline_data > URXE_MAX_INLINE)
		return EINVAL;
	/* Its messages name it: it is no QP's. */
	if (attr->srq && to_srq(attr->srq)->xrcd)
		return EINVAL;
	/* The send queue of those is the SRQ's. */
	if (attr->srq && to_srq(attr->srq)->tm &&
	    (attr->qp_type != IBV_QPT_RC || cap->max_send_wr || cap->max_send_sge))
		return EINVAL;
	if (!attr->srq && (cap->max_recv_wr > URXE_MAX_QP_WR || cap->max_recv_sge > URXE_MAX_SGE))
		return EINVAL;
	return check_source(attr);
}

static int init_sq(struct urxe_sq *sq, struct ibv_pd *pd, const struct ibv_qp_cap *cap)
{
	uint32_t room = cap->max_send_sge * sizeof(struct ibv_sge), size = 1;

	if (room < cap->max_inline_data)
		room = (cap->max_inline_data + 7) & ~7u;
	while (size < cap->max_send_wr)
		size <<= 1;
	sq->max_wr = cap->max_send_wr;
	sq->max_sge = cap->max_send_sge;
	sq->max_inline = room; /* programs count on what the kernel's rxe has: that of the SGEs */
	sq->mask = size - 1;
	sq->lock.elided = to_pd(pd)->td;
	/* An ATOMIC WRITE's data lies here whatever was asked for. */
	sq->stride = sizeof(struct urxe_send_wqe) + (room ? room : sizeof(uint64_t));
	sq->wqes = urxe_buffer_alloc(pd, (size_t)size * sq->stride, URXE_BUFFER_SEND_QUEUE,
				     &sq->custom);
	return sq->wqes ? 0 : -ENOMEM;
}

/* As long as the domain is in use, whose allocator it may be. */
static void free_queues(struct urxe_qp *qp)
{
	urxe_buffer_free(&qp->pd->ibv, qp->sq.wqes, URXE_BUFFER_SEND_QUEUE, qp->sq.custom);
	urxe_rq_fini(&qp->rq, &qp->pd->ibv, URXE_BUFFER_RECV_QUEUE);
	free(qp->recv_wqe);
	free(qp->tm);
	free(qp->rd_ends);
	free(qp->responses);
	free(qp->atomics);
	free(qp->alternate);
}

static int init_queues(struct urxe_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
	uint32_t recv_sge = qp->srq ? qp->srq->rq.max_sge : attr->cap.max_recv_sge;
	struct ibv_qp_cap cap = attr->cap;

	if (urxe_tm_is(qp)) {
		cap = (struct ibv_qp_cap){.max_send_wr = URXE_TM_SENDS,
					  .max_send_sge = URXE_TM_SGE};
		recv_sge = recv_sge > URXE_TM_SGE ? recv_sge : URXE_TM_SGE;
		qp->tm = calloc(1, sizeof(*qp->tm));
		if (!qp->tm)
			return -ENOMEM;
	}
	if (init_sq(&qp->sq, attr->pd, &cap) ||
	    urxe_rq_init(&qp->rq, attr->pd, URXE_BUFFER_RECV_QUEUE,
			 qp->srq ? 0 : attr->cap.max_recv_wr, recv_sge))
		return -ENOMEM;
	qp->recv_wqe = malloc(sizeof(*qp->recv_wqe) + recv_sge * sizeof(struct ibv_sge));
	return qp->recv_wqe ? 0 : -ENOMEM;
}

static void init_ibv(struct urxe_qp *qp, struct ibv_context *context,
		     const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *ibv = &qp->ibv;

	ibv->context = context;
	ibv->qp_context = attr->qp_context;
	ibv->pd = attr->pd;
	ibv->send_cq = attr->send_cq;
	ibv->recv_cq = attr->recv_cq;
	ibv->srq = attr->srq;
	ibv->qp_type = attr->qp_type;
	ibv->state = IBV_QPS_RESET;
	qp->transport = urxe_transport_of(attr->qp_type);
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		qp->has_ex = true;
		urxe_wr_fill_ops(qp, attr->send_ops_flags);
	}
}

static void use(struct urxe_qp *qp, int n)
{
	urxe_pd_use(qp->pd, n);
	atomic_fetch_add(&qp->scq->users, n);
	atomic_fetch_add(&qp->rcq->users, n);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, n);
}

static size_t size_of(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS
		       ? sizeof(struct urxe_qp)
		       : offsetof(struct urxe_qp, ibv) + sizeof(struct ibv_qp);
}

/* rss, xrcd: what only some QPs have; or NULL. */
static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			     struct urxe_rss *rss, struct urxe_xrcd *xrcd)
{
	int ret = urxe_context_here(context) ? check_create(context, attr) : errno;
	struct urxe_qp *qp;

	urxe_heap_expect(2 * sizeof(*qp));
	qp = ret ? NULL : calloc(1, size_of(attr));
	if (!qp)
		return urxe_fail(ret ? ret : ENOMEM);
	init_ibv(qp, context, attr);
	qp->forks = urxe_forks;
	qp->pd = to_pd(attr->pd);
	qp->scq = to_cq(attr->send_cq);
	qp->rcq = to_cq(attr->recv_cq);
	qp->srq = attr->srq ? to_srq(attr->srq) : NULL;
	if (urxe_tm_is(qp))
		qp->rcq = qp->srq->cq;
	qp->port = urxe_context_port(context, 1);
	qp->pkey = &qp->port->pkeys[0];
	qp->sq_sig_all = attr->sq_sig_all;
	qp->strip_vlan = has_flag(attr, IBV_QP_CREATE_CVLAN_STRIPPING);
	qp->deaf_to_own = has_flag(attr, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
	qp->rss = rss;
	qp->proto.last_opcode = URXE_NUM_OPCODES;
	urxe_migration_reset(qp);
	CDS_INIT_LIST_HEAD(&qp->ready_node);
	CDS_INIT_LIST_HEAD(&qp->full_node);
	CDS_INIT_LIST_HEAD(&qp->held_node);
	CDS_INIT_LIST_HEAD(&qp->mcast);
	ret = init_queues(qp, attr);
	if (!ret) {
		urxe_engine_lock();
		ret = urxe_engine_add_qp(qp);
		if (!ret && qp->transport->attach) {
			ret = qp->transport->attach(qp);
			if (ret)
				urxe_engine_remove_qp(qp);
		}
		if (!ret && xrcd)
			urxe_xrc_attach(qp, xrcd);
		urxe_engine_unlock();
	}
	if (ret) {
		free_queues(qp);
		free(qp);
		return urxe_fail(-ret);
	}
	qp->ibv.qp_num = qp->ibv.handle = qp->proto.qpn;
	qp->proto.source_qpn =
		has_flag(attr, IBV_QP_CREATE_SOURCE_QPN) ? attr->source_qpn : qp->proto.qpn;
	use(qp, 1);
	/* What was asked for is what there is, with whole strides for inline data. */
	attr->cap.max_inline_data = qp->sq.max_inline;
	if (attr->srq)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	return &qp->ibv;
}

/* Those that have no CQ of their own have another's, which their program does not see. */
static struct ibv_qp *create_spread(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct urxe_rss *rss;
	struct ibv_qp *qp;
	int ret = urxe_rss_create(context, attr, &rss);

	if (ret)
		return urxe_fail(ret);
	attr->comp_mask &= ~URXE_RSS_ATTRS;
	qp = create(context, attr, rss, NULL);
	if (qp) {
		qp->send_cq = qp->recv_cq = NULL;
		return qp;
	}
	ret = errno;
	urxe_rss_destroy(rss);
	return urxe_fail(ret);
}

static struct ibv_qp *create_target(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_pd *named = attr->comp_mask & IBV_QP_INIT_ATTR_PD ? attr->pd : NULL;
	struct urxe_xrcd *xrcd;
	struct ibv_qp *qp;
	int ret = urxe_xrc_target(context, attr, &xrcd);

	if (ret)
		return urxe_fail(ret);
	qp = create(context, attr, NULL, xrcd);
	if (qp) {
		qp->send_cq = qp->recv_cq = NULL;
		qp->pd = named; /* it counts for nothing, but librdmacm looks it up here */
	}
	return qp;
}

/* It receives nothing. */
static struct ibv_qp *create_initiator(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp;

	attr->recv_cq = attr->send_cq;
	attr->srq = NULL;
	attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	qp = create(context, attr, NULL, NULL);
	if (qp)
		qp->recv_cq = NULL;
	return qp;
}

struct ibv_qp *urxe_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex changed = *attr;
	struct ibv_qp *qp;

	if (attr->comp_mask & URXE_RSS_ATTRS)
		qp = create_spread(context, &changed);
	else if (attr->qp_type == IBV_QPT_XRC_RECV)
		qp = create_target(context, &changed);
	else if (attr->qp_type == IBV_QPT_XRC_SEND)
		qp = create_initiator(context, &changed);
	else
		return create(context, attr, NULL, NULL);
	if (qp)
		attr->cap = changed.cap;
	return qp;
}

static_assert(offsetof(struct ibv_qp_init_attr_ex, sq_sig_all) ==
		      offsetof(struct ibv_qp_init_attr, sq_sig_all),
	      "libibverbs copies one to the other, too");

struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	struct ibv_qp *qp;

	if (urxe_missing(attr))
		return NULL;
	memcpy(&ex, attr, offsetof(struct ibv_qp_init_attr_ex, comp_mask)); /* they begin alike */
	qp = urxe_create_qp_ex(pd->context, &ex);
	if (qp)
		attr->cap = ex.cap;
	return qp;
}

struct ibv_qp_ex *urxe_qp_to_qp_ex(struct ibv_qp *ibv)
{
	return to_qp(ibv)->has_ex ? &to_qp(ibv)->ex : NULL;
}

static void clean_cqs(struct urxe_qp *qp)
{
	urxe_cq_clean(qp->scq, qp->proto.qpn);
	if (qp->rcq != qp->scq)
		urxe_cq_clean(qp->rcq, qp->proto.qpn);
}

void urxe_qp_retract(struct urxe_qp *qp)
{
	urxe_mcast_detach_all(qp);
	if (qp->transport->detach)
		qp->transport->detach(qp);
	urxe_direct_retract(qp);
	urxe_engine_send_ack(qp);
	urxe_dead_qp_forget(qp);
	urxe_engine_remove_qp(qp);
	clean_cqs(qp);
}

static void free_qp(struct urxe_qp *qp)
{
	urxe_xrc_detach(qp);
	free_queues(qp);
	use(qp, -1);
	urxe_rss_destroy(qp->rss);
	free(qp);
}

void urxe_qp_dispose(struct urxe_qp *qp)
{
	urxe_qp_retract(qp);
	urxe_events_forget(to_context(qp->ibv.context), &qp->async);
	free_qp(qp);
}

int urxe_destroy_qp(struct ibv_qp *ibv)
{
	struct urxe_qp *qp = to_qp(ibv);

	if (qp->handle) {
		urxe_xrc_close_handle(qp);
		return 0;
	}
	if (!urxe_inherited(qp->forks)) {
		urxe_engine_lock();
		if (!cds_list_empty(&qp->mcast) || qp->flows) {
			urxe_engine_unlock();
			return EBUSY;
		}
		if (qp->opened) {
			qp->opened--;
			urxe_engine_unlock();
			return 0;
		}
		urxe_qp_retract(qp);
		urxe_engine_unlock();
		if (qp->direct.ticket)
			urxe_direct_wait();
		urxe_events_forget(to_context(ibv->context), &qp->async);
		urxe_events_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async.taken);
	}
	free_qp(qp);
	return 0;
}

/* ---- error and reset ---- */

static void flush_sends(struct urxe_qp *qp)
{
	/* Once it is completed, the program may do what it likes with the memory. */
	urxe_wire_void_refs(urxe_hca.wire, &qp->proto.path, qp->proto.attr.dest_qp_num);
	while (atomic_load(&qp->sq.tail) != atomic_load(&qp->sq.head))
		urxe_complete_send(qp, sq_wqe(&qp->sq, atomic_load(&qp->sq.tail)),
				   IBV_WC_WR_FLUSH_ERR);
	qp->sq.send = atomic_load(&qp->sq.tail);
	qp->proto.offset = qp->direct.offset = 0;
	urxe_peer_forget(qp);
	urxe_timer_disarm(&urxe_hca.wheel, &qp->timer);
	urxe_completer_arm_answers(qp);
	qp->proto.una = qp->proto.max_psn = qp->proto.psn;
	qp->rtt_start = 0;
	qp->proto.rd_count = 0;
	qp->rnr_until = 0;
	cds_list_del_init(&qp->full_node);
	atomic_store(&qp->flying, false);
}

static void flush_receives(struct urxe_qp *qp)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.qp_num = qp->proto.qpn,
	};

	urxe_xrc_end_loan(qp);
	/* The last owner of the lock has posted what we find; its next owner sees the state. The
	 * one thread of a thread domain, which takes none, does either after a barrier. */
	if (qp->rq.lock.elided)
		owned_lock_barrier();
	urxe_lock(&qp->rq.lock);
	urxe_unlock(&qp->rq.lock);
	while (qp->proto.recv_busy || (!qp->srq && urxe_rq_take(&qp->rq, qp->recv_wqe))) {
		qp->proto.recv_busy = false;
		cqe.wr_id = qp->recv_wqe->wr_id;
		if (qp->tm)
			urxe_tm_mark(qp, &cqe);
		urxe_cq_add(qp->rcq, qp, &cqe);
	}
	if (qp->srq && !qp->proto.last_wqe_event) {
		qp->proto.last_wqe_event = true;
		urxe_event_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

/* Returns what is queued, as the state has it: SQE flushes sends, ERR both (10.3.1). A neighbour
 * that has begun to write to the program's memory ends first: then the engine calls again. */
void urxe_qp_flush(struct urxe_qp *qp)
{
	int state = atomic_load(&qp->proto.state);

	if (!urxe_direct_over(qp->direct.ticket)) {
		urxe_engine_hold(qp);
		return;
	}
	if (state == IBV_QPS_SQE || state == IBV_QPS_ERR)
		flush_sends(qp);
	if (state == IBV_QPS_ERR)
		flush_receives(qp);
}

void urxe_qp_fail(struct urxe_qp *qp, int event)
{
	if (atomic_load(&qp->proto.state) == IBV_QPS_ERR)
		return;
	atomic_store(&qp->proto.state, IBV_QPS_ERR);
	urxe_direct_retract(qp);
	urxe_qp_flush(qp);
	if (event)
		urxe_event_qp(qp, event);
}

/* Forgets everything, without completions. */
void urxe_qp_reset(struct urxe_qp *qp)
{
	clean_cqs(qp);
	urxe_xrc_end_loan(qp);
	qp->answer_at = 0;
	atomic_store(&qp->sq.tail, atomic_load(&qp->sq.head));
	flush_sends(qp);
	atomic_store(&qp->rq.tail, atomic_load(&qp->rq.head));
	qp->proto.recv_busy = false;
	if (qp->tm)
		qp->tm->kind = URXE_TM_NONE;
	qp->proto.last_wqe_event = false;
	qp->proto.ack_due = false;
	qp->proto.nak_sent = false;
	qp->proto.established = false;
	qp->overrun = false;
	qp->proto.drop_message = false;
	qp->proto.last_opcode = URXE_NUM_OPCODES;
	qp->proto.response_head = qp->proto.response_send = 0;
	qp->proto.uc_received = false;
	qp->proto.msn = 0;
	if (qp->peer)
		urxe_peer_put(qp->peer);
	qp->peer = NULL;
	memset(&qp->proto.attr, 0, sizeof(qp->proto.attr));
	urxe_migration_reset(qp);
}

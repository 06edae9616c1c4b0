/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs as verbs: create, query, modify, destroy (IBTA vol. 1, 11.2.5), and what happens to
 * their queues in RESET and in the error states. Attributes change under the engine lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/direct.h"
#include "hca/engine.h"
#include "host/heap.h"

#define SEND_OPS_RC                                                                             \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                              \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |              \
	 IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)
#define SEND_OPS_UC                                                                             \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND | \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define SEND_OPS_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

/* ---- create and destroy ---- */

static int check_create(const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	uint64_t ops;

	switch (attr->qp_type) {
	case IBV_QPT_RC: ops = SEND_OPS_RC; break;
	case IBV_QPT_UC: ops = SEND_OPS_UC; break;
	case IBV_QPT_UD: ops = SEND_OPS_UD; break;
	default: return EOPNOTSUPP;
	}
	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
				IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS && (attr->send_ops_flags & ~ops))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd || !attr->send_cq ||
	    !attr->recv_cq)
		return EINVAL;
	if (cap->max_send_wr > URXE_MAX_QP_WR || cap->max_send_sge > URXE_MAX_SGE ||
	    cap->max_inline_data > URXE_MAX_INLINE)
		return EINVAL;
	if (!attr->srq && (cap->max_recv_wr > URXE_MAX_QP_WR || cap->max_recv_sge > URXE_MAX_SGE))
		return EINVAL;
	return 0;
}

static int init_sq(struct urxe_sq *sq, const struct ibv_qp_cap *cap)
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
	sq->stride = sizeof(struct urxe_send_wqe) + room;
	sq->wqes = malloc((size_t)size * sq->stride);
	return sq->wqes ? 0 : -ENOMEM;
}

static void free_qp(struct urxe_qp *qp)
{
	free(qp->sq.wqes);
	urxe_rq_fini(&qp->rq);
	free(qp->recv_wqe);
	free(qp->rd_ends);
	free(qp->responses);
	free(qp->atomics);
	free(qp);
}

static int init_queues(struct urxe_qp *qp, struct ibv_qp_init_attr_ex *attr)
{
	uint32_t recv_sge = qp->srq ? qp->srq->rq.max_sge : attr->cap.max_recv_sge;

	if (init_sq(&qp->sq, &attr->cap) ||
	    urxe_rq_init(&qp->rq, qp->srq ? 0 : attr->cap.max_recv_wr, recv_sge))
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
	pthread_mutex_init(&ibv->mutex, NULL);
	pthread_cond_init(&ibv->cond, NULL);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		qp->has_ex = true;
		urxe_wr_fill_ops(qp, attr->send_ops_flags);
	}
}

static void use(struct urxe_qp *qp, int n)
{
	atomic_fetch_add(&qp->pd->users, n);
	atomic_fetch_add(&qp->scq->users, n);
	atomic_fetch_add(&qp->rcq->users, n);
	if (qp->srq)
		atomic_fetch_add(&qp->srq->users, n);
}

struct ibv_qp *urxe_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	int ret = to_context(context)->stale ? EIO : check_create(attr);
	struct urxe_qp *qp;

	urxe_heap_expect(2 * sizeof(*qp));
	qp = ret ? NULL : calloc(1, sizeof(*qp));
	if (!qp) {
		errno = ret ? ret : ENOMEM;
		return NULL;
	}
	init_ibv(qp, context, attr);
	qp->pd = to_pd(attr->pd);
	qp->scq = to_cq(attr->send_cq);
	qp->rcq = to_cq(attr->recv_cq);
	qp->srq = attr->srq ? to_srq(attr->srq) : NULL;
	qp->dev = to_context(context)->dev;
	qp->sq_sig_all = attr->sq_sig_all;
	qp->last_opcode = URXE_NUM_OPCODES;
	CDS_INIT_LIST_HEAD(&qp->ready_node);
	CDS_INIT_LIST_HEAD(&qp->full_node);
	CDS_INIT_LIST_HEAD(&qp->mcast);
	ret = init_queues(qp, attr);
	if (!ret) {
		urxe_engine_lock();
		ret = urxe_engine_add_qp(qp);
		urxe_engine_unlock();
	}
	if (ret) {
		free_qp(qp);
		errno = -ret;
		return NULL;
	}
	qp->ibv.qp_num = qp->ibv.handle = qp->qpn;
	use(qp, 1);
	/* What was asked for is what there is, with whole strides for inline data. */
	attr->cap.max_inline_data = qp->sq.max_inline;
	if (attr->srq)
		attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
	return &qp->ibv;
}

struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = urxe_create_qp_ex(pd->context, &ex);

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
	urxe_cq_clean(qp->scq, qp->qpn);
	if (qp->rcq != qp->scq)
		urxe_cq_clean(qp->rcq, qp->qpn);
}

void urxe_qp_retract(struct urxe_qp *qp)
{
	urxe_mcast_detach_all(qp);
	urxe_direct_retract(qp);
	urxe_engine_settle(qp);
	urxe_engine_remove_qp(qp);
	clean_cqs(qp);
}

int urxe_destroy_qp(struct ibv_qp *ibv)
{
	struct urxe_qp *qp = to_qp(ibv);

	if (!to_context(ibv->context)->stale) {
		if (!cds_list_empty(&qp->mcast))
			return EBUSY;
		urxe_engine_lock();
		urxe_qp_retract(qp);
		urxe_engine_unlock();
		urxe_events_forget(to_context(ibv->context), &qp->async);
		urxe_events_wait(&ibv->mutex, &ibv->cond, &ibv->events_completed, &qp->async.taken);
	}
	use(qp, -1);
	free_qp(qp);
	return 0;
}

/* ---- error and reset ---- */

static void flush_sends(struct urxe_qp *qp)
{
	/* Once it is completed, the program may do what it likes with the memory. */
	urxe_wire_void_refs(urxe_hca.wire, &qp->path, qp->attr.dest_qp_num);
	while (atomic_load(&qp->sq.tail) != atomic_load(&qp->sq.head))
		urxe_complete_send(qp, sq_wqe(&qp->sq, atomic_load(&qp->sq.tail)),
				   IBV_WC_WR_FLUSH_ERR);
	qp->sq.send = atomic_load(&qp->sq.tail);
	qp->offset = qp->direct.offset = 0;
	urxe_peer_forget(qp);
	urxe_timer_disarm(&urxe_hca.wheel, &qp->timer);
	urxe_completer_arm_answers(qp);
	qp->una = qp->max_psn = qp->psn;
	qp->rtt_start = 0;
	qp->rd_count = 0;
	qp->rnr_until = 0;
	cds_list_del_init(&qp->full_node);
	atomic_store(&qp->flying, false);
}

static void flush_receives(struct urxe_qp *qp)
{
	struct urxe_cqe cqe = {
		.status = IBV_WC_WR_FLUSH_ERR,
		.opcode = IBV_WC_RECV,
		.qp_num = qp->qpn,
	};

	/* Whoever had the lock before us has posted what we find; whoever takes it now sees the state. */
	urxe_lock(&qp->rq.lock);
	urxe_unlock(&qp->rq.lock);
	while (qp->recv_busy || (!qp->srq && urxe_rq_take(&qp->rq, qp->recv_wqe))) {
		qp->recv_busy = false;
		cqe.wr_id = qp->recv_wqe->wr_id;
		urxe_cq_add(qp->rcq, qp, &cqe);
	}
	if (qp->srq && !qp->last_wqe_event) {
		qp->last_wqe_event = true;
		urxe_event_qp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

/* Returns what is queued, as the state has it: SQE flushes sends, ERR both (10.3.1). */
void urxe_qp_flush(struct urxe_qp *qp)
{
	int state = atomic_load(&qp->state);

	if (state == IBV_QPS_SQE || state == IBV_QPS_ERR)
		flush_sends(qp);
	if (state == IBV_QPS_ERR)
		flush_receives(qp);
}

void urxe_qp_fail(struct urxe_qp *qp, int event)
{
	if (atomic_load(&qp->state) == IBV_QPS_ERR)
		return;
	atomic_store(&qp->state, IBV_QPS_ERR);
	urxe_direct_retract(qp);
	urxe_qp_flush(qp);
	if (event)
		urxe_event_qp(qp, event);
}

/* Forgets everything, without completions. */
void urxe_qp_reset(struct urxe_qp *qp)
{
	clean_cqs(qp);
	qp->answer_at = 0;
	atomic_store(&qp->sq.tail, atomic_load(&qp->sq.head));
	flush_sends(qp);
	atomic_store(&qp->rq.tail, atomic_load(&qp->rq.head));
	qp->recv_busy = false;
	qp->last_wqe_event = false;
	qp->ack_due = false;
	qp->nak_sent = false;
	qp->overrun = false;
	qp->drop_message = false;
	qp->last_opcode = URXE_NUM_OPCODES;
	qp->response_head = qp->response_send = 0;
	qp->uc_received = false;
	qp->msn = 0;
	if (qp->peer)
		urxe_peer_put(qp->peer);
	qp->peer = NULL;
	memset(&qp->attr, 0, sizeof(qp->attr));
}

/* ---- modify ---- */

static int check_attr(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct urxe_device *dev = qp->dev;

	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index)
		return EINVAL;
	if ((mask & IBV_QP_PORT) && attr->port_num != 1)
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > dev->port.active_mtu))
		return EINVAL;
	if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) && attr->max_rd_atomic > URXE_MAX_RD_ATOM) ||
	    ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && attr->max_dest_rd_atomic > URXE_MAX_RD_ATOM))
		return EINVAL;
	if (((mask & IBV_QP_TIMEOUT) && attr->timeout > 31) ||
	    ((mask & IBV_QP_RETRY_CNT) && attr->retry_cnt > 7) ||
	    ((mask & IBV_QP_RNR_RETRY) && attr->rnr_retry > 7) ||
	    ((mask & IBV_QP_MIN_RNR_TIMER) && attr->min_rnr_timer > 31))
		return EINVAL;
	if ((mask & IBV_QP_DEST_QPN) && attr->dest_qp_num > URXE_QPN_MASK)
		return EINVAL;
	/* There is no second port to migrate to. */
	if ((mask & (IBV_QP_ALT_PATH | IBV_QP_RATE_LIMIT)) ||
	    ((mask & IBV_QP_PATH_MIG_STATE) && attr->path_mig_state != IBV_MIG_MIGRATED))
		return EINVAL;
	return 0;
}

static int set_av(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	uint32_t dest = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num;
	struct urxe_peer *peer;
	struct urxe_path path;
	int ret;

	ret = urxe_path_from_av(to_context(qp->ibv.context), &attr->ah_attr, qp->qpn ^ dest, &path);
	if (ret)
		return -ret;
	peer = urxe_peer_get(&path.dgid);
	if (!peer)
		return ENOMEM;
	if (qp->peer) {
		urxe_peer_forget(qp);
		urxe_peer_put(qp->peer);
	}
	qp->peer = peer;
	qp->path = path;
	qp->attr.ah_attr = attr->ah_attr;
	urxe_direct_forget(qp);
	/* Nobody would put UC's packets back in order, should it be found out later. */
	if (path.here && !urxe_wire_neighbour(urxe_hca.wire, &path, dest) &&
	    qp->ibv.qp_type == IBV_QPT_UC)
		qp->path.here = false;
	return 0;
}

/*
 * Places for answers kept and owed: twice what the peer may have outstanding, at least 4. A power of
 * two, because the cursors run on past 65,535.
 */
static int set_dest_rd_atomic(struct urxe_qp *qp, uint8_t n)
{
	uint16_t size = 4;
	struct urxe_atomic_result *atomics = calloc(n ? n : 1, sizeof(*atomics));
	struct urxe_response *responses;

	while (size < n * 2)
		size *= 2;
	responses = calloc(size, sizeof(*responses));
	if (!responses || !atomics) {
		free(responses);
		free(atomics);
		return ENOMEM;
	}
	free(qp->responses);
	free(qp->atomics);
	qp->responses = responses;
	qp->response_size = size;
	qp->response_head = qp->response_send = 0;
	qp->atomics = atomics;
	qp->atomic_size = n ? n : 1;
	qp->atomic_next = 0;
	qp->attr.max_dest_rd_atomic = n;
	return 0;
}

static int set_rd_atomic(struct urxe_qp *qp, uint8_t n)
{
	uint32_t *ends = calloc(n ? n : 1, sizeof(*ends));

	if (!ends)
		return ENOMEM;
	free(qp->rd_ends);
	qp->rd_ends = ends;
	qp->rd_size = n ? n : 1;
	qp->rd_first = qp->rd_count = 0;
	qp->attr.max_rd_atomic = n;
	return 0;
}

static int set_allocating(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int ret = 0;

	if (mask & IBV_QP_AV)
		ret = set_av(qp, attr, mask);
	if (!ret && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		ret = set_dest_rd_atomic(qp, attr->max_dest_rd_atomic);
	if (!ret && (mask & IBV_QP_MAX_QP_RD_ATOMIC))
		ret = set_rd_atomic(qp, attr->max_rd_atomic);
	return ret;
}

static void set_plain(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->attr;

	if (mask & IBV_QP_PORT)
		own->port_num = attr->port_num;
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		own->qkey = attr->qkey;
	if (mask & IBV_QP_PATH_MTU) {
		own->path_mtu = attr->path_mtu;
		qp->mtu = urxe_mtu_bytes(attr->path_mtu);
	}
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN) {
		qp->epsn = own->rq_psn = attr->rq_psn & URXE_PSN_MASK;
		qp->executed_psn = urxe_psn_add(qp->epsn, -1);
	}
	if (mask & IBV_QP_SQ_PSN) {
		own->sq_psn = attr->sq_psn & URXE_PSN_MASK;
		qp->psn = qp->una = qp->max_psn = own->sq_psn;
		qp->resent = false;
	}
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT) {
		own->timeout = attr->timeout;
		qp->timeout = attr->timeout ? 4096ull << attr->timeout : 0;
		/* From the last progress on, whatever the former one made of it. */
		qp->timeout_at = 0;
	}
	if (mask & IBV_QP_RETRY_CNT)
		qp->retries = own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->rnr_retries = own->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		own->en_sqd_async_notify = attr->en_sqd_async_notify;
}

static void enter_state(struct urxe_qp *qp, enum ibv_qp_state state)
{
	if (state == IBV_QPS_RESET || state == IBV_QPS_ERR) {
		urxe_direct_retract(qp);
		urxe_engine_settle(qp);
	}
	switch (state) {
	case IBV_QPS_RESET: urxe_qp_reset(qp); break;
	case IBV_QPS_RTR:
		if (qp->ibv.qp_type == IBV_QPT_UD)
			qp->mtu = urxe_mtu_bytes(qp->dev->port.active_mtu);
		break;
	case IBV_QPS_SQD: qp->sqd_notified = false; break;
	default: break;
	}
	atomic_store(&qp->state, state);
	qp->ibv.state = state;
	if (state == IBV_QPS_ERR)
		urxe_qp_flush(qp);
	if (state == IBV_QPS_SQD)
		urxe_completer_retire(qp);
	urxe_engine_ready(qp);
}

static int modify(struct urxe_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = atomic_load(&qp->state);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int ret;

	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from &&
	    !(from == IBV_QPS_SQE && attr->cur_qp_state == IBV_QPS_RTS))
		return EINVAL;
	if (!urxe_qp_transition_ok(from, to, qp->ibv.qp_type, mask))
		return EINVAL;
	ret = check_attr(qp, attr, mask);
	if (ret)
		return ret;
	ret = set_allocating(qp, attr, mask);
	if (ret)
		return ret;
	set_plain(qp, attr, mask);
	if (mask & IBV_QP_STATE)
		enter_state(qp, to);
	urxe_direct_publish(qp);
	return 0;
}

int urxe_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	int ret;

	if (to_context(ibv->context)->stale)
		return EIO;
	urxe_engine_lock();
	ret = modify(to_qp(ibv), attr, mask);
	urxe_engine_unlock();
	return ret;
}

int urxe_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct urxe_qp *qp = to_qp(ibv);

	urxe_engine_lock();
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = atomic_load(&qp->state);
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && !qp->sqd_notified;
	attr->rq_psn = qp->epsn;
	attr->sq_psn = qp->psn;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->cap.max_send_wr = qp->sq.max_wr;
	attr->cap.max_send_sge = qp->sq.max_sge;
	attr->cap.max_inline_data = qp->sq.max_inline;
	attr->cap.max_recv_wr = qp->rq.max_wr;
	attr->cap.max_recv_sge = qp->srq ? 0 : qp->rq.max_sge;
	urxe_engine_unlock();
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context,
		.send_cq = ibv->send_cq,
		.recv_cq = ibv->recv_cq,
		.srq = ibv->srq,
		.cap = attr->cap,
		.qp_type = ibv->qp_type,
		.sq_sig_all = qp->sq_sig_all,
	};
	if (mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	return 0;
}

/* Data of an RDMA WRITE becomes visible in order within a message (copy.c), not across messages. */
int urxe_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

int urxe_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return ece->vendor_id ? EOPNOTSUPP : 0;
}

int urxe_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

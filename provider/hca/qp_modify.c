/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs as verbs: modify and query (IBTA vol. 1, 11.2.5.2, 11.2.5.3). Attributes change under
 * the engine lock; qp_transitions.c says which may change when.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/completer.h"
#include "hca/dead_qp.h"
#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/pace.h"
#include "hca/path_migration.h"
#include "hca/peer.h"
#include "hca/tag_matching.h"
#include "hca/xrc.h"

/* Those that verbs.h names. */
#define ATTRS_KNOWN (((IBV_QP_DEST_QPN << 1) - 1) | IBV_QP_RATE_LIMIT)

static int check_attr(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct urxe_port *port = qp->port;

	if (mask & IBV_QP_PORT)
		port = urxe_context_port(qp->ibv.context, attr->port_num);
	if (!port || ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index >= port->pkey_len))
		return EINVAL;
	if ((mask & IBV_QP_AV) &&
	    attr->ah_attr.port_num !=
		    (mask & IBV_QP_PORT ? attr->port_num : qp->proto.attr.port_num))
		return EINVAL;
	if ((mask & IBV_QP_PATH_MTU) &&
	    (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > port->active_mtu))
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
	if ((mask & IBV_QP_RATE_LIMIT) && attr->rate_limit > URXE_PACE_MAX_KBPS)
		return EINVAL;
	return urxe_migration_check(qp, attr, mask);
}

int urxe_qp_path(struct urxe_qp *qp, const struct ibv_ah_attr *av, uint32_t dest_qpn,
		 struct urxe_path *path, struct urxe_peer **peer)
{
	int ret =
		urxe_path_from_av(to_context(qp->ibv.context), av, qp->proto.qpn ^ dest_qpn, path);

	if (ret)
		return -ret;
	*peer = urxe_peer_get(&path->dst);
	if (!*peer)
		return ENOMEM;
	/* Nobody would put unacknowledged packets back in order, should it be found out later. */
	if (path->here && urxe_link_of(path)->has_other_ways &&
	    !urxe_wire_neighbour(urxe_hca.wire, path, dest_qpn) && qp->transport->connected &&
	    !qp->transport->reliable)
		path->here = false;
	return 0;
}

void urxe_qp_use_path(struct urxe_qp *qp, const struct urxe_path *path, struct urxe_peer *peer)
{
	if (qp->peer) {
		urxe_peer_forget(qp);
		urxe_peer_put(qp->peer);
	}
	qp->peer = peer;
	qp->proto.path = *path;
	qp->near = false; /* until that is found out */
}

static int set_av(struct urxe_qp *qp, const struct ibv_qp_attr *attr, uint32_t dest_qpn)
{
	struct urxe_peer *peer;
	struct urxe_path path;
	int ret = urxe_qp_path(qp, &attr->ah_attr, dest_qpn, &path, &peer);

	if (ret)
		return ret;
	urxe_qp_use_path(qp, &path, peer);
	qp->proto.attr.ah_attr = attr->ah_attr;
	urxe_direct_forget(qp);
	return 0;
}

/*
 * Places for answers that are kept and that wait: twice what the peer may have outstanding, at
 * least 4. A power of two, because the cursors run on past 65,535.
 */
int urxe_qp_set_dest_rd_atomic(struct urxe_qp *qp, uint8_t n)
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
	qp->proto.response_size = size;
	qp->proto.response_head = qp->proto.response_send = 0;
	qp->atomics = atomics;
	qp->proto.atomic_size = n ? n : 1;
	qp->proto.atomic_next = 0;
	qp->proto.attr.max_dest_rd_atomic = n;
	return 0;
}

static int set_rd_atomic(struct urxe_qp *qp, uint8_t n)
{
	uint32_t *ends = calloc(n ? n : 1, sizeof(*ends));

	if (!ends)
		return ENOMEM;
	free(qp->rd_ends);
	qp->rd_ends = ends;
	qp->proto.rd_size = n ? n : 1;
	qp->proto.rd_first = qp->proto.rd_count = 0;
	qp->proto.attr.max_rd_atomic = n;
	return 0;
}

static int set_allocating(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	uint32_t dest = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->proto.attr.dest_qp_num;
	struct urxe_alternate *alternate = NULL;
	int ret = 0;

	if (mask & IBV_QP_ALT_PATH)
		ret = urxe_migration_prepare(qp, attr, dest, &alternate);
	if (!ret && (mask & IBV_QP_AV))
		ret = set_av(qp, attr, dest);
	if (!ret && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		ret = urxe_qp_set_dest_rd_atomic(qp, attr->max_dest_rd_atomic);
	if (!ret && (mask & IBV_QP_MAX_QP_RD_ATOMIC))
		ret = set_rd_atomic(qp, attr->max_rd_atomic);
	if (ret)
		urxe_alternate_free(alternate);
	else if (alternate)
		urxe_migration_load(qp, attr, alternate);
	return ret;
}

void urxe_qp_set_plain(struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *own = &qp->proto.attr;

	if (mask & IBV_QP_PORT) {
		own->port_num = attr->port_num;
		qp->port = urxe_context_port(qp->ibv.context, attr->port_num);
	}
	if (mask & IBV_QP_PKEY_INDEX)
		own->pkey_index = attr->pkey_index;
	if (mask & (IBV_QP_PORT | IBV_QP_PKEY_INDEX))
		qp->pkey = &qp->port->pkeys[own->pkey_index];
	if (mask & IBV_QP_ACCESS_FLAGS)
		own->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		own->qkey = attr->qkey;
	if (mask & IBV_QP_PATH_MTU) {
		own->path_mtu = attr->path_mtu;
		qp->proto.mtu = urxe_mtu_bytes(attr->path_mtu);
	}
	if (mask & IBV_QP_DEST_QPN)
		own->dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN) {
		qp->proto.epsn = own->rq_psn = attr->rq_psn & URXE_PSN_MASK;
		qp->proto.executed_psn = urxe_psn_add(qp->proto.epsn, -1);
	}
	if (mask & IBV_QP_SQ_PSN) {
		own->sq_psn = attr->sq_psn & URXE_PSN_MASK;
		qp->proto.psn = qp->proto.una = qp->proto.max_psn = own->sq_psn;
		qp->proto.resent = false;
	}
	if (mask & IBV_QP_MIN_RNR_TIMER)
		own->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT) {
		own->timeout = attr->timeout;
		qp->proto.timeout = attr->timeout ? 4096ull << attr->timeout : 0;
		/* From the last progress on, whatever the former one made of it. */
		qp->timeout_at = 0;
	}
	if (mask & IBV_QP_RATE_LIMIT)
		urxe_pace_set(qp, &(struct ibv_qp_rate_limit_attr){attr->rate_limit});
	if (mask & IBV_QP_RETRY_CNT)
		qp->proto.retries = own->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->proto.rnr_retries = own->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		own->en_sqd_async_notify = attr->en_sqd_async_notify;
}

static void enter_state(struct urxe_qp *qp, enum ibv_qp_state state)
{
	if (state == IBV_QPS_RESET || state == IBV_QPS_ERR)
		urxe_engine_send_ack(qp);
	switch (state) {
	case IBV_QPS_RESET:
		urxe_dead_qp_forget(qp);
		urxe_qp_reset(qp);
		break;
	case IBV_QPS_RTR:
		if (!qp->transport->connected)
			qp->proto.mtu = urxe_mtu_bytes(qp->port->active_mtu);
		if (qp->transport->service == URXE_SERVICE_RC)
			urxe_dead_qp_record(qp);
		break;
	case IBV_QPS_SQD: qp->proto.sqd_notified = false; break;
	default: break;
	}
	atomic_store(&qp->proto.state, state);
	qp->ibv.state = state;
	if (state == IBV_QPS_ERR)
		urxe_qp_flush(qp);
	if (state == IBV_QPS_SQD)
		urxe_completer_retire(qp);
	urxe_engine_ready(qp);
}

int urxe_qp_modify(struct urxe_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = atomic_load(&qp->proto.state);
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	int ret;

	mask = urxe_qp_attrs_of(qp->ibv.qp_type, mask);
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
	urxe_qp_set_plain(qp, attr, mask);
	if (mask & IBV_QP_STATE)
		enter_state(qp, to);
	if (mask & IBV_QP_PATH_MIG_STATE)
		urxe_migration_ask(qp, attr->path_mig_state);
	return 0;
}

/* Waits, without the engine lock, for neighbours that work by what the QP's row said. */
static void wait_for_neighbours(struct urxe_qp *qp)
{
	uint64_t ticket = qp->direct.ticket;

	if (urxe_direct_over(ticket))
		return;
	urxe_engine_unlock();
	urxe_direct_wait();
	urxe_engine_lock();
	if (qp->direct.ticket == ticket)
		qp->direct.ticket = 0;
}

int urxe_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct urxe_qp *qp = to_qp(ibv);
	int ret;

	if (urxe_inherited(qp->forks))
		return EIO;
	if (mask & ~ATTRS_KNOWN)
		return EOPNOTSUPP;
	if (!attr)
		return EINVAL;
	if (qp->handle)
		return urxe_xrc_modify_handle(qp, attr, mask);
	/* It has no state: its work queues do. */
	if (qp->rss)
		return EOPNOTSUPP;
	urxe_engine_lock();
	if ((mask & IBV_QP_STATE) &&
	    (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR)) {
		urxe_direct_retract(qp);
		wait_for_neighbours(qp);
	}
	ret = urxe_qp_modify(qp, attr, mask);
	urxe_direct_publish(qp);
	wait_for_neighbours(qp);
	urxe_engine_unlock();
	return ret;
}

void urxe_qp_attributes(struct urxe_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = qp->proto.attr;
	attr->qp_state = attr->cur_qp_state = atomic_load(&qp->proto.state);
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && !qp->proto.sqd_notified;
	attr->rq_psn = qp->proto.epsn;
	attr->sq_psn = qp->proto.psn;
	if (!qp->tm) {
		attr->cap.max_send_wr = qp->sq.max_wr;
		attr->cap.max_send_sge = qp->sq.max_sge;
		attr->cap.max_inline_data = qp->sq.max_inline;
	}
	attr->cap.max_recv_wr = qp->rq.max_wr;
	attr->cap.max_recv_sge = qp->srq ? 0 : qp->rq.max_sge;
}

int urxe_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init)
{
	struct urxe_qp *qp = to_qp(ibv);
	int ret = 0;

	if (!attr || !init)
		return EINVAL;
	if (qp->handle && !urxe_inherited(qp->forks)) {
		ret = urxe_xrc_query_handle(qp, attr);
	} else {
		urxe_engine_lock();
		urxe_qp_attributes(qp, attr);
		urxe_engine_unlock();
	}
	if (ret)
		return ret;
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

/* Software has no options of a vendor. librdmacm's rdma_set_local_ece() refuses those of none, so
 * programs that pass on what they are told must be told that there is nothing. */
int urxe_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!ece || ece->comp_mask)
		return EINVAL;
	return ece->vendor_id ? EOPNOTSUPP : 0;
}

int urxe_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return EOPNOTSUPP;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What REQ and REP agreed on, as attributes for the QP: the same ones that the kernel's ib_cm gives
 * for INIT, RTR and RTS. Under the manager's lock.
 */
#include "cm/connection_private.h"

#include <errno.h>
#include <string.h>

static bool has_remote(const struct urxe_cm_id *id)
{
	return id->state >= URXE_CM_REQ_RCVD && id->state <= URXE_CM_ESTABLISHED &&
	       id->state != URXE_CM_MRA_REQ_RCVD;
}

static int init_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	const struct urxe_port *port = urxe_port(id->path.av.port);
	int index;

	if (id->state < URXE_CM_REQ_SENT || id->state > URXE_CM_ESTABLISHED)
		return -EINVAL;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->responder_resources)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	index = port ? urxe_port_partition(port, id->path.pkey) : -1;
	attr->pkey_index = index < 0 ? 0 : index;
	attr->port_num = port ? port->num : 1;
	return 0;
}

static int rtr_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	int ret;

	if (!has_remote(id))
		return -EINVAL;
	ret = urxe_link_of(&id->path.av)->describe(&id->path.av, &attr->ah_attr);
	if (ret)
		return ret;
	attr->ah_attr.sl = id->path.sl;
	attr->ah_attr.static_rate = id->path.rate;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	attr->path_mtu = id->path.mtu;
	attr->dest_qp_num = id->remote_qpn;
	attr->rq_psn = id->rq_psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_RECV) {
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		attr->max_dest_rd_atomic = id->responder_resources;
		attr->min_rnr_timer = 0;
	}
	return 0;
}

static int rts_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	if (!has_remote(id))
		return -EINVAL;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	attr->sq_psn = id->sq_psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_SEND) {
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		attr->retry_cnt = id->retry_count;
		attr->rnr_retry = id->rnr_retry_count;
		attr->max_rd_atomic = id->initiator_depth;
	}
	if (id->qp_type != IBV_QPT_UC) {
		*mask |= IBV_QP_TIMEOUT;
		attr->timeout = id->ack_timeout;
	}
	return 0;
}

int urxe_cm_init_qp_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT: return init_attr(id, attr, mask);
	case IBV_QPS_RTR: return rtr_attr(id, attr, mask);
	case IBV_QPS_RTS: return rts_attr(id, attr, mask);
	default: return -EINVAL;
	}
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections of rdma_cm ids: what rdma_connect(3), rdma_accept(3), rdma_reject(3),
 * rdma_disconnect(3) and rdma_notify(3) make of them, with the RDMA IP CM service's header in front
 * of the program's private data (annex A11). How their messages are retried and answered is the
 * communication manager's (connection.h). Under the engine lock. What the manager tells an id is in
 * id_event.c.
 */
#include <errno.h>
#include <string.h>

#include "cm/id.h"
#include "cm/id_event.h"
#include "cm/manager.h"
#include "hca/adapter.h"

/* 4.096 µs << 20, which is 4.3 s, and 16 times: as rdma_cm has them. A coarse clock will do. */
#define RESPONSE_TIMEOUT 20
#define MAX_CM_RETRIES	 15

#define UDP_QKEY   0x01234567u /* RDMA_UDP_QKEY */
#define IPOIB_QKEY 0x00000b1bu /* of IPoIB's broadcast group, by default */

void urxe_id_default_qkey(struct urxe_id *id)
{
	switch (id->ps) {
	case RDMA_PS_UDP:
	case RDMA_PS_IB: id->qkey = UDP_QKEY; break;
	case RDMA_PS_IPOIB: id->qkey = IPOIB_QKEY; break;
	}
}

int urxe_id_set_qkey(struct urxe_id *id, uint32_t qkey)
{
	if (!qkey || (id->qkey && id->qkey != qkey))
		return -EINVAL;
	id->qkey = qkey;
	return 0;
}

static uint8_t at_most_7(uint8_t count)
{
	return count < 7 ? count : 7;
}

/* Private data behind what is there of it. -EINVAL: there is no room for it. */
static int put_data(struct urxe_cm_msg *msg, unsigned at, const void *data, uint8_t len)
{
	if (at + len > urxe_cm_private_size(msg->attr))
		return -EINVAL;
	if (len)
		memcpy(msg->private_data + at, data, len);
	return 0;
}

/* The header for IP addresses, then the program's data. */
static int put_request_data(struct urxe_cm_msg *msg, const struct urxe_id *id,
			    const struct rdma_ucm_conn_param *param)
{
	struct urxe_cma_header header = {.ip_version = id->src.family == AF_INET ? 4 : 6,
					 .source_port = urxe_sockaddr_port(&id->src)};

	if (id->src.family == AF_IB)
		return put_data(msg, 0, param->private_data, param->private_data_len);
	urxe_sockaddr_in6(&id->src, &header.source);
	urxe_sockaddr_in6(&id->dst, &header.destination);
	urxe_cma_encode(msg->private_data, &header);
	return put_data(msg, URXE_CMA_HEADER, param->private_data, param->private_data_len);
}

static int send_req(struct urxe_id *id, const struct urxe_cm_path *path,
		    const struct rdma_ucm_conn_param *param)
{
	struct urxe_cm_msg msg = {
		.attr = URXE_CM_REQ,
		.attr_mod = id->ece.attr_mod,
		.req = {.service_id = urxe_id_service_id(id, &id->dst),
			.vendor_id = id->ece.vendor_id,
			.local_qpn = id->qp_num,
			.starting_psn = id->psn,
			.responder_resources = param->responder_resources,
			.initiator_depth = param->initiator_depth,
			.remote_cm_response_timeout = RESPONSE_TIMEOUT,
			.local_cm_response_timeout = RESPONSE_TIMEOUT,
			.max_cm_retries = MAX_CM_RETRIES,
			.retry_count = at_most_7(param->retry_count),
			.rnr_retry_count = at_most_7(param->rnr_retry_count),
			.flow_control = !!param->flow_control,
			.srq = id->srq},
	};

	return put_request_data(&msg, id, param)
		       ?: urxe_cm_send_req(id->conn, path, id->qp_type, &msg, urxe_now_coarse());
}

static int send_sidr_req(struct urxe_id *id, const struct urxe_cm_path *path,
			 const struct rdma_ucm_conn_param *param)
{
	struct urxe_cm_msg msg = {.attr = URXE_CM_SIDR_REQ,
				  .sidr_req.service_id = urxe_id_service_id(id, &id->dst)};

	return put_request_data(&msg, id, param)
		       ?: urxe_cm_send_sidr_req(id->conn, path, RESPONSE_TIMEOUT, MAX_CM_RETRIES,
						&msg, urxe_now_coarse());
}

int urxe_id_connect(struct urxe_id *id, const struct rdma_ucm_conn_param *param,
		    const struct rdma_ucm_ece *ece)
{
	bool ud = id->qp_type == IBV_QPT_UD;
	struct urxe_cm_path path;
	int ret;

	id->ece = *ece;
	if (id->state != URXE_ID_ROUTE_RESOLVED)
		return -EINVAL;
	id->qp_num = param->qp_num & 0xffffff;
	id->srq = param->srq;
	ret = urxe_path_of_record(&path, id->port, &id->paths[0]);
	if (!ret)
		ret = urxe_cm_id_create(urxe_manager(), ud ? urxe_id_on_sidr_rep : urxe_id_on_event,
					id, &id->conn);
	if (ret)
		return ret;
	ret = ud ? send_sidr_req(id, &path, param) : send_req(id, &path, param);
	if (ret) {
		urxe_cm_id_destroy(id->conn);
		id->conn = NULL;
		return ret;
	}
	id->state = URXE_ID_CONNECT;
	return 0;
}

static int send_rep(struct urxe_id *id, const struct rdma_ucm_conn_param *param)
{
	struct urxe_cm_msg msg = {
		.attr = URXE_CM_REP,
		.attr_mod = id->ece.attr_mod,
		.rep = {.vendor_id = id->ece.vendor_id,
			.local_qpn = id->qp_num,
			.starting_psn = id->psn,
			.responder_resources = param->responder_resources,
			.initiator_depth = param->initiator_depth,
			.rnr_retry_count = at_most_7(param->rnr_retry_count),
			.flow_control = !!param->flow_control,
			.srq = id->srq},
	};

	return put_data(&msg, 0, param->private_data, param->private_data_len)
		       ?: urxe_cm_send_rep(id->conn, &msg, urxe_now_coarse());
}

static int send_sidr_rep(struct urxe_id *id, enum urxe_cm_sidr_status status, uint32_t qkey,
			 const void *data, uint8_t len)
{
	struct urxe_cm_msg msg = {.attr = URXE_CM_SIDR_REP, .sidr_rep.status = status};

	if (status == URXE_CM_SIDR_SUCCESS) {
		if (!qkey)
			urxe_id_default_qkey(id);
		else if (urxe_id_set_qkey(id, qkey))
			return -EINVAL;
		msg.attr_mod = id->ece.attr_mod;
		msg.sidr_rep.vendor_id = id->ece.vendor_id;
		msg.sidr_rep.qpn = id->qp_num;
		msg.sidr_rep.qkey = id->qkey;
	}
	urxe_id_leave_listener(id);
	return put_data(&msg, 0, data, len) ?: urxe_cm_send_sidr_rep(id->conn, &msg);
}

/* param: NULL to accept the peer's REP. */
static int accept_connection(struct urxe_id *id, const struct rdma_ucm_conn_param *param)
{
	uint32_t qkey;

	if (id->qp_type != IBV_QPT_UD)
		return param ? send_rep(id, param) : urxe_cm_send_rtu(id->conn);
	if (!param)
		return send_sidr_rep(id, URXE_CM_SIDR_SUCCESS, 0, NULL, 0);
	qkey = id->src.family == AF_IB ? param->qkey : 0;
	return send_sidr_rep(id, URXE_CM_SIDR_SUCCESS, qkey, param->private_data,
			     param->private_data_len);
}

int urxe_id_accept(struct urxe_id *id, const struct rdma_ucm_conn_param *param,
		   const struct rdma_ucm_ece *ece)
{
	int ret;

	id->ece = *ece;
	if (id->state != URXE_ID_CONNECT || !id->conn)
		return -EINVAL;
	if (param) {
		id->qp_num = param->qp_num & 0xffffff;
		id->srq = param->srq;
	}
	ret = accept_connection(id, param);
	if (ret)
		urxe_id_reject(id, NULL, 0, URXE_CM_REJ_CONSUMER_DEFINED);
	return ret;
}

int urxe_id_reject(struct urxe_id *id, const void *data, uint8_t len, uint8_t reason)
{
	if (!id->conn)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return send_sidr_rep(id, URXE_CM_SIDR_REJECT, 0, data, len);
	return urxe_cm_send_rej(id->conn, reason, data, len, urxe_now_coarse());
}

/*
 * Begins to disconnect, or answers the peer that did. Either may have happened already, and a
 * listener has nothing to disconnect.
 */
int urxe_id_disconnect(struct urxe_id *id)
{
	if (id->state == URXE_ID_LISTEN)
		return 0;
	if (!id->conn)
		return -EINVAL;
	if (urxe_cm_send_dreq(id->conn, urxe_now_coarse()))
		urxe_cm_send_drep(id->conn, urxe_now_coarse());
	return 0;
}

int urxe_id_notify(struct urxe_id *id, uint32_t event)
{
	if (!id->port || !id->conn || event != IBV_EVENT_COMM_EST)
		return -EINVAL;
	return urxe_cm_notify_established(id->conn, urxe_now_coarse());
}

void urxe_id_drop_connection(struct urxe_id *id)
{
	if (id->conn)
		urxe_cm_id_destroy(id->conn);
	id->conn = NULL;
	urxe_id_leave_listener(id);
}

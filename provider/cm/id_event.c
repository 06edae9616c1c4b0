/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the communication manager tells rdma_cm ids, turned into the events of rdma_get_cm_event(3):
 * requests to a listener, which become new ids, and the further course of connections. Under the
 * engine lock, from whichever thread turns the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "cm/id_event.h"
#include "cm/manager.h"

/* "Wait 4.096 µs << 24", which is 69 s, said only when the peer asks again: while a program thinks
 * about a request or a reply, the peer need not time out. */
#define MRA_SETTING (24 | URXE_CM_MRA_DELAY)

void urxe_id_leave_listener(struct urxe_id *id)
{
	if (id->through)
		urxe_port_row_put(id->through);
	id->through = NULL;
}

static void set_data(struct urxe_id_event *event, const struct urxe_cm_event *from, unsigned offset)
{
	struct rdma_ucm_conn_param *conn = &event->resp.param.conn;
	struct rdma_ucm_ud_param *ud = &event->resp.param.ud;
	uint8_t len;

	if (!from->private_data || from->private_data_len < offset)
		return;
	len = from->private_data_len - offset;
	if (event->conn ? event->conn->qp_type == IBV_QPT_UD : event->id->qp_type == IBV_QPT_UD) {
		memcpy(ud->private_data, from->private_data + offset, len);
		ud->private_data_len = len;
	} else {
		memcpy(conn->private_data, from->private_data + offset, len);
		conn->private_data_len = len;
	}
}

static void set_req(struct urxe_id_event *event, const struct urxe_cm_event *from)
{
	struct rdma_ucm_conn_param *conn = &event->resp.param.conn;
	const struct urxe_cm_req *req = &from->msg->req;

	conn->responder_resources = from->responder_resources;
	conn->initiator_depth = from->initiator_depth;
	conn->flow_control = req->flow_control;
	conn->retry_count = req->retry_count;
	conn->rnr_retry_count = req->rnr_retry_count;
	conn->srq = req->srq;
	conn->qp_num = from->remote_qpn;
	event->resp.ece = (struct rdma_ucm_ece){req->vendor_id, from->msg->attr_mod};
}

static void set_rep(struct urxe_id_event *event, const struct urxe_cm_event *from)
{
	struct rdma_ucm_conn_param *conn = &event->resp.param.conn;
	const struct urxe_cm_rep *rep = &from->msg->rep;

	conn->responder_resources = from->responder_resources;
	conn->initiator_depth = from->initiator_depth;
	conn->flow_control = rep->flow_control;
	conn->rnr_retry_count = rep->rnr_retry_count;
	conn->srq = rep->srq;
	conn->qp_num = from->remote_qpn;
	event->resp.ece = (struct rdma_ucm_ece){rep->vendor_id, from->msg->attr_mod};
}

/* The event for each that a connection may have. */
static enum urxe_id_event_type event_of(enum urxe_cm_event_type type, int *status)
{
	switch (type) {
	case URXE_CM_REQ_ERROR:
	case URXE_CM_REP_ERROR: *status = -ETIMEDOUT; return URXE_EVENT_UNREACHABLE;
	case URXE_CM_REP_RECEIVED: return URXE_EVENT_CONNECT_RESPONSE;
	case URXE_CM_RTU_RECEIVED:
	case URXE_CM_USER_ESTABLISHED: return URXE_EVENT_ESTABLISHED;
	case URXE_CM_DREQ_ERROR: *status = -ETIMEDOUT; return URXE_EVENT_DISCONNECTED;
	case URXE_CM_DREQ_RECEIVED:
	case URXE_CM_DREP_RECEIVED: return URXE_EVENT_DISCONNECTED;
	case URXE_CM_TIMEWAIT_EXIT: return URXE_EVENT_TIMEWAIT_EXIT;
	case URXE_CM_REJ_RECEIVED: return URXE_EVENT_REJECTED;
	default: return URXE_EVENT_NONE;
	}
}

int urxe_id_on_event(struct urxe_cm_id *conn, const struct urxe_cm_event *from)
{
	struct urxe_id *id = urxe_cm_id_context(conn);
	struct urxe_id_event *event;
	int status = 0;
	enum urxe_id_event_type type = event_of(from->type, &status);

	if (type == URXE_EVENT_NONE)
		return 0;
	if (id->state != (type == URXE_EVENT_TIMEWAIT_EXIT ? URXE_ID_DISCONNECT : URXE_ID_CONNECT))
		return 0;
	if (type == URXE_EVENT_DISCONNECTED)
		id->state = URXE_ID_DISCONNECT;
	if (type != URXE_EVENT_CONNECT_RESPONSE)
		urxe_id_leave_listener(id);
	if (from->type == URXE_CM_REP_RECEIVED)
		urxe_cm_send_mra(conn, MRA_SETTING);
	if (from->type == URXE_CM_REJ_RECEIVED)
		status = from->msg->rej.reason;
	event = urxe_id_event_new(id, type, status);
	if (!event)
		return 0;
	if (from->type == URXE_CM_REP_RECEIVED)
		set_rep(event, from);
	if (from->type == URXE_CM_REP_RECEIVED || from->type == URXE_CM_REJ_RECEIVED)
		set_data(event, from, 0);
	urxe_id_event_push(event);
	return 0;
}

static void resolved(struct urxe_id *id, struct urxe_id_event *event, const struct urxe_cm_msg *msg)
{
	struct rdma_ucm_ud_param *ud = &event->resp.param.ud;
	const struct urxe_cm_sidr_rep *rep = &msg->sidr_rep;
	int ret;

	if (rep->status != URXE_CM_SIDR_SUCCESS) {
		event->resp.event = URXE_EVENT_UNREACHABLE;
		event->resp.status = rep->status;
		return;
	}
	ret = urxe_id_set_qkey(id, rep->qkey) ?: urxe_id_ah_attr(id, &id->paths[0], &ud->ah_attr);
	if (ret) {
		event->resp.event = URXE_EVENT_ADDR_ERROR;
		event->resp.status = ret;
		return;
	}
	ud->qp_num = rep->qpn;
	ud->qkey = rep->qkey;
	event->resp.ece = (struct rdma_ucm_ece){rep->vendor_id, msg->attr_mod};
}

int urxe_id_on_sidr_rep(struct urxe_cm_id *conn, const struct urxe_cm_event *from)
{
	struct urxe_id *id = urxe_cm_id_context(conn);
	struct urxe_id_event *event;

	if (id->state != URXE_ID_CONNECT)
		return 0;
	if (from->type == URXE_CM_SIDR_REQ_ERROR) {
		urxe_id_report(id, URXE_EVENT_UNREACHABLE, -ETIMEDOUT);
		return 0;
	}
	if (from->type != URXE_CM_SIDR_REP_RECEIVED)
		return 0;
	event = urxe_id_event_new(id, URXE_EVENT_ESTABLISHED, 0);
	if (!event)
		return 0;
	set_data(event, from, 0);
	resolved(id, event, from->msg);
	urxe_id_event_push(event);
	return 0;
}

/* The addresses that the request names, as the new id has them. */
static int set_addresses(struct urxe_id *id, const struct urxe_id *listener,
			 const struct urxe_cm_event *event)
{
	const struct urxe_path *path = &event->path.av;
	struct urxe_cma_header header;
	int ret;

	urxe_link_of(path)->gids(path, &id->sgid, &id->dgid);
	if (listener->src.family == AF_IB) {
		id->src.ib = listener->src.ib;
		id->src.ib.sid = htobe64(event->service_id);
		id->src.ib.sid_mask = ~(__be64)0;
		id->src.ib.addr = id->sgid;
		id->dst.ib = (struct urxe_sockaddr_ib){
			.family = AF_IB, .pkey = htobe16(0xffff), .addr = id->dgid};
		return 0;
	}
	if (event->private_data_len < URXE_CMA_HEADER)
		return -EINVAL;
	ret = urxe_cma_decode(&header, event->private_data);
	if (ret)
		return ret;
	urxe_sockaddr_of_in6(&id->src, &header.destination, (uint16_t)event->service_id);
	urxe_sockaddr_of_in6(&id->dst, &header.source, header.source_port);
	return 0;
}

/* A new id for a request; its device must have the address that was asked for. */
static int make_id(struct urxe_id *listener, const struct urxe_cm_event *event,
		   struct urxe_id **out)
{
	bool ud = event->type == URXE_CM_SIDR_REQ_RECEIVED;
	const struct urxe_path *path = &event->path.av;
	struct urxe_port *port = urxe_port(path->port);
	struct urxe_id *id;
	union ibv_gid gid;
	int ret;

	if (listener->qp_type && listener->qp_type != event->qp_type)
		return -EINVAL;
	ret = urxe_id_create(listener->file, listener->ps, event->qp_type, 0, &id);
	if (ret)
		return ret;
	id->qp_type = event->qp_type;
	ret = set_addresses(id, listener, event);
	if (!ret && !port)
		ret = -ENODEV;
	if (!ret)
		ret = urxe_address_gid(port, &id->src, &gid);
	if (!ret && urxe_port_gid_index(port, &gid) < 0)
		ret = -ENODEV;
	if (!ret && !ud) {
		id->paths = malloc(sizeof(*id->paths));
		ret = id->paths ? 0 : -ENOMEM;
	}
	if (ret) {
		urxe_id_destroy(id);
		return ret;
	}
	if (!ud) {
		struct ibv_ah_attr attr;

		urxe_link_of(path)->describe(path, &attr);
		attr.grh.dgid = id->dgid;
		urxe_path_record(&id->paths[0], &event->path, &id->sgid, &attr, event->service_id);
		if (port->lid)
			id->paths[0].slid = htobe16(port->lid | attr.src_path_bits);
		id->num_paths = 1;
	}
	urxe_id_attach(id, port);
	id->pkey = event->path.pkey;
	id->state = URXE_ID_CONNECT;
	*out = id;
	return 0;
}

int urxe_id_request(struct urxe_cm_id *conn, const struct urxe_cm_event *from)
{
	struct urxe_id *listener = urxe_cm_id_context(conn), *id;
	struct urxe_id_event *event;
	int ret;

	if (!listener->backlog)
		return -ENOMEM;
	ret = make_id(listener, from, &id);
	if (ret)
		return ret;
	event = urxe_id_event_new(listener, URXE_EVENT_CONNECT_REQUEST, 0);
	if (!event) {
		urxe_id_destroy(id);
		return -ENOMEM;
	}
	listener->backlog--;
	id->conn = conn;
	id->through = listener->binding;
	id->through->users++;
	urxe_cm_id_set(conn, urxe_id_on_event, id);
	event->conn = id;
	id->request = event;
	event->resp.id = id->handle;
	if (from->type == URXE_CM_REQ_RECEIVED)
		set_req(event, from);
	set_data(event, from, listener->src.family == AF_IB ? 0 : URXE_CMA_HEADER);
	urxe_id_event_push(event);
	if (id->qp_type != IBV_QPT_UD)
		urxe_cm_send_mra(conn, MRA_SETTING);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the consumer sends about a connection (12.6), and how a message leaves: once, or again and
 * again until it is answered. A MAD is kept only in the latter case; RTU, MRA and DREP, which a
 * repeated message asks for again, are put together anew. All under the manager's lock.
 */
#include "cm/connection_private.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The LID of ports that have none. */
#define PERMISSIVE_LID 0xffff

int urxe_cm_start_later(struct urxe_cm_id *id, const struct urxe_cm_msg *msg, uint64_t now)
{
	if (!id->mad)
		id->mad = malloc(URXE_MAD_SIZE);
	if (!id->mad)
		return -ENOMEM;
	urxe_cm_encode(id->mad, msg);
	id->retries_left = id->max_cm_retries;
	urxe_cm_arm(id, now, id->timeout);
	return 0;
}

int urxe_cm_start(struct urxe_cm_id *id, const struct urxe_cm_msg *msg, uint64_t now)
{
	int rc = urxe_cm_start_later(id, msg, now);

	if (!rc)
		urxe_cm_repeat(id);
	return rc;
}

void urxe_cm_repeat(struct urxe_cm_id *id)
{
	id->cm->ops->send(id->cm, &id->path.av, id->path.pkey, id->mad);
}

void urxe_cm_transmit(struct urxe_cm_id *id, const struct urxe_cm_msg *msg)
{
	uint8_t mad[URXE_MAD_SIZE];

	urxe_cm_encode(mad, msg);
	id->cm->ops->send(id->cm, &id->path.av, id->path.pkey, mad);
}

void urxe_cm_reply(struct urxe_cm *cm, const struct urxe_cm_rx *rx, const struct urxe_cm_msg *msg)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_path path;

	urxe_link_of(rx->path)->reverse(&path, rx->path);
	urxe_cm_encode(mad, msg);
	cm->ops->send(cm, &path, rx->pkey, mad);
}

void urxe_cm_address(struct urxe_cm_msg *msg, const struct urxe_cm_id *id)
{
	msg->tid = id->tid;
	msg->local_id = id->local_id;
	msg->remote_id = id->remote_id;
}

struct urxe_cm_msg urxe_cm_about_id(const struct urxe_cm_id *id, enum urxe_cm_attr attr)
{
	struct urxe_cm_msg msg = {.attr = attr};

	urxe_cm_address(&msg, id);
	return msg;
}

int urxe_cm_begin(struct urxe_cm_id *id, enum urxe_cm_state state, struct urxe_cm_msg *req,
		  uint64_t now)
{
	id->tid = id->cm->next_tid++;
	id->sidr = state == URXE_CM_SIDR_REQ_SENT;
	urxe_cm_address(req, id);
	urxe_cm_become(id, state, now);
	if (!urxe_cm_start(id, req, now))
		return 0;
	urxe_cm_become(id, URXE_CM_IDLE, now);
	return -ENOMEM;
}

void urxe_cm_put_mra(struct urxe_cm_id *id)
{
	struct urxe_cm_msg msg = urxe_cm_about_id(id, URXE_CM_MRA);

	msg.mra.about = id->state == URXE_CM_MRA_REP_SENT ? URXE_CM_ABOUT_REP : URXE_CM_ABOUT_REQ;
	msg.mra.service_timeout = id->service_timeout;
	urxe_cm_transmit(id, &msg);
}

void urxe_cm_put(struct urxe_cm_id *id, enum urxe_cm_attr attr)
{
	struct urxe_cm_msg msg = urxe_cm_about_id(id, attr);

	urxe_cm_transmit(id, &msg);
}

static uint64_t ca_guid(const struct urxe_cm_path *path)
{
	const struct urxe_port *port = urxe_port(path->av.port);

	return port ? be64toh(port->dev->guid) : 0;
}

static struct urxe_cm_msg make_rej(const struct urxe_cm_id *id, uint16_t reason)
{
	struct urxe_cm_msg msg = urxe_cm_about_id(id, URXE_CM_REJ);
	uint64_t guid = htobe64(ca_guid(&id->path));

	msg.rej.reason = reason;
	msg.rej.about = URXE_CM_ABOUT_OTHER;
	switch ((enum urxe_cm_state)id->state) {
	case URXE_CM_REQ_RCVD:
		/* The peer does not know of it, and never will. */
		msg.local_id = 0;
		msg.rej.about = URXE_CM_ABOUT_REQ;
		break;
	case URXE_CM_MRA_REQ_SENT:
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
	case URXE_CM_DREQ_SENT:
	case URXE_CM_TIMEWAIT:
		/* The peer may not have our communication ID, and looks for its own alone then. */
		msg.rej.about = URXE_CM_ABOUT_REQ;
		break;
	case URXE_CM_REP_RCVD:
	case URXE_CM_MRA_REP_SENT: msg.rej.about = URXE_CM_ABOUT_REP; break;
	default: break;
	}
	/* Our GUID names us to a peer whose communication ID we lack. */
	if (reason == URXE_CM_REJ_TIMEOUT) {
		msg.rej.ari_len = sizeof(guid);
		memcpy(msg.rej.ari, &guid, sizeof(guid));
	}
	return msg;
}

void urxe_cm_put_rej(struct urxe_cm_id *id, uint16_t reason)
{
	struct urxe_cm_msg msg = make_rej(id, reason);

	urxe_cm_transmit(id, &msg);
}

struct urxe_cm_msg urxe_cm_last_rej(const struct urxe_cm_id *id)
{
	return make_rej(id, id->state == URXE_CM_REQ_SENT ? URXE_CM_REJ_TIMEOUT
							  : URXE_CM_REJ_CONSUMER_DEFINED);
}

/*
 * 4.096 µs << result is at least the adapter's delay and two lives of a packet. As both come as
 * exponents, it is the larger one, or the next if the smaller is no less than half of it.
 */
uint8_t urxe_cm_ack_timeout(uint8_t ack_delay, uint8_t packet_life_time)
{
	unsigned flight = packet_life_time + 1;
	unsigned timeout = flight > ack_delay ? flight : ack_delay;
	unsigned other = flight > ack_delay ? ack_delay : flight;

	if (other + 1 >= timeout)
		timeout++;
	return timeout < 31 ? timeout : 31;
}

static void put_path(struct urxe_cm_msg_path *to, const struct urxe_cm_path *from)
{
	const struct urxe_port *port = urxe_port(from->av.port);
	struct ibv_ah_attr attr;
	union ibv_gid src, dst;

	urxe_link_of(&from->av)->gids(&from->av, &src, &dst);
	urxe_link_of(&from->av)->describe(&from->av, &attr);
	to->local_lid = port && port->lid ? port->lid | attr.src_path_bits : PERMISSIVE_LID;
	to->remote_lid = attr.dlid ? attr.dlid : PERMISSIVE_LID;
	memcpy(to->local_gid, &src, 16);
	memcpy(to->remote_gid, &dst, 16);
	to->flow_label = attr.grh.flow_label;
	to->packet_rate = from->rate;
	to->traffic_class = attr.grh.traffic_class;
	/* Without a GRH the path is in one subnet, and has no hops. */
	to->hop_limit = attr.is_global && !attr.grh.hop_limit ? 64 : attr.grh.hop_limit;
	to->sl = from->sl;
	to->subnet_local = to->hop_limit <= 1;
	to->ack_timeout = urxe_cm_ack_timeout(URXE_CM_ACK_DELAY, from->packet_life_time);
}

static void put_transport(struct urxe_cm_req *req, enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UC: req->transport = URXE_CM_UC; break;
	case IBV_QPT_XRC_SEND:
		req->transport = URXE_CM_EXTENDED;
		req->extended_transport = URXE_CM_XRC;
		break;
	default: req->transport = URXE_CM_RC; break;
	}
}

int urxe_cm_send_req(struct urxe_cm_id *id, const struct urxe_cm_path *path, enum ibv_qp_type type,
		     struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_req *req = &msg->req;

	if (id->state != URXE_CM_IDLE || !urxe_port(path->av.port) ||
	    (type != IBV_QPT_RC && type != IBV_QPT_UC && type != IBV_QPT_XRC_SEND))
		return -EINVAL;
	id->path = *path;
	id->service_id = req->service_id;
	id->timeout = 2 * urxe_cm_time(path->packet_life_time) +
		      urxe_cm_time(req->remote_cm_response_timeout);
	id->max_cm_retries = req->max_cm_retries & 15;
	id->local_qpn = req->local_qpn;
	id->rq_psn = req->starting_psn & 0xffffff;
	id->qp_type = type;
	id->responder_resources = req->responder_resources;
	id->initiator_depth = req->initiator_depth;
	id->retry_count = req->retry_count & 7;
	id->ack_timeout = path->packet_life_time < 31 ? path->packet_life_time + 1 : 31;
	req->local_ca_guid = ca_guid(path);
	req->pkey = path->pkey;
	req->mtu = path->mtu;
	put_transport(req, type);
	put_path(&req->primary, path);
	return urxe_cm_begin(id, URXE_CM_REQ_SENT, msg, now);
}

int urxe_cm_send_rep(struct urxe_cm_id *id, struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_rep *rep = &msg->rep;

	if (id->state != URXE_CM_REQ_RCVD && id->state != URXE_CM_MRA_REQ_SENT)
		return -EINVAL;
	id->local_qpn = rep->local_qpn & 0xffffff;
	id->rq_psn = rep->starting_psn & 0xffffff;
	id->responder_resources = rep->responder_resources;
	id->initiator_depth = rep->initiator_depth;
	rep->local_ca_guid = ca_guid(&id->path);
	rep->target_ack_delay = URXE_CM_ACK_DELAY;
	/* A target QP is named where other transports have an EE context (annex A14.6). */
	if (id->qp_type == IBV_QPT_XRC_RECV) {
		rep->local_eecn = rep->local_qpn;
		rep->local_qpn = 0;
		rep->srq = true;
	}
	urxe_cm_address(msg, id);
	id->mad = malloc(URXE_MAD_SIZE); /* so that nothing fails after the change of state */
	if (!id->mad)
		return -ENOMEM;
	urxe_cm_become(id, URXE_CM_REP_SENT, now);
	return urxe_cm_start(id, msg, now);
}

int urxe_cm_send_rtu(struct urxe_cm_id *id)
{
	if (id->state != URXE_CM_REP_RCVD && id->state != URXE_CM_MRA_REP_SENT)
		return -EINVAL;
	urxe_cm_become(id, URXE_CM_ESTABLISHED, 0);
	urxe_cm_put(id, URXE_CM_RTU);
	return 0;
}

int urxe_cm_send_dreq(struct urxe_cm_id *id, uint64_t now)
{
	if (id->state != URXE_CM_ESTABLISHED)
		return -EINVAL;
	urxe_cm_disconnect(id, now);
	return 0;
}

int urxe_cm_send_drep(struct urxe_cm_id *id, uint64_t now)
{
	if (id->state != URXE_CM_DREQ_RCVD)
		return -EINVAL;
	urxe_cm_become(id, URXE_CM_TIMEWAIT, now);
	urxe_cm_put(id, URXE_CM_DREP);
	return 0;
}

int urxe_cm_send_rej(struct urxe_cm_id *id, uint16_t reason, const void *private_data, uint8_t len,
		     uint64_t now)
{
	struct urxe_cm_msg msg;

	if (id->state < URXE_CM_REQ_SENT || id->state > URXE_CM_MRA_REP_RCVD ||
	    len > URXE_CM_REJ_PRIVATE)
		return -EINVAL;
	msg = make_rej(id, reason);
	if (len)
		memcpy(msg.private_data, private_data, len);
	urxe_cm_transmit(id, &msg);
	urxe_cm_refused(id, now);
	return 0;
}

int urxe_cm_send_mra(struct urxe_cm_id *id, uint8_t service_timeout)
{
	enum urxe_cm_state next;

	if (id->state == URXE_CM_REQ_RCVD)
		next = URXE_CM_MRA_REQ_SENT;
	else if (id->state == URXE_CM_REP_RCVD)
		next = URXE_CM_MRA_REP_SENT;
	else
		return -EINVAL;
	id->service_timeout = service_timeout & 31;
	urxe_cm_become(id, next, 0);
	if (!(service_timeout & URXE_CM_MRA_DELAY))
		urxe_cm_put_mra(id);
	return 0;
}

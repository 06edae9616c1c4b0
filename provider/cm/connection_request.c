// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * REQs that arrive (12.9.7.2, 12.9.8.3): known ones that come again, those that show that a
 * connection is stale, those that cannot be served, and new ones. A REQ costs memory only when a
 * listener takes it, and no more of them than max_pending allows: beyond that it is dropped, and
 * the peer's next try finds room or does not. All under the manager's lock.
 */
#include "cm/connection_private.h"

#include <endian.h>
#include <string.h>

void urxe_cm_reply_rej(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
		       const struct urxe_cm_msg *msg, enum urxe_cm_about about, uint16_t reason)
{
	struct urxe_cm_msg rej = {
		.attr = URXE_CM_REJ,
		.tid = msg->tid,
		.local_id = msg->remote_id,
		.remote_id = msg->local_id,
		.rej = {.about = about, .reason = reason},
	};
	union ibv_gid src, dst;

	/* The GID that it should have been. */
	if (reason == URXE_CM_REJ_INVALID_GID) {
		urxe_link_of(rx->path)->gids(rx->path, &src, &dst);
		rej.rej.ari_len = sizeof(dst);
		memcpy(rej.rej.ari, &dst, sizeof(dst));
	}
	urxe_cm_reply(cm, rx, &rej);
}

struct urxe_cm_id *urxe_cm_accept(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
				  const struct urxe_cm_msg *msg)
{
	bool full = cm->counts.pending >= cm->max_pending;
	struct urxe_cm_id *id = full ? NULL : urxe_cm_id_new(cm, 0);

	if (!id) {
		cm->counts.refused++;
		return NULL;
	}
	urxe_link_of(rx->path)->reverse(&id->path.av, rx->path);
	id->remote_id = msg->local_id;
	id->tid = msg->tid;
	return id;
}

void urxe_cm_offer(struct urxe_cm_id *id, void *listener, enum urxe_cm_state state,
		   const struct urxe_cm_event *event, uint64_t now)
{
	urxe_cm_enter(id, URXE_CM_BY_REMOTE);
	urxe_cm_become(id, state, now);
	urxe_cm_id_set(id, id->cm->ops->request, listener);
	urxe_cm_deliver(id, event, now);
}

/* The REQ came again: so must what answered it. */
static void repeated(struct urxe_cm_id *id)
{
	id->cm->counts.duplicates++;
	switch ((enum urxe_cm_state)id->state) {
	case URXE_CM_MRA_REQ_SENT: urxe_cm_put_mra(id); break;
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD: urxe_cm_repeat(id); break;
	case URXE_CM_DREQ_SENT:
		/* Refused after all, and the peer has not even our REP. */
		if (id->quiet)
			urxe_cm_put_rej(id, URXE_CM_REJ_STALE_CONN);
		break;
	case URXE_CM_TIMEWAIT: urxe_cm_put_rej(id, URXE_CM_REJ_STALE_CONN); break;
	default: break;
	}
}

static bool is_named(const struct urxe_cm_rx *rx, const struct urxe_link_addr *addr,
		     const uint8_t gid[16], uint16_t lid)
{
	union ibv_gid name;

	memcpy(&name, gid, sizeof(name));
	return urxe_link_of(rx->path)->is_named(addr, &name, lid);
}

/* The QP that answers such a request; -1: there is none. */
static int qp_type_of(const struct urxe_cm_req *req)
{
	switch (req->transport) {
	case URXE_CM_RC: return IBV_QPT_RC;
	case URXE_CM_UC: return IBV_QPT_UC;
	case URXE_CM_EXTENDED:
		return req->extended_transport == URXE_CM_XRC ? IBV_QPT_XRC_RECV : -1;
	default: return -1;
	}
}

/* The reason why no listener can serve a REQ; 0: one can. */
static uint16_t unfit(const struct urxe_cm_req *req, const struct urxe_cm_rx *rx)
{
	if (qp_type_of(req) < 0)
		return URXE_CM_REJ_INVALID_TRANSPORT_TYPE;
	if (req->mtu < IBV_MTU_256 || req->mtu > IBV_MTU_4096)
		return URXE_CM_REJ_INVALID_MTU;
	/* Both ends must be where the packet came from and went to: nobody connects third
	 * parties. */
	if (!is_named(rx, &rx->path->dst, req->primary.remote_gid, req->primary.remote_lid) ||
	    !is_named(rx, &rx->path->src, req->primary.local_gid, req->primary.local_lid))
		return URXE_CM_REJ_INVALID_GID;
	return 0;
}

static void make_event(struct urxe_cm_event *event, const struct urxe_cm_rx *rx,
		       const struct urxe_cm_msg *msg)
{
	const struct urxe_cm_req *req = &msg->req;
	const struct urxe_cm_msg_path *path = &req->primary;
	const struct ibv_ah_attr attr = {
		.grh.flow_label = path->flow_label,
		.grh.traffic_class = path->traffic_class,
		.grh.hop_limit = path->hop_limit,
		.sl = path->sl,
	};

	*event = urxe_cm_event_of(URXE_CM_REQ_RECEIVED, msg);
	event->service_id = req->service_id;
	event->qp_type = qp_type_of(req);
	event->remote_qpn = req->local_qpn;
	event->responder_resources = req->initiator_depth;
	event->initiator_depth = req->responder_resources;
	event->path = (struct urxe_cm_path){
		.pkey = req->pkey,
		.sl = path->sl,
		.mtu = req->mtu,
		.rate = path->packet_rate,
		.packet_life_time = path->ack_timeout - (path->ack_timeout > 0),
	};
	urxe_link_of(rx->path)->reverse(&event->path.av, rx->path);
	urxe_link_of(rx->path)->adjust(&event->path.av, &attr);
}

static void fill(struct urxe_cm_id *id, const struct urxe_cm_req *req,
		 const struct urxe_cm_event *event)
{
	id->path = event->path;
	id->remote_ca_guid = req->local_ca_guid;
	id->service_id = req->service_id;
	id->timeout = urxe_cm_time(req->local_cm_response_timeout);
	id->max_cm_retries = req->max_cm_retries;
	id->remote_qpn = req->local_qpn;
	id->sq_psn = req->starting_psn;
	id->responder_resources = event->responder_resources;
	id->initiator_depth = event->initiator_depth;
	id->retry_count = req->retry_count;
	id->rnr_retry_count = req->rnr_retry_count;
	id->qp_type = event->qp_type;
	id->ack_timeout = event->path.packet_life_time + 1;
}

static void serve(struct urxe_cm *cm, const struct urxe_cm_rx *rx, const struct urxe_cm_msg *msg,
		  uint64_t now)
{
	struct urxe_cm_event event;
	struct urxe_cm_id *id;
	void *listener;

	make_event(&event, rx, msg);
	listener = cm->ops->listener(cm, &event);
	if (!listener) {
		urxe_cm_reply_rej(cm, rx, msg, URXE_CM_ABOUT_REQ, URXE_CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	id = urxe_cm_accept(cm, rx, msg);
	if (!id)
		return;
	fill(id, &msg->req, &event);
	urxe_cm_enter(id, URXE_CM_BY_QPN);
	urxe_cm_offer(id, listener, URXE_CM_REQ_RCVD, &event, now);
}

void urxe_cm_receive_req(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			 const struct urxe_cm_msg *msg, uint64_t now)
{
	const struct urxe_cm_req *req = &msg->req;
	struct urxe_cm_id *id;
	uint16_t reason;

	id = urxe_cm_remote_find(cm, false, msg->local_id, req->local_ca_guid, &rx->path->src);
	if (id) {
		repeated(id);
		return;
	}
	reason = unfit(req, rx);
	if (reason) {
		urxe_cm_reply_rej(cm, rx, msg, URXE_CM_ABOUT_REQ, reason);
		return;
	}
	/* 12.9.8.3.1: that QP is connected here already, so the peer has forgotten about it. */
	id = urxe_cm_qpn_find(cm, req->local_qpn, req->local_ca_guid, &rx->path->src);
	if (id) {
		urxe_cm_reply_rej(cm, rx, msg, URXE_CM_ABOUT_REQ, URXE_CM_REJ_STALE_CONN);
		if (id->state == URXE_CM_ESTABLISHED)
			urxe_cm_disconnect(id, now);
		return;
	}
	serve(cm, rx, msg, now);
}

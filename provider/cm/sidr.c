// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Service ID resolution (12.11): which QP and Q_Key a datagram service has. The asking side repeats
 * its SIDR_REQ until there is an answer; the answering side keeps an identifier until the consumer
 * has answered, and knows a repeated request by its request ID and source address. All under the
 * manager's lock.
 */
#include "cm/connection_private.h"

#include <errno.h>

int urxe_cm_send_sidr_req(struct urxe_cm_id *id, const struct urxe_cm_path *path, uint8_t timeout,
			  uint8_t max_cm_retries, struct urxe_cm_msg *req, uint64_t now)
{
	if (id->state != URXE_CM_IDLE || !urxe_port(path->av.port))
		return -EINVAL;
	id->path = *path;
	id->service_id = req->sidr_req.service_id;
	id->timeout = urxe_cm_time(timeout);
	id->max_cm_retries = max_cm_retries & 15;
	req->sidr_req.pkey = path->pkey;
	return urxe_cm_begin(id, URXE_CM_SIDR_REQ_SENT, req, now);
}

static void put_sidr_rep(struct urxe_cm_id *id, struct urxe_cm_msg *rep)
{
	urxe_cm_address(rep, id);
	rep->local_id = id->remote_id; /* the request ID is the asking side's */
	rep->sidr_rep.service_id = id->service_id;
	urxe_cm_transmit(id, rep);
}

void urxe_cm_put_sidr_reject(struct urxe_cm_id *id)
{
	struct urxe_cm_msg rep = {.attr = URXE_CM_SIDR_REP, .sidr_rep.status = URXE_CM_SIDR_REJECT};

	put_sidr_rep(id, &rep);
}

int urxe_cm_send_sidr_rep(struct urxe_cm_id *id, struct urxe_cm_msg *rep)
{
	if (id->state != URXE_CM_SIDR_REQ_RCVD)
		return -EINVAL;
	put_sidr_rep(id, rep);
	urxe_cm_become(id, URXE_CM_IDLE, 0);
	return 0;
}

static void reply_unsupported(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			      const struct urxe_cm_msg *msg)
{
	struct urxe_cm_msg rep = {
		.attr = URXE_CM_SIDR_REP,
		.tid = msg->tid,
		.local_id = msg->local_id,
		.sidr_rep =
			{
				.status = URXE_CM_SIDR_UNSUPPORTED,
				.service_id = msg->sidr_req.service_id,
			},
	};

	urxe_cm_reply(cm, rx, &rep);
}

void urxe_cm_receive_sidr_req(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			      const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_event event = urxe_cm_event_of(URXE_CM_SIDR_REQ_RECEIVED, msg);
	struct urxe_cm_id *id;
	void *listener;

	if (urxe_cm_remote_find(cm, true, msg->local_id, 0, &rx->path->src)) {
		cm->counts.duplicates++;
		return;
	}
	event.service_id = msg->sidr_req.service_id;
	event.qp_type = IBV_QPT_UD;
	event.path.pkey = msg->sidr_req.pkey;
	urxe_link_of(rx->path)->reverse(&event.path.av, rx->path);
	listener = cm->ops->listener(cm, &event);
	if (!listener) {
		reply_unsupported(cm, rx, msg);
		return;
	}
	id = urxe_cm_accept(cm, rx, msg);
	if (!id)
		return;
	id->sidr = true;
	id->service_id = msg->sidr_req.service_id;
	id->path.pkey = msg->sidr_req.pkey;
	urxe_cm_offer(id, listener, URXE_CM_SIDR_REQ_RCVD, &event, now);
}

void urxe_cm_receive_sidr_rep(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			      const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_id *id = urxe_cm_local_find(cm, msg->local_id);

	if (!id || id->state != URXE_CM_SIDR_REQ_SENT ||
	    !urxe_same_addr(&id->path.av.dst, &rx->path->src))
		return;
	urxe_cm_become(id, URXE_CM_IDLE, now);
	urxe_cm_deliver_type(id, URXE_CM_SIDR_REP_RECEIVED, msg, now);
}

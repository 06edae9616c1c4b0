// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Service ID resolution (12.11): which QP and Q_Key a datagram service has. The asking side repeats
 * its SIDR_REQ until there is an answer; the answering side keeps an identifier until the consumer
 * has answered, and knows a repeated request by its request ID and source address. All under the
 * manager's lock.
 */
#include "cm/connection_private.h"

#include <errno.h>
#include <string.h>

int urxe_cm_send_sidr_req(struct urxe_cm_id *id, const struct urxe_cm_sidr_req_param *param,
			  uint64_t now)
{
	struct urxe_cm_msg msg;

	if (id->state != URXE_CM_IDLE || !urxe_port(param->path->av.port) ||
	    param->private_data_len > URXE_CM_SIDR_REQ_PRIVATE)
		return -EINVAL;
	id->path = *param->path;
	id->tid = id->cm->next_tid++;
	id->service_id = param->service_id;
	id->timeout = urxe_cm_time(param->response_timeout);
	id->max_cm_retries = param->max_cm_retries & 15;
	id->sidr = true;
	msg = urxe_cm_about_id(id, URXE_CM_SIDR_REQ);
	msg.sidr_req.pkey = param->path->pkey;
	msg.sidr_req.service_id = param->service_id;
	if (param->private_data_len)
		memcpy(msg.private_data, param->private_data, param->private_data_len);
	urxe_cm_become(id, URXE_CM_SIDR_REQ_SENT, now);
	if (urxe_cm_start(id, &msg, now)) {
		urxe_cm_become(id, URXE_CM_IDLE, now);
		return -ENOMEM;
	}
	return 0;
}

static void fill_sidr_rep(struct urxe_cm_msg *msg, const struct urxe_cm_sidr_rep_param *param)
{
	msg->attr_mod = param->ece.attr_mod;
	msg->sidr_rep.status = param->status;
	msg->sidr_rep.info_len = param->info_len;
	msg->sidr_rep.vendor_id = param->ece.vendor_id;
	msg->sidr_rep.qpn = param->qpn;
	msg->sidr_rep.qkey = param->qkey;
	if (param->info_len)
		memcpy(msg->sidr_rep.info, param->info, param->info_len);
	if (param->private_data_len)
		memcpy(msg->private_data, param->private_data, param->private_data_len);
}

void urxe_cm_put_sidr_rep(struct urxe_cm_id *id, const struct urxe_cm_sidr_rep_param *param)
{
	struct urxe_cm_msg msg = urxe_cm_about_id(id, URXE_CM_SIDR_REP);

	msg.local_id = id->remote_id; /* the request ID is the asking side's */
	msg.sidr_rep.service_id = id->service_id;
	fill_sidr_rep(&msg, param);
	urxe_cm_transmit(id, &msg);
}

int urxe_cm_send_sidr_rep(struct urxe_cm_id *id, const struct urxe_cm_sidr_rep_param *param)
{
	if (id->state != URXE_CM_SIDR_REQ_RCVD || param->info_len > URXE_CM_SIDR_REP_INFO ||
	    param->private_data_len > URXE_CM_SIDR_REP_PRIVATE)
		return -EINVAL;
	urxe_cm_put_sidr_rep(id, param);
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

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What arrives, and what it does in each state (12.9.7). A message is for the identifier that both
 * its communication IDs and its source address name; a wrong message in a state changes nothing.
 * All under the manager's lock, from the GSI.
 */
#include "cm/connection_private.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

/* remote_id 0: whatever the peer's is, for it may not be known yet. */
static struct urxe_cm_id *find(struct urxe_cm *cm, const struct urxe_cm_rx *rx, uint32_t local_id,
			       uint32_t remote_id)
{
	struct urxe_cm_id *id = urxe_cm_local_find(cm, local_id);

	if (!id || !urxe_same_addr(&id->path.av.dst, &rx->path->src))
		return NULL;
	return !remote_id || id->remote_id == remote_id ? id : NULL;
}

/*
 * Peers that request each other's QP at the same time: this one's REQ has not been answered, and
 * its QP accepts ours instead. What is to be refused yet is no connection of that QP.
 */
static bool is_request(const struct urxe_cm_id *id)
{
	return id->state == URXE_CM_REQ_RCVD || id->state == URXE_CM_MRA_REQ_SENT;
}

/* 12.9.6: the REP makes the connection known to both. */
static void take_rep(struct urxe_cm_id *id, const struct urxe_cm_rx *rx,
		     const struct urxe_cm_msg *msg, uint64_t now)
{
	const struct urxe_cm_rep *rep = &msg->rep;
	uint32_t qpn = id->qp_type == IBV_QPT_XRC_SEND ? rep->local_eecn : rep->local_qpn;
	struct urxe_cm *cm = id->cm;
	struct urxe_cm_id *other;
	struct urxe_cm_event event = urxe_cm_event_of(URXE_CM_REP_RECEIVED, msg);

	if (urxe_cm_remote_find(cm, false, msg->local_id, rep->local_ca_guid, &rx->path->src))
		return;
	/* 12.9.8.3.1 */
	other = urxe_cm_qpn_find(cm, qpn, rep->local_ca_guid, &rx->path->src);
	if (other && is_request(other)) {
		urxe_cm_remove(other, URXE_CM_BY_QPN);
	} else if (other) {
		urxe_cm_reply_rej(cm, rx, msg, URXE_CM_ABOUT_REP, URXE_CM_REJ_STALE_CONN);
		if (other->state == URXE_CM_ESTABLISHED)
			urxe_cm_disconnect(other, now);
		return;
	}
	id->remote_id = msg->local_id;
	id->remote_ca_guid = rep->local_ca_guid;
	id->remote_qpn = event.remote_qpn = qpn;
	id->sq_psn = rep->starting_psn;
	id->responder_resources = event.responder_resources = rep->initiator_depth;
	id->initiator_depth = event.initiator_depth = rep->responder_resources;
	id->rnr_retry_count = rep->rnr_retry_count;
	id->ack_timeout = urxe_cm_ack_timeout(rep->target_ack_delay, id->ack_timeout - 1);
	urxe_cm_enter(id, URXE_CM_BY_REMOTE);
	urxe_cm_enter(id, URXE_CM_BY_QPN);
	urxe_cm_become(id, URXE_CM_REP_RCVD, now);
	urxe_cm_deliver(id, &event, now);
}

static void receive_rep(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_id *id = find(cm, rx, msg->remote_id, 0);

	if (!id || id->state == URXE_CM_IDLE || id->state == URXE_CM_REJ_SENT) {
		urxe_cm_reply_rej(cm, rx, msg, URXE_CM_ABOUT_REP, URXE_CM_REJ_INVALID_COMM_ID);
		return;
	}
	if (id->state == URXE_CM_REQ_SENT || id->state == URXE_CM_MRA_REQ_RCVD) {
		take_rep(id, rx, msg, now);
		return;
	}
	if (id->remote_id != msg->local_id)
		return;
	cm->counts.duplicates++;
	if (id->state == URXE_CM_ESTABLISHED)
		urxe_cm_put(id, URXE_CM_RTU);
	else if (id->state == URXE_CM_MRA_REP_SENT)
		urxe_cm_put_mra(id);
}

static void receive_rtu(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_id *id = find(cm, rx, msg->remote_id, msg->local_id);

	if (!id) {
		/* The peer thinks that it is connected, and the REJ that said no was lost. */
		urxe_cm_reply_rej(cm, rx, msg, URXE_CM_ABOUT_OTHER, URXE_CM_REJ_INVALID_COMM_ID);
		return;
	}
	if (id->state != URXE_CM_REP_SENT && id->state != URXE_CM_MRA_REP_RCVD) {
		cm->counts.duplicates++;
		return;
	}
	urxe_cm_become(id, URXE_CM_ESTABLISHED, now);
	urxe_cm_deliver_type(id, URXE_CM_RTU_RECEIVED, msg, now);
}

static void receive_mra(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			const struct urxe_cm_msg *msg, uint64_t now)
{
	bool about_req = msg->mra.about == URXE_CM_ABOUT_REQ;
	struct urxe_cm_id *id = find(cm, rx, msg->remote_id, about_req ? 0 : msg->local_id);
	enum urxe_cm_state from = about_req ? URXE_CM_REQ_SENT : URXE_CM_REP_SENT;
	enum urxe_cm_state to = about_req ? URXE_CM_MRA_REQ_RCVD : URXE_CM_MRA_REP_RCVD;
	bool again;

	/* Nothing else can be acknowledged. */
	if (!id || msg->mra.about == URXE_CM_ABOUT_OTHER)
		return;
	again = id->state == to;
	if (!again && id->state != from)
		return;
	urxe_cm_become(id, to, now);
	urxe_cm_arm(id, now,
		    urxe_cm_time(msg->mra.service_timeout) + urxe_cm_time(id->ack_timeout));
	if (again)
		cm->counts.duplicates++;
	else
		urxe_cm_deliver_type(id, URXE_CM_MRA_RECEIVED, msg, now);
}

/*
 * The identifier that a REJ is for. After a timeout the sender may not know our communication ID:
 * its own one and its GUID in the ARI say which connection it is (12.6.7.2). A REJ of a REQ that
 * comes late, when the connection has been made, says nothing any more.
 */
static struct urxe_cm_id *rejected(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
				   const struct urxe_cm_msg *msg)
{
	struct urxe_cm_id *id;
	uint64_t guid;

	if (msg->rej.reason == URXE_CM_REJ_TIMEOUT && msg->rej.ari_len >= sizeof(guid)) {
		memcpy(&guid, msg->rej.ari, sizeof(guid));
		id = urxe_cm_remote_find(cm, false, msg->local_id, be64toh(guid), &rx->path->src);
		if (id)
			return id;
	}
	id = msg->remote_id ? find(cm, rx, msg->remote_id, 0) : NULL;
	/* Before the REP we know no communication ID of the peer to compare with. */
	return id && (!id->remote_id || id->remote_id == msg->local_id) ? id : NULL;
}

bool urxe_cm_is_others(struct urxe_cm *cm, const struct urxe_cm_rx *rx)
{
	struct urxe_cm_msg msg;

	return !urxe_cm_decode(&msg, rx->mad) && msg.attr == URXE_CM_REJ && !msg.remote_id &&
	       msg.rej.reason == URXE_CM_REJ_TIMEOUT && !rejected(cm, rx, &msg);
}

static void receive_rej(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_id *id = rejected(cm, rx, msg);
	enum urxe_cm_state next = URXE_CM_TIMEWAIT;

	if (!id)
		return;
	switch ((enum urxe_cm_state)id->state) {
	case URXE_CM_REQ_SENT:
	case URXE_CM_MRA_REQ_RCVD:
	case URXE_CM_REQ_RCVD:
	case URXE_CM_MRA_REQ_SENT:
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
		if (msg->rej.reason != URXE_CM_REJ_STALE_CONN)
			next = URXE_CM_IDLE;
		break;
	case URXE_CM_REP_RCVD:
	case URXE_CM_MRA_REP_SENT:
	case URXE_CM_ESTABLISHED:
	case URXE_CM_DREQ_SENT: break;
	default: cm->counts.duplicates++; return;
	}
	urxe_cm_become(id, next, now);
	urxe_cm_deliver_type(id, URXE_CM_REJ_RECEIVED, msg, now);
}

/* A DREQ about a connection that is no more: its DREP was lost, or we came back without memory. */
static void reply_drep(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
		       const struct urxe_cm_msg *msg)
{
	struct urxe_cm_msg drep = {
		.attr = URXE_CM_DREP,
		.tid = msg->tid,
		.local_id = msg->remote_id,
		.remote_id = msg->local_id,
	};

	cm->counts.duplicates++;
	urxe_cm_reply(cm, rx, &drep);
}

static void receive_dreq(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			 const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_id *id = find(cm, rx, msg->remote_id, msg->local_id);

	if (!id) {
		reply_drep(cm, rx, msg);
		return;
	}
	if (id->local_qpn != msg->dreq.remote_qpn)
		return;
	switch ((enum urxe_cm_state)id->state) {
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
	case URXE_CM_ESTABLISHED:
	case URXE_CM_DREQ_SENT:
		id->tid = msg->tid;
		urxe_cm_become(id, URXE_CM_DREQ_RCVD, now);
		urxe_cm_deliver_type(id, URXE_CM_DREQ_RECEIVED, msg, now);
		break;
	case URXE_CM_TIMEWAIT:
		cm->counts.duplicates++;
		urxe_cm_put(id, URXE_CM_DREP);
		break;
	case URXE_CM_DREQ_RCVD: cm->counts.duplicates++; break;
	default: break;
	}
}

static void receive_drep(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			 const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_id *id = find(cm, rx, msg->remote_id, msg->local_id);

	if (!id || (id->state != URXE_CM_DREQ_SENT && id->state != URXE_CM_DREQ_RCVD))
		return;
	urxe_cm_become(id, URXE_CM_TIMEWAIT, now);
	urxe_cm_deliver_type(id, URXE_CM_DREP_RECEIVED, msg, now);
}

typedef void receive_fn(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			const struct urxe_cm_msg *msg, uint64_t now);

static receive_fn *const receivers[] = {
	[URXE_CM_REQ - URXE_CM_REQ] = urxe_cm_receive_req,
	[URXE_CM_MRA - URXE_CM_REQ] = receive_mra,
	[URXE_CM_REJ - URXE_CM_REQ] = receive_rej,
	[URXE_CM_REP - URXE_CM_REQ] = receive_rep,
	[URXE_CM_RTU - URXE_CM_REQ] = receive_rtu,
	[URXE_CM_DREQ - URXE_CM_REQ] = receive_dreq,
	[URXE_CM_DREP - URXE_CM_REQ] = receive_drep,
	[URXE_CM_SIDR_REQ - URXE_CM_REQ] = urxe_cm_receive_sidr_req,
	[URXE_CM_SIDR_REP - URXE_CM_REQ] = urxe_cm_receive_sidr_rep,
};

void urxe_cm_receive(struct urxe_cm *cm, const struct urxe_cm_rx *rx, uint64_t now)
{
	struct urxe_cm_msg msg;

	cm->now = now;
	/* An adapter's communication manager sits on QP 1, and multicast has none. */
	if (urxe_cm_decode(&msg, rx->mad) || rx->src_qpn != 1 || !urxe_port(rx->path->port) ||
	    rx->path->multicast) {
		cm->counts.malformed++;
		return;
	}
	receivers[msg.attr - URXE_CM_REQ](cm, rx, &msg, now);
}

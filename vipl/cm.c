// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The lives of connections and their ids (cm.h). Everything with the NIC's lock unless said
 * otherwise. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/object.h"
#include "vipl/post.h"

#define LINGER	      10000 /* milliseconds that an end may take to be confirmed */
#define LAST_WORDS    500   /* the same, when the NIC is closed */
#define READS_AT_ONCE 16

struct vipl_conn *vipl_conn_create(struct vipl_nic *nic, enum vipl_conn_kind kind)
{
	struct vipl_conn *conn = vipl_object_get(VIPL_KIND_CONN, sizeof(*conn));

	if (!conn)
		return NULL;
	memset(conn, 0, sizeof(*conn));
	conn->type = VIPL_CM_CONN;
	conn->kind = kind;
	conn->nic = nic;
	conn->responder_resources = nic->limits.max_qp_rd_atom < READS_AT_ONCE
					    ? nic->limits.max_qp_rd_atom
					    : READS_AT_ONCE;
	conn->initiator_depth = nic->limits.max_qp_init_rd_atom < READS_AT_ONCE
					? nic->limits.max_qp_init_rd_atom
					: READS_AT_ONCE;
	vipl_cond_init(&conn->cond);
	LIST_INSERT_HEAD(&nic->conns, conn, link);
	return conn;
}

static struct vipl_id *discard(struct vipl_nic *nic, struct rdma_cm_id *id, bool linger)
{
	struct vipl_id *dying;

	if (!id)
		return NULL;
	id->context = NULL;
	dying = calloc(1, sizeof(*dying));
	if (!dying)
		return NULL; /* it goes with its channel */
	dying->type = VIPL_CM_DYING;
	dying->id = id;
	dying->linger = linger;
	dying->deadline = vipl_deadline(linger ? LINGER : 0);
	id->context = dying;
	LIST_INSERT_HEAD(&nic->dying, dying, link);
	if (linger)
		vipl_helper_at(nic, &dying->deadline);
	else
		vipl_cm_died(nic);
	return dying;
}

void vipl_cm_discard(struct vipl_nic *nic, struct rdma_cm_id *id, bool linger)
{
	discard(nic, id, linger);
}

static void destroy_qp(struct vipl_id *dying)
{
	if (dying->qp)
		vipl_qp_destroy_of(dying->vi, dying->qp);
	dying->qp = NULL;
}

void vipl_cm_reap(struct vipl_vi *vi)
{
	struct vipl_id *dying;

	LIST_FOREACH(dying, &vi->nic->dying, link)
	{
		if (dying->vi == vi)
			destroy_qp(dying);
	}
}

void vipl_conn_give_up(struct vipl_conn *conn)
{
	struct vipl_id *dying = discard(conn->nic, conn->id, conn->unanswered);
	bool held = dying && conn->unanswered;

	conn->id = NULL;
	conn->unanswered = false;
	conn->greeting = false;
	conn->retrying = false;
	if (held)
		dying->vi = conn->vi;
	if (conn->vi)
		vipl_qp_abandon(conn->vi, held ? &dying->qp : NULL);
}

void vipl_conn_free(struct vipl_conn *conn, bool linger)
{
	vipl_cm_discard(conn->nic, conn->id, linger);
	if (conn->listener)
		vipl_listener_put(conn->listener);
	if (conn->handle)
		vipl_handle_destroy(conn->handle);
	if (conn->vi && conn->vi->conn == conn)
		conn->vi->conn = NULL;
	vipl_cm_wake(conn->nic, &conn->nic->peers);
	conn->handle = NULL;
	conn->id = NULL;
	if (conn->awaited)
		return;
	LIST_REMOVE(conn, link);
	pthread_cond_destroy(&conn->cond);
	vipl_object_put(VIPL_KIND_CONN, conn);
}

void vipl_conn_finish(struct vipl_conn *conn, VIP_RETURN result)
{
	if (conn->finished)
		return;
	conn->finished = true;
	conn->result = result;
	vipl_cm_wake(conn->nic, &conn->cond);
	vipl_cm_wake(conn->nic, &conn->nic->peers);
}

void vipl_conn_fail(struct vipl_conn *conn, VIP_RETURN result)
{
	if (conn->finished)
		return;
	if (conn->vi)
		vipl_vi_event(conn->vi, VIPL_FAILED);
	vipl_conn_give_up(conn);
	vipl_conn_finish(conn, result);
}

void vipl_conn_established(struct vipl_conn *conn)
{
	if (conn->finished)
		return;
	vipl_vi_event(conn->vi, VIPL_ESTABLISHED);
	vipl_conn_finish(conn, VIP_SUCCESS);
}

VIP_RETURN vipl_conn_await(struct vipl_conn *conn, const struct vipl_deadline *deadline,
			   VIP_VI_ATTRIBUTES *attributes)
{
	VIP_RETURN result;

	conn->awaited = true;
	while (!conn->finished) {
		if (vipl_cm_wait(conn->nic, &conn->cond, deadline))
			vipl_conn_fail(conn, VIP_TIMEOUT);
	}
	conn->awaited = false;
	result = conn->result;
	if (!result && attributes)
		vipl_message_to_attributes(&conn->message, attributes);
	/* Who has ended it may have begun another one with the VI. */
	if (result || conn->vi->conn != conn)
		vipl_conn_free(conn, false);
	return result;
}

void vipl_conn_forget(struct vipl_vi *vi)
{
	if (vi->conn && vi->conn->finished && vi->state == VIP_STATE_IDLE)
		vipl_conn_free(vi->conn, false);
}

void vipl_conn_hang_up(struct vipl_conn *conn)
{
	if (conn->id && !conn->unanswered)
		rdma_disconnect(conn->id);
}

void vipl_conn_drop(struct vipl_conn *conn)
{
	vipl_conn_hang_up(conn);
	vipl_conn_free(conn, true);
}

void vipl_cm_refuse(struct rdma_cm_id *id, enum vipl_reason reason, VIP_RETURN result)
{
	struct vipl_message message = {.kind = VIPL_REFUSAL, .reason = reason, .result = result};
	uint8_t buffer[VIPL_MESSAGE_MAX];
	size_t length = vipl_message_write(&message, buffer);

	rdma_reject(id, buffer, length);
}

struct rdma_conn_param vipl_conn_param(struct vipl_conn *conn, const void *data, size_t length)
{
	return (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = length,
		.responder_resources = conn->responder_resources,
		.initiator_depth = conn->initiator_depth,
		.retry_count = 7,
		.rnr_retry_count = 0,
		.qp_num = conn->vi->qp->qp_num,
	};
}

static void poll_queue(struct vipl_queue *queue)
{
	owned_lock(&queue->cq->lock);
	vipl_cq_poll(queue->cq);
	vipl_cq_unlock(queue->cq);
}

/*
 * On iWARP a connection is established by greetings (post.h): the responder returns the one that it
 * gets. Either finds its VI connected before the other one's first message.
 */
static void look_for_greeting(struct vipl_conn *conn)
{
	struct vipl_vi *vi = conn->vi;

	poll_queue(&vi->sq);
	poll_queue(&vi->rq);
	if (!atomic_load(&vi->greeted)) {
		if (!conn->accepting && vipl_deadline_passed(&conn->retry)) {
			vipl_post_knock(vi);
			conn->retry = vipl_deadline(VIPL_KNOCK);
		}
		return;
	}
	if (conn->accepting && vipl_post_greeting(vi))
		vipl_conn_fail(conn, VIP_ERROR_RESOURCE);
	else
		vipl_conn_established(conn);
}

/* The end of a connection, or of what was to become one. */
static void lost(struct vipl_conn *conn)
{
	if (conn->greeting && !conn->finished)
		look_for_greeting(conn);
	if (!conn->finished) {
		if (conn->kind == VIPL_CONN_PEER)
			vipl_peer_refused(conn, NULL);
		else
			vipl_conn_fail(conn, VIP_TIMEOUT);
		return;
	}
	if (conn->vi && conn->vi->conn == conn && conn->vi->state == VIP_STATE_CONNECTED)
		vipl_vi_break_locked(conn->vi, VIPL_PEER_GONE, VIP_ERROR_CONN_LOST);
	else
		vipl_conn_hang_up(conn);
}

static void conn_event(struct vipl_conn *conn, struct rdma_cm_event *event)
{
	/* Of an id that has been given up for another one. */
	if (event->id != conn->id)
		return;
	conn->unanswered = false;
	switch (event->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		if (conn->vi && conn->accepting && conn->nic->iwarp)
			conn->greeting = true; /* connection_timers() looks for it */
		else if (conn->vi && conn->accepting)
			vipl_conn_established(conn);
		else
			vipl_request_event(conn, event);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL: lost(conn); break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
	default:
		if (!conn->accepting)
			vipl_request_event(conn, event);
		else
			lost(conn);
	}
}

void vipl_cm_event(struct vipl_nic *nic, struct rdma_cm_event *event)
{
	const enum vipl_cm_type *type = event->id->context;
	struct vipl_id *dying;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		type = event->listen_id->context;
		event->id->context = NULL;
		if (type && *type == VIPL_CM_LISTENER) {
			vipl_listener_request((struct vipl_listener *)type, event);
		} else {
			vipl_cm_refuse(event->id, VIPL_NOBODY, VIP_NO_MATCH);
			vipl_cm_discard(nic, event->id, false);
		}
		return;
	}
	if (!type)
		return;
	switch (*type) {
	case VIPL_CM_CONN: conn_event((struct vipl_conn *)type, event); break;
	case VIPL_CM_DYING:
		dying = (struct vipl_id *)type;
		if (event->event == RDMA_CM_EVENT_DISCONNECTED)
			rdma_disconnect(dying->id);
		dying->linger = false;
		nic->dead = true;
		break;
	case VIPL_CM_LISTENER: break;
	}
}

static int sooner(int a, const struct vipl_deadline *deadline)
{
	int b = vipl_deadline_left(deadline);

	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Greetings that are looked for; requests of peers that time out, or are to be tried again. */
static int connection_timers(struct vipl_nic *nic)
{
	struct vipl_conn *conn;
	int next = -1;

	LIST_FOREACH(conn, &nic->conns, link)
	{
		if (conn->greeting && !conn->finished) {
			look_for_greeting(conn);
			next = 1;
		}
		if (conn->kind != VIPL_CONN_PEER || conn->finished)
			continue;
		if (vipl_deadline_passed(&conn->deadline)) {
			vipl_conn_fail(conn, VIP_TIMEOUT);
			continue;
		}
		if (conn->retrying && vipl_deadline_passed(&conn->retry)) {
			VIP_RETURN result;

			conn->retrying = false;
			conn->probe = 0;
			result = vipl_request_start(conn);
			if (result)
				vipl_conn_fail(conn, result);
			continue;
		}
		next = sooner(next, &conn->deadline);
		if (conn->retrying)
			next = sooner(next, &conn->retry);
	}
	return next;
}

static int listener_timers(struct vipl_nic *nic)
{
	struct vipl_listener *listener, *after;
	int next = -1;

	for (listener = LIST_FIRST(&nic->listeners); listener; listener = after) {
		after = LIST_NEXT(listener, link);
		if (!nic->closing && !vipl_deadline_passed(&listener->unused))
			next = sooner(next, &listener->unused); /* it may be unused again by then */
		else if (!listener->users)
			vipl_listener_free(listener);
	}
	return next;
}

/* One that may be destroyed, its QP already has been; the time to the next one. */
static struct rdma_cm_id *next_dead(struct vipl_nic *nic, int *next)
{
	struct vipl_id *dying;

	LIST_FOREACH(dying, &nic->dying, link)
	{
		struct rdma_cm_id *id = dying->id;

		if (dying->linger && !vipl_deadline_passed(&dying->deadline)) {
			*next = sooner(*next, &dying->deadline);
			continue;
		}
		LIST_REMOVE(dying, link);
		destroy_qp(dying);
		id->context = NULL;
		free(dying);
		return id;
	}
	nic->dead = false;
	return NULL;
}

/* The time to the next one, or next if that is sooner. */
static int destroy_ids(struct vipl_nic *nic, int next)
{
	struct rdma_cm_id *id;

	while ((id = next_dead(nic, &next))) {
		vipl_nic_unlock(nic);
		rdma_destroy_id(id);
		vipl_nic_lock(nic);
	}
	return next;
}

void vipl_cm_destroy_ids(struct vipl_nic *nic)
{
	destroy_ids(nic, -1);
}

int vipl_cm_turn(struct vipl_nic *nic)
{
	int next, other;

	vipl_nic_lock(nic);
	next = connection_timers(nic);
	other = listener_timers(nic);
	if (next < 0 || (other >= 0 && other < next))
		next = other;
	next = destroy_ids(nic, next);
	nic->helper_due = vipl_deadline(next < 0 ? VIP_INFINITE : (VIP_ULONG)next);
	vipl_nic_unlock(nic);
	return next;
}

void vipl_cm_disconnect_all(struct vipl_nic *nic)
{
	struct vipl_deadline deadline = vipl_deadline(LAST_WORDS);
	struct vipl_vi *vi;
	bool lingering;

	vipl_nic_lock(nic);
	LIST_FOREACH(vi, &nic->vis, link)
	{
		vipl_vi_event(vi, VIPL_DISCONNECT);
		if (vi->conn)
			vipl_conn_drop(vi->conn);
	}
	vipl_nic_unlock(nic);
	do {
		struct timespec moment = {.tv_nsec = 1000000};
		struct vipl_id *dying;

		lingering = false;
		vipl_nic_lock(nic);
		LIST_FOREACH(dying, &nic->dying, link)
		lingering |= dying->linger;
		vipl_nic_unlock(nic);
		if (lingering)
			nanosleep(&moment, NULL);
	} while (lingering && !vipl_deadline_passed(&deadline));
}

/* The helper has ended: nobody takes events any more, and nobody has one that is not acknowledged.
 * */
void vipl_cm_fini(struct vipl_nic *nic)
{
	struct vipl_listener *listener;
	struct vipl_conn *conn;
	struct vipl_id *dying;

	while ((conn = LIST_FIRST(&nic->conns)))
		vipl_conn_free(conn, false);
	while ((listener = LIST_FIRST(&nic->listeners)))
		vipl_listener_free(listener);
	while ((dying = LIST_FIRST(&nic->dying))) {
		LIST_REMOVE(dying, link);
		rdma_destroy_id(dying->id);
		free(dying);
	}
}

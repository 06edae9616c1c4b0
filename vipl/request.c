// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipConnectRequest, and the requests of peers (cm.h; source, 2.3). An attempt at one port is
 *
 *	address → route → request → answer → QP ready → confirmed
 *
 * and a refusal that is not the server's own leads to the next port of the discriminator.
 */
#include <errno.h>
#include <string.h>

#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/post.h"

#define RESOLVE_TIME 2000 /* milliseconds for an address, and for a route */

VIP_RETURN vipl_bind(struct vipl_nic *nic, struct rdma_cm_id *id,
		     const struct vipl_address *address, uint16_t port)
{
	struct sockaddr_storage local;

	vipl_sockaddr(address->host, nic->device.scope, port, &local);
	if (rdma_bind_addr(id, (struct sockaddr *)&local))
		return errno == EADDRINUSE ? VIP_NOT_DONE
		       : errno == ENOMEM   ? VIP_ERROR_RESOURCE
					   : VIP_INVALID_PARAMETER;
	if (!id->verbs || strcmp(ibv_get_device_name(id->verbs->device), nic->device.name))
		return VIP_INVALID_PARAMETER;
	return VIP_SUCCESS;
}

VIP_RETURN vipl_request_start(struct vipl_conn *conn)
{
	struct vipl_nic *nic = conn->nic;
	struct sockaddr_storage remote;
	VIP_RETURN result;

	if (rdma_create_id(nic->cm_channel, &conn->id, conn, RDMA_PS_TCP)) {
		conn->id = NULL;
		return VIP_ERROR_RESOURCE;
	}
	conn->accepting = false;
	result = vipl_bind(nic, conn->id, &conn->local, 0);
	if (result)
		return result == VIP_NOT_DONE ? VIP_ERROR_RESOURCE : result;
	vipl_sockaddr(conn->remote.host, nic->device.scope,
		      vipl_port(conn->remote.discriminator, conn->remote.length, conn->probe),
		      &remote);
	if (rdma_resolve_addr(conn->id, NULL, (struct sockaddr *)&remote, RESOLVE_TIME))
		return errno == ENOMEM ? VIP_ERROR_RESOURCE : VIP_NOT_REACHABLE;
	return VIP_SUCCESS;
}

static VIP_RETURN send_request(struct vipl_conn *conn)
{
	struct vipl_message message = {
		.kind = conn->kind == VIPL_CONN_PEER ? VIPL_PEER : VIPL_CLIENT,
		.nonce = conn->nonce,
		.to_length = conn->remote.length,
		.from_length = conn->local.length,
	};
	struct vipl_vi *vi = conn->vi;
	uint8_t buffer[VIPL_MESSAGE_MAX];
	struct rdma_conn_param param;

	memcpy(message.to, conn->remote.discriminator, conn->remote.length);
	memcpy(message.from, conn->local.discriminator, conn->local.length);
	vipl_message_from_attributes(&message, &vi->attributes);
	/* On iWARP the kernel takes the QP over from here. */
	if (conn->nic->iwarp ? vipl_qp_prepare(vi, conn->id) : !vi->qp && vipl_qp_create(vi))
		return VIP_ERROR_RESOURCE;
	param = vipl_conn_param(conn, buffer, vipl_message_write(&message, buffer));
	conn->unanswered = conn->nic->iwarp;
	if (!rdma_connect(conn->id, &param))
		return VIP_SUCCESS;
	conn->unanswered = false;
	/* Kernels connect iWARP's TCP here and now: nobody listens at that port. */
	return errno == ECONNREFUSED || errno == ECONNRESET ? VIP_NO_MATCH : VIP_NOT_REACHABLE;
}

/* The next port, or the end. */
static void nobody_there(struct vipl_conn *conn)
{
	VIP_RETURN result = VIP_NO_MATCH;

	vipl_conn_give_up(conn);
	if (++conn->probe < VIPL_PROBES) {
		result = vipl_request_start(conn);
		if (!result)
			return;
	} else if (conn->kind == VIPL_CONN_PEER) {
		vipl_peer_again(conn, false);
		return;
	}
	vipl_conn_fail(conn, result);
}

static void rejected(struct vipl_conn *conn, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	struct vipl_message message;

	/* A refusal without words is one of the network's: nobody listens there, or not for us. */
	if (vipl_message_read(param->private_data, param->private_data_len, &message) ||
	    message.kind != VIPL_REFUSAL || message.reason == VIPL_NOBODY)
		nobody_there(conn);
	else if (conn->kind == VIPL_CONN_PEER)
		vipl_peer_refused(conn, &message);
	else
		vipl_conn_fail(conn, VIP_REJECT);
}

/* The server has accepted: reads what it says of its VI. False: it is no VI at all. */
static bool read_answer(struct vipl_conn *conn, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;

	return !vipl_message_read(param->private_data, param->private_data_len, &conn->message) &&
	       conn->message.kind == VIPL_ACCEPT;
}

static void answered(struct vipl_conn *conn, const struct rdma_cm_event *event)
{
	if (!read_answer(conn, event)) {
		rdma_reject(conn->id, NULL, 0);
		nobody_there(conn);
		return;
	}
	if (vipl_qp_prepare(conn->vi, conn->id) || vipl_qp_connect(conn->vi, conn->id) ||
	    rdma_establish(conn->id)) {
		rdma_reject(conn->id, NULL, 0);
		vipl_conn_fail(conn, VIP_ERROR_RESOURCE);
		return;
	}
	vipl_conn_established(conn);
}

/* On iWARP the answer comes with the connection, and the greeting is returned. */
static void established(struct vipl_conn *conn, const struct rdma_cm_event *event)
{
	if (read_answer(conn, event)) {
		conn->greeting = true;
		conn->retry = vipl_deadline(VIPL_KNOCK);
		if (vipl_post_greeting(conn->vi))
			vipl_conn_fail(conn, VIP_ERROR_RESOURCE);
		return;
	}
	rdma_disconnect(conn->id);
	nobody_there(conn);
}

/* A connection that has ended, or has come to nothing. Peers try until their time is over. */
static void unanswered(struct vipl_conn *conn, const struct rdma_cm_event *event)
{
	/* On iWARP the listener has gone with the connections that were waiting there. */
	if (conn->nic->iwarp && event->event == RDMA_CM_EVENT_CONNECT_ERROR)
		nobody_there(conn);
	else if (conn->kind == VIPL_CONN_PEER)
		vipl_peer_refused(conn, NULL);
	else
		vipl_conn_fail(conn, VIP_NOT_REACHABLE);
}

void vipl_request_event(struct vipl_conn *conn, struct rdma_cm_event *event)
{
	VIP_RETURN result;

	if (conn->finished)
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (rdma_resolve_route(conn->id, RESOLVE_TIME))
			vipl_conn_fail(conn, VIP_NOT_REACHABLE);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		result = send_request(conn);
		if (result == VIP_NO_MATCH)
			nobody_there(conn);
		else if (result)
			vipl_conn_fail(conn, result);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE: answered(conn, event); break;
	case RDMA_CM_EVENT_ESTABLISHED: established(conn, event); break;
	case RDMA_CM_EVENT_REJECTED: rejected(conn, event); break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE: unanswered(conn, event); break;
	default: vipl_conn_fail(conn, VIP_NOT_REACHABLE);
	}
}

VIP_RETURN vipl_request_addresses(struct vipl_nic *nic, const VIP_NET_ADDRESS *local,
				  const VIP_NET_ADDRESS *remote, struct vipl_conn *conn)
{
	if (vipl_address_read(local, &conn->local) || vipl_address_read(remote, &conn->remote))
		return VIP_INVALID_PARAMETER;
	return VIP_SUCCESS;
}

static VIP_RETURN request(struct vipl_vi *vi, const VIP_NET_ADDRESS *local,
			  const VIP_NET_ADDRESS *remote, VIP_ULONG timeout,
			  VIP_VI_ATTRIBUTES *attributes)
{
	struct vipl_deadline deadline = vipl_deadline(timeout);
	struct vipl_nic *nic = vi->nic;
	struct vipl_conn *conn;
	VIP_RETURN result;

	result = vipl_transition(vi->state, VIPL_CONNECT).result;
	if (result)
		return result;
	vipl_conn_forget(vi);
	conn = vipl_conn_create(nic, VIPL_CONN_REQUEST);
	if (!conn)
		return VIP_ERROR_RESOURCE;
	result = vipl_request_addresses(nic, local, remote, conn);
	if (result || vipl_helper_start(nic) || vipl_nic_sleep(nic)) {
		vipl_conn_free(conn, false);
		return result ? result : VIP_ERROR_RESOURCE;
	}
	conn->vi = vi;
	vi->conn = conn;
	vipl_vi_event(vi, VIPL_CONNECT);
	result = vipl_request_start(conn);
	if (result)
		vipl_conn_fail(conn, result);
	result = vipl_conn_await(conn, &deadline, attributes);
	vipl_nic_awake(nic);
	return result;
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE handle, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote,
			     VIP_ULONG timeout, VIP_VI_ATTRIBUTES *attributes)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	VIP_RETURN result = VIP_INVALID_PARAMETER;
	struct vipl_nic *nic;

	if (!vi || !local || !remote || !timeout || !attributes)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	if (vi->handle == handle)
		result = request(vi, local, remote, timeout, attributes);
	vipl_nic_unlock(nic);
	return result;
}

/* The state before the work: what is posted from now on is not processed. */
VIP_RETURN VipDisconnect(VIP_VI_HANDLE handle)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	struct vipl_conn *conn;
	struct vipl_nic *nic;

	if (!vi)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	if (vi->handle != handle) {
		vipl_nic_unlock(nic);
		return VIP_INVALID_PARAMETER;
	}
	conn = vi->conn;
	if (conn && !conn->finished) {
		vipl_conn_fail(conn, VIP_INVALID_STATE);
	} else if (conn) {
		vipl_qp_settle(vi);
		vipl_conn_hang_up(conn);
	}
	vipl_vi_event(vi, VIPL_DISCONNECT);
	vipl_qp_finish(vi);
	if (vi->conn)
		vipl_conn_free(vi->conn, true);
	vipl_nic_unlock(nic);
	return VIP_SUCCESS;
}

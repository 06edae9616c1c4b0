// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipConnectPeerRequest, PeerDone, PeerWait (cm.h). Both peers listen and both request. Of two that
 * match, the request with the larger nonce is accepted; the other one is refused with the advice to
 * wait for it. Everything with the NIC's lock.
 */
#include <string.h>
#include <sys/random.h>

#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"

#define FIRST_RETRY 5 /* milliseconds; doubled each time */
#define LAST_RETRY  160

void vipl_peer_again(struct vipl_conn *conn, bool soon)
{
	VIP_ULONG delay = FIRST_RETRY << conn->retries;

	if (delay < LAST_RETRY)
		conn->retries++;
	conn->retrying = true;
	conn->retry = vipl_deadline(soon ? 0 : delay);
	vipl_helper_at(conn->nic, &conn->retry);
}

/* With the QP, which a peer may have been told of and not only the kernel. */
static void give_up(struct vipl_conn *conn)
{
	vipl_conn_give_up(conn);
	vipl_qp_destroy(conn->vi);
	conn->accepting = false;
}

void vipl_peer_refused(struct vipl_conn *conn, const struct vipl_message *message)
{
	if (message && message->reason == VIPL_MISMATCHED) {
		vipl_conn_fail(conn, message->result);
		return;
	}
	/* The other one's request is to come; if it does not, ours is tried again. */
	give_up(conn);
	vipl_peer_again(conn, false);
}

static void accept_peer(struct vipl_conn *conn, struct rdma_cm_id *id,
			const struct vipl_message *message, const struct rdma_conn_param *param)
{
	give_up(conn);
	conn->id = id;
	conn->accepting = true;
	conn->message = *message;
	id->context = conn;
	if (conn->responder_resources > param->responder_resources)
		conn->responder_resources = param->responder_resources;
	if (conn->initiator_depth > param->initiator_depth)
		conn->initiator_depth = param->initiator_depth;
	switch (vipl_accept_start(conn, conn->vi)) {
	case VIP_SUCCESS: break;
	case VIP_TIMEOUT: vipl_peer_refused(conn, NULL); break;
	default: vipl_conn_fail(conn, VIP_ERROR_RESOURCE);
	}
}

/* Whether a peer's request is for this one, which is still open. */
static bool matches(const struct vipl_conn *conn, const struct vipl_listener *listener,
		    const struct vipl_message *message, const uint8_t host[VIPL_HOST_LENGTH])
{
	return conn->kind == VIPL_CONN_PEER && !conn->finished && !conn->accepting &&
	       conn->listener == listener && conn->nonce != message->nonce &&
	       !memcmp(conn->remote.host, host, VIPL_HOST_LENGTH) &&
	       conn->remote.length == message->from_length &&
	       !memcmp(conn->remote.discriminator, message->from, message->from_length);
}

bool vipl_peer_request(struct vipl_listener *listener, struct rdma_cm_id *id,
		       const struct vipl_message *message, const uint8_t host[VIPL_HOST_LENGTH],
		       const struct rdma_conn_param *param)
{
	struct vipl_nic *nic = listener->nic;
	struct vipl_conn *conn;
	VIP_RETURN mismatch;

	LIST_FOREACH(conn, &nic->conns, link)
	{
		if (matches(conn, listener, message, host))
			break;
	}
	if (!conn)
		return false;
	mismatch = vipl_accept_compare(message, &conn->vi->attributes);
	if (!mismatch && message->nonce > conn->nonce) {
		accept_peer(conn, id, message, param);
		return true;
	}
	vipl_cm_refuse(id, mismatch ? VIPL_MISMATCHED : VIPL_YIELD, mismatch);
	vipl_cm_discard(nic, id, false);
	if (mismatch)
		vipl_conn_fail(conn, mismatch);
	else if (conn->retrying)
		vipl_peer_again(conn, true); /* it listens: our turn */
	return true;
}

static VIP_RETURN request(struct vipl_vi *vi, const VIP_NET_ADDRESS *local,
			  const VIP_NET_ADDRESS *remote, VIP_ULONG timeout)
{
	VIP_RETURN result = vipl_transition(vi->state, VIPL_CONNECT).result;
	struct vipl_nic *nic = vi->nic;
	struct vipl_conn *conn;

	if (result)
		return result;
	vipl_conn_forget(vi);
	conn = vipl_conn_create(nic, VIPL_CONN_PEER);
	if (!conn)
		return VIP_ERROR_RESOURCE;
	result = vipl_request_addresses(nic, local, remote, conn);
	if (!result && (nic->closing || vipl_helper_start(nic) ||
			getrandom(&conn->nonce, sizeof(conn->nonce), 0) < 0))
		result = VIP_ERROR_RESOURCE;
	if (!result)
		result = vipl_listener_get(nic, &conn->local, &conn->listener);
	if (result) {
		vipl_conn_free(conn, false);
		return result;
	}
	conn->deadline = vipl_deadline(timeout);
	conn->vi = vi;
	vi->conn = conn;
	vipl_vi_event(vi, VIPL_CONNECT);
	vipl_peer_again(conn, true);
	return VIP_SUCCESS;
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE handle, VIP_NET_ADDRESS *local,
				 VIP_NET_ADDRESS *remote, VIP_ULONG timeout)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	VIP_RETURN result = VIP_INVALID_PARAMETER;
	struct vipl_nic *nic;

	if (!vi || !local || !remote || !timeout)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	if (vi->handle == handle)
		result = request(vi, local, remote, timeout);
	vipl_nic_unlock(nic);
	return result;
}

/* The result of a request that has one; then it can be told once. */
static VIP_RETURN take_result(struct vipl_vi *vi, VIP_VI_ATTRIBUTES *attributes)
{
	struct vipl_conn *conn = vi->conn;
	VIP_RETURN result;

	if (!conn || conn->kind != VIPL_CONN_PEER)
		return VIP_INVALID_STATE;
	if (!conn->finished)
		return VIP_NOT_DONE;
	result = conn->result;
	if (result) {
		vipl_conn_free(conn, false);
		return result;
	}
	conn->kind = VIPL_CONN_REQUEST;
	vipl_message_to_attributes(&conn->message, attributes);
	return VIP_SUCCESS;
}

static VIP_RETURN peer_result(VIP_VI_HANDLE handle, VIP_VI_ATTRIBUTES *attributes, bool wait)
{
	static const struct vipl_deadline forever = {.infinite = true};
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	VIP_RETURN result = VIP_INVALID_PARAMETER;
	struct vipl_nic *nic;

	if (!vi || !attributes)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	if (wait && vipl_nic_sleep(nic)) {
		vipl_nic_unlock(nic);
		return VIP_INVALID_PARAMETER;
	}
	while (vi->handle == handle) {
		result = take_result(vi, attributes);
		if (!wait || result != VIP_NOT_DONE)
			break;
		vipl_cm_wait(nic, &nic->peers, &forever);
	}
	if (wait)
		vipl_nic_awake(nic);
	vipl_nic_unlock(nic);
	return result;
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE handle, VIP_VI_ATTRIBUTES *attributes)
{
	return peer_result(handle, attributes, false);
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE handle, VIP_VI_ATTRIBUTES *attributes)
{
	return peer_result(handle, attributes, true);
}

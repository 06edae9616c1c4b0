// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where a NIC handle listens, and VipConnectWait (cm.h; source, 2.3). A listener has one address;
 * it is there while a thread waits at it, and a moment longer for the next one. Other
 * handles and processes with the same address, or one whose discriminator has the same first port,
 * listen at the next ports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"

#define BACKLOG	   128
#define UNUSED_FOR 100 /* milliseconds that a listener is kept */

static VIP_RETURN listen_at(struct vipl_listener *listener, unsigned probe)
{
	const struct vipl_address *address = &listener->address;
	struct vipl_nic *nic = listener->nic;
	VIP_RETURN result;

	if (rdma_create_id(nic->cm_channel, &listener->id, listener, RDMA_PS_TCP))
		return VIP_ERROR_RESOURCE;
	result = vipl_bind(nic, listener->id, address,
			   vipl_port(address->discriminator, address->length, probe));
	if (!result && rdma_listen(listener->id, BACKLOG))
		result = errno == EADDRINUSE ? VIP_NOT_DONE : VIP_ERROR_RESOURCE;
	if (result)
		rdma_destroy_id(listener->id);
	return result;
}

static VIP_RETURN create(struct vipl_nic *nic, const struct vipl_address *address,
			 struct vipl_listener **created)
{
	struct vipl_listener *listener = calloc(1, sizeof(*listener));
	VIP_RETURN result = VIP_NOT_DONE;

	if (!listener)
		return VIP_ERROR_RESOURCE;
	listener->type = VIPL_CM_LISTENER;
	listener->nic = nic;
	listener->address = *address;
	TAILQ_INIT(&listener->waiters);
	for (unsigned probe = 0; probe < VIPL_PROBES && result == VIP_NOT_DONE; probe++)
		result = listen_at(listener, probe);
	if (result) {
		free(listener);
		return result == VIP_NOT_DONE ? VIP_ERROR_RESOURCE : result;
	}
	LIST_INSERT_HEAD(&nic->listeners, listener, link);
	*created = listener;
	return VIP_SUCCESS;
}

VIP_RETURN vipl_listener_get(struct vipl_nic *nic, const struct vipl_address *address,
			     struct vipl_listener **found)
{
	struct vipl_listener *listener;
	VIP_RETURN result;

	LIST_FOREACH(listener, &nic->listeners, link)
	{
		if (vipl_address_equal(&listener->address, address))
			break;
	}
	if (!listener) {
		result = create(nic, address, &listener);
		if (result)
			return result;
	}
	listener->users++;
	*found = listener;
	return VIP_SUCCESS;
}

void vipl_listener_put(struct vipl_listener *listener)
{
	if (--listener->users)
		return;
	listener->unused = vipl_deadline(UNUSED_FOR);
	vipl_helper_at(listener->nic, &listener->unused);
}

void vipl_listener_free(struct vipl_listener *listener)
{
	LIST_REMOVE(listener, link);
	vipl_cm_discard(listener->nic, listener->id, false);
	free(listener);
}

void vipl_listeners_wake(struct vipl_nic *nic)
{
	struct vipl_listen_waiter *waiter;
	struct vipl_listener *listener;

	LIST_FOREACH(listener, &nic->listeners, link)
	{
		TAILQ_FOREACH(waiter, &listener->waiters, link)
		vipl_cm_wake(nic, &waiter->cond);
	}
}

static uint8_t less(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* A request of a client, for the first waiter that has none yet. */
static bool hand_over(struct vipl_listener *listener, struct rdma_cm_id *id,
		      const struct vipl_message *message, const uint8_t host[VIPL_HOST_LENGTH],
		      const struct rdma_conn_param *param)
{
	struct vipl_listen_waiter *waiter;
	struct vipl_conn *conn;

	TAILQ_FOREACH(waiter, &listener->waiters, link)
	{
		if (!waiter->conn)
			break;
	}
	if (!waiter)
		return false;
	conn = vipl_conn_create(listener->nic, VIPL_CONN_INCOMING);
	if (!conn)
		return false;
	conn->handle = vipl_handle_create(VIPL_KIND_CONN, conn);
	if (!conn->handle) {
		vipl_conn_free(conn, false);
		return false;
	}
	conn->id = id;
	conn->accepting = true;
	id->context = conn;
	conn->message = *message;
	conn->local = listener->address;
	memcpy(conn->remote.host, host, VIPL_HOST_LENGTH);
	conn->remote.length = message->from_length;
	memcpy(conn->remote.discriminator, message->from, message->from_length);
	conn->responder_resources = less(conn->responder_resources, param->responder_resources);
	conn->initiator_depth = less(conn->initiator_depth, param->initiator_depth);
	waiter->conn = conn;
	vipl_cm_wake(listener->nic, &waiter->cond);
	return true;
}

void vipl_listener_request(struct vipl_listener *listener, struct rdma_cm_event *event)
{
	const struct rdma_conn_param *param = &event->param.conn;
	const struct vipl_address *address = &listener->address;
	struct rdma_cm_id *id = event->id;
	uint8_t host[VIPL_HOST_LENGTH];
	struct vipl_message message;
	bool taken = false;

	vipl_sockaddr_read(rdma_get_peer_addr(id), host);
	if (!vipl_message_read(param->private_data, param->private_data_len, &message) &&
	    message.to_length == address->length &&
	    !memcmp(message.to, address->discriminator, address->length)) {
		if (message.kind == VIPL_CLIENT)
			taken = hand_over(listener, id, &message, host, param);
		else if (message.kind == VIPL_PEER)
			taken = vipl_peer_request(listener, id, &message, host, param);
	}
	if (taken)
		return;
	vipl_cm_refuse(id, VIPL_NOBODY, VIP_NO_MATCH);
	vipl_cm_discard(listener->nic, id, false);
}

static VIP_RETURN wait_for(struct vipl_nic *nic, const VIP_NET_ADDRESS *local, VIP_ULONG timeout,
			   struct vipl_conn **conn)
{
	struct vipl_deadline deadline = vipl_deadline(timeout);
	struct vipl_listen_waiter waiter = {0};
	struct vipl_listener *listener;
	struct vipl_address address;
	bool late = false;
	VIP_RETURN result;

	if (vipl_address_read(local, &address))
		return VIP_INVALID_PARAMETER;
	if (vipl_helper_start(nic))
		return VIP_ERROR_RESOURCE;
	result = vipl_listener_get(nic, &address, &listener);
	if (result)
		return result;
	vipl_cond_init(&waiter.cond);
	TAILQ_INSERT_TAIL(&listener->waiters, &waiter, link);
	while (!waiter.conn && !late && !nic->closing)
		late = vipl_cm_wait(nic, &waiter.cond, &deadline);
	TAILQ_REMOVE(&listener->waiters, &waiter, link);
	vipl_listener_put(listener);
	pthread_cond_destroy(&waiter.cond);
	*conn = waiter.conn;
	return waiter.conn ? VIP_SUCCESS : late ? VIP_TIMEOUT : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE handle, VIP_NET_ADDRESS *local, VIP_ULONG timeout,
			  VIP_NET_ADDRESS *remote, VIP_VI_ATTRIBUTES *attributes,
			  VIP_CONN_HANDLE *conn_handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);
	struct vipl_conn *conn;
	VIP_RETURN result;

	if (!nic || !local || !remote || !attributes || !conn_handle)
		return VIP_INVALID_PARAMETER;
	*conn_handle = NULL;
	vipl_nic_lock(nic);
	if (vipl_nic_sleep(nic)) {
		vipl_nic_unlock(nic);
		return VIP_INVALID_PARAMETER;
	}
	result = wait_for(nic, local, timeout, &conn);
	if (!result) {
		*conn_handle = conn->handle;
		vipl_address_write(&conn->remote, remote);
		vipl_message_to_attributes(&conn->message, attributes);
	}
	vipl_nic_awake(nic);
	vipl_nic_unlock(nic);
	return result;
}

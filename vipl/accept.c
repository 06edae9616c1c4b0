// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* VipConnectAccept, VipConnectReject (cm.h; source, 2.3). Everything with the NIC's lock. */
#include <errno.h>

#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"

#define CONFIRM_TIME 20000 /* milliseconds for the last word of the other side */

VIP_RETURN vipl_accept_compare(const struct vipl_message *message, const VIP_VI_ATTRIBUTES *own)
{
	if (message->level != own->ReliabilityLevel)
		return VIP_INVALID_RELIABILITY_LEVEL;
	if (message->transfer_size != own->MaxTransferSize)
		return VIP_INVALID_MTU;
	return VIP_SUCCESS;
}

static int start(struct vipl_conn *conn, struct vipl_vi *vi)
{
	struct vipl_message message = {.kind = VIPL_ACCEPT};
	uint8_t buffer[VIPL_MESSAGE_MAX];
	struct rdma_conn_param param;
	size_t length;
	int ret;

	ret = vipl_qp_prepare(vi, conn->id);
	if (!ret && !conn->nic->iwarp)
		ret = vipl_qp_connect(vi, conn->id);
	if (ret)
		return ret;
	vipl_message_from_attributes(&message, &vi->attributes);
	length = vipl_message_write(&message, buffer);
	param = vipl_conn_param(conn, buffer, length);
	return rdma_accept(conn->id, &param) ? -errno : 0;
}

VIP_RETURN vipl_accept_start(struct vipl_conn *conn, struct vipl_vi *vi)
{
	int ret = start(conn, vi);

	if (!ret)
		return VIP_SUCCESS;
	rdma_reject(conn->id, NULL, 0);
	/* The id says so before its event comes: the requester has given up. */
	return ret == -EINVAL || ret == -ENOTCONN || ret == -ECONNRESET ? VIP_TIMEOUT
									: VIP_ERROR_RESOURCE;
}

/* The handle is the connection's no more, whatever becomes of it. */
static void take_handle(struct vipl_conn *conn)
{
	vipl_handle_destroy(conn->handle);
	conn->handle = NULL;
}

static VIP_RETURN accept_with(struct vipl_conn *conn, struct vipl_vi *vi)
{
	struct vipl_deadline deadline = vipl_deadline(CONFIRM_TIME);
	struct vipl_nic *nic = conn->nic;
	VIP_RETURN result;

	result = vipl_transition(vi->state, VIPL_CONNECT).result;
	if (!result)
		result = vipl_accept_compare(&conn->message, &vi->attributes);
	if (result)
		return result;
	if (vipl_nic_sleep(nic))
		return VIP_INVALID_PARAMETER;
	take_handle(conn);
	vipl_conn_forget(vi);
	conn->vi = vi;
	vi->conn = conn;
	vipl_vi_event(vi, VIPL_CONNECT);
	if (conn->finished) {
		vipl_vi_event(vi, VIPL_FAILED);
	} else {
		result = vipl_accept_start(conn, vi);
		if (result)
			vipl_conn_fail(conn, result);
	}
	result = vipl_conn_await(conn, &deadline, NULL);
	vipl_nic_awake(nic);
	return result;
}

/* The connection behind a handle, with the lock of its NIC. */
static struct vipl_conn *find(VIP_CONN_HANDLE handle)
{
	struct vipl_conn *conn = vipl_handle_lookup(handle, VIPL_KIND_CONN);
	struct vipl_nic *nic;

	if (!conn)
		return NULL;
	nic = conn->nic;
	vipl_nic_lock(nic);
	if (conn->handle == handle && conn->nic == nic)
		return conn;
	vipl_nic_unlock(nic);
	return NULL;
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE conn_handle, VIP_VI_HANDLE vi_handle)
{
	struct vipl_vi *vi = vipl_handle_lookup(vi_handle, VIPL_KIND_VI);
	struct vipl_conn *conn = vi ? find(conn_handle) : NULL;
	VIP_RETURN result = VIP_INVALID_PARAMETER;
	struct vipl_nic *nic;

	if (!conn)
		return VIP_INVALID_PARAMETER;
	nic = conn->nic;
	if (vi->nic == nic && vi->handle == vi_handle)
		result = accept_with(conn, vi);
	vipl_nic_unlock(nic);
	return result;
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE handle)
{
	struct vipl_conn *conn = find(handle);
	struct vipl_nic *nic;

	if (!conn)
		return VIP_INVALID_PARAMETER;
	nic = conn->nic;
	if (conn->id)
		vipl_cm_refuse(conn->id, VIPL_REJECTED, VIP_REJECT);
	vipl_conn_free(conn, false);
	vipl_nic_unlock(nic);
	return VIP_SUCCESS;
}

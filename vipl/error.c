// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * VipErrorCallback: errors that no call can return. They wait in a list, under error_lock, until
 * the helper thread hands them to the program's handler, or writes them to stderr where there is
 * none.
 */
#include <stdio.h>
#include <stdlib.h>

#include "vipl/helper.h"
#include "vipl/nic.h"

#define ERRORS_MAX \
	1024 /* that wait; a program that posts garbage in a loop does not fill the memory */

struct vipl_error {
	TAILQ_ENTRY(vipl_error) link;
	VIP_ERROR_DESCRIPTOR descriptor;
};

void vipl_report(struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *descriptor)
{
	struct vipl_error *error = malloc(sizeof(*error));

	if (!error)
		return;
	error->descriptor = *descriptor;
	pthread_mutex_lock(&nic->error_lock);
	if (nic->error_count < ERRORS_MAX) {
		TAILQ_INSERT_TAIL(&nic->errors, error, link);
		nic->error_count++;
		error = NULL;
	}
	pthread_mutex_unlock(&nic->error_lock);
	free(error);
	if (!vipl_helper_start(nic))
		vipl_helper_kick(nic);
}

void vipl_report_vi(struct vipl_vi *vi, VIP_ERROR_CODE code, VIP_DESCRIPTOR *descriptor,
		    unsigned control)
{
	VIP_ERROR_DESCRIPTOR error = {
		.NicHandle = vi->nic->handle,
		.ViHandle = vi->handle,
		.DescriptorPtr = descriptor,
		.OpCode = control,
		.ResourceCode = descriptor ? VIP_RESOURCE_DESCRIPTOR : VIP_RESOURCE_VI,
		.ErrorCode = code,
	};

	vipl_report(vi->nic, &error);
}

static void log_error(const struct vipl_nic *nic, const VIP_ERROR_DESCRIPTOR *error)
{
	static const char *const texts[] = {
		[VIP_ERROR_POST_DESC] =
			"a descriptor is not aligned, or not in memory of its handle",
		[VIP_ERROR_CONN_LOST] = "a connection is lost",
		[VIP_ERROR_RECVQ_EMPTY] = "a message found no receive descriptor",
		[VIP_ERROR_VI_OVERRUN] = "more descriptors were posted than a queue may have",
		[VIP_ERROR_RDMAW_PROT] = "an RDMA write of the peer was refused",
		[VIP_ERROR_RDMAR_PROT] = "an RDMA read of the peer was refused",
		[VIP_ERROR_RDMA_TRANSPORT] = "an RDMA operation of the peer failed",
		[VIP_ERROR_CATASTROPHIC] = "the device or a completion queue has failed",
	};
	const char *text = NULL;

	if ((unsigned)error->ErrorCode < sizeof(texts) / sizeof(*texts))
		text = texts[error->ErrorCode];
	fprintf(stderr, "libvipl: %s: %s (error %d, VI %p, descriptor %p)\n", nic->device.name,
		text ? text : "an asynchronous error", error->ErrorCode, error->ViHandle,
		(void *)error->DescriptorPtr);
}

void vipl_errors_deliver(struct vipl_nic *nic)
{
	VIP_ERROR_HANDLER handler;
	struct vipl_error *error;
	void *context;

	while (true) {
		pthread_mutex_lock(&nic->error_lock);
		error = TAILQ_FIRST(&nic->errors);
		if (error) {
			TAILQ_REMOVE(&nic->errors, error, link);
			nic->error_count--;
		}
		handler = nic->error_handler;
		context = nic->error_context;
		pthread_mutex_unlock(&nic->error_lock);
		if (!error)
			return;
		if (handler)
			handler(context, &error->descriptor);
		else
			log_error(nic, &error->descriptor);
		free(error);
	}
}

void vipl_errors_discard(struct vipl_nic *nic)
{
	struct vipl_error *error;

	while ((error = TAILQ_FIRST(&nic->errors))) {
		TAILQ_REMOVE(&nic->errors, error, link);
		free(error);
	}
}

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE handle, VIP_PVOID context, VIP_ERROR_HANDLER handler)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);

	if (!nic)
		return VIP_INVALID_PARAMETER;
	pthread_mutex_lock(&nic->error_lock);
	nic->error_handler = handler;
	nic->error_context = context;
	pthread_mutex_unlock(&nic->error_lock);
	return VIP_SUCCESS;
}

/* Autodiscovery is the only management function that the interface names; verbs knows nothing of
 * the kind. */
VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE handle, VIP_ULONG type, VIP_PVOID info)
{
	return vipl_nic_lookup(handle) && info ? VIP_ERROR_NOT_SUPPORTED : VIP_INVALID_PARAMETER;
}

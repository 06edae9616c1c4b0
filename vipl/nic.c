// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* VipOpenNic, VipCloseNic, VipQueryNic (nic.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vipl/cm.h"
#include "vipl/handle.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/object.h"
#include "vipl/wait.h"

#define PROVIDER_VERSION 0x00010000 /* of this library: 1.0 */
#define MIN_CQ_ENTRIES	 1024

void vipl_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

bool vipl_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
		    const struct vipl_deadline *deadline)
{
	if (!deadline->infinite)
		return pthread_cond_timedwait(cond, lock, &deadline->at) == ETIMEDOUT;
	pthread_cond_wait(cond, lock);
	return false;
}

int vipl_nic_sleep(struct vipl_nic *nic)
{
	if (nic->closing)
		return -ECANCELED;
	nic->sleepers++;
	return 0;
}

void vipl_nic_awake(struct vipl_nic *nic)
{
	vipl_cm_leave(nic);
	nic->sleepers--;
	if (nic->closing)
		pthread_cond_broadcast(&nic->awake);
}

static int open_context(struct vipl_nic *nic)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	int ret = -ENODEV;

	for (int i = 0; devices && devices[i]; i++) {
		if (strcmp(ibv_get_device_name(devices[i]), nic->device.name))
			continue;
		nic->iwarp = devices[i]->transport_type == IBV_TRANSPORT_IWARP;
		nic->context = ibv_open_device(devices[i]);
		ret = nic->context ? 0 : -errno;
		break;
	}
	if (devices)
		ibv_free_device_list(devices);
	return ret;
}

static unsigned at_most(unsigned value, unsigned limit)
{
	return value < limit ? value : limit;
}

static int read_limits(struct vipl_nic *nic)
{
	int ret = ibv_query_device(nic->context, &nic->limits);
	unsigned sge;

	if (ret)
		return -ret;
	/* On iWARP one element is for the header. */
	sge = at_most(nic->limits.max_sge, VIPL_MAX_SGE + nic->iwarp) - nic->iwarp;
	if (!sge || nic->limits.max_qp_wr < VIPL_DEPTH + VIPL_EXTRA_WRS)
		return -ENOTSUP;
	nic->send_sge = sge;
	nic->recv_sge = sge;
	nic->read_sge = at_most(nic->limits.max_sge_rd ? nic->limits.max_sge_rd : 1, sge);
	return 0;
}

/* Descriptors that do not block, and that a child that executes something else does not get. */
static int open_files(struct vipl_nic *nic)
{
	nic->helper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	nic->leader_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (nic->helper_fd < 0 || nic->leader_fd < 0)
		return -errno;
	nic->channel = ibv_create_comp_channel(nic->context);
	if (!nic->channel || fcntl(nic->channel->fd, F_SETFL, O_NONBLOCK) ||
	    fcntl(nic->context->async_fd, F_SETFL, O_NONBLOCK))
		return -errno;
	return vipl_cm_open(nic);
}

static void close_files(struct vipl_nic *nic)
{
	if (nic->channel)
		ibv_destroy_comp_channel(nic->channel);
	vipl_cm_close(nic);
	if (nic->helper_fd >= 0)
		close(nic->helper_fd);
	if (nic->leader_fd >= 0)
		close(nic->leader_fd);
	if (nic->context)
		ibv_close_device(nic->context);
	nic->channel = NULL;
	nic->context = NULL;
}

static void init(struct vipl_nic *nic)
{
	pthread_mutexattr_t attr;

	memset(nic, 0, sizeof(*nic));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&nic->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_mutex_init(&nic->wait_lock, NULL);
	pthread_mutex_init(&nic->error_lock, NULL);
	vipl_cond_init(&nic->asleep);
	vipl_cond_init(&nic->awake);
	vipl_cond_init(&nic->peers);
	TAILQ_INIT(&nic->waiters);
	TAILQ_INIT(&nic->errors);
	nic->helper_fd = -1;
	nic->leader_fd = -1;
	nic->taker_fd = -1;
	nic->cm_watch = -1;
	nic->cm_timer = -1;
}

static int set_up(struct vipl_nic *nic, const char *name)
{
	int ret = vipl_device_find(name, &nic->device);

	if (!ret)
		ret = open_context(nic);
	if (!ret)
		ret = read_limits(nic);
	if (!ret)
		ret = open_files(nic);
	if (!ret)
		ret = vipl_memory_init(nic);
	if (ret)
		return ret;
	nic->handle = vipl_handle_create(VIPL_KIND_NIC, nic);
	return nic->handle ? 0 : -ENOSPC;
}

VIP_RETURN VipOpenNic(const VIP_CHAR *name, VIP_NIC_HANDLE *handle)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct vipl_nic *nic;

	if (!name || !handle)
		return VIP_INVALID_PARAMETER;
	*handle = NULL;
	pthread_once(&once, owned_lock_init);
	nic = vipl_object_get(VIPL_KIND_NIC, sizeof(*nic));
	if (!nic)
		return VIP_ERROR_RESOURCE;
	init(nic);
	if (set_up(nic, name)) {
		vipl_memory_fini(nic);
		close_files(nic);
		vipl_object_put(VIPL_KIND_NIC, nic);
		return VIP_ERROR_RESOURCE;
	}
	*handle = nic->handle;
	return VIP_SUCCESS;
}

/* Threads that wait for something of this NIC return. */
static void send_home(struct vipl_nic *nic)
{
	struct vipl_conn *conn;

	vipl_nic_lock(nic);
	nic->closing = true;
	LIST_FOREACH(conn, &nic->conns, link)
	vipl_conn_finish(conn, VIP_INVALID_PARAMETER);
	vipl_listeners_wake(nic);
	while (nic->sleepers)
		pthread_cond_wait(&nic->awake, &nic->lock);
	vipl_nic_unlock(nic);

	pthread_mutex_lock(&nic->wait_lock);
	nic->stop = true;
	pthread_mutex_unlock(&nic->wait_lock);
	vipl_wake(nic, NULL);
	pthread_mutex_lock(&nic->wait_lock);
	while (!TAILQ_EMPTY(&nic->waiters))
		pthread_cond_wait(&nic->asleep, &nic->wait_lock);
	pthread_mutex_unlock(&nic->wait_lock);
}

static void free_objects(struct vipl_nic *nic)
{
	struct vipl_vi *vi;
	struct vipl_cq *cq;

	vipl_nic_lock(nic);
	while ((vi = LIST_FIRST(&nic->vis)))
		vipl_vi_free(vi);
	while ((cq = LIST_FIRST(&nic->cqs)))
		vipl_cq_free(cq);
	vipl_nic_unlock(nic);
}

void vipl_nic_free(struct vipl_nic *nic)
{
	free_objects(nic);
	vipl_cm_fini(nic);
	vipl_memory_fini(nic);
	vipl_errors_discard(nic);
	close_files(nic);
	vipl_object_put(VIPL_KIND_NIC, nic);
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);
	bool again;

	if (!nic)
		return VIP_INVALID_PARAMETER;
	vipl_nic_lock(nic);
	again = nic->closing || nic->handle != handle;
	nic->closing = true;
	vipl_nic_unlock(nic);
	if (again)
		return VIP_INVALID_PARAMETER;
	vipl_handle_destroy(handle);
	send_home(nic);
	vipl_cm_disconnect_all(nic);
	if (!vipl_helper_stop(nic))
		vipl_nic_free(nic);
	return VIP_SUCCESS;
}

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE handle, VIP_NIC_ATTRIBUTES *attributes)
{
	struct vipl_nic *nic = vipl_nic_lookup(handle);
	struct ibv_port_attr port;
	const struct ibv_device_attr *limits;

	if (!nic || !attributes)
		return VIP_INVALID_PARAMETER;
	limits = &nic->limits;
	memset(attributes, 0, sizeof(*attributes));
	memcpy(attributes->Name, nic->device.name, sizeof(attributes->Name));
	attributes->HardwareVersion = limits->hw_ver;
	attributes->ProviderVersion = PROVIDER_VERSION;
	attributes->NicAddressLen = VIPL_HOST_LENGTH;
	attributes->LocalNicAddress = nic->device.address;
	attributes->ThreadSafe = VIP_TRUE;
	attributes->MaxDiscriminatorLen = VIPL_DISCRIMINATOR_MAX;
	attributes->MaxRegisterBytes = limits->max_mr_size;
	attributes->MaxRegisterRegions = limits->max_mr;
	attributes->MaxRegisterBlockBytes = limits->max_mr_size;
	attributes->MaxVI = at_most(limits->max_qp, VIPL_HANDLES / 2);
	attributes->MaxDescriptorsPerQueue = VIPL_DEPTH;
	attributes->MaxSegmentsPerDesc = VIPL_MAX_SEGMENTS;
	attributes->MaxCQ = at_most(limits->max_cq, VIPL_HANDLES / 4);
	attributes->MaxCQEntries = limits->max_cqe;
	attributes->MaxTransferSize = VIPL_TRANSFER_MAX;
	attributes->NativeMTU = 1024;
	if (!ibv_query_port(nic->context, nic->device.port, &port))
		attributes->NativeMTU = 128ul << port.active_mtu;
	attributes->MaxPtags = at_most(limits->max_pd, VIPL_HANDLES / 4);
	attributes->ReliabilityLevelSupport = vipl_nic_levels(nic);
	attributes->RDMAReadSupport = vipl_nic_read_levels(nic);
	return VIP_SUCCESS;
}

VIP_RELIABILITY_LEVEL vipl_nic_levels(const struct vipl_nic *nic)
{
	VIP_RELIABILITY_LEVEL reliable =
		VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION;

	/* iWARP has no unreliable connections. */
	return nic->iwarp ? reliable : reliable | VIP_SERVICE_UNRELIABLE;
}

VIP_RELIABILITY_LEVEL vipl_nic_read_levels(const struct vipl_nic *nic)
{
	if (nic->limits.max_qp_rd_atom < 1 || nic->limits.max_qp_init_rd_atom < 1)
		return 0;
	return VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION;
}

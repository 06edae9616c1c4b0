// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The helper thread (helper.h). What says whether there is one is guarded by wait_lock. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "common/own_thread.h"
#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"

void vipl_helper_kick(struct vipl_nic *nic)
{
	vipl_ring(nic->helper_fd);
}

void vipl_helper_at(struct vipl_nic *nic, const struct vipl_deadline *when)
{
	if (vipl_deadline_before(when, &nic->helper_due))
		vipl_helper_kick(nic);
}

/* The VI that has the QP of that number, with the NIC's lock. */
static struct vipl_vi *vi_of(struct vipl_nic *nic, const void *number)
{
	struct vipl_vi *vi;

	LIST_FOREACH(vi, &nic->vis, link)
	{
		if (vi->qp && vi->qp->qp_context == number)
			break;
	}
	return vi;
}

/* What the device refused a peer breaks the connection, and nobody but this event says so. */
static void qp_failed(struct vipl_nic *nic, const void *number, VIP_ERROR_CODE code)
{
	struct vipl_vi *vi = vi_of(nic, number);

	if (!vi || vi->state != VIP_STATE_CONNECTED)
		return;
	if (code != VIP_ERROR_CONN_LOST)
		vipl_report_vi(vi, code, NULL, 0);
	vipl_vi_break_locked(vi, VIPL_ERROR, VIP_ERROR_CONN_LOST);
}

static void device_failed(struct vipl_nic *nic)
{
	VIP_ERROR_DESCRIPTOR error = {.NicHandle = nic->handle,
				      .ResourceCode = VIP_RESOURCE_NIC,
				      .ErrorCode = VIP_ERROR_CATASTROPHIC};
	struct vipl_vi *vi;

	vipl_report(nic, &error);
	LIST_FOREACH(vi, &nic->vis, link)
	vipl_vi_break_locked(vi, VIPL_NIC_FAILED, VIP_ERROR_CONN_LOST);
}

static void async_event(struct vipl_nic *nic, enum ibv_event_type type, const void *number)
{
	switch (type) {
	case IBV_EVENT_QP_ACCESS_ERR: qp_failed(nic, number, VIP_ERROR_RDMAW_PROT); break;
	case IBV_EVENT_QP_REQ_ERR: qp_failed(nic, number, VIP_ERROR_RDMA_TRANSPORT); break;
	case IBV_EVENT_QP_FATAL: qp_failed(nic, number, VIP_ERROR_CONN_LOST); break;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL: device_failed(nic); break;
	default: break;
	}
}

static bool is_of_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_FATAL;
}

/*
 * Who destroys a QP has the NIC's lock, and waits until its events have been acknowledged: they are
 * before the lock is taken, and the QP may be gone then.
 */
static void take_async_events(struct vipl_nic *nic)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(nic->context, &event)) {
		const void *number = NULL;

		if (is_of_qp(event.event_type))
			number = event.element.qp->qp_context;
		ibv_ack_async_event(&event);
		vipl_nic_lock(nic);
		async_event(nic, event.event_type, number);
		vipl_nic_unlock(nic);
	}
}

/* Whether handlers of Notify wait: only then are the events of completions the helper's business.
 * */
static bool has_notices(struct vipl_nic *nic)
{
	bool any;

	pthread_mutex_lock(&nic->wait_lock);
	any = !LIST_EMPTY(&nic->served);
	pthread_mutex_unlock(&nic->wait_lock);
	return any;
}

static bool is_stopped(struct vipl_nic *nic)
{
	bool stopped;

	pthread_mutex_lock(&nic->wait_lock);
	stopped = !nic->helping;
	pthread_mutex_unlock(&nic->wait_lock);
	return stopped;
}

/* True: for an event of a connection, among other things. */
static bool sleep_until_needed(struct vipl_nic *nic, int timeout)
{
	struct pollfd fds[] = {{.fd = nic->helper_fd, .events = POLLIN},
			       {.fd = nic->cm_watch, .events = POLLIN},
			       {.fd = nic->context->async_fd, .events = POLLIN},
			       {.fd = nic->channel->fd, .events = POLLIN}};
	uint64_t count;

	poll(fds, has_notices(nic) ? 4 : 3, timeout);
	if (fds[0].revents && read(nic->helper_fd, &count, sizeof(count)) < 0)
		return false;
	return fds[1].revents;
}

static void *help(void *argument)
{
	struct vipl_nic *nic = argument;
	int timeout = 0;

	while (!is_stopped(nic)) {
		if (sleep_until_needed(nic, timeout))
			vipl_cm_take(nic);
		take_async_events(nic);
		if (has_notices(nic)) {
			vipl_wait_take(nic);
			vipl_notices_serve(nic);
		}
		vipl_errors_deliver(nic);
		timeout = nic->orphan ? 0 : vipl_cm_turn(nic);
	}
	if (nic->orphan)
		vipl_nic_free(nic);
	return NULL;
}

int vipl_helper_start(struct vipl_nic *nic)
{
	int ret = 0;

	pthread_mutex_lock(&nic->wait_lock);
	if (nic->stop) {
		ret = -ECANCELED;
	} else if (!nic->helping) {
		nic->helping = true;
		nic->orphan = false;
		ret = own_thread_start(&nic->helper, help, nic);
		nic->helping = !ret;
	}
	pthread_mutex_unlock(&nic->wait_lock);
	return ret;
}

bool vipl_helper_stop(struct vipl_nic *nic)
{
	bool helping, self;

	pthread_mutex_lock(&nic->wait_lock);
	helping = nic->helping;
	self = helping && pthread_equal(nic->helper, pthread_self());
	nic->helping = false;
	pthread_mutex_unlock(&nic->wait_lock);
	if (self) {
		nic->orphan = true;
		pthread_detach(nic->helper);
		return true;
	}
	if (helping) {
		vipl_helper_kick(nic);
		pthread_join(nic->helper, NULL);
	}
	return false;
}

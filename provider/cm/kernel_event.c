/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Events of the kernel's rdma_cm on their way to the program. The kernel writes them to where the
 * program wants them, so that one which cannot be written stays in its queue; what remains to be
 * done is to name the id by our handle. A connection request brings an id that we do not know yet:
 * it is made before the event is fetched, because an event that was reported cannot be given back.
 *
 * event.c and kernel.c say how this and the eventfd go together. Any thread, without the
 * engine lock.
 */
#include <errno.h>

#include "cm/kernel.h"
#include "hca/adapter.h"
#include "host/user_memory.h"

/* The beginning of struct rdma_ucm_event_resp. */
struct event_head {
	uint64_t uid;
	uint32_t id;
	uint32_t event;
};

_Static_assert(offsetof(struct rdma_ucm_event_resp, event) == offsetof(struct event_head, event),
	       "ABI");

static int need_spare(struct urxe_ucma *file)
{
	int ret = 0;

	urxe_engine_lock();
	if (!file->spare)
		ret = urxe_id_create(file, RDMA_PS_TCP, 0, 0, &file->spare);
	if (!ret)
		file->spare->state = URXE_ID_FOREIGN;
	urxe_engine_unlock();
	return ret;
}

static uint32_t our_handle(struct urxe_ucma *file, const struct event_head *head)
{
	struct urxe_id *id = file->spare;

	switch (head->event) {
	case URXE_EVENT_CONNECT_REQUEST:
		if (!id)
			return UINT32_MAX;
		file->spare = NULL;
		urxe_twin_set(&id->twin, URXE_HANDLE_ID, head->id, id->handle);
		return id->handle;
	case URXE_EVENT_MULTICAST_JOIN:
	case URXE_EVENT_MULTICAST_ERROR: return urxe_twin_find(URXE_HANDLE_MCAST, head->id);
	default: return urxe_twin_find(URXE_HANDLE_ID, head->id);
	}
}

/* Has the kernel write its next event, and puts our handle into it. */
static int fetch(struct urxe_ucma *file, uint64_t response, uint16_t out)
{
	struct rdma_ucm_get_event cmd = {.response = response};
	struct event_head head;
	int ret;

	pthread_mutex_lock(&file->fetching);
	ret = need_spare(file)
		      ?: urxe_kernel_command(file, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), out)
		      ?: urxe_user_read(&head, response, sizeof(head));
	if (!ret) {
		urxe_engine_lock();
		head.id = our_handle(file, &head);
		urxe_engine_unlock();
		ret = urxe_user_write(response, &head, sizeof(head));
	}
	pthread_mutex_unlock(&file->fetching);
	return ret;
}

int urxe_kernel_get_event(struct urxe_ucma *file, uint64_t response, uint16_t out)
{
	int old, ret;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	ret = fetch(file, response, out);
	/* The kernel may have resolved an address before its command returned. */
	if (!ret)
		urxe_kernel_settle();
	urxe_engine_lock();
	if (!ret || ret == -EAGAIN)
		file->fired = false;
	urxe_ucma_tell(file);
	urxe_engine_unlock();
	urxe_kernel_watch(file);
	pthread_setcancelstate(old, NULL);
	if (ret == -EAGAIN)
		return 0;
	return ret ? ret : 1;
}

void urxe_kernel_events_gone(struct urxe_ucma *file)
{
	urxe_engine_lock();
	file->fired = false;
	urxe_ucma_tell(file);
	urxe_engine_unlock();
	urxe_kernel_watch(file);
}

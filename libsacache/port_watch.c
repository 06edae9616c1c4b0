/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Asynchronous events of a port, from libibverbs. Called under the port's watch_lock, and never
 * waits: the descriptor is polled each time the port's thread wakes up.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "libsacache/port.h"

struct ibv_context *sa_watch_open(const char *ca_name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *verbs = NULL;

	for (unsigned i = 0; devices && devices[i] && !verbs; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), ca_name))
			verbs = ibv_open_device(devices[i]);
	if (devices)
		ibv_free_device_list(devices);
	if (verbs && fcntl(verbs->async_fd, F_SETFL, O_NONBLOCK)) {
		ibv_close_device(verbs);
		verbs = NULL;
	}
	return verbs;
}

static unsigned news_of(const struct ibv_async_event *event, int portnum)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_GID_CHANGE: return event->element.port_num == portnum ? SA_WATCH_PORT : 0;
	case IBV_EVENT_CLIENT_REREGISTER:
		return event->element.port_num == portnum ? SA_WATCH_REREGISTER | SA_WATCH_PORT : 0;
	case IBV_EVENT_DEVICE_FATAL: return SA_WATCH_END | SA_WATCH_PORT;
	default: return 0;
	}
}

unsigned sa_watch_read(struct ibv_context *verbs, int portnum)
{
	struct ibv_async_event event;
	unsigned news = 0;

	while (!ibv_get_async_event(verbs, &event)) {
		news |= news_of(&event, portnum);
		ibv_ack_async_event(&event);
	}
	return errno == EAGAIN || errno == EINTR ? news : news | SA_WATCH_END;
}

void sa_watch_close(struct ibv_context *verbs)
{
	if (verbs)
		ibv_close_device(verbs);
}

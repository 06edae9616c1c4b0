// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The port's life, as the interface sees it:
 *
 *	port is not active ──► P_Key is in its table ──► broadcast group is joined ──► carrier
 *	        ▲                                                                         │
 *	        └──────── port goes down, P_Key goes, the queue pair fails ───────────────┘
 *
 * What is missing is waited for: ports and P_Keys by events of libibverbs, the broadcast group by
 * asking again, 1 to 16 s apart. One line of the log says what is waited for. The loop's thread.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

#define FIRST_RETRY_S 1
#define LAST_RETRY_S  16

static void ready(struct ipoib *ib)
{
	if (ib->ready)
		ib->ready(ib);
	ib->ready = NULL;
}

static void say_waiting(struct ipoib *ib, const char *what)
{
	if (ib->said_waiting)
		return;
	ib->said_waiting = true;
	log_warning("%s waits: %s", ib->options.name, what);
	ready(ib);
}

static void retry_later(struct ipoib *ib)
{
	const struct timeval delay = {.tv_sec = ib->retry_s};

	event_add(ib->retry, &delay);
	ib->retry_s = ib->retry_s * 2 > LAST_RETRY_S ? LAST_RETRY_S : ib->retry_s * 2;
}

/* The index of the partition in the port's table; -ENOENT. */
static int find_pkey(struct ipoib *ib, uint16_t *pkey)
{
	struct ibv_port_attr attr;
	int limited = -ENOENT;

	if (ibv_query_port(ib->context, (uint8_t)ib->options.port, &attr))
		return -ENOENT;
	ib->lmc = attr.lmc;
	for (int i = 0; i < attr.pkey_tbl_len; i++) {
		__be16 entry;

		if (ibv_query_pkey(ib->context, (uint8_t)ib->options.port, i, &entry))
			continue;
		if (!(be16toh(entry) & 0x7fff) ||
		    (ib->options.pkey && (be16toh(entry) ^ ib->options.pkey) & 0x7fff))
			continue;
		if (limited >= 0 && !(be16toh(entry) & 0x8000))
			continue;
		*pkey = be16toh(entry);
		if (*pkey & 0x8000 || !ib->options.pkey)
			return i;
		limited = i;
	}
	return limited;
}

static void down(struct ipoib *ib)
{
	ib->active = false;
	event_del(ib->retry);
	tun_set_carrier(ib, false);
	groups_stop(ib);
	neighbours_forget(ib);
}

static void up(struct ipoib *ib)
{
	uint16_t pkey = 0;
	int index = find_pkey(ib, &pkey), ret;

	if (index < 0) {
		say_waiting(ib, "the partition is not in the port's P_Key table; it is the subnet "
				"manager's to put it there (OpenSM: partitions.conf)");
		return;
	}
	if (!(pkey & 0x8000))
		say_waiting(ib, "the port is a limited member of the partition, and IPoIB takes "
				"full membership (RFC 4391, 4); it is tried all the same");
	ibv_query_gid(ib->context, (uint8_t)ib->options.port, 0, &ib->gid);
	ib->pkey = pkey | 0x8000;
	ib->pkey_index = (uint16_t)index;
	ret = queue_set_partition(ib);
	if (ret) {
		log_error("%s: no queue pair: %s", ib->options.name, strerror(-ret));
		retry_later(ib);
		return;
	}
	ib->active = true;
	ib->retry_s = FIRST_RETRY_S;
	groups_start(ib);
}

static bool is_active(struct ipoib *ib)
{
	struct ibv_port_attr attr;

	return !ibv_query_port(ib->context, (uint8_t)ib->options.port, &attr) &&
	       attr.state == IBV_PORT_ACTIVE;
}

static void restart(struct ipoib *ib)
{
	down(ib);
	if (is_active(ib))
		up(ib);
	else
		say_waiting(ib, "the port is not active; a subnet needs a subnet manager (on a "
				"virtual fabric: urxe run --host HOST -- opensm)");
}

void port_restart(struct ipoib *ib)
{
	event_active(ib->restart, EV_TIMEOUT, 0);
}

static void on_restart(evutil_socket_t fd, short what, void *arg)
{
	restart(arg);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;

	if (ib->active)
		groups_start(ib);
	else
		restart(ib);
	queue_flush(ib);
}

void port_joined(struct ipoib *ib, int error, unsigned mtu)
{
	unsigned ip_mtu = mtu - IPOIB_HEADER;

	if (error) {
		if (error == -ENOENT)
			say_waiting(ib, "the partition has no broadcast group; OpenSM makes one "
					"where partitions.conf says \"ipoib\"");
		else
			say_waiting(ib, "the subnet administrator does not answer");
		tun_set_carrier(ib, false);
		retry_later(ib);
		return;
	}
	ib->retry_s = FIRST_RETRY_S;
	if (ip_mtu != ib->mtu && kernel_set_mtu(ib, ip_mtu))
		log_warning("%s: the MTU cannot be %u", ib->options.name, ip_mtu);
	if (ib->carrier)
		return;
	tun_set_carrier(ib, true);
	log_line(ib->said_waiting ? LOG_NOTICE : LOG_INFO,
		 "%s is up: P_Key 0x%04x, QPN 0x%06x, MTU %u", ib->options.name, ib->pkey, ib->qpn,
		 ib->mtu);
	ib->said_waiting = false;
	groups_follow(ib);
	neighbours_announce(ib);
	ready(ib);
}

/* Neighbours that know our old LID are told; theirs may be others, too. */
static void refresh(struct ipoib *ib)
{
	if (!ib->active)
		return;
	groups_renew(ib);
	neighbours_refresh(ib);
	if (ib->carrier)
		neighbours_announce(ib);
	queue_flush(ib);
}

static void pkey_changed(struct ipoib *ib)
{
	uint16_t pkey = 0;
	int index = find_pkey(ib, &pkey);

	if (!ib->active || index != ib->pkey_index || ((pkey ^ ib->pkey) & 0x7fff))
		restart(ib);
}

static void handle(struct ipoib *ib, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
		if (!ib->active)
			restart(ib);
		else
			refresh(ib);
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_QP_FATAL: restart(ib); break;
	case IBV_EVENT_PKEY_CHANGE: pkey_changed(ib); break;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER: refresh(ib); break;
	default: break;
	}
}

static void on_async(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;
	struct ibv_async_event event;

	while (!ibv_get_async_event(ib->context, &event)) {
		bool of_port = event.event_type != IBV_EVENT_QP_FATAL &&
			       event.event_type != IBV_EVENT_DEVICE_FATAL;

		log_debug("event %s", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
		if (!of_port || event.element.port_num == (int)ib->options.port)
			handle(ib, &event);
	}
}

static bool is_infiniband(struct ibv_context *context, unsigned port)
{
	struct ibv_port_attr attr;

	return !ibv_query_port(context, (uint8_t)port, &attr) &&
	       attr.link_layer != IBV_LINK_LAYER_ETHERNET;
}

/* The device of that name, or the first InfiniBand device. */
static int open_device(struct ipoib *ib)
{
	const struct ipoib_options *o = &ib->options;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (unsigned i = 0; list && list[i] && !ib->context; i++) {
		if (o->device && strcmp(o->device, ibv_get_device_name(list[i])))
			continue;
		ib->context = ibv_open_device(list[i]);
		if (ib->context && !is_infiniband(ib->context, o->port)) {
			ibv_close_device(ib->context);
			ib->context = NULL;
		}
	}
	if (list)
		ibv_free_device_list(list);
	if (ib->context)
		return 0;
	log_error("%s%sno InfiniBand port %u; `ibv_devinfo` lists devices (on a virtual fabric: "
		  "urxe ipoib --host HOST)",
		  o->device ? o->device : "", o->device ? ": " : "", o->port);
	return -ENODEV;
}

int port_create(struct ipoib *ib)
{
	int ret = open_device(ib);

	if (ret)
		return ret;
	ib->retry_s = FIRST_RETRY_S;
	ibv_query_gid(ib->context, (uint8_t)ib->options.port, 0, &ib->gid);
	ib->pd = ibv_alloc_pd(ib->context);
	if (!ib->pd)
		return ipoib_fail(ib, errno);
	fcntl(ib->context->async_fd, F_SETFL, fcntl(ib->context->async_fd, F_GETFL) | O_NONBLOCK);
	ib->retry = evtimer_new(ib->loop.base, on_retry, ib);
	ib->restart = evtimer_new(ib->loop.base, on_restart, ib);
	ib->async_readable =
		event_new(ib->loop.base, ib->context->async_fd, EV_READ | EV_PERSIST, on_async, ib);
	return ib->retry && ib->restart && ib->async_readable &&
			       !event_add(ib->async_readable, NULL)
		       ? 0
		       : ipoib_fail(ib, ENOMEM);
}

void port_destroy(struct ipoib *ib)
{
	if (ib->async_readable)
		event_free(ib->async_readable);
	if (ib->retry)
		event_free(ib->retry);
	if (ib->restart)
		event_free(ib->restart);
	if (ib->pd)
		ibv_dealloc_pd(ib->pd);
	if (ib->context)
		ibv_close_device(ib->context);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Devices of a host of a fabric (fabric_device.h), in the list of device.c and under its locks.
 *
 * The monitor is an epoll descriptor, since what it waits for changes: a connection to fabricd, by
 * which events come and keys are reported, or, while there is no fabric, a timer after which it is
 * looked for again. To lose the connection is to lose the power: all ports are down. Answers of the
 * subnet administrator come by connections of their own (fabric_sa.c), which it watches too.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "host/device_list.h"
#include "host/fabric.h"
#include "host/fabric_device.h"
#include "host/fabric_sa.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/log.h"

#define LOOK_AGAIN_NS 100000000 /* for a fabric that is off */

static unsigned num_ports; /* of all devices; the refresh lock */

/* The monitor's; the thread that reads it. */
static int epoll_fd = -1, timer_fd = -1;
static _Atomic int events_fd = -1;

static _Atomic(const struct urxe_fabric_host *) powered;

const struct urxe_fabric_host *urxe_fabric_powered(void)
{
	return atomic_load_explicit(&powered, memory_order_acquire);
}

/* ---- from the map to a port ---- */

/* As the kernel's drivers say it: an enumeration of lanes, and the standard's codes of speeds. */
static void read_rate(struct urxe_port *port, const struct fabric_port *from)
{
	static const uint8_t speeds[FABRIC_NUM_SPEEDS] = {1, 2, 4, 8, 16, 32, 64, 128};
	static const uint32_t mbps[FABRIC_NUM_SPEEDS] = {2500,	5000,  10000, 10000,
							 14000, 25000, 50000, 100000};
	static const uint8_t lanes[] = {1, 4, 8, 12, 2};
	uint8_t speed = fabric_port_speed(from);
	unsigned i = 0;

	while (i < 4 && !(from->info[PI_WIDTH_ACTIVE] & 1u << i))
		i++;
	port->width = 1u << i;
	port->speed = speeds[speed];
	port->speed_mbps = mbps[speed] * lanes[i];
}

static bool read_gids(struct urxe_port *port, const struct fabric_map *map,
		      const struct fabric_port *from)
{
	const uint64_t *guids = (const uint64_t *)fabric_map_bytes(map, from->guids);
	bool changed = false;

	port->gid_len = 0;
	for (unsigned i = 0; i < URXE_MAX_GIDS && i < FABRIC_GUIDS; i++) {
		uint64_t guid = i ? guids[i] : from->guid;
		union ibv_gid gid = {{0}};

		if (guid) {
			memcpy(gid.raw, from->info + PI_PREFIX, 8);
			gid.global.interface_id = htobe64(guid);
			port->gid_len = i + 1;
		}
		changed = changed || memcmp(&port->gids[i], &gid, sizeof(gid));
		port->gids[i] = gid;
	}
	return changed;
}

static bool read_pkeys(struct urxe_port *port, const struct fabric_map *map,
		       const struct fabric_port *from)
{
	const uint16_t *keys = (const uint16_t *)fabric_map_bytes(map, from->pkeys);
	bool changed = false;

	port->pkey_len = from->pkey_cap < URXE_MAX_PKEYS ? from->pkey_cap : URXE_MAX_PKEYS;
	for (unsigned i = 0; i < port->pkey_len; i++) {
		changed = changed || port->pkeys[i] != keys[i];
		/* QPs read it at each packet. */
		__atomic_store_n(&port->pkeys[i], keys[i], __ATOMIC_RELAXED);
	}
	return changed;
}

static void read_state(struct urxe_port *port, enum ibv_port_state state)
{
	bool was = port->state == IBV_PORT_ACTIVE, is = state == IBV_PORT_ACTIVE;

	port->state = state;
	if (was != is)
		urxe_port_changed(port, is ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void urxe_fabric_port_read(struct urxe_port *port, const struct fabric_map *map,
			   const struct fabric_port *from)
{
	const uint8_t *info = from->info;
	uint16_t lid = fabric_port_lid(from), sm_lid = get16(info + PI_SM_LID);
	uint8_t lmc = fabric_port_lmc(from), sm_sl = lo4(info[PI_MTU_SMSL]);

	read_state(port, fabric_port_state(from));
	if (port->lid != lid || port->lmc != lmc)
		urxe_port_changed(port, IBV_EVENT_LID_CHANGE);
	if (port->sm_lid != sm_lid || port->sm_sl != sm_sl)
		urxe_port_changed(port, IBV_EVENT_SM_CHANGE);
	if (read_pkeys(port, map, from))
		urxe_port_changed(port, IBV_EVENT_PKEY_CHANGE);
	if (read_gids(port, map, from))
		urxe_port_changed(port, IBV_EVENT_GID_CHANGE);
	read_rate(port, from);
	port->lid = lid;
	port->lmc = lmc;
	port->sm_lid = sm_lid;
	port->sm_sl = sm_sl;
	port->max_mtu = lo4(info[PI_MTU_CAP]);
	port->active_mtu = hi4(info[PI_MTU_SMSL]);
	port->cap_flags = get32(info + PI_CAP);
	__atomic_store_n(&port->fabric_port, from - fabric_map_port(map, 0), __ATOMIC_RELAXED);
	__atomic_store_n(&port->gone, false, __ATOMIC_RELAXED);
}

/* ---- the list ---- */

static bool create(int index, const struct fabric_map *map, const struct fabric_node *hca)
{
	char name[IBV_SYSFS_NAME_MAX];
	struct urxe_device *dev;

	snprintf(name, sizeof(name), "urxe%d", index);
	if (num_ports + hca->num_ports > URXE_MAX_PORTS) {
		urxe_log(URXE_LOG_WARN, "more than %d ports: %s gets no device", URXE_MAX_PORTS,
			 name);
		return false;
	}
	dev = urxe_device_create(name, index, htobe64(hca->guid), &urxe_fabric_port,
				 hca->num_ports);
	if (!dev)
		return false;
	for (unsigned i = 0; i < dev->num_ports; i++) {
		dev->ports[i].index = num_ports++;
		urxe_fabric_port_read(&dev->ports[i], map, fabric_node_port(map, hca, i + 1));
		dev->ports[i].changes = 0;
	}
	urxe_device_publish(dev);
	return true;
}

/* hca NULL: it is gone, for now. */
static void refresh(struct urxe_device *dev, const struct fabric_map *map,
		    const struct fabric_node *hca)
{
	urxe_device_lock();
	for (unsigned i = 0; i < dev->num_ports; i++) {
		if (hca && i < hca->num_ports)
			urxe_fabric_port_read(&dev->ports[i], map,
					      fabric_node_port(map, hca, i + 1));
		else
			read_state(&dev->ports[i], IBV_PORT_DOWN);
	}
	urxe_device_unlock();
}

/* Brings all devices up to date; host NULL: there is no fabric. Under the refresh lock. */
static void refresh_all(const struct urxe_fabric_host *host)
{
	const struct fabric_map *map = host ? host->map : NULL;
	unsigned n = host ? host->num_adapters : 0;
	bool more = true;

	for (unsigned i = 0; more && i < URXE_MAX_DEVICES; i++) {
		const struct fabric_node *hca =
			i < n ? fabric_map_node(map, host->adapters[i]) : NULL;
		struct urxe_device *dev = urxe_device_at(i);

		if (dev)
			refresh(dev, map, hca);
		else
			more = hca && create(i, map, hca);
	}
}

void urxe_fabric_devices_refresh(void)
{
	const struct urxe_fabric_host *host;

	pthread_mutex_lock(&urxe_refresh_lock);
	host = urxe_fabric_host();
	refresh_all(host && urxe_fabric_alive(host) ? host : NULL);
	pthread_mutex_unlock(&urxe_refresh_lock);
}

/* ---- the monitor ---- */

void urxe_fabric_monitor_watch(int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	urxe_libc.epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void set_timer(bool on)
{
	struct itimerspec after = {.it_value.tv_nsec = on ? LOOK_AGAIN_NS : 0};

	urxe_libc.timerfd_settime(timer_fd, 0, &after, NULL);
}

/* The fabric as of now, with events from now on. */
static void connect_events(void)
{
	const struct urxe_fabric_host *host = urxe_fabric_host();
	struct fabric_welcome welcome;
	int fd = -1;

	if (host && urxe_fabric_alive(host))
		fd = urxe_fabric_connect(FABRIC_EVENTS, 0, -1, &welcome, NULL);
	if (fd >= 0)
		urxe_fabric_monitor_watch(fd);
	atomic_store(&events_fd, fd);
	atomic_store(&powered, fd < 0 ? NULL : host);
	set_timer(fd < 0);
	pthread_mutex_lock(&urxe_refresh_lock);
	refresh_all(fd >= 0 ? host : NULL);
	pthread_mutex_unlock(&urxe_refresh_lock);
}

int urxe_fabric_monitor_open(void)
{
	epoll_fd = urxe_fd_keep(urxe_libc.epoll_create1(EPOLL_CLOEXEC));
	timer_fd =
		urxe_fd_keep(urxe_libc.timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (epoll_fd < 0 || timer_fd < 0) {
		int err = errno;

		urxe_fabric_monitor_close();
		return -err;
	}
	urxe_fabric_monitor_watch(timer_fd);
	connect_events();
	/* What changed before this is nobody's news. */
	urxe_ports_report(NULL, NULL);
	return epoll_fd;
}

static void reregister(uint32_t index)
{
	struct urxe_port *port;

	urxe_for_each_port (port)
		if (port->fabric_port == index)
			urxe_port_changed(port, IBV_EVENT_CLIENT_REREGISTER);
}

/* Takes what the connection has; false: it has ended. */
static bool take_events(int fd)
{
	struct fabric_event event;
	bool any = false;
	ssize_t n;

	while ((n = urxe_libc.recv(fd, &event, sizeof(event), MSG_DONTWAIT)) > 0) {
		any = true;
		if (n == sizeof(event) && event.reregister) {
			urxe_device_lock();
			reregister(event.port);
			urxe_device_unlock();
		}
	}
	if (!n || (errno != EAGAIN && errno != EINTR))
		return false;
	if (any) {
		pthread_mutex_lock(&urxe_refresh_lock);
		refresh_all(urxe_fabric_host());
		pthread_mutex_unlock(&urxe_refresh_lock);
	}
	return true;
}

void urxe_fabric_monitor_read(urxe_port_event_fn *fn, void *arg)
{
	int fd = atomic_load(&events_fd);
	uint64_t times;

	(void)!urxe_libc.read(timer_fd, &times, sizeof(times));
	if (fd < 0) {
		connect_events();
	} else if (!take_events(fd)) {
		atomic_store(&events_fd, -1);
		urxe_fd_close(fd);
		connect_events();
	}
	urxe_ports_report(fn, arg);
	urxe_fabric_sa_read();
}

void urxe_fabric_monitor_close(void)
{
	urxe_fabric_sa_close();
	urxe_fd_close(atomic_exchange(&events_fd, -1));
	atomic_store(&powered, NULL);
	urxe_fd_close(timer_fd);
	urxe_fd_close(epoll_fd);
	timer_fd = epoll_fd = -1;
}

void urxe_fabric_report(const struct fabric_violation *violation)
{
	int fd = atomic_load(&events_fd);

	if (fd >= 0)
		urxe_libc.sendto(fd, violation, sizeof(*violation), MSG_DONTWAIT | MSG_NOSIGNAL,
				 NULL, 0);
}

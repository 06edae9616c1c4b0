/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What device.c, fabric_device.c and monitor.c share. */
#ifndef URXE_HOST_DEVICE_LIST_H
#define URXE_HOST_DEVICE_LIST_H

#include <pthread.h>

#include "host/device.h"
#include "host/netdev.h"

/* The thread that has it brings the list up to date. Taken before urxe_device_lock. */
extern pthread_mutex_t urxe_refresh_lock;

/* The i-th device in the order in which they were found; NULL: there are no more. Any thread. */
struct urxe_device *urxe_device_at(int i);
/* A device whose ports are of that kind: all else of them is the caller's to fill in. NULL: no
 * memory. Published, it is in the list; under the refresh lock. */
struct urxe_device *urxe_device_create(const char *name, int index, uint64_t guid,
				       const struct urxe_port_kind *kind, unsigned num_ports);
void urxe_device_publish(struct urxe_device *dev);

/*
 * Brings the devices that exist (and, if make_new, new ones) up to the kernel's state. What
 * changed is kept until urxe_ports_report() takes it. -errno.
 */
int urxe_devices_refresh(bool make_new);

/* Does a message about this netdev concern a device, or may it bring a gone netdev back? */
bool urxe_devices_concern(unsigned ifindex);

/* Notes that something of a port has changed; under the device lock. */
static inline void urxe_port_changed(struct urxe_port *port, enum ibv_event_type event)
{
	port->changes |= 1u << event;
}

/* Calls fn (NULL: nothing) for every change of any port since the last call, and forgets them. */
void urxe_ports_report(urxe_port_event_fn *fn, void *arg);

#endif

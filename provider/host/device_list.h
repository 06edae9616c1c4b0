/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What device.c and monitor.c share. */
#ifndef URXE_HOST_DEVICE_LIST_H
#define URXE_HOST_DEVICE_LIST_H

#include "host/device.h"
#include "host/netdev.h"

/*
 * Brings the devices that exist (and, if make_new, new ones) up to the kernel's state. What
 * changed is kept until urxe_devices_changes() takes it. -errno.
 */
int urxe_devices_refresh(bool make_new);

/* Does a message about this netdev concern a device, or may it bring a gone netdev back? */
bool urxe_devices_concern(unsigned ifindex);

/* Calls fn (NULL: nothing) for every change since the last call, and forgets them. */
void urxe_devices_changes(urxe_port_event_fn *fn, void *arg);

#endif

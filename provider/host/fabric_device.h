/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices of a host of a virtual fabric, in place of those on netdevs (device.h): one for each
 * adapter, with as many ports as that has, named urxe0, urxe1, … in the order of the host's
 * adapters. What a port says of itself is copied from the fabric's map whenever fabricd says that
 * it has changed.
 */
#ifndef URXE_HOST_FABRIC_DEVICE_H
#define URXE_HOST_FABRIC_DEVICE_H

#include "fabric/protocol.h"
#include "host/device.h"
#include "host/fabric.h"

/* For device.c and monitor.c: what urxe_devices() and urxe_device_monitor_…() do on such a host. */
void urxe_fabric_devices_refresh(void);
int urxe_fabric_monitor_open(void);
void urxe_fabric_monitor_read(urxe_port_event_fn *fn, void *arg);
void urxe_fabric_monitor_close(void);
/* Fills a port from the map, under the device lock if it is one of a device, and notes what has
 * changed. */
void urxe_fabric_port_read(struct urxe_port *port, const struct fabric_map *map,
			   const struct fabric_port *from);
/* For fabric_sa.c: wakes the monitor when something has come there. */
void urxe_fabric_monitor_watch(int fd);

/* The host, while its fabric is on; NULL. As the monitor has found it: any thread, no system
 * call. */
const struct urxe_fabric_host *urxe_fabric_powered(void);

/* Reports a packet with a wrong key to fabricd, if that has time. Any thread. */
void urxe_fabric_report(const struct fabric_violation *violation);

#endif

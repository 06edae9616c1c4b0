/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the files of the sysfs view's tables share. */
#ifndef URXE_PRELOAD_SYSFS_DEVICE_H
#define URXE_PRELOAD_SYSFS_DEVICE_H

#include <stdio.h>

#include "preload/sysfs.h"

#define FILE_SHOW(n, ...)                                               \
	{                                                               \
		.name = n, .type = URXE_SYSFS_FILE, .show = __VA_ARGS__ \
	}
#define FILE_TEXT(n, ...)                                               \
	{                                                               \
		.name = n, .type = URXE_SYSFS_FILE, .text = __VA_ARGS__ \
	}
#define LINK_SHOW(n, fn)                                       \
	{                                                      \
		.name = n, .type = URXE_SYSFS_LINK, .show = fn \
	}
#define LINK_TEXT(n, t)                                       \
	{                                                     \
		.name = n, .type = URXE_SYSFS_LINK, .text = t \
	}
#define DIRECTORY(n, ...)                                             \
	{                                                             \
		.name = n, .type = URXE_SYSFS_DIR, .dir = __VA_ARGS__ \
	}
#define END                  \
	{                    \
		.name = NULL \
	}

/* ---- sysfs_device.c ---- */

extern const struct urxe_sysfs_kind urxe_sysfs_adapters, urxe_sysfs_verbs, urxe_sysfs_mads;
extern const struct urxe_sysfs_dir urxe_sysfs_rdma_cm_dir;
/* The name of the device's netdev; false where it has none. */
bool urxe_sysfs_netdev(const struct urxe_sysfs_node *node, char name[IF_NAMESIZE]);
/* GUID in network byte order. */
ssize_t urxe_sysfs_print_guid(uint64_t guid, char *buf, size_t len);

/* ---- sysfs_counters.c ---- */

extern const struct urxe_sysfs_dir urxe_sysfs_counters, urxe_sysfs_hw_counters;

/* ---- sysfs_fabric.c ---- */

/* The host's adapters. */
void urxe_sysfs_fabric_devices(struct urxe_sysfs_devices *devices);
/* The port as it is now; -ENODEV: the host has it no more. */
int urxe_sysfs_fabric_port(const struct urxe_sysfs_node *node, struct urxe_port *port);
/* Opens umad or issm. */
int urxe_sysfs_fabric_open(const struct urxe_sysfs_node *node, int flags);
/* A counter that lies in a PortCounters attribute at that bit. */
int urxe_sysfs_fabric_counter(const struct urxe_sysfs_node *node, uint16_t attribute, unsigned bit,
			      unsigned bits, uint64_t *value);
urxe_sysfs_show_fn urxe_fabric_show_node_guid, urxe_fabric_show_system_guid,
	urxe_fabric_show_node_desc, urxe_fabric_show_node_type, urxe_fabric_show_hca_type,
	urxe_fabric_show_phys_state, urxe_fabric_show_rate;

#endif

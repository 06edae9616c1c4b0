/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The contents of the sysfs view's files and the targets of its links, for the tables of
 * sysfs_tree.c.
 */
#ifndef URXE_PRELOAD_SYSFS_SHOW_H
#define URXE_PRELOAD_SYSFS_SHOW_H

#include "preload/sysfs.h"

/* For urxe_show_port_counter: PortCounters and PortCountersExtended (IBTA vol. 1, 16.1.3.5 and
 * 16.1.4.11). */
enum urxe_port_counter {
	URXE_PORT_XMIT_DATA, /* in units of four bytes, as the standard counts */
	URXE_PORT_RCV_DATA,
	URXE_PORT_XMIT_PACKETS,
	URXE_PORT_RCV_PACKETS,
	URXE_PORT_RCV_ERRORS,
	URXE_PORT_XMIT_DISCARDS,
	URXE_PORT_DOWNED,
};

/* Files. */
urxe_sysfs_show_fn urxe_show_guid;
urxe_sysfs_show_fn urxe_show_name;
urxe_sysfs_show_fn urxe_show_netdev;
urxe_sysfs_show_fn urxe_show_uevent;
urxe_sysfs_show_fn urxe_show_state;
urxe_sysfs_show_fn urxe_show_phys_state;
urxe_sysfs_show_fn urxe_show_rate;
urxe_sysfs_show_fn urxe_show_cap_mask;
urxe_sysfs_show_fn urxe_show_lid;
urxe_sysfs_show_fn urxe_show_lid_mask_count;
urxe_sysfs_show_fn urxe_show_sm_lid;
urxe_sysfs_show_fn urxe_show_sm_sl;
urxe_sysfs_show_fn urxe_show_link_layer;
urxe_sysfs_show_fn urxe_show_pkey;
urxe_sysfs_show_fn urxe_show_gid;
urxe_sysfs_show_fn urxe_show_gid_type;
urxe_sysfs_show_fn urxe_show_gid_ndev;
urxe_sysfs_show_fn urxe_show_hw_counter;
urxe_sysfs_show_fn urxe_show_port_counter;
urxe_sysfs_show_fn urxe_show_uverbs_dev;
urxe_sysfs_show_fn urxe_show_uverbs_uevent;
urxe_sysfs_show_fn urxe_show_umad_dev;
urxe_sysfs_show_fn urxe_show_umad_uevent;
urxe_sysfs_show_fn urxe_show_rdma_cm_dev;
urxe_sysfs_show_fn urxe_show_rdma_cm_uevent;
urxe_sysfs_show_fn urxe_show_numa_node;

/* Links. */
urxe_sysfs_show_fn urxe_show_device;
urxe_sysfs_show_fn urxe_show_class_device;
urxe_sysfs_show_fn urxe_show_class_uverbs;
urxe_sysfs_show_fn urxe_show_class_umad;
urxe_sysfs_show_fn urxe_show_class_net;

#endif

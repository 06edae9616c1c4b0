/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * GIDs from addresses, and GUIDs from MACs. Pure functions apart from urxe_guid_of_host(); the
 * caller holds whatever lock guards what it passes.
 */
#ifndef URXE_HOST_GID_H
#define URXE_HOST_GID_H

#include "host/device.h"
#include "host/netdev.h"

/*
 * Brings a GID table up to the addresses that a netdev has. A GID whose address is still there
 * keeps its slot; the slots of others are zeroed; new ones take the lowest free slots: link-local
 * IPv6 first, then IPv4-mapped, then other IPv6, each kind in the order given. Where the
 * link-local address is to come, slot 0 gets the GID of slot 1, so that the others have the indices
 * from the beginning that they have for programs that start later, and a program that takes index 0
 * finds a GID that it can use. Returns whether the table changed.
 */
bool urxe_gid_table_update(union ibv_gid gids[URXE_MAX_GIDS], unsigned *gid_len,
			   const struct urxe_netaddr *addrs, unsigned num_addrs, unsigned ifindex);

/* The EUI-64 of a MAC as rxe makes it, in network byte order: ff:fe in the middle, U/L inverted. */
uint64_t urxe_guid_of_mac(const uint8_t mac[6]);

/*
 * A GUID for a netdev without a MAC of its own (lo), in network byte order: the same in all
 * processes of a user in a network namespace, and after the next boot. It is the SipHash, under a
 * constant key, of /etc/machine-id (else of the boot id), the effective uid, the inode of the
 * network namespace and the netdev's name; bits 57 and 56 are set to "local" and "unicast".
 */
uint64_t urxe_guid_of_host(const char *netdev);

#endif

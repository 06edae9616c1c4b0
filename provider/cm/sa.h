/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the subnet administrator says of a multicast group (IBTA vol. 1, 15.2.5.17). */
#ifndef URXE_CM_SA_H
#define URXE_CM_SA_H

#include <infiniband/verbs.h>
#include <stdint.h>

struct urxe_group {
	union ibv_gid mgid, port_gid;
	__be32 qkey;
	__be16 mlid;
	uint8_t mtu;
	uint8_t tclass;
	__be16 pkey;
	uint8_t rate;
	uint8_t packet_life_time;
	__be32 sl_flow_hop; /* 4, 20 and 8 bits */
	uint8_t scope_state;
	uint8_t proxy;
	uint16_t reserved;
} __attribute__((packed));
_Static_assert(sizeof(struct urxe_group) == 52, "MCMemberRecord");

#endif

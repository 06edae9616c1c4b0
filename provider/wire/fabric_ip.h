/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* IP addresses on a virtual fabric, for its link layer (link.h). Any thread. */
#ifndef URXE_WIRE_FABRIC_IP_H
#define URXE_WIRE_FABRIC_IP_H

#include "host/device.h"

int urxe_fabric_gid_of_ip(const struct urxe_port *port, const struct in6_addr *ip,
			  union ibv_gid *gid);
bool urxe_fabric_own_ip(const struct urxe_port *port, bool ipv4, struct in6_addr *ip);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The IPv4 addresses that programs name a fabric's ports by, where there is no IPoIB: 127.77.x.y is
 * the first port of a host, 127.78.x.y the second, and so on. x.y is one more than the number of
 * the host in the map. They follow from the map alone, so nobody has to ask anybody; and as every
 * address in 127.0.0.0/8 is the machine's own, TCP works with them as well. Any thread.
 */
#ifndef URXE_FABRIC_IP_H
#define URXE_FABRIC_IP_H

#include "fabric/map.h"

/* The address of a port (its index), host byte order; 0: it is no adapter's, or beyond 127.255. */
uint32_t fabric_ip_of_port(const struct fabric_map *map, uint32_t port);
/* The port that has the address; FABRIC_NONE. */
uint32_t fabric_ip_port(const struct fabric_map *map, uint32_t ip);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The port spaces of the RDMA IP CM service (IBTA annex A11), which all processes of a host
 * share: the rules by which ids get ports and listeners are found. Binding conflicts are those
 * of the kernel's rdma_cm, so that programs find the errno they know. Each id that is bound
 * holds a row of the host segment (host/segment_ports.h), which says where rows are kept and
 * which process releases them.
 *
 * Any thread.
 */
#ifndef URXE_CM_PORT_SPACE_H
#define URXE_CM_PORT_SPACE_H

#include "host/segment_ports.h"

/*
 * Binds: fills in b->port where it was 0, and *row. -EADDRINUSE: that address and port is taken.
 * -EADDRNOTAVAIL: taken, where one of the two is an any-address; or no ephemeral port is left (of
 * /proc/sys/net/ipv4/ip_local_port_range). -ENOMEM no row is left, -ENOSPC no room in /dev/shm.
 * That ports below 1024 need a privilege is for the caller to check.
 */
int urxe_port_space_bind(struct urxe_segment *seg, struct urxe_binding *b, uint32_t *row);

/* v6only and reuse of a row that is bound already. */
void urxe_port_space_set_options(struct urxe_segment *seg, uint32_t row, bool v6only, bool reuse);

/*
 * From now on the row is found, and its port no longer shared: ids can do that, by reuse, only
 * until one wants to listen: -EADDRINUSE, -EADDRNOTAVAIL as above.
 */
int urxe_port_space_listen(struct urxe_segment *seg, uint32_t row);

/*
 * The listener has gone, but connections that came through it may still be asked for by a repeated
 * REQ: the port is free for others, and the row is found as long as nobody else listens there.
 */
void urxe_port_space_linger(struct urxe_segment *seg, uint32_t row);

/*
 * The listener for a message to that address of a host (segment.h), which came in on that
 * interface: the one on the address itself, else the one on the any-address of its family, else,
 * for IPv4, an IPv6 one that is not v6only, else one that lingers. False: there is none. Takes no
 * lock.
 */
bool urxe_port_space_find(struct urxe_segment *seg, uint32_t host, uint16_t ps, uint16_t port,
			  const struct in6_addr *daddr, uint32_t ifindex, unsigned *slot,
			  uint32_t *id);

/* A forked child draws ephemeral ports of its own: one after another
 * they would all have the same. */
void urxe_port_space_forked(void);

#endif

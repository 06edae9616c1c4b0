/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The port spaces of the RDMA IP CM service (IBTA annex A11), which all processes of a host share
 * in the host segment: who is bound to which port of which address, and who listens there. Binding
 * conflicts are those of the kernel's rdma_cm, so that programs find the errno they know.
 *
 * Each id that is bound holds a row. A row belongs to its process's slot and goes with it. All
 * processes together have 131,072 rows, one may take three quarters of them. Every call takes the
 * same time however many there are, apart from those on one port, which are compared one by one.
 *
 * Any thread. Whatever writes takes the segment lock, briefly; urxe_segment_port_find() takes none.
 */
#ifndef URXE_HOST_SEGMENT_PORTS_H
#define URXE_HOST_SEGMENT_PORTS_H

#include "host/segment.h"

struct urxe_binding {
	uint16_t ps;	      /* RDMA_PS_…: each is a space of its own */
	uint16_t port;	      /* host order; 0: any of the ephemeral ones */
	struct in6_addr addr; /* IPv6, or ::ffff:a.b.c.d; any: ::, or ::ffff:0.0.0.0 */
	uint32_t scope;	      /* ifindex, for link-local addr; else 0 */
	bool v6only;	      /* an IPv6 address that does not serve IPv4 as well */
	bool reuse;	      /* RDMA_OPTION_ID_REUSEADDR */
	uint32_t id;	      /* the caller's, for urxe_segment_port_find() */
	/* Where the id will connect to, if that is known: several ids may have one ephemeral port
	 * when they connect to different places. Zeros: not known. */
	struct in6_addr peer;
	uint16_t peer_port; /* host order */
};

/*
 * Binds: fills in b->port where it was 0, and *row. -EADDRINUSE: that address and port is taken.
 * -EADDRNOTAVAIL: taken, where one of the two is an any-address; or no ephemeral port is left (of
 * /proc/sys/net/ipv4/ip_local_port_range). -ENOMEM no row is left, -ENOSPC no room in /dev/shm.
 * That ports below 1024 need a privilege is for the caller to check.
 */
int urxe_segment_port_bind(struct urxe_segment *seg, struct urxe_binding *b, uint32_t *row);

/*
 * From now on the row is found. Ids that share the port, by reuse, can do so only until one wants
 * to listen: -EADDRINUSE, -EADDRNOTAVAIL as above.
 */
int urxe_segment_port_listen(struct urxe_segment *seg, uint32_t row);

/*
 * The listener has gone, but connections that came through it may still be asked for by a repeated
 * REQ: the port is free for others, and the row is found as long as nobody else listens there.
 */
void urxe_segment_port_linger(struct urxe_segment *seg, uint32_t row);
void urxe_segment_port_release(struct urxe_segment *seg, uint32_t row);

/*
 * Who listens for a message to that address, which came in on that interface: the listener on the
 * address itself, else the one on the any-address of its family, else, for IPv4, an IPv6 one that
 * is not v6only, else one that lingers. False: nobody.
 */
bool urxe_segment_port_find(struct urxe_segment *seg, uint16_t ps, uint16_t port,
			    const struct in6_addr *daddr, uint32_t ifindex, unsigned *slot,
			    uint32_t *id);

/* A row as it is seen from outside. */
enum urxe_port_state { URXE_PORT_BOUND = 1, URXE_PORT_LISTENING, URXE_PORT_LINGERING };
struct urxe_port_holder {
	struct urxe_binding binding;
	enum urxe_port_state state;
	uint32_t pid; /* in the pid namespace of that process */
};

/*
 * All rows of living processes, in no order: allocates *holders and returns their number, or
 * -ENOMEM. For members and views. Takes the segment lock while it copies.
 */
int urxe_segment_port_holders(struct urxe_segment *seg, struct urxe_port_holder **holders);

#endif

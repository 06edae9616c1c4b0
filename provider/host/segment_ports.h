/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The rows of the port spaces of the RDMA IP CM service (IBTA annex A11), which all processes of a
 * host share in the host segment: which id is bound to which port of which address, and whether it
 * listens there. Agents of programs for classes of MADs (host/mad_agent.h) are rows of a space of
 * their own. The hosts of a fabric share the segment, and not the port spaces. Which bindings may
 * stand beside each other, and which listener serves an address, are rules of the connection
 * manager (cm/port_space.h).
 *
 * A row belongs to its process's slot and goes with it. All processes together have 131,072 rows,
 * one may take all but 32 for every other. Every call takes the same time however many there are,
 * apart from those on one port, which are looked at one by one.
 *
 * Any thread. Under the segment lock, unless said otherwise.
 */
#ifndef URXE_HOST_SEGMENT_PORTS_H
#define URXE_HOST_SEGMENT_PORTS_H

#include "host/segment.h"

struct urxe_binding {
	uint16_t ps;	      /* RDMA_PS_…: each is a space of its own */
	uint16_t port;	      /* host order */
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

/* A free row belongs to no id, and no more does one that is released: that is in its list still. */
enum urxe_port_state {
	URXE_PORT_FREE,
	URXE_PORT_BOUND,
	URXE_PORT_LISTENING,
	URXE_PORT_LINGERING,
	URXE_PORT_RELEASED,
};

/* Calls visit for each row of a port of this host but `except`, until it returns other than 0: the
 * result. */
typedef int urxe_port_visit(const struct urxe_binding *b, enum urxe_port_state state, void *arg);
int urxe_segment_port_walk(struct urxe_segment *seg, uint16_t ps, uint16_t port, uint32_t except,
			   urxe_port_visit *visit, void *arg);

/* A row more, which is bound. -ENOMEM no row is left, -ENOSPC no room in /dev/shm. */
int urxe_segment_port_add(struct urxe_segment *seg, const struct urxe_binding *b, uint32_t *row);
/* Of a row of this process. False, and nothing is done: it is none. */
bool urxe_segment_port_get(struct urxe_segment *seg, uint32_t row, struct urxe_binding *b);
void urxe_segment_port_set_options(struct urxe_segment *seg, uint32_t row, bool v6only, bool reuse);
void urxe_segment_port_set_state(struct urxe_segment *seg, uint32_t row,
				 enum urxe_port_state state);
/* Takes the segment lock now and then. */
void urxe_segment_port_release(struct urxe_segment *seg, uint32_t row);

/* The first row of a host's port (segment.h numbers hosts) with the most merit: its slot, and the
 * caller's number. False: none has any. Without the segment lock; merit may be asked of rows that
 * are just changing. */
typedef unsigned urxe_port_merit(const struct urxe_binding *b, enum urxe_port_state state,
				 const void *arg);
bool urxe_segment_port_find(struct urxe_segment *seg, uint32_t host, uint16_t ps, uint16_t port,
			    urxe_port_merit *merit, const void *arg, unsigned *slot, uint32_t *id);

/* A row as it is seen from outside. */
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

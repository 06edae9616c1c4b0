/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Routes through a virtual fabric, as this process sends by them. A path (path.h) names its route
 * by a number. A route keeps what the tables of the fabric's map said of it, with the map's
 * generation: to send by it takes one comparison, and two additions to its row of the process's
 * ledger (fabric/ledger.h). When the generation has moved, the tables are walked anew.
 *
 * Routes are made by any thread, under a lock of their own, and stay. All else is under the
 * engine's lock.
 */
#ifndef URXE_WIRE_ROUTE_H
#define URXE_WIRE_ROUTE_H

#include "fabric/route.h"
#include "wire/private.h"

#define URXE_LRH_WORDS	2
#define URXE_GRH_WORDS	10
#define URXE_BTH_WORDS	3
#define URXE_ICRC_WORDS 1
#define URXE_MAX_ROUTES 65536

/* Packets on links with a delay (fault_queue.c). */
struct urxe_lag {
	struct urxe_route *route;
	uint64_t delay;	  /* ns */
	uint64_t due;	  /* when the last one that waits arrives */
	uint32_t waiting; /* packets */
};

struct urxe_group;

struct urxe_route {
	/* What it was when the map had that generation: all that a packet asks for, in one cache
	 * line. */
	const struct fabric_map *map;
	uint64_t generation;
	struct fabric_row *row;
	uint32_t host;	     /* where packets arrive: its number in the segment's slots */
	uint32_t head_words; /* in front of a packet's BTH, and behind it */
	uint16_t pkey;	     /* one that the switches let pass, 0: none was asked about yet; of a
			      * group: the one that the tree is for */
	bool open;	     /* packets arrive, */
	bool sure;     /* none is lost on a link, none waits, and none changes a port's state */
	bool enforced; /* if the switches let their P_Key pass */

	/* What it is: from a port, or back to one (from). */
	const struct urxe_port *port;
	uint32_t from;
	uint32_t hashed; /* the next one of its hash; 0: none */
	uint16_t slid, dlid;
	uint8_t sl;
	bool global; /* packets have a GRH */
	bool group;  /* of multicast */

	struct fabric_route way;
	struct urxe_group *tree;      /* of a group */
	struct urxe_route *back;      /* the way of answers, where they are no packets */
	struct urxe_route_loss *lost; /* rows of packets that do not arrive */
	uint64_t sent;		      /* packets, for faults */
	struct urxe_lag lag;
} __attribute__((aligned(64)));
static_assert(offsetof(struct urxe_route, port) <= 64, "the first line has what is hot");

/* Makes one or finds it. port NULL: from one of another host, by its index in the map, for its dead
 * processes. -ENOMEM; -EINVAL: the port is not of a fabric. Any thread. */
int urxe_route_get(const struct urxe_port *port, uint32_t from, uint16_t slid, uint16_t dlid,
		   uint8_t sl, bool global, uint32_t *number);

extern struct urxe_route *urxe_routes[URXE_MAX_ROUTES];

static inline struct urxe_route *urxe_route_of(const struct urxe_path *path)
{
	return urxe_routes[path->route % URXE_MAX_ROUTES];
}

/* Walks the tables anew. */
void urxe_route_renew(struct urxe_route *route);

static inline struct urxe_route *urxe_route_now(struct urxe_route *route)
{
	if (__builtin_expect(atomic_load_explicit(&route->map->generation, memory_order_acquire) !=
				     route->generation,
			     0))
		urxe_route_renew(route);
	return route;
}

/* Do packets of the path arrive, as far as the path alone can say? */
static inline bool urxe_route_is_open(const struct urxe_path *path)
{
	return urxe_route_now(urxe_route_of(path))->open;
}

/* The same, no packet's fate is drawn, and none waits. */
static inline bool urxe_route_is_sure(const struct urxe_path *path)
{
	return urxe_route_now(urxe_route_of(path))->sure;
}

/* Do packets of the path arrive later, or behind some that do? */
static inline bool urxe_route_is_late(const struct urxe_path *path)
{
	const struct urxe_route *route = urxe_route_now(urxe_route_of(path));

	return route->lag.delay || route->lag.waiting;
}

/* A packet begins to wait for the links' delay: when it arrives. One that left earlier does not
 * arrive later. */
uint64_t urxe_route_wait(struct urxe_lag *lag, uint64_t now);
/* It waits no longer. */
void urxe_route_waited(struct urxe_lag *lag);

/*
 * A packet (or a run: span packets) leaves: counts it, on all its way or to where it is lost. True:
 * it arrives. len: bytes from the BTH on, payload and pad included.
 */
bool urxe_route_take(const struct urxe_path *path, const uint8_t *bth, uint32_t len,
		     uint32_t payload, unsigned span);

/* The same for a packet to a multicast group: copies are lost each by itself, */
void urxe_route_take_group(const struct urxe_path *path, const struct urxe_tx_packet *pkt);
/* and the one that was taken last arrives at this host, by its number in slots, with that lag.
 * NULL: it does not. */
struct urxe_lag *urxe_route_reaches(const struct urxe_path *path, uint32_t host);

/* A row is written by one process alone. */
static inline void urxe_row_add(struct fabric_row *row, uint64_t packets, uint64_t words)
{
	atomic_store_explicit(&row->packets,
			      atomic_load_explicit(&row->packets, memory_order_relaxed) + packets,
			      memory_order_relaxed);
	atomic_store_explicit(&row->words,
			      atomic_load_explicit(&row->words, memory_order_relaxed) + words,
			      memory_order_relaxed);
}

static inline uint32_t urxe_packet_bytes(const struct urxe_tx_packet *pkt)
{
	return pkt->header_len + pkt->payload_len + urxe_pad_of(pkt->payload_len);
}

/* The short way: one small packet, or two of which the second begins at first, on a route that is
 * sure. */
static inline bool urxe_route_take_short(const struct urxe_path *path, const uint8_t *bth,
					 uint32_t first, uint32_t len)
{
	struct urxe_route *route = urxe_route_of(path);
	uint16_t pkey = urxe_bth_pkey((const struct urxe_bth *)bth);
	unsigned n = first < len ? 2 : 1;
	struct fabric_row *row = route->row;

	if (!row || (route->enforced && pkey != route->pkey))
		return urxe_route_take(path, bth, first, 0, 1) &&
		       (n == 1 || urxe_route_take(path, bth + first, len - first, 0, 1));
	urxe_row_add(row, n, n * route->head_words + len / 4);
	return true;
}

/* What was found is to be found again: the power went or came. */
void urxe_routes_renew(void);
/* The end of the wire, and with it of the process's ledger. */
void urxe_routes_close(bool forked);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of the shared-memory wire share (neighbour.c, shm_send.c, shm_receive.c, refs.c).
 * Guarded by the engine's lock, but for what pollers and the service thread read without it.
 *
 * A window (host/segment_window.h), in which the rings to its owner lie:
 *
 *	0	line 0: its owner		line 1: does it sleep, have rings been opened
 *	4096	opened: for each slot, the life of the process that has opened its ring
 *	8192	rings: one for each slot, backed when it is opened. A producer maps its own alone.
 *
 * A ring's producer backs and opens it, if the consumer says that it is closed (0). The consumer
 * closes it again when it has taken everything that a producer which is gone left there. So a ring
 * has at each time one owner of each end, though either may die at any instruction.
 */
#ifndef URXE_WIRE_SHM_H
#define URXE_WIRE_SHM_H

#include "wire/neighbour.h"
#include "wire/private.h"
#include "wire/ring.h"
#include "wire/route.h"
#include "wire/way.h"

#define URXE_FLOWS     16
#define WINDOW_MAGIC   0x776f646e6957u
#define WINDOW_VERSION 5

struct urxe_window {
	uint64_t magic;
	uint32_t version;
	uint32_t life;
	uint8_t unused0[48];
	_Atomic uint32_t sleeps; /* a producer that fills a ring must wake the owner */
	_Atomic uint32_t opens;	 /* counts rings that were opened */
	uint8_t unused1[4096 - 72];
	_Atomic uint32_t opened[URXE_MAX_SLOTS]; /* by producer's slot: its life; 0: closed */
	struct urxe_ring rings[];		 /* by producer's slot */
};
static_assert(offsetof(struct urxe_window, sleeps) == 64, "as in the picture");
static_assert(offsetof(struct urxe_window, opened) == 4096, "as in the picture");
static_assert(offsetof(struct urxe_window, rings) == 8192, "as in the picture");

/* How packets come is said once for all that follow: by the sender's path. */
static_assert(sizeof(struct urxe_path) <= URXE_RING_INLINE, "goes into a cell");

/* A packet whose payload is elsewhere: this, the pieces, the headers. */
struct urxe_ring_refs {
	uint32_t epoch;
	uint32_t payload_len;
	uint16_t n;
	uint16_t header_len;
	uint32_t unused;
	struct {
		uint64_t addr, len;
	} piece[];
};

/* Rings to a neighbour. */
struct urxe_link {
	struct urxe_neighbour near;
	bool up;
	uint64_t try_at;	    /* while it is not: when to try next, ns */
	struct urxe_window *window; /* its, without the rings */
	struct urxe_ring *ring;	    /* ours in it */
	struct urxe_producer out;
	struct urxe_path flows[URXE_FLOWS];
	unsigned num_flows, last_flow;
	uint64_t full_since; /* no room since then, with the consumer here: */
	uint32_t full_taken;
	uint64_t full_at; /* when it was last found full */
	bool behind;	  /* the neighbour does not keep up: what finds no room is referred to */
	struct urxe_ways ways;
	uint64_t asked_at; /* whether it lives */
	uint64_t seen_at;  /* alive, by urxe_wire_send_near() */
};

/* The ring from a neighbour. */
struct urxe_inlet {
	struct urxe_consumer in;
	unsigned slot;
	uint32_t life;	/* 0: closed */
	uint32_t bytes; /* that were taken of it in this turn */
	struct urxe_arrival flows[URXE_FLOWS];
	bool known[URXE_FLOWS];
};

struct urxe_refs {
	struct urxe_ring *ring; /* of the sender */
	unsigned slot;
	uint32_t life;
	uint32_t epoch;
	unsigned n;
	struct iovec piece[URXE_MAX_REFS];
};

struct urxe_shm {
	struct urxe_window *window; /* ours; NULL: it could not be made, and packets go by UDP */
	uint64_t cookie;	/* for neighbours, to see that they read this process's memory */
	_Atomic uint32_t opens; /* as seen when inlets were looked for */
	_Atomic(struct urxe_inlet *) inlets[URXE_MAX_SLOTS]; /* in the order of their first ones */
	_Atomic unsigned num_inlets;
	struct urxe_inlet *inlet_of[URXE_MAX_SLOTS]; /* the same, by slot */
	struct urxe_link *links[URXE_MAX_SLOTS];     /* by slot */
	_Atomic bool asleep; /* somebody is between urxe_wire_sleep() and urxe_wire_awake() */
	bool woken;	     /* a wake-up was received since the rings were last looked at */
	uint64_t heard_at;   /* when a neighbour's packet was last taken, ns */
};

/* neighbour.c */
int urxe_shm_create(struct urxe_wire *wire);
void urxe_shm_destroy(struct urxe_wire *wire, bool forked);
void urxe_shm_housekeep(struct urxe_wire *wire);
/* The link to a slot's process; NULL when there is none and none can be made now. */
struct urxe_link *urxe_shm_try_link(struct urxe_wire *wire, unsigned slot);
static inline struct urxe_link *urxe_shm_link(struct urxe_wire *wire, unsigned slot)
{
	struct urxe_link *link = wire->shm->links[slot % URXE_MAX_SLOTS];

	return link && link->up ? link : urxe_shm_try_link(wire, slot);
}
/* The slot of the process that has a QP at the other end of a path, if it can be reached; 0. A QP
 * of another host than the path leads to is none of its, whatever its number. */
static inline unsigned urxe_shm_slot(struct urxe_wire *wire, const struct urxe_path *path,
				     uint32_t qpn)
{
	unsigned slot = urxe_owner_of(wire->seg, qpn);

	if (__builtin_expect(path->link == URXE_LINK_FABRIC, 0) &&
	    (!urxe_route_is_open(path) ||
	     urxe_segment_slot_host(wire->seg, slot) != urxe_route_of(path)->host))
		return 0;
	return slot;
}
/* The link to that process; NULL: packets go by other ways. */
static inline struct urxe_link *urxe_shm_link_to(struct urxe_wire *wire,
						 const struct urxe_path *path, uint32_t qpn)
{
	return wire->shm && path->here ? urxe_shm_link(wire, urxe_shm_slot(wire, path, qpn)) : NULL;
}
/* Is the neighbour of a link, or of an inlet, dead, even if its slot is in use again? Some system
 * calls. */
bool urxe_shm_has_gone(struct urxe_wire *wire, unsigned slot, uint32_t life);
/* Looks for rings that were opened. */
void urxe_shm_look(struct urxe_wire *wire);
/* Wakes the neighbour, if it sleeps: after packets were laid into its ring. */
static inline void urxe_shm_wake(struct urxe_wire *wire, struct urxe_link *link)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&link->window->sleeps, memory_order_relaxed) &&
	    atomic_exchange(&link->window->sleeps, 0))
		urxe_ipc_wake(wire, link->near.slot);
}

/* shm_send.c: like urxe_wire_send(); the packets are for one slot. */
int urxe_shm_send(struct urxe_wire *wire, struct urxe_link *link, const struct urxe_path *path,
		  const struct urxe_tx_packet *pkts, unsigned n);
/* The same for a copy to a multicast group. */
int urxe_shm_send_copy(struct urxe_wire *wire, struct urxe_link *link, const struct urxe_path *path,
		       const struct urxe_tx_packet *pkt, struct urxe_lag *lag);
/* A record that fault injection kept. 0, or -EAGAIN: no room. */
int urxe_shm_send_raw(struct urxe_wire *wire, unsigned slot, const struct urxe_path *path,
		      const struct urxe_record *rec);

/* A wake-up of a neighbour was received. */
void urxe_shm_woken(struct urxe_wire *wire);

/* shm_receive.c */
int urxe_shm_receive(struct urxe_wire *wire, unsigned budget);
/* All that is left in a ring. */
void urxe_shm_drain(struct urxe_wire *wire, struct urxe_inlet *inlet);
/* A record that fault injection kept. */
void urxe_shm_receive_raw(struct urxe_wire *wire, struct urxe_arrival *from,
			  const struct urxe_record *rec);

#endif

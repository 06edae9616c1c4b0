/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours: the processes of this host segment (and this one itself) that packets reach through
 * shared memory. A destination is a neighbour's when its address is one of this network namespace's
 * and its QPN's slot belongs to a living process whose window (host/segment_window.h) could be
 * mapped. Under the engine's lock.
 *
 * A slot may be another process's later; life tells them apart.
 */
#ifndef URXE_WIRE_NEIGHBOUR_H
#define URXE_WIRE_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct urxe_neighbour {
	unsigned slot;
	uint32_t life; /* urxe_segment_slot_life() */
	uint32_t pid;  /* in its own pid namespace, which may not be ours */
	bool self;     /* this process */
};

/*
 * The neighbour that has this QPN at the path's destination; NULL: there is none (any more, or
 * yet), and packets go by UDP. The pointer is good for as long as the wire is; what it points to,
 * until the engine's lock is given back. Cheap enough to be asked for each operation.
 */
struct urxe_neighbour *urxe_wire_neighbour(struct urxe_wire *wire, const struct urxe_path *path,
					   uint32_t qpn);

/* The CPU time that the neighbour's process has had, ns; 0 when it is dead or cannot be
 * asked. Some system calls. */
uint64_t urxe_wire_neighbour_ran(struct urxe_wire *wire, const struct urxe_neighbour *near);

/*
 * The short way into a neighbour's ring, for one packet with or without an acknowledgement behind
 * it: where to write len bytes, or NULL, and then they go by urxe_wire_send(). Both together are
 * URXE_PAIR_MAX bytes at most.
 */
#define URXE_PAIR_MAX 48
struct urxe_short {
	struct urxe_link *link;
	uint8_t *to;
	int flow;
};
uint8_t *urxe_wire_short(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn,
			 uint32_t len, struct urxe_short *way);
/* What was written leaves; first: the bytes of the first of two packets, or len. */
void urxe_wire_short_send(struct urxe_wire *wire, const struct urxe_path *path,
			  const struct urxe_short *way, uint32_t first, uint32_t len);

/*
 * For a QP that reaches a neighbour without packets: would packets of the path with that P_Key
 * arrive for sure, and their answers? And counts on a fabric what would have been sent: packets,
 * and words of four bytes from the BTH on without its ICRC; and what the answers would have been.
 */
struct urxe_load {
	uint32_t packets, words;
};
bool urxe_wire_reaches(const struct urxe_path *path, uint16_t pkey);
void urxe_wire_count_direct(const struct urxe_path *path, struct urxe_load there,
			    struct urxe_load back);

/* Do faults make packets of this path suffer now? Then other ways than packets should be declined
 * at times, so that both are exercised. */
bool urxe_wire_faulty(struct urxe_wire *wire, const struct urxe_path *path);

#endif

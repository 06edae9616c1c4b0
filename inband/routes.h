/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Route tables for fat trees: for each switch, which output ports lead to each frame, and to each
 * node of the own frame. A packet goes up while its destination is not below, and then down; so no
 * table can make a cycle, and routes_cycle() looks whether that holds for tables as they are. Any
 * thread.
 */
#ifndef INBAND_ROUTES_H
#define INBAND_ROUTES_H

#include "inband/machine.h"
#include "inband/registers.h"

struct routes {
	const struct machine *machine;
	uint8_t *rank; /* of each switch: steps from the nodes; 255: none */
	/* TABLE_ENTRIES of each switch: ports that lead down to it, and up towards it. */
	uint32_t *down, *up;
	uint32_t *up_ports; /* of each switch: those of higher rank are behind them */
};

/*
 * live: for each port of the machine whether its link may be used; NULL: all. -ENOTSUP: switches of
 * one rank are cabled to each other, or there are more frames than a table has entries.
 */
int routes_create(const struct machine *machine, const bool *live, struct routes **routes);
void routes_destroy(struct routes *routes);

/* Output ports for packets that come in by a port of switch `chip`. */
uint32_t routes_entry(const struct routes *routes, uint32_t chip, unsigned in_port, unsigned index);
/* The entry that a switch of a frame (FRAME_NONE: of none) looks a destination up in. */
unsigned routes_index(const struct machine *machine, unsigned own_frame, uint32_t destination);

/*
 * A cycle of links, each of which a packet may hold while it waits for the next: 0: there is none;
 * 1: there is; *port is on it. entry(arg, chip, in_port, index) is asked for the tables.
 */
int routes_cycle(const struct machine *machine,
		 uint32_t (*entry)(const void *arg, uint32_t chip, unsigned in_port,
				   unsigned index),
		 const void *arg, uint32_t *port);

#endif

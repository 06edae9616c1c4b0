/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A machine as it is meant to be: chips, the cables between their ports, and where they stand. It
 * is what thsim builds and what a server compares its discoveries with. From a generator
 * (Tianhe-2's wiring) or from a file (machine_file.c).
 *
 * NRCs come first in the array of chips, then NICs. Ports of all chips are numbered through:
 * port p of chip c is ports[chips[c].first_port + p]. Immutable once built; any thread.
 */
#ifndef INBAND_MACHINE_H
#define INBAND_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "inband/nmp.h"

#define MACHINE_NONE	  UINT32_MAX
#define MACHINE_NRC_PORTS 24
#define MACHINE_NAME_LEN  32
#define MACHINE_PLACE_LEN 80

enum machine_layer {
	LAYER_NODE,
	LAYER_EDGE, /* bottom switch, beside the nodes */
	LAYER_SPINE,
	LAYER_LEAF,
	LAYER_ROOT_EDGE,
	LAYER_ROOT_SPINE,
	LAYER_OTHER,
	LAYERS
};

enum machine_row { ROW_COMPUTE, ROW_LEAF, ROW_ROOT, ROW_NONE };

struct machine_chip {
	uint8_t type; /* enum nmp_chip */
	uint8_t layer;
	uint8_t ports;
	uint8_t row;			/* which kind of cabinet: enum machine_row */
	uint8_t frame, board, position; /* in the cabinet; of the chip on its board */
	uint16_t cabinet;
	uint32_t id; /* unique among the chips of its type */
	uint32_t first_port;
	const char *name; /* of a file; NULL: made from the place */
};

struct machine_port {
	uint32_t chip;
	uint32_t peer; /* a port, or MACHINE_NONE */
	bool optical;  /* two cables and not a board */
};

struct machine {
	char name[16];
	uint32_t nrcs, nics, servers; /* servers: management NICs, the last of the chips */
	uint32_t frame_nodes; /* NICs of a frame have IDs that follow one another; 32 at most */
	uint32_t chip_count, port_count;
	struct machine_chip *chips;
	struct machine_port *ports;
	uint32_t *by_id[2]; /* chip of an ID, by type; MACHINE_NONE */
	uint32_t ids[2];    /* length of those */
	void *texts;	    /* names of a file */
};

/*
 * Tianhe-2 as wired: 5,856 NRCs, 18,304 NICs, and `servers` (1 to 8) management NICs in the service
 * cabinet, the second at the far end. 0, or -ENOMEM.
 */
int machine_th2(unsigned servers, struct machine **machine);
/*
 * A smaller machine of the same shape: groups of `frames` frames with one bottom switch of two
 * NRCs, a leaf switch for each of `leaves` links, and `roots` root chips. For tests. -EINVAL: it
 * does not fit 24 ports.
 */
int machine_tree(unsigned groups, unsigned frames, unsigned leaves, unsigned roots,
		 unsigned servers, struct machine **machine);
/* "th2", "tree:G,F,L,R", or a file's name; error: what is wrong with it, and where. */
int machine_load(const char *what, unsigned servers, struct machine **machine, char *error,
		 size_t length);
void machine_destroy(struct machine *machine);

/*
 * To edit: a copy, which the following change. rename: -EINVAL (no name), -EEXIST (another has it);
 * move: to the row, cabinet, frame, board and position of place, with the name that it has;
 * recable: what was at either port has none then; b MACHINE_NONE: no cable.
 */
int machine_copy(const struct machine *machine, struct machine **copy);
int machine_rename(struct machine *copy, uint32_t chip, const char *name);
int machine_move(struct machine *copy, uint32_t chip, const struct machine_chip *place);
int machine_recable(struct machine *copy, uint32_t a, unsigned port_a, uint32_t b, unsigned port_b);
/* 1 to 31 letters, digits, dots, - or _. */
bool machine_is_name(const char *text);

/* For builders: adds chips in order, then cables, then closes the machine. */
int machine_begin(const char *name, uint32_t chips, struct machine **machine);
uint32_t machine_add(struct machine *machine, const struct machine_chip *chip);
void machine_cable(struct machine *machine, uint32_t chip_a, unsigned port_a, uint32_t chip_b,
		   unsigned port_b, bool optical);
/* -EINVAL: two chips of a type have one ID. */
int machine_end(struct machine *machine);

static inline uint32_t machine_port_of(const struct machine *m, uint32_t chip, unsigned port)
{
	return m->chips[chip].first_port + port;
}

/* The chip at the other end, or MACHINE_NONE; *peer_port: its port there. */
uint32_t machine_peer(const struct machine *machine, uint32_t chip, unsigned port,
		      unsigned *peer_port);
uint32_t machine_find(const struct machine *machine, enum nmp_chip type, uint32_t id);
/* A chip by its name ("S.leaf.3.7", "N.17", "nrc:ID", "nic:ID"), with ":PORT" if port is not NULL.
 * */
uint32_t machine_find_name(const struct machine *machine, const char *name, unsigned *port);
const char *machine_chip_name(const struct machine *machine, uint32_t chip,
			      char name[MACHINE_NAME_LEN]);
/* Where a port is for who has to go there: cabinet, frame, board, QSFP sockets. */
const char *machine_place(const struct machine *machine, uint32_t chip, int port,
			  char place[MACHINE_PLACE_LEN]);

/* The frame that a chip belongs to, by the nodes beside it: FRAME_NONE for those of no frame. */
unsigned machine_frame(const struct machine *machine, uint32_t chip);
uint32_t machine_optical_links(const struct machine *machine);
/*
 * Chips by hops from a management NIC: how many NRCs the way to them leads through. hops: an array
 * of a byte for each chip, 255 where none leads.
 */
int machine_hops(const struct machine *machine, uint32_t from, uint8_t *hops);

/* Writes it in the format of files. */
int machine_write(const struct machine *machine, FILE *file);
/* The same as ibnetdiscover prints a subnet. */
int machine_write_topology(const struct machine *machine, FILE *file);
int machine_read(FILE *file, struct machine **machine, char *error, size_t length);

#endif

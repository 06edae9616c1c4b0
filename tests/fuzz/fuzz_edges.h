/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What stands around the adapter in fuzz_responder and fuzz_ipc: see fuzz_edges.c. */
#ifndef URXE_FUZZ_EDGES_H
#define URXE_FUZZ_EDGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/device.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

struct edges {
	struct urxe_device device;
	struct urxe_port port;
	uint64_t clock_now; /* ns */
	/* Peers are neighbours; whose memory may be referred to; and has gone when it is read. */
	bool near, refers, stale;
	/* Acknowledgements wait for what the program sends. */
	bool acks_may_wait;
	/* Slots that have a process, a bit each; and how many each had. */
	uint32_t alive, lives;
};
extern struct edges edges;

/* May the adapter take its short ways? Otherwise the same comes to pass without them. */
extern bool short_ways;

/* What comes to pass: noted in the first of two runs, and to be the same in the second. */
void note(const void *what, size_t len);
void notes_begin(bool second);
void notes_end(void);

struct urxe_refs {
	uint32_t len;
	uint8_t bytes[];
};

struct kept {
	uint32_t len;
	uint16_t span;
	bool other; /* by the port's second GID */
	struct urxe_refs *refs;
	uint8_t bytes[];
};

void edges_begin(void);
/* The adapter, with a port: opened once, because that takes a
 * millisecond; its clock starts anew. */
struct ibv_context *edges_open(void);
void edges_end(void);

/* The oldest packet on the wire, or NULL; the caller has it, and forgets it, when it has taken it.
 * */
struct kept *oldest_kept(void);
void take_oldest(void);
void forget(struct kept *k);

struct urxe_refs *make_refs(uint32_t len);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The fault wire: loses, doubles, reorders, delays and corrupts packets on purpose, as
 * URXE_FAULT or `urxe fault` say. Seeded: the same specification and the same packets give the same
 * faults. Guarded by the wire's lock; urxe_fault_parse() is pure.
 *
 * A specification is a list of key=value, separated by commas:
 *
 *	drop, dup, reorder, corrupt	chance per packet: "2%", "0.5%" or a fraction "0.02"
 *	delay				"1ms", "20us", "300ns", "1s": every packet waits that long
 *	seed				number of the random sequence, default 1
 *	dir				out (default), in, both
 *
 * Corruption flips one to three bits anywhere between BTH and ICRC after the ICRC was computed.
 * A reordered packet waits until one to eight later ones have passed it, or for a millisecond.
 */
#ifndef URXE_WIRE_FAULT_H
#define URXE_WIRE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum urxe_fault_dir {
	URXE_FAULT_OUT = 1,
	URXE_FAULT_IN = 2,
	URXE_FAULT_BOTH = 3,
};

struct urxe_fault {
	/* Chances, of 2^32. */
	uint64_t drop, dup, reorder, corrupt;
	uint64_t delay; /* ns */
	uint64_t seed;
	enum urxe_fault_dir dir;
	uint64_t state; /* of the random sequence */
};

/* What happens to one packet. */
struct urxe_fate {
	bool drop, dup, corrupt;
	unsigned reorder; /* packets that pass it; 0: in order */
};

/*
 * Reads a specification ("" and NULL: no faults). -EINVAL, with one line in err (of size bytes)
 * that names the mistake. *fault is changed on success only.
 */
int urxe_fault_parse(const char *spec, struct urxe_fault *fault, char *err, size_t size);

/* Does it do anything in that direction? */
static inline bool urxe_fault_active(const struct urxe_fault *fault, enum urxe_fault_dir dir)
{
	return (fault->dir & dir) &&
	       (fault->drop | fault->dup | fault->reorder | fault->corrupt | fault->delay);
}

/* Draws the fate of the next packet. Always takes the same count of random numbers. */
struct urxe_fate urxe_fault_draw(struct urxe_fault *fault);
/* Flips one to three different bits of a packet of len bytes (at least 1). */
void urxe_fault_corrupt(struct urxe_fault *fault, void *packet, uint32_t len);

#endif

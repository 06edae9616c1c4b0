/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How long the service thread leaves the wire to a program that polls (engine.h). A lease that is
 * renewed doubles. One that ran out while packets waited is cut by four, down to none. To double
 * again it must then be renewed eight times in a row, then four times, then two.
 *
 * Once is not enough: two programs that by turns poll for a completion and watch their memory
 * (ib_write_lat) poll while the other's lease runs out. Each would make good what the end of its
 * own has cut, and both would go on by leases of milliseconds. Eight times each time is too slow
 * where a turn of the engine is not much shorter than the shortest lease (an emulated machine):
 * the service thread would take the wire from the program for a second. One thread; times in ns.
 */
#ifndef URXE_HCA_LEASE_H
#define URXE_HCA_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define URXE_LEASE_MIN	    50000ull /* shorter than this is none at all */
#define URXE_LEASE_MAX	    8000000ull
#define URXE_LEASE_RENEWALS 8

struct urxe_lease {
	uint64_t span;	   /* 0: none */
	unsigned renewals; /* in a row */
	unsigned needed;   /* of them to double the lease; 0 and 1: each does */
};

/* Somebody polls: there is a lease, if only the shortest. */
static inline void urxe_lease_begin(struct urxe_lease *lease)
{
	if (!lease->span)
		lease->span = URXE_LEASE_MIN;
}

static inline void urxe_lease_renewed(struct urxe_lease *lease)
{
	if (++lease->renewals < lease->needed)
		return;
	lease->renewals = 0;
	lease->needed /= 2;
	lease->span *= 2;
	if (lease->span > URXE_LEASE_MAX)
		lease->span = URXE_LEASE_MAX;
}

/* It was not renewed. */
static inline void urxe_lease_ran_out(struct urxe_lease *lease, bool packets_waited)
{
	lease->renewals = 0;
	if (packets_waited) {
		lease->needed = URXE_LEASE_RENEWALS;
		lease->span = lease->span / 4 < URXE_LEASE_MIN ? 0 : lease->span / 4;
	}
}

#endif

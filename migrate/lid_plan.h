/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which host has which LID, for adapters whose virtual functions share their host's (mode
 * shared-port). Each host has a base LID, which OpenSM gave it. Each guest has a floating LID,
 * taken from above the base LIDs downwards; it replaces the base LID of the host that the guest
 * runs on. A plan is the whole of it, so guests that cross are one change.
 *
 * Pure functions.
 */
#ifndef MIGRATE_LID_PLAN_H
#define MIGRATE_LID_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "migrate/guid2lid.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define LID_PLAN_NO_HOST SIZE_MAX

struct lid_host {
	uint64_t guid; /* of its port */
	uint16_t base; /* the first of its own LIDs */
	uint16_t lid;  /* result: the first of those that it is to have */
};

struct lid_guest {
	uint64_t guid;	   /* its vGUID */
	size_t host;	   /* where it runs; LID_PLAN_NO_HOST: nowhere now */
	uint16_t floating; /* 0: it has none yet; the result else */
};

struct lid_plan {
	size_t size; /* of this structure as the program knows it */
	struct lid_host *hosts;
	size_t num_hosts;
	struct lid_guest *guests;
	size_t num_guests;
	const struct guid2lid *taken; /* LIDs that nobody else may get */
	unsigned lmc;
	/* The largest LID for guests: 0: so that all hosts' worth of guests fit just above the base
	 * LIDs. */
	uint16_t floating_from;
	size_t room;	     /* of that block: for how many guests at least */
	uint16_t linear_cap; /* the smallest LinearFDBCap of the switches: LIDs are below it */

	uint16_t first_floating; /* result: where floating_from came to be, clamped and aligned */
	size_t culprit;		 /* of an error: the guest; not set where there is no size */
};

/*
 * Fills in the results. A floating LID stays where it is. -EBUSY: the culprit's host has a guest
 * already; -ENOSPC: there is no LID for the culprit; -EINVAL: its floating LID is not aligned to
 * the LMC, or beyond what the switches forward; or there is no size.
 */
int lid_plan_make(struct lid_plan *plan);

/* The entry of guid2lid that a host is to have. */
struct guid2lid_entry lid_plan_entry(const struct lid_plan *plan, size_t host);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif

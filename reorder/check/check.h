/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* reorder-check: what main.c asks of run.c. */
#ifndef REORDER_CHECK_H
#define REORDER_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct check_options {
	bool loss;	  /* packets and CLEARs are lost */
	int64_t skew;	  /* ps, at most, between clocks */
	int64_t drift;	  /* parts per million, at most */
	unsigned without; /* rules left out */
};

struct check_result {
	uint64_t sent, lost, refused, arrived;
	uint64_t misordered;
	uint64_t late, no_entry; /* what the library counted */
	uint64_t held, reroutes, by_tail, by_proof, by_timer, by_bound;
	const char *wrong; /* NULL, or what must not happen */
};

/* One run of two sources, one destination and a few flows, all at random from the seed. */
void check_run(const struct check_options *options, uint64_t seed, struct check_result *result);

#endif

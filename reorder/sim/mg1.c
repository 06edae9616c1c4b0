/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fabric-sim mg1: the simulator's own queue against Pollaczek and Khinchine's formula. Packets come
 * to one port at random times (Poisson) with sizes that are constant, exponential or of two kinds;
 * the mean wait must be within 3 % of lambda E[S^2] / (2 (1 - rho)).
 */
#include "reorder/sim/sim.h"

#include <string.h>

#define PACKETS	 4000000
#define PER_BYTE 80

enum sizes { CONSTANT, EXPONENTIAL, BIMODAL };

static int64_t draw_service(enum sizes sizes, uint64_t *random)
{
	switch (sizes) {
	case CONSTANT: return 1000 * PER_BYTE;
	case EXPONENTIAL: return random_exponential(random, 1000 * PER_BYTE);
	case BIMODAL: break;
	}
	return (random_below(random, 2) ? 64 : 1500) * PER_BYTE;
}

/* E[S] and E[S^2] in ps and ps^2. */
static void moments(enum sizes sizes, double *first, double *second)
{
	double unit = 1000.0 * PER_BYTE;

	*first = sizes == BIMODAL ? 782.0 * PER_BYTE : unit;
	*second = sizes == CONSTANT	 ? unit * unit
		  : sizes == EXPONENTIAL ? 2 * unit * unit
					 : (64.0 * 64 + 1500.0 * 1500) / 2 * PER_BYTE * PER_BYTE;
}

/* The mean wait in ps: arrivals are events, and the link is free when its last packet has gone. */
static double measure(enum sizes sizes, int64_t gap, uint64_t seed)
{
	uint64_t random = seed;
	int64_t now = 0, free_at = 0;
	double waited = 0;
	enum event_kind kind;
	uint32_t index;

	event_init();
	event_add(0, random_exponential(&random, gap), ARRIVE, 0);
	for (uint32_t n = 0; n < PACKETS && event_next(&now, &kind, &index); n++) {
		int64_t begin = now > free_at ? now : free_at;

		waited += (double)(begin - now);
		free_at = begin + draw_service(sizes, &random);
		event_add(now, now + random_exponential(&random, gap), ARRIVE, 0);
	}
	event_fini();
	return waited / PACKETS;
}

int mg1(const struct options *o)
{
	static const char *const names[] = {"constant", "exponential", "bimodal"};
	int bad = 0;

	printf("%-12s %5s %14s %14s %7s\n", "sizes", "load", "measured us", "formula us", "ratio");
	for (int sizes = CONSTANT; sizes <= BIMODAL; sizes++) {
		for (int load = 30; load <= 90; load += 20) {
			double first, second, rho = load / 100.0, expected, measured;
			int64_t gap;

			moments(sizes, &first, &second);
			gap = (int64_t)(first / rho);
			expected = second / (double)gap / (2 * (1 - rho));
			measured = measure(sizes, gap, o->seed * 1000 + (uint64_t)load);
			bad += measured > expected * 1.03 || measured < expected * 0.97;
			printf("%-12s %4d%% %14.4f %14.4f %7.3f\n", names[sizes], load,
			       measured / 1e6, expected / 1e6, measured / expected);
		}
	}
	if (bad)
		fprintf(stderr, "fabric-sim: %d of 12 are off by more than 3 %%\n", bad);
	return bad ? -1 : 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Random numbers in integers, so that they are the same everywhere. */
#include "reorder/sim/sim.h"

uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint32_t random_below(uint64_t *state, uint32_t limit)
{
	return (uint32_t)((random_next(state) >> 32) * limit >> 32);
}

/* -log2(u / 2^64) in units of 2^-32, bit by bit: squaring doubles the logarithm. */
static uint64_t minus_log2(uint64_t u)
{
	unsigned zeros = (unsigned)__builtin_clzll(u | 1);
	uint64_t result = (uint64_t)(zeros + 1) << 32;
	uint64_t x = (u | 1) << zeros; /* 1.63 fixed point, in [1, 2) */

	for (int bit = 31; bit >= 0; bit--) {
		x = (uint64_t)((unsigned __int128)x * x >> 64); /* in [1, 4) / 2 */
		if (x >> 63)
			result -= (uint64_t)1 << bit; /* it was 2 or more: x is halved already */
		else
			x <<= 1;
	}
	return result;
}

int64_t random_exponential(uint64_t *state, int64_t mean)
{
	uint64_t log2 = minus_log2(random_next(state));

	/* ln 2 in units of 2^-32 is 2977044472. */
	return (int64_t)((unsigned __int128)log2 * 2977044472u * (uint64_t)mean >> 64);
}

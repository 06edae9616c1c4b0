/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Random numbers for times and transaction IDs (xorshift64*, Marsaglia and Vigna): fast, and
 * reproducible from a seed. The state must not be 0; it is guarded by its owner's lock.
 */
#ifndef SACACHE_RANDOM_H
#define SACACHE_RANDOM_H

#include <stdint.h>

/* 32 bits. */
static inline uint64_t sa_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dull >> 32;
}

#endif

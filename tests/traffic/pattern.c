/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Contents: byte number off of the pattern key is byte off % 8 of a hash of (key, off / 8), so that
 * any part of any message can be made and checked at any time by itself. Pure functions; a
 * generator's state belongs to its caller.
 */
#include <string.h>

#include "traffic.h"

#define GOLDEN 0x9e3779b97f4a7c15ull

uint64_t mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9ull;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t rng_next(uint64_t *state)
{
	return mix64(*state += GOLDEN);
}

uint32_t rng_below(uint64_t *state, uint32_t n)
{
	return (rng_next(state) >> 32) * n >> 32;
}

static inline uint64_t word(uint64_t key, uint64_t n)
{
	return mix64(key + n * GOLDEN);
}

uint8_t pattern_byte(uint64_t key, uint64_t off)
{
	return word(key, off / 8) >> (off % 8 * 8);
}

static inline __attribute__((always_inline)) void fill(void *buf, uint64_t key, uint64_t off,
						       size_t len)
{
	uint8_t *p = buf;

	for (; len && off % 8; len--)
		*p++ = pattern_byte(key, off++);
	for (; len >= 8; len -= 8, off += 8, p += 8) {
		uint64_t w = word(key, off / 8);

		memcpy(p, &w, 8);
	}
	for (; len; len--)
		*p++ = pattern_byte(key, off++);
}

static inline __attribute__((always_inline)) size_t check(const void *buf, uint64_t key,
							  uint64_t off, size_t len)
{
	const uint8_t *p = buf;
	size_t i = 0;

	for (; i < len && (off + i) % 8; i++)
		if (p[i] != pattern_byte(key, off + i))
			return i;
	for (; i + 8 <= len; i += 8) {
		uint64_t w;

		memcpy(&w, p + i, 8);
		if (w != word(key, (off + i) / 8))
			break; /* the byte is found below */
	}
	for (; i < len; i++)
		if (p[i] != pattern_byte(key, off + i))
			return i;
	return len;
}

void pattern_fill(void *buf, uint64_t key, uint64_t off, size_t len)
{
	fill(buf, key, off, len);
}

size_t pattern_check(const void *buf, uint64_t key, uint64_t off, size_t len)
{
	return check(buf, key, off, len);
}

UNORDERED void area_fill(void *buf, uint64_t key, uint64_t off, size_t len)
{
	fill(buf, key, off, len);
}

UNORDERED size_t area_check(const void *buf, uint64_t key, uint64_t off, size_t len)
{
	return check(buf, key, off, len);
}

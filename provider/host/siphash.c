// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* SipHash-2-4; see siphash.h. Pure functions, any thread. */
#include <endian.h>
#include <string.h>

#include "host/siphash.h"

static uint64_t rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static inline __attribute__((always_inline)) void rounds(uint64_t v[4], unsigned n)
{
#pragma GCC unroll 4
	for (unsigned i = 0; i < n; i++) {
		v[0] += v[1];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[0] = rotl(v[0], 32);
		v[2] += v[3];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[2] = rotl(v[2], 32);
	}
}

static inline __attribute__((always_inline)) void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t urxe_siphash(const uint64_t key[2], const void *data, size_t len)
{
	uint64_t v[4] = {
		key[0] ^ 0x736f6d6570736575,
		key[1] ^ 0x646f72616e646f6d,
		key[0] ^ 0x6c7967656e657261,
		key[1] ^ 0x7465646279746573,
	};
	const uint8_t *p = data;
	uint64_t word;
	size_t left;

	for (left = len; left >= 8; left -= 8, p += 8) {
		memcpy(&word, p, 8);
		absorb(v, le64toh(word));
	}
	word = 0;
	memcpy(&word, p, left);
	absorb(v, le64toh(word) | (uint64_t)len << 56);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

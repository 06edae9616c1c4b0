/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CRC-32 in two ways, and the choice between them. ISA-L's is five times as fast where the processor
 * multiplies without carry, and half to a quarter as fast in an emulated machine, which says that it
 * does and takes a loop for each product, or where it does not at all. So it is measured.
 */
#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>
#include <time.h>

#include "wire/crc32.h"

#define POLY  0xedb88320u /* reflected */
#define TRIES 4
#define BYTES 2048

urxe_crc32_fn *urxe_crc32 = urxe_crc32_isal;

/* tables[k][b]: what byte b does to the CRC when k more bytes follow it. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t crc = b;

		for (unsigned bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ POLY : crc >> 1;
		tables[0][b] = crc;
	}
	for (unsigned k = 1; k < 8; k++)
		for (uint32_t b = 0; b < 256; b++)
			tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xff];
}

uint32_t urxe_crc32_isal(uint32_t crc, const void *bytes, size_t len)
{
	return crc32_gzip_refl(crc, (unsigned char *)bytes, len);
}

uint32_t urxe_crc32_tables(uint32_t crc, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	crc = ~crc;
	for (; len >= 8; len -= 8, at += 8) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		word = le64toh(word) ^ crc;
		crc = tables[7][word & 0xff] ^ tables[6][word >> 8 & 0xff] ^
		      tables[5][word >> 16 & 0xff] ^ tables[4][word >> 24 & 0xff] ^
		      tables[3][word >> 32 & 0xff] ^ tables[2][word >> 40 & 0xff] ^
		      tables[1][word >> 48 & 0xff] ^ tables[0][word >> 56];
	}
	for (; len; len--, at++)
		crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
	return ~crc;
}

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ns; the best of several, since anything may come in between. */
static uint64_t time_of(urxe_crc32_fn *fn)
{
	uint8_t bytes[BYTES] = {0};
	uint64_t best = UINT64_MAX;

	for (unsigned k = 0; k < TRIES; k++) {
		uint64_t start = now(), took;

		bytes[0] = fn(0, bytes, sizeof(bytes));
		took = now() - start;
		if (took < best)
			best = took;
	}
	return best;
}

void urxe_crc32_choose(void)
{
	fill_tables();
	urxe_crc32 = time_of(urxe_crc32_tables) < time_of(urxe_crc32_isal) ? urxe_crc32_tables
									   : urxe_crc32_isal;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * CRC-32 in two ways, and the choice between them. ISA-L's is several times as fast where the
 * processor multiplies without carry, and a fraction as fast in an emulated machine, which says
 * that it does and takes a loop for each product, or where it does not at all. So it is measured.
 *
 * Our own has no products and, but for the last bytes, no tables: in an emulated machine a load
 * costs as much as ten shifts. x^300 + x^155 + x^117 + x^89 + 1 is a multiple of the polynomial. So
 * a bit may be taken out of a message, if four bits that come 145, 183, 211 and 300 places later
 * are turned over instead (Russell, Whyte and others: Chorba, arXiv:2412.16398). A word of 64 bits
 * is taken out so by seven shifts, which change the second to the fifth word behind it:
 *
 *	word	 0	  1	  2	    3	      4		5
 *		 taken		  << 17	    >> 47			145 = 2 * 64 + 17
 *				  << 55	    >> 9			183 = 2 * 64 + 55
 *					    << 19     >> 45		211 = 3 * 64 + 19
 *						      << 44	>> 20	300 = 4 * 64 + 44
 */
#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>

#include "host/ticks.h"
#include "wire/crc32.h"

#define POLY  0xedb88320u /* reflected */
#define TRIES 4
#define BYTES 2048

#define WORDS 5		  /* of 64 bits: so far behind a word is what it changes */
#define BLOCK (8 * WORDS) /* bytes */

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

static uint64_t load(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

/* Without the inversions at the beginning and the end. */
static uint32_t by_tables(uint32_t crc, const uint8_t *at, size_t len)
{
	for (; len >= 8; len -= 8, at += 8) {
		uint64_t word = load(at) ^ crc;

		crc = tables[7][word & 0xff] ^ tables[6][word >> 8 & 0xff] ^
		      tables[5][word >> 16 & 0xff] ^ tables[4][word >> 24 & 0xff] ^
		      tables[3][word >> 32 & 0xff] ^ tables[2][word >> 40 & 0xff] ^
		      tables[1][word >> 48 & 0xff] ^ tables[0][word >> 56];
	}
	for (; len; len--, at++)
		crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
	return crc;
}

/* Takes out all blocks but the last whole one, which carry is for; returns the bytes of them. */
static size_t take_words(const uint8_t *at, size_t len, uint64_t carry[WORDS])
{
	size_t done = 0;

	for (; len - done >= 2 * BLOCK; done += BLOCK) {
		/* carry[k] is for word k, and once that is taken out for the one 5 words on. */
#pragma GCC unroll 5
		for (unsigned k = 0; k < WORDS; k++) {
			uint64_t w = load(at + done + 8 * k) ^ carry[k];

			carry[(k + 2) % WORDS] ^= w << 17 ^ w << 55;
			carry[(k + 3) % WORDS] ^= w >> 47 ^ w >> 9 ^ w << 19;
			carry[(k + 4) % WORDS] ^= w >> 45 ^ w << 44;
			carry[k] = w >> 20;
		}
	}
	return done;
}

uint32_t urxe_crc32_shifts(uint32_t crc, const void *bytes, size_t len)
{
	uint64_t carry[WORDS] = {(uint32_t)~crc}, last[WORDS];
	const uint8_t *at = bytes;
	size_t done;

	if (len < 2 * BLOCK)
		return ~by_tables(~crc, at, len);
	done = take_words(at, len, carry);
	at += done;
	for (unsigned k = 0; k < WORDS; k++)
		last[k] = htole64(load(at + 8 * k) ^ carry[k]);
	crc = by_tables(0, (const uint8_t *)last, BLOCK);
	return ~by_tables(crc, at + BLOCK, len - done - BLOCK);
}

/* ns; the best of several, since anything may come in between. */
static uint64_t time_of(urxe_crc32_fn *fn)
{
	uint8_t bytes[BYTES] = {0};
	uint64_t best = UINT64_MAX;

	for (unsigned k = 0; k < TRIES; k++) {
		uint64_t start = urxe_now(), took;

		bytes[0] = fn(0, bytes, sizeof(bytes));
		took = urxe_now() - start;
		if (took < best)
			best = took;
	}
	return best;
}

void urxe_crc32_choose(void)
{
	fill_tables();
	urxe_crc32 = time_of(urxe_crc32_shifts) < time_of(urxe_crc32_isal) ? urxe_crc32_shifts
									   : urxe_crc32_isal;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ICRC over 4 KiB beside memcpy of the same, both in cache: prints GB/s of each. One thread.
 */
#include <stdio.h>
#include <stdint.h>
#include <string.h>

#include "wire/icrc.h"
#include "measure.h"

#define SIZE   4096
#define ROUNDS 400000

static char from[SIZE] __attribute__((aligned(64)));
static char to[SIZE] __attribute__((aligned(64)));

int main(void)
{
	uint32_t crc = ~0u;
	double start, icrc, copy;

	memset(from, 0x5a, sizeof(from));
	start = now_ns();
	for (int i = 0; i < ROUNDS; i++)
		crc = urxe_icrc_add(crc, from, SIZE);
	icrc = now_ns() - start;
	/* The result is used, or the compiler would be free to leave the work out. */
	from[0] = crc;

	start = now_ns();
	for (int i = 0; i < ROUNDS; i++) {
		memcpy(to, from, SIZE);
		__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
	}
	copy = now_ns() - start;
	printf("%.2f %.2f\n", (double)SIZE * ROUNDS / icrc, (double)SIZE * ROUNDS / copy);
	return 0;
}

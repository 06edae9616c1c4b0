/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How long a permission match takes: for tables of several sizes with random keys, the time of one
 * mempool_table_match() when each waits for the one before ("latency") and when they need not
 * ("throughput"); and of adding a row. One thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mempool/table.h"
#include "measure.h"

#define LOOKUPS 4000000

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* wait: the next key depends on the answer; else it is known beforehand */
static double measure(const struct mempool_table *t, const uint32_t *keys, unsigned n, bool wait)
{
	unsigned i, at = 0, bad = 0;
	uint64_t va = 0, sum = 0;
	double start = now_ns();

	for (i = 0; i < LOOKUPS; i++) {
		bad += mempool_table_match(t, keys[at], 1, 0, 0x1000, 64, RMEMPOOL_REMOTE_WRITE,
					   true, &va) != RMEMPOOL_OK;
		at += wait ? va >> 16 : 1; /* every va is 0x10000 */
		sum += va;
		if (at >= n)
			at = 0;
	}
	if (bad || sum != LOOKUPS * 0x10000ull) {
		fprintf(stderr, "%u lookups failed\n", bad);
		exit(1);
	}
	return (now_ns() - start) / LOOKUPS;
}

int main(void)
{
	static const unsigned sizes[] = {10, 1000, 10000, 100000, 1000000};
	unsigned s, i;

	printf("%10s %14s %14s %14s\n", "regions", "latency ns", "throughput ns", "add ns");
	for (s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		unsigned n = sizes[s];
		uint32_t *keys = malloc(n * sizeof(*keys));
		uint64_t seed = 88172645463325252ull;
		struct mempool_table *t;
		double start, add;

		if (!keys || mempool_table_create(n, &t))
			return 1;
		start = now_ns();
		for (i = 0; i < n; i++) {
			struct mempool_row row = {
				.iova = 0x1000,
				.length = 4096,
				.va = 0x10000,
				.pd = 1,
				.access = RMEMPOOL_REMOTE_WRITE,
				.kind = MEMPOOL_REGION,
			};

			do {
				row.key = next_random(&seed) >> 32;
			} while (mempool_table_add(t, &row));
			keys[i] = row.key;
		}
		add = (now_ns() - start) / n;
		for (i = n - 1; i; i--) { /* not in the order of the rows */
			unsigned j = next_random(&seed) % (i + 1);
			uint32_t key = keys[i];

			keys[i] = keys[j];
			keys[j] = key;
		}
		measure(t, keys, n, true);
		printf("%10u %14.1f", n, measure(t, keys, n, true));
		printf(" %14.1f %14.1f\n", measure(t, keys, n, false), add);
		mempool_table_destroy(t);
		free(keys);
	}
	return 0;
}

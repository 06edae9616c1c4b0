/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for what users write: distributions of flow sizes and flow files of
 * fabric-sim's. The first byte says which; what is accepted has to make sense.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reorder/sim/sim.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static void sizes(FILE *in)
{
	static struct cdf cdf;
	uint64_t random = 1;

	if (cdf_read(&cdf, in, "input"))
		return;
	CHECK(cdf.points >= 2 && cdf_mean(&cdf) >= 1 && cdf_mean(&cdf) <= 1000000000);
	for (int i = 0; i < 100; i++) {
		uint64_t bytes = cdf_draw(&cdf, &random);

		CHECK(bytes >= 1 && bytes <= 1000000000);
	}
}

static void flows(FILE *in)
{
	struct arrival *arrivals = NULL;
	long n = workload_read(in, "input", 16, &arrivals);

	if (n < 0)
		return;
	for (long i = 0; i < n; i++) {
		CHECK(arrivals[i].source < 16 && arrivals[i].destination < 16 && arrivals[i].bytes);
		CHECK(arrivals[i].start >= 0 && (!i || arrivals[i].start >= arrivals[i - 1].start));
	}
	free(arrivals);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;
	FILE *in;

	if (size < 2)
		return 0;
	text = malloc(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	in = fmemopen(text, size - 1, "r");
	if (data[0] == 's')
		sizes(in);
	else
		flows(in);
	fclose(in);
	free(text);
	return 0;
}

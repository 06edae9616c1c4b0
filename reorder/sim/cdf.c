/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Distributions of flow sizes: text with a size in bytes and a percentage on each line, from 0 to
 * 100, linear in between; and four that were published.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct published {
	const char *name;
	uint32_t points;
	uint32_t point[50][2]; /* bytes, millionths */
};

static const struct published published[] = {
	/* Alibaba's storage traffic of 2019: Li et al., HPCC, SIGCOMM 2019. */
	{"alistorage",
	 9,
	 {{0, 0},
	  {4000, 229300},
	  {8000, 692100},
	  {16000, 806100},
	  {32000, 904700},
	  {64000, 935300},
	  {128000, 967700},
	  {256000, 975300},
	  {2000000, 1000000}}},
	/* Alibaba's block storage of 2022: Miao et al., Solar, SIGCOMM 2022. */
	{"solar",
	 8,
	 {{0, 0},
	  {4095, 10},
	  {4096, 300000},
	  {16383, 350000},
	  {16384, 500000},
	  {65535, 600000},
	  {65536, 950000},
	  {262144, 1000000}}},
	/* Web search: Alizadeh et al., DCTCP, SIGCOMM 2010. */
	{"websearch",
	 12,
	 {{0, 0},
	  {10000, 150000},
	  {20000, 200000},
	  {30000, 300000},
	  {50000, 400000},
	  {80000, 530000},
	  {200000, 600000},
	  {1000000, 700000},
	  {2000000, 800000},
	  {5000000, 900000},
	  {10000000, 970000},
	  {30000000, 1000000}}},
	/* Facebook's Hadoop: Roy et al., SIGCOMM 2015; thinned to what deviates by 0.2 %. */
	{"hadoop",
	 46,
	 {{0, 0},
	  {53, 740},
	  {100, 8150},
	  {217, 14900},
	  {259, 35700},
	  {300, 52000},
	  {326, 137500},
	  {335, 150520},
	  {376, 202600},
	  {425, 223000},
	  {480, 263900},
	  {513, 322460},
	  {561, 400540},
	  {600, 459100},
	  {679, 516700},
	  {737, 552000},
	  {755, 559260},
	  {800, 576200},
	  {885, 591200},
	  {960, 600450},
	  {1130, 617100},
	  {1534, 646800},
	  {1664, 667300},
	  {3254, 683070},
	  {7830, 708200},
	  {18203, 716000},
	  {31946, 721200},
	  {36844, 730500},
	  {39973, 739800},
	  {44260, 758400},
	  {47050, 778800},
	  {51046, 816000},
	  {62583, 823400},
	  {70722, 832700},
	  {75180, 842000},
	  {81565, 871700},
	  {85305, 875060},
	  {115331, 897800},
	  {149091, 913580},
	  {240177, 944200},
	  {288520, 953500},
	  {470507, 962800},
	  {853048, 970620},
	  {2169118, 987000},
	  {5426418, 994800},
	  {10000000, 1000000}}},
};

int cdf_builtin(struct cdf *cdf, const char *name)
{
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct published *p = &published[i];

		if (strcmp(name, p->name))
			continue;
		cdf->points = p->points;
		for (uint32_t n = 0; n < p->points; n++) {
			cdf->point[n].bytes = p->point[n][0];
			cdf->point[n].millionths = p->point[n][1];
		}
		return 0;
	}
	return -ENOENT;
}

static int bad(const char *name, unsigned line, const char *what)
{
	fprintf(stderr, "fabric-sim: %s, line %u: %s\n", name, line, what);
	return -EINVAL;
}

int cdf_read(struct cdf *cdf, FILE *in, const char *name)
{
	char text[128], more;
	unsigned line = 0;

	cdf->points = 0;
	while (fgets(text, sizeof(text), in)) {
		double bytes, percent;
		uint32_t n = cdf->points;
		int fields;

		line++;
		if (!strchr(text, '\n') && !feof(in))
			return bad(name, line, "too long");
		fields = sscanf(text, "%lf %lf %c", &bytes, &percent, &more);
		if (fields == EOF || text[0] == '#')
			continue;
		if (fields != 2 || !isfinite(bytes) || !isfinite(percent))
			return bad(name, line, "wants a size in bytes and a percentage");
		if (bytes < 0 || bytes > 1e9 || percent < 0 || percent > 100)
			return bad(name, line, "sizes go to 1 GB, percentages to 100");
		if (n == sizeof(cdf->point) / sizeof(cdf->point[0]))
			return bad(name, line, "more than 1,024 lines");
		cdf->point[n].bytes = (uint64_t)(bytes + 0.5);
		cdf->point[n].millionths = (uint32_t)(percent * 10000 + 0.5);
		if (n && (cdf->point[n].bytes < cdf->point[n - 1].bytes ||
			  cdf->point[n].millionths < cdf->point[n - 1].millionths))
			return bad(name, line, "smaller than the line before");
		cdf->points++;
	}
	if (cdf->points < 2 || cdf->point[0].millionths ||
	    cdf->point[cdf->points - 1].millionths != 1000000 || !cdf->point[cdf->points - 1].bytes)
		return bad(name, line, "a distribution begins with 0 % and ends with 100 %");
	return 0;
}

uint64_t cdf_mean(const struct cdf *cdf)
{
	uint64_t sum = 0;

	for (uint32_t i = 1; i < cdf->points; i++)
		sum += (cdf->point[i].bytes + cdf->point[i - 1].bytes) *
		       (cdf->point[i].millionths - cdf->point[i - 1].millionths) / 2;
	return sum / 1000000 ? sum / 1000000 : 1;
}

/* By a draw of 32 bits, so that steps between points are fine. */
uint64_t cdf_draw(const struct cdf *cdf, uint64_t *random)
{
	uint64_t draw = random_next(random) >> 32, x = draw * 1000000; /* in 2^-32 millionths */
	uint32_t i = 1;
	uint64_t from, to, bytes;

	while (i < cdf->points - 1 && x >= (uint64_t)cdf->point[i].millionths << 32)
		i++;
	from = (uint64_t)cdf->point[i - 1].millionths << 32;
	to = (uint64_t)cdf->point[i].millionths << 32;
	if (to == from)
		return cdf->point[i].bytes ? cdf->point[i].bytes : 1;
	bytes = cdf->point[i - 1].bytes +
		(uint64_t)((unsigned __int128)(cdf->point[i].bytes - cdf->point[i - 1].bytes) *
			   (x - from) / (to - from));
	return bytes ? bytes : 1;
}

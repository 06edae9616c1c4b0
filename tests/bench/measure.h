/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What programs that measure have in common: the time, the median, how much memory is in use. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What cannot be done without. */
#define NEED(condition)                                                                    \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
				strerror(errno));                                          \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* Of a clock that only differences count of. */
static inline double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static inline double now_us(void)
{
	return now_ns() / 1e3;
}

static inline double now_s(void)
{
	return now_ns() / 1e9;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double least(double a, double b)
{
	return a < b ? a : b;
}

/* Sorts them. */
static inline double median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

/* Resident memory of this process in bytes; 0 if that cannot be found out. */
static inline long resident(void)
{
	long size, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

#endif

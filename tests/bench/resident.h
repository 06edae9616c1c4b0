/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* How much memory this process has in use, for the programs that measure what an object costs. */
#ifndef BENCH_RESIDENT_H
#define BENCH_RESIDENT_H

#include <stdio.h>
#include <unistd.h>

/* Bytes; 0 if that cannot be found out. */
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

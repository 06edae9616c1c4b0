/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into opensm: counts what the SA is asked for, by umad_recv(), in the file that
 * MIGRATE_COUNT names: a line "paths other", of PathRecord requests and of all others, written anew
 * at each one; behind it LIDS lines of 8 bytes, of the PathRecord requests that each LID has sent.
 * With MIGRATE_SA_RATE in the environment no more PathRecord requests a second are taken than it
 * says; whatever comes behind one that has to wait, waits as well.
 */
#include <dlfcn.h>
#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/umad.h>

enum { LIDS = 0xc000, LINE = 42, LID_LINE = 8 };

static unsigned long paths, other, from[LIDS];

static void keep_to_rate(void)
{
	static int64_t rate = -1, next; /* ns */
	struct timespec t;
	int64_t now;

	if (rate < 0)
		rate = getenv("MIGRATE_SA_RATE") ? atoll(getenv("MIGRATE_SA_RATE")) : 0;
	if (rate <= 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = t.tv_sec * 1000000000ll + t.tv_nsec;
	if (next < now)
		next = now;
	t = (struct timespec){next / 1000000000, next % 1000000000};
	next += 1000000000 / rate;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void put(int fd, const char *line, int length, off_t at)
{
	if (fd >= 0 && pwrite(fd, line, length, at) != length)
		_exit(3);
}

static void count(const uint8_t *mad, uint16_t lid)
{
	bool path = mad[16] == 0 && mad[17] == 0x35;
	static int fd = -2;
	char line[64];
	int len;

	if (mad[1] != 3 || mad[3] & 0x80)
		return;
	if (path)
		keep_to_rate();
	*(path ? &paths : &other) += 1;
	if (fd == -2)
		fd = getenv("MIGRATE_COUNT")
			     ? open(getenv("MIGRATE_COUNT"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
			     : -1;
	len = snprintf(line, sizeof(line), "%-20lu %-20lu\n", paths, other);
	put(fd, line, len, 0);
	if (!path || lid >= LIDS)
		return;
	len = snprintf(line, sizeof(line), "%-7lu\n", ++from[lid]);
	put(fd, line, len, LINE + lid * LID_LINE);
}

__attribute__((visibility("default"))) int umad_recv(int portid, void *umad, int *length,
						     int timeout_ms)
{
	static int (*next)(int, void *, int *, int);
	int ret;

	if (!next)
		next = (int (*)(int, void *, int *, int))dlsym(RTLD_NEXT, "umad_recv");
	ret = next(portid, umad, length, timeout_ms);
	if (ret >= 0 && !umad_status(umad) && *length >= 24)
		count(umad_get_mad(umad), be16toh(umad_get_mad_addr(umad)->lid));
	return ret;
}

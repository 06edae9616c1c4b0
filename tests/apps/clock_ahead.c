/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into a daemon: its wall clock is an hour ahead of the kernel's, as one that is set back
 * right after it was read; until the file CLOCK_SET_BACK exists, where that names one.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool is_ahead(void)
{
	const char *set_back = getenv("CLOCK_SET_BACK");

	return !set_back || access(set_back, F_OK) != 0;
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, now);

	if (!ret && clock == CLOCK_REALTIME && is_ahead())
		now->tv_sec += 3600;
	return ret;
}

__attribute__((visibility("default"))) time_t time(time_t *to)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (to)
		*to = now.tv_sec;
	return now.tv_sec;
}

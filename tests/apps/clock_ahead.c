/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into a daemon: its wall clock is an hour ahead of the kernel's, as one that is set back right after it
 * was read.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
	int ret = (int)syscall(SYS_clock_gettime, clock, now);

	if (!ret && clock == CLOCK_REALTIME)
		now->tv_sec += 3600;
	return ret;
}

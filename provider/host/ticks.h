/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Clocks. Any thread. */
#ifndef URXE_HOST_TICKS_H
#define URXE_HOST_TICKS_H

#include <stdint.h>
#include <time.h>

static inline uint64_t urxe_clock(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* ns since some time in the past. */
static inline uint64_t urxe_now(void)
{
	return urxe_clock(CLOCK_MONOTONIC);
}

/* Some milliseconds behind it at most, and never a system call, however slow the clock is to
 * read. */
static inline uint64_t urxe_now_coarse(void)
{
	return urxe_clock(CLOCK_MONOTONIC_COARSE);
}

/* A clock that costs little, a nanosecond or less a tick. A fuzzer brings a clock of its own. */
static inline uint64_t urxe_ticks(void)
{
#if defined(__x86_64__) && !defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
	return __builtin_ia32_rdtsc();
#else
	return urxe_now();
#endif
}

#endif

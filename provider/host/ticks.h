/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef URXE_HOST_TICKS_H
#define URXE_HOST_TICKS_H

#include <stdint.h>
#include <time.h>

/* A clock that costs little, a nanosecond or less a tick. A fuzzer brings a clock of its own. */
static inline uint64_t urxe_ticks(void)
{
#if defined(__x86_64__) && !defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
	return __builtin_ia32_rdtsc();
#else
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
#endif
}

#endif

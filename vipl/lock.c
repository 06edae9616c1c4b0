// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slow way into a lock (lock.h). */
#include <sched.h>
#include <time.h>

#include "vipl/lock.h"

#define SPINS  100
#define YIELDS 200

static void pause_once(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

void vipl_lock_wait(struct vipl_lock *lock)
{
	static const struct timespec moment = {.tv_nsec = 50000};
	unsigned tries = 0;

	while (atomic_load_explicit(&lock->taken, memory_order_relaxed) ||
	       atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire)) {
		if (++tries < SPINS)
			pause_once();
		else if (tries < SPINS + YIELDS)
			sched_yield();
		else
			nanosleep(&moment, NULL);
	}
}

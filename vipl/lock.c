// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slow ways into a lock (lock.h). */
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vipl/lock.h"

#define SPINS	       100
#define YIELDS	       200
#define MANY_STRANGERS 64

static atomic_bool ownable;

void vipl_lock_init(void)
{
	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		atomic_store(&ownable, true);
}

static void pause_once(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

static void wait_once(unsigned tries)
{
	static const struct timespec moment = {.tv_nsec = 50000};

	if (tries < SPINS)
		pause_once();
	else if (tries < SPINS + YIELDS)
		sched_yield();
	else
		nanosleep(&moment, NULL);
}

static void take(struct vipl_lock *lock)
{
	unsigned tries = 0;

	while (atomic_load_explicit(&lock->taken, memory_order_relaxed) ||
	       atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire))
		wait_once(tries++);
}

/* Holds the owner off, until the lock is given back or for ever. */
static void hold_off(struct vipl_lock *lock)
{
	atomic_store(&lock->revoked, 1);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	for (unsigned tries = 0; atomic_load_explicit(&lock->held, memory_order_acquire); tries++)
		wait_once(tries);
	if (++lock->strangers == MANY_STRANGERS)
		atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
}

void vipl_lock_shared(struct vipl_lock *lock, bool often)
{
	uintptr_t self = vipl_lock_self(), owner;

	take(lock);
	owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
	if (owner && owner != self)
		hold_off(lock);
	else if (!owner && often && !lock->strangers && atomic_load(&ownable))
		atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
}

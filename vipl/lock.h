/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A lock of one instruction each way, for what is held for a fraction of a microsecond. A waiter
 * spins, then gives way, then sleeps for moments, so that a holder who has lost its processor gets
 * it back.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <stdatomic.h>

#define vipl_likely(x)	 __builtin_expect(!!(x), 1)
#define vipl_unlikely(x) __builtin_expect(!!(x), 0)

struct vipl_lock {
	atomic_int taken;
};

void vipl_lock_wait(struct vipl_lock *lock);

static inline void vipl_lock(struct vipl_lock *lock)
{
	if (vipl_unlikely(atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire)))
		vipl_lock_wait(lock);
}

static inline void vipl_unlock(struct vipl_lock *lock)
{
	atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A lock for what is held for a fraction of a microsecond, and mostly by one thread: a message takes
 * half a dozen of them. The first thread on the way of data that takes it owns it, and then takes
 * it by plain stores:
 *
 *	owner     held = 1; if revoked is not set, it has the lock
 *	others    take the shared lock, set revoked, make every thread pass a memory barrier
 *	          (membarrier(2)), await held == 0
 *
 * After MANY_STRANGERS the lock belongs to nobody any more: all take the shared lock, which is one
 * locked instruction. A waiter spins, then gives way, then sleeps for moments, so that a holder who
 * has lost its processor gets it back.
 *
 * An owner never changes, and a lock is never made anew: a thread may still be about to take it.
 * Zero is a lock that nobody has.
 */
#ifndef VIPL_LOCK_H
#define VIPL_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define vipl_likely(x)	 __builtin_expect(!!(x), 1)
#define vipl_unlikely(x) __builtin_expect(!!(x), 0)

struct vipl_lock {
	_Atomic uintptr_t owner; /* 0: nobody */
	atomic_int held;	 /* by the owner */
	atomic_int revoked;	 /* the owner takes the shared lock, too */
	atomic_int taken;	 /* the shared lock */
	unsigned strangers;	 /* how often others have taken it */
};

/* May threads own locks? Called once, before there are any. */
void vipl_lock_init(void);
void vipl_lock_shared(struct vipl_lock *lock, bool often);

static inline uintptr_t vipl_lock_self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

static inline bool vipl_lock_own(struct vipl_lock *lock)
{
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != vipl_lock_self())
		return false;
	atomic_store_explicit(&lock->held, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (vipl_likely(!atomic_load_explicit(&lock->revoked, memory_order_acquire)))
		return true;
	atomic_store_explicit(&lock->held, 0, memory_order_release);
	return false;
}

static inline void vipl_lock(struct vipl_lock *lock)
{
	if (!vipl_lock_own(lock))
		vipl_lock_shared(lock, false);
}

/* On the way of data. */
static inline void vipl_lock_often(struct vipl_lock *lock)
{
	if (vipl_unlikely(!vipl_lock_own(lock)))
		vipl_lock_shared(lock, true);
}

static inline void vipl_unlock(struct vipl_lock *lock)
{
	uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

	if (vipl_likely(owner == vipl_lock_self())) {
		if (vipl_likely(atomic_load_explicit(&lock->held, memory_order_relaxed))) {
			atomic_store_explicit(&lock->held, 0, memory_order_release);
			return;
		}
	} else if (owner) {
		atomic_store_explicit(&lock->revoked, 0, memory_order_release);
	}
	atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A lock for what is held for a fraction of a microsecond, and mostly by one thread: a message
 * takes half a dozen of them. The first thread on the way of data that takes it owns it, and then
 * takes it by plain stores:
 *
 *	owner     held = OWN; if revoked is not set, it has the lock
 *	others    take the shared lock, set revoked, make every thread pass a memory barrier
 *	          (membarrier(2)), wait while held == OWN
 *
 * The barrier stands for the one that the owner does without: if the owner has stored `held` before
 * it, the other sees that; otherwise the owner loads `revoked` after it, and sees that set. So one
 * of the two sees the other. What the owner does between is ordered by `held`, a release when it
 * gives the lock back, and by `revoked`, a release of the other's, which the owner acquires.
 *
 * After MANY_STRANGERS it stays revoked: all take the shared lock, which is one locked instruction,
 * until the owner has taken it AGAIN_OWNED times with nobody between. A waiter spins, so short is
 * most of what is done under the lock. Then it sleeps until the shared lock is given back
 * (futex(2)). An owner that is at work does not say when it ends: a waiter gives way, then sleeps
 * for moments, so that an owner that has lost its processor gets it back.
 *
 * The owner is never another one: its thread may still be between two instructions of
 * taking the lock. For the same reason a lock is made anew where there is one thread alone.
 * Zero is a lock that nobody has.
 */
#ifndef COMMON_OWNED_LOCK_H
#define COMMON_OWNED_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum owned_lock_held {
	OWNED_LOCK_NOT,
	OWNED_LOCK_OWN,	   /* or about to be */
	OWNED_LOCK_SHARED, /* the same by the shared lock */
};

enum owned_lock_taken {
	OWNED_LOCK_FREE,
	OWNED_LOCK_TAKEN,
	OWNED_LOCK_AWAITED, /* taken, and a thread may sleep until it is free */
};

struct owned_lock {
	_Atomic uintptr_t owner; /* 0: nobody */
	atomic_int held;	 /* by the owner: enum owned_lock_held */
	atomic_int revoked;	 /* the owner takes the shared lock, too */
	atomic_int taken;	 /* the shared lock: enum owned_lock_taken */
	unsigned strangers;	 /* how often others have taken it */
	unsigned again;		 /* how often the owner has, with nobody between */
};

/* May threads own locks? Called once, before there are any. */
void owned_lock_init(void);
void owned_lock_shared(struct owned_lock *lock, bool often);
bool owned_lock_try_shared(struct owned_lock *lock, bool often);
void owned_unlock_shared(struct owned_lock *lock);

/* Every thread of the process passes a memory barrier. A system call, or a moment's sleep. */
void owned_lock_barrier(void);

static inline uintptr_t owned_lock_self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

static inline bool owned_lock_own(struct owned_lock *lock)
{
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) != owned_lock_self())
		return false;
	atomic_store_explicit(&lock->held, OWNED_LOCK_OWN, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(!atomic_load_explicit(&lock->revoked, memory_order_acquire), 1))
		return true;
	atomic_store_explicit(&lock->held, OWNED_LOCK_NOT, memory_order_release);
	return false;
}

static inline void owned_lock(struct owned_lock *lock)
{
	if (!owned_lock_own(lock))
		owned_lock_shared(lock, false);
}

/* On the way of data. */
static inline void owned_lock_often(struct owned_lock *lock)
{
	if (__builtin_expect(!owned_lock_own(lock), 0))
		owned_lock_shared(lock, true);
}

/* By the thread that has taken it by owned_lock_own(). */
static inline void owned_unlock_own(struct owned_lock *lock)
{
	atomic_store_explicit(&lock->held, OWNED_LOCK_NOT, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
}

/* often: on the way of data. False: it is taken; also in a handler of a signal that has interrupted
 * the owner. */
static inline bool owned_trylock(struct owned_lock *lock, bool often)
{
	if (atomic_load_explicit(&lock->held, memory_order_relaxed) &&
	    atomic_load_explicit(&lock->owner, memory_order_relaxed) == owned_lock_self())
		return false;
	return owned_lock_own(lock) || owned_lock_try_shared(lock, often);
}

/*
 * A thread that has left work for the holder, and then found the lock taken by owned_trylock(),
 * relies on the holder, which looks for work after this by a sequentially consistent load: to see
 * it, or to have given the lock back before the other tried. Between the two lies the barrier of
 * the thread that tried, or the shared lock's exchange.
 */
static inline void owned_unlock(struct owned_lock *lock)
{
	bool own = atomic_load_explicit(&lock->owner, memory_order_relaxed) == owned_lock_self() &&
		   atomic_load_explicit(&lock->held, memory_order_relaxed) == OWNED_LOCK_OWN;

	if (__builtin_expect(own, 1))
		owned_unlock_own(lock);
	else
		owned_unlock_shared(lock);
}

#endif

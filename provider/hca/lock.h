/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A lock for the few instructions that a work queue or a completion queue needs it for. To
 * take it is one locked operation, to give it back none: a posted and polled message takes
 * three of them. A thread that finds it taken waits a moment and then gives way, since its
 * holder may be waiting for the core.
 *
 * Zero is a lock that nobody has. Not for sections that sleep, and not recursive.
 *
 * What is in a thread domain is used by one thread of the program at a time (ibv_alloc_td(3)): that
 * thread need not take a lock which it shares with other threads of the program alone.
 */
#ifndef URXE_HCA_LOCK_H
#define URXE_HCA_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct urxe_lock {
	_Atomic bool taken;
	bool elided; /* by the program's threads; from creation on */
};

void urxe_lock_wait(struct urxe_lock *lock);

/* A mutex that processes share, and that one of them may die with: -errno. */
int urxe_shared_mutex_init(pthread_mutex_t *mutex);

static inline void urxe_lock(struct urxe_lock *lock)
{
	while (__builtin_expect(atomic_exchange_explicit(&lock->taken, true, memory_order_acquire),
				false))
		urxe_lock_wait(lock);
}

static inline void urxe_unlock(struct urxe_lock *lock)
{
	atomic_store_explicit(&lock->taken, false, memory_order_release);
}

/* By a thread of the program, in a verb. */
static inline void urxe_lock_program(struct urxe_lock *lock)
{
	if (!lock->elided)
		urxe_lock(lock);
}

static inline void urxe_unlock_program(struct urxe_lock *lock)
{
	if (!lock->elided)
		urxe_unlock(lock);
}

#endif

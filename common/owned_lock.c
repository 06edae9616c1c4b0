// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The slow ways into a lock (owned_lock.h). System calls by syscall(2): no cancellation points. */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/owned_lock.h"

#define SPINS	       100
#define YIELDS	       200
#define MANY_STRANGERS 64
#define AGAIN_OWNED    4096 /* their locked instructions cost a few times what a barrier does */

static atomic_bool ownable;

void owned_lock_init(void)
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

/* For an owner to be no longer at work. */
static void wait_once(unsigned tries)
{
	static const struct timespec moment = {.tv_nsec = 50000};

	if (tries < SPINS)
		pause_once();
	else if (tries < SPINS + YIELDS)
		syscall(SYS_sched_yield);
	else
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
}

static bool try(struct owned_lock *lock)
{
	int taken = OWNED_LOCK_FREE;

	return !atomic_load(&lock->taken) &&
	       atomic_compare_exchange_strong(&lock->taken, &taken, OWNED_LOCK_TAKEN);
}

/* In vain only if the one that has it will see, when it has given it back, that the owner is not at
 * work: what the owner has stored comes before the second look. */
static bool try_twice(struct owned_lock *lock)
{
	if (try(lock))
		return true;
	atomic_thread_fence(memory_order_seq_cst);
	return try(lock);
}

static void futex(struct owned_lock *lock, int op, int value)
{
	syscall(SYS_futex, &lock->taken, op | FUTEX_PRIVATE_FLAG, value, NULL);
}

/* It is awaited from now on also if nobody else waits: this thread cannot know. */
static void wait_for_shared(struct owned_lock *lock)
{
	int saved = errno;

	for (unsigned i = 0; i < SPINS; i++) {
		pause_once();
		if (try(lock))
			return;
	}
	while (atomic_exchange(&lock->taken, OWNED_LOCK_AWAITED))
		futex(lock, FUTEX_WAIT, OWNED_LOCK_AWAITED);
	errno = saved;
}

static bool is_at_work(struct owned_lock *lock)
{
	return atomic_load_explicit(&lock->held, memory_order_acquire) == OWNED_LOCK_OWN;
}

/*
 * A program may have forbidden itself the call since (seccomp(2)): then this waits for
 * as long as every processor takes by far to carry out what it had begun, and no
 * thread owns locks from now on.
 */
void owned_lock_barrier(void)
{
	static const struct timespec long_enough = {.tv_nsec = 1000000};

	if (!syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		return;
	atomic_store(&ownable, false);
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &long_enough, NULL);
}

/*
 * Revokes what the owner has, with the shared lock. True: it is at work, and will look for work
 * that was left to it before this was called. So a barrier lies between that and each look at
 * `held` which finds it there.
 */
static bool hold_off(struct owned_lock *lock)
{
	if (!atomic_load_explicit(&lock->revoked, memory_order_relaxed))
		atomic_store(&lock->revoked, 1);
	else if (!is_at_work(lock))
		return false;
	owned_lock_barrier();
	return is_at_work(lock);
}

static void count(struct owned_lock *lock, bool owner)
{
	if (!owner) {
		lock->again = 0;
		if (lock->strangers < MANY_STRANGERS)
			lock->strangers++;
	} else if (++lock->again == AGAIN_OWNED) {
		lock->strangers = 0;
	}
}

/* False: there is an owner, and it is another thread. */
static bool is_owner(struct owned_lock *lock, bool often)
{
	uintptr_t self = owned_lock_self();
	uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

	if (owner || !often || !atomic_load(&ownable))
		return !owner || owner == self;
	atomic_store_explicit(&lock->held, OWNED_LOCK_SHARED, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&lock->owner, self, memory_order_relaxed);
	return true;
}

/* Before it asks for the shared lock, so that a handler of a signal never finds it with neither. */
static void owner_comes(struct owned_lock *lock)
{
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == owned_lock_self())
		atomic_store_explicit(&lock->held, OWNED_LOCK_SHARED, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

static void owner_goes(struct owned_lock *lock)
{
	if (atomic_load_explicit(&lock->owner, memory_order_relaxed) == owned_lock_self())
		atomic_store_explicit(&lock->held, OWNED_LOCK_NOT, memory_order_relaxed);
}

void owned_lock_shared(struct owned_lock *lock, bool often)
{
	bool owner;

	owner_comes(lock);
	if (!try(lock))
		wait_for_shared(lock);
	/* Nobody becomes its owner without the shared lock. */
	if (!often && !atomic_load_explicit(&lock->owner, memory_order_relaxed))
		return;
	owner = is_owner(lock, often);
	if (!owner && hold_off(lock))
		for (unsigned tries = 0; is_at_work(lock); tries++)
			wait_once(tries);
	count(lock, owner);
}

/*
 * A thread that finds the shared lock taken leaves its work to the holder. So do the owner, when it
 * comes back for work that was left to it, and any other thread that tries. If the holder has the
 * shared lock in vain, it looks again after it has given it back: an owner is at work, which will
 * look, or it tries once more.
 */
bool owned_lock_try_shared(struct owned_lock *lock, bool often)
{
	owner_comes(lock);
	while (try_twice(lock)) {
		bool owner = is_owner(lock, often);

		count(lock, owner);
		if (owner || !hold_off(lock))
			return true;
		owned_unlock_shared(lock);
		owned_lock_barrier();
		if (is_at_work(lock))
			return false;
	}
	owner_goes(lock);
	return false;
}

void owned_unlock_shared(struct owned_lock *lock)
{
	owner_goes(lock);
	if (lock->strangers < MANY_STRANGERS &&
	    atomic_load_explicit(&ownable, memory_order_relaxed))
		atomic_store_explicit(&lock->revoked, 0, memory_order_release);
	if (atomic_exchange(&lock->taken, OWNED_LOCK_FREE) == OWNED_LOCK_AWAITED)
		futex(lock, FUTEX_WAKE, 1);
}

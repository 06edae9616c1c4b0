/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hca/lock.h"

#define SPINS	 200
#define YIELDS	 16
#define SLEEP_NS 50000

static bool taken(struct urxe_lock *lock)
{
	return atomic_load_explicit(&lock->taken, memory_order_relaxed);
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * A holder of lower priority, or of another kind of scheduling, gets the core by our sleep alone.
 * By syscall(2), so that none of it is a cancellation point.
 */
void urxe_lock_wait(struct urxe_lock *lock)
{
	const struct timespec a_while = {.tv_nsec = SLEEP_NS};

	for (unsigned i = 0; i < SPINS; i++) {
		if (!taken(lock))
			return;
		relax();
	}
	for (unsigned i = 0; i < YIELDS; i++) {
		if (!taken(lock))
			return;
		syscall(SYS_sched_yield);
	}
	while (taken(lock))
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_while, NULL);
}

int urxe_shared_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	err = pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	return -err;
}

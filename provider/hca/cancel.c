/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread that holds the lock makes system calls that are cancellation points, and must not be
 * cancelled in the middle of them: cancellation waits until the lock is given back. To ask for that
 * takes as long as the lock itself, and few programs ever cancel a thread.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hca/engine.h"
#include "hca/service.h"
#include "hca/verbs.h"

#define MOST_MS 1000

static atomic_bool may_cancel = true;
static atomic_bool all_know = true; /* that they may be cancelled */

void urxe_may_cancel(bool may)
{
	const struct timespec a_while = {.tv_nsec = 1000000};

	if (!may) {
		atomic_store(&all_know, false);
		atomic_store(&may_cancel, false);
		return;
	}
	if (atomic_load(&all_know))
		return;
	atomic_store(&may_cancel, true);
	/* A thread that has not seen it gives the lock back first. Bounded: it may be the thread
	 * that this interrupts. By syscall(2), as in lock.c. */
	for (unsigned i = 0; i < MOST_MS; i++) {
		if (urxe_engine_try(false)) {
			urxe_engine_give();
			if (atomic_load(&urxe_hca.kicked))
				urxe_service_wake();
			break;
		}
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &a_while, NULL);
	}
	atomic_store(&all_know, true);
}

void urxe_cancel_disable(int *cancel)
{
	if (*cancel == PTHREAD_CANCEL_DISABLE &&
	    atomic_load_explicit(&may_cancel, memory_order_relaxed))
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread that holds the lock makes system calls that are cancellation points, and must not be
 * cancelled in the middle of them: cancellation waits until the lock is given back. To ask for that
 * takes as long as the lock itself, and few programs ever cancel a thread.
 */
#include <pthread.h>

#include "hca/engine.h"
#include "hca/verbs.h"

static atomic_bool may_cancel = true;
static atomic_bool all_know = true; /* that they may be cancelled */

void urxe_may_cancel(bool may)
{
	struct timespec until;

	if (!may) {
		atomic_store(&all_know, false);
		atomic_store(&may_cancel, false);
		return;
	}
	if (atomic_load(&all_know))
		return;
	atomic_store(&may_cancel, true);
	/* A thread that has not seen it gives the lock back first. Bounded: it may be the thread
	 * that this interrupts. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (!pthread_mutex_timedlock(&urxe_hca.lock, &until))
		pthread_mutex_unlock(&urxe_hca.lock);
	atomic_store(&all_know, true);
}

void urxe_cancel_disable(int *cancel)
{
	if (*cancel == PTHREAD_CANCEL_DISABLE &&
	    atomic_load_explicit(&may_cancel, memory_order_relaxed))
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel);
}

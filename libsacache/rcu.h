/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RCU as this library uses it. The flavour is liburcu's "bp": its readers register themselves, and
 * a library cannot ask the threads of a program to. With sys_membarrier() its read side is a few
 * instructions without a fence, as fast as the other flavours'.
 *
 * liburcu is not built with the thread sanitizer, which has to be told what a grace period orders:
 * everything readers did before it comes before everything the writer does after it.
 */
#ifndef SACACHE_RCU_H
#define SACACHE_RCU_H

/*
 * The read side inline. Not with the address sanitizer, whose companion for undefined behaviour
 * rejects how liburcu 0.13 aligns its readers; the library's own functions do the same unseen.
 */
#ifndef __SANITIZE_ADDRESS__
#define _LGPL_SOURCE
#endif
#include <urcu-bp.h>

#if defined(__SANITIZE_THREAD__)
#define SA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SA_TSAN 1
#endif
#endif

#ifdef SA_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
extern char sa_rcu_order;
#endif

static inline void sa_rcu_read_lock(void)
{
	urcu_bp_read_lock();
}

static inline void sa_rcu_read_unlock(void)
{
#ifdef SA_TSAN
	__tsan_release(&sa_rcu_order);
#endif
	urcu_bp_read_unlock();
}

/* Waits until every reader that may see what was unpublished has left. */
static inline void sa_rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
#ifdef SA_TSAN
	__tsan_acquire(&sa_rcu_order);
#endif
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RCU as this library uses it. The flavour is liburcu's "bp", whose readers register themselves: a
 * library cannot require a program's threads to. With sys_membarrier() its read side is a few
 * instructions without a fence, as fast as the other flavours'.
 *
 * liburcu is not built with the thread sanitizer, so the order that a grace period imposes is
 * annotated here: all accesses of readers before it happen before all accesses of the writer after
 * it.
 */
#ifndef SACACHE_RCU_H
#define SACACHE_RCU_H

/*
 * The read side inline. Not with the address sanitizer, whose undefined behaviour checks reject how
 * liburcu 0.13 aligns its readers; calls of the library's own functions are not checked.
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

/* Waits until every reader that may see unpublished data has left. */
static inline void sa_rcu_synchronize(void)
{
	urcu_bp_synchronize_rcu();
#ifdef SA_TSAN
	__tsan_acquire(&sa_rcu_order);
#endif
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Teaches the thread sanitizer that descriptors order memory accesses, where libc is called
 * directly. Nothing in other builds.
 */
#ifndef URXE_HOST_LIBC_TSAN_H
#define URXE_HOST_LIBC_TSAN_H

#include "host/libc.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define URXE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define URXE_TSAN 1
#endif

#ifdef URXE_TSAN
/* Replaces the functions that read from and write to descriptors by annotated ones. */
void urxe_libc_tsan_wrap(struct urxe_libc *libc);
#else
static inline void urxe_libc_tsan_wrap(struct urxe_libc *libc)
{
}
#endif

#endif

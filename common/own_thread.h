/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A thread of a library's own in somebody's program. It blocks all signals: they are for the
 * program, whose handlers need not expect a thread that it does not know. Any thread.
 */
#ifndef COMMON_OWN_THREAD_H
#define COMMON_OWN_THREAD_H

#include <pthread.h>
#include <signal.h>

/* 0, or -errno as pthread_create(3). */
static inline int own_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = -pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return ret;
}

#endif

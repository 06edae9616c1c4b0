/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The process's mutexes. In the child of a fork any of them may be held by a thread that is not
 * there: what is declared by URXE_MUTEX() is made anew before anything else is done in the child.
 */
#ifndef URXE_HOST_MUTEX_H
#define URXE_HOST_MUTEX_H

#include <pthread.h>

/* The pointer in section urxe_mutexes puts it on the list that
 * urxe_mutexes_forked() goes through. */
#define URXE_MUTEX(name)                                  \
	pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER; \
	static pthread_mutex_t *const listed_##name       \
		__attribute__((section("urxe_mutexes"), used)) = &name

void urxe_mutexes_forked(void);

#endif

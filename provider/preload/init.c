/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The library's life in a process. Loading it into a program that may never call a verb does next
 * to nothing: it finds the libc functions behind its hooks and registers a fork handler. Devices,
 * threads, sockets and the segment come with the first verb. The library is linked with -z
 * nodelete, so that dlclose() cannot take the code of running threads away.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm/manager.h"
#include "hca/verbs.h"
#include "host/fabric.h"
#include "host/fabric_sa.h"
#include "host/libc.h"
#include "host/mutex.h"
#include "preload/files.h"
#include "preload/rdma_cm.h"
#include "preload/umad.h"

pid_t urxe_owner_pid;
atomic_bool urxe_attached;

/* In the child of a fork: what it inherited is its parent's. vfork() and _Fork() run no
 * handlers. */
static void forked(void)
{
	urxe_owner_pid = getpid();
	urxe_users_unlock();
	urxe_mutexes_forked();
	urxe_umad_forked();
	urxe_fabric_forked();
	urxe_fabric_sa_close();
	urxe_ucma_forked();
	urxe_forked();
}

void urxe_loaded(void)
{
	urxe_libc_init();
	urxe_owner_pid = getpid();
	urxe_may_cancel(false);
	urxe_files_next_init();
	urxe_manager_init();
	pthread_atfork(urxe_users_lock, urxe_users_unlock, forked);
}

__attribute__((constructor)) static void loaded(void)
{
	urxe_loaded();
	urxe_guardian_init();
}

/* A peer that has been answered in the program's eyes must be in its own. */
static void ending(bool in_handler)
{
	if (atomic_load(&urxe_attached) && getpid() == urxe_owner_pid)
		urxe_ending(in_handler);
}

__attribute__((destructor)) static void unloaded(void)
{
	ending(false);
}

URXE_EXPORT int pthread_cancel(pthread_t thread)
{
	urxe_may_cancel(true);
	return next(pthread_cancel) ? next(pthread_cancel)(thread) : ENOSYS;
}

/* These run no destructors. The next definition may not be known yet, and does no more than
 * this. */
URXE_EXPORT void _exit(int status)
{
	ending(true);
	for (;;)
		syscall(SYS_exit_group, status);
}

URXE_EXPORT void _Exit(int status) __attribute__((alias("_exit")));

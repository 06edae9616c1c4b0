/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Cross-memory attach to the process itself checks the addresses while it copies. Where a sandbox
 * forbids it, the addresses are trusted.
 *
 * It costs two microseconds, and librdmacm has its commands and answers on its stack, where
 * there is nothing to check.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/user_memory.h"

__thread uintptr_t urxe_stack_low;
__thread uintptr_t urxe_stack_high;

static void ask_for_stack(void)
{
	pthread_attr_t attr;
	size_t size = 0;
	void *addr;

	urxe_stack_low = urxe_stack_high = UINTPTR_MAX; /* not known: nothing lies there */
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &addr, &size)) {
		urxe_stack_low = (uintptr_t)addr;
		urxe_stack_high = (uintptr_t)addr + size;
	}
	pthread_attr_destroy(&attr);
}

/* Is there anything to check? */
static bool is_safe(uint64_t addr, size_t len)
{
	if (!urxe_stack_high)
		ask_for_stack();
	return !len || urxe_on_own_stack(addr, len);
}

typedef ssize_t vm_call(pid_t pid, const struct iovec *local, unsigned long num_local,
			const struct iovec *remote, unsigned long num_remote, unsigned long flags);

/* 0 or -EFAULT; 1: nothing was copied, and the address is to be trusted. */
static int copy_checked(vm_call *call, void *own, uint64_t addr, size_t len)
{
	struct iovec local = {own, len}, remote = {(void *)(uintptr_t)addr, len};
	int saved = errno, ret;
	ssize_t done;

	if (is_safe(addr, len))
		return 1;
	done = call(getpid(), &local, 1, &remote, 1, 0);
	ret = done < 0 && errno != EFAULT ? 1 : done == (ssize_t)len ? 0 : -EFAULT;
	errno = saved;
	return ret;
}

int urxe_user_read_checked(void *to, uint64_t from, size_t len)
{
	int ret = copy_checked(process_vm_readv, to, from, len);

	if (ret > 0)
		memcpy(to, (const void *)(uintptr_t)from, len);
	return ret < 0 ? ret : 0;
}

int urxe_user_write_checked(uint64_t to, const void *from, size_t len)
{
	int ret = copy_checked(process_vm_writev, (void *)from, to, len);

	if (ret > 0)
		memcpy((void *)(uintptr_t)to, from, len);
	return ret < 0 ? ret : 0;
}

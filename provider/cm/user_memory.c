/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Cross-memory attach to the process itself checks the addresses while it copies. Where a sandbox
 * forbids it, the addresses are trusted.
 *
 * It costs two microseconds, and librdmacm has its commands and answers on its stack, where there is
 * nothing to check.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm/user_memory.h"

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

static int result(ssize_t done, size_t len)
{
	if (done >= 0)
		return (size_t)done == len ? 0 : -EFAULT;
	return errno == EFAULT ? -EFAULT : 1;
}

int urxe_user_read_checked(void *to, uint64_t from, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};
	int saved, ret;

	if (is_safe(from, len)) {
		memcpy(to, remote.iov_base, len);
		return 0;
	}
	saved = errno;
	ret = result(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), len);
	errno = saved;
	if (ret > 0)
		memcpy(to, remote.iov_base, len);
	return ret < 0 ? ret : 0;
}

int urxe_user_write_checked(uint64_t to, const void *from, size_t len)
{
	struct iovec local = {(void *)from, len}, remote = {(void *)(uintptr_t)to, len};
	int saved, ret;

	if (is_safe(to, len)) {
		memcpy(remote.iov_base, from, len);
		return 0;
	}
	saved = errno;
	ret = result(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), len);
	errno = saved;
	if (ret > 0)
		memcpy(remote.iov_base, from, len);
	return ret < 0 ? ret : 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Cross-memory attach to the process itself checks the addresses while it copies. Where a sandbox
 * forbids it, the addresses are trusted.
 *
 * It costs two microseconds, and librdmacm has its commands and answers on its stack: what lies
 * between this function's frame and the end of the thread's stack is there and can be written.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm/user_memory.h"

static void stack_bounds(uintptr_t *low, uintptr_t *high)
{
	pthread_attr_t attr;
	size_t size = 0;
	void *addr;

	*low = *high = UINTPTR_MAX; /* not known: nothing lies there */
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &addr, &size)) {
		*low = (uintptr_t)addr;
		*high = (uintptr_t)addr + size;
	}
	pthread_attr_destroy(&attr);
}

/* A coroutine's stack is none of these: then this frame is not within the thread's. */
static bool on_own_stack(uint64_t addr, size_t len)
{
	static __thread uintptr_t low __attribute__((tls_model("initial-exec")));
	static __thread uintptr_t high __attribute__((tls_model("initial-exec")));
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (!high)
		stack_bounds(&low, &high);
	return here >= low && here < high && addr >= here && addr <= high && len <= high - addr;
}

static int result(ssize_t done, size_t len)
{
	if (done >= 0)
		return (size_t)done == len ? 0 : -EFAULT;
	return errno == EFAULT ? -EFAULT : 1;
}

int urxe_user_read(void *to, uint64_t from, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};
	int saved, ret;

	if (!len || on_own_stack(from, len)) {
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

int urxe_user_write(uint64_t to, const void *from, size_t len)
{
	struct iovec local = {(void *)from, len}, remote = {(void *)(uintptr_t)to, len};
	int saved, ret;

	if (!len || on_own_stack(to, len)) {
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

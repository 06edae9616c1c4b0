/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Cross-memory attach to the process itself checks the addresses while it copies. Where a sandbox
 * forbids it, the addresses are trusted.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm/user_memory.h"

static int result(ssize_t done, size_t len)
{
	if (done >= 0)
		return (size_t)done == len ? 0 : -EFAULT;
	return errno == EFAULT ? -EFAULT : 1;
}

int urxe_user_read(void *to, uint64_t from, size_t len)
{
	struct iovec local = {to, len}, remote = {(void *)(uintptr_t)from, len};
	int saved = errno, ret;

	if (!len)
		return 0;
	ret = result(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), len);
	errno = saved;
	if (ret > 0)
		memcpy(to, remote.iov_base, len);
	return ret < 0 ? ret : 0;
}

int urxe_user_write(uint64_t to, const void *from, size_t len)
{
	struct iovec local = {(void *)from, len}, remote = {(void *)(uintptr_t)to, len};
	int saved = errno, ret;

	if (!len)
		return 0;
	ret = result(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), len);
	errno = saved;
	if (ret > 0)
		memcpy(remote.iov_base, from, len);
	return ret < 0 ? ret : 0;
}

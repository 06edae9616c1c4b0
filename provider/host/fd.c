/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/fd.h"
#include "host/libc.h"

#define FD_HIGH 800 /* below the usual soft limit of 1,024 */
#define FD_MAX	65536

static _Atomic uint64_t ours[FD_MAX / 64];

int urxe_fd_keep(int fd)
{
	int saved = errno, high;

	if (fd < 0)
		return fd;
	high = urxe_libc.fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
	if (high >= 0) {
		urxe_libc.close(fd);
		fd = high;
	} else {
		urxe_libc.fcntl(fd, F_SETFD, FD_CLOEXEC);
	}
	if (fd < FD_MAX)
		atomic_fetch_or(&ours[fd / 64], 1ull << (fd % 64));
	errno = saved;
	return fd;
}

void urxe_fd_close(int fd)
{
	if (fd < 0)
		return;
	if (fd < FD_MAX)
		atomic_fetch_and(&ours[fd / 64], ~(1ull << (fd % 64)));
	urxe_libc.close(fd);
}

bool urxe_fd_is_ours(int fd)
{
	return fd >= 0 && fd < FD_MAX &&
	       (atomic_load_explicit(&ours[fd / 64], memory_order_relaxed) & (1ull << (fd % 64)));
}

int urxe_fd_size(int fd, size_t bytes)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && bytes > limit.rlim_cur) {
		errno = EFBIG;
		return -1;
	}
	return ftruncate(fd, bytes);
}

int urxe_fd_memfd(const char *name, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -1;
	if (!urxe_fd_size(fd, bytes) &&
	    !urxe_libc.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return urxe_fd_keep(fd);
	err = errno;
	urxe_libc.close(fd);
	errno = err;
	return -1;
}

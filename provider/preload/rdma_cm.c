// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The file /dev/infiniband/rdma_cm. librdmacm opens it once for each event channel (and id), looks
 * whether it is a character device, writes commands to it, polls it, and closes it. The program's
 * descriptor is a real one: an epoll descriptor that the connection manager makes, readable when an
 * event waits, so that poll, epoll and fcntl(O_NONBLOCK) are the kernel's business. Here is what
 * the kernel cannot do: write() carries a command out, dup() and close() count.
 *
 * Where the kernel has an rdma_cm of its own, the device is ours as soon as there is a urxe device;
 * else open() goes to the kernel. Its number is then the kernel's, because librdmacm is told that
 * by netlink and compares. Ids of kernel devices are served on the same descriptor (cm/kernel.h).
 *
 * The hooks on write, writev, dup and fcntl cost a program that has no such file open one load and
 * one comparison, and are then as async-signal-safe as what they stand in front of.
 *
 * Any thread; what is locked is said in host/fd_files.h.
 */
#include "preload/rdma_cm.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/libc.h"
#include "host/sysinfo.h"
#include "host/user_memory.h"
#include "preload/files.h"
#include "preload/umad.h"

#define MISC_MAJOR 10
#define OUR_MINOR  4791 /* above those that the kernel has given out */

bool urxe_rdma_cm_is_fd(int fd)
{
	return urxe_fd_files_has(&urxe_ucma_fds, fd) && getpid() == urxe_owner_pid;
}

/* ---- open ---- */

int urxe_rdma_cm_open(int flags)
{
	struct urxe_ucma *file;
	int fd, ret;

	/* From now on there are descriptors that close() and its kin must know. */
	atomic_store(&urxe_attached, true);
	ret = urxe_ucma_open(&file);
	if (ret)
		return ret;
	fd = urxe_ucma_fd(file);
	if (!(flags & O_CLOEXEC))
		urxe_libc.fcntl(fd, F_SETFD, 0);
	if (flags & O_NONBLOCK)
		urxe_libc.fcntl(fd, F_SETFL, urxe_libc.fcntl(fd, F_GETFL) | O_NONBLOCK);
	atomic_store(&urxe_view_read, true);
	ret = urxe_fd_files_add(&urxe_ucma_fds, fd, file);
	return ret ? ret : fd;
}

dev_t urxe_rdma_cm_rdev(void)
{
	unsigned major, minor;
	struct stat st;
	char text[32];

	if (!urxe_files_kernel_lstat("/dev/infiniband/rdma_cm", &st) && S_ISCHR(st.st_mode))
		return st.st_rdev;
	if (urxe_read_file("/sys/class/misc/rdma_cm/dev", text, sizeof(text)) > 0 &&
	    sscanf(text, "%u:%u", &major, &minor) == 2)
		return makedev(major, minor);
	return makedev(MISC_MAJOR, OUR_MINOR);
}

/* ---- write ---- */

/*
 * A descriptor that was closed behind our back (by a bare system call) may be another file by now:
 * ours is an anonymous inode, which has no type.
 */
static bool still_ours(int fd)
{
	struct urxe_stat st;
	struct urxe_ucma *file;

	if (!urxe_fstat(fd, &st) && !(st.mode & S_IFMT))
		return true;
	file = urxe_fd_files_remove(&urxe_ucma_fds, fd);
	if (file)
		urxe_ucma_close(file);
	return false;
}

/* Waiting for an event is a cancellation point, as write() is. Drops the reference. */
static ssize_t write_and_drop(struct urxe_ucma *file, int fd, const void *buf, size_t len)
{
	ssize_t ret;

	pthread_cleanup_push(urxe_ucma_fds.drop, file);
	ret = urxe_ucma_write(file, fd, buf, len);
	pthread_cleanup_pop(1);
	return ret;
}

static ssize_t command(struct urxe_ucma *file, int fd, const void *buf, size_t len)
{
	int saved = errno;
	ssize_t ret = write_and_drop(file, fd, buf, len);

	return urxe_view_result(ret, saved);
}

/* A command and nothing else: nobody would write that to another file, and asking what file it is,
 * or whether this is the child of a vfork, would cost a system call each time. */
static bool is_command(const void *buf, size_t len)
{
	struct rdma_ucm_cmd_hdr hdr;

	return len >= sizeof(hdr) && !urxe_user_read(&hdr, (uintptr_t)buf, sizeof(hdr)) &&
	       hdr.cmd <= RDMA_USER_CM_CMD_JOIN_MCAST && sizeof(hdr) + hdr.in == len;
}

static struct urxe_ucma *file_to_write(int fd, const void *buf, size_t len)
{
	if (!is_command(buf, len) && (!urxe_rdma_cm_is_fd(fd) || !still_ours(fd)))
		return NULL;
	return urxe_fd_files_get(&urxe_ucma_fds, fd);
}

URXE_EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct urxe_ucma *file =
		urxe_fd_files_has(&urxe_ucma_fds, fd) ? file_to_write(fd, buf, len) : NULL;

	if (file)
		return command(file, fd, buf, len);
	if (urxe_umad_is_fd(fd))
		return urxe_umad_write(fd, buf, len);
	return next(write)(fd, buf, len);
}

/* Each piece is a write of its own, as for any device that knows no vectors. */
URXE_EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	ssize_t ret, sum = 0;

	if (!urxe_rdma_cm_is_fd(fd) || !still_ours(fd))
		return next(writev)(fd, iov, n);
	if (n < 0 || n > IOV_MAX) {
		errno = EINVAL;
		return -1;
	}
	for (int i = 0; i < n; i++) {
		ret = write(fd, iov[i].iov_base, iov[i].iov_len);
		if (ret < 0)
			return sum ? sum : ret;
		sum += ret;
		if ((size_t)ret < iov[i].iov_len)
			break;
	}
	return sum;
}

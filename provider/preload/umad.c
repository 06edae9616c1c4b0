// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which descriptors of the process are umad files, and the calls on them that the kernel cannot
 * carry out: read, write, ioctl. They cost a program that has no such file open one load and one
 * comparison. See umad.h.
 *
 * lock guards the list of files. Nobody waits for a fabric under it.
 */
#include "preload/umad.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/libc.h"
#include "host/mutex.h"
#include "preload/files.h"

static URXE_MUTEX(lock);
static struct urxe_umad *files;

/* ---- the files ---- */

static void drop(void *arg)
{
	struct urxe_umad *file = arg, **at;

	if (atomic_fetch_sub(&file->refs, 1) != 1)
		return;
	pthread_mutex_lock(&lock);
	for (at = &files; *at && *at != file; at = &(*at)->link)
		;
	if (*at)
		*at = file->link;
	pthread_mutex_unlock(&lock);
	urxe_umad_file_close(file);
}

static void hold(void *file)
{
	atomic_fetch_add(&((struct urxe_umad *)file)->refs, 1);
}

struct urxe_fd_files urxe_umad_fds = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.hold = hold,
	.drop = drop,
};

/* The file behind it, or the first; a file without references is about to leave the list. */
static struct urxe_umad *following(const struct urxe_umad *before)
{
	struct urxe_umad *file;
	unsigned refs = 0;

	pthread_mutex_lock(&lock);
	for (file = before ? before->link : files; file; file = file->link) {
		refs = atomic_load(&file->refs);
		while (refs && !atomic_compare_exchange_weak(&file->refs, &refs, refs + 1))
			;
		if (refs)
			break;
	}
	pthread_mutex_unlock(&lock);
	return file;
}

void urxe_umad_each(void (*fn)(struct urxe_umad *file, void *arg), void *arg)
{
	struct urxe_umad *file = following(NULL), *before;

	while (file) {
		fn(file, arg);
		before = file;
		file = following(before);
		drop(before);
	}
}

void urxe_umad_forked(void)
{
	urxe_fd_files_forked(&urxe_umad_fds);
	for (struct urxe_umad *file = files; file; file = file->link)
		urxe_umad_file_forked(file);
	urxe_umad_lost_forked();
	urxe_agents_forked();
}

int urxe_umad_open(const struct urxe_umad_port *port, int flags)
{
	struct urxe_umad *file;
	int ret, fd;

	atomic_store(&urxe_attached, true);
	ret = urxe_umad_file_open(port, &file);
	if (ret)
		return ret;
	fd = urxe_libc.fcntl(file->fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
	if (fd < 0) {
		ret = -errno;
		urxe_umad_file_close(file);
		return ret;
	}
	if (flags & O_NONBLOCK)
		urxe_libc.fcntl(fd, F_SETFL, urxe_libc.fcntl(fd, F_GETFL) | O_NONBLOCK);
	pthread_mutex_lock(&lock);
	file->link = files;
	files = file;
	pthread_mutex_unlock(&lock);
	ret = urxe_fd_files_add(&urxe_umad_fds, fd, file);
	return ret ? ret : fd;
}

/* ---- the calls ---- */

static ssize_t result(struct urxe_umad *file, ssize_t ret, int saved)
{
	drop(file);
	return urxe_view_result(ret, saved);
}

static ssize_t read_file(struct urxe_umad *file, void *buf, size_t len)
{
	ssize_t ret;

	pthread_cleanup_push(drop, file);
	pthread_testcancel(); /* as read(2) */
	ret = urxe_umad_file_read(file, buf, len);
	pthread_cleanup_pop(0);
	return ret;
}

URXE_EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	struct urxe_umad *file = urxe_fd_files_get(&urxe_umad_fds, fd);
	int saved = errno;

	if (file)
		return result(file, read_file(file, buf, len), saved);
	return next(read)(fd, buf, len);
}

URXE_EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t buflen)
{
	if (len <= buflen && urxe_umad_is_fd(fd))
		return read(fd, buf, len);
	return next(__read_chk)(fd, buf, len, buflen);
}

ssize_t urxe_umad_write(int fd, const void *buf, size_t len)
{
	struct urxe_umad *file = urxe_fd_files_get(&urxe_umad_fds, fd);
	int saved = errno;

	if (!file) {
		errno = EBADF;
		return -1;
	}
	return result(file, urxe_umad_file_write(file, buf, len), saved);
}

/* The argument, whatever it is, is passed on as libc does it: as a pointer. */
URXE_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	struct urxe_umad *file = urxe_fd_files_get(&urxe_umad_fds, fd);
	int saved = errno;
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (file)
		return result(file, urxe_umad_file_ioctl(file, request, arg), saved);
	return next(ioctl)(fd, request, arg);
}

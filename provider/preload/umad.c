// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which descriptors of the process are umad files, and the calls on them that the kernel cannot
 * carry out: read, write, ioctl. They cost a program that has no such file open one load and one
 * comparison. See umad.h.
 *
 * lock guards the table against a file being dropped while somebody takes a reference, and the list
 * of files. Nobody waits for a fabric under it.
 */
#include "preload/umad.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/libc.h"
#include "preload/files.h"

#define MAX_FDS 16384

atomic_uint urxe_umad_num_fds;
static _Atomic(struct urxe_umad *) table[MAX_FDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct urxe_umad *files;

bool urxe_umad_listed(int fd)
{
	return fd >= 0 && fd < MAX_FDS && atomic_load_explicit(&table[fd], memory_order_acquire);
}

/* ---- the table ---- */

static void put(struct urxe_umad *file)
{
	struct urxe_umad **at;

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

static struct urxe_umad *get(int fd)
{
	struct urxe_umad *file = NULL;

	if (!urxe_umad_is_fd(fd))
		return NULL;
	pthread_mutex_lock(&lock);
	file = atomic_load(&table[fd]);
	if (file)
		atomic_fetch_add(&file->refs, 1);
	pthread_mutex_unlock(&lock);
	return file;
}

/* Takes a reference over. */
static int list(int fd, struct urxe_umad *file)
{
	struct urxe_umad *old;

	if (fd >= MAX_FDS)
		return -EMFILE;
	pthread_mutex_lock(&lock);
	old = atomic_exchange(&table[fd], file);
	if (!old)
		atomic_fetch_add(&urxe_umad_num_fds, 1);
	pthread_mutex_unlock(&lock);
	if (old)
		put(old);
	return 0;
}

void urxe_umad_closing(int fd)
{
	struct urxe_umad *file;

	if (!urxe_umad_is_fd(fd) || getpid() != urxe_owner_pid)
		return;
	pthread_mutex_lock(&lock);
	file = atomic_exchange(&table[fd], NULL);
	if (file)
		atomic_fetch_sub(&urxe_umad_num_fds, 1);
	pthread_mutex_unlock(&lock);
	if (file)
		put(file);
}

int urxe_umad_copied(int old, int fd)
{
	struct urxe_umad *file = fd < 0 ? NULL : get(old);
	int ret = file ? list(fd, file) : 0;

	if (!ret)
		return fd;
	urxe_libc.close(fd);
	put(file);
	errno = -ret;
	return -1;
}

void urxe_umad_swept(unsigned first, unsigned last)
{
	if (!atomic_load(&urxe_umad_num_fds))
		return;
	for (unsigned fd = first; fd <= last && fd < MAX_FDS; fd++)
		urxe_umad_closing(fd);
}

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
		put(before);
	}
}

void urxe_umad_forked(void)
{
	pthread_mutex_init(&lock, NULL);
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
	ret = list(fd, file);
	if (ret) {
		urxe_libc.close(fd);
		put(file);
		return ret;
	}
	return fd;
}

/* ---- the calls ---- */

static ssize_t result(struct urxe_umad *file, ssize_t ret, int saved)
{
	put(file);
	errno = ret < 0 ? -ret : saved;
	return ret < 0 ? -1 : ret;
}

static void put_when_cancelled(void *file)
{
	put(file);
}

static ssize_t read_file(struct urxe_umad *file, void *buf, size_t len)
{
	ssize_t ret;

	pthread_cleanup_push(put_when_cancelled, file);
	pthread_testcancel(); /* as read(2) */
	ret = urxe_umad_file_read(file, buf, len);
	pthread_cleanup_pop(0);
	return ret;
}

URXE_EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	struct urxe_umad *file = get(fd);
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
	struct urxe_umad *file = get(fd);
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
	struct urxe_umad *file = get(fd);
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

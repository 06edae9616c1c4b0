/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Programs that close descriptors they never opened: daemons that close everything from 3 up, and
 * those that put a descriptor at a number of their choice. The adapter's own (sockets, event
 * descriptors, the segment) survive both:
 *
 *   close() of one of ours succeeds and does nothing, as the program expects of any number;
 *   close_range() and closefrom() go around ours;
 *   dup2() and dup3() onto one of ours fail with EBUSY, which dup2(2) names. Moving ours away
 *   instead is not possible: the program may know its number (a completion channel's, say) or have
 *   it in an epoll set. The adapter opens its descriptors at high numbers, where this is rare.
 *
 * What the program opened itself, rdma_cm files (rdma_cm.c) and umads (umad.c), is closed, copied
 * and replaced as it asks, and counted.
 *
 * A vfork child runs these functions in its parent's memory, and a child of a bare clone() in a
 * copy of it. Their descriptor tables are their own: there ours are closed and replaced like any
 * other, and no state is changed. They are known by their process id.
 *
 * Async-signal-safe, any thread: system calls only, no locks, no memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/verbs.h"
#include "host/libc.h"
#include "preload/files.h"
#include "preload/rdma_cm.h"
#include "preload/umad.h"

#define MOST_NUMBERS (1 << 20)

/* May there be descriptors of ours in the descriptor table of the caller? */
static bool any_guarded(void)
{
	return atomic_load_explicit(&urxe_attached, memory_order_acquire) &&
	       getpid() == urxe_owner_pid;
}

static bool guarded(int fd)
{
	return fd >= 0 && atomic_load_explicit(&urxe_attached, memory_order_acquire) &&
	       urxe_owns_fd(fd) && getpid() == urxe_owner_pid;
}

/* The table of the program's descriptors that has it; NULL. A descriptor of a vfork child has none:
 * its files are its parent's. */
static struct urxe_fd_files *files_of(int fd)
{
	static struct urxe_fd_files *const tables[] = {&urxe_ucma_fds, &urxe_umad_fds};

	for (unsigned i = 0; i < 2; i++)
		if (urxe_fd_files_has(tables[i], fd))
			return getpid() == urxe_owner_pid ? tables[i] : NULL;
	return NULL;
}

URXE_EXPORT int close(int fd)
{
	struct urxe_fd_files *files;
	void *file;
	int ret;

	if (guarded(fd))
		return 0;
	files = files_of(fd);
	/* Out of the table first: once it is closed, the number can be another thread's. */
	file = files ? urxe_fd_files_remove(files, fd) : NULL;
	ret = next(close)(fd);
	if (file)
		files->drop(file);
	return ret;
}

/* ---- copies ---- */

static int copied(int old, int fd)
{
	struct urxe_fd_files *files = fd < 0 ? NULL : files_of(old);

	return files ? urxe_fd_files_copied(files, old, fd) : fd;
}

URXE_EXPORT int dup(int fd)
{
	return copied(fd, next(dup)(fd));
}

/* The argument, whatever it is, is passed on as libc does it: as a pointer. */
#define FCNTL(name)                                                                      \
	URXE_EXPORT int name(int fd, int cmd, ...)                                       \
	{                                                                                \
		void *arg;                                                               \
		va_list ap;                                                              \
		int ret;                                                                 \
                                                                                         \
		va_start(ap, cmd);                                                       \
		arg = va_arg(ap, void *);                                                \
		va_end(ap);                                                              \
		ret = next(name)(fd, cmd, arg);                                          \
		return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? copied(fd, ret) : ret; \
	}

FCNTL(fcntl)
FCNTL(fcntl64)

/* True if to must be left alone, with errno set to what dup2() answers. */
static bool dup_refused(int from, int to)
{
	if (from == to || !guarded(to))
		return false;
	if (urxe_libc.fcntl(from, F_GETFD) >= 0)
		errno = EBUSY;
	return true;
}

/* to was replaced by a copy of from: what they were, if files of ours, is counted. */
static int dup_done(int from, int to)
{
	struct urxe_fd_files *files = to < 0 || from == to ? NULL : files_of(to);
	void *old = files ? urxe_fd_files_remove(files, to) : NULL;

	if (old)
		files->drop(old);
	return from == to ? to : copied(from, to);
}

URXE_EXPORT int dup2(int from, int to)
{
	if (dup_refused(from, to))
		return -1;
	return dup_done(from, next(dup2)(from, to));
}

URXE_EXPORT int dup3(int from, int to, int flags)
{
	if (dup_refused(from, to))
		return -1;
	return dup_done(from, next(dup3)(from, to, flags));
}

struct linux_dirent64 {
	uint64_t d_ino;
	int64_t d_off;
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};

/* What a walk over the open descriptors is for. */
struct sweep {
	unsigned cursor; /* everything below is done */
	unsigned last;
	int flags;
	bool one_by_one; /* the kernel has no close_range */
	int err;
};

/* Closes from the cursor up to and without fd, and goes on behind fd. */
static void sweep_up_to(struct sweep *s, unsigned fd)
{
	if (fd > s->cursor && !s->one_by_one && next(close_range)(s->cursor, fd - 1, s->flags))
		s->err = errno;
	s->cursor = fd + 1;
}

static void sweep_descriptor(struct sweep *s, unsigned fd, int dir)
{
	if (fd < s->cursor || fd > s->last)
		return;
	if ((int)fd == dir || urxe_owns_fd(fd))
		sweep_up_to(s, fd);
	else if (s->one_by_one)
		next(close)(fd);
}

/* Walks the open descriptors, in ascending order as /proc lists them. */
static int sweep_walk(struct sweep *s)
{
	_Alignas(struct linux_dirent64) char buf[2048];
	const struct linux_dirent64 *d;
	int dir = urxe_libc.open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n, at;

	if (dir < 0)
		return -1;
	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (at = 0; at < n; at += d->d_reclen) {
			d = (const struct linux_dirent64 *)(buf + at);
			if (d->d_name[0] != '.')
				sweep_descriptor(s, strtoul(d->d_name, NULL, 10), dir);
		}
	}
	urxe_libc.close(dir);
	return 0;
}

/* Without /proc: every number that could be open, and no more than a million where the limit on
 * open files is no help. */
static void sweep_numbers(struct sweep *s)
{
	long limit = sysconf(_SC_OPEN_MAX);
	unsigned fd, end = limit > 0 && limit < MOST_NUMBERS ? limit : MOST_NUMBERS;

	for (fd = s->cursor; fd <= s->last && fd < end; fd++)
		sweep_descriptor(s, fd, -1);
}

static int sweep(struct sweep *s)
{
	if (sweep_walk(s))
		sweep_numbers(s);
	if (s->cursor <= s->last && !s->one_by_one &&
	    next(close_range)(s->cursor, s->last, s->flags))
		s->err = errno;
	return s->err;
}

static void swept(unsigned first, unsigned last)
{
	urxe_fd_files_swept(&urxe_ucma_fds, first, last);
	urxe_fd_files_swept(&urxe_umad_fds, first, last);
}

URXE_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	struct sweep s = {.cursor = first, .last = last, .flags = flags};

	if (!next(close_range)) {
		errno = ENOSYS;
		return -1;
	}
	/* Marking ours close-on-exec changes nothing: they are. */
	if (first > last || (flags & CLOSE_RANGE_CLOEXEC) || !any_guarded())
		return next(close_range)(first, last, flags);
	errno = sweep(&s);
	if (errno)
		return -1;
	swept(first, last);
	return 0;
}

URXE_EXPORT void closefrom(int first)
{
	struct sweep s = {.cursor = first < 0 ? 0 : first, .last = ~0U};

	if (!any_guarded()) {
		next(closefrom)(first);
		return;
	}
	if (!next(close_range) || sweep(&s)) {
		s = (struct sweep){
			.cursor = first < 0 ? 0 : first, .last = ~0U, .one_by_one = true};
		sweep(&s);
	}
	swept(first < 0 ? 0 : first, ~0U);
}

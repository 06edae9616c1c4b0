// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The libc calls that take a path, replaced so that programs find the sysfs view: each asks
 * urxe_view_maybe(), which says no to nearly every path, and goes on to the next definition. libc's
 * own calls among these do not pass through here, so that each entry point is served by itself: the
 * 64-bit names, those of _FORTIFY_SOURCE and those of binaries from before glibc 2.33.
 *
 * Calls that change files (mkdir, unlink, chmod…) are not served; the kernel says that there is
 * nothing to change.
 *
 * Any thread, signal handlers and vfork children included as long as the path is outside the view.
 */
#include "preload/files.h"

#include <stdarg.h>

#include "host/libc.h"

/* A call that the view may answer, which says so and sets ret; else it is the next definition's. */
#define SERVED(type, name, params, args, answered)       \
	URXE_EXPORT type name params                     \
	{                                                \
		type ret;                                \
                                                         \
		if (urxe_view_maybe(path) && (answered)) \
			return ret;                      \
		return next(name) args;                  \
	}

/* The mode is there where the flags take one. */
#define OPEN(name, dirfd, params, ...)                                     \
	URXE_EXPORT int name params                                        \
	{                                                                  \
		mode_t mode = 0;                                           \
		va_list ap;                                                \
		int ret;                                                   \
                                                                           \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
			va_start(ap, flags);                               \
			mode = va_arg(ap, mode_t);                         \
			va_end(ap);                                        \
		}                                                          \
		if (urxe_view_maybe(path) &&                               \
		    urxe_view_open(dirfd, path, flags, URXE_CALLER, &ret)) \
			return ret;                                        \
		return next(name)(__VA_ARGS__, flags, mode);               \
	}

OPEN(open, AT_FDCWD, (const char *path, int flags, ...), path)
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), path)
OPEN(openat, dirfd, (int dirfd, const char *path, int flags, ...), dirfd, path)
OPEN(openat64, dirfd, (int dirfd, const char *path, int flags, ...), dirfd, path)

#define CREAT(name)                                                      \
	SERVED(int, name, (const char *path, mode_t mode), (path, mode), \
	       urxe_view_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, URXE_CALLER, &ret))

CREAT(creat)
CREAT(creat64)

/* open() with _FORTIFY_SOURCE: aborts where a mode is missing. */
#define OPEN_2(name, dirfd, params, ...)         \
	SERVED(int, name, params, (__VA_ARGS__), \
	       !(flags & O_CREAT) && urxe_view_open(dirfd, path, flags, URXE_CALLER, &ret))

OPEN_2(__open_2, AT_FDCWD, (const char *path, int flags), path, flags)
OPEN_2(__open64_2, AT_FDCWD, (const char *path, int flags), path, flags)
OPEN_2(__openat_2, dirfd, (int dirfd, const char *path, int flags), dirfd, path, flags)
OPEN_2(__openat64_2, dirfd, (int dirfd, const char *path, int flags), dirfd, path, flags)

/* The flags of open() that fopen()'s mode stands for; -1 where fopen() would say EINVAL. */
static int fopen_flags(const char *mode)
{
	int flags;

	switch (*mode) {
	case 'r': flags = O_RDONLY; break;
	case 'w': flags = O_WRONLY | O_CREAT | O_TRUNC; break;
	case 'a': flags = O_WRONLY | O_CREAT | O_APPEND; break;
	default: return -1;
	}
	while (*++mode && *mode != ',') {
		if (*mode == '+')
			flags = (flags & ~O_ACCMODE) | O_RDWR;
		else if (*mode == 'x')
			flags |= O_EXCL;
		else if (*mode == 'e')
			flags |= O_CLOEXEC;
	}
	return flags;
}

static bool view_fopen(const char *path, const char *mode, const void *caller, FILE **ret)
{
	int flags = fopen_flags(mode);
	int fd;

	if (flags < 0 || !urxe_view_open(AT_FDCWD, path, flags, caller, &fd))
		return false;
	*ret = fd < 0 ? NULL : fdopen(fd, mode);
	if (fd >= 0 && !*ret)
		urxe_libc.close(fd);
	return true;
}

#define FOPEN(name)                                                              \
	SERVED(FILE *, name, (const char *path, const char *mode), (path, mode), \
	       view_fopen(path, mode, URXE_CALLER, &ret))

FOPEN(fopen)
FOPEN(fopen64)

/*
 * A stream can only be given another file by name: the descriptor's name in /proc. A path that
 * cannot be opened closes the stream, which freopen() does with a name that leads nowhere.
 */
static bool view_freopen(const char *path, const char *mode, FILE *stream, const void *caller,
			 FILE **ret)
{
	int flags = fopen_flags(mode);
	char proc[64];
	int fd, err;

	if (flags < 0 || !urxe_view_open(AT_FDCWD, path, flags | O_CLOEXEC, caller, &fd))
		return false;
	err = errno;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	*ret = next(freopen)(proc, mode, stream);
	if (fd >= 0)
		urxe_libc.close(fd);
	else
		errno = err;
	return true;
}

#define FREOPEN(name)                                                            \
	SERVED(FILE *, name, (const char *path, const char *mode, FILE *stream), \
	       (path, mode, stream), view_freopen(path, mode, stream, URXE_CALLER, &ret))

FREOPEN(freopen)
FREOPEN(freopen64)

/*
 * The stat family. struct stat64 is struct stat on the 64-bit systems that this is built for; the
 * version argument of the old names is checked by libc, which knows one.
 */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat64 is struct stat");

#define STAT(name, dirfd, flags, params, ...)    \
	SERVED(int, name, params, (__VA_ARGS__), \
	       urxe_view_stat(dirfd, path, flags, (struct stat *)st, URXE_CALLER, &ret))

#define FSTAT(name, params, ...)                                                         \
	URXE_EXPORT int name params                                                      \
	{                                                                                \
		int ret = next(name)(__VA_ARGS__);                                       \
                                                                                         \
		if (!ret && atomic_load_explicit(&urxe_view_read, memory_order_relaxed)) \
			urxe_view_fstat(fd, (struct stat *)st);                          \
		return ret;                                                              \
	}

#define FSTATAT(name, params, ...)                                                            \
	URXE_EXPORT int name params                                                           \
	{                                                                                     \
		int ret;                                                                      \
                                                                                              \
		if (urxe_view_maybe(path) && *path &&                                         \
		    urxe_view_stat(dirfd, path, flags, (struct stat *)st, URXE_CALLER, &ret)) \
			return ret;                                                           \
		ret = next(name)(__VA_ARGS__);                                                \
		if (!ret && (flags & AT_EMPTY_PATH) && (!path || !*path) &&                   \
		    atomic_load_explicit(&urxe_view_read, memory_order_relaxed))              \
			urxe_view_fstat(dirfd, (struct stat *)st);                            \
		return ret;                                                                   \
	}

STAT(stat, AT_FDCWD, 0, (const char *path, struct stat *st), path, st)
STAT(stat64, AT_FDCWD, 0, (const char *path, struct stat64 *st), path, st)
STAT(lstat, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (const char *path, struct stat *st), path, st)
STAT(lstat64, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (const char *path, struct stat64 *st), path, st)
STAT(__xstat, AT_FDCWD, 0, (int ver, const char *path, struct stat *st), ver, path, st)
STAT(__xstat64, AT_FDCWD, 0, (int ver, const char *path, struct stat64 *st), ver, path, st)
STAT(__lxstat, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (int ver, const char *path, struct stat *st), ver,
     path, st)
STAT(__lxstat64, AT_FDCWD, AT_SYMLINK_NOFOLLOW, (int ver, const char *path, struct stat64 *st), ver,
     path, st)
FSTAT(fstat, (int fd, struct stat *st), fd, st)
FSTAT(fstat64, (int fd, struct stat64 *st), fd, st)
FSTAT(__fxstat, (int ver, int fd, struct stat *st), ver, fd, st)
FSTAT(__fxstat64, (int ver, int fd, struct stat64 *st), ver, fd, st)
FSTATAT(fstatat, (int dirfd, const char *path, struct stat *st, int flags), dirfd, path, st, flags)
FSTATAT(fstatat64, (int dirfd, const char *path, struct stat64 *st, int flags), dirfd, path, st,
	flags)
FSTATAT(__fxstatat, (int ver, int dirfd, const char *path, struct stat *st, int flags), ver, dirfd,
	path, st, flags)
FSTATAT(__fxstatat64, (int ver, int dirfd, const char *path, struct stat64 *st, int flags), ver,
	dirfd, path, st, flags)

URXE_EXPORT int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *stx)
{
	struct stat st;
	int ret;

	if (urxe_view_maybe(path) && *path &&
	    urxe_view_stat(dirfd, path, flags & AT_SYMLINK_NOFOLLOW, &st, URXE_CALLER, &ret)) {
		if (!ret)
			urxe_view_to_statx(&st, stx);
		return ret;
	}
	ret = next(statx)(dirfd, path, flags, mask, stx);
	if (!ret && (flags & AT_EMPTY_PATH) && (!path || !*path) &&
	    atomic_load_explicit(&urxe_view_read, memory_order_relaxed) &&
	    !next(fstat)(dirfd, &st) && urxe_view_fstat(dirfd, &st))
		urxe_view_to_statx(&st, stx);
	return ret;
}

#define ACCESS(name, dirfd, flags, params, ...)  \
	SERVED(int, name, params, (__VA_ARGS__), \
	       urxe_view_access(dirfd, path, mode, flags, URXE_CALLER, &ret))

ACCESS(access, AT_FDCWD, 0, (const char *path, int mode), path, mode)
ACCESS(euidaccess, AT_FDCWD, 0, (const char *path, int mode), path, mode)
ACCESS(eaccess, AT_FDCWD, 0, (const char *path, int mode), path, mode)
ACCESS(faccessat, dirfd, flags, (int dirfd, const char *path, int mode, int flags), dirfd, path,
       mode, flags)

#define READLINK(name, dirfd, fits, params, ...)     \
	SERVED(ssize_t, name, params, (__VA_ARGS__), \
	       (fits) && urxe_view_readlink(dirfd, path, buf, len, URXE_CALLER, &ret))

READLINK(readlink, AT_FDCWD, true, (const char *path, char *buf, size_t len), path, buf, len)
READLINK(readlinkat, dirfd, true, (int dirfd, const char *path, char *buf, size_t len), dirfd, path,
	 buf, len)
/* Where the buffer is too small, libc aborts. */
READLINK(__readlink_chk, AT_FDCWD, len <= buflen,
	 (const char *path, char *buf, size_t len, size_t buflen), path, buf, len, buflen)
READLINK(__readlinkat_chk, dirfd, len <= buflen,
	 (int dirfd, const char *path, char *buf, size_t len, size_t buflen), dirfd, path, buf, len,
	 buflen)

SERVED(char *, realpath, (const char *path, char *resolved), (path, resolved),
       urxe_view_realpath(path, resolved, URXE_CALLER, &ret))
SERVED(char *, __realpath_chk, (const char *path, char *resolved, size_t len),
       (path, resolved, len),
       len >= PATH_MAX && urxe_view_realpath(path, resolved, URXE_CALLER, &ret))
SERVED(char *, canonicalize_file_name, (const char *path), (path),
       urxe_view_realpath(path, NULL, URXE_CALLER, &ret))

/* Whether a path lies in the view. -1: it should, but errno says why there is nothing. */
static int view_has(const char *path, bool nofollow, const void *caller)
{
	struct stat st;
	int ret;

	if (!urxe_view_maybe(path) ||
	    !urxe_view_stat(AT_FDCWD, path, nofollow ? AT_SYMLINK_NOFOLLOW : 0, &st, caller, &ret))
		return 0;
	return ret ? -1 : 1;
}

/* ls -l asks for access control lists: sysfs has none. */
#define XATTR(name, nofollow, params, ...)                       \
	URXE_EXPORT ssize_t name params                          \
	{                                                        \
		int has = view_has(path, nofollow, URXE_CALLER); \
                                                                 \
		if (!has)                                        \
			return next(name)(__VA_ARGS__);          \
		if (has > 0)                                     \
			errno = ENOTSUP;                         \
		return -1;                                       \
	}

XATTR(getxattr, false, (const char *path, const char *name, void *value, size_t size), path, name,
      value, size)
XATTR(lgetxattr, true, (const char *path, const char *name, void *value, size_t size), path, name,
      value, size)
XATTR(listxattr, false, (const char *path, char *list, size_t size), path, list, size)
XATTR(llistxattr, true, (const char *path, char *list, size_t size), path, list, size)

/* The file system of the view is that of its directory in the kernel. */
#define STATFS(name, type)                                                         \
	URXE_EXPORT int name(const char *path, struct type *buf)                   \
	{                                                                          \
		int has = view_has(path, false, URXE_CALLER);                      \
                                                                                   \
		if (has < 0)                                                       \
			return -1;                                                 \
		if (has)                                                           \
			path = strstr(path, "dev/") == path + 1 ? "/dev" : "/sys"; \
		return next(name)(path, buf);                                      \
	}

STATFS(statfs, statfs)
STATFS(statfs64, statfs64)
STATFS(statvfs, statvfs)
STATFS(statvfs64, statvfs64)

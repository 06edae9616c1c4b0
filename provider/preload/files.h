/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The libc calls on files that liburxe stands in front of, and the next definitions behind them:
 *
 *   files_next.c  the table of next definitions
 *   files_view.c  whether a path or a descriptor lies in the view, and what a call on it returns
 *   files.c       open, stat, access, readlink, realpath and their relatives
 *   files_list.c  opendir, scandir, glob, ftw, chdir, getcwd
 *   fds.c, rdma_cm.c, umad.c  read, write, ioctl, fcntl, dup, close: calls on a descriptor
 *
 * Every call has a fast way out: urxe_view_maybe() looks at the path alone and lets all but a few
 * go on to the next definition at once, with errno, memory and locks untouched, so that this is
 * safe wherever the call itself is (signal handlers, a vfork child, before our constructor). Calls
 * on the view itself are as safe as malloc.
 */
#ifndef URXE_PRELOAD_FILES_H
#define URXE_PRELOAD_FILES_H

#ifdef _FILE_OFFSET_BITS
#error "open() and open64() are two functions here: build without _FILE_OFFSET_BITS"
#endif

#include <sys/cdefs.h>
/* These functions are the ones that are asked about NULL: no promise about arguments here. */
#undef __nonnull
#define __nonnull(params)
#undef __attribute_nonnull__
#define __attribute_nonnull__(params)
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/sysfs.h"

#define URXE_CALLER __builtin_return_address(0)

/* Entry points of libc's ABI that its headers declare only in part. */
int fcntl64(int fd, int cmd, ...);
ssize_t __read_chk(int fd, void *buf, size_t len, size_t buflen);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t buflen);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t len, size_t buflen);
char *__realpath_chk(const char *path, char *resolved, size_t len);
char *__getcwd_chk(char *buf, size_t size, size_t buflen);
int __xstat(int ver, const char *path, struct stat *st);
int __xstat64(int ver, const char *path, struct stat64 *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __lxstat64(int ver, const char *path, struct stat64 *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstat64(int ver, int fd, struct stat64 *st);
int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags);
int __fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags);

/* clang-format off */
#define URXE_FILE_CALLS(X)                                                                         \
	X(open) X(open64) X(openat) X(openat64) X(creat) X(creat64)                                \
	X(__open_2) X(__open64_2) X(__openat_2) X(__openat64_2)                                    \
	X(fopen) X(fopen64) X(freopen) X(freopen64)                                                \
	X(stat) X(stat64) X(lstat) X(lstat64) X(fstat) X(fstat64) X(fstatat) X(fstatat64) X(statx) \
	X(__xstat) X(__xstat64) X(__lxstat) X(__lxstat64) X(__fxstat) X(__fxstat64)                \
	X(__fxstatat) X(__fxstatat64)                                                              \
	X(access) X(faccessat) X(euidaccess) X(eaccess)                                            \
	X(readlink) X(readlinkat) X(__readlink_chk) X(__readlinkat_chk)                            \
	X(realpath) X(__realpath_chk) X(canonicalize_file_name)                                    \
	X(getxattr) X(lgetxattr) X(listxattr) X(llistxattr)                                        \
	X(statfs) X(statfs64) X(statvfs) X(statvfs64)                                              \
	X(opendir) X(scandir) X(scandir64) X(scandirat) X(scandirat64)                             \
	X(glob) X(glob64) X(ftw) X(ftw64) X(nftw) X(nftw64)                                        \
	X(chdir) X(getcwd) X(__getcwd_chk) X(get_current_dir_name)                                 \
	X(read) X(__read_chk) X(write) X(writev) X(ioctl) X(fcntl) X(fcntl64)                      \
	X(close) X(close_range) X(closefrom) X(dup) X(dup2) X(dup3) X(pthread_cancel)
/* clang-format on */

/* The next definitions, after ours, in the search order of the process. */
struct urxe_files_next {
#define URXE_FILE_POINTER(name) __typeof__(&name) name##_;
	URXE_FILE_CALLS(URXE_FILE_POINTER)
#undef URXE_FILE_POINTER
};

extern struct urxe_files_next urxe_files_next_table;
extern atomic_bool urxe_files_next_ready;
void urxe_files_next_init(void);

static inline const struct urxe_files_next *urxe_files_next(void)
{
	if (__builtin_expect(!atomic_load_explicit(&urxe_files_next_ready, memory_order_acquire),
			     0))
		urxe_files_next_init();
	return &urxe_files_next_table;
}

/* next(open)(path, flags): the next definition of open. */
#define next(name) (urxe_files_next()->name##_)

/* For the view's own questions to the kernel. */
DIR *urxe_files_kernel_opendir(const char *path);
int urxe_files_kernel_lstat(const char *path, struct stat *st);

/* Set once a directory of the view has been opened: from then on descriptors may be in it. */
extern atomic_bool urxe_view_opened;
/* Set once a file of the view has been opened. */
extern atomic_bool urxe_view_read;

/* Set if the working directory that the process was started in lies in the view. */
void urxe_view_init(void);

bool urxe_view_absolute(const char *path);

/*
 * Whether a path may lie in the view; false for nearly all. Paths are "/sys/…" and "/dev/…",
 * spelled with more slashes and dots perhaps; relative ones are of interest from a directory of the
 * view or, as hwloc asks, from the root directory.
 */
static inline bool urxe_view_maybe(const char *path)
{
	if (!path)
		return false;
	if (path[0] == '/') {
		if (path[1] != 's' && path[1] != 'd' && path[1] != '/' && path[1] != '.')
			return false;
		return urxe_view_absolute(path);
	}
	if (atomic_load_explicit(&urxe_view_opened, memory_order_relaxed))
		return true;
	return ((path[0] == 's' && path[1] == 'y') || (path[0] == 'd' && path[1] == 'e')) &&
	       urxe_view_absolute(path);
}

/*
 * libibverbs is not shown the view: it would bind a kernel driver to what it finds there. Nor is
 * liburxe. caller: any address in the code that calls, NULL for anybody.
 */
bool urxe_view_hidden_from(const void *caller);

/* What the path names, for that caller: the verdicts and errors of urxe_sysfs_find(). */
int urxe_view_find(int dirfd, const char *path, bool nofollow, const void *caller,
		   struct urxe_sysfs_found *found);

/*
 * Each call on a path that may lie in the view: true if it was answered, with the result in *ret
 * and errno set as the call sets it; false if it is the next definition's.
 */
bool urxe_view_open(int dirfd, const char *path, int flags, const void *caller, int *ret);
bool urxe_view_stat(int dirfd, const char *path, int flags, struct stat *st, const void *caller,
		    int *ret);
bool urxe_view_access(int dirfd, const char *path, int mode, int flags, const void *caller,
		      int *ret);
bool urxe_view_readlink(int dirfd, const char *path, char *buf, size_t len, const void *caller,
			ssize_t *ret);
bool urxe_view_realpath(const char *path, char *resolved, const void *caller, char **ret);

/* A directory of the view, as one that can be opened: true if answered; *ret: 0 with its real path
 * in real (PATH_MAX), or -1 with errno. */
bool urxe_view_directory(int dirfd, const char *path, const void *caller, char *real, int *ret);

/* Whether a descriptor is a file of the view, which stat() then describes as sysfs would. */
bool urxe_view_fstat(int fd, struct stat *st);
void urxe_view_to_statx(const struct stat *st, struct statx *stx);

/* Retries, errno and results of a call: -errno as -1 with errno, anything else with errno kept. */
static inline ssize_t urxe_view_result(ssize_t ret, int saved_errno)
{
	errno = ret < 0 ? -ret : saved_errno;
	return ret < 0 ? -1 : ret;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libc's own functions, found in libc.so.6's symbol table and not through the linker's search
 * order: liburxe lives in someone else's process, where another preload (librspreload turns
 * socket() into an rsocket) or liburxe itself may have put other functions in their place. All code
 * of this library that opens, reads, writes, sends, waits on or closes a descriptor calls them as
 * urxe_libc.close(fd).
 *
 * Calling them directly loses no more than checks under the address sanitizer; under the thread
 * sanitizer those that order memory accesses are annotated (libc_tsan.h). In a static program they
 * are the plain functions.
 *
 * Filled by urxe_libc_init() (a constructor; also called by every interposed function that can run
 * before it). Immutable afterwards, so any thread may read it.
 */
#ifndef URXE_HOST_LIBC_H
#define URXE_HOST_LIBC_H

#include <poll.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

struct urxe_libc {
	int (*open)(const char *path, int flags, ...);
	int (*openat)(int dirfd, const char *path, int flags, ...);
	int (*close)(int fd);
	ssize_t (*read)(int fd, void *buf, size_t len);
	ssize_t (*write)(int fd, const void *buf, size_t len);
	ssize_t (*pread)(int fd, void *buf, size_t len, off_t off);
	int (*fcntl)(int fd, int cmd, ...);
	int (*ioctl)(int fd, unsigned long request, ...);
	int (*dup)(int fd);
	int (*poll)(struct pollfd *fds, nfds_t n, int timeout);
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *addr, socklen_t len);
	int (*connect)(int fd, const struct sockaddr *addr, socklen_t len);
	int (*getsockname)(int fd, struct sockaddr *addr, socklen_t *len);
	int (*setsockopt)(int fd, int level, int name, const void *val, socklen_t len);
	int (*getsockopt)(int fd, int level, int name, void *val, socklen_t *len);
	ssize_t (*sendto)(int fd, const void *buf, size_t len, int flags,
			  const struct sockaddr *addr, socklen_t alen);
	ssize_t (*sendmsg)(int fd, const struct msghdr *msg, int flags);
	int (*sendmmsg)(int fd, struct mmsghdr *msgs, unsigned n, int flags);
	ssize_t (*recv)(int fd, void *buf, size_t len, int flags);
	ssize_t (*recvmsg)(int fd, struct msghdr *msg, int flags);
	int (*recvmmsg)(int fd, struct mmsghdr *msgs, unsigned n, int flags,
			struct timespec *timeout);
	int (*epoll_create1)(int flags);
	int (*epoll_ctl)(int epfd, int op, int fd, struct epoll_event *ev);
	int (*epoll_wait)(int epfd, struct epoll_event *evs, int n, int timeout);
	int (*eventfd)(unsigned initval, int flags);
	int (*timerfd_create)(int clock, int flags);
	int (*timerfd_settime)(int fd, int flags, const void *new_value, void *old_value);
	/* The real dlsym and dlvsym: they look at their return address, so call them directly. */
	void *(*dlsym)(void *handle, const char *name);
	void *(*dlvsym)(void *handle, const char *name, const char *version);
	void *(*dlopen)(const char *file, int mode);
};

extern struct urxe_libc urxe_libc;

void urxe_libc_init(void);

#endif

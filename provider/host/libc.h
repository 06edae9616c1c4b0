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

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* dlsym and dlvsym look at their return address, so call them directly. */
/* clang-format off */
#define URXE_LIBC_FUNCTIONS(X)                                                                     \
	X(open) X(openat) X(close) X(read) X(write) X(pread) X(fcntl) X(ioctl) X(dup) X(poll)      \
	X(socket) X(bind) X(connect) X(getsockname) X(setsockopt) X(getsockopt)                    \
	X(sendto) X(sendmsg) X(sendmmsg) X(recv) X(recvmsg) X(recvmmsg)                            \
	X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(eventfd) X(timerfd_create) X(timerfd_settime) \
	X(dlsym) X(dlvsym) X(dlopen)
/* clang-format on */

struct urxe_libc {
#define URXE_LIBC_POINTER(name) __typeof__(&name) name;
	URXE_LIBC_FUNCTIONS(URXE_LIBC_POINTER)
#undef URXE_LIBC_POINTER
};

extern struct urxe_libc urxe_libc;

void urxe_libc_init(void);

#endif

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * For builds with the thread sanitizer: what one thread did before it wrote to a descriptor
 * happened before what another does after it read from it. The sanitizer's own interceptors say
 * so, and libc called directly passes them by. As they do, this keeps one order per descriptor,
 * and one for all sockets (a datagram leaves by one and arrives at another). Any thread; no lock.
 */
#include "host/libc_tsan.h"

#ifdef URXE_TSAN

#include <sanitizer/tsan_interface.h>

static struct urxe_libc real;
static char sockets_order;
static char fd_order[1024];

static void *order_of(int fd)
{
	return &fd_order[(unsigned)fd % sizeof(fd_order)];
}

static void acquire(int fd, long result)
{
	if (result >= 0) {
		__tsan_acquire(order_of(fd));
		__tsan_acquire(&sockets_order);
	}
}

/* A call by which this thread sees what others did, and one by which others see what it did. */
#define ACQUIRES(type, name, params, args)    \
	static type tsan_##name params        \
	{                                     \
		type result = real.name args; \
                                              \
		acquire(fd, result);          \
		return result;                \
	}
#define RELEASES(type, name, order, params, args) \
	static type tsan_##name params            \
	{                                         \
		__tsan_release(order);            \
		return real.name args;            \
	}

ACQUIRES(ssize_t, read, (int fd, void *buf, size_t len), (fd, buf, len))
ACQUIRES(ssize_t, recv, (int fd, void *buf, size_t len, int flags), (fd, buf, len, flags))
ACQUIRES(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
ACQUIRES(int, recvmmsg,
	 (int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout),
	 (fd, msgs, n, flags, timeout))
ACQUIRES(int, epoll_wait, (int fd, struct epoll_event *events, int n, int timeout),
	 (fd, events, n, timeout))

/* The next descriptor of this number belongs to the thread that opens it after this. */
RELEASES(int, close, order_of(fd), (int fd), (fd))
RELEASES(ssize_t, write, order_of(fd), (int fd, const void *buf, size_t len), (fd, buf, len))
RELEASES(int, epoll_ctl, order_of(epfd), (int epfd, int op, int fd, struct epoll_event *event),
	 (epfd, op, fd, event))
RELEASES(int, timerfd_settime, order_of(fd),
	 (int fd, int flags, const struct itimerspec *to, struct itimerspec *was),
	 (fd, flags, to, was))
RELEASES(ssize_t, sendto, &sockets_order,
	 (int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
	  socklen_t to_len),
	 (fd, buf, len, flags, to, to_len))
RELEASES(ssize_t, sendmsg, &sockets_order, (int fd, const struct msghdr *msg, int flags),
	 (fd, msg, flags))
RELEASES(int, sendmmsg, &sockets_order, (int fd, struct mmsghdr *msgs, unsigned n, int flags),
	 (fd, msgs, n, flags))

void urxe_libc_tsan_wrap(struct urxe_libc *libc)
{
	/* Racing threads store equal values; the sanitizer need not know. */
#define WRAP(name)                                                          \
	do {                                                                \
		__atomic_store_n(&real.name, libc->name, __ATOMIC_RELAXED); \
		libc->name = tsan_##name;                                   \
	} while (0)
	WRAP(read);
	WRAP(write);
	WRAP(close);
	WRAP(sendto);
	WRAP(sendmsg);
	WRAP(sendmmsg);
	WRAP(recv);
	WRAP(recvmsg);
	WRAP(recvmmsg);
	WRAP(epoll_ctl);
	WRAP(epoll_wait);
	WRAP(timerfd_settime);
#undef WRAP
}

#else

/* An ISO C file holds at least one declaration. */
typedef int urxe_libc_tsan_unused;

#endif

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
#include <sys/timerfd.h>

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

static void release(void *order)
{
	__tsan_release(order);
}

static ssize_t tsan_read(int fd, void *buf, size_t len)
{
	ssize_t n = real.read(fd, buf, len);

	acquire(fd, n);
	return n;
}

static ssize_t tsan_write(int fd, const void *buf, size_t len)
{
	release(order_of(fd));
	return real.write(fd, buf, len);
}

static int tsan_close(int fd)
{
	/* The next descriptor of this number belongs to the thread that opens it after this. */
	release(order_of(fd));
	return real.close(fd);
}

static ssize_t tsan_sendto(int fd, const void *buf, size_t len, int flags,
			   const struct sockaddr *addr, socklen_t alen)
{
	release(&sockets_order);
	return real.sendto(fd, buf, len, flags, addr, alen);
}

static ssize_t tsan_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	release(&sockets_order);
	return real.sendmsg(fd, msg, flags);
}

static int tsan_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	release(&sockets_order);
	return real.sendmmsg(fd, msgs, n, flags);
}

static ssize_t tsan_recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t n = real.recv(fd, buf, len, flags);

	acquire(fd, n);
	return n;
}

static ssize_t tsan_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = real.recvmsg(fd, msg, flags);

	acquire(fd, n);
	return n;
}

static int tsan_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags,
			 struct timespec *timeout)
{
	int got = real.recvmmsg(fd, msgs, n, flags, timeout);

	acquire(fd, got);
	return got;
}

static int tsan_epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	release(order_of(epfd));
	return real.epoll_ctl(epfd, op, fd, ev);
}

static int tsan_epoll_wait(int epfd, struct epoll_event *evs, int n, int timeout)
{
	int got = real.epoll_wait(epfd, evs, n, timeout);

	acquire(epfd, got);
	return got;
}

static int tsan_timerfd_settime(int fd, int flags, const void *new_value, void *old_value)
{
	release(order_of(fd));
	return real.timerfd_settime(fd, flags, new_value, old_value);
}

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

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A preloaded rpoll() that asks again and again until the timeout is over. That of rdma-core 44
 * leaves a count behind when its timeout is over before it first sleeps, as 1 ms can be where
 * processors are busy. From then on each rpoll() of that process that has to sleep goes round for
 * ever in sched_yield().
 */
#include <dlfcn.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

__attribute__((visibility("default"))) int rpoll(struct pollfd *fds, nfds_t n, int timeout);
int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	int (*next)(struct pollfd *, nfds_t, int) = dlsym(RTLD_NEXT, "rpoll");
	long end = now_ms() + timeout;
	int ret;

	if (timeout <= 0)
		return next(fds, n, timeout);
	do
		ret = next(fds, n, 0);
	while (!ret && now_ms() <= end && !usleep(50));
	return ret;
}

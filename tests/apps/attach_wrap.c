/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Another preloaded library: it wraps a verb and a libc function, asks RTLD_NEXT for what is behind
 * it as such libraries do, and says on stderr that it was called.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#undef ibv_get_device_list
#define EXPORT __attribute__((visibility("default")))

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **(*next)(int *) = dlsym(RTLD_NEXT, "ibv_get_device_list");

	fputs("wrapped list\n", stderr);
	return next ? next(num) : NULL;
}

EXPORT int close(int fd)
{
	int (*next)(int) = dlsym(RTLD_NEXT, "close");

	if (fd == -77)
		fputs("wrapped close\n", stderr);
	return next(fd);
}

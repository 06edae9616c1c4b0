/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <string.h>
#include <infiniband/verbs.h>

/* The verbs device of that name; NULL: there is none. */
static inline struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

#endif

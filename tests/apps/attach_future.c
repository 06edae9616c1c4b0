/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Both halves of a test for ibv_query_gid_type, whose version changes between releases of
 * rdma-core: with FUTURE_LIBRARY a libibverbs of a release that does not exist yet
 * (IBVERBS_PRIVATE_99), else a program built with it. The library has no devices and answers -99 to
 * everything, so whatever the program finds comes from urxe.
 */
#include <stddef.h>

#ifdef FUTURE_LIBRARY
#define FUTURE(type, name, params, answer)                      \
	type name params;                                       \
	__attribute__((visibility("default"))) type name params \
	{                                                       \
		answer;                                         \
	}

FUTURE(void *, ibv_get_device_list, (int *n), return NULL)
FUTURE(void, ibv_free_device_list, (void *list), )
FUTURE(void *, ibv_open_device, (void *device), return NULL)
FUTURE(int, ibv_close_device, (void *context), return -99)
FUTURE(int, ibv_query_gid_type, (void *context, unsigned char port, unsigned index, int *type),
       return -99)
#else
#include <stdio.h>

void **ibv_get_device_list(int *n);
void ibv_free_device_list(void **list);
void *ibv_open_device(void *device);
int ibv_close_device(void *context);
int ibv_query_gid_type(void *context, unsigned char port, unsigned index, int *type);

int main(void)
{
	void **list = ibv_get_device_list(NULL), *context;
	int type = -1, ret;

	if (!list || !list[0] || !(context = ibv_open_device(list[0])))
		return 1;
	ret = ibv_query_gid_type(context, 1, 0, &type);
	printf("%d type %d\n", ret, type);
	ibv_free_device_list(list);
	return ibv_close_device(context);
}
#endif

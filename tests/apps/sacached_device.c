/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into a program that uses librdmacm where there is no InfiniBand device: lists one, so
 * that rdma_getaddrinfo() asks the local service for paths. Nothing can be done with it.
 */
#include <infiniband/verbs.h>
#include <stdlib.h>

/* With zeroes behind, where providers look. */
static struct {
	struct ibv_device device;
	char room[256];
} only = {
	.device = {.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "ib0"},
};

#pragma GCC visibility push(default)
#undef ibv_get_device_list

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &only.device;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return 1;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return 0;
}

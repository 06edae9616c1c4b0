/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The devices as struct ibv_device. They lie in one static array: a device pointer is recognised by
 * its address, stays valid for the life of the process, and behind each there is zeroed room,
 * because libmlx5 and others ask "is this mine?" by reading a pointer that rdma-core's own devices
 * have there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hca/device.h"
#include "host/mutex.h"

#define ROOM_BEHIND 512

static struct slot {
	struct ibv_device ibv;
	uint8_t zeros[ROOM_BEHIND];
	struct urxe_device *dev;
} slots[URXE_MAX_DEVICES];

static URXE_MUTEX(lock);

bool urxe_is_device(const struct ibv_device *device)
{
	return (uintptr_t)device >= (uintptr_t)slots &&
	       (uintptr_t)device < (uintptr_t)(slots + URXE_MAX_DEVICES);
}

struct urxe_device *urxe_device_of(const struct ibv_device *device)
{
	return caa_container_of(device, struct slot, ibv)->dev;
}

static struct slot *slot_of(struct urxe_device *dev)
{
	struct slot *slot;

	for (slot = slots; slot->dev; slot++)
		if (slot->dev == dev)
			return slot;
	slot->dev = dev;
	slot->ibv.node_type = IBV_NODE_CA;
	slot->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(slot->ibv.name, sizeof(slot->ibv.name), "%s", dev->name);
	snprintf(slot->ibv.ibdev_path, sizeof(slot->ibv.ibdev_path), "/sys/class/infiniband/%s",
		 slot->ibv.name);
	return slot;
}

struct ibv_device **urxe_get_devices(int *num)
{
	static struct ibv_device *list[URXE_MAX_DEVICES + 1];
	struct urxe_device *devs[URXE_MAX_DEVICES];
	int n = urxe_devices(devs, URXE_MAX_DEVICES);

	if (n < 0) {
		errno = -n;
		return NULL;
	}
	pthread_mutex_lock(&lock);
	for (int i = 0; i < n; i++)
		list[i] = &slot_of(devs[i])->ibv;
	list[n] = NULL;
	pthread_mutex_unlock(&lock);
	if (num)
		*num = n;
	return list;
}

int urxe_get_device_index(struct ibv_device *device)
{
	return URXE_DEVICE_INDEX + urxe_device_of(device)->index;
}

__be64 urxe_get_device_guid(struct ibv_device *device)
{
	return urxe_device_of(device)->guid;
}

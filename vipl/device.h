/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which verbs device, port and address a NIC's name stands for. Addresses lead to devices by asking
 * rdma_cm, so that it makes no difference whether a device is InfiniBand, RoCE or iWARP.
 */
#ifndef VIPL_DEVICE_H
#define VIPL_DEVICE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "vipl/message.h"

struct vipl_device {
	char name[64]; /* of the verbs device */
	uint8_t port;
	char interface[IF_NAMESIZE];
	uint8_t address[VIPL_HOST_LENGTH]; /* IPv6, or IPv4 mapped into it */
	uint32_t scope;			   /* of a link-local address */
};

/* The device of a name. -ENODEV: none, and a line on stderr says which there are. -errno. */
int vipl_device_find(const char *name, struct vipl_device *device);

/*
 * What a name asks for, for itself: a name of a device or interface goes to `name`, with port 0 for
 * any, or the number of a NIC is returned. -1: a name.
 */
int vipl_device_parse(const char *from, char name[64], unsigned *port);

/* The socket address of an address; scope is for link-local ones. */
socklen_t vipl_sockaddr(const uint8_t address[VIPL_HOST_LENGTH], uint32_t scope, uint16_t port,
			struct sockaddr_storage *to);
/* And back. */
void vipl_sockaddr_read(const struct sockaddr *from, uint8_t address[VIPL_HOST_LENGTH]);
/* Whether it is one of IPv4. */
bool vipl_is_v4(const uint8_t address[VIPL_HOST_LENGTH]);

#endif

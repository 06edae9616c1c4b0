/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The messages between the kernel and its local service for path resolution, as defined in
 * <rdma/rdma_netlink.h>; the kernel's end is drivers/infiniband/core/sa_query.c and addr.c. The
 * kernel asks (NLM_F_REQUEST) and the service answers, with the question's type and sequence
 * number:
 *
 *	RESOLVE		0 nlmsghdr	16 device 64, port, path use, 2 spare	84 attributes
 *	  answer	0 nlmsghdr	16 attribute PATH_RECORD: flags 32, reserved 32, record 64 bytes
 *	IP_RESOLVE	0 nlmsghdr	16 interface 32				20 attribute IPV4 or IPV6
 *	  answer	0 nlmsghdr	16 attribute DGID
 *	SET_TIMEOUT	0 nlmsghdr	16 attribute TIMEOUT, ms; asked by the service
 *
 * An answer without attributes and with RDMA_NL_LS_F_ERR makes the kernel ask the SA itself
 * (RESOLVE), or go on waiting (IP_RESOLVE). Numbers are in host order, except GIDs and the record.
 *
 * Pure functions: any thread, no locks.
 */
#ifndef SACACHED_LOCAL_SERVICE_H
#define SACACHED_LOCAL_SERVICE_H

#include <rdma/rdma_netlink.h>

#include "libsacache/sacache.h"

#define LS_MESSAGE_SIZE 128 /* the longest message that this side sends has 92 */

enum ls_kind {
	LS_IGNORE,     /* not for the service */
	LS_INVALID,    /* a request that is answered with an error */
	LS_PATH,       /* RESOLVE */
	LS_ADDRESS,    /* IP_RESOLVE */
	LS_ACKNOWLEDGE /* the kernel's acknowledgement of a message of ours */
};

struct ls_message {
	uint16_t type;
	uint32_t seq;
	int error; /* of LS_ACKNOWLEDGE: 0 or -errno */
	/* LS_PATH */
	char device[LS_DEVICE_NAME_MAX + 1];
	uint8_t port;
	uint8_t path_use;
	struct sacache_key key; /* without its port */
	/* LS_ADDRESS */
	struct sockaddr_storage address;
};

/*
 * Parses the first message of a datagram. *size is its length; 0 if nothing more can be parsed (and
 * LS_IGNORE is returned).
 */
enum ls_kind ls_parse(const void *buf, size_t length, struct ls_message *message, size_t *size);

/*
 * These write a message and return its length. NULL, or a path that does not serve the kernel's
 * use, is answered with an error.
 */
size_t ls_answer_path(const struct ls_message *question, const struct sacache_path *path,
		      uint8_t buf[LS_MESSAGE_SIZE]);
size_t ls_answer_address(const struct ls_message *question, const uint8_t gid[16],
			 uint8_t buf[LS_MESSAGE_SIZE]);
size_t ls_answer_error(const struct ls_message *question, uint8_t buf[LS_MESSAGE_SIZE]);
/* How long the kernel waits for an answer before it asks the SA; it accepts 100 to 200,000 ms. */
size_t ls_set_timeout(uint32_t seq, uint32_t timeout, uint8_t buf[LS_MESSAGE_SIZE]);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What two ends tell each other in the private data of rdma_cm, and the ports at which they meet.
 * Pure.
 *
 * Every message begins with 4 bytes: 'V' 'I', version, what it is. Numbers are big-endian.
 *
 *	request (20 bytes and two discriminators, 52 at most; rdma_cm leaves 56 of an IB REQ)
 *	 0 'V' 'I' 1 kind   4 level  5 flags  6 length of the discriminator called  7 of the caller's
 *	 8 MaxTransferSize  12 nonce  20 the discriminator called, then the caller's
 *
 *	answer (12 bytes)
 *	 0 'V' 'I' 1 ACCEPT  4 level  5 flags  6 0  8 MaxTransferSize
 *
 *	refusal (8 bytes)
 *	 0 'V' 'I' 1 REFUSE  4 reason  5 VIP_RETURN  6 0
 */
#ifndef VIPL_MESSAGE_H
#define VIPL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl/vipl.h"

#define VIPL_HOST_LENGTH       16 /* of an address: IPv6, or IPv4 mapped into it */
#define VIPL_DISCRIMINATOR_MAX 16
#define VIPL_MESSAGE_MAX       56

/* A VIP_NET_ADDRESS, checked. */
struct vipl_address {
	uint8_t host[VIPL_HOST_LENGTH];
	uint8_t length; /* of the discriminator */
	uint8_t discriminator[VIPL_DISCRIMINATOR_MAX];
};

/* 0, or -EINVAL: lengths that are not valid. */
int vipl_address_read(const VIP_NET_ADDRESS *from, struct vipl_address *to);
void vipl_address_write(const struct vipl_address *from, VIP_NET_ADDRESS *to);
bool vipl_address_equal(const struct vipl_address *a, const struct vipl_address *b);

enum vipl_message_kind {
	VIPL_CLIENT = 1, /* a request for a server that waits */
	VIPL_PEER = 2,	 /* a request for a peer that requests too */
	VIPL_ACCEPT = 3,
	VIPL_REFUSAL = 4,
};

enum vipl_reason {
	VIPL_NOBODY = 1, /* nobody waits there with that address */
	VIPL_REJECTED,	 /* VipConnectReject() */
	VIPL_YIELD,	 /* both peers request: the other one's request goes on */
	VIPL_MISMATCHED, /* peers whose attributes differ; which, says the VIP_RETURN */
};

struct vipl_message {
	enum vipl_message_kind kind;
	VIP_RELIABILITY_LEVEL level;
	bool rdma_write, rdma_read;
	uint32_t transfer_size;
	uint64_t nonce; /* of a peer; the larger one requests */
	uint8_t to_length, from_length;
	uint8_t to[VIPL_DISCRIMINATOR_MAX], from[VIPL_DISCRIMINATOR_MAX];
	enum vipl_reason reason;
	VIP_RETURN result;
};

/* Returns the length. */
size_t vipl_message_write(const struct vipl_message *message, uint8_t buffer[VIPL_MESSAGE_MAX]);
/* 0, or -EPROTO: it is not one. Bytes after a message are left out: rdma_cm pads. */
int vipl_message_read(const void *buffer, size_t length, struct vipl_message *message);

/* The attributes of the VI that a message tells of. */
void vipl_message_from_attributes(struct vipl_message *message,
				  const VIP_VI_ATTRIBUTES *attributes);
void vipl_message_to_attributes(const struct vipl_message *message, VIP_VI_ATTRIBUTES *attributes);

/*
 * The ports of a discriminator, in the order in which listeners try them and callers look for them.
 * They lie below those that the kernel gives to TCP clients.
 */
#define VIPL_PROBES 6
uint16_t vipl_port(const uint8_t *discriminator, unsigned length, unsigned probe);

#endif

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Messages, addresses and ports (message.h). */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "vipl/message.h"

#define VERSION	      1
#define REQUEST_FIXED 20
#define ACCEPT_LENGTH 12
#define REFUSE_LENGTH 8

#define FLAG_RDMA_WRITE 1
#define FLAG_RDMA_READ	2

#define FIRST_PORT 16384
#define PORTS	   16384

int vipl_address_read(const VIP_NET_ADDRESS *from, struct vipl_address *to)
{
	memset(to, 0, sizeof(*to));
	if (from->HostAddressLen != VIPL_HOST_LENGTH ||
	    from->DiscriminatorLen > VIPL_DISCRIMINATOR_MAX)
		return -EINVAL;
	to->length = from->DiscriminatorLen;
	memcpy(to->host, from->HostAddress, VIPL_HOST_LENGTH);
	memcpy(to->discriminator, from->HostAddress + VIPL_HOST_LENGTH, to->length);
	return 0;
}

void vipl_address_write(const struct vipl_address *from, VIP_NET_ADDRESS *to)
{
	to->HostAddressLen = VIPL_HOST_LENGTH;
	to->DiscriminatorLen = from->length;
	memcpy(to->HostAddress, from->host, VIPL_HOST_LENGTH);
	memcpy(to->HostAddress + VIPL_HOST_LENGTH, from->discriminator, from->length);
}

bool vipl_address_equal(const struct vipl_address *a, const struct vipl_address *b)
{
	return !memcmp(a->host, b->host, VIPL_HOST_LENGTH) && a->length == b->length &&
	       !memcmp(a->discriminator, b->discriminator, a->length);
}

static void put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

size_t vipl_message_write(const struct vipl_message *message, uint8_t buffer[VIPL_MESSAGE_MAX])
{
	uint64_t nonce = htobe64(message->nonce);

	memset(buffer, 0, VIPL_MESSAGE_MAX);
	buffer[0] = 'V';
	buffer[1] = 'I';
	buffer[2] = VERSION;
	buffer[3] = message->kind;
	if (message->kind == VIPL_REFUSAL) {
		buffer[4] = message->reason;
		buffer[5] = message->result;
		return REFUSE_LENGTH;
	}
	buffer[4] = message->level;
	buffer[5] = (message->rdma_write ? FLAG_RDMA_WRITE : 0) |
		    (message->rdma_read ? FLAG_RDMA_READ : 0);
	put32(buffer + 8, message->transfer_size);
	if (message->kind == VIPL_ACCEPT)
		return ACCEPT_LENGTH;
	buffer[6] = message->to_length;
	buffer[7] = message->from_length;
	memcpy(buffer + 12, &nonce, sizeof(nonce));
	memcpy(buffer + REQUEST_FIXED, message->to, message->to_length);
	memcpy(buffer + REQUEST_FIXED + message->to_length, message->from, message->from_length);
	return REQUEST_FIXED + message->to_length + message->from_length;
}

static bool level_is_valid(unsigned level)
{
	return level == VIP_SERVICE_UNRELIABLE || level == VIP_SERVICE_RELIABLE_DELIVERY ||
	       level == VIP_SERVICE_RELIABLE_RECEPTION;
}

static int read_request(const uint8_t *buffer, size_t length, struct vipl_message *message)
{
	uint64_t nonce;

	if (length < REQUEST_FIXED || buffer[6] > VIPL_DISCRIMINATOR_MAX ||
	    buffer[7] > VIPL_DISCRIMINATOR_MAX ||
	    length < (size_t)REQUEST_FIXED + buffer[6] + buffer[7])
		return -EPROTO;
	message->to_length = buffer[6];
	message->from_length = buffer[7];
	memcpy(&nonce, buffer + 12, sizeof(nonce));
	message->nonce = be64toh(nonce);
	memcpy(message->to, buffer + REQUEST_FIXED, buffer[6]);
	memcpy(message->from, buffer + REQUEST_FIXED + buffer[6], buffer[7]);
	return 0;
}

int vipl_message_read(const void *from, size_t length, struct vipl_message *message)
{
	const uint8_t *buffer = from;

	memset(message, 0, sizeof(*message));
	if (!from || length < REFUSE_LENGTH || buffer[0] != 'V' || buffer[1] != 'I' ||
	    buffer[2] != VERSION)
		return -EPROTO;
	message->kind = buffer[3];
	if (message->kind == VIPL_REFUSAL) {
		message->reason = buffer[4];
		message->result = buffer[5];
		return message->reason >= VIPL_NOBODY && message->reason <= VIPL_MISMATCHED &&
				       message->result <= VIP_ERROR_NOT_SUPPORTED
			       ? 0
			       : -EPROTO;
	}
	if (length < ACCEPT_LENGTH || !level_is_valid(buffer[4]))
		return -EPROTO;
	message->level = buffer[4];
	message->rdma_write = buffer[5] & FLAG_RDMA_WRITE;
	message->rdma_read = buffer[5] & FLAG_RDMA_READ;
	message->transfer_size = get32(buffer + 8);
	switch (message->kind) {
	case VIPL_CLIENT:
	case VIPL_PEER: return read_request(buffer, length, message);
	case VIPL_ACCEPT: return 0;
	default: return -EPROTO;
	}
}

void vipl_message_from_attributes(struct vipl_message *message, const VIP_VI_ATTRIBUTES *attributes)
{
	message->level = attributes->ReliabilityLevel;
	message->transfer_size = attributes->MaxTransferSize;
	message->rdma_write = attributes->EnableRdmaWrite;
	message->rdma_read = attributes->EnableRdmaRead;
}

void vipl_message_to_attributes(const struct vipl_message *message, VIP_VI_ATTRIBUTES *attributes)
{
	*attributes = (VIP_VI_ATTRIBUTES){
		.ReliabilityLevel = message->level,
		.MaxTransferSize = message->transfer_size,
		.EnableRdmaWrite = message->rdma_write,
		.EnableRdmaRead = message->rdma_read,
	};
}

/* FNV-1a. */
static uint32_t hash(const uint8_t *bytes, unsigned length)
{
	uint32_t value = 2166136261u;

	for (unsigned i = 0; i < length; i++)
		value = (value ^ bytes[i]) * 16777619u;
	return value ^ value >> 16;
}

uint16_t vipl_port(const uint8_t *discriminator, unsigned length, unsigned probe)
{
	return FIRST_PORT + (hash(discriminator, length) + probe * 2741u) % PORTS;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a peer says of itself in private data, and addresses of programs, of any bytes: nothing
 * beyond them is read, and what is understood is the same when it has been written and read again.
 */
#include <stdlib.h>
#include <string.h>

#include "vipl/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const uint8_t *data, size_t size)
{
	uint8_t buffer[VIPL_MESSAGE_MAX];
	struct vipl_message first, second;
	VIP_VI_ATTRIBUTES attributes;
	size_t length;

	if (vipl_message_read(data, size, &first))
		return;
	vipl_message_to_attributes(&first, &attributes);
	length = vipl_message_write(&first, buffer);
	if (length > size || vipl_message_read(buffer, length, &second) ||
	    memcmp(&first, &second, sizeof(first)) != 0)
		abort();
}

/* A program's address is as long as it says itself. */
static void check_address(const uint8_t *data, size_t size)
{
	struct vipl_address first, second;
	union {
		VIP_NET_ADDRESS net;
		uint8_t bytes[4 + VIPL_HOST_LENGTH + VIPL_DISCRIMINATOR_MAX];
	} in = {0}, out = {0};

	memcpy(in.bytes, data, size < sizeof(in) ? size : sizeof(in));
	if (vipl_address_read(&in.net, &first))
		return;
	vipl_address_write(&first, &out.net);
	if (vipl_address_read(&out.net, &second) || !vipl_address_equal(&first, &second))
		abort();
	for (unsigned probe = 0; probe < VIPL_PROBES; probe++) {
		if (vipl_port(first.discriminator, first.length, probe) < 1024)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size);

	if (size)
		memcpy(copy, data, size);
	check_message(copy, size);
	check_address(copy, size);
	free(copy);
	return 0;
}

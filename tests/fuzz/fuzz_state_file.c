/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for a state file's bytes alone, without a cache. The first byte says what the
 * rest is:
 *
 *	even	a state file, as it is
 *	odd	ports and entries, behind a header that is made for them
 *
 * What is believed must be what would be written of it, byte for byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsacache/state_file.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static void believed(const struct sa_state *state, size_t length)
{
	CHECK(state->ports >= 1 && state->ports <= SACACHE_MAX_PORTS);
	CHECK(length ==
	      SA_STATE_HEADER + state->ports * SA_STATE_PORT + state->entries * SA_STATE_ENTRY);
	for (uint32_t i = 0; i < state->ports; i++) {
		struct sa_state_port again;
		uint8_t out[SA_STATE_PORT];

		sa_state_encode_port(&state->port[i], out);
		sa_state_decode_port(out, state->when, &again);
		CHECK(!memcmp(&again.identity, &state->port[i].identity, sizeof(again.identity)));
		CHECK(again.day == state->port[i].day && again.caching == state->port[i].caching);
	}
	for (uint64_t i = 0; i < state->entries; i++) {
		struct sa_state_entry entry;
		uint8_t out[SA_STATE_ENTRY];

		CHECK(!sa_state_decode(state, i, &entry));
		CHECK(entry.key.port < state->ports);
		sa_state_encode_entry(&entry.key, entry.record, entry.failures, entry.key.port,
				      out);
		CHECK(!memcmp(out, sa_state_entry(state, i), sizeof(out)));
	}
}

/* Up to 7 ports, and as many entries as there is room for. */
static void seal(uint8_t *data, size_t length, uint32_t ports)
{
	size_t behind = length - SA_STATE_HEADER;

	if (!ports || behind < ports * SA_STATE_PORT)
		return;
	sa_state_encode_header(ports, (behind - ports * SA_STATE_PORT) / SA_STATE_ENTRY, 1700000000,
			       sa_state_checksum(0, data + SA_STATE_HEADER, behind), data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sa_state state;
	uint8_t *copy;

	if (!size)
		return 0;
	copy = malloc(size); /* its end is guarded */
	CHECK(copy);
	memcpy(copy, data + 1, size - 1);
	if (*data & 1 && size - 1 > SA_STATE_HEADER)
		seal(copy, size - 1, copy[15] % 8);
	if (!sa_state_parse(&state, copy, size - 1))
		believed(&state, size - 1);
	free(copy);
	return 0;
}

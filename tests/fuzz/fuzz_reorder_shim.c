/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for the shim and for frames from hosts, as urxe-switch takes them apart: an
 * input is one frame. What has a shim loses it; what gets one and loses it again is as before; a
 * mark changes the bytes of ECN and the checksum over them alone. Then the input is a row of shims
 * for libreorder's destination half, which must let all packets go.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/urxe-switch/switch.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

void uncharge(struct daemon *d, struct frame *frame)
{
}

static void one_frame(const uint8_t *data, size_t size)
{
	static struct frame frame, before;
	struct reorder_shim shim, again;

	if (size < 14 || size > MAX_FRAME)
		return;
	memset(&frame, 0, sizeof(frame));
	frame.start = HEADROOM;
	frame.size = (uint16_t)size;
	memcpy(frame.bytes + HEADROOM, data, size);
	frame_classify(&frame);
	before = frame;
	if (!frame_pop_shim(&frame, &shim)) {
		CHECK(frame.size < before.size);
		frame = before;
	}
	if (!frame.roce)
		return;
	memset(&shim, 0, sizeof(shim));
	shim.flags = data[0] & 15;
	shim.back = data[1];
	shim.t_tx = data[2];
	frame_push_shim(&frame, &shim);
	CHECK(!frame_pop_shim(&frame, &again));
	if (shim.flags & REORDER_REROUTED)
		CHECK(again.back == shim.back);
	CHECK(again.flags == shim.flags && again.t_tx == shim.t_tx);
	CHECK(frame.size == before.size && frame.start == before.start);
	CHECK(!memcmp(frame.bytes + frame.start, before.bytes + before.start, frame.size));
	frame_push_shim(&frame, &shim);
	frame_mark(&frame, true);
	CHECK(!frame_pop_shim(&frame, &again));
	for (size_t i = 0; i < size; i++)
		CHECK(i == 15 || i == 24 || i == 25 ||
		      frame.bytes[frame.start + i] == before.bytes[before.start + i]);
}

static unsigned clears;

static void on_clear(void *context, uint16_t source, const struct reorder_key *key, uint32_t id,
		     uint8_t epoch)
{
	clears++;
}

/* Shims as they come, of 4 flows from 2 sources; then all time is over. */
static void row_of_shims(const uint8_t *data, size_t size)
{
	struct reorder_destination_config config = {
		.size = sizeof(config),
		.flows = 8,
		.packets = 64,
		.sources = 2,
		.paths = 8,
		.ports = 2,
		.ingresses = 2,
		.queues = 2,
		.rate = 1000000000,
		.margin = 1000,
		.hold = 1000000,
		.inactive = 1000000000,
		.again = 1000,
		.held_ingress = 5000,
		.measure = true,
		.clear = on_clear,
	};
	struct reorder_destination *d;
	unsigned in = 0, out = 0;
	int64_t now = 1000000000;

	CHECK(!reorder_destination_create(&d, &config));
	for (; size > REORDER_SHIM_MAX + 1;
	     data += REORDER_SHIM_MAX + 1, size -= REORDER_SHIM_MAX + 1) {
		struct reorder_key key = {{data[0] & 3}};
		struct reorder_shim shim;
		struct reorder_packet packet = {
			.handle = in, .size = 100, .key = &key, .shim = &shim};

		if (reorder_shim_decode(&shim, data + 1, REORDER_SHIM_MAX) < 0)
			continue;
		packet.id = data[0] & 3;
		packet.source = data[0] >> 2 & 1;
		packet.port = packet.id & 1;
		packet.ingress = data[0] >> 3 & 1;
		now += data[0] >> 4;
		in += !reorder_enqueue(d, &packet, now);
		if (data[0] & 64)
			out += reorder_dequeue(d, data[0] >> 5 & 1, now) != REORDER_NO_PACKET;
	}
	for (int i = 0; i < 4; i++, now += 10000000) {
		reorder_expire(d, now);
		for (uint16_t port = 0; port < 2; port++)
			while (reorder_dequeue(d, port, now) != REORDER_NO_PACKET)
				out++;
	}
	CHECK(in == out);
	CHECK(!reorder_held_bytes(d) && !reorder_held_packets(d));
	reorder_destination_destroy(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	one_frame(data, size);
	row_of_shims(data, size);
	return 0;
}

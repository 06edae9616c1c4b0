/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for what every received packet goes through before anything of it is believed:
 * the ICRC with the recovery of the IPv4 identification, and the parser.
 *
 * An input is a packet from the BTH to the ICRC with one byte in front:
 *
 *	bit 0	IPv6
 *	bit 1	put the right ICRC into the packet, so that the check must pass
 *	bit 2	as from a peer that counts from a large identification
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/icrc.h"
#include "wire/opcode.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static volatile uint8_t sink;

static void inside(const void *header, size_t header_len, const uint8_t *packet, size_t len)
{
	const uint8_t *at = header;

	if (!header)
		return;
	CHECK(at >= packet + sizeof(struct urxe_bth) && at + header_len <= packet + len);
	for (size_t k = 0; k < header_len; k++)
		sink ^= at[k];
}

static void parse(const uint8_t *packet, size_t len)
{
	struct urxe_packet p;
	const struct urxe_opcode_info *info;

	if (urxe_packet_parse(packet, len, &p))
		return;
	info = &urxe_opcodes[p.opcode];
	CHECK(info->name && p.mask.bits == info->mask.bits);
	inside(p.deth, sizeof(*p.deth), packet, len);
	inside(p.xrceth, sizeof(*p.xrceth), packet, len);
	inside(p.reth, sizeof(*p.reth), packet, len);
	inside(p.atomic, sizeof(*p.atomic), packet, len);
	inside(p.aeth, sizeof(*p.aeth), packet, len);
	inside(p.atomic_ack, sizeof(*p.atomic_ack), packet, len);
	inside(p.imm, sizeof(*p.imm), packet, len);
	inside(p.ieth, sizeof(*p.ieth), packet, len);
	if (p.payload_len)
		inside(p.payload, p.payload_len, packet, len);
	CHECK(p.payload == packet + info->header_len);
	CHECK(info->header_len + p.payload_len + urxe_bth_pad(p.bth) == len);
	CHECK(!p.payload_len || urxe_op_any(p.mask, URXE_OP_HAS_PAYLOAD));
}

static struct urxe_flow flow_of(bool ipv6)
{
	struct urxe_flow flow = {.sport = 0xc000, .dport = 4791, .ipv6 = ipv6};

	flow.saddr.s6_addr[15] = flow.daddr.s6_addr[15] = 1;
	if (!ipv6) {
		memset(&flow.saddr.s6_addr[10], 0xff, 2);
		memset(&flow.daddr.s6_addr[10], 0xff, 2);
		flow.saddr.s6_addr[12] = flow.daddr.s6_addr[12] = 127;
	}
	return flow;
}

static void check(uint8_t *packet, size_t len, unsigned flags)
{
	struct urxe_flow flow = flow_of(flags & 1);
	uint32_t prefix = urxe_icrc_prefix(&flow, len);
	uint16_t id = flags & 4 ? 0xbeef : 3, next = 0;
	struct urxe_icrc *icrc;
	bool good;

	CHECK(!urxe_icrc_create(&icrc));
	if (flags & 2) {
		uint32_t from = flow.ipv6 ? prefix : urxe_icrc_prefix_id(prefix, id);

		urxe_icrc_store(packet + len - 4, urxe_icrc_bth(from, packet, len - 4));
	}
	good = urxe_icrc_check(icrc, &flow, prefix, packet, len, &next);
	CHECK(good || !(flags & 2));
	if ((flags & 2) && !flow.ipv6)
		CHECK(next == (uint16_t)(id + 1));
	urxe_icrc_destroy(icrc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *packet;
	size_t len;

	if (!size || size > 8192)
		return 0;
	len = size - 1;
	/* of exactly that length, so that a byte too far is noticed */
	packet = malloc(len ? len : 1);
	CHECK(packet);
	memcpy(packet, data + 1, len);
	parse(packet, len);
	if (len >= sizeof(struct urxe_bth) + URXE_ICRC_LEN && len % 4 == 0) {
		check(packet, len, data[0]);
		parse(packet, len - URXE_ICRC_LEN);
	}
	free(packet);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for raw packets: frames, which anybody on the wire sends, flow rules, which
 * programs write byte by byte, and the receive hash.
 *
 * An input is a rule and a frame:
 *
 *	0	how many specs
 *	1	type (bits 0 and 1) and flags (bits 2 and 3) of the rule
 *	2	bytes of specs, in units of 4
 *	3	fields of the hash (bits 0 to 7), and
 *	4	the inner ones (bit 0), SPI (bit 1)
 *	5	how much of the frame there is, of 255
 *	6	specs, then the frame
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hca/flow_rule.h"
#include "hca/rss.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

#define HEAD 6
/* What a program that says so many specs owes: no spec reaches behind it. */
#define SPECS_MAX (URXE_FLOW_SPECS * sizeof(struct ibv_flow_spec))

/* From an allocation of exactly that length, so that a byte too far is noticed. */
static struct urxe_frame read_frame(const uint8_t *bytes, size_t len)
{
	uint8_t *exact = malloc(len ? len : 1);
	struct urxe_frame frame;

	CHECK(exact);
	memcpy(exact, bytes, len);
	urxe_frame_read(&frame, exact, len);
	free(exact);
	return frame;
}

/* What is seen of the beginning of a frame is seen of all of it. */
static void check_cut(const struct urxe_frame *cut, const struct urxe_frame *whole)
{
	CHECK(!(cut->outer.present & ~whole->outer.present));
	CHECK(!(cut->inner.present & ~whole->inner.present));
	CHECK(!whole->inner.present ||
	      (whole->outer.present & (FRAME_VXLAN | FRAME_GRE | FRAME_MPLS)));
}

/*
 * A rule made from what a frame says of its addresses takes that frame, and no longer when one bit
 * is another.
 */
static void check_own_rule(const struct urxe_frame *frame, const uint8_t *mask, size_t len)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} __attribute__((packed, aligned(8))) own = {
		.attr = {.num_of_specs = 1, .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH,
			.size = sizeof(own.eth),
			.val = frame->outer.eth},
	};
	struct urxe_flow_rule rule;
	uint8_t *bits = (uint8_t *)&own.eth.mask, *value = (uint8_t *)&own.eth.val;

	if (!(frame->outer.present & FRAME_ETH))
		return;
	memcpy(bits, mask, len < sizeof(own.eth.mask) ? len : sizeof(own.eth.mask));
	if (!(frame->outer.present & FRAME_VLAN))
		own.eth.mask.vlan_tag = 0;
	CHECK(!urxe_flow_rule_read(&rule, &own.attr));
	CHECK(urxe_flow_rule_matches(&rule, frame));
	for (size_t i = 0; i < sizeof(own.eth.mask); i++) {
		if (!bits[i])
			continue;
		value[i] ^= bits[i] & -bits[i];
		CHECK(!urxe_flow_rule_read(&rule, &own.attr));
		CHECK(!urxe_flow_rule_matches(&rule, frame));
		return;
	}
}

static void check_rule(const uint8_t *data, const uint8_t *specs, size_t len,
		       const struct urxe_frame *frame)
{
	struct ibv_flow_attr *attr = calloc(1, sizeof(*attr) + SPECS_MAX);
	struct urxe_flow_rule rule;

	CHECK(attr);
	attr->type = data[1] & 3;
	attr->flags = data[1] >> 2 & 3;
	attr->num_of_specs = data[0];
	attr->port = 1;
	memcpy(attr + 1, specs, len < SPECS_MAX ? len : SPECS_MAX);
	if (!urxe_flow_rule_read(&rule, attr)) {
		CHECK(rule.n <= attr->num_of_specs);
		urxe_flow_rule_matches(&rule, frame);
	}
	free(attr);
}

/* The hash is linear in its key. */
static void check_hash(const uint8_t *data, const uint8_t *from, size_t len,
		       const struct urxe_frame *frame)
{
	uint8_t key[3][URXE_RSS_KEY_LEN] = {{0}};
	struct ibv_rx_hash_conf conf = {
		.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
		.rx_hash_key_len = URXE_RSS_KEY_LEN,
		.rx_hash_key = key[0],
		.rx_hash_fields_mask = data[3] | (data[4] & 1 ? (uint64_t)IBV_RX_HASH_INNER : 0) |
				       (data[4] & 2 ? (uint64_t)IBV_RX_HASH_IPSEC_SPI : 0),
	};
	uint64_t fields = conf.rx_hash_fields_mask;

	memcpy(key[0], from, len < sizeof(key[0]) ? len : sizeof(key[0]));
	for (unsigned i = 0; i < URXE_RSS_KEY_LEN; i++) {
		key[1][i] = i * 37 + 1;
		key[2][i] = key[0][i] ^ key[1][i];
	}
	if (urxe_rss_check(&conf))
		return;
	CHECK((urxe_rss_hash(key[0], fields, frame) ^ urxe_rss_hash(key[1], fields, frame)) ==
	      urxe_rss_hash(key[2], fields, frame));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct urxe_frame frame, cut;
	const uint8_t *bytes;
	size_t specs, len;

	if (size < HEAD)
		return 0;
	specs = data[2] * 4 < size - HEAD ? data[2] * 4 : size - HEAD;
	bytes = data + HEAD + specs;
	len = size - HEAD - specs;
	frame = read_frame(bytes, len);
	cut = read_frame(bytes, len * data[5] / 255);
	check_cut(&cut, &frame);
	check_own_rule(&frame, data + HEAD, specs);
	check_rule(data, data + HEAD, specs, &frame);
	check_hash(data, data + HEAD, specs, &frame);
	return 0;
}

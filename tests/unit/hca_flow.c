// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Frames as flow rules and receive hashing see them (hca/frame.h, flow_rule.h, rss.h). */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "hca/flow_rule.h"
#include "hca/rss.h"

/* ---- frames, as hexadecimal text ---- */

#define ETH	 "020000000002 020000000001 "
#define IPV4_UDP "0800 4500002800004000 4011 0000 42099bbb a18e6450 "
#define UDP	 "0aea 06e6 0014 0000 "
#define INNER \
	"0a0000000002 0a0000000001 0800 4500002800000000 4006 0000 0a000001 0a000002 1234 5678"
#define TCP_REST "00000000 00000000 5000 0000 0000 0000"

static struct urxe_frame read_frame(const char *text)
{
	/* In an allocation of its own, so that reading beyond it is seen. */
	uint8_t *bytes = malloc(strlen(text) / 2 + 1);
	struct urxe_frame frame;
	size_t len = 0;
	int digits = 0;

	for (; *text; text++) {
		unsigned digit = *text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10;

		if (*text == ' ')
			continue;
		bytes[len] = digits ? bytes[len] << 4 | digit : digit;
		len += digits;
		digits ^= 1;
	}
	bytes = realloc(bytes, len);
	urxe_frame_read(&frame, bytes, len);
	free(bytes);
	return frame;
}

static void headers_of_frames(void **state)
{
	static const struct {
		const char *frame;
		uint32_t outer, inner;
	} rows[] = {
		{"02", 0, 0},
		{ETH "88b5", FRAME_ETH, 0},
		{ETH IPV4_UDP UDP, FRAME_ETH | FRAME_IPV4 | FRAME_UDP, 0},
		{ETH "8100 6005 " IPV4_UDP UDP, FRAME_ETH | FRAME_VLAN | FRAME_IPV4 | FRAME_UDP, 0},
		{ETH "88a8 0001 8100 6005 " IPV4_UDP UDP,
		 FRAME_ETH | FRAME_VLAN | FRAME_IPV4 | FRAME_UDP, 0},
		/* cut off: the transport header, the IP header */
		{ETH IPV4_UDP "0aea 06e6", FRAME_ETH | FRAME_IPV4, 0},
		{ETH "0800 45000028", FRAME_ETH, 0},
		/* an IP header that says it is shorter than it can be; a later fragment */
		{ETH "0800 4400002800004000 4011 0000 42099bbb a18e6450 " UDP, FRAME_ETH, 0},
		{ETH "0800 4500002800000001 4011 0000 42099bbb a18e6450 " UDP,
		 FRAME_ETH | FRAME_IPV4, 0},
		/* IPv6 with a hop by hop header in front of UDP; a second fragment */
		{ETH "86dd 60012345 0010 0040 20010db8000000000000000000000001 "
		     "20010db8000000000000000000000002 1100000000000000 " UDP,
		 FRAME_ETH | FRAME_IPV6 | FRAME_UDP, 0},
		{ETH "86dd 60012345 0010 2c40 20010db8000000000000000000000001 "
		     "20010db8000000000000000000000002 1100000800000000 " UDP,
		 FRAME_ETH | FRAME_IPV6, 0},
		/* VXLAN */
		{ETH "0800 4500002800004000 4011 0000 42099bbb a18e6450 0aea 12b5 0014 0000 "
		     "08000000 00123400 " INNER TCP_REST,
		 FRAME_ETH | FRAME_IPV4 | FRAME_UDP | FRAME_VXLAN,
		 FRAME_ETH | FRAME_IPV4 | FRAME_TCP},
		/* GRE with a key, and IPv4 in it; ESP; MPLS with two labels */
		{ETH "0800 4500002800004000 402f 0000 42099bbb a18e6450 2000 0800 00000007 "
		     "4500002800000000 4006 0000 0a000001 0a000002 1234 5678 " TCP_REST,
		 FRAME_ETH | FRAME_IPV4 | FRAME_GRE, FRAME_IPV4 | FRAME_TCP},
		{ETH "0800 4500002800004000 4032 0000 42099bbb a18e6450 00000101 00000001",
		 FRAME_ETH | FRAME_IPV4 | FRAME_ESP, 0},
		{ETH "8847 00010040 00020140 4500002800004000 4011 0000 42099bbb a18e6450 " UDP,
		 FRAME_ETH | FRAME_MPLS, FRAME_IPV4 | FRAME_UDP},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct urxe_frame frame = read_frame(rows[i].frame);

		assert_int_equal(frame.outer.present, rows[i].outer);
		assert_int_equal(frame.inner.present, rows[i].inner);
	}
}

/* Whatever is cut off or changed, only what is there is read (address sanitizer looks on). */
static void any_bytes_are_read_safely(void **state)
{
	struct urxe_frame frame;

	srandom(1);
	for (int round = 0; round < 100000; round++) {
		size_t len = random() % 128;
		uint8_t *bytes = malloc(len ? len : 1);

		for (size_t i = 0; i < len; i++)
			bytes[i] = random();
		if (len > 24) {
			static const uint8_t types[][2] = {
				{8, 0}, {0x86, 0xdd}, {0x81, 0}, {0x88, 0x47}};
			static const uint8_t protocols[] = {6, 17, 47, 50, 137};

			memcpy(bytes + 12, types[random() % 4], 2);
			bytes[14] = random() % 2 ? 0x45 : 0x60;
			bytes[23] = protocols[random() % 5];
		}
		urxe_frame_read(&frame, bytes, len);
		free(bytes);
	}
}

/* ---- rules ---- */

struct rule_text {
	struct ibv_flow_attr attr;
	uint8_t specs[256];
};

static struct rule_text *new_rule(enum ibv_flow_attr_type type)
{
	static struct rule_text text;

	memset(&text, 0, sizeof(text));
	text.attr.type = type;
	text.attr.size = sizeof(text.attr);
	text.attr.port = 1;
	return &text;
}

static void add(struct rule_text *text, const void *spec, uint16_t size)
{
	memcpy((uint8_t *)text + text->attr.size, spec, size);
	text->attr.size += size;
	text->attr.num_of_specs++;
}

static void add_eth(struct rule_text *text, uint8_t last_of_mac)
{
	struct ibv_flow_spec_eth spec = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(spec)};

	memcpy(spec.val.dst_mac, "\x02\0\0\0\0", 5);
	spec.val.dst_mac[5] = last_of_mac;
	memset(spec.mask.dst_mac, 0xff, 6);
	add(text, &spec, sizeof(spec));
}

static void add_udp(struct rule_text *text, uint16_t port)
{
	struct ibv_flow_spec_tcp_udp spec = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(spec)};

	spec.val.dst_port = htons(port);
	spec.mask.dst_port = 0xffff;
	add(text, &spec, sizeof(spec));
}

static bool rule_matches(const struct rule_text *text, const char *frame)
{
	struct urxe_flow_rule rule;
	struct urxe_frame f = read_frame(frame);

	assert_int_equal(urxe_flow_rule_read(&rule, &text->attr), 0);
	return urxe_flow_rule_matches(&rule, &f);
}

static void a_rule_matches_the_masked_bits_of_its_headers(void **state)
{
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip)};
	struct rule_text *text = new_rule(IBV_FLOW_ATTR_NORMAL);

	add_eth(text, 2);
	assert_true(rule_matches(text, ETH IPV4_UDP UDP));
	ip.val.src_ip = htonl(0x42090000);
	ip.mask.src_ip = htonl(0xffff0000);
	add(text, &ip, sizeof(ip));
	add_udp(text, 1766);
	assert_true(rule_matches(text, ETH IPV4_UDP UDP));
	assert_false(rule_matches(text, ETH IPV4_UDP "0aea 06e7 0014 0000"));
	assert_false(rule_matches(text, ETH "88b5"));
	text = new_rule(IBV_FLOW_ATTR_NORMAL);
	add_eth(text, 3);
	assert_false(rule_matches(text, ETH IPV4_UDP UDP));
}

static void a_vlan_tag_is_asked_for_only_by_its_mask(void **state)
{
	struct ibv_flow_spec_eth spec = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(spec)};
	struct rule_text *text = new_rule(IBV_FLOW_ATTR_NORMAL);

	add(text, &spec, sizeof(spec));
	assert_true(rule_matches(text, ETH IPV4_UDP UDP));
	spec.val.vlan_tag = htons(5);
	spec.mask.vlan_tag = htons(0xfff);
	text = new_rule(IBV_FLOW_ATTR_NORMAL);
	add(text, &spec, sizeof(spec));
	assert_false(rule_matches(text, ETH IPV4_UDP UDP));
	assert_true(rule_matches(text, ETH "8100 6005 " IPV4_UDP UDP));
}

static void an_inner_spec_asks_for_what_is_in_the_tunnel(void **state)
{
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4 | IBV_FLOW_SPEC_INNER,
					.size = sizeof(ip)};
	struct ibv_flow_spec_tunnel vni = {.type = IBV_FLOW_SPEC_VXLAN_TUNNEL, .size = sizeof(vni)};
	struct rule_text *text = new_rule(IBV_FLOW_ATTR_NORMAL);
	const char *frame =
		ETH "0800 4500002800004000 4011 0000 42099bbb a18e6450 0aea 12b5 0014 0000 "
		    "08000000 00123400 " INNER TCP_REST;

	vni.val.tunnel_id = htonl(0x1234);
	vni.mask.tunnel_id = htonl(0xffffff);
	add(text, &vni, sizeof(vni));
	ip.val.dst_ip = htonl(0x0a000002);
	ip.mask.dst_ip = 0xffffffff;
	add(text, &ip, sizeof(ip));
	assert_true(rule_matches(text, frame));
	assert_false(rule_matches(text, ETH IPV4_UDP UDP));
}

static void default_rules_take_what_they_are_for(void **state)
{
	const char *multicast = "010000000002 020000000001 88b5";

	assert_true(rule_matches(new_rule(IBV_FLOW_ATTR_ALL_DEFAULT), ETH "88b5"));
	assert_true(rule_matches(new_rule(IBV_FLOW_ATTR_SNIFFER), ETH "88b5"));
	assert_false(rule_matches(new_rule(IBV_FLOW_ATTR_MC_DEFAULT), ETH "88b5"));
	assert_true(rule_matches(new_rule(IBV_FLOW_ATTR_MC_DEFAULT), multicast));
}

static void actions_are_kept(void **state)
{
	struct ibv_flow_spec_action_tag tag = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(tag), .tag_id = 0xabcdef};
	struct ibv_flow_spec_action_drop drop = {.type = IBV_FLOW_SPEC_ACTION_DROP,
						 .size = sizeof(drop)};
	struct rule_text *text = new_rule(IBV_FLOW_ATTR_NORMAL);
	struct urxe_flow_rule rule;

	add(text, &tag, sizeof(tag));
	add(text, &drop, sizeof(drop));
	text->attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	assert_int_equal(urxe_flow_rule_read(&rule, &text->attr), 0);
	assert_int_equal(rule.tag, 0xabcdef);
	assert_true(rule.drop);
	assert_true(rule.dont_trap);
}

/* Of the first spec, which is not aligned. */
static void set_spec_type(struct rule_text *text, uint32_t type)
{
	memcpy(text->specs, &type, sizeof(type));
}

static void set_spec_size(struct rule_text *text, uint16_t size)
{
	memcpy(text->specs + sizeof(enum ibv_flow_spec_type), &size, sizeof(size));
}

static int read_with(void (*change)(struct rule_text *text))
{
	struct rule_text *text = new_rule(IBV_FLOW_ATTR_NORMAL);
	struct urxe_flow_rule rule;

	add_eth(text, 1);
	add_udp(text, 1);
	change(text);
	return urxe_flow_rule_read(&rule, &text->attr);
}

static void change_nothing(struct rule_text *t)
{
}
static void another_port(struct rule_text *t)
{
	t->attr.port = 2;
}
static void absurd_type(struct rule_text *t)
{
	t->attr.type = 77;
}
static void absurd_priority(struct rule_text *t)
{
	t->attr.priority = 0xffff;
}
static void too_many_specs(struct rule_text *t)
{
	t->attr.num_of_specs = 255;
}
static void size_zero(struct rule_text *t)
{
	set_spec_size(t, 0);
}
static void size_short(struct rule_text *t)
{
	set_spec_size(t, 8);
}
static void unknown_bits(struct rule_text *t)
{
	t->attr.flags = 1;
}
static void comp_mask(struct rule_text *t)
{
	t->attr.comp_mask = 1;
}
static void egress(struct rule_text *t)
{
	t->attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
}
static void unknown_spec(struct rule_text *t)
{
	set_spec_type(t, 0x99);
}
static void specs_of_a_default_rule(struct rule_text *t)
{
	t->attr.type = IBV_FLOW_ATTR_SNIFFER;
}

static void tcp_and_udp(struct rule_text *t)
{
	struct ibv_flow_spec_tcp_udp spec = {.type = IBV_FLOW_SPEC_TCP, .size = sizeof(spec)};

	add(t, &spec, sizeof(spec));
}

static void bad_rules_are_refused(void **state)
{
	static const struct {
		void (*change)(struct rule_text *text);
		int error;
	} rows[] = {
		{change_nothing, 0},	  {another_port, EINVAL},
		{absurd_type, EINVAL},	  {absurd_priority, EINVAL},
		{too_many_specs, EINVAL},

		{size_zero, EINVAL},	  {size_short, EINVAL},
		{unknown_bits, EINVAL},	  {comp_mask, EINVAL},
		{egress, EOPNOTSUPP},	  {unknown_spec, EOPNOTSUPP},
		{tcp_and_udp, EINVAL},	  {specs_of_a_default_rule, EINVAL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(read_with(rows[i].change), rows[i].error);
}

/* ---- hashing: the vectors of Microsoft's "Verifying the RSS Hash Calculation" ---- */

static uint8_t key[URXE_RSS_KEY_LEN] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
					0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
					0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
					0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

#define V4   (IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define V6   (IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6)
#define TCP4 (IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)

static void hashes_are_those_of_the_definition(void **state)
{
	struct urxe_frame v4 = read_frame(ETH "0800 4500002800004000 4006 0000 420995bb a18e6450 "
					      "0aea 06e6 " TCP_REST);
	struct urxe_frame v6 =
		read_frame(ETH "86dd 60000000 0014 0640 "
			       "3ffe250102001fff0000000000000007 "
			       "3ffe2501020000030000000000000001 0aea 06e6 " TCP_REST);
	struct urxe_frame none = read_frame(ETH "88b5");

	assert_int_equal(urxe_rss_hash(key, V4, &v4), 0x323e8fc2);
	assert_int_equal(urxe_rss_hash(key, V4 | TCP4, &v4), 0x51ccc178);
	assert_int_equal(urxe_rss_hash(key, V6, &v6), 0x2cc18cd5);
	assert_int_equal(urxe_rss_hash(key, V6 | TCP4, &v6), 0x40207d3d);
	assert_int_equal(urxe_rss_hash(key, V4 | TCP4, &none), 0);
}

static void hash_fields_that_do_not_go_together_are_refused(void **state)
{
	struct ibv_rx_hash_conf conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
					.rx_hash_key_len = sizeof(key),
					.rx_hash_key = key,
					.rx_hash_fields_mask = V4 | TCP4};

	assert_int_equal(urxe_rss_check(&conf), 0);
	conf.rx_hash_fields_mask = V4 | V6;
	assert_int_equal(urxe_rss_check(&conf), EINVAL);
	conf.rx_hash_fields_mask = TCP4 | IBV_RX_HASH_SRC_PORT_UDP;
	assert_int_equal(urxe_rss_check(&conf), EINVAL);
	conf.rx_hash_fields_mask = 1ull << 40;
	assert_int_equal(urxe_rss_check(&conf), EINVAL);
	conf.rx_hash_fields_mask = V4;
	conf.rx_hash_key_len = 39;
	assert_int_equal(urxe_rss_check(&conf), EINVAL);
	conf.rx_hash_key_len = 40;
	conf.rx_hash_function = 2;
	assert_int_equal(urxe_rss_check(&conf), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(headers_of_frames),
		cmocka_unit_test(any_bytes_are_read_safely),
		cmocka_unit_test(a_rule_matches_the_masked_bits_of_its_headers),
		cmocka_unit_test(a_vlan_tag_is_asked_for_only_by_its_mask),
		cmocka_unit_test(an_inner_spec_asks_for_what_is_in_the_tunnel),
		cmocka_unit_test(default_rules_take_what_they_are_for),
		cmocka_unit_test(actions_are_kept),
		cmocka_unit_test(bad_rules_are_refused),
		cmocka_unit_test(hashes_are_those_of_the_definition),
		cmocka_unit_test(hash_fields_that_do_not_go_together_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

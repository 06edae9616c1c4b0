/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages of IP over InfiniBand, byte by byte, and TCP cut into packets.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipoib/ipoib.h"

static struct in6_addr address(const char *text)
{
	struct in6_addr addr;
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, &addr), 1);
	return addr;
}

static struct ipoib_link link_of(uint32_t qpn, const char *gid)
{
	struct ipoib_link link = {.qpn = qpn};
	struct in6_addr addr = address(gid);

	memcpy(link.gid, &addr, 16);
	return link;
}

/* RFC 4391, 4 and 5. */
static const struct {
	const char *group;
	uint16_t pkey;
	const char *mgid;
} mgids[] = {
	{"255.255.255.255", 0xffff, "ff12:401b:ffff::ffff:ffff"},
	{"255.255.255.255", 0x0001, "ff12:401b:8001::ffff:ffff"},
	{"224.0.0.1", 0xffff, "ff12:401b:ffff::1"},
	{"239.255.1.2", 0x8001, "ff12:401b:8001::fff:102"},
	{"ff02::1", 0xffff, "ff12:601b:ffff::1"},
	{"ff02::1:ff00:501", 0xffff, "ff12:601b:ffff::1:ff00:501"},
	{"ff3e:1234:5678:9abc:def0:1122:3344:5566", 0xffff,
	 "ff12:601b:ffff:9abc:def0:1122:3344:5566"},
};

static void groups_have_the_mgids_of_rfc_4391_4(void **state)
{
	for (size_t i = 0; i < sizeof(mgids) / sizeof(*mgids); i++) {
		struct in6_addr group = address(mgids[i].group), mgid = address(mgids[i].mgid);
		uint8_t made[16];

		ipoib_mgid(&group, mgids[i].pkey, IPOIB_SCOPE_LINK, made);
		assert_memory_equal(made, &mgid, 16);
	}
}

static void link_local_addresses_are_those_of_rfc_4391_8(void **state)
{
	struct ipoib_link link = link_of(1, "fe80::2:c902:40:1234");
	struct in6_addr made, want = address("fe80::202:c902:40:1234");

	ipoib_link_local(link.gid, &made);
	assert_memory_equal(&made, &want, 16);
}

/* RFC 4391, 9.1 and 9.4: hardware type 32, addresses of 20 bytes. */
static void arp_is_that_of_rfc_4391_9_1(void **state)
{
	static const uint8_t want[] = {0x08, 0x06, 0,	 0,    0,    32,   8, 0, 20, 4, 0, 1,
				       0x00, 0x12, 0x34, 0x56, 0xfe, 0x80, 0, 0, 0,  0, 0, 0,
				       0,    2,	   0xc9, 2,    0,    0x40, 0, 1, 10, 1, 0, 2,
				       0,    0,	   0,	 0,    0,    0,	   0, 0, 0,  0, 0, 0,
				       0,    0,	   0,	 0,    0,    0,	   0, 0, 10, 1, 0, 3};
	struct ipoib_discovery msg = {.from = address("10.1.0.2"),
				      .target = address("10.1.0.3"),
				      .has_sender = true,
				      .sender = link_of(0x123456, "fe80::2:c902:40:1")};
	struct ipoib_discovery back;
	uint8_t made[IPOIB_DISCOVERY_MAX];

	assert_int_equal(ipoib_build(made, &msg, NULL), sizeof(want));
	assert_memory_equal(made, want, sizeof(want));
	assert_int_equal(ipoib_parse(made, sizeof(want), &back), IPOIB_DISCOVERY);
	assert_false(back.answer);
	assert_memory_equal(&back.from, &msg.from, 16);
	assert_memory_equal(&back.target, &msg.target, 16);
	assert_int_equal(back.sender.qpn, 0x123456);
	assert_memory_equal(back.sender.gid, msg.sender.gid, 16);
}

static void an_arp_answer_is_about_who_sends_it(void **state)
{
	struct in6_addr to = address("10.1.0.3");
	struct ipoib_discovery msg = {.answer = true,
				      .from = address("10.1.0.2"),
				      .target = address("10.1.0.2"),
				      .has_sender = true,
				      .sender = link_of(7, "fe80::1")};
	struct ipoib_discovery back;
	uint8_t made[IPOIB_DISCOVERY_MAX];
	size_t len = ipoib_build(made, &msg, &to);

	assert_int_equal(made[11], 2);
	assert_memory_equal(made + 56, &to.s6_addr[12], 4);
	assert_int_equal(ipoib_parse(made, len, &back), IPOIB_DISCOVERY);
	assert_true(back.answer && back.solicited && back.override);
	assert_memory_equal(&back.target, &msg.from, 16);
}

/* RFC 4391, 9.2: the option has length 3, two bytes of padding and the 20 bytes. */
static void solicitations_are_those_of_rfc_4391_9_2(void **state)
{
	struct in6_addr group = address("ff02::1:ff00:3");
	struct ipoib_discovery msg = {.from = address("fd00::2"),
				      .target = address("fd00::3"),
				      .has_sender = true,
				      .sender = link_of(0x123456, "fe80::2:c902:40:1")};
	static const uint8_t option[] = {1, 3, 0, 0, 0, 0x12, 0x34, 0x56};
	struct ipoib_discovery back;
	uint8_t made[IPOIB_DISCOVERY_MAX];
	size_t len = ipoib_build(made, &msg, NULL);

	assert_int_equal(len, 4 + 40 + 24 + 24);
	assert_int_equal(made[0] << 8 | made[1], 0x86dd);
	assert_int_equal(made[4 + 7], 255);
	assert_memory_equal(made + 4 + 24, &group, 16);
	assert_int_equal(made[44], 135);
	assert_memory_equal(made + 68, option, sizeof(option));
	assert_memory_equal(made + 76, msg.sender.gid, 16);
	assert_int_equal(ipoib_parse(made, len, &back), IPOIB_DISCOVERY);
	assert_true(!back.answer && back.to_all && back.has_sender);
	assert_int_equal(back.sender.qpn, 0x123456);
}

static void advertisements_say_what_they_are(void **state)
{
	struct in6_addr to = address("fe80::9");
	struct ipoib_discovery msg = {.answer = true,
				      .solicited = true,
				      .override = true,
				      .from = address("fd00::2"),
				      .target = address("fd00::2"),
				      .has_sender = true,
				      .sender = link_of(9, "fe80::1")};
	struct ipoib_discovery back;
	uint8_t made[IPOIB_DISCOVERY_MAX];
	size_t len = ipoib_build(made, &msg, &to);

	assert_int_equal(made[44], 136);
	assert_int_equal(made[48], 0x60);
	assert_int_equal(made[68], 2);
	assert_int_equal(ipoib_parse(made, len, &back), IPOIB_DISCOVERY);
	assert_true(back.answer && back.solicited && back.override && !back.to_all);
	/* Solicited and yet to all: RFC 4861, 7.1.2. */
	len = ipoib_build(made, &msg, NULL);
	assert_int_equal(ipoib_parse(made, len, &back), IPOIB_MALFORMED);
}

/* A byte of a good message that is another one; what it is then. */
static const struct {
	bool ipv4;
	unsigned at;
	uint8_t value;
	bool fix; /* the checksum is right all the same */
	enum ipoib_kind kind;
} damages[] = {
	{true, 0, 0x12, false, IPOIB_FOREIGN}, /* type */
	{true, 5, 1, false, IPOIB_FOREIGN},    /* hardware: Ethernet */
	{true, 6, 9, false, IPOIB_FOREIGN},    /* protocol */
	{true, 8, 6, false, IPOIB_MALFORMED},  /* length of addresses */
	{true, 9, 16, false, IPOIB_MALFORMED},	  {true, 11, 3, false, IPOIB_FOREIGN}, /* RARP */
	{true, 32, 224, false, IPOIB_MALFORMED},  /* from a group */
	{false, 4, 0x45, false, IPOIB_MALFORMED}, /* version */
	{false, 9, 49, false, IPOIB_MALFORMED},	  /* payload longer than the packet */
	{false, 9, 20, true, IPOIB_MALFORMED},	  /* and too short for a solicitation */
	{false, 11, 254, true, IPOIB_MALFORMED},  /* hop limit: it was forwarded */
	{false, 44, 128, true, IPOIB_PACKET},	  /* an echo request */
	{false, 45, 1, true, IPOIB_MALFORMED},	  /* code */
	{false, 46, 1, false, IPOIB_MALFORMED},	  /* checksum */
	{false, 52, 0xff, true, IPOIB_MALFORMED}, /* a group as target */
	{false, 69, 0, true, IPOIB_MALFORMED},	  /* an option without length */
	{false, 69, 4, true, IPOIB_MALFORMED},	  /* an option beyond the end */
	{false, 10, 6, false, IPOIB_PACKET},	  /* TCP */
};

static void fix_checksum(uint8_t *message)
{
	uint8_t *ip = message + 4;
	size_t len = (size_t)(ip[4] << 8 | ip[5]);
	uint64_t sum = ipoib_sum(ip + 8, 32, 0);
	uint16_t folded;

	ip[42] = ip[43] = 0;
	sum += htobe32((uint32_t)len);
	sum += htobe32(58);
	folded = (uint16_t)~ipoib_fold(ipoib_sum(ip + 40, len, sum));
	memcpy(ip + 42, &folded, 2);
}

static void damaged_messages_are_told_apart(void **state)
{
	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
		struct ipoib_discovery msg = {
			.from = address(damages[i].ipv4 ? "10.1.0.2" : "fd00::2"),
			.target = address(damages[i].ipv4 ? "10.1.0.3" : "fd00::3"),
			.has_sender = true,
			.sender = link_of(1, "fe80::1")};
		struct ipoib_discovery back;
		uint8_t made[IPOIB_DISCOVERY_MAX];
		size_t len = ipoib_build(made, &msg, NULL);

		made[damages[i].at] = damages[i].value;
		if (damages[i].fix)
			fix_checksum(made);
		if (ipoib_parse(made, len, &back) != damages[i].kind)
			fail_msg("row %zu", i);
	}
}

static void a_message_that_is_cut_off_is_malformed(void **state)
{
	struct ipoib_discovery msg = {.from = address("10.1.0.2"), .target = address("10.1.0.3")},
			       back;
	uint8_t made[IPOIB_DISCOVERY_MAX];
	size_t len = ipoib_build(made, &msg, NULL);

	for (size_t n = 0; n < len; n++) {
		/* Of its own, so that reading beyond it is found. */
		uint8_t *copy = malloc(n ?: 1);

		memcpy(copy, made, n);
		assert_int_equal(ipoib_parse(copy, n, &back), IPOIB_MALFORMED);
		free(copy);
	}
}

/* RFC 1071, 3, and any length and alignment against two bytes at a time. */
static void sums_are_those_of_rfc_1071(void **state)
{
	static const uint8_t example[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};
	uint8_t bytes[64];

	assert_int_equal(be16toh(ipoib_fold(ipoib_sum(example, 8, 0))), 0xddf2);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (unsigned from = 0; from < 8; from++) {
		for (unsigned len = 0; from + len <= sizeof(bytes); len++) {
			uint32_t sum = 0;

			for (unsigned i = 0; i < len; i++)
				sum += i % 2 ? bytes[from + i] : bytes[from + i] << 8;
			while (sum >> 16)
				sum = (sum & 0xffff) + (sum >> 16);
			assert_int_equal(be16toh(ipoib_fold(ipoib_sum(bytes + from, len, 0))), sum);
		}
	}
}

static void senders_are_told_that_nobody_has_an_address(void **state)
{
	uint8_t made[IPOIB_UNREACHABLE_MAX],
		packet[600] = {0x45, [9] = 17, [12] = 10, 1, 0, 2, 10, 1, 0, 4};
	struct in6_addr to;
	uint64_t sum;

	assert_int_equal(ipoib_unreachable(made, packet, 100), 128);
	assert_memory_equal(made + 12, "\x0a\1\0\4\x0a\1\0\2", 8);
	assert_memory_equal(made + 20, "\3\1", 2);
	assert_memory_equal(made + 28, packet, 100);
	assert_int_equal(ipoib_fold(ipoib_sum(made, 20, 0)), 0xffff);
	assert_int_equal(ipoib_fold(ipoib_sum(made + 20, 108, 0)), 0xffff);
	assert_int_equal(ipoib_unreachable(made, packet, 600), 28 + 512);
	/* Not about its own kind, but about an echo request. */
	packet[9] = 1;
	packet[20] = 3;
	assert_int_equal(ipoib_unreachable(made, packet, 100), 0);
	packet[20] = 8;
	assert_int_equal(ipoib_unreachable(made, packet, 100), 128);
	packet[7] = 1; /* a later fragment */
	assert_int_equal(ipoib_unreachable(made, packet, 100), 0);

	memset(packet, 0, sizeof(packet));
	packet[0] = 0x60;
	packet[6] = 6;
	packet[8] = packet[24] = 0xfd;
	packet[23] = 2;
	packet[39] = 4;
	assert_int_equal(ipoib_unreachable(made, packet, 80), 128);
	assert_true(ipoib_destination(made, 128, &to) && to.s6_addr[15] == 2);
	assert_memory_equal(made + 40, "\1\3", 2);
	sum = ipoib_sum(made + 8, 32, 0) + htobe32(88) + htobe32(58);
	assert_int_equal(ipoib_fold(ipoib_sum(made + 40, 88, sum)), 0xffff);
	packet[6] = 58;
	packet[40] = 1;
	assert_int_equal(ipoib_unreachable(made, packet, 80), 0);
	packet[24] = 0xff;
	packet[40] = 128;
	assert_int_equal(ipoib_unreachable(made, packet, 80), 0);
}

/* ---- TCP ---- */

static uint8_t buffer[70000], headers[IPOIB_MAX_SEGMENTS * IPOIB_MAX_HEADERS];

static struct ipoib_packet tcp_packet(bool ipv4, unsigned options, unsigned payload, uint16_t mss)
{
	unsigned at = ipv4 ? 20 : 40, header = at + 20 + options;
	uint8_t *ip = buffer + 4;

	memset(buffer, 0, sizeof(buffer));
	for (unsigned i = 0; i < payload; i++)
		ip[header + i] = (uint8_t)(i * 7 + (i >> 8));
	ip[0] = ipv4 ? 0x45 : 0x60;
	if (ipv4) {
		memcpy(ip + 12, "\x0a\1\0\2\x0a\1\0\3", 8);
		ip[5] = 5; /* identification */
		ip[9] = 6;
	} else {
		ip[6] = 6;
		ip[8] = ip[24] = 0xfd;
		ip[39] = 3;
	}
	ip[at + 12] = (uint8_t)((20 + options) / 4 << 4);
	ip[at + 13] = TH_ACK | TH_PUSH | TH_FIN | 0x80; /* CWR */
	ip[at + 7] = 100;				/* sequence number */
	return (struct ipoib_packet){.data = buffer,
				     .headers = headers,
				     .len = 4 + header + payload,
				     .segment_size = mss};
}

static const struct {
	bool ipv4;
	unsigned options, payload;
	uint16_t mss;
	unsigned count;
} cuts[] = {
	{true, 12, 5000, 1992, 3},  {true, 0, 1992 * 3, 1992, 3}, {true, 40, 1, 1992, 1},
	{false, 12, 5000, 1972, 3}, {true, 12, 64000, 1000, 64},  {true, 12, 64001, 1000, 0},
};

static void check_segment(unsigned row, unsigned n, const struct segment *s)
{
	unsigned at = cuts[row].ipv4 ? 20 : 40, len = at + 20 + cuts[row].options + s->payload_len;
	bool last = n + 1 == cuts[row].count;
	uint8_t ip[4096];
	const struct tcphdr *tcp = (const void *)(ip + at);
	uint64_t sum;

	memcpy(ip, headers + (size_t)n * IPOIB_MAX_HEADERS + 4, s->header_len - 4);
	memcpy(ip + s->header_len - 4, s->payload, s->payload_len);
	if (cuts[row].ipv4) {
		assert_int_equal(ip[2] << 8 | ip[3], len);
		assert_int_equal(ip[4] << 8 | ip[5], 5 + n);
		assert_int_equal(ipoib_fold(ipoib_sum(ip, 20, 0)), 0xffff);
		sum = ipoib_sum(ip + 12, 8, 0);
	} else {
		assert_int_equal(ip[4] << 8 | ip[5], len - 40);
		sum = ipoib_sum(ip + 8, 32, 0);
	}
	sum += htobe32(len - at);
	sum += htobe32(6);
	assert_int_equal(ipoib_fold(ipoib_sum(ip + at, len - at, sum)), 0xffff);
	assert_int_equal(be32toh(tcp->seq), 100 + n * cuts[row].mss);
	assert_int_equal(tcp->fin, last);
	assert_int_equal(tcp->psh, last);
	assert_int_equal(ip[at + 13] >> 7, n == 0);
}

static void tcp_is_cut_into_packets_that_stand_alone(void **state)
{
	for (unsigned i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		struct ipoib_packet packet =
			tcp_packet(cuts[i].ipv4, cuts[i].options, cuts[i].payload, cuts[i].mss);
		unsigned payload = 0;

		assert_int_equal(segment_count(&packet, 65535), cuts[i].count);
		for (unsigned n = 0; n < cuts[i].count; n++) {
			struct segment s;

			segment_make(&packet, n, &s);
			check_segment(i, n, &s);
			payload += s.payload_len;
		}
		assert_int_equal(payload, cuts[i].count ? cuts[i].payload : 0);
	}
}

static void what_is_not_tcp_cannot_be_cut(void **state)
{
	struct ipoib_packet packet = tcp_packet(true, 0, 5000, 1000);

	buffer[4 + 9] = 17;
	assert_int_equal(segment_count(&packet, 65535), 0);
	packet = tcp_packet(true, 0, 5000, 1000);
	buffer[4 + 32] = 0x40; /* a header of 16 bytes */
	assert_int_equal(segment_count(&packet, 65535), 0);
	packet = tcp_packet(true, 0, 0, 1000);
	buffer[4 + 32] = 0xf0; /* options beyond the end */
	assert_int_equal(segment_count(&packet, 65535), 0);
}

/* The kernel cuts to the interface's MTU, which may have been set to more than the group's. */
static void what_the_link_does_not_take_is_not_sent(void **state)
{
	struct ipoib_packet packet = tcp_packet(true, 12, 5000, 1992);

	assert_int_equal(segment_count(&packet, 2044), 3);
	assert_int_equal(segment_count(&packet, 2043), 0);
	packet.segment_size = 0;
	assert_int_equal(segment_count(&packet, 5052), 1);
	assert_int_equal(segment_count(&packet, 5051), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_have_the_mgids_of_rfc_4391_4),
		cmocka_unit_test(link_local_addresses_are_those_of_rfc_4391_8),
		cmocka_unit_test(arp_is_that_of_rfc_4391_9_1),
		cmocka_unit_test(an_arp_answer_is_about_who_sends_it),
		cmocka_unit_test(solicitations_are_those_of_rfc_4391_9_2),
		cmocka_unit_test(advertisements_say_what_they_are),
		cmocka_unit_test(damaged_messages_are_told_apart),
		cmocka_unit_test(a_message_that_is_cut_off_is_malformed),
		cmocka_unit_test(sums_are_those_of_rfc_1071),
		cmocka_unit_test(senders_are_told_that_nobody_has_an_address),
		cmocka_unit_test(tcp_is_cut_into_packets_that_stand_alone),
		cmocka_unit_test(what_is_not_tcp_cannot_be_cut),
		cmocka_unit_test(what_the_link_does_not_take_is_not_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

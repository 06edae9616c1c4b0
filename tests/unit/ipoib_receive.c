/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What an IPoIB interface makes of packets that come in one batch: TCP's are put together as
 * network adapters do, in the order in which they came, and cut again by segment.c are what they
 * were. The kernel's side is this test's.
 */
#include <endian.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "ipoib/ipoib.h"

#define MOST 64
#define MSS  1000

static struct ipoib ib;

/* What the kernel got. */
static struct given {
	struct virtio_net_hdr h;
	size_t len;
	uint8_t bytes[70000];
} given[MOST];
static unsigned num_given, num_heard;

void tun_give(struct ipoib *of, const struct iovec *iov, int count)
{
	struct given *g = &given[num_given++];

	assert_true(num_given <= MOST);
	assert_int_equal(iov[0].iov_len, sizeof(g->h));
	memcpy(&g->h, iov[0].iov_base, sizeof(g->h));
	g->len = 0;
	for (int i = 1; i < count; i++) {
		memcpy(g->bytes + g->len, iov[i].iov_base, iov[i].iov_len);
		g->len += iov[i].iov_len;
	}
}

void neighbour_heard(struct ipoib *of, const struct ipoib_discovery *msg, uint16_t slid)
{
	num_heard++;
}

/* ---- packets ---- */

static uint8_t messages[MOST][IPOIB_HEADER + 4096], as_sent[MOST][IPOIB_HEADER + 4096];
static size_t lengths[MOST];
static unsigned num_messages;

static void set_sums(uint8_t *ip, size_t len)
{
	bool ipv4 = ip[0] >> 4 == 4;
	unsigned at = ipv4 ? 20 : 40;
	uint64_t sum = ipoib_sum(ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32, 0);
	uint16_t folded;

	if (ipv4) {
		memset(ip + 10, 0, 2);
		folded = (uint16_t)~ipoib_fold(ipoib_sum(ip, 20, 0));
		memcpy(ip + 10, &folded, 2);
	}
	memset(ip + at + 16, 0, 2);
	sum += htobe32((uint32_t)(len - at));
	sum += htobe32(IPPROTO_TCP);
	folded = (uint16_t)~ipoib_fold(ipoib_sum(ip + at, len - at, sum));
	memcpy(ip + at + 16, &folded, 2);
}

static uint8_t *last_ip(void)
{
	return messages[num_messages - 1] + IPOIB_HEADER;
}

/* A packet of one connection, with the time stamp option; flags besides ACK. */
static void add(bool ipv4, uint32_t seq, unsigned payload, uint8_t flags)
{
	uint8_t *m = messages[num_messages], *ip = m + IPOIB_HEADER;
	unsigned at = ipv4 ? 20 : 40, header = at + 32, len = header + payload;

	memset(m, 0, sizeof(*messages));
	m[0] = ipv4 ? 0x08 : 0x86;
	m[1] = ipv4 ? 0x00 : 0xdd;
	ip[0] = ipv4 ? 0x45 : 0x60;
	if (ipv4) {
		memcpy(ip + 2, &(uint16_t){htobe16((uint16_t)len)}, 2);
		ip[5] = (uint8_t)num_messages;
		ip[6] = 0x40;
		ip[8] = 64;
		ip[9] = IPPROTO_TCP;
		memcpy(ip + 12, "\x0a\1\0\2\x0a\1\0\3", 8);
	} else {
		memcpy(ip + 4, &(uint16_t){htobe16((uint16_t)(len - 40))}, 2);
		ip[6] = IPPROTO_TCP;
		ip[7] = 64;
		ip[8] = ip[24] = 0xfd;
		ip[39] = 3;
	}
	memcpy(ip + at, "\1\2\3\4", 4);
	memcpy(ip + at + 4, &(uint32_t){htobe32(seq)}, 4);
	ip[at + 12] = 32 / 4 << 4;
	ip[at + 13] = TH_ACK | flags;
	ip[at + 14] = 1;
	memcpy(ip + at + 20, "\1\1\x8\xa", 4);
	for (unsigned i = 0; i < payload; i++)
		ip[header + i] = (uint8_t)(seq + i);
	set_sums(ip, len);
	lengths[num_messages++] = IPOIB_HEADER + len;
}

/* They come in one batch. */
static void come(void)
{
	memcpy(as_sent, messages, sizeof(messages));
	for (unsigned i = 0; i < num_messages; i++)
		receive(&ib, messages[i], lengths[i], 0x22);
	receive_end(&ib);
}

static int set_up(void **state)
{
	memset(&ib, 0, sizeof(ib));
	ib.carrier = true;
	num_given = num_heard = num_messages = 0;
	return 0;
}

/* What the kernel got, cut again, is what was sent from there on; how many those are. */
static unsigned check_cut(const struct given *g, unsigned from)
{
	static uint8_t whole[IPOIB_HEADER + 70000], headers[IPOIB_MAX_SEGMENTS * IPOIB_MAX_HEADERS];
	struct ipoib_packet packet = {.data = whole,
				      .headers = headers,
				      .len = (uint32_t)(IPOIB_HEADER + g->len),
				      .segment_size = g->h.gso_size};
	unsigned count;

	memcpy(whole, as_sent[from], IPOIB_HEADER);
	memcpy(whole + IPOIB_HEADER, g->bytes, g->len);
	count = segment_count(&packet, 4092);
	for (unsigned n = 0; n < count; n++) {
		struct segment s;

		segment_make(&packet, n, &s);
		assert_int_equal(s.header_len + s.payload_len, lengths[from + n]);
		assert_memory_equal(headers + (size_t)n * IPOIB_MAX_HEADERS, as_sent[from + n],
				    s.header_len);
		assert_memory_equal(s.payload, as_sent[from + n] + s.header_len, s.payload_len);
	}
	return count;
}

/* ---- tests ---- */

static void packets_of_a_connection_are_put_together(void **state)
{
	for (unsigned ipv4 = 0; ipv4 < 2; ipv4++) {
		unsigned at = ipv4 ? 20 : 40;

		set_up(NULL);
		for (unsigned i = 0; i < 10; i++)
			add(ipv4, 0xffffff00 + i * MSS, i == 9 ? 7 : MSS, i == 9 ? TH_PUSH : 0);
		come();
		assert_int_equal(num_given, 1);
		assert_int_equal(given->h.gso_type,
				 ipv4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6);
		assert_int_equal(given->h.gso_size, MSS);
		assert_int_equal(given->h.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
		assert_int_equal(given->h.csum_start, at);
		assert_int_equal(given->h.csum_offset, 16);
		assert_int_equal(given->h.hdr_len, at + 32);
		assert_int_equal(given->len, at + 32 + 9 * MSS + 7);
		assert_int_equal(check_cut(given, 0), 10);
		assert_int_equal(ib.stats.merged, 10);
	}
}

/* Where the kernel need not look at the checksum it is told so. */
static void a_packet_alone_is_given_as_it_came(void **state)
{
	add(true, 1, MSS, 0);
	come();
	assert_int_equal(num_given, 1);
	assert_int_equal(given->h.gso_type, VIRTIO_NET_HDR_GSO_NONE);
	assert_int_equal(given->h.flags, VIRTIO_NET_HDR_F_DATA_VALID);
	assert_memory_equal(given->bytes, as_sent[0] + IPOIB_HEADER, lengths[0] - IPOIB_HEADER);
	assert_int_equal(ib.stats.merged, 0);
}

/* How the second of three packets differs from the others: bytes of the IP header or of the TCP
 * header, both IPv4 where nothing is said. */
static const struct {
	const char *what;
	bool tcp, ipv6;
	unsigned at;
	uint8_t flip;
} differences[] = {
	{"TOS, as with congestion (RFC 3168, 5)", .at = 1, .flip = 3},
	{"Don't Fragment", .at = 6, .flip = 0x40},
	{"a fragment", .at = 6, .flip = 0x20},
	{"a fragment's offset", .at = 7, .flip = 1},
	{"TTL", .at = 8, .flip = 1},
	{"source", .at = 15, .flip = 4},
	{"destination", .at = 19, .flip = 4},
	{"traffic class", .ipv6 = true, .at = 1, .flip = 0x30},
	{"flow label", .ipv6 = true, .at = 3, .flip = 1},
	{"hop limit", .ipv6 = true, .at = 7, .flip = 1},
	{"IPv6 source", .ipv6 = true, .at = 23, .flip = 1},
	{"source port", .tcp = true, .at = 1, .flip = 1},
	{"destination port", .tcp = true, .at = 3, .flip = 1},
	{"sequence number", .tcp = true, .at = 7, .flip = 1},
	{"acknowledgement", .tcp = true, .at = 11, .flip = 1},
	{"reserved bits", .tcp = true, .at = 12, .flip = 1},
	{"FIN", .tcp = true, .at = 13, .flip = TH_FIN},
	{"SYN", .tcp = true, .at = 13, .flip = TH_SYN},
	{"RST", .tcp = true, .at = 13, .flip = TH_RST},
	{"URG", .tcp = true, .at = 13, .flip = TH_URG},
	{"no ACK", .tcp = true, .at = 13, .flip = TH_ACK},
	{"ECE (RFC 3168, 6.1)", .tcp = true, .at = 13, .flip = 0x40},
	{"CWR (RFC 3168, 6.1)", .tcp = true, .at = 13, .flip = 0x80},
	{"window", .tcp = true, .at = 15, .flip = 1},
	{"urgent pointer", .tcp = true, .at = 19, .flip = 1},
	{"time stamp", .tcp = true, .at = 27, .flip = 1},
};

static void packets_that_differ_are_not_put_together_and_keep_their_order(void **state)
{
	for (size_t i = 0; i < sizeof(differences) / sizeof(*differences); i++) {
		bool ipv4 = !differences[i].ipv6;
		unsigned at = differences[i].tcp ? (ipv4 ? 20 : 40) : 0;

		set_up(NULL);
		for (unsigned n = 0; n < 3; n++) {
			add(ipv4, 1 + n * MSS, MSS, 0);
			if (n != 1)
				continue;
			last_ip()[at + differences[i].at] ^= differences[i].flip;
			set_sums(last_ip(), lengths[1] - IPOIB_HEADER);
		}
		come();
		if (num_given != 3)
			fail_msg("%s: %u packets", differences[i].what, num_given);
		for (unsigned n = 0; n < 3; n++) {
			assert_int_equal(given[n].len, lengths[n] - IPOIB_HEADER);
			assert_memory_equal(given[n].bytes, as_sent[n] + IPOIB_HEADER,
					    given[n].len);
		}
	}
}

/* What has a wrong checksum is the kernel's to drop and to count. */
static void a_packet_with_a_wrong_checksum_is_not_put_together(void **state)
{
	for (unsigned of_ip = 0; of_ip < 2; of_ip++) {
		set_up(NULL);
		for (unsigned n = 0; n < 3; n++)
			add(true, 1 + n * MSS, MSS, 0);
		messages[1][IPOIB_HEADER + (of_ip ? 4 : 100)] ^= 1;
		come();
		assert_int_equal(num_given, 3);
		assert_int_equal(given[0].h.flags, VIRTIO_NET_HDR_F_DATA_VALID);
		assert_int_equal(given[1].h.flags, 0);
	}
}

static void what_follows_a_shorter_packet_begins_anew(void **state)
{
	add(true, 1, MSS, 0);
	add(true, 1 + MSS, 10, 0);
	add(true, 11 + MSS, MSS, 0);
	add(true, 11 + 2 * MSS, MSS + 1, 0);
	come();
	assert_int_equal(num_given, 3);
	assert_int_equal(check_cut(&given[0], 0), 2);
	assert_int_equal(given[1].len, given[2].len - 1);
}

/* RFC 9293, 3.9.1: what is pushed is given without delay. */
static void a_push_ends_what_is_put_together(void **state)
{
	add(true, 1, MSS, 0);
	add(true, 1 + MSS, MSS, TH_PUSH);
	receive(&ib, messages[0], lengths[0], 0x22);
	assert_int_equal(num_given, 0);
	receive(&ib, messages[1], lengths[1], 0x22);
	assert_int_equal(num_given, 1);
	assert_true(given->bytes[20 + 13] & TH_PUSH);
	receive_end(&ib);
	assert_int_equal(num_given, 1);
}

static void no_more_is_put_together_than_an_ip_packet_holds(void **state)
{
	unsigned total = 0;

	for (unsigned n = 0; n < 40; n++)
		add(true, 1 + n * 3000, 3000, 0);
	come();
	for (unsigned i = 0; i < num_given; i++) {
		assert_true(given[i].len <= 65535);
		assert_int_equal(given[i].bytes[2] << 8 | given[i].bytes[3], given[i].len);
		total += check_cut(&given[i], total);
	}
	assert_int_equal(total, 40);
	assert_int_equal(num_given, 2);
}

static void an_acknowledgement_alone_is_given_at_once_and_in_order(void **state)
{
	add(true, 1, MSS, 0);
	add(true, 1 + MSS, 0, 0);
	add(true, 1 + MSS, MSS, 0);
	come();
	assert_int_equal(num_given, 3);
	assert_int_equal(given[1].len, 52);
}

/* A message may be longer than the packet in it. */
static void bytes_behind_a_packet_are_not_put_together_with_it(void **state)
{
	add(true, 1, MSS, 0);
	add(true, 1 + MSS, MSS, 0);
	lengths[0] += 5;
	come();
	assert_int_equal(num_given, 1);
	assert_int_equal(given->len, 52 + 2 * MSS);
	lengths[0] -= 5;
	assert_int_equal(check_cut(given, 0), 2);
}

static void arp_is_heard_while_there_is_a_link(void **state)
{
	struct ipoib_discovery msg = {.has_sender = true};

	ipoib_of_ipv4(&msg.from, "\x0a\1\0\2");
	ipoib_of_ipv4(&msg.target, "\x0a\1\0\3");
	lengths[0] = ipoib_build(messages[0], &msg, NULL);
	num_messages = 1;
	come();
	assert_int_equal(num_heard, 1);
	ib.carrier = false;
	come();
	assert_int_equal(num_heard, 1);
	assert_int_equal(num_given, 0);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packets_of_a_connection_are_put_together),
		TEST(a_packet_alone_is_given_as_it_came),
		TEST(packets_that_differ_are_not_put_together_and_keep_their_order),
		TEST(a_packet_with_a_wrong_checksum_is_not_put_together),
		TEST(what_follows_a_shorter_packet_begins_anew),
		TEST(a_push_ends_what_is_put_together),
		TEST(no_more_is_put_together_than_an_ip_packet_holds),
		TEST(an_acknowledgement_alone_is_given_at_once_and_in_order),
		TEST(bytes_behind_a_packet_are_not_put_together_with_it),
		TEST(arp_is_heard_while_there_is_a_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

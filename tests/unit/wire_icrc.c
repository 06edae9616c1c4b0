/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ICRC against a slow one that is written from the standard's words (annex A17.3.3): bit by bit
 * over a whole packet with its IP header, in which every variant field holds noise. And the
 * identification: recovered from any value, and held to small ones for peers that count from 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "wire/icrc.h"

#define MAX_LEN (64 + 4096 + 4)

static struct urxe_icrc *icrc;

/* A packet as it is on the wire, from the IP header on. */
struct frame {
	uint8_t bytes[40 + 8 + MAX_LEN];
	unsigned ip_len; /* 20 or 40 */
	unsigned len;	 /* from the BTH to the ICRC, both included */
	struct urxe_flow flow;
};

static uint8_t *bth_of(struct frame *f)
{
	return f->bytes + f->ip_len + 8;
}

static uint32_t slow_crc(uint32_t crc, const uint8_t *p, size_t n)
{
	for (; n; n--, p++)
		for (int bit = 0; bit < 8; bit++)
			crc = (crc ^ *p >> bit) & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	return crc;
}

/* The standard's recipe on a copy: ones for the variant fields, then the CRC of LRH and packet. */
static uint32_t slow_icrc(const struct frame *f)
{
	static const uint8_t lrh[8] = {255, 255, 255, 255, 255, 255, 255, 255};
	struct frame copy = *f;
	uint8_t *ip = copy.bytes, *udp = ip + f->ip_len;

	if (f->ip_len == 20) {
		ip[1] = ip[8] = ip[10] = ip[11] = 0xff;
	} else {
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = ip[7] = 0xff;
	}
	udp[6] = udp[7] = 0xff;
	udp[8 + 4] = 0xff;
	return ~slow_crc(slow_crc(~0u, lrh, 8), ip, f->ip_len + 8 + f->len - 4);
}

static void put16(uint8_t *to, unsigned value)
{
	to[0] = value >> 8;
	to[1] = value;
}

static void noise(uint8_t *to, size_t n)
{
	while (n--)
		*to++ = rand();
}

static void make_ipv4(struct frame *f, const char *from, unsigned len, unsigned id)
{
	uint8_t *ip = f->bytes;
	char mapped[64];

	noise(f->bytes, sizeof(f->bytes));
	f->ip_len = 20;
	f->len = len;
	f->flow = (struct urxe_flow){.sport = 0xc123, .dport = 4791};
	strcat(strcpy(mapped, "::ffff:"), from);
	assert_int_equal(inet_pton(AF_INET6, mapped, &f->flow.saddr), 1);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.99", &f->flow.daddr), 1);
	ip[0] = 0x45;
	put16(ip + 2, 28 + len);
	put16(ip + 4, id);
	put16(ip + 6, 0x4000);
	ip[9] = 17;
	memcpy(ip + 12, &f->flow.saddr.s6_addr[12], 4);
	memcpy(ip + 16, &f->flow.daddr.s6_addr[12], 4);
}

static void make_ipv6(struct frame *f, unsigned len)
{
	uint8_t *ip = f->bytes;

	noise(f->bytes, sizeof(f->bytes));
	f->ip_len = 40;
	f->len = len;
	f->flow = (struct urxe_flow){.sport = 0xc123, .dport = 4791, .ipv6 = true};
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::1", &f->flow.saddr), 1);
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::2:3", &f->flow.daddr), 1);
	ip[0] = 0x60 | (rand() & 15);
	put16(ip + 4, 8 + len);
	ip[6] = 17;
	memcpy(ip + 8, &f->flow.saddr, 16);
	memcpy(ip + 24, &f->flow.daddr, 16);
}

static void finish(struct frame *f)
{
	uint8_t *udp = f->bytes + f->ip_len;

	put16(udp, f->flow.sport);
	put16(udp + 2, 4791);
	put16(udp + 4, 8 + f->len);
	urxe_icrc_store(bth_of(f) + f->len - 4, slow_icrc(f));
}

static bool check(struct frame *f, uint16_t guess, uint16_t *next)
{
	*next = guess;
	return urxe_icrc_check(icrc, &f->flow, urxe_icrc_prefix(&f->flow, f->len), bth_of(f),
			       f->len, next);
}

/* The value that annex A17 and CRC-32 give for a fixed packet, worked out apart from this code. */
static void slow_one_is_crc32(void **state)
{
	/* the check value of CRC-32/ISO-HDLC */
	assert_int_equal(~slow_crc(~0u, (const uint8_t *)"123456789", 9), 0xcbf43926);
	/* and the state after a masked LRH, which Linux's rxe starts from */
	assert_int_equal(slow_crc(~0u, (const uint8_t *)"\377\377\377\377\377\377\377\377", 8),
			 0xdebb20e3);
}

/* Two packets that the kernel's rxe (Linux 6.1) sent from 10.77.0.1 to 10.77.0.2. */
static void captured(void **state)
{
	struct urxe_flow flow = {.sport = 0xed1e, .dport = 4791};
	uint8_t ack[] = {0x11, 0x00, 0xff, 0xff, 0x00, 0x2d, 0x5d, 0x02, 0x00, 0xe0,
			 0x82, 0x47, 0x1f, 0x00, 0x00, 0x01, 0xdf, 0x20, 0xfb, 0x2d};
	uint8_t send[48] = {0x04, 0x20, 0xff, 0xff, 0x00,	 0x2d, 0x5d, 0x02,
			    0x80, 0x2b, 0xa2, 0xe2, [44] = 0xf9, 0x93, 0x1d, 0xaf};
	uint16_t id = 0;

	memset(send + 12, 0x7b, 30);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.77.0.1", &flow.saddr), 1);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.77.0.2", &flow.daddr), 1);
	assert_true(urxe_icrc_check(icrc, &flow, urxe_icrc_prefix(&flow, sizeof(ack)), ack,
				    sizeof(ack), &id));
	assert_int_equal(id, 0x5f36 + 1);
	assert_true(urxe_icrc_check(icrc, &flow, urxe_icrc_prefix(&flow, sizeof(send)), send,
				    sizeof(send), &id));
	assert_int_equal(id, 0x5f37 + 1);
}

static void computes(void **state)
{
	for (unsigned len = 16; len <= MAX_LEN; len += len < 200 ? 4 : 4 * (1 + rand() % 40)) {
		struct frame f;
		unsigned id = rand() % 128;

		make_ipv4(&f, "192.0.2.1", len, id);
		finish(&f);
		assert_int_equal(
			urxe_icrc_bth(urxe_icrc_prefix_id(urxe_icrc_prefix(&f.flow, len), id),
				      bth_of(&f), len - 4),
			slow_icrc(&f));
		make_ipv6(&f, len);
		finish(&f);
		assert_int_equal(urxe_icrc_bth(urxe_icrc_prefix(&f.flow, len), bth_of(&f), len - 4),
				 slow_icrc(&f));
	}
}

/* In pieces, as a gathered payload is. */
static void in_pieces(void **state)
{
	for (int round = 0; round < 500; round++) {
		struct frame f;
		unsigned len = 16 + 4 * (rand() % 1000), at = 12;
		uint32_t crc;

		make_ipv6(&f, len);
		finish(&f);
		crc = urxe_icrc_bth(urxe_icrc_prefix(&f.flow, len), bth_of(&f), at);
		while (at < len - 4) {
			unsigned piece = rand() % (len - 4 - at + 1);

			crc = urxe_icrc_add(crc, bth_of(&f) + at, piece);
			at += piece;
		}
		assert_int_equal(crc, slow_icrc(&f));
	}
}

static void recovers_every_id(void **state)
{
	struct frame f;
	uint16_t next;

	for (unsigned id = 0; id < 65536; id++) {
		if (id % 8192 == 0)
			make_ipv4(&f, "192.0.2.2", 16 + 4 * (rand() % 1000), 0);
		put16(f.bytes + 4, id);
		/* the slow CRC of each would take long: change it by what the two bytes change */
		if (id % 512 == 0) {
			finish(&f);
		} else {
			uint32_t prefix = urxe_icrc_prefix(&f.flow, f.len);

			urxe_icrc_store(bth_of(&f) + f.len - 4,
					urxe_icrc_bth(urxe_icrc_prefix_id(prefix, id), bth_of(&f),
						      f.len - 4));
		}
		assert_true(check(&f, id % 3 ? rand() : 0, &next));
		assert_int_equal(next, (uint16_t)(id + 1));
	}
}

static void the_packet_is_unchanged(void **state)
{
	struct frame f, before;
	uint16_t next;

	make_ipv4(&f, "192.0.2.3", 60, 0);
	finish(&f);
	before = f;
	assert_true(check(&f, 0, &next));
	assert_memory_equal(&f, &before, sizeof(f));
	bth_of(&f)[20] ^= 1;
	before = f;
	assert_false(check(&f, 0, &next));
	assert_memory_equal(&f, &before, sizeof(f));
}

/* IPv6: each single bit that is covered counts; each one that is not, does not. */
static void every_bit_ipv6(void **state)
{
	struct frame f;
	uint16_t next;

	make_ipv6(&f, 80);
	finish(&f);
	for (unsigned bit = 0; bit < 80 * 8; bit++) {
		bth_of(&f)[bit / 8] ^= 1 << bit % 8;
		assert_int_equal(check(&f, 0, &next), bit / 8 == 4);
		bth_of(&f)[bit / 8] ^= 1 << bit % 8;
	}
}

static void other_flows_do_not_fit(void **state)
{
	struct frame f;
	uint16_t next;

	make_ipv6(&f, 80);
	finish(&f);
	f.flow.sport++;
	assert_false(check(&f, 0, &next));
	f.flow.sport--;
	f.flow.saddr.s6_addr[15]++;
	assert_false(check(&f, 0, &next));
	f.flow.saddr.s6_addr[15]--;
	f.flow.daddr.s6_addr[15]++;
	assert_false(check(&f, 0, &next));
	f.flow.daddr.s6_addr[15]--;
	assert_true(check(&f, 0, &next));
}

static bool receive(const char *from, unsigned id)
{
	struct frame f;
	uint16_t next;

	make_ipv4(&f, from, 48, id);
	finish(&f);
	return check(&f, 0, &next);
}

static void learns_who_counts_from_zero(void **state)
{
	/* one that counts at random is never held to anything */
	for (int k = 0; k < 200; k++)
		assert_true(receive("192.0.2.4", rand() & 0xffff));
	/* nor a peer that counts from packet to packet, however often it comes through zero */
	for (uint32_t k = 65000; k < 65000 + 20 * 65536; k += k % 65536 < 200 ? 1 : 64)
		assert_true(receive("192.0.2.7", k));
	/* after 16 sends that began at 0, and none large between them, large ones are refused */
	for (int k = 0; k < 15; k++)
		assert_true(receive("192.0.2.5", 0));
	assert_true(receive("192.0.2.5", 40000));
	for (int k = 0; k < 16; k++) {
		assert_true(receive("192.0.2.5", 0));
		assert_true(receive("192.0.2.5", 127 - k));
	}
	assert_false(receive("192.0.2.5", 128));
	assert_false(receive("192.0.2.5", 65535));
	assert_true(receive("192.0.2.5", 127));
	/* others are not concerned */
	assert_true(receive("192.0.2.4", 40000));
	/* four large ones in a row: another machine has the address now */
	for (int k = 0; k < 3; k++)
		assert_false(receive("192.0.2.5", 999 + k));
	assert_true(receive("192.0.2.5", 0));
	for (int k = 0; k < 4; k++)
		assert_false(receive("192.0.2.5", 999 + k));
	assert_true(receive("192.0.2.5", 5000));
}

/* A corrupt packet from such a peer would have to hit 2^-25; here none of many does. */
static void strict_peers_let_no_corruption_pass(void **state)
{
	struct frame f;
	uint16_t next;

	for (int k = 0; k < 16; k++)
		assert_true(receive("192.0.2.6", 0));
	make_ipv4(&f, "192.0.2.6", 48, 0);
	finish(&f);
	for (unsigned k = 0; k < 300000; k++) {
		unsigned at = 5 + rand() % (48 - 5), more = 5 + rand() % (48 - 5);
		unsigned a = 1 + rand() % 255, b = rand() % 256;

		bth_of(&f)[at] ^= a;
		bth_of(&f)[more] ^= more == at ? 0 : b;
		assert_false(check(&f, rand() % 64, &next));
		bth_of(&f)[at] ^= a;
		bth_of(&f)[more] ^= more == at ? 0 : b;
		/* good ones in between keep the peer strict */
		if (k % 2 == 0)
			assert_true(check(&f, 0, &next));
	}
}

static int setup(void **state)
{
	return urxe_icrc_create(&icrc);
}

static int teardown(void **state)
{
	urxe_icrc_destroy(icrc);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slow_one_is_crc32),
		TEST(captured),
		TEST(computes),
		TEST(in_pieces),
		TEST(recovers_every_id),
		TEST(the_packet_is_unchanged),
		TEST(every_bit_ipv6),
		TEST(other_flows_do_not_fit),
		TEST(learns_who_counts_from_zero),
		TEST(strict_peers_let_no_corruption_pass),
	};

	srand(1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

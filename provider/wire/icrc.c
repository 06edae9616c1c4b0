/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ICRC: masked prefixes, the recovery of the IPv4 identification, and the table of peers that
 * number their packets from 0. Polynomials are reflected as in CRC-32: bit 31 is x^0. Guarded by
 * the wire's lock; the constant tables are filled once before first use.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wire/crc32.h"
#include "wire/icrc.h"

#define POLY 0xedb88320u
#define X_0  0x80000000u /* the polynomial 1 */
#define X_8  0x00800000u /* the polynomial x^8 */

#define IPV4_LEN  20
#define IPV6_LEN  40
#define UDP_LEN	  8
#define ID_TO_BTH (IPV4_LEN - 4 + UDP_LEN) /* bytes from the identification to the BTH */

/*
 * Multiplication by x^-8n for one n, by nibbles: product = part[0][a & 15] ^ part[1][a >> 4 & 15] …
 * A few lengths carry nearly all packets of a flow, so a small direct-mapped cache holds them.
 */
struct rollback {
	uint32_t n; /* 0: empty */
	uint32_t part[8][16];
};

#define ROLLBACKS 64

/*
 * What we know of the peer of an address. It is held to small identifications after LEARN packets
 * with identification 0 and none with a large one between them: each of its sends begins at 0. A
 * peer that numbers at random, or counts on from packet to packet through 0 as the kernel's rxe
 * does, does not come to that. It is released when FORGET packets in a row came with large ones
 * that would otherwise have fitted: something else now has that address.
 */
struct peer {
	struct in_addr addr;
	uint8_t zeros; /* up to LEARN */
	uint8_t large; /* in a row since the last small one, while strict */
};

#define PEERS  512
#define LEARN  16
#define FORGET 4

struct urxe_icrc {
	struct rollback rollbacks[ROLLBACKS];
	struct peer peers[PEERS];
};

/* How identification k changes the CRC of the prefix, by its two bytes. */
static uint32_t id_low[256], id_high[256];
/* x^-(8 · 2^k) */
static uint32_t inverse_power[32];

/* ---- polynomials ---- */

static uint32_t times_x(uint32_t a)
{
	return a & 1 ? a >> 1 ^ POLY : a >> 1;
}

static uint32_t over_x(uint32_t a)
{
	return a & 0x80000000u ? (a ^ POLY) << 1 | 1 : a << 1;
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = X_0; bit; bit >>= 1) {
		if (a & bit)
			product ^= b;
		b = times_x(b);
	}
	return product;
}

static uint32_t x_to_minus_8n(uint32_t n)
{
	uint32_t a = X_0;

	for (unsigned k = 0; n; k++, n >>= 1)
		if (n & 1)
			a = multiply(a, inverse_power[k]);
	return a;
}

static void fill_tables(void)
{
	uint32_t a = X_0, forward = X_0;

	for (unsigned k = 0; k < 8; k++)
		a = over_x(a);
	for (unsigned k = 0; k < 32; k++) {
		inverse_power[k] = a;
		a = multiply(a, a);
	}
	for (unsigned k = 0; k < ID_TO_BTH; k++)
		forward = multiply(forward, X_8);
	/* The field is big-endian: its high byte comes first, in the low byte of the register. */
	for (unsigned k = 0; k < 256; k++) {
		id_high[k] = multiply(forward, k);
		id_low[k] = multiply(forward, k << 8);
	}
}

static void prepare(void)
{
	fill_tables();
	urxe_crc32_choose();
}

static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

int urxe_icrc_create(struct urxe_icrc **icrc)
{
	pthread_once(&tables_once, prepare);
	*icrc = calloc(1, sizeof(**icrc));
	return *icrc ? 0 : -ENOMEM;
}

void urxe_icrc_destroy(struct urxe_icrc *icrc)
{
	free(icrc);
}

/* ---- the sum ---- */

uint32_t urxe_icrc_add(uint32_t crc, const void *bytes, size_t len)
{
	return len ? urxe_crc32(crc, bytes, len) : crc;
}

uint32_t urxe_icrc_bth(uint32_t crc, void *bth, size_t len)
{
	uint8_t *changed = (uint8_t *)bth + offsetof(struct urxe_bth, qpn);
	uint8_t saved = *changed;

	*changed = 0xff;
	crc = urxe_crc32(crc, bth, len);
	*changed = saved;
	return crc;
}

struct prefix4 {
	uint8_t lrh[8];
	uint8_t version_ihl, tos;
	__be16 len, id, flags;
	uint8_t ttl, protocol;
	__be16 check;
	__be32 saddr, daddr;
	__be16 sport, dport, udp_len, udp_check;
} URXE_PACKED;
static_assert(sizeof(struct prefix4) == 8 + IPV4_LEN + UDP_LEN, "LRH, IPv4, UDP");

struct prefix6 {
	uint8_t lrh[8];
	__be32 version_tclass_flow;
	__be16 payload_len;
	uint8_t next_header, hop_limit;
	struct in6_addr saddr, daddr;
	__be16 sport, dport, udp_len, udp_check;
} URXE_PACKED;
static_assert(sizeof(struct prefix6) == 8 + IPV6_LEN + UDP_LEN, "LRH, IPv6, UDP");

static uint32_t prefix4(const struct urxe_flow *flow, uint32_t len)
{
	struct prefix4 p = {
		.version_ihl = 0x45,
		.tos = 0xff,
		.len = htobe16(IPV4_LEN + UDP_LEN + len),
		.flags = htobe16(0x4000), /* DF */
		.ttl = 0xff,
		.protocol = IPPROTO_UDP,
		.check = 0xffff,
		.saddr = flow->saddr.s6_addr32[3],
		.daddr = flow->daddr.s6_addr32[3],
		.sport = htobe16(flow->sport),
		.dport = htobe16(flow->dport),
		.udp_len = htobe16(UDP_LEN + len),
		.udp_check = 0xffff,
	};

	memset(p.lrh, 0xff, sizeof(p.lrh));
	return urxe_crc32(0, &p, sizeof(p));
}

static uint32_t prefix6(const struct urxe_flow *flow, uint32_t len)
{
	struct prefix6 p = {
		.version_tclass_flow = htobe32(0x6fffffff),
		.payload_len = htobe16(UDP_LEN + len),
		.next_header = IPPROTO_UDP,
		.hop_limit = 0xff,
		.saddr = flow->saddr,
		.daddr = flow->daddr,
		.sport = htobe16(flow->sport),
		.dport = htobe16(flow->dport),
		.udp_len = htobe16(UDP_LEN + len),
		.udp_check = 0xffff,
	};

	memset(p.lrh, 0xff, sizeof(p.lrh));
	return urxe_crc32(0, &p, sizeof(p));
}

uint32_t urxe_icrc_prefix(const struct urxe_flow *flow, uint32_t len)
{
	return flow->ipv6 ? prefix6(flow, len) : prefix4(flow, len);
}

uint32_t urxe_icrc_prefix_id(uint32_t prefix, uint16_t id)
{
	return prefix ^ id_low[id & 0xff] ^ id_high[id >> 8];
}

/* ---- the identification ---- */

static const struct rollback *rollback_get(struct urxe_icrc *icrc, uint32_t n)
{
	struct rollback *r = &icrc->rollbacks[n / 4 % ROLLBACKS];
	uint32_t power;

	if (r->n == n)
		return r;
	/* The register's bit 31 is x^0: multiply it by the power, and each lower bit by x more. */
	power = x_to_minus_8n(n);
	for (int bit = 31; bit >= 0; bit--) {
		uint32_t *part = r->part[bit / 4];
		unsigned step = 1u << bit % 4;

		/* Bare bits now; their sums are composed below. */
		part[step] = power;
		power = times_x(power);
	}
	for (unsigned nibble = 0; nibble < 8; nibble++)
		for (unsigned k = 1; k < 16; k++)
			if (k & (k - 1))
				r->part[nibble][k] =
					r->part[nibble][k & (k - 1)] ^ r->part[nibble][k & -k];
	r->n = n;
	return r;
}

/* The identification that changes the CRC by diff over n bytes from that field on; -1 if none
 * does. */
static int recover_id(struct urxe_icrc *icrc, uint32_t diff, uint32_t n)
{
	const struct rollback *r = rollback_get(icrc, n);
	uint32_t word = 0;

	for (unsigned nibble = 0; nibble < 8; nibble++)
		word ^= r->part[nibble][diff >> 4 * nibble & 15];
	/* The field's two bytes, then the two of flags and offset, which must not have changed. */
	return word >> 16 ? -1 : (int)be16toh((uint16_t)word);
}

static struct peer *peer_get(struct urxe_icrc *icrc, struct in_addr addr)
{
	uint32_t hash = addr.s_addr * 0x9e3779b1u;
	struct peer *peer = &icrc->peers[hash >> 23];

	static_assert(PEERS == 1 << 9, "the hash has 9 bits");
	if (peer->addr.s_addr != addr.s_addr) {
		memset(peer, 0, sizeof(*peer));
		peer->addr = addr;
	}
	return peer;
}

static bool peer_accepts(struct peer *peer, unsigned id)
{
	if (id < URXE_STRICT_IDS) {
		if (!id && peer->zeros < LEARN)
			peer->zeros++;
		peer->large = 0;
		return true;
	}
	if (peer->zeros < LEARN) {
		peer->zeros = 0;
		return true;
	}
	if (++peer->large >= FORGET)
		peer->zeros = peer->large = 0;
	return false;
}

bool urxe_icrc_check(struct urxe_icrc *icrc, const struct urxe_flow *flow, uint32_t prefix,
		     void *bth, uint32_t len, uint16_t *id)
{
	uint32_t body = len - URXE_ICRC_LEN;
	uint32_t diff;
	int found;

	if (!flow->ipv6)
		prefix = urxe_icrc_prefix_id(prefix, *id);
	diff = urxe_icrc_bth(prefix, bth, body) ^ urxe_icrc_load((uint8_t *)bth + body);
	if (flow->ipv6)
		return diff == 0;
	found = *id;
	if (diff) {
		int change = recover_id(icrc, diff, ID_TO_BTH + body);

		if (change < 0)
			return false;
		found ^= change;
	}
	if (!peer_accepts(peer_get(icrc, (struct in_addr){flow->saddr.s6_addr32[3]}), found))
		return false;
	*id = found + 1;
	return true;
}

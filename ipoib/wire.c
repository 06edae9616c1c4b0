// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Messages of IP over InfiniBand: wire.h. */
#include "ipoib/wire.h"

#include <endian.h>
#include <string.h>

#define IP6_HEADER 40
#define ND_LEN	   24 /* of a solicitation or an advertisement, without options */
#define ND_OPTION  24 /* with a link-layer address, in three units of 8 bytes (RFC 4391, 9.2) */
#define ICMPV6	   58
#define ICMP	   1
#define ICMP_ECHO  8

enum { ND_SOLICIT = 135, ND_ADVERT = 136 };
enum { ND_SOURCE = 1, ND_TARGET = 2 };
enum { ND_SOLICITED = 0x40, ND_OVERRIDE = 0x20 };

/* ARP for IPv4 (RFC 4391, 9.1; numbers: 9.4) */
struct arp {
	uint16_t hardware, protocol;
	uint8_t hardware_len, protocol_len;
	uint16_t op;
	uint8_t sender[IPOIB_LINK_LEN], sender_ip[4];
	uint8_t target[IPOIB_LINK_LEN], target_ip[4];
} __attribute__((packed));
_Static_assert(sizeof(struct arp) == 56, "ARP");

enum { ARP_INFINIBAND = 32, ARP_REQUEST = 1, ARP_REPLY = 2 };

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

void ipoib_link_encode(uint8_t bytes[IPOIB_LINK_LEN], const struct ipoib_link *link)
{
	bytes[0] = 0; /* no connected mode (RFC 4755, 3) */
	bytes[1] = (uint8_t)(link->qpn >> 16);
	put16(bytes + 2, (uint16_t)link->qpn);
	memcpy(bytes + 4, link->gid, 16);
}

void ipoib_link_decode(const uint8_t bytes[IPOIB_LINK_LEN], struct ipoib_link *link)
{
	link->qpn = (uint32_t)bytes[1] << 16 | get16(bytes + 2);
	memcpy(link->gid, bytes + 4, 16);
}

bool ipoib_is_multicast(const struct in6_addr *ip)
{
	if (ipoib_is_ipv4(ip))
		return (ip->s6_addr[12] & 0xf0) == 0xe0;
	return IN6_IS_ADDR_MULTICAST(ip);
}

void ipoib_mgid(const struct in6_addr *group, uint16_t pkey, uint8_t scope, uint8_t mgid[16])
{
	bool ipv4 = ipoib_is_ipv4(group);

	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = 0x10 | scope;
	put16(mgid + 2, ipv4 ? 0x401b : 0x601b);
	put16(mgid + 4, pkey | 0x8000);
	if (!ipv4) {
		memcpy(mgid + 6, &group->s6_addr[6], 10);
		return;
	}
	memcpy(mgid + 12, &group->s6_addr[12], 4);
	if (group->s6_addr32[3] == 0xffffffff)
		return; /* the broadcast group has all 32 bits set */
	mgid[12] &= 0x0f;
}

void ipoib_solicited_node(const struct in6_addr *ip, struct in6_addr *group)
{
	*group = (struct in6_addr){.s6_addr = {0xff, 0x02, [11] = 1, 0xff}};
	memcpy(&group->s6_addr[13], &ip->s6_addr[13], 3);
}

void ipoib_link_local(const uint8_t gid[16], struct in6_addr *ip)
{
	*ip = (struct in6_addr){.s6_addr = {0xfe, 0x80}};
	memcpy(&ip->s6_addr[8], gid + 8, 8);
	ip->s6_addr[8] |= 2;
}

/* Two words of 64 bits, which every compiler adds at once. */
typedef uint64_t pair __attribute__((vector_size(16)));

uint64_t ipoib_sum(const void *bytes, size_t len, uint64_t sum)
{
	const uint8_t *p = bytes;
	pair a = {0}, b = {0}, c = {0}, d = {0}, x, y;
	uint32_t word = 0;

	/* Words of 32 bits in any order of bytes, added in 64 (RFC 1071, 2). */
	for (; len >= 2 * sizeof(pair); p += 2 * sizeof(pair), len -= 2 * sizeof(pair)) {
		memcpy(&x, p, sizeof(x));
		memcpy(&y, p + sizeof(x), sizeof(y));
		a += x & 0xffffffff;
		b += y & 0xffffffff;
		c += x >> 32;
		d += y >> 32;
	}
	a += b + c + d;
	sum += a[0] + a[1];
	for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum += word;
	}
	word = 0;
	memcpy(&word, p, len);
	return sum + word;
}

uint16_t ipoib_fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Over the pseudo header, too (RFC 8200, 8.1); in memory's order of bytes. */
static uint16_t icmp_sum(const uint8_t *ip, size_t len)
{
	uint64_t sum = ipoib_sum(ip + 8, 32, 0);

	sum += htobe32((uint32_t)len);
	sum += htobe32(ICMPV6);
	return ipoib_fold(ipoib_sum(ip + IP6_HEADER, len, sum));
}

/* Only the first fragment of what is no ICMP error itself. */
static size_t unreachable4(uint8_t *bytes, const uint8_t *packet, size_t quoted)
{
	unsigned at = (packet[0] & 0xf) * 4u;
	uint16_t sum;

	if (packet[6] & 0x1f || packet[7] || at < 20 || quoted <= at ||
	    (packet[9] == ICMP && packet[at] != ICMP_ECHO))
		return 0;
	bytes[0] = 0x45;
	put16(bytes + 2, (uint16_t)(28 + quoted));
	bytes[8] = 64;
	bytes[9] = ICMP;
	memcpy(bytes + 12, packet + 16, 4);
	memcpy(bytes + 16, packet + 12, 4);
	sum = (uint16_t)~ipoib_fold(ipoib_sum(bytes, 20, 0));
	memcpy(bytes + 10, &sum, 2);
	bytes[20] = 3; /* destination unreachable */
	bytes[21] = 1; /* host */
	memcpy(bytes + 28, packet, quoted);
	sum = (uint16_t)~ipoib_fold(ipoib_sum(bytes + 20, 8 + quoted, 0));
	memcpy(bytes + 22, &sum, 2);
	return 28 + quoted;
}

static size_t unreachable6(uint8_t *bytes, const uint8_t *packet, size_t quoted)
{
	uint16_t sum;

	/* ICMPv6 errors have types below 128. */
	if (packet[6] == ICMPV6 && (quoted <= IP6_HEADER || packet[IP6_HEADER] < 128))
		return 0;
	bytes[0] = 0x60;
	put16(bytes + 4, (uint16_t)(8 + quoted));
	bytes[6] = ICMPV6;
	bytes[7] = 64;
	memcpy(bytes + 8, packet + 24, 16);
	memcpy(bytes + 24, packet + 8, 16);
	bytes[40] = 1; /* destination unreachable */
	bytes[41] = 3; /* address */
	memcpy(bytes + 48, packet, quoted);
	sum = (uint16_t)~icmp_sum(bytes, 8 + quoted);
	memcpy(bytes + 42, &sum, 2);
	return 48 + quoted;
}

size_t ipoib_unreachable(uint8_t bytes[IPOIB_UNREACHABLE_MAX], const uint8_t *packet, size_t len)
{
	size_t quoted = len < 512 ? len : 512;
	struct in6_addr to;

	memset(bytes, 0, IPOIB_UNREACHABLE_MAX);
	if (!ipoib_destination(packet, len, &to) || ipoib_is_multicast(&to))
		return 0;
	return (packet[0] >> 4 == 4 ? unreachable4 : unreachable6)(bytes, packet, quoted);
}

bool ipoib_destination(const uint8_t *packet, size_t len, struct in6_addr *to)
{
	if (len >= 20 && packet[0] >> 4 == 4) {
		ipoib_of_ipv4(to, packet + 16);
		return true;
	}
	if (len >= IP6_HEADER && packet[0] >> 4 == 6) {
		memcpy(to, packet + 24, 16);
		return true;
	}
	return false;
}

static enum ipoib_kind parse_arp(const uint8_t *bytes, size_t len, struct ipoib_discovery *msg)
{
	struct arp arp;

	if (len < sizeof(arp))
		return IPOIB_MALFORMED;
	memcpy(&arp, bytes, sizeof(arp));
	if (be16toh(arp.hardware) != ARP_INFINIBAND || be16toh(arp.protocol) != IPOIB_IPV4)
		return IPOIB_FOREIGN;
	if (arp.hardware_len != IPOIB_LINK_LEN || arp.protocol_len != 4)
		return IPOIB_MALFORMED;
	switch (be16toh(arp.op)) {
	case ARP_REQUEST: break;
	case ARP_REPLY: msg->answer = true; break;
	default: return IPOIB_FOREIGN;
	}
	msg->solicited = msg->override = msg->answer;
	msg->has_sender = true;
	ipoib_link_decode(arp.sender, &msg->sender);
	ipoib_of_ipv4(&msg->from, arp.sender_ip);
	ipoib_of_ipv4(&msg->target, arp.target_ip);
	/* An answer is about its sender. */
	if (msg->answer)
		msg->target = msg->from;
	return ipoib_is_multicast(&msg->from) ? IPOIB_MALFORMED : IPOIB_DISCOVERY;
}

/* The option that has a link-layer address (RFC 4861, 4.6); false: an option without length. */
static bool parse_options(const uint8_t *option, size_t len, uint8_t type,
			  struct ipoib_discovery *msg)
{
	while (len) {
		size_t size = len < 2 ? 0 : option[1] * 8u;

		if (!size || size > len)
			return false;
		if (option[0] == type && size == ND_OPTION) {
			msg->has_sender = true;
			ipoib_link_decode(option + 4, &msg->sender);
		}
		option += size;
		len -= size;
	}
	return true;
}

/* RFC 4861, 7.1.1 and 7.1.2: what is valid. */
static bool is_valid(const struct ipoib_discovery *msg, const uint8_t *ip)
{
	struct in6_addr to, group;

	memcpy(&to, ip + 24, 16);
	if (ipoib_is_multicast(&msg->target) || ipoib_is_multicast(&msg->from))
		return false;
	if (msg->answer)
		return !(msg->to_all && msg->solicited);
	if (!IN6_IS_ADDR_UNSPECIFIED(&msg->from))
		return true;
	ipoib_solicited_node(&msg->target, &group);
	return IN6_ARE_ADDR_EQUAL(&to, &group) && !msg->has_sender;
}

static enum ipoib_kind parse_ipv6(const uint8_t *ip, size_t len, struct ipoib_discovery *msg)
{
	const uint8_t *nd = ip + IP6_HEADER;
	size_t payload;

	if (len < IP6_HEADER || ip[0] >> 4 != 6)
		return IPOIB_MALFORMED;
	payload = get16(ip + 4);
	if (payload > len - IP6_HEADER)
		return IPOIB_MALFORMED;
	if (ip[6] != ICMPV6 || !payload || (nd[0] != ND_SOLICIT && nd[0] != ND_ADVERT))
		return IPOIB_PACKET;
	if (ip[7] != 255 || payload < ND_LEN || nd[1] || icmp_sum(ip, payload) != 0xffff)
		return IPOIB_MALFORMED;
	msg->answer = nd[0] == ND_ADVERT;
	msg->solicited = msg->answer && nd[4] & ND_SOLICITED;
	msg->override = msg->answer && nd[4] & ND_OVERRIDE;
	msg->to_all = ip[24] == 0xff;
	memcpy(&msg->from, ip + 8, 16);
	memcpy(&msg->target, nd + 8, 16);
	if (!parse_options(nd + ND_LEN, payload - ND_LEN, msg->answer ? ND_TARGET : ND_SOURCE, msg))
		return IPOIB_MALFORMED;
	return is_valid(msg, ip) ? IPOIB_DISCOVERY : IPOIB_MALFORMED;
}

enum ipoib_kind ipoib_parse(const uint8_t *bytes, size_t len, struct ipoib_discovery *msg)
{
	const uint8_t *ip = bytes + IPOIB_HEADER;

	memset(msg, 0, sizeof(*msg));
	if (len < IPOIB_HEADER)
		return IPOIB_MALFORMED;
	len -= IPOIB_HEADER;
	switch (get16(bytes)) {
	case IPOIB_ARP: return parse_arp(ip, len, msg);
	case IPOIB_IPV4: return len >= 20 && ip[0] >> 4 == 4 ? IPOIB_PACKET : IPOIB_MALFORMED;
	case IPOIB_IPV6: return parse_ipv6(ip, len, msg);
	default: return IPOIB_FOREIGN;
	}
}

static size_t build_arp(uint8_t *bytes, const struct ipoib_discovery *msg,
			const struct in6_addr *to)
{
	struct arp arp = {
		.hardware = htobe16(ARP_INFINIBAND),
		.protocol = htobe16(IPOIB_IPV4),
		.hardware_len = IPOIB_LINK_LEN,
		.protocol_len = 4,
		.op = htobe16(msg->answer ? ARP_REPLY : ARP_REQUEST),
	};
	const struct in6_addr *target = msg->answer && to ? to : &msg->target;

	ipoib_link_encode(arp.sender, &msg->sender);
	memcpy(arp.sender_ip, &msg->from.s6_addr[12], 4);
	memcpy(arp.target_ip, &target->s6_addr[12], 4);
	memcpy(bytes, &arp, sizeof(arp));
	return sizeof(arp);
}

static size_t build_nd(uint8_t *ip, const struct ipoib_discovery *msg, const struct in6_addr *to)
{
	uint8_t *nd = ip + IP6_HEADER, *option = nd + ND_LEN;
	struct in6_addr all = {.s6_addr = {0xff, 0x02, [15] = 1}};

	memset(ip, 0, IP6_HEADER + ND_LEN + ND_OPTION);
	if (!to && !msg->answer)
		ipoib_solicited_node(&msg->target, &all);
	ip[0] = 0x60;
	put16(ip + 4, ND_LEN + ND_OPTION);
	ip[6] = ICMPV6;
	ip[7] = 255;
	memcpy(ip + 8, &msg->from, 16);
	memcpy(ip + 24, to ? to : &all, 16);
	nd[0] = msg->answer ? ND_ADVERT : ND_SOLICIT;
	nd[4] = (msg->solicited ? ND_SOLICITED : 0) | (msg->override ? ND_OVERRIDE : 0);
	memcpy(nd + 8, &msg->target, 16);
	option[0] = msg->answer ? ND_TARGET : ND_SOURCE;
	option[1] = ND_OPTION / 8;
	ipoib_link_encode(option + 4, &msg->sender);
	*(uint16_t *)(void *)(nd + 2) = (uint16_t)~icmp_sum(ip, ND_LEN + ND_OPTION);
	return IP6_HEADER + ND_LEN + ND_OPTION;
}

size_t ipoib_build(uint8_t bytes[IPOIB_DISCOVERY_MAX], const struct ipoib_discovery *msg,
		   const struct in6_addr *to)
{
	bool ipv4 = ipoib_is_ipv4(&msg->target);

	put16(bytes, ipv4 ? IPOIB_ARP : IPOIB_IPV6);
	put16(bytes + 2, 0);
	return IPOIB_HEADER + (ipv4 ? build_arp : build_nd)(bytes + IPOIB_HEADER, msg, to);
}

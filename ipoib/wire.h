/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IP over InfiniBand as it lies on the wire, in UD mode (RFC 4391): the header, link-layer
 * addresses, MGIDs of groups, ARP and neighbour discovery.
 *
 *	 0  type, as of Ethernet        | reserved                 (RFC 4391, 6)
 *	 4  an IPv4 or IPv6 packet, or ARP
 *
 *	link-layer address, 20 bytes    (9.1.1; flags: RFC 4755, 3)
 *	 0  flags | QPN, 24 bits
 *	 4  GID
 *
 * What arrives is untrusted and has no alignment. IP addresses are struct in6_addr everywhere, IPv4
 * as ::ffff:a.b.c.d. Pure functions; any thread.
 */
#ifndef IPOIB_WIRE_H
#define IPOIB_WIRE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPOIB_HEADER	 4
#define IPOIB_LINK_LEN	 20
#define IPOIB_SCOPE_LINK 2

enum ipoib_type {
	IPOIB_IPV4 = 0x0800,
	IPOIB_ARP = 0x0806,
	IPOIB_IPV6 = 0x86dd,
};

/* Where an interface is. */
struct ipoib_link {
	uint32_t qpn; /* 24 bits */
	uint8_t gid[16];
};

/* A question for the link-layer address of an IP address, or the answer: what ARP (RFC 4391, 9.1)
 * and neighbour solicitations and advertisements (9.2) have in common. */
struct ipoib_discovery {
	bool answer;
	bool solicited;	      /* an answer to a question */
	bool override;	      /* it is worth more than what is known */
	bool to_all;	      /* it came as multicast, as the packet says itself */
	bool has_sender;      /* sender is known */
	struct in6_addr from; /* the sender's IP address; of IPv6 maybe :: */
	struct in6_addr target;
	struct ipoib_link sender;
};

enum ipoib_kind {
	IPOIB_DISCOVERY, /* *msg is filled in */
	IPOIB_PACKET,	 /* an IP packet for the host */
	IPOIB_MALFORMED,
	IPOIB_FOREIGN, /* a type, or a hardware, that is not IPoIB's */
};

static inline bool ipoib_is_ipv4(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip);
}

static inline void ipoib_of_ipv4(struct in6_addr *ip, const void *four)
{
	*ip = (struct in6_addr){.s6_addr = {[10] = 0xff, 0xff}};
	__builtin_memcpy(&ip->s6_addr[12], four, 4);
}

bool ipoib_is_multicast(const struct in6_addr *ip);

/* What a message is, from its IPoIB header on. */
enum ipoib_kind ipoib_parse(const uint8_t *bytes, size_t len, struct ipoib_discovery *msg);

#define IPOIB_DISCOVERY_MAX (IPOIB_HEADER + 40 + 24 + 24)
/*
 * The message from its IPoIB header on; its length. to: the IP address that it is sent to; NULL: to
 * all that may be concerned.
 */
size_t ipoib_build(uint8_t bytes[IPOIB_DISCOVERY_MAX], const struct ipoib_discovery *msg,
		   const struct in6_addr *to);

void ipoib_link_encode(uint8_t bytes[IPOIB_LINK_LEN], const struct ipoib_link *link);
void ipoib_link_decode(const uint8_t bytes[IPOIB_LINK_LEN], struct ipoib_link *link);

/* The MGID of an IP group (RFC 4391, 4); of 255.255.255.255 that of the broadcast group. */
void ipoib_mgid(const struct in6_addr *group, uint16_t pkey, uint8_t scope, uint8_t mgid[16]);
/* ff02::1:ffXX:XXXX (RFC 4291, 2.7.1) */
void ipoib_solicited_node(const struct in6_addr *ip, struct in6_addr *group);
/* fe80::/64 with a port's GUID, whose bit "universal" is set (RFC 4391, 8). */
void ipoib_link_local(const uint8_t gid[16], struct in6_addr *ip);

#define IPOIB_UNREACHABLE_MAX (40 + 8 + 512)
/*
 * The ICMP message to the sender of a packet that nobody has its destination (RFC 792; RFC 4443,
 * 3.1), as an IP packet from that destination; its length. 0: none may be sent about it (RFC 1122,
 * 3.2.2; RFC 4443, 2.4).
 */
size_t ipoib_unreachable(uint8_t bytes[IPOIB_UNREACHABLE_MAX], const uint8_t *packet, size_t len);

/* Where a packet goes to; false: it is no IP packet. */
bool ipoib_destination(const uint8_t *packet, size_t len, struct in6_addr *to);
/* Internet checksum (RFC 1071) of bytes, added to sum; not folded. */
uint64_t ipoib_sum(const void *bytes, size_t len, uint64_t sum);
uint16_t ipoib_fold(uint64_t sum);

#endif

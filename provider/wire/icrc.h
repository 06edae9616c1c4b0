/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The invariant CRC of RoCEv2 (IBTA vol. 1, 7.8.1 and annex A17.3.3): CRC-32 of Ethernet over eight
 * bytes of ones (a masked LRH), the IP and UDP headers and the packet from the BTH on, with ones in
 * place of what routers may change:
 *
 *	IPv4	TOS, TTL, header checksum
 *	IPv6	traffic class, flow label, hop limit
 *	UDP	checksum
 *	BTH	byte 4: FECN, BECN, resv6
 *
 * It is stored least significant byte first behind the packet.
 *
 * IPv4's identification is covered, and a UDP socket neither sets nor sees it. Sending: Linux
 * numbers the segments of one send from an unconnected socket with DF set 0, 1, 2 …, so we know
 * it. Receiving: the CRC is linear, so the difference between the CRC that came and the one that
 * we compute for identification 0 is (identification · x^8n) mod P, n being the bytes from that
 * field to the ICRC. Multiplied by x^-8n it is the identification again, or shows that none would
 * fit. That alone lets one corruption in 65,536 pass, so a table of peers remembers which count
 * from 0 and holds them to 0 … 127.
 *
 * Values named crc are what urxe_crc32() returns and takes as its seed. A struct urxe_icrc
 * belongs to one wire and is guarded by its lock; the rest are pure functions.
 */
#ifndef URXE_WIRE_ICRC_H
#define URXE_WIRE_ICRC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/headers.h"

/* The part of the headers that all packets of a flow have in common. */
struct urxe_flow {
	struct in6_addr saddr, daddr; /* IPv4-mapped or IPv6; both of one family */
	uint16_t sport, dport;	      /* host order */
	bool ipv6;
};

#define URXE_STRICT_IDS 128 /* one send has at most that many segments */

struct urxe_icrc;

int urxe_icrc_create(struct urxe_icrc **icrc);
void urxe_icrc_destroy(struct urxe_icrc *icrc);

/* CRC of all that comes before the BTH, for identification 0. len: BTH to ICRC, both included. */
uint32_t urxe_icrc_prefix(const struct urxe_flow *flow, uint32_t len);

/* That CRC for another identification (0 … 65535; IPv4 only). */
uint32_t urxe_icrc_prefix_id(uint32_t prefix, uint16_t id);

/* Continues a CRC over bytes that start with a BTH (at least 5 of them), and over bytes that do
 * not. The former masks the byte in place for the time of the call. */
uint32_t urxe_icrc_bth(uint32_t crc, void *bth, size_t len);
uint32_t urxe_icrc_add(uint32_t crc, const void *bytes, size_t len);

/* The ICRC as it stands in a packet. */
static inline void urxe_icrc_store(void *to, uint32_t crc)
{
	uint32_t le = htole32(crc);

	__builtin_memcpy(to, &le, sizeof(le));
}

static inline uint32_t urxe_icrc_load(const void *from)
{
	uint32_t le;

	__builtin_memcpy(&le, from, sizeof(le));
	return le32toh(le);
}

/*
 * Checks a received packet of len bytes from the BTH on, ICRC included (at least 16). prefix is
 * urxe_icrc_prefix() of its flow and len. *id holds the identification it probably has (its place
 * in the batch) and receives the one after that which it had: the guess for the next. The packet
 * is unchanged on return.
 */
bool urxe_icrc_check(struct urxe_icrc *icrc, const struct urxe_flow *flow, uint32_t prefix,
		     void *bth, uint32_t len, uint16_t *id);

#endif

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Cuts a TCP packet of the kernel's, of up to 64 KiB, into packets that the link takes, as network
 * adapters do: each with headers of its own and a complete checksum. The kernel's are trusted as
 * far as memory goes: lengths are compared with the packet. Pure functions.
 */
#include <endian.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <string.h>

#include "ipoib/ipoib.h"

/* Where TCP begins behind the IPoIB header; 0: it is not TCP. */
static unsigned tcp_at(const struct ipoib_packet *packet, unsigned *end)
{
	const uint8_t *ip = packet->data + IPOIB_HEADER;
	size_t len = packet->len - IPOIB_HEADER;
	unsigned at = 0;

	if (len >= sizeof(struct iphdr) && ip[0] >> 4 == 4 && ip[9] == IPPROTO_TCP)
		at = (ip[0] & 0xf) * 4u;
	else if (len >= sizeof(struct ip6_hdr) && ip[0] >> 4 == 6 && ip[6] == IPPROTO_TCP)
		at = sizeof(struct ip6_hdr);
	if (at < sizeof(struct iphdr) || len < at + sizeof(struct tcphdr))
		return 0;
	*end = at + (ip[at + 12] >> 4) * 4u;
	return *end >= at + sizeof(struct tcphdr) && *end <= len ? at : 0;
}

unsigned segment_count(const struct ipoib_packet *packet, unsigned mtu)
{
	unsigned end, n, payload;

	if (!packet->segment_size)
		return packet->len - IPOIB_HEADER <= mtu;
	if (!tcp_at(packet, &end) || end + packet->segment_size > mtu)
		return 0;
	payload = packet->len - IPOIB_HEADER - end;
	n = (payload + packet->segment_size - 1) / packet->segment_size;
	return !n ? 1 : n > IPOIB_MAX_SEGMENTS ? 0 : n;
}

static void set_ipv4(uint8_t *ip, unsigned at, unsigned len, unsigned n)
{
	struct iphdr *h = (void *)ip;

	h->tot_len = htobe16((uint16_t)len);
	h->id = htobe16((uint16_t)(be16toh(h->id) + n));
	h->check = 0;
	h->check = (uint16_t)~ipoib_fold(ipoib_sum(ip, at, 0));
}

/* The checksum over pseudo header, header and payload (RFC 9293, 3.1). */
static uint16_t tcp_sum(const uint8_t *ip, unsigned at, unsigned header, const struct segment *s)
{
	bool ipv4 = ip[0] >> 4 == 4;
	uint64_t sum = ipoib_sum(ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32, 0);

	sum += htobe32(header - at + s->payload_len);
	sum += htobe32(IPPROTO_TCP);
	sum = ipoib_sum(ip + at, header - at, sum);
	return (uint16_t)~ipoib_fold(ipoib_sum(s->payload, s->payload_len, sum));
}

void segment_make(const struct ipoib_packet *packet, unsigned n, struct segment *s)
{
	uint8_t *bytes = packet->headers + (size_t)n * IPOIB_MAX_HEADERS,
		*ip = bytes + IPOIB_HEADER;
	unsigned end = 0, at = tcp_at(packet, &end), offset = n * packet->segment_size;
	unsigned left = packet->len - IPOIB_HEADER - end - offset;
	bool last = left <= packet->segment_size;
	struct tcphdr *tcp = (void *)(ip + at);

	s->payload = packet->data + IPOIB_HEADER + end + offset;
	s->payload_len = last ? left : packet->segment_size;
	s->header_len = IPOIB_HEADER + end;
	memcpy(bytes, packet->data, s->header_len);
	if (ip[0] >> 4 == 4)
		set_ipv4(ip, at, end + s->payload_len, n);
	else
		((struct ip6_hdr *)(void *)ip)->ip6_plen =
			htobe16((uint16_t)(end - at + s->payload_len));
	tcp->seq = htobe32(be32toh(tcp->seq) + offset);
	if (!last)
		tcp->fin = tcp->psh = 0;
	if (n)
		tcp->res2 &= 1; /* CWR is the first one's */
	tcp->check = 0;
	tcp->check = tcp_sum(ip, at, end, s);
}

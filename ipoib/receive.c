// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What comes from the fabric: ARP and neighbour discovery for neighbour.c, packets for the kernel.
 * Packets of one TCP connection that follow each other in one batch are put together, as network
 * adapters do, because each packet that is handed over costs a system call. Their checksums have
 * been verified then, and the kernel is told so; all others it verifies itself. The loop's thread.
 */
#include <endian.h>
#include <linux/virtio_net.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/uio.h>

#include "ipoib/ipoib.h"

#define MOST_PIECES 31
#define MOST_BYTES  65000

/* A packet of TCP with payload, as much of it as decides what it may be put together with. */
struct piece {
	uint8_t *ip;
	unsigned at, header_len, payload;
	uint32_t seq;
	bool push;
};

/* The packets that are being put together; first.ip NULL: none. */
static struct {
	struct piece first;
	struct iovec iov[2 + MOST_PIECES];
	int count;	  /* of iov */
	unsigned payload; /* in all */
	unsigned last;	  /* of the last one */
} merge;

static bool checksum_holds(const struct piece *p)
{
	bool ipv4 = p->ip[0] >> 4 == 4;
	uint64_t sum = ipoib_sum(p->ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32, 0);
	unsigned len = p->header_len - p->at + p->payload;

	sum += htobe32(len);
	sum += htobe32(IPPROTO_TCP);
	return ipoib_fold(ipoib_sum(p->ip + p->at, len, sum)) == 0xffff &&
	       (!ipv4 || ipoib_fold(ipoib_sum(p->ip, p->at, 0)) == 0xffff);
}

/* Is it one that can be put together with others? IPv4 without options and not a fragment, or IPv6
 * without extensions; no flag but ACK and PSH. */
static bool is_piece(uint8_t *ip, size_t len, struct piece *p)
{
	struct tcphdr tcp;
	size_t total;

	if (len >= 40 && ip[0] == 0x45 && ip[9] == IPPROTO_TCP && !(ip[6] & 0x3f) && !ip[7]) {
		p->at = 20;
		total = (size_t)(ip[2] << 8 | ip[3]);
	} else if (len >= 60 && ip[0] >> 4 == 6 && ip[6] == IPPROTO_TCP) {
		p->at = 40;
		total = 40 + (size_t)(ip[4] << 8 | ip[5]);
	} else {
		return false;
	}
	if (total > len || total < p->at + sizeof(tcp))
		return false;
	memcpy(&tcp, ip + p->at, sizeof(tcp));
	p->ip = ip;
	p->header_len = p->at + tcp.doff * 4u;
	if (tcp.doff < 5 || p->header_len >= total || (ip[p->at + 13] & ~TH_PUSH) != TH_ACK)
		return false;
	p->payload = (unsigned)total - p->header_len;
	p->seq = be32toh(tcp.seq);
	p->push = tcp.psh;
	return checksum_holds(p);
}

/* The same connection, acknowledgement, window and options; the same addresses, TTL and TOS. */
static bool is_alike(const struct piece *a, const struct piece *b)
{
	const uint8_t *x = a->ip, *y = b->ip;
	unsigned at = a->at;

	if (at != b->at || a->header_len != b->header_len || memcmp(x + at, y + at, 4) ||
	    memcmp(x + at + 8, y + at + 8, 5) || memcmp(x + at + 14, y + at + 14, 2) ||
	    memcmp(x + at + 18, y + at + 18, a->header_len - at - 18))
		return false;
	if (at == 20)
		return x[1] == y[1] && x[6] == y[6] && !memcmp(x + 8, y + 8, 2) &&
		       !memcmp(x + 12, y + 12, 8);
	return !memcmp(x, y, 4) && !memcmp(x + 6, y + 6, 34);
}

/* The headers of the whole, whose TCP checksum is left to the kernel: it is that of the pseudo
 * header. */
static void set_headers(struct virtio_net_hdr *h)
{
	const struct piece *p = &merge.first;
	unsigned tcp_len = p->header_len - p->at + merge.payload;
	struct tcphdr *tcp = (void *)(p->ip + p->at);
	bool ipv4 = p->at == 20;
	uint64_t sum = ipoib_sum(p->ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32, 0);

	if (ipv4) {
		struct iphdr *ip = (void *)p->ip;

		ip->tot_len = htobe16((uint16_t)(p->at + tcp_len));
		ip->check = 0;
		ip->check = (uint16_t)~ipoib_fold(ipoib_sum(p->ip, p->at, 0));
	} else {
		((struct ip6_hdr *)(void *)p->ip)->ip6_plen = htobe16((uint16_t)tcp_len);
	}
	sum += htobe32(tcp_len);
	sum += htobe32(IPPROTO_TCP);
	tcp->check = ipoib_fold(sum);
	*h = (struct virtio_net_hdr){
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = ipv4 ? VIRTIO_NET_HDR_GSO_TCPV4 : VIRTIO_NET_HDR_GSO_TCPV6,
		.hdr_len = (uint16_t)p->header_len,
		.gso_size = (uint16_t)p->payload,
		.csum_start = (uint16_t)p->at,
		.csum_offset = offsetof(struct tcphdr, check),
	};
}

static void give_merged(struct ipoib *ib)
{
	struct virtio_net_hdr h = {.flags = VIRTIO_NET_HDR_F_DATA_VALID};

	if (!merge.first.ip)
		return;
	if (merge.count > 2) {
		ib->stats.merged += (unsigned)merge.count - 1;
		set_headers(&h);
	}
	merge.iov[0] = (struct iovec){&h, sizeof(h)};
	tun_give(ib, merge.iov, merge.count);
	merge.first.ip = NULL;
}

static void begin_merge(const struct piece *p)
{
	merge.first = *p;
	merge.payload = merge.last = p->payload;
	merge.iov[1] = (struct iovec){p->ip, p->header_len + p->payload};
	merge.count = 2;
}

/* False: it does not follow those. */
static bool add_to_merge(const struct piece *p)
{
	if (!merge.first.ip || merge.count == 2 + MOST_PIECES - 1 ||
	    merge.payload + p->payload > MOST_BYTES || merge.last != merge.first.payload ||
	    p->payload > merge.first.payload || p->seq != merge.first.seq + merge.payload ||
	    !is_alike(&merge.first, p))
		return false;
	merge.iov[merge.count++] = (struct iovec){p->ip + p->header_len, p->payload};
	merge.payload += p->payload;
	merge.last = p->payload;
	if (p->push)
		((struct tcphdr *)(void *)(merge.first.ip + merge.first.at))->psh = 1;
	return true;
}

static void give(struct ipoib *ib, uint8_t *ip, size_t len)
{
	struct virtio_net_hdr h = {};
	struct iovec iov[2] = {{&h, sizeof(h)}, {ip, len}};
	struct piece piece;

	if (!is_piece(ip, len, &piece)) {
		give_merged(ib);
		tun_give(ib, iov, 2);
		return;
	}
	if (!add_to_merge(&piece)) {
		give_merged(ib);
		begin_merge(&piece);
	}
	if (piece.push)
		give_merged(ib);
}

void receive(struct ipoib *ib, uint8_t *bytes, size_t len, uint16_t slid)
{
	struct ipoib_discovery msg;

	switch (ipoib_parse(bytes, len, &msg)) {
	case IPOIB_DISCOVERY:
		if (ib->carrier)
			neighbour_heard(ib, &msg, slid);
		break;
	case IPOIB_PACKET: give(ib, bytes + IPOIB_HEADER, len - IPOIB_HEADER); break;
	case IPOIB_MALFORMED: ib->stats.malformed++; break;
	case IPOIB_FOREIGN: ib->stats.foreign++; break;
	}
}

void receive_unreachable(struct ipoib *ib, const struct ipoib_packet *packet)
{
	uint8_t bytes[IPOIB_UNREACHABLE_MAX];
	struct virtio_net_hdr h = {};
	struct iovec iov[2] = {{&h, sizeof(h)}, {bytes}};

	iov[1].iov_len =
		ipoib_unreachable(bytes, packet->data + IPOIB_HEADER, packet->len - IPOIB_HEADER);
	if (iov[1].iov_len)
		tun_give(ib, iov, 2);
}

void receive_end(struct ipoib *ib)
{
	give_merged(ib);
}

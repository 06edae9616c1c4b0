/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Messages of any bits from the fabric, in batches: a byte of flags and two of length in front of
 * each; with flag 1 its checksums are right. What is put together for the kernel is cut again, and
 * has to be the packets that came: as many, each with a checksum that holds.
 */
#include <endian.h>
#include <limits.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "ipoib/ipoib.h"

#define MOST 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t whole[IPOIB_HEADER + 70000], headers[IPOIB_MAX_SEGMENTS * IPOIB_MAX_HEADERS];

void neighbour_heard(struct ipoib *ib, const struct ipoib_discovery *msg, uint16_t slid)
{
	uint8_t made[IPOIB_DISCOVERY_MAX];
	struct ipoib_discovery same;

	/* What is heard and said again is heard the same; of an ARP answer, to whom is not kept. */
	if (!msg->has_sender || ipoib_is_ipv4(&msg->from) != ipoib_is_ipv4(&msg->target))
		return;
	if (ipoib_is_ipv4(&msg->target) && msg->answer)
		return;
	if (ipoib_parse(made, ipoib_build(made, msg, msg->to_all ? NULL : &msg->target), &same) !=
		    IPOIB_DISCOVERY ||
	    same.answer != msg->answer || same.sender.qpn != msg->sender.qpn ||
	    memcmp(&same.target, &msg->target, 16) || memcmp(&same.from, &msg->from, 16) ||
	    memcmp(same.sender.gid, msg->sender.gid, 16))
		abort();
}

static bool tcp_holds(const uint8_t *ip, size_t len)
{
	bool ipv4 = ip[0] >> 4 == 4;
	unsigned at = ipv4 ? 20 : 40;
	uint64_t sum = ipoib_sum(ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32, 0);

	sum += htobe32((uint32_t)(len - at));
	sum += htobe32(6);
	return ipoib_fold(ipoib_sum(ip + at, len - at, sum)) == 0xffff;
}

void tun_give(struct ipoib *ib, const struct iovec *iov, int count)
{
	const struct virtio_net_hdr *h = iov[0].iov_base;
	struct ipoib_packet packet = {.data = whole, .headers = headers, .len = IPOIB_HEADER};

	for (int i = 1; i < count; i++) {
		memcpy(whole + packet.len, iov[i].iov_base, iov[i].iov_len);
		packet.len += (uint32_t)iov[i].iov_len;
	}
	if (h->flags & VIRTIO_NET_HDR_F_DATA_VALID &&
	    !tcp_holds(whole + IPOIB_HEADER, packet.len - IPOIB_HEADER))
		abort();
	if (h->gso_type == VIRTIO_NET_HDR_GSO_NONE)
		return;
	packet.segment_size = h->gso_size;
	if (segment_count(&packet, UINT_MAX) != (unsigned)count - 1)
		abort();
	for (unsigned n = 0; n + 1 < (unsigned)count; n++) {
		uint8_t one[8192];
		struct segment s;

		segment_make(&packet, n, &s);
		if (s.header_len + s.payload_len > sizeof(one))
			return;
		memcpy(one, headers + (size_t)n * IPOIB_MAX_HEADERS, s.header_len);
		memcpy(one + s.header_len, s.payload, s.payload_len);
		if (!tcp_holds(one + IPOIB_HEADER, s.header_len + s.payload_len - IPOIB_HEADER))
			abort();
	}
}

/* Checksums of TCP and ICMPv6, and of IPv4's header, for what is complete. */
static void set_checksums(uint8_t *bytes, size_t len)
{
	uint8_t *ip = bytes + IPOIB_HEADER;
	bool ipv4;
	size_t at, total;
	uint64_t sum;
	uint16_t folded;

	if (len < IPOIB_HEADER + 60)
		return;
	ipv4 = ip[0] == 0x45;
	at = ipv4 ? 20 : 40;
	total = ipv4 ? (size_t)(ip[2] << 8 | ip[3]) : 40 + (size_t)(ip[4] << 8 | ip[5]);
	if (total > len - IPOIB_HEADER || total < at + 20)
		return;
	if (ipv4) {
		ip[10] = ip[11] = 0;
		folded = (uint16_t)~ipoib_fold(ipoib_sum(ip, 20, 0));
		memcpy(ip + 10, &folded, 2);
	}
	sum = ipoib_sum(ip + (ipv4 ? 12 : 8), ipv4 ? 8 : 32, 0);
	sum += htobe32((uint32_t)(total - at));
	sum += htobe32(ipv4 ? ip[9] : ip[6]);
	memset(ip + at + (!ipv4 && ip[6] == 58 ? 2 : 16), 0, 2);
	folded = (uint16_t)~ipoib_fold(ipoib_sum(ip + at, total - at, sum));
	memcpy(ip + at + (!ipv4 && ip[6] == 58 ? 2 : 16), &folded, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ipoib ib = {.carrier = true};
	uint8_t *messages[MOST];
	unsigned count = 0;

	while (size >= 3 && count < MOST) {
		size_t len = (size_t)(data[1] << 8 | data[2]);
		bool right = data[0] & 1;

		data += 3;
		size -= 3;
		if (len > size)
			len = size;
		/* Of its own, as long as it is, so that reading beyond it is found. */
		messages[count] = malloc(len ?: 1);
		memcpy(messages[count], data, len);
		if (right)
			set_checksums(messages[count], len);
		receive(&ib, messages[count], len, 1);
		count++;
		data += len;
		size -= len;
	}
	receive_end(&ib);
	while (count)
		free(messages[--count]);
	return 0;
}

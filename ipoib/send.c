// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Where a packet of the kernel's goes: to a group, or to the neighbour that the routes say. The
 * loop's thread.
 */
#include <endian.h>
#include <netinet/icmp6.h>
#include <string.h>

#include "ipoib/ipoib.h"

/* The kernel tells routers which groups the host is in (RFC 3376, RFC 3810): they have changed. */
static bool is_membership(const uint8_t *ip, size_t len)
{
	if (ip[0] >> 4 == 4)
		return ip[9] == IPPROTO_IGMP;
	/* Behind a hop-by-hop option "router alert". */
	return len >= 49 && ip[6] == IPPROTO_HOPOPTS && ip[40] == IPPROTO_ICMPV6 &&
	       (ip[48] == MLD_LISTENER_REPORT || ip[48] == MLD_LISTENER_REDUCTION || ip[48] == 143);
}

void send_packet(struct ipoib *ib, struct ipoib_packet *packet)
{
	const uint8_t *ip = packet->data + IPOIB_HEADER;
	size_t len = packet->len - IPOIB_HEADER;
	struct in6_addr to, hop;
	uint64_t *dropped = NULL;

	if (!ipoib_destination(ip, len, &to))
		dropped = &ib->stats.malformed;
	else if (!ib->carrier)
		dropped = &ib->stats.drop_no_link;
	if (dropped) {
		++*dropped;
		queue_free(ib, packet);
		return;
	}
	packet->data[0] = ip[0] >> 4 == 4 ? IPOIB_IPV4 >> 8 : IPOIB_IPV6 >> 8;
	packet->data[1] = ip[0] >> 4 == 4 ? IPOIB_IPV4 & 0xff : IPOIB_IPV6 & 0xff;
	packet->data[2] = packet->data[3] = 0;
	if (ipoib_is_multicast(&to)) {
		if (is_membership(ip, len))
			groups_follow(ib);
		group_send(ib, &to, packet);
		return;
	}
	if (kernel_is_broadcast(ib, &to)) {
		memset(&to.s6_addr[12], 0xff, 4);
		group_send(ib, &to, packet);
		return;
	}
	if (kernel_next_hop(ib, &to, &hop)) {
		neighbour_send(ib, &hop, packet);
		return;
	}
	ib->stats.drop_unreachable++;
	queue_free(ib, packet);
}

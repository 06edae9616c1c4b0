/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receiving. A datagram that a socket gives may be many: the kernel joins packets of one flow
 * (UDP_GRO) and says how long each is. They are taken apart here, checked, and handed up or to
 * the process whose they are: one batch can hold packets of several. Guarded by the wire's lock.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "wire/private.h"
#include "wire/ring.h"

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define CONTROL_LEN 256
/* Between buffers, so that their first lines do not fall into the same set of the cache. */
#define STAGGER 320

struct urxe_rx {
	struct mmsghdr msgs[URXE_RX_BUFFERS];
	struct iovec iov[URXE_RX_BUFFERS];
	union urxe_ip_sockaddr from[URXE_RX_BUFFERS];
	_Alignas(8) uint8_t control[URXE_RX_BUFFERS][CONTROL_LEN];
	_Alignas(64) uint8_t buffers[URXE_RX_BUFFERS][URXE_RX_BUFFER + STAGGER];
};

/* Mapped, not allocated: pages that no large datagram ever reached stay untouched. */
int urxe_rx_create(struct urxe_rx **out)
{
	struct urxe_rx *rx =
		mmap(NULL, sizeof(*rx), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*out = NULL;
	if (rx == MAP_FAILED)
		return -ENOMEM;
	for (unsigned k = 0; k < URXE_RX_BUFFERS; k++) {
		rx->iov[k] = (struct iovec){rx->buffers[k], URXE_RX_BUFFER};
		rx->msgs[k].msg_hdr = (struct msghdr){
			.msg_name = &rx->from[k],
			.msg_iov = &rx->iov[k],
			.msg_iovlen = 1,
			.msg_control = rx->control[k],
		};
	}
	*out = rx;
	return 0;
}

void urxe_rx_destroy(struct urxe_rx *rx)
{
	if (rx)
		munmap(rx, sizeof(*rx));
}

/* ---- what the headers said ---- */

static int int_of(const struct cmsghdr *cmsg)
{
	int value;

	memcpy(&value, CMSG_DATA(cmsg), sizeof(value));
	return value;
}

static void read_ipv4(const struct cmsghdr *cmsg, struct urxe_arrival *from)
{
	struct in_pktinfo info;

	switch (cmsg->cmsg_type) {
	case IP_PKTINFO:
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		from->flow.daddr = urxe_v4mapped(info.ipi_addr);
		from->ifindex = info.ipi_ifindex;
		break;
	case IP_TOS: from->pkt.path.roce.traffic_class = *CMSG_DATA(cmsg); break;
	case IP_TTL: from->pkt.path.roce.hop_limit = int_of(cmsg); break;
	}
}

static void read_ipv6(const struct cmsghdr *cmsg, struct urxe_arrival *from)
{
	struct in6_pktinfo info;

	switch (cmsg->cmsg_type) {
	case IPV6_PKTINFO:
		memcpy(&info, CMSG_DATA(cmsg), sizeof(info));
		from->flow.daddr = info.ipi6_addr;
		from->ifindex = info.ipi6_ifindex;
		break;
	case IPV6_TCLASS: from->pkt.path.roce.traffic_class = int_of(cmsg); break;
	case IPV6_HOPLIMIT: from->pkt.path.roce.hop_limit = int_of(cmsg); break;
	}
}

/* Fills *from; returns the length of each packet but the last, 0 if there is only one. */
static uint32_t read_headers(struct msghdr *msg, struct urxe_arrival *from)
{
	const union urxe_ip_sockaddr *peer = msg->msg_name;
	uint32_t stride = 0;

	memset(from, 0, sizeof(*from));
	from->flow.ipv6 = peer->sa.sa_family == AF_INET6;
	from->flow.dport = URXE_UDP_PORT;
	if (from->flow.ipv6) {
		from->flow.saddr = peer->in6.sin6_addr;
		from->flow.sport = ntohs(peer->in6.sin6_port);
	} else {
		from->flow.saddr = urxe_v4mapped(peer->in.sin_addr);
		from->flow.sport = ntohs(peer->in.sin_port);
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IP)
			read_ipv4(c, from);
		else if (c->cmsg_level == IPPROTO_IPV6)
			read_ipv6(c, from);
		else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			stride = int_of(c);
	}
	return stride;
}

/* Completes what follows from the addresses. */
static void finish(struct urxe_wire *wire, struct urxe_arrival *from)
{
	struct urxe_path *path = &from->pkt.path;

	path->link = URXE_LINK_ROCE;
	path->src.gid = from->flow.saddr;
	path->dst.gid = from->flow.daddr;
	path->multicast = urxe_is_multicast(&from->flow.daddr);
	path->port = urxe_roce_port_at(wire, &from->flow.daddr, from->ifindex);
	from->pkt.source_port = from->flow.sport;
	from->pkt.span = 1;
	from->next_id = 0;
	from->prefix_len = 0;
}

/* ---- packets ---- */

void urxe_deliver(struct urxe_wire *wire, struct urxe_arrival *from, void *packet, uint32_t len)
{
	uint64_t *counters = urxe_wire_counters(wire, &from->pkt.path);

	counters[URXE_CNT_RCVD_PKTS]++;
	counters[URXE_CNT_RCVD_BYTES] += len;
	urxe_flow_took(wire, packet, len);
	from->pkt.bth = from->pkt.bytes = packet;
	from->pkt.len = len - URXE_ICRC_LEN;
	wire->fn(&from->pkt, wire->arg);
}

/* Is it a packet at all, and unharmed? */
static bool is_sound(struct urxe_wire *wire, struct urxe_arrival *from, void *packet, uint32_t len)
{
	if (len < sizeof(struct urxe_bth) + URXE_ICRC_LEN || len % 4) {
		urxe_wire_counters(wire, &from->pkt.path)[URXE_CNT_RCVD_BAD]++;
		return false;
	}
	if (from->prefix_len != len) {
		from->prefix = urxe_icrc_prefix(&from->flow, len);
		from->prefix_len = len;
	}
	if (urxe_icrc_check(wire->icrc, &from->flow, from->prefix, packet, len, &from->next_id))
		return true;
	urxe_wire_counters(wire, &from->pkt.path)[URXE_CNT_ICRC_ERR]++;
	return false;
}

/* stride: of the batch that the packet is in. */
static void receive_one(struct urxe_wire *wire, struct urxe_arrival *from, void *packet,
			uint32_t len, uint32_t stride)
{
	unsigned owner;

	if (!is_sound(wire, from, packet, len))
		return;
	/* Of a multicast packet every process that joined gets a copy of its own. */
	owner = from->pkt.path.multicast ? 0 : urxe_packet_owner(wire, packet);
	if (!owner || owner == wire->slot)
		urxe_deliver(wire, from, packet, len);
	else
		urxe_ipc_forward(wire, from, owner, packet, len, stride);
}

void urxe_receive_packet(struct urxe_wire *wire, struct urxe_arrival *from, void *packet,
			 uint32_t len)
{
	receive_one(wire, from, packet, len, len);
	urxe_ipc_flush(wire, from);
}

static unsigned walk(struct urxe_wire *wire, struct msghdr *msg, uint32_t len)
{
	struct urxe_arrival from;
	uint32_t stride = read_headers(msg, &from);
	uint8_t *bytes = msg->msg_iov->iov_base;
	unsigned packets = 0;
	bool faulty;

	finish(wire, &from);
	faulty = urxe_fault_active(&urxe_wire_port(wire, &from.pkt.path)->fault, URXE_FAULT_IN);
	if (!stride || stride > len)
		stride = len;
	do {
		uint32_t size = stride < len ? stride : len;

		if (faulty)
			urxe_fault_in(wire, &from,
				      &(struct urxe_record){.len = size, .bytes = bytes});
		else
			receive_one(wire, &from, bytes, size, stride);
		packets++;
		bytes += size;
		len -= size;
	} while (len);
	if (!faulty)
		urxe_ipc_flush(wire, &from);
	return packets;
}

int urxe_receive(struct urxe_wire *wire, struct urxe_recv_socket *sock, unsigned budget)
{
	struct urxe_rx *rx = wire->rx;
	unsigned vlen = sock->vlen < budget ? sock->vlen : budget;
	int n, packets = 0;

	/* After a lull one datagram is likely, and to ask for a second one takes time. */
	if (!vlen || sock->lull != wire->lull)
		vlen = 1;
	sock->lull = wire->lull;
	for (unsigned k = 0; k < vlen; k++) {
		rx->msgs[k].msg_hdr.msg_namelen = sizeof(rx->from[k]);
		rx->msgs[k].msg_hdr.msg_controllen = CONTROL_LEN;
	}
	if (vlen == 1) {
		ssize_t len = urxe_libc.recvmsg(sock->fd, &rx->msgs[0].msg_hdr, MSG_DONTWAIT);

		n = len < 0 ? -1 : 1;
		rx->msgs[0].msg_len = len < 0 ? 0 : len;
	} else {
		n = urxe_libc.recvmmsg(sock->fd, rx->msgs, vlen, MSG_DONTWAIT, NULL);
	}
	if (n <= 0) {
		sock->vlen = 1;
		return 0;
	}
	if ((unsigned)n == vlen)
		sock->vlen = vlen * 2 < URXE_RX_BUFFERS ? vlen * 2 : URXE_RX_BUFFERS;
	else
		sock->vlen = n;
	for (int k = 0; k < n; k++)
		packets += walk(wire, &rx->msgs[k].msg_hdr, rx->msgs[k].msg_len);
	return packets;
}

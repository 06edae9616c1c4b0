/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <endian.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "hca/frame.h"

#define TYPE_IPV4 0x0800
#define TYPE_IPV6 0x86dd
#define TYPE_VLAN 0x8100
#define TYPE_QINQ 0x88a8
#define TYPE_MPLS 0x8847
#define TYPE_TEB  0x6558 /* Ethernet in GRE */

#define PORT_VXLAN	  4789
#define PORT_MPLS	  6635
#define MPLS_BOTTOM	  0x100 /* of the stack, in host order */
#define EXTENSION_HEADERS 8	/* of IPv6 that are stepped over at most */

/* What is left of a frame. */
struct cursor {
	const uint8_t *at;
	size_t left;
};

static const uint8_t *take(struct cursor *c, size_t len)
{
	const uint8_t *at = c->at;

	if (c->left < len)
		return NULL;
	c->at += len;
	c->left -= len;
	return at;
}

static uint16_t get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static void read_ip(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c,
		    uint16_t type);
static void read_eth(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c);

/* The topmost label counts; what is behind the last one says its version in its first half byte. */
static void read_mpls(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c)
{
	const uint8_t *p = take(&c, 4);

	if (!p)
		return;
	h->present |= FRAME_MPLS;
	memcpy(&h->mpls.label, p, 4);
	while (p && !(get32(p) & MPLS_BOTTOM))
		p = take(&c, 4);
	if (!p || h != &frame->outer || !c.left)
		return;
	read_ip(frame, &frame->inner, c, *c.at >> 4 == 6 ? TYPE_IPV6 : TYPE_IPV4);
}

static void read_gre(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c)
{
	const uint8_t *p = take(&c, 4), *key;
	uint16_t flags;

	if (!p)
		return;
	flags = get16(p);
	h->present |= FRAME_GRE;
	h->gre.key = 0;
	memcpy(&h->gre.c_ks_res0_ver, p, 2);
	memcpy(&h->gre.protocol, p + 2, 2);
	if ((flags & 0x8000) && !take(&c, 4)) /* checksum */
		return;
	if (flags & 0x2000) {
		key = take(&c, 4);
		if (!key)
			return;
		memcpy(&h->gre.key, key, 4);
	}
	if (((flags & 0x1000) && !take(&c, 4)) || h != &frame->outer) /* sequence number */
		return;
	switch (get16(p + 2)) {
	case TYPE_TEB: read_eth(frame, &frame->inner, c); break;
	case TYPE_MPLS: read_mpls(frame, h, c); break;
	default: read_ip(frame, &frame->inner, c, get16(p + 2)); break;
	}
}

static void read_udp(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c)
{
	const uint8_t *p = take(&c, 8);

	if (!p)
		return;
	h->present |= FRAME_UDP;
	memcpy(&h->ports.src_port, p, 2);
	memcpy(&h->ports.dst_port, p + 2, 2);
	if (h != &frame->outer)
		return;
	if (get16(p + 2) == PORT_MPLS) {
		read_mpls(frame, h, c);
	} else if (get16(p + 2) == PORT_VXLAN) {
		p = take(&c, 8);
		if (!p)
			return;
		h->present |= FRAME_VXLAN;
		h->tunnel.tunnel_id = htobe32(get32(p + 4) >> 8);
		read_eth(frame, &frame->inner, c);
	}
}

static void read_transport(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c,
			   uint8_t protocol)
{
	const uint8_t *p;

	switch (protocol) {
	case IPPROTO_TCP:
		p = take(&c, 20);
		if (!p)
			return;
		h->present |= FRAME_TCP;
		memcpy(&h->ports.src_port, p, 2);
		memcpy(&h->ports.dst_port, p + 2, 2);
		break;
	case IPPROTO_UDP: read_udp(frame, h, c); break;
	case IPPROTO_GRE: read_gre(frame, h, c); break;
	case IPPROTO_MPLS: read_mpls(frame, h, c); break;
	case IPPROTO_ESP:
		p = take(&c, 8);
		if (!p)
			return;
		h->present |= FRAME_ESP;
		memcpy(&h->esp.spi, p, 4);
		memcpy(&h->esp.seq, p + 4, 4);
		break;
	default: break;
	}
}

static void read_ipv4(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c)
{
	const uint8_t *p = c.left >= 20 ? c.at : NULL;
	size_t header = p ? (p[0] & 15) * 4 : 0;

	if (!p || p[0] >> 4 != 4 || header < 20 || !take(&c, header))
		return;
	h->present |= FRAME_IPV4;
	memcpy(&h->ipv4.src_ip, p + 12, 4);
	memcpy(&h->ipv4.dst_ip, p + 16, 4);
	h->ipv4.proto = p[9];
	h->ipv4.tos = p[1];
	h->ipv4.ttl = p[8];
	h->ipv4.flags = p[6] >> 5;
	if (!(get16(p + 6) & 0x1fff)) /* fragment offset */
		read_transport(frame, h, c, p[9]);
}

/* Steps over extension headers: what is behind them, or IPPROTO_NONE. */
static uint8_t step_over(struct cursor *c, uint8_t next)
{
	for (int i = 0; i < EXTENSION_HEADERS; i++) {
		const uint8_t *p = c->at;

		switch (next) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
			if (c->left < 2 || !take(c, (p[1] + 1) * 8))
				return IPPROTO_NONE;
			break;
		case IPPROTO_FRAGMENT:
			if (!take(c, 8) || (get16(p + 2) & 0xfff8))
				return IPPROTO_NONE;
			break;
		default: return next;
		}
		next = p[0];
	}
	return IPPROTO_NONE;
}

static void read_ipv6(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c)
{
	const uint8_t *p = take(&c, 40);

	if (!p || p[0] >> 4 != 6)
		return;
	h->present |= FRAME_IPV6;
	memcpy(h->ipv6.src_ip, p + 8, 16);
	memcpy(h->ipv6.dst_ip, p + 24, 16);
	h->ipv6.flow_label = htobe32(get32(p) & 0xfffff);
	h->ipv6.next_hdr = p[6];
	h->ipv6.traffic_class = get16(p) >> 4;
	h->ipv6.hop_limit = p[7];
	read_transport(frame, h, c, step_over(&c, p[6]));
}

static void read_ip(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c,
		    uint16_t type)
{
	switch (type) {
	case TYPE_IPV4: read_ipv4(frame, h, c); break;
	case TYPE_IPV6: read_ipv6(frame, h, c); break;
	case TYPE_MPLS: read_mpls(frame, h, c); break;
	default: break;
	}
}

static void read_eth(struct urxe_frame *frame, struct urxe_frame_headers *h, struct cursor c)
{
	const uint8_t *p = take(&c, 14);
	uint16_t type;

	if (!p)
		return;
	h->present |= FRAME_ETH;
	memcpy(h->eth.dst_mac, p, 6);
	memcpy(h->eth.src_mac, p + 6, 6);
	h->eth.vlan_tag = h->eth.ether_type = 0;
	type = get16(p + 12);
	while (type == TYPE_VLAN || type == TYPE_QINQ) {
		p = take(&c, 4);
		if (!p)
			return;
		if (!(h->present & FRAME_VLAN))
			memcpy(&h->eth.vlan_tag, p, 2);
		h->present |= FRAME_VLAN;
		type = get16(p + 2);
	}
	h->eth.ether_type = htobe16(type);
	read_ip(frame, h, c, type);
}

void urxe_frame_read(struct urxe_frame *frame, const uint8_t *bytes, size_t len)
{
	frame->outer.present = frame->inner.present = 0;
	read_eth(frame, &frame->outer, (struct cursor){bytes, len});
}

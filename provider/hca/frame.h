/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What stands in the headers of an Ethernet frame, in the form in which ibv_create_flow(3) asks for
 * it: flow rules (flow_rule.h) and receive hashing (rss.h) look at this and never at the frame. All
 * values are in network byte order. Pure functions.
 */
#ifndef URXE_HCA_FRAME_H
#define URXE_HCA_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

/* Which headers there are. */
enum urxe_frame_header {
	FRAME_ETH = 1 << 0,
	FRAME_VLAN = 1 << 1, /* 802.1Q: eth.vlan_tag counts, and eth.ether_type is the inner one */
	FRAME_IPV4 = 1 << 2,
	FRAME_IPV6 = 1 << 3,
	FRAME_TCP = 1 << 4, /* not in fragments but the first */
	FRAME_UDP = 1 << 5,
	FRAME_ESP = 1 << 6,
	FRAME_GRE = 1 << 7,
	FRAME_VXLAN = 1 << 8, /* UDP port 4789 (RFC 7348) */
	FRAME_MPLS = 1 << 9,  /* the topmost label; on Ethernet, GRE or UDP port 6635 (RFC 7510) */
};

struct urxe_frame_headers {
	uint32_t present; /* enum urxe_frame_header */
	struct ibv_flow_eth_filter eth;
	struct ibv_flow_ipv4_ext_filter ipv4;
	struct ibv_flow_ipv6_filter ipv6;
	struct ibv_flow_tcp_udp_filter ports;
	struct ibv_flow_esp_filter esp;
	struct ibv_flow_gre_filter gre;
	struct ibv_flow_tunnel_filter tunnel;
	struct ibv_flow_mpls_filter mpls;
};

struct urxe_frame {
	struct urxe_frame_headers outer;
	struct urxe_frame_headers
		inner; /* behind VXLAN, GRE or MPLS; present is 0 when there are none */
};

/*
 * Reads len bytes from the destination MAC on; headers that are cut off are not present, and those
 * that are not present have no values.
 */
void urxe_frame_read(struct urxe_frame *frame, const uint8_t *bytes, size_t len);

#endif

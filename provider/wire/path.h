/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths: where packets go, or came from. An address belongs to a link layer, which alone knows what
 * it means: the floors above keep addresses and paths, copy them and compare them, and ask the link
 * layer (link.h) for all else. A path is plain data. It holds no pointer, so it may lie in a WQE,
 * in a ring and in a record that another process of the host reads.
 */
#ifndef URXE_WIRE_PATH_H
#define URXE_WIRE_PATH_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "host/device.h"

/* Two addresses are the same when their bytes are. */
struct urxe_link_addr {
	union {
		uint64_t word[2];
		struct in6_addr
			gid; /* RoCE: the IP address, IPv4-mapped or IPv6. A fabric: an MGID */
		struct {
			uint16_t lid;
			bool global; /* the packets have a GRH */
			uint8_t zero[5];
			uint64_t
				guid; /* then: of the GID, network order. The prefix is the port's. */
		} fabric;
	};
};

struct urxe_path {
	union {
		struct {
			struct urxe_link_addr src, dst;
			uint8_t link; /* enum urxe_link_layer */
			/* Of this host: the one that packets leave or came by, by index; or
			 * URXE_NO_PORT. */
			uint8_t port;
			/* Truth values, and no bool: another process may have written them. */
			uint8_t here; /* dst is on this host, whose processes share memory */
			uint8_t multicast;
			/* What else the receiver is told by the headers in front of the BTH, */
			union {
				uint32_t seen[2];
				struct {
					uint8_t traffic_class; /* DSCP and ECN */
					uint8_t hop_limit;     /* TTL; to send by, 0 means 64 */
					uint8_t zero[6];
				} roce;
				struct {
					uint8_t sl, traffic_class, hop_limit, zero;
					uint32_t flow_label;
				} fabric;
			};
			/* and what is the sender's business. */
			union {
				uint32_t own;
				struct {
					uint32_t flow_label : 20;
					uint32_t socket : 4; /* of URXE_SEND_SOCKETS */
					uint32_t zero : 8;
				} roce_own;
				uint32_t route; /* of a fabric: route.h */
			};
		};
		uint64_t word[6];
	};
};
_Static_assert(sizeof(struct urxe_path) == 48, "it goes into a cell of a ring");
_Static_assert(offsetof(struct urxe_path, own) == 44, "the last of it");

static inline bool urxe_same_addr(const struct urxe_link_addr *a, const struct urxe_link_addr *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static inline bool urxe_same_path(const struct urxe_path *a, const struct urxe_path *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Is it the same for the receiver? */
static inline bool urxe_same_flow(const struct urxe_path *a, const struct urxe_path *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3] && a->word[4] == b->word[4] && a->seen[1] == b->seen[1];
}

#endif

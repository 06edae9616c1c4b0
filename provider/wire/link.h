/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a link layer provides: addresses and what stands in front of a packet's BTH. A port says
 * which one it has (host/device.h), and a path made for the port carries that on. Packets from the
 * BTH on are the same on all of them, and so are shared memory and direct access between processes
 * of a host: they ask a path whether its other end is here, and nothing more.
 *
 * docs/architecture.md, "A new link layer", says what else belongs to one.
 */
#ifndef URXE_WIRE_LINK_H
#define URXE_WIRE_LINK_H

#include <infiniband/verbs.h>

#include "wire/path.h"

struct urxe_rx_packet;
struct urxe_sa_question;
struct urxe_tx_packet;
struct urxe_wire;

/* What a UD completion says of the headers in front of the BTH (IBTA vol. 1, 11.4.2.1). */
struct urxe_link_wc {
	bool grh; /* the 40 bytes before the payload hold something */
	uint8_t sl;
	uint8_t dlid_path_bits;
	uint16_t slid;
};

struct urxe_link_ops {
	/* There are other ways to where shared memory leads, should there be none. */
	bool has_other_ways;
	/* Addresses of the family AF_IB name its GIDs, as the kernel's rdma_cap_af_ib() has it. */
	bool has_af_ib;

	/*
	 * What the wire needs for such ports as a whole, once there are shared memory and the ipc
	 * socket; its end, also in the child of a fork, where the parent is to be left
	 * undisturbed; and now and then.
	 */
	int (*open)(struct urxe_wire *wire);
	void (*close)(struct urxe_wire *wire, bool forked);
	void (*housekeep)(struct urxe_wire *wire);
	/* Something has become of a port; NULL: that is nothing to it. */
	void (*ports_changed)(struct urxe_wire *wire);
	/*
	 * An address vector becomes a path from the port; hash (of the QP pair) spreads flows.
	 * -EINVAL for one that is not of this link layer, or whose destination cannot be reached
	 * from such a source. describe is the way back; -EINVAL when the source is the port's no
	 * longer, and then all but sgid_index is filled in. Any thread.
	 */
	int (*resolve)(struct urxe_path *path, const struct urxe_port *port,
		       const struct ibv_ah_attr *attr, uint32_t hash);
	int (*describe)(const struct urxe_path *path, struct ibv_ah_attr *attr);

	/* The path to the sender of a packet, by the path that it came; and what a message says of
	 * the headers that it wants in front of the answers (all of attr but the addresses). */
	void (*reverse)(struct urxe_path *back, const struct urxe_path *came);
	void (*adjust)(struct urxe_path *path, const struct ibv_ah_attr *attr);
	/* A path that a dead process of the segment sent by becomes this one's: finds the port and
	 * makes `own` anew. False: nothing can be sent by it here. Under the engine's lock. */
	bool (*adopt)(struct urxe_wire *wire, struct urxe_path *path);
	/* A path as the sender of this host has it becomes the one that the packet came: finds the
	 * port, or none. Under the engine's lock. */
	void (*arrive)(struct urxe_wire *wire, struct urxe_path *path);
	/* Is dst on this host, and by which of its ports (URXE_NO_PORT: none)? */
	bool (*is_here)(const struct urxe_path *path);
	unsigned (*port_at)(struct urxe_wire *wire, const struct urxe_path *path);
	/* The host of dst, if is_here(): its number among those that share the segment; 0: it has
	 * no other. */
	uint32_t (*host)(const struct urxe_path *path);

	/* The GIDs of both ends. */
	void (*gids)(const struct urxe_path *path, union ibv_gid *src, union ibv_gid *dst);
	/* Is that address the one that a message of the communication manager means by a GID and a
	 * LID? */
	bool (*is_named)(const struct urxe_link_addr *addr, const union ibv_gid *gid, uint16_t lid);

	/*
	 * IP addresses: the GID of the port that has one, or of a multicast group as the port joins
	 * it, and the port's own one of that family. RoCE: they are GIDs, and this takes no system
	 * calls. -EHOSTUNREACH: no port has it; -ENETUNREACH: it is of another network;
	 * -EINPROGRESS: its port is being found out.
	 */
	int (*gid_of_ip)(const struct urxe_port *port, const struct in6_addr *ip,
			 union ibv_gid *gid);
	bool (*own_ip)(const struct urxe_port *port, bool ipv4, struct in6_addr *ip);
	/* The Ethernet address of a path's next hop, and the VLAN of its port (0xffff: none); NULL:
	 * packets have no Ethernet header. Waits for the next hop: -EHOSTUNREACH. */
	int (*ethernet)(const struct urxe_path *path, uint8_t mac[6], uint16_t *vlan);
	/* Asks the subnet administrator (host/fabric_sa.h); NULL: there is none, and what it would
	 * know follows from the addresses. */
	int (*ask)(const struct urxe_port *port, const struct urxe_sa_question *question);

	/* A packet that was received: the 40 bytes before a UD payload, and what the completion
	 * says. */
	void (*received)(const struct urxe_rx_packet *pkt, uint8_t grh[40],
			 struct urxe_link_wc *wc);
	/* ibv_init_ah_from_wc(3): -EINVAL. */
	int (*answer)(const struct urxe_port *port, const struct ibv_wc *wc,
		      const struct ibv_grh *grh, struct ibv_ah_attr *attr);

	/* The dst of packets to a multicast group, of which there may be several spellings. Any GID
	 * may be asked for. Then, under the engine's lock, membership: urxe_wire_mcast_join(). */
	void (*group)(struct urxe_link_addr *addr, const union ibv_gid *mgid);
	int (*join)(struct urxe_wire *wire, const struct urxe_port *port,
		    const struct urxe_link_addr *group);
	void (*leave)(struct urxe_wire *wire, const struct urxe_port *port,
		      const struct urxe_link_addr *group);

	/* A packet was refused for its P_Key or Q_Key; NULL: nobody wants to know. */
	void (*refused)(const struct urxe_rx_packet *rx, bool qkey);

	/*
	 * Packets that no shared memory takes: as urxe_wire_send(). And one that
	 * fault injection kept, as send made it (its own business; NULL: it makes
	 * none). Under the engine's lock.
	 */
	int (*send)(struct urxe_wire *wire, const struct urxe_path *path,
		    struct urxe_tx_packet *pkts, unsigned n);
	int (*send_raw)(struct urxe_wire *wire, const struct urxe_path *path, const void *packet,
			uint32_t len);
};

extern const struct urxe_link_ops urxe_roce_link, urxe_fabric_link;

/* By enum urxe_link_layer. */
extern const struct urxe_link_ops *const urxe_links[URXE_NUM_LINKS];

static inline const struct urxe_link_ops *urxe_link_of(const struct urxe_path *path)
{
	return urxe_links[path->link];
}

/* Any thread that was given the packet: its P_Key, or its Q_Key, is not the QP's. */
void urxe_refused(const struct urxe_rx_packet *rx, bool qkey);

static inline const struct urxe_link_ops *urxe_link_of_port(const struct urxe_port *port)
{
	return urxe_links[port->kind->link];
}

#endif

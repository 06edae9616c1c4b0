/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The way of a data packet through the fabric, as the tables of the map have it: which ports it
 * leaves by, where it arrives, or where and why it is lost (14.2.2, 18.2.4). Nothing is counted
 * here and nothing changes: the caller may be a process of a host, which has the map for reading
 * alone.
 *
 * The map may change meanwhile. A caller that keeps what was found reads
 * the map's generation first.
 */
#ifndef URXE_FABRIC_ROUTE_H
#define URXE_FABRIC_ROUTE_H

#include "fabric/ledger.h"
#include "fabric/map.h"

/* What happens to a packet, by where it is counted; at which port, is said beside it. */
enum fabric_loss {
	FABRIC_ARRIVES,
	FABRIC_LOST_UNSENT,    /* nowhere: an adapter's port does not send */
	FABRIC_LOST_DISCARD,   /* PortXmitDiscards: a port that is not Active, VL, MTU, no end */
	FABRIC_LOST_NO_ROUTE,  /* PortRcvSwitchRelayErrors, of which PortDLIDMappingErrors */
	FABRIC_LOST_LOOPING,   /* the same, PortLoopingErrors */
	FABRIC_LOST_RECEIVED,  /* PortRcvErrors: an adapter that has not that LID */
	FABRIC_LOST_CORRUPTED, /* SymbolErrors, PortRcvErrors */
	FABRIC_LOST_XMIT_PKEY, /* PortXmitConstraintErrors */
	FABRIC_LOST_RCV_PKEY,  /* PortRcvConstraintErrors */
	FABRIC_NUM_LOSSES,
};

struct fabric_route {
	uint32_t links[FABRIC_HOPS_MAX]; /* the ports that it leaves by, in order */
	uint16_t num_links;
	uint8_t loss;	/* enum fabric_loss */
	uint8_t mtu;	/* enum ibv_mtu: the smallest of the links */
	bool enforced;	/* a switch checks P_Keys */
	bool faulty;	/* a link loses or corrupts packets */
	bool arms;	/* a port that it enters by is Armed: it becomes Active (ledger_passed()) */
	uint64_t delay; /* ns: of all its links */
	uint32_t to;	/* the port where it arrives, or is lost */
};

/* From an adapter's port to a LID. */
void fabric_route_find(const struct fabric_map *map, uint32_t from, uint16_t dlid, uint8_t sl,
		       struct fabric_route *route);

/*
 * A part of a multicast group's tree that a copy crosses as a whole: it can be lost, by a fault, by
 * its P_Key or because it is too long, at the first link alone. The first branch is the sender's
 * port itself, without links.
 */
struct fabric_branch {
	uint32_t parent; /* the branch that it begins at; it has a smaller number */
	uint32_t first;	 /* of its links */
	uint32_t num_links;
	uint8_t mtu;  /* enum ibv_mtu: of all links up to here, the smallest */
	bool faulty;  /* its first link loses or corrupts packets */
	bool arms;    /* a port that it enters by is Armed */
	uint8_t loss; /* enum fabric_loss: what a switch at its first link does to the P_Key */
	/* Where the walk goes on: */
	uint32_t out, depth;
	uint8_t in;
	uint64_t delay;
};

/* A port of an adapter that a copy arrives at. */
struct fabric_end {
	uint32_t port, branch;
	uint64_t delay; /* ns: of all links on the way */
};

struct fabric_tree {
	uint32_t num_links, num_branches, num_ends;
	bool enforced;			 /* with another P_Key it may be another one */
	uint32_t links[FABRIC_TREE_MAX]; /* the ports that copies leave by, branch by branch */
	struct fabric_branch branches[FABRIC_TREE_MAX + 1];
	struct fabric_end ends[FABRIC_TREE_MAX + 1]; /* the first one is the sender's port */
};

/* A multicast group's tree for packets of a P_Key, as seen from an adapter's port: of at most
 * FABRIC_TREE_MAX links. */
void fabric_route_group(const struct fabric_map *map, uint32_t from, uint16_t mlid, uint8_t sl,
			uint16_t pkey, struct fabric_tree *tree);

/*
 * Do the switches at both ends of a link let that P_Key pass (10.9.3, 14.2.5.7)? They compare the
 * partition; whether both ends are limited members is the receiver's to know. ARRIVES, XMIT_PKEY,
 * or RCV_PKEY behind the link; *at: the port that counts it. By the port that it leaves by.
 */
enum fabric_loss fabric_link_pkey(const struct fabric_map *map, uint32_t port, uint16_t pkey,
				  uint32_t *at);
/* The same for a route. If not: how many links it has crossed. */
enum fabric_loss fabric_route_pkey(const struct fabric_map *map, const struct fabric_route *route,
				   uint16_t pkey, unsigned *link, uint32_t *at);

/*
 * The fault of a link that befalls a packet: ARRIVES mostly, DISCARD or CORRUPTED. Which packets
 * they are depends on the seed, the link, the flow's number and how many packets the flow has had.
 * By the port that it leaves by.
 */
enum fabric_loss fabric_link_fault(const struct fabric_map *map, uint32_t port, uint64_t flow,
				   uint64_t nth);

#endif

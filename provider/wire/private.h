/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of the wire share: struct urxe_wire and the calls between them. Nothing outside
 * this directory (and its tests) includes it. All of it is guarded by the engine's lock, under
 * which the functions of wire.h are called.
 *
 *	wire.c	   the wire as a whole: create, poll, housekeeping, devices and their counters
 *	udp.c	   sockets: how they are opened and with which options
 *	link.h	   what a link layer provides; roce_link.c: RoCE
 *	send.c	   packets to datagrams, in runs that the kernel cuts itself
 *	receive.c  datagrams to packets, ICRC, whose packet it is
 *	steer.c	   the program that makes the kernel choose the right process
 *	ipc.c	   packets that came to the wrong process, and wake-ups
 *	mcast.c	   multicast groups
 *	ring.c	   a ring of packets in shared memory
 *	neighbour.c  whose rings there are (shm.h), shm_send.c, shm_receive.c: packets in and out
 *	fault_queue.c  packets that fault injection makes wait
 */
#ifndef URXE_WIRE_PRIVATE_H
#define URXE_WIRE_PRIVATE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "host/address.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/ticks.h"
#include "wire/fault.h"
#include "wire/icrc.h"
#include "wire/opcode.h"
#include "wire/headers.h"
#include "wire/wire.h"

#define URXE_DATAGRAM_MAX 65507 /* UDP payload of one send */
#define URXE_RX_BUFFERS	  16
#define URXE_RX_BUFFER	  65536
#define URXE_PORT_MEMOS	  8

enum urxe_family {
	URXE_IPV4, /* also the number of the reuseport group in the host segment */
	URXE_IPV6,
	URXE_NUM_FAMILIES,
};

struct urxe_send_socket {
	int fd; /* -1: not yet opened */
	uint16_t port;
};

/* A socket that packets come from. */
struct urxe_recv_socket {
	int fd; /* -1: this host has not that family */
	/* Takes up to budget packets: how many. */
	int (*receive)(struct urxe_wire *wire, struct urxe_recv_socket *sock, unsigned budget);
	unsigned vlen; /* datagrams to ask for: more when the last call was filled */
	uint64_t lull; /* of the wire, when it was last asked */
};

/* Where a datagram came from: what all its packets have in common. */
struct urxe_arrival {
	struct urxe_flow flow;
	struct urxe_rx_packet pkt; /* bth and len are each packet's own */
	unsigned ifindex;
	struct urxe_inlet *inlet; /* the neighbour's ring that it came by; NULL: a datagram */
	uint8_t hops;		  /* how often it was handed on between processes, on purpose */
	uint16_t next_id;	  /* the IPv4 identification to be expected */
	uint32_t prefix_len;	  /* prefix is for packets of this length; 0: not computed */
	uint32_t prefix;
};

struct urxe_wire_port {
	uint64_t *counters;
	bool no_gso; /* its netdev refused UDP_SEGMENT */
	struct urxe_fault fault;
};

struct urxe_rx; /* receive.c: buffers and scratch */
struct urxe_ipc;
struct urxe_shm;
struct urxe_record;

/*
 * flow.c: how many of the packets may go now (their cost is counted); and those of them that did
 * not go after all. At the receiver: a packet was taken; and the sockets are empty of all that had
 * been sent when it was asked how much that is.
 */
unsigned urxe_flow_admit(struct urxe_wire *wire, const struct urxe_path *path,
			 const struct urxe_tx_packet *pkts, unsigned n);
void urxe_flow_unsent(struct urxe_wire *wire, const struct urxe_path *path,
		      const struct urxe_tx_packet *pkts, unsigned n);
void urxe_flow_took(struct urxe_wire *wire, const void *packet, uint32_t len);
uint64_t urxe_flow_sent(struct urxe_wire *wire);
void urxe_flow_empty(struct urxe_wire *wire, uint64_t sent);

struct urxe_group;
struct urxe_fault_packet;

struct urxe_fault_queue {
	struct urxe_fault_packet *head, **tail;
	uint64_t last_due; /* none is due later */
	unsigned len;
};

/* How long a receiver of this host has taken nothing (flow.c). */
struct urxe_stall {
	uint64_t since; /* ns; 0: never */
	uint64_t taken;
};

struct urxe_wire {
	struct urxe_segment *seg;
	const struct urxe_link_ops *link; /* of all ports */
	unsigned slot;
	bool ending;
	int epfd;
	struct urxe_recv_socket recv[URXE_NUM_FAMILIES];
	struct urxe_send_socket send[URXE_NUM_FAMILIES][URXE_SEND_SOCKETS];
	struct urxe_icrc *icrc;
	struct urxe_rx *rx;
	struct urxe_ipc *ipc;
	struct urxe_shm *shm; /* NULL: there is to be none */
	uint64_t lull;	      /* times that no socket had anything */
	uint64_t asked_at; /* when the sockets were last asked, and when they had something; ns */
	uint64_t had_at;
	_Atomic bool had_lately;
	struct urxe_recv_socket *sole; /* which alone had something when all were asked last, */
	unsigned sole_for;	       /* and so often in a row before */
	bool unwatched;		       /* it is not in the epoll set */
	uint64_t all_at;	       /* when all were asked, ns */
	struct urxe_group *groups;
	uint32_t steered;	 /* generation of the group order that our program was made from */
	uint64_t steered_gsi[4]; /* and the slots that it takes to serve QP 1 */

	/* Ports, and which of them has an address. */
	struct urxe_wire_port port[URXE_MAX_PORTS + 1]; /* the last: of none */
	uint64_t nowhere[URXE_NUM_COUNTERS]; /* counters of packets that belong to no port */
	uint64_t devs_read;		     /* when devices were last looked for, ns */
	struct {
		struct in6_addr addr;
		unsigned ifindex;
		unsigned port;
	} memo[URXE_PORT_MEMOS];
	unsigned memos;

	/* Faults: what the environment says, and which settings of the segment were read. */
	struct urxe_fault env_fault;
	uint32_t fault_generation;
	struct urxe_fault_queue delayed; /* in the order in which they are due */
	struct urxe_fault_queue passed;	 /* waiting for later packets to pass */

	struct urxe_stall stalls[URXE_MAX_SLOTS]; /* by slot */

	/* Takes packets while urxe_wire_poll() runs. */
	urxe_wire_rx_fn *fn;
	void *arg;
	urxe_wire_message_fn *on_message;
};

/* The slot of the process that a packet is for, by the QPN in its BTH; 0: see urxe_owner_of(). */
static inline unsigned urxe_packet_owner(const struct urxe_wire *wire, const void *bth)
{
	return urxe_owner_of(wire->seg, urxe_bth_qpn(bth));
}

/* Of the port of a path. Packets that belong to no port share the state of one that is never
 * configured. */
static inline struct urxe_wire_port *urxe_wire_port(struct urxe_wire *wire,
						    const struct urxe_path *path)
{
	return &wire->port[path->port < URXE_MAX_PORTS ? path->port : URXE_NO_PORT];
}

static inline uint64_t *urxe_wire_counters(struct urxe_wire *wire, const struct urxe_path *path)
{
	struct urxe_wire_port *state = urxe_wire_port(wire, path);

	if (__builtin_expect(!state->counters, 0)) {
		if (state != &wire->port[URXE_NO_PORT])
			state->counters = urxe_segment_counters(wire->seg, path->port);
		if (!state->counters)
			state->counters = wire->nowhere;
	}
	return state->counters;
}

/* udp.c: what RoCE has (link.h), and sockets: descriptors or -errno. */
int urxe_udp_open(struct urxe_wire *wire);
void urxe_udp_close(struct urxe_wire *wire, bool forked);
/* Bound to a group address instead of all: for mcast.c. */
int urxe_udp_open_group(const struct in6_addr *group, unsigned ifindex);
int urxe_udp_open_send(enum urxe_family family, uint16_t *port);
/* A socket is about to be closed. */
void urxe_wire_forget(struct urxe_wire *wire, const struct urxe_recv_socket *sock);
/* Adds a socket to those that urxe_wire_poll() asks for; sock NULL: ipc.c's. */
int urxe_wire_watch(struct urxe_wire *wire, int fd, struct urxe_recv_socket *sock);

/* roce_link.c: a path from a GID of the port by the rest of an address vector. -EINVAL when the
 * families differ or the destination is not reachable from such a source. */
int urxe_roce_path(struct urxe_path *path, const struct urxe_port *port, const union ibv_gid *sgid,
		   const struct ibv_global_route *grh, uint32_t hash);
/* The port that has the address, by index; for a multicast one and unknown ones, that of the
 * ifindex. */
unsigned urxe_roce_port_at(struct urxe_wire *wire, const struct in6_addr *addr, unsigned ifindex);

/* ethernet.c */
int urxe_roce_ethernet(const struct urxe_path *path, uint8_t mac[6], uint16_t *vlan);

/* send.c */
int urxe_roce_send(struct urxe_wire *wire, const struct urxe_path *path,
		   struct urxe_tx_packet *pkts, unsigned n);
/* Sends one packet, ICRC included, as it is. 0 or -errno. */
int urxe_roce_send_raw(struct urxe_wire *wire, const struct urxe_path *path, const void *packet,
		       uint32_t len);
void urxe_send_close(struct urxe_wire *wire);

/* receive.c */
int urxe_rx_create(struct urxe_rx **rx);
void urxe_rx_destroy(struct urxe_rx *rx);
/* Takes what one socket has; returns the number of packets. */
int urxe_receive(struct urxe_wire *wire, struct urxe_recv_socket *sock, unsigned budget);
/* One packet with its ICRC, which is checked here; local delivery only. */
void urxe_receive_packet(struct urxe_wire *wire, struct urxe_arrival *from, void *packet,
			 uint32_t len);
void urxe_deliver(struct urxe_wire *wire, struct urxe_arrival *from, void *packet, uint32_t len);

/* steer.c: both under urxe_segment_lock(). */
void urxe_steer(struct urxe_wire *wire);
void urxe_steer_renew(struct urxe_wire *wire);

/* ipc.c */
int urxe_ipc_open(struct urxe_wire *wire);
void urxe_ipc_close(struct urxe_wire *wire);
/* Adds a packet (of the datagram that is being walked) to those for its owner; sends at flush. */
void urxe_ipc_forward(struct urxe_wire *wire, struct urxe_arrival *from, unsigned slot,
		      void *packet, uint32_t len, uint32_t stride);
void urxe_ipc_flush(struct urxe_wire *wire, struct urxe_arrival *from);
int urxe_ipc_receive(struct urxe_wire *wire);
/* Sends what waits for its owner to take some; and when to do so next: ns, or UINT64_MAX. */
void urxe_ipc_retry(struct urxe_wire *wire, uint64_t now);
/* Wakes a process that sleeps on its sockets. */
void urxe_ipc_wake(struct urxe_wire *wire, unsigned slot);
uint64_t urxe_ipc_deadline(const struct urxe_wire *wire);

/* mcast.c */
int urxe_roce_join(struct urxe_wire *wire, const struct urxe_port *port,
		   const struct urxe_link_addr *group);
void urxe_roce_leave(struct urxe_wire *wire, const struct urxe_port *port,
		     const struct urxe_link_addr *group);
void urxe_mcast_close(struct urxe_wire *wire);

/* fault_queue.c */
int urxe_fault_open(struct urxe_wire *wire);
void urxe_fault_close(struct urxe_wire *wire);
void urxe_fault_settings(struct urxe_wire *wire);
/*
 * Lets the fault of the device act on a packet that leaves or arrives; the packet is copied. A
 * datagram is a record of no kind, with its ICRC; for what goes through rings corruption is loss.
 * slot: of the neighbour that it is for; lag: NULL, or that of the links of a fabric.
 */
struct urxe_lag;
void urxe_fault_out(struct urxe_wire *wire, const struct urxe_path *path, unsigned slot,
		    const struct urxe_record *rec, struct urxe_lag *lag);
void urxe_fault_in(struct urxe_wire *wire, const struct urxe_arrival *from,
		   const struct urxe_record *rec);
void urxe_fault_release(struct urxe_wire *wire, uint64_t now);
uint64_t urxe_fault_deadline(const struct urxe_wire *wire);

#endif

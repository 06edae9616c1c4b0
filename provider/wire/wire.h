/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The wire: moves RoCEv2 packets (IBTA annex A17) between this process and an address vector, over
 * UDP port 4791 of IPv4 and IPv6. It owns sockets, batching, the ICRC, steering between the
 * processes of a host, and fault injection. It knows nothing of QP state.
 *
 * One wire per process. All functions are called under the engine's lock, except
 * urxe_wire_fd(), which any thread may call.
 */
#ifndef URXE_WIRE_WIRE_H
#define URXE_WIRE_WIRE_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "host/device.h"
#include "host/segment.h"
#include "wire/link.h"

#define URXE_UDP_PORT	  4791
#define URXE_TX_BATCH	  64 /* most packets of one urxe_wire_send() */
#define URXE_MAX_HEADER	  64 /* BTH and extension headers of one packet */
#define URXE_SEND_SOCKETS 16
#define URXE_MAX_RUN	  (32u << 10)  /* bytes that one packet to a neighbour may carry */
#define URXE_COPY_MOST	  (16u << 10)  /* so much is never referred to */
#define URXE_MAX_REFERRED (128u << 10) /* and bytes that it may refer to */
#define URXE_MAX_REFS	  34	       /* pieces of memory that a packet may refer to */

struct urxe_wire;

/*
 * A handler of SIGSEGV sets this while a payload is read of which a part is not there, and puts
 * zeros in its place: then what was built is not sent, as if there were no room for it, and the
 * caller finds out why.
 */
extern volatile bool urxe_payload_lost;

static inline bool urxe_wire_payload_lost(void)
{
	atomic_signal_fence(memory_order_seq_cst); /* after the copy, as it is written */
	return __builtin_expect(urxe_payload_lost, false);
}

/*
 * To a neighbour (neighbour.h) a packet may be a run: it stands for span packets of one message
 * that follow each other, and has the opcode of all of them joined (FIRST and LAST make ONLY).
 */
struct urxe_tx_packet {
	uint8_t header[URXE_MAX_HEADER]; /* BTH and extension headers; PadCnt set */
	uint8_t header_len;		 /* a multiple of 4 */
	uint16_t iovcnt;		 /* pieces of the payload: 0 … 32 */
	uint16_t span;			 /* PSNs; more than 1 to a neighbour only */
	bool refer;		 /* the payload goes by reference, and stays as it is until the
			       * packet is acknowledged */
	uint32_t payload_len;	 /* bytes without pad: 0 … 4096, of a run URXE_MAX_RUN, or
			       * URXE_MAX_REFERRED of such a packet */
	const struct iovec *iov; /* valid until urxe_wire_send() returns */
};

/* Payload that still lies in the sender's memory. Good for as long as the rx packet is. */
struct urxe_refs;

struct urxe_rx_packet {
	const uint8_t *bth;   /* BTH and extension headers, which nobody else can change */
	const uint8_t *bytes; /* the packet from the BTH on: headers, payload, pad; ICRC checked and
			       * gone. A neighbour may still be writing to it: the headers count
			       * that bth has, and the payload is to be read once. Where that would
			       * be hard (to QP 1), bytes is bth. */
	uint32_t len;	      /* of the packet, at least 12 and a multiple of 4 */
	struct urxe_path path; /* as it came: src is the sender; port, the one that has dst */
	uint16_t source_port;  /* UDP, host order; 0: it came through shared memory */
	uint16_t span;	       /* PSNs that the packet stands for: 1, or a run of a neighbour's */
	const struct urxe_refs *refs; /* where the payload is, if it is not behind the headers */
	uint32_t refs_len;	      /* and its bytes */
};

/* Did it come the way that packets to this path's end would come back? */
static inline bool urxe_came_by(const struct urxe_rx_packet *rx, const struct urxe_path *path)
{
	return urxe_same_addr(&rx->path.src, &path->dst) &&
	       urxe_same_addr(&rx->path.dst, &path->src);
}

typedef void urxe_wire_rx_fn(const struct urxe_rx_packet *pkt, void *arg);

/*
 * Opens the sockets and joins the group of this host's processes. -EADDRINUSE when another user's
 * process or the kernel's rdma_rxe holds port 4791: one line on stderr names cause and cure.
 */
int urxe_wire_create(struct urxe_segment *seg, struct urxe_wire **wire);
void urxe_wire_destroy(struct urxe_wire *wire);
/* Waits until what is under way on a fabric's links with a delay has arrived: to be called before
 * the process ends or the wire does. */
void urxe_wire_drain(struct urxe_wire *wire);
/* The process is about to end: sending allocates no memory from now on. */
void urxe_wire_ending(struct urxe_wire *wire);
/* In the child of a fork: closes the inherited descriptors and frees; the parent is undisturbed. */
void urxe_wire_forked(struct urxe_wire *wire);

/*
 * Sends n packets (1 … URXE_TX_BATCH) of one path in order: computes the ICRCs, gathers the payload
 * from where it lies, and hands runs of equal size to the kernel in one UDP_SEGMENT send. Never
 * blocks. Returns how many were sent (lost on purpose counts as sent): fewer than n when the socket
 * is full, or, for UC and UD, a receiver on this host is behind (try again later); or -errno when
 * the path is broken (ENETUNREACH, EADDRNOTAVAIL …).
 */
int urxe_wire_send(struct urxe_wire *wire, const struct urxe_path *path,
		   struct urxe_tx_packet *pkts, unsigned n);

/*
 * Sends one packet that concerns the process of a slot, which its QPN does not say (QP 1): to a
 * neighbour. -ESRCH: nobody there that it could reach this way; -ENOBUFS: no room in its ring. Then
 * urxe_wire_send() remains. now: CLOCK_MONOTONIC, ns; whether the neighbour lives is asked once in
 * a millisecond, because what would be lost with it is repeated after seconds.
 */
int urxe_wire_send_near(struct urxe_wire *wire, const struct urxe_path *path, unsigned slot,
			const struct urxe_tx_packet *pkt, uint64_t now);

/*
 * How much a packet to this destination may carry when it is not bound by a path MTU: 0 where
 * packets go by UDP. *refer says whether the payload may be referred to, and then whether it is to
 * be: when the neighbour is behind and its ring has no room for a copy.
 */
uint32_t urxe_wire_run(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn,
		       bool *refer);
/* Would a packet with len bytes of payload, which may be referred to or not, find a neighbour's
 * ring full? To ask costs less than to build packets for nothing. */
bool urxe_wire_full(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn,
		    uint32_t len, bool refer);
/* Has the neighbour of that slot taken packets since its ring was found full, or none for so long
 * that payload may be referred to? */
bool urxe_wire_has_room(struct urxe_wire *wire, unsigned slot);
/* Payload that was referred to is about to change, though not all packets were acknowledged: a
 * neighbour that reads it from now on must find out. */
void urxe_wire_void_refs(struct urxe_wire *wire, const struct urxe_path *path, uint32_t qpn);

/* The neighbour that a packet's payload lies with: its slot, and urxe_segment_slot_life(). */
unsigned urxe_wire_refs_slot(const struct urxe_refs *refs, uint32_t *life);
/*
 * Reads len bytes at an offset of a packet's payload from its sender's memory. -ESTALE: they are
 * not to be had any more, and the packet is to be treated as lost; what was written to iov is
 * worthless. pid: of the sender, if the caller makes sure afterwards that it was alive; 0: the
 * sender is identified by a cookie in its memory, at the cost of a page more to read.
 */
int urxe_wire_pull(const struct urxe_refs *refs, uint32_t offset, const struct iovec *iov,
		   unsigned n, uint32_t len, int pid);

/*
 * Takes what has arrived, at most about budget packets, and calls fn for each packet whose ICRC
 * fits and whose destination QPN is of this process (or 1, or multicast); others go to their
 * owner. Also sends packets that fault injection delayed and that are due. Returns the number of
 * packets taken from the sockets (0: nothing there). Never blocks. now: CLOCK_MONOTONIC, ns. fn may
 * send, but not poll, join or leave.
 */
int urxe_wire_poll(struct urxe_wire *wire, unsigned budget, uint64_t now, urxe_wire_rx_fn *fn,
		   void *arg);

/* The same from the rings of neighbours alone. 0 also where more is to be done than to take packets
 * from them. */
int urxe_wire_poll_near(struct urxe_wire *wire, unsigned budget, urxe_wire_rx_fn *fn);

/*
 * Which process of this host a MAD to QP 1 is for: the first rule that fits says. Rules are added
 * before a wire is made, in each process the same ones. -ENOSPC beyond 16.
 */
struct urxe_mad_rule {
	uint8_t mgmt_class;
	uint16_t attr_id; /* host order; 0: any */
	/* Where in the MAD the process's communication ID is; 0: any that serves QP 1. */
	uint8_t id_at;
};
int urxe_steer_mads(const struct urxe_mad_rule *rules, unsigned n);
/* The slot that a MAD names by these rules; 0: it may be any process's. */
unsigned urxe_steer_mad(const uint8_t *mad);

/*
 * Hands a packet that fn was called with (during that call) on to another process of this host,
 * where fn is called with it whatever its QPN. At most twice for one packet: -ELOOP. -ESRCH: nobody
 * alive has that slot, or it is ours. 0 else: a receiver whose queue is full is waited for, some
 * seconds at most.
 */
int urxe_wire_forward(struct urxe_wire *wire, unsigned slot, const struct urxe_rx_packet *pkt);
/* The same to all others that serve QP 1 and are not stopped; they cannot hand it on any more. */
int urxe_wire_forward_all(struct urxe_wire *wire, const struct urxe_rx_packet *pkt);

/*
 * A message to another process of this host that is no packet. Messages arrive in the order in
 * which they were sent; one is lost if its receiver dies, or takes nothing for seconds. -ESRCH:
 * nobody alive has that slot, or it is ours. -EMSGSIZE.
 */
#define URXE_MESSAGE_MAX (192u << 10) /* bytes */
int urxe_wire_send_message(struct urxe_wire *wire, unsigned slot, const void *message,
			   uint32_t len);
/* Takes the messages that others have sent, while urxe_wire_poll() runs. from: the sender's slot,
 * as it says. */
typedef void urxe_wire_message_fn(unsigned from, const void *message, uint32_t len);
void urxe_wire_on_message(struct urxe_wire *wire, urxe_wire_message_fn *fn);

/*
 * An epoll descriptor that is readable when urxe_wire_poll() would find a packet, if the thread
 * that waits for it has said so: neighbours wake a thread that sleeps. urxe_wire_sleep(): false
 * when there is a packet already. Any thread.
 */
int urxe_wire_fd(const struct urxe_wire *wire);
/*
 * Nobody sleeps on that descriptor, nor will before this has been called with false, and somebody
 * polls: it need not become readable. At first it is false.
 */
void urxe_wire_attend(struct urxe_wire *wire, bool attended);
bool urxe_wire_sleep(struct urxe_wire *wire);
void urxe_wire_awake(struct urxe_wire *wire);
/* After a poll, under the engine's lock: has it taken away what would wake the thread that sleeps,
 * or left packets of neighbours? Then that one is to be woken by other means. */
bool urxe_wire_missed(struct urxe_wire *wire);
/*
 * For threads that poll: does a packet of a neighbour wait? URXE_LOOK_ALL: that cannot be said
 * without a urxe_wire_poll(), since there are no neighbours. Any thread, without the engine's lock.
 */
enum urxe_look { URXE_LOOK_NOTHING, URXE_LOOK_WAITS, URXE_LOOK_ALL };
enum urxe_look urxe_wire_look(const struct urxe_wire *wire);
/* When urxe_wire_poll() must next run for a packet that waits here: ns, or UINT64_MAX. */
uint64_t urxe_wire_deadline(const struct urxe_wire *wire);
/* A port is not as it was (urxe_device_monitor_read()). */
void urxe_wire_ports_changed(struct urxe_wire *wire);
/* Now and then (a second): reaps dead processes, renews steering, reads new fault settings. */
void urxe_wire_housekeep(struct urxe_wire *wire);

/* The port of this host at the other end of a path, by index; URXE_NO_PORT: it is elsewhere. */
unsigned urxe_wire_port_at(struct urxe_wire *wire, const struct urxe_path *path);

/* Multicast groups, counted per (port, group). -EINVAL: no multicast address; or the error of a
 * socket. */
int urxe_wire_mcast_join(struct urxe_wire *wire, const struct urxe_port *port,
			 const struct urxe_link_addr *group);
void urxe_wire_mcast_leave(struct urxe_wire *wire, const struct urxe_port *port,
			   const struct urxe_link_addr *group);

#endif

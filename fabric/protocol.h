/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a program on a host of a fabric and fabricd say to each other, over connections of type
 * SOCK_SEQPACKET to one socket, which only the user of the fabric can reach. The first datagram of
 * a connection says what it is:
 *
 *	HOST	of a process: answers which adapters the host has, with the map's descriptor; afterwards commands of
 *		the process (register an agent, unregister it, read counters), each with an answer, one at a time
 *	UMAD	of an open /dev/infiniband/umadN: afterwards datagrams in both directions as read(2) and write(2) of
 *		that file have them (<rdma/ib_user_mad.h>, with the P_Key index). What is longer than FABRIC_INLINE
 *		has only its first FABRIC_INLINE bytes in the datagram, and a memory file with all of it beside it.
 *		Shorter MADs go by rings in a memory file (mad_ring.h) that comes with the answer to the first datagram
 *	LEDGER	of a process that sends packets, with the descriptor of its ledger (ledger.h) beside the first datagram
 *	EVENTS	of a process with a device: tells it what becomes of its host's ports, and is told of packets that had a
 *		wrong key
 *	SA	of a process that asks the subnet administrator itself, for a port: as UMAD. What it joins by
 *		SubnAdmSet(MCMemberRecord) the port stays a member of until each process that joined has left or ended
 *	ISSM	of an open /dev/infiniband/issmN: the port is a subnet manager's as long as it lasts
 *
 * When fabricd ends, all of them end. Numbers are in host byte order but for what comes from MADs.
 */
#ifndef URXE_FABRIC_PROTOCOL_H
#define URXE_FABRIC_PROTOCOL_H

#include <stdint.h>

#define FABRIC_PROTOCOL	     3
#define FABRIC_HELLO_MAGIC   0x75666162u
#define FABRIC_NAME_LEN	     64
#define FABRIC_HOST_ADAPTERS 32
#define FABRIC_UMAD_HDR	     64
#define FABRIC_INLINE	     (FABRIC_UMAD_HDR + 256)
/* The largest MAD that is taken from a program. */
#define FABRIC_MAX_MAD (64u << 20)
#define FABRIC_AGENTS  32 /* of an open umad, as the kernel's */
/* Descriptors with the welcome of a UMAD: the rings (mad_ring.h), the program's event descriptor,
 * fabricd's. */
#define FABRIC_UMAD_FDS 3

enum fabric_kind {
	FABRIC_HOST = 1,
	FABRIC_UMAD,
	FABRIC_ISSM,
	FABRIC_LEDGER,
	FABRIC_EVENTS,
	FABRIC_SA,
};

struct fabric_hello {
	uint32_t magic, version, kind;
	uint32_t port;		    /* UMAD, SA, ISSM: index in the map's table of ports */
	char host[FABRIC_NAME_LEN]; /* HOST, EVENTS: the name it was asked for by */
};

struct fabric_welcome {
	int32_t error;	 /* 0, or an errno */
	uint32_t cookie; /* UMAD, SA: names this file in commands */
	uint32_t num_adapters;
	uint32_t adapters[FABRIC_HOST_ADAPTERS]; /* indices in the map's table of nodes */
	char message[192];			 /* with an error: why, and the cure */
};

enum fabric_command { FABRIC_REGISTER = 1, FABRIC_UNREGISTER, FABRIC_COUNTERS };

struct fabric_request {
	uint32_t command;
	uint32_t cookie; /* of the file */
	uint32_t id; /* UNREGISTER; REGISTER: wanted, or FABRIC_AGENTS for any; COUNTERS: port */
	uint32_t qpn;
	uint32_t flags; /* of REGISTER_AGENT2; COUNTERS: the attribute (16.1.3) */
	uint8_t mgmt_class, class_version, rmpp_version, pad;
	uint32_t oui;
	uint64_t method_mask[2];
};

/* EVENTS, to the process: look at the port again. */
struct fabric_event {
	uint32_t port;		    /* index */
	uint8_t reregister, pad[3]; /* the subnet manager asks programs to register again */
};

/* EVENTS, from the process: a packet that a port of its host did not take (9.6.1.1.3, 10.2.5). */
struct fabric_violation {
	uint32_t port; /* index */
	uint32_t key;  /* the P_Key, or the Q_Key */
	uint32_t src_qpn, dst_qpn;
	uint16_t slid, dlid;
	uint8_t sl;
	uint8_t of_qkey;
	uint8_t pad[2];
	uint32_t
		count; /* such packets since the last report; the fields above are of the last one */
};

struct fabric_reply {
	int32_t error; /* 0, or an errno */
	uint32_t id;
};

/* To COUNTERS: what the port's performance management agent answers. */
struct fabric_counters {
	struct fabric_reply reply;
	uint8_t mad[256];
};

#endif

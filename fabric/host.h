/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The MAD layer of each host, as the kernel's ib_core and ib_umad are it: agents that programs
 * register on the ports of their host, to whom what arrives is given, requests that wait for
 * answers, and MADs of several segments. Its rules are those of mad.c, mad_rmpp.c and user_mad.c.
 *
 * fabricd's thread.
 */
#ifndef URXE_FABRIC_HOST_H
#define URXE_FABRIC_HOST_H

#include "fabric/fabric.h"
#include "fabric/protocol.h"

struct connection;
struct reassembly;

/* A port of a host's adapter. */
struct host_port {
	struct agent *agents; /* registered on it, for both QPs */
	unsigned sms;	      /* open issm files */
};

/* One registration of a program (IB_USER_MAD_REGISTER_AGENT). */
struct agent {
	struct agent *link;   /* of the host's port */
	struct agent *hashed; /* by tid */
	struct connection *file;
	uint32_t port; /* index */
	uint32_t tid;  /* the upper half of its requests' transaction IDs */
	uint8_t id;    /* in its file */
	uint8_t qpn;
	uint8_t class, class_version, rmpp_version;
	bool user_rmpp; /* the program makes segments itself */
	uint32_t oui;
	uint64_t methods[2];
	struct send *sends;		 /* under way */
	struct reassembly *reassemblies; /* being received in segments */
};

/* A MAD that a program has sent, as long as it waits for its answer or for acknowledgements of its
 * segments. */
struct send {
	struct send *next, **at;	/* of the agent */
	struct send *hashed, **hash_at; /* by transaction ID */
	struct agent *agent;
	struct timer timer;
	uint64_t tid;
	uint32_t timeout_ms;
	unsigned retries;
	bool answered_by_rmpp; /* the answer is being received in segments */
	/* a MAD of several segments */
	uint8_t *data; /* behind the headers; NULL: it is a single one */
	uint32_t segments, sent, acked, window;
	uint32_t last_len;
	uint8_t hdr[FABRIC_UMAD_HDR]; /* as the program wrote it */
	uint8_t mad[MAD_LEN];	      /* the MAD, or the headers of each segment */
};

/* ---- host.c ---- */

/* Registers an agent for a file: 0 and *out, or an errno as the kernel's. */
int host_register(struct fabric *f, struct connection *file, uint32_t port,
		  const struct fabric_request *request, uint8_t id, struct agent **out);
void host_unregister(struct fabric *f, struct agent *agent);
/* A packet for the host of p->port: to an agent, or a last word about it. */
void host_receive(struct fabric *f, struct packet *p);
/* The agent's program gets the MAD of a packet; data, len: all of it where it had several segments.
 * */
void host_deliver(struct fabric *f, struct agent *agent, const struct packet *p,
		  const uint8_t *data, uint32_t len);

/* A program's packet had a key that the port does not take: it is counted, and the subnet manager
 * told. */
void host_violation(struct fabric *f, const struct fabric_violation *v);

/* ---- host_send.c ---- */

/* All that is under way, and what is kept for later, at the end of the fabric. */
void host_sends_free(struct fabric *f);

/* A program has written to its umad file: 0 or an errno as write(2) would say. */
int host_send(struct fabric *f, struct agent *agent, const uint8_t *umad, size_t len);
/* The packet that carries a MAD of an agent, from the header as the program wrote it. */
void host_packet(struct fabric *f, const struct agent *agent, const uint8_t *hdr, struct packet *p);
/* The request that an answer is for; NULL. */
struct send *host_send_find(struct fabric *f, const struct agent *agent, const uint8_t *mad);
/* It is done with; failed: the program is told with the status, ETIMEDOUT mostly. */
void host_send_end(struct fabric *f, struct send *send, int error);
/* Waits for the answer from now on. */
void host_send_wait(struct fabric *f, struct send *send);
void host_send_all_end(struct fabric *f, struct agent *agent);

/* ---- rmpp_send.c, rmpp_receive.c ---- */

void rmpp_send_start(struct fabric *f, struct send *send);
/* The timer of a send in segments ran out: true if it is going on. */
bool rmpp_send_again(struct fabric *f, struct send *send);
/* An acknowledgement, a stop or an abort arrived. */
void rmpp_send_receive(struct fabric *f, struct agent *agent, const struct packet *p);
/* A segment arrived. send: the request that it answers, or NULL. */
void rmpp_receive(struct fabric *f, struct agent *agent, struct send *send, const struct packet *p);
void rmpp_receive_all_end(struct fabric *f, struct agent *agent);

/* ---- server.c ---- */

/* What a program reads from its umad file. data: behind the first len_first bytes of a long one. */
void server_deliver(struct fabric *f, struct connection *file, const uint8_t *hdr,
		    const uint8_t *mad, uint32_t len);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The MAD layer of a host, as the kernel's ib_core and ib_umad are it: agents that programs
 * register on the host's ports, and which get what arrives, requests that wait for answers, and
 * MADs of several segments. Its rules are those of mad.c, mad_rmpp.c and user_mad.c. What is below
 * it, a fabric or an adapter's QP 1, are a few functions (struct mads_ops).
 *
 * One thread at a time: fabricd's, or whoever has the engine's lock.
 */
#ifndef URXE_FABRIC_HOST_H
#define URXE_FABRIC_HOST_H

#include <rdma/ib_user_mad.h>
#include <stddef.h>

#include "fabric/mad.h"
#include "fabric/protocol.h"
#include "fabric/timer.h"

struct mads;
struct reassembly;

/* A MAD on its way. port: where it is sent from, and later where it has arrived. */
struct packet {
	uint32_t port;
	uint16_t slid, dlid;
	uint8_t sl;
	uint8_t grh_present;
	uint8_t in_port; /* of a switch, where it came in */
	uint16_t pkey;	 /* the value, as in the BTH */
	uint32_t src_qp, dst_qp, qkey;
	uint8_t sgid[16], dgid[16];
	uint64_t delay; /* ns: of the links that it has crossed */
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint8_t mad[MAD_LEN];
};

/* One registration of a program (IB_USER_MAD_REGISTER_AGENT). */
struct agent {
	struct agent *link;   /* of the port, for both QPs */
	struct agent *hashed; /* by tid */
	void *file;
	uint32_t port; /* index */
	uint32_t tid;  /* the upper half of its requests' transaction IDs */
	uint8_t id;    /* in its file */
	uint8_t qpn;
	uint8_t class, class_version, rmpp_version;
	bool user_rmpp; /* the program makes segments itself */
	uint32_t oui;
	uint64_t methods[2];
	struct send *sends;		 /* under way */
	struct reassembly *reassemblies; /* being received in segments, */
	unsigned num_reassemblies;	 /* so many, */
	size_t reassembly_bytes;	 /* with so much room for data */
};

/* What is below. */
struct mads_ops {
	/* Can what a program wrote be sent from its port? 0 or an errno. */
	int (*check)(struct mads *m, const struct agent *agent, const struct ib_user_mad_hdr *h,
		     const uint8_t *mad);
	/* The addresses of the packet that a program's MAD goes in; what the program is told of
	 * those of one that came. */
	void (*address)(struct mads *m, const struct agent *agent, const struct ib_user_mad_hdr *h,
			struct packet *p);
	void (*describe)(struct mads *m, const struct packet *p, struct ib_user_mad_hdr *h);
	/* Turns a packet round: it is an answer now. */
	void (*turn)(struct mads *m, struct packet *p);
	/* Room for a packet, which is filled in place; sends it. */
	struct packet *(*room)(struct mads *m);
	void (*send)(struct mads *m);
	/* What the program reads from its file: len bytes behind a header of FABRIC_UMAD_HDR. */
	void (*deliver)(struct mads *m, void *file, const uint8_t *hdr, const uint8_t *mad,
			uint32_t len);
	void (*bad_qkey)(struct mads *m, const struct packet *p);
	/* There was no room for a packet that has arrived. */
	void (*dropped)(struct mads *m, const struct packet *p);
};

#define AGENT_TABLE 1024
#define SEND_TABLE  65536

struct mads {
	struct timers timers;
	uint64_t now; /* ms of CLOCK_MONOTONIC, at the last wake-up */
	const struct mads_ops *ops;
	struct agent **at_port;		   /* the first agent of each port */
	struct agent *agents[AGENT_TABLE]; /* by the upper half of their transaction IDs */
	struct send *sends[SEND_TABLE];	   /* by transaction ID */
	struct send *free_sends;
	uint32_t next_agent, agent_step; /* numbers that are given out */
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

/* -ENOMEM. Ends with all that is under way; agents are to be unregistered before. */
int mads_create(struct mads *m, uint32_t ports, const struct mads_ops *ops);
void mads_destroy(struct mads *m);

/* Registers an agent for a file: 0 and *out, or an errno as the kernel's. */
int host_register(struct mads *m, void *file, uint32_t port, const struct fabric_request *request,
		  uint8_t id, struct agent **out);
void host_unregister(struct mads *m, struct agent *agent);
/* A packet for the host of p->port: to an agent, or a last word about it. */
void host_receive(struct mads *m, struct packet *p);
/* The agent's program gets the MAD of a packet; data, len: all of it where it had several segments.
 * */
void host_deliver(struct mads *m, struct agent *agent, const struct packet *p, const uint8_t *data,
		  uint32_t len);

/* ---- host_send.c ---- */

/* A program has written to its umad file: 0 or an errno as write(2) would say. */
int host_send(struct mads *m, struct agent *agent, const uint8_t *umad, size_t len);
/* The request that an answer is for; NULL. */
struct send *host_send_find(struct mads *m, const struct agent *agent, const uint8_t *mad);
/* It is done with; failed: the program is told with the status, ETIMEDOUT mostly. */
void host_send_end(struct mads *m, struct send *send, int error);
/* Waits for the answer from now on. */
void host_send_wait(struct mads *m, struct send *send);
void host_send_all_end(struct mads *m, struct agent *agent);
void host_sends_free(struct mads *m);

/* ---- rmpp_send.c, rmpp_receive.c ---- */

void rmpp_send_start(struct mads *m, struct send *send);
/* The timer of a send in segments ran out: true if it is going on. */
bool rmpp_send_again(struct mads *m, struct send *send);
/* An acknowledgement, a stop or an abort arrived. */
void rmpp_send_receive(struct mads *m, struct agent *agent, const struct packet *p);
/* A segment arrived. send: the request that it answers, or NULL. */
void rmpp_receive(struct mads *m, struct agent *agent, struct send *send, const struct packet *p);
void rmpp_receive_all_end(struct mads *m, struct agent *agent);

#endif

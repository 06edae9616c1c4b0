/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The communication manager (IBTA vol. 1, chapter 12): makes and ends RC and UC connections with
 * REQ, REP, RTU, DREQ and DREP, and resolves UD services with SIDR_REQ and SIDR_REP, with all their
 * retries, rejections and time-wait. It knows nothing of rdma_cm, ports or sockets: it gets MADs, a
 * clock and a function that finds listeners.
 *
 * All state hangs on a struct urxe_cm. Everything here is called under the lock that guards it (in
 * the library the engine lock), and nothing blocks. Handlers are called from urxe_cm_receive() and
 * urxe_cm_run() only, never from the functions that send; so what a command does to an identifier
 * cannot be overtaken by an event. Errors are -errno; -EINVAL for a call that the state forbids.
 *
 *	active                                    passive
 *	IDLE                                      (listener)
 *	REQ_SENT      ------ REQ ------------->   REQ_RCVD
 *	MRA_REQ_RCVD  <----- MRA --------------   MRA_REQ_SENT
 *	REP_RCVD      <----- REP --------------   REP_SENT
 *	MRA_REP_SENT  ------ MRA ------------->   MRA_REP_RCVD
 *	ESTABLISHED   ------ RTU ------------->   ESTABLISHED
 *	DREQ_SENT     ------ DREQ ------------>   DREQ_RCVD       (either side may start it)
 *	TIMEWAIT      <----- DREP -------------   TIMEWAIT
 *	IDLE                                      IDLE
 */
#ifndef URXE_CM_CONNECTION_H
#define URXE_CM_CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>
#include <infiniband/verbs.h>

#include "cm/mad.h"
#include "host/device.h"
#include "host/timer.h"
#include "wire/wire.h"

struct urxe_cm;
struct urxe_cm_id;
struct urxe_cm_event;

enum urxe_cm_state {
	URXE_CM_IDLE,
	URXE_CM_REQ_SENT,
	URXE_CM_REQ_RCVD,
	URXE_CM_MRA_REQ_SENT,
	URXE_CM_MRA_REQ_RCVD,
	URXE_CM_REP_SENT,
	URXE_CM_REP_RCVD,
	URXE_CM_MRA_REP_SENT,
	URXE_CM_MRA_REP_RCVD,
	URXE_CM_ESTABLISHED,
	URXE_CM_DREQ_SENT,
	URXE_CM_DREQ_RCVD,
	URXE_CM_TIMEWAIT,
	URXE_CM_SIDR_REQ_SENT,
	URXE_CM_SIDR_REQ_RCVD,
	URXE_CM_REJ_SENT, /* in the name of the dead, and again: nobody answers a REJ */
	URXE_CM_STATES
};

enum urxe_cm_event_type {
	URXE_CM_REQ_ERROR,	   /* no answer to the REQ; now IDLE */
	URXE_CM_REQ_RECEIVED,	   /* on a new identifier; now REQ_RCVD */
	URXE_CM_REP_ERROR,	   /* no answer to the REP; now TIMEWAIT */
	URXE_CM_REP_RECEIVED,	   /* now REP_RCVD: answer with RTU, MRA or REJ */
	URXE_CM_RTU_RECEIVED,	   /* now ESTABLISHED */
	URXE_CM_USER_ESTABLISHED,  /* after urxe_cm_notify_established(), in place of the above */
	URXE_CM_DREQ_ERROR,	   /* no answer to the DREQ; now TIMEWAIT */
	URXE_CM_DREQ_RECEIVED,	   /* now DREQ_RCVD: answer with DREP */
	URXE_CM_DREP_RECEIVED,	   /* now TIMEWAIT */
	URXE_CM_TIMEWAIT_EXIT,	   /* now IDLE: the QPN may be used again */
	URXE_CM_MRA_RECEIVED,	   /* the peer needs more time */
	URXE_CM_REJ_RECEIVED,	   /* now IDLE, or TIMEWAIT (TIMEWAIT_EXIT follows) */
	URXE_CM_SIDR_REQ_ERROR,	   /* no answer; now IDLE */
	URXE_CM_SIDR_REQ_RECEIVED, /* on a new identifier; now SIDR_REQ_RCVD */
	URXE_CM_SIDR_REP_RECEIVED, /* now IDLE */
};

/* The path of a connection, seen from this side. Its MADs take it too. */
struct urxe_cm_path {
	struct urxe_path av; /* src ours, dst the peer's */
	uint16_t pkey;
	uint8_t sl;
	uint8_t mtu;		  /* enum ibv_mtu */
	uint8_t rate;		  /* enum ibv_rate */
	uint8_t packet_life_time; /* 4.096 µs << n; 0 … 31 */
};

struct urxe_cm_event {
	enum urxe_cm_event_type type;
	/* NULL for events without a message, else valid during the call, as its private data is:
	 * all bytes that it has room for (URXE_CM_*_PRIVATE). */
	const struct urxe_cm_msg *msg;
	const uint8_t *private_data;
	uint8_t private_data_len;

	/* Of URXE_CM_REQ_RECEIVED and URXE_CM_SIDR_REQ_RECEIVED. */
	struct urxe_cm_path path; /* back to the sender; of SIDR only av and pkey */
	uint64_t service_id;
	enum ibv_qp_type qp_type;

	/* Of URXE_CM_REQ_RECEIVED and URXE_CM_REP_RECEIVED, from this side: responder_resources is
	 * what the peer's initiator depth asks of us. */
	uint32_t remote_qpn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
};

/*
 * Called for every event of an identifier. Returning non-zero has the manager destroy it, as
 * urxe_cm_id_destroy() would; a handler may also destroy its own identifier or any other, and then
 * returns 0. -ENOMEM out of REQ_RECEIVED destroys it without a REJ, so that the peer's next REQ
 * gets another chance.
 */
typedef int urxe_cm_handler(struct urxe_cm_id *id, const struct urxe_cm_event *event);

/*
 * What the survivors of a process need to end its connections: one for each from its REQ until it
 * is over. Free of pointers.
 *
 *	 0 path
 *	48 local_id     52 remote_id (0 in REQ_SENT)
 *	56 local_qpn    59 response_timeout    60 remote_qpn    63 retries
 *	64 pkey         66 state
 */
struct urxe_cm_record {
	struct urxe_path path;
	uint32_t local_id, remote_id;
	uint32_t local_qpn : 24;
	uint32_t response_timeout : 8; /* of a DREQ: 4.096 µs << n */
	uint32_t remote_qpn : 24;
	uint32_t retries : 8;
	uint16_t pkey;
	uint8_t state; /* REQ_SENT, REQ_RCVD, REP_SENT; ESTABLISHED for all that a DREQ ends */
	uint8_t zero[5];
};
_Static_assert(sizeof(struct urxe_cm_record) == 72, "shared between processes");

struct urxe_cm_ops {
	/* Sends a MAD; best effort. 0 or -errno. */
	int (*send)(struct urxe_cm *cm, const struct urxe_path *path, uint16_t pkey,
		    const uint8_t mad[URXE_MAD_SIZE]);
	/*
	 * The listener for a request of type URXE_CM_REQ_RECEIVED or URXE_CM_SIDR_REQ_RECEIVED, by
	 * its service ID, addresses and private data: the context of the identifier that comes of
	 * it, whose handler is request. NULL when there is none.
	 */
	void *(*listener)(struct urxe_cm *cm, const struct urxe_cm_event *event);
	urxe_cm_handler *request;
	/* May be NULL. Stores a record (again: a new state of it, when *row is not UINT32_MAX) and
	 * says where; forget drops it. */
	void (*record)(struct urxe_cm *cm, const struct urxe_cm_record *record, uint32_t *row);
	void (*forget)(struct urxe_cm *cm, uint32_t row);
};

struct urxe_cm_config {
	const struct urxe_cm_ops *ops;
	uint16_t slot;	      /* in the local communication IDs: urxe_comm_id_slot() */
	uint64_t now;	      /* CLOCK_MONOTONIC, ns */
	uint64_t seed[2];     /* random */
	unsigned max_pending; /* passive identifiers that are not established; 0: 16384 */
};

/* -ENOMEM. Destroying frees everything and sends nothing; records stay for the survivors. */
int urxe_cm_create(struct urxe_cm **cm, const struct urxe_cm_config *config);
void urxe_cm_destroy(struct urxe_cm *cm);

/* A MAD that arrived on QP 1: 256 bytes, and how the packet came that it was in. */
struct urxe_cm_rx {
	const uint8_t *mad;
	const struct urxe_path *path;
	uint32_t src_qpn;
	uint16_t pkey;
};

void urxe_cm_receive(struct urxe_cm *cm, const struct urxe_cm_rx *rx, uint64_t now);
/*
 * Is it a REJ (timeout), which names only its sender (12.6.7.2), about none of these identifiers?
 * Then it may be about another process's. To be asked before it is received.
 */
bool urxe_cm_is_others(struct urxe_cm *cm, const struct urxe_cm_rx *rx);
/* When urxe_cm_run() must next be called (UINT64_MAX: never), and what it does then: retries,
 * timeouts, ends of time-wait, events that wait. */
uint64_t urxe_cm_deadline(struct urxe_cm *cm);
void urxe_cm_run(struct urxe_cm *cm, uint64_t now);

/* -ENOMEM. */
int urxe_cm_id_create(struct urxe_cm *cm, urxe_cm_handler *handler, void *context,
		      struct urxe_cm_id **id);
/*
 * No more events. What the state demands is sent: REJ (timeout) for a REQ without answer, REJ
 * (consumer defined) before a connection is established and, should the peer have our REP already,
 * a DREQ when that might have been lost; DREQ after; DREP; or SIDR_REP (reject). The manager sees
 * the rest through by itself: retries of the DREQ, and time-wait.
 */
void urxe_cm_id_destroy(struct urxe_cm_id *id);
/* Hands an identifier to another handler. */
void urxe_cm_id_set(struct urxe_cm_id *id, urxe_cm_handler *handler, void *context);
void *urxe_cm_id_context(const struct urxe_cm_id *id);

/*
 * What the consumer sends. A message has its attr, the fields that are the consumer's, attr_mod (of
 * ECE) and private data; the rest is filled in: IDs, the GUID, and what follows from the path,
 * whose source is of port path->av.port.
 */

/* IDLE; RC, UC, XRC_SEND. -ENOMEM. A send that fails is as good as a lost message. */
int urxe_cm_send_req(struct urxe_cm_id *id, const struct urxe_cm_path *path, enum ibv_qp_type type,
		     struct urxe_cm_msg *req, uint64_t now);
/* REQ_RCVD, MRA_REQ_SENT. */
int urxe_cm_send_rep(struct urxe_cm_id *id, struct urxe_cm_msg *rep, uint64_t now);
/* REP_RCVD, MRA_REP_SENT. As in rdma_cm, only REQ, REP, REJ and SIDR messages have private data. */
int urxe_cm_send_rtu(struct urxe_cm_id *id);
/* ESTABLISHED. */
int urxe_cm_send_dreq(struct urxe_cm_id *id, uint64_t now);
/* DREQ_RCVD. */
int urxe_cm_send_drep(struct urxe_cm_id *id, uint64_t now);
/* From REQ_SENT to MRA_REP_RCVD. The identifier is IDLE then, or in TIMEWAIT after a REP. */
int urxe_cm_send_rej(struct urxe_cm_id *id, uint16_t reason, const void *private_data, uint8_t len,
		     uint64_t now);
/* REQ_RCVD, REP_RCVD: service_timeout is 4.096 µs << n. With URXE_CM_MRA_DELAY the MRA goes out
 * only in answer to a repeated message. */
#define URXE_CM_MRA_DELAY 0x80
int urxe_cm_send_mra(struct urxe_cm_id *id, uint8_t service_timeout);

/* IDLE. Sent max_cm_retries times more, each time after 4.096 µs << timeout. */
int urxe_cm_send_sidr_req(struct urxe_cm_id *id, const struct urxe_cm_path *path, uint8_t timeout,
			  uint8_t max_cm_retries, struct urxe_cm_msg *req, uint64_t now);
/* SIDR_REQ_RCVD; then IDLE. */
int urxe_cm_send_sidr_rep(struct urxe_cm_id *id, struct urxe_cm_msg *rep);

/*
 * The QP of this connection received something (IBV_EVENT_COMM_EST), so that the peer has sent its
 * RTU whether that came or not (12.9.7.2). REP_SENT, MRA_REP_RCVD; -EISCONN when ESTABLISHED. The
 * event comes with the next urxe_cm_run(), which is due at once.
 */
int urxe_cm_notify_established(struct urxe_cm_id *id, uint64_t now);

/*
 * The attributes for the QP's way to attr->qp_state (INIT, RTR, RTS), as ib_cm_init_qp_attr() of
 * the kernel gives them: *mask is set to those that are. -EINVAL for a state that does not have
 * them yet, or when our GID is gone.
 */
int urxe_cm_init_qp_attr(const struct urxe_cm_id *id, struct ibv_qp_attr *attr, int *mask);

/*
 * Ends a connection of a process that is gone, from its record, as if that process had destroyed
 * the identifier: REJ for a request or a reply; DREQ until DREP or the retries are spent. After a
 * few dozen DREQs leave at 20,000 in a second. The record is forgotten by the caller. -EEXIST,
 * -ENOMEM, -EINVAL for what is no record.
 */
int urxe_cm_adopt(struct urxe_cm *cm, const struct urxe_cm_record *record, uint64_t now);

struct urxe_cm_counts {
	unsigned ids;	     /* identifiers there are, also those nobody holds any more */
	unsigned pending;    /* passive and not established */
	unsigned unanswered; /* have sent a message that is repeated until it is answered */
	uint64_t malformed;  /* messages dropped: not well formed */
	uint64_t refused;    /* REQs beyond max_pending */
	uint64_t retries;    /* messages sent again for want of an answer */
	uint64_t duplicates; /* messages that came again */
};
void urxe_cm_counts(const struct urxe_cm *cm, struct urxe_cm_counts *counts);

#endif

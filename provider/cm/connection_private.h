/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the files of the communication manager share among themselves. Everything under the lock
 * that guards the manager.
 *
 *	connection.c		manager and identifiers: making, ending, timers, events
 *	connection_state.c	what entering a state implies; time-wait; records and their adoption
 *	connection_table.c	finding identifiers
 *	connection_send.c	what the consumer sends
 *	connection_receive.c	what arrives, and what it does in each state
 *	connection_request.c	REQs that arrive
 *	connection_qp.c		attributes for the QP
 *	sidr.c			service ID resolution
 *
 * An identifier whose consumer has let go of it (dead) lives on as long as it is not IDLE: until
 * its DREQ is answered and its time-wait is over.
 */
#ifndef URXE_CM_CONNECTION_PRIVATE_H
#define URXE_CM_CONNECTION_PRIVATE_H

#include <urcu/hlist.h>

#include "cm/connection.h"

/*
 * Timers of connections are seconds long and there may be tens of thousands: the wheel turns in
 * units of 64 ns, so that a slot is 8 ms and a turn 8.6 s. That is more than librdmacm's and the
 * kernel's 4.3 s for an answer, or each of these would be taken for due in the next slot.
 */
#define URXE_CM_TICK_SHIFT 6
/* Nobody waits longer than 68 s for one answer, whatever a peer asks for. */
#define URXE_CM_MAX_TIMEOUT 24
#define URXE_CM_MAX_PENDING 16384
/* As the device says of itself in local_ca_ack_delay. */
#define URXE_CM_ACK_DELAY 15
#define URXE_CM_NO_ROW	  UINT32_MAX

/* Tables of identifiers, by what they are found. */
enum urxe_cm_by { URXE_CM_BY_LOCAL, URXE_CM_BY_REMOTE, URXE_CM_BY_QPN, URXE_CM_TABLES };

struct urxe_cm_table {
	struct cds_hlist_head *buckets;
	unsigned size; /* a power of two */
	unsigned used;
};

struct urxe_cm {
	const struct urxe_cm_ops *ops;
	uint64_t key[2]; /* of the hashes */
	uint16_t slot;
	uint32_t next_id, scramble; /* the upper 24 bits of local communication IDs */
	uint64_t next_tid;
	unsigned max_pending;
	uint64_t now;
	uint64_t next_turn; /* of messages in the name of the dead */
	struct urxe_wheel wheel;
	struct urxe_cm_table tables[URXE_CM_TABLES];
	struct cds_list_head ids;     /* all */
	struct cds_list_head waiting; /* for their USER_ESTABLISHED */
	struct cds_list_head unarmed; /* with a timer to start when somebody says what time it is */
	struct urxe_cm_counts counts;
};

struct urxe_cm_id {
	struct urxe_cm *cm;
	urxe_cm_handler *handler;
	void *context;
	struct cds_list_head node;    /* in cm->ids */
	struct cds_list_head waiting; /* in cm->waiting or cm->unarmed, else empty */
	struct cds_hlist_node nodes[URXE_CM_TABLES];
	struct urxe_timer timer;
	struct urxe_cm_path path;
	uint64_t remote_ca_guid;
	uint64_t service_id;
	uint64_t tid;
	uint64_t timeout; /* of one try, ns */
	uint64_t delay;	  /* of the timer, while in cm->unarmed */
	uint8_t *mad;	  /* sent again until it is answered, else NULL */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint32_t sq_psn, rq_psn;
	uint32_t row; /* of its record */
	uint8_t state;
	uint8_t qp_type;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry_count;
	uint8_t ack_timeout;	 /* of the QP, and the length of time-wait: 4.096 µs << n */
	uint8_t service_timeout; /* of our MRA */
	uint8_t max_cm_retries, retries_left;
	bool entered[URXE_CM_TABLES];
	bool sidr;
	bool busy;    /* its handler is running */
	bool dead;    /* nobody holds it */
	bool quiet;   /* over for the consumer, which sees it in TIMEWAIT; not yet for the peer */
	bool adopted; /* has no record of its own */
	bool unsent;  /* mad has not been sent yet: the timer is for that */
};
_Static_assert(sizeof(struct urxe_cm_id) + URXE_MAD_SIZE <= 1024, "tens of thousands of them");

/* ns */
static inline uint64_t urxe_cm_time(unsigned exponent)
{
	return 4096ull << (exponent < URXE_CM_MAX_TIMEOUT ? exponent : URXE_CM_MAX_TIMEOUT);
}

/* connection.c */
/* local_id 0: a new one. */
struct urxe_cm_id *urxe_cm_id_new(struct urxe_cm *cm, uint32_t local_id);
void urxe_cm_id_free(struct urxe_cm_id *id);
/* now 0: nobody said; the delay begins at the next run, which is due at once. */
void urxe_cm_arm(struct urxe_cm_id *id, uint64_t now, uint64_t delay);
void urxe_cm_disarm(struct urxe_cm_id *id);
/* Reports to the consumer and does what it answers. The identifier may be gone afterwards. */
void urxe_cm_deliver(struct urxe_cm_id *id, const struct urxe_cm_event *event, uint64_t now);
struct urxe_cm_event urxe_cm_event_of(enum urxe_cm_event_type type, const struct urxe_cm_msg *msg);
/* The same for events without anything to them but a message (NULL: none). */
void urxe_cm_deliver_type(struct urxe_cm_id *id, enum urxe_cm_event_type type,
			  const struct urxe_cm_msg *msg, uint64_t now);

/* connection_table.c: entering takes the key from the identifier; removing one that is not there
 * does nothing. */
int urxe_cm_tables_create(struct urxe_cm *cm);
void urxe_cm_tables_destroy(struct urxe_cm *cm);
void urxe_cm_enter(struct urxe_cm_id *id, enum urxe_cm_by by);
void urxe_cm_remove(struct urxe_cm_id *id, enum urxe_cm_by by);
struct urxe_cm_id *urxe_cm_local_find(struct urxe_cm *cm, uint32_t local_id);
struct urxe_cm_id *urxe_cm_remote_find(struct urxe_cm *cm, bool sidr, uint32_t remote_id,
				       uint64_t guid, const struct urxe_link_addr *addr);
struct urxe_cm_id *urxe_cm_qpn_find(struct urxe_cm *cm, uint32_t qpn, uint64_t guid,
				    const struct urxe_link_addr *addr);

/* connection_state.c */
void urxe_cm_become(struct urxe_cm_id *id, enum urxe_cm_state state, uint64_t now);
/* All that a DREQ takes, in ESTABLISHED. */
void urxe_cm_disconnect(struct urxe_cm_id *id, uint64_t now);
/*
 * After a REJ of our own, which nobody acknowledges and which a peer that has our REP may miss: a
 * DREQ goes to such a peer, which is answered by the process that receives it.
 */
void urxe_cm_refused(struct urxe_cm_id *id, uint64_t now);

/* connection_send.c: messages about an identifier. Without memory they are as good as lost. */
/* Sends, and sends again until urxe_cm_become() ends it. -ENOMEM. */
int urxe_cm_start(struct urxe_cm_id *id, const struct urxe_cm_msg *msg, uint64_t now);
/* The same, but the first time is when the answer would be overdue. */
int urxe_cm_start_later(struct urxe_cm_id *id, const struct urxe_cm_msg *msg, uint64_t now);
/* Sends that once more. */
void urxe_cm_repeat(struct urxe_cm_id *id);
void urxe_cm_transmit(struct urxe_cm_id *id, const struct urxe_cm_msg *msg);
void urxe_cm_reply(struct urxe_cm *cm, const struct urxe_cm_rx *rx, const struct urxe_cm_msg *msg);
struct urxe_cm_msg urxe_cm_about_id(const struct urxe_cm_id *id, enum urxe_cm_attr attr);
/* Names both ends in a message of the consumer's. */
void urxe_cm_address(struct urxe_cm_msg *msg, const struct urxe_cm_id *id);
/* Begins with a request, in that state; IDLE without memory. */
int urxe_cm_begin(struct urxe_cm_id *id, enum urxe_cm_state state, struct urxe_cm_msg *req,
		  uint64_t now);
void urxe_cm_put_mra(struct urxe_cm_id *id);
/* RTU, DREP. */
void urxe_cm_put(struct urxe_cm_id *id, enum urxe_cm_attr attr);
/* As the state asks for it; the state does not change. */
void urxe_cm_put_rej(struct urxe_cm_id *id, uint16_t reason);
/* 12.7.34: from the delay of one adapter and the life of a packet. */
uint8_t urxe_cm_ack_timeout(uint8_t ack_delay, uint8_t packet_life_time);
/* The REJ of an identifier whose process has died: in REQ_SENT or REQ_RCVD. */
struct urxe_cm_msg urxe_cm_last_rej(const struct urxe_cm_id *id);

/* connection_request.c */
void urxe_cm_receive_req(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			 const struct urxe_cm_msg *msg, uint64_t now);
/* A REJ from no identifier, to the sender of msg. */
void urxe_cm_reply_rej(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
		       const struct urxe_cm_msg *msg, enum urxe_cm_about about, uint16_t reason);
/* A passive identifier for a request; NULL: there are too many. */
struct urxe_cm_id *urxe_cm_accept(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
				  const struct urxe_cm_msg *msg);
/* Enters it, and delivers its request to the listener. */
void urxe_cm_offer(struct urxe_cm_id *id, void *listener, enum urxe_cm_state state,
		   const struct urxe_cm_event *event, uint64_t now);

/* sidr.c */
void urxe_cm_put_sidr_reject(struct urxe_cm_id *id);
void urxe_cm_receive_sidr_req(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			      const struct urxe_cm_msg *msg, uint64_t now);
void urxe_cm_receive_sidr_rep(struct urxe_cm *cm, const struct urxe_cm_rx *rx,
			      const struct urxe_cm_msg *msg, uint64_t now);

#endif

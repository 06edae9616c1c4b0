/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The responder: responder.c (RC), responder_uc.c and responder_ud.c take request packets apart and
 * in order, responder_execute.c carries them out, responder_answer.c sends the answers. What the
 * requester and the engine ask of it comes last. Under the engine lock.
 */
#ifndef URXE_HCA_RESPONDER_H
#define URXE_HCA_RESPONDER_H

#include "hca/engine.h"

struct urxe_batch;

/* What became of a request packet. */
enum urxe_verdict {
	URXE_DONE,	  /* executed, or part of a message */
	URXE_DROP,	  /* silently */
	URXE_LOST,	  /* as if it had never come */
	URXE_RNR,	  /* no receive WR */
	URXE_INVALID,	  /* NAK: invalid request */
	URXE_ACCESS,	  /* NAK: remote access error */
	URXE_OPERATIONAL, /* NAK: remote operational error */
};

static inline struct urxe_response *urxe_response_at(const struct urxe_qp *qp, uint16_t index)
{
	return &qp->responses[index % qp->proto.response_size];
}

/* Are there answers to send for what has been carried out? */
static inline bool urxe_answers_wait(const struct urxe_qp *qp)
{
	return qp->proto.response_send != qp->proto.response_head;
}

/* The services' ways to take a request packet (transport.h). */
void urxe_rc_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_rx_packet *rx);
void urxe_uc_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_rx_packet *rx);
void urxe_ud_request(struct urxe_qp *qp, const struct urxe_packet *pkt,
		     const struct urxe_rx_packet *rx);

/* Does this packet continue what came before (9.7.4.1.2)? */
bool urxe_sequence_ok(const struct urxe_qp *qp, const struct urxe_packet *pkt);
/* Does the QP take such requests at all? */
bool urxe_permits(const struct urxe_qp *qp, const struct urxe_packet *pkt);
/* Executes a packet whose turn it is; psn is its first. */
enum urxe_verdict urxe_execute(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn);
/* Queues the data of a read, which may have been asked for before. */
enum urxe_verdict urxe_execute_read(struct urxe_qp *qp, const struct urxe_packet *pkt,
				    uint32_t psn);
/* Queues the result of an atomic that was executed now or before, if there is a place for it. */
void urxe_queue_atomic(struct urxe_qp *qp, const struct urxe_atomic_result *result, uint32_t msn);
/* Queues the answer to an ATOMIC WRITE, that of a read of nothing; false: there is no place. */
bool urxe_queue_done(struct urxe_qp *qp, uint32_t psn, uint32_t msn);

/* The receive WR of the message that comes in; false: there is none. */
bool urxe_recv_take(struct urxe_qp *qp);
/* Writes to its buffer; a status other than success is the local error that stops it. */
enum ibv_wc_status urxe_recv_data(struct urxe_qp *qp, const void *data, uint32_t len);
void urxe_recv_complete(struct urxe_qp *qp, struct urxe_cqe *cqe);
/* A local error of the receive side: a completion for the program, and a NAK for the peer. */
enum urxe_verdict urxe_recv_failed(struct urxe_qp *qp, enum ibv_wc_status status);

/*
 * An executed request: acknowledged if that was asked for. When a gap behind it was noticed in the
 * same turn, the report of that gap moves on to what is missing now, since what came after it was
 * dropped.
 */
void urxe_responder_executed(struct urxe_qp *qp, bool asks, uint32_t psn);

/* What was expected has been executed. */
static inline void urxe_responder_expect(struct urxe_qp *qp, uint32_t psn)
{
	qp->proto.epsn = psn;
	if (qp->shown_epsn)
		__atomic_store_n(qp->shown_epsn, psn, __ATOMIC_RELEASE);
}

/* Answers a request by a NAK, after which the QP is in error (9.9.3). */
void urxe_responder_refuse(struct urxe_qp *qp, enum urxe_verdict verdict, uint32_t psn);
/*
 * The memory of a repeated read is not to be had any more. A peer that has its data, and let its
 * program know, has gone beyond this PSN and takes no notice; for any other it is the end. The QP
 * goes on in either case.
 */
void urxe_responder_refuse_repeated(struct urxe_qp *qp, uint32_t psn);

/* Sends the answers that wait; false when the wire is full. */
bool urxe_responder_run(struct urxe_qp *qp);
/* Puts the acknowledgement, when it is the only answer, behind what the requester sends. It counts
 * as sent; when it was not, it is due again. */
bool urxe_responder_add_ack(struct urxe_qp *qp, struct urxe_batch *batch);
/* Is the acknowledgement the only answer, and may it go now? Its packet, which counts as sent. */
#define URXE_ACK_LEN (sizeof(struct urxe_bth) + sizeof(struct urxe_aeth))
bool urxe_responder_ack_alone(const struct urxe_qp *qp);
void urxe_responder_put_ack(struct urxe_qp *qp, uint8_t *to);
/* responder.c: acknowledges the last request unasked, if there can be one. */
void urxe_responder_acknowledge(struct urxe_qp *qp);
/* responder_short.c: a packet from the BTH on whose QP takes packets of that service and peer.
 * False: it is not that simple, and nothing was done. */
bool urxe_responder_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx);

#endif

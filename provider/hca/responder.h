/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Within the responder: responder.c takes request packets of each service apart and in order,
 * responder_execute.c carries them out, responder_answer.c sends what is owed for them. Under the
 * engine lock.
 */
#ifndef URXE_HCA_RESPONDER_H
#define URXE_HCA_RESPONDER_H

#include "hca/engine.h"

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
	return &qp->responses[index % qp->response_size];
}

/* Does the QP take such requests at all? */
bool urxe_permits(const struct urxe_qp *qp, const struct urxe_packet *pkt);
/* Executes a packet whose turn it is; psn is its first. */
enum urxe_verdict urxe_execute(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn);
/* Owes the data of a read, which may have been asked for before. */
enum urxe_verdict urxe_execute_read(struct urxe_qp *qp, const struct urxe_packet *pkt,
				    uint32_t psn);
/* Owes the result of an atomic that was executed now or before; false: there is no place for it. */
bool urxe_owe_atomic(struct urxe_qp *qp, const struct urxe_atomic_result *result);

/* The receive WR of the message that comes in; false: there is none. */
bool urxe_recv_take(struct urxe_qp *qp);
/* Writes to its buffer; a status other than success is the local error that stops it. */
enum ibv_wc_status urxe_recv_data(struct urxe_qp *qp, const void *data, uint32_t len);
void urxe_recv_complete(struct urxe_qp *qp, struct urxe_cqe *cqe);
/* A local error of the receive side: told to the program here, and to the peer by a NAK. */
enum urxe_verdict urxe_recv_failed(struct urxe_qp *qp, enum ibv_wc_status status);

/*
 * An executed request: acknowledged if that was asked for. When a gap behind it was noticed in the
 * same turn, the report of that gap moves on to what is missing now, since what came after it was
 * dropped.
 */
void urxe_responder_executed(struct urxe_qp *qp, bool asks, uint32_t psn);

/* Answers a request by a NAK, after which the QP is in error (9.9.3). */
void urxe_responder_refuse(struct urxe_qp *qp, enum urxe_verdict verdict, uint32_t psn);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A VI: two work queues, a QP, a state. State, QP and connection are guarded by the NIC's lock; the
 * work queues by the locks of their CQs, which are taken after it.
 */
#ifndef VIPL_VI_H
#define VIPL_VI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "vipl/queue.h"
#include "vipl/vi_state.h"

struct vipl_conn;
struct rdma_cm_id;

/* What stands before each message on devices without immediate data (iWARP). */
struct vipl_header {
	uint32_t flags; /* enum vipl_header_flags; all are big-endian */
	uint32_t immediate;
	uint32_t length; /* of the RDMA write that it tells of */
	uint32_t reserved;
};

enum vipl_header_flags {
	VIPL_HEADER_IMMEDIATE = 1,
	VIPL_HEADER_RDMA_WRITE = 2,
	VIPL_HEADER_GREETING = 4,
};

struct vipl_vi {
	struct vipl_queue sq __attribute__((aligned(64)));
	struct vipl_queue rq __attribute__((aligned(64)));

	/* What each message needs is a cache line. */
	void *handle __attribute__((aligned(64)));
	struct ibv_qp *qp;
	/* Of the receive queue, of the send queue, and of the greeting. NULL: none. */
	struct vipl_header *headers;
	unsigned max_inline;
	uint32_t headers_lkey;
	VIP_VI_ATTRIBUTES attributes;

	struct vipl_nic *_Atomic nic; /* who has a stale handle reads it as well */
	LIST_ENTRY(vipl_vi) link;
	struct vipl_ptag *ptag;
	struct vipl_domain *domain;
	VIP_VI_STATE state;
	bool prepared; /* it is beyond its first state */
	bool reliable;
	bool may_read;		/* its send queue may have RDMA reads */
	atomic_bool greeted;	/* the greeting has come */
	struct vipl_conn *conn; /* the connection, or the attempt at one */

	struct vipl_vi *broken_next; /* the list of a CQ, under its lock */
	atomic_bool broken;	     /* it is on one, or has been since it was connected */
	VIP_ERROR_CODE broken_code;
};

/* An event: the table's result, and the modes of the queues changed with the state. NIC's lock
 * held. */
VIP_RETURN vipl_vi_event(struct vipl_vi *vi, enum vipl_event event);

/* A QP for the next connection. -errno. */
int vipl_qp_create(struct vipl_vi *vi);
void vipl_qp_destroy(struct vipl_vi *vi);
/* The same, of a QP that it had. */
void vipl_qp_destroy_of(struct vipl_vi *vi, struct ibv_qp *qp);
/* To INIT, receives posted; then, unless the CM does it, to RTS. -errno. */
int vipl_qp_prepare(struct vipl_vi *vi, struct rdma_cm_id *id);
int vipl_qp_connect(struct vipl_vi *vi, struct rdma_cm_id *id);
/* The attempt has failed: takes the receives back. later: where a QP
 * goes that is destroyed later. */
void vipl_qp_abandon(struct vipl_vi *vi, struct ibv_qp **later);
/* Before the peer is told of the end. */
void vipl_qp_settle(struct vipl_vi *vi);
/* Ends the QP, with what it still has completed or flushed. */
void vipl_qp_finish(struct vipl_vi *vi);
/* To the error state, in which the device flushes. */
void vipl_qp_fail(struct vipl_vi *vi);

/* Marks a VI whose connection is to be broken, with the lock of the queue's CQ held. */
void vipl_vi_mark(struct vipl_queue *queue, VIP_ERROR_CODE code);
/* Breaks it: Error state, CONN_LOST, the peer is told. Takes the NIC's lock. */
void vipl_vi_break(struct vipl_vi *vi, VIP_ERROR_CODE code);
void vipl_vi_break_locked(struct vipl_vi *vi, enum vipl_event event, VIP_ERROR_CODE code);

/* Without regard to its state; NIC's lock held, no connection. */
void vipl_vi_free(struct vipl_vi *vi);

#endif

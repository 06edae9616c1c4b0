/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a QP is by the standard, apart from what binds it to this process (struct urxe_qp in hca.h:
 * locks, lists, clocks, the objects of the program). All of it is plain data without a pointer into
 * anything, so that copies of it elsewhere are the same QP:
 *
 *	struct urxe_qp_protocol		state, attributes, PSNs, credits, cursors
 *	qp->alternate			the path to migrate to, if one is loaded
 *	qp->rd_ends			rd_size PSNs
 *	qp->responses			response_size struct urxe_response
 *	qp->atomics			atomic_size struct urxe_atomic_result
 *	qp->recv_wqe			the receive WR of the message that comes in
 *	qp->tm				what that is to a tag matching SRQ, if it has one
 *	qp->sq.wqes, qp->rq.wqes	(mask + 1) WRs of stride bytes each, between tail and head
 *
 * Addresses in SGEs are the program's, keys and handles name their objects. Clocks are not part of
 * it: they begin anew where a QP goes on. Under the engine lock; state is read without it.
 */
#ifndef URXE_HCA_QP_PROTOCOL_H
#define URXE_HCA_QP_PROTOCOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#include "hca/transport.h"
#include "wire/opcode.h"
#include "wire/headers.h"
#include "wire/wire.h"

/* A receive WR: its SGEs follow. */
struct urxe_recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t length; /* sum of the SGEs */
	struct ibv_sge sge[];
};

/* A send WR that a tag matching SRQ has made (tag_matching.h). */
enum urxe_tm_send { URXE_TM_NO_SEND, URXE_TM_READ, URXE_TM_FIN };

/* A send WR in the queue. SGEs or inline data follow. */
struct urxe_send_wqe {
	uint64_t wr_id;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t flags;	/* enum ibv_send_flags */
	uint8_t num_sge;
	bool inlined;
	bool started;	 /* has PSNs. Engine. */
	bool done;	 /* read, atomic: data is here; local: executed. Engine. */
	bool by_packets; /* direct access was tried, in vain. Engine. */
	uint8_t error;	 /* enum ibv_wc_status to complete with. Engine. */
	uint8_t tm;	 /* enum urxe_tm_send */
	uint32_t length; /* bytes of payload (read: bytes to come) */
	uint32_t imm;	 /* immediate data, or R_Key to invalidate */
	uint32_t first_psn, last_psn;
	uint32_t acked; /* bytes of it acknowledged or received */
	union {
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
			uint32_t srqn; /* XRC: the SRQ that receives it, SENDs too */
		} rdma;
		struct {
			struct urxe_path path;
			uint32_t qpn;
			uint32_t qkey;
		} ud;
		/* By keys: window and region may be gone when it is executed. */
		struct {
			uint64_t addr;
			uint64_t length;
			unsigned access;
			uint32_t window; /* its handle */
			uint32_t region; /* L_Key; 0: none */
			uint32_t rkey;
		} bind;
	};
	struct ibv_sge sge[];
};

/* Does this operation wait for an answer of its own, and if so, with which data? */
static inline bool wr_is_read(uint8_t opcode)
{
	return opcode == IBV_WR_RDMA_READ;
}

static inline bool wr_is_atomic(uint8_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* One instruction for what is asked several times for each message. Opcodes of WRs
 * that were taken are below 32. */
static inline bool wr_is_answered(uint8_t opcode)
{
	const uint32_t answered = 1u << IBV_WR_RDMA_READ | 1u << IBV_WR_ATOMIC_CMP_AND_SWP |
				  1u << IBV_WR_ATOMIC_FETCH_AND_ADD | 1u << IBV_WR_ATOMIC_WRITE;

	return answered >> (opcode & 31) & 1;
}

static inline bool wr_is_local(uint8_t opcode)
{
	const uint32_t local = 1u << IBV_WR_BIND_MW | 1u << IBV_WR_LOCAL_INV;

	return local >> (opcode & 31) & 1;
}

/* Responses that wait to be sent, in PSN order: data of reads and results of atomics. */
struct urxe_response {
	union {
		uint64_t va;	   /* read: address as the requester names it */
		uint64_t original; /* atomic: value before */
	};
	uint32_t first_psn, last_psn;
	uint32_t next_psn; /* to be sent */
	uint32_t msn;
	uint32_t rkey, length; /* read */
	bool atomic;
	bool repeated; /* read: it was answered before, so its memory may be gone */
};

/* The result of an atomic, kept in case its answer is lost. */
struct urxe_atomic_result {
	bool valid;
	uint32_t psn;
	uint64_t original;
};

/* What a message to a tag matching SRQ is. */
enum urxe_tm_kind {
	URXE_TM_NONE, /* none is being received, or not to such an SRQ */
	URXE_TM_NO_TAG,
	URXE_TM_UNEXPECTED,
	URXE_TM_EAGER,
	URXE_TM_RNDV,
	URXE_TM_TOO_LONG, /* a rendezvous whose buffer is too short */
};

/* The one that a QP is receiving. */
struct urxe_tm_message {
	enum urxe_tm_kind kind;
	bool whole; /* in one packet */
	uint32_t priv, rkey, length;
	uint64_t tag, va;
};

struct urxe_qp_protocol {
	uint32_t qpn;
	uint32_t source_qpn; /* what a UD QP's packets say: its own, or another's */
	_Atomic int state;   /* enum ibv_qp_state; written under the engine lock */
	struct ibv_qp_attr attr;
	struct urxe_path path;
	uint8_t migreq;	       /* URXE_BTH_MIGREQ, or 0: of its packets (path_migration.h) */
	bool migration_failed; /* since its migration state last changed, and that was reported */
	uint32_t mtu;
	uint64_t timeout; /* ns; 0: none */

	/* Requester. */
	uint32_t psn;	  /* next to send */
	uint32_t offset;  /* bytes of wqe sq.send already sent */
	uint32_t max_psn; /* one past the highest ever sent: below it, a retry */
	/* Reads and atomics not yet answered: rd_ends has the last PSN of each, oldest first (a
	 * ring). */
	uint32_t rd_size, rd_first, rd_count;
	bool sqd_notified;

	/* Completer. */
	bool resent; /* for a missing answer, when una was resent_una */
	uint32_t resent_una;
	uint32_t una;	 /* oldest PSN not acknowledged */
	uint8_t retries; /* left */
	uint8_t rnr_retries;

	/* Responder. */
	uint32_t epsn; /* expected */
	uint32_t msn;
	enum urxe_opcode last_opcode; /* of the message being received; URXE_NUM_OPCODES: none */
	bool nak_sent;		      /* the sequence error was reported */
	bool established;	      /* a request came before RTS, and that was reported */
	bool drop_message;	      /* UC: until the next first packet */
	bool uc_received;
	bool ack_due;
	uint8_t ack_syndrome; /* to be sent with ack_due */
	uint32_t ack_psn;
	bool recv_busy; /* recv_wqe holds one */
	bool last_wqe_event;
	uint32_t recv_offset; /* bytes received of the message */
	struct {
		uint64_t va; /* next address, as the requester names it */
		uint32_t rkey;
		uint32_t left;
		uint32_t total;
	} write;
	uint32_t executed_psn; /* of the last SEND or WRITE packet executed */
	/* Responses that wait: a ring, [response_send, response_head), whose size is a power of
	 * two. */
	uint16_t response_size;
	uint16_t response_head;
	uint16_t response_send;
	/* Results of the latest atomics, as many as the peer may have outstanding. */
	uint32_t atomic_size, atomic_next;
};

#endif

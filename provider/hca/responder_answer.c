/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The answers of the responder (IBTA vol. 1, 9.7.5): the data of reads and the results of atomics
 * leave in PSN order, with one acknowledgement before or behind them. Under the engine lock.
 */
#include <string.h>

#include "hca/batch.h"
#include "hca/completer.h"
#include "hca/memory.h"
#include "hca/responder.h"

#define FULL_RETRY_NS 200000 /* when the socket was full */

static void put_answer(struct urxe_qp *qp, struct urxe_tx_packet *pkt, enum urxe_opcode opcode,
		       uint32_t payload, uint32_t psn)
{
	urxe_bth_fill((struct urxe_bth *)pkt->header, opcode + qp->transport->service,
		      qp->proto.migreq, urxe_pad_of(payload), urxe_qp_pkey(qp),
		      qp->proto.attr.dest_qp_num, false, psn);
	pkt->header_len = sizeof(struct urxe_bth);
}

static void put_aeth(struct urxe_tx_packet *pkt, uint8_t syndrome, uint32_t msn)
{
	urxe_aeth_fill((struct urxe_aeth *)(pkt->header + pkt->header_len), syndrome, msn);
	pkt->header_len += sizeof(struct urxe_aeth);
}

static void build_atomic_answer(struct urxe_qp *qp, struct urxe_response *resp,
				struct urxe_tx_packet *pkt)
{
	put_answer(qp, pkt, URXE_RC_ATOMIC_ACKNOWLEDGE, 0, resp->first_psn);
	put_aeth(pkt, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, resp->msn);
	urxe_atomic_ack_fill((struct urxe_atomic_ack_eth *)(pkt->header + pkt->header_len),
			     resp->original);
	pkt->header_len += sizeof(struct urxe_atomic_ack_eth);
}

/*
 * The data of a read. From a copy where the program may write to the memory before the packet has
 * left, because the ICRC must fit what is sent. A read that was answered before may be over for
 * both programs, and its memory unmapped.
 */
static bool put_data(const struct urxe_qp *qp, const struct urxe_response *resp,
		     struct urxe_batch *batch, uint64_t va, uint32_t len)
{
	if (resp->repeated)
		return urxe_batch_stage_checked(batch, va, len);
	*urxe_batch_iov(batch) = (struct iovec){(void *)(uintptr_t)va, len};
	if (qp->near)
		urxe_batch_payload(batch, 1, len);
	else
		urxe_batch_stage(batch, 1, len);
	return true;
}

/* The next packet of a read's data; false when the memory is no longer readable. */
static bool build_read_answer(struct urxe_qp *qp, struct urxe_response *resp,
			      struct urxe_batch *batch, struct urxe_tx_packet *pkt)
{
	static const uint8_t opcodes[] = {URXE_RC_READ_RESPONSE_MIDDLE, URXE_RC_READ_RESPONSE_FIRST,
					  URXE_RC_READ_RESPONSE_LAST, URXE_RC_READ_RESPONSE_ONLY};
	uint32_t offset = (uint32_t)urxe_psn_diff(resp->next_psn, resp->first_psn) * qp->proto.mtu;
	uint32_t most = qp->near && !resp->repeated ? URXE_MAX_RUN : qp->proto.mtu;
	uint32_t left = resp->length - offset, len = left < most ? left : most;
	bool first = offset == 0, last = len == left;
	uint64_t va;

	if (len &&
	    !urxe_reach(qp, resp->rkey, resp->va + offset, len, RMEMPOOL_REMOTE_READ, true, &va))
		return false;
	put_answer(qp, pkt, opcodes[first | last << 1], len, resp->next_psn);
	if (first || last)
		put_aeth(pkt, URXE_AETH_ACK | URXE_AETH_CREDIT_NONE, resp->msn);
	if (len)
		pkt->span = urxe_packets_of(qp, len);
	return !len || put_data(qp, resp, batch, va, len);
}

/* So many PSNs of the oldest answer are built, or sent. */
static void advance(struct urxe_qp *qp, unsigned span)
{
	struct urxe_response *resp = urxe_response_at(qp, qp->proto.response_send);

	resp->next_psn = urxe_psn_add(resp->next_psn, span);
	if (urxe_psn_diff(resp->next_psn, resp->last_psn) > 0)
		qp->proto.response_send++;
}

/* Fills the batch with answers; false when the memory of a read is gone. */
static bool build_answers(struct urxe_qp *qp, struct urxe_batch *batch)
{
	while (urxe_answers_wait(qp)) {
		struct urxe_response *resp = urxe_response_at(qp, qp->proto.response_send);
		struct urxe_tx_packet *pkt = urxe_batch_add(batch);

		if (!pkt)
			return true;
		if (resp->atomic) {
			build_atomic_answer(qp, resp, pkt);
		} else if (!build_read_answer(qp, resp, batch, pkt)) {
			urxe_batch_undo(batch);
			return false;
		}
		advance(qp, pkt->span);
	}
	return true;
}

void urxe_responder_put_ack(struct urxe_qp *qp, uint8_t *to)
{
	urxe_bth_fill((struct urxe_bth *)to, URXE_RC_ACKNOWLEDGE + qp->transport->service,
		      qp->proto.migreq, 0, urxe_qp_pkey(qp), qp->proto.attr.dest_qp_num, false,
		      qp->proto.ack_psn);
	urxe_aeth_fill((struct urxe_aeth *)(to + sizeof(struct urxe_bth)), qp->proto.ack_syndrome,
		       qp->proto.msn);
	qp->proto.ack_due = false;
}

static void build_ack(struct urxe_qp *qp, struct urxe_batch *batch)
{
	struct urxe_tx_packet *pkt = urxe_batch_add(batch);

	if (!pkt)
		return;
	urxe_responder_put_ack(qp, pkt->header);
	pkt->header_len = URXE_ACK_LEN;
}

/* Is the acknowledgement for something that came before the answers that wait? */
static bool ack_comes_first(const struct urxe_qp *qp)
{
	return qp->proto.ack_due &&
	       (!urxe_answers_wait(qp) ||
		urxe_psn_diff(qp->proto.ack_psn,
			      urxe_response_at(qp, qp->proto.response_send)->next_psn) < 0);
}

/* What waits before answers are built: only what has left waits no more. */
struct unsent {
	uint16_t send;	   /* cursor of the ring */
	uint32_t next_psn; /* of the response there */
	bool ack_due;
};

/* The first n of the answers that were built have left, the socket was full for the others. */
static void queue_again(struct urxe_qp *qp, const struct unsent *before, bool ack_first, unsigned n)
{
	uint16_t i = before->send;

	for (; i != qp->proto.response_send; i++)
		urxe_response_at(qp, i)->next_psn = urxe_response_at(qp, i)->first_psn;
	if (i != qp->proto.response_head && i != before->send)
		urxe_response_at(qp, i)->next_psn = urxe_response_at(qp, i)->first_psn;
	qp->proto.response_send = i = before->send;
	if (i != qp->proto.response_head)
		urxe_response_at(qp, i)->next_psn = before->next_psn;
	qp->proto.ack_due = before->ack_due && !(ack_first && n);
	for (unsigned k = ack_first; k < n; k++)
		advance(qp, urxe_hca.tx[k].span);
	urxe_engine_full(qp, &qp->proto.path, qp->proto.attr.dest_qp_num);
	qp->answer_at = urxe_now() + FULL_RETRY_NS;
	urxe_completer_arm_answers(qp);
}

/* The memory of the oldest answer is not there: it comes behind those in the batch. */
static void refuse_answer(struct urxe_qp *qp, struct urxe_batch *batch)
{
	const struct urxe_response *resp = urxe_response_at(qp, qp->proto.response_send);
	bool repeated = resp->repeated;
	uint32_t psn = resp->next_psn;

	if (repeated) {
		qp->proto.response_send++;
	} else {
		qp->proto.response_send = qp->proto.response_head;
		qp->proto.ack_due = false;
	}
	urxe_batch_send(batch);
	if (repeated)
		urxe_responder_refuse_repeated(qp, psn);
	else
		urxe_responder_refuse(qp, URXE_ACCESS, psn);
}

bool urxe_responder_ack_alone(const struct urxe_qp *qp)
{
	return qp->proto.ack_due && !urxe_answers_wait(qp) && !qp->answer_at;
}

bool urxe_responder_add_ack(struct urxe_qp *qp, struct urxe_batch *batch)
{
	if (!urxe_responder_ack_alone(qp))
		return false;
	build_ack(qp, batch);
	return !qp->proto.ack_due;
}

bool urxe_responder_run(struct urxe_qp *qp)
{
	struct unsent before = {.send = qp->proto.response_send, .ack_due = qp->proto.ack_due};
	struct urxe_batch batch;
	bool ack_first;
	unsigned n, sent;

	if (!qp->proto.ack_due && !urxe_answers_wait(qp))
		return true;
	if (qp->answer_at)
		return false;
	urxe_engine_look_near(qp);
	if (urxe_answers_wait(qp))
		before.next_psn = urxe_response_at(qp, qp->proto.response_send)->next_psn;
	urxe_batch_begin(&batch, &qp->proto.path);
	ack_first = ack_comes_first(qp);
	if (ack_first)
		build_ack(qp, &batch);
	if (!build_answers(qp, &batch)) {
		refuse_answer(qp, &batch);
		return false;
	}
	if (qp->proto.ack_due && !urxe_answers_wait(qp))
		build_ack(qp, &batch);
	n = batch.n;
	sent = urxe_batch_send(&batch);
	if (sent < n) {
		queue_again(qp, &before, ack_first, sent);
		return false;
	}
	if (qp->proto.ack_due || urxe_answers_wait(qp))
		urxe_engine_ready(qp);
	return true;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The completer (IBTA vol. 1, 9.7.5 to 9.7.7): takes acknowledgements and the data of reads and
 * atomics, completes send WRs in order, and decides when to send again. Under the engine lock.
 *
 * Three clocks run while packets are unacknowledged:
 *   probe     a few round trips without progress: something at the end of a burst was lost, with
 *             nothing behind it that would have made the responder say so. Resends, on our own
 *             account: it costs no retry. Doubles each time.
 *   timeout   the QP's own (4.096 µs * 2^timeout). Costs a retry, unless a neighbour could not run; the
 *             last one ends the QP.
 *   RNR       the responder asked to wait; nothing is sent before.
 */
#include <string.h>

#include "hca/completer.h"
#include "hca/engine.h"
#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "hca/path_migration.h"
#include "hca/peer.h"
#include "hca/requester.h"
#include "hca/tag_matching.h"
#include "host/log.h"
#include "host/sysinfo.h"

#define PROBE_MIN     4000000ull /* ns */
#define PROBE_MAX     1000000000ull
#define PROBE_UNKNOWN 20000000ull /* before the first round trip was measured */
#define NEAR_MOST     5000000000ull
#define CHANCE	      1000000ull
#define RNR_INFINITE  7

/* Table 46 of the standard: RNR timer codes in units of 10 µs. */
static const uint32_t rnr_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static enum ibv_wc_opcode wc_opcode(uint8_t op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
	case IBV_WR_ATOMIC_WRITE: return IBV_WC_ATOMIC_WRITE;
	case IBV_WR_BIND_MW: return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV: return IBV_WC_LOCAL_INV;
	default: return IBV_WC_SEND;
	}
}

/* A WR that a tag matching SRQ has made. */
static __attribute__((noinline)) void
complete_tm(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, enum ibv_wc_status status)
{
	struct urxe_send_wqe done = *wqe;

	atomic_store_explicit(&qp->sq.tail, atomic_load(&qp->sq.tail) + 1, memory_order_release);
	urxe_tm_sent(qp, &done, status);
}

/* Reports the WR at the tail of the send queue and frees its place. */
static __attribute__((noinline)) void report(struct urxe_qp *qp, const struct urxe_send_wqe *wqe,
					     enum ibv_wc_status status, enum ibv_wc_opcode opcode)
{
	uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
	struct urxe_cqe *cqe = urxe_cq_claim(qp->scq, qp);

	if (cqe) {
		urxe_cqe_clear(cqe);
		cqe->wr_id = wqe->wr_id;
		cqe->status = status;
		cqe->opcode = opcode;
		cqe->byte_len = wqe->length;
		cqe->qp_num = qp->proto.qpn;
	}
	/* Before the program sees the completion, and can count on the place. */
	atomic_store_explicit(&qp->sq.tail, tail + 1, memory_order_release);
	if (cqe)
		urxe_cq_push(qp->scq, cqe);
}

/* The same, if it wants to be reported, or failed. */
void urxe_complete_send(struct urxe_qp *qp, struct urxe_send_wqe *wqe, enum ibv_wc_status status)
{
	uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
	enum ibv_wc_opcode opcode = wc_opcode(wqe->opcode);

	if (wqe->tm) {
		complete_tm(qp, wqe, status);
		return;
	}
	if (status == IBV_WC_SUCCESS && opcode == IBV_WC_SEND)
		urxe_count(qp->port, URXE_CNT_RDMA_SEND);
	if (status != IBV_WC_SUCCESS || qp->sq_sig_all || (wqe->flags & IBV_SEND_SIGNALED))
		report(qp, wqe, status, opcode);
	else
		atomic_store_explicit(&qp->sq.tail, tail + 1, memory_order_release);
}

static bool wqe_finished(const struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	if (wqe->done)
		return true;
	if (!qp->transport->reliable || wr_is_answered(wqe->opcode) || wr_is_local(wqe->opcode))
		return false;
	return urxe_psn_diff(qp->proto.una, wqe->last_psn) > 0;
}

/* A send queue in error: RC's QP fails; UC's and UD's send queue alone stops (SQE). */
static void fail_send(struct urxe_qp *qp, struct urxe_send_wqe *wqe, enum ibv_wc_status status)
{
	urxe_log(URXE_LOG_DEBUG, "QP 0x%06x: work request %u, PSN 0x%06x: completion status %d",
		 qp->proto.qpn, wqe->opcode, wqe->first_psn, status);
	urxe_complete_send(qp, wqe, status);
	if (qp->transport->reliable) {
		urxe_qp_fail(qp, 0);
		return;
	}
	atomic_store(&qp->proto.state, IBV_QPS_SQE);
	urxe_qp_flush(qp);
}

static void check_drained(struct urxe_qp *qp)
{
	uint32_t tail = atomic_load(&qp->sq.tail);

	if (atomic_load(&qp->proto.state) != IBV_QPS_SQD || qp->proto.sqd_notified)
		return;
	if (tail != qp->sq.send ||
	    (tail != atomic_load(&qp->sq.head) && sq_wqe(&qp->sq, tail)->started))
		return;
	qp->proto.sqd_notified = true;
	if (qp->proto.attr.en_sqd_async_notify)
		urxe_event_qp(qp, IBV_EVENT_SQ_DRAINED);
}

/* Completes what is finished, in the order of posting. */
void urxe_completer_retire(struct urxe_qp *qp)
{
	for (;;) {
		uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
		struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, tail);

		if (tail == atomic_load(&qp->sq.head) || !wqe->started)
			break;
		if (wqe->error) {
			fail_send(qp, wqe, wqe->error);
			return;
		}
		if (!wqe_finished(qp, wqe))
			break;
		/* Acknowledged while a retry had moved the cursor back to it. */
		if (tail == qp->sq.send) {
			qp->sq.send = tail + 1;
			qp->proto.offset = 0;
		}
		urxe_complete_send(qp, wqe, IBV_WC_SUCCESS);
	}
	check_drained(qp);
}

static void progressed(struct urxe_qp *qp)
{
	qp->progress_at = urxe_hca.now;
	qp->probes = 0;
	qp->proto.retries = qp->proto.attr.retry_cnt;
	qp->proto.rnr_retries = qp->proto.attr.rnr_retry;
}

static void measure_rtt(struct urxe_qp *qp, uint32_t psn)
{
	uint64_t rtt;

	if (!qp->rtt_start || urxe_psn_diff(psn, qp->rtt_psn) < 0)
		return;
	rtt = urxe_hca.now - qp->rtt_start;
	qp->rtt_start = 0;
	qp->peer->rtt = qp->peer->rtt ? (qp->peer->rtt * 7 + rtt) / 8 : rtt;
}

/* Bytes of the window that an acknowledged part of a WR gives back. */
static uint64_t credit(struct urxe_qp *qp, struct urxe_send_wqe *wqe, uint32_t upto)
{
	uint32_t packets = urxe_psn_diff(upto, wqe->first_psn);
	uint64_t bytes = (uint64_t)packets * qp->proto.mtu, back;

	if (bytes > wqe->length)
		bytes = wqe->length;
	bytes += (uint64_t)packets * 64;
	back = bytes > wqe->acked ? bytes - wqe->acked : 0;
	wqe->acked = bytes;
	return back;
}

/*
 * Everything before psn has arrived, except the answers to reads and atomics, which must come
 * themselves. Returns how far that is true: psn, or the first PSN whose answer is missing.
 */
static uint32_t acknowledge(struct urxe_qp *qp, uint32_t psn)
{
	uint32_t head = atomic_load(&qp->sq.head), reached = qp->proto.una;
	uint64_t bytes = 0;

	for (uint32_t i = atomic_load(&qp->sq.tail); i != head; i++) {
		struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, i);

		if (!wqe->started || wqe->error)
			break;
		if (wr_is_local(wqe->opcode) || wqe->done)
			continue;
		if (urxe_psn_diff(wqe->first_psn, psn) >= 0)
			break;
		if (wr_is_answered(wqe->opcode)) {
			/* Its own data has brought una to where it is. */
			if (urxe_psn_diff(wqe->first_psn, reached) > 0)
				reached = wqe->first_psn;
			break;
		}
		reached = urxe_psn_diff(psn, wqe->last_psn) > 0 ? urxe_psn_add(wqe->last_psn, 1)
								: psn;
		bytes += credit(qp, wqe, reached);
	}
	if (urxe_psn_diff(reached, qp->proto.una) > 0) {
		measure_rtt(qp, urxe_psn_add(reached, -1));
		qp->proto.una = reached;
		progressed(qp);
		urxe_peer_acked(qp, bytes);
	}
	return reached;
}

/* After una moved: the cursor may have been left behind it by a retry. */
static void catch_up(struct urxe_qp *qp)
{
	if (urxe_psn_diff(qp->proto.una, qp->proto.psn) > 0)
		urxe_requester_rewind(qp, qp->proto.una);
	urxe_completer_retire(qp);
	urxe_set_flying(qp, qp->proto.una != qp->proto.psn);
	if (urxe_requester_has_work(qp))
		urxe_engine_ready(qp);
}

static void resend(struct urxe_qp *qp, bool timeout)
{
	urxe_count(qp->port, URXE_CNT_COMP_RETRY);
	urxe_peer_lost(qp, timeout);
	urxe_requester_rewind(qp, qp->proto.una);
	urxe_engine_ready(qp);
}

void urxe_completer_restart(struct urxe_qp *qp)
{
	urxe_requester_start_clocks(qp);
	qp->timeout_at = 0;
	qp->proto.retries = qp->proto.attr.retry_cnt;
	if (!qp->transport->reliable || qp->proto.una == qp->proto.max_psn)
		return;
	urxe_requester_rewind(qp, qp->proto.una);
	urxe_engine_ready(qp);
	urxe_completer_arm(qp);
}

/* An answer is missing: asks again, once until there is progress; after that it is the clocks'. */
static void resend_once(struct urxe_qp *qp)
{
	if (qp->proto.resent && qp->proto.resent_una == qp->proto.una)
		return;
	qp->proto.resent = true;
	qp->proto.resent_una = qp->proto.una;
	resend(qp, false);
}

/* Fails the WR that a NAK names; with answers outstanding before it, the oldest of them. */
static void fail_oldest(struct urxe_qp *qp, enum ibv_wc_status status)
{
	uint32_t tail = atomic_load(&qp->sq.tail);

	urxe_completer_retire(qp);
	tail = atomic_load(&qp->sq.tail);
	if (tail == atomic_load(&qp->sq.head) || atomic_load(&qp->proto.state) == IBV_QPS_ERR)
		return;
	fail_send(qp, sq_wqe(&qp->sq, tail), status);
}

static void on_rnr_nak(struct urxe_qp *qp, uint8_t syndrome, uint32_t psn)
{
	urxe_count(qp->port, URXE_CNT_RCV_RNR);
	/* Said again while we wait: the packet that it answers was sent before the wait. Not so
	 * when it was for room that we wait. */
	if (qp->rnr_until && !qp->full_wait)
		return;
	acknowledge(qp, psn);
	if (qp->proto.una != psn) {
		resend(qp, false);
		return;
	}
	if (qp->proto.attr.rnr_retry != RNR_INFINITE && qp->proto.rnr_retries-- == 0) {
		urxe_count(qp->port, URXE_CNT_RNR_RETRY_EXCEEDED);
		fail_oldest(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	urxe_requester_rewind(qp, psn);
	urxe_completer_retire(qp);
	qp->full_wait = false;
	qp->rnr_until = urxe_hca.now + rnr_10us[urxe_aeth_value(syndrome)] * 10000ull;
	urxe_completer_arm(qp);
}

static void on_nak(struct urxe_qp *qp, uint8_t syndrome, uint32_t psn)
{
	acknowledge(qp, psn);
	switch (urxe_aeth_value(syndrome)) {
	case URXE_NAK_PSN_SEQUENCE:
		urxe_count(qp->port, URXE_CNT_RCV_SEQ_ERR);
		urxe_completer_retire(qp);
		resend(qp, false);
		break;
	case URXE_NAK_INVALID_REQUEST: fail_oldest(qp, IBV_WC_REM_INV_REQ_ERR); break;
	case URXE_NAK_REMOTE_ACCESS: fail_oldest(qp, IBV_WC_REM_ACCESS_ERR); break;
	case URXE_NAK_REMOTE_OPERATIONAL: fail_oldest(qp, IBV_WC_REM_OP_ERR); break;
	default: fail_oldest(qp, IBV_WC_REM_INV_RD_REQ_ERR); break;
	}
}

static void on_acknowledge(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	uint8_t syndrome = urxe_aeth_syndrome(pkt->aeth);
	uint32_t next = urxe_psn_add(psn, 1);

	switch (urxe_aeth_kind(syndrome)) {
	case URXE_AETH_ACK:
		if (urxe_psn_diff(psn, qp->proto.una) < 0)
			return;
		/* An answer before it is missing: an implied NAK (9.7.5.2.8), once per round. */
		if (acknowledge(qp, next) != next)
			resend_once(qp);
		catch_up(qp);
		break;
	case URXE_AETH_RNR_NAK:
		if (urxe_psn_diff(psn, qp->proto.una) >= 0)
			on_rnr_nak(qp, syndrome, psn);
		break;
	case URXE_AETH_NAK:
		if (urxe_psn_diff(psn, qp->proto.una) >= 0)
			on_nak(qp, syndrome, psn);
		break;
	}
}

bool urxe_completer_short(struct urxe_qp *qp, uint32_t psn)
{
	uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
	struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, tail);

	if (!qp->near || atomic_load_explicit(&qp->sq.send, memory_order_relaxed) - tail != 1 ||
	    wqe->last_psn != psn || wqe->error || wqe->done || wr_is_answered(wqe->opcode) ||
	    qp->proto.psn != urxe_psn_add(psn, 1) || qp->proto.psn != qp->proto.max_psn)
		return false;
	measure_rtt(qp, psn);
	qp->proto.una = qp->proto.psn;
	progressed(qp);
	urxe_complete_send(qp, wqe, IBV_WC_SUCCESS);
	urxe_set_flying(qp, false);
	if (urxe_requester_has_work(qp))
		urxe_engine_ready(qp);
	return true;
}

/* Puts data at an offset of a read's buffer; false when the memory is no longer ours. */
static bool scatter(struct urxe_qp *qp, struct urxe_send_wqe *wqe, uint32_t offset,
		    const void *data, uint32_t len)
{
	const uint8_t *from = data;
	struct iovec iov[URXE_MAX_SGE];
	int n = urxe_gather(qp, wqe, offset, len, RMEMPOOL_LOCAL_WRITE, iov);

	for (int i = 0; i < n; i++) {
		urxe_copy_visible(iov[i].iov_base, from, iov[i].iov_len);
		from += iov[i].iov_len;
	}
	return n >= 0 && !urxe_memory_lost();
}

/* The oldest WR that still waits for its data, if it is the one that owns this PSN. */
static struct urxe_send_wqe *awaited(struct urxe_qp *qp, uint32_t psn)
{
	uint32_t head = atomic_load(&qp->sq.head);

	for (uint32_t i = atomic_load(&qp->sq.tail); i != head; i++) {
		struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, i);

		if (!wqe->started || wqe->error)
			return NULL;
		if (wqe->done || !wr_is_answered(wqe->opcode))
			continue;
		if (urxe_psn_diff(psn, wqe->first_psn) < 0 || urxe_psn_diff(psn, wqe->last_psn) > 0)
			return NULL;
		return wqe;
	}
	return NULL;
}

static void answered(struct urxe_qp *qp, struct urxe_send_wqe *wqe, uint32_t psn)
{
	uint32_t next = urxe_psn_add(psn, 1);
	uint64_t bytes = credit(qp, wqe, next);

	measure_rtt(qp, psn);
	qp->proto.una = next;
	wqe->done = psn == wqe->last_psn;
	progressed(qp);
	while (qp->proto.rd_count && urxe_psn_diff(qp->rd_ends[qp->proto.rd_first], psn) <= 0) {
		qp->proto.rd_first = (qp->proto.rd_first + 1) % qp->proto.rd_size;
		qp->proto.rd_count--;
	}
	urxe_peer_acked(qp, bytes);
	catch_up(qp);
}

static void on_answer(struct urxe_qp *qp, const struct urxe_packet *pkt, uint32_t psn)
{
	struct urxe_send_wqe *wqe;
	uint32_t offset, expected, last = urxe_psn_add(psn, pkt->span - 1), skip = 0;

	if (urxe_psn_diff(last, qp->proto.una) < 0)
		return;
	/* A run of which a part has come before. */
	if (urxe_psn_diff(psn, qp->proto.una) < 0) {
		skip = (uint32_t)urxe_psn_diff(qp->proto.una, psn) * qp->proto.mtu;
		psn = qp->proto.una;
	}
	if (acknowledge(qp, psn) != psn) {
		/* An earlier answer was lost; ask again, but once for all that follow it. */
		resend_once(qp);
		catch_up(qp);
		return;
	}
	wqe = awaited(qp, psn);
	if (!wqe)
		return;
	if (wr_is_atomic(wqe->opcode)) {
		uint64_t original;

		if (!urxe_op_any(pkt->mask, URXE_OP_ATOMIC_ACK))
			return;
		original = be64toh(pkt->atomic_ack->original);
		if (!scatter(qp, wqe, 0, &original, sizeof(original)))
			wqe->error = IBV_WC_LOC_PROT_ERR;
		answered(qp, wqe, psn);
		return;
	}
	if (!urxe_op_any(pkt->mask, URXE_OP_READ_RESP))
		return;
	if (urxe_psn_diff(last, wqe->last_psn) > 0)
		return;
	offset = (uint32_t)urxe_psn_diff(psn, wqe->first_psn) * qp->proto.mtu;
	expected = (uint32_t)(urxe_psn_diff(last, psn) + 1) * qp->proto.mtu;
	if (expected > wqe->length - offset)
		expected = wqe->length - offset;
	if (!wr_is_read(wqe->opcode))
		expected = 0;
	if (pkt->refs || pkt->payload_len != skip + expected)
		wqe->error = IBV_WC_BAD_RESP_ERR;
	else if (!scatter(qp, wqe, offset, pkt->payload + skip, expected))
		wqe->error = IBV_WC_LOC_PROT_ERR;
	answered(qp, wqe, last);
}

void urxe_completer_packet(struct urxe_qp *qp, const struct urxe_packet *pkt)
{
	uint32_t psn = urxe_bth_psn(pkt->bth);

	if (!qp->transport->reliable)
		return;
	/* For what was never sent, a ghost of another connection (9.7.5.1.1). */
	if (urxe_psn_diff(psn, qp->proto.max_psn) >= 0)
		return;
	if (urxe_op_any(pkt->mask, URXE_OP_ACK))
		on_acknowledge(qp, pkt, psn);
	else
		on_answer(qp, pkt, psn);
}

/* The next probe is due as long after the last one as that was after the last progress; PROBE_MAX
 * at most. */
static uint64_t next_probe(const struct urxe_qp *qp)
{
	uint64_t span = PROBE_UNKNOWN;

	if (qp->peer->rtt)
		span = qp->peer->rtt * 4 > PROBE_MIN ? qp->peer->rtt * 4 : PROBE_MIN;
	if (!qp->probes)
		return qp->progress_at + span;
	span <<= qp->probes - 1;
	return qp->probed_at + (span < PROBE_MAX ? span : PROBE_MAX);
}

static uint64_t deadline_of(const struct urxe_qp *qp)
{
	uint64_t probe, timeout = qp->proto.timeout ? qp->timeout_at : UINT64_MAX;

	if (qp->rnr_until)
		return qp->rnr_until;
	probe = next_probe(qp);
	return probe < timeout ? probe : timeout;
}

static void arm_timer(struct urxe_qp *qp, uint64_t deadline)
{
	if (qp->timer.deadline && qp->timer.deadline <= deadline)
		return;
	urxe_timer_arm(&urxe_hca.wheel, &qp->timer, deadline);
	if (deadline < urxe_hca.earliest)
		urxe_hca.earliest = deadline;
}

/*
 * Sees to it that the timer fires no later than it must. Progress only moves deadlines away, so a
 * timer that is armed stays where it is, and finds out when it fires.
 */
void urxe_completer_arm(struct urxe_qp *qp)
{
	if (qp->timeout_at < qp->progress_at + qp->proto.timeout)
		qp->timeout_at = qp->progress_at + qp->proto.timeout;
	arm_timer(qp, deadline_of(qp));
}

void urxe_completer_arm_answers(struct urxe_qp *qp)
{
	if (qp->answer_at)
		arm_timer(qp, qp->answer_at);
}

/* The socket had no room for answers. */
static void answers_timer(struct urxe_qp *qp, uint64_t now)
{
	if (qp->answer_at && now >= qp->answer_at) {
		qp->answer_at = 0;
		urxe_engine_ready(qp);
	}
	urxe_completer_arm_answers(qp);
}

/*
 * Could the peer not run since the last timeout that has cost a retry? An adapter's hardware would
 * have answered while its process is stopped, or waits for a busy machine. So this costs a
 * neighbour that lives no retry, for NEAR_MOST if it is stopped or sleeps, and for as long as it
 * waits for a processor. One that ran and sleeps again, or has run for CHANCE, could have answered.
 */
static bool peer_stands_still(struct urxe_qp *qp, uint64_t now)
{
	const struct urxe_neighbour *near =
		qp->near ? urxe_wire_neighbour(urxe_hca.wire, &qp->proto.path,
					       qp->proto.attr.dest_qp_num)
			 : NULL;
	uint64_t ran, before = qp->peer_ran;

	if (!near || near->self)
		return false;
	ran = urxe_wire_neighbour_ran(urxe_hca.wire, near);
	if (ran && ran == before && now - qp->progress_at <= NEAR_MOST)
		return true;
	if (ran && ran - before < CHANCE && urxe_process_is_runnable(near->pid))
		return true;
	qp->peer_ran = ran;
	return false;
}

void urxe_completer_timer(struct urxe_qp *qp, uint64_t now)
{
	int state = atomic_load(&qp->proto.state);

	answers_timer(qp, now);
	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return;
	if (qp->rnr_until) {
		if (now >= qp->rnr_until) {
			qp->rnr_until = 0;
			qp->full_wait = false;
			qp->progress_at = now;
			urxe_engine_ready(qp);
		} else {
			urxe_completer_arm(qp);
		}
		return;
	}
	if (qp->proto.una == qp->proto.max_psn)
		return;
	if (qp->timeout_at < qp->progress_at + qp->proto.timeout)
		qp->timeout_at = qp->progress_at + qp->proto.timeout;
	if (now < deadline_of(qp)) {
		urxe_completer_arm(qp);
		return;
	}
	if (qp->proto.timeout && now >= qp->timeout_at) {
		if (!peer_stands_still(qp, now) && qp->proto.retries-- == 0) {
			if (urxe_migration_rescue(qp))
				return;
			urxe_count(qp->port, URXE_CNT_RETRY_EXCEEDED);
			fail_oldest(qp, IBV_WC_RETRY_EXC_ERR);
			return;
		}
		qp->timeout_at = now + qp->proto.timeout;
	}
	qp->probes += qp->probes < 20;
	qp->probed_at = now;
	resend(qp, true);
	urxe_completer_arm(qp);
}

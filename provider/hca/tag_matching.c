/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tag matching SRQs (tag_matching.h). Tags that were added while the program had unexpected
 * messages that it did not know of wait in the list: they may be taken when it has said how many it
 * has handled (IBV_WR_TAG_SYNC, IBV_OPS_TM_SYNC), and that is all of them.
 */
#include <errno.h>
#include <infiniband/tm_types.h>
#include <stdlib.h>
#include <string.h>

#include "hca/memory.h"
#include "hca/tag_list.h"
#include "hca/tag_matching.h"

struct urxe_tm {
	struct tag_list *list;
	uint32_t unexpected, handled; /* messages; as the program says */
	struct ibv_sge (
		*more)[URXE_TM_SGE - 1]; /* of each place of the list: what is behind its first */
};
static_assert(sizeof(struct urxe_recv_wqe) + sizeof(struct ibv_sge) == TAG_LIST_ROOM,
	      "a buffer of one piece is beside its entry");

/* What a message begins with. */
struct header {
	struct ibv_tmh tmh;
	struct ibv_rvh rvh;
};
static_assert(sizeof(struct header) == 32, "it is a packet's beginning");

int urxe_tm_create(const struct ibv_tm_cap *cap, struct urxe_tm **out)
{
	struct urxe_tm *tm;

	if (!cap->max_num_tags || cap->max_num_tags > URXE_TM_TAGS || !cap->max_ops ||
	    cap->max_ops > URXE_TM_OPS)
		return EINVAL;
	tm = calloc(1, sizeof(*tm));
	if (!tm)
		return ENOMEM;
	tm->list = tag_list_create(cap->max_num_tags);
	tm->more = malloc(cap->max_num_tags * sizeof(*tm->more));
	*out = tm;
	if (tm->list && tm->more)
		return 0;
	urxe_tm_destroy(tm);
	return ENOMEM;
}

void urxe_tm_destroy(struct urxe_tm *tm)
{
	if (!tm)
		return;
	tag_list_destroy(tm->list);
	free(tm->more);
	free(tm);
}

/* ---- operations on the list ---- */

static int add(struct urxe_tm *tm, struct ibv_ops_wr *wr)
{
	struct urxe_recv_wqe *buffer;
	uint64_t length = 0;
	int place;

	if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > URXE_TM_SGE ||
	    (wr->tm.add.num_sge && !wr->tm.add.sg_list))
		return EINVAL;
	place = tag_list_add(tm->list, wr->tm.add.tag, wr->tm.add.mask, &wr->tm.handle);
	if (place < 0)
		return -place;
	buffer = tag_list_room(tm->list, place);
	buffer->wr_id = wr->tm.add.recv_wr_id;
	buffer->num_sge = wr->tm.add.num_sge;
	for (int i = 0; i < wr->tm.add.num_sge; i++) {
		*(i ? &tm->more[place][i - 1] : buffer->sge) = wr->tm.add.sg_list[i];
		length += wr->tm.add.sg_list[i].length;
	}
	buffer->length = length > UINT32_MAX ? UINT32_MAX : length;
	return 0;
}

static void complete_op(struct urxe_srq *srq, const struct ibv_ops_wr *wr,
			enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode opcodes[] = {
		[IBV_WR_TAG_ADD] = IBV_WC_TM_ADD,
		[IBV_WR_TAG_DEL] = IBV_WC_TM_DEL,
		[IBV_WR_TAG_SYNC] = IBV_WC_TM_SYNC,
	};
	struct urxe_cqe cqe = {
		.wr_id = wr->wr_id,
		.status = status,
		.opcode = opcodes[wr->opcode],
	};

	if (srq->tm->unexpected != srq->tm->handled)
		cqe.wc_flags = IBV_WC_TM_SYNC_REQ;
	if (status != IBV_WC_SUCCESS || (wr->flags & IBV_OPS_SIGNALED))
		urxe_cq_add(srq->cq, NULL, &cqe);
}

static int carry_out(struct urxe_srq *srq, struct ibv_ops_wr *wr)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct urxe_tm *tm = srq->tm;
	int ret = 0;

	if ((unsigned)wr->opcode > IBV_WR_TAG_SYNC ||
	    (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC)))
		return EINVAL;
	if (wr->opcode == IBV_WR_TAG_SYNC || (wr->flags & IBV_OPS_TM_SYNC))
		tm->handled = wr->tm.unexpected_cnt;
	if (wr->opcode == IBV_WR_TAG_ADD)
		ret = add(tm, wr);
	else if (wr->opcode == IBV_WR_TAG_DEL && tag_list_remove(tm->list, wr->tm.handle) < 0)
		status = IBV_WC_TM_ERR;
	if (tm->handled == tm->unexpected)
		tag_list_admit(tm->list);
	if (!ret)
		complete_op(srq, wr, status);
	return ret;
}

int urxe_post_srq_ops(struct ibv_srq *ibv, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct urxe_srq *srq = to_srq(ibv);
	int ret = 0;

	if (urxe_inherited(srq->forks))
		ret = EIO;
	else if (!srq->tm)
		ret = EINVAL;
	if (ret) {
		*bad = wr;
		return ret;
	}
	urxe_engine_lock();
	for (; wr && !ret; wr = wr->next) {
		ret = carry_out(srq, wr);
		if (ret)
			*bad = wr;
	}
	urxe_engine_unlock();
	return ret;
}

/* ---- messages ---- */

/* The first bytes of a packet, which its sender may still change, in a copy: how many. */
static int read_header(const struct urxe_packet *pkt, struct header *h)
{
	uint32_t len = pkt->payload_len < sizeof(*h) ? pkt->payload_len : sizeof(*h);
	struct iovec iov = {h, len};

	memset(h, 0, sizeof(*h));
	if (!pkt->refs)
		memcpy(h, pkt->payload, len);
	else if (urxe_wire_pull(pkt->refs, pkt->refs_offset, &iov, 1, len, 0))
		return -1;
	return len;
}

static bool is_rendezvous(const struct urxe_packet *pkt, const struct header *h)
{
	return h->tmh.opcode == IBV_TMH_RNDV && urxe_op_any(pkt->mask, URXE_OP_END) &&
	       pkt->payload_len >= sizeof(*h) && pkt->payload_len <= URXE_TM_RNDV_MAX;
}

/* A read, and the FIN behind it, need a place each. */
static bool has_place(const struct urxe_qp *qp)
{
	return atomic_load(&qp->sq.head) - atomic_load(&qp->sq.tail) < URXE_TM_SENDS / 2;
}

static void complete_match(struct urxe_qp *qp)
{
	struct urxe_cqe cqe = {
		.wr_id = qp->recv_wqe->wr_id,
		.opcode = IBV_WC_TM_RECV,
		.wc_flags = IBV_WC_TM_MATCH,
		.qp_num = qp->proto.qpn,
		.tag = qp->tm->tag,
		.tm_priv = qp->tm->priv,
	};

	urxe_cq_add(qp->rcq, qp, &cqe);
}

/* The oldest entry for the message's tag: its buffer becomes the QP's. */
static bool match(struct urxe_qp *qp, const struct header *h)
{
	struct urxe_tm *tm = qp->srq->tm;
	int place = tag_list_take(tm->list, be64toh(h->tmh.tag));
	const struct urxe_recv_wqe *buffer;

	if (place < 0)
		return false;
	buffer = tag_list_room(tm->list, place);
	memcpy(qp->recv_wqe, buffer, TAG_LIST_ROOM);
	if (buffer->num_sge > 1)
		memcpy(&qp->recv_wqe->sge[1], tm->more[place],
		       (buffer->num_sge - 1) * sizeof(buffer->sge[0]));
	qp->proto.recv_busy = true;
	qp->proto.recv_offset = 0;
	return true;
}

static void set_rendezvous(struct urxe_qp *qp, const struct header *h)
{
	qp->tm->va = be64toh(h->rvh.va);
	qp->tm->rkey = be32toh(h->rvh.rkey);
	qp->tm->length = be32toh(h->rvh.len);
	qp->tm->kind = qp->tm->length > qp->recv_wqe->length ? URXE_TM_TOO_LONG : URXE_TM_RNDV;
}

/* Which kind of message this is, and its buffer. */
static enum urxe_verdict find_buffer(struct urxe_qp *qp, const struct urxe_packet *pkt,
				     const struct header *h, uint32_t len)
{
	bool rendezvous = is_rendezvous(pkt, h);
	bool tagged = len >= sizeof(h->tmh) &&
		      (h->tmh.opcode == IBV_TMH_EAGER || h->tmh.opcode == IBV_TMH_RNDV);

	if (rendezvous && !has_place(qp))
		return URXE_RNR;
	qp->tm->tag = be64toh(h->tmh.tag);
	qp->tm->priv = be32toh(h->tmh.app_ctx);
	if (tagged && (rendezvous || h->tmh.opcode == IBV_TMH_EAGER) && match(qp, h)) {
		qp->tm->kind = URXE_TM_EAGER;
		if (rendezvous)
			set_rendezvous(qp, h);
		qp->tm->whole = !rendezvous && urxe_op_any(pkt->mask, URXE_OP_END);
		if (!qp->tm->whole && qp->tm->kind != URXE_TM_TOO_LONG)
			complete_match(qp);
		return URXE_DONE;
	}
	if (!urxe_recv_take(qp))
		return URXE_RNR;
	qp->tm->kind = tagged ? URXE_TM_UNEXPECTED : URXE_TM_NO_TAG;
	qp->srq->tm->unexpected += tagged;
	return URXE_DONE;
}

enum urxe_verdict urxe_tm_begin(struct urxe_qp *qp, const struct urxe_packet *pkt,
				struct urxe_packet *rest)
{
	uint32_t skip = sizeof(struct ibv_tmh);
	enum urxe_verdict verdict;
	struct header h;
	int len;

	/* Its buffer was found, but its data could not be had. */
	if (!qp->proto.recv_busy) {
		len = read_header(pkt, &h);
		if (len < 0)
			return URXE_LOST;
		verdict = find_buffer(qp, pkt, &h, len);
		if (verdict != URXE_DONE)
			return verdict;
	}
	*rest = *pkt;
	if (qp->tm->kind == URXE_TM_RNDV)
		skip = pkt->payload_len;
	else if (qp->tm->kind == URXE_TM_TOO_LONG)
		rest->payload_len = sizeof(h); /* the header is all that the buffer gets */
	if (qp->tm->kind != URXE_TM_EAGER && qp->tm->kind != URXE_TM_RNDV)
		return URXE_DONE;
	/* Repeated because its data could not be had, it is shorter than it was. */
	if (skip > rest->payload_len)
		return URXE_LOST;
	rest->payload_len -= skip;
	rest->payload += skip;
	rest->refs_offset += skip;
	return URXE_DONE;
}

void urxe_tm_mark(struct urxe_qp *qp, struct urxe_cqe *cqe)
{
	enum urxe_tm_kind kind = qp->tm->kind;

	qp->tm->kind = URXE_TM_NONE;
	if (kind == URXE_TM_NONE)
		return;
	cqe->opcode = kind == URXE_TM_NO_TAG ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV;
	if (cqe->status != IBV_WC_SUCCESS)
		return;
	if (kind == URXE_TM_TOO_LONG)
		cqe->status = IBV_WC_TM_RNDV_INCOMPLETE;
	if (kind == URXE_TM_EAGER)
		cqe->wc_flags |= IBV_WC_TM_DATA_VALID;
	if ((kind == URXE_TM_EAGER && qp->tm->whole) || kind == URXE_TM_TOO_LONG) {
		cqe->wc_flags |= IBV_WC_TM_MATCH;
		cqe->tag = qp->tm->tag;
		cqe->tm_priv = qp->tm->priv;
	}
}

/* ---- the QP's own send queue ---- */

/* There is a place: has_place() has said so. */
static struct urxe_send_wqe *new_send(struct urxe_qp *qp, uint8_t opcode, enum urxe_tm_send tm)
{
	struct urxe_send_wqe *wqe = sq_wqe(&qp->sq, atomic_load(&qp->sq.head));

	memset(wqe, 0, sizeof(*wqe));
	wqe->opcode = opcode;
	wqe->tm = tm;
	return wqe;
}

static void submit(struct urxe_qp *qp)
{
	qp->sq.build = atomic_load(&qp->sq.head) + 1;
	atomic_store(&qp->sq.head, qp->sq.build);
	urxe_engine_ready(qp);
}

bool urxe_tm_read(struct urxe_qp *qp)
{
	const struct urxe_recv_wqe *buffer = qp->recv_wqe;
	struct urxe_send_wqe *wqe;

	if (qp->tm->kind != URXE_TM_RNDV)
		return false;
	wqe = new_send(qp, IBV_WR_RDMA_READ, URXE_TM_READ);
	wqe->wr_id = buffer->wr_id;
	wqe->length = qp->tm->length;
	wqe->num_sge = buffer->num_sge;
	memcpy(wqe->sge, buffer->sge, buffer->num_sge * sizeof(buffer->sge[0]));
	wqe->rdma.remote_addr = qp->tm->va;
	wqe->rdma.rkey = qp->tm->rkey;
	wqe->rdma.compare_add = qp->tm->tag;
	wqe->imm = qp->tm->priv;
	submit(qp);
	qp->tm->kind = URXE_TM_NONE;
	qp->proto.recv_busy = false;
	return true;
}

static void send_fin(struct urxe_qp *qp, const struct urxe_send_wqe *read)
{
	const struct header h = {
		.tmh = {.opcode = IBV_TMH_FIN,
			.app_ctx = htobe32(read->imm),
			.tag = htobe64(read->rdma.compare_add)},
		.rvh = {.va = htobe64(read->rdma.remote_addr),
			.rkey = htobe32(read->rdma.rkey),
			.len = htobe32(read->length)},
	};
	struct urxe_send_wqe *wqe = new_send(qp, IBV_WR_SEND, URXE_TM_FIN);

	wqe->inlined = true;
	wqe->length = sizeof(h);
	memcpy(wqe->sge, &h, sizeof(h));
	submit(qp);
}

void urxe_tm_sent(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, enum ibv_wc_status status)
{
	struct urxe_cqe cqe = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = IBV_WC_TM_RECV,
		.byte_len = wqe->length,
		.qp_num = qp->proto.qpn,
	};

	/* Without its FIN the sender will find out that the QP has failed. */
	if (wqe->tm != URXE_TM_READ)
		return;
	if (status == IBV_WC_SUCCESS) {
		cqe.wc_flags = IBV_WC_TM_DATA_VALID;
		send_fin(qp, wqe);
	}
	urxe_count(qp->port, URXE_CNT_RDMA_RECV);
	urxe_cq_add(qp->rcq, qp, &cqe);
}

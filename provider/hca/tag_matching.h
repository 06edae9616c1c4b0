/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tag matching SRQs (rdma-core, Documentation/tag_matching.md; ibv_post_srq_ops(3)). The first
 * bytes of a SEND to such an SRQ's QPs are a header with a tag. A message whose tag is in the
 * matching list goes to the tagged buffer, without its header; a rendezvous request has the buffer
 * filled by an RDMA READ, behind which a message says that it is done (FIN). All others go to the
 * SRQ's buffers whole.
 *
 * The QPs of a tag matching SRQ have no send queue that their program could use: the reads and FINs
 * go by that. Under the engine lock, unless said otherwise.
 */
#ifndef URXE_HCA_TAG_MATCHING_H
#define URXE_HCA_TAG_MATCHING_H

#include "hca/responder.h"

#define URXE_TM_TAGS	 (1u << 16) /* most entries of a list */
#define URXE_TM_SGE	 8
#define URXE_TM_OPS	 4096 /* operations of one call */
#define URXE_TM_RNDV_MAX 64   /* bytes of a rendezvous request */
#define URXE_TM_SENDS	 128  /* places of a QP's send queue: half of them reads, half FINs */

struct urxe_tm;

/* What an SRQ has of it: 0, EINVAL, ENOMEM. And its end. Any thread. */
int urxe_tm_create(const struct ibv_tm_cap *cap, struct urxe_tm **tm);
void urxe_tm_destroy(struct urxe_tm *tm);
int urxe_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);

static inline bool urxe_tm_is(const struct urxe_qp *qp)
{
	return qp->srq && qp->srq->tm;
}

/*
 * The first packet of a message: finds its buffer, and says in *rest what of the packet goes there.
 * URXE_RNR: there is no buffer, or no place for a read. URXE_LOST.
 */
enum urxe_verdict urxe_tm_begin(struct urxe_qp *qp, const struct urxe_packet *pkt,
				struct urxe_packet *rest);
/* With qp->tm. The completion of what is received: fills in what is not that of a plain message. */
void urxe_tm_mark(struct urxe_qp *qp, struct urxe_cqe *cqe);
/* The message is there: true, and it has no completion yet, for its data is to be read. */
bool urxe_tm_read(struct urxe_qp *qp);
/* A read or FIN has ended. */
void urxe_tm_sent(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, enum ibv_wc_status status);

#endif

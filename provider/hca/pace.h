/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Rate limits of QPs (IBV_QP_RATE_LIMIT, ibv_modify_qp_rate_limit(3)). A QP may send when the
 * time has come that its former bytes take at its rate. Time in which a QP had nothing to send
 * counts for a burst at most. One that waits for its time, and is woken late, makes up for that,
 * so that in the mean its rate is the limit. Bytes are those of payload, 64 of a packet at
 * least. Under the engine lock.
 */
#ifndef URXE_HCA_PACE_H
#define URXE_HCA_PACE_H

#include "hca/hca.h"

#define URXE_PACE_MAX_KBPS 400000000u

/* EINVAL. rate_limit 0: there is none any more. */
int urxe_pace_set(struct urxe_qp *qp, const struct ibv_qp_rate_limit_attr *attr);
int urxe_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/* May it send now? Otherwise its timer makes it ready when it may. */
bool urxe_pace_wait(struct urxe_qp *qp);
/* The same, and no more. */
bool urxe_pace_admits(const struct urxe_qp *qp);
/* All that the program has posted has left. */
void urxe_pace_idle(struct urxe_qp *qp);
/* A packet of so many PSNs leaves, from the QP's PSN on. One that is sent again costs nothing. */
void urxe_pace_count(struct urxe_qp *qp, uint32_t span, uint32_t payload);
static inline void urxe_pace_packet(struct urxe_qp *qp, uint32_t span, uint32_t payload)
{
	if (qp->proto.attr.rate_limit)
		urxe_pace_count(qp, span, payload);
}
/* A frame leaves. */
void urxe_pace_charge(struct urxe_qp *qp, uint32_t payload);

#endif

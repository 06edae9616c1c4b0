/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Putting work on a send queue; shared by ibv_post_send() and ibv_wr_*. Under sq.lock. */
#ifndef URXE_HCA_SEND_H
#define URXE_HCA_SEND_H

#include "hca/hca.h"

#define URXE_ATOMIC_LEN 8u /* bytes of an ATOMIC WRITE */

/* The next free place, cleared apart from its SGEs; NULL when the queue is full. */
struct urxe_send_wqe *urxe_sq_claim(struct urxe_qp *qp);
/* 0, or the errno with which such an operation is refused on this QP. */
int urxe_sq_check(const struct urxe_qp *qp, unsigned opcode, unsigned flags);
/* 0, or the errno with which posting is refused in the QP's state. */
int urxe_sq_state_errno(const struct urxe_qp *qp);
int urxe_sq_set_sges(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const struct ibv_sge *sges,
		     size_t n);
/* Appends to the inline data. */
int urxe_sq_add_inline(struct urxe_qp *qp, struct urxe_send_wqe *wqe, const void *data, size_t len);
int urxe_sq_set_ud(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct ibv_ah *ah, uint32_t qpn,
		   uint32_t qkey);
/* Makes all places up to build visible to the engine, and unlocks; then sees that they are sent. */
void urxe_sq_publish(struct urxe_qp *qp, uint32_t bytes);

#endif

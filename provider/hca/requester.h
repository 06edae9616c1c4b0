/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The requester: what becomes of a send WR. Under the engine lock. */
#ifndef URXE_HCA_REQUESTER_H
#define URXE_HCA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_qp;
struct urxe_send_wqe;

void urxe_requester_run(struct urxe_qp *qp);
/* The WR at the cursor, which had no PSN yet, was carried out without a packet. */
void urxe_requester_skip(struct urxe_qp *qp, struct urxe_send_wqe *wqe);
/* Before the first packet of a flight: the clocks start. */
void urxe_requester_start_clocks(struct urxe_qp *qp);
/* requester_short.c: the same as urxe_requester_run() for one short WR; false: it is not that
 * simple, and nothing was done. */
bool urxe_requester_short(struct urxe_qp *qp);
void urxe_requester_rewind(struct urxe_qp *qp, uint32_t psn);
bool urxe_requester_has_work(const struct urxe_qp *qp);
/* Is there work, and may it be done now? Flushes what a QP in error has. */
bool urxe_requester_may_run(struct urxe_qp *qp);
/* The netdev or a neighbour has no room now: the QP's timer makes it ready again. */
void urxe_requester_pause(struct urxe_qp *qp);

#endif

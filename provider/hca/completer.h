/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The completer: how a send WR ends, and when it is retried. Under the engine lock. */
#ifndef URXE_HCA_COMPLETER_H
#define URXE_HCA_COMPLETER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct urxe_packet;
struct urxe_qp;
struct urxe_send_wqe;

void urxe_completer_packet(struct urxe_qp *qp, const struct urxe_packet *pkt);
/* The short way of an acknowledgement, for the only WR that is under way. False: it is not that
 * simple, and nothing was done. */
bool urxe_completer_short(struct urxe_qp *qp, uint32_t psn);
void urxe_completer_retire(struct urxe_qp *qp);
/* The path is another: what is under way is sent again, with fresh retries. */
void urxe_completer_restart(struct urxe_qp *qp);
void urxe_completer_timer(struct urxe_qp *qp, uint64_t now);
void urxe_completer_arm(struct urxe_qp *qp);
void urxe_completer_arm_answers(struct urxe_qp *qp);
void urxe_complete_send(struct urxe_qp *qp, struct urxe_send_wqe *wqe, enum ibv_wc_status status);

#endif

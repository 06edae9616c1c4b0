/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RC QPs of processes that have died. A requester that waits for one's acknowledgement would find
 * out by its retries alone, in seconds, and by none if its timeout is 0. So each process keeps on
 * record, beside its connections (host/segment_records.h), which RC QPs it has and which PSN each
 * expects. The process that reads the records of a dead one answers for those QPs with a NAK,
 * "remote operational error" (IBTA vol. 1, 9.7.5.2.4), for that PSN. The QP has executed all before
 * it, so nothing is acknowledged that was not done. The NAK is sent four times in the second after,
 * which ends a requester that has something outstanding, and in answer to requests. A peer that
 * neither sends nor waits gets nothing: the protocol has no message for that.
 *
 * The engine lock.
 */
#ifndef URXE_HCA_DEAD_QP_H
#define URXE_HCA_DEAD_QP_H

#include <stdbool.h>
#include <stdint.h>

struct urxe_packet;
struct urxe_qp;
struct urxe_rx_packet;

/* A QP of this process is connected (again), or is no more: puts it on record, and takes it off. */
void urxe_dead_qp_record(struct urxe_qp *qp);
void urxe_dead_qp_forget(struct urxe_qp *qp);

/* After urxe_segment_dead_take(): reads its QPs, and answers for them. */
void urxe_dead_qp_adopt(void);
/* A request for a QP that this process does not have. */
void urxe_dead_qp_packet(const struct urxe_packet *pkt, const struct urxe_rx_packet *rx);
/* Now and then: sends what is due, and forgets QPs whose time is over. How many are left. */
unsigned urxe_dead_qp_run(uint64_t now);
/* The engine stops, or the process is the child of a fork. */
void urxe_dead_qp_clear(void);

#endif

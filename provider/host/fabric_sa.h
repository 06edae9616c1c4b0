/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Questions to the subnet administrator of a virtual fabric, as the kernel's ib_sa asks them: one
 * MAD from QP 1 of a port to the SM's LID, sent again until it is answered or the time is over
 * (fabricd counts it). The answer comes with the monitor (device.h).
 */
#ifndef URXE_HOST_FABRIC_SA_H
#define URXE_HOST_FABRIC_SA_H

#include "host/device.h"

#define URXE_SA_RECORD 200 /* bytes: the longest of the attributes asked for fits */

struct urxe_sa_question {
	uint8_t method;	    /* SubnAdmGet 1, Set 2, Delete 0x15 */
	uint16_t attribute; /* PathRecord 0x35 … (15.2.5) */
	uint64_t mask;	    /* component mask, host order */
	uint32_t timeout_ms;
	uint32_t number; /* of the asker's, for the answer; not URXE_SA_ALL */
	uint8_t record[URXE_SA_RECORD];
};

#define URXE_SA_ALL UINT32_MAX

/*
 * The answer to a question: error 0 and the record, or -ETIMEDOUT, or -EINVAL when the subnet
 * administrator refused. URXE_SA_ALL: that of all questions from the port. Called by the thread
 * that reads the monitor, without locks; an answer that comes later than its asker likes is for the
 * asker to drop.
 */
typedef void urxe_sa_answer_fn(const struct urxe_port *port, uint32_t number, int error,
			       const uint8_t *record);

/* Once, before anything is asked. */
void urxe_fabric_sa_handler(urxe_sa_answer_fn *fn);
/* -EAGAIN: the port knows no subnet manager; -ENODEV: there is no fabric. One thread at a time. */
int urxe_fabric_sa_ask(const struct urxe_port *port, const struct urxe_sa_question *q);

/* For the monitor: takes answers that have come; its end, with which memberships end; and after a
 * fork. */
void urxe_fabric_sa_read(void);
void urxe_fabric_sa_close(void);

#endif

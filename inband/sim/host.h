/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The hosts of management NICs: processes that share a descriptor queue and an MPQ with thsim.
 * thsim's one thread.
 */
#ifndef INBAND_SIM_HOST_H
#define INBAND_SIM_HOST_H

#include "inband/glex_shared.h"
#include "inband/sim/sim.h"

struct host {
	struct host *next;	   /* of all */
	struct host *next_on_chip; /* of its NIC */
	struct chip *chip;
	struct glex_shared *shared;
	int socket, memory, kick, bell;
	uint32_t vp;
	uint32_t sdq_head, mpq_tail, answered;
};

/* A host of management NIC number `nic`, which has memory and eventfds but no socket yet. */
int host_create(struct sim *sim, unsigned nic, struct host **host);
void host_destroy(struct sim *sim, struct host *host);
/* Takes what has been submitted. */
void host_collect(struct sim *sim, struct host *host);
/* Whether it waits; then takes what it has submitted, and *until is when it wants to go on, if
 * nothing happens before. */
bool host_waits(struct sim *sim, struct host *host, uint64_t *until);
/* Says that it may go on. */
void host_answer(struct sim *sim, struct host *host);

#endif

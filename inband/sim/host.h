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
	uint32_t vp, number; /* number: among all hosts */
	uint32_t sdq_head, mpq_tail;
	uint64_t clock; /* it sends nothing before, as it has last said */
};

/* A host of management NIC number `nic`, which has memory and eventfds but no socket yet. */
int host_create(struct sim *sim, unsigned nic, struct host **host);
void host_destroy(struct sim *sim, struct host *host);
/* Takes what has been submitted. */
void host_collect(struct sim *sim, struct host *host);
/* Takes what it has submitted. Up to when time may pass as far as it is concerned, exclusive. */
uint64_t host_limit(struct sim *sim, struct host *host);
/* All before `done` has happened, and thsim can go no further: wakes it if that is what it sleeps
 * for. */
void host_tell(struct host *host, uint64_t done);

#endif

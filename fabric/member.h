/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which processes have joined which multicast groups for their ports, as the kernel's multicast.c
 * counts them: a port leaves a group when the last process has left or ended. fabricd's thread.
 */
#ifndef URXE_FABRIC_MEMBER_H
#define URXE_FABRIC_MEMBER_H

#include "fabric/fabric.h"

struct agent;
struct member;

/* The process of that agent writes a MAD of 256 bytes to the subnet administrator. False: it leaves
 * a group in which others stay, so the MAD is not sent. */
bool member_sends(struct fabric *f, struct agent *agent, const uint8_t *umad);
/* A MAD is delivered to an agent's file. An answer to a join says which group it is, where the
 * process left that to the subnet administrator, or that the port is no member; with an error,
 * ETIMEDOUT, there is none. */
void member_answered(struct fabric *f, uint32_t error, const uint8_t *mad);
/*
 * The agent's process has ended: leaves all of its groups and unregisters it. Where the answer to a
 * join is still to say which group it is, the agent stays without a file until it has come, or the
 * retries are over.
 */
void member_end(struct fabric *f, struct agent *agent);
/* Unregisters agents that stayed and have nothing to wait for now. */
void member_reap(struct fabric *f);
/* All of them. */
void member_forget(struct fabric *f);

#endif

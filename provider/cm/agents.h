/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The MAD layer of this process on QP 1 of RoCE devices, for programs that open a umad there: what
 * the kernel's ib_core and ib_umad do on rxe. Agents, requests and RMPP are those of fabric/host.h,
 * with the engine's QP 1 below them; the agents of all processes of a host are apart by
 * host/mad_agent.h.
 *
 * Any thread. The engine's lock guards all of it.
 */
#ifndef URXE_CM_AGENTS_H
#define URXE_CM_AGENTS_H

#include "fabric/protocol.h"
#include "host/device.h"

/* An open umad file. */
struct urxe_agents;

/* What the program is to read: len bytes behind a header of FABRIC_UMAD_HDR. mad NULL: the port is
 * gone. Under the engine's lock. */
typedef void urxe_agents_deliver_fn(void *arg, const uint8_t *hdr, const uint8_t *mad,
				    uint32_t len);

/* -errno as from urxe_engine_get(). */
int urxe_agents_open(struct urxe_port *port, urxe_agents_deliver_fn *deliver, void *arg,
		     struct urxe_agents **out);
void urxe_agents_close(struct urxe_agents *file);
/* The number of a new agent; -errno as the kernel's ioctl. */
int urxe_agents_register(struct urxe_agents *file, const struct fabric_request *request);
void urxe_agents_unregister(struct urxe_agents *file, unsigned id);
/* A MAD of len bytes with its header, for the agent that it names: 0, or -errno as write(2). */
int urxe_agents_send(struct urxe_agents *file, const uint8_t *umad, size_t len);
/* In the child of a fork: files are its parent's. */
void urxe_agents_forked(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which process of this host a MAD to QP 1 is for, apart from those of the connection manager: an
 * answer's transaction ID has the slot of the process that asked in it, and anything else goes to
 * the agent that was registered for its class, version and method, of which there is one on a port
 * (13.4.6; the kernel's mad.c). Registrations are rows of the host segment (host/segment_ports.h)
 * and go with their process.
 *
 * Any thread; owner() without a lock, the others take the segment's.
 */
#ifndef URXE_HOST_MAD_AGENT_H
#define URXE_HOST_MAD_AGENT_H

#include "host/segment.h"

/* The port space of the rows. */
#define URXE_PS_MAD 0x4d41

struct urxe_mad_agent {
	uint32_t ifindex; /* of the port */
	uint8_t mgmt_class, class_version;
	uint32_t oui; /* of a vendor class with one, else 0 */
	uint64_t methods[2];
};

/* Until urxe_segment_port_release() of its row. -EINVAL: another agent has one of the methods; or
 * as urxe_segment_port_add(). */
int urxe_mad_agent_add(struct urxe_segment *seg, const struct urxe_mad_agent *agent, uint32_t *row);
/* The slot of the process that a MAD which has come to a port is for; 0: of none. */
unsigned urxe_mad_agent_owner(struct urxe_segment *seg, uint32_t ifindex, const uint8_t *mad);

/* The upper half of a transaction ID whose answer is for a slot; what to add for the next one. */
#define URXE_MAD_TID_STEP 256
static inline uint32_t urxe_mad_tid(unsigned slot, uint32_t number)
{
	return number * URXE_MAD_TID_STEP + slot;
}

#endif

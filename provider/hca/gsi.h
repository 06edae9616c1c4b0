/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * QP 1, the General Services Interface (IBTA vol. 1, 13.5.1): unreliable datagrams of 256 bytes
 * under the well-known Q_Key, from and to QP 1 of every port. It belongs to the host, not to a
 * process: the kernel gives such a packet to any process of the host, and the floor above, which
 * can read it, hands it on to the one that it concerns.
 *
 * And the hook of the floor above into the engine: its timers, and what happens around it.
 * Everything is called with the engine lock held, by whichever thread turns the engine; the lock
 * may not be given back meanwhile.
 */
#ifndef URXE_HCA_GSI_H
#define URXE_HCA_GSI_H

#include <infiniband/verbs.h>

#include "wire/wire.h"

#define URXE_GSI_QPN   1
#define URXE_GSI_QKEY  0x80010000u
#define URXE_MAD_BYTES 256

/* In place of a class: all that have no user of their own, for the agents of programs
 * (host/mad_agent.h). */
#define URXE_GSI_ANY_CLASS 0

struct urxe_packet;

/* A MAD that came in. Valid during the call; rx->path may have no port (an address that none
 * has). */
struct urxe_gsi_rx {
	const uint8_t *mad; /* URXE_MAD_BYTES; aligned to 4 */
	const struct urxe_rx_packet *rx;
	uint32_t src_qpn;
	uint16_t pkey;
};

/* Functions that a user leaves NULL are not called. */
struct urxe_gsi_user {
	uint8_t mgmt_class; /* of the MADs that it receives */
	void (*receive)(const struct urxe_gsi_rx *rx);
	/* When run() must be called: CLOCK_MONOTONIC, ns; UINT64_MAX: not at all. Asked often. */
	uint64_t (*deadline)(void);
	void (*run)(uint64_t now);
	void (*port_event)(struct urxe_port *port, enum ibv_event_type event);
	/*
	 * A process of this host has died: the low byte of its QPNs. It is called once, in one of
	 * the living processes with such a user. The dead one's records can be read now, with
	 * urxe_segment_records_walk(), and not later.
	 */
	void (*slot_died)(unsigned slot);
};

/*
 * A management class has one user. -EBUSY: it has another; -ENOSPC: no more than URXE_GSI_USERS.
 * The engine does not run for a user's sake: a user that needs it holds it with urxe_engine_get().
 * Registration outlives the engine; the child of a fork begins without it. To be called with the
 * engine lock held.
 */
#define URXE_GSI_USERS 8
int urxe_gsi_register(const struct urxe_gsi_user *user);
void urxe_gsi_unregister(const struct urxe_gsi_user *user);

/*
 * Sends a MAD from QP 1 to QP 1, with the port's P_Key of that partition. slot: the process that it
 * is for, if its destination is this host and that is known (else 0); a neighbour gets it as it
 * gets other packets. A MAD that finds the socket full is lost like any packet, and one that finds
 * a ring full waits where there is no socket: 0. -errno when the path is broken (-ENETUNREACH …).
 */
int urxe_gsi_send(const struct urxe_path *path, uint16_t pkey, unsigned slot,
		  const uint8_t mad[URXE_MAD_BYTES]);
/* The same to a QP, under a Q_Key. */
int urxe_gsi_send_qp(const struct urxe_path *path, uint16_t pkey, unsigned slot, uint32_t qpn,
		     uint32_t qkey, const uint8_t mad[URXE_MAD_BYTES]);

/* Counts a MAD that came to a port, by its index, and found no room above. */
void urxe_gsi_dropped(unsigned port);

/*
 * Hands a MAD that was received on to another process of this host, whose user receives it as if it
 * had come from the wire. It is lost like any packet if that process is too slow. -ESRCH: nobody
 * alive has that slot, or it is this very process; -ELOOP: it was handed on before, and stays here.
 */
int urxe_gsi_forward(const struct urxe_gsi_rx *rx, unsigned slot);
/* The same to all other processes of this host that have a user, where it is not known which one
 * the MAD is for. They do not hand it on any further. */
int urxe_gsi_forward_all(const struct urxe_gsi_rx *rx);

/* dispatch.c, for packets to QP 1. */
void urxe_gsi_packet(const struct urxe_packet *pkt, const struct urxe_rx_packet *rx);

/* engine.c, service.c */
void urxe_gsi_started(void);
void urxe_gsi_forked(void);
uint64_t urxe_gsi_deadline(void);
void urxe_gsi_run(uint64_t now); /* if it is time */
void urxe_gsi_port_event(struct urxe_port *port, enum ibv_event_type event);
void urxe_gsi_housekeep(void);

#endif

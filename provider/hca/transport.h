/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transport services (IBTA vol. 1, 9.2.1, table 53): a row each. Whatever differs between them and
 * is more than one of these properties is a function of the row, in a file of its own. Constant
 * data: any thread, no lock.
 *
 * To add a service: a row here, its opcodes in wire/opcode.c, its transitions in qp_transitions.c,
 * and a file for what it does with request packets.
 */
#ifndef URXE_HCA_TRANSPORT_H
#define URXE_HCA_TRANSPORT_H

#include <infiniband/verbs.h>

#include "wire/opcode.h"

struct urxe_qp;
struct urxe_rx_packet;

/* How a QP's row shows it to neighbours (direct_private.h); both ends have the same. */
enum direct_service { DIRECT_NONE, DIRECT_RC, DIRECT_UC };

struct urxe_transport {
	enum ibv_qp_type type;
	enum urxe_service service; /* added to the opcodes of RC */
	/* Requests are acknowledged and repeated; a WR that fails is the QP's error (else SQE). */
	bool reliable;
	bool connected;	       /* the QP has one peer, and its address */
	bool shared_receive;   /* each request names the SRQ that receives it (XRC) */
	bool addressed;	       /* each send WR has an address, and a message is one packet */
	uint32_t operations;   /* IBV_QP_EX_WITH_… */
	uint32_t create_flags; /* IBV_QP_CREATE_… */
	enum direct_service direct;
	/* Sends what is in the send queue; takes a request packet (NULL: drops it). Engine lock. */
	void (*run)(struct urxe_qp *qp);
	void (*request)(struct urxe_qp *qp, const struct urxe_packet *pkt,
			const struct urxe_rx_packet *rx);
	/* NULL, or what else there is to a QP's beginning (-errno) and end. Engine lock. */
	int (*attach)(struct urxe_qp *qp);
	void (*detach)(struct urxe_qp *qp);
};

/* NULL: there is no such service. */
const struct urxe_transport *urxe_transport_of(enum ibv_qp_type type);

#endif

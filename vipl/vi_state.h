/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The states of a VI and what each event does in each of them (source, 2.2), as a table. Pure. */
#ifndef VIPL_VI_STATE_H
#define VIPL_VI_STATE_H

#include "vipl/vipl.h"

enum vipl_event {
	VIPL_CONNECT,	  /* VipConnectRequest, PeerRequest or Accept is called */
	VIPL_ESTABLISHED, /* the other side has accepted, or confirmed */
	VIPL_FAILED,	  /* rejected, no match, unreachable, timed out */
	VIPL_DISCONNECT,  /* VipDisconnect is called */
	VIPL_PEER_GONE,	  /* the peer has disconnected or died */
	VIPL_ERROR,	  /* a descriptor or the transport failed, on a reliable connection */
	VIPL_DROPPED,	  /* the same on an unreliable one */
	VIPL_NIC_FAILED,
	VIPL_SET,     /* VipSetViAttributes is called */
	VIPL_DESTROY, /* VipDestroyVi is called */
	VIPL_EVENTS,
};

/* What becomes of descriptors that are posted. */
enum vipl_mode {
	VIPL_CLOSED, /* there is no such queue */
	VIPL_HOLD,   /* they are kept until the VI is connected */
	VIPL_OPEN,   /* they are processed */
	VIPL_REFUSE, /* they complete, in their turn, as flushed */
};

struct vipl_transition {
	VIP_RETURN result; /* of the call; VIP_SUCCESS for what is no call */
	VIP_VI_STATE next; /* the same state where the result is an error */
};

struct vipl_transition vipl_transition(VIP_VI_STATE state, enum vipl_event event);

/* How the queues of a VI in a state take descriptors. */
enum vipl_mode vipl_send_mode(VIP_VI_STATE state);
enum vipl_mode vipl_recv_mode(VIP_VI_STATE state);

#endif

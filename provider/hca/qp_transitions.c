/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which transitions between QP states there are, and which attributes each needs and permits (IBTA
 * vol. 1, 10.3.1 and table 91 of 11.2.5.2). A row may stand for several former states and transport
 * services. Raw packets are not the standard's: as the kernel has them.
 */
#include "hca/hca.h"

/* Sets of states to come from, and of transport services. */
#define ALL	 (~0u)
#define IN(x)	 (1u << (x))
#define RC	 IN(IBV_QPT_RC)
#define UC	 IN(IBV_QPT_UC)
#define UD	 IN(IBV_QPT_UD)
#define XRC_SEND IN(IBV_QPT_XRC_SEND) /* an RC QP without a responder */
#define XRC_RECV IN(IBV_QPT_XRC_RECV) /* and one without a requester */
#define RAW	 IN(IBV_QPT_RAW_PACKET)

/* What only one half of a connection has. */
#define REQUESTER (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define RESPONDER (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)

#define CONNECTED_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define UD_INIT	       (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define PEER	       (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define CONNECTED_RTR  (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX)
#define UC_RTS                                                                              \
	(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | \
	 IBV_QP_RATE_LIMIT)
#define RC_RTS	   (UC_RTS | IBV_QP_MIN_RNR_TIMER)
#define TARGET_RTS (RC_RTS & ~IBV_QP_RATE_LIMIT)
#define UD_RTS	   (IBV_QP_CUR_STATE | IBV_QP_QKEY | IBV_QP_RATE_LIMIT)
#define RAW_RTS	   (IBV_QP_CUR_STATE | IBV_QP_RATE_LIMIT)
#define UC_SQD                                                                   \
	(IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | \
	 IBV_QP_PATH_MIG_STATE)
#define RC_SQD (UC_SQD | IBV_QP_PORT | IBV_QP_TIMEOUT | REQUESTER | RESPONDER)

static const struct transition {
	unsigned from;
	enum ibv_qp_state to;
	unsigned services;
	int required, optional;
} transitions[] = {
	{ALL, IBV_QPS_RESET, ALL, 0, 0},
	{ALL, IBV_QPS_ERR, ALL, 0, 0},

	{IN(IBV_QPS_RESET), IBV_QPS_INIT, RC | UC | XRC_SEND | XRC_RECV, CONNECTED_INIT, 0},
	{IN(IBV_QPS_RESET), IBV_QPS_INIT, UD, UD_INIT, 0},
	{IN(IBV_QPS_RESET), IBV_QPS_INIT, RAW, IBV_QP_PORT, 0},

	{IN(IBV_QPS_INIT), IBV_QPS_INIT, RC | UC | XRC_SEND | XRC_RECV, 0, CONNECTED_INIT},
	{IN(IBV_QPS_INIT), IBV_QPS_INIT, UD, 0, UD_INIT},
	{IN(IBV_QPS_INIT), IBV_QPS_INIT, RAW, 0, IBV_QP_PORT},

	{IN(IBV_QPS_INIT), IBV_QPS_RTR, RC | XRC_RECV, PEER | RESPONDER, CONNECTED_RTR},
	{IN(IBV_QPS_INIT), IBV_QPS_RTR, UC | XRC_SEND, PEER, CONNECTED_RTR},
	{IN(IBV_QPS_INIT), IBV_QPS_RTR, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IN(IBV_QPS_INIT), IBV_QPS_RTR, RAW, 0, 0},

	{IN(IBV_QPS_RTR), IBV_QPS_RTS, RC, IBV_QP_TIMEOUT | REQUESTER | IBV_QP_SQ_PSN, RC_RTS},
	{IN(IBV_QPS_RTR), IBV_QPS_RTS, XRC_SEND, IBV_QP_TIMEOUT | REQUESTER | IBV_QP_SQ_PSN,
	 UC_RTS},
	{IN(IBV_QPS_RTR), IBV_QPS_RTS, XRC_RECV, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN, TARGET_RTS},
	{IN(IBV_QPS_RTR), IBV_QPS_RTS, UC, IBV_QP_SQ_PSN, UC_RTS},
	{IN(IBV_QPS_RTR), IBV_QPS_RTS, UD, IBV_QP_SQ_PSN, UD_RTS},
	{IN(IBV_QPS_RTR), IBV_QPS_RTS, RAW, 0, IBV_QP_RATE_LIMIT},

	{IN(IBV_QPS_RTS) | IN(IBV_QPS_SQD), IBV_QPS_RTS, RC, 0, RC_RTS},
	{IN(IBV_QPS_RTS) | IN(IBV_QPS_SQD), IBV_QPS_RTS, UC | XRC_SEND, 0, UC_RTS},
	{IN(IBV_QPS_RTS) | IN(IBV_QPS_SQD), IBV_QPS_RTS, XRC_RECV, 0, TARGET_RTS},
	{IN(IBV_QPS_RTS) | IN(IBV_QPS_SQD), IBV_QPS_RTS, UD, 0, UD_RTS},
	{IN(IBV_QPS_RTS) | IN(IBV_QPS_SQD), IBV_QPS_RTS, RAW, 0, RAW_RTS},

	{IN(IBV_QPS_RTS), IBV_QPS_SQD, ALL, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},

	{IN(IBV_QPS_SQD), IBV_QPS_SQD, RC, 0, RC_SQD},
	{IN(IBV_QPS_SQD), IBV_QPS_SQD, XRC_SEND, 0, RC_SQD & ~RESPONDER},
	{IN(IBV_QPS_SQD), IBV_QPS_SQD, XRC_RECV, 0, RC_SQD & ~REQUESTER},
	{IN(IBV_QPS_SQD), IBV_QPS_SQD, UC, 0, UC_SQD},
	{IN(IBV_QPS_SQD), IBV_QPS_SQD, UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IN(IBV_QPS_SQD), IBV_QPS_SQD, RAW, 0, 0},

	{IN(IBV_QPS_SQE), IBV_QPS_RTS, UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
	{IN(IBV_QPS_SQE), IBV_QPS_RTS, UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IN(IBV_QPS_SQE), IBV_QPS_RTS, RAW, 0, IBV_QP_CUR_STATE},
};

int urxe_qp_attrs_of(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND: return mask & ~RESPONDER;
	case IBV_QPT_XRC_RECV: return mask & ~REQUESTER;
	default: return mask;
	}
}

bool urxe_qp_transition_ok(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type,
			   int mask)
{
	if (type > IBV_QPT_XRC_RECV)
		return false;
	mask &= ~IBV_QP_STATE;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (!(t->from & IN(from)) || t->to != to || !(t->services & IN(type)))
			continue;
		return (mask & t->required) == t->required &&
		       !(mask & ~(t->required | t->optional));
	}
	return false;
}

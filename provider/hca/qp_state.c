/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which transitions between QP states there are, and which attributes each needs and permits (IBTA
 * vol. 1, 10.3.1 and table 91 of 11.2.5.2): one row per transition and transport service.
 */
#include "hca/hca.h"

#define ANY (-1)

#define RC_SQD                                                                            \
	(IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
	 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH |          \
	 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)
#define UC_RTS (IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define RC_RTS (UC_RTS | IBV_QP_MIN_RNR_TIMER)
#define UD_RTS (IBV_QP_CUR_STATE | IBV_QP_QKEY)

static const struct transition {
	int from, to;
	int type;
	int required, optional;
} transitions[] = {
	{ANY, IBV_QPS_RESET, ANY, 0, 0},
	{ANY, IBV_QPS_ERR, ANY, 0, 0},

	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_RC,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_UC,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPT_UD, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},

	{IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPT_RC, 0,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPT_UC, 0,
	 IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPT_UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},

	{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPT_RC,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPT_UC,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPT_UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},

	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_RC,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 RC_RTS},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UC, IBV_QP_SQ_PSN, UC_RTS},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_UD, IBV_QP_SQ_PSN, UD_RTS},

	{IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPT_RC, 0, RC_RTS},
	{IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPT_UC, 0, UC_RTS},
	{IBV_QPS_RTS, IBV_QPS_RTS, IBV_QPT_UD, 0, UD_RTS},

	{IBV_QPS_RTS, IBV_QPS_SQD, ANY, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},

	{IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPT_RC, 0, RC_RTS},
	{IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPT_UC, 0, UC_RTS},
	{IBV_QPS_SQD, IBV_QPS_RTS, IBV_QPT_UD, 0, UD_RTS},

	{IBV_QPS_SQD, IBV_QPS_SQD, IBV_QPT_RC, 0, RC_SQD},
	{IBV_QPS_SQD, IBV_QPS_SQD, IBV_QPT_UC, 0,
	 IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_SQD, IBV_QPT_UD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},

	{IBV_QPS_SQE, IBV_QPS_RTS, IBV_QPT_UC, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_SQE, IBV_QPS_RTS, IBV_QPT_UD, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

bool urxe_qp_transition_ok(enum ibv_qp_state from, enum ibv_qp_state to, enum ibv_qp_type type,
			   int mask)
{
	mask &= ~IBV_QP_STATE;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if ((t->from != ANY && t->from != (int)from) || t->to != (int)to ||
		    (t->type != ANY && t->type != (int)type))
			continue;
		return (mask & t->required) == t->required &&
		       !(mask & ~(t->required | t->optional));
	}
	return false;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the tests of QPs share: a context, a QP with a queue of four each way, and its way through
 * the states (IBTA vol. 1, 10.3.1) with the attributes that its service asks for.
 */
#ifndef URXE_TESTS_QP_TEST_H
#define URXE_TESTS_QP_TEST_H

#include "hca/verbs.h"

/* Of the device on lo. */
static inline struct ibv_context *open_lo(void)
{
	struct urxe_device *dev = lo_device();
	struct ibv_device **devices = urxe_get_devices(NULL);
	struct ibv_context *context = devices ? urxe_open_device(devices[dev->index]) : NULL;

	assert_non_null(context);
	return context;
}

static inline struct ibv_qp *small_qp(struct ibv_pd *pd, struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = urxe_create_qp(pd, &init);

	assert_non_null(qp);
	return qp;
}

static inline void enter(struct ibv_qp *qp, struct ibv_qp_attr *attr, enum ibv_qp_state state,
			 int mask)
{
	attr->qp_state = state;
	assert_int_equal(urxe_modify_qp(qp, attr, IBV_QP_STATE | mask), 0);
}

/* From RESET by INIT. */
static inline void enter_rtr(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;

	attr->port_num = 1;
	enter(qp, attr, IBV_QPS_INIT,
	      IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	enter(qp, attr, IBV_QPS_RTR,
	      ud ? 0
		 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
}

static inline void enter_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	enter(qp, attr, IBV_QPS_RTS,
	      IBV_QP_SQ_PSN | (qp->qp_type == IBV_QPT_RC
				       ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						 IBV_QP_MAX_QP_RD_ATOMIC
				       : 0));
}

#endif

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Bad arguments: each verb answers with the errno of its man page, and changes nothing. */
#include <sys/mman.h>

#include "verbs_test.h"

static struct ibv_device_attr limits;

static void query_limits(void)
{
	NEED(!ibv_query_device(ctx, &limits));
	EXPECT_TRUE(limits.max_qp >= 65536);
	EXPECT_TRUE(limits.max_qp_wr >= 16384);
	EXPECT_TRUE(limits.max_sge >= 32);
}

static void cq_arguments(void)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq *cq;

	query_limits();
	EXPECT_NULL(ibv_create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
	EXPECT_NULL(ibv_create_cq(ctx, -1, NULL, NULL, 0), EINVAL);
	EXPECT_NULL(ibv_create_cq(ctx, limits.max_cqe + 1, NULL, NULL, 0), EINVAL);
	EXPECT_NULL(ibv_create_cq(ctx, 1, NULL, NULL, ctx->num_comp_vectors), EINVAL);
	EXPECT_NULL(ibv_create_cq(ctx, 1, NULL, NULL, -1), EINVAL);
	cq = ibv_create_cq(ctx, limits.max_cqe, NULL, NULL, ctx->num_comp_vectors - 1);
	NEED(cq);
	EXPECT_TRUE(cq->cqe >= limits.max_cqe);
	EXPECT(ibv_resize_cq(cq, 0), EINVAL);
	EXPECT(ibv_resize_cq(cq, -5), EINVAL);
	EXPECT(ibv_resize_cq(cq, limits.max_cqe + 1), EINVAL);
	EXPECT(ibv_resize_cq(cq, 7), 0);
	EXPECT_TRUE(cq->cqe >= 7);
	EXPECT(ibv_req_notify_cq(cq, 0), 0); /* without a channel: nobody will see the event */
	EXPECT(ibv_destroy_cq(cq), 0);
	NEED(channel);
	cq = ibv_create_cq(ctx, 1, NULL, channel, 0);
	NEED(cq);
	EXPECT(ibv_req_notify_cq(cq, 0), 0);
	EXPECT(ibv_destroy_comp_channel(channel), EBUSY);
	EXPECT(ibv_destroy_cq(cq), 0);
	EXPECT(ibv_destroy_comp_channel(channel), 0);
}

static void cq_ex_arguments(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 16};
	struct ibv_cq_ex *cq;

	attr.wc_flags = ~0ull;
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr.wc_flags = 0;
	attr.comp_mask = 1u << 20;
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	attr.flags = 1u << 20;
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EOPNOTSUPP);
	attr.flags = 0;
	attr.cqe = 0;
	EXPECT_NULL(ibv_create_cq_ex(ctx, &attr), EINVAL);
	attr.cqe = 16;
	cq = ibv_create_cq_ex(ctx, &attr);
	NEED(cq);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void qp_arguments(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	const struct ibv_qp_init_attr good = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp;

	query_limits();
	NEED(cq);
#define BAD(member, value, error)                             \
	do {                                                  \
		attr = good;                                  \
		attr.member = value;                          \
		EXPECT_NULL(ibv_create_qp(pd, &attr), error); \
	} while (0)
	BAD(cap.max_send_wr, (uint32_t)limits.max_qp_wr + 1, EINVAL);
	BAD(cap.max_recv_wr, (uint32_t)limits.max_qp_wr + 1, EINVAL);
	BAD(cap.max_send_wr, UINT32_MAX, EINVAL);
	BAD(cap.max_send_sge, (uint32_t)limits.max_sge + 1, EINVAL);
	BAD(cap.max_recv_sge, (uint32_t)limits.max_sge + 1, EINVAL);
	BAD(cap.max_recv_sge, UINT32_MAX, EINVAL);
	BAD(cap.max_inline_data, 1u << 20, EINVAL);
	BAD(cap.max_inline_data, UINT32_MAX, EINVAL);
	BAD(send_cq, NULL, EINVAL);
	BAD(recv_cq, NULL, EINVAL);
	BAD(qp_type, IBV_QPT_XRC_RECV, EINVAL); /* without a domain */
	BAD(qp_type, IBV_QPT_DRIVER, EOPNOTSUPP);
	BAD(qp_type, 0, EOPNOTSUPP);
	BAD(qp_type, 99, EOPNOTSUPP);
	/* What each limit promises, and queues of no length. */
	attr = good;
	attr.cap.max_send_wr = attr.cap.max_recv_wr = limits.max_qp_wr;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = limits.max_sge;
	attr.cap.max_inline_data = 1024;
	qp = ibv_create_qp(pd, &attr);
	NEED(qp);
	EXPECT(attr.cap.max_send_wr, limits.max_qp_wr);
	EXPECT_TRUE(attr.cap.max_inline_data >= 1024);
	EXPECT(ibv_destroy_qp(qp), 0);
	attr = good;
	memset(&attr.cap, 0, sizeof(attr.cap));
	qp = ibv_create_qp(pd, &attr);
	NEED(qp);
	EXPECT(ibv_destroy_qp(qp), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
}

static void qp_ex_arguments(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	const struct ibv_qp_init_attr_ex good = {
		.send_cq = cq,
		.recv_cq = cq,
		.pd = pd,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.cap = {.max_send_wr = 4, .max_send_sge = 1},
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;

	NEED(cq);
#define BAD_EX(member, value, error)                              \
	do {                                                      \
		attr = good;                                      \
		attr.member = value;                              \
		EXPECT_NULL(ibv_create_qp_ex(ctx, &attr), error); \
	} while (0)
	BAD_EX(send_ops_flags, IBV_QP_EX_WITH_RDMA_READ, EOPNOTSUPP);
	BAD_EX(send_ops_flags, 1ull << 40, EOPNOTSUPP);
	BAD_EX(comp_mask, good.comp_mask | IBV_QP_INIT_ATTR_XRCD, EOPNOTSUPP);
	BAD_EX(comp_mask, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, EINVAL); /* no PD */
	BAD_EX(pd, NULL, EINVAL);
	qp = ibv_create_qp_ex(ctx, (attr = good, &attr));
	NEED(qp);
	EXPECT_TRUE(ibv_qp_to_qp_ex(qp));
	EXPECT(ibv_destroy_qp(qp), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
}

static void srq_arguments(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 0, .max_sge = 1}};
	struct ibv_srq_attr change = {.max_wr = 0};
	struct ibv_srq *srq;

	query_limits();
	EXPECT_NULL(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_wr = limits.max_srq_wr + 1;
	EXPECT_NULL(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_wr = 8;
	attr.attr.max_sge = limits.max_srq_sge + 1;
	EXPECT_NULL(ibv_create_srq(pd, &attr), EINVAL);
	attr.attr.max_sge = limits.max_srq_sge;
	srq = ibv_create_srq(pd, &attr);
	NEED(srq);
	EXPECT(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL);
	change.max_wr = limits.max_srq_wr + 1;
	EXPECT(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL);
	change.srq_limit = 9; /* above its size */
	EXPECT(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), EINVAL);
	EXPECT(ibv_modify_srq(srq, &change, 1 << 9), EINVAL);
	EXPECT(ibv_query_srq(srq, &change), 0);
	EXPECT(change.max_wr, 8);
	EXPECT(change.srq_limit, 0);
	change.srq_limit = 5;
	EXPECT(ibv_modify_srq(srq, &change, IBV_SRQ_LIMIT), 0);
	change.max_wr = 4; /* below its limit */
	EXPECT(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR), EINVAL);
	change.srq_limit = 4;
	EXPECT(ibv_modify_srq(srq, &change, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	EXPECT(ibv_destroy_srq(srq), 0);
}

static void mr_arguments(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *mem =
		mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *fixed = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	NEED(mem != MAP_FAILED && fixed != MAP_FAILED);
	NEED(!munmap(mem + 2 * page, page));
	EXPECT_NULL(ibv_reg_mr(pd, mem, page, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	EXPECT_NULL(ibv_reg_mr(pd, mem, page, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	EXPECT_NULL(ibv_reg_mr(pd, mem, page, 1 << 12), EINVAL);
	EXPECT_NULL(ibv_reg_mr(pd, mem + 2 * page, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	EXPECT_NULL(ibv_reg_mr(pd, mem + page, page + 1, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	EXPECT_NULL(ibv_reg_mr(pd, mem, 4 * page, 0), EFAULT); /* a hole in the middle */
	EXPECT_NULL(ibv_reg_mr(pd, NULL, page, 0), EFAULT);
	EXPECT_NULL(ibv_reg_mr(pd, fixed, page, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	EXPECT_TRUE(!ibv_reg_mr(pd, mem, SIZE_MAX, 0)); /* over the end of the address space */
	EXPECT_TRUE(!ibv_reg_mr(pd, mem, SIZE_MAX - (uintptr_t)mem, 0));
	EXPECT_NULL(ibv_reg_mr_iova(pd, mem, page, UINT64_MAX - page + 2, 0), EINVAL);
	mr = ibv_reg_mr_iova(pd, mem, page, UINT64_MAX - page + 1, 0); /* just up to the end */
	NEED(mr);
	EXPECT(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(pd, fixed, page, IBV_ACCESS_REMOTE_READ);
	NEED(mr);
	EXPECT(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(pd, mem, 0, IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	EXPECT(ibv_dereg_mr(mr), 0);
	munmap(mem, 2 * page);
	munmap(mem + 3 * page, page);
	munmap(fixed, page);
}

static void ah_arguments(void)
{
	struct ibv_ah_attr attr = av();
	struct ibv_ah *ah;

	attr.is_global = 0;
	attr.dlid = 1; /* of 0 rsockets make one to themselves */
	EXPECT_NULL(ibv_create_ah(pd, &attr), EINVAL);
	attr = av();
	attr.port_num = 2;
	EXPECT_NULL(ibv_create_ah(pd, &attr), EINVAL);
	attr.port_num = 0;
	EXPECT_NULL(ibv_create_ah(pd, &attr), EINVAL);
	attr = av();
	attr.grh.sgid_index = 255;
	EXPECT_NULL(ibv_create_ah(pd, &attr), EINVAL);
	attr = av();
	ah = ibv_create_ah(pd, &attr);
	NEED(ah);
	EXPECT(ibv_destroy_ah(ah), 0);
}

static void queries(void)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid out;
	__be16 pkey;

	EXPECT(ibv_query_port(ctx, 0, &port), EINVAL);
	EXPECT(ibv_query_port(ctx, 2, &port), EINVAL);
	EXPECT(ibv_query_gid(ctx, 2, 0, &out), -1);
	EXPECT(ibv_query_gid(ctx, 1, -1, &out), -1);
	EXPECT(ibv_query_gid(ctx, 1, 100000, &out), -1);
	EXPECT(ibv_query_pkey(ctx, 1, 1, &pkey), -1);
	EXPECT(ibv_query_gid_ex(ctx, 1, 100000, &entry, 0), EINVAL);
	EXPECT(ibv_query_gid_ex(ctx, 1, 0, &entry, 1), EINVAL);
	EXPECT(ibv_query_gid_ex(ctx, 1, 0, &entry, 0), 0);
	EXPECT_TRUE(!memcmp(&entry.gid, &gid, sizeof(gid)));
}

/* What is in use cannot be destroyed. */
static void in_use(void)
{
	static char buf[64];
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	struct ibv_ah_attr ah_attr = av();
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1}};
	struct ibv_cq *scq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_cq *rcq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	union ibv_gid group = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 224, [15] = 77}};
	struct setup ud = {.type = IBV_QPT_UD};
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_qp *qp;

	NEED(other && scq && rcq);
	NEED(mr = ibv_reg_mr(other, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE));
	EXPECT_ERRNO(ibv_dealloc_pd(other), EBUSY);
	EXPECT(ibv_dereg_mr(mr), 0);
	NEED(mw = ibv_alloc_mw(other, IBV_MW_TYPE_1));
	EXPECT_ERRNO(ibv_dealloc_pd(other), EBUSY);
	EXPECT(ibv_dealloc_mw(mw), 0);
	NEED(ah = ibv_create_ah(other, &ah_attr));
	EXPECT_ERRNO(ibv_dealloc_pd(other), EBUSY);
	EXPECT(ibv_destroy_ah(ah), 0);
	NEED(srq = ibv_create_srq(other, &srq_attr));
	EXPECT_ERRNO(ibv_dealloc_pd(other), EBUSY);
	init.send_cq = scq;
	init.recv_cq = rcq;
	init.srq = srq;
	NEED(qp = ibv_create_qp(other, &init));
	EXPECT_ERRNO(ibv_destroy_cq(scq), EBUSY);
	EXPECT_ERRNO(ibv_destroy_cq(rcq), EBUSY);
	EXPECT_ERRNO(ibv_destroy_srq(srq), EBUSY);
	EXPECT_ERRNO(ibv_dealloc_pd(other), EBUSY);
	NEED(!to_init(qp, &ud));
	EXPECT_ERRNO(ibv_attach_mcast(qp, &gid, 0), EINVAL); /* no group */
	EXPECT_ERRNO(ibv_detach_mcast(qp, &group, 0), EINVAL);
	EXPECT(ibv_attach_mcast(qp, &group, 0), 0);
	EXPECT_ERRNO(ibv_destroy_qp(qp), EBUSY);
	EXPECT(ibv_detach_mcast(qp, &group, 0), 0);
	EXPECT(ibv_destroy_qp(qp), 0);
	EXPECT(ibv_destroy_srq(srq), 0);
	EXPECT(ibv_destroy_cq(scq), 0);
	EXPECT(ibv_destroy_cq(rcq), 0);
	EXPECT(ibv_dealloc_pd(other), 0);
	EXPECT_NULL(ibv_alloc_mw(pd, 7), EINVAL);
}

static void modify_values(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, now;
	struct end e;
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

	make_end(&e, &s, pd, NULL);
#define TRY(good, change, mask, error)                           \
	do {                                                     \
		attr = good;                                     \
		change;                                          \
		EXPECT(ibv_modify_qp(e.qp, &attr, mask), error); \
	} while (0)
	const struct ibv_qp_attr in = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	TRY(in, attr.port_num = 0, init_mask, EINVAL);
	TRY(in, attr.port_num = 2, init_mask, EINVAL);
	TRY(in, attr.pkey_index = 1, init_mask, EINVAL);
	TRY(in, attr.qp_state = 77, init_mask, EINVAL);
	TRY(in, attr.qp_state = IBV_QPS_RTS, init_mask, EINVAL);
	TRY(in, attr.port_num = 1, init_mask | IBV_QP_QKEY, EINVAL);
	TRY(in, attr.port_num = 1, init_mask & ~IBV_QP_PORT, EINVAL);
	EXPECT(state_of(e.qp), IBV_QPS_RESET);
	TRY(in, attr.port_num = 1, init_mask, 0);

	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};

	rtr.dest_qp_num = e.qp->qp_num;
	rtr.max_dest_rd_atomic = 1;
	rtr.ah_attr = av();
	TRY(rtr, attr.path_mtu = 0, rtr_mask, EINVAL);
	TRY(rtr, attr.path_mtu = 6, rtr_mask, EINVAL);
	TRY(rtr, attr.dest_qp_num = 1 << 24, rtr_mask, EINVAL);
	TRY(rtr, attr.max_dest_rd_atomic = 129, rtr_mask, EINVAL);
	TRY(rtr, attr.min_rnr_timer = 32, rtr_mask, EINVAL);
	TRY(rtr, attr.ah_attr.is_global = 0, rtr_mask, EINVAL);
	TRY(rtr, attr.ah_attr.port_num = 2, rtr_mask, EINVAL);
	TRY(rtr, attr.ah_attr.grh.sgid_index = 200, rtr_mask, EINVAL);
	TRY(rtr, attr.port_num = 1, rtr_mask & ~IBV_QP_AV, EINVAL);
	EXPECT(state_of(e.qp), IBV_QPS_INIT);
	EXPECT(ibv_query_qp(e.qp, &now, ~0, &init), 0);
	EXPECT(now.dest_qp_num, 0);
	EXPECT(now.min_rnr_timer, 0);
	TRY(rtr, attr.port_num = 1, rtr_mask, 0);

	const struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7};

	TRY(rts, attr.timeout = 32, rts_mask, EINVAL);
	TRY(rts, attr.retry_cnt = 8, rts_mask, EINVAL);
	TRY(rts, attr.rnr_retry = 8, rts_mask, EINVAL);
	TRY(rts, attr.max_rd_atomic = 129, rts_mask, EINVAL);
	TRY(rts, attr.cur_qp_state = IBV_QPS_RTS, rts_mask | IBV_QP_CUR_STATE, EINVAL);
	EXPECT(state_of(e.qp), IBV_QPS_RTR);
	TRY(rts, attr.cur_qp_state = IBV_QPS_RTR, rts_mask | IBV_QP_CUR_STATE, 0);
	EXPECT(state_of(e.qp), IBV_QPS_RTS);

	const int load = IBV_QP_ALT_PATH, ask = IBV_QP_PATH_MIG_STATE;
	struct ibv_qp_attr alt = {.path_mig_state = IBV_MIG_REARM, .alt_port_num = 1};

	alt.alt_ah_attr = av();
	TRY(alt, attr.alt_port_num = 0, load, EINVAL);
	TRY(alt, attr.alt_port_num = 2, load, EINVAL);
	TRY(alt, attr.alt_ah_attr.port_num = 2, load, EINVAL);
	TRY(alt, attr.alt_ah_attr.is_global = 0, load, EINVAL);
	TRY(alt, attr.alt_ah_attr.grh.sgid_index = 200, load, EINVAL);
	TRY(alt, memset(&attr.alt_ah_attr.grh.dgid, 0xff, 16), load, EINVAL);
	TRY(alt, attr.alt_pkey_index = 1, load, EINVAL);
	TRY(alt, attr.alt_timeout = 32, load, EINVAL);
	TRY(alt, attr.timeout = 1, load | IBV_QP_TIMEOUT, EINVAL);
	TRY(alt, attr.alt_port_num = 1, ask, EINVAL); /* none is loaded */
	TRY(alt, attr.path_mig_state = IBV_MIG_ARMED, load | ask, EINVAL);
	TRY(alt, attr.path_mig_state = 3, load | ask, EINVAL);
	TRY(alt, attr.path_mig_state = -1, load | ask, EINVAL);
	EXPECT(ibv_query_qp(e.qp, &now, ~0, &init), 0);
	EXPECT(now.alt_port_num, 0);
	EXPECT(now.path_mig_state, IBV_MIG_MIGRATED);
	TRY(alt, attr.path_mig_state = IBV_MIG_MIGRATED, ask, 0); /* as it is */
	TRY(alt, attr.alt_timeout = 7, load, 0);
	TRY(alt, attr.alt_port_num = 0, ask, 0);
	TRY(alt, attr.path_mig_state = IBV_MIG_MIGRATED, ask, EINVAL);
	EXPECT(ibv_query_qp(e.qp, &now, ~0, &init), 0);
	EXPECT(now.alt_port_num, 1);
	EXPECT(now.alt_timeout, 7);
	EXPECT(now.path_mig_state, IBV_MIG_REARM);
	free_end(&e);
}

static void post_send_states(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr_id = 1}, *bad;
	struct ibv_recv_wr recv = {.wr_id = 2}, *bad_recv;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct end e;

	make_end(&e, &s, pd, NULL);
	for (int step = 0; step < 3; step++) {
		bad = NULL;
		EXPECT(ibv_post_send(e.qp, &wr, &bad), EINVAL);
		EXPECT_TRUE(bad == &wr);
		if (step == 0) {
			bad_recv = NULL;
			EXPECT(ibv_post_recv(e.qp, &recv, &bad_recv), EINVAL);
			EXPECT_TRUE(bad_recv == &recv);
			NEED(!to_init(e.qp, &s));
		} else if (step == 1) {
			EXPECT(ibv_post_recv(e.qp, &recv, &bad_recv), 0);
			NEED(!to_rtr(e.qp, e.qp->qp_num, &s));
		}
	}
	EXPECT_QUIET(e.scq);
	/* In ERR both are taken and come back. */
	NEED(!ibv_modify_qp(e.qp, &attr, IBV_QP_STATE));
	EXPECT_WC(e.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT(ibv_post_send(e.qp, &wr, &bad), 0);
	EXPECT_WC(e.scq, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT(ibv_post_recv(e.qp, &recv, &bad_recv), 0);
	EXPECT_WC(e.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	free_end(&e);
}

static void post_send_arguments(void)
{
	static char buf[4096];
	struct setup s = {.type = IBV_QPT_RC,
			  .cap = {.max_send_wr = 4, .max_send_sge = 2, .max_inline_data = 64}};
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge}, *bad;
	struct end a, b;

	NEED(mr);
	for (int i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)buf, 16, mr->lkey};
	make_pair(&a, &b, &s);
	wr.num_sge = 3;
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.num_sge = -1;
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	sge[0].length = 65;
	EXPECT(post(a.qp, &wr), ENOMEM);
	sge[0].length = UINT32_MAX;
	EXPECT(post(a.qp, &wr), ENOMEM);
	sge[0].length = 8;
	for (int op = IBV_WR_RDMA_READ; op <= IBV_WR_ATOMIC_FETCH_AND_ADD; op++) {
		wr.opcode = op; /* nothing can be inline of what comes back */
		EXPECT(post(a.qp, &wr), EINVAL);
	}
	wr.send_flags = 0;
	wr.opcode = 99;
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.opcode = IBV_WR_TSO;
	EXPECT(post(a.qp, &wr), EINVAL);
	/* More than 2 GiB */
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.num_sge = 2;
	sge[0].length = sge[1].length = 0x7fffffff;
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.opcode = 12; /* the bit of IBV_QP_EX_WITH_ATOMIC_WRITE, but no opcode */
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.num_sge = 1;
	for (int op = IBV_WR_RDMA_WRITE; op <= IBV_WR_SEND_WITH_INV; op++) {
		wr.opcode = op | 1 << 8; /* its low byte is an opcode */
		EXPECT(post(a.qp, &wr), EINVAL);
	}
	/* An atomic's answer has 8 bytes. */
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.num_sge = 1;
	sge[0].length = 4;
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.opcode = IBV_WR_ATOMIC_WRITE;
	EXPECT(post(a.qp, &wr), EINVAL);
	sge[0].length = 16;
	EXPECT(post(a.qp, &wr), EINVAL);
	wr.opcode = IBV_WR_BIND_MW;
	wr.bind_mw.mw = NULL;
	EXPECT(post(a.qp, &wr), EINVAL);
	EXPECT_QUIET(a.scq);
	/* The bad one of a list is pointed at; those before it are done. */
	struct ibv_send_wr list[3];

	for (int i = 0; i < 3; i++)
		list[i] = (struct ibv_send_wr){.wr_id = i, .opcode = IBV_WR_RDMA_WRITE};
	list[0].next = &list[1];
	list[1].next = &list[2];
	list[1].opcode = 99;
	bad = NULL;
	EXPECT(ibv_post_send(a.qp, list, &bad), EINVAL);
	EXPECT_TRUE(bad == &list[1]);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_QUIET(a.scq);
	/* No bytes inline need no address. */
	sge[0] = (struct ibv_sge){0};
	wr = (struct ibv_send_wr){.wr_id = 5,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE,
				  .sg_list = sge,
				  .num_sge = 1};
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 5, IBV_WC_SUCCESS);
	EXPECT(state_of(a.qp), IBV_QPS_RTS);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
}

/* Table 53 of the standard: what each transport service can do. */
static void post_send_services(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		bool uc, ud;
	} ops[] = {
		{IBV_WR_RDMA_WRITE, true, false},
		{IBV_WR_RDMA_WRITE_WITH_IMM, true, false},
		{IBV_WR_SEND, true, true},
		{IBV_WR_SEND_WITH_IMM, true, true},
		{IBV_WR_RDMA_READ, false, false},
		{IBV_WR_ATOMIC_CMP_AND_SWP, false, false},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, false, false},
		{IBV_WR_SEND_WITH_INV, false, false},
		{IBV_WR_LOCAL_INV, true, false},
		{IBV_WR_ATOMIC_WRITE, false, false},
	};
	struct setup s[2] = {{.type = IBV_QPT_UC}, {.type = IBV_QPT_UD}};
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	struct ibv_ah_attr attr = av();
	struct ibv_ah *ah = ibv_create_ah(pd, &attr), *foreign = ibv_create_ah(other, &attr);

	NEED(ah && foreign);
	for (int t = 0; t < 2; t++) {
		struct end a, b;

		make_pair(&a, &b, &s[t]);
		for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
			struct ibv_send_wr wr = {.opcode = ops[i].opcode};
			bool has = t ? ops[i].ud : ops[i].uc;

			if (ops[i].opcode == IBV_WR_LOCAL_INV && has)
				continue; /* would stop the QP: there is no such key */
			if (t) {
				wr.wr.ud.ah = ah;
				wr.wr.ud.remote_qpn = b.qp->qp_num;
			}
			EXPECT(post(a.qp, &wr), has ? 0 : EINVAL);
			if (has)
				EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
		}
		if (t) {
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};

			EXPECT(post(a.qp, &wr), EINVAL); /* no address */
			wr.wr.ud.ah = foreign;
			EXPECT(post(a.qp, &wr), EINVAL); /* of another PD */
		}
		EXPECT_QUIET(a.scq);
		free_end(&a);
		free_end(&b);
	}
	EXPECT(ibv_destroy_ah(ah), 0);
	EXPECT(ibv_destroy_ah(foreign), 0);
	EXPECT(ibv_dealloc_pd(other), 0);
}

/* A full queue is ENOMEM at the WR that has no place, and takes more when some are done. */
static void full_queues(void)
{
	struct setup s = {
		.type = IBV_QPT_RC, .cap = {.max_send_wr = 5, .max_recv_wr = 3}, .rnr_timer = 14};
	struct ibv_send_wr list[7], *bad = NULL;
	struct ibv_recv_wr recv[4], *bad_recv = NULL;
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 3, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct end a, b;

	NEED(srq);
	make_pair(&a, &b, &s);
	for (int i = 0; i < 7; i++) {
		list[i] = (struct ibv_send_wr){.wr_id = i, .opcode = IBV_WR_SEND};
		list[i].next = i < 6 ? &list[i + 1] : NULL;
	}
	/* Without receive WRs they stay in the queue. */
	EXPECT(ibv_post_send(a.qp, list, &bad), ENOMEM);
	EXPECT_TRUE(bad == &list[5]);
	EXPECT(ibv_post_send(a.qp, &list[6], &bad), ENOMEM);
	for (int i = 0; i < 4; i++) {
		recv[i] = (struct ibv_recv_wr){.wr_id = i};
		recv[i].next = i < 3 ? &recv[i + 1] : NULL;
	}
	EXPECT(ibv_post_srq_recv(srq, recv, &bad_recv), ENOMEM);
	EXPECT_TRUE(bad_recv == &recv[3]);
	bad_recv = NULL;
	recv[0].num_sge = 2;
	EXPECT(ibv_post_srq_recv(srq, recv, &bad_recv), ENOMEM);
	recv[0].num_sge = 0;
	bad_recv = NULL;
	EXPECT(ibv_post_recv(b.qp, recv, &bad_recv), ENOMEM);
	EXPECT_TRUE(bad_recv == &recv[3]);
	for (int i = 0; i < 3; i++) {
		EXPECT_WC(a.scq, i, IBV_WC_SUCCESS);
		EXPECT_WC(b.rcq, i, IBV_WC_SUCCESS);
	}
	/* Two are left, so there is room for three. */
	EXPECT(ibv_post_send(a.qp, &list[4], &bad), 0);
	bad = NULL;
	EXPECT(ibv_post_send(a.qp, &list[6], &bad), ENOMEM);
	EXPECT_TRUE(bad == &list[6]);
	/* Too many pieces */
	struct ibv_sge sge[5] = {{0}};
	struct ibv_recv_wr many = {.sg_list = sge, .num_sge = 5};

	EXPECT(ibv_post_recv(b.qp, &many, &bad_recv), EINVAL);
	many.num_sge = -1;
	EXPECT(ibv_post_recv(b.qp, &many, &bad_recv), EINVAL);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_destroy_srq(srq), 0);
}

/* ibv_wr_*: the first error of a round sticks, and nothing of the round is posted. */
static void wr_interface(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.pd = pd,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_WRITE,
		.cap = {.max_send_wr = 4, .max_send_sge = 1, .max_inline_data = 32},
	};
	struct ibv_mw_bind_info nothing = {.length = 8};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &init);
	struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	struct ibv_sge two[2] = {{0}};
	char data[64] = {0};

	NEED(cq && ex);
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	EXPECT(ibv_wr_complete(ex), EINVAL); /* in RESET */
	NEED(!to_init(qp, &s) && !to_rtr(qp, qp->qp_num, &s) && !to_rts(qp, &s));

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_set_sge_list(ex, 2, two);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_set_sge_list(ex, 1, NULL);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_set_inline_data_list(ex, 1, NULL);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_set_inline_data(ex, data, 33);
	EXPECT(ibv_wr_complete(ex), ENOMEM);

	ibv_wr_start(ex);
	ibv_wr_rdma_read(ex, 0, 0);
	ibv_wr_set_inline_data(ex, data, 8);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_atomic_fetch_add(ex, 0, 0, 1);
	ibv_wr_set_sge(ex, 0, 0, 4);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_atomic_fetch_add(ex, 0, 0, 1);
	EXPECT(ibv_wr_complete(ex), EINVAL); /* nowhere to put the answer */

	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, 0, 0, data);
	ibv_wr_set_sge(ex, 0, 0, 8);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, NULL, 0, &nothing);
	EXPECT(ibv_wr_complete(ex), EINVAL);

	ibv_wr_start(ex);
	for (int i = 0; i < 5; i++)
		ibv_wr_rdma_write(ex, 0, 0);
	EXPECT(ibv_wr_complete(ex), ENOMEM);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, 0, 0);
	ibv_wr_abort(ex);
	EXPECT_QUIET(cq);

	ibv_wr_start(ex);
	for (int i = 0; i < 4; i++) {
		ex->wr_id = i;
		ibv_wr_rdma_write(ex, 0, 0);
	}
	EXPECT(ibv_wr_complete(ex), 0);
	for (int i = 0; i < 4; i++)
		EXPECT_WC(cq, i, IBV_WC_SUCCESS);
	EXPECT(ibv_destroy_qp(qp), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
}

/* Of the setters of a request's data the last one counts (ibv_wr_post(3): one is called). */
static void wr_data_twice(void)
{
	static char from[4096] = "gathered", to[4096];
	const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, from, sizeof(from), rights);
	struct ibv_mr *remote = ibv_reg_mr(pd, to, sizeof(to), rights);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.pd = pd,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
		.cap = {.max_send_wr = 2, .max_send_sge = 1, .max_inline_data = 32},
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &init);
	struct ibv_qp_ex *ex = qp ? ibv_qp_to_qp_ex(qp) : NULL;
	struct ibv_data_buf halves[] = {{"in", 2}, {"line", 4}};

	NEED(cq && mr && remote && ex);
	NEED(!to_init(qp, &s) && !to_rtr(qp, qp->qp_num, &s) && !to_rts(qp, &s));
	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, remote->rkey, (uintptr_t)to);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)from, 1 << 30);
	ibv_wr_set_inline_data_list(ex, 2, halves);
	EXPECT(ibv_wr_complete(ex), 0);
	EXPECT_WC(cq, 0, IBV_WC_SUCCESS);
	EXPECT(memcmp(to, "inline\0", 8), 0);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, remote->rkey, (uintptr_t)to);
	ibv_wr_set_inline_data(ex, "inline", 6);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)from, sizeof(from));
	EXPECT(ibv_wr_complete(ex), 0);
	EXPECT_WC(cq, 0, IBV_WC_SUCCESS);
	EXPECT(memcmp(to, from, sizeof(to)), 0);

	ibv_wr_start(ex);
	ibv_wr_rdma_write(ex, remote->rkey, (uintptr_t)to);
	ibv_wr_set_inline_data(ex, "longer", 6);
	ibv_wr_set_inline_data(ex, "short", 5);
	EXPECT(ibv_wr_complete(ex), 0);
	EXPECT_WC(cq, 0, IBV_WC_SUCCESS);
	EXPECT(memcmp(to, "shortred", 8), 0);
	EXPECT(ibv_destroy_qp(qp), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(remote), 0);
}

static struct ibv_qp_ex *make_addressed(enum ibv_qp_type type, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.pd = pd,
		.qp_type = type,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &init);
	struct setup s = {.type = type == IBV_QPT_UD ? IBV_QPT_UD : IBV_QPT_RC};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = 1,
				  .ah_attr = av()};

	NEED(qp && !to_init(qp, &s));
	NEED(!ibv_modify_qp(qp, &rtr, type == IBV_QPT_UD ? IBV_QP_STATE : mask));
	NEED(!to_rts(qp, &s));
	return ibv_qp_to_qp_ex(qp);
}

/* Where a message goes must be said each time, whatever the last one in its place said. */
static void wr_addresses(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_ah_attr to = av();
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	struct ibv_qp_ex *ud, *xrc;

	NEED(cq && ah);
	ud = make_addressed(IBV_QPT_UD, cq);
	for (int i = 0; i < 3; i++) {
		ibv_wr_start(ud);
		ibv_wr_send(ud);
		if (i == 1)
			ibv_wr_set_ud_addr(ud, ah, 1, 0);
		EXPECT(ibv_wr_complete(ud), i == 1 ? 0 : EINVAL);
		if (i == 1)
			EXPECT_WC(cq, 0, IBV_WC_SUCCESS);
	}
	xrc = make_addressed(IBV_QPT_XRC_SEND, cq);
	ibv_wr_start(xrc);
	ibv_wr_send(xrc);
	EXPECT(ibv_wr_complete(xrc), EINVAL);
	EXPECT(ibv_destroy_qp(&ud->qp_base), 0);
	EXPECT(ibv_destroy_qp(&xrc->qp_base), 0);
	EXPECT(ibv_destroy_ah(ah), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
}

/* Memory that is not there, or may not be written to, anywhere in the region: EFAULT (11.2.8.2). */
static void unreachable_pages(void)
{
	static const size_t lengths[] = {8, 64, 5000};
	const size_t page = sysconf(_SC_PAGESIZE);
	const int write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	for (int i = 0; i < 3; i++) {
		size_t len = lengths[i] * page;
		uint8_t *p =
			mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		uint8_t *middle = p + len / 2;
		struct ibv_mr *mr;

		NEED(p != MAP_FAILED);
		NEED(!mprotect(middle, page, PROT_READ));
		EXPECT_NULL(ibv_reg_mr(pd, p, len, write), EFAULT);
		NEED(mr = ibv_reg_mr(pd, p, len, IBV_ACCESS_REMOTE_READ));
		EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, write),
		       IBV_REREG_MR_ERR_CMD);
		EXPECT(ibv_dereg_mr(mr), 0);
		NEED(mr = ibv_reg_mr(pd, p, len, write | IBV_ACCESS_ON_DEMAND));
		EXPECT(ibv_dereg_mr(mr), 0);
		NEED(!mprotect(middle, page, PROT_NONE));
		EXPECT_NULL(ibv_reg_mr(pd, p, len, IBV_ACCESS_REMOTE_READ), EFAULT);
		NEED(!munmap(middle, page));
		EXPECT_NULL(ibv_reg_mr(pd, p, len, IBV_ACCESS_REMOTE_READ), EFAULT);
		EXPECT_NULL(ibv_reg_mr(pd, p, len, write), EFAULT);
		/* Of several mappings, which is no fault */
		NEED(mmap(middle, page, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == middle);
		NEED(mr = ibv_reg_mr(pd, p + 1, len - 2, write));
		EXPECT(ibv_dereg_mr(mr), 0);
		munmap(p, len);
	}
}

/* A mapping that reaches beyond the end of its file */
static void beyond_the_file(void)
{
	static const size_t lengths[] = {8, 64};
	const size_t page = sysconf(_SC_PAGESIZE);
	int fd = memfd_create("short", 0);

	NEED(fd >= 0);
	for (int i = 0; i < 2; i++) {
		size_t len = lengths[i] * page;
		uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		struct ibv_mr *mr;

		NEED(p != MAP_FAILED);
		NEED(!ftruncate(fd, len - page));
		EXPECT_NULL(ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE), EFAULT);
		NEED(mr = ibv_reg_mr(pd, p, len - page, IBV_ACCESS_LOCAL_WRITE));
		EXPECT(ibv_dereg_mr(mr), 0);
		munmap(p, len);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"cq_arguments", cq_arguments},
		{"cq_ex_arguments", cq_ex_arguments},
		{"qp_arguments", qp_arguments},
		{"qp_ex_arguments", qp_ex_arguments},
		{"srq_arguments", srq_arguments},
		{"mr_arguments", mr_arguments},
		{"unreachable_pages", unreachable_pages},
		{"beyond_the_file", beyond_the_file},
		{"ah_arguments", ah_arguments},
		{"queries", queries},
		{"in_use", in_use},
		{"modify_values", modify_values},
		{"post_send_states", post_send_states},
		{"post_send_arguments", post_send_arguments},
		{"post_send_services", post_send_services},
		{"full_queues", full_queues},
		{"wr_interface", wr_interface},
		{"wr_data_twice", wr_data_twice},
		{"wr_addresses", wr_addresses},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

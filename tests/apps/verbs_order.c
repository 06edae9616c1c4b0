// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects of all kinds, made at random of what there is and destroyed in a random order, with
 * requests under way: what is in use says EBUSY, and at the end all of it can be destroyed. The
 * same numbers come in every run; SEED gives others.
 */
#include <fcntl.h>

#include "verbs_test.h"

/* Of inline functions of verbs.h that find no table of operations. */
#pragma GCC diagnostic ignored "-Wnull-dereference"

enum kind {
	PD,
	TD,
	PARENT,
	CHANNEL,
	CQ,
	SRQ,
	TM_SRQ,
	XRCD,
	XRC_SRQ,
	MR,
	MW,
	AH,
	DM,
	DM_MR,
	COUNTERS,
	WQ,
	TABLE,
	RC,
	UD,
	RAW,
	RSS,
	TM_QP,
	XRC_SEND,
	XRC_RECV,
	FLOW,
	KINDS,
};

#define MOST  400
#define STEPS 20000

static struct object {
	enum kind kind;
	void *it;
} objects[MOST];
static unsigned count, made[KINDS];
static uint8_t memory[8192];

/* One of a kind; NULL when there is none. */
static void *any(enum kind kind)
{
	unsigned start = count ? random() % count : 0;

	for (unsigned i = 0; i < count; i++)
		if (objects[(start + i) % count].kind == kind)
			return objects[(start + i) % count].it;
	return NULL;
}

static struct ibv_pd *any_pd(void)
{
	void *parent = random() % 2 ? any(PARENT) : NULL;

	return parent ? parent : any(PD);
}

/* ---- to make one ---- */

static void *make_parent(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = any(PD),
						   .td = random() % 2 ? any(TD) : NULL};

	return attr.pd ? ibv_alloc_parent_domain(ctx, &attr) : NULL;
}

static void *make_srq(enum ibv_srq_type type)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = type,
		.pd = any_pd(),
		.cq = any(CQ),
		.xrcd = any(XRCD),
		.tm_cap = {.max_num_tags = 4, .max_ops = 4},
	};

	if (!attr.pd || (type != IBV_SRQT_BASIC && !attr.cq) ||
	    (type == IBV_SRQT_XRC && !attr.xrcd))
		return NULL;
	if (type != IBV_SRQT_BASIC)
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
	if (type == IBV_SRQT_XRC)
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
	if (type == IBV_SRQT_TM)
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
	return ibv_create_srq_ex(ctx, &attr);
}

static void *make_memory(enum kind kind)
{
	struct ibv_ah_attr ah = av();
	struct ibv_pd *of = any_pd();
	struct ibv_dm *dm = any(DM);

	if (!of)
		return NULL;
	switch (kind) {
	case MR:
		return ibv_reg_mr(of, memory, sizeof(memory),
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	case MW: return ibv_alloc_mw(of, random() % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	case AH: return ibv_create_ah(of, &ah);
	default:
		return dm ? ibv_reg_dm_mr(of, dm, 0, 64,
					  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)
			  : NULL;
	}
}

static void *make_wq(void)
{
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = any_pd(), .cq = any(CQ)};

	return attr.pd && attr.cq ? ibv_create_wq(ctx, &attr) : NULL;
}

static void *make_table(void)
{
	struct ibv_wq *wqs[2] = {any(WQ), any(WQ)};
	struct ibv_rwq_ind_table_init_attr attr = {.log_ind_tbl_size = 1, .ind_tbl = wqs};

	return wqs[0] ? ibv_create_rwq_ind_table(ctx, &attr) : NULL;
}

static void *make_flow(void)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_counter_action action;
	} __attribute__((packed, aligned(8))) flow = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(flow), .port = 1},
		.action = {IBV_FLOW_SPEC_ACTION_COUNT, sizeof(flow.action), any(COUNTERS)},
	};
	struct ibv_flow_attr *attr = (void *)&flow;
	struct ibv_qp *qp = any(random() % 2 ? RAW : RSS);

	attr->num_of_specs = flow.action.counters ? 1 : 0;
	return qp ? ibv_create_flow(qp, attr) : NULL;
}

static void *make_target(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = any(XRCD)};

	return attr.xrcd ? ibv_create_qp_ex(ctx, &attr) : NULL;
}

static void *make_rss(void)
{
	static uint8_t key[40];
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = any_pd(),
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				 .rx_hash_key_len = sizeof(key),
				 .rx_hash_key = key,
				 .rx_hash_fields_mask =
					 IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4},
		.rwq_ind_tbl = any(TABLE),
	};

	return attr.pd && attr.rwq_ind_tbl ? ibv_create_qp_ex(ctx, &attr) : NULL;
}

/* Connected with itself, and with requests that nobody asks about. */
static void use(struct ibv_qp *qp)
{
	struct setup s = {.type = qp->qp_type};
	struct ibv_recv_wr receive = {.wr_id = 1}, *bad;

	if (to_init(qp, &s) || to_rtr(qp, qp->qp_num, &s) || to_rts(qp, &s))
		return;
	if (!qp->srq)
		ibv_post_recv(qp, &receive, &bad);
	for (int i = 0; i < 3 && qp->qp_type == IBV_QPT_RC; i++) {
		struct ibv_send_wr wr = {.opcode = i ? IBV_WR_RDMA_WRITE : IBV_WR_SEND};

		post(qp, &wr);
	}
}

static void *make_qp(enum kind kind)
{
	static const enum ibv_qp_type types[KINDS] = {[RC] = IBV_QPT_RC,
						      [TM_QP] = IBV_QPT_RC,
						      [UD] = IBV_QPT_UD,
						      [RAW] = IBV_QPT_RAW_PACKET,
						      [XRC_SEND] = IBV_QPT_XRC_SEND};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = types[kind],
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = any_pd(),
		.send_cq = any(CQ),
		.recv_cq = kind == XRC_SEND ? NULL : any(CQ),
		.cap = {.max_send_wr = 4, .max_send_sge = 1},
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp;

	if (!attr.pd || !attr.send_cq)
		return NULL;
	if (kind == TM_QP) {
		attr.srq = any(TM_SRQ);
		attr.cap = (struct ibv_qp_cap){0};
		if (!attr.srq)
			return NULL;
	} else if (kind == RC && random() % 2) {
		attr.srq = any(SRQ);
	}
	if (kind != XRC_SEND && !attr.srq)
		attr.cap.max_recv_wr = attr.cap.max_recv_sge = 1;
	qp = ibv_create_qp_ex(ctx, &attr);
	if (qp && (kind == RC || kind == UD || kind == TM_QP))
		use(qp);
	return qp;
}

static void *make(enum kind kind)
{
	struct ibv_td_init_attr td = {0};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_counters_init_attr counters = {0};

	switch (kind) {
	case PD: return ibv_alloc_pd(ctx);
	case TD: return ibv_alloc_td(ctx, &td);
	case PARENT: return make_parent();
	case CHANNEL: return ibv_create_comp_channel(ctx);
	case CQ: return ibv_create_cq(ctx, 16, NULL, random() % 2 ? any(CHANNEL) : NULL, 0);
	case SRQ: return make_srq(IBV_SRQT_BASIC);
	case TM_SRQ: return make_srq(IBV_SRQT_TM);
	case XRC_SRQ: return make_srq(IBV_SRQT_XRC);
	case XRCD: return ibv_open_xrcd(ctx, &xrcd);
	case DM: return ibv_alloc_dm(ctx, &dm);
	case COUNTERS: return ibv_create_counters(ctx, &counters);
	case WQ: return make_wq();
	case TABLE: return make_table();
	case RSS: return make_rss();
	case XRC_RECV: return make_target();
	case FLOW: return make_flow();
	case MR:
	case MW:
	case AH:
	case DM_MR: return make_memory(kind);
	default: return make_qp(kind);
	}
}

/* ---- and to destroy it ---- */

static int destroy(const struct object *o)
{
	switch (o->kind) {
	case PD:
	case PARENT: return ibv_dealloc_pd(o->it);
	case TD: return ibv_dealloc_td(o->it);
	case CHANNEL: return ibv_destroy_comp_channel(o->it);
	case CQ: return ibv_destroy_cq(o->it);
	case SRQ:
	case TM_SRQ:
	case XRC_SRQ: return ibv_destroy_srq(o->it);
	case XRCD: return ibv_close_xrcd(o->it);
	case MR:
	case DM_MR: return ibv_dereg_mr(o->it);
	case MW: return ibv_dealloc_mw(o->it);
	case AH: return ibv_destroy_ah(o->it);
	case DM: return ibv_free_dm(o->it);
	case COUNTERS: return ibv_destroy_counters(o->it);
	case WQ: return ibv_destroy_wq(o->it);
	case TABLE: return ibv_destroy_rwq_ind_table(o->it);
	case FLOW: return ibv_destroy_flow(o->it);
	default: return ibv_destroy_qp(o->it);
	}
}

static bool destroyed(unsigned i)
{
	int ret = destroy(&objects[i]);

	if (ret) {
		EXPECT(ret, EBUSY);
		return false;
	}
	objects[i] = objects[--count];
	return true;
}

static void poll_one(void)
{
	struct ibv_cq *cq = any(CQ);
	struct ibv_wc wc[8];

	if (cq)
		EXPECT_TRUE(ibv_poll_cq(cq, 8, wc) >= 0);
}

static void random_order(void)
{
	bool progress = true;
	unsigned busy = 0;

	for (unsigned i = 0; i < STEPS && failures < 10; i++) {
		if (count < MOST && random() % 100 < 55) {
			enum kind kind = random() % KINDS;
			void *it = make(kind);

			if (!it)
				continue;
			objects[count++] = (struct object){kind, it};
			made[kind]++;
		} else if (count) {
			busy += !destroyed(random() % count);
		}
		if (i % 16 == 0)
			poll_one();
	}
	while (count && progress) {
		progress = false;
		for (unsigned i = count; i-- > 0;)
			progress |= i < count && destroyed(i);
	}
	EXPECT(count, 0);
	EXPECT_TRUE(busy);
	/* Raw packets may be forbidden. */
	for (enum kind kind = 0; kind < KINDS; kind++)
		if (kind != RAW && kind != RSS && kind != WQ && kind != TABLE && kind != FLOW)
			EXPECT_TRUE(made[kind]);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {{"random_order", random_order}};
	const char *seed = getenv("SEED");

	srandom(seed ? atoi(seed) : 1);
	return run_cases(cases, 1, argc, argv);
}

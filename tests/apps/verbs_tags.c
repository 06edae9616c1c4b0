// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Tag matching SRQs (ibv_post_srq_ops(3)): a sender with a plain QP, and a receiver whose QP has
 * such an SRQ and an extended CQ, in one process.
 */
#include <endian.h>
#include <infiniband/tm_types.h>

#include "verbs_test.h"

#define BYTES 300000 /* more than any packet holds */
#define HEAD  16
#define ALL   UINT64_MAX

static struct ibv_cq_ex *cq;
static struct ibv_srq *srq;
static struct ibv_qp *receiver;
static struct ibv_pd *receiver_pd; /* NULL: that of its SRQ */
static struct end sender;
static struct ibv_mr *out_mr, *in_mr, *spare_mr;
static uint8_t out[BYTES], in[BYTES], spare[BYTES];

static struct ibv_srq *make_srq(uint32_t tags, uint32_t ops)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = 16, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = ibv_cq_ex_to_cq(cq),
		.tm_cap = {.max_num_tags = tags, .max_ops = ops},
	};

	return ibv_create_srq_ex(ctx, &attr);
}

static void connect_qps(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct end e = {.qp = receiver};

	connect_end(&sender, receiver->qp_num, &s);
	connect_end(&e, sender.qp->qp_num, &s);
}

static void begin(uint32_t tags)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC};

	NEED(cq = ibv_create_cq_ex(ctx, &cq_attr));
	NEED(srq = make_srq(tags, 16));
	make_end(&sender, &s, pd, NULL);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	init.srq = srq;
	NEED(receiver = ibv_create_qp(receiver_pd ? receiver_pd : pd, &init));
	connect_qps();
	NEED(out_mr = ibv_reg_mr(pd, out, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	NEED(in_mr = ibv_reg_mr(pd, in, BYTES, IBV_ACCESS_LOCAL_WRITE));
	NEED(spare_mr = ibv_reg_mr(pd, spare, BYTES, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < BYTES; i++)
		out[i] = i * 5;
	memset(in, 0, sizeof(in));
	memset(spare, 0, sizeof(spare));
}

static void end(void)
{
	EXPECT(ibv_destroy_srq(srq), EBUSY);
	EXPECT(ibv_destroy_qp(receiver), 0);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), EBUSY);
	EXPECT(ibv_destroy_srq(srq), 0);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	free_end(&sender);
	EXPECT(ibv_dereg_mr(out_mr), 0);
	EXPECT(ibv_dereg_mr(in_mr), 0);
	EXPECT(ibv_dereg_mr(spare_mr), 0);
	while (event_waits())
		next_event();
}

/* ---- the list ---- */

static int op(struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int ret = ibv_post_srq_ops(srq, wr, &bad);

	EXPECT_TRUE(!ret || bad == wr);
	return ret;
}

/* A tagged buffer of len bytes: its handle. */
static uint32_t add(uint64_t id, uint64_t tag, uint64_t mask, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)in, len, in_mr->lkey};
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD};

	wr.tm.add.recv_wr_id = id;
	wr.tm.add.sg_list = &sge;
	wr.tm.add.num_sge = 1;
	wr.tm.add.tag = tag;
	wr.tm.add.mask = mask;
	EXPECT(op(&wr), 0);
	return wr.tm.handle;
}

static void sync_with(uint32_t unexpected)
{
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_SYNC, .flags = IBV_OPS_TM_SYNC};

	wr.tm.unexpected_cnt = unexpected;
	EXPECT(op(&wr), 0);
}

/* ---- messages ---- */

static void send_message(uint8_t opcode, uint64_t tag, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)out, len, out_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct ibv_tmh tmh = {
		.opcode = opcode, .app_ctx = htobe32(0x12345678), .tag = htobe64(tag)};

	memcpy(out, &tmh, sizeof(tmh));
	EXPECT(post(sender.qp, &wr), 0);
}

static void send_rendezvous(uint64_t tag, uint32_t len, uint32_t rkey)
{
	struct ibv_rvh rvh = {htobe64((uintptr_t)out + 64), htobe32(rkey), htobe32(len)};

	memcpy(out + HEAD, &rvh, sizeof(rvh));
	send_message(IBV_TMH_RNDV, tag, HEAD + sizeof(rvh));
}

/* The next completion of the receiver is this one. */
static void expect_wc(int line, uint64_t id, enum ibv_wc_status status, enum ibv_wc_opcode opcode,
		      unsigned flags, uint64_t tag)
{
	struct ibv_poll_cq_attr attr = {0};
	double until = seconds() + 10;
	struct ibv_wc_tm_info info;
	int ret;

	do {
		ret = ibv_start_poll(cq, &attr);
	} while (ret == ENOENT && seconds() < until);
	if (ret) {
		printf("%s: no completion for line %d\n", current_case, line);
		failures++;
		return;
	}
	ibv_wc_read_tm_info(cq, &info);
	if (cq->wr_id != id || cq->status != status ||
	    (status == IBV_WC_SUCCESS &&
	     (ibv_wc_read_opcode(cq) != opcode || ibv_wc_read_wc_flags(cq) != flags ||
	      info.tag != tag || (tag && info.priv != 0x12345678)))) {
		printf("%s: line %d: completion %lu, status %d, opcode %d, flags %x, tag %lx\n",
		       current_case, line, cq->wr_id, cq->status, ibv_wc_read_opcode(cq),
		       ibv_wc_read_wc_flags(cq), info.tag);
		failures++;
	}
	ibv_end_poll(cq);
}
#define EXPECT_TM(...) expect_wc(__LINE__, __VA_ARGS__)

static void post_untagged(uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)spare, BYTES, spare_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	EXPECT(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

#define BOTH (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID)

static void eager(void)
{
	begin(8);
	add(1, 5, ALL, BYTES);
	add(2, 0x600, 0xf00, BYTES);
	add(3, 5, ALL, BYTES);
	send_message(IBV_TMH_EAGER, 0x12600, 100);
	EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TM(2, IBV_WC_SUCCESS, IBV_WC_TM_RECV, BOTH, 0x12600);
	EXPECT_TRUE(!memcmp(in, out + HEAD, 100 - HEAD));
	/* In several packets. */
	send_message(IBV_TMH_EAGER, 5, BYTES);
	EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TM(1, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 5);
	EXPECT_TM(1, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 0);
	EXPECT_TRUE(!memcmp(in, out + HEAD, BYTES - HEAD));
	/* Of nothing but its header. */
	send_message(IBV_TMH_EAGER, 5, HEAD);
	EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TM(3, IBV_WC_SUCCESS, IBV_WC_TM_RECV, BOTH, 5);
	end();
}

/* Tagged buffers of eight pieces and of one, side by side. */
static void pieces(void)
{
	struct ibv_sge sge[8];
	struct ibv_ops_wr wr = {.opcode = IBV_WR_TAG_ADD};

	begin(8);
	for (int i = 0; i < 8; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)in + 100 * (7 - i), 10, in_mr->lkey};
	wr.tm.add.recv_wr_id = 1;
	wr.tm.add.sg_list = sge;
	wr.tm.add.num_sge = 8;
	wr.tm.add.tag = 5;
	wr.tm.add.mask = ALL;
	EXPECT(op(&wr), 0);
	add(2, 6, ALL, 80);
	memset(in, 0, sizeof(in));
	send_message(IBV_TMH_EAGER, 5, HEAD + 80);
	EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TM(1, IBV_WC_SUCCESS, IBV_WC_TM_RECV, BOTH, 5);
	for (int i = 0; i < 8; i++)
		EXPECT_TRUE(!memcmp(in + 100 * (7 - i), out + HEAD + 10 * i, 10));
	send_message(IBV_TMH_EAGER, 6, HEAD + 80);
	EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TM(2, IBV_WC_SUCCESS, IBV_WC_TM_RECV, BOTH, 6);
	EXPECT_TRUE(!memcmp(in, out + HEAD, 80));
	end();
}

/* What is added behind a message that nobody knew of waits until the program says that it does. */
static void unexpected(void)
{
	begin(8);
	post_untagged(10);
	post_untagged(11);
	post_untagged(12);
	send_message(IBV_TMH_EAGER, 5, 100);
	EXPECT_TM(10, IBV_WC_SUCCESS, IBV_WC_TM_RECV, 0, 0);
	EXPECT_TRUE(!memcmp(spare, out, 100)); /* with its header */
	add(1, 5, ALL, BYTES);
	send_message(IBV_TMH_EAGER, 5, 100);
	EXPECT_TM(11, IBV_WC_SUCCESS, IBV_WC_TM_RECV, 0, 0);
	sync_with(1);
	send_message(IBV_TMH_NO_TAG, 5, 100);
	EXPECT_TM(12, IBV_WC_SUCCESS, IBV_WC_TM_NO_TAG, 0, 0);
	sync_with(2);
	send_message(IBV_TMH_EAGER, 5, 100);
	EXPECT_TM(1, IBV_WC_SUCCESS, IBV_WC_TM_RECV, BOTH, 5);
	/* Neither a tag nor a buffer: it waits for one. */
	send_message(IBV_TMH_EAGER, 6, 100);
	usleep(2000);
	add(2, 6, ALL, BYTES);
	EXPECT_TM(2, IBV_WC_SUCCESS, IBV_WC_TM_RECV, BOTH, 6);
	for (int i = 0; i < 5; i++)
		EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	end();
}

static void rendezvous(void)
{
	begin(128);
	for (uint32_t len = 0; len < BYTES - 64; len = len * 3 + 1) {
		memset(in, 0, sizeof(in));
		add(len, 5, ALL, BYTES);
		EXPECT(post_buffer(&sender, 20, spare, 64, spare_mr->lkey), 0);
		send_rendezvous(5, len, out_mr->rkey);
		EXPECT_TM(len, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 5);
		EXPECT_TM(len, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 0);
		EXPECT_TRUE(!memcmp(in, out + 64, len));
		EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
		EXPECT_WC(sender.rcq, 20, IBV_WC_SUCCESS);
		EXPECT(spare[0], IBV_TMH_FIN);
		EXPECT_TRUE(!memcmp(spare + 1, out + 1, 31));
	}
	/* A buffer that is too short gets the headers. */
	add(7, 5, ALL, 100);
	send_rendezvous(5, 101, out_mr->rkey);
	EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TM(7, IBV_WC_TM_RNDV_INCOMPLETE, 0, 0, 0);
	EXPECT_TRUE(!memcmp(in, out, 32));
	/* More of them than there are reads at a time. */
	for (int i = 0; i < 100; i++) {
		add(i, 5, ALL, BYTES);
		if (i < 16)
			EXPECT(post_buffer(&sender, 20, spare, 64, spare_mr->lkey), 0);
	}
	for (int i = 0; i < 100; i++) {
		send_rendezvous(5, 1000, out_mr->rkey);
		EXPECT_WC(sender.scq, 3, IBV_WC_SUCCESS);
		EXPECT_TM(i, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 5);
		EXPECT_TM(i, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 0);
		EXPECT_WC(sender.rcq, 20, IBV_WC_SUCCESS);
		EXPECT(post_buffer(&sender, 20, spare, 64, spare_mr->lkey), 0);
	}
	end();
}

/* The tagged buffers are of the SRQ's domain, not of the QP's. */
static void other_domain(void)
{
	NEED(receiver_pd = ibv_alloc_pd(ctx));
	eager();
	rendezvous();
	EXPECT(ibv_dealloc_pd(receiver_pd), 0);
	receiver_pd = NULL;
}

/* The peer names memory that is not to be had; a message is longer than its buffer. */
static void broken(void)
{
	begin(8);
	add(1, 5, ALL, BYTES);
	send_rendezvous(5, 1000, out_mr->rkey + 1);
	EXPECT_TM(1, IBV_WC_SUCCESS, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 5);
	EXPECT_TM(1, IBV_WC_REM_ACCESS_ERR, 0, 0, 0);
	EXPECT(state_of(receiver), IBV_QPS_ERR);
	end();
	begin(8);
	add(1, 5, ALL, 100);
	send_message(IBV_TMH_EAGER, 5, 100 + HEAD + 1);
	EXPECT_TM(1, IBV_WC_LOC_LEN_ERR, 0, 0, 0);
	EXPECT_WC(sender.scq, 3, IBV_WC_REM_INV_REQ_ERR);
	end();
}

static void list(void)
{
	struct ibv_ops_wr wr = {.wr_id = 8, .opcode = IBV_WR_TAG_ADD, .flags = IBV_OPS_SIGNALED};
	uint32_t handle;

	begin(2);
	EXPECT(op(&wr), 0);
	EXPECT_TM(8, IBV_WC_SUCCESS, IBV_WC_TM_ADD, 0, 0);
	handle = wr.tm.handle;
	add(1, 5, ALL, BYTES);
	EXPECT(op(&wr), ENOMEM);
	wr.opcode = IBV_WR_TAG_DEL;
	wr.tm.handle = handle;
	EXPECT(op(&wr), 0);
	EXPECT_TM(8, IBV_WC_SUCCESS, IBV_WC_TM_DEL, 0, 0);
	wr.flags = 0;
	EXPECT(op(&wr), 0);
	EXPECT_TM(8, IBV_WC_TM_ERR, 0, 0, 0);
	wr.opcode = IBV_WR_TAG_SYNC;
	wr.flags = IBV_OPS_SIGNALED;
	wr.tm.unexpected_cnt = 7;
	EXPECT(op(&wr), 0);
	EXPECT_TM(8, IBV_WC_SUCCESS, IBV_WC_TM_SYNC, IBV_WC_TM_SYNC_REQ, 0);
	wr.opcode = IBV_WR_TAG_SYNC + 1;
	EXPECT(op(&wr), EINVAL);
	wr.opcode = IBV_WR_TAG_ADD;
	wr.flags = 4;
	EXPECT(op(&wr), EINVAL);
	wr.flags = 0;
	wr.tm.add.num_sge = 9;
	EXPECT(op(&wr), EINVAL);
	wr.tm.add.num_sge = -1;
	EXPECT(op(&wr), EINVAL);
	wr.tm.add.num_sge = 1;
	EXPECT(op(&wr), EINVAL);
	end();
}

static void refused(void)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UC};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_device_attr_ex attr;
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_ops_wr ops = {0}, *bad = NULL;
	struct ibv_srq *plain;

	begin(8);
	EXPECT(ibv_query_device_ex(ctx, NULL, &attr), 0);
	EXPECT(attr.tm_caps.flags, IBV_TM_CAP_RC);
	EXPECT_NULL(make_srq(0, 1), EINVAL);
	EXPECT_NULL(make_srq(attr.tm_caps.max_num_tags + 1, 1), EINVAL);
	EXPECT_NULL(make_srq(1, 0), EINVAL);
	EXPECT_NULL(make_srq(1, attr.tm_caps.max_ops + 1), EINVAL);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	init.srq = srq;
	EXPECT_NULL(ibv_create_qp(pd, &init), EINVAL);
	init.qp_type = IBV_QPT_RC;
	init.cap.max_send_wr = 1;
	EXPECT_NULL(ibv_create_qp(pd, &init), EINVAL);
	EXPECT(post(receiver, &wr), ENOMEM);
	NEED(plain = ibv_create_srq(pd, &basic));
	EXPECT(ibv_post_srq_ops(plain, &ops, &bad), EINVAL);
	EXPECT_TRUE(bad == &ops);
	EXPECT(ibv_destroy_srq(plain), 0);
	end();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"eager", eager},
		{"pieces", pieces},
		{"unexpected", unexpected},
		{"rendezvous", rendezvous},
		{"other_domain", other_domain},
		{"broken", broken},
		{"list", list},
		{"refused", refused},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

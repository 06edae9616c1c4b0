// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Rate limits of QPs (ibv_modify_qp_rate_limit(3)). That a QP is as slow as its limit is judged;
 * that it is as fast is printed, since a busy machine may be slower.
 */
#include "verbs_test.h"

#define BYTES  (1u << 20)
#define ROUNDS 20
#define MBPS   800u

static uint8_t out[BYTES], in[BYTES];
static struct end a, b;
static struct ibv_mr *out_mr, *in_mr;

static void begin(enum ibv_qp_type type)
{
	struct setup s = {.type = type};

	make_pair(&a, &b, &s);
	NEED(out_mr = ibv_reg_mr(pd, out, BYTES, IBV_ACCESS_LOCAL_WRITE));
	NEED(in_mr = ibv_reg_mr(pd, in, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
}

static void end(void)
{
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(out_mr), 0);
	EXPECT(ibv_dereg_mr(in_mr), 0);
}

static void start_write(void)
{
	struct ibv_sge sge = {(uintptr_t)out, BYTES, out_mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = (uintptr_t)in;
	wr.wr.rdma.rkey = in_mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
}

static void write_once(void)
{
	start_write();
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
}

/* So many bytes take so long, but for a burst that may come at once. */
static void take_their_time(uint32_t burst)
{
	double began = seconds(), took, least;

	/* There is always one that waits. */
	start_write();
	for (int i = 1; i < ROUNDS; i++)
		write_once();
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	took = seconds() - began;
	least = ((double)BYTES * ROUNDS - burst) * 8 / (MBPS * 1e6);
	printf("%s: %.1f of %u Mb/s\n", current_case, BYTES * 8.0 * ROUNDS / took / 1e6, MBPS);
	/* The last packets may leave before their time is over. */
	EXPECT_TRUE(took > least * 0.95);
}

static void slow(enum ibv_qp_type type)
{
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = MBPS * 1000, .max_burst_sz = 65536};
	struct ibv_qp_attr attr = {.rate_limit = MBPS * 1000};
	struct ibv_qp_init_attr init;

	begin(type);
	EXPECT(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
	take_their_time(65536);
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
	EXPECT(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
	EXPECT(attr.rate_limit, MBPS * 1000);
	take_their_time(MBPS * 1000 / 8 * 50);
	attr.rate_limit = 0;
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
	write_once();
	end();
}

static void reliable(void)
{
	slow(IBV_QPT_RC);
}

static void unreliable(void)
{
	slow(IBV_QPT_UC);
}

static void refused(void)
{
	struct ibv_qp_rate_limit_attr limit = {.max_burst_sz = 1};
	struct ibv_device_attr_ex caps;
	struct ibv_qp_attr attr = {0};

	begin(IBV_QPT_RC);
	EXPECT(ibv_query_device_ex(ctx, NULL, &caps), 0);
	EXPECT(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL);
	limit.rate_limit = attr.rate_limit = caps.packet_pacing_caps.qp_rate_limit_max + 1;
	EXPECT(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL);
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), EINVAL);
	attr.qp_state = IBV_QPS_RESET;
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	limit.rate_limit = 1;
	EXPECT(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL);
	end();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"reliable", reliable},
		{"unreliable", unreliable},
		{"refused", refused},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

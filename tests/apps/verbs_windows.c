// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows (IBTA vol. 1, 10.6.7): what they let through, what they hold back, which binds are
 * refused, and what an invalidation ends.
 */
#include "verbs_test.h"

#define SIZE   8192
#define START  1000
#define LENGTH 3000

static uint8_t target[SIZE] __attribute__((aligned(4096)));
static uint8_t source[SIZE];
static struct ibv_mr *mr, *local;
static struct end a, b;

#define REGION_ACCESS                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

static void begin(unsigned access)
{
	struct setup s = {.type = IBV_QPT_RC};

	memset(target, 0x5a, SIZE);
	memset(source, 0xc3, SIZE);
	NEED(mr = ibv_reg_mr(pd, target, SIZE, access));
	NEED(local = ibv_reg_mr(pd, source, SIZE, IBV_ACCESS_LOCAL_WRITE));
	make_pair(&a, &b, &s);
}

static void end(void)
{
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(local), 0);
}

/* Both QPs start anew after an error. */
static void again(void)
{
	struct setup s = {.type = IBV_QPT_RC};

	while (event_waits())
		next_event();
	free_end(&a);
	free_end(&b);
	make_pair(&a, &b, &s);
}

static struct ibv_send_wr bind_wr(struct ibv_mw *mw, uint32_t rkey, uint64_t addr, uint64_t length,
				  unsigned access)
{
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW};

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info.mr = mr;
	wr.bind_mw.bind_info.addr = addr;
	wr.bind_mw.bind_info.length = length;
	wr.bind_mw.bind_info.mw_access_flags = access;
	return wr;
}

/* By b's QP, whose memory it is. */
static void bind(struct ibv_mw *mw, unsigned access)
{
	struct ibv_send_wr wr =
		bind_wr(mw, ibv_inc_rkey(mw->rkey), (uintptr_t)target + START, LENGTH, access);

	EXPECT(post(b.qp, &wr), 0);
	EXPECT_WC(b.scq, 1, IBV_WC_SUCCESS);
	mw->rkey = wr.bind_mw.rkey; /* whoever posts a bind keeps its key himself */
}

static enum ibv_wc_status remote(enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
				 uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)source, length, local->lkey};
	struct ibv_send_wr wr = {.wr_id = 2, .opcode = opcode, .sg_list = &sge, .num_sge = 1};
	struct ibv_wc wc = {.status = 999};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = rkey;
	}
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_TRUE(next_wc(a.scq, &wc, 5));
	return wc.status;
}

static bool untouched(void)
{
	for (size_t i = 0; i < SIZE; i++)
		if (target[i] != 0x5a)
			return false;
	return true;
}

static void rights_and_bounds(void)
{
	static const enum ibv_mw_type types[] = {IBV_MW_TYPE_1, IBV_MW_TYPE_2};
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned access;
		long offset;
		uint32_t length;
		bool ok;
	} table[] = {
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, 0, LENGTH, true},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, -1, 2, false},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, LENGTH - 1, 2, false},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_WRITE, 0, 8, false},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ, 0, 8, false},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, -1, 1, false},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, 0, LENGTH + 1, false},
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, LENGTH, 1, false},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, 0,
		 8, false},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC, 0, 8, true},
	};

	for (int t = 0; t < 2; t++) {
		for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
			struct ibv_mw *mw;

			begin(REGION_ACCESS);
			NEED(mw = ibv_alloc_mw(pd, types[t]));
			bind(mw, table[i].access);
			EXPECT(remote(table[i].opcode, mw->rkey,
				      (uintptr_t)target + START + table[i].offset, table[i].length),
			       table[i].ok ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
			EXPECT_TRUE(untouched());
			EXPECT(ibv_dereg_mr(mr), EBUSY); /* a window is bound to it */
			errno = 0;
			EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			       IBV_REREG_MR_ERR_INPUT);
			EXPECT(errno, EBUSY);
			EXPECT(ibv_dealloc_mw(mw), 0);
			while (event_waits())
				next_event();
			end();
		}
	}
}

static void write_through(void)
{
	struct ibv_mw *mw;

	begin(REGION_ACCESS);
	NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target, 8), IBV_WC_REM_ACCESS_ERR);
	again();
	bind(mw, IBV_ACCESS_REMOTE_WRITE);
	EXPECT(remote(IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)target + START, LENGTH),
	       IBV_WC_SUCCESS);
	for (size_t i = 0; i < SIZE && !failures; i++)
		EXPECT(target[i], i >= START && i < START + LENGTH ? 0xc3 : 0x5a);
	/* Its key is no L_Key. */
	uint32_t lkey = local->lkey;

	local->lkey = mw->rkey;
	EXPECT(remote(IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)target, 8), IBV_WC_LOC_PROT_ERR);
	local->lkey = lkey;
	uint32_t rkey = mw->rkey;

	EXPECT(ibv_dealloc_mw(mw), 0);
	again();
	EXPECT(remote(IBV_WR_RDMA_WRITE, rkey, (uintptr_t)target + START, 8),
	       IBV_WC_REM_ACCESS_ERR);
	next_event();
	end();
}

/* Addresses that begin at zero. */
static void zero_based(void)
{
	struct ibv_mw *mw;

	begin(REGION_ACCESS);
	NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	bind(mw, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, 0, LENGTH), IBV_WC_SUCCESS);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, 1, LENGTH), IBV_WC_REM_ACCESS_ERR);
	next_event();
	EXPECT(ibv_dealloc_mw(mw), 0);
	end();
}

/* Another QP of the same PD may use a type 1 window, and not a type 2 one. */
static void other_qp(void)
{
	for (int t = 0; t < 2; t++) {
		struct setup s = {.type = IBV_QPT_RC};
		struct end saved, c, d;
		struct ibv_mw *mw;

		begin(REGION_ACCESS);
		NEED(mw = ibv_alloc_mw(pd, t ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
		bind(mw, IBV_ACCESS_REMOTE_READ);
		make_pair(&c, &d, &s);
		saved = a;
		a = c;
		EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target + START, 8),
		       t ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		a = saved;
		while (event_waits())
			next_event();
		free_end(&c);
		free_end(&d);
		EXPECT(ibv_dealloc_mw(mw), 0);
		end();
	}
}

static void refused_binds(void)
{
	const uint64_t addr = (uintptr_t)target;
	static const struct {
		const char *name;
		unsigned region, access;
		long offset;
		uint64_t length;
	} table[] = {
		{"region without MW_BIND", IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, 0, 64},
		{"remote write over a read-only region", IBV_ACCESS_MW_BIND,
		 IBV_ACCESS_REMOTE_WRITE, 0, 64},
		{"remote atomic over a read-only region", IBV_ACCESS_MW_BIND,
		 IBV_ACCESS_REMOTE_ATOMIC, 0, 64},
		{"a byte before the region", REGION_ACCESS, IBV_ACCESS_REMOTE_READ, -1, 64},
		{"a byte behind the region", REGION_ACCESS, IBV_ACCESS_REMOTE_READ, 0, SIZE + 1},
		{"over the top", REGION_ACCESS, IBV_ACCESS_REMOTE_READ, 8, UINT64_MAX},
		{"no bytes", REGION_ACCESS, IBV_ACCESS_REMOTE_READ, 0, 0},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct ibv_send_wr wr, later = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE};
		struct ibv_mw *mw;
		uint32_t key;

		current_case = table[i].name;
		begin(table[i].region);
		NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
		key = ibv_inc_rkey(mw->rkey);
		wr = bind_wr(mw, key, addr + table[i].offset, table[i].length, table[i].access);
		EXPECT(post(b.qp, &wr), 0);
		EXPECT(post(b.qp, &later), 0);
		EXPECT_WC(b.scq, 1, IBV_WC_MW_BIND_ERR);
		EXPECT_WC(b.scq, 2, IBV_WC_WR_FLUSH_ERR);
		EXPECT(state_of(b.qp), IBV_QPS_ERR);
		again();
		EXPECT(remote(IBV_WR_RDMA_READ, key, addr, 8), IBV_WC_REM_ACCESS_ERR);
		next_event();
		EXPECT(ibv_dealloc_mw(mw), 0);
		end();
	}

	/* Twice without an invalidation; of nothing; of another PD */
	struct ibv_pd *foreign = ibv_alloc_pd(ctx);
	struct ibv_mw *mw, *strange = ibv_alloc_mw(foreign, IBV_MW_TYPE_2);
	struct ibv_send_wr wr;

	current_case = "bound twice";
	begin(REGION_ACCESS);
	NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	bind(mw, IBV_ACCESS_REMOTE_READ);
	wr = bind_wr(mw, ibv_inc_rkey(mw->rkey), addr, 8, IBV_ACCESS_REMOTE_READ);
	EXPECT(post(b.qp, &wr), 0);
	EXPECT_WC(b.scq, 1, IBV_WC_MW_BIND_ERR);
	again();
	current_case = "bound to nothing";
	wr = bind_wr(mw, ibv_inc_rkey(mw->rkey), 0, 0, 0);
	wr.bind_mw.bind_info.mr = NULL;
	EXPECT(post(b.qp, &wr), 0);
	EXPECT_WC(b.scq, 1, IBV_WC_MW_BIND_ERR);
	again();
	current_case = "window of another PD";
	wr = bind_wr(strange, ibv_inc_rkey(strange->rkey), addr, 8, IBV_ACCESS_REMOTE_READ);
	EXPECT(post(b.qp, &wr), 0);
	EXPECT_WC(b.scq, 1, IBV_WC_MW_BIND_ERR);
	EXPECT(ibv_dealloc_mw(mw), 0);
	EXPECT(ibv_dealloc_mw(strange), 0);
	EXPECT(ibv_dealloc_pd(foreign), 0);
	end();
}

/* The index of a window's key is the adapter's (10.6.7.2): a bind's key has the last byte alone. */
static void last_byte_of_the_key(void)
{
	struct ibv_send_wr wr;
	struct ibv_mw *mw, *other;

	begin(REGION_ACCESS);
	NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	NEED(other = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_mw *which = i ? other : mw;

		wr = bind_wr(which, 0x4ab, (uintptr_t)target, 64, IBV_ACCESS_REMOTE_READ);
		EXPECT(post(b.qp, &wr), 0);
		EXPECT_WC(b.scq, 1, IBV_WC_SUCCESS);
		EXPECT(remote(IBV_WR_RDMA_READ, (which->rkey & ~0xffu) | 0xab, (uintptr_t)target,
			      64),
		       IBV_WC_SUCCESS);
	}
	EXPECT(remote(IBV_WR_RDMA_READ, 0x4ab, (uintptr_t)target, 8), IBV_WC_REM_ACCESS_ERR);
	next_event();
	EXPECT(ibv_dealloc_mw(mw), 0);
	EXPECT(ibv_dealloc_mw(other), 0);
	end();
}

static void bind_verb(void)
{
	struct ibv_mw_bind request = {.wr_id = 9};
	struct ibv_mw *mw, *two;
	uint32_t old;

	begin(REGION_ACCESS);
	NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	NEED(two = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	request.bind_info.mr = mr;
	request.bind_info.addr = (uintptr_t)target;
	request.bind_info.length = 64;
	request.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	EXPECT(ibv_bind_mw(b.qp, two, &request), EINVAL);
	old = mw->rkey;
	EXPECT(ibv_bind_mw(b.qp, mw, &request), 0);
	EXPECT_TRUE(mw->rkey != old);
	EXPECT_WC(b.scq, 9, IBV_WC_SUCCESS);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target, 64), IBV_WC_SUCCESS);
	/* Bound anew, the old key is void at once. */
	old = mw->rkey;
	request.bind_info.length = 32;
	EXPECT(ibv_bind_mw(b.qp, mw, &request), 0);
	EXPECT_WC(b.scq, 9, IBV_WC_SUCCESS);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target, 32), IBV_WC_SUCCESS);
	EXPECT(remote(IBV_WR_RDMA_READ, old, (uintptr_t)target, 32), IBV_WC_REM_ACCESS_ERR);
	again();
	/* Length zero takes it away. */
	request.bind_info.length = 0;
	EXPECT(ibv_bind_mw(b.qp, mw, &request), 0);
	EXPECT_WC(b.scq, 9, IBV_WC_SUCCESS);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target, 8), IBV_WC_REM_ACCESS_ERR);
	next_event();
	EXPECT(ibv_dealloc_mw(mw), 0);
	EXPECT(ibv_dealloc_mw(two), 0);
	end();
}

static void invalidations(void)
{
	struct ibv_send_wr wr = {.wr_id = 3};
	struct ibv_mw *mw;
	struct ibv_wc wc;

	begin(REGION_ACCESS);
	NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	/* Locally */
	bind(mw, IBV_ACCESS_REMOTE_READ);
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = mw->rkey;
	EXPECT(post(b.qp, &wr), 0);
	EXPECT_WC(b.scq, 3, IBV_WC_SUCCESS);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target + START, 8),
	       IBV_WC_REM_ACCESS_ERR);
	again();
	/* By the peer's SEND with Invalidate */
	bind(mw, IBV_ACCESS_REMOTE_READ);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target + START, 8), IBV_WC_SUCCESS);
	EXPECT(post_buffer(&b, 6, NULL, 0, 0), 0);
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = mw->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 3, IBV_WC_SUCCESS);
	EXPECT_TRUE(next_wc(b.rcq, &wc, 5));
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT(wc.invalidated_rkey, mw->rkey);
	EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target + START, 8),
	       IBV_WC_REM_ACCESS_ERR);
	again();
	/* A region's key cannot be taken away by either. */
	EXPECT(post_buffer(&b, 7, NULL, 0, 0), 0);
	wr.invalidate_rkey = mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 3, IBV_WC_REM_ACCESS_ERR);
	EXPECT_TRUE(next_wc(b.rcq, &wc, 5));
	EXPECT_TRUE(wc.status != IBV_WC_SUCCESS);
	again();
	EXPECT(remote(IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)target, 8), IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_LOCAL_INV;
	EXPECT(post(b.qp, &wr), 0);
	EXPECT_TRUE(next_wc(b.scq, &wc, 5));
	EXPECT_TRUE(wc.status != IBV_WC_SUCCESS);
	again();
	EXPECT(remote(IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)target, 8), IBV_WC_SUCCESS);
	EXPECT(ibv_dealloc_mw(mw), 0);
	end();
}

/* A bind waits in the send queue; what it names is gone when its turn comes. */
static void bind_of_the_gone(void)
{
	for (int gone = 0; gone < 2; gone++) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
		struct ibv_send_wr wr;
		struct ibv_mw *mw;

		current_case = gone ? "bind_of_the_gone window" : "bind_of_the_gone region";
		begin(REGION_ACCESS);
		NEED(mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2));
		wr = bind_wr(mw, ibv_inc_rkey(mw->rkey), (uintptr_t)target, 64,
			     IBV_ACCESS_REMOTE_READ);
		/* A drained send queue starts nothing. */
		EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
		EXPECT(post(b.qp, &wr), 0);
		EXPECT_QUIET(b.scq);
		if (gone)
			EXPECT(ibv_dealloc_mw(mw), 0);
		else
			EXPECT(ibv_dereg_mr(mr), 0);
		attr.qp_state = IBV_QPS_RTS;
		EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
		EXPECT_WC(b.scq, 1, IBV_WC_MW_BIND_ERR);
		again();
		if (!gone) {
			EXPECT(ibv_dealloc_mw(mw), 0);
			NEED(mr = ibv_reg_mr(pd, target, SIZE, REGION_ACCESS));
		}
		EXPECT(remote(IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)target, 8), IBV_WC_SUCCESS);
		end();
	}
}

/* A window of a domain, and QPs of its parent domain; and the other way round. */
static void parent_domain(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd};
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_pd *parent, *qps, *windows;
	struct ibv_mw *mw;

	NEED(parent = ibv_alloc_parent_domain(ctx, &attr));
	for (int i = 0; i < 4; i++) {
		qps = i & 1 ? parent : pd;
		windows = i & 1 ? pd : parent;
		begin(REGION_ACCESS);
		free_end(&b);
		make_end(&b, &s, qps, NULL);
		free_end(&a);
		make_end(&a, &s, pd, NULL);
		connect_end(&a, b.qp->qp_num, &s);
		connect_end(&b, a.qp->qp_num, &s);
		NEED(mw = ibv_alloc_mw(windows, i & 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
		bind(mw, IBV_ACCESS_REMOTE_READ);
		EXPECT(remote(IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)target + START, LENGTH),
		       IBV_WC_SUCCESS);
		EXPECT(ibv_dealloc_mw(mw), 0);
		end();
	}
	EXPECT(ibv_dealloc_pd(parent), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"rights_and_bounds", rights_and_bounds},
		{"write_through", write_through},
		{"zero_based", zero_based},
		{"other_qp", other_qp},
		{"refused_binds", refused_binds},
		{"last_byte_of_the_key", last_byte_of_the_key},
		{"bind_verb", bind_verb},
		{"invalidations", invalidations},
		{"bind_of_the_gone", bind_of_the_gone},
		{"parent_domain", parent_domain},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

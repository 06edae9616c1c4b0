// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a refused operation ends with (IBTA vol. 1, 9.7.4.1 for the responder's checks, 9.9.2 and
 * tables 58 and 62 for the statuses): the requester's completion, the responder's completion and
 * event, both QPs in ERR, and memory as it was.
 */
#include "verbs_test.h"

#define ALL_ACCESS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
#define NONE (-1)

#define SIZE   20000
#define START  4104 /* where the region begins in the buffer: on a multiple of 8, not of a page */
#define LENGTH 8192

static uint8_t target[SIZE] __attribute__((aligned(4096)));
static uint8_t source[SIZE] __attribute__((aligned(4096)));

static void fill(void)
{
	memset(target, 0x5a, sizeof(target));
	memset(source, 0xc3, sizeof(source));
}

static bool all_are(const uint8_t *mem, size_t len, uint8_t value)
{
	for (size_t i = 0; i < len; i++)
		if (mem[i] != value)
			return false;
	return true;
}

enum key { GOOD_KEY, OTHER_INDEX, OTHER_BYTE, OTHER_PD, DEREGISTERED, ZERO_KEY };

/* One remote operation on the region [START, START + LENGTH) of target. */
static const struct remote {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum key key;
	long offset; /* from the region's beginning */
	uint32_t length;
	int region; /* its rights; 0: all */
	int qp;	    /* the QP's rights; 0: all */
	enum ibv_wc_status status;
	int event; /* at the responder */
} remotes[] = {
	/* As it should be, at both ends of the region. */
	{"write", IBV_WR_RDMA_WRITE, 0, 0, LENGTH, 0, 0, IBV_WC_SUCCESS, NONE},
	{"write, first byte", IBV_WR_RDMA_WRITE, 0, 0, 1, 0, 0, IBV_WC_SUCCESS, NONE},
	{"write, last byte", IBV_WR_RDMA_WRITE, 0, LENGTH - 1, 1, 0, 0, IBV_WC_SUCCESS, NONE},
	{"read", IBV_WR_RDMA_READ, 0, 0, LENGTH, 0, 0, IBV_WC_SUCCESS, NONE},
	{"read, last byte", IBV_WR_RDMA_READ, 0, LENGTH - 1, 1, 0, 0, IBV_WC_SUCCESS, NONE},
	{"atomic, last word", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, LENGTH - 8, 8, 0, 0, IBV_WC_SUCCESS,
	 NONE},
	{"atomic write, last word", IBV_WR_ATOMIC_WRITE, 0, LENGTH - 8, 8, 0, 0, IBV_WC_SUCCESS,
	 NONE},
	/* Nothing of no length is checked (9.4.3). */
	{"empty write, no key", IBV_WR_RDMA_WRITE, ZERO_KEY, 0, 0, 0, 0, IBV_WC_SUCCESS, NONE},
	{"empty read, bad key", IBV_WR_RDMA_READ, OTHER_INDEX, 0, 0, 0, 0, IBV_WC_SUCCESS, NONE},
#define REFUSED	 IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR
#define INVALID_ IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR
	/* The key */
	{"write, other index", IBV_WR_RDMA_WRITE, OTHER_INDEX, 0, 64, 0, 0, REFUSED},
	{"write, other byte", IBV_WR_RDMA_WRITE, OTHER_BYTE, 0, 64, 0, 0, REFUSED},
	{"write, key 0", IBV_WR_RDMA_WRITE, ZERO_KEY, 0, 64, 0, 0, REFUSED},
	{"write, key of another PD", IBV_WR_RDMA_WRITE, OTHER_PD, 0, 64, 0, 0, REFUSED},
	{"write, deregistered", IBV_WR_RDMA_WRITE, DEREGISTERED, 0, 64, 0, 0, REFUSED},
	{"read, other index", IBV_WR_RDMA_READ, OTHER_INDEX, 0, 64, 0, 0, REFUSED},
	{"read, other byte", IBV_WR_RDMA_READ, OTHER_BYTE, 0, 64, 0, 0, REFUSED},
	{"read, key of another PD", IBV_WR_RDMA_READ, OTHER_PD, 0, 64, 0, 0, REFUSED},
	{"read, deregistered", IBV_WR_RDMA_READ, DEREGISTERED, 0, 64, 0, 0, REFUSED},
	{"atomic, other index", IBV_WR_ATOMIC_FETCH_AND_ADD, OTHER_INDEX, 0, 8, 0, 0, REFUSED},
	{"atomic, key of another PD", IBV_WR_ATOMIC_CMP_AND_SWP, OTHER_PD, 0, 8, 0, 0, REFUSED},
	/* The bounds, by one byte; also of messages of many packets */
	{"write, a byte before", IBV_WR_RDMA_WRITE, 0, -1, 1, 0, 0, REFUSED},
	{"write, from a byte before", IBV_WR_RDMA_WRITE, 0, -1, 100, 0, 0, REFUSED},
	{"write, to a byte behind", IBV_WR_RDMA_WRITE, 0, LENGTH - 99, 100, 0, 0, REFUSED},
	{"write, the byte behind", IBV_WR_RDMA_WRITE, 0, LENGTH, 1, 0, 0, REFUSED},
	{"write, one too long", IBV_WR_RDMA_WRITE, 0, 0, LENGTH + 1, 0, 0, REFUSED},
	{"write, far away", IBV_WR_RDMA_WRITE, 0, 1l << 40, 8, 0, 0, REFUSED},
	{"write, over the top", IBV_WR_RDMA_WRITE, 0, -(long)START - 4, 8, 0, 0, REFUSED},
	{"read, from a byte before", IBV_WR_RDMA_READ, 0, -1, 100, 0, 0, REFUSED},
	{"read, to a byte behind", IBV_WR_RDMA_READ, 0, LENGTH - 99, 100, 0, 0, REFUSED},
	{"read, one too long", IBV_WR_RDMA_READ, 0, 0, LENGTH + 1, 0, 0, REFUSED},
	{"atomic, the word before", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, -8, 8, 0, 0, REFUSED},
	{"atomic, the word behind", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, LENGTH, 8, 0, 0, REFUSED},
	/* The region's rights */
	{"write without right", IBV_WR_RDMA_WRITE, 0, 0, 64, ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE,
	 0, REFUSED},
	{"read without right", IBV_WR_RDMA_READ, 0, 0, 64, ALL_ACCESS & ~IBV_ACCESS_REMOTE_READ, 0,
	 REFUSED},
	{"atomic without right", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8,
	 ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC, 0, REFUSED},
	/* The QP's rights */
	{"write to a QP without", IBV_WR_RDMA_WRITE, 0, 0, 64, 0,
	 ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE, INVALID_},
	{"read of a QP without", IBV_WR_RDMA_READ, 0, 0, 64, 0,
	 ALL_ACCESS & ~IBV_ACCESS_REMOTE_READ, INVALID_},
	{"atomic on a QP without", IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0, 8, 0,
	 ALL_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC, INVALID_},
	/* Atomics are on multiples of 8. */
	{"atomic, misaligned by 1", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 1, 8, 0, 0, INVALID_},
	{"atomic, misaligned by 4", IBV_WR_ATOMIC_CMP_AND_SWP, 0, 4, 8, 0, 0, INVALID_},
	/* Atomic writes need a write's rights (annex A19). */
	{"atomic write, other byte", IBV_WR_ATOMIC_WRITE, OTHER_BYTE, 0, 8, 0, 0, REFUSED},
	{"atomic write, the word behind", IBV_WR_ATOMIC_WRITE, 0, LENGTH, 8, 0, 0, REFUSED},
	{"atomic write without right", IBV_WR_ATOMIC_WRITE, 0, 0, 8,
	 ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE, 0, REFUSED},
	{"atomic write to a QP without", IBV_WR_ATOMIC_WRITE, 0, 0, 8, 0,
	 ALL_ACCESS & ~IBV_ACCESS_REMOTE_WRITE, INVALID_},
	{"atomic write, misaligned by 4", IBV_WR_ATOMIC_WRITE, 0, 4, 8, 0, 0, INVALID_},
};

static void expect_dead(struct end *a, struct end *b)
{
	EXPECT(state_of(a->qp), IBV_QPS_ERR);
	EXPECT(state_of(b->qp), IBV_QPS_ERR);
}

static uint32_t key_of(enum key kind, struct ibv_mr *mr, struct ibv_mr *other)
{
	struct ibv_mr *gone;
	uint32_t key;

	switch (kind) {
	case OTHER_INDEX: return mr->rkey ^ 0x100;
	case OTHER_BYTE: return mr->rkey ^ 1;
	case OTHER_PD: return other->rkey;
	case ZERO_KEY: return 0;
	case DEREGISTERED:
		NEED(gone = ibv_reg_mr(mr->pd, target + START, LENGTH, ALL_ACCESS));
		key = gone->rkey;
		NEED(!ibv_dereg_mr(gone));
		return key;
	default: return mr->rkey;
	}
}

static void one_remote(const struct remote *r)
{
	struct setup s = {.type = IBV_QPT_RC, .access = r->qp ? r->qp & ~0x11 : 0};
	struct ibv_pd *foreign = ibv_alloc_pd(ctx);
	struct ibv_mr *local = ibv_reg_mr(pd, source, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *mr =
		ibv_reg_mr(pd, target + START, LENGTH, r->region ? r->region : ALL_ACCESS);
	struct ibv_mr *other = ibv_reg_mr(foreign, target + START, LENGTH, ALL_ACCESS);
	struct ibv_sge sge = {(uintptr_t)source, r->length, local ? local->lkey : 0};
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = r->opcode, .sg_list = &sge, .num_sge = r->length ? 1 : 0};
	bool atomic =
		r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	uint64_t addr = (uintptr_t)target + START + r->offset;
	struct end a, b;

	NEED(foreign && local && mr && other);
	if (!strcmp(r->name, "write, over the top"))
		addr = UINT64_MAX - 3;
	s.has_access = r->qp != 0;
	fill();
	make_pair(&a, &b, &s);
	if (atomic) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = key_of(r->key, mr, other);
		memcpy(&wr.wr.atomic.compare_add, target, 8);
		wr.wr.atomic.swap = 1;
	} else {
		wr.wr.rdma.remote_addr = addr;
		wr.wr.rdma.rkey = key_of(r->key, mr, other);
	}
	EXPECT(post(a.qp, &wr), 0);
	wr.wr_id = 2;
	if (r->status != IBV_WC_SUCCESS)
		EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 1, r->status);
	if (r->status != IBV_WC_SUCCESS) {
		EXPECT_WC(a.scq, 2, IBV_WC_WR_FLUSH_ERR);
		EXPECT_TRUE(all_are(target, SIZE, 0x5a));
		EXPECT_TRUE(all_are(source, SIZE, 0xc3));
		EXPECT(next_event(), r->event);
		expect_dead(&a, &b);
	} else {
		EXPECT(state_of(a.qp), IBV_QPS_RTS);
		EXPECT_TRUE(all_are(target, START, 0x5a));
		EXPECT_TRUE(all_are(target + START + LENGTH, SIZE - START - LENGTH, 0x5a));
		if (r->opcode == IBV_WR_RDMA_WRITE || r->opcode == IBV_WR_ATOMIC_WRITE)
			EXPECT_TRUE(all_are(target + START + r->offset, r->length, 0xc3));
		if (r->opcode == IBV_WR_RDMA_READ)
			EXPECT_TRUE(all_are(source, r->length, 0x5a));
	}
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(other), 0);
	EXPECT(ibv_dereg_mr(local), 0);
	EXPECT(ibv_dealloc_pd(foreign), 0);
}

static void remote_table(void)
{
	for (size_t i = 0; i < sizeof(remotes) / sizeof(remotes[0]); i++) {
		current_case = remotes[i].name;
		one_remote(&remotes[i]);
	}
}

/* A word counted up, and read in between: a read that is repeated may find a later word, none an
 * earlier one. */
static void atomic_writes(void)
{
	enum { COUNT = 500, AT_ONCE = 4 };
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_mr *local = ibv_reg_mr(pd, source, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *mr = ibv_reg_mr(pd, target, SIZE, ALL_ACCESS);
	uint64_t *out = (uint64_t *)source, *in = out + 2 * AT_ONCE;
	struct end a, b;

	NEED(local && mr);
	make_pair(&a, &b, &s);
	for (uint64_t n = 0; n < COUNT; n++) {
		unsigned slot = n % AT_ONCE;
		struct ibv_sge sge = {(uintptr_t)&out[slot], 8, local->lkey};
		struct ibv_send_wr wr = {.wr_id = n,
					 .opcode = IBV_WR_ATOMIC_WRITE,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .send_flags = n % 3 ? 0 : IBV_SEND_INLINE};
		struct ibv_wc wc = {0};

		wr.wr.rdma.remote_addr = (uintptr_t)target;
		wr.wr.rdma.rkey = mr->rkey;
		out[slot] = n;
		EXPECT(post(a.qp, &wr), 0);
		wr.opcode = IBV_WR_RDMA_READ;
		wr.send_flags = 0;
		sge.addr = (uintptr_t)&in[slot];
		EXPECT(post(a.qp, &wr), 0);
		if (slot != AT_ONCE - 1)
			continue;
		for (uint64_t i = n - slot; i <= n; i++) {
			NEED(next_wc(a.scq, &wc, 10));
			EXPECT(wc.status, IBV_WC_SUCCESS);
			EXPECT(wc.opcode, IBV_WC_ATOMIC_WRITE);
			EXPECT_WC(a.scq, i, IBV_WC_SUCCESS);
			EXPECT_TRUE(in[i % AT_ONCE] >= i && in[i % AT_ONCE] <= n);
		}
		EXPECT(*(uint64_t *)target, n);
	}
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(local), 0);
	EXPECT(ibv_dereg_mr(mr), 0);
}

/* ---- local buffers ---- */

/* A WR whose own buffer is not to be used: nothing leaves, the peer stays as it is. */
static void local_buffers(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
		enum key key;
		long offset;
		uint32_t length;
		int access; /* of the local region; -1: all */
		bool ok;
	} table[] = {
		{"send, bad L_Key", IBV_WR_SEND, OTHER_INDEX, 0, 64, -1, false},
		{"send, L_Key of another PD", IBV_WR_SEND, OTHER_PD, 0, 64, -1, false},
		{"send, a byte before", IBV_WR_SEND, 0, -1, 64, -1, false},
		{"send, a byte behind", IBV_WR_SEND, 0, LENGTH - 63, 64, -1, false},
		{"write, bad L_Key", IBV_WR_RDMA_WRITE, OTHER_BYTE, 0, 64, -1, false},
		{"write, a byte behind", IBV_WR_RDMA_WRITE, 0, LENGTH - 63, 64, -1, false},
		{"write from read-only region", IBV_WR_RDMA_WRITE, 0, 0, 64, 0, true},
		{"read to read-only region", IBV_WR_RDMA_READ, 0, 0, 64, 0, false},
		{"read, bad L_Key", IBV_WR_RDMA_READ, OTHER_INDEX, 0, 64, -1, false},
		{"read, a byte behind", IBV_WR_RDMA_READ, 0, 1, LENGTH, -1, false},
		{"atomic to read-only region", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0, 8, 0, false},
		{"atomic, L_Key of another PD", IBV_WR_ATOMIC_CMP_AND_SWP, OTHER_PD, 0, 8, -1,
		 false},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct setup s = {.type = IBV_QPT_RC};
		int access = table[i].access < 0 ? IBV_ACCESS_LOCAL_WRITE : table[i].access;
		struct ibv_pd *foreign = ibv_alloc_pd(ctx);
		struct ibv_mr *local = ibv_reg_mr(pd, source + START, LENGTH, access);
		struct ibv_mr *other = ibv_reg_mr(foreign, source + START, LENGTH, access);
		struct ibv_mr *mr = ibv_reg_mr(pd, target, SIZE, ALL_ACCESS);
		struct ibv_sge sge = {(uintptr_t)source + START + table[i].offset, table[i].length};
		struct ibv_send_wr wr = {
			.wr_id = 5, .opcode = table[i].opcode, .sg_list = &sge, .num_sge = 1};
		struct end a, b;

		current_case = table[i].name;
		NEED(foreign && local && other && mr);
		sge.lkey = key_of(table[i].key, local, other);
		if (table[i].length == 8) {
			wr.wr.atomic.remote_addr = (uintptr_t)target;
			wr.wr.atomic.rkey = mr->rkey;
			wr.wr.atomic.compare_add = 0x5a5a5a5a5a5a5a5aull;
		} else {
			wr.wr.rdma.remote_addr = (uintptr_t)target;
			wr.wr.rdma.rkey = mr->rkey;
		}
		fill();
		make_pair(&a, &b, &s);
		EXPECT(post_buffer(&b, 1, target, SIZE, mr->lkey), 0);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 5, table[i].ok ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
		EXPECT(state_of(a.qp), table[i].ok ? IBV_QPS_RTS : IBV_QPS_ERR);
		EXPECT(state_of(b.qp), IBV_QPS_RTS);
		EXPECT_TRUE(all_are(source, SIZE, 0xc3));
		if (!table[i].ok)
			EXPECT_TRUE(all_are(target, SIZE, 0x5a));
		EXPECT_QUIET(b.rcq);
		free_end(&a);
		free_end(&b);
		EXPECT(ibv_dereg_mr(mr), 0);
		EXPECT(ibv_dereg_mr(other), 0);
		EXPECT(ibv_dereg_mr(local), 0);
		EXPECT(ibv_dealloc_pd(foreign), 0);
	}
}

/* What the receiver's buffer is told as here, and to the sender. */
static void receive_buffers(void)
{
	static const struct {
		const char *name;
		uint32_t send, room;
		enum key key;
		int access;
		enum ibv_wc_status here, there;
	} table[] = {
		{"send that just fits", 5000, 5000, 0, -1, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{"send, one byte too long", 65, 64, 0, -1, IBV_WC_REM_INV_REQ_ERR,
		 IBV_WC_LOC_LEN_ERR},
		{"send, too long by its last packet", 5000, 4999, 0, -1, IBV_WC_REM_INV_REQ_ERR,
		 IBV_WC_LOC_LEN_ERR},
		{"send to nowhere", 1, 0, 0, -1, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR},
		{"empty send to nowhere", 0, 0, 0, -1, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
		{"receive, bad L_Key", 64, 64, OTHER_INDEX, -1, IBV_WC_REM_OP_ERR,
		 IBV_WC_LOC_PROT_ERR},
		{"receive, L_Key of another PD", 64, 64, OTHER_PD, -1, IBV_WC_REM_OP_ERR,
		 IBV_WC_LOC_PROT_ERR},
		{"receive, read-only region", 64, 64, 0, 0, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
		{"receive, buffer beyond its region", 9000, 9000, 0, -1, IBV_WC_REM_OP_ERR,
		 IBV_WC_LOC_PROT_ERR},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct setup s = {.type = IBV_QPT_RC};
		int access = table[i].access < 0 ? IBV_ACCESS_LOCAL_WRITE : table[i].access;
		struct ibv_pd *foreign = ibv_alloc_pd(ctx);
		struct ibv_mr *local = ibv_reg_mr(pd, source, SIZE, 0);
		struct ibv_mr *mr = ibv_reg_mr(pd, target + START, LENGTH, access);
		struct ibv_mr *other = ibv_reg_mr(foreign, target + START, LENGTH, access);
		struct ibv_sge sge = {(uintptr_t)source, table[i].send, local ? local->lkey : 0};
		struct ibv_send_wr wr = {
			.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
		struct end a, b;

		current_case = table[i].name;
		NEED(foreign && local && mr && other);
		fill();
		make_pair(&a, &b, &s);
		EXPECT(post_buffer(&b, 8, target + START, table[i].room,
				   key_of(table[i].key, mr, other)),
		       0);
		EXPECT(post_buffer(&b, 9, target + START, 64, mr->lkey), 0);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 1, table[i].here);
		EXPECT_WC(b.rcq, 8, table[i].there);
		EXPECT_TRUE(all_are(target, START, 0x5a));
		EXPECT_TRUE(all_are(target + START + table[i].room, SIZE - START - table[i].room,
				    0x5a));
		if (table[i].here == IBV_WC_SUCCESS) {
			EXPECT_TRUE(all_are(target + START, table[i].send, 0xc3));
		} else {
			EXPECT_WC(b.rcq, 9, IBV_WC_WR_FLUSH_ERR);
			expect_dead(&a, &b);
			if (table[i].here == IBV_WC_REM_INV_REQ_ERR)
				EXPECT(next_event(), IBV_EVENT_QP_REQ_ERR);
		}
		free_end(&a);
		free_end(&b);
		EXPECT(ibv_dereg_mr(mr), 0);
		EXPECT(ibv_dereg_mr(other), 0);
		EXPECT(ibv_dereg_mr(local), 0);
		EXPECT(ibv_dealloc_pd(foreign), 0);
	}
}

/* ---- retries ---- */

/* Buffers of an SRQ are of its protection domain, whatever the QP's that takes them. */
static void receive_buffers_of_an_srq(void)
{
	const enum ibv_wc_status here[] = {IBV_WC_SUCCESS, IBV_WC_REM_OP_ERR};
	const enum ibv_wc_status there[] = {IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR};
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 2}};
	struct ibv_pd *others = ibv_alloc_pd(ctx);
	struct ibv_mr *local = ibv_reg_mr(pd, source, SIZE, 0);
	struct ibv_mr *mr[2];
	struct ibv_srq *srq;

	NEED(others && local);
	NEED(srq = ibv_create_srq(others, &init));
	NEED(mr[0] = ibv_reg_mr(others, target, SIZE, IBV_ACCESS_LOCAL_WRITE));
	NEED(mr[1] = ibv_reg_mr(pd, target, SIZE, IBV_ACCESS_LOCAL_WRITE));
	for (unsigned i = 0; i < 4; i++) {
		struct setup s = {.type = IBV_QPT_RC, .srq_b = srq};
		uint32_t key = mr[i & 1]->lkey, half = i & 2 ? 32 : 64;
		struct ibv_sge sge = {(uintptr_t)source, 64, local->lkey};
		struct ibv_sge buffer[] = {{(uintptr_t)target, half, key},
					   {(uintptr_t)target + half, half, key}};
		struct ibv_recv_wr recv = {.wr_id = 8, .sg_list = buffer, .num_sge = i & 2 ? 2 : 1};
		struct ibv_send_wr wr = {
			.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
		struct end a, b;

		fill();
		make_pair(&a, &b, &s);
		EXPECT(ibv_post_srq_recv(srq, &recv, &(struct ibv_recv_wr *){NULL}), 0);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(b.rcq, 8, there[i & 1]);
		EXPECT_WC(a.scq, 1, here[i & 1]);
		EXPECT(!memcmp(target, source, 64), !(i & 1));
		while (event_waits())
			next_event();
		free_end(&a);
		free_end(&b);
	}
	EXPECT(ibv_destroy_srq(srq), 0);
	for (unsigned i = 0; i < 2; i++)
		EXPECT(ibv_dereg_mr(mr[i]), 0);
	EXPECT(ibv_dereg_mr(local), 0);
	EXPECT(ibv_dealloc_pd(others), 0);
}

static uint64_t device_counter(const char *name)
{
	char path[200];
	unsigned long long value;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 ibv_get_device_name(ctx->device), name);
	NEED(f = fopen(path, "r"));
	NEED(fscanf(f, "%llu", &value) == 1);
	fclose(f);
	return value;
}

/* Until a counter has grown by so much, for which up to 20 s are waited. */
static void until_counted(const char *name, uint64_t from, uint64_t more)
{
	double until = seconds() + 20;

	while (device_counter(name) - from < more && seconds() < until)
		usleep(200);
	EXPECT_TRUE(device_counter(name) - from >= more);
}

static void rnr_exhausted(void)
{
	/* RNR timer 10 is 0.32 ms; 3 retries. */
	struct setup s = {.type = IBV_QPT_RC, .rnr_retry = 3, .rnr_timer = 10};
	struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND}, imm = wr;
	uint64_t before;
	double began;
	struct end a, b;

	make_pair(&a, &b, &s);
	began = seconds();
	EXPECT(post(a.qp, &wr), 0);
	imm.wr_id = 2;
	EXPECT(post(a.qp, &imm), 0);
	EXPECT_WC(a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	EXPECT_TRUE(seconds() - began >= 3 * 0.00032);
	EXPECT_WC(a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT(state_of(a.qp), IBV_QPS_ERR);
	EXPECT(state_of(b.qp), IBV_QPS_RTS); /* not its fault */
	free_end(&a);
	free_end(&b);

	/* None at all; and for a write whose immediate data wants a receive WR. */
	s.rnr_retry = -1;
	make_pair(&a, &b, &s);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	free_end(&a);
	free_end(&b);

	/* 7 is for ever: the message arrives when there is a place. */
	s.rnr_retry = 7;
	make_pair(&a, &b, &s);
	wr.opcode = IBV_WR_SEND;
	before = device_counter("rcvd_rnr_err");
	EXPECT(post(a.qp, &wr), 0);
	until_counted("rcvd_rnr_err", before, 20);
	EXPECT_QUIET(a.scq);
	EXPECT(post_buffer(&b, 4, NULL, 0, 0), 0);
	EXPECT_WC(a.scq, 1, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 4, IBV_WC_SUCCESS);
	free_end(&a);
	free_end(&b);
}

/* A peer that is gone is asked again ever more rarely, up to a second apart, not all the time. */
static void retry_sparingly(void)
{
	struct setup s = {.type = IBV_QPT_RC, .timeout = 19, .retry = -1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	uint64_t before = device_counter("completer_retry_err"), tries;
	struct end a, b;

	make_pair(&a, &b, &s);
	EXPECT(ibv_destroy_qp(b.qp), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_RETRY_EXC_ERR);
	tries = device_counter("completer_retry_err") - before;
	printf("asked %llu times in 2.1 s\n", (unsigned long long)tries);
	EXPECT_TRUE(tries >= 5 && tries <= 15);
	free_end(&a);
	EXPECT(ibv_destroy_cq(b.scq), 0);
	EXPECT(ibv_destroy_cq(b.rcq), 0);
}

/* The next completion; returns for how long this thread, which drives the adapter, had no CPU
 * meanwhile. */
static double poll_without_pause(struct ibv_cq *cq, struct ibv_wc *wc)
{
	double last = seconds(), end = last + 60, lost = 0;

	wc->status = 999;
	while (!ibv_poll_cq(cq, 1, wc) && last < end) {
		double now = seconds();

		lost += now - last > 0.0005 ? now - last : 0;
		last = now;
	}
	return lost;
}

/*
 * A QP that never answers: not before 4.096 us * 2^timeout has gone by retry + 1 times, and not
 * much later; timeouts below and above the intervals at which the adapter probes on its own
 * account.
 */
static void retry_exhausted(void)
{
	static const struct {
		int timeout, retry;
		enum ibv_wr_opcode opcode;
	} table[] = {
		{10, 7, IBV_WR_SEND},	    {12, 2, IBV_WR_SEND},  {12, -1, IBV_WR_RDMA_READ},
		{14, 7, IBV_WR_RDMA_WRITE}, {14, -1, IBV_WR_SEND}, {16, 2, IBV_WR_RDMA_READ},
		{17, 1, IBV_WR_SEND},
	};

	for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
		struct setup s = {
			.type = IBV_QPT_RC, .timeout = table[k].timeout, .retry = table[k].retry};
		struct ibv_send_wr wr = {.opcode = table[k].opcode};
		double asked = 4.096e-6 * (1 << s.timeout) * (or_default(s.retry, 7) + 1), began,
		       took, lost;
		struct ibv_wc wc;
		struct end a, b;
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		make_pair(&a, &b, &s);
		EXPECT(ibv_destroy_qp(b.qp), 0);
		began = seconds();
		for (int i = 0; i < 10; i++) {
			wr.wr_id = i;
			EXPECT(post(a.qp, &wr), 0);
		}
		EXPECT(post_buffer(&a, 77, NULL, 0, 0), 0);
		lost = poll_without_pause(a.scq, &wc);
		took = seconds() - began;
		EXPECT(wc.status, IBV_WC_RETRY_EXC_ERR);
		EXPECT(wc.wr_id, 0);
		EXPECT_TRUE(took >= asked);
		EXPECT_TRUE(took - lost <= 4 * asked + 0.05);
		for (int i = 1; i < 10; i++)
			EXPECT_WC(a.scq, i, IBV_WC_WR_FLUSH_ERR);
		EXPECT_WC(a.rcq, 77, IBV_WC_WR_FLUSH_ERR);
		EXPECT_QUIET(a.scq);
		EXPECT(a.qp->state,
		       IBV_QPS_RTS); /* until somebody asks for the state, and only then */
		EXPECT(ibv_query_qp(a.qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
		EXPECT(a.qp->state, IBV_QPS_RTS);
		EXPECT(state_of(a.qp), IBV_QPS_ERR);
		EXPECT(a.qp->state, IBV_QPS_ERR);
		free_end(&a);
		EXPECT(ibv_destroy_cq(b.scq), 0);
		EXPECT(ibv_destroy_cq(b.rcq), 0);
	}
}

/* A QP that was reset while a packet was under way has forgotten it, and how long its answers took.
 * */
static void retry_in_another_life(void)
{
	struct setup s = {.type = IBV_QPT_RC, .timeout = 22};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	uint64_t before;
	struct end a, b;

	make_pair(&a, &b, &s);
	EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	usleep(500000);
	s.timeout = 16;
	s.retry = -1;
	connect_end(&a, b.qp->qp_num, &s);
	connect_end(&b, a.qp->qp_num, &s);
	EXPECT(post_buffer(&b, 0, NULL, 0, 0), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 0, IBV_WC_SUCCESS);
	/* Now nobody answers: the QP's timeout is the new one, and it asks on its own account
	 * before. */
	EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	before = device_counter("completer_retry_err");
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_RETRY_EXC_ERR);
	EXPECT_TRUE(device_counter("completer_retry_err") - before >= 3);
	free_end(&a);
	free_end(&b);
}

/* To ERR by the program: everything posted comes back, in order, also what is posted then. */
static void flush_in_order(void)
{
	struct setup s = {.type = IBV_QPT_RC, .rnr_timer = 20, .quiet = true};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct end a, b;

	make_pair(&a, &b, &s);
	for (int i = 0; i < 8; i++) {
		wr.wr_id = i; /* unsignalled; an error is reported nevertheless */
		EXPECT(post(a.qp, &wr), 0);
		EXPECT(post_buffer(&a, 100 + i, NULL, 0, 0), 0);
	}
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	wr.wr_id = 8;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT(post_buffer(&a, 108, NULL, 0, 0), 0);
	for (int i = 0; i < 9; i++) {
		EXPECT_WC(a.scq, i, IBV_WC_WR_FLUSH_ERR);
		EXPECT_WC(a.rcq, 100 + i, IBV_WC_WR_FLUSH_ERR);
	}
	EXPECT_QUIET(a.scq);
	/* Through RESET it works again. */
	attr.qp_state = IBV_QPS_RESET;
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	connect_end(&a, b.qp->qp_num, &s);
	connect_end(&b, a.qp->qp_num, &s);
	EXPECT(post_buffer(&b, 3, NULL, 0, 0), 0);
	wr.wr_id = 9;
	wr.send_flags = IBV_SEND_SIGNALED;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 9, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 3, IBV_WC_SUCCESS);
	free_end(&a);
	free_end(&b);
}

/* UC and UD: a local error stops the send queue alone (SQE), and RTS is one step away. */
static void send_queue_error(void)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_ah_attr ah_attr = av();
	struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
	struct ibv_mr *mr = ibv_reg_mr(pd, target, SIZE, IBV_ACCESS_LOCAL_WRITE);

	NEED(ah && mr);
	for (int t = 0; t < 2; t++) {
		struct setup s = {.type = types[t]};
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
		struct ibv_sge sge = {(uintptr_t)target, 64, mr->lkey ^ 0x100};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
		struct end a, b;

		make_pair(&a, &b, &s);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
		EXPECT(post_buffer(&a, 50, target, 64, mr->lkey), 0);
		EXPECT(post(a.qp, &wr), 0);
		wr.wr_id = 1;
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 0, IBV_WC_LOC_PROT_ERR);
		EXPECT_WC(a.scq, 1, IBV_WC_WR_FLUSH_ERR);
		EXPECT(state_of(a.qp), IBV_QPS_SQE);
		EXPECT_QUIET(a.rcq);
		EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		if (types[t] == IBV_QPT_UD) {
			sge = (struct ibv_sge){(uintptr_t)target, 4097 * 2, mr->lkey};
			wr.wr_id = 2; /* longer than a packet */
			EXPECT(post(a.qp, &wr), 0);
			EXPECT_WC(a.scq, 2, IBV_WC_LOC_LEN_ERR);
			EXPECT(state_of(a.qp), IBV_QPS_SQE);
			EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
		}
		sge = (struct ibv_sge){(uintptr_t)target, 64, mr->lkey};
		wr.wr_id = 3;
		EXPECT(post_buffer(&b, 60, target + 1000, 200, mr->lkey), 0);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 3, IBV_WC_SUCCESS);
		EXPECT_WC(b.rcq, 60, IBV_WC_SUCCESS);
		free_end(&a);
		free_end(&b);
	}
	EXPECT(ibv_destroy_ah(ah), 0);
	EXPECT(ibv_dereg_mr(mr), 0);
}

/*
 * More than the socket takes at once, over a link that is slower than we are: it waits, and is not
 * thrown away. Of unreliable services a few may be lost on the other side, on a machine that is
 * busy.
 */
static void full_socket(void)
{
	enum { MESSAGES = 24, LENGTH_UC = 1 << 20, UD = 4096, LENGTH_UD = 1024 };
	static uint8_t to[UD * (LENGTH_UD + 40)], from[LENGTH_UC];
	struct ibv_mr *mr = ibv_reg_mr(pd, to, sizeof(to), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *local = ibv_reg_mr(pd, from, sizeof(from), 0);

	NEED(mr && local);
	for (int ud = 0; ud < 2; ud++) {
		const uint32_t len = ud ? LENGTH_UD : LENGTH_UC;
		const int n = ud ? UD : MESSAGES;
		int got = 0;
		struct ibv_wc wc;
		struct setup s = {.type = ud ? IBV_QPT_UD : IBV_QPT_UC,
				  .cqe = UD,
				  .cap = {.max_send_wr = UD, .max_recv_wr = UD}};
		struct ibv_sge sge = {(uintptr_t)from, len, local->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
		struct ibv_ah_attr attr = av();
		struct ibv_ah *ah = ibv_create_ah(pd, &attr);
		struct end a, b;

		NEED(ah);
		current_case = ud ? "full_socket UD" : "full_socket UC";
		make_pair(&a, &b, &s);
		wr.wr.ud.ah = ud ? ah : NULL;
		wr.wr.ud.remote_qpn = b.qp->qp_num;
		wr.wr.ud.remote_qkey = 0x11111111;
		for (int i = 0; i < n; i++)
			NEED(!post_buffer(&b, i, ud ? to + i * (len + 40) : to, len + 40 * ud,
					  mr->lkey));
		for (int i = 0; i < n; i++) {
			wr.wr_id = i;
			NEED(!post(a.qp, &wr));
		}
		while (got < n && next_wc(b.rcq, &wc, 2))
			got += wc.status == IBV_WC_SUCCESS;
		EXPECT_TRUE(got > n * 3 / 4);
		for (int i = 0; i < n && failures < 5; i++)
			EXPECT_WC(a.scq, i, IBV_WC_SUCCESS);
		free_end(&a);
		free_end(&b);
		EXPECT(ibv_destroy_ah(ah), 0);
	}
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(local), 0);
}

/* The answers to many reads at once, which the responder has no room for: none is asked for twice.
 * */
static void full_socket_reads(void)
{
	enum { READS = 64, LENGTH_READ = 1 << 18 };
	static uint8_t to[LENGTH_READ], from[LENGTH_READ];
	struct setup s = {
		.type = IBV_QPT_RC, .cap = {.max_send_wr = READS}, .rd_atomic = 16, .timeout = 20};
	struct ibv_mr *mr = ibv_reg_mr(pd, from, sizeof(from), IBV_ACCESS_REMOTE_READ);
	struct ibv_mr *local = ibv_reg_mr(pd, to, sizeof(to), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)to, LENGTH_READ, 0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};
	struct end a, b;

	NEED(mr && local);
	memset(from, 0x42, sizeof(from));
	make_pair(&a, &b, &s);
	sge.lkey = local->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)from;
	wr.wr.rdma.rkey = mr->rkey;
	for (int i = 0; i < READS; i++) {
		wr.wr_id = i;
		EXPECT(post(a.qp, &wr), 0);
	}
	for (int i = 0; i < READS && failures < 5; i++)
		EXPECT_WC(a.scq, i, IBV_WC_SUCCESS);
	EXPECT_TRUE(!memcmp(to, from, sizeof(to)));
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(local), 0);
}

/* ---- events ---- */

static void cq_overflow(void)
{
	struct setup s = {.type = IBV_QPT_RC, .cqe = 4};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
	struct ibv_async_event event;
	struct end a, b;

	make_pair(&a, &b, &s);
	for (int i = 0; i < 16; i++)
		EXPECT(post(a.qp, &wr), 0);
	NEED(!ibv_get_async_event(ctx, &event));
	EXPECT(event.event_type, IBV_EVENT_CQ_ERR);
	EXPECT_TRUE(event.element.cq == a.scq);
	ibv_ack_async_event(&event);
	/* The QP whose completions were lost ends; the other one has lost none. */
	NEED(event_waits());
	NEED(!ibv_get_async_event(ctx, &event));
	EXPECT(event.event_type, IBV_EVENT_QP_FATAL);
	EXPECT_TRUE(event.element.qp == a.qp);
	ibv_ack_async_event(&event);
	EXPECT(event_waits(), false); /* once */
	EXPECT(state_of(a.qp), IBV_QPS_ERR);
	EXPECT(state_of(b.qp), IBV_QPS_RTS);
	for (int i = 0; i < 4; i++)
		EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	free_end(&a);
	free_end(&b);
}

static void srq_events(void)
{
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct setup s = {.type = IBV_QPT_RC, .srq_b = srq};
	struct ibv_srq_attr limit = {.srq_limit = 3};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_async_event event;
	struct end a, b;

	NEED(srq);
	make_pair(&a, &b, &s);
	for (int i = 0; i < 5; i++)
		EXPECT(post_buffer(&b, i, NULL, 0, 0), 0);
	EXPECT(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	for (int i = 0; i < 2; i++) {
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(b.rcq, i, IBV_WC_SUCCESS);
	}
	EXPECT(event_waits(), false); /* three are left: not below three */
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(b.rcq, 2, IBV_WC_SUCCESS);
	NEED(!ibv_get_async_event(ctx, &event));
	EXPECT(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	EXPECT_TRUE(event.element.srq == srq);
	ibv_ack_async_event(&event);
	EXPECT(ibv_query_srq(srq, &limit), 0);
	EXPECT(limit.srq_limit, 0); /* it is armed for one event */
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(b.rcq, 3, IBV_WC_SUCCESS);
	EXPECT(event_waits(), false);
	/* A QP that takes no more of it says so. */
	EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	NEED(!ibv_get_async_event(ctx, &event));
	EXPECT(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	EXPECT_TRUE(event.element.qp == b.qp);
	ibv_ack_async_event(&event);
	EXPECT(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), 0);
	EXPECT(event_waits(), false);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_destroy_srq(srq), 0);
}

/* The first message to a QP that has not been moved to RTS, each time it
 * is connected (o11-5.1.1). */
static void communication_established(void)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_async_event event;
	struct end a, b;

	for (int i = 0; i < 4; i++) {
		struct setup s = {.type = i < 2 ? IBV_QPT_RC : IBV_QPT_UC};

		if (i % 2 == 0) {
			make_end(&a, &s, pd, NULL);
			make_end(&b, &s, pd, NULL);
		}
		connect_end(&a, b.qp->qp_num, &s);
		NEED(!to_init(b.qp, &s) && !to_rtr(b.qp, a.qp->qp_num, &s));
		for (int k = 0; k < 3; k++)
			EXPECT(post_buffer(&b, k, NULL, 0, 0), 0);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(b.rcq, 0, IBV_WC_SUCCESS);
		NEED(event_waits() && !ibv_get_async_event(ctx, &event));
		EXPECT(event.event_type, IBV_EVENT_COMM_EST);
		EXPECT_TRUE(event.element.qp == b.qp);
		ibv_ack_async_event(&event);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
		NEED(!to_rts(b.qp, &s));
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(b.rcq, 2, IBV_WC_SUCCESS);
		EXPECT(event_waits(), false);
		EXPECT(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE), 0);
		EXPECT(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
		if (i % 2) {
			free_end(&a);
			free_end(&b);
		}
	}
}

/* Sends n messages, and takes their completions when the event has come, in seconds;
 * or has not within 20 ms: 0. */
static double event_after(struct end *a, struct end *b, int n, double patience)
{
	struct pollfd pfd = {.fd = b->rcq->channel->fd, .events = POLLIN};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	double began = seconds(), took = 0;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	for (int i = 0; i < n; i++) {
		EXPECT(post_buffer(b, 0, NULL, 0, 0), 0);
		EXPECT(post(a->qp, &wr), 0);
		EXPECT_WC(a->scq, 0, IBV_WC_SUCCESS);
	}
	if (poll(&pfd, 1, patience * 1000) == 1) {
		took = seconds() - began;
		NEED(!ibv_get_cq_event(b->rcq->channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		EXPECT(ibv_req_notify_cq(b->rcq, 0), 0);
	}
	while (ibv_poll_cq(b->rcq, 1, &wc))
		EXPECT(wc.status, IBV_WC_SUCCESS);
	return took;
}

/* One completion has no event for a moment; a busy machine may let more
 * time go by than the CQ waits. */
static void waits_for_more(struct end *a, struct end *b, double period)
{
	double took;

	while ((took = event_after(a, b, 1, 0.02)) > 0)
		EXPECT_TRUE(took >= period);
}

/* An event for four completions, or for fewer after 60 ms. */
static void moderated(void)
{
	struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
					  .moderate = {4, 60000}};
	struct setup s = {.type = IBV_QPT_RC, .channel = ibv_create_comp_channel(ctx)};
	struct ibv_device_attr_ex limits;
	struct end a, b;

	NEED(s.channel && !ibv_query_device_ex(ctx, NULL, &limits));
	EXPECT_TRUE(limits.cq_mod_caps.max_cq_count >= 4);
	EXPECT_TRUE(limits.cq_mod_caps.max_cq_period >= 60000);
	make_pair(&a, &b, &s);
	EXPECT(ibv_modify_cq(b.rcq, &attr), 0);
	EXPECT(ibv_req_notify_cq(b.rcq, 0), 0);
	EXPECT_TRUE(event_after(&a, &b, 3, 10) >= 0.06);
	EXPECT_TRUE(event_after(&a, &b, 1, 10) >= 0.06);
	attr.moderate.cq_period = UINT16_MAX;
	EXPECT(ibv_modify_cq(b.rcq, &attr), 0);
	for (int i = 0; i < 100; i++)
		if (event_after(&a, &b, 4, 10) < 0.06)
			break;
		else
			EXPECT_TRUE(i < 99); /* a busy machine may take as long now and then */
	/* Those that wait go out when it is turned off, and later ones at once. */
	waits_for_more(&a, &b, UINT16_MAX * 1e-6);
	attr.moderate.cq_period = 0;
	EXPECT(ibv_modify_cq(b.rcq, &attr), 0);
	EXPECT_TRUE(event_after(&a, &b, 0, 10) > 0);
	EXPECT_TRUE(event_after(&a, &b, 1, 10) > 0);
	/* A CQ that goes away while its event waits. */
	attr.moderate.cq_period = UINT16_MAX;
	EXPECT(ibv_modify_cq(b.rcq, &attr), 0);
	waits_for_more(&a, &b, UINT16_MAX * 1e-6);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_destroy_comp_channel(s.channel), 0);
}

static void send_queue_drained(void)
{
	struct setup s = {.type = IBV_QPT_RC, .rnr_timer = 22}; /* 20.48 ms */
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_qp_init_attr init;
	uint64_t before;
	struct end a, b;

	make_pair(&a, &b, &s);
	before = device_counter("rcvd_rnr_err");
	EXPECT(post(a.qp, &wr), 0); /* started, and waiting for a receive WR */
	until_counted("rcvd_rnr_err", before, 1);
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	EXPECT(ibv_query_qp(a.qp, &attr, ~0, &init), 0);
	EXPECT(attr.qp_state, IBV_QPS_SQD);
	EXPECT(attr.sq_draining, 1);
	wr.wr_id = 1;
	EXPECT(post(a.qp, &wr), 0); /* must not start now */
	EXPECT(event_waits(), false);
	EXPECT(post_buffer(&b, 5, NULL, 0, 0), 0);
	EXPECT(post_buffer(&b, 6, NULL, 0, 0), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(next_event(), IBV_EVENT_SQ_DRAINED);
	EXPECT(ibv_query_qp(a.qp, &attr, ~0, &init), 0);
	EXPECT(attr.sq_draining, 0);
	EXPECT_WC(b.rcq, 5, IBV_WC_SUCCESS);
	EXPECT_QUIET(a.scq);
	EXPECT_QUIET(b.rcq);
	attr.qp_state = IBV_QPS_RTS;
	EXPECT(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE), 0);
	EXPECT_WC(a.scq, 1, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 6, IBV_WC_SUCCESS);
	free_end(&a);
	free_end(&b);
}

/* Takes the event that a CQ has within a moment; false if there is none. */
static bool cq_event(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *of;
	void *context;

	if (poll(&pfd, 1, 20) != 1)
		return false;
	NEED(!ibv_get_cq_event(channel, &of, &context));
	EXPECT_TRUE(of == cq);
	ibv_ack_cq_events(of, 1);
	return true;
}

/* Who asks for an event and has a completion that no event was for is told at once (UCX counts on
 * it), but once: not again before it has looked. */
static void notified_late(void)
{
	struct setup s = {.type = IBV_QPT_RC, .channel = ibv_create_comp_channel(ctx)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct end a, b;

	NEED(s.channel);
	make_pair(&a, &b, &s);
	for (int i = 0; i < 5; i++)
		EXPECT(post_buffer(&b, i, NULL, 0, 0), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS); /* so b has received */
	EXPECT(ibv_req_notify_cq(b.rcq, 1), 0);
	EXPECT(cq_event(s.channel, b.rcq), false);
	EXPECT(ibv_req_notify_cq(b.rcq, 0), 0);
	EXPECT(cq_event(s.channel, b.rcq), true);
	EXPECT(ibv_req_notify_cq(b.rcq, 0), 0);
	EXPECT(cq_event(s.channel, b.rcq), false);
	EXPECT_WC(b.rcq, 0, IBV_WC_SUCCESS);
	/* Now it is armed. One event, though two come. */
	EXPECT(post(a.qp, &wr), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(cq_event(s.channel, b.rcq), true);
	EXPECT(cq_event(s.channel, b.rcq), false);
	EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
	/* The second is left: for it there was none. */
	EXPECT(ibv_resize_cq(b.rcq, 100), 0);
	EXPECT(ibv_req_notify_cq(b.rcq, 0), 0);
	EXPECT(cq_event(s.channel, b.rcq), true);
	EXPECT_WC(b.rcq, 2, IBV_WC_SUCCESS);
	wr.send_flags = IBV_SEND_SOLICITED;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(ibv_req_notify_cq(b.rcq, 1), 0);
	EXPECT(cq_event(s.channel, b.rcq), true);
	EXPECT_WC(b.rcq, 3, IBV_WC_SUCCESS);
	EXPECT(ibv_req_notify_cq(b.rcq, 0), 0);
	EXPECT(cq_event(s.channel, b.rcq), false);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_destroy_comp_channel(s.channel), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"remote_table", remote_table},
		{"atomic_writes", atomic_writes},
		{"local_buffers", local_buffers},
		{"receive_buffers", receive_buffers},
		{"receive_buffers_of_an_srq", receive_buffers_of_an_srq},
		{"rnr_exhausted", rnr_exhausted},
		{"retry_exhausted", retry_exhausted},
		{"retry_in_another_life", retry_in_another_life},
		{"retry_sparingly", retry_sparingly},
		{"flush_in_order", flush_in_order},
		{"send_queue_error", send_queue_error},
		{"full_socket", full_socket},
		{"full_socket_reads", full_socket_reads},
		{"cq_overflow", cq_overflow},
		{"srq_events", srq_events},
		{"communication_established", communication_established},
		{"moderated", moderated},
		{"send_queue_drained", send_queue_drained},
		{"notified_late", notified_late},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

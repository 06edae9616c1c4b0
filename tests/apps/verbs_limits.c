// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What query_device promises holds: the largest queues, lists, regions and numbers of QPs work. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "verbs_test.h"

/* A queue of the longest, filled before its end can take anything, in lists of many. */
static void longest_queues(void)
{
	enum { WRS = 16384, LIST = 64 };
	struct setup s = {.type = IBV_QPT_RC,
			  .cap = {.max_send_wr = WRS, .max_recv_wr = WRS, .max_inline_data = 8},
			  .cqe = WRS,
			  .rnr_timer = 14};
	struct ibv_send_wr send[LIST], *bad;
	struct ibv_recv_wr recv, *bad_recv;
	uint64_t values[LIST], *got = calloc(WRS, sizeof(*got));
	struct ibv_mr *mr;
	struct ibv_sge in[LIST], out;
	struct end a, b;

	NEED(got);
	NEED(mr = ibv_reg_mr(pd, got, WRS * sizeof(*got), IBV_ACCESS_LOCAL_WRITE));
	make_pair(&a, &b, &s);
	for (int i = 0; i < WRS; i += LIST) {
		for (int k = 0; k < LIST; k++) {
			values[k] = i + k + 1;
			in[k] = (struct ibv_sge){(uintptr_t)&values[k], 8};
			send[k] = (struct ibv_send_wr){.wr_id = i + k,
						       .opcode = IBV_WR_SEND,
						       .send_flags = IBV_SEND_INLINE,
						       .sg_list = &in[k],
						       .num_sge = 1};
			send[k].next = k + 1 < LIST ? &send[k + 1] : NULL;
		}
		NEED(!ibv_post_send(a.qp, send, &bad));
	}
	send[0].next = NULL;
	EXPECT(ibv_post_send(a.qp, send, &bad), ENOMEM);
	for (int i = 0; i < WRS; i++) {
		out = (struct ibv_sge){(uintptr_t)&got[i], 8, mr->lkey};
		recv = (struct ibv_recv_wr){.wr_id = i, .sg_list = &out, .num_sge = 1};
		NEED(!ibv_post_recv(b.qp, &recv, &bad_recv));
	}
	for (int i = 0; i < WRS; i++) {
		EXPECT_WC(a.scq, i, IBV_WC_SUCCESS);
		EXPECT_WC(b.rcq, i, IBV_WC_SUCCESS);
		EXPECT(got[i], i + 1);
		if (failures > 20)
			break;
	}
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	free(got);
}

/* 32 pieces on both sides, of uneven lengths, over packets and through RDMA READ as well */
static void longest_lists(void)
{
	enum { SGES = 32, PIECE = 301 };
	struct setup s = {.type = IBV_QPT_RC, .cap = {.max_send_sge = SGES, .max_recv_sge = SGES}};
	static uint8_t from[SGES * PIECE * 2], to[SGES * PIECE * 2];
	struct ibv_sge send[SGES], recv[SGES];
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = send, .num_sge = SGES};
	struct ibv_recv_wr rwr = {.sg_list = recv, .num_sge = SGES}, *bad;
	struct ibv_mr *mf, *mt;
	struct end a, b;

	NEED(mf = ibv_reg_mr(pd, from, sizeof(from),
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE));
	NEED(mt = ibv_reg_mr(pd, to, sizeof(to), IBV_ACCESS_LOCAL_WRITE));
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = i * 31 >> 3;
	/* Every other piece of from goes, in order, into every other piece of to. */
	for (int i = 0; i < SGES; i++) {
		send[i] = (struct ibv_sge){(uintptr_t)from + i * 2 * PIECE, PIECE, mf->lkey};
		recv[i] = (struct ibv_sge){(uintptr_t)to + i * 2 * PIECE, PIECE, mt->lkey};
	}
	make_pair(&a, &b, &s);
	NEED(!ibv_post_recv(b.qp, &rwr, &bad));
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 0, IBV_WC_SUCCESS);
	for (int i = 0; i < 2 * SGES * PIECE; i++) {
		if (to[i] != (i / PIECE % 2 ? 0 : from[i])) {
			EXPECT(to[i], i / PIECE % 2 ? 0 : from[i]);
			break;
		}
	}
	/* A run of from, scattered by a read. */
	wr.opcode = IBV_WR_RDMA_READ;
	wr.sg_list = recv;
	wr.wr.rdma.remote_addr = (uintptr_t)from;
	wr.wr.rdma.rkey = mf->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	for (int i = 0; i < SGES; i++)
		EXPECT_TRUE(!memcmp(to + i * 2 * PIECE, from + i * PIECE, PIECE));
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mf), 0);
	EXPECT(ibv_dereg_mr(mt), 0);
}

/* 1 KiB inline, from memory that is no region and changes at once */
static void longest_inline(void)
{
	struct setup s = {.type = IBV_QPT_RC, .cap = {.max_inline_data = 1024}, .mtu = IBV_MTU_256};
	static uint8_t to[1024];
	uint8_t from[1024];
	struct ibv_sge sge[2] = {{(uintptr_t)from, 1000}, {(uintptr_t)from + 1000, 24}};
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = sge, .num_sge = 2};
	struct ibv_mr *mr;
	struct end a, b;

	NEED(mr = ibv_reg_mr(pd, to, sizeof(to), IBV_ACCESS_LOCAL_WRITE));
	make_pair(&a, &b, &s);
	for (int i = 0; i < 1024; i++)
		from[i] = i * 7;
	EXPECT(post_buffer(&b, 1, to, 1024, mr->lkey), 0);
	EXPECT(post(a.qp, &wr), 0);
	memset(from, 0, sizeof(from));
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 1024 && !failures; i++)
		EXPECT(to[i], (uint8_t)(i * 7));
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
}

/* Thousands of QPs, each connected to itself; every hundredth sends. */
static void many_qps(void)
{
	enum { QPS = 6000 };
	static struct ibv_qp *qps[QPS];
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_cq *cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};

	NEED(cq);
	for (int i = 0; i < QPS; i++) {
		NEED(qps[i] = ibv_create_qp(pd, &init));
		NEED(qps[i]->qp_num > 1 && qps[i]->qp_num < 0xffffff);
		NEED(!to_init(qps[i], &s) && !to_rtr(qps[i], qps[i]->qp_num, &s) &&
		     !to_rts(qps[i], &s));
	}
	for (int i = 0; i < QPS; i += 100) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_RDMA_WRITE};

		EXPECT(post(qps[i], &wr), 0);
		EXPECT_WC(cq, i, IBV_WC_SUCCESS);
	}
	for (int i = 0; i < QPS; i++)
		EXPECT(ibv_destroy_qp(qps[i]), 0);
	EXPECT(ibv_destroy_cq(cq), 0);
}

/* A region of 6 GiB of which nothing is there yet: its ends, and around 4 GiB */
static void large_region(void)
{
	const size_t size = 6ull << 30;
	const uint64_t places[] = {0, (4ull << 30) - 4, 4ull << 30, size - 8};
	struct setup s = {.type = IBV_QPT_RC};
	uint8_t *mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t words[2] = {0x0123456789abcdefull, 0};
	struct ibv_mr *mr, *local;
	struct end a, b;

	NEED(mem != MAP_FAILED);
	NEED(mr = ibv_reg_mr(pd, mem, size,
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ));
	NEED(local = ibv_reg_mr(pd, words, sizeof(words), IBV_ACCESS_LOCAL_WRITE));
	EXPECT(mr->length, size);
	make_pair(&a, &b, &s);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct ibv_sge sge = {(uintptr_t)&words[0], 8, local->lkey};
		struct ibv_send_wr wr = {
			.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

		wr.wr.rdma.remote_addr = (uintptr_t)mem + places[i];
		wr.wr.rdma.rkey = mr->rkey;
		words[1] = 0;
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
		EXPECT_TRUE(!memcmp(mem + places[i], words, 8));
		sge.addr = (uintptr_t)&words[1];
		wr.opcode = IBV_WR_RDMA_READ;
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
		EXPECT_TRUE(words[1] == words[0]);
	}
	/* Behind its end is behind its end. */
	struct ibv_sge sge = {(uintptr_t)&words[0], 8, local->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = (uintptr_t)mem + size - 7;
	wr.wr.rdma.rkey = mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
	next_event();
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(local), 0);
	munmap(mem, size);
}

/* On-demand paging, the implicit form: one region is all of the address space. */
static void implicit_region(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_device_attr_ex attr;
	uint64_t from = 42, *to = malloc(8);
	struct ibv_mr *all;
	struct ibv_sge sge = {(uintptr_t)&from, 8};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
	struct end a, b;

	NEED(!ibv_query_device_ex(ctx, NULL, &attr) && to);
	EXPECT_TRUE(attr.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT);
	NEED(all = ibv_reg_mr(pd, NULL, SIZE_MAX,
			      IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE |
				      IBV_ACCESS_REMOTE_WRITE));
	make_pair(&a, &b, &s);
	*to = 0;
	sge.lkey = all->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = all->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(*to, 42);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(all), 0);
	free(to);
}

/*
 * So many reads and atomics, with as many outstanding as agreed, that 16-bit cursors come around;
 * the number agreed upon is none of those that programs usually choose.
 */
/* Reads as zeros for as many bytes as one likes, and swallows what is written. */
static void null_region(void)
{
	const uint32_t large = 5u << 20;
	uint8_t *from = malloc(large), *to = malloc(large);
	struct ibv_mr *null = ibv_alloc_null_mr(pd), *from_mr, *to_mr;
	struct ibv_sge sges[3] = {
		{.length = 8}, {.addr = 1ull << 50, .length = 4 << 20}, {.length = 8}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sges, .num_sge = 3};
	struct ibv_recv_wr rwr = {.sg_list = sges, .num_sge = 3}, *bad;
	struct setup s = {.type = IBV_QPT_RC};
	struct end a, b;

	NEED(from && to && null);
	memset(from, 0x55, large);
	memset(to, 0x77, large);
	NEED(from_mr = ibv_reg_mr(pd, from, large, 0));
	NEED(to_mr = ibv_reg_mr(pd, to, large, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	make_pair(&a, &b, &s);
	/* Zeros in the middle of a message. */
	EXPECT(post_buffer(&b, 1, to, large, to_mr->lkey), 0);
	sges[0].addr = sges[2].addr = (uintptr_t)from;
	sges[0].lkey = sges[2].lkey = from_mr->lkey;
	sges[1].lkey = null->lkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
	EXPECT(to[7], 0x55);
	for (uint32_t i = 8; i < 8 + (4 << 20) && !failures; i++)
		EXPECT(to[i], 0);
	EXPECT(to[8 + (4 << 20)], 0x55);
	/* What comes there is lost, what comes behind it is not. */
	sges[0].addr = (uintptr_t)to;
	sges[2].addr = (uintptr_t)to + 8;
	sges[0].lkey = sges[2].lkey = to_mr->lkey;
	EXPECT(ibv_post_recv(b.qp, &rwr, &bad), 0);
	wr.num_sge = 1;
	wr.sg_list = &(struct ibv_sge){(uintptr_t)from, 16 + (4 << 20), from_mr->lkey};
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 0, IBV_WC_SUCCESS);
	EXPECT(to[0], 0x55);
	EXPECT(to[15], 0x55);
	/* A read into it; then it still reads as zeros. It is nothing for others. */
	wr.opcode = IBV_WR_RDMA_READ;
	wr.sg_list = &(struct ibv_sge){12345, 100000, null->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = to_mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	wr.wr.rdma.rkey = null->lkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(null), 0);
	EXPECT(ibv_dereg_mr(from_mr), 0);
	EXPECT(ibv_dereg_mr(to_mr), 0);
	while (event_waits())
		next_event();
	free(from);
	free(to);
}

static void many_answers(void)
{
	enum { DEPTH = 7, OPS = 70000 };
	struct setup s = {.type = IBV_QPT_RC, .rd_atomic = DEPTH, .cap = {.max_send_wr = 64}};
	static uint64_t counter, results[64];
	struct ibv_mr *mr, *local;
	struct ibv_wc wc[16];
	int posted = 0, done = 0;
	double until = seconds() + 60;
	struct end a, b;

	counter = 0;
	NEED(mr = ibv_reg_mr(pd, &counter, 8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
	NEED(local = ibv_reg_mr(pd, results, sizeof(results), IBV_ACCESS_LOCAL_WRITE));
	make_pair(&a, &b, &s);
	while (done < OPS && seconds() < until) {
		while (posted < OPS && posted - done < 64) {
			struct ibv_sge sge = {(uintptr_t)&results[posted % 64], 8, local->lkey};
			struct ibv_send_wr wr = {.wr_id = posted,
						 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
						 .sg_list = &sge,
						 .num_sge = 1};

			wr.wr.atomic.remote_addr = (uintptr_t)&counter;
			wr.wr.atomic.rkey = mr->rkey;
			wr.wr.atomic.compare_add = 1;
			NEED(!post(a.qp, &wr));
			posted++;
		}
		for (int i = 0, n = ibv_poll_cq(a.scq, 16, wc); i < n; i++) {
			EXPECT(wc[i].status, IBV_WC_SUCCESS);
			EXPECT(wc[i].wr_id, done);
			/* Each saw the value that it alone made larger. */
			EXPECT(results[done % 64], done);
			NEED(failures < 20);
			done++;
		}
	}
	EXPECT(done, OPS);
	EXPECT(counter, OPS);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(local), 0);
}

/*
 * The kernel numbers its devices from 0 on, and librdmacm finds devices by their numbers. A kernel
 * without devices has none, and then ours have none: its netlink, which knows devices by number, is
 * not there either.
 */
/* ---- creation flags of UD QPs ---- */

static const union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 18, 0, 1}};
static uint8_t datagram[3][40 + 8];
static struct ibv_mr *datagrams;

static struct ibv_qp *make_ud(struct ibv_cq *cq, enum ibv_qp_create_flags flags, uint32_t source)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_UD,
		.send_cq = cq,
		.recv_cq = cq,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = flags,
		.source_qpn = source,
		.pd = pd,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};

	return ibv_create_qp_ex(ctx, &init);
}

static void begin_ud(struct end *e, int slot, struct ibv_qp *qp)
{
	struct setup s = {.type = IBV_QPT_UD};

	NEED(qp);
	*e = (struct end){.pd = pd, .qp = qp, .scq = qp->send_cq, .rcq = qp->recv_cq};
	connect_end(e, 0, &s);
	EXPECT(post_buffer(e, slot, datagram[slot], sizeof(datagram[slot]), datagrams->lkey), 0);
}

static void send_ud(struct end *e, struct ibv_ah *ah, uint32_t qpn)
{
	struct ibv_sge sge = {(uintptr_t)datagram[2], 8, datagrams->lkey};
	struct ibv_send_wr wr = {.wr_id = 9,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.ud = {ah, qpn, 0x11111111}};

	EXPECT(post(e->qp, &wr), 0);
	EXPECT_WC(e->scq, 9, IBV_WC_SUCCESS);
}

#define EXPECT_FROM(cq, id, qpn)                     \
	do {                                         \
		struct ibv_wc wc_ = {.status = 999}; \
		EXPECT_TRUE(next_wc(cq, &wc_, 5));   \
		EXPECT(wc_.status, IBV_WC_SUCCESS);  \
		EXPECT(wc_.wr_id, id);               \
		EXPECT(wc_.src_qp, qpn);             \
	} while (0)

static void free_ud(struct end *a, struct end *b)
{
	EXPECT(ibv_destroy_qp(a->qp), 0);
	EXPECT(ibv_destroy_qp(b->qp), 0);
	EXPECT(ibv_destroy_cq(a->scq), 0);
	EXPECT(ibv_destroy_cq(b->scq), 0);
	EXPECT(ibv_dereg_mr(datagrams), 0);
}

/* What a QP sends to its group comes back to it, unless it was created without that. */
static void own_multicast(void)
{
	struct ibv_cq *cqs[2] = {ibv_create_cq(ctx, 8, NULL, NULL, 0),
				 ibv_create_cq(ctx, 8, NULL, NULL, 0)};
	struct ibv_ah_attr to = av();
	struct ibv_ah *ah;
	struct end deaf, other;

	NEED(cqs[0] && cqs[1]);
	NEED(datagrams = ibv_reg_mr(pd, datagram, sizeof(datagram), IBV_ACCESS_LOCAL_WRITE));
	begin_ud(&deaf, 0, make_ud(cqs[0], IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0));
	begin_ud(&other, 1, make_ud(cqs[1], 0, 0));
	EXPECT(ibv_attach_mcast(deaf.qp, &group, 0), 0);
	EXPECT(ibv_attach_mcast(other.qp, &group, 0), 0);
	to.grh.dgid = group;
	NEED(ah = ibv_create_ah(pd, &to));
	send_ud(&deaf, ah, 0xffffff);
	EXPECT_FROM(other.rcq, 1, deaf.qp->qp_num);
	EXPECT_QUIET(deaf.rcq);
	EXPECT(post_buffer(&other, 1, datagram[1], sizeof(datagram[1]), datagrams->lkey), 0);
	send_ud(&other, ah, 0xffffff);
	EXPECT_FROM(other.rcq, 1, other.qp->qp_num);
	EXPECT_FROM(deaf.rcq, 0, other.qp->qp_num);
	EXPECT(ibv_destroy_ah(ah), 0);
	EXPECT(ibv_detach_mcast(deaf.qp, &group, 0), 0);
	EXPECT(ibv_detach_mcast(other.qp, &group, 0), 0);
	free_ud(&deaf, &other);
}

/* A QP that sends in the name of another one, to which the answers come. */
static void source_number(void)
{
	struct ibv_cq *cqs[2] = {ibv_create_cq(ctx, 8, NULL, NULL, 0),
				 ibv_create_cq(ctx, 8, NULL, NULL, 0)};
	struct ibv_ah_attr to = av();
	struct ibv_ah *ah;
	struct end named, sender;

	NEED(cqs[0] && cqs[1]);
	NEED(datagrams = ibv_reg_mr(pd, datagram, sizeof(datagram), IBV_ACCESS_LOCAL_WRITE));
	EXPECT_NULL(make_ud(cqs[1], IBV_QP_CREATE_SOURCE_QPN, 1u << 24), EINVAL);
	begin_ud(&named, 0, make_ud(cqs[0], 0, 0));
	begin_ud(&sender, 1, make_ud(cqs[1], IBV_QP_CREATE_SOURCE_QPN, named.qp->qp_num));
	NEED(ah = ibv_create_ah(pd, &to));
	send_ud(&sender, ah, named.qp->qp_num);
	EXPECT_FROM(named.rcq, 0, named.qp->qp_num);
	EXPECT_TRUE(sender.qp->qp_num != named.qp->qp_num);
	EXPECT(ibv_destroy_ah(ah), 0);
	free_ud(&named, &sender);
}

/* Of the interface that the test makes: 02:00:00:00:00:01, 10.9.0.1/24, with 10.9.0.2 at …:07. */
static void ethernet_addresses(void)
{
	static const struct {
		uint8_t ip[4], mac[6];
		int ret;
	} table[] = {
		{{10, 9, 0, 1}, {2, 0, 0, 0, 0, 1}, 0},
		{{10, 9, 0, 2}, {2, 0, 0, 0, 0, 7}, 0},
		{{239, 129, 2, 3}, {1, 0, 0x5e, 1, 2, 3}, 0},
		{{10, 10, 0, 1}, {0}, EINVAL}, /* no route */
	};
	struct ibv_ah_attr attr = av();
	uint8_t mac[6];
	uint16_t vid;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		memcpy(&attr.grh.dgid.raw[12], table[i].ip, 4);
		vid = 0;
		EXPECT(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, &vid), table[i].ret);
		if (!table[i].ret) {
			EXPECT_TRUE(!memcmp(mac, table[i].mac, sizeof(mac)));
			EXPECT(vid, 0xffff);
		}
	}
	attr = av();
	EXPECT(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, NULL), 0);
	attr.port_num = 9;
	EXPECT(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, &vid), EINVAL);
	attr = av();
	attr.grh.sgid_index = 200;
	EXPECT(ibv_resolve_eth_l2_from_gid(ctx, &attr, mac, &vid), EINVAL);
}

static void device_numbers(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool numbered = !syscall(SYS_faccessat, AT_FDCWD, "/sys/class/infiniband", F_OK);

	NEED(list);
	for (int i = 0; list[i]; i++) {
		if (strncmp(ibv_get_device_name(list[i]), "urxe", 4))
			continue;
		if (!numbered) {
			EXPECT(ibv_get_device_index(list[i]), -1);
			continue;
		}
		EXPECT_TRUE(ibv_get_device_index(list[i]) >= 1 << 20);
		for (int k = 0; k < i; k++)
			EXPECT_TRUE(ibv_get_device_index(list[i]) != ibv_get_device_index(list[k]));
	}
	ibv_free_device_list(list);
}

/* One protection domain under several handles: what was made with one goes with what was made with
 * another (ibv_alloc_parent_domain(3)). perftest's --no_lock lives on it. */
static void parent_domains(void)
{
	static uint8_t from[64], to[64];
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_td *td = ibv_alloc_td(ctx, &td_attr);
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &attr), *apart = ibv_alloc_pd(ctx);
	struct ibv_mr *from_mr, *to_mr, *apart_mr;
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = sizeof(from)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
	struct ibv_ah_attr to_itself = av();
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
	struct ibv_cq_ex *cq;
	struct ibv_ah *ah;
	struct end a, b;

	NEED(td && parent && apart);
	cq = ibv_create_cq_ex(ctx, &cq_attr);
	EXPECT_TRUE(cq);
	if (cq)
		EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	EXPECT_TRUE(parent != pd);
	EXPECT(ibv_dealloc_td(td), EBUSY);
	EXPECT(ibv_dealloc_pd(pd), EBUSY);
	attr.pd = NULL;
	EXPECT_NULL(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	attr.pd = pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	EXPECT_NULL(ibv_alloc_parent_domain(ctx, &attr), EINVAL); /* there is none */
	attr.comp_mask = 1 << 30;
	EXPECT_NULL(ibv_alloc_parent_domain(ctx, &attr), EOPNOTSUPP);
	cq_attr.parent_domain = pd;
	EXPECT_NULL(ibv_create_cq_ex(ctx, &cq_attr), EINVAL);

	from_mr = ibv_reg_mr(pd, from, sizeof(from), 0);
	to_mr = ibv_reg_mr(pd, to, sizeof(to), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	apart_mr = ibv_reg_mr(apart, from, sizeof(from), 0);
	NEED(from_mr && to_mr && apart_mr);
	s.pd_b = parent;
	make_pair(&b, &a, &s);
	EXPECT_TRUE(a.qp->pd == parent);
	EXPECT(ibv_dealloc_pd(parent), EBUSY);
	memset(from, 7, sizeof(from));
	sge.lkey = from_mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = to_mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(to[63], 7);
	sge.lkey = apart_mr->lkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_LOC_PROT_ERR);
	free_end(&a);
	free_end(&b);

	/* An address handle of the one in a QP of the other. */
	s.type = IBV_QPT_UD;
	make_pair(&b, &a, &s);
	ah = ibv_create_ah(pd, &to_itself);
	NEED(ah);
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 0;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(ibv_destroy_ah(ah), 0);
	free_end(&a);
	free_end(&b);

	EXPECT(ibv_dereg_mr(from_mr), 0);
	EXPECT(ibv_dereg_mr(to_mr), 0);
	EXPECT(ibv_dereg_mr(apart_mr), 0);
	EXPECT(ibv_dealloc_pd(apart), 0);
	EXPECT(ibv_dealloc_pd(parent), 0);
	EXPECT(ibv_dealloc_td(td), 0);
}

/* What an allocator of ibv_alloc_parent_domain(3) has given, and how it answers. */
static struct {
	enum { GIVE, GIVE_DEFAULT, GIVE_NOTHING } answer;
	unsigned given, returned, types;
} allocator;

static void *allocate(struct ibv_pd *of, void *arg, size_t size, size_t alignment, uint64_t type)
{
	void *at;

	EXPECT_TRUE(arg == &allocator);
	if (allocator.answer == GIVE_DEFAULT)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (allocator.answer == GIVE_NOTHING || posix_memalign(&at, alignment, size))
		return NULL;
	allocator.given++;
	allocator.types |= 1u << type;
	return memset(at, 0xee, size);
}

static void give_back(struct ibv_pd *of, void *arg, void *at, uint64_t type)
{
	EXPECT_TRUE(allocator.types & 1u << type);
	allocator.returned++;
	free(at);
}

/* Queues in memory of the program's; the end of a pair whose CQs, SRQ and QP are in it. */
static void allocators(void)
{
	static uint8_t buf[64];
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd, .alloc = allocate, .free = give_back, .pd_context = &allocator};
	struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = cap_of(&s), .sq_sig_all = 1};
	struct ibv_srq_attr more = {.max_wr = 100};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *parent;
	struct end a, b = {0};

	attr.comp_mask =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	NEED(parent = ibv_alloc_parent_domain(ctx, &attr));
	cq_attr.parent_domain = parent;
	NEED(b.scq = b.rcq = ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &cq_attr)));
	EXPECT(ibv_dealloc_pd(parent), EBUSY);
	NEED(b.srq = ibv_create_srq(parent, &srq_attr));
	init.send_cq = init.recv_cq = b.scq;
	init.srq = b.srq;
	NEED(b.qp = ibv_create_qp(parent, &init));
	EXPECT(allocator.given, 3);
	make_end(&a, &s, pd, NULL);
	connect_end(&a, b.qp->qp_num, &s);
	connect_end(&b, a.qp->qp_num, &s);

	EXPECT(post_buffer(&b, 5, buf, sizeof(buf), mr->lkey), 0);
	EXPECT(ibv_modify_srq(b.srq, &more, IBV_SRQ_MAX_WR), 0);
	EXPECT(ibv_resize_cq(b.scq, 1000), 0);
	EXPECT(allocator.given, 5);
	EXPECT(allocator.returned, 2);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(b.rcq, 5, IBV_WC_SUCCESS);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);

	allocator.answer = GIVE_NOTHING;
	EXPECT_NULL(ibv_create_qp(parent, &init), ENOMEM);
	EXPECT_NULL(ibv_create_srq(parent, &srq_attr), ENOMEM);
	EXPECT_NULL(ibv_create_cq_ex(ctx, &cq_attr), ENOMEM);
	EXPECT(ibv_resize_cq(b.scq, 10), ENOMEM);
	allocator.answer = GIVE_DEFAULT;
	EXPECT(ibv_resize_cq(b.scq, 10), 0);
	EXPECT(allocator.returned, 3);

	free_end(&a);
	EXPECT(ibv_destroy_qp(b.qp), 0);
	EXPECT(ibv_destroy_srq(b.srq), 0);
	EXPECT(ibv_destroy_cq(b.scq), 0);
	EXPECT(allocator.returned, allocator.given);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dealloc_pd(parent), 0);
}

/* Buffers from the driver, of rdma-core 64, whose examples use them: without a driver's own way
 * they are plain memory. Programs built with an older verbs.h look the functions up. */
struct ibv_buf;

static void provider_buffers(void)
{
	void *(*alloc_buf)(struct ibv_pd *, size_t, struct ibv_buf **) =
		dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	void (*free_buf)(struct ibv_buf *) = dlsym(RTLD_DEFAULT, "ibv_free_buf");
	int (*export_fd)(struct ibv_buf *) = dlsym(RTLD_DEFAULT, "ibv_export_buf_dmabuf_fd");
	struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, struct ibv_buf *, void *, size_t, int) =
		dlsym(RTLD_DEFAULT, "ibv_reg_buf_mr");
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_buf *buf = NULL;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
	struct end a, b;
	uint8_t *mem;

	NEED(other && alloc_buf && free_buf && export_fd && reg_buf_mr);
	mem = alloc_buf(pd, 8192, &buf);
	NEED(mem && buf);
	EXPECT((uintptr_t)mem % 4096, 0);
	errno = 0;
	EXPECT(export_fd(buf), -1);
	EXPECT(errno, ENODATA);
	EXPECT_NULL(reg_buf_mr(other, buf, mem, 8192, 0), EINVAL);
	EXPECT_NULL(reg_buf_mr(pd, buf, mem, 8193, 0), EINVAL);
	EXPECT_NULL(reg_buf_mr(pd, buf, mem + 8193, 0, 0), EINVAL);
	EXPECT_NULL(reg_buf_mr(pd, buf, mem - 1, 1, 0), EINVAL);
	EXPECT_NULL(reg_buf_mr(pd, NULL, mem, 1, 0), EINVAL);
	mr = reg_buf_mr(pd, buf, mem, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(mr);
	EXPECT_TRUE(mr->addr == mem && mr->length == 8192 && mr->pd == pd);
	make_pair(&a, &b, &s);
	memset(mem, 1, 4096);
	memset(mem + 4096, 2, 4096);
	sge = (struct ibv_sge){.addr = (uintptr_t)mem, .length = 4096, .lkey = mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)mem + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(memcmp(mem, mem + 4096, 4096), 0);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(mr), 0);
	free_buf(buf);
	EXPECT(ibv_dealloc_pd(other), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"longest_queues", longest_queues},
		{"longest_lists", longest_lists},
		{"longest_inline", longest_inline},
		{"many_qps", many_qps},
		{"large_region", large_region},
		{"implicit_region", implicit_region},
		{"many_answers", many_answers},
		{"own_multicast", own_multicast},
		{"source_number", source_number},
		{"device_numbers", device_numbers},
		{"parent_domains", parent_domains},
		{"allocators", allocators},
		{"provider_buffers", provider_buffers},
		{"null_region", null_region},
		{"ethernet_addresses", ethernet_addresses},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

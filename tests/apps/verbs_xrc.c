// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * XRC between processes of a host: a domain that both have by one file, a target QP of this
 * process, and SRQs of this one and of a child.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "verbs_test.h"

/* Of inline functions of verbs.h that find no table of operations. */
#pragma GCC diagnostic ignored "-Wnull-dereference"

#define LARGE  300000
#define ROUNDS 300
#define WRS    64

/* What receives: of this process, or of the child. */
static struct side {
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory;
	uint32_t srqn;
} here;

/* What the child says of its side. */
static struct there {
	uint64_t addr;
	uint32_t srqn, rkey;
} there;

static int domain_file, to_child;
static pid_t child;
static struct ibv_qp *initiator, *target;
static struct ibv_cq *send_cq;
static struct ibv_mr *out_mr;
static uint8_t out[LARGE];

static struct ibv_xrcd *open_domain(int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = fd,
					  .oflags = oflags};

	return ibv_open_xrcd(ctx, &attr);
}

static void post_receive(struct side *s, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)s->memory, LARGE, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	EXPECT(ibv_post_srq_recv(s->srq, &wr, &bad), 0);
}

static void open_side(struct side *s, int oflags)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = {.max_wr = WRS, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
	};

	NEED(s->xrcd = attr.xrcd = open_domain(domain_file, oflags));
	NEED(s->cq = attr.cq = ibv_create_cq(ctx, 256, NULL, NULL, 0));
	NEED(s->srq = ibv_create_srq_ex(ctx, &attr));
	NEED(!ibv_get_srq_num(s->srq, &s->srqn));
	NEED(s->memory = calloc(1, LARGE));
	NEED(s->mr = ibv_reg_mr(pd, s->memory, LARGE,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
}

static void close_side(struct side *s)
{
	int busy = 0;

	EXPECT(ibv_destroy_srq(s->srq), 0);
	EXPECT(ibv_destroy_cq(s->cq), 0);
	EXPECT(ibv_dereg_mr(s->mr), 0);
	/* Until it is noticed that another process has died which had a QP of it open. */
	for (int i = 0; i < 500 && (busy = ibv_close_xrcd(s->xrcd)); i++)
		usleep(10000);
	EXPECT(busy, 0);
	free(s->memory);
}

/* ---- the child ---- */

enum command {
	RECEIVE,
	EXPECT_LARGE,
	FORGET_SRQ,
	OPEN_QP,
	EXPECT_STATE,
	TO_ERROR,
	CLOSE_QP,
	OPEN_AGAIN,
	EXPECT_HEAP,
	LEAVE
};

static void expect_message(struct side *s, uint32_t length)
{
	struct ibv_wc wc;

	EXPECT_TRUE(next_wc(s->cq, &wc, 20));
	EXPECT(wc.status, IBV_WC_SUCCESS);
	EXPECT(wc.byte_len, length);
	for (uint32_t i = 0; i < length && !failures; i++)
		EXPECT(s->memory[i], (uint8_t)(i * 7));
}

static struct ibv_qp *opened;

static void open_target(struct side *s, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn + (1 << 8),
		.xrcd = s->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	EXPECT_NULL(ibv_open_qp(ctx, &attr), EINVAL); /* no such QP */
	attr.qp_num = qpn;
	NEED(opened = ibv_open_qp(ctx, &attr));
	EXPECT(opened->qp_num, qpn);
	EXPECT(ibv_close_xrcd(s->xrcd), EBUSY);
}

static void opened_to_error(void)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	EXPECT(ibv_modify_qp(opened, &attr, IBV_QP_STATE | IBV_QP_QKEY), EINVAL);
	EXPECT(ibv_modify_qp(opened, &attr, IBV_QP_STATE), 0);
	EXPECT(state_of(opened), IBV_QPS_ERR);
}

/* Memory of the sizes of objects that were freed: nobody else writes to it. */
static struct {
	uint8_t *bytes;
	size_t size;
} heap[64 * 16];

#define BLOCKS (sizeof(heap) / sizeof(heap[0]))

static void open_again(struct side *s)
{
	close_side(s);
	for (size_t i = 0; i < BLOCKS; i++) {
		heap[i].size = 16 + i % 64 * 16;
		NEED(heap[i].bytes = malloc(heap[i].size));
		memset(heap[i].bytes, 0x5a, heap[i].size);
	}
	open_side(s, 0);
}

static void expect_heap(void)
{
	for (size_t i = 0; i < BLOCKS; i++)
		for (size_t k = 0; k < heap[i].size && failures < 5; k++)
			EXPECT(heap[i].bytes[k], 0x5a);
}

static bool carry_out(struct side *s, enum command command, uint32_t length)
{
	switch (command) {
	case RECEIVE: post_receive(s, 1); break;
	case EXPECT_LARGE: expect_message(s, length); break;
	case FORGET_SRQ: EXPECT(ibv_destroy_srq(s->srq), 0); break;
	case OPEN_QP: open_target(s, length); break;
	case EXPECT_STATE: EXPECT(state_of(opened), length); break;
	case TO_ERROR: opened_to_error(); break;
	case CLOSE_QP: EXPECT(ibv_destroy_qp(opened), 0); break;
	case OPEN_AGAIN: open_again(s); break;
	case EXPECT_HEAP: expect_heap(); break;
	case LEAVE: return false;
	}
	return true;
}

/* Each command, with a number, is answered by how many expectations have failed. */
static void live(int fd)
{
	struct side s;
	struct there my;
	uint32_t command[2], reply;

	alarm(60);
	ctx = NULL;
	open_urxe();
	open_side(&s, 0);
	my = (struct there){(uintptr_t)s.memory, s.srqn, s.mr->rkey};
	NEED(write(fd, &my, sizeof(my)) == sizeof(my));
	do {
		reply = failures;
		NEED(read(fd, command, sizeof(command)) == sizeof(command));
		reply = !carry_out(&s, command[0], command[1]);
		if (!reply)
			reply = failures;
		NEED(write(fd, &reply, sizeof(reply)) == sizeof(reply));
		if (command[0] != OPEN_AGAIN)
			continue;
		my = (struct there){(uintptr_t)s.memory, s.srqn, s.mr->rkey};
		NEED(write(fd, &my, sizeof(my)) == sizeof(my));
	} while (command[0] != LEAVE);
	_exit(failures != 0);
}

static void tell(enum command command, uint32_t number)
{
	uint32_t words[2] = {command, number}, reply = 99;

	NEED(write(to_child, words, sizeof(words)) == sizeof(words));
	NEED(read(to_child, &reply, sizeof(reply)) == sizeof(reply));
	EXPECT(reply, command == LEAVE);
}

/* ---- this process ---- */

static void to_state(struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.ah_attr = av(),
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	static const int masks[] = {
		[IBV_QPS_INIT] = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		[IBV_QPS_RTR] = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[IBV_QPS_RTS] = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	};

	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks[state]), 0);
}

static void connect_qps(void)
{
	to_state(initiator, IBV_QPS_INIT, 0);
	to_state(target, IBV_QPS_INIT, 0);
	to_state(initiator, IBV_QPS_RTR, target->qp_num);
	to_state(target, IBV_QPS_RTR, initiator->qp_num);
	to_state(initiator, IBV_QPS_RTS, 0);
	to_state(target, IBV_QPS_RTS, 0);
}

static void make_qps(void)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = here.xrcd,
	};

	NEED(target = ibv_create_qp_ex(ctx, &init));
	NEED(send_cq = ibv_create_cq(ctx, 256, NULL, NULL, 0));
	init = (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
		.send_cq = send_cq,
		.cap = {.max_send_wr = WRS, .max_send_sge = 1},
		.sq_sig_all = 1,
	};
	NEED(initiator = ibv_create_qp_ex(ctx, &init));
	connect_qps();
}

static void begin(void)
{
	char name[] = "/tmp/urxe-xrc-XXXXXX";
	int pair[2];

	NEED((domain_file = mkstemp(name)) >= 0);
	unlink(name);
	EXPECT_NULL(open_domain(domain_file, 0), EAGAIN);
	open_side(&here, O_CREAT);
	EXPECT_NULL(open_domain(domain_file, O_CREAT | O_EXCL), EINVAL);
	NEED(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	NEED((child = fork()) >= 0);
	if (!child) {
		close(pair[0]);
		live(pair[1]);
	}
	close(pair[1]);
	to_child = pair[0];
	NEED(read(to_child, &there, sizeof(there)) == sizeof(there));
	make_qps();
	for (uint32_t i = 0; i < LARGE; i++)
		out[i] = i * 7;
	NEED(out_mr = ibv_reg_mr(pd, out, sizeof(out), IBV_ACCESS_LOCAL_WRITE));
}

static void end(void)
{
	int status;

	NEED(waitpid(child, &status, 0) == child);
	EXPECT_TRUE(WIFSIGNALED(status) || !status);
	EXPECT(ibv_destroy_qp(initiator), 0);
	EXPECT(ibv_close_xrcd(here.xrcd), EBUSY);
	if (target)
		EXPECT(ibv_destroy_qp(target), 0);
	EXPECT(ibv_destroy_cq(send_cq), 0);
	EXPECT(ibv_dereg_mr(out_mr), 0);
	close_side(&here);
	close(to_child);
	close(domain_file);
}

/* To an SRQ, by number; a remote address where there is one to name. */
static void request(enum ibv_wr_opcode opcode, uint32_t srqn, uint32_t length, uint64_t addr,
		    uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)out, length, out_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 7, .opcode = opcode, .sg_list = &sge, .num_sge = 1};

	wr.qp_type.xrc.remote_srqn = srqn;
	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	}
	EXPECT(post(initiator, &wr), 0);
}

/* A message to each SRQ. */
static void one_to_each(uint32_t length)
{
	post_receive(&here, 1);
	tell(RECEIVE, 0);
	request(IBV_WR_SEND, there.srqn, length, 0, 0);
	request(IBV_WR_SEND, here.srqn, length, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	tell(EXPECT_LARGE, length);
	expect_message(&here, length);
}

static void messages(void)
{
	static const uint32_t lengths[] = {0, 1, 1023, 1024, 1025, 5000, 40000, LARGE};

	begin();
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		one_to_each(lengths[i]);
	tell(LEAVE, 0);
	end();
}

static enum ibv_mig_state migration_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE, &init), 0);
	return attr.path_mig_state;
}

static void rearm(struct ibv_qp *qp, int gid_index)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_REARM,
				   .alt_ah_attr = av(),
				   .alt_port_num = 1,
				   .alt_timeout = 14};

	attr.alt_ah_attr.grh.sgid_index = gid_index;
	EXPECT(ibv_query_gid(ctx, 1, gid_index, &attr.alt_ah_attr.grh.dgid), 0);
	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
}

/* Initiators and targets migrate, also with requests that another process carries out. */
static void migrates(void)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_MIGRATED};

	begin();
	for (int i = 0; i < 4; i++) {
		struct ibv_qp *asked = i % 2 ? target : initiator;

		rearm(initiator, !(i % 2));
		rearm(target, !(i % 2));
		one_to_each(5000);
		EXPECT(migration_of(initiator), IBV_MIG_ARMED);
		EXPECT(migration_of(target), IBV_MIG_ARMED);
		EXPECT(ibv_modify_qp(asked, &attr, IBV_QP_PATH_MIG_STATE), 0);
		one_to_each(40000);
		EXPECT(next_event(), IBV_EVENT_PATH_MIG);
		EXPECT(next_event(), IBV_EVENT_PATH_MIG);
		EXPECT(migration_of(initiator), IBV_MIG_MIGRATED);
		EXPECT(migration_of(target), IBV_MIG_MIGRATED);
	}
	tell(LEAVE, 0);
	end();
}

/* Nothing is posted there when the message comes: it is asked for again. */
static void not_ready(void)
{
	begin();
	request(IBV_WR_SEND, there.srqn, 5000, 0, 0);
	usleep(5000);
	tell(RECEIVE, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	tell(EXPECT_LARGE, 5000);
	tell(LEAVE, 0);
	end();
}

/* Requests for both, many under way; what one has written is read by the next. */
static void in_turn(void)
{
	begin();
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t length = 1 + (unsigned)i * 997 % LARGE;

		request(IBV_WR_RDMA_WRITE, there.srqn, length, there.addr, there.rkey);
		request(IBV_WR_RDMA_WRITE, here.srqn, length, (uintptr_t)here.memory,
			here.mr->rkey);
		EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
		EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
		memset(out, 0, length);
		request(IBV_WR_RDMA_READ, i % 2 ? there.srqn : here.srqn, length,
			i % 2 ? there.addr : (uintptr_t)here.memory,
			i % 2 ? there.rkey : here.mr->rkey);
		EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
		for (uint32_t k = 0; k < length && !failures; k++)
			EXPECT(out[k], (uint8_t)(k * 7));
	}
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t before;

		request(IBV_WR_ATOMIC_FETCH_AND_ADD, there.srqn, 8, there.addr, there.rkey);
		EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
		memcpy(&before, out, sizeof(before));
		EXPECT(before, i + 0x2a231c150e0700ull + (0x31ull << 56));
	}
	tell(LEAVE, 0);
	end();
}

/* What is refused there is refused here, and ends the QP with its event. */
static void refused(void)
{
	begin();
	request(IBV_WR_RDMA_WRITE, there.srqn, 8, there.addr, there.rkey + 1);
	EXPECT_WC(send_cq, 7, IBV_WC_REM_ACCESS_ERR);
	EXPECT(next_event(), IBV_EVENT_QP_ACCESS_ERR);
	EXPECT(state_of(target), IBV_QPS_ERR);
	to_state(initiator, IBV_QPS_RESET, 0);
	to_state(target, IBV_QPS_RESET, 0);
	connect_qps();
	tell(RECEIVE, 0);
	request(IBV_WR_SEND, there.srqn, 100, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	tell(EXPECT_LARGE, 100);
	tell(FORGET_SRQ, 0);
	request(IBV_WR_SEND, there.srqn, 100, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_REM_INV_REQ_ERR);
	tell(LEAVE, 0);
	while (event_waits())
		next_event();
	end();
}

/* An SRQ that its program has left behind in a context that it has closed receives nothing. */
static void abandoned(void)
{
	struct ibv_srq_attr limit = {.srq_limit = 1};
	struct ibv_context *first = ctx;
	struct ibv_pd *first_pd = pd;
	struct side left = {0};

	begin();
	NEED(ctx = ibv_open_device(first->device));
	NEED(pd = ibv_alloc_pd(ctx));
	open_side(&left, 0);
	post_receive(&left, 1);
	EXPECT(ibv_modify_srq(left.srq, &limit, IBV_SRQ_LIMIT), 0);
	EXPECT(ibv_close_device(ctx), 0);
	ctx = first;
	pd = first_pd;
	request(IBV_WR_SEND, left.srqn, 100, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_REM_INV_REQ_ERR);
	while (event_waits())
		next_event();
	tell(LEAVE, 0);
	end();
	free(left.memory);
}

/* The process that has the SRQ closes the domain, while the target QP stays with its state
 * there, and opens it again. */
static void opened_again(void)
{
	begin();
	for (int i = 0; i < 3; i++) {
		tell(RECEIVE, 0);
		request(IBV_WR_SEND, there.srqn, 5000, 0, 0);
		EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
		tell(EXPECT_LARGE, 5000);
		if (i)
			tell(EXPECT_HEAP, 0);
		tell(OPEN_AGAIN, 0);
		NEED(read(to_child, &there, sizeof(there)) == sizeof(there));
	}
	tell(LEAVE, 0);
	end();
}

/* The process that has the SRQ is killed: the target QP goes on, unless it was at work there. */
static void killed(void)
{
	struct ibv_wc wc = {.status = 999};

	begin();
	tell(RECEIVE, 0);
	request(IBV_WR_SEND, there.srqn, 100, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	kill(child, SIGKILL);
	post_receive(&here, 1);
	request(IBV_WR_SEND, here.srqn, 100, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	expect_message(&here, 100);
	request(IBV_WR_SEND, there.srqn, 100, 0, 0);
	EXPECT_TRUE(next_wc(send_cq, &wc, 10));
	EXPECT_TRUE(wc.status == IBV_WC_REM_OP_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR);
	while (event_waits())
		next_event();
	end();
}

/* What a forked process finds: its parent's domain by the same file, no SRQ or QP of its parent's,
 * and its copies of those to be destroyed. */
static void live_forked(void)
{
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = target->qp_num,
		.xrcd = here.xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct side parents = here;
	struct ibv_qp *qps[] = {initiator, target};
	struct ibv_cq *parents_cq = send_cq;
	struct ibv_mr *parents_out = out_mr;
	struct ibv_pd *parents_pd = pd;
	struct ibv_context *parents_ctx = ctx;

	alarm(60);
	EXPECT_NULL(ibv_open_qp(ctx, &open_attr), EIO);
	ctx = NULL;
	open_urxe();
	open_side(&here, 0);
	EXPECT_TRUE(here.srqn != parents.srqn);
	make_qps();
	NEED(out_mr = ibv_reg_mr(pd, out, sizeof(out), IBV_ACCESS_LOCAL_WRITE));
	post_receive(&here, 1);
	request(IBV_WR_SEND, here.srqn, 5000, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	expect_message(&here, 5000);
	EXPECT(ibv_destroy_qp(qps[0]), 0);
	EXPECT(ibv_destroy_qp(qps[1]), 0);
	EXPECT(ibv_destroy_cq(parents_cq), 0);
	EXPECT(ibv_dereg_mr(parents_out), 0);
	close_side(&parents);
	EXPECT(ibv_dealloc_pd(parents_pd), 0);
	EXPECT(ibv_close_device(parents_ctx), 0);
	/* Its own are none of those. */
	post_receive(&here, 1);
	request(IBV_WR_SEND, here.srqn, 100, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	expect_message(&here, 100);
	_exit(failures != 0);
}

static void in_a_fork(void)
{
	pid_t pid;
	int status;

	begin();
	NEED((pid = fork()) >= 0);
	if (!pid)
		live_forked();
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
	post_receive(&here, 1);
	tell(RECEIVE, 0);
	request(IBV_WR_SEND, there.srqn, 5000, 0, 0);
	request(IBV_WR_SEND, here.srqn, 5000, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	tell(EXPECT_LARGE, 5000);
	expect_message(&here, 5000);
	tell(LEAVE, 0);
	end();
}

/* A target QP that another process has opened: it sees and changes its state, and the QP takes
 * requests until both have destroyed it, or one of them has died. */
static void opened_elsewhere(void)
{
	for (int ends = 0; ends < 3; ends++) {
		begin();
		tell(OPEN_QP, target->qp_num);
		tell(EXPECT_STATE, IBV_QPS_RTS);
		if (ends == 0) { /* the other process's handle goes first */
			tell(CLOSE_QP, 0);
		} else {
			EXPECT(ibv_destroy_qp(target), 0);
			EXPECT(ibv_close_xrcd(here.xrcd), EBUSY);
			target = NULL;
		}
		tell(RECEIVE, 0);
		request(IBV_WR_SEND, there.srqn, 5000, 0, 0);
		EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
		tell(EXPECT_LARGE, 5000);
		if (ends == 1) {
			tell(TO_ERROR, 0);
			tell(CLOSE_QP, 0);
		}
		if (ends < 2)
			tell(LEAVE, 0);
		else
			kill(child, SIGKILL);
		end();
	}
}

/* A target QP that another context of its process has opened: the handle is that context's, uses
 * its domain, and outlives the first one. */
static void opened_here(void)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
			     IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_context = &attr,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_context *first = ctx;
	struct ibv_qp *handle;

	begin();
	NEED(ctx = ibv_open_device(first->device));
	NEED(attr.xrcd = open_domain(domain_file, 0));
	attr.qp_num = target->qp_num;
	NEED(handle = ibv_open_qp(ctx, &attr));
	EXPECT_TRUE(handle != target);
	EXPECT_TRUE(handle->context == ctx && handle->qp_context == &attr);
	EXPECT(handle->qp_num, target->qp_num);
	EXPECT(state_of(handle), IBV_QPS_RTS);
	EXPECT(ibv_close_xrcd(attr.xrcd), EBUSY);
	EXPECT(ibv_destroy_qp(target), 0);
	target = NULL;
	tell(RECEIVE, 0);
	request(IBV_WR_SEND, there.srqn, 5000, 0, 0);
	EXPECT_WC(send_cq, 7, IBV_WC_SUCCESS);
	tell(EXPECT_LARGE, 5000);
	opened = handle;
	opened_to_error();
	EXPECT(ibv_destroy_qp(handle), 0);
	EXPECT_NULL(ibv_open_qp(ctx, &attr), EINVAL);
	EXPECT(ibv_close_xrcd(attr.xrcd), 0);
	EXPECT(ibv_close_device(ctx), 0);
	ctx = first;
	tell(LEAVE, 0);
	end();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"messages", messages},
		{"migrates", migrates},
		{"not_ready", not_ready},
		{"in_turn", in_turn},
		{"refused", refused},
		{"abandoned", abandoned},
		{"killed", killed},
		{"in_a_fork", in_a_fork},
		{"opened_again", opened_again},
		{"opened_elsewhere", opened_elsewhere},
		{"opened_here", opened_here},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

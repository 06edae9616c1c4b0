// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of an ordinary region that the program has unmapped: requests that reach it end with the
 * errors of a bad key, in every direction and on every way that data goes, and so do those that
 * follow. Other faults stay what they are.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define LENGTH 65536

static const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC;

/* A region whose second half is gone, and one that is whole. */
static struct {
	uint8_t *memory;
	struct ibv_mr *mr;
} gone, whole;

static void begin(void)
{
	whole.memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	gone.memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(whole.memory != MAP_FAILED && gone.memory != MAP_FAILED);
	NEED(whole.mr = ibv_reg_mr(pd, whole.memory, LENGTH, all));
	NEED(gone.mr = ibv_reg_mr(pd, gone.memory, LENGTH, all));
	NEED(!munmap(gone.memory + LENGTH / 2, LENGTH / 2));
}

static void end(void)
{
	EXPECT(ibv_dereg_mr(gone.mr), 0);
	EXPECT(ibv_dereg_mr(whole.mr), 0);
	munmap(gone.memory, LENGTH);
	munmap(whole.memory, LENGTH);
	while (event_waits())
		next_event();
}

/* length bytes around the edge, or (8) just behind it */
static uint64_t at_edge(const void *memory, uint32_t length)
{
	return (uintptr_t)memory + LENGTH / 2 - (length > 8 ? length / 2 : 0);
}

static struct ibv_send_wr request(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sge, .num_sge = 1};

	return wr;
}

/* A request between whole memory here and memory that is gone there; twice, as the second one must
 * not find what the first one left. */
static void at_the_target(enum ibv_wr_opcode opcode, uint32_t length)
{
	struct setup s = {.type = IBV_QPT_RC};

	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = {at_edge(whole.memory, length), length, whole.mr->lkey};
		struct ibv_send_wr wr = request(opcode, &sge);
		struct end a, b;

		make_pair(&a, &b, &s);
		wr.wr.rdma.remote_addr = at_edge(gone.memory, length);
		wr.wr.rdma.rkey = gone.mr->rkey;
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = at_edge(gone.memory, length);
			wr.wr.atomic.rkey = gone.mr->rkey;
		}
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
		free_end(&a);
		free_end(&b);
	}
}

static void at_the_requester(enum ibv_qp_type type, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct setup s = {.type = type, .mtu = IBV_MTU_4096};

	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = {at_edge(gone.memory, length), length, gone.mr->lkey};
		struct ibv_send_wr wr = request(opcode, &sge);
		struct ibv_ah_attr attr = av();
		struct ibv_ah *ah = ibv_create_ah(pd, &attr);
		struct end a, b;

		NEED(ah);
		make_pair(&a, &b, &s);
		EXPECT(post_buffer(&b, 1, whole.memory, LENGTH, whole.mr->lkey), 0);
		wr.wr.rdma.remote_addr = at_edge(whole.memory, length);
		wr.wr.rdma.rkey = whole.mr->rkey;
		if (type == IBV_QPT_UD) {
			wr.wr.ud.ah = ah;
			wr.wr.ud.remote_qpn = b.qp->qp_num;
			wr.wr.ud.remote_qkey = 0x11111111;
		} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.remote_addr = (uintptr_t)whole.memory;
			wr.wr.atomic.rkey = whole.mr->rkey;
		}
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 0, IBV_WC_LOC_PROT_ERR);
		EXPECT_QUIET(b.rcq);
		free_end(&a);
		free_end(&b);
		EXPECT(ibv_destroy_ah(ah), 0);
	}
}

static const uint32_t lengths[] = {8, 64, 1000, 20000};

static void remote(void)
{
	for (int i = 0; i < 4; i++) {
		begin();
		at_the_target(IBV_WR_RDMA_WRITE, lengths[i]);
		end();
		begin();
		at_the_target(IBV_WR_RDMA_READ, lengths[i]);
		end();
	}
	begin();
	at_the_target(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	end();
}

static void local(void)
{
	for (int i = 0; i < 4; i++) {
		begin();
		at_the_requester(IBV_QPT_RC, IBV_WR_RDMA_WRITE, lengths[i]);
		end();
		begin();
		at_the_requester(IBV_QPT_RC, IBV_WR_RDMA_READ, lengths[i]);
		end();
		begin();
		at_the_requester(IBV_QPT_RC, IBV_WR_SEND, lengths[i]);
		end();
		begin();
		at_the_requester(IBV_QPT_UC, IBV_WR_SEND, lengths[i]);
		end();
		begin();
		if (lengths[i] < 4096)
			at_the_requester(IBV_QPT_UD, IBV_WR_SEND, lengths[i]);
		end();
	}
	begin();
	at_the_requester(IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	end();
}

static void receive_buffer(void)
{
	struct setup s = {.type = IBV_QPT_RC};

	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = {(uintptr_t)whole.memory, lengths[i], 0};
		struct ibv_send_wr wr = request(IBV_WR_SEND, &sge);
		struct end a, b;

		begin();
		make_pair(&a, &b, &s);
		sge.addr = (uintptr_t)whole.memory;
		sge.lkey = whole.mr->lkey;
		EXPECT(post_buffer(&b, 1, (void *)(uintptr_t)at_edge(gone.memory, lengths[i]),
				   lengths[i], gone.mr->lkey),
		       0);
		EXPECT(post(a.qp, &wr), 0);
		EXPECT_WC(a.scq, 0, IBV_WC_REM_OP_ERR);
		EXPECT_WC(b.rcq, 1, IBV_WC_LOC_PROT_ERR);
		free_end(&a);
		free_end(&b);
		end();
	}
}

/* Of what is still there nothing is lost, but with a key of its own. */
static void registered_again(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge);
	struct ibv_mr *again;
	struct end a, b;

	begin();
	at_the_target(IBV_WR_RDMA_WRITE, 8);
	NEED(again = ibv_reg_mr(pd, gone.memory, LENGTH / 2, all));
	make_pair(&a, &b, &s);
	whole.memory[0] = 77;
	sge = (struct ibv_sge){(uintptr_t)whole.memory, 8, whole.mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)gone.memory;
	wr.wr.rdma.rkey = again->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(gone.memory[0], 77);
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(again), 0);
	end();
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
	_exit(9);
}

/* What a child ends with that reads what is not there: its own SIGSEGV, or its own handler's. */
static void faults_of_the_program(void)
{
	int status;
	pid_t child;

	begin();
	for (int handler = 0; handler < 2; handler++) {
		NEED((child = fork()) >= 0);
		if (!child) {
			if (handler)
				signal(SIGSEGV, on_signal);
			_exit(*(volatile uint8_t *)(gone.memory + LENGTH - 1));
		}
		NEED(waitpid(child, &status, 0) == child);
		if (handler)
			EXPECT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 9);
		else
			EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : -1, SIGSEGV);
	}
	NEED((child = fork()) >= 0);
	if (!child) {
		raise(SIGSEGV);
		_exit(0);
	}
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : -1, SIGSEGV);
	end();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"remote", remote},
		{"local", local},
		{"receive_buffer", receive_buffer},
		{"registered_again", registered_again},
		{"faults_of_the_program", faults_of_the_program},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

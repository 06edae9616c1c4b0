// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Goodput of many senders into one receiver: one sender process alone, and then eight at once, each
 * with 64 KiB RDMA WRITEs, 16 at a time, into a region of its own of one process, which does nothing.
 * Prints both figures and their ratio; status 1 if it is below the limit given (or a write failed).
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define MAX   8
#define BLOCK 65536
#define DEPTH 16

static struct shared {
	_Atomic int n;
	_Atomic uint32_t sender_qpn[MAX], receiver_qpn[MAX];
	_Atomic uint64_t addr[MAX];
	_Atomic uint32_t rkey;
	_Atomic uint64_t bytes;
	_Atomic double began, ended;
	_Atomic int ready, failed;
	_Atomic bool go, stop, over;
} * all;

static const struct setup setup = {
	.type = IBV_QPT_RC, .timeout = 17, .mtu = IBV_MTU_4096, .cap = {.max_send_wr = DEPTH}};

static void receiver(void)
{
	static uint8_t memory[MAX][BLOCK];
	struct end ends[MAX];
	struct ibv_mr *mr;

	open_urxe();
	NEED(mr = ibv_reg_mr(pd, memory, sizeof(memory),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	all->rkey = mr->rkey;
	for (int i = 0; i < all->n; i++) {
		all->addr[i] = (uintptr_t)memory[i];
		make_end(&ends[i], &setup, pd, NULL);
		while (!all->sender_qpn[i])
			usleep(500);
		connect_end(&ends[i], all->sender_qpn[i], &setup);
		all->receiver_qpn[i] = ends[i].qp->qp_num;
	}
	while (!all->over)
		usleep(10000);
	for (int i = 0; i < all->n; i++)
		for (int k = 0; k < BLOCK; k++)
			NEED(memory[i][k] == i + 1);
	_exit(0);
}

static void sender(int self)
{
	static uint8_t block[BLOCK];
	struct ibv_sge sge = {(uintptr_t)block, BLOCK};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct end e;
	int flying = 0;

	open_urxe();
	memset(block, self + 1, sizeof(block));
	NEED(mr = ibv_reg_mr(pd, block, sizeof(block), 0));
	sge.lkey = mr->lkey;
	make_end(&e, &setup, pd, NULL);
	all->sender_qpn[self] = e.qp->qp_num;
	while (!all->receiver_qpn[self])
		usleep(500);
	connect_end(&e, all->receiver_qpn[self], &setup);
	wr.wr.rdma.remote_addr = all->addr[self];
	wr.wr.rdma.rkey = all->rkey;
	all->ready++;
	while (!all->go)
		usleep(100);
	while (!all->stop || flying) {
		while (!all->stop && flying < DEPTH) {
			NEED(!post(e.qp, &wr));
			flying++;
		}
		if (ibv_poll_cq(e.scq, 1, &wc) == 1) {
			NEED(wc.status == IBV_WC_SUCCESS);
			flying--;
			if (!all->stop)
				all->bytes += BLOCK;
		}
	}
	_exit(0);
}

/* MB/s of n senders together. */
static double measure(int n, double span)
{
	pid_t pids[MAX + 1];
	double rate, began;
	int status;

	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(all != MAP_FAILED);
	all->n = n;
	for (int i = 0; i <= n; i++) {
		NEED((pids[i] = fork()) >= 0);
		if (!pids[i] && i < n)
			sender(i);
		if (!pids[i])
			receiver();
	}
	began = seconds();
	while (all->ready < n && seconds() < began + 20)
		usleep(1000);
	all->go = true;
	usleep(300000); /* let windows find their size */
	all->bytes = 0;
	began = seconds();
	usleep(span * 1e6);
	rate = all->bytes / (seconds() - began) / 1e6;
	all->stop = true;
	for (int i = 0; i <= n; i++) {
		all->over = i == n;
		NEED(waitpid(pids[i], &status, 0) == pids[i]);
		EXPECT(status, 0);
	}
	munmap(all, sizeof(*all));
	return rate;
}

int main(int argc, char **argv)
{
	double limit = argc > 1 ? atof(argv[1]) : 0, one, many;

	current_case = "incast";
	setvbuf(stdout, NULL, _IOLBF, 0);
	one = measure(1, 1.5);
	many = measure(MAX, 3);
	printf("one sender %.0f MB/s, %d senders %.0f MB/s, ratio %.2f\n", one, MAX, many,
	       many / one);
	return failures || many < limit * one;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Goodput of many senders into one receiver: one sender process alone, and then eight at once, each
 * with 64 KiB RDMA WRITEs, 16 at a time, into a region of its own of one process, which does
 * nothing. Prints the ratio of both and which part of the sent bytes was of use; status 1 if one of
 * them is below the limit given for it (or a write failed).
 *
 * Goodput is counted by the CPU time of all these processes, which poll while they wait: what else
 * the machine does takes nothing of it, while packets that are lost and time that is waited for
 * them do. So do changes of threads: alone, sender and receiver have a processor each, which is 1.4
 * times as good, or share one, as the scheduler likes. Hence the mean of several rounds. The sent
 * bytes do not depend on that.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define MAX    8
#define BLOCK  65536
#define DEPTH  16
#define WARM   48	      /* blocks of each sender, until windows have found their size */
#define BYTES  (200ull << 20) /* that are measured */
#define ROUNDS 5

static struct shared {
	_Atomic int n;
	_Atomic uint32_t sender_qpn[MAX], receiver_qpn[MAX];
	_Atomic uint64_t addr[MAX];
	_Atomic uint32_t rkey;
	_Atomic uint64_t bytes;
	_Atomic uint64_t warm; /* senders that have sent WARM blocks */
	_Atomic uint64_t ready;
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
	unsigned done = 0;

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
			all->bytes += BLOCK;
			all->warm += ++done == WARM;
		}
	}
	_exit(0);
}

/* CPU time of these processes so far. */
static double cpu_seconds(const pid_t *pids, int count)
{
	double sum = 0;

	for (int i = 0; i < count; i++) {
		struct timespec ts;
		clockid_t clock;

		NEED(!clock_getcpuclockid(pids[i], &clock) && !clock_gettime(clock, &ts));
		sum += ts.tv_sec + ts.tv_nsec * 1e-9;
	}
	return sum;
}

/* A sender that has ended says why. */
static void until(_Atomic uint64_t *count, uint64_t enough)
{
	while (*count < enough && !waitpid(-1, NULL, WNOHANG))
		usleep(500);
	NEED(*count >= enough);
}

static uint64_t sent_bytes(void)
{
	unsigned long long bytes;
	FILE *f;

	NEED(f = fopen("/sys/class/infiniband/urxe0/ports/1/hw_counters/sent_bytes", "r"));
	NEED(fscanf(f, "%llu", &bytes) == 1);
	fclose(f);
	return bytes;
}

/* MB for each second of CPU time of n senders together with the receiver. Adds to the bytes
 * that they wrote and sent. */
static double measure(int n, uint64_t *written, uint64_t *sent)
{
	uint64_t before = sent_bytes();
	pid_t pids[MAX + 1];
	double rate, began;
	uint64_t bytes;
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
	until(&all->ready, n);
	all->go = true;
	until(&all->warm, n);
	bytes = all->bytes;
	began = cpu_seconds(pids, n + 1);
	until(&all->bytes, bytes + BYTES);
	bytes = all->bytes - bytes;
	rate = bytes / (cpu_seconds(pids, n + 1) - began) / 1e6;
	all->stop = true;
	for (int i = 0; i <= n; i++) {
		all->over = i == n;
		NEED(waitpid(pids[i], &status, 0) == pids[i]);
		EXPECT(status, 0);
	}
	*written += all->bytes;
	*sent += sent_bytes() - before;
	munmap(all, sizeof(*all));
	return rate;
}

int main(int argc, char **argv)
{
	double least_ratio = argc > 1 ? atof(argv[1]) : 0, least_use = argc > 2 ? atof(argv[2]) : 0;
	double one = 0, many = 0, use;
	uint64_t written = 0, sent = 0;

	current_case = "incast";
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < ROUNDS; i++) {
		one += measure(1, &written, &sent) / ROUNDS;
		many += measure(MAX, &written, &sent) / ROUNDS;
	}
	use = (double)written / sent;
	printf("one sender %.0f MB, %d senders %.0f MB for a second of CPU time, ratio %.2f; of "
	       "the sent bytes %.2f are of use\n",
	       one, MAX, many, many / one, use);
	return failures || many < least_ratio * one || use < least_use;
}

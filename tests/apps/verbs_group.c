// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Several processes share a device, connected with each other and sending numbered messages all the
 * time, while one of them dies, stands still, forks or is replaced. The parent never opens the
 * device; it watches over shared memory.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define MAX	64
#define TIMEOUT 13 /* 33.6 ms */
#define RETRY	3
#define ASKED	(4.096e-6 * (1 << TIMEOUT) * (RETRY + 1))
#define DEPTH	4

struct member {
	pid_t pid;
	_Atomic uint32_t qpns[MAX];   /* towards each other one */
	_Atomic uint32_t got[MAX];    /* messages, in order, from each other one */
	_Atomic uint32_t status[MAX]; /* of the first failed send, and when */
	_Atomic double failed_at[MAX];
	_Atomic int order; /* what the parent wants of it */
	_Atomic bool ready, done;
};

enum { CARRY_ON, FORK_EXIT, FORK_CLOSE, FORK_OPEN };

static struct shared {
	int n;
	int timeout, retry;
	_Atomic bool stop;
	struct member members[MAX];
} * all;

static int self;

/* Everyone with everyone, or, of many, with the neighbours in a ring. */
static bool connected(int i, int k)
{
	int apart = (i - k + all->n) % all->n;

	return i != k && (all->n <= 10 || apart == 1 || apart == all->n - 1);
}

/* ---- a member ---- */

struct link {
	struct end e;
	uint32_t (*buffers)[DEPTH + 1]; /* received ones, and the one to send */
	uint32_t sent;
	bool dead;
};

static struct link links[MAX];
static struct ibv_mr *mr;
static struct ibv_cq *cq;

static void send_next(int peer)
{
	struct link *l = &links[peer];
	struct ibv_sge sge = {(uintptr_t) & (*l->buffers)[DEPTH], 4, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = (uint64_t)peer << 8 | 0x80,
				 .opcode = IBV_WR_SEND,
				 .sg_list = &sge,
				 .num_sge = 1};

	(*l->buffers)[DEPTH] = ++l->sent;
	NEED(!post(l->e.qp, &wr));
}

static void receive_into(int peer, unsigned slot)
{
	NEED(!post_buffer(&links[peer].e, (uint64_t)peer << 8 | slot, &(*links[peer].buffers)[slot],
			  4, mr->lkey));
}

static void on_completion(const struct ibv_wc *wc)
{
	int peer = wc->wr_id >> 8;
	struct link *l = &links[peer];
	struct member *me = &all->members[self];

	if (wc->status != IBV_WC_SUCCESS) {
		if (!l->dead && wc->status != IBV_WC_WR_FLUSH_ERR) {
			me->failed_at[peer] = seconds();
			me->status[peer] = wc->status;
		}
		l->dead = true;
	} else if (wc->wr_id & 0x80) {
		send_next(peer);
	} else {
		unsigned slot = wc->wr_id & 0x7f;

		NEED((*l->buffers)[slot] == me->got[peer] + 1);
		me->got[peer]++;
		receive_into(peer, slot);
	}
}

static void connect_all(void)
{
	static uint32_t memory[MAX][DEPTH + 1];
	struct setup s = {.type = IBV_QPT_RC, .timeout = all->timeout, .retry = all->retry};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = cap_of(&s), .sq_sig_all = 1};

	open_urxe();
	NEED(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	NEED(cq = ibv_create_cq(ctx, 4096, NULL, NULL, 0));
	init.send_cq = init.recv_cq = cq;
	for (int k = 0; k < all->n; k++) {
		if (!connected(self, k))
			continue;
		links[k].buffers = &memory[k];
		NEED(links[k].e.qp = ibv_create_qp(pd, &init));
		NEED(!to_init(links[k].e.qp, &s));
		for (unsigned slot = 0; slot < DEPTH; slot++)
			receive_into(k, slot);
		all->members[self].qpns[k] = links[k].e.qp->qp_num;
	}
	for (int k = 0; k < all->n; k++) {
		while (connected(self, k) && !all->members[k].qpns[self])
			usleep(1000);
		if (connected(self, k)) {
			NEED(!to_rtr(links[k].e.qp, all->members[k].qpns[self], &s));
			NEED(!to_rts(links[k].e.qp, &s));
		}
	}
	all->members[self].ready = true;
	/* Who is not ready to receive would be asked in vain, and that costs retries. */
	for (int k = 0; k < all->n; k++)
		while (!all->members[k].ready)
			usleep(1000);
	for (int k = 0; k < all->n; k++)
		if (connected(self, k))
			send_next(k);
}

/* A child in the middle of it all */
static void fork_child(int how)
{
	pid_t pid = fork();
	int status;

	NEED(pid >= 0);
	if (!pid) {
		if (how == FORK_CLOSE) {
			for (int fd = 3; fd < 4096; fd++)
				close(fd);
		}
		if (how == FORK_OPEN) {
			struct setup s = {.type = IBV_QPT_RC};
			struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
			struct ibv_pd *own = ibv_alloc_pd(ctx);
			struct end a, b;

			/* Queues that it inherited are dead, but do not hurt. */
			EXPECT_TRUE(own && !ibv_dealloc_pd(own));
			EXPECT_TRUE(post(links[self ? 0 : 1].e.qp, &wr) != 0);
			ctx = NULL;
			open_urxe();
			make_pair(&a, &b, &s);
			EXPECT(post_buffer(&b, 1, NULL, 0, 0), 0);
			EXPECT(post(a.qp, &wr), 0);
			EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
			EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
			free_end(&a);
			free_end(&b);
			EXPECT(ibv_dealloc_pd(pd), 0);
			EXPECT(ibv_close_device(ctx), 0);
		}
		exit(failures != 0); /* with the destructors */
	}
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
	all->members[self].order = CARRY_ON;
	NEED(!failures);
}

static void member(int number)
{
	struct ibv_wc wc[16];
	int n;

	self = number;
	connect_all();
	while (!all->stop) {
		n = ibv_poll_cq(cq, 16, wc);
		NEED(n >= 0);
		for (int i = 0; i < n; i++)
			on_completion(&wc[i]);
		if (all->members[self].order)
			fork_child(all->members[self].order);
		if (!n)
			usleep(all->n > 10 ? 2000 : 200);
	}
	all->members[self].done = true;
	for (int k = 0; k < all->n; k++)
		if (connected(self, k))
			NEED(!ibv_destroy_qp(links[k].e.qp));
	NEED(!ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) &&
	     !ibv_close_device(ctx));
	_exit(0);
}

/* ---- the parent ---- */

static void start(int n)
{
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	NEED(all != MAP_FAILED);
	all->n = n;
	all->timeout = TIMEOUT;
	all->retry = RETRY;
	/* Processes that must wait for a core need more patience. */
	if (n > 10)
		all->timeout = 18;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		NEED(pid >= 0);
		if (!pid)
			member(i);
		all->members[i].pid = pid;
	}
}

/* Every pair but those with `without` gets more messages across within limit seconds. */
static bool all_move(uint32_t more, int without, double limit)
{
	static uint32_t before[MAX][MAX];
	double until = seconds() + limit;
	int waiting;

	for (int i = 0; i < all->n; i++)
		for (int k = 0; k < all->n; k++)
			before[i][k] = all->members[i].got[k];
	do {
		usleep(5000);
		waiting = 0;
		for (int i = 0; i < all->n; i++)
			for (int k = 0; k < all->n; k++)
				if (i != without && k != without && connected(i, k))
					waiting += all->members[i].got[k] < before[i][k] + more;
	} while (waiting && seconds() < until);
	if (waiting)
		printf("%d directions stand still\n", waiting);
	return !waiting;
}

static void finish(int without)
{
	int status;

	all->stop = true;
	for (int i = 0; i < all->n; i++) {
		if (i == without)
			continue;
		NEED(waitpid(all->members[i].pid, &status, 0) == all->members[i].pid);
		EXPECT(status, 0);
	}
	munmap(all, sizeof(*all));
}

/* Nobody but those with `without` has seen an error. */
static void expect_no_errors(int without)
{
	for (int i = 0; i < all->n; i++)
		for (int k = 0; k < all->n; k++)
			if (i != without && k != without)
				EXPECT(all->members[i].status[k], 0);
}

static void many_processes(void)
{
	start(64);
	EXPECT_TRUE(all_move(10, -1, 60));
	expect_no_errors(-1);
	finish(-1);
}

static void killed_peer(void)
{
	const int victim = 4;
	double began, limit = 4 * ASKED, last = 0;
	int status, waiting;

	start(10);
	EXPECT_TRUE(all_move(10, -1, 30));
	expect_no_errors(-1);
	NEED(!kill(all->members[victim].pid, SIGKILL));
	began = seconds();
	NEED(waitpid(all->members[victim].pid, &status, 0) > 0);
	do {
		usleep(1000);
		waiting = 0;
		for (int i = 0; i < 10; i++)
			waiting += i != victim && !all->members[i].status[victim];
	} while (waiting && seconds() < began + limit + 2);
	for (int i = 0; i < 10; i++) {
		double took = all->members[i].failed_at[victim] - began;

		if (i == victim)
			continue;
		EXPECT_TRUE(all->members[i].status[victim] == IBV_WC_REM_OP_ERR ||
			    all->members[i].status[victim] == IBV_WC_RETRY_EXC_ERR);
		EXPECT_TRUE(took <= limit);
		last = took > last ? took : last;
	}
	printf("the last of nine peers knew after %.0f ms, asked for %.0f ms\n", last * 1e3,
	       ASKED * 1e3);
	EXPECT_TRUE(all_move(20, victim, 30));
	expect_no_errors(victim);
	finish(victim);
}

/* The others go on while one stands still, and it goes on afterwards. */
static void stopped_process(void)
{
	const int victim = 2;
	int status;

	start(6);
	EXPECT_TRUE(all_move(10, -1, 30));
	NEED(!kill(all->members[victim].pid, SIGSTOP));
	NEED(waitpid(all->members[victim].pid, &status, WUNTRACED) > 0);
	EXPECT_TRUE(all_move(200, victim, 20));
	expect_no_errors(victim);
	NEED(!kill(all->members[victim].pid, SIGCONT));
	EXPECT_TRUE(all_move(20, victim, 20));
	expect_no_errors(victim);
	finish(-1);
}

/* A pause that the timeout allows for is no error at all. */
static void paused_process(void)
{
	int status;

	start(4);
	EXPECT_TRUE(all_move(10, -1, 30));
	for (int i = 0; i < 4; i++) {
		NEED(!kill(all->members[i].pid, SIGSTOP));
		NEED(waitpid(all->members[i].pid, &status, WUNTRACED) > 0);
		usleep(ASKED * 1e6 / 3);
		NEED(!kill(all->members[i].pid, SIGCONT));
		EXPECT_TRUE(all_move(10, -1, 20));
	}
	expect_no_errors(-1);
	finish(-1);
}

/* Nor is a longer one: on hardware it would be the adapter that answers, whatever its process does.
 * */
static void long_pause(void)
{
	int status;

	start(4);
	EXPECT_TRUE(all_move(10, -1, 30));
	NEED(!kill(all->members[0].pid, SIGSTOP));
	NEED(waitpid(all->members[0].pid, &status, WUNTRACED) > 0);
	usleep(4 * ASKED * 1e6);
	NEED(!kill(all->members[0].pid, SIGCONT));
	EXPECT_TRUE(all_move(10, -1, 20));
	expect_no_errors(-1);
	finish(-1);
}

/* But who never goes on is given up: after 5 s, and the retries. */
static void endless_pause(void)
{
	const double least = 5, most = least + 2; /* s */
	double began;
	int status;

	start(4);
	EXPECT_TRUE(all_move(10, -1, 30));
	NEED(!kill(all->members[0].pid, SIGSTOP));
	began = seconds();
	NEED(waitpid(all->members[0].pid, &status, WUNTRACED) > 0);
	for (int i = 1; i < 4; i++) {
		while (!all->members[i].status[0] && seconds() < began + most + 2)
			usleep(1000);
		EXPECT(all->members[i].status[0], IBV_WC_RETRY_EXC_ERR);
		EXPECT_TRUE(all->members[i].failed_at[0] - began >= least);
		EXPECT_TRUE(all->members[i].failed_at[0] - began <= most);
	}
	expect_no_errors(0);
	NEED(!kill(all->members[0].pid, SIGKILL));
	NEED(waitpid(all->members[0].pid, &status, 0) == all->members[0].pid);
	finish(0);
}

/* From now on all threads of a process get what a processor has left beside a child of ours. */
static pid_t starve(pid_t victim)
{
	const struct sched_param param = {0};
	char path[64];
	struct dirent *e;
	cpu_set_t set;
	pid_t pid;
	DIR *dir;

	NEED(!sched_getaffinity(0, sizeof(set), &set));
	for (int i = 0, n = CPU_COUNT(&set); n > 1; i++)
		if (CPU_ISSET(i, &set)) {
			CPU_CLR(i, &set);
			n--;
		}
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		NEED(!sched_setaffinity(0, sizeof(set), &set));
		setpriority(PRIO_PROCESS, 0, -20); /* where it may */
		for (;;)
			;
	}
	snprintf(path, sizeof(path), "/proc/%d/task", victim);
	NEED(dir = opendir(path));
	while ((e = readdir(dir)))
		if (atoi(e->d_name)) {
			NEED(!sched_setaffinity(atoi(e->d_name), sizeof(set), &set));
			NEED(!sched_setscheduler(atoi(e->d_name), SCHED_IDLE, &param));
		}
	closedir(dir);
	return pid;
}

/* One that would go on if it had the processor is waited for. It has a tenth of a millisecond every
 * few seconds, and so may answer none of its peers for longer than a stopped one is waited for. */
static void starved_process(void)
{
	const double long_enough = 40; /* s */
	pid_t hog;
	int status;

	start(4);
	EXPECT_TRUE(all_move(10, -1, 30));
	hog = starve(all->members[0].pid);
	usleep(long_enough * 1e6);
	NEED(!kill(hog, SIGKILL));
	NEED(waitpid(hog, &status, 0) == hog);
	EXPECT_TRUE(all_move(10, -1, 30));
	expect_no_errors(-1);
	finish(-1);
}

static void forks(void)
{
	start(4);
	EXPECT_TRUE(all_move(10, -1, 30));
	for (int how = FORK_EXIT; how <= FORK_OPEN; how++) {
		double until = seconds() + 10;

		all->members[how].order = how;
		while (all->members[how].order && seconds() < until)
			usleep(1000);
		EXPECT(all->members[how].order, CARRY_ON);
		EXPECT_TRUE(all_move(50, -1, 30));
	}
	expect_no_errors(-1);
	finish(-1);
}

/* ---- the last acknowledgement ---- */

enum { DESTROY, RESET, TO_ERROR, EXIT, EXIT_NOW, ENDINGS };

static struct rendezvous {
	_Atomic uint32_t qpn[2];
	_Atomic bool connected[2], over;
} * meeting;

/* Polls without a pause, which is when acknowledgements are put off. */
static enum ibv_wc_status spin(struct ibv_cq *of)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	double until = seconds() + 10;

	while (!ibv_poll_cq(of, 1, &wc) && seconds() < until)
		;
	return wc.status;
}

static void end_as(struct end *e, int ending)
{
	struct ibv_qp_attr attr = {.qp_state = ending == RESET ? IBV_QPS_RESET : IBV_QPS_ERR};

	switch (ending) {
	case DESTROY: EXPECT(ibv_destroy_qp(e->qp), 0); break;
	case RESET:
	case TO_ERROR: EXPECT(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE), 0); break;
	case EXIT: exit(0);
	default: _exit(0);
	}
	while (!meeting->over)
		usleep(1000);
	_exit(failures != 0);
}

/* The ends send to each other in turn; the second one ends at once when it has the last message. */
static void meet(int which, int ending)
{
	struct setup s = {.type = IBV_QPT_RC, .timeout = 16, .retry = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct end e;

	open_urxe();
	make_end(&e, &s, pd, NULL);
	meeting->qpn[which] = e.qp->qp_num;
	while (!meeting->qpn[!which])
		usleep(100);
	connect_end(&e, meeting->qpn[!which], &s);
	EXPECT(post_buffer(&e, 0, NULL, 0, 0), 0);
	meeting->connected[which] = true;
	while (!meeting->connected[!which])
		;
	for (int turn = 0; turn < 39; turn++) {
		if (turn % 2 == which) {
			EXPECT(post(e.qp, &wr), 0);
			EXPECT(spin(e.scq), IBV_WC_SUCCESS);
			continue;
		}
		EXPECT(spin(e.rcq), IBV_WC_SUCCESS);
		if (turn < 37)
			EXPECT(post_buffer(&e, 0, NULL, 0, 0), 0);
	}
	if (which)
		end_as(&e, ending);
	meeting->over = true;
	_exit(failures != 0);
}

static void last_acknowledgement(void)
{
	pid_t pids[2];
	int status;

	for (int ending = 0; ending < ENDINGS; ending++)
		for (int round = 0; round < 4; round++) {
			meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
			NEED(meeting != MAP_FAILED);
			for (int which = 0; which < 2; which++) {
				pids[which] = fork();
				NEED(pids[which] >= 0);
				if (!pids[which])
					meet(which, ending);
			}
			for (int which = 0; which < 2; which++) {
				NEED(waitpid(pids[which], &status, 0) == pids[which]);
				EXPECT(status, 0);
			}
			munmap(meeting, sizeof(*meeting));
		}
}

/* One after another opens the device, makes a QP and dies: places, QPNs and keys come back. */
static void many_deaths(void)
{
	for (int i = 0; i < 400; i++) {
		int pipes[2], status;
		char c = 0;
		pid_t pid;

		NEED(!pipe(pipes));
		pid = fork();
		NEED(pid >= 0);
		if (!pid) {
			struct setup s = {.type = IBV_QPT_RC};
			struct end a, b;

			open_urxe();
			make_pair(&a, &b, &s);
			(void)!write(pipes[1], "x", 1);
			pause();
		}
		close(pipes[1]);
		EXPECT(read(pipes[0], &c, 1), 1);
		close(pipes[0]);
		NEED(!kill(pid, SIGKILL));
		NEED(waitpid(pid, &status, 0) == pid);
		if (failures)
			return;
	}
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"many_processes", many_processes},
		{"killed_peer", killed_peer},
		{"stopped_process", stopped_process},
		{"paused_process", paused_process},
		{"long_pause", long_pause},
		{"endless_pause", endless_pause},
		{"starved_process", starved_process},
		{"forks", forks},
		{"many_deaths", many_deaths},
		{"last_acknowledgement", last_acknowledgement},
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name))
			continue;
		current_case = cases[i].name;
		cases[i].fn();
	}
	printf("%d failures\n", failures);
	return failures != 0;
}

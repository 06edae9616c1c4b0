// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of an ordinary region that the program has taken away (unmapped, protected, its file
 * truncated, its page gone from a file system that is full): requests that reach it end with the
 * errors of a bad key, in every direction and on every way that data goes, and so do those that
 * follow. Other faults stay what they are.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define LENGTH 65536
/* Far below what the kernel and malloc() choose, so that nothing else comes to lie in the hole. */
#define APART ((void *)0x200000000000)

static const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		       IBV_ACCESS_REMOTE_ATOMIC;

/* A region whose second half is gone, and one that is whole. */
static struct region {
	uint8_t *memory;
	struct ibv_mr *mr;
} gone, whole;

/* How it went: the second half cannot be read either, but for a read-only one. */
static enum way { UNMAPPED, PROTECTED, READ_ONLY, TRUNCATED, NO_ROOM, WAYS } way;
static const char *const ways[WAYS] = {"unmapped", "protected", "read-only", "truncated",
				       "no room"};
static int file = -1, filler = -1;

/* A file of its own on the file system of $SMALL_TMPFS, or in memory. */
static void map_file(void)
{
	const char *dir = getenv("SMALL_TMPFS");

	if (way == NO_ROOM)
		file = open(dir, O_TMPFILE | O_RDWR, 0600);
	else
		file = memfd_create("lost", MFD_CLOEXEC);
	NEED(file >= 0 && !ftruncate(file, LENGTH));
	gone.memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

/* A hole, and something else takes the room that it leaves. */
static void leave_no_room(void)
{
	static uint8_t page[4096];

	NEED(!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, LENGTH / 2, LENGTH / 2));
	NEED((filler = open(getenv("SMALL_TMPFS"), O_TMPFILE | O_RDWR, 0600)) >= 0);
	while (write(filler, page, sizeof(page)) > 0)
		;
	NEED(errno == ENOSPC);
}

static void take_half(void)
{
	uint8_t *half = gone.memory + LENGTH / 2;

	switch (way) {
	case UNMAPPED: NEED(!munmap(half, LENGTH / 2)); break;
	case PROTECTED: NEED(!mprotect(half, LENGTH / 2, PROT_NONE)); break;
	case READ_ONLY: NEED(!mprotect(half, LENGTH / 2, PROT_READ)); break;
	case TRUNCATED: NEED(!ftruncate(file, LENGTH / 2)); break;
	default: leave_no_room(); break;
	}
}

static void begin_whole(void)
{
	whole.memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(whole.memory != MAP_FAILED);
	NEED(whole.mr = ibv_reg_mr(pd, whole.memory, LENGTH, all));
}

static void begin_gone(void)
{
	if (way >= TRUNCATED)
		map_file();
	else
		gone.memory = mmap(APART, LENGTH, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	NEED(gone.memory != MAP_FAILED);
	NEED(gone.mr = ibv_reg_mr(pd, gone.memory, LENGTH, all));
	take_half();
}

static void begin(void)
{
	begin_whole();
	begin_gone();
}

static void end_region(struct region *region)
{
	EXPECT(ibv_dereg_mr(region->mr), 0);
	munmap(region->memory, LENGTH);
}

static void end_gone(void)
{
	end_region(&gone);
	close(file);
	close(filler);
	file = filler = -1;
}

/* Those that come late are the next one's to forget. */
static void forget_events(void)
{
	struct pollfd pfd = {.fd = ctx->async_fd, .events = POLLIN};

	while (poll(&pfd, 1, 0) == 1)
		next_event();
}

static void end(void)
{
	end_gone();
	end_region(&whole);
	forget_events();
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
		struct ibv_wc wc;
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
		EXPECT(ibv_poll_cq(b.rcq, 1, &wc), 0);
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
		if (way == READ_ONLY)
			continue;
		begin();
		at_the_target(IBV_WR_RDMA_READ, lengths[i]);
		end();
	}
	begin();
	at_the_target(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	end();
	begin();
	at_the_target(IBV_WR_ATOMIC_WRITE, 8);
	end();
}

/* From there: what is read-only can be sent. */
static void sent(uint32_t length)
{
	begin();
	at_the_requester(IBV_QPT_RC, IBV_WR_RDMA_WRITE, length);
	end();
	begin();
	at_the_requester(IBV_QPT_RC, IBV_WR_SEND, length);
	end();
	begin();
	at_the_requester(IBV_QPT_UC, IBV_WR_SEND, length);
	end();
	if (length > 4096)
		return;
	begin();
	at_the_requester(IBV_QPT_UD, IBV_WR_SEND, length);
	end();
}

static void local(void)
{
	for (int i = 0; i < 4; i++) {
		begin();
		at_the_requester(IBV_QPT_RC, IBV_WR_RDMA_READ, lengths[i]);
		end();
		if (way != READ_ONLY)
			sent(lengths[i]);
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

/* ---- between processes ---- */

static struct {
	_Atomic uint32_t qpn, peer_qpn, rkey;
	_Atomic uint64_t addr;
	_Atomic bool connected, ended;
} * shared;

static void wait_for(const _Atomic uint32_t *number)
{
	while (!atomic_load(number))
		usleep(100);
}

/* Memory of one of the two processes: gone or whole. */
static struct region *begin_one(bool lost)
{
	if (lost)
		begin_gone();
	else
		begin_whole();
	return lost ? &gone : &whole;
}

static void end_one(bool lost)
{
	if (lost)
		end_gone();
	else
		end_region(&whole);
	forget_events();
}

/* In a process of its own: what is asked for, or the receive buffer. */
static void target(struct setup *s, uint32_t length, bool lost)
{
	struct region *r;
	struct ibv_wc wc;
	struct end e;

	alarm(60);
	ctx = NULL; /* its parent's */
	failures = 0;
	open_urxe();
	r = begin_one(lost);
	make_end(&e, s, pd, NULL);
	NEED(!to_init(e.qp, s));
	EXPECT(post_buffer(&e, 1, (void *)(uintptr_t)at_edge(r->memory, length), length,
			   r->mr->lkey),
	       0);
	atomic_store(&shared->addr, at_edge(r->memory, length));
	atomic_store(&shared->rkey, r->mr->rkey);
	atomic_store(&shared->peer_qpn, e.qp->qp_num);
	wait_for(&shared->qpn);
	NEED(!to_rtr(e.qp, atomic_load(&shared->qpn), s) && !to_rts(e.qp, s));
	atomic_store(&shared->connected, true);
	/* Nobody polls here: the service thread answers. */
	while (!atomic_load(&shared->ended))
		usleep(100);
	if (!lost)
		EXPECT(ibv_poll_cq(e.rcq, 1, &wc), 0);
	free_end(&e);
	end_one(lost);
	fflush(stdout);
	_exit(failures != 0);
}

/* A request with this status: what the target has is gone if lost, else what the requester has. */
static void ask_process(enum ibv_wr_opcode opcode, uint32_t length, bool lost,
			enum ibv_wc_status status)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_sge sge = {.length = length};
	struct ibv_send_wr wr = request(opcode, &sge);
	struct region *r;
	int child_status;
	struct end e;
	pid_t child;

	memset(shared, 0, sizeof(*shared));
	fflush(stdout);
	NEED((child = fork()) >= 0);
	if (!child)
		target(&s, length, lost);
	r = begin_one(!lost);
	make_end(&e, &s, pd, NULL);
	NEED(!to_init(e.qp, &s));
	wait_for(&shared->peer_qpn);
	NEED(!to_rtr(e.qp, atomic_load(&shared->peer_qpn), &s) && !to_rts(e.qp, &s));
	atomic_store(&shared->qpn, e.qp->qp_num);
	while (!atomic_load(&shared->connected))
		usleep(100);
	sge.addr = at_edge(r->memory, length);
	sge.lkey = r->mr->lkey;
	wr.wr.rdma.remote_addr = atomic_load(&shared->addr);
	wr.wr.rdma.rkey = atomic_load(&shared->rkey);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = atomic_load(&shared->addr);
		wr.wr.atomic.rkey = atomic_load(&shared->rkey);
	}
	EXPECT(post(e.qp, &wr), 0);
	EXPECT_WC(e.scq, 0, status);
	atomic_store(&shared->ended, true);
	NEED(waitpid(child, &child_status, 0) == child);
	EXPECT(child_status, 0);
	free_end(&e);
	end_one(!lost);
}

static void processes(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	NEED(shared != MAP_FAILED);
	for (int i = 0; i < 4; i += 3) {
		ask_process(IBV_WR_RDMA_WRITE, lengths[i], true, IBV_WC_REM_ACCESS_ERR);
		ask_process(IBV_WR_SEND, lengths[i], true, IBV_WC_REM_OP_ERR);
		ask_process(IBV_WR_RDMA_READ, lengths[i], false, IBV_WC_LOC_PROT_ERR);
		if (way == READ_ONLY)
			continue;
		ask_process(IBV_WR_RDMA_READ, lengths[i], true, IBV_WC_REM_ACCESS_ERR);
		ask_process(IBV_WR_RDMA_WRITE, lengths[i], false, IBV_WC_LOC_PROT_ERR);
		ask_process(IBV_WR_SEND, lengths[i], false, IBV_WC_LOC_PROT_ERR);
	}
	ask_process(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, true, IBV_WC_REM_ACCESS_ERR);
	ask_process(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, false, IBV_WC_LOC_PROT_ERR);
	munmap(shared, sizeof(*shared));
}

/* ---- on demand ---- */

static _Atomic bool stop;

/* Unmaps and maps the second half, as fast as it can. */
static void *churn(void *unused)
{
	uint8_t *half = gone.memory + LENGTH / 2;

	while (!atomic_load(&stop)) {
		munmap(half, LENGTH / 2);
		if (mmap(half, LENGTH / 2, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != half)
			abort();
		sched_yield();
	}
	return NULL;
}

/* Requests for all of it over one connection, until one is refused. */
static unsigned ask_until_refused(unsigned most)
{
	struct setup s = {.type = IBV_QPT_RC, .mtu = IBV_MTU_4096};
	struct ibv_sge sge = {(uintptr_t)whole.memory, LENGTH, whole.mr->lkey};
	struct ibv_wc wc = {0};
	struct end a, b;
	unsigned n = 0;

	make_pair(&a, &b, &s);
	while (n++ < most && wc.status == IBV_WC_SUCCESS) {
		struct ibv_send_wr wr = request(n % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, &sge);

		wr.wr.rdma.remote_addr = (uintptr_t)gone.memory;
		wr.wr.rdma.rkey = gone.mr->rkey;
		EXPECT(post(a.qp, &wr), 0);
		NEED(next_wc(a.scq, &wc, 10));
	}
	if (wc.status != IBV_WC_SUCCESS)
		EXPECT(wc.status, IBV_WC_REM_ACCESS_ERR);
	free_end(&a);
	free_end(&b);
	forget_events();
	return n;
}

/* Memory that comes and goes between the question for its pages and the copy: each request is
 * carried out or refused, and the next one finds the region as it was. */
static void on_demand(void)
{
	pthread_t thread;

	begin_whole();
	gone.memory = mmap(APART, LENGTH, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	NEED(gone.memory != MAP_FAILED);
	NEED(gone.mr = ibv_reg_mr(pd, gone.memory, LENGTH, all | IBV_ACCESS_ON_DEMAND));
	atomic_store(&stop, false);
	NEED(!pthread_create(&thread, NULL, churn, NULL));
	for (unsigned n = 0; n < 5000;)
		n += ask_until_refused(1000);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	EXPECT(ask_until_refused(10), 11);
	end();
}

/* ---- what is not ours ---- */

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
	_exit(9);
}

/* What a child ends with that writes to what is not there: its own signal, or its own handler's. */
static void faults_of_the_program(void)
{
	int number = way >= TRUNCATED ? SIGBUS : SIGSEGV, status;
	pid_t child;

	begin();
	for (int handler = 0; handler < 2; handler++) {
		NEED((child = fork()) >= 0);
		if (!child) {
			if (handler)
				signal(number, on_signal);
			*(volatile uint8_t *)(gone.memory + LENGTH - 1) = 1;
			_exit(0);
		}
		NEED(waitpid(child, &status, 0) == child);
		if (handler)
			EXPECT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 9);
		else
			EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : -1, number);
	}
	NEED((child = fork()) >= 0);
	if (!child) {
		raise(number);
		_exit(0);
	}
	NEED(waitpid(child, &status, 0) == child);
	EXPECT(WIFSIGNALED(status) ? WTERMSIG(status) : -1, number);
	end();
}

/* For the last way a small tmpfs is needed. */
static void in_each_way(void (*fn)(void))
{
	for (way = UNMAPPED; way < WAYS; way++) {
		current_case = ways[way];
		if (way != NO_ROOM || getenv("SMALL_TMPFS"))
			fn();
	}
}

static void each_remote(void)
{
	in_each_way(remote);
}

static void each_local(void)
{
	in_each_way(local);
}

static void each_receive_buffer(void)
{
	in_each_way(receive_buffer);
}

static void each_registered_again(void)
{
	in_each_way(registered_again);
}

static void each_processes(void)
{
	in_each_way(processes);
}

static void each_fault(void)
{
	in_each_way(faults_of_the_program);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"remote", each_remote},
		{"local", each_local},
		{"receive_buffer", each_receive_buffer},
		{"registered_again", each_registered_again},
		{"processes", each_processes},
		{"on_demand", on_demand},
		{"faults_of_the_program", each_fault},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}

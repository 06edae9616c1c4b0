/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One-sided operations between processes of a host, which the initiator carries out itself: that
 * it does; that it is refused what a responder would refuse; and that nothing lands in memory any
 * more once a verb of the target has taken it away (IBTA vol. 1, 10.6.5 and 11.2.8.4), whatever
 * happens to the initiators meanwhile.
 *
 * The parent never opens the device. A target and some initiators do, in processes of their own,
 * and tell each other what they must know in memory that all share.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define INITIATORS 3
#define HALF	   (384u << 10) /* bytes that an initiator has for itself */
#define SPAN	   (INITIATORS * HALF)
#define GUARD	   64
#define BOUND	   4.0 /* seconds that taking memory away may take, on a busy machine */

enum link { LINK_NONE, LINK_WANTED, LINK_MADE };

struct link_state {
	_Atomic int state; /* enum link */
	_Atomic uint32_t qpn, target_qpn, psn;
	_Atomic uint64_t writes, reads, adds, errors;
};

static struct shared {
	_Atomic bool stop, ready;
	_Atomic uint32_t generation; /* odd: the region stands */
	_Atomic uint32_t rkey;
	_Atomic uint64_t addr;
	_Atomic uint64_t rounds, longest; /* ns */
	_Atomic unsigned failed;
	struct link_state links[INITIATORS];
} * shared;

static const enum ibv_qp_type types[INITIATORS] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC};

static bool patient; /* where all answers come, though late */
static bool
	pooled; /* the target's memory is a large allocation, which lies in a pool (urxe run --pool) */
static double duration = 5; /* seconds */

static struct setup setup_of(unsigned i)
{
	return (struct setup){.type = types[i],
			      .timeout = patient ? 16 : 8,
			      .retry = patient ? 7 : 2,
			      .mtu = IBV_MTU_4096};
}

static pid_t start(void (*fn)(unsigned), unsigned arg)
{
	pid_t pid = fork();

	NEED(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	srandom(getpid());
	open_urxe();
	fn(arg);
	fflush(stdout);
	if (failures)
		atomic_store(&shared->failed, 1);
	_exit(failures != 0);
}

/* A process that ends before it is asked to ends the waiting for it, and finish() reports it. */
static bool all_run(void)
{
	siginfo_t info = {0};

	return !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

static void await_target(void)
{
	while (!atomic_load(&shared->ready) && all_run())
		usleep(1000);
}

static void finish(pid_t pid)
{
	int status;

	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
}

/* ---- links ---- */

static void make_link_end(struct end *e, unsigned i)
{
	struct setup s = setup_of(i);

	make_end(e, &s, pd, NULL);
}

static void reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	EXPECT(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/* The target's half: initiators that want to be connected are. */
static void serve_links(struct end *ends)
{
	for (unsigned i = 0; i < INITIATORS; i++) {
		struct link_state *link = &shared->links[i];
		struct setup s = setup_of(i);

		if (atomic_load(&link->state) != LINK_WANTED)
			continue;
		reset(ends[i].qp);
		/* Not that of the connection before: packets that a fault holds back may still
		 * come. */
		s.psn = 1 + random() % 0xffffff;
		atomic_store(&link->psn, s.psn);
		connect_end(&ends[i], atomic_load(&link->qpn), &s);
		atomic_store(&link->target_qpn, ends[i].qp->qp_num);
		atomic_store(&link->state, LINK_MADE);
	}
}

/* The initiator's; false when all ends. */
static bool connect_link(struct end *e, unsigned i)
{
	struct link_state *link = &shared->links[i];
	struct setup s = setup_of(i);
	struct ibv_wc wc;

	reset(e->qp);
	while (ibv_poll_cq(e->scq, 1, &wc) > 0)
		;
	atomic_store(&link->qpn, e->qp->qp_num);
	atomic_store(&link->state, LINK_WANTED);
	while (atomic_load(&link->state) != LINK_MADE) {
		if (atomic_load(&shared->stop))
			return false;
		usleep(20);
	}
	s.psn = atomic_load(&link->psn);
	connect_end(e, atomic_load(&link->target_qpn), &s);
	return true;
}

/* One operation: its status, -1 when all ends or none came. */
static int operate(struct end *e, enum ibv_wr_opcode opcode, struct ibv_mr *mr, void *local,
		   uint32_t length, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)local, .length = length, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode};
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	if (post(e->qp, &wr) || !next_wc(e->scq, &wc, 10))
		return -1;
	return wc.status;
}

/* ---- memory that is taken away ---- */

struct target {
	uint8_t *memory, *other, *before;
	struct ibv_mr *mr;
	struct end ends[INITIATORS];
};

static void show_region(struct target *t)
{
	t->mr = ibv_reg_mr(pd, t->memory, SPAN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	NEED(t->mr);
	atomic_store(&shared->rkey, t->mr->rkey);
	atomic_store(&shared->addr, (uintptr_t)t->memory);
	atomic_fetch_add(&shared->generation, 1);
}

static void fail_qps(struct target *t)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	for (unsigned i = 0; i < INITIATORS; i++)
		EXPECT(ibv_modify_qp(t->ends[i].qp, &attr, IBV_QP_STATE), 0);
}

static void destroy_qps(struct target *t)
{
	for (unsigned i = 0; i < INITIATORS; i++)
		EXPECT(ibv_destroy_qp(t->ends[i].qp), 0);
}

enum way { DEREGISTER, REREGISTER, FAIL_QPS, DESTROY_QPS, WAYS };

static void take_away(struct target *t, enum way way)
{
	switch (way) {
	case DEREGISTER: EXPECT(ibv_dereg_mr(t->mr), 0); break;
	case REREGISTER:
		EXPECT(ibv_rereg_mr(t->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, t->other, SPAN,
				    0),
		       0);
		break;
	case FAIL_QPS: fail_qps(t); break;
	default: destroy_qps(t); break;
	}
}

/* So that the next round begins like the first. */
static void make_whole(struct target *t, enum way way)
{
	if (way != DEREGISTER)
		EXPECT(ibv_dereg_mr(t->mr), 0);
	if (way == DESTROY_QPS) {
		for (unsigned i = 0; i < INITIATORS; i++) {
			ibv_destroy_cq(t->ends[i].scq);
			ibv_destroy_cq(t->ends[i].rcq);
			make_link_end(&t->ends[i], i);
		}
	}
}

static void one_round(struct target *t)
{
	enum way way = random() % WAYS;
	double began, until = seconds() + random() % 1500 * 1e-6;
	uint64_t took, longest = atomic_load(&shared->longest);

	show_region(t);
	do
		serve_links(t->ends);
	while (seconds() < until);
	atomic_fetch_add(&shared->generation, 1);
	began = seconds();
	take_away(t, way);
	took = (seconds() - began) * 1e9;
	memcpy(t->before, t->memory, SPAN);
	usleep(random() % 1000);
	for (uint32_t i = 0; i < SPAN; i++) {
		if (t->memory[i] != t->before[i]) {
			printf("%s: byte %u changed after way %d\n", current_case, i, way);
			failures++;
			break;
		}
	}
	if (took > longest)
		atomic_store(&shared->longest, took);
	make_whole(t, way);
	atomic_fetch_add(&shared->rounds, 1);
}

static uint8_t *private_memory(size_t bytes)
{
	void *p;

	if (pooled)
		p = aligned_alloc(65536, (bytes + 65535) & ~(size_t)65535);
	else
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(p && p != MAP_FAILED);
	memset(p, 0, bytes);
	return p;
}

static void taking_target(unsigned unused)
{
	struct target t = {.memory = private_memory(SPAN),
			   .other = private_memory(SPAN),
			   .before = private_memory(SPAN)};

	for (unsigned i = 0; i < INITIATORS; i++)
		make_link_end(&t.ends[i], i);
	atomic_store(&shared->ready, true);
	while (!atomic_load(&shared->stop) && !failures)
		one_round(&t);
	for (unsigned i = 0; i < INITIATORS; i++)
		free_end(&t.ends[i]);
}

static uint32_t random_length(void)
{
	switch (random() % 3) {
	case 0: return 1 + random() % 64;
	case 1: return 1 + random() % 8192;
	default: return 1 + random() % HALF;
	}
}

/* What was written, while the region stood all the time, can be read. */
static bool write_and_read(struct end *e, unsigned i, struct ibv_mr *mr, uint8_t *memory)
{
	struct link_state *link = &shared->links[i];
	uint32_t generation = atomic_load(&shared->generation), rkey = atomic_load(&shared->rkey);
	uint32_t length = random_length(), offset = random() % (HALF - length + 1);
	uint64_t addr = atomic_load(&shared->addr) + i * HALF + offset;
	uint8_t value = random();

	if (!(generation & 1))
		return true;
	memset(memory, value, length);
	if (operate(e, IBV_WR_RDMA_WRITE, mr, memory, length, addr, rkey) != IBV_WC_SUCCESS)
		return false;
	atomic_fetch_add(&link->writes, 1);
	if (types[i] != IBV_QPT_RC || random() % 4)
		return true;
	memset(memory + HALF, ~value, length);
	if (operate(e, IBV_WR_RDMA_READ, mr, memory + HALF, length, addr, rkey) != IBV_WC_SUCCESS)
		return false;
	atomic_fetch_add(&link->reads, 1);
	if (atomic_load(&shared->generation) == generation)
		EXPECT(memcmp(memory, memory + HALF, length), 0);
	return true;
}

static void taking_initiator(unsigned i)
{
	uint8_t *memory = private_memory(2 * HALF);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * HALF, IBV_ACCESS_LOCAL_WRITE);
	struct end e;
	unsigned n = 0;

	NEED(mr);
	make_link_end(&e, i);
	while (!atomic_load(&shared->stop) && !failures) {
		/* UC is not told that its peer has gone. */
		if ((!n || n % 64 == 0 || atomic_load(&shared->links[i].state) != LINK_MADE) &&
		    !connect_link(&e, i))
			break;
		n++;
		if (!write_and_read(&e, i, mr, memory)) {
			atomic_fetch_add(&shared->links[i].errors, 1);
			n = 0;
		}
	}
}

/* Stops initiators for a while, or kills them, at random. */
static void sabotage(pid_t *pids)
{
	double until = seconds() + duration;

	while (seconds() < until && !atomic_load(&shared->failed)) {
		unsigned i = random() % INITIATORS;

		usleep(random() % 6000);
		if (random() % 8) {
			kill(pids[i], SIGSTOP);
			usleep(random() % 8000);
			kill(pids[i], SIGCONT);
			continue;
		}
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		pids[i] = start(taking_initiator, i);
	}
}

static void memory_is_taken(void)
{
	pid_t target = start(taking_target, 0), pids[INITIATORS];
	uint64_t writes = 0, reads = 0, errors = 0;

	await_target();
	for (unsigned i = 0; i < INITIATORS; i++)
		pids[i] = start(taking_initiator, i);
	sabotage(pids);
	atomic_store(&shared->stop, true);
	for (unsigned i = 0; i < INITIATORS; i++) {
		finish(pids[i]);
		writes += atomic_load(&shared->links[i].writes);
		reads += atomic_load(&shared->links[i].reads);
		errors += atomic_load(&shared->links[i].errors);
	}
	finish(target);
	printf("%llu rounds, %llu writes, %llu reads, %llu errors; taking away took up to %.3f "
	       "ms\n",
	       (unsigned long long)atomic_load(&shared->rounds), (unsigned long long)writes,
	       (unsigned long long)reads, (unsigned long long)errors,
	       atomic_load(&shared->longest) * 1e-6);
	EXPECT_TRUE(atomic_load(&shared->longest) < BOUND * 1e9);
	EXPECT_TRUE(atomic_load(&shared->rounds) > 20 && writes > 100 && reads > 10);
}

/* ---- atomics ---- */

static void counting_target(unsigned unused)
{
	uint8_t *memory = private_memory(4096);
	uint64_t *word = (uint64_t *)(void *)memory, sum = 0;
	struct end ends[INITIATORS];
	struct ibv_mr *mr =
		ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	NEED(mr);
	for (unsigned i = 0; i < INITIATORS; i++)
		make_link_end(&ends[i], 0);
	atomic_store(&shared->rkey, mr->rkey);
	atomic_store(&shared->addr, (uintptr_t)word);
	atomic_store(&shared->ready, true);
	for (; atomic_load(&shared->ready); sum++) {
		serve_links(ends);
		__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	}
	for (unsigned i = 0; i < INITIATORS; i++)
		sum += atomic_load(&shared->links[i].adds);
	EXPECT(*word, sum);
}

/* Adds by either of the two operations; the second as programs do that have only that one. */
static bool add_one(struct end *e, struct ibv_mr *mr, uint64_t *was, bool swap)
{
	struct ibv_sge sge = {.addr = (uintptr_t)was, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1};
	uint64_t guess = *was;
	struct ibv_wc wc;

	wr.opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = atomic_load(&shared->addr);
	wr.wr.atomic.rkey = atomic_load(&shared->rkey);
	wr.wr.atomic.compare_add = swap ? guess : 1;
	wr.wr.atomic.swap = guess + 1;
	NEED(!post(e->qp, &wr) && next_wc(e->scq, &wc, 30));
	EXPECT(wc.status, IBV_WC_SUCCESS);
	return !swap || *was == guess;
}

static void adding_initiator(unsigned i)
{
	uint64_t *was = (uint64_t *)(void *)private_memory(4096), last = 0;
	struct ibv_mr *mr = ibv_reg_mr(pd, was, 4096, IBV_ACCESS_LOCAL_WRITE);
	struct end e;

	NEED(mr);
	make_link_end(&e, i);
	if (!connect_link(&e, i))
		return;
	for (unsigned n = 0; !atomic_load(&shared->stop) && !failures; last = *was) {
		if (add_one(&e, mr, was, n % 2 && random() % 2))
			atomic_store(&shared->links[i].adds, ++n);
		EXPECT_TRUE(*was >= last);
	}
}

/*
 * Each is carried out once, by whomever, though initiators are stopped in the middle. For a time,
 * and not up to a number: on a busy machine there is little between a stop and the next one.
 */
static void atomics_add_up(void)
{
	pid_t target, pids[INITIATORS - 1];
	double until;

	patient = true;
	target = start(counting_target, 0);
	await_target();
	for (unsigned i = 0; i < INITIATORS - 1; i++)
		pids[i] = start(adding_initiator, i);
	for (unsigned i = 0; i < INITIATORS - 1; i++)
		while (!atomic_load(&shared->links[i].adds) && all_run())
			usleep(1000);
	for (until = seconds() + duration; seconds() < until && all_run();) {
		pid_t pid = pids[random() % (INITIATORS - 1)];

		usleep(random() % 500);
		kill(pid, SIGSTOP);
		usleep(random() % 500);
		kill(pid, SIGCONT);
	}
	atomic_store(&shared->stop, true);
	for (unsigned i = 0; i < INITIATORS - 1; i++)
		finish(pids[i]);
	atomic_store(&shared->ready, false);
	finish(target);
	patient = false;
}

/* ---- a target that does nothing ---- */

static void still_target(unsigned i)
{
	uint8_t *memory = private_memory(SPAN);
	struct setup s = setup_of(i);
	struct end e;
	struct ibv_mr *mr;
	uint64_t sum = 0;

	make_end(&e, &s, pd, NULL);
	mr = ibv_reg_mr(pd, memory + GUARD, SPAN - 2 * GUARD,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	NEED(mr);
	atomic_store(&shared->rkey, mr->rkey);
	atomic_store(&shared->addr, (uintptr_t)memory + GUARD);
	while (atomic_load(&shared->links[i].state) != LINK_WANTED)
		usleep(100);
	connect_end(&e, atomic_load(&shared->links[i].qpn), &s);
	atomic_store(&shared->links[i].target_qpn, e.qp->qp_num);
	atomic_store(&shared->links[i].state, LINK_MADE);
	/* Stopped here, while the other one works. */
	while (!atomic_load(&shared->stop))
		usleep(100);
	for (unsigned k = 0; k < SPAN; k++)
		sum += memory[k] != (k < GUARD || k >= SPAN - GUARD ? 0 : 1 + k % 251);
	EXPECT(sum, 0);
}

static void still_initiator(unsigned i)
{
	uint8_t *memory = private_memory(2 * SPAN);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * SPAN, IBV_ACCESS_LOCAL_WRITE);
	uint32_t length = SPAN - 2 * GUARD;
	struct end e;

	NEED(mr);
	make_link_end(&e, i);
	if (!connect_link(&e, i))
		return;
	while (!atomic_load(&shared->ready))
		usleep(100);
	for (unsigned k = 0; k < SPAN; k++)
		memory[k] = 1 + k % 251;
	EXPECT(operate(&e, IBV_WR_RDMA_WRITE, mr, memory + GUARD, length,
		       atomic_load(&shared->addr), atomic_load(&shared->rkey)),
	       IBV_WC_SUCCESS);
	if (types[i] != IBV_QPT_RC)
		return;
	EXPECT(operate(&e, IBV_WR_RDMA_READ, mr, memory + SPAN, length, atomic_load(&shared->addr),
		       atomic_load(&shared->rkey)),
	       IBV_WC_SUCCESS);
	EXPECT(memcmp(memory + GUARD, memory + SPAN, length), 0);
}

static void stopped_target_of(unsigned i)
{
	pid_t target, initiator;
	int status;

	memset(shared, 0, sizeof(*shared));
	target = start(still_target, i);
	initiator = start(still_initiator, i);
	while (atomic_load(&shared->links[i].state) != LINK_MADE)
		usleep(100);
	kill(target, SIGSTOP);
	NEED(waitpid(target, &status, WUNTRACED) == target);
	atomic_store(&shared->ready, true);
	finish(initiator);
	kill(target, SIGCONT);
	atomic_store(&shared->stop, true);
	finish(target);
}

static void stopped_target(void)
{
	stopped_target_of(0);
	stopped_target_of(INITIATORS - 1);
}

/* By packets alone nobody but the target can write there: its memory is looked at from outside. */
static void unreached_initiator(unsigned i)
{
	uint8_t *memory = private_memory(SPAN);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, SPAN, IBV_ACCESS_LOCAL_WRITE);
	struct end e;

	NEED(mr);
	make_link_end(&e, i);
	if (!connect_link(&e, i))
		return;
	while (!atomic_load(&shared->ready))
		usleep(100);
	memset(memory, 0x5a, SPAN);
	EXPECT(operate(&e, IBV_WR_RDMA_WRITE, mr, memory, SPAN - 2 * GUARD,
		       atomic_load(&shared->addr), atomic_load(&shared->rkey)),
	       IBV_WC_RETRY_EXC_ERR);
}

static void unreached_target(void)
{
	static uint8_t seen[SPAN - 2 * GUARD];
	struct iovec here = {seen, sizeof(seen)}, there = {.iov_len = sizeof(seen)};
	pid_t target = start(still_target, 0), initiator = start(unreached_initiator, 0);
	int status;

	while (atomic_load(&shared->links[0].state) != LINK_MADE)
		usleep(100);
	kill(target, SIGSTOP);
	NEED(waitpid(target, &status, WUNTRACED) == target);
	atomic_store(&shared->ready, true);
	finish(initiator);
	there.iov_base = (void *)(uintptr_t)atomic_load(&shared->addr);
	EXPECT(process_vm_readv(target, &here, 1, &there, 1, 0), sizeof(seen));
	for (size_t k = 0; k < sizeof(seen); k++)
		NEED(!seen[k]);
	kill(target, SIGKILL);
	NEED(waitpid(target, &status, 0) == target);
}

/* ---- what a responder refuses ---- */

static const struct refusal {
	const char *what;
	enum ibv_wr_opcode opcode;
	int region, qp; /* rights */
	uint32_t key;	/* added to it */
	int64_t offset;
	uint32_t length;
	int status;
} refusals[] = {
#define RW (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
	{"all", IBV_WR_RDMA_WRITE, RW, RW, 0, 0, HALF, IBV_WC_SUCCESS},
	{"all", IBV_WR_RDMA_READ, RW, RW, 0, 0, HALF, IBV_WC_SUCCESS},
	{"nothing", IBV_WR_RDMA_WRITE, RW, RW, 1, 0, 0, IBV_WC_SUCCESS},
	{"last byte", IBV_WR_RDMA_WRITE, RW, RW, 0, HALF - 1, 1, IBV_WC_SUCCESS},
	{"key", IBV_WR_RDMA_WRITE, RW, RW, 1, 0, 8, IBV_WC_REM_ACCESS_ERR},
	{"below", IBV_WR_RDMA_WRITE, RW, RW, 0, -1, 8, IBV_WC_REM_ACCESS_ERR},
	{"beyond", IBV_WR_RDMA_WRITE, RW, RW, 0, 1, HALF, IBV_WC_REM_ACCESS_ERR},
	{"beyond", IBV_WR_RDMA_READ, RW, RW, 0, 1, HALF, IBV_WC_REM_ACCESS_ERR},
	{"region's write", IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_READ, RW, 0, 0, 8,
	 IBV_WC_REM_ACCESS_ERR},
	{"region's read", IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_WRITE, RW, 0, 0, 8,
	 IBV_WC_REM_ACCESS_ERR},
	{"QP's write", IBV_WR_RDMA_WRITE, RW, IBV_ACCESS_REMOTE_READ, 0, 0, 8,
	 IBV_WC_REM_INV_REQ_ERR},
	{"QP's read", IBV_WR_RDMA_READ, RW, IBV_ACCESS_REMOTE_WRITE, 0, 0, 8,
	 IBV_WC_REM_INV_REQ_ERR},
};
#define REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

static void refusing_target(unsigned unused)
{
	uint8_t *memory = private_memory(3 * HALF);

	for (unsigned k = 0; k < REFUSALS; k++) {
		const struct refusal *r = &refusals[k];
		struct setup s = setup_of(0);
		struct ibv_mr *mr =
			ibv_reg_mr(pd, memory + HALF, HALF, IBV_ACCESS_LOCAL_WRITE | r->region);
		struct end e;

		NEED(mr);
		s.access = r->qp;
		s.has_access = true;
		make_end(&e, &s, pd, NULL);
		atomic_store(&shared->rkey, mr->rkey);
		atomic_store(&shared->addr, (uintptr_t)memory + HALF);
		while (atomic_load(&shared->links[0].state) != LINK_WANTED)
			usleep(100);
		connect_end(&e, atomic_load(&shared->links[0].qpn), &s);
		atomic_store(&shared->links[0].target_qpn, e.qp->qp_num);
		atomic_store(&shared->links[0].state, LINK_MADE);
		while (atomic_load(&shared->rounds) != k + 1 && !atomic_load(&shared->stop))
			usleep(100);
		/* Both QPs know of it. */
		EXPECT(state_of(e.qp), r->status ? IBV_QPS_ERR : IBV_QPS_RTS);
		free_end(&e);
		EXPECT(ibv_dereg_mr(mr), 0);
		atomic_store(&shared->generation, k + 1);
	}
}

static void refused_initiator(unsigned unused)
{
	uint8_t *memory = private_memory(HALF);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, HALF, IBV_ACCESS_LOCAL_WRITE);
	struct end e;

	NEED(mr);
	make_link_end(&e, 0);
	for (unsigned k = 0; k < REFUSALS; k++) {
		const struct refusal *r = &refusals[k];
		int status;

		if (!connect_link(&e, 0))
			return;
		status = operate(&e, r->opcode, mr, memory, r->length,
				 atomic_load(&shared->addr) + r->offset,
				 atomic_load(&shared->rkey) + r->key);
		if (status != r->status)
			printf("%s (%u): status %d, expected %d\n", r->what, k, status, r->status);
		EXPECT(status, r->status);
		atomic_store(&shared->rounds, k + 1);
		while (atomic_load(&shared->generation) != k + 1)
			usleep(100);
	}
}

static void refused(void)
{
	pid_t target, initiator;

	patient = true;
	target = start(refusing_target, 0);
	initiator = start(refused_initiator, 0);
	finish(initiator);
	atomic_store(&shared->stop, true);
	finish(target);
	patient = false;
}

/* ---- */

/* Does this machine let processes of one user at each other's memory? */
static bool permitted(void)
{
	uint64_t word = 0;
	struct iovec local = {&word, sizeof(word)}, remote = {shared, sizeof(word)};
	pid_t sibling = fork(), reader;
	int status;

	if (!sibling) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	reader = fork();
	if (!reader)
		_exit(process_vm_readv(sibling, &local, 1, &remote, 1, 0) != sizeof(word));
	waitpid(reader, &status, 0);
	kill(sibling, SIGKILL);
	waitpid(sibling, NULL, 0);
	return !status;
}

static const struct test_case cases[] = {
	{"stopped_target", stopped_target},
	{"unreached_target", unreached_target},
	{"refused", refused},
	{"memory_is_taken", memory_is_taken},
	{"atomics_add_up", atomics_add_up},
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	current_case = "start";
	NEED(shared != MAP_FAILED);
	if (!permitted()) {
		printf("processes may not access each other's memory here\n");
		return 77;
	}
	if (argc > 2 && !strcmp(argv[2], "pooled")) {
		pooled = true;
		duration = 2;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name))
			continue;
		current_case = cases[i].name;
		memset(shared, 0, sizeof(*shared));
		cases[i].fn();
	}
	printf("%d failures\n", failures);
	return failures != 0;
}

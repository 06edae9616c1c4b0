/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Neighbours that are killed at any instruction: verbs_kill ROUNDS [SEED]. In each round a victim
 * connects an RC QP with this process, both send, write, read and add with all their might, and
 * after a random time the victim gets SIGKILL. What was received until then must be whole and in
 * order, all that was posted here must complete in the time that the retries take, and a bystander,
 * another process that exchanges a message with this one in each round, must notice nothing. A
 * fourth of the victims are stopped first, so that what is under way waits in the rings when they
 * die.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define SIZE  (512 << 10)
#define MOST  (200 << 10)
#define DEPTH 16
#define LIMIT 10.0 /* s; for a machine that is busy with other things */

struct hello {
	uint32_t qpn, rkey;
	uint64_t addr;
};

struct party {
	struct end end;
	struct ibv_mr *mr;
	uint8_t *memory; /* DEPTH receive buffers, then one that the peer writes to, then to send */
	uint32_t posted, completed, received;
	bool broken;
	enum ibv_wc_status why; /* the first error */
};

static unsigned seed;
static const uint32_t lengths[] = {8, 64, 3000, 4096, 20000, 40000, MOST};
#define NUM_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static uint32_t length_of(uint32_t n)
{
	return lengths[n * 2654435761u % NUM_LENGTHS];
}

static void fill(uint8_t *at, uint32_t n, uint32_t len)
{
	for (uint32_t i = 0; i < len / 4; i++)
		((uint32_t *)at)[i] = n;
}

static bool is_filled(const uint8_t *at, uint32_t n, uint32_t len)
{
	for (uint32_t i = 0; i < len / 4; i++)
		if (((const uint32_t *)at)[i] != n)
			return false;
	return true;
}

static uint8_t *recv_buffer(struct party *p, uint32_t n)
{
	return p->memory + (size_t)(n % DEPTH) * MOST;
}

static uint8_t *send_buffer(struct party *p, uint32_t n)
{
	return p->memory + (size_t)(DEPTH + n % DEPTH) * MOST;
}

static uint8_t *target(struct party *p)
{
	return p->memory + (size_t)2 * DEPTH * MOST;
}

static void party_open(struct party *p)
{
	static const struct setup s = {
		.type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH},
	};
	size_t size = (size_t)2 * DEPTH * MOST + SIZE;

	memset(p, 0, sizeof(*p));
	p->memory = aligned_alloc(4096, size);
	NEED(p->memory);
	p->mr = ibv_reg_mr(pd, p->memory, size,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	NEED(p->mr);
	make_end(&p->end, &s, pd, NULL);
}

static void party_close(struct party *p)
{
	free_end(&p->end);
	EXPECT(ibv_dereg_mr(p->mr), 0);
	free(p->memory);
}

static void greet(struct party *p, int out)
{
	struct hello hello = {p->end.qp->qp_num, p->mr->rkey, (uintptr_t)target(p)};

	NEED(write(out, &hello, sizeof(hello)) == sizeof(hello));
}

/* mortal: the peer will be killed, and that is to be known soon. */
static void meet(struct party *p, int in, struct hello *peer, bool mortal)
{
	struct setup s = {
		.type = IBV_QPT_RC,
		.timeout = mortal ? 12 : 18, /* 16.8 ms, 1 s */
		.retry = mortal ? 1 : 7,
		.mtu = IBV_MTU_4096,
	};

	NEED(read(in, peer, sizeof(*peer)) == sizeof(*peer));
	connect_end(&p->end, peer->qpn, &s);
	for (uint32_t n = 0; n < DEPTH; n++)
		NEED(!post_buffer(&p->end, n, recv_buffer(p, n), MOST, p->mr->lkey));
}

/* Message n of those that are sent, or now and then something else in its place. */
static void send_one(struct party *p, const struct hello *peer)
{
	uint32_t n = p->posted;
	struct ibv_sge sge = {
		.addr = (uintptr_t)send_buffer(p, n),
		.length = length_of(n),
		.lkey = p->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = n,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	switch (n % 8) {
	case 3: wr.opcode = IBV_WR_RDMA_WRITE; break;
	case 5: wr.opcode = IBV_WR_RDMA_READ; break;
	case 6:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		sge.length = 8;
		wr.wr.atomic.remote_addr = peer->addr + SIZE - 8;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = peer->rkey;
		break;
	}
	if (n % 8 == 3 || n % 8 == 5) {
		wr.wr.rdma.remote_addr = peer->addr;
		wr.wr.rdma.rkey = peer->rkey;
	}
	if (wr.opcode != IBV_WR_RDMA_READ)
		fill(send_buffer(p, n), n, sge.length);
	NEED(!post(p->end.qp, &wr));
	p->posted++;
}

/* The number of the n-th message that is a SEND. */
static uint32_t nth_send(uint32_t n)
{
	static const uint8_t sends[] = {0, 1, 2, 4, 7};

	return n / 5 * 8 + sends[n % 5];
}

static void check_received(struct party *p, const struct ibv_wc *wc)
{
	uint32_t n = nth_send(p->received);

	EXPECT(wc->byte_len, length_of(n));
	if (!is_filled(recv_buffer(p, p->received), n, wc->byte_len)) {
		printf("message %u of %u bytes is not what was sent\n", n, wc->byte_len);
		failures++;
	}
	NEED(!post_buffer(&p->end, p->received, recv_buffer(p, p->received), MOST, p->mr->lkey) ||
	     p->broken);
	p->received++;
}

/* One look at everything; sends as long as it is said to. */
static void turn(struct party *p, const struct hello *peer, bool more)
{
	struct ibv_wc wc;

	while (more && !p->broken && p->posted - p->completed < DEPTH)
		send_one(p, peer);
	while (ibv_poll_cq(p->end.scq, 1, &wc) == 1) {
		p->completed++;
		if (wc.status != IBV_WC_SUCCESS && !p->broken)
			p->why = wc.status;
		p->broken |= wc.status != IBV_WC_SUCCESS;
	}
	while (ibv_poll_cq(p->end.rcq, 1, &wc) == 1) {
		if (wc.status == IBV_WC_SUCCESS)
			check_received(p, &wc);
	}
}

/* ---- the others ---- */

static pid_t spawn(int to[2], int from[2], void (*fn)(int in, int out))
{
	pid_t pid;

	NEED(!pipe(to) && !pipe(from));
	pid = fork();
	NEED(pid >= 0);
	if (!pid) {
		close(to[1]);
		close(from[0]);
		ctx = NULL;
		open_urxe();
		fn(to[0], from[1]);
		_exit(failures != 0);
	}
	close(to[0]);
	close(from[1]);
	return pid;
}

static void victim(int in, int out)
{
	struct party p;
	struct hello peer;

	party_open(&p);
	greet(&p, out);
	meet(&p, in, &peer, false);
	/* The other end is ready when it says so. */
	NEED(write(out, "", 1) == 1 && read(in, &(char){0}, 1) == 1);
	for (;;)
		turn(&p, &peer, true);
}

/* Sends back what it gets. */
static void bystander(int in, int out)
{
	struct party p;
	struct hello peer;
	struct ibv_wc wc;

	party_open(&p);
	greet(&p, out);
	meet(&p, in, &peer, false);
	NEED(write(out, "", 1) == 1 && read(in, &(char){0}, 1) == 1);
	for (;;) {
		struct pollfd gone = {.fd = in, .events = POLLIN};

		if (ibv_poll_cq(p.end.rcq, 1, &wc) != 1) {
			if (poll(&gone, 1, 0) == 1)
				break;
			continue;
		}
		NEED(wc.status == IBV_WC_SUCCESS);
		check_received(&p, &wc);
		while (nth_send(p.received - 1) != p.posted)
			p.posted++;
		send_one(&p, &peer);
		EXPECT_WC(p.end.scq, p.posted - 1, IBV_WC_SUCCESS);
	}
	party_close(&p);
}

struct other {
	pid_t pid;
	int to[2], from[2];
	struct party p;
	struct hello peer;
};

static void introduce(struct other *o, void (*fn)(int, int))
{
	party_open(&o->p);
	o->pid = spawn(o->to, o->from, fn);
	greet(&o->p, o->to[1]);
	meet(&o->p, o->from[0], &o->peer, fn == victim);
	NEED(read(o->from[0], &(char){0}, 1) == 1 && write(o->to[1], "", 1) == 1);
}

static void part(struct other *o)
{
	close(o->to[1]);
	close(o->from[0]);
	party_close(&o->p);
}

/* ---- rounds ---- */

static void ask_bystander(struct other *o)
{
	uint32_t before = o->p.received;
	double until = seconds() + LIMIT;

	while (nth_send(o->p.received) != o->p.posted)
		o->p.posted++;
	o->p.completed = o->p.posted;
	send_one(&o->p, &o->peer);
	while ((o->p.received == before || o->p.completed != o->p.posted) && seconds() < until)
		turn(&o->p, &o->peer, false);
	EXPECT(o->p.received, before + 1);
	EXPECT(o->p.completed, o->p.posted);
	EXPECT(o->p.broken, false);
}

/* Returns the messages received of the victim. */
static uint32_t round_of(struct other *by)
{
	struct other o;
	double kill_at, stop_at, until;
	bool stop = rand_r(&seed) % 4 == 0;
	int status;

	introduce(&o, victim);
	kill_at = seconds() + rand_r(&seed) % 6000 * 1e-6;
	stop_at = kill_at - 1e-3;
	while (seconds() < kill_at) {
		if (stop && seconds() > stop_at) {
			NEED(!kill(o.pid, SIGSTOP));
			stop = false;
		}
		turn(&o.p, &o.peer, true);
	}
	NEED(!kill(o.pid, SIGKILL));
	NEED(waitpid(o.pid, &status, 0) == o.pid);
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	ask_bystander(by);
	until = seconds() + LIMIT;
	/* Direct access and answers still on the way may let some succeed, but not for ever. */
	while ((!o.p.broken || o.p.completed != o.p.posted) && seconds() < until)
		turn(&o.p, &o.peer, true);
	EXPECT_TRUE(o.p.broken);
	/* It was told, or found out by its retries. Nothing else has gone wrong. */
	EXPECT_TRUE(o.p.why == IBV_WC_REM_OP_ERR || o.p.why == IBV_WC_RETRY_EXC_ERR);
	EXPECT(o.p.completed, o.p.posted);
	EXPECT(state_of(o.p.end.qp), IBV_QPS_ERR);
	part(&o);
	return o.p.received;
}

/* What the dead have left beside the host segment. */
static int windows_left(void)
{
	const char *dir = getenv("URXE_RUNTIME_DIR");
	DIR *d = opendir(dir ? dir : "/dev/shm");
	struct dirent *e;
	int n = 0;

	NEED(d);
	while ((e = readdir(d)))
		n += !strncmp(e->d_name, "urxe-", 5) && strstr(e->d_name, ".w");
	closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 10, failed = 0, status;
	uint64_t messages = 0;
	struct other by;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	seed = argc > 2 ? atoi(argv[2]) : getpid();
	printf("%d rounds, seed %u\n", rounds, seed);
	current_case = "start";
	open_urxe();
	introduce(&by, bystander);
	for (int i = 0; i < rounds; i++) {
		char name[32];
		int before = failures;

		snprintf(name, sizeof(name), "round %d", i);
		current_case = name;
		messages += round_of(&by);
		failed += failures != before;
		if (failed > 10)
			break;
	}
	current_case = "end";
	usleep(2200000);		  /* the living reap every second */
	EXPECT_TRUE(windows_left() <= 3); /* of this process, the bystander, and the guardian */
	close(by.to[1]);
	NEED(waitpid(by.pid, &status, 0) == by.pid);
	EXPECT(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
	by.to[1] = dup(1);
	part(&by);
	EXPECT(ibv_dealloc_pd(pd), 0);
	EXPECT(ibv_close_device(ctx), 0);
	printf("%llu messages of the dead, %d failures\n", (unsigned long long)messages, failures);
	return failures != 0;
}

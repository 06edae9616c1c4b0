// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Path migration under traffic (IBTA vol. 1, 17.2.8): a plain libibverbs program that knows nothing
 * of urxe.
 *
 *	verbs_path_migration CASE [COUNT]
 *
 * Two ends have an RC QP each, connected by the first of two paths: of a device with two ports by
 * port 1 (the other path by port 2), else by the first GID (the second), or on InfiniBand with an
 * LMC by the first LID (the second). Both send messages all the time, of which each must come once,
 * in order, with its content; counters at each end tell of atomics that were executed twice. In the
 * environment:
 *
 *	PEER	a command that runs the second end with this program's arguments behind it, on
 *		another host say; else it is a thread of this process
 *	CUT	a command that takes the first path away, CUT_TOO the second
 *	TYPE	uc: messages may be lost, and none may come twice
 *		writes: RDMA WRITEs alone, one after the other, which neighbours carry out themselves
 *	QUIET	the second end sends nothing
 *
 * Cases:
 *	cycle	COUNT times: both rearm, and one of them, in turn, migrates
 *	cut	both rearm; the first path is cut
 *	back	the same; both rearm again, the first path is restored by HEAL, the second one cut
 *	spent	the same as cut, and then the second path is cut
 *	killed	both rearm; the second end is killed
 *
 * Prints a line for each migration of the first end that a cut has brought about. Status 1, and what
 * was wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define WINDOW	 16 /* messages that wait for their completion */
#define RECEIVES 32
#define SLOTS	 64 /* of RDMA WRITEs: more than can be under way and not looked at */
#define ROOM	 12288
#define RETRIES	 3

/* Kinds of messages, in turn. */
enum { SEND, SEND_TOO, WRITE, COUNT, KINDS, WRITE_ALONE };

struct hello {
	uint64_t slots, counter;
	uint32_t qpn, rkey;
	uint32_t lid[2];
	union ibv_gid gid[2];
};

struct memory {
	uint8_t out[WINDOW][ROOM], in[RECEIVES][ROOM], slots[SLOTS][ROOM];
	uint64_t counter, results[WINDOW];
};

struct end {
	unsigned number;
	int fd; /* to the other end */
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct memory *memory;
	struct hello own, peer;
	unsigned ports;
	bool infiniband;
	unsigned path;		 /* the one in use */
	uint64_t sent, done;	 /* messages */
	uint64_t expected, came; /* of the peer: the next one's number, and how many there were */
	uint64_t counted;	 /* our atomics that were executed */
	bool silent;
	enum ibv_wc_status status; /* of the first failure */
	int told;		   /* by the peer: a letter, until it is waited for */
};

static bool lossy, writes, quiet;
static unsigned timeout = 14; /* of the first path, 67 ms; the second one's is the double */
static const char *wanted;
static unsigned count = 1;

static void __attribute__((noreturn, format(printf, 2, 3)))
fail(const struct end *e, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	printf("end %u: ", e->number);
	vprintf(fmt, args);
	printf(" (%s)\n", strerror(errno));
	va_end(args);
	exit(1);
}

#define NEED(end, condition)                                            \
	do {                                                            \
		if (!(condition))                                       \
			fail(end, "line %d: %s", __LINE__, #condition); \
	} while (0)

/* ---- messages ---- */

/* By number and end: length and content. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint32_t length_of(unsigned from, uint64_t n)
{
	return 16 + mix(n * 2 + from) % (ROOM - 16) / 8 * 8;
}

static void fill(uint8_t *at, unsigned from, uint64_t n)
{
	uint32_t words = length_of(from, n) / 8;

	for (uint32_t i = 0; i < words; i++) {
		uint64_t word = i ? mix(n << 20 ^ i << 1 ^ from) : n;

		memcpy(at + 8 * i, &word, 8);
	}
}

static bool holds(const uint8_t *at, unsigned from, uint64_t n)
{
	static _Thread_local uint8_t expected[ROOM];

	fill(expected, from, n);
	return !memcmp(at, expected, length_of(from, n));
}

static unsigned kind_of(uint64_t n)
{
	return writes ? WRITE_ALONE : lossy ? SEND : n % KINDS;
}

static void post_receive(struct end *e, uint64_t i)
{
	struct ibv_sge sge = {(uintptr_t)e->memory->in[i], ROOM, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	NEED(e, !ibv_post_recv(e->qp, &wr, &bad));
}

static void post_message(struct end *e)
{
	uint64_t n = e->sent++;
	uint8_t *out = e->memory->out[n % WINDOW];
	struct ibv_sge sge = {(uintptr_t)out, length_of(e->number, n), e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1}, *bad;

	fill(out, e->number, n);
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.rkey = wr.wr.atomic.rkey = e->peer.rkey;
	switch (kind_of(n)) {
	case WRITE:
	case WRITE_ALONE:
		wr.opcode = writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = n;
		wr.wr.rdma.remote_addr = e->peer.slots + n % SLOTS * ROOM;
		break;
	case COUNT:
		wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr.wr.atomic.remote_addr = e->peer.counter;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = e->peer.rkey;
		sge.addr = (uintptr_t)&e->memory->results[n % WINDOW];
		sge.length = 8;
		break;
	default: wr.opcode = IBV_WR_SEND; break;
	}
	NEED(e, !ibv_post_send(e->qp, &wr, &bad));
}

static void sent(struct end *e, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		if (e->status == IBV_WC_SUCCESS)
			e->status = wc->status;
		e->silent = true;
		return;
	}
	NEED(e, wc->wr_id == e->done);
	if (kind_of(e->done) == COUNT)
		NEED(e, e->memory->results[e->done % WINDOW] == e->counted++);
	e->done++;
}

static void received(struct end *e, const struct ibv_wc *wc)
{
	const uint8_t *at = e->memory->in[wc->wr_id];
	unsigned from = !e->number;
	uint64_t n = e->expected;

	if (wc->status != IBV_WC_SUCCESS)
		return; /* flushed */
	if (lossy)
		memcpy(&n, at, sizeof(n));
	else if (kind_of(n) == COUNT)
		n++;
	if (n < e->expected)
		fail(e, "message %llu came again", (unsigned long long)n);
	if (kind_of(n) == WRITE) {
		NEED(e, wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
		NEED(e, wc->imm_data == (uint32_t)n);
		at = e->memory->slots[n % SLOTS];
	}
	if (wc->byte_len != length_of(from, n) || !holds(at, from, n))
		fail(e, "message %llu is not as it was sent", (unsigned long long)n);
	e->expected = n + 1;
	e->came++;
	post_receive(e, wc->wr_id);
}

/* What there is to be done now. */
static void turn(struct end *e)
{
	struct ibv_wc wc;
	bool idle = true;
	char letter;

	while (ibv_poll_cq(e->rcq, 1, &wc) > 0) {
		received(e, &wc);
		idle = false;
	}
	while (ibv_poll_cq(e->scq, 1, &wc) > 0) {
		sent(e, &wc);
		idle = false;
	}
	while (!e->silent && e->sent - e->done < (writes ? 1 : WINDOW))
		post_message(e);
	if (!e->told && recv(e->fd, &letter, 1, MSG_DONTWAIT) == 1)
		e->told = letter;
	if (idle)
		sched_yield();
}

static void tell(struct end *e, char letter)
{
	NEED(e, send(e->fd, &letter, 1, 0) == 1);
}

static void wait_for(struct end *e, char letter)
{
	while (!e->told)
		turn(e);
	if (e->told != letter)
		fail(e, "the other end says %c and not %c", e->told, letter);
	e->told = 0;
}

/* Both are here. */
static void meet(struct end *e, char letter)
{
	tell(e, letter);
	wait_for(e, letter);
}

/* ---- paths ---- */

static unsigned port_of(const struct end *e, unsigned path)
{
	return e->ports > 1 ? path + 1 : 1;
}

static struct ibv_ah_attr av(const struct end *e, unsigned path)
{
	struct ibv_ah_attr attr = {.port_num = port_of(e, path)};

	if (e->infiniband) {
		attr.dlid = e->peer.lid[path];
		attr.src_path_bits = e->ports > 1 ? 0 : path;
		return attr;
	}
	attr.is_global = 1;
	attr.grh.dgid = e->peer.gid[path];
	attr.grh.sgid_index = path;
	attr.grh.hop_limit = 64;
	return attr;
}

static struct ibv_qp_attr attributes(const struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(e, !ibv_query_qp(e->qp, &attr, ~0, &init));
	return attr;
}

static bool is_path(const struct end *e, const struct ibv_ah_attr *attr, unsigned path)
{
	const struct ibv_ah_attr expected = av(e, path);

	return attr->port_num == expected.port_num && attr->dlid == expected.dlid &&
	       attr->src_path_bits == expected.src_path_bits &&
	       attr->is_global == expected.is_global &&
	       !memcmp(&attr->grh.dgid, &expected.grh.dgid, 16);
}

/* Loads the path that is not in use, and waits until both ends are armed. */
static void rearm(struct end *e)
{
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_ah_attr = av(e, !e->path),
		.alt_port_num = port_of(e, !e->path),
		.alt_timeout = timeout + 1 - e->path,
	};

	NEED(e, !ibv_modify_qp(e->qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE));
	do {
		turn(e);
		attr = attributes(e);
	} while (attr.path_mig_state == IBV_MIG_REARM);
	NEED(e, attr.path_mig_state == IBV_MIG_ARMED);
	NEED(e, is_path(e, &attr.ah_attr, e->path) && is_path(e, &attr.alt_ah_attr, !e->path));
	NEED(e, attr.alt_port_num == port_of(e, !e->path) &&
			attr.alt_timeout == timeout + 1 - e->path);
	meet(e, 'A');
}

static void migrate(struct end *e)
{
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_MIGRATED};

	NEED(e, !ibv_modify_qp(e->qp, &attr, IBV_QP_PATH_MIG_STATE));
}

static int event_of(struct end *e)
{
	struct pollfd pfd = {.fd = e->ctx->async_fd, .events = POLLIN};
	struct ibv_async_event event;

	if (poll(&pfd, 1, 0) != 1)
		return -1;
	NEED(e, !ibv_get_async_event(e->ctx, &event));
	ibv_ack_async_event(&event);
	return event.event_type;
}

/* Those of QPs alone: ports come and go beside them. The peer may have been connected earlier. */
static int next_event(struct end *e)
{
	int event = event_of(e);

	while (event >= IBV_EVENT_DEVICE_FATAL || event == IBV_EVENT_COMM_EST)
		event = event_of(e);
	return event;
}

static void wait_migrated(struct end *e)
{
	struct ibv_qp_attr attr;
	int event;

	while ((event = next_event(e)) < 0 && e->status == IBV_WC_SUCCESS)
		turn(e);
	if (event != IBV_EVENT_PATH_MIG)
		fail(e, "event %d, status %d", event, e->status);
	attr = attributes(e);
	e->path = !e->path;
	NEED(e, attr.path_mig_state == IBV_MIG_MIGRATED && is_path(e, &attr.ah_attr, e->path));
	NEED(e, attr.port_num == port_of(e, e->path));
	NEED(e, attr.timeout == timeout + e->path && !attr.alt_port_num);
	if (!e->number && getenv("CUT"))
		printf("migrated to path %u, port %u, after %llu messages\n", e->path,
		       attr.port_num, (unsigned long long)e->done);
	meet(e, 'M');
}

/* So many messages more, of an end that sends. */
static void flow(struct end *e, uint64_t messages)
{
	uint64_t until = e->done + messages;

	while (!e->silent && e->done < until)
		turn(e);
	NEED(e, e->status == IBV_WC_SUCCESS);
}

static void run(struct end *e, const char *name)
{
	const char *command = getenv(name);

	if (e->number)
		return;
	NEED(e, command);
	NEED(e, !system(command));
}

/* ---- both ends ---- */

static void open_end(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = lossy ? IBV_QPT_UC : IBV_QPT_RC,
					.cap = {.max_send_wr = WINDOW,
						.max_recv_wr = RECEIVES,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	NEED(e, list && list[0]);
	NEED(e, e->ctx = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	NEED(e, !ibv_query_device(e->ctx, &attr));
	NEED(e, attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG);
	e->ports = attr.phys_port_cnt;
	NEED(e, e->memory = calloc(1, sizeof(*e->memory)));
	NEED(e, e->pd = ibv_alloc_pd(e->ctx));
	NEED(e, e->mr = ibv_reg_mr(e->pd, e->memory, sizeof(*e->memory),
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_ATOMIC));
	NEED(e, init.send_cq = e->scq = ibv_create_cq(e->ctx, WINDOW, NULL, NULL, 0));
	NEED(e, init.recv_cq = e->rcq = ibv_create_cq(e->ctx, RECEIVES, NULL, NULL, 0));
	NEED(e, e->qp = ibv_create_qp(e->pd, &init));
	e->own = (struct hello){.slots = (uintptr_t)e->memory->slots,
				.counter = (uintptr_t)&e->memory->counter,
				.qpn = e->qp->qp_num,
				.rkey = e->mr->rkey};
	for (unsigned path = 0; path < 2; path++) {
		NEED(e, !ibv_query_port(e->ctx, port_of(e, path), &port));
		e->infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
		e->own.lid[path] = port.lid + (e->ports > 1 ? 0 : path);
		if (!e->infiniband)
			NEED(e, !ibv_query_gid(e->ctx, 1, path, &e->own.gid[path]));
	}
}

static void connect_end(struct end *e)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port_of(e, 0)};
	const int rc = lossy ? 0 : ~0;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | (rc & (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));

	NEED(e, send(e->fd, &e->own, sizeof(e->own), 0) == sizeof(e->own));
	NEED(e, recv(e->fd, &e->peer, sizeof(e->peer), MSG_WAITALL) == sizeof(e->peer));
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	NEED(e,
	     !ibv_modify_qp(e->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	for (uint64_t i = 0; i < RECEIVES; i++)
		post_receive(e, i);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				    .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = e->peer.qpn,
				    .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 1,
				    .ah_attr = av(e, 1)};
	/* An address of the device's other port is none of this QP's. */
	if (e->ports > 1)
		NEED(e, ibv_modify_qp(e->qp, &attr, rtr) == EINVAL);
	attr.ah_attr = av(e, 0);
	NEED(e, !ibv_modify_qp(e->qp, &attr, rtr));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = timeout,
				    .retry_cnt = RETRIES,
				    .rnr_retry = 7,
				    .max_rd_atomic = 4};
	NEED(e, !ibv_modify_qp(e->qp, &attr,
			       IBV_QP_STATE | IBV_QP_SQ_PSN |
				       (rc & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					      IBV_QP_MAX_QP_RD_ATOMIC))));
	meet(e, 'C');
	e->silent = quiet && e->number;
}

/* All that was sent has come. */
static void settle(struct end *e)
{
	uint64_t sends, theirs;

	e->silent = true;
	while (e->done < e->sent && e->status == IBV_WC_SUCCESS)
		turn(e);
	NEED(e, e->status == IBV_WC_SUCCESS);
	meet(e, 'S');
	sends = e->sent;
	NEED(e, send(e->fd, &sends, sizeof(sends), 0) == sizeof(sends));
	NEED(e, recv(e->fd, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
	if (theirs && kind_of(theirs - 1) == COUNT)
		theirs--;
	for (int i = 0; i < 1000 && e->expected < theirs && !writes; i++)
		turn(e);
	if (writes && theirs)
		NEED(e, holds(e->memory->slots[(theirs - 1) % SLOTS], !e->number, theirs - 1));
	else if (!lossy)
		NEED(e, e->expected == theirs);
	NEED(e, e->came > 0 || writes || quiet);
	meet(e, 'E');
	NEED(e, next_event(e) == -1);
}

static void close_end(struct end *e)
{
	NEED(e, !ibv_destroy_qp(e->qp));
	NEED(e, !ibv_destroy_cq(e->scq) && !ibv_destroy_cq(e->rcq));
	NEED(e, !ibv_dereg_mr(e->mr) && !ibv_dealloc_pd(e->pd) && !ibv_close_device(e->ctx));
	free(e->memory);
}

/* ---- cases ---- */

static void cycle(struct end *e)
{
	for (unsigned i = 0; i < count; i++) {
		rearm(e);
		flow(e, 3);
		if (i % 2 == e->number)
			migrate(e);
		wait_migrated(e);
		flow(e, 3);
	}
	flow(e, 50);
	settle(e);
}

static void cut(struct end *e)
{
	flow(e, 100);
	rearm(e);
	flow(e, 100);
	run(e, "CUT");
	wait_migrated(e);
	flow(e, 300);
}

static void cut_once(struct end *e)
{
	cut(e);
	settle(e);
}

static void back(struct end *e)
{
	cut(e);
	run(e, "HEAL");
	meet(e, 'H');
	rearm(e);
	run(e, "CUT_TOO");
	wait_migrated(e);
	flow(e, 300);
	settle(e);
}

/* There is no third path: the QP ends as ever. */
static void spent(struct end *e)
{
	cut(e);
	meet(e, 'T');
	run(e, "CUT_TOO");
	while (e->status == IBV_WC_SUCCESS && !(quiet && e->number))
		turn(e);
	if (!quiet || !e->number)
		NEED(e, e->status == IBV_WC_RETRY_EXC_ERR && attributes(e).qp_state == IBV_QPS_ERR);
	meet(e, 'E');
	NEED(e, next_event(e) == -1);
}

/* Who speaks for it does so by the path in use, and asks for no migration. */
static void killed(struct end *e)
{
	rearm(e);
	flow(e, 10);
	meet(e, 'K');
	if (e->number)
		raise(SIGKILL);
	while (e->status == IBV_WC_SUCCESS)
		turn(e);
	if (e->status != IBV_WC_REM_OP_ERR)
		fail(e, "status %d", e->status);
	NEED(e, attributes(e).path_mig_state == IBV_MIG_ARMED);
	NEED(e, next_event(e) == -1);
}

static const struct {
	const char *name;
	void (*fn)(struct end *e);
} cases[] = {
	{"cycle", cycle}, {"cut", cut_once}, {"back", back}, {"spent", spent}, {"killed", killed}};

static void *live(void *arg)
{
	struct end *e = arg;

	open_end(e);
	connect_end(e);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, wanted))
			cases[i].fn(e);
	close_end(e);
	return NULL;
}

/* The second end, by the command PEER; its control connection is its standard input. */
static pid_t start_peer(int argc, char **argv, int fd)
{
	char command[1024];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(command, sizeof(command), "exec %s %s %s", getenv("PEER"), argv[1],
		 argc > 2 ? argv[2] : "1");
	setenv("SECOND", "1", 1);
	dup2(fd, 0);
	execl("/bin/sh", "sh", "-c", command, NULL);
	_exit(127);
}

int main(int argc, char **argv)
{
	struct end ends[2] = {{.number = 0}, {.number = 1}};
	int pair[2], status = 0;
	pthread_t thread;
	pid_t pid;

	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(60);
	wanted = argv[1];
	count = argc > 2 ? atoi(argv[2]) : 1;
	lossy = getenv("TYPE") && !strcmp(getenv("TYPE"), "uc");
	writes = getenv("TYPE") && !strcmp(getenv("TYPE"), "writes");
	quiet = getenv("QUIET");
	if (!strcmp(wanted, "killed"))
		timeout = 17; /* longer than it takes until somebody speaks for the dead */
	if (getenv("SECOND")) {
		live(&ends[1]);
		return 0;
	}
	NEED(&ends[0], !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	ends[0].fd = pair[0];
	ends[1].fd = pair[1];
	if (!getenv("PEER")) {
		NEED(&ends[0], !pthread_create(&thread, NULL, live, &ends[1]));
		live(&ends[0]);
		return pthread_join(thread, NULL);
	}
	NEED(&ends[0], (pid = start_peer(argc, argv, pair[1])) > 0);
	close(pair[1]);
	live(&ends[0]);
	NEED(&ends[0], waitpid(pid, &status, 0) == pid);
	if (!strcmp(wanted, "killed"))
		return !WIFSIGNALED(status);
	return status != 0;
}

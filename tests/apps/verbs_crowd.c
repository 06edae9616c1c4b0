// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * verbs_crowd PROCESSES HOSTS: so many processes on hosts h1, h2, … of a fabric, in a circle. Each
 * sends its number to the next one by a datagram, and writes it into the next one's memory over a
 * reliable connection; each looks what it has got, and from where. Then all are killed at once, and
 * as many others do the same in their places.
 */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#define QKEY	 0x1234
#define PATIENCE 300 /* s, for all to get as far as the slowest */

/* What a process says to the others, and is said to by one. */
struct process {
	uint16_t lid;
	uint32_t datagrams, in, out; /* QPNs; connections from the one before, to the next one */
	uint32_t rkey;
	uint64_t addr;
};

static struct {
	unsigned ready, done;
	struct process of[];
} * all;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct {
	uint32_t written;
	uint32_t own;
	uint8_t grh[40];
	uint32_t got;
} memory;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	_exit(1);
}

static struct ibv_qp *make(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qkey = QKEY,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(qp != NULL, "ibv_create_qp");
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
	     "INIT");
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint16_t lid, uint32_t qpn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_4096,
				   .dest_qp_num = qpn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = {.dlid = lid, .port_num = 1}};

	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 18,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void start(struct ibv_qp *datagrams)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

	must(!ibv_modify_qp(datagrams, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	must(!ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

/* Until all have come so far. */
static void meet(unsigned *count, unsigned n)
{
	__atomic_add_fetch(count, 1, __ATOMIC_ACQ_REL);
	for (int tries = PATIENCE * 10; __atomic_load_n(count, __ATOMIC_ACQUIRE) < n; tries--) {
		must(tries > 0, "the others");
		usleep(100000);
	}
}

static struct ibv_wc completion(void)
{
	struct pollfd p = {.fd = channel->fd, .events = POLLIN};
	struct ibv_cq *ev_cq;
	struct ibv_wc wc;
	void *arg;

	while (!ibv_poll_cq(cq, 1, &wc)) {
		must(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		if (ibv_poll_cq(cq, 1, &wc))
			break;
		must(poll(&p, 1, PATIENCE * 1000) == 1, "no completion");
		must(!ibv_get_cq_event(channel, &ev_cq, &arg), "ibv_get_cq_event");
		ibv_ack_cq_events(ev_cq, 1);
	}
	must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	return wc;
}

static void open_device(unsigned self, unsigned hosts)
{
	struct ibv_device **list;
	char host[16];

	snprintf(host, sizeof(host), "h%u", 1 + self % hosts);
	setenv("URXE_HOST", host, 1);
	list = ibv_get_device_list(NULL);
	must(list && list[0], "devices");
	context = ibv_open_device(list[0]);
	must(context != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 16, NULL, channel, 0);
	mr = ibv_reg_mr(pd, &memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(pd && channel && cq && mr, "objects");
}

static void send_to(struct ibv_qp *datagrams, struct ibv_qp *out, const struct process *next)
{
	struct ibv_sge sge = {(uintptr_t)&memory.own, sizeof(memory.own), mr->lkey};
	struct ibv_ah_attr to = {.dlid = next->lid, .port_num = 1};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {next->addr, next->rkey}};
	struct ibv_send_wr *bad;

	must(!ibv_post_send(out, &wr, &bad), "RDMA write");
	wr.opcode = IBV_WR_SEND;
	memset(&wr.wr, 0, sizeof(wr.wr));
	wr.wr.ud.ah = ibv_create_ah(pd, &to);
	wr.wr.ud.remote_qpn = next->datagrams;
	wr.wr.ud.remote_qkey = QKEY;
	must(wr.wr.ud.ah && !ibv_post_send(datagrams, &wr, &bad), "datagram");
}

static void be_one(unsigned self, unsigned n, unsigned hosts)
{
	unsigned before = (self + n - 1) % n, seen = 0;
	const struct process *next = &all->of[(self + 1) % n];
	struct ibv_qp *datagrams, *in, *out;
	struct ibv_sge sge;
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_port_attr port;

	open_device(self, hosts);
	datagrams = make(IBV_QPT_UD);
	in = make(IBV_QPT_RC);
	out = make(IBV_QPT_RC);
	sge = (struct ibv_sge){(uintptr_t)memory.grh, sizeof(memory.grh) + sizeof(memory.got),
			       mr->lkey};
	must(!ibv_post_recv(datagrams, &recv, &bad), "ibv_post_recv");
	start(datagrams);
	must(!ibv_query_port(context, 1, &port), "ibv_query_port");
	memory.own = self;
	memory.written = memory.got = UINT32_MAX;
	all->of[self] =
		(struct process){port.lid,    datagrams->qp_num, in->qp_num,
				 out->qp_num, mr->rkey,		 (uintptr_t)&memory.written};
	meet(&all->ready, n);
	connect_to(out, next->lid, next->in);
	connect_to(in, all->of[before].lid, all->of[before].out);
	meet(&all->ready, 2 * n);
	send_to(datagrams, out, next);
	while (seen != 3) {
		struct ibv_wc wc = completion();

		if (wc.opcode == IBV_WC_RECV)
			must(memory.got == before && wc.slid == all->of[before].lid, "a stranger");
		seen++;
	}
	meet(&all->done, n);
	must(*(volatile uint32_t *)&memory.written == before, "memory of mine");
	meet(&all->done, 2 * n);
	pause();
}

static void round_of(unsigned n, unsigned hosts)
{
	pid_t *pids = calloc(n, sizeof(*pids));
	int status;

	all->ready = all->done = 0;
	for (unsigned i = 0; i < n; i++) {
		pids[i] = fork();
		must(pids[i] >= 0, "fork");
		if (!pids[i])
			be_one(i, n, hosts);
	}
	while (__atomic_load_n(&all->done, __ATOMIC_ACQUIRE) < 2 * n) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid > 0) {
			fprintf(stderr, "one ended by itself, status %#x\n", status);
			for (unsigned i = 0; i < n; i++)
				if (pids[i] != pid)
					kill(pids[i], SIGKILL);
			exit(1);
		}
		usleep(20000);
	}
	for (unsigned i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	for (unsigned i = 0; i < n; i++)
		waitpid(pids[i], &status, 0);
	free(pids);
	printf("%u processes\n", n);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 3 ? atoi(argv[1]) : 0, hosts = n ? atoi(argv[2]) : 0;

	if (!n || !hosts)
		return 2;
	all = mmap(NULL, sizeof(*all) + n * sizeof(all->of[0]), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(all != MAP_FAILED, "memory");
	round_of(n, hosts);
	round_of(n, hosts);
	return 0;
}

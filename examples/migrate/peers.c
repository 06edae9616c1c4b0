/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A crowd of peers that write to a guest by RDMA while it moves: lidtrack-peers SOCKET COMMAND…
 *
 * Each peer has an RC connection of its own to lidtrack-guest, by LID, and a path record of its own
 * (they ask for different services), kept by libsacache. When all are connected, COMMAND is run,
 * which moves the guest, while every peer goes on writing. A peer whose write fails has lost its
 * connection; it makes a new one by its path record, if libsacache still has that, else after a
 * question to the SA. It is back when a write to the guest's new adapter is acknowledged. At the
 * end each peer writes once more, and the guest says how many of these have arrived whole.
 *
 * One thread. Prints how many questions the SA was asked before and after, and how long it took.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <sacache/sacache.h>

#include "crowd.h"

#define BATCH	  64	/* completions at a time */
#define PERIOD_US 50000 /* how long a round waits for its writes */
#define PAUSE_US  2000	/* between two rounds */
#define PATIENCE  300	/* seconds until all are connected */

static struct {
	unsigned peers;
	enum sacache_policy policy;
	bool csv;
} options = {.peers = 1000, .policy = SACACHE_ALWAYS};

struct peer {
	struct ibv_qp *qp;
	struct sacache_key key;
	uint64_t address, life; /* of the guest's adapter that it is connected to */
	uint32_t rkey;
	bool busy; /* a write is under way */
	bool back; /* one has arrived there */
};

static struct sacache *cache;
static unsigned cache_port;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct slot *slots; /* what each peer writes */
static struct peer *peers;
static const char *path_to_guest;
static int guest = -1; /* its socket */
static uint64_t written, lost;

__attribute__((noreturn)) static void die(const char *what, int error)
{
	fprintf(stderr, "lidtrack-peers: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

static void must(bool ok, const char *what)
{
	if (!ok)
		die(what, errno);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* ---- this host ---- */

static void open_cache(void)
{
	struct sacache_attr attr;
	int ret;

	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = options.policy;
	ret = sacache_create(&attr, &cache);
	if (!ret)
		ret = sacache_port_open(cache, NULL, 0, &cache_port);
	if (ret)
		die("InfiniBand port", ret);
}

static void open_adapter(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	must(list && list[0], "no device");
	context = ibv_open_device(list[0]);
	must(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	slots = mmap(NULL, options.peers * sizeof(*slots), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	peers = calloc(options.peers, sizeof(*peers));
	must(slots != MAP_FAILED && peers, "memory");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 2 * (int)options.peers, NULL, NULL, 0);
	mr = pd ? ibv_reg_mr(pd, slots, options.peers * sizeof(*slots), IBV_ACCESS_LOCAL_WRITE)
		: NULL;
	must(cq && mr, "objects");
}

/* ---- the guest ---- */

static void hang_up(void)
{
	if (guest >= 0)
		close(guest);
	guest = -1;
}

/* False: it is not there now. */
static bool ask(struct crowd_request request, struct crowd_answer *answer)
{
	const struct timeval limit = {.tv_sec = 10};
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (guest < 0) {
		guest = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		must(guest >= 0 && strlen(path_to_guest) < sizeof(address.sun_path), path_to_guest);
		strcpy(address.sun_path, path_to_guest);
		setsockopt(guest, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		if (connect(guest, (struct sockaddr *)&address, sizeof(address))) {
			hang_up();
			return false;
		}
	}
	if (send(guest, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) &&
	    recv(guest, answer, sizeof(*answer), 0) == sizeof(*answer))
		return true;
	hang_up();
	return false;
}

/* ---- connections ---- */

static void key_of(struct sacache_key *key, unsigned peer, uint64_t guid)
{
	uint64_t wire = htobe64(guid);
	union ibv_gid own;

	must(!ibv_query_gid(context, 1, 0, &own), "ibv_query_gid");
	memset(key, 0, sizeof(*key));
	memcpy(key->dgid, own.raw, 8);
	memcpy(key->dgid + 8, &wire, 8);
	key->service_id = 0x1000000000ull + peer;
	key->port = cache_port;
	key->mask = SACACHE_DGID | SACACHE_SERVICE_ID;
}

static bool to_ready(struct ibv_qp *qp, uint32_t qpn, const struct sacache_path *path)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = qpn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = {.dlid = path->dlid,
					       .sl = path->sl,
					       .static_rate = path->rate,
					       .port_num = 1}};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return false;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 13, /* 34 ms */
				    .retry_cnt = 4,
				    .rnr_retry = 7,
				    .max_rd_atomic = 1};
	return !ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(qp != NULL, "ibv_create_qp");
	must(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	return qp;
}

static void write_slot(unsigned i, uint64_t round)
{
	struct ibv_sge sge = {(uintptr_t)&slots[i], sizeof(*slots), mr->lkey};
	struct ibv_send_wr wr = {.wr_id = i,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {peers[i].address, peers[i].rkey}},
			   *bad;

	slot_fill(&slots[i], i, round);
	must(!ibv_post_send(peers[i].qp, &wr, &bad), "ibv_post_send");
	peers[i].busy = true;
}

static void lose(struct peer *p)
{
	ibv_destroy_qp(p->qp);
	p->qp = NULL;
	p->busy = p->back = false;
	lost++;
	sacache_failed(cache, &p->key);
}

/* As a connection manager would: by the path that the cache has, or the SA. */
static bool connect_peer(unsigned i, uint64_t round)
{
	struct crowd_answer who, answer;
	struct sacache_path path;
	struct peer *p = &peers[i];
	struct ibv_qp *qp;

	if (!ask((struct crowd_request){.ask = CROWD_WHO}, &who))
		return false;
	key_of(&p->key, i, who.guid);
	if (sacache_resolve(cache, &p->key, &path, -1))
		return false;
	qp = new_qp();
	if (!ask((struct crowd_request){CROWD_CONNECT, i, qp->qp_num, path.slid, 0}, &answer) ||
	    !answer.qpn || !to_ready(qp, answer.qpn, &path)) {
		ibv_destroy_qp(qp);
		return false;
	}
	p->qp = qp;
	p->life = answer.life;
	p->address = answer.address;
	p->rkey = answer.rkey;
	write_slot(i, round);
	return true;
}

static void complete(const struct ibv_wc *wc)
{
	struct peer *p = &peers[wc->wr_id];

	if (!p->qp || wc->qp_num != p->qp->qp_num)
		return; /* of a connection that is gone */
	if (wc->status != IBV_WC_SUCCESS) {
		lose(p);
		return;
	}
	p->busy = false;
	written++;
	if (!p->back)
		sacache_connected(cache, &p->key);
	p->back = true;
}

static void poll_all(void)
{
	struct ibv_wc wc[BATCH];
	int n;

	do {
		n = ibv_poll_cq(cq, BATCH, wc);
		must(n >= 0, "ibv_poll_cq");
		for (int i = 0; i < n; i++)
			complete(&wc[i]);
	} while (n);
}

/* ---- the crowd ---- */

static unsigned writes_under_way(void)
{
	unsigned count = 0;

	poll_all();
	for (unsigned i = 0; i < options.peers; i++)
		count += peers[i].busy;
	return count;
}

/* Each ends, by its acknowledgement or by the QP's retries. */
static void drain(void)
{
	while (writes_under_way())
		usleep(200);
}

/* One round of writes, and of new connections. How many have written to that life of the guest's
 * adapter (0: any). */
static unsigned go_round(uint64_t round, uint64_t life)
{
	double until = now() + PERIOD_US / 1e6;
	unsigned back = 0;
	bool there = true;

	for (unsigned i = 0; i < options.peers; i++) {
		if (!peers[i].qp)
			there = there && connect_peer(i, round);
		else if (!peers[i].busy)
			write_slot(i, round);
		if (i % BATCH == 0)
			poll_all();
	}
	while (writes_under_way() && now() < until)
		usleep(200);
	for (unsigned i = 0; i < options.peers; i++)
		back += peers[i].back && (!life || peers[i].life == life);
	usleep(PAUSE_US);
	return back;
}

/* Until all are connected; the round that they wrote last. */
static uint64_t connect_all(uint64_t round, uint64_t life)
{
	double began = now();

	while (go_round(round, life) < options.peers) {
		if (now() - began > PATIENCE)
			die("not all are connected", ETIMEDOUT);
		round++;
	}
	return round;
}

/* Each writes once more; how many of these the guest has. */
static unsigned arrived(uint64_t round)
{
	struct crowd_answer answer;

	connect_all(round, 0);
	drain();
	for (unsigned i = 0; i < options.peers; i++)
		if (peers[i].qp)
			write_slot(i, round);
	drain();
	if (!ask((struct crowd_request){CROWD_ARRIVED, options.peers, 0, 0, round}, &answer))
		die("the guest is gone", ECONNRESET);
	return answer.arrived;
}

static uint64_t asked(void)
{
	struct sacache_stats s;

	sacache_stats(cache, &s, sizeof(s));
	return s.query_miss + s.query_off + s.query_suspect + s.query_changed;
}

/* ---- the move ---- */

static pid_t start_command(char **words)
{
	extern char **environ;
	pid_t pid;
	int ret = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);

	if (ret)
		die(words[0], ret);
	return pid;
}

static bool has_ended(pid_t pid, const char *command)
{
	int status;
	pid_t got = waitpid(pid, &status, WNOHANG);

	if (got == pid && (!WIFEXITED(status) || WEXITSTATUS(status)))
		die(command, EIO);
	return got == pid;
}

static uint64_t life_of_guest(void)
{
	struct crowd_answer who;

	return ask((struct crowd_request){.ask = CROWD_WHO}, &who) ? who.life : 0;
}

static void run(char **command)
{
	double began = now(), moved = 0, back = 0, left = 0;
	uint64_t round = connect_all(1, 0), before = asked(), first = life_of_guest(), life;
	unsigned whole;
	pid_t pid;

	if (!options.csv)
		printf("%u peers connected in %.3f s, %llu questions to the SA\n", options.peers,
		       now() - began, (unsigned long long)before);
	written = lost = 0;
	began = now();
	pid = start_command(command);
	while (!moved || !back) {
		if (!moved && has_ended(pid, command[0]))
			moved = now();
		life = life_of_guest();
		if (!left && life != first)
			left = now();
		if (go_round(++round, life) == options.peers && life && life != first)
			back = back ? back : now();
		if (moved && now() - moved > PATIENCE)
			die("not all are back", ETIMEDOUT);
	}
	whole = arrived(++round);
	if (options.csv) {
		printf("%u,%llu,%llu,%.4f,%.4f,%.4f,%u\n", options.peers,
		       (unsigned long long)before, (unsigned long long)(asked() - before),
		       moved - began, back - began, back - left, whole);
		return;
	}
	printf("the guest moved in %.3f s; it lost its peers for %.3f s; all peers back %.3f s "
	       "after the order, %llu questions to the SA\n",
	       moved - began, back - left, back - began, (unsigned long long)(asked() - before));
	printf("%llu writes meanwhile, %llu connections lost; %u of %u peers' last writes are "
	       "there, with their checksums\n",
	       (unsigned long long)written, (unsigned long long)lost, whole, options.peers);
	if (whole != options.peers)
		exit(1);
}

static int usage(void)
{
	fputs("usage: lidtrack-peers [--peers N] [--never] [--csv] SOCKET COMMAND...\n"
	      "Writes by RDMA to the lidtrack-guest of SOCKET, while COMMAND moves it.\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"peers", 1, NULL, 'p'},
					      {"never", 0, NULL, 'n'},
					      {"csv", 0, NULL, 'c'},
					      {"help", 0, NULL, 'h'},
					      {}};
	int c;

	while ((c = getopt_long(argc, argv, "+", known, NULL)) != -1) {
		switch (c) {
		case 'p': options.peers = atoi(optarg); break;
		case 'n': options.policy = SACACHE_NEVER; break;
		case 'c': options.csv = true; break;
		default: return usage();
		}
	}
	if (argc - optind < 2 || !options.peers || options.peers > 4096)
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	path_to_guest = argv[optind];
	open_cache();
	open_adapter();
	run(argv + optind + 1);
	for (unsigned i = 0; i < options.peers; i++)
		ibv_destroy_qp(peers[i].qp);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	sacache_destroy(cache);
	return 0;
}

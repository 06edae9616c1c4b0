/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One end of a connection that is killed again and again:
 *
 *	sacache_reconnect client|server OWN-ADDRESS OWN-PORT PEER-ADDRESS PEER-PORT ROUNDS
 *
 * Each time it is connected it sends its process's number and the count of its connections, and
 * waits for the same from the peer; then one of the ends, or both, kill the connection in one of
 * several ways. It says "done" after so many rounds, and goes on until its standard input ends. It
 * fails if the connection does not come back, if there is a second one, or if a message is not the
 * peer's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/rdma_verbs.h>

#include <sacache/rdmacm.h>

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, \
				#condition, strerror(errno));                           \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

enum { CLIENT = 1, SERVER = 2, PATIENCE = 20000 };

struct hello {
	uint64_t name;
	uint64_t process;
	uint64_t connection;
};

static struct {
	struct rdma_cm_id *prepared, *up;
	struct ibv_mr *mr;
	struct hello out, in;
	uint64_t connections, rounds;
	struct hello before; /* the peer's */
	bool heard;
} end;

static uint64_t self, other, dice;
static struct sacache_rdmacm *cm;
static struct sacache_rdmacm_peer *peer;

static uint64_t random64(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return dice * 0x2545f4914f6cdd1dull >> 16;
}

static int prepare(void *ctx, void *user, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	CHECK(!end.prepared);
	if (rdma_create_qp(id, NULL, &attr))
		return -errno;
	end.mr = rdma_reg_msgs(id, &end.out, 2 * sizeof(struct hello));
	CHECK(end.mr);
	CHECK(!rdma_post_recv(id, NULL, &end.in, sizeof(end.in), end.mr));
	end.prepared = id;
	end.heard = false;
	return 0;
}

static void release(void *ctx, void *user, struct rdma_cm_id *id)
{
	CHECK(end.prepared == id && !end.up);
	rdma_destroy_qp(id);
	CHECK(!rdma_dereg_mr(end.mr));
	end.prepared = NULL;
}

static void up(void *ctx, void *user, struct rdma_cm_id *id)
{
	CHECK(end.prepared == id && !end.up);
	end.up = id;
	end.out =
		(struct hello){.name = self, .process = getpid(), .connection = ++end.connections};
	/* It may be dead already; that will be said. */
	rdma_post_send(id, NULL, &end.out, sizeof(end.out), end.mr, IBV_SEND_SIGNALED);
}

static void down(void *ctx, void *user, struct rdma_cm_id *id, int status)
{
	CHECK(end.up == id);
	end.up = NULL;
}

static const struct sacache_rdmacm_ops ops = {
	.size = sizeof(ops),
	.prepare = prepare,
	.release = release,
	.up = up,
	.down = down,
};

/* A peer that was started anew begins to count again. */
static void listen_to_peer(void)
{
	struct ibv_wc wc;

	while (end.up && ibv_poll_cq(end.up->recv_cq, 1, &wc) == 1) {
		if (wc.status) {
			sacache_rdmacm_failed(peer, -EIO);
			return;
		}
		CHECK(end.in.name == other && wc.byte_len == sizeof(end.in));
		CHECK(end.in.process != end.before.process ||
		      end.in.connection > end.before.connection);
		end.before = end.in;
		end.heard = true;
		end.rounds++;
	}
	while (end.up && ibv_poll_cq(end.up->send_cq, 1, &wc) == 1)
		if (wc.status) {
			sacache_rdmacm_failed(peer, -EIO);
			return;
		}
}

static void kill_connection(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	switch (random64() % 4) {
	case 0: rdma_disconnect(end.up); break;
	case 1: ibv_modify_qp(end.up->qp, &error, IBV_QP_STATE); break;
	case 2: sacache_rdmacm_failed(peer, -ETIMEDOUT); break;
	/* The client always does something, or both might wait for the other. */
	default:
		if (self == CLIENT)
			sacache_rdmacm_failed(peer, -EIO);
	}
}

static void set_address(struct sockaddr_in *address, const char *ip, const char *port)
{
	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_port = htons(atoi(port));
	CHECK(inet_pton(AF_INET, ip, &address->sin_addr) == 1);
}

static void open_end(char **argv)
{
	struct sacache_reconnect_attr reconnect;
	struct sacache_rdmacm_attr attr;
	struct sockaddr_in own, theirs;
	struct sacache_rdmacm_name name = {
		.size = sizeof(name),
		.local = self,
		.remote = other,
		.address = (struct sockaddr *)&theirs,
		.role = self == CLIENT ? SACACHE_CLIENT : SACACHE_SERVER,
	};

	set_address(&own, argv[2], argv[3]);
	set_address(&theirs, argv[4], argv[5]);
	sacache_rdmacm_attr_init(&attr, sizeof(attr));
	attr.listen = (struct sockaddr *)&own;
	sacache_reconnect_attr_init(&reconnect, sizeof(reconnect));
	reconnect.backoff_min = 5;
	reconnect.backoff_max = 500;
	reconnect.timeout = 2000;
	attr.reconnect = &reconnect;
	CHECK(!(errno = -sacache_rdmacm_create(&attr, &ops, NULL, &cm)));
	CHECK(sacache_rdmacm_listens(cm) == atoi(argv[3]));
	CHECK(!(errno = -sacache_rdmacm_add(cm, &name, NULL, &peer)));
	CHECK(sacache_rdmacm_add(cm, &name, NULL, &peer) == -EEXIST);
}

int main(int argc, char **argv)
{
	struct pollfd fds[2] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}};
	struct sacache_reconnect_stats stats;
	uint64_t rounds;
	bool done = false;

	CHECK(argc == 7);
	self = strcmp(argv[1], "client") ? SERVER : CLIENT;
	other = self == CLIENT ? SERVER : CLIENT;
	rounds = strtoull(argv[6], NULL, 10);
	dice = getpid() | 1;
	open_end(argv);
	fds[1].fd = sacache_rdmacm_fd(cm);
	while (!(fds[0].revents & (POLLIN | POLLHUP))) {
		/* The blocking way until it is up, the other one while it is. */
		errno = -sacache_rdmacm_wait(peer, done ? 100 : PATIENCE);
		CHECK(!errno || done);
		CHECK(poll(fds, 2, 1) >= 0);
		CHECK(!sacache_rdmacm_run(cm));
		listen_to_peer();
		if (!end.up || !end.heard)
			continue;
		CHECK(sacache_rdmacm_id(peer) == end.up);
		if (!done && end.rounds >= rounds) {
			done = true;
			puts("done");
			fflush(stdout);
		}
		kill_connection();
	}
	sacache_rdmacm_stats(cm, &stats, sizeof(stats));
	printf("%llu up, %llu crossed, %llu accepted, %llu failed\n", (unsigned long long)stats.up,
	       (unsigned long long)stats.crossed, (unsigned long long)stats.accepted,
	       (unsigned long long)stats.failed);
	end.up = NULL;
	sacache_rdmacm_destroy(cm);
	CHECK(!end.prepared);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Connections by rdma_cm: the hub is one user of libsacache-rdmacm, its peers are another, both in
 * this process. All connections are lost at the same moment, at both ends. There are no links to
 * take down, and no SA where the device is no InfiniBand one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sacache/rdmacm.h>

#include "storm.h"

enum { HUB = 1 };

static unsigned ends_up;

static int prepare(void *ctx, void *user, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	static struct ibv_cq *cq;

	/* One for all; nothing is sent. */
	if (!cq)
		cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	if (!cq)
		return -errno;
	attr.send_cq = attr.recv_cq = cq;
	return rdma_create_qp(id, NULL, &attr) ? -errno : 0;
}

static void release(void *ctx, void *user, struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
}

static void up(void *ctx, void *user, struct rdma_cm_id *id)
{
	ends_up++;
}

static void down(void *ctx, void *user, struct rdma_cm_id *id, int status)
{
	ends_up--;
}

static const struct sacache_rdmacm_ops ops = {
	.size = sizeof(ops),
	.prepare = prepare,
	.release = release,
	.up = up,
	.down = down,
};

static struct sacache_rdmacm *open_side(const struct options *options, struct sockaddr *address,
					uint64_t seed)
{
	struct sacache_reconnect_attr reconnect;
	struct sacache_rdmacm_attr attr;
	struct sacache_rdmacm *cm;
	int ret;

	sacache_rdmacm_attr_init(&attr, sizeof(attr));
	attr.listen = address;
	attr.backlog = 2 * (int)options->peers;
	set_reconnect(options, &reconnect);
	reconnect.seed += seed;
	attr.reconnect = &reconnect;
	ret = sacache_rdmacm_create(&attr, &ops, NULL, &cm);
	if (ret)
		die("rdma_cm", ret);
	return cm;
}

static void set_port(struct sockaddr *address, uint16_t port)
{
	if (address->sa_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)address)->sin_port = htons(port);
}

static void run_both(struct sacache_rdmacm *const sides[2], unsigned wanted)
{
	struct pollfd fds[2];
	double began = seconds();

	while (ends_up != wanted) {
		for (unsigned i = 0; i < 2; i++) {
			int ret = sacache_rdmacm_run(sides[i]);

			if (ret)
				die("rdma_cm", ret);
			fds[i] = (struct pollfd){.fd = sacache_rdmacm_fd(sides[i]),
						 .events = POLLIN};
		}
		if (ends_up != wanted)
			poll(fds, 2, 1000);
		if (seconds() - began > 300)
			die("not all are connected after 300 s", -ETIMEDOUT);
	}
}

/* Peer n's end, then the hub's. */
static void add_pair(struct sacache_rdmacm *const sides[2], struct sockaddr *address, unsigned n,
		     struct sacache_rdmacm_peer **ends)
{
	for (unsigned i = 0; i < 2; i++) {
		struct sacache_rdmacm_name name = {
			.size = sizeof(name),
			.local = i ? HUB : HUB + 1 + n,
			.remote = i ? HUB + 1 + n : HUB,
			.address = address,
			.role = i ? SACACHE_SERVER : SACACHE_CLIENT,
		};
		int ret;

		set_port(address, sacache_rdmacm_listens(sides[!i]));
		ret = sacache_rdmacm_add(sides[i], &name, NULL, &ends[i]);
		if (ret)
			die("peer", ret);
	}
}

static void add_stats(const struct sacache_rdmacm *cm, struct sacache_reconnect_stats *sum)
{
	struct sacache_reconnect_stats stats;

	sacache_rdmacm_stats(cm, &stats, sizeof(stats));
	for (unsigned i = 0; i < sizeof(stats) / sizeof(uint64_t); i++)
		((uint64_t *)sum)[i] += ((uint64_t *)&stats)[i];
}

void storm_real(const struct options *options, struct result *result)
{
	struct sacache_rdmacm_peer **ends = calloc(2 * options->peers, sizeof(*ends));
	struct sacache_rdmacm *sides[2];
	struct addrinfo *info;
	double began;
	int ret = getaddrinfo(options->address, NULL, NULL, &info);

	if (!ends || ret)
		die(options->address, -EADDRNOTAVAIL);
	for (unsigned i = 0; i < 2; i++) {
		set_port(info->ai_addr, 0);
		sides[i] = open_side(options, info->ai_addr, i);
	}
	began = seconds();
	for (unsigned n = 0; n < options->peers; n++)
		add_pair(sides, info->ai_addr, n, &ends[2 * n]);
	run_both(sides, 2 * options->peers);
	result->first = seconds() - began;
	for (unsigned round = 0; round < options->rounds; round++) {
		for (unsigned i = 0; i < 2 * options->peers; i++)
			sacache_rdmacm_failed(ends[i], -ENETDOWN);
		began = seconds();
		run_both(sides, 2 * options->peers);
		began = seconds() - began;
		result->total += began;
		if (began > result->longest)
			result->longest = began;
	}
	add_stats(sides[0], &result->stats);
	add_stats(sides[1], &result->stats);
	sacache_rdmacm_destroy(sides[0]);
	sacache_rdmacm_destroy(sides[1]);
	freeaddrinfo(info);
	free(ends);
}

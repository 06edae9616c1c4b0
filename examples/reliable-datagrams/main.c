/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One node of many that send reliable datagrams to each other:
 *
 *	reliable-datagrams [--messages N] [--kill MS] [--seed N] SELF ADDRESS:PORT…
 *
 * SELF is its number among the addresses, from 0 on. It sends so many datagrams to each other node,
 * says "done" when all have been acknowledged and all others' have arrived, and goes on until its
 * standard input ends. With --kill it kills one of its connections about as often. Each datagram
 * tells where it stands in the order and what its bytes are: it fails if one is missing, comes
 * twice or is another.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "datagrams.h"

enum { MAX_NODES = 64 };

static unsigned self, count;
static struct sockaddr_in nodes[MAX_NODES];
static uint64_t sent[MAX_NODES], arrived[MAX_NODES];

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dull;
}

static void die(const char *what, int status)
{
	fprintf(stderr, "reliable-datagrams: %s: %s\n", what, strerror(-status));
	exit(1);
}

/* The number of a datagram and who sends it to whom give its size and its bytes. */
static size_t compose(unsigned from, unsigned to, uint64_t number, uint64_t data[])
{
	uint64_t random = (number << 16 | from << 8 | to) * 0x9e3779b97f4a7c15ull | 1;
	size_t words = 1 + next_random(&random) % (DATAGRAM_SIZE / 8);

	data[0] = number;
	for (size_t i = 1; i < words; i++)
		data[i] = next_random(&random);
	return 8 * words;
}

static void deliver(void *ctx, unsigned from, const void *data, size_t size)
{
	uint64_t expected[DATAGRAM_SIZE / 8];

	if (size != compose(from, self, arrived[from], expected) || memcmp(data, expected, size)) {
		fprintf(stderr, "reliable-datagrams: from node %u, not number %llu\n", from,
			(unsigned long long)arrived[from]);
		exit(1);
	}
	arrived[from]++;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void kill_one(struct datagrams *d, uint64_t *dice)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	unsigned node = (self + 1 + next_random(dice) % (count - 1)) % count;
	struct rdma_cm_id *id = datagrams_connection(d, node);

	if (!id)
		return;
	if (next_random(dice) & 1 << 20)
		rdma_disconnect(id);
	else
		ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
}

/* Sends what there is room for; whether everything has been sent, acknowledged, and has arrived. */
static bool exchange(struct datagrams *d, uint64_t messages)
{
	uint64_t data[DATAGRAM_SIZE / 8];
	bool done = true;

	for (unsigned node = 0; node < count; node++) {
		if (node == self)
			continue;
		while (sent[node] < messages) {
			size_t size = compose(self, node, sent[node], data);
			int ret = datagrams_send(d, node, data, size);

			if (ret == -EAGAIN)
				break;
			if (ret)
				die("send", ret);
			sent[node]++;
		}
		done &= sent[node] == messages && arrived[node] == messages &&
			!datagrams_under_way(d, node);
	}
	return done;
}

static void parse_address(const char *text, struct sockaddr_in *address)
{
	char ip[64];
	int port;

	address->sin_family = AF_INET;
	if (sscanf(text, "%63[0-9.]:%d", ip, &port) != 2 || port < 1 || port > 65535 ||
	    inet_pton(AF_INET, ip, &address->sin_addr) != 1)
		die(text, -EINVAL);
	address->sin_port = htons(port);
}

static void print_stats(struct datagrams *d)
{
	struct datagrams_stats stats;

	datagrams_stats(d, &stats);
	printf("%llu sent, %llu of them again, %llu delivered, %llu dropped; "
	       "%llu connections, %llu lost\n",
	       (unsigned long long)stats.sent, (unsigned long long)stats.again,
	       (unsigned long long)stats.delivered, (unsigned long long)stats.dropped,
	       (unsigned long long)stats.connections.up,
	       (unsigned long long)stats.connections.lost);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"messages", 1, NULL, 'm'}, {"kill", 1, NULL, 'k'}, {"seed", 1, NULL, 's'}, {0}};
	uint64_t messages = 1000, kill_every = 0, dice = getpid(), next_kill;
	struct pollfd input = {.events = POLLIN};
	bool done = false;
	struct datagrams *d;
	int option, ret;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'm': messages = strtoull(optarg, NULL, 0); break;
		case 'k': kill_every = strtoull(optarg, NULL, 0); break;
		case 's': dice = strtoull(optarg, NULL, 0); break;
		default: return 2;
		}
	self = optind < argc ? strtoul(argv[optind++], NULL, 0) : 0;
	for (; optind < argc && count < MAX_NODES; optind++)
		parse_address(argv[optind], &nodes[count++]);
	if (self >= count || count < 2)
		die("nodes", -EINVAL);
	dice = (dice + self) * 0x9e3779b97f4a7c15ull | 1;
	ret = datagrams_open(self, nodes, count, NULL, deliver, NULL, &d);
	if (ret)
		die("open", ret);
	next_kill = now_ms() + kill_every;
	while (poll(&input, 1, 0) == 0) {
		if (exchange(d, messages) && !done) {
			print_stats(d);
			puts("done");
			fflush(stdout);
			done = true;
		}
		ret = datagrams_run(d, 10);
		if (ret)
			die("run", ret);
		if (kill_every && !done && now_ms() >= next_kill) {
			kill_one(d, &dice);
			next_kill = now_ms() + next_random(&dice) % (2 * kill_every);
		}
	}
	datagrams_close(d);
	return 0;
}

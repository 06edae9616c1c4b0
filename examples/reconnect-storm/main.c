/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * reconnect-storm [OPTION]… GUID…
 *
 * A machine loses its link, and with it the connections to all its peers; then both ends of each
 * come back. The program plays all of them over one port, and measures what that costs the SA, and
 * how long it takes, without the cache, with it, and after a warm start. It fails if the cache
 * asked more than it may. In a simulated subnet of 1,024 hosts, with their links and OpenSM:
 *
 *	tests/apps/sacache-subnet 32 32 16 $PWD/tests/apps/sacache-storm \
 *		$PWD/build/examples/reconnect-storm --peers 1000 --rounds 10
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "storm.h"

static const char usage[] =
	"usage: reconnect-storm [OPTION]... GUID...	(hexadecimal; the last is the machine that "
	"is lost)\n"
	"       reconnect-storm --rdma-cm ADDRESS [OPTION]...\n"
	"\n"
	"	--peers N		of that machine; the first GUIDs (1000)\n"
	"	--rounds N		that the link is lost (10)\n"
	"	--seed N		of all that is random (from the system)\n"
	"	--backoff MIN-MAX	time before an end tries again, in ms (10-100)\n"
	"	--timeout MS		of a connection request (100)\n"
	"	--down MS		that the link stays down (300)\n"
	"	--device NAME		InfiniBand device to ask by (the first that is active)\n"
	"	--follow-sm		cache what the SM says (auto), else all (always)\n"
	"	--link-down COMMAND	takes the machine's link down, and\n"
	"	--link-up COMMAND	brings it up, and waits for the SM to have seen it\n"
	"	--opensm-console PORT	where OpenSM's console is on this machine, to count what "
	"it got\n"
	"	--limit N		measure also with an SA that takes N queries a second "
	"(1000; 0: do not)\n"
	"	--rdma-cm ADDRESS	real connections from and to this address, over rdma_cm; "
	"no SA\n";

double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

void die(const char *what, int status)
{
	fprintf(stderr, "reconnect-storm: %s: %s\n", what, strerror(-status));
	exit(1);
}

void set_reconnect(const struct options *options, struct sacache_reconnect_attr *attr)
{
	sacache_reconnect_attr_init(attr, sizeof(*attr));
	attr->backoff_min = options->backoff_min;
	attr->backoff_max = options->backoff_max;
	attr->timeout = options->timeout;
	attr->seed = options->seed;
}

/* MADs that the SA has received so far, by OpenSM's console; -1: not known. */
static int64_t received(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = port ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	struct timeval patience = {.tv_sec = 10};
	char line[256];
	int64_t count = -1;
	FILE *console;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    write(fd, "status\n", 7) != 7)
		die("OpenSM's console", -errno);
	console = fdopen(fd, "r");
	while (count < 0 && console && fgets(line, sizeof(line), console))
		if (strstr(line, " SA MADs rcvd") && strchr(line, ':'))
			count = strtoll(strchr(line, ':') + 1, NULL, 10);
	if (count < 0)
		die("OpenSM's console does not say what the SA received", -EPROTO);
	fclose(console);
	return count;
}

static uint64_t queries(struct sacache *cache)
{
	struct sacache_stats stats;

	sacache_stats(cache, &stats, sizeof(stats));
	return stats.query_miss + stats.query_off + stats.query_suspect + stats.query_changed;
}

/* One storm with a cache of its own, which is loaded from that file if it is there and saved to it.
 * */
static void storm(const struct options *options, const char *title, enum sacache_policy policy,
		  unsigned limit, const char *file, struct result *result)
{
	struct sacache_attr attr;
	struct sacache *cache;
	unsigned port;
	int64_t before;
	int ret;

	memset(result, 0, sizeof(*result));
	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = policy;
	attr.window = 64;
	attr.rate = limit;
	attr.seed = options->seed;
	/* A machine that moves is away for some seconds: no reason to doubt its addresses. */
	attr.suspect_backoff = 5000;
	ret = sacache_create(&attr, &cache);
	if (!ret)
		ret = sacache_port_open(cache, options->ca_name, 0, &port);
	if (ret)
		die("InfiniBand port", ret);
	if (file && !access(file, R_OK))
		ret = sacache_load(cache, file, NULL, 0);
	before = received(options->console);
	if (ret)
		die(file, ret);
	storm_simulated(options, cache, port, result);
	result->queries = queries(cache);
	result->received = before < 0 ? -1 : received(options->console) - before;
	if (file)
		ret = sacache_save(cache, file, NULL, 0);
	if (ret)
		die(file, ret);
	sacache_destroy(cache);
	printf("%-42s %8.3f %8.3f %8.3f %9llu %9llu", title, result->first,
	       options->rounds ? result->total / options->rounds : 0, result->longest,
	       (unsigned long long)result->attempts, (unsigned long long)result->queries);
	if (result->received >= 0)
		printf(" %9lld", (long long)result->received);
	printf("\n");
	fflush(stdout);
}

static int failures;

static void expect(bool met, const char *what)
{
	if (!met) {
		printf("NOT SO: %s\n", what);
		failures++;
	}
}

static void print_header(const struct options *options)
{
	printf("%u peers and the machine that is lost, %u rounds, seed %llu\n"
	       "backoff %u to %u ms, a request times out after %u ms, %u queries under way at "
	       "most\n",
	       options->peers, options->rounds, (unsigned long long)options->seed,
	       options->backoff_min, options->backoff_max, options->timeout, 64);
	printf("real: the queries, as MADs to the SA%s\n",
	       options->link_down ? "; the link that is lost" : "");
	printf("simulated: connection requests, each 0.2 to 1 ms under way%s\n",
	       options->link_down ? "" : "; the link that is lost");
	printf("\n%-42s %8s %8s %8s %9s %9s%s\n%-42s %8s %8s %8s %9s %9s%s\n", "", "first", "again",
	       "longest", "", "queries", options->console ? "    OpenSM" : "", "", "s", "s", "s",
	       "attempts", "sent", options->console ? "  received" : "");
}

static void storm_of_queries(const struct options *options, unsigned limit)
{
	enum sacache_policy caching = options->follow_sm ? SACACHE_AUTO : SACACHE_ALWAYS;
	struct result without, with, warm, slow_without, slow_with;
	char folder[] = "/tmp/reconnect-storm-XXXXXX", file[64], title[64];

	if (!mkdtemp(folder))
		die(folder, -errno);
	snprintf(file, sizeof(file), "%s/state", folder);
	print_header(options);
	storm(options, "without the cache", SACACHE_NEVER, 0, NULL, &without);
	storm(options, "with the cache", caching, 0, file, &with);
	storm(options, "with the cache, warm start", caching, 0, file, &warm);
	unlink(file);
	rmdir(folder);
	if (limit) {
		snprintf(title, sizeof(title), "without; SA limited to %u/s (simulated)", limit);
		storm(options, title, SACACHE_NEVER, limit, NULL, &slow_without);
		snprintf(title, sizeof(title), "with; SA limited to %u/s (simulated)", limit);
		storm(options, title, caching, limit, NULL, &slow_with);
		printf("\nwith the limit: %.1f times as fast with the cache\n",
		       slow_without.total / slow_with.total);
	}
	printf("queries for each initiator and DGID: %.2f without, %.2f with, %.2f after a warm "
	       "start\n",
	       without.queries / 2.0 / options->peers, with.queries / 2.0 / options->peers,
	       warm.queries / 2.0 / options->peers);
	expect(with.queries <= 2ull * options->peers, "one query for each initiator and DGID");
	expect(warm.queries == 0, "no query after a warm start");
	expect(without.queries > with.queries, "without the cache there are more queries");
	/* Each query is received once, or again if its answer was late. */
	expect(with.received < 0 || with.received >= (int64_t)with.queries, "OpenSM got them all");
	expect(warm.received <= 0, "OpenSM got none after a warm start");
}

static void storm_of_connections(const struct options *options)
{
	struct result result = {0};

	printf("%u peers and the machine that is lost, %u rounds, seed %llu\n"
	       "backoff %u to %u ms, a request times out after %u ms\n"
	       "real: connections over rdma_cm from and to %s\n"
	       "simulated: the link that is lost; none: queries\n",
	       options->peers, options->rounds, (unsigned long long)options->seed,
	       options->backoff_min, options->backoff_max, options->timeout, options->address);
	storm_real(options, &result);
	printf("first %.3f s, again %.3f s, longest %.3f s\n", result.first,
	       options->rounds ? result.total / options->rounds : 0, result.longest);
	printf("%llu requests, %llu accepted, %llu crossed, %llu timed out\n",
	       (unsigned long long)result.stats.requests, (unsigned long long)result.stats.accepted,
	       (unsigned long long)result.stats.crossed, (unsigned long long)result.stats.timeouts);
	expect(result.stats.up >= 2ull * options->peers * (options->rounds + 1),
	       "every end was connected in each round");
}

enum {
	PEERS = 256,
	ROUNDS,
	SEED,
	BACKOFF,
	TIMEOUT,
	DOWN,
	DEVICE,
	FOLLOW,
	LINK_DOWN,
	LINK_UP,
	CONSOLE,
	LIMIT,
	RDMA_CM,
	HELP
};

static const struct option long_options[] = {
	{"peers", 1, NULL, PEERS},
	{"rounds", 1, NULL, ROUNDS},
	{"seed", 1, NULL, SEED},
	{"backoff", 1, NULL, BACKOFF},
	{"timeout", 1, NULL, TIMEOUT},
	{"down", 1, NULL, DOWN},
	{"device", 1, NULL, DEVICE},
	{"follow-sm", 0, NULL, FOLLOW},
	{"link-down", 1, NULL, LINK_DOWN},
	{"link-up", 1, NULL, LINK_UP},
	{"opensm-console", 1, NULL, CONSOLE},
	{"limit", 1, NULL, LIMIT},
	{"rdma-cm", 1, NULL, RDMA_CM},
	{"help", 0, NULL, HELP},
	{0},
};

static void refuse(const char *what)
{
	fprintf(stderr, "reconnect-storm: %s; see --help\n", what);
	exit(2);
}

static void parse(int argc, char **argv, struct options *options, unsigned *limit)
{
	int option;

	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case PEERS: options->peers = strtoul(optarg, NULL, 0); break;
		case ROUNDS: options->rounds = strtoul(optarg, NULL, 0); break;
		case SEED: options->seed = strtoull(optarg, NULL, 0); break;
		case BACKOFF:
			if (sscanf(optarg, "%u-%u", &options->backoff_min, &options->backoff_max) !=
			    2)
				refuse("--backoff is MIN-MAX");
			break;
		case TIMEOUT: options->timeout = strtoul(optarg, NULL, 0); break;
		case DOWN: options->down = strtoul(optarg, NULL, 0); break;
		case DEVICE: options->ca_name = optarg; break;
		case FOLLOW: options->follow_sm = true; break;
		case LINK_DOWN: options->link_down = optarg; break;
		case LINK_UP: options->link_up = optarg; break;
		case CONSOLE: options->console = atoi(optarg); break;
		case LIMIT: *limit = strtoul(optarg, NULL, 0); break;
		case RDMA_CM: options->address = optarg; break;
		case HELP: fputs(usage, stdout); exit(0);
		default: refuse("no such option");
		}
	}
	options->ngids = argc - optind;
	options->gids = calloc(options->ngids + 1, 16);
	if (!options->gids)
		die("GUIDs", -ENOMEM);
	for (unsigned i = 0; i < options->ngids; i++) {
		uint64_t guid = htobe64(strtoull(argv[optind + i], NULL, 16));

		options->gids[i][0] = 0xfe;
		options->gids[i][1] = 0x80;
		memcpy(options->gids[i] + 8, &guid, 8);
	}
	if (!options->peers || options->peers > 100000)
		refuse("--peers is out of range");
	if (!options->address && options->ngids <= options->peers)
		refuse("there have to be more GUIDs than peers");
}

int main(int argc, char **argv)
{
	struct options options = {
		.peers = 1000,
		.rounds = 10,
		.backoff_min = 10,
		.backoff_max = 100,
		.timeout = 100,
		.down = 300,
		.seed = (uint64_t)time(NULL) << 16 ^ getpid(),
	};
	unsigned limit = 1000;

	parse(argc, argv, &options, &limit);
	if (options.address)
		storm_of_connections(&options);
	else
		storm_of_queries(&options, limit);
	free(options.gids);
	return failures != 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A crowd of peers of one guest, which lose it while it moves and look for it again: lidtrack-peers
 * GUID COMMAND…
 *
 * Each peer has a path record of its own (they ask for different services), kept by libsacache. A
 * peer is connected when a node answers at the record's LID that has the guest's GUID
 * (SubnGet(NodeInfo), by LID). When all are, COMMAND is run, which moves the guest; all connections
 * are taken for lost at that moment, and each peer connects again: by its record, if libsacache
 * still has it, else after a question to the SA. If COMMAND prints another GUID ("0x…") in its last
 * line, the guest has that one from then on.
 *
 * One thread. Prints how many questions the SA was asked before and after, and how long it took.
 */
#include <endian.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/umad.h>

#include <sacache/sacache.h>

#define MAD_SIZE   256
#define TIMEOUT_MS 50

static struct {
	unsigned peers;
	unsigned rate; /* questions a second that the SA takes; 0: all */
	enum sacache_policy policy;
	bool csv;
} options = {.peers = 1000, .policy = SACACHE_ALWAYS};

static struct sacache *cache;
static unsigned cache_port;
static int umad_fd, umad_agent;
static uint8_t prefix[8];

__attribute__((noreturn)) static void die(const char *what, int error)
{
	fprintf(stderr, "lidtrack-peers: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* ---- the subnet ---- */

static void open_all(void)
{
	struct sacache_attr attr;
	umad_port_t port;
	int ret;

	sacache_attr_init(&attr);
	attr.policy = options.policy;
	attr.rate = options.rate;
	attr.window = 64;
	ret = sacache_create(&attr, &cache);
	if (!ret)
		ret = sacache_port_open(cache, NULL, 0, &cache_port);
	if (ret)
		die("InfiniBand port", ret);
	umad_fd = umad_open_port(NULL, 0);
	umad_agent = umad_fd < 0 ? -1 : umad_register(umad_fd, 1, 1, 0, NULL);
	if (umad_agent < 0 || umad_get_port(NULL, 0, &port))
		die("umad", EIO);
	memcpy(prefix, &port.gid_prefix, 8);
	umad_release_port(&port);
}

/* The GUID of the port at a LID, or 0. */
static uint64_t guid_at(uint16_t lid)
{
	_Alignas(8) uint8_t umad[MAD_SIZE + 64] = {0};
	uint8_t *mad = umad_get_mad(umad);
	int length = MAD_SIZE;
	uint64_t guid;

	mad[0] = mad[1] = mad[2] = mad[3] = 1;
	mad[17] = 0x11;
	umad_set_addr(umad, lid, 0, 0, 0);
	if (umad_send(umad_fd, umad_agent, umad, MAD_SIZE, TIMEOUT_MS, 0) < 0 ||
	    umad_recv(umad_fd, umad, &length, -1) < 0 || umad_status(umad))
		return 0;
	memcpy(&guid, mad + 64 + 20, 8);
	return be64toh(guid);
}

/* ---- peers ---- */

static void key_of(struct sacache_key *key, unsigned peer, uint64_t guid)
{
	uint64_t wire = htobe64(guid);

	memset(key, 0, sizeof(*key));
	memcpy(key->dgid, prefix, 8);
	memcpy(key->dgid + 8, &wire, 8);
	key->service_id = 0x1000000000ull + peer;
	key->port = cache_port;
	key->mask = SACACHE_DGID | SACACHE_SERVICE_ID;
}

static bool connect_peer(unsigned peer, uint64_t guid)
{
	struct sacache_path path;
	struct sacache_key key;

	key_of(&key, peer, guid);
	if (sacache_resolve(cache, &key, &path, -1))
		return false;
	if (guid_at(path.dlid) == guid)
		return true;
	sacache_failed(cache, &key);
	return false;
}

/* Until all are; how many tries failed. */
static unsigned connect_all(uint64_t guid)
{
	unsigned failed = 0;
	double began = now();

	for (unsigned i = 0; i < options.peers; i++)
		while (!connect_peer(i, guid)) {
			failed++;
			if (now() - began > 300)
				die("not all are connected after 300 s", ETIMEDOUT);
			usleep(5000);
		}
	return failed;
}

static uint64_t asked(void)
{
	struct sacache_stats s;

	sacache_stats(cache, &s, sizeof(s));
	return s.query_miss + s.query_off + s.query_suspect + s.query_changed;
}

/* The GUID that the command names last, or the one before. */
static uint64_t run_command(char **words, uint64_t guid)
{
	char command[4096] = "", line[256];
	size_t len = 0;
	FILE *f;

	for (; *words && len < sizeof(command); words++)
		len += snprintf(command + len, sizeof(command) - len, "%s ", *words);
	f = popen(command, "r");
	if (!f)
		die(command, errno);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "0x", 2))
			guid = strtoull(line, NULL, 16);
		else if (!options.csv)
			printf("  %s", line);
	}
	if (pclose(f))
		die(command, EIO);
	return guid;
}

static void run(uint64_t guid, char **command)
{
	double began = now(), moved, back;
	uint64_t before, after;
	unsigned failed;

	failed = connect_all(guid);
	before = asked();
	if (!options.csv)
		printf("%u peers connected in %.3f s, %llu questions to the SA\n", options.peers,
		       now() - began, (unsigned long long)before);
	began = now();
	guid = run_command(command, guid);
	moved = now();
	failed = connect_all(guid);
	back = now();
	after = asked();
	if (options.csv)
		printf("%u,%llu,%llu,%.4f,%.4f,%u\n", options.peers, (unsigned long long)before,
		       (unsigned long long)(after - before), moved - began, back - moved, failed);
	else
		printf("the guest moved in %.3f s; all peers back %.3f s later, %llu questions to "
		       "the SA\n",
		       moved - began, back - moved, (unsigned long long)(after - before));
}

static int usage(void)
{
	fputs("usage: lidtrack-peers [--peers N] [--rate N] [--never] [--csv] GUID COMMAND...\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option known[] = {{"peers", 1, NULL, 'p'}, {"rate", 1, NULL, 'r'},
					      {"never", 0, NULL, 'n'}, {"csv", 0, NULL, 'c'},
					      {"help", 0, NULL, 'h'},  {}};
	int c;

	while ((c = getopt_long(argc, argv, "+", known, NULL)) != -1) {
		switch (c) {
		case 'p': options.peers = atoi(optarg); break;
		case 'r': options.rate = atoi(optarg); break;
		case 'n': options.policy = SACACHE_NEVER; break;
		case 'c': options.csv = true; break;
		default: return usage();
		}
	}
	if (argc - optind < 2 || options.peers > 1000000)
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_all();
	run(strtoull(argv[optind], NULL, 16), argv + optind + 1);
	sacache_destroy(cache);
	umad_close_port(umad_fd);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that uses libsacache in a subnet: asks for the paths between all hosts, and again from
 * the cache.
 *
 *	sacache_subnet POLICY GUID…	(hexadecimal, without 0x; prefix fe80::)
 *
 * POLICY is "always"; "auto", where the SM raises no reserved field; or "raised", which is auto
 * where it does.
 *
 * It prints a line for each pair: both GIDs, LIDs, SL, MTU, rate, P_Key as the table has them, then
 * how long a query and a hit took. It fails if a second round asks the SA more than the policy lets
 * it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libsacache/sacache.h"

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

static struct sacache *cache;
static unsigned port, hosts;
static uint64_t guids[1024];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_came = PTHREAD_COND_INITIALIZER;
static unsigned waiting, failed;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void set_gid(uint64_t guid, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		gid[8 + i] = guid >> (56 - 8 * i);
}

static struct sacache_key pair(unsigned from, unsigned to)
{
	struct sacache_key key = {.mask = SACACHE_DGID | SACACHE_SGID, .port = port};

	set_gid(guids[from], key.sgid);
	set_gid(guids[to], key.dgid);
	return key;
}

static void came(void *arg, int status, const struct sacache_path *path)
{
	pthread_mutex_lock(&lock);
	failed += status != 0;
	if (!--waiting)
		pthread_cond_signal(&all_came);
	pthread_mutex_unlock(&lock);
}

/* Everyone asks for everyone, twice at the same time. */
static void ask_all(void)
{
	for (unsigned i = 0; i < 2 * hosts * hosts; i++) {
		struct sacache_key key = pair(i / 2 / hosts, i / 2 % hosts);
		struct sacache_path path;
		int ret;

		pthread_mutex_lock(&lock);
		waiting++;
		pthread_mutex_unlock(&lock);
		ret = sacache_query(cache, &key, &path, came, NULL);
		if (ret != -EINPROGRESS) {
			CHECK(!ret);
			came(NULL, 0, &path);
		}
	}
	pthread_mutex_lock(&lock);
	while (waiting)
		pthread_cond_wait(&all_came, &lock);
	pthread_mutex_unlock(&lock);
	CHECK(!failed);
}

static uint64_t queries(void)
{
	struct sacache_stats stats;

	sacache_stats(cache, &stats, sizeof(stats));
	return stats.query_miss + stats.query_off + stats.query_suspect + stats.query_changed;
}

static void print_gid(const uint8_t gid[16])
{
	for (unsigned i = 0; i < 16; i += 2)
		printf("%02x%02x%s", gid[i], gid[i + 1], i < 14 ? ":" : " ");
}

static void print_all(void)
{
	for (unsigned i = 0; i < hosts * hosts; i++) {
		struct sacache_key key = pair(i / hosts, i % hosts);
		struct sacache_path path;

		CHECK(!sacache_resolve(cache, &key, &path, 5000));
		print_gid(path.sgid);
		print_gid(path.dgid);
		printf("%u %u %u %u %u 0x%x\n", path.slid, path.dlid, path.sl, path.mtu, path.rate,
		       path.pkey);
	}
}

/* One after another, so that nothing is under way at the same time. */
static void measure(void)
{
	enum { HITS = 1000000 };
	unsigned asked = 0;
	double begin;

	sacache_flush(cache, NULL, 0);
	begin = seconds();
	for (unsigned to = 0; to < hosts; to++, asked++) {
		struct sacache_key key = pair(0, to);
		struct sacache_path path;

		CHECK(!sacache_resolve(cache, &key, &path, -1));
	}
	printf("# query: %.1f us\n", (seconds() - begin) / asked * 1e6);
	begin = seconds();
	for (unsigned i = 0; i < HITS; i++) {
		struct sacache_key key = pair(0, i % hosts);
		struct sacache_path path;

		CHECK(!sacache_lookup(cache, &key, &path));
	}
	printf("# hit: %.1f ns\n", (seconds() - begin) / HITS * 1e9);
}

/* What the SA does not know, by GID and by LID. */
static void ask_for_nobody(void)
{
	struct sacache_key key = pair(0, 0);
	struct sacache_path path;
	uint64_t before;

	key.dgid[15] ^= 0x80;
	key.dgid[8] = 0x77;
	CHECK(sacache_resolve(cache, &key, &path, -1) == -EHOSTUNREACH);
	before = queries();
	CHECK(sacache_lookup(cache, &key, &path) == -EHOSTUNREACH);
	CHECK(sacache_resolve(cache, &key, &path, -1) == -EHOSTUNREACH);
	CHECK(queries() == before);
}

/* By LIDs the SA says the same as by GIDs. */
static void ask_by_lid(void)
{
	for (unsigned to = 0; to < hosts; to++) {
		struct sacache_key key = pair(0, to);
		struct sacache_path by_gid, by_lid;

		CHECK(!sacache_resolve(cache, &key, &by_gid, -1));
		key = (struct sacache_key){.mask = SACACHE_SLID | SACACHE_DLID,
					   .slid = by_gid.slid,
					   .dlid = by_gid.dlid,
					   .port = port};
		CHECK(!sacache_resolve(cache, &key, &by_lid, -1));
		CHECK(!memcmp(by_gid.dgid, by_lid.dgid, 16));
		CHECK(by_gid.sl == by_lid.sl && by_gid.mtu == by_lid.mtu);
	}
}

int main(int argc, char **argv)
{
	struct sacache_attr attr;
	struct sacache_stats stats;
	bool always, raised;
	int ret;

	CHECK(argc > 2);
	raised = !strcmp(argv[1], "raised");
	always = raised || !strcmp(argv[1], "always");
	for (int i = 2; i < argc && hosts < 1024; i++)
		guids[hosts++] = strtoull(argv[i], NULL, 16);
	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = always && !raised ? SACACHE_ALWAYS : SACACHE_AUTO;
	attr.negative = 60000;
	CHECK(!sacache_create(&attr, &cache));
	ret = sacache_port_open(cache, NULL, 0, &port);
	if (ret) {
		fprintf(stderr, "port: %s\n", strerror(-ret));
		return 1;
	}
	ask_all();
	if (always) {
		/* One query for each pair, however many asked at the same time. */
		CHECK(queries() == (uint64_t)hosts * hosts);
		ask_all();
		CHECK(queries() == (uint64_t)hosts * hosts);
		ask_for_nobody();
		ask_by_lid();
		print_all();
		measure();
	} else {
		/* An SM that does not raise the field: nothing is cached. */
		sacache_stats(cache, &stats, sizeof(stats));
		CHECK(stats.entries == 0 && !sacache_caching(cache, port));
		CHECK(queries() + stats.coalesced == 2ull * hosts * hosts);
		CHECK(stats.not_stored == queries());
	}
	sacache_stats(cache, &stats, sizeof(stats));
	printf("# sent %llu, retried %llu, strays %llu, malformed %llu\n",
	       (unsigned long long)stats.sent, (unsigned long long)stats.retried,
	       (unsigned long long)stats.strays, (unsigned long long)stats.malformed);
	CHECK(!sacache_port_close(cache, port));
	sacache_destroy(cache);
	return 0;
}

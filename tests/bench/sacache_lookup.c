/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How long a lookup that hits takes in a table of so many entries, in ns; one thread:
 *
 *	sacache_lookup hit [ENTRIES]		and the bytes that the table takes for an entry
 *	sacache_lookup threads [ENTRIES]	lookups a second by one thread, then by two beside a writer
 *						that changes 1,000 entries a second
 *
 * The keys are the method's (a DGID, all else wild) in an order that no prefetcher knows; making
 * one is part of the time. With "hit" the lookups are measured twice: when the next key is known
 * beforehand, and when it is known only after the one before was found.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sacache/sacache.h>

#include "measure.h"

enum { ROUNDS = 20, SECONDS = 1 };

static struct sacache *cache;
static unsigned entries = 49151;

/* A GUID as vendors give them: a prefix, and numbers that follow one another. */
static const struct sacache_key any_key = {
	.mask = SACACHE_DGID,
	.dgid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x24, 0x8a, 0x07, 0x03},
};

static inline void set_number(uint8_t dgid[16], uint32_t n)
{
	n = htonl(n);
	memcpy(dgid + 12, &n, 4);
}

/* Every number below entries once, until it comes back to where it began. */
static inline unsigned next(unsigned n)
{
	n += 30011; /* a prime */
	return n >= entries ? n - entries : n;
}

static struct sacache_path path_of(unsigned n, unsigned version)
{
	struct sacache_path path = {.dlid = n % 0xbfff + 1, .slid = 1, .pkey = 0xffff};

	path.mtu = 4 + version % 2;
	memcpy(path.dgid, any_key.dgid, 16);
	set_number(path.dgid, n);
	return path;
}

static void fill(void)
{
	struct sacache_attr attr;

	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = SACACHE_ALWAYS;
	if (sacache_create(&attr, &cache))
		exit(1);
	for (unsigned i = 0; i < entries; i++) {
		struct sacache_path path = path_of(i, 0);
		struct sacache_key key = any_key;

		set_number(key.dgid, i);
		if (sacache_store(cache, &key, &path))
			exit(1);
	}
}

/* Nanoseconds a lookup; depend: the next key is computed from the answer. */
static double measure(bool depend)
{
	struct sacache_key key = any_key;
	struct sacache_path path = {0};
	unsigned missed = 0, wrong = 0, at = 0;
	double begin = now_s();

	for (unsigned i = 0; i < ROUNDS * entries; i++) {
		at = next(at + (depend ? path.slid >> 8 : 0));
		set_number(key.dgid, at);
		missed += sacache_lookup(cache, &key, &path) != 0;
		wrong += path.dgid[15] != key.dgid[15];
	}
	begin = now_s() - begin;
	if (missed || wrong) {
		fprintf(stderr, "%u not found, %u wrong\n", missed, wrong);
		exit(1);
	}
	return begin / ROUNDS / entries * 1e9;
}

static _Atomic bool begun, ended;

static void *look(void *arg)
{
	double *rate = arg, begin;
	struct sacache_key key = any_key;
	struct sacache_path path;
	uint64_t lookups = 0;
	unsigned missed = 0, at = 0;

	while (!atomic_load(&begun))
		;
	begin = now_s();
	while (!atomic_load_explicit(&ended, memory_order_relaxed))
		for (unsigned i = 0; i < 1000; i++, lookups++) {
			at = next(at);
			set_number(key.dgid, at);
			missed += sacache_lookup(cache, &key, &path) != 0;
		}
	*rate = lookups / (now_s() - begin);
	if (missed) {
		fprintf(stderr, "%u not found\n", missed);
		exit(1);
	}
	return NULL;
}

static void *change(void *arg)
{
	struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned i = 0; !atomic_load(&ended); i++) {
		struct sacache_path path = path_of(i % entries, i / entries + 1);
		struct sacache_key key = any_key;

		set_number(key.dgid, i % entries);
		if (sacache_store(cache, &key, &path))
			exit(1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static double lookups(unsigned threads, bool writer)
{
	struct timespec time = {.tv_sec = SECONDS};
	pthread_t readers[2], writing;
	double rate[2] = {0};

	atomic_store(&begun, false);
	atomic_store(&ended, false);
	for (unsigned i = 0; i < threads; i++)
		pthread_create(&readers[i], NULL, look, &rate[i]);
	if (writer)
		pthread_create(&writing, NULL, change, NULL);
	atomic_store(&begun, true);
	nanosleep(&time, NULL);
	atomic_store(&ended, true);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(readers[i], NULL);
	if (writer)
		pthread_join(writing, NULL);
	return rate[0] + rate[1];
}

int main(int argc, char **argv)
{
	struct sacache_stats stats;

	if (argc > 2)
		entries = atoi(argv[2]);
	if (argc < 2 || entries < 30011)
		return 2;
	fill();
	measure(false);
	if (!strcmp(argv[1], "threads")) {
		double alone = lookups(1, false);

		printf("%.0f %.0f\n", alone, lookups(2, true));
		return 0;
	}
	sacache_stats(cache, &stats, sizeof(stats));
	printf("%.1f %.1f %.1f\n", measure(false), measure(true),
	       (double)stats.bytes / stats.entries);
	sacache_destroy(cache);
	return 0;
}

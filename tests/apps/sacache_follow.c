/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that uses libsacache while its subnet changes, told what to do by lines on its input:
 *
 *	sacache_follow POLICY NOTICES	policy and sacache_attr.notices
 *	resolve GUID…	resolves the paths between all of these (hexadecimal; prefix fe80::)
 *	reach GUID…	resolves those from the port to all of these
 *	fail GUID	connections to it were lost, as far as the table knows paths
 *	works GUID	they work
 *	list		a line for each record in the table: both GIDs, LIDs, SL, MTU, rate, P_Key, then
 *			"ok", "stale" or "failure" by what a lookup says, then "suspect" or "-"
 *	counters	a line for each counter of sacache_stats(): name, value
 *	save FILE	as a program does that is to go on elsewhere
 *	resume FILE	loads that, of a port that was away: what a guest has whose adapter has moved
 *	await NAME N	waits until that counter is N at least
 *	end		ends the program, as the end of its input does
 *
 * Each command ends with a line "done", or "failed" and why.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libsacache/sacache.h"

enum { MOST_HOSTS = 64 };

static struct sacache *cache;
static unsigned port;

#define COUNTER(name)                                       \
	{                                                   \
#name, offsetof(struct sacache_stats, name) \
	}
static const struct {
	const char *name;
	size_t offset;
} counters[] = {
	COUNTER(entries),	   COUNTER(hits),
	COUNTER(query_miss),	   COUNTER(query_off),
	COUNTER(query_suspect),	   COUNTER(query_changed),
	COUNTER(stored),	   COUNTER(not_stored),
	COUNTER(confirmed),	   COUNTER(changed),
	COUNTER(failures_counted), COUNTER(sent),
	COUNTER(retried),	   COUNTER(timeouts),
	COUNTER(malformed),	   COUNTER(foreign),
	COUNTER(notices_gid_in),   COUNTER(notices_gid_out),
	COUNTER(notices_link),	   COUNTER(notices_other),
	COUNTER(notices_repeated), COUNTER(notices_malformed),
	COUNTER(notices_forged),   COUNTER(subscribed),
	COUNTER(refused),	   COUNTER(sm_restarts),
	COUNTER(sm_changes),	   COUNTER(lid_changes),
	COUNTER(query_table),	   COUNTER(reregisters),
};

static uint64_t counter(unsigned i)
{
	struct sacache_stats stats;
	uint64_t value;

	sacache_stats(cache, &stats, sizeof(stats));
	memcpy(&value, (char *)&stats + counters[i].offset, sizeof(value));
	return value;
}

static void print_counters(void)
{
	for (unsigned i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		printf("%s %llu\n", counters[i].name, (unsigned long long)counter(i));
	puts("done");
}

static void await(const char *name, uint64_t least)
{
	unsigned i = 0;

	while (i < sizeof(counters) / sizeof(counters[0]) && strcmp(counters[i].name, name) != 0)
		i++;
	if (i == sizeof(counters) / sizeof(counters[0])) {
		printf("failed: no counter %s\n", name);
		return;
	}
	for (unsigned tries = 0; counter(i) < least && tries < 2000; tries++)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	if (counter(i) < least)
		printf("failed: %s is %llu\n", name, (unsigned long long)counter(i));
	else
		puts("done");
}

static void set_gid(const char *guid, uint8_t gid[16])
{
	uint64_t value = strtoull(guid, NULL, 16);

	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	for (unsigned i = 0; i < 8; i++)
		gid[8 + i] = value >> (56 - 8 * i);
}

static void resolve(void)
{
	const char *guids[MOST_HOSTS], *guid;
	unsigned hosts = 0;

	while (hosts < MOST_HOSTS && (guid = strtok(NULL, " ")))
		guids[hosts++] = guid;
	for (unsigned i = 0; i < hosts * hosts; i++) {
		struct sacache_key key = {.mask = SACACHE_DGID | SACACHE_SGID, .port = port};
		struct sacache_path path;
		int ret;

		set_gid(guids[i / hosts], key.sgid);
		set_gid(guids[i % hosts], key.dgid);
		ret = sacache_resolve(cache, &key, &path, -1);
		if (ret) {
			printf("failed: %s to %s: %s\n", guids[i / hosts], guids[i % hosts],
			       strerror(-ret));
			return;
		}
	}
	puts("done");
}

static void reach(void)
{
	const char *guid;

	while ((guid = strtok(NULL, " "))) {
		struct sacache_key key = {.mask = SACACHE_DGID, .port = port};
		struct sacache_path path;
		int ret;

		set_gid(guid, key.dgid);
		ret = sacache_resolve(cache, &key, &path, -1);
		if (ret) {
			printf("failed: %s: %s\n", guid, strerror(-ret));
			return;
		}
	}
	puts("done");
}

static void save_or_resume(const char *file, bool save)
{
	int ret = save ? sacache_save(cache, file, NULL, 0) : sacache_load(cache, file, NULL, 0);

	if (!ret && !save)
		ret = sacache_event(cache, port, SACACHE_REREGISTER, NULL);
	if (ret)
		printf("failed: %s\n", strerror(-ret));
	else
		puts("done");
}

/* Collected, as the walk must not be interrupted by calls. */
struct record {
	struct sacache_key key;
	struct sacache_path path;
	unsigned flags;
};
struct list {
	struct record *records;
	size_t count;
};

static int collect(void *arg, const struct sacache_key *key, const struct sacache_path *path,
		   unsigned flags)
{
	struct list *list = arg;

	list->records[list->count++] = (struct record){*key, *path, flags};
	return 0;
}

static struct list all_records(void)
{
	struct sacache_stats stats;
	struct list list = {0};

	sacache_stats(cache, &stats, sizeof(stats));
	list.records = calloc(stats.entries + 1, sizeof(*list.records));
	if (list.records)
		sacache_walk(cache, collect, &list);
	return list;
}

/* change is sacache_failed() or sacache_connected(). */
static void all_paths_to(const char *guid,
			 int (*change)(struct sacache *cache, const struct sacache_key *key))
{
	struct list list = all_records();
	uint8_t gid[16];

	set_gid(guid, gid);
	for (size_t i = 0; i < list.count; i++)
		if (!memcmp(list.records[i].key.dgid, gid, 16))
			change(cache, &list.records[i].key);
	free(list.records);
	puts("done");
}

static void print_gid(const uint8_t gid[16])
{
	for (unsigned i = 0; i < 16; i += 2)
		printf("%02x%02x%s", gid[i], gid[i + 1], i < 14 ? ":" : " ");
}

static void print_all(void)
{
	struct list list = all_records();

	for (size_t i = 0; i < list.count; i++) {
		const struct record *record = &list.records[i];
		struct sacache_path path;
		int ret = sacache_lookup(cache, &record->key, &path);

		print_gid(record->key.sgid);
		print_gid(record->key.dgid);
		printf("%u %u %u %u %u 0x%x %s %s\n", record->path.slid, record->path.dlid,
		       record->path.sl, record->path.mtu, record->path.rate, record->path.pkey,
		       !ret		? "ok"
		       : ret == -ESTALE ? "stale"
					: "failure",
		       record->flags & SACACHE_SUSPECT ? "suspect" : "-");
	}
	free(list.records);
	puts("done");
}

int main(int argc, char **argv)
{
	static char line[4096];
	struct sacache_attr attr;
	int ret;

	if (argc != 3)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = strcmp(argv[1], "auto") ? SACACHE_ALWAYS : SACACHE_AUTO;
	attr.notices = atoi(argv[2]);
	attr.response_timeout = 200;
	ret = sacache_create(&attr, &cache);
	if (!ret)
		ret = sacache_port_open(cache, NULL, 0, &port);
	if (ret) {
		fprintf(stderr, "port: %s\n", strerror(-ret));
		return 1;
	}
	while (fgets(line, sizeof(line), stdin)) {
		const char *command, *word;

		line[strcspn(line, "\n")] = 0;
		command = strtok(line, " ");
		if (!command)
			continue;
		if (!strcmp(command, "end"))
			break;
		if (!strcmp(command, "resolve")) {
			resolve();
		} else if (!strcmp(command, "reach")) {
			reach();
		} else if (!strcmp(command, "fail") && (word = strtok(NULL, " "))) {
			all_paths_to(word, sacache_failed);
		} else if (!strcmp(command, "works") && (word = strtok(NULL, " "))) {
			all_paths_to(word, sacache_connected);
		} else if (!strcmp(command, "list")) {
			print_all();
		} else if (!strcmp(command, "counters")) {
			print_counters();
		} else if ((!strcmp(command, "save") || !strcmp(command, "resume")) &&
			   (word = strtok(NULL, " "))) {
			save_or_resume(word, !strcmp(command, "save"));
		} else if (!strcmp(command, "await") && (word = strtok(NULL, " "))) {
			const char *number = strtok(NULL, " ");

			await(word, number ? strtoull(number, NULL, 10) : 0);
		} else {
			printf("failed: no command %s\n", command);
		}
	}
	sacache_destroy(cache);
	return 0;
}

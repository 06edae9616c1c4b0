/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for what libsacache reads from files: the first byte says what the rest is.
 *
 *	0	a state file, as it is
 *	1	one whose checksums are made right, and its length if the counts are small
 *	2	OpenSM's dump of paths
 *
 * Whatever is believed must be such that it can be looked up, saved again and loaded with the same
 * result.
 */
#include <errno.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsacache/import.h"
#include "libsacache/state.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

/* Takes over what sa_state_apply() put in: each can be looked up, as it answers its own key. */
static int look_up(void *arg, const struct sacache_key *key, const struct sacache_path *path,
		   unsigned flags)
{
	uint8_t record[SA_RECORD_SIZE];
	struct sacache_key exact;

	sa_record_encode(path, record);
	CHECK(!sa_key_normalize(key, &exact) && !memcmp(key, &exact, sizeof(exact)));
	CHECK(sa_record_answers(record, &exact));
	CHECK(key->port == 3 && !(flags & SACACHE_NEGATIVE));
	(*(uint64_t *)arg)++;
	return 0;
}

static void believed(const struct sa_state *state)
{
	struct sa_port_identity here[SACACHE_MAX_PORTS] = {0};
	struct sacache_state report = {0};
	struct sacache_attr attr;
	struct sacache *cache;
	uint64_t found = 0;

	CHECK(state->ports >= 1 && state->ports <= SACACHE_MAX_PORTS);
	sacache_attr_init(&attr, sizeof(attr));
	attr.max_entries = 64;
	attr.seed = 1;
	CHECK(!sacache_create(&attr, &cache));
	here[3] = state->port[0].identity;
	CHECK(!sa_state_apply(cache, state, here, 1 << 3, &report));
	CHECK(report.records + report.skipped == state->entries);
	CHECK(report.ask_again <= report.records);
	sacache_walk(cache, look_up, &found);
	CHECK(found <= report.records && found <= attr.max_entries);
	/* Of ports that are not here nothing is taken, and the file is good for when they are. */
	memset(&report, 0, sizeof(report));
	CHECK(!sa_state_apply(cache, state, here, 0, &report));
	CHECK(!report.records && report.skipped == state->entries);
	sacache_destroy(cache);
}

static void read_state(const uint8_t *data, size_t length)
{
	uint8_t *copy = malloc(length + 1); /* its end is guarded */
	struct sa_state state;

	CHECK(copy);
	memcpy(copy, data, length);
	if (!sa_state_parse(&state, copy, length))
		believed(&state);
	free(copy);
}

static void put32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = v >> (24 - 8 * i);
}

static void seal(uint8_t *data, size_t length)
{
	size_t behind = length - SA_STATE_HEADER;

	memcpy(data, "sacache\n", 8);
	put32(data + 8, 1);
	if (data[15] % 8 && behind >= data[15] % 8 * SA_STATE_PORT) {
		put32(data + 12, data[15] % 8);
		put32(data + 16, 0);
		put32(data + 20, (behind - data[15] % 8 * SA_STATE_PORT) / SA_STATE_ENTRY);
	}
	put32(data + 32, ~crc32_iscsi(data + SA_STATE_HEADER, (int)behind, ~0u));
	put32(data + 36, ~crc32_iscsi(data, 36, ~0u));
}

static void read_sealed(const uint8_t *data, size_t length)
{
	uint8_t *copy = malloc(length + 1);

	CHECK(copy);
	memcpy(copy, data, length);
	if (length > SA_STATE_HEADER)
		seal(copy, length);
	read_state(copy, length);
	free(copy);
}

static void read_dump(const uint8_t *data, size_t length)
{
	FILE *file = length ? fmemopen((void *)data, length, "r") : NULL;
	const char *problem = NULL;
	struct sa_dump *dump;
	unsigned line = 0;
	int ret;

	if (!file)
		return;
	ret = sa_dump_parse(file, 0x2c90300000001, &dump, &line, &problem);
	fclose(file);
	CHECK(ret == 0 || ret == -EINVAL);
	CHECK((ret == -EINVAL) == (problem != NULL) && line > 0);
	if (ret)
		return;
	CHECK(dump->paths <= SA_UNICAST_LIDS && (dump->lid || !dump->paths));
	for (uint32_t i = 0; i < dump->paths; i++) {
		const struct sa_dump_path *path = &dump->path[i];

		CHECK(path->dlid && path->dlid < SA_UNICAST_LIDS && path->sl < 16 && path->mtu &&
		      path->mtu < 64 && path->rate && path->rate < 64);
	}
	free(dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (*data % 3) {
	case 0: read_state(data + 1, size - 1); break;
	case 1: read_sealed(data + 1, size - 1); break;
	case 2: read_dump(data + 1, size - 1); break;
	}
	return 0;
}

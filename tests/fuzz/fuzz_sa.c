/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for the SA client, the subscription to notices and the parsers of libsacache:
 * any MADs, well formed or not, into a client with queries under way, with a clock of the fuzzer's;
 * hosts files and netlink messages; and what the library for opensm does to a MAD.
 *
 * An input is a list of commands, a byte each and what it needs behind it:
 *
 *	0	the rest is a hosts file	1	the rest is netlink messages
 *	2	ask for GID n (bit 7: a table)	3	time passes, 16 ms times n
 *	4	a MAD of the 64 bytes that follow, as they are
 *	5	an answer to slot n with the right transaction: method, status, then 8 bytes of the record
 *	6	a segment to slot n: flags, segment, payload length, attribute offset
 *	7	all is cancelled
 *	8	a report: from the SA or not, trap, transaction, 4 bytes of the notice and where they go
 *	9	an answer to subscription n or, from 4 on, about the SM: status, 6 bytes of its data
 *	10	the port: 0 wants to subscribe, 1 doubts the SA, 2 stops
 *	11	the rest is a MAD that opensm sends
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libsacache/client.h"
#include "libsacache/hosts.h"
#include "libsacache/notice.h"
#include "libsacache/opensm/raise.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static const uint8_t *in;
static size_t left;
static struct sa_client client;
static struct sa_notices notices;
static unsigned responses;
static uint64_t now;
static unsigned submitted, ended;

static uint8_t next(void)
{
	if (!left)
		return 0;
	left--;
	return *in++;
}

static void fuzz_send(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout)
{
	struct sa_mad decoded;

	CHECK(!sa_mad_decode(mad, SA_MAD_SIZE, &decoded));
	CHECK(!(decoded.method & 0x80) && decoded.attribute == SA_ATTR_PATH_RECORD);
}

/* Only what answers the question, and no more records than the limit; all of them can be read. */
static void fuzz_done(void *ctx, struct sa_query *query, int status, const uint8_t *records,
		      size_t count, size_t stride)
{
	struct sacache_path path;

	ended++;
	CHECK(status <= 0);
	if (status)
		return;
	CHECK(count && (query->table || count == 1) && stride >= SA_RECORD_SIZE);
	for (size_t i = 0; i < count; i++)
		sa_record_decode(records + i * stride, &path);
	if (!query->table)
		CHECK(sa_record_answers(records, &query->key));
}

static void fuzz_count(void *ctx, enum sa_count what)
{
	CHECK(what < SA_COUNTERS);
}

static const struct sa_client_ops ops = {fuzz_send, fuzz_done, fuzz_count};

static void notices_send(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout)
{
	struct sa_mad decoded;

	CHECK(!sa_mad_decode(mad, SA_MAD_SIZE, &decoded));
	responses += decoded.method == SA_REPORT_RESP;
	CHECK(decoded.method == SA_REPORT_RESP ||
	      (decoded.tid & SA_TID_NOTICES && decoded.tid >> 32 == 0 && timeout));
}

static void notices_event(void *ctx, enum sacache_event event, const uint8_t *gid, uint16_t lid)
{
	CHECK(event <= SACACHE_LINK_CHANGE && (gid || event > SACACHE_LID_CHANGE));
	CHECK(!lid || event == SACACHE_LID_CHANGE);
	if (event == SACACHE_GID_IN || event == SACACHE_GID_OUT)
		CHECK(gid[0] != 0xff);
}

static const struct sa_notice_ops notice_ops = {notices_send, notices_event, fuzz_count};

static void hosts_file(void)
{
	char *text = malloc(left + 1);
	struct in6_addr addr = {{{[10] = 0xff, [11] = 0xff, [12] = 10}}};
	struct sa_hosts *hosts;
	unsigned line = 0;

	CHECK(text);
	memcpy(text, in, left);
	text[left] = 0;
	left = 0;
	if (!sa_hosts_parse(text, &hosts, &line)) {
		sa_hosts_find(hosts, &addr);
		for (size_t i = 0; i < hosts->count; i++)
			CHECK(sa_hosts_find(hosts, &hosts->host[i].addr));
		sa_hosts_free(hosts);
	} else {
		CHECK(line > 0);
	}
	free(text);
}

static void neighbours(void)
{
	struct in6_addr addr = {{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}}};
	size_t length = left;
	uint8_t *copy = malloc(length + 1), gid[16];
	bool found = false;

	CHECK(copy);
	memcpy(copy, in, length);
	left = 0;
	sa_neighbours_parse(copy, length, &addr, gid, &found);
	free(copy);
}

static void ask(void)
{
	uint8_t n = next();
	struct sacache_key key = {.mask = SACACHE_DGID}, exact;
	int error;

	key.dgid[0] = 0xfe;
	key.dgid[15] = n & 0x0f;
	CHECK(!sa_key_normalize(&key, &exact));
	if (!sa_client_find(&client, &exact, n >> 7) &&
	    sa_client_submit(&client, &exact, n >> 7, now, &error))
		submitted++;
}

static void any_mad(void)
{
	uint8_t mad[SA_MAD_SIZE] = {0};

	for (unsigned i = 0; i < 64; i++)
		mad[i] = next();
	if (!sa_notices_receive(&notices, mad, sizeof(mad), true, now))
		sa_client_receive(&client, mad, sizeof(mad), now);
}

static void answer(bool segment)
{
	struct sa_slot *slot = &client.slots[next() % 8];
	uint8_t buf[SA_MAD_SIZE], data[SA_MAD_DATA_SIZE] = {0};
	struct sa_mad mad = {.tid = slot->tid, .attribute = SA_ATTR_PATH_RECORD, .data = data};

	if (segment) {
		mad.method = SA_GET_TABLE_RESP;
		mad.rmpp_flags = next();
		mad.rmpp_type = mad.rmpp_flags >> 4 ? mad.rmpp_flags >> 4 : SA_RMPP_DATA;
		mad.rmpp_flags = (mad.rmpp_flags & 7) | SA_RMPP_ACTIVE;
		mad.segment = next();
		mad.paylen = next();
		mad.attr_offset = next();
	} else {
		mad.method = next();
		mad.status = next() << 8;
		data[8] = 0xfe;
		data[23] = next() & 0x0f;
	}
	sa_mad_encode(&mad, buf);
	sa_client_receive(&client, buf, sizeof(buf), now);
}

/* What does not come from the SA has no effect and no response. */
static void report(void)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0x80}, buf[SA_MAD_SIZE], from = next();
	struct sa_mad mad = {.method = SA_REPORT, .attribute = SA_ATTR_NOTICE, .data = data};
	unsigned before = responses;

	data[5] = next();
	mad.tid = next();
	for (unsigned i = 0; i < 4; i++) {
		uint8_t at = next();

		data[at % 80] = next();
	}
	sa_mad_encode(&mad, buf);
	CHECK(sa_notices_receive(&notices, buf, sizeof(buf), from & 1, now));
	CHECK(responses == before || from & 1);
}

static void answer_ask(void)
{
	uint8_t n = next() % 5, data[SA_MAD_DATA_SIZE] = {0}, buf[SA_MAD_SIZE];
	struct sa_mad mad = {.method = SA_GET_RESP, .data = data};

	mad.attribute = n < SA_TRAPS ? SA_ATTR_INFORM_INFO : SA_ATTR_SM_INFO_RECORD;
	mad.tid = n < SA_TRAPS ? notices.traps[n].tid : notices.sm.tid;
	mad.status = next() << 8;
	data[1] = next();
	data[11] = next();
	sa_put16(data + 22, next());
	data[23] = next();
	sa_put16(data + 26, next());
	sa_mad_encode(&mad, buf);
	CHECK(sa_notices_receive(&notices, buf, sizeof(buf), true, now));
}

static void port(void)
{
	switch (next() % 3) {
	case 0: sa_notices_subscribe(&notices, now); break;
	case 1: sa_notices_doubt(&notices, now); break;
	case 2: sa_notices_stop(&notices, now); break;
	}
}

static void raise_any(void)
{
	static const uint8_t value[SA_RAISE_SIZE] = {1, 2, 3, 4, 5, 6};
	size_t length = left;
	uint8_t *copy = malloc(length + 1);

	CHECK(copy);
	memcpy(copy, in, length);
	left = 0;
	sa_raise(copy, length, value);
	free(copy);
}

static void command(void)
{
	switch (next() & 15) {
	case 0: hosts_file(); break;
	case 1: neighbours(); break;
	case 2: ask(); break;
	case 3: now += next() * 16; break;
	case 4: any_mad(); break;
	case 5: answer(false); break;
	case 6: answer(true); break;
	case 7: sa_client_cancel(&client, -ECANCELED); break;
	case 8: report(); break;
	case 9: answer_ask(); break;
	case 10: port(); break;
	case 11: raise_any(); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t gid[16] = {0xfe, 0x80};
	struct sacache_attr attr;

	in = data;
	left = size;
	now = 1000;
	submitted = ended = 0;
	sacache_attr_init(&attr, sizeof(attr));
	attr.seed = 1;
	attr.window = 8;
	attr.max_records = 16;
	attr.rate = size % 3 ? 0 : 100;
	attr.notices = size % 2 ? 0 : 5000;
	sa_client_init(&client, &attr, gid, &ops, NULL, now);
	sa_notices_init(&notices, &attr, 1, &notice_ops, NULL, now);
	while (left) {
		uint64_t due;

		command();
		due = sa_client_run(&client, now);
		CHECK(due == SA_NEVER || due >= now);
		due = sa_notices_run(&notices, now);
		CHECK(due == SA_NEVER || due >= now);
		CHECK(submitted - ended == client.active + client.queued);
		CHECK(client.active <= attr.window);
	}
	sa_client_cancel(&client, -ECANCELED);
	CHECK(submitted == ended);
	return 0;
}

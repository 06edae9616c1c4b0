/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The SA client against a scripted SA, with a clock that jumps and a wire that loses, duplicates,
 * delays and reorders: busy and silent SAs, late and forged answers, RMPP and its losses, window,
 * rate.
 */
#include "sacache_test.h"

#include "libsacache/client.h"

#ifdef __SANITIZE_THREAD__
#define SEEDS 1 /* slow, and there is one thread here */
#else
#define SEEDS 5
#endif

enum { WIRE = 4096, MOST_RECORDS = 5000 };

struct packet {
	uint64_t at;
	bool to_sa;
	uint8_t mad[SA_MAD_SIZE];
};

/* The subnet: a client, an SA with a table answer that it is sending, and what is between them. */
static struct {
	struct sa_client client;
	struct sacache_attr attr;
	uint64_t now, random;
	unsigned loss, duplicates; /* percent, each way */
	unsigned latency;	   /* ms at most, chosen at random: packets overtake each other */
	struct packet wire[WIRE];
	unsigned on_wire, most_on_wire;
	/* The SA. */
	bool silent;
	unsigned busy; /* answers that it still gives so */
	uint16_t status;
	unsigned asked;
	unsigned per_ms[200000 / 10];
	unsigned records; /* in a table answer */
	uint64_t table_tid;
	uint32_t acked, window, next_segment;
	uint64_t resend_at;
	bool sending;
	/* What came of it. */
	unsigned ended, good;
	int last_status;
	size_t last_count;
	unsigned counts[SA_COUNTERS];
} net;

static void put_on_wire(const uint8_t *mad, bool to_sa)
{
	unsigned copies = 1 + (test_random(&net.random) % 100 < net.duplicates);

	if (test_random(&net.random) % 100 < net.loss)
		return;
	while (copies--) {
		struct packet *packet = &net.wire[net.on_wire++];

		assert_true(net.on_wire < WIRE);
		packet->at = net.now + 1 + test_random(&net.random) % (net.latency + 1);
		packet->to_sa = to_sa;
		memcpy(packet->mad, mad, SA_MAD_SIZE);
	}
}

static void client_send(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout)
{
	put_on_wire(mad, true);
}

static void client_done(void *ctx, struct sa_query *query, int status, const uint8_t *records,
			size_t count, size_t stride)
{
	net.ended++;
	net.last_status = status;
	net.last_count = count;
	if (status)
		return;
	for (size_t i = 0; i < count; i++)
		assert_true(sa_record_answers(records + i * stride, &query->key));
	/* In order, and each once. */
	for (size_t i = 0; query->table && i < count; i++)
		assert_int_equal(sa_get64(records + i * stride), i);
	net.good++;
}

static void client_count(void *ctx, enum sa_count what)
{
	net.counts[what]++;
}

static const struct sa_client_ops ops = {client_send, client_done, client_count};

/* Ends what the test before left. */
static int teardown(void **state)
{
	sa_client_cancel(&net.client, -ECANCELED);
	return 0;
}

static void setup(void)
{
	if (net.client.ops)
		sa_client_cancel(&net.client, -ECANCELED);
	memset(&net, 0, sizeof(net));
	sacache_attr_init(&net.attr, sizeof(net.attr));
	net.attr.seed = 11;
	net.random = 5;
	net.now = 1000;
	net.latency = 2;
}

static void begin(void)
{
	uint8_t gid[16];

	test_gid(77, gid);
	sa_client_init(&net.client, &net.attr, gid, &ops, NULL, net.now);
}

static struct sa_query *ask(unsigned n, bool table)
{
	struct sacache_key key = test_key(n);
	int error = 0;
	struct sa_query *query = sa_client_submit(&net.client, &key, table, net.now, &error);

	net.last_status = error;
	return query;
}

/* The SA's RMPP sender: what the window lets through. */
static void send_segments(void)
{
	unsigned total = net.records * SA_RECORD_SIZE;
	unsigned last = (total + SA_MAD_DATA_SIZE - 1) / SA_MAD_DATA_SIZE;
	static uint8_t all[MOST_RECORDS * SA_RECORD_SIZE + SA_MAD_DATA_SIZE];

	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < net.records; i++) {
		struct sacache_path path = test_path(1, 10, false);

		path.service_id = i;
		sa_record_encode(&path, all + i * SA_RECORD_SIZE);
	}
	while (net.next_segment <= last && net.next_segment <= net.window) {
		struct sa_mad mad = {
			.method = SA_GET_TABLE_RESP,
			.tid = net.table_tid,
			.attribute = SA_ATTR_PATH_RECORD,
			.rmpp_type = SA_RMPP_DATA,
			.rmpp_flags = SA_RMPP_ACTIVE | (net.next_segment == 1 ? SA_RMPP_FIRST : 0) |
				      (net.next_segment == last ? SA_RMPP_LAST : 0),
			.segment = net.next_segment,
			.attr_offset = SA_RECORD_SIZE / 8,
			.data = all + (net.next_segment - 1) * SA_MAD_DATA_SIZE,
		};
		uint8_t buf[SA_MAD_SIZE];

		if (net.next_segment == last)
			mad.paylen = SA_RMPP_HEADER + total - (last - 1) * SA_MAD_DATA_SIZE;
		sa_mad_encode(&mad, buf);
		put_on_wire(buf, false);
		net.next_segment++;
	}
	net.resend_at = net.now + 40;
}

static void sa_table(const struct sa_mad *mad)
{
	if (mad->rmpp_type == SA_RMPP_ACK) {
		if (!net.sending || (uint32_t)mad->tid != (uint32_t)net.table_tid ||
		    mad->segment < net.acked)
			return;
		net.acked = mad->segment;
		net.sending = net.acked * SA_MAD_DATA_SIZE < net.records * SA_RECORD_SIZE;
		net.window = mad->paylen;
		send_segments();
	} else if (mad->rmpp_type == SA_RMPP_ABORT) {
		net.sending = false;
	} else {
		net.table_tid = mad->tid;
		net.acked = 0;
		net.window = net.next_segment = 1;
		net.sending = true;
		send_segments();
	}
}

static void sa_receive(const uint8_t *buf)
{
	struct sa_mad mad, answer;
	struct sacache_path path;
	uint8_t data[SA_MAD_DATA_SIZE] = {0}, out[SA_MAD_SIZE];

	assert_int_equal(sa_mad_decode(buf, SA_MAD_SIZE, &mad), 0);
	assert_int_equal(mad.attribute, SA_ATTR_PATH_RECORD);
	if (!(mad.rmpp_flags & SA_RMPP_ACTIVE)) {
		net.asked++;
		net.per_ms[net.now / 10]++;
	}
	if (net.silent)
		return;
	/* The kernel's part of the transaction ID is not the client's affair. */
	mad.tid |= 0xabcdull << 32;
	if (mad.method == SA_GET_TABLE && !net.busy && !net.status) {
		sa_table(&mad);
		return;
	}
	sa_record_decode(mad.data, &path);
	path.dlid = 10;
	path.pkey = 0xffff;
	sa_record_encode(&path, data);
	answer = (struct sa_mad){
		.method = mad.method | 0x80,
		.tid = mad.tid,
		.attribute = mad.attribute,
		.status = net.busy ? 1 : net.status,
		.attr_offset = 8,
		.data = data,
	};
	if (net.busy)
		net.busy--;
	sa_mad_encode(&answer, out);
	put_on_wire(out, false);
}

/* Lets time pass until nothing is left to do, or that much of it has passed. */
static void pass(uint64_t ms)
{
	uint64_t end = net.now + ms;

	for (; net.now < end &&
	       (net.on_wire || net.client.active || net.client.queued || net.sending);
	     net.now++) {
		if (net.on_wire > net.most_on_wire)
			net.most_on_wire = net.on_wire;
		for (unsigned i = 0; i < net.on_wire;) {
			struct packet packet;

			if (net.wire[i].at > net.now) {
				i++;
				continue;
			}
			packet = net.wire[i];
			memmove(&net.wire[i], &net.wire[i + 1],
				(--net.on_wire - i) * sizeof(packet));
			if (packet.to_sa)
				sa_receive(packet.mad);
			else
				sa_client_receive(&net.client, packet.mad, SA_MAD_SIZE, net.now);
		}
		if (net.sending && net.now >= net.resend_at) {
			net.next_segment = net.acked + 1;
			send_segments();
		}
		sa_client_run(&net.client, net.now);
	}
}

static void an_answer_ends_its_query(void **state)
{
	setup();
	begin();
	assert_non_null(ask(1, false));
	pass(20);
	assert_int_equal(net.good, 1);
	assert_int_equal(net.asked, 1);
	assert_int_equal(sa_client_run(&net.client, net.now), SA_NEVER);
}

/* 15.2.5.16: what a key asks is in the record and named by the component mask. */
static void a_question_names_its_components(void **state)
{
	static const struct {
		uint32_t mask;
		uint64_t components;
	} rows[] = {
		{SACACHE_DGID, 1 << 2 | 1 << 3},
		{SACACHE_DLID, 1 << 4 | 1 << 3},
		{SACACHE_DLID | SACACHE_SLID, 1 << 4 | 1 << 5},
		{SACACHE_DGID | SACACHE_SGID, 1 << 2 | 1 << 3},
		{SACACHE_DGID | SACACHE_SLID, 1 << 2 | 1 << 5},
		{SACACHE_DGID | SACACHE_PKEY, 1 << 2 | 1 << 3 | 1 << 13},
		{SACACHE_DGID | SACACHE_SL, 1 << 2 | 1 << 3 | 1 << 15},
		{SACACHE_DGID | SACACHE_TCLASS, 1 << 2 | 1 << 3 | 1 << 10},
		{SACACHE_DGID | SACACHE_QOS_CLASS, 1 << 2 | 1 << 3 | 1 << 14},
		{SACACHE_DGID | SACACHE_SERVICE_ID, 1 << 2 | 1 << 3 | 3},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sacache_key key = test_key(1);
		uint8_t gid[16], record[SA_RECORD_SIZE];

		test_gid(77, gid);
		key.mask = rows[i].mask;
		/* Beside them always: reversible, and one path. */
		assert_int_equal(sa_record_ask(&key, gid, record),
				 rows[i].components | 1 << 11 | 1 << 12);
		assert_int_equal(record[49], 0x81);
		if (!(key.mask & (SACACHE_SGID | SACACHE_SLID)))
			assert_memory_equal(record + 24, gid, 16);
	}
}

static void a_silent_sa_is_asked_as_often_as_said_at_growing_intervals(void **state)
{
	uint64_t sent[8], start;
	unsigned asked = 0;

	setup();
	net.silent = true;
	net.attr.retries = 3;
	begin();
	start = net.now;
	assert_non_null(ask(1, false));
	while (!net.ended && net.now < start + 100000) {
		pass(1);
		if (net.asked > asked)
			sent[asked++] = net.now;
	}
	assert_int_equal(net.last_status, -ETIMEDOUT);
	assert_int_equal(asked, 4);
	for (unsigned i = 1; i < asked; i++) {
		uint64_t wait = sent[i] - sent[i - 1], least = 1000u << (i - 1);

		assert_in_range(wait, least - 5, least + least / 2 + 10);
	}
}

static void a_busy_sa_is_asked_again_after_a_random_time(void **state)
{
	setup();
	net.busy = 3;
	begin();
	assert_non_null(ask(1, false));
	pass(20000);
	assert_int_equal(net.good, 1);
	assert_int_equal(net.asked, 4);
	assert_int_equal(net.counts[SA_BUSY], 3);
	net.busy = 1000;
	assert_non_null(ask(2, false));
	pass(20000);
	assert_int_equal(net.ended, 2);
	assert_int_equal(net.last_status, -EBUSY);
	assert_int_equal(net.asked, 4 + 5);
}

static void statuses_have_their_errno(void **state)
{
	static const struct {
		uint16_t status;
		int error;
	} rows[] = {
		{0x0300, -EHOSTUNREACH}, {0x0500, -EHOSTUNREACH}, {0x0700, -EPERM},
		{0x0200, -EIO},		 {0x0400, -EIO},	  {0x000c, -EIO},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		setup();
		net.status = rows[i].status;
		begin();
		assert_non_null(ask(1, false));
		pass(50);
		assert_int_equal(net.ended, 1);
		assert_int_equal(net.last_status, rows[i].error);
	}
}

static void the_window_bounds_what_is_under_way(void **state)
{
	setup();
	net.attr.window = 8;
	net.silent = true;
	begin();
	for (unsigned n = 0; n < 100; n++)
		assert_non_null(ask(n, false));
	pass(500);
	assert_int_equal(net.asked, 8);
	net.silent = false;
	pass(20000);
	assert_int_equal(net.good, 100);
	assert_true(net.most_on_wire <= 8);
}

static void the_rate_limit_holds_for_retries_too(void **state)
{
	setup();
	net.attr.rate = 1000;
	net.attr.window = 64;
	net.loss = 2;
	begin();
	for (unsigned n = 0; n < 3000; n++)
		assert_non_null(ask(n, false));
	pass(60000);
	assert_int_equal(net.good, 3000);
	assert_true(net.counts[SA_RETRIED] > 50);
	/* 10 in 10 ms, and 10 that were saved up. */
	for (unsigned i = 0; i < net.now / 10; i++)
		assert_in_range(net.per_ms[i], 0, 25);
}

static void a_full_queue_refuses(void **state)
{
	setup();
	net.attr.window = 1;
	net.attr.queue = 10;
	net.silent = true;
	begin();
	for (unsigned n = 0; n < 11; n++)
		assert_non_null(ask(n, false));
	assert_null(ask(11, false));
	assert_int_equal(net.last_status, -EAGAIN);
	sa_client_cancel(&net.client, -ECANCELED);
	assert_int_equal(net.ended, 11);
	assert_int_equal(net.last_status, -ECANCELED);
}

static void a_query_under_way_is_found_by_its_key(void **state)
{
	struct sacache_key one = test_key(1), two = test_key(2);
	struct sa_query *query;

	setup();
	begin();
	query = ask(1, false);
	assert_non_null(query);
	assert_ptr_equal(sa_client_find(&net.client, &one, false), query);
	assert_null(sa_client_find(&net.client, &one, true));
	assert_null(sa_client_find(&net.client, &two, false));
	pass(20);
	assert_null(sa_client_find(&net.client, &one, false));
}

/* Each row changes one byte of a good answer, which then is ignored. */
static void forged_and_malformed_answers_change_nothing(void **state)
{
	static const unsigned bytes[] = {0, 1, 2, 3, 12, 13, 14, 15, 16, 17};
	struct sa_mad answer = {.method = SA_GET_RESP, .attribute = SA_ATTR_PATH_RECORD};
	uint8_t mad[SA_MAD_SIZE], data[SA_MAD_DATA_SIZE] = {0};
	struct sacache_path path = test_path(1, 10, false);

	setup();
	net.silent = true;
	begin();
	assert_non_null(ask(1, false));
	sa_record_encode(&path, data);
	answer.tid = net.client.slots[0].tid;
	answer.data = data;
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		sa_mad_encode(&answer, mad);
		mad[bytes[i]] ^= 0x11;
		sa_client_receive(&net.client, mad, sizeof(mad), net.now);
		assert_int_equal(net.ended, 0);
	}
	sa_mad_encode(&answer, mad);
	sa_client_receive(&net.client, mad, SA_MAD_SIZE - 1, net.now);
	assert_int_equal(net.ended, 0);
	assert_int_equal(net.counts[SA_MALFORMED] + net.counts[SA_STRAYS], 11);
	/* The kernel's half may differ. */
	mad[8] ^= 0x55;
	sa_client_receive(&net.client, mad, sizeof(mad), net.now);
	assert_int_equal(net.good, 1);
	/* And again: late, duplicated. */
	sa_client_receive(&net.client, mad, sizeof(mad), net.now);
	assert_int_equal(net.ended, 1);
}

static void an_answer_to_another_question_is_an_error(void **state)
{
	uint8_t mad[SA_MAD_SIZE], data[SA_MAD_DATA_SIZE] = {0};
	struct sacache_path path = test_path(2, 10, false);
	struct sa_mad answer = {.method = SA_GET_RESP, .attribute = SA_ATTR_PATH_RECORD};

	setup();
	begin();
	assert_non_null(ask(1, false));
	sa_record_encode(&path, data);
	answer.tid = net.client.slots[0].tid;
	answer.data = data;
	sa_mad_encode(&answer, mad);
	sa_client_receive(&net.client, mad, sizeof(mad), net.now);
	assert_int_equal(net.last_status, -EPROTO);
}

/* Tables of many sizes: less than a segment, to its edge, many windows. */
static const unsigned table_sizes[] = {1, 2, 3, 25, 26, 100, 1000, MOST_RECORDS};

static void tables_come_in_segments(void **state)
{
	for (size_t i = 0; i < sizeof(table_sizes) / sizeof(table_sizes[0]); i++) {
		setup();
		net.latency = 0;
		net.records = table_sizes[i];
		begin();
		assert_non_null(ask(1, true));
		pass(2000);
		assert_int_equal(net.good, 1);
		assert_int_equal(net.last_count, table_sizes[i]);
		assert_int_equal(net.asked, 1);
	}
}

static void tables_survive_a_bad_wire(void **state)
{
	for (unsigned seed = 1; seed <= 4 * SEEDS; seed++) {
		setup();
		net.random = seed;
		net.loss = net.duplicates = 10;
		net.latency = 5;
		net.records = 500;
		begin();
		assert_non_null(ask(1, true));
		pass(100000);
		assert_int_equal(net.good, 1);
		assert_int_equal(net.last_count, 500);
	}
}

static void a_table_beyond_the_limit_is_aborted(void **state)
{
	setup();
	net.attr.max_records = 100;
	net.records = 1000;
	begin();
	assert_non_null(ask(1, true));
	pass(2000);
	assert_int_equal(net.last_status, -EFBIG);
	assert_false(net.sending);
}

static void queries_survive_a_bad_wire(void **state)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		setup();
		net.random = seed;
		net.loss = net.duplicates = 20;
		net.latency = 2000;
		net.attr.retries = 15;
		begin();
		for (unsigned n = 0; n < 500; n++)
			assert_non_null(ask(n, false));
		pass(190000);
		assert_int_equal(net.ended, 500);
		assert_int_equal(net.good, 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_ends_its_query),
		cmocka_unit_test(a_question_names_its_components),
		cmocka_unit_test(a_silent_sa_is_asked_as_often_as_said_at_growing_intervals),
		cmocka_unit_test(a_busy_sa_is_asked_again_after_a_random_time),
		cmocka_unit_test(statuses_have_their_errno),
		cmocka_unit_test(the_window_bounds_what_is_under_way),
		cmocka_unit_test(the_rate_limit_holds_for_retries_too),
		cmocka_unit_test(a_full_queue_refuses),
		cmocka_unit_test(a_query_under_way_is_found_by_its_key),
		cmocka_unit_test(forged_and_malformed_answers_change_nothing),
		cmocka_unit_test(an_answer_to_another_question_is_an_error),
		cmocka_unit_test(tables_come_in_segments),
		cmocka_unit_test(tables_survive_a_bad_wire),
		cmocka_unit_test(a_table_beyond_the_limit_is_aborted),
		cmocka_unit_test(queries_survive_a_bad_wire),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}

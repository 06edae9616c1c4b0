/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The subscription to the SA's notices against a scripted SA, with a clock that jumps and a wire
 * that loses and duplicates: an SA that refuses, is silent, busy or restarted, and reports that are
 * lost, late, repeated, forged or malformed.
 */
#include "sacache_test.h"

#include "libsacache/client.h"
#include "libsacache/notice.h"

#ifdef __SANITIZE_THREAD__
#define SEEDS 5 /* slow, and there is one thread here */
#else
#define SEEDS 50
#endif

enum { RENEWAL = 60000, EVENTS = 64, WIRE = 64 };

static const uint16_t traps[] = {64, 65, 128, 144};

static struct {
	struct sa_notices notices;
	struct sacache_attr attr;
	uint64_t now, random;
	unsigned loss, duplicates; /* percent, each way */
	uint8_t wire[WIRE][SA_MAD_SIZE];
	bool to_sa[WIRE];
	unsigned on_wire;
	/* The SA. */
	bool silent, tells_nobody;
	unsigned busy; /* answers that it still gives so */
	uint16_t status;
	bool subscribed[4];
	uint64_t guid;
	uint32_t act_count; /* grows with each MAD of the SA's */
	uint8_t info[36];   /* the last that came */
	unsigned sets, gets, responses;
	uint8_t last_response[SA_MAD_SIZE];
	uint64_t asked_at[16];
	unsigned asked;
	/* What came of it. */
	struct {
		enum sacache_event event;
		uint8_t gid[16];
		uint16_t lid;
	} events[EVENTS];
	unsigned happened;
	unsigned counts[SA_COUNTERS];
} net;

static void put_on_wire(const uint8_t *mad, bool to_sa)
{
	unsigned copies = 1 + (test_random(&net.random) % 100 < net.duplicates);

	if (test_random(&net.random) % 100 < net.loss)
		return;
	while (copies--) {
		assert_true(net.on_wire < WIRE);
		net.to_sa[net.on_wire] = to_sa;
		memcpy(net.wire[net.on_wire++], mad, SA_MAD_SIZE);
	}
}

static void notices_send(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout)
{
	put_on_wire(mad, true);
}

static void notices_event(void *ctx, enum sacache_event event, const uint8_t *gid, uint16_t lid)
{
	assert_true(net.happened < EVENTS);
	net.events[net.happened].event = event;
	net.events[net.happened].lid = lid;
	if (gid)
		memcpy(net.events[net.happened].gid, gid, 16);
	net.happened++;
}

static void notices_count(void *ctx, enum sa_count what)
{
	net.counts[what]++;
}

static const struct sa_notice_ops ops = {notices_send, notices_event, notices_count};

static void setup(void)
{
	memset(&net, 0, sizeof(net));
	sacache_attr_init(&net.attr, sizeof(net.attr));
	net.attr.seed = 11;
	net.attr.notices = RENEWAL;
	net.random = 5;
	net.now = 1000;
	net.guid = 7;
	net.act_count = 1000;
}

static void begin(void)
{
	sa_notices_init(&net.notices, &net.attr, 1, &ops, NULL, net.now);
}

static unsigned subscriptions(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < 4; i++)
		n += net.subscribed[i];
	return n;
}

static uint16_t sa_set(const struct sa_mad *mad)
{
	net.sets++;
	memcpy(net.info, mad->data, sizeof(net.info));
	for (unsigned i = 0; !net.status && i < 4; i++)
		if (sa_get16(net.info + 26) == traps[i])
			net.subscribed[i] = net.info[23];
	return net.status;
}

/* SMInfoRecord, by the SM's LID: others may stand by. */
static uint16_t sa_get(const struct sa_mad *mad, uint8_t *data)
{
	net.gets++;
	assert_int_equal(mad->comp_mask, 1);
	assert_int_equal(sa_get16(mad->data), 1);
	sa_put16(data, 1);
	sa_put64(data + 4, net.guid);
	sa_put32(data + 20, net.act_count);
	return net.tells_nobody ? 0x000c : 0;
}

/* It knows nobody any more, and its count begins anew. */
static void restart_sa(void)
{
	memset(net.subscribed, 0, sizeof(net.subscribed));
	net.act_count = 50;
}

static void sa_receive(const uint8_t *buf)
{
	uint8_t out[SA_MAD_SIZE], data[SA_MAD_DATA_SIZE];
	struct sa_mad mad;

	assert_int_equal(sa_mad_decode(buf, SA_MAD_SIZE, &mad), 0);
	memcpy(data, mad.data, sizeof(data));
	if (mad.method == SA_REPORT_RESP) {
		net.responses++;
		memcpy(net.last_response, buf, SA_MAD_SIZE);
		return;
	}
	assert_true(mad.tid & SA_TID_NOTICES);
	if (mad.method == SA_SET)
		net.asked_at[net.asked++ % 16] = net.now;
	if (net.silent)
		return;
	if (net.busy) {
		net.busy--;
		mad.status = 1;
	} else {
		mad.status = mad.method == SA_SET ? sa_set(&mad) : sa_get(&mad, data);
	}
	mad.data = data;
	net.act_count++;
	mad.method = SA_GET_RESP;
	mad.tid |= 0xabcdull << 32;
	sa_mad_encode(&mad, out);
	put_on_wire(out, false);
}

/* Lets time pass. */
static void pass(uint64_t ms)
{
	for (uint64_t end = net.now + ms; net.now < end; net.now++) {
		sa_notices_run(&net.notices, net.now);
		while (net.on_wire) {
			uint8_t mad[SA_MAD_SIZE];
			bool to_sa = net.to_sa[0];

			memcpy(mad, net.wire[0], SA_MAD_SIZE);
			net.on_wire--;
			memmove(net.wire[0], net.wire[1], net.on_wire * SA_MAD_SIZE);
			memmove(net.to_sa, net.to_sa + 1, net.on_wire * sizeof(bool));
			if (to_sa)
				sa_receive(mad);
			else
				assert_true(sa_notices_receive(&net.notices, mad, SA_MAD_SIZE, true,
							       net.now));
		}
	}
}

/* Report(Notice) of a generic trap; gid in the details, the issuer behind them. */
static void make_report(uint16_t trap, unsigned gid, uint64_t tid, uint8_t mad[SA_MAD_SIZE])
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0x83, 0, 0, 4};
	struct sa_mad report = {
		.method = SA_REPORT, .tid = tid, .attribute = SA_ATTR_NOTICE, .data = data};

	sa_put16(data + 4, trap);
	sa_put16(data + 6, 9);
	test_gid(gid, data + 16);
	test_gid(gid + 100, data + 64);
	sa_mad_encode(&report, mad);
}

static void report(uint16_t trap, unsigned gid, uint64_t tid)
{
	uint8_t mad[SA_MAD_SIZE];

	make_report(trap, gid, tid, mad);
	assert_true(sa_notices_receive(&net.notices, mad, SA_MAD_SIZE, true, net.now));
	pass(1);
}

/* 15.2.5.12 */
static void each_trap_is_subscribed_to_within_a_second(void **state)
{
	static const uint8_t zero[16];

	setup();
	begin();
	pass(1002);
	assert_int_equal(subscriptions(), 4);
	assert_int_equal(net.sets, 4);
	assert_int_equal(net.counts[SA_SUBSCRIBED], 4);
	assert_memory_equal(net.info, zero, 16);
	assert_int_equal(sa_get16(net.info + 16), 0xffff);
	assert_int_equal(net.info[22], 1);
	assert_int_equal(net.info[23], 1);
	assert_int_equal(sa_get16(net.info + 24), 0xffff);
	assert_int_equal(sa_get16(net.info + 26), 144);
	assert_int_equal(sa_get32(net.info + 32), 0xffffff);
	assert_int_equal(net.happened, 0);
}

static void nodes_do_not_all_subscribe_at_once(void **state)
{
	uint64_t first = 0;
	bool differ = false;

	for (unsigned seed = 1; seed < 5; seed++) {
		setup();
		net.attr.seed = seed;
		begin();
		pass(1002);
		differ |= first && net.asked_at[0] != first;
		first = net.asked_at[0];
	}
	assert_true(differ);
}

static void without_notices_the_sa_hears_nothing(void **state)
{
	setup();
	net.attr.notices = 0;
	begin();
	sa_notices_subscribe(&net.notices, net.now);
	sa_notices_doubt(&net.notices, net.now);
	pass(200000);
	assert_int_equal(net.asked + net.gets, 0);
	assert_int_equal(sa_notices_run(&net.notices, net.now), SA_NEVER);
	assert_false(sa_notices_stop(&net.notices, net.now));
}

static void a_silent_sa_is_asked_at_growing_intervals_and_again_at_the_renewal(void **state)
{
	setup();
	net.silent = true;
	net.attr.retries = 3;
	begin();
	pass(40000);
	assert_int_equal(net.asked, 4 * 4);
	for (unsigned i = 1; i < 4; i++) {
		uint64_t least = 1000u << (i - 1);

		assert_in_range(net.asked_at[4 * i] - net.asked_at[4 * i - 4], least,
				least + least / 2 + 1);
	}
	net.silent = false;
	pass(RENEWAL);
	assert_int_equal(subscriptions(), 4);
}

static void a_busy_sa_is_asked_again(void **state)
{
	setup();
	net.busy = 7;
	begin();
	pass(10000);
	assert_int_equal(subscriptions(), 4);
	assert_int_equal(net.counts[SA_BUSY], 7);
}

static void an_sa_that_refuses_is_asked_again_at_the_renewal(void **state)
{
	setup();
	net.status = 0x0200;
	begin();
	pass(RENEWAL - 1);
	assert_int_equal(net.counts[SA_REFUSED], 4);
	assert_int_equal(net.sets, 4);
	net.status = 0;
	pass(RENEWAL);
	assert_int_equal(net.counts[SA_SUBSCRIBED], 4);
	assert_int_equal(net.happened, 0);
}

/* 13.4.11 */
static void a_report_is_answered_and_becomes_an_event(void **state)
{
	uint8_t gid[16], mad[SA_MAD_SIZE];

	setup();
	begin();
	pass(1002);
	report(65, 3, 0x1234567800000001);
	make_report(65, 3, 0x1234567800000001, mad);
	mad[3] = 0x86;
	assert_memory_equal(net.last_response, mad, SA_MAD_SIZE);
	report(64, 3, 2);
	report(128, 3, 3);
	report(144, 3, 4);
	assert_int_equal(net.responses, 4);
	assert_int_equal(net.happened, 4);
	test_gid(3, gid);
	assert_int_equal(net.events[0].event, SACACHE_GID_OUT);
	assert_memory_equal(net.events[0].gid, gid, 16);
	assert_int_equal(net.events[1].event, SACACHE_GID_IN);
	assert_memory_equal(net.events[1].gid, gid, 16);
	assert_int_equal(net.events[2].event, SACACHE_LINK_CHANGE);
	/* A port's local change tells which LID its GID has. */
	test_gid(103, gid);
	assert_int_equal(net.events[3].event, SACACHE_LID_CHANGE);
	assert_memory_equal(net.events[3].gid, gid, 16);
	assert_int_equal(net.events[3].lid, 9);
	/* Others are answered, too, or the SA would repeat them. */
	report(145, 3, 5);
	report(66, 3, 6);
	assert_int_equal(net.responses, 6);
	assert_int_equal(net.happened, 4);
	assert_int_equal(net.counts[SA_NOTICES_GID_OUT], 1);
	assert_int_equal(net.counts[SA_NOTICES_GID_IN], 1);
	assert_int_equal(net.counts[SA_NOTICES_LINK], 1);
	assert_int_equal(net.counts[SA_NOTICES_OTHER], 3);
}

static void a_repeated_report_is_answered_again_and_has_no_effect(void **state)
{
	setup();
	begin();
	report(65, 3, 1);
	report(65, 4, 2);
	report(65, 3, 1);
	assert_int_equal(net.responses, 3);
	assert_int_equal(net.happened, 2);
	assert_int_equal(net.counts[SA_NOTICES_REPEATED], 1);
	/* The same transaction of an SA that began to count anew tells something else. */
	report(64, 3, 1);
	assert_int_equal(net.happened, 3);
	/* As does the same notice in another one, and after a while in the same one. */
	report(65, 3, 7);
	assert_int_equal(net.happened, 4);
	pass(11000);
	report(65, 3, 7);
	assert_int_equal(net.happened, 5);
	assert_int_equal(net.counts[SA_NOTICES_REPEATED], 1);
}

/* The subscription of a process that was killed still brings reports to the next one. */
static void a_report_before_the_subscription_is_taken(void **state)
{
	setup();
	net.silent = true;
	begin();
	report(65, 3, 1);
	assert_int_equal(net.happened, 1);
	assert_int_equal(net.responses, 1);
}

static void reports_from_elsewhere_are_dropped(void **state)
{
	uint8_t mad[SA_MAD_SIZE];

	setup();
	begin();
	pass(1002);
	make_report(65, 3, 1, mad);
	assert_true(sa_notices_receive(&net.notices, mad, sizeof(mad), false, net.now));
	pass(1);
	assert_int_equal(net.counts[SA_NOTICES_FORGED], 1);
	assert_int_equal(net.responses + net.happened, 0);
	/* Their transaction does not keep the SA's own from being heard. */
	report(65, 3, 1);
	assert_int_equal(net.happened, 1);
}

/* Each row changes a byte of a good report, which is then not answered. */
static void malformed_reports_are_dropped(void **state)
{
	static const struct {
		unsigned byte;
		uint8_t value;
		bool about_notices; /* else: no MAD of the SA about notices */
	} rows[] = {
		{0, 2, false},	  /* base version */
		{1, 1, false},	  /* class */
		{2, 1, false},	  /* class version */
		{3, 5, true},	  /* Trap */
		{3, 7, true},	  /* TrapRepress */
		{3, 0x86, true},  /* our own response */
		{4, 3, true},	  /* status */
		{16, 1, false},	  /* attribute */
		{72, 0xff, true}, /* multicast GID */
	};
	uint8_t mad[SA_MAD_SIZE];

	setup();
	net.silent = true;
	begin();
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make_report(65, 3, 10 + i, mad);
		mad[rows[i].byte] = rows[i].value;
		assert_int_equal(sa_notices_receive(&net.notices, mad, sizeof(mad), true, net.now),
				 rows[i].about_notices);
	}
	/* RMPP, a GID of zeroes, and a report cut short. */
	make_report(65, 3, 20, mad);
	mad[24] = 1;
	mad[26] = SA_RMPP_ACTIVE;
	assert_true(sa_notices_receive(&net.notices, mad, sizeof(mad), true, net.now));
	make_report(65, 3, 21, mad);
	memset(mad + 72, 0, 16);
	assert_true(sa_notices_receive(&net.notices, mad, sizeof(mad), true, net.now));
	make_report(65, 3, 22, mad);
	assert_false(sa_notices_receive(&net.notices, mad, SA_MAD_SIZE - 1, true, net.now));
	assert_int_equal(net.counts[SA_NOTICES_MALFORMED], 7);
	assert_int_equal(net.happened + net.responses, 0);
}

static void forged_and_late_answers_change_nothing(void **state)
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0}, buf[SA_MAD_SIZE];
	struct sa_mad mad = {.method = SA_GET_RESP, .attribute = SA_ATTR_INFORM_INFO, .data = data};

	setup();
	net.silent = true;
	begin();
	pass(1002);
	data[23] = 1;
	sa_put16(data + 26, 64);
	mad.tid = net.notices.traps[0].tid;
	sa_mad_encode(&mad, buf);
	/* From elsewhere; of another transaction; about another trap; as another attribute. */
	assert_true(sa_notices_receive(&net.notices, buf, sizeof(buf), false, net.now));
	buf[12] ^= 1;
	assert_true(sa_notices_receive(&net.notices, buf, sizeof(buf), true, net.now));
	buf[12] ^= 1;
	buf[SA_MAD_DATA + 27] = 65;
	assert_true(sa_notices_receive(&net.notices, buf, sizeof(buf), true, net.now));
	buf[SA_MAD_DATA + 27] = 64;
	buf[17] = SA_ATTR_SM_INFO_RECORD;
	assert_true(sa_notices_receive(&net.notices, buf, sizeof(buf), true, net.now));
	buf[17] = SA_ATTR_INFORM_INFO;
	assert_int_equal(net.counts[SA_SUBSCRIBED], 0);
	assert_int_equal(net.counts[SA_FOREIGN], 1);
	assert_int_equal(net.counts[SA_STRAYS], 2);
	assert_int_equal(net.counts[SA_MALFORMED], 1);
	assert_true(sa_notices_receive(&net.notices, buf, sizeof(buf), true, net.now));
	assert_int_equal(net.counts[SA_SUBSCRIBED], 1);
	assert_true(sa_notices_receive(&net.notices, buf, sizeof(buf), true, net.now));
	assert_int_equal(net.counts[SA_SUBSCRIBED], 1);
	assert_int_equal(net.counts[SA_STRAYS], 3);
}

static void subscriptions_are_renewed(void **state)
{
	setup();
	begin();
	pass(10 * RENEWAL);
	assert_in_range(net.gets, 8, 11);
	assert_int_equal(net.sets, 4 * net.gets);
	assert_int_equal(net.happened, 0);
}

static void an_sm_that_was_restarted_is_noticed_and_subscribed_to_again(void **state)
{
	setup();
	begin();
	pass(1002);
	restart_sa();
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 1);
	assert_int_equal(net.events[0].event, SACACHE_NEW_SM);
	assert_int_equal(net.counts[SA_SM_RESTARTS], 1);
	assert_int_equal(subscriptions(), 4);
}

/* 14.2.5.13: so an ActCount that has grown does not say that the SM and its LIDs are as before. */
static void an_sm_that_has_sent_more_since_its_restart_is_not_noticed(void **state)
{
	setup();
	begin();
	pass(1002);
	restart_sa();
	net.act_count = 17000;
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 0);
	assert_int_equal(net.counts[SA_SM_RESTARTS], 0);
	assert_int_equal(subscriptions(), 4);
}

static void another_sm_at_the_same_lid_is_noticed(void **state)
{
	setup();
	begin();
	pass(1002);
	net.guid = 8;
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 1);
	assert_int_equal(net.events[0].event, SACACHE_NEW_SM);
}

/* A port that was down for a moment, and nobody has said that the SM is another. */
static void who_was_away_notices_another_sm(void **state)
{
	setup();
	begin();
	pass(1002);
	sa_notices_subscribe(&net.notices, net.now);
	pass(1002);
	assert_int_equal(net.happened, 0);
	net.guid = 8;
	sa_notices_subscribe(&net.notices, net.now);
	pass(1002);
	assert_int_equal(net.happened, 1);
	assert_int_equal(net.events[0].event, SACACHE_NEW_SM);
}

static void a_new_sm_that_is_known_of_is_not_told_of_again(void **state)
{
	setup();
	begin();
	pass(1002);
	restart_sa();
	net.guid = 8;
	sa_notices_new_sm(&net.notices, 1, net.now);
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 0);
	assert_int_equal(subscriptions(), 4);
}

static void an_sm_that_is_not_the_expected_one_is_noticed(void **state)
{
	setup();
	begin();
	sa_notices_expect_sm(&net.notices, 7);
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 0);
	setup();
	begin();
	sa_notices_expect_sm(&net.notices, 6);
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 1);
	assert_int_equal(net.events[0].event, SACACHE_NEW_SM);
	/* It has told already. */
	sa_notices_expect_sm(&net.notices, 7);
	assert_int_equal(net.happened, 1);
	sa_notices_expect_sm(&net.notices, 6);
	assert_int_equal(net.happened, 2);
	pass(2 * RENEWAL);
	assert_int_equal(net.happened, 2);
}

/* 32 bits are soon over. */
static void an_act_count_may_begin_at_0_again(void **state)
{
	setup();
	net.act_count = UINT32_MAX - 6;
	begin();
	pass(3 * RENEWAL);
	assert_true(net.act_count < 100);
	assert_int_equal(net.happened, 0);
}

static void an_sm_that_does_not_tell_is_subscribed_to_all_the_same(void **state)
{
	setup();
	net.tells_nobody = true;
	begin();
	pass(1002);
	restart_sa();
	pass(2 * RENEWAL);
	assert_int_equal(subscriptions(), 4);
	assert_int_equal(net.happened, 0);
}

static void doubt_asks_the_sm_at_once_but_seldom(void **state)
{
	setup();
	begin();
	pass(10000);
	assert_int_equal(net.gets, 1);
	restart_sa();
	for (unsigned i = 0; i < 100; i++)
		sa_notices_doubt(&net.notices, net.now);
	pass(2);
	assert_int_equal(net.gets, 2);
	assert_int_equal(net.counts[SA_SM_RESTARTS], 1);
	pass(1002);
	assert_int_equal(subscriptions(), 4);
	assert_int_equal(net.gets, 3);
	sa_notices_doubt(&net.notices, net.now);
	pass(2);
	assert_int_equal(net.gets, 3);
}

static void a_new_sm_is_subscribed_to(void **state)
{
	setup();
	begin();
	pass(1002);
	memset(net.subscribed, 0, sizeof(net.subscribed));
	report(65, 3, 1);
	sa_notices_subscribe(&net.notices, net.now);
	pass(1002);
	assert_int_equal(subscriptions(), 4);
	/* It numbers its reports anew. */
	report(65, 3, 1);
	assert_int_equal(net.happened, 2);
}

static void what_is_subscribed_is_cancelled_at_the_end(void **state)
{
	setup();
	begin();
	pass(1002);
	assert_true(sa_notices_stop(&net.notices, net.now));
	pass(2);
	assert_true(sa_notices_stopped(&net.notices));
	assert_int_equal(subscriptions(), 0);
	assert_int_equal(net.sets, 8);
	/* Whoever unsubscribes names the QP (o13-12.1.1), and the same response time. */
	assert_int_equal(sa_get32(net.info + 28), 1 << 8 | 18);
	pass(2 * RENEWAL);
	assert_int_equal(net.sets, 8);
	/* What was on its way is still answered. */
	report(65, 3, 1);
	assert_int_equal(net.responses, 1);
}

static void an_end_before_the_first_subscription_waits_for_nothing(void **state)
{
	setup();
	begin();
	assert_false(sa_notices_stop(&net.notices, net.now));
	pass(2000);
	assert_int_equal(net.asked, 0);
}

static void subscriptions_survive_a_bad_wire(void **state)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		setup();
		net.random = net.attr.seed = seed;
		net.loss = net.duplicates = 30;
		begin();
		pass(60000);
		memset(net.subscribed, 0, sizeof(net.subscribed));
		pass(4 * RENEWAL);
		assert_int_equal(subscriptions(), 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_trap_is_subscribed_to_within_a_second),
		cmocka_unit_test(nodes_do_not_all_subscribe_at_once),
		cmocka_unit_test(without_notices_the_sa_hears_nothing),
		cmocka_unit_test(
			a_silent_sa_is_asked_at_growing_intervals_and_again_at_the_renewal),
		cmocka_unit_test(a_busy_sa_is_asked_again),
		cmocka_unit_test(an_sa_that_refuses_is_asked_again_at_the_renewal),
		cmocka_unit_test(a_report_is_answered_and_becomes_an_event),
		cmocka_unit_test(a_repeated_report_is_answered_again_and_has_no_effect),
		cmocka_unit_test(a_report_before_the_subscription_is_taken),
		cmocka_unit_test(reports_from_elsewhere_are_dropped),
		cmocka_unit_test(malformed_reports_are_dropped),
		cmocka_unit_test(forged_and_late_answers_change_nothing),
		cmocka_unit_test(subscriptions_are_renewed),
		cmocka_unit_test(an_sm_that_was_restarted_is_noticed_and_subscribed_to_again),
		cmocka_unit_test(an_sm_that_has_sent_more_since_its_restart_is_not_noticed),
		cmocka_unit_test(another_sm_at_the_same_lid_is_noticed),
		cmocka_unit_test(who_was_away_notices_another_sm),
		cmocka_unit_test(a_new_sm_that_is_known_of_is_not_told_of_again),
		cmocka_unit_test(an_sm_that_is_not_the_expected_one_is_noticed),
		cmocka_unit_test(an_act_count_may_begin_at_0_again),
		cmocka_unit_test(an_sm_that_does_not_tell_is_subscribed_to_all_the_same),
		cmocka_unit_test(doubt_asks_the_sm_at_once_but_seldom),
		cmocka_unit_test(a_new_sm_is_subscribed_to),
		cmocka_unit_test(what_is_subscribed_is_cancelled_at_the_end),
		cmocka_unit_test(an_end_before_the_first_subscription_waits_for_nothing),
		cmocka_unit_test(subscriptions_survive_a_bad_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

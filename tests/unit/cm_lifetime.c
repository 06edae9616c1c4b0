// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What time does to connections (IBTA vol. 1, 12.9.8): retries, timeouts, time-wait; and how
 * identifiers end: destroyed in every state, under a flood of requests, with their process. The
 * clock is the test's.
 */
#include "cm_test.h"

#define TIMEOUT_NS (4096ull << TIMEOUT)
#define LIFE_NS	   (4096ull << LIFE)

/* A message repeated after each period, so many times, and then nothing for ever. */
static void assert_repeated(enum urxe_cm_attr attr, uint64_t period, unsigned times)
{
	for (unsigned i = 0; i < times; i++) {
		clear_logs();
		pass(period - 2 * MS);
		assert_int_equal(b.num_sent, 0);
		pass(2 * MS + TURN_OF_SLOT);
		assert_int_equal(b.num_sent, 1);
		assert_int_equal(last_sent()->attr, attr);
		assert_int_equal(b.num_events, 0);
	}
	clear_logs();
	pass(period + TURN_OF_SLOT);
}

/* 12.9.8.5: two lives of a packet and the peer's response time */
static void test_req_is_repeated(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REQ_SENT);

	assert_repeated(URXE_CM_REQ, TIMEOUT_NS + 2 * LIFE_NS, RETRIES);
	assert_int_equal(last_event()->event.type, URXE_CM_REQ_ERROR);
	assert_int_equal(b.num_events, 1);
	assert_int_equal(state_of(id), URXE_CM_IDLE);
	assert_int_equal(b.num_sent, 1);
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	assert_int_equal(last_sent()->rej.reason, URXE_CM_REJ_TIMEOUT);
	assert_int_equal(last_sent()->rej.ari_len, 8);
	assert_memory_equal(last_sent()->rej.ari, &b.dev.guid, 8);
	assert_true(urxe_cm_deadline(b.cm) == UINT64_MAX);
	/* and it can be tried again */
	send_req(id);
	assert_int_equal(state_of(id), URXE_CM_REQ_SENT);
}

/* 12.9.8.5: what the REQ said that its sender needs */
static void test_rep_is_repeated(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REP_SENT);

	assert_repeated(URXE_CM_REP, TIMEOUT_NS, RETRIES);
	assert_int_equal(b.events[0].event.type, URXE_CM_REP_ERROR);
	assert_int_equal(b.sent[0].rej.reason, URXE_CM_REJ_TIMEOUT);
	assert_int_equal(b.sent[0].remote_id, PEER_ID);
	assert_int_equal(state_of(id), URXE_CM_TIMEWAIT);
	/* the peer may have got them all, and its RTUs been lost */
	clear_logs();
	pass(TIMEOUT_NS + TURN_OF_SLOT);
	assert_int_equal(last_sent()->attr, URXE_CM_DREQ);
	feed_attr(URXE_CM_DREP, id);
	assert_int_equal(b.num_events, 0);
}

/*
 * Nobody acknowledges a REJ, and a peer that has the REP may hold the connection for established. A
 * DREQ goes after it until it is answered; the consumer sees time-wait all the while.
 */
static void test_refusal_after_the_rep_is_made_sure_of(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REP_SENT);

	assert_int_equal(urxe_cm_send_rej(id, 28, NULL, 0, b.now), 0);
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	assert_int_equal(last_sent()->rej.about, URXE_CM_ABOUT_REQ);
	assert_int_equal(state_of(id), URXE_CM_TIMEWAIT);
	assert_repeated(URXE_CM_DREQ, TIMEOUT_NS, 2);
	clear_logs();
	/* the peer's REQ, should it have no REP */
	feed_req();
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	feed_attr(URXE_CM_DREQ, id);
	assert_int_equal(last_sent()->attr, URXE_CM_DREP);
	assert_int_equal(state_of(id), URXE_CM_TIMEWAIT);
	assert_int_equal(b.num_events, 0);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(b.num_events, 1);
	assert_int_equal(last_event()->event.type, URXE_CM_TIMEWAIT_EXIT);
	assert_int_equal(state_of(id), URXE_CM_IDLE);
}

static void test_dreq_is_repeated(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_DREQ_SENT);

	assert_repeated(URXE_CM_DREQ, TIMEOUT_NS + 2 * LIFE_NS, RETRIES);
	assert_int_equal(b.events[0].event.type, URXE_CM_DREQ_ERROR);
	assert_int_equal(state_of(id), URXE_CM_TIMEWAIT);
}

static void test_sidr_req_is_repeated(void **state)
{
	struct urxe_cm_path path = our_path();
	struct urxe_cm_msg req = our_sidr_req();
	struct urxe_cm_id *id = new_id();

	assert_int_equal(urxe_cm_send_sidr_req(id, &path, TIMEOUT, RETRIES, &req, b.now), 0);
	assert_repeated(URXE_CM_SIDR_REQ, TIMEOUT_NS, RETRIES);
	assert_int_equal(b.events[0].event.type, URXE_CM_SIDR_REQ_ERROR);
	assert_int_equal(state_of(id), URXE_CM_IDLE);
}

/* 12.9.8.6: the MRA grants its service timeout and the way back */
static void test_mra_prolongs(void **state)
{
	into(URXE_CM_MRA_REQ_RCVD);
	clear_logs();
	pass((4 * TIMEOUT_NS) + LIFE_NS);
	assert_int_equal(b.num_sent, 0);
	pass(LIFE_NS + TURN_OF_SLOT);
	assert_int_equal(last_sent()->attr, URXE_CM_REQ);
}

static void test_delayed_mra_answers_only_a_repeated_req(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REQ_RCVD);

	assert_int_equal(urxe_cm_send_mra(id, 20 | URXE_CM_MRA_DELAY), 0);
	assert_int_equal(b.num_sent, 0);
	feed_req();
	assert_int_equal(last_sent()->attr, URXE_CM_MRA);
	assert_int_equal(last_sent()->mra.service_timeout, 20);
}

/* 12.9.8.4 */
static void test_timewait_ends(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_TIMEWAIT);

	clear_logs();
	pass((4096ull << 13) - 2 * MS); /* two lives of a packet; the peer's delay is less */
	assert_int_equal(b.num_events, 0);
	pass(2 * MS + TURN_OF_SLOT);
	assert_int_equal(last_event()->event.type, URXE_CM_TIMEWAIT_EXIT);
	assert_int_equal(state_of(id), URXE_CM_IDLE);
	assert_int_equal(b.num_sent, 0);
	/* the peer does not know it, and is told so as often as it asks */
	feed_attr(URXE_CM_DREQ, id);
	assert_int_equal(last_sent()->attr, URXE_CM_DREP);
}

/* 12.9.7.2: data arrived on the QP, so the peer is ready whatever became of its RTU */
static void test_rtu_implied_by_data(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REP_SENT);

	clear_logs();
	assert_int_equal(urxe_cm_notify_established(id, b.now), 0);
	assert_int_equal(b.num_events, 0);
	assert_int_equal(urxe_cm_deadline(b.cm), 0);
	assert_int_equal(urxe_cm_notify_established(id, b.now), -EISCONN);
	feed_attr(URXE_CM_RTU, id);
	urxe_cm_run(b.cm, b.now);
	assert_int_equal(b.num_events, 1);
	assert_int_equal(last_event()->event.type, URXE_CM_USER_ESTABLISHED);
	assert_int_equal(state_of(id), URXE_CM_ESTABLISHED);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(b.num_sent, 0);
	assert_int_equal(urxe_cm_notify_established(new_id(), b.now), -EINVAL);
}

static void test_no_established_event_after_its_end(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REP_SENT);

	assert_int_equal(urxe_cm_notify_established(id, b.now), 0);
	clear_logs();
	feed_attr(URXE_CM_DREQ, id);
	urxe_cm_run(b.cm, b.now);
	assert_int_equal(b.num_events, 1);
	assert_int_equal(last_event()->event.type, URXE_CM_DREQ_RECEIVED);
}

/* What destroying says, by state, and how much is left of the identifier. */
static const struct {
	enum urxe_cm_state state;
	int attr;
	uint16_t reason;
	bool lingers;
} goodbyes[] = {
	{URXE_CM_IDLE, 0, 0, false},
	{URXE_CM_REQ_SENT, URXE_CM_REJ, URXE_CM_REJ_TIMEOUT, false},
	{URXE_CM_MRA_REQ_RCVD, URXE_CM_REJ, URXE_CM_REJ_TIMEOUT, false},
	{URXE_CM_REQ_RCVD, URXE_CM_REJ, URXE_CM_REJ_CONSUMER_DEFINED, false},
	{URXE_CM_MRA_REQ_SENT, URXE_CM_REJ, URXE_CM_REJ_CONSUMER_DEFINED, false},
	{URXE_CM_REP_RCVD, URXE_CM_REJ, URXE_CM_REJ_CONSUMER_DEFINED, false},
	{URXE_CM_MRA_REP_SENT, URXE_CM_REJ, URXE_CM_REJ_CONSUMER_DEFINED, false},
	{URXE_CM_REP_SENT, URXE_CM_REJ, URXE_CM_REJ_CONSUMER_DEFINED, true},
	{URXE_CM_MRA_REP_RCVD, URXE_CM_REJ, URXE_CM_REJ_CONSUMER_DEFINED, true},
	{URXE_CM_ESTABLISHED, URXE_CM_DREQ, 0, true},
	{URXE_CM_DREQ_SENT, 0, 0, true},
	{URXE_CM_DREQ_RCVD, URXE_CM_DREP, 0, true},
	{URXE_CM_TIMEWAIT, 0, 0, true},
};

static void test_destroy_in_every_state(void **state)
{
	for (unsigned i = 0; i < sizeof(goodbyes) / sizeof(goodbyes[0]); i++) {
		struct urxe_cm_id *id;

		bench_open(0);
		id = into(goodbyes[i].state);
		clear_logs();
		urxe_cm_id_destroy(id);
		assert_int_equal(b.num_sent, goodbyes[i].attr != 0);
		if (goodbyes[i].attr) {
			assert_int_equal(last_sent()->attr, goodbyes[i].attr);
			if (goodbyes[i].reason)
				assert_int_equal(last_sent()->rej.reason, goodbyes[i].reason);
		}
		assert_int_equal(ids(), goodbyes[i].lingers);
		/* in the end nothing is left of it, and nobody was told anything */
		pass(20 * TIMEOUT_NS);
		assert_int_equal(ids(), 0);
		assert_int_equal(b.num_events, 0);
		assert_true(urxe_cm_deadline(b.cm) == UINT64_MAX);
		for (unsigned k = 0; k < b.num_records; k++)
			assert_false(b.recorded[k]);
		urxe_cm_destroy(b.cm);
	}
}

/* The whole manager goes, whatever there is, and says nothing. */
static void test_manager_ends_in_every_state(void **state)
{
	for (enum urxe_cm_state s = URXE_CM_IDLE; s <= URXE_CM_TIMEWAIT; s++) {
		bench_open(0);
		into(s);
		clear_logs();
		urxe_cm_destroy(b.cm);
		assert_int_equal(b.num_sent + b.num_events, 0);
	}
	bench_open(0);
	urxe_cm_destroy(b.cm);
}

static void test_dreq_goes_on_after_its_consumer(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_ESTABLISHED);

	pass(1000 * MS);
	urxe_cm_id_destroy(id);
	assert_repeated(URXE_CM_DREQ, TIMEOUT_NS + 2 * LIFE_NS, RETRIES);
	assert_int_equal(b.num_events, 0);
}

static void test_nobody_is_left_to_answer_a_dreq(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_ESTABLISHED);

	urxe_cm_id_destroy(id);
	clear_logs();
	feed_attr(URXE_CM_DREQ, id);
	assert_int_equal(b.num_sent, 1);
	assert_int_equal(last_sent()->attr, URXE_CM_DREP);
	assert_int_equal(state_of(id), URXE_CM_TIMEWAIT);
	assert_int_equal(b.num_events, 0);
}

static void test_handler_refuses(void **state)
{
	b.answer = -EINVAL;
	feed_req();
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	assert_int_equal(last_sent()->rej.reason, URXE_CM_REJ_CONSUMER_DEFINED);
	assert_int_equal(ids(), 0);
}

/* A REJ would end it; without one the next REQ may find memory. */
static void test_handler_without_memory(void **state)
{
	b.answer = -ENOMEM;
	feed_req();
	assert_int_equal(b.num_sent, 0);
	assert_int_equal(ids(), 0);
	feed_req();
	assert_int_equal(b.num_events, 2);
	assert_int_equal(ids(), 1);
}

static void test_handler_destroys_its_own(void **state)
{
	struct urxe_cm_id *id;

	b.destroy_in_handler = true;
	feed_req();
	assert_int_equal(last_sent()->rej.reason, URXE_CM_REJ_CONSUMER_DEFINED);
	assert_int_equal(ids(), 0);
	id = into(URXE_CM_DREQ_SENT);
	b.destroy_in_handler = true;
	feed_attr(URXE_CM_DREQ, id);
	assert_int_equal(last_sent()->attr, URXE_CM_DREP);
	pass(20 * TIMEOUT_NS);
	/* and to be on the safe side, both at once */
	id = into(URXE_CM_REQ_RCVD);
	b.destroy_in_handler = true;
	b.answer = 1;
	feed_attr(URXE_CM_REJ, id);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(ids(), 0);
}

static void flood(unsigned from, unsigned n)
{
	struct urxe_cm_msg msg = peer_req();

	for (unsigned i = 0; i < n; i++) {
		msg.local_id = (from + i) << 8 | 0x55;
		msg.req.local_qpn = 0x1000 + (from + i) % 0xff0000;
		msg.req.local_ca_guid = from + i;
		feed(&msg);
	}
}

/* 100,000 forged requests cost what max_pending allows, and disturb nobody. */
static void test_flood(void **state)
{
	struct urxe_cm_counts counts;
	struct urxe_cm_id *id;

	urxe_cm_destroy(b.cm);
	bench_open(1000);
	id = into(URXE_CM_ESTABLISHED);
	flood(1, 100000);
	urxe_cm_counts(b.cm, &counts);
	assert_int_equal(counts.ids, 1001);
	assert_int_equal(counts.pending, 1000);
	assert_int_equal(counts.refused, 99000);
	assert_int_equal(state_of(id), URXE_CM_ESTABLISHED);
	clear_logs();
	feed_attr(URXE_CM_DREQ, id);
	assert_int_equal(last_event()->event.type, URXE_CM_DREQ_RECEIVED);
	assert_ptr_equal(last_event()->id, id);
}

/* Ten thousand connections, each with its timers, and none left in the end. */
static void test_many_connections(void **state)
{
	static struct urxe_cm_id *all[10000];
	struct urxe_cm_msg msg;

	for (unsigned i = 0; i < 10000; i++) {
		all[i] = into(URXE_CM_REQ_SENT);
		msg = peer_msg(URXE_CM_REP, all[i]);
		msg.local_id = i << 8 | 0x55;
		msg.rep.local_qpn = 0x1000 + i;
		feed(&msg);
		assert_int_equal(urxe_cm_send_rtu(all[i]), 0);
	}
	assert_int_equal(ids(), 10000);
	for (unsigned i = 0; i < 10000; i++)
		urxe_cm_id_destroy(all[i]);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(ids(), 0);
}

/* From the REQ until the end of the connection, with what is known by then. */
static void test_records(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REQ_SENT);
	const struct urxe_cm_record *r = &b.records[1];

	assert_int_equal(b.num_records, 1);
	assert_int_equal(b.records[0].state, URXE_CM_REQ_SENT);
	assert_int_equal(b.records[0].remote_id, 0);
	feed_attr(URXE_CM_REP, id);
	assert_int_equal(b.num_records, 2);
	assert_int_equal(r->state, URXE_CM_ESTABLISHED);
	assert_int_equal(r->local_id, id->local_id);
	assert_int_equal(r->remote_id, PEER_ID);
	assert_int_equal(r->local_qpn, OUR_QPN);
	assert_int_equal(r->remote_qpn, PEER_QPN);
	assert_memory_equal(&r->path.src, &b.ours, 16);
	assert_memory_equal(&r->path.dst, &b.peers, 16);
	assert_int_equal(r->path.port, PORT);
	assert_int_equal(r->retries, RETRIES);
	assert_int_equal(r->response_timeout, TIMEOUT + 1);
	assert_int_equal(urxe_cm_send_rtu(id), 0);
	assert_int_equal(urxe_cm_send_dreq(id, b.now), 0);
	assert_true(b.recorded[1]);
	feed_attr(URXE_CM_DREP, id);
	assert_false(b.recorded[0]);
	assert_false(b.recorded[1]);
	assert_int_equal(b.num_records, 2);
}

/* What its record has the survivors of a process send, as destroying the identifier would. */
static void test_adopted_record_is_refused(void **state)
{
	static const struct {
		enum urxe_cm_state state;
		uint16_t reason;
		enum urxe_cm_about about;
		bool dreq; /* follows */
	} rows[] = {
		{URXE_CM_REQ_SENT, URXE_CM_REJ_TIMEOUT, URXE_CM_ABOUT_OTHER, false},
		{URXE_CM_MRA_REQ_RCVD, URXE_CM_REJ_TIMEOUT, URXE_CM_ABOUT_OTHER, false},
		{URXE_CM_REQ_RCVD, URXE_CM_REJ_CONSUMER_DEFINED, URXE_CM_ABOUT_REQ, false},
		{URXE_CM_MRA_REQ_SENT, URXE_CM_REJ_CONSUMER_DEFINED, URXE_CM_ABOUT_REQ, false},
		{URXE_CM_REP_SENT, URXE_CM_REJ_CONSUMER_DEFINED, URXE_CM_ABOUT_REQ, true},
		{URXE_CM_MRA_REP_RCVD, URXE_CM_REJ_CONSUMER_DEFINED, URXE_CM_ABOUT_REQ, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct urxe_cm_record record;
		struct urxe_cm_counts counts;

		into(rows[i].state);
		assert_true(b.num_records > 0);
		record = b.records[b.num_records - 1];
		urxe_cm_destroy(b.cm);
		bench_open(0);
		assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), 0);
		assert_int_equal(b.num_sent, 1);
		assert_int_equal(last_sent()->attr, URXE_CM_REJ);
		assert_int_equal(last_sent()->rej.reason, rows[i].reason);
		assert_int_equal(last_sent()->rej.about, rows[i].about);
		assert_int_equal(last_sent()->remote_id, record.remote_id);
		pass(20 * TIMEOUT_NS);
		assert_int_equal(last_sent()->attr, rows[i].dreq ? URXE_CM_DREQ : URXE_CM_REJ);
		/* The first one may be lost, and nobody answers it. */
		if (!rows[i].dreq)
			assert_int_equal(b.num_sent, 4);
		urxe_cm_counts(b.cm, &counts);
		assert_int_equal(counts.ids, 0);
		assert_int_equal(counts.pending, 0);
		assert_int_equal(counts.unanswered, 0);
		assert_int_equal(b.num_records, 0);
	}
}

/* The peer was about to accept: it need not wait for the next REJ. */
static void test_rep_for_the_dead_is_refused(void **state)
{
	struct urxe_cm_record record;
	struct urxe_cm_id *id;

	into(URXE_CM_REQ_SENT);
	record = b.records[b.num_records - 1];
	urxe_cm_destroy(b.cm);
	bench_open(0);
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), 0);
	id = urxe_cm_local_find(b.cm, record.local_id);
	assert_non_null(id);
	feed_attr(URXE_CM_REP, id);
	assert_int_equal(b.num_sent, 2);
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	assert_int_equal(last_sent()->rej.reason, URXE_CM_REJ_INVALID_COMM_ID);
	assert_int_equal(b.num_events, 0);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(ids(), 0);
}

/* The process of a connection is gone; another one that has its record says so to the peer. */
static void test_adopted_record_is_disconnected(void **state)
{
	struct urxe_cm_record record;
	struct urxe_cm_id *id = into(URXE_CM_ESTABLISHED);

	record = b.records[b.num_records - 1];
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), -EEXIST);
	urxe_cm_destroy(b.cm);
	bench_open(0);
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), 0);
	assert_int_equal(last_sent()->attr, URXE_CM_DREQ);
	assert_int_equal(last_sent()->local_id, record.local_id);
	assert_int_equal(last_sent()->remote_id, PEER_ID);
	assert_int_equal(last_sent()->dreq.remote_qpn, PEER_QPN);
	assert_repeated(URXE_CM_DREQ, 2 * TIMEOUT_NS, 1);
	id = urxe_cm_local_find(b.cm, record.local_id);
	feed_attr(URXE_CM_DREP, id);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(ids(), 0);
	assert_int_equal(b.num_records, 0);
	assert_int_equal(b.num_events, 0);
}

static void test_adopted_record_gives_up(void **state)
{
	struct urxe_cm_record record = {.local_id = 0x77,
					.remote_id = 0x88,
					.retries = 2,
					.response_timeout = TIMEOUT,
					.state = URXE_CM_ESTABLISHED};

	record.path.dst.gid = b.peers;
	record.pkey = 0xffff;
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), 0);
	assert_repeated(URXE_CM_DREQ, TIMEOUT_NS, 2);
	pass(20 * TIMEOUT_NS);
	assert_int_equal(ids(), 0);
	record.remote_id = 0;
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), -EINVAL);
	record.remote_id = 0x88;
	record.state = URXE_CM_TIMEWAIT;
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), -EINVAL);
}

/* Many at once would push the messages of the living out of a receiver's buffer. */
static void test_many_adopted_leave_in_turn(void **state)
{
	struct urxe_cm_record record = {.remote_id = 0x88,
					.retries = 2,
					.response_timeout = 20,
					.state = URXE_CM_ESTABLISHED};
	struct urxe_cm_counts counts;
	unsigned before;

	record.path.dst.gid = b.peers;
	record.pkey = 0xffff;
	for (unsigned i = 1; i <= 1000; i++) {
		record.local_id = i << 8 | 0x77;
		assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), 0);
	}
	assert_in_range(b.num_sent, 32, 128);
	for (unsigned ms = 0; ms < 100 && b.num_sent < 1000; ms++) {
		before = b.num_sent;
		pass(10 * MS);
		assert_in_range(b.num_sent - before, 1, 400);
	}
	assert_int_equal(b.num_sent, 1000);
	urxe_cm_counts(b.cm, &counts);
	assert_int_equal(counts.retries, 0);

	/* All tries of each, and then the next adopted one need not wait. */
	pass(4 * urxe_cm_time(20));
	assert_int_equal(b.num_sent, 3000);
	record.local_id = 0x99;
	assert_int_equal(urxe_cm_adopt(b.cm, &record, b.now), 0);
	assert_int_equal(b.num_sent, 3001);
}

static struct urxe_cm_msg peer_sidr_req(void)
{
	return (struct urxe_cm_msg){.attr = URXE_CM_SIDR_REQ,
				    .tid = 9,
				    .local_id = PEER_ID,
				    .sidr_req = {.pkey = 0xffff, .service_id = SERVICE},
				    .private_data = "who"};
}

/* 12.11 */
static void test_sidr_passive(void **state)
{
	struct urxe_cm_msg msg = peer_sidr_req();
	struct urxe_cm_msg rep = {.attr = URXE_CM_SIDR_REP,
				  .sidr_rep = {.qpn = 0x1234, .qkey = 0x11111111},
				  .private_data = "me"};

	feed(&msg);
	feed(&msg);
	assert_int_equal(b.num_events, 1);
	assert_int_equal(last_event()->event.type, URXE_CM_SIDR_REQ_RECEIVED);
	assert_true(last_event()->event.service_id == SERVICE);
	assert_string_equal(last_event()->private_data, "who");
	assert_int_equal(urxe_cm_send_sidr_rep(b.passive, &rep), 0);
	assert_int_equal(last_sent()->attr, URXE_CM_SIDR_REP);
	assert_int_equal(last_sent()->local_id, PEER_ID);
	assert_int_equal(last_sent()->sidr_rep.qpn, 0x1234);
	assert_int_equal(last_sent()->sidr_rep.qkey, 0x11111111);
	assert_string_equal(last_sent()->private_data, "me");
	assert_true(last_sent()->sidr_rep.service_id == SERVICE);
	assert_int_equal(urxe_cm_send_sidr_rep(b.passive, &rep), -EINVAL);
	urxe_cm_id_destroy(b.passive);
	assert_int_equal(ids(), 0);
}

static void test_sidr_refused(void **state)
{
	struct urxe_cm_msg msg = peer_sidr_req();

	feed(&msg);
	urxe_cm_id_destroy(b.passive);
	assert_int_equal(last_sent()->sidr_rep.status, URXE_CM_SIDR_REJECT);
	b.listens = false;
	feed(&msg);
	assert_int_equal(last_sent()->sidr_rep.status, URXE_CM_SIDR_UNSUPPORTED);
	assert_int_equal(last_sent()->local_id, PEER_ID);
	assert_int_equal(ids(), 0);
}

static void test_sidr_active(void **state)
{
	struct urxe_cm_path path = our_path();
	struct urxe_cm_msg req = our_sidr_req();
	struct urxe_cm_id *id = new_id();
	struct in6_addr stranger = address(66);
	struct urxe_cm_msg msg = {
		.attr = URXE_CM_SIDR_REP,
		.local_id = id->local_id,
		.sidr_rep = {.qpn = 0x4321, .qkey = 7, .info_len = 2},
		.private_data = "told",
	};

	assert_int_equal(urxe_cm_send_sidr_req(id, &path, TIMEOUT, RETRIES, &req, b.now), 0);
	assert_string_equal(last_sent()->private_data, "ask");
	feed_from(&msg, &stranger);
	assert_int_equal(b.num_events, 0);
	feed(&msg);
	assert_int_equal(last_event()->event.type, URXE_CM_SIDR_REP_RECEIVED);
	assert_int_equal(last_event()->msg.sidr_rep.qpn, 0x4321);
	assert_int_equal(last_event()->msg.sidr_rep.qkey, 7);
	assert_int_equal(last_event()->msg.sidr_rep.info_len, 2);
	assert_string_equal(last_event()->private_data, "told");
	assert_int_equal(state_of(id), URXE_CM_IDLE);
	feed(&msg);
	assert_int_equal(b.num_events, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_req_is_repeated),
		TEST(test_rep_is_repeated),
		TEST(test_refusal_after_the_rep_is_made_sure_of),
		TEST(test_dreq_is_repeated),
		TEST(test_sidr_req_is_repeated),
		TEST(test_mra_prolongs),
		TEST(test_delayed_mra_answers_only_a_repeated_req),
		TEST(test_timewait_ends),
		TEST(test_rtu_implied_by_data),
		TEST(test_no_established_event_after_its_end),
		cmocka_unit_test(test_destroy_in_every_state),
		cmocka_unit_test(test_manager_ends_in_every_state),
		TEST(test_dreq_goes_on_after_its_consumer),
		TEST(test_nobody_is_left_to_answer_a_dreq),
		TEST(test_handler_refuses),
		TEST(test_handler_without_memory),
		TEST(test_handler_destroys_its_own),
		TEST(test_flood),
		TEST(test_many_connections),
		TEST(test_records),
		TEST(test_adopted_record_is_refused),
		TEST(test_rep_for_the_dead_is_refused),
		TEST(test_adopted_record_is_disconnected),
		TEST(test_adopted_record_gives_up),
		TEST(test_many_adopted_leave_in_turn),
		TEST(test_sidr_passive),
		TEST(test_sidr_refused),
		TEST(test_sidr_active),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The state machine of a connection: what each message does in each state (IBTA vol. 1, 12.9.7),
 * what it tells the consumer and what is answered. A pair of state and message that has no row must
 * change nothing.
 */
#include "cm/manager.h"
#include "cm_test.h"

/* Messages as the table names them. */
enum input { REQ, MRA_REQ, MRA_REP, REJ, REJ_STALE, REP, RTU, DREQ, DREP, INPUTS };

static const char *const input_names[] = {
	"REQ", "MRA of the REQ", "MRA of the REP", "REJ", "REJ (stale)", "REP",
	"RTU", "DREQ",		 "DREP",
};

#define NO_EVENT -1
#define NO_REPLY 0

struct row {
	enum urxe_cm_state state;
	enum input input;
	enum urxe_cm_state next;
	int reply; /* enum urxe_cm_attr */
	int event; /* enum urxe_cm_event_type */
	const char *section;
};

#define S(state) URXE_CM_##state
static const struct row rows[] = {
	/* active */
	{S(REQ_SENT), MRA_REQ, S(MRA_REQ_RCVD), NO_REPLY, S(MRA_RECEIVED), "12.9.7.1"},
	{S(REQ_SENT), REP, S(REP_RCVD), NO_REPLY, S(REP_RECEIVED), "12.9.7.1"},
	{S(REQ_SENT), REJ, S(IDLE), NO_REPLY, S(REJ_RECEIVED), "12.9.7.1"},
	{S(REQ_SENT), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.8.3.1"},
	{S(MRA_REQ_RCVD), MRA_REQ, S(MRA_REQ_RCVD), NO_REPLY, NO_EVENT, "12.9.8.6"},
	{S(MRA_REQ_RCVD), REP, S(REP_RCVD), NO_REPLY, S(REP_RECEIVED), "12.9.7.1"},
	{S(MRA_REQ_RCVD), REJ, S(IDLE), NO_REPLY, S(REJ_RECEIVED), "12.9.7.1"},
	{S(MRA_REQ_RCVD), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.8.3.1"},
	{S(REP_RCVD), REJ, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7.1"},
	{S(REP_RCVD), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7.1"},
	{S(MRA_REP_SENT), REP, S(MRA_REP_SENT), URXE_CM_MRA, NO_EVENT, "12.9.8.6"},
	{S(MRA_REP_SENT), REJ, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7.1"},
	{S(MRA_REP_SENT), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7.1"},
	/* that connection is none yet: maybe the peer's end of it outlived us once */
	{S(REQ_SENT), DREQ, S(REQ_SENT), URXE_CM_DREP, NO_EVENT, "12.9.8.4"},
	{S(REQ_SENT), RTU, S(REQ_SENT), URXE_CM_REJ, NO_EVENT, "12.9.8.3"},
	{S(MRA_REQ_RCVD), RTU, S(MRA_REQ_RCVD), URXE_CM_REJ, NO_EVENT, "12.9.8.3"},
	{S(MRA_REQ_RCVD), DREQ, S(MRA_REQ_RCVD), URXE_CM_DREP, NO_EVENT, "12.9.8.4"},
	/* passive */
	{S(REQ_RCVD), REJ, S(IDLE), NO_REPLY, S(REJ_RECEIVED), "12.9.7.2"},
	{S(REQ_RCVD), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7.2"},
	{S(MRA_REQ_SENT), REQ, S(MRA_REQ_SENT), URXE_CM_MRA, NO_EVENT, "12.9.8.6"},
	{S(MRA_REQ_SENT), REJ, S(IDLE), NO_REPLY, S(REJ_RECEIVED), "12.9.7.2"},
	{S(MRA_REQ_SENT), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7.2"},
	{S(REP_SENT), REQ, S(REP_SENT), URXE_CM_REP, NO_EVENT, "12.9.8.5"},
	{S(REP_SENT), MRA_REP, S(MRA_REP_RCVD), NO_REPLY, S(MRA_RECEIVED), "12.9.7.2"},
	{S(REP_SENT), RTU, S(ESTABLISHED), NO_REPLY, S(RTU_RECEIVED), "12.9.7.2"},
	{S(REP_SENT), REJ, S(IDLE), NO_REPLY, S(REJ_RECEIVED), "12.9.7.2"},
	{S(REP_SENT), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.8.3.1"},
	{S(REP_SENT), DREQ, S(DREQ_RCVD), NO_REPLY, S(DREQ_RECEIVED), "12.9.7.2"},
	{S(MRA_REP_RCVD), REQ, S(MRA_REP_RCVD), URXE_CM_REP, NO_EVENT, "12.9.8.5"},
	{S(MRA_REP_RCVD), MRA_REP, S(MRA_REP_RCVD), NO_REPLY, NO_EVENT, "12.9.8.6"},
	{S(MRA_REP_RCVD), RTU, S(ESTABLISHED), NO_REPLY, S(RTU_RECEIVED), "12.9.7.2"},
	{S(MRA_REP_RCVD), REJ, S(IDLE), NO_REPLY, S(REJ_RECEIVED), "12.9.7.2"},
	{S(MRA_REP_RCVD), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.8.3.1"},
	{S(MRA_REP_RCVD), DREQ, S(DREQ_RCVD), NO_REPLY, S(DREQ_RECEIVED), "12.9.7.2"},
	/* both */
	{S(ESTABLISHED), REP, S(ESTABLISHED), URXE_CM_RTU, NO_EVENT, "12.9.8.5"},
	{S(ESTABLISHED), DREQ, S(DREQ_RCVD), NO_REPLY, S(DREQ_RECEIVED), "12.9.7"},
	{S(ESTABLISHED), REJ, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7"},
	{S(ESTABLISHED), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7"},
	{S(DREQ_SENT), DREP, S(TIMEWAIT), NO_REPLY, S(DREP_RECEIVED), "12.9.7"},
	{S(DREQ_SENT), DREQ, S(DREQ_RCVD), NO_REPLY, S(DREQ_RECEIVED), "12.9.7"},
	{S(DREQ_SENT), REJ, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7"},
	{S(DREQ_SENT), REJ_STALE, S(TIMEWAIT), NO_REPLY, S(REJ_RECEIVED), "12.9.7"},
	{S(DREQ_RCVD), DREP, S(TIMEWAIT), NO_REPLY, S(DREP_RECEIVED), "12.9.7"},
	{S(TIMEWAIT), DREQ, S(TIMEWAIT), URXE_CM_DREP, NO_EVENT, "12.9.8.4"},
	{S(TIMEWAIT), REQ, S(TIMEWAIT), URXE_CM_REJ, NO_EVENT, "12.9.8.4"},
	/* an identifier without a connection is like none */
	{S(IDLE), REP, S(IDLE), URXE_CM_REJ, NO_EVENT, "12.9.8.3"},
	{S(IDLE), RTU, S(IDLE), URXE_CM_REJ, NO_EVENT, "12.9.8.3"},
	{S(IDLE), DREQ, S(IDLE), URXE_CM_DREP, NO_EVENT, "12.9.8.4"},
};
#define NUM_ROWS (sizeof(rows) / sizeof(rows[0]))

static void feed_input(enum input input, const struct urxe_cm_id *id)
{
	static const enum urxe_cm_attr attrs[INPUTS] = {
		[REP] = URXE_CM_REP,   [RTU] = URXE_CM_RTU, [DREQ] = URXE_CM_DREQ,
		[DREP] = URXE_CM_DREP, [REJ] = URXE_CM_REJ, [REJ_STALE] = URXE_CM_REJ,
	};
	struct urxe_cm_msg msg;

	switch (input) {
	case REQ: feed_req(); return;
	case MRA_REQ: feed_mra(URXE_CM_ABOUT_REQ, id); return;
	case MRA_REP: feed_mra(URXE_CM_ABOUT_REP, id); return;
	default:
		msg = peer_msg(attrs[input], id);
		if (input == REJ_STALE)
			msg.rej.reason = URXE_CM_REJ_STALE_CONN;
		feed(&msg);
	}
}

/* One row. */
static void test_row(void **state)
{
	const struct row *row = *state;
	struct urxe_cm_id *id;

	bench_open(0);
	id = into(row->state);
	assert_int_equal(state_of(id), row->state);
	clear_logs();
	feed_input(row->input, id);
	assert_int_equal(state_of(id), row->next);
	assert_int_equal(b.num_sent, row->reply != NO_REPLY);
	if (row->reply != NO_REPLY) {
		assert_int_equal(last_sent()->attr, row->reply);
		assert_true(IN6_ARE_ADDR_EQUAL(&b.sent_path.dst.gid, &b.peers));
		assert_true(IN6_ARE_ADDR_EQUAL(&b.sent_path.src.gid, &b.ours));
	}
	assert_int_equal(b.num_events, row->event != NO_EVENT);
	if (row->event != NO_EVENT) {
		assert_int_equal(last_event()->event.type, row->event);
		assert_ptr_equal(last_event()->id, id);
		assert_string_equal(last_event()->private_data, "peer");
	}
	urxe_cm_destroy(b.cm);
}

static bool has_row(enum urxe_cm_state state, enum input input)
{
	for (unsigned i = 0; i < NUM_ROWS; i++) {
		if (rows[i].state == state && rows[i].input == input)
			return true;
	}
	return false;
}

static void test_all_else_changes_nothing(void **state)
{
	for (enum urxe_cm_state s = URXE_CM_IDLE; s <= URXE_CM_TIMEWAIT; s++) {
		for (enum input input = REQ; input < INPUTS; input++) {
			struct urxe_cm_id *id;
			uint64_t deadline;

			/* A REQ to those who did not get it before is a new connection. */
			if (has_row(s, input) ||
			    (input == REQ && (s == URXE_CM_IDLE || s == URXE_CM_REQ_SENT ||
					      s == URXE_CM_MRA_REQ_RCVD)))
				continue;
			bench_open(0);
			id = into(s);
			clear_logs();
			deadline = urxe_cm_deadline(b.cm);
			feed_input(input, id);
			if (state_of(id) != s || b.num_sent || b.num_events ||
			    urxe_cm_deadline(b.cm) != deadline)
				fail_msg("%s in state %d", input_names[input], s);
			urxe_cm_destroy(b.cm);
		}
	}
}

/* Nothing that comes from elsewhere, or about another communication ID, concerns us. */
static void test_strangers_change_nothing(void **state)
{
	struct in6_addr stranger = address(66);

	for (enum urxe_cm_state s = URXE_CM_REQ_SENT; s <= URXE_CM_TIMEWAIT; s++) {
		for (enum urxe_cm_attr attr = URXE_CM_MRA; attr <= URXE_CM_DREP; attr++) {
			struct urxe_cm_msg msg;
			struct urxe_cm_id *id;

			bench_open(0);
			id = into(s);
			clear_logs();
			msg = peer_msg(attr, id);
			feed_from(&msg, &stranger);
			if (s != URXE_CM_REQ_SENT && s != URXE_CM_MRA_REQ_RCVD) {
				msg.local_id = PEER_ID + 256;
				feed(&msg);
			}
			assert_int_equal(state_of(id), s);
			assert_int_equal(b.num_events, 0);
			urxe_cm_destroy(b.cm);
		}
	}
}

/* 12.9.8.3: nobody has that communication ID */
static void test_rep_for_nobody_is_rejected(void **state)
{
	struct urxe_cm_msg msg = peer_msg(URXE_CM_REP, NULL);

	feed(&msg);
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	assert_int_equal(last_sent()->rej.reason, URXE_CM_REJ_INVALID_COMM_ID);
	assert_int_equal(last_sent()->rej.about, URXE_CM_ABOUT_REP);
	assert_int_equal(last_sent()->remote_id, PEER_ID);
	assert_int_equal(last_sent()->local_id, msg.remote_id);
}

static void test_dreq_for_nobody_is_answered(void **state)
{
	struct urxe_cm_msg msg = peer_msg(URXE_CM_DREQ, NULL);

	feed(&msg);
	assert_int_equal(last_sent()->attr, URXE_CM_DREP);
	assert_int_equal(last_sent()->remote_id, PEER_ID);
	assert_int_equal(last_sent()->local_id, msg.remote_id);
	assert_true(last_sent()->tid == msg.tid);
}

/* 12.6.10: the DREQ names the QP that it means */
static void test_dreq_for_another_qp_is_ignored(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_ESTABLISHED);
	struct urxe_cm_msg msg = peer_msg(URXE_CM_DREQ, id);

	msg.dreq.remote_qpn++;
	clear_logs();
	feed(&msg);
	assert_int_equal(state_of(id), URXE_CM_ESTABLISHED);
	assert_int_equal(b.num_sent + b.num_events, 0);
}

static bool is_others(const struct urxe_cm_msg *msg)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_path path = {.src.gid = b.peers, .dst.gid = b.ours, .port = PORT};
	struct urxe_cm_rx rx = {.mad = mad, .path = &path};

	urxe_cm_encode(mad, msg);
	return urxe_cm_is_others(b.cm, &rx);
}

/* 12.6.7.2: after a timeout the sender may know no communication ID but its own */
static void test_rej_timeout_names_its_sender(void **state)
{
	uint64_t guid = htobe64(PEER_GUID);
	struct urxe_cm_msg msg = peer_msg(URXE_CM_REJ, NULL);
	struct urxe_cm_id *id = into(URXE_CM_REQ_RCVD);

	msg.remote_id = 0;
	assert_false(is_others(&msg));
	msg.rej.reason = URXE_CM_REJ_TIMEOUT;
	feed(&msg);
	assert_int_equal(state_of(id), URXE_CM_REQ_RCVD);
	msg.rej.ari_len = 8;
	memcpy(msg.rej.ari, &guid, 8);
	assert_false(is_others(&msg));
	msg.local_id++;
	assert_true(is_others(&msg));
	msg.remote_id = 0x500;
	assert_false(is_others(&msg));
	msg.remote_id = 0;
	msg.local_id--;
	feed(&msg);
	assert_int_equal(state_of(id), URXE_CM_IDLE);
	assert_int_equal(last_event()->msg.rej.reason, URXE_CM_REJ_TIMEOUT);
	assert_int_equal(last_event()->msg.rej.ari_len, 8);
}

/* A REJ of the REQ that was delayed, after the connection has been made, is about nothing. */
static void test_late_rej_of_the_req(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_ESTABLISHED);
	struct urxe_cm_msg msg = peer_msg(URXE_CM_REJ, id);

	msg.local_id = 0;
	msg.rej.about = URXE_CM_ABOUT_REQ;
	feed(&msg);
	assert_int_equal(state_of(id), URXE_CM_ESTABLISHED);
}

static void assert_rejected(uint16_t reason)
{
	assert_int_equal(b.num_events, 0);
	assert_int_equal(b.num_sent, 1);
	assert_int_equal(last_sent()->attr, URXE_CM_REJ);
	assert_int_equal(last_sent()->rej.reason, reason);
	assert_int_equal(last_sent()->rej.about, URXE_CM_ABOUT_REQ);
	assert_int_equal(last_sent()->remote_id, PEER_ID);
	assert_int_equal(last_sent()->local_id, 0);
	assert_int_equal(ids(), 0);
}

static void test_req_without_listener(void **state)
{
	b.listens = false;
	feed_req();
	assert_rejected(URXE_CM_REJ_INVALID_SERVICE_ID);
}

static void test_req_of_another_transport(void **state)
{
	struct urxe_cm_msg msg = peer_req();

	msg.req.transport = URXE_CM_RD;
	feed(&msg);
	assert_rejected(URXE_CM_REJ_INVALID_TRANSPORT_TYPE);
}

static void test_req_with_impossible_mtu(void **state)
{
	struct urxe_cm_msg msg = peer_req();

	msg.req.mtu = 6;
	feed(&msg);
	assert_rejected(URXE_CM_REJ_INVALID_MTU);
}

static void test_req_about_another_gid(void **state)
{
	struct urxe_cm_msg msg = peer_req();

	msg.req.primary.remote_gid[15]++;
	feed(&msg);
	assert_rejected(URXE_CM_REJ_INVALID_GID);
	assert_int_equal(last_sent()->rej.ari_len, 16);
	assert_memory_equal(last_sent()->rej.ari, &b.ours, 16);
}

static void test_req_event_has_everything(void **state)
{
	struct urxe_cm_msg msg = peer_req();
	const struct urxe_cm_event *req;

	msg.req.transport = URXE_CM_UC;
	msg.req.srq = 1;
	msg.req.flow_control = 1;
	msg.req.vendor_id = 0x15b3;
	msg.attr_mod = 0x1234;
	feed(&msg);
	assert_int_equal(last_event()->event.type, URXE_CM_REQ_RECEIVED);
	req = &last_event()->event;
	assert_ptr_equal(urxe_cm_id_context(last_event()->id), &b);
	assert_true(IN6_ARE_ADDR_EQUAL(&req->path.av.dst.gid, &b.peers));
	assert_true(IN6_ARE_ADDR_EQUAL(&req->path.av.src.gid, &b.ours));
	assert_int_equal(req->path.av.port, PORT);
	assert_int_equal(req->path.av.roce_own.flow_label, 9);
	assert_int_equal(req->path.av.roce.traffic_class, 8);
	assert_int_equal(req->path.av.roce.hop_limit, 64);
	assert_int_equal(req->path.mtu, IBV_MTU_1024);
	assert_int_equal(req->path.rate, IBV_RATE_10_GBPS);
	assert_int_equal(req->path.packet_life_time, LIFE);
	assert_int_equal(req->path.pkey, 0xffff);
	assert_true(req->service_id == SERVICE);
	assert_int_equal(req->remote_qpn, PEER_QPN);
	assert_int_equal(req->qp_type, IBV_QPT_UC);
	assert_int_equal(last_event()->msg.req.starting_psn, 0x111);
	assert_int_equal(req->responder_resources, 2);
	assert_int_equal(req->initiator_depth, 4);
	assert_int_equal(last_event()->msg.req.vendor_id, 0x15b3);
	assert_int_equal(last_event()->msg.attr_mod, 0x1234);
	assert_string_equal(last_event()->private_data, "hello");
	assert_int_equal(last_event()->event.private_data_len, URXE_CM_REQ_PRIVATE);
}

static void test_rep_event_has_everything(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REQ_SENT);
	struct urxe_cm_msg msg = peer_msg(URXE_CM_REP, id);

	msg.rep.vendor_id = 0xabcdef;
	msg.rep.srq = 1;
	msg.attr_mod = 7;
	feed(&msg);
	assert_int_equal(last_event()->event.remote_qpn, PEER_QPN);
	assert_int_equal(last_event()->msg.rep.starting_psn, 0x222);
	assert_int_equal(last_event()->event.responder_resources, 1);
	assert_int_equal(last_event()->event.initiator_depth, 3);
	assert_int_equal(last_event()->msg.rep.vendor_id, 0xabcdef);
	assert_int_equal(last_event()->msg.attr_mod, 7);
}

static void test_what_a_req_says(void **state)
{
	const struct urxe_cm_msg *msg;

	into(URXE_CM_REQ_SENT);
	msg = last_sent();
	assert_int_equal(msg->attr, URXE_CM_REQ);
	assert_int_equal(msg->local_id & 0xff, SLOT);
	assert_true(msg->req.service_id == SERVICE);
	assert_true(msg->req.local_ca_guid == 0xaabbccddeeff0011ull);
	assert_int_equal(msg->req.local_qpn, OUR_QPN);
	assert_int_equal(msg->req.responder_resources, 7);
	assert_int_equal(msg->req.initiator_depth, 5);
	assert_int_equal(msg->req.starting_psn, 0x333);
	assert_int_equal(msg->req.retry_count, 4);
	assert_int_equal(msg->req.rnr_retry_count, 3);
	assert_int_equal(msg->req.max_cm_retries, RETRIES);
	assert_int_equal(msg->req.transport, URXE_CM_RC);
	assert_int_equal(msg->req.mtu, IBV_MTU_1024);
	assert_memory_equal(msg->req.primary.local_gid, &b.ours, 16);
	assert_memory_equal(msg->req.primary.remote_gid, &b.peers, 16);
	assert_int_equal(msg->req.primary.traffic_class, 8);
	assert_int_equal(msg->req.primary.flow_label, 5);
	/* the adapter's delay (2^15) and two lives of a packet (2 × 2^12) */
	assert_int_equal(msg->req.primary.ack_timeout, 15);
	assert_string_equal(msg->private_data, "ours");
}

/* 12.9.8.3.1: the peer uses the QP of a connection that it has forgotten */
/* 12.6.8: the delay of our adapter, which the peer's QP has to allow for. */
static void test_rep_names_our_ack_delay(void **state)
{
	into(URXE_CM_REP_SENT);
	assert_int_equal(last_sent()->attr, URXE_CM_REP);
	assert_int_equal(last_sent()->rep.target_ack_delay, URXE_CM_ACK_DELAY);
}

static void test_stale_connection_on_req(void **state)
{
	struct urxe_cm_id *id = into_passive(URXE_CM_ESTABLISHED);
	struct urxe_cm_msg msg = peer_req();

	clear_logs();
	msg.local_id = PEER_ID + 256;
	feed(&msg);
	assert_int_equal(b.num_sent, 2);
	assert_int_equal(b.sent[0].attr, URXE_CM_REJ);
	assert_int_equal(b.sent[0].rej.reason, URXE_CM_REJ_STALE_CONN);
	assert_int_equal(b.sent[0].remote_id, PEER_ID + 256);
	assert_int_equal(b.sent[1].attr, URXE_CM_DREQ);
	assert_int_equal(b.sent[1].remote_id, PEER_ID);
	assert_int_equal(state_of(id), URXE_CM_DREQ_SENT);
	/* when the old one is over, the peer can connect */
	feed_attr(URXE_CM_DREP, id);
	feed(&msg);
	assert_int_equal(last_event()->event.type, URXE_CM_REQ_RECEIVED);
}

static void test_stale_connection_on_rep(void **state)
{
	struct urxe_cm_id *old = into_passive(URXE_CM_ESTABLISHED);
	struct urxe_cm_id *id = into(URXE_CM_REQ_SENT);
	struct urxe_cm_msg msg = peer_msg(URXE_CM_REP, id);

	clear_logs();
	msg.local_id = PEER_ID + 256;
	feed(&msg);
	assert_int_equal(b.sent[0].rej.reason, URXE_CM_REJ_STALE_CONN);
	assert_int_equal(b.sent[0].rej.about, URXE_CM_ABOUT_REP);
	assert_int_equal(state_of(old), URXE_CM_DREQ_SENT);
	assert_int_equal(state_of(id), URXE_CM_REQ_SENT);
	assert_int_equal(b.num_events, 0);
}

/* Both request; the peer accepts our REQ with the QP of its own one, which we have not refused yet.
 * */
static void test_peer_accepts_with_the_qp_of_its_req(void **state)
{
	static const enum urxe_cm_state unanswered[] = {URXE_CM_REQ_RCVD, URXE_CM_MRA_REQ_SENT};
	struct urxe_cm_id *theirs, *id;
	struct urxe_cm_msg msg;

	for (int i = 0; i < 2; i++) {
		theirs = into_passive(unanswered[i]);
		id = into(URXE_CM_REQ_SENT);
		msg = peer_msg(URXE_CM_REP, id);
		msg.local_id = PEER_ID + 256;
		feed(&msg);
		assert_int_equal(state_of(id), URXE_CM_REP_RCVD);
		assert_int_equal(last_event()->event.type, URXE_CM_REP_RECEIVED);
		assert_int_equal(urxe_cm_send_rtu(id), 0);
		assert_int_equal(
			urxe_cm_send_rej(theirs, URXE_CM_REJ_CONSUMER_DEFINED, NULL, 0, b.now), 0);
		assert_int_equal(state_of(id), URXE_CM_ESTABLISHED);
		/* The QP is that connection's now: another REQ of it is stale. */
		msg = peer_req();
		msg.local_id = PEER_ID + 512;
		clear_logs();
		feed(&msg);
		assert_int_equal(b.sent[0].rej.reason, URXE_CM_REJ_STALE_CONN);
		feed_attr(URXE_CM_DREP, id);
		pass(60000 * MS);
	}
}

/* The same QPN and GUID from another address is another host, whatever it says. */
static void test_stale_connection_needs_its_address(void **state)
{
	struct urxe_cm_id *id = into_passive(URXE_CM_ESTABLISHED);
	struct in6_addr other = address(9);
	struct urxe_cm_msg msg = peer_req();

	memcpy(msg.req.primary.local_gid, &other, 16);
	feed_from(&msg, &other);
	assert_int_equal(state_of(id), URXE_CM_ESTABLISHED);
	assert_int_equal(last_event()->event.type, URXE_CM_REQ_RECEIVED);
	assert_ptr_not_equal(last_event()->id, id);
}

/* Each connects to the other's listener at the same time: two connections. */
static void test_crossing_connections(void **state)
{
	struct urxe_cm_id *active = into(URXE_CM_REQ_SENT), *passive;
	struct urxe_cm_msg msg = peer_msg(URXE_CM_REP, active);

	passive = into_passive(URXE_CM_ESTABLISHED);
	msg.local_id = PEER_ID + 256;
	msg.rep.local_qpn = PEER_QPN + 256;
	feed(&msg);
	assert_int_equal(urxe_cm_send_rtu(active), 0);
	assert_int_equal(state_of(active), URXE_CM_ESTABLISHED);
	assert_int_equal(state_of(passive), URXE_CM_ESTABLISHED);
}

/* What a call may be made in, and that a refused one does nothing. */
static void test_calls_in_wrong_states(void **state)
{
	struct urxe_cm_path path;
	struct urxe_cm_msg req = our_req(), sidr = our_sidr_req(), rep = {.attr = URXE_CM_REP};

	for (enum urxe_cm_state s = URXE_CM_IDLE; s <= URXE_CM_TIMEWAIT; s++) {
		bool req_rcvd = s == URXE_CM_REQ_RCVD || s == URXE_CM_MRA_REQ_SENT;
		bool rep_rcvd = s == URXE_CM_REP_RCVD || s == URXE_CM_MRA_REP_SENT;
		struct urxe_cm_id *id;

		bench_open(0);
		path = our_path();
		id = into(s);
		clear_logs();
		if (s != URXE_CM_IDLE) {
			assert_int_equal(urxe_cm_send_req(id, &path, IBV_QPT_RC, &req, b.now),
					 -EINVAL);
			assert_int_equal(urxe_cm_send_sidr_req(id, &path, TIMEOUT, RETRIES, &sidr,
							       b.now),
					 -EINVAL);
		}
		if (!req_rcvd)
			assert_int_equal(urxe_cm_send_rep(id, &rep, b.now), -EINVAL);
		if (!rep_rcvd)
			assert_int_equal(urxe_cm_send_rtu(id), -EINVAL);
		if (s != URXE_CM_ESTABLISHED)
			assert_int_equal(urxe_cm_send_dreq(id, b.now), -EINVAL);
		if (s != URXE_CM_DREQ_RCVD)
			assert_int_equal(urxe_cm_send_drep(id, b.now), -EINVAL);
		if (s != URXE_CM_REQ_RCVD && s != URXE_CM_REP_RCVD)
			assert_int_equal(urxe_cm_send_mra(id, 10), -EINVAL);
		if (s == URXE_CM_IDLE || s >= URXE_CM_ESTABLISHED)
			assert_int_equal(urxe_cm_send_rej(id, 1, NULL, 0, b.now), -EINVAL);
		assert_int_equal(urxe_cm_send_rej(id, 1, NULL, URXE_CM_REJ_PRIVATE + 1, b.now),
				 -EINVAL);
		assert_int_equal(state_of(id), s);
		assert_int_equal(b.num_sent + b.num_events, 0);
		urxe_cm_destroy(b.cm);
	}
}

/* UD is served by SIDR. */
static void test_req_of_a_datagram_service(void **state)
{
	struct urxe_cm_path path = our_path();
	struct urxe_cm_msg req = our_req();

	assert_int_equal(urxe_cm_send_req(new_id(), &path, IBV_QPT_UD, &req, b.now), -EINVAL);
}

/* As the kernel's ib_cm_init_qp_attr() */
static void test_qp_attributes(void **state)
{
	struct urxe_cm_id *id = into(URXE_CM_REQ_SENT);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;

	assert_int_equal(urxe_cm_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(mask,
			 IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(urxe_cm_init_qp_attr(id, &attr, &mask), -EINVAL);
	feed_attr(URXE_CM_REP, id);
	assert_int_equal(urxe_cm_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.dest_qp_num, PEER_QPN);
	assert_int_equal(attr.rq_psn, 0x333);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.max_dest_rd_atomic, 1);
	assert_int_equal(attr.ah_attr.grh.sgid_index, 1);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
	assert_memory_equal(&attr.ah_attr.grh.dgid, &b.peers, 16);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(urxe_cm_init_qp_attr(id, &attr, &mask), 0);
	assert_int_equal(attr.sq_psn, 0x222);
	assert_int_equal(attr.retry_cnt, 4);
	assert_int_equal(attr.rnr_retry, 7);
	assert_int_equal(attr.max_rd_atomic, 3);
	assert_int_equal(attr.timeout, 13);
	memset(b.port.gids, 0, sizeof(b.port.gids));
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(urxe_cm_init_qp_attr(id, &attr, &mask), -EINVAL);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(urxe_cm_init_qp_attr(id, &attr, &mask), -EINVAL);
}

/* The slot of the process that a message is for lies in the communication ID of its receiver. */
static void test_messages_name_their_owner(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	urxe_manager_init();
	for (enum urxe_cm_attr attr = URXE_CM_REQ; attr <= URXE_CM_SIDR_REP; attr++) {
		bool no_owner = attr == URXE_CM_REQ || attr == URXE_CM_SIDR_REQ;

		msg = (struct urxe_cm_msg){
			.attr = attr, .local_id = 0x11111101, .remote_id = 0x22222202};
		urxe_cm_encode(mad, &msg);
		if (attr == URXE_CM_SIDR_REP)
			assert_int_equal(urxe_steer_mad(mad), 1);
		else
			assert_int_equal(urxe_steer_mad(mad), no_owner ? 0 : 2);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_else_changes_nothing),
		cmocka_unit_test(test_strangers_change_nothing),
		cmocka_unit_test(test_calls_in_wrong_states),
		TEST(test_rep_for_nobody_is_rejected),
		TEST(test_dreq_for_nobody_is_answered),
		TEST(test_dreq_for_another_qp_is_ignored),
		TEST(test_rej_timeout_names_its_sender),
		TEST(test_late_rej_of_the_req),
		TEST(test_req_without_listener),
		TEST(test_req_of_another_transport),
		TEST(test_req_with_impossible_mtu),
		TEST(test_req_about_another_gid),
		TEST(test_req_event_has_everything),
		TEST(test_rep_event_has_everything),
		TEST(test_what_a_req_says),
		TEST(test_rep_names_our_ack_delay),
		TEST(test_stale_connection_on_req),
		TEST(test_stale_connection_on_rep),
		TEST(test_peer_accepts_with_the_qp_of_its_req),
		TEST(test_stale_connection_needs_its_address),
		TEST(test_crossing_connections),
		TEST(test_req_of_a_datagram_service),
		TEST(test_qp_attributes),
		TEST(test_messages_name_their_owner),
	};
	static char names[NUM_ROWS][80];
	struct CMUnitTest all[NUM_ROWS + sizeof(tests) / sizeof(tests[0])];

	for (unsigned i = 0; i < NUM_ROWS; i++) {
		snprintf(names[i], sizeof(names[i]), "state %d: %s (%s)", rows[i].state,
			 input_names[rows[i].input], rows[i].section);
		all[i] = (struct CMUnitTest){
			.name = names[i], .test_func = test_row, .initial_state = (void *)&rows[i]};
	}
	memcpy(&all[NUM_ROWS], tests, sizeof(tests));
	return _cmocka_run_group_tests("cm_connection", all, sizeof(all) / sizeof(all[0]), NULL,
				       NULL);
}

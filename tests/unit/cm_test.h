/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One communication manager under test, with a clock and a peer that the test plays itself: what is
 * sent and what the consumer is told is written down. One thread.
 */
#ifndef URXE_TEST_CM_H
#define URXE_TEST_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/connection_private.h"

#define MS	     1000000ull
#define START	     (12345 * MS)
#define LOG	     64
#define MANY	     32768
#define SLOT	     0x07
#define SERVICE	     0x0000000001061c06ull
#define PEER_ID	     0x00beef09u
#define PEER_GUID    0x1122334455667788ull
#define PEER_QPN     0x000411u
#define OUR_QPN	     0x000507u
#define TIMEOUT	     14 /* 67 ms */
#define RETRIES	     3
#define PORT	     3
#define LIFE	     12		       /* 16.8 ms */
#define TURN_OF_SLOT (8 * MS + MS / 2) /* of the timer wheel */

struct event {
	struct urxe_cm_id *id;
	struct urxe_cm_event event;
	struct urxe_cm_msg msg; /* of the event */
	uint8_t private_data[URXE_CM_MAX_PRIVATE];
};

struct bench {
	struct urxe_cm *cm;
	struct urxe_device dev;
	struct urxe_port port;
	struct in6_addr ours, peers;
	uint64_t now;
	bool listens;
	int answer; /* of the handler */
	bool destroy_in_handler;
	struct urxe_cm_id *passive; /* made by the last request */
	struct urxe_cm_msg sent[LOG];
	struct urxe_path sent_path;
	unsigned num_sent;
	struct event events[LOG];
	unsigned num_events;
	struct urxe_cm_record records[LOG];
	bool recorded[MANY];
	unsigned num_records;
};

static struct bench b;

static inline int bench_send(struct urxe_cm *cm, const struct urxe_path *path, uint16_t pkey,
			     const uint8_t mad[URXE_MAD_SIZE])
{
	assert_ptr_equal(cm, b.cm);
	assert_int_equal(pkey, 0xffff);
	b.sent_path = *path;
	assert_int_equal(urxe_cm_decode(&b.sent[b.num_sent % LOG], mad), 0);
	b.num_sent++;
	return 0;
}

static inline void *bench_listener(struct urxe_cm *cm, const struct urxe_cm_event *event)
{
	return b.listens && event->service_id == SERVICE ? &b : NULL;
}

static inline void bench_record(struct urxe_cm *cm, const struct urxe_cm_record *record,
				uint32_t *row)
{
	if (*row != UINT32_MAX)
		b.recorded[*row % MANY] = false;
	*row = b.num_records++;
	b.records[*row % LOG] = *record;
	b.recorded[*row % MANY] = true;
}

static inline void bench_forget(struct urxe_cm *cm, uint32_t row)
{
	assert_true(b.recorded[row % MANY]);
	b.recorded[row % MANY] = false;
}

static inline int handler(struct urxe_cm_id *id, const struct urxe_cm_event *event)
{
	struct event *e = &b.events[b.num_events++ % LOG];
	int answer = b.answer;

	e->id = id;
	e->event = *event;
	if (event->msg)
		e->msg = *event->msg;
	if (event->private_data)
		memcpy(e->private_data, event->private_data, event->private_data_len);
	if (event->type == URXE_CM_REQ_RECEIVED || event->type == URXE_CM_SIDR_REQ_RECEIVED)
		b.passive = id;
	b.answer = 0;
	if (b.destroy_in_handler)
		urxe_cm_id_destroy(id);
	b.destroy_in_handler = false;
	return answer;
}

static const struct urxe_cm_ops bench_ops = {
	.send = bench_send,
	.listener = bench_listener,
	.request = handler,
	.record = bench_record,
	.forget = bench_forget,
};

static inline struct in6_addr address(uint8_t last)
{
	struct in6_addr addr = {0};

	memset(&addr.s6_addr[10], 0xff, 2);
	addr.s6_addr[12] = 127;
	addr.s6_addr[15] = last;
	return addr;
}

static inline void bench_open(unsigned max_pending)
{
	struct urxe_cm_config config = {
		.ops = &bench_ops,
		.slot = SLOT,
		.now = START,
		.seed = {0x123456789abcdef0, 0x0fedcba987654321},
		.max_pending = max_pending,
	};

	memset(&b, 0, sizeof(b));
	b.now = START;
	b.ours = address(1);
	b.peers = address(2);
	b.dev.guid = htobe64(0xaabbccddeeff0011ull);
	b.dev.num_ports = 1;
	b.dev.ports = &b.port;
	b.port.dev = &b.dev;
	b.port.kind = &urxe_netdev_port;
	b.port.num = 1;
	b.port.index = PORT;
	b.port.gid_len = 2;
	memcpy(&b.port.gids[1], &b.ours, 16);
	urxe_ports_add(&b.dev);
	b.listens = true;
	assert_int_equal(urxe_cm_create(&b.cm, &config), 0);
}

static inline int setup(void **state)
{
	bench_open(0);
	return 0;
}

static inline int teardown(void **state)
{
	urxe_cm_destroy(b.cm);
	return 0;
}

static inline struct urxe_cm_path our_path(void)
{
	return (struct urxe_cm_path){
		.av = {.src.gid = b.ours,
		       .dst.gid = b.peers,
		       .port = PORT,
		       .roce = {.hop_limit = 64, .traffic_class = 8},
		       .roce_own.flow_label = 5},
		.pkey = 0xffff,
		.mtu = IBV_MTU_1024,
		.rate = IBV_RATE_10_GBPS,
		.packet_life_time = LIFE,
	};
}

/* As its consumer sees it. */
static inline enum urxe_cm_state state_of(const struct urxe_cm_id *id)
{
	return id->quiet ? URXE_CM_TIMEWAIT : id->state;
}

/* What the peer sends arrives. */
static inline void feed_from(const struct urxe_cm_msg *msg, const struct in6_addr *from)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_path path = {.src.gid = *from, .dst.gid = b.ours, .port = PORT};
	struct urxe_cm_rx rx = {
		.mad = mad,
		.path = &path,
		.src_qpn = 1,
		.pkey = 0xffff,
	};

	urxe_cm_encode(mad, msg);
	urxe_cm_receive(b.cm, &rx, b.now);
}

static inline void feed(const struct urxe_cm_msg *msg)
{
	feed_from(msg, &b.peers);
}

/* Time passes, in steps of a millisecond. */
static inline void pass(uint64_t ns)
{
	for (uint64_t end = b.now + ns; b.now < end;) {
		b.now += MS;
		if (urxe_cm_deadline(b.cm) <= b.now)
			urxe_cm_run(b.cm, b.now);
	}
}

static inline void clear_logs(void)
{
	b.num_sent = b.num_events = 0;
}

static inline struct urxe_cm_msg peer_req(void)
{
	struct urxe_cm_msg msg = {
		.attr = URXE_CM_REQ,
		.tid = 0x77,
		.local_id = PEER_ID,
		.req =
			{
				.service_id = SERVICE,
				.local_ca_guid = PEER_GUID,
				.local_qpn = PEER_QPN,
				.responder_resources = 4,
				.initiator_depth = 2,
				.remote_cm_response_timeout = TIMEOUT,
				.local_cm_response_timeout = TIMEOUT,
				.starting_psn = 0x111,
				.retry_count = 6,
				.rnr_retry_count = 5,
				.pkey = 0xffff,
				.mtu = IBV_MTU_1024,
				.max_cm_retries = RETRIES,
				.primary = {.hop_limit = 64,
					    .traffic_class = 8,
					    .flow_label = 9,
					    .packet_rate = IBV_RATE_10_GBPS,
					    .ack_timeout = LIFE + 1},
			},
		.private_data = "hello",
	};

	memcpy(msg.req.primary.local_gid, &b.peers, 16);
	memcpy(msg.req.primary.remote_gid, &b.ours, 16);
	return msg;
}

/* Any message of the peer about an identifier of ours. */
static inline struct urxe_cm_msg peer_msg(enum urxe_cm_attr attr, const struct urxe_cm_id *id)
{
	struct urxe_cm_msg msg = {
		.attr = attr,
		.tid = 0x78,
		.local_id = PEER_ID,
		.remote_id = id ? id->local_id : 0x12345600,
		.private_data = "peer",
	};

	if (attr == URXE_CM_REP)
		msg.rep = (struct urxe_cm_rep){
			.local_ca_guid = PEER_GUID,
			.local_qpn = PEER_QPN,
			.starting_psn = 0x222,
			.responder_resources = 3,
			.initiator_depth = 1,
			.target_ack_delay = 10,
			.rnr_retry_count = 7,
		};
	else if (attr == URXE_CM_DREQ)
		msg.dreq.remote_qpn = OUR_QPN;
	else if (attr == URXE_CM_REJ)
		msg.rej = (struct urxe_cm_rej){.about = URXE_CM_ABOUT_OTHER,
					       .reason = URXE_CM_REJ_CONSUMER_DEFINED};
	else if (attr == URXE_CM_MRA)
		msg.mra.service_timeout = TIMEOUT + 2;
	return msg;
}

static inline void feed_attr(enum urxe_cm_attr attr, const struct urxe_cm_id *id)
{
	struct urxe_cm_msg msg = peer_msg(attr, id);

	feed(&msg);
}

static inline void feed_mra(enum urxe_cm_about about, const struct urxe_cm_id *id)
{
	struct urxe_cm_msg msg = peer_msg(URXE_CM_MRA, id);

	msg.mra.about = about;
	feed(&msg);
}

static inline void feed_req(void)
{
	struct urxe_cm_msg msg = peer_req();

	feed(&msg);
}

static inline struct urxe_cm_msg our_req(void)
{
	return (struct urxe_cm_msg){
		.attr = URXE_CM_REQ,
		.req = {.service_id = SERVICE,
			.local_qpn = OUR_QPN,
			.starting_psn = 0x333,
			.responder_resources = 7,
			.initiator_depth = 5,
			.remote_cm_response_timeout = TIMEOUT,
			.local_cm_response_timeout = TIMEOUT,
			.max_cm_retries = RETRIES,
			.retry_count = 4,
			.rnr_retry_count = 3},
		.private_data = "ours",
	};
}

static inline void send_req(struct urxe_cm_id *id)
{
	struct urxe_cm_path path = our_path();
	struct urxe_cm_msg msg = our_req();

	assert_int_equal(urxe_cm_send_req(id, &path, IBV_QPT_RC, &msg, b.now), 0);
}

static inline void send_rep(struct urxe_cm_id *id)
{
	struct urxe_cm_msg msg = {
		.attr = URXE_CM_REP,
		.rep = {.local_qpn = OUR_QPN,
			.starting_psn = 0x444,
			.responder_resources = 2,
			.initiator_depth = 4,
			.rnr_retry_count = 6},
		.private_data = "reply",
	};

	assert_int_equal(urxe_cm_send_rep(id, &msg, b.now), 0);
}

static inline struct urxe_cm_msg our_sidr_req(void)
{
	return (struct urxe_cm_msg){
		.attr = URXE_CM_SIDR_REQ, .sidr_req.service_id = SERVICE, .private_data = "ask"};
}

static inline struct urxe_cm_id *new_id(void)
{
	struct urxe_cm_id *id;

	assert_int_equal(urxe_cm_id_create(b.cm, handler, &b, &id), 0);
	return id;
}

static inline struct urxe_cm_id *into_passive(enum urxe_cm_state state)
{
	struct urxe_cm_id *id;

	feed_req();
	id = b.passive;
	if (state == URXE_CM_REQ_RCVD)
		return id;
	if (state == URXE_CM_MRA_REQ_SENT) {
		assert_int_equal(urxe_cm_send_mra(id, TIMEOUT), 0);
		return id;
	}
	send_rep(id);
	if (state == URXE_CM_REP_SENT)
		return id;
	if (state == URXE_CM_MRA_REP_RCVD) {
		feed_mra(URXE_CM_ABOUT_REP, id);
		return id;
	}
	feed_attr(URXE_CM_RTU, id);
	return id;
}

/* An identifier in a state, the way it gets there on the wire. */
static inline struct urxe_cm_id *into(enum urxe_cm_state state)
{
	struct urxe_cm_id *id;

	if (state == URXE_CM_REQ_RCVD || state == URXE_CM_MRA_REQ_SENT ||
	    state == URXE_CM_REP_SENT || state == URXE_CM_MRA_REP_RCVD)
		return into_passive(state);
	id = new_id();
	if (state == URXE_CM_IDLE)
		return id;
	send_req(id);
	if (state == URXE_CM_REQ_SENT)
		return id;
	if (state == URXE_CM_MRA_REQ_RCVD) {
		feed_mra(URXE_CM_ABOUT_REQ, id);
		return id;
	}
	feed_attr(URXE_CM_REP, id);
	if (state == URXE_CM_REP_RCVD)
		return id;
	if (state == URXE_CM_MRA_REP_SENT) {
		assert_int_equal(urxe_cm_send_mra(id, TIMEOUT), 0);
		return id;
	}
	assert_int_equal(urxe_cm_send_rtu(id), 0);
	if (state == URXE_CM_ESTABLISHED)
		return id;
	if (state == URXE_CM_DREQ_RCVD) {
		feed_attr(URXE_CM_DREQ, id);
		return id;
	}
	assert_int_equal(urxe_cm_send_dreq(id, b.now), 0);
	if (state == URXE_CM_DREQ_SENT)
		return id;
	feed_attr(URXE_CM_DREP, id);
	return id;
}

static inline const struct urxe_cm_msg *last_sent(void)
{
	assert_true(b.num_sent > 0);
	return &b.sent[(b.num_sent - 1) % LOG];
}

static inline const struct event *last_event(void)
{
	assert_true(b.num_events > 0);
	return &b.events[(b.num_events - 1) % LOG];
}

static inline unsigned ids(void)
{
	struct urxe_cm_counts counts;

	urxe_cm_counts(b.cm, &counts);
	return counts.ids;
}

#endif

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The MAD layer of hosts on a virtual fabric: agents, transaction IDs, timeouts, MADs of several
 * segments. */
#include "tests/unit/fabric_test.h"

#include "fabric/ip.h"

#define GET_TABLE      0x12
#define GET_TABLE_RESP 0x92

static struct inbox client, server;

static struct umad sa_request(uint8_t method, uint32_t timeout)
{
	struct umad u = umad_to(5, 1, timeout);

	u.mad[MAD_CLASS] = CLASS_SA;
	u.mad[MAD_CLASS_VERSION] = 2;
	u.mad[MAD_METHOD] = method;
	return u;
}

/* h1 asks, h2 serves. */
static void ends(struct agent **asks, struct agent **serves)
{
	manage();
	*asks = agent_at(H1, 1, CLASS_SA, 2, 0, 1, &client);
	*serves = agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_GET | 1ull << GET_TABLE, 1, &server);
	client.count = server.count = 0;
}

static uint32_t retries; /* of answers */

/* An answer of that many bytes of data to what the server has got. */
static int answer(struct agent *serves, size_t data)
{
	size_t len = FABRIC_UMAD_HDR + 56 + data;
	uint8_t *umad = calloc(1, len > sizeof(struct umad) ? len : sizeof(struct umad));
	struct umad *u = (struct umad *)umad;
	int ret;

	*u = umad_to(be16toh(server.hdr.lid), be32toh(server.hdr.qpn), 0);
	u->hdr.retries = retries;
	memcpy(u->mad, server.mad, 56);
	u->mad[MAD_METHOD] |= METHOD_RESP;
	u->mad[RMPP_VERSION] = 1;
	u->mad[RMPP_TYPE] = RMPP_DATA;
	u->mad[RMPP_FLAGS] = RMPP_ACTIVE;
	for (size_t i = 0; i < data; i++)
		umad[FABRIC_UMAD_HDR + 56 + i] = i * 7 + i / 256;
	ret = host_send(&fabric.mads, serves, umad, len);
	fabric_run(&fabric);
	free(umad);
	return ret;
}

static void check_data(size_t data)
{
	assert_int_equal(client.hdr.status, 0);
	assert_int_equal(client.len, 56 + data);
	assert_int_equal(client.hdr.length, FABRIC_UMAD_HDR + 56 + data);
	for (size_t i = 0; i < data; i++)
		assert_int_equal(client.mad[56 + i], (uint8_t)(i * 7 + i / 256));
}

static void an_answer_finds_its_agent_by_the_transaction_id(void **state)
{
	struct inbox other = {0};
	struct agent *asks, *serves;
	struct umad u = sa_request(METHOD_GET, 100);

	ends(&asks, &serves);
	agent_at(H1, 1, CLASS_SA, 2, 0, 1, &other);
	send_umad(asks, &u);
	assert_int_equal(server.count, 1);
	assert_int_equal(get64(server.mad + MAD_TID), (uint64_t)asks->tid << 32 | 0x1234);
	answer(serves, 10);
	assert_int_equal(client.count, 1);
	assert_int_equal(other.count, 0);
}

static void a_request_nobody_answers_times_out_after_its_retries(void **state)
{
	struct agent *asks, *serves;
	struct umad u = sa_request(METHOD_GET, 100);

	ends(&asks, &serves);
	u.hdr.retries = 2;
	send_umad(asks, &u);
	time_passes(299);
	assert_int_equal(server.count, 3);
	assert_int_equal(client.count, 0);
	time_passes(2);
	assert_int_equal(client.count, 1);
	assert_int_equal(client.hdr.status, 110);
	assert_int_equal(client.len, MAD_HDR_LEN);
	/* Too late. */
	answer(serves, 10);
	assert_int_equal(client.count, 1);
}

static void two_agents_cannot_have_the_same_method(void **state)
{
	struct fabric_request r = {.qpn = 1,
				   .mgmt_class = CLASS_SA,
				   .class_version = 2,
				   .rmpp_version = 1,
				   .method_mask = {1ull << GET_TABLE}};
	uint32_t port = index_of(&fabric, port_of(H2, 1));
	struct agent *asks, *serves, *third;

	ends(&asks, &serves);
	assert_int_equal(host_register(&fabric.mads, NULL, port, &r, 0, &third), 22);
	r.class_version = 1;
	assert_int_equal(host_register(&fabric.mads, NULL, port, &r, 0, &third), 0);
	r.class_version = 2;
	/* Another host has methods of its own. */
	assert_int_equal(host_register(&fabric.mads, NULL, index_of(&fabric, port_of(H1, 1)), &r, 0,
				       &third),
			 0);
}

static void registrations_are_refused_as_the_kernel_does(void **state)
{
	static const struct fabric_request bad[] = {
		{.qpn = 2, .mgmt_class = CLASS_SA},
		{.qpn = 0, .mgmt_class = CLASS_SA},
		{.qpn = 1, .mgmt_class = CLASS_SUBN_LID},
		{.qpn = 1, .mgmt_class = CLASS_PERF, .rmpp_version = 1},
		{.qpn = 1, .mgmt_class = CLASS_SA, .rmpp_version = 2},
		{.qpn = 1, .mgmt_class = 0x50},
		{.qpn = 1, .mgmt_class = 0x32}, /* without an OUI */
		{.qpn = 1, .mgmt_class = CLASS_SA, .class_version = 0x83},
	};
	struct agent *agent;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(host_register(&fabric.mads, NULL,
					       index_of(&fabric, port_of(H1, 1)), &bad[i], 0,
					       &agent),
				 22);
}

static void a_get_that_nobody_serves_is_answered_unsupported(void **state)
{
	struct agent *asks, *serves;
	struct umad u = sa_request(METHOD_GET, 100);

	ends(&asks, &serves);
	u.mad[MAD_CLASS_VERSION] = 1;
	send_umad(asks, &u);
	assert_int_equal(server.count, 0);
	assert_int_equal(client.count, 1);
	assert_int_equal(get16(client.mad + MAD_STATUS), STATUS_BAD_METHOD_ATTR);
	/* Vendors' classes and congestion control of a switch, leaf2. */
	u.hdr.lid = htobe16(2);
	u.mad[MAD_CLASS] = 0x0a;
	put64(u.mad + MAD_TID, 77);
	asks = agent_at(H1, 1, 0x0a, 1, 0, 0, &client);
	send_umad(asks, &u);
	assert_int_equal(client.count, 2);
	assert_int_equal(get16(client.mad + MAD_STATUS), STATUS_BAD_METHOD_ATTR);
}

static void long_answers_arrive_whole(void **state)
{
	static const size_t lengths[] = {1, 199, 200, 201, 400, 64 * 200, 64 * 200 + 1, 200000};
	struct agent *asks, *serves;

	ends(&asks, &serves);
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct umad u = sa_request(GET_TABLE, 1000);

		put64(u.mad + MAD_TID, 100 + i);
		send_umad(asks, &u);
		assert_int_equal(answer(serves, lengths[i]), 0);
		assert_int_equal(client.count, i + 1);
		check_data(lengths[i]);
		assert_null(serves->sends);
	}
}

/* h1 registers without RMPP: its program puts segments together itself, and acknowledges them. The
 * MAD for that. */
static struct umad own_segments(struct agent **asks, struct agent **serves)
{
	struct umad u = sa_request(GET_TABLE, 1000), ack = sa_request(GET_TABLE, 0);

	manage();
	*asks = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &client);
	*serves = agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_GET | 1ull << GET_TABLE, 1, &server);
	client.count = server.count = 0;
	send_umad(*asks, &u);
	answer(*serves, 600);
	/* One, as long as the window of the sender is. */
	assert_int_equal(client.count, 1);
	assert_int_equal(client.len, MAD_LEN);
	put64(ack.mad + MAD_TID, get64(client.mad + MAD_TID));
	ack.mad[RMPP_VERSION] = 1;
	ack.mad[RMPP_TYPE] = RMPP_ACK;
	ack.mad[RMPP_FLAGS] = RMPP_ACTIVE;
	return ack;
}

static void acknowledge(struct agent *asks, struct umad *ack, uint32_t segment, uint32_t window)
{
	put32(ack->mad + RMPP_SEGMENT, segment);
	put32(ack->mad + RMPP_PAYLEN, window); /* NewWindowLast */
	assert_int_equal(send_umad(asks, ack), 0);
}

static void segments_come_singly_to_a_program_that_does_rmpp_itself(void **state)
{
	struct agent *asks, *serves;
	struct umad ack = own_segments(&asks, &serves);

	acknowledge(asks, &ack, 1, 64);
	assert_int_equal(client.count, 3);
	assert_int_equal(get32(client.mad + RMPP_SEGMENT), 3);
	acknowledge(asks, &ack, 3, 64);
	assert_null(serves->sends);
}

/* Why a segment is refused (13.6.2.1, table of status values). */
static void segments_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		uint8_t version, type, flags, status;
		uint32_t segment;
		uint8_t why;
	} bad[] = {
		{2, RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 0, 1, 125},
		{1, RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 7, 1, 124},
		{1, RMPP_DATA, RMPP_ACTIVE | RMPP_FIRST, 0, 2, 120},
		{1, RMPP_DATA, RMPP_ACTIVE, 0, 1, 120},
		{1, 9, RMPP_ACTIVE, 0, 1, 121},
		{2, RMPP_ACK, RMPP_ACTIVE, 0, 1, 125},
	};
	struct agent *asks;

	manage();
	asks = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &client);
	agent_at(H2, 1, CLASS_SA, 2, 1ull << GET_TABLE, 1, &server);
	client.count = server.count = 0;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct umad u = sa_request(GET_TABLE, 0);

		u.mad[RMPP_VERSION] = bad[i].version;
		u.mad[RMPP_TYPE] = bad[i].type;
		u.mad[RMPP_FLAGS] = bad[i].flags;
		u.mad[RMPP_STATUS] = bad[i].status;
		put32(u.mad + RMPP_SEGMENT, bad[i].segment);
		send_umad(asks, &u);
		assert_int_equal(client.count, i + 1);
		assert_int_equal(client.mad[RMPP_VERSION], 1);
		assert_int_equal(client.mad[RMPP_TYPE], RMPP_ABORT);
		assert_int_equal(client.mad[RMPP_STATUS], bad[i].why);
	}
	assert_int_equal(server.count, 0);
}

/* On RoCE there are no LIDs: two senders that use the same transaction ID differ by their GIDs. */
static void senders_of_segments_are_told_apart_by_their_gids(void **state)
{
	struct packet p = {.port = index_of(&fabric, port_of(H2, 1)),
			   .grh_present = true,
			   .src_qp = 1,
			   .dst_qp = 1,
			   .qkey = GSI_QKEY};
	struct umad u = sa_request(GET_TABLE, 0);

	manage();
	agent_at(H2, 1, CLASS_SA, 2, 1ull << GET_TABLE, 1, &server);
	server.count = 0;
	memcpy(p.mad, u.mad, MAD_LEN);
	p.mad[RMPP_VERSION] = 1;
	p.mad[RMPP_TYPE] = RMPP_DATA;
	for (uint32_t segment = 1; segment <= 2; segment++) {
		p.mad[RMPP_FLAGS] = RMPP_ACTIVE | (segment == 1 ? RMPP_FIRST : RMPP_LAST);
		put32(p.mad + RMPP_SEGMENT, segment);
		put32(p.mad + RMPP_PAYLEN, MAD_LEN - MAD_RMPP_LEN);
		for (uint8_t sender = 1; sender <= 2; sender++) {
			struct packet sent = p;

			sent.sgid[15] = sender;
			memset(sent.mad + 56, sender, MAD_LEN - 56);
			host_receive(&fabric.mads, &sent);
		}
	}
	assert_int_equal(server.count, 2);
	assert_int_equal(server.len, 456);
	for (unsigned i = 56; i < server.len; i++)
		assert_int_equal(server.mad[i], 2);
}

/* A message of h1 to h2 of more than one segment begins, or goes on. */
static void send_segment(struct agent *asks, uint32_t tid, uint32_t segment, uint8_t flags)
{
	struct umad u = sa_request(GET_TABLE, 0);

	put64(u.mad + MAD_TID, tid);
	u.mad[RMPP_VERSION] = 1;
	u.mad[RMPP_TYPE] = RMPP_DATA;
	u.mad[RMPP_FLAGS] = RMPP_ACTIVE | flags;
	put32(u.mad + RMPP_SEGMENT, segment);
	put32(u.mad + RMPP_PAYLEN, MAD_LEN - MAD_RMPP_LEN);
	send_umad(asks, &u);
}

static bool stopped(void)
{
	return client.mad[RMPP_TYPE] == RMPP_STOP && client.mad[RMPP_STATUS] == 1;
}

/* h1 begins messages, and completes none. */
static void messages_that_are_not_completed_are_stopped_at_a_limit(void **state)
{
	const struct counters *c;
	struct agent *asks, *serves;

	manage();
	c = count_of(&fabric, port_of(H2, 1));
	asks = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &client);
	serves = agent_at(H2, 1, CLASS_SA, 2, 1ull << GET_TABLE, 1, &server);
	client.count = server.count = 0;
	for (uint32_t tid = 1; tid <= 1024; tid++)
		send_segment(asks, tid, 1, RMPP_FIRST);
	assert_int_equal(client.mad[RMPP_TYPE], RMPP_ACK);
	assert_int_equal(c->qp1_dropped, 0);
	for (uint32_t tid = 1025; tid <= 1030; tid++) {
		send_segment(asks, tid, 1, RMPP_FIRST);
		assert_true(stopped());
	}
	assert_int_equal(c->qp1_dropped, 6);
	assert_int_equal(serves->num_reassemblies, 1024);
	/* One that is completed makes room, though it is kept for a while. */
	send_segment(asks, 500, 2, RMPP_LAST);
	assert_int_equal(server.count, 1);
	send_segment(asks, 1031, 1, RMPP_FIRST);
	assert_false(stopped());
	send_segment(asks, 1032, 1, RMPP_FIRST);
	assert_true(stopped());
	/* The others are given up in time. */
	time_passes(41000);
	assert_int_equal(serves->num_reassemblies, 0);
	assert_int_equal(serves->reassembly_bytes, 0);
}

/* Four messages of 40 MiB at once are more than there is room for. */
static void messages_that_are_too_long_are_stopped_at_a_limit(void **state)
{
	const unsigned segments = (40u << 20) / 200;
	unsigned at_once[4] = {0};
	struct agent *asks, *serves;

	manage();
	asks = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &client);
	serves = agent_at(H2, 1, CLASS_SA, 2, 1ull << GET_TABLE, 1, &server);
	for (uint32_t segment = 1; segment <= segments; segment++)
		for (unsigned i = 0; i < 4; i++) {
			if (segment > 1 && at_once[i] != segment - 1)
				continue;
			send_segment(asks, 1 + i, segment, segment == 1 ? RMPP_FIRST : 0);
			assert_in_range(serves->reassembly_bytes, 0, 128u << 20);
			if (stopped())
				client.mad[RMPP_TYPE] = 0;
			else
				at_once[i] = segment;
		}
	assert_int_equal(count_of(&fabric, port_of(H2, 1))->qp1_dropped, 3);
	assert_int_equal(serves->num_reassemblies, 1);
}

/* The sender begins again under the same number once there is room. */
static void a_message_whose_first_segment_finds_no_room_begins_anew(void **state)
{
	struct agent *asks, *serves;

	manage();
	asks = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &client);
	serves = agent_at(H2, 1, CLASS_SA, 2, 1ull << GET_TABLE, 1, &server);
	server.count = 0;
	serves->reassembly_bytes = 2 * (size_t)FABRIC_MAX_MAD;
	send_segment(asks, 1, 1, RMPP_FIRST);
	assert_true(stopped());
	assert_int_equal(serves->num_reassemblies, 0);
	serves->reassembly_bytes = 0;
	send_segment(asks, 1, 1, RMPP_FIRST);
	send_segment(asks, 1, 2, RMPP_LAST);
	assert_int_equal(server.count, 1);
	assert_int_equal(server.len, 56 + 2 * 200);
	time_passes(11000);
	assert_int_equal(serves->num_reassemblies, 0);
}

/* As the kernel's process_rmpp_ack(): retries are for one step, not for all of them. */
static void each_segment_has_all_retries(void **state)
{
	struct agent *asks, *serves;
	struct umad ack;

	retries = 1;
	ack = own_segments(&asks, &serves);
	retries = 0;
	for (uint32_t segment = 1; segment <= 3; segment++) {
		assert_int_equal(client.count, 2 * segment - 1);
		time_passes(2001);
		assert_int_equal(client.count, 2 * segment);
		assert_int_equal(get32(client.mad + RMPP_SEGMENT), segment);
		acknowledge(asks, &ack, segment, segment + 1);
	}
	assert_null(serves->sends);
}

/* The same: what the window did not allow was not sent. */
static void an_acknowledgement_beyond_the_window_ends_the_answer(void **state)
{
	struct agent *asks, *serves;
	struct umad ack = own_segments(&asks, &serves);

	server.count = 0;
	acknowledge(asks, &ack, 3, 64);
	assert_null(serves->sends);
	assert_int_equal(server.count, 1);
	assert_int_not_equal(server.hdr.status, 0);
}

/* A request in segments has arrived; its acknowledgement comes again and again, and no answer. */
static void repeated_acknowledgements_do_not_put_a_timeout_off(void **state)
{
	struct umad u = sa_request(GET_TABLE, 1000), ack;
	struct agent *asks, *serves;

	manage();
	asks = agent_at(H1, 1, CLASS_SA, 2, 0, 1, &client);
	serves = agent_at(H2, 1, CLASS_SA, 2, 1ull << GET_TABLE, 0, &server);
	client.count = server.count = 0;
	u.mad[RMPP_VERSION] = 1;
	u.mad[RMPP_TYPE] = RMPP_DATA;
	u.mad[RMPP_FLAGS] = RMPP_ACTIVE;
	send_umad(asks, &u);
	assert_int_equal(server.count, 1);
	ack = umad_to(be16toh(server.hdr.lid), 1, 0);
	memcpy(ack.mad, server.mad, 56);
	ack.mad[MAD_METHOD] |= METHOD_RESP;
	ack.mad[RMPP_TYPE] = RMPP_ACK;
	for (unsigned i = 0; i < 5; i++) {
		time_passes(300);
		acknowledge(serves, &ack, 1, 64);
	}
	assert_int_equal(client.count, 1);
	assert_int_equal(client.hdr.status, 110);
}

static void a_request_number_can_be_used_again(void **state)
{
	struct umad u = sa_request(GET_TABLE, 1000);
	struct agent *asks, *serves;

	ends(&asks, &serves);
	for (unsigned i = 1; i <= 3; i++) {
		send_umad(asks, &u);
		answer(serves, 1000 * i);
		assert_int_equal(client.count, i);
		check_data(1000 * i);
	}
}

/* The cable is pulled when the answer has begun, and put back. */
static void lost_segments_are_sent_again(void **state)
{
	struct umad u = sa_request(GET_TABLE, 10000);
	struct agent *asks, *serves;
	struct send *send;

	ends(&asks, &serves);
	send_umad(asks, &u);
	link_set(&fabric, port_of(LEAF1, 8), false);
	answer(serves, 5000);
	send = serves->sends;
	assert_non_null(send);
	send->retries = 3;
	link_set(&fabric, port_of(LEAF1, 8), true);
	manage();
	time_passes(2100);
	assert_int_equal(client.count, 1);
	check_data(5000);
	assert_null(serves->sends);
}

static void a_sender_that_hears_nothing_gives_up(void **state)
{
	struct umad u = sa_request(GET_TABLE, 10000);
	struct agent *asks, *serves;

	ends(&asks, &serves);
	send_umad(asks, &u);
	link_set(&fabric, port_of(LEAF1, 8), false);
	server.count = 0;
	answer(serves, 5000);
	time_passes(2001);
	assert_null(serves->sends);
	assert_int_equal(server.count, 1);
	assert_int_equal(server.hdr.status, 110);
}

static void an_agent_that_goes_takes_what_is_under_way_with_it(void **state)
{
	struct umad u = sa_request(GET_TABLE, 1000);
	struct agent *asks, *serves;

	ends(&asks, &serves);
	send_umad(asks, &u);
	host_unregister(&fabric.mads, asks);
	answer(serves, 5000);
	time_passes(5000);
	assert_int_equal(client.count, 0);
}

static void wrong_pkeys_and_qkeys_are_counted(void **state)
{
	struct umad u = sa_request(METHOD_GET, 0);
	struct fabric_port *to = port_of(H2, 1);
	struct inbox traps = {0};
	struct agent *asks, *serves;

	ends(&asks, &serves);
	u.hdr.qkey = htobe32(17);
	agent_at(H1, 1, CLASS_SUBN_LID, 1, 1ull << METHOD_TRAP, 0, &traps);
	send_umad(asks, &u);
	assert_int_equal(server.count, 0);
	assert_int_equal(get16(to->info + PI_QKEY_VIOL), 1);
	time_passes(1);
	assert_int_equal(get16(traps.mad + SMP_DATA + 4), TRAP_BAD_QKEY);
	assert_int_equal(get32(traps.mad + SMP_DATA + 16), 17);
	u.hdr.qkey = htobe32(0x80010000);
	/* Limited members do not talk to each other. */
	((uint16_t *)fabric_map_bytes(fabric.map, to->pkeys))[0] = 0x7fff;
	((uint16_t *)fabric_map_bytes(fabric.map, port_of(H1, 1)->pkeys))[0] = 0x7fff;
	send_umad(asks, &u);
	assert_int_equal(server.count, 0);
	assert_int_equal(get16(to->info + PI_PKEY_VIOL), 1);
	((uint16_t *)fabric_map_bytes(fabric.map, to->pkeys))[0] = 0xffff;
	send_umad(asks, &u);
	assert_int_equal(server.count, 1);
	free(traps.mad);
}

static void each_port_on_the_way_counts(void **state)
{
	static const struct {
		unsigned node, port;
	} out[] = {{H1, 1}, {LEAF1, 8}, {SPINE, 2}, {LEAF2, 1}};
	struct umad u = sa_request(METHOD_GET, 0);
	struct agent *asks, *serves;

	ends(&asks, &serves);
	send_umad(asks, &u);
	for (unsigned i = 0; i < 4; i++) {
		const struct fabric_port *port = port_of(out[i].node, out[i].port);

		assert_int_equal(count_of(&fabric, port)->xmit_pkts, 1);
		assert_int_equal(count_of(&fabric, port)->xmit_data, 72);
		assert_int_equal(count_of(&fabric, port_at(&fabric, port->peer))->rcv_data, 72);
		assert_int_equal(count_of(&fabric, port)->rcv_pkts, 0);
	}
	assert_int_equal(count_of(&fabric, port_of(LEAF2, 2))->xmit_pkts, 0);
}

static void counters_are_read_and_set_back(void **state)
{
	struct agent *pm;
	struct umad u = umad_to(5, 1, 100);

	manage();
	pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &client);
	count_of(&fabric, port_of(H2, 1))->xmit_data = 1ull << 33;
	count_of(&fabric, port_of(H2, 1))->symbol_errors = 7;
	u.mad[MAD_CLASS] = CLASS_PERF;
	u.mad[MAD_CLASS_VERSION] = 1;
	u.mad[MAD_METHOD] = METHOD_GET;
	put16(u.mad + MAD_ATTR, ATTR_COUNTERS);
	u.mad[65] = 1;
	send_umad(pm, &u);
	assert_int_equal(get32(client.mad + 88), 0xffffffff); /* it stops at its largest value */
	assert_int_equal(get16(client.mad + 68), 7);
	u.mad[MAD_METHOD] = METHOD_SET;
	put16(u.mad + 66, 0xffff);
	send_umad(pm, &u);
	assert_int_equal(get16(client.mad + 68), 0);
	u.mad[MAD_METHOD] = METHOD_GET;
	put16(u.mad + MAD_ATTR, ATTR_COUNTERS_EXT);
	send_umad(pm, &u);
	assert_true(get64(client.mad + 72) > 1ull << 33); /* they are set back by themselves */
	assert_int_equal(get64(client.mad + 136), 0);
}

/* 13.4.7; methods that have no answer get none. */
static void performance_management_says_what_it_does_not_do(void **state)
{
	enum { METHOD_GET_TABLE = 0x12 };
	static const struct {
		uint8_t method, version;
		uint16_t attr;
		uint32_t mod;
		int status; /* -1: no answer */
	} asked[] = {
		{METHOD_GET, 1, ATTR_COUNTERS, 0, 0},
		{METHOD_GET, 1, ATTR_COUNTERS, 1, STATUS_BAD_FIELD},
		{METHOD_GET, 1, ATTR_XMIT_DATA_SL, 1 << 16, STATUS_BAD_FIELD},
		{METHOD_GET, 1, ATTR_CLASS_PORT_INFO, 1, STATUS_BAD_FIELD},
		{METHOD_GET, 1, 0xff00, 0, STATUS_BAD_METHOD_ATTR},
		{METHOD_SET, 1, ATTR_SAMPLES_RESULT, 0, STATUS_BAD_METHOD_ATTR},
		{METHOD_GET, 2, ATTR_COUNTERS, 0, STATUS_BAD_VERSION},
		{METHOD_GET_TABLE, 1, ATTR_COUNTERS, 0, STATUS_BAD_METHOD},
		{METHOD_DELETE, 1, ATTR_COUNTERS, 0, STATUS_BAD_METHOD},
		{METHOD_SEND, 1, ATTR_COUNTERS, 0, -1},
		{METHOD_TRAP, 1, ATTR_COUNTERS, 0, -1},
	};
	struct agent *pm;

	manage();
	pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &client);
	for (unsigned i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		struct umad u = umad_to(5, 1, asked[i].status < 0 ? 0 : 100);
		unsigned before = client.count;

		u.mad[MAD_CLASS] = CLASS_PERF;
		u.mad[MAD_CLASS_VERSION] = asked[i].version;
		u.mad[MAD_METHOD] = asked[i].method;
		put64(u.mad + MAD_TID, i + 1);
		put16(u.mad + MAD_ATTR, asked[i].attr);
		put32(u.mad + MAD_MOD, asked[i].mod);
		u.mad[65] = 1;
		assert_int_equal(send_umad(pm, &u), 0);
		assert_int_equal(client.count, before + (asked[i].status >= 0));
		if (asked[i].status < 0)
			continue;
		assert_int_equal(client.mad[MAD_METHOD], METHOD_GET_RESP);
		assert_int_equal(get16(client.mad + MAD_STATUS), asked[i].status);
	}
}

/* 16.1.4.7: those of a port, and of all; a Set changes the selected ones alone. */
static void data_by_sl_is_read_and_set_back(void **state)
{
	struct agent *pm;
	struct umad u = umad_to(5, 1, 100);

	manage();
	pm = agent_at(H1, 1, CLASS_PERF, 1, 0, 0, &client);
	pma_count_sl(&fabric, port_of(H2, 1), 3, 1ull << 33);
	pma_count_sl(&fabric, port_of(H2, 1), 15, 7);
	u.mad[MAD_CLASS] = CLASS_PERF;
	u.mad[MAD_CLASS_VERSION] = 1;
	u.mad[MAD_METHOD] = METHOD_GET;
	put16(u.mad + MAD_ATTR, ATTR_XMIT_DATA_SL);
	u.mad[65] = 1;
	send_umad(pm, &u);
	assert_int_equal(get32(client.mad + 68 + 4 * 3), 0xffffffff);
	assert_int_equal(get32(client.mad + 68 + 4 * 15), 7);
	assert_int_equal(get32(client.mad + 68 + 4 * 4), 0);
	u.mad[MAD_METHOD] = METHOD_SET;
	put16(u.mad + 66, 1 << 3);
	send_umad(pm, &u);
	assert_int_equal(get32(client.mad + 68 + 4 * 3), 0);
	assert_int_equal(get32(client.mad + 68 + 4 * 15), 7);
	u.mad[MAD_METHOD] = METHOD_GET;
	put16(u.mad + MAD_ATTR, ATTR_RCV_DATA_SL);
	u.mad[65] = 2;
	send_umad(pm, &u);
	assert_int_equal(get16(client.mad + MAD_STATUS), STATUS_BAD_FIELD);
	u.mad[65] = 255;
	send_umad(pm, &u);
	assert_int_equal(get32(client.mad + 68 + 4 * 15), 0); /* its peer received it */
}

static struct umad group_request(uint8_t method, uint8_t last_byte)
{
	struct umad u = sa_request(method, 100);

	put16(u.mad + MAD_ATTR, ATTR_MCMEMBER_RECORD);
	u.mad[SA_DATA + MCM_MGID + 15] = last_byte;
	u.mad[SA_DATA + MCM_JOIN_STATE] = 1;
	return u;
}

static bool sends(struct agent *agent, uint8_t method, uint8_t last_byte)
{
	struct umad u = group_request(method, last_byte);

	return member_sends(&fabric, agent, (const uint8_t *)&u);
}

/* As the kernel's multicast.c counts: a leave is the port's when it is the last process's. */
static void a_group_is_left_when_the_last_process_leaves(void **state)
{
	struct inbox first = {0}, second = {0};
	struct agent *a = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &first);
	struct agent *b = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &second);

	assert_true(sends(a, METHOD_SET, 1));
	assert_true(sends(a, METHOD_SET, 1));
	assert_true(sends(b, METHOD_SET, 1));
	assert_true(sends(b, METHOD_SET, 2));
	assert_true(sends(b, METHOD_DELETE, 2));
	assert_false(sends(b, METHOD_DELETE, 1));
	assert_false(sends(a, METHOD_DELETE, 1));
	assert_true(sends(a, METHOD_DELETE, 1));
}

/* The answer to an agent's join of that number: the group that was made, or a refusal. */
static void answer_join(const struct agent *agent, uint32_t number, uint8_t last_byte,
			uint16_t status)
{
	struct umad u = group_request(METHOD_GET_RESP, last_byte);

	put32(u.mad + MAD_TID, agent->tid);
	put32(u.mad + MAD_TID + 4, number);
	put16(u.mad + MAD_STATUS, status);
	member_answered(&fabric, 0, u.mad);
}

/* An agent at H1 whose process has joined that often without an MGID; the
 * subnet manager's is at H2. */
static struct agent *asks_for_groups(struct inbox *inbox, uint32_t joins)
{
	struct agent *a = agent_at(H1, 1, CLASS_SA, 2, 0, 0, inbox);
	struct umad u = group_request(METHOD_SET, 0);

	manage();
	agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_SET | 1ull << METHOD_DELETE, 0, &server);
	server.count = 0;
	for (uint32_t number = 1; number <= joins; number++) {
		put32(u.mad + MAD_TID + 4, number);
		assert_true(member_sends(&fabric, a, (const uint8_t *)&u));
	}
	return a;
}

/* 15.2.5.17.2: a join without an MGID makes a group, whose MGID is in the answer. */
static void a_group_that_the_sa_named_is_left_when_its_process_ends(void **state)
{
	struct inbox first = {0};
	struct agent *a = asks_for_groups(&first, 4);

	answer_join(a, 1, 9, 0);
	answer_join(a, 2, 8, 0);
	answer_join(a, 3, 0, 0x200); /* refused; the fourth has no answer */
	assert_true(sends(a, METHOD_DELETE, 8));
	member_end(&fabric, a);
	fabric_run(&fabric);
	assert_int_equal(server.count, 1);
	assert_int_equal(server.mad[SA_DATA + MCM_MGID + 15], 9);
	assert_null(fabric.members);
}

/* Of joins without an MGID the one is refused that the answer is for; one that has an MGID too. */
static void a_refusal_is_that_of_the_join_it_answers(void **state)
{
	struct inbox first = {0};
	struct agent *a = asks_for_groups(&first, 2);

	assert_true(sends(a, METHOD_SET, 7));
	answer_join(a, 0x1234, 7, 0x200);
	answer_join(a, 1, 0, 0x200);
	answer_join(a, 2, 9, 0);
	member_end(&fabric, a);
	fabric_run(&fabric);
	assert_int_equal(server.count, 1);
	assert_int_equal(server.mad[SA_DATA + MCM_MGID + 15], 9);
}

/* A join without an answer is none: the process asks again, and leaves once. */
static void a_join_that_times_out_does_not_count(void **state)
{
	struct inbox first = {0};
	struct agent *a = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &first);
	struct umad u = group_request(METHOD_SET, 7);

	manage();
	agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_SET | 1ull << METHOD_DELETE, 0, &server);
	server.count = 0;
	assert_true(member_sends(&fabric, a, (const uint8_t *)&u));
	send_umad(a, &u);
	time_passes(101);
	assert_int_equal(first.hdr.status, 110);
	/* The SA may have taken it. */
	assert_int_equal(server.count, 2);
	assert_int_equal(server.mad[MAD_METHOD], METHOD_DELETE);
	assert_true(sends(a, METHOD_SET, 7));
	assert_true(sends(a, METHOD_DELETE, 7));
	assert_null(fabric.members);
	free(first.mad);
}

static bool has_agents(unsigned node)
{
	return fabric.mads.at_port[index_of(&fabric, port_of(node, 1))];
}

/* A process joins without an MGID, and ends. */
static void join_and_end(struct agent *agent, uint32_t number)
{
	struct umad u = group_request(METHOD_SET, 0);

	u.hdr.retries = 2;
	put32(u.mad + MAD_TID + 4, number);
	assert_true(member_sends(&fabric, agent, (const uint8_t *)&u));
	assert_int_equal(send_umad(agent, &u), 0);
	member_end(&fabric, agent);
	fabric_run(&fabric);
}

static void a_process_that_ends_before_its_group_has_a_name_leaves_it(void **state)
{
	struct inbox first = {0};
	struct agent *sa;
	struct umad u;

	manage();
	sa = agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_SET | 1ull << METHOD_DELETE, 0, &server);
	server.count = 0;
	join_and_end(agent_at(H1, 1, CLASS_SA, 2, 0, 0, &first), 41);
	assert_int_equal(server.count, 1);
	assert_true(has_agents(H1));
	u = umad_to(be16toh(server.hdr.lid), 1, 0);
	memcpy(u.mad, server.mad, MAD_LEN);
	u.mad[MAD_METHOD] = METHOD_GET_RESP;
	u.mad[SA_DATA + MCM_MGID + 15] = 33;
	send_umad(sa, &u);
	fabric_run(&fabric);
	assert_int_equal(server.count, 2);
	assert_int_equal(server.mad[MAD_METHOD], METHOD_DELETE);
	assert_int_equal(server.mad[SA_DATA + MCM_MGID + 15], 33);
	assert_int_equal(first.count, 0);
	assert_false(has_agents(H1));
	assert_null(fabric.members);
	/* The same answer once more is nobody's. */
	send_umad(sa, &u);
	assert_int_equal(server.count, 2);
}

static void a_process_that_ends_while_nobody_answers_its_join_is_forgotten(void **state)
{
	struct inbox first = {0};

	manage();
	agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_SET | 1ull << METHOD_DELETE, 0, &server);
	server.count = 0;
	join_and_end(agent_at(H1, 1, CLASS_SA, 2, 0, 0, &first), 42);
	time_passes(250);
	assert_int_equal(server.count, 3); /* it is repeated */
	assert_true(has_agents(H1));
	time_passes(100);
	assert_int_equal(server.count, 3);
	assert_false(has_agents(H1));
	assert_null(fabric.members);
	assert_int_equal(first.count, 0);
	/* Nor does a fabric that ends wait for it. */
	join_and_end(agent_at(H1, 1, CLASS_SA, 2, 0, 0, &first), 43);
	assert_true(has_agents(H1));
}

/* The last of a host that ends: its port leaves. */
static void a_process_that_ends_leaves_its_groups(void **state)
{
	struct inbox first = {0}, second = {0};
	struct agent *a = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &first);
	struct agent *b = agent_at(H1, 1, CLASS_SA, 2, 0, 0, &second), *sa;
	struct umad u = group_request(METHOD_SET, 7);

	manage();
	sa = agent_at(H2, 1, CLASS_SA, 2, 1ull << METHOD_SET | 1ull << METHOD_DELETE, 0, &server);
	assert_non_null(sa);
	server.count = 0;
	assert_true(member_sends(&fabric, a, (const uint8_t *)&u));
	assert_true(member_sends(&fabric, b, (const uint8_t *)&u));
	member_end(&fabric, a);
	fabric_run(&fabric);
	assert_int_equal(server.count, 0);
	member_end(&fabric, b);
	fabric_run(&fabric);
	assert_int_equal(server.count, 1);
	assert_int_equal(server.mad[MAD_METHOD], METHOD_DELETE);
	assert_int_equal(server.mad[SA_DATA + MCM_MGID + 15], 7);
	assert_int_equal(get64(server.mad + SA_COMP_MASK), 0x10003);
}

/* 127.77.x.y the first port of a host, 127.78.x.y the second; and nobody else. */
static void each_port_of_a_host_has_an_ip_address(void **state)
{
	uint32_t first = 127u << 24 | 77u << 16 | (H3 + 1), second = first + (1 << 16);

	assert_int_equal(fabric_ip_of_port(fabric.map, index_of(&fabric, port_of(H3, 1))), first);
	assert_int_equal(fabric_ip_of_port(fabric.map, index_of(&fabric, port_of(H3, 2))), second);
	assert_ptr_equal(port_at(&fabric, fabric_ip_port(fabric.map, first)), port_of(H3, 1));
	assert_ptr_equal(port_at(&fabric, fabric_ip_port(fabric.map, second)), port_of(H3, 2));
	assert_int_equal(fabric_ip_port(fabric.map, second + (1 << 16)), FABRIC_NONE);
	assert_int_equal(fabric_ip_port(fabric.map, first + 1), FABRIC_NONE);
	assert_int_equal(fabric_ip_port(fabric.map, 127u << 24 | 77u << 16), FABRIC_NONE);
	assert_int_equal(fabric_ip_port(fabric.map, 127u << 24 | 1), FABRIC_NONE);
	assert_int_equal(fabric_ip_of_port(fabric.map, index_of(&fabric, port_of(LEAF1, 1))), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fabric_start, fabric_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_finds_its_agent_by_the_transaction_id),
		TEST(a_request_nobody_answers_times_out_after_its_retries),
		TEST(two_agents_cannot_have_the_same_method),
		TEST(registrations_are_refused_as_the_kernel_does),
		TEST(a_get_that_nobody_serves_is_answered_unsupported),
		TEST(long_answers_arrive_whole),
		TEST(segments_come_singly_to_a_program_that_does_rmpp_itself),
		TEST(segments_that_make_no_sense_are_refused),
		TEST(senders_of_segments_are_told_apart_by_their_gids),
		TEST(messages_that_are_not_completed_are_stopped_at_a_limit),
		TEST(messages_that_are_too_long_are_stopped_at_a_limit),
		TEST(a_message_whose_first_segment_finds_no_room_begins_anew),
		TEST(each_segment_has_all_retries),
		TEST(an_acknowledgement_beyond_the_window_ends_the_answer),
		TEST(repeated_acknowledgements_do_not_put_a_timeout_off),
		TEST(a_request_number_can_be_used_again),
		TEST(lost_segments_are_sent_again),
		TEST(a_sender_that_hears_nothing_gives_up),
		TEST(an_agent_that_goes_takes_what_is_under_way_with_it),
		TEST(wrong_pkeys_and_qkeys_are_counted),
		TEST(each_port_on_the_way_counts),
		TEST(counters_are_read_and_set_back),
		TEST(performance_management_says_what_it_does_not_do),
		TEST(data_by_sl_is_read_and_set_back),
		TEST(a_group_is_left_when_the_last_process_leaves),
		TEST(a_group_that_the_sa_named_is_left_when_its_process_ends),
		TEST(a_refusal_is_that_of_the_join_it_answers),
		TEST(a_join_that_times_out_does_not_count),
		TEST(a_process_that_ends_leaves_its_groups),
		TEST(a_process_that_ends_before_its_group_has_a_name_leaves_it),
		TEST(a_process_that_ends_while_nobody_answers_its_join_is_forgotten),
		TEST(each_port_of_a_host_has_an_ip_address),
	};
	int ret = cmocka_run_group_tests(tests, NULL, NULL);

	free(client.mad);
	free(server.mad);
	return ret;
}

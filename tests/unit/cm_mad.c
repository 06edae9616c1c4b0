// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Messages of the communication manager: where each field lies (IBTA vol. 1, 12.6 and 12.11), that
 * what is encoded is decoded, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cm/mad.h"

#define BODY 24

/* A MAD whose body counts up from 1, so that every byte names its place. */
static void counting(uint8_t mad[URXE_MAD_SIZE], enum urxe_cm_attr attr)
{
	static const uint8_t header[] = {1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};

	memset(mad, 0, URXE_MAD_SIZE);
	memcpy(mad, header, sizeof(header));
	mad[17] = attr;
	mad[20] = 0xa0;
	mad[23] = 0x0a;
	for (unsigned i = BODY; i < URXE_MAD_SIZE; i++)
		mad[i] = i - BODY + 1;
}

static struct urxe_cm_msg decode(const uint8_t mad[URXE_MAD_SIZE])
{
	struct urxe_cm_msg msg;

	assert_int_equal(urxe_cm_decode(&msg, mad), 0);
	assert_true(msg.tid == 0x0102030405060708ull);
	assert_int_equal(msg.attr_mod, 0xa000000a);
	return msg;
}

static void assert_private(const struct urxe_cm_msg *msg, unsigned at, unsigned size)
{
	assert_int_equal(urxe_cm_private_size(msg->attr), size);
	for (unsigned i = 0; i < size; i++)
		assert_int_equal(msg->private_data[i], (uint8_t)(at + i + 1));
	for (unsigned i = size; i < URXE_CM_MAX_PRIVATE; i++)
		assert_int_equal(msg->private_data[i], 0);
}

static void assert_path(const struct urxe_cm_msg_path *path, unsigned at)
{
	assert_int_equal(path->local_lid, (at + 1) << 8 | (at + 2));
	assert_int_equal(path->remote_lid, (at + 3) << 8 | (at + 4));
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(path->local_gid[i], at + 5 + i);
		assert_int_equal(path->remote_gid[i], at + 21 + i);
	}
}

/* 12.6.5, table 106 */
static void test_req_layout(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	counting(mad, URXE_CM_REQ);
	msg = decode(mad);
	assert_int_equal(msg.local_id, 0x01020304);
	assert_int_equal(msg.remote_id, 0);
	assert_int_equal(msg.req.vendor_id, 0x060708);
	assert_true(msg.req.service_id == 0x090a0b0c0d0e0f10ull);
	assert_true(msg.req.local_ca_guid == 0x1112131415161718ull);
	assert_int_equal(msg.req.local_qpn, 0x212223);
	assert_int_equal(msg.req.responder_resources, 0x24);
	assert_int_equal(msg.req.initiator_depth, 0x28);
	assert_int_equal(msg.req.remote_cm_response_timeout, 0x2c >> 3);
	assert_int_equal(msg.req.transport, 0x2c >> 1 & 3);
	assert_int_equal(msg.req.flow_control, 0x2c & 1);
	assert_int_equal(msg.req.starting_psn, 0x2d2e2f);
	assert_int_equal(msg.req.local_cm_response_timeout, 0x30 >> 3);
	assert_int_equal(msg.req.retry_count, 0x30 & 7);
	assert_int_equal(msg.req.pkey, 0x3132);
	assert_int_equal(msg.req.mtu, 0x33 >> 4);
	assert_int_equal(msg.req.rnr_retry_count, 0x33 & 7);
	assert_int_equal(msg.req.max_cm_retries, 0x34 >> 4);
	assert_int_equal(msg.req.srq, 0x34 >> 3 & 1);
	assert_int_equal(msg.req.extended_transport, 0x34 & 7);
	assert_path(&msg.req.primary, 52);
	assert_int_equal(msg.req.primary.flow_label, 0x595a5b >> 4);
	assert_int_equal(msg.req.primary.packet_rate, 0x5c & 63);
	assert_int_equal(msg.req.primary.traffic_class, 0x5d);
	assert_int_equal(msg.req.primary.hop_limit, 0x5e);
	assert_int_equal(msg.req.primary.sl, 0x5f >> 4);
	assert_int_equal(msg.req.primary.subnet_local, 0x5f >> 3 & 1);
	assert_int_equal(msg.req.primary.ack_timeout, 0x60 >> 3);
	assert_private(&msg, 140, URXE_CM_REQ_PRIVATE);
}

/* 12.6.6, table 107 */
static void test_mra_layout(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	counting(mad, URXE_CM_MRA);
	mad[BODY + 8] = 0x40;
	msg = decode(mad);
	assert_int_equal(msg.local_id, 0x01020304);
	assert_int_equal(msg.remote_id, 0x05060708);
	assert_int_equal(msg.mra.about, URXE_CM_ABOUT_REP);
	assert_int_equal(msg.mra.service_timeout, 0x0a >> 3);
	assert_private(&msg, 10, URXE_CM_MRA_PRIVATE);
}

/* 12.6.7, table 108 */
static void test_rej_layout(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	counting(mad, URXE_CM_REJ);
	mad[BODY + 8] = 0x80;
	msg = decode(mad);
	assert_int_equal(msg.rej.about, URXE_CM_ABOUT_OTHER);
	assert_int_equal(msg.rej.ari_len, 0x0a >> 1);
	assert_int_equal(msg.rej.reason, 0x0b0c);
	for (unsigned i = 0; i < URXE_CM_REJ_ARI; i++)
		assert_int_equal(msg.rej.ari[i], 13 + i);
	assert_private(&msg, 84, URXE_CM_REJ_PRIVATE);
}

/* 12.6.8, table 110 */
static void test_rep_layout(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	counting(mad, URXE_CM_REP);
	msg = decode(mad);
	assert_int_equal(msg.rep.local_qpn, 0x0d0e0f);
	assert_int_equal(msg.rep.local_eecn, 0x111213);
	assert_int_equal(msg.rep.vendor_id, 0x101418);
	assert_int_equal(msg.rep.starting_psn, 0x151617);
	assert_int_equal(msg.rep.responder_resources, 0x19);
	assert_int_equal(msg.rep.initiator_depth, 0x1a);
	assert_int_equal(msg.rep.target_ack_delay, 0x1b >> 3);
	assert_int_equal(msg.rep.failover_accepted, 0x1b >> 1 & 3);
	assert_int_equal(msg.rep.flow_control, 0x1b & 1);
	assert_int_equal(msg.rep.rnr_retry_count, 0x1c >> 5);
	assert_int_equal(msg.rep.srq, 0x1c >> 4 & 1);
	assert_true(msg.rep.local_ca_guid == 0x1d1e1f2021222324ull);
	assert_private(&msg, 36, URXE_CM_REP_PRIVATE);
}

/* 12.6.9 to 12.6.11, tables 111 to 113 */
static void test_rtu_dreq_drep_layout(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	counting(mad, URXE_CM_RTU);
	msg = decode(mad);
	assert_private(&msg, 8, URXE_CM_RTU_PRIVATE);
	counting(mad, URXE_CM_DREQ);
	msg = decode(mad);
	assert_int_equal(msg.dreq.remote_qpn, 0x090a0b);
	assert_private(&msg, 12, URXE_CM_DREQ_PRIVATE);
	counting(mad, URXE_CM_DREP);
	msg = decode(mad);
	assert_int_equal(msg.local_id, 0x01020304);
	assert_int_equal(msg.remote_id, 0x05060708);
	assert_private(&msg, 8, URXE_CM_DREP_PRIVATE);
}

/* 12.11, tables 119 and 120 */
static void test_sidr_layout(void **state)
{
	uint8_t mad[URXE_MAD_SIZE];
	struct urxe_cm_msg msg;

	counting(mad, URXE_CM_SIDR_REQ);
	msg = decode(mad);
	assert_int_equal(msg.local_id, 0x01020304);
	assert_int_equal(msg.sidr_req.pkey, 0x0506);
	assert_true(msg.sidr_req.service_id == 0x090a0b0c0d0e0f10ull);
	assert_private(&msg, 16, URXE_CM_SIDR_REQ_PRIVATE);
	counting(mad, URXE_CM_SIDR_REP);
	msg = decode(mad);
	assert_int_equal(msg.local_id, 0x01020304);
	assert_int_equal(msg.sidr_rep.status, 5);
	assert_int_equal(msg.sidr_rep.info_len, 6);
	assert_int_equal(msg.sidr_rep.vendor_id, 0x07080c);
	assert_int_equal(msg.sidr_rep.qpn, 0x090a0b);
	assert_true(msg.sidr_rep.service_id == 0x0d0e0f1011121314ull);
	assert_int_equal(msg.sidr_rep.qkey, 0x15161718);
	assert_int_equal(msg.sidr_rep.info[0], 25);
	assert_private(&msg, 96, URXE_CM_SIDR_REP_PRIVATE);
}

static uint64_t seed;

static uint8_t random_byte(void)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 40;
}

/* Whatever can be decoded is the same after another turn. */
static void test_decoded_is_encoded_again(void **state)
{
	struct urxe_cm_msg first, second;
	uint8_t mad[URXE_MAD_SIZE];
	unsigned good = 0;

	for (unsigned turn = 0; turn < 20000; turn++) {
		seed = turn;
		counting(mad, URXE_CM_REQ + turn % 11);
		for (unsigned i = BODY; i < URXE_MAD_SIZE; i++)
			mad[i] = random_byte();
		if (urxe_cm_decode(&first, mad))
			continue;
		good++;
		urxe_cm_encode(mad, &first);
		assert_int_equal(urxe_cm_decode(&second, mad), 0);
		assert_memory_equal(&first, &second, sizeof(first));
	}
	assert_true(good > 10000);
}

/* No field reaches into its neighbour: each alone, all ones, comes back alone. */
static void test_fields_do_not_overlap(void **state)
{
	static const enum urxe_cm_attr attrs[] = {URXE_CM_REQ, URXE_CM_REP, URXE_CM_SIDR_REP};
	struct urxe_cm_msg msg, other;
	uint8_t mad[URXE_MAD_SIZE], again[URXE_MAD_SIZE];

	for (unsigned a = 0; a < 3; a++) {
		for (unsigned bit = 0; bit < 8 * (URXE_MAD_SIZE - BODY); bit++) {
			counting(mad, attrs[a]);
			memset(mad + BODY, 0, URXE_MAD_SIZE - BODY);
			mad[BODY + bit / 8] = 0x80 >> bit % 8;
			urxe_cm_decode(&msg, mad);
			urxe_cm_encode(again, &msg);
			/* the bit itself, or nothing where it is reserved */
			if (memcmp(again, mad, URXE_MAD_SIZE)) {
				mad[BODY + bit / 8] = 0;
				assert_memory_equal(again, mad, URXE_MAD_SIZE);
			}
			urxe_cm_decode(&other, again);
			assert_memory_equal(&msg, &other, sizeof(msg));
		}
	}
}

static void test_fields_too_large_are_cut(void **state)
{
	struct urxe_cm_msg msg = {.attr = URXE_CM_REQ, .local_id = 1}, got;
	uint8_t mad[URXE_MAD_SIZE];

	msg.req.local_qpn = 0xff000123;
	msg.req.retry_count = 0xff;
	urxe_cm_encode(mad, &msg);
	assert_int_equal(urxe_cm_decode(&got, mad), 0);
	assert_int_equal(got.req.local_qpn, 0x123);
	assert_int_equal(got.req.retry_count, 7);
	assert_int_equal(got.req.local_cm_response_timeout, 0);
	assert_int_equal(got.req.responder_resources, 0);
}

struct malformed {
	const char *why;
	enum urxe_cm_attr attr;
	unsigned at, len;
	uint8_t value;
	int error;
};

static const struct malformed malformed[] = {
	{"base version", URXE_CM_REQ, 0, 1, 2, -EPROTONOSUPPORT},
	{"class", URXE_CM_REQ, 1, 1, 3, -EPROTONOSUPPORT},
	{"class version", URXE_CM_REQ, 2, 1, 1, -EPROTONOSUPPORT},
	{"method", URXE_CM_REQ, 3, 1, 1, -EBADMSG},
	{"attribute below", URXE_CM_REQ, 17, 1, 0x0f, -EBADMSG},
	{"attribute above", URXE_CM_REQ, 17, 1, 0x1b, -EBADMSG},
	{"attribute high", URXE_CM_REQ, 16, 1, 1, -EBADMSG},
	{"REQ without communication ID", URXE_CM_REQ, BODY, 4, 0, -EBADMSG},
	{"MRA of nothing", URXE_CM_MRA, BODY + 8, 1, 0xc0, -EBADMSG},
	{"MRA for nobody", URXE_CM_MRA, BODY + 4, 4, 0, -EBADMSG},
	{"REJ of nothing", URXE_CM_REJ, BODY + 8, 1, 0xc0, -EBADMSG},
	{"REJ with ARI too long", URXE_CM_REJ, BODY + 9, 1, 73 << 1, -EBADMSG},
	{"REP from nobody", URXE_CM_REP, BODY, 4, 0, -EBADMSG},
	{"REP for nobody", URXE_CM_REP, BODY + 4, 4, 0, -EBADMSG},
	{"RTU for nobody", URXE_CM_RTU, BODY + 4, 4, 0, -EBADMSG},
	{"RTU from nobody", URXE_CM_RTU, BODY, 4, 0, -EBADMSG},
	{"DREQ for nobody", URXE_CM_DREQ, BODY + 4, 4, 0, -EBADMSG},
	{"DREP for nobody", URXE_CM_DREP, BODY + 4, 4, 0, -EBADMSG},
	{"SIDR_REP with info too long", URXE_CM_SIDR_REP, BODY + 5, 1, 73, -EBADMSG},
};

static void test_malformed(void **state)
{
	struct urxe_cm_msg msg;
	uint8_t mad[URXE_MAD_SIZE];

	for (unsigned i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		const struct malformed *m = &malformed[i];

		counting(mad, m->attr);
		if (m->attr == URXE_CM_MRA || m->attr == URXE_CM_REJ)
			mad[BODY + 8] = 0;
		if (m->attr == URXE_CM_REQ)
			mad[BODY + 43] = 0; /* RC */
		assert_int_equal(urxe_cm_decode(&msg, mad), 0);
		memset(mad + m->at, m->value, m->len);
		if (urxe_cm_decode(&msg, mad) != m->error)
			fail_msg("%s", m->why);
	}
}

/* A program without a QP connects with number 0, or with what it likes, as the kernel lets it. */
static void test_any_qp_number(void **state)
{
	static const uint8_t numbers[] = {0, 0xff};
	struct urxe_cm_msg msg;
	uint8_t mad[URXE_MAD_SIZE];

	for (unsigned i = 0; i < sizeof(numbers); i++) {
		counting(mad, URXE_CM_REQ);
		mad[BODY + 43] = 0; /* RC */
		memset(mad + BODY + 32, numbers[i], 3);
		assert_int_equal(urxe_cm_decode(&msg, mad), 0);
		assert_int_equal(msg.req.local_qpn, numbers[i] * 0x10101);
		counting(mad, URXE_CM_REP);
		memset(mad + BODY + 12, numbers[i], 3);
		memset(mad + BODY + 16, 0, 3);
		assert_int_equal(urxe_cm_decode(&msg, mad), 0);
		assert_int_equal(msg.rep.local_qpn, numbers[i] * 0x10101);
	}
}

/* A11.3.1: IPv4 addresses in the last four bytes */
static void test_cma_header(void **state)
{
	static const uint8_t v4[URXE_CMA_HEADER] = {
		0, 0x40, 0x12, 0x34, 0,	  0, 0, 0, 0,	       0, 0, 0,
		0, 0,	 0,    0,    127, 0, 0, 1, [32] = 127, 0, 0, 2,
	};
	struct urxe_cma_header header = {.ip_version = 4, .source_port = 0x1234}, got;
	uint8_t data[URXE_CMA_HEADER];

	header.source.s6_addr[10] = header.source.s6_addr[11] = 0xff;
	header.source.s6_addr[12] = 127;
	header.destination = header.source;
	header.source.s6_addr[15] = 1;
	header.destination.s6_addr[15] = 2;
	urxe_cma_encode(data, &header);
	assert_memory_equal(data, v4, sizeof(data));
	assert_int_equal(urxe_cma_decode(&got, data), 0);
	assert_memory_equal(&got, &header, sizeof(got));

	header.ip_version = 6;
	header.source = in6addr_loopback;
	header.destination = in6addr_loopback;
	urxe_cma_encode(data, &header);
	assert_int_equal(data[1], 0x60);
	assert_int_equal(data[19], 1);
	assert_int_equal(urxe_cma_decode(&got, data), 0);
	assert_memory_equal(&got, &header, sizeof(got));

	data[1] = 0x50;
	assert_int_equal(urxe_cma_decode(&got, data), -EBADMSG);
	data[1] = 0x60;
	data[0] = 0x10;
	assert_int_equal(urxe_cma_decode(&got, data), -EBADMSG);
}

/* A11.2 */
static void test_service_id(void **state)
{
	uint16_t ps, port;

	assert_true(urxe_cma_service_id(0x0106, 7174) == 0x0000000001061c06ull);
	assert_true(urxe_cma_service_port(0x0000000001061c06ull, &ps, &port));
	assert_int_equal(ps, 0x0106);
	assert_int_equal(port, 7174);
	assert_true(urxe_cma_service_port(0x0000000000021c06ull, &ps, &port));
	assert_int_equal(ps, 2);
	assert_false(urxe_cma_service_port(0x1000000001061c06ull, &ps, &port));
	assert_false(urxe_cma_service_port(0x0000000002061c06ull, &ps, &port));
}

/* What a request asks for is the same whether all of it is decoded or not. */
static void test_asks(void **state)
{
	for (unsigned attr = URXE_CM_REQ; attr <= URXE_CM_SIDR_REP; attr++) {
		bool request = attr == URXE_CM_REQ || attr == URXE_CM_SIDR_REQ;
		uint8_t mad[URXE_MAD_SIZE];
		const uint8_t *data;
		uint64_t service_id;
		unsigned len;

		counting(mad, attr);
		assert_int_equal(urxe_cm_asks(mad, &service_id, &data, &len), request);
		if (!request)
			continue;
		assert_true(service_id == 0x090a0b0c0d0e0f10ull);
		assert_int_equal(len, urxe_cm_private_size(attr));
		assert_memory_equal(data, decode(mad).private_data, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_req_layout),
		cmocka_unit_test(test_mra_layout),
		cmocka_unit_test(test_rej_layout),
		cmocka_unit_test(test_rep_layout),
		cmocka_unit_test(test_rtu_dreq_drep_layout),
		cmocka_unit_test(test_sidr_layout),
		cmocka_unit_test(test_decoded_is_encoded_again),
		cmocka_unit_test(test_fields_do_not_overlap),
		cmocka_unit_test(test_fields_too_large_are_cut),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_any_qp_number),
		cmocka_unit_test(test_asks),
		cmocka_unit_test(test_cma_header),
		cmocka_unit_test(test_service_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

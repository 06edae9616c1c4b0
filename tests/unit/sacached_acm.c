/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ibacm's protocol, with messages as librdmacm and libacm build and read them (their structures are
 * declared here, as no header of theirs is installed).
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/sa.h>

#include "daemons/sacached/acm.h"

struct entry {
	uint32_t flags;
	uint16_t type;
	uint16_t reserved;
	union {
		uint8_t bytes[64];
		struct ibv_path_record path;
	};
};

struct message {
	uint8_t version, op, status, data[3];
	uint16_t length;
	uint64_t tid;
	union {
		struct entry entry[8];
		uint64_t counter[72];
		struct {
			uint64_t guid;
			uint8_t port, ports, reserved[2];
			uint16_t pkey, names;
			char provider[64];
			char name[7][64];
		} endpoint;
	};
};
_Static_assert(sizeof(struct entry) == ACM_ENTRY_SIZE, "as in acm.h of librdmacm");
_Static_assert(sizeof(struct message) == ACM_MAX_REQUEST, "as in acm.h of librdmacm");

enum { RESOLVE = 1, PERF = 2, EP = 3, ACK = 0x80, SOURCE = 1, DEST = 2 };
#define QUERY_SA (1u << 31)
#define NODELAY	 (1u << 30)

static struct message request(uint8_t op, unsigned entries)
{
	struct message message = {.version = 1, .op = op, .tid = 0x1122334455667788};
	uint16_t length = ACM_HEADER_SIZE + entries * ACM_ENTRY_SIZE;

	message.length = op == RESOLVE ? length : htobe16(length);
	return message;
}

static struct entry address(uint32_t flags, uint16_t type, const char *text)
{
	struct entry entry = {.flags = flags, .type = type};

	if (type == ACM_NAME)
		memcpy(entry.bytes, text, strlen(text));
	else
		assert_int_equal(inet_pton(type == ACM_IP ? AF_INET : AF_INET6, text, entry.bytes),
				 1);
	return entry;
}

static enum acm_status parse(const struct message *message, struct acm_request *out)
{
	int length = acm_length((const uint8_t *)message);

	assert_true(length >= ACM_HEADER_SIZE);
	return acm_parse((const uint8_t *)message, length, out);
}

static void the_length_is_in_host_order_for_resolve_and_big_endian_for_the_others(void **state)
{
	struct message message = request(RESOLVE, 2);

	assert_int_equal(acm_length((uint8_t *)&message), 160);
	message.length = htobe16(160);
	assert_int_equal(acm_length((uint8_t *)&message), -EPROTO);
	message.op = PERF;
	assert_int_equal(acm_length((uint8_t *)&message), 160);
	message.op = EP;
	assert_int_equal(acm_length((uint8_t *)&message), 160);
}

static void what_is_no_message_is_refused_by_its_header(void **state)
{
	static const struct {
		uint8_t version, op;
		uint16_t length;
	} bad[] = {
		{0, RESOLVE, 88},  {2, RESOLVE, 88},	   {1, 0, 88},
		{1, 4, 88},	   {1, RESOLVE, 15},	   {1, RESOLVE, 0},
		{1, RESOLVE, 593}, {1, RESOLVE, 65535},	   {1, PERF, 0x0f00},
		{1, EP, 0x5102},   {1, RESOLVE | ACK, 88}, {'G', 'E', 0x2f20},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct message message = {.version = bad[i].version, .op = bad[i].op};

		message.length = bad[i].length;
		assert_int_equal(acm_length((uint8_t *)&message), -EPROTO);
	}
}

static void a_resolve_by_addresses_has_both_ends_in_any_order(void **state)
{
	struct message message = request(RESOLVE, 2);
	struct acm_request got;

	for (unsigned first = 0; first < 2; first++) {
		message.entry[first] = address(SOURCE, ACM_IP, "10.0.0.1");
		message.entry[!first] = address(DEST | NODELAY, ACM_IP6, "fd00::2");
		assert_int_equal(parse(&message, &got), ACM_SUCCESS);
		assert_int_equal(got.kind, ACM_RESOLVE_ADDRESS);
		assert_int_equal(got.src.type, ACM_IP);
		assert_memory_equal(got.src.bytes, "\x0a\0\0\1", 4);
		assert_int_equal(got.dst.type, ACM_IP6);
		assert_int_equal(got.dst.bytes[0], 0xfd);
		assert_true(got.nodelay && !got.query_sa);
	}
}

/* ibacm's acm_svr_verify_resolve(). */
static void wrong_ends_are_answered_as_ibacm_answers_them(void **state)
{
	static const struct {
		unsigned count;
		uint32_t flags[2];
		uint16_t types[2];
		enum acm_status status;
	} rows[] = {
		{0, {0}, {0}, ACM_EDESTTYPE},
		{1, {SOURCE}, {ACM_IP}, ACM_EDESTTYPE},
		{1, {0}, {ACM_IP}, ACM_EDESTTYPE},
		{1, {DEST}, {ACM_IP}, ACM_SUCCESS},
		{1, {DEST}, {0}, ACM_EDESTTYPE},
		{1, {DEST}, {6}, ACM_EDESTTYPE},
		{2, {SOURCE, DEST}, {0, ACM_IP}, ACM_ESRCTYPE},
		{2, {SOURCE, DEST}, {6, ACM_IP}, ACM_ESRCTYPE},
		{2, {SOURCE, DEST}, {ACM_IP, ACM_PATH}, ACM_EDESTTYPE},
		{2, {SOURCE, SOURCE}, {ACM_IP, ACM_IP}, ACM_ESRCADDR},
		{2, {DEST, DEST}, {ACM_IP, ACM_IP}, ACM_EDESTADDR},
		{2, {SOURCE, DEST}, {ACM_NAME, ACM_NAME}, ACM_SUCCESS},
		{2, {SOURCE, DEST}, {ACM_GID, ACM_LID}, ACM_SUCCESS},
		{1, {SOURCE | DEST}, {ACM_IP}, ACM_SUCCESS},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct message message = request(RESOLVE, rows[i].count);
		struct acm_request got;

		for (unsigned n = 0; n < 2; n++)
			message.entry[n] =
				(struct entry){.flags = rows[i].flags[n], .type = rows[i].types[n]};
		assert_int_equal(parse(&message, &got), rows[i].status);
	}
}

static void a_name_of_64_bytes_is_ended(void **state)
{
	struct message message = request(RESOLVE, 1);
	struct acm_request got;

	message.entry[0] = (struct entry){.flags = DEST, .type = ACM_NAME};
	memset(message.entry[0].bytes, 'x', 64);
	assert_int_equal(parse(&message, &got), ACM_SUCCESS);
	assert_int_equal(strlen((char *)got.dst.bytes), 63);
}

static struct ibv_path_record record(void)
{
	struct ibv_path_record path = {
		.service_id = htobe64(0x1000000000000001),
		.dlid = htobe16(7),
		.slid = htobe16(3),
		.tclass = 9,
		.reversible_numpath = IBV_PATH_RECORD_REVERSIBLE | 1,
		.pkey = htobe16(0x8001),
		.qosclass_sl = htobe16(0x0125),
	};

	inet_pton(AF_INET6, "fe80::2", &path.dgid);
	inet_pton(AF_INET6, "fe80::1", &path.sgid);
	return path;
}

static void a_record_asks_for_its_components_that_are_not_zero(void **state)
{
	struct message message = request(RESOLVE, 1);
	struct ibv_path_record path = {.dlid = htobe16(7)};
	struct acm_request got;
	struct sacache_key key;

	message.entry[0] = (struct entry){.flags = QUERY_SA, .type = ACM_PATH, .path = record()};
	assert_int_equal(parse(&message, &got), ACM_SUCCESS);
	assert_int_equal(got.kind, ACM_RESOLVE_PATH);
	assert_true(got.query_sa && !got.nodelay);
	acm_key(got.record, &key);
	assert_int_equal(key.mask, 2 * SACACHE_QOS_CLASS - 1);
	assert_int_equal(key.dlid, 7);
	assert_int_equal(key.slid, 3);
	assert_int_equal(key.pkey, 0x8001);
	assert_int_equal(key.sl, 5);
	assert_int_equal(key.qos_class, 0x12);
	assert_int_equal(key.tclass, 9);
	assert_int_equal(key.service_id, 0x1000000000000001);
	assert_int_equal(key.dgid[15], 2);
	assert_int_equal(key.sgid[15], 1);
	message.entry[0].path = path;
	assert_int_equal(parse(&message, &got), ACM_SUCCESS);
	acm_key(got.record, &key);
	assert_int_equal(key.mask, SACACHE_DLID);
	message.entry[0].path.dlid = 0;
	assert_int_equal(parse(&message, &got), ACM_EDESTADDR);
}

static void addresses_may_have_a_record_beside_them(void **state)
{
	struct message message = request(RESOLVE, 3);
	struct acm_request got;

	message.entry[0] = address(SOURCE, ACM_IP, "10.0.0.1");
	message.entry[1] = address(DEST, ACM_IP, "10.0.0.2");
	message.entry[2] = (struct entry){.type = ACM_PATH, .path = record()};
	assert_int_equal(parse(&message, &got), ACM_SUCCESS);
	assert_int_equal(got.kind, ACM_RESOLVE_ADDRESS);
	assert_memory_equal(got.record, &message.entry[2].path, 64);
}

/* 15.2.5.16: 0 greater than, 1 less than, 2 exactly, 3 the largest there is. */
static void a_path_has_to_have_the_mtu_rate_and_lifetime_that_were_asked_for(void **state)
{
	static const struct {
		uint8_t asked;
		bool good;
	} rows[] = {{0, true},	   {0x03, true}, {0x04, false}, {0x45, true},
		    {0x44, false}, {0x84, true}, {0x85, false}, {0xc5, true}};
	struct sacache_path path = {.mtu = 4, .rate = 4, .lifetime = 4, .flow_label = 0x12345};
	struct ibv_path_record asked = {0};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		asked = (struct ibv_path_record){.mtu = rows[i].asked};
		assert_int_equal(acm_satisfies((uint8_t *)&asked, &path), rows[i].good);
		asked = (struct ibv_path_record){.rate = rows[i].asked};
		assert_int_equal(acm_satisfies((uint8_t *)&asked, &path), rows[i].good);
		asked = (struct ibv_path_record){.packetlifetime = rows[i].asked};
		assert_int_equal(acm_satisfies((uint8_t *)&asked, &path), rows[i].good);
	}
	asked = (struct ibv_path_record){.flowlabel_hoplimit = htobe32(0x12345 << 8)};
	assert_true(acm_satisfies((uint8_t *)&asked, &path));
	asked.flowlabel_hoplimit = htobe32(0x12346 << 8);
	assert_false(acm_satisfies((uint8_t *)&asked, &path));
}

static struct sacache_path answer(void)
{
	struct sacache_path path = {.dlid = 7, .slid = 3, .pkey = 0xffff, .sl = 2, .mtu = 4};

	path.dgid[15] = 2;
	path.sgid[15] = 1;
	path.reversible = true;
	path.numb_path = 1;
	return path;
}

/* librdmacm's ucma_ib_save_resp(), and the kernel's ucma_set_ib_path(), which wants these flags. */
static void a_path_is_answered_first_with_the_flags_that_the_kernel_wants(void **state)
{
	uint8_t out[ACM_MAX_ANSWER];
	const struct message *got = (void *)out;
	struct message message = request(RESOLVE, 1);
	struct sacache_path path = answer();
	struct acm_address source = {.type = ACM_IP, .bytes = {10, 0, 0, 1}};
	struct acm_request asked;
	size_t length;

	message.entry[0] = address(DEST, ACM_IP, "10.0.0.2");
	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	length = acm_answer_path(&asked, &path, &source, out);
	assert_int_equal(length, 160);
	assert_int_equal(got->length, 160);
	assert_int_equal(got->op, RESOLVE | ACK);
	assert_int_equal(got->status, 0);
	assert_int_equal(got->tid, message.tid);
	assert_int_equal(got->entry[0].type, ACM_PATH);
	assert_int_equal(got->entry[0].flags,
			 IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL);
	assert_int_equal(be16toh(got->entry[0].path.dlid), 7);
	assert_int_equal(got->entry[0].path.mtu, 0x84);
	assert_int_equal(got->entry[1].type, ACM_IP);
	assert_int_equal(got->entry[1].flags, SOURCE);
	assert_memory_equal(got->entry[1].bytes, "\x0a\0\0\1", 4);
	assert_int_equal(acm_answer_path(&asked, &path, NULL, out), 88);
}

/* libacm's ib_acm_resolve_path() reads the path from where it wrote its own. */
static void a_question_past_the_table_is_answered_in_its_place(void **state)
{
	uint8_t out[ACM_MAX_ANSWER];
	const struct message *got = (void *)out;
	struct message message = request(RESOLVE, 1);
	struct sacache_path path = answer();
	struct acm_request asked;

	message.entry[0] = (struct entry){.flags = QUERY_SA, .type = ACM_PATH, .path = record()};
	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	assert_int_equal(acm_answer_path(&asked, &path, NULL, out), 88);
	assert_int_equal(got->entry[0].flags, QUERY_SA);
	assert_int_equal(be16toh(got->entry[0].path.pkey), 0xffff);
	assert_int_equal(acm_answer_error(&asked, ACM_ENODATA, out), 88);
	assert_int_equal(got->length, 88);
	assert_int_equal(got->status, ACM_ENODATA);
	message.length += ACM_ENTRY_SIZE;
	assert_int_equal(parse(&message, &asked), ACM_EINVAL);
}

static void an_error_is_a_header(void **state)
{
	uint8_t out[ACM_MAX_ANSWER];
	const struct message *got = (void *)out;
	struct message message = request(RESOLVE, 1);
	struct acm_request asked;

	message.entry[0] = address(DEST, ACM_IP, "10.0.0.2");
	message.data[1] = 5;
	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	assert_int_equal(acm_answer_error(&asked, ACM_ESRCADDR, out), 16);
	assert_int_equal(got->length, 16);
	assert_int_equal(got->status, ACM_ESRCADDR);
	assert_int_equal(got->data[1], 0);
}

/* libacm's ib_acm_query_perf() and ib_acm_query_perf_ep_addr(). */
static void counters_are_asked_for_as_a_whole_by_endpoint_or_by_address(void **state)
{
	static const uint64_t count[ACM_COUNTERS] = {1, 2, 3, 4, 5, 6, 0x123456789a};
	uint8_t out[ACM_MAX_ANSWER];
	const struct message *got = (void *)out;
	struct message message = request(PERF, 0);
	struct acm_request asked;

	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	assert_int_equal(asked.kind, ACM_PERF_ALL);
	assert_int_equal(acm_answer_counters(&asked, count, out), 72);
	assert_int_equal(be16toh(got->length), 72);
	assert_int_equal(got->data[0], 7);
	assert_int_equal(be64toh(got->counter[6]), 0x123456789a);
	message.data[1] = 3;
	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	assert_int_equal(asked.kind, ACM_PERF_ENDPOINT);
	assert_int_equal(asked.index, 3);
	message = request(PERF, 1);
	message.entry[0] = address(SOURCE, ACM_IP, "10.0.0.1");
	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	assert_int_equal(asked.kind, ACM_PERF_ADDRESS);
	assert_int_equal(asked.src.bytes[0], 10);
	message.entry[0].type = ACM_PATH;
	assert_int_equal(parse(&message, &asked), ACM_ESRCADDR);
}

/* libacm's ib_acm_enum_ep(). */
static void an_endpoint_is_in_network_byte_order(void **state)
{
	static struct acm_endpoint endpoint = {.guid = 0x0002c90300001234, .port = 2, .ports = 3};
	uint8_t out[ACM_MAX_ANSWER];
	const struct message *got = (void *)out;
	struct message message = request(EP, 0);
	struct acm_request asked;

	message.data[0] = 4;
	message.data[1] = 2;
	assert_int_equal(parse(&message, &asked), ACM_SUCCESS);
	assert_int_equal(asked.kind, ACM_QUERY_ENDPOINT);
	assert_int_equal(asked.index, 4);
	assert_int_equal(asked.port, 2);
	endpoint.pkey = 0x8001;
	endpoint.names = 2;
	strcpy(endpoint.name[1], "10.0.0.1");
	assert_int_equal(acm_answer_endpoint(&asked, &endpoint, out), 16 + 80 + 128);
	assert_int_equal(be16toh(got->length), 16 + 80 + 128);
	assert_int_equal(be64toh(got->endpoint.guid), 0x0002c90300001234);
	assert_int_equal(got->endpoint.port, 2);
	assert_int_equal(got->endpoint.ports, 3);
	assert_int_equal(be16toh(got->endpoint.pkey), 0x8001);
	assert_int_equal(be16toh(got->endpoint.names), 2);
	assert_string_equal(got->endpoint.provider, "sacached");
	assert_string_equal(got->endpoint.name[1], "10.0.0.1");
	assert_int_equal(got->data[0] | got->data[1], 0);
	endpoint.names = ACM_MAX_NAMES;
	assert_int_equal(acm_answer_endpoint(&asked, &endpoint, out), ACM_MAX_ANSWER);
}

static void errors_of_the_sa_are_statuses_of_ibacm(void **state)
{
	assert_int_equal(acm_status_of(0), ACM_SUCCESS);
	assert_int_equal(acm_status_of(-EHOSTUNREACH), ACM_ENODATA);
	assert_int_equal(acm_status_of(-ETIMEDOUT), ACM_ETIMEDOUT);
	assert_int_equal(acm_status_of(-EBUSY), ACM_ETIMEDOUT);
	assert_int_equal(acm_status_of(-EAGAIN), ACM_ENOMEM);
	assert_int_equal(acm_status_of(-ECANCELED), ACM_ENOTCONN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_length_is_in_host_order_for_resolve_and_big_endian_for_the_others),
		cmocka_unit_test(what_is_no_message_is_refused_by_its_header),
		cmocka_unit_test(a_resolve_by_addresses_has_both_ends_in_any_order),
		cmocka_unit_test(wrong_ends_are_answered_as_ibacm_answers_them),
		cmocka_unit_test(a_name_of_64_bytes_is_ended),
		cmocka_unit_test(a_record_asks_for_its_components_that_are_not_zero),
		cmocka_unit_test(addresses_may_have_a_record_beside_them),
		cmocka_unit_test(a_path_has_to_have_the_mtu_rate_and_lifetime_that_were_asked_for),
		cmocka_unit_test(a_path_is_answered_first_with_the_flags_that_the_kernel_wants),
		cmocka_unit_test(a_question_past_the_table_is_answered_in_its_place),
		cmocka_unit_test(an_error_is_a_header),
		cmocka_unit_test(counters_are_asked_for_as_a_whole_by_endpoint_or_by_address),
		cmocka_unit_test(an_endpoint_is_in_network_byte_order),
		cmocka_unit_test(errors_of_the_sa_are_statuses_of_ibacm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

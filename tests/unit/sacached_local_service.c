/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The kernel's questions for paths, byte for byte as it builds them (sa_query.c:
 * ib_nl_set_path_rec_attrs(); addr.c: ib_nl_ip_send_msg()), and the answers, judged as it judges
 * them (ib_nl_process_good_resolve_rsp(), before and since 6.1). Numbers are a little-endian
 * machine's.
 */
#include "sacache_test.h"

#include <linux/netlink.h>
#include <rdma/ib_user_sa.h>

#include "daemons/sacached/local_service.h"

#define MAX_MESSAGE 256

#define DGID "fe80000000000000 0002c903000a0b0c "
#define SGID "fe80000000000000 0002c90300010203 "
#define GIDS "1400 0420 " DGID "1400 0520 " SGID
/* strscpy_pad() of 64 bytes: mlx5_0 */
#define ZEROS  "0000000000000000"
#define MLX5_0 "6d6c78355f300000" ZEROS ZEROS ZEROS ZEROS ZEROS ZEROS ZEROS " "

/* rdma_cm over IPv4: RESOLVE, a request, number 7; from port 1, for use ALL. */
static const char from_rdma_cm[] = "98000000 0010 0100 07000000 00000000 " MLX5_0 "01 00 0000 "
				   "0c00 0320 ce1c060100000000 " /* service ID 0x01061cce */
	GIDS "0600 0720 ffff 0000 "				 /* P_Key */
				   "0600 0820 2000 0000 ";	 /* QoS class */

/* The same before 6.1, which said GMP; over IPv6, with a traffic class in place of the QoS class.
 * */
static const char from_rdma_cm_v6[] = "98000000 0010 0100 08000000 00000000 " MLX5_0 "02 02 0000 "
				      "0c00 0320 ce1c060100000000 " GIDS "0500 0620 40 000000 "
				      "0600 0720 0180 0000 ";

/* IPoIB, for one direction. */
static const char from_ipoib[] =
	"8c000000 0010 0100 09000000 00000000 " MLX5_0 "01 01 0000 " GIDS "0500 0620 00 000000 "
	"0600 0720 ffff 0000 ";

/* rdma_cm behind a gateway, from interface 4: IP_RESOLVE of 10.1.2.3, and of fd00::3. */
static const char for_ipv4[] = "1c000000 0210 0100 0a000000 00000000 04000000 0800 0920 0a010203";
static const char for_ipv6[] = "28000000 0210 0100 0b000000 00000000 04000000 "
			       "1400 0a20 fd00000000000000 0000000000000003";

/* What OpenSM answers: LID 12 from LID 3, reversible, P_Key 0xffff, MTU 2048, 100 Gb/s, raised. */
#define RECORD                                               \
	"000000000106 1cce " DGID SGID "000c 0003 00000000 " \
	"00 80 ffff 0000 84 90 92 00 000000000001 "

static size_t hex(const char *text, uint8_t *buf)
{
	size_t n = 0;

	for (; *text; text++) {
		unsigned byte;

		if (*text == ' ')
			continue;
		assert_int_equal(sscanf(text++, "%2x", &byte), 1);
		assert_true(n < MAX_MESSAGE);
		buf[n++] = byte;
	}
	return n;
}

static void assert_bytes(const uint8_t *buf, size_t length, const char *text)
{
	uint8_t expected[MAX_MESSAGE];

	assert_int_equal(hex(text, expected), length);
	assert_memory_equal(buf, expected, length);
}

static enum ls_kind parse_bytes(const void *buf, size_t length, struct ls_message *message)
{
	uint8_t *copy = malloc(length ? length : 1); /* its end is watched */
	enum ls_kind kind;
	size_t size;

	memcpy(copy, buf, length);
	kind = ls_parse(copy, length, message, &size);
	assert_true(size <= length);
	free(copy);
	return kind;
}

static enum ls_kind parse(const char *text, struct ls_message *message)
{
	uint8_t buf[MAX_MESSAGE];

	return parse_bytes(buf, hex(text, buf), message);
}

static void what_rdma_cm_asks_becomes_a_key(void **state)
{
	struct ls_message message;

	assert_int_equal(parse(from_rdma_cm, &message), LS_PATH);
	assert_int_equal(message.seq, 7);
	assert_string_equal(message.device, "mlx5_0");
	assert_int_equal(message.port, 1);
	assert_int_equal(message.path_use, LS_RESOLVE_PATH_USE_ALL);
	assert_int_equal(message.key.mask, SACACHE_SERVICE_ID | SACACHE_DGID | SACACHE_SGID |
						   SACACHE_PKEY | SACACHE_QOS_CLASS);
	assert_int_equal(message.key.service_id, 0x01061cce);
	assert_bytes(message.key.dgid, 16, DGID);
	assert_bytes(message.key.sgid, 16, SGID);
	assert_int_equal(message.key.pkey, 0xffff);
	assert_int_equal(message.key.qos_class, 0x20);

	assert_int_equal(parse(from_rdma_cm_v6, &message), LS_PATH);
	assert_int_equal(message.port, 2);
	assert_int_equal(message.path_use, LS_RESOLVE_PATH_USE_GMP);
	assert_int_equal(message.key.mask, SACACHE_SERVICE_ID | SACACHE_DGID | SACACHE_SGID |
						   SACACHE_PKEY | SACACHE_TCLASS);
	assert_int_equal(message.key.pkey, 0x8001);
	assert_int_equal(message.key.tclass, 0x40);
}

static void what_ipoib_asks_becomes_a_key(void **state)
{
	struct ls_message message;

	assert_int_equal(parse(from_ipoib, &message), LS_PATH);
	assert_int_equal(message.path_use, LS_RESOLVE_PATH_USE_UNIDIRECTIONAL);
	assert_int_equal(message.key.mask,
			 SACACHE_DGID | SACACHE_SGID | SACACHE_PKEY | SACACHE_TCLASS);
}

static void a_device_name_of_all_64_bytes_ends(void **state)
{
	struct ls_message message;
	uint8_t buf[MAX_MESSAGE];
	size_t length = hex(from_ipoib, buf);

	memset(buf + 16, 'x', 64); /* as older kernels copied it */
	assert_int_equal(parse_bytes(buf, length, &message), LS_PATH);
	assert_int_equal(strlen(message.device), 64);
}

static void test_record(struct sacache_path *path)
{
	uint8_t record[MAX_MESSAGE];

	assert_int_equal(hex(RECORD, record), 64);
	sacache_path_decode(record, path);
}

/* Type and number are the question's; flags PRIMARY, GMP, BIDIRECTIONAL. */
static void an_answer_is_the_record_byte_for_byte(void **state)
{
	struct ls_message message;
	struct sacache_path path;
	uint8_t buf[LS_MESSAGE_SIZE];

	test_record(&path);
	parse(from_rdma_cm, &message);
	assert_bytes(buf, ls_answer_path(&message, &path, buf),
		     "5c000000 0010 0000 07000000 00000000 "
		     "4c00 0100 2b000000 00000000 " RECORD);
}

/* Whether the kernel finds those flags in an answer. */
static bool kernel_takes(const uint8_t *buf, size_t length, uint32_t mask)
{
	struct nlmsghdr header;
	struct nlattr attr;
	struct ib_path_rec_data data;

	memcpy(&header, buf, sizeof(header));
	if (header.nlmsg_len != length || length < 20 ||
	    header.nlmsg_flags & (NLM_F_REQUEST | RDMA_NL_LS_F_ERR))
		return false;
	memcpy(&attr, buf + 16, sizeof(attr));
	/* Its policy lets nothing longer through, and it compares the type with all its flags. */
	if (attr.nla_type != LS_NLA_TYPE_PATH_RECORD || attr.nla_len != 4 + sizeof(data))
		return false;
	memcpy(&data, buf + 20, sizeof(data));
	return (data.flags & mask) == mask;
}

static const struct {
	uint8_t use;
	uint32_t mask;
	bool both_ways;
} uses[] = {
	{LS_RESOLVE_PATH_USE_UNIDIRECTIONAL, IB_PATH_PRIMARY | IB_PATH_OUTBOUND, false},
	{LS_RESOLVE_PATH_USE_GMP, IB_PATH_PRIMARY | IB_PATH_GMP | IB_PATH_BIDIRECTIONAL, true},
	{LS_RESOLVE_PATH_USE_ALL, IB_PATH_PRIMARY | IB_PATH_GMP | IB_PATH_BIDIRECTIONAL, true},
	/* Since 6.1, where rdma_cm then uses the path for which GMP is said. */
	{LS_RESOLVE_PATH_USE_ALL, IB_PATH_PRIMARY, true},
	{LS_RESOLVE_PATH_USE_ALL, IB_PATH_GMP, true},
};

static void answers_are_such_as_the_kernel_takes(void **state)
{
	struct ls_message message;
	struct sacache_path path;
	uint8_t buf[LS_MESSAGE_SIZE];

	parse(from_rdma_cm, &message);
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		size_t length;

		message.path_use = uses[i].use;
		test_record(&path);
		length = ls_answer_path(&message, &path, buf);
		assert_true(kernel_takes(buf, length, uses[i].mask));
		/* A path of one direction is none to who needs both. */
		path.reversible = false;
		length = ls_answer_path(&message, &path, buf);
		assert_int_equal(kernel_takes(buf, length, uses[i].mask), !uses[i].both_ways);
	}
}

static void an_error_makes_the_kernel_ask_the_sa(void **state)
{
	static const char expected[] = "10000000 0010 0001 07000000 00000000";
	struct ls_message message;
	uint8_t buf[LS_MESSAGE_SIZE];

	parse(from_rdma_cm, &message);
	assert_bytes(buf, ls_answer_path(&message, NULL, buf), expected);
	assert_bytes(buf, ls_answer_error(&message, buf), expected);
}

/* One byte of rdma_cm's question is another. */
static const struct {
	unsigned at;
	uint8_t value;
	enum ls_kind kind;
} spoilt[] = {
	{4, 2, LS_INVALID},	 /* IP_RESOLVE without an address */
	{4, 1, LS_INVALID},	 /* SET_TIMEOUT is not the kernel's to ask */
	{4, 3, LS_INVALID},	 /* an operation of a kernel to come */
	{5, 0x14, LS_IGNORE},	 /* of NLDEV */
	{6, 0, LS_IGNORE},	 /* an answer, of another service */
	{0, 151, LS_PATH},	 /* without the last padding */
	{0, 84, LS_INVALID},	 /* no attributes */
	{0, 83, LS_INVALID},	 /* not even a header */
	{0, 16, LS_INVALID},	 /* nothing */
	{0, 15, LS_IGNORE},	 /* less than nothing */
	{0, 153, LS_IGNORE},	 /* more than there is */
	{81, 3, LS_INVALID},	 /* a use to come */
	{84, 11, LS_INVALID},	 /* a service ID of 7 bytes */
	{84, 3, LS_INVALID},	 /* an attribute shorter than its head */
	{85, 1, LS_INVALID},	 /* and one beyond the end */
	{86, 60, LS_INVALID},	 /* unknown, and it counts */
	{96, 19, LS_INVALID},	 /* a DGID of 15 bytes */
	{98, 5, LS_INVALID},	 /* no DGID but two SGIDs */
	{136, 7, LS_INVALID},	 /* a P_Key of 3 bytes */
	{149, 0x10, LS_INVALID}, /* a QoS class of 13 bits */
};

static void questions_that_are_not_as_the_kernel_asks_are_refused(void **state)
{
	for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++) {
		uint8_t buf[MAX_MESSAGE];
		size_t length = hex(from_rdma_cm, buf);
		struct ls_message message;

		buf[spoilt[i].at] = spoilt[i].value;
		if (parse_bytes(buf, length, &message) != spoilt[i].kind)
			fail_msg("byte %u as %u", spoilt[i].at, spoilt[i].value);
	}
}

static void unknown_attributes_that_do_not_count_are_left_aside(void **state)
{
	uint8_t buf[MAX_MESSAGE];
	size_t length = hex(from_rdma_cm, buf);
	struct ls_message message;

	buf[86] = 60;
	buf[87] = 0;
	assert_int_equal(parse_bytes(buf, length, &message), LS_PATH);
	assert_false(message.key.mask & SACACHE_SERVICE_ID);
}

static void a_question_that_is_cut_off_is_none(void **state)
{
	uint8_t buf[MAX_MESSAGE];
	size_t length = hex(from_rdma_cm, buf);
	struct ls_message message;

	for (size_t i = 0; i < length; i++)
		assert_int_equal(parse_bytes(buf, i, &message), LS_IGNORE);
}

static void several_messages_may_come_in_one(void **state)
{
	uint8_t both[2 * MAX_MESSAGE];
	size_t first = hex(for_ipv4, both), second = hex(from_ipoib, both + first), size;
	struct ls_message message;

	assert_int_equal(ls_parse(both, first + second, &message, &size), LS_ADDRESS);
	assert_int_equal(size, first);
	assert_int_equal(ls_parse(both + size, second, &message, &size), LS_PATH);
	assert_int_equal(size, second);
}

static void addresses_are_asked_for_and_answered(void **state)
{
	struct sockaddr_in *v4;
	struct sockaddr_in6 *v6;
	struct ls_message message;
	uint8_t buf[LS_MESSAGE_SIZE], gid[MAX_MESSAGE];

	hex(DGID, gid);
	assert_int_equal(parse(for_ipv4, &message), LS_ADDRESS);
	v4 = (struct sockaddr_in *)&message.address;
	assert_int_equal(v4->sin_family, AF_INET);
	assert_bytes((uint8_t *)&v4->sin_addr, 4, "0a010203");
	assert_bytes(buf, ls_answer_address(&message, gid, buf),
		     "24000000 0210 0000 0a000000 00000000 1400 0400 " DGID);

	assert_int_equal(parse(for_ipv6, &message), LS_ADDRESS);
	v6 = (struct sockaddr_in6 *)&message.address;
	assert_int_equal(v6->sin6_family, AF_INET6);
	assert_bytes((uint8_t *)&v6->sin6_addr, 16, "fd00000000000000 0000000000000003");
	assert_bytes(buf, ls_answer_address(&message, NULL, buf),
		     "10000000 0210 0001 0b000000 00000000");
}

/* Kernels up to 6.1 reckon with too little room for an IPv6 address. */
static void a_question_without_its_address_is_refused(void **state)
{
	struct ls_message message;

	assert_int_equal(parse("14000000 0210 0100 0b000000 00000000 04000000", &message),
			 LS_INVALID);
	assert_int_equal(message.seq, 11);
}

static void the_timeout_is_set_and_acknowledged(void **state)
{
	static const char request[] = "18000000 0110 0500 03000000 00000000 0800 0200 dc050000";
	struct ls_message message;
	uint8_t buf[LS_MESSAGE_SIZE];

	assert_bytes(buf, ls_set_timeout(3, 1500, buf), request);
	assert_int_equal(parse("24000000 0200 0001 03000000 d2040000 00000000 "
			       "18000000 0110 0500 03000000 00000000",
			       &message),
			 LS_ACKNOWLEDGE);
	assert_int_equal(message.error, 0);
	assert_int_equal(message.type, RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_SET_TIMEOUT));
	assert_int_equal(message.seq, 3);
}

/* The kernel sends the message back with its error. */
static void what_the_kernel_refuses_is_heard(void **state)
{
	struct ls_message message;

	assert_int_equal(parse("34000000 0200 0000 07000000 d2040000 ffffffff "
			       "10000000 0010 0001 07000000 00000000",
			       &message),
			 LS_IGNORE); /* shorter than it says */
	assert_int_equal(parse("24000000 0200 0000 07000000 d2040000 ffffffff "
			       "10000000 0010 0001 07000000 00000000",
			       &message),
			 LS_ACKNOWLEDGE);
	assert_int_equal(message.error, -EPERM);
	assert_int_equal(message.type, RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_RESOLVE));
	assert_int_equal(parse("20000000 0200 0000 07000000 d2040000 ffffffff "
			       "10000000 0010 0001 07000000",
			       &message),
			 LS_IGNORE);
	assert_int_equal(parse("24000000 0200 0000 07000000 d2040000 01000000 "
			       "10000000 0010 0001 07000000 00000000",
			       &message),
			 LS_IGNORE); /* no errno */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rdma_cm_asks_becomes_a_key),
		cmocka_unit_test(what_ipoib_asks_becomes_a_key),
		cmocka_unit_test(a_device_name_of_all_64_bytes_ends),
		cmocka_unit_test(an_answer_is_the_record_byte_for_byte),
		cmocka_unit_test(answers_are_such_as_the_kernel_takes),
		cmocka_unit_test(an_error_makes_the_kernel_ask_the_sa),
		cmocka_unit_test(questions_that_are_not_as_the_kernel_asks_are_refused),
		cmocka_unit_test(unknown_attributes_that_do_not_count_are_left_aside),
		cmocka_unit_test(a_question_that_is_cut_off_is_none),
		cmocka_unit_test(several_messages_may_come_in_one),
		cmocka_unit_test(addresses_are_asked_for_and_answered),
		cmocka_unit_test(a_question_without_its_address_is_refused),
		cmocka_unit_test(the_timeout_is_set_and_acknowledged),
		cmocka_unit_test(what_the_kernel_refuses_is_heard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

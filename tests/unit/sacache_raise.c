/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Raising the reserved field in the path records of an SA's answers, as the library that is
 * preloaded into opensm does.
 */
#include "sacache_test.h"

#include "libsacache/mad.h"
#include "libsacache/opensm/raise.h"

enum { MOST = 40, ROOM = SA_MAD_DATA + MOST * 80 };

static const uint8_t value[SA_RAISE_SIZE] = {1, 2, 3, 4, 5, 6};

/* A whole table of so many records, stride apart, as OpenSM hands it to the kernel. */
static size_t make_table(uint8_t *mad, unsigned records, unsigned stride)
{
	struct sa_mad header = {
		.method = SA_GET_TABLE_RESP,
		.attribute = SA_ATTR_PATH_RECORD,
		.attr_offset = stride / 8,
	};

	memset(mad, 0, ROOM);
	sa_mad_encode(&header, mad);
	mad[26] = SA_RMPP_ACTIVE;
	for (unsigned i = 0; i < records; i++) {
		struct sacache_path path = test_path(i + 1, 10 + i, false);

		sa_record_encode(&path, mad + SA_MAD_DATA + i * stride);
	}
	return SA_MAD_DATA + records * stride;
}

/* What of the table one segment carries. */
static size_t make_segment(uint8_t *mad, const uint8_t *table, size_t length, unsigned segment)
{
	size_t from = (segment - 1) * SA_MAD_DATA_SIZE, rest = length - SA_MAD_DATA - from;
	bool last = rest <= SA_MAD_DATA_SIZE;

	memset(mad, 0, SA_MAD_SIZE);
	memcpy(mad, table, SA_MAD_DATA);
	memcpy(mad + SA_MAD_DATA, table + SA_MAD_DATA + from, last ? rest : SA_MAD_DATA_SIZE);
	mad[24] = 1;
	mad[25] = SA_RMPP_DATA;
	mad[26] = SA_RMPP_ACTIVE | (segment == 1 ? SA_RMPP_FIRST : 0) | (last ? SA_RMPP_LAST : 0);
	sa_put32(mad + 28, segment);
	if (last)
		sa_put32(mad + 32, SA_RMPP_HEADER + rest);
	return last ? rest : SA_MAD_DATA_SIZE;
}

static void make_answer(uint8_t mad[SA_MAD_SIZE])
{
	uint8_t data[SA_MAD_DATA_SIZE] = {0};
	struct sacache_path path = test_path(1, 10, false);
	struct sa_mad header = {
		.method = SA_GET_RESP, .attribute = SA_ATTR_PATH_RECORD, .data = data};

	sa_record_encode(&path, data);
	sa_mad_encode(&header, mad);
}

/* OpenSM sends as much of the MAD as there is in it. */
static void an_answer_is_raised_and_nothing_else_in_it(void **state)
{
	const size_t length = SA_MAD_DATA + SA_RECORD_SIZE;
	uint8_t mad[SA_MAD_SIZE], before[SA_MAD_SIZE];

	make_answer(mad);
	memcpy(before, mad, sizeof(mad));
	assert_int_equal(sa_raise(mad, length, value), 1);
	assert_true(sa_record_raised(mad + SA_MAD_DATA));
	assert_memory_equal(mad, before, SA_MAD_DATA + SA_RECORD_RESERVED);
	assert_memory_equal(mad + SA_MAD_DATA + SA_RECORD_RESERVED, value, SA_RAISE_SIZE);
	assert_memory_equal(mad + length, before + length, SA_MAD_SIZE - length);
}

/* Each row makes the answer one that is not for us. */
static void what_is_no_answer_with_paths_is_left_alone(void **state)
{
	static const struct {
		unsigned byte;
		uint8_t value;
	} rows[] = {
		{0, 2},	    /* base version */
		{1, 4},	    /* class: performance management */
		{2, 1},	    /* class version */
		{3, 0x01},  /* Get */
		{3, 0x12},  /* GetTable */
		{3, 0x02},  /* Set */
		{4, 3},	    /* status: no records */
		{5, 1},	    /* busy */
		{17, 0x11}, /* NodeRecord */
		{16, 0x01}, /* an attribute of 16 bits */
	};
	uint8_t mad[SA_MAD_SIZE], before[SA_MAD_SIZE];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make_answer(mad);
		mad[rows[i].byte] = rows[i].value;
		memcpy(before, mad, sizeof(mad));
		assert_int_equal(sa_raise(mad, sizeof(mad), value), 0);
		assert_memory_equal(mad, before, sizeof(mad));
	}
	make_answer(mad);
	for (size_t length = 0; length < SA_MAD_DATA + SA_RECORD_SIZE; length++)
		assert_int_equal(sa_raise(mad, length, value), 0);
	assert_false(sa_record_raised(mad + SA_MAD_DATA));
}

static void all_records_of_a_table_are_raised(void **state)
{
	static uint8_t mad[ROOM];

	for (unsigned stride = SA_RECORD_SIZE; stride <= 80; stride += 8)
		for (unsigned records = 0; records <= MOST; records++) {
			size_t length = make_table(mad, records, stride);

			assert_int_equal(sa_raise(mad, length, value), records);
			for (unsigned i = 0; i < records; i++)
				assert_memory_equal(mad + SA_MAD_DATA + i * stride +
							    SA_RECORD_RESERVED,
						    value, SA_RAISE_SIZE);
		}
}

/* C15-0.1.2: records run on over the segments' ends, whatever the attribute offset. */
static void segments_are_raised_as_the_whole_table_is(void **state)
{
	static uint8_t table[ROOM], raised[ROOM], joined[ROOM];

	for (unsigned stride = SA_RECORD_SIZE; stride <= 80; stride += 8) {
		size_t length = make_table(table, MOST, stride), at = 0;

		memcpy(raised, table, sizeof(table));
		sa_raise(raised, length, value);
		for (unsigned segment = 1; at < length - SA_MAD_DATA; segment++) {
			uint8_t mad[SA_MAD_SIZE];
			size_t n = make_segment(mad, table, length, segment);

			sa_raise(mad, sizeof(mad), value);
			memcpy(joined + at, mad + SA_MAD_DATA, n);
			at += n;
			for (size_t i = n; i < SA_MAD_DATA_SIZE; i++)
				assert_int_equal(mad[SA_MAD_DATA + i], 0);
		}
		assert_memory_equal(joined, raised + SA_MAD_DATA, length - SA_MAD_DATA);
	}
}

static void a_table_of_a_wrong_attribute_offset_is_left_alone(void **state)
{
	static uint8_t mad[ROOM], before[ROOM];
	size_t length = make_table(mad, 3, SA_RECORD_SIZE);

	for (unsigned offset = 0; offset < SA_RECORD_SIZE / 8; offset++) {
		sa_put16(mad + 44, offset);
		memcpy(before, mad, sizeof(mad));
		assert_int_equal(sa_raise(mad, length, value), 0);
		assert_memory_equal(mad, before, sizeof(mad));
	}
}

/* Any bytes of any length: the memory sanitizers watch. */
static void any_bytes_do_no_harm(void **state)
{
	uint64_t random = 1;

	for (unsigned i = 0; i < 20000; i++) {
		size_t length = test_random(&random) % 400;
		uint8_t *mad = malloc(length + 1);

		assert_non_null(mad);
		for (size_t j = 0; j < length; j++)
			mad[j] = (uint8_t)(test_random(&random) >> 32);
		if (length > SA_MAD_DATA) {
			memcpy(mad, (uint8_t[]){1, 3, 2, i & 1 ? 0x92 : 0x81, 0, 0}, 6);
			sa_put16(mad + 16, SA_ATTR_PATH_RECORD);
		}
		sa_raise(mad, length, value);
		free(mad);
	}
}

static void values_are_parsed(void **state)
{
	static const char *const bad[] = {
		"", "0", "000000000000", "1000000000000", "x", "1x", "-1", " 1", "on"};
	uint8_t out[SA_RAISE_SIZE];

	assert_true(sa_raise_parse("1", out));
	assert_memory_equal(out, ((uint8_t[]){0, 0, 0, 0, 0, 1}), SA_RAISE_SIZE);
	assert_true(sa_raise_parse("010203040506", out));
	assert_memory_equal(out, value, SA_RAISE_SIZE);
	assert_true(sa_raise_parse("FFFFFFFFFFFF", out));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(sa_raise_parse(bad[i], out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_raised_and_nothing_else_in_it),
		cmocka_unit_test(what_is_no_answer_with_paths_is_left_alone),
		cmocka_unit_test(all_records_of_a_table_are_raised),
		cmocka_unit_test(segments_are_raised_as_the_whole_table_is),
		cmocka_unit_test(a_table_of_a_wrong_attribute_offset_is_left_alone),
		cmocka_unit_test(any_bytes_do_no_harm),
		cmocka_unit_test(values_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

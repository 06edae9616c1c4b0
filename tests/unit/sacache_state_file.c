/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A state file's bytes, made and read in memory: no cache, no port, no disk.
 */
#include "sacache_test.h"

#include "libsacache/state_file.h"

#define WHEN	1700000000
#define ENTRIES 2

static uint8_t file[SA_STATE_HEADER + SA_STATE_PORT + ENTRIES * SA_STATE_ENTRY];

static struct sa_state_port a_port(void)
{
	struct sa_state_port port = {.day = sa_state_day(WHEN), .caching = true};

	test_gid(1, port.identity.gid);
	port.identity.lid = 7;
	port.identity.sm_lid = 1;
	port.identity.sm_guid = 0x1122334455667788;
	return port;
}

/* The path to fe80::N, asked for by its GID. */
static void an_entry(unsigned n, struct sacache_key *key, uint8_t record[SA_RECORD_SIZE])
{
	struct sacache_path path = {.dlid = n, .slid = 7, .pkey = 0xffff, .mtu = 4, .rate = 3};

	test_gid(n, path.dgid);
	test_gid(1, path.sgid);
	*key = (struct sacache_key){.mask = SACACHE_DGID};
	memcpy(key->dgid, path.dgid, 16);
	sa_record_encode(&path, record);
}

static void seal(uint32_t ports, uint64_t entries)
{
	uint32_t crc = sa_state_checksum(0, file + SA_STATE_HEADER, sizeof(file) - SA_STATE_HEADER);

	sa_state_encode_header(ports, entries, WHEN, crc, file);
}

static int make_file(void **state)
{
	struct sa_state_port port = a_port();
	uint8_t *at = file + SA_STATE_HEADER;

	sa_state_encode_port(&port, at);
	at += SA_STATE_PORT;
	for (unsigned n = 0; n < ENTRIES; n++, at += SA_STATE_ENTRY) {
		uint8_t record[SA_RECORD_SIZE];
		struct sacache_key key;

		an_entry(10 + n, &key, record);
		sa_state_encode_entry(&key, record, n, 0, at);
	}
	seal(1, ENTRIES);
	return 0;
}

static void what_was_written_is_read(void **state)
{
	struct sa_state_port port = a_port();
	struct sa_state parsed;

	assert_null(sa_state_parse(&parsed, file, sizeof(file)));
	assert_int_equal(parsed.ports, 1);
	assert_int_equal(parsed.entries, ENTRIES);
	assert_int_equal(parsed.when, WHEN);
	assert_memory_equal(&parsed.port[0].identity, &port.identity, sizeof(port.identity));
	assert_int_equal(parsed.port[0].day, port.day);
	assert_true(parsed.port[0].caching);
	for (unsigned n = 0; n < ENTRIES; n++) {
		struct sa_state_entry entry;
		uint8_t record[SA_RECORD_SIZE];
		struct sacache_key key;

		an_entry(10 + n, &key, record);
		assert_null(sa_state_decode(&parsed, n, &entry));
		assert_memory_equal(entry.record, record, sizeof(record));
		assert_memory_equal(entry.key.dgid, key.dgid, 16);
		assert_int_equal(entry.key.mask, key.mask);
		assert_int_equal(entry.failures, n);
	}
}

static void no_byte_can_be_another(void **state)
{
	struct sa_state parsed;

	for (size_t i = 0; i < sizeof(file); i++) {
		file[i] ^= 0x10;
		assert_non_null(sa_state_parse(&parsed, file, sizeof(file)));
		file[i] ^= 0x10;
	}
	assert_null(sa_state_parse(&parsed, file, sizeof(file)));
}

static void no_part_is_a_file(void **state)
{
	struct sa_state parsed;

	for (size_t length = 0; length < sizeof(file); length++) {
		uint8_t *part = malloc(length + 1);

		memcpy(part, file, length);
		assert_non_null(sa_state_parse(&parsed, part, length));
		free(part);
	}
}

/* Checksums are no proof of sense. */
static void what_could_not_have_been_saved_is_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t byte;
	} rows[] = {
		{72, 0x80}, /* a mask of nothing known */
		{82, 1},    /* a port that is not in the file */
		{83, 15},   /* more failures than are counted */
		{87, 1},    /* no zero */
	};
	struct sa_state parsed;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t *byte = file + SA_STATE_HEADER + SA_STATE_PORT + rows[i].at, kept = *byte;

		*byte = rows[i].byte;
		seal(1, ENTRIES);
		assert_string_equal(sa_state_parse(&parsed, file, sizeof(file)),
				    "one of its entries is none that could have been saved");
		*byte = kept;
	}
	seal(0, ENTRIES);
	assert_string_equal(sa_state_parse(&parsed, file, sizeof(file)),
			    "its header makes no sense");
	seal(SACACHE_MAX_PORTS + 1, ENTRIES);
	assert_string_equal(sa_state_parse(&parsed, file, sizeof(file)),
			    "its header makes no sense");
	seal(1, ENTRIES + 1);
	assert_string_equal(sa_state_parse(&parsed, file, sizeof(file)), "it is cut off");
	seal(1, ENTRIES - 1);
	assert_string_equal(sa_state_parse(&parsed, file, sizeof(file)),
			    "there is something behind its end");
}

static void a_port_without_a_day_was_there_when_the_file_was_written(void **state)
{
	struct sa_state_port port = a_port();
	uint8_t bytes[SA_STATE_PORT];

	port.day = 0;
	sa_state_encode_port(&port, bytes);
	sa_state_decode_port(bytes, WHEN, &port);
	assert_int_equal(port.day, WHEN / 86400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_was_written_is_read, make_file),
		cmocka_unit_test_setup(no_byte_can_be_another, make_file),
		cmocka_unit_test_setup(no_part_is_a_file, make_file),
		cmocka_unit_test_setup(what_could_not_have_been_saved_is_refused, make_file),
		cmocka_unit_test_setup(a_port_without_a_day_was_there_when_the_file_was_written,
				       make_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* vGUIDs in the metadata of libvirt's domains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "migrate/metadata.h"

static int parse(struct record *record, const char *xml)
{
	memset(record, 0, sizeof(*record));
	return metadata_parse(record, xml, strlen(xml));
}

static void libvirt_hands_it_out_without_its_prefix(void **state)
{
	struct record r;

	assert_int_equal(parse(&r, "<port guid=\"0x0255525800010000\" pkeys=\"0xffff,0x8001\"/>\n"),
			 0);
	assert_true(r.guid == 0x0255525800010000);
	assert_int_equal(r.num_pkeys, 2);
	assert_int_equal(r.pkeys[1], 0x8001);
}

static void as_a_person_writes_it(void **state)
{
	struct record r;

	assert_int_equal(parse(&r, " <lidtrack:port xmlns:lidtrack='urn:urxe:lidtrack:1'\n"
				   "\tguid = '0x1' />"),
			 0);
	assert_true(r.guid == 1);
	assert_int_equal(r.num_pkeys, 0);
}

static void what_is_written_is_read(void **state)
{
	struct record r = {.guid = 0xfa163e0000010203, .num_pkeys = RECORD_PKEYS}, again;
	char xml[METADATA_LEN];

	for (unsigned i = 0; i < RECORD_PKEYS; i++)
		r.pkeys[i] = 0x8000 + i;
	assert_true(metadata_format(&r, xml) < sizeof(xml));
	assert_int_equal(parse(&again, xml), 0);
	assert_true(again.guid == r.guid);
	assert_int_equal(again.num_pkeys, RECORD_PKEYS);
	assert_memory_equal(again.pkeys, r.pkeys, sizeof(r.pkeys));
}

static void anything_else_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"<port/>",
		"<port guid='0x0'/>",
		"<port guid='1'/>",
		"<port guid='0x10255525800010000'/>",
		"<port guid='0x-1'/>",
		"<port guid='0x1'>",
		"<port guid='0x1'/><port guid='0x2'/>",
		"<port guid='0x1' guid='0x2'/>",
		"<port guid='0x1' pkeys='0x10000'/>",
		"<port guid='0x1' lid='7'/>",
		"<port guid='0x1'",
		"<port guid='0x1",
		"<other guid='0x1'/>",
		"<port guid=0x1/>",
	};
	struct record r;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(parse(&r, bad[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libvirt_hands_it_out_without_its_prefix),
		cmocka_unit_test(as_a_person_writes_it),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(anything_else_is_refused),
	};

	return cmocka_run_group_tests_name("migrate_metadata", tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Machines: Tianhe-2's numbers, names, and files.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/machine.h"

static struct machine *load(const char *what)
{
	struct machine *m;
	char error[256];

	assert_int_equal(machine_load(what, 1, &m, error, sizeof(error)), 0);
	return m;
}

static void tianhe2_has_the_numbers_of_the_paper(void **state)
{
	static const unsigned at_hops[] = {1, 2, 23, 262, 964, 1248, 1556, 600, 1200};
	struct machine *m = load("th2");
	uint8_t *hops = malloc(m->chip_count);
	unsigned histogram[256] = {0}, farthest = 0;

	assert_int_equal(m->nrcs, 5856);
	assert_int_equal(m->nics, 18304);
	assert_int_equal(2 * machine_optical_links(m), 46080);
	assert_int_equal(machine_hops(m, m->chip_count - 1, hops), 0);
	for (uint32_t i = 0; i < m->chip_count - 1; i++) {
		if (m->chips[i].type == NMP_NRC)
			histogram[hops[i]]++;
		if (hops[i] > farthest)
			farthest = hops[i];
	}
	for (unsigned i = 0; i < 9; i++)
		assert_int_equal(histogram[i], at_hops[i]);
	assert_int_equal(farthest, 9);
	free(hops);
	machine_destroy(m);
}

static void each_cable_has_two_ends(void **state)
{
	struct machine *m = load("th2");

	for (uint32_t i = 0; i < m->port_count; i++)
		if (m->ports[i].peer != MACHINE_NONE) {
			assert_int_equal(m->ports[m->ports[i].peer].peer, i);
			assert_int_not_equal(m->ports[m->ports[i].peer].chip, m->ports[i].chip);
		}
	machine_destroy(m);
}

static void chips_are_found_by_the_names_they_have(void **state)
{
	struct machine *m = load("th2");
	char name[MACHINE_NAME_LEN], place[MACHINE_PLACE_LEN];
	unsigned port;

	for (uint32_t i = 0; i < m->chip_count; i += 97)
		assert_int_equal(machine_find_name(m, machine_chip_name(m, i, name), NULL), i);
	assert_int_equal(machine_find_name(m, "S.leaf.3.7:4", &port), 144 * 24 + 3 * 20 + 7);
	assert_int_equal(port, 4);
	assert_string_equal(machine_place(m, 144 * 24 + 3 * 20 + 7, 4, place),
			    "cabinet L1 frame 0 board 7 NRC 0 port 4 QSFP 8+9");
	assert_int_equal(machine_find_name(m, "S.leaf.3.7:24", &port), MACHINE_NONE);
	assert_int_equal(machine_find_name(m, "S.leaf.48.0", NULL), MACHINE_NONE);
	assert_int_equal(machine_find_name(m, "", NULL), MACHINE_NONE);
	machine_destroy(m);
}

static void a_written_machine_reads_as_the_same(void **state)
{
	struct machine *m = load("tree:2,3,2,4"), *again;
	char error[256], *text, a[MACHINE_NAME_LEN], b[MACHINE_NAME_LEN];
	size_t length;
	FILE *file = open_memstream(&text, &length);

	assert_int_equal(machine_write(m, file), 0);
	fclose(file);
	file = fmemopen(text, length, "r");
	assert_int_equal(machine_read(file, &again, error, sizeof(error)), 0);
	fclose(file);
	free(text);
	assert_int_equal(again->chip_count, m->chip_count);
	assert_int_equal(again->port_count, m->port_count);
	assert_int_equal(again->nics, m->nics);
	assert_int_equal(again->servers, m->servers);
	for (uint32_t i = 0; i < m->port_count; i++) {
		assert_int_equal(again->ports[i].peer, m->ports[i].peer);
		assert_int_equal(again->ports[i].optical, m->ports[i].optical);
	}
	for (uint32_t i = 0; i < m->chip_count; i++)
		assert_string_equal(machine_chip_name(m, i, a), machine_chip_name(again, i, b));
	machine_destroy(m);
	machine_destroy(again);
}

static void wrong_files_are_refused_with_the_reason(void **state)
{
	static const struct {
		const char *text, *reason;
	} files[] = {
		{"", "no JSON object"},
		{"[1]", "no JSON object"},
		{"{\"machine\": \"th3\"}", "not built in"},
		{"{}", "are to be arrays"},
		{"{\"chips\": [{}], \"cables\": []}", "\"type\""},
		{"{\"chips\": [{\"type\": \"nrc\"}], \"cables\": []}", "\"id\""},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": -1}], \"cables\": []}", "\"id\""},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1, \"ports\": 25}], \"cables\": []}",
		 "ports"},
		{"{\"chips\": [{\"type\": \"nic\", \"id\": 1}, {\"type\": \"nic\", \"id\": 1}],"
		 "\"cables\": []}",
		 "one ID"},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1}], \"cables\": [[\"nrc:1:0\"]]}",
		 "two ends"},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1}], \"cables\": [[\"nrc:1:0\", "
		 "\"x:1\"]]}",
		 "no CHIP:PORT"},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1}],"
		 "\"cables\": [[\"nrc:1:0\", \"nrc:1:1\"]]}",
		 "on one chip"},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1}, {\"type\": \"nic\", \"id\": 1},"
		 "{\"type\": \"nic\", \"id\": 2}],"
		 "\"cables\": [[\"nrc:1:0\", \"nic:1:0\"], [\"nrc:1:0\", \"nic:2:0\"]]}",
		 "has a cable"},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1, \"place\": [0, 1, 2, 3]}], "
		 "\"cables\": []}",
		 "\"place\""},
		{"{\"chips\": [{\"type\": \"nrc\", \"id\": 1, \"layer\": 7}], \"cables\": []}",
		 "\"layer\""},
	};

	for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char text[512], error[256] = "";
		FILE *file;
		struct machine *m;

		snprintf(text, sizeof(text), "%s\n", files[i].text);
		file = fmemopen(text, strlen(text), "r");
		assert_int_not_equal(machine_read(file, &m, error, sizeof(error)), 0);
		if (!strstr(error, files[i].reason))
			fail_msg("%s: %s", files[i].text, error);
		fclose(file);
	}
}

static void an_edited_machine_is_another_one(void **state)
{
	struct machine_chip place = {.row = ROW_ROOT, .cabinet = 300, .frame = 1, .board = 2};
	struct machine *m, *copy, *again;
	char name[MACHINE_NAME_LEN], error[256];
	uint32_t leaf, other, peer;
	FILE *file = tmpfile();
	unsigned port;

	assert_int_equal(machine_tree(2, 3, 2, 4, 1, &m), 0);
	leaf = machine_find_name(m, "S.leaf.1.0", NULL);
	other = machine_find_name(m, "S.leaf.0.0", NULL);
	assert_int_equal(machine_copy(m, &copy), 0);
	assert_true(machine_rename(copy, leaf, "S.leaf.1.1") < 0);
	assert_true(machine_rename(copy, leaf, "a b") < 0);
	assert_int_equal(machine_rename(copy, leaf, "left"), 0);
	assert_int_equal(machine_move(copy, other, &place), 0);
	assert_int_equal(machine_recable(copy, leaf, 1, other, 2), 0);
	assert_true(machine_recable(copy, leaf, 1, leaf, 2) < 0);

	/* The first is as it was. */
	assert_int_equal(machine_find_name(m, "left", NULL), MACHINE_NONE);
	assert_int_not_equal(machine_peer(m, leaf, 1, &port), other);

	assert_int_equal(machine_write(copy, file), 0);
	rewind(file);
	assert_int_equal(machine_read(file, &again, error, sizeof(error)), 0);
	fclose(file);
	leaf = machine_find_name(again, "left", NULL);
	/* What it was called by its old place it is called now. */
	other = machine_find_name(again, "S.leaf.0.0", NULL);
	assert_int_not_equal(other, MACHINE_NONE);
	assert_int_equal(again->chips[other].row, ROW_ROOT);
	assert_int_equal(again->chips[other].cabinet, 300);
	peer = machine_peer(again, leaf, 1, &port);
	assert_int_equal(peer, other);
	assert_int_equal(port, 2);
	assert_string_equal(machine_chip_name(again, leaf, name), "left");
	assert_int_equal(again->chips[leaf].layer, LAYER_LEAF);
	assert_int_equal(machine_recable(again, leaf, 1, MACHINE_NONE, 0), 0);
	assert_int_equal(machine_peer(again, other, 2, &port), MACHINE_NONE);
	machine_destroy(m);
	machine_destroy(copy);
	machine_destroy(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tianhe2_has_the_numbers_of_the_paper),
		cmocka_unit_test(each_cable_has_two_ends),
		cmocka_unit_test(chips_are_found_by_the_names_they_have),
		cmocka_unit_test(a_written_machine_reads_as_the_same),
		cmocka_unit_test(wrong_files_are_refused_with_the_reason),
		cmocka_unit_test(an_edited_machine_is_another_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

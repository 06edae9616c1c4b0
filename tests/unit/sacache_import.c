/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths from OpenSM's dump of them (opensm_full_v1), as its plugin dump_pr writes it. The port is
 * made up here, in place of sa_port_identify().
 */
#include "sacache_test.h"

#include <unistd.h>

#include "libsacache/import.h"

int __wrap_sa_port_identify(struct sacache *cache, unsigned number,
			    struct sa_port_identity *identity);

/* Three adapters at a switch, one of which is not reached; we are the one with LID 203. */
static const char dump[] =
	"Switch 0x0002c9000100d050, base LID 202, \"leaf # 1\", port 0\n"
	"# LID  : SL : MTU : RATE\n"
	"0x00CA : 0  : 5   : 7   \n"
	"0x00CB : 0  : 4   : 6   \n"
	"0x00F7 : 0  : 4   : 6   \n"
	"\n"
	"Channel Adapter 0x0002c90300000001, base LID 203, \"a, 0x9 HCA-1\", port 1\n"
	"# LID  : SL : MTU : RATE\n"
	"0x00CA : 0  : 4   : 6   \n"
	"0x00CB : 0  : 5   : 7   \n"
	"0x00F7 : 3  : 4   : 18  \n"
	"0x00F8 : UNREACHABLE\n"
	"0x00F9 : 0  : 4   : 6   \n"
	"\n"
	"Channel Adapter 0x0002c90300000002, base LID 247, \"b HCA-1\", port 1\n"
	"# LID  : SL : MTU : RATE\n"
	"0x00CA : 1  : 1   : 2   \n"
	"0x00CB : 1  : 1   : 2   \n"
	"0x00F7 : 1  : 1   : 2   \n"
	"\n"
	"Channel Adapter 0x0002c90300000003, base LID 248, \"c HCA-1\", port 1\n"
	"# LID  : SL : MTU : RATE\n";

static const uint32_t masks[] = {SACACHE_DGID, SACACHE_DGID | SACACHE_SGID,
				 SACACHE_DLID | SACACHE_SLID};

static struct sa_port_identity here;
static struct sacache *cache;
static struct sacache_import report;
static char file[64];

int __wrap_sa_port_identify(struct sacache *whose, unsigned number,
			    struct sa_port_identity *identity)
{
	*identity = here;
	return number == 0 ? 0 : -ENODEV;
}

static int setup(void **state)
{
	here = (struct sa_port_identity){
		.gid = {0xfe, 0x80, [7] = 5, [9] = 2, [10] = 0xc9, [11] = 3, [15] = 1},
		.lid = 203,
		.sm_lid = 1,
		.pkey = 0x7fff,
	};
	snprintf(file, sizeof(file), "/tmp/sacache-import-XXXXXX");
	close(mkstemp(file));
	cache = test_cache(SACACHE_ALWAYS, false, 1000);
	return 0;
}

static int teardown(void **state)
{
	sacache_destroy(cache);
	return unlink(file);
}

static int import(const char *text)
{
	FILE *out = fopen(file, "w");

	fputs(text, out);
	fclose(out);
	return sacache_import(cache, 0, file, masks, 3, &report, sizeof(report));
}

static struct sacache_key to(uint8_t node, uint8_t last)
{
	struct sacache_key key = {.mask = SACACHE_DGID};

	memcpy(key.dgid, here.gid, 16);
	key.dgid[11] = node;
	key.dgid[15] = last;
	return key;
}

static bool same(const struct sacache_path *a, const struct sacache_path *b)
{
	uint8_t one[SA_RECORD_SIZE], other[SA_RECORD_SIZE];

	sa_record_encode(a, one);
	sa_record_encode(b, other);
	return !memcmp(one, other, SA_RECORD_SIZE);
}

static void paths_of_this_port_are_found_by_each_mask(void **state)
{
	struct sacache_key key = to(3, 2);
	struct sacache_path path, again;

	assert_int_equal(import(dump), 0);
	assert_int_equal(report.records, 9);
	assert_int_equal(report.skipped, 0);
	assert_int_equal(report.unreachable, 1);
	assert_int_equal(report.unknown, 1);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	assert_int_equal(path.dlid, 247);
	assert_int_equal(path.slid, 203);
	assert_int_equal(path.sl, 3);
	assert_int_equal(path.mtu, 4);
	assert_int_equal(path.rate, 18);
	assert_int_equal(path.pkey, 0x7fff);
	assert_int_equal(path.lifetime, 18);
	assert_true(path.reversible);
	assert_memory_equal(path.sgid, here.gid, 16);
	key.mask |= SACACHE_SGID;
	memcpy(key.sgid, here.gid, 16);
	assert_int_equal(sacache_lookup(cache, &key, &again), 0);
	assert_true(same(&path, &again));
	key = (struct sacache_key){.mask = SACACHE_DLID | SACACHE_SLID, .slid = 203, .dlid = 247};
	assert_int_equal(sacache_lookup(cache, &key, &again), 0);
	assert_true(same(&path, &again));
	key = to(3, 3);
	assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
}

static void what_the_sa_said_is_kept(void **state)
{
	struct sacache_key key = to(3, 2);
	struct sacache_path path = {.dlid = 99, .lifetime = 14};

	memcpy(path.dgid, key.dgid, 16);
	test_answer(cache, &key, &path);
	assert_int_equal(import(dump), 0);
	assert_int_equal(report.records, 8);
	assert_int_equal(report.skipped, 1);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	assert_int_equal(path.dlid, 99);
}

static void with_auto_they_wait_for_an_sm_that_takes_part(void **state)
{
	struct sacache_key key = to(3, 2), other = test_key(1);
	struct sacache_path path = test_path(1, 1, true);

	sacache_destroy(cache);
	cache = test_cache(SACACHE_AUTO, false, 1000);
	assert_int_equal(import(dump), 0);
	assert_int_equal(sacache_lookup(cache, &key, &path), -ENOENT);
	path = test_path(1, 1, true);
	test_answer(cache, &other, &path);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
}

static void another_port_or_lid_is_not_believed(void **state)
{
	here.gid[15] = 9;
	assert_int_equal(import(dump), -ENXIO);
	here.gid[15] = 1;
	here.lid = 204;
	assert_int_equal(import(dump), -ESTALE);
	here.lid = 0;
	assert_int_equal(import(dump), -ENETDOWN);
	assert_int_equal(sacache_import(cache, 1, file, masks, 3, &report, sizeof(report)),
			 -ENODEV);
	assert_int_equal(sacache_flush(cache, NULL, 0), 0);
}

#define OURS "Channel Adapter 0x0002c90300000001, base LID 203, \"\", port 1\n"

/* Nothing of a file with a mistake is used, and the line is told. */
static void mistakes_are_told_by_line(void **state)
{
	static const struct {
		const char *text, *problem;
		unsigned line;
	} bad[] = {
		{"\n\nhello\n", "neither a port nor a path", 3},
		{"0x00CA : 0 : 4 : 6\n", "a path without a port that it begins at", 1},
		{OURS "0x00CA : 0 : 4", NULL, 2},
		{OURS "0x00CA : 0 : 4\n", "a path has a LID, SL, MTU and rate", 2},
		{OURS "0x00CA : 16 : 4 : 6\n", "a path has a LID, SL, MTU and rate", 2},
		{OURS "0x00CA : -1 : 4 : 6\n", "a path has a LID, SL, MTU and rate", 2},
		{OURS "0xC000 : 0 : 4 : 6\n", "neither a port nor a path", 2},
		{OURS "0x0 : 0 : 4 : 6\n", "neither a port nor a path", 2},
		{OURS "0x1 : 0 : 4 : 6 : 7\n", "a path has a LID, SL, MTU and rate", 2},
		{OURS "0x1 : UNREACHABLE 7\n", "neither a port nor a path", 2},
		{"Switch 0x1, base LID 49152, \"\", port 0\n", "a port has a GUID and a base LID",
		 1},
		{"Switch 0x1 base LID 1\n", "a port has a GUID and a base LID", 1},
		{"Switch 0x1, base LID 1,\nRouter 0x2, base LID 1,\n", "two ports have this LID",
		 2},
		{"Channel Adapter 0x0002c90300000001, base LID 1,\n"
		 "Channel Adapter 0x0002c90300000001, base LID 2,\n",
		 "this port was there already", 2},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(import(bad[i].text), -EINVAL);
		assert_int_equal(report.line, bad[i].line);
		if (bad[i].problem)
			assert_string_equal(report.problem, bad[i].problem);
	}
	assert_int_equal(sacache_flush(cache, NULL, 0), 0);
}

/* OpenSM writes it in place: it may be read while it is half there. */
static void a_file_that_is_still_written_is_refused(void **state)
{
	char text[sizeof(dump)];
	unsigned refused = 0;

	for (size_t n = 0; n < sizeof(dump) - 1; n++) {
		int ret;

		memcpy(text, dump, n);
		text[n] = 0;
		ret = import(text);
		if (!n || text[n - 1] == '\n')
			assert_true(!ret || ret == -ENXIO);
		else
			assert_int_equal(ret, -EINVAL);
		refused += ret == -EINVAL;
		sacache_flush(cache, NULL, 0);
	}
	assert_true(refused > sizeof(dump) * 9 / 10);
}

static void files_that_are_none(void **state)
{
	assert_int_equal(sacache_import(cache, 0, "/nonexistent", masks, 3, &report,
					sizeof(report)),
			 -ENOENT);
	assert_int_equal(sacache_import(cache, 0, "/dev/zero", masks, 3, &report, sizeof(report)),
			 -EINVAL);
	assert_int_equal(import(""), -ENXIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(paths_of_this_port_are_found_by_each_mask),
		TEST(what_the_sa_said_is_kept),
		TEST(with_auto_they_wait_for_an_sm_that_takes_part),
		TEST(another_port_or_lid_is_not_believed),
		TEST(mistakes_are_told_by_line),
		TEST(a_file_that_is_still_written_is_refused),
		TEST(files_that_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

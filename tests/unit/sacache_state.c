/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table in a file: what comes back, what does not, and that there is a whole file at any time.
 * The ports are made up here, in place of sa_port_identify(), and so are the days.
 */
#include "sacache_test.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libsacache/state.h"

int __wrap_sa_port_identify(struct sacache *cache, unsigned number,
			    struct sa_port_identity *identity);
void __wrap_sa_port_expect_sm(struct sacache *whose, unsigned number, uint64_t guid);
time_t __wrap_time(time_t *out);
time_t __real_time(time_t *out);

static time_t later; /* seconds */
static uint64_t expected_sm[SACACHE_MAX_PORTS];
static struct sa_port_identity ports[SACACHE_MAX_PORTS];
static char folder[64], file[PATH_MAX], beside[PATH_MAX + 4], aside[PATH_MAX + 4];
static struct sacache *cache;
static struct sacache_state report;

int __wrap_sa_port_identify(struct sacache *whose, unsigned number,
			    struct sa_port_identity *identity)
{
	*identity = ports[number];
	return ports[number].gid[15] ? 0 : -ENODEV;
}

void __wrap_sa_port_expect_sm(struct sacache *whose, unsigned number, uint64_t guid)
{
	expected_sm[number] = guid;
}

time_t __wrap_time(time_t *out)
{
	return __real_time(out) + later;
}

static void set_port(unsigned number, uint8_t prefix, uint8_t guid)
{
	ports[number] = (struct sa_port_identity){
		.gid = {0xfe, 0x80, [7] = prefix, [15] = guid},
		.lid = 3,
		.sm_lid = 1,
		.pkey = 0xffff,
	};
}

static int setup(void **state)
{
	memset(ports, 0, sizeof(ports));
	set_port(0, 0, 7);
	memset(expected_sm, 0, sizeof(expected_sm));
	later = 0;
	snprintf(folder, sizeof(folder), "/tmp/sacache-state-XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(file, sizeof(file), "%s/state", folder);
	snprintf(beside, sizeof(beside), "%s.new", file);
	snprintf(aside, sizeof(aside), "%s.bad", file);
	cache = test_cache(SACACHE_AUTO, false, 100000);
	return 0;
}

static int teardown(void **state)
{
	sacache_destroy(cache);
	unlink(file);
	unlink(beside);
	unlink(aside);
	assert_int_equal(rmdir(folder), 0);
	return 0;
}

/* As after a restart: nothing is in the table, and caching is off. */
static void restart(void)
{
	sacache_destroy(cache);
	cache = test_cache(SACACHE_AUTO, false, 100000);
}

static void put(unsigned port, unsigned n)
{
	struct sacache_key key = test_key(n);
	struct sacache_path path = test_path(n, n, true);

	key.port = port;
	test_answer(cache, &key, &path);
}

static int look(unsigned port, unsigned n)
{
	struct sacache_key key = test_key(n);
	struct sacache_path path, expected = test_path(n, n, true);
	int ret;

	memset(&path, 0, sizeof(path));
	key.port = port;
	ret = sacache_lookup(cache, &key, &path);
	if (!ret) {
		assert_memory_equal(path.dgid, expected.dgid, 16);
		assert_int_equal(path.dlid, n);
		assert_int_equal(path.lifetime, expected.lifetime);
		assert_memory_equal(path.reserved, expected.reserved, 6);
	}
	return ret;
}

static void save_some(unsigned count)
{
	for (unsigned n = 1; n <= count; n++)
		put(0, n);
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, count);
}

static size_t slurp(uint8_t *data, size_t room)
{
	int fd = open(file, O_RDONLY);
	ssize_t length = read(fd, data, room);

	close(fd);
	assert_true(length > 0);
	return length;
}

static void spill(const uint8_t *data, size_t length)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, data, length), length);
	close(fd);
}

static void records_come_back_and_caching_is_on(void **state)
{
	enum { MOST = 49151 };
	int64_t now = time(NULL);

	save_some(MOST);
	restart();
	assert_false(sacache_caching(cache, 0));
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, MOST);
	assert_int_equal(report.ask_again + report.skipped, 0);
	assert_in_range(report.when, now, now + 60);
	assert_true(sacache_caching(cache, 0));
	for (unsigned n = 1; n <= MOST; n++)
		assert_int_equal(look(0, n), 0);
}

static void every_component_of_a_key_comes_back(void **state)
{
	struct sacache_path path = test_path(5, 50, true), found;
	struct sacache_key key = {
		.service_id = 0x1122334455667788,
		.dlid = 50,
		.slid = 1,
		.pkey = 0x7fff,
		.qos_class = 0xabc,
		.sl = 9,
		.tclass = 0x5a,
		.mask = SACACHE_DLID | SACACHE_SLID | SACACHE_PKEY | SACACHE_QOS_CLASS |
			SACACHE_SL | SACACHE_TCLASS | SACACHE_SERVICE_ID,
	};

	path.sl = 9;
	assert_int_equal(sacache_store(cache, &key, &path), 0);
	assert_int_equal(sacache_save(cache, file, NULL, 0), 0);
	restart();
	assert_int_equal(sacache_load(cache, file, NULL, 0), 0);
	assert_int_equal(sacache_lookup(cache, &key, &found), 0);
	key.tclass = 0;
	assert_int_equal(sacache_lookup(cache, &key, &found), -ENOENT);
}

/* What the policy "always" has kept, "auto" does not use before the SM says so. */
static void caching_that_was_on_by_policy_is_not_on_by_the_sm(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path = test_path(1, 1, false);

	sacache_destroy(cache);
	cache = test_cache(SACACHE_ALWAYS, false, 1000);
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	restart();
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_false(sacache_caching(cache, 0));
	assert_int_equal(look(0, 1), -ENOENT);
}

/* What is to be asked for again, and failures, are not worth a place in the file. */
static void only_what_would_answer_is_saved(void **state)
{
	struct sacache_key failed = test_key(4);
	uint8_t gid[16];

	put(0, 1);
	put(0, 2);
	test_gid(2, gid);
	assert_int_equal(sacache_event(cache, 0, SACACHE_LID_CHANGE, gid), 0);
	sa_cache_answer(cache, &failed, 0, -EHOSTUNREACH, NULL);
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_int_equal(sacache_event(cache, 0, SACACHE_NEW_SM, NULL), 0);
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 0);
}

static void a_suspect_comes_back_as_one(void **state)
{
	struct sacache_key key = test_key(1);
	struct sacache_path path;

	put(0, 1);
	for (unsigned i = 0; i < 3; i++, test_now += 100000)
		assert_int_equal(sacache_failed(cache, &key), 0);
	assert_int_equal(sacache_save(cache, file, NULL, 0), 0);
	restart();
	assert_int_equal(sacache_load(cache, file, NULL, 0), 0);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	test_now += 100000;
	assert_int_equal(sacache_failed(cache, &key), 0);
	assert_int_equal(sacache_lookup(cache, &key, &path), -ESTALE);
}

static void what_the_table_has_is_newer(void **state)
{
	struct sacache_path path = test_path(1, 99, true);
	struct sacache_key key = test_key(1);

	save_some(2);
	restart();
	test_answer(cache, &key, &path);
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_int_equal(report.skipped, 1);
	assert_int_equal(sacache_lookup(cache, &key, &path), 0);
	assert_int_equal(path.dlid, 99);
}

static void ports_are_known_by_their_guid_not_by_their_number(void **state)
{
	set_port(1, 0, 8);
	put(0, 1);
	put(1, 2);
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 2);
	restart();
	set_port(0, 0, 8);
	set_port(1, 0, 9);
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_int_equal(report.skipped, 1);
	assert_int_equal(look(0, 2), 0);
	assert_int_not_equal(look(1, 2), 0);
	assert_int_not_equal(look(0, 1), 0);
}

static void expect_bad(const char *problem)
{
	struct stat stat;

	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), -EBADMSG);
	assert_string_equal(report.problem, problem);
	assert_string_equal(report.aside, aside);
	assert_int_equal(lstat(file, &stat), -1);
	assert_int_equal(lstat(aside, &stat), 0);
	assert_false(sacache_caching(cache, 0));
	for (unsigned n = 1; n <= 3; n++)
		assert_int_equal(look(0, n), -ENOENT);
}

static void a_file_of_another_subnet_is_put_aside(void **state)
{
	save_some(3);
	restart();
	set_port(0, 1, 7);
	expect_bad("it is of another subnet");
}

/* Two ports with records 1 and 2, of which the second goes. */
static void save_two_and_lose_one(void)
{
	set_port(1, 0, 8);
	put(0, 1);
	put(1, 2);
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 2);
	restart();
	memset(&ports[1], 0, sizeof(ports[1]));
}

static void load_and_expect(unsigned records, unsigned skipped)
{
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, records);
	assert_int_equal(report.skipped, skipped);
}

static void save_and_expect(unsigned records, unsigned kept)
{
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, records);
	assert_int_equal(report.skipped, kept);
}

static void a_port_that_is_not_there_keeps_its_records(void **state)
{
	save_two_and_lose_one();
	load_and_expect(1, 1);
	put(0, 3);
	save_and_expect(2, 1);
	/* Once more, for it is from the file that it was kept in. */
	save_and_expect(2, 1);
	restart();
	set_port(0, 0, 8);
	set_port(1, 0, 7);
	load_and_expect(3, 0);
	assert_int_equal(look(0, 2), 0);
	assert_int_equal(look(1, 1), 0);
	assert_int_equal(look(1, 3), 0);
	/* What is loaded is kept once. */
	save_and_expect(3, 0);
}

static void where_only_others_were_here_the_file_is_kept(void **state)
{
	save_some(3);
	restart();
	set_port(0, 0, 9);
	load_and_expect(0, 3);
	put(0, 4);
	save_and_expect(1, 3);
	restart();
	set_port(0, 0, 7);
	load_and_expect(3, 1);
}

static void a_port_can_be_loaded_when_it_comes(void **state)
{
	save_two_and_lose_one();
	set_port(1, 0, 8);
	assert_int_equal(sacache_load_ports(cache, 1 << 0, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_int_equal(look(1, 2), -ENOENT);
	assert_int_equal(sacache_save_ports(cache, 1 << 0, file, &report, sizeof(report)), 0);
	assert_int_equal(report.skipped, 1);
	assert_int_equal(sacache_load_ports(cache, 1 << 1, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_int_equal(look(1, 2), 0);
	assert_int_equal(sacache_save_ports(cache, 1 << 5, file, &report, sizeof(report)), -ENODEV);
	assert_int_equal(sacache_load_ports(cache, 1 << 5, file, &report, sizeof(report)), -ENODEV);
}

static void a_port_that_has_gone_for_a_month_is_forgotten(void **state)
{
	save_two_and_lose_one();
	later = 20 * 86400;
	save_and_expect(0, 1);
	later = 32 * 86400;
	save_and_expect(0, 0);
	restart();
	set_port(1, 0, 8);
	load_and_expect(0, 0);
	/* A clock that was wrong makes nothing eternal. */
	later = 9000 * 86400ll;
	put(1, 2);
	save_and_expect(1, 0);
	memset(&ports[1], 0, sizeof(ports[1]));
	later = 0;
	save_and_expect(0, 1);
	later = 32 * 86400;
	save_and_expect(0, 0);
}

/* Those that are here come first, and no more is kept than the table could have. */
static void what_is_kept_is_bounded(void **state)
{
	for (unsigned n = 0; n < SACACHE_MAX_PORTS; n++) {
		set_port(n, 0, 20 + n);
		put(n, 1);
		put(n, 2);
	}
	save_and_expect(2 * SACACHE_MAX_PORTS, 0);
	memset(ports, 0, sizeof(ports));
	set_port(0, 0, 7);
	save_and_expect(2, 2 * (SACACHE_MAX_PORTS - 1));
	sacache_destroy(cache);
	cache = test_cache(SACACHE_AUTO, false, 5);
	save_and_expect(0, 5);
}

static void of_a_damaged_file_nothing_is_kept(void **state)
{
	static uint8_t data[4096];
	size_t length;

	save_two_and_lose_one();
	length = slurp(data, sizeof(data));
	data[length - 1] ^= 1;
	spill(data, length);
	save_and_expect(0, 0);
	load_and_expect(0, 0);
}

static void a_file_without_days_is_of_the_day_it_was_written(void **state)
{
	static uint8_t data[4096];
	struct sa_state parsed;
	size_t length;

	save_some(1);
	length = slurp(data, sizeof(data));
	assert_null(sa_state_parse(&parsed, data, length));
	assert_int_equal(parsed.port[0].day, parsed.when / 86400);
	memset(data + SA_STATE_HEADER + 21, 0, 11);
	sa_put32(data + 32,
		 ~crc32_iscsi(data + SA_STATE_HEADER, (int)(length - SA_STATE_HEADER), ~0u));
	sa_put32(data + 36, ~crc32_iscsi(data, 36, ~0u));
	assert_null(sa_state_parse(&parsed, data, length));
	assert_int_equal(parsed.port[0].day, parsed.when / 86400);
}

/* Before an SM has been there the prefix is the default one. */
static void a_port_without_a_lid_is_known_by_its_guid(void **state)
{
	set_port(0, 1, 7);
	save_some(1);
	restart();
	set_port(0, 0, 7);
	ports[0].lid = ports[0].sm_lid = 0;
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
	assert_int_equal(report.ask_again, 0);
}

static void after_another_lid_or_sm_all_is_asked_for_again(void **state)
{
	save_some(2);
	restart();
	ports[0].sm_lid = 2;
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.ask_again, 2);
	assert_int_equal(look(0, 1), -ESTALE);
	restart();
	ports[0].sm_lid = 1;
	ports[0].lid = 4;
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.ask_again, 2);
	assert_int_equal(look(0, 1), -ESTALE);
	/* The same answer confirms it. */
	put(0, 1);
	assert_int_equal(look(0, 1), 0);
}

/* Two SMs may have the same LID, one after the other. */
static void an_sm_is_known_by_its_guid_too(void **state)
{
	save_some(1);
	restart();
	load_and_expect(1, 0);
	assert_int_equal(expected_sm[0], 0);
	ports[0].sm_guid = 77;
	save_some(1);
	restart();
	load_and_expect(1, 0);
	assert_int_equal(look(0, 1), 0);
	assert_int_equal(expected_sm[0], 77);
	/* It has not told yet: whether it is the same one will be seen. */
	expected_sm[0] = ports[0].sm_guid = 0;
	restart();
	load_and_expect(1, 0);
	assert_int_equal(look(0, 1), 0);
	assert_int_equal(expected_sm[0], 77);
	expected_sm[0] = 0;
	ports[0].sm_guid = 78;
	restart();
	load_and_expect(1, 0);
	assert_int_equal(report.ask_again, 1);
	assert_int_equal(look(0, 1), -ESTALE);
	assert_int_equal(expected_sm[0], 0);
}

static void a_cut_file_is_put_aside_wherever_it_was_cut(void **state)
{
	static uint8_t data[4096];
	size_t length;

	save_some(3);
	length = slurp(data, sizeof(data));
	restart();
	for (size_t n = 0; n < length; n++) {
		spill(data, n);
		expect_bad(n ? "it is cut off" : "it is empty");
	}
	data[length] = 0;
	spill(data, length + 1);
	expect_bad("there is something behind its end");
}

static void any_changed_bit_is_found(void **state)
{
	static uint8_t data[4096];
	struct sa_state parsed;
	size_t length;

	save_some(3);
	length = slurp(data, sizeof(data));
	assert_null(sa_state_parse(&parsed, data, length));
	for (size_t bit = 0; bit < length * 8; bit++) {
		data[bit / 8] ^= 1 << bit % 8;
		assert_non_null(sa_state_parse(&parsed, data, length));
		data[bit / 8] ^= 1 << bit % 8;
	}
	restart();
	data[length - 1] ^= 1;
	spill(data, length);
	expect_bad("it is damaged");
}

static void another_file_is_put_aside(void **state)
{
	static const char text[] = "# opensm_full_v1 it may be, but not ours at all\n";

	spill((const uint8_t *)text, sizeof(text));
	expect_bad("it is something else");
}

static void what_is_no_file_is_left_alone(void **state)
{
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), -ENOENT);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), -EINVAL);
	assert_int_equal(access(file, F_OK), 0);
}

static void without_a_port_nothing_is_touched(void **state)
{
	save_some(1);
	memset(ports, 0, sizeof(ports));
	assert_int_equal(sacache_save(cache, file, &report, sizeof(report)), -ENODEV);
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), -ENODEV);
	set_port(0, 0, 7);
	restart();
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 1);
}

static void save_in_a_small_file(void)
{
	struct rlimit limit = {.rlim_cur = 10000, .rlim_max = 10000};

	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	_exit(-sacache_save(cache, file, NULL, 0));
}

static void a_full_disk_leaves_the_old_file(void **state)
{
	int status;
	pid_t pid;

	save_some(100);
	for (unsigned n = 101; n < 1000; n++)
		put(0, n);
	pid = fork();
	if (!pid)
		save_in_a_small_file();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EFBIG);
	assert_int_equal(access(beside, F_OK), -1);
	restart();
	assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
	assert_int_equal(report.records, 100);
}

static void save_for_ever(void)
{
	for (;;)
		if (sacache_save(cache, file, NULL, 0))
			_exit(1);
}

static void killed_while_saving_there_is_a_whole_file(void **state)
{
	enum { ROUNDS = 60, RECORDS = 9000 }; /* more than are written at once */
	uint64_t random = 3;
	int status;

	save_some(RECORDS);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct timespec pause = {.tv_nsec = test_random(&random) % 8000000};
		pid_t pid = fork();

		if (!pid)
			save_for_ever();
		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		restart();
		assert_int_equal(sacache_load(cache, file, &report, sizeof(report)), 0);
		assert_int_equal(report.records, RECORDS);
	}
	assert_int_equal(sacache_save(cache, file, NULL, 0), 0);
	assert_int_equal(access(beside, F_OK), -1);
}

static void two_do_not_save_to_one_file(void **state)
{
	int fd = open(beside, O_RDWR | O_CREAT, 0600);

	put(0, 1);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(sacache_save(cache, file, NULL, 0), -EBUSY);
	close(fd);
	assert_int_equal(sacache_save(cache, file, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(records_come_back_and_caching_is_on),
		TEST(every_component_of_a_key_comes_back),
		TEST(caching_that_was_on_by_policy_is_not_on_by_the_sm),
		TEST(only_what_would_answer_is_saved),
		TEST(a_suspect_comes_back_as_one),
		TEST(what_the_table_has_is_newer),
		TEST(ports_are_known_by_their_guid_not_by_their_number),
		TEST(a_file_of_another_subnet_is_put_aside),
		TEST(a_port_that_is_not_there_keeps_its_records),
		TEST(where_only_others_were_here_the_file_is_kept),
		TEST(a_port_can_be_loaded_when_it_comes),
		TEST(a_port_that_has_gone_for_a_month_is_forgotten),
		TEST(what_is_kept_is_bounded),
		TEST(of_a_damaged_file_nothing_is_kept),
		TEST(a_file_without_days_is_of_the_day_it_was_written),
		TEST(a_port_without_a_lid_is_known_by_its_guid),
		TEST(after_another_lid_or_sm_all_is_asked_for_again),
		TEST(an_sm_is_known_by_its_guid_too),
		TEST(a_cut_file_is_put_aside_wherever_it_was_cut),
		TEST(any_changed_bit_is_found),
		TEST(another_file_is_put_aside),
		TEST(what_is_no_file_is_left_alone),
		TEST(without_a_port_nothing_is_touched),
		TEST(a_full_disk_leaves_the_old_file),
		TEST(killed_while_saving_there_is_a_whole_file),
		TEST(two_do_not_save_to_one_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

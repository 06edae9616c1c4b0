/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * OpenSM's guid2lid: its form, damage, a disk that is full, and a writer at the same time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "migrate/migrate.h"

static char folder[64], path[128];

static int setup(void **state)
{
	strcpy(folder, "/tmp/guid2lid.XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/guid2lid", folder);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void put(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static char *got(const char *suffix)
{
	static char text[4096];
	char name[160];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	f = fopen(name, "r");
	if (!f)
		return NULL;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static int update(uint64_t guid, uint16_t lid, struct guid2lid_change *change)
{
	const struct guid2lid_entry entry = {guid, lid, lid};

	return guid2lid_update(path, &entry, 1, change, sizeof(*change), NULL);
}

static void entries_are_sorted_by_guid(void **state)
{
	struct guid2lid_change change;

	put("0x0000000000000009 0x0004 0x0005\n\n0x0000000000000002 0x0008 0x0008\n\n");
	assert_int_equal(update(5, 0x20, &change), 0);
	assert_true(change.written);
	assert_int_equal(change.damaged, 0);
	assert_string_equal(
		got(""), "0x0000000000000002 0x0008 0x0008\n\n0x0000000000000005 0x0020 0x0020\n\n"
			 "0x0000000000000009 0x0004 0x0005\n\n");
	/* And what is right is left alone. */
	assert_int_equal(update(5, 0x20, &change), 0);
	assert_false(change.written);
	assert_null(got(".lidtrack"));
}

static void the_mode_of_the_file_stays(void **state)
{
	struct guid2lid_change change;
	struct stat st;

	put("");
	chmod(path, 0640);
	assert_int_equal(update(1, 1, &change), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
}

static void a_damaged_file_keeps_what_is_whole(void **state)
{
	static const char damaged[] = "0x0000000000000001 0x0001 0x0001\n\n"
				      "0x00000000000000zz 0x0002 0x0002\n\n"
				      "0x0000000000000003 0x0003 0x0003\n" /* no empty line */
				      "0x0000000000000004 0x0004 0x0004\n\n"
				      "0x0000000000000001 0x0009 0x0009\n\n" /* again */
				      "0x0000000000000005 0x0005 0x0005";    /* no end */
	struct guid2lid_change change;

	put(damaged);
	assert_int_equal(update(6, 6, &change), 0);
	assert_int_equal(change.damaged, 4);
	assert_string_equal(
		got(""), "0x0000000000000001 0x0001 0x0001\n\n0x0000000000000003 0x0003 0x0003\n\n"
			 "0x0000000000000004 0x0004 0x0004\n\n0x0000000000000005 0x0005 0x0005\n\n"
			 "0x0000000000000006 0x0006 0x0006\n\n");
	assert_string_equal(got(".damaged"), damaged);
}

static void lids_of_another_guid_are_refused(void **state)
{
	const struct guid2lid_entry entry = {7, 8, 11};
	struct guid2lid_entry other = {0};
	struct guid2lid_change change;

	put("0x0000000000000001 0x000b 0x000b\n\n");
	assert_int_equal(guid2lid_update(path, &entry, 1, &change, sizeof(change), &other),
			 -EADDRINUSE);
	assert_int_equal(other.guid, 1);
	assert_string_equal(got(""), "0x0000000000000001 0x000b 0x000b\n\n");
	/* Two that change places in one update do not collide. */
	assert_int_equal(update(2, 0xc, &change), 0);
	assert_int_equal(
		guid2lid_update(path, (const struct guid2lid_entry[]){{1, 0xc, 0xc}, {2, 0xb, 0xb}},
				2, &change, sizeof(change), &other),
		0);
}

static void a_standby_s_file_follows_the_master_s(void **state)
{
	const struct guid2lid_entry entries[] = {{1, 4, 4}, {2, 5, 5}};
	struct guid2lid_change change;

	put("0x0000000000000001 0x0001 0x0001\n\n0x0000000000000007 0x0005 0x0005\n\n"
	    "0x0000000000000009 0x0009 0x0009\n\n");
	assert_int_equal(guid2lid_follow(path, entries, 2, &change, sizeof(change)), 0);
	assert_int_equal(change.dropped, 1);
	assert_string_equal(
		got(""), "0x0000000000000001 0x0004 0x0004\n\n0x0000000000000002 0x0005 0x0005\n\n"
			 "0x0000000000000009 0x0009 0x0009\n\n");
	assert_int_equal(guid2lid_follow(path, entries, 2, &change, sizeof(change)), 0);
	assert_false(change.written);
}

static void a_change_has_the_size_that_the_program_knows(void **state)
{
	const struct guid2lid_entry entry = {1, 4, 4};
	struct {
		struct guid2lid_change known;
		uint64_t more;
	} change;

	put("garbage\n\n");
	memset(&change, 0xff, sizeof(change));
	assert_int_equal(guid2lid_update(path, &entry, 1, &change.known, sizeof(unsigned), NULL),
			 0);
	assert_int_equal(change.known.damaged, 1);
	assert_int_equal(change.known.rounds, UINT32_MAX);
	assert_int_equal(guid2lid_follow(path, &entry, 1, &change.known, sizeof(change)), 0);
	assert_false(change.known.written);
	assert_int_equal(change.more, 0);
}

static void what_is_no_lid_is_refused(void **state)
{
	struct guid2lid_change change;

	put("0x0000000000000001 0x0001 0x0001\n\n");
	assert_int_equal(update(2, 0, &change), -EINVAL);
	assert_int_equal(update(2, 0xc000, &change), -EINVAL);
	assert_int_equal(update(0, 1, &change), -EINVAL);
	assert_string_equal(got(""), "0x0000000000000001 0x0001 0x0001\n\n");
}

static void a_full_disk_leaves_the_file(void **state)
{
	static const char text[] = "0x0000000000000001 0x0001 0x0001\n\n";
	const struct rlimit none = {20, RLIM_INFINITY};
	struct guid2lid_change change;
	struct rlimit before;

	put(text);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(update(2, 2, &change), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_string_equal(got(""), text);
	assert_null(got(".lidtrack"));
	assert_int_equal(update(2, 2, &change), 0);
}

static void an_update_that_was_killed_is_brought_to_its_end(void **state)
{
	struct guid2lid_change change;
	char beside[160];
	FILE *f;

	/* Killed between the exchange and the look at what was replaced: OpenSM's newest entry is
	 * there only. */
	put("0x0000000000000001 0x0001 0x0001\n\n");
	snprintf(beside, sizeof(beside), "%s.lidtrack", path);
	f = fopen(beside, "w");
	assert_non_null(f);
	fputs("0x0000000000000001 0x0001 0x0001\n\n0x0000000000000008 0x0008 0x0008\n\n", f);
	fclose(f);
	assert_int_equal(update(2, 2, &change), 0);
	assert_string_equal(
		got(""), "0x0000000000000001 0x0001 0x0001\n\n0x0000000000000002 0x0002 0x0002\n\n"
			 "0x0000000000000008 0x0008 0x0008\n\n");
	assert_null(got(".lidtrack"));
}

/* OpenSM has given the LID of the entry that was left to another port since. */
static void what_an_update_has_left_gives_no_lid_twice(void **state)
{
	static const char left[] = "0x0000000000000008 0x0004 0x0005\n\n"
				   "0x0000000000000009 0x0009 0x0009\n\n";
	struct guid2lid_change change;
	char beside[160];

	snprintf(beside, sizeof(beside), "%s.lidtrack", path);
	put(left);
	assert_int_equal(rename(path, beside), 0);
	put("0x0000000000000001 0x0005 0x0005\n\n");
	assert_int_equal(update(2, 2, &change), 0);
	assert_string_equal(
		got(""), "0x0000000000000001 0x0005 0x0005\n\n0x0000000000000002 0x0002 0x0002\n\n"
			 "0x0000000000000009 0x0009 0x0009\n\n");
}

/* What OpenSM writes just before the next exchange of names. */
static const char *opensm_writes;

/* In place of libc's, for the library. */
__attribute__((visibility("default"))) int renameat2(int from_folder, const char *from,
						     int to_folder, const char *to, unsigned flags)
{
	if (opensm_writes) {
		char tmp[160];
		FILE *f;

		snprintf(tmp, sizeof(tmp), "%s.tmp", path);
		f = fopen(tmp, "w");
		assert_non_null(f);
		fputs(opensm_writes, f);
		fclose(f);
		assert_int_equal(rename(tmp, path), 0);
		opensm_writes = NULL;
	}
	return syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

static void entries_that_opensm_changes_at_the_same_time_are_as_it_says(void **state)
{
	struct guid2lid_change change;

	put("0x0000000000000001 0x0001 0x0001\n\n0x0000000000000003 0x0003 0x0003\n\n");
	/* 1 has another LID, and 4 the one that 3 had. */
	opensm_writes = "0x0000000000000001 0x0009 0x0009\n\n0x0000000000000004 0x0003 0x0003\n\n";
	assert_int_equal(update(2, 2, &change), 0);
	assert_int_equal(change.rounds, 1);
	assert_string_equal(
		got(""), "0x0000000000000001 0x0009 0x0009\n\n0x0000000000000002 0x0002 0x0002\n\n"
			 "0x0000000000000004 0x0003 0x0003\n\n");
	assert_null(got(".lidtrack"));
}

static void a_lid_that_opensm_gives_at_the_same_time_is_refused(void **state)
{
	static const char theirs[] = "0x0000000000000004 0x0002 0x0002\n\n";
	struct guid2lid_change change;

	put("0x0000000000000001 0x0001 0x0001\n\n");
	opensm_writes = theirs;
	assert_int_equal(update(2, 2, &change), -EADDRINUSE);
	assert_string_equal(got(""), theirs);
	assert_null(got(".lidtrack"));
}

/* In a process that is killed by its first write beyond so many bytes. */
static void update_killed_at(rlim_t bytes)
{
	const struct rlimit limit = {bytes, bytes};
	struct guid2lid_change change;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGXFSZ, SIG_DFL);
		setrlimit(RLIMIT_FSIZE, &limit);
		update(3, 3, &change);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static void an_update_that_is_killed_after_one_that_was_loses_nothing(void **state)
{
	struct guid2lid_change change;
	char beside[160];

	put("0x0000000000000008 0x0008 0x0008\n\n");
	snprintf(beside, sizeof(beside), "%s.lidtrack", path);
	assert_int_equal(rename(path, beside), 0);
	put("0x0000000000000001 0x0001 0x0001\n\n");
	for (rlim_t bytes = 0; bytes < 3 * strlen("0x0000000000000001 0x0001 0x0001\n\n");
	     bytes += 5) {
		update_killed_at(bytes);
		assert_string_equal(got(""), "0x0000000000000001 0x0001 0x0001\n\n");
	}
	assert_int_equal(update(2, 2, &change), 0);
	assert_string_equal(
		got(""), "0x0000000000000001 0x0001 0x0001\n\n0x0000000000000002 0x0002 0x0002\n\n"
			 "0x0000000000000008 0x0008 0x0008\n\n");
	assert_null(got(".lidtrack"));
	assert_null(got(".lidtrack.new"));
}

/* ---- OpenSM at the same time ---- */

enum { THEIRS = 300, OURS = 100 };

/* As OpenSM does it: all that it has in memory, to a file of its own, renamed. */
static void *opensm(void *arg)
{
	_Atomic unsigned *written = arg;
	struct guid2lid table;
	bool fine = true;
	char tmp[160];

	guid2lid_init(&table);
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	for (unsigned n = 1; n <= THEIRS && fine; n++) {
		size_t len = 0;
		char *text;
		FILE *f;

		fine = !guid2lid_set(&table, &(struct guid2lid_entry){n, n, n});
		text = guid2lid_format(&table, &len);
		f = fopen(tmp, "w");
		fine = fine && text && f && fwrite(text, 1, len, f) == len;
		fine = f && !fclose(f) && fine && !rename(tmp, path);
		free(text);
		if (fine)
			atomic_store(written, n);
	}
	guid2lid_destroy(&table);
	return fine ? arg : NULL;
}

static void entries_of_a_writer_at_the_same_time_stay(void **state)
{
	_Atomic unsigned written = 0;
	struct guid2lid table;
	pthread_t thread;
	void *fine;

	put("");
	assert_int_equal(pthread_create(&thread, NULL, opensm, &written), 0);
	for (unsigned n = 0; n < OURS; n++) {
		struct guid2lid_change change;
		unsigned before = atomic_load(&written);
		int ret;

		/* This one writes without a pause, and may be the faster one again and again. */
		do
			ret = update(0x1000 + n, 0x1000 + n, &change);
		while (ret == -EAGAIN);
		assert_int_equal(ret, 0);
		guid2lid_init(&table);
		assert_int_equal(guid2lid_read(&table, path), 0);
		assert_int_equal(table.damaged, 0);
		/* All of theirs that were written before; ours can be in a version that they
		 * replace. */
		for (unsigned g = 1; g <= before; g++)
			assert_non_null(guid2lid_find(&table, g));
		guid2lid_destroy(&table);
	}
	pthread_join(thread, &fine);
	assert_non_null(fine);
	guid2lid_init(&table);
	assert_int_equal(guid2lid_read(&table, path), 0);
	for (unsigned g = 1; g <= THEIRS; g++)
		assert_non_null(guid2lid_find(&table, g));
	guid2lid_destroy(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entries_are_sorted_by_guid, setup, teardown),
		cmocka_unit_test_setup_teardown(the_mode_of_the_file_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_file_keeps_what_is_whole, setup,
						teardown),
		cmocka_unit_test_setup_teardown(lids_of_another_guid_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_standby_s_file_follows_the_master_s, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_change_has_the_size_that_the_program_knows, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_no_lid_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_file, setup, teardown),
		cmocka_unit_test_setup_teardown(an_update_that_was_killed_is_brought_to_its_end,
						setup, teardown),
		cmocka_unit_test_setup_teardown(what_an_update_has_left_gives_no_lid_twice, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			an_update_that_is_killed_after_one_that_was_loses_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
			entries_that_opensm_changes_at_the_same_time_are_as_it_says, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_lid_that_opensm_gives_at_the_same_time_is_refused,
						setup, teardown),
		cmocka_unit_test_setup_teardown(entries_of_a_writer_at_the_same_time_stay, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

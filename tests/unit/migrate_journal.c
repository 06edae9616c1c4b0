/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The journal: what is put down is there after a crash at any byte, and a full disk changes
 * nothing; records and messages as lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <isa-l/crc.h>
#include <sys/stat.h>

#include "migrate/journal.h"
#include "migrate/message.h"

static char folder[64], path[128];
static struct journal journal;
static unsigned line;

static int setup(void **state)
{
	strcpy(folder, "/tmp/journal.XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/journal", folder);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	if (journal.path)
		journal_close(&journal);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static struct record sample(uint64_t guid, enum move_state s)
{
	struct record r = {.guid = guid,
			   .guest = "guest7",
			   .state = s,
			   .epoch = 3,
			   .fence = 0xfedcba9876543210,
			   .peer = "h9",
			   .function = 2,
			   .lid = 513,
			   .pkeys = {0xffff, 0x8001},
			   .num_pkeys = 2};

	return r;
}

static void reopen(void)
{
	if (journal.path)
		journal_close(&journal);
	assert_int_equal(journal_open(&journal, path, &line), 0);
}

static int put(uint64_t guid, enum move_state s)
{
	struct record r = sample(guid, s);

	return journal_put(&journal, &r);
}

static void the_last_line_of_a_guid_counts(void **state)
{
	struct record *r;

	reopen();
	assert_int_equal(put(1, MOVE_HERE), 0);
	assert_int_equal(put(2, MOVE_HERE), 0);
	assert_int_equal(put(1, MOVE_CLEARING), 0);
	assert_int_equal(put(2, MOVE_GONE), 0);
	reopen();
	assert_int_equal(journal.count, 1);
	r = journal_find(&journal, 1);
	assert_non_null(r);
	assert_int_equal(r->state, MOVE_CLEARING);
	assert_string_equal(r->peer, "h9");
	assert_int_equal(r->fence, 0xfedcba9876543210);
	assert_int_equal(r->function, 2);
	assert_int_equal(r->lid, 513);
	assert_int_equal(r->num_pkeys, 2);
	assert_int_equal(r->pkeys[1], 0x8001);
}

static void it_is_cut_at_every_byte(void **state)
{
	char bytes[2048];
	ssize_t len;
	long first;
	int fd;

	reopen();
	assert_int_equal(put(1, MOVE_HERE), 0);
	first = journal.end;
	assert_int_equal(put(1, MOVE_ASKING), 0);
	journal_close(&journal);
	fd = open(path, O_RDONLY);
	len = read(fd, bytes, sizeof(bytes));
	close(fd);
	for (ssize_t cut = 0; cut <= len; cut++) {
		fd = open(path, O_WRONLY | O_TRUNC);
		assert_int_equal(write(fd, bytes, cut), cut);
		close(fd);
		reopen();
		assert_int_equal(journal.count, cut >= first);
		if (journal.count)
			assert_int_equal(journal.records[0].state,
					 cut == len ? MOVE_ASKING : MOVE_HERE);
		/* And it goes on from there. */
		assert_int_equal(put(9, MOVE_HERE), 0);
		reopen();
		assert_non_null(journal_find(&journal, 9));
		journal_close(&journal);
	}
}

static void a_damaged_line_in_the_middle_is_an_error(void **state)
{
	int fd;

	reopen();
	assert_int_equal(put(1, MOVE_HERE), 0);
	assert_int_equal(put(2, MOVE_HERE), 0);
	journal_close(&journal);
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, "?", 1, 20), 1);
	close(fd);
	assert_int_equal(journal_open(&journal, path, &line), -EBADMSG);
	assert_int_equal(line, 1);
}

/* One line without an end, too. */
static void another_file_is_an_error_and_stays(void **state)
{
	static const char *const texts[] = {"host h1\n", "host h1", "#!/bin/sh\n", "ffffffff-"};
	struct stat st;
	int fd;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		assert_int_equal(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
		assert_int_equal(fstat(fd, &st), 0);
		close(fd);
		assert_int_equal(journal_open(&journal, path, &line), -EBADMSG);
		assert_int_equal(line, 1);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_size, strlen(texts[i]));
	}
}

/* It is not torn: who cut it off would forget where a GUID is. */
static void a_whole_line_of_another_version_is_an_error_and_stays(void **state)
{
	const char *text = "guid=0x0000000000000002 guest=b state=here epoch=1 colour=red";
	char entry[256];
	struct stat before, after;
	int fd, len;

	reopen();
	assert_int_equal(put(1, MOVE_HERE), 0);
	journal_close(&journal);
	fd = open(path, O_WRONLY | O_APPEND);
	len = snprintf(entry, sizeof(entry), "%08x %s\n",
		       ~crc32_iscsi((unsigned char *)text, strlen(text), ~0u), text);
	assert_int_equal(write(fd, entry, len), len);
	assert_int_equal(fstat(fd, &before), 0);
	close(fd);
	assert_int_equal(journal_open(&journal, path, &line), -EPROTO);
	assert_int_equal(line, 2);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
}

static void one_agent_has_it(void **state)
{
	struct journal other;

	reopen();
	assert_int_equal(journal_open(&other, path, &line), -EAGAIN);
}

/* A line of which only the beginning finds room. */
static void write_fails(void)
{
	struct rlimit before, none;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	none = before;
	none.rlim_cur = journal.end + 10;
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(put(1, MOVE_ASKING), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
}

static void a_full_disk_changes_nothing(void **state)
{
	reopen();
	assert_int_equal(put(1, MOVE_HERE), 0);
	write_fails();
	assert_int_equal(journal_find(&journal, 1)->state, MOVE_HERE);
	reopen();
	assert_int_equal(journal_find(&journal, 1)->state, MOVE_HERE);
}

static void a_failed_line_leaves_what_is_reserved(void **state)
{
	struct stat reserved, now;

	reopen();
	assert_int_equal(put(1, MOVE_HERE), 0);
	assert_int_equal(journal_reserve(&journal, 100), 0);
	assert_int_equal(stat(path, &reserved), 0);
	write_fails();
	assert_int_equal(stat(path, &now), 0);
	assert_true(now.st_blocks >= reserved.st_blocks);
}

static void it_does_not_grow_without_end(void **state)
{
	struct stat st;

	reopen();
	for (unsigned i = 0; i < 3000; i++)
		assert_int_equal(put(1 + i % 5, i % 2 ? MOVE_HERE : MOVE_ASKING), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size < 1100 * 200);
	reopen();
	assert_int_equal(journal.count, 5);
}

/* Of two records of different changes of owner exactly one is later, whoever asks. */
static void records_have_a_total_order(void **state)
{
	static const struct record records[] = {
		{.epoch = 1},
		{.epoch = 1, .fence = 1},
		{.epoch = 1, .fence = UINT64_MAX},
		{.epoch = 2},
		{.epoch = UINT32_MAX, .fence = 1ull << 63},
	};
	const int count = sizeof(records) / sizeof(*records);

	for (int a = 0; a < count; a++)
		for (int b = 0; b < count; b++)
			assert_int_equal(record_order(&records[a], &records[b]), (a > b) - (a < b));
}

static void numbers_that_no_member_can_have_are_refused(void **state)
{
	static const char *const bad[] = {
		"lmc=8",	  "lmc=9", "lmc=0xf", "lid=0xc000", "epoch=4294967296",
		"function=65536", "lid=",  "lid=0x"};
	struct record r;
	char text[64];

	assert_int_equal(record_parse(&r, "guest=a state=here lmc=7", 24), 0);
	assert_int_equal(r.lmc, 7);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int len = snprintf(text, sizeof(text), "guest=a state=here %s", bad[i]);

		assert_int_equal(record_parse(&r, text, len), -EINVAL);
	}
}

static void messages_come_back_as_they_were(void **state)
{
	struct request request = {.verb = MESSAGE_ASK, .from = "h1", .to = "h9"}, again;
	struct answer answer = {.answer = ANSWER_REFUSED, .reason = "no function is free"}, other;
	char text[MESSAGE_LEN];
	size_t len;

	request.record = sample(0x2c9, MOVE_ASKING);
	len = request_format(&request, text);
	assert_int_equal(request_parse(&again, text, len), 0);
	assert_memory_equal(&request, &again, sizeof(request));
	len = answer_format(&answer, text);
	assert_int_equal(answer_parse(&other, text, len), 0);
	assert_string_equal(other.reason, "no function is free");
	answer = (struct answer){.answer = ANSWER_OK, .knows = true, .record = request.record};
	len = answer_format(&answer, text);
	assert_int_equal(answer_parse(&other, text, len), 0);
	assert_true(other.knows);
	assert_memory_equal(&other.record, &request.record, sizeof(other.record));
}

static void messages_that_are_none_are_refused(void **state)
{
	static const struct {
		const char *line;
		int ret;
	} bad[] = {
		{"", -EPROTO},
		{"lidtrack2 ask h1 h2 guid=1 guest=g state=here", -EPROTO},
		{"lidtrack1 ask h1 h2 guest=g state=here", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=1 guest=g", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=1 guid=2 guest=g state=here", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=1 guest=g state=here new=1", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=1 guest=g state=here ", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=0x10000000000000000 guest=g state=here", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=1 guest=g state=here lid=0xc000", -EINVAL},
		{"lidtrack1 ask h1 h2 guid=1 guest=g/h state=here", -EINVAL},
		{"lidtrack1 ask h1  guid=1 guest=g state=here", -EINVAL},
		{"lidtrack1 eat h1 h2 guid=1 guest=g state=here", -EINVAL},
	};
	struct request request;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(request_parse(&request, bad[i].line, strlen(bad[i].line)),
				 bad[i].ret);
	assert_int_equal(request_parse(&request, "lidtrack1 look h1 h2 guest=g state=gone", 39), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_line_of_a_guid_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(it_is_cut_at_every_byte, setup, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_line_in_the_middle_is_an_error, setup,
						teardown),
		cmocka_unit_test_setup_teardown(another_file_is_an_error_and_stays, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			a_whole_line_of_another_version_is_an_error_and_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(one_agent_has_it, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_failed_line_leaves_what_is_reserved, setup,
						teardown),
		cmocka_unit_test_setup_teardown(it_does_not_grow_without_end, setup, teardown),
		cmocka_unit_test(records_have_a_total_order),
		cmocka_unit_test(messages_come_back_as_they_were),
		cmocka_unit_test(numbers_that_no_member_can_have_are_refused),
		cmocka_unit_test(messages_that_are_none_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

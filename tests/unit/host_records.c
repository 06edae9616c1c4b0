// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The records of the host segment: what a killed process put on file is read by one survivor, once,
 * and nothing of it stays.
 */
#include "host_test.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>

#include "host/libc.h"
#include "host/segment_layout.h"
#include "host/segment_records.h"

static struct urxe_segment *seg;
static uint32_t *shared;

static int setup(void **state)
{
	if (host_test_dir_make(state))
		return -1;
	memset(shared, 0, 4096);
	return urxe_segment_join(&seg);
}

static int teardown(void **state)
{
	urxe_segment_leave(seg);
	return host_test_dir_remove(state);
}

/* Files in the folder, besides the segment itself. */
static unsigned files(void)
{
	char pattern[128];
	unsigned n = 0;
	glob_t g;

	snprintf(pattern, sizeof(pattern), "%s/*.*", host_test_dir);
	if (!glob(pattern, 0, NULL, &g))
		n = g.gl_pathc;
	globfree(&g);
	return n;
}

static uint32_t put(uint32_t value)
{
	uint8_t record[URXE_RECORD_BYTES];
	uint32_t index;

	for (unsigned i = 0; i < sizeof(record); i++)
		record[i] = value + i;
	memcpy(record, &value, sizeof(value));
	CHECK(urxe_segment_records_put(seg, URXE_RECORD_QP, record, &index) == 0);
	return index;
}

struct seen {
	unsigned count;
	uint64_t sum;
};

static void see(const uint8_t *record, void *arg)
{
	struct seen *seen = arg;
	uint32_t value;

	memcpy(&value, record, sizeof(value));
	for (unsigned i = sizeof(value); i < URXE_RECORD_BYTES; i++)
		assert_int_equal(record[i], (uint8_t)(value + i));
	seen->count++;
	seen->sum += value;
}

static struct seen walk(void)
{
	struct seen seen = {0};

	urxe_segment_records_walk(seg, URXE_RECORD_CONNECTION, see, &seen);
	assert_int_equal(seen.count, 0);
	urxe_segment_records_walk(seg, URXE_RECORD_QP, see, &seen);
	return seen;
}

/* 1,000 records, of which the odd ones are cleared and some put anew. */
static void record_and_wait(void *arg)
{
	uint32_t index[1000];

	CHECK(urxe_segment_join(&seg) == 0);
	for (unsigned i = 0; i < 1000; i++)
		index[i] = put(i);
	for (unsigned i = 1; i < 1000; i += 2)
		urxe_segment_records_clear(seg, index[i]);
	put(5000);
	shared[1] = urxe_segment_slot(seg);
	__atomic_fetch_add(&shared[0], 1, __ATOMIC_ACQ_REL);
	pause();
}

static pid_t start(void)
{
	uint32_t before = shared[0];
	pid_t pid = host_test_fork(record_and_wait, NULL);

	CHECK_SOON(__atomic_load_n(&shared[0], __ATOMIC_ACQUIRE) > before);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	host_test_wait(pid);
}

static void test_a_survivor_reads_them_once(void **state)
{
	pid_t pid = start();
	struct seen seen;

	assert_int_equal(files(), 1);
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_dead_take(seg), 0);
	end(pid);
	assert_int_equal(urxe_segment_dead_take(seg), 0);
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_dead_take(seg), shared[1]);
	seen = walk();
	/* The last one cleared was 999, whose place 5000 took. */
	assert_int_equal(seen.count, 501);
	assert_int_equal(seen.sum, 249500 + 5000);
	assert_int_equal(files(), 0);
	assert_int_equal(urxe_segment_dead_take(seg), 0);
	assert_int_equal(walk().count, 0);
}

static void take_the_dead(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	CHECK(urxe_segment_dead_take(seg) == shared[1]);
	CHECK(walk().count == 501);
	CHECK(urxe_segment_dead_take(seg) == 0);
}

/* Whoever reaps need not be the one who reads. */
static void test_another_process_may_read_them(void **state)
{
	end(start());
	urxe_segment_reap(seg);
	host_test_in_child(take_the_dead, NULL);
	assert_int_equal(urxe_segment_dead_take(seg), 0);
}

/* A process that only finds the dead when it joins tells of them too. */
static void test_the_next_to_join_reads_them(void **state)
{
	end(start());
	urxe_segment_leave(seg);
	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_segment_dead_take(seg), shared[1]);
	assert_int_equal(walk().count, 501);
}

static void die_at_once(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	shared[1] = urxe_segment_slot(seg);
}

static void test_a_death_without_records_is_told(void **state)
{
	host_test_in_child(die_at_once, NULL);
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_dead_take(seg), shared[1]);
	assert_int_equal(walk().count, 0);
	assert_int_equal(urxe_segment_dead_take(seg), 0);
}

static unsigned reads;

static ssize_t counted_pread(int fd, void *buf, size_t len, off_t at)
{
	reads++;
	return pread(fd, buf, len, at);
}

/* The file has its full length from the beginning, 8 MiB, and 501 records are in its first 128 KiB.
 * They are looked for twice. */
static void test_what_was_never_written_is_not_read(void **state)
{
	ssize_t (*real)(int, void *, size_t, off_t) = urxe_libc.pread;

	end(start());
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_dead_take(seg), shared[1]);
	urxe_libc.pread = counted_pread;
	assert_int_equal(walk().count, 501);
	urxe_libc.pread = real;
	assert_in_range(reads, 1, 2 * 16);
}

static void leave_in_order(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	put(1);
	urxe_segment_leave(seg);
}

static void test_whoever_leaves_in_order_leaves_nothing(void **state)
{
	host_test_in_child(leave_in_order, NULL);
	assert_int_equal(files(), 0);
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_dead_take(seg), 0);
}

static void child_of_a_fork(void *arg)
{
	uint8_t record[URXE_RECORD_BYTES] = {0};
	uint32_t index;

	urxe_segment_forked(seg);
	CHECK(urxe_segment_records_put(seg, URXE_RECORD_QP, record, &index) == -ENODEV);
	urxe_segment_records_clear(seg, 0);
	urxe_segment_leave(seg);
}

static void test_a_forked_child_leaves_its_parents_alone(void **state)
{
	put(3);
	host_test_in_child(child_of_a_fork, NULL);
	assert_int_equal(files(), 1);
}

static void test_limit(void **state)
{
	uint8_t record[URXE_RECORD_BYTES] = {0};
	uint32_t index, n = 0;
	int ret;

	while (!(ret = urxe_segment_records_put(seg, URXE_RECORD_QP, record, &index)))
		n++;
	assert_int_equal(ret, -ENOSPC);
	assert_int_equal(n, 65536);
	urxe_segment_records_clear(seg, 65536);
	assert_int_equal(urxe_segment_records_put(seg, URXE_RECORD_QP, record, &index), -ENOSPC);
	urxe_segment_records_clear(seg, 4711);
	assert_int_equal(urxe_segment_records_put(seg, URXE_RECORD_QP, record, &index), 0);
	assert_int_equal(index, 4711);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_survivor_reads_them_once),
		TEST(test_another_process_may_read_them),
		TEST(test_the_next_to_join_reads_them),
		TEST(test_a_death_without_records_is_told),
		TEST(test_what_was_never_written_is_not_read),
		TEST(test_whoever_leaves_in_order_leaves_nothing),
		TEST(test_a_forked_child_leaves_its_parents_alone),
		TEST(test_limit),
	};

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}

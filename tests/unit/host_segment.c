// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The host segment: many processes join, die and fork; what they share stays apart, and what they
 * leave is cleaned up.
 */
#include "host_test.h"

#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/outer_user.h"
#include "host/segment_layout.h"
#include "host/segment_window.h"
#include "host/sysinfo.h"

#define NUM_PROCESSES 64

/* Memory that the test's processes share, besides the segment. */
struct shared {
	uint32_t ready;
	uint32_t go;
	uint32_t slots[NUM_PROCESSES];
	uint32_t qpns[NUM_PROCESSES][4];
	uint32_t started, reported;
	uint32_t keys;
	uint8_t key_seen[1 << 24];
};

static struct shared *shared;

static int setup(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return -1;
	return host_test_dir_make(state);
}

static int teardown(void **state)
{
	munmap(shared, sizeof(*shared));
	return host_test_dir_remove(state);
}

static struct urxe_segment *join(void)
{
	struct urxe_segment *seg = NULL;

	CHECK(urxe_segment_join(&seg) == 0);
	return seg;
}

static const char *segment_path(void)
{
	static char path[160];

	snprintf(path, sizeof(path), "%s/urxe-%u-%llu", host_test_dir, (unsigned)outer_user(),
		 (unsigned long long)urxe_netns_inode());
	return path;
}

static void test_membership(void **state)
{
	struct urxe_segment *seg, *again, *view;
	struct stat st;

	assert_int_equal(urxe_segment_view(&view), -ENOENT);
	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_segment_join(&again), 0);
	assert_ptr_equal(seg, again);
	assert_in_range(urxe_segment_slot(seg), URXE_SLOT_FIRST, URXE_SLOT_LAST);
	assert_true(urxe_segment_slot_alive(seg, urxe_segment_slot(seg)));
	assert_false(urxe_segment_slot_alive(seg, urxe_segment_slot(seg) + 1));
	assert_false(urxe_segment_slot_alive(seg, 0));
	assert_false(urxe_segment_slot_alive(seg, 1));
	assert_false(urxe_segment_slot_alive(seg, 255));

	assert_int_equal(stat(segment_path(), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* Sparse: the fixed part and one slot are allocated. */
	assert_true(st.st_blocks * 512 <= (blkcnt_t)(SEGMENT_FIXED_SIZE + 8192 + 4096));

	assert_int_equal(urxe_segment_view(&view), 0);
	assert_int_equal(urxe_segment_slot(view), 0);
	assert_true(urxe_segment_slot_alive(view, urxe_segment_slot(seg)));
	assert_null(urxe_segment_counters(view, 0));
	assert_int_equal(urxe_segment_qpn_alloc(view), 0);
	assert_int_equal(urxe_segment_key_index_alloc(view), 0);

	urxe_segment_leave(again);
	assert_true(urxe_segment_slot_alive(view, urxe_segment_slot(seg)));
	urxe_segment_leave(seg);
	for (unsigned s = 0; s < 256; s++)
		assert_false(urxe_segment_slot_alive(view, s));
	urxe_segment_leave(view);
}

static void member_of_many(void *arg)
{
	unsigned i = (uintptr_t)arg;
	struct urxe_segment *seg;

	host_test_add(&shared->ready);
	CHECK_SOON(host_test_load(&shared->go));
	seg = join();
	shared->slots[i] = urxe_segment_slot(seg);
	for (unsigned j = 0; j < ARRAY_LEN(shared->qpns[i]); j++)
		shared->qpns[i][j] = urxe_segment_qpn_alloc(seg);
	host_test_add(&shared->reported);
	pause();
}

static void test_64_at_once(void **state)
{
	pid_t pids[NUM_PROCESSES];
	struct urxe_segment *seg;
	bool seen[256] = {false};

	memset(shared, 0, offsetof(struct shared, key_seen));
	for (uintptr_t i = 0; i < NUM_PROCESSES; i++)
		pids[i] = host_test_fork(member_of_many, (void *)i);
	CHECK_SOON(host_test_load(&shared->ready) == NUM_PROCESSES);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	CHECK_SOON(host_test_load(&shared->reported) == NUM_PROCESSES);

	assert_int_equal(urxe_segment_join(&seg), 0);
	for (unsigned i = 0; i < NUM_PROCESSES; i++) {
		unsigned s = shared->slots[i];

		assert_in_range(s, URXE_SLOT_FIRST, URXE_SLOT_LAST);
		assert_false(seen[s]);
		seen[s] = true;
		assert_true(urxe_segment_slot_alive(seg, s));
		for (unsigned j = 0; j < ARRAY_LEN(shared->qpns[i]); j++) {
			assert_int_equal(urxe_owner_of(NULL, shared->qpns[i][j]), s);
			assert_true(shared->qpns[i][j] > 0xff || URXE_SLOT_FIRST > 1);
			assert_true(shared->qpns[i][j] < 0xffffff);
			for (unsigned k = 0; k < j; k++)
				assert_int_not_equal(shared->qpns[i][j], shared->qpns[i][k]);
		}
	}
	assert_false(seen[urxe_segment_slot(seg)]);

	for (unsigned i = 0; i < NUM_PROCESSES; i++) {
		kill(pids[i], SIGKILL);
		assert_int_equal(WTERMSIG(host_test_wait(pids[i])), SIGKILL);
	}
	for (unsigned i = 0; i < NUM_PROCESSES; i++)
		CHECK_SOON(!urxe_segment_slot_alive(seg, shared->slots[i]));
	urxe_segment_reap(seg);
	for (unsigned s = URXE_SLOT_FIRST; s <= URXE_SLOT_LAST; s++)
		assert_int_equal(seg->map->slots[s].state, s == seg->slot ? SLOT_USED : SLOT_FREE);
	urxe_segment_leave(seg);
}

/* Takes some of everything, and waits to be killed. */
static void member_that_dies(void *arg)
{
	struct urxe_segment *seg = join();

	urxe_segment_lock(seg);
	urxe_segment_group_set(seg, 0, true);
	urxe_segment_group_set(seg, 1, true);
	urxe_segment_unlock(seg);
	urxe_segment_counters(seg, 3)[URXE_CNT_SENT_PKTS] = 1000;
	for (int i = 0; i < 100; i++)
		CHECK(urxe_segment_key_index_alloc(seg));
	shared->slots[0] = urxe_segment_slot(seg);
	/* Even with the segment lock in its hands. */
	urxe_segment_lock(seg);
	host_test_add(&shared->reported);
	pause();
}

static void test_killed_one_is_reaped(void **state)
{
	uint64_t before[URXE_NUM_COUNTERS], after[URXE_NUM_COUNTERS];
	struct urxe_segment *seg;
	uint32_t generation;
	uint8_t slots[256];
	pid_t pid;

	memset(shared, 0, offsetof(struct shared, key_seen));
	assert_int_equal(urxe_segment_join(&seg), 0);
	urxe_segment_counters_sum(seg, 3, before);
	urxe_segment_lock(seg);
	urxe_segment_group_set(seg, 0, true);
	urxe_segment_unlock(seg);
	pid = host_test_fork(member_that_dies, NULL);
	CHECK_SOON(host_test_load(&shared->reported) == 1);
	assert_true(urxe_segment_slot_alive(seg, shared->slots[0]));
	assert_int_equal(urxe_segment_group(seg, 0, slots, sizeof(slots)), 2);
	assert_int_equal(urxe_segment_group(seg, 1, slots, sizeof(slots)), 1);
	urxe_segment_counters_sum(seg, 3, after);
	assert_int_equal(after[URXE_CNT_SENT_PKTS], before[URXE_CNT_SENT_PKTS] + 1000);

	/* A living one is not reaped (looked at without the lock, which it holds). */
	urxe_segment_reap(seg);
	assert_true(urxe_segment_slot_alive(seg, shared->slots[0]));

	generation = urxe_segment_group_generation(seg);
	kill(pid, SIGKILL);
	host_test_wait(pid);
	CHECK_SOON(!urxe_segment_slot_alive(seg, shared->slots[0]));
	urxe_segment_reap(seg);
	assert_int_not_equal(urxe_segment_group_generation(seg), generation);
	assert_int_equal(urxe_segment_group(seg, 0, slots, sizeof(slots)), 1);
	assert_int_equal(slots[0], urxe_segment_slot(seg));
	assert_int_equal(urxe_segment_group(seg, 1, slots, sizeof(slots)), 0);
	for (unsigned i = 0; i < KEY_BLOCKS; i++)
		assert_int_not_equal(seg->map->key_owner[i], shared->slots[0]);
	urxe_segment_counters_sum(seg, 3, after);
	assert_int_equal(after[URXE_CNT_SENT_PKTS], before[URXE_CNT_SENT_PKTS] + 1000);
	generation = urxe_segment_group_generation(seg);
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_group_generation(seg), generation);
	urxe_segment_leave(seg);
}

static void child_that_was_told(void *arg)
{
	struct urxe_segment *seg = arg, *own;
	unsigned slot = seg->slot;

	urxe_segment_forked(seg);
	/* There is memory, but it is not the parent's. */
	urxe_segment_counters(seg, 0)[0] = 77;
	CHECK(urxe_segment_slot(seg) == 0);
	CHECK(urxe_segment_qpn_alloc(seg) == 0);
	urxe_segment_lock(seg);
	urxe_segment_group_set(seg, 0, false);
	urxe_segment_unlock(seg);
	own = join();
	CHECK(urxe_segment_slot(own) != slot);
	CHECK(urxe_segment_slot_alive(own, slot));
	urxe_segment_leave(own);
	urxe_segment_leave(seg);
}

static void child_that_joins_untold(void *arg)
{
	unsigned slot = urxe_segment_slot(arg);
	struct urxe_segment *own = join();

	CHECK(urxe_segment_slot(own) != slot);
	CHECK(urxe_segment_slot_alive(own, slot));
	urxe_segment_leave(own);
}

static void child_that_closes_all(void *arg)
{
	closefrom(3);
}

static void test_fork(void **state)
{
	static void (*const children[])(void *arg) = {child_that_was_told, child_that_joins_untold,
						      child_that_closes_all};
	struct urxe_segment *seg, *view;
	uint8_t slots[4];

	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_segment_view(&view), 0);
	urxe_segment_lock(seg);
	urxe_segment_group_set(seg, 0, true);
	urxe_segment_unlock(seg);
	urxe_segment_counters(seg, 0)[0] = 5;
	for (unsigned i = 0; i < ARRAY_LEN(children); i++) {
		host_test_in_child(children[i], seg);
		assert_true(urxe_segment_slot_alive(view, urxe_segment_slot(seg)));
		urxe_segment_reap(seg);
		assert_int_equal(urxe_segment_group(seg, 0, slots, 4), 1);
		assert_int_equal(urxe_segment_counters(seg, 0)[0], 5);
	}
	urxe_segment_leave(view);
	urxe_segment_leave(seg);
}

static void parent_that_dies_first(void *arg)
{
	struct urxe_segment *seg = join();

	shared->slots[0] = urxe_segment_slot(seg);
	/* Longer than the test looks. */
	if (!fork())
		for (int ms = 0; ms < 20000 && !host_test_load(&shared->go); ms++)
			usleep(1000);
}

/* A child that knows nothing of the segment and outlives its parent does not keep it alive. */
static void test_child_outlives(void **state)
{
	struct urxe_segment *seg;

	memset(shared, 0, offsetof(struct shared, key_seen));
	assert_int_equal(urxe_segment_join(&seg), 0);
	host_test_in_child(parent_that_dies_first, NULL);
	CHECK_SOON(!urxe_segment_slot_alive(seg, shared->slots[0]));
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	urxe_segment_leave(seg);
}

static void member_that_closes_all(void *arg)
{
	struct urxe_segment *seg = join(), *view;
	int fd, other, probe;

	closefrom(3);
	/* The numbers now belong to others, whom locks and closes must not hit. */
	fd = open("/dev/null", O_RDWR);
	other = dup(fd);
	CHECK(fd >= 3 && other > fd);
	probe = open(segment_path(), O_RDWR | O_CLOEXEC);
	CHECK(probe > other);
	urxe_segment_lock(seg);
	CHECK(segment_file_locked(probe, SEGMENT_LOCK_BYTE, 1));
	urxe_segment_unlock(seg);
	CHECK(!segment_file_locked(probe, SEGMENT_LOCK_BYTE, 1));
	CHECK(urxe_segment_view(&view) == 0);
	CHECK(urxe_segment_slot_alive(view, urxe_segment_slot(seg)));
	urxe_segment_leave(seg);
	CHECK(fcntl(fd, F_GETFD) >= 0 && fcntl(other, F_GETFD) >= 0);
	urxe_segment_leave(view);
}

static void test_closed_descriptors(void **state)
{
	host_test_in_child(member_that_closes_all, NULL);
}

static void member_with_keys(void *arg)
{
	struct urxe_segment *seg = join();
	unsigned n = (uintptr_t)arg;

	for (unsigned i = 0; i < n; i++) {
		uint32_t index = urxe_segment_key_index_alloc(seg);

		CHECK(index && index < 1 << 24);
		CHECK(!__atomic_exchange_n(&shared->key_seen[index], 1, __ATOMIC_RELAXED));
		host_test_add(&shared->keys);
	}
	host_test_add(&shared->ready);
	CHECK_SOON(host_test_load(&shared->go));
	urxe_segment_leave(seg);
}

/* Unique among processes, and spread as evenly as random numbers are. */
static void test_keys_unique(void **state)
{
	enum { PROCESSES = 4, KEYS = 20000, BUCKETS = 256 };
	unsigned histogram[BUCKETS] = {0};
	double mean = (double)PROCESSES * KEYS / BUCKETS, chi = 0;
	pid_t pids[PROCESSES];

	memset(shared, 0, sizeof(*shared));
	for (unsigned i = 0; i < PROCESSES; i++)
		pids[i] = host_test_fork(member_with_keys, (void *)(uintptr_t)KEYS);
	for (unsigned i = 0; i < 4; i++) {
		/* 20 s for slow builds. */
		for (int ms = 0; ms < 5000 && host_test_load(&shared->ready) < PROCESSES; ms++)
			usleep(1000);
	}
	assert_int_equal(host_test_load(&shared->ready), PROCESSES);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(host_test_wait(pids[i]), 0);
	assert_int_equal(shared->keys, PROCESSES * KEYS);

	for (uint32_t i = 0; i < 1 << 24; i++)
		histogram[i >> 16] += shared->key_seen[i];
	for (unsigned i = 0; i < BUCKETS; i++)
		chi += (histogram[i] - mean) * (histogram[i] - mean) / mean;
	/* 255 degrees of freedom: beyond 400 once in 10^8 times. */
	assert_true(chi < 400);
}

static void child_that_gets_a_key(void *arg)
{
	struct urxe_segment *own = join();

	CHECK(urxe_segment_key_index_alloc(own));
	urxe_segment_leave(own);
}

static void test_keys_again(void **state)
{
	struct urxe_segment *seg;
	uint32_t first, index;

	assert_int_equal(urxe_segment_join(&seg), 0);
	first = urxe_segment_key_index_alloc(seg);
	assert_int_not_equal(first, 0);
	urxe_segment_key_index_free(seg, first);
	assert_int_equal(seg->keys_used, 0);
	/* A second free, a number of nobody's and one out of range change nothing. */
	urxe_segment_key_index_free(seg, first);
	urxe_segment_key_index_free(seg, 0);
	urxe_segment_key_index_free(seg, 1 << 24);
	assert_int_equal(seg->keys_used, 0);
	/* A freed one is not given out again before the others of its block were. */
	for (unsigned i = 0; i < 4000; i++) {
		index = urxe_segment_key_index_alloc(seg);
		assert_int_not_equal(index, 0);
		assert_int_not_equal(index, first);
		urxe_segment_key_index_free(seg, index);
	}
	assert_int_equal(seg->num_blocks, 1);
	urxe_segment_leave(seg);
}

/* One process may take all but one block for every slot; others still get theirs. */
static void test_keys_exhausted(void **state)
{
	enum { ELSEWHERE = KEY_BLOCKS - 255 - 8 };
	struct urxe_segment *seg;
	uint32_t index = 0, n = 0;

	memset(shared, 0, sizeof(*shared));
	assert_int_equal(urxe_segment_join(&seg), 0);
	/* Most blocks are another process's, or this would take long. */
	memset(seg->map->key_owner, 1, ELSEWHERE * sizeof(seg->map->key_owner[0]));
	while ((index = urxe_segment_key_index_alloc(seg))) {
		if (shared->key_seen[index]++)
			fail_msg("index %#x twice", index);
		n++;
	}
	assert_in_range(n, 8 * 4096 - 1, 8 * 4096);
	for (index = 1; !shared->key_seen[index]; index++)
		;
	urxe_segment_key_index_free(seg, index);
	assert_int_equal(urxe_segment_key_index_alloc(seg), index);
	assert_int_equal(urxe_segment_key_index_alloc(seg), 0);
	host_test_in_child(child_that_gets_a_key, seg);
	memset(seg->map->key_owner, 0, ELSEWHERE * sizeof(seg->map->key_owner[0]));
	urxe_segment_leave(seg);
}

static void test_qpns(void **state)
{
	static uint8_t seen[65536];
	struct urxe_segment *seg;
	uint32_t qpn, last;

	assert_int_equal(urxe_segment_join(&seg), 0);
	last = urxe_segment_qpn_alloc(seg);
	urxe_segment_qpn_free(seg, last);
	for (unsigned i = 0; i < 65536; i++) {
		qpn = urxe_segment_qpn_alloc(seg);
		assert_int_equal(urxe_owner_of(seg, qpn), urxe_segment_slot(seg));
		assert_false(seen[qpn >> 8]++);
		/* In a circle: the next one up, and the one that was freed comes last. */
		assert_int_equal(qpn >> 8, ((last >> 8) + 1) & 0xffff);
		last = qpn;
	}
	assert_int_equal(urxe_segment_qpn_alloc(seg), 0);
	urxe_segment_qpn_free(seg, (12345 << 8) | (urxe_segment_slot(seg) ^ 1));
	assert_int_equal(urxe_segment_qpn_alloc(seg), 0);
	qpn = 12345 << 8 | urxe_segment_slot(seg);
	urxe_segment_qpn_free(seg, qpn);
	assert_int_equal(urxe_segment_qpn_alloc(seg), qpn);
	urxe_segment_leave(seg);
}

/* "+a": slot a binds; "-a": it closes; "*a": it is found dead. */
static const struct {
	const char *ops;
	const char *order;
} group_orders[] = {
	{"", ""},
	{"+a", "a"},
	{"+a+b+c+d", "abcd"},
	{"+a+b+c+d-b", "adc"},
	{"+a+b+c+d-d", "abc"},
	{"+a+b+c+d-a-d", "cb"},
	{"+a+b+c+d-a+a", "dbca"},
	{"+a-a", ""},
	{"+a+b-a-b", ""},
	{"+a+a+b", "ab"},
	{"+a-b", "a"},
	{"+c+b+a+d*b", "cda"},
	{"+a+b+c+d*b*c", "ad"},
	{"+d+c+b+a*b*d", "ac"},
};

static void test_group_order(void **state)
{
	struct urxe_segment *seg;
	uint8_t slots[256];
	unsigned own;

	assert_int_equal(urxe_segment_join(&seg), 0);
	own = seg->slot;
	for (size_t i = 0; i < ARRAY_LEN(group_orders); i++)
		for (unsigned group = 0; group < NUM_GROUPS; group++) {
			const char *op = group_orders[i].ops;
			char order[16] = "";
			unsigned n;

			urxe_segment_lock(seg);
			for (; *op; op += 2) {
				/* Plays the other processes' parts. */
				seg->slot = op[1];
				if (*op == '+')
					urxe_segment_group_set(seg, group, true);
				else if (*op == '-')
					urxe_segment_group_set(seg, group, false);
				else
					segment_groups_forget(seg->map, op[1]);
			}
			n = urxe_segment_group(seg, group, slots, sizeof(slots));
			memcpy(order, slots, n);
			for (char c = 'a'; c <= 'd'; c++)
				segment_groups_forget(seg->map, c);
			seg->slot = own;
			urxe_segment_unlock(seg);
			assert_string_equal(order, group_orders[i].order);
		}
	assert_int_equal(urxe_segment_group(seg, 2, slots, sizeof(slots)), 0);
	urxe_segment_leave(seg);
}

static void test_group_generation(void **state)
{
	struct urxe_segment *seg;
	uint32_t generation;
	uint8_t slots[2];

	assert_int_equal(urxe_segment_join(&seg), 0);
	generation = urxe_segment_group_generation(seg);
	urxe_segment_lock(seg);
	urxe_segment_group_set(seg, 1, true);
	assert_int_equal(urxe_segment_group_generation(seg), generation + 1);
	urxe_segment_group_set(seg, 1, true);
	assert_int_equal(urxe_segment_group_generation(seg), generation + 1);
	urxe_segment_group_set(seg, 1, false);
	assert_int_equal(urxe_segment_group_generation(seg), generation + 2);
	urxe_segment_group_set(seg, 1, false);
	assert_int_equal(urxe_segment_group_generation(seg), generation + 2);
	urxe_segment_group_set(seg, 0, true);
	urxe_segment_unlock(seg);
	assert_int_equal(urxe_segment_group(seg, 0, slots, 0), 0);
	urxe_segment_leave(seg);
}

static void member_that_counts(void *arg)
{
	struct urxe_segment *seg = join();

	for (int d = 0; d < URXE_MAX_DEVICES; d++)
		for (int c = 0; c < URXE_NUM_COUNTERS; c++)
			urxe_segment_counters(seg, d)[c] += d * 100 + c;
	if (arg)
		urxe_segment_leave(seg);
}

static void test_counters(void **state)
{
	uint64_t before[URXE_MAX_DEVICES][URXE_NUM_COUNTERS], sum[URXE_NUM_COUNTERS];
	struct urxe_segment *seg, *view;

	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_segment_view(&view), 0);
	for (int d = 0; d < URXE_MAX_DEVICES; d++)
		urxe_segment_counters_sum(view, d, before[d]);
	/* One leaves, one dies, one lives: three times the same, before and after the reaping. */
	host_test_in_child(member_that_counts, (void *)1);
	host_test_in_child(member_that_counts, NULL);
	member_that_counts(NULL);
	urxe_segment_leave(seg);
	for (int round = 0; round < 2; round++) {
		for (int d = 0; d < URXE_MAX_DEVICES; d++) {
			urxe_segment_counters_sum(view, d, sum);
			for (int c = 0; c < URXE_NUM_COUNTERS; c++)
				assert_int_equal(sum[c] - before[d][c], 3 * (d * 100 + c));
		}
		usleep(20000);
		urxe_segment_reap(seg);
	}
	assert_null(urxe_segment_counters(seg, -1));
	assert_null(urxe_segment_counters(seg, URXE_MAX_DEVICES));
	urxe_segment_counters_sum(seg, URXE_MAX_DEVICES, sum);
	assert_int_equal(sum[0], 0);
	assert_string_equal(urxe_counter_names[URXE_CNT_DUP_REQ], "duplicate_request");
	urxe_segment_leave(view);
	urxe_segment_leave(seg);
}

/* Someone dies between adding a dead slot's counters and freeing it: they are added once. */
static void test_retired_once(void **state)
{
	uint64_t before[URXE_NUM_COUNTERS], sum[URXE_NUM_COUNTERS];
	const unsigned dead = 100, later = 101;
	struct segment_map *map;
	struct urxe_segment *seg;
	uint64_t word;

	assert_int_equal(urxe_segment_join(&seg), 0);
	map = seg->map;
	urxe_segment_counters_sum(seg, 0, before);
	for (unsigned s = dead; s <= later; s++) {
		assert_int_equal(segment_file_allocate(seg, seg->fd,
						       offsetof(struct segment_map, living[s]),
						       sizeof(map->living[s])),
				 0);
		map->living[s].counters[0][0] = 10;
		map->slots[s].backed = 1;
	}

	for (int finished = 0; finished < 2; finished++) {
		map->slots[dead].state = map->slots[later].state = SLOT_USED;
		urxe_segment_lock(seg);
		segment_counters_retire(map, dead);
		/* Back to the moment of death: after the first store, or after the second one. */
		word = map->header.retire;
		map->header.retire = RETIRE_WORD(RETIRE_GEN(word) - 2, dead);
		map->slots[dead].state = finished ? SLOT_FREE : SLOT_USED;
		urxe_segment_unlock(seg);
		urxe_segment_counters_sum(seg, 0, sum);
		assert_int_equal(sum[0] - before[0], 20);

		urxe_segment_lock(seg);
		segment_counters_retire(map, later);
		segment_counters_retire(map, dead);
		urxe_segment_unlock(seg);
		assert_int_equal(map->slots[dead].state, SLOT_FREE);
		urxe_segment_counters_sum(seg, 0, sum);
		assert_int_equal(sum[0] - before[0], 20);
		before[0] = sum[0];
	}
	urxe_segment_leave(seg);
}

static void test_fault(void **state)
{
	char spec[URXE_FAULT_SPEC_LEN], longest[URXE_FAULT_SPEC_LEN + 1];
	struct urxe_segment *seg, *view;
	uint32_t generation;

	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_segment_view(&view), 0);
	generation = urxe_segment_fault_generation(seg);
	urxe_segment_fault_get(seg, 1, spec);
	assert_string_equal(spec, "");
	assert_int_equal(urxe_segment_fault_set(view, 1, "drop=2%,seed=7"), 0);
	assert_int_not_equal(urxe_segment_fault_generation(seg), generation);
	urxe_segment_fault_get(seg, 1, spec);
	assert_string_equal(spec, "drop=2%,seed=7");
	urxe_segment_fault_get(seg, 0, spec);
	assert_string_equal(spec, "");

	memset(longest, 'x', sizeof(longest));
	longest[URXE_FAULT_SPEC_LEN] = '\0';
	assert_int_equal(urxe_segment_fault_set(view, 1, longest), -EINVAL);
	longest[URXE_FAULT_SPEC_LEN - 1] = '\0';
	assert_int_equal(urxe_segment_fault_set(view, 1, longest), 0);
	urxe_segment_fault_get(seg, 1, spec);
	assert_string_equal(spec, longest);
	assert_int_equal(urxe_segment_fault_set(view, 1, ""), 0);
	assert_int_equal(urxe_segment_fault_set(view, -1, ""), -EINVAL);
	assert_int_equal(urxe_segment_fault_set(view, URXE_MAX_DEVICES, ""), -EINVAL);
	urxe_segment_fault_get(seg, 1, spec);
	assert_string_equal(spec, "");
	urxe_segment_leave(view);
	urxe_segment_leave(seg);
}

static void member_of_a_storm(void *arg)
{
	struct urxe_segment *seg;

	host_test_add(&shared->started);
	seg = join();
	urxe_segment_counters(seg, 5)[0] = 1;
	host_test_add(&shared->reported);
	urxe_segment_lock(seg);
	urxe_segment_group_set(seg, 0, true);
	urxe_segment_unlock(seg);
	urxe_segment_key_index_alloc(seg);
	urxe_segment_leave(seg);
}

/* Killed at any instruction of joining, working and leaving, the segment stays whole. */
static void test_storm(void **state)
{
	enum { ROUNDS = 300, AT_ONCE = 4 };
	uint64_t before[URXE_NUM_COUNTERS], sum[URXE_NUM_COUNTERS];
	struct urxe_segment *seg;
	pid_t pids[AT_ONCE] = {0};
	uint8_t slots[256];
	unsigned seed = 7;

	memset(shared, 0, offsetof(struct shared, key_seen));
	assert_int_equal(urxe_segment_join(&seg), 0);
	urxe_segment_counters_sum(seg, 5, before);
	for (int i = 0; i < ROUNDS + AT_ONCE; i++) {
		pid_t *pid = &pids[i % AT_ONCE];

		if (*pid) {
			kill(*pid, SIGKILL);
			host_test_wait(*pid);
		}
		if (i < ROUNDS)
			*pid = host_test_fork(member_of_a_storm, NULL);
		usleep(rand_r(&seed) % 800);
	}
	usleep(20000);
	urxe_segment_reap(seg);
	assert_int_equal(urxe_segment_group(seg, 0, slots, sizeof(slots)), 0);
	for (unsigned s = URXE_SLOT_FIRST; s <= URXE_SLOT_LAST; s++)
		assert_int_equal(seg->map->slots[s].state, s == seg->slot ? SLOT_USED : SLOT_FREE);
	for (unsigned i = 0; i < KEY_BLOCKS; i++)
		assert_int_equal(seg->map->key_owner[i], 0);
	urxe_segment_counters_sum(seg, 5, sum);
	assert_in_range(sum[0] - before[0], shared->reported, shared->started);
	assert_true(shared->reported > 0);
	urxe_segment_leave(seg);
}

/* From which one on, and which one it becomes. */
static void become(uint32_t after, unsigned slot)
{
	struct urxe_segment *seg;
	uint32_t qpn, n = 0;

	CHECK(urxe_segment_join(&seg) == 0);
	urxe_segment_leave(seg);
	CHECK(urxe_segment_view(&seg) == 0);
	seg->map->header.next_slot = after;
	urxe_segment_leave(seg);
	CHECK(urxe_segment_join(&seg) == 0);
	CHECK(urxe_segment_slot(seg) == slot);
	for (; (qpn = urxe_segment_qpn_alloc(seg)); n++)
		CHECK(urxe_owner_of(seg, qpn) == slot && qpn > 1 && qpn < 0xffffff);
	CHECK(n == 16384);
	CHECK(urxe_segment_key_index_alloc(seg));
	urxe_segment_leave(seg);
}

static void member_of_a_fabric(void *arg)
{
	if (!freopen("/dev/null", "w", stderr))
		exit(1);
	/* There, but nobody answers. */
	setenv("URXE_FABRIC", host_test_dir, 1);
	become(100, 101);
	become(253, 255); /* 254 is the guardian's byte */
	become(255, 256);
	become(511, 512);
	become(1021, 1022);
	become(1022, 2);
	for (unsigned s = URXE_SLOT_FIRST; s <= URXE_WIDE_LAST; s++)
		for (uint32_t number = 0; number < 1 << 24; number += 0x71717)
			CHECK(urxe_comm_id_slot(urxe_comm_id(s, number)) == s);
}

static void test_a_fabric_has_a_thousand_slots(void **state)
{
	host_test_in_child(member_of_a_fabric, NULL);
}

static void *work_in_a_thread(void *arg)
{
	struct urxe_segment *seg = arg, *again;
	uint64_t sum[URXE_NUM_COUNTERS];
	uint32_t keys[100], qpns[100];

	for (int round = 0; round < 20; round++) {
		CHECK(urxe_segment_join(&again) == 0 && again == seg);
		for (unsigned i = 0; i < 100; i++) {
			keys[i] = urxe_segment_key_index_alloc(seg);
			qpns[i] = urxe_segment_qpn_alloc(seg);
			CHECK(!__atomic_exchange_n(&shared->key_seen[keys[i]], 1,
						   __ATOMIC_RELAXED));
		}
		urxe_segment_lock(seg);
		host_test_add(&shared->keys);
		CHECK(!shared->go++);
		urxe_segment_lock(seg);
		urxe_segment_reap(seg);
		urxe_segment_unlock(seg);
		shared->go--;
		urxe_segment_unlock(seg);
		urxe_segment_counters_sum(seg, 0, sum);
		for (unsigned i = 0; i < 100; i++) {
			__atomic_store_n(&shared->key_seen[keys[i]], 0, __ATOMIC_RELAXED);
			urxe_segment_key_index_free(seg, keys[i]);
			urxe_segment_qpn_free(seg, qpns[i]);
		}
		urxe_segment_leave(again);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct urxe_segment *seg;
	pthread_t threads[4];

	memset(shared, 0, sizeof(*shared));
	assert_int_equal(urxe_segment_join(&seg), 0);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work_in_a_thread, seg), 0);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(shared->keys, 80);
	assert_int_equal(seg->keys_used, 0);
	assert_int_equal(seg->refs, 1);
	urxe_segment_leave(seg);
}

static void put_header(const struct segment_header *header)
{
	FILE *f;

	unlink(segment_path());
	f = fopen(segment_path(), "w");
	CHECK(f);
	CHECK(fchmod(fileno(f), 0600) == 0);
	CHECK(fwrite(header, sizeof(*header), 1, f) == 1);
	CHECK(fclose(f) == 0);
}

static void silently_join(void *arg)
{
	struct urxe_segment *seg;
	int expect = (intptr_t)arg;

	CHECK(freopen("/dev/null", "w", stderr));
	if (urxe_segment_join(&seg) != expect)
		_exit(1);
	if (!expect)
		urxe_segment_leave(seg);
}

/* Of whoever was killed. */
static const char *const left_over[] = {".s3-0123abcd", ".w3", ".r254"};

static void put_left_over(void)
{
	char path[160];

	for (unsigned i = 0; i < sizeof(left_over) / sizeof(*left_over); i++) {
		snprintf(path, sizeof(path), "%s%s", segment_path(), left_over[i]);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	}
}

static unsigned count_left_over(void)
{
	unsigned num = 0;
	char path[160];

	for (unsigned i = 0; i < sizeof(left_over) / sizeof(*left_over); i++) {
		snprintf(path, sizeof(path), "%s%s", segment_path(), left_over[i]);
		num += !access(path, F_OK);
	}
	return num;
}

/* A segment of another version: refused while somebody uses it, made anew when nobody does, and
 * what was beside it is removed. */
static void test_other_version(void **state)
{
	struct segment_header header = {
		.magic = SEGMENT_MAGIC,
		.version = SEGMENT_VERSION + 1,
		.num_counters = URXE_NUM_COUNTERS,
		.size = sizeof(struct segment_map),
	};
	struct urxe_segment *view;
	int fd;

	put_header(&header);
	put_left_over();
	assert_int_equal(urxe_segment_view(&view), -EPROTO);
	fd = open(segment_path(), O_RDWR | O_CLOEXEC);
	assert_int_equal(segment_file_lock(fd, 17, true), 0);
	host_test_in_child(silently_join, (void *)(intptr_t)-EPROTO);
	assert_int_equal(count_left_over(), 3);
	close(fd);
	host_test_in_child(silently_join, NULL);
	assert_int_equal(count_left_over(), 0);
	assert_int_equal(urxe_segment_view(&view), 0);
	urxe_segment_leave(view);

	/* Its maker died before the magic was written. */
	header.magic = 0;
	put_header(&header);
	assert_int_equal(urxe_segment_view(&view), -ENOENT);
	host_test_in_child(silently_join, NULL);
	assert_int_equal(urxe_segment_view(&view), 0);
	urxe_segment_leave(view);

	/* Not a segment at all. */
	header.magic = 0x1234;
	put_header(&header);
	host_test_in_child(silently_join, NULL);
	unlink(segment_path());
}

/* What another user may put in the segment's place. */
static void test_planted(void **state)
{
	char target[160];

	snprintf(target, sizeof(target), "%s/target", host_test_dir);
	unlink(segment_path());
	assert_int_equal(symlink(target, segment_path()), 0);
	host_test_in_child(silently_join, (void *)(intptr_t)-EACCES);
	assert_int_equal(access(target, F_OK), -1);
	unlink(segment_path());

	assert_int_equal(mkfifo(segment_path(), 0600), 0);
	host_test_in_child(silently_join, (void *)(intptr_t)-EACCES);
	unlink(segment_path());

	close(open(segment_path(), O_CREAT | O_RDWR, 0600));
	assert_int_equal(chmod(segment_path(), 0666), 0);
	host_test_in_child(silently_join, (void *)(intptr_t)-EACCES);
	unlink(segment_path());

	setenv("URXE_RUNTIME_DIR", "/nonexistent", 1);
	host_test_in_child(silently_join, (void *)(intptr_t)-EACCES);
	setenv("URXE_RUNTIME_DIR", host_test_dir, 1);
}

/* As the segment's file: another user's, where this test may make such a file. */
static void test_other_owner(void **state)
{
	unlink(segment_path());
	close(open(segment_path(), O_CREAT | O_RDWR, 0600));
	if (chown(segment_path(), 1234, -1) < 0) {
		unlink(segment_path());
		skip();
	}
	host_test_in_child(silently_join, (void *)(intptr_t)-EACCES);
	unlink(segment_path());
}

static void join_and_wait(void *arg)
{
	join();
	host_test_add(&shared->ready);
	CHECK_SOON(host_test_load(&shared->go));
}

static void member_beyond_the_last(void *arg)
{
	join();
	host_test_add(&shared->ready);
	while (!host_test_load(&shared->go))
		usleep(20000);
}

static void test_all_slots_taken(void **state)
{
	enum { ALL = URXE_SLOT_LAST - URXE_SLOT_FIRST + 1 };
	pid_t pids[ALL];

	memset(shared, 0, offsetof(struct shared, key_seen));
	for (unsigned i = 0; i < ALL; i++) {
		pids[i] = host_test_fork(member_beyond_the_last, NULL);
		CHECK_SOON(host_test_load(&shared->ready) == i + 1);
	}
	host_test_in_child(silently_join, (void *)(intptr_t)-EUSERS);
	kill(pids[100], SIGKILL);
	host_test_wait(pids[100]);
	usleep(20000);
	host_test_in_child(silently_join, NULL);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < ALL; i++)
		if (i != 100)
			assert_int_equal(host_test_wait(pids[i]), 0);
}

/*
 * In a mount namespace of its own: room for the fixed part and one process's, and then
 * not that. With the source named too, mount(8) leaves out the options that were there:
 * uid= has an ID from outside.
 */
static int with_full_disk(void)
{
	pid_t pid;

	host_test_sh("mount -t tmpfs -o size=136k tmpfs %s", host_test_dir);
	pid = host_test_fork(join_and_wait, NULL);
	CHECK_SOON(host_test_load(&shared->ready) == 1);
	host_test_in_child(silently_join, (void *)(intptr_t)-ENOSPC);
	host_test_in_child(silently_join, (void *)(intptr_t)-ENOSPC);
	host_test_sh("mount -o remount,size=144k tmpfs %s", host_test_dir);
	host_test_in_child(silently_join, NULL);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	CHECK(host_test_wait(pid) == 0);
	host_test_sh("umount %s", host_test_dir);

	host_test_sh("mount -t tmpfs -o size=32k tmpfs %s", host_test_dir);
	host_test_in_child(silently_join, (void *)(intptr_t)-ENOSPC);
	host_test_sh("mount -o remount,size=1m tmpfs %s", host_test_dir);
	host_test_in_child(silently_join, NULL);
	host_test_sh("umount %s", host_test_dir);
	return 0;
}

static char *program;

static void test_no_room(void **state)
{
	char command[512];

	if (system("unshare -Urm mount -t tmpfs tmpfs /mnt 2>/dev/null"))
		skip();
	snprintf(command, sizeof(command), "HOST_TEST_FULL=1 unshare -Urm %s", program);
	assert_int_equal(system(command), 0);
}

/* user_namespaces(7): a line has an ID inside, the one it stands for
 * outside, and how many follow. */
static void test_a_user_has_the_uid_that_the_namespace_was_made_with(void **state)
{
	static const struct {
		const char *map;
		uint32_t inside, outside;
	} rows[] = {
		{"         0          0 4294967295\n", 1001, 1001},
		{"         0          0 4294967295\n", 0, 0},
		{"         0       1001          1\n", 0, 1001},
		{"      1000          0          1\n", 1000, 0},
		{"0 1001 1\n1 100000 65536\n", 34, 100033},
		{"0 1001 1\n1 100000 65536\n", 65537, 65537},
		{"0 1001 1\n", 65534, 65534},
		{"", 65534, 65534},
		{"none", 7, 7},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(outer_user_of(rows[i].inside, rows[i].map), rows[i].outside);
}

static void test_a_namespace_in_another_one_keeps_the_uid_of_names(void **state)
{
	uint32_t uid = outer_user();

	setenv(OUTER_USER, "100999", 1);
	assert_int_equal(outer_user(), 100999);
	setenv(OUTER_USER, "", 1);
	assert_int_equal(outer_user(), uid);
	unsetenv(OUTER_USER);
}

/* ---- segments of network namespaces that are gone ---- */

enum end_of {
	GONE,
	GONE_BY_DEATH,
	STILL_THERE,
	STILL_MOUNTED,
	IN_USE,
	LOCKED,
	WITH_FAULTS,
	A_LINK
};

/* The path of the segment that was made; the inode of its namespace. */
struct left {
	char path[160];
	uint64_t inode;
};

static struct left *left;

static void member_of_another_namespace(void *arg)
{
	const enum end_of how = (uintptr_t)arg;
	struct urxe_segment *seg;
	int fd;

	CHECK(!unshare(CLONE_NEWNET));
	seg = join();
	left->inode = urxe_netns_inode();
	snprintf(left->path, sizeof(left->path), "%s", urxe_segment_path(seg));
	if (how == WITH_FAULTS)
		CHECK(!urxe_segment_fault_set(seg, 0, "drop=1%"));
	if (how == STILL_MOUNTED)
		host_test_sh("touch %s/net && mount --bind /proc/%d/ns/net %s/net", host_test_dir,
			     getpid(), host_test_dir);
	if (how == GONE_BY_DEATH) {
		CHECK(urxe_window_create(seg, URXE_WINDOW_RINGS, 4096) >= 0);
		host_test_add(&shared->reported);
		pause();
	}
	urxe_segment_leave(seg);
	fd = open(left->path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	host_test_add(&shared->reported);
	if (how == STILL_THERE)
		CHECK_SOON(host_test_load(&shared->go));
}

static bool exists(const char *path)
{
	struct stat st;

	return !lstat(path, &st);
}

static unsigned files_of(const char *path)
{
	glob_t found;
	char pattern[192];
	unsigned n;

	snprintf(pattern, sizeof(pattern), "%s*", path);
	n = glob(pattern, 0, NULL, &found) ? 0 : found.gl_pathc;
	if (n)
		globfree(&found);
	return n;
}

/* A segment is left as that says; then this process makes its own. Is the other one still there? */
static bool is_kept(enum end_of how)
{
	struct urxe_segment *seg;
	bool kept;
	pid_t pid;
	int fd = -1;

	memset(shared, 0, offsetof(struct shared, key_seen));
	unlink(segment_path());
	pid = host_test_fork(member_of_another_namespace, (void *)(uintptr_t)how);
	CHECK_SOON(host_test_load(&shared->reported) == 1);
	if (how == GONE_BY_DEATH)
		kill(pid, SIGKILL);
	if (how != STILL_THERE)
		host_test_wait(pid);
	if (how == IN_USE || how == LOCKED) {
		fd = open(left->path, O_RDWR | O_CLOEXEC);
		assert_int_equal(
			segment_file_lock(fd, how == IN_USE ? URXE_SLOT_LAST : SEGMENT_LOCK_BYTE,
					  true),
			0);
	}
	if (how == A_LINK) {
		char other[192];

		snprintf(other, sizeof(other), "%s.other", left->path);
		assert_int_equal(rename(left->path, other), 0);
		assert_int_equal(symlink(other, left->path), 0);
	}
	assert_int_equal(urxe_segment_join(&seg), 0);
	kept = exists(left->path);
	if (!kept)
		assert_int_equal(files_of(left->path), 0);
	urxe_segment_leave(seg);
	if (fd >= 0)
		close(fd);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	if (how == STILL_THERE)
		assert_int_equal(host_test_wait(pid), 0);
	host_test_sh("if [ -e %s/net ]; then umount %s/net && rm %s/net; fi", host_test_dir,
		     host_test_dir, host_test_dir);
	host_test_sh("rm -f '%s'*", left->path);
	return kept;
}

enum { MADE_ANEW = 300 };

/* Sees none of the processes outside its pid namespace: each namespace seems to be gone. */
static int make_anew(void)
{
	for (int i = 0; i < MADE_ANEW; i++) {
		struct urxe_segment *seg = join();

		unlink(urxe_segment_path(seg));
		urxe_segment_leave(seg);
	}
	return 0;
}

/* Comes and goes meanwhile. While it is there its file is the one that others find. */
static void come_and_go(void *arg)
{
	unsigned removed = 0;

	CHECK(!unshare(CLONE_NEWNET));
	while (!host_test_load(&shared->go)) {
		struct urxe_segment *seg = join();

		removed += !seg->map->header.left;
		for (int i = 0; i < 20; i++)
			CHECK(segment_file_is_current(seg));
		urxe_segment_leave(seg);
	}
	/* Or the test has shown nothing. */
	CHECK(removed > 1);
}

static void beside_two_that_do_not_see_it(void)
{
	char command[512];
	pid_t pid;

	if (system("unshare -nmpf --mount-proc true 2>/dev/null"))
		return;
	memset(shared, 0, offsetof(struct shared, key_seen));
	unlink(segment_path());
	pid = host_test_fork(come_and_go, NULL);
	snprintf(command, sizeof(command),
		 "export HOST_TEST_GONE=anew; unshare -nmpf --mount-proc %s & "
		 "unshare -nmpf --mount-proc %s && wait $!",
		 program, program);
	CHECK(!system(command));
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	CHECK(!host_test_wait(pid));
}

/* In namespaces of its own. */
static int with_namespaces(void)
{
	left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(left != MAP_FAILED);
	CHECK(!is_kept(GONE));
	CHECK(!is_kept(GONE_BY_DEATH));
	for (enum end_of how = STILL_THERE; how <= A_LINK; how++)
		if (!is_kept(how)) {
			fprintf(stderr, "# case %d: not kept\n", how);
			return 1;
		}
	beside_two_that_do_not_see_it();
	return 0;
}

static void test_namespaces_that_are_gone(void **state)
{
	char command[512];

	if (system("unshare -Urmn true 2>/dev/null"))
		skip();
	snprintf(command, sizeof(command), "HOST_TEST_GONE=1 unshare -Urm %s", program);
	assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_membership),
		cmocka_unit_test(test_64_at_once),
		cmocka_unit_test(test_a_fabric_has_a_thousand_slots),
		cmocka_unit_test(test_a_user_has_the_uid_that_the_namespace_was_made_with),
		cmocka_unit_test(test_a_namespace_in_another_one_keeps_the_uid_of_names),
		cmocka_unit_test(test_killed_one_is_reaped),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_child_outlives),
		cmocka_unit_test(test_closed_descriptors),
		cmocka_unit_test(test_keys_unique),
		cmocka_unit_test(test_keys_again),
		cmocka_unit_test(test_keys_exhausted),
		cmocka_unit_test(test_qpns),
		cmocka_unit_test(test_group_order),
		cmocka_unit_test(test_group_generation),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_retired_once),
		cmocka_unit_test(test_fault),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_planted),
		cmocka_unit_test(test_other_owner),
		cmocka_unit_test(test_all_slots_taken),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_namespaces_that_are_gone),
	};

	program = argv[0];
	if (getenv("HOST_TEST_FULL")) {
		int ret = setup(NULL) || with_full_disk();

		return teardown(NULL) || ret;
	}
	if (getenv("HOST_TEST_GONE") && !strcmp(getenv("HOST_TEST_GONE"), "anew"))
		return make_anew();
	if (getenv("HOST_TEST_GONE")) {
		int ret = setup(NULL) || with_namespaces();

		return teardown(NULL) || ret;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}

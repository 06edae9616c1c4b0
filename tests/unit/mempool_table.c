/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The registration table: verdicts against the standard, boundaries, a million random changes
 * against a simple model, readers beside writers, two mappings of one table, writers that are
 * killed. The threads of a test share nothing but the table, atomics, and the writers' lock.
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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mempool/table.h"

#define LW RMEMPOOL_LOCAL_WRITE
#define RW RMEMPOOL_REMOTE_WRITE
#define RR RMEMPOOL_REMOTE_READ
#define RA RMEMPOOL_REMOTE_ATOMIC

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * 0x2545f4914f6cdd1dull;
}

static struct mempool_row region(uint32_t key, uint64_t iova, uint64_t length)
{
	return (struct mempool_row){
		.iova = iova,
		.length = length,
		.va = 0x10000,
		.key = key,
		.pd = 7,
		.access = LW | RW | RR | RA,
		.kind = MEMPOOL_REGION,
	};
}

/* Rows of the verdict test. */
static const struct mempool_row verdict_rows[] = {
	{0x1000, 0x100, 0x7000, 0x101, 1, LW | RW | RR, 0, 0, MEMPOOL_REGION},
	{0x1000, 0x100, 0x7000, 0x202, 1, 0, 0, 0, MEMPOOL_REGION},
	{0, 0x100, 0x9000, 0x303, 1, RR, 0, 0, MEMPOOL_REGION}, /* zero-based */
	{0x1000, 0, 0x7000, 0x404, 1, LW | RW | RR | RA, 0, 0, MEMPOOL_REGION},
	{0x1010, 0x20, 0x7010, 0x505, 1, RW, 0, 0x101, MEMPOOL_WINDOW_1},
	{0x1010, 0x20, 0x7010, 0x606, 1, RR | RA, 55, 0x101, MEMPOOL_WINDOW_2},
	{UINT64_MAX - 15, 16, 0x5000, 0x707, 1, RW, 0, 0, MEMPOOL_REGION},
	{0, UINT64_MAX, 0, 0x808, 1, RW, 0, 0, MEMPOOL_REGION}, /* implicit ODP: everything */
	{0x1000, 0x100, 0x7000, 0x909, 1, LW | RW | RR | RA | 1 << 20, 0, 0, MEMPOOL_REGION},
};

struct verdict_case {
	const char *section; /* of IBTA vol. 1 */
	uint32_t key, pd, qpn;
	uint64_t addr, length;
	uint32_t rights;
	bool remote;
	enum rmempool_verdict want;
	uint64_t va;
};

static const struct verdict_case verdicts[] = {
	{"9.4.3 write within the region", 0x101, 1, 9, 0x1000, 0x100, RW, true, RMEMPOOL_OK,
	 0x7000},
	{"9.4.4 read, last byte", 0x101, 1, 9, 0x10ff, 1, RR, true, RMEMPOOL_OK, 0x70ff},
	{"10.6.3.2 local access by L_Key", 0x101, 1, 9, 0x1001, 2, LW, false, RMEMPOOL_OK, 0x7001},
	{"10.6.3.2 local read needs no right", 0x202, 1, 9, 0x1000, 0x100, 0, false, RMEMPOOL_OK,
	 0x7000},
	{"10.6.3.2 local write without it", 0x202, 1, 9, 0x1000, 1, LW, false, RMEMPOOL_NO_RIGHTS,
	 0},
	{"9.7.4.1.5 no such key", 0xa01, 1, 9, 0x1000, 1, RW, true, RMEMPOOL_NO_KEY, 0},
	{"9.7.4.1.5 key 0", 0, 1, 9, 0x1000, 1, RW, true, RMEMPOOL_NO_KEY, 0},
	{"10.6.3.3 consumer's byte differs", 0x102, 1, 9, 0x1000, 1, RW, true, RMEMPOOL_NO_KEY, 0},
	{"10.2.3 another protection domain", 0x101, 2, 9, 0x1000, 1, RW, true, RMEMPOOL_WRONG_PD,
	 0},
	{"9.7.4.1.5 below", 0x101, 1, 9, 0xfff, 1, RW, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"9.7.4.1.5 from below", 0x101, 1, 9, 0xfff, 2, RW, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"9.7.4.1.5 above", 0x101, 1, 9, 0x1100, 1, RW, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"9.7.4.1.5 over the end", 0x101, 1, 9, 0x10ff, 2, RW, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"9.7.4.1.5 longer than the region", 0x101, 1, 9, 0x1000, 0x101, RW, true,
	 RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"9.7.4.1.5 sum wraps", 0x101, 1, 9, 0x1010, UINT64_MAX, RW, true, RMEMPOOL_OUT_OF_BOUNDS,
	 0},
	{"9.7.4.1.5 sum wraps to the start", 0x101, 1, 9, 0x1010, 0ull - 0x10, RW, true,
	 RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"9.7.4.1.5 atomic without the right", 0x101, 1, 9, 0x1000, 8, RA, true, RMEMPOOL_NO_RIGHTS,
	 0},
	{"9.7.4.1.5 one of two rights", 0x101, 1, 9, 0x1000, 8, RA | RR, true, RMEMPOOL_NO_RIGHTS,
	 0},
	{"9.7.4.1.5 other flags open nothing", 0x909, 1, 9, 0x1000, 8, RA | RR, true, RMEMPOOL_OK,
	 0x7000},
	{"9.7.4.1.5 bounds before rights", 0x202, 1, 9, 0x1100, 1, RW, true, RMEMPOOL_OUT_OF_BOUNDS,
	 0},
	{"9.4.3 no memory, no check", 0xdead, 99, 9, UINT64_MAX, 0, RW | RA, true, RMEMPOOL_OK, 0},
	{"9.4.3 no memory, local", 0x505, 1, 9, 5, 0, LW, false, RMEMPOOL_OK, 0},
	{"10.6.3 zero-based", 0x303, 1, 9, 0, 0x100, RR, true, RMEMPOOL_OK, 0x9000},
	{"10.6.3 zero-based, end", 0x303, 1, 9, 0xff, 1, RR, true, RMEMPOOL_OK, 0x90ff},
	{"10.6.3 zero-based, by its address", 0x303, 1, 9, 0x9000, 1, RR, true,
	 RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"10.6.3 zero-based, before", 0x303, 1, 9, UINT64_MAX, 1, RR, true, RMEMPOOL_OUT_OF_BOUNDS,
	 0},
	{"10.6.3 empty region", 0x404, 1, 9, 0x1000, 1, RR, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"10.6.7.2.1 type 1, any QP", 0x505, 1, 9, 0x1010, 0x20, RW, true, RMEMPOOL_OK, 0x7010},
	{"10.6.7.2.1 type 1, another QP", 0x505, 1, 10, 0x102f, 1, RW, true, RMEMPOOL_OK, 0x702f},
	{"10.6.7.2.1 type 1, another PD", 0x505, 2, 9, 0x1010, 1, RW, true, RMEMPOOL_WRONG_PD, 0},
	{"10.6.7.2 window is no L_Key", 0x505, 1, 9, 0x1010, 1, 0, false, RMEMPOOL_NO_KEY, 0},
	{"10.6.7.2 window narrower than region", 0x505, 1, 9, 0x1000, 1, RW, true,
	 RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"10.6.7.2 window's own rights", 0x505, 1, 9, 0x1010, 1, RR, true, RMEMPOOL_NO_RIGHTS, 0},
	{"10.6.7.2.2 type 2B, its QP", 0x606, 1, 55, 0x1018, 8, RA, true, RMEMPOOL_OK, 0x7018},
	{"10.6.7.2.2 type 2B, another QP", 0x606, 1, 56, 0x1018, 8, RA, true, RMEMPOOL_WRONG_PD, 0},
	{"10.6.7.2.2 type 2B, its QP, other PD", 0x606, 2, 55, 0x1018, 8, RA, true,
	 RMEMPOOL_WRONG_PD, 0},
	{"10.6.7.2.2 type 2B is no L_Key", 0x606, 1, 55, 0x1018, 8, 0, false, RMEMPOOL_NO_KEY, 0},
	{"up to 2^64", 0x707, 1, 9, UINT64_MAX - 15, 16, RW, true, RMEMPOOL_OK, 0x5000},
	{"the last byte of all", 0x707, 1, 9, UINT64_MAX, 1, RW, true, RMEMPOOL_OK, 0x500f},
	{"over 2^64", 0x707, 1, 9, UINT64_MAX, 2, RW, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"wrapped to 0", 0x707, 1, 9, 0, 1, RW, true, RMEMPOOL_OUT_OF_BOUNDS, 0},
	{"whole address space", 0x808, 1, 9, 0x123456789abc, 77, RW, true, RMEMPOOL_OK,
	 0x123456789abc},
	{"whole address space, its end", 0x808, 1, 9, 0, UINT64_MAX, RW, true, RMEMPOOL_OK, 0},
	{"whole address space, over it", 0x808, 1, 9, 1, UINT64_MAX, RW, true,
	 RMEMPOOL_OUT_OF_BOUNDS, 0},
};

static void test_verdicts(void **state)
{
	const unsigned rows = sizeof(verdict_rows) / sizeof(*verdict_rows);
	const unsigned cases = sizeof(verdicts) / sizeof(*verdicts);
	struct mempool_table *t;
	unsigned i;

	assert_int_equal(mempool_table_create(100, &t), 0);
	for (i = 0; i < rows; i++)
		assert_int_equal(mempool_table_add(t, &verdict_rows[i]), 0);
	assert_int_equal(mempool_table_count(t), rows);
	for (i = 0; i < cases; i++) {
		const struct verdict_case *c = &verdicts[i];
		uint64_t va = 0x5a5a;
		enum rmempool_verdict got;

		got = mempool_table_match(t, c->key, c->pd, c->qpn, c->addr, c->length, c->rights,
					  c->remote, &va);
		if (got != c->want || (got == RMEMPOOL_OK && va != c->va))
			fail_msg("%s: verdict %d, va %#lx; expected %d, %#lx", c->section, got,
				 (unsigned long)va, c->want, (unsigned long)c->va);
	}
	mempool_table_destroy(t);
}

/* A row says which object its memory lies in, until another row takes its place. */
static void test_objects(void **state)
{
	struct mempool_row row = region(0x100, 0x1000, 64);
	struct mempool_table *t;
	uint32_t object = 1;
	uint64_t va;

	assert_int_equal(mempool_table_create(2, &t), 0);
	row.object = 0x1234;
	assert_int_equal(mempool_table_add(t, &row), 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(mempool_table_match_object(t, 0x100, row.pd, 0, 0x1000, 64, 0,
							    true, &va, &object),
				 RMEMPOOL_OK);
		assert_int_equal(object, row.object);
		row.object++;
		assert_int_equal(mempool_table_replace(t, 0x100, &row), 0);
	}
	assert_int_equal(mempool_table_match_object(t, 0x100, row.pd, 0, 0, 0, 0, true, &va,
						    &object),
			 RMEMPOOL_OK);
	assert_int_equal(object, 0);
	mempool_table_destroy(t);
}

static void test_arguments(void **state)
{
	struct mempool_row row = region(0x100, 0, 1), got;
	struct mempool_table *t;

	assert_int_equal(mempool_table_create(0, &t), -EINVAL);
	assert_int_equal(mempool_table_create((1 << 22) + 1, &t), -EINVAL);
	assert_int_equal(mempool_table_bytes(0), 0);
	assert_int_equal(mempool_table_create(2, &t), 0);

	row.kind = 0;
	assert_int_equal(mempool_table_add(t, &row), -EINVAL);
	row.kind = MEMPOOL_WINDOW_2 + 1;
	assert_int_equal(mempool_table_add(t, &row), -EINVAL);
	row = region(0x100, 2, UINT64_MAX);
	assert_int_equal(mempool_table_add(t, &row), -EINVAL);
	row = region(0x100, 0, 2);
	row.va = UINT64_MAX;
	assert_int_equal(mempool_table_add(t, &row), -EINVAL);
	row = region(0x100, 0, 1);
	row.access = 1u << 28;
	assert_int_equal(mempool_table_add(t, &row), -EINVAL);
	assert_int_equal(mempool_table_count(t), 0);

	row = region(0x100, 1, UINT64_MAX);
	row.va = 0;
	assert_int_equal(mempool_table_add(t, &row), 0);
	row = region(0x177, 0, 1);
	assert_int_equal(mempool_table_add(t, &row), -EEXIST); /* the same index */
	row = region(0x200, 0, 1);
	assert_int_equal(mempool_table_add(t, &row), 0);
	row = region(0x300, 0, 1);
	assert_int_equal(mempool_table_add(t, &row), -ENOSPC);
	assert_int_equal(mempool_table_count(t), 2);

	assert_int_equal(mempool_table_get(t, 0x177, &got), -ENOENT);
	assert_int_equal(mempool_table_remove(t, 0x177), -ENOENT);
	assert_int_equal(mempool_table_replace(t, 0x177, &row), -ENOENT);
	assert_int_equal(mempool_table_remove(t, 0x100), 0);
	assert_int_equal(mempool_table_remove(t, 0x100), -ENOENT);
	assert_int_equal(mempool_table_get(t, 0x100, &got), -ENOENT);
	assert_int_equal(mempool_table_add(t, &row), 0);
	assert_int_equal(mempool_table_get(t, 0x300, &got), 0);
	assert_memory_equal(&got, &row, sizeof(row));
	mempool_table_destroy(t);
}

static void test_replace(void **state)
{
	struct mempool_row row = region(0x100, 0x1000, 16), other = region(0x200, 0, 4), got;
	struct mempool_table *t;
	unsigned i;

	assert_int_equal(mempool_table_create(3, &t), 0);
	assert_int_equal(mempool_table_add(t, &row), 0);
	assert_int_equal(mempool_table_add(t, &other), 0);
	/* A type 2 window is bound again with another low byte, a thousand times. */
	for (i = 1; i < 1000; i++) {
		uint32_t old = row.key;

		row.key = 0x100 | (i & 0xff);
		row.length = i;
		row.kind = MEMPOOL_WINDOW_2;
		assert_int_equal(mempool_table_replace(t, old, &row), 0);
		assert_int_equal(mempool_table_get(t, row.key, &got), 0);
		assert_memory_equal(&got, &row, sizeof(row));
		if (old != row.key)
			assert_int_equal(mempool_table_get(t, old, &got), -ENOENT);
	}
	/* A whole other key, often enough to use up every entry of the index. */
	for (i = 0x1000; i < 0x4000; i++) {
		uint32_t old = row.key;

		row.key = i << 8;
		assert_int_equal(mempool_table_replace(t, old, &row), 0);
		assert_int_equal(mempool_table_get(t, row.key, &got), 0);
		assert_memory_equal(&got, &row, sizeof(row));
		assert_int_equal(mempool_table_get(t, old, &got), -ENOENT);
	}
	row.key = 0x2ff; /* the other row's index */
	assert_int_equal(mempool_table_replace(t, (i - 1) << 8, &row), -EEXIST);
	assert_int_equal(mempool_table_count(t), 2);
	row.kind = 0;
	assert_int_equal(mempool_table_replace(t, 0x200, &row), -EINVAL);
	assert_int_equal(mempool_table_get(t, 0x200, &got), 0);
	assert_memory_equal(&got, &other, sizeof(other));
	mempool_table_destroy(t);
}

/* The thread sanitizer makes everything some ten times slower, and needs no crowd to see a race. */
#ifdef __SANITIZE_THREAD__
#define SLOWER 10
#else
#define SLOWER 1
#endif

/* The model: for each of 2^17 indices, the row or nothing. */
#define MODEL (1u << 17)
#define STEPS (2000000 / SLOWER)

static void model_check(struct mempool_table *t, const struct mempool_row *model, uint32_t i)
{
	struct mempool_row got;
	int want = model[i].kind ? 0 : -ENOENT;
	/* A removed key is asked for with some low byte. */
	uint32_t key = model[i].kind ? model[i].key : (i * 37 << 8 | 5);

	if (mempool_table_get(t, key, &got) != want)
		fail_msg("key %#x: expected %d", key, want);
	if (!want)
		assert_memory_equal(&got, &model[i], sizeof(got));
}

static void test_model(void **state)
{
	struct mempool_row *model = calloc(MODEL, sizeof(*model));
	unsigned step, count = 0, i, j;
	struct mempool_table *t;
	uint64_t seed = 42;

	assert_non_null(model);
	assert_int_equal(mempool_table_create(MODEL, &t), 0);
	for (step = 0; step < STEPS; step++) {
		uint64_t x = next_random(&seed);
		/* The crowd grows and shrinks: most adds first, most removes later. */
		bool grow = x % 100 < (step / (STEPS / 5) % 2 ? 40u : 60u);
		struct mempool_row row;

		i = (x >> 32) % MODEL;
		/* Indices 37 apart: neighbours in the model are not neighbours in the table. */
		row = region(i * 37 << 8 | (x >> 24 & 0xff), x >> 20, x >> 30);
		row.kind = MEMPOOL_REGION + x % 3;
		if (grow) {
			int err = mempool_table_add(t, &row);

			assert_int_equal(err, model[i].kind ? -EEXIST : 0);
			if (!err) {
				model[i] = row;
				count++;
			}
		} else {
			uint32_t key = model[i].kind ? model[i].key : row.key;

			assert_int_equal(mempool_table_remove(t, key), model[i].kind ? 0 : -ENOENT);
			count -= model[i].kind ? 1 : 0;
			memset(&model[i], 0, sizeof(*model));
		}
		model_check(t, model, next_random(&seed) % MODEL);
		if (step % (STEPS / 4) == STEPS / 4 - 1)
			for (j = 0; j < MODEL; j++)
				model_check(t, model, j);
		assert_int_equal(mempool_table_count(t), count);
	}
	mempool_table_destroy(t);
	free(model);
}

static void test_million(void **state)
{
	const unsigned n = 1000000 / SLOWER;
	uint64_t seed = 3;
	struct mempool_table *t;
	struct mempool_row row, got;
	uint32_t *keys = malloc(n * sizeof(*keys)), i;
	unsigned left = n;

	assert_non_null(keys);
	assert_int_equal(mempool_table_create(n, &t), 0);
	for (i = 0; i < n; i++) {
		do {
			row = region(next_random(&seed) >> 32, i, i);
		} while (mempool_table_add(t, &row) == -EEXIST);
		keys[i] = row.key;
	}
	assert_int_equal(mempool_table_count(t), n);
	row = region(0x100, 0, 0);
	for (i = 0; i < n; i++) {
		assert_int_equal(mempool_table_get(t, keys[i], &got), 0);
		assert_true(got.key == keys[i] && got.iova == i && got.length == i);
	}
	while (left) { /* in random order */
		i = next_random(&seed) % left;
		assert_int_equal(mempool_table_remove(t, keys[i]), 0);
		assert_int_equal(mempool_table_get(t, keys[i], &got), -ENOENT);
		keys[i] = keys[--left];
	}
	assert_int_equal(mempool_table_count(t), 0);
	mempool_table_destroy(t);
	free(keys);
}

/*
 * A row whose fields follow from key and generation, so that a mixture of two shows. Every other
 * one lies where requests say.
 */
static struct mempool_row tagged(uint32_t key, uint32_t generation)
{
	struct mempool_row row = {
		.iova = (uint64_t)generation << 20,
		.length = generation % 1000 + 1,
		.va = generation & 1 ? (uint64_t)generation * 3 : (uint64_t)generation << 20,
		.key = key,
		.pd = generation,
		.access = generation & 0x1f,
		.qpn = ~generation,
		.parent = generation ^ key,
		.kind = MEMPOOL_REGION + generation % 3,
	};

	return row;
}

static void check_tagged(const struct mempool_row *got, uint32_t key)
{
	struct mempool_row want = tagged(key, got->pd);

	assert_memory_equal(got, &want, sizeof(want));
}

struct race {
	struct mempool_table *table;
	pthread_mutex_t lock; /* of the writers */
	atomic_bool stop;
	atomic_uint running; /* writers */
	atomic_uint started; /* replacements, by the one writer of test_wander */
	atomic_ulong torn, lost, reads;
};

#define STABLE 64 /* rows 1 … are always there; the low byte of a key is 0 */
#define CHURN  4096

/* Stable rows are replaced but never missing; a read of one is whole and never goes back in time.
 * */
static void *race_reader(void *arg)
{
	struct race *race = arg;
	uint32_t newest[STABLE] = {0};
	uint64_t seed = (uintptr_t)&newest | 1, va;
	enum rmempool_verdict verdict;
	struct mempool_row got, want;

	while (!atomic_load(&race->stop)) {
		uint32_t i = next_random(&seed) % STABLE, key = (i + 1) << 8;

		atomic_fetch_add_explicit(&race->reads, 1, memory_order_relaxed);
		if (mempool_table_get(race->table, key, &got)) {
			atomic_fetch_add(&race->lost, 1);
			continue;
		}
		want = tagged(key, got.pd);
		if (memcmp(&want, &got, sizeof(got)) || got.pd < newest[i])
			atomic_fetch_add(&race->torn, 1);
		newest[i] = got.pd;
		/* It is still that one, or another with another PD. */
		verdict = mempool_table_match(race->table, key, got.pd, got.qpn, got.iova,
					      got.length, got.access, true, &va);
		if (verdict == RMEMPOOL_OK ? va != got.va : verdict != RMEMPOOL_WRONG_PD)
			atomic_fetch_add(&race->torn, 1);
		/* A key that may be there or not: if it matches, then by one whole row. */
		key = (1000 + next_random(&seed) % CHURN) << 8;
		if (mempool_table_match(race->table, key, key >> 8, 0, 0x100000, 8, 0, true, &va) ==
			    RMEMPOOL_OK &&
		    va != (uint64_t)key * 5)
			atomic_fetch_add(&race->torn, 1);
	}
	return NULL;
}

#define READS 100 /* more than so many while rows change */

/* Replaces its half of the stable rows and lets others come and go, through many rebuilds, and
 * until readers have had the processor. */
static void *race_writer(void *arg)
{
	struct race *race = arg;
	uint32_t half = atomic_fetch_add(&race->running, 1), g;
	uint64_t seed = half + 17;

	for (g = 1; g < 30000 || atomic_load(&race->reads) <= READS; g++) {
		uint32_t i = g % (STABLE / 2) + half * (STABLE / 2), key = (i + 1) << 8;
		struct mempool_row row = tagged(key, g);

		pthread_mutex_lock(&race->lock);
		assert_int_equal(mempool_table_replace(race->table, key, &row), 0);
		key = (1000 + next_random(&seed) % CHURN) << 8;
		row = region(key, 0x100000, 8);
		row.pd = key >> 8;
		row.va = (uint64_t)key * 5;
		if (mempool_table_add(race->table, &row) == -EEXIST)
			mempool_table_remove(race->table, key);
		pthread_mutex_unlock(&race->lock);
	}
	return NULL;
}

static void test_readers(void **state)
{
	struct race race = {.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t readers[2], writers[2];
	unsigned i;

	assert_int_equal(mempool_table_create(8192, &race.table), 0);
	for (i = 0; i < STABLE; i++) {
		struct mempool_row row = tagged((i + 1) << 8, 0);

		assert_int_equal(mempool_table_add(race.table, &row), 0);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, race_reader, &race), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, race_writer, &race), 0);
	for (i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	atomic_store(&race.stop, true);
	for (i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	assert_int_equal(atomic_load(&race.lost), 0);
	assert_int_equal(atomic_load(&race.torn), 0);
	assert_true(atomic_load(&race.reads) > READS);
	mempool_table_destroy(race.table);
}

/* A row that wanders from key to key is at every moment under exactly one of them. */
static void *wander_writer(void *arg)
{
	struct race *race = arg;
	uint32_t g;

	for (g = 1; g < 500000; g++) {
		struct mempool_row row = tagged(((g & 1) + 1) << 8, g);

		atomic_store(&race->started, g);
		assert_int_equal(mempool_table_replace(race->table, (2 - (g & 1)) << 8, &row), 0);
	}
	atomic_store(&race->stop, true);
	return NULL;
}

static void test_wander(void **state)
{
	struct mempool_row row = tagged(0x100, 0), got;
	struct race race = {0};
	uint32_t newest = 0;
	pthread_t writer;

	assert_int_equal(mempool_table_create(1, &race.table), 0);
	assert_int_equal(mempool_table_add(race.table, &row), 0);
	assert_int_equal(pthread_create(&writer, NULL, wander_writer, &race), 0);
	while (!atomic_load(&race.stop)) {
		uint32_t g = atomic_load(&race.started), key = ((g & 1) + 1) << 8;

		/* Where it was before replacement g, then where it went with that. */
		if (mempool_table_get(race.table, key ^ 0x300, &got) &&
		    mempool_table_get(race.table, key, &got)) {
			assert_int_not_equal(atomic_load(&race.started), g);
			continue;
		}
		check_tagged(&got, got.key);
		assert_true(got.pd >= newest);
		newest = got.pd;
	}
	pthread_join(writer, NULL);
	assert_int_equal(mempool_table_count(race.table), 1);
	mempool_table_destroy(race.table);
}

static void *map_shared(int fd, size_t bytes, int prot)
{
	void *p = mmap(NULL, bytes, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static int shared_table(unsigned rows, size_t *bytes)
{
	int fd = memfd_create("table", MFD_CLOEXEC);

	*bytes = mempool_table_bytes(rows);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, *bytes), 0);
	return fd;
}

static void test_two_mappings(void **state)
{
	struct mempool_row row = region(0x1234500, 0x1000, 8), got;
	struct mempool_table *t;
	size_t bytes;
	int fd = shared_table(1000, &bytes);
	void *a = map_shared(fd, bytes, PROT_READ | PROT_WRITE);
	const void *b = map_shared(fd, bytes, PROT_READ);
	unsigned i;

	assert_int_equal(mempool_table_init(a, 1000, &t), 0);
	for (i = 0; i < 1000; i++) {
		row.key += 0x100;
		assert_int_equal(mempool_table_add(t, &row), 0);
		assert_int_equal(mempool_table_get(b, row.key, &got), 0);
		assert_memory_equal(&got, &row, sizeof(row));
	}
	assert_int_equal(mempool_table_count(b), 1000);
	assert_int_equal(mempool_table_remove(t, row.key), 0);
	assert_int_equal(mempool_table_get(b, row.key, &got), -ENOENT);
	munmap(a, bytes);
	munmap((void *)b, bytes);
	close(fd);
}

/* Changes the table until it is killed. */
static void __attribute__((noreturn)) doomed(struct mempool_table *t, uint64_t seed)
{
	for (;;) {
		uint32_t key = (next_random(&seed) % 600 + 1) << 8, g = next_random(&seed) >> 40;
		struct mempool_row row = tagged(key, g);

		if (mempool_table_add(t, &row) == -EEXIST && g % 4 == 0)
			mempool_table_remove(t, key);
		key = (next_random(&seed) % 600 + 1) << 8;
		mempool_table_replace(t, row.key, &row);
		row = tagged(key, g);
		mempool_table_replace(t, (next_random(&seed) % 600 + 1) << 8, &row);
	}
}

/* Whatever its owner was doing when it died, a table can be read, and what is in it is whole. */
static void test_killed_writer(void **state)
{
	struct mempool_table *t;
	struct mempool_row got;
	unsigned round, key, found, most = 0;
	uint64_t seed = 11;
	size_t bytes;
	int fd = shared_table(500, &bytes);
	void *memory = map_shared(fd, bytes, PROT_READ | PROT_WRITE);
	pid_t pid;

	for (round = 0; round < (SLOWER > 1 ? 16 : 100); round++) {
		assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, bytes), 0);
		assert_int_equal(mempool_table_init(memory, 500, &t), 0);
		pid = fork();
		if (!pid)
			doomed(t, round + 1);
		assert_true(pid > 0);
		while (!round && mempool_table_count(t) < 200)
			usleep(100); /* once it surely has done something */
		usleep(next_random(&seed) % (4000 * SLOWER));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		for (key = 1, found = 0; key <= 600; key++) {
			if (mempool_table_get(t, key << 8, &got))
				continue;
			check_tagged(&got, key << 8);
			found++;
		}
		/* It may have died between a row and its being counted. */
		assert_in_range(mempool_table_count(t) - found + 1, 0, 2);
		if (found > most)
			most = found;
	}
	assert_true(most > 100);
	munmap(memory, bytes);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),      cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_replace),	      cmocka_unit_test(test_model),
		cmocka_unit_test(test_million),	      cmocka_unit_test(test_readers),
		cmocka_unit_test(test_wander),	      cmocka_unit_test(test_two_mappings),
		cmocka_unit_test(test_killed_writer), cmocka_unit_test(test_objects),
	};

	return cmocka_run_group_tests_name("mempool_table", tests, NULL, NULL);
}

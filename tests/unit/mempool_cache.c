/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The VA→PA table, translation (S6), and the cache unit: against the tables themselves, while
 * registrations and blocks come and go, and beside page-wise tables.
 */
#include "mempool_test.h"

#include <fcntl.h>

#include "mempool/image.h"
#include "mempool/match.h"
#include "mempool/pool.h"
#include "mempool/row.h"

#define BASE   0x7f0000000000ull
#define BLOCK  (2 * MIB)
#define BLOCKS 256u

static struct mempool_vapa *make_vapa(uint32_t blocks, uint32_t runs)
{
	struct mempool_vapa *t = aligned_alloc(64, (mempool_vapa_bytes(blocks, runs) + 63) & ~63ul);

	assert_non_null(t);
	memset(t, 0, sizeof(*t));
	mempool_vapa_init(t, BASE, 21, blocks, runs);
	return t;
}

/* Runs go on when both addresses do; an unknown place goes on with an unknown place. */
static void test_merging(void **state)
{
	struct mempool_pa_run runs[8];
	uint32_t n = 0;

	n = mempool_pa_append(runs, n, (struct mempool_pa_run){BASE, 0x40000000, BLOCK});
	n = mempool_pa_append(runs, n, (struct mempool_pa_run){BASE + BLOCK, 0x40200000, BLOCK});
	assert_int_equal(n, 1);
	assert_int_equal(runs[0].length, 2 * BLOCK);
	n = mempool_pa_append(runs, n,
			      (struct mempool_pa_run){BASE + 2 * BLOCK, 0x90000000, BLOCK});
	assert_int_equal(n, 2);
	n = mempool_pa_append(runs, n,
			      (struct mempool_pa_run){BASE + 3 * BLOCK, MEMPOOL_PA_UNKNOWN, BLOCK});
	n = mempool_pa_append(runs, n,
			      (struct mempool_pa_run){BASE + 4 * BLOCK, MEMPOOL_PA_UNKNOWN, BLOCK});
	assert_int_equal(n, 3);
	assert_int_equal(runs[2].length, 2 * BLOCK);
	n = mempool_pa_append(runs, n,
			      (struct mempool_pa_run){BASE + 5 * BLOCK, 0x90200000, BLOCK});
	n = mempool_pa_append(runs, n,
			      (struct mempool_pa_run){BASE + 7 * BLOCK, 0x90400000, BLOCK});
	assert_int_equal(n, 5);
}

/* Every address of tables with holes and runs of any length, against the list itself. */
static void test_find(void **state)
{
	struct mempool_vapa *t = make_vapa(BLOCKS, BLOCKS * 4);
	struct mempool_pa_run runs[BLOCKS * 4], got;
	uint64_t seed = 5;

	for (unsigned round = 0; round < 200; round++) {
		uint32_t n = 0;
		uint64_t va = BASE;

		while (va < BASE + BLOCKS * BLOCK && n < ARRAY_LEN(runs)) {
			uint64_t length = (next_random(&seed) % 64 + 1) * (BLOCK / 4);

			if (length > BASE + BLOCKS * BLOCK - va)
				length = BASE + BLOCKS * BLOCK - va;
			if (next_random(&seed) % 3)
				runs[n++] = (struct mempool_pa_run){va, next_random(&seed), length};
			va += length;
		}
		mempool_vapa_set(t, runs, n);
		assert_int_equal(mempool_vapa_count(t), n);
		for (unsigned i = 0; i < 500; i++) {
			uint32_t k = 0;

			va = BASE + next_random(&seed) % (BLOCKS * BLOCK);
			if (i < n)
				va = runs[i].va + (i % 3 - 1); /* edges */
			while (k < n && runs[k].va + runs[k].length <= va)
				k++;
			if (k == n) {
				assert_false(mempool_vapa_find(t, va, &got));
				assert_int_equal(got.va, UINT64_MAX);
			} else {
				assert_int_equal(mempool_vapa_find(t, va, &got), runs[k].va <= va);
				assert_memory_equal(&got, &runs[k], sizeof(got));
			}
		}
	}
	assert_false(mempool_vapa_find(t, 0, &got));
	assert_false(mempool_vapa_find(t, UINT64_MAX, &got));
	free(t);
}

struct mapper {
	struct mempool_vapa *t;
	_Atomic bool stop;
};

/* All is at PA = VA + n, with another n and other pieces each time; or unmapped. */
static void *mapper_thread(void *arg)
{
	struct mapper *m = arg;
	struct mempool_pa_run runs[BLOCKS];
	uint64_t n = 0;

	while (!m->stop) {
		uint64_t step = BLOCK << n % 4;
		uint32_t count = 0;

		for (uint64_t at = 0; at < BLOCKS * BLOCK; at += step)
			runs[count++] =
				(struct mempool_pa_run){BASE + at, BASE + at + n * BLOCK, step};
		mempool_vapa_set(m->t, runs, n % 5 ? count : 0);
		n++;
	}
	return NULL;
}

/* Who reads while it changes gets one state or another and nothing in between. */
static void test_readers(void **state)
{
	struct mapper m = {.t = make_vapa(BLOCKS, BLOCKS)};
	uint64_t seed = 77, last = 0;
	struct mempool_pa_run run;
	pthread_t thread;

	pthread_create(&thread, NULL, mapper_thread, &m);
	for (unsigned i = 0; i < 100000; i++) {
		uint64_t va = BASE + next_random(&seed) % (BLOCKS * BLOCK), n;

		if (!mempool_vapa_find(m.t, va, &run))
			continue;
		n = (run.pa - run.va) / BLOCK;
		assert_int_equal((run.pa - run.va) % BLOCK, 0);
		assert_true(n >= last);
		assert_int_equal(run.length, BLOCK << n % 4);
		assert_true(va - run.va < run.length);
		last = n;
	}
	m.stop = true;
	pthread_join(thread, NULL);
	free(m.t);
}

/* An image whose blocks are scattered in physical memory, and one region over all of it. */
static void make_image(struct rmempool_image *image, struct mempool_pa_run *runs, uint32_t count,
		       uint64_t page)
{
	struct mempool_row row = {
		.iova = BASE,
		.length = count * page,
		.va = BASE,
		.key = 0x1200,
		.pd = 1,
		.access = RMEMPOOL_LOCAL_WRITE | RMEMPOOL_REMOTE_WRITE,
		.qpn = 3, /* both keys */
		.parent = 0x1200,
		.kind = MEMPOOL_REGION,
	};

	assert_int_equal(mempool_image_create(BASE, 21, count * page / BLOCK, count, 16, image), 0);
	for (uint32_t i = 0; i < count; i++)
		runs[i] = (struct mempool_pa_run){BASE + i * page, (2 * (i ^ 1) + 1) * page, page};
	mempool_vapa_set(image->vapa, runs, count);
	assert_int_equal(mempool_table_add(image->table, &row), 0);
}

static struct rmempool_request access_at(uint64_t offset, uint64_t length)
{
	return (struct rmempool_request){
		.lkey = 0x1200,
		.rkey = 0x1200,
		.domain = 1,
		.rights = RMEMPOOL_REMOTE_WRITE,
		.addr = BASE + offset,
		.length = length,
	};
}

/* S6: a range across entries is the list of its segments, in order; the list may be cut short. */
static void test_segments(void **state)
{
	struct mempool_pa_run runs[16];
	struct rmempool_image image;
	struct rmempool_segment s[8];
	struct rmempool_request q;
	unsigned count;

	make_image(&image, runs, 16, BLOCK);
	q = access_at(BLOCK - 100, 2 * BLOCK + 300);
	assert_int_equal(rmempool_lookup(&image, &q, s, sizeof(*s), 8, &count), RMEMPOOL_OK);
	assert_int_equal(count, 4);
	assert_int_equal(s[0].addr, 3 * BLOCK + BLOCK - 100);
	assert_int_equal(s[0].length, 100);
	assert_int_equal(s[1].addr, 1 * BLOCK);
	assert_int_equal(s[1].length, BLOCK);
	assert_int_equal(s[2].addr, 7 * BLOCK);
	assert_int_equal(s[3].length, 200);
	assert_true(s[0].physical && s[3].physical);
	memset(s, 0, sizeof(s));
	assert_int_equal(rmempool_translate(&image, q.addr, q.length, s, sizeof(*s), 2), 4);
	assert_int_equal(s[1].length, BLOCK);
	assert_int_equal(s[2].length, 0);
	assert_int_equal(rmempool_translate(&image, q.addr, 0, s, sizeof(*s), 2), 0);
	/* Beside the blocks what is known is the virtual address. */
	assert_int_equal(rmempool_translate(&image, BASE - 50, 100, s, sizeof(*s), 8), 2);
	assert_false(s[0].physical);
	assert_int_equal(s[0].addr, BASE - 50);
	assert_int_equal(s[0].length, 50);
	assert_int_equal(rmempool_translate(&image, UINT64_MAX - 9, 10, s, sizeof(*s), 8), 1);
	assert_int_equal(s[0].length, 10);
	mempool_image_destroy(&image);
}

/* Segments as longer and shorter ones of other releases: each is written in its place alone. */
static void test_segments_of_other_releases(void **state)
{
	struct {
		struct rmempool_segment known;
		uint64_t more;
	} longer[4];
	uint64_t shorter[4];
	struct mempool_pa_run runs[16];
	struct rmempool_cache *cache;
	struct rmempool_image image;
	struct rmempool_request q;
	unsigned count;

	make_image(&image, runs, 16, BLOCK);
	assert_int_equal(rmempool_cache_create(&image, 32, &cache), 0);
	for (unsigned way = 0; way < 4; way++) {
		/* One segment, and several. */
		q = way & 1 ? access_at(BLOCK - 100, BLOCK + 200) : access_at(0, 64);
		memset(longer, 0xff, sizeof(longer));
		memset(shorter, 0xff, sizeof(shorter));
		if (way & 2) {
			rmempool_cache_lookup(cache, &q, &longer->known, sizeof(*longer), 3,
					      &count);
			rmempool_cache_lookup(cache, &q, (void *)shorter, sizeof(*shorter), 3,
					      &count);
		} else {
			rmempool_lookup(&image, &q, &longer->known, sizeof(*longer), 3, &count);
			rmempool_lookup(&image, &q, (void *)shorter, sizeof(*shorter), 3, &count);
		}
		assert_int_equal(count, way & 1 ? 3 : 1);
		for (unsigned i = 0; i < count; i++) {
			assert_true(longer[i].known.physical);
			assert_int_equal(longer[i].more, 0);
			assert_int_equal(shorter[i], longer[i].known.addr);
		}
		for (unsigned i = count; i < 4; i++) {
			assert_int_equal(longer[i].more, UINT64_MAX);
			assert_int_equal(shorter[i], UINT64_MAX);
		}
	}
	rmempool_cache_destroy(cache);
	mempool_image_destroy(&image);
}

/* One of a few values that have something in common. */
static uint64_t one_of(uint64_t *seed, const uint64_t *values, unsigned count)
{
	return values[next_random(seed) % count];
}
#define ONE_OF(seed, ...)                       \
	one_of(seed, (uint64_t[]){__VA_ARGS__}, \
	       sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static bool glance(const struct rmempool_image *image, uint32_t flag,
		   const struct rmempool_request *q)
{
	uint32_t n, seq;

	return mempool_glance(image->table, flag, q->rkey, q->domain, q->addr, q->length, q->rights,
			      &n, &seq);
}

/* A region that lies where requests say, of that key and domain, with all of the range and the
 * rights. */
static bool plainly_permits(const struct mempool_row *row, const struct rmempool_request *q)
{
	return row->kind == MEMPOOL_REGION && row->va == row->iova && row->key == q->rkey &&
	       row->pd == q->domain && q->addr >= row->iova && q->addr - row->iova < row->length &&
	       q->length <= row->length - (q->addr - row->iova) && !(q->rights & ~row->access);
}

/*
 * What a glance at a row permits is what judgement of all of it does, unless the row was written
 * over: for rows and requests that fit nearly or quite.
 */
static void test_glance(void **state)
{
	struct rmempool_image image;
	enum rmempool_verdict verdict;
	unsigned permitted = 0;
	uint64_t seed = 99;

	assert_int_equal(mempool_image_create(BASE, 21, 1, 1, 4, &image), 0);
	for (unsigned round = 0; round < 400000; round++) {
		uint32_t key = ONE_OF(&seed, 0, 0x1200, 0x1200, 0x1200);
		struct mempool_row row = {
			.iova = ONE_OF(&seed, BASE, BASE, BASE, 0, UINT64_MAX - 99),
			.length = ONE_OF(&seed, 100, 100, 64, 0, 1ull << 40),
			.va = ONE_OF(&seed, BASE, 0),
			.key = key,
			.pd = ONE_OF(&seed, 1, 1, 1, 2),
			.access = ONE_OF(&seed, 7, 7, 15, 3, 0, (1 << 28) - 1),
			.qpn = ONE_OF(&seed, 3, 3, 3, 1, 2, 0),
			.parent = ONE_OF(&seed, key, key, key, 0x1201),
			.kind = ONE_OF(&seed, 1, 1, 1, 2, 3),
		};
		struct rmempool_request q = {
			.lkey = ONE_OF(&seed, key, key, key, key, 0, 0x1201),
			.rkey = ONE_OF(&seed, key, key, key, key, 0, 0x1201),
			.domain = ONE_OF(&seed, 1, 1, 1, 2),
			.rights = ONE_OF(&seed, 2, 2, 6, 8, 0, 1 << 28, 1 << 29, 1 << 30, 1u << 31),
			.addr = row.iova + ONE_OF(&seed, 0, 0, 99, 100, -1),
			.length = ONE_OF(&seed, 1, 1, 64, 100, 101, UINT64_MAX),
		};
		const struct mempool_row *l = q.lkey == key ? &row : NULL;
		const struct mempool_row *r = q.rkey == key ? &row : NULL;
		bool again = next_random(&seed) % 4 == 0;

		if (row.iova + row.length < row.iova)
			row.length = 100;
		assert_int_equal(mempool_table_add(image.table, &row), 0);
		if (again)
			assert_int_equal(mempool_table_replace(image.table, key, &row), 0);
		verdict = mempool_judge(&q, l, r);
		assert_int_equal(rmempool_match(&image, &q), verdict);
		if (q.lkey == q.rkey) {
			assert_int_equal(glance(&image, MEMPOOL_ONE, &q),
					 verdict == RMEMPOOL_OK && !again);
			permitted += verdict == RMEMPOOL_OK && !again;
		}
		assert_int_equal(glance(&image, MEMPOOL_PLAIN, &q),
				 !again && plainly_permits(&row, &q));
		assert_int_equal(mempool_table_remove(image.table, key), 0);
		assert_false(glance(&image, MEMPOOL_ONE, &q));
		assert_false(glance(&image, MEMPOOL_PLAIN, &q));
	}
	assert_true(permitted > 100);
	mempool_image_destroy(&image);
}

/* 512 MiB in huge pages fit into 256 entries; page by page next to nothing does. */
static void test_hit_rate(void **state)
{
	struct mempool_pa_run *runs = calloc(512 * MIB / 4096, sizeof(*runs));
	const uint64_t pages[] = {2 * MIB, 4096};
	double rates[2];

	for (unsigned i = 0; i < 2; i++) {
		struct rmempool_image image;
		struct rmempool_cache *cache;
		struct rmempool_cache_statistics s, before;
		struct rmempool_segment segment;
		struct rmempool_request q;
		uint64_t seed = 31;
		unsigned n, count;

		make_image(&image, runs, 512 * MIB / pages[i], pages[i]);
		assert_int_equal(rmempool_cache_create(&image, 256, &cache), 0);
		for (n = 0; n < 40000; n++) {
			if (n == 20000)
				rmempool_cache_query(cache, &before, sizeof(before));
			q = access_at(next_random(&seed) % (512 * MIB / 4096) * 4096, 4096);
			assert_int_equal(rmempool_cache_lookup(cache, &q, &segment, sizeof(segment),
							       1, &count),
					 RMEMPOOL_OK);
			assert_int_equal(count, 1);
		}
		rmempool_cache_query(cache, &s, sizeof(s));
		assert_int_equal(s.used, 256);
		assert_int_equal(s.row_hits - before.row_hits, 20000);
		rates[i] = (s.run_hits - before.run_hits) / 20000.0;
		rmempool_cache_destroy(cache);
		mempool_image_destroy(&image);
	}
	free(runs);
	assert_true(rates[0] >= 0.99);
	assert_true(rates[1] < 0.01);
}

/* Whatever changes, the cache says what the tables say. */
static void compare(struct rmempool_cache *cache, const struct rmempool_image *image,
		    const struct rmempool_request *q)
{
	struct rmempool_segment a[8], b[8];
	unsigned na, nb;

	assert_int_equal(rmempool_cache_lookup(cache, q, a, sizeof(*a), 8, &na),
			 rmempool_lookup(image, q, b, sizeof(*b), 8, &nb));
	assert_int_equal(na, nb);
	for (unsigned i = 0; i < na; i++) {
		assert_int_equal(a[i].addr, b[i].addr);
		assert_int_equal(a[i].length, b[i].length);
		assert_int_equal(a[i].physical, b[i].physical);
	}
}

static void test_follows_changes(void **state)
{
	struct rmempool *pool = make_pool(8 * MIB, 32 * MIB, 0);
	struct rmempool_buffer b[64] = {0};
	struct rmempool_request q[64] = {0};
	struct rmempool_cache_statistics s;
	struct rmempool_cache *cache;
	struct rmempool_image *image;
	struct rmempool_mr *mr;
	uint64_t seed = 2718;

	fake.two_keys = true;
	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	assert_int_equal(rmempool_cache_create(image, 1, &cache), -EINVAL);
	assert_int_equal(rmempool_cache_create(image, 24, &cache), 0);
	for (unsigned round = 0; round < 20000; round++) {
		unsigned i = next_random(&seed) % 64;
		size_t length = next_random(&seed) % 100000 + 1;

		if (round % 4 == 0 && b[i].addr) {
			assert_int_equal(rmempool_free(pool, b[i].addr), 0);
			b[i].addr = NULL;
		} else if (round % 4 == 0 &&
			   !rmempool_alloc(pool, length, 0, &b[i], sizeof(b[i]))) {
			assert_int_equal(rmempool_register(pool, &fake_pds[0], b[i].addr, length, 7,
							   &mr),
					 0);
			q[i] = (struct rmempool_request){mr->lkey,
							 mr->rkey,
							 mr->domain,
							 RMEMPOOL_REMOTE_WRITE,
							 (uintptr_t)mr->addr,
							 mr->length};
		}
		if (round % 500 == 0)
			assert_int_equal(round % 1000 ? rmempool_grow(pool, 2 * MIB)
						      : rmempool_shrink(pool, 2 * MIB, NULL),
					 0);
		compare(cache, image, &q[i]);
		assert_true(rmempool_cache_lookup(cache, &q[i], NULL, 0, 0, &(unsigned){0}) ==
				    (b[i].addr ? RMEMPOOL_OK : RMEMPOOL_NO_KEY) ||
			    !q[i].length);
	}
	rmempool_cache_query(cache, &s, sizeof(s));
	assert_true(s.dropped && s.replaced && s.row_hits && s.run_hits && s.used <= 24);
	assert_int_equal(s.flushes, 0);
	for (unsigned i = 0; i < 64; i++)
		rmempool_free(pool, b[i].addr);
	rmempool_cache_destroy(cache);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* Who was away while more changed than the log holds starts afresh. */
static void test_flush(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_cache_statistics s;
	struct rmempool_cache *cache;
	struct rmempool_image *image;
	struct rmempool_request q, old;
	struct rmempool_buffer a, b;
	struct rmempool_mr *mr;

	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	assert_int_equal(rmempool_cache_create(image, 8, &cache), 0);
	assert_int_equal(rmempool_alloc(pool, 64, 0, &a, sizeof(a)), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], a.addr, 64, 7, &mr), 0);
	old = (struct rmempool_request){mr->lkey, mr->rkey, mr->domain, 1, (uintptr_t)mr->addr, 64};
	compare(cache, image, &old);
	assert_int_equal(rmempool_deregister(pool, mr), 0);
	for (unsigned i = 0; i < 3000; i++) {
		assert_int_equal(rmempool_alloc(pool, 64, 0, &b, sizeof(b)), 0);
		assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 64, 7, &mr), 0);
		q = (struct rmempool_request){
			mr->lkey, mr->rkey, mr->domain, 1, (uintptr_t)mr->addr, 64};
		assert_int_equal(rmempool_free(pool, b.addr), 0);
	}
	compare(cache, image, &old);
	compare(cache, image, &q);
	rmempool_cache_query(cache, &s, sizeof(s));
	assert_int_equal(s.flushes, 1);
	assert_int_equal(rmempool_free(pool, a.addr), 0);
	rmempool_cache_destroy(cache);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static uint64_t frame(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	assert_int_equal(pread(fd, &entry, 8, (uintptr_t)addr / 4096 * 8), 8);
	close(fd);
	return entry & ((1ull << 55) - 1);
}

/*
 * Physical addresses are those that pagemap tells who may know, for huge pages, which stay where
 * they are. Everywhere else they are unknown and translation gives what it was given.
 */
static void test_physical_addresses(void **state)
{
	struct rmempool *pool = make_pool(16 * MIB, 16 * MIB, 0);
	struct rmempool_image *image;
	struct rmempool_location where;
	struct rmempool_segment s;
	struct rmempool_buffer b;

	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	assert_int_equal(rmempool_alloc(pool, 16 * MIB, 0, &b, sizeof(b)), 0);
	for (size_t at = 0; at < 16 * MIB; at += 12345) {
		char *addr = (char *)b.addr + at;
		bool known;

		assert_int_equal(rmempool_locate(pool, addr, &where, sizeof(where)), 0);
		known = where.pages != RMEMPOOL_PAGES_PLAIN && frame(addr);
		assert_int_equal(rmempool_translate(image, (uintptr_t)addr, 1, &s, sizeof(s), 1),
				 1);
		assert_int_equal(s.physical, known);
		assert_int_equal(s.addr, known ? frame(addr) * 4096 + (uintptr_t)addr % 4096
					       : (uintptr_t)addr);
	}
	assert_true(query(pool).runs <= query(pool).blocks_2m + 1);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fake_reset)
	const struct CMUnitTest tests[] = {
		TEST(test_merging),
		TEST(test_find),
		TEST(test_readers),
		TEST(test_segments),
		TEST(test_segments_of_other_releases),
		TEST(test_hit_rate),
		TEST(test_follows_changes),
		TEST(test_flush),
		TEST(test_physical_addresses),
		TEST(test_glance),
	};

	return cmocka_run_group_tests_name("rmempool_cache", tests, NULL, NULL);
}

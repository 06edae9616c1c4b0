/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pool mapping and pool allocation (S1 to S3): lengths and alignments, waste, what is refused,
 * growing and shrinking, threads, debug mode. Buffers are filled with their number, so that two
 * that overlap do not go unseen.
 */
#include "mempool_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_arguments(void **state)
{
	struct rmempool_attr attr;
	struct rmempool *pool;
	struct rmempool_buffer b;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.block_size = 3 * MIB;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.block_size = MIB;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.size = 0;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = attr.limit + 1;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.flags = 1u << 30;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.flags = RMEMPOOL_NO_HUGE | RMEMPOOL_REQUIRE_HUGE;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.numa_node = 1023; /* no machine of this kind has so many */
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	attr.bytes = 0;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);
	rmempool_attr_init(&attr, sizeof(attr));
	attr.max_registrations = 0;
	assert_int_equal(rmempool_create(&attr, &pool), -EINVAL);

	pool = make_pool(4 * MIB, 4 * MIB, 0);
	assert_int_equal(rmempool_alloc(pool, 0, 0, &b, sizeof(b)), -EINVAL);
	assert_int_equal(rmempool_alloc(pool, 10, 24, &b, sizeof(b)), -EINVAL);
	assert_int_equal(rmempool_alloc(pool, 10, 4 * MIB, &b, sizeof(b)), -EINVAL);
	assert_int_equal(rmempool_alloc(pool, SIZE_MAX, 0, &b, sizeof(b)), -ENOMEM);
	assert_int_equal(rmempool_alloc(pool, SIZE_MAX - 8, 64, &b, sizeof(b)), -ENOMEM);
	assert_int_equal(rmempool_free(pool, NULL), 0);
	assert_int_equal(rmempool_free(pool, &b), -EINVAL);
	assert_int_equal(rmempool_alloc(pool, 100, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_free(pool, (char *)b.addr + 16), -EINVAL);
	assert_int_equal(rmempool_destroy(pool), -EBUSY);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(rmempool_destroy(NULL), 0);
}

/* Node 0 there is on every machine; memory that is bound to it is usable. */
static void test_numa_node(void **state)
{
	struct rmempool_attr attr;
	struct rmempool *pool;
	struct rmempool_buffer b;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.numa_node = 0;
	attr.bytes = 2 * MIB;
	assert_int_equal(rmempool_create(&attr, &pool), 0);
	assert_int_equal(rmempool_alloc(pool, MIB, 0, &b, sizeof(b)), 0);
	memset(b.addr, 7, MIB);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* Every length, and many longer ones, is served, with less than an eighth more (16 bytes for the
 * least). */
static void test_every_length(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_buffer b;

	for (size_t length = 1; length < 70000; length += length < 4000 ? 1 : 37) {
		assert_int_equal(rmempool_alloc(pool, length, 0, &b, sizeof(b)), 0);
		assert_true(b.length >= length);
		assert_true(b.length - length <= (length < 128 ? 15 : length / 8));
		assert_int_equal((uintptr_t)b.addr % 16, 0);
		assert_int_equal(rmempool_free(pool, b.addr), 0);
	}
	assert_int_equal(query(pool).in_use, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void test_every_alignment(void **state)
{
	struct rmempool *pool = make_pool(8 * MIB, 8 * MIB, 0);
	struct rmempool_buffer b[3];

	for (size_t align = 1; align <= 2 * MIB; align *= 2)
		for (size_t length = 1; length <= MIB; length = length * 5 / 3 + 1) {
			for (unsigned i = 0; i < 3; i++) {
				assert_int_equal(rmempool_alloc(pool, length, align, &b[i],
								sizeof(b[i])),
						 0);
				assert_int_equal((uintptr_t)b[i].addr % align, 0);
				assert_true(b[i].length >= length);
			}
			for (unsigned i = 0; i < 3; i++)
				assert_int_equal(rmempool_free(pool, b[i].addr), 0);
		}
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* Random lengths until nothing more fits: at least 7/8 of the pool is what was asked for. */
static void waste_of(uint64_t seed, size_t max, bool logarithmic)
{
	struct rmempool *pool = make_pool(64 * MIB, 64 * MIB, 0);
	size_t asked = 0, length;
	void **buffers = calloc(4 * MIB, sizeof(*buffers));
	struct rmempool_buffer b;
	size_t count = 0;

	for (;;) {
		length = next_random(&seed) % max + 1;
		if (logarithmic)
			length = (length >> next_random(&seed) % 14) + 1;
		if (rmempool_alloc(pool, length, 0, &b, sizeof(b)))
			break;
		asked += length;
		buffers[count++] = b.addr;
		assert_true(count < 4 * MIB);
	}
	assert_true(asked >= 64 * MIB / 8 * 7);
	assert_int_equal(query(pool).failures, 1);
	/* The next one may be smaller; what was given back can be had as one piece. */
	while (count)
		assert_int_equal(rmempool_free(pool, buffers[--count]), 0);
	assert_int_equal(rmempool_alloc(pool, 64 * MIB, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_alloc(pool, 1, 0, &b, sizeof(b)), -ENOMEM);
	assert_int_equal(query(pool).failures, 2);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	free(buffers);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void test_waste(void **state)
{
	waste_of(88172645463325252ull, 256 * KIB, false);
	waste_of(1234567, 64 * KIB, false);
	waste_of(42, 1024 * KIB, true);
}

struct piece {
	unsigned char *addr;
	size_t length;
	unsigned char fill;
};

static void piece_check(const struct piece *p)
{
	for (size_t i = 0; i<p->length; i += p->length> 64 ? 61 : 1)
		assert_int_equal(p->addr[i], p->fill);
	assert_int_equal(p->addr[p->length - 1], p->fill);
}

/* Random buffers come and go, and blocks with them; nobody's content changes. */
static void churn(unsigned flags, unsigned rounds)
{
	struct rmempool *pool = make_pool(4 * MIB, 64 * MIB, flags);
	struct piece pieces[512] = {0};
	uint64_t seed = 4242;
	size_t given;

	for (unsigned round = 0; round < rounds; round++) {
		struct piece *p = &pieces[next_random(&seed) % ARRAY_LEN(pieces)];
		struct rmempool_buffer b;

		if (p->addr) {
			piece_check(p);
			assert_int_equal(rmempool_free(pool, p->addr), 0);
			p->addr = NULL;
		} else {
			p->length =
				(next_random(&seed) % (300 * KIB) >> next_random(&seed) % 18) + 1;
			if (rmempool_alloc(pool, p->length, 1ul << next_random(&seed) % 14, &b,
					   sizeof(b))) {
				assert_int_equal(rmempool_grow(pool, 2 * MIB), 0);
				continue;
			}
			p->addr = b.addr;
			p->fill = round;
			memset(p->addr, p->fill, p->length);
		}
		if (round % 1000 == 999)
			assert_int_equal(rmempool_shrink(pool, 4 * MIB, &given), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(pieces); i++)
		if (pieces[i].addr) {
			piece_check(&pieces[i]);
			assert_int_equal(rmempool_free(pool, pieces[i].addr), 0);
		}
	assert_int_equal(query(pool).in_use, 0);
	assert_int_equal(query(pool).errors, 0);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(query(pool).bytes, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void test_churn(void **state)
{
	churn(0, 60000);
}

static void test_churn_in_debug_mode(void **state)
{
	churn(RMEMPOOL_DEBUG, 10000);
}

/* S3: an allocation never grows the pool; only who asks for it does, up to the limit. */
static void test_growth_and_limit(void **state)
{
	struct rmempool *pool = make_pool(0, 6 * MIB, 0);
	struct rmempool_buffer a, b;
	size_t given;

	assert_int_equal(rmempool_alloc(pool, 1, 0, &a, sizeof(a)), -ENOMEM);
	assert_int_equal(rmempool_grow(pool, 1), 0);
	assert_int_equal(query(pool).bytes, 2 * MIB);
	assert_int_equal(rmempool_alloc(pool, 2 * MIB + 1, 0, &a, sizeof(a)), -ENOMEM);
	assert_int_equal(rmempool_grow(pool, 6 * MIB), -ENOMEM);
	assert_int_equal(query(pool).bytes, 2 * MIB);
	assert_int_equal(rmempool_grow(pool, 4 * MIB), 0);
	assert_int_equal(rmempool_grow(pool, 1), -ENOMEM);
	/* One buffer in all three blocks. */
	assert_int_equal(rmempool_alloc(pool, 6 * MIB, 0, &a, sizeof(a)), 0);
	memset(a.addr, 1, 6 * MIB);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 0);
	assert_int_equal(rmempool_free(pool, a.addr), 0);
	/* A buffer in the first block keeps that one. */
	assert_int_equal(rmempool_alloc(pool, MIB, 0, &a, sizeof(a)), 0);
	assert_int_equal(rmempool_alloc(pool, 3 * MIB, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 2 * MIB);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_shrink(pool, 2 * MIB + 4096, &given), 0);
	assert_int_equal(given, 2 * MIB);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, NULL), 0);
	assert_int_equal(query(pool).bytes, 2 * MIB);
	assert_int_equal(rmempool_free(pool, a.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* What is given back to the system is gone from the file as well, and comes back as zeros. */
static void test_shrink_frees_memory(void **state)
{
	struct rmempool *pool = make_pool(8 * MIB, 8 * MIB, RMEMPOOL_NO_HUGE);
	struct rmempool_location where;
	struct rmempool_buffer b;
	struct stat st;
	int fd;

	assert_int_equal(rmempool_alloc(pool, 8 * MIB, 0, &b, sizeof(b)), 0);
	memset(b.addr, 0xee, 8 * MIB);
	assert_int_equal(rmempool_locate(pool, b.addr, &where, sizeof(where)), 0);
	fd = where.fd;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, 8 * MIB);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_shrink(pool, 6 * MIB, NULL), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, 2 * MIB);
	assert_int_equal(rmempool_locate(pool, (char *)b.addr + 2 * MIB, &where, sizeof(where)),
			 -EINVAL);
	assert_int_equal(rmempool_grow(pool, 6 * MIB), 0);
	assert_int_equal(rmempool_alloc(pool, 8 * MIB, 0, &b, sizeof(b)), 0);
	for (size_t i = 2 * MIB; i < 8 * MIB; i += 999)
		assert_int_equal(((char *)b.addr)[i], 0);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* A neighbour that maps the file sees the buffer; nobody can take the memory away from it. */
static void test_location(void **state)
{
	struct rmempool *pool = make_pool(4 * MIB, 8 * MIB, 0);
	struct rmempool_location where;
	struct rmempool_buffer b;
	int seals, local;
	uint64_t block;
	char *view;

	assert_int_equal(rmempool_locate(pool, &local, &where, sizeof(where)), -EINVAL);
	assert_int_equal(rmempool_alloc(pool, 3 * MIB, 0, &b, sizeof(b)), 0);
	memset(b.addr, 0x3c, 3 * MIB);
	for (size_t at = 0; at < 3 * MIB; at += 777777) {
		assert_int_equal(rmempool_locate(pool, (char *)b.addr + at, &where, sizeof(where)),
				 0);
		assert_true(where.length && where.length <= 2 * MIB);
		block = where.offset & ~(2 * MIB - 1);
		view = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, where.fd, block);
		assert_true(view != MAP_FAILED);
		assert_int_equal(view[where.offset - block], 0x3c);
		view[where.offset - block] = 0x3d;
		assert_int_equal(((char *)b.addr)[at], 0x3d);
		munmap(view, 2 * MIB);
	}
	seals = fcntl(where.fd, F_GET_SEALS);
	assert_true(seals & F_SEAL_SHRINK && seals & F_SEAL_SEAL);
	assert_int_equal(ftruncate(where.fd, 4096), -1);
	assert_true(fcntl(where.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* Attributes of another release: members that the program does not know have their defaults, those
 * that the library does not know are 0. */
static void test_attributes_of_other_releases(void **state)
{
	struct {
		struct rmempool_attr known;
		uint64_t more[2];
	} attr;
	struct rmempool *pool;

	memset(&attr, 0xff, sizeof(attr));
	rmempool_attr_init(&attr.known, offsetof(struct rmempool_attr, block_size));
	assert_int_equal(attr.known.size, offsetof(struct rmempool_attr, block_size));
	assert_int_equal(attr.known.block_size, SIZE_MAX);
	attr.known.bytes = 4 * MIB;
	assert_int_equal(rmempool_create(&attr.known, &pool), 0);
	assert_int_equal(query(pool).bytes, 4 * MIB);
	assert_int_equal(query(pool).blocks, 2);
	assert_int_equal(rmempool_destroy(pool), 0);

	memset(&attr, 0xff, sizeof(attr));
	rmempool_attr_init(&attr.known, sizeof(attr));
	assert_int_equal(attr.known.size, sizeof(attr));
	assert_int_equal(attr.more[0] | attr.more[1], 0);
	attr.known.bytes = 2 * MIB;
	assert_int_equal(rmempool_create(&attr.known, &pool), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
	attr.more[1] = 1;
	assert_int_equal(rmempool_create(&attr.known, &pool), -EINVAL);
	/* Never set: what follows is not even read. */
	attr.known.size = SIZE_MAX;
	assert_int_equal(rmempool_create(&attr.known, &pool), -EINVAL);
}

/* A program may have been compiled with a shorter structure, or a longer one. */
static void test_structures_of_other_releases(void **state)
{
	struct rmempool *pool = make_pool(8 * MIB, 8 * MIB, 0);
	struct {
		struct rmempool_statistics known;
		uint64_t more[4];
	} longer, shorter;
	struct rmempool_location where;
	struct {
		struct rmempool_buffer known;
		uint64_t more;
	} buffer;
	struct rmempool_hold hold = {.fd = -7};
	struct rmempool_buffer b;

	assert_int_equal(rmempool_alloc(pool, 4096, 0, &b, sizeof(b)), 0);
	memset(&longer, 0xff, sizeof(longer));
	rmempool_query(pool, &longer.known, sizeof(longer));
	assert_int_equal(longer.known.bytes, 8 * MIB);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(longer.more[i], 0);
	memset(&shorter, 0xff, sizeof(shorter));
	rmempool_query(pool, &shorter.known, sizeof(uint64_t));
	assert_int_equal(shorter.known.bytes, 8 * MIB);
	assert_int_equal(shorter.known.blocks, UINT64_MAX);
	where.length = 77;
	assert_int_equal(rmempool_locate(pool, b.addr, &where,
					 offsetof(struct rmempool_location, length)),
			 0);
	assert_int_equal(where.length, 77);
	memset(&buffer, 0xff, sizeof(buffer));
	assert_int_equal(rmempool_alloc(pool, 100, 0, &buffer.known, sizeof(void *)), 0);
	assert_int_equal(buffer.known.length, SIZE_MAX);
	assert_int_equal(rmempool_free(pool, buffer.known.addr), 0);
	assert_int_equal(rmempool_alloc(pool, 100, 0, &buffer.known, sizeof(buffer)), 0);
	assert_true(buffer.known.length >= 100);
	assert_int_equal(buffer.more, 0);
	assert_int_equal(rmempool_free(pool, buffer.known.addr), 0);
	/* Of an adapter: none was ever shorter. */
	assert_int_equal(rmempool_hold(b.addr, 1, &hold, sizeof(hold) - 8), -EINVAL);
	assert_int_equal(hold.fd, -7);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* A device in software keeps the blocks of what it has registered, and no others. */
static void test_hold(void **state)
{
	struct rmempool *pool = make_pool(8 * MIB, 8 * MIB, 0), *lazy;
	struct rmempool_hold hold, other;
	struct rmempool_location where;
	struct rmempool_buffer b;
	int local, fd;
	struct stat st;
	size_t given;
	char *block;

	assert_int_equal(rmempool_hold(&local, sizeof(local), &hold, sizeof(hold)), -EINVAL);
	assert_int_equal(rmempool_alloc(pool, 8 * MIB, 0, &b, sizeof(b)), 0);
	block = b.addr;
	assert_int_equal(rmempool_hold(block, 0, &hold, sizeof(hold)), -EINVAL);
	assert_int_equal(rmempool_hold(block, 8 * MIB + 1, &hold, sizeof(hold)), -EINVAL);
	assert_int_equal(rmempool_hold(block - 1, 2, &hold, sizeof(hold)), -EINVAL);
	assert_int_equal(rmempool_hold(block + 1, SIZE_MAX, &hold, sizeof(hold)), -EINVAL);
	/* One byte of the second block and one of the third. */
	assert_int_equal(rmempool_hold(block + 4 * MIB - 1, 2, &hold, sizeof(hold)), 0);
	assert_int_equal(rmempool_locate(pool, block + 4 * MIB - 1, &where, sizeof(where)), 0);
	assert_int_equal(hold.fd, where.fd);
	assert_int_equal(hold.pages, where.pages);
	assert_ptr_equal(hold.base + where.offset, block + 4 * MIB - 1);
	assert_true(hold.resident);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 4 * MIB);
	assert_int_equal(rmempool_locate(pool, block + 2 * MIB, &where, sizeof(where)), 0);
	assert_int_equal(rmempool_locate(pool, block + 4 * MIB, &where, sizeof(where)), 0);
	assert_int_equal(rmempool_locate(pool, block, &where, sizeof(where)), -EINVAL);
	assert_int_equal(rmempool_hold(block, 4 * MIB, &other, sizeof(other)), -EINVAL);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, &given), -EBUSY);
	assert_int_equal(given, 0);
	rmempool_release(&hold);
	assert_int_equal(rmempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 4 * MIB);
	/* A destroyed pool's pages are the system's again, but for huge ones that neighbours may
	 * touch. */
	assert_int_equal(rmempool_grow(pool, 2 * MIB), 0);
	assert_int_equal(rmempool_alloc(pool, 100, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_hold(b.addr, 100, &hold, sizeof(hold)), 0);
	fd = dup(hold.fd);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, hold.pages == RMEMPOOL_PAGES_PLAIN ? 0 : 2 * MIB);
	close(fd);
	rmempool_release(&hold);
	/* Later pools have other numbers, and nothing to do with old holds. */
	lazy = make_pool(2 * MIB, 2 * MIB, RMEMPOOL_LAZY);
	assert_int_equal(rmempool_alloc(lazy, 100, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_hold(b.addr, 100, &other, sizeof(other)), 0);
	assert_false(other.resident);
	assert_int_not_equal(other.file, hold.file);
	assert_int_equal(rmempool_free(lazy, b.addr), 0);
	assert_int_equal(rmempool_destroy(lazy), 0);
	rmempool_release(&other);
}

struct holder {
	char *block;
	_Atomic bool stop;
	_Atomic unsigned held;
};

static void *hold_thread(void *arg)
{
	struct holder *h = arg;
	struct rmempool_hold hold;

	while (!h->stop)
		if (!rmempool_hold(h->block, 1, &hold, sizeof(hold))) {
			*(volatile char *)h->block += 1;
			h->held++;
			rmempool_release(&hold);
		}
	return NULL;
}

/* What is held is there, whoever takes it away at that moment. */
static void test_hold_against_shrink(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, RMEMPOOL_LAZY);
	struct holder h = {.stop = false};
	struct rmempool_buffer b;
	pthread_t thread;
	size_t given;
	unsigned shrunk = 0;

	assert_int_equal(rmempool_alloc(pool, 2 * MIB, 0, &b, sizeof(b)), 0);
	h.block = b.addr;
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(pthread_create(&thread, NULL, hold_thread, &h), 0);
	for (unsigned i = 0; i < 3000 || (i < 1000000 && !(shrunk && h.held)); i++) {
		rmempool_shrink(pool, SIZE_MAX, &given);
		if (given) {
			shrunk++;
			assert_int_equal(rmempool_grow(pool, 2 * MIB), 0);
		}
	}
	h.stop = true;
	pthread_join(thread, NULL);
	assert_true(shrunk && h.held);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/*
 * A hugetlb memfd can be made with no huge page free: the pool finds out and says so. Where there
 * are huge pages, it has used them.
 */
static void test_huge_pages_or_not(void **state)
{
	struct rmempool *pool = make_pool(4 * MIB, 4 * MIB, 0);
	struct rmempool_statistics s = query(pool);
	struct rmempool_attr attr;
	bool none = s.blocks_plain == 2;
	int err;

	assert_int_equal(s.blocks, 2);
	assert_int_equal(s.fallbacks, s.blocks_plain);
	assert_int_equal(s.blocks_1g, 0);
	assert_int_equal(s.blocks_2m, 2 - s.blocks_plain);
	assert_int_equal(rmempool_destroy(pool), 0);

	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = 4 * MIB;
	attr.flags = RMEMPOOL_REQUIRE_HUGE;
	err = rmempool_create(&attr, &pool);
	assert_int_equal(err, none ? -ENOMEM : 0);
	if (!err) {
		assert_int_equal(query(pool).blocks_2m, 2);
		assert_int_equal(rmempool_destroy(pool), 0);
	}
	pool = make_pool(4 * MIB, 4 * MIB, RMEMPOOL_NO_HUGE);
	assert_int_equal(query(pool).blocks_plain, 2);
	assert_int_equal(query(pool).fallbacks, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* A forked child has none of the pool's memory, instead of sharing it. */
static void test_fork(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_location where;
	struct rmempool_hold hold;
	struct rmempool_buffer b;
	int status, ends[2];
	char page[4096];
	pid_t pid;

	assert_int_equal(rmempool_alloc(pool, 4096, 4096, &b, sizeof(b)), 0);
	assert_int_equal(pipe(ends), 0);
	memset(b.addr, 0x5a, 4096);
	pid = fork();
	/* Something else may lie there by now, and that is not the pool's. */
	if (!pid)
		_exit(!rmempool_locate(NULL, b.addr, &where, sizeof(where))   ? 2
		      : !rmempool_hold(b.addr, 1, &hold, sizeof(hold))	      ? 3
		      : write(ends[1], b.addr, 4096) == -1 && errno == EFAULT ? 0
		      : read(ends[0], page, 4096) == 4096 && page[0] != 0x5a  ? 0
									      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* With RMEMPOOL_FORK it has a copy of its own, even of what the parent changes right away. */
static void test_fork_copies(void **state)
{
	struct rmempool *pool = make_pool(4 * MIB, 8 * MIB, RMEMPOOL_FORK);
	struct rmempool_location where;
	struct rmempool_buffer a, b;
	unsigned char *bytes;
	int status, ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(rmempool_alloc(pool, 3 * MIB, 0, &a, sizeof(a)), 0);
	assert_int_equal(rmempool_alloc(pool, 100, 0, &b, sizeof(b)), 0);
	bytes = a.addr;
	memset(bytes, 1, 3 * MIB);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (!pid) {
		bool ok = true;

		close(ends[1]);
		ok &= read(ends[0], &byte, 1) == 0; /* the parent has written */
		for (size_t i = 0; i < 3 * MIB; i++)
			ok &= bytes[i] == 1;
		memset(bytes, 3, 3 * MIB);
		ok &= !rmempool_free(pool, b.addr) && !rmempool_grow(pool, 2 * MIB);
		ok &= !rmempool_alloc(pool, 100 * KIB, 0, &b, sizeof(b)) &&
		      !rmempool_free(pool, b.addr);
		ok &= !rmempool_locate(NULL, bytes, &where, sizeof(where)) &&
		      where.pages == RMEMPOOL_PAGES_PLAIN;
		ok &= !rmempool_free(pool, bytes) && !rmempool_destroy(pool);
		_exit(!ok);
	}
	memset(bytes, 2, 3 * MIB);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 3 * MIB; i++)
		assert_int_equal(bytes[i], 2);
	assert_int_equal(rmempool_length(pool, bytes), a.length);
	assert_int_equal(rmempool_length(pool, bytes + 16), 0);
	assert_int_equal(rmempool_free(pool, bytes), 0);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* So does one whose parent has closed all descriptors, as daemons do. */
static void test_fork_copies_closed(void **state)
{
	struct rmempool *pool = make_pool(4 * MIB, 8 * MIB, RMEMPOOL_FORK);
	struct rmempool_location where;
	struct rmempool_buffer b, guard;
	char *bytes;
	int status;
	pid_t pid;

	assert_int_equal(rmempool_alloc(pool, 3 * MIB, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_alloc(pool, 4096, 4096, &guard, sizeof(guard)), 0);
	bytes = b.addr;
	memset(bytes, 1, 3 * MIB);
	memset(guard.addr, 4, 4096);
	assert_int_equal(mprotect(guard.addr, 4096, PROT_NONE), 0);
	assert_int_equal(rmempool_locate(pool, bytes, &where, sizeof(where)), 0);
	close(where.fd);
	pid = fork();
	if (!pid) {
		bool ok = *(char *)guard.addr == 4;

		for (size_t i = 0; i < 3 * MIB; i++)
			ok &= bytes[i] == 1;
		memset(bytes, 3, 3 * MIB);
		ok &= !rmempool_grow(pool, 2 * MIB) &&
		      !rmempool_locate(NULL, bytes, &where, sizeof(where));
		ok &= !rmempool_free(pool, bytes) && !rmempool_free(pool, guard.addr);
		ok &= !rmempool_destroy(pool);
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 3 * MIB; i++)
		assert_int_equal(bytes[i], 1);
	assert_int_equal(rmempool_grow(pool, 2 * MIB), -EBADF);
	assert_int_equal(rmempool_free(pool, bytes), 0);
	assert_int_equal(rmempool_free(pool, guard.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* They take terabytes. */
/* The default limit asks for 64 GiB of addresses; the program asked for none. */
static void test_address_limit(void **state)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		struct rlimit limit = {4096 * MIB, 4096 * MIB};
		struct rmempool_attr attr;
		struct rmempool *pool;
		struct rmempool_buffer b;

		setrlimit(RLIMIT_AS, &limit);
		rmempool_attr_init(&attr, sizeof(attr));
		if (rmempool_create(&attr, &pool) || rmempool_grow(pool, 256 * MIB) ||
		    rmempool_alloc(pool, 1000, 0, &b, sizeof(b)) || rmempool_free(pool, b.addr) ||
		    rmempool_destroy(pool))
			_exit(1);
		attr.limit = 8192 * MIB;
		_exit(rmempool_create(&attr, &pool) == -ENOMEM ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}
#endif

/* A process whose files may not be so long gets an error, and not the signal that the kernel has
 * for it. */
static void test_file_limit(void **state)
{
	struct rlimit limit = {MIB, MIB};
	struct rmempool *pool;
	int status;
	pid_t pid = fork();

	if (!pid) {
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(rmempool_create(NULL, &pool) != -EFBIG);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define RING 256

struct crowd {
	struct rmempool *pool;
	void *_Atomic ring[RING]; /* buffers that change hands */
	_Atomic bool failed;
};

/* Allocates, hands over, frees what others allocated. */
static void *crowd_thread(void *arg)
{
	struct crowd *crowd = arg;
	uint64_t seed = (uintptr_t)&seed | 1;

	for (unsigned i = 0; i < 30000; i++) {
		size_t length = (next_random(&seed) % 40000 >> next_random(&seed) % 12) + 8;
		struct rmempool_buffer b;
		uint64_t *old;

		if (rmempool_alloc(crowd->pool, length, 0, &b, sizeof(b)))
			continue;
		*(uint64_t *)b.addr = (uintptr_t)b.addr;
		old = atomic_exchange(&crowd->ring[next_random(&seed) % RING], b.addr);
		if (old && (*old != (uintptr_t)old || rmempool_free(crowd->pool, old)))
			crowd->failed = true;
	}
	return NULL;
}

/*
 * Locks that other threads hold when a thread forks are free in the child. The thread sanitizer
 * does not follow a fork among threads.
 */
#ifndef __SANITIZE_THREAD__
static void test_fork_among_threads(void **state)
{
	struct crowd crowd = {.pool = make_pool(8 * MIB, 8 * MIB, RMEMPOOL_FORK)};
	struct rmempool_buffer b;
	pthread_t threads[2];
	int status;

	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, crowd_thread, &crowd);
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid) {
			for (unsigned n = 0; n < 100; n++)
				if (!rmempool_alloc(crowd.pool, 1000 * n + 1, 0, &b, sizeof(b)))
					rmempool_free(crowd.pool, b.addr);
			rmempool_shrink(crowd.pool, 2 * MIB, NULL);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_false(crowd.failed);
	for (unsigned i = 0; i < RING; i++)
		if (crowd.ring[i])
			assert_int_equal(rmempool_free(crowd.pool, crowd.ring[i]), 0);
	assert_int_equal(rmempool_destroy(crowd.pool), 0);
}
#endif

/* Caches of threads that end go back; those of threads that live are collected when need be. */
static void test_threads(void **state)
{
	struct crowd crowd = {.pool = make_pool(8 * MIB, 8 * MIB, 0)};
	struct rmempool_buffer b;
	pthread_t threads[4];

	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, crowd_thread, &crowd);
	for (unsigned i = 0; i < 50; i++) {
		query(crowd.pool);
		rmempool_shrink(crowd.pool, 2 * MIB, NULL);
		rmempool_grow(crowd.pool, 2 * MIB);
	}
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_false(crowd.failed);
	for (unsigned i = 0; i < RING; i++)
		if (crowd.ring[i])
			assert_int_equal(rmempool_free(crowd.pool, crowd.ring[i]), 0);
	assert_int_equal(query(crowd.pool).in_use, 0);
	assert_int_equal(query(crowd.pool).allocs, query(crowd.pool).frees);
	rmempool_grow(crowd.pool, 8 * MIB - query(crowd.pool).bytes);
	assert_int_equal(rmempool_alloc(crowd.pool, 8 * MIB, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_free(crowd.pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(crowd.pool), 0);
}

struct hoarder {
	struct rmempool *pool;
	pthread_barrier_t barrier;
};

static void *hoarder_thread(void *arg)
{
	struct hoarder *h = arg;
	struct rmempool_buffer b[32];

	for (unsigned i = 0; i < ARRAY_LEN(b); i++)
		rmempool_alloc(h->pool, 4096, 0, &b[i], sizeof(b[i]));
	for (unsigned i = 0; i < ARRAY_LEN(b); i++)
		rmempool_free(h->pool, b[i].addr);
	pthread_barrier_wait(&h->barrier); /* its cache is full */
	pthread_barrier_wait(&h->barrier); /* the pool is gone */
	return NULL;
}

/* What lies in another thread's cache is not lost; and a pool may go before a thread that used it.
 * */
static void test_cache_of_another_thread(void **state)
{
	struct hoarder h = {.pool = make_pool(2 * MIB, 2 * MIB, 0)};
	struct rmempool_buffer b;
	pthread_t thread;

	pthread_barrier_init(&h.barrier, NULL, 2);
	pthread_create(&thread, NULL, hoarder_thread, &h);
	pthread_barrier_wait(&h.barrier);
	assert_int_equal(rmempool_alloc(h.pool, 2 * MIB, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_free(h.pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(h.pool), 0);
	pthread_barrier_wait(&h.barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&h.barrier);
}

static void test_debug_double_free(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, RMEMPOOL_DEBUG);
	struct rmempool_buffer b;

	for (size_t length = 1; length < 500000; length *= 7) {
		uint64_t errors = query(pool).errors;

		assert_int_equal(rmempool_alloc(pool, length, 0, &b, sizeof(b)), 0);
		assert_int_equal(rmempool_free(pool, b.addr), 0);
		assert_int_equal(rmempool_free(pool, b.addr), -EINVAL);
		assert_int_equal(query(pool).errors, errors + 1);
	}
	assert_int_equal(query(pool).in_use, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* One byte beyond the length is found, and so is one that hits the noted length itself. */
static void test_debug_overflow(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, RMEMPOOL_DEBUG);
	struct rmempool_buffer b;
	unsigned char *bytes, saved;

	for (size_t length = 1; length < 500000; length = length * 3 + 1) {
		assert_int_equal(rmempool_alloc(pool, length, 0, &b, sizeof(b)), 0);
		assert_int_equal(b.length, length);
		bytes = b.addr;
		memset(bytes, 0xff, length);
		for (unsigned at = 0; at < 16; at += 5) {
			saved = bytes[length + at];
			bytes[length + at] ^= 0x40;
			assert_int_equal(rmempool_free(pool, bytes), -EOVERFLOW);
			bytes[length + at] = saved;
		}
		assert_int_equal(rmempool_free(pool, bytes), 0);
	}
	assert_true(query(pool).errors >= 4);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* What has run over the place where its length is kept has none, rather than any. */
static void test_debug_overflow_far(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, RMEMPOOL_DEBUG);
	struct rmempool_buffer b;
	unsigned char saved[100];

	assert_int_equal(rmempool_alloc(pool, 100, 0, &b, sizeof(b)), 0);
	memcpy(saved, (char *)b.addr + 100, sizeof(saved));
	memset(b.addr, 0x41, 200);
	assert_int_equal(rmempool_length(pool, b.addr), 0);
	assert_int_equal(rmempool_free(pool, b.addr), -EOVERFLOW);
	memcpy((char *)b.addr + 100, saved, sizeof(saved));
	assert_int_equal(rmempool_length(pool, b.addr), 100);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void test_debug_write_after_free(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, RMEMPOOL_DEBUG);
	struct rmempool_buffer a, b;

	assert_int_equal(rmempool_alloc(pool, 2000, 0, &a, sizeof(a)), 0);
	assert_int_equal(rmempool_free(pool, a.addr), 0);
	((char *)a.addr)[1000] = 1;
	assert_int_equal(rmempool_alloc(pool, 2000, 0, &b, sizeof(b)), 0);
	assert_ptr_equal(a.addr, b.addr);
	assert_int_equal(query(pool).errors, 1);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_numa_node),
		cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_every_alignment),
		cmocka_unit_test(test_waste),
		cmocka_unit_test(test_churn),
		cmocka_unit_test(test_churn_in_debug_mode),
		cmocka_unit_test(test_growth_and_limit),
		cmocka_unit_test(test_shrink_frees_memory),
		cmocka_unit_test(test_location),
		cmocka_unit_test(test_attributes_of_other_releases),
		cmocka_unit_test(test_structures_of_other_releases),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_hold_against_shrink),
		cmocka_unit_test(test_huge_pages_or_not),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_copies),
		cmocka_unit_test(test_fork_copies_closed),
		cmocka_unit_test(test_file_limit),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(test_address_limit),
#endif
#ifndef __SANITIZE_THREAD__
		cmocka_unit_test(test_fork_among_threads),
#endif
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_cache_of_another_thread),
		cmocka_unit_test(test_debug_double_free),
		cmocka_unit_test(test_debug_overflow),
		cmocka_unit_test(test_debug_overflow_far),
		cmocka_unit_test(test_debug_write_after_free),
	};

	return cmocka_run_group_tests_name("rmempool_alloc", tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pool mapping and pool allocation (S1 to S3): lengths and alignments, waste, what is refused,
 * growing and shrinking, threads, debug mode. Buffers are filled with their number, so that two that
 * overlap do not go unseen.
 */
#include "mempool_test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void test_arguments(void **state)
{
	struct mempool_attr attr;
	struct mempool *pool;
	struct mempool_buffer b;

	mempool_attr_init(&attr);
	attr.block_size = 3 * MIB;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.block_size = MIB;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.size = 8;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.bytes = attr.limit + 1;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.flags = 1u << 30;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.flags = MEMPOOL_NO_HUGE | MEMPOOL_REQUIRE_HUGE;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.numa_node = 1023; /* no machine of this kind has so many */
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	attr.bytes = 0;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);
	mempool_attr_init(&attr);
	attr.max_registrations = 0;
	assert_int_equal(mempool_create(&attr, &pool), -EINVAL);

	pool = make_pool(4 * MIB, 4 * MIB, 0);
	assert_int_equal(mempool_alloc(pool, 0, 0, &b), -EINVAL);
	assert_int_equal(mempool_alloc(pool, 10, 24, &b), -EINVAL);
	assert_int_equal(mempool_alloc(pool, 10, 4 * MIB, &b), -EINVAL);
	assert_int_equal(mempool_alloc(pool, SIZE_MAX, 0, &b), -ENOMEM);
	assert_int_equal(mempool_alloc(pool, SIZE_MAX - 8, 64, &b), -ENOMEM);
	assert_int_equal(mempool_free(pool, NULL), 0);
	assert_int_equal(mempool_free(pool, &b), -EINVAL);
	assert_int_equal(mempool_alloc(pool, 100, 0, &b), 0);
	assert_int_equal(mempool_free(pool, (char *)b.addr + 16), -EINVAL);
	assert_int_equal(mempool_destroy(pool), -EBUSY);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
	assert_int_equal(mempool_destroy(NULL), 0);
}

/* Node 0 there is on every machine; memory that is bound to it is usable. */
static void test_numa_node(void **state)
{
	struct mempool_attr attr;
	struct mempool *pool;
	struct mempool_buffer b;

	mempool_attr_init(&attr);
	attr.numa_node = 0;
	attr.bytes = 2 * MIB;
	assert_int_equal(mempool_create(&attr, &pool), 0);
	assert_int_equal(mempool_alloc(pool, MIB, 0, &b), 0);
	memset(b.addr, 7, MIB);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* Every length, and many longer ones, is served, with less than an eighth more (16 bytes for the least). */
static void test_every_length(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct mempool_buffer b;

	for (size_t length = 1; length < 70000; length += length < 4000 ? 1 : 37) {
		assert_int_equal(mempool_alloc(pool, length, 0, &b), 0);
		assert_true(b.length >= length);
		assert_true(b.length - length <= (length < 128 ? 15 : length / 8));
		assert_int_equal((uintptr_t)b.addr % 16, 0);
		assert_int_equal(mempool_free(pool, b.addr), 0);
	}
	assert_int_equal(query(pool).in_use, 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

static void test_every_alignment(void **state)
{
	struct mempool *pool = make_pool(8 * MIB, 8 * MIB, 0);
	struct mempool_buffer b[3];

	for (size_t align = 1; align <= 2 * MIB; align *= 2)
		for (size_t length = 1; length <= MIB; length = length * 5 / 3 + 1) {
			for (unsigned i = 0; i < 3; i++) {
				assert_int_equal(mempool_alloc(pool, length, align, &b[i]), 0);
				assert_int_equal((uintptr_t)b[i].addr % align, 0);
				assert_true(b[i].length >= length);
			}
			for (unsigned i = 0; i < 3; i++)
				assert_int_equal(mempool_free(pool, b[i].addr), 0);
		}
	assert_int_equal(mempool_destroy(pool), 0);
}

/* Random lengths until nothing more fits: at least 7/8 of the pool is what was asked for. */
static void waste_of(uint64_t seed, size_t max, bool logarithmic)
{
	struct mempool *pool = make_pool(64 * MIB, 64 * MIB, 0);
	size_t asked = 0, length;
	void **buffers = calloc(4 * MIB, sizeof(*buffers));
	struct mempool_buffer b;
	size_t count = 0;

	for (;;) {
		length = next_random(&seed) % max + 1;
		if (logarithmic)
			length = (length >> next_random(&seed) % 14) + 1;
		if (mempool_alloc(pool, length, 0, &b))
			break;
		asked += length;
		buffers[count++] = b.addr;
		assert_true(count < 4 * MIB);
	}
	assert_true(asked >= 64 * MIB / 8 * 7);
	assert_int_equal(query(pool).failures, 1);
	/* The next one may be smaller; what was given back can be had as one piece. */
	while (count)
		assert_int_equal(mempool_free(pool, buffers[--count]), 0);
	assert_int_equal(mempool_alloc(pool, 64 * MIB, 0, &b), 0);
	assert_int_equal(mempool_alloc(pool, 1, 0, &b), -ENOMEM);
	assert_int_equal(query(pool).failures, 2);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	free(buffers);
	assert_int_equal(mempool_destroy(pool), 0);
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
	struct mempool *pool = make_pool(4 * MIB, 64 * MIB, flags);
	struct piece pieces[512] = {0};
	uint64_t seed = 4242;
	size_t given;

	for (unsigned round = 0; round < rounds; round++) {
		struct piece *p = &pieces[next_random(&seed) % ARRAY_LEN(pieces)];
		struct mempool_buffer b;

		if (p->addr) {
			piece_check(p);
			assert_int_equal(mempool_free(pool, p->addr), 0);
			p->addr = NULL;
		} else {
			p->length =
				(next_random(&seed) % (300 * KIB) >> next_random(&seed) % 18) + 1;
			if (mempool_alloc(pool, p->length, 1ul << next_random(&seed) % 14, &b)) {
				assert_int_equal(mempool_grow(pool, 2 * MIB), 0);
				continue;
			}
			p->addr = b.addr;
			p->fill = round;
			memset(p->addr, p->fill, p->length);
		}
		if (round % 1000 == 999)
			assert_int_equal(mempool_shrink(pool, 4 * MIB, &given), 0);
	}
	for (unsigned i = 0; i < ARRAY_LEN(pieces); i++)
		if (pieces[i].addr) {
			piece_check(&pieces[i]);
			assert_int_equal(mempool_free(pool, pieces[i].addr), 0);
		}
	assert_int_equal(query(pool).in_use, 0);
	assert_int_equal(query(pool).errors, 0);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(query(pool).bytes, 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

static void test_churn(void **state)
{
	churn(0, 60000);
}

static void test_churn_in_debug_mode(void **state)
{
	churn(MEMPOOL_DEBUG, 10000);
}

/* S3: an allocation never grows the pool; only who asks for it does, up to the limit. */
static void test_growth_and_limit(void **state)
{
	struct mempool *pool = make_pool(0, 6 * MIB, 0);
	struct mempool_buffer a, b;
	size_t given;

	assert_int_equal(mempool_alloc(pool, 1, 0, &a), -ENOMEM);
	assert_int_equal(mempool_grow(pool, 1), 0);
	assert_int_equal(query(pool).bytes, 2 * MIB);
	assert_int_equal(mempool_alloc(pool, 2 * MIB + 1, 0, &a), -ENOMEM);
	assert_int_equal(mempool_grow(pool, 6 * MIB), -ENOMEM);
	assert_int_equal(query(pool).bytes, 2 * MIB);
	assert_int_equal(mempool_grow(pool, 4 * MIB), 0);
	assert_int_equal(mempool_grow(pool, 1), -ENOMEM);
	/* One buffer in all three blocks. */
	assert_int_equal(mempool_alloc(pool, 6 * MIB, 0, &a), 0);
	memset(a.addr, 1, 6 * MIB);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 0);
	assert_int_equal(mempool_free(pool, a.addr), 0);
	/* A buffer in the first block keeps that one. */
	assert_int_equal(mempool_alloc(pool, MIB, 0, &a), 0);
	assert_int_equal(mempool_alloc(pool, 3 * MIB, 0, &b), 0);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 2 * MIB);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_shrink(pool, 2 * MIB + 4096, &given), 0);
	assert_int_equal(given, 2 * MIB);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, NULL), 0);
	assert_int_equal(query(pool).bytes, 2 * MIB);
	assert_int_equal(mempool_free(pool, a.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* What is given back to the system is gone from the file as well, and comes back as zeros. */
static void test_shrink_frees_memory(void **state)
{
	struct mempool *pool = make_pool(8 * MIB, 8 * MIB, MEMPOOL_NO_HUGE);
	struct mempool_location where;
	struct mempool_buffer b;
	struct stat st;
	int fd;

	assert_int_equal(mempool_alloc(pool, 8 * MIB, 0, &b), 0);
	memset(b.addr, 0xee, 8 * MIB);
	assert_int_equal(mempool_locate(pool, b.addr, &where), 0);
	fd = where.fd;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, 8 * MIB);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_shrink(pool, 6 * MIB, NULL), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, 2 * MIB);
	assert_int_equal(mempool_locate(pool, (char *)b.addr + 2 * MIB, &where), -EINVAL);
	assert_int_equal(mempool_grow(pool, 6 * MIB), 0);
	assert_int_equal(mempool_alloc(pool, 8 * MIB, 0, &b), 0);
	for (size_t i = 2 * MIB; i < 8 * MIB; i += 999)
		assert_int_equal(((char *)b.addr)[i], 0);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* A neighbour that maps the file sees the buffer; nobody can take the memory away from it. */
static void test_location(void **state)
{
	struct mempool *pool = make_pool(4 * MIB, 8 * MIB, 0);
	struct mempool_location where;
	struct mempool_buffer b;
	int seals, local;
	uint64_t block;
	char *view;

	assert_int_equal(mempool_locate(pool, &local, &where), -EINVAL);
	assert_int_equal(mempool_alloc(pool, 3 * MIB, 0, &b), 0);
	memset(b.addr, 0x3c, 3 * MIB);
	for (size_t at = 0; at < 3 * MIB; at += 777777) {
		assert_int_equal(mempool_locate(pool, (char *)b.addr + at, &where), 0);
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
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* A device in software keeps the blocks of what it has registered, and no others. */
static void test_hold(void **state)
{
	struct mempool *pool = make_pool(8 * MIB, 8 * MIB, 0), *lazy;
	struct mempool_hold hold, other;
	struct mempool_location where;
	struct mempool_buffer b;
	int local, fd;
	struct stat st;
	size_t given;
	char *block;

	assert_int_equal(mempool_hold(&local, sizeof(local), &hold), -EINVAL);
	assert_int_equal(mempool_alloc(pool, 8 * MIB, 0, &b), 0);
	block = b.addr;
	assert_int_equal(mempool_hold(block, 0, &hold), -EINVAL);
	assert_int_equal(mempool_hold(block, 8 * MIB + 1, &hold), -EINVAL);
	assert_int_equal(mempool_hold(block - 1, 2, &hold), -EINVAL);
	assert_int_equal(mempool_hold(block + 1, SIZE_MAX, &hold), -EINVAL);
	/* One byte of the second block and one of the third. */
	assert_int_equal(mempool_hold(block + 4 * MIB - 1, 2, &hold), 0);
	assert_int_equal(mempool_locate(pool, block + 4 * MIB - 1, &where), 0);
	assert_int_equal(hold.fd, where.fd);
	assert_int_equal(hold.pages, where.pages);
	assert_ptr_equal(hold.base + where.offset, block + 4 * MIB - 1);
	assert_true(hold.resident);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 4 * MIB);
	assert_int_equal(mempool_locate(pool, block + 2 * MIB, &where), 0);
	assert_int_equal(mempool_locate(pool, block + 4 * MIB, &where), 0);
	assert_int_equal(mempool_locate(pool, block, &where), -EINVAL);
	assert_int_equal(mempool_hold(block, 4 * MIB, &other), -EINVAL);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, &given), -EBUSY);
	assert_int_equal(given, 0);
	mempool_release(&hold);
	assert_int_equal(mempool_shrink(pool, SIZE_MAX, &given), 0);
	assert_int_equal(given, 4 * MIB);
	/* A destroyed pool's pages are the system's again, but for huge ones that neighbours may touch. */
	assert_int_equal(mempool_grow(pool, 2 * MIB), 0);
	assert_int_equal(mempool_alloc(pool, 100, 0, &b), 0);
	assert_int_equal(mempool_hold(b.addr, 100, &hold), 0);
	fd = dup(hold.fd);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks * 512, hold.pages == MEMPOOL_PAGES_PLAIN ? 0 : 2 * MIB);
	close(fd);
	mempool_release(&hold);
	/* Later pools have other numbers, and nothing to do with old holds. */
	lazy = make_pool(2 * MIB, 2 * MIB, MEMPOOL_LAZY);
	assert_int_equal(mempool_alloc(lazy, 100, 0, &b), 0);
	assert_int_equal(mempool_hold(b.addr, 100, &other), 0);
	assert_false(other.resident);
	assert_int_not_equal(other.file, hold.file);
	assert_int_equal(mempool_free(lazy, b.addr), 0);
	assert_int_equal(mempool_destroy(lazy), 0);
	mempool_release(&other);
}

struct holder {
	char *block;
	_Atomic bool stop;
	_Atomic unsigned held;
};

static void *hold_thread(void *arg)
{
	struct holder *h = arg;
	struct mempool_hold hold;

	while (!h->stop)
		if (!mempool_hold(h->block, 1, &hold)) {
			*(volatile char *)h->block += 1;
			h->held++;
			mempool_release(&hold);
		}
	return NULL;
}

/* What is held is there, whoever takes it away at that moment. */
static void test_hold_against_shrink(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, MEMPOOL_LAZY);
	struct holder h = {.stop = false};
	struct mempool_buffer b;
	pthread_t thread;
	size_t given;
	unsigned shrunk = 0;

	assert_int_equal(mempool_alloc(pool, 2 * MIB, 0, &b), 0);
	h.block = b.addr;
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(pthread_create(&thread, NULL, hold_thread, &h), 0);
	for (unsigned i = 0; i < 3000 || (i < 1000000 && !(shrunk && h.held)); i++) {
		mempool_shrink(pool, SIZE_MAX, &given);
		if (given) {
			shrunk++;
			assert_int_equal(mempool_grow(pool, 2 * MIB), 0);
		}
	}
	h.stop = true;
	pthread_join(thread, NULL);
	assert_true(shrunk && h.held);
	assert_int_equal(mempool_destroy(pool), 0);
}

/*
 * A hugetlb memfd can be made with no huge page free: the pool finds out and says so. Where there are
 * huge pages, it has used them.
 */
static void test_huge_pages_or_not(void **state)
{
	struct mempool *pool = make_pool(4 * MIB, 4 * MIB, 0);
	struct mempool_statistics s = query(pool);
	struct mempool_attr attr;
	bool none = s.blocks_plain == 2;
	int err;

	assert_int_equal(s.blocks, 2);
	assert_int_equal(s.fallbacks, s.blocks_plain);
	assert_int_equal(s.blocks_1g, 0);
	assert_int_equal(s.blocks_2m, 2 - s.blocks_plain);
	assert_int_equal(mempool_destroy(pool), 0);

	mempool_attr_init(&attr);
	attr.bytes = 4 * MIB;
	attr.flags = MEMPOOL_REQUIRE_HUGE;
	err = mempool_create(&attr, &pool);
	assert_int_equal(err, none ? -ENOMEM : 0);
	if (!err) {
		assert_int_equal(query(pool).blocks_2m, 2);
		assert_int_equal(mempool_destroy(pool), 0);
	}
	pool = make_pool(4 * MIB, 4 * MIB, MEMPOOL_NO_HUGE);
	assert_int_equal(query(pool).blocks_plain, 2);
	assert_int_equal(query(pool).fallbacks, 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* A forked child has none of the pool's memory, instead of sharing it. */
static void test_fork(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct mempool_location where;
	struct mempool_hold hold;
	struct mempool_buffer b;
	int status, ends[2];
	char page[4096];
	pid_t pid;

	assert_int_equal(mempool_alloc(pool, 4096, 4096, &b), 0);
	assert_int_equal(pipe(ends), 0);
	memset(b.addr, 0x5a, 4096);
	pid = fork();
	/* Something else may lie there by now, and that is not the pool's. */
	if (!pid)
		_exit(!mempool_locate(NULL, b.addr, &where)		      ? 2
		      : !mempool_hold(b.addr, 1, &hold)			      ? 3
		      : write(ends[1], b.addr, 4096) == -1 && errno == EFAULT ? 0
		      : read(ends[0], page, 4096) == 4096 && page[0] != 0x5a  ? 0
									      : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* With MEMPOOL_FORK it has a copy of its own, even of what the parent changes right away. */
static void test_fork_copies(void **state)
{
	struct mempool *pool = make_pool(4 * MIB, 8 * MIB, MEMPOOL_FORK);
	struct mempool_location where;
	struct mempool_buffer a, b;
	unsigned char *bytes;
	int status, ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(mempool_alloc(pool, 3 * MIB, 0, &a), 0);
	assert_int_equal(mempool_alloc(pool, 100, 0, &b), 0);
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
		ok &= !mempool_free(pool, b.addr) && !mempool_grow(pool, 2 * MIB);
		ok &= !mempool_alloc(pool, 100 * KIB, 0, &b) && !mempool_free(pool, b.addr);
		ok &= !mempool_locate(NULL, bytes, &where) && where.pages == MEMPOOL_PAGES_PLAIN;
		ok &= !mempool_free(pool, bytes) && !mempool_destroy(pool);
		_exit(!ok);
	}
	memset(bytes, 2, 3 * MIB);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 3 * MIB; i++)
		assert_int_equal(bytes[i], 2);
	assert_int_equal(mempool_length(pool, bytes), a.length);
	assert_int_equal(mempool_length(pool, bytes + 16), 0);
	assert_int_equal(mempool_free(pool, bytes), 0);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* So does one whose parent has closed all descriptors, as daemons do. */
static void test_fork_copies_closed(void **state)
{
	struct mempool *pool = make_pool(4 * MIB, 8 * MIB, MEMPOOL_FORK);
	struct mempool_location where;
	struct mempool_buffer b, guard;
	char *bytes;
	int status;
	pid_t pid;

	assert_int_equal(mempool_alloc(pool, 3 * MIB, 0, &b), 0);
	assert_int_equal(mempool_alloc(pool, 4096, 4096, &guard), 0);
	bytes = b.addr;
	memset(bytes, 1, 3 * MIB);
	memset(guard.addr, 4, 4096);
	assert_int_equal(mprotect(guard.addr, 4096, PROT_NONE), 0);
	assert_int_equal(mempool_locate(pool, bytes, &where), 0);
	close(where.fd);
	pid = fork();
	if (!pid) {
		bool ok = *(char *)guard.addr == 4;

		for (size_t i = 0; i < 3 * MIB; i++)
			ok &= bytes[i] == 1;
		memset(bytes, 3, 3 * MIB);
		ok &= !mempool_grow(pool, 2 * MIB) && !mempool_locate(NULL, bytes, &where);
		ok &= !mempool_free(pool, bytes) && !mempool_free(pool, guard.addr);
		ok &= !mempool_destroy(pool);
		_exit(!ok);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (size_t i = 0; i < 3 * MIB; i++)
		assert_int_equal(bytes[i], 1);
	assert_int_equal(mempool_grow(pool, 2 * MIB), -EBADF);
	assert_int_equal(mempool_free(pool, bytes), 0);
	assert_int_equal(mempool_free(pool, guard.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* A process whose files may not be so long gets an error, and not the signal that the kernel has for it. */
static void test_file_limit(void **state)
{
	struct rlimit limit = {MIB, MIB};
	struct mempool *pool;
	int status;
	pid_t pid = fork();

	if (!pid) {
		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(mempool_create(NULL, &pool) != -EFBIG);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define RING 256

struct crowd {
	struct mempool *pool;
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
		struct mempool_buffer b;
		uint64_t *old;

		if (mempool_alloc(crowd->pool, length, 0, &b))
			continue;
		*(uint64_t *)b.addr = (uintptr_t)b.addr;
		old = atomic_exchange(&crowd->ring[next_random(&seed) % RING], b.addr);
		if (old && (*old != (uintptr_t)old || mempool_free(crowd->pool, old)))
			crowd->failed = true;
	}
	return NULL;
}

/*
 * Locks that other threads hold when a thread forks are free in the child. The thread sanitizer does
 * not follow a fork among threads.
 */
#ifndef __SANITIZE_THREAD__
static void test_fork_among_threads(void **state)
{
	struct crowd crowd = {.pool = make_pool(8 * MIB, 8 * MIB, MEMPOOL_FORK)};
	struct mempool_buffer b;
	pthread_t threads[2];
	int status;

	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, crowd_thread, &crowd);
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid) {
			for (unsigned n = 0; n < 100; n++)
				if (!mempool_alloc(crowd.pool, 1000 * n + 1, 0, &b))
					mempool_free(crowd.pool, b.addr);
			mempool_shrink(crowd.pool, 2 * MIB, NULL);
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
			assert_int_equal(mempool_free(crowd.pool, crowd.ring[i]), 0);
	assert_int_equal(mempool_destroy(crowd.pool), 0);
}
#endif

/* Caches of threads that end go back; those of threads that live are collected when need be. */
static void test_threads(void **state)
{
	struct crowd crowd = {.pool = make_pool(8 * MIB, 8 * MIB, 0)};
	struct mempool_buffer b;
	pthread_t threads[4];

	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, crowd_thread, &crowd);
	for (unsigned i = 0; i < 50; i++) {
		query(crowd.pool);
		mempool_shrink(crowd.pool, 2 * MIB, NULL);
		mempool_grow(crowd.pool, 2 * MIB);
	}
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_false(crowd.failed);
	for (unsigned i = 0; i < RING; i++)
		if (crowd.ring[i])
			assert_int_equal(mempool_free(crowd.pool, crowd.ring[i]), 0);
	assert_int_equal(query(crowd.pool).in_use, 0);
	assert_int_equal(query(crowd.pool).allocs, query(crowd.pool).frees);
	mempool_grow(crowd.pool, 8 * MIB - query(crowd.pool).bytes);
	assert_int_equal(mempool_alloc(crowd.pool, 8 * MIB, 0, &b), 0);
	assert_int_equal(mempool_free(crowd.pool, b.addr), 0);
	assert_int_equal(mempool_destroy(crowd.pool), 0);
}

struct hoarder {
	struct mempool *pool;
	pthread_barrier_t barrier;
};

static void *hoarder_thread(void *arg)
{
	struct hoarder *h = arg;
	struct mempool_buffer b[32];

	for (unsigned i = 0; i < ARRAY_LEN(b); i++)
		mempool_alloc(h->pool, 4096, 0, &b[i]);
	for (unsigned i = 0; i < ARRAY_LEN(b); i++)
		mempool_free(h->pool, b[i].addr);
	pthread_barrier_wait(&h->barrier); /* its cache is full */
	pthread_barrier_wait(&h->barrier); /* the pool is gone */
	return NULL;
}

/* What lies in another thread's cache is not lost; and a pool may go before a thread that used it. */
static void test_cache_of_another_thread(void **state)
{
	struct hoarder h = {.pool = make_pool(2 * MIB, 2 * MIB, 0)};
	struct mempool_buffer b;
	pthread_t thread;

	pthread_barrier_init(&h.barrier, NULL, 2);
	pthread_create(&thread, NULL, hoarder_thread, &h);
	pthread_barrier_wait(&h.barrier);
	assert_int_equal(mempool_alloc(h.pool, 2 * MIB, 0, &b), 0);
	assert_int_equal(mempool_free(h.pool, b.addr), 0);
	assert_int_equal(mempool_destroy(h.pool), 0);
	pthread_barrier_wait(&h.barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&h.barrier);
}

static void test_debug_double_free(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, MEMPOOL_DEBUG);
	struct mempool_buffer b;

	for (size_t length = 1; length < 500000; length *= 7) {
		uint64_t errors = query(pool).errors;

		assert_int_equal(mempool_alloc(pool, length, 0, &b), 0);
		assert_int_equal(mempool_free(pool, b.addr), 0);
		assert_int_equal(mempool_free(pool, b.addr), -EINVAL);
		assert_int_equal(query(pool).errors, errors + 1);
	}
	assert_int_equal(query(pool).in_use, 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* One byte beyond the length is found, and so is one that hits the noted length itself. */
static void test_debug_overflow(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, MEMPOOL_DEBUG);
	struct mempool_buffer b;
	unsigned char *bytes, saved;

	for (size_t length = 1; length < 500000; length = length * 3 + 1) {
		assert_int_equal(mempool_alloc(pool, length, 0, &b), 0);
		assert_int_equal(b.length, length);
		bytes = b.addr;
		memset(bytes, 0xff, length);
		for (unsigned at = 0; at < 16; at += 5) {
			saved = bytes[length + at];
			bytes[length + at] ^= 0x40;
			assert_int_equal(mempool_free(pool, bytes), -EOVERFLOW);
			bytes[length + at] = saved;
		}
		assert_int_equal(mempool_free(pool, bytes), 0);
	}
	assert_true(query(pool).errors >= 4);
	assert_int_equal(mempool_destroy(pool), 0);
}

/* What has run over the place where its length is kept has none, rather than any. */
static void test_debug_overflow_far(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, MEMPOOL_DEBUG);
	struct mempool_buffer b;
	unsigned char saved[100];

	assert_int_equal(mempool_alloc(pool, 100, 0, &b), 0);
	memcpy(saved, (char *)b.addr + 100, sizeof(saved));
	memset(b.addr, 0x41, 200);
	assert_int_equal(mempool_length(pool, b.addr), 0);
	assert_int_equal(mempool_free(pool, b.addr), -EOVERFLOW);
	memcpy((char *)b.addr + 100, saved, sizeof(saved));
	assert_int_equal(mempool_length(pool, b.addr), 100);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
}

static void test_debug_write_after_free(void **state)
{
	struct mempool *pool = make_pool(2 * MIB, 2 * MIB, MEMPOOL_DEBUG);
	struct mempool_buffer a, b;

	assert_int_equal(mempool_alloc(pool, 2000, 0, &a), 0);
	assert_int_equal(mempool_free(pool, a.addr), 0);
	((char *)a.addr)[1000] = 1;
	assert_int_equal(mempool_alloc(pool, 2000, 0, &b), 0);
	assert_ptr_equal(a.addr, b.addr);
	assert_int_equal(query(pool).errors, 1);
	assert_int_equal(mempool_free(pool, b.addr), 0);
	assert_int_equal(mempool_destroy(pool), 0);
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
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_hold_against_shrink),
		cmocka_unit_test(test_huge_pages_or_not),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_copies),
		cmocka_unit_test(test_fork_copies_closed),
		cmocka_unit_test(test_file_limit),
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

	return cmocka_run_group_tests_name("mempool_alloc", tests, NULL, NULL);
}

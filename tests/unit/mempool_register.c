/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registration (S4), permission match (S5) and the image of the tables, with a device that only
 * gives keys: rows exact to the byte, dead after free; shared keys; what is kept for reuse and what
 * must not be.
 */
#include "mempool_test.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define LW  RMEMPOOL_LOCAL_WRITE
#define RW  RMEMPOOL_REMOTE_WRITE
#define RR  RMEMPOOL_REMOTE_READ
#define RA  RMEMPOOL_REMOTE_ATOMIC

static struct rmempool_request request(const struct rmempool_mr *mr)
{
	return (struct rmempool_request){
		.lkey = mr->lkey,
		.rkey = mr->rkey,
		.domain = mr->domain,
		.rights = RW,
		.addr = (uintptr_t)mr->addr,
		.length = mr->length,
	};
}

struct match_case {
	const char *what;
	int64_t addr; /* added to what is right: */
	int64_t length;
	int lkey,
		rkey; /* 0: as they are; 1: not given; 2: another one; 3: those of the neighbour */
	uint32_t rights;
	uint32_t domain;
	enum rmempool_verdict want;
};

static const struct match_case match_cases[] = {
	{"all of it", 0, 0, 0, 0, RW | RR, 0, RMEMPOOL_OK},
	{"R_Key alone", 0, 0, 1, 0, RW, 0, RMEMPOOL_OK},
	{"L_Key alone", 0, 0, 0, 1, LW, 0, RMEMPOOL_OK},
	{"last byte", 999, -999, 0, 0, RR, 0, RMEMPOOL_OK},
	{"one byte more", 0, 1, 0, 0, RW, 0, RMEMPOOL_OUT_OF_BOUNDS},
	{"one byte before", -1, 0, 0, 0, RW, 0, RMEMPOOL_OUT_OF_BOUNDS},
	{"one byte behind", 1000, -999, 0, 0, RW, 0, RMEMPOOL_OUT_OF_BOUNDS},
	{"a length that wraps", 8, -1001, 0, 0, RW, 0, RMEMPOOL_OUT_OF_BOUNDS},
	{"a right that was not given", 0, 0, 0, 0, RA, 0, RMEMPOOL_NO_RIGHTS},
	{"remote rights without R_Key", 0, 0, 0, 1, RW, 0, RMEMPOOL_NO_KEY},
	{"no key at all", 0, 0, 1, 1, LW, 0, RMEMPOOL_NO_KEY},
	{"no such L_Key", 0, 0, 2, 0, RW, 0, RMEMPOOL_NO_KEY},
	{"no such R_Key", 0, 0, 0, 2, RW, 0, RMEMPOOL_NO_KEY},
	{"L_Key of another registration", 0, 0, 3, 0, RW, 0, RMEMPOOL_NO_KEY},
	{"R_Key of another registration", 0, 0, 0, 3, RW, 0, RMEMPOOL_NO_KEY},
	{"both of another, whose memory it is not", 0, 0, 3, 3, RW, 0, RMEMPOOL_OUT_OF_BOUNDS},
	{"another PD", 0, 0, 0, 0, RW, 7, RMEMPOOL_WRONG_PD},
	{"no length, any key (IBTA 9.4.3)", 0, -1000, 2, 2, RA, 7, RMEMPOOL_OK},
};

static uint32_t pick(int how, uint32_t own, uint32_t neighbour)
{
	return how == 0 ? own : how == 1 ? 0 : how == 2 ? own ^ 0x5500 : neighbour;
}

static void match_all(bool two_keys)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_image *image;
	struct rmempool_mr *mr, *other;
	struct rmempool_buffer a, b;
	struct rmempool_request q;

	fake.two_keys = two_keys;
	assert_int_equal(rmempool_alloc(pool, 1000, 0, &a, sizeof(a)), 0);
	assert_int_equal(rmempool_alloc(pool, 1000, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], a.addr, 1000, ALL, &mr), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 1000, ALL, &other), 0);
	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	assert_true((mr->lkey != mr->rkey) == two_keys);
	for (unsigned i = 0; i < ARRAY_LEN(match_cases); i++) {
		const struct match_case *c = &match_cases[i];

		q = request(mr);
		q.addr += c->addr;
		q.length += c->length;
		q.lkey = pick(c->lkey, mr->lkey, other->lkey);
		q.rkey = pick(c->rkey, mr->rkey, other->rkey);
		q.rights = c->rights;
		q.domain += c->domain;
		if (rmempool_match(image, &q) != c->want)
			fail_msg("%s: %d and not %d", c->what, rmempool_match(image, &q), c->want);
	}
	/* An R_Key is no L_Key and the other way round, where they differ. */
	q = request(mr);
	q.lkey = mr->rkey;
	q.rkey = mr->lkey;
	assert_int_equal(rmempool_match(image, &q), two_keys ? RMEMPOOL_NO_KEY : RMEMPOOL_OK);
	rmempool_image_close(image);
	assert_int_equal(rmempool_free(pool, a.addr), 0);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(fake.live, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void test_match(void **state)
{
	match_all(false);
}

static void test_match_two_keys(void **state)
{
	match_all(true);
}

/* Freeing a buffer ends all of its registrations, of every PD and device, and nobody else's. */
static void test_dead_after_free(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_image *images[3];
	struct rmempool_mr *mr[3], *other;
	struct rmempool_buffer a, b;
	struct rmempool_request q;
	unsigned i;

	assert_int_equal(rmempool_alloc(pool, 500, 0, &a, sizeof(a)), 0);
	assert_int_equal(rmempool_alloc(pool, 500, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 500, ALL, &other), 0);
	for (i = 0; i < 3; i++) {
		assert_int_equal(rmempool_image(pool, &fake_pds[i], &images[i]), 0);
		assert_int_equal(rmempool_register(pool, &fake_pds[i], (char *)a.addr + i, 100, ALL,
						   &mr[i]),
				 0);
		q = request(mr[i]);
		assert_int_equal(rmempool_match(images[i], &q), RMEMPOOL_OK);
	}
	assert_int_not_equal(mr[0]->domain, mr[1]->domain);
	assert_int_equal(fake.live, 4);
	q = request(mr[1]);
	assert_int_equal(rmempool_deregister(pool, mr[1]), 0);
	assert_int_equal(rmempool_match(images[1], &q), RMEMPOOL_NO_KEY);
	assert_int_equal(fake.live, 3);
	q = request(mr[2]);
	assert_int_equal(rmempool_free(pool, a.addr), 0);
	assert_int_equal(rmempool_match(images[2], &q), RMEMPOOL_NO_KEY);
	assert_int_equal(fake.live, 1);
	q = request(other);
	assert_int_equal(rmempool_match(images[0], &q), RMEMPOOL_OK);
	assert_int_equal(rmempool_forget(pool, &fake_pds[0]), -EBUSY);
	assert_int_equal(rmempool_destroy(pool), -EBUSY);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_forget(pool, &fake_pds[0]), 0);
	for (i = 0; i < 3; i++)
		rmempool_image_close(images[i]);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* What is registered lies in one buffer, up to its last byte and no further. */
static void test_range(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_location where;
	struct rmempool_mr *mr;
	struct rmempool_buffer b;
	char *addr;

	assert_int_equal(rmempool_alloc(pool, 5000, 0, &b, sizeof(b)), 0);
	addr = b.addr;
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr + 1, b.length - 1, ALL, &mr),
			 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr + 1, b.length, ALL, &mr),
			 -EINVAL);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr, SIZE_MAX, ALL, &mr), -EINVAL);
	assert_int_equal(rmempool_free(pool, addr), 0);
	/* Large buffers too; and memory of the pool that is in no buffer. */
	assert_int_equal(rmempool_alloc(pool, 100000, 0, &b, sizeof(b)), 0);
	addr = b.addr;
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr + 77777, 10, ALL, &mr), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr + b.length, 1, ALL, &mr),
			 -EINVAL);
	assert_int_equal(rmempool_locate(pool, addr, &where, sizeof(where)), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr - where.offset - 4096, 8192,
					   ALL, &mr),
			 -EINVAL);
	assert_int_equal(rmempool_free(pool, addr), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr, 10, ALL, &mr), -EINVAL);
	assert_int_equal(fake.live, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* A device that refuses leaves no trace; neither does a window that keeps a region alive. */
static void test_device_refuses(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_image *image;
	struct rmempool_mr *mr;
	struct rmempool_buffer b;
	struct rmempool_request q;

	assert_int_equal(rmempool_alloc(pool, 100, 0, &b, sizeof(b)), 0);
	fake.fail = EPERM;
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 100, ALL, &mr), -EPERM);
	assert_int_equal(query(pool).registrations, 0);
	assert_int_equal(rmempool_forget(pool, &fake_pds[0]), 0);
	fake.fail = 0;
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 100, ALL, &mr), 0);
	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	fake.fail_dereg = EBUSY;
	assert_int_equal(rmempool_deregister(pool, mr), -EBUSY);
	assert_int_equal(rmempool_free(pool, b.addr), -EBUSY);
	q = request(mr);
	assert_int_equal(rmempool_match(image, &q), RMEMPOOL_OK);
	assert_int_equal(query(pool).registrations, 1);
	fake.fail_dereg = 0;
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_match(image, &q), RMEMPOOL_NO_KEY);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void test_limit(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_mr *mr[4096], *one_more;
	struct rmempool_buffer b;

	assert_int_equal(rmempool_alloc(pool, 4096, 0, &b, sizeof(b)), 0);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(rmempool_register(pool, &fake_pds[0], (char *)b.addr + i, 1, ALL,
						   &mr[i]),
				 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 1, ALL, &one_more), -ENOSPC);
	assert_int_equal(rmempool_deregister(pool, mr[77]), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 1, ALL, &one_more), 0);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(fake.live, 0);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* A device that gives no R_Key to what nobody may reach from afar, as the kernel's rxe. */
static void test_no_r_key(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	struct rmempool_image *image;
	struct rmempool_mr *mr[3];
	struct rmempool_request q;
	struct rmempool_buffer b;

	fake.no_r_key = true;
	assert_int_equal(rmempool_alloc(pool, 4096, 0, &b, sizeof(b)), 0);
	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	for (unsigned i = 0; i < ARRAY_LEN(mr); i++) {
		assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 100,
						   i == 2 ? ALL : IBV_ACCESS_LOCAL_WRITE, &mr[i]),
				 0);
		assert_int_equal(!mr[i]->rkey, i < 2);
	}
	for (unsigned i = 0; i < 2; i++) {
		q = request(mr[i]);
		q.rights = RMEMPOOL_LOCAL_WRITE;
		assert_int_equal(rmempool_match(image, &q), RMEMPOOL_OK);
		q.rkey = q.lkey;
		assert_int_equal(rmempool_match(image, &q), RMEMPOOL_NO_KEY);
		q.lkey = 0;
		assert_int_equal(rmempool_match(image, &q), RMEMPOOL_NO_KEY);
	}
	assert_int_equal(rmempool_deregister(pool, mr[0]), 0);
	q = request(mr[1]);
	q.rights = RMEMPOOL_LOCAL_WRITE;
	assert_int_equal(rmempool_match(image, &q), RMEMPOOL_OK);
	assert_int_equal(rmempool_free(pool, b.addr), 0);
	assert_int_equal(rmempool_match(image, &q), RMEMPOOL_NO_KEY);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fake.live, 0);
}

static struct rmempool *full;
static int in_between;

static void one_too_many(void)
{
	struct rmempool_mr *mr;
	int local;

	in_between = rmempool_register(full, &fake_pds[0], &local, sizeof(local), ALL, &mr);
}

/* Who asks while the last one is still being made is told as well that there is no room. */
static void test_limit_at_one_time(void **state)
{
	struct rmempool_mr *mr;
	struct rmempool_attr attr;
	int local;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = 0;
	attr.max_registrations = 1;
	assert_int_equal(rmempool_create(&attr, &full), 0);
	fake.within = one_too_many;
	assert_int_equal(rmempool_register(full, &fake_pds[0], &local, sizeof(local), ALL, &mr), 0);
	assert_int_equal(in_between, -ENOSPC);
	assert_int_equal(rmempool_deregister(full, mr), 0);
	/* A place that was taken for nothing is free again. */
	fake.fail = EPERM;
	assert_int_equal(rmempool_register(full, &fake_pds[0], &local, sizeof(local), ALL, &mr),
			 -EPERM);
	fake.fail = 0;
	assert_int_equal(rmempool_register(full, &fake_pds[0], &local, sizeof(local), ALL, &mr), 0);
	assert_int_equal(rmempool_deregister(full, mr), 0);
	assert_int_equal(rmempool_destroy(full), 0);
}

/* Shared keys: a registration for each block, whatever is allocated; and they open the block. */
static void test_shared_keys(void **state)
{
	struct rmempool_attr attr;
	struct rmempool_buffer b[100], large;
	struct rmempool_image *image;
	struct rmempool_mr *mr;
	struct rmempool *pool;
	uint64_t seed = 99;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = attr.limit = 8 * MIB;
	attr.shared_pd = &fake_pds[0];
	attr.shared_access = ALL;
	assert_int_equal(rmempool_create(&attr, &pool), 0);
	assert_int_equal(fake.calls, 4);
	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	for (unsigned i = 0; i < 100; i++) {
		size_t length = next_random(&seed) % 70000 + 1;

		assert_int_equal(rmempool_alloc(pool, length, 0, &b[i], sizeof(b[i])), 0);
		assert_true(b[i].lkey && b[i].rkey);
		struct rmempool_request q = {
			.lkey = b[i].lkey,
			.rkey = b[i].rkey,
			.domain = 1,
			.rights = RW,
			.addr = (uintptr_t)b[i].addr,
			.length = b[i].length,
		};
		assert_int_equal(rmempool_match(image, &q), RMEMPOOL_OK);
	}
	assert_int_equal(fake.calls, 4);
	/* A buffer may have keys of its own beside. */
	assert_int_equal(rmempool_register(pool, &fake_pds[0], b[0].addr, 1, ALL, &mr), 0);
	assert_int_not_equal(mr->rkey, b[0].rkey);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(rmempool_free(pool, b[i].addr), 0);
	assert_int_equal(rmempool_alloc(pool, 2 * MIB + 1, 0, &large, sizeof(large)), 0);
	assert_int_equal(large.lkey | large.rkey, 0);
	assert_int_equal(rmempool_forget(pool, &fake_pds[0]), -EBUSY);
	assert_int_equal(rmempool_free(pool, large.addr), 0);
	assert_int_equal(fake.live, 4);
	assert_int_equal(rmempool_shrink(pool, 4 * MIB, NULL), 0);
	assert_int_equal(fake.live, 2);
	fake.fail = EPERM;
	assert_int_equal(rmempool_grow(pool, 2 * MIB), -EPERM);
	assert_int_equal(query(pool).blocks, 2);
	fake.fail = 0;
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fake.live, 0);
}

/* A pool that cannot be ended, as a window is bound to one of its blocks, is as it was. */
static void test_shared_keys_destroy(void **state)
{
	struct rmempool_attr attr;
	struct rmempool_buffer b[4];
	struct rmempool *pool;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = attr.limit = 8 * MIB;
	attr.shared_pd = &fake_pds[0];
	attr.shared_access = ALL;
	assert_int_equal(rmempool_create(&attr, &pool), 0);
	fake.fail_dereg = EBUSY;
	fake.passes = 2;
	assert_int_equal(rmempool_destroy(pool), -EBUSY);
	fake.fail_dereg = 0;
	assert_int_equal(fake.live, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(rmempool_alloc(pool, 2 * MIB, 0, &b[i], sizeof(b[i])), 0);
		assert_true(b[i].lkey && b[i].rkey);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(rmempool_free(pool, b[i].addr), 0);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fake.live, 0);
}

/* A device that keeps the blocks does not keep them from the pool itself. */
static void test_shared_keys_held(void **state)
{
	fake.holds = true;
	test_shared_keys(state);
}

/* Another process sees the image as it becomes, through the descriptor alone. */
static void test_image_in_another_process(void **state)
{
	struct rmempool *pool = make_pool(2 * MIB, 2 * MIB, 0);
	int to_child[2], to_parent[2], status, fd;
	struct rmempool_image *image, *view;
	struct rmempool_mr *mr;
	struct rmempool_buffer b;
	struct rmempool_request q;
	pid_t pid;

	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	fd = rmempool_image_fd(image);
	assert_int_equal(pipe(to_child) | pipe(to_parent), 0);
	pid = fork();
	if (!pid) {
		enum rmempool_verdict verdict;

		if (rmempool_image_open(fd, &view))
			_exit(1);
		close(to_child[1]);
		while (read(to_child[0], &q, sizeof(q)) == sizeof(q)) {
			verdict = rmempool_match(view, &q);
			if (write(to_parent[1], &verdict, sizeof(verdict)) != sizeof(verdict))
				_exit(2);
		}
		rmempool_image_close(view);
		_exit(0);
	}
	for (unsigned round = 0; round < 200; round++) {
		enum rmempool_verdict verdict;

		assert_int_equal(rmempool_alloc(pool, 100, 0, &b, sizeof(b)), 0);
		assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 100, ALL, &mr), 0);
		q = request(mr);
		assert_int_equal(write(to_child[1], &q, sizeof(q)), sizeof(q));
		assert_int_equal(read(to_parent[0], &verdict, sizeof(verdict)), sizeof(verdict));
		assert_int_equal(verdict, RMEMPOOL_OK);
		assert_int_equal(rmempool_free(pool, b.addr), 0);
		assert_int_equal(write(to_child[1], &q, sizeof(q)), sizeof(q));
		assert_int_equal(read(to_parent[0], &verdict, sizeof(verdict)), sizeof(verdict));
		assert_int_equal(verdict, RMEMPOOL_NO_KEY);
	}
	close(to_child[0]);
	close(to_child[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(to_parent[0]);
	close(to_parent[1]);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
}

/* Any file is not an image. */
static void test_image_open(void **state)
{
	struct rmempool_image *image;
	int fd = memfd_create("none", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(rmempool_image_open(-1, &image), -EINVAL);
	assert_int_equal(ftruncate(fd, MIB), 0);
	assert_int_equal(rmempool_image_open(fd, &image), -EINVAL);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(rmempool_image_open(fd, &image), -EINVAL);
	close(fd);
}

/* A sealed memfd with these bytes. */
static int file_with(const void *bytes, size_t length)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(write(fd, bytes, length), length);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	return fd;
}

/* Asks whatever can be asked about keys and addresses that there may be. */
static void ask_all(struct rmempool_image *image, const struct rmempool_mr *mr, unsigned count)
{
	struct rmempool_segment segments[4];
	struct rmempool_cache *cache;
	struct rmempool_request q;
	unsigned n;

	assert_int_equal(rmempool_cache_create(image, 16, &cache), 0);
	for (unsigned i = 0; i < count; i++) {
		q = request(&mr[i]);
		rmempool_lookup(image, &q, segments, sizeof(*segments), ARRAY_LEN(segments), &n);
		rmempool_cache_lookup(cache, &q, segments, sizeof(*segments), ARRAY_LEN(segments),
				      &n);
		rmempool_translate(image, q.addr - 5 * MIB, 10 * MIB, segments, sizeof(*segments),
				   ARRAY_LEN(segments));
	}
	rmempool_cache_destroy(cache);
}

/*
 * An image that is damaged is none, or questions about it have some answer: nobody reads beyond it,
 * or goes round for ever. What is not zero is what there is to damage.
 */
static void test_image_damaged(void **state)
{
	struct rmempool *pool = make_pool(4 * MIB, 8 * MIB, 0);
	struct rmempool_mr mr[40], *one;
	struct rmempool_image *image, *view;
	size_t length, used = 0, *words;
	struct rmempool_buffer b;
	uint64_t seed = 77, *bytes, was;
	unsigned opened = 0;
	int fd;

	assert_int_equal(rmempool_image(pool, &fake_pds[0], &image), 0);
	for (unsigned i = 0; i < ARRAY_LEN(mr); i++) {
		assert_int_equal(rmempool_alloc(pool, 50000, 0, &b, sizeof(b)), 0);
		assert_int_equal(rmempool_register(pool, &fake_pds[0], b.addr, 50000, ALL, &one),
				 0);
		mr[i] = *one;
	}
	length = lseek(rmempool_image_fd(image), 0, SEEK_END);
	bytes = malloc(length);
	words = malloc(length);
	assert_int_equal(pread(rmempool_image_fd(image), bytes, length, 0), length);
	for (size_t i = 0; i < length / sizeof(*bytes); i++)
		if (bytes[i])
			words[used++] = i;
	fd = file_with(bytes, length);
	for (unsigned round = 0; round < 3000; round++) {
		/* The constant parts are few words among many. */
		size_t at = words[next_random(&seed) % (round % 2 ? used : 32)];

		was = bytes[at];
		switch (next_random(&seed) % 4) {
		case 0: was ^= 1ull << next_random(&seed) % 64; break;
		case 1: was = next_random(&seed); break;
		case 2: was = 0; break;
		case 3: was += next_random(&seed) % 65 - 32; break;
		}
		assert_int_equal(pwrite(fd, &was, sizeof(was), at * sizeof(was)), sizeof(was));
		if (!rmempool_image_open(fd, &view)) {
			ask_all(view, mr, ARRAY_LEN(mr));
			rmempool_image_close(view);
			opened++;
		}
		assert_int_equal(pwrite(fd, &bytes[at], sizeof(was), at * sizeof(was)),
				 sizeof(was));
	}
	assert_true(opened);
	assert_int_equal(rmempool_image_open(fd, &view), 0);
	ask_all(view, mr, ARRAY_LEN(mr));
	rmempool_image_close(view);
	close(fd);
	free(words);
	free(bytes);
	for (unsigned i = 0; i < ARRAY_LEN(mr); i++)
		assert_int_equal(rmempool_free(pool, mr[i].addr), 0);
	rmempool_image_close(image);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void *map(size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void register_once(struct rmempool *pool, void *addr, size_t length, int access)
{
	struct rmempool_mr *mr;

	assert_int_equal(rmempool_register(pool, &fake_pds[0], addr, length, access, &mr), 0);
	assert_ptr_equal(mr->addr, addr);
	assert_int_equal(rmempool_deregister(pool, mr), 0);
}

/* Whether this kernel tells of unmapping. */
static bool can_watch(struct rmempool *pool)
{
	char *p = map(4096);
	uint64_t hits = query(pool).reuse_hits;

	register_once(pool, p, 4096, IBV_ACCESS_LOCAL_WRITE);
	register_once(pool, p, 4096, IBV_ACCESS_LOCAL_WRITE);
	munmap(p, 4096);
	return query(pool).reuse_hits > hits;
}

/* Only the same range, PD and access are the same registration; and none with remote rights. */
static void test_reuse_what(void **state)
{
	struct rmempool *pool = make_pool(0, 2 * MIB, RMEMPOOL_REUSE);
	struct rmempool_mr *a, *b;
	unsigned calls;
	char *p;

	if (!can_watch(pool)) {
		assert_int_equal(rmempool_destroy(pool), 0);
		skip();
	}
	p = map(64 * KIB);
	calls = fake.calls;
	register_once(pool, p + 100, 10000, LW);
	assert_int_equal(fake.calls, calls + 1);
	for (unsigned i = 0; i < 100; i++)
		register_once(pool, p + 100, 10000, LW);
	assert_int_equal(fake.calls, calls + 1);
	register_once(pool, p + 100, 10001, LW);
	register_once(pool, p + 101, 10000, LW);
	register_once(pool, p + 100, 10000, 0);
	assert_int_equal(fake.calls, calls + 4);
	/* Two holders of one. */
	assert_int_equal(rmempool_register(pool, &fake_pds[0], p + 100, 10000, LW, &a), 0);
	assert_int_equal(rmempool_register(pool, &fake_pds[0], p + 100, 10000, LW, &b), 0);
	assert_ptr_equal(a, b);
	assert_int_equal(rmempool_forget(pool, &fake_pds[0]), -EBUSY);
	assert_int_equal(rmempool_deregister(pool, a), 0);
	assert_int_equal(rmempool_deregister(pool, b), 0);
	assert_int_equal(rmempool_forget(pool, &fake_pds[0]), 0);
	assert_int_equal(fake.live, 0);
	/* Remote rights: dead at once, every time. */
	calls = fake.calls;
	for (unsigned i = 0; i < 3; i++) {
		register_once(pool, p, 4096, LW | RW);
		register_once(pool, p, 4096, RR);
		assert_int_equal(fake.live, 0);
	}
	assert_int_equal(fake.calls, calls + 6);
	munmap(p, 64 * KIB);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fake.live, 0);
}

/* Memory of files and what is shared is not kept: it can vanish without a word. */
static void test_reuse_not_of_files(void **state)
{
	struct rmempool *pool = make_pool(0, 2 * MIB, RMEMPOOL_REUSE);
	int fd = memfd_create("file", MFD_CLOEXEC);
	char *p;

	assert_int_equal(ftruncate(fd, MIB), 0);
	for (unsigned i = 0; i < 3; i++) {
		p = i == 2 ? mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				  0)
			   : mmap(NULL, MIB, PROT_READ | PROT_WRITE, i ? MAP_SHARED : MAP_PRIVATE,
				  fd, 0);
		assert_true(p != MAP_FAILED);
		register_once(pool, p, MIB, LW);
		assert_int_equal(fake.live, 0);
		munmap(p, MIB);
	}
	close(fd);
	assert_int_equal(rmempool_destroy(pool), 0);
}

static void gone_munmap(char *p)
{
	munmap(p + 16 * KIB, 4096);
}

static void gone_map_over(char *p)
{
	assert_ptr_equal(mmap(p + 16 * KIB, 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + 16 * KIB);
}

static void gone_advice(char *p)
{
	madvise(p + 16 * KIB, 4096, MADV_DONTNEED);
}

static void gone_moved(char *p)
{
	char *to = map(64 * KIB);

	assert_ptr_equal(mremap(p, 64 * KIB, 64 * KIB, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	munmap(to, 64 * KIB);
}

/* However memory goes, its registration goes; even if the same address is mapped again at once. */
static void test_reuse_unmapped(void **state)
{
	void (*const ways[])(char *p) = {gone_munmap, gone_map_over, gone_advice, gone_moved};
	struct rmempool *pool = make_pool(0, 2 * MIB, RMEMPOOL_REUSE);
	unsigned calls;
	char *p = NULL;

	if (!can_watch(pool)) {
		assert_int_equal(rmempool_destroy(pool), 0);
		skip();
	}
	for (unsigned i = 0; i < 200; i++) {
		p = mmap(p, 64 * KIB, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | (p ? MAP_FIXED : 0), -1, 0);
		assert_true(p != MAP_FAILED);
		memset(p, 1, 64 * KIB);
		calls = fake.calls;
		register_once(pool, p, 40 * KIB, LW);
		assert_int_equal(fake.calls, calls + 1);
		register_once(pool, p, 40 * KIB, LW);
		assert_int_equal(fake.calls, calls + 1);
		ways[i % ARRAY_LEN(ways)](p);
	}
	assert_true(query(pool).reuse_unmapped >= 200);
	munmap(p, 64 * KIB);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fake.live, 0);
}

/* free() gives memory back by calls of libc's own, which no hook sees. */
static void test_reuse_free(void **state)
{
	struct rmempool *pool = make_pool(0, 2 * MIB, RMEMPOOL_REUSE);
	void *p;

	if (!can_watch(pool)) {
		assert_int_equal(rmempool_destroy(pool), 0);
		skip();
	}
	for (unsigned i = 0; i < 20; i++) {
		unsigned calls = fake.calls;

		p = malloc(8 * MIB);
		register_once(pool, p, 8 * MIB, LW);
		assert_int_equal(fake.calls, calls + 1);
		free(p);
		malloc_trim(0);
	}
	assert_int_equal(rmempool_destroy(pool), 0);
}

static _Atomic bool reuse_stop;

static void *reuse_thread(void *arg)
{
	struct rmempool *pool = arg;
	struct rmempool_mr *mr;

	while (!reuse_stop) {
		char *p = map(32 * KIB);

		for (unsigned i = 0; i < 4; i++)
			if (!rmempool_register(pool, &fake_pds[0], p, 32 * KIB, LW, &mr))
				rmempool_deregister(pool, mr);
		munmap(p, 32 * KIB);
	}
	return NULL;
}

/* Threads that map, register and unmap at once: every new mapping has a new registration. */
static void test_reuse_threads(void **state)
{
	struct rmempool *pool = make_pool(0, 2 * MIB, RMEMPOOL_REUSE);
	pthread_t threads[3];
	unsigned calls;

	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, reuse_thread, pool);
	for (unsigned i = 0; i < 300; i++) {
		char *p = map(32 * KIB);

		calls = fake.last;
		register_once(pool, p, 32 * KIB, LW);
		assert_true(fake.last > calls);
		munmap(p, 32 * KIB);
	}
	reuse_stop = true;
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(rmempool_destroy(pool), 0);
	assert_int_equal(fake.live, 0);
}

struct registrars {
	struct rmempool *pool;
	_Atomic bool failed;
};

static void *registrar_thread(void *arg)
{
	struct registrars *all = arg;
	struct rmempool_image *image;
	struct rmempool_request q;
	struct rmempool_buffer b;
	struct rmempool_mr *mr;

	if (rmempool_image(all->pool, &fake_pds[0], &image))
		return NULL;
	for (unsigned i = 0; i < 3000; i++) {
		if (rmempool_alloc(all->pool, 3000, 0, &b, sizeof(b)) ||
		    rmempool_register(all->pool, &fake_pds[i % 2], b.addr, 3000, ALL, &mr)) {
			all->failed = true;
			break;
		}
		q = request(mr);
		if (rmempool_match(image, &q) != RMEMPOOL_OK || rmempool_free(all->pool, b.addr) ||
		    rmempool_match(image, &q) != RMEMPOOL_NO_KEY)
			all->failed = true;
	}
	rmempool_image_close(image);
	return NULL;
}

static void test_threads(void **state)
{
	struct registrars all = {.pool = make_pool(4 * MIB, 4 * MIB, 0)};
	pthread_t threads[4];

	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_create(&threads[i], NULL, registrar_thread, &all);
	for (unsigned i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_false(all.failed);
	assert_int_equal(fake.live, 0);
	assert_int_equal(rmempool_destroy(all.pool), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fake_reset)
	const struct CMUnitTest tests[] = {
		TEST(test_match),
		TEST(test_match_two_keys),
		TEST(test_dead_after_free),
		TEST(test_range),
		TEST(test_device_refuses),
		TEST(test_no_r_key),
		TEST(test_limit),
		TEST(test_limit_at_one_time),
		TEST(test_shared_keys),
		TEST(test_shared_keys_held),
		TEST(test_shared_keys_destroy),
		TEST(test_image_in_another_process),
		TEST(test_image_open),
		TEST(test_image_damaged),
		TEST(test_reuse_what),
		TEST(test_reuse_not_of_files),
		TEST(test_reuse_unmapped),
		TEST(test_reuse_free),
		TEST(test_reuse_threads),
		TEST(test_threads),
	};

	return cmocka_run_group_tests_name("rmempool_register", tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Creates, grows, shrinks and destroys pools (the method's S1 and S2) by calling the units in the
 * right order. Growing and shrinking are guarded by grow_lock.
 */
#include "common/sized.h"
#include "mempool/pool.h"

#include <errno.h>
#include <stdlib.h>

#define MIN_SHIFT	  21
#define MAX_SHIFT	  36
#define MAX_BYTES	  (1ull << 40)
#define MAX_NODE	  1023
#define MAX_REGISTRATIONS (1u << 21)
#define FLAGS                                                                         \
	(RMEMPOOL_NO_HUGE | RMEMPOOL_REQUIRE_HUGE | RMEMPOOL_DEBUG | RMEMPOOL_REUSE | \
	 RMEMPOOL_LAZY | RMEMPOOL_FORK)

static const struct rmempool_attr defaults = {
	.size = sizeof(defaults),
	.bytes = 16ul << 20,
	.limit = 64ul << 30,
	.block_size = 2ul << 20,
	.numa_node = -1,
	.max_registrations = 1u << 18,
};

void rmempool_attr_init(struct rmempool_attr *attr, size_t size)
{
	copy_defaults(attr, size, &defaults, sizeof(defaults));
}

static int check(const struct rmempool_attr *a)
{
	if (a->flags & ~FLAGS || (a->flags & RMEMPOOL_NO_HUGE && a->flags & RMEMPOOL_REQUIRE_HUGE))
		return -EINVAL;
	if (a->block_size & (a->block_size - 1) || a->block_size < 1ul << MIN_SHIFT ||
	    a->block_size > 1ul << MAX_SHIFT)
		return -EINVAL;
	if (!a->limit || a->limit > MAX_BYTES || a->bytes > a->limit)
		return -EINVAL;
	if (a->numa_node < -1 || a->numa_node > MAX_NODE)
		return -EINVAL;
	if (!a->max_registrations || a->max_registrations > MAX_REGISTRATIONS)
		return -EINVAL;
	return 0;
}

static uint32_t blocks_for(const struct rmempool *pool, size_t bytes)
{
	return (bytes + (1ul << pool->block_shift) - 1) >> pool->block_shift;
}

/* The units, lowest first. */
static int init(struct rmempool *pool)
{
	int err = mempool_mapping_init(pool);

	if (err)
		return err;
	err = mempool_alloc_init(pool);
	if (err) {
		mempool_mapping_destroy(pool);
		return err;
	}
	err = mempool_registration_init(pool);
	if (err) {
		mempool_alloc_destroy(pool);
		mempool_mapping_destroy(pool);
	}
	return err;
}

/* The default limit is more than there are addresses in a process under ulimit -v or valgrind. */
static int init_within(struct rmempool *pool)
{
	const struct rmempool_attr *a = &pool->attr;
	bool by_default = a->limit == defaults.limit;
	size_t limit = a->limit;
	int err;

	do {
		pool->max_blocks = blocks_for(pool, limit);
		err = init(pool);
		limit /= 2;
	} while (err == -ENOMEM && by_default && limit >= a->bytes && limit >= a->block_size);
	return err;
}

static void destroy(struct rmempool *pool)
{
	mempool_registration_destroy(pool);
	mempool_alloc_destroy(pool);
	mempool_mapping_destroy(pool);
	pthread_mutex_destroy(&pool->grow_lock);
	pthread_mutex_destroy(&pool->lock);
	pthread_mutex_destroy(&pool->mr_lock);
	free(pool);
}

int rmempool_create(const struct rmempool_attr *wanted, struct rmempool **out)
{
	static _Atomic uint64_t ids;
	struct rmempool_attr attr = defaults;
	struct rmempool *pool;
	int err;

	err = wanted ? copy_in(&attr, sizeof(attr), wanted) : 0;
	if (!err)
		err = check(&attr);
	if (err)
		return err;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	pool->attr = attr;
	pool->id = atomic_fetch_add(&ids, 1) + 1;
	pool->block_shift = __builtin_ctzl(attr.block_size);
	pthread_mutex_init(&pool->grow_lock, NULL);
	pthread_mutex_init(&pool->lock, NULL);
	pthread_mutex_init(&pool->mr_lock, NULL);
	err = init_within(pool);
	if (err) {
		free(pool);
		return err;
	}
	/* Added to the list first: ibv_reg_mr() of its blocks may ask where they lie. */
	mempool_list_add(pool);
	err = attr.bytes ? rmempool_grow(pool, attr.bytes) : 0;
	if (err) {
		mempool_list_remove(pool);
		destroy(pool);
		return err;
	}
	*out = pool;
	return 0;
}

/* Removes a block whose pages the allocator has given up. */
static int block_remove(struct rmempool *pool, uint32_t block)
{
	struct mempool_block *b = &pool->blocks[block];
	int err = 0;

	/* A hold is counted before present is checked; here present is cleared before holds are
	 * checked. */
	atomic_store(&b->present, false);
	if (mempool_block_held(b))
		err = -EBUSY;
	if (!err)
		err = mempool_unshare_block(pool, block);
	if (err) {
		atomic_store(&b->present, true);
		return err;
	}
	/* Tables must not refer to freed memory. */
	mempool_registration_remap(pool, block, 1);
	mempool_mapping_remove(pool, block);
	return 0;
}

/* Adds a block without handing it to the allocator yet. */
static int block_add(struct rmempool *pool, uint32_t block)
{
	int err = mempool_mapping_add(pool, block);

	if (err)
		return err;
	err = mempool_share_block(pool, block);
	if (err)
		mempool_mapping_remove(pool, block);
	return err;
}

/* Undoes block_add() for the blocks before that one; no other thread has seen them. */
static void undo(struct rmempool *pool, const uint32_t *added, uint32_t count)
{
	while (count--) {
		mempool_unshare_block(pool, added[count]);
		mempool_mapping_remove(pool, added[count]);
	}
}

static int grow(struct rmempool *pool, uint32_t want, uint32_t *added)
{
	uint32_t pages = 1u << (pool->block_shift - MEMPOOL_PAGE_SHIFT), count = 0;
	int err;

	for (uint32_t block = 0; block < pool->max_blocks && count < want; block++) {
		if (pool->blocks[block].present)
			continue;
		err = block_add(pool, block);
		if (err) {
			undo(pool, added, count);
			return err;
		}
		added[count++] = block;
	}
	if (count < want) {
		undo(pool, added, count);
		return -ENOMEM;
	}
	mempool_registration_remap(pool, added[0], added[count - 1] - added[0] + 1);
	pthread_mutex_lock(&pool->lock);
	for (uint32_t i = 0; i < count; i++)
		mempool_pages_add(&pool->pages, added[i] * pages, pages);
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

int rmempool_grow(struct rmempool *pool, size_t bytes)
{
	uint32_t want, *added;
	int err;

	if (bytes > (size_t)pool->max_blocks << pool->block_shift)
		return -ENOMEM;
	want = blocks_for(pool, bytes);
	if (!want)
		return 0;
	added = calloc(want, sizeof(*added));
	if (!added)
		return -ENOMEM;
	pthread_mutex_lock(&pool->grow_lock);
	err = grow(pool, want, added);
	pthread_mutex_unlock(&pool->grow_lock);
	free(added);
	return err;
}

int rmempool_shrink(struct rmempool *pool, size_t bytes, size_t *given)
{
	uint32_t pages = 1u << (pool->block_shift - MEMPOOL_PAGE_SHIFT), at = MEMPOOL_NO_PAGE;
	size_t block = 1ul << pool->block_shift, sum = 0;
	int err = 0;

	mempool_alloc_drain(pool);
	pthread_mutex_lock(&pool->grow_lock);
	while (bytes - sum >= block) {
		pthread_mutex_lock(&pool->lock);
		at = mempool_pages_remove(&pool->pages, pages, at);
		pthread_mutex_unlock(&pool->lock);
		if (at == MEMPOOL_NO_PAGE)
			break;
		/* A block that is held without containing a buffer is skipped. */
		err = block_remove(pool, at / pages);
		if (err) {
			pthread_mutex_lock(&pool->lock);
			mempool_pages_add(&pool->pages, at, pages);
			pthread_mutex_unlock(&pool->lock);
		} else {
			sum += block;
		}
	}
	pthread_mutex_unlock(&pool->grow_lock);
	if (given)
		*given = sum;
	return sum ? 0 : err;
}

/* Ends all shared keys, or none: on failure those that have ended are registered again. */
static int end_shared_keys(struct rmempool *pool)
{
	uint32_t block;
	int err = 0;

	for (block = 0; block < pool->max_blocks && !err; block++)
		err = mempool_unshare_block(pool, block);
	while (err && block--)
		if (pool->blocks[block].present && !pool->blocks[block].registration)
			mempool_share_block(pool, block);
	return err;
}

int rmempool_destroy(struct rmempool *pool)
{
	struct rmempool_statistics s;
	int err;

	if (!pool)
		return 0;
	rmempool_query(pool, &s, sizeof(s));
	if (s.in_use || mempool_registration_busy(pool))
		return -EBUSY;
	err = end_shared_keys(pool);
	if (err)
		return err;
	mempool_list_remove(pool);
	destroy(pool);
	return 0;
}

void rmempool_query(struct rmempool *pool, struct rmempool_statistics *statistics, size_t size)
{
	struct rmempool_statistics s = {0};

	mempool_alloc_query(pool, &s);
	mempool_registration_query(pool, &s);
	pthread_mutex_lock(&pool->grow_lock);
	s.blocks_plain = pool->block_count[RMEMPOOL_PAGES_PLAIN];
	s.blocks_2m = pool->block_count[RMEMPOOL_PAGES_2M];
	s.blocks_1g = pool->block_count[RMEMPOOL_PAGES_1G];
	s.fallbacks = pool->fallbacks;
	pthread_mutex_unlock(&pool->grow_lock);
	s.blocks = s.blocks_plain + s.blocks_2m + s.blocks_1g;
	s.bytes = s.blocks << pool->block_shift;
	copy_out(statistics, size, &s, sizeof(s));
}

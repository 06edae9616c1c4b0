/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Pool allocation, the method's S3. Two layers:
 *
 *   thread cache   slots of each class that this thread freed, or took in advance; its lock is
 *                  contended only when another thread that is short of memory drains the caches
 *   central        spans and runs of pages, under the pool's lock
 *
 * A thread has a cache for each pool that it uses, in a list of its own; the pool has a list of its
 * caches too. Both lists, and the end of threads and pools, are guarded by caches_lock; the slots
 * of a cache by its busy flag. A cache whose pool was destroyed has pool_id 0 and is freed with its
 * thread.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "common/sized.h"
#include "mempool/debug.h"
#include "mempool/spans.h"

#define CACHE_SLOTS 64
#define CACHE_BYTES 131072u /* of one class */

struct mempool_thread_cache {
	_Atomic bool busy;
	_Atomic uint64_t pool_id;
	struct rmempool *pool;
	struct mempool_thread_cache *next_of_thread;
	struct mempool_thread_cache *next_of_pool;
	uint64_t given, taken;
	int64_t in_use;
	uint16_t count[MEMPOOL_CLASSES];
	uintptr_t slots[MEMPOOL_CLASSES][CACHE_SLOTS];
};

static __thread struct mempool_thread_cache *my_caches __attribute__((tls_model("initial-exec")));

static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static inline void cache_lock(struct mempool_thread_cache *cache)
{
	while (atomic_exchange_explicit(&cache->busy, true, memory_order_acquire))
		sched_yield();
}

static inline void cache_unlock(struct mempool_thread_cache *cache)
{
	atomic_store_explicit(&cache->busy, false, memory_order_release);
}

static unsigned cache_room(unsigned cls)
{
	unsigned n = CACHE_BYTES / mempool_class_bytes(cls);

	return n < CACHE_SLOTS ? n : CACHE_SLOTS;
}

/* Returns slots to the central part. */
static void give_back(struct rmempool *pool, const uintptr_t *slots, unsigned count)
{
	struct mempool_extent extent;

	pthread_mutex_lock(&pool->lock);
	for (unsigned i = 0; i < count; i++)
		if (mempool_extent_at(pool, slots[i], &extent))
			mempool_spans_give(pool, &extent);
	pthread_mutex_unlock(&pool->lock);
}

/* Empties a cache whose pool exists. */
static void cache_drain(struct rmempool *pool, struct mempool_thread_cache *cache)
{
	uintptr_t slots[CACHE_SLOTS];
	unsigned count;

	for (unsigned cls = 0; cls < MEMPOOL_CLASSES; cls++) {
		cache_lock(cache);
		count = cache->count[cls];
		memcpy(slots, cache->slots[cls], count * sizeof(*slots));
		cache->count[cls] = 0;
		cache_unlock(cache);
		give_back(pool, slots, count);
	}
}

/* Adds a cache's counts to the pool's; caches_lock held. */
static void cache_count(struct rmempool *pool, struct mempool_thread_cache *cache)
{
	cache_lock(cache);
	pthread_mutex_lock(&pool->lock);
	pool->given += cache->given;
	pool->taken += cache->taken;
	pool->in_use += cache->in_use;
	pthread_mutex_unlock(&pool->lock);
	cache->given = cache->taken = cache->in_use = 0;
	cache_unlock(cache);
}

static void cache_unlink(struct rmempool *pool, struct mempool_thread_cache *cache)
{
	struct mempool_thread_cache **at = &pool->caches;

	while (*at != cache)
		at = &(*at)->next_of_pool;
	*at = cache->next_of_pool;
}

static void thread_ends(void *list)
{
	struct mempool_thread_cache *cache, *next;

	pthread_mutex_lock(&caches_lock);
	for (cache = my_caches; cache; cache = next) {
		next = cache->next_of_thread;
		if (atomic_load(&cache->pool_id)) {
			cache_drain(cache->pool, cache);
			cache_count(cache->pool, cache);
			cache_unlink(cache->pool, cache);
		}
		free(cache);
	}
	my_caches = NULL;
	pthread_mutex_unlock(&caches_lock);
}

static void make_key(void)
{
	key_made = !pthread_key_create(&key, thread_ends);
}

static struct mempool_thread_cache *cache_make(struct rmempool *pool)
{
	struct mempool_thread_cache *cache, **at;

	pthread_once(&key_once, make_key);
	cache = key_made ? calloc(1, sizeof(*cache)) : NULL;
	if (!cache || pthread_setspecific(key, cache)) {
		free(cache);
		return NULL;
	}
	pthread_mutex_lock(&caches_lock);
	for (at = &my_caches; *at;) {
		struct mempool_thread_cache *old = *at;

		if (atomic_load(&old->pool_id)) {
			at = &old->next_of_thread;
		} else {
			*at = old->next_of_thread;
			free(old);
		}
	}
	cache->pool = pool;
	atomic_store(&cache->pool_id, pool->id);
	cache->next_of_pool = pool->caches;
	pool->caches = cache;
	cache->next_of_thread = my_caches;
	my_caches = cache;
	pthread_mutex_unlock(&caches_lock);
	return cache;
}

/* This thread's cache, or NULL: it works without one. */
static inline struct mempool_thread_cache *cache_of(struct rmempool *pool)
{
	struct mempool_thread_cache *cache;

	for (cache = my_caches; cache; cache = cache->next_of_thread)
		if (atomic_load_explicit(&cache->pool_id, memory_order_relaxed) == pool->id)
			return cache;
	return cache_make(pool);
}

void mempool_alloc_drain(struct rmempool *pool)
{
	struct mempool_thread_cache *cache;

	pthread_mutex_lock(&caches_lock);
	for (cache = pool->caches; cache; cache = cache->next_of_pool)
		cache_drain(pool, cache);
	pthread_mutex_unlock(&caches_lock);
}

int mempool_alloc_init(struct rmempool *pool)
{
	uint32_t pages = (uint64_t)pool->max_blocks << (pool->block_shift - MEMPOOL_PAGE_SHIFT);
	int err = mempool_pages_init(&pool->pages, pages);

	if (err)
		return err;
	pool->slots = mmap(NULL, (size_t)pages * 32, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (pool->slots == MAP_FAILED) {
		mempool_pages_destroy(&pool->pages);
		return -ENOMEM;
	}
	for (unsigned cls = 0; cls < MEMPOOL_CLASSES; cls++)
		pool->spans[cls] = MEMPOOL_NO_PAGE;
	if (getrandom(&pool->cookie, sizeof(pool->cookie), GRND_NONBLOCK) < 0)
		pool->cookie = (uintptr_t)pool * 0x9e3779b97f4a7c15ull;
	return 0;
}

/* No thread uses the pool any more; caches of it may still exist. */
void mempool_alloc_destroy(struct rmempool *pool)
{
	struct mempool_thread_cache *cache;

	pthread_mutex_lock(&caches_lock);
	for (cache = pool->caches; cache; cache = cache->next_of_pool)
		atomic_store(&cache->pool_id, 0);
	pthread_mutex_unlock(&caches_lock);
	munmap(pool->slots, (size_t)pool->pages.count * 32);
	mempool_pages_destroy(&pool->pages);
}

void mempool_alloc_query(struct rmempool *pool, struct rmempool_statistics *s)
{
	struct mempool_thread_cache *cache;

	pthread_mutex_lock(&caches_lock);
	for (cache = pool->caches; cache; cache = cache->next_of_pool)
		cache_count(pool, cache);
	pthread_mutex_unlock(&caches_lock);
	pthread_mutex_lock(&pool->lock);
	s->in_use = pool->in_use;
	s->allocs = pool->given;
	s->frees = pool->taken;
	s->failures = pool->failures;
	pthread_mutex_unlock(&pool->lock);
	s->errors = atomic_load_explicit(&pool->errors, memory_order_relaxed);
}

void mempool_caches_hold(bool hold)
{
	if (hold)
		pthread_mutex_lock(&caches_lock);
	else
		pthread_mutex_unlock(&caches_lock);
}

/* Slots in caches of threads that a fork did not copy are lost: their state is unknown. */
void mempool_alloc_fork(struct rmempool *pool)
{
	struct mempool_thread_cache *cache, *mine;

	for (cache = pool->caches; cache; cache = cache->next_of_pool) {
		for (mine = my_caches; mine && mine != cache;)
			mine = mine->next_of_thread;
		if (!mine)
			memset(cache->count, 0, sizeof(cache->count));
		cache_unlock(cache);
	}
}

/* Allocates from the central part: slots of a class, or a run of pages. */
static unsigned take_central(struct rmempool *pool, unsigned cls, size_t length, size_t alignment,
			     uintptr_t *slots, unsigned want)
{
	unsigned got;

	pthread_mutex_lock(&pool->lock);
	if (cls < MEMPOOL_CLASSES) {
		got = mempool_spans_take(pool, cls, slots, want);
	} else {
		slots[0] = mempool_spans_take_large(pool, length, alignment);
		got = slots[0] != 0;
	}
	pthread_mutex_unlock(&pool->lock);
	return got;
}

/* The same; if there is no memory, drains the threads' caches and tries again. */
static unsigned take(struct rmempool *pool, unsigned cls, size_t length, size_t alignment,
		     uintptr_t *slots, unsigned want)
{
	unsigned got = take_central(pool, cls, length, alignment, slots, want);

	if (!got) {
		mempool_alloc_drain(pool);
		got = take_central(pool, cls, length, alignment, slots, 1);
	}
	return got;
}

/* Allocation without a cache; *addr 0: no memory. */
static void alloc_central(struct rmempool *pool, unsigned cls, size_t length, size_t alignment,
			  struct mempool_extent *extent)
{
	size_t room = pool->attr.flags & RMEMPOOL_DEBUG ? MEMPOOL_DEBUG_ROOM : 0;
	uintptr_t addr;

	extent->addr = 0;
	if (!take(pool, cls, length + room, alignment, &addr, 1))
		return;
	pthread_mutex_lock(&pool->lock);
	mempool_extent_at(pool, addr, extent);
	pool->given++;
	pool->in_use += extent->length;
	if (room)
		mempool_debug_dress(pool, extent, length);
	pthread_mutex_unlock(&pool->lock);
	if (room)
		extent->length = length;
}

static void refill(struct rmempool *pool, struct mempool_thread_cache *cache, unsigned cls)
{
	uintptr_t slots[CACHE_SLOTS];
	unsigned got = take(pool, cls, 0, 0, slots, cache_room(cls) / 2);

	cache_lock(cache);
	/* The cache was empty, and only its thread fills it. */
	memcpy(cache->slots[cls], slots, got * sizeof(*slots));
	cache->count[cls] = got;
	cache_unlock(cache);
}

static inline uintptr_t cache_take(struct mempool_thread_cache *cache, unsigned cls)
{
	uintptr_t addr = 0;

	cache_lock(cache);
	if (cache->count[cls]) {
		addr = cache->slots[cls][--cache->count[cls]];
		cache->given++;
		cache->in_use += mempool_class_bytes(cls);
	}
	cache_unlock(cache);
	return addr;
}

static void alloc_cached(struct rmempool *pool, struct mempool_thread_cache *cache, unsigned cls,
			 struct mempool_extent *extent)
{
	extent->addr = cache_take(cache, cls);
	if (!extent->addr) {
		refill(pool, cache, cls);
		extent->addr = cache_take(cache, cls);
		/* Another thread that was short of memory may have drained all of it. */
		if (!extent->addr) {
			alloc_central(pool, cls, 0, 0, extent);
			return;
		}
	}
	extent->length = mempool_class_bytes(cls);
}

static int fail(struct rmempool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->failures++;
	pthread_mutex_unlock(&pool->lock);
	return -ENOMEM;
}

int rmempool_alloc(struct rmempool *pool, size_t length, size_t alignment,
		   struct rmempool_buffer *buffer, size_t size)
{
	bool debug = pool->attr.flags & RMEMPOOL_DEBUG;
	size_t need = length + (debug ? MEMPOOL_DEBUG_ROOM : 0);
	struct mempool_thread_cache *cache = NULL;
	unsigned cls = MEMPOOL_CLASSES;
	struct mempool_extent extent;
	const struct mempool_block *block;
	struct rmempool_buffer other, *b = size == sizeof(*b) ? buffer : &other;

	if (!alignment)
		alignment = 16;
	if (!length || alignment & (alignment - 1) || alignment > 1ul << pool->block_shift)
		return -EINVAL;
	if (need < length)
		return fail(pool);
	if (need <= MEMPOOL_CLASS_LIMIT)
		cls = mempool_class_for(need, alignment);
	if (cls < MEMPOOL_CLASSES && !debug)
		cache = cache_of(pool);
	if (cache)
		alloc_cached(pool, cache, cls, &extent);
	else
		alloc_central(pool, cls, length, alignment, &extent);
	if (!extent.addr)
		return fail(pool);
	*b = (struct rmempool_buffer){.addr = (void *)extent.addr, .length = extent.length};
	block = &pool->blocks[mempool_block_of(pool, extent.addr)];
	if (pool->attr.shared_pd &&
	    block == &pool->blocks[mempool_block_of(pool, extent.addr + extent.length - 1)]) {
		b->lkey = block->lkey;
		b->rkey = block->rkey;
	}
	if (b == &other)
		copy_out(buffer, size, b, sizeof(*b));
	return 0;
}

static void free_cached(struct rmempool *pool, struct mempool_thread_cache *cache,
			const struct mempool_extent *extent)
{
	unsigned cls = extent->cls, room = cache_room(cls), half = room / 2;
	uintptr_t slots[CACHE_SLOTS];
	bool full;

	cache_lock(cache);
	full = cache->count[cls] >= room;
	if (full) {
		cache->count[cls] -= half;
		memcpy(slots, &cache->slots[cls][cache->count[cls]], half * sizeof(*slots));
	}
	cache->slots[cls][cache->count[cls]++] = extent->addr;
	cache->taken++;
	cache->in_use -= extent->length;
	cache_unlock(cache);
	if (full)
		give_back(pool, slots, half);
}

static int free_central(struct rmempool *pool, const struct mempool_extent *extent)
{
	int err = 0;

	pthread_mutex_lock(&pool->lock);
	if (pool->attr.flags & RMEMPOOL_DEBUG)
		err = mempool_debug_undress(pool, extent);
	if (!err) {
		pool->taken++;
		pool->in_use -= extent->length;
		if (extent->large)
			mempool_spans_give_large(pool, extent);
		else
			mempool_spans_give(pool, extent);
	}
	pthread_mutex_unlock(&pool->lock);
	return err;
}

/* Whether addr is the start of an allocated buffer; debug mode. */
static bool debug_is_buffer(struct rmempool *pool, uintptr_t addr, struct mempool_extent *extent)
{
	bool ok;

	pthread_mutex_lock(&pool->lock);
	ok = mempool_extent_at(pool, addr, extent) && extent->addr == addr &&
	     (extent->large || !mempool_spans_free(pool, extent));
	if (!ok)
		mempool_debug_complain(pool, addr, "is none, or has been freed before");
	pthread_mutex_unlock(&pool->lock);
	return ok;
}

int rmempool_free(struct rmempool *pool, void *addr)
{
	bool debug = pool->attr.flags & RMEMPOOL_DEBUG;
	struct mempool_thread_cache *cache = NULL;
	struct mempool_extent extent;
	int err;

	if (!addr)
		return 0;
	if (debug ? !debug_is_buffer(pool, (uintptr_t)addr, &extent)
		  : !mempool_extent_at(pool, (uintptr_t)addr, &extent) ||
			    extent.addr != (uintptr_t)addr)
		return -EINVAL;
	if (atomic_load_explicit(&pool->pages.run[extent.run].mrs, memory_order_acquire)) {
		err = mempool_registration_drop(pool, &extent);
		if (err)
			return err;
	}
	if (!extent.large && !debug)
		cache = cache_of(pool);
	if (!cache)
		return free_central(pool, &extent);
	free_cached(pool, cache, &extent);
	return 0;
}

size_t rmempool_length(struct rmempool *pool, const void *addr)
{
	struct mempool_extent extent;
	size_t length = 0;

	if (!mempool_has(pool, (uintptr_t)addr))
		return 0;
	pthread_mutex_lock(&pool->lock);
	if (mempool_extent_at(pool, (uintptr_t)addr, &extent) && extent.addr == (uintptr_t)addr &&
	    (extent.large || !mempool_spans_free(pool, &extent)))
		length = pool->attr.flags & RMEMPOOL_DEBUG ? mempool_debug_length(pool, &extent)
							   : extent.length;
	pthread_mutex_unlock(&pool->lock);
	return length;
}

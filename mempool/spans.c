/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Spans; see spans.h. All of it is guarded by the pool's lock, except mempool_extent_at() called by
 * the owner of a buffer: what it reads does not change while the run contains buffers.
 */
#include "mempool/spans.h"

#define SLOTS_OF_PAGE (MEMPOOL_PAGE / 16)
#define WORDS_OF_PAGE (SLOTS_OF_PAGE / 64)
#define SPAN_MIN      (4 * MEMPOOL_PAGE)

static uint32_t span_pages(uint32_t slot)
{
	uint32_t low = slot & -slot; /* 2^n of slot = odd * 2^n */
	uint32_t bytes = low < MEMPOOL_PAGE ? slot / low * MEMPOOL_PAGE : slot;

	while (bytes < SPAN_MIN)
		bytes *= 2;
	return bytes / MEMPOOL_PAGE;
}

static uint32_t span_slots(const struct mempool_run *run)
{
	return run->pages * MEMPOOL_PAGE / mempool_class_bytes(run->cls);
}

static uintptr_t page_address(const struct rmempool *pool, uint32_t page)
{
	return (uintptr_t)pool->base + page * MEMPOOL_PAGE;
}

static void list_insert(struct rmempool *pool, uint32_t at)
{
	struct mempool_run *run = &pool->pages.run[at];

	run->prev = MEMPOOL_NO_PAGE;
	run->next = pool->spans[run->cls];
	if (run->next != MEMPOOL_NO_PAGE)
		pool->pages.run[run->next].prev = at;
	pool->spans[run->cls] = at;
}

static void list_remove(struct rmempool *pool, uint32_t at)
{
	struct mempool_run *run = &pool->pages.run[at];

	if (run->next != MEMPOOL_NO_PAGE)
		pool->pages.run[run->next].prev = run->prev;
	if (run->prev != MEMPOOL_NO_PAGE)
		pool->pages.run[run->prev].next = run->next;
	else
		pool->spans[run->cls] = run->next;
}

/* With shared keys a buffer that fits into a block does not span two. */
static uint32_t within(const struct rmempool *pool, uint32_t pages)
{
	uint32_t block = 1u << (pool->block_shift - MEMPOOL_PAGE_SHIFT);

	return pool->attr.shared_pd && pages <= block ? block : 0;
}

static bool span_make(struct rmempool *pool, unsigned cls)
{
	uint32_t pages = span_pages(mempool_class_bytes(cls)), at, slots, i;
	struct mempool_run *run;
	uint64_t *words;

	at = mempool_pages_take(&pool->pages, pages, 1, within(pool, pages), MEMPOOL_RUN_SPAN);
	if (at == MEMPOOL_NO_PAGE)
		return false;
	run = &pool->pages.run[at];
	run->cls = cls;
	slots = span_slots(run);
	run->unused = slots;
	words = pool->slots + (size_t)at * WORDS_OF_PAGE;
	for (i = 0; i < slots / 64; i++)
		words[i] = ~0ull;
	if (slots % 64)
		words[i++] = (1ull << slots % 64) - 1;
	list_insert(pool, at);
	return true;
}

/* Takes slots of the first span of a class. */
static unsigned take_from(struct rmempool *pool, unsigned cls, uintptr_t *slots, unsigned want)
{
	uint32_t at = pool->spans[cls], size = mempool_class_bytes(cls);
	struct mempool_run *run = &pool->pages.run[at];
	uint64_t *words = pool->slots + (size_t)at * WORDS_OF_PAGE;
	unsigned got = 0;

	if (want > run->unused)
		want = run->unused;
	for (unsigned w = 0; got < want; w++)
		while (words[w] && got < want) {
			unsigned bit = __builtin_ctzll(words[w]);

			words[w] &= words[w] - 1;
			slots[got++] = page_address(pool, at) + (size_t)(w * 64 + bit) * size;
		}
	run->unused -= got;
	if (!run->unused)
		list_remove(pool, at);
	return got;
}

unsigned mempool_spans_take(struct rmempool *pool, unsigned cls, uintptr_t *slots, unsigned want)
{
	unsigned got = 0;

	while (got < want) {
		if (pool->spans[cls] == MEMPOOL_NO_PAGE && (got || !span_make(pool, cls)))
			break;
		got += take_from(pool, cls, slots + got, want - got);
	}
	return got;
}

bool mempool_spans_free(const struct rmempool *pool, const struct mempool_extent *extent)
{
	const uint64_t *words = pool->slots + (size_t)extent->run * WORDS_OF_PAGE;

	return words[extent->slot / 64] >> extent->slot % 64 & 1;
}

void mempool_spans_give(struct rmempool *pool, const struct mempool_extent *extent)
{
	struct mempool_run *run = &pool->pages.run[extent->run];
	uint64_t *words = pool->slots + (size_t)extent->run * WORDS_OF_PAGE;

	words[extent->slot / 64] |= 1ull << extent->slot % 64;
	if (++run->unused == 1)
		list_insert(pool, extent->run);
	if (run->unused == span_slots(run)) {
		list_remove(pool, extent->run);
		mempool_pages_give(&pool->pages, extent->run);
	}
}

uintptr_t mempool_spans_take_large(struct rmempool *pool, size_t length, size_t alignment)
{
	size_t pages = length / MEMPOOL_PAGE + (length % MEMPOOL_PAGE != 0);
	size_t align = alignment / MEMPOOL_PAGE;
	uint32_t at;

	if (pages > pool->pages.count)
		return 0;
	at = mempool_pages_take(&pool->pages, pages, align ? align : 1, within(pool, pages),
				MEMPOOL_RUN_LARGE);
	return at == MEMPOOL_NO_PAGE ? 0 : page_address(pool, at);
}

void mempool_spans_give_large(struct rmempool *pool, const struct mempool_extent *extent)
{
	mempool_pages_give(&pool->pages, extent->run);
}

bool mempool_extent_at(struct rmempool *pool, uintptr_t addr, struct mempool_extent *extent)
{
	const struct mempool_run *run;
	uint32_t page, at;
	size_t offset;

	if (!mempool_has(pool, addr))
		return false;
	page = (addr - (uintptr_t)pool->base) / MEMPOOL_PAGE;
	at = pool->pages.head[page];
	run = &pool->pages.run[at];
	if (run->state < MEMPOOL_RUN_SPAN || at > page || page - at >= run->pages)
		return false;
	*extent = (struct mempool_extent){
		.addr = page_address(pool, at),
		.length = run->pages * MEMPOOL_PAGE,
		.run = at,
		.large = run->state == MEMPOOL_RUN_LARGE,
	};
	if (extent->large)
		return true;
	offset = addr - extent->addr;
	extent->cls = run->cls;
	extent->length = mempool_class_bytes(run->cls);
	extent->slot = (uint32_t)offset / (uint32_t)extent->length;
	extent->addr += extent->slot * extent->length;
	return true;
}

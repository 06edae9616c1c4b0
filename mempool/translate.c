/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address translation, the method's S6: the VA→PA table (see translate.h for its layout and for the
 * threads that may read and write it) and the lookup in it.
 */
#include "mempool/translate.h"

#include <assert.h>

#include "common/sized.h"
#include "mempool/image.h"

#define load_acquire(p)	    atomic_load_explicit(p, memory_order_acquire)
#define load_relaxed(p)	    atomic_load_explicit(p, memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit(p, v, memory_order_release)

static_assert(sizeof(struct mempool_vapa) == 128, "layout seen by other processes");
static_assert(sizeof(struct mempool_vapa_run) == 24, "layout seen by other processes");

static void layout(struct mempool_vapa *t, uint32_t max_blocks, uint32_t max_runs)
{
	uint64_t first = ((uint64_t)max_blocks * sizeof(uint32_t) + 63) & ~63ull;

	t->max_blocks = max_blocks;
	t->max_runs = max_runs;
	t->first_offset[0] = sizeof(*t);
	t->first_offset[1] = t->first_offset[0] + first;
	t->runs_offset[0] = t->first_offset[1] + first;
	t->runs_offset[1] = t->runs_offset[0] + max_runs * sizeof(struct mempool_vapa_run);
}

size_t mempool_vapa_bytes(uint32_t max_blocks, uint32_t max_runs)
{
	struct mempool_vapa t;

	layout(&t, max_blocks, max_runs);
	return t.runs_offset[1] + max_runs * sizeof(struct mempool_vapa_run);
}

void mempool_vapa_init(struct mempool_vapa *t, uint64_t base, unsigned block_shift,
		       uint32_t max_blocks, uint32_t max_runs)
{
	t->base = base;
	t->block_shift = block_shift;
	layout(t, max_blocks, max_runs);
	store_release(&t->state, 0);
}

static inline uint64_t run_end(const struct mempool_vapa_run *r)
{
	return load_acquire(&r->va) + load_acquire(&r->length);
}

/* Are the runs in order, and does first[] refer to them, in the current state? */
static bool state_valid(const struct mempool_vapa *t, uint64_t state)
{
	const struct mempool_vapa_run *runs = mempool_vapa_runs(t, state);
	uint32_t count = (uint32_t)state, n = 0;
	uint64_t end = 0, va, length;

	if (count > t->max_runs)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		va = load_acquire(&runs[i].va);
		length = load_acquire(&runs[i].length);
		if (va < end || !length || length > UINT64_MAX - va)
			return false;
		end = va + length;
	}
	for (uint32_t b = 0; b < t->max_blocks; b++) {
		while (n < count && run_end(&runs[n]) <= t->base + ((uint64_t)b << t->block_shift))
			n++;
		if (load_acquire(&mempool_vapa_first(t, state)[b]) != n)
			return false;
	}
	return true;
}

static bool runs_valid(const struct mempool_vapa *t)
{
	uint64_t state = load_acquire(&t->state), before;
	bool valid;

	do {
		before = state;
		valid = state_valid(t, state);
		state = load_acquire(&t->state);
	} while (state != before);
	return valid;
}

bool mempool_vapa_valid(const struct mempool_vapa *t, size_t bytes)
{
	struct mempool_vapa want;

	if (bytes < sizeof(*t) || t->block_shift > 40)
		return false;
	layout(&want, t->max_blocks, t->max_runs);
	return want.first_offset[0] == t->first_offset[0] &&
	       want.first_offset[1] == t->first_offset[1] &&
	       want.runs_offset[0] == t->runs_offset[0] &&
	       want.runs_offset[1] == t->runs_offset[1] &&
	       mempool_vapa_bytes(t->max_blocks, t->max_runs) <= bytes &&
	       ((uint64_t)t->max_blocks << t->block_shift) <= UINT64_MAX - t->base && runs_valid(t);
}

void mempool_vapa_set(struct mempool_vapa *t, const struct mempool_pa_run *runs, uint32_t count)
{
	uint64_t state = ((load_relaxed(&t->state) >> 32) + 1) << 32;
	_Atomic uint32_t *first = mempool_vapa_first(t, state);
	struct mempool_vapa_run *out = mempool_vapa_runs(t, state);
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		store_release(&out[i].va, runs[i].va);
		store_release(&out[i].pa, runs[i].pa);
		store_release(&out[i].length, runs[i].length);
	}
	for (uint32_t b = 0; b < t->max_blocks; b++) {
		uint64_t start = t->base + ((uint64_t)b << t->block_shift);

		while (n < count && runs[n].va + runs[n].length <= start)
			n++;
		store_release(&first[b], n);
	}
	store_release(&t->state, state | count);
}

uint32_t mempool_vapa_count(const struct mempool_vapa *t)
{
	return (uint32_t)load_acquire(&t->state);
}

/* The first of runs [low, high) that ends beyond va, or high. */
static inline uint32_t search(const struct mempool_vapa_run *runs, uint32_t low, uint32_t high,
			      uint64_t va)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (run_end(&runs[middle]) > va)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The first run of a state that ends beyond va, starting at the block of va. */
static __attribute__((noinline)) uint32_t look_on(const struct mempool_vapa *t, uint64_t state,
						  uint64_t va, uint64_t block, uint32_t low)
{
	uint32_t count = (uint32_t)state, high = count;

	if (block + 1 < t->max_blocks)
		high = load_acquire(&mempool_vapa_first(t, state)[block + 1]) + 1;
	return search(mempool_vapa_runs(t, state), low, high < count ? high : count, va);
}

/* In one state of the table, which another process may be changing. */
static inline __attribute__((always_inline)) bool
find_in(const struct mempool_vapa *t, uint64_t state, uint64_t va, struct mempool_pa_run *run)
{
	const struct mempool_vapa_run *runs = mempool_vapa_runs(t, state);
	uint64_t block = (va - t->base) >> t->block_shift;
	uint32_t count = (uint32_t)state, low = 0;

	run->va = UINT64_MAX;
	if (count > t->max_runs)
		return false;
	if (va >= t->base && block < t->max_blocks)
		low = load_acquire(&mempool_vapa_first(t, state)[block]);
	else
		block = t->max_blocks;
	/* Mostly the first one matches: a block is one run, or part of one. */
	if (low < count && __builtin_expect(run_end(&runs[low]) <= va, 0))
		low = look_on(t, state, va, block, low + 1);
	if (low >= count)
		return false;
	run->va = load_acquire(&runs[low].va);
	run->pa = load_acquire(&runs[low].pa);
	run->length = load_acquire(&runs[low].length);
	return run->va <= va;
}

bool mempool_vapa_find(const struct mempool_vapa *t, uint64_t va, struct mempool_pa_run *run)
{
	uint64_t state = load_acquire(&t->state), before;
	bool found;

	do {
		before = state;
		found = find_in(t, state, va, run);
		state = load_acquire(&t->state);
	} while (__builtin_expect(state != before, 0));
	return found;
}

uint32_t mempool_pa_append(struct mempool_pa_run *runs, uint32_t count, struct mempool_pa_run run)
{
	struct mempool_pa_run *last = count ? &runs[count - 1] : NULL;

	if (last && last->va + last->length == run.va &&
	    (last->pa == MEMPOOL_PA_UNKNOWN
		     ? run.pa == MEMPOOL_PA_UNKNOWN
		     : run.pa != MEMPOOL_PA_UNKNOWN && last->pa + last->length == run.pa)) {
		last->length += run.length;
		return count;
	}
	runs[count] = run;
	return count + 1;
}

static inline struct rmempool_segment part_of(const struct mempool_pa_run *run, bool inside,
					      uint64_t addr, uint64_t length)
{
	uint64_t room = inside			? run->va + run->length - addr
			: run->va == UINT64_MAX ? length
						: run->va - addr;
	bool physical = inside && run->pa != MEMPOOL_PA_UNKNOWN;

	return (struct rmempool_segment){
		.addr = physical ? run->pa + (addr - run->va) : addr,
		.length = length < room ? length : room,
		.physical = physical,
	};
}

struct rmempool_segment mempool_pa_segment(const struct mempool_pa_run *run, bool inside,
					   uint64_t addr, uint64_t length)
{
	return part_of(run, inside, addr, length);
}

/* Stores the last segment. */
static void store_last(const struct mempool_segments *list)
{
	if (list->count <= list->max)
		copy_out((char *)list->at + (list->count - 1) * list->size, list->size, &list->last,
			 sizeof(list->last));
}

void mempool_segments_append(struct mempool_segments *list, struct rmempool_segment segment)
{
	/* Memory of unknown physical address and memory outside the pool may be adjacent. */
	if (list->count && list->last.physical == segment.physical &&
	    list->last.addr + list->last.length == segment.addr) {
		list->last.length += segment.length;
	} else {
		list->last = segment;
		list->count++;
	}
	store_last(list);
}

unsigned mempool_translate_all(const struct rmempool_image *image, uint64_t addr, uint64_t length,
			       struct rmempool_segment *segments, size_t size, unsigned max)
{
	struct mempool_segments list = {.at = segments, .size = size, .max = max};
	struct rmempool_segment segment;
	struct mempool_pa_run run;
	bool inside;

	while (length) {
		inside = mempool_vapa_find(image->vapa, addr, &run);
		segment = mempool_pa_segment(&run, inside, addr, length);
		addr += segment.length;
		length -= segment.length;
		mempool_segments_append(&list, segment);
	}
	return list.count;
}

unsigned rmempool_translate(const struct rmempool_image *image, uint64_t addr, uint64_t length,
			    struct rmempool_segment *segments, size_t size, unsigned max)
{
	if (!length)
		return 0;
	if (max && size == sizeof(*segments) &&
	    mempool_translate_one(image->vapa, addr, length, segments))
		return 1;
	return mempool_translate_all(image, addr, length, segments, size, max);
}

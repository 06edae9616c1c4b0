/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The cache unit: the copy of table entries in an adapter with little fast memory. It has a fixed
 * number of slots, each with a row of the registration table or a run of the VA→PA table:
 *
 *   slots    | row 0x1a00 | run va, pa, len | row 0x77f1 | run … | free | free |
 *   rows     2 0		 (by key)	   numbers of slots, sorted: the tags that an adapter
 *   runs     1 3		 (by va)	   compares all at once, searched by halves here
 *
 * Replacement is "clock": a hand goes round and skips a slot once if it has been used since. Before
 * each answer the log of the image is read (image.h), and entries that have changed are dropped.
 * One thread at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mempool/image.h"
#include "common/sized.h"
#include "mempool/match.h"

#define MAX_ENTRIES (1u << 20)

enum kind {
	KIND_FREE,
	KIND_ROW,
	KIND_RUN,
};

struct slot {
	enum kind kind;
	bool used; /* since the hand passed */
	union {
		struct mempool_row row;
		struct mempool_pa_run run;
	};
};

/* Slot numbers, in the order of their tags. */
struct tags {
	uint32_t count;
	uint32_t *slot;
};

struct rmempool_cache {
	struct rmempool_image *image;
	uint64_t seen; /* how much of the image's log was read */
	uint32_t entries;
	uint32_t
		used; /* slots 0 … used - 1 have been in use; those of them that are free are listed: */
	uint32_t free_count;
	uint32_t hand;
	uint32_t *free;
	struct slot *slots;
	struct tags rows, runs;
	struct rmempool_cache_statistics s;
};

int rmempool_cache_create(struct rmempool_image *image, unsigned entries,
			  struct rmempool_cache **out)
{
	struct rmempool_cache *c;

	if (entries < 2 || entries > MAX_ENTRIES)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->image = image;
	c->entries = entries;
	c->slots = calloc(entries, sizeof(*c->slots));
	c->free = calloc(entries, sizeof(*c->free));
	c->rows.slot = calloc(entries, sizeof(uint32_t));
	c->runs.slot = calloc(entries, sizeof(uint32_t));
	if (!c->slots || !c->free || !c->rows.slot || !c->runs.slot) {
		rmempool_cache_destroy(c);
		return -ENOMEM;
	}
	c->seen = atomic_load_explicit(&image->header->head, memory_order_acquire);
	*out = c;
	return 0;
}

void rmempool_cache_destroy(struct rmempool_cache *c)
{
	if (!c)
		return;
	free(c->slots);
	free(c->free);
	free(c->rows.slot);
	free(c->runs.slot);
	free(c);
}

static inline uint64_t tag_of(const struct slot *slot)
{
	return slot->kind == KIND_ROW ? slot->row.key : slot->run.va;
}

/* How many tags are less than or equal to that one. */
static uint32_t tags_upto(const struct rmempool_cache *c, const struct tags *t, uint64_t tag)
{
	uint32_t low = 0, high = t->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (tag_of(&c->slots[t->slot[middle]]) <= tag)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct tags *tags_of(struct rmempool_cache *c, const struct slot *slot)
{
	return slot->kind == KIND_ROW ? &c->rows : &c->runs;
}

static void slot_drop(struct rmempool_cache *c, uint32_t n)
{
	struct slot *slot = &c->slots[n];
	struct tags *t = tags_of(c, slot);
	uint32_t at = tags_upto(c, t, tag_of(slot)) - 1;

	memmove(&t->slot[at], &t->slot[at + 1], (t->count - at - 1) * sizeof(*t->slot));
	t->count--;
	slot->kind = KIND_FREE;
	c->free[c->free_count++] = n;
}

/* Evicts a slot that has not been used for one round of the hand. */
static uint32_t slot_take(struct rmempool_cache *c)
{
	if (!c->free_count && c->used < c->entries)
		return c->used++;
	if (!c->free_count) {
		while (c->slots[c->hand].used) {
			c->slots[c->hand].used = false;
			c->hand = (c->hand + 1) % c->entries;
		}
		slot_drop(c, c->hand);
		c->s.replaced++;
		c->hand = (c->hand + 1) % c->entries;
	}
	return c->free[--c->free_count];
}

static void slot_insert(struct rmempool_cache *c, const struct slot *entry)
{
	struct tags *t = tags_of(c, entry);
	uint32_t at = tags_upto(c, t, tag_of(entry)), n;

	/* A shorter run with the same start: the log is about to report that it changed. */
	if (at && tag_of(&c->slots[t->slot[at - 1]]) == tag_of(entry))
		slot_drop(c, t->slot[at - 1]);
	n = slot_take(c);
	at = tags_upto(c, t, tag_of(entry));
	c->slots[n] = *entry;
	memmove(&t->slot[at + 1], &t->slot[at], (t->count - at) * sizeof(*t->slot));
	t->slot[at] = n;
	t->count++;
}

static struct mempool_row *row_find(struct rmempool_cache *c, uint32_t key)
{
	uint32_t at = tags_upto(c, &c->rows, key);
	struct slot *slot = at ? &c->slots[c->rows.slot[at - 1]] : NULL;

	if (!slot || slot->row.key != key)
		return NULL;
	slot->used = true;
	return &slot->row;
}

static struct mempool_pa_run *run_find(struct rmempool_cache *c, uint64_t va)
{
	uint32_t at = tags_upto(c, &c->runs, va);
	struct slot *slot = at ? &c->slots[c->runs.slot[at - 1]] : NULL;

	if (!slot || va - slot->run.va >= slot->run.length)
		return NULL;
	slot->used = true;
	return &slot->run;
}

static void drop_row(struct rmempool_cache *c, uint32_t key)
{
	uint32_t at = tags_upto(c, &c->rows, key);

	if (at && c->slots[c->rows.slot[at - 1]].row.key == key) {
		slot_drop(c, c->rows.slot[at - 1]);
		c->s.dropped++;
	}
}

/* Runs that overlap or adjoin these blocks: a run may have been merged with a new block, or have
 * lost a part. */
static void drop_runs(struct rmempool_cache *c, const struct mempool_change *change)
{
	const struct mempool_vapa *vapa = c->image->vapa;
	uint64_t start = vapa->base + ((uint64_t)change->first << vapa->block_shift);
	uint64_t end = start + ((uint64_t)change->count << vapa->block_shift);

	for (uint32_t at = c->runs.count; at-- > 0;) {
		uint32_t n = c->runs.slot[at];
		const struct mempool_pa_run *run = &c->slots[n].run;

		/* Including runs that only adjoin. */
		if (run->va <= end && start <= run->va + run->length) {
			slot_drop(c, n);
			c->s.dropped++;
		}
	}
}

static void flush(struct rmempool_cache *c)
{
	c->s.flushes++;
	c->used = c->free_count = c->hand = 0;
	c->rows.count = c->runs.count = 0;
	for (uint32_t i = 0; i < c->entries; i++)
		c->slots[i].used = false;
}

static void follow(struct rmempool_cache *c)
{
	struct mempool_change change;
	int more;

	while ((more = mempool_image_next(c->image, &c->seen, &change))) {
		if (more < 0)
			flush(c);
		else if (change.blocks)
			drop_runs(c, &change);
		else
			drop_row(c, change.key);
	}
}

/* The row of a key into *out; false: there is none. A missing key is not cached. */
static bool get_row(struct rmempool_cache *c, uint32_t key, struct mempool_row *out)
{
	const struct mempool_row *row = row_find(c, key);
	struct slot entry = {.kind = KIND_ROW, .used = true};

	if (row) {
		c->s.row_hits++;
		*out = *row;
		return true;
	}
	c->s.row_misses++;
	if (mempool_table_get(c->image->table, key, &entry.row))
		return false;
	slot_insert(c, &entry);
	*out = entry.row;
	return true;
}

static bool get_run(struct rmempool_cache *c, uint64_t va, struct mempool_pa_run *out)
{
	const struct mempool_pa_run *run = run_find(c, va);
	struct slot entry = {.kind = KIND_RUN, .used = true};

	if (run) {
		c->s.run_hits++;
		*out = *run;
		return true;
	}
	c->s.run_misses++;
	if (!mempool_vapa_find(c->image->vapa, va, out))
		return false;
	entry.run = *out;
	slot_insert(c, &entry);
	return true;
}

static enum rmempool_verdict match(struct rmempool_cache *c, const struct rmempool_request *q)
{
	struct mempool_row l, r;
	bool has_l, has_r;

	if (!q->length)
		return RMEMPOOL_OK;
	has_r = q->rkey && get_row(c, q->rkey, &r);
	if (q->lkey == q->rkey)
		return mempool_judge(q, has_r ? &r : NULL, has_r ? &r : NULL);
	has_l = q->lkey && get_row(c, q->lkey, &l);
	return mempool_judge(q, has_l ? &l : NULL, has_r ? &r : NULL);
}

enum rmempool_verdict rmempool_cache_lookup(struct rmempool_cache *c,
					    const struct rmempool_request *q,
					    struct rmempool_segment *segments, size_t size,
					    unsigned max, unsigned *count)
{
	uint64_t addr = q->addr, length = q->length;
	struct mempool_segments list = {.at = segments, .size = size, .max = max};
	enum rmempool_verdict verdict;

	if (mempool_image_moved(c->image, c->seen))
		follow(c);
	verdict = match(c, q);
	while (verdict == RMEMPOOL_OK && length) {
		struct mempool_pa_run run;
		bool inside = get_run(c, addr, &run);
		struct rmempool_segment segment = mempool_pa_segment(&run, inside, addr, length);

		addr += segment.length;
		length -= segment.length;
		mempool_segments_append(&list, segment);
	}
	*count = list.count;
	return verdict;
}

void rmempool_cache_query(const struct rmempool_cache *c,
			  struct rmempool_cache_statistics *statistics, size_t size)
{
	struct rmempool_cache_statistics s = c->s;

	s.used = c->rows.count + c->runs.count;
	copy_out(statistics, size, &s, sizeof(s));
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The registration table. One run of memory, offsets only:
 *
 *   +--------+--------------+---------------+---------+---------+---------------+---------------+
 *   | header | rows, 32 B   | their spares  | rests,  | their   | index, area 0 | index, area 1 |
 *   | 4096 B | each         |               | 24 B    | spares  |               |               |
 *   +--------+--------------+---------------+---------+---------+---------------+---------------+
 *
 *   row, two in a cache line:  | seq | key | pd | flags | iova          | length        |
 *   its rest:                  | va        | qpn | parent | object | next_free |
 *
 *   flags, 0 if not in use:
 *                   +------+-------+-----+------------------------------------------+
 *                   | kind | PLAIN | ONE | access                                   |
 *                   +------+-------+-----+------------------------------------------+
 *
 *   index entry:     31  30     22 21                       0       0: empty
 *                   +---+---------+--------------------------+      DELETED: was in use
 *                   | 1 | hash    | number of the row        |
 *                   +---+---------+--------------------------+
 *
 * The cost of a search is the cache lines it fetches. So the row has the fields that nearly every
 * request needs, and four entries of the index are compared at once. The rest is needed only if
 * flags do not imply its contents: PLAIN, a region whose va is its iova; ONE, a region of
 * libmempool's with one number for both keys (qpn MEMPOOL_ROW_BOTH, parent the key itself). The
 * writer derives these flags from the row.
 *
 * A row has two versions, one here and one in the spares, each with its rest. The one in the spares
 * is current while seq (of the row; a spare's is not used) is even, the other while it is odd. A
 * writer fills the one that is not current and then makes it current by adding one to seq, so a
 * reader never waits for a writer, not even for one that was stopped or killed half way. A reader
 * reads the current version and reads again if seq has changed. A new row is written from an even
 * seq to an odd one, so a key is served from the line that holds seq; only a row that was replaced
 * an odd number of times needs its spare.
 *
 * Every field is atomic: the writer's stores are releases and the reader's loads acquires. The
 * version that is current at seq s is overwritten only after seq became s + 1. Hence a reader that
 * saw a store of a later version, in either line, also sees that seq has changed. Both loads of seq
 * are of the same word, so row and rest are consistent with each other. That needs no fence, which
 * thread sanitizer could not follow, and costs nothing on x86. Of a removed row only the flags are
 * written: without a kind in them the other fields are ignored.
 *
 * The index is open addressing with linear probing over the upper 24 bits of the key (windows of
 * type 2 change the lower 8 only, and no two rows share the upper 24), which begins at the first
 * of four entries. The reader selects the matching one without a branch for each: a branch would be
 * mispredicted, which costs as much as all the rest. Removal leaves a mark (or nothing if no entry
 * follows), so an entry never moves under a reader. A reader verifies what it finds against the
 * row's own key, and a key that it does not find is absent if the index is still the one it
 * searched. To remove marks and to grow, a new index, sized for the rows in use, is built in the
 * other area and activated by one store of its place and size. At most half of the entries are in
 * use or marked, so that a search mostly ends with the first four. Memory is touched as rows are
 * added, not in proportion to max_rows.
 *
 * Any thread reads, without a lock and without writing to the table. One thread at a time writes;
 * the table's owner, a process, sees to that. Every change takes effect by one store, so the table
 * of an owner that died can be read.
 */
#include "mempool/table.h"

#include "mempool/match.h"
#include "mempool/row.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define MIN_ORDER 10 /* one page of index */
#define DELETED	  1u /* an entry that is not empty and that matches no hash */
#define NO_ROW	  UINT32_MAX

#define load_acquire(p)	    atomic_load_explicit(p, memory_order_acquire)
#define load_relaxed(p)	    atomic_load_explicit(p, memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit(p, v, memory_order_release)

/* A place in the index, and the row it referred to. */
struct place {
	mempool_entry_t *entry;
	uint32_t row;
};

static inline unsigned order_of(uint64_t index)
{
	return 32 - (index & 31) + MEMPOOL_BUCKET_BITS;
}

static inline uint64_t index_of(const struct mempool_table *t, uint32_t generation, unsigned order)
{
	return (uint64_t)generation << 32 | t->area_offset[generation & 1] |
	       (32 - order + MEMPOOL_BUCKET_BITS);
}

static inline struct mempool_table_rest *rest_at(const struct mempool_table *t, uint32_t n,
						 uint32_t seq)
{
	return (struct mempool_table_rest *)((uintptr_t)t + t->rest_offset[seq & 1]) + n;
}

/* A branch rather than arithmetic: the fields are then fetched along with seq and not after it. */
static inline struct mempool_table_row *counting(const struct mempool_table *t,
						 struct mempool_table_row *r, uint32_t seq)
{
	if (__builtin_expect(!(seq & 1), 0)) {
		r = (struct mempool_table_row *)((uintptr_t)r + t->spare_offset);
		__asm__("" : "+r"(r)); /* keeps the compiler from a conditional move */
	}
	return r;
}

/*
 * Reads a row as of one moment; if not whole, without its rest where the flags are enough for a
 * caller that needs va: then qpn, parent and object are 0. The order of the loads matters: see the
 * top of the file. Inlined, so that a caller that uses a few fields makes no copy.
 */
static inline __attribute__((always_inline)) void
row_read(const struct mempool_table *t, uint32_t n, bool whole, struct mempool_row *out)
{
	struct mempool_table_row *r = mempool_row_at(t, n), *v;
	uint32_t seq = load_acquire(&r->seq), before, flags;
	struct mempool_table_rest *rest;

	do {
		before = seq;
		v = counting(t, r, seq);
		out->key = load_acquire(&v->key);
		out->pd = load_acquire(&v->pd);
		flags = load_acquire(&v->flags);
		out->iova = load_acquire(&v->iova);
		out->length = load_acquire(&v->length);
		out->va = out->iova;
		out->qpn = out->parent = out->object = 0;
		if (whole || !(flags & MEMPOOL_PLAIN)) {
			rest = rest_at(t, n, seq);
			out->va = load_acquire(&rest->va);
			out->qpn = load_acquire(&rest->qpn);
			out->parent = load_acquire(&rest->parent);
			out->object = load_acquire(&rest->object);
		}
		seq = load_acquire(&r->seq);
	} while (__builtin_expect(seq != before, 0));
	out->access = flags & MEMPOOL_ACCESS;
	out->kind = (enum mempool_kind)(flags >> MEMPOOL_KIND_BIT);
	out->unused = 0;
}

static uint32_t flags_of(const struct mempool_row *row)
{
	uint32_t flags = (uint32_t)row->kind << MEMPOOL_KIND_BIT | row->access;

	if (row->kind != MEMPOOL_REGION)
		return flags;
	if (row->va == row->iova)
		flags |= MEMPOOL_PLAIN;
	if (row->key && row->qpn == MEMPOOL_ROW_BOTH && row->parent == row->key)
		flags |= MEMPOOL_ONE;
	return flags;
}

/* Writes the next version of a row. */
static void row_write(struct mempool_table *t, uint32_t n, const struct mempool_row *in)
{
	struct mempool_table_row *r = mempool_row_at(t, n), *v;
	uint32_t seq = load_relaxed(&r->seq) + 1;
	struct mempool_table_rest *rest = rest_at(t, n, seq);

	v = counting(t, r, seq);
	store_release(&v->key, in->key);
	store_release(&v->pd, in->pd);
	store_release(&v->flags, flags_of(in));
	store_release(&v->iova, in->iova);
	store_release(&v->length, in->length);
	store_release(&rest->va, in->va);
	store_release(&rest->qpn, in->qpn);
	store_release(&rest->parent, in->parent);
	store_release(&rest->object, in->object);
	store_release(&r->seq, seq);
}

/* Writes a row's next version as not in use. */
static void row_clear(struct mempool_table *t, uint32_t n)
{
	struct mempool_table_row *r = mempool_row_at(t, n);
	uint32_t seq = load_relaxed(&r->seq) + 1;

	store_release(&counting(t, r, seq)->flags, 0);
	store_release(&r->seq, seq);
}

/* A row's key and use as the writer sees them. */
static bool row_used(struct mempool_table *t, uint32_t n, uint32_t *key)
{
	struct mempool_table_row *r = mempool_row_at(t, n),
				 *v = counting(t, r, load_relaxed(&r->seq));

	*key = load_relaxed(&v->key);
	return load_relaxed(&v->flags) >> MEMPOOL_KIND_BIT;
}

/* The reader's search: copies the row of a key, wherever it is. */
static __attribute__((noinline)) bool lookup_all(const struct mempool_table *t, uint32_t key,
						 struct mempool_row *out)
{
	uint64_t index = load_acquire(&t->index), before;
	uint32_t hash = mempool_hash_of(key), mask, pos, n, e;
	mempool_entry_t *entries;

	do {
		before = index;
		entries = mempool_area(t, index);
		mask = (1u << order_of(index)) - 1;
		pos = mempool_bucket(index, hash) * MEMPOOL_BUCKET;
		/* An area that is being cleared and refilled may show no empty entry. */
		for (n = 0; n <= mask; n++, pos = (pos + 1) & mask) {
			e = load_acquire(&entries[pos]);
			if (!e)
				break;
			if (mempool_row_of(e, hash) >= MEMPOOL_ROWS)
				continue;
			row_read(t, mempool_row_of(e, hash), true, out);
			if (out->key == key && out->kind)
				return true;
		}
		index = load_acquire(&t->index);
	} while (index != before);
	return false;
}

/* The same, whole or not (row_read). The caller does not use the variables that lookup_all()
 * writes. */
static inline __attribute__((always_inline)) bool
lookup(const struct mempool_table *t, uint32_t key, bool whole, struct mempool_row *out)
{
	uint32_t n = mempool_candidate(t, mempool_hash_of(key));
	struct mempool_row other;

	if (__builtin_expect(n < MEMPOOL_ROWS, 1)) {
		row_read(t, n, whole, out);
		if (__builtin_expect(out->key == key && out->kind, 1))
			return true;
	}
	if (!lookup_all(t, key, &other))
		return false;
	*out = other;
	return true;
}

/* The writer's search, by the upper 24 bits of the key. */
static bool search(struct mempool_table *t, uint32_t key, struct place *place)
{
	uint64_t index = load_relaxed(&t->index);
	uint32_t hash = mempool_hash_of(key), mask = (1u << order_of(index)) - 1;
	uint32_t pos = mempool_bucket(index, hash) * MEMPOOL_BUCKET, e, n, k;
	mempool_entry_t *entries = mempool_area(t, index);

	for (; (e = load_relaxed(&entries[pos])); pos = (pos + 1) & mask) {
		n = mempool_row_of(e, hash);
		if (n < MEMPOOL_ROWS && row_used(t, n, &k) && k >> 8 == key >> 8) {
			place->entry = &entries[pos];
			place->row = n;
			return true;
		}
	}
	return false;
}

/* Enters a row into an index that has room; returns whether an empty entry was used up. */
static bool enter(struct mempool_table *t, uint64_t index, uint32_t key, uint32_t n)
{
	uint32_t hash = mempool_hash_of(key), mask = (1u << order_of(index)) - 1;
	uint32_t pos = mempool_bucket(index, hash) * MEMPOOL_BUCKET, e;
	mempool_entry_t *entries = mempool_area(t, index);

	while ((e = load_relaxed(&entries[pos])) && e != DELETED)
		pos = (pos + 1) & mask;
	store_release(&entries[pos], mempool_entry_of(hash, n));
	return !e;
}

/* Builds a new index of the rows in use in the other area and switches to it. */
static void rebuild(struct mempool_table *t)
{
	uint32_t generation = (load_relaxed(&t->index) >> 32) + 1, n, key;
	unsigned order = MIN_ORDER;
	mempool_entry_t *entries;
	uint64_t index;

	/* At most a quarter full, so that as many additions again fit before the next rebuild. */
	while (order < t->max_order && 1u << order < 4 * load_relaxed(&t->count))
		order++;
	index = index_of(t, generation, order);
	entries = mempool_area(t, index);
	for (n = 0; n < 1u << order; n++)
		store_release(&entries[n], 0);
	t->occupied = 0;
	for (n = 0; n < t->high; n++)
		if (row_used(t, n, &key))
			t->occupied += enter(t, index, key, n);
	store_release(&t->index, index);
}

/* Makes room for one more entry. */
static void index_reserve(struct mempool_table *t)
{
	if (t->occupied >= (1u << order_of(load_relaxed(&t->index))) / 2)
		rebuild(t);
}

/* A mark is needed only where a search may have to go on: before another entry. */
static void index_leave(struct mempool_table *t, mempool_entry_t *entry)
{
	uint64_t index = load_relaxed(&t->index);
	mempool_entry_t *entries = mempool_area(t, index);
	uint32_t mask = (1u << order_of(index)) - 1, pos = entry - entries;
	bool last = !load_relaxed(&entries[(pos + 1) & mask]);

	store_release(entry, last ? 0 : DELETED);
	t->occupied -= last;
}

static void index_enter(struct mempool_table *t, uint32_t key, uint32_t n)
{
	t->occupied += enter(t, load_relaxed(&t->index), key, n);
}

/* [start, start + length) lies within 2^64 */
static bool range_ok(uint64_t start, uint64_t length)
{
	return !length || length - 1 <= UINT64_MAX - start;
}

static bool row_ok(const struct mempool_row *row)
{
	return row->kind >= MEMPOOL_REGION && row->kind <= MEMPOOL_WINDOW_2 &&
	       row->access <= MEMPOOL_ACCESS && range_ok(row->iova, row->length) &&
	       range_ok(row->va, row->length);
}

static size_t round_page(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

/* Lays a table out: fills the constant part of the header. */
static void layout(unsigned max_rows, struct mempool_table *t)
{
	size_t rests = round_page(max_rows * sizeof(struct mempool_table_rest)), index;

	t->max_rows = max_rows;
	t->max_order = MIN_ORDER;
	while (1u << t->max_order < 4 * max_rows)
		t->max_order++;
	index = sizeof(mempool_entry_t) << t->max_order;
	t->spare_offset = round_page(max_rows * sizeof(struct mempool_table_row));
	t->rest_offset[1] = MEMPOOL_TABLE_HEADER + 2 * t->spare_offset;
	t->rest_offset[0] = t->rest_offset[1] + rests;
	t->area_offset[0] = t->rest_offset[0] + rests;
	t->area_offset[1] = t->area_offset[0] + index;
	t->bytes = t->area_offset[1] + index;
}

size_t mempool_table_bytes(unsigned max_rows)
{
	struct mempool_table t;

	if (!max_rows || max_rows > MEMPOOL_ROWS)
		return 0;
	layout(max_rows, &t);
	return t.bytes;
}

int mempool_table_init(void *memory, unsigned max_rows, struct mempool_table **table)
{
	struct mempool_table *t = memory;

	if (!max_rows || max_rows > MEMPOOL_ROWS || (uintptr_t)memory % 64)
		return -EINVAL;
	layout(max_rows, t);
	t->free_head = NO_ROW;
	atomic_init(&t->index, index_of(t, 0, MIN_ORDER));
	*table = t;
	return 0;
}

bool mempool_table_valid(const struct mempool_table *t, unsigned max_rows, size_t bytes)
{
	uint64_t index;
	struct mempool_table want = {0};
	unsigned order;
	uint32_t e;

	if (!mempool_table_bytes(max_rows) || mempool_table_bytes(max_rows) > bytes)
		return false;
	layout(max_rows, &want);
	if (memcmp(t, &want, offsetof(struct mempool_table, bytes) + sizeof(want.bytes)))
		return false;
	index = load_acquire(&t->index);
	order = order_of(index);
	if (order < MIN_ORDER || order > t->max_order || index != index_of(t, index >> 32, order))
		return false;
	for (uint32_t n = 0; n < 1u << order; n++) {
		e = load_acquire(&mempool_area(t, index)[n]);
		if (e & MEMPOOL_USED && (e & (MEMPOOL_ROWS - 1)) >= max_rows)
			return false;
	}
	return true;
}

int mempool_table_create(unsigned max_rows, struct mempool_table **table)
{
	size_t bytes = mempool_table_bytes(max_rows);
	void *memory;
	int err;

	if (!bytes)
		return -EINVAL;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	err = mempool_table_init(memory, max_rows, table);
	if (err)
		munmap(memory, bytes);
	return err;
}

void mempool_table_destroy(struct mempool_table *table)
{
	munmap(table, table->bytes);
}

int mempool_table_add(struct mempool_table *t, const struct mempool_row *row)
{
	struct place place;
	uint32_t n;

	if (!row_ok(row))
		return -EINVAL;
	if (search(t, row->key, &place))
		return -EEXIST;
	if (t->free_head == NO_ROW && t->high == t->max_rows)
		return -ENOSPC;
	index_reserve(t);
	if (t->free_head != NO_ROW) {
		n = t->free_head;
		t->free_head = rest_at(t, n, 1)->next_free;
	} else {
		n = t->high++;
	}
	/* So that the key is served from the line that holds seq. */
	if (load_relaxed(&mempool_row_at(t, n)->seq) & 1)
		row_clear(t, n);
	row_write(t, n, row);
	atomic_store_explicit(&t->count, load_relaxed(&t->count) + 1, memory_order_relaxed);
	index_enter(t, row->key, n);
	return 0;
}

/* Finds the row of exactly this key. */
static bool search_key(struct mempool_table *t, uint32_t key, struct place *place)
{
	uint32_t k;

	return search(t, key, place) && row_used(t, place->row, &k) && k == key;
}

/*
 * Under another index the row is entered under both keys for a moment. The key in the row decides
 * which of them matches, so the change takes effect at one instant.
 */
int mempool_table_replace(struct mempool_table *t, uint32_t old_key, const struct mempool_row *row)
{
	bool moves = old_key >> 8 != row->key >> 8;
	struct place place, other;

	if (!row_ok(row))
		return -EINVAL;
	if (!search_key(t, old_key, &place))
		return -ENOENT;
	if (moves) {
		if (search(t, row->key, &other))
			return -EEXIST;
		index_reserve(t);
		search_key(t, old_key, &place);
		index_enter(t, row->key, place.row);
	}
	row_write(t, place.row, row);
	if (moves)
		index_leave(t, place.entry);
	return 0;
}

int mempool_table_remove(struct mempool_table *t, uint32_t key)
{
	struct place place;

	if (!search_key(t, key, &place))
		return -ENOENT;
	row_clear(t, place.row);
	index_leave(t, place.entry);
	atomic_store_explicit(&t->count, load_relaxed(&t->count) - 1, memory_order_relaxed);
	rest_at(t, place.row, 1)->next_free = t->free_head;
	t->free_head = place.row;
	return 0;
}

int mempool_table_get(const struct mempool_table *table, uint32_t key, struct mempool_row *row)
{
	return lookup(table, key, true, row) ? 0 : -ENOENT;
}

unsigned mempool_table_count(const struct mempool_table *table)
{
	return load_relaxed(&table->count);
}

static __attribute__((noinline)) enum rmempool_verdict
match(const struct mempool_table *table, uint32_t key, uint32_t pd, uint32_t qpn, uint64_t addr,
      uint64_t length, uint32_t rights, bool remote, uint64_t *va, uint32_t *object)
{
	struct mempool_row r;
	uint64_t offset;

	if (!length) {
		*va = 0;
		if (object)
			*object = 0;
		return RMEMPOOL_OK;
	}
	if (!lookup(table, key, object, &r) || (!remote && r.kind != MEMPOOL_REGION))
		return RMEMPOOL_NO_KEY;
	if (r.pd != pd || (r.kind == MEMPOOL_WINDOW_2 && r.qpn != qpn))
		return RMEMPOOL_WRONG_PD;
	offset = addr - r.iova;
	if (addr < r.iova || offset > r.length || length > r.length - offset)
		return RMEMPOOL_OUT_OF_BOUNDS;
	if ((r.access & rights) != rights)
		return RMEMPOOL_NO_RIGHTS;
	*va = r.va + offset;
	if (object)
		*object = r.object;
	return RMEMPOOL_OK;
}

enum rmempool_verdict mempool_table_match(const struct mempool_table *table, uint32_t key,
					  uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t length,
					  uint32_t rights, bool remote, uint64_t *va)
{
	if (mempool_match_plain(table, key, pd, addr, length, rights, va))
		return RMEMPOOL_OK;
	return match(table, key, pd, qpn, addr, length, rights, remote, va, NULL);
}

enum rmempool_verdict mempool_table_match_object(const struct mempool_table *table, uint32_t key,
						 uint32_t pd, uint32_t qpn, uint64_t addr,
						 uint64_t length, uint32_t rights, bool remote,
						 uint64_t *va, uint32_t *object)
{
	uint32_t n, seq;

	if (length &&
	    mempool_glance(table, MEMPOOL_PLAIN, key, pd, addr, length, rights, &n, &seq)) {
		*va = addr;
		*object = load_acquire(&rest_at(table, n, seq)->object);
		if (load_acquire(&mempool_row_at(table, n)->seq) == seq)
			return RMEMPOOL_OK;
	}
	return match(table, key, pd, qpn, addr, length, rights, remote, va, object);
}

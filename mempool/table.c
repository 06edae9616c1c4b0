/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The registration table. One run of memory, offsets only:
 *
 *   +--------+------------------+------------------+--------------------+--------------------+
 *   | header | index, area 0    | index, area 1    | rows, 64 bytes each| spares, 64 bytes   |
 *   +--------+------------------+------------------+--------------------+--------------------+
 *
 *   index entry, 4 bytes:   31      23 22                       0     0: empty
 *                          +----------+--------------------------+    DELETED: was in use
 *                          | hash tag | number of the row + 1    |
 *                          +----------+--------------------------+
 *
 *   row, one cache line:    +-----+-----------+------------------------------------------+---+
 *                           | seq | next_free | version that counts while seq is odd     |   |
 *                           +-----+-----------+------------------------------------------+---+
 *   its spare:              |     |           | version that counts while seq is even    |   |
 *                           +-----+-----------+------------------------------------------+---+
 *
 * A row holds two versions of itself. A writer fills the one that does not count and then makes it
 * count by adding one to seq, so a reader never waits for a writer: not for one that was preempted,
 * nor for one that was stopped or killed half way. A reader copies the version that counts and
 * copies again if seq has moved. A new row is written at seq 0 -> 1 and removed at 1 -> 2, so a key
 * is served from the line that holds seq; only one replaced an odd number of times needs its spare.
 * Every field is atomic: the writer's stores are releases and the reader's loads acquires, hence a
 * reader that saw a store of a later version also sees that seq has moved. That needs no fence,
 * which thread sanitizer could not follow, and costs nothing on x86.
 *
 * The index is open addressing with linear probing over the upper 24 bits of the key (windows of
 * type 2 change the lower 8 only, and no two rows share the upper 24). Removal leaves a mark (or nothing
 * where no entry comes behind it), so an entry never moves under a reader: what a reader finds it verifies against the row's own key, and
 * what it does not find is absent if the index is still the one it searched. Marks and growth are
 * dealt with by building a fresh index, sized for the rows there are, in the other area, and
 * switching over by one store. At most half of the entries are in use or marked, so that a search
 * ends after one or two. Memory is touched as rows come, not in proportion to max_rows.
 *
 * Any thread reads, without a lock and without writing to the table. One thread at a time writes, which
 * is the business of the table's owner, a process. Every change counts by one store, so what an owner that
 * dies leaves behind can be read.
 */
#include "mempool/table.h"

#include "mempool/match.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_ROWS  (1u << 22)
#define MIN_ORDER 10 /* one page of index */
#define ROW_BITS  23
#define ROW_MASK  ((1u << ROW_BITS) - 1)
#define DELETED	  ROW_MASK /* tag 0 and a row number that cannot be */
#define NO_ROW	  UINT32_MAX
#define KIND_BIT  30 /* kind and access share a word */

#define load_acquire(p)	    atomic_load_explicit(p, memory_order_acquire)
#define load_relaxed(p)	    atomic_load_explicit(p, memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit(p, v, memory_order_release)

typedef _Atomic uint32_t entry_t;

struct version {
	_Atomic uint64_t iova;
	_Atomic uint64_t length;
	_Atomic uint64_t va;
	_Atomic uint32_t key;
	_Atomic uint32_t pd;
	_Atomic uint32_t rights; /* kind << KIND_BIT | access; 0 for a row that is not in use */
	_Atomic uint32_t qpn;
	_Atomic uint32_t parent;
	_Atomic uint32_t object;
};

struct row {
	_Atomic uint32_t seq; /* not used in a spare */
	uint32_t next_free;   /* for the writer; not used in a spare */
	struct version version;
} __attribute__((aligned(64)));

static_assert(sizeof(struct version) == 48, "layout seen by other processes");
static_assert(sizeof(struct row) == 64, "a version and its seq share a cache line");

struct mempool_table {
	/* Written when made, then constant. */
	uint32_t max_rows;
	uint32_t max_order;
	uint64_t area_offset[2];
	uint64_t rows_offset;
	uint64_t spare_offset; /* from a row to its spare */
	uint64_t bytes;
	/* generation << 8 | order. The generation's low bit says which area is in use. */
	_Atomic uint64_t index __attribute__((aligned(64)));
	/* The writer's. */
	_Atomic uint32_t count __attribute__((aligned(64))); /* rows in use */
	uint32_t occupied; /* entries of the index that are not empty */
	uint32_t high;	   /* rows that were ever in use: 0 … high - 1 */
	uint32_t free_head;
};

/* A place in the index, and the row it led to. */
struct place {
	entry_t *entry;
	uint32_t row;
};

static inline uint32_t hash_of(uint32_t key)
{
	return (key >> 8) * 0x9e3779b1u;
}

static inline entry_t *area(const struct mempool_table *t, uint64_t index)
{
	return (entry_t *)((uintptr_t)t + t->area_offset[(index >> 8) & 1]);
}

static inline struct row *row_at(const struct mempool_table *t, uint32_t n)
{
	return (struct row *)((uintptr_t)t + t->rows_offset) + n;
}

static inline uint32_t entry_of(uint32_t hash, uint32_t n)
{
	return hash << ROW_BITS | (n + 1);
}

/* Is this the entry of a row whose key has that hash (or, 1 time in 512, of another)? */
static inline bool entry_fits(uint32_t entry, uint32_t hash)
{
	return entry >> ROW_BITS == (hash & (UINT32_MAX >> ROW_BITS)) && entry != DELETED;
}

/* A branch and not arithmetic: the fields are then fetched along with seq and not after it. */
static inline struct version *counting(const struct mempool_table *t, struct row *r, uint32_t seq)
{
	struct version *v = &r->version;

	if (__builtin_expect(!(seq & 1), 0)) {
		v = &((struct row *)((uintptr_t)r + t->spare_offset))->version;
		__asm__("" : "+r"(v)); /* keeps the compiler from a conditional move */
	}
	return v;
}

/*
 * Copies a row as it is at one moment. The order of the loads matters: see the top of the file. Inlined,
 * so that a caller that looks at a few fields makes no copy: those would be read back before they are
 * written.
 */
static inline __attribute__((always_inline)) void row_read(const struct mempool_table *t,
							   struct row *r, struct mempool_row *out)
{
	uint32_t seq = load_acquire(&r->seq), before, rights;
	struct version *v;

	do {
		before = seq;
		v = counting(t, r, seq);
		out->key = load_acquire(&v->key);
		out->iova = load_acquire(&v->iova);
		out->length = load_acquire(&v->length);
		out->va = load_acquire(&v->va);
		out->pd = load_acquire(&v->pd);
		rights = load_acquire(&v->rights);
		out->qpn = load_acquire(&v->qpn);
		out->parent = load_acquire(&v->parent);
		out->object = load_acquire(&v->object);
		seq = load_acquire(&r->seq);
	} while (__builtin_expect(seq != before, 0));
	out->access = rights & ((1u << KIND_BIT) - 1);
	out->kind = (enum mempool_kind)(rights >> KIND_BIT);
	out->unused = 0;
}

/* Writes the next version of a row; an all-zero one means that it is not in use. */
static void row_write(struct mempool_table *t, struct row *r, const struct mempool_row *in)
{
	uint32_t seq = load_relaxed(&r->seq);
	struct version *v = counting(t, r, seq + 1);

	store_release(&v->key, in->key);
	store_release(&v->iova, in->iova);
	store_release(&v->length, in->length);
	store_release(&v->va, in->va);
	store_release(&v->pd, in->pd);
	store_release(&v->rights, (uint32_t)in->kind << KIND_BIT | in->access);
	store_release(&v->qpn, in->qpn);
	store_release(&v->parent, in->parent);
	store_release(&v->object, in->object);
	store_release(&r->seq, seq + 1);
}

/* Key and use of a row as the writer sees it. */
static bool row_used(struct mempool_table *t, struct row *r, uint32_t *key)
{
	struct version *v = counting(t, r, load_relaxed(&r->seq));

	*key = load_relaxed(&v->key);
	return load_relaxed(&v->rights) >> KIND_BIT;
}

/* The reader's search: copies the row of a key. */
static inline __attribute__((always_inline)) bool lookup(const struct mempool_table *t,
							 uint32_t key, struct mempool_row *out)
{
	uint32_t hash = hash_of(key), mask, pos, n, e;
	uint64_t index = load_acquire(&t->index), before;
	entry_t *entries;

	do {
		before = index;
		entries = area(t, index);
		mask = (1u << (index & 0xff)) - 1;
		pos = hash >> (32 - (index & 0xff));
		/* An area that is being cleared and filled again may show no empty entry. */
		for (n = 0; n <= mask; n++, pos = (pos + 1) & mask) {
			e = load_acquire(&entries[pos]);
			if (!e)
				break;
			if (!entry_fits(e, hash))
				continue;
			row_read(t, row_at(t, (e & ROW_MASK) - 1), out);
			if (out->key == key && out->kind)
				return true;
		}
		index = load_acquire(&t->index);
	} while (index != before);
	return false;
}

/* The writer's search, by the upper 24 bits of the key. */
static bool search(struct mempool_table *t, uint32_t key, struct place *place)
{
	uint64_t index = load_relaxed(&t->index);
	uint32_t hash = hash_of(key), mask = (1u << (index & 0xff)) - 1;
	uint32_t pos = hash >> (32 - (index & 0xff)), e, k;
	entry_t *entries = area(t, index);

	for (; (e = load_relaxed(&entries[pos])); pos = (pos + 1) & mask) {
		if (!entry_fits(e, hash))
			continue;
		if (row_used(t, row_at(t, (e & ROW_MASK) - 1), &k) && k >> 8 == key >> 8) {
			place->entry = &entries[pos];
			place->row = (e & ROW_MASK) - 1;
			return true;
		}
	}
	return false;
}

/* Puts a row into an index that has room; says whether an empty entry was used up. */
static bool enter(entry_t *entries, unsigned order, uint32_t key, uint32_t n)
{
	uint32_t hash = hash_of(key), mask = (1u << order) - 1, pos = hash >> (32 - order), e;

	while ((e = load_relaxed(&entries[pos])) && e != DELETED)
		pos = (pos + 1) & mask;
	store_release(&entries[pos], entry_of(hash, n));
	return !e;
}

/* Makes a fresh index of the rows in use in the other area and switches to it. */
static void rebuild(struct mempool_table *t)
{
	uint64_t index = ((load_relaxed(&t->index) >> 8) + 1) << 8;
	entry_t *entries = area(t, index);
	unsigned order = MIN_ORDER;
	uint32_t n, key;

	/* A quarter full at most, so that as many adds again pass until the next time. */
	while (order < t->max_order && 1u << order < 4 * load_relaxed(&t->count))
		order++;
	for (n = 0; n < 1u << order; n++)
		store_release(&entries[n], 0);
	t->occupied = 0;
	for (n = 0; n < t->high; n++)
		if (row_used(t, row_at(t, n), &key))
			t->occupied += enter(entries, order, key, n);
	store_release(&t->index, index | order);
}

/* Makes room for one more entry. */
static void index_reserve(struct mempool_table *t)
{
	if (t->occupied >= (1u << (load_relaxed(&t->index) & 0xff)) / 2)
		rebuild(t);
}

/* A mark stays only where a search may have to go on: before another entry. */
static void index_leave(struct mempool_table *t, entry_t *entry)
{
	uint64_t index = load_relaxed(&t->index);
	uint32_t mask = (1u << (index & 0xff)) - 1, pos = entry - area(t, index);
	entry_t *entries = area(t, index);
	bool last = !load_relaxed(&entries[(pos + 1) & mask]);

	store_release(entry, last ? 0 : DELETED);
	t->occupied -= last;
}

static void index_enter(struct mempool_table *t, uint32_t key, uint32_t n)
{
	uint64_t index = load_relaxed(&t->index);

	t->occupied += enter(area(t, index), index & 0xff, key, n);
}

/* [start, start + length) lies within 2^64 */
static bool range_ok(uint64_t start, uint64_t length)
{
	return !length || length - 1 <= UINT64_MAX - start;
}

static bool row_ok(const struct mempool_row *row)
{
	return row->kind >= MEMPOOL_REGION && row->kind <= MEMPOOL_WINDOW_2 &&
	       row->access < 1u << KIND_BIT && range_ok(row->iova, row->length) &&
	       range_ok(row->va, row->length);
}

static size_t round_page(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

/* Lays a table out: fills the constant part of the header. */
static void layout(unsigned max_rows, struct mempool_table *t)
{
	size_t at = round_page(sizeof(*t)), index;

	t->max_rows = max_rows;
	t->max_order = MIN_ORDER;
	while (1u << t->max_order < 4 * max_rows)
		t->max_order++;
	index = sizeof(entry_t) << t->max_order;
	t->area_offset[0] = at;
	t->area_offset[1] = at + index;
	t->rows_offset = at + 2 * index;
	t->spare_offset = round_page(max_rows * sizeof(struct row));
	t->bytes = t->rows_offset + 2 * t->spare_offset;
}

size_t mempool_table_bytes(unsigned max_rows)
{
	struct mempool_table t;

	if (!max_rows || max_rows > MAX_ROWS)
		return 0;
	layout(max_rows, &t);
	return t.bytes;
}

int mempool_table_init(void *memory, unsigned max_rows, struct mempool_table **table)
{
	struct mempool_table *t = memory;

	if (!max_rows || max_rows > MAX_ROWS || (uintptr_t)memory % 64)
		return -EINVAL;
	layout(max_rows, t);
	t->free_head = NO_ROW;
	atomic_init(&t->index, MIN_ORDER);
	*table = t;
	return 0;
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
	struct row *r;
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
		t->free_head = row_at(t, n)->next_free;
	} else {
		n = t->high++;
	}
	r = row_at(t, n);
	row_write(t, r, row);
	atomic_store_explicit(&t->count, load_relaxed(&t->count) + 1, memory_order_relaxed);
	index_enter(t, row->key, n);
	return 0;
}

/* Finds the row of exactly this key. */
static bool search_key(struct mempool_table *t, uint32_t key, struct place *place)
{
	uint32_t k;

	return search(t, key, place) && row_used(t, row_at(t, place->row), &k) && k == key;
}

/*
 * With another index the row is entered under both for a moment; which of them leads anywhere is
 * decided by the key in the row, and so changes at one instant.
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
	row_write(t, row_at(t, place.row), row);
	if (moves)
		index_leave(t, place.entry);
	return 0;
}

int mempool_table_remove(struct mempool_table *t, uint32_t key)
{
	static const struct mempool_row none;
	struct place place;
	struct row *r;

	if (!search_key(t, key, &place))
		return -ENOENT;
	r = row_at(t, place.row);
	row_write(t, r, &none);
	index_leave(t, place.entry);
	atomic_store_explicit(&t->count, load_relaxed(&t->count) - 1, memory_order_relaxed);
	r->next_free = t->free_head;
	t->free_head = place.row;
	return 0;
}

int mempool_table_get(const struct mempool_table *table, uint32_t key, struct mempool_row *row)
{
	return lookup(table, key, row) ? 0 : -ENOENT;
}

unsigned mempool_table_count(const struct mempool_table *table)
{
	return load_relaxed(&table->count);
}

static inline enum mempool_verdict match(const struct mempool_table *table, uint32_t key,
					 uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t length,
					 uint32_t rights, bool remote, uint64_t *va,
					 uint32_t *object)
{
	struct mempool_row r;
	uint64_t offset;

	if (!length) {
		*va = 0;
		*object = 0;
		return MEMPOOL_OK;
	}
	if (!lookup(table, key, &r) || (!remote && r.kind != MEMPOOL_REGION))
		return MEMPOOL_NO_KEY;
	if (r.pd != pd || (r.kind == MEMPOOL_WINDOW_2 && r.qpn != qpn))
		return MEMPOOL_WRONG_PD;
	offset = addr - r.iova;
	if (addr < r.iova || offset > r.length || length > r.length - offset)
		return MEMPOOL_OUT_OF_BOUNDS;
	if ((r.access & rights) != rights)
		return MEMPOOL_NO_RIGHTS;
	*va = r.va + offset;
	*object = r.object;
	return MEMPOOL_OK;
}

enum mempool_verdict mempool_table_match(const struct mempool_table *table, uint32_t key,
					 uint32_t pd, uint32_t qpn, uint64_t addr, uint64_t length,
					 uint32_t rights, bool remote, uint64_t *va)
{
	uint32_t object;

	return match(table, key, pd, qpn, addr, length, rights, remote, va, &object);
}

enum mempool_verdict mempool_table_match_object(const struct mempool_table *table, uint32_t key,
						uint32_t pd, uint32_t qpn, uint64_t addr,
						uint64_t length, uint32_t rights, bool remote,
						uint64_t *va, uint32_t *object)
{
	return match(table, key, pd, qpn, addr, length, rights, remote, va, object);
}

static __attribute__((noinline)) enum mempool_verdict permit_any(const struct mempool_table *table,
								 const struct mempool_request *q)
{
	struct mempool_row r;
	uint64_t offset;

	if (!lookup(table, q->rkey, &r) || r.kind != MEMPOOL_REGION || r.qpn != MEMPOOL_ROW_BOTH ||
	    r.parent != q->rkey)
		return MEMPOOL_NO_KEY;
	if (r.pd != q->domain)
		return MEMPOOL_WRONG_PD;
	offset = q->addr - r.iova;
	if (q->addr < r.iova || offset > r.length || q->length > r.length - offset)
		return MEMPOOL_OUT_OF_BOUNDS;
	return (r.access & q->rights) == q->rights ? MEMPOOL_OK : MEMPOOL_NO_RIGHTS;
}

/*
 * What is mostly the case: the row is where the hash says, nobody is changing it, and it permits what is
 * asked. The processor guesses so and goes on; anything else begins anew.
 */
enum mempool_verdict mempool_table_permit(const struct mempool_table *table,
					  const struct mempool_request *q)
{
	uint64_t index = load_acquire(&table->index), offset, length;
	uint32_t hash = hash_of(q->rkey), entry, seq, rights, differs;
	const struct version *v;
	struct row *r;

	entry = load_acquire(&area(table, index)[hash >> (32 - (index & 0xff))]);
	if (__builtin_expect(!entry || !entry_fits(entry, hash), 0))
		return permit_any(table, q);
	r = row_at(table, (entry & ROW_MASK) - 1);
	v = &r->version;
	seq = load_acquire(&r->seq);
	differs = load_acquire(&v->key) ^ q->rkey;
	differs |= load_acquire(&v->parent) ^ q->rkey;
	differs |= load_acquire(&v->qpn) ^ MEMPOOL_ROW_BOTH;
	differs |= load_acquire(&v->pd) ^ q->domain;
	rights = load_acquire(&v->rights);
	differs |= rights >> KIND_BIT ^ MEMPOOL_REGION;
	differs |= q->rights & ~(rights & ((1u << KIND_BIT) - 1));
	offset = q->addr - load_acquire(&v->iova);
	length = load_acquire(&v->length);
	differs |= ~seq & 1;
	differs |= load_acquire(&r->seq) ^ seq;
	if (__builtin_expect(differs || offset >= length || q->length > length - offset, 0))
		return permit_any(table, q);
	return MEMPOOL_OK;
}

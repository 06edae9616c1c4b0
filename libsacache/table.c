/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table; table.h has the picture and the rules. Only sa_table_find() may be called by readers.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "libsacache/rcu.h"
#include "libsacache/table.h"

#define FIRST_SLOTS 64
/* A slot: some bits of the hash above the index of an entry + 1. */
#define INDEX_BITS  25
#define INDEX(slot) ((slot) & ((1u << INDEX_BITS) - 1))
#define TAG(hash)   ((uint32_t)((hash) >> 32) << INDEX_BITS)
#define DELETED	    INDEX(UINT32_MAX)

#ifdef SA_TSAN
char sa_rcu_order;
#endif

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

/* Products of key and seed, folded: GIDs differ in a few bits of few bytes, and the seed is
 * secret. */
uint64_t sa_key_hash(const struct sacache_key *key, uint64_t seed)
{
	uint64_t rest = (uint64_t)key->dlid << 48 | (uint64_t)key->slid << 32 |
			(uint64_t)key->pkey << 16 | key->qos_class;
	uint64_t small = (uint64_t)key->mask << 32 | key->port << 16 | key->tclass << 8 | key->sl;
	uint64_t a = mix(word(key->dgid) ^ seed, word(key->dgid + 8) ^ 0x9e3779b97f4a7c15ull);
	uint64_t b = mix(word(key->sgid) ^ 0xbf58476d1ce4e5b9ull, word(key->sgid + 8) ^ ~seed);
	uint64_t c = mix(rest ^ seed, small ^ key->service_id ^ 0x94d049bb133111ebull);

	return mix(a ^ 0xa0761d6478bd642full ^ c, b ^ seed);
}

static struct sa_slots *slots_create(uint32_t count)
{
	struct sa_slots *slots = calloc(1, sizeof(*slots) + (size_t)count * sizeof(slots->slot[0]));

	if (slots)
		slots->mask = count - 1;
	return slots;
}

static uint32_t *chains_create(uint32_t slots, uint32_t *mask)
{
	*mask = slots / 4 - 1;
	return calloc(slots / 4, sizeof(uint32_t));
}

/* Entries that wait for their grace period are allocated beside those in use. */
static size_t room(const struct sa_table *table)
{
	return (size_t)table->max_entries + SA_RETIRED + 1;
}

static size_t map_size(const struct sa_table *table)
{
	return room(table) * (sizeof(*table->entry) + sizeof(*table->more));
}

int sa_table_init(struct sa_table *table, uint32_t max_entries, uint64_t seed)
{
	struct sa_slots *slots;

	memset(table, 0, sizeof(*table));
	table->max_entries = max_entries;
	table->seed = seed;
	table->entry = mmap(NULL, map_size(table), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table->entry == MAP_FAILED)
		return -ENOMEM;
	table->more = (struct sa_more *)(table->entry + room(table));
	slots = slots_create(FIRST_SLOTS);
	if (!slots) {
		munmap(table->entry, map_size(table));
		return -ENOMEM;
	}
	table->chains = chains_create(FIRST_SLOTS, &table->chains_mask);
	if (!table->chains) {
		free(slots);
		munmap(table->entry, map_size(table));
		return -ENOMEM;
	}
	atomic_init(&table->slots, slots);
	return 0;
}

void sa_table_destroy(struct sa_table *table)
{
	sa_rcu_synchronize();
	free(atomic_load(&table->slots));
	free(table->chains);
	munmap(table->entry, map_size(table));
}

void sa_entry_key(const struct sa_table *table, const struct sa_entry *entry,
		  struct sacache_key *key)
{
	const struct sa_more *more = sa_entry_more(table, entry);

	*key = (struct sacache_key){.port = entry->port, .mask = entry->mask};
	if (entry->mask & SACACHE_DGID)
		memcpy(key->dgid, entry->record + 8, 16);
	if (entry->mask & SACACHE_SGID)
		memcpy(key->sgid, entry->record + 24, 16);
	if (entry->mask & SACACHE_DLID)
		key->dlid = sa_get16(entry->record + 40);
	if (entry->mask & SACACHE_SLID)
		key->slid = sa_get16(entry->record + 42);
	if (entry->mask & SACACHE_PKEY)
		key->pkey = sa_get16(entry->record + 50) & 0x7fff;
	if (entry->mask & SACACHE_SL)
		key->sl = entry->record[53] & 0xf;
	if (entry->special) {
		key->service_id = more->service_id;
		key->qos_class = more->qos_class;
		key->tclass = more->tclass;
	}
}

void sa_entry_record(const struct sa_table *table, const struct sa_entry *entry,
		     uint8_t record[SA_RECORD_SIZE])
{
	sa_put64(record, entry->special ? sa_entry_more(table, entry)->record_service_id : 0);
	memcpy(record + 8, entry->record + 8, SA_RECORD_SIZE - 8);
}

void sa_entry_path(const struct sa_table *table, const struct sa_entry *entry,
		   struct sacache_path *path)
{
	uint8_t record[SA_RECORD_SIZE];

	sa_entry_record(table, entry, record);
	sa_record_decode(record, path);
}

/* A failure has no record; the key's components are stored in its place. */
static void fill(struct sa_table *table, uint32_t index, const struct sacache_key *key,
		 const uint8_t *record, const struct sa_mark *mark)
{
	struct sa_entry *entry = &table->entry[index];
	struct sa_more *more = &table->more[index];
	uint8_t failed[SA_RECORD_SIZE] = {0};

	if (!record) {
		memcpy(failed + 8, key->dgid, 16);
		memcpy(failed + 24, key->sgid, 16);
		sa_put16(failed + 40, key->dlid);
		sa_put16(failed + 42, key->slid);
		sa_put16(failed + 50, key->pkey);
		failed[53] = key->sl;
	}
	memcpy(entry->record, record ? record : failed, SA_RECORD_SIZE);
	*more = (struct sa_more){
		.service_id = key->service_id,
		.record_service_id = record ? sa_get64(record) : 0,
		.qos_class = key->qos_class,
		.tclass = key->tclass,
		.error = mark->error,
		.live = true,
	};
	atomic_init(&more->since, mark->since);
	entry->mask = key->mask;
	entry->port = key->port;
	entry->kind = record ? SA_ENTRY_PATH : SA_ENTRY_FAILURE;
	entry->special =
		more->record_service_id || more->service_id || more->qos_class || more->tclass;
	atomic_init(&entry->state, mark->state);
	atomic_init(&entry->generation, mark->generation);
}

static inline bool same_16(const uint8_t *a, const uint8_t *b)
{
	return !((word(a) ^ word(b)) | (word(a + 8) ^ word(b + 8)));
}

/* Wildcards are 0 in a key. */
static inline __attribute__((always_inline)) bool
same_key(const struct sa_table *table, const struct sa_entry *entry, const struct sacache_key *key)
{
	uint32_t mask = key->mask;

	if (entry->mask != mask || entry->port != key->port)
		return false;
	if (mask & SACACHE_DGID && !same_16(entry->record + 8, key->dgid))
		return false;
	if (mask & SACACHE_SGID && !same_16(entry->record + 24, key->sgid))
		return false;
	if (mask & SACACHE_DLID && sa_get16(entry->record + 40) != key->dlid)
		return false;
	if (mask & SACACHE_SLID && sa_get16(entry->record + 42) != key->slid)
		return false;
	if (mask & SACACHE_PKEY && (sa_get16(entry->record + 50) & 0x7fff) != key->pkey)
		return false;
	if (mask & SACACHE_SL && (entry->record[53] & 0xf) != key->sl)
		return false;
	if (entry->special) {
		const struct sa_more *more = sa_entry_more(table, entry);

		return more->service_id == key->service_id && more->qos_class == key->qos_class &&
		       more->tclass == key->tclass;
	}
	return !(key->service_id | key->qos_class | key->tclass);
}

/* The slot of a key; or NULL and, for a writer, the first slot that may be used. */
static _Atomic uint32_t *find_slot(struct sa_table *table, const struct sacache_key *key,
				   uint64_t hash, _Atomic uint32_t **vacant)
{
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
	uint32_t at = (uint32_t)hash;

	if (vacant)
		*vacant = NULL;
	for (;; at++) {
		_Atomic uint32_t *slot = &slots->slot[at & slots->mask];
		uint32_t value = atomic_load_explicit(slot, memory_order_relaxed);
		uint32_t index = INDEX(value);

		if (!index || index == DELETED) {
			if (vacant && !*vacant)
				*vacant = slot;
			if (!index)
				return NULL;
		} else if (value == (TAG(hash) | index) &&
			   same_key(table, &table->entry[index - 1], key)) {
			return slot;
		}
	}
}

struct sa_entry *sa_table_find(struct sa_table *table, const struct sacache_key *key)
{
	uint64_t hash = sa_key_hash(key, table->seed);
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);

	/* As find_slot(), but reads the value once: a writer may change it meanwhile. */
	for (uint32_t at = (uint32_t)hash;; at++) {
		uint32_t value =
			atomic_load_explicit(&slots->slot[at & slots->mask], memory_order_acquire);
		uint32_t index = INDEX(value);

		if (!index)
			return NULL;
		if (value == (TAG(hash) | index) && index != DELETED) {
			struct sa_entry *entry = &table->entry[index - 1];

			if (same_key(table, entry, key))
				return entry;
		}
	}
}

/* Removed entries are free once no reader can hold them. */
static void reclaim(struct sa_table *table)
{
	sa_rcu_synchronize();
	for (uint32_t i = 0; i < table->retired; i++) {
		struct sa_entry *entry = &table->entry[table->retiring[i]];

		memcpy(entry->record, &table->free, sizeof(table->free));
		table->free = table->retiring[i] + 1;
	}
	table->retired = 0;
}

static uint64_t gid_hash(const struct sa_table *table, const uint8_t *gid)
{
	return mix(word(gid) ^ table->seed, word(gid + 8) ^ 0x9e3779b97f4a7c15ull);
}

/* The chain of entries that lead to a GID. */
static bool has_destination(const struct sa_entry *entry)
{
	return entry->kind == SA_ENTRY_PATH || entry->mask & SACACHE_DGID;
}

static void link_entry(struct sa_table *table, uint32_t index)
{
	const struct sa_entry *entry = &table->entry[index];
	uint32_t *chain;

	if (!has_destination(entry))
		return;
	chain = &table->chains[gid_hash(table, entry->record + 8) & table->chains_mask];
	table->more[index].next = *chain;
	*chain = index + 1;
}

static void unlink_entry(struct sa_table *table, uint32_t index)
{
	const struct sa_entry *entry = &table->entry[index];
	uint32_t *link;

	if (!has_destination(entry))
		return;
	link = &table->chains[gid_hash(table, entry->record + 8) & table->chains_mask];
	while (*link != index + 1)
		link = &table->more[*link - 1].next;
	*link = table->more[index].next;
}

static uint32_t *count_of_source(struct sa_table *table, uint32_t index)
{
	return &table->sources[gid_hash(table, table->entry[index].record + 24) % SA_SOURCES];
}

static struct sa_entry *find_to(struct sa_table *table, uint32_t at, const uint8_t *gid)
{
	while (at && !same_16(table->entry[at - 1].record + 8, gid))
		at = table->more[at - 1].next;
	return at ? &table->entry[at - 1] : NULL;
}

struct sa_entry *sa_table_first_to(struct sa_table *table, const uint8_t gid[16])
{
	return find_to(table, table->chains[gid_hash(table, gid) & table->chains_mask], gid);
}

struct sa_entry *sa_table_next_to(struct sa_table *table, const struct sa_entry *entry)
{
	return find_to(table, sa_entry_more(table, entry)->next, entry->record + 8);
}

bool sa_table_begins_at(const struct sa_table *table, const uint8_t gid[16])
{
	return table->sources[gid_hash(table, gid) % SA_SOURCES];
}

static void retire(struct sa_table *table, uint32_t index)
{
	unlink_entry(table, index);
	--*count_of_source(table, index);
	table->more[index].live = false;
	table->retiring[table->retired++] = index;
	if (table->retired == SA_RETIRED)
		reclaim(table);
}

static uint32_t take(struct sa_table *table)
{
	uint32_t index;

	if (!table->free && table->touched == room(table))
		reclaim(table);
	if (table->free) {
		index = table->free - 1;
		memcpy(&table->free, table->entry[index].record, sizeof(table->free));
		return index;
	}
	return table->touched++;
}

/* Builds a new array of slots, without deleted ones and with room. Readers continue in the old
 * one. */
static int rebuild(struct sa_table *table)
{
	struct sa_slots *old = atomic_load_explicit(&table->slots, memory_order_relaxed);
	uint32_t count = FIRST_SLOTS;
	uint32_t *chains, chains_mask, next = 0;
	struct sa_entry *entry;
	struct sa_slots *new;

	while (count / 8 * 5 < table->entries + 1)
		count *= 2;
	new = slots_create(count);
	chains = chains_create(count, &chains_mask);
	if (!new || !chains) {
		free(new);
		free(chains);
		return -ENOMEM;
	}
	free(table->chains);
	table->chains = chains;
	table->chains_mask = chains_mask;
	while ((entry = sa_table_next(table, &next)))
		link_entry(table, entry - table->entry);
	for (uint32_t i = 0; i <= old->mask; i++) {
		uint32_t value = atomic_load_explicit(&old->slot[i], memory_order_relaxed);
		struct sacache_key key;
		uint32_t at;

		if (!INDEX(value) || INDEX(value) == DELETED)
			continue;
		sa_entry_key(table, &table->entry[INDEX(value) - 1], &key);
		at = (uint32_t)sa_key_hash(&key, table->seed);
		while (atomic_load_explicit(&new->slot[at & new->mask], memory_order_relaxed))
			at++;
		atomic_store_explicit(&new->slot[at & new->mask], value, memory_order_relaxed);
	}
	table->used = table->entries;
	atomic_store_explicit(&table->slots, new, memory_order_release);
	sa_rcu_synchronize();
	free(old);
	return 0;
}

void sa_table_remove(struct sa_table *table, struct sa_entry *entry)
{
	struct sacache_key key;
	_Atomic uint32_t *slot;

	sa_entry_key(table, entry, &key);
	slot = find_slot(table, &key, sa_key_hash(&key, table->seed), NULL);
	if (!slot)
		return;
	atomic_store_explicit(slot, DELETED, memory_order_release);
	table->entries--;
	retire(table, entry - table->entry);
}

/* Evicts an entry, preferably a nearby failure or suspect; the hand moves round. */
static void evict(struct sa_table *table)
{
	struct sa_entry *victim = NULL, *entry;
	unsigned looked = 0;

	while (looked < 64) {
		entry = sa_table_next(table, &table->hand);
		if (!entry) {
			table->hand = 0;
			looked++;
			continue;
		}
		looked++;
		if (!victim)
			victim = entry;
		if (entry->kind == SA_ENTRY_FAILURE || atomic_load(&entry->state)) {
			victim = entry;
			break;
		}
	}
	if (victim)
		sa_table_remove(table, victim);
}

int sa_table_put(struct sa_table *table, const struct sacache_key *key,
		 const uint8_t record[SA_RECORD_SIZE], const struct sa_mark *mark, bool *evicted)
{
	uint64_t hash = sa_key_hash(key, table->seed);
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
	_Atomic uint32_t *slot, *vacant;
	uint32_t index;
	int ret;

	*evicted = false;
	slot = find_slot(table, key, hash, &vacant);
	if (!slot && table->entries == table->max_entries) {
		evict(table);
		*evicted = true;
	}
	if (!slot && table->used >= slots->mask / 16 * 13) {
		ret = rebuild(table);
		if (ret)
			return ret;
		find_slot(table, key, hash, &vacant);
	}
	index = take(table);
	fill(table, index, key, record, mark);
	link_entry(table, index);
	++*count_of_source(table, index);
	if (slot) {
		uint32_t old = INDEX(atomic_load_explicit(slot, memory_order_relaxed)) - 1;

		atomic_store_explicit(slot, TAG(hash) | (index + 1), memory_order_release);
		retire(table, old);
		return 0;
	}
	if (!atomic_load_explicit(vacant, memory_order_relaxed))
		table->used++;
	atomic_store_explicit(vacant, TAG(hash) | (index + 1), memory_order_release);
	table->entries++;
	return 0;
}

struct sa_entry *sa_table_next(struct sa_table *table, uint32_t *at)
{
	while (*at < table->touched) {
		uint32_t index = (*at)++;

		if (table->more[index].live)
			return &table->entry[index];
	}
	return NULL;
}

uint64_t sa_table_bytes(const struct sa_table *table)
{
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);

	return (uint64_t)table->touched * (sizeof(*table->entry) + sizeof(*table->more)) +
	       ((uint64_t)slots->mask + 1) * sizeof(slots->slot[0]) +
	       ((uint64_t)table->chains_mask + 1) * sizeof(table->chains[0]);
}

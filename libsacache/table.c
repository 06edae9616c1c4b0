/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table; table.h has the picture and the rules. Everything but sa_table_find() belongs to writers.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "libsacache/rcu.h"
#include "libsacache/table.h"

#define FIRST_SLOTS 64
#define DELETED	    0xffffffffu

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

/* Products of key and seed, folded: GIDs differ in a few bits of few bytes, and the seed is secret. */
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

int sa_table_init(struct sa_table *table, uint32_t max_entries, uint64_t seed)
{
	struct sa_slots *slots;
	/* What waits for its grace period is beside what is in use. */
	size_t length = ((size_t)max_entries + SA_RETIRED + 1) * sizeof(struct sa_entry);

	memset(table, 0, sizeof(*table));
	table->arena = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table->arena == MAP_FAILED)
		return -ENOMEM;
	slots = slots_create(FIRST_SLOTS);
	if (!slots) {
		munmap(table->arena, length);
		return -ENOMEM;
	}
	atomic_init(&table->slots, slots);
	table->max_entries = max_entries;
	table->seed = seed;
	return 0;
}

void sa_table_destroy(struct sa_table *table)
{
	sa_rcu_synchronize();
	free(atomic_load(&table->slots));
	munmap(table->arena,
	       ((size_t)table->max_entries + SA_RETIRED + 1) * sizeof(struct sa_entry));
}

void sa_entry_key(const struct sa_entry *entry, struct sacache_key *key)
{
	*key = (struct sacache_key){
		.service_id = entry->service_id,
		.pkey = entry->pkey,
		.qos_class = entry->qos_class,
		.sl = entry->sl,
		.tclass = entry->tclass,
		.port = entry->port,
		.mask = entry->mask,
	};
	if (entry->mask & SACACHE_DGID)
		memcpy(key->dgid, entry->record + 8, 16);
	if (entry->mask & SACACHE_SGID)
		memcpy(key->sgid, entry->record + 24, 16);
	if (entry->mask & SACACHE_DLID)
		key->dlid = sa_get16(entry->record + 40);
	if (entry->mask & SACACHE_SLID)
		key->slid = sa_get16(entry->record + 42);
}

void sa_entry_init(struct sa_entry *entry, const struct sacache_key *key,
		   const uint8_t record[SA_RECORD_SIZE])
{
	memset(entry, 0, sizeof(*entry));
	if (record) {
		memcpy(entry->record, record, SA_RECORD_SIZE);
	} else {
		memcpy(entry->record + 8, key->dgid, 16);
		memcpy(entry->record + 24, key->sgid, 16);
		sa_put16(entry->record + 40, key->dlid);
		sa_put16(entry->record + 42, key->slid);
	}
	entry->service_id = key->service_id;
	entry->mask = key->mask;
	entry->pkey = key->pkey;
	entry->qos_class = key->qos_class;
	entry->sl = key->sl;
	entry->tclass = key->tclass;
	entry->port = key->port;
	entry->kind = SA_ENTRY_PATH;
}

static inline bool same_key(const struct sa_entry *entry, const struct sacache_key *key)
{
	uint32_t mask = key->mask;

	if (entry->mask != mask || entry->port != key->port || entry->pkey != key->pkey ||
	    entry->sl != key->sl || entry->tclass != key->tclass ||
	    entry->qos_class != key->qos_class || entry->service_id != key->service_id)
		return false;
	if (mask & SACACHE_DGID && memcmp(entry->record + 8, key->dgid, 16) != 0)
		return false;
	if (mask & SACACHE_SGID && memcmp(entry->record + 24, key->sgid, 16) != 0)
		return false;
	if (mask & SACACHE_DLID && sa_get16(entry->record + 40) != key->dlid)
		return false;
	return !(mask & SACACHE_SLID) || sa_get16(entry->record + 42) == key->slid;
}

/* The slot of a key, or of none: then NULL and, for a writer, the first that may be taken. */
static _Atomic uint64_t *find_slot(struct sa_table *table, const struct sacache_key *key,
				   uint32_t hash, _Atomic uint64_t **vacant)
{
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
	uint32_t at = hash;

	if (vacant)
		*vacant = NULL;
	for (;; at++) {
		_Atomic uint64_t *slot = &slots->slot[at & slots->mask];
		uint64_t value = atomic_load_explicit(slot, memory_order_acquire);
		uint32_t index = (uint32_t)value;

		if (!index || index == DELETED) {
			if (vacant && !*vacant)
				*vacant = slot;
			if (!index)
				return NULL;
		} else if (value >> 32 == hash && same_key(&table->arena[index - 1], key)) {
			return slot;
		}
	}
}

struct sa_entry *sa_table_find(struct sa_table *table, const struct sacache_key *key)
{
	uint32_t hash = sa_key_hash(key, table->seed);
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);

	/* As find_slot(), but with the one value read once: a writer may change it meanwhile. */
	for (uint32_t at = hash;; at++) {
		uint64_t value =
			atomic_load_explicit(&slots->slot[at & slots->mask], memory_order_acquire);
		uint32_t index = (uint32_t)value;

		if (!index)
			return NULL;
		if (value >> 32 == hash && index != DELETED &&
		    same_key(&table->arena[index - 1], key))
			return &table->arena[index - 1];
	}
}

/* Entries taken out earlier are free once no reader can hold them. */
static void reclaim(struct sa_table *table)
{
	sa_rcu_synchronize();
	for (uint32_t i = 0; i < table->retired; i++) {
		struct sa_entry *entry = &table->arena[table->retiring[i]];

		memcpy(entry->record, &table->free, sizeof(table->free));
		table->free = table->retiring[i] + 1;
	}
	table->retired = 0;
}

static void retire(struct sa_table *table, uint32_t index)
{
	table->arena[index].live = false;
	table->retiring[table->retired++] = index;
	if (table->retired == SA_RETIRED)
		reclaim(table);
}

static uint32_t take(struct sa_table *table)
{
	uint32_t index;

	if (!table->free && table->touched == table->max_entries + SA_RETIRED + 1)
		reclaim(table);
	if (table->free) {
		index = table->free - 1;
		memcpy(&table->free, table->arena[index].record, sizeof(table->free));
		return index;
	}
	return table->touched++;
}

/* A new array of slots, without deleted ones and with room. Readers go on in the old one. */
static int rebuild(struct sa_table *table)
{
	struct sa_slots *old = atomic_load_explicit(&table->slots, memory_order_relaxed);
	uint32_t count = FIRST_SLOTS;
	struct sa_slots *new;

	while (count / 8 * 5 < table->entries + 1)
		count *= 2;
	new = slots_create(count);
	if (!new)
		return -ENOMEM;
	for (uint32_t i = 0; i <= old->mask; i++) {
		uint64_t value = atomic_load_explicit(&old->slot[i], memory_order_relaxed);
		uint32_t at = value >> 32;

		if (!(uint32_t)value || (uint32_t)value == DELETED)
			continue;
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
	_Atomic uint64_t *slot;

	sa_entry_key(entry, &key);
	slot = find_slot(table, &key, sa_key_hash(&key, table->seed), NULL);
	if (!slot)
		return;
	atomic_store_explicit(slot, DELETED, memory_order_release);
	table->entries--;
	retire(table, entry - table->arena);
}

/* A failure or a suspect makes room before others, if one is near; the hand goes round. */
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
		 const struct sa_entry *entry, bool *evicted)
{
	uint64_t hash = (uint32_t)sa_key_hash(key, table->seed);
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);
	_Atomic uint64_t *slot, *vacant;
	uint32_t index;
	int ret;

	*evicted = false;
	slot = find_slot(table, key, hash, &vacant);
	if (!slot && table->entries == table->max_entries) {
		evict(table);
		*evicted = true;
	}
	if (!slot && table->used >= slots->mask / 4 * 3) {
		ret = rebuild(table);
		if (ret)
			return ret;
		find_slot(table, key, hash, &vacant);
	}
	index = take(table);
	memcpy(&table->arena[index], entry, sizeof(*entry));
	table->arena[index].live = true;
	if (slot) {
		uint32_t old = (uint32_t)atomic_load_explicit(slot, memory_order_relaxed) - 1;

		atomic_store_explicit(slot, hash << 32 | (index + 1), memory_order_release);
		retire(table, old);
		return 0;
	}
	if (!(uint32_t)atomic_load_explicit(vacant, memory_order_relaxed))
		table->used++;
	atomic_store_explicit(vacant, hash << 32 | (index + 1), memory_order_release);
	table->entries++;
	return 0;
}

struct sa_entry *sa_table_next(struct sa_table *table, uint32_t *at)
{
	while (*at < table->touched) {
		uint32_t index = (*at)++;

		if (table->arena[index].live)
			return &table->arena[index];
	}
	return NULL;
}

uint64_t sa_table_bytes(const struct sa_table *table)
{
	struct sa_slots *slots = atomic_load_explicit(&table->slots, memory_order_relaxed);

	return (uint64_t)table->touched * sizeof(struct sa_entry) +
	       ((uint64_t)slots->mask + 1) * sizeof(slots->slot[0]);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "hca/tag_list.h"

#define PLACE_BITS  20
#define LINK_BITS   (PLACE_BITS + 1)
#define MAX_ENTRIES (1u << PLACE_BITS)
#define NONE	    MAX_ENTRIES

/* A cache line: with a list of thousands, what a message costs is the lines that it touches. */
struct entry {
	uint64_t tag, mask;
	uint64_t order;		       /* of adding */
	uint64_t next : LINK_BITS;     /* of the chain, or of the unused places; NONE: the last */
	uint64_t previous : LINK_BITS; /* of the first entry: the last one */
	uint64_t generation : 32 - PLACE_BITS; /* of the place: the upper bits of its handle */
	uint64_t used : 1;
	uint64_t room[TAG_LIST_ROOM / sizeof(uint64_t)];
};
static_assert(sizeof(struct entry) == 64, "a cache line");

struct mask_in_use {
	uint64_t mask;
	uint32_t entries;
};

struct tag_list {
	uint32_t max, count, n_masks, n_chains;
	uint32_t free_head; /* unused places, by next */
	uint64_t added;	    /* entries so far, */
	uint64_t admitted;  /* and how many of them may be taken */
	uint64_t seed;	    /* so that senders cannot choose tags that meet in one chain */
	struct mask_in_use *masks;
	uint32_t *heads;
	struct entry *entries;
};

struct tag_list *tag_list_create(uint32_t max_entries)
{
	struct tag_list *list;

	if (!max_entries || max_entries > MAX_ENTRIES)
		return NULL;
	list = calloc(1, sizeof(*list));
	if (!list)
		return NULL;
	list->max = max_entries;
	list->n_chains = 1;
	while (list->n_chains < max_entries)
		list->n_chains <<= 1;
	list->masks = calloc(max_entries, sizeof(*list->masks));
	list->heads = malloc(list->n_chains * sizeof(*list->heads));
	list->entries = aligned_alloc(sizeof(struct entry), max_entries * sizeof(struct entry));
	if (!list->masks || !list->heads || !list->entries) {
		tag_list_destroy(list);
		return NULL;
	}
	memset(list->entries, 0, max_entries * sizeof(*list->entries));
	for (uint32_t i = 0; i < list->n_chains; i++)
		list->heads[i] = NONE;
	for (uint32_t i = 0; i < max_entries; i++)
		list->entries[i].next = i + 1 < max_entries ? i + 1 : NONE;
	if (getrandom(&list->seed, sizeof(list->seed), 0) < 0)
		list->seed = (uintptr_t)list;
	return list;
}

void tag_list_destroy(struct tag_list *list)
{
	if (!list)
		return;
	free(list->masks);
	free(list->heads);
	free(list->entries);
	free(list);
}

/* Each step is a bijection (the finalizer of MurmurHash3), so tags that differ spread over all
 * chains. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

static uint32_t chain_of(const struct tag_list *list, uint64_t tag, uint64_t mask)
{
	return mix(mix(tag ^ list->seed) ^ mask) & (list->n_chains - 1);
}

static uint32_t find_mask(const struct tag_list *list, uint64_t mask)
{
	uint32_t i = 0;

	while (i < list->n_masks && list->masks[i].mask != mask)
		i++;
	return i;
}

static void use_mask(struct tag_list *list, uint64_t mask)
{
	uint32_t i = find_mask(list, mask);

	if (i == list->n_masks)
		list->masks[list->n_masks++] = (struct mask_in_use){.mask = mask};
	list->masks[i].entries++;
}

static void leave_mask(struct tag_list *list, uint64_t mask)
{
	uint32_t i = find_mask(list, mask);

	if (!--list->masks[i].entries)
		list->masks[i] = list->masks[--list->n_masks];
}

static uint32_t handle_of(const struct entry *e, uint32_t place)
{
	return (uint32_t)e->generation << PLACE_BITS | place;
}

int tag_list_add(struct tag_list *list, uint64_t tag, uint64_t mask, uint32_t *handle)
{
	uint32_t place = list->free_head, *head = &list->heads[chain_of(list, tag, mask)];
	struct entry *e, *first;

	if (place == NONE)
		return -ENOMEM;
	e = &list->entries[place];
	list->free_head = e->next;
	e->tag = tag;
	e->mask = mask;
	e->order = list->added++;
	e->used = true;
	e->next = NONE;
	if (*head == NONE) {
		*head = e->previous = place;
	} else {
		first = &list->entries[*head];
		e->previous = first->previous;
		list->entries[first->previous].next = place;
		first->previous = place;
	}
	use_mask(list, mask);
	list->count++;
	*handle = handle_of(e, place);
	return place;
}

void tag_list_admit(struct tag_list *list)
{
	list->admitted = list->added;
}

static void unlink_entry(struct tag_list *list, uint32_t place)
{
	struct entry *e = &list->entries[place];
	uint32_t *head = &list->heads[chain_of(list, e->tag, e->mask)];

	if (e->next != NONE)
		list->entries[e->next].previous = e->previous;
	else if (*head != place)
		list->entries[*head].previous = e->previous;
	if (*head == place)
		*head = e->next;
	else
		list->entries[e->previous].next = e->next;
	leave_mask(list, e->mask);
	e->used = false;
	e->generation++;
	e->next = list->free_head;
	list->free_head = place;
	list->count--;
}

int tag_list_remove(struct tag_list *list, uint32_t handle)
{
	uint32_t place = handle & (MAX_ENTRIES - 1);

	if (place >= list->max || !list->entries[place].used ||
	    handle_of(&list->entries[place], place) != handle)
		return -ENOENT;
	unlink_entry(list, place);
	return place;
}

/* The oldest entry of that mask; NONE. */
static uint32_t oldest(const struct tag_list *list, uint64_t tag, uint64_t mask)
{
	uint32_t place = list->heads[chain_of(list, tag, mask)];

	while (place != NONE &&
	       (list->entries[place].tag != tag || list->entries[place].mask != mask))
		place = list->entries[place].next;
	/* Those behind it are younger. */
	return place != NONE && list->entries[place].order < list->admitted ? place : NONE;
}

int tag_list_take(struct tag_list *list, uint64_t tag)
{
	uint32_t best = NONE;

	for (uint32_t i = 0; i < list->n_masks; i++) {
		uint64_t mask = list->masks[i].mask;
		uint32_t place = oldest(list, tag & mask, mask);

		if (place != NONE &&
		    (best == NONE || list->entries[place].order < list->entries[best].order))
			best = place;
	}
	if (best == NONE)
		return -ENOENT;
	unlink_entry(list, best);
	return best;
}

void *tag_list_room(struct tag_list *list, uint32_t place)
{
	return list->entries[place].room;
}

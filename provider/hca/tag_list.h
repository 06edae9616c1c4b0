/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The matching list of a tag matching SRQ (rdma-core, Documentation/tag_matching.md): entries with
 * a tag and a mask. A message's tag matches an entry if (tag & mask) equals the entry's tag, and
 * takes the one that was added first.
 *
 * Entries are in hash chains by tag and mask, in the order in which they were added, so a search
 * looks at one chain for each mask that is in use. Programs use few: MPI two or three, for its
 * wildcards.
 *
 *	masks    | mask a, 2 entries | mask b, 1 entry | …
 *	heads    | 0 | 1 | 2 | … |	a chain for each hash of (tag, mask)
 *		   |
 *		   entry 7 ⇄ entry 9	oldest first
 *
 * What is added is not taken before tag_list_admit(): the newest entries may have to wait
 * (tag_matching.h). The caller has a lock. Nothing is allocated after tag_list_create().
 */
#ifndef URXE_HCA_TAG_LIST_H
#define URXE_HCA_TAG_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct tag_list;

/* A list for that many entries: 1 … 2^20. NULL: no memory. */
struct tag_list *tag_list_create(uint32_t max_entries);
void tag_list_destroy(struct tag_list *list);

/*
 * Adds an entry behind all others: its place, below max_entries, which is the caller's index for
 * what belongs to it. *handle names the entry for tag_list_remove(), and none of the next 4,095 in
 * its place. -ENOMEM: the list is full.
 */
int tag_list_add(struct tag_list *list, uint64_t tag, uint64_t mask, uint32_t *handle);
/* All entries may be taken from now on. */
void tag_list_admit(struct tag_list *list);
/* Removes an entry: its place, or -ENOENT when it was taken or removed already. */
int tag_list_remove(struct tag_list *list, uint32_t handle);
/* Takes the oldest entry that matches out of the list: its place, or -ENOENT. */
int tag_list_take(struct tag_list *list, uint64_t tag);
/* Room for the caller's own beside the entry at a place: what is written there stays
 * until it is written again. */
#define TAG_LIST_ROOM 32
void *tag_list_room(struct tag_list *list, uint32_t place);

#endif

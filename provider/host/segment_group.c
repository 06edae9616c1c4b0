// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The members of the reuseport groups, in the kernel's order: a bind() appends, and the last one
 * takes the place of one that closes (reuseport_detach_sock() in net/core/sock_reuseport.c). When
 * several die at once the kernel's order is not known; they are removed in the order of their
 * slots. A wrong order costs speed only, since a packet for another process is forwarded to it.
 *
 * Two copies; the lowest bit of the generation says which holds. Written under the segment lock,
 * read without.
 */
#include <string.h>

#include "host/segment_layout.h"

static uint32_t generation_of(const struct segment_map *map)
{
	return __atomic_load_n(&map->header.group_generation, __ATOMIC_ACQUIRE);
}

/* The copy to write, filled with what holds now. */
static struct segment_group *begin_change(struct segment_map *map)
{
	uint32_t gen = generation_of(map);
	struct segment_group *next = map->groups[(gen + 1) & 1];

	/* A reader of this copy must see the generation that left it before it changes. */
	segment_fence();
	memcpy(next, map->groups[gen & 1], sizeof(map->groups[0]));
	return next;
}

static void end_change(struct segment_map *map)
{
	__atomic_store_n(&map->header.group_generation, generation_of(map) + 1, __ATOMIC_RELEASE);
}

/* Where a slot stands in a group; -1: nowhere. */
static int position(const struct segment_group *group, unsigned slot)
{
	for (int i = 0; i < group->count; i++)
		if (group->slots[i] == slot)
			return i;
	return -1;
}

static void take_out(struct segment_group *group, unsigned slot)
{
	int i = position(group, slot);

	if (i >= 0)
		group->slots[i] = group->slots[--group->count];
}

void segment_groups_forget(struct segment_map *map, unsigned slot)
{
	const struct segment_group *now = map->groups[generation_of(map) & 1];
	struct segment_group *next;

	if (position(&now[0], slot) < 0 && position(&now[1], slot) < 0)
		return;
	next = begin_change(map);
	take_out(&next[0], slot);
	take_out(&next[1], slot);
	end_change(map);
}

void urxe_segment_group_set(struct urxe_segment *seg, unsigned group, bool member)
{
	struct segment_group *next;

	if (group >= NUM_GROUPS || !seg->slot || seg->slot > URXE_SLOT_LAST)
		return;
	next = &begin_change(seg->map)[group];
	if (member == (position(next, seg->slot) >= 0))
		return;
	if (member)
		next->slots[next->count++] = seg->slot;
	else
		take_out(next, seg->slot);
	end_change(seg->map);
}

unsigned urxe_segment_group(struct urxe_segment *seg, unsigned group, uint8_t *slots, unsigned max)
{
	struct segment_group *copy;
	unsigned count;
	uint32_t gen;

	if (group >= NUM_GROUPS)
		return 0;
	do {
		gen = generation_of(seg->map);
		copy = &seg->map->groups[gen & 1][group];
		count = __atomic_load_n(&copy->count, __ATOMIC_RELAXED);
		if (count > max)
			count = max;
		for (unsigned i = 0; i < count; i++)
			slots[i] = __atomic_load_n(&copy->slots[i], __ATOMIC_RELAXED);
		segment_fence();
	} while (gen != generation_of(seg->map));
	return count;
}

uint32_t urxe_segment_group_generation(const struct urxe_segment *seg)
{
	return generation_of(seg->map);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Counters of the living and of the retired, and the fault settings. A process increments its own
 * counters without a lock while others read them: a reader sees a value that was true a moment ago.
 * The retired ones and the fault settings are written under the segment lock into the copy that
 * does not hold, and switched to by one store.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/segment_layout.h"

#define MAX_RETRIES 1000

const char *const urxe_counter_names[URXE_NUM_COUNTERS] = {
#define COUNTER_NAME(id, name) [URXE_CNT_##id] = #name,
	URXE_COUNTERS(COUNTER_NAME)
#undef COUNTER_NAME
};

static uint64_t retire_word(const struct segment_map *map)
{
	return __atomic_load_n(&map->header.retire, __ATOMIC_ACQUIRE);
}

/* The owner increments with plain stores, which is no data race that matters. */
__attribute__((no_sanitize("thread"))) static void
add_counters(uint64_t *sum, const uint64_t *counters, unsigned num)
{
	for (unsigned i = 0; i < num; i++)
		sum[i] += *(const volatile uint64_t *)&counters[i];
}

void segment_counters_settle(struct segment_map *map)
{
	uint64_t word = retire_word(map);

	if (!RETIRE_SLOT(word))
		return;
	__atomic_store_n(&map->slots[RETIRE_SLOT(word)].state, SLOT_FREE, __ATOMIC_RELEASE);
	/* Two generations on: the same copy holds, and no slot is half-way. */
	__atomic_store_n(&map->header.retire, RETIRE_WORD(RETIRE_GEN(word) + 2, 0),
			 __ATOMIC_RELEASE);
}

void segment_counters_retire(struct segment_map *map, unsigned slot)
{
	struct segment_counters *next;
	uint64_t word;

	segment_counters_settle(map);
	if (map->slots[slot].state != SLOT_USED)
		return;
	word = retire_word(map);
	next = &map->retired[!RETIRE_COPY(word)];
	/* The switch to the other copy is seen before this copy changes. */
	segment_fence();
	memcpy(next, &map->retired[RETIRE_COPY(word)], sizeof(*next));
	add_counters(next->counters[0], map->living[slot].counters[0],
		     URXE_MAX_DEVICES * MAX_COUNTERS);
	__atomic_store_n(&map->header.retire, RETIRE_WORD(RETIRE_GEN(word) + 1, slot),
			 __ATOMIC_RELEASE);
	segment_counters_settle(map);
}

uint64_t *urxe_segment_counters(struct urxe_segment *seg, int device)
{
	if (device < 0 || device >= URXE_MAX_DEVICES)
		return NULL;
	/* A view has none; after a fork, slot 0 is harmless private memory. */
	if (!seg->slot && seg->pid == getpid())
		return NULL;
	return seg->map->living[seg->slot].counters[device];
}

static void sum_once(const struct segment_map *map, uint64_t word, int device, uint64_t *sum)
{
	memset(sum, 0, URXE_NUM_COUNTERS * sizeof(*sum));
	add_counters(sum, map->retired[RETIRE_COPY(word)].counters[device], URXE_NUM_COUNTERS);
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++)
		if (s != RETIRE_SLOT(word) &&
		    __atomic_load_n(&map->slots[s].state, __ATOMIC_ACQUIRE) == SLOT_USED)
			add_counters(sum, map->living[s].counters[device], URXE_NUM_COUNTERS);
	segment_fence();
}

void urxe_segment_counters_sum(struct urxe_segment *seg, int device,
			       uint64_t sum[URXE_NUM_COUNTERS])
{
	uint64_t word;

	memset(sum, 0, URXE_NUM_COUNTERS * sizeof(*sum));
	if (device < 0 || device >= URXE_MAX_DEVICES)
		return;
	/* Again when a process retired meanwhile, or it would be counted twice or not at all. */
	for (int i = 0; i < MAX_RETRIES; i++) {
		word = retire_word(seg->map);
		sum_once(seg->map, word, device, sum);
		if (word == retire_word(seg->map))
			return;
	}
}

int urxe_segment_fault_set(struct urxe_segment *seg, int device, const char *spec)
{
	struct segment_fault *fault;
	uint32_t gen;

	if (device < 0 || device >= URXE_MAX_DEVICES || strlen(spec) >= URXE_FAULT_SPEC_LEN)
		return -EINVAL;
	urxe_segment_lock(seg);
	fault = &seg->map->faults[device];
	gen = fault->generation + 1;
	segment_fence();
	snprintf(fault->spec[gen & 1], URXE_FAULT_SPEC_LEN, "%s", spec);
	__atomic_store_n(&fault->generation, gen, __ATOMIC_RELEASE);
	__atomic_fetch_add(&seg->map->header.fault_generation, 1, __ATOMIC_RELEASE);
	urxe_segment_unlock(seg);
	return 0;
}

void urxe_segment_fault_get(struct urxe_segment *seg, int device, char spec[URXE_FAULT_SPEC_LEN])
{
	const struct segment_fault *fault;
	uint32_t gen;

	spec[0] = '\0';
	if (device < 0 || device >= URXE_MAX_DEVICES)
		return;
	fault = &seg->map->faults[device];
	do {
		gen = __atomic_load_n(&fault->generation, __ATOMIC_ACQUIRE);
		memcpy(spec, fault->spec[gen & 1], URXE_FAULT_SPEC_LEN);
		spec[URXE_FAULT_SPEC_LEN - 1] = '\0';
		segment_fence();
	} while (gen != __atomic_load_n(&fault->generation, __ATOMIC_RELAXED));
}

uint32_t urxe_segment_fault_generation(const struct urxe_segment *seg)
{
	return __atomic_load_n(&seg->map->header.fault_generation, __ATOMIC_ACQUIRE);
}

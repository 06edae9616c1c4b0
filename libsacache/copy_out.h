/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * How a structure goes to a program that may know a shorter or a longer one. Any thread.
 */
#ifndef SACACHE_COPY_OUT_H
#define SACACHE_COPY_OUT_H

#include <stddef.h>
#include <string.h>

/* size: of the program's structure, whose end is 0 where it is the longer one. to may be NULL. */
static inline void sa_copy_out(void *to, size_t size, const void *from, size_t length)
{
	size_t both = size < length ? size : length;

	if (!to)
		return;
	if (both)
		memcpy(to, from, both);
	memset((char *)to + both, 0, size - both);
}

#endif

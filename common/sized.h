/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Copies structures between a library and a program that was built with a shorter or a longer
 * definition of them. For the libraries whose structures may grow. Any thread.
 */
#ifndef COMMON_SIZED_H
#define COMMON_SIZED_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* size: of the program's structure; if that is the longer one, its end
 * is zeroed. to may be NULL. */
static inline void copy_out(void *to, size_t size, const void *from, size_t length)
{
	size_t both = size < length ? size : length;

	if (!to)
		return;
	if (both)
		memcpy(to, from, both);
	memset((char *)to + both, 0, size - both);
}

/* The defaults of a structure that begins with its size, which is the program's. */
static inline void copy_defaults(void *to, size_t size, const void *defaults, size_t length)
{
	copy_out(to, size, defaults, length);
	if (to)
		memcpy(to, &size, size < sizeof(size) ? size : sizeof(size));
}

/* No structure is longer; a size beyond it was never set. */
#define COPY_IN_MAX 4096

/*
 * Copies a program's structure, which begins with its size, over the defaults in to. Members that
 * the program does not know keep their defaults. -EINVAL: no size, or one that the library does not
 * know is not 0.
 */
static inline int copy_in(void *to, size_t length, const void *from)
{
	size_t size;

	memcpy(&size, from, sizeof(size));
	if (size < sizeof(size) || size > COPY_IN_MAX)
		return -EINVAL;
	for (size_t i = length; i < size; i++) {
		if (((const char *)from)[i])
			return -EINVAL;
	}
	memcpy(to, from, size < length ? size : length);
	memcpy(to, &length, sizeof(length));
	return 0;
}

#endif

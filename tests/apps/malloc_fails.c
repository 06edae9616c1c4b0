// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Preloaded: the allocation of number MALLOC_FAILS, counted from 1, finds no memory. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

void *__libc_malloc(size_t len);
void *__libc_calloc(size_t n, size_t len);
void *__libc_realloc(void *old, size_t len);

static atomic_ulong count, which;

__attribute__((constructor)) static void begin(void)
{
	const char *number = getenv("MALLOC_FAILS");

	which = number ? count + strtoul(number, NULL, 10) : 0;
}

static _Bool fails(void)
{
	if (++count != which)
		return 0;
	errno = ENOMEM;
	return 1;
}

EXPORT void *malloc(size_t len)
{
	return fails() ? NULL : __libc_malloc(len);
}

EXPORT void *calloc(size_t n, size_t len)
{
	return fails() ? NULL : __libc_calloc(n, len);
}

EXPORT void *realloc(void *old, size_t len)
{
	return fails() ? NULL : __libc_realloc(old, len);
}

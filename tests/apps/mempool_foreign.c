/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program under `urxe run --pool` that is linked to an allocator of its own, which has a function
 * beside malloc()'s family that takes what malloc() gave, as jemalloc and tcmalloc have them. With
 * -DALLOCATOR this is the allocator: each allocation is a mapping that begins with a header.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

size_t foreign_length(const void *p);

#ifdef ALLOCATOR

#define EXPORT __attribute__((visibility("default")))
#define MARK   0xf00dfeedbeefcafeull

struct header {
	uint64_t mark;
	void *mapping;
	size_t mapped, length;
};

static struct header *header_of(const void *p)
{
	struct header *h = (struct header *)p - 1;

	if (h->mark != MARK)
		abort();
	return h;
}

EXPORT void *memalign(size_t alignment, size_t length)
{
	size_t room = (alignment > 64 ? alignment : 64),
	       bytes = length + room + sizeof(struct header);
	struct header *h;
	uintptr_t p;
	void *m;

	if (bytes < length)
		return NULL;
	m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return NULL;
	p = ((uintptr_t)m + sizeof(*h) + room - 1) / room * room;
	h = (struct header *)p - 1;
	*h = (struct header){MARK, m, bytes, length};
	return (void *)p;
}

EXPORT void *malloc(size_t length)
{
	return memalign(16, length);
}

EXPORT void *calloc(size_t count, size_t length)
{
	return count && length > SIZE_MAX / count ? NULL : memalign(16, count * length);
}

EXPORT void free(void *p)
{
	if (p)
		munmap(header_of(p)->mapping, header_of(p)->mapped);
}

EXPORT void *realloc(void *p, size_t length)
{
	void *q = memalign(16, length);

	if (p && q) {
		memcpy(q, p, foreign_length(p) < length ? foreign_length(p) : length);
		free(p);
	}
	return q;
}

EXPORT size_t malloc_usable_size(void *p)
{
	return p ? foreign_length(p) : 0;
}

EXPORT size_t foreign_length(const void *p)
{
	return header_of(p)->length;
}

#else

#define EXPECT(condition)                                                       \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			return 1;                                               \
		}                                                               \
	} while (0)

int main(void)
{
	for (size_t length = 100; length < 4ul << 20; length *= 10) {
		char *p = malloc(length);

		memset(p, 5, length);
		EXPECT(foreign_length(p) == length);
		EXPECT(malloc_usable_size(p) == length);
		p = realloc(p, 3 * length);
		EXPECT(foreign_length(p) == 3 * length && p[length - 1] == 5);
		free(p);
		p = memalign(8192, length);
		EXPECT((uintptr_t)p % 8192 == 0 && foreign_length(p) == length);
		free(p);
		p = calloc(3, length);
		EXPECT(foreign_length(p) == 3 * length && !p[length]);
		free(p);
	}
	return 0;
}

#endif

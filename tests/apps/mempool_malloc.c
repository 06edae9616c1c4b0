/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program under `urxe run --pool` that knows nothing of it, but looks: large allocations lie in
 * the pool's memfd and small ones do not; they behave as malloc() says; a forked child has its own.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024ul
#define MIB (1024 * KIB)

static int failures;

#define EXPECT(condition)                                                      \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			failures++;                                            \
		}                                                              \
	} while (0)

static bool in_pool(const void *p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (uintptr_t)p >= from &&
		    (uintptr_t)p < to)
			found = strstr(line, "/memfd:mempool");
	if (f)
		fclose(f);
	return found;
}

static bool all(const char *p, char value, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (p[i] != value)
			return false;
	return true;
}

static void calls(void)
{
	char *small = malloc(1000), *large = malloc(64 * KIB), *p;
	void *aligned = NULL;

	EXPECT(!in_pool(small));
	EXPECT(in_pool(large));
	EXPECT(malloc_usable_size(large) >= 64 * KIB);
	EXPECT(malloc_usable_size(small) >= 1000);
	free(large);
	for (size_t align = 16; align <= 4 * MIB; align *= 2) {
		EXPECT(!posix_memalign(&aligned, align, 100000));
		EXPECT((uintptr_t)aligned % align == 0);
		EXPECT(in_pool(aligned) == (align <= 2 * MIB));
		free(aligned);
	}
	/* Whole pages are pages for I/O, whatever their number. */
	EXPECT(!posix_memalign(&aligned, 4096, 8192));
	EXPECT(in_pool(aligned));
	free(aligned);
	aligned = aligned_alloc(4096, 128 * KIB);
	EXPECT(in_pool(aligned));
	free(aligned);
	/* Memory that has been used comes as zeros from calloc(). */
	for (size_t size = 64 * KIB; size <= 4 * MIB; size *= 2) {
		p = malloc(size);
		memset(p, 1, size);
		free(p);
		p = calloc(1, size);
		EXPECT(in_pool(p) && all(p, 0, size));
		free(p);
	}
	/* From libc to the pool, within it, and back. */
	memset(small, 5, 1000);
	for (size_t size = 2000; size < 8 * MIB; size = size * 3 / 2) {
		small = realloc(small, size);
		EXPECT(all(small, 5, 1000));
		EXPECT(in_pool(small) == (size >= 64 * KIB));
	}
	small = realloc(small, 900);
	EXPECT(!in_pool(small) && all(small, 5, 900));
	free(small);
	/* What a pool cannot give. */
	volatile size_t huge = SIZE_MAX / 2;

	errno = 0;
	EXPECT(!malloc(huge) && errno == ENOMEM);
	EXPECT(!calloc(huge, 4));
}

/* What madvise() says is not needed reads as zeros, as private memory does, and can be used again.
 * */
static void not_needed(void)
{
	static const size_t sizes[] = {4 * KIB, 100 * KIB, 5 * MIB};
	void *p;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		EXPECT(!posix_memalign(&p, 4 * KIB, sizes[i]));
		EXPECT(in_pool(p));
		memset(p, 1, sizes[i]);
		/* Of the last page there is all, as madvise(2) has it. */
		EXPECT(!madvise(p, sizes[i] - 1, MADV_DONTNEED));
		EXPECT(all(p, 0, sizes[i]));
		memset(p, 2, sizes[i]);
		EXPECT(!madvise(p, sizes[i], MADV_FREE));
		memset(p, 3, sizes[i]);
		EXPECT(all(p, 3, sizes[i]));
		EXPECT(madvise((char *)p + 1, 10, MADV_DONTNEED) && errno == EINVAL);
		EXPECT(all(p, 3, sizes[i]));
		free(p);
	}
}

/* A daemon closes all descriptors and forks. */
static void fork_closed(void)
{
	char *p = malloc(3 * MIB);
	int status;
	pid_t pid;

	memset(p, 1, 3 * MIB);
	closefrom(3);
	pid = fork();
	if (!pid) {
		EXPECT(in_pool(p) && all(p, 1, 3 * MIB));
		memset(p, 2, 3 * MIB);
		_exit(failures);
	}
	waitpid(pid, &status, 0);
	EXPECT(!status);
	EXPECT(all(p, 1, 3 * MIB));
	free(p);
}

static char *handlers;

static void allocate_again(void)
{
	free(handlers);
	handlers = malloc(200 * KIB);
	memset(handlers, 1, 200 * KIB);
}

/* Neither sees what the other writes, be it before or after the other has touched the page. */
static void fork_copies(void)
{
	char *p = malloc(3 * MIB);
	int ends[2], status;
	char byte;

	memset(p, 1, 3 * MIB);
	EXPECT(!pipe(ends));
	pid_t pid = fork();

	if (!pid) {
		close(ends[1]);
		EXPECT(read(ends[0], &byte, 1) == 0); /* the parent has written */
		EXPECT(in_pool(p) && all(p, 1, 3 * MIB));
		memset(p, 3, 3 * MIB);
		free(p);
		p = malloc(200 * KIB);
		EXPECT(in_pool(p));
		free(p);
		_exit(failures);
	}
	memset(p, 2, 3 * MIB);
	close(ends[0]);
	close(ends[1]);
	waitpid(pid, &status, 0);
	EXPECT(!status);
	EXPECT(all(p, 2, 3 * MIB));
	free(p);
	EXPECT(system("true") == 0);
}

int main(void)
{
	/* A program's handlers may use its memory, and are there before it. */
	EXPECT(!pthread_atfork(allocate_again, allocate_again, allocate_again));
	calls();
	not_needed();
	fork_copies();
	fork_closed();
	return failures != 0;
}

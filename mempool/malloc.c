/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A library to be preloaded: large allocations of an unmodified program (64 KiB and more; and all
 * page-aligned ones, as buffers of RDMA programs often are) come from a pool, so that memory that
 * it registers later is contiguous, and other processes can map it (rmempool_locate() with pool
 * NULL finds it). All other allocations go to the next definition of malloc().
 *
 * The pool behaves like malloc() where that matters: pages are allocated when they are touched,
 * buffers of 1 MiB and more free theirs (if they are ordinary ones) in free(), memory reads as
 * zeros after MADV_DONTNEED, a forked child has a copy of its own, and allocations that the pool
 * cannot serve go to the next allocator. A program whose allocator is not libc's keeps it, since
 * that may have further functions that take pointers from malloc().
 *
 * Any thread; the pool has its own locks. inside is set while this thread is in the library, whose
 * own allocations do not come from the pool.
 */
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mempool/mempool.h"

#define EXPORT	  __attribute__((visibility("default")))
#define THRESHOLD (64ul << 10)
#define PAGE	  4096ul
#define GIVE_BACK (1ul << 20)
#define GROWTH	  (32ul << 20)
#define ALIGNMENT (2ul << 20) /* the largest alignment of a pool */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

struct allocator {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *p, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void (*free)(void *p);
	size_t (*usable_size)(void *p);
	int (*madvise)(void *addr, size_t length, int advice);
	bool foreign; /* the program's allocator is not libc's */
};

static __thread bool inside __attribute__((tls_model("initial-exec")));
static struct rmempool *_Atomic pool;

static size_t no_size(void *p)
{
	return 0;
}

static int plain_madvise(void *addr, size_t length, int advice)
{
	return syscall(SYS_madvise, addr, length, advice);
}

/* The shared object that contains a function. */
static const void *object_of(const void *function)
{
	Dl_info info;

	return dladdr(function, &info) ? info.dli_fbase : NULL;
}

static void find(void *field, const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (function)
		memcpy(field, &function, sizeof(function));
}

/*
 * The next definitions of these functions. The loader's first call finds them, before there is a
 * second thread; until then libc's are used, since dlsym() itself may allocate.
 */
static const struct allocator *next(void)
{
	static struct allocator found = {
		.malloc = __libc_malloc,
		.calloc = __libc_calloc,
		.realloc = __libc_realloc,
		.memalign = __libc_memalign,
		.free = __libc_free,
		.usable_size = no_size,
		.madvise = plain_madvise,
		.foreign = true,
	};
	static bool searched;
	struct allocator all = found;

	if (__builtin_expect(searched, 1))
		return &found;
	searched = true;
	find(&all.malloc, "malloc");
	find(&all.calloc, "calloc");
	find(&all.realloc, "realloc");
	find(&all.memalign, "memalign");
	find(&all.free, "free");
	find(&all.usable_size, "malloc_usable_size");
	find(&all.madvise, "madvise");
	all.foreign = object_of(all.malloc) != object_of(gnu_get_libc_version);
	found = all;
	return &found;
}

static void make_pool(void)
{
	struct rmempool_attr attr;
	struct rmempool *made;
	size_t memory;

	rmempool_attr_init(&attr, sizeof(attr));
	attr.bytes = 0;
	/* mlockall() locks the pool's own data structures too, whether or not they have pages
	 * yet. */
	memory = (size_t)sysconf(_SC_PHYS_PAGES) * PAGE;
	if (memory && memory < attr.limit)
		attr.limit = memory;
	attr.flags = RMEMPOOL_LAZY | RMEMPOOL_FORK;
	if (!rmempool_create(&attr, &made))
		atomic_store(&pool, made);
}

/* From the pool; NULL: use libc. */
static void *take(size_t size, size_t alignment)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rmempool *from = atomic_load_explicit(&pool, memory_order_acquire);
	struct rmempool_buffer b = {0};
	int saved = errno;

	if (!size || (size < THRESHOLD && alignment < PAGE) || alignment > ALIGNMENT || inside ||
	    next()->foreign)
		return NULL;
	inside = true;
	/* A child that is forked during the initialisation does it again. */
	if (!from) {
		pthread_once(&once, make_pool);
		from = atomic_load(&pool);
	}
	/* Lengths that no pool can have are not requested from it. */
	if (from && rmempool_alloc(from, size, alignment, &b, sizeof(b)) &&
	    size < SIZE_MAX - ALIGNMENT &&
	    !rmempool_grow(from, size > GROWTH - alignment ? size + alignment : GROWTH))
		rmempool_alloc(from, size, alignment, &b, sizeof(b));
	inside = false;
	errno = saved;
	return b.addr;
}

/* The length of a buffer of the pool, or 0. */
static size_t length_of(const void *p)
{
	struct rmempool *of = atomic_load_explicit(&pool, memory_order_acquire);

	return of && p ? rmempool_length(of, p) : 0;
}

/*
 * Frees the pages of a long buffer, which then reads as zeros. Not huge pages: they were reserved
 * for the block, and touching them again could raise SIGBUS if none is free by then.
 */
static bool give_back(void *p, size_t length)
{
	struct rmempool_location at;

	if (length < GIVE_BACK)
		return false;
	for (size_t done = 0; done < length; done += at.length)
		if (rmempool_locate(pool, (char *)p + done, &at, sizeof(at)) ||
		    at.pages != RMEMPOOL_PAGES_PLAIN)
			return false;
	return !next()->madvise(p, length, MADV_REMOVE);
}

EXPORT void *malloc(size_t size)
{
	void *p = take(size, 0);

	return p ? p : next()->malloc(size);
}

EXPORT void free(void *p)
{
	size_t length = length_of(p);
	int saved = errno;

	if (!length) {
		next()->free(p);
		return;
	}
	inside = true;
	give_back(p, length);
	rmempool_free(pool, p);
	inside = false;
	errno = saved;
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;
	void *p;
	int saved = errno;

	if (__builtin_mul_overflow(count, size, &bytes) || !(p = take(bytes, 0)))
		return next()->calloc(count, size);
	if (!give_back(p, length_of(p)))
		memset(p, 0, bytes);
	errno = saved;
	return p;
}

EXPORT size_t malloc_usable_size(void *p)
{
	size_t length = length_of(p);

	return length ? length : p ? next()->usable_size(p) : 0;
}

EXPORT void *realloc(void *p, size_t size)
{
	size_t old = length_of(p);
	void *q;

	if (!old && (!p || size < THRESHOLD))
		return p ? next()->realloc(p, size) : malloc(size);
	if (old && !size) {
		free(p);
		return NULL;
	}
	if (old && size <= old && size >= old / 2 && size >= THRESHOLD)
		return p;
	if (!old) {
		q = take(size, 0);
		if (!q)
			return next()->realloc(p, size);
		old = next()->usable_size(p);
	} else {
		q = malloc(size);
		if (!q)
			return NULL;
	}
	memcpy(q, p, old < size ? old : size);
	free(p);
	return q;
}

static bool power_of_two(size_t n)
{
	return n && !(n & (n - 1));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	void *p = power_of_two(alignment) ? take(size, alignment) : NULL;

	return p ? p : next()->memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	int saved = errno;
	void *p;

	if (!power_of_two(alignment) || alignment % sizeof(void *))
		return EINVAL;
	p = memalign(alignment, size);
	errno = saved;
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

EXPORT void *valloc(size_t size)
{
	return memalign(sysconf(_SC_PAGESIZE), size);
}

/*
 * After MADV_DONTNEED a program may expect zeros, as private pages give; pages of a file would keep
 * their contents. True: all of the range was the pool's.
 */
static bool forget(char *p, size_t length)
{
	struct rmempool *of = atomic_load_explicit(&pool, memory_order_acquire);
	struct rmempool_location at;
	size_t n;

	for (; length; p += n, length -= n) {
		if (!of || rmempool_locate(of, p, &at, sizeof(at)))
			return false;
		n = length < at.length ? length : at.length;
		/* Huge pages are kept: see give_back(). */
		if (at.pages != RMEMPOOL_PAGES_PLAIN || next()->madvise(p, n, MADV_REMOVE))
			memset(p, 0, n);
	}
	return true;
}

EXPORT int madvise(void *addr, size_t length, int advice)
{
	size_t rounded = (length + PAGE - 1) & ~(PAGE - 1);

	if ((advice == MADV_DONTNEED || advice == MADV_FREE) && !((uintptr_t)addr % PAGE) &&
	    rounded >= length && forget(addr, rounded))
		return 0;
	return next()->madvise(addr, length, advice);
}

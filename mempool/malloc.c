/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A library to be preloaded: large allocations of a program that knows nothing of this (64 KiB and
 * more; and whatever is aligned to pages, as buffers of RDMA programs often are) come from a pool,
 * so that what it registers later is contiguous, and other processes can map it (mempool_locate()
 * with pool NULL says where it is). Everything else is libc's.
 *
 * The pool is like malloc() where that matters: pages come when they are touched, buffers of 1 MiB
 * and more give theirs back when they are freed (if they are ordinary ones), a forked child has a copy of its own, and what the
 * pool cannot give libc does.
 *
 * Any thread; the pool has its own locks. inside is set while this thread is in the library, whose own
 * allocations are libc's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mempool/mempool.h"

#define EXPORT	  __attribute__((visibility("default")))
#define THRESHOLD (64ul << 10)
#define PAGE	  4096ul
#define GIVE_BACK (1ul << 20)
#define GROWTH	  (32ul << 20)
#define ALIGNMENT (2ul << 20) /* the most that a pool can do */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static __thread bool inside __attribute__((tls_model("initial-exec")));
static struct mempool *_Atomic pool;

static struct mempool *make_pool(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool failed;
	struct mempool *made = NULL;
	struct mempool_attr attr;

	pthread_mutex_lock(&lock);
	made = atomic_load(&pool);
	if (!made && !failed) {
		mempool_attr_init(&attr);
		attr.bytes = 0;
		attr.flags = MEMPOOL_LAZY | MEMPOOL_FORK;
		failed = mempool_create(&attr, &made);
		atomic_store(&pool, failed ? NULL : made);
	}
	pthread_mutex_unlock(&lock);
	return failed ? NULL : made;
}

/* From the pool; NULL: libc's turn. */
static void *take(size_t size, size_t alignment)
{
	struct mempool *from = atomic_load_explicit(&pool, memory_order_acquire);
	struct mempool_buffer b = {0};
	int saved = errno;

	if (!size || (size < THRESHOLD && alignment < PAGE) || alignment > ALIGNMENT || inside)
		return NULL;
	inside = true;
	if (!from)
		from = make_pool();
	if (from && mempool_alloc(from, size, alignment, &b) &&
	    !mempool_grow(from, size > GROWTH - alignment ? size + alignment : GROWTH))
		mempool_alloc(from, size, alignment, &b);
	inside = false;
	errno = saved;
	return b.addr;
}

/* The length of a buffer of the pool, or 0. */
static size_t length_of(const void *p)
{
	struct mempool *of = atomic_load_explicit(&pool, memory_order_acquire);

	return of && p ? mempool_length(of, p) : 0;
}

/*
 * Gives the pages of a long buffer back: afterwards it reads as zeros. Not those in huge pages, which
 * were reserved for the block: once given away they may not be had again, and that would be a signal.
 */
static bool give_back(void *p, size_t length)
{
	struct mempool_location at;

	if (length < GIVE_BACK)
		return false;
	for (size_t done = 0; done < length; done += at.length)
		if (mempool_locate(pool, (char *)p + done, &at) || at.pages != MEMPOOL_PAGES_PLAIN)
			return false;
	return !madvise(p, length, MADV_REMOVE);
}

EXPORT void *malloc(size_t size)
{
	void *p = take(size, 0);

	return p ? p : __libc_malloc(size);
}

EXPORT void free(void *p)
{
	size_t length = length_of(p);
	int saved = errno;

	if (!length) {
		__libc_free(p);
		return;
	}
	inside = true;
	give_back(p, length);
	mempool_free(pool, p);
	inside = false;
	errno = saved;
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;
	void *p;
	int saved = errno;

	if (__builtin_mul_overflow(count, size, &bytes) || !(p = take(bytes, 0)))
		return __libc_calloc(count, size);
	if (!give_back(p, length_of(p)))
		memset(p, 0, bytes);
	errno = saved;
	return p;
}

static size_t libc_usable_size(void *p)
{
	static size_t (*_Atomic next)(void *);
	size_t (*function)(void *) = atomic_load(&next);

	if (!function) {
		function = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
		atomic_store(&next, function);
	}
	return function ? function(p) : 0;
}

EXPORT size_t malloc_usable_size(void *p)
{
	size_t length = length_of(p);

	return length ? length : p ? libc_usable_size(p) : 0;
}

EXPORT void *realloc(void *p, size_t size)
{
	size_t old = length_of(p);
	void *q;

	if (!old && (!p || size < THRESHOLD))
		return p ? __libc_realloc(p, size) : malloc(size);
	if (old && !size) {
		free(p);
		return NULL;
	}
	if (old && size <= old && size >= old / 2 && size >= THRESHOLD)
		return p;
	if (!old) {
		q = take(size, 0);
		if (!q)
			return __libc_realloc(p, size);
		old = libc_usable_size(p);
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

	return p ? p : __libc_memalign(alignment, size);
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

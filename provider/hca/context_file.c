/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The file behind a context's cmd_fd; context_file.h draws it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hca/context_file.h"
#include "hca/hca.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/mutex.h"
#include "host/sysinfo.h"

#define MAGIC	   0x7478657443585255 /* "URXCtext" */
#define VERSION	   3
#define PAGE	   4096u
#define MAX_DMS	   4096
#define DM_PAGES   (URXE_DM_BYTES / PAGE)
#define PD_NUMBERS (1u << URXE_PD_BITS)
#define DM_WORDS   (DM_PAGES / 64)
#define MAX_ALIGN  26 /* log2 of URXE_DM_BYTES */

/* An allocation; pages 0: none. */
struct shared_dm {
	_Atomic uint32_t pages;
	_Atomic uint32_t first;
	_Atomic uint64_t length;
};

struct context_shared {
	uint64_t magic;
	uint32_t version;
	_Atomic uint32_t imported; /* by other contexts, at any time */
	uint64_t bytes;
	char device[64];
	pthread_mutex_t lock;
	_Atomic uint64_t pds[PD_NUMBERS / 64];
	struct shared_dm dms[MAX_DMS];
	_Atomic uint64_t used[DM_WORDS];
};

#define CONTEXT_FILE_DM	   ((sizeof(struct context_shared) + PAGE - 1) / PAGE * PAGE)
#define CONTEXT_FILE_BYTES (CONTEXT_FILE_DM + URXE_DM_BYTES)

static_assert(sizeof(struct shared_dm) == 16, "layout seen by other processes");
static_assert(256 * URXE_MAX_PD == PD_NUMBERS, "a slot and a place");
static_assert(1ull << MAX_ALIGN == URXE_DM_BYTES, "the largest alignment");

static _Atomic uint64_t mappings; /* so far */

/* Of urxe_use and the locks behind the ends of this process's files. */
static URXE_MUTEX(uses_lock);

static int map(struct urxe_context_file *file, int fd)
{
	void *p = mmap(NULL, CONTEXT_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		       fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	file->shared = p;
	file->fd = fd;
	file->locks = -1;
	file->mapping = atomic_fetch_add(&mappings, 1);
	return 0;
}

int urxe_context_file_create(struct urxe_context_file *file, const char *device)
{
	int fd = urxe_fd_memfd("urxe-context", CONTEXT_FILE_BYTES), ret;

	*file = (struct urxe_context_file){.fd = -1, .locks = -1};
	if (fd < 0)
		return -errno;
	ret = map(file, fd);
	if (ret) {
		urxe_fd_close(fd);
		return ret;
	}
	file->shared->version = VERSION;
	file->shared->bytes = CONTEXT_FILE_BYTES;
	snprintf(file->shared->device, sizeof(file->shared->device), "%s", device);
	urxe_shared_mutex_init(&file->shared->lock);
	atomic_thread_fence(memory_order_release);
	file->shared->magic = MAGIC;
	return 0;
}

int urxe_context_file_open(struct urxe_context_file *file, int fd)
{
	struct { /* how the header begins, in any version */
		uint64_t magic;
		uint32_t version;
	} start;
	struct urxe_stat st;
	int seals, ret;

	*file = (struct urxe_context_file){.fd = -1, .locks = -1};
	if (urxe_fstat(fd, &st))
		return -EBADF;
	seals = urxe_libc.fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || st.size < sizeof(start) ||
	    pread(fd, &start, sizeof(start), 0) != sizeof(start) || start.magic != MAGIC)
		return -ENOENT;
	if (start.version != VERSION || st.size != CONTEXT_FILE_BYTES)
		return -EPROTONOSUPPORT;
	ret = map(file, fd);
	if (ret)
		return ret;
	file->fd = urxe_fd_keep(fd);
	atomic_store(&file->shared->imported, 1);
	return 0;
}

void urxe_context_file_close(struct urxe_context_file *file)
{
	if (file->shared)
		munmap(file->shared, CONTEXT_FILE_BYTES);
	urxe_fd_close(file->fd);
	urxe_fd_close(file->locks);
	*file = (struct urxe_context_file){.fd = -1, .locks = -1};
}

/* Its parent's locks are not the child's to keep. */
void urxe_context_file_forked(struct urxe_context_file *file)
{
	urxe_fd_close(file->locks);
	file->locks = -1;
}

void urxe_context_file_device(const struct urxe_context_file *file, char *name, size_t size)
{
	snprintf(name, size, "%.*s", (int)sizeof(file->shared->device) - 1, file->shared->device);
}

static void lock(struct context_shared *s)
{
	if (pthread_mutex_lock(&s->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&s->lock);
}

static void unlock(struct context_shared *s)
{
	pthread_mutex_unlock(&s->lock);
}

static void set_bits(_Atomic uint64_t *words, uint32_t first, uint32_t n, bool on)
{
	for (uint32_t i = first; i < first + n; i++) {
		if (on)
			atomic_fetch_or(&words[i / 64], 1ull << i % 64);
		else
			atomic_fetch_and(&words[i / 64], ~(1ull << i % 64));
	}
}

void urxe_context_file_set_pd(struct urxe_context_file *file, uint32_t number, bool there)
{
	if (file->shared)
		set_bits(file->shared->pds, number, 1, there);
}

bool urxe_context_file_has_pd(const struct urxe_context_file *file, uint32_t number)
{
	const struct context_shared *s = file->shared;

	return s && number < PD_NUMBERS &&
	       (atomic_load(&s->pds[number / 64]) & 1ull << number % 64);
}

/* ---- what is in use ---- */

/*
 * Each object has 4 Gi bytes, far behind the file's end, of which each handle has one. They are
 * locked by an open file description of this mapping's own, because a descriptor that was sent
 * shares its sender's. Nothing is locked by file->fd, which thus sees all locks.
 */
static struct flock bytes_of(uint32_t object, short type)
{
	return (struct flock){
		.l_type = type,
		.l_start = (off_t)(1 + object) << 32,
		.l_len = 1ll << 32,
	};
}

static int lock_byte(struct urxe_context_file *file, uint32_t object, uint32_t number, short type)
{
	struct flock byte = bytes_of(object, type);
	char path[32];

	if (file->locks < 0) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
		file->locks = urxe_fd_keep(urxe_libc.open(path, O_RDONLY | O_CLOEXEC));
		if (file->locks < 0)
			return -errno;
	}
	byte.l_start += number;
	byte.l_len = 1;
	return urxe_libc.fcntl(file->locks, F_OFD_SETLK, &byte) ? -errno : 0;
}

/*
 * Lets other handles see whether one is used. A use that begins meanwhile either sees that it is no
 * longer shown, or its count is seen here.
 */
static int show(struct urxe_context_file *file, uint32_t object, struct urxe_use *of)
{
	int saved = errno, ret = 0;
	bool used;

	pthread_mutex_lock(&uses_lock);
	if (!of->number)
		of->number = ++file->uses;
	while (!ret && (used = atomic_load(&of->count)) != atomic_load(&of->shown)) {
		ret = lock_byte(file, object, of->number, used ? F_RDLCK : F_UNLCK);
		if (!ret)
			atomic_store(&of->shown, used);
	}
	pthread_mutex_unlock(&uses_lock);
	errno = saved;
	return ret;
}

/*
 * Programs register region after region in an empty domain. While nobody has imported the context,
 * an idle handle keeps its lock, which saves them the system calls. To an importer that comes later
 * it seems used until the next use ends.
 */
int urxe_context_file_show(struct urxe_context_file *file, uint32_t object, struct urxe_use *of,
			   bool ends)
{
	if (!file->shared || (ends && !atomic_load(&file->shared->imported)))
		return 0;
	return show(file, object, of);
}

bool urxe_context_file_used(struct urxe_context_file *file, uint32_t object, struct urxe_use *of)
{
	struct flock bytes = bytes_of(object, F_WRLCK);

	if (!file->shared)
		return false;
	if (of->number)
		show(file, object, of);
	return !urxe_libc.fcntl(file->fd, F_OFD_GETLK, &bytes) && bytes.l_type != F_UNLCK;
}

/* ---- device memory ---- */

static bool page_used(const struct context_shared *s, uint32_t page)
{
	return atomic_load_explicit(&s->used[page / 64], memory_order_relaxed) & 1ull << page % 64;
}

/* The first run of unused pages that begins on a multiple of align: DM_PAGES when there is none. */
static uint32_t find_run(const struct context_shared *s, uint32_t pages, uint32_t align)
{
	uint32_t first = 0, page;

	while (first + pages <= DM_PAGES) {
		for (page = first; page < first + pages && !page_used(s, page); page++)
			;
		if (page == first + pages)
			return first;
		first = (page + align) / align * align;
	}
	return DM_PAGES;
}

/* The lock held. A process that dies in here loses pages at most. */
static int alloc(struct urxe_context_file *file, uint64_t length, uint32_t pages, uint32_t align)
{
	struct context_shared *s = file->shared;
	uint32_t handle = 0, first;

	while (handle < MAX_DMS && atomic_load(&s->dms[handle].pages))
		handle++;
	first = find_run(s, pages, align);
	if (handle == MAX_DMS || first == DM_PAGES)
		return -ENOMEM;
	/* Now, and not by a signal at the first access. */
	if (fallocate(file->fd, 0, CONTEXT_FILE_DM + (off_t)first * PAGE, (off_t)pages * PAGE))
		return -ENOMEM;
	set_bits(s->used, first, pages, true);
	atomic_store(&s->dms[handle].first, first);
	atomic_store(&s->dms[handle].length, length);
	atomic_store(&s->dms[handle].pages, pages);
	return handle;
}

int urxe_context_file_alloc_dm(struct urxe_context_file *file, uint64_t length, uint32_t log_align)
{
	int ret;

	if (!length || log_align > MAX_ALIGN)
		return -EINVAL;
	if (!file->shared || length > URXE_DM_BYTES)
		return -ENOMEM;
	lock(file->shared);
	ret = alloc(file, length, (length + PAGE - 1) / PAGE,
		    1ull << log_align < PAGE ? 1 : (1u << log_align) / PAGE);
	unlock(file->shared);
	return ret;
}

/* A copy of a row that leads to memory of the file, whatever another process wrote there. */
static bool get(const struct context_shared *s, uint32_t handle, uint32_t *first, uint32_t *pages,
		uint64_t *length)
{
	if (!s || handle >= MAX_DMS)
		return false;
	*pages = atomic_load(&s->dms[handle].pages);
	*first = atomic_load(&s->dms[handle].first);
	*length = atomic_load(&s->dms[handle].length);
	return *pages && *pages <= DM_PAGES && *first <= DM_PAGES - *pages &&
	       *length <= (uint64_t)*pages * PAGE;
}

int urxe_context_file_free_dm(struct urxe_context_file *file, uint32_t handle, struct urxe_use *of)
{
	struct context_shared *s = file->shared;
	uint32_t first, pages;
	uint64_t length;
	int ret = -ENOENT;

	if (!s)
		return ret;
	lock(s);
	if (get(s, handle, &first, &pages, &length))
		ret = urxe_context_file_used(file, urxe_object_of_dm(handle), of) ? -EBUSY : 0;
	if (!ret) {
		atomic_store(&s->dms[handle].pages, 0);
		/* The next owner finds zeros. */
		fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  CONTEXT_FILE_DM + (off_t)first * PAGE, (off_t)pages * PAGE);
		set_bits(s->used, first, pages, false);
	}
	unlock(s);
	return ret;
}

int urxe_context_file_use_dm(struct urxe_context_file *file, uint32_t handle, struct urxe_use *of)
{
	struct context_shared *s = file->shared;
	uint32_t first, pages;
	uint64_t length;
	int ret = -ENOENT;

	if (!s)
		return ret;
	lock(s);
	if (get(s, handle, &first, &pages, &length)) {
		ret = urxe_context_file_use(file, urxe_object_of_dm(handle), of, 1);
		if (ret)
			urxe_context_file_use(file, urxe_object_of_dm(handle), of, -1);
	}
	unlock(s);
	return ret;
}

int urxe_context_file_find_dm(struct urxe_context_file *file, uint32_t handle, void **addr,
			      uint64_t *length)
{
	uint32_t first, pages;

	if (!get(file->shared, handle, &first, &pages, length))
		return -ENOENT;
	*addr = (uint8_t *)file->shared + CONTEXT_FILE_DM + (size_t)first * PAGE;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects: files that registered memory lies in, which neighbours map to reach it as memory
 * (direct_private.h). They are the memfds of libmempool, of which this library knows no more than the
 * function that says where an address lies.
 *
 * A region's row names its object. So memory is reached through a mapping only while a row says that
 * it lies there, and an address that has become something else is not taken for what it was.
 *
 * Objects of huge pages are not told: a block that was given back has no page there, and if none is
 * free an access is a signal for whoever makes it. In ordinary memory it reads as zeros.
 *
 * Our own objects are guarded by a lock of theirs, which any thread takes and inside of which nobody
 * waits. What we map of others' is guarded by the engine lock.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "hca/direct_private.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/sysinfo.h"

#define PAGE	       4096
#define FILE_MAX_BYTES (1ull << 40) /* of a pool */

typedef int locate_fn(struct mempool *pool, const void *addr, struct mempool_location *location);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct direct_object *objects;
static unsigned users[DIRECT_OBJECTS]; /* regions in each */
static uint32_t made;		       /* so far, for ids */
static locate_fn *locate;

/* libmempool is there from the start, preloaded or a library of the program's, or not at all. */
void direct_objects_reset(struct direct_tables *tables)
{
	pthread_mutex_init(&lock, NULL);
	memset(users, 0, sizeof(users));
	objects = tables ? tables->objects : NULL;
	if (!locate && direct_enabled())
		locate = (locate_fn *)urxe_libc.dlsym(RTLD_DEFAULT, "mempool_locate");
}

/* ---- our own ---- */

/* The file that all of the range lies in, and the address of its offset 0. */
static bool find_file(const char *addr, size_t length, int *fd, uint64_t *base)
{
	struct mempool_location at;

	for (size_t done = 0; done < length; done += at.length) {
		if (locate(NULL, addr + done, &at) || at.pages != MEMPOOL_PAGES_PLAIN)
			return false;
		if (!done) {
			*fd = at.fd;
			*base = (uintptr_t)addr - at.offset;
		}
		if (at.fd != *fd || at.offset != (uintptr_t)addr + done - *base || !at.length)
			return false;
	}
	return !(*base % PAGE);
}

static bool same(const struct direct_object *o, int fd, uint64_t base, const struct urxe_stat *st)
{
	return o->id && o->fd == fd && o->base == base && o->ino == st->ino && o->dev == st->dev &&
	       o->size == st->size;
}

/* The place of that file: where it is, or else where none is, or one without regions. */
static unsigned place_of(int fd, uint64_t base, const struct urxe_stat *st)
{
	unsigned place = DIRECT_OBJECTS;

	for (unsigned i = 0; i < DIRECT_OBJECTS; i++) {
		if (same(&objects[i], fd, base, st))
			return i;
		if (!users[i] && (place == DIRECT_OBJECTS || !objects[i].id))
			place = i;
	}
	return place;
}

static uint32_t use(int fd, uint64_t base, const struct urxe_stat *st)
{
	unsigned place = place_of(fd, base, st);
	struct direct_object *o = &objects[place];

	if (place == DIRECT_OBJECTS)
		return 0;
	if (!same(o, fd, base, st)) {
		atomic_store(&o->id, 0);
		o->fd = fd;
		o->base = base;
		o->ino = st->ino;
		o->dev = st->dev;
		o->size = st->size;
		atomic_store(&o->id, ++made * DIRECT_OBJECTS + place);
	}
	users[place]++;
	return o->id;
}

uint32_t urxe_direct_object_get(const void *addr, size_t length)
{
	struct urxe_stat st;
	uint32_t id = 0;
	uint64_t base;
	int fd;

	if (!locate || !objects || !length || !find_file(addr, length, &fd, &base) ||
	    urxe_fstat(fd, &st) || st.size > FILE_MAX_BYTES)
		return 0;
	pthread_mutex_lock(&lock);
	/* Ids are not used twice. */
	if (made < UINT32_MAX / DIRECT_OBJECTS - 1)
		id = use(fd, base, &st);
	pthread_mutex_unlock(&lock);
	return id;
}

/* It stays, for the next region in that file, until another needs its place. */
void urxe_direct_object_put(uint32_t object)
{
	unsigned place = object % DIRECT_OBJECTS;

	if (!object)
		return;
	pthread_mutex_lock(&lock);
	if (objects && objects[place].id == object && users[place])
		users[place]--;
	pthread_mutex_unlock(&lock);
}

/* ---- of neighbours ---- */

/* A descriptor of it; the number is the owner's, which may have another file there by now. */
static int open_object(int pid, int number, uint64_t dev, uint64_t ino, uint64_t size)
{
	struct urxe_stat st;
	char path[64];
	int fd, seals;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
	fd = urxe_libc.open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	seals = urxe_libc.fcntl(fd, F_GET_SEALS);
	if (!urxe_fstat(fd, &st) && st.dev == dev && st.ino == ino && st.size == size &&
	    size <= FILE_MAX_BYTES && seals >= 0 && (seals & F_SEAL_SHRINK))
		return fd;
	urxe_libc.close(fd);
	return -1;
}

/* Where memory is given out to the last page and no further, a hole may be a signal. */
static bool memory_is_strict(void)
{
	char text[16];

	return urxe_read_file("/proc/sys/vm/overcommit_memory", text, sizeof(text)) > 0 &&
	       text[0] == '2';
}

/*
 * All of it, which takes addresses and no memory. Without rights at first: in a program that has
 * called mlockall(MCL_FUTURE) the kernel would bring all of the pool's pages in.
 */
static uint8_t *map_file(int fd, uint64_t size)
{
	void *p = mmap(NULL, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (!munlock(p, size) && !madvise(p, size, MADV_DONTFORK) &&
	    !mprotect(p, size, PROT_READ | PROT_WRITE)) {
		madvise(p, size, MADV_DONTDUMP);
		return p;
	}
	munmap(p, size);
	return NULL;
}

static void unmap(struct direct_mapping *m)
{
	if (m->at)
		munmap(m->at, m->size);
	*m = (struct direct_mapping){0};
}

/* Once for each id, whether it succeeds or not; not for one that is gone already. */
static void map(struct direct_peer *peer, struct direct_mapping *m, uint32_t id)
{
	const struct direct_object *o = &peer->tables->objects[id % DIRECT_OBJECTS];
	uint64_t dev, ino, size, base;
	int number, fd;

	if (atomic_load(&o->id) != id)
		return;
	number = o->fd;
	dev = o->dev;
	ino = o->ino;
	size = o->size;
	base = o->base;
	if (atomic_load(&o->id) != id)
		return;
	unmap(m);
	m->id = id;
	m->size = size;
	m->base = base;
	fd = memory_is_strict() ? -1 : open_object(peer->pid, number, dev, ino, size);
	if (fd >= 0) {
		m->at = map_file(fd, size);
		urxe_libc.close(fd);
	}
	urxe_log(URXE_LOG_INFO, "memory of slot %u is %smapped", peer->slot, m->at ? "" : "not ");
}

uint8_t *direct_object_at(struct direct_peer *peer, uint32_t id, uint64_t va, uint64_t length)
{
	struct direct_mapping *m = &peer->objects[id % DIRECT_OBJECTS];
	uint64_t offset;

	if (!id)
		return NULL;
	if (m->id != id)
		map(peer, m, id);
	offset = va - m->base;
	if (m->id != id || !m->at || va < m->base || offset > m->size || length > m->size - offset)
		return NULL;
	return m->at + offset;
}

void direct_objects_unmap(struct direct_peer *peer)
{
	for (unsigned i = 0; i < DIRECT_OBJECTS; i++)
		unmap(&peer->objects[i]);
}

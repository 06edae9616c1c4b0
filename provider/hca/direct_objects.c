// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Objects: files that registered memory lies in, which neighbours map to reach it as memory
 * (direct_private.h). They are the memfds of libmempool, of which this library knows no more than
 * the functions that hold memory, saying where it lies, and release it.
 *
 * A region's row names its object. So memory is reached through a mapping only while a row says
 * that it lies there, and an address that has become something else is not taken for what it was.
 *
 * In a hole of a file of huge pages an access may raise a signal in the thread that makes it, if
 * none is free. So an object of huge pages is named only for regions all of whose pages are there,
 * and libmempool does not give them back until the region is gone. A hole in ordinary memory reads
 * as zeros.
 *
 * Our own objects are changed under a lock of theirs, inside of which nobody waits. Regions are
 * counted without it: ids are not given twice, so an exchange of `uses` that succeeds finds the
 * place as it was read. What we map of others' is guarded by the engine lock.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "hca/direct_private.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/mutex.h"

#define PAGE	       4096
#define FILE_MAX_BYTES (1ull << 40) /* of a pool */

static URXE_MUTEX(lock);
static struct direct_object *objects;
static _Atomic uint64_t files[DIRECT_OBJECTS]; /* what libmempool calls them; 0: none */
static _Atomic uint64_t uses[DIRECT_OBJECTS];  /* id << 32 | regions in it; 0: no object */
static uint32_t made;			       /* so far, for ids */
static bool shown;
static __typeof__(rmempool_hold) *hold;
static __typeof__(rmempool_release) *release;

/* libmempool is there from the start, preloaded or a library of the program's, or not at all. */
void direct_objects_reset(struct direct_tables *tables)
{
	for (unsigned i = 0; i < DIRECT_OBJECTS; i++) {
		atomic_store(&uses[i], 0);
		atomic_store(&files[i], 0);
	}
	objects = tables ? tables->objects : NULL;
	shown = direct_enabled();
	if (!release) {
		hold = (__typeof__(hold))urxe_libc.dlvsym(RTLD_DEFAULT, "rmempool_hold",
							  RMEMPOOL_HOLD_VERSION);
		release = (__typeof__(release))urxe_libc.dlvsym(RTLD_DEFAULT, "rmempool_release",
								RMEMPOOL_HOLD_VERSION);
	}
}

/* ---- our own ---- */

/* One more region in the object of that file: its id, or 0 if it has none. */
static uint32_t use(uint64_t file)
{
	unsigned i = 0;
	uint64_t u;

	while (i < DIRECT_OBJECTS && atomic_load(&files[i]) != file)
		i++;
	if (i == DIRECT_OBJECTS)
		return 0;
	u = atomic_load(&uses[i]);
	while (u && atomic_load(&files[i]) == file)
		if (atomic_compare_exchange_weak(&uses[i], &u, u + 1))
			return u >> 32;
	return 0;
}

/* A place where none is, or where one without regions was; DIRECT_OBJECTS: each has regions. */
static unsigned make_room(void)
{
	unsigned place;
	uint64_t u;

	do {
		place = DIRECT_OBJECTS;
		for (unsigned i = 0; i < DIRECT_OBJECTS; i++)
			if (!(uint32_t)atomic_load(&uses[i]) &&
			    (place == DIRECT_OBJECTS || !atomic_load(&files[i])))
				place = i;
		if (place == DIRECT_OBJECTS)
			break;
		u = atomic_load(&uses[place]);
	} while ((uint32_t)u || !atomic_compare_exchange_strong(&uses[place], &u, 0));
	return place;
}

/* Makes an object with one region; 0: that is no file for others, or there is no room. */
static uint32_t enter(const struct rmempool_hold *h)
{
	struct direct_object *o;
	struct urxe_stat st;
	unsigned place;
	uint32_t id;

	/* Ids are not used twice. */
	if (h->base % PAGE || urxe_fstat(h->fd, &st) || st.ino != h->inode ||
	    st.size > FILE_MAX_BYTES || made >= UINT32_MAX / DIRECT_OBJECTS - 1)
		return 0;
	place = make_room();
	if (place == DIRECT_OBJECTS)
		return 0;
	o = &objects[place];
	id = ++made * DIRECT_OBJECTS + place;
	atomic_store(&o->id, 0);
	o->fd = h->fd;
	o->base = h->base;
	o->ino = st.ino;
	o->dev = st.dev;
	o->size = st.size;
	atomic_store(&o->id, id);
	atomic_store(&files[place], h->file);
	atomic_store(&uses[place], (uint64_t)id << 32 | 1);
	urxe_log(URXE_LOG_INFO, "a pool in %s pages is shown to neighbours",
		 h->pages == RMEMPOOL_PAGES_PLAIN ? "ordinary" : "huge");
	return id;
}

void urxe_place_get(struct urxe_place *place, const void *addr, size_t length)
{
	place->object = 0;
	place->held = release && hold && !hold(addr, length, &place->hold, sizeof(place->hold));
	place->known = place->held;
}

/* The top bit distinguishes it from the files of libmempool. */
void urxe_place_of_file(struct urxe_place *place, const struct urxe_context_file *file)
{
	struct urxe_stat st;

	*place = (struct urxe_place){0};
	if (file->fd < 0 || urxe_fstat(file->fd, &st))
		return;
	place->known = true;
	place->hold = (struct rmempool_hold){
		.fd = file->fd,
		.pages = RMEMPOOL_PAGES_PLAIN,
		.file = 1ull << 63 | file->mapping,
		.inode = st.ino,
		.base = (uintptr_t)urxe_context_file_base(file),
		.resident = true,
	};
}

void urxe_place_show(struct urxe_place *place)
{
	const struct rmempool_hold *h = &place->hold;

	if (!place->known || !shown || (h->pages != RMEMPOOL_PAGES_PLAIN && !h->resident))
		return;
	place->object = use(h->file);
	if (place->object)
		return;
	pthread_mutex_lock(&lock);
	if (objects)
		place->object = use(h->file);
	if (objects && !place->object)
		place->object = enter(h);
	pthread_mutex_unlock(&lock);
}

/* The object stays, for the next region in that file, until another needs its place. */
void urxe_place_put(const struct urxe_place *place)
{
	_Atomic uint64_t *at = &uses[place->object % DIRECT_OBJECTS];
	uint64_t u;

	if (place->object) {
		u = atomic_load(at);
		while (u >> 32 == place->object && (uint32_t)u)
			if (atomic_compare_exchange_weak(at, &u, u - 1))
				break;
	}
	if (place->held)
		release(&place->hold);
}

/* ---- of neighbours ---- */

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

static int open_object(const struct direct_peer *peer, const struct direct_mapping *m)
{
	return m->is.size > FILE_MAX_BYTES ? -1
					   : direct_open_file(peer->pid, m->fd, O_RDWR, &m->is);
}

static void unmap(struct direct_mapping *m)
{
	if (m->at)
		munmap(m->at, m->is.size);
	*m = (struct direct_mapping){0};
}

/* Once for each id, whether it succeeds or not; not for one that is gone already. */
static __attribute__((noinline)) void map(struct direct_peer *peer, struct direct_mapping *m,
					  uint32_t id)
{
	const struct direct_object *o = &peer->tables->objects[id % DIRECT_OBJECTS];
	struct direct_mapping is;
	int fd;

	if (atomic_load(&o->id) != id)
		return;
	is = (struct direct_mapping){
		.id = id,
		.fd = o->fd,
		.base = o->base,
		.is = {.dev = o->dev, .ino = o->ino, .size = o->size},
	};
	if (atomic_load(&o->id) != id)
		return;
	unmap(m);
	*m = is;
	fd = memory_is_strict() ? -1 : open_object(peer, m);
	if (fd >= 0) {
		m->at = map_file(fd, m->is.size);
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
	if (m->id != id || !m->at || va < m->base || offset > m->is.size ||
	    length > m->is.size - offset)
		return NULL;
	return m->at + offset;
}

/* The row of that key in the tables of any other process; *hidden: some cannot be seen. */
static struct direct_peer *find_owner(uint32_t key, uint32_t pd, struct mempool_row *row,
				      bool *hidden)
{
	*hidden = false;
	for (unsigned slot = URXE_SLOT_FIRST; slot <= urxe_slots.last; slot++) {
		struct direct_peer *peer;

		if (slot == urxe_segment_slot(urxe_hca.seg) ||
		    !urxe_segment_slot_alive(urxe_hca.seg, slot))
			continue;
		peer = direct_peer_get(slot);
		if (peer && !mempool_table_get(peer->regions, key, row) && row->pd == pd &&
		    row->kind == MEMPOOL_REGION)
			return peer;
		*hidden |= !peer;
	}
	return NULL;
}

int urxe_direct_import(uint32_t key, uint32_t pd, struct mempool_row *row,
		       struct urxe_mapping *mapping)
{
	bool hidden;
	struct direct_peer *peer = find_owner(key, pd, row, &hidden);
	struct direct_mapping *m;
	int fd;

	if (!peer && !hidden)
		return -ENOENT;
	if (!peer || !direct_object_at(peer, row->object, row->va, row->length)) {
		urxe_log(URXE_LOG_ERROR,
			 "a region that is imported must lie in device memory or in a pool (urxe "
			 "run "
			 "--pool), have remote rights, and be of a process with direct access");
		return -EOPNOTSUPP;
	}
	/* A mapping of its own, since that of a neighbour ends with the neighbour. */
	m = &peer->objects[row->object % DIRECT_OBJECTS];
	fd = open_object(peer, m);
	if (fd < 0)
		return -EOPNOTSUPP;
	mapping->at = map_file(fd, m->is.size);
	mapping->size = m->is.size;
	mapping->offset = row->va - m->base;
	urxe_libc.close(fd);
	return mapping->at ? 0 : -ENOMEM;
}

void direct_objects_unmap(struct direct_peer *peer)
{
	for (unsigned i = 0; i < DIRECT_OBJECTS; i++)
		unmap(&peer->objects[i]);
}

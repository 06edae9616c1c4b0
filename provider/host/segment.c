// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Membership of the host segment: slots, their liveness, the segment lock, and the removal of what
 * the dead left. segment_layout.h has the picture.
 *
 * Liveness: a joining process opens the file a second time, locks its slot's byte through that
 * description, maps the file through it and closes the descriptor. The mapping keeps the
 * description, and with it the lock, alive; the mapping is not passed on to children
 * (MADV_DONTFORK). So the lock ends exactly with this process's memory: no descriptor is left that
 * the program could close or a child keep.
 *
 * The segment lock is a file lock too, and not a robust mutex in the segment: the kernel drops it
 * whatever happens, and it looks the same to 32-bit and 64-bit programs and to every libc. It is
 * taken under a (recursive) mutex of the process. Slots, groups, owners of keys and retired
 * counters are written under it; readers take none and compare generations.
 *
 * members_lock guards the one membership of the process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host/fabric.h"
#include "host/guardian.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/mutex.h"
#include "host/segment_layout.h"
#include "host/ticks.h"

/* A process that has not been seen running for longer is taken to be stopped. */
#define AWAKE_SECONDS 2
/* Slots that one process looks at in one turn: a thousand of them all have their turns. */
#define REAP_AT_ONCE 64

struct urxe_slots urxe_slots = {.last = URXE_SLOT_LAST};

static URXE_MUTEX(members_lock);
static struct urxe_segment *member;
static pid_t members_pid; /* of the process that has it; 0: none. Read without the lock. */

static void init_locks(struct urxe_segment *seg)
{
	seg->lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	seg->alloc_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	seg->depth = 0;
}

static struct urxe_segment *segment_new(void)
{
	struct urxe_segment *seg = calloc(1, sizeof(*seg));

	if (!seg)
		return NULL;
	seg->fd = -1;
	seg->dead_fd = -1;
	seg->pid = getpid();
	seg->refs = 1;
	init_locks(seg);
	return seg;
}

static void segment_free(struct urxe_segment *seg)
{
	if (seg->map)
		munmap(seg->map, sizeof(*seg->map));
	segment_file_close(seg);
	segment_numbers_free(seg);
	free(seg->port_free);
	if (seg->dead_fd >= 0)
		urxe_libc.close(seg->dead_fd);
	pthread_mutex_destroy(&seg->lock);
	pthread_mutex_destroy(&seg->alloc_lock);
	free(seg);
}

const char *urxe_segment_path(const struct urxe_segment *seg)
{
	return seg->path;
}

void urxe_segment_lock(struct urxe_segment *seg)
{
	int fd, ret;

	pthread_mutex_lock(&seg->lock);
	if (seg->depth++)
		return;
	fd = segment_file_fd(seg);
	if (fd < 0)
		return;
	ret = segment_file_lock(fd, SEGMENT_LOCK_BYTE, false);
	if (ret)
		urxe_log(URXE_LOG_WARN, "cannot lock %s: %s", seg->path, strerror(-ret));
}

void urxe_segment_unlock(struct urxe_segment *seg)
{
	/* What has been closed meanwhile is unlocked, and another file has no lock there. */
	if (!--seg->depth && seg->fd >= 0)
		segment_file_unlock(seg->fd, SEGMENT_LOCK_BYTE);
	pthread_mutex_unlock(&seg->lock);
}

static uint32_t slot_state(const struct segment_map *map, unsigned slot)
{
	return __atomic_load_n(&map->slots[slot].state, __ATOMIC_ACQUIRE);
}

static bool slot_stale(struct segment_map *map, int fd, unsigned slot)
{
	return slot_state(map, slot) == SLOT_USED && !segment_file_locked(fd, slot, 1);
}

/* Under the segment lock. Each step may be repeated by the next one, should we die here. */
static void slot_clear(struct segment_map *map, unsigned slot)
{
	segment_groups_forget(map, slot);
	segment_keys_forget(map, slot);
	segment_ports_forget(map, slot);
	segment_counters_retire(map, slot);
}

static void reap_locked(struct urxe_segment *seg, int fd)
{
	struct segment_map *map = seg->map;

	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++) {
		if (!slot_stale(map, fd, s))
			continue;
		urxe_log(URXE_LOG_INFO, "process %u (slot %u) is gone", map->slots[s].pid, s);
		segment_records_orphan(seg, s);
		segment_windows_forget(seg, s);
		segment_socket_forget(seg, s);
		slot_clear(map, s);
	}
}

static unsigned slot_after(unsigned slot)
{
	return slot < URXE_SLOT_FIRST || slot >= urxe_slots.last ? URXE_SLOT_FIRST : slot + 1;
}

/* Is one of the next so many that are taken stale? Under the lock among threads. */
static bool any_stale(struct urxe_segment *seg, int fd)
{
	unsigned looks = 0;

	for (unsigned i = URXE_SLOT_FIRST; i <= urxe_slots.last && looks < REAP_AT_ONCE; i++) {
		seg->reaped = slot_after(seg->reaped);
		looks += slot_state(seg->map, seg->reaped) == SLOT_USED;
		if (slot_stale(seg->map, fd, seg->reaped))
			return true;
	}
	return false;
}

void urxe_segment_reap(struct urxe_segment *seg)
{
	int fd;

	if (!seg->slot)
		return;
	pthread_mutex_lock(&seg->lock);
	fd = segment_file_fd(seg);
	if (fd >= 0 && any_stale(seg, fd)) {
		urxe_segment_lock(seg);
		reap_locked(seg, fd);
		urxe_segment_unlock(seg);
	}
	pthread_mutex_unlock(&seg->lock);
}

void urxe_segment_reap_all(struct urxe_segment *seg)
{
	urxe_segment_lock(seg);
	if (seg->slot && seg->fd >= 0)
		reap_locked(seg, seg->fd);
	urxe_segment_unlock(seg);
}

bool urxe_segment_slot_alive(struct urxe_segment *seg, unsigned slot)
{
	bool alive;
	int fd;

	if (slot < URXE_SLOT_FIRST || slot > urxe_slots.last ||
	    slot_state(seg->map, slot) != SLOT_USED)
		return false;
	if (slot == seg->slot)
		return true;
	pthread_mutex_lock(&seg->lock);
	fd = segment_file_fd(seg);
	alive = fd < 0 || segment_file_locked(fd, slot, 1);
	pthread_mutex_unlock(&seg->lock);
	return alive;
}

/* A word of a slot; 0: the slot is free. */
static uint32_t slot_word(const struct urxe_segment *seg, unsigned slot, const uint32_t *word)
{
	return slot_state(seg->map, slot) == SLOT_USED ? __atomic_load_n(word, __ATOMIC_ACQUIRE)
						       : 0;
}

uint32_t urxe_segment_slot_life(const struct urxe_segment *seg, unsigned slot)
{
	return slot_word(seg, slot, &seg->map->slots[slot].life);
}

uint32_t urxe_segment_slot_pid(const struct urxe_segment *seg, unsigned slot)
{
	return slot_word(seg, slot, &seg->map->slots[slot].pid);
}

/* Locks a free slot's byte through fd: the slot, or -EUSERS. */
static int slot_choose(struct segment_map *map, int fd)
{
	const unsigned num = urxe_slots.last - URXE_SLOT_FIRST + 1;
	unsigned s = map->header.next_slot;

	/* Slots go round, so that packets for a process that is gone find nobody in its place. */
	for (unsigned i = 0; i < num; i++) {
		s = slot_after(s);
		/* Free but locked: its process is just leaving. */
		if (s != GUARDIAN_BYTE && map->slots[s].state == SLOT_FREE &&
		    !segment_file_lock(fd, s, true)) {
			map->header.next_slot = s;
			return s;
		}
	}
	urxe_log(URXE_LOG_ERROR,
		 "%u programs of this user use urxe, and no more can: end one, or use another "
		 "network namespace or fabric",
		 num - (urxe_slots.last > GUARDIAN_BYTE));
	return -EUSERS;
}

/* Under the segment lock, with the file mapped through fd, which is the lock's description. */
static int slot_take(struct urxe_segment *seg, int fd)
{
	struct segment_map *map = seg->map;
	struct segment_slot *slot;
	int s, ret;

	segment_counters_settle(map);
	reap_locked(seg, seg->fd);
	s = slot_choose(map, fd);
	if (s < 0)
		return s;
	slot = &map->slots[s];
	if (!slot->backed) {
		ret = segment_file_allocate(seg, fd, offsetof(struct segment_map, living[s]),
					    sizeof(map->living[s]));
		if (ret)
			return ret;
		slot->backed = 1;
	}
	memset(&map->living[s], 0, sizeof(map->living[s]));
	atomic_store(&slot->flow.sent, 0);
	atomic_store(&slot->flow.taken, 0);
	slot->pid = seg->pid;
	__atomic_store_n(&slot->life, slot->life + 1 ? slot->life + 1 : 1, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->gsi, false, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->listeners, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->host, urxe_fabric_host_number(), __ATOMIC_RELAXED);
	__atomic_store_n(&slot->groups, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->state, SLOT_USED, __ATOMIC_RELEASE);
	seg->slot = s;
	return 0;
}

/* Opens and maps the file a second time, for liveness; the descriptor is not kept. */
static int join_locked(struct urxe_segment *seg)
{
	int fd = segment_file_reopen(seg), ret;

	if (fd < 0)
		return fd;
	ret = segment_file_map(seg, fd);
	if (!ret) {
		madvise(seg->map, sizeof(*seg->map), MADV_DONTFORK);
		ret = segment_numbers_init(seg) ?: slot_take(seg, fd);
	}
	urxe_libc.close(fd);
	return ret;
}

/* As a member, or to look on. */
static int open_segment(bool join, struct urxe_segment **out)
{
	struct urxe_segment *seg = segment_new();
	int ret;

	if (!seg)
		return -ENOMEM;
	ret = segment_file_open(seg, join);
	if (!ret && join) {
		/* segment_file_open() left the segment lock taken. */
		ret = join_locked(seg);
		segment_file_unlock(seg->fd, SEGMENT_LOCK_BYTE);
	}
	if (ret)
		segment_free(seg);
	else
		*out = seg;
	return ret;
}

int urxe_segment_join(struct urxe_segment **seg)
{
	pid_t pid = __atomic_load_n(&members_pid, __ATOMIC_RELAXED);
	int ret = 0;

	/* A child whose fork handlers did not run: a thread that it does not have may hold the
	 * lock. */
	if (pid && pid != getpid())
		urxe_segment_forked(member);
	pthread_mutex_lock(&members_lock);
	if (member)
		member->refs++;
	else
		ret = open_segment(true, &member);
	if (!ret)
		__atomic_store_n(&members_pid, member->pid, __ATOMIC_RELAXED);
	*seg = member;
	pthread_mutex_unlock(&members_lock);
	return ret;
}

int urxe_segment_view(struct urxe_segment **out)
{
	return open_segment(false, out);
}

void urxe_segment_leave(struct urxe_segment *seg)
{
	pthread_mutex_lock(&members_lock);
	if (--seg->refs) {
		pthread_mutex_unlock(&members_lock);
		return;
	}
	if (seg == member) {
		member = NULL;
		__atomic_store_n(&members_pid, 0, __ATOMIC_RELAXED);
	}
	if (seg->slot) {
		urxe_segment_lock(seg);
		segment_records_close(seg);
		segment_windows_forget(seg, seg->slot);
		segment_socket_forget(seg, seg->slot);
		slot_clear(seg->map, seg->slot);
		segment_file_remove(seg);
		urxe_segment_unlock(seg);
		urxe_guardian_notify(seg);
	}
	segment_free(seg);
	pthread_mutex_unlock(&members_lock);
}

/*
 * The child has one thread and no mapping: whatever lock another thread of the parent held is made
 * new, and private zeros stand for the mapping. Not in its place: something else may lie there by
 * now. Pointers into the old one (to counters) go with the parent's wire.
 */
void urxe_segment_forked(struct urxe_segment *seg)
{
	void *p;

	if (seg->pid == getpid())
		return;
	pthread_mutex_init(&members_lock, NULL);
	init_locks(seg);
	if (seg == member) {
		member = NULL;
		members_pid = 0;
	}
	segment_file_close(seg);
	segment_records_forked(seg);
	p = mmap(NULL, sizeof(*seg->map), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		urxe_log(URXE_LOG_WARN, "no memory after a fork");
	seg->map = p == MAP_FAILED ? NULL : p;
	seg->slot = 0;
}

void urxe_segment_remove(void)
{
	struct urxe_segment *seg;

	if (urxe_segment_view(&seg))
		return;
	urxe_segment_lock(seg);
	segment_file_remove(seg);
	urxe_segment_unlock(seg);
	urxe_segment_leave(seg);
}

unsigned urxe_segment_slot(const struct urxe_segment *seg)
{
	return seg->slot;
}

struct urxe_unacked *urxe_segment_unacked(struct urxe_segment *seg, unsigned slot)
{
	return slot_state(seg->map, slot) == SLOT_USED ? &seg->map->slots[slot].flow : NULL;
}

static uint32_t seconds(void)
{
	return urxe_now() / 1000000000;
}

void urxe_segment_beat(struct urxe_segment *seg)
{
	if (seg->slot)
		__atomic_store_n(&seg->map->slots[seg->slot].beat, seconds(), __ATOMIC_RELEASE);
}

void urxe_segment_gsi_set(struct urxe_segment *seg, bool serves)
{
	if (!seg->slot)
		return;
	urxe_segment_beat(seg);
	__atomic_store_n(&seg->map->slots[seg->slot].gsi, serves, __ATOMIC_RELEASE);
}

static bool gsi_serves(const struct urxe_segment *seg, unsigned slot)
{
	return slot_word(seg, slot, &seg->map->slots[slot].gsi);
}

bool urxe_segment_gsi_awake(const struct urxe_segment *seg, unsigned slot)
{
	if (slot < URXE_SLOT_FIRST || slot > urxe_slots.last || !gsi_serves(seg, slot))
		return false;
	return seconds() - __atomic_load_n(&seg->map->slots[slot].beat, __ATOMIC_ACQUIRE) <=
	       AWAKE_SECONDS;
}

uint32_t urxe_segment_slot_host(const struct urxe_segment *seg, unsigned slot)
{
	return __atomic_load_n(&seg->map->slots[slot].host, __ATOMIC_RELAXED);
}

void urxe_segment_set_host(struct urxe_segment *seg, uint32_t host)
{
	if (seg->slot)
		__atomic_store_n(&seg->map->slots[seg->slot].host, host, __ATOMIC_RELAXED);
}

void urxe_segment_count_groups(struct urxe_segment *seg, int change)
{
	if (seg->slot)
		__atomic_fetch_add(&seg->map->slots[seg->slot].groups, change, __ATOMIC_RELAXED);
}

bool urxe_segment_slot_has_groups(const struct urxe_segment *seg, unsigned slot)
{
	return slot_word(seg, slot, &seg->map->slots[slot].groups);
}

bool urxe_segment_gsi_listens(const struct urxe_segment *seg, unsigned slot)
{
	return __atomic_load_n(&seg->map->slots[slot].listeners, __ATOMIC_ACQUIRE);
}

bool urxe_segment_servers_changed(struct urxe_segment *seg)
{
	return __atomic_load_n(&seg->servers_changed, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&seg->servers_changed, false, __ATOMIC_ACQUIRE);
}

/* One that serves QP 1 at a host, going round from a slot; never the one to be left out. */
static unsigned next_server(const struct urxe_segment *seg, uint32_t host, unsigned after,
			    unsigned without)
{
	const unsigned num = urxe_slots.last - URXE_SLOT_FIRST + 1;
	unsigned s = after, asleep = 0;

	for (unsigned i = 0; i < num; i++) {
		s = slot_after(s);
		if (s == without || !gsi_serves(seg, s) || urxe_segment_slot_host(seg, s) != host)
			continue;
		if (urxe_segment_gsi_awake(seg, s))
			return s;
		if (!asleep)
			asleep = s;
	}
	return asleep;
}

unsigned urxe_segment_gsi_of(struct urxe_segment *seg, uint32_t host, unsigned after)
{
	return next_server(seg, host, after, 0);
}

unsigned urxe_segment_gsi_next(struct urxe_segment *seg, unsigned after)
{
	return next_server(seg, urxe_segment_slot_host(seg, seg->slot), after, seg->slot);
}

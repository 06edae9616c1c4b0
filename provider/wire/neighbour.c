/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Our neighbours, and the life of links and inlets: windows are made and mapped, rings
 * opened and closed here. Under the engine's lock, apart from urxe_wire_sleep(), _awake() and
 * _look(), which read what stays mapped for as long as the wire is.
 *
 * A process that sleeps says so in its window, fences, and looks once more. A producer that fills
 * a ring fences, and then looks whether its owner sleeps. So one of the two sees the other. The
 * wake-up comes by the socket of ipc.c, and another thread that polls may receive it before the
 * sleeper has seen it: then that thread wakes the sleeper itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "host/segment_window.h"
#include "wire/shm.h"

#define TRY_AGAIN_NS 50000000ull

/* ---- our window ---- */

static size_t ring_at(unsigned slot)
{
	return offsetof(struct urxe_window, rings) + slot * sizeof(struct urxe_ring);
}

/* A window with the rings of all slots that there may be. */
static size_t window_size(void)
{
	return ring_at(urxe_slots.last + 1);
}

static struct urxe_window *make_window(struct urxe_wire *wire)
{
	int fd = urxe_window_create(wire->seg, URXE_WINDOW_RINGS, window_size());
	struct urxe_window *window = NULL;

	if (fd < 0)
		return NULL;
	if (!urxe_window_back(fd, 0, offsetof(struct urxe_window, rings)))
		window = urxe_window_map(fd, 0, window_size());
	urxe_libc.close(fd);
	if (!window) {
		urxe_window_remove(wire->seg, URXE_WINDOW_RINGS);
		return NULL;
	}
	window->version = WINDOW_VERSION;
	window->life = urxe_segment_slot_life(wire->seg, wire->slot);
	__atomic_store_n(&window->magic, WINDOW_MAGIC, __ATOMIC_RELEASE);
	return window;
}

/* ---- links: to others ---- */

static bool is_usable(const struct urxe_window *window, uint32_t life)
{
	return __atomic_load_n(&window->magic, __ATOMIC_ACQUIRE) == WINDOW_MAGIC &&
	       window->version == WINDOW_VERSION && window->life == life;
}

/* Backs our ring in a window that is open as fd, and says that we use it. */
static int open_ring(struct urxe_wire *wire, struct urxe_link *link, int fd)
{
	struct urxe_window *window = link->window;
	struct urxe_ring *ring;
	int ret;

	/* A former owner of our slot has left packets there. */
	if (atomic_load(&window->opened[wire->slot]))
		return -EBUSY;
	ret = urxe_window_back(fd, ring_at(wire->slot), sizeof(*ring));
	if (ret)
		return ret;
	ring = link->ring = urxe_window_map(fd, ring_at(wire->slot), sizeof(*ring));
	if (!ring)
		return -ENOMEM;
	ring->cookie = wire->shm->cookie;
	ring->cookie_at = (uintptr_t)&wire->shm->cookie;
	ring->pid = urxe_segment_slot_pid(wire->seg, wire->slot);
	urxe_producer_init(&link->out, ring);
	link->ways = (struct urxe_ways){0};
	link->num_flows = link->last_flow = 0;
	link->full_since = 0;
	link->seen_at = 0;
	atomic_store(&window->opened[wire->slot], urxe_segment_slot_life(wire->seg, wire->slot));
	atomic_fetch_add(&window->opens, 1);
	return 0;
}

static int open_link(struct urxe_wire *wire, struct urxe_link *link)
{
	unsigned slot = link->near.slot;
	uint32_t life = urxe_segment_slot_life(wire->seg, slot);
	int fd, ret = 0;

	link->near.self = slot == wire->slot;
	link->near.life = life;
	link->near.pid = urxe_segment_slot_pid(wire->seg, slot);
	if (!life || !wire->shm->window || !urxe_segment_slot_alive(wire->seg, slot))
		return -ESRCH;
	fd = urxe_window_open(wire->seg, slot, URXE_WINDOW_RINGS, true, window_size());
	if (fd < 0)
		return fd;
	link->window = urxe_window_map(fd, 0, sizeof(*link->window));
	if (!link->window)
		ret = -ENOMEM;
	else if (!is_usable(link->window, life))
		ret = -EPROTO;
	else
		ret = open_ring(wire, link, fd);
	urxe_libc.close(fd);
	if (ret && link->window)
		munmap(link->window, sizeof(*link->window));
	return ret;
}

static void close_link(struct urxe_link *link)
{
	if (!link->up)
		return;
	link->up = false;
	munmap(link->window, sizeof(*link->window));
	munmap(link->ring, sizeof(*link->ring));
	link->window = NULL;
}

struct urxe_link *urxe_shm_try_link(struct urxe_wire *wire, unsigned slot)
{
	struct urxe_link *link;
	uint64_t now = urxe_now();
	int ret;

	if (slot < URXE_SLOT_FIRST || slot > urxe_slots.last)
		return NULL;
	link = wire->shm->links[slot];
	if (!link) {
		if (wire->ending)
			return NULL;
		link = calloc(1, sizeof(*link));
		if (!link)
			return NULL;
		link->near.slot = slot;
		wire->shm->links[slot] = link;
	}
	if (now < link->try_at)
		return NULL;
	ret = open_link(wire, link);
	link->up = !ret;
	if (ret) {
		link->window = NULL;
		link->try_at = now + TRY_AGAIN_NS;
		urxe_log(URXE_LOG_DEBUG, "no shared memory with slot %u: %s", slot, strerror(-ret));
		return NULL;
	}
	urxe_shm_wake(wire, link);
	return link;
}

struct urxe_neighbour *urxe_wire_neighbour(struct urxe_wire *wire, const struct urxe_path *path,
					   uint32_t qpn)
{
	struct urxe_link *link = urxe_shm_link_to(wire, path, qpn);

	return link ? &link->near : NULL;
}

uint64_t urxe_wire_neighbour_ran(struct urxe_wire *wire, const struct urxe_neighbour *near)
{
	struct timespec ran;
	clockid_t clock;

	if (urxe_shm_has_gone(wire, near->slot, near->life) ||
	    clock_getcpuclockid(near->pid, &clock) || clock_gettime(clock, &ran))
		return 0;
	return ran.tv_sec * 1000000000ull + ran.tv_nsec;
}

/* ---- inlets: from others ---- */

/* Can we read the producer's memory? It may be in another pid namespace, or not want to be read. */
static bool can_pull(const struct urxe_ring *ring)
{
	uint64_t value = 0;
	struct iovec to = {&value, sizeof(value)};
	struct iovec from = {(void *)(uintptr_t)ring->cookie_at, sizeof(value)};

	return process_vm_readv(ring->pid, &to, 1, &from, 1, 0) == sizeof(value) &&
	       value == ring->cookie;
}

/* Made for a slot's first process, and kept for those after it: a poller may be looking at it. */
static struct urxe_inlet *inlet_of(struct urxe_wire *wire, unsigned slot)
{
	struct urxe_shm *shm = wire->shm;
	struct urxe_inlet *inlet = shm->inlet_of[slot];
	unsigned n = atomic_load(&shm->num_inlets);

	if (inlet)
		return inlet;
	inlet = calloc(1, sizeof(*inlet));
	if (!inlet)
		return NULL;
	inlet->slot = slot;
	urxe_consumer_init(&inlet->in, &shm->window->rings[slot]);
	shm->inlet_of[slot] = inlet;
	atomic_store(&shm->inlets[n], inlet);
	atomic_store(&shm->num_inlets, n + 1);
	return inlet;
}

static void open_inlet(struct urxe_wire *wire, unsigned slot, uint32_t life)
{
	struct urxe_inlet *inlet = inlet_of(wire, slot);
	struct urxe_ring *ring;

	if (!inlet || inlet->life)
		return;
	ring = inlet->in.ring;
	inlet->life = life;
	memset(inlet->known, 0, sizeof(inlet->known));
	if (slot != wire->slot)
		atomic_store(&ring->pulls, can_pull(ring));
}

void urxe_shm_look(struct urxe_wire *wire)
{
	struct urxe_shm *shm = wire->shm;
	struct urxe_window *window = shm->window;

	if (!window)
		return;
	atomic_store(&shm->opens, atomic_load(&window->opens));
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++) {
		uint32_t life = atomic_load(&window->opened[s]);

		if (life)
			open_inlet(wire, s, life);
	}
}

/* The producer is gone: takes what it has left, and lets its slot's next owner have the ring. */
static void close_inlet(struct urxe_wire *wire, struct urxe_inlet *inlet)
{
	struct urxe_window *window = wire->shm->window;

	urxe_shm_drain(wire, inlet);
	urxe_ring_clear(inlet->in.ring);
	urxe_consumer_reset(&inlet->in);
	inlet->life = 0;
	atomic_store(&window->opened[inlet->slot], 0);
}

/* ---- the wire's calls ---- */

bool urxe_shm_has_gone(struct urxe_wire *wire, unsigned slot, uint32_t life)
{
	return urxe_segment_slot_life(wire->seg, slot) != life ||
	       !urxe_segment_slot_alive(wire->seg, slot);
}

void urxe_shm_housekeep(struct urxe_wire *wire)
{
	struct urxe_shm *shm = wire->shm;

	urxe_shm_look(wire);
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++) {
		struct urxe_link *link = shm->links[s];
		struct urxe_inlet *inlet = shm->inlet_of[s];

		if (link && link->up && urxe_shm_has_gone(wire, s, link->near.life))
			close_link(link);
		if (inlet && inlet->life && urxe_shm_has_gone(wire, s, inlet->life))
			close_inlet(wire, inlet);
	}
}

bool urxe_wire_sleep(struct urxe_wire *wire)
{
	struct urxe_window *window = wire->shm ? wire->shm->window : NULL;

	if (!window)
		return true;
	atomic_store(&wire->shm->asleep, true);
	atomic_store(&window->sleeps, 1);
	atomic_thread_fence(memory_order_seq_cst);
	return urxe_wire_look(wire) != URXE_LOOK_WAITS;
}

void urxe_wire_awake(struct urxe_wire *wire)
{
	struct urxe_window *window = wire->shm ? wire->shm->window : NULL;

	if (!window)
		return;
	atomic_store(&wire->shm->asleep, false);
	atomic_store_explicit(&window->sleeps, 0, memory_order_relaxed);
}

void urxe_shm_woken(struct urxe_wire *wire)
{
	if (wire->shm)
		wire->shm->woken = true;
}

bool urxe_wire_missed(struct urxe_wire *wire)
{
	struct urxe_shm *shm = wire->shm;
	bool woken;

	if (!shm || !atomic_load_explicit(&shm->asleep, memory_order_relaxed))
		return false;
	woken = shm->woken;
	shm->woken = false;
	if (!woken && urxe_wire_look(wire) != URXE_LOOK_WAITS)
		return false;
	atomic_store(&shm->asleep, false); /* once is enough */
	return true;
}

enum urxe_look urxe_wire_look(const struct urxe_wire *wire)
{
	struct urxe_shm *shm = wire->shm;
	struct urxe_window *window = shm ? shm->window : NULL;
	unsigned n;

	if (!window)
		return URXE_LOOK_ALL;
	if (atomic_load_explicit(&window->opens, memory_order_relaxed) !=
	    atomic_load_explicit(&shm->opens, memory_order_relaxed))
		return URXE_LOOK_WAITS;
	n = atomic_load_explicit(&shm->num_inlets, memory_order_acquire);
	for (unsigned i = 0; i < n; i++)
		if (urxe_ring_waits(
			    &atomic_load_explicit(&shm->inlets[i], memory_order_relaxed)->in))
			return URXE_LOOK_WAITS;
	return n && !atomic_load_explicit(&wire->had_lately, memory_order_relaxed)
		       ? URXE_LOOK_NOTHING
		       : URXE_LOOK_ALL;
}

/* URXE_WIRE says whether there is to be shared memory at all. */
int urxe_shm_create(struct urxe_wire *wire)
{
	const char *kind = getenv("URXE_WIRE");
	struct urxe_shm *shm;

	if (kind && !strcmp(kind, "udp"))
		return 0;
	if (kind && *kind && strcmp(kind, "auto")) {
		urxe_log(URXE_LOG_ERROR,
			 "URXE_WIRE=%s: it is udp, or auto (shared memory with neighbours)", kind);
		return -EINVAL;
	}
	shm = calloc(1, sizeof(*shm));
	if (!shm)
		return -ENOMEM;
	wire->shm = shm;
	if (getrandom(&shm->cookie, sizeof(shm->cookie), 0) != sizeof(shm->cookie))
		return -EIO;
	/* Without one there is UDP. */
	shm->window = make_window(wire);
	if (!shm->window)
		urxe_log(URXE_LOG_INFO, "no window beside the host segment: %s", strerror(errno));
	return 0;
}

/* Also in the child of a fork, where the mappings are not. */
void urxe_shm_destroy(struct urxe_wire *wire, bool forked)
{
	struct urxe_shm *shm = wire->shm;
	struct urxe_window *window;

	if (!shm)
		return;
	window = shm->window;
	for (unsigned s = 0; s < URXE_MAX_SLOTS; s++) {
		if (shm->links[s] && !forked)
			close_link(shm->links[s]);
		free(shm->links[s]);
		free(shm->inlet_of[s]);
	}
	if (window && !forked) {
		urxe_window_remove(wire->seg, URXE_WINDOW_RINGS);
		munmap(window, window_size());
	}
	free(shm);
	wire->shm = NULL;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Neighbours as direct access sees them: their tables mapped read-only, their windows to leave
 * hazards in, and whether the kernel lets us at their memory. That is found out once, by reading
 * their cookie at the address and under the process id that they give: so the id is known to mean
 * the same process here as there. Under the engine lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hca/direct_private.h"
#include "hca/lost_memory.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/segment_window.h"
#include "host/sysinfo.h"

/* By slot; made for the first process that has it, and kept for those after it. */
static struct direct_peer *peers[URXE_MAX_SLOTS];

static struct direct_window *map_window(unsigned slot)
{
	struct direct_window *w;
	int fd = urxe_window_open(urxe_hca.seg, slot, URXE_WINDOW_TABLES, true, sizeof(*w));

	size_t own = urxe_segment_slot(urxe_hca.seg) * sizeof(struct direct_hazard);

	if (fd < 0)
		return NULL;
	w = urxe_window_back(fd, offsetof(struct direct_window, hazards) + own,
			     sizeof(struct direct_hazard))
		    ? MAP_FAILED
		    : mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	urxe_libc.close(fd);
	if (w == MAP_FAILED)
		return NULL;
	madvise(w, sizeof(*w), MADV_DONTFORK);
	if (__atomic_load_n(&w->magic, __ATOMIC_ACQUIRE) == DIRECT_MAGIC)
		return w;
	munmap(w, sizeof(*w));
	return NULL;
}

int direct_open_file(int pid, int number, int mode, const struct urxe_stat *is)
{
	struct urxe_stat st;
	char path[64];
	int fd, seals;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, number);
	fd = urxe_libc.open(path, mode | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	seals = urxe_libc.fcntl(fd, F_GET_SEALS);
	if (!urxe_fstat(fd, &st) && st.dev == is->dev && st.ino == is->ino && st.size == is->size &&
	    seals >= 0 && (seals & F_SEAL_SHRINK))
		return fd;
	urxe_libc.close(fd);
	return -1;
}

static const struct direct_tables *map_tables(const struct direct_window *w)
{
	size_t bytes = direct_tables_bytes();
	const struct urxe_stat is = {.dev = w->dev, .ino = w->ino, .size = bytes};
	const struct direct_tables *t;
	int fd = direct_open_file(w->pid, w->fd, O_RDONLY, &is);
	void *p;

	if (fd < 0)
		return NULL;
	p = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
	urxe_libc.close(fd);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, bytes, MADV_DONTFORK);
	t = p;
	if (t->magic == DIRECT_MAGIC && t->version == DIRECT_VERSION && t->bytes == bytes &&
	    t->max_rows == URXE_MAX_MR &&
	    mempool_table_valid((const struct mempool_table *)(t + 1), URXE_MAX_MR,
				bytes - sizeof(*t)))
		return t;
	munmap(p, bytes);
	return NULL;
}

/* Is the process with that id the owner, and does the kernel permit access to it? */
static bool cookie_fits(const struct direct_window *w, const struct direct_tables *t)
{
	uint64_t cookie[2];
	struct iovec local = {cookie, sizeof(cookie)};
	struct iovec remote = {(void *)(uintptr_t)w->cookie_at, sizeof(cookie)};

	return syscall(SYS_process_vm_readv, w->pid, &local, 1, &remote, 1, 0) == sizeof(cookie) &&
	       !memcmp(cookie, t->cookie, sizeof(cookie));
}

static void unmap(struct direct_peer *peer)
{
	direct_objects_unmap(peer);
	if (peer->tables)
		munmap((void *)peer->tables, direct_tables_bytes());
	if (peer->window)
		munmap(peer->window, sizeof(*peer->window));
	peer->tables = NULL;
	peer->window = NULL;
}

static void be_reader(struct direct_peer *peer)
{
	unsigned own = urxe_segment_slot(urxe_hca.seg);
	uint32_t life = urxe_segment_slot_life(urxe_hca.seg, own);

	peer->own = (uint64_t)own << 32 | life;
	peer->hazard = &peer->window->hazards[own];
	atomic_store(&peer->hazard->pid, getpid());
	atomic_store(&peer->hazard->life, life);
	/* After the last process that had our slot: it is dead, and no process waits for it. */
	atomic_store(&peer->hazard->word, (atomic_load(&peer->hazard->word) | 3) + 1);
	atomic_fetch_or(&peer->window->readers[own / 64], 1ull << own % 64);
	atomic_fetch_or(&peer->window->reader_words, 1u << own / 64);
}

static bool map(struct direct_peer *peer)
{
	peer->window = map_window(peer->slot);
	if (!peer->window)
		return false;
	peer->pid = peer->window->pid;
	peer->tables = map_tables(peer->window);
	return peer->tables && cookie_fits(peer->window, peer->tables);
}

static void attach(struct direct_peer *peer, unsigned slot)
{
	peer->slot = slot;
	peer->refused = !map(peer);
	if (peer->refused) {
		urxe_log(URXE_LOG_INFO, "no direct access to the memory of slot %u", slot);
		unmap(peer);
		return;
	}
	peer->regions = (const struct mempool_table *)(peer->tables + 1);
	peer->alive = 0;
	be_reader(peer);
}

static void forget(struct direct_peer *peer)
{
	unsigned own = urxe_segment_slot(urxe_hca.seg);

	if (peer->window)
		atomic_fetch_and(&peer->window->readers[own / 64], ~(1ull << own % 64));
	unmap(peer);
}

struct direct_peer *direct_peer_get(unsigned slot)
{
	struct direct_peer *peer = peers[slot];
	uint32_t life = urxe_segment_slot_life(urxe_hca.seg, slot);

	if (!peer && life)
		peer = peers[slot] = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	if (peer->slot_life != life) {
		forget(peer);
		peer->slot_life = life;
		if (life)
			attach(peer, slot);
	}
	return life && !peer->refused ? peer : NULL;
}

/* It is dead. */
static void refuse(struct direct_peer *peer)
{
	forget(peer);
	peer->refused = true;
}

bool direct_peer_alive(struct direct_peer *peer)
{
	if (!peer->alive)
		peer->alive = direct_peer_life(peer) & FUTEX_TID_MASK;
	if (!peer->alive)
		return false;
	if (direct_peer_life(peer) == peer->alive)
		return true;
	refuse(peer);
	return false;
}

/*
 * While the neighbour's life says that it lives no other process can have its id: the word changes
 * before the memory goes, and the id is given to another process after that. So it is read
 * afterwards.
 */
int urxe_direct_pull(const struct urxe_refs *refs, uint32_t offset, const struct iovec *iov,
		     unsigned n, uint32_t len)
{
	uint32_t life;
	struct direct_peer *peer = direct_peer_get(urxe_wire_refs_slot(refs, &life));
	bool known = peer && peer->slot_life == life && direct_peer_alive(peer);
	int ret = urxe_wire_pull(refs, offset, iov, n, len, known ? peer->pid : 0);

	if (ret)
		urxe_lost_memory_look(iov, n);
	return ret || !known || direct_peer_life(peer) == peer->alive ? ret : -ESTALE;
}

void direct_peers_drop(void)
{
	for (unsigned slot = 0; slot < URXE_MAX_SLOTS; slot++) {
		if (peers[slot])
			forget(peers[slot]);
		free(peers[slot]);
		peers[slot] = NULL;
	}
}

void urxe_direct_housekeep(void)
{
	for (unsigned slot = 0; slot < URXE_MAX_SLOTS; slot++) {
		struct direct_peer *peer = peers[slot];

		if (peer && peer->tables && peer->alive && direct_peer_life(peer) != peer->alive)
			refuse(peer);
	}
}

/* Their mappings were not inherited. */
void direct_peers_forked(void)
{
	for (unsigned slot = 0; slot < URXE_MAX_SLOTS; slot++) {
		free(peers[slot]);
		peers[slot] = NULL;
	}
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What processes of a host show each other for direct access. Private to direct*.c.
 *
 * The tables: a memfd, sealed against shrinking, that neighbours map read-only.
 *
 *	0	 header: magic, version, cookie
 *	64	 epoch: counts what was taken from the tables below
 *	128	 life: a robust mutex that the process holds. Its first word is the holder's thread id;
 *		 the kernel changes it when that thread ends, also by exec and kill, before the
 *		 process's memory goes.
 *	1024	 objects: 16 × 64 bytes, files that registered memory lies in (direct_objects.c)
 *	4096	 QP rows: 65536 × 64 bytes, by QPN >> 8
 *	4198400	 the registration table (mempool/table.h)
 *
 * The window: a file beside the host segment (host/segment_window.h), which neighbours write to.
 *
 *	0	 where to find the tables
 *	40	 which words of the readers have had a bit
 *	64	 readers: a bit per slot whose process has mapped the tables
 *	4096	 hazards: 1024 × 64 bytes, by the slot of the initiator, which backs their page
 *
 * A hazard says that its initiator works by what these tables say. Its order against changes:
 *
 *	initiator			owner
 *	hazard := busy			tables := changed
 *	(order)				epoch := epoch + 1
 *	reads epoch, tables		(order)
 *	if epoch is the same: copies	waits for hazards that are busy
 *	hazard := idle
 *
 * so either the owner sees the hazard, or the initiator sees the change. The last look at the epoch
 * and the copy are a restartable sequence (direct_rseq.h).
 */
#ifndef URXE_HCA_DIRECT_PRIVATE_H
#define URXE_HCA_DIRECT_PRIVATE_H

#include <assert.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "hca/engine.h"
#include "hca/direct.h"
#include "host/sysinfo.h"
#include "mempool/table.h"

#define DIRECT_MAGIC   0x7463657269445255 /* "URDirect" */
#define DIRECT_VERSION 6

/* A QP that takes requests. Written while service is NONE, or with the epoch raised before. */
struct direct_qp {
	_Atomic uint32_t service; /* enum direct_service; NONE: takes no requests this way */
	_Atomic uint32_t qpn;
	_Atomic uint32_t dest_qpn;
	_Atomic uint32_t access; /* IBV_ACCESS_REMOTE_… of the QP */
	_Atomic uint32_t pd;
	_Atomic uint32_t pkey;
	_Atomic uint64_t src[2], dst[2]; /* struct urxe_link_addr */
	uint8_t unused1[8];
};

static inline bool direct_addr_is(const _Atomic uint64_t at[2], const struct urxe_link_addr *addr)
{
	return atomic_load_explicit(&at[0], memory_order_relaxed) == addr->word[0] &&
	       atomic_load_explicit(&at[1], memory_order_relaxed) == addr->word[1];
}

/*
 * A memfd of the owner's that others may map, and where it lies in the owner's memory. Rows of the
 * registration table name it by its id, which is never given twice. Written while id is 0.
 */
struct direct_object {
	_Atomic uint32_t id; /* count * DIRECT_OBJECTS + its place here; 0: none */
	_Atomic int32_t fd;
	_Atomic uint64_t dev, ino, size;
	_Atomic uint64_t base; /* address less offset, for all of it */
	uint8_t unused[24];
};
#define DIRECT_OBJECTS 16

struct direct_tables {
	uint64_t magic;
	uint32_t version;
	uint32_t max_rows; /* of the registration table */
	uint64_t bytes;
	uint64_t cookie[2];
	uint8_t unused0[24];
	_Atomic uint64_t epoch;
	uint8_t unused1[56];
	pthread_mutex_t life;
	uint8_t unused2[1024 - 128 - sizeof(pthread_mutex_t)];
	struct direct_object objects[DIRECT_OBJECTS];
	uint8_t unused3[2048];
	struct direct_qp qps[URXE_QP_SLOTS];
};

struct direct_hazard {
	_Atomic uint64_t word; /* count << 2 | DIRECT_BUSY, DIRECT_CALLS; even counts are idle */
	_Atomic uint32_t pid, tid;
	_Atomic uint32_t life; /* urxe_segment_slot_life() of the initiator */
	uint8_t unused[44];
};
#define DIRECT_BUSY  1u
#define DIRECT_CALLS 2u /* it copies in a system call, where it may not be stopped but may sleep */

struct direct_window {
	uint64_t magic;	    /* written last */
	uint64_t ino, dev;  /* of the memfd */
	uint64_t cookie_at; /* where the cookie lies in the owner's memory, too */
	uint32_t pid;
	int32_t fd;		       /* of the memfd, in the owner */
	_Atomic uint32_t reader_words; /* which of the next have had a bit */
	uint8_t unused0[20];
	_Atomic uint64_t readers[URXE_MAX_SLOTS / 64];
	uint8_t unused1[4096 - 64 - URXE_MAX_SLOTS / 8];
	struct direct_hazard hazards[URXE_MAX_SLOTS];
};

#define DIRECT_READER_WORDS ((1u << URXE_MAX_SLOTS / 64) - 1)

static_assert(sizeof(struct direct_qp) == 64, "layout seen by other processes");
static_assert(offsetof(struct direct_tables, epoch) == 64, "layout");
static_assert(offsetof(struct direct_tables, life) == 128, "layout");
static_assert(sizeof(struct direct_object) == 64, "layout seen by other processes");
static_assert(offsetof(struct direct_tables, objects) == 1024, "layout");
static_assert(offsetof(struct direct_tables, qps) == 4096, "layout");
static_assert(sizeof(struct direct_tables) == 4198400, "layout");
static_assert(offsetof(struct direct_window, reader_words) == 40, "layout");
static_assert(offsetof(struct direct_window, readers) == 64, "layout");
static_assert(offsetof(struct direct_window, hazards) == 4096, "layout");
static_assert(sizeof(struct direct_window) == 4096 + URXE_MAX_SLOTS * 64, "layout");

/* What the tables say of their own length is only looked at once: the owner may write to them. */
static inline size_t direct_tables_bytes(void)
{
	return sizeof(struct direct_tables) + mempool_table_bytes(URXE_MAX_MR);
}

/* The first word of glibc's mutex: the holder's thread id while it lives. */
static inline const void *direct_life(const struct direct_tables *tables)
{
	return &tables->life;
}

/* A neighbour's object, mapped here; at is NULL: it cannot be. */
struct direct_mapping {
	uint32_t id;
	int fd; /* in the owner */
	uint8_t *at;
	uint64_t base;
	struct urxe_stat is;
};

/* A neighbour whose tables are mapped. */
struct direct_peer {
	unsigned slot;
	uint32_t slot_life; /* urxe_segment_slot_life() */
	bool refused; /* may not be reached, or is not to be found: until it is another process */
	int pid;
	const struct direct_tables *tables;
	const struct mempool_table *regions;
	struct direct_window *window;
	struct direct_hazard *hazard; /* ours, in its window */
	uint32_t alive;		      /* the word of life */
	uint64_t own; /* our slot and its life when this was mapped: which process we are */
	struct direct_mapping objects[DIRECT_OBJECTS];
};

/* The neighbour of a slot, mapped; NULL when it cannot be had. */
struct direct_peer *direct_peer_get(unsigned slot);
/* Does its process live, which it does from when it holds the mutex of life? */
bool direct_peer_alive(struct direct_peer *peer);
static inline uint32_t direct_peer_life(const struct direct_peer *peer)
{
	return __atomic_load_n((const uint32_t *)direct_life(peer->tables), __ATOMIC_ACQUIRE);
}
/* A descriptor of a neighbour's file, which cannot shrink; -1: its owner may have another one
 * under that number by now. */
int direct_open_file(int pid, int number, int mode, const struct urxe_stat *is);
void direct_peers_drop(void);
void direct_peers_forked(void);

/*
 * Where [va, va + length) of a neighbour lies here, which is in its object id; NULL when that is
 * not mapped and cannot be. The hazard is there.
 */
uint8_t *direct_object_at(struct direct_peer *peer, uint32_t id, uint64_t va, uint64_t length);
void direct_objects_unmap(struct direct_peer *peer);
/* Our own objects: none any more, in these tables. */
void direct_objects_reset(struct direct_tables *tables);

/* Shows the tables to neighbours (direct_window.c); whatever hinders it, there is no direct
 * access. */
void direct_window_open(int memfd, struct direct_tables *tables);
void direct_window_close(void);
void direct_window_forked(void);
/* Under the engine lock: a ticket for the accesses that are under way (urxe_direct_change()). */
uint64_t direct_window_note(void);

/* Is direct access wanted and possible here at all? */
bool direct_enabled(void);

#endif

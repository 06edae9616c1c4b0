/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What lies in the host segment, and what this process knows about it. Private to segment*.c.
 *
 *	offset   size
 *	0        4096	header: magic, version, sizes, secret of the keys, generations
 *	4096     64 KiB	slots: 1024 × 64 bytes; urxe_owner_of() says whose QPNs are a slot's
 *	69632    8192	key_owner: of each block of 4096 key indices: its slot, 0 free
 *	77824    1024	groups: 2 copies × 2 reuseport groups × (count, 255 slots)
 *	78848    20480	faults: 32 devices × (generation, 2 copies of 256 characters)
 *	99328    16384	retired: 2 copies × 32 devices × 32 counters of the processes that are gone
 *	115712   1024	orphan: a byte per slot: its process died and nobody has read its records yet
 *	116736   12296	port spaces: generation, allocation, owner of each chunk of rows
 *	131072		end of the part that is allocated when the file is made
 *	131072   8 MiB	1024 × (32 devices × 32 counters): a slot's part is allocated when it is
 *			first taken, the rest is a hole. Nobody reads the part of a slot that is not USED.
 *	+8 MiB   128 KiB	port_heads: 32768 lists of rows; allocated with the first bind
 *	+128 KiB 8 MiB	port_rows: 4096 chunks of 32 rows of 64 bytes; a chunk is allocated when it
 *			is first taken
 *
 * Death at any instruction must leave this usable. So whatever is longer than a word is kept twice:
 * the copy not in use is written, then one store of a generation switches. The file is also
 * locked by bytes (OFD locks; nothing need be stored there, and these never move between versions):
 *
 *	byte 1		the segment lock, held briefly
 *	byte 2…253	slot s is alive: held by the process for as long as it maps the segment
 *	byte 254	held by the guardian (guardian.h); no process has this slot
 *	byte 255…1022	as 2…253
 */
#ifndef URXE_HOST_SEGMENT_LAYOUT_H
#define URXE_HOST_SEGMENT_LAYOUT_H

#include <pthread.h>
#include <stdio.h>
#include <sys/types.h>

#include "host/libc_tsan.h"
#include "host/segment.h"
#include "host/segment_ports.h"

#define SEGMENT_MAGIC	  0x746e656d67655375 /* "uSegment" */
#define SEGMENT_VERSION	  7
#define SEGMENT_LOCK_BYTE 1
#define GUARDIAN_BYTE	  254
#define MAX_COUNTERS	  32
#define KEY_BLOCKS	  4096
#define KEY_BLOCK_BITS	  12
#define NUM_GROUPS	  2
#define PORT_HEADS	  32768
#define PORT_CHUNKS	  4096
#define PORT_CHUNK	  32 /* rows */
#define PORT_ROWS	  (PORT_CHUNKS * PORT_CHUNK)

_Static_assert(URXE_NUM_COUNTERS <= MAX_COUNTERS, "make room for more counters");

struct segment_header {
	uint64_t magic; /* written last when the file is made */
	uint32_t version;
	uint32_t num_counters;
	uint64_t size;
	uint64_t key_secret[2];
	uint32_t group_generation; /* its lowest bit says which copy of the groups holds */
	uint32_t fault_generation;
	uint64_t retire;    /* RETIRE_…: which copy of the retired counters holds */
	uint32_t next_slot; /* where the search for a free slot begins */
	uint32_t left;	    /* counts processes that have left: a futex (guardian.c) */
};

/*
 * The word `retire`: a generation whose lowest bit says which copy holds, and in the low 16 bits
 * the slot whose counters were added last but which may not have been freed yet. With it, counters
 * of a slot are added exactly once, although the process that adds them may die half-way.
 */
#define RETIRE_WORD(gen, slot) ((uint64_t)(gen) << 16 | (slot))
#define RETIRE_GEN(word)       ((word) >> 16)
#define RETIRE_COPY(word)      ((word) >> 16 & 1)
#define RETIRE_SLOT(word)      ((unsigned)((word)&0xffff))

enum slot_state {
	SLOT_FREE,
	SLOT_USED, /* alive while byte s is locked; stale after that */
};

struct segment_slot {
	uint32_t state;	    /* enum slot_state */
	uint32_t gsi;	    /* it serves QP 1 for the others */
	uint32_t pid;	    /* for people; in its own pid namespace */
	uint32_t backed;    /* its counters' part of the file is allocated */
	uint32_t beat;	    /* when it was last seen running: CLOCK_MONOTONIC, s */
	uint32_t listeners; /* rows of the port spaces that listen */
	struct urxe_unacked flow;
	uint32_t life; /* counts the processes that have had the slot; never 0 while it is taken */
	uint32_t socket; /* random end of its socket's name; 0: it has none */
	uint32_t host;	 /* of a fabric; 0: the only one */
	uint32_t groups; /* multicast groups of a fabric that its QPs are attached to */
	uint8_t unused[8];
};

struct segment_group {
	uint8_t count;
	uint8_t slots[255];
};

struct segment_fault {
	uint32_t generation; /* its lowest bit says which copy holds */
	char spec[2][URXE_FAULT_SPEC_LEN];
	uint8_t unused[124];
};

struct segment_counters {
	uint64_t counters[URXE_MAX_DEVICES][MAX_COUNTERS];
};

/*
 * Port spaces, written under the segment lock. A row is in the list of its port while its state is
 * not FREE: put there by one store to the head after it was filled, taken out by one store to
 * whatever points to it, and only then FREE; so a process that dies half-way leaves a list that
 * holds, and rows that a second removal does no harm. Readers take no lock: the generation is
 * raised before a row that was once in a list is filled again, and makes them begin again. A
 * process releases a row without the lock, and takes it out when it has the lock for the next one.
 *
 * Chunks of rows belong to a slot as blocks of key indices do; which of its rows are free is its
 * own business. Row 0 is never used.
 */
struct segment_ports {
	uint32_t generation;
	uint32_t backed; /* the heads are allocated */
	uint16_t owner[PORT_CHUNKS];
	uint8_t chunk_backed[PORT_CHUNKS];
};

#define PORT_RELEASED_MOST 64 /* rows of a process */

/* Words, because they are read while they may be written. */
struct segment_port_row {
	uint32_t next;	/* row; 0: the last */
	uint32_t state; /* enum urxe_port_state */
	uint32_t id;
	uint32_t space; /* ps << 16 | port */
	uint32_t addr[4];
	uint32_t scope;
	uint32_t owner; /* PORT_V6ONLY | PORT_REUSE | slot */
	uint32_t peer[4];
	uint32_t peer_port;
	uint32_t unused;
};
#define PORT_SLOT_MASK 0xffffu
#define PORT_V6ONLY    0x10000u
#define PORT_REUSE     0x20000u

struct segment_map {
	union {
		struct segment_header header;
		uint8_t header_page[4096];
	};
	struct segment_slot slots[URXE_MAX_SLOTS];
	uint16_t key_owner[KEY_BLOCKS];
	struct segment_group groups[2][NUM_GROUPS];
	struct segment_fault faults[URXE_MAX_DEVICES];
	struct segment_counters retired[2];
	uint8_t orphan[URXE_MAX_SLOTS];
	struct segment_ports ports;
	uint8_t unused[2040];
	struct segment_counters living[URXE_MAX_SLOTS];
	uint32_t port_heads[PORT_HEADS];
	struct segment_port_row port_rows[PORT_ROWS];
};

_Static_assert(sizeof(struct segment_slot) == 64, "a slot is a cache line");
_Static_assert(sizeof(struct segment_fault) == 640, "layout");
_Static_assert(sizeof(struct segment_counters) == 8192, "layout");
_Static_assert(offsetof(struct segment_map, slots) == 4096, "layout");
_Static_assert(offsetof(struct segment_map, key_owner) == 69632, "layout");
_Static_assert(offsetof(struct segment_map, groups) == 77824, "layout");
_Static_assert(offsetof(struct segment_map, faults) == 78848, "layout");
_Static_assert(offsetof(struct segment_map, retired) == 99328, "layout");
_Static_assert(offsetof(struct segment_map, living) == 131072, "layout");
_Static_assert(sizeof(struct segment_port_row) == 64, "a row is a cache line");
_Static_assert(offsetof(struct segment_map, port_heads) == 131072 + 1024 * 8192, "layout");
_Static_assert(sizeof(struct segment_map) == 131072 + 1024 * 8192 + 131072 + 8388608, "layout");

#define SEGMENT_FIXED_SIZE offsetof(struct segment_map, living)

/* Of the file's path, so that a socket's name has room for it (sun_path). */
#define SEGMENT_PATH_MAX 94

/* A block of 4096 key indices that this process owns. */
struct key_block {
	uint16_t id;
	uint64_t used[64];		     /* a bit per index */
	uint32_t image[1 << KEY_BLOCK_BITS]; /* what it is outside; 0: not computed yet */
};

struct urxe_segment {
	struct segment_map *map;
	char path[SEGMENT_PATH_MAX];
	int fd;		   /* for locks; checked before use, since a program may close it */
	uint64_t dev, ino; /* of the file */
	unsigned slot;	   /* 0: a view, or the parent's after a fork */
	pid_t pid;
	unsigned refs;	      /* of the membership; members_lock in segment.c */
	pthread_mutex_t lock; /* the segment lock among threads; recursive */
	unsigned depth;	      /* of the segment lock; under it */

	pthread_mutex_t alloc_lock; /* all below */
	uint32_t qpn_next;
	uint64_t qpn_used[1024]; /* a bit per QPN index */
	uint32_t key_next, keys_used;
	/* By the low bits of an image: whose it was last. */
	uint32_t key_hints[1 << KEY_BLOCK_BITS];
	unsigned num_blocks;
	struct key_block *blocks[KEY_BLOCKS]; /* in order of claim */
	struct key_block *block_of_id[KEY_BLOCKS];

	/* Rows of our chunks of the port spaces that are free: a stack. The segment lock. */
	uint32_t *port_free;
	unsigned port_num_free, port_chunks;
	uint32_t port_released[PORT_RELEASED_MOST]; /* those that are in their lists still */
	unsigned port_num_released;
	unsigned port_listeners;
	unsigned reaped;      /* the last slot that was looked at; the segment lock among threads */
	bool servers_changed; /* whether there are any: read without the lock */

	/* guardian.c */
	_Atomic uint64_t guard_at; /* when to see whether there is one, ns; 0: none is wanted */
	uint64_t guard_wait;	   /* ns from the last start to the next */

	struct segment_records *records; /* segment_records.c; NULL: none were made */
	int dead_fd;			 /* records of a slot that died, being read; -1 */
};

/*
 * Between a generation and the copy that it is about. GCC refuses fences under the thread
 * sanitizer, which does not model them; there the same is said to the processor alone.
 */
static inline void segment_fence(void)
{
#ifndef URXE_TSAN
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
#elif defined(__aarch64__)
	__asm__ volatile("dmb ish" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* segment_file.c: the file and its locks. */

/* Opens the file (made and initialised if create) and takes the segment lock if create. */
int segment_file_open(struct urxe_segment *seg, bool create);
void segment_file_close(struct urxe_segment *seg);
/* Maps it: 0 or -errno. */
int segment_file_map(struct urxe_segment *seg, int fd);
/* Does the path still lead to this file? Another version may have put its own there. */
bool segment_file_is_current(const struct urxe_segment *seg);
/* Another descriptor (and description) of the same file, or -errno after a line on stderr. */
int segment_file_reopen(const struct urxe_segment *seg);
/* Takes this descriptor, with the locks of its description, for the lock descriptor. -EBADF, or
 * -ESTALE: it is of another file. */
int segment_file_adopt(struct urxe_segment *seg, int fd);
/* The lock descriptor, opened anew where the program closed it; -1 where that cannot be done. */
int segment_file_fd(struct urxe_segment *seg);
/* Takes (waits for) and drops a lock on one byte; -EAGAIN when try and it is taken. */
int segment_file_lock(int fd, unsigned byte, bool try);
void segment_file_unlock(int fd, unsigned byte);
/* Does anybody hold a lock on these bytes? True if that cannot be found out. */
bool segment_file_locked(int fd, unsigned first, unsigned num);
/* Allocates a part of the file: -ENOSPC after a line on stderr. */
int segment_file_allocate(struct urxe_segment *seg, int fd, off_t offset, off_t len);

/* Removes the file of a fabric that is down, if no other process has a slot, nor a guardian its
 * byte. With the segment lock held. */
void segment_file_remove(struct urxe_segment *seg);

/* segment_group.c, segment_counters.c, segment_numbers.c: with the segment lock held. */
void segment_groups_forget(struct segment_map *map, unsigned slot);
/* Adds a slot's counters to the retired ones, exactly once, and frees the slot. */
void segment_counters_retire(struct segment_map *map, unsigned slot);
/* Frees the slot that a process that died had added but not freed. Before a slot is taken. */
void segment_counters_settle(struct segment_map *map);
void segment_keys_forget(struct segment_map *map, unsigned slot);
void segment_ports_forget(struct segment_map *map, unsigned slot);
/* The records of a slot that died wait for the process that will read them. */
void segment_records_orphan(struct urxe_segment *seg, unsigned slot);
/* Ends our own: with their file, or, in a child, without touching it. */
void segment_records_close(struct urxe_segment *seg);
void segment_records_forked(struct urxe_segment *seg);

/* The path of a file beside the segment: "<segment>.<kind><slot>". */
#define SEGMENT_NAME_LEN (sizeof(((struct urxe_segment *)0)->path) + 32)
static inline void segment_slot_file(const struct urxe_segment *seg, char kind, unsigned slot,
				     char name[SEGMENT_NAME_LEN])
{
	snprintf(name, SEGMENT_NAME_LEN, "%s.%c%u", seg->path, kind, slot);
}

/* Removes the names of a slot's windows; of its socket. */
void segment_windows_forget(struct urxe_segment *seg, unsigned slot);
void segment_socket_forget(struct urxe_segment *seg, unsigned slot);

int segment_numbers_init(struct urxe_segment *seg);
void segment_numbers_free(struct urxe_segment *seg);

#endif

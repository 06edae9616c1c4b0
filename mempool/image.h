/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The image of both tables for one adapter: a memfd that other processes map read-only. Layout:
 *
 *   +--------+------------------+---------------+----------------------------------------------+
 *   | header | log, 1,024 words | VA→PA table   | registration table                           |
 *   +--------+------------------+---------------+----------------------------------------------+
 *
 *   log word:   63  62                                                    32 31              0
 *              +---+--------------------------------------------------------+-----------------+
 *              | 0 |                                                        | key             |
 *              | 1 | first block                                            | blocks          |
 *              +---+--------------------------------------------------------+-----------------+
 *
 * The log lists changes: a row was removed, or blocks were added or removed, so that a holder of
 * copied entries drops only those. A change is made in the table first and then written to the log,
 * so a reader of the log and then of a table sees at least the logged changes. head counts all
 * words ever written; a reader that is 1,024 or more behind has missed some and drops everything.
 *
 * One writer at a time (the pool's registration lock); readers take no lock.
 */
#ifndef MEMPOOL_IMAGE_H
#define MEMPOOL_IMAGE_H

#include "mempool/table.h"
#include "mempool/translate.h"

#define MEMPOOL_LOG_WORDS 1024u

struct mempool_image_header {
	uint64_t magic;
	uint32_t version;
	uint32_t unused;
	uint64_t bytes;
	uint64_t vapa_offset;
	uint64_t table_offset;
	uint64_t table_rows;
	_Atomic uint64_t head __attribute__((aligned(64)));
	_Atomic uint64_t log[MEMPOOL_LOG_WORDS] __attribute__((aligned(64)));
};

/* A mapping of an image. */
struct rmempool_image {
	int fd;
	bool own; /* this handle owns fd and mapping */
	size_t bytes;
	struct mempool_image_header *header;
	struct mempool_vapa *vapa;
	struct mempool_table *table;
};

/*
 * A memfd of that many bytes, sealed against shrinking and growing, or -errno. -EFBIG: RLIMIT_FSIZE
 * forbids it (without the SIGXFSZ that the kernel would send).
 */
int mempool_memfd(const char *name, unsigned flags, uint64_t bytes);

/* Creates an image; the caller destroys it with mempool_image_destroy(). */
int mempool_image_create(uint64_t base, unsigned block_shift, uint32_t max_blocks,
			 uint32_t max_runs, unsigned max_rows, struct rmempool_image *image);
void mempool_image_destroy(struct rmempool_image *image);

/* With the writers' lock held. */
void mempool_image_log_key(struct rmempool_image *image, uint32_t key);
void mempool_image_log_blocks(struct rmempool_image *image, uint32_t first, uint32_t count);

/* A change that invalidates copied entries; see the top. */
struct mempool_change {
	bool blocks;
	uint32_t key;	       /* unless blocks */
	uint32_t first, count; /* blocks */
};

/*
 * The next change after *seen, which is advanced: 1; 0: there is none; -1: some were overwritten,
 * and *seen is now the latest.
 */
int mempool_image_next(const struct rmempool_image *image, uint64_t *seen,
		       struct mempool_change *change);

/* Whether there is a change after seen. */
static inline bool mempool_image_moved(const struct rmempool_image *image, uint64_t seen)
{
	return atomic_load_explicit(&image->header->head, memory_order_acquire) != seen;
}

#endif

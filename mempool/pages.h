/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Runs of pages: which of the pool's pages are free, and how the others are used. All bookkeeping
 * is kept outside of the pool's memory, because peers may write to that.
 *
 *   page number   0     1     2     3     4     5     6     7     8
 *   head[]        0     0     0     3     ?     3     6     6     6
 *               +-----------------+-----------------+-----------------+
 *   run[]       | 0: SPAN, 3 pages| 3: FREE, 3 pages| 6: LARGE, 3     |
 *               +-----------------+-----------------+-----------------+
 *
 * A run is described at its first page. head[] refers to that from every page of a run in use, and
 * from the last page of a free one, so that a run that becomes free finds the neighbour before it.
 * Pages of blocks that the pool does not have belong to no run.
 *
 * Free runs are in lists by size, eight for each power of two, and bit masks tell which
 * lists are not empty ("two-level segregated fit"): allocating and freeing is O(1).
 * Guarded by the pool's lock.
 */
#ifndef MEMPOOL_PAGES_H
#define MEMPOOL_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMPOOL_PAGE	   4096ul
#define MEMPOOL_PAGE_SHIFT 12
#define MEMPOOL_NO_PAGE	   UINT32_MAX

enum mempool_run_state {
	MEMPOOL_RUN_NONE, /* no run begins at this page */
	MEMPOOL_RUN_FREE,
	MEMPOOL_RUN_SPAN,  /* cut into slots of one class */
	MEMPOOL_RUN_LARGE, /* one buffer */
};

struct mempool_run {
	uint8_t state;
	uint8_t cls;	 /* SPAN */
	uint16_t unused; /* SPAN: slots that are free */
	uint32_t pages;
	uint32_t next, prev;  /* in its list: FREE by size, SPAN with free slots by class */
	_Atomic uint32_t mrs; /* registrations of buffers in it */
};

#define MEMPOOL_BIN_ROWS 30

struct mempool_page_heap {
	uint32_t count; /* pages of the address range */
	uint32_t *head;
	struct mempool_run *run;
	uint32_t rows; /* bit n: rows_bits[n] is not 0 */
	uint8_t row_bits[MEMPOOL_BIN_ROWS];
	uint32_t bins[MEMPOOL_BIN_ROWS][8];
};

/* For a range of that many pages, none of which exists yet. -ENOMEM. */
int mempool_pages_init(struct mempool_page_heap *p, uint32_t count);
void mempool_pages_destroy(struct mempool_page_heap *p);

/* Adds the pages of a new block as free. */
void mempool_pages_add(struct mempool_page_heap *p, uint32_t first, uint32_t count);
/*
 * Removes the highest free block below a page: count pages at a multiple of count. Its first page,
 * or MEMPOOL_NO_PAGE.
 */
uint32_t mempool_pages_remove(struct mempool_page_heap *p, uint32_t count, uint32_t below);

/*
 * Allocates a run of count pages that begins at a multiple of align pages and, if within is not 0,
 * does not cross a multiple of within. Its first page, or MEMPOOL_NO_PAGE.
 */
uint32_t mempool_pages_take(struct mempool_page_heap *p, uint32_t count, uint32_t align,
			    uint32_t within, enum mempool_run_state state);
void mempool_pages_give(struct mempool_page_heap *p, uint32_t first);
/* Whether a page lies in a run that is not free. */
bool mempool_pages_used(const struct mempool_page_heap *p, uint32_t page);

#endif

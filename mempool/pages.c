/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Runs of pages; see pages.h for the picture. Guarded by the pool's lock.
 */
#include "mempool/pages.h"

#include <errno.h>
#include <sys/mman.h>

static void *reserve(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

int mempool_pages_init(struct mempool_page_heap *p, uint32_t count)
{
	*p = (struct mempool_page_heap){.count = count};
	for (unsigned row = 0; row < MEMPOOL_BIN_ROWS; row++)
		for (unsigned i = 0; i < 8; i++)
			p->bins[row][i] = MEMPOOL_NO_PAGE;
	p->head = reserve(count * sizeof(*p->head));
	p->run = reserve(count * sizeof(*p->run));
	if (p->head && p->run)
		return 0;
	mempool_pages_destroy(p);
	return -ENOMEM;
}

void mempool_pages_destroy(struct mempool_page_heap *p)
{
	if (p->head)
		munmap(p->head, p->count * sizeof(*p->head));
	if (p->run)
		munmap(p->run, p->count * sizeof(*p->run));
	p->head = NULL;
	p->run = NULL;
}

/* The list for runs of n pages: eight for each power of two, from 8 on. */
static void bin_of(uint32_t n, unsigned *row, unsigned *i)
{
	unsigned log;

	if (n < 8) {
		*row = 0;
		*i = n;
		return;
	}
	log = 31 - __builtin_clz(n);
	*row = log - 2;
	*i = (n >> (log - 3)) & 7;
}

static void bin_insert(struct mempool_page_heap *p, uint32_t first, uint32_t count)
{
	struct mempool_run *run = &p->run[first];
	unsigned row, i;

	bin_of(count, &row, &i);
	run->state = MEMPOOL_RUN_FREE;
	run->pages = count;
	run->prev = MEMPOOL_NO_PAGE;
	run->next = p->bins[row][i];
	if (run->next != MEMPOOL_NO_PAGE)
		p->run[run->next].prev = first;
	p->bins[row][i] = first;
	p->row_bits[row] |= 1u << i;
	p->rows |= 1u << row;
	p->head[first] = first;
	p->head[first + count - 1] = first;
}

static void bin_remove(struct mempool_page_heap *p, uint32_t first)
{
	struct mempool_run *run = &p->run[first];
	unsigned row, i;

	bin_of(run->pages, &row, &i);
	if (run->next != MEMPOOL_NO_PAGE)
		p->run[run->next].prev = run->prev;
	if (run->prev != MEMPOOL_NO_PAGE) {
		p->run[run->prev].next = run->next;
	} else {
		p->bins[row][i] = run->next;
		if (run->next == MEMPOOL_NO_PAGE) {
			p->row_bits[row] &= ~(1u << i);
			if (!p->row_bits[row])
				p->rows &= ~(1u << row);
		}
	}
	run->state = MEMPOOL_RUN_NONE;
}

/* Frees [first, first + count), merged with free neighbours into one run. */
static void release(struct mempool_page_heap *p, uint32_t first, uint32_t count)
{
	uint32_t other;

	if (first + count < p->count && p->run[first + count].state == MEMPOOL_RUN_FREE) {
		other = first + count;
		count += p->run[other].pages;
		bin_remove(p, other);
	}
	if (first) {
		/* head[] is outdated for a page that is in no run: the run itself is checked. */
		other = p->head[first - 1];
		if (other < first && p->run[other].state == MEMPOOL_RUN_FREE &&
		    other + p->run[other].pages == first) {
			count += p->run[other].pages;
			bin_remove(p, other);
			first = other;
		}
	}
	bin_insert(p, first, count);
}

void mempool_pages_add(struct mempool_page_heap *p, uint32_t first, uint32_t count)
{
	release(p, first, count);
}

/* Cuts [at, at + count) out of a free run; the rest stays free. */
static void cut(struct mempool_page_heap *p, uint32_t first, uint32_t at, uint32_t count)
{
	uint32_t end = first + p->run[first].pages;

	bin_remove(p, first);
	if (at > first)
		bin_insert(p, first, at - first);
	if (end > at + count)
		bin_insert(p, at + count, end - (at + count));
}

uint32_t mempool_pages_remove(struct mempool_page_heap *p, uint32_t count, uint32_t below)
{
	uint32_t best = MEMPOOL_NO_PAGE, from = 0, run, end, at;

	for (unsigned row = 0; row < MEMPOOL_BIN_ROWS; row++)
		for (unsigned i = 0; i < 8; i++)
			for (run = p->bins[row][i]; run != MEMPOOL_NO_PAGE;
			     run = p->run[run].next) {
				end = run + p->run[run].pages;
				end = (end < below ? end : below) / count * count;
				if (end < count || end - count < run)
					continue;
				at = end - count;
				if (best == MEMPOOL_NO_PAGE || at > best) {
					best = at;
					from = run;
				}
			}
	if (best != MEMPOOL_NO_PAGE)
		cut(p, from, best, count);
	return best;
}

/* Where in a free run the pages fit, or MEMPOOL_NO_PAGE. */
static uint32_t place(const struct mempool_page_heap *p, uint32_t first, uint32_t count,
		      uint32_t align, uint32_t within)
{
	uint64_t end = (uint64_t)first + p->run[first].pages;
	uint64_t at = ((uint64_t)first + align - 1) / align * align;

	if (within && at / within != (at + count - 1) / within)
		at = (at / within + 1) * within; /* a multiple of align, as within is */
	return at + count <= end ? (uint32_t)at : MEMPOOL_NO_PAGE;
}

/* The first run of a list whose runs all have at least n pages, or MEMPOOL_NO_PAGE. */
static uint32_t find(const struct mempool_page_heap *p, uint64_t n)
{
	unsigned row, i, bits;
	uint32_t rows;

	/* Rounded up to the next list's bound, so that any run of that list fits. */
	if (n >= 8)
		n += (1u << (60 - __builtin_clzll(n))) - 1;
	if (n > UINT32_MAX)
		return MEMPOOL_NO_PAGE;
	bin_of(n, &row, &i);
	bits = p->row_bits[row] & (0xffu << i);
	if (!bits) {
		rows = p->rows & ~((2u << row) - 1);
		if (!rows)
			return MEMPOOL_NO_PAGE;
		row = __builtin_ctz(rows);
		bits = p->row_bits[row];
	}
	return p->bins[row][__builtin_ctz(bits)];
}

/* Checks every run that may be long enough, before the allocation fails. */
static uint32_t find_any(const struct mempool_page_heap *p, uint32_t count, uint32_t align,
			 uint32_t within)
{
	unsigned row, i;
	uint32_t run;

	bin_of(count, &row, &i);
	for (; row < MEMPOOL_BIN_ROWS; row++, i = 0)
		for (; i < 8; i++)
			for (run = p->bins[row][i]; run != MEMPOOL_NO_PAGE; run = p->run[run].next)
				if (place(p, run, count, align, within) != MEMPOOL_NO_PAGE)
					return run;
	return MEMPOOL_NO_PAGE;
}

uint32_t mempool_pages_take(struct mempool_page_heap *p, uint32_t count, uint32_t align,
			    uint32_t within, enum mempool_run_state state)
{
	uint32_t run = find(p, count), at;

	if (run == MEMPOOL_NO_PAGE || place(p, run, count, align, within) == MEMPOOL_NO_PAGE) {
		/* With that much room it fits wherever the run begins. */
		run = find(p, (uint64_t)count + align - 1 + (within ? count - 1 : 0));
		if (run == MEMPOOL_NO_PAGE ||
		    place(p, run, count, align, within) == MEMPOOL_NO_PAGE)
			run = find_any(p, count, align, within);
		if (run == MEMPOOL_NO_PAGE)
			return MEMPOOL_NO_PAGE;
	}
	at = place(p, run, count, align, within);
	cut(p, run, at, count);
	for (uint32_t i = 0; i < count; i++)
		p->head[at + i] = at;
	p->run[at].pages = count;
	p->run[at].state = state;
	atomic_store_explicit(&p->run[at].mrs, 0, memory_order_relaxed);
	return at;
}

void mempool_pages_give(struct mempool_page_heap *p, uint32_t first)
{
	p->run[first].state = MEMPOOL_RUN_NONE;
	release(p, first, p->run[first].pages);
}

bool mempool_pages_used(const struct mempool_page_heap *p, uint32_t page)
{
	const struct mempool_run *run = &p->run[p->head[page]];

	return run->state >= MEMPOOL_RUN_SPAN && p->head[page] <= page &&
	       page - p->head[page] < run->pages;
}

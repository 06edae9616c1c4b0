/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registered local memory with guards. A ring of chunks, given out in order and taken back when the
 * oldest are free. Belongs to one worker.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "traffic.h"

#define MAX_GAP 24

void arena_init(struct arena *a, struct ibv_pd *pd, size_t size, unsigned chunks, uint64_t guard)
{
	a->size = size;
	a->guard = guard;
	a->max_chunks = chunks;
	a->head = a->count = 0;
	a->chunks = calloc(chunks, sizeof(*a->chunks));
	a->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!a->chunks || a->base == MAP_FAILED)
		fail(NULL, "out of memory: an arena of %zu bytes", size);
	pattern_fill(a->base, guard, 0, size);
	a->mr = ibv_reg_mr(pd, a->base, size, IBV_ACCESS_LOCAL_WRITE);
	if (!a->mr)
		fail(NULL, "ibv_reg_mr of %zu bytes: %m", size);
}

void arena_destroy(struct arena *a)
{
	if (!a->base)
		return;
	if (ibv_dereg_mr(a->mr))
		fail(NULL, "ibv_dereg_mr: %m");
	munmap(a->base, a->size);
	free(a->chunks);
}

static size_t room_for(uint32_t cap)
{
	return cap + (size_t)(MAX_SGE + 1) * MAX_GAP;
}

/* Where room for that many bytes begins, or SIZE_MAX. */
static size_t find_room(const struct arena *a, size_t need)
{
	const struct chunk *first, *last;

	if (a->count == a->max_chunks)
		return SIZE_MAX;
	if (!a->count)
		return need <= a->size ? 0 : SIZE_MAX;
	first = &a->chunks[a->head];
	last = &a->chunks[(a->head + a->count - 1) % a->max_chunks];
	if (last->end > first->start) { /* not wrapped */
		if (a->size - last->end >= need)
			return last->end;
		return first->start >= need ? 0 : SIZE_MAX;
	}
	return first->start - last->end >= need ? last->end : SIZE_MAX;
}

bool arena_fits(const struct arena *a, uint32_t cap)
{
	return find_room(a, room_for(cap)) != SIZE_MAX;
}

struct chunk *arena_alloc(struct arena *a, uint32_t cap, unsigned max_pieces, uint64_t *rng)
{
	size_t start = find_room(a, room_for(cap)), at = start;
	uint32_t left = cap;
	struct chunk *c;
	unsigned n, i;

	if (start == SIZE_MAX)
		return NULL;
	c = &a->chunks[(a->head + a->count++) % a->max_chunks];
	c->start = start;
	c->capacity = cap;
	c->busy = true;
	n = 1 + rng_below(rng, max_pieces);
	if (n > cap)
		n = cap;
	for (i = 0; i < n; i++) {
		/* Each piece leaves at least a byte for those that follow. */
		uint32_t most = left - (n - 1 - i), len = most;

		if (i + 1 < n) /* as often short as a fair share */
			len = 1 + rng_below(rng, rng_below(rng, 3) ? most / (n - i) + 1 : 16);
		if (len > most)
			len = most;
		at += 1 + rng_below(rng, MAX_GAP - 1);
		c->piece[i].off = at;
		c->piece[i].len = len;
		at += len;
		left -= len;
	}
	c->pieces = n;
	c->end = at + MAX_GAP;
	return c;
}

void arena_fill(struct arena *a, const struct chunk *c, uint64_t key, uint64_t off)
{
	unsigned i;

	for (i = 0; i < c->pieces; i++) {
		pattern_fill(a->base + c->piece[i].off, key, off, c->piece[i].len);
		off += c->piece[i].len;
	}
}

int arena_sges(const struct arena *a, const struct chunk *c, struct ibv_sge *sge)
{
	unsigned i;

	for (i = 0; i < c->pieces; i++) {
		sge[i].addr = (uintptr_t)a->base + c->piece[i].off;
		sge[i].length = c->piece[i].len;
		sge[i].lkey = a->mr->lkey;
	}
	return c->pieces;
}

bool arena_matches(const struct arena *a, const struct chunk *c, size_t skip, uint64_t key,
		   uint64_t off, size_t len, size_t *bad, uint8_t *found)
{
	size_t at = 0; /* bytes of the content seen so far */
	unsigned i;

	for (i = 0; i < c->pieces && at < len; i++) {
		const uint8_t *p = a->base + c->piece[i].off;
		size_t n = c->piece[i].len, s = skip < n ? skip : n, same;

		skip -= s;
		p += s;
		n -= s;
		if (n > len - at)
			n = len - at;
		same = pattern_check(p, key, off + at, n);
		if (same < n) {
			*bad = at + same;
			*found = p[same];
			return false;
		}
		at += n;
	}
	*bad = at;
	*found = 0;
	return at == len;
}

void arena_copy(const struct arena *a, const struct chunk *c, void *to, size_t len)
{
	uint8_t *p = to;
	unsigned i;
	size_t j;

	for (i = 0; i < c->pieces; i++)
		for (j = 0; j < c->piece[i].len && len; j++, len--)
			*p++ = a->base[c->piece[i].off + j];
}

static bool guard_ok(const struct arena *a, size_t from, size_t to, size_t *bad)
{
	size_t same = pattern_check(a->base + from, a->guard, from, to - from);

	*bad = from + same;
	return same == to - from;
}

bool arena_release(struct arena *a, struct chunk *c, size_t used, size_t *bad)
{
	size_t at = c->start;
	unsigned i;

	for (i = 0; i < c->pieces; i++) {
		const struct piece *p = &c->piece[i];
		size_t n = used < p->len ? used : p->len;

		if (!guard_ok(a, at, p->off, bad))
			return false;
		pattern_fill(a->base + p->off, a->guard, p->off, n);
		used -= n;
		at = p->off + n;
	}
	if (!guard_ok(a, at, c->end, bad))
		return false;
	c->busy = false;
	while (a->count && !a->chunks[a->head].busy) {
		a->head = (a->head + 1) % a->max_chunks;
		a->count--;
	}
	return true;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The ring of ring.h. Counters of cells and bytes run on and wrap at 2^32; only their differences
 * and their remainders by the ring's sizes, which are powers of two, mean something.
 */
#include <string.h>

#include "wire/ring.h"

#define REPORT_CELLS (URXE_RING_CELLS / 4)
#define REPORT_BYTES (URXE_RING_DATA / 8)

static_assert((URXE_RING_CELLS & (URXE_RING_CELLS - 1)) == 0, "a power of two");
static_assert((URXE_RING_DATA & (URXE_RING_DATA - 1)) == 0, "a power of two");

void urxe_producer_init(struct urxe_producer *p, struct urxe_ring *ring)
{
	memset(p, 0, sizeof(*p));
	p->ring = ring;
}

void urxe_consumer_init(struct urxe_consumer *c, struct urxe_ring *ring)
{
	c->ring = ring;
	urxe_consumer_reset(c);
}

void urxe_consumer_reset(struct urxe_consumer *c)
{
	atomic_store_explicit(&c->tail, 0, memory_order_relaxed);
	c->reported = c->unreported = 0;
}

/* Pollers may be looking at the turn of a cell. What else is in it counts for nothing after
 * that. */
void urxe_ring_clear(struct urxe_ring *ring)
{
	memset(ring, 0, offsetof(struct urxe_ring, cells));
	for (unsigned i = 0; i < URXE_RING_CELLS; i++)
		atomic_store_explicit(&ring->cells[i].turn, 0, memory_order_relaxed);
}

/* Looks how far the consumer is. */
static void look(struct urxe_producer *p)
{
	uint32_t taken = atomic_load_explicit(&p->ring->taken, memory_order_acquire);

	if (taken == p->taken || taken - p->taken > p->head - p->taken)
		return;
	p->taken = taken;
	p->data_tail = p->data_end[(taken - 1) % URXE_RING_CELLS];
}

/* A contiguous piece of data: where it begins, counted as data_head is. */
static bool place(const struct urxe_producer *p, uint32_t len, uint32_t *at)
{
	uint32_t need = (len + URXE_RING_LINE - 1) & ~(URXE_RING_LINE - 1);
	uint32_t begin = p->data_head, into = begin % URXE_RING_DATA;

	if (into + need > URXE_RING_DATA)
		begin += URXE_RING_DATA - into;
	*at = begin;
	return begin + need - p->data_tail <= URXE_RING_DATA;
}

/* at: where its data begins, when it does not fit into the cell. */
static bool fits(const struct urxe_producer *p, uint32_t len, uint32_t *at)
{
	return p->head - p->taken < URXE_RING_CELLS &&
	       (len <= URXE_RING_INLINE || place(p, len, at));
}

static bool find_room(struct urxe_producer *p, uint32_t len, uint32_t *at)
{
	if (fits(p, len, at))
		return true;
	look(p);
	return fits(p, len, at);
}

bool urxe_ring_full(struct urxe_producer *p, uint32_t len)
{
	uint32_t at;

	return !find_room(p, len, &at);
}

void *urxe_ring_claim(struct urxe_producer *p, uint32_t len)
{
	struct urxe_cell *cell = &p->ring->cells[p->head % URXE_RING_CELLS];
	uint32_t at = 0;

	if (len > URXE_RING_MAX || !find_room(p, len, &at))
		return NULL;
	p->claimed = p->data_head;
	if (len <= URXE_RING_INLINE)
		return cell->body;
	p->claimed = at + ((len + URXE_RING_LINE - 1) & ~(URXE_RING_LINE - 1));
	at %= URXE_RING_DATA;
	cell->offset = at;
	return p->ring->data + at;
}

void *urxe_ring_skip(struct urxe_producer *p, uint32_t skip)
{
	struct urxe_cell *cell = &p->ring->cells[p->head % URXE_RING_CELLS];

	cell->offset += skip;
	return p->ring->data + cell->offset;
}

void urxe_ring_publish(struct urxe_producer *p, enum urxe_ring_kind kind, uint8_t flow,
		       uint16_t span, uint32_t len)
{
	struct urxe_cell *cell = &p->ring->cells[p->head % URXE_RING_CELLS];

	cell->kind = kind;
	cell->flow = flow;
	cell->span = span;
	cell->len = len;
	p->data_head = p->claimed;
	p->data_end[p->head % URXE_RING_CELLS] = p->data_head;
	atomic_store_explicit(&cell->turn, p->head / URXE_RING_CELLS + 1, memory_order_release);
	p->head++;
}

bool urxe_ring_moved(const struct urxe_producer *p)
{
	return atomic_load_explicit(&p->ring->taken, memory_order_relaxed) != p->taken;
}

static bool is_sound(const struct urxe_record *rec, uint32_t offset)
{
	if (rec->kind < URXE_RECORD_PACKET || rec->kind > URXE_RECORD_PAIR || !rec->len)
		return false;
	return rec->len <= URXE_RING_INLINE ||
	       (offset <= URXE_RING_DATA - URXE_RING_LINE && offset % 4 == 0 &&
		rec->len <= URXE_RING_DATA - offset);
}

bool urxe_ring_next(struct urxe_consumer *c, struct urxe_record *rec)
{
	while (urxe_ring_waits(c)) {
		uint32_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
		struct urxe_cell *cell = &c->ring->cells[tail % URXE_RING_CELLS];
		const volatile struct urxe_cell *once = cell;
		uint32_t offset = once->offset;

		*rec = (struct urxe_record){
			.kind = once->kind,
			.flow = once->flow,
			.span = once->span,
			.len = once->len,
			.bytes = cell->body,
		};
		c->len = rec->len;
		if (is_sound(rec, offset)) {
			if (rec->len > URXE_RING_INLINE)
				rec->bytes = c->ring->data + offset;
			return true;
		}
		urxe_ring_take(c);
	}
	return false;
}

void urxe_ring_take(struct urxe_consumer *c)
{
	uint32_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);

	c->unreported += c->len;
	atomic_store_explicit(&c->tail, ++tail, memory_order_relaxed);
	if (tail - c->reported >= REPORT_CELLS || c->unreported >= REPORT_BYTES)
		urxe_ring_report(c);
}

void urxe_ring_report(struct urxe_consumer *c)
{
	uint32_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);

	if (tail == c->reported)
		return;
	c->reported = tail;
	c->unreported = 0;
	atomic_store_explicit(&c->ring->taken, tail, memory_order_release);
}

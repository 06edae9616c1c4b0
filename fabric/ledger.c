// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The fabric's side of ledgers (ledger.h). What stands in them was written by programs: it is read
 * once, and checked before it is used. fabricd's thread.
 */
#include "fabric/ledger.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fabric/fabric.h"
#include "fabric/route.h"

#define MOST_DAMAGED \
	1000 /* packets of a row, between two looks, that a link is trained again for */

/* One load of what a program may be changing. */
#define READ_ONCE(member) (*(const volatile __typeof__(member) *)&(member))

/* What a row had when it was last looked at. */
struct seen {
	uint64_t packets, words;
};

struct ledger {
	struct ledger *next;
	const uint8_t *bytes;
	struct seen *seen; /* by row */
	uint32_t room;	   /* for so many */
};

static void count_link(struct fabric *f, uint32_t index, bool multicast, uint8_t sl, struct seen d)
{
	const struct fabric_port *out = port_at(f, index);
	struct counters *c = count_of(f, out);

	c->xmit_pkts += d.packets;
	c->xmit_data += d.words;
	*(multicast ? &c->mcast_xmit_pkts : &c->ucast_xmit_pkts) += d.packets;
	if (out->peer == FABRIC_NONE)
		return;
	c = count_of(f, port_at(f, out->peer));
	c->rcv_pkts += d.packets;
	c->rcv_data += d.words;
	*(multicast ? &c->mcast_rcv_pkts : &c->ucast_rcv_pkts) += d.packets;
	pma_count_sl(f, out, sl, d.words);
}

static void count_loss(struct fabric *f, uint32_t index, uint8_t loss, uint64_t packets)
{
	struct counters *c = count_of(f, port_at(f, index));

	switch (loss) {
	case FABRIC_LOST_DISCARD: c->xmit_discards += packets; break;
	case FABRIC_LOST_NO_ROUTE:
		c->switch_relay += packets;
		c->no_lft += packets;
		break;
	case FABRIC_LOST_LOOPING:
		c->switch_relay += packets;
		c->looping += packets;
		break;
	case FABRIC_LOST_CORRUPTED:
		c->symbol_errors += packets;
		c->rcv_errors += packets;
		for (uint64_t i = 0; i < packets && i < MOST_DAMAGED; i++)
			link_damaged(f, port_at(f, index));
		break;
	case FABRIC_LOST_RECEIVED: c->rcv_errors += packets; break;
	case FABRIC_LOST_XMIT_PKEY: c->xmit_constraint += packets; break;
	case FABRIC_LOST_RCV_PKEY: c->rcv_constraint += packets; break;
	default: break;
	}
}

static void count_row(struct fabric *f, const struct fabric_row *row, uint32_t num_links,
		      struct seen d)
{
	uint32_t lost_at = READ_ONCE(row->lost_at);

	for (uint32_t i = 0; i < num_links; i++) {
		uint32_t link = READ_ONCE(row->links[i]);

		if (link < f->map->num_ports)
			count_link(f, link, row->multicast, row->sl, d);
	}
	if (lost_at < f->map->num_ports)
		count_loss(f, lost_at, READ_ONCE(row->loss), d.packets);
}

static struct seen *seen_of(struct ledger *l, uint32_t i)
{
	if (i >= l->room) {
		uint32_t room = l->room ? 2 * l->room : 64;
		struct seen *more = realloc(l->seen, room * sizeof(*more));

		if (!more)
			return NULL;
		memset(more + l->room, 0, (room - l->room) * sizeof(*more));
		l->seen = more;
		l->room = room;
	}
	return &l->seen[i];
}

/* The row that begins there, how many links it has and where it ends; NULL: there is none. */
static const struct fabric_row *row_at(const struct ledger *l, uint32_t at, uint32_t *links,
				       uint32_t *end)
{
	const struct fabric_row *row = (const struct fabric_row *)(l->bytes + at);
	uint32_t size;

	if (at % FABRIC_ROW_ALIGN || at >= FABRIC_LEDGER_LEN)
		return NULL;
	size = atomic_load_explicit(&row->size, memory_order_acquire);
	*links = READ_ONCE(row->num_links);
	*end = at + size;
	return size && *links <= FABRIC_TREE_MAX && size == fabric_row_size(*links) &&
			       size <= FABRIC_LEDGER_LEN - at
		       ? row
		       : NULL;
}

static void collect(struct fabric *f, struct ledger *l)
{
	const struct fabric_row *row;
	uint32_t at = 0, links;

	for (uint32_t i = 0; (row = row_at(l, at, &links, &at)); i++) {
		struct seen now, *before, d;

		before = seen_of(l, i);
		if (!before)
			return;
		now.packets = atomic_load_explicit(&row->packets, memory_order_relaxed);
		now.words = atomic_load_explicit(&row->words, memory_order_relaxed);
		d = (struct seen){now.packets - before->packets, now.words - before->words};
		if (!d.packets && !d.words)
			continue;
		*before = now;
		count_row(f, row, links, d);
	}
}

void ledgers_collect(struct fabric *f)
{
	for (struct ledger *l = f->ledgers; l; l = l->next)
		collect(f, l);
}

void ledger_passed(struct fabric *f, const struct ledger *l, uint32_t at)
{
	uint32_t links, end;
	const struct fabric_row *row = row_at(l, at, &links, &end);

	for (uint32_t i = 0; row && i < links; i++) {
		uint32_t link = READ_ONCE(row->links[i]);

		if (link >= f->map->num_ports || port_at(f, link)->peer == FABRIC_NONE ||
		    fabric_port_state(port_at(f, link)) != PORT_ACTIVE)
			return;
		link_takes_data(f, port_at(f, port_at(f, link)->peer));
	}
}

struct ledger *ledger_open(struct fabric *f, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct ledger *l = calloc(1, sizeof(*l));
	void *p = MAP_FAILED;
	struct stat st;

	if (l && seals >= 0 && seals & F_SEAL_SHRINK && !fstat(fd, &st) &&
	    st.st_size == FABRIC_LEDGER_LEN)
		p = mmap(NULL, FABRIC_LEDGER_LEN, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		free(l);
		return NULL;
	}
	l->bytes = p;
	l->next = f->ledgers;
	f->ledgers = l;
	return l;
}

void ledger_close(struct fabric *f, struct ledger *l)
{
	struct ledger **at = &f->ledgers;

	collect(f, l);
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	munmap((void *)l->bytes, FABRIC_LEDGER_LEN);
	free(l->seen);
	free(l);
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The rows of the port spaces: one list for every two ports (of each port space), found by their
 * number. segment_layout.h says how rows and lists survive the death of the process that changes
 * them. Written under the segment lock, but for the state of a row that is released; read without.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/segment_layout.h"
#include "host/segment_ports.h"

/* Left to processes that have none yet: one for every slot. */
#define RESERVED_CHUNKS (urxe_slots.last + 2)

static uint32_t get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static uint32_t *head_of(struct segment_map *map, uint32_t space)
{
	/* Ports follow each other, and port spaces do not lie upon each other. */
	return &map->port_heads[(space ^ (space >> 16) * 0x2545) % PORT_HEADS];
}

static uint32_t next_of(const uint32_t *link)
{
	uint32_t row = __atomic_load_n(link, __ATOMIC_ACQUIRE);

	return row < PORT_ROWS ? row : 0;
}

/* Rows of a space (or of others in the same list), from the first one on. */
#define for_each_row(map, space, i, row)                                      \
	for (i = next_of(head_of(map, space)), row = (map)->port_rows + i; i; \
	     i = next_of(&row->next), row = (map)->port_rows + i)

static uint32_t space_of(uint16_t ps, uint16_t port)
{
	return (uint32_t)ps << 16 | port;
}

static struct in6_addr addr_of(const uint32_t words[4])
{
	struct in6_addr addr;

	for (unsigned k = 0; k < 4; k++)
		addr.s6_addr32[k] = get(&words[k]);
	return addr;
}

/* The hosts of a fabric share the segment, and each has port spaces of its own. */
static uint32_t host_of(const struct segment_map *map, const struct segment_port_row *row)
{
	return get(&map->slots[get(&row->owner) & PORT_SLOT_MASK].host);
}

/* Its process may release it meanwhile: read once. */
static enum urxe_port_state state_of(const struct segment_port_row *row)
{
	return (enum urxe_port_state)__atomic_load_n(&row->state, __ATOMIC_ACQUIRE);
}

static bool in_use(enum urxe_port_state state)
{
	return state != URXE_PORT_FREE && state != URXE_PORT_RELEASED;
}

static void read_binding(const struct segment_port_row *row, struct urxe_binding *b)
{
	uint32_t owner = get(&row->owner), space = get(&row->space);

	*b = (struct urxe_binding){
		.ps = space >> 16,
		.port = space & 0xffff,
		.addr = addr_of(row->addr),
		.scope = get(&row->scope),
		.v6only = owner & PORT_V6ONLY,
		.reuse = owner & PORT_REUSE,
		.id = get(&row->id),
		.peer = addr_of(row->peer),
		.peer_port = get(&row->peer_port),
	};
}

int urxe_segment_port_walk(struct urxe_segment *seg, uint16_t ps, uint16_t port, uint32_t except,
			   urxe_port_visit *visit, void *arg)
{
	uint32_t space = space_of(ps, port), host = urxe_segment_slot_host(seg, seg->slot), i;
	const struct segment_port_row *row;
	enum urxe_port_state state;
	struct urxe_binding b;
	int ret;

	if (!get(&seg->map->ports.backed))
		return 0;
	for_each_row(seg->map, space, i, row)
	{
		state = state_of(row);
		if (i == except || get(&row->space) != space || !in_use(state) ||
		    host_of(seg->map, row) != host)
			continue;
		read_binding(row, &b);
		ret = visit(&b, state, arg);
		if (ret)
			return ret;
	}
	return 0;
}

static int back(struct urxe_segment *seg, size_t offset, size_t len)
{
	int fd = segment_file_fd(seg);

	return fd < 0 ? -EIO : segment_file_allocate(seg, fd, offset, len);
}

static unsigned free_chunks(const struct segment_ports *ports)
{
	unsigned n = 0;

	for (unsigned c = 0; c < PORT_CHUNKS; c++)
		n += !ports->owner[c];
	return n;
}

/* Chunks are read under the segment lock only; the owner is the last thing written. */
static int claim_chunk(struct urxe_segment *seg)
{
	struct segment_ports *ports = &seg->map->ports;
	uint32_t first, *grown;
	unsigned c = 0;
	int ret;

	if (seg->port_chunks && free_chunks(ports) <= RESERVED_CHUNKS)
		return -ENOMEM;
	while (c < PORT_CHUNKS && ports->owner[c])
		c++;
	if (c == PORT_CHUNKS)
		return -ENOMEM;
	grown = realloc(seg->port_free, (seg->port_chunks + 1) * PORT_CHUNK * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	seg->port_free = grown;
	if (!ports->chunk_backed[c]) {
		ret = back(seg, offsetof(struct segment_map, port_rows[c * PORT_CHUNK]),
			   PORT_CHUNK * sizeof(struct segment_port_row));
		if (ret)
			return ret;
		ports->chunk_backed[c] = 1;
	}
	__atomic_store_n(&ports->owner[c], seg->slot, __ATOMIC_RELEASE);
	seg->port_chunks++;
	first = c * PORT_CHUNK;
	for (uint32_t row = first + PORT_CHUNK; row-- > first;)
		if (row)
			seg->port_free[seg->port_num_free++] = row;
	return 0;
}

static int ready(struct urxe_segment *seg)
{
	struct segment_ports *ports = &seg->map->ports;
	int ret = 0;

	if (!get(&ports->backed)) {
		ret = back(seg, offsetof(struct segment_map, port_heads),
			   sizeof(seg->map->port_heads));
		if (!ret)
			__atomic_store_n(&ports->backed, 1, __ATOMIC_RELEASE);
	}
	if (!ret && !seg->port_num_free)
		ret = claim_chunk(seg);
	return ret;
}

static uint32_t owner_word(const struct urxe_segment *seg, bool v6only, bool reuse)
{
	return seg->slot | (v6only ? PORT_V6ONLY : 0) | (reuse ? PORT_REUSE : 0);
}

static void insert(struct urxe_segment *seg, const struct urxe_binding *b, uint32_t i)
{
	struct segment_port_row *row = &seg->map->port_rows[i];
	uint32_t space = space_of(b->ps, b->port), *head = head_of(seg->map, space);

	/* A reader that is still at this row must see the generation before the row changes. */
	__atomic_fetch_add(&seg->map->ports.generation, 1, __ATOMIC_ACQ_REL);
	segment_fence();
	set(&row->next, get(head));
	set(&row->id, b->id);
	set(&row->space, space);
	set(&row->scope, b->scope);
	set(&row->owner, owner_word(seg, b->v6only, b->reuse));
	set(&row->peer_port, b->peer_port);
	for (unsigned k = 0; k < 4; k++) {
		set(&row->addr[k], b->addr.s6_addr32[k]);
		set(&row->peer[k], b->peer.s6_addr32[k]);
	}
	/* Not FREE before it is in the list: the process that reaps our slot looks for it there in
	 * any case. */
	set(&row->state, URXE_PORT_BOUND);
	__atomic_store_n(head, i, __ATOMIC_RELEASE);
}

/* May be repeated: a row that is not in its list is left as it is. */
static void take_out(struct segment_map *map, uint32_t i)
{
	struct segment_port_row *row = &map->port_rows[i];
	uint32_t *link = head_of(map, get(&row->space)), at;

	while ((at = next_of(link)) && at != i)
		link = &map->port_rows[at].next;
	if (at == i)
		__atomic_store_n(link, get(&row->next), __ATOMIC_RELEASE);
	__atomic_store_n(&row->state, URXE_PORT_FREE, __ATOMIC_RELEASE);
}

/* Takes the rows out of their lists that were released since the last time. */
static void take_out_released(struct urxe_segment *seg)
{
	while (seg->port_num_released) {
		uint32_t row = seg->port_released[--seg->port_num_released];

		take_out(seg->map, row);
		seg->port_free[seg->port_num_free++] = row;
	}
}

int urxe_segment_port_add(struct urxe_segment *seg, const struct urxe_binding *b, uint32_t *row)
{
	int ret;

	take_out_released(seg);
	ret = seg->slot ? ready(seg) : -ENODEV;
	if (ret)
		return ret;
	*row = seg->port_free[--seg->port_num_free];
	insert(seg, b, *row);
	return 0;
}

/* Is that a row of this process? Under the segment lock. */
static bool is_ours(const struct urxe_segment *seg, uint32_t row)
{
	return seg->slot && row && row < PORT_ROWS && get(&seg->map->ports.backed) &&
	       seg->map->ports.owner[row / PORT_CHUNK] == seg->slot &&
	       in_use(state_of(&seg->map->port_rows[row]));
}

/* Says in the segment whether this process has listeners. */
static void count_listener(struct urxe_segment *seg, enum urxe_port_state from,
			   enum urxe_port_state to)
{
	unsigned before = seg->port_listeners;

	seg->port_listeners += (to == URXE_PORT_LISTENING) - (from == URXE_PORT_LISTENING);
	set(&seg->map->slots[seg->slot].listeners, seg->port_listeners);
	if (!before != !seg->port_listeners)
		__atomic_store_n(&seg->servers_changed, true, __ATOMIC_RELEASE);
}

bool urxe_segment_port_get(struct urxe_segment *seg, uint32_t row, struct urxe_binding *b)
{
	if (!is_ours(seg, row))
		return false;
	read_binding(&seg->map->port_rows[row], b);
	return true;
}

void urxe_segment_port_set_options(struct urxe_segment *seg, uint32_t row, bool v6only, bool reuse)
{
	if (is_ours(seg, row))
		set(&seg->map->port_rows[row].owner, owner_word(seg, v6only, reuse));
}

void urxe_segment_port_set_state(struct urxe_segment *seg, uint32_t row, enum urxe_port_state state)
{
	if (!is_ours(seg, row))
		return;
	count_listener(seg, get(&seg->map->port_rows[row].state), state);
	__atomic_store_n(&seg->map->port_rows[row].state, state, __ATOMIC_RELEASE);
}

/* Most processes bind the next id soon, and the file's lock is three system calls. */
void urxe_segment_port_release(struct urxe_segment *seg, uint32_t row)
{
	pthread_mutex_lock(&seg->lock);
	if (is_ours(seg, row)) {
		count_listener(seg, get(&seg->map->port_rows[row].state), URXE_PORT_FREE);
		__atomic_store_n(&seg->map->port_rows[row].state, URXE_PORT_RELEASED,
				 __ATOMIC_RELEASE);
		seg->port_released[seg->port_num_released++] = row;
	}
	if (seg->port_num_released == PORT_RELEASED_MOST) {
		urxe_segment_lock(seg);
		take_out_released(seg);
		urxe_segment_unlock(seg);
	}
	pthread_mutex_unlock(&seg->lock);
}

void segment_ports_forget(struct segment_map *map, unsigned slot)
{
	for (unsigned c = 0; c < PORT_CHUNKS; c++) {
		if (map->ports.owner[c] != slot)
			continue;
		for (uint32_t i = c * PORT_CHUNK; i < (c + 1) * PORT_CHUNK; i++)
			if (get(&map->port_rows[i].state) != URXE_PORT_FREE)
				take_out(map, i);
		__atomic_store_n(&map->ports.owner[c], 0, __ATOMIC_RELEASE);
	}
}

/* ---- lookup ---- */

bool urxe_segment_port_find(struct urxe_segment *seg, uint32_t host, uint16_t ps, uint16_t port,
			    urxe_port_merit *merit, const void *arg, unsigned *slot, uint32_t *id)
{
	struct segment_map *map = seg->map;
	const uint32_t *generation = &map->ports.generation;
	uint32_t space = space_of(ps, port), gen, i, steps;
	const struct segment_port_row *row;
	enum urxe_port_state state;
	struct urxe_binding b;
	unsigned best, m;

	if (!__atomic_load_n(&map->ports.backed, __ATOMIC_ACQUIRE))
		return false;
	do {
		best = steps = 0;
		gen = __atomic_load_n(generation, __ATOMIC_ACQUIRE);
		for_each_row(map, space, i, row)
		{
			/* A row that moves to another list while we stand on it may lead round. */
			if (++steps > PORT_ROWS)
				break;
			state = state_of(row);
			if (get(&row->space) != space || host_of(map, row) != host)
				continue;
			read_binding(row, &b);
			m = merit(&b, state, arg);
			if (m <= best)
				continue;
			best = m;
			*slot = get(&row->owner) & PORT_SLOT_MASK;
			*id = b.id;
		}
		segment_fence();
	} while (gen != __atomic_load_n(generation, __ATOMIC_ACQUIRE));
	return best;
}

/* ---- from outside ---- */

static unsigned copy_chunk(const struct urxe_segment *seg, unsigned c, struct urxe_port_holder *to)
{
	const struct segment_map *map = seg->map;
	uint32_t pid = get(&map->slots[map->ports.owner[c]].pid);
	unsigned n = 0;

	for (uint32_t i = c * PORT_CHUNK; i < (c + 1) * PORT_CHUNK; i++) {
		enum urxe_port_state state = state_of(&map->port_rows[i]);

		if (!in_use(state))
			continue;
		read_binding(&map->port_rows[i], &to[n].binding);
		to[n].state = state;
		to[n++].pid = pid;
	}
	return n;
}

int urxe_segment_port_holders(struct urxe_segment *seg, struct urxe_port_holder **holders)
{
	const struct segment_ports *ports = &seg->map->ports;
	struct urxe_port_holder *all = NULL, *grown;
	int n = 0;

	urxe_segment_lock(seg);
	for (unsigned c = 0; c < PORT_CHUNKS; c++) {
		if (!ports->owner[c] || !urxe_segment_slot_alive(seg, ports->owner[c]))
			continue;
		grown = realloc(all, (n + PORT_CHUNK) * sizeof(*all));
		if (!grown) {
			n = -ENOMEM;
			break;
		}
		all = grown;
		n += copy_chunk(seg, c, all + n);
	}
	urxe_segment_unlock(seg);
	if (n < 0) {
		free(all);
		return n;
	}
	*holders = all;
	return n;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The port spaces: lists of rows in the host segment, one list for every two ports (of each port
 * space), found by their number. segment_layout.h says how rows and lists survive the death of
 * the process that changes them. Written under the segment lock, read without.
 *
 * The rules of conflict are those of rdma_cm: ids that ask for a port are compared by address (an
 * any-address meets every other, unless both are confined to their family), ids that take an
 * ephemeral one by address and peer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "host/log.h"
#include "host/segment_layout.h"
#include "host/segment_ports.h"
#include "host/sysinfo.h"

#define DEFAULT_LOW	32768
#define DEFAULT_HIGH	60999
#define RANGE_AGE	1000000000ull /* ns after which the range is read again */
#define RESERVED_CHUNKS 256	      /* left to processes that have none yet: one for every slot */

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

/* ---- addresses ---- */

static struct in6_addr addr_of(const uint32_t words[4])
{
	struct in6_addr addr;

	for (unsigned k = 0; k < 4; k++)
		addr.s6_addr32[k] = get(&words[k]);
	return addr;
}

static bool is_ipv4(const struct in6_addr *addr)
{
	return IN6_IS_ADDR_V4MAPPED(addr);
}

/* The any-address of either family. */
static bool is_any(const struct in6_addr *addr)
{
	return IN6_IS_ADDR_UNSPECIFIED(addr) || (is_ipv4(addr) && !addr->s6_addr32[3]);
}

static bool same_addr(const struct in6_addr *a, uint32_t scope_a, const struct in6_addr *b,
		      uint32_t scope_b)
{
	return IN6_ARE_ADDR_EQUAL(a, b) && (!IN6_IS_ADDR_LINKLOCAL(a) || scope_a == scope_b);
}

/* ---- conflicts ---- */

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

/* May b have the port although `other` has it? reuse: whether b may share at all. */
static int check_shared(const struct urxe_binding *b, bool reuse, const struct urxe_binding *other)
{
	bool ipv4 = is_ipv4(&b->addr), other_ipv4 = is_ipv4(&other->addr);

	if (reuse && other->reuse)
		return 0;
	/* An IPv4 address is confined to its family as it stands. */
	if (ipv4 != other_ipv4 && (ipv4 || b->v6only) && (other_ipv4 || other->v6only))
		return 0;
	if (is_any(&b->addr) || is_any(&other->addr))
		return -EADDRNOTAVAIL;
	return same_addr(&b->addr, b->scope, &other->addr, other->scope) ? -EADDRINUSE : 0;
}

static int check_port(struct segment_map *map, const struct urxe_binding *b, bool reuse,
		      uint32_t self)
{
	uint32_t space = space_of(b->ps, b->port), i, state;
	const struct segment_port_row *row;
	struct urxe_binding other;
	int ret;

	for_each_row(map, space, i, row)
	{
		state = get(&row->state);
		if (i == self || get(&row->space) != space || state == PORT_LINGERING)
			continue;
		read_binding(row, &other);
		ret = check_shared(b, reuse, &other);
		if (ret)
			return ret;
	}
	return 0;
}

/* Can two ids with the same ephemeral port be distinguished by their own or their peers' addresses?
 * */
static bool distinct(const struct urxe_binding *a, const struct urxe_binding *b)
{
	if (a->peer_port && b->peer_port && a->peer_port != b->peer_port)
		return true;
	if (!is_any(&a->addr) && !is_any(&b->addr) &&
	    !same_addr(&a->addr, a->scope, &b->addr, b->scope))
		return true;
	return !is_any(&a->peer) && !is_any(&b->peer) && !IN6_ARE_ADDR_EQUAL(&a->peer, &b->peer);
}

static bool port_is_unique(struct segment_map *map, const struct urxe_binding *b)
{
	uint32_t space = space_of(b->ps, b->port), i;
	const struct segment_port_row *row;
	struct urxe_binding other;

	for_each_row(map, space, i, row)
	{
		if (get(&row->space) != space)
			continue;
		read_binding(row, &other);
		if (get(&row->state) == PORT_LINGERING || !distinct(b, &other))
			return false;
	}
	return true;
}

static void read_range(struct urxe_segment *seg)
{
	struct timespec ts;
	unsigned low, high;
	uint64_t now;
	char text[64];

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	if (seg->port_range_read && now - seg->port_range_read < RANGE_AGE)
		return;
	if (urxe_read_file("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text)) < 0 ||
	    sscanf(text, "%u %u", &low, &high) != 2 || !low || low > high || high > 65535) {
		low = DEFAULT_LOW;
		high = DEFAULT_HIGH;
	}
	seg->port_range[0] = low;
	seg->port_range[1] = high;
	seg->port_range_read = now;
}

/* A random one from which on the first that suits, but not the last one given out: it may still be
 * known to a peer. */
static int choose_port(struct urxe_segment *seg, struct urxe_binding *b)
{
	unsigned low, num, start;
	uint32_t random;

	read_range(seg);
	low = seg->port_range[0];
	num = seg->port_range[1] - low + 1;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	start = random % num;
	for (unsigned k = 0; k < num; k++) {
		b->port = low + (start + k) % num;
		if (b->port == seg->port_last || !port_is_unique(seg->map, b))
			continue;
		seg->port_last = b->port;
		return 0;
	}
	b->port = 0;
	return -EADDRNOTAVAIL;
}

/* ---- rows ---- */

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
	set(&row->owner, seg->slot | (b->v6only ? PORT_V6ONLY : 0) | (b->reuse ? PORT_REUSE : 0));
	set(&row->peer_port, b->peer_port);
	for (unsigned k = 0; k < 4; k++) {
		set(&row->addr[k], b->addr.s6_addr32[k]);
		set(&row->peer[k], b->peer.s6_addr32[k]);
	}
	/* Not FREE before it is in the list: the process that reaps our slot looks for it there in
	 * any case. */
	set(&row->state, PORT_BOUND);
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
	__atomic_store_n(&row->state, PORT_FREE, __ATOMIC_RELEASE);
}

int urxe_segment_port_bind(struct urxe_segment *seg, struct urxe_binding *b, uint32_t *row)
{
	int ret;

	if (!seg->slot)
		return -ENODEV;
	urxe_segment_lock(seg);
	ret = ready(seg);
	if (!ret)
		ret = b->port ? check_port(seg->map, b, b->reuse, 0) : choose_port(seg, b);
	if (!ret) {
		*row = seg->port_free[--seg->port_num_free];
		insert(seg, b, *row);
	}
	urxe_segment_unlock(seg);
	return ret;
}

/* Is that a row of this process? Under the segment lock. */
static bool is_ours(const struct urxe_segment *seg, uint32_t row)
{
	return seg->slot && row && row < PORT_ROWS && get(&seg->map->ports.backed) &&
	       seg->map->ports.owner[row / PORT_CHUNK] == seg->slot &&
	       get(&seg->map->port_rows[row].state) != PORT_FREE;
}

/* Says in the segment whether this process has listeners. */
static void count_listener(struct urxe_segment *seg, enum port_state from, enum port_state to)
{
	unsigned before = seg->port_listeners;

	seg->port_listeners += (to == PORT_LISTENING) - (from == PORT_LISTENING);
	set(&seg->map->slots[seg->slot].listeners, seg->port_listeners);
	if (!before != !seg->port_listeners)
		__atomic_store_n(&seg->servers_changed, true, __ATOMIC_RELEASE);
}

static void set_state(struct urxe_segment *seg, uint32_t row, enum port_state state)
{
	count_listener(seg, get(&seg->map->port_rows[row].state), state);
	__atomic_store_n(&seg->map->port_rows[row].state, state, __ATOMIC_RELEASE);
}

int urxe_segment_port_listen(struct urxe_segment *seg, uint32_t row)
{
	struct urxe_binding b;
	int ret = -EINVAL;

	urxe_segment_lock(seg);
	if (is_ours(seg, row)) {
		read_binding(&seg->map->port_rows[row], &b);
		ret = check_port(seg->map, &b, false, row);
		if (!ret)
			set_state(seg, row, PORT_LISTENING);
	}
	urxe_segment_unlock(seg);
	return ret;
}

void urxe_segment_port_linger(struct urxe_segment *seg, uint32_t row)
{
	urxe_segment_lock(seg);
	if (is_ours(seg, row))
		set_state(seg, row, PORT_LINGERING);
	urxe_segment_unlock(seg);
}

void urxe_segment_port_release(struct urxe_segment *seg, uint32_t row)
{
	urxe_segment_lock(seg);
	if (is_ours(seg, row)) {
		count_listener(seg, get(&seg->map->port_rows[row].state), PORT_FREE);
		take_out(seg->map, row);
		seg->port_free[seg->port_num_free++] = row;
	}
	urxe_segment_unlock(seg);
}

void segment_ports_forget(struct segment_map *map, unsigned slot)
{
	for (unsigned c = 0; c < PORT_CHUNKS; c++) {
		if (map->ports.owner[c] != slot)
			continue;
		for (uint32_t i = c * PORT_CHUNK; i < (c + 1) * PORT_CHUNK; i++)
			if (get(&map->port_rows[i].state) != PORT_FREE)
				take_out(map, i);
		__atomic_store_n(&map->ports.owner[c], 0, __ATOMIC_RELEASE);
	}
}

/* ---- lookup ---- */

/* How well a row serves messages to an address: the more the better, 0 not at all. */
static unsigned merit(const struct segment_port_row *row, const struct in6_addr *daddr,
		      uint32_t ifindex)
{
	uint32_t state = __atomic_load_n(&row->state, __ATOMIC_ACQUIRE);
	struct in6_addr addr = addr_of(row->addr);
	uint32_t scope = get(&row->scope);
	unsigned merit;

	if (IN6_ARE_ADDR_EQUAL(&addr, daddr) &&
	    (!IN6_IS_ADDR_LINKLOCAL(daddr) || !scope || !ifindex || scope == ifindex))
		merit = 3;
	else if (!is_any(&addr))
		return 0;
	else if (is_ipv4(&addr) == is_ipv4(daddr))
		merit = 2;
	else if (is_ipv4(daddr) && !(get(&row->owner) & PORT_V6ONLY))
		merit = 1;
	else
		return 0;
	switch (state) {
	case PORT_LISTENING: return merit + 3;
	case PORT_LINGERING: return merit;
	default: return 0;
	}
}

bool urxe_segment_port_find(struct urxe_segment *seg, uint16_t ps, uint16_t port,
			    const struct in6_addr *daddr, uint32_t ifindex, unsigned *slot,
			    uint32_t *id)
{
	struct segment_map *map = seg->map;
	const uint32_t *generation = &map->ports.generation;
	uint32_t space = space_of(ps, port), gen, i, steps;
	const struct segment_port_row *row;
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
			m = get(&row->space) == space ? merit(row, daddr, ifindex) : 0;
			if (m <= best)
				continue;
			best = m;
			*slot = get(&row->owner) & PORT_SLOT_MASK;
			*id = get(&row->id);
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
		uint32_t state = get(&map->port_rows[i].state);

		if (state == PORT_FREE)
			continue;
		read_binding(&map->port_rows[i], &to[n].binding);
		to[n].state = (enum urxe_port_state)state;
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

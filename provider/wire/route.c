// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Routes (route.h) and the ledger that they count in. routes_lock guards the table; what routes
 * hold, and the ledger, belong to whoever has the engine's lock.
 */
#include "wire/route.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/fabric.h"
#include "host/fabric_device.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/log.h"
#include "wire/neighbour.h"

#define BUCKETS 4096
#define NEVER	UINT64_MAX

/* Packets that were lost in one way at one place. */
struct urxe_route_loss {
	struct urxe_route_loss *next;
	uint32_t at;
	uint16_t links;
	uint8_t loss;
	struct fabric_row *row;
};

static uint32_t buckets[BUCKETS]; /* the first of each hash */
static uint32_t num_routes = 1;	  /* 0 is none */
static pthread_mutex_t routes_lock = PTHREAD_MUTEX_INITIALIZER;

/* A fabric that is off. */
static const struct fabric_map no_map;

/* Of paths that have none: nothing arrives. */
static struct urxe_route nowhere = {.map = &no_map, .way.loss = FABRIC_LOST_UNSENT};
struct urxe_route *urxe_routes[URXE_MAX_ROUTES] = {&nowhere};

static struct {
	const struct urxe_fabric_host *host; /* whose map's ports its rows name */
	int fd;				     /* the connection */
	uint8_t *bytes;
	uint32_t used;
} ledger = {.fd = -1};

/* ---- the ledger ---- */

static void ledger_end(bool forked)
{
	if (ledger.bytes && !forked)
		munmap(ledger.bytes, FABRIC_LEDGER_LEN);
	urxe_fd_close(ledger.fd);
	ledger.bytes = NULL;
	ledger.host = NULL;
	ledger.fd = -1;
	ledger.used = 0;
}

static void ledger_begin(const struct urxe_fabric_host *host)
{
	int fd = urxe_fd_memfd("urxe-ledger", FABRIC_LEDGER_LEN);
	struct fabric_welcome welcome;
	void *p;

	ledger_end(false);
	if (fd < 0)
		return;
	p = mmap(NULL, FABRIC_LEDGER_LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		 0);
	if (p != MAP_FAILED) {
		madvise(p, FABRIC_LEDGER_LEN, MADV_DONTFORK);
		ledger.bytes = p;
		ledger.host = host;
		ledger.fd = urxe_fabric_connect(FABRIC_LEDGER, 0, fd, &welcome);
	}
	urxe_fd_close(fd);
	if (ledger.fd < 0)
		ledger_end(false);
}

static void forget_rows(void)
{
	pthread_mutex_lock(&routes_lock);
	for (uint32_t i = 1; i < num_routes; i++) {
		struct urxe_route *both[] = {urxe_routes[i], urxe_routes[i]->back};

		for (unsigned k = 0; k < 2 && both[k]; k++) {
			struct urxe_route_loss *l;

			while ((l = both[k]->lost)) {
				both[k]->lost = l->next;
				free(l);
			}
			both[k]->row = NULL;
			both[k]->generation = NEVER;
		}
	}
	pthread_mutex_unlock(&routes_lock);
}

/* A row for packets that cross those links; NULL: there is no ledger, and nothing is counted. */
static struct fabric_row *new_row(const uint32_t *links, unsigned n, uint8_t loss, uint32_t at,
				  bool multicast, uint8_t sl)
{
	uint32_t size = fabric_row_size(n);
	struct fabric_row *row;

	if (!ledger.bytes)
		return NULL;
	/* All that is in it was counted, or will be as soon as the connection ends. */
	if (size > FABRIC_LEDGER_LEN - ledger.used) {
		forget_rows();
		ledger_begin(ledger.host);
		if (!ledger.bytes)
			return NULL;
	}
	row = (struct fabric_row *)(ledger.bytes + ledger.used);
	row->lost_at = at;
	row->loss = loss;
	row->multicast = multicast;
	row->sl = sl;
	row->num_links = n;
	memcpy(row->links, links, n * sizeof(*links));
	atomic_store_explicit(&row->size, size, memory_order_release);
	ledger.used += size;
	return row;
}

static void add(struct fabric_row *row, uint64_t packets, uint64_t words)
{
	if (!row)
		return;
	atomic_store_explicit(&row->packets,
			      atomic_load_explicit(&row->packets, memory_order_relaxed) + packets,
			      memory_order_relaxed);
	atomic_store_explicit(&row->words,
			      atomic_load_explicit(&row->words, memory_order_relaxed) + words,
			      memory_order_relaxed);
}

static void ledger_follow(const struct urxe_fabric_host *host)
{
	if (ledger.host == host)
		return;
	forget_rows();
	ledger_begin(host);
	ledger.host =
		host; /* also where it could not be made: that is not tried again with each packet */
}

void urxe_routes_close(bool forked)
{
	if (forked)
		pthread_mutex_init(&routes_lock, NULL);
	forget_rows();
	ledger_end(forked);
}

void urxe_routes_renew(void)
{
	pthread_mutex_lock(&routes_lock);
	for (uint32_t i = 1; i < num_routes; i++) {
		urxe_routes[i]->generation = NEVER;
		if (urxe_routes[i]->back)
			urxe_routes[i]->back->generation = NEVER;
	}
	pthread_mutex_unlock(&routes_lock);
}

/* ---- making and finding ---- */

static unsigned hash_of(uint32_t from, uint16_t slid, uint16_t dlid, uint8_t sl, bool global)
{
	uint64_t key = (uint64_t)slid << 48 | (uint64_t)dlid << 32 | (from & 0xffff) << 16 |
		       sl << 1 | global;

	return key * 0x9e3779b97f4a7c15ull >> 52;
}

static uint32_t head_words(bool global)
{
	return URXE_LRH_WORDS + URXE_ICRC_WORDS + (global ? URXE_GRH_WORDS : 0);
}

/* port NULL: from a port of another host. */
static int get(const struct urxe_port *port, uint32_t from, uint16_t slid, uint16_t dlid,
	       uint8_t sl, bool global, uint32_t *number)
{
	unsigned hash = hash_of(port ? port->index : from, slid, dlid, sl, global);
	struct urxe_route *r;
	uint32_t i;

	static_assert(BUCKETS == 1 << (64 - 52), "a hash has 12 bits");
	pthread_mutex_lock(&routes_lock);
	for (i = buckets[hash]; i; i = r->hashed) {
		r = urxe_routes[i];
		if (r->port == port && (port || r->from == from) && r->slid == slid &&
		    r->dlid == dlid && r->sl == sl && r->global == global)
			break;
	}
	r = !i && num_routes < URXE_MAX_ROUTES ? aligned_alloc(64, sizeof(*r)) : NULL;
	if (r) {
		*r = (struct urxe_route){
			.port = port,
			.from = from,
			.slid = slid,
			.dlid = dlid,
			.sl = sl,
			.global = global,
			.head_words = head_words(global),
			.group = dlid >= LID_FIRST_MULTICAST,
			.hashed = buckets[hash],
			.map = &no_map,
			.generation = NEVER,
		};
		i = num_routes++;
		urxe_routes[i] = r;
		buckets[hash] = i;
	}
	pthread_mutex_unlock(&routes_lock);
	*number = i;
	return i ? 0 : -ENOMEM;
}

int urxe_route_get(const struct urxe_port *port, uint16_t slid, uint16_t dlid, uint8_t sl,
		   bool global, uint32_t *number)
{
	if (port->kind->link != URXE_LINK_FABRIC)
		return -EINVAL;
	return get(port, FABRIC_NONE, slid, dlid, sl, global, number);
}

int urxe_route_get_from(uint32_t from, uint16_t slid, uint16_t dlid, uint8_t sl, bool global,
			uint32_t *number)
{
	return get(NULL, from, slid, dlid, sl, global, number);
}

/* ---- walking ---- */

static bool same_way(const struct fabric_route *a, const struct fabric_route *b)
{
	return a->num_links == b->num_links && a->loss == b->loss && a->to == b->to &&
	       !memcmp(a->links, b->links, a->num_links * sizeof(*a->links));
}

static uint32_t host_of(const struct fabric_map *map, uint32_t port)
{
	return fabric_map_node(map, fabric_map_port(map, port)->node)->host + 1;
}

static void walk(struct urxe_route *r, const struct fabric_map *map)
{
	struct fabric_route way;

	fabric_route_find(map, r->from, r->dlid, r->sl, &way);
	if (r->map != map || !same_way(&way, &r->way))
		r->row = NULL;
	r->way = way;
	r->open = way.loss == FABRIC_ARRIVES;
	r->sure = r->open && !way.faulty && !way.delay && !r->waiting;
	r->enforced = way.enforced;
	r->host = host_of(map, way.to);
	if (!r->row)
		r->row = new_row(way.links, way.num_links, way.loss, way.to, false, r->sl);
	if (r->back) {
		r->back->from = way.to;
		r->back->generation = NEVER;
	}
}

/* ---- groups ---- */

struct tree {
	const struct fabric_map *map;
	struct urxe_members *members;
};

static void add_host(struct urxe_members *m, uint32_t host)
{
	for (unsigned i = 0; i < m->n; i++)
		if (m->host[i] == host)
			return;
	if (m->n < URXE_MAX_MEMBERS)
		m->host[m->n++] = host;
}

static void add_member(uint32_t port, void *arg)
{
	struct tree *t = arg;

	add_host(t->members, host_of(t->map, port));
}

/* Its own host gets copies too, which cross no link. */
static void walk_group(struct urxe_route *r, const struct fabric_map *map)
{
	static uint32_t links[FABRIC_TREE_MAX];
	struct tree t = {map, r->members};
	unsigned n;

	if (!t.members)
		t.members = r->members = calloc(1, sizeof(*r->members));
	r->open = t.members && fabric_port_state(fabric_map_port(map, r->from)) == PORT_ACTIVE;
	if (!r->open)
		return;
	t.members->n = 0;
	add_host(t.members, host_of(map, r->from));
	n = fabric_route_group(map, r->from, r->dlid, r->sl, links, FABRIC_TREE_MAX, add_member,
			       &t);
	if (!r->row || r->map != map || r->row->num_links != n ||
	    memcmp(r->row->links, links, n * sizeof(*links)))
		r->row = new_row(links, n, FABRIC_ARRIVES, 0, true, r->sl);
}

void urxe_route_renew(struct urxe_route *r)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();
	uint64_t generation;

	r->pkey = 0;
	if (!host || !host->map->alive) {
		r->map = &no_map;
		r->generation = 0;
		r->open = r->sure = false;
		r->way = (struct fabric_route){.loss = FABRIC_LOST_UNSENT};
		r->row = NULL;
		return;
	}
	ledger_follow(host);
	generation = atomic_load_explicit(&host->map->generation, memory_order_acquire);
	if (r->port)
		r->from = __atomic_load_n(&r->port->fabric_port, __ATOMIC_RELAXED);
	if (r->group)
		walk_group(r, host->map);
	else
		walk(r, host->map);
	r->map = host->map;
	/* It is odd while tables change: then this holds for once. */
	r->generation = generation & 1 ? NEVER : generation;
}

/* ---- sending ---- */

/* The row of packets that cross so many links and are lost then. */
static struct fabric_row *lost_row(struct urxe_route *r, unsigned links, uint8_t loss, uint32_t at)
{
	struct urxe_route_loss *l = r->lost;

	/* Another way has other links: what it has in common with the former one is counted
	 * anew. */
	while (l && (l->links != links || l->loss != loss || l->at != at || !l->row ||
		     memcmp(l->row->links, r->way.links, links * sizeof(*r->way.links))))
		l = l->next;
	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return NULL;
		*l = (struct urxe_route_loss){r->lost, at, links, loss, NULL};
		l->row = new_row(r->way.links, links, loss, at, false, r->sl);
		r->lost = l;
	}
	return l->row;
}

static uint32_t words_of(const struct urxe_route *r, uint32_t len, unsigned span)
{
	return span * r->head_words + (span - 1) * URXE_BTH_WORDS + len / 4;
}

/* Do the switches let it pass? One key after the other is mostly the same. */
static bool pkey_passes(struct urxe_route *r, uint16_t pkey, uint64_t packets, uint64_t words)
{
	enum fabric_loss loss;
	unsigned link;
	uint32_t at;

	if (!r->enforced || pkey == r->pkey)
		return true;
	loss = fabric_route_pkey(r->map, &r->way, pkey, &link, &at);
	if (loss == FABRIC_ARRIVES) {
		r->pkey = pkey;
		return true;
	}
	add(lost_row(r, link, loss, at), packets, words);
	return false;
}

static bool survives_faults(struct urxe_route *r, uint32_t qpn, uint64_t words)
{
	uint64_t flow = (uint64_t)r->slid << 48 | (uint64_t)r->dlid << 32 | qpn;

	for (unsigned i = 0; i < r->way.num_links; i++) {
		uint32_t port = r->way.links[i], at = port;
		enum fabric_loss loss = fabric_link_fault(r->map, port, flow, r->sent);

		if (loss == FABRIC_ARRIVES)
			continue;
		if (loss == FABRIC_LOST_CORRUPTED)
			at = fabric_map_port(r->map, port)->peer;
		add(lost_row(r, i, loss, at), 1, words);
		r->sent++;
		return false;
	}
	r->sent++;
	return true;
}

bool urxe_route_take(const struct urxe_path *path, const uint8_t *bth, uint32_t len,
		     uint32_t payload, unsigned span)
{
	const struct urxe_bth *head = (const struct urxe_bth *)bth;
	struct urxe_route *r = urxe_route_now(urxe_route_of(path));
	uint32_t words = words_of(r, len, span);

	if (!r->open) {
		add(r->row, span, words);
		return false;
	}
	if (payload > span * urxe_mtu_bytes(r->way.mtu) && r->way.num_links) {
		add(lost_row(r, 0, FABRIC_LOST_DISCARD, r->way.links[0]), span, words);
		return false;
	}
	if (!pkey_passes(r, urxe_bth_pkey(head), span, words))
		return false;
	if (r->way.faulty && !survives_faults(r, urxe_bth_qpn(head), words))
		return false;
	add(r->row, span, words);
	return true;
}

uint64_t urxe_route_wait(struct urxe_route *r, uint64_t now)
{
	if (r->due < now + r->way.delay)
		r->due = now + r->way.delay;
	r->waiting++;
	return r->due;
}

void urxe_route_waited(struct urxe_route *r)
{
	if (!--r->waiting && !r->way.delay)
		r->generation = NEVER; /* it may be sure again */
}

const struct urxe_members *urxe_route_take_group(const struct urxe_path *path,
						 const struct urxe_tx_packet *pkts, unsigned n)
{
	struct urxe_route *r = urxe_route_now(urxe_route_of(path));

	if (!r->open)
		return NULL;
	for (unsigned k = 0; k < n; k++)
		add(r->row, 1, words_of(r, urxe_packet_bytes(&pkts[k]), 1));
	return r->members;
}

/* ---- direct access ---- */

static struct urxe_route *back_of(struct urxe_route *r)
{
	if (!r->back) {
		r->back = aligned_alloc(64, sizeof(*r->back));
		if (!r->back)
			return NULL;
		*r->back = (struct urxe_route){
			.from = r->way.to,
			.slid = r->dlid,
			.dlid = r->slid,
			.sl = r->sl,
			.global = r->global,
			.head_words = r->head_words,
			.map = &no_map,
			.generation = NEVER,
		};
	}
	return urxe_route_now(r->back);
}

static bool is_clear(struct urxe_route *r, uint16_t pkey)
{
	return r && r->sure && pkey_passes(r, pkey, 0, 0);
}

bool urxe_wire_reaches(const struct urxe_path *path, uint16_t pkey)
{
	struct urxe_route *r;

	if (path->link != URXE_LINK_FABRIC)
		return true;
	r = urxe_route_now(urxe_route_of(path));
	return is_clear(r, pkey) && is_clear(back_of(r), pkey);
}

static void count(struct urxe_route *r, struct urxe_load load)
{
	add(r->row, load.packets, load.words + (uint64_t)load.packets * r->head_words);
}

void urxe_wire_count_direct(const struct urxe_path *path, struct urxe_load there,
			    struct urxe_load back)
{
	struct urxe_route *r;

	if (path->link != URXE_LINK_FABRIC)
		return;
	r = urxe_route_of(path);
	count(r, there);
	if (r->back)
		count(r->back, back);
}

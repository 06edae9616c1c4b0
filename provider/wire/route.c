// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Routes (route.h) and the ledger that they count in. routes_lock guards the table; what routes
 * hold, and the ledger, belong to the holder of the engine's lock.
 */
#include "wire/route.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "host/fabric.h"
#include "host/fabric_device.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/mutex.h"
#include "host/segment_window.h"
#include "wire/neighbour.h"

#define ANSWER_US 200000 /* that fabricd has to answer */

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

static void forget_group_rows(struct urxe_group *g);

static uint32_t buckets[BUCKETS]; /* the first of each hash */
static uint32_t num_routes = 1;	  /* 0 is none */
static URXE_MUTEX(routes_lock);

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

static void miss(int err)
{
	urxe_log(URXE_LOG_ERROR, "the fabric's counters miss what this process sends: %s%s",
		 strerror(err), err == EMFILE ? "; allow it more descriptors (ulimit -n)" : "");
}

static void ledger_begin(const struct urxe_fabric_host *host)
{
	int fd = urxe_fd_memfd("urxe-ledger", FABRIC_LEDGER_LEN), err = errno;
	const struct timeval limit = {.tv_usec = ANSWER_US};
	struct fabric_welcome welcome;

	ledger_end(false);
	if (fd < 0) {
		miss(err);
		return;
	}
	ledger.bytes = urxe_window_map(fd, 0, FABRIC_LEDGER_LEN);
	if (!ledger.bytes) {
		err = errno;
	} else {
		ledger.host = host;
		ledger.fd = urxe_fabric_connect(FABRIC_LEDGER, 0, fd, &welcome, NULL);
		err = -ledger.fd;
	}
	urxe_fd_close(fd);
	if (ledger.fd >= 0) {
		setsockopt(ledger.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		return;
	}
	miss(err);
	ledger_end(false);
}

/* Ways back are routes too. */
static void for_all(void (*fn)(struct urxe_route *r))
{
	pthread_mutex_lock(&routes_lock);
	for (uint32_t i = 1; i < num_routes; i++)
		for (struct urxe_route *r = urxe_routes[i]; r; r = r->back)
			fn(r);
	pthread_mutex_unlock(&routes_lock);
}

static void outdate(struct urxe_route *r)
{
	r->generation = NEVER;
}

static void forget_rows(struct urxe_route *r)
{
	struct urxe_route_loss *l;

	while ((l = r->lost)) {
		r->lost = l->next;
		free(l);
	}
	r->row = NULL;
	forget_group_rows(r->tree);
	outdate(r);
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
		for_all(forget_rows);
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
	if (row)
		urxe_row_add(row, packets, words);
}

/* Tells fabricd that packets of a row come to Armed ports, and waits until these are Active: their
 * programs may answer at once. Not for long (ANSWER_US): a fabricd that stands still has them wait
 * for the subnet manager, or a repetition. */
static void activate(const struct fabric_row *row)
{
	uint32_t at = (const uint8_t *)row - ledger.bytes;
	ssize_t n;

	if (urxe_libc.sendto(ledger.fd, &at, sizeof(at), MSG_NOSIGNAL, NULL, 0) != sizeof(at))
		return;
	do
		n = urxe_libc.recv(ledger.fd, &at, sizeof(at), 0);
	while (n < 0 && errno == EINTR);
}

/* Packets of a row leave. arms: on their way are Armed ports. */
static void leave(struct fabric_row *row, bool arms, uint64_t packets, uint64_t words)
{
	add(row, packets, words);
	if (__builtin_expect(row && arms, 0))
		activate(row);
}

static void ledger_follow(const struct urxe_fabric_host *host)
{
	if (ledger.host == host)
		return;
	for_all(forget_rows);
	ledger_begin(host);
	ledger.host =
		host; /* also where it could not be made: that is not tried again with each packet */
}

void urxe_routes_close(bool forked)
{
	for_all(forget_rows);
	ledger_end(forked);
}

void urxe_routes_renew(void)
{
	for_all(outdate);
}

/* ---- making and finding ---- */

static unsigned hash_of(uint32_t from, uint16_t slid, uint16_t dlid, uint8_t sl, bool global)
{
	uint64_t key = (uint64_t)slid << 48 | (uint64_t)dlid << 32 | (from & 0xffff) << 16 |
		       sl << 1 | global;

	return key * 0x9e3779b97f4a7c15ull >> 52;
}

/* One that was never walked. */
static struct urxe_route *make(const struct urxe_port *port, uint32_t from, uint16_t slid,
			       uint16_t dlid, uint8_t sl, bool global)
{
	struct urxe_route *r = aligned_alloc(64, sizeof(*r));

	if (r)
		*r = (struct urxe_route){
			.port = port,
			.from = from,
			.slid = slid,
			.dlid = dlid,
			.sl = sl,
			.global = global,
			.head_words =
				URXE_LRH_WORDS + URXE_ICRC_WORDS + (global ? URXE_GRH_WORDS : 0),
			.group = dlid >= LID_FIRST_MULTICAST,
			.map = &no_map,
			.generation = NEVER,
		};
	return r;
}

int urxe_route_get(const struct urxe_port *port, uint32_t from, uint16_t slid, uint16_t dlid,
		   uint8_t sl, bool global, uint32_t *number)
{
	unsigned hash = hash_of(port ? port->index : from, slid, dlid, sl, global);
	struct urxe_route *r;
	uint32_t i;

	static_assert(BUCKETS == 1 << (64 - 52), "a hash has 12 bits");
	if (port && port->kind->link != URXE_LINK_FABRIC)
		return -EINVAL;
	pthread_mutex_lock(&routes_lock);
	for (i = buckets[hash]; i; i = r->hashed) {
		r = urxe_routes[i];
		if (r->port == port && (port || r->from == from) && r->slid == slid &&
		    r->dlid == dlid && r->sl == sl && r->global == global)
			break;
	}
	r = !i && num_routes < URXE_MAX_ROUTES ? make(port, from, slid, dlid, sl, global) : NULL;
	if (r) {
		r->hashed = buckets[hash];
		i = num_routes++;
		urxe_routes[i] = r;
		buckets[hash] = i;
	}
	pthread_mutex_unlock(&routes_lock);
	*number = i;
	return i ? 0 : -ENOMEM;
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
	r->lag.route = r;
	r->lag.delay = way.delay;
	r->sure = r->open && !way.faulty && !way.arms && !way.delay && !r->lag.waiting;
	r->enforced = way.enforced;
	r->pkey = 0;
	r->host = host_of(map, way.to);
	if (!r->row)
		r->row = new_row(way.links, way.num_links, way.loss, way.to, false, r->sl);
	if (r->back) {
		r->back->from = way.to;
		r->back->generation = NEVER;
	}
}

/* ---- groups ---- */

struct branch {
	struct fabric_branch of; /* the tree that was found last */
	const uint32_t *links;
	bool reached;				   /* by the packet that was taken last */
	struct fabric_row *row[FABRIC_NUM_LOSSES]; /* of packets that cross it, or are lost at its
						    * first link */
};

#define NO_BRANCH UINT32_MAX

/* A host's port that has a member. It stays as long as the route: packets may wait for its lag. */
struct member {
	uint32_t host, port;
	uint32_t branch; /* NO_BRANCH: no copy arrives there any more */
	struct urxe_lag lag;
};

struct urxe_group {
	unsigned num_branches, num_members;
	struct branch *branches;
	struct member **members; /* by host and port */
	uint32_t *links;	 /* of the branches */
};

/* How many members come before a host's port. */
static unsigned members_before(const struct urxe_group *g, uint32_t host, uint32_t port)
{
	unsigned low = 0, high = g->num_members;

	while (low < high) {
		unsigned middle = (low + high) / 2;
		const struct member *m = g->members[middle];

		if (m->host < host || (m->host == host && m->port < port))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The member at an end, which may be new: there is room for it. */
static struct member *member_at(struct urxe_group *g, uint32_t host, uint32_t port)
{
	unsigned at = members_before(g, host, port);
	struct member **place = &g->members[at], *m;

	if (at < g->num_members && (*place)->host == host && (*place)->port == port)
		return *place;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->host = host;
	m->port = port;
	memmove(place + 1, place, (g->num_members - at) * sizeof(*place));
	*place = m;
	g->num_members++;
	return m;
}

static bool take_members(struct urxe_route *r, const struct fabric_map *map,
			 const struct fabric_tree *t)
{
	struct urxe_group *g = r->tree;
	struct member **more =
		reallocarray(g->members, g->num_members + t->num_ends, sizeof(*more));

	if (!more)
		return false;
	g->members = more;
	for (unsigned i = 0; i < g->num_members; i++)
		g->members[i]->branch = NO_BRANCH;
	for (unsigned i = 0; i < t->num_ends; i++) {
		const struct fabric_end *end = &t->ends[i];
		struct member *m = member_at(g, host_of(map, end->port), end->port);

		if (!m)
			continue;
		m->branch = end->branch;
		m->lag.route = r;
		m->lag.delay = end->delay;
	}
	return true;
}

/* Rows of a branch that is as it was go on. */
static void keep_rows(struct branch *b, const struct branch *old)
{
	if (b->of.num_links == old->of.num_links &&
	    !memcmp(b->links, old->links, b->of.num_links * sizeof(*b->links)))
		memcpy(b->row, old->row, sizeof(b->row));
}

static bool take_branches(struct urxe_group *g, bool same_map, const struct fabric_tree *t)
{
	struct branch *branches = calloc(t->num_branches, sizeof(*branches));
	uint32_t *links = malloc((t->num_links + 1) * sizeof(*links));

	if (!branches || !links) {
		free(branches);
		free(links);
		return false;
	}
	memcpy(links, t->links, t->num_links * sizeof(*links));
	for (unsigned i = 0; i < t->num_branches; i++) {
		const struct fabric_branch *b = &t->branches[i];

		branches[i] = (struct branch){.of = *b, .links = links + b->first};
		if (same_map && i < g->num_branches)
			keep_rows(&branches[i], &g->branches[i]);
	}
	free(g->branches);
	free(g->links);
	g->branches = branches;
	g->links = links;
	g->num_branches = t->num_branches;
	return true;
}

/* The sender's own host gets copies too, which cross no link. */
static void walk_group(struct urxe_route *r, const struct fabric_map *map)
{
	static struct fabric_tree tree;

	r->open = fabric_port_state(fabric_map_port(map, r->from)) == PORT_ACTIVE;
	if (!r->tree)
		r->tree = calloc(1, sizeof(*r->tree));
	r->open = r->open && r->tree;
	if (!r->open)
		return;
	fabric_route_group(map, r->from, r->dlid, r->sl, r->pkey, &tree);
	r->enforced = tree.enforced;
	r->open = take_branches(r->tree, r->map == map, &tree) && take_members(r, map, &tree);
}

static void forget_group_rows(struct urxe_group *g)
{
	for (unsigned i = 0; g && i < g->num_branches; i++)
		memset(g->branches[i].row, 0, sizeof(g->branches[i].row));
}

void urxe_route_renew(struct urxe_route *r)
{
	const struct urxe_fabric_host *host = urxe_fabric_powered();
	uint64_t generation;

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
	while (l && (l->links != links || l->loss != loss || l->at != at ||
		     memcmp(l->row->links, r->way.links, links * sizeof(*r->way.links))))
		l = l->next;
	if (!l) {
		/* To make one may forget all others. */
		struct fabric_row *row = new_row(r->way.links, links, loss, at, false, r->sl);

		l = row ? calloc(1, sizeof(*l)) : NULL;
		if (!l)
			return row;
		*l = (struct urxe_route_loss){r->lost, at, links, loss, row};
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

static uint64_t flow_of(const struct urxe_route *r, uint32_t qpn)
{
	return (uint64_t)r->slid << 48 | (uint64_t)r->dlid << 32 | qpn;
}

static bool survives_faults(struct urxe_route *r, uint32_t qpn, uint64_t words)
{
	for (unsigned i = 0; i < r->way.num_links; i++) {
		uint32_t port = r->way.links[i], at = port;
		enum fabric_loss loss = fabric_link_fault(r->map, port, flow_of(r, qpn), r->sent);

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
		leave(r->row, r->way.arms, span, words);
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
	leave(r->row, r->way.arms, span, words);
	return true;
}

uint64_t urxe_route_wait(struct urxe_lag *lag, uint64_t now)
{
	if (lag->due < now + lag->delay)
		lag->due = now + lag->delay;
	lag->waiting++;
	return lag->due;
}

void urxe_route_waited(struct urxe_lag *lag)
{
	if (!--lag->waiting && !lag->delay)
		lag->route->generation = NEVER; /* it may be sure again */
}

/* What the first link of a branch does to a packet, and the port that counts it if it is lost. */
static enum fabric_loss branch_loss(const struct urxe_route *r, const struct branch *b,
				    const struct urxe_tx_packet *pkt, uint32_t *at)
{
	enum fabric_loss loss = FABRIC_ARRIVES;

	if (pkt->payload_len > urxe_mtu_bytes(b->of.mtu))
		loss = FABRIC_LOST_DISCARD;
	else if (b->of.faulty)
		loss = fabric_link_fault(
			r->map, b->links[0],
			flow_of(r, urxe_bth_qpn((const struct urxe_bth *)pkt->header)), r->sent);
	if (loss == FABRIC_ARRIVES)
		loss = b->of.loss;
	*at = b->links[0];
	if (loss == FABRIC_LOST_CORRUPTED || loss == FABRIC_LOST_RCV_PKEY)
		*at = fabric_map_port(r->map, b->links[0])->peer;
	return loss;
}

/* How many links of its branch such a packet crosses. */
static unsigned links_crossed(const struct branch *b, enum fabric_loss loss)
{
	if (loss == FABRIC_ARRIVES)
		return b->of.num_links;
	return loss == FABRIC_LOST_RCV_PKEY;
}

static void take_branch(struct urxe_route *r, struct branch *b, const struct urxe_tx_packet *pkt)
{
	uint32_t at;
	enum fabric_loss loss = branch_loss(r, b, pkt, &at);
	struct fabric_row **row = &b->row[loss];

	b->reached = loss == FABRIC_ARRIVES;
	/* To make one may forget all others. */
	if (!*row)
		*row = new_row(b->links, links_crossed(b, loss), loss, at, true, r->sl);
	leave(*row, b->of.arms && loss == FABRIC_ARRIVES, 1,
	      words_of(r, urxe_packet_bytes(pkt), 1));
}

void urxe_route_take_group(const struct urxe_path *path, const struct urxe_tx_packet *pkt)
{
	struct urxe_route *r = urxe_route_now(urxe_route_of(path));
	uint16_t pkey = urxe_bth_pkey((const struct urxe_bth *)pkt->header);
	struct branch *all;

	if (r->open && r->enforced && r->pkey != pkey) {
		r->pkey = pkey;
		walk_group(r, r->map);
	}
	if (!r->open)
		return;
	all = r->tree->branches;
	all[0].reached = true;
	for (unsigned i = 1; i < r->tree->num_branches; i++) {
		all[i].reached = false;
		if (all[all[i].of.parent].reached && all[i].of.num_links)
			take_branch(r, &all[i], pkt);
	}
	r->sent++;
}

struct urxe_lag *urxe_route_reaches(const struct urxe_path *path, uint32_t host)
{
	const struct urxe_route *r = urxe_route_of(path);
	const struct urxe_group *g = r->open ? r->tree : NULL;
	unsigned at = g ? members_before(g, host, 0) : 0;

	for (; g && at < g->num_members && g->members[at]->host == host; at++) {
		struct member *m = g->members[at];

		if (m->branch != NO_BRANCH && g->branches[m->branch].reached)
			return &m->lag;
	}
	return NULL;
}

/* ---- direct access ---- */

static struct urxe_route *back_of(struct urxe_route *r)
{
	if (!r->back)
		r->back = make(NULL, r->way.to, r->dlid, r->slid, r->sl, r->global);
	return r->back ? urxe_route_now(r->back) : NULL;
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

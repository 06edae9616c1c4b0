// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Neighbours: which link-layer address and which path an IP address has. The states are those of
 * RFC 4861, 7.3.2, for ARP as well.
 *
 *	INCOMPLETE ──answer──► REACHABLE ──30 s──► STALE ──a packet──► DELAY ──5 s──► PROBE
 *	    │                      ▲                 │                                 │ │
 *	    └─3 questions, 1 s──► FAILED ◄───────────┼──────── 3 questions to it, 1 s ─┘ │
 *	                           └─ the next packet: INCOMPLETE          answer ──► REACHABLE
 *	                                             └─ 2 min without one: removed
 *
 * Packets wait in a queue of the neighbour while it has no address or no path. The loop's thread.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"
#include "libsacache/sacache.h"

/* RFC 4861, 10, in ms. */
#define RETRANS_TIMER	  1000
#define REACHABLE_TIME	  30000
#define DELAY_FIRST_PROBE 5000
#define MAX_SOLICIT	  3
#define UNUSED_TIME	  120000
#define PATH_TRIES	  3
#define MAX_WAITING	  64 /* packets for each neighbour */
#define MAX_TOLD	  8
#define MAX_NEIGHBOURS	  16384
#define NUM_CHAINS	  4096
#define SWEEP		  64 /* chains */

struct neighbour {
	struct neighbour *next; /* of its chain */
	struct ipoib *ib;
	struct in6_addr ip;
	struct ipoib_link link;
	struct ipoib_way way;
	enum neighbour_state state;
	unsigned tries;	      /* questions sent */
	unsigned path_tries;  /* since there was a path last */
	bool path_asked;      /* and not answered */
	bool path_doubted;    /* what is cached is not to be believed */
	uint8_t path_gid[16]; /* the one whose path was asked for */
	bool has_link;
	unsigned waiting;
	struct ipoib_packet *first, **last;
	struct event *timer;
};

struct ipoib_neighbours {
	unsigned count;
	unsigned sweep; /* the next chain that is looked at for one that can go */
	struct neighbour *chains[NUM_CHAINS];
};

static struct neighbour **chain_of(const struct ipoib *ib, const struct in6_addr *ip)
{
	uint32_t h = ip->s6_addr32[0] ^ ip->s6_addr32[1] * 31 ^ ip->s6_addr32[2] * 961 ^
		     ip->s6_addr32[3];

	return &ib->neighbours->chains[h * 2654435761u >> 20 & (NUM_CHAINS - 1)];
}

static struct neighbour *find(const struct ipoib *ib, const struct in6_addr *ip)
{
	struct neighbour *n = *chain_of(ib, ip);

	while (n && !IN6_ARE_ADDR_EQUAL(&n->ip, ip))
		n = n->next;
	return n;
}

static void set_timer(struct neighbour *n, unsigned ms)
{
	const struct timeval delay = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_add(n->timer, &delay);
}

static void drop_waiting(struct neighbour *n, uint64_t *counter)
{
	struct ipoib_packet *packet;

	while ((packet = n->first)) {
		n->first = packet->next;
		++*counter;
		queue_free(n->ib, packet);
	}
	n->last = &n->first;
	n->waiting = 0;
}

static void send_waiting(struct neighbour *n)
{
	struct ipoib_packet *packet;

	while ((packet = n->first)) {
		n->first = packet->next;
		queue_send(n->ib, packet, &n->way, n->link.qpn);
	}
	n->last = &n->first;
	n->waiting = 0;
}

/* Where there are too many the new one replaces the oldest (RFC 4861, 7.2.2). */
static void keep(struct neighbour *n, struct ipoib_packet *packet)
{
	if (n->waiting == MAX_WAITING || queue_is_scarce(n->ib)) {
		struct ipoib_packet *oldest = n->first;

		n->ib->stats.drop_queue++;
		if (!oldest) {
			queue_free(n->ib, packet);
			return;
		}
		n->first = oldest->next;
		if (!n->first)
			n->last = &n->first;
		n->waiting--;
		queue_free(n->ib, oldest);
	}
	packet->next = NULL;
	*n->last = packet;
	n->last = &packet->next;
	n->waiting++;
}

static void send_or_keep(struct neighbour *n, struct ipoib_packet *packet)
{
	if (n->has_link && n->way.ah)
		queue_send(n->ib, packet, &n->way, n->link.qpn);
	else
		keep(n, packet);
}

static void remove_neighbour(struct neighbour *n)
{
	struct neighbour **p = chain_of(n->ib, &n->ip);

	while (*p != n)
		p = &(*p)->next;
	*p = n->next;
	n->ib->neighbours->count--;
	drop_waiting(n, &n->ib->stats.drop_unreachable);
	queue_drop_way(n->ib, &n->way);
	event_free(n->timer);
	free(n);
}

/* ---- questions and answers ---- */

/* n: to it alone, and as soon as there is a path; NULL: to all that may be concerned. */
static void send_discovery(struct ipoib *ib, const struct ipoib_discovery *msg,
			   const struct in6_addr *to, struct neighbour *n)
{
	struct in6_addr all = {.s6_addr = {[10] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
	struct ipoib_packet *packet = queue_packet(ib);

	if (!packet) {
		ib->stats.drop_queue++;
		return;
	}
	packet->len = (uint32_t)ipoib_build(packet->data, msg, to);
	if (n) {
		send_or_keep(n, packet);
		return;
	}
	if (!ipoib_is_ipv4(&msg->target))
		memcpy(&all, packet->data + IPOIB_HEADER + 24, 16); /* its destination */
	group_send(ib, &all, packet);
}

static void own_link(const struct ipoib *ib, struct ipoib_link *link)
{
	link->qpn = ib->qpn;
	memcpy(link->gid, &ib->gid, 16);
}

/* Asks for the neighbour: everybody, or it alone. */
static void ask(struct neighbour *n)
{
	struct ipoib *ib = n->ib;
	struct ipoib_discovery msg = {.target = n->ip, .has_sender = true};
	bool alone = n->state == NEIGHBOUR_PROBE;

	n->tries++;
	set_timer(n, RETRANS_TIMER);
	if (!kernel_source(ib, &n->ip, &msg.from))
		return;
	own_link(ib, &msg.sender);
	ib->stats.questions++;
	send_discovery(ib, &msg, alone ? &n->ip : NULL, alone ? n : NULL);
}

/* An answer about one of our addresses; n: to it, NULL: to all. */
static void answer(struct ipoib *ib, const struct in6_addr *own, const struct in6_addr *to,
		   struct neighbour *n)
{
	struct ipoib_discovery msg = {.answer = true,
				      .solicited = n,
				      .override = true,
				      .has_sender = true,
				      .from = *own,
				      .target = *own};

	own_link(ib, &msg.sender);
	ib->stats.answers++;
	send_discovery(ib, &msg, to, n);
}

/* ---- states ---- */

/* Nobody has the address: the senders of the first few packets get an ICMP error, as a kernel
 * sends it. */
static void tell_waiting(struct neighbour *n)
{
	unsigned told = 0;

	for (const struct ipoib_packet *p = n->first; p && told < MAX_TOLD; p = p->next, told++)
		receive_unreachable(n->ib, p);
}

static void fail(struct neighbour *n)
{
	tell_waiting(n);
	n->state = NEIGHBOUR_FAILED;
	n->has_link = false;
	queue_drop_way(n->ib, &n->way);
	drop_waiting(n, &n->ib->stats.drop_unreachable);
	set_timer(n, UNUSED_TIME);
}

static void begin(struct neighbour *n)
{
	n->state = NEIGHBOUR_INCOMPLETE;
	n->tries = n->path_tries = 0;
	ask(n);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct neighbour *n = arg;
	struct ipoib *ib = n->ib;

	switch (n->state) {
	case NEIGHBOUR_INCOMPLETE:
		if (n->tries < MAX_SOLICIT)
			ask(n);
		else
			fail(n);
		break;
	case NEIGHBOUR_REACHABLE:
		n->state = NEIGHBOUR_STALE;
		set_timer(n, UNUSED_TIME);
		break;
	case NEIGHBOUR_DELAY:
		n->state = NEIGHBOUR_PROBE;
		n->tries = 0;
		/* fall through */
	case NEIGHBOUR_PROBE:
		if (!n->way.ah || n->tries == MAX_SOLICIT) {
			/* It may be elsewhere: everybody is asked, and a path that is cached may be
			 * what led nowhere. */
			n->has_link = false;
			n->path_doubted = true;
			queue_drop_way(n->ib, &n->way);
			begin(n);
		} else {
			ask(n);
		}
		break;
	case NEIGHBOUR_STALE:
	case NEIGHBOUR_FAILED: remove_neighbour(n); break;
	}
	queue_flush(ib);
}

/* One that is not needed goes; a few chains are looked at each time. */
static void make_room(struct ipoib *ib)
{
	struct ipoib_neighbours *all = ib->neighbours;

	for (unsigned i = 0; i < SWEEP; i++) {
		struct neighbour *n = all->chains[all->sweep++ % NUM_CHAINS];

		while (n && n->state != NEIGHBOUR_STALE && n->state != NEIGHBOUR_FAILED)
			n = n->next;
		if (n) {
			remove_neighbour(n);
			return;
		}
	}
}

static struct neighbour *create(struct ipoib *ib, const struct in6_addr *ip)
{
	struct neighbour **chain = chain_of(ib, ip), *n;

	if (ib->neighbours->count == MAX_NEIGHBOURS)
		make_room(ib);
	if (ib->neighbours->count == MAX_NEIGHBOURS) {
		ib->stats.drop_table++;
		return NULL;
	}
	n = calloc(1, sizeof(*n));
	if (n)
		n->timer = evtimer_new(ib->loop.base, on_timer, n);
	if (!n || !n->timer) {
		free(n);
		ib->stats.drop_table++;
		return NULL;
	}
	n->ib = ib;
	n->ip = *ip;
	n->last = &n->first;
	n->next = *chain;
	*chain = n;
	ib->neighbours->count++;
	return n;
}

static void ask_path(struct neighbour *n, bool again)
{
	n->path_doubted |= again;
	if (n->path_asked)
		return;
	/* Without memory the next packet asks. */
	n->path_asked = !path_ask(n->ib, &n->ip, n->link.gid, n->path_doubted);
	if (!n->path_asked)
		return;
	n->path_doubted = false;
	memcpy(n->path_gid, n->link.gid, 16);
}

static bool same_link(const struct ipoib_link *a, const struct ipoib_link *b)
{
	return a->qpn == b->qpn && !memcmp(a->gid, b->gid, 16);
}

/* It has been heard of: its address may be another one than it was. */
static void set_link(struct neighbour *n, const struct ipoib_link *link)
{
	if (n->has_link && same_link(&n->link, link))
		return;
	if (!n->has_link || memcmp(n->link.gid, link->gid, 16))
		queue_drop_way(n->ib, &n->way);
	n->link = *link;
	n->has_link = true;
	n->path_tries = 0;
	if (!n->way.ah)
		ask_path(n, false);
}

static void set_reachable(struct neighbour *n)
{
	n->state = NEIGHBOUR_REACHABLE;
	n->tries = 0;
	set_timer(n, REACHABLE_TIME);
}

static void set_stale(struct neighbour *n)
{
	n->state = NEIGHBOUR_STALE;
	n->tries = 0;
	set_timer(n, UNUSED_TIME);
}

/* Packets from it come from another LID than those for it go to. */
static void check_lid(struct neighbour *n, uint16_t slid)
{
	if (n->way.ah && n->way.lid != slid)
		ask_path(n, true);
}

static void heard_question(struct ipoib *ib, const struct ipoib_discovery *msg, uint16_t slid)
{
	bool from_nobody = IN6_IS_ADDR_UNSPECIFIED(&msg->from) ||
			   (ipoib_is_ipv4(&msg->from) && !msg->from.s6_addr32[3]);
	bool for_us = kernel_is_own(ib, &msg->target);
	struct neighbour *n = from_nobody ? NULL : find(ib, &msg->from);

	ib->stats.asked++;
	if (!n && for_us && !from_nobody && msg->has_sender)
		n = create(ib, &msg->from);
	if (n && msg->has_sender) {
		bool other = !n->has_link || !same_link(&n->link, &msg->sender);

		set_link(n, &msg->sender);
		if (other)
			set_stale(n);
		check_lid(n, slid);
	}
	if (!for_us)
		return;
	if (n && n->has_link)
		answer(ib, &msg->target, &msg->from, n);
	else if (from_nobody)
		answer(ib, &msg->target, NULL, NULL);
}

static void heard_answer(struct ipoib *ib, const struct ipoib_discovery *msg, uint16_t slid)
{
	struct neighbour *n = find(ib, &msg->target);
	bool other;

	ib->stats.answered++;
	if (!n || !msg->has_sender)
		return;
	other = !n->has_link || !same_link(&n->link, &msg->sender);
	/* RFC 4861, 7.2.5 */
	if (n->has_link && other && !msg->override) {
		if (n->state == NEIGHBOUR_REACHABLE)
			set_stale(n);
		return;
	}
	set_link(n, &msg->sender);
	if (msg->solicited)
		set_reachable(n);
	else if (other)
		set_stale(n);
	check_lid(n, slid);
}

/* Somebody else says that one of our addresses is his. */
static bool is_conflict(struct ipoib *ib, const struct ipoib_discovery *msg)
{
	const struct in6_addr *ip = msg->answer ? &msg->target : &msg->from;
	struct ipoib_link own;

	own_link(ib, &own);
	return msg->has_sender && kernel_is_own(ib, ip) && !same_link(&msg->sender, &own);
}

void neighbour_heard(struct ipoib *ib, const struct ipoib_discovery *msg, uint16_t slid)
{
	static bool said;

	if (is_conflict(ib, msg)) {
		if (!said)
			log_warning("another interface of the partition has one of the addresses "
				    "of %s, too",
				    ib->options.name);
		said = true;
		return;
	}
	(msg->answer ? heard_answer : heard_question)(ib, msg, slid);
	queue_flush(ib);
}

void neighbour_path(struct ipoib *ib, const struct in6_addr *ip, int error,
		    const struct sacache_path *path)
{
	struct neighbour *n = find(ib, ip);
	struct ibv_ah_attr attr = {.port_num = (uint8_t)ib->options.port};

	if (!n || !n->path_asked)
		return;
	n->path_asked = false;
	if (!n->has_link)
		return;
	/* Asked before the GID changed, or LIDs did. */
	if (n->path_doubted || memcmp(n->path_gid, n->link.gid, 16)) {
		ask_path(n, false);
		return;
	}
	/* Asked for by a neighbour of that address that is forgotten. */
	if (!error && memcmp(path->dgid, n->link.gid, 16))
		error = -EAGAIN;
	if (!error) {
		attr.dlid = path->dlid;
		attr.sl = path->sl;
		attr.static_rate = path->rate;
		attr.src_path_bits = (uint8_t)(path->slid & ((1u << ib->lmc) - 1));
		attr.is_global = path->hop_limit > 1;
		memcpy(&attr.grh.dgid, path->dgid, 16);
		attr.grh.hop_limit = path->hop_limit;
		attr.grh.flow_label = path->flow_label;
		attr.grh.traffic_class = path->tclass;
		error = queue_set_way(ib, &n->way, &attr);
	}
	if (!error) {
		n->path_tries = 0;
		send_waiting(n);
		return;
	}
	ib->stats.paths_failed++;
	log_debug("no path to a neighbour: %s", strerror(-error));
	if (n->way.ah)
		return; /* the old one serves until questions to it stay without answers */
	if (++n->path_tries < PATH_TRIES && error != -EHOSTUNREACH)
		ask_path(n, true);
	else
		fail(n);
}

void neighbour_send(struct ipoib *ib, const struct in6_addr *ip, struct ipoib_packet *packet)
{
	struct neighbour *n = find(ib, ip);

	if (!n)
		n = create(ib, ip);
	else if (n->state == NEIGHBOUR_STALE) {
		n->state = NEIGHBOUR_DELAY;
		set_timer(n, DELAY_FIRST_PROBE);
	}
	if (!n) {
		queue_free(ib, packet);
		return;
	}
	send_or_keep(n, packet);
	if (n->has_link && n->way.ah)
		return;
	if (n->has_link)
		ask_path(n, false);
	else if (n->state == NEIGHBOUR_FAILED || !n->tries)
		begin(n);
}

int neighbour_resolve(struct ipoib *ib, const struct in6_addr *ip, struct neighbour_info *info)
{
	struct neighbour *n = find(ib, ip);

	if (n && n->state == NEIGHBOUR_FAILED) {
		remove_neighbour(n);
		return -EHOSTUNREACH;
	}
	if (!n) {
		n = create(ib, ip);
		if (!n)
			return -ENOMEM;
		begin(n);
		queue_flush(ib);
	}
	if (!n->has_link)
		return -EINPROGRESS;
	*info = (struct neighbour_info){.ip = n->ip, .link = n->link, .state = n->state};
	return 0;
}

void neighbours_forget(struct ipoib *ib)
{
	for (unsigned i = 0; ib->neighbours && i < NUM_CHAINS; i++)
		while (ib->neighbours->chains[i])
			remove_neighbour(ib->neighbours->chains[i]);
}

void neighbours_refresh(struct ipoib *ib)
{
	for (unsigned i = 0; i < NUM_CHAINS; i++)
		for (struct neighbour *n = ib->neighbours->chains[i]; n; n = n->next)
			if (n->has_link)
				ask_path(n, true);
}

static void announce(struct ipoib *ib, const struct in6_addr *ip)
{
	/* With ARP a question for oneself (RFC 5227, 3); an advertisement to all nodes (RFC 4861,
	 * 7.2.6). */
	struct ipoib_discovery msg = {.answer = !ipoib_is_ipv4(ip),
				      .override = true,
				      .has_sender = true,
				      .from = *ip,
				      .target = *ip};

	own_link(ib, &msg.sender);
	send_discovery(ib, &msg, NULL, NULL);
}

void neighbours_announce(struct ipoib *ib)
{
	kernel_each_address(ib, announce);
	queue_flush(ib);
}

void neighbours_each(const struct ipoib *ib, void (*fn)(void *arg, const struct neighbour_info *n),
		     void *arg)
{
	for (unsigned i = 0; i < NUM_CHAINS; i++) {
		for (struct neighbour *n = ib->neighbours->chains[i]; n; n = n->next) {
			struct neighbour_info info = {.ip = n->ip,
						      .link = n->link,
						      .state = n->state,
						      .lid = n->way.lid,
						      .has_path = n->way.ah};

			fn(arg, &info);
		}
	}
}

int neighbours_create(struct ipoib *ib)
{
	ib->neighbours = calloc(1, sizeof(*ib->neighbours));
	return ib->neighbours ? 0 : ipoib_fail(ib, ENOMEM);
}

void neighbours_destroy(struct ipoib *ib)
{
	neighbours_forget(ib);
	free(ib->neighbours);
	ib->neighbours = NULL;
}

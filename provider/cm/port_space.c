// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ids that ask for a port are compared by address (an any-address meets every other, unless both
 * are confined to their family), ids that take an ephemeral one by address and peer.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include "cm/port_space.h"
#include "host/sysinfo.h"
#include "host/ticks.h"

#define DEFAULT_LOW  32768
#define DEFAULT_HIGH 60999
#define RANGE_AGE    1000000000ull /* ns after which the range is read again */
#define CHANCES	     32

/* The ephemeral ports of this process. The segment lock. */
static struct {
	unsigned low, high;
	uint64_t read_at;	  /* ns; 0: not yet */
	uint16_t last;		  /* that was given out */
	uint32_t chance[CHANCES]; /* random numbers, of which */
	unsigned left;		  /* these many are not used yet */
} ephemeral;

/* ---- addresses ---- */

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

struct claim {
	const struct urxe_binding *b;
	bool reuse; /* may it share the port at all? */
};

static int check_shared(const struct urxe_binding *other, enum urxe_port_state state, void *arg)
{
	const struct claim *claim = arg;
	const struct urxe_binding *b = claim->b;
	bool ipv4 = is_ipv4(&b->addr), other_ipv4 = is_ipv4(&other->addr);

	if (state == URXE_PORT_LINGERING || (claim->reuse && other->reuse))
		return 0;
	/* An IPv4 address is confined to its family as it stands. */
	if (ipv4 != other_ipv4 && (ipv4 || b->v6only) && (other_ipv4 || other->v6only))
		return 0;
	if (is_any(&b->addr) || is_any(&other->addr))
		return -EADDRNOTAVAIL;
	return same_addr(&b->addr, b->scope, &other->addr, other->scope) ? -EADDRINUSE : 0;
}

/* A port is free as soon as its process is dead, whether or not anybody has noticed. */
static int check_port(struct urxe_segment *seg, const struct urxe_binding *b, bool reuse,
		      uint32_t self)
{
	struct claim claim = {.b = b, .reuse = reuse};

	if (!urxe_segment_port_walk(seg, b->ps, b->port, self, check_shared, &claim))
		return 0;
	urxe_segment_reap_all(seg);
	return urxe_segment_port_walk(seg, b->ps, b->port, self, check_shared, &claim);
}

/* Can two ids with the same ephemeral port be distinguished by their own
 * or their peers' addresses? */
static bool distinct(const struct urxe_binding *a, const struct urxe_binding *b)
{
	if (a->peer_port && b->peer_port && a->peer_port != b->peer_port)
		return true;
	if (!is_any(&a->addr) && !is_any(&b->addr) &&
	    !same_addr(&a->addr, a->scope, &b->addr, b->scope))
		return true;
	return !is_any(&a->peer) && !is_any(&b->peer) && !IN6_ARE_ADDR_EQUAL(&a->peer, &b->peer);
}

static int check_distinct(const struct urxe_binding *other, enum urxe_port_state state, void *arg)
{
	return state == URXE_PORT_LINGERING || !distinct(arg, other) ? -EADDRINUSE : 0;
}

/* ---- ephemeral ports ---- */

static void read_range(void)
{
	uint64_t now = urxe_now_coarse();
	char text[64];

	if (ephemeral.read_at && now - ephemeral.read_at < RANGE_AGE)
		return;
	if (urxe_read_file("/proc/sys/net/ipv4/ip_local_port_range", text, sizeof(text)) < 0 ||
	    sscanf(text, "%u %u", &ephemeral.low, &ephemeral.high) != 2 || !ephemeral.low ||
	    ephemeral.low > ephemeral.high || ephemeral.high > 65535) {
		ephemeral.low = DEFAULT_LOW;
		ephemeral.high = DEFAULT_HIGH;
	}
	ephemeral.read_at = now;
}

/* Drawn by the dozen, as each call of the kernel costs more than the search for a port. */
static int draw(uint32_t *number)
{
	if (!ephemeral.left) {
		if (getrandom(ephemeral.chance, sizeof(ephemeral.chance), 0) !=
		    sizeof(ephemeral.chance))
			return -EIO;
		ephemeral.left = CHANCES;
	}
	*number = ephemeral.chance[--ephemeral.left];
	return 0;
}

void urxe_port_space_forked(void)
{
	ephemeral.left = 0;
}

/* A random one from which on the first that suits, but not the last one given out: it may still be
 * known to a peer. */
static int choose_port(struct urxe_segment *seg, struct urxe_binding *b)
{
	unsigned num, start;
	uint32_t random;

	read_range();
	num = ephemeral.high - ephemeral.low + 1;
	if (draw(&random))
		return -EIO;
	start = random % num;
	for (unsigned k = 0; k < num; k++) {
		b->port = ephemeral.low + (start + k) % num;
		if (b->port == ephemeral.last ||
		    urxe_segment_port_walk(seg, b->ps, b->port, 0, check_distinct, b))
			continue;
		ephemeral.last = b->port;
		return 0;
	}
	b->port = 0;
	return -EADDRNOTAVAIL;
}

/* ---- ids ---- */

int urxe_port_space_bind(struct urxe_segment *seg, struct urxe_binding *b, uint32_t *row)
{
	int ret;

	urxe_segment_lock(seg);
	ret = b->port ? check_port(seg, b, b->reuse, 0) : choose_port(seg, b);
	if (!ret)
		ret = urxe_segment_port_add(seg, b, row);
	urxe_segment_unlock(seg);
	return ret;
}

void urxe_port_space_set_options(struct urxe_segment *seg, uint32_t row, bool v6only, bool reuse)
{
	urxe_segment_lock(seg);
	urxe_segment_port_set_options(seg, row, v6only, reuse);
	urxe_segment_unlock(seg);
}

int urxe_port_space_listen(struct urxe_segment *seg, uint32_t row)
{
	struct urxe_binding b;
	int ret = -EINVAL;

	urxe_segment_lock(seg);
	if (urxe_segment_port_get(seg, row, &b)) {
		ret = check_port(seg, &b, false, row);
		if (!ret) {
			urxe_segment_port_set_options(seg, row, b.v6only, false);
			urxe_segment_port_set_state(seg, row, URXE_PORT_LISTENING);
		}
	}
	urxe_segment_unlock(seg);
	return ret;
}

void urxe_port_space_linger(struct urxe_segment *seg, uint32_t row)
{
	urxe_segment_lock(seg);
	urxe_segment_port_set_state(seg, row, URXE_PORT_LINGERING);
	urxe_segment_unlock(seg);
}

/* ---- listeners ---- */

struct destination {
	const struct in6_addr *addr;
	uint32_t ifindex;
};

/* How well a row serves messages to an address: the more the better, 0 not at all. */
static unsigned merit(const struct urxe_binding *b, enum urxe_port_state state, const void *arg)
{
	const struct destination *to = arg;
	unsigned merit;

	if (IN6_ARE_ADDR_EQUAL(&b->addr, to->addr) &&
	    (!IN6_IS_ADDR_LINKLOCAL(to->addr) || !b->scope || !to->ifindex ||
	     b->scope == to->ifindex))
		merit = 3;
	else if (!is_any(&b->addr))
		return 0;
	else if (is_ipv4(&b->addr) == is_ipv4(to->addr))
		merit = 2;
	else if (is_ipv4(to->addr) && !b->v6only)
		merit = 1;
	else
		return 0;
	switch (state) {
	case URXE_PORT_LISTENING: return merit + 3;
	case URXE_PORT_LINGERING: return merit;
	default: return 0;
	}
}

bool urxe_port_space_find(struct urxe_segment *seg, uint32_t host, uint16_t ps, uint16_t port,
			  const struct in6_addr *daddr, uint32_t ifindex, unsigned *slot,
			  uint32_t *id)
{
	struct destination to = {.addr = daddr, .ifindex = ifindex};

	return urxe_segment_port_find(seg, host, ps, port, merit, &to, slot, id);
}

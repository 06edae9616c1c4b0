// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fabrics of well-known kinds, made from a few numbers:
 *
 *	fat-tree   two levels: `ports` leaves under up to ports / 2 spines; three levels: `ports` pods of edge and
 *	           aggregation switches under (ports / 2)² core switches; oversubscription: hosts for each cable up
 *	torus      a grid of x × y × z switches, closed to a ring in each dimension
 *	hypercube  a switch for each of 2^dimensions corners
 *	dragonfly  groups of a switches, all of a group connected to each other, with h cables each to other groups;
 *	           a × h + 1 groups, one cable between any two; p hosts a switch
 *
 * Each takes functions=N too: a host's adapter is behind a virtual switch with N virtual functions,
 * of which the first `guids` have a GUID from the start.
 *
 * Names say where a node is: L0, S3, pod2-edge1, h17. One thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topology.h"

#define MOST_NODES 200000

struct parameter {
	const char *name;
	unsigned value, least, most;
};

/* Parameters that every kind has. */
enum { FUNCTIONS, GUIDS };

struct maker {
	struct topology *t;
	char *error;
	unsigned hosts; /* so far */
	struct parameter *common;
	bool failed; /* no memory */
};

static __attribute__((format(printf, 2, 3))) int wrong(struct maker *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(m->error, TOPOLOGY_ERROR_LEN, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static struct parameter *named(struct parameter *p, const char *word, size_t len)
{
	while (p->name && (strncmp(word, p->name, len) || p->name[len]))
		p++;
	return p->name ? p : NULL;
}

/* A parameter that this kind of fabric does not have: the error names those that it has. */
static int unknown(struct maker *m, const struct parameter *p, const char *word)
{
	char names[80] = "";

	for (; p->name; p++)
		sprintf(names + strlen(names), "%s, ", p->name);
	return wrong(m, "\"%s\" is no parameter of this kind of fabric: %sfunctions and guids are",
		     word, names);
}

/* "name=number" for each word; parameters end with one without a name. */
static int take(struct maker *m, struct parameter *p, int n, char *const *words)
{
	for (int i = 0; i < n; i++) {
		const char *value = strchr(words[i], '=');
		struct parameter *at = NULL;
		unsigned long v;
		char *end;

		if (value)
			at = named(p, words[i], value - words[i]);
		if (value && !at)
			at = named(m->common, words[i], value - words[i]);
		if (!at)
			return unknown(m, p, words[i]);
		v = strtoul(value + 1, &end, 10);
		if (end == value + 1 || *end || v < at->least || v > at->most)
			return wrong(m, "%s is a number from %u to %u", at->name, at->least,
				     at->most);
		at->value = v;
	}
	return 0;
}

/* Before anything is made of it: 0, or an error. */
static int check_size(struct maker *m, uint64_t switches, uint64_t hosts)
{
	unsigned functions = m->common[FUNCTIONS].value;

	if (switches + hosts * (functions ? 2 + functions : 1) <= MOST_NODES)
		return 0;
	return wrong(m, "that is more than %d nodes", MOST_NODES);
}

static uint32_t add(struct maker *m, uint8_t type, unsigned ports, const char *name)
{
	if (!topology_add(m->t, type, ports, name, name))
		m->failed = true;
	return m->failed ? 0 : m->t->num_nodes - 1;
}

static __attribute__((format(printf, 3, 4))) uint32_t add_switch(struct maker *m, unsigned ports,
								 const char *fmt, ...)
{
	char name[TOPOLOGY_ID_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	return add(m, NODE_SWITCH, ports, name);
}

static void connect(struct maker *m, uint32_t a, unsigned a_port, uint32_t b, unsigned b_port)
{
	if (!m->failed)
		topology_connect(m->t, a, a_port, b, b_port);
}

static __attribute__((format(printf, 2, 3))) uint32_t add_adapter(struct maker *m, const char *fmt,
								  ...)
{
	char name[TOPOLOGY_ID_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	return add(m, NODE_CA, 1, name);
}

/* A virtual switch under port of sw, the host's adapter at its port 2 and functions behind. */
static void add_virtual(struct maker *m, uint32_t sw, unsigned port)
{
	unsigned host = m->hosts++, functions = m->common[FUNCTIONS].value;
	uint32_t inner = add_switch(m, 2 + functions, "h%u-vswitch", host);

	connect(m, sw, port, inner, 1);
	connect(m, inner, 2, add_adapter(m, "h%u", host), 1);
	for (unsigned i = 1; i <= functions; i++) {
		uint32_t function = add_adapter(m, "h%u-vf%u", host, i);

		connect(m, inner, 2 + i, function, 1);
		if (m->failed)
			return;
		m->t->nodes[function].function = i;
		m->t->nodes[function].no_guid = i > m->common[GUIDS].value;
	}
}

/* Hosts at ports first to first + n - 1 of a switch. */
static void add_hosts(struct maker *m, uint32_t sw, unsigned first, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (m->common[FUNCTIONS].value)
			add_virtual(m, sw, first + i);
		else
			connect(m, sw, first + i, add_adapter(m, "h%u", m->hosts++), 1);
	}
}

/* ---- fat trees ---- */

static void two_levels(struct maker *m, unsigned ports, unsigned down)
{
	unsigned up = ports - down;

	for (unsigned s = 0; s < up; s++)
		add_switch(m, ports, "S%u", s);
	for (unsigned l = 0; l < ports; l++) {
		uint32_t leaf = add_switch(m, ports, "L%u", l);

		for (unsigned s = 0; s < up; s++)
			connect(m, leaf, down + s + 1, s, l + 1);
		add_hosts(m, leaf, 1, down);
	}
}

static void one_pod(struct maker *m, unsigned pod, unsigned ports, unsigned down)
{
	unsigned half = ports / 2, up = ports - down;
	uint32_t first = m->t->num_nodes;

	for (unsigned a = 0; a < up; a++) {
		uint32_t agg = add_switch(m, ports, "pod%u-agg%u", pod, a);

		for (unsigned c = 0; c < half; c++)
			connect(m, agg, half + c + 1, a * half + c, pod + 1);
	}
	for (unsigned e = 0; e < half; e++) {
		uint32_t edge = add_switch(m, ports, "pod%u-edge%u", pod, e);

		for (unsigned a = 0; a < up; a++)
			connect(m, edge, down + a + 1, first + a, e + 1);
		add_hosts(m, edge, 1, down);
	}
}

static void three_levels(struct maker *m, unsigned ports, unsigned down)
{
	unsigned half = ports / 2, up = ports - down;

	for (unsigned c = 0; c < up * half; c++)
		add_switch(m, ports, "C%u", c);
	for (unsigned pod = 0; pod < ports; pod++)
		one_pod(m, pod, ports, down);
}

static int fat_tree(struct maker *m, int n, char *const *words)
{
	struct parameter p[] = {
		{"levels", 2, 2, 3}, {"ports", 8, 2, 64}, {"oversubscription", 1, 1, 32}, {NULL}};
	int ret = take(m, p, n, words);
	unsigned ports = p[1].value, half = ports / 2, down;

	if (ret)
		return ret;
	if (ports % 2)
		return wrong(m, "ports is an even number: half of them go up");
	down = ports * p[2].value / (p[2].value + 1);
	if (down == ports)
		return wrong(m,
			     "with that oversubscription no cable goes up: fewer, or more ports");
	if (p[0].value == 2)
		ret = check_size(m, 2 * ports - down, ports * down);
	else
		ret = check_size(m, (ports - down) * half + ports * (ports - down + half),
				 ports * half * down);
	if (!ret)
		(p[0].value == 2 ? two_levels : three_levels)(m, ports, down);
	return ret;
}

/* ---- grids ---- */

/* Port 2d + 1 goes up in dimension d, 2d + 2 down; hosts are at 7 and above. */
static int torus(struct maker *m, int n, char *const *words)
{
	struct parameter p[] = {
		{"x", 4, 2, 255}, {"y", 4, 1, 255}, {"z", 1, 1, 255}, {"hosts", 1, 0, 48}, {NULL}};
	unsigned sizes[3], all = 1, step = 1;
	int ret = take(m, p, n, words);

	if (ret)
		return ret;
	for (int d = 0; d < 3; d++)
		all *= sizes[d] = p[d].value;
	ret = check_size(m, all, (uint64_t)all * p[3].value);
	if (ret)
		return ret;
	for (unsigned i = 0; i < all; i++)
		add_switch(m, 6 + p[3].value, "s%u-%u-%u", i % sizes[0], i / sizes[0] % sizes[1],
			   i / sizes[0] / sizes[1]);
	for (int d = 0; d < 3; step *= sizes[d++])
		for (unsigned i = 0; i < all && sizes[d] > 1; i++) {
			unsigned at = i / step % sizes[d];
			unsigned next = at + 1 < sizes[d] ? i + step : i - at * step;

			/* Two in a ring have one cable. */
			if (sizes[d] > 2 || at + 1 < sizes[d])
				connect(m, i, 2 * d + 1, next, 2 * d + 2);
		}
	for (unsigned i = 0; i < all; i++)
		add_hosts(m, i, 7, p[3].value);
	return 0;
}

static int hypercube(struct maker *m, int n, char *const *words)
{
	struct parameter p[] = {{"dimensions", 3, 1, 14}, {"hosts", 1, 0, 48}, {NULL}};
	int ret = take(m, p, n, words);
	unsigned dims = p[0].value, all = 1u << dims;

	if (!ret)
		ret = check_size(m, all, (uint64_t)all * p[1].value);
	if (ret)
		return ret;
	for (unsigned i = 0; i < all; i++)
		add_switch(m, dims + p[1].value, "s%u", i);
	for (unsigned i = 0; i < all; i++)
		for (unsigned d = 0; d < dims; d++)
			if (!(i & 1u << d))
				connect(m, i, d + 1, i | 1u << d, d + 1);
	for (unsigned i = 0; i < all; i++)
		add_hosts(m, i, dims + 1, p[1].value);
	return 0;
}

/* ---- dragonfly ---- */

static int dragonfly(struct maker *m, int n, char *const *words)
{
	struct parameter p[] = {{"a", 4, 1, 64}, {"h", 2, 1, 64}, {"p", 2, 0, 64}, {NULL}};
	int ret = take(m, p, n, words);
	unsigned a = p[0].value, h = p[1].value, hosts = p[2].value, groups = a * h + 1;

	if (!ret)
		ret = check_size(m, groups * a, (uint64_t)groups * a * hosts);
	if (ret)
		return ret;
	/* Ports of a switch: a - 1 within the group, h to others, then hosts. */
	for (unsigned g = 0; g < groups; g++)
		for (unsigned s = 0; s < a; s++)
			add_switch(m, a - 1 + h + hosts, "g%u-s%u", g, s);
	for (unsigned g = 0; g < groups; g++)
		for (unsigned s = 0; s < a; s++)
			for (unsigned o = s + 1; o < a; o++)
				connect(m, g * a + s, o, g * a + o, s + 1);
	/* The k-th cable of a group leads to the k-th group behind it, in a circle. */
	for (unsigned g = 0; g < groups; g++)
		for (unsigned k = 0; k < a * h; k++) {
			unsigned other = (g + k + 1) % groups, back = groups - 2 - k;

			if (g < other)
				connect(m, g * a + k / h, a + k % h, other * a + back / h,
					a + back % h);
		}
	for (unsigned i = 0; i < groups * a; i++)
		add_hosts(m, i, a + h, hosts);
	return 0;
}

static const struct {
	const char *name;
	int (*make)(struct maker *m, int n, char *const *words);
} kinds[] = {{"fat-tree", fat_tree},
	     {"torus", torus},
	     {"hypercube", hypercube},
	     {"dragonfly", dragonfly}};

int topology_generate(struct topology *t, int num_words, char *const *words,
		      char error[TOPOLOGY_ERROR_LEN])
{
	struct parameter common[] = {{"functions", 0, 0, 126}, {"guids", 0, 0, 126}, {NULL}};
	struct maker m = {.t = t, .error = error, .common = common};
	int ret = wrong(&m, "name a kind: fat-tree, torus, hypercube or dragonfly");

	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; num_words && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(words[0], kinds[i].name))
			ret = kinds[i].make(&m, num_words - 1, words + 1);
	if (!ret && m.failed) {
		wrong(&m, "out of memory");
		ret = -ENOMEM;
	}
	if (ret) {
		topology_free(t);
		return ret;
	}
	topology_finish(t);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Balancing that needs no help at the destination: ECMP, LetFlow (a random path after 100 us of
 * silence), DRILL (each packet to the shortest of two random queues and the last one's best) and
 * CONGA (after 100 us of silence the path whose most used link is used least). Parameters are
 * conweave-ns3's.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLOWLET (100 * US)

const struct balance *balance;

static void by_hash(struct sim *s, uint32_t p, uint32_t node)
{
	s->packet[p].path = s->flow[s->packet[p].flow].ecmp;
}

static uint8_t random_path(struct sim *s, const struct flow *flow)
{
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination);

	return (uint8_t)path_number(s, from, to,
				    random_below(&s->random, topology_paths(s, from, to)));
}

static void by_flowlet(struct sim *s, uint32_t p, uint32_t node)
{
	struct flow *flow = &s->flow[s->packet[p].flow];

	if (!flow->flowlet || s->now - flow->flowlet > FLOWLET)
		flow->path = random_path(s, flow);
	flow->flowlet = s->now;
	s->packet[p].path = flow->path;
}

/* DRILL chooses at each switch on the way up: first the uplink, then (fat tree) the core switch. */
static int drill_init(struct sim *s)
{
	s->drill = calloc((size_t)s->topology.nodes * s->topology.hosts, 1);
	return s->drill ? 0 : -ENOMEM;
}

static uint32_t load_of(const struct sim *s, const struct node *n, uint32_t up)
{
	return s->port[n->first_port + up].bytes;
}

static uint32_t drill_up(struct sim *s, uint32_t node, uint32_t host, uint32_t ups)
{
	const struct node *n = &s->node[node];
	uint8_t *last = &s->drill[(size_t)node * s->topology.hosts + host];
	uint32_t best = *last, load = load_of(s, n, best);

	for (int i = 0; i < 2; i++) {
		uint32_t up = random_below(&s->random, ups);

		if (load_of(s, n, up) < load) {
			best = up;
			load = load_of(s, n, up);
		}
	}
	*last = (uint8_t)best;
	return best;
}

static void drill_source(struct sim *s, uint32_t p, uint32_t node)
{
	const struct flow *flow = &s->flow[s->packet[p].flow];
	uint32_t half = s->topology.k / 2;
	uint32_t up =
		drill_up(s, node, flow->destination, s->topology.fat ? half : s->topology.spines);

	s->packet[p].path = (uint8_t)(s->topology.fat ? up * half : up);
}

static void drill_core(struct sim *s, uint32_t p, uint32_t node)
{
	const struct flow *flow = &s->flow[s->packet[p].flow];
	uint32_t half = s->topology.k / 2;
	const struct node *n = &s->node[node];

	if (!s->topology.fat || n->level != 2 || n->pod == tor_of(s, flow->destination) / half)
		return;
	s->packet[p].path = (uint8_t)(s->packet[p].path / half * half +
				      drill_up(s, node, flow->destination, half));
}

/* CONGA's tables: what a ToR was told of its paths to a ToR, and what it saw of those from there.
 * */
struct metric {
	uint8_t ce;
	bool seen;
	int64_t time;
};

struct conga {
	struct metric *to, *from; /* [tor][other tor][path] */
};

#define DRE_TIME  (50 * US)
#define AGED	  (500 * US)
#define NO_METRIC 255

static struct metric *metrics(struct sim *s, struct metric *table, uint32_t a, uint32_t b)
{
	return &table[((size_t)a * s->topology.tors + b) * s->topology.paths];
}

static int conga_init(struct sim *s)
{
	size_t n = (size_t)s->topology.tors * s->topology.tors * s->topology.paths;
	struct conga *conga = calloc(1, sizeof(*conga));

	if (!conga)
		return -ENOMEM;
	conga->to = calloc(n, sizeof(*conga->to));
	conga->from = calloc(n, sizeof(*conga->from));
	s->balance = conga;
	return conga->to && conga->from ? 0 : -ENOMEM;
}

static void conga_fini(struct sim *s)
{
	struct conga *conga = s->balance;

	free(conga->to);
	free(conga->from);
	free(conga);
}

/* The discounting rate estimator: a fifth less each 50 us. */
static void discount(struct sim *s, struct port *port)
{
	for (; port->dre && s->now - port->dre_time >= DRE_TIME; port->dre_time += DRE_TIME)
		port->dre = port->dre * 4 / 5;
	if (!port->dre)
		port->dre_time = s->now / DRE_TIME * DRE_TIME;
}

/* In eighths of what the link can carry. */
static uint8_t used_of(struct sim *s, struct port *port)
{
	uint64_t q;

	discount(s, port);
	q = port->dre * (uint64_t)port->per_byte * 8 / (uint64_t)(5 * DRE_TIME);
	return (uint8_t)(q > 254 ? 254 : q);
}

static void count_bytes(struct sim *s, uint32_t p, uint32_t node)
{
	struct packet *packet = &s->packet[p];
	uint32_t host = s->flow[packet->flow].destination;
	struct port *port = &s->port[topology_route(s, node, host, packet->path)];
	uint8_t ce;

	discount(s, port);
	port->dre += packet->size;
	ce = used_of(s, port);
	if (ce > packet->conga.ce)
		packet->conga.ce = ce;
}

static uint8_t conga_best(struct sim *s, uint32_t from, uint32_t to)
{
	struct conga *conga = s->balance;
	struct metric *told = metrics(s, conga->to, from, to);
	uint32_t paths = topology_paths(s, from, to), n = paths < 4 ? paths : 4;
	uint32_t first = random_below(&s->random, paths - n + 1), least = UINT32_MAX, ties = 0;
	uint8_t best = 0;

	for (uint32_t i = first; i < first + n; i++) {
		unsigned path = path_number(s, from, to, i);
		uint32_t far =
			told[path].seen && s->now - told[path].time <= AGED ? told[path].ce : 0;
		uint32_t near = used_of(s, uplink_of(s, from, path));
		uint32_t metric = far > near ? far : near;

		if (metric < least) {
			least = metric;
			ties = 0;
		}
		if (metric == least && random_below(&s->random, ++ties) == 0)
			best = (uint8_t)path;
	}
	return best;
}

/*
 * Feedback on a random path by which packets came lately. What was seen earlier is
 * forgotten: reported on, it would keep traffic off a path that was busy once, and
 * nothing newer would come by it.
 */
static void conga_feedback(struct sim *s, struct packet *packet, uint32_t from, uint32_t to)
{
	struct conga *conga = s->balance;
	struct metric *seen = metrics(s, conga->from, from, to);
	uint32_t n = 0;

	packet->conga = (struct conga_tag){.fb_ce = NO_METRIC};
	for (uint32_t path = 0; path < s->topology.paths; path++) {
		if (!seen[path].seen || s->now - seen[path].time > AGED ||
		    random_below(&s->random, ++n))
			continue;
		packet->conga.fb_path = (uint8_t)path;
		packet->conga.fb_ce = seen[path].ce;
	}
}

static void conga_source(struct sim *s, uint32_t p, uint32_t node)
{
	struct packet *packet = &s->packet[p];
	struct flow *flow = &s->flow[packet->flow];
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination);

	conga_feedback(s, packet, from, to);
	if (!flow->flowlet || s->now - flow->flowlet > FLOWLET)
		flow->path = conga_best(s, from, to);
	flow->flowlet = s->now;
	packet->path = packet->conga.path = flow->path;
	count_bytes(s, p, node);
}

static bool conga_destination(struct sim *s, uint32_t p, uint32_t node, uint32_t port)
{
	const struct packet *packet = &s->packet[p];
	const struct flow *flow = &s->flow[packet->flow];
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination);
	struct conga *conga = s->balance;

	if (from == to)
		return false;
	if (packet->conga.fb_ce != NO_METRIC)
		metrics(s, conga->to, to, from)[packet->conga.fb_path] =
			(struct metric){packet->conga.fb_ce, true, s->now};
	metrics(s, conga->from, to, from)[packet->path] =
		(struct metric){packet->conga.ce, true, s->now};
	return false;
}

const struct balance balance_ecmp = {.name = "ecmp", .at_source = by_hash};
const struct balance balance_letflow = {.name = "letflow", .at_source = by_flowlet};
const struct balance balance_drill = {
	.name = "drill",
	.init = drill_init,
	.at_source = drill_source,
	.at_core = drill_core,
};
const struct balance balance_conga = {
	.name = "conga",
	.init = conga_init,
	.fini = conga_fini,
	.at_source = conga_source,
	.at_core = count_bytes,
	.at_destination = conga_destination,
};

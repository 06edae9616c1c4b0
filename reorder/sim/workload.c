/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which flows there are: Poisson arrivals at each host, to any other host, of sizes by a
 * distribution; or a file as conweave-ns3's traffic generator writes it. The load is that of the
 * uplinks if all traffic took them, as in ConWeave's evaluation.
 *
 *   file:  number of flows
 *          source destination 3 bytes start-in-seconds      one line a flow, by start
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FLOWS 20000000

static int bad(const char *name, unsigned long line, const char *what)
{
	fprintf(stderr, "fabric-sim: %s, line %lu: %s\n", name, line, what);
	return -EINVAL;
}

/* Starts are kept in ps since the first full 2 s, which is where those files begin. */
static int parse_flow(const char *text, const char *name, unsigned long line, uint32_t hosts,
		      struct arrival *a)
{
	unsigned long source, destination, group, bytes;
	double start;
	char more;

	if (sscanf(text, "%lu %lu %lu %lu %lf %c", &source, &destination, &group, &bytes, &start,
		   &more) != 5)
		return bad(name, line, "wants: source destination 3 bytes start");
	if (source >= hosts || destination >= hosts || source == destination)
		return bad(name, line, "no two hosts of this fabric");
	if (!bytes || bytes > 1000000000 || strchr(text, '-'))
		return bad(name, line, "a flow has 1 byte to 1 GB");
	if (!isfinite(start) || start < 0 || start > 1000)
		return bad(name, line, "a flow starts within 1,000 s");
	start = start >= 2 ? start - 2 : start;
	*a = (struct arrival){llround(start * 1e9) * NS, bytes, (uint16_t)source,
			      (uint16_t)destination};
	return 0;
}

long workload_read(FILE *in, const char *name, uint32_t hosts, struct arrival **out)
{
	struct arrival *arrivals = NULL;
	long n = 0, room = 0, said = -1;
	unsigned long line = 0;
	char text[160];
	int ret = 0;

	while (!ret && fgets(text, sizeof(text), in)) {
		line++;
		if (strspn(text, " \t\r\n") == strlen(text))
			continue;
		if (said < 0) {
			char *end;

			said = strtol(text, &end, 10);
			if (end == text || strspn(end, " \t\r\n") != strlen(end) || said < 0 ||
			    said > MAX_FLOWS)
				ret = bad(name, line, "wants the number of flows");
			continue;
		}
		if (n == said)
			break; /* the generator may leave rubbish behind */
		if (n == room) {
			struct arrival *larger;

			room = room ? 2 * room : 1024;
			larger = realloc(arrivals, (size_t)room * sizeof(*arrivals));
			if (!larger) {
				ret = -ENOMEM;
				break;
			}
			arrivals = larger;
		}
		ret = parse_flow(text, name, line, hosts, &arrivals[n]);
		if (!ret && n && arrivals[n].start < arrivals[n - 1].start)
			ret = bad(name, line, "starts before the flow before it");
		n++;
	}
	if (!ret && n != said)
		ret = bad(name, line, "fewer flows than the first line says");
	if (ret) {
		free(arrivals);
		return ret;
	}
	*out = arrivals;
	return n;
}

struct pending {
	int64_t time;
	uint32_t host;
};

static bool sooner(const struct pending *a, const struct pending *b)
{
	return a->time < b->time || (a->time == b->time && a->host < b->host);
}

static void sift(struct pending *heap, uint32_t n, uint32_t i)
{
	struct pending x = heap[i];
	uint32_t child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && sooner(&heap[child + 1], &heap[child]))
			child++;
		if (!sooner(&heap[child], &x))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = x;
}

static int get_cdf(const struct options *o, struct cdf *cdf)
{
	FILE *in;
	int ret;

	if (!cdf_builtin(cdf, o->traffic))
		return 0;
	in = fopen(o->traffic, "r");
	if (!in) {
		ret = -errno;
		fprintf(stderr,
			"fabric-sim: no workload %s (alistorage, hadoop, websearch, solar or a "
			"file)\n",
			o->traffic);
		return ret;
	}
	ret = cdf_read(cdf, in, o->traffic);
	fclose(in);
	return ret;
}

static uint32_t oversubscription_per_mille(const struct sim *s)
{
	uint32_t ups = s->topology.fat ? s->topology.k / 2 : s->topology.spines;

	return s->topology.per_tor * 1000 / ups;
}

static long draw_arrivals(struct sim *s, struct arrival **out)
{
	const struct options *o = s->options;
	uint32_t hosts = s->topology.hosts;
	static struct cdf cdf;
	struct pending *heap = malloc(hosts * sizeof(*heap));
	uint64_t random = o->seed * 0x5851f42d4c957f2du + 1;
	struct arrival *arrivals = NULL;
	long n = 0, room = 0;
	int ret = get_cdf(o, &cdf);
	int64_t mean;

	if (ret || !heap)
		return ret ? ret : -ENOMEM;
	/* A host sends load / oversubscription of its link: a mean flow each ... */
	mean = (int64_t)((unsigned __int128)cdf_mean(&cdf) * 8 * 1000000000000u *
			 oversubscription_per_mille(s) /
			 ((unsigned __int128)o->rate * o->load * 10));
	for (uint32_t h = 0; h < hosts; h++)
		heap[h] = (struct pending){random_exponential(&random, mean), h};
	for (uint32_t i = hosts; i-- > 0;)
		sift(heap, hosts, i);
	while (heap[0].time < o->duration) {
		uint32_t to = random_below(&random, hosts - 1);

		if (n == MAX_FLOWS || n == room) {
			room = room ? 2 * room : 4096;
			arrivals = n == MAX_FLOWS
					   ? NULL
					   : realloc(arrivals, (size_t)room * sizeof(*arrivals));
			if (!arrivals) {
				fprintf(stderr, "fabric-sim: too many flows: shorten --time\n");
				free(heap);
				return -ENOMEM;
			}
		}
		arrivals[n++] = (struct arrival){heap[0].time, cdf_draw(&cdf, &random),
						 (uint16_t)heap[0].host,
						 (uint16_t)(to + (to >= heap[0].host))};
		heap[0].time += random_exponential(&random, mean);
		sift(heap, hosts, 0);
	}
	free(heap);
	*out = arrivals;
	return n;
}

/* MurmurHash3 of three words, as conweave-ns3 has it: seeded with the number of the switch. */
static uint32_t murmur(const uint32_t *words, uint32_t seed)
{
	uint32_t h = seed;

	for (int i = 0; i < 3; i++) {
		uint32_t k = words[i] * 0xcc9e2d51u;

		h ^= (k << 15 | k >> 17) * 0x1b873593u;
		h = (h << 13 | h >> 19) * 5 + 0xe6546b64u;
	}
	h ^= 12;
	h = (h ^ h >> 16) * 0x85ebca6bu;
	h = (h ^ h >> 13) * 0xc2b2ae35u;
	return h ^ h >> 16;
}

/*
 * The paths by which conweave-ns3's ECMP sends a flow and what answers it. Hosts count their flows'
 * ports up; sent and got are how many each had before.
 */
static void ns3_paths(const struct sim *s, struct flow *flow, uint16_t sent, uint16_t got)
{
	uint32_t from = tor_of(s, flow->source), to = tor_of(s, flow->destination);
	uint32_t a = 0x0b000001u + flow->source * 256u, b = 0x0b000001u + flow->destination * 256u;
	uint16_t sport = (uint16_t)(10000 + sent), dport = (uint16_t)(100 + got);
	uint32_t there[] = {a, b, sport | (uint32_t)dport << 16};
	uint32_t back[] = {b, a, dport | (uint32_t)sport << 16};

	flow->ecmp = path_number(
		s, from, to, murmur(there, s->topology.hosts + from) % topology_paths(s, from, to));
	flow->ecmp_back = path_number(
		s, to, from, murmur(back, s->topology.hosts + to) % topology_paths(s, to, from));
}

static void make_flow(struct sim *s, struct flow *flow, const struct arrival *a)
{
	uint32_t from = a->source / s->topology.per_tor, to = a->destination / s->topology.per_tor;
	uint64_t bytes = a->bytes, key = (uint64_t)(flow - s->flow) << 8 | 1;

	key += (uint64_t)s->options->seed << 40;

	*flow = (struct flow){.source = a->source, .destination = a->destination};
	flow->bytes = bytes;
	flow->start = a->start;
	flow->packets = (uint32_t)((bytes + MTU - 1) / MTU);
	flow->last_size = (uint32_t)(bytes - (uint64_t)(flow->packets - 1) * MTU);
	flow->hash = (uint32_t)(random_next(&key) >> 32);
	flow->ecmp = topology_hash_path(s, flow->hash, from, to);
	flow->ecmp_back = topology_hash_path(s, (uint32_t)random_next(&key), to, from);
	flow->alone = topology_base_rtt(s, a->source, a->destination) +
		      (int64_t)(bytes + flow->packets * (uint64_t)HEADERS) *
			      (int64_t)(8000000000000 / s->options->rate);
}

int workload_make(struct sim *s)
{
	struct arrival *arrivals = NULL;
	uint16_t *sent, *got;
	long n;

	if (s->options->flow_file) {
		FILE *in = fopen(s->options->flow_file, "r");

		if (!in) {
			fprintf(stderr, "fabric-sim: %s: %s\n", s->options->flow_file,
				strerror(errno));
			return -ENOENT;
		}
		n = workload_read(in, s->options->flow_file, s->topology.hosts, &arrivals);
		fclose(in);
	} else {
		n = draw_arrivals(s, &arrivals);
	}
	if (n < 0)
		return (int)n;
	s->flows = (uint32_t)n;
	s->flow = malloc((size_t)(n ? n : 1) * sizeof(*s->flow));
	sent = calloc(s->topology.hosts, 2 * sizeof(*sent));
	if (!s->flow || !sent) {
		free(sent);
		free(arrivals);
		return -ENOMEM;
	}
	got = sent + s->topology.hosts;
	for (long i = 0; i < n; i++) {
		make_flow(s, &s->flow[i], &arrivals[i]);
		if (s->options->ns3)
			ns3_paths(s, &s->flow[i], sent[arrivals[i].source]++,
				  got[arrivals[i].destination]++);
	}
	free(sent);
	free(arrivals);
	return 0;
}

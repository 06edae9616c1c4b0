/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fabric-sim's command line. Options with lists make a sweep: every combination is a run. */
#include "common/command.h"
#include "reorder/sim/sim.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: fabric-sim [OPTION]...\n"
	"       fabric-sim mg1 [--seed N]\n"
	"\n"
	"Compares ways to spread RDMA flows over the paths of a fabric. Options with + take a "
	"list,\n"
	"a,b,c or (numbers) a-b, and each combination is a run.\n"
	"\n"
	"  --topology leaf-spine:LEAVESxSPINESxHOSTS | fat-tree:K[xHOSTS]   (leaf-spine:8x8x16)\n"
	"  --slow TOR:UP:RATE    that link of a ToR has another rate, e.g. 0:3:40G; may be "
	"repeated\n"
	"  --workload NAME +     alistorage, hadoop, websearch, solar, or a file of sizes\n"
	"  --flows FILE          flows of a file as conweave-ns3 makes them, instead\n"
	"  --load PERCENT +      of the uplinks' capacity (80)\n"
	"  --lb METHOD +         ecmp, letflow, conga, drill, conweave, shared (all)\n"
	"  --queues N +          reorder queues a port: conweave and shared; 0: no limit (1)\n"
	"  --irn                 no PFC; NICs that accept out of order and resend what is lost\n"
	"  --seed N +            (1)\n"
	"  --time TIME           in which flows start (10ms)\n"
	"  --warmup TIME         of this, not counted (5ms)\n"
	"  --rate RATE --delay TIME --buffer BYTES      links (100G, 1us), switches (9M)\n"
	"  --conweave-ns3        what else is peculiar to that simulator, too; see fabric-sim(1)\n"
	"  --pause-time TIME     after which a PFC pause ends without RESUME (0ns: never)\n"
	"  --held-uncharged      ConWeave's held packets bypass the buffer, as in its simulator\n"
	"  --high --low --gain --most --rest --pace --fresh --hold --margin TIME --estimator "
	"sample|mg1 --sw\n"
	"  --budget BYTES --header BYTES                of shared; see fabric-sim(1)\n"
	"  --fct FILE            each flow, in conweave-ns3's columns (one run)\n"
	"  --plot FILE           slowdown by flow size as SVG\n"
	"  --json                results as JSON\n"
	"  --parallel N          runs at a time (processors)\n"
	"  --jobs                print one command a run, and run nothing\n"
	"  --quiet               no progress\n"
	"  -V --version, -h --help\n";

static void fail(const char *what, const char *text)
{
	fprintf(stderr, "fabric-sim: %s: %s\n", text, what);
	exit(2);
}

static uint64_t number(const char *text, uint64_t most)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (end == text || *end || errno || *text == '-' || n > most)
		fail("not a number, or too large", text);
	return n;
}

static uint64_t with_unit(const char *text, const char *const *units, const uint64_t *factors,
			  const char *what)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (end != text && !errno && *text != '-' && n < 1000000000)
		for (; *units; units++, factors++)
			if (!strcmp(end, *units))
				return n * *factors;
	fail(what, text);
	return 0;
}

static int64_t time_of(const char *text)
{
	static const char *const units[] = {"ns", "us", "ms", "s", NULL};
	static const uint64_t factors[] = {1000, 1000000, 1000000000, 1000000000000};
	uint64_t t = with_unit(text, units, factors, "not a time as 300us or 10ms");

	if (t > (uint64_t)1000 * 1000000000000)
		fail("longer than 1000s", text);
	return (int64_t)t;
}

static uint64_t rate_of(const char *text)
{
	static const char *const units[] = {"G", "M", NULL};
	static const uint64_t factors[] = {1000000000, 1000000};
	uint64_t rate = with_unit(text, units, factors, "not a rate as 100G or 400M");

	/* Times must be whole picoseconds. */
	if (rate < 1000000 || rate > 1600000000000 || 8000000000000 % rate)
		fail("a byte would not take whole picoseconds: take 10G, 25G, 40G, 50G, 100G, 200G,"
		     " 400G, 800G ...",
		     text);
	return rate;
}

static uint64_t bytes_of(const char *text)
{
	static const char *const units[] = {"M", "K", "", NULL};
	static const uint64_t factors[] = {1 << 20, 1 << 10, 1};
	uint64_t bytes = with_unit(text, units, factors, "not a number of bytes as 9M");

	if (bytes < 200000 || bytes > 2000000000)
		fail("a buffer has 200000 bytes to 2 GB", text);
	return bytes;
}

static unsigned numbers(char *text, uint32_t *list, uint64_t most)
{
	unsigned n = 0;

	for (char *rest = text, *one; (one = strsep(&rest, ",")) != NULL;) {
		char *dash = strchr(one, '-');
		uint64_t from, to;

		if (dash)
			*dash++ = '\0';
		from = number(one, most);
		to = dash ? number(dash, most) : from;
		if (to < from || to - from >= MAX_LISTED || n + to - from >= MAX_LISTED)
			fail("more than 32, or none", text);
		for (; from <= to; from++)
			list[n++] = (uint32_t)from;
	}
	return n;
}

static unsigned words(char *text, const char **list)
{
	unsigned n = 0;

	for (char *rest = text, *one; (one = strsep(&rest, ",")) != NULL;) {
		if (n == MAX_LISTED)
			fail("more than 32", text);
		list[n++] = one;
	}
	return n;
}

static void topology(struct options *o, const char *text)
{
	int end = 0;

	o->topology = text;
	if (sscanf(text, "leaf-spine:%ux%ux%u%n", &o->leaves, &o->spines, &o->hosts, &end) == 3 &&
	    !text[end]) {
		o->fat = false;
		if (o->leaves < 2 || o->leaves > 250 || !o->spines || o->spines > 200 ||
		    !o->hosts || o->spines + o->hosts > 250)
			fail("2 to 250 leaves, and up to 250 ports a switch", text);
		return;
	}
	o->hosts = 0;
	if ((sscanf(text, "fat-tree:%ux%u%n", &o->k, &o->hosts, &end) == 2 && !text[end]) ||
	    (sscanf(text, "fat-tree:%u%n", &o->k, &end) == 1 && !text[end])) {
		o->fat = true;
		o->hosts = o->hosts ? o->hosts : o->k;
		if (o->k < 4 || o->k > 30 || o->k % 2 || o->hosts > 200)
			fail("k is even, 4 to 30", text);
		return;
	}
	fail("not leaf-spine:8x8x16 or fat-tree:8", text);
}

static void slow(struct options *o, char *text)
{
	char *up = strchr(text, ':'), *rate = up ? strchr(up + 1, ':') : NULL;

	if (!rate || o->slows == MAX_SLOW)
		fail("not TOR:UP:RATE as 0:3:40G, or too many", text);
	*up++ = *rate++ = '\0';
	o->slow[o->slows++] = (struct slow_link){(uint16_t)number(text, 60000),
						 (uint16_t)number(up, 60000), rate_of(rate)};
}

static void defaults(struct options *o)
{
	static const char *const all[] = {"ecmp",  "letflow",  "conga",
					  "drill", "conweave", "shared"};

	*o = (struct options){
		.rate = 100000000000,
		.delay = US,
		.duration = 10 * MS,
		.warmup = 5 * MS,
		.buffer = 9 << 20,
		.high = 10 * US,
		.low = US,
		.gain = 10 * US,
		.rest = 50 * US,
		.pace = 16 * US,
		.fresh = 16 * US,
		.header = REORDER_SHIM,
		.lbs = 6,
		.workloads = 1,
		.loads = 1,
		.seeds = 1,
		.queue_counts = 1,
		.workload = {"alistorage"},
		.load_list = {80},
		.seed_list = {1},
		.queue_list = {1},
	};
	memcpy(o->lb, all, sizeof(all));
	o->jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	topology(o, "leaf-spine:8x8x16");
}

enum option_number {
	TOPOLOGY = 256,
	SLOW,
	WORKLOAD,
	FLOWS,
	LOAD,
	LB,
	QUEUES,
	IRN,
	SEED,
	TIME,
	WARMUP,
	RATE,
	DELAY,
	BUFFER,
	PAUSE_TIME,
	AS_NS3,
	UNCHARGED,
	HIGH,
	LOW,
	GAIN,
	MOST,
	REST,
	BUDGET,
	PACING,
	FRESH,
	HOLD_TIME,
	MARGIN,
	ESTIMATOR,
	SW,
	HEADER,
	FCT,
	PLOT,
	JSON,
	PARALLEL,
	JOBS,
	QUIET,
};

static const struct option longs[] = {
	{"topology", required_argument, NULL, TOPOLOGY},
	{"slow", required_argument, NULL, SLOW},
	{"workload", required_argument, NULL, WORKLOAD},
	{"flows", required_argument, NULL, FLOWS},
	{"load", required_argument, NULL, LOAD},
	{"lb", required_argument, NULL, LB},
	{"queues", required_argument, NULL, QUEUES},
	{"irn", no_argument, NULL, IRN},
	{"seed", required_argument, NULL, SEED},
	{"time", required_argument, NULL, TIME},
	{"warmup", required_argument, NULL, WARMUP},
	{"rate", required_argument, NULL, RATE},
	{"delay", required_argument, NULL, DELAY},
	{"buffer", required_argument, NULL, BUFFER},
	{"pause-time", required_argument, NULL, PAUSE_TIME},
	{"conweave-ns3", no_argument, NULL, AS_NS3},
	{"held-uncharged", no_argument, NULL, UNCHARGED},
	{"high", required_argument, NULL, HIGH},
	{"low", required_argument, NULL, LOW},
	{"gain", required_argument, NULL, GAIN},
	{"most", required_argument, NULL, MOST},
	{"rest", required_argument, NULL, REST},
	{"budget", required_argument, NULL, BUDGET},
	{"pace", required_argument, NULL, PACING},
	{"fresh", required_argument, NULL, FRESH},
	{"hold", required_argument, NULL, HOLD_TIME},
	{"margin", required_argument, NULL, MARGIN},
	{"estimator", required_argument, NULL, ESTIMATOR},
	{"sw", no_argument, NULL, SW},
	{"header", required_argument, NULL, HEADER},
	{"fct", required_argument, NULL, FCT},
	{"plot", required_argument, NULL, PLOT},
	{"json", no_argument, NULL, JSON},
	{"parallel", required_argument, NULL, PARALLEL},
	{"jobs", no_argument, NULL, JOBS},
	{"quiet", no_argument, NULL, QUIET},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{0},
};

static void one_option(struct options *o, int c, char *value)
{
	switch (c) {
	case TOPOLOGY: topology(o, value); break;
	case SLOW: slow(o, value); break;
	case WORKLOAD: o->workloads = words(value, o->workload); break;
	case FLOWS: o->flow_file = value; break;
	case LOAD: o->loads = numbers(value, o->load_list, 1000); break;
	case LB: o->lbs = words(value, o->lb); break;
	case QUEUES: o->queue_counts = numbers(value, o->queue_list, 64); break;
	case IRN: o->irn = true; break;
	case SEED: o->seeds = numbers(value, o->seed_list, 1000000); break;
	case TIME: o->duration = time_of(value); break;
	case WARMUP: o->warmup = time_of(value); break;
	case RATE: o->rate = rate_of(value); break;
	case DELAY: o->delay = time_of(value); break;
	case BUFFER: o->buffer = bytes_of(value); break;
	case PAUSE_TIME: o->pause_time = time_of(value); break;
	case AS_NS3: o->ns3 = true; break;
	case UNCHARGED: o->held_uncharged = true; break;
	case HIGH: o->high = time_of(value); break;
	case LOW: o->low = time_of(value); break;
	case GAIN: o->gain = time_of(value); break;
	case MOST: o->most = time_of(value); break;
	case BUDGET: o->budget = (uint32_t)number(value, UINT32_MAX); break;
	case REST: o->rest = time_of(value); break;
	case PACING: o->pace = time_of(value); break;
	case FRESH: o->fresh = time_of(value) + 1; break;
	case HOLD_TIME: o->hold = time_of(value) + 1; break;
	case MARGIN: o->margin = time_of(value); break;
	case ESTIMATOR: o->estimator_mg1 = !strcmp(value, "mg1"); break;
	case SW: o->sw = true; break;
	case HEADER: o->header = (uint32_t)number(value, 16); break;
	case FCT: o->fct_file = value; break;
	case PLOT: o->plot = value; break;
	case JSON: o->json = true; break;
	case PARALLEL: o->jobs = (unsigned)number(value, 1024); break;
	case JOBS: o->jobs_only = true; break;
	case QUIET: o->quiet = true; break;
	case 'h': fputs(usage, stdout); exit(0);
	case 'V': puts("fabric-sim " URXE_VERSION); exit(0);
	}
}

int options_parse(struct options *o, int argc, char **argv)
{
	int c;

	defaults(o);
	while ((c = getopt_long(argc, argv, "hV", longs, NULL)) != -1) {
		if (c == '?')
			exit(command_bad_option(argv));
		one_option(o, c, optarg);
	}
	if (optind < argc)
		exit(command_bad_word(argv[optind]));
	for (unsigned i = 0; i < o->loads; i++)
		if (!o->load_list[i])
			fail("a load is 1 to 1000", "--load 0");
	if (!o->duration || o->duration > 10000 * MS)
		fail("1ns to 10s", "--time");
	if (!o->delay || o->delay > MS)
		fail("1ns to 1ms", "--delay");
	/* Without loss a timer has nothing to do. */
	if (!o->hold)
		o->hold = o->irn ? MS / 2 : 10 * MS;
	if (!o->margin)
		o->margin = o->irn ? 50 * US : MS;
	/* Held bytes pause nobody without PFC: up to what a link carries in a round trip. */
	if (!o->most)
		o->most = o->irn ? 40 * US : 20 * US;
	if (!o->budget)
		o->budget = o->irn ? 65536 : 8192;
	if (o->ns3) {
		o->held_uncharged = true;
		o->pause_time = 5 * US;
	}
	if (!o->jobs)
		o->jobs = 1;
	if (!isatty(2))
		o->quiet = true;
	o->seed = o->seed_list[0];
	return 0;
}

static void print_common(const struct options *o)
{
	printf(" --topology %s --time %lldns --warmup %lldns --rate %lluM --delay %lldns --buffer "
	       "%llu",
	       o->topology, (long long)(o->duration / NS), (long long)(o->warmup / NS),
	       (unsigned long long)(o->rate / 1000000), (long long)(o->delay / NS),
	       (unsigned long long)o->buffer);
	for (unsigned i = 0; i < o->slows; i++)
		printf(" --slow %u:%u:%lluM", o->slow[i].tor, o->slow[i].up,
		       (unsigned long long)(o->slow[i].rate / 1000000));
	printf(" --high %lldns --low %lldns --gain %lldns --most %lldns --rest %lldns --pace %lldns"
	       " --fresh %lldns --hold %lldns --margin %lldns --header %u --budget %u",
	       (long long)(o->high / NS), (long long)(o->low / NS), (long long)(o->gain / NS),
	       (long long)(o->most / NS), (long long)(o->rest / NS), (long long)(o->pace / NS),
	       (long long)(o->fresh / NS), (long long)(o->hold / NS), (long long)(o->margin / NS),
	       o->header, o->budget);
	if (o->ns3)
		printf(" --conweave-ns3");
	if (o->pause_time)
		printf(" --pause-time %lldns", (long long)(o->pause_time / NS));
	if (o->flow_file)
		printf(" --flows %s", o->flow_file);
	printf("%s%s%s%s --json --quiet\n", o->irn ? " --irn" : "",
	       o->held_uncharged ? " --held-uncharged" : "", o->sw ? " --sw" : "",
	       o->estimator_mg1 ? " --estimator mg1" : "");
}

void options_print_jobs(const struct options *o, const char *program)
{
	printf("%s --lb %s --workload %s --load %u --queues %u --seed %u", program, o->method,
	       o->traffic, o->load, o->queues, o->seed);
	print_common(o);
}

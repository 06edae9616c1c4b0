/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * reorder-check: random runs of libreorder, and whether anything leaves out of order that the
 * library has not counted. With --without-rule it must: then a rule is missing.
 */
#include "common/command.h"
#include "reorder/check/check.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: reorder-check [--runs N] [--seed N] [--loss] [--skew TIME] [--drift NUMBERppm]\n"
	"                     [--without-rule 1-4]\n"
	"\n"
	"Each run is two sources, a destination and a few flows with random delays. Ends with 0 "
	"when\n"
	"no packet left out of order beyond those that were counted, else with 1.\n"
	"TIME is a number with ns, us, ms or s. --without-rule leaves out an ordering rule.\n";

static int64_t parse_time(const char *text)
{
	static const struct {
		const char *unit;
		int64_t ps;
	} units[] = {{"ns", 1000}, {"us", 1000000}, {"ms", 1000000000}, {"s", 1000000000000}};
	char *end;
	int64_t n;

	errno = 0;
	n = strtoll(text, &end, 10);
	for (size_t i = 0; i < 4; i++)
		if (end != text && !errno && n >= 0 && n <= 1000000 && !strcmp(end, units[i].unit))
			return n * units[i].ps;
	fprintf(stderr, "reorder-check: %s is not a time as 10us or 1s\n", text);
	exit(2);
}

static uint64_t parse_number(const char *text, const char *unit, uint64_t most)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (end == text || errno || *text == '-' || n > most || (*end && strcmp(end, unit))) {
		fprintf(stderr, "reorder-check: %s is not a number up to %" PRIu64 "\n", text,
			most);
		exit(2);
	}
	return n;
}

static void add(struct check_result *sum, const struct check_result *r)
{
	sum->sent += r->sent;
	sum->lost += r->lost;
	sum->refused += r->refused;
	sum->misordered += r->misordered;
	sum->late += r->late;
	sum->no_entry += r->no_entry;
	sum->held += r->held;
	sum->reroutes += r->reroutes;
	sum->by_tail += r->by_tail;
	sum->by_proof += r->by_proof;
	sum->by_timer += r->by_timer;
	sum->by_bound += r->by_bound;
}

static uint64_t runs = 20000, seed = 1;

static void parse(int argc, char **argv, struct check_options *options)
{
	static const struct option longs[] = {{"runs", required_argument, NULL, 'r'},
					      {"seed", required_argument, NULL, 's'},
					      {"loss", no_argument, NULL, 'l'},
					      {"skew", required_argument, NULL, 'k'},
					      {"drift", required_argument, NULL, 'd'},
					      {"without-rule", required_argument, NULL, 'w'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	int c;

	while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		switch (c) {
		case 'r': runs = parse_number(optarg, "", UINT64_MAX); break;
		case 's': seed = parse_number(optarg, "", UINT64_MAX); break;
		case 'l': options->loss = true; break;
		case 'k': options->skew = parse_time(optarg); break;
		case 'd': options->drift = (int64_t)parse_number(optarg, "ppm", 10000); break;
		case 'w': options->without |= 1u << parse_number(optarg, "", 4); break;
		case 'h': fputs(usage, stdout); exit(0);
		default: exit(command_bad_option(argv));
		}
	}
	if (optind < argc)
		exit(command_bad_word(argv[optind]));
}

int main(int argc, char **argv)
{
	struct check_options options = {0};
	struct check_result sum = {0}, r;
	uint64_t wrong = 0;

	command_begin();
	parse(argc, argv, &options);
	for (uint64_t i = 0; i < runs; i++) {
		check_run(&options, seed + i, &r);
		add(&sum, &r);
		if (r.wrong && !wrong++)
			fprintf(stderr,
				"seed %" PRIu64 ": %s (%" PRIu64 " misordered, %" PRIu64
				" counted late)\n",
				seed + i, r.wrong, r.misordered, r.late + r.no_entry);
	}
	printf("runs %" PRIu64 ", wrong %" PRIu64 "\n", runs, wrong);
	printf("packets %" PRIu64 ", lost %" PRIu64 ", refused %" PRIu64 ", held %" PRIu64 "\n",
	       sum.sent, sum.lost, sum.refused, sum.held);
	printf("reroutes %" PRIu64 "; holds ended by tail %" PRIu64 ", proof %" PRIu64
	       ", timer %" PRIu64 ", bound %" PRIu64 "\n",
	       sum.reroutes, sum.by_tail, sum.by_proof, sum.by_timer, sum.by_bound);
	printf("misordered %" PRIu64 ", counted late %" PRIu64 ", without an entry %" PRIu64 "\n",
	       sum.misordered, sum.late, sum.no_entry);
	return wrong != 0;
}

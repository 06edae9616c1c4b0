/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Results as tables and as JSON. Seeds of one combination make one row: mean and the 95 %
 * confidence interval of the mean (Student's t). Floating point serves only to show.
 */
#include "reorder/sim/sim.h"

#include <math.h>
#include <string.h>

struct spread {
	double mean, half; /* half the interval */
};

static struct spread spread_of(const double *x, unsigned n)
{
	static const double t[] = {0,	  12.71, 4.303, 3.182, 2.776,
				   2.571, 2.447, 2.365, 2.306, 2.262};
	struct spread s = {0, 0};
	double squares = 0;

	for (unsigned i = 0; i < n; i++)
		s.mean += x[i] / n;
	for (unsigned i = 0; i < n; i++)
		squares += (x[i] - s.mean) * (x[i] - s.mean);
	if (n > 1)
		s.half = (n - 1 < 10 ? t[n - 1] : 2.0) * sqrt(squares / (n - 1) / n);
	return s;
}

static bool same_row(const struct result *a, const struct result *b)
{
	return !strcmp(a->method, b->method) && !strcmp(a->traffic, b->traffic) &&
	       a->load == b->load && a->queues == b->queues && a->irn == b->irn;
}

/* A field of each of a row's results, as a spread. */
static struct spread field(const struct result *r, unsigned n, size_t offset, double unit)
{
	double x[MAX_LISTED];

	for (unsigned i = 0; i < n; i++) {
		uint64_t value;

		memcpy(&value, (const char *)&r[i] + offset, sizeof(value));
		x[i] = (double)value / unit;
	}
	return spread_of(x, n);
}

#define FIELD(name, unit) field(r, n, offsetof(struct result, name), unit)

static void label(const struct result *r, char *text, size_t size)
{
	if (!strcmp(r->method, "conweave") || !strcmp(r->method, "shared"))
		snprintf(text, size, r->queues ? "%s, %u queue%s" : "%s, unlimited", r->method,
			 r->queues, r->queues == 1 ? "" : "s");
	else
		snprintf(text, size, "%s", r->method);
}

static void slowdown_row(const struct result *r, unsigned n)
{
	struct spread average = FIELD(average, 1e3), p99 = FIELD(p99, 1e3);
	char name[40];

	label(r, name, sizeof(name));
	printf("%-20s %7.2f", name, average.mean);
	if (n > 1)
		printf(" ±%-5.2f", average.half);
	printf(" %7.2f %7.2f %7.2f", FIELD(p50, 1e3).mean, FIELD(p95, 1e3).mean, p99.mean);
	if (n > 1)
		printf(" ±%-5.2f", p99.half);
	printf(" %7.2f   %7.2f %7.2f\n", FIELD(p999, 1e3).mean, FIELD(average_small, 1e3).mean,
	       FIELD(average_large, 1e3).mean);
}

static void network_row(const struct result *r, unsigned n)
{
	char name[40];

	label(r, name, sizeof(name));
	printf("%-20s %9.0f %8.0f %8.0f %8.0f %7.0f %6.0f %6.0f %7.1f %6.1f %6.2f\n", name,
	       FIELD(nic_out_of_order, 1).mean, FIELD(retransmitted, 1).mean, FIELD(drops, 1).mean,
	       FIELD(reroutes, 1).mean, FIELD(timer_releases, 1).mean, FIELD(pauses, 1).mean,
	       FIELD(queues_max, 1).mean, FIELD(held_bytes_max, 1e3).mean,
	       FIELD(buffer_max, 1e6).mean,
	       FIELD(control_bytes, 1).mean * 100 /
		       (FIELD(data_packets, 1).mean * (MTU + HEADERS)));
}

static void estimator_row(const struct result *r, unsigned n)
{
	if (!r->predictions)
		return;
	printf("when the old path's last packet comes, %s %u %%: mean error %.2f us by sample "
	       "(%.0f %% too early), %.2f us by M/G/1 (%.0f %%): ratio %.2f\n",
	       r->traffic, r->load, FIELD(error_sample, 1e6).mean, FIELD(early_sample, 10).mean,
	       FIELD(error_mg1, 1e6).mean, FIELD(early_mg1, 10).mean,
	       FIELD(error_sample, 1).mean / FIELD(error_mg1, 1).mean);
}

typedef void row_function(const struct result *r, unsigned n);

static void rows(const struct result *results, unsigned n, row_function *row)
{
	for (unsigned i = 0, to; i < n; i = to) {
		for (to = i + 1;
		     to < n && to - i < MAX_LISTED && same_row(&results[i], &results[to]);)
			to++;
		row(&results[i], to - i);
	}
}

static void speed(const struct result *results, unsigned n)
{
	double hops = 0, us = 0;

	for (unsigned i = 0; i < n; i++) {
		hops += (double)results[i].hops;
		us += (double)results[i].cpu_us;
	}
	if (us > 0)
		printf("%.0f million packet-hops, %.2f million per CPU second\n", hops / 1e6,
		       hops / us);
}

void report_tables(const struct options *o, const struct result *results, unsigned n)
{
	for (unsigned i = 0, to; i < n; i = to) {
		const struct result *r = &results[i];

		for (to = i + 1; to < n && r->load == results[to].load &&
				 !strcmp(r->traffic, results[to].traffic);)
			to++;
		printf("%s, %u %% load, %s, %s, %llu flows%s\n\n", r->traffic, r->load, o->topology,
		       r->irn ? "IRN" : "lossless", (unsigned long long)r->flows,
		       o->seeds > 1 ? ", mean of the seeds and 95 % confidence" : "");
		printf("FCT slowdown         average%s     p50     p95     p99%s   p99.9     "
		       "<1BDP   >1BDP\n",
		       o->seeds > 1 ? "       " : "", o->seeds > 1 ? "       " : "");
		rows(r, to - i, slowdown_row);
		printf("\nnetwork              NIC o.o.o   resent    drops reroutes  timers pauses "
		       "queues held KB buf MB  own %%\n");
		rows(r, to - i, network_row);
		printf("\n");
		rows(r, to - i, estimator_row);
	}
	speed(results, n);
}

#define NUMBER(name) printf(", \"" #name "\": %llu", (unsigned long long)r->name)

static void json_one(const struct options *o, const struct result *r)
{
	printf("{\"lb\": \"%s\", \"workload\": \"", r->method);
	for (const char *c = r->traffic; *c; c++)
		if ((unsigned char)*c >= ' ')
			printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	printf("\", \"topology\": \"%s\", \"load\": %u, \"seed\": %u, \"queues\": %u, \"irn\": %s",
	       o->topology, r->load, r->seed, r->queues, r->irn ? "true" : "false");
	printf(", \"slowdown\": {\"average\": %.3f, \"p50\": %.3f, \"p95\": %.3f, \"p99\": %.3f, "
	       "\"p999\": %.3f, \"average_small\": %.3f, \"average_large\": %.3f}",
	       (double)r->average / 1e3, (double)r->p50 / 1e3, (double)r->p95 / 1e3,
	       (double)r->p99 / 1e3, (double)r->p999 / 1e3, (double)r->average_small / 1e3,
	       (double)r->average_large / 1e3);
	NUMBER(flows);
	NUMBER(unfinished);
	NUMBER(data_packets);
	NUMBER(hops);
	NUMBER(events);
	NUMBER(cpu_us);
	NUMBER(drops);
	NUMBER(retransmitted);
	NUMBER(nic_out_of_order);
	NUMBER(nacks);
	NUMBER(timeouts);
	NUMBER(marks);
	NUMBER(pauses);
	NUMBER(reroutes);
	NUMBER(held);
	NUMBER(by_tail);
	NUMBER(by_proof);
	NUMBER(by_timer);
	NUMBER(by_bound);
	NUMBER(timer_releases);
	NUMBER(held_packets_max);
	NUMBER(held_bytes_max);
	NUMBER(queues_max);
	NUMBER(buffer_max);
	NUMBER(control_bytes);
	NUMBER(error_sample);
	NUMBER(error_mg1);
	printf(", \"digest\": \"%016llx\", \"broken\": \"%s\", \"bands\": [",
	       (unsigned long long)r->digest, r->broken);
	for (unsigned b = 0; b < FCT_BANDS; b++)
		printf("%s{\"to\": %llu, \"average\": %.3f, \"p99\": %.3f}", b ? ", " : "",
		       (unsigned long long)r->band_size[b], (double)r->band_average[b] / 1e3,
		       (double)r->band_p99[b] / 1e3);
	printf("]}");
}

void report_json(const struct options *o, const struct result *results, unsigned n)
{
	if (n != 1)
		printf("[");
	for (unsigned i = 0; i < n; i++) {
		printf(i ? ",\n" : "");
		json_one(o, &results[i]);
	}
	printf(n != 1 ? "]\n" : "\n");
}

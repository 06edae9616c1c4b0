/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fabric-sim: what a user asks for, and what a run yields. */
#ifndef FABRIC_SIM_OPTIONS_H
#define FABRIC_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_SLOW   32
#define MAX_LISTED 32

struct slow_link {
	uint16_t tor, up;
	uint64_t rate;
};

struct options {
	/* what is swept: each combination is a run */
	const char *lb[MAX_LISTED], *workload[MAX_LISTED];
	unsigned lbs, workloads, loads, seeds, queue_counts;
	uint32_t load_list[MAX_LISTED], seed_list[MAX_LISTED], queue_list[MAX_LISTED];
	/* of one run */
	const char *method, *traffic;
	uint32_t load, seed, queues; /* queues 0: as many as there are flows */
	bool fat;
	uint32_t leaves, spines, hosts, k;
	uint64_t rate;
	int64_t delay, duration, warmup;
	int64_t pause_time; /* 0: until RESUME */
	bool irn, held_uncharged, no_ecn, ns3;
	uint64_t buffer;
	struct slow_link slow[MAX_SLOW];
	unsigned slows;
	const char *flow_file, *fct_file, *plot, *topology;
	bool json, jobs_only, quiet, csv;
	unsigned jobs;
	/* of the method "shared" */
	int64_t high, low, gain, most, rest, pace, fresh, hold, margin;
	bool estimator_mg1, sw;
	uint32_t budget;
	uint32_t header; /* bytes of shim that are charged: 12, or 0 */
};

#define FCT_BANDS 20
/* What is left of a run: fixed size, so that it goes through a pipe. Slowdowns in thousandths. */
struct result {
	char method[16], traffic[64];
	uint32_t load, seed, queues, irn;
	uint64_t flows, unfinished, digest;
	uint64_t average, p50, p95, p99, p999;
	uint64_t average_small, p99_small, average_large, p99_large;
	uint64_t hops, events, data_packets, drops, retransmitted, pauses, marks;
	uint64_t nic_out_of_order, nacks, timeouts, reroutes, held, timer_releases;
	uint64_t held_packets_max, held_bytes_max, queues_max, buffer_max, control_bytes;
	uint64_t error_sample, error_mg1, predictions, early_sample, early_mg1; /* ps */
	uint64_t by_tail, by_proof, by_timer, by_bound, shared_holds, far;
	uint64_t cpu_us, duration; /* duration: simulated ps */
	uint64_t band_size[FCT_BANDS], band_average[FCT_BANDS], band_p99[FCT_BANDS];
	char broken[96];
};

int options_parse(struct options *o, int argc, char **argv);
/* The commands of a sweep, one a run, on stdout. */
void options_print_jobs(const struct options *o, const char *program);

void report_tables(const struct options *o, const struct result *results, unsigned n);
void report_json(const struct options *o, const struct result *results, unsigned n);
int plot_fct(const struct options *o, const struct result *results, unsigned n);

#endif

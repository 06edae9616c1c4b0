/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What Prometheus is told: the cache's counters and the daemon's, each family with its HELP and TYPE. The
 * loop's thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/control_client.h"
#include "daemons/sacached/counters.h"
#include "daemons/sacached/metrics.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/warm.h"

static void family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void single(FILE *out, const char *name, const char *type, const char *help, int64_t value)
{
	family(out, name, type, help);
	fprintf(out, "%s %" PRId64 "\n", name, value);
}

static void cache_counters(FILE *out, struct sacached *d)
{
	struct sacache_stats stats;

	sacache_stats(d->cache, &stats);
	for (unsigned i = 0; i < counters_count; i++) {
		const struct counter *counter = &counters[i];

		if (counter->help)
			family(out, counter->metric, counter->gauge ? "gauge" : "counter",
			       counter->help);
		fprintf(out, "%s%s %" PRIu64 "\n", counter->metric, counter->labels,
			counter_value(counter, &stats));
	}
	single(out, "sacache_max_entries", "gauge", "Entries that the table may have.",
	       d->config.cache.max_entries);
}

static void of_ports(FILE *out, struct sacached *d, const char *name, const char *help,
		     bool (*value)(struct sacached *d, const struct sacached_port *port))
{
	family(out, name, "gauge", help);
	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].open)
			fprintf(out, "%s{port=\"%s:%u\"} %d\n", name, d->ports[i].ca,
				d->ports[i].portnum, value(d, &d->ports[i]));
}

static bool is_active(struct sacached *d, const struct sacached_port *port)
{
	return port->active;
}

static bool is_caching(struct sacached *d, const struct sacached_port *port)
{
	return sacache_caching(d->cache, port->number);
}

static void clients(FILE *out, struct sacached *d)
{
	const struct acm_stats *stats = acm_server_stats(d->acm);

	single(out, "sacached_clients", "gauge", "Programs that are connected.", stats->clients);
	single(out, "sacached_clients_accepted_total", "counter", "Connections of programs.",
	       stats->accepted);
	single(out, "sacached_clients_dropped_total", "counter",
	       "Programs that were disconnected for what they sent.", stats->dropped);
	single(out, "sacached_clients_full_total", "counter",
	       "Times that there were too many programs to take another.", stats->full);
	family(out, "sacached_requests_total", "counter", "Requests of programs.");
	for (unsigned i = 0; i < ACM_OPERATIONS; i++)
		fprintf(out, "sacached_requests_total{operation=\"%s\"} %" PRIu64 "\n",
			control_acm_operation(i), stats->requests[i]);
	family(out, "sacached_answers_total", "counter", "Answers to programs, by their status.");
	for (unsigned i = 0; i < ACM_STATUSES; i++)
		if (control_acm_status(i))
			fprintf(out, "sacached_answers_total{status=\"%s\"} %" PRIu64 "\n",
				control_acm_status(i), stats->answers[i]);
}

static void kernel(FILE *out, const struct sacached *d)
{
	struct netlink_stats stats;

	netlink_stats(d->netlink, &stats);
	single(out, "sacached_kernel_listening", "gauge",
	       "Whether the kernel's questions are listened to.", stats.listening);
	family(out, "sacached_kernel_questions_total", "counter", "Questions of the kernel.");
	fprintf(out, "sacached_kernel_questions_total{what=\"path\"} %" PRIu64 "\n", stats.paths);
	fprintf(out, "sacached_kernel_questions_total{what=\"address\"} %" PRIu64 "\n",
		stats.addresses);
	fprintf(out, "sacached_kernel_questions_total{what=\"invalid\"} %" PRIu64 "\n",
		stats.invalid);
	family(out, "sacached_kernel_answers_total", "counter",
	       "What became of the kernel's questions; where it is no answer it asks the SA.");
	fprintf(out, "sacached_kernel_answers_total{result=\"good\"} %" PRIu64 "\n",
		stats.answered);
	fprintf(out, "sacached_kernel_answers_total{result=\"error\"} %" PRIu64 "\n", stats.errors);
	fprintf(out, "sacached_kernel_answers_total{result=\"late\"} %" PRIu64 "\n", stats.late);
	single(out, "sacached_kernel_overruns_total", "counter",
	       "Times that the kernel asked faster than was read.", (int64_t)stats.overruns);
}

static void state(FILE *out, const struct warm_status *warm)
{
	single(out, "sacached_start_time_seconds", "gauge", "When the daemon was started.",
	       warm->started);
	single(out, "sacached_state_loaded_records", "gauge",
	       "Records that the state file had at the start.", (int64_t)warm->records);
	single(out, "sacached_state_saved_records", "gauge",
	       "Records that were saved the last time.", (int64_t)warm->saved);
	single(out, "sacached_state_last_save_timestamp_seconds", "gauge",
	       "When the state was saved; 0: not since the start.", warm->saved_at);
	family(out, "sacached_state_saves_total", "counter", "Tries to save the state.");
	fprintf(out, "sacached_state_saves_total{result=\"good\"} %" PRIu64 "\n", warm->saves);
	fprintf(out, "sacached_state_saves_total{result=\"error\"} %" PRIu64 "\n",
		warm->save_errors);
	single(out, "sacached_imported_records", "gauge", "Records from OpenSM's dump of paths.",
	       (int64_t)warm->imported);
	single(out, "sacached_prefetched_paths_total", "counter",
	       "Paths that the SA was asked for ahead.", (int64_t)warm->prefetched);
}

char *metrics_text(struct sacached *d, size_t *length)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, length);
	bool failed;

	if (!out)
		return NULL;
	family(out, "sacached_build_info", "gauge", "The version of the daemon.");
	fprintf(out, "sacached_build_info{version=\"%s\"} 1\n", URXE_VERSION);
	cache_counters(out, d);
	of_ports(out, d, "sacached_port_active", "Whether the port is active.", is_active);
	of_ports(out, d, "sacached_port_caching",
		 "Whether caching is on for the port's subnet, by the SM or by policy.",
		 is_caching);
	clients(out, d);
	kernel(out, d);
	state(out, warm_status(d->warm));
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

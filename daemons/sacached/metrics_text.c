/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's metrics for Prometheus: the counters of the cache, the ports and the daemon. The
 * loop's thread.
 */
#include "daemons/sacached/metrics_text.h"
#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/counters.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/warm.h"

static void cache(FILE *out, struct sacached *d)
{
	struct sacache_stats stats;

	sacache_stats(d->cache, &stats, sizeof(stats));
	counters_print(out, &counters_of_cache, &stats);
	counters_family(out, "sacache_max_entries", true, "Entries that the table may have.");
	fprintf(out, "sacache_max_entries %u\n", d->config.cache.max_entries);
}

static void of_ports(FILE *out, struct sacached *d, const char *name, const char *help,
		     bool (*value)(struct sacached *d, const struct sacached_port *port))
{
	counters_family(out, name, true, help);
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

void metrics_write(FILE *out, void *arg)
{
	struct netlink_stats kernel;
	struct sacached *d = arg;

	cache(out, d);
	of_ports(out, d, "sacached_port_active", "Whether the port is active.", is_active);
	of_ports(out, d, "sacached_port_caching",
		 "Whether caching is on for the port's subnet, by the SM or by policy.",
		 is_caching);
	counters_print(out, &counters_of_clients, acm_server_stats(d->acm));
	counters_print(out, &counters_of_requests, acm_server_stats(d->acm));
	counters_print(out, &counters_of_answers, acm_server_stats(d->acm));
	netlink_stats(d->netlink, &kernel);
	counters_print(out, &counters_of_kernel, &kernel);
	counters_print(out, &counters_of_state, warm_status(d->warm));
}

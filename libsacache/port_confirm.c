/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Records after a client re-registration, or with a new SM: the SA has to confirm each before it is
 * used again (policy.c). Where many are used, one GetTable of all paths from the port does that:
 *
 *	queries one by one ──price of the table──► table: callers wait ──► queries one by one
 *
 * A table of N paths costs the SA as much as N / TABLE_RATIO queries. A port asks for it after that
 * many queries, so that it never costs the SA more than twice what the cheaper of both would. If
 * the port was away it asks at once: it re-registers alone, not together with the whole subnet.
 *
 * What happens to the port while a table is on its way outdates that: its callers wait for another
 * one. Before the first question the port's events are read, so that what has happened does not.
 *
 * A record is confirmed if the table has the same path, and replaced if just one path of the table
 * answers its key; all others are queried one by one, since the SA chooses among several.
 * Called under port->lock.
 */
#include "libsacache/port.h"

#define TABLE_RATIO 16
#define PATIENCE    4	 /* response timeouts that callers wait for the table */
#define ALONE_MS    5000 /* between the port's return and what has its records confirmed */

/* Components that a table of all paths says nothing about: with QoS the path may depend on them. */
#define BEYOND (SACACHE_SERVICE_ID | SACACHE_QOS_CLASS | SACACHE_TCLASS)

static uint32_t generation_of(const struct sa_port *port)
{
	return atomic_load(&port->cache->subnets[port->number].generation);
}

/*
 * The records are to be confirmed because the port was away, or this program: it may have begun too
 * late to see that the port was told to register again, and finds an SM, or another LID than its
 * records have, soon after it has opened the port.
 */
static bool was_away(const struct sa_port *port)
{
	uint64_t outdated = atomic_load(&port->cache->subnets[port->number].outdated);
	uint64_t apart =
		outdated > port->returned ? outdated - port->returned : port->returned - outdated;

	return !port->active || apart < ALONE_MS;
}

/* The first record of a generation is to be confirmed. LIDs are assigned from 1 on, so that the
 * highest one that is known tells how many paths there may be. */
static void begin(struct sa_port *port, uint32_t generation)
{
	struct sa_confirm *confirm = &port->confirm;
	uint16_t highest;
	unsigned records = sa_cache_unconfirmed(port->cache, port->number, port->client.port_gid,
						BEYOND, &highest);
	unsigned price = highest / TABLE_RATIO + 1;

	confirm->generation = generation;
	confirm->state = records > price ? SA_CONFIRM_SINGLY : SA_CONFIRM_OVER;
	confirm->queries = was_away(port) ? 0 : price;
}

static bool start_table(struct sa_port *port, uint64_t now)
{
	const struct sacache_key all = {.port = port->number};
	struct sa_confirm *confirm = &port->confirm;
	struct sa_query *query = sa_client_find(&port->client, &all, true);
	int error;

	if (!query) {
		query = sa_client_submit(&port->client, &all, true, now, &error);
		if (!query)
			return false;
		query->generation = confirm->generation;
		sa_count(port->cache, SA_QUERY_TABLE);
	}
	if (query->generation != confirm->generation) {
		sa_client_ask_again(&port->client, query, now);
		query->generation = confirm->generation;
	}
	query->confirms = true;
	confirm->until = now + (uint64_t)PATIENCE * port->cache->attr.response_timeout;
	return true;
}

bool sa_confirm_begins(const struct sa_port *port)
{
	return port->confirm.generation != generation_of(port);
}

bool sa_confirm_awaits(struct sa_port *port, const struct sacache_key *key)
{
	struct sa_confirm *confirm = &port->confirm;

	if (sa_confirm_begins(port))
		begin(port, generation_of(port));
	if (confirm->state == SA_CONFIRM_OVER || key->mask & BEYOND ||
	    (key->mask & SACACHE_SGID && memcmp(key->sgid, port->client.port_gid, 16) != 0))
		return false;
	if (confirm->state == SA_CONFIRM_TABLE)
		return true;
	if (confirm->queries) {
		confirm->queries--;
		return false;
	}
	confirm->state =
		start_table(port, port->cache->clock()) ? SA_CONFIRM_TABLE : SA_CONFIRM_OVER;
	return confirm->state == SA_CONFIRM_TABLE;
}

void sa_confirm_done(struct sa_port *port, const struct sa_query *query, int status,
		     const uint8_t *records, size_t count, size_t stride)
{
	if (!status)
		sa_cache_confirm(port->cache, port->number, query->generation, BEYOND, records,
				 count, stride);
	if (port->confirm.generation == query->generation)
		port->confirm.state = SA_CONFIRM_OVER;
}

void sa_confirm_run(struct sa_port *port, uint64_t now)
{
	if (port->confirm.state == SA_CONFIRM_TABLE &&
	    (now >= port->confirm.until || sa_confirm_begins(port)))
		port->confirm.state = SA_CONFIRM_OVER;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The daemon's state as JSON. Pure functions.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/json.h"
#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/control_commands.h"
#include "daemons/sacached/counters.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/warm.h"

/* The standard's codes (IBTA 15.2.5.16, table 207) in Gbit/s; 0: not assigned. */
static double gigabits(uint8_t rate)
{
	static const double of[] = {
		[2] = 2.5,  [3] = 10,	[4] = 30,   [5] = 5,	[6] = 20,    [7] = 40,
		[8] = 60,   [9] = 80,	[10] = 120, [11] = 14,	[12] = 56,   [13] = 112,
		[14] = 168, [15] = 25,	[16] = 100, [17] = 200, [18] = 300,  [19] = 28,
		[20] = 50,  [21] = 400, [22] = 600, [23] = 800, [24] = 1200,
	};

	return rate < sizeof(of) / sizeof(of[0]) ? of[rate] : 0;
}

struct json_object *control_json_path(const struct sacache_path *path)
{
	static const uint8_t none[6];
	struct json_object *out = json_object_new_object();

	json_add_gid(out, "dgid", path->dgid);
	json_add_gid(out, "sgid", path->sgid);
	json_add_number(out, "dlid", path->dlid);
	json_add_number(out, "slid", path->slid);
	json_add_hex(out, "pkey", path->pkey, 4);
	json_add_number(out, "sl", path->sl);
	json_add_number(out, "mtu", path->mtu >= 1 && path->mtu <= 5 ? 128u << path->mtu : 0);
	json_add(out, "rate", json_object_new_double(gigabits(path->rate)));
	json_add(out, "lifetime_us",
		 json_object_new_double(4.096 * (double)(1ull << path->lifetime)));
	json_add_number(out, "flow_label", path->flow_label);
	json_add_number(out, "hop_limit", path->hop_limit);
	json_add_number(out, "tclass", path->tclass);
	json_add_number(out, "qos_class", path->qos_class);
	json_add_hex(out, "service_id", path->service_id, 16);
	json_add_bool(out, "reversible", path->reversible);
	json_add_bool(out, "raised", memcmp(path->reserved, none, sizeof(none)) != 0);
	return out;
}

/* Only the components that the key names. */
static struct json_object *json_key(const struct sacache_key *key)
{
	struct json_object *out = json_object_new_object();

	if (key->mask & SACACHE_DGID)
		json_add_gid(out, "dgid", key->dgid);
	if (key->mask & SACACHE_SGID)
		json_add_gid(out, "sgid", key->sgid);
	if (key->mask & SACACHE_DLID)
		json_add_number(out, "dlid", key->dlid);
	if (key->mask & SACACHE_SLID)
		json_add_number(out, "slid", key->slid);
	if (key->mask & SACACHE_PKEY)
		json_add_hex(out, "pkey", key->pkey, 4);
	if (key->mask & SACACHE_SL)
		json_add_number(out, "sl", key->sl);
	if (key->mask & SACACHE_TCLASS)
		json_add_number(out, "tclass", key->tclass);
	if (key->mask & SACACHE_SERVICE_ID)
		json_add_hex(out, "service_id", key->service_id, 16);
	if (key->mask & SACACHE_QOS_CLASS)
		json_add_number(out, "qos_class", key->qos_class);
	return out;
}

struct json_object *control_json_entry(const struct sacache_key *key,
				       const struct sacache_path *path, unsigned flags)
{
	struct json_object *out = json_object_new_object(), *entry = json_object_new_object();

	json_add_number(entry, "port", key->port);
	json_add_text(entry, "state",
		      flags & SACACHE_NEGATIVE	  ? "failure"
		      : flags & SACACHE_ASK_AGAIN ? "ask_again"
		      : flags & SACACHE_SUSPECT	  ? "suspect"
						  : "good");
	json_add(entry, "key", json_key(key));
	if (!(flags & SACACHE_NEGATIVE))
		json_add(entry, "path", control_json_path(path));
	json_add(out, "entry", entry);
	return out;
}

static struct json_object *json_ports(struct sacached *d)
{
	struct json_object *out = json_object_new_array();

	for (unsigned i = 0; i < d->nports; i++) {
		const struct sacached_port *port = &d->ports[i];
		struct json_object *one;
		char name[64];

		if (!port->open)
			continue;
		one = json_object_new_object();
		snprintf(name, sizeof(name), "%s:%u", port->ca, port->portnum);
		json_add_text(one, "name", name);
		json_add_number(one, "number", port->number);
		json_add_bool(one, "active", port->active);
		json_add_bool(one, "caching", sacache_caching(d->cache, port->number));
		json_add_gid(one, "gid", port->gids[0]);
		json_add_number(one, "lid", port->lid);
		json_add_number(one, "sm_lid", port->sm_lid);
		json_object_array_add(out, one);
	}
	return out;
}

static struct json_object *json_counters(struct sacached *d)
{
	struct json_object *out = json_object_new_object();
	struct sacache_stats stats;

	sacache_stats(d->cache, &stats, sizeof(stats));
	counters_json(out, &counters_of_cache, &stats);
	return out;
}

static struct json_object *json_warm(struct sacached *d)
{
	const struct warm_status *warm = warm_status(d->warm);
	struct json_object *out = json_object_new_object();

	json_add_text(out, "file", d->config.state_file);
	counters_json(out, &counters_of_state, warm);
	json_add_text(out, "problem", warm->problem);
	json_add_text(out, "save_error", warm->save_error ? strerror(-warm->save_error) : "");
	return out;
}

static struct json_object *json_clients(struct sacached *d)
{
	const struct acm_stats *stats = acm_server_stats(d->acm);
	struct json_object *out = json_object_new_object();
	struct json_object *requests = json_object_new_object();
	struct json_object *answers = json_object_new_object();

	counters_json(out, &counters_of_clients, stats);
	counters_json(requests, &counters_of_requests, stats);
	counters_json(answers, &counters_of_answers, stats);
	json_add(out, "requests", requests);
	json_add(out, "answers", answers);
	return out;
}

static struct json_object *json_kernel(const struct sacached *d)
{
	struct json_object *out = json_object_new_object();
	struct netlink_stats stats;

	netlink_stats(d->netlink, &stats);
	counters_json(out, &counters_of_kernel, &stats);
	return out;
}

struct json_object *control_json_status(struct sacached *d)
{
	static const char *const policies[] = {"auto", "always", "never"};
	struct json_object *out = json_object_new_object();

	json_add_text(out, "version", URXE_VERSION);
	json_add_number(out, "pid", getpid());
	json_add(out, "started", json_object_new_int64(warm_status(d->warm)->started));
	json_add_text(out, "policy", policies[d->config.cache.policy]);
	json_add_bool(out, "drop", d->config.cache.drop);
	json_add_number(out, "max_entries", d->config.cache.max_entries);
	json_add(out, "ports", json_ports(d));
	json_add(out, "counters", json_counters(d));
	if (d->acm)
		json_add(out, "clients", json_clients(d));
	json_add(out, "kernel", json_kernel(d));
	json_add(out, "state", json_warm(d));
	return out;
}

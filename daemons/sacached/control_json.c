/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached has, as JSON. json-c's functions take NULL for an object that there was no memory for.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemons/sacached/acm_server.h"
#include "daemons/sacached/control_client.h"
#include "daemons/sacached/counters.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/warm.h"

static void add(struct json_object *to, const char *key, struct json_object *value)
{
	json_object_object_add(to, key, value);
}

static void add_number(struct json_object *to, const char *key, uint64_t value)
{
	add(to, key, json_object_new_uint64(value));
}

static void add_text(struct json_object *to, const char *key, const char *value)
{
	add(to, key, json_object_new_string(value));
}

static void add_bool(struct json_object *to, const char *key, bool value)
{
	add(to, key, json_object_new_boolean(value));
}

static void add_gid(struct json_object *to, const char *key, const uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	add_text(to, key, inet_ntop(AF_INET6, gid, text, sizeof(text)));
}

static void add_hex(struct json_object *to, const char *key, uint64_t value, int digits)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%0*llx", digits, (unsigned long long)value);
	add_text(to, key, text);
}

/* The standard's codes (IBTA 15.2.5.16, table 207) in Gbit/s; 0: one that there is not. */
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

	add_gid(out, "dgid", path->dgid);
	add_gid(out, "sgid", path->sgid);
	add_number(out, "dlid", path->dlid);
	add_number(out, "slid", path->slid);
	add_hex(out, "pkey", path->pkey, 4);
	add_number(out, "sl", path->sl);
	add_number(out, "mtu", path->mtu >= 1 && path->mtu <= 5 ? 128u << path->mtu : 0);
	add(out, "rate", json_object_new_double(gigabits(path->rate)));
	add(out, "lifetime_us", json_object_new_double(4.096 * (double)(1ull << path->lifetime)));
	add_number(out, "flow_label", path->flow_label);
	add_number(out, "hop_limit", path->hop_limit);
	add_number(out, "tclass", path->tclass);
	add_number(out, "qos_class", path->qos_class);
	add_hex(out, "service_id", path->service_id, 16);
	add_bool(out, "reversible", path->reversible);
	add_bool(out, "raised", memcmp(path->reserved, none, sizeof(none)) != 0);
	return out;
}

/* Only what the key names. */
static struct json_object *json_key(const struct sacache_key *key)
{
	struct json_object *out = json_object_new_object();

	if (key->mask & SACACHE_DGID)
		add_gid(out, "dgid", key->dgid);
	if (key->mask & SACACHE_SGID)
		add_gid(out, "sgid", key->sgid);
	if (key->mask & SACACHE_DLID)
		add_number(out, "dlid", key->dlid);
	if (key->mask & SACACHE_SLID)
		add_number(out, "slid", key->slid);
	if (key->mask & SACACHE_PKEY)
		add_hex(out, "pkey", key->pkey, 4);
	if (key->mask & SACACHE_SL)
		add_number(out, "sl", key->sl);
	if (key->mask & SACACHE_TCLASS)
		add_number(out, "tclass", key->tclass);
	if (key->mask & SACACHE_SERVICE_ID)
		add_hex(out, "service_id", key->service_id, 16);
	if (key->mask & SACACHE_QOS_CLASS)
		add_number(out, "qos_class", key->qos_class);
	return out;
}

struct json_object *control_json_entry(const struct sacache_key *key,
				       const struct sacache_path *path, unsigned flags)
{
	struct json_object *out = json_object_new_object(), *entry = json_object_new_object();

	add_number(entry, "port", key->port);
	add_text(entry, "state",
		 flags & SACACHE_NEGATIVE    ? "failure"
		 : flags & SACACHE_ASK_AGAIN ? "ask_again"
		 : flags & SACACHE_SUSPECT   ? "suspect"
					     : "good");
	add(entry, "key", json_key(key));
	if (!(flags & SACACHE_NEGATIVE))
		add(entry, "path", control_json_path(path));
	add(out, "entry", entry);
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
		add_text(one, "name", name);
		add_number(one, "number", port->number);
		add_bool(one, "active", port->active);
		add_bool(one, "caching", sacache_caching(d->cache, port->number));
		add_gid(one, "gid", port->gids[0]);
		add_number(one, "lid", port->lid);
		add_number(one, "sm_lid", port->sm_lid);
		json_object_array_add(out, one);
	}
	return out;
}

static struct json_object *json_counters(struct sacached *d)
{
	struct json_object *out = json_object_new_object();
	struct sacache_stats stats;

	sacache_stats(d->cache, &stats);
	for (unsigned i = 0; i < counters_count; i++)
		add_number(out, counters[i].name, counter_value(&counters[i], &stats));
	return out;
}

static struct json_object *json_warm(struct sacached *d)
{
	const struct warm_status *warm = warm_status(d->warm);
	struct json_object *out = json_object_new_object();

	add_text(out, "file", d->config.state_file);
	add_bool(out, "tried", warm->loaded);
	add_number(out, "loaded", warm->records);
	add_number(out, "ask_again", warm->ask_again);
	add_text(out, "problem", warm->problem);
	add_number(out, "saves", warm->saves);
	add_number(out, "save_errors", warm->save_errors);
	add_text(out, "save_error", warm->save_error ? strerror(-warm->save_error) : "");
	add(out, "saved_at", json_object_new_int64(warm->saved_at));
	add_number(out, "saved", warm->saved);
	add_number(out, "imported", warm->imported);
	add_bool(out, "prefetching", warm->prefetching);
	add_number(out, "prefetched", warm->prefetched);
	return out;
}

static struct json_object *json_clients(struct sacached *d)
{
	const struct acm_stats *stats = acm_server_stats(d->acm);
	struct json_object *out = json_object_new_object();
	struct json_object *requests = json_object_new_object();
	struct json_object *answers = json_object_new_object();

	add_number(out, "now", stats->clients);
	add_number(out, "accepted", stats->accepted);
	add_number(out, "kept", stats->kept);
	add_number(out, "dropped", stats->dropped);
	add_number(out, "full", stats->full);
	for (unsigned i = 0; i < ACM_OPERATIONS; i++)
		add_number(requests, control_acm_operation(i), stats->requests[i]);
	for (unsigned i = 0; i < ACM_STATUSES; i++)
		if (control_acm_status(i))
			add_number(answers, control_acm_status(i), stats->answers[i]);
	add(out, "requests", requests);
	add(out, "answers", answers);
	return out;
}

static struct json_object *json_kernel(const struct sacached *d)
{
	struct json_object *out = json_object_new_object();
	struct netlink_stats stats;

	netlink_stats(d->netlink, &stats);
	add_bool(out, "listening", stats.listening);
	add_number(out, "paths", stats.paths);
	add_number(out, "addresses", stats.addresses);
	add_number(out, "answered", stats.answered);
	add_number(out, "errors", stats.errors);
	add_number(out, "invalid", stats.invalid);
	add_number(out, "late", stats.late);
	add_number(out, "overruns", stats.overruns);
	return out;
}

const char *control_acm_operation(unsigned operation)
{
	static const char *const names[ACM_OPERATIONS] = {
		[ACM_OP_RESOLVE] = "resolve",
		[ACM_OP_PERF] = "perf",
		[ACM_OP_EP] = "ep",
	};

	return names[operation];
}

const char *control_acm_status(unsigned status)
{
	static const char *const names[ACM_STATUSES] = {
		[ACM_SUCCESS] = "success",
		[ACM_ENOMEM] = "no_memory",
		[ACM_EINVAL] = "invalid",
		[ACM_ENODATA] = "no_data",
		[ACM_ENOTCONN] = "not_connected",
		[ACM_ETIMEDOUT] = "timed_out",
		[ACM_ESRCADDR] = "source_address",
		[ACM_ESRCTYPE] = "source_type",
		[ACM_EDESTADDR] = "destination_address",
		[ACM_EDESTTYPE] = "destination_type",
	};

	return names[status];
}

struct json_object *control_json_status(struct sacached *d)
{
	static const char *const policies[] = {"auto", "always", "never"};
	struct json_object *out = json_object_new_object();

	add_text(out, "version", URXE_VERSION);
	add_number(out, "pid", getpid());
	add(out, "started", json_object_new_int64(warm_status(d->warm)->started));
	add_text(out, "policy", policies[d->config.cache.policy]);
	add_bool(out, "drop", d->config.cache.drop);
	add_number(out, "max_entries", d->config.cache.max_entries);
	add(out, "ports", json_ports(d));
	add(out, "counters", json_counters(d));
	if (d->acm)
		add(out, "clients", json_clients(d));
	add(out, "kernel", json_kernel(d));
	add(out, "state", json_warm(d));
	return out;
}

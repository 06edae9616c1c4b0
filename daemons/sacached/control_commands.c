/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The commands of the control socket, one function for each. A command that waits for the SA or for
 * the disk leaves its client busy and completes it later; a long list is sent in parts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/control.h"
#include "daemons/common/json.h"
#include "daemons/sacached/addresses.h"
#include "daemons/sacached/control_commands.h"
#include "daemons/sacached/names.h"
#include "daemons/sacached/resolve.h"
#include "daemons/sacached/warm.h"

#define LIST_PART 64 /* entries at a time: some ms */
#define LOOKUP_MS 10000
#define MAX_GIDS  65536

struct filter {
	bool by_gid, by_lid, by_guid;
	uint8_t gid[16];
	uint8_t guid[8];
	uint16_t lid;
	unsigned flags; /* enum sacache_entry_flags: only those with one of them; 0: all */
};

/* A command that waits for a result. */
struct waiting {
	struct resolve *resolve;
	uint32_t list_at;
	uint64_t listed;
	struct filter filter;
};

static struct sacached *sacached_of(const struct control_client *client)
{
	return control_daemon(client);
}

/* Errors of the cache, in an operator's words. */
static const char *error_text(int error)
{
	switch (error) {
	case -ENOENT: return "not in the table";
	case -ESTALE: return "in the table, but to be asked for again";
	case -EHOSTUNREACH: return "the SA knows no such path";
	case -ETIMEDOUT: return "the SA did not answer in time";
	case -EBUSY: return "the SA is busy";
	case -EAGAIN: return "too many questions to the SA are waiting";
	case -EPROTO: return "the SA's answer makes no sense";
	case -EPERM: return "the SA refuses to answer";
	case -ENODEV: return "there is no such port, or none that is active";
	default: return strerror(-error);
	}
}

/* Parsers of a request's members. An invalid member is answered with an error. */

static bool parse_guid(const char *text, uint8_t guid[8])
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 16);
	if (!*text || *text == '-' || *end || errno || !value)
		return false;
	for (unsigned i = 0; i < 8; i++)
		guid[i] = value >> (56 - 8 * i);
	return true;
}

/* gid, lid or guid, at most one of them. False: the request has been answered with an error. */
static bool get_filter(struct control_client *client, struct json_object *request,
		       struct filter *filter)
{
	const char *gid, *guid;
	uint64_t lid = 0;
	int has_lid = json_get_number(request, "lid", 0xbfff, &lid);

	memset(filter, 0, sizeof(*filter));
	if (!json_get_text(request, "gid", &gid) ||
	    (gid && inet_pton(AF_INET6, gid, filter->gid) != 1))
		control_fail(client, "that is no GID");
	else if (!json_get_text(request, "guid", &guid) ||
		 (guid && !parse_guid(guid, filter->guid)))
		control_fail(client, "that is no GUID");
	else if (has_lid < 0 || (has_lid && !lid))
		control_fail(client, "a LID is a number from 1 to 49151");
	else if (!!gid + !!guid + has_lid > 1)
		control_fail(client, "only one of a GID, a LID and a GUID");
	else {
		filter->by_gid = gid;
		filter->by_guid = guid;
		filter->by_lid = has_lid;
		filter->lid = lid;
		return true;
	}
	return false;
}

/* The port that a request names by number, else one in gid's subnet, else the first. */
static const struct sacached_port *get_port(struct control_client *client,
					    struct json_object *request, const uint8_t *gid)
{
	const struct sacached_port *port;
	uint64_t number = 0;
	int has = json_get_number(request, "port", SACACHE_MAX_PORTS - 1, &number);

	if (has)
		port = has < 0 ? NULL : sacached_port_by_number(sacached_of(client), number);
	else
		port = sacached_port_by_prefix(sacached_of(client), gid);
	if (!port)
		control_fail(client, has   ? "there is no such port"
				     : gid ? "no active port leads to that subnet"
					   : "there is no active port");
	return port;
}

static void status(struct control_client *client, struct json_object *request)
{
	control_ok(client, control_json_status(sacached_of(client)));
}

/* Lists: one part, and the next one when that has been sent. */

static bool matches(const struct filter *filter, const struct sacache_key *key,
		    const struct sacache_path *path, unsigned flags)
{
	if (filter->by_gid && memcmp(path->dgid, filter->gid, 16) != 0)
		return false;
	if (filter->by_guid && memcmp(path->dgid + 8, filter->guid, 8) != 0)
		return false;
	if (filter->by_lid && path->dlid != filter->lid)
		return false;
	return !filter->flags || flags & filter->flags;
}

struct part {
	unsigned count;
	struct {
		struct sacache_key key;
		struct sacache_path path;
		unsigned flags;
	} entry[LIST_PART];
};

/* Under the table's lock, so this only copies. */
static int copy_entry(void *arg, const struct sacache_key *key, const struct sacache_path *path,
		      unsigned flags)
{
	struct part *part = arg;

	part->entry[part->count].key = *key;
	part->entry[part->count].path = *path;
	part->entry[part->count++].flags = flags;
	return 0;
}

static bool list_more(struct control_client *client)
{
	struct sacached *d = control_daemon(client);
	struct waiting *waiting = control_state(client);
	struct part part = {.count = 0};
	struct json_object *end;

	if (!sacache_walk_part(d->cache, &waiting->list_at, LIST_PART, copy_entry, &part)) {
		end = json_object_new_object();
		json_add_number(end, "entries", waiting->listed);
		control_ok(client, end);
		return false;
	}
	for (unsigned i = 0; i < part.count; i++) {
		if (!matches(&waiting->filter, &part.entry[i].key, &part.entry[i].path,
			     part.entry[i].flags))
			continue;
		waiting->listed++;
		control_send(client, control_json_entry(&part.entry[i].key, &part.entry[i].path,
							part.entry[i].flags));
	}
	return true;
}

static void list(struct control_client *client, struct json_object *request)
{
	struct waiting *waiting = control_state(client);

	if (json_object_object_get_ex(request, "ip", NULL)) {
		control_fail(client, "only lookup takes an IP address");
		return;
	}
	if (!get_filter(client, request, &waiting->filter))
		return;
	if (json_get_flag(request, "suspect"))
		waiting->filter.flags |= SACACHE_SUSPECT | SACACHE_ASK_AGAIN;
	if (json_get_flag(request, "failures"))
		waiting->filter.flags |= SACACHE_NEGATIVE;
	waiting->list_at = 0;
	waiting->listed = 0;
	control_stream(client, list_more);
}

/* The lookup command. */

static void send_path(struct control_client *client, const char *from,
		      const struct sacache_path *path)
{
	struct json_object *answer = json_object_new_object();

	json_add_text(answer, "from", from);
	json_add(answer, "path", control_json_path(path));
	control_ok(client, answer);
}

static void resolved(void *arg, int status, const struct sacache_path *path)
{
	struct control_client *client = arg;
	struct waiting *waiting = control_state(client);

	waiting->resolve = NULL;
	if (status)
		control_fail(client, "%s", error_text(status));
	else
		send_path(client, "sa", path);
	control_end(client);
}

/* An IP address as the destination; false: the request has been answered with an error. */
static bool get_ip(struct control_client *client, const char *text, uint8_t gid[16])
{
	struct sacached *d = control_daemon(client);
	struct in6_addr ip;

	if (!names_parse(text, &ip))
		control_fail(client, "that is no IP address");
	else if (addresses_gid(d->addresses, &ip, gid))
		control_fail(client, "neither the neighbour table nor the hosts file has a GID for "
				     "that address");
	else
		return true;
	return false;
}

/* A lookup's constraints beside the two ends. */
static bool get_details(struct control_client *client, struct json_object *request,
			struct sacache_key *key)
{
	static const struct {
		const char *name;
		uint32_t bit;
		uint64_t most;
	} details[] = {
		{"pkey", SACACHE_PKEY, 0xffff},
		{"sl", SACACHE_SL, 15},
		{"tclass", SACACHE_TCLASS, 0xff},
		{"qos_class", SACACHE_QOS_CLASS, 0xfff},
		{"service_id", SACACHE_SERVICE_ID, UINT64_MAX},
	};

	for (unsigned i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		uint64_t value = 0;
		int has = json_get_number(request, details[i].name, details[i].most, &value);

		if (has < 0) {
			control_fail(client, "%s is a number up to %" PRIu64, details[i].name,
				     details[i].most);
			return false;
		}
		if (has)
			key->mask |= details[i].bit;
		switch (details[i].bit) {
		case SACACHE_PKEY: key->pkey = value; break;
		case SACACHE_SL: key->sl = value; break;
		case SACACHE_TCLASS: key->tclass = value; break;
		case SACACHE_QOS_CLASS: key->qos_class = value; break;
		case SACACHE_SERVICE_ID: key->service_id = value; break;
		}
	}
	return true;
}

/* The source: the one that is named, else the port, as programs would name it. */
static bool get_source(struct control_client *client, struct json_object *request,
		       const struct sacached_port *port, struct sacache_key *key)
{
	const char *sgid;
	uint64_t slid = port->lid;
	int has_slid = json_get_number(request, "slid", 0xbfff, &slid);

	if (has_slid < 0 || !json_get_text(request, "sgid", &sgid) ||
	    (sgid && inet_pton(AF_INET6, sgid, key->sgid) != 1)) {
		control_fail(client, "that is no source: a GID or a LID");
		return false;
	}
	if (sgid || (!has_slid && key->mask & SACACHE_DGID))
		key->mask |= SACACHE_SGID;
	else
		key->mask |= SACACHE_SLID;
	if (!sgid)
		memcpy(key->sgid, port->gids[0], 16);
	key->slid = slid;
	return true;
}

/* The key of a request; false: it has been answered with an error. */
static bool get_key(struct control_client *client, struct json_object *request,
		    struct sacache_key *key)
{
	const struct sacached_port *port;
	struct filter to;
	const char *ip;

	memset(key, 0, sizeof(*key));
	if (!get_filter(client, request, &to))
		return false;
	if (!json_get_text(request, "ip", &ip) ||
	    (!ip && !to.by_gid && !to.by_lid && !to.by_guid)) {
		control_fail(client, "a destination is missing: a GID, LID, GUID or IP address");
		return false;
	}
	if (ip && !get_ip(client, ip, to.gid))
		return false;
	port = get_port(client, request, ip || to.by_gid ? to.gid : NULL);
	if (!port)
		return false;
	key->port = port->number;
	key->mask = to.by_lid ? SACACHE_DLID : SACACHE_DGID;
	key->dlid = to.lid;
	memcpy(key->dgid, to.gid, 16);
	if (to.by_guid) {
		memcpy(key->dgid, port->gids[0], 8);
		memcpy(key->dgid + 8, to.guid, 8);
	}
	return get_source(client, request, port, key) && get_details(client, request, key);
}

static void lookup(struct control_client *client, struct json_object *request)
{
	struct waiting *waiting = control_state(client);
	struct sacache_path path;
	struct sacache_key key;
	int ret;

	if (!get_key(client, request, &key))
		return;
	ret = sacache_lookup(sacached_of(client)->cache, &key, &path);
	if (!ret) {
		send_path(client, "table", &path);
	} else if (json_get_flag(request, "cached") || (ret != -ENOENT && ret != -ESTALE)) {
		control_fail(client, "%s", error_text(ret));
	} else {
		waiting->resolve =
			resolve_path(sacached_of(client), &key, LOOKUP_MS, resolved, client);
		if (waiting->resolve)
			control_defer(client);
		else
			control_fail(client, "no memory");
	}
}

/* One destination for a GUID in each subnet that a port is in. */
static int flush_guid(struct sacached *d, const uint8_t guid[8])
{
	uint8_t gid[16];
	int gone = 0;

	memcpy(gid + 8, guid, 8);
	for (unsigned i = 0; i < d->nports; i++) {
		if (!d->ports[i].open)
			continue;
		memcpy(gid, d->ports[i].gids[0], 8);
		gone += sacache_flush(d->cache, gid, 0);
	}
	return gone;
}

static void flush(struct control_client *client, struct json_object *request)
{
	struct filter filter;
	struct json_object *answer;
	int gone;

	if (!get_filter(client, request, &filter))
		return;
	if (!filter.by_gid && !filter.by_lid && !filter.by_guid && !json_get_flag(request, "all")) {
		control_fail(client, "flush what? All, or a GID, LID or GUID");
		return;
	}
	if (filter.by_guid)
		gone = flush_guid(sacached_of(client), filter.guid);
	else
		gone = sacache_flush(sacached_of(client)->cache, filter.by_gid ? filter.gid : NULL,
				     filter.lid);
	answer = json_object_new_object();
	json_add_number(answer, "flushed", gone);
	control_ok(client, answer);
}

static void prefetched(void *arg, int status, const struct sacache_prefetch *report)
{
	struct control_client *client = arg;
	struct json_object *answer;

	if (status == -EOPNOTSUPP) {
		control_fail(client, "the SM has not switched caching on, and nothing would be "
				     "kept (see policy in sacached.conf(5))");
	} else if (status) {
		control_fail(client, "%s (%llu of %llu paths)", error_text(status),
			     (unsigned long long)report->answered,
			     (unsigned long long)report->wanted);
	} else {
		answer = json_object_new_object();
		json_add_number(answer, "wanted", report->wanted);
		json_add_number(answer, "answered", report->answered);
		json_add_number(answer, "present", report->present);
		json_add_number(answer, "failed", report->failed);
		json_add_bool(answer, "by_table", report->by_table);
		control_ok(client, answer);
	}
	control_end(client);
}

/* The GIDs of a request, malloc'ed; NULL: it has been answered with an error. */
static uint8_t (*get_gids(struct control_client *client, struct json_object *array,
			  size_t *count))[16]
{
	uint8_t(*gids)[16];

	*count = json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
	if (!*count || *count > MAX_GIDS) {
		control_fail(client, "gids is a list of 1 to %u GIDs", MAX_GIDS);
		return NULL;
	}
	gids = malloc(*count * 16);
	if (!gids)
		control_fail(client, "no memory");
	for (size_t i = 0; gids && i < *count; i++) {
		struct json_object *one = json_object_array_get_idx(array, i);

		if (json_object_is_type(one, json_type_string) &&
		    inet_pton(AF_INET6, json_object_get_string(one), gids[i]) == 1)
			continue;
		control_fail(client, "\"%.64s\" is no GID", json_object_get_string(one));
		free(gids);
		gids = NULL;
	}
	return gids;
}

static void prefetch(struct control_client *client, struct json_object *request)
{
	const struct sacached_port *port;
	uint8_t(*gids)[16] = NULL;
	struct json_object *array;
	size_t count = 0;
	int ret;

	if (json_object_object_get_ex(request, "gids", &array)) {
		gids = get_gids(client, array, &count);
		if (!gids)
			return;
	} else if (!json_get_flag(request, "all")) {
		control_fail(client, "prefetch what? All, or a list of GIDs");
		return;
	}
	port = get_port(client, request, gids ? gids[0] : NULL);
	if (!port) {
		free(gids);
		return;
	}
	ret = warm_prefetch(sacached_of(client)->warm, port->number, gids, count, prefetched,
			    client);
	if (!ret) {
		control_defer(client);
		return;
	}
	free(gids);
	control_fail(client, "%s",
		     ret == -EBUSY ? "a prefetch is under way already" : strerror(-ret));
}

static void saved(void *arg, int status, const struct sacache_state *state)
{
	struct control_client *client = arg;
	const char *file = sacached_of(client)->config.state_file;
	struct json_object *answer;

	if (status) {
		control_fail(client, "%s: %s", file, strerror(-status));
	} else {
		answer = json_object_new_object();
		json_add_number(answer, "records", state->records);
		json_add_text(answer, "file", file);
		control_ok(client, answer);
	}
	control_end(client);
}

static void save(struct control_client *client, struct json_object *request)
{
	int ret = warm_save(sacached_of(client)->warm, saved, client);

	if (ret)
		control_fail(client, "%s",
			     ret == -ENOENT   ? "there is no state_file in the configuration"
			     : ret == -ENODEV ? "no port has been there yet, and nothing to save"
					      : strerror(-ret));
	else
		control_defer(client);
}

/* The client has disconnected: the resolver and the warm start must not call it any more. */
static void forget(struct control_client *client)
{
	struct sacached *d = control_daemon(client);
	struct waiting *waiting = control_state(client);

	if (waiting->resolve)
		resolve_cancel(waiting->resolve);
	if (d->warm)
		warm_forget(d->warm, client);
}

static const struct control_command commands[] = {
	{"status", status}, {"list", list},	    {"lookup", lookup},
	{"flush", flush},   {"prefetch", prefetch}, {"save", save},
};

int control_commands_start(struct sacached *d)
{
	struct control_options options = {
		.path = d->config.control_socket,
		.user = d->config.user,
		.group = d->config.control_group,
		.commands = commands,
		.count = sizeof(commands) / sizeof(commands[0]),
		.daemon = d,
		.state_size = sizeof(struct waiting),
		.forget = forget,
	};

	return control_start(d->base, &options, &d->control);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Answers to messages of ibacm's protocol, the same that ibacm would give. In the loop's thread;
 * nothing here blocks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "daemons/sacached/acm_answer.h"
#include "daemons/sacached/addresses.h"
#include "daemons/sacached/names.h"
#include "daemons/sacached/resolve.h"

static void count(const struct sacached *d, struct acm_stats *stats,
		  const struct sacached_port *port, enum acm_counter what)
{
	stats->count[what]++;
	if (port)
		stats->of_port[port - d->ports][what]++;
}

static size_t fail(const struct sacached *d, struct acm_stats *stats,
		   const struct sacached_port *port, const struct acm_work *work,
		   enum acm_status status, uint8_t *out)
{
	stats->answers[status]++;
	count(d, stats, port, status == ACM_ENODATA ? ACM_COUNT_NODATA : ACM_COUNT_ERROR);
	return acm_answer_error(&work->request, status, out);
}

static struct in6_addr ip_of(const struct acm_address *address)
{
	struct in6_addr ip = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	if (address->type == ACM_IP)
		memcpy(&ip.s6_addr[12], address->bytes, 4);
	else
		memcpy(&ip, address->bytes, 16);
	return ip;
}

static uint16_t lid_of(const struct acm_address *address)
{
	return address->bytes[0] << 8 | address->bytes[1];
}

/* With or without its domain. */
static bool own_name(const char *name)
{
	char host[256];
	size_t length;

	if (gethostname(host, sizeof(host)))
		return false;
	host[sizeof(host) - 1] = 0;
	length = strcspn(host, ".");
	return !strcasecmp(name, host) || (!strncasecmp(name, host, length) && !name[length]);
}

static const struct sacached_port *find_source(struct sacached *d, const struct acm_address *source,
					       uint16_t *partition)
{
	struct in6_addr ip;

	*partition = 0;
	switch (source->type) {
	case ACM_IP:
	case ACM_IP6: ip = ip_of(source); return addresses_port(d->addresses, &ip, partition);
	case ACM_GID: return sacached_port_by_gid(d, source->bytes);
	case ACM_LID: return sacached_port_by_lid(d, lid_of(source));
	case ACM_NAME:
		if (own_name((const char *)source->bytes))
			return sacached_port_by_prefix(d, NULL);
		if (names_find(d->names, (const char *)source->bytes, &ip))
			return addresses_port(d->addresses, &ip, partition);
		return NULL;
	default: return NULL;
	}
}

/* The source that the host would choose for a client that names none; only IP addresses have
 * one. */
static enum acm_status choose_source(struct acm_work *work)
{
	const struct acm_address *to = &work->request.dst;
	struct in6_addr destination, source;

	if (to->type != ACM_IP && to->type != ACM_IP6)
		return ACM_EDESTTYPE;
	destination = ip_of(to);
	if (addresses_source(&destination, &source))
		return ACM_ESRCADDR;
	work->chosen = true;
	work->source.type = to->type;
	if (to->type == ACM_IP)
		memcpy(work->source.bytes, &source.s6_addr[12], 4);
	else
		memcpy(work->source.bytes, &source, 16);
	return ACM_SUCCESS;
}

static int gid_of_name(struct sacached *d, const char *name, const struct sacached_port *port,
		       uint8_t gid[16])
{
	struct in6_addr ip;

	if (own_name(name)) {
		memcpy(gid, port->gids[0], 16);
		return 0;
	}
	return names_find(d->names, name, &ip) ? addresses_gid(d->addresses, &ip, gid) : -ENODATA;
}

static enum acm_status find_destination(struct sacached *d, struct acm_stats *stats,
					const struct sacached_port *port, struct acm_work *work)
{
	const struct acm_address *to = &work->request.dst;
	struct sacache_key *key = &work->key;
	struct in6_addr ip;
	int ret = 0;

	switch (to->type) {
	case ACM_LID:
		key->dlid = lid_of(to);
		key->mask |= SACACHE_DLID;
		return ACM_SUCCESS;
	case ACM_GID: memcpy(key->dgid, to->bytes, 16); break;
	case ACM_NAME: ret = gid_of_name(d, (const char *)to->bytes, port, key->dgid); break;
	default: ip = ip_of(to); ret = addresses_gid(d->addresses, &ip, key->dgid);
	}
	/* Never a query: an address is in the tables or it is unknown. */
	count(d, stats, port, ACM_COUNT_ADDR_CACHE);
	key->mask |= SACACHE_DGID;
	return ret ? ACM_ENODATA : ACM_SUCCESS;
}

/* Ends a resolve in the background, which only fills the cache for later requests. */
static void ignore_result(void *arg, int status, const struct sacache_path *path)
{
}

static bool other_partition(const struct acm_work *work, const struct sacache_path *path)
{
	return work->partition && !(work->key.mask & SACACHE_PKEY) &&
	       (work->partition ^ path->pkey) & 0x7fff;
}

/*
 * Looks the path up in the cache. It is first looked up without its partition, so that all requests
 * that name GIDs alone share one entry. If that path lies in another partition than the source's
 * netdev, the lookup is repeated with the partition.
 */
static size_t look(struct sacached *d, struct acm_stats *stats, struct acm_work *work, uint8_t *out)
{
	const struct sacached_port *port = sacached_port_by_number(d, work->key.port);
	struct sacache_path path;
	int ret;

	if (work->request.query_sa)
		return 0;
	ret = resolve_lookup(d, &work->key, &path);
	if (ret && ret != -ENOENT && ret != -ESTALE)
		return fail(d, stats, port, work, acm_status_of(ret), out);
	if (!ret) {
		count(d, stats, port, ACM_COUNT_ROUTE_CACHE);
		return acm_continue(d, stats, work, 0, &path, out);
	}
	count(d, stats, port, ACM_COUNT_ROUTE_QUERY);
	if (!work->request.nodelay)
		return 0;
	sacache_query(d->cache, &work->key, &path, ignore_result, NULL);
	return fail(d, stats, port, work, ACM_ENODATA, out);
}

size_t acm_continue(struct sacached *d, struct acm_stats *stats, struct acm_work *work, int error,
		    const struct sacache_path *path, uint8_t *out)
{
	const struct sacached_port *port = sacached_port_by_number(d, work->key.port);

	if (error)
		return fail(d, stats, port, work, acm_status_of(error), out);
	if (other_partition(work, path)) {
		work->key.mask |= SACACHE_PKEY;
		work->key.pkey = work->partition;
		return look(d, stats, work, out);
	}
	if (!acm_satisfies(work->request.record, path))
		return fail(d, stats, port, work, ACM_ENODATA, out);
	stats->answers[ACM_SUCCESS]++;
	return acm_answer_path(&work->request, path, work->chosen ? &work->source : NULL, out);
}

static void source_is(struct acm_work *work, const struct sacached_port *port)
{
	work->key.port = port->number;
	if (!(work->key.mask & (SACACHE_SGID | SACACHE_SLID))) {
		memcpy(work->key.sgid, port->gids[0], 16);
		work->key.mask |= SACACHE_SGID;
	}
}

static size_t resolve_address(struct sacached *d, struct acm_stats *stats, struct acm_work *work,
			      uint8_t *out)
{
	const struct acm_address *source = &work->request.src;
	const struct sacached_port *port;
	enum acm_status status = ACM_SUCCESS;

	if (!source->type) {
		source = &work->source;
		status = choose_source(work);
	}
	if (status)
		return fail(d, stats, NULL, work, status, out);
	port = find_source(d, source, &work->partition);
	if (!port)
		return fail(d, stats, NULL, work, ACM_ESRCADDR, out);
	stats->of_port[port - d->ports][ACM_COUNT_RESOLVE]++;
	acm_key(work->request.record, &work->key);
	/* The ends are those of the addresses. */
	work->key.mask &= ~(SACACHE_DGID | SACACHE_SGID | SACACHE_DLID | SACACHE_SLID);
	source_is(work, port);
	status = find_destination(d, stats, port, work);
	if (status)
		return fail(d, stats, port, work, status, out);
	return look(d, stats, work, out);
}

/* The port whose GID or LID is a record's source, else one that reaches its destination. */
static const struct sacached_port *port_of_key(const struct sacached *d,
					       const struct sacache_key *key)
{
	const struct sacached_port *port;

	if (key->mask & SACACHE_SGID)
		return sacached_port_by_gid(d, key->sgid);
	if (key->mask & SACACHE_SLID)
		return sacached_port_by_lid(d, key->slid);
	if (!(key->mask & SACACHE_DGID))
		return sacached_port_by_prefix(d, NULL);
	port = sacached_port_by_gid(d, key->dgid);
	return port ? port : sacached_port_by_prefix(d, key->dgid);
}

static size_t resolve_path_of(struct sacached *d, struct acm_stats *stats, struct acm_work *work,
			      uint8_t *out)
{
	const struct sacached_port *port;

	acm_key(work->request.record, &work->key);
	port = port_of_key(d, &work->key);
	if (!port)
		return fail(d, stats, NULL, work, ACM_ESRCADDR, out);
	stats->of_port[port - d->ports][ACM_COUNT_RESOLVE]++;
	source_is(work, port);
	return look(d, stats, work, out);
}

/* The endpoints are the partitions of the active ports, in order of the ports; the index starts
 * at 1. */
static const struct sacached_port *find_endpoint(const struct sacached *d, unsigned index,
						 unsigned portnum, uint16_t *pkey)
{
	for (unsigned i = 0; index && i < d->nports; i++) {
		const struct sacached_port *port = &d->ports[i];

		if (!port->active || (portnum && port->portnum != portnum))
			continue;
		if (index <= port->npkeys) {
			*pkey = port->pkeys[index - 1];
			return port;
		}
		index -= port->npkeys;
	}
	return NULL;
}

static void add_name(struct acm_endpoint *endpoint, const char *name)
{
	if (endpoint->names == ACM_MAX_NAMES)
		return;
	/* The buffer is zeroed, so a long name is truncated and still terminated. */
	memcpy(endpoint->name[endpoint->names++], name, strnlen(name, ACM_ADDRESS_SIZE - 1));
}

static size_t answer_endpoint(struct sacached *d, struct acm_stats *stats,
			      const struct acm_work *work, uint8_t *out)
{
	static struct acm_endpoint endpoint;
	const struct local_address *local;
	const struct sacached_port *port;
	char text[256];
	uint16_t pkey;

	port = find_endpoint(d, work->request.index, work->request.port, &pkey);
	if (!port) {
		stats->answers[ACM_EINVAL]++;
		return acm_answer_error(&work->request, ACM_EINVAL, out);
	}
	memset(&endpoint, 0, sizeof(endpoint));
	endpoint.guid = port->node_guid;
	endpoint.port = port->portnum;
	endpoint.ports = port->port_count;
	endpoint.pkey = pkey;
	if (port == sacached_port_by_prefix(d, NULL) && !gethostname(text, sizeof(text)))
		add_name(&endpoint, text);
	for (unsigned n = 0; (local = addresses_local(d->addresses, port->gids[0], pkey, n)); n++) {
		bool v4 = IN6_IS_ADDR_V4MAPPED(&local->ip);

		inet_ntop(v4 ? AF_INET : AF_INET6, &local->ip.s6_addr[v4 ? 12 : 0], text,
			  sizeof(text));
		add_name(&endpoint, text);
	}
	inet_ntop(AF_INET6, port->gids[0], text, sizeof(text));
	add_name(&endpoint, text);
	stats->answers[ACM_SUCCESS]++;
	return acm_answer_endpoint(&work->request, &endpoint, out);
}

static size_t answer_counters(struct sacached *d, struct acm_stats *stats,
			      const struct acm_work *work, uint8_t *out)
{
	const struct sacached_port *port = NULL;
	uint16_t pkey;

	if (work->request.kind == ACM_PERF_ENDPOINT)
		port = find_endpoint(d, work->request.index, 0, &pkey);
	else if (work->request.kind == ACM_PERF_ADDRESS)
		port = find_source(d, &work->request.src, &pkey);
	if (!port && work->request.kind != ACM_PERF_ALL) {
		stats->answers[ACM_ESRCADDR]++;
		return acm_answer_error(&work->request, ACM_ESRCADDR, out);
	}
	stats->answers[ACM_SUCCESS]++;
	return acm_answer_counters(&work->request,
				   port ? stats->of_port[port - d->ports] : stats->count, out);
}

size_t acm_begin(struct sacached *d, struct acm_stats *stats, const uint8_t *message, size_t length,
		 struct acm_work *work, uint8_t *out)
{
	enum acm_status status = acm_parse(message, length, &work->request);

	work->partition = 0;
	work->chosen = false;
	memset(&work->source, 0, sizeof(work->source));
	memset(&work->key, 0, sizeof(work->key));
	switch (work->request.kind) {
	case ACM_QUERY_ENDPOINT: stats->requests[ACM_OP_EP]++; break;
	case ACM_RESOLVE_ADDRESS:
	case ACM_RESOLVE_PATH:
		stats->requests[ACM_OP_RESOLVE]++;
		stats->count[ACM_COUNT_RESOLVE]++;
		break;
	default: stats->requests[ACM_OP_PERF]++;
	}
	if (status)
		return fail(d, stats, NULL, work, status, out);
	switch (work->request.kind) {
	case ACM_RESOLVE_ADDRESS: return resolve_address(d, stats, work, out);
	case ACM_RESOLVE_PATH: return resolve_path_of(d, stats, work, out);
	case ACM_QUERY_ENDPOINT: return answer_endpoint(d, stats, work, out);
	default: return answer_counters(d, stats, work, out);
	}
}

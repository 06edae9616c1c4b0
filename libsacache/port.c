/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A port: an SA client over libibumad, and those who wait for its answers.
 *
 * Each port has one thread that blocks in umad_recv() and runs the client's timers. Questions are sent by
 * whoever asks. port->lock guards the client and the waiters; umad_send() is called under it, which
 * does not wait. Waiters are called back after it was let go, from the thread that found their answer.
 *
 * The thread looks at the clock at least every TICK: a descriptor of umad's may be one that cannot be
 * watched together with another (ibsim's is), so nobody can wake the thread, and no first deadline is
 * nearer than that by much.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <infiniband/umad.h>

#include "libsacache/client.h"

#define TICK 50
/* umad_size() says so only after a port was opened; before, it may be less. */
#define UMAD_ROOM  (sizeof(struct ib_user_mad) + SA_MAD_SIZE)
#define CLASS_SA   3
#define SA_VERSION 2
#define SA_QP	   1
#define GSI_QKEY   0x80010000

struct waiter {
	struct waiter *next;
	sacache_done done;
	void *arg;
	int status;
	struct sacache_path path;
	/* Of a table. */
	struct sacache_path *paths;
	size_t count;
};

struct sa_port {
	struct sacache *cache;
	unsigned number;
	unsigned refs; /* cache->ports_lock */
	pthread_cond_t unused;
	char ca_name[UMAD_CA_NAME_LEN];
	int portnum;
	int fd; /* as libibumad calls it: a port's ID */
	int agent;
	pthread_t thread;
	_Atomic bool stop;
	pthread_mutex_t lock;
	bool look_for_sm;
	uint16_t sm_lid;
	uint8_t sm_sl;
	void *umad; /* what is being sent */
	struct waiter *completed;
	struct sa_client client;
};

static void port_send(void *ctx, const uint8_t mad[SA_MAD_SIZE], uint32_t timeout)
{
	struct sa_port *port = ctx;

	memset(port->umad, 0, umad_size());
	memcpy(umad_get_mad(port->umad), mad, SA_MAD_SIZE);
	umad_set_addr(port->umad, port->sm_lid, SA_QP, port->sm_sl, GSI_QKEY);
	/* The kernel refuses a transaction that it still waits for: its time ends before ours. */
	umad_send(port->fd, port->agent, port->umad, SA_MAD_SIZE, timeout - timeout / 8, 0);
}

static void port_count(void *ctx, enum sa_count what)
{
	struct sa_port *port = ctx;

	if (what == SA_RETRIED || what == SA_TIMEOUTS)
		port->look_for_sm = true;
	sa_count(port->cache, what);
}

/* All that a waiter gets of a table, by value. */
static void give_table(struct waiter *waiter, const uint8_t *records, size_t count, size_t stride)
{
	waiter->paths = calloc(count, sizeof(*waiter->paths));
	if (!waiter->paths) {
		waiter->status = -ENOMEM;
		return;
	}
	waiter->count = count;
	for (size_t i = 0; i < count; i++)
		sa_record_decode(records + i * stride, &waiter->paths[i]);
}

static void port_done(void *ctx, struct sa_query *query, int status, const uint8_t *records,
		      size_t count, size_t stride)
{
	struct sa_port *port = ctx;
	struct waiter *waiter = query->waiters, *next;

	/* What ended on our side says nothing about the path. */
	if (!query->table && status != -ECANCELED && status != -ENOMEM)
		sa_cache_answer(port->cache, &query->key, query->generation, status, records);
	for (; waiter; waiter = next) {
		next = waiter->next;
		waiter->status = status;
		if (!status && query->table)
			give_table(waiter, records, count, stride);
		else if (!status)
			sa_record_decode(records, &waiter->path);
		waiter->next = port->completed;
		port->completed = waiter;
	}
}

static const struct sa_client_ops port_ops = {
	.send = port_send,
	.done = port_done,
	.count = port_count,
};

/* Gives port->lock back and calls those whose answers have come. */
static void port_unlock(struct sa_port *port)
{
	struct waiter *waiter = port->completed, *next;

	port->completed = NULL;
	pthread_mutex_unlock(&port->lock);
	for (; waiter; waiter = next) {
		next = waiter->next;
		if (waiter->done)
			waiter->done(waiter->arg, waiter->status,
				     waiter->status ? NULL : &waiter->path);
		free(waiter->paths);
		free(waiter);
	}
}

/* The SM may have moved to another port; its SA is where the SM is. */
static void find_sm(struct sa_port *port)
{
	umad_port_t attr;
	bool moved;

	if (umad_get_port(port->ca_name, port->portnum, &attr))
		return;
	pthread_mutex_lock(&port->lock);
	moved = attr.sm_lid && attr.sm_lid != port->sm_lid;
	if (moved) {
		port->sm_lid = attr.sm_lid;
		port->sm_sl = attr.sm_sl;
	}
	pthread_mutex_unlock(&port->lock);
	umad_release_port(&attr);
	if (moved)
		sacache_event(port->cache, port->number, SACACHE_NEW_SM, NULL);
}

static void *port_run(void *arg)
{
	struct sa_port *port = arg;
	struct timespec pause = {.tv_nsec = TICK * 1000000};
	uint8_t *in = umad_alloc(1, UMAD_ROOM);

	while (in && !atomic_load(&port->stop)) {
		uint64_t now = port->cache->clock(), next;
		bool look_for_sm;
		int length = SA_MAD_SIZE, ret;

		pthread_mutex_lock(&port->lock);
		next = sa_client_run(&port->client, now);
		look_for_sm = port->look_for_sm;
		port->look_for_sm = false;
		port_unlock(port);
		if (look_for_sm)
			find_sm(port);
		ret = umad_recv(port->fd, in, &length,
				next <= now	    ? 1
				: next - now < TICK ? (int)(next - now)
						    : TICK);
		if (ret < 0 && ret != -ETIMEDOUT && ret != -EWOULDBLOCK && ret != -EINTR)
			nanosleep(&pause, NULL);
		/* With a status it is our own question, which the kernel gives back. */
		if (ret < 0 || umad_status(in) || length < 0 || length > SA_MAD_SIZE)
			continue;
		/* ibsim brings only the part that was sent; on a wire there are zeroes behind it. */
		memset((uint8_t *)umad_get_mad(in) + length, 0, SA_MAD_SIZE - length);
		pthread_mutex_lock(&port->lock);
		sa_client_receive(&port->client, umad_get_mad(in), SA_MAD_SIZE,
				  port->cache->clock());
		port_unlock(port);
	}
	umad_free(in);
	return NULL;
}

static int open_umad(struct sa_port *port, uint8_t gid[16])
{
	umad_port_t attr;

	if (umad_get_port(port->ca_name[0] ? port->ca_name : NULL, port->portnum, &attr))
		return -ENODEV;
	/* Without a name or number libibumad chose. */
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", attr.ca_name);
	port->portnum = attr.portnum;
	port->sm_lid = attr.sm_lid;
	port->sm_sl = attr.sm_sl;
	memcpy(gid, &attr.gid_prefix, 8);
	memcpy(gid + 8, &attr.port_guid, 8);
	umad_release_port(&attr);
	port->fd = umad_open_port(port->ca_name, port->portnum);
	if (port->fd < 0)
		return port->fd == -EACCES || port->fd == -EPERM ? -EACCES : -ENODEV;
	/* RMPP is our own: without a version the kernel leaves it alone. */
	port->agent = umad_register(port->fd, CLASS_SA, SA_VERSION, 0, NULL);
	if (port->agent < 0) {
		umad_close_port(port->fd);
		return -ENODEV;
	}
	return 0;
}

/* The thread takes no signals: they are the program's. */
static int start_thread(struct sa_port *port)
{
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&port->thread, NULL, port_run, port);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -ret;
}

static void port_free(struct sa_port *port)
{
	pthread_mutex_destroy(&port->lock);
	pthread_cond_destroy(&port->unused);
	umad_free(port->umad);
	free(port);
}

static int port_start(struct sa_port *port)
{
	struct sacache *cache = port->cache;
	struct sacache_attr attr = cache->attr;
	uint8_t gid[16];
	int ret = open_umad(port, gid);

	if (ret)
		return ret;
	attr.seed += port->number;
	sa_client_init(&port->client, &attr, gid, &port_ops, port, cache->clock());
	ret = start_thread(port);
	if (ret) {
		umad_unregister(port->fd, port->agent);
		umad_close_port(port->fd);
	}
	return ret;
}

int sacache_port_open(struct sacache *cache, const char *ca_name, int portnum, unsigned *number)
{
	struct sa_port *port;
	int ret = -ENOMEM;

	if (umad_init() < 0)
		return -ENODEV;
	port = calloc(1, sizeof(*port));
	if (!port)
		return ret;
	pthread_mutex_init(&port->lock, NULL);
	pthread_cond_init(&port->unused, NULL);
	port->cache = cache;
	port->portnum = portnum;
	snprintf(port->ca_name, sizeof(port->ca_name), "%s", ca_name ? ca_name : "");
	port->umad = umad_alloc(1, UMAD_ROOM);
	if (!port->umad) {
		port_free(port);
		return ret;
	}
	pthread_mutex_lock(&cache->ports_lock);
	for (port->number = 0; port->number < SACACHE_MAX_PORTS; port->number++)
		if (!cache->ports[port->number])
			break;
	ret = port->number == SACACHE_MAX_PORTS ? -ENOSPC : port_start(port);
	if (!ret) {
		*number = port->number;
		cache->ports[port->number] = port;
	}
	pthread_mutex_unlock(&cache->ports_lock);
	if (ret)
		port_free(port);
	return ret;
}

int sacache_port_close(struct sacache *cache, unsigned number)
{
	struct sa_port *port;

	if (number >= SACACHE_MAX_PORTS)
		return -ENODEV;
	pthread_mutex_lock(&cache->ports_lock);
	port = cache->ports[number];
	if (!port) {
		pthread_mutex_unlock(&cache->ports_lock);
		return -ENODEV;
	}
	cache->ports[number] = NULL;
	while (port->refs)
		pthread_cond_wait(&port->unused, &cache->ports_lock);
	pthread_mutex_unlock(&cache->ports_lock);
	atomic_store(&port->stop, true);
	pthread_join(port->thread, NULL);
	pthread_mutex_lock(&port->lock);
	sa_client_cancel(&port->client, -ECANCELED);
	port_unlock(port);
	umad_unregister(port->fd, port->agent);
	umad_close_port(port->fd);
	port_free(port);
	return 0;
}

static struct sa_port *port_get(struct sacache *cache, unsigned number)
{
	struct sa_port *port;

	pthread_mutex_lock(&cache->ports_lock);
	port = cache->ports[number];
	if (port)
		port->refs++;
	pthread_mutex_unlock(&cache->ports_lock);
	return port;
}

static void port_put(struct sa_port *port)
{
	pthread_mutex_lock(&port->cache->ports_lock);
	if (!--port->refs)
		pthread_cond_signal(&port->unused);
	pthread_mutex_unlock(&port->cache->ports_lock);
}

int sa_port_identify(struct sacache *cache, unsigned number, struct sa_port_identity *identity)
{
	struct sa_port *port = number < SACACHE_MAX_PORTS ? port_get(cache, number) : NULL;
	umad_port_t attr;
	int ret;

	memset(identity, 0, sizeof(*identity));
	if (!port)
		return -ENODEV;
	ret = umad_get_port(port->ca_name, port->portnum, &attr) ? -ENODEV : 0;
	port_put(port);
	if (ret)
		return ret;
	memcpy(identity->gid, &attr.gid_prefix, 8);
	memcpy(identity->gid + 8, &attr.port_guid, 8);
	identity->lid = attr.base_lid;
	identity->sm_lid = attr.sm_lid;
	for (unsigned i = 0; i < attr.pkeys_size; i++)
		if ((attr.pkeys[i] & 0x7fff) == 0x7fff ||
		    (attr.pkeys[i] & 0x7fff && !identity->pkey))
			identity->pkey = attr.pkeys[i];
	umad_release_port(&attr);
	return 0;
}

/* Has a waiter wait for a key's query, which is started unless it is under way. Under port->lock. */
static int join(struct sa_port *port, const struct sacache_key *key, bool table, enum sa_count why,
		struct waiter *waiter)
{
	struct sacache *cache = port->cache;
	struct sa_query *query = sa_client_find(&port->client, key, table);
	int error = 0;

	if (query) {
		sa_count(cache, SA_COALESCED);
	} else {
		uint32_t generation = atomic_load(&cache->subnets[key->port].generation);

		query = sa_client_submit(&port->client, key, table, cache->clock(), &error);
		if (!query)
			return error;
		query->generation = generation;
		sa_count(cache, why);
	}
	waiter->next = query->waiters;
	query->waiters = waiter;
	return -EINPROGRESS;
}

/* waiter is this function's from here on if it returns -EINPROGRESS. */
static int ask(struct sacache *cache, const struct sacache_key *key, bool table,
	       struct sacache_path *path, struct waiter *waiter)
{
	struct sa_port *port = port_get(cache, key->port);
	enum sa_count why = SA_QUERY_TABLE;
	int ret = -ENOENT;

	if (!port)
		return -ENODEV;
	pthread_mutex_lock(&port->lock);
	/* Again, now that no answer can come in between. */
	if (!table)
		ret = sa_cache_lookup(cache, key, path, &why);
	if (ret == -ENOENT || ret == -ESTALE)
		ret = join(port, key, table, why, waiter);
	port_unlock(port);
	port_put(port);
	return ret;
}

int sacache_query(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		  sacache_done done, void *arg)
{
	struct sacache_key exact;
	struct waiter *waiter;
	enum sa_count why;
	int ret = sa_key_normalize(key, &exact);

	if (ret)
		return ret;
	ret = sa_cache_lookup(cache, &exact, path, &why);
	if (ret != -ENOENT && ret != -ESTALE)
		return ret;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	waiter->done = done;
	waiter->arg = arg;
	ret = ask(cache, &exact, false, path, waiter);
	if (ret != -EINPROGRESS)
		free(waiter);
	return ret;
}

/* A caller that waits, and may leave before the answer comes: whoever is last frees it. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done, left;
	int status;
	struct sacache_path path;
	struct waiter *table; /* whose paths are taken over */
	struct sacache_path *paths;
	size_t count;
};

static void wait_free(struct wait *wait)
{
	pthread_mutex_destroy(&wait->lock);
	pthread_cond_destroy(&wait->cond);
	free(wait->paths);
	free(wait);
}

static void wait_done(void *arg, int status, const struct sacache_path *path)
{
	struct wait *wait = arg;
	bool left;

	pthread_mutex_lock(&wait->lock);
	wait->done = true;
	wait->status = status;
	if (path)
		wait->path = *path;
	if (wait->table && !status) {
		wait->paths = wait->table->paths;
		wait->count = wait->table->count;
		wait->table->paths = NULL;
	}
	left = wait->left;
	pthread_cond_signal(&wait->cond);
	pthread_mutex_unlock(&wait->lock);
	if (left)
		wait_free(wait);
}

static struct wait *wait_create(void)
{
	struct wait *wait = calloc(1, sizeof(*wait));
	pthread_condattr_t attr;

	if (!wait)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&wait->lock, NULL);
	pthread_cond_init(&wait->cond, &attr);
	pthread_condattr_destroy(&attr);
	return wait;
}

/* False: it is not this caller's any more. */
static bool wait_for(struct wait *wait, int timeout)
{
	struct timespec until;
	int ret = 0;
	bool done;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout / 1000;
	until.tv_nsec += timeout % 1000 * 1000000l;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&wait->lock);
	while (!wait->done && ret != ETIMEDOUT)
		ret = timeout < 0 ? pthread_cond_wait(&wait->cond, &wait->lock)
				  : pthread_cond_timedwait(&wait->cond, &wait->lock, &until);
	done = wait->done;
	wait->left = !done;
	pthread_mutex_unlock(&wait->lock);
	return done;
}

static int resolve_slowly(struct sacache *cache, const struct sacache_key *key,
			  struct sacache_path *path, int timeout)
{
	struct wait *wait = wait_create();
	int ret;

	if (!wait)
		return -ENOMEM;
	ret = sacache_query(cache, key, path, wait_done, wait);
	if (ret == -EINPROGRESS) {
		if (!wait_for(wait, timeout))
			return -ETIMEDOUT;
		ret = wait->status;
		if (!ret)
			*path = wait->path;
	}
	wait_free(wait);
	return ret;
}

int sacache_resolve(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		    int timeout)
{
	int ret = sacache_lookup(cache, key, path);

	return ret == -ENOENT || ret == -ESTALE ? resolve_slowly(cache, key, path, timeout) : ret;
}

static int copy_table(const struct wait *wait, struct sacache_path *paths, size_t *count)
{
	size_t room = *count, n = wait->count < room ? wait->count : room;

	if (wait->status)
		return wait->status;
	if (n)
		memcpy(paths, wait->paths, n * sizeof(*paths));
	*count = wait->count;
	return wait->count > room ? -ENOSPC : 0;
}

int sacache_query_table(struct sacache *cache, const struct sacache_key *key,
			struct sacache_path *paths, size_t *count, int timeout)
{
	struct sacache_key exact;
	struct waiter *waiter;
	struct wait *wait;
	int ret = sa_key_normalize_table(key, &exact);

	if (ret)
		return ret;
	waiter = calloc(1, sizeof(*waiter));
	wait = waiter ? wait_create() : NULL;
	if (!wait) {
		free(waiter);
		return -ENOMEM;
	}
	waiter->done = wait_done;
	waiter->arg = wait;
	wait->table = waiter;
	ret = ask(cache, &exact, true, NULL, waiter);
	if (ret == -EINPROGRESS) {
		if (!wait_for(wait, timeout))
			return -ETIMEDOUT;
		ret = copy_table(wait, paths, count);
	} else {
		free(waiter);
	}
	wait_free(wait);
	return ret;
}

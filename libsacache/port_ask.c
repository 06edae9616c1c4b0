/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Callers of a port that wait for an answer: any thread, under port->lock for shared data.
 * Callbacks run after the lock was released, in the thread that received the answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "libsacache/port.h"

struct sa_waiter {
	struct sa_waiter *next;
	struct sacache_key key; /* while it waits for a table to confirm its record */
	sacache_done done;
	void *arg;
	int status;
	struct sacache_path path;
	/* For a table query. */
	struct sacache_path *paths;
	size_t count;
};

/* The result of a table query, by value. */
static void give_table(struct sa_waiter *waiter, const uint8_t *records, size_t count,
		       size_t stride)
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

void sa_port_done(void *ctx, struct sa_query *query, int status, const uint8_t *records,
		  size_t count, size_t stride)
{
	struct sa_port *port = ctx;
	struct sa_waiter *waiter = query->waiters, *next;

	/* Errors of this side say nothing about the path. */
	if (!query->table && status != -ECANCELED && status != -ENOMEM)
		sa_cache_answer(port->cache, &query->key, query->generation, status, records);
	if (query->confirms)
		sa_confirm_done(port, query, status, records, count, stride);
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

/* Adds a waiter to a key's query, which is started unless it is pending. Under port->lock. */
static int join(struct sa_port *port, const struct sacache_key *key, bool table, enum sa_count why,
		struct sa_waiter *waiter)
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

static void complete(struct sa_port *port, struct sa_waiter *waiter, int status)
{
	waiter->status = status;
	waiter->next = port->completed;
	port->completed = waiter;
}

static void await_table(struct sa_port *port, struct sa_waiter *waiter)
{
	waiter->next = port->confirm.waiting;
	port->confirm.waiting = waiter;
}

/* Callers that waited for a table look again. If it has not confirmed their records they query the
 * SA; if it was outdated, they wait for another one. Under port->lock. */
static void look_again(struct sa_port *port)
{
	struct sa_waiter *waiter = port->confirm.waiting, *next;

	port->confirm.waiting = NULL;
	for (; waiter; waiter = next) {
		enum sa_count why;
		int ret = sa_cache_lookup(port->cache, &waiter->key, &waiter->path, &why);

		next = waiter->next;
		if (ret == -ENOENT || ret == -ESTALE) {
			if (atomic_load(&port->stop)) {
				ret = -ECANCELED;
			} else if (ret == -ESTALE && why == SA_QUERY_CHANGED &&
				   sa_confirm_awaits(port, &waiter->key)) {
				await_table(port, waiter);
				ret = -EINPROGRESS;
			} else {
				ret = join(port, &waiter->key, false, why, waiter);
			}
		}
		if (ret != -EINPROGRESS)
			complete(port, waiter, ret);
	}
}

/* Releases port->lock and calls the callers whose queries have completed. */
void sa_port_unlock(struct sa_port *port)
{
	struct sa_waiter *waiter, *next;

	if (port->confirm.waiting && port->confirm.state != SA_CONFIRM_TABLE)
		look_again(port);
	waiter = port->completed;
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

/* path NULL: skip the table. Takes ownership of waiter if it returns -EINPROGRESS. */
static int ask(struct sacache *cache, const struct sacache_key *key, bool table,
	       struct sacache_path *path, struct sa_waiter *waiter)
{
	struct sa_port *port = sa_port_get(cache, key->port);
	enum sa_count why = table ? SA_QUERY_TABLE : SA_QUERY_PAST;
	int ret = -ENOENT;

	if (!port)
		return -ENODEV;
	pthread_mutex_lock(&port->lock);
	/* Again, now that no answer can arrive in between. */
	if (path)
		ret = sa_cache_lookup(cache, key, path, &why);
	if (ret == -ESTALE && why == SA_QUERY_CHANGED && sa_confirm_begins(port)) {
		pthread_mutex_unlock(&port->lock);
		sa_port_refresh(port);
		pthread_mutex_lock(&port->lock);
		ret = sa_cache_lookup(cache, key, path, &why);
	}
	if (ret == -ESTALE && why == SA_QUERY_CHANGED && sa_confirm_awaits(port, key)) {
		sa_count(cache, SA_COALESCED);
		waiter->key = *key;
		await_table(port, waiter);
		ret = -EINPROGRESS;
	} else if (ret == -ENOENT || ret == -ESTALE) {
		ret = join(port, key, table, why, waiter);
	}
	sa_port_unlock(port);
	sa_port_put(port);
	return ret;
}

/* The same for a single path and a callback. */
static int ask_for_one(struct sacache *cache, const struct sacache_key *key,
		       struct sacache_path *path, sacache_done done, void *arg)
{
	struct sa_waiter *waiter = calloc(1, sizeof(*waiter));
	int ret;

	if (!waiter)
		return -ENOMEM;
	waiter->done = done;
	waiter->arg = arg;
	ret = ask(cache, key, false, path, waiter);
	if (ret != -EINPROGRESS)
		free(waiter);
	return ret;
}

int sacache_query(struct sacache *cache, const struct sacache_key *key, struct sacache_path *path,
		  sacache_done done, void *arg)
{
	struct sacache_key exact;
	enum sa_count why;
	int ret = sa_key_normalize(key, &exact);

	if (ret)
		return ret;
	ret = sa_cache_lookup(cache, &exact, path, &why);
	if (ret != -ENOENT && ret != -ESTALE)
		return ret;
	return ask_for_one(cache, &exact, path, done, arg);
}

int sacache_query_sa(struct sacache *cache, const struct sacache_key *key, sacache_done done,
		     void *arg)
{
	struct sacache_key exact;
	int ret = sa_key_normalize(key, &exact);

	return ret ? ret : ask_for_one(cache, &exact, NULL, done, arg);
}

/* A blocking caller, which may return before the answer arrives: the last user frees it. */
struct wait {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool done, left;
	int status;
	struct sacache_path path;
	struct sa_waiter *table; /* whose paths are taken over */
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

/* False: it no longer belongs to this caller. */
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
	struct sa_waiter *waiter;
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

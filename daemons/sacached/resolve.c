/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Resolves paths for the modules that serve clients. A resolve is used by the loop until done was
 * called or it was cancelled, and by libsacache while its query is pending; the last user frees it.
 *
 * answered() runs in a thread of libsacache's: it fills in the answer and puts the resolve on a
 * list under the resolver's lock. All else runs in the loop's thread.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/sacached/resolve.h"

struct resolve {
	struct resolver *resolver;
	struct resolve *next; /* on the list of answers */
	struct event *timer;
	void (*done)(void *arg, int status, const struct sacache_path *path); /* NULL: was called */
	void *arg;
	int status;
	struct sacache_path path;
	bool asked; /* libsacache has a query for it */
};

struct resolver {
	pthread_mutex_t lock; /* guards answers */
	struct resolve *answers;
	struct event *wake;
	int fd;
};

static void answered(void *arg, int status, const struct sacache_path *path)
{
	struct resolve *resolve = arg;
	struct resolver *resolver = resolve->resolver;
	bool first;

	resolve->status = status;
	if (path)
		resolve->path = *path;
	pthread_mutex_lock(&resolver->lock);
	first = !resolver->answers;
	resolve->next = resolver->answers;
	resolver->answers = resolve;
	pthread_mutex_unlock(&resolver->lock);
	if (first)
		eventfd_write(resolver->fd, 1);
}

static void resolve_free(struct resolve *resolve)
{
	event_free(resolve->timer);
	free(resolve);
}

/* Calls done, once. done may cancel other resolves only. */
static void end(struct resolve *resolve, int status)
{
	void (*done)(void *arg, int status, const struct sacache_path *path) = resolve->done;

	resolve->done = NULL;
	event_del(resolve->timer);
	if (done)
		done(resolve->arg, status, status ? NULL : &resolve->path);
}

static void wake(evutil_socket_t fd, short what, void *arg)
{
	struct resolver *resolver = arg;
	struct resolve *list, *inverse = NULL, *next;
	eventfd_t count;

	eventfd_read(resolver->fd, &count);
	pthread_mutex_lock(&resolver->lock);
	list = resolver->answers;
	resolver->answers = NULL;
	pthread_mutex_unlock(&resolver->lock);
	for (; list; list = next) {
		next = list->next;
		list->next = inverse;
		inverse = list;
	}
	for (; inverse; inverse = next) {
		next = inverse->next;
		end(inverse, inverse->status);
		resolve_free(inverse);
	}
}

/* The deadline; or, for an answer from the cache, the next iteration of the loop. */
static void timer(evutil_socket_t fd, short what, void *arg)
{
	struct resolve *resolve = arg;

	if (!resolve->asked) {
		end(resolve, resolve->status);
		resolve_free(resolve);
	} else {
		end(resolve, -ETIMEDOUT);
	}
}

int resolve_lookup(struct sacached *d, const struct sacache_key *key, struct sacache_path *path)
{
	int ret = sacache_lookup(d->cache, key, path);
	struct sacache_key wild = *key;
	struct sacache_path found;

	wild.mask &= ~SACACHE_PKEY;
	if (ret == -ENOENT && wild.mask != key->mask && !sacache_lookup(d->cache, &wild, &found) &&
	    !((found.pkey ^ key->pkey) & 0x7fff)) {
		*path = found;
		return 0;
	}
	return ret;
}

/* A resolve with its timer running; NULL: no memory. */
static struct resolve *begin(struct sacached *d, unsigned deadline,
			     void (*done)(void *arg, int status, const struct sacache_path *path),
			     void *arg)
{
	struct timeval limit = {.tv_sec = deadline / 1000, .tv_usec = deadline % 1000 * 1000};
	struct resolve *resolve = calloc(1, sizeof(*resolve));

	if (!resolve)
		return NULL;
	resolve->resolver = d->resolver;
	resolve->done = done;
	resolve->arg = arg;
	resolve->asked = true;
	resolve->timer = event_new(d->base, -1, 0, timer, resolve);
	if (resolve->timer && !event_add(resolve->timer, &limit))
		return resolve;
	if (resolve->timer)
		event_free(resolve->timer);
	free(resolve);
	return NULL;
}

/* libsacache's result: unless the answer comes later, the next iteration of the loop delivers
 * it. */
static struct resolve *asked(struct resolve *resolve, int ret)
{
	if (ret != -EINPROGRESS) {
		resolve->asked = false;
		resolve->status = ret;
		event_active(resolve->timer, EV_TIMEOUT, 0);
	}
	return resolve;
}

struct resolve *resolve_path(struct sacached *d, const struct sacache_key *key, unsigned deadline,
			     void (*done)(void *arg, int status, const struct sacache_path *path),
			     void *arg)
{
	struct resolve *resolve = begin(d, deadline, done, arg);

	if (!resolve)
		return NULL;
	return asked(resolve, sacache_query(d->cache, key, &resolve->path, answered, resolve));
}

struct resolve *
resolve_past_table(struct sacached *d, const struct sacache_key *key, unsigned deadline,
		   void (*done)(void *arg, int status, const struct sacache_path *path), void *arg)
{
	struct resolve *resolve = begin(d, deadline, done, arg);

	return resolve ? asked(resolve, sacache_query_sa(d->cache, key, answered, resolve)) : NULL;
}

void resolve_cancel(struct resolve *resolve)
{
	resolve->done = NULL;
	event_del(resolve->timer);
	if (!resolve->asked)
		resolve_free(resolve);
}

int resolver_start(struct sacached *d, struct resolver **out)
{
	struct resolver *resolver = calloc(1, sizeof(*resolver));

	if (!resolver)
		return -ENOMEM;
	pthread_mutex_init(&resolver->lock, NULL);
	resolver->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (resolver->fd >= 0)
		resolver->wake =
			event_new(d->base, resolver->fd, EV_READ | EV_PERSIST, wake, resolver);
	if (!resolver->wake || event_add(resolver->wake, NULL)) {
		log_error("no descriptor or memory left to start with");
		resolver_stop(resolver);
		return -ENOMEM;
	}
	*out = resolver;
	return 0;
}

void resolver_stop(struct resolver *resolver)
{
	if (!resolver)
		return;
	for (struct resolve *resolve = resolver->answers, *next; resolve; resolve = next) {
		next = resolve->next;
		resolve_free(resolve);
	}
	if (resolver->wake)
		event_free(resolver->wake);
	if (resolver->fd >= 0)
		close(resolver->fd);
	pthread_mutex_destroy(&resolver->lock);
	free(resolver);
}

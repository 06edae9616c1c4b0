// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Path records, by libsacache: it keeps them, asks for all neighbours of a GID at once, limits how
 * many questions are under way, and forgets with the port's events. Its thread puts answers into a
 * list that the loop's thread takes; a mutex guards the list.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"
#include "libsacache/sacache.h"

/* One that was asked for, and its answer. */
struct answer {
	struct answer *next;
	struct ipoib_paths *paths;
	struct in6_addr ip;
	int error;
	struct sacache_path path;
};

struct ipoib_paths {
	struct sacache *cache;
	unsigned port;
	int wake;
	struct event *readable;
	pthread_mutex_t lock;
	struct answer *answers;
};

static void put(struct answer *answer, int error, const struct sacache_path *path)
{
	struct ipoib_paths *paths = answer->paths;
	uint64_t one = 1;

	answer->error = error;
	if (path)
		answer->path = *path;
	pthread_mutex_lock(&paths->lock);
	answer->next = paths->answers;
	paths->answers = answer;
	pthread_mutex_unlock(&paths->lock);
	(void)!write(paths->wake, &one, sizeof(one));
}

static void done(void *arg, int error, const struct sacache_path *path)
{
	put(arg, error, path);
}

static struct answer *take(struct ipoib_paths *paths)
{
	struct answer *all;

	pthread_mutex_lock(&paths->lock);
	all = paths->answers;
	paths->answers = NULL;
	pthread_mutex_unlock(&paths->lock);
	return all;
}

static void on_answers(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;
	struct answer *answer, *next;
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
	for (answer = take(ib->paths); answer; answer = next) {
		next = answer->next;
		neighbour_path(ib, &answer->ip, answer->error, &answer->path);
		free(answer);
	}
	queue_flush(ib);
}

int path_ask(struct ipoib *ib, const struct in6_addr *ip, const uint8_t gid[16], bool again)
{
	struct ipoib_paths *paths = ib->paths;
	struct sacache_key key = {.pkey = ib->pkey,
				  .port = (uint8_t)paths->port,
				  .mask = SACACHE_DGID | SACACHE_SGID | SACACHE_PKEY};
	struct answer *answer = calloc(1, sizeof(*answer));
	struct sacache_path path;
	int ret;

	if (!answer)
		return -ENOMEM;
	answer->paths = paths;
	answer->ip = *ip;
	memcpy(key.dgid, gid, 16);
	memcpy(key.sgid, &ib->gid, 16);
	ib->stats.paths++;
	ret = again ? sacache_query_sa(paths->cache, &key, done, answer)
		    : sacache_query(paths->cache, &key, &path, done, answer);
	if (ret != -EINPROGRESS)
		put(answer, ret, ret ? NULL : &path);
	return 0;
}

int paths_create(struct ipoib *ib)
{
	struct ipoib_paths *paths = calloc(1, sizeof(*paths));
	struct sacache_attr attr;
	int ret;

	if (!paths)
		return ipoib_fail(ib, ENOMEM);
	ib->paths = paths;
	pthread_mutex_init(&paths->lock, NULL);
	paths->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = SACACHE_ALWAYS;
	attr.drop = true;
	ret = paths->wake < 0 ? -errno : sacache_create(&attr, &paths->cache);
	if (!ret)
		ret = sacache_port_open(paths->cache, ibv_get_device_name(ib->context->device),
					(int)ib->options.port, &paths->port);
	if (ret) {
		log_error("path records: %s", strerror(-ret));
		return ret;
	}
	paths->readable =
		event_new(ib->loop.base, paths->wake, EV_READ | EV_PERSIST, on_answers, ib);
	return paths->readable && !event_add(paths->readable, NULL) ? 0 : ipoib_fail(ib, ENOMEM);
}

void paths_destroy(struct ipoib *ib)
{
	struct ipoib_paths *paths = ib->paths;
	struct answer *answer, *next;

	if (!paths)
		return;
	/* Ends what is under way, with answers. */
	if (paths->cache)
		sacache_destroy(paths->cache);
	for (answer = take(paths); answer; answer = next) {
		next = answer->next;
		free(answer);
	}
	if (paths->readable)
		event_free(paths->readable);
	if (paths->wake >= 0)
		close(paths->wake);
	pthread_mutex_destroy(&paths->lock);
	free(paths);
	ib->paths = NULL;
}

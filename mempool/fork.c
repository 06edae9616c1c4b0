/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * All pools of the process, and fork().
 *
 * Blocks are shared mappings which a child does not inherit. With RMEMPOOL_FORK it does, until it
 * has replaced them with copies in a file of its own. (Leaving holes instead would be wrong: fork
 * handlers of others that run before ours may map something into them.)
 *
 *   parent	prepare: takes all locks	parent: waits for the child, releases the locks
 *   child					child: maps, copies, releases the locks
 *
 * The thread that forks waits inside of fork() until the child has copied. So data that it protects
 * by holding a lock over fork() is copied as it was at that moment; data that other threads change
 * meanwhile is unspecified. Children that share all memory with their parent until they call exec
 * (vfork(), posix_spawn(), system()) neither copy nor wait.
 *
 * Guarded by the list's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sized.h"
#include "mempool/pool.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t locating = PTHREAD_MUTEX_INITIALIZER; /* the innermost lock */
static struct rmempool *pools;				     /* modified with both locks held */
static int done[2]; /* a pipe: end of file tells the parent that the child has copied */
static bool copying;

static bool copied(const struct rmempool *pool)
{
	return pool->attr.flags & RMEMPOOL_FORK;
}

static void prepare(void)
{
	struct rmempool *pool;

	pthread_mutex_lock(&list_lock);
	copying = false;
	for (pool = pools; pool; pool = pool->next) {
		if (!copied(pool))
			continue;
		copying = true;
		pthread_mutex_lock(&pool->grow_lock);
		mempool_mapping_inherit(pool, true);
	}
	mempool_caches_hold(true);
	for (pool = pools; pool; pool = pool->next) {
		if (!copied(pool))
			continue;
		pthread_mutex_lock(&pool->mr_lock);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_lock(&locating);
	if (copying && pipe2(done, O_CLOEXEC))
		done[0] = done[1] = -1;
}

static void release(void)
{
	struct rmempool *pool;

	pthread_mutex_unlock(&locating);
	for (pool = pools; pool; pool = pool->next) {
		if (!copied(pool))
			continue;
		pthread_mutex_unlock(&pool->lock);
		pthread_mutex_unlock(&pool->mr_lock);
		pthread_mutex_unlock(&pool->grow_lock);
	}
	mempool_caches_hold(false);
	pthread_mutex_unlock(&list_lock);
}

static void after_in_parent(void)
{
	int saved = errno;
	char byte;

	if (copying && done[0] >= 0) {
		close(done[1]);
		while (read(done[0], &byte, 1) < 0 && errno == EINTR)
			;
		close(done[0]);
	}
	for (struct rmempool *pool = pools; pool; pool = pool->next)
		if (copied(pool))
			mempool_mapping_inherit(pool, false);
	release();
	errno = saved;
}

static void after_in_child(void)
{
	int saved = errno, err;

	for (struct rmempool *pool = pools; pool; pool = pool->next) {
		if (!copied(pool))
			continue;
		err = mempool_mapping_fork(pool);
		if (err) {
			fprintf(stderr, "libmempool: no memory for a forked child: %s\n",
				strerror(-err));
			abort();
		}
		mempool_alloc_fork(pool);
		mempool_registration_fork(pool);
	}
	if (copying && done[0] >= 0) {
		close(done[0]);
		close(done[1]);
	}
	release();
	errno = saved;
}

/*
 * Registered before all other fork handlers, if possible: the handlers of others, which may use
 * buffers of a pool, then run while the locks are free.
 */
__attribute__((constructor)) static void hook(void)
{
	pthread_atfork(prepare, after_in_parent, after_in_child);
}

void mempool_list_add(struct rmempool *pool)
{
	pthread_mutex_lock(&list_lock);
	pthread_mutex_lock(&locating);
	pool->next = pools;
	pools = pool;
	pthread_mutex_unlock(&locating);
	pthread_mutex_unlock(&list_lock);
}

void mempool_list_remove(struct rmempool *pool)
{
	struct rmempool **at = &pools;

	pthread_mutex_lock(&list_lock);
	while (*at != pool)
		at = &(*at)->next;
	pthread_mutex_lock(&locating);
	*at = pool->next;
	pthread_mutex_unlock(&locating);
	pthread_mutex_unlock(&list_lock);
}

int rmempool_locate(struct rmempool *pool, const void *addr, struct rmempool_location *location,
		    size_t size)
{
	struct rmempool_location found;
	int err = -EINVAL;

	if (pool) {
		err = mempool_locate_in(pool, addr, &found);
	} else {
		pthread_mutex_lock(&locating);
		for (pool = pools; pool && err; pool = pool->next)
			err = mempool_locate_in(pool, addr, &found);
		pthread_mutex_unlock(&locating);
	}
	if (!err)
		copy_out(location, size, &found, sizeof(found));
	return err;
}

int rmempool_hold(const void *addr, size_t length, struct rmempool_hold *hold, size_t size)
{
	struct rmempool_hold other, *held = size == sizeof(*held) ? hold : &other;
	struct rmempool *pool;
	int err = -EINVAL;

	if (size < RMEMPOOL_HOLD_SIZE_1)
		return err;

	pthread_mutex_lock(&locating);
	for (pool = pools; pool && err; pool = pool->next)
		err = mempool_hold_in(pool, (uintptr_t)addr, length, held);
	pthread_mutex_unlock(&locating);
	if (!err && held == &other)
		copy_out(hold, size, held, sizeof(*held));
	return err;
}

void rmempool_release(const struct rmempool_hold *hold)
{
	struct rmempool *pool;

	pthread_mutex_lock(&locating);
	for (pool = pools; pool; pool = pool->next)
		if (pool->files == hold->file / MEMPOOL_PAGE_KINDS)
			mempool_release_in(pool, hold);
	pthread_mutex_unlock(&locating);
}

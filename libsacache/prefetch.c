/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Querying the SA ahead: for all paths from a port by one GetTable, or for the paths to given GIDs
 * by Gets. Few of these are pending at a time, so that other callers' queries are not delayed.
 *
 * Runs in the thread that calls sacache_prefetch(), which waits. Answers arrive in the port's
 * thread; job->lock guards shared data, and is never held with another lock. A job may outlive a
 * caller that gives up: the last user frees it.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/sized.h"
#include "libsacache/hosts.h"
#include "libsacache/state.h"

#define PROGRESS_MS   100
#define TABLE_MS      1000
#define TABLE_TRIES   10
#define MOST_MASKS    16
#define GIVE_UP_AFTER 16 /* timeouts without any answer */

struct job {
	struct sacache *cache;
	const struct sacache_prefetch_attr *attr; /* of sacache_prefetch() */
	struct sa_port_identity here;
	uint32_t generation;
	uint32_t masks[MOST_MASKS];
	unsigned nmasks;
	unsigned port;
	uint32_t ask; /* mask of the queries */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned under_way;
	unsigned timeouts;
	bool left;
	struct sacache_prefetch report;
};

static void job_free(struct job *job)
{
	pthread_mutex_destroy(&job->lock);
	pthread_cond_destroy(&job->cond);
	free(job);
}

static int job_create(struct sacache *cache, const struct sacache_prefetch_attr *attr,
		      struct job **out)
{
	struct sa_port_identity here;
	pthread_condattr_t clock;
	struct job *job;
	int ret = sa_port_identify(cache, attr->port, &here);

	if (ret)
		return ret;
	if (!attr->nmasks || attr->nmasks > MOST_MASKS)
		return -EINVAL;
	for (unsigned i = 0; i < attr->nmasks; i++) {
		const struct sacache_path none = {0};
		struct sacache_key key;

		if (sa_key_of_path(&none, attr->masks[i], attr->port, &key))
			return -EINVAL;
	}
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->cache = cache;
	job->attr = attr;
	job->here = here;
	job->generation = atomic_load(&cache->subnets[attr->port].generation);
	memcpy(job->masks, attr->masks, attr->nmasks * sizeof(job->masks[0]));
	job->nmasks = attr->nmasks;
	job->port = attr->port;
	/* The first mask whose components are known before the answer, or the method's. */
	for (unsigned i = 0; i < job->nmasks && !job->ask; i++)
		if (job->masks[i] & SACACHE_DGID &&
		    !(job->masks[i] & ~(uint32_t)(SACACHE_DGID | SACACHE_SGID)))
			job->ask = job->masks[i];
	if (!job->ask)
		job->ask = SACACHE_DGID;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&job->lock, NULL);
	pthread_cond_init(&job->cond, &clock);
	pthread_condattr_destroy(&clock);
	*out = job;
	return 0;
}

/* Adds the SA's answer under the masks that it was not queried with. */
static void answer(struct job *job, const struct sacache_path *path, uint32_t asked)
{
	uint8_t record[SA_RECORD_SIZE];
	struct sacache_key key;

	sa_record_encode(path, record);
	for (unsigned i = 0; i < job->nmasks; i++)
		if (job->masks[i] != asked && !sa_key_of_path(path, job->masks[i], job->port, &key))
			sa_cache_answer(job->cache, &key, job->generation, 0, record);
}

static void done(void *arg, int status, const struct sacache_path *path)
{
	struct job *job = arg;
	bool last;

	if (!status)
		answer(job, path, job->ask);
	pthread_mutex_lock(&job->lock);
	job->under_way--;
	if (status)
		job->report.failed++;
	else
		job->report.answered++;
	if (status == -ETIMEDOUT)
		job->timeouts++;
	last = job->left && !job->under_way;
	pthread_cond_signal(&job->cond);
	pthread_mutex_unlock(&job->lock);
	if (last)
		job_free(job);
}

/* Reports progress; a result other than 0 ends the job. Without job->lock. */
static int report_progress(struct job *job)
{
	struct sacache_prefetch so_far;

	if (!job->attr->progress)
		return 0;
	pthread_mutex_lock(&job->lock);
	so_far = job->report;
	pthread_mutex_unlock(&job->lock);
	return job->attr->progress(job->attr->arg, &so_far, sizeof(so_far)) ? -ECANCELED : 0;
}

/* Whether to go on, given the answers so far. Under job->lock. */
static int verdict(const struct job *job)
{
	if (job->report.answered && !sacache_caching(job->cache, job->port))
		return -EOPNOTSUPP;
	if (job->timeouts >= GIVE_UP_AFTER && !job->report.answered)
		return -ETIMEDOUT;
	return 0;
}

/* Waits until fewer than that many queries are pending. */
static int wait_for_room(struct job *job, unsigned room)
{
	int ret = 0;

	for (;;) {
		struct timespec until;
		bool ready;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PROGRESS_MS * 1000000l;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_mutex_lock(&job->lock);
		while (job->under_way >= room && ret != ETIMEDOUT)
			ret = pthread_cond_timedwait(&job->cond, &job->lock, &until);
		ready = job->under_way < room;
		ret = verdict(job);
		pthread_mutex_unlock(&job->lock);
		if (!ret)
			ret = report_progress(job);
		if (ret || ready)
			return ret;
	}
}

static int ask(struct job *job, const uint8_t gid[16])
{
	struct sacache_key key = {.port = job->port, .mask = job->ask};
	struct timespec pause = {.tv_nsec = PROGRESS_MS * 1000000l};
	struct sacache_path path;
	int ret;

	memcpy(key.dgid, gid, 16);
	memcpy(key.sgid, job->here.gid, 16);
	pthread_mutex_lock(&job->lock);
	job->under_way++;
	pthread_mutex_unlock(&job->lock);
	while ((ret = sacache_query(job->cache, &key, &path, done, job)) == -EAGAIN &&
	       !(ret = report_progress(job)))
		nanosleep(&pause, NULL);
	if (ret == -EINPROGRESS)
		return 0;
	pthread_mutex_lock(&job->lock);
	job->under_way--;
	if (ret)
		job->report.failed++;
	else
		job->report.present++;
	pthread_mutex_unlock(&job->lock);
	/* Adds an entry of the table under the other masks. */
	if (!ret)
		sa_cache_restore_path(job->cache, &path, job->port, job->masks, job->nmasks,
				      job->generation);
	/* An error of one GID does not end the job; a closed port does. */
	return ret == -ECANCELED || ret == -ENODEV || ret == -ENOMEM ? ret : 0;
}

static int ask_for_each(struct job *job, const uint8_t (*gids)[16], size_t count)
{
	unsigned most = job->cache->attr.window / 2;
	int ret = 0;

	if (!most)
		most = 1;
	job->report.wanted = count;
	for (size_t i = 0; !ret && i < count; i++) {
		/* Sends a single query first, until it is known that its answer is stored. */
		ret = wait_for_room(job, sacache_caching(job->cache, job->port) ? most : 1);
		if (!ret)
			ret = ask(job, gids[i]);
	}
	return ret ? ret : wait_for_room(job, 1);
}

static int compare_gids(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

static int compare_destinations(const void *a, const void *b)
{
	const struct sacache_path *p = a, *q = b;
	int ret = memcmp(p->dgid, q->dgid, 16);

	return ret ? ret : (int)p->dlid - q->dlid;
}

/* Only those that begin at this port. */
static size_t keep_ours(const struct job *job, struct sacache_path *paths, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!memcmp(paths[i].sgid, job->here.gid, 16))
			paths[kept++] = paths[i];
	return kept;
}

/* All paths of the port by one query. If a GID has several LIDs, the lowest is used. */
static int ask_for_table(struct job *job)
{
	const struct sacache_key all = {.port = job->port};
	size_t count, room = job->cache->attr.max_records;
	struct sacache_path *paths = calloc(room, sizeof(*paths));
	int ret = -ETIMEDOUT;

	if (!paths)
		return -ENOMEM;
	for (unsigned tries = 0; ret == -ETIMEDOUT && tries < TABLE_TRIES; tries++) {
		if (report_progress(job)) {
			free(paths);
			return -ECANCELED;
		}
		count = room;
		ret = sacache_query_table(job->cache, &all, paths, &count, TABLE_MS);
	}
	if (!ret) {
		job->report.by_table = true;
		count = keep_ours(job, paths, count);
		qsort(paths, count, sizeof(*paths), compare_destinations);
		for (size_t i = 0; i < count; i++) {
			if (i && !memcmp(paths[i].dgid, paths[i - 1].dgid, 16))
				continue;
			answer(job, &paths[i], 0);
			job->report.wanted++;
			job->report.answered++;
		}
		ret = verdict(job);
	}
	free(paths);
	return ret;
}

struct gids {
	size_t count, room;
	uint8_t (*gid)[16];
	const uint8_t *prefix;
};

static bool add_gid(struct gids *gids, const uint8_t gid[16])
{
	if (memcmp(gid, gids->prefix, 8) != 0)
		return true;
	if (gids->count == gids->room) {
		size_t room = gids->room ? 2 * gids->room : 1024;
		void *more = realloc(gids->gid, room * 16);

		if (!more)
			return false;
		gids->gid = more;
		gids->room = room;
	}
	memcpy(gids->gid[gids->count++], gid, 16);
	return true;
}

/* Known GIDs of the port's subnet: from the hosts file and from the table. */
static int known_gids(struct job *job, struct gids *gids)
{
	struct sacache *cache = job->cache;
	struct sa_entry *entry;
	bool enough = true;
	uint32_t at = 0;
	size_t kept = 0;

	pthread_mutex_lock(&cache->hosts_lock);
	for (size_t i = 0; enough && cache->hosts && i < cache->hosts->count; i++)
		enough = add_gid(gids, cache->hosts->host[i].gid);
	pthread_mutex_unlock(&cache->hosts_lock);
	pthread_mutex_lock(&cache->lock);
	while (enough && (entry = sa_table_next(&cache->table, &at)))
		if (entry->port == job->port && entry->kind == SA_ENTRY_PATH)
			enough = add_gid(gids, entry->record + 8);
	pthread_mutex_unlock(&cache->lock);
	if (!enough)
		return -ENOMEM;
	if (gids->count)
		qsort(gids->gid, gids->count, 16, compare_gids);
	for (size_t i = 0; i < gids->count; i++)
		if (!i || memcmp(gids->gid[i], gids->gid[kept - 1], 16) != 0)
			memmove(gids->gid[kept++], gids->gid[i], 16);
	gids->count = kept;
	return 0;
}

static int ask_for_all(struct job *job)
{
	struct gids gids = {.prefix = job->here.gid};
	int ret = ask_for_table(job);

	/* If this SA or transport has no GetTable: the paths to the known GIDs. */
	if (ret && ret != -ECANCELED && ret != -EOPNOTSUPP && ret != -ENODEV && ret != -ENOMEM) {
		ret = known_gids(job, &gids);
		if (!ret)
			ret = ask_for_each(job, (const uint8_t(*)[16])gids.gid, gids.count);
		free(gids.gid);
	}
	return ret;
}

int sacache_prefetch(struct sacache *cache, const struct sacache_prefetch_attr *wanted,
		     struct sacache_prefetch *report, size_t size)
{
	struct sacache_prefetch_attr attr = {0};
	struct job *job;
	bool last;
	int ret = copy_in(&attr, sizeof(attr), wanted);

	copy_out(report, size, NULL, 0);
	if (!ret)
		ret = job_create(cache, &attr, &job);
	if (ret)
		return ret;
	if (cache->attr.policy == SACACHE_NEVER)
		ret = -EOPNOTSUPP;
	else if (attr.gids)
		ret = ask_for_each(job, attr.gids, attr.count);
	else
		ret = ask_for_all(job);
	pthread_mutex_lock(&job->lock);
	copy_out(report, size, &job->report, sizeof(job->report));
	job->left = true;
	last = !job->under_way;
	pthread_mutex_unlock(&job->lock);
	if (last)
		job_free(job);
	return ret;
}

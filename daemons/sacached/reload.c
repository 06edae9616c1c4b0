/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A worker thread reads the files. It owns the fresh configuration until it ends; then the loop
 * takes it over. The hosts file goes from the thread into the cache, which has a lock for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "daemons/common/notify.h"
#include "daemons/common/task.h"
#include "daemons/sacached/names.h"
#include "daemons/sacached/reload.h"

struct reload {
	struct sacached *d;
	const struct config_source *source;
	struct task *task;
	bool again;		      /* it was asked for while the files were being read */
	struct sacached_config fresh; /* the task's, */
	bool parsed;		      /* whether it is whole, */
	int error;		      /* and of either file */
};

/* The default file may be missing. */
static int load_hosts(struct sacache *cache, const char *path)
{
	unsigned line = 0;
	int ret = path[0] ? sacache_hosts_load(cache, path, &line) : 0;

	if (ret == -ENOENT && !strcmp(path, SACACHED_HOSTS))
		return 0;
	if (ret == -EINVAL)
		log_error("%s:%u: write an IP address and a GID; the file is not used", path, line);
	else if (ret)
		log_error("%s: %s; the file is not used", path, strerror(-ret));
	return ret;
}

/* In the worker thread. */
static void read_files(void *arg)
{
	struct reload *reload = arg;

	sacached_config_init(&reload->fresh);
	reload->error = config_load(&sacached_config_table, &reload->fresh, reload->source);
	reload->parsed = !reload->error;
	if (reload->parsed)
		reload->error = load_hosts(reload->d->cache, reload->fresh.hosts);
}

static void take_config(void *arg)
{
	struct reload *reload = arg;
	struct sacached *d = reload->d;

	reload->task = NULL;
	if (reload->parsed) {
		config_update(&sacached_config_table, &d->config, &reload->fresh);
		log_level = d->config.log_level;
		names_reload(d->names);
	}
	if (reload->error)
		log_error("not reloaded as a whole: the old settings stay");
	else
		log_info("reloaded");
	notify_reloaded(d->notify);
	if (reload->again)
		reload_begin(reload);
}

void reload_begin(struct reload *reload)
{
	reload->again = reload->task != NULL;
	if (reload->again)
		return;
	notify_reloading(reload->d->notify);
	if (task_start(reload->d->base, &reload->task, read_files, take_config, reload)) {
		log_error("not reloaded: no thread");
		notify_reloaded(reload->d->notify);
	}
}

int reload_start(struct sacached *d, const struct config_source *source, struct reload **out)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload) {
		log_error("no memory");
		return -ENOMEM;
	}
	reload->d = d;
	reload->source = source;
	load_hosts(d->cache, d->config.hosts);
	*out = reload;
	return 0;
}

void reload_stop(struct reload *reload)
{
	if (reload && reload->task)
		task_finish(reload->task);
	free(reload);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Loads and saves the state file, and queries the SA ahead; warm.h has the order. The loop does not
 * touch what a worker thread owns until that ends.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemons/common/folder.h"
#include "daemons/common/log.h"
#include "daemons/common/task.h"
#include "daemons/sacached/warm.h"

#define TICK_S 1

/* The forms of keys that programs use: librdmacm and ibacm's clients name both GIDs, the
 * reconnect method one, MPI LIDs. */
static const uint32_t masks[] = {
	SACACHE_DGID | SACACHE_SGID,
	SACACHE_DGID,
	SACACHE_DLID | SACACHE_SLID,
};
#define MASKS (sizeof(masks) / sizeof(masks[0]))

struct waiter {
	struct waiter *next;
	warm_saved done;
	void *arg;
};

struct save {
	struct task *task;
	char path[CONFIG_PATH_LEN];
	uint32_t ports;
	struct sacache_state state;
	int status;
	struct waiter *waiters;
	struct waiter *next_waiters; /* requested a save while this one was being written */
};

struct prefetch {
	struct task *task;
	bool first; /* at the start: OpenSM's dump, and the SA only if configured */
	int import_status;
	struct sacache_import import;
	unsigned port;
	uint8_t (*gids)[16];
	size_t count;
	_Atomic bool stop;
	struct sacache_prefetch report;
	int status;
	warm_prefetched done;
	void *arg;
};

/* Loads the state file for ports that have become active. */
struct load {
	struct task *task;
	char path[CONFIG_PATH_LEN];
	uint32_t ports;
	bool confirm;
	struct sacache_state state;
	int status;
};

struct warm {
	struct sacached *d;
	struct event *timer; /* looks for active ports, and saves */
	unsigned ticks;	     /* since the last save */
	struct warm_status status;
	struct sacache_stats saved; /* the counters at the last save */
	struct load load;
	struct save save;
	struct prefetch prefetch;
};

const struct warm_status *warm_status(const struct warm *warm)
{
	return &warm->status;
}

/* The counters that report a change; lookups are not among them. */
static void stats_of(struct warm *warm, struct sacache_stats *stats)
{
	sacache_stats(warm->d->cache, stats, sizeof(*stats));
	stats->hits = 0;
	stats->negative_hits = 0;
}

static void begin_next(struct warm *warm);
static void save_for_next(struct warm *warm);

/* Loading: in a worker thread, or before the loop runs. Never during a save, which would replace
 * the file. */

static void load_work(void *arg)
{
	struct warm *warm = arg;
	struct load *load = &warm->load;

	/* What has changed while no process was there to notice it: of records by the SA, in the
	 * same way as after a client re-register; of the port's own LID and SM by the load. */
	load->status = load->path[0] ? sacache_load_ports(warm->d->cache, load->ports, load->path,
							  &load->state, sizeof(load->state))
				     : -ENOENT;
	for (unsigned n = 0; !load->status && load->confirm && n < SACACHE_MAX_PORTS; n++)
		if (load->ports >> n & 1)
			sacache_event(warm->d->cache, n, SACACHE_REREGISTER, NULL);
}

static void note_load(struct warm *warm)
{
	const struct load *load = &warm->load;
	const struct sacache_state *state = &load->state;
	char problem[sizeof(warm->status.problem)] = "";

	warm->status.records += state->records;
	warm->status.ask_again += state->ask_again;
	if (!load->status)
		log_info("%s: %llu records%s; %llu are of other ports, or older than what is there",
			 load->path, (unsigned long long)state->records,
			 state->ask_again ? ", to be asked for again: LID or SM changed"
			 : state->records && load->confirm ? ", to be confirmed by the SA"
							   : "",
			 (unsigned long long)state->skipped);
	else if (load->status == -EBADMSG && state->aside[0])
		snprintf(problem, sizeof(problem), "%s; kept as %s", state->problem, state->aside);
	else if (load->status == -EBADMSG)
		snprintf(problem, sizeof(problem), "%s", state->problem);
	else if (load->status != -ENOENT)
		snprintf(problem, sizeof(problem), "%s", strerror(-load->status));
	if (problem[0]) {
		log_warning("%s: %s. Going on with an empty cache", load->path, problem);
		memcpy(warm->status.problem, problem, sizeof(problem));
	}
}

static void load_done(void *arg)
{
	struct warm *warm = arg;
	struct sacached *d = warm->d;

	warm->load.task = NULL;
	note_load(warm);
	for (unsigned i = 0; i < d->nports; i++)
		d->ports[i].loaded |= d->ports[i].loading;
	if (!warm->status.loaded)
		stats_of(warm, &warm->saved);
	warm->status.loaded = true;
	begin_next(warm);
	save_for_next(warm);
}

/*
 * Ports that are active for the first time. Before that neither the subnet nor the SM is known, and
 * no record can be verified. False: there are none, or they have to wait for a task.
 */
static bool prepare_load(struct warm *warm)
{
	struct sacached *d = warm->d;
	struct load *load = &warm->load;

	if (load->task || warm->save.task)
		return false;
	load->ports = 0;
	for (unsigned i = 0; i < d->nports; i++) {
		struct sacached_port *port = &d->ports[i];

		port->loading = port->active && !port->loaded;
		if (port->loading)
			load->ports |= 1u << port->number;
	}
	load->confirm = d->config.state_confirm;
	memcpy(load->path, d->config.state_file, sizeof(load->path));
	memset(&load->state, 0, sizeof(load->state));
	return load->ports;
}

static void load_for_new(struct warm *warm)
{
	if (prepare_load(warm) &&
	    task_start(warm->d->base, &warm->load.task, load_work, load_done, warm))
		log_warning("%s: no thread to load it; trying again", warm->load.path);
}

static uint32_t loaded_ports(const struct sacached *d)
{
	uint32_t ports = 0;

	for (unsigned i = 0; i < d->nports; i++)
		if (d->ports[i].loaded)
			ports |= 1u << d->ports[i].number;
	return ports;
}

/* Saving. */

static void save_work(void *arg)
{
	struct warm *warm = arg;

	struct save *save = &warm->save;

	save->status = sacache_save_ports(warm->d->cache, save->ports, save->path, &save->state,
					  sizeof(save->state));
}

static void note_save(struct warm *warm)
{
	const struct save *save = &warm->save;

	if (!save->status) {
		warm->status.saves++;
		warm->status.saved_at = save->state.when;
		warm->status.saved = save->state.records;
		log_debug("%s: %llu records saved", save->path,
			  (unsigned long long)save->state.records);
	} else {
		/* Logged once, and counted. */
		if (save->status != warm->status.save_error)
			log_error("%s: %s; what was saved before is still there", save->path,
				  strerror(-save->status));
		warm->status.save_errors++;
	}
	warm->status.save_error = save->status;
}

static void save_done(void *arg);

static void prepare_save(struct warm *warm)
{
	memcpy(warm->save.path, warm->d->config.state_file, sizeof(warm->save.path));
	warm->save.ports = loaded_ports(warm->d);
}

static int start_save(struct warm *warm)
{
	int ret;

	stats_of(warm, &warm->saved);
	prepare_save(warm);
	ret = task_start(warm->d->base, &warm->save.task, save_work, save_done, warm);
	if (ret)
		log_error("not saved: %s", strerror(-ret));
	return ret;
}

static void complete_waiters(struct waiter *waiter, int status, const struct sacache_state *state)
{
	while (waiter) {
		struct waiter *next = waiter->next;

		if (waiter->done)
			waiter->done(waiter->arg, status, state);
		free(waiter);
		waiter = next;
	}
}

/* Requests that arrived while the file was being written or loaded want newer contents: it is
 * written again. */
static void save_for_next(struct warm *warm)
{
	struct save *save = &warm->save;
	struct waiter *waiters = save->next_waiters;
	int ret;

	save->next_waiters = NULL;
	ret = waiters ? start_save(warm) : 0;
	if (ret)
		complete_waiters(waiters, ret, &save->state);
	else
		save->waiters = waiters;
}

static void save_done(void *arg)
{
	struct warm *warm = arg;
	struct save *save = &warm->save;
	struct sacache_state state = save->state;
	struct waiter *waiters = save->waiters;
	int status = save->status;

	save->task = NULL;
	save->waiters = NULL;
	note_save(warm);
	save_for_next(warm);
	complete_waiters(waiters, status, &state);
}

int warm_save(struct warm *warm, warm_saved done, void *arg)
{
	struct waiter *waiter;
	int ret = 0;

	if (!warm->d->config.state_file[0])
		return -ENOENT;
	if (!warm->status.loaded)
		return -ENODEV;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	waiter->done = done;
	waiter->arg = arg;
	/* A save that is running may have passed newer records. */
	if (warm->save.task || warm->load.task) {
		waiter->next = warm->save.next_waiters;
		warm->save.next_waiters = waiter;
		return 0;
	}
	ret = start_save(warm);
	if (ret) {
		free(waiter);
		return ret;
	}
	waiter->next = warm->save.waiters;
	warm->save.waiters = waiter;
	return 0;
}

static bool changed(struct warm *warm)
{
	struct sacache_stats now;

	stats_of(warm, &now);
	return memcmp(&now, &warm->saved, sizeof(now)) != 0 || warm->status.save_error;
}

/* Since the last save a record was found to have changed, or all are to be queried again. */
static bool outdated(struct warm *warm)
{
	const struct sacache_stats *saved = &warm->saved;
	struct sacache_stats now;

	stats_of(warm, &now);
	return now.changed != saved->changed || now.lid_changes != saved->lid_changes ||
	       now.sm_changes != saved->sm_changes || now.sm_restarts != saved->sm_restarts ||
	       now.reregisters != saved->reregisters;
}

static void save_if_changed(struct warm *warm)
{
	if (warm->d->config.state_file[0] && !warm->save.task && !warm->load.task && changed(warm))
		start_save(warm);
}

static void save_at_end(struct warm *warm)
{
	if (!warm->d->config.state_file[0] || !changed(warm))
		return;
	prepare_save(warm);
	save_work(warm);
	note_save(warm);
}

/* Querying ahead. */

static int prefetch_progress(void *arg, const struct sacache_prefetch *so_far, size_t size)
{
	struct warm *warm = arg;

	return atomic_load(&warm->prefetch.stop);
}

static void prefetch_work(void *arg)
{
	struct warm *warm = arg;
	struct prefetch *prefetch = &warm->prefetch;
	struct sacache_prefetch_attr attr = {
		.size = sizeof(attr),
		.port = prefetch->port,
		.gids = (const uint8_t(*)[16])prefetch->gids,
		.count = prefetch->count,
		.masks = masks,
		.nmasks = MASKS,
		.progress = prefetch_progress,
		.arg = warm,
	};

	memset(&prefetch->report, 0, sizeof(prefetch->report));
	if (prefetch->first && warm->d->config.import[0])
		prefetch->import_status =
			sacache_import(warm->d->cache, prefetch->port, warm->d->config.import,
				       masks, MASKS, &prefetch->import, sizeof(prefetch->import));
	if (!prefetch->first || warm->d->config.prefetch)
		prefetch->status = sacache_prefetch(warm->d->cache, &attr, &prefetch->report,
						    sizeof(prefetch->report));
}

static void say_imported(struct warm *warm)
{
	const struct prefetch *prefetch = &warm->prefetch;
	const struct sacache_import *import = &prefetch->import;
	const char *path = warm->d->config.import;
	unsigned port = prefetch->port;

	warm->status.imported += import->records;
	if (!prefetch->import_status)
		log_info("%s: %llu paths%s", path, (unsigned long long)import->records / MASKS,
			 sacache_caching(warm->d->cache, port)
				 ? ""
				 : ", of use when the SM switches caching on (or with policy "
				   "always)");
	else if (prefetch->import_status == -EINVAL && import->line)
		log_warning("%s:%u: %s; nothing of it is used", path, import->line,
			    import->problem);
	else if (prefetch->import_status == -ENXIO)
		log_warning("%s: it has no paths from port %u", path, port);
	else if (prefetch->import_status == -ESTALE)
		log_warning("%s: port %u has another LID there; let OpenSM write it anew", path,
			    port);
	else
		log_warning("%s: %s", path, strerror(-prefetch->import_status));
}

static void say_prefetched(int status, const struct sacache_prefetch *report)
{
	if (status == -EOPNOTSUPP)
		log_warning("not asked ahead: the SM does not switch caching on; see policy in "
			    "sacached.conf(5)");
	else if (status)
		log_warning("asked ahead for %llu of %llu paths: %s",
			    (unsigned long long)report->answered,
			    (unsigned long long)report->wanted, strerror(-status));
	else
		log_info("asked ahead: %llu paths, %llu were there, %llu cannot be had%s",
			 (unsigned long long)report->answered, (unsigned long long)report->present,
			 (unsigned long long)report->failed,
			 report->by_table ? ", by one table" : "");
}

static void prefetch_done(void *arg)
{
	struct warm *warm = arg;
	struct prefetch *prefetch = &warm->prefetch;
	warm_prefetched done = prefetch->done;

	prefetch->task = NULL;
	prefetch->done = NULL;
	free(prefetch->gids);
	prefetch->gids = NULL;
	warm->status.prefetching = false;
	warm->status.prefetched += prefetch->report.answered;
	if (prefetch->first && warm->d->config.import[0])
		say_imported(warm);
	if (prefetch->first && warm->d->config.prefetch)
		say_prefetched(prefetch->status, &prefetch->report);
	if (done)
		done(prefetch->arg, prefetch->status, &prefetch->report);
	begin_next(warm);
}

static int start_prefetch(struct warm *warm, unsigned port, bool first)
{
	struct prefetch *prefetch = &warm->prefetch;
	int ret;

	prefetch->port = port;
	prefetch->first = first;
	atomic_store(&prefetch->stop, false);
	ret = task_start(warm->d->base, &prefetch->task, prefetch_work, prefetch_done, warm);
	warm->status.prefetching = !ret;
	return ret;
}

int warm_prefetch(struct warm *warm, unsigned port, uint8_t (*gids)[16], size_t count,
		  warm_prefetched done, void *arg)
{
	struct prefetch *prefetch = &warm->prefetch;
	int ret;

	if (prefetch->task)
		return -EBUSY;
	prefetch->gids = gids;
	prefetch->count = count;
	prefetch->done = done;
	prefetch->arg = arg;
	ret = start_prefetch(warm, port, false);
	if (ret) {
		prefetch->gids = NULL;
		prefetch->done = NULL;
	}
	return ret;
}

static bool begins_with_more(const struct warm *warm)
{
	return warm->d->config.prefetch || warm->d->config.import[0];
}

/* At the start, for one port after the other, as they become active. */
static void begin_next(struct warm *warm)
{
	struct sacached *d = warm->d;

	for (unsigned i = 0; i < d->nports && !warm->prefetch.task && begins_with_more(warm); i++) {
		struct sacached_port *port = &d->ports[i];

		if (!port->active || !port->loaded || port->begun)
			continue;
		port->begun = true;
		if (start_prefetch(warm, port->number, true))
			log_warning("no thread to start warm with");
	}
}

void warm_forget(struct warm *warm, void *arg)
{
	if (warm->prefetch.done && warm->prefetch.arg == arg) {
		warm->prefetch.done = NULL;
		atomic_store(&warm->prefetch.stop, true);
	}
	for (struct waiter *w = warm->save.waiters; w; w = w->next)
		if (w->arg == arg)
			w->done = NULL;
	for (struct waiter *w = warm->save.next_waiters; w; w = w->next)
		if (w->arg == arg)
			w->done = NULL;
}

/* Start and stop. */

/* Saves at the interval; sooner, if the file holds records that are no longer true, since a
 * restart would read them. */
static void timer(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval next = {.tv_sec = TICK_S};
	struct warm *warm = arg;
	unsigned interval = warm->d->config.state_interval;

	load_for_new(warm);
	begin_next(warm);
	warm->ticks++;
	if (warm->status.loaded && interval &&
	    (warm->ticks * TICK_S >= interval || outdated(warm))) {
		warm->ticks = 0;
		save_if_changed(warm);
	}
	event_add(warm->timer, &next);
}

int warm_start(struct sacached *d, struct warm **out)
{
	struct warm *warm = calloc(1, sizeof(*warm));

	if (warm) {
		warm->d = d;
		warm->status.started = time(NULL);
		warm->timer = event_new(d->base, -1, 0, timer, warm);
	}
	if (!warm || !warm->timer) {
		log_error("no memory");
		warm_stop(warm);
		return -ENOMEM;
	}
	/* Mode 0600: the file shows which hosts this one talks to. */
	if (folder_make(d->config.state_file, 0700, d->config.user))
		log_warning("%s: its folder cannot be made; the cache will not be saved",
			    d->config.state_file);
	*out = warm;
	/* No client is served yet, so that the first one finds what was saved. */
	if (prepare_load(warm)) {
		load_work(warm);
		load_done(warm);
	}
	timer(-1, 0, warm);
	return 0;
}

static void free_waiters(struct waiter *waiter)
{
	while (waiter) {
		struct waiter *next = waiter->next;

		free(waiter);
		waiter = next;
	}
}

void warm_stop(struct warm *warm)
{
	if (!warm)
		return;
	if (warm->load.task)
		task_finish(warm->load.task);
	atomic_store(&warm->prefetch.stop, true);
	if (warm->prefetch.task)
		task_finish(warm->prefetch.task);
	free(warm->prefetch.gids);
	if (warm->save.task) {
		task_finish(warm->save.task);
		note_save(warm);
	}
	if (warm->status.loaded)
		save_at_end(warm);
	free_waiters(warm->save.waiters);
	free_waiters(warm->save.next_waiters);
	if (warm->timer)
		event_free(warm->timer);
	free(warm);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An event plugin for OpenSM, which gives ports LIDs without a restart. In opensm.conf:
 *
 *	event_plugin_name lidtrack
 *	event_plugin_options /var/lib/lidtrackd/lids
 *
 * The file has the form of guid2lid. When somebody renames another one over it, a heavy sweep is
 * asked for, which brings its entries into OpenSM's own table before it assigns LIDs; so guests
 * that cross are one sweep. A file that gives two ports one LID, or a LID that a third one has,
 * changes nothing.
 *
 *	do_sweep() of osm_state_mgr.c	the flag for a heavy sweep	report()
 *	HEAVY_SWEEP_START
 *	discovery		clears it; set meanwhile: discovery again
 *	HEAVY_SWEEP_DONE						reads the file
 *	LIDs, routes, links	set meanwhile: another sweep follows
 *
 * At HEAVY_SWEEP_START it would be too early: a writer that changes the file during
 * discovery has the flag cleared by a discovery that is not reported again, and waits for a
 * sweep that something else causes.
 *
 * report() runs in OpenSM's sweeping thread, watch() in one of its own. They share nothing but what
 * is constant, and OpenSM's flag for a heavy sweep, which SIGHUP's handler sets just so.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <opensm/osm_version.h>
#include <opensm/osm_opensm.h>
#include <opensm/osm_log.h>
#include <opensm/osm_db_pack.h>

#include "migrate/guid2lid.h"

#define LOG(plugin, level, ...) osm_log(&(plugin)->osm->log, level, "lidtrack: " __VA_ARGS__)

struct plugin {
	osm_opensm_t *osm;
	char path[PATH_MAX];
	pthread_t thread;
	int changes; /* inotify */
	int folder;  /* its watch; -1: the folder is not there */
	int stop;    /* eventfd */
};

/* ---- LIDs are about to be assigned ---- */

/* OpenSM's table, as ours. */
static int read_table(struct plugin *p, struct guid2lid *table)
{
	osm_db_domain_t *domain = p->osm->sm.lid_mgr.p_g2l;
	cl_qlist_t guids;
	cl_list_item_t *item;
	int ret = 0;

	cl_qlist_init(&guids);
	if (osm_db_guid2lid_guids(domain, &guids))
		ret = -EIO;
	while ((item = cl_qlist_remove_head(&guids)) != cl_qlist_end(&guids)) {
		osm_db_guid_elem_t *elem = (osm_db_guid_elem_t *)item;
		struct guid2lid_entry e = {.guid = elem->guid};

		/* What is wrong there is OpenSM's to deal with. */
		if (!ret && !osm_db_guid2lid_get(domain, e.guid, &e.min, &e.max) &&
		    guid2lid_set(table, &e) == -ENOMEM)
			ret = -ENOMEM;
		free(elem);
	}
	return ret;
}

/* Both tables are of before; wanted has what is to be. */
static bool is_possible(struct plugin *p, const struct guid2lid *table,
			const struct guid2lid *wanted)
{
	struct guid2lid result;
	bool possible = true;

	guid2lid_init(&result);
	for (size_t i = 0; i < table->count && possible; i++)
		possible = !guid2lid_set(&result, &table->entries[i]);
	for (size_t i = 0; i < wanted->count && possible; i++)
		possible = !guid2lid_set(&result, &wanted->entries[i]);
	for (size_t i = 0; i < wanted->count && possible; i++) {
		const struct guid2lid_entry *e = &wanted->entries[i], *other;

		other = guid2lid_overlap(&result, e);
		if (!other)
			continue;
		LOG(p, OSM_LOG_ERROR,
		    "0x%016" PRIx64 " cannot have LID %u: 0x%016" PRIx64
		    " has it; nothing is changed\n",
		    e->guid, e->min, other->guid);
		possible = false;
	}
	guid2lid_destroy(&result);
	return possible;
}

static void apply(struct plugin *p, const struct guid2lid *table, const struct guid2lid *wanted)
{
	osm_lid_mgr_t *lids = &p->osm->sm.lid_mgr;

	for (size_t i = 0; i < wanted->count; i++) {
		const struct guid2lid_entry *e = &wanted->entries[i];
		const struct guid2lid_entry *old = guid2lid_find(table, e->guid);

		if (old && old->min == e->min && old->max == e->max)
			continue;
		if (osm_db_guid2lid_set(lids->p_g2l, e->guid, e->min, e->max))
			continue;
		lids->dirty = TRUE; /* the file is written at the end of the sweep */
		LOG(p, OSM_LOG_INFO, "0x%016" PRIx64 " gets LID %u\n", e->guid, e->min);
	}
}

static void on_sweep(struct plugin *p)
{
	struct guid2lid wanted, table;

	guid2lid_init(&wanted);
	guid2lid_init(&table);
	if (guid2lid_read(&wanted, p->path) || wanted.damaged)
		LOG(p, OSM_LOG_ERROR,
		    "%s cannot be read, or line %u is damaged; nothing is changed\n", p->path,
		    wanted.first_damaged);
	else if (wanted.count && !read_table(p, &table) && is_possible(p, &table, &wanted))
		apply(p, &table, &wanted);
	guid2lid_destroy(&wanted);
	guid2lid_destroy(&table);
}

static void report(void *data, osm_epi_event_id_t event, void *event_data)
{
	if (data && event == OSM_EVENT_ID_HEAVY_SWEEP_DONE)
		on_sweep(data);
}

/* ---- the file changes ---- */

#define AGAIN_MS 1000 /* between two looks for a folder that is not there */

static int watch_folder(struct plugin *p)
{
	char copy[PATH_MAX];

	memcpy(copy, p->path, sizeof(copy));
	p->folder = inotify_add_watch(p->changes, dirname(copy),
				      IN_MOVED_TO | IN_CLOSE_WRITE | IN_MOVE_SELF | IN_ONLYDIR);
	return p->folder < 0 ? -errno : 0;
}

/* Another folder may take the place of one that was removed, or has another name. */
static void lose_folder(struct plugin *p)
{
	LOG(p, OSM_LOG_ERROR, "the folder of %s is gone\n", p->path);
	inotify_rm_watch(p->changes, p->folder);
	p->folder = -1;
}

/* Is it that file, of all that changed in its folder, or may it be? */
static bool is_ours(struct plugin *p)
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t n = read(p->changes, events, sizeof(events));
	char copy[PATH_MAX];
	bool ours = false;

	memcpy(copy, p->path, sizeof(copy));
	for (char *at = events; at < events + n;) {
		const struct inotify_event *e = (const struct inotify_event *)at;

		ours = ours || e->mask & IN_Q_OVERFLOW ||
		       (e->len && !strcmp(e->name, basename(copy)));
		if (e->mask & (IN_IGNORED | IN_MOVE_SELF) && e->wd == p->folder)
			lose_folder(p);
		at += sizeof(*e) + e->len;
	}
	return ours;
}

static void *watch(void *arg)
{
	struct plugin *p = arg;
	struct pollfd fds[] = {{.fd = p->changes, .events = POLLIN},
			       {.fd = p->stop, .events = POLLIN}};

	while (!fds[1].revents) {
		bool ours;

		if (poll(fds, 2, p->folder < 0 ? AGAIN_MS : -1) < 0 && errno != EINTR)
			break;
		ours = fds[0].revents && is_ours(p);
		/* What is in a folder that is there again may be new. */
		if (p->folder < 0 && !watch_folder(p))
			ours = true;
		if (!ours)
			continue;
		p->osm->subn.force_heavy_sweep = TRUE;
		osm_opensm_sweep(p->osm);
	}
	return NULL;
}

static int start_watch(struct plugin *p)
{
	int ret;

	p->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	p->stop = eventfd(0, EFD_CLOEXEC);
	if (p->changes < 0 || p->stop < 0)
		return -errno;
	ret = watch_folder(p);
	return ret ? ret : -pthread_create(&p->thread, NULL, watch, p);
}

/* ---- OpenSM's calls ---- */

static void end(struct plugin *p)
{
	if (p->changes >= 0)
		close(p->changes);
	if (p->stop >= 0)
		close(p->stop);
	free(p);
}

static void *create(struct osm_opensm *osm)
{
	const char *path = osm->subn.opt.event_plugin_options;
	struct plugin *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return NULL;
	p->osm = osm;
	p->changes = p->stop = -1;
	if (!path || *path != '/' || strlen(path) >= sizeof(p->path)) {
		LOG(p, OSM_LOG_ERROR,
		    "event_plugin_options in opensm.conf is to be the path of the file with "
		    "LIDs\n");
		free(p);
		return NULL;
	}
	strcpy(p->path, path);
	ret = start_watch(p);
	if (!ret)
		return p;
	LOG(p, OSM_LOG_ERROR, "%s cannot be watched: %s\n", path, strerror(-ret));
	end(p);
	return NULL;
}

static void destroy(void *data)
{
	struct plugin *p = data;

	if (!p)
		return;
	eventfd_write(p->stop, 1);
	pthread_join(p->thread, NULL);
	end(p);
}

__attribute__((visibility("default"))) osm_event_plugin_t osm_event_plugin = {
	.osm_version = OSM_VERSION,
	.create = create,
	.delete = destroy,
	.report = report,
};

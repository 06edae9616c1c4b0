// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Beside a standby SM: its guid2lid is kept as the master's, so that a takeover (with
 * honor_guid2lid_file) lends no LID of a port that is away just then. The agent beside the master
 * is asked again and again, since OpenSM changes the file without telling anybody. The loop's
 * thread, but for work().
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"
#include "migrate/guid2lid.h"

struct follower {
	struct lidtrackd *d;
	struct event *timer;
	struct task *task; /* NULL: none is under way */
	/* The task's. */
	struct guid2lid lids;
	struct guid2lid_change change;
	int error;
	int said; /* the error that was logged last */
};

static void add_entry(void *arg, const struct record *r, const char *reason)
{
	struct follower *f = arg;
	struct guid2lid_entry e = {r->guid, r->lid, r->lid + (1u << r->lmc) - 1};
	const struct guid2lid_entry *before = guid2lid_find(&f->lids, e.guid);

	if (before && before->max + 1u == e.min)
		e.min = before->min;
	if (!f->error)
		f->error = guid2lid_set(&f->lids, &e);
}

static void work(void *arg)
{
	struct follower *f = arg;
	struct lidtrackd *d = f->d;
	int ret;

	f->error = 0;
	guid2lid_init(&f->lids);
	ret = peer_list(d, d->config.follow, MESSAGE_LIDS, add_entry, f);
	if (ret)
		f->error = ret;
	if (!f->error)
		f->error = guid2lid_follow(d->config.guid2lid, f->lids.entries, f->lids.count,
					   &f->change, sizeof(f->change));
	guid2lid_destroy(&f->lids);
}

static void again(struct follower *f)
{
	uint64_t ms = f->d->config.follow_every;
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	evtimer_add(f->timer, &tv);
}

static void done(void *arg)
{
	struct follower *f = arg;
	struct lidtrackd *d = f->d;

	f->task = NULL;
	if (f->error && f->error != f->said)
		log_warning("%s does not follow %s: %s", d->config.guid2lid, d->config.follow,
			    strerror(-f->error));
	f->said = f->error;
	if (f->error)
		d->counts.follow_errors++;
	else if (f->change.written)
		d->counts.follows++;
	again(f);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct follower *f = arg;

	if (task_start(f->d->loop.base, &f->task, work, done, f))
		again(f);
}

int follower_start(struct lidtrackd *d)
{
	const struct timeval now = {0};
	struct follower *f;

	if (!d->config.follow[0])
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->d = d;
	f->timer = evtimer_new(d->loop.base, on_timer, f);
	d->follower = f;
	return f->timer ? evtimer_add(f->timer, &now) : -ENOMEM;
}

void follower_stop(struct lidtrackd *d)
{
	struct follower *f = d->follower;

	if (!f)
		return;
	if (f->task)
		task_finish(f->task);
	if (f->timer)
		event_free(f->timer);
	free(f);
	d->follower = NULL;
}

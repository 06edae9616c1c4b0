// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Mode shared-port, at the agent beside the subnet manager: where guests are becomes which LIDs
 * hosts have (migrate/lid_plan.h), and that reaches OpenSM. A journal of its own has guests (port:
 * where it is now, lid: its floating one) and hosts (port: its own GUID, lid: its base LID).
 *
 * A guest that leaves for another host changes nothing before it is there, and changes are gathered
 * for a moment: so guests that cross are one plan, and one sweep. The loop's thread, but for
 * apply_work() and what it calls.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/folder.h"
#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"
#include "migrate/lid_plan.h"

struct tracker {
	struct lidtrackd *d;
	struct journal journal;
	struct event *timer; /* changes are gathered */
	struct apply *apply; /* under way */
	unsigned version;    /* one more at each change of where guests are */
	unsigned applied;    /* the version that OpenSM was told of last */
	int told; /* OpenSM knows what is in its file: 1; 0; -1: this agent has not told it */
	char reason[REASON_LEN]; /* why the last plan has not reached it; "" */
};

struct apply {
	struct tracker *t;
	struct task *task;
	unsigned version;
	int told;
	struct lid_plan plan;
	struct guid2lid taken;
	int error;
	char reason[REASON_LEN];
};

static bool is_host(const struct record *r)
{
	return r->port == r->guid;
}

/* ---- telling OpenSM, in a thread ---- */

static int write_lids(const char *path, const struct guid2lid *lids)
{
	char beside[LINK_ADDRESS_LEN + 256];
	struct guid2lid old;
	size_t len, old_len;
	char *text = guid2lid_format(lids, &len), *old_text = NULL;
	FILE *f;
	int ret = text ? 0 : -ENOMEM;

	guid2lid_init(&old);
	/* A damaged one says nothing to OpenSM, whatever is whole in it. */
	if (!ret && !guid2lid_read(&old, path) && !old.damaged)
		old_text = guid2lid_format(&old, &old_len);
	guid2lid_destroy(&old);
	/* What is there already needs no sweep. */
	if (ret ||
	    (old_text && old_len == len && !memcmp(text, old_text, len) && !access(path, F_OK))) {
		free(text);
		free(old_text);
		return ret;
	}
	snprintf(beside, sizeof(beside), "%s.new", path);
	f = fopen(beside, "we");
	if (!f || fwrite(text, 1, len, f) != len || fflush(f) || fsync(fileno(f)))
		ret = errno ? -errno : -EIO;
	if (f && fclose(f) && !ret)
		ret = -errno;
	if (!ret && rename(beside, path))
		ret = -errno;
	free(text);
	free(old_text);
	return ret;
}

static void not_written(struct apply *a, const char *path, int error)
{
	snprintf(a->reason, REASON_LEN, "%.180s: %s", path, strerror(-error));
}

/* OpenSM's own file, for a new master to read. */
static int change_guid2lid(struct apply *a, const struct guid2lid *lids, bool *changed)
{
	const struct lidtrackd_config *c = &a->t->d->config;
	struct guid2lid_change change;
	struct guid2lid_entry other = {0};
	int ret = guid2lid_update(c->guid2lid, lids->entries, lids->count, &change, sizeof(change),
				  &other);

	if (ret == -EADDRINUSE)
		snprintf(a->reason, REASON_LEN, "0x%016" PRIx64 " has LID %u already", other.guid,
			 other.min);
	else if (ret)
		not_written(a, c->guid2lid, ret);
	if (change.damaged)
		log_warning("%s: %u damaged lines; the old file is %s.damaged", c->guid2lid,
			    change.damaged, c->guid2lid);
	*changed = change.written;
	return ret;
}

static int restart(struct apply *a)
{
	int status = system(a->t->d->config.restart_command);

	if (!status)
		return 0;
	snprintf(a->reason, REASON_LEN, "restart_command: status %d",
		 WIFEXITED(status) ? WEXITSTATUS(status) : status);
	return -EIO;
}

/* Has the SM given these LIDs to all of these ports that are there? 1; 0; -errno. */
static int has_lids(struct lidtrackd *d, const struct guid2lid *lids)
{
	struct sa_port port;

	for (size_t i = 0; i < lids->count; i++) {
		int ret = sa_find_port(&d->sa, lids->entries[i].guid, false, &port);

		if (ret && ret != -ENOENT)
			return ret;
		if (!ret && port.lid != lids->entries[i].min)
			return 0;
	}
	return 1;
}

static int tell(struct apply *a, const struct guid2lid *lids)
{
	struct lidtrackd *d = a->t->d;
	bool changed;
	int ret;

	if (d->config.apply == APPLY_PLUGIN) {
		ret = write_lids(d->config.lids, lids);
		if (ret)
			not_written(a, d->config.lids, ret);
		return ret;
	}
	ret = change_guid2lid(a, lids, &changed);
	if (changed)
		a->told = 0;
	/* The file may be of an agent that ended before OpenSM was told. */
	if (!ret && a->told < 0) {
		ret = has_lids(d, lids);
		a->told = ret;
	}
	if (ret < 0 || a->told)
		return ret < 0 ? ret : 0;
	ret = d->config.apply == APPLY_HANDOVER ? sa_hand_over(&d->sa) : restart(a);
	a->told = !ret;
	return ret;
}

static int make_plan(struct apply *a)
{
	struct lidtrackd *d = a->t->d;
	struct sa_own_port own;
	int ret = guid2lid_read(&a->taken, d->config.guid2lid);

	if (!ret)
		ret = sa_own_port(&d->sa, &own);
	if (!ret)
		ret = sa_smallest_linear_cap(&d->sa, &a->plan.linear_cap);
	if (ret) {
		snprintf(a->reason, REASON_LEN, "the subnet is not known: %s", strerror(-ret));
		return ret;
	}
	a->plan.taken = &a->taken;
	a->plan.lmc = own.lmc;
	a->plan.floating_from = d->config.floating_from;
	a->plan.room = d->config.num_peers + 1;
	a->plan.size = sizeof(a->plan);
	ret = lid_plan_make(&a->plan);
	if (ret)
		snprintf(a->reason, REASON_LEN, "no LIDs for 0x%016" PRIx64 ": %s",
			 a->plan.num_guests ? a->plan.guests[a->plan.culprit].guid : 0,
			 strerror(-ret));
	return ret;
}

static void apply_work(void *arg)
{
	struct apply *a = arg;
	struct guid2lid lids;

	guid2lid_init(&lids);
	a->error = make_plan(a);
	for (size_t i = 0; i < a->plan.num_hosts && !a->error; i++) {
		struct guid2lid_entry e = lid_plan_entry(&a->plan, i);

		a->error = guid2lid_set(&lids, &e);
	}
	if (!a->error)
		a->error = tell(a, &lids);
	if (a->error && !a->reason[0])
		snprintf(a->reason, REASON_LEN, "OpenSM was not told: %s", strerror(-a->error));
	guid2lid_destroy(&lids);
}

/* ---- plans ---- */

static void apply_free(struct apply *a)
{
	a->t->apply = NULL;
	free(a->plan.hosts);
	free(a->plan.guests);
	guid2lid_destroy(&a->taken);
	free(a);
}

static void apply_in(struct tracker *t, uint64_t ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	if (!evtimer_pending(t->timer, NULL))
		evtimer_add(t->timer, &tv);
}

static void keep_floating(struct apply *a)
{
	for (size_t i = 0; i < a->plan.num_guests; i++) {
		const struct lid_guest *g = &a->plan.guests[i];
		struct record *old = journal_find(&a->t->journal, g->guid), r;

		if (!old || old->lid == g->floating)
			continue;
		r = *old;
		r.lid = g->floating;
		a->error = journal_put(&a->t->journal, &r);
		if (a->error) {
			snprintf(a->reason, REASON_LEN, "the tracker's journal: %s",
				 strerror(-a->error));
			return;
		}
	}
}

static void apply_done(void *arg)
{
	struct apply *a = arg;
	struct tracker *t = a->t;

	a->task = NULL;
	t->told = a->told;
	if (!a->error)
		keep_floating(a);
	if (!a->error)
		t->applied = a->version;
	else if (strcmp(t->reason, a->reason) != 0)
		log_warning("LIDs are not changed: %s", a->reason);
	memcpy(t->reason, a->reason, sizeof(t->reason));
	if (t->applied != t->version)
		apply_in(t, a->error ? 1000 : t->d->config.gather);
	apply_free(a);
}

static size_t place_of(const struct apply *a, uint64_t port)
{
	for (size_t i = 0; i < a->plan.num_hosts; i++)
		if (a->plan.hosts[i].guid == port)
			return i;
	return LID_PLAN_NO_HOST;
}

static int copy_records(struct apply *a)
{
	const struct journal *j = &a->t->journal;

	a->plan.hosts = calloc(j->count + 1, sizeof(*a->plan.hosts));
	a->plan.guests = calloc(j->count + 1, sizeof(*a->plan.guests));
	if (!a->plan.hosts || !a->plan.guests)
		return -ENOMEM;
	for (size_t i = 0; i < j->count; i++)
		if (is_host(&j->records[i]))
			a->plan.hosts[a->plan.num_hosts++] = (struct lid_host){
				.guid = j->records[i].guid, .base = j->records[i].lid};
	for (size_t i = 0; i < j->count; i++)
		if (!is_host(&j->records[i]))
			a->plan.guests[a->plan.num_guests++] =
				(struct lid_guest){.guid = j->records[i].guid,
						   .host = place_of(a, j->records[i].port),
						   .floating = j->records[i].lid};
	return 0;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct tracker *t = arg;
	struct apply *a;

	if (t->apply || t->d->ending)
		return;
	a = t->apply = calloc(1, sizeof(*a));
	if (!a) {
		apply_in(t, 1000);
		return;
	}
	a->t = t;
	a->version = t->version;
	a->told = t->told;
	if (copy_records(a) || task_start(t->d->loop.base, &a->task, apply_work, apply_done, a)) {
		apply_free(a);
		apply_in(t, 1000);
	}
}

/* ---- where guests are ---- */

/* A host's base LID is the one that OpenSM had given it when it was first heard of. */
static int learn_host(struct tracker *t, uint64_t port, const char *host)
{
	struct record r = {.guid = port, .port = port, .state = MOVE_HERE, .function = -1};
	const struct guid2lid_entry *e;
	struct guid2lid table;
	int ret;

	if (journal_find(&t->journal, port))
		return 0;
	guid2lid_init(&table);
	ret = guid2lid_read(&table, t->d->config.guid2lid);
	e = ret ? NULL : guid2lid_find(&table, port);
	if (e) {
		snprintf(r.guest, sizeof(r.guest), "%s", host);
		r.lid = e->min;
		ret = journal_put(&t->journal, &r);
	} else if (!ret) {
		ret = -ENOENT;
	}
	guid2lid_destroy(&table);
	return ret;
}

static const struct record *other_guest_at(struct tracker *t, const struct record *r)
{
	for (size_t i = 0; i < t->journal.count; i++) {
		const struct record *o = &t->journal.records[i];

		if (!is_host(o) && o->port == r->port && o->guid != r->guid)
			return o;
	}
	return NULL;
}

static int put(struct tracker *t, const struct record *r)
{
	const struct record *old = journal_find(&t->journal, r->guid);
	struct record now = {.guid = r->guid,
			     .state = MOVE_HERE,
			     .function = -1,
			     .port = r->port,
			     .lid = old ? old->lid : 0};

	memcpy(now.guest, r->guest, sizeof(now.guest));
	return journal_put(&t->journal, &now);
}

static void later(struct answer *answer, const char *why)
{
	answer->answer = ANSWER_LATER;
	snprintf(answer->reason, sizeof(answer->reason), "%s", why);
}

/* Or why they are not. */
static void changing(struct tracker *t, struct answer *answer)
{
	later(answer, t->reason[0] ? t->reason : "LIDs are being changed");
}

static void leave(struct tracker *t, const struct request *request, struct answer *answer)
{
	const struct record *old = journal_find(&t->journal, request->record.guid);

	if (!old || !old->port)
		return;
	if (put(t, &request->record)) {
		later(answer, "the tracker's journal cannot be written");
		return;
	}
	/* The source's base LID comes back with the next change, for there is one. */
	if (request->record.peer[0])
		return;
	t->version++;
	apply_in(t, t->d->config.gather);
}

/*
 * Before anything of a move is touched: there is room for what will be put down of it and of those
 * of all others, four lines for each (it leaves, it arrives, its LID, its host), which is a quarter
 * of what a source or a destination needs.
 */
static void prepare(struct tracker *t, struct answer *answer)
{
	int ret = journal_reserve(&t->journal, t->journal.count / 4 + 1);

	if (!ret)
		return;
	answer->answer = ANSWER_LATER;
	snprintf(answer->reason, sizeof(answer->reason),
		 "the tracker's journal cannot be written: %s", strerror(-ret));
}

static void arrive(struct tracker *t, const struct request *request, struct answer *answer)
{
	const struct record *r = &request->record, *old = journal_find(&t->journal, r->guid);
	const struct record *other = other_guest_at(t, r);

	if (old && old->port == r->port && old->lid && t->applied == t->version) {
		answer->knows = true;
		answer->record = *old;
	} else if (other) {
		answer->answer = ANSWER_LATER;
		snprintf(answer->reason, sizeof(answer->reason), "%s is still there", other->guest);
	} else if (old && old->port == r->port) {
		changing(t, answer);
	} else if (learn_host(t, r->port, request->from)) {
		later(answer, "OpenSM's guid2lid does not have the host's port");
	} else if (put(t, r)) {
		later(answer, "the tracker's journal cannot be written");
	} else {
		t->version++;
		apply_in(t, t->d->config.gather);
		changing(t, answer);
	}
}

void tracker_place(struct lidtrackd *d, const struct request *request, struct answer *answer)
{
	*answer = (struct answer){.answer = ANSWER_OK};
	if (!d->tracker) {
		answer->answer = ANSWER_REFUSED;
		snprintf(answer->reason, sizeof(answer->reason), "%s is not the tracker",
			 d->config.host);
	} else if (request->record.state == MOVE_ASKING) {
		prepare(d->tracker, answer);
	} else if (request->record.port) {
		arrive(d->tracker, request, answer);
	} else {
		leave(d->tracker, request, answer);
	}
}

/* ---- beginning and end ---- */

int tracker_start(struct lidtrackd *d)
{
	struct tracker *t;
	char path[300];
	int ret;

	if (d->config.mode != MODE_SHARED_PORT || strcmp(d->config.tracker, d->config.host) != 0)
		return 0;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->d = d;
	snprintf(path, sizeof(path), "%s.tracker", d->config.journal);
	ret = journal_begin(&t->journal, path);
	if (ret) {
		free(t);
		return ret;
	}
	t->timer = evtimer_new(d->loop.base, on_timer, t);
	d->tracker = t;
	/* What was put down and perhaps not told. */
	t->version = 1;
	t->told = -1;
	if (t->journal.count)
		apply_in(t, 0);
	return t->timer ? 0 : -ENOMEM;
}

void tracker_stop(struct lidtrackd *d)
{
	struct tracker *t = d->tracker;

	if (!t)
		return;
	if (t->apply) {
		task_finish(t->apply->task);
		apply_free(t->apply);
	}
	if (t->timer)
		event_free(t->timer);
	journal_close(&t->journal);
	free(t);
	d->tracker = NULL;
}

// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A vGUID follows its domain. Where a domain runs whose metadata has a vGUID, this agent wants it:
 * another agent that has it is ordered to hand it over, and where no agent has it, it is new here.
 * A source gives nothing away while the domain runs at its own host, so that two domains of one
 * name cannot pull at it, and a migration that fails leaves all as it was. A domain that ends keeps
 * its vGUID where it is, until it runs elsewhere.
 *
 *	virsh migrate        source              destination
 *	the memory           runs                paused for migration
 *	switch-over          paused for it       runs ──► asks for the vGUID: the move of move.h
 *	confirmed            gone
 *
 * One vGUID is fetched at a time, by a task. The loop's thread, but for fetch_work() and on_news().
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/lidtrackd/libvirt.h"
#include "daemons/lidtrackd/lidtrackd.h"
#include "daemons/lidtrackd/said.h"

struct libvirt {
	struct lidtrackd *d;
	struct watch *watch;
	int news; /* eventfd */
	struct event *on_news, *timer;
	struct fetch *fetch; /* under way */
	size_t next; /* where to go on, so that one that is refused does not hold up others */
	struct said *said;
};

struct fetch {
	struct libvirt *l;
	struct task *task;
	struct record r;     /* what the domain's metadata say */
	struct record found; /* what the agent has that has it */
	const char *host;    /* that one */
	bool silent, name_taken;
	int error;
	struct answer answer;
};

/* A line for each new reason that a guest has. */
static void say(struct libvirt *l, const struct record *r, const char *why)
{
	char reason[REASON_LEN];

	snprintf(reason, sizeof(reason), "%.63s (0x%016" PRIx64 "): %.150s", r->guest, r->guid,
		 why);
	if (said_new(&l->said, r->guest, reason))
		log_notice("%s", reason);
}

static void again_in(struct libvirt *l, uint64_t ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	evtimer_add(l->timer, &tv);
}

/* ---- fetching one, in a thread ---- */

static void listed(void *arg, const char *host, const struct record *r, const char *reason)
{
	struct fetch *f = arg;

	if (r->guid != f->r.guid) {
		f->name_taken |= !strcmp(r->guest, f->r.guest);
		return;
	}
	if (r->state == MOVE_RESERVED || (f->host && record_order(&f->found, r) > 0))
		return;
	f->host = host;
	f->found = *r;
}

static void fetch_work(void *arg)
{
	struct fetch *f = arg;
	struct lidtrackd *d = f->l->d;
	const char *silent[MAX_PEERS];

	f->silent = peer_list_all(d, listed, f, silent) != 0;
	f->found.function = -1; /* any of this host */
	if (f->host && !strcmp(f->found.guest, f->r.guest))
		f->error =
			peer_ask(d, f->host, MESSAGE_MOVE, &f->found, d->config.host, &f->answer);
}

static void adopt(struct libvirt *l, const struct record *wanted)
{
	struct record r = *wanted;
	struct lidtrackd *d = l->d;

	r.state = MOVE_SETTING;
	r.epoch = 1;
	r.fence = fence_number();
	if (d->config.mode == MODE_SHARED_PORT && guest_that_stays(d, 0))
		say(l, &r, "another guest is here, and functions share one LID");
	else if (!guest_add(d, &r))
		say(l, &r, "its domain has begun here");
}

static void fetch_done(void *arg)
{
	struct fetch *f = arg;
	struct libvirt *l = f->l;

	l->fetch = NULL;
	if (guest_find(l->d, f->r.guid)) {
		/* It has come meanwhile. */
	} else if (f->name_taken || (f->host && strcmp(f->found.guest, f->r.guest) != 0)) {
		say(l, &f->r, "its metadata have another guest's vGUID, or it has another one");
	} else if (f->host && f->error) {
		say(l, &f->r, "the agent that has it does not answer");
	} else if (f->host) {
		l->d->counts.libvirt_orders += f->answer.answer == ANSWER_OK;
		say(l, &f->r,
		    f->answer.answer == ANSWER_OK ? "its domain runs here now" : f->answer.reason);
	} else if (f->silent) {
		say(l, &f->r, "nobody has it, and an agent that could does not answer");
	} else {
		adopt(l, &f->r);
	}
	free(f);
	again_in(l, 5 * l->d->config.retry);
}

static void fetch(struct libvirt *l, const struct record *r)
{
	struct fetch *f = calloc(1, sizeof(*f));

	if (!f)
		return;
	f->l = l;
	f->r = *r;
	l->fetch = f;
	if (!task_start(l->d->loop.base, &f->task, fetch_work, fetch_done, f))
		return;
	l->fetch = NULL;
	free(f);
}

/* ---- domains ---- */

/* Is it one to be fetched? */
static bool is_wanted(struct libvirt *l, const struct domain *domain)
{
	const struct guest *g;

	if (!domain->runs || domain->unknown)
		return false;
	if (domain->bad) {
		say(l, &domain->r, "its metadata are not what lidtrackd writes");
		return false;
	}
	if (domain->r.guid) {
		g = guest_find(l->d, domain->r.guid);
		if (g && strcmp(g->r.guest, domain->r.guest) != 0)
			say(l, &domain->r, "its metadata have another guest's vGUID");
		else if (!g && guest_named(l->d, domain->r.guest))
			say(l, &domain->r, "it has another vGUID here");
		else if (!g)
			return true;
		else
			said_over(&l->said, domain->r.guest);
		return false;
	}
	said_over(&l->said, domain->r.guest);
	/* lidtrackctl has given it one: from now on it travels with the domain. */
	g = guest_named(l->d, domain->r.guest);
	if (g && g->r.state == MOVE_HERE)
		watch_write(l->watch, &g->r);
	return false;
}

static void look(struct libvirt *l)
{
	struct domains domains;
	bool begun = false;

	if (l->fetch || l->d->ending || !watch_domains(l->watch, &domains))
		return;
	for (size_t i = 0; i < domains.count; i++) {
		const struct domain *domain = &domains.list[(l->next + i) % domains.count];

		if (!is_wanted(l, domain) || begun)
			continue;
		begun = true;
		l->next = (l->next + i + 1) % domains.count;
		fetch(l, &domain->r);
	}
	free(domains.list);
}

bool libvirt_keeps(struct lidtrackd *d, const char *guest)
{
	struct domains domains;
	bool keeps = false;

	if (!d->libvirt)
		return false;
	if (!watch_domains(d->libvirt->watch, &domains))
		return true;
	for (size_t i = 0; i < domains.count; i++)
		keeps |= (domains.list[i].runs || domains.list[i].unknown) &&
			 !strcmp(domains.list[i].r.guest, guest);
	free(domains.list);
	return keeps;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	look(arg);
}

/* In the watch's thread. */
static void on_change(void *arg)
{
	struct libvirt *l = arg;

	eventfd_write(l->news, 1);
}

static void on_news(evutil_socket_t fd, short what, void *arg)
{
	eventfd_t count;

	(void)!eventfd_read(fd, &count);
	look(arg);
}

/* ---- beginning and end ---- */

int libvirt_start(struct lidtrackd *d)
{
	struct libvirt *l;

	if (!d->config.libvirt[0])
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->d = d;
	d->libvirt = l;
	l->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->news < 0)
		return -errno;
	l->timer = evtimer_new(d->loop.base, on_timer, l);
	l->on_news = event_new(d->loop.base, l->news, EV_READ | EV_PERSIST, on_news, l);
	if (!l->timer || !l->on_news || event_add(l->on_news, NULL))
		return -ENOMEM;
	return watch_start(&l->watch, d->config.libvirt, (unsigned)d->config.watch, on_change, l);
}

void libvirt_stop(struct lidtrackd *d)
{
	struct libvirt *l = d->libvirt;

	if (!l)
		return;
	if (l->watch)
		watch_stop(l->watch);
	if (l->fetch) {
		task_finish(l->fetch->task);
		free(l->fetch);
	}
	if (l->on_news)
		event_free(l->on_news);
	if (l->timer)
		event_free(l->timer);
	if (l->news >= 0)
		close(l->news);
	said_over(&l->said, NULL);
	free(l);
	d->libvirt = NULL;
}

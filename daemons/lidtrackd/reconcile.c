// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Guests: which step is next, and what comes of it. A state is in the journal before its step is
 * begun; if it cannot be put down, nothing changes and the step that led there is done again later.
 * The loop's thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"

#define GIVE_UP_MS  5000 /* of a destination that does not answer, before anything is touched */
#define SLOWEST	    50	 /* times retry, of steps that fail again and again */
#define RESERVED_MS 200	 /* between two looks at the source of a reservation */

struct guest *guest_find(struct lidtrackd *d, uint64_t guid)
{
	struct guest *g = d->guests;

	while (g && g->r.guid != guid)
		g = g->next;
	return g;
}

struct guest *guest_named(struct lidtrackd *d, const char *name)
{
	struct guest *g = d->guests;

	while (g && strcmp(g->r.guest, name) != 0)
		g = g->next;
	return g;
}

unsigned guests_reserved(const struct lidtrackd *d, uint64_t but)
{
	unsigned count = 0;

	for (const struct guest *g = d->guests; g; g = g->next)
		if (g->r.guid != but &&
		    (g->r.state == MOVE_RESERVED || g->r.state == MOVE_SETTING ||
		     g->r.state == MOVE_LEAVING || g->r.state == MOVE_HANDING))
			count++;
	return count;
}

bool guest_waits_for(const struct lidtrackd *d, int function, uint64_t but)
{
	const struct guest *g = d->guests;

	while (g && (g->r.guid == but || g->r.function != function ||
		     (g->r.state != MOVE_RESERVED && g->r.state != MOVE_SETTING)))
		g = g->next;
	return g;
}

const struct guest *guest_that_stays(const struct lidtrackd *d, uint64_t but)
{
	const struct guest *g = d->guests;

	while (g && (g->r.guid == but || move_wants(g->r.state)))
		g = g->next;
	return g;
}

/* ---- when ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg);

static void run_in(struct guest *g, uint64_t ms)
{
	struct timeval tv = {ms / 1000, ms % 1000 * 1000};

	evtimer_add(g->timer, &tv);
}

/* After a step that has nothing new to say. */
static uint64_t pause_of(const struct lidtrackd *d, struct guest *g, bool again)
{
	uint64_t ms = d->config.retry;

	if (g->r.state == MOVE_RESERVED)
		return RESERVED_MS;
	if (g->r.state == MOVE_HERE)
		return again || g->r.peer[0] ? 5 * ms : d->config.watch;
	g->tries++;
	return ms * (g->tries < 10 ? 1 : g->tries < 10 * SLOWEST ? g->tries / 10 : SLOWEST);
}

static void start_step(struct lidtrackd *d, struct guest *g)
{
	if (d->ending || g->step || move_step_of(g->r.state) == STEP_NONE)
		return;
	d->counts.steps++;
	if (step_start(d, g))
		run_in(g, 100);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct guest *g = arg;

	start_step(g->d, g);
}

/* ---- records ---- */

static void forget(struct lidtrackd *d, struct guest *guest)
{
	struct guest **at = &d->guests;

	while (*at != guest)
		at = &(*at)->next;
	*at = guest->next;
	event_free(guest->timer);
	free(guest);
}

static struct guest *remember(struct lidtrackd *d, const struct record *record)
{
	struct guest *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->d = d;
	g->r = *record;
	g->version = 1;
	g->since = clock_ms();
	g->timer = evtimer_new(d->loop.base, on_timer, g);
	if (!g->timer) {
		free(g);
		return NULL;
	}
	g->next = d->guests;
	d->guests = g;
	return g;
}

/* From now on: after a restart anew, since a clock may have been set meanwhile. */
static void limit_asking(struct guest *g)
{
	g->give_up = clock_ms() + (g->r.wait > GIVE_UP_MS ? g->r.wait : GIVE_UP_MS);
}

/* A line when that changes. */
static int note_journal(struct lidtrackd *d, int ret)
{
	if (ret && ret != d->journal_error)
		log_error("%s: %s; nothing is done before it can be written", d->config.journal,
			  strerror(-ret));
	else if (!ret && d->journal_error)
		log_notice("%s can be written again", d->config.journal);
	d->journal_error = ret;
	return ret;
}

static int put_down(struct lidtrackd *d, const struct record *record)
{
	int ret = journal_put(&d->journal, record);

	if (!ret)
		return 0;
	d->counts.journal_errors++;
	return note_journal(d, ret);
}

int journal_ready(struct lidtrackd *d)
{
	unsigned moves = 1;

	for (const struct guest *g = d->guests; g; g = g->next)
		moves += g->r.state != MOVE_HERE;
	return note_journal(d, journal_reserve(&d->journal, moves));
}

int guest_add(struct lidtrackd *d, const struct record *record)
{
	struct guest *g = remember(d, record);
	int ret;

	if (!g)
		return -ENOMEM;
	ret = put_down(d, record);
	if (ret) {
		forget(d, g);
		return ret;
	}
	run_in(g, 0);
	return 0;
}

/* ---- events ---- */

static void count_change(struct lidtrackd *d, struct guest *g, const struct record *to)
{
	if (g->r.state == MOVE_DETACHING && to->state == MOVE_CLEARING)
		g->away_since = clock_ms();
	if (to->state == MOVE_GONE && g->r.state == MOVE_HANDING)
		d->counts.moved_out++;
	if (to->state == MOVE_SETTING && g->r.state != MOVE_RESERVED && g->r.state != MOVE_HERE)
		d->counts.returned++;
	if (to->state == MOVE_HERE && g->r.state == MOVE_ASKING)
		d->counts.refused++;
	if (to->state == MOVE_HERE && g->r.state == MOVE_VERIFYING)
		d->counts.moved_in++;
	if (g->r.state == MOVE_SETTING)
		d->functions_used++;
}

/* The guest is gone after this if the state says so. */
static int change(struct lidtrackd *d, struct guest *g, const struct record *to)
{
	const struct record *old = journal_find(&d->journal, to->guid);
	int ret = !old || memcmp(old, to, sizeof(*to)) ? put_down(d, to) : 0;

	if (ret)
		return ret;
	if (g->r.state != to->state) {
		log_info("%s (0x%016" PRIx64 "): %s -> %s%s%s", g->r.guest, g->r.guid,
			 move_state_name(g->r.state), move_state_name(to->state),
			 g->reason[0] ? ": " : "", g->reason);
		g->tries = 0;
		g->since = clock_ms();
	}
	count_change(d, g, to);
	g->r = *to;
	g->version++;
	if (to->state == MOVE_GONE)
		forget(d, g);
	return 0;
}

int guest_replace(struct lidtrackd *d, struct guest *g, const struct record *record)
{
	return change(d, g, record);
}

int guest_event(struct lidtrackd *d, struct guest *g, enum move_event event, const char *peer)
{
	struct record to = g->r;
	int ret;

	if (!move_next(g->r.state, event, &to.state))
		return -EINVAL;
	if (peer)
		snprintf(to.peer, sizeof(to.peer), "%s", peer);
	/* Who gets it back, or keeps it, is with nobody; who was given it has the source confirm
	 * that. */
	if (event == EVENT_FENCE || (move_wants(g->r.state) && !move_wants(to.state)))
		to.peer[0] = '\0';
	if (g->r.state == MOVE_RESERVED && to.state == MOVE_SETTING)
		to.epoch++;
	/* Later than what the other host makes of it, should it come back. */
	if (event == EVENT_FENCE) {
		to.epoch += 2;
		to.fence = fence_number();
	}
	ret = change(d, g, &to);
	if (!ret && to.state != MOVE_GONE)
		run_in(g, 0);
	return ret;
}

uint64_t fence_number(void)
{
	uint64_t number = 0;

	while (!number)
		evutil_secure_rng_get_bytes(&number, sizeof(number));
	return number;
}

void guest_said(struct guest *g, const struct request *request)
{
	const struct record *r = &request->record;

	if (!peer_of(g->d, request->from) || record_order(r, &g->r) <= 0 ||
	    !(move_owns(r->state) || move_wants(r->state)))
		return;
	memcpy(g->rival, request->from, sizeof(g->rival));
	if (g->r.state == MOVE_HERE && !g->step)
		run_in(g, 0);
}

/* What a step has found goes into the record, and is put down with the event that it leads to. */
static void take_found(struct lidtrackd *d, struct guest *g, const struct step *s)
{
	struct record to = g->r;

	to.function = s->r.function;
	to.lid = s->r.lid;
	to.lmc = s->r.lmc;
	to.port = s->r.port;
	memcpy(to.pkeys, s->r.pkeys, sizeof(to.pkeys));
	to.num_pkeys = s->r.num_pkeys;
	if (s->what == STEP_WATCH) {
		memcpy(to.peer, s->r.peer, sizeof(to.peer));
		to.fence = s->r.fence;
	}
	if (g->r.lid && to.lid != g->r.lid) {
		d->counts.lid_changed++;
		log_warning("%s (0x%016" PRIx64 ") had LID %u and has %u now", g->r.guest,
			    g->r.guid, g->r.lid, to.lid);
	}
	g->r = to;
}

static bool waits_on(struct guest *g, const struct step *s)
{
	return s->what == STEP_ASK && clock_ms() < g->give_up &&
	       (s->again || (s->event == EVENT_REFUSED && g->r.wait));
}

static void proceed(struct lidtrackd *d, struct guest *g, const struct step *s)
{
	struct record before = g->r;
	enum move_event event = s->event;
	int ret;

	if (s->what == STEP_ASK && s->again)
		event = EVENT_REFUSED; /* it has had its time, and nothing was touched */
	take_found(d, g, s);
	if (event == EVENT_DONE && (g->r.state == MOVE_HERE || g->r.state == MOVE_RESERVED)) {
		if (change(d, g, &g->r))
			g->r = before;
		run_in(g, pause_of(d, g, false));
		return;
	}
	ret = guest_event(d, g, event, NULL);
	if (ret) {
		g->r = before;
		if (ret != -EINVAL)
			snprintf(g->reason, sizeof(g->reason), "the journal cannot be written: %s",
				 strerror(-ret));
		run_in(g, pause_of(d, g, true));
	}
}

void guest_stepped(struct lidtrackd *d, struct step *s)
{
	struct guest *g = guest_find(d, s->guid);

	if (!g || g->step != s)
		return;
	g->step = NULL;
	if (!g->rival[0])
		memcpy(g->rival, s->rival, sizeof(g->rival));
	if (g->version != s->version) { /* meanwhile something else has happened */
		run_in(g, 0);
		return;
	}
	if (s->reason[0] || s->what != STEP_WATCH) /* why a guest did not go stays to be seen */
		snprintf(g->reason, sizeof(g->reason), "%s", s->reason);
	if (waits_on(g, s) || (s->again && s->what != STEP_ASK)) {
		d->counts.retries++;
		run_in(g, pause_of(d, g, true));
		return;
	}
	proceed(d, g, s);
}

/* ---- orders ---- */

/* It is to stay where it is about to leave from. */
static int order_back(struct lidtrackd *d, struct guest *g, char reason[REASON_LEN])
{
	int ret = guest_event(d, g, EVENT_CANCEL, NULL);

	if (ret == -EINVAL)
		snprintf(reason, REASON_LEN, "it is %s: it cannot be cancelled",
			 move_state_name(g->r.state));
	else if (ret)
		snprintf(reason, REASON_LEN, "the journal cannot be written: %s", strerror(-ret));
	return ret;
}

int guest_order(struct lidtrackd *d, struct guest *g, const char *to, int wanted, uint64_t wait_ms,
		char reason[REASON_LEN])
{
	int ret;

	if (!strcmp(to, d->config.host) && move_wants(g->r.state))
		return order_back(d, g, reason);
	if (!strcmp(to, d->config.host)) {
		snprintf(reason, REASON_LEN, "%s has it already", to);
		return -EINVAL;
	}
	if (!peer_of(d, to)) {
		snprintf(reason, REASON_LEN, "%s knows no agent of %s", d->config.host, to);
		return -EINVAL;
	}
	if (g->r.state != MOVE_HERE || g->r.peer[0]) {
		snprintf(reason, REASON_LEN, "it is under way: %s%s%s", move_state_name(g->r.state),
			 g->r.peer[0] ? ", with " : "", g->r.peer);
		return -EBUSY;
	}
	if (libvirt_keeps(d, g->r.guest)) {
		snprintf(reason, REASON_LEN,
			 "its domain runs at %s: virsh migrate moves both, or libvirtd has not "
			 "answered",
			 d->config.host);
		return -EBUSY;
	}
	g->r.wanted = wanted;
	g->r.wait = wait_ms;
	limit_asking(g);
	g->reason[0] = '\0';
	ret = journal_ready(d);
	if (!ret)
		ret = guest_event(d, g, EVENT_ORDER, to);
	if (ret)
		snprintf(reason, REASON_LEN, "the journal cannot be written: %s", strerror(-ret));
	return ret;
}

/* ---- beginning and end ---- */

int journal_begin(struct journal *journal, const char *path)
{
	unsigned line;
	int ret = journal_open(journal, path, &line);

	if (ret == -EBADMSG)
		log_error("%s: line %u is damaged; put things right by hand, for a guess could "
			  "give two ports one GUID",
			  path, line);
	else if (ret == -EPROTO)
		log_error("%s: line %u is of another version of lidtrackd: start that one", path,
			  line);
	else if (ret == -EAGAIN)
		log_error("%s: another lidtrackd has it", path);
	else if (ret == -EINVAL)
		log_error("%s: a journal is a regular file", path);
	else if (ret)
		log_error("%s: %s", path, strerror(-ret));
	return ret;
}

int reconcile_start(struct lidtrackd *d)
{
	int ret = journal_begin(&d->journal, d->config.journal);

	for (size_t i = 0; !ret && i < d->journal.count; i++) {
		struct guest *g = remember(d, &d->journal.records[i]);

		if (!g)
			return -ENOMEM;
		limit_asking(g);
		log_info("%s (0x%016" PRIx64 "): %s", g->r.guest, g->r.guid,
			 move_state_name(g->r.state));
		run_in(g, 0);
	}
	return ret;
}

void reconcile_stop(struct lidtrackd *d)
{
	d->ending = true;
	while (d->guests) {
		struct guest *g = d->guests;

		if (g->step) {
			step_drop(g->step);
			g->step = NULL;
		}
		forget(d, g);
	}
	journal_close(&d->journal);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * See requester.h. A request under way is a flight. Flights are in a list by the time they were
 * sent, which is the order of their time-outs, and in a table by TransactionID.
 *
 * The 16-bit TransactionID comes round in 44 ms at 1.5 million requests a second, and answers may
 * be later than that. So an answer counts for a flight if the ID, the VP, the chip, the route it
 * came by, the type and the addresses are those of the request; and the ID of a flight that timed
 * out rests until its answer can no longer come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/requester.h"

#define IDS	 65536
#define NOBODY	 UINT16_MAX
#define MS	 1000000000ull /* ps */
#define ROUND	 512	       /* answers taken at once */
#define LIFETIME (4000 * MS)   /* no packet is older in the network */

struct flight {
	struct flight *previous, *next; /* by time; free ones by next alone */
	struct job *job;
	unsigned index, tries;
	uint64_t deadline;
	struct nmp nmp;
};

/* IDs that rest, in the order they were put there. */
struct resting {
	uint64_t until;
	uint16_t id;
};

struct sleeper {
	struct sleeper *next; /* by time */
	uint64_t until;
	void (*over)(void *arg);
	void *arg;
};

struct requester {
	glex_ep_handle_t ep;
	struct sleeper *sleepers;
	struct requester_config config;
	struct fabric_counts counts;
	struct flight *flights, *idle, *oldest, *newest;
	unsigned under_way[2]; /* by target.slow */
	uint64_t paid;	       /* time until which the budget is used up */
	bool broke;	       /* something waits for it */
	uint16_t *by_id;       /* number of the flight, or NOBODY */
	struct resting *resting;
	uint32_t rest_head, rest_tail; /* of a ring of IDS */
	uint16_t next_id;
	struct target *ready[2], **ready_last[2];
	struct flight *again, **again_last; /* to be sent once more */
	void (*report)(void *arg, const struct nmp *nmp);
	void *report_arg;
	requester_other *other_way;
	void *other_arg;
};

/* In by_id, beside flights: it rests. */
#define RESTS (NOBODY - 1)

int requester_create(glex_ep_handle_t ep, const struct requester_config *config,
		     struct requester **made)
{
	struct requester *r = calloc(1, sizeof(*r));
	unsigned flights;

	if (!r)
		return -ENOMEM;
	r->ep = ep;
	r->config = *config;
	if (r->config.window > REQUESTER_MAX_WINDOW)
		r->config.window = REQUESTER_MAX_WINDOW;
	if (r->config.slow_window > REQUESTER_MAX_WINDOW)
		r->config.slow_window = REQUESTER_MAX_WINDOW;
	flights = r->config.window + r->config.slow_window;
	r->flights = calloc(flights, sizeof(*r->flights));
	r->by_id = malloc(IDS * sizeof(*r->by_id));
	r->resting = malloc(IDS * sizeof(*r->resting));
	if (!r->flights || !r->by_id || !r->resting) {
		requester_destroy(r);
		return -ENOMEM;
	}
	memset(r->by_id, 0xff, IDS * sizeof(*r->by_id));
	for (unsigned i = 0; i < flights; i++) {
		r->flights[i].next = r->idle;
		r->idle = &r->flights[i];
	}
	for (unsigned i = 0; i < 2; i++)
		r->ready_last[i] = &r->ready[i];
	r->again_last = &r->again;
	*made = r;
	return 0;
}

void requester_destroy(struct requester *r)
{
	while (r->sleepers) {
		struct sleeper *next = r->sleepers->next;

		free(r->sleepers);
		r->sleepers = next;
	}
	free(r->flights);
	free(r->by_id);
	free(r->resting);
	free(r);
}

void requester_on_report(struct requester *r, void (*report)(void *arg, const struct nmp *nmp),
			 void *arg)
{
	r->report = report;
	r->report_arg = arg;
}

void requester_on_retry(struct requester *r, requester_other *other_way, void *arg)
{
	r->other_way = other_way;
	r->other_arg = arg;
}

const struct fabric_counts *requester_counts(const struct requester *r)
{
	return &r->counts;
}

/* What may be spent at once, in time. */
static uint64_t burst(const struct requester *r)
{
	uint64_t requests = 16 * (1000 * MS / r->config.budget);

	return requests > MS ? requests : MS;
}

/* Whether one more request is within the budget. */
static bool affordable(struct requester *r)
{
	uint64_t now = glex_now(r->ep);

	r->broke = false;
	if (!r->config.budget)
		return true;
	if (r->paid < now)
		r->paid = now;
	r->broke = r->paid > now + burst(r);
	return !r->broke;
}

uint64_t requester_deadline(const struct requester *r)
{
	uint64_t answer = r->oldest ? r->oldest->deadline : GLEX_FOREVER;

	if (r->broke && r->paid - burst(r) < answer)
		answer = r->paid - burst(r);
	return r->sleepers && r->sleepers->until < answer ? r->sleepers->until : answer;
}

int requester_sleep(struct requester *r, uint64_t until, void (*over)(void *arg), void *arg)
{
	struct sleeper *sleeper = malloc(sizeof(*sleeper)), **at = &r->sleepers;

	if (!sleeper)
		return -ENOMEM;
	while (*at && (*at)->until <= until)
		at = &(*at)->next;
	*sleeper = (struct sleeper){*at, until, over, arg};
	*at = sleeper;
	return 0;
}

static void wake_sleepers(struct requester *r)
{
	uint64_t now = glex_now(r->ep);

	while (r->sleepers && r->sleepers->until <= now) {
		struct sleeper *sleeper = r->sleepers;

		r->sleepers = sleeper->next;
		sleeper->over(sleeper->arg);
		free(sleeper);
	}
}

static const struct target *way_of(const struct target *t)
{
	return t->way ?: t;
}

static void make_ready(struct requester *r, struct target *t)
{
	if (t->ready || !t->first || t->outstanding >= r->config.per_chip)
		return;
	t->ready = true;
	t->next_ready = NULL;
	*r->ready_last[t->slow] = t;
	r->ready_last[t->slow] = &t->next_ready;
}

void requester_submit(struct requester *r, struct job *job)
{
	struct target *t = job->target;

	job->next = NULL;
	job->issued = job->finished = 0;
	*t->last = job;
	t->last = &job->next;
	make_ready(r, t);
}

/* A target without jobs is not kept: it may be gone after the last answer. */
static void unready(struct requester *r, struct target *t)
{
	struct target **at = &r->ready[t->slow];

	if (!t->ready || t->first)
		return;
	while (*at != t)
		at = &(*at)->next_ready;
	*at = t->next_ready;
	if (r->ready_last[t->slow] == &t->next_ready)
		r->ready_last[t->slow] = at;
	t->ready = false;
}

void requester_cut(struct requester *r, struct job *job)
{
	struct target *t = job->target;
	struct job **at = &t->first;

	job->total = job->issued;
	while (*at && *at != job)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = job->next;
	if (t->last == &job->next)
		t->last = at;
	unready(r, t);
}

static void wake_ids(struct requester *r)
{
	uint64_t now = glex_now(r->ep);

	while (r->rest_head != r->rest_tail && r->resting[r->rest_head % IDS].until <= now)
		r->by_id[r->resting[r->rest_head++ % IDS].id] = NOBODY;
}

static bool take_id(struct requester *r, uint16_t *id)
{
	wake_ids(r);
	for (unsigned i = 0; i < IDS; i++) {
		*id = r->next_id++;
		if (r->by_id[*id] == NOBODY)
			return true;
	}
	return false;
}

static void rest_id(struct requester *r, uint16_t id)
{
	r->by_id[id] = RESTS;
	r->resting[r->rest_tail++ % IDS] =
		(struct resting){.until = glex_now(r->ep) + LIFETIME, .id = id};
}

/* Sends a flight, which is in no list. False: not now. */
static bool launch(struct requester *r, struct flight *f)
{
	struct glex_mgmt_info info;
	uint16_t id;

	if (!affordable(r) || !take_id(r, &id))
		return false;
	f->nmp.transaction = id;
	info.nmp = f->nmp;
	if (glex_send_mgmt_req(r->ep, &info, 0) != GLEX_OK)
		return false;
	f->nmp = info.nmp;
	f->deadline = glex_now(r->ep) + r->config.timeout * MS;
	if (r->config.budget)
		r->paid += 1000 * MS / r->config.budget;
	f->tries++;
	r->by_id[id] = f - r->flights;
	f->next = NULL;
	f->previous = r->newest;
	if (r->newest)
		r->newest->next = f;
	else
		r->oldest = f;
	r->newest = f;
	r->counts.sent++;
	return true;
}

static void prepare(struct flight *f, struct job *job)
{
	struct target *t = job->target;

	f->job = job;
	f->index = job->issued++;
	f->tries = 0;
	memset(&f->nmp, 0, sizeof(f->nmp));
	f->nmp.dest_id = t->id == FABRIC_NO_ID ? NMP_NO_ID : t->id;
	f->nmp.dest_type = t->type;
	f->nmp.forward = way_of(t)->out;
	f->nmp.back = way_of(t)->back;
	job->make(job, f->index, &f->nmp);
}

/* By the way that is the right one now, and each second time by another. */
static void set_way(struct requester *r, struct flight *f)
{
	const struct target *way = way_of(f->job->target);

	if (f->tries % 2 && r->other_way &&
	    r->other_way(r->other_arg, way, &f->nmp.forward, &f->nmp.back))
		return;
	f->nmp.forward = way->out;
	f->nmp.back = way->back;
}

static bool send_again(struct requester *r)
{
	while (r->again) {
		struct flight *f = r->again, *next = f->next;

		set_way(r, f);
		if (!launch(r, f))
			return false;
		r->again = next;
		if (!next)
			r->again_last = &r->again;
		r->counts.retried++;
	}
	return true;
}

/* The first of those that are ready has had its turn. */
static void next_target(struct requester *r, bool slow)
{
	struct target *t = r->ready[slow];

	r->ready[slow] = t->next_ready;
	if (!r->ready[slow])
		r->ready_last[slow] = &r->ready[slow];
	t->ready = false;
}

static void pump_kind(struct requester *r, bool slow, unsigned window)
{
	while (r->ready[slow] && r->under_way[slow] < window) {
		struct target *t = r->ready[slow];
		struct flight *f = r->idle;
		struct job *job = t->first;

		r->idle = f->next;
		prepare(f, job);
		if (!launch(r, f)) {
			job->issued--;
			f->next = r->idle;
			r->idle = f;
			return;
		}
		r->under_way[slow]++;
		t->outstanding++;
		if (job->issued == job->total) {
			t->first = job->next;
			if (!t->first)
				t->last = &t->first;
		}
		next_target(r, slow);
		make_ready(r, t);
	}
}

/* As many as the windows, the caps and the descriptor queue allow; the chips in turn. */
static void pump(struct requester *r)
{
	r->broke = false;
	if (!send_again(r))
		return;
	pump_kind(r, false, r->config.window);
	pump_kind(r, true, r->config.slow_window);
}

static void land(struct requester *r, struct flight *f)
{
	if (f->previous)
		f->previous->next = f->next;
	else
		r->oldest = f->next;
	if (f->next)
		f->next->previous = f->previous;
	else
		r->newest = f->previous;
}

/* The end of a flight that has landed. */
static void finish(struct requester *r, struct flight *f, int status, const struct nmp *nmp)
{
	struct job *job = f->job;
	struct target *t = job->target;
	unsigned index = f->index;

	f->next = r->idle;
	r->idle = f;
	r->under_way[t->slow]--;
	t->outstanding--;
	make_ready(r, t);
	job->finished++;
	job->answer(job, index, status, nmp);
}

static bool same_accesses(const struct nmp *request, const struct nmp *answer)
{
	if (nmp_is_error(answer->type))
		return nmp_is_eeprom(request->type) == nmp_is_eeprom(answer->type);
	if (answer->type != nmp_response(request->type) || answer->count != request->count)
		return false;
	for (unsigned i = 0; i < request->count; i++)
		if (answer->access[i].address != request->access[i].address)
			return false;
	return true;
}

static struct flight *match(struct requester *r, const struct nmp *nmp)
{
	unsigned number = r->by_id[nmp->transaction & (IDS - 1)];
	struct flight *f = number < RESTS ? &r->flights[number] : NULL;

	if (!f || nmp->dest_vp != f->nmp.dest_vp || nmp->src_id != f->nmp.dest_id ||
	    nmp->src_type != f->nmp.dest_type || !nmp_route_equal(&nmp->back, &f->nmp.forward) ||
	    !same_accesses(&f->nmp, nmp))
		return NULL;
	return f;
}

static void take(struct requester *r, const struct nmp *nmp)
{
	unsigned number = r->by_id[nmp->transaction & (IDS - 1)];
	struct flight *f;

	if (nmp->type == NMP_REPORT && !nmp->err) {
		r->counts.reports++;
		if (r->report)
			r->report(r->report_arg, nmp);
		return;
	}
	/* Our own descriptor, which the NIC refused, has no answer's marks. */
	f = nmp->err ? (number < RESTS ? &r->flights[number] : NULL) : match(r, nmp);
	if (!f) {
		r->counts.stale++;
		return;
	}
	land(r, f);
	r->by_id[f->nmp.transaction] = NOBODY;
	r->counts.answered++;
	if (nmp->err || nmp_is_error(nmp->type)) {
		r->counts.refused++;
		finish(r, f, -EREMOTEIO, nmp);
	} else {
		finish(r, f, 0, nmp);
	}
}

static void expire(struct requester *r)
{
	uint64_t now = glex_now(r->ep);

	while (r->oldest && r->oldest->deadline <= now) {
		struct flight *f = r->oldest;

		land(r, f);
		rest_id(r, f->nmp.transaction);
		if (f->job->once || f->tries >= r->config.tries) {
			r->counts.timed_out++;
			finish(r, f, -ETIMEDOUT, NULL);
			continue;
		}
		f->next = NULL;
		*r->again_last = f;
		r->again_last = &f->next;
	}
}

static int32_t patience(struct requester *r)
{
	uint64_t now = glex_now(r->ep), until = requester_deadline(r);

	if (until == GLEX_FOREVER)
		return r->under_way[0] + r->under_way[1] ? 1 : 0;
	return until > now ? (until - now) / MS + 1 : 1;
}

int requester_progress(struct requester *r, bool wait)
{
	struct glex_mgmt_info info;
	glex_ret_t ret = GLEX_OK;
	int32_t timeout;

	pump(r);
	timeout = wait ? patience(r) : 0;
	for (unsigned i = 0; i < ROUND && ret == GLEX_OK; i++) {
		ret = glex_receive_mgmt_ack(r->ep, timeout, &info);
		if (ret == GLEX_OK)
			take(r, &info.nmp);
		else if (ret != GLEX_TIMEOUT)
			return -ECONNRESET;
		expire(r);
		wake_sleepers(r);
		pump(r);
		timeout = 0;
	}
	return r->under_way[0] + r->under_way[1] || r->sleepers || r->broke ? 0 : 1;
}

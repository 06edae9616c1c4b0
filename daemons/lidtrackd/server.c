// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests of other agents. A conversation is one request and its answer: a thread reads (and has
 * the functions counted, where the answer depends on it), the loop decides, a thread writes.
 */
#include <errno.h>
#include <event2/listener.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemons/common/clock.h"
#include "daemons/common/folder.h"
#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"
#include "migrate/guid2lid.h"

#define MAX_CONVERSATIONS 256
#define COMPLAIN_MS	  10000

struct conversation {
	struct conversation *next;
	struct lidtrackd *d;
	struct task *task;
	struct link link;
	int fd;
	int error;		   /* of reading */
	char unserved[REASON_LEN]; /* the request was read, and why it is not served */
	struct request request;
	/* Of the host, when it was asked. */
	unsigned free, used;
	int functions_error;
	int has_guid;	  /* the function that has the request's GUID; -1: none */
	bool wanted_free; /* the function that is asked for */
	char unfit[REASON_LEN];
	char *lines;
	size_t len, room;
};

/* ---- answers ---- */

static void add_answer(struct conversation *c, const struct answer *answer)
{
	char line[MESSAGE_LEN];
	size_t len = answer_format(answer, line);

	if (c->len + len + 1 > c->room) {
		size_t room = 2 * c->room + len + 1;
		char *lines = realloc(c->lines, room);

		if (!lines)
			return; /* the other end sees the connection close, and asks again */
		c->lines = lines;
		c->room = room;
	}
	memcpy(c->lines + c->len, line, len);
	c->lines[c->len + len] = '\n';
	c->len += len + 1;
}

__attribute__((format(printf, 3, 4))) static void
answer_not(struct conversation *c, enum message_answer what, const char *format, ...)
{
	struct answer answer = {.answer = what};
	va_list args;

	va_start(args, format);
	vsnprintf(answer.reason, sizeof(answer.reason), format, args);
	va_end(args);
	add_answer(c, &answer);
}

static void answer_ok(struct conversation *c, const struct guest *g)
{
	struct answer answer = {.answer = ANSWER_OK, .knows = g != NULL};

	if (g) {
		answer.record = g->r;
		memcpy(answer.reason, g->reason, sizeof(answer.reason));
	}
	add_answer(c, &answer);
}

/* ---- requests ---- */

/* False: it was answered that there is no room. */
static bool has_room(struct conversation *c)
{
	struct lidtrackd *d = c->d;
	const struct record *r = &c->request.record;
	const struct guest *named = guest_named(d, r->guest);
	const struct guest *other =
		d->config.mode == MODE_SHARED_PORT ? guest_that_stays(d, r->guid) : NULL;

	if (r->epoch > RECORD_LAST_EPOCH)
		answer_not(c, ANSWER_REFUSED,
			   "its epoch, %u, is the last one: remove it and add it again", r->epoch);
	else if (journal_ready(d))
		answer_not(c, ANSWER_REFUSED, "its journal cannot be written: %s",
			   strerror(-d->journal_error));
	else if (named && named->r.guid != r->guid)
		answer_not(c, ANSWER_REFUSED,
			   "another guest there has that name, vGUID 0x%016" PRIx64, named->r.guid);
	else if (other)
		answer_not(c, ANSWER_REFUSED, "%s is there, and its functions share one LID",
			   other->r.guest);
	else if (c->functions_error)
		answer_not(c, ANSWER_LATER, "its functions cannot be seen: %s",
			   function_strerror(c->functions_error));
	else if (c->used != d->functions_used)
		answer_not(c, ANSWER_LATER, "its functions have just changed");
	else if (c->unfit[0])
		answer_not(c, ANSWER_REFUSED, "%s", c->unfit);
	else if (c->has_guid >= 0)
		answer_not(c, ANSWER_REFUSED, "function %d has that GUID, and no journal says why",
			   c->has_guid);
	else if (c->free <= guests_reserved(d, r->guid))
		answer_not(c, ANSWER_REFUSED, "no function of %s is free", d->where);
	else if (c->request.verb == MESSAGE_ASK && r->function >= 0 &&
		 (!c->wanted_free || guest_waits_for(d, r->function, r->guid)))
		answer_not(c, ANSWER_REFUSED, "function %d of %s is not free", r->function,
			   d->where);
	else
		return true;
	return false;
}

static bool is_its_reservation(const struct conversation *c, const struct guest *g)
{
	return g->r.state == MOVE_RESERVED && !strcmp(g->r.peer, c->request.from);
}

static void ask(struct conversation *c)
{
	struct guest *g = guest_find(c->d, c->request.record.guid);
	struct record r = c->request.record;

	if (g && !is_its_reservation(c, g)) {
		answer_not(c, ANSWER_LATER, "it is %s here", move_state_name(g->r.state));
		return;
	}
	if (g && !record_order(&g->r, &r) && (r.function < 0 || r.function == g->r.function)) {
		g->version++; /* a look at the source that is under way may be from before */
		answer_ok(c, g);
		return;
	}
	if (!has_room(c))
		return;
	r.state = MOVE_RESERVED;
	memcpy(r.peer, c->request.from, sizeof(r.peer));
	if (g ? guest_replace(c->d, g, &r) : guest_add(c->d, &r))
		answer_not(c, ANSWER_LATER, "its journal cannot be written");
	else
		answer_ok(c, guest_find(c->d, r.guid));
}

static void plan(struct conversation *c)
{
	const struct guest *g = guest_find(c->d, c->request.record.guid);

	if (g && !is_its_reservation(c, g))
		answer_not(c, ANSWER_REFUSED, "it is %s there", move_state_name(g->r.state));
	else if (g || has_room(c))
		answer_ok(c, NULL);
}

static void take(struct conversation *c)
{
	struct guest *g = guest_find(c->d, c->request.record.guid);
	struct record taken = c->request.record;

	taken.epoch++;
	if (g && is_its_reservation(c, g) && !record_order(&g->r, &c->request.record)) {
		if (guest_event(c->d, g, EVENT_TAKE, NULL))
			answer_not(c, ANSWER_LATER, "its journal cannot be written");
		else
			answer_ok(c, g);
	} else if (g && !record_order(&g->r, &taken) && !strcmp(g->r.peer, c->request.from)) {
		answer_ok(c, g); /* the first answer was lost */
	} else if (g) {
		answer_not(c, ANSWER_LATER, "it is %s here, epoch %u", move_state_name(g->r.state),
			   g->r.epoch);
	} else if (c->functions_error || c->has_guid >= 0) {
		answer_not(c, ANSWER_LATER,
			   "a function may have that GUID, and no journal says why");
	} else {
		answer_not(c, ANSWER_REFUSED, "nothing is reserved for it");
	}
}

static void look(struct conversation *c)
{
	const struct record *r = &c->request.record;
	struct guest *g = r->guid ? guest_find(c->d, r->guid) : guest_named(c->d, r->guest);

	if (g && r->guid)
		guest_said(g, &c->request);
	answer_ok(c, g);
}

static void move(struct conversation *c)
{
	const struct record *r = &c->request.record;
	struct guest *g = r->guid ? guest_find(c->d, r->guid) : guest_named(c->d, r->guest);
	char reason[REASON_LEN];

	if (!g)
		answer_not(c, ANSWER_REFUSED, "%s does not have it", c->d->config.host);
	else if (guest_order(c->d, g, c->request.to, r->function, r->wait, reason))
		answer_not(c, ANSWER_REFUSED, "%s", reason);
	else
		answer_ok(c, g);
}

static void place(struct conversation *c)
{
	struct answer answer;

	tracker_place(c->d, &c->request, &answer);
	add_answer(c, &answer);
}

static void list(struct conversation *c)
{
	for (const struct guest *g = c->d->guests; g; g = g->next)
		answer_ok(c, g);
	answer_ok(c, NULL);
}

/* A record has LIDs of a port by their LMC; a range that is not of one goes in several. */
static void add_lids(struct conversation *c, const struct guid2lid_entry *e)
{
	for (unsigned lid = e->min, lmc; lid <= e->max; lid += 1u << lmc) {
		struct answer answer = {.answer = ANSWER_OK, .knows = true};

		for (lmc = 0; lmc < 7 && lid + (2u << lmc) - 1 <= e->max;)
			lmc++;
		answer.record = (struct record){.guid = e->guid,
						.guest = "port",
						.state = MOVE_HERE,
						.function = -1,
						.lid = lid,
						.lmc = lmc};
		add_answer(c, &answer);
	}
}

/* In a thread: it reads a file and needs nothing of the loop's. */
static void list_lids(struct conversation *c)
{
	struct guid2lid table;
	int ret;

	guid2lid_init(&table);
	ret = guid2lid_read(&table, c->d->config.guid2lid);
	for (size_t i = 0; i < table.count; i++)
		add_lids(c, &table.entries[i]);
	guid2lid_destroy(&table);
	if (ret)
		answer_not(c, ANSWER_LATER, "%s: %s", c->d->config.guid2lid, strerror(-ret));
	else
		answer_ok(c, NULL);
}

/* It has been answered. */
static void lids(struct conversation *c)
{
}

/* ---- conversations ---- */

static void drop(struct conversation *c)
{
	struct conversation **at = &c->d->conversations;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->d->num_conversations--;
	link_close(&c->link);
	free(c->lines);
	free(c);
}

/* In a thread. */
static int look_at_functions(struct conversation *c)
{
	struct function functions[FUNCTION_MAX];
	struct lidtrackd *d = c->d;
	int n = d->provider->list(d->where, functions, FUNCTION_MAX);

	for (int i = 0; i < n; i++) {
		c->free += !functions[i].guid && !functions[i].busy;
		if (functions[i].guid == c->request.record.guid)
			c->has_guid = functions[i].number;
		if (functions[i].number == c->request.record.function)
			c->wanted_free = !functions[i].guid && !functions[i].busy;
	}
	if (n >= 0 && d->provider->fits &&
	    d->provider->fits(d->where, &c->request.record, c->unfit, sizeof(c->unfit)) == 0)
		c->unfit[0] = '\0';
	return n < 0 ? n : 0;
}

/* An answer says so; what is asked for again is no loss. */
__attribute__((format(printf, 2, 3))) static void cannot_serve(struct conversation *c,
							       const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(c->unserved, sizeof(c->unserved), format, args);
	va_end(args);
}

static int read_request(struct conversation *c)
{
	bool local = link_is_local(c->d->config.listen);
	char line[MESSAGE_LEN];
	int ret = link_accept(&c->link, &c->d->identity, c->fd, local);

	if (!ret) {
		int len = link_receive(&c->link, line, sizeof(line));

		if (len < 0)
			return len;
		ret = request_parse(&c->request, line, len);
		if (ret)
			cannot_serve(c,
				     "%s cannot read the request: bring both agents to one version",
				     c->d->config.host);
	}
	if (ret)
		return ret;
	if (!peer_of(c->d, c->request.from) && strcmp(c->request.from, c->d->config.host) != 0) {
		cannot_serve(c, "%s has no line \"peer %s\" in its configuration",
			     c->d->config.host, c->request.from);
		return -EPERM;
	}
	if (c->request.verb != MESSAGE_MOVE && strcmp(c->request.to, c->d->config.host) != 0) {
		cannot_serve(c,
			     "this is the agent of %s and not of %s: see the lines \"peer\" of %s",
			     c->d->config.host, c->request.to, c->request.from);
		return -EPERM;
	}
	if (!link_is_from(&c->link, c->request.from)) {
		cannot_serve(c, "the certificate is not one of %s", c->request.from);
		return -EPERM;
	}
	if (c->request.verb == MESSAGE_ASK || c->request.verb == MESSAGE_PLAN ||
	    c->request.verb == MESSAGE_TAKE)
		c->functions_error = look_at_functions(c);
	if (c->request.verb == MESSAGE_LIDS)
		list_lids(c);
	/* Who has given up may have decided something else since. */
	return link_is_closed(&c->link) ? -ECONNRESET : 0;
}

static void read_work(void *arg)
{
	struct conversation *c = arg;

	c->error = read_request(c);
}

static void write_work(void *arg)
{
	struct conversation *c = arg;

	for (char *line = c->lines; line && line < c->lines + c->len;) {
		char *eol = memchr(line, '\n', c->lines + c->len - line);

		if (link_send(&c->link, line, eol - line))
			break;
		line = eol + 1;
	}
}

static void write_done(void *arg)
{
	struct conversation *c = arg;

	c->task = NULL;
	drop(c);
}

/* Now and then: a refused peer tries again and again. */
static void complain(const struct conversation *c)
{
	static uint64_t last;
	uint64_t now = clock_ms();

	if (last && now - last < COMPLAIN_MS)
		return;
	last = now;
	log_warning("a request was not served: %s",
		    c->unserved[0] ? c->unserved : link_strerror(c->error));
}

static void read_done(void *arg)
{
	static void (*const verbs[MESSAGE_VERBS])(struct conversation *) = {
		[MESSAGE_ASK] = ask,	 [MESSAGE_TAKE] = take, [MESSAGE_LOOK] = look,
		[MESSAGE_MOVE] = move,	 [MESSAGE_PLAN] = plan, [MESSAGE_LIST] = list,
		[MESSAGE_PLACE] = place, [MESSAGE_LIDS] = lids,
	};
	struct conversation *c = arg;

	c->task = NULL;
	c->d->counts.requests++;
	if (c->error) {
		c->d->counts.bad_requests++;
		complain(c);
	}
	if (c->error && !c->unserved[0]) {
		drop(c);
		return;
	}
	if (c->error)
		answer_not(c, ANSWER_LATER, "%s", c->unserved);
	else
		verbs[c->request.verb](c);
	if (task_start(c->d->loop.base, &c->task, write_work, write_done, c))
		drop(c);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
		      int len, void *arg)
{
	struct lidtrackd *d = arg;
	struct conversation *c =
		d->num_conversations < MAX_CONVERSATIONS ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		close(fd);
		return;
	}
	c->d = d;
	c->fd = c->link.fd = fd;
	c->has_guid = -1;
	c->used = d->functions_used;
	c->next = d->conversations;
	d->conversations = c;
	d->num_conversations++;
	if (task_start(d->loop.base, &c->task, read_work, read_done, c))
		drop(c);
}

int server_start(struct lidtrackd *d)
{
	int fd, ret = 0;

	if (!d->config.listen[0])
		return 0;
	if (link_is_local(d->config.listen))
		ret = folder_make(d->config.listen, 0700, "");
	fd = ret ? ret : link_listen(d->config.listen);
	if (fd < 0) {
		log_error("listen %s: %s", d->config.listen, strerror(-fd));
		return fd;
	}
	d->listener = evconnlistener_new(d->loop.base, on_accept, d, LEV_OPT_CLOSE_ON_FREE, 0, fd);
	if (d->listener)
		return 0;
	close(fd);
	return -ENOMEM;
}

void server_stop(struct lidtrackd *d)
{
	if (d->listener)
		evconnlistener_free(d->listener);
	while (d->conversations) {
		struct conversation *c = d->conversations;

		if (c->task)
			task_finish(c->task);
		drop(c);
	}
}

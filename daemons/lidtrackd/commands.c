// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What lidtrackctl may ask for. What takes other agents is a job in a thread, with a copy of what
 * this host has; a client that goes meanwhile leaves the job without one.
 */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemons/common/folder.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"

struct row {
	const char *host; /* of a peer's name, or of this host's */
	struct record r;
	char reason[REASON_LEN];
};

struct job {
	struct job *next;
	struct lidtrackd *d;
	struct task *task;
	struct control_client *client; /* NULL: it is gone */
	void (*work)(struct job *job);
	void (*finish)(struct job *job);
	/* What is known: this host's rows are there before it begins, others are added. */
	struct row *rows;
	size_t count, room;
	const char *silent[MAX_PEERS]; /* agents that do not answer */
	unsigned num_silent;
	const char *listing;
	/* What was asked. */
	char guest[RECORD_NAME_LEN], to[RECORD_NAME_LEN];
	struct record record;
	unsigned num_free; /* functions of this host */
	int wanted;	   /* the function that is asked for; -1: any */
	bool wanted_free;
	uint64_t wait;
	struct sa_own_port own; /* of this host; 0: not known */
	int error;
	struct answer answer;
};

static struct lidtrackd *daemon_of(struct control_client *client)
{
	return control_daemon(client);
}

/* ---- rows ---- */

static void add_row(struct job *j, const char *host, const struct record *r, const char *reason)
{
	if (j->count == j->room) {
		size_t room = j->room ? 2 * j->room : 16;
		struct row *rows = realloc(j->rows, room * sizeof(*rows));

		if (!rows)
			return;
		j->rows = rows;
		j->room = room;
	}
	j->rows[j->count].host = host;
	j->rows[j->count].r = *r;
	snprintf(j->rows[j->count].reason, REASON_LEN, "%s", reason);
	j->count++;
}

static void add_listed(void *arg, const char *host, const struct record *r, const char *reason)
{
	add_row(arg, host, r, reason);
}

/* In the job's thread. */
static void ask_all(struct job *j)
{
	j->num_silent = peer_list_all(j->d, add_listed, j, j->silent);
}

/* Of a guest, where it is or was last: not one that has only been promised a function. */
static const struct row *find_row(const struct job *j, const char *guest)
{
	const struct row *best = NULL;

	for (size_t i = 0; i < j->count; i++)
		if (!strcmp(j->rows[i].r.guest, guest) && j->rows[i].r.state != MOVE_RESERVED &&
		    (!best || record_order(&j->rows[i].r, &best->r) > 0))
			best = &j->rows[i];
	return best;
}

static struct json_object *show_row(const struct row *row)
{
	struct json_object *o = json_object_new_object(), *pkeys = json_object_new_array();

	json_add_text(o, "guest", row->r.guest);
	json_add_hex(o, "guid", row->r.guid, 16);
	json_add_text(o, "host", row->host);
	json_add_text(o, "state", move_state_name(row->r.state));
	json_add_number(o, "epoch", row->r.epoch);
	if (row->r.fence)
		json_add_hex(o, "fence", row->r.fence, 16);
	json_add_number(o, "lid", row->r.lid);
	if (row->r.function >= 0)
		json_add_number(o, "function", row->r.function);
	if (row->r.peer[0])
		json_add_text(o, "peer", row->r.peer);
	for (unsigned i = 0; pkeys && i < row->r.num_pkeys; i++)
		json_object_array_add(pkeys, json_object_new_int(row->r.pkeys[i]));
	json_add(o, "pkeys", pkeys);
	if (row->reason[0])
		json_add_text(o, "reason", row->reason);
	return o;
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
	struct job **at = &j->d->jobs;

	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
	free(j->rows);
	free(j);
}

static void job_work(void *arg)
{
	struct job *j = arg;

	j->work(j);
}

static void job_done(void *arg)
{
	struct job *j = arg;
	struct control_client *client = j->client;

	j->task = NULL;
	if (client) {
		j->finish(j);
		job_free(j);
		control_end(client);
	} else {
		job_free(j);
	}
}

/* NULL after an answer. */
static struct job *job_new(struct control_client *client, void (*work)(struct job *),
			   void (*finish)(struct job *))
{
	struct lidtrackd *d = daemon_of(client);
	struct job *j = calloc(1, sizeof(*j));

	if (!j) {
		control_fail(client, "%s", strerror(ENOMEM));
		return NULL;
	}
	j->d = d;
	j->client = client;
	j->work = work;
	j->wanted = -1;
	j->finish = finish;
	j->next = d->jobs;
	d->jobs = j;
	for (const struct guest *g = d->guests; g; g = g->next)
		add_row(j, d->config.host, &g->r, g->reason);
	return j;
}

static void job_start(struct job *j)
{
	struct control_client *client = j->client;

	if (task_start(j->d->loop.base, &j->task, job_work, job_done, j)) {
		job_free(j);
		control_fail(client, "%s", strerror(EAGAIN));
		return;
	}
	control_defer(client);
}

static void forget_client(struct control_client *client)
{
	for (struct job *j = daemon_of(client)->jobs; j; j = j->next)
		if (j->client == client)
			j->client = NULL;
}

/* ---- what is asked ---- */

/* A guest's or host's name. False after an answer. */
static bool asked_name(struct control_client *client, struct json_object *request, const char *key,
		       char name[RECORD_NAME_LEN])
{
	const char *text = NULL;

	if (!json_get_text(request, key, &text) || !text || !record_name_valid(text)) {
		control_fail(client, "%s: a name of up to %d letters, digits, '.', '_' and '-'",
			     key, RECORD_NAME_LEN - 1);
		return false;
	}
	snprintf(name, RECORD_NAME_LEN, "%s", text);
	return true;
}

/* -1: any. False after an answer. */
static bool asked_function(struct control_client *client, struct json_object *request, int *number)
{
	uint64_t value;
	int ret = json_get_number(request, "function", FUNCTION_MAX - 1, &value);

	*number = ret > 0 ? (int)value : -1;
	if (ret < 0)
		control_fail(client, "function: a number up to %d", FUNCTION_MAX - 1);
	return ret >= 0;
}

static struct guest *asked_guest(struct control_client *client, struct json_object *request)
{
	char name[RECORD_NAME_LEN];
	struct guest *g;

	if (!asked_name(client, request, "guest", name))
		return NULL;
	g = guest_named(daemon_of(client), name);
	if (!g)
		control_fail(client, "%s does not have %s", daemon_of(client)->config.host, name);
	return g;
}

/* ---- status ---- */

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int ret = strcmp(x->r.guest, y->r.guest);

	return ret ? ret : strcmp(x->host, y->host);
}

static void finish_status(struct job *j)
{
	struct json_object *o = json_object_new_object(), *silent = json_object_new_array();

	if (j->count)
		qsort(j->rows, j->count, sizeof(*j->rows), compare_rows);
	for (size_t i = 0; i < j->count; i++)
		if (!j->guest[0] || !strcmp(j->guest, j->rows[i].r.guest))
			control_send(j->client, show_row(&j->rows[i]));
	for (unsigned i = 0; silent && i < j->num_silent; i++)
		json_object_array_add(silent, json_object_new_string(j->silent[i]));
	json_add_text(o, "host", j->d->config.host);
	json_add(o, "silent", silent);
	if (journal_ready(j->d))
		json_add_text(o, "journal", strerror(-j->d->journal_error));
	control_ok(j->client, o);
}

static void status(struct control_client *client, struct json_object *request)
{
	const char *guest = NULL;
	struct job *j;

	if (!json_get_text(request, "guest", &guest)) {
		control_fail(client, "guest: a name");
		return;
	}
	j = job_new(client, ask_all, finish_status);
	if (!j)
		return;
	snprintf(j->guest, sizeof(j->guest), "%s", guest ? guest : "");
	job_start(j);
}

/* ---- plan and move ---- */

static int who_has_it(struct job *j)
{
	const struct row *row;

	ask_all(j);
	row = find_row(j, j->guest);
	if (!row)
		return -ENOENT;
	j->record = row->r;
	j->listing = row->host;
	return 0;
}

static void plan_work(struct job *j)
{
	j->error = who_has_it(j);
	sa_own_port(&j->d->sa, &j->own);
	if (j->error || !strcmp(j->to, j->listing))
		return;
	if (!strcmp(j->to, j->d->config.host)) {
		j->answer.answer = ANSWER_OK;
		j->error = functions_free(j->d, &j->num_free);
	} else {
		j->error = peer_ask(j->d, j->to, MESSAGE_PLAN, &j->record, NULL, &j->answer);
	}
}

static void fail_unknown(struct job *j)
{
	char silent[512] = "";
	size_t len = 0;

	for (unsigned i = 0; i < j->num_silent && len + RECORD_NAME_LEN + 2 < sizeof(silent); i++)
		len += sprintf(silent + len, "%s%s", i ? ", " : "", j->silent[i]);
	if (len)
		control_fail(j->client, "no agent that answers has %s; silent: %s", j->guest,
			     silent);
	else
		control_fail(j->client, "nobody has %s", j->guest);
}

/* Why it cannot go there; false: it can. */
static bool plan_refused(struct job *j, char reason[REASON_LEN])
{
	bool here = !strcmp(j->to, j->d->config.host);

	if (!strcmp(j->to, j->listing))
		snprintf(reason, REASON_LEN, "%s is at %s already", j->guest, j->to);
	else if (j->record.state != MOVE_HERE)
		snprintf(reason, REASON_LEN, "it is under way: %s",
			 move_state_name(j->record.state));
	else if (j->error == -EHOSTUNREACH)
		snprintf(reason, REASON_LEN, "%s knows no agent of %s", j->d->config.host, j->to);
	else if (j->error)
		snprintf(reason, REASON_LEN, "%s does not answer: %s", j->to,
			 link_strerror(j->error));
	else if (j->answer.answer != ANSWER_OK)
		snprintf(reason, REASON_LEN, "%s", j->answer.reason);
	else if ((here || !strcmp(j->listing, j->d->config.host)) && journal_ready(j->d))
		snprintf(reason, REASON_LEN, "the journal of %s cannot be written: %s",
			 j->d->config.host, strerror(-j->d->journal_error));
	else if (here && j->num_free <= guests_reserved(j->d, j->record.guid))
		snprintf(reason, REASON_LEN, "no function of %s is free", j->d->where);
	else
		return false;
	return true;
}

/* In the subnet of this host. */
static void show_gid(struct json_object *o, const struct job *j)
{
	const uint64_t gid[2] = {htobe64(j->own.prefix), htobe64(j->record.guid)};

	if (j->own.prefix)
		json_add_gid(o, "gid", (const uint8_t *)gid);
}

static void finish_plan(struct job *j)
{
	char reason[REASON_LEN];
	struct json_object *o;
	struct row row = {.host = j->listing, .r = j->record};

	if (!j->record.guid) {
		fail_unknown(j);
		return;
	}
	o = show_row(&row);
	show_gid(o, j);
	json_add_text(o, "to", j->to);
	if (plan_refused(j, reason))
		json_add_text(o, "refused", reason);
	control_ok(j->client, o);
}

static void plan(struct control_client *client, struct json_object *request)
{
	char guest[RECORD_NAME_LEN], to[RECORD_NAME_LEN];
	struct job *j;

	if (!asked_name(client, request, "guest", guest) || !asked_name(client, request, "to", to))
		return;
	j = job_new(client, plan_work, finish_plan);
	if (!j)
		return;
	memcpy(j->guest, guest, sizeof(guest));
	memcpy(j->to, to, sizeof(to));
	job_start(j);
}

static void move_work(struct job *j)
{
	j->error = who_has_it(j);
	j->record.function = j->wanted;
	j->record.state = MOVE_ASKING; /* what it is to be, with that wait */
	j->record.wait = j->wait;
	if (!j->error && strcmp(j->listing, j->d->config.host) != 0)
		j->error = peer_ask(j->d, j->listing, MESSAGE_MOVE, &j->record, j->to, &j->answer);
}

static void finish_move(struct job *j)
{
	struct json_object *o;

	if (j->error == -ENOENT) {
		fail_unknown(j);
	} else if (j->error) {
		control_fail(j->client, "%s does not answer: %s", j->listing,
			     link_strerror(j->error));
	} else if (j->answer.answer != ANSWER_OK) {
		control_fail(j->client, "%s", j->answer.reason);
	} else {
		o = json_object_new_object();
		json_add_text(o, "from", j->listing);
		json_add_hex(o, "guid", j->record.guid, 16);
		control_ok(j->client, o);
	}
}

static void move_of_others(struct control_client *client, const char *guest, const char *to,
			   int wanted, uint64_t wait)
{
	struct job *j = job_new(client, move_work, finish_move);

	if (!j)
		return;
	snprintf(j->guest, sizeof(j->guest), "%s", guest);
	snprintf(j->to, sizeof(j->to), "%s", to);
	j->wanted = wanted;
	j->wait = wait;
	job_start(j);
}

static void move(struct control_client *client, struct json_object *request)
{
	struct lidtrackd *d = daemon_of(client);
	char guest[RECORD_NAME_LEN], to[RECORD_NAME_LEN], reason[REASON_LEN];
	struct json_object *o;
	struct guest *g;
	uint64_t wait = 0;
	int wanted;

	if (!asked_name(client, request, "guest", guest) ||
	    !asked_name(client, request, "to", to) || !asked_function(client, request, &wanted))
		return;
	if (json_get_number(request, "wait", RECORD_WAIT_MAX, &wait) < 0) {
		control_fail(client, "wait: milliseconds, up to a day");
		return;
	}
	g = guest_named(d, guest);
	if (!g || g->r.state == MOVE_RESERVED) {
		move_of_others(client, guest, to, wanted, wait);
		return;
	}
	if (guest_order(d, g, to, wanted, wait, reason)) {
		control_fail(client, "%s", reason);
		return;
	}
	o = json_object_new_object();
	json_add_text(o, "from", d->config.host);
	json_add_hex(o, "guid", g->r.guid, 16);
	control_ok(client, o);
}

/* An event that cannot be: what is to be said, and why else. */
static void answer_event(struct control_client *client, int ret, const char *what,
			 const struct guest *g)
{
	if (!ret)
		control_ok(client, json_object_new_object());
	else if (ret == -EINVAL)
		control_fail(client, "%s is %s: it cannot be %s", g->r.guest,
			     move_state_name(g->r.state), what);
	else
		control_fail(client, "the journal cannot be written: %s", strerror(-ret));
}

/* Of a guest that another host has: an order to stay there. */
static void cancel_work(struct job *j)
{
	j->error = who_has_it(j);
	if (!j->error)
		j->error = peer_ask(j->d, j->listing, MESSAGE_MOVE, &j->record, j->listing,
				    &j->answer);
}

static void cancel(struct control_client *client, struct json_object *request)
{
	struct lidtrackd *d = daemon_of(client);
	char name[RECORD_NAME_LEN];
	struct guest *g;
	struct job *j;

	if (!asked_name(client, request, "guest", name))
		return;
	g = guest_named(d, name);
	if (g && g->r.state != MOVE_RESERVED) {
		answer_event(client, guest_event(d, g, EVENT_CANCEL, NULL), "cancelled", g);
		return;
	}
	j = job_new(client, cancel_work, finish_move);
	if (!j)
		return;
	memcpy(j->guest, name, sizeof(name));
	job_start(j);
}

/* ---- guests that come and go ---- */

static bool known(const struct job *j, uint64_t guid)
{
	for (size_t i = 0; i < j->count; i++)
		if (j->rows[i].r.guid == guid)
			return true;
	return false;
}

/* One of this host's pool that nobody has. */
static uint64_t pool_guid(const struct job *j)
{
	const struct lidtrackd_config *c = &j->d->config;

	for (uint64_t i = 0; i < c->pool_count; i++)
		if (!known(j, c->pool_first + i) && !guest_find(j->d, c->pool_first + i))
			return c->pool_first + i;
	return 0;
}

/* Later than that of an earlier time, and none from which the number would wrap. */
static uint32_t epoch_now(void)
{
	time_t now = time(NULL);

	return now < 1 ? 1 : now < RECORD_LAST_EPOCH ? (uint32_t)now : RECORD_LAST_EPOCH;
}

static void add_work(struct job *j)
{
	ask_all(j);
	j->wanted_free = function_is_free(j->d, j->record.function);
}

static void finish_add(struct job *j)
{
	bool chosen = j->record.guid != 0;
	struct json_object *o;
	int ret;

	/* Another agent may be adding it, too; and one that is silent may have it, of an earlier
	 * time. */
	j->record.fence = fence_number();
	if (j->num_silent)
		j->record.epoch = epoch_now();
	if (!chosen)
		j->record.guid = pool_guid(j);
	if (find_row(j, j->guest) || guest_named(j->d, j->guest)) {
		control_fail(j->client, "there is a guest %s", j->guest);
	} else if (!j->record.guid) {
		control_fail(j->client,
			     "no GUID of the pool is free: give one with --guid, or enlarge "
			     "pool in lidtrackd.conf");
	} else if (known(j, j->record.guid) || guest_find(j->d, j->record.guid)) {
		control_fail(j->client, "another guest has that GUID");
	} else if (j->num_silent && !chosen) {
		control_fail(j->client,
			     "%s does not answer, and could have a GUID of the pool; give one with "
			     "--guid",
			     j->silent[0]);
	} else if (j->d->config.mode == MODE_SHARED_PORT && guest_that_stays(j->d, 0)) {
		control_fail(j->client,
			     "%s is here, and functions share one LID: mode own has several",
			     guest_that_stays(j->d, 0)->r.guest);
	} else if (j->record.function >= 0 &&
		   (!j->wanted_free || guest_waits_for(j->d, j->record.function, 0))) {
		control_fail(j->client, "function %d of %s is not free", j->record.function,
			     j->d->where);
	} else if ((ret = journal_ready(j->d)) || (ret = guest_add(j->d, &j->record))) {
		control_fail(j->client, "the journal cannot be written: %s", strerror(-ret));
	} else {
		o = json_object_new_object();
		json_add_hex(o, "guid", j->record.guid, 16);
		control_ok(j->client, o);
	}
}

static bool asked_guid(struct control_client *client, struct json_object *request, uint64_t *guid)
{
	const char *text = NULL, *digits;
	size_t len;

	*guid = 0;
	if (!json_get_text(request, "guid", &text) || text) {
		digits = text && !strncmp(text, "0x", 2) ? text + 2 : text ? text : "";
		len = strspn(digits, "0123456789abcdefABCDEF");
		if (len && len <= 16 && !digits[len])
			*guid = strtoull(digits, NULL, 16);
		if (!*guid) {
			control_fail(client, "guid: 1 to 16 hexadecimal digits, and not 0");
			return false;
		}
	}
	return true;
}

static void add(struct control_client *client, struct json_object *request)
{
	struct record r = {.state = MOVE_SETTING, .function = -1, .epoch = 1};
	const char *pkeys = NULL;
	struct job *j;

	if (!asked_name(client, request, "guest", r.guest) ||
	    !asked_guid(client, request, &r.guid) || !asked_function(client, request, &r.function))
		return;
	if (!json_get_text(request, "pkeys", &pkeys) ||
	    (pkeys && record_parse_pkeys(&r, pkeys, strlen(pkeys)))) {
		control_fail(client, "pkeys: up to %d of them, 0xffff,0x8001", RECORD_PKEYS);
		return;
	}
	j = job_new(client, add_work, finish_add);
	if (!j)
		return;
	j->record = r;
	memcpy(j->guest, r.guest, sizeof(r.guest));
	job_start(j);
}

static void remove_guest(struct control_client *client, struct json_object *request)
{
	struct lidtrackd *d = daemon_of(client);
	struct guest *g = asked_guest(client, request);
	int ret;

	if (!g)
		return;
	if (libvirt_keeps(d, g->r.guest)) {
		control_fail(client,
			     "its domain runs at %s and would have it again, or libvirtd has not "
			     "answered: end it, and take the vGUID out of its metadata",
			     d->config.host);
		return;
	}
	ret = g->r.peer[0] ? -EINVAL : journal_ready(d);
	if (!ret)
		ret = guest_event(d, g, EVENT_FREED, NULL);
	answer_event(client, ret, "removed", g);
}

/* ---- a host that is off ---- */

static void fence(struct control_client *client, struct json_object *request)
{
	struct lidtrackd *d = daemon_of(client);
	struct json_object *o;
	char host[RECORD_NAME_LEN];
	unsigned count = 0;
	int ret;

	if (!asked_name(client, request, "host", host))
		return;
	if (!peer_of(d, host)) {
		control_fail(client, "%s knows no agent of %s", d->config.host, host);
		return;
	}
	for (struct guest *g = d->guests; g; g = g->next) {
		ret = strcmp(g->r.peer, host) ? -EINVAL : guest_event(d, g, EVENT_FENCE, NULL);
		if (ret && ret != -EINVAL) {
			control_fail(client,
				     "the journal cannot be written: %s; %u guests are fenced",
				     strerror(-ret), count);
			return;
		}
		if (ret)
			continue;
		log_notice("%s: %s is said to be off; %s", g->r.guest, host,
			   move_state_name(g->r.state));
		count++;
	}
	o = json_object_new_object();
	json_add_number(o, "guests", count);
	control_ok(client, o);
}

/* ---- the socket ---- */

int commands_start(struct lidtrackd *d)
{
	static const struct control_command commands[] = {
		{"status", status}, {"plan", plan},	      {"move", move},	{"cancel", cancel},
		{"add", add},	    {"remove", remove_guest}, {"fence", fence},
	};
	struct control_options options = {
		.path = d->config.control_socket,
		.user = "",
		.group = d->config.control_group,
		.commands = commands,
		.count = sizeof(commands) / sizeof(*commands),
		.daemon = d,
		.forget = forget_client,
	};
	int ret = d->config.control_socket[0] ? folder_make(d->config.control_socket, 0755, "") : 0;

	return ret ? ret : control_start(d->loop.base, &options, &d->control);
}

void commands_stop(struct lidtrackd *d)
{
	if (d->control)
		control_stop(d->control);
	while (d->jobs) {
		if (d->jobs->task)
			task_finish(d->jobs->task);
		job_free(d->jobs);
	}
}

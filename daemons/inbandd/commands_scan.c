/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Scans in three modes: one; two and their difference (compare); again and again, each compared
 * with the one before (loop). The loop's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/commands.h"
#include "daemons/inbandd/verdict.h"

#define MOST_PORTS 1000

struct scanning {
	struct pending *pending;
	struct thresholds thresholds;
	struct scan *before;
	struct event *timer;
	uint64_t pause;		/* ms between scans; 0: there is one */
	uint64_t worst, rounds; /* to come; loop */
	bool loop;
};

static void scanning_free(struct scanning *s)
{
	if (s->timer)
		event_free(s->timer);
	scan_destroy(s->before);
	free(s);
}

static void fail(struct scanning *s, int status)
{
	pending_fail(s->pending, "the scan failed: %s", strerror(-status));
	scanning_free(s);
}

static struct json_object *result_json(struct scanning *s, const struct scan *scan)
{
	const struct inbandd *d = s->pending->d;
	struct verdict verdict;
	struct json_object *to;

	if (verdict_make(d, scan, s->before, &s->thresholds, NULL, NULL, &verdict)) {
		verdict_free(&verdict);
		return NULL;
	}
	to = json_object_new_object();
	json_add_number(to, "switches", scan->count);
	json_add_number(to, "silent", scan->silent);
	json_add(to, "seconds", json_object_new_double(scan->time / 1e12));
	verdict_json(d, &verdict, s->worst, to);
	verdict_free(&verdict);
	return to;
}

static bool wait_for_next(struct scanning *s)
{
	const struct timeval pause = {.tv_sec = s->pause / 1000, .tv_usec = s->pause % 1000 * 1000};

	return event_add(s->timer, &pause) == 0;
}

static void scanned(void *arg, int status, struct scan *scan)
{
	struct scanning *s = arg;
	struct pending *p = s->pending;
	struct json_object *result;

	if (status) {
		fail(s, status);
		return;
	}
	if (s->pause && !s->before) {
		s->before = scan;
		if (!wait_for_next(s))
			fail(s, -ENOMEM);
		return;
	}
	result = result_json(s, scan);
	if (s->loop && --s->rounds && p->client && result) {
		json_add_text(result, "event", "scan");
		control_send(p->client, result);
		scan_destroy(s->before);
		s->before = scan;
		if (!wait_for_next(s))
			fail(s, -ENOMEM);
		return;
	}
	scan_destroy(scan);
	if (result)
		pending_ok(p, result);
	else
		pending_fail(p, "no memory");
	scanning_free(s);
}

static void scan_again(evutil_socket_t fd, short what, void *arg)
{
	struct scanning *s = arg;
	struct inbandd *d = s->pending->d;
	int ret = s->pending->client ? scan_begin(d->fabric, d->model, scanned, s) : -ECANCELED;

	if (ret)
		fail(s, ret);
	else
		network_kick(d);
}

static bool parse(struct control_client *client, struct json_object *request, struct scanning *s)
{
	uint64_t compare = 0, loop = 0;
	const char *thresholds = NULL;
	char error[256];

	s->worst = 20;
	s->rounds = UINT64_MAX;
	if (json_get_number(request, "compare", 86400000, &compare) < 0 ||
	    json_get_number(request, "loop", 86400000, &loop) < 0 ||
	    json_get_number(request, "count", UINT32_MAX, &s->rounds) < 0 || !s->rounds ||
	    json_get_number(request, "worst", MOST_PORTS, &s->worst) < 0) {
		control_fail(client, "compare and loop are in milliseconds, up to a day; count is "
				     "how often; worst up to 1000 ports");
		return false;
	}
	s->loop = loop;
	s->pause = loop ?: compare;
	if (!json_get_text(request, "thresholds", &thresholds)) {
		control_fail(client, "thresholds: COUNTER=NUMBER,…");
		return false;
	}
	if (thresholds_parse(thresholds, &s->thresholds, error, sizeof(error)))
		return true;
	control_fail(client, "%s", error);
	return false;
}

/*
 * "compare": milliseconds between two scans; "loop": between all, "count" of them; "worst": how
 * many ports are listed; "thresholds".
 */
void command_scan(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct scanning *s = calloc(1, sizeof(*s));
	int ret;

	if (!s || !(s->timer = evtimer_new(d->loop.base, scan_again, s))) {
		control_fail(client, "no memory");
		free(s);
		return;
	}
	if (!parse(client, request, s) || !(s->pending = pending_begin(client, "scan", true))) {
		scanning_free(s);
		return;
	}
	ret = scan_begin(d->fabric, d->model, scanned, s);
	if (ret)
		fail(s, ret);
	else
		network_kick(d);
}

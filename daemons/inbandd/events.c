/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See events.h. Those kept are in a ring, number n in slot n modulo its size. */
#include <errno.h>
#include <stdlib.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/events.h"

struct events {
	struct listener *listeners;
	uint64_t latest;
	struct json_object *kept[EVENTS_KEPT];
};

int events_start(struct events **events)
{
	*events = calloc(1, sizeof(**events));
	return *events ? 0 : -ENOMEM;
}

void events_stop(struct events *e)
{
	if (!e)
		return;
	for (unsigned i = 0; i < EVENTS_KEPT; i++)
		json_object_put(e->kept[i]);
	free(e);
}

void events_listen(struct events *e, struct listener *listener)
{
	listener->next = e->listeners;
	e->listeners = listener;
}

void events_leave(struct events *e, struct listener *listener)
{
	for (struct listener **at = &e->listeners; *at; at = &(*at)->next)
		if (*at == listener) {
			*at = listener->next;
			return;
		}
}

void events_tell(struct events *e, const char *name, struct json_object *event)
{
	struct json_object **slot;

	if (!event)
		return;
	slot = &e->kept[++e->latest % EVENTS_KEPT];
	json_add_text(event, "event", name);
	json_add_number(event, "number", e->latest);
	json_add_number(event, "ms", real_ms());
	json_object_put(*slot);
	*slot = event;
	for (struct listener *l = e->listeners, *next; l; l = next) {
		next = l->next;
		l->hear(l, e->latest, event);
	}
}

uint64_t events_latest(const struct events *e)
{
	return e->latest;
}

bool events_replay(struct events *e, uint64_t after, struct listener *listener)
{
	if (after > e->latest || e->latest - after > EVENTS_KEPT)
		return false;
	for (uint64_t n = after + 1; n <= e->latest; n++)
		listener->hear(listener, n, e->kept[n % EVENTS_KEPT]);
	return true;
}

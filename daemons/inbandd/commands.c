/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The control socket: its commands, those that wait for the network, and clients that watch. The
 * loop's thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/clock.h"
#include "daemons/common/json.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/commands.h"
#include "daemons/inbandd/store.h"

#define PROGRESS_MS 200

struct pending *pending_begin(struct control_client *client, const char *work, bool holds_model)
{
	struct inbandd *d = control_daemon(client);
	struct client_state *state = control_state(client);
	struct pending *p;

	if (d->discovering || (holds_model && !d->model)) {
		control_fail(client, d->discovering
					     ? "discovery is under way; ask again when it has ended"
					     : "nothing has been discovered: inbandctl discover");
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		control_fail(client, "no memory");
		return NULL;
	}
	*p = (struct pending){.d = d, .client = client, .work = work, .holds_model = holds_model};
	p->told = clock_ms();
	d->users += holds_model;
	state->pending = p;
	control_defer(client);
	return p;
}

void pending_progress(struct pending *p, uint64_t done, uint64_t of)
{
	struct json_object *event;
	uint64_t now = clock_ms();

	if (now - p->told < PROGRESS_MS)
		return;
	p->told = now;
	event = json_object_new_object();
	json_add_text(event, "work", p->work);
	json_add_number(event, "done", done);
	json_add_number(event, "of", of);
	events_tell(p->d->events, "progress", json_object_get(event));
	if (p->client)
		control_send(p->client, event);
	else
		json_object_put(event);
}

static void end(struct pending *p)
{
	struct control_client *client = p->client;

	p->d->users -= p->holds_model;
	if (p->timer)
		event_free(p->timer);
	free(p);
	if (client) {
		((struct client_state *)control_state(client))->pending = NULL;
		control_end(client);
	}
}

void pending_ok(struct pending *p, struct json_object *answer)
{
	if (p->client)
		control_ok(p->client, answer);
	else
		json_object_put(answer);
	end(p);
}

void pending_fail(struct pending *p, const char *format, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (p->client)
		control_fail(p->client, "%s", text);
	end(p);
}

static void forget(struct control_client *client)
{
	struct inbandd *d = control_daemon(client);
	struct client_state *state = control_state(client);

	if (state->pending)
		state->pending->client = NULL;
	events_leave(d->events, &state->listener);
}

static void hear(struct listener *listener, uint64_t number, struct json_object *event)
{
	struct client_state *state =
		(struct client_state *)((char *)listener - offsetof(struct client_state, listener));

	control_send(state->client, json_object_get(event));
}

/*
 * From now on, each event is a line; the first says that it has begun. "after": the number of an
 * event, and those that came after it are said first.
 */
static void command_watch(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct client_state *state = control_state(client);
	struct json_object *begun;
	uint64_t after;
	int given = json_get_number(request, "after", INT64_MAX, &after);

	if (given < 0) {
		control_fail(client, "\"after\" is to be the number of an event");
		return;
	}
	begun = json_object_new_object();
	json_add_text(begun, "event", "watching");
	json_add_number(begun, "number", events_latest(d->events));
	control_defer(client);
	control_send(client, begun);
	state->client = client;
	state->listener.hear = hear;
	if (given && !events_replay(d->events, after, &state->listener)) {
		begun = json_object_new_object();
		json_add_text(begun, "event", "missed");
		control_send(client, begun);
	}
	events_listen(d->events, &state->listener);
}

static void command_alarms(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	bool all = json_get_flag(request, "all");
	struct json_object *answer = json_object_new_object(), *list = json_object_new_array();

	for (const struct alarm *a = alarms_first(d->alarms); a; a = a->next)
		if (a->active || all)
			json_object_array_add(list, alarm_json(d, a));
	json_add(answer, "alarms", list);
	control_ok(client, answer);
}

static void command_ack(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	uint64_t id;

	if (json_get_number(request, "id", UINT32_MAX, &id) <= 0)
		control_fail(client, "which alarm? \"id\" is to be its number");
	else if (alarms_acknowledge(d->alarms, id, control_who(client)))
		control_fail(client, "there is no alarm %u", (unsigned)id);
	else
		control_ok(client, json_object_new_object());
}

static const struct control_command commands[] = {
	/* One in a line. */
	// clang-format off
	{"status", command_status},
	{"discover", command_discover},
	{"check", command_check},
	{"show", command_show},
	{"trace", command_trace},
	{"read", command_read},
	{"write", command_write},
	{"scan", command_scan},
	{"alarms", command_alarms},
	{"ack", command_ack},
	{"watch", command_watch},
	{"routes", command_routes},
	{"bist", command_bist},
	{"device", command_device},
	{"registers", command_registers},
	{"table", command_table},
	{"edit", command_edit},		  {"planned", command_planned},
	{"eeprom", command_eeprom},
	{"events", command_events},
	{"audit", command_audit},
	{"baseline", command_baseline},
	{"suppress", command_suppress},
	{"save", command_save},
	{"export", command_export},
	// clang-format on
};

bool command_changes(const char *name)
{
	static const char *const look[] = {"status",	"check",  "show",    "trace", "read",
					   "scan",	"alarms", "planned", "watch", "device",
					   "registers", "table",  "events",  "save",  "export"};

	for (unsigned i = 0; i < sizeof(look) / sizeof(look[0]); i++)
		if (!strcmp(look[i], name))
			return false;
	return true;
}

/* What a command does by an operation that not every network has. */
static bool network_can(const struct fabric_ops *ops, const char *name)
{
	const struct {
		const char *name;
		bool can;
	} needs[] = {
		{"trace", ops->route},		{"read", ops->register_read},
		{"write", ops->register_write}, {"scan", ops->counters},
		{"routes", ops->tables_write},	{"bist", ops->register_write && ops->pause},
		{"eeprom", ops->eeprom_read},	{"device", ops->counters},
		{"table", ops->route},		{"registers", ops->register_read},
	};

	for (unsigned i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (!strcmp(needs[i].name, name))
			return needs[i].can;
	return true;
}

static bool before(struct control_client *client, const char *command, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct client_state *state = control_state(client);

	state->audit =
		command_changes(command) ? store_audit(d->store, control_who(client), request) : 0;
	if (network_can(d->fabric->ops, command))
		return true;
	control_fail(client, "a network of the kind \"%s\" does not have that",
		     d->fabric->ops->name);
	return false;
}

static void answered(struct control_client *client, const char *error)
{
	struct inbandd *d = control_daemon(client);
	struct client_state *state = control_state(client);

	if (state->audit)
		store_audited(d->store, state->audit, error ?: "done");
	state->audit = 0;
}

int commands_start(struct inbandd *d)
{
	static struct control_options options;

	options = (struct control_options){
		.path = d->config.control_socket,
		.user = "",
		.group = d->config.control_group,
		.commands = commands,
		.count = sizeof(commands) / sizeof(commands[0]),
		.daemon = d,
		.state_size = sizeof(struct client_state),
		.before = before,
		.answered = answered,
		.forget = forget,
	};
	return control_start(d->loop.base, &options, &d->control);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What has happened, who has done what, networks as they were, and ports that scans do not name.
 * The loop's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/commands.h"
#include "daemons/inbandd/store.h"
#include "inband/manage/check.h"
#include "inband/manage/dump.h"
#include "inband/manage/export.h"
#include "inband/manage/updown.h"

#define MOST 10000

static bool get_count(struct control_client *client, struct json_object *request, uint64_t *count)
{
	*count = 100;
	if (json_get_number(request, "count", MOST, count) >= 0)
		return true;
	control_fail(client, "count: up to 10000");
	return false;
}

void command_events(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct json_object *answer;
	const char *name = NULL;
	uint64_t count;

	if (!json_get_text(request, "name", &name)) {
		control_fail(client, "\"name\" is to be that of an event");
		return;
	}
	if (!get_count(client, request, &count))
		return;
	answer = json_object_new_object();
	json_add(answer, "events", store_events(d->store, name, count));
	control_ok(client, answer);
}

void command_audit(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct json_object *answer;
	uint64_t count;

	if (!get_count(client, request, &count))
		return;
	answer = json_object_new_object();
	json_add(answer, "audit", store_audits(d->store, count));
	control_ok(client, answer);
}

/* The network as it is, as text. NULL: the client has been told. */
static char *make_dump(struct control_client *client, size_t *length)
{
	struct inbandd *d = control_daemon(client);
	char *text = NULL;
	FILE *file;

	if (!d->model || d->discovering) {
		control_fail(client, "nothing has been discovered yet");
		return NULL;
	}
	file = open_memstream(&text, length);
	if (!file || dump_write(d->model, file) | fclose(file)) {
		free(text);
		control_fail(client, "no memory");
		return NULL;
	}
	return text;
}

void command_save(struct control_client *client, struct json_object *request)
{
	struct json_object *answer;
	size_t length;
	char *text = make_dump(client, &length);

	if (!text)
		return;
	answer = json_object_new_object();
	json_add(answer, "text", json_object_new_string_len(text, length));
	free(text);
	control_ok(client, answer);
}

static const char *exported_name(const void *arg, uint32_t device, char *name)
{
	return device_name(arg, device, name);
}

static uint64_t exported_guid(const void *arg, uint32_t device, unsigned port)
{
	const struct inbandd *d = arg;

	return d->fabric->ops->port_guid(d->fabric, d->model->devices[device]->target.id, port);
}

static int export_as(const struct inbandd *d, const char *what, const char *prefix, FILE *file,
		     char *error, size_t length)
{
	const struct updown_names names = {exported_name, exported_guid, d};

	if (!strcmp(what, "topology"))
		return export_topology(d->model, exported_name, d, file);
	if (!strcmp(what, "slurm"))
		return export_slurm(d->model, prefix, file);
	if (!strcmp(what, "drain"))
		return export_drain(d->model, d->plan, prefix, file);
	snprintf(error, length, "export topology, slurm, drain or routes");
	if (strcmp(what, "routes") != 0)
		return -EINVAL;
	snprintf(error, length, "the network's switches are not OpenSM's: load routes instead");
	return d->fabric->ops->port_guid ? updown_export(d->model, &names, file, error, length)
					 : -EINVAL;
}

static void send_export(struct control_client *client, const char *what, const char *prefix)
{
	struct json_object *answer;
	char error[160] = "";
	char *text = NULL;
	size_t length;
	FILE *file = open_memstream(&text, &length);
	int ret = file ? export_as(control_daemon(client), what, prefix, file, error, sizeof(error))
		       : -ENOMEM;

	if (file)
		fclose(file);
	if (ret == -EINVAL || ret == -EHOSTUNREACH) {
		control_fail(client, "%s", error);
	} else if (ret) {
		control_fail(client, "%s", strerror(-ret));
	} else {
		answer = json_object_new_object();
		json_add(answer, "text", json_object_new_string_len(text, length));
		control_ok(client, answer);
	}
	free(text);
}

/* "what": topology, slurm, drain or routes; "prefix": of nodes' names. */
void command_export(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const char *what = NULL, *prefix = NULL;

	if (!json_get_text(request, "what", &what) || !what ||
	    !json_get_text(request, "prefix", &prefix) || (prefix && strpbrk(prefix, " \t\n#[],")))
		control_fail(client, "export topology, slurm, drain or routes; a prefix is a word");
	else if (!d->model || d->discovering)
		control_fail(client, "nothing has been discovered yet");
	else
		send_export(client, what, prefix ?: "n");
}

static void save_baseline(struct control_client *client, const char *name)
{
	struct inbandd *d = control_daemon(client);
	size_t length;
	char *text = make_dump(client, &length);
	int ret;

	if (!text)
		return;
	ret = store_baseline(d->store, name, text, length);
	free(text);
	if (ret)
		control_fail(client, "the database cannot be written; see the log");
	else
		control_ok(client, json_object_new_object());
}

/* The baseline as a plan; NULL: the client has been told. */
static struct machine *baseline_plan(struct control_client *client, const char *name)
{
	struct inbandd *d = control_daemon(client);
	struct machine *plan = NULL;
	struct model *model = NULL;
	char error[256] = "no memory";
	size_t length;
	char *text = store_baseline_get(d->store, name, &length);
	FILE *file = text && length ? fmemopen(text, length, "r") : NULL;
	int ret = -ENOMEM;

	if (!text) {
		control_fail(client, "there is no baseline \"%s\"", name);
		return NULL;
	}
	if (file) {
		ret = dump_read(file, &model, error, sizeof(error));
		fclose(file);
	}
	if (!ret && (ret = dump_plan(model, d->plan, &plan)))
		snprintf(error, sizeof(error), "its IDs are none of a plan's");
	if (ret)
		control_fail(client, "baseline \"%s\": %s", name, error);
	model_destroy(model);
	free(text);
	return plan;
}

static void diff_baseline(struct control_client *client, const char *name)
{
	struct inbandd *d = control_daemon(client);
	struct machine *plan;

	if (!d->model || d->discovering) {
		control_fail(client, "nothing has been discovered yet");
		return;
	}
	plan = baseline_plan(client, name);
	if (!plan)
		return;
	answer_findings(client, plan);
	machine_destroy(plan);
}

/* "what": save, diff, drop or list; "name". */
void command_baseline(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const char *what = NULL, *name = NULL;
	struct json_object *answer;

	if (!json_get_text(request, "what", &what) || !what ||
	    !json_get_text(request, "name", &name) || (strcmp(what, "list") && !name)) {
		control_fail(client, "baseline save, diff or drop NAME, or list");
	} else if (!strcmp(what, "save")) {
		save_baseline(client, name);
	} else if (!strcmp(what, "diff")) {
		diff_baseline(client, name);
	} else if (!strcmp(what, "drop")) {
		if (store_baseline_drop(d->store, name))
			control_ok(client, json_object_new_object());
		else
			control_fail(client, "there is no baseline \"%s\"", name);
	} else if (!strcmp(what, "list")) {
		answer = json_object_new_object();
		json_add(answer, "baselines", store_baselines(d->store));
		control_ok(client, answer);
	} else {
		control_fail(client, "baseline save, diff or drop NAME, or list");
	}
}

/* "what": add, drop or list; "port": CHIP:PORT; "why". */
void command_suppress(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const char *what = NULL, *text = NULL, *why = NULL;
	char name[PORT_NAME_LEN];
	struct json_object *answer;
	struct device *device;
	unsigned port;

	if (!json_get_text(request, "what", &what) || !what ||
	    !json_get_text(request, "why", &why)) {
		control_fail(client, "suppress add or drop CHIP:PORT, or list");
		return;
	}
	if (!strcmp(what, "list")) {
		answer = json_object_new_object();
		json_add(answer, "suppressed", store_suppressed(d->store));
		control_ok(client, answer);
		return;
	}
	device = request_port(client, request, &port);
	if (!device)
		return;
	/* By the name that scans give it. */
	text = port_name(d, device->number, port, name);
	if (!strcmp(what, "add"))
		store_suppress(d->store, text, control_who(client), why ?: "");
	else if (strcmp(what, "drop") || !store_unsuppress(d->store, text)) {
		control_fail(client, "%s is not suppressed", text);
		return;
	}
	control_ok(client, json_object_new_object());
}

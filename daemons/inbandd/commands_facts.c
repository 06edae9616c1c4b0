/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands about devices, cables and ways. The loop's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/commands.h"
#include "inband/manage/check.h"
#include "inband/manage/th2.h"
#include "inband/manage/trace.h"
#include "inband/registers.h"

const char *pending_why(int status)
{
	return status == -ETIMEDOUT   ? "no answer"
	       : status == -EREMOTEIO ? "the chip refuses: no such register, or not that value"
				      : strerror(-status);
}

static void add_model(const struct inbandd *d, struct json_object *to)
{
	json_add_number(to, "switches", d->model->switches);
	json_add_number(to, "nodes", d->model->nodes);
	json_add_number(to, "links", d->model->links);
	json_add_number(to, "silent", d->discovered.silent);
	json_add(to, "seconds", json_object_new_double(d->discovered.time / 1e12));
}

void command_status(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const struct fabric_counts *c = d->fabric->ops->counts(d->fabric);
	struct json_object *answer = json_object_new_object(), *part;
	unsigned counts[SEVERITIES];

	json_add_text(answer, "network", d->fabric->ops->name);
	json_add_text(answer, "plan", d->plan ? d->plan->name : "");
	json_add_bool(answer, "discovering", d->discovering);
	if (d->model) {
		part = json_object_new_object();
		add_model(d, part);
		json_add(answer, "model", part);
	}
	json_add_number(answer, "half_loaded", d->half_loaded);
	part = json_object_new_object();
	json_add_number(part, "sent", c->sent);
	json_add_number(part, "answered", c->answered);
	json_add_number(part, "retried", c->retried);
	json_add_number(part, "timed_out", c->timed_out);
	json_add_number(part, "refused", c->refused);
	json_add_number(part, "stale", c->stale);
	json_add_number(part, "reports", c->reports);
	json_add(answer, "requests", part);
	part = json_object_new_object();
	alarms_count(d->alarms, counts);
	for (unsigned i = 0; i < SEVERITIES; i++)
		json_add_number(part, severity_name(i), counts[i]);
	json_add(answer, "alarms", part);
	control_ok(client, answer);
}

static void discovered(void *arg, int status)
{
	struct pending *p = arg;
	struct json_object *answer;

	if (status) {
		pending_fail(p, "discovery failed: %s", pending_why(status));
		return;
	}
	answer = json_object_new_object();
	add_model(p->d, answer);
	pending_ok(p, answer);
}

/* Something else holds the model, for a moment as a rule: tries again soon. */
static void try_discovery(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval soon = {.tv_usec = 10000};
	struct pending *p = arg;
	int ret = network_discover(p->d, discovered, p);

	if (ret == -EBUSY && p->client && event_add(p->timer, &soon) == 0)
		return;
	if (ret)
		pending_fail(p, "discovery failed: %s", strerror(-ret));
}

void command_discover(struct control_client *client, struct json_object *request)
{
	struct pending *p = pending_begin(client, "discover", false);

	if (!p)
		return;
	p->timer = evtimer_new(p->d->loop.base, try_discovery, p);
	if (p->timer)
		try_discovery(-1, 0, p);
	else
		pending_fail(p, "no memory");
}

void answer_findings(struct control_client *client, const struct machine *plan)
{
	const struct inbandd *d = control_daemon(client);
	struct json_object *answer, *list;
	struct findings findings;
	int ret = check_plan(plan, d->model, &findings);

	if (ret) {
		control_fail(client, "%s", strerror(-ret));
		return;
	}
	answer = json_object_new_object();
	list = json_object_new_array();
	for (uint32_t i = 0; i < findings.count; i++) {
		struct json_object *entry = json_object_new_object();
		char text[256];

		json_add_text(entry, "kind", finding_kind_name(findings.list[i].kind));
		finding_print(plan, &findings.list[i], text, sizeof(text));
		json_add_text(entry, "finding", text);
		finding_place(plan, &findings.list[i], text, sizeof(text));
		json_add_text(entry, "place", text);
		json_object_array_add(list, entry);
	}
	json_add_number(answer, "count", findings.count);
	json_add(answer, "findings", list);
	findings_free(&findings);
	control_ok(client, answer);
}

/* The plan is what the request names, or the daemon's own. */
void command_check(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct machine *plan = d->plan, *own = NULL;
	const char *name = NULL;
	char error[256];

	if (!d->model || d->discovering) {
		control_fail(client, "nothing has been discovered yet");
		return;
	}
	if (!json_get_text(request, "plan", &name)) {
		control_fail(client, "\"plan\" is to be a name or a file");
		return;
	}
	if (name && machine_load(name, 1, &own, error, sizeof(error))) {
		control_fail(client, "%s", error);
		return;
	}
	plan = own ?: plan;
	if (!plan) {
		control_fail(client, "there is no plan: name one, or set plan in inbandd.conf");
		return;
	}
	answer_findings(client, plan);
	machine_destroy(own);
}

struct device *request_device(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	const char *name = NULL;
	struct device *device;

	if (!json_get_text(request, "chip", &name) || !name) {
		control_fail(client, "which chip? by its name in the plan, nrc:ID or nic:ID");
		return NULL;
	}
	device = device_find(d, name);
	if (!device)
		control_fail(client, "%s has not been found", name);
	return device;
}

struct device *request_port(struct control_client *client, struct json_object *request,
			    unsigned *port)
{
	struct inbandd *d = control_daemon(client);
	const char *text = NULL, *colon;
	struct device *device;
	char name[64], *end;
	unsigned long number;

	if (!json_get_text(request, "port", &text) || !text || !(colon = strrchr(text, ':')) ||
	    colon - text >= (int)sizeof(name)) {
		control_fail(client, "which port? CHIP:PORT");
		return NULL;
	}
	snprintf(name, sizeof(name), "%.*s", (int)(colon - text), text);
	number = strtoul(colon + 1, &end, 10);
	device = *end || end == colon + 1 ? NULL : device_find(d, name);
	if (!device || number >= device->nports) {
		control_fail(client, "%s has not been found", text);
		return NULL;
	}
	*port = number;
	return device;
}

static void add_port(const struct inbandd *d, struct json_object *list, const struct device *device,
		     unsigned p)
{
	static const char *const states[] = {"no light", "no handshake", "up"};
	const struct model_port *port = &device->port[p];
	struct json_object *entry = json_object_new_object();
	char name[MACHINE_NAME_LEN], text[MACHINE_NAME_LEN + 16], place[MACHINE_PLACE_LEN];

	json_add_number(entry, "port", p);
	json_add_text(entry, "state", port->lost ? "lost" : states[port->state]);
	if (port->peer != MODEL_NONE) {
		snprintf(text, sizeof(text), "%s:%u", device_name(d, port->peer, name),
			 port->peer_port);
		json_add_text(entry, "to", text);
	}
	if (device_place(d, device->number, p, place)[0])
		json_add_text(entry, "place", place);
	json_object_array_add(list, entry);
}

void command_show(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct device *device = request_device(client, request);
	struct json_object *answer, *list;
	char name[MACHINE_NAME_LEN], place[MACHINE_PLACE_LEN];

	if (!device)
		return;
	answer = json_object_new_object();
	list = json_object_new_array();
	json_add_text(answer, "name", device_name(d, device->number, name));
	json_add_text(answer, "type", device->target.type == NMP_NRC ? "switch" : "node");
	json_add_number(answer, "id", device->target.id);
	json_add_number(answer, "hops", device->hops);
	if (device_place(d, device->number, -1, place)[0])
		json_add_text(answer, "place", place);
	for (unsigned p = 0; p < device->nports; p++)
		add_port(d, list, device, p);
	json_add(answer, "ports", list);
	control_ok(client, answer);
}

static struct json_object *hop_json(const struct inbandd *d, const struct trace_hop *hop)
{
	static const char *const states[] = {"off", "down", "testing", "up"};
	struct json_object *to = json_object_new_object();
	char name[MACHINE_NAME_LEN];

	json_add_text(to, "at", device_name(d, hop->device, name));
	if (hop->in_port >= 0)
		json_add_number(to, "in", hop->in_port);
	if (hop->out_port >= 0) {
		json_add_number(to, "out", hop->out_port);
		json_add_number(to, "ways", hop->ways);
		json_add_text(to, "link", states[hop->link.state & 3]);
		json_add_number(to, "lanes", hop->link.width);
		json_add_number(to, "retries", hop->link.retries);
		json_add_number(to, "errors", hop->link.errors);
	}
	return to;
}

static void traced(void *arg, int status, const struct trace *trace)
{
	struct pending *p = arg;
	struct json_object *answer, *list;

	if (status) {
		pending_fail(p, "%s", pending_why(status));
		return;
	}
	answer = json_object_new_object();
	list = json_object_new_array();
	for (unsigned i = 0; i < trace->count; i++)
		json_object_array_add(list, hop_json(p->d, &trace->hop[i]));
	json_add_bool(answer, "arrived", trace->end == TRACE_ARRIVED);
	json_add_text(answer, "end", trace_end_text(trace->end));
	json_add(answer, "path", list);
	pending_ok(p, answer);
}

/* A node's ID, or its name. */
static bool get_node(struct control_client *client, struct json_object *request, const char *key,
		     uint64_t *id)
{
	struct inbandd *d = control_daemon(client);
	const char *name = NULL;
	struct device *device;

	if (json_get_number(request, key, UINT32_MAX, id) > 0)
		return true;
	if (!json_get_text(request, key, &name) || !name) {
		control_fail(client, "from which node to which? by their IDs or names");
		return false;
	}
	device = device_find(d, name);
	if (!device || device->target.type != NMP_NIC) {
		control_fail(client, "the node %s has not been found", name);
		return false;
	}
	*id = device->target.id;
	return true;
}

void command_trace(struct control_client *client, struct json_object *request)
{
	struct pending *p;
	uint64_t from, to;
	int ret;

	if (!get_node(client, request, "from", &from) || !get_node(client, request, "to", &to))
		return;
	p = pending_begin(client, "trace", true);
	if (!p)
		return;
	ret = trace_begin(p->d->fabric, p->d->model, from, to, traced, p);
	if (ret)
		pending_fail(p, "%s",
			     ret == -ENOENT ? "one of the nodes has not been found"
					    : strerror(-ret));
	else
		network_kick(p->d);
}

static void routes_progress(void *arg, uint32_t done, uint32_t of)
{
	pending_progress(arg, done, of);
}

static void routes_loaded(void *arg, int status, const struct load_result *result)
{
	struct pending *p = arg;
	struct json_object *answer;
	char name[MACHINE_NAME_LEN];

	if (status) {
		pending_fail(p, "the load has not ended: %s", pending_why(status));
		return;
	}
	answer = json_object_new_object();
	json_add_number(answer, "number", result->number);
	json_add_number(answer, "switches", result->switches);
	json_add_number(answer, "failed", result->failed);
	if (result->device != MODEL_NONE)
		json_add_text(answer, "failed_at", device_name(p->d, result->device, name));
	json_add_number(answer, "rounds", result->rounds);
	json_add_bool(answer, "rolled_back", result->rolled_back);
	json_add(answer, "seconds", json_object_new_double(result->time / 1e12));
	pending_ok(p, answer);
}

void command_routes(struct control_client *client, struct json_object *request)
{
	struct pending *p = pending_begin(client, "routes", true);
	int ret = p ? routes_load(p->d, routes_progress, routes_loaded, p) : 0;

	if (ret)
		pending_fail(p, "%s",
			     ret == -ENOENT    ? "there is no plan: set plan in inbandd.conf"
			     : ret == -EBUSY   ? "a load is under way"
			     : ret == -ENOTSUP ? "the plan is no fat tree"
			     : ret == -ELOOP   ? "the tables would lead in a circle"
					       : strerror(-ret));
}

static void accessed(void *arg, int status, const struct facts *facts)
{
	struct pending *p = arg;
	struct json_object *answer;

	if (status) {
		pending_fail(p, "%s", pending_why(status));
		return;
	}
	answer = json_object_new_object();
	if (p->a)
		json_add_hex(answer, "value", facts->value[0], 16);
	pending_ok(p, answer);
}

static void access_register(struct control_client *client, struct json_object *request, bool write)
{
	const struct fabric_ops *ops = ((struct inbandd *)control_daemon(client))->fabric->ops;
	uint64_t address, value = 0;
	struct device *device;
	struct pending *p;
	int ret;

	if (json_get_number(request, "address", 0xffff, &address) <= 0 ||
	    (write && json_get_number(request, "value", UINT64_MAX, &value) <= 0)) {
		control_fail(client, "which register? \"address\" is to be up to 0xffff%s",
			     write ? ", \"value\" a number" : "");
		return;
	}
	device = request_device(client, request);
	p = device ? pending_begin(client, "register", true) : NULL;
	if (!p)
		return;
	p->a = !write;
	/* What a write does may not be done twice: it is sent once. */
	ret = write ? ops->register_write(p->d->fabric, &device->target, address, value, true,
					  accessed, p)
		    : ops->register_read(p->d->fabric, &device->target, address, 1, accessed, p);
	if (ret)
		pending_fail(p, "%s", strerror(-ret));
	else
		network_kick(p->d);
}

void command_read(struct control_client *client, struct json_object *request)
{
	access_register(client, request, false);
}

void command_write(struct control_client *client, struct json_object *request)
{
	access_register(client, request, true);
}

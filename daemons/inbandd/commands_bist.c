/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Self-tests of a link, or of many. The loop's thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/commands.h"
#include "inband/manage/campaign.h"

#define MOST_LISTED 1000

struct testing {
	struct pending *pending;
	bool single;
	int status; /* of a single test */
	struct json_object *answer, *list;
};

static struct json_object *ends_json(const struct bist_result *result)
{
	static const char *const states[] = {"idle", "running", "done", "stopped", "no link"};
	struct json_object *list = json_object_new_array();

	for (unsigned i = 0; i < 2; i++) {
		struct json_object *end = json_object_new_object();

		json_add_text(end, "state",
			      result->end[i].state < 5 ? states[result->end[i].state] : "unknown");
		json_add_number(end, "errors", result->end[i].errors);
		json_add_number(end, "bits", result->end[i].bits);
		json_object_array_add(list, end);
	}
	return list;
}

static const char *why_not(int status)
{
	return status == -EBUSY
		       ? "ways of the server or reports of a switch lead over that link, or it "
			 "is being tested; take another link between the two, or another server"
	       : status == -ENOLINK   ? "there is no link to another switch"
	       : status == -ETIMEDOUT ? "no answer: the test may run, or not"
				      : pending_why(status);
}

static void each(void *arg, const struct campaign_link *link, int status,
		 const struct bist_result *result)
{
	struct testing *t = arg;
	struct inbandd *d = t->pending->d;
	struct json_object *entry;
	char name[PORT_NAME_LEN];

	t->status = status;
	link_tell(d, d->model->devices[link->device], link->port);
	if (t->single && !status)
		json_add(t->answer, "ends", ends_json(result));
	if (t->single || status == -EBUSY || (!status && bist_is_good(result)) ||
	    json_object_array_length(t->list) == MOST_LISTED)
		return;
	entry = json_object_new_object();
	json_add_text(entry, "port", port_name(d, link->device, link->port, name));
	if (status)
		json_add_text(entry, "error", why_not(status));
	else
		json_add(entry, "ends", ends_json(result));
	json_object_array_add(t->list, entry);
}

static bool progress(void *arg, uint32_t done, uint32_t of)
{
	struct testing *t = arg;

	if (!t->single)
		pending_progress(t->pending, done, of);
	return t->pending->client;
}

static void done(void *arg, int status, const struct campaign_result *result)
{
	struct testing *t = arg;

	if (status || (t->single && t->status)) {
		pending_fail(t->pending, "%s", why_not(status ?: t->status));
		json_object_put(t->answer);
		json_object_put(t->list);
		free(t);
		return;
	}
	if (!t->single) {
		json_add_number(t->answer, "tested", result->tested);
		json_add_number(t->answer, "bad", result->bad);
		json_add_number(t->answer, "refused", result->refused);
		json_add_number(t->answer, "failed", result->failed);
		json_add(t->answer, "list", json_object_get(t->list));
	}
	json_add(t->answer, "seconds", json_object_new_double(result->time / 1e12));
	pending_ok(t->pending, t->answer);
	json_object_put(t->list);
	free(t);
}

/* Links between switches with an end at a device whose name begins so; each from its lower end. */
static uint32_t gather(const struct inbandd *d, const char *under, struct campaign_link *links)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < d->model->count; i++) {
		const struct device *device = d->model->devices[i];

		for (unsigned p = 0; p < device->nports; p++) {
			const struct model_port *port = &device->port[p];
			char here[MACHINE_NAME_LEN], there[MACHINE_NAME_LEN];

			if (device->target.type != NMP_NRC || port->peer == MODEL_NONE ||
			    port->lost || port->peer < i || port->state != NEIGHBOUR_UP ||
			    d->model->devices[port->peer]->target.type != NMP_NRC)
				continue;
			if (strncmp(device_name(d, i, here), under, strlen(under)) &&
			    strncmp(device_name(d, port->peer, there), under, strlen(under)))
				continue;
			if (links)
				links[count] = (struct campaign_link){i, p};
			count++;
		}
	}
	return count;
}

/* "port": CHIP:PORT, or "under": how names begin; "ms": for each end; "intensity": percent. */
void command_bist(struct control_client *client, struct json_object *request)
{
	struct inbandd *d = control_daemon(client);
	struct campaign_work work = {.each = each, .progress = progress, .done = done};
	uint64_t ms = 1000, intensity = 100;
	struct campaign_link one, *links = &one;
	const char *under = NULL;
	struct device *device;
	struct testing *t;
	uint32_t count = 1;
	unsigned port;
	int ret;

	if (json_get_number(request, "ms", 3600000, &ms) < 0 || !ms ||
	    json_get_number(request, "intensity", 100, &intensity) < 0 || !intensity ||
	    !json_get_text(request, "under", &under)) {
		control_fail(client, "for up to an hour, with 1 to 100 percent");
		return;
	}
	if (!d->model || d->discovering) {
		control_fail(client, "nothing has been discovered yet");
		return;
	}
	if (under) {
		count = gather(d, under, NULL);
		links = malloc((count + 1) * sizeof(*links));
		if (!links || !count) {
			control_fail(client, "there is no link of a switch called %s…", under);
			free(links);
			return;
		}
		gather(d, under, links);
	} else {
		device = request_port(client, request, &port);
		if (!device)
			return;
		one = (struct campaign_link){device->number, port};
	}
	t = calloc(1, sizeof(*t));
	if (t)
		t->pending = pending_begin(client, "bist", true);
	if (t && t->pending) {
		t->single = !under;
		t->answer = json_object_new_object();
		t->list = json_object_new_array();
		work.ms = ms;
		work.intensity = intensity;
		work.arg = t;
		ret = campaign_begin(d->fabric, d->model, links, count, &work);
		if (ret)
			done(t, ret, NULL);
		else
			network_kick(d);
	} else {
		free(t);
	}
	if (under)
		free(links);
}

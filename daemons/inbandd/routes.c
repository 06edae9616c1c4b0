/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Routes in the loop: loads that are asked for, and loads that follow a change of the network. The
 * loop's thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/clock.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/inbandd.h"

struct loading {
	struct inbandd *d;
	load_progress *progress;
	load_done *done;
	void *arg;
};

/*
 * A link that came back. It stays in the list after it may be used again, for as long once more: if
 * it goes and comes meanwhile, it rests for twice the time.
 */
struct resting {
	struct resting *next;
	uint32_t device;
	unsigned port;
	uint64_t until, length; /* ms */
};

#define LONGEST_REST (600 * 1000ull) /* ms */

static void progress(void *arg, uint32_t done, uint32_t of)
{
	struct loading *w = arg;

	if (w->progress)
		w->progress(w->arg, done, of);
}

static void tell_ended(struct inbandd *d, int status, const struct load_result *result)
{
	struct json_object *event = json_object_new_object();

	json_add_text(event, "work", "routes");
	json_add_number(event, "load", result->number);
	json_add_number(event, "failed", result->failed);
	json_add_bool(event, "rolled_back", result->rolled_back);
	if (status)
		json_add_text(event, "error", strerror(-status));
	events_tell(d->events, "ended", event);
}

static void loaded(void *arg, int status, const struct load_result *result)
{
	struct loading *w = arg;
	struct inbandd *d = w->d;

	d->loading = false;
	d->users--;
	if (status) {
		log_error("load %u of routes has not ended: %s", result->number, strerror(-status));
	} else {
		log_info("load %u: routes of %u switches in %.3f s of the network's time",
			 result->number, result->switches, result->time / 1e12);
		if (!result->failed)
			d->half_loaded = 0;
	}
	if (result->rolled_back)
		log_warning("load %u was taken back: a switch has not kept its tables",
			    result->number);
	if (result->failed)
		log_warning("load %u: %u switches do not have their routes", result->number,
			    result->failed);
	tell_ended(d, status, result);
	if (w->done)
		w->done(w->arg, status, result);
	free(w);
}

int routes_load(struct inbandd *d, load_progress *report, load_done *done, void *arg)
{
	struct loading *w;
	int ret;

	if (!d->fabric->ops->tables_write)
		return -EOPNOTSUPP;
	if (!d->plan)
		return -ENOENT;
	if (d->loading)
		return -EBUSY;
	if (!d->model || d->discovering)
		return -EAGAIN;
	w = malloc(sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct loading){d, report, done, arg};
	d->loading = true;
	d->users++;
	ret = load_begin(d->fabric, d->plan, d->model, &d->loaded, progress, loaded, w);
	if (ret) {
		d->loading = false;
		d->users--;
		free(w);
		return ret;
	}
	network_kick(d);
	return 0;
}

static void found(void *arg, int status, uint32_t half, uint32_t highest)
{
	struct inbandd *d = arg;

	d->users--;
	d->half_loaded = half;
	if (highest > d->loaded.number)
		d->loaded.number = highest;
	if (!half)
		return;
	log_warning("a load of routes was begun in %u switches and not ended", half);
	/* What was to be loaded follows from the plan and the network: all of it is done again. */
	if (d->plan && routes_load(d, NULL, NULL, NULL))
		log_warning("it cannot be ended now: inbandctl routes");
}

void routes_look(struct inbandd *d)
{
	if (d->loaded.routes || d->loading || !d->fabric->ops->tables_write)
		return;
	d->users++;
	if (load_look(d->fabric, d->model, found, d))
		d->users--;
	else
		network_kick(d);
}

static void on_reroute(evutil_socket_t fd, short what, void *arg)
{
	struct inbandd *d = arg;

	if (routes_load(d, NULL, NULL, NULL))
		routes_changed(d);
}

void routes_changed(struct inbandd *d)
{
	const struct timeval quiet = {.tv_sec = d->config.reroute};

	if (!d->config.reroute || !d->loaded.routes)
		return;
	if (!d->reroute)
		d->reroute = evtimer_new(d->loop.base, on_reroute, d);
	if (d->reroute)
		event_add(d->reroute, &quiet);
}

static struct model_port *port_of(const struct inbandd *d, const struct resting *r)
{
	return &d->model->devices[r->device]->port[r->port];
}

static void set_rest(struct inbandd *d, const struct resting *r, bool resting)
{
	struct model_port *port = port_of(d, r);

	port->resting = resting;
	if (port->peer != MODEL_NONE)
		d->model->devices[port->peer]->port[port->peer_port].resting = resting;
}

static void on_settle(evutil_socket_t fd, short what, void *arg)
{
	const struct timeval second = {.tv_sec = 1};
	struct inbandd *d = arg;
	struct resting **at = &d->resting;
	uint64_t now = clock_ms();
	bool changed = false;

	while (*at) {
		struct resting *r = *at;

		if (r->until <= now && port_of(d, r)->resting) {
			set_rest(d, r, false);
			changed = true;
		}
		if (r->until + r->length <= now) {
			*at = r->next;
			free(r);
		} else {
			at = &r->next;
		}
	}
	if (changed)
		routes_changed(d);
	if (d->resting)
		event_add(d->settle, &second);
}

void routes_rest(struct inbandd *d, struct device *device, unsigned port)
{
	const struct timeval second = {.tv_sec = 1};
	struct resting *r = d->resting;

	if (!d->config.settle || !d->loaded.routes)
		return;
	/* A link is known by its lower end. */
	if (device->port[port].peer < device->number) {
		const struct model_port *end = &device->port[port];

		device = d->model->devices[end->peer];
		port = end->peer_port;
	}
	while (r && (r->device != device->number || r->port != port))
		r = r->next;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!d->settle)
			d->settle = evtimer_new(d->loop.base, on_settle, d);
		if (!r || !d->settle) {
			free(r);
			return;
		}
		*r = (struct resting){.next = d->resting, .device = device->number, .port = port};
		d->resting = r;
	}
	r->length = r->length ? 2 * r->length : d->config.settle * 1000;
	if (r->length > LONGEST_REST)
		r->length = LONGEST_REST;
	r->until = clock_ms() + r->length;
	set_rest(d, r, true);
	event_add(d->settle, &second);
}

void routes_lost(struct inbandd *d, const struct device *device)
{
	uint32_t chip = d->plan ? device_chip(d, device->number) : MACHINE_NONE;

	if (chip == MACHINE_NONE || !d->loaded.unknown || d->loaded.unknown[chip])
		return;
	log_notice("a switch has lost its routes");
	d->loaded.unknown[chip] = true;
	routes_changed(d);
}

void routes_forget(struct inbandd *d)
{
	while (d->resting) {
		struct resting *next = d->resting->next;

		free(d->resting);
		d->resting = next;
	}
}

void routes_stop(struct inbandd *d)
{
	routes_forget(d);
	if (d->settle)
		event_free(d->settle);
	if (d->reroute)
		event_free(d->reroute);
	loaded_free(&d->loaded);
}

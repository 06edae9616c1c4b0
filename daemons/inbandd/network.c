/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The back end in the loop. Whatever begins an operation calls network_kick(); the loop then has
 * the back end send, and sleeps until its descriptor says that something has come in.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/inbandd.h"
#include "daemons/inbandd/monitor.h"
#include "inband/manage/dump.h"
#include "inband/manage/ib.h"
#include "inband/manage/offline.h"
#include "inband/manage/th2.h"

/* Rounds of the back end before others in the loop get their turn. */
#define ROUNDS 16

static const char *network_end(const struct inbandd *d)
{
	return d->config.network == NETWORK_IB ? "" : ": thsim has ended";
}

static void run(struct inbandd *d)
{
	int fd, armed = 0, ret = 0;

	for (unsigned i = 0; i < ROUNDS && !armed && ret >= 0; i++) {
		ret = d->fabric->ops->progress(d->fabric, false);
		if (ret >= 0)
			armed = ret = d->fabric->ops->arm(d->fabric, &fd);
	}
	if (ret < 0) {
		log_error("the network's end has gone%s", network_end(d));
		d->failed = ret;
		loop_quit(&d->loop);
	} else if (!armed) {
		network_kick(d);
	}
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct inbandd *d = arg;

	if (d->fabric->ops->check(d->fabric) < 0) {
		log_error("the network's end has gone%s", network_end(d));
		d->failed = -ECONNRESET;
		loop_quit(&d->loop);
		return;
	}
	run(d);
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
	run(arg);
}

void network_kick(struct inbandd *d)
{
	event_active(d->again, 0, 0);
}

void network_stop(struct inbandd *d)
{
	if (d->wake)
		event_free(d->wake);
	if (d->again)
		event_free(d->again);
	if (d->sweep)
		event_free(d->sweep);
	routes_stop(d);
	if (d->fabric)
		d->fabric->ops->destroy(d->fabric);
	model_destroy(d->model);
}

struct discovering {
	struct inbandd *d;
	void (*done)(void *arg, int status);
	void *arg;
	uint32_t open, unheard;
	int status;
};

static void finish(struct discovering *w)
{
	struct inbandd *d = w->d;

	d->users--;
	d->discovering = false;
	if (w->status)
		log_error("discovery failed: %s", strerror(-w->status));
	else
		log_info("%u switches, %u nodes, %u links in %.3f ms of the network's time%s",
			 d->model->switches, d->model->nodes, d->model->links,
			 d->discovered.time / 1e9, w->unheard ? "; some cannot report" : "");
	if (w->done)
		w->done(w->arg, w->status);
	if (!w->status)
		routes_look(d);
	free(w);
}

static void subscribed(void *arg, int status, const struct facts *facts)
{
	struct discovering *w = arg;

	w->unheard += !!status;
	if (!--w->open)
		finish(w);
}

static void subscribe_all(struct discovering *w)
{
	struct inbandd *d = w->d;

	w->open = 1;
	for (uint32_t i = 0; i < d->model->count && d->fabric->ops->subscribe; i++) {
		struct device *device = d->model->devices[i];

		if (device->target.type != NMP_NRC || device->state != DEVICE_KNOWN)
			continue;
		w->open++;
		if (d->fabric->ops->subscribe(d->fabric, &device->target, subscribed, w)) {
			w->open--;
			w->unheard++;
		}
	}
	if (!--w->open)
		finish(w);
}

static void tell_discovered(struct inbandd *d)
{
	struct json_object *event = json_object_new_object();

	json_add_number(event, "generation", d->generation);
	json_add_number(event, "switches", d->model->switches);
	json_add_number(event, "nodes", d->model->nodes);
	json_add_number(event, "links", d->model->links);
	events_tell(d->events, "discovered", event);
}

static void discovered(void *arg, int status, struct model *model,
		       const struct discovery_result *result)
{
	struct discovering *w = arg;
	struct inbandd *d = w->d;

	w->status = status;
	if (status) {
		finish(w);
		return;
	}
	model_destroy(d->model);
	d->model = model;
	d->generation++;
	d->discovered = *result;
	alarms_forget(d->alarms);
	routes_forget(d);
	if (d->monitor)
		monitor_forget(d->monitor);
	tell_discovered(d);
	subscribe_all(w);
}

int network_discover(struct inbandd *d, void (*done)(void *arg, int status), void *arg)
{
	struct discovering *w;
	int ret;

	if (d->users)
		return -EBUSY;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct discovering){.d = d, .done = done, .arg = arg};
	d->users++;
	d->discovering = true;
	ret = discover_begin(d->fabric, discovered, w);
	if (ret) {
		d->users--;
		d->discovering = false;
		free(w);
		return ret;
	}
	network_kick(d);
	return 0;
}

struct refreshing {
	struct inbandd *d;
	void (*done)(void *arg);
	void *arg;
	uint32_t open;
};

struct refreshed {
	struct refreshing *all;
	struct device *device;
};

static void refresh_over(struct refreshing *w)
{
	w->d->users--;
	if (w->done)
		w->done(w->arg);
	free(w);
}

static void have_neighbours(void *arg, int status, const struct facts *facts)
{
	struct refreshed *r = arg;
	struct refreshing *w = r->all;

	for (unsigned p = 0; !status && p < facts->ports && p < r->device->nports; p++)
		alarms_link(w->d, r->device, p, facts->neighbours[p].state);
	free(r);
	if (!--w->open)
		refresh_over(w);
}

/* After a reset its software's register is zero, and its tables are what its EEPROM has. */
static void have_mark(void *arg, int status, const struct facts *facts)
{
	struct refreshed *r = arg;
	struct refreshing *w = r->all;

	if (!status && !facts->value[0])
		routes_lost(w->d, r->device);
	free(r);
	if (!--w->open)
		refresh_over(w);
}

static void ask_for_mark(struct refreshing *w, struct device *device)
{
	struct refreshed *r = malloc(sizeof(*r));

	if (!r)
		return;
	*r = (struct refreshed){w, device};
	w->open++;
	if (w->d->fabric->ops->register_read(w->d->fabric, &device->target, REG_SCRATCH0, 1,
					     have_mark, r)) {
		w->open--;
		free(r);
	}
}

static void subscribed_again(void *arg, int status, const struct facts *facts)
{
	struct refreshing *w = arg;

	if (!--w->open)
		refresh_over(w);
}

static void refresh_one(struct refreshing *w, struct device *device, bool moved)
{
	const struct fabric_ops *ops = w->d->fabric->ops;
	struct refreshed *r;

	device->unheard = false;
	if (moved && ops->subscribe) {
		w->open++;
		if (ops->subscribe(w->d->fabric, &device->target, subscribed_again, w))
			w->open--;
	}
	if (moved && w->d->loaded.routes && ops->tables_write)
		ask_for_mark(w, device);
	r = malloc(sizeof(*r));
	if (!r)
		return;
	*r = (struct refreshed){w, device};
	w->open++;
	if (ops->neighbours(w->d->fabric, &device->target, have_neighbours, r)) {
		w->open--;
		free(r);
	}
}

int network_refresh(struct inbandd *d, bool all, void (*done)(void *arg), void *arg)
{
	struct refreshing *w;
	bool *changed;

	if (!d->model || d->discovering)
		return -EAGAIN;
	w = calloc(1, sizeof(*w));
	changed = calloc(d->model->count + 1, sizeof(*changed));
	if (!w || !changed || model_reroute(d->model, changed)) {
		free(w);
		free(changed);
		return -ENOMEM;
	}
	*w = (struct refreshing){.d = d, .done = done, .arg = arg, .open = 1};
	d->users++;
	for (uint32_t i = 0; i < d->model->count; i++) {
		struct device *device = d->model->devices[i];

		if (device->target.type == NMP_NRC && device->state == DEVICE_KNOWN &&
		    (all || changed[i] || device->unheard))
			refresh_one(w, device, changed[i] || device->unheard);
	}
	free(changed);
	if (!--w->open)
		refresh_over(w);
	else
		network_kick(d);
	return 0;
}

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct inbandd *d = arg;
	const struct timeval pause = {.tv_sec = d->config.sweep ?: 1};

	if (d->config.sweep)
		network_refresh(d, true, NULL, NULL);
	event_add(d->sweep, &pause);
}

static int open_dump(struct inbandd *d)
{
	FILE *file = fopen(d->config.load, "re");
	struct model *model = NULL;
	char error[256];
	int ret;

	if (!file) {
		log_error("load %s: %s", d->config.load, strerror(errno));
		return -errno;
	}
	ret = dump_read(file, &model, error, sizeof(error));
	fclose(file);
	if (ret)
		log_error("load %s: %s", d->config.load, error);
	return ret ?: offline_create(model, &d->fabric);
}

static int open_th2(struct inbandd *d)
{
	struct th2_options options;
	int ret;

	th2_options_init(&options);
	options.path = d->config.thsim[0] ? d->config.thsim : NULL;
	options.nic = d->config.nic;
	options.requester.window = d->config.window;
	options.requester.slow_window = d->config.slow_window;
	options.requester.per_chip = d->config.per_chip;
	options.requester.budget = d->config.budget;
	options.requester.timeout = d->config.timeout;
	options.requester.tries = d->config.tries;
	ret = th2_create(&options, &d->fabric);
	if (ret)
		log_error("no network: %s",
			  ret == -ENOTCONN ? "start thsim, or set thsim to its socket and nic to "
					     "one of its management NICs"
					   : strerror(-ret));
	return ret;
}

static int open_ib(struct inbandd *d)
{
	struct ib_options options;
	int ret;

	ib_options_init(&options);
	options.port = d->config.ib_port[0] ? d->config.ib_port : NULL;
	options.window = d->config.window;
	options.timeout = d->config.timeout;
	options.tries = d->config.tries;
	ret = ib_create(&options, &d->fabric);
	if (ret)
		log_error("no network: %s",
			  ret == -ENODEV   ? "there is no InfiniBand port that may be used: set "
					     "ib_port to its name, mlx5_0:1"
			  : ret == -EACCES ? "the port takes no management datagrams of this user"
					   : strerror(-ret));
	return ret;
}

/* For requests that are sent again: the link that lost them may be on the device's own way. */
static bool other_way(void *arg, const struct target *t, struct nmp_route *out,
		      struct nmp_route *back)
{
	const struct inbandd *d = arg;
	const struct device *device =
		d->model && !d->discovering ? model_find(d->model, t->type, t->id) : NULL;

	return device && model_other_way(d->model, device, out, back);
}

int network_start(struct inbandd *d)
{
	const struct timeval pause = {.tv_sec = d->config.sweep ?: 1};
	int fd, ret = d->config.load[0]			? open_dump(d)
		      : d->config.network == NETWORK_IB ? open_ib(d)
							: open_th2(d);

	if (ret)
		return ret;
	d->fabric->report = alarms_report;
	d->fabric->report_arg = d;
	d->fabric->other_way = other_way;
	d->fabric->other_arg = d;
	d->fabric->ops->arm(d->fabric, &fd);
	d->wake = event_new(d->loop.base, fd, EV_READ | EV_PERSIST, on_wake, d);
	d->again = event_new(d->loop.base, -1, 0, on_again, d);
	d->sweep = evtimer_new(d->loop.base, on_sweep, d);
	if (!d->wake || !d->again || !d->sweep || event_add(d->wake, NULL) ||
	    event_add(d->sweep, &pause))
		return -ENOMEM;
	return 0;
}

const char *network_counter(const struct inbandd *d, unsigned counter)
{
	const char *const *names = d->fabric->ops->counter_names;

	return names ? names[counter] : scan_counter_name(counter);
}

/* One device has said that something is not as it was. */
void network_look(struct inbandd *d, struct device *device)
{
	struct refreshing *w;

	if (d->discovering || device->target.type != NMP_NRC)
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		return;
	*w = (struct refreshing){.d = d, .open = 1};
	d->users++;
	refresh_one(w, device, false);
	if (!--w->open)
		refresh_over(w);
	else
		network_kick(d);
}

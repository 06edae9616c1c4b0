/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See alarms.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/clock.h"
#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/alarms.h"
#include "daemons/inbandd/events.h"
#include "daemons/inbandd/store.h"
#include "inband/registers.h"

#define KEEP 10000 /* alarms; older ones that are over are dropped */

struct touched {
	uint32_t device;
	uint8_t port;
};

struct alarms {
	struct inbandd *d;
	struct alarm *list; /* the latest first */
	unsigned count;
	uint32_t next_id;
	struct event *timer;
	struct touched *touched; /* ends of links that have come or gone */
	unsigned ntouched, size;
	bool asking; /* switches, about links that may be lost, too */
};

const char *severity_name(unsigned severity)
{
	static const char *const names[SEVERITIES] = {"warning", "minor", "major", "critical"};

	return names[severity];
}

static const char *const kind_names[ALARM_KINDS] = {"counters", "link", "chip", "switch", "reset"};

static const char *cause_of(const struct alarm *a)
{
	switch (a->kind) {
	case ALARM_COUNTERS: return "retries, errors or dropped packets are at a threshold";
	case ALARM_CHIP: return "all links of the chip are down: it is dead or has no power";
	case ALARM_SWITCH: return "all links of the switch are down: it is dead or has no power";
	case ALARM_RESET: return "the chip has been reset";
	default:
		return a->light == 2   ? "the handshake fails at both ends"
		       : a->light == 1 ? "no light in one direction: a transmitter or a fibre"
				       : "no light at either end: the cable is cut or pulled out";
	}
}

/* S.root.3.0 is of switch S.root.3. */
static const char *switch_name(const struct inbandd *d, uint32_t device,
			       char name[MACHINE_NAME_LEN])
{
	const char *of = device_name(d, device, name);
	const char *dot = strrchr(of, '.');

	if (of != name)
		snprintf(name, MACHINE_NAME_LEN, "%s", of);
	if (dot)
		name[dot - of] = 0;
	return name;
}

static const char *name_of(const struct inbandd *d, const struct alarm *a,
			   char name[MACHINE_NAME_LEN])
{
	return a->kind == ALARM_SWITCH ? switch_name(d, a->device, name)
				       : device_name(d, a->device, name);
}

static void add_end(const struct inbandd *d, struct json_object *to, const char *key,
		    const char *place_key, uint32_t device, int port)
{
	char name[MACHINE_NAME_LEN], place[MACHINE_PLACE_LEN], text[MACHINE_NAME_LEN + 16];

	if (port < 0)
		snprintf(text, sizeof(text), "%s", device_name(d, device, name));
	else
		snprintf(text, sizeof(text), "%s:%d", device_name(d, device, name), port);
	json_add_text(to, key, text);
	if (device_place(d, device, port, place)[0])
		json_add_text(to, place_key, place);
}

struct json_object *alarm_json(const struct inbandd *d, const struct alarm *a)
{
	struct json_object *to = json_object_new_object();
	char name[MACHINE_NAME_LEN];

	json_add_number(to, "id", a->id);
	json_add_text(to, "kind", kind_names[a->kind]);
	json_add_text(to, "severity", severity_name(a->severity));
	json_add_bool(to, "active", a->active);
	json_add_bool(to, "acknowledged", a->acknowledged);
	json_add_number(to, "count", a->count);
	json_add_number(to, "first_ms", a->first);
	json_add_number(to, "last_ms", a->last);
	add_end(d, to, "at", "place", a->device, a->kind <= ALARM_LINK ? (int)a->port : -1);
	if (a->kind == ALARM_SWITCH)
		json_add_text(to, "at", switch_name(d, a->device, name));
	if (a->device2 != MODEL_NONE)
		add_end(d, to, "to", "place2", a->device2, a->port2);
	json_add_text(to, "cause", cause_of(a));
	return to;
}

/* What an acknowledgement is kept by: it holds for the fault, also when inbandd begins anew. */
static const char *place_of(const struct inbandd *d, const struct alarm *a,
			    char place[PORT_NAME_LEN])
{
	char name[MACHINE_NAME_LEN];

	if (a->kind <= ALARM_LINK)
		return port_name(d, a->device, a->port, place);
	snprintf(place, PORT_NAME_LEN, "%s", name_of(d, a, name));
	return place;
}

static void tell(struct alarms *s, struct alarm *a, const char *event)
{
	char place[PORT_NAME_LEN];
	struct json_object *to;

	if (!a->active)
		store_forget(s->d->store, kind_names[a->kind], place_of(s->d, a, place));
	else if (store_acknowledged(s->d->store, kind_names[a->kind], place_of(s->d, a, place)))
		a->acknowledged = true;
	to = alarm_json(s->d, a);
	char name[MACHINE_NAME_LEN];

	log_notice("alarm %u %s: %s %s, %s", a->id, event, kind_names[a->kind],
		   name_of(s->d, a, name), cause_of(a));
	events_tell(s->d->events, event, to);
}

static void drop_old(struct alarms *s)
{
	struct alarm **at = &s->list, **last = NULL;

	if (s->count <= KEEP)
		return;
	for (; *at; at = &(*at)->next)
		if (!(*at)->active)
			last = at;
	if (last) {
		struct alarm *old = *last;

		*last = old->next;
		free(old);
		s->count--;
	}
}

static struct alarm *find(struct alarms *s, enum alarm_kind kind, uint32_t device, uint32_t port)
{
	for (struct alarm *a = s->list; a; a = a->next)
		if (a->active && a->kind == kind && a->device == device && a->port == port)
			return a;
	return NULL;
}

static struct alarm *raise_alarm(struct alarms *s, enum alarm_kind kind, enum severity severity,
				 uint32_t device, uint32_t port)
{
	struct alarm *a = find(s, kind, device, port);

	if (a) {
		a->last = real_ms();
		/* Once more before it was cleared: the alarm that stands counts it. */
		if (a->gone) {
			a->gone = 0;
			a->count++;
		}
		return NULL;
	}
	a = calloc(1, sizeof(*a));
	if (!a) {
		log_error("no memory for an alarm");
		return NULL;
	}
	*a = (struct alarm){.next = s->list,
			    .id = ++s->next_id,
			    .kind = kind,
			    .severity = severity,
			    .active = true,
			    .device = device,
			    .port = port,
			    .device2 = MODEL_NONE,
			    .count = 1,
			    .first = real_ms()};
	a->last = a->first;
	s->list = a;
	s->count++;
	drop_old(s);
	return a;
}

/* Of a switch of several chips the plan knows which belong together. */
static bool same_switch(const struct inbandd *d, uint32_t a, uint32_t b)
{
	const struct target *ta = &d->model->devices[a]->target,
			    *tb = &d->model->devices[b]->target;
	const struct machine_chip *ca, *cb;
	uint32_t i, j;

	if (a == b)
		return true;
	if (!d->plan || ta->type != NMP_NRC || tb->type != NMP_NRC)
		return false;
	i = machine_find(d->plan, ta->type, ta->id);
	j = machine_find(d->plan, tb->type, tb->id);
	if (i == MACHINE_NONE || j == MACHINE_NONE)
		return false;
	ca = &d->plan->chips[i];
	cb = &d->plan->chips[j];
	return ca->row != ROW_NONE && ca->row == cb->row && ca->cabinet == cb->cabinet &&
	       ca->frame == cb->frame && ca->board == cb->board;
}

/* Links of a device that lead to others, and how many of them are lost; outside: of its switch,
 * then. */
static void count_links(const struct inbandd *d, uint32_t device, bool outside, unsigned *links,
			unsigned *lost)
{
	const struct device *dev = d->model->devices[device];

	for (unsigned p = 0; p < dev->nports; p++) {
		const struct model_port *port = &dev->port[p];

		if (port->peer == MODEL_NONE || (outside && same_switch(d, device, port->peer)))
			continue;
		++*links;
		*lost += port->lost;
	}
}

static bool chip_gone(const struct inbandd *d, uint32_t device)
{
	unsigned links = 0, lost = 0;

	count_links(d, device, false, &links, &lost);
	return links > 1 && lost == links;
}

/* The first chip of the switch, if all links out of the switch are lost; else MODEL_NONE. */
static uint32_t switch_gone(const struct inbandd *d, uint32_t device)
{
	unsigned links = 0, lost = 0, chips = 0;
	uint32_t first = MODEL_NONE;

	if (!d->plan || d->model->devices[device]->target.type != NMP_NRC)
		return MODEL_NONE;
	count_links(d, device, true, &links, &lost);
	if (lost != links)
		return MODEL_NONE;
	links = lost = 0;
	for (uint32_t i = 0; i < d->model->count; i++) {
		if (d->model->devices[i]->target.type != NMP_NRC || !same_switch(d, device, i))
			continue;
		if (first == MODEL_NONE)
			first = i;
		chips++;
		count_links(d, i, true, &links, &lost);
		if (lost != links)
			return MODEL_NONE;
	}
	return chips > 1 && links > 1 ? first : MODEL_NONE;
}

/* What a greater alarm explains is over. */
static void absorb(struct alarms *s, const struct alarm *by)
{
	struct inbandd *d = s->d;

	for (struct alarm *a = s->list; a; a = a->next) {
		bool inside;

		if (!a->active || a == by || a->kind >= by->kind)
			continue;
		if (by->kind == ALARM_SWITCH)
			inside = same_switch(d, by->device, a->device) ||
				 (a->device2 != MODEL_NONE &&
				  same_switch(d, by->device, a->device2));
		else
			inside = a->device == by->device || a->device2 == by->device;
		if (inside) {
			a->active = false;
			tell(s, a, "explained");
		}
	}
}

static bool explained(struct alarms *s, uint32_t device)
{
	struct inbandd *d = s->d;
	uint32_t first = switch_gone(d, device);
	struct alarm *a = NULL;

	if (first != MODEL_NONE)
		a = raise_alarm(s, ALARM_SWITCH, SEVERITY_CRITICAL, first, 0);
	else if (chip_gone(d, device))
		a = raise_alarm(s, ALARM_CHIP, SEVERITY_CRITICAL, device, 0);
	else
		return false;
	if (a) {
		tell(s, a, "raised");
		absorb(s, a);
	}
	return true;
}

static void judge_link(struct alarms *s, uint32_t device, unsigned p)
{
	struct model_port *port = &s->d->model->devices[device]->port[p];
	struct alarm *a;

	if (!port->lost || port->peer == MODEL_NONE)
		return;
	/* A link with two ends is named by the lower. */
	if (port->peer < device) {
		judge_link(s, port->peer, port->peer_port);
		return;
	}
	if (explained(s, device) || explained(s, port->peer))
		return;
	a = raise_alarm(s, ALARM_LINK, SEVERITY_MAJOR, device, p);
	if (!a)
		return;
	a->device2 = port->peer;
	a->port2 = port->peer_port;
	a->light =
		(port->state == NEIGHBOUR_LIGHT) +
		(s->d->model->devices[port->peer]->port[port->peer_port].state == NEIGHBOUR_LIGHT);
	tell(s, a, "raised");
}

static bool still_there(struct alarms *s, const struct alarm *a)
{
	struct inbandd *d = s->d;

	switch (a->kind) {
	case ALARM_COUNTERS: return d->model->devices[a->device]->port[a->port].noisy;
	case ALARM_LINK: return d->model->devices[a->device]->port[a->port].lost;
	case ALARM_CHIP: return chip_gone(d, a->device) && switch_gone(d, a->device) == MODEL_NONE;
	case ALARM_SWITCH: return switch_gone(d, a->device) != MODEL_NONE;
	default: return false;
	}
}

/* Links of a chip or switch that is back, but for those that are still lost. */
static void judge_again(struct alarms *s, const struct alarm *a)
{
	for (uint32_t i = 0; i < s->d->model->count; i++)
		if (i == a->device || (a->kind == ALARM_SWITCH && same_switch(s->d, a->device, i)))
			for (unsigned p = 0; p < s->d->model->devices[i]->nports; p++)
				judge_link(s, i, p);
}

/* Clears what has been gone long enough; how long until the next one is, 0: there is none. */
static uint64_t clear_gone(struct alarms *s)
{
	uint64_t now = clock_ms(), wait = 0;

	for (struct alarm *a = s->list; a; a = a->next) {
		uint64_t left;

		if (!a->active)
			continue;
		if (still_there(s, a)) {
			a->gone = 0;
			continue;
		}
		if (!a->gone)
			a->gone = now;
		left = a->gone + s->d->config.hold_down;
		if (left <= now) {
			a->active = false;
			a->last = real_ms();
			tell(s, a, "cleared");
			judge_again(s, a);
		} else if (!wait || left - now < wait) {
			wait = left - now;
		}
	}
	return wait;
}

static void set_timer(struct alarms *s, uint64_t ms)
{
	const struct timeval delay = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	event_add(s->timer, &delay);
}

static void judge_all(void *arg)
{
	struct alarms *s = arg;
	uint64_t wait;

	s->asking = false;
	if (s->ntouched)
		routes_changed(s->d);
	for (unsigned i = 0; i < s->ntouched; i++)
		judge_link(s, s->touched[i].device, s->touched[i].port);
	s->ntouched = 0;
	wait = clear_gone(s);
	if (wait)
		set_timer(s, wait);
}

void alarms_noisy(struct inbandd *d, uint32_t device, unsigned port)
{
	const struct model_port *p = &d->model->devices[device]->port[port];
	struct alarm *a;

	if (p->lost)
		return;
	a = raise_alarm(d->alarms, ALARM_COUNTERS, SEVERITY_MINOR, device, port);
	if (!a)
		return;
	a->device2 = p->peer;
	a->port2 = p->peer_port;
	tell(d->alarms, a, "raised");
}

void alarms_look(struct inbandd *d)
{
	uint64_t wait = clear_gone(d->alarms);

	if (wait && !d->alarms->ntouched)
		set_timer(d->alarms, wait);
}

/*
 * A report that would have had to cross what it reports is lost. So before links that have gone are
 * judged, the switches whose way was by one of them are asked.
 */
static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct alarms *s = arg;

	if (!s->d->model || s->asking)
		return;
	s->asking = s->ntouched;
	if (!s->ntouched || network_refresh(s->d, false, judge_all, s))
		judge_all(s);
}

static void touch(struct alarms *s, uint32_t device, unsigned port)
{
	if (s->ntouched == s->size) {
		unsigned size = s->size ? 2 * s->size : 64;
		struct touched *more = realloc(s->touched, size * sizeof(*more));

		if (!more) {
			log_error("no memory for a report");
			return;
		}
		s->touched = more;
		s->size = size;
	}
	if (!s->ntouched && !s->asking)
		set_timer(s, s->d->config.hold);
	s->touched[s->ntouched++] = (struct touched){device, port};
}

void link_tell(struct inbandd *d, const struct device *device, unsigned p)
{
	const struct model_port *port = &device->port[p];
	struct json_object *event = json_object_new_object();
	char name[PORT_NAME_LEN];

	json_add_text(event, "at", port_name(d, device->number, p, name));
	if (port->peer != MODEL_NONE)
		json_add_text(event, "to", port_name(d, port->peer, port->peer_port, name));
	json_add_text(event, "state", port->lost ? "lost" : port->testing ? "testing" : "up");
	events_tell(d->events, "link", event);
}

static void change_link(struct inbandd *d, struct device *device, unsigned p, unsigned state)
{
	struct model_port *port = &device->port[p], *peer;
	bool lost = port->lost;

	port->state = state;
	port->lost = state != NEIGHBOUR_UP;
	if (port->peer != MODEL_NONE) {
		peer = &d->model->devices[port->peer]->port[port->peer_port];
		peer->lost = port->lost;
		if (!port->lost)
			peer->state = NEIGHBOUR_UP;
	}
	if (!port->lost) {
		device->unheard = true;
		if (port->peer != MODEL_NONE)
			d->model->devices[port->peer]->unheard = true;
	}
	if (lost != port->lost)
		link_tell(d, device, p);
	if (lost && !port->lost)
		routes_rest(d, device, p);
	touch(d->alarms, device->number, p);
}

void alarms_link(struct inbandd *d, struct device *device, unsigned p, unsigned state)
{
	struct model_port *port = &device->port[p];

	/* Ports without a cable have never had a link to lose. */
	if (port->peer != MODEL_NONE && port->lost != (state != NEIGHBOUR_UP))
		change_link(d, device, p, state);
}

void alarms_report(void *arg, const struct fabric_report *report)
{
	struct inbandd *d = arg;
	struct alarms *s = d->alarms;
	struct device *device = d->model ? model_find(d->model, report->type, report->id) : NULL;
	struct alarm *a;

	if (s && report->look && report->id == FABRIC_NO_ID)
		network_refresh(d, true, NULL, NULL);
	if (!device || !s)
		return;
	if (report->look) {
		network_look(d, device);
		return;
	}
	if (report->fault == FAULT_RESET) {
		a = raise_alarm(s, ALARM_RESET, SEVERITY_WARNING, device->number, 0);
		if (a)
			tell(s, a, "raised");
		return;
	}
	if (report->port >= device->nports)
		return;
	if (report->fault == FAULT_LINK_DOWN)
		change_link(d, device, report->port,
			    report->value ? NEIGHBOUR_LIGHT : NEIGHBOUR_NONE);
	else if (report->fault == FAULT_LINK_UP)
		change_link(d, device, report->port, NEIGHBOUR_UP);
}

int alarms_start(struct inbandd *d, struct alarms **alarms)
{
	struct alarms *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->d = d;
	s->timer = evtimer_new(d->loop.base, on_timer, s);
	if (!s->timer) {
		free(s);
		return -ENOMEM;
	}
	*alarms = s;
	return 0;
}

void alarms_forget(struct alarms *s)
{
	while (s->list) {
		struct alarm *next = s->list->next;

		free(s->list);
		s->list = next;
	}
	s->count = s->ntouched = 0;
	event_del(s->timer);
}

void alarms_stop(struct alarms *s)
{
	if (!s)
		return;
	alarms_forget(s);
	event_free(s->timer);
	free(s->touched);
	free(s);
}

const struct alarm *alarms_first(const struct alarms *s)
{
	return s->list;
}

int alarms_acknowledge(struct alarms *s, uint32_t id, const char *who)
{
	char place[PORT_NAME_LEN];

	for (struct alarm *a = s->list; a; a = a->next)
		if (a->id == id) {
			a->acknowledged = true;
			store_acknowledge(s->d->store, kind_names[a->kind],
					  place_of(s->d, a, place), who);
			tell(s, a, "acknowledged");
			return 0;
		}
	return -ENOENT;
}

void alarms_count(const struct alarms *s, unsigned counts[SEVERITIES])
{
	memset(counts, 0, SEVERITIES * sizeof(*counts));
	for (const struct alarm *a = s->list; a; a = a->next)
		counts[a->severity] += a->active;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Compares port by port, in the plan's numbers: seen[p] is the port of the plan that port p of the
 * plan was found to lead to. See check.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/check.h"

/* In seen[], beside ports of the plan. */
#define SEEN_NOTHING  MACHINE_NONE	 /* no light */
#define SEEN_LIGHT    (MACHINE_NONE - 1) /* no handshake */
#define SEEN_UNKNOWN  (MACHINE_NONE - 2) /* this end could not be asked */
#define SEEN_STRANGER (MACHINE_NONE - 3) /* a chip that is not in the plan, or has no ID */

struct checker {
	const struct machine *plan;
	const struct model *model;
	struct findings *findings;
	uint32_t *seen;
	bool *reached; /* devices of the model that a way still leads to */
	bool *gone;    /* chips of the plan that nobody sees */
	bool *handled; /* ports whose difference has been named */
	int status;
};

static struct finding *add(struct checker *c, enum finding_kind kind, uint32_t port)
{
	struct findings *f = c->findings;
	const struct machine *plan = c->plan;

	if (f->count == f->size) {
		uint32_t size = f->size ? 2 * f->size : 64;
		struct finding *list = realloc(f->list, size * sizeof(*list));

		if (!list) {
			c->status = -ENOMEM;
			return NULL;
		}
		f->list = list;
		f->size = size;
	}
	f->list[f->count] = (struct finding){
		.kind = kind, .chip = MACHINE_NONE, .chip2 = MACHINE_NONE, .port = -1, .port2 = -1};
	if (port != MACHINE_NONE) {
		f->list[f->count].chip = plan->ports[port].chip;
		f->list[f->count].port = port - plan->chips[plan->ports[port].chip].first_port;
	}
	return &f->list[f->count++];
}

static void add_pair(struct checker *c, enum finding_kind kind, uint32_t port, uint32_t port2)
{
	struct finding *f = add(c, kind, port);

	if (!f || port2 >= SEEN_STRANGER)
		return;
	f->chip2 = c->plan->ports[port2].chip;
	f->port2 = port2 - c->plan->chips[f->chip2].first_port;
}

/* The plan's port for a port of a device, or SEEN_STRANGER. */
static uint32_t plan_port(const struct checker *c, const struct device *d, unsigned port)
{
	uint32_t chip = d->target.id < NMP_NO_ID
				? machine_find(c->plan, d->target.type, d->target.id)
				: MACHINE_NONE;

	return chip != MACHINE_NONE && port < c->plan->chips[chip].ports
		       ? machine_port_of(c->plan, chip, port)
		       : SEEN_STRANGER;
}

static void look(struct checker *c, const struct device *d)
{
	for (unsigned p = 0; p < d->nports; p++) {
		const struct model_port *port = &d->port[p];
		uint32_t at = plan_port(c, d, p), to;

		if (at == SEEN_STRANGER)
			continue;
		/* An end that has not reported yet still says that it is up. */
		if (port->state == NEIGHBOUR_NONE || (port->lost && port->state == NEIGHBOUR_UP))
			to = SEEN_NOTHING;
		else if (port->state == NEIGHBOUR_LIGHT)
			to = SEEN_LIGHT;
		else if (port->peer == MODEL_NONE)
			to = SEEN_STRANGER;
		else
			to = plan_port(c, c->model->devices[port->peer], port->peer_port);
		c->seen[at] = to;
		/* An end node, or a switch that does not answer, is seen from here alone. */
		if (to < SEEN_STRANGER && c->seen[to] == SEEN_UNKNOWN)
			c->seen[to] = at;
	}
}

/* A switch that has died since is in the model still, with its links as they were. */
static bool is_seen(const struct checker *c, const struct machine_chip *chip)
{
	const struct device *d = model_find(c->model, chip->type, chip->id);

	return d && c->reached[d->number];
}

static void look_at_chips(struct checker *c)
{
	const struct machine *plan = c->plan;

	for (uint32_t i = 0; i < c->model->count; i++) {
		const struct device *d = c->model->devices[i];
		struct finding *f;

		if (!c->reached[i])
			continue;
		if (plan_port(c, d, 0) == SEEN_STRANGER) {
			f = add(c, FINDING_UNEXPECTED, MACHINE_NONE);
			if (f) {
				f->id = d->target.id;
				f->type = d->target.type;
			}
		} else if (d->state == DEVICE_SILENT) {
			f = add(c, FINDING_SILENT, plan_port(c, d, 0));
			if (f)
				f->port = -1;
		}
	}
	for (uint32_t i = 0; i < plan->chip_count; i++) {
		const struct machine_chip *chip = &plan->chips[i];
		bool cabled = false;
		unsigned peer_port;
		struct finding *f;
		uint32_t peer;

		if (is_seen(c, chip))
			continue;
		for (unsigned p = 0; p < chip->ports; p++)
			cabled |= plan->ports[chip->first_port + p].peer != MACHINE_NONE;
		/* Not the other servers' own, which may have no power; nor nodes behind a switch
		 * that is gone. */
		if (!cabled || i >= plan->chip_count - plan->servers)
			continue;
		c->gone[i] = true;
		peer = chip->ports == 1 ? machine_peer(plan, i, 0, &peer_port) : MACHINE_NONE;
		if (peer != MACHINE_NONE && c->gone[peer])
			continue;
		f = add(c, FINDING_DEAD, chip->first_port);
		if (f)
			f->port = -1;
	}
}

/* Both cables of an exchange: where one leads is where the other should lead. */
static bool swapped(struct checker *c, uint32_t a)
{
	const struct machine_port *ports = c->plan->ports;
	uint32_t b = ports[a].peer, to = c->seen[a], other;

	if (to >= SEEN_STRANGER || ports[to].peer == MACHINE_NONE)
		return false;
	other = ports[to].peer;
	if (other == a || c->seen[other] != b || c->seen[b] != other || c->handled[other])
		return false;
	add_pair(c, FINDING_SWAP, a, other);
	c->handled[a] = c->handled[b] = c->handled[other] = c->handled[to] = true;
	return true;
}

static bool end_gone(const struct checker *c, uint32_t port)
{
	return c->gone[c->plan->ports[port].chip];
}

static bool no_light(uint32_t seen)
{
	return seen == SEEN_NOTHING || seen == SEEN_UNKNOWN;
}

/* A cable of the plan; a is the lower port. */
static void look_at_cable(struct checker *c, uint32_t a)
{
	uint32_t b = c->plan->ports[a].peer;

	if (c->handled[a] || end_gone(c, a) || end_gone(c, b) ||
	    (c->seen[a] == b && c->seen[b] == a) ||
	    (c->seen[a] == SEEN_UNKNOWN && c->seen[b] == SEEN_UNKNOWN))
		return;
	if (swapped(c, a))
		return;
	c->handled[a] = c->handled[b] = true;
	if (c->seen[a] == SEEN_STRANGER || c->seen[b] == SEEN_STRANGER)
		add_pair(c, FINDING_NAMELESS, c->seen[a] == SEEN_STRANGER ? a : b, MACHINE_NONE);
	else if (no_light(c->seen[a]) && no_light(c->seen[b]))
		add(c, FINDING_CUT, a);
	else if (c->seen[a] >= SEEN_STRANGER && c->seen[b] >= SEEN_STRANGER)
		add(c, FINDING_DARK, a);
	else if (c->seen[a] < SEEN_STRANGER)
		add_pair(c, FINDING_WRONG, a, c->seen[a]);
	else
		add_pair(c, FINDING_WRONG, b, c->seen[b]);
}

static void look_at_cables(struct checker *c)
{
	const struct machine *plan = c->plan;

	for (uint32_t i = 0; i < plan->port_count; i++)
		if (plan->ports[i].peer != MACHINE_NONE && plan->ports[i].peer > i)
			look_at_cable(c, i);
	/* Cables where the plan has none, that no cable of the plan has explained. */
	for (uint32_t i = 0; i < plan->port_count; i++) {
		uint32_t to = c->seen[i];

		if (plan->ports[i].peer != MACHINE_NONE || to == SEEN_NOTHING ||
		    to == SEEN_UNKNOWN || c->handled[i])
			continue;
		if (to < SEEN_STRANGER && c->handled[to])
			continue;
		if (to < SEEN_STRANGER)
			c->handled[to] = true;
		add_pair(c, FINDING_EXTRA, i, to);
	}
}

int check_plan(const struct machine *plan, const struct model *model, struct findings *findings)
{
	struct checker c = {.plan = plan, .model = model, .findings = findings};

	memset(findings, 0, sizeof(*findings));
	c.seen = malloc((plan->port_count + 1) * sizeof(*c.seen));
	c.gone = calloc(plan->chip_count + 1, sizeof(*c.gone));
	c.handled = calloc(plan->port_count + 1, sizeof(*c.handled));
	c.reached = calloc(model->count + 1, sizeof(*c.reached));
	if (!c.seen || !c.gone || !c.handled || !c.reached || model_reached(model, c.reached))
		c.status = -ENOMEM;
	for (uint32_t i = 0; !c.status && i < plan->port_count; i++)
		c.seen[i] = SEEN_UNKNOWN;
	for (uint32_t i = 0; !c.status && i < model->count; i++)
		if (model->devices[i]->state == DEVICE_KNOWN && c.reached[i])
			look(&c, model->devices[i]);
	if (!c.status) {
		look_at_chips(&c);
		look_at_cables(&c);
	}
	free(c.seen);
	free(c.gone);
	free(c.handled);
	free(c.reached);
	if (c.status)
		findings_free(findings);
	return c.status;
}

void findings_free(struct findings *f)
{
	free(f->list);
	memset(f, 0, sizeof(*f));
}

const char *finding_kind_name(enum finding_kind kind)
{
	static const char *const names[FINDINGS] = {"swap",	"wrong",      "cut",
						    "dark",	"dead",	      "silent",
						    "nameless", "unexpected", "extra"};

	return names[kind];
}

static size_t print_end(const struct machine *plan, uint32_t chip, int port, char *text,
			size_t length)
{
	char name[MACHINE_NAME_LEN];
	int n;

	if (chip == MACHINE_NONE)
		return 0;
	n = snprintf(text, length, " %s", machine_chip_name(plan, chip, name));
	if (port >= 0 && (size_t)n < length)
		n += snprintf(text + n, length - n, ":%d", port);
	return (size_t)n < length ? (size_t)n : length;
}

void finding_print(const struct machine *plan, const struct finding *f, char *text, size_t length)
{
	size_t n = snprintf(text, length, "%s", finding_kind_name(f->kind));

	if (f->kind == FINDING_UNEXPECTED) {
		snprintf(text + n, length - n, " %s:%lu", f->type == NMP_NRC ? "nrc" : "nic",
			 f->id);
		return;
	}
	n += print_end(plan, f->chip, f->port, text + n, length - n);
	print_end(plan, f->chip2, f->port2, text + n, length - n);
}

static uint32_t peer_of(const struct machine *plan, const struct finding *f, unsigned *port)
{
	*port = 0;
	return f->chip == MACHINE_NONE || f->port < 0 ? MACHINE_NONE
						      : machine_peer(plan, f->chip, f->port, port);
}

void finding_place(const struct machine *plan, const struct finding *f, char *text, size_t length)
{
	static const char *const formats[FINDINGS] = {
		[FINDING_SWAP] = "exchange the cables at %s and %s",
		[FINDING_WRONG] = "the cable at %s leads to %s",
		[FINDING_CUT] = "no light either way: %s to %s",
		[FINDING_DARK] = "no handshake: %s to %s",
		[FINDING_DEAD] = "no neighbour sees %s%s",
		[FINDING_SILENT] = "its neighbours see %s, and it does not answer%s",
		[FINDING_NAMELESS] = "a chip without an ID of the plan is at the cable of %s%s",
		[FINDING_UNEXPECTED] = "not in the plan%s%s",
		[FINDING_EXTRA] = "a cable that is not in the plan: %s to %s",
	};
	char a[MACHINE_PLACE_LEN] = "", b[MACHINE_PLACE_LEN] = "";
	unsigned port;
	uint32_t peer;

	if (f->chip != MACHINE_NONE)
		machine_place(plan, f->chip, f->port, a);
	if (f->chip2 != MACHINE_NONE) {
		machine_place(plan, f->chip2, f->port2, b);
	} else if (f->kind == FINDING_CUT || f->kind == FINDING_DARK) {
		peer = peer_of(plan, f, &port);
		if (peer != MACHINE_NONE)
			machine_place(plan, peer, port, b);
	}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, length, formats[f->kind], a, b);
#pragma GCC diagnostic pop
}

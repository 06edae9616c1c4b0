/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See campaign.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/campaign.h"

#define AT_ONCE 256

struct campaign {
	struct fabric *fabric;
	struct model *model;
	struct campaign_work work;
	struct campaign_link *links;
	bool *begun; /* links */
	bool *busy;  /* devices: one of its links is being tested */
	uint32_t count, first, open, over;
	bool stopped;
	int status;
	uint64_t since;
	struct campaign_result result;
};

/* A link under test; or a switch that is asked for its reports' way. */
struct one {
	struct campaign *campaign;
	struct campaign_link link;
	struct device *device;
};

bool bist_is_good(const struct bist_result *result)
{
	for (unsigned i = 0; i < 2; i++)
		if (result->end[i].state != BIST_DONE || result->end[i].errors)
			return false;
	return true;
}

static const struct model_port *port_of(const struct campaign *c, const struct campaign_link *link)
{
	return &c->model->devices[link->device]->port[link->port];
}

static void set_busy(struct campaign *c, const struct campaign_link *link, bool busy)
{
	const struct model_port *port = port_of(c, link);

	c->busy[link->device] = busy;
	if (port->peer != MODEL_NONE)
		c->busy[port->peer] = busy;
}

static void finish_one(struct campaign *c, const struct campaign_link *link, int status,
		       const struct bist_result *result)
{
	if (status == -EBUSY)
		c->result.refused++;
	else if (status)
		c->result.failed++;
	else
		c->result.tested++;
	if (!status && !bist_is_good(result))
		c->result.bad++;
	c->work.each(c->work.arg, link, status, result);
	if (!c->work.progress(c->work.arg, ++c->over, c->count))
		c->stopped = true;
}

static void pump(struct campaign *c);

static void tested(void *arg, int status, const struct bist_result *result)
{
	struct one *one = arg;
	struct campaign *c = one->campaign;

	set_busy(c, &one->link, false);
	c->open--;
	finish_one(c, &one->link, status, result);
	free(one);
	pump(c);
}

static void begin_test(struct campaign *c, const struct campaign_link *link)
{
	struct one *one = malloc(sizeof(*one));
	int ret = -ENOMEM;

	if (one) {
		*one = (struct one){c, *link, c->model->devices[link->device]};
		set_busy(c, link, true);
		c->open++;
		ret = bist_begin(c->fabric, c->model, one->device, link->port, c->work.ms,
				 c->work.intensity, tested, one);
	}
	if (!ret)
		return;
	if (one) {
		set_busy(c, link, false);
		c->open--;
	}
	finish_one(c, link, ret, NULL);
	free(one);
}

static bool can_begin(const struct campaign *c, const struct campaign_link *link)
{
	uint32_t peer = port_of(c, link)->peer;

	return !c->busy[link->device] && (peer == MODEL_NONE || !c->busy[peer]);
}

static void end(struct campaign *c)
{
	c->result.time = c->fabric->ops->now(c->fabric) - c->since;
	c->work.done(c->work.arg, c->status, &c->result);
	free(c->links);
	free(c->begun);
	free(c->busy);
	free(c);
}

/* As many as may be under way. */
static void pump(struct campaign *c)
{
	for (uint32_t i = c->first; !c->stopped && i < c->count && c->open < AT_ONCE; i++) {
		if (!c->begun[i] && can_begin(c, &c->links[i])) {
			c->begun[i] = true;
			begin_test(c, &c->links[i]);
		}
		if (i == c->first && c->begun[i])
			c->first++;
	}
	if (!c->open)
		end(c);
}

/* Marks the links from a switch on, by the ports that its reports leave by. */
static void mark_way(const struct campaign *c, struct device *from, uint64_t low, uint64_t high)
{
	unsigned hops = low & 31;

	for (unsigned i = 0; i < hops && i < NMP_MAX_HOPS; i++) {
		unsigned p = (i < 11 ? low >> (5 + 5 * i) : high >> 5 * (i - 11)) & 31;
		struct model_port *port = p < from->nports ? &from->port[p] : NULL;

		if (!port || port->peer == MODEL_NONE)
			return;
		port->reports = true;
		from = c->model->devices[port->peer];
		from->port[port->peer_port].reports = true;
	}
}

static void looked(struct campaign *c)
{
	if (!--c->open)
		pump(c);
}

/* REG_REPORT_TO was on: the way is in the two registers behind it. */
static void have_way(void *arg, int status, const struct facts *facts)
{
	struct one *one = arg;

	if (!status)
		mark_way(one->campaign, one->device, facts->value[0], facts->value[1]);
	looked(one->campaign);
	free(one);
}

static void have_report_to(void *arg, int status, const struct facts *facts)
{
	struct one *one = arg;
	struct campaign *c = one->campaign;

	if (!status && facts->value[0] & REPORT_ON &&
	    !c->fabric->ops->register_read(c->fabric, &one->device->target, REG_REPORT_ROUTE0, 2,
					   have_way, one))
		return;
	looked(c);
	free(one);
}

/* Where all switches report to. */
static void look(struct campaign *c)
{
	c->open = 1;
	for (uint32_t i = 0; i < c->model->count; i++) {
		struct device *d = c->model->devices[i];
		struct one *one;

		for (unsigned p = 0; p < d->nports; p++)
			d->port[p].reports = false;
		if (d->target.type != NMP_NRC || d->state != DEVICE_KNOWN)
			continue;
		one = malloc(sizeof(*one));
		if (!one)
			continue;
		*one = (struct one){.campaign = c, .device = d};
		c->open++;
		if (c->fabric->ops->register_read(c->fabric, &d->target, REG_REPORT_TO, 1,
						  have_report_to, one)) {
			c->open--;
			free(one);
		}
	}
	looked(c);
}

int campaign_begin(struct fabric *fabric, struct model *model, const struct campaign_link *links,
		   uint32_t count, const struct campaign_work *work)
{
	struct campaign *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct campaign){.fabric = fabric,
			       .model = model,
			       .work = *work,
			       .count = count,
			       .since = fabric->ops->now(fabric)};
	c->links = malloc((count + 1) * sizeof(*c->links));
	c->begun = calloc(count + 1, sizeof(*c->begun));
	c->busy = calloc(model->count + 1, sizeof(*c->busy));
	if (!c->links || !c->begun || !c->busy) {
		free(c->links);
		free(c->begun);
		free(c->busy);
		free(c);
		return -ENOMEM;
	}
	memcpy(c->links, links, count * sizeof(*links));
	look(c);
	return 0;
}

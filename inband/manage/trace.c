/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See trace.h: a step asks a switch for the route, and then for the link of the port that it takes.
 * */
#include <errno.h>
#include <stdlib.h>

#include "inband/manage/trace.h"

struct tracer {
	struct fabric *fabric;
	struct model *model;
	uint64_t to;
	struct trace trace;
	trace_done *done;
	void *arg;
};

static void step(struct tracer *t, uint32_t device, unsigned in_port);

static void end(struct tracer *t, int status, enum trace_end how)
{
	t->trace.end = how;
	t->done(t->arg, status, &t->trace);
	free(t);
}

static struct trace_hop *current(struct tracer *t)
{
	return &t->trace.hop[t->trace.count - 1];
}

static void have_link(void *arg, int status, const struct facts *facts)
{
	struct tracer *t = arg;
	struct trace_hop *hop = current(t);
	const struct model_port *port = &t->model->devices[hop->device]->port[hop->out_port];

	if (status) {
		end(t, status == -ETIMEDOUT ? 0 : status, TRACE_SILENT);
		return;
	}
	hop->link = facts->links[0];
	step(t, port->peer, port->peer_port);
}

static void have_route(void *arg, int status, const struct facts *facts)
{
	struct tracer *t = arg;
	struct trace_hop *hop = current(t);
	struct device *d = t->model->devices[hop->device];

	if (status) {
		end(t, status == -ETIMEDOUT ? 0 : status, TRACE_SILENT);
		return;
	}
	hop->ways = port_set_count(&facts->output_ports);
	for (unsigned p = 0; p < d->nports && hop->out_port < 0; p++)
		if (port_set_has(&facts->output_ports, p) && d->port[p].state == NEIGHBOUR_UP &&
		    d->port[p].peer != MODEL_NONE)
			hop->out_port = p;
	if (hop->out_port < 0) {
		end(t, 0, hop->ways ? TRACE_LINK_DOWN : TRACE_NO_ROUTE);
		return;
	}
	status = t->fabric->ops->link(t->fabric, &d->target, hop->out_port, have_link, t);
	if (status)
		end(t, status, TRACE_SILENT);
}

static void step(struct tracer *t, uint32_t number, unsigned in_port)
{
	struct device *d = t->model->devices[number];
	int status;

	if (t->trace.count == TRACE_MAX) {
		end(t, 0, TRACE_TOO_LONG);
		return;
	}
	t->trace.hop[t->trace.count++] =
		(struct trace_hop){.device = number, .in_port = in_port, .out_port = -1};
	if (d->target.type == NMP_NIC) {
		end(t, 0, d->target.id == t->to ? TRACE_ARRIVED : TRACE_WRONG_NODE);
		return;
	}
	status = t->fabric->ops->route(t->fabric, &d->target, in_port, t->to, have_route, t);
	if (status)
		end(t, status, TRACE_SILENT);
}

int trace_begin(struct fabric *fabric, struct model *model, uint64_t from, uint64_t to,
		trace_done *done, void *arg)
{
	struct device *d = model_find(model, NMP_NIC, from);
	struct tracer *t;
	unsigned p = 0;

	while (d && p < d->nports && d->port[p].peer == MODEL_NONE)
		p++;
	if (!d || p == d->nports || !model_find(model, NMP_NIC, to))
		return -ENOENT;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->fabric = fabric;
	t->model = model;
	t->to = to;
	t->done = done;
	t->arg = arg;
	t->trace.hop[t->trace.count++] =
		(struct trace_hop){.device = d->number, .in_port = -1, .out_port = p, .ways = 1};
	step(t, d->port[p].peer, d->port[p].peer_port);
	return 0;
}

struct waiting {
	bool done;
	int status;
	struct trace trace;
};

static void wait_done(void *arg, int status, const struct trace *trace)
{
	*(struct waiting *)arg = (struct waiting){true, status, *trace};
}

int trace_path(struct fabric *fabric, struct model *model, uint64_t from, uint64_t to,
	       struct trace *trace)
{
	struct waiting w = {0};
	int ret = trace_begin(fabric, model, from, to, wait_done, &w);

	if (!ret)
		ret = fabric_finish(fabric);
	if (ret)
		return ret;
	*trace = w.trace;
	return w.done ? w.status : -EIO;
}

const char *trace_end_text(enum trace_end how)
{
	static const char *const texts[] = {
		"arrived",
		"the table has no port for this destination: are routes loaded?",
		"no port of the table's entry has a link",
		"the tables lead in a circle",
		"the tables lead to another node",
		"a switch does not answer"};

	return texts[how];
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * See discover.h. How many requests are under way is the back end's window: with a window of one
 * this is the paper's algorithm.
 */
#include <errno.h>
#include <stdlib.h>

#include "inband/manage/discover.h"

#define SWITCH_PORTS 24

struct discovery {
	struct fabric *fabric;
	struct model *model;
	discovery_done *done;
	void *arg;
	uint32_t open; /* devices whose answer is to come */
	int status;
	uint64_t begun;
	struct discovery_result result;
};

struct question {
	struct discovery *discovery;
	struct device *device;
};

static void ask(struct discovery *d, struct device *device);

static void end(struct discovery *d)
{
	d->result.time = d->fabric->ops->now(d->fabric) - d->begun;
	model_count_links(d->model);
	if (d->status) {
		model_destroy(d->model);
		d->model = NULL;
	}
	d->done(d->arg, d->status, d->model, &d->result);
	free(d);
}

static void record(struct discovery *d, struct device *from, unsigned p, const struct neighbour *n)
{
	struct model_port *port = &from->port[p];
	struct device *peer;

	port->state = n->state;
	port->peer = MODEL_NONE;
	if (n->state != NEIGHBOUR_UP)
		return;
	if (n->id == FABRIC_NO_ID) {
		d->model->nameless++;
		return;
	}
	peer = model_find(d->model, n->type, n->id);
	if (!peer) {
		peer = model_add(d->model, n->type, n->id,
				 n->ports
					 ?: n->type == NMP_NRC ? SWITCH_PORTS
							       : 1);
		if (!peer) {
			d->status = -ENOMEM;
			return;
		}
		peer->via = from->number;
		peer->hops = from->hops + (from->target.type == NMP_NRC);
		if (!model_way(from, p, n->type, n->port, &peer->target))
			peer->state = DEVICE_SILENT; /* too far away to be asked */
		else if (n->type == NMP_NRC)
			ask(d, peer);
	}
	port->peer = peer->number;
	port->peer_port = n->port;
	/* An end node's port is known from here alone. */
	if (peer->target.type == NMP_NIC && peer->state == DEVICE_TOLD && n->port < peer->nports) {
		peer->port[n->port].state = NEIGHBOUR_UP;
		peer->port[n->port].peer = from->number;
		peer->port[n->port].peer_port = p;
	}
}

static void answered(void *arg, int status, const struct facts *facts)
{
	struct question *q = arg;
	struct discovery *d = q->discovery;
	struct device *device = q->device;

	free(q);
	if (status == -ETIMEDOUT || status == -EREMOTEIO) {
		device->state = DEVICE_SILENT;
		d->result.silent++;
	} else if (status) {
		d->status = status;
	} else {
		device->state = DEVICE_KNOWN;
		for (unsigned i = 0; i < facts->ports && i < device->nports && !d->status; i++)
			record(d, device, i, &facts->neighbours[i]);
	}
	if (!--d->open)
		end(d);
}

static void ask(struct discovery *d, struct device *device)
{
	struct question *q = malloc(sizeof(*q));
	int ret = -ENOMEM;

	if (q) {
		q->discovery = d;
		q->device = device;
		device->state = DEVICE_ASKED;
		d->open++;
		d->result.asked++;
		ret = d->fabric->ops->neighbours(d->fabric, &device->target, answered, q);
		if (ret) {
			d->open--;
			free(q);
		}
	}
	if (ret)
		d->status = ret;
}

int discover_begin(struct fabric *fabric, discovery_done *done, void *arg)
{
	struct discovery *d = calloc(1, sizeof(*d));
	struct target origin;
	struct device *self;
	unsigned ports;
	int ret = -ENOMEM;

	if (!d)
		return -ENOMEM;
	d->fabric = fabric;
	d->done = done;
	d->arg = arg;
	d->begun = fabric->ops->now(fabric);
	ports = fabric->ops->origin(fabric, &origin);
	if (!model_create(&d->model)) {
		self = model_add(d->model, origin.type, origin.id, ports);
		if (self) {
			ask(d, self);
			ret = d->status;
		}
	}
	if (ret) {
		model_destroy(d->model);
		free(d);
	}
	return ret;
}

struct waiting {
	bool done;
	int status;
	struct model *model;
	struct discovery_result result;
};

static void wait_done(void *arg, int status, struct model *model,
		      const struct discovery_result *result)
{
	*(struct waiting *)arg = (struct waiting){true, status, model, *result};
}

int discover(struct fabric *fabric, struct model **model, struct discovery_result *result)
{
	struct waiting w = {0};
	int ret = discover_begin(fabric, wait_done, &w);

	if (ret)
		return ret;
	ret = fabric_finish(fabric);
	if (!w.done)
		return ret ?: -EIO;
	*model = w.model;
	*result = w.result;
	return w.status;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See offline.h. Questions wait in a list until progress(), as answers of a network do. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "inband/manage/model.h"
#include "inband/manage/offline.h"

struct question {
	struct question *next;
	const struct device *device; /* NULL: there is none */
	fabric_done *done;
	void *arg;
};

struct offline {
	struct fabric fabric;
	struct model *model;
	struct question *first, **last;
	struct fabric_counts counts;
	int never; /* a descriptor that nothing comes from */
	struct facts facts;
};

static struct offline *of(struct fabric *f)
{
	return (struct offline *)f;
}

static int neighbours(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct offline *o = of(f);
	struct question *q = malloc(sizeof(*q));
	const struct device *device = model_find(o->model, t->type, t->id);

	if (!q)
		return -ENOMEM;
	*q = (struct question){NULL, device && device->state != DEVICE_SILENT ? device : NULL, done,
			       arg};
	*o->last = q;
	o->last = &q->next;
	o->counts.sent++;
	return 0;
}

static void describe(const struct model *m, const struct device *device, struct facts *facts)
{
	facts->ports = device->nports;
	for (unsigned p = 0; p < device->nports; p++) {
		const struct model_port *port = &device->port[p];
		const struct device *peer =
			port->peer == MODEL_NONE ? NULL : m->devices[port->peer];

		facts->neighbours[p] = (struct neighbour){
			.state = port->lost ? NEIGHBOUR_NONE : port->state,
			.type = peer ? peer->target.type : NMP_NIC,
			.port = port->peer_port,
			.ports = peer ? peer->nports : 0,
			.id = peer ? peer->target.id : FABRIC_NO_ID,
		};
	}
}

static int progress(struct fabric *f, bool wait)
{
	struct offline *o = of(f);

	while (o->first) {
		struct question *q = o->first;

		o->first = q->next;
		if (!o->first)
			o->last = &o->first;
		if (q->device) {
			describe(o->model, q->device, &o->facts);
			o->counts.answered++;
			q->done(q->arg, 0, &o->facts);
		} else {
			o->counts.timed_out++;
			q->done(q->arg, -ETIMEDOUT, &o->facts);
		}
		free(q);
	}
	return 1;
}

static unsigned origin(struct fabric *f, struct target *t)
{
	const struct device *self = of(f)->model->devices[0];

	target_init(t, self->target.type, self->target.id);
	return self->nports;
}

static int arm(struct fabric *f, int *fd)
{
	*fd = of(f)->never;
	return of(f)->first ? 0 : 1;
}

static int check(struct fabric *f)
{
	return 0;
}

static uint64_t now(struct fabric *f)
{
	return 0;
}

static const struct fabric_counts *counts(struct fabric *f)
{
	return &of(f)->counts;
}

static void destroy(struct fabric *f)
{
	struct offline *o = of(f);

	while (o->first) {
		struct question *next = o->first->next;

		free(o->first);
		o->first = next;
	}
	if (o->never >= 0)
		close(o->never);
	model_destroy(o->model);
	free(o);
}

static const struct fabric_ops offline_ops = {
	.name = "dump",
	.neighbours = neighbours,
	.origin = origin,
	.progress = progress,
	.arm = arm,
	.check = check,
	.now = now,
	.counts = counts,
	.destroy = destroy,
};

int offline_create(struct model *model, struct fabric **fabric)
{
	struct offline *o = calloc(1, sizeof(*o));

	if (!o) {
		model_destroy(model);
		return -ENOMEM;
	}
	o->fabric.ops = &offline_ops;
	o->model = model;
	o->last = &o->first;
	o->never = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->never < 0) {
		destroy(&o->fabric);
		return -ENOMEM;
	}
	*fabric = &o->fabric;
	return 0;
}

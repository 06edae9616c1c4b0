/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See bist.h. The steps of an end follow one another; the second end has the same steps. */
#include <errno.h>
#include <stdlib.h>

#include "inband/manage/bist.h"

#define MS 1000000000ull /* ps */

enum step { STEP_TIME, STEP_INTENSITY, STEP_START, STEP_WAIT, STEP_RESULT, STEPS };

struct tester {
	struct fabric *fabric;
	struct device *device[2];
	unsigned port[2], end, intensity;
	enum step step;
	uint64_t ms;
	struct bist_result result;
	bist_done *done;
	void *arg;
};

static struct model_port *port_of(struct tester *t, unsigned end)
{
	return &t->device[end]->port[t->port[end]];
}

static void finish(struct tester *t, int status)
{
	port_of(t, 0)->testing = port_of(t, 1)->testing = false;
	t->done(t->arg, status, &t->result);
	free(t);
}

static void answered(void *arg, int status, const struct facts *facts);

static int take_step(struct tester *t)
{
	const struct fabric_ops *ops = t->fabric->ops;
	struct target *to = &t->device[t->end]->target;
	unsigned p = t->port[t->end];

	switch (t->step) {
	case STEP_TIME:
		return ops->register_write(t->fabric, to, REG_PORT(p, PORT_BIST_TIME), t->ms * 1000,
					   false, answered, t);
	case STEP_INTENSITY:
		return ops->register_write(t->fabric, to, REG_PORT(p, PORT_BIST_INTENSITY),
					   t->intensity, false, answered, t);
	case STEP_START:
		return ops->register_write(t->fabric, to, REG_PORT(p, PORT_BIST_CONTROL), 1, true,
					   answered, t);
	case STEP_WAIT: return ops->pause(t->fabric, (t->ms + 1) * MS, answered, t);
	default:
		return ops->register_read(t->fabric, to, REG_PORT(p, PORT_BIST_RESULT), 2, answered,
					  t);
	}
}

static void answered(void *arg, int status, const struct facts *facts)
{
	struct tester *t = arg;
	struct bist_end *end = &t->result.end[t->end];

	if (!status && t->step == STEP_RESULT) {
		end->state = facts->value[0] & 0xff;
		end->errors = facts->value[0] >> 8;
		end->bits = facts->value[1];
	}
	if (!status && ++t->step == STEPS) {
		if (t->end) {
			finish(t, 0);
			return;
		}
		t->end = 1;
		t->step = STEP_TIME;
	}
	if (!status)
		status = take_step(t);
	if (status)
		finish(t, status);
}

/* Whether the way to one end, and to all behind it, is by this link. */
static bool carries_ways(const struct device *from, unsigned port, const struct device *to)
{
	const struct nmp_route *out = &to->target.out;

	return to->via == from->number && out->hops && out->port[out->hops - 1] == port;
}

int bist_begin(struct fabric *fabric, struct model *model, struct device *device, unsigned port,
	       uint64_t ms, unsigned intensity, bist_done *done, void *arg)
{
	struct model_port *here, *there;
	struct device *peer;
	struct tester *t;
	int ret;

	if (port >= device->nports)
		return -ENOLINK;
	here = &device->port[port];
	if (here->state != NEIGHBOUR_UP || here->lost || here->peer == MODEL_NONE)
		return -ENOLINK;
	peer = model->devices[here->peer];
	if (peer->target.type != NMP_NRC || device->target.type != NMP_NRC)
		return -ENOLINK;
	there = &peer->port[here->peer_port];
	if (here->testing || there->testing || here->reports || there->reports ||
	    carries_ways(device, port, peer) || carries_ways(peer, here->peer_port, device))
		return -EBUSY;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*t = (struct tester){.fabric = fabric,
			     .device = {device, peer},
			     .port = {port, here->peer_port},
			     .ms = ms,
			     .intensity = intensity,
			     .done = done,
			     .arg = arg};
	here->testing = there->testing = true;
	ret = take_step(t);
	if (ret) {
		here->testing = there->testing = false;
		free(t);
	}
	return ret;
}

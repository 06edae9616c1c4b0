/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The destination half: which packets are held, and until when.
 *
 *              rerouted, and the old path's last packet has not come
 *   IN_ORDER -----------------------------------------------------------> HOLDING
 *      ^                                                                     | it came (rule 1), or
 *      |  the last held packet has left: CLEAR (rule 3)                      | cannot come any more
 *      +--------------------------- DRAINING <-------------------------------+
 *
 * In HOLDING and in DRAINING the flow's packets go behind those that are held (rule 2), but for
 * packets of its old path, which go through the normal queue. In DRAINING they leave as soon as
 * everything that was in the normal queue when HOLDING ended has left (rule 4). When no flow in the
 * queue is HOLDING, all in it leaves before what comes to the normal queue afterwards: a DRAINING
 * flow's further packets then go there, so that a busy link does not fill the reorder queue.
 *
 * That the old path's last packet cannot come any more is proved by a packet of the same path that
 * left later, whoever's it is: paths are FIFOs. Only where no such packet comes does a timer act.
 */
#include "common/sized.h"
#include "reorder/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALE ((int64_t)1000 * 1000 * 1000 * 1000) /* ps; t_tx turns over after 4.4 s */

static void *array(size_t n, size_t size)
{
	return calloc(n ? n : 1, size);
}

static bool valid(const struct reorder_destination_config *c)
{
	return c->flows >= WAYS && !(c->flows & (c->flows - 1)) && c->packets && c->sources &&
	       c->paths && c->paths <= 254 && c->ports && c->ingresses && c->queues &&
	       c->queues <= REORDER_QUEUES && c->rate && c->rate <= 8000000000000 && c->clear &&
	       c->inactive > 0 && c->hold > 0;
}

int reorder_destination_create(struct reorder_destination **out,
			       const struct reorder_destination_config *wanted)
{
	const struct reorder_destination_config *config;
	struct reorder_destination *d;
	size_t paths, queues;

	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	config = &d->config;
	if (copy_in(&d->config, sizeof(d->config), wanted) || !valid(config)) {
		free(d);
		return -EINVAL;
	}
	paths = (size_t)config->sources * config->paths;
	d->per_byte = (int64_t)(8000000000000 / config->rate);
	d->flows = array(config->flows, sizeof(*d->flows));
	d->paths = array(paths, sizeof(*d->paths));
	d->ports = array(config->ports, sizeof(*d->ports));
	d->nodes = array(config->packets, sizeof(*d->nodes));
	d->held_of = array(config->ingresses, sizeof(*d->held_of));
	d->next_fed = array(config->sources, 1);
	d->ends = array(config->paths, sizeof(*d->ends));
	d->paused = array(config->ingresses, sizeof(*d->paused));
	d->queue_count = config->mode == REORDER_SW ? REORDER_QUEUES : config->queues;
	queues = (size_t)config->ports * d->queue_count;
	d->queues = array(queues, sizeof(*d->queues));
	d->waiting = array(queues * config->ingresses, sizeof(*d->waiting));
	if (!d->queues || !d->waiting || !d->flows || !d->paths || !d->ports || !d->nodes ||
	    !d->held_of || !d->next_fed || !d->ends || !d->paused) {
		reorder_destination_destroy(d);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < config->packets; i++)
		d->nodes[i].next = i + 1 < config->packets ? i + 1 : NONE;
	for (uint32_t i = 0; i < config->flows; i++)
		d->flows[i].last = INT64_MIN;
	for (size_t i = 0; i < paths; i++)
		d->paths[i].waiting = NONE;
	for (unsigned i = 0; i < config->ports; i++) {
		d->ports[i].normal.first = NONE;
		d->ports[i].queue = &d->queues[i * d->queue_count];
	}
	for (size_t i = 0; i < queues; i++) {
		d->queues[i].fifo.first = d->queues[i].flows = NONE;
		d->queues[i].wait = 1;
		d->queues[i].waiting = &d->waiting[i * config->ingresses];
	}
	d->holding = NONE;
	d->deadline = REORDER_NEVER;
	*out = d;
	return 0;
}

void reorder_destination_destroy(struct reorder_destination *d)
{
	if (!d)
		return;
	free(d->flows);
	free(d->paths);
	free(d->ports);
	free(d->nodes);
	free(d->held_of);
	free(d->next_fed);
	free(d->ends);
	free(d->paused);
	free(d->queues);
	free(d->waiting);
	free(d);
}

void reorder_without_rules(struct reorder_destination *d, unsigned rules)
{
	d->without = rules;
}

static void send_clear(struct reorder_destination *d, struct flow *flow, int64_t now)
{
	flow->cleared = now;
	d->counters.clears++;
	d->config.clear(d->config.context, flow->source, &flow->key, flow->id, flow->epoch);
}

/* Lists of flows that hold: all of them, and those that wait for the same path. */
static void link_holding(struct reorder_destination *d, uint32_t index)
{
	struct flow *flow = &d->flows[index];
	struct path *path = path_of(d, flow->source, flow->old_path);

	reorder_queue_waits(d, flow);
	flow->previous_holding = flow->previous_waiting = NONE;
	flow->next_holding = d->holding;
	if (d->holding != NONE)
		d->flows[d->holding].previous_holding = index;
	d->holding = index;
	flow->next_waiting = path->waiting;
	if (path->waiting != NONE)
		d->flows[path->waiting].previous_waiting = index;
	path->waiting = index;
}

static void unlink_holding(struct reorder_destination *d, uint32_t index)
{
	struct flow *flow = &d->flows[index];

	reorder_queue_goes_on(d, flow);
	if (flow->previous_holding == NONE)
		d->holding = flow->next_holding;
	else
		d->flows[flow->previous_holding].next_holding = flow->next_holding;
	if (flow->next_holding != NONE)
		d->flows[flow->next_holding].previous_holding = flow->previous_holding;
	if (flow->previous_waiting == NONE)
		path_of(d, flow->source, flow->old_path)->waiting = flow->next_waiting;
	else
		d->flows[flow->previous_waiting].next_waiting = flow->next_waiting;
	if (flow->next_waiting != NONE)
		d->flows[flow->next_waiting].previous_waiting = flow->previous_waiting;
}

/* HOLDING ends: what is in the normal queue goes first. */
static void release(struct reorder_destination *d, uint32_t index, uint64_t *cause, int64_t now)
{
	struct flow *flow = &d->flows[index];

	unlink_holding(d, index);
	flow->state = DRAINING;
	flow->mark = d->ports[flow->port].in;
	(*cause)++;
	d->counters.waited += (uint64_t)(now - flow->since);
	if (!flow->held) /* the packet that began it had no room */
		reorder_drained(d, index, now);
	else if (!rule(d, 3))
		send_clear(d, flow, now);
	if (d->config.ready)
		d->config.ready(d->config.context, flow->port);
}

void reorder_drained(struct reorder_destination *d, uint32_t index, int64_t now)
{
	struct flow *flow = &d->flows[index];

	if (flow->state != DRAINING)
		return;
	flow->state = IN_ORDER;
	if (rule(d, 3))
		send_clear(d, flow, now);
}

/* The old path's packets up to its last have come. Rule 1. */
static void tail_came(struct reorder_destination *d, uint32_t index, int64_t now)
{
	struct flow *flow = &d->flows[index];

	reorder_learn(d, path_of(d, flow->source, flow->old_path), flow, now);
	release(d, index, &d->counters.by_tail, now);
}

/* A packet came by this path that left at t_tx: whoever left before is here, or lost. */
static void prove(struct reorder_destination *d, struct path *path, uint32_t t_tx, int64_t now)
{
	uint32_t next;

	for (uint32_t i = path->waiting; i != NONE; i = next) {
		struct flow *flow = &d->flows[i];

		next = flow->next_waiting;
		if (!flow->proof_known || (int32_t)(t_tx - flow->tail_tx) <= 0)
			continue;
		release(d, i, &d->counters.by_proof, now);
	}
}

/*
 * The entry of a flow, or one that it may have, or NULL. A flow that was never moved needs its
 * entry only to know, should it be, whether its old path's last packet has come before: one
 * that was moved may take it.
 */
static struct flow *find(struct reorder_destination *d, const struct reorder_packet *packet,
			 int64_t now, bool *found)
{
	uint32_t bucket = packet->id & (d->config.flows - 1) & ~(WAYS - 1u);
	struct flow *free_one = NULL, *oldest = NULL;

	for (unsigned i = 0; i < WAYS; i++) {
		struct flow *flow = &d->flows[bucket + i];
		bool idle = flow->last == INT64_MIN || (!flow->held && flow->state == IN_ORDER &&
							now - flow->last > d->config.inactive);

		if (!idle && flow->id == packet->id && flow->source == packet->source &&
		    !memcmp(&flow->key, packet->key, sizeof(flow->key))) {
			*found = true;
			return flow;
		}
		if (idle)
			free_one = flow;
		else if (!flow->held && flow->state == IN_ORDER && !flow->cleared &&
			 !flow->doubled && (!oldest || flow->last < oldest->last))
			oldest = flow;
	}
	*found = false;
	if (free_one || !(packet->shim->flags & REORDER_REROUTED))
		return free_one;
	d->counters.evicted += oldest != NULL;
	return oldest;
}

/* The estimates of when the old path's last packet comes, and the timer for when it does not. */
static void predict(struct reorder_destination *d, struct flow *flow, int64_t now)
{
	const struct path *path = path_of(d, flow->source, flow->old_path);

	for (int i = 0; i < REORDER_ESTIMATORS; i++)
		if (i == (int)d->config.estimator || d->config.measure)
			flow->predicted[i] = flow->proof_known
						     ? reorder_predict(d, i, path, flow->source,
								       flow->tail_tx, now)
						     : now;
}

/* Some time after the estimate of the moment, and never later than hold allows. */
static void set_timer(struct reorder_destination *d, struct flow *flow, int64_t now)
{
	const struct path *path = path_of(d, flow->source, flow->old_path);
	int64_t expected =
		reorder_predict(d, d->config.estimator, path, flow->source, flow->tail_tx, now);
	int64_t margin = path->margin > d->config.margin ? path->margin : d->config.margin;

	if (!flow->proof_known || expected < flow->since)
		expected = flow->since;
	flow->timer = expected + margin;
	if (flow->timer > flow->since + d->config.hold)
		flow->timer = flow->since + d->config.hold;
	if (flow->timer < d->deadline)
		d->deadline = flow->timer;
}

/* What a rerouted packet says of the old path's end. */
static void read_tail(struct flow *flow, const struct reorder_shim *shim)
{
	if (shim->back != UINT16_MAX) {
		flow->tail = (uint16_t)(shim->sequence - shim->back);
		flow->tail_known = true;
	}
	if (shim->ago != REORDER_UNKNOWN) {
		flow->tail_tx = shim->t_tx - (uint32_t)(shim->ago * 64);
		flow->proof_known = true;
	}
}

/* Whether the old path's last packet has come already, or is known to be lost. */
static bool tail_is_past(const struct reorder_destination *d, const struct flow *flow,
			 const struct reorder_shim *shim, bool fresh, int64_t now)
{
	const struct path *path =
		&d->paths[(size_t)flow->source * d->config.paths + flow->old_path];

	if (!fresh && flow->tail_known && (int16_t)(flow->newest - flow->tail) >= 0)
		return true;
	if (!flow->proof_known)
		return false;
	if ((int64_t)shim->ago * 64 * REORDER_TICK > d->config.hold)
		return true; /* so long ago that nobody would wait for it */
	return path->seen && now - path->t_rx < STALE && (int32_t)(path->t_tx - flow->tail_tx) > 0;
}

/* The first packet of an epoch: from here on the flow has another path. */
static void begin_epoch(struct reorder_destination *d, uint32_t index,
			const struct reorder_packet *packet, bool fresh, int64_t now)
{
	const struct reorder_shim *shim = packet->shim;
	struct flow *flow = &d->flows[index];
	bool holding = flow->state == HOLDING;
	uint8_t before = flow->epoch;

	if (holding) /* moved again because its path broke: wait for that one's end as well */
		unlink_holding(d, index);
	flow->epoch = shim->epoch;
	flow->doubled = (uint8_t)(flow->doubled << 1) | (holding || flow->held);
	if (fresh ? shim->epoch > 1 : shim->epoch != (uint8_t)(before + 1))
		flow->doubled |= 2; /* an epoch was missed: its packets may come yet */
	flow->given_up <<= 1;	    /* for two epochs */
	flow->tail_known = flow->proof_known = false;
	flow->old_path = shim->old_path;
	if (!(shim->flags & REORDER_REROUTED)) {
		flow->state = flow->held ? DRAINING : IN_ORDER;
		flow->mark = d->ports[flow->port].in;
		return;
	}
	read_tail(flow, shim);
	if (flow->held && !holding) /* what is held may go on, and others rely on that */
		return;
	flow->through = false;
	if (!rule(d, 1) || (!(flow->doubled & 1) && tail_is_past(d, flow, shim, fresh, now))) {
		flow->state = IN_ORDER;
		send_clear(d, flow, now);
		return;
	}
	predict(d, flow, now);
	if (!flow->held)
		flow->queue = reorder_choose_queue(d, flow->port,
						   flow->predicted[d->config.estimator], now);
	flow->state = HOLDING;
	flow->since = now;
	d->counters.holds++;
	set_timer(d, flow, now);
	link_holding(d, index);
}

/* No more bytes of this ingress may wait: let go what is in front of the flow, and the flow. */
static void give_up(struct reorder_destination *d, uint32_t index, int64_t now)
{
	const struct flow *flow = &d->flows[index];
	uint32_t next;

	for (uint32_t i = d->ports[flow->port].queue[flow->queue].flows; i != NONE; i = next) {
		next = d->flows[i].next_in_queue;
		if (d->flows[i].state != HOLDING)
			continue;
		d->flows[i].given_up |= 1;
		release(d, i, &d->counters.by_bound, now);
	}
}

static int hold(struct reorder_destination *d, uint32_t index, const struct reorder_packet *packet,
		int64_t now)
{
	int ret = reorder_push_held(d, packet, index);

	if (ret)
		return ret;
	if (d->held_of[packet->ingress] > d->config.held_ingress)
		give_up(d, index, now);
	return 0;
}

/* A packet of the path the flow has left. */
static int old_packet(struct reorder_destination *d, uint32_t index,
		      const struct reorder_packet *packet, int64_t now)
{
	struct flow *flow = &d->flows[index];
	bool behind = flow->doubled & 1 && flow->held && !flow->through &&
		      packet->shim->epoch == (uint8_t)(flow->epoch - 1);
	int ret = behind ? reorder_push_held(d, packet, index) : reorder_push_normal(d, packet);

	if (ret)
		return ret;
	if (flow->given_up)
		d->counters.late++;
	else if (flow->doubled)
		d->counters.doubled += behind ? 1 : 1 + flow->held; /* which it overtakes */
	if (flow->state == HOLDING && flow->tail_known &&
	    (int16_t)(packet->shim->sequence - flow->tail) >= 0)
		tail_came(d, index, now);
	return 0;
}

/*
 * Rule 2: behind what is held; through the normal queue as soon as nothing in the reorder queue
 * waits, because that then goes before all that comes to the normal queue from now on.
 */
static bool may_pass(const struct reorder_destination *d, struct flow *flow)
{
	if (!flow->through)
		flow->through = !reorder_queue_is_waiting(d, flow);
	return flow->through || !rule(d, 2);
}

static int present_packet(struct reorder_destination *d, uint32_t index,
			  const struct reorder_packet *packet, int64_t now)
{
	const struct reorder_shim *shim = packet->shim;
	struct flow *flow = &d->flows[index];

	if (flow->state == HOLDING || (flow->held && !may_pass(d, flow)))
		return hold(d, index, packet, now);
	if (shim->flags & REORDER_REROUTED && flow->state == IN_ORDER &&
	    now - flow->cleared > d->config.again) {
		d->counters.repeated_clears++;
		send_clear(d, flow, now);
	}
	return reorder_push_normal(d, packet);
}

static int with_flow(struct reorder_destination *d, const struct reorder_packet *packet,
		     int64_t now)
{
	const struct reorder_shim *shim = packet->shim;
	bool found;
	struct flow *flow = find(d, packet, now, &found);
	uint32_t index;
	int8_t ahead;
	int ret;

	if (!flow) {
		d->counters.no_entry++;
		return reorder_push_normal(d, packet);
	}
	index = (uint32_t)(flow - d->flows);
	if (!found) {
		memset(flow, 0, sizeof(*flow));
		flow->key = *packet->key;
		flow->id = packet->id;
		flow->source = packet->source;
		flow->port = packet->port;
		flow->newest = (uint16_t)(shim->sequence - 1);
	} else if (flow->port != packet->port) { /* the host has moved to another port */
		if (flow->held || flow->state != IN_ORDER)
			return reorder_push_normal(d, packet);
		flow->port = packet->port;
	}
	flow->last = now;
	ahead = found ? (int8_t)(shim->epoch - flow->epoch) : 1;
	if (ahead > 0)
		begin_epoch(d, index, packet, !found, now);
	if (ahead >= 0)
		ret = present_packet(d, index, packet, now);
	else
		ret = old_packet(d, index, packet, now);
	if (!ret && (int16_t)(shim->sequence - flow->newest) > 0)
		flow->newest = shim->sequence;
	return ret;
}

int reorder_enqueue(struct reorder_destination *d, const struct reorder_packet *packet, int64_t now)
{
	const struct reorder_shim *shim = packet->shim;
	struct path *path;
	int ret;

	d->counters.packets++;
	if (!shim)
		return reorder_push_normal(d, packet);
	if (packet->source >= d->config.sources || shim->path >= d->config.paths ||
	    shim->old_path >= d->config.paths)
		return reorder_push_normal(d, packet);
	path = path_of(d, packet->source, shim->path);
	reorder_observe(d, path, shim->t_tx, packet->size, packet->ingress, now);
	ret = with_flow(d, packet, now);
	if (path->waiting != NONE)
		prove(d, path, shim->t_tx, now);
	return ret;
}

int64_t reorder_deadline(const struct reorder_destination *d)
{
	return d->deadline;
}

/* A flow's time is up, unless its path has shown since that it is slower than was thought. */
void reorder_expire(struct reorder_destination *d, int64_t now)
{
	uint32_t next;

	if (now < d->deadline)
		return;
	d->deadline = REORDER_NEVER;
	for (uint32_t i = d->holding; i != NONE; i = next) {
		struct flow *flow = &d->flows[i];

		next = flow->next_holding;
		if (flow->timer <= now)
			set_timer(d, flow, now);
		if (flow->timer <= now) {
			flow->given_up |= 1;
			release(d, i, &d->counters.by_timer, now);
		} else if (flow->timer < d->deadline) {
			d->deadline = flow->timer;
		}
	}
}

void reorder_destination_counters(const struct reorder_destination *d,
				  struct reorder_destination_counters *counters, size_t size)
{
	copy_out(counters, size, &d->counters, sizeof(d->counters));
}

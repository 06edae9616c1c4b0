/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The FIFOs of a port and its scheduler. A reorder queue goes before the normal one as soon as its
 * first packet's flow may go on; queues that may take turns.
 */
#include "reorder/internal.h"

#include <errno.h>

static uint32_t take_node(struct reorder_destination *d, const struct reorder_packet *packet,
			  uint32_t flow)
{
	uint32_t n = d->free_node;

	if (n == NONE) {
		d->counters.no_room++;
		return NONE;
	}
	d->free_node = d->nodes[n].next;
	d->nodes[n] = (struct node){NONE, packet->handle, packet->size, flow, 0, packet->ingress};
	return n;
}

static void append(struct reorder_destination *d, struct fifo *fifo, uint32_t n)
{
	if (fifo->first == NONE)
		fifo->first = n;
	else
		d->nodes[fifo->last].next = n;
	fifo->last = n;
	fifo->bytes += d->nodes[n].size;
}

static struct node *remove_first(struct reorder_destination *d, struct fifo *fifo)
{
	struct node *node = &d->nodes[fifo->first];
	uint32_t n = fifo->first;

	fifo->first = node->next;
	fifo->bytes -= node->size;
	node->next = d->free_node;
	d->free_node = n;
	return node;
}

int reorder_push_normal(struct reorder_destination *d, const struct reorder_packet *packet)
{
	struct port *port = &d->ports[packet->port];
	uint32_t n = take_node(d, packet, NONE);

	if (n == NONE)
		return -ENOBUFS;
	append(d, &port->normal, n);
	port->in++;
	return 0;
}

static void enter_queue(struct reorder_destination *d, struct port *port, uint32_t index)
{
	struct flow *flow = &d->flows[index];
	uint32_t *first = &port->queue[flow->queue].flows;

	flow->previous_in_queue = NONE;
	flow->next_in_queue = *first;
	if (*first != NONE)
		d->flows[*first].previous_in_queue = index;
	*first = index;
}

static void leave_queue(struct reorder_destination *d, struct port *port, uint32_t index)
{
	struct flow *flow = &d->flows[index];

	if (flow->previous_in_queue == NONE)
		port->queue[flow->queue].flows = flow->next_in_queue;
	else
		d->flows[flow->previous_in_queue].next_in_queue = flow->next_in_queue;
	if (flow->next_in_queue != NONE)
		d->flows[flow->next_in_queue].previous_in_queue = flow->previous_in_queue;
}

/* Bytes that wait, of an ingress: credit is refused from an eighth of the bound on. */
static void add_waiting(struct reorder_destination *d, uint16_t ingress, uint64_t size)
{
	uint64_t eighth = d->config.held_ingress / 8, before = d->held_of[ingress];

	d->held_of[ingress] += size;
	d->full += before <= eighth && before + size > eighth;
	d->waiting_bytes += size;
}

static void sub_waiting(struct reorder_destination *d, uint16_t ingress, uint64_t size)
{
	uint64_t eighth = d->config.held_ingress / 8, before = d->held_of[ingress];

	d->held_of[ingress] -= size;
	d->full -= before > eighth && before - size <= eighth;
	d->waiting_bytes -= size;
}

static struct queue *queue_of(struct reorder_destination *d, const struct flow *flow)
{
	return &d->ports[flow->port].queue[flow->queue];
}

void reorder_queue_waits(struct reorder_destination *d, const struct flow *flow)
{
	queue_of(d, flow)->holding++;
}

void reorder_queue_goes_on(struct reorder_destination *d, const struct flow *flow)
{
	struct queue *queue = queue_of(d, flow);

	if (--queue->holding || !queue->waiting_packets)
		return;
	for (uint16_t i = 0; i < d->config.ingresses; i++) {
		if (queue->waiting[i])
			sub_waiting(d, i, queue->waiting[i]);
		queue->waiting[i] = 0;
	}
	d->waiting_packets -= queue->waiting_packets;
	queue->waiting_packets = 0;
	queue->wait++;
}

bool reorder_queue_is_waiting(const struct reorder_destination *d, const struct flow *flow)
{
	return d->ports[flow->port].queue[flow->queue].holding;
}

static void count_held(struct reorder_destination *d, struct queue *queue, struct node *node)
{
	d->held_bytes += node->size;
	d->held_packets++;
	d->counters.held++;
	node->wait = queue->wait - !queue->holding;
	if (!queue->holding)
		return;
	queue->waiting[node->ingress] += node->size;
	queue->waiting_packets++;
	add_waiting(d, node->ingress, node->size);
	d->waiting_packets++;
	if (d->waiting_packets > d->counters.held_packets_max)
		d->counters.held_packets_max = d->waiting_packets;
	if (d->waiting_bytes > d->counters.held_bytes_max)
		d->counters.held_bytes_max = d->waiting_bytes;
}

static void uncount_held(struct reorder_destination *d, struct queue *queue,
			 const struct node *node)
{
	d->held_bytes -= node->size;
	d->held_packets--;
	if (node->wait != queue->wait)
		return;
	queue->waiting[node->ingress] -= node->size;
	queue->waiting_packets--;
	sub_waiting(d, node->ingress, node->size);
	d->waiting_packets--;
}

int reorder_push_held(struct reorder_destination *d, const struct reorder_packet *packet,
		      uint32_t index)
{
	struct port *port = &d->ports[packet->port];
	struct flow *flow = &d->flows[index];
	uint32_t n = take_node(d, packet, index), used;

	if (n == NONE)
		return -ENOBUFS;
	append(d, &port->queue[flow->queue].fifo, n);
	if (!flow->held++)
		enter_queue(d, port, index);
	port->used |= (uint64_t)1 << flow->queue;
	used = (uint32_t)__builtin_popcountll(port->used);
	if (used > d->counters.queues_max)
		d->counters.queues_max = used;
	count_held(d, &port->queue[flow->queue], &d->nodes[n]);
	return 0;
}

/*
 * When a queue will be empty: what it holds leaves at line rate as soon as the last of the old
 * paths it waits for is. Patent, claim 7: a queue that forwards, and one that is paused.
 */
static int64_t drained_at(const struct reorder_destination *d, const struct port *port,
			  unsigned queue, int64_t now)
{
	int64_t release = now;

	for (uint32_t i = port->queue[queue].flows; i != NONE; i = d->flows[i].next_in_queue) {
		const struct flow *flow = &d->flows[i];

		if (flow->state == HOLDING && flow->predicted[d->config.estimator] > release)
			release = flow->predicted[d->config.estimator];
	}
	return release + (int64_t)port->queue[queue].fifo.bytes * d->per_byte;
}

/* Share last: an empty queue while there is one, then the one that will be empty next to release.
 * */
uint8_t reorder_choose_queue(struct reorder_destination *d, uint16_t number, int64_t release,
			     int64_t now)
{
	struct port *port = &d->ports[number];
	unsigned queues = d->queue_count;
	uint64_t all = queues == 64 ? UINT64_MAX : ((uint64_t)1 << queues) - 1;
	uint64_t empty = all & ~port->used;
	int64_t best = INT64_MAX;
	unsigned chosen = 0;

	if (empty)
		return (uint8_t)__builtin_ctzll(empty);
	for (unsigned q = 0; q < queues; q++) {
		int64_t early = release - drained_at(d, port, q, now);
		int64_t distance = early < 0 ? -early : early;

		if (distance < best) {
			best = distance;
			chosen = q;
		}
	}
	d->counters.shared++;
	best = release - drained_at(d, port, chosen, now);
	d->counters.far += best < -d->config.before || best > d->config.after;
	return (uint8_t)chosen;
}

/* Whether the first packet of a queue may leave. */
static bool may_leave(const struct reorder_destination *d, const struct port *port, unsigned queue)
{
	const struct flow *flow = &d->flows[d->nodes[port->queue[queue].fifo.first].flow];

	if (flow->state != DRAINING)
		return false;
	return port->out >= flow->mark || !rule(d, 4);
}

/* The next queue in turn whose first packet may leave, or -1. */
static int ready_queue(const struct reorder_destination *d, uint16_t number)
{
	const struct port *port = &d->ports[number];
	uint64_t rest = port->used;
	uint64_t later = rest & ~(((uint64_t)1 << port->turn) - 1);

	while (rest) {
		unsigned q = (unsigned)__builtin_ctzll(later ? later : rest);

		if (may_leave(d, port, q))
			return (int)q;
		rest &= ~((uint64_t)1 << q);
		later &= ~((uint64_t)1 << q);
	}
	return -1;
}

bool reorder_ready(const struct reorder_destination *d, uint16_t port)
{
	return d->ports[port].normal.first != NONE ||
	       (d->ports[port].used && ready_queue(d, port) >= 0);
}

uint32_t reorder_dequeue(struct reorder_destination *d, uint16_t number, int64_t now)
{
	struct port *port = &d->ports[number];
	int q = port->used ? ready_queue(d, number) : -1;
	struct node *node;
	uint32_t flow, handle;

	if (q < 0) {
		if (port->normal.first == NONE)
			return REORDER_NO_PACKET;
		port->out++;
		return remove_first(d, &port->normal)->handle;
	}
	node = remove_first(d, &port->queue[q].fifo);
	flow = node->flow;
	handle = node->handle;
	uncount_held(d, &port->queue[q], node);
	port->turn = (unsigned)(q + 1) % REORDER_QUEUES;
	if (port->queue[q].fifo.first == NONE)
		port->used &= ~((uint64_t)1 << q);
	if (!--d->flows[flow].held) {
		leave_queue(d, port, flow);
		reorder_drained(d, flow, now);
	}
	return handle;
}

uint64_t reorder_backlog(const struct reorder_destination *d, uint16_t number)
{
	const struct port *port = &d->ports[number];
	uint64_t bytes = port->normal.bytes, rest = port->used;

	for (; rest; rest &= rest - 1) {
		unsigned q = (unsigned)__builtin_ctzll(rest);

		if (d->flows[d->nodes[port->queue[q].fifo.first].flow].state == DRAINING)
			bytes += port->queue[q].fifo.bytes;
	}
	return bytes;
}

uint64_t reorder_held_bytes(const struct reorder_destination *d)
{
	return d->held_bytes;
}

uint64_t reorder_held_packets(const struct reorder_destination *d)
{
	return d->held_packets;
}

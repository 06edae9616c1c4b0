/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One random run: two source halves, paths that are FIFOs with delays that come and go, and one
 * destination half with two ports. Every shim goes through its encoding. What leaves the ports is
 * compared with what was sent.
 *
 * A run is small (a few hundred packets) and its parameters are extreme on purpose: tables of eight
 * entries, one or two queues, bounds of a few packets, moves every few packets.
 */
#include "reorder/check/check.h"

#include "reorder/internal.h"

#include <stdlib.h>
#include <string.h>

#define SOURCES 2
#define PORTS	2
#define PATHS	4
#define FLOWS	10
#define PACKETS 512
#define EVENTS	4096
#define US	((int64_t)1000 * 1000)

enum kind { SEND, ARRIVE, LINK_FREE, CLEAR, TIMER };

struct event {
	int64_t time;
	uint32_t order;
	uint16_t kind;
	uint16_t what;
};

struct sent {
	uint16_t flow;
	uint16_t number; /* in its flow */
	uint16_t size;
	bool shimmed;
	bool left;
	uint8_t shim[REORDER_SHIM_MAX];
	uint8_t shim_size;
};

struct clear {
	uint16_t source;
	uint8_t epoch;
	struct reorder_key key;
	uint32_t id;
};

struct traffic {
	struct reorder_key key;
	uint32_t id;
	uint16_t source, port;
	uint16_t next, packets;
	int64_t gap;
	int last; /* highest number that left */
};

struct world {
	const struct check_options *options;
	struct check_result *result;
	uint64_t random;
	int64_t now;
	int64_t skew[SOURCES + 1], drift[SOURCES + 1];
	struct reorder_source *source[SOURCES];
	struct reorder_destination *destination;
	int64_t uplink_free[SOURCES][PATHS], last_arrival[SOURCES][PATHS], delay[SOURCES][PATHS];
	bool broken[SOURCES][PATHS], any_broken;
	int64_t link_free[PORTS];
	bool link_busy[PORTS], kick[PORTS];
	struct traffic flow[FLOWS];
	unsigned flows, loss, force;
	int64_t clear_delay, per_byte;
	struct sent sent[PACKETS];
	unsigned packets;
	struct clear clear[PACKETS];
	unsigned clears;
	struct event heap[EVENTS];
	unsigned events;
	uint32_t order;
};

/* The context of a source's callback. */
struct uplinks {
	struct world *world;
	unsigned source;
};

static uint64_t draw(struct world *w)
{
	uint64_t x = w->random += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static int64_t below(struct world *w, int64_t limit)
{
	return limit > 0 ? (int64_t)(draw(w) % (uint64_t)limit) : 0;
}

static bool chance(struct world *w, unsigned in_thousand)
{
	return (unsigned)below(w, 1000) < in_thousand;
}

/* What a switch's clock shows: switches 0 and 1 are the sources. */
static int64_t clock_of(const struct world *w, unsigned which)
{
	return 2000000 * US + w->now + w->skew[which] + w->now / 1000000 * w->drift[which];
}

static bool earlier(const struct event *a, const struct event *b)
{
	return a->time < b->time || (a->time == b->time && (int32_t)(a->order - b->order) < 0);
}

static void at(struct world *w, int64_t time, enum kind kind, unsigned what)
{
	struct event e = {time, w->order++, (uint16_t)kind, (uint16_t)what};
	unsigned i = w->events++;

	if (w->events == EVENTS)
		abort();
	for (; i && earlier(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = e;
}

static struct event next_event(struct world *w)
{
	struct event first = w->heap[0], last = w->heap[--w->events];
	unsigned i = 0, child;

	while ((child = 2 * i + 1) < w->events) {
		if (child + 1 < w->events && earlier(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!earlier(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return first;
}

static int64_t uplink_wait(void *context, uint16_t destination, uint8_t path)
{
	const struct uplinks *u = context;
	int64_t free = u->world->uplink_free[u->source][path];

	if (u->world->broken[u->source][path])
		return INT64_MAX;
	return free > u->world->now ? free - u->world->now : 0;
}

static void on_clear(void *context, uint16_t source, const struct reorder_key *key, uint32_t id,
		     uint8_t epoch)
{
	struct world *w = context;

	if (w->options->loss && chance(w, w->loss))
		return;
	if (w->clears == PACKETS)
		return; /* lost */
	w->clear[w->clears] = (struct clear){source, epoch, *key, id};
	at(w, w->now + 50000 + below(w, w->clear_delay), CLEAR, w->clears++);
}

static void on_ready(void *context, uint16_t port)
{
	((struct world *)context)->kick[port] = true;
}

static void leave(struct world *w, uint32_t handle)
{
	struct sent *p = &w->sent[handle];
	struct traffic *flow = &w->flow[p->flow];

	w->result->arrived++;
	if (p->left)
		w->result->wrong = "a packet left twice";
	p->left = true;
	if (p->number < flow->last)
		w->result->misordered++;
	else
		flow->last = p->number;
}

static void run_link(struct world *w, unsigned port)
{
	uint32_t handle;

	w->kick[port] = false;
	if (w->link_busy[port])
		return;
	handle = reorder_dequeue(w->destination, (uint16_t)port, clock_of(w, SOURCES));
	if (handle == REORDER_NO_PACKET)
		return;
	leave(w, handle);
	w->link_busy[port] = true;
	at(w, w->now + w->sent[handle].size * w->per_byte, LINK_FREE, port);
}

static void run_links(struct world *w)
{
	for (unsigned port = 0; port < PORTS; port++)
		if (w->kick[port])
			run_link(w, port);
}

/* The delay behind a switch: mostly little changes, at times a jump. */
static int64_t path_delay(struct world *w, unsigned source, unsigned path)
{
	int64_t *delay = &w->delay[source][path];

	if (chance(w, 60))
		*delay = US + below(w, 30 * US);
	else
		*delay += below(w, 200000) - 100000;
	if (*delay < US)
		*delay = US;
	return *delay;
}

static void transmit(struct world *w, unsigned number, unsigned source, unsigned path)
{
	int64_t *free = &w->uplink_free[source][path], *last = &w->last_arrival[source][path];
	int64_t departure = *free > w->now ? *free : w->now, arrival;

	*free = departure + w->sent[number].size * 80;
	arrival = *free + path_delay(w, source, path);
	if (arrival <= *last)
		arrival = *last + 1000 + below(w, 84000);
	*last = arrival;
	if (w->broken[source][path] || (w->options->loss && chance(w, w->loss))) {
		w->result->lost++;
		return;
	}
	at(w, arrival, ARRIVE, number);
}

static void send(struct world *w, unsigned index)
{
	struct traffic *flow = &w->flow[index];
	struct sent *p = &w->sent[w->packets];
	struct reorder_source *source = w->source[flow->source];
	struct reorder_shim shim;
	uint8_t path;

	if (w->packets == PACKETS)
		return;
	*p = (struct sent){.flow = (uint16_t)index, .number = flow->next++};
	p->size = (uint16_t)(84 + below(w, 1000));
	if (chance(w, w->force))
		reorder_source_force(source, &flow->key, flow->id);
	if (reorder_source_route(source, &flow->key, flow->id, 0, p->size,
				 clock_of(w, flow->source), &shim)) {
		path = reorder_source_ecmp(source, flow->id, 0);
	} else {
		path = shim.path;
		p->shimmed = true;
		p->shim_size = (uint8_t)reorder_shim_encode(&shim, p->shim);
	}
	w->result->sent++;
	transmit(w, w->packets++, flow->source, path);
	if (flow->next < flow->packets)
		at(w, w->now + (chance(w, 50) ? below(w, 60 * US) : below(w, flow->gap)), SEND,
		   index);
}

static void arrive(struct world *w, unsigned number)
{
	struct sent *p = &w->sent[number];
	const struct traffic *flow = &w->flow[p->flow];
	struct reorder_shim shim;
	struct reorder_packet packet = {
		.handle = number,
		.size = p->size,
		.port = flow->port,
		.ingress = flow->source,
		.source = flow->source,
		.id = flow->id,
		.key = &flow->key,
	};

	if (p->shimmed) {
		if (reorder_shim_decode(&shim, p->shim, p->shim_size) != p->shim_size)
			w->result->wrong = "a shim was not read as it was written";
		packet.shim = &shim;
	}
	if (reorder_enqueue(w->destination, &packet, clock_of(w, SOURCES)))
		w->result->refused++;
	w->kick[flow->port] = true;
}

static void create(struct world *w, struct uplinks *uplinks)
{
	int64_t per_byte = w->per_byte = chance(w, 500) ? 80 : 320;
	struct reorder_destination_config d = {
		.size = sizeof(d),
		.mode = chance(w, 200) ? REORDER_SW : REORDER_HW,
		.estimator = chance(w, 200) ? REORDER_MG1 : REORDER_SAMPLE,
		.measure = true,
		.flows = chance(w, 30) ? 8 : 64,
		.packets = chance(w, 100) ? 40 : PACKETS,
		.sources = SOURCES,
		.paths = PATHS,
		.ports = PORTS,
		.ingresses = SOURCES,
		.queues = (uint8_t)(1 + below(w, 3)),
		.rate = (uint64_t)(8000000000000 / per_byte),
		.before = 4 * US,
		.after = 4 * US,
		.margin = 20 * US,
		.hold = 150 * US,
		.inactive = 1000 * US,
		.again = 10 * US,
		.held_ingress = chance(w, 100) ? 10000 : 1000000,
		.ready = on_ready,
		.clear = on_clear,
		.context = w,
	};
	struct reorder_source_config s = {
		.size = sizeof(s),
		.flows = chance(w, 30) ? 8 : 64,
		.destinations = 1,
		.paths = PATHS,
		.high = 4 * US,
		.low = 8 * US,
		.gain = US,
		.most = INT64_MAX,
		.budget = chance(w, 500) ? UINT32_MAX : 5000,
		.pace = below(w, 8 * US),
		.inactive = 2000 * US,
		.fresh = 16 * US,
		.per_byte = chance(w, 500) ? 2 * per_byte : 0,
		.lately = 4 * US,
		.wait = uplink_wait,
	};

	if (reorder_destination_create(&w->destination, &d))
		abort();
	reorder_without_rules(w->destination, w->options->without);
	for (unsigned i = 0; i < SOURCES; i++) {
		uplinks[i] = (struct uplinks){w, i};
		s.seed = (uint32_t)draw(w);
		s.context = &uplinks[i];
		if (reorder_source_create(&w->source[i], &s))
			abort();
	}
	for (unsigned i = 0; i <= SOURCES; i++) {
		w->skew[i] = below(w, 2 * w->options->skew + 1) - w->options->skew;
		w->drift[i] = below(w, 2 * w->options->drift + 1) - w->options->drift;
	}
}

static void create_flows(struct world *w)
{
	w->flows = 1 + (unsigned)below(w, FLOWS);
	w->loss = (unsigned)below(w, 40);
	w->force = (unsigned)below(w, chance(w, 500) ? 1000 : 100);
	w->clear_delay = chance(w, 500) ? US / 2 : 10 * US;
	for (unsigned i = 0; i < w->flows; i++) {
		struct traffic *flow = &w->flow[i];
		uint64_t address[2] = {draw(w), i};

		reorder_key(&flow->key, address, address, (uint16_t)i, 4791, 17);
		flow->id = reorder_id(&flow->key);
		if (chance(w, 10))
			flow->id = 7; /* two flows of one number */
		flow->source = (uint16_t)below(w, SOURCES);
		flow->port = (uint16_t)(chance(w, 300) ? 1 : 0);
		flow->packets = (uint16_t)(1 + below(w, PACKETS / FLOWS));
		flow->gap = 20000 + below(w, 600000);
		flow->last = -1;
		at(w, below(w, 20 * US), SEND, i);
	}
	for (unsigned s = 0; s < SOURCES; s++)
		for (unsigned p = 0; p < PATHS; p++)
			w->delay[s][p] = US + below(w, 20 * US);
}

/* With losses, a path may break. */
static void break_a_path(struct world *w)
{
	if (w->options->loss && chance(w, 2))
		w->broken[below(w, SOURCES)][below(w, PATHS - 1)] = w->any_broken = true;
}

static void handle(struct world *w, const struct event *e)
{
	const struct clear *c = &w->clear[e->what];

	switch ((enum kind)e->kind) {
	case SEND:
		break_a_path(w);
		send(w, e->what);
		break;
	case ARRIVE: arrive(w, e->what); break;
	case LINK_FREE:
		w->link_busy[e->what] = false;
		w->kick[e->what] = true;
		break;
	case CLEAR: reorder_source_clear(w->source[c->source], &c->key, c->id, c->epoch); break;
	case TIMER: reorder_expire(w->destination, clock_of(w, SOURCES)); break;
	}
}

static void conclude(struct world *w)
{
	struct check_result *r = w->result;
	struct reorder_destination_counters d;

	reorder_destination_counters(w->destination, &d, sizeof(d));
	r->late += d.late;
	if (w->any_broken)
		r->late += d.doubled;
	r->no_entry += d.no_entry;
	r->held += d.held;
	r->by_tail += d.by_tail;
	r->by_proof += d.by_proof;
	r->by_timer += d.by_timer;
	r->by_bound += d.by_bound;
	for (unsigned i = 0; i < SOURCES; i++) {
		struct reorder_source_counters s;

		reorder_source_counters(w->source[i], &s, sizeof(s));
		r->reroutes += s.reroutes;
		/* Without an entry a flow changes its path unseen when that breaks. */
		if (w->any_broken)
			r->no_entry += s.no_entry;
		reorder_source_destroy(w->source[i]);
	}
	if (r->sent != r->arrived + r->lost + r->refused)
		r->wrong = "a packet did not leave";
	if (reorder_held_packets(w->destination) || reorder_held_bytes(w->destination))
		r->wrong = "packets are held when all have left";
	if (d.holds != d.by_tail + d.by_proof + d.by_timer + d.by_bound && !w->options->loss)
		r->wrong = "a hold did not end";
	if (r->misordered > r->late + r->no_entry)
		r->wrong = "packets out of order that were not counted";
	reorder_destination_destroy(w->destination);
}

void check_run(const struct check_options *options, uint64_t seed, struct check_result *result)
{
	static struct world world; /* large; one run at a time */
	struct world *w = &world;
	struct uplinks uplinks[SOURCES];
	int64_t timer = REORDER_NEVER;

	memset(w, 0, offsetof(struct world, sent));
	w->packets = w->clears = w->events = w->order = 0;
	memset(result, 0, sizeof(*result));
	w->options = options;
	w->result = result;
	w->random = seed;
	create(w, uplinks);
	create_flows(w);
	while (w->events) {
		struct event e = next_event(w);
		int64_t due;

		w->now = e.time;
		if (e.kind == TIMER && e.time == timer)
			timer = REORDER_NEVER;
		handle(w, &e);
		run_links(w);
		due = reorder_deadline(w->destination);
		if (due == REORDER_NEVER)
			continue;
		/* The destination's clock runs a little differently: a moment later is late enough.
		 * */
		due = w->now + (due - clock_of(w, SOURCES)) + US / 10;
		if (due < timer && timer - due > US / 5) {
			timer = due > w->now ? due : w->now;
			at(w, timer, TIMER, 0);
		}
	}
	conclude(w);
}

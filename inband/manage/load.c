/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * See load.h. Switches nearer to the nodes come first: while a load takes ways out of the tables,
 * nobody below sends any more to where those ways were. When all are written, the network is looked
 * at again; what has changed meanwhile is another round.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/load.h"

#define AT_ONCE	   64 /* switches */
#define MAX_ROUNDS 8
#define NO_RANK	   255

struct loader {
	struct fabric *fabric;
	const struct machine *plan;
	struct model *model;
	struct loaded *loaded;
	load_progress *progress;
	load_done *done;
	void *arg;
	struct routes *routes, *before; /* what is being written, and what was; NULL: unknown */
	bool *live;			/* ports */
	bool *reachable;		/* chips */
	bool *touched;			/* chips: that this load has written to */
	bool refused, back;		/* a switch did not keep its tables; all is taken back */
	uint32_t *order;		/* switches of the plan by rank */
	uint32_t count, next, open;
	int status;
	uint64_t begun;
	struct load_result result;
};

struct writing {
	struct loader *loader;
	struct device *device;
	uint32_t chip;
	struct table_image image;
};

static struct device *device_of(const struct loader *l, uint32_t chip)
{
	const struct machine_chip *c = &l->plan->chips[chip];

	return model_find(l->model, c->type, c->id);
}

/* A cable of the plan may be used when both its ends see each other there. */
static bool is_live(const struct loader *l, uint32_t port)
{
	const struct machine *m = l->plan;
	uint32_t chip = m->ports[port].chip, peer = m->ports[port].peer;
	const struct device *d = device_of(l, chip), *other;
	const struct model_port *p;

	if (!d || peer == MACHINE_NONE)
		return false;
	other = device_of(l, m->ports[peer].chip);
	p = &d->port[port - m->chips[chip].first_port];
	return other && p->state == NEIGHBOUR_UP && !p->lost && !p->resting &&
	       p->peer == other->number &&
	       p->peer_port == peer - m->chips[m->ports[peer].chip].first_port;
}

/* Which chips live cables lead to from the server's own: others cannot be written, nor need it. */
static int find_reachable(struct loader *l)
{
	const struct machine *m = l->plan;
	const struct target *self = &l->model->devices[0]->target;
	uint32_t *queue = malloc((m->chip_count + 1) * sizeof(*queue)), head = 0, tail = 0;
	uint32_t from = machine_find(m, self->type, self->id);

	if (!queue)
		return -ENOMEM;
	memset(l->reachable, 0, m->chip_count);
	if (from != MACHINE_NONE) {
		l->reachable[from] = true;
		queue[tail++] = from;
	}
	while (head < tail) {
		const struct machine_chip *c = &m->chips[queue[head++]];

		for (unsigned p = 0; p < c->ports; p++) {
			uint32_t port = c->first_port + p, next;

			if (!l->live[port])
				continue;
			next = m->ports[m->ports[port].peer].chip;
			if (l->reachable[next])
				continue;
			l->reachable[next] = true;
			queue[tail++] = next;
		}
	}
	free(queue);
	return 0;
}

/* Whether any has changed since it was looked at last. */
static bool look_at_links(struct loader *l)
{
	bool changed = false;

	for (uint32_t i = 0; i < l->plan->port_count; i++) {
		bool live = is_live(l, i);

		changed |= live != l->live[i];
		l->live[i] = live;
	}
	return changed;
}

static uint32_t planned_entry(const void *arg, uint32_t chip, unsigned in_port, unsigned index)
{
	return routes_entry(arg, chip, in_port, index);
}

/* The tables of this round. */
static int compute(struct loader *l)
{
	uint32_t port;
	int ret = find_reachable(l);

	if (!ret)
		ret = routes_create(l->plan, l->live, &l->routes);

	if (ret)
		return ret;
	ret = routes_cycle(l->plan, planned_entry, l->routes, &port);
	return ret > 0 ? -ELOOP : ret;
}

static void sort_by_rank(struct loader *l)
{
	unsigned highest = 0;

	for (uint32_t c = 0; c < l->plan->nrcs; c++)
		if (l->routes->rank[c] != NO_RANK && l->routes->rank[c] > highest)
			highest = l->routes->rank[c];
	l->count = 0;
	for (unsigned rank = 0; rank <= highest; rank++)
		for (uint32_t c = 0; c < l->plan->chip_count; c++)
			if (l->plan->chips[c].type == NMP_NRC && l->routes->rank[c] == rank)
				l->order[l->count++] = c;
}

/* False: the switch has these tables already. */
static bool make_image(const struct loader *l, uint32_t chip, struct table_image *image)
{
	const struct routes *old = l->loaded->unknown[chip] ? NULL : l->before;
	uint32_t all = (1u << l->plan->chips[chip].ports) - 1, up = l->routes->up_ports[chip];
	const uint32_t groups[2] = {all & ~up, up & all};
	bool any = false;

	image->number = l->result.number;
	image->groups = 0;
	for (unsigned i = 0; i < 2; i++) {
		unsigned g = image->groups, in = groups[i] ? __builtin_ctz(groups[i]) : 0;

		if (!groups[i])
			continue;
		image->ports[g] = groups[i];
		for (unsigned e = 0; e < TABLE_ENTRIES; e++) {
			image->entry[g][e] = routes_entry(l->routes, chip, in, e);
			image->stale[g][e / 2] =
				(e % 2 && image->stale[g][e / 2]) || !old ||
				old->up_ports[chip] != l->routes->up_ports[chip] ||
				routes_entry(old, chip, in, e) != image->entry[g][e];
			any |= image->stale[g][e / 2];
		}
		image->groups++;
	}
	return any;
}

static void write_more(struct loader *l);

static void written(void *arg, int status, const struct facts *facts)
{
	struct writing *w = arg;
	struct loader *l = w->loader;

	/* A switch that is gone needs no tables; the links that it took along are another round. */
	if (status == -EIO)
		l->refused = true;
	if (status) {
		l->result.failed++;
		l->result.device = w->device->number;
	} else {
		l->result.switches++;
	}
	l->loaded->unknown[w->chip] = status;
	l->touched[w->chip] = true;
	if (l->progress)
		l->progress(l->arg, l->next - l->open, l->count);
	free(w);
	l->open--;
	write_more(l);
}

static void loader_free(struct loader *l)
{
	free(l->live);
	free(l->reachable);
	free(l->touched);
	free(l->order);
	free(l);
}

static void end(struct loader *l)
{
	l->result.time = l->fabric->ops->now(l->fabric) - l->begun;
	routes_destroy(l->before);
	if (l->status) {
		routes_destroy(l->routes);
		l->routes = NULL;
	}
	l->loaded->routes = l->routes;
	l->loaded->number = l->result.number;
	if (!l->back) {
		free(l->loaded->live);
		l->loaded->live = l->live;
		l->live = NULL;
	}
	l->done(l->arg, l->status, &l->result);
	loader_free(l);
}

/* Whether all ways of the load before are still there. */
static bool can_go_back(const struct loader *l)
{
	if (!l->before || !l->loaded->live)
		return false;
	for (uint32_t i = 0; i < l->plan->port_count; i++)
		if (l->loaded->live[i] && !is_live(l, i))
			return false;
	return true;
}

/* The tables of the load before, for all that was written since; what is nearer to the roots comes
 * first. */
static bool go_back(struct loader *l)
{
	struct routes *now = l->routes;
	uint32_t count = 0;

	if (!l->refused || l->back || l->status || !can_go_back(l))
		return false;
	l->back = l->result.rolled_back = true;
	l->routes = l->before;
	l->before = now;
	for (uint32_t i = 0; i < l->count; i++)
		if (l->touched[l->order[i]])
			l->order[count++] = l->order[i];
	for (uint32_t i = 0; i < count / 2; i++) {
		uint32_t chip = l->order[i];

		l->order[i] = l->order[count - 1 - i];
		l->order[count - 1 - i] = chip;
	}
	l->count = count;
	l->next = 0;
	return true;
}

static void begin_round(struct loader *l)
{
	l->result.rounds++;
	l->status = compute(l);
	l->next = 0;
	if (!l->status)
		sort_by_rank(l);
	else
		l->count = 0;
}

/* One more round, if the network has changed. */
static bool again(struct loader *l)
{
	if (l->back || l->status || !look_at_links(l))
		return false;
	if (l->result.rounds == MAX_ROUNDS) {
		l->status = -EAGAIN;
		return false;
	}
	routes_destroy(l->before);
	l->before = l->routes;
	l->routes = NULL;
	l->result.failed = 0;
	l->result.device = MODEL_NONE;
	begin_round(l);
	return true;
}

static void write_more(struct loader *l)
{
	do {
		if (l->refused && !l->back && can_go_back(l))
			l->next = l->count;
		while (!l->status && l->next < l->count && l->open < AT_ONCE) {
			uint32_t chip = l->order[l->next++];
			struct device *d = device_of(l, chip);
			struct writing *w;

			if (!d || d->state != DEVICE_KNOWN)
				continue;
			/* What nothing leads to gets its tables when it is back. */
			if (!l->reachable[chip]) {
				l->loaded->unknown[chip] = true;
				continue;
			}
			w = malloc(sizeof(*w));
			if (!w) {
				l->status = -ENOMEM;
				break;
			}
			w->loader = l;
			w->device = d;
			w->chip = chip;
			if (!make_image(l, chip, &w->image)) {
				free(w);
				continue;
			}
			l->open++;
			l->status = l->fabric->ops->tables_write(l->fabric, &d->target, &w->image,
								 written, w);
			if (l->status) {
				l->open--;
				free(w);
			}
		}
		if (l->open)
			return;
	} while (go_back(l) || again(l));
	end(l);
}

int load_begin(struct fabric *fabric, const struct machine *plan, struct model *model,
	       struct loaded *loaded, load_progress *progress, load_done *done, void *arg)
{
	struct loader *l = calloc(1, sizeof(*l));
	int ret = -ENOMEM;

	if (!l)
		return -ENOMEM;
	*l = (struct loader){.fabric = fabric,
			     .plan = plan,
			     .model = model,
			     .loaded = loaded,
			     .progress = progress,
			     .done = done,
			     .arg = arg,
			     .begun = fabric->ops->now(fabric)};
	l->result.number = loaded->number + 1;
	l->result.device = MODEL_NONE;
	l->live = calloc(plan->port_count + 1, sizeof(*l->live));
	l->order = malloc((plan->chip_count + 1) * sizeof(*l->order));
	if (!loaded->unknown)
		loaded->unknown = calloc(plan->chip_count + 1, sizeof(*loaded->unknown));
	l->reachable = calloc(plan->chip_count + 1, sizeof(*l->reachable));
	l->touched = calloc(plan->chip_count + 1, sizeof(*l->touched));
	if (l->live && l->reachable && l->touched && l->order && loaded->unknown) {
		look_at_links(l);
		begin_round(l);
		ret = l->status;
	}
	if (ret) {
		routes_destroy(l->routes);
		loader_free(l);
		return ret;
	}
	l->before = loaded->routes;
	loaded->routes = NULL;
	write_more(l);
	return 0;
}

void loaded_free(struct loaded *loaded)
{
	routes_destroy(loaded->routes);
	free(loaded->unknown);
	free(loaded->live);
	memset(loaded, 0, sizeof(*loaded));
}

struct waiting {
	bool done;
	int status;
	struct load_result result;
};

static void wait_done(void *arg, int status, const struct load_result *result)
{
	*(struct waiting *)arg = (struct waiting){true, status, *result};
}

int load(struct fabric *fabric, const struct machine *plan, struct model *model,
	 struct loaded *loaded, struct load_result *result)
{
	struct waiting w = {0};
	int ret = load_begin(fabric, plan, model, loaded, NULL, wait_done, &w);

	if (!ret)
		ret = fabric_finish(fabric);
	if (ret)
		return ret;
	*result = w.result;
	return w.done ? w.status : -EIO;
}

struct looking {
	load_found *found;
	void *arg;
	uint32_t open, half, highest;
};

static void look_over(struct looking *w)
{
	w->found(w->arg, 0, w->half, w->highest);
	free(w);
}

static void have_mark(void *arg, int status, const struct facts *facts)
{
	struct looking *w = arg;
	uint64_t scratch = status ? 0 : facts->value[0];

	w->half += (scratch & 0xff) == LOAD_BEGUN;
	if (LOAD_NUMBER(scratch) > w->highest)
		w->highest = LOAD_NUMBER(scratch);
	if (!--w->open)
		look_over(w);
}

int load_look(struct fabric *fabric, struct model *model, load_found *found, void *arg)
{
	struct looking *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct looking){.found = found, .arg = arg, .open = 1};
	for (uint32_t i = 0; i < model->count; i++) {
		struct device *d = model->devices[i];

		if (d->target.type != NMP_NRC || d->state != DEVICE_KNOWN)
			continue;
		w->open++;
		if (fabric->ops->register_read(fabric, &d->target, REG_SCRATCH0, 1, have_mark, w))
			w->open--;
	}
	if (!--w->open)
		look_over(w);
	return 0;
}

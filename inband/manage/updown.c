/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Switches are in an order: by rank, and by number within one. A link leads up to the one that is
 * later. Who has a way that only leads down takes it, even if one that leads up first were shorter:
 * so what a packet that came down meets is a way down, too.
 *
 * Between two switches at the top no way leads up first. What such a switch itself sends, which is
 * little, turns: it goes down to one that knows a way. Nobody else's packets come by there.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "inband/machine.h"
#include "inband/manage/updown.h"

#define FAR	    UINT16_MAX
#define MOST_LINES  1000000
#define FIRST_OTHER 0xc000 /* LIDs from here on are multicast's */

struct updown {
	const struct model *model;
	uint8_t *rank;
	uint32_t *order; /* switches, the lowest first */
	uint32_t count;
	uint32_t *first;      /* of a device: its ports in used[] */
	uint32_t *used;	      /* destinations of each port */
	uint16_t *down, *any; /* steps to the switch aimed at: down alone; up first where need be */
	bool *turns;
	uint32_t *queue;
	uint32_t to;
};

static int by_rank(const void *a, const void *b, void *arg)
{
	const struct updown *u = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (u->rank[x] != u->rank[y])
		return u->rank[x] < u->rank[y] ? -1 : 1;
	return x < y ? -1 : x > y;
}

static bool is_above(const struct updown *u, uint32_t a, uint32_t b)
{
	return by_rank(&a, &b, (void *)u) > 0;
}

/* The switch at a port; MODEL_NONE: none. */
static uint32_t switch_at(const struct updown *u, const struct device *d, unsigned p)
{
	uint32_t peer = model_up(&d->port[p]) ? d->port[p].peer : MODEL_NONE;

	return peer != MODEL_NONE && u->rank[peer] != MODEL_NO_RANK ? peer : MODEL_NONE;
}

int updown_create(const struct model *m, struct updown **made)
{
	struct updown *u = calloc(1, sizeof(*u));
	uint32_t ports = 0;

	if (!u)
		return -ENOMEM;
	u->model = m;
	for (uint32_t i = 0; i < m->count; i++)
		ports += m->devices[i]->nports;
	u->rank = malloc(m->count + 1);
	u->order = malloc((m->count + 1) * sizeof(*u->order));
	u->first = malloc((m->count + 1) * sizeof(*u->first));
	u->used = calloc(ports + 1, sizeof(*u->used));
	u->down = malloc((m->count + 1) * sizeof(*u->down));
	u->any = malloc((m->count + 1) * sizeof(*u->any));
	u->turns = calloc(m->count + 1, sizeof(*u->turns));
	u->queue = malloc((m->count + 1) * sizeof(*u->queue));
	if (!u->rank || !u->order || !u->first || !u->used || !u->down || !u->any || !u->turns ||
	    !u->queue || model_ranks(m, u->rank) < 0) {
		updown_destroy(u);
		return -ENOMEM;
	}
	for (uint32_t i = 0, at = 0; i < m->count; at += m->devices[i++]->nports) {
		u->first[i] = at;
		if (u->rank[i] != MODEL_NO_RANK)
			u->order[u->count++] = i;
	}
	qsort_r(u->order, u->count, sizeof(*u->order), by_rank, u);
	*made = u;
	return 0;
}

void updown_destroy(struct updown *u)
{
	free(u->rank);
	free(u->order);
	free(u->first);
	free(u->used);
	free(u->down);
	free(u->any);
	free(u->turns);
	free(u->queue);
	free(u);
}

/* From the switch aimed at upward: the ways down to it. */
static void aim_down(struct updown *u)
{
	uint32_t head = 0, tail = 0;

	u->down[u->to] = 0;
	u->queue[tail++] = u->to;
	while (head < tail) {
		const struct device *d = u->model->devices[u->queue[head++]];

		for (unsigned p = 0; p < d->nports; p++) {
			uint32_t peer = switch_at(u, d, p);

			if (peer == MODEL_NONE || u->down[peer] != FAR ||
			    !is_above(u, peer, d->number))
				continue;
			u->down[peer] = u->down[d->number] + 1;
			u->queue[tail++] = peer;
		}
	}
}

/* From the highest down: ways that lead up first. */
static void aim_up(struct updown *u)
{
	for (uint32_t n = u->count; n--;) {
		uint32_t i = u->order[n];
		const struct device *d = u->model->devices[i];

		u->any[i] = u->down[i];
		for (unsigned p = 0; u->down[i] == FAR && p < d->nports; p++) {
			uint32_t peer = switch_at(u, d, p);

			if (peer != MODEL_NONE && is_above(u, peer, i) &&
			    u->any[peer] < u->any[i] - 1)
				u->any[i] = u->any[peer] + 1;
		}
	}
}

/* What is left goes to a neighbour that knows a way. True: one more does. */
static bool aim_rest(struct updown *u)
{
	bool more = false;

	for (uint32_t n = 0; n < u->count; n++) {
		uint32_t i = u->order[n];
		const struct device *d = u->model->devices[i];

		for (unsigned p = 0; u->any[i] == FAR && p < d->nports; p++) {
			uint32_t peer = switch_at(u, d, p);

			if (peer != MODEL_NONE && u->any[peer] != FAR) {
				u->any[i] = u->any[peer] + 1;
				more = true;
			}
		}
	}
	return more;
}

int updown_aim(struct updown *u, uint32_t to, uint32_t *from)
{
	u->to = to;
	memset(u->down, 0xff, u->model->count * sizeof(*u->down));
	aim_down(u);
	aim_up(u);
	for (uint32_t n = 0; n < u->count && !u->rank[u->order[n]]; n++)
		if (u->any[u->order[n]] == FAR) {
			*from = u->order[n];
			return -EHOSTUNREACH;
		}
	for (uint32_t n = 0; n < u->count; n++)
		u->turns[u->order[n]] = u->any[u->order[n]] == FAR;
	while (aim_rest(u))
		;
	return 0;
}

/* Whether a switch may send on to another. */
static bool leads(const struct updown *u, uint32_t at, uint32_t peer)
{
	if (u->down[at] != FAR)
		return is_above(u, at, peer) && u->down[peer] + 1 == u->down[at];
	return (u->turns[at] || is_above(u, peer, at)) && u->any[peer] + 1 == u->any[at];
}

unsigned updown_next(struct updown *u, uint32_t at)
{
	const struct device *d = u->model->devices[at];
	uint32_t *used = u->used + u->first[at];
	unsigned best = UPDOWN_NONE;

	for (unsigned p = 0; p < d->nports; p++) {
		uint32_t peer = switch_at(u, d, p);

		if (peer != MODEL_NONE && leads(u, at, peer) &&
		    (best == UPDOWN_NONE || used[p] < used[best]))
			best = p;
	}
	if (best != UPDOWN_NONE)
		used[best]++;
	return best;
}

/* An end port, or a switch: what has a LID. */
struct end {
	uint32_t device, at; /* at: its switch, or itself */
	uint8_t port, out;   /* out: of its switch; 0: the switch itself */
	uint64_t guid;
};

static uint32_t find_ends(const struct updown *u, const struct updown_names *names, struct end *end)
{
	const struct model *m = u->model;
	uint32_t count = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		const struct device *d = m->devices[i];
		bool is_switch = d->target.type == NMP_NRC;

		for (unsigned p = 0; p < (is_switch ? 1u : d->nports); p++) {
			uint32_t at = is_switch ? i : switch_at(u, d, p);
			uint64_t guid = names->guid(names->arg, i, p);

			if (at == MODEL_NONE || u->rank[at] == MODEL_NO_RANK || !guid)
				continue;
			end[count++] = (struct end){.device = i,
						    .at = at,
						    .port = p,
						    .out = is_switch ? 0 : d->port[p].peer_port,
						    .guid = guid};
		}
	}
	return count;
}

static int by_switch(const void *a, const void *b)
{
	const struct end *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->out < y->out ? -1 : x->out > y->out;
}

/* out[switch in the order][end]. */
static int find_ways(struct updown *u, const struct end *end, uint32_t ends, uint8_t *out,
		     uint32_t *from)
{
	int ret = 0;

	for (uint32_t e = 0; e < ends && !ret; e++) {
		if (!e || end[e].at != end[e - 1].at)
			ret = updown_aim(u, end[e].at, from);
		for (uint32_t n = 0; n < u->count && !ret; n++)
			out[(size_t)n * ends + e] =
				u->order[n] == end[e].at ? end[e].out : updown_next(u, u->order[n]);
		if (ret)
			u->to = end[e].at;
	}
	return ret;
}

/* LIDs are numbers in a row: OpenSM takes those that the ports have by then, by their GUIDs. */
static int write_ways(const struct updown *u, const struct updown_names *names,
		      const struct end *end, uint32_t ends, const uint8_t *out, FILE *file)
{
	char name[MACHINE_NAME_LEN];

	for (uint32_t n = 0; n < u->count; n++) {
		uint32_t i = u->order[n];

		fprintf(file, "Unicast lids [0x1-0x%x] of switch guid 0x%016" PRIx64 " (%s):\n",
			ends, names->guid(names->arg, i, 0), names->name(names->arg, i, name));
		for (uint32_t e = 0; e < ends; e++)
			fprintf(file, "0x%04x %03u : (%s portguid 0x%016" PRIx64 ": '%s')\n", e + 1,
				out[(size_t)n * ends + e],
				end[e].out ? "Channel Adapter" : "Switch", end[e].guid,
				names->name(names->arg, end[e].device, name));
		fprintf(file, "%u valid lids dumped\n", ends);
	}
	return ferror(file) ? -EIO : 0;
}

static int export_all(struct updown *u, const struct updown_names *names, struct end *end,
		      FILE *file, uint32_t *from)
{
	uint32_t ends = find_ends(u, names, end);
	uint8_t *out;
	int ret;

	if (ends >= FIRST_OTHER || (uint64_t)ends * u->count > MOST_LINES)
		return -EFBIG;
	qsort(end, ends, sizeof(*end), by_switch);
	out = malloc((size_t)ends * u->count + 1);
	if (!out)
		return -ENOMEM;
	ret = find_ways(u, end, ends, out, from);
	if (!ret)
		ret = write_ways(u, names, end, ends, out, file);
	free(out);
	return ret;
}

int updown_export(const struct model *m, const struct updown_names *names, FILE *file, char *error,
		  size_t length)
{
	char name[MACHINE_NAME_LEN], other[MACHINE_NAME_LEN];
	struct updown *u;
	struct end *end;
	uint32_t ports = 0, from = 0;
	int ret = updown_create(m, &u);

	if (ret)
		return ret;
	for (uint32_t i = 0; i < m->count; i++)
		ports += m->devices[i]->nports + 1;
	end = malloc((ports + 1) * sizeof(*end));
	ret = end ? export_all(u, names, end, file, &from) : -ENOMEM;
	if (ret == -EHOSTUNREACH)
		snprintf(error, length, "no way up and then down leads from %s to %s",
			 names->name(names->arg, from, name),
			 names->name(names->arg, u->to, other));
	free(end);
	updown_destroy(u);
	return ret;
}

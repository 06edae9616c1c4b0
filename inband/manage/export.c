/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See export.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/export.h"

static const char *node_id(const struct device *d, char id[32])
{
	snprintf(id, 32, "%c-%016" PRIx64, d->target.type == NMP_NRC ? 'S' : 'H', d->target.id);
	return id;
}

int export_topology(const struct model *m, export_name *name_of, const void *arg, FILE *file)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct device *d = m->devices[i];
		char id[32], name[MACHINE_NAME_LEN];

		fprintf(file, "%s\t%u \"%s\"\t# \"%s\"\n",
			d->target.type == NMP_NRC ? "Switch" : "Ca", d->nports, node_id(d, id),
			name_of(arg, i, name));
		for (unsigned p = 0; p < d->nports; p++) {
			const struct model_port *port = &d->port[p];

			if (model_up(port))
				fprintf(file, "[%u]\t\"%s\"[%u]\t# \"%s\"\n", p + 1,
					node_id(m->devices[port->peer], id), port->peer_port + 1u,
					name_of(arg, port->peer, name));
		}
		fputc('\n', file);
	}
	return ferror(file) ? -EIO : 0;
}

/*
 * Parts of the network. Switches have ranks, steps from the nodes. The parts of a rank are what
 * stays together of the switches up to that rank; a part lies within one of the next rank.
 */
struct parts {
	const struct model *model;
	uint8_t *rank;	/* of devices */
	uint32_t *root; /* union and find, by devices */
};

static uint32_t find(struct parts *t, uint32_t i)
{
	while (t->root[i] != i)
		i = t->root[i] = t->root[t->root[i]];
	return i;
}

/* Joins what links of switches up to a rank hold together. */
static void join(struct parts *t, unsigned rank)
{
	const struct model *m = t->model;

	for (uint32_t i = 0; i < m->count; i++) {
		const struct device *d = m->devices[i];

		if (t->rank[i] != rank)
			continue;
		for (unsigned p = 0; p < d->nports; p++)
			if (model_up(&d->port[p]) && t->rank[d->port[p].peer] <= rank)
				t->root[find(t, i)] = find(t, d->port[p].peer);
	}
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* "1-3,7" of sorted numbers. */
static void write_ranges(const uint64_t *id, uint32_t count, FILE *file)
{
	for (uint32_t i = 0, j; i < count; i = j) {
		for (j = i + 1; j < count && id[j] == id[j - 1] + 1;)
			j++;
		fprintf(file, "%s%" PRIu64, i ? "," : "", id[i]);
		if (j - i > 1)
			fprintf(file, "-%" PRIu64, id[j - 1]);
	}
}

/* Switches with nodes: the lowest parts. */
static int write_leaves(struct parts *t, const char *prefix, FILE *file)
{
	const struct model *m = t->model;

	for (uint32_t i = 0; i < m->count; i++) {
		const struct device *d = m->devices[i];
		uint64_t id[FABRIC_PORTS];
		uint32_t count = 0;

		if (t->rank[i])
			continue;
		for (unsigned p = 0; p < d->nports && p < FABRIC_PORTS; p++)
			if (model_up(&d->port[p]) && d->port[p].peer &&
			    m->devices[d->port[p].peer]->target.type == NMP_NIC)
				id[count++] = m->devices[d->port[p].peer]->target.id;
		qsort(id, count, sizeof(*id), by_id);
		fprintf(file, "SwitchName=s0_%" PRIu64 " Nodes=%s[", d->target.id, prefix);
		write_ranges(id, count, file);
		fputs("]\n", file);
	}
	return ferror(file) ? -EIO : 0;
}

/* A part's name: its rank, and the lowest ID of its switches with nodes. */
struct child {
	uint32_t part; /* of this rank */
	unsigned rank; /* of the name that the part had */
	uint64_t id;
};

static int by_part(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* The parts of a rank by those of the one before; a part of one part is that part. How many are
 * left. */
static uint32_t write_rank(struct parts *t, unsigned rank, struct child *children, uint32_t count,
			   FILE *file)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++)
		children[i].part = find(t, children[i].part);
	qsort(children, count, sizeof(*children), by_part);
	for (uint32_t i = 0, j; i < count; i = j) {
		struct child whole = children[i];

		for (j = i + 1; j < count && children[j].part == whole.part;)
			j++;
		if (j - i > 1) {
			fprintf(file, "SwitchName=s%u_%" PRIu64 " Switches=", rank, whole.id);
			for (uint32_t k = i; k < j; k++)
				fprintf(file, "%ss%u_%" PRIu64, k > i ? "," : "", children[k].rank,
					children[k].id);
			fputc('\n', file);
			whole.rank = rank;
		}
		children[left++] = whole;
	}
	return left;
}

static int write_parts(struct parts *t, const char *prefix, FILE *file)
{
	const struct model *m = t->model;
	struct child *children = malloc((m->count + 1) * sizeof(*children));
	int highest = model_ranks(m, t->rank);
	uint32_t count = 0;

	if (!children || highest < 0) {
		free(children);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < m->count; i++) {
		t->root[i] = i;
		if (t->rank[i] == 0)
			children[count++] = (struct child){i, 0, m->devices[i]->target.id};
	}
	write_leaves(t, prefix, file);
	for (int rank = 0; rank <= highest; rank++) {
		join(t, rank);
		count = write_rank(t, rank + 1, children, count, file);
	}
	free(children);
	return ferror(file) ? -EIO : 0;
}

int export_slurm(const struct model *m, const char *prefix, FILE *file)
{
	struct parts t = {.model = m,
			  .rank = malloc(m->count + 1),
			  .root = malloc((m->count + 1) * sizeof(uint32_t))};
	int ret = t.rank && t.root ? write_parts(&t, prefix, file) : -ENOMEM;

	free(t.rank);
	free(t.root);
	return ret;
}

/* The switch that a node is at; NULL: none of its links is up. */
static const struct device *switch_of(const struct model *m, const struct device *d)
{
	for (unsigned p = 0; p < d->nports; p++)
		if (model_up(&d->port[p]))
			return m->devices[d->port[p].peer];
	return NULL;
}

/* Why a node is not to get work; NULL: it may. */
static const char *why_not(const struct model *m, const struct device *d)
{
	const struct device *peer = d ? switch_of(m, d) : NULL;

	if (!d)
		return "not found";
	if (!peer)
		return "its link is down";
	if (peer->target.type == NMP_NRC && peer->state == DEVICE_SILENT)
		return "its switch does not answer";
	for (unsigned p = 0; p < peer->nports; p++)
		if (model_up(&peer->port[p]) &&
		    m->devices[peer->port[p].peer]->target.type == NMP_NRC)
			return NULL;
	return peer->target.type == NMP_NRC && m->switches > 1 ? "its switch has no link to others"
							       : NULL;
}

int export_drain(const struct model *m, const struct machine *plan, const char *prefix, FILE *file)
{
	for (uint32_t i = 0; plan && i < plan->chip_count - plan->servers; i++) {
		const struct machine_chip *c = &plan->chips[i];
		const char *why =
			c->type == NMP_NIC ? why_not(m, model_find(m, c->type, c->id)) : NULL;

		if (why)
			fprintf(file, "%s%u # %s\n", prefix, c->id, why);
	}
	for (uint32_t i = 1; !plan && i < m->count; i++) {
		const struct device *d = m->devices[i];
		const char *why = d->target.type == NMP_NIC ? why_not(m, d) : NULL;

		if (why)
			fprintf(file, "%s%" PRIu64 " # %s\n", prefix, d->target.id, why);
	}
	return ferror(file) ? -EIO : 0;
}

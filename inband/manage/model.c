/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See model.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/model.h"

void target_init(struct target *t, unsigned type, uint64_t id)
{
	memset(t, 0, sizeof(*t));
	t->type = type;
	t->id = id;
	t->last = &t->first;
}

void target_init_slow(struct target *t, const struct target *device)
{
	target_init(t, device->type, device->id);
	t->slow = true;
	t->way = device;
}

int model_create(struct model **made)
{
	struct model *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->hash_size = 1024;
	m->hash = malloc(m->hash_size * sizeof(*m->hash));
	if (!m->hash) {
		free(m);
		return -ENOMEM;
	}
	memset(m->hash, 0xff, m->hash_size * sizeof(*m->hash));
	*made = m;
	return 0;
}

void model_destroy(struct model *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; i < m->count; i++)
		free(m->devices[i]);
	free(m->devices);
	free(m->hash);
	free(m);
}

/* Open addressing; the slot of a device, or the free one where it would be. */
static uint32_t *slot_of(const struct model *m, unsigned type, uint64_t id)
{
	uint64_t h = (id ^ (uint64_t)type << 63) * 0x9e3779b97f4a7c15ull;

	for (uint32_t i = h >> 32;; i++) {
		uint32_t *slot = &m->hash[i & (m->hash_size - 1)];
		const struct device *d = *slot == MODEL_NONE ? NULL : m->devices[*slot];

		if (!d || (d->target.id == id && d->target.type == type))
			return slot;
	}
}

struct device *model_find(const struct model *m, unsigned type, uint64_t id)
{
	uint32_t *slot = slot_of(m, type, id);

	return *slot == MODEL_NONE ? NULL : m->devices[*slot];
}

static bool grow(struct model *m)
{
	uint32_t size = m->size ? 2 * m->size : 256, *hash;
	struct device **devices = realloc(m->devices, size * sizeof(*devices));

	if (!devices)
		return false;
	m->devices = devices;
	m->size = size;
	if (4 * size <= m->hash_size)
		return true;
	hash = malloc(4ul * size * sizeof(*hash));
	if (!hash)
		return false;
	free(m->hash);
	m->hash = hash;
	m->hash_size = 4 * size;
	memset(hash, 0xff, m->hash_size * sizeof(*hash));
	for (uint32_t i = 0; i < m->count; i++)
		*slot_of(m, m->devices[i]->target.type, m->devices[i]->target.id) = i;
	return true;
}

struct device *model_add(struct model *m, unsigned type, uint64_t id, unsigned nports)
{
	struct device *d;

	if (m->count == m->size && !grow(m))
		return NULL;
	d = calloc(1, sizeof(*d) + nports * sizeof(d->port[0]));
	if (!d)
		return NULL;
	target_init(&d->target, type, id);
	d->number = m->count;
	d->nports = nports;
	d->via = MODEL_NONE;
	for (unsigned i = 0; i < nports; i++)
		d->port[i].peer = MODEL_NONE;
	m->devices[m->count] = d;
	*slot_of(m, type, id) = m->count++;
	if (type == NMP_NRC)
		m->switches++;
	else
		m->nodes++;
	return d;
}

bool model_way(const struct device *from, unsigned port, unsigned peer_type, unsigned peer_port,
	       struct target *way)
{
	const struct target *t = &from->target;

	way->out = t->out;
	way->back = t->back;
	if (t->type == NMP_NRC) {
		if (way->out.hops == NMP_MAX_HOPS)
			return false;
		way->out.port[way->out.hops++] = port;
	}
	if (peer_type == NMP_NRC) {
		if (way->back.hops == NMP_MAX_HOPS)
			return false;
		memmove(way->back.port + 1, way->back.port, way->back.hops++);
		way->back.port[0] = peer_port;
	}
	return true;
}

static bool take_way(struct device *to, const struct device *from, unsigned port)
{
	struct target way;
	struct target *t = &to->target;

	if (!model_way(from, port, t->type, from->port[port].peer_port, &way))
		return false;
	to->via = from->number;
	to->hops = from->hops + (from->target.type == NMP_NRC);
	if (nmp_route_equal(&way.out, &t->out) && nmp_route_equal(&way.back, &t->back))
		return false;
	t->out = way.out;
	t->back = way.back;
	return true;
}

/* By links that are not lost, nearest first. changed: NULL, ways stay as they are. */
static int walk(struct model *m, bool *seen, bool *changed)
{
	uint32_t *queue = malloc((m->count + 1) * sizeof(*queue)), head = 0, tail = 0;

	if (!queue)
		return -ENOMEM;
	seen[0] = true; /* the server's own */
	queue[tail++] = 0;
	while (head < tail) {
		struct device *from = m->devices[queue[head++]];

		for (unsigned p = 0; p < from->nports; p++) {
			const struct model_port *port = &from->port[p];

			if (port->state != NEIGHBOUR_UP || port->lost || port->peer == MODEL_NONE ||
			    seen[port->peer])
				continue;
			seen[port->peer] = true;
			if (changed)
				changed[port->peer] = take_way(m->devices[port->peer], from, p);
			if (m->devices[port->peer]->target.type == NMP_NRC)
				queue[tail++] = port->peer;
		}
	}
	free(queue);
	return 0;
}

int model_reroute(struct model *m, bool *changed)
{
	bool *seen = calloc(m->count + 1, sizeof(*seen));
	int ret = seen ? walk(m, seen, changed) : -ENOMEM;

	free(seen);
	return ret;
}

int model_reached(const struct model *m, bool *reached)
{
	return m->count ? walk((struct model *)m, reached, NULL) : 0;
}

/* Where a search came from, and by which port. */
struct step {
	uint32_t from;
	uint8_t port;
	bool on_way; /* the device is on the way that is to be avoided */
};

/* Whether the way leads over the link at a port of a switch, in either direction. */
static bool way_has(const struct model *m, const struct device *to, const struct device *at,
		    unsigned p)
{
	const struct model_port *port = &at->port[p];

	unsigned left = NMP_MAX_HOPS + 1;

	for (const struct device *d = to; d->via != MODEL_NONE && left--; d = m->devices[d->via]) {
		const struct device *via = m->devices[d->via];
		unsigned out = d->target.out.hops ? d->target.out.port[d->target.out.hops - 1] : 0;

		if ((via == at && out == p) ||
		    (d == at && port->peer == via->number && port->peer_port == out))
			return via->target.type == NMP_NRC && d->target.type == NMP_NRC;
	}
	return false;
}

static bool search(const struct model *m, const struct device *to, struct step *step,
		   uint32_t *queue)
{
	unsigned left = NMP_MAX_HOPS + 1;
	uint32_t head = 0, tail = 0;

	for (uint32_t i = 0; i < m->count; i++)
		step[i] = (struct step){.from = MODEL_NONE};
	for (const struct device *d = to; d->via != MODEL_NONE && left--; d = m->devices[d->via])
		step[d->number].on_way = true;
	step[0].from = 0;
	queue[tail++] = 0;
	while (head < tail && step[to->number].from == MODEL_NONE) {
		const struct device *d = m->devices[queue[head++]];

		for (unsigned p = 0; p < d->nports; p++) {
			uint32_t peer = d->port[p].peer;

			if (!model_up(&d->port[p]) || step[peer].from != MODEL_NONE ||
			    (step[d->number].on_way && step[peer].on_way && way_has(m, to, d, p)))
				continue;
			step[peer].from = d->number;
			step[peer].port = p;
			if (m->devices[peer]->target.type == NMP_NRC)
				queue[tail++] = peer;
		}
	}
	return step[to->number].from != MODEL_NONE;
}

/* From the device back to the server: the way out is filled from its end. */
static bool write_way(const struct model *m, const struct device *to, const struct step *step,
		      struct nmp_route *out, struct nmp_route *back)
{
	uint8_t port[NMP_MAX_HOPS];
	unsigned hops = 0;

	*out = *back = (struct nmp_route){0};
	for (const struct device *d = to; d->number; d = m->devices[step[d->number].from]) {
		const struct device *from = m->devices[step[d->number].from];
		unsigned p = step[d->number].port;

		if (hops == NMP_MAX_HOPS || back->hops == NMP_MAX_HOPS)
			return false;
		if (from->target.type == NMP_NRC)
			port[hops++] = p;
		if (d->target.type == NMP_NRC)
			back->port[back->hops++] = from->port[p].peer_port;
	}
	while (hops)
		out->port[out->hops++] = port[--hops];
	return true;
}

bool model_other_way(const struct model *m, const struct device *to, struct nmp_route *out,
		     struct nmp_route *back)
{
	struct step *step = malloc(m->count * sizeof(*step));
	uint32_t *queue = malloc(m->count * sizeof(*queue));
	bool found =
		step && queue && search(m, to, step, queue) && write_way(m, to, step, out, back);

	free(step);
	free(queue);
	return found;
}

/* Whether the device at the other end has the link, too. */
static bool is_mutual(const struct model *m, uint32_t device, unsigned p)
{
	const struct model_port *port = &m->devices[device]->port[p];
	const struct device *peer = m->devices[port->peer];
	const struct model_port *back = &peer->port[port->peer_port];

	return port->peer_port < peer->nports && back->state == NEIGHBOUR_UP &&
	       back->peer == device && back->peer_port == p;
}

void model_count_links(struct model *m)
{
	uint32_t halves = 0;

	for (uint32_t i = 0; i < m->count; i++)
		for (unsigned p = 0; p < m->devices[i]->nports; p++) {
			const struct model_port *port = &m->devices[i]->port[p];

			if (port->state == NEIGHBOUR_UP && port->peer != MODEL_NONE)
				halves += is_mutual(m, i, p) ? 1 : 2;
		}
	m->links = halves / 2;
}

int model_ranks(const struct model *m, uint8_t *rank)
{
	uint32_t *queue = malloc((m->count + 1) * sizeof(*queue)), head = 0, tail = 0;
	int highest = 0;

	if (!queue)
		return -ENOMEM;
	memset(rank, MODEL_NO_RANK, m->count);
	for (uint32_t i = 1; i < m->count; i++) {
		const struct device *d = m->devices[i];

		for (unsigned p = 0; d->target.type == NMP_NIC && p < d->nports; p++) {
			uint32_t peer = d->port[p].peer;

			if (!model_up(&d->port[p]) || m->devices[peer]->target.type != NMP_NRC ||
			    rank[peer] == 0)
				continue;
			rank[peer] = 0;
			queue[tail++] = peer;
		}
	}
	while (head < tail) {
		const struct device *d = m->devices[queue[head++]];

		for (unsigned p = 0; p < d->nports; p++) {
			uint32_t peer = d->port[p].peer;

			if (!model_up(&d->port[p]) || m->devices[peer]->target.type != NMP_NRC ||
			    rank[peer] != MODEL_NO_RANK || rank[d->number] == MODEL_NO_RANK - 1)
				continue;
			rank[peer] = rank[d->number] + 1;
			highest = rank[peer];
			queue[tail++] = peer;
		}
	}
	free(queue);
	return highest;
}

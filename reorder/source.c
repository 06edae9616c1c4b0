/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The source half: the flow table, what is known of paths, and the rule by which a flow is moved.
 *
 * The table has buckets of four entries. An entry belongs to a flow until that has been silent for
 * as long as its packets may be on their way; then another flow may have it. A flow for which there
 * is none goes by the path of its hash, without a shim; so that it does not overtake itself, its
 * bucket remembers when that was, and an entry made soon after begins with that path.
 *
 * t_tx is the time at which the packet leaves this switch: now and the wait on its uplink. It grows
 * from packet to packet of a path, and what the destination measures is then the wait behind this
 * switch, which is added to the uplink's of the moment when paths are compared.
 */
#include "common/sized.h"
#include "reorder/reorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAYS   4
#define MOVING 1 /* rerouted, and CLEAR has not come */
#define FORCE  2 /* the next packet goes by another path */

struct entry {
	struct reorder_key key;
	int64_t last;	   /* time of the last packet's arrival; before INT64_MIN / 2: free */
	int64_t departure; /* t_tx of the last packet */
	int64_t old_departure;
	int64_t chosen; /* when the path was */
	uint64_t bytes; /* since then */
	uint32_t id;
	uint32_t back; /* packets since the reroute */
	uint16_t sequence;
	uint8_t path;
	uint8_t old_path;
	uint8_t epoch;
	uint8_t state;
};

struct path {
	int64_t remote; /* wait behind this switch, as reported */
	int64_t heard;	/* when */
	int64_t moved;	/* when a flow was last moved here */
};

/* What this switch sent by the paths of one number, to whatever destination. */
struct recent {
	uint64_t bytes;
	int64_t halved;
};

struct reorder_source {
	struct reorder_source_config config;
	struct entry *entries;
	int64_t *turned_away; /* of a bucket: the last packet without an entry */
	struct path *paths;
	struct recent *recent;
	bool *full; /* of a destination: it has no credit */
	uint32_t random;
	struct reorder_source_counters counters;
};

static bool valid(const struct reorder_source_config *c)
{
	return c->flows >= WAYS && !(c->flows & (c->flows - 1)) && c->destinations && c->paths &&
	       c->paths <= 254 && c->wait && c->inactive > 0 && c->fresh > 0;
}

int reorder_source_create(struct reorder_source **out, const struct reorder_source_config *wanted)
{
	const struct reorder_source_config *config;
	struct reorder_source *source;
	size_t paths;

	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	config = &source->config;
	if (copy_in(&source->config, sizeof(source->config), wanted) || !valid(config)) {
		free(source);
		return -EINVAL;
	}
	paths = (size_t)config->destinations * config->paths;
	source->random = config->seed * 2654435761u | 1;
	source->entries = calloc(config->flows, sizeof(*source->entries));
	source->turned_away = calloc(config->flows / WAYS, sizeof(*source->turned_away));
	source->paths = calloc(paths, sizeof(*source->paths));
	source->recent = calloc(config->paths, sizeof(*source->recent));
	source->full = calloc(config->destinations, sizeof(*source->full));
	if (!source->entries || !source->turned_away || !source->paths || !source->recent ||
	    !source->full) {
		reorder_source_destroy(source);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < config->flows; i++)
		source->entries[i].last = INT64_MIN;
	for (uint32_t i = 0; i < config->flows / WAYS; i++)
		source->turned_away[i] = INT64_MIN;
	for (size_t i = 0; i < paths; i++)
		source->paths[i] = (struct path){0, INT64_MIN / 2, INT64_MIN / 2};
	*out = source;
	return 0;
}

void reorder_source_destroy(struct reorder_source *source)
{
	if (!source)
		return;
	free(source->entries);
	free(source->turned_away);
	free(source->paths);
	free(source->recent);
	free(source->full);
	free(source);
}

static uint32_t next_random(struct reorder_source *source)
{
	uint32_t x = source->random;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return source->random = x;
}

static struct path *path_of(struct reorder_source *source, uint16_t destination, uint8_t path)
{
	return &source->paths[(size_t)destination * source->config.paths + path];
}

static int64_t uplink(struct reorder_source *source, uint16_t destination, uint8_t path)
{
	return source->config.wait(source->config.context, destination, path);
}

int64_t reorder_source_remote(struct reorder_source *source, uint16_t destination, uint8_t path,
			      int64_t now)
{
	const struct path *p = path_of(source, destination, path);
	int64_t age = now - p->heard;
	unsigned halvings;

	if (!p->remote || age >= 40 * source->config.fresh)
		return 0;
	halvings = (unsigned)(age / source->config.fresh);
	return p->remote >> halvings;
}

/* Bytes by paths of this number, halved each time they get older by lately. */
static struct recent *recent_of(struct reorder_source *source, uint8_t path, int64_t now)
{
	struct recent *recent = &source->recent[path];
	int64_t lately = source->config.lately, halvings;

	if (lately <= 0) {
		recent->bytes = 0;
		return recent;
	}
	halvings = (now - recent->halved) / lately;
	if (halvings > 0) {
		recent->bytes = halvings < 64 ? recent->bytes >> halvings : 0;
		recent->halved += halvings * lately;
	}
	return recent;
}

/* The whole wait on a path; INT64_MAX if it is down. */
static int64_t wait_of(struct reorder_source *source, uint16_t destination, uint8_t path,
		       int64_t now)
{
	int64_t local = uplink(source, destination, path);

	if (local == INT64_MAX)
		return local;
	if (source->config.penalty)
		local += source->config.penalty(source->config.context, destination, path);
	return local + reorder_source_remote(source, destination, path, now);
}

/*
 * That, and what the path was used lately: for flows that come to it. A flow leaves a path only for
 * its wait, or one that sends at line rate would be moved by its own bytes.
 */
static int64_t cost_of(struct reorder_source *source, uint16_t destination, uint8_t path,
		       int64_t now)
{
	int64_t wait = wait_of(source, destination, path, now);

	if (wait == INT64_MAX)
		return wait;
	return wait + (int64_t)recent_of(source, path, now)->bytes * source->config.per_byte;
}

/* The path that costs least, but for one; of equals, any. *cost: INT64_MAX if there is none. */
static uint8_t best_path(struct reorder_source *source, uint16_t destination, uint8_t but,
			 int64_t now, int64_t *cost)
{
	uint8_t paths = source->config.paths, best = but == REORDER_NO_PATH ? 0 : but;
	uint8_t first = (uint8_t)(((uint64_t)next_random(source) * paths) >> 32);

	*cost = INT64_MAX;
	for (unsigned i = 0; i < paths; i++) {
		uint8_t path = (uint8_t)(first + i < paths ? first + i : first + i - paths);
		int64_t w;

		if (path == but)
			continue;
		w = cost_of(source, destination, path, now);
		if (w < *cost) {
			*cost = w;
			best = path;
		}
	}
	return best;
}

uint8_t reorder_source_ecmp(struct reorder_source *source, uint32_t id, uint16_t destination)
{
	uint8_t paths = source->config.paths;
	uint8_t path = (uint8_t)(((uint64_t)id * paths) >> 32);

	for (unsigned i = 0; i < paths; i++, path = (uint8_t)((path + 1) % paths))
		if (uplink(source, destination, path) != INT64_MAX)
			return path;
	return path;
}

/* The entry of a flow, or a free one of its bucket, or NULL. */
static struct entry *find(struct reorder_source *source, const struct reorder_key *key, uint32_t id,
			  int64_t now, bool *found)
{
	struct entry *bucket = &source->entries[id & (source->config.flows - 1) & ~(WAYS - 1u)];
	struct entry *free_one = NULL;

	for (int i = 0; i < WAYS; i++) {
		struct entry *e = &bucket[i];

		if (e->id == id && e->last != INT64_MIN && !memcmp(&e->key, key, sizeof(*key))) {
			*found = true;
			return e;
		}
		if (e->last == INT64_MIN || now - e->last > source->config.inactive)
			free_one = e;
	}
	*found = false;
	return free_one;
}

static struct entry *lookup(struct reorder_source *source, const struct reorder_key *key,
			    uint32_t id)
{
	bool found;
	struct entry *e = find(source, key, id, 0, &found);

	return found ? e : NULL;
}

static int64_t *turned_away_of(struct reorder_source *source, uint32_t id)
{
	return &source->turned_away[(id & (source->config.flows - 1)) / WAYS];
}

static struct entry *new_entry(struct reorder_source *source, struct entry *e,
			       const struct reorder_key *key, uint32_t id, uint16_t destination,
			       int64_t now)
{
	int64_t turned_away = *turned_away_of(source, id), wait;

	memset(e, 0, sizeof(*e));
	e->key = *key;
	e->id = id;
	if (turned_away != INT64_MIN && now - turned_away <= source->config.inactive)
		e->path = reorder_source_ecmp(source, id, destination);
	else
		e->path = best_path(source, destination, REORDER_NO_PATH, now, &wait);
	e->chosen = now;
	e->bytes = 0;
	source->counters.flows++;
	return e;
}

/* What the destination would hold of a flow if the old path is that much slower, at its mean rate.
 * */
static uint64_t would_be_held(const struct entry *e, int64_t gain, int64_t now)
{
	int64_t span = now - e->chosen;

	return span > 0 ? (uint64_t)((unsigned __int128)e->bytes * (uint64_t)gain / (uint64_t)span)
			: UINT64_MAX;
}

/* Whether a flow shall leave its path now, and for which. */
static bool shall_move(struct reorder_source *source, struct entry *e, uint16_t destination,
		       int64_t now, uint8_t *to)
{
	const struct reorder_source_config *config = &source->config;
	int64_t here = wait_of(source, destination, e->path, now), there;
	struct path *target;

	if (here == INT64_MAX) { /* down: leave it, whatever has not come back */
		*to = best_path(source, destination, e->path, now, &there);
		source->counters.escapes += there != INT64_MAX;
		return there != INT64_MAX;
	}
	if (e->state & MOVING)
		return false;
	if (!(e->state & FORCE) && (here <= config->high || now - e->chosen < config->rest))
		return false;
	*to = best_path(source, destination, e->path, now, &there);
	if (there == INT64_MAX)
		return false;
	if (e->state & FORCE) {
		source->counters.forced++;
		return true;
	}
	if (there >= config->low || here - there < config->gain || here - there > config->most)
		return false;
	if (would_be_held(e, here - there, now) > config->budget) {
		source->counters.too_fast++;
		return false;
	}
	if (source->full[destination]) {
		source->counters.no_credit++;
		return false;
	}
	target = path_of(source, destination, *to);
	if (now - target->moved < config->pace) {
		source->counters.held_back++;
		return false;
	}
	target->moved = now;
	return true;
}

static void move(struct reorder_source *source, struct entry *e, uint8_t to, int64_t now)
{
	e->chosen = now;
	e->bytes = 0;
	e->old_path = e->path;
	e->old_departure = e->departure;
	e->path = to;
	e->epoch++;
	e->back = 0;
	e->state = MOVING;
	source->counters.reroutes++;
}

/* How long before this packet the old path's last one left; rounded so that it never left later. */
static int16_t ago_of(const struct entry *e)
{
	int64_t ago = (e->departure / REORDER_TICK - e->old_departure / REORDER_TICK) >> 6;

	if (ago > INT16_MAX)
		return INT16_MAX;
	return ago < -INT16_MAX ? REORDER_UNKNOWN : (int16_t)ago;
}

int reorder_source_route(struct reorder_source *source, const struct reorder_key *key, uint32_t id,
			 uint16_t destination, uint32_t size, int64_t now,
			 struct reorder_shim *shim)
{
	bool found;
	struct entry *e = find(source, key, id, now, &found);
	int64_t wait;
	uint8_t to;

	source->counters.packets++;
	if (!e) {
		*turned_away_of(source, id) = now;
		source->counters.no_entry++;
		return -ENOENT;
	}
	if (!found) {
		new_entry(source, e, key, id, destination, now);
	} else {
		if (now - e->last > source->config.inactive && e->state & MOVING) {
			e->state = 0;
			source->counters.forgotten++;
		}
		if (shall_move(source, e, destination, now, &to))
			move(source, e, to, now);
	}
	wait = uplink(source, destination, e->path);
	recent_of(source, e->path, now)->bytes += size;
	e->last = now;
	e->departure = now + (wait == INT64_MAX ? 0 : wait);
	e->sequence++;
	e->bytes += size;
	*shim = (struct reorder_shim){
		.path = e->path,
		.old_path = e->old_path,
		.epoch = e->epoch,
		.sequence = e->sequence,
		.t_tx = (uint32_t)(e->departure / REORDER_TICK),
	};
	if (e->state & MOVING) {
		e->back++;
		shim->flags = REORDER_REROUTED;
		shim->back = e->back > UINT16_MAX ? UINT16_MAX : (uint16_t)e->back;
		shim->ago = ago_of(e);
	}
	return 0;
}

void reorder_source_feedback(struct reorder_source *source, uint16_t destination,
			     const struct reorder_shim *shim, int64_t now)
{
	struct path *p;

	if (destination >= source->config.destinations)
		return;
	source->full[destination] = shim->flags & REORDER_NO_CREDIT;
	if (!(shim->flags & REORDER_FEEDBACK) || shim->fb_path >= source->config.paths)
		return;
	p = path_of(source, destination, shim->fb_path);
	p->remote = reorder_wait_decode(shim->fb_wait);
	p->heard = now;
}

void reorder_source_clear(struct reorder_source *source, const struct reorder_key *key, uint32_t id,
			  uint8_t epoch)
{
	struct entry *e = lookup(source, key, id);

	if (!e || !(e->state & MOVING) || e->epoch != epoch) {
		source->counters.stray_clears++;
		return;
	}
	e->state &= (uint8_t)~MOVING;
	source->counters.clears++;
}

int reorder_source_force(struct reorder_source *source, const struct reorder_key *key, uint32_t id)
{
	struct entry *e = lookup(source, key, id);

	if (!e)
		return -ENOENT;
	if (e->state & MOVING)
		return -EBUSY;
	e->state |= FORCE;
	return 0;
}

void reorder_source_counters(const struct reorder_source *source,
			     struct reorder_source_counters *counters, size_t size)
{
	copy_out(counters, size, &source->counters, sizeof(source->counters));
}

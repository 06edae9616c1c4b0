/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What is known of a path, and when the last packet on it will have come. Integers only: what is
 * computed here decides which queue a packet goes to.
 *
 * sample: the newest packet p of the path, whoever's it was: R = t_rx(p) + T_last - t_tx(p). The
 * offset of the clocks cancels.
 *
 * mg1: R = T_last + o_min + D, with o_min the least t_rx - t_tx seen, and D Pollaczek and
 * Khinchine's expected wait for packets that come at random: D = lambda E[S^2] / (2 (1 - rho)),
 * over the last 10 to 20 us. Patent, claim 6; docs/reorder.md says why it may not time a release.
 *
 * The wait on a path that sources are told of is what the newest packet of any source waited on a
 * path of that number, above the least on its own: the queues that matter are shared, and nobody
 * sees them as often as all sources together. What one path is longer than another by is each
 * source's own.
 *
 * The least offset is of the last 500 to 1,000 us, so that it follows clocks that drift.
 */
#include "reorder/internal.h"

#define LEAST_WINDOW ((int64_t)500 * 1000 * 1000)
#define LOAD_WINDOW  ((int64_t)10 * 1000 * 1000)
#define MARGIN_STEP  ((int64_t)16 * 1000) /* ps */

static void observe_load(struct path *path, uint32_t size, int64_t now)
{
	if (now - path->load_window >= LOAD_WINDOW) {
		bool next = now - path->load_window < 2 * LOAD_WINDOW;

		path->count[1] = next ? path->count[0] : 0;
		path->bytes[1] = next ? path->bytes[0] : 0;
		path->squares[1] = next ? path->squares[0] : 0;
		path->count[0] = path->bytes[0] = path->squares[0] = 0;
		path->load_window = now;
	}
	path->count[0]++;
	path->bytes[0] += size;
	path->squares[0] += (uint64_t)size * size;
}

static int64_t least(const struct path *path)
{
	return path->least[0] < path->least[1] ? path->least[0] : path->least[1];
}

void reorder_observe(struct reorder_destination *d, struct path *path, uint32_t t_tx, uint32_t size,
		     uint16_t ingress, int64_t now)
{
	int64_t ticks = now / REORDER_TICK;
	struct end *end;

	path->t_tx = t_tx;
	path->t_rx = now;
	/* The difference of two clocks, modulo 2^32 ticks: signed, as it drifts past 0. */
	path->ingress = ingress;
	if (!path->seen)
		path->offset = (int64_t)(int32_t)((uint32_t)ticks - t_tx);
	else
		path->offset += (int32_t)((uint32_t)ticks - t_tx - (uint32_t)path->offset);
	if (!path->seen || now - path->window >= LEAST_WINDOW) {
		path->least[1] = path->seen && now - path->window < 2 * LEAST_WINDOW
					 ? path->least[0]
					 : path->offset;
		path->least[0] = path->offset;
		path->window = now;
	} else if (path->offset < path->least[0]) {
		path->least[0] = path->offset;
	}
	path->seen = true;
	end = &d->ends[(size_t)(path - d->paths) % d->config.paths];
	end->wait = (int32_t)((uint32_t)path->offset - (uint32_t)least(path));
	end->news++;
	if (d->config.estimator == REORDER_MG1 || d->config.measure)
		observe_load(path, size, now);
}

/* Expected wait in ps, of what came in the last one to two windows of time. */
static int64_t pollaczek_khinchine(const struct reorder_destination *d, const struct path *path,
				   int64_t now)
{
	int64_t span = now - path->load_window + (path->count[1] ? LOAD_WINDOW : 0);
	uint64_t bytes = path->bytes[0] + path->bytes[1];
	uint64_t squares = path->squares[0] + path->squares[1];
	uint64_t busy = bytes * (uint64_t)d->per_byte, idle;

	if (span < LOAD_WINDOW / 10)
		span = LOAD_WINDOW / 10;
	if (busy > (uint64_t)span / 100 * 99)
		busy = (uint64_t)span / 100 * 99;
	idle = (uint64_t)span - busy;
	/* lambda E[S^2] = sum S^2 / span; 1 - rho = idle / span. */
	return (int64_t)(squares * (uint64_t)d->per_byte / (2 * idle) * (uint64_t)d->per_byte);
}

int64_t reorder_predict(struct reorder_destination *d, enum reorder_estimator estimator,
			const struct path *path, uint16_t source, uint32_t tail_tx, int64_t now)
{
	int64_t ticks = now / REORDER_TICK;

	if (!path->seen) /* no packet of this path: as if it came now */
		return now;
	if (estimator == REORDER_SAMPLE)
		return path->t_rx + (int64_t)(int32_t)(tail_tx - path->t_tx) * REORDER_TICK;
	/* t_tx + offset is about now: put the sum near it. */
	return near(tail_tx + (uint32_t)least(path), ticks) * REORDER_TICK +
	       pollaczek_khinchine(d, path, now);
}

/* An estimate turned out: count its error, and let the margin follow its 99.9th percentile. */
void reorder_learn(struct reorder_destination *d, struct path *path, const struct flow *flow,
		   int64_t now)
{
	int64_t late = now - flow->predicted[d->config.estimator];

	path->margin += late > path->margin ? 999 * MARGIN_STEP / 32 : -MARGIN_STEP / 32;
	if (path->margin < 0)
		path->margin = 0;
	for (int i = 0; i < REORDER_ESTIMATORS; i++) {
		int64_t error = now - flow->predicted[i];

		d->counters.predictions[i]++;
		d->counters.error[i] += (uint64_t)(error < 0 ? -error : error);
		d->counters.too_early[i] += error > 0;
	}
}

int64_t reorder_wait(struct reorder_destination *d, uint16_t source, const struct path *path)
{
	const struct path *paths = path_of(d, source, 0);
	uint32_t own = (uint32_t)least(path);
	int64_t longer = 0; /* than the shortest, without any queue */

	/* Offsets of one pair of clocks: near to each other, modulo 2^32. */
	for (unsigned i = 0; i < d->config.paths; i++)
		if (paths[i].seen && (int32_t)(own - (uint32_t)least(&paths[i])) > longer)
			longer = (int32_t)(own - (uint32_t)least(&paths[i]));
	return (longer + d->ends[path - paths].wait) * REORDER_TICK;
}

void reorder_pause(struct reorder_destination *d, uint16_t ingress, bool paused)
{
	size_t paths = (size_t)d->config.sources * d->config.paths;

	d->paused[ingress] = paused;
	for (size_t i = 0; i < paths; i++)
		if (d->paths[i].ingress == ingress)
			d->ends[i % d->config.paths].news++;
}

void reorder_feedback(struct reorder_destination *d, uint16_t source, struct reorder_shim *shim)
{
	struct path *paths;
	unsigned next;
	int64_t wait;

	shim->flags &= (uint8_t) ~(REORDER_FEEDBACK | REORDER_NO_CREDIT);
	if (source >= d->config.sources)
		return;
	if (d->full)
		shim->flags |= REORDER_NO_CREDIT;
	paths = path_of(d, source, 0);
	next = d->next_fed[source];
	for (unsigned i = 0; i < d->config.paths; i++) {
		unsigned path = next + i < d->config.paths ? next + i : next + i - d->config.paths;

		if (!paths[path].seen || paths[path].told == d->ends[path].news)
			continue;
		paths[path].told = d->ends[path].news;
		shim->flags |= REORDER_FEEDBACK;
		shim->fb_path = (uint8_t)path;
		wait = reorder_wait(d, source, &paths[path]);
		if (d->paused[paths[path].ingress] && wait < REORDER_PAUSED)
			wait = REORDER_PAUSED;
		shim->fb_wait = reorder_wait_encode(wait);
		d->next_fed[source] = (uint8_t)((path + 1) % d->config.paths);
		return;
	}
}

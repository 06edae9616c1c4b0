/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * DCQCN at the sender, as conweave-ns3 has it (after Mellanox's): with parameters for 100 Gb/s.
 *
 * After the first CNP, alpha is updated each us and the rate may be cut each 4 us; a timer of 300
 * us since the last cut raises it: halfway to the target once, then with a larger target. Updates
 * of alpha are made up for when it is next needed, and cuts are events only when a CNP has come.
 * Rates are in bit/s and alpha in units of 2^-32.
 */
#include "reorder/sim/sim.h"

#define ALPHA_STEP US
#define CUT_STEP   (4 * US)
#define RAISE_STEP (300 * US)
#define LEAST	   100000000u
#define ONE	   ((uint64_t)1 << 32)

void dcqcn_start(struct sim *s, struct flow *flow)
{
	flow->rate = flow->target = s->options->rate;
	flow->first_cnp = -1;
}

/* Bring alpha to now: a step with a CNP raises it by (1 - alpha)/256, one without lowers it. */
static void update_alpha(struct sim *s, struct flow *flow)
{
	int64_t due = (s->now - flow->first_cnp) / ALPHA_STEP;

	for (; flow->alpha_steps < due; flow->alpha_steps++) {
		uint64_t less = flow->alpha >> 8;

		if (!flow->cnp_alpha && !less) {
			flow->alpha_steps = due;
			return;
		}
		flow->alpha -= less;
		if (flow->cnp_alpha)
			flow->alpha += ONE >> 8;
		flow->cnp_alpha = false;
	}
}

void dcqcn_cnp(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];
	int64_t next;

	s->count.cnps++;
	if (flow->first_cnp < 0) {
		flow->first_cnp = s->now;
		flow->alpha = ONE;
		flow->alpha_steps = 0;
		flow->target = flow->rate;
	} else {
		update_alpha(s, flow);
		flow->cnp_alpha = true;
	}
	if (flow->decrease_set)
		return;
	flow->decrease_set = true;
	next = (s->now - flow->first_cnp - NS) / CUT_STEP + 1;
	event_add(s->now, flow->first_cnp + NS + next * CUT_STEP, DECREASE, index);
}

/* A cut puts the timer off: one event a flow, which is added again if it comes too early. */
static void set_raise(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];

	flow->raise_at = s->now + RAISE_STEP;
	if (flow->raise_set)
		return;
	flow->raise_set = true;
	event_add(s->now, flow->raise_at, RAISE, index);
}

void dcqcn_decrease(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];

	flow->decrease_set = false;
	if (!flow->alive)
		return;
	update_alpha(s, flow);
	if (flow->stage)
		flow->target = flow->rate;
	flow->rate -= (uint64_t)((unsigned __int128)flow->rate * flow->alpha >> 33);
	if (flow->rate < LEAST)
		flow->rate = LEAST;
	flow->stage = 0;
	set_raise(s, index);
}

void dcqcn_raise(struct sim *s, uint32_t index)
{
	struct flow *flow = &s->flow[index];

	flow->raise_set = false;
	if (!flow->alive)
		return;
	if (flow->raise_at > s->now) {
		flow->raise_set = true;
		event_add(s->now, flow->raise_at, RAISE, index);
		return;
	}
	set_raise(s, index);
	if (flow->stage == 1)
		flow->target += s->options->rate / 2500;
	else if (flow->stage > 1)
		flow->target += s->options->rate / 1000;
	if (flow->target > s->options->rate)
		flow->target = s->options->rate;
	flow->rate = flow->rate / 2 + flow->target / 2;
	flow->stage++;
}

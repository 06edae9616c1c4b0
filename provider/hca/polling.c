/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a thread does that polls and finds nothing: when a turn of the engine would find nothing
 * either, when it lets others have the CPU, and how often it reads a clock. Any thread, without the
 * engine lock; but for urxe_engine_clock().
 */
#include <sched.h>

#include "hca/engine.h"
#include "hca/polling.h"
#include "hca/service.h"
#include "host/ticks.h"

#define QUIET_TICKS    50000
#define ROOM_TICKS     5000 /* the same while a QP waits for room in a neighbour's ring */
#define RENEW_TICKS    10000
#define CLOCK_TICKS    10000
#define CLOCK_SHARE    32     /* of the time at most goes into reading the clock */
#define CLOCK_MOST     200000 /* ticks */
#define PATIENCE_MIN   2      /* turns, 20 us apart where there are neighbours */
#define PATIENCE_MAX   8
#define PATIENCE_TICKS 75000 /* of PATIENCE_MAX turns at least: one that reads sockets is 1 us */
#define YIELD_EVERY    4
#define AWAY_MIN       5000    /* ticks: somebody else had the CPU, and */
#define AWAY_SHARE     3       /* times as long as giving way takes where nobody has it, */
#define AWAY_MAX       1250000 /* but no thread that polls for longer: it gives way sooner */

/* Where the processor's counter is not good enough for a clock, the kernel asks a slow device. */
static uint64_t clock_step(void)
{
	uint64_t best = UINT64_MAX, step;

	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = urxe_ticks(), took;

		urxe_now();
		took = urxe_ticks() - before;
		if (took < best)
			best = took;
	}
	step = best * CLOCK_SHARE;
	if (step < CLOCK_TICKS)
		return CLOCK_TICKS;
	return step < CLOCK_MOST ? step : CLOCK_MOST;
}

void urxe_polling_init(void)
{
	urxe_hca.clock_step = clock_step();
	atomic_store(&urxe_hca.patience, PATIENCE_MAX);
	atomic_store(&urxe_hca.yield_ticks, UINT64_MAX);
}

uint64_t urxe_engine_clock(void)
{
	struct urxe_engine *e = &urxe_hca;
	uint64_t ticks = urxe_ticks();

	if (ticks - e->clock_ticks >= e->clock_step) {
		e->clock_ticks = ticks;
		e->now = urxe_now();
	}
	return ticks;
}

bool urxe_engine_quiet(void)
{
	struct urxe_engine *e = &urxe_hca;
	uint64_t ticks, quiet;

	if (urxe_wire_look(e->wire) != URXE_LOOK_NOTHING ||
	    atomic_load_explicit(&e->kicked, memory_order_relaxed) ||
	    atomic_load_explicit(&e->acks_wait, memory_order_relaxed))
		return false;
	ticks = urxe_ticks();
	quiet = atomic_load_explicit(&e->any_full, memory_order_relaxed) ? ROOM_TICKS : QUIET_TICKS;
	if (ticks - atomic_load_explicit(&e->turned_at, memory_order_relaxed) >= quiet)
		return false;
	if (ticks - atomic_load_explicit(&e->renewed_at, memory_order_relaxed) >= RENEW_TICKS) {
		atomic_store_explicit(&e->renewed_at, ticks, memory_order_relaxed);
		urxe_engine_polled(urxe_now());
	}
	return true;
}

bool urxe_engine_waits(void)
{
	return urxe_wire_look(urxe_hca.wire) == URXE_LOOK_WAITS;
}

/*
 * Gives way. Returns for how many ticks somebody else had the CPU; 0: nobody had. In an emulated
 * machine the system call alone takes longer than AWAY_MIN.
 */
static uint64_t yield(void)
{
	_Atomic uint64_t *least = &urxe_hca.yield_ticks;
	uint64_t away = urxe_ticks();

	sched_yield();
	away = urxe_ticks() - away;
	if (away < atomic_load_explicit(least, memory_order_relaxed))
		atomic_store_explicit(least, away, memory_order_relaxed);
	if (away <= AWAY_MIN ||
	    away / AWAY_SHARE <= atomic_load_explicit(least, memory_order_relaxed))
		return 0;
	return away;
}

/*
 * On a machine with more pollers than cores, the one that is waited for may be waiting for its
 * core. Where giving way brought a packet soon, it is done at once the next time.
 */
void urxe_engine_give_way(unsigned idle, uint64_t since, const atomic_uint *head)
{
	struct urxe_engine *e = &urxe_hca;
	unsigned patience = atomic_load_explicit(&e->patience, memory_order_relaxed);
	unsigned was = atomic_load_explicit(head, memory_order_relaxed);
	uint64_t away;
	bool came;

	if (idle < patience)
		return;
	if (patience == PATIENCE_MAX &&
	    (idle % YIELD_EVERY || urxe_ticks() - since < PATIENCE_TICKS))
		return;
	away = yield();
	came = urxe_engine_waits();
	/* What came by a socket is seen by a turn alone. */
	if (!came && away)
		urxe_engine_progress(true);
	came = came || atomic_load_explicit(head, memory_order_relaxed) != was;
	if (came && away && away < AWAY_MAX)
		patience = PATIENCE_MIN;
	else if (patience < PATIENCE_MAX)
		patience *= 2;
	atomic_store_explicit(&e->patience, patience, memory_order_relaxed);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The table of a move, explored: every order of steps of two agents, answers that are lost, agents
 * that are killed between a step and its entry in the journal. In no state that can be reached may
 * two hosts have the GUID.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "migrate/move.h"

enum { HOSTS = 3, NOBODY = HOSTS };

/* The state of three hosts; MOVE_GONE: it has no record. */
struct world {
	enum move_state at[HOSTS];
	unsigned peer[HOSTS]; /* the other one of its move */
	bool from[HOSTS];     /* its peer has yet to confirm that it has forgotten */
	bool set[HOSTS];      /* a function has the GUID */
};

static unsigned char seen[1 << 21];
static struct world todo[1 << 16];
static unsigned pending, worlds, broken;
static bool unconfirmed; /* the rule that is left out */

static unsigned number_of(const struct world *w)
{
	unsigned n = 0;

	for (int i = 0; i < HOSTS; i++)
		n = n << 8 | w->at[i] << 4 | w->peer[i] << 2 | w->from[i] << 1 | w->set[i];
	return n;
}

static bool was_seen(const struct world *w)
{
	unsigned n = number_of(w);
	bool was = seen[n >> 3] >> (n & 7) & 1;

	seen[n >> 3] |= 1u << (n & 7);
	return was;
}

static void reach(struct world w)
{
	unsigned set = 0, owners = 0;

	for (int i = 0; i < HOSTS; i++) {
		if (w.at[i] == MOVE_GONE)
			w.peer[i] = NOBODY;
		set += w.set[i];
		owners += move_owns(w.at[i]);
	}
	if (was_seen(&w))
		return;
	worlds++;
	if (set > 1 || owners > 1) {
		broken++;
		return;
	}
	assert_true(pending < sizeof(todo) / sizeof(*todo));
	todo[pending++] = w;
}

static void event(struct world w, int host, enum move_event what)
{
	enum move_state next;

	if (!move_next(w.at[host], what, &next))
		return;
	w.at[host] = next;
	if (next == MOVE_GONE)
		w.from[host] = false;
	reach(w);
}

static void ask(struct world w, int me)
{
	int peer = w.peer[me];

	if (w.at[peer] == MOVE_GONE) {
		w.at[peer] = MOVE_RESERVED;
		w.peer[peer] = me;
		reach(w); /* the answer is lost */
		event(w, me, EVENT_DONE);
	} else if (w.at[peer] == MOVE_RESERVED && w.peer[peer] == (unsigned)me) {
		event(w, me, EVENT_DONE);
	}
	event(w, me, EVENT_REFUSED);
}

static void hand(struct world w, int me)
{
	int peer = w.peer[me];

	if (w.at[peer] == MOVE_GONE || w.peer[peer] != (unsigned)me) {
		event(w, me, EVENT_REFUSED);
		return;
	}
	if (w.at[peer] == MOVE_RESERVED) {
		assert_true(move_next(w.at[peer], EVENT_TAKE, &w.at[peer]));
		w.from[peer] = true;
		reach(w); /* the answer is lost */
	}
	event(w, me, EVENT_DONE);
}

/* Does the source still want what this host has of it? */
static bool wanted(const struct world *w, int me)
{
	int peer = w->peer[me];

	return peer != NOBODY && move_wants(w->at[peer]) && w->peer[peer] == (unsigned)me;
}

static void watch(struct world w, int me)
{
	if (w.from[me] && !wanted(&w, me))
		w.from[me] = false;
	event(w, me, w.set[me] ? EVENT_DONE : EVENT_REFUSED);
	for (int to = 0; to < HOSTS; to++) {
		if (to == me || (w.from[me] && !unconfirmed))
			continue;
		w.peer[me] = to;
		event(w, me, EVENT_ORDER);
	}
}

static void one_step(struct world w, int me)
{
	switch (move_step_of(w.at[me])) {
	case STEP_WATCH: watch(w, me); break;
	case STEP_ASK: ask(w, me); break;
	case STEP_DETACH:
		event(w, me, EVENT_DONE);
		event(w, me, EVENT_REFUSED);
		break;
	case STEP_CLEAR:
		w.set[me] = false;
		reach(w);
		event(w, me, EVENT_DONE);
		break;
	case STEP_HAND: hand(w, me); break;
	case STEP_LOOK: event(w, me, wanted(&w, me) ? EVENT_DONE : EVENT_REFUSED); break;
	case STEP_SET:
		w.set[me] = true;
		reach(w);
		event(w, me, EVENT_DONE);
		break;
	case STEP_ABSENT:
	case STEP_ATTACH:
	case STEP_PRESENT: event(w, me, EVENT_DONE); break;
	case STEP_NONE: break;
	}
	event(w, me, EVENT_CANCEL);
}

static void explore(void)
{
	memset(seen, 0, sizeof(seen));
	worlds = broken = 0;
	reach((struct world){
		.at = {MOVE_HERE, MOVE_GONE, MOVE_GONE}, .set = {true}, .peer = {NOBODY}});
	while (pending) {
		struct world w = todo[--pending];

		for (int i = 0; i < HOSTS; i++)
			one_step(w, i);
	}
}

static void never_do_two_hosts_have_it(void **state)
{
	struct world there = {.at = {MOVE_GONE, MOVE_GONE, MOVE_HERE}, .set = {[2] = true}};

	unconfirmed = false;
	explore();
	print_message("# %u states\n", worlds);
	assert_int_equal(broken, 0);
	/* It got there, by either way. */
	for (int i = 0; i < HOSTS; i++)
		there.peer[i] = NOBODY;
	there.peer[2] = 1;
	assert_true(was_seen(&there));
	there.peer[2] = 0;
	assert_true(was_seen(&there));
}

static void they_would_if_the_source_did_not_confirm(void **state)
{
	unconfirmed = true;
	explore();
	assert_int_not_equal(broken, 0);
}

static void a_source_that_is_handing_over_cannot_be_cancelled(void **state)
{
	enum move_state next;

	assert_false(move_next(MOVE_HANDING, EVENT_CANCEL, &next));
	assert_true(move_next(MOVE_LEAVING, EVENT_CANCEL, &next));
	assert_int_equal(next, MOVE_SETTING);
}

static void every_state_has_a_name_and_a_way_on(void **state)
{
	for (int s = 0; s < MOVE_STATES; s++) {
		enum move_state next;

		assert_non_null(move_state_name(s));
		if (s != MOVE_GONE)
			assert_true(move_next(s, EVENT_DONE, &next));
	}
	for (int e = 0; e < MOVE_EVENTS; e++)
		assert_non_null(move_event_name(e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_do_two_hosts_have_it),
		cmocka_unit_test(they_would_if_the_source_did_not_confirm),
		cmocka_unit_test(a_source_that_is_handing_over_cannot_be_cancelled),
		cmocka_unit_test(every_state_has_a_name_and_a_way_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

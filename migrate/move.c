// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The table of move.h. */
#include "migrate/move.h"

#define NEXT(state) ((state) + 1)

static const struct {
	const char *name;
	enum move_step step;
	bool owns, wants;
	unsigned char next[MOVE_EVENTS]; /* NEXT(); 0: the event means nothing */
} states[MOVE_STATES] = {
	[MOVE_HERE] = {"here", STEP_WATCH, .owns = true,
		       .next = {[EVENT_DONE] = NEXT(MOVE_HERE),
				[EVENT_REFUSED] = NEXT(MOVE_SETTING),
				[EVENT_ORDER] = NEXT(MOVE_ASKING),
				[EVENT_FREED] = NEXT(MOVE_DETACHING),
				[EVENT_FENCE] = NEXT(MOVE_HERE)}},
	[MOVE_ASKING] = {"asking", STEP_ASK, .owns = true, .wants = true,
			 .next = {[EVENT_DONE] = NEXT(MOVE_DETACHING),
				  [EVENT_REFUSED] = NEXT(MOVE_HERE),
				  [EVENT_CANCEL] = NEXT(MOVE_HERE),
				  [EVENT_FENCE] = NEXT(MOVE_HERE)}},
	[MOVE_DETACHING] = {"detaching", STEP_DETACH, .owns = true, .wants = true,
			    .next = {[EVENT_DONE] = NEXT(MOVE_CLEARING),
				     [EVENT_REFUSED] = NEXT(MOVE_ATTACHING),
				     [EVENT_CANCEL] = NEXT(MOVE_ATTACHING),
				     [EVENT_FENCE] = NEXT(MOVE_ATTACHING)}},
	[MOVE_CLEARING] = {"clearing", STEP_CLEAR, .owns = true, .wants = true,
			   .next = {[EVENT_DONE] = NEXT(MOVE_LEAVING),
				    [EVENT_CANCEL] = NEXT(MOVE_SETTING),
				    [EVENT_FENCE] = NEXT(MOVE_SETTING)}},
	[MOVE_LEAVING] = {"leaving", STEP_ABSENT, .wants = true,
			  .next = {[EVENT_DONE] = NEXT(MOVE_HANDING),
				   [EVENT_REFUSED] = NEXT(MOVE_SETTING),
				   [EVENT_FREED] = NEXT(MOVE_GONE),
				   [EVENT_CANCEL] = NEXT(MOVE_SETTING),
				   [EVENT_FENCE] = NEXT(MOVE_SETTING)}},
	[MOVE_HANDING] = {"handing", STEP_HAND, .wants = true,
			  .next = {[EVENT_DONE] = NEXT(MOVE_GONE),
				   [EVENT_REFUSED] = NEXT(MOVE_SETTING),
				   [EVENT_FENCE] = NEXT(MOVE_SETTING)}},
	[MOVE_RESERVED] = {"reserved", STEP_LOOK,
			   .next = {[EVENT_DONE] = NEXT(MOVE_RESERVED),
				    [EVENT_REFUSED] = NEXT(MOVE_GONE),
				    [EVENT_TAKE] = NEXT(MOVE_SETTING),
				    [EVENT_FENCE] = NEXT(MOVE_SETTING)}},
	[MOVE_SETTING] = {"setting", STEP_SET, .owns = true,
			  .next = {[EVENT_DONE] = NEXT(MOVE_ATTACHING),
				   [EVENT_REFUSED] = NEXT(MOVE_GONE),
				   [EVENT_FREED] = NEXT(MOVE_CLEARING)}},
	[MOVE_ATTACHING] = {"attaching", STEP_ATTACH, .owns = true,
			    .next = {[EVENT_DONE] = NEXT(MOVE_VERIFYING),
				     [EVENT_FREED] = NEXT(MOVE_DETACHING)}},
	[MOVE_VERIFYING] = {"verifying", STEP_PRESENT, .owns = true,
			    .next = {[EVENT_DONE] = NEXT(MOVE_HERE),
				     [EVENT_REFUSED] = NEXT(MOVE_SETTING),
				     [EVENT_FREED] = NEXT(MOVE_DETACHING)}},
	[MOVE_GONE] = {"gone", STEP_NONE},
};

const char *move_state_name(enum move_state state)
{
	return states[state].name;
}

const char *move_event_name(enum move_event event)
{
	static const char *const names[MOVE_EVENTS] = {
		[EVENT_DONE] = "done",	 [EVENT_REFUSED] = "refused", [EVENT_FREED] = "freed",
		[EVENT_ORDER] = "order", [EVENT_CANCEL] = "cancel",   [EVENT_TAKE] = "take",
		[EVENT_FENCE] = "fence",
	};

	return names[event];
}

enum move_step move_step_of(enum move_state state)
{
	return states[state].step;
}

bool move_next(enum move_state state, enum move_event event, enum move_state *next)
{
	if (!states[state].next[event])
		return false;
	*next = states[state].next[event] - 1;
	return true;
}

bool move_owns(enum move_state state)
{
	return states[state].owns;
}

bool move_wants(enum move_state state)
{
	return states[state].wants;
}

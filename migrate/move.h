/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The life of a vGUID at one host, as a table: in each state an agent does one step, over and over
 * until it is done, and what comes of it leads to the next state. The state is in the journal
 * before its step is begun, and each step may be done twice; so an agent that was killed goes on
 * where it was.
 *
 *	source                                            destination
 *	here ──order──► asking ─────────── ask ─────────► reserved (looks whether the source still wants it)
 *	                  │ a function is reserved
 *	                  ▼
 *	                detaching   the guest lets go
 *	                clearing    the function has no GUID
 *	                leaving     the SM knows no such port
 *	                  │
 *	                  ▼
 *	                handing ────────── take ────────► setting     a free function gets GUID and P_Keys
 *	                  │ taken                         attaching   the guest gets the function
 *	                  ▼                               verifying   the SM has LID, GUID and P_Keys
 *	                (forgotten) ◄───── look ───────── here
 *
 * Up to handing the vGUID is the source's, and a move can be cancelled; from setting on it is the
 * destination's. Only while the source is handing does neither know; nobody sets the GUID then,
 * until the destination has answered or a person has said that it is off (fence). So at no time two
 * ports have it. A host that was only said to be off forgets what another has of a later change of
 * owner (record_order()).
 *
 * Constant tables and pure functions.
 */
#ifndef MIGRATE_MOVE_H
#define MIGRATE_MOVE_H

#include <stdbool.h>

enum move_state {
	MOVE_HERE,
	MOVE_ASKING,
	MOVE_DETACHING,
	MOVE_CLEARING,
	MOVE_LEAVING,
	MOVE_HANDING,
	MOVE_RESERVED,
	MOVE_SETTING,
	MOVE_ATTACHING,
	MOVE_VERIFYING,
	MOVE_GONE, /* the record is forgotten */
	MOVE_STATES
};

enum move_step {
	STEP_WATCH,   /* is the GUID still at its function, and does the source still hold it? */
	STEP_ASK,     /* the destination for a function */
	STEP_DETACH,  /* the guest from its function */
	STEP_CLEAR,   /* the function's GUID */
	STEP_ABSENT,  /* does the SA not know it any more? */
	STEP_HAND,    /* it over to the destination */
	STEP_LOOK,    /* at the source, whether it still wants the reservation */
	STEP_SET,     /* GUID and P_Keys at a free function */
	STEP_ATTACH,  /* the guest to its function */
	STEP_PRESENT, /* does the SA know it, with its LID and P_Keys? */
	STEP_NONE
};

enum move_event {
	EVENT_DONE,    /* the step is done */
	EVENT_REFUSED, /* it can not be done, for sure: nothing of it has happened */
	EVENT_FREED,   /* as done, of a guest that is not to go anywhere */
	EVENT_ORDER,   /* to another host; or, without a host, out of the pool's use */
	EVENT_CANCEL,  /* the order is taken back */
	EVENT_TAKE,    /* the source hands it over */
	EVENT_FENCE,   /* a person says that the other host is off */
	MOVE_EVENTS
};

const char *move_state_name(enum move_state state);
const char *move_event_name(enum move_event event);
enum move_step move_step_of(enum move_state state);
/* The next state. False: the event means nothing there, and nothing is to be done. */
bool move_next(enum move_state state, enum move_event event, enum move_state *next);
/* May this host's function have the GUID? Of two hosts that know it, at most one says so at any
 * time. */
bool move_owns(enum move_state state);
/* Is the source of a move still for it? What a reservation depends on. */
bool move_wants(enum move_state state);

#endif

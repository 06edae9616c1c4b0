// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What entering a state implies, in one place: which messages stop being repeated, what counts
 * as half open, which table rows go, when time-wait begins (12.9.8.4), and when the record for the
 * survivors is kept. All under the manager's lock.
 */
#include "cm/connection_private.h"

#include <errno.h>
#include <stdlib.h>

/* DREQs and REJs in the name of the dead. */
#define LEAVE_BURST	64
#define LEAVE_EVERY	50000ull /* ns, beyond that */
#define ADOPTED_TIMEOUT 300000000ull
#define ADOPTED_RETRIES 8
#define REJ_RETRIES	3

static const struct state {
	bool repeats;	  /* has sent what must be answered */
	bool half_open;	  /* counts towards max_pending */
	uint8_t recorded; /* the state that a record has for the survivors; 0: there is none */
} states[URXE_CM_STATES] = {
	[URXE_CM_REQ_SENT] = {.repeats = true, .recorded = URXE_CM_REQ_SENT},
	[URXE_CM_MRA_REQ_RCVD] = {.repeats = true, .recorded = URXE_CM_REQ_SENT},
	[URXE_CM_REQ_RCVD] = {.half_open = true, .recorded = URXE_CM_REQ_RCVD},
	[URXE_CM_MRA_REQ_SENT] = {.half_open = true, .recorded = URXE_CM_REQ_RCVD},
	[URXE_CM_REP_SENT] = {true, true, URXE_CM_REP_SENT},
	[URXE_CM_MRA_REP_RCVD] = {true, true, URXE_CM_REP_SENT},
	[URXE_CM_REP_RCVD] = {.recorded = URXE_CM_ESTABLISHED},
	[URXE_CM_MRA_REP_SENT] = {.recorded = URXE_CM_ESTABLISHED},
	[URXE_CM_ESTABLISHED] = {.recorded = URXE_CM_ESTABLISHED},
	[URXE_CM_DREQ_SENT] = {.repeats = true, .recorded = URXE_CM_ESTABLISHED},
	[URXE_CM_DREQ_RCVD] = {.recorded = URXE_CM_ESTABLISHED},
	[URXE_CM_SIDR_REQ_SENT] = {.repeats = true},
	[URXE_CM_SIDR_REQ_RCVD] = {.half_open = true},
	[URXE_CM_REJ_SENT] = {.repeats = true},
};

/* The exponent of a time, rounded up. */
static uint8_t exponent_of(uint64_t time)
{
	uint8_t n = 0;

	while (n < URXE_CM_MAX_TIMEOUT && urxe_cm_time(n) < time)
		n++;
	return n;
}

static void record(struct urxe_cm_id *id)
{
	struct urxe_cm_record record = {
		.path = id->path.av,
		.pkey = id->path.pkey,
		.local_id = id->local_id,
		.remote_id = id->remote_id,
		.local_qpn = id->local_qpn,
		.remote_qpn = id->remote_qpn,
		.response_timeout = exponent_of(id->timeout),
		.retries = id->max_cm_retries,
		.state = states[id->state].recorded,
	};

	if (id->adopted || !id->cm->ops->record)
		return;
	id->cm->ops->record(id->cm, &record, &id->row);
}

static void forget(struct urxe_cm_id *id)
{
	if (id->row != URXE_CM_NO_ROW && id->cm->ops->forget)
		id->cm->ops->forget(id->cm, id->row);
	id->row = URXE_CM_NO_ROW;
}

void urxe_cm_become(struct urxe_cm_id *id, enum urxe_cm_state state, uint64_t now)
{
	const struct state *before = &states[id->state], *after = &states[state];

	id->state = state;
	urxe_cm_disarm(id);
	if (!after->repeats) {
		free(id->mad);
		id->mad = NULL;
	}
	id->cm->counts.pending += after->half_open - before->half_open;
	id->cm->counts.unanswered += after->repeats - before->repeats;
	if (!after->recorded)
		forget(id);
	else if (after->recorded != before->recorded)
		record(id);

	if (state == URXE_CM_TIMEWAIT) {
		/* The peer may use its QP anew, but a REQ that comes again is still known. */
		urxe_cm_remove(id, URXE_CM_BY_QPN);
		urxe_cm_arm(id, now, urxe_cm_time(id->ack_timeout));
	} else if (state == URXE_CM_IDLE) {
		urxe_cm_remove(id, URXE_CM_BY_QPN);
		urxe_cm_remove(id, URXE_CM_BY_REMOTE);
		id->remote_id = 0;
		id->quiet = false;
	}
}

static struct urxe_cm_msg make_dreq(struct urxe_cm_id *id)
{
	struct urxe_cm_msg msg = urxe_cm_about_id(id, URXE_CM_DREQ);

	msg.tid = id->cm->next_tid++;
	msg.dreq.remote_qpn = id->remote_qpn;
	return msg;
}

void urxe_cm_refused(struct urxe_cm_id *id, uint64_t now)
{
	struct urxe_cm_msg msg;

	if (id->state != URXE_CM_REP_SENT && id->state != URXE_CM_MRA_REP_RCVD) {
		urxe_cm_become(id, URXE_CM_IDLE, now);
		return;
	}
	msg = make_dreq(id);
	id->quiet = true;
	urxe_cm_become(id, URXE_CM_DREQ_SENT, now);
	if (urxe_cm_start_later(id, &msg, now))
		urxe_cm_become(id, URXE_CM_TIMEWAIT, now);
}

void urxe_cm_disconnect(struct urxe_cm_id *id, uint64_t now)
{
	struct urxe_cm_msg msg = make_dreq(id);

	urxe_cm_become(id, URXE_CM_DREQ_SENT, now);
	if (urxe_cm_start(id, &msg, now))
		urxe_cm_become(id, URXE_CM_TIMEWAIT, now);
}

int urxe_cm_notify_established(struct urxe_cm_id *id, uint64_t now)
{
	if (id->state == URXE_CM_ESTABLISHED)
		return -EISCONN;
	if (id->state != URXE_CM_REP_SENT && id->state != URXE_CM_MRA_REP_RCVD)
		return -EINVAL;
	urxe_cm_become(id, URXE_CM_ESTABLISHED, now);
	cds_list_add_tail(&id->waiting, &id->cm->waiting);
	return 0;
}

/* When the next message for the dead may leave: in how many ns. */
static uint64_t wait_for_turn(struct urxe_cm *cm, uint64_t now)
{
	uint64_t at = cm->next_turn > now ? cm->next_turn : now;

	cm->next_turn = at + LEAVE_EVERY;
	return at - now > LEAVE_BURST * LEAVE_EVERY ? at - now - LEAVE_BURST * LEAVE_EVERY : 0;
}

/* A process leaves thousands: at once they would be more than a receiver's buffer holds, and push
 * out the messages of the living. */
static int leave_in_turn(struct urxe_cm_id *id, enum urxe_cm_state state,
			 const struct urxe_cm_msg *msg, uint64_t now)
{
	uint64_t wait = wait_for_turn(id->cm, now);

	urxe_cm_become(id, state, now);
	if (urxe_cm_start_later(id, msg, now)) {
		urxe_cm_id_free(id);
		return -ENOMEM;
	}
	if (!wait) {
		urxe_cm_repeat(id);
		return 0;
	}
	id->unsent = true;
	urxe_cm_arm(id, now, wait);
	return 0;
}

int urxe_cm_adopt(struct urxe_cm *cm, const struct urxe_cm_record *record, uint64_t now)
{
	struct urxe_cm_msg msg;
	struct urxe_cm_id *id;

	if (!record->local_id || record->path.link >= URXE_NUM_LINKS ||
	    record->state >= URXE_CM_STATES || !record->state ||
	    states[record->state].recorded != record->state ||
	    !record->remote_id != (record->state == URXE_CM_REQ_SENT))
		return -EINVAL;
	if (urxe_cm_local_find(cm, record->local_id))
		return -EEXIST;
	id = urxe_cm_id_new(cm, record->local_id);
	if (!id)
		return -ENOMEM;
	id->adopted = id->dead = true;
	id->remote_id = record->remote_id;
	id->local_qpn = record->local_qpn;
	id->remote_qpn = record->remote_qpn;
	/* The connection's own timeout is seconds, and the process that speaks for the dead one
	 * will not stay so long. */
	id->timeout = urxe_cm_time(record->response_timeout);
	if (id->timeout > ADOPTED_TIMEOUT)
		id->timeout = ADOPTED_TIMEOUT;
	id->max_cm_retries = record->retries & 15;
	if (id->max_cm_retries > ADOPTED_RETRIES)
		id->max_cm_retries = ADOPTED_RETRIES;
	id->path.av = record->path;
	id->path.pkey = record->pkey;
	urxe_cm_become(id, record->state, now);
	switch ((enum urxe_cm_state)record->state) {
	case URXE_CM_ESTABLISHED:
		msg = make_dreq(id);
		return leave_in_turn(id, URXE_CM_DREQ_SENT, &msg, now);
	case URXE_CM_REP_SENT: urxe_cm_id_destroy(id); return 0; /* DREQs follow its REJ */
	default:
		id->max_cm_retries = REJ_RETRIES;
		msg = urxe_cm_last_rej(id);
		return leave_in_turn(id, URXE_CM_REJ_SENT, &msg, now);
	}
}

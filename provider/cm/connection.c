// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The manager and its identifiers: how they are made and let go, their timers, and how events reach
 * the consumer. All under the manager's lock (connection.h).
 */
#include "cm/connection_private.h"

#include <errno.h>
#include <stdlib.h>

/* As many communication IDs of one slot as leave room to find a free one at once. */
#define MAX_IDS (1u << 23)

int urxe_cm_create(struct urxe_cm **result, const struct urxe_cm_config *config)
{
	struct urxe_cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	cm->ops = config->ops;
	cm->slot = config->slot;
	cm->now = config->now;
	cm->key[0] = config->seed[0];
	cm->key[1] = config->seed[1];
	cm->next_id = config->seed[0] >> 40;
	cm->scramble = config->seed[1] >> 40;
	cm->next_tid = config->seed[0] ^ config->seed[1] << 1;
	cm->max_pending = config->max_pending ? config->max_pending : URXE_CM_MAX_PENDING;
	CDS_INIT_LIST_HEAD(&cm->ids);
	CDS_INIT_LIST_HEAD(&cm->waiting);
	CDS_INIT_LIST_HEAD(&cm->unarmed);
	urxe_wheel_init(&cm->wheel, config->now >> URXE_CM_TICK_SHIFT);
	rc = urxe_cm_tables_create(cm);
	if (rc) {
		free(cm);
		return rc;
	}
	*result = cm;
	return 0;
}

void urxe_cm_destroy(struct urxe_cm *cm)
{
	struct urxe_cm_id *id, *next;

	cds_list_for_each_entry_safe (id, next, &cm->ids, node)
		urxe_cm_id_free(id);
	urxe_cm_tables_destroy(cm);
	free(cm);
}

void urxe_cm_counts(const struct urxe_cm *cm, struct urxe_cm_counts *counts)
{
	*counts = cm->counts;
}

static uint32_t new_local_id(struct urxe_cm *cm)
{
	uint32_t local_id;

	do {
		local_id = urxe_comm_id(cm->slot, cm->next_id++ ^ cm->scramble);
	} while (!local_id || urxe_cm_local_find(cm, local_id));
	return local_id;
}

struct urxe_cm_id *urxe_cm_id_new(struct urxe_cm *cm, uint32_t local_id)
{
	struct urxe_cm_id *id;

	if (cm->counts.ids >= MAX_IDS)
		return NULL;
	id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	id->cm = cm;
	id->local_id = local_id ? local_id : new_local_id(cm);
	id->row = URXE_CM_NO_ROW;
	CDS_INIT_LIST_HEAD(&id->waiting);
	cds_list_add_tail(&id->node, &cm->ids);
	urxe_cm_enter(id, URXE_CM_BY_LOCAL);
	cm->counts.ids++;
	return id;
}

void urxe_cm_id_free(struct urxe_cm_id *id)
{
	urxe_cm_disarm(id);
	cds_list_del(&id->waiting);
	cds_list_del(&id->node);
	for (unsigned by = 0; by < URXE_CM_TABLES; by++)
		urxe_cm_remove(id, by);
	id->cm->counts.ids--;
	free(id->mad);
	free(id);
}

int urxe_cm_id_create(struct urxe_cm *cm, urxe_cm_handler *handler, void *context,
		      struct urxe_cm_id **result)
{
	struct urxe_cm_id *id = urxe_cm_id_new(cm, 0);

	if (!id)
		return -ENOMEM;
	urxe_cm_id_set(id, handler, context);
	*result = id;
	return 0;
}

void urxe_cm_id_set(struct urxe_cm_id *id, urxe_cm_handler *handler, void *context)
{
	id->handler = handler;
	id->context = context;
}

void *urxe_cm_id_context(const struct urxe_cm_id *id)
{
	return id->context;
}

/* Says to the peer what the end of an identifier means in its state. */
static void take_leave(struct urxe_cm_id *id, bool silent, uint64_t now)
{
	switch ((enum urxe_cm_state)id->state) {
	case URXE_CM_REQ_SENT:
	case URXE_CM_MRA_REQ_RCVD:
		urxe_cm_put_rej(id, URXE_CM_REJ_TIMEOUT);
		urxe_cm_refused(id, now);
		break;
	case URXE_CM_REQ_RCVD:
	case URXE_CM_MRA_REQ_SENT:
	case URXE_CM_REP_SENT:
	case URXE_CM_REP_RCVD:
	case URXE_CM_MRA_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
		if (!silent || id->state != URXE_CM_REQ_RCVD)
			urxe_cm_put_rej(id, URXE_CM_REJ_CONSUMER_DEFINED);
		urxe_cm_refused(id, now);
		break;
	case URXE_CM_ESTABLISHED: urxe_cm_disconnect(id, now); break;
	case URXE_CM_DREQ_RCVD:
		urxe_cm_put(id, URXE_CM_DREP);
		urxe_cm_become(id, URXE_CM_TIMEWAIT, now);
		break;
	case URXE_CM_SIDR_REQ_RCVD:
		if (!silent)
			urxe_cm_put_sidr_reject(id);
		urxe_cm_become(id, URXE_CM_IDLE, now);
		break;
	case URXE_CM_SIDR_REQ_SENT: urxe_cm_become(id, URXE_CM_IDLE, now); break;
	default: break;
	}
}

static void let_go(struct urxe_cm_id *id, bool silent, uint64_t now)
{
	id->dead = true;
	id->handler = NULL;
	id->context = NULL;
	take_leave(id, silent, now);
	if (id->state == URXE_CM_IDLE && !id->busy)
		urxe_cm_id_free(id);
}

void urxe_cm_id_destroy(struct urxe_cm_id *id)
{
	let_go(id, false, 0);
}

void urxe_cm_deliver(struct urxe_cm_id *id, const struct urxe_cm_event *event, uint64_t now)
{
	int rc;

	if (!id->dead && !(id->quiet && event->type != URXE_CM_REP_ERROR)) {
		id->busy = true;
		rc = id->handler(id, event);
		id->busy = false;
		if (rc && !id->dead) {
			let_go(id, rc == -ENOMEM, now);
			return;
		}
	}
	/* Nobody is there to answer a DREQ. */
	if ((id->dead || id->quiet) && id->state == URXE_CM_DREQ_RCVD)
		take_leave(id, false, now);
	if (id->dead && id->state == URXE_CM_IDLE)
		urxe_cm_id_free(id);
}

struct urxe_cm_event urxe_cm_event_of(enum urxe_cm_event_type type, const struct urxe_cm_msg *msg)
{
	return (struct urxe_cm_event){
		.type = type,
		.msg = msg,
		.private_data = msg ? msg->private_data : NULL,
		.private_data_len = msg ? urxe_cm_private_size(msg->attr) : 0,
	};
}

void urxe_cm_deliver_type(struct urxe_cm_id *id, enum urxe_cm_event_type type,
			  const struct urxe_cm_msg *msg, uint64_t now)
{
	struct urxe_cm_event event = urxe_cm_event_of(type, msg);

	urxe_cm_deliver(id, &event, now);
}

void urxe_cm_disarm(struct urxe_cm_id *id)
{
	urxe_timer_disarm(&id->cm->wheel, &id->timer);
	cds_list_del_init(&id->waiting);
}

void urxe_cm_arm(struct urxe_cm_id *id, uint64_t now, uint64_t delay)
{
	urxe_cm_disarm(id);
	if (!now) {
		id->delay = delay;
		cds_list_add_tail(&id->waiting, &id->cm->unarmed);
		return;
	}
	urxe_timer_arm(&id->cm->wheel, &id->timer,
		       (now + delay + (1 << URXE_CM_TICK_SHIFT) - 1) >> URXE_CM_TICK_SHIFT);
}

/* No answer, and no tries left. */
static void give_up(struct urxe_cm_id *id, uint64_t now)
{
	switch ((enum urxe_cm_state)id->state) {
	case URXE_CM_REQ_SENT:
	case URXE_CM_MRA_REQ_RCVD:
		urxe_cm_put_rej(id, URXE_CM_REJ_TIMEOUT);
		urxe_cm_refused(id, now);
		urxe_cm_deliver_type(id, URXE_CM_REQ_ERROR, NULL, now);
		break;
	case URXE_CM_REP_SENT:
	case URXE_CM_MRA_REP_RCVD:
		urxe_cm_put_rej(id, URXE_CM_REJ_TIMEOUT);
		urxe_cm_refused(id, now);
		urxe_cm_deliver_type(id, URXE_CM_REP_ERROR, NULL, now);
		break;
	case URXE_CM_DREQ_SENT:
		urxe_cm_become(id, URXE_CM_TIMEWAIT, now);
		urxe_cm_deliver_type(id, URXE_CM_DREQ_ERROR, NULL, now);
		break;
	case URXE_CM_REJ_SENT:
		urxe_cm_become(id, URXE_CM_IDLE, now);
		urxe_cm_id_free(id);
		break;
	case URXE_CM_SIDR_REQ_SENT:
		urxe_cm_become(id, URXE_CM_IDLE, now);
		urxe_cm_deliver_type(id, URXE_CM_SIDR_REQ_ERROR, NULL, now);
		break;
	default: break;
	}
}

static void expire(struct urxe_timer *timer, uint64_t tick)
{
	struct urxe_cm_id *id = caa_container_of(timer, struct urxe_cm_id, timer);
	uint64_t now = id->cm->now;

	if (id->state == URXE_CM_TIMEWAIT) {
		urxe_cm_become(id, URXE_CM_IDLE, now);
		urxe_cm_deliver_type(id, URXE_CM_TIMEWAIT_EXIT, NULL, now);
	} else if (id->mad && id->unsent) {
		id->unsent = false;
		urxe_cm_repeat(id);
		urxe_cm_arm(id, now, id->timeout);
	} else if (id->mad && id->retries_left) {
		id->retries_left--;
		id->cm->counts.retries++;
		urxe_cm_repeat(id);
		urxe_cm_arm(id, now, id->timeout);
	} else {
		give_up(id, now);
	}
}

uint64_t urxe_cm_deadline(struct urxe_cm *cm)
{
	uint64_t next = urxe_wheel_next(&cm->wheel);

	if (cm->waiting.next != &cm->waiting || cm->unarmed.next != &cm->unarmed)
		return 0;
	return next == UINT64_MAX ? next : next << URXE_CM_TICK_SHIFT;
}

void urxe_cm_run(struct urxe_cm *cm, uint64_t now)
{
	struct urxe_cm_id *id;

	cm->now = now;
	while (!cds_list_empty(&cm->unarmed)) {
		id = cds_list_first_entry(&cm->unarmed, struct urxe_cm_id, waiting);
		urxe_cm_arm(id, now, id->delay);
	}
	while (!cds_list_empty(&cm->waiting)) {
		id = cds_list_first_entry(&cm->waiting, struct urxe_cm_id, waiting);
		cds_list_del_init(&id->waiting);
		urxe_cm_deliver_type(id, URXE_CM_USER_ESTABLISHED, NULL, now);
	}
	urxe_wheel_run(&cm->wheel, now >> URXE_CM_TICK_SHIFT, expire);
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Path migration (path_migration.h): the states, and the change from one path to the other. */
#include "hca/completer.h"
#include "hca/path_migration.h"

#include <errno.h>
#include <stdlib.h>

#include "hca/dead_qp.h"
#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/peer.h"
#include "hca/responder.h"

enum urxe_migration_action urxe_migration_action(enum ibv_mig_state state,
						 enum urxe_migration_event event)
{
	enum { NO = URXE_MIGRATION_REFUSE };
	static const uint8_t actions[][URXE_MIGRATION_EVENTS] = {
		[IBV_MIG_MIGRATED] =
			{
				[URXE_MIGRATION_ASK_REARM] = URXE_MIGRATION_REARM,
				[URXE_MIGRATION_ASK_ARMED] = NO,
				[URXE_MIGRATION_RETRIES_SPENT] = NO,
			},
		[IBV_MIG_REARM] =
			{
				[URXE_MIGRATION_ASK_MIGRATED] = NO,
				[URXE_MIGRATION_ASK_ARMED] = NO,
				[URXE_MIGRATION_HEAR_CLEAR] = URXE_MIGRATION_ARM,
				[URXE_MIGRATION_RETRIES_SPENT] = NO,
			},
		[IBV_MIG_ARMED] =
			{
				[URXE_MIGRATION_ASK_MIGRATED] = URXE_MIGRATION_MIGRATE,
				[URXE_MIGRATION_ASK_REARM] = NO,
				[URXE_MIGRATION_ASK_ARMED] = NO,
				[URXE_MIGRATION_HEAR_SET] = URXE_MIGRATION_MIGRATE,
				[URXE_MIGRATION_HEAR_ASTRAY] = NO,
				[URXE_MIGRATION_RETRIES_SPENT] = URXE_MIGRATION_MIGRATE,
			},
	};

	return (enum urxe_migration_action)actions[state][event];
}

static enum urxe_migration_action action_of(const struct urxe_qp *qp,
					    enum urxe_migration_event event)
{
	return urxe_migration_action(qp->proto.attr.path_mig_state, event);
}

/* A process that answers for this one when it has died uses the QP's path and its MigReq. */
static void enter(struct urxe_qp *qp, enum ibv_mig_state state)
{
	qp->proto.attr.path_mig_state = state;
	qp->proto.migreq = state == IBV_MIG_MIGRATED ? URXE_BTH_MIGREQ : 0;
	qp->proto.migration_failed = false;
	qp->direct.near = URXE_NEAR_UNKNOWN;
	if (qp->shown_epsn)
		urxe_dead_qp_record(qp);
}

/* ---- ibv_modify_qp(3) ---- */

static int check_alternate(const struct urxe_qp *qp, const struct ibv_qp_attr *attr)
{
	const struct urxe_port *port = urxe_context_port(qp->ibv.context, attr->alt_port_num);

	return !port || attr->alt_ah_attr.port_num != attr->alt_port_num ||
			       attr->alt_pkey_index >= port->pkey_len || attr->alt_timeout > 31
		       ? EINVAL
		       : 0;
}

int urxe_migration_check(const struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	bool loaded = qp->alternate || (mask & IBV_QP_ALT_PATH);

	if ((mask & IBV_QP_ALT_PATH) && check_alternate(qp, attr))
		return EINVAL;
	if (!(mask & IBV_QP_PATH_MIG_STATE))
		return 0;
	if (attr->path_mig_state > IBV_MIG_ARMED)
		return EINVAL;
	switch (action_of(qp, (enum urxe_migration_event)attr->path_mig_state)) {
	case URXE_MIGRATION_REFUSE: return EINVAL;
	case URXE_MIGRATION_REARM: return loaded ? 0 : EINVAL;
	default: return 0;
	}
}

int urxe_migration_prepare(struct urxe_qp *qp, const struct ibv_qp_attr *attr, uint32_t dest_qpn,
			   struct urxe_alternate **alternate)
{
	struct urxe_alternate *a = malloc(sizeof(*a));
	int ret = a ? urxe_qp_path(qp, &attr->alt_ah_attr, dest_qpn, &a->path, &a->peer) : ENOMEM;

	if (!ret && a->path.multicast) {
		urxe_peer_put(a->peer);
		ret = EINVAL;
	}
	if (ret) {
		free(a);
		return ret;
	}
	*alternate = a;
	return 0;
}

void urxe_alternate_free(struct urxe_alternate *alternate)
{
	if (alternate)
		urxe_peer_put(alternate->peer);
	free(alternate);
}

void urxe_migration_load(struct urxe_qp *qp, const struct ibv_qp_attr *attr,
			 struct urxe_alternate *alternate)
{
	struct ibv_qp_attr *own = &qp->proto.attr;

	urxe_alternate_free(qp->alternate);
	qp->alternate = alternate;
	own->alt_ah_attr = attr->alt_ah_attr;
	own->alt_port_num = attr->alt_port_num;
	own->alt_pkey_index = attr->alt_pkey_index;
	own->alt_timeout = attr->alt_timeout;
}

/* ---- migration ---- */

static void forget_alternate(struct urxe_qp *qp)
{
	struct ibv_qp_attr *own = &qp->proto.attr;

	free(qp->alternate);
	qp->alternate = NULL;
	own->alt_ah_attr = (struct ibv_ah_attr){0};
	own->alt_port_num = own->alt_timeout = 0;
	own->alt_pkey_index = 0;
}

/* What is under way by the former path is sent again at once: whether it
 * has arrived, the PSNs tell. */
static void migrate(struct urxe_qp *qp)
{
	const struct ibv_qp_attr *own = &qp->proto.attr;
	struct ibv_qp_attr path = {
		.ah_attr = own->alt_ah_attr,
		.port_num = own->alt_port_num,
		.pkey_index = own->alt_pkey_index,
		.timeout = own->alt_timeout,
	};

	urxe_qp_use_path(qp, &qp->alternate->path, qp->alternate->peer);
	urxe_qp_set_plain(qp, &path, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_TIMEOUT);
	qp->proto.attr.ah_attr = path.ah_attr;
	forget_alternate(qp);
	enter(qp, IBV_MIG_MIGRATED);
	urxe_direct_publish(qp);
	urxe_completer_restart(qp);
	urxe_event_qp(qp, IBV_EVENT_PATH_MIG);
}

void urxe_migration_ask(struct urxe_qp *qp, enum ibv_mig_state state)
{
	switch (action_of(qp, (enum urxe_migration_event)state)) {
	case URXE_MIGRATION_REARM: enter(qp, IBV_MIG_REARM); break;
	case URXE_MIGRATION_MIGRATE:
		migrate(qp);
		/* A peer that only sends learns of it by this, and not by its retries (9.7.7). */
		urxe_responder_acknowledge(qp);
		break;
	default: break;
	}
}

/* Which event is it? False: none, and the packet is one like others. */
static bool event_of(const struct urxe_qp *qp, const struct urxe_bth *bth,
		     const struct urxe_rx_packet *rx, enum urxe_migration_event *event)
{
	const struct urxe_path *path = &qp->proto.path;
	uint16_t pkey = urxe_qp_pkey(qp);
	bool fits;

	if (urxe_bth_migreq(bth)) {
		if (!qp->alternate)
			return false;
		path = &qp->alternate->path;
		pkey = urxe_port_pkey(urxe_context_port(qp->ibv.context,
							qp->proto.attr.alt_port_num),
				      qp->proto.attr.alt_pkey_index);
	}
	fits = urxe_came_by(rx, path) && urxe_pkeys_match(urxe_bth_pkey(bth), pkey);
	if (urxe_bth_migreq(bth))
		*event = fits ? URXE_MIGRATION_HEAR_SET : URXE_MIGRATION_HEAR_ASTRAY;
	else
		*event = URXE_MIGRATION_HEAR_CLEAR;
	return fits || urxe_bth_migreq(bth);
}

bool urxe_migration_hear(struct urxe_qp *qp, const struct urxe_bth *bth,
			 const struct urxe_rx_packet *rx)
{
	enum urxe_migration_event event;

	if (!event_of(qp, bth, rx, &event))
		return true;
	switch (action_of(qp, event)) {
	case URXE_MIGRATION_ARM: enter(qp, IBV_MIG_ARMED); return true;
	case URXE_MIGRATION_MIGRATE: migrate(qp); return true;
	case URXE_MIGRATION_REFUSE: break;
	default: return true;
	}
	/* Once: a peer that is astray repeats its packets. */
	if (!qp->proto.migration_failed)
		urxe_event_qp(qp, IBV_EVENT_PATH_MIG_ERR);
	qp->proto.migration_failed = true;
	return false;
}

bool urxe_migration_rescue(struct urxe_qp *qp)
{
	if (action_of(qp, URXE_MIGRATION_RETRIES_SPENT) != URXE_MIGRATION_MIGRATE)
		return false;
	migrate(qp);
	return true;
}

void urxe_migration_reset(struct urxe_qp *qp)
{
	if (qp->alternate)
		urxe_peer_put(qp->alternate->peer);
	forget_alternate(qp);
	enter(qp, IBV_MIG_MIGRATED);
}

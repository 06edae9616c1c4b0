/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Automatic path migration of connected QPs (IBTA vol. 1, 17.2.8): a QP has an alternate path
 * beside the one in use, and goes over to it together with its peer, without a loss.
 *
 *                 REARM asked, with an              packet by the path
 *                 alternate path loaded             in use, MigReq = 0
 *	MIGRATED ─────────────────────────> REARM ─────────────────────────> ARMED
 *	   ^                                                                   │
 *	   └───────────────────────────────────────────────────────────────────┘
 *	     MIGRATED asked; packet by the alternate path, MigReq = 1; retries spent
 *
 * MIGRATED is where a QP begins. Packets have MigReq = 1 in that state and 0 in the others. With
 * the migration the alternate path becomes the one in use, and there is none until the next is
 * loaded. Both ends rearm by themselves; each finds out by a packet that the other one has. So a QP
 * that is not MIGRATED exchanges packets and does without direct access (direct.c).
 *
 * The state is proto.attr.path_mig_state. All of it under the engine lock.
 */
#ifndef URXE_HCA_PATH_MIGRATION_H
#define URXE_HCA_PATH_MIGRATION_H

#include "hca/hca.h"

struct urxe_rx_packet;

/* A path that is loaded, and the window towards its end. */
struct urxe_alternate {
	struct urxe_path path;
	struct urxe_peer *peer;
};

enum urxe_migration_event {
	/* ibv_modify_qp(3): as enum ibv_mig_state */
	URXE_MIGRATION_ASK_MIGRATED,
	URXE_MIGRATION_ASK_REARM,
	URXE_MIGRATION_ASK_ARMED,
	/* a packet */
	URXE_MIGRATION_HEAR_CLEAR,  /* by the path in use, MigReq = 0 */
	URXE_MIGRATION_HEAR_SET,    /* by the alternate path, MigReq = 1 */
	URXE_MIGRATION_HEAR_ASTRAY, /* by any other, MigReq = 1 */
	/* the requester */
	URXE_MIGRATION_RETRIES_SPENT,
	URXE_MIGRATION_EVENTS,
};

enum urxe_migration_action {
	URXE_MIGRATION_NONE,
	URXE_MIGRATION_REFUSE, /* EINVAL; the packet is dropped; the QP fails */
	URXE_MIGRATION_REARM,
	URXE_MIGRATION_ARM,
	URXE_MIGRATION_MIGRATE,
};

enum urxe_migration_action urxe_migration_action(enum ibv_mig_state state,
						 enum urxe_migration_event event);

/* What ibv_modify_qp(3) asks for, apart from the address vector: 0 or EINVAL. */
int urxe_migration_check(const struct urxe_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* The alternate path of attr, to be loaded, or to be freed; an errno. */
int urxe_migration_prepare(struct urxe_qp *qp, const struct ibv_qp_attr *attr, uint32_t dest_qpn,
			   struct urxe_alternate **alternate);
void urxe_migration_load(struct urxe_qp *qp, const struct ibv_qp_attr *attr,
			 struct urxe_alternate *alternate);
void urxe_alternate_free(struct urxe_alternate *alternate);
/* A state that urxe_migration_check() has found possible. */
void urxe_migration_ask(struct urxe_qp *qp, enum ibv_mig_state state);

/*
 * A packet for a QP that is not MIGRATED. True: the rules for all packets decide, by the path that
 * is in use then; false: it asks for a migration that is not possible (IBV_EVENT_PATH_MIG_ERR), and
 * is dropped.
 */
bool urxe_migration_hear(struct urxe_qp *qp, const struct urxe_bth *bth,
			 const struct urxe_rx_packet *rx);
/* The requester's retries are spent. True: it has migrated, and sends again with fresh ones. */
bool urxe_migration_rescue(struct urxe_qp *qp);

/* As a QP begins: MIGRATED, without an alternate path. */
void urxe_migration_reset(struct urxe_qp *qp);

#endif

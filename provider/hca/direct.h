/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Direct access: one-sided operations that the initiator carries out itself on the memory of a
 * neighbour, a process of the same host segment (docs/architecture.md, "Direct access").
 *
 * Every process shows its neighbours two tables, read-only: its registration table, and a row for
 * each QP that takes requests. An initiator whose QP has nothing outstanding asks them what a responder
 * would ask, and then copies: as memory within one process, and where the target's memory lies in a
 * file of libmempool's, which is mapped; else by process_vm_readv(2) and process_vm_writev(2). Whatever the tables do not plainly permit goes the way of packets, so that
 * errors are the standard's.
 *
 * Under the engine lock, unless said otherwise.
 */
#ifndef URXE_HCA_DIRECT_H
#define URXE_HCA_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mempool/mempool.h"

struct urxe_qp;
struct urxe_send_wqe;

/* Makes the tables (urxe_hca.table is one of them) and shows them; -errno. Without the lock. */
int urxe_direct_start(void);
/* When nobody works with them any more. Without the lock. */
void urxe_direct_stop(void);
/* In the child of a fork: the parent's tables become private and empty. */
void urxe_direct_forked(void);

/* Says by its life that this process lives: the service thread, when it begins and when it ends. Until it
 * has begun, neighbours send packets. */
void urxe_direct_alive(void);
bool urxe_direct_is_alive(void);
void urxe_direct_dead(void);

/*
 * Rows have been taken from the registration table, or changed: returns when no neighbour works by
 * what they said before. Waits for as long as it takes to copy 64 KiB, as a rule. Without the engine
 * lock too.
 */
void urxe_direct_changed(void);

/* Where the memory of a region lies, if it is libmempool's, which then keeps it. */
struct urxe_place {
	struct mempool_hold hold; /* of no meaning unless held */
	bool held;
	uint32_t object; /* for the region's row; 0: neighbours do not map it */
};

/*
 * Finds the place of [addr, addr + length), and shows it to neighbours. It stays until it is put back,
 * behind urxe_direct_changed(). Any thread, with or without the engine lock.
 */
void urxe_place_get(struct urxe_place *place, const void *addr, size_t length);
void urxe_place_show(struct urxe_place *place);
void urxe_place_put(const struct urxe_place *place);
/* Now and then. */
void urxe_direct_housekeep(void);
/* Brings a QP's row up to its state and attributes; as above if it permits less than before. */
void urxe_direct_publish(struct urxe_qp *qp);
/* Takes a QP's row away, and waits as above: before its queues are flushed, reset or freed. */
void urxe_direct_retract(struct urxe_qp *qp);
/* The QP's address vector, or the devices, are others: who is at the other end must be found anew. */
void urxe_direct_forget(struct urxe_qp *qp);
void urxe_direct_devices_changed(void);

enum urxe_direct_outcome {
	URXE_DIRECT_NO,	  /* by packets */
	URXE_DIRECT_DONE, /* carried out */
	URXE_DIRECT_MORE, /* not yet: others shall have their turn, then call again */
};

/* Carries out the WR at the send queue's cursor, which has not begun, if that can be done. */
enum urxe_direct_outcome urxe_direct_run(struct urxe_qp *qp, const struct urxe_send_wqe *wqe);

#endif

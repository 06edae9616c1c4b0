/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Direct access: one-sided operations that the initiator carries out itself on the memory of a
 * neighbour, a process of the same host segment (docs/architecture.md, "Direct access").
 *
 * Every process shows its neighbours two tables, read-only: its registration table, and a row for
 * each QP that takes requests. An initiator whose QP has nothing outstanding asks them what a
 * responder would ask, and then copies: as memory within one process, and where the target's memory
 * lies in a file of libmempool's, which is mapped; else by process_vm_readv(2) and
 * process_vm_writev(2). Whatever the tables do not plainly permit goes the way of packets, so that
 * errors are the standard's.
 *
 * Under the engine lock, unless said otherwise.
 */
#ifndef URXE_HCA_DIRECT_H
#define URXE_HCA_DIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mempool/hold.h"
#include "mempool/table.h"

struct iovec;
struct urxe_context_file;
struct urxe_qp;
struct urxe_refs;
struct urxe_send_wqe;

/* Makes the tables (urxe_hca.table is one of them) and shows them; -errno. Without the lock. */
int urxe_direct_start(void);
/* When nobody works with them any more. Without the lock. */
void urxe_direct_stop(void);
/* In the child of a fork: the parent's tables become private and empty. */
void urxe_direct_forked(void);

/* Says by its life that this process lives: the service thread, when it begins and when it ends.
 * Until it has begun, neighbours send packets. */
void urxe_direct_alive(void);
bool urxe_direct_is_alive(void);
void urxe_direct_dead(void);

/*
 * Rows have been taken from the registration table, or changed: returns when no neighbour works by
 * what they said before. Waits for as long as it takes to copy 64 KiB, as a rule, and ten seconds
 * if need be. Without the engine lock.
 */
void urxe_direct_changed(void);

/*
 * The same in two steps, for a thread that has the engine lock. The first gives a ticket for the
 * accesses that are under way: 0 when there are none. Then urxe_direct_over() says whether they
 * have ended, under the lock, which takes the microseconds that an access lasts as a rule; and
 * urxe_direct_wait() waits for those that were under way when it was called, without it.
 */
uint64_t urxe_direct_change(void);
bool urxe_direct_over(uint64_t ticket);
void urxe_direct_wait(void);

/* urxe_wire_pull() in the cheapest way that is safe with that neighbour. Where it is
 * the program's memory, the caller asks urxe_memory_lost() next. */
int urxe_direct_pull(const struct urxe_refs *refs, uint32_t offset, const struct iovec *iov,
		     unsigned n, uint32_t len);

/* The file that the memory of a region lies in: libmempool's, which then keeps it, or a
 * context's. */
struct urxe_place {
	struct rmempool_hold hold; /* of no meaning unless known */
	bool known;
	bool held;	 /* by libmempool */
	uint32_t object; /* for the region's row; 0: neighbours do not map it */
};

/*
 * Finds the place of [addr, addr + length), and shows it to neighbours. It stays until it is put
 * back, behind urxe_direct_changed(). Any thread, with or without the engine lock.
 */
void urxe_place_get(struct urxe_place *place, const void *addr, size_t length);
void urxe_place_of_file(struct urxe_place *place, const struct urxe_context_file *file);
void urxe_place_show(struct urxe_place *place);
void urxe_place_put(const struct urxe_place *place);
/* Memory of another process, mapped here; munmap() ends it. */
struct urxe_mapping {
	uint8_t *at; /* NULL: none */
	uint64_t size, offset;
};

/*
 * The row that a key has with another process of this host, and its memory: -ENOENT no such key in
 * that protection domain, -EOPNOTSUPP it is not in a file that can be mapped here.
 */
int urxe_direct_import(uint32_t key, uint32_t pd, struct mempool_row *row,
		       struct urxe_mapping *mapping);
/* Now and then: unmaps what the dead have left. */
void urxe_direct_housekeep(void);
/*
 * Brings a QP's row up to its state and attributes; and takes it away. If it permits less than
 * before, qp->direct.ticket is for accesses by what it said: they must be over before its
 * queues are flushed or reset, and before the verb that asked for it returns.
 */
void urxe_direct_publish(struct urxe_qp *qp);
void urxe_direct_retract(struct urxe_qp *qp);
/* The QP's address vector, or the ports, are others: the other end must be found anew. */
void urxe_direct_forget(struct urxe_qp *qp);
void urxe_direct_ports_changed(void);

enum urxe_direct_outcome {
	URXE_DIRECT_NO,	  /* by packets */
	URXE_DIRECT_DONE, /* carried out */
	URXE_DIRECT_MORE, /* not yet: others shall have their turn, then call again */
};

/* Carries out the WR at the send queue's cursor, which has not begun, if that can be done. */
enum urxe_direct_outcome urxe_direct_run(struct urxe_qp *qp, const struct urxe_send_wqe *wqe);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The engine: the one place where protocol work is done, and the rules by which threads do it.
 *
 * There is one engine per process, with one wire, and one lock for all protocol state. The thread
 * that waits drives progress: one in ibv_poll_cq() that finds its CQ empty takes the lock if it is
 * free, drains the wire, and gives the lock back. A thread that posts work while another has the
 * lock leaves the QP on a stack, and the holder runs it before or just after it lets go; so nobody
 * waits for the lock to post or to poll.
 *
 * The service thread does the same for programs that do not poll. While a thread polls, the service
 * thread keeps away from the wire: polling renews a lease, and so does posting large messages; it
 * sleeps until it runs out. The length of a lease adapts to what is found at its end (lease.h).
 * Still polled: it doubles, up to 8 ms, so that a polling loop sees the service thread 125 times a
 * second at most. Not polled, with packets waiting (a program that spins on its memory): it is cut
 * by four, down to none, when the service thread blocks on the sockets at once. A program that arms
 * a CQ ends the lease.
 */
#ifndef URXE_HCA_ENGINE_H
#define URXE_HCA_ENGINE_H

#include <netinet/in.h>

#include "common/owned_lock.h"
#include "hca/adapter.h"
#include "hca/hca.h"
#include "hca/lease.h"
#include "wire/neighbour.h"

#define URXE_QP_SLOTS	65536
#define URXE_MW_BUCKETS 256
#define URXE_PSN_WINDOW (1 << 22) /* PSNs that may be under way: a quarter of them */

struct urxe_engine {
	struct owned_lock lock;
	_Atomic uintptr_t holder; /* the thread that has it, by its thread pointer; else 0 */
	struct urxe_segment *seg;
	struct urxe_wire *wire;
	struct mempool_table *table; /* the memory unit */
	struct urxe_qp **qps;	     /* by index: QPN >> 8 */
	struct cds_list_head contexts;
	struct cds_list_head peers[64];		       /* by hash of address */
	struct cds_list_head mcast[64];		       /* struct urxe_mcast, by hash of group */
	uint32_t mcast_groups, mcast_members;	       /* of those: groups, and QPs in them */
	struct cds_list_head windows[URXE_MW_BUCKETS]; /* by key index */
	struct cds_list_head ready;		       /* QPs with something to send */
	struct cds_list_head full; /* QPs that wait for room in a neighbour's ring */
	atomic_bool any_full;	   /* there are, or were at the last turn */
	struct cds_list_head held; /* QPs that wait for neighbours to end what they are at */
	struct cds_list_head
		acks_waiting; /* QPs whose acknowledgement waits for the program's answer, */
	struct cds_list_head acks_due; /* and those for which that is over */
	bool acks_may_wait;	       /* a program drives the engine, and will soon do so again */
	struct urxe_wheel wheel;
	_Atomic(struct urxe_qp *) kicked; /* stack of QPs posted to while the lock was taken */
	uint64_t now;			  /* ns, as of the last look */
	uint64_t housekeep_at;
	uint64_t held_at; /* when to look at those in held again */
	int users;	  /* open contexts; under users_lock of engine.c */

	/* Packets being built, sent by one urxe_wire_send(). */
	struct urxe_tx_packet tx[URXE_TX_BATCH];
	struct iovec iov[URXE_TX_BATCH * 4 + URXE_MAX_SGE];
	uint8_t stage[URXE_TX_BATCH][URXE_MAX_PAYLOAD]; /* payload that must not change under us */

	/* Service thread. */
	pthread_t thread;
	bool running;
	_Atomic bool stop;
	int wake_fd;
	int monitor_fd;
	_Atomic uint64_t polled_at;   /* by a program; ns */
	_Atomic int polled_cpu;	      /* where it ran then */
	struct urxe_lease lease;      /* the service thread's */
	_Atomic bool leased;	      /* the thread sleeps on the lease, not on the wire */
	_Atomic uint64_t turned_at;   /* ticks */
	_Atomic uint64_t renewed_at;  /* ticks: polled_at, without a turn */
	_Atomic bool acks_wait;	      /* acks_waiting is not empty */
	unsigned near_since;	      /* packets of neighbours since the last whole turn */
	uint64_t ran_at;	      /* `now` when timers were last looked at */
	bool now_is_old;	      /* more than short packets came or went since it was read */
	uint64_t clock_ticks;	      /* when `now` was read, */
	uint64_t clock_step;	      /* and after how many ticks it is read again */
	_Atomic unsigned patience;    /* turns that find nothing before a poller gives way */
	_Atomic uint64_t yield_ticks; /* the shortest that giving way has taken */
	int cancel;		      /* what the holder's cancellation state is to be again */
	uint64_t earliest;	      /* deadline of the timers armed since the lock was taken */
	_Atomic uint64_t sleep_until; /* the thread sleeps on the wire until then; 0: it does not */
	atomic_int armed;	      /* CQs and threads that wait for an event: no lease then */
};

extern struct urxe_engine urxe_hca;

/* The lock itself; often: to post, or to poll. While it changes hands the holder is not known, but
 * to the thread that is it. */
static inline bool urxe_engine_try(bool often)
{
	if (!owned_trylock(&urxe_hca.lock, often))
		return false;
	atomic_store_explicit(&urxe_hca.holder, owned_lock_self(), memory_order_relaxed);
	return true;
}

static inline void urxe_engine_take(void)
{
	owned_lock(&urxe_hca.lock);
	atomic_store_explicit(&urxe_hca.holder, owned_lock_self(), memory_order_relaxed);
}

static inline void urxe_engine_give(void)
{
	atomic_store_explicit(&urxe_hca.holder, 0, memory_order_relaxed);
	owned_unlock(&urxe_hca.lock);
}

/* What else there is to taking the lock, for a thread that took it by itself. */
void urxe_engine_locked(void);

/* cancel.c: by the holder of the lock. cancel: the state to return to afterwards; DISABLE also
 * where none was asked for. */
void urxe_cancel_disable(int *cancel);

/* New work on a QP's send queue: sends it now, or soon. Any thread, without the engine lock. */
void urxe_engine_kick(struct urxe_qp *qp);
/* The same, but it may wait for the next turn, which is certain to come. */
void urxe_engine_defer(struct urxe_qp *qp);
/* Under the lock: puts a QP on the list of those to run before the lock is given back. */
void urxe_engine_ready(struct urxe_qp *qp);
/* Under the lock: the same, when a neighbour that works directly in this process's memory may have
 * ended. */
void urxe_engine_hold(struct urxe_qp *qp);
/* Under the lock: the same as urxe_engine_ready() for one that has nothing to send but an
 * acknowledgement. */
void urxe_engine_ack_waits(struct urxe_qp *qp);
/* Under the lock: sends that acknowledgement, since it cannot go with what the QP sends. */
void urxe_engine_send_ack(struct urxe_qp *qp);

/* The QP table. Under the lock. */
int urxe_engine_add_qp(struct urxe_qp *qp);
void urxe_engine_remove_qp(struct urxe_qp *qp);
/* Takes one that is not in the table out of all lists. */
void urxe_engine_forget_qp(struct urxe_qp *qp);
/* The P_Key table of a port has changed: what neighbours read of its QPs changes with it. */
void urxe_engine_pkeys_changed(const struct urxe_port *port);
struct urxe_qp *urxe_engine_qp(uint32_t qpn);

static inline void urxe_count(const struct urxe_port *port, enum urxe_counter counter)
{
	urxe_segment_counters(urxe_hca.seg, port->index)[counter]++;
}

/* Before the lock is given back and the stack of kicked QPs is looked at, which order the rest. */
static inline void urxe_set_flying(struct urxe_qp *qp, bool flying)
{
	atomic_store_explicit(&qp->flying, flying, memory_order_release);
}

/* Finds out whether a connected QP's peer is a neighbour now. */
void urxe_engine_look_near(struct urxe_qp *qp);
/* The socket, or the neighbour's ring, has no room for packets to that QP: this one is made ready
 * when the neighbour takes some, if it was that; a timer does so in either case. */
void urxe_engine_full(struct urxe_qp *qp, const struct urxe_path *path, uint32_t qpn);

/* dispatch.c: from the wire to the QPs */
void urxe_dispatch(const struct urxe_rx_packet *rx, void *arg);

#endif

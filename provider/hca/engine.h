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
 * thread keeps away from the wire: polling renews a lease, and the service thread sleeps until it
 * runs out. The length of a lease adapts to what is found at its end (lease.h). Still polled, eight
 * times in a row: it doubles, up to 8 ms, so that a polling loop sees the service thread 125 times a
 * second at most. Not polled, with packets waiting (a program that spins on its memory): it is cut by
 * four, down to none, when the service thread blocks on the sockets at once. A program that arms a CQ
 * ends the lease.
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

struct urxe_batch;

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
	struct urxe_lease lease;      /* the service thread's */
	_Atomic bool leased;	      /* the thread sleeps on the lease, not on the wire */
	_Atomic uint64_t turned_at;   /* ticks */
	_Atomic uint64_t renewed_at;  /* ticks: polled_at, without a turn */
	_Atomic bool acks_wait;	      /* acks_waiting is not empty */
	unsigned near_since;	      /* packets of neighbours since the last whole turn */
	uint64_t ran_at;	      /* `now` when timers were last looked at */
	uint64_t clock_ticks;	      /* when `now` was read, */
	uint64_t clock_step;	      /* and after how many ticks it is read again */
	_Atomic unsigned patience;    /* turns that find nothing before a poller gives way */
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

/* cancel.c: by the holder of the lock. cancel: the state to return to afterwards; DISABLE also where none was
 * asked for. */
void urxe_cancel_disable(int *cancel);

/* polling.c */
void urxe_polling_init(void);
/*
 * For pollers, before a turn: it would find nothing, since no packet of a neighbour waits, nothing
 * is to be sent, and the last turn was some microseconds ago at most. Renews the lease. False where
 * there are no neighbours, whose packets can be seen.
 */
bool urxe_engine_quiet(void);
/* Under the lock: brings `now` up to date, to within some microseconds; returns urxe_ticks(). */
uint64_t urxe_engine_clock(void);
/* After so many turns in a row that found nothing: lets others have the CPU, if it is time for
 * that. head is that of the polled CQ: the service thread may add to it meanwhile. */
void urxe_engine_give_way(unsigned idle, const atomic_uint *head);
/* A program polls: renews the lease. */
void urxe_engine_polled(uint64_t now);
/* A program will sleep on a channel: the service thread must watch the wire from now on. */
void urxe_engine_watch(void);
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
/* The socket, or the neighbour's ring, has no room for packets to that QP: this one is made ready when
 * the neighbour takes some, if it was that; a timer does so in either case. */
void urxe_engine_full(struct urxe_qp *qp, const struct urxe_path *path, uint32_t qpn);

/* peer.c: windows towards peers. Under the lock. */
struct urxe_peer *urxe_peer_get(const struct urxe_link_addr *addr);
void urxe_peer_put(struct urxe_peer *peer);
bool urxe_peer_admits(struct urxe_qp *qp);
void urxe_peer_sent(struct urxe_qp *qp, uint64_t bytes);
void urxe_peer_acked(struct urxe_qp *qp, uint64_t bytes);
void urxe_peer_lost(struct urxe_qp *qp, bool timeout);
void urxe_peer_forget(struct urxe_qp *qp); /* what this QP has in flight is no more */
void urxe_peer_wait(struct urxe_qp *qp);

/* requester.c */
void urxe_requester_run(struct urxe_qp *qp);
/* The WR at the cursor, which had no PSN yet, was carried out without a packet. */
void urxe_requester_skip(struct urxe_qp *qp, struct urxe_send_wqe *wqe);
/* Before the first packet of a flight: the clocks start. */
void urxe_requester_start_clocks(struct urxe_qp *qp);
/* requester_short.c: the same as urxe_requester_run() for one short WR; false: it is not that simple, and
 * nothing was done. */
bool urxe_requester_short(struct urxe_qp *qp);
void urxe_requester_rewind(struct urxe_qp *qp, uint32_t psn);
bool urxe_requester_has_work(const struct urxe_qp *qp);
/* Is there work, and may it be done now? Flushes what a QP in error has. */
bool urxe_requester_may_run(struct urxe_qp *qp);
/* The netdev or a neighbour has no room now: the QP's timer makes it ready again. */
void urxe_requester_pause(struct urxe_qp *qp);
/* completer.c */
void urxe_completer_packet(struct urxe_qp *qp, const struct urxe_packet *pkt);
/* The short way of an acknowledgement, for the only WR that is under way. False: it is not that simple,
 * and nothing was done. */
bool urxe_completer_short(struct urxe_qp *qp, uint32_t psn);
void urxe_completer_retire(struct urxe_qp *qp);
/* The path is another: what is under way is sent again, with fresh retries. */
void urxe_completer_restart(struct urxe_qp *qp);
void urxe_completer_timer(struct urxe_qp *qp, uint64_t now);
void urxe_completer_arm(struct urxe_qp *qp);
void urxe_completer_arm_answers(struct urxe_qp *qp);
void urxe_complete_send(struct urxe_qp *qp, struct urxe_send_wqe *wqe, enum ibv_wc_status status);
/* responder_answer.c */
/* Sends the answers that wait; false when the wire is full. */
bool urxe_responder_run(struct urxe_qp *qp);
/* Puts the acknowledgement, when it is the only answer, behind what the requester sends. It counts as
 * sent; urxe_responder_ack_again() when it was not. */
bool urxe_responder_add_ack(struct urxe_qp *qp, struct urxe_batch *batch);
void urxe_responder_ack_again(struct urxe_qp *qp);
/* Is the acknowledgement the only answer, and may it go now? Its packet, which counts as sent. */
#define URXE_ACK_LEN (sizeof(struct urxe_bth) + sizeof(struct urxe_aeth))
bool urxe_responder_ack_alone(const struct urxe_qp *qp);
void urxe_responder_put_ack(struct urxe_qp *qp, uint8_t *to);
/* responder.c: acknowledges the last request unasked, if there can be one. */
void urxe_responder_acknowledge(struct urxe_qp *qp);
/* responder_short.c: a packet from the BTH on whose QP takes packets of that service and peer. False: it is not
 * that simple, and nothing was done. */
bool urxe_responder_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx);
/* dispatch.c: from the wire to the QPs */
void urxe_dispatch(const struct urxe_rx_packet *rx, void *arg);

/* copy.c */
void urxe_copy_visible(void *dst, const void *src, size_t len);

#endif

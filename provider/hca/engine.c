/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The engine's life, its lock, the QP table and the handing over of work (engine.h says how).
 * service.c has the service thread, polling.c what threads that poll do, cancel.c what becomes of
 * threads that are cancelled.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hca/completer.h"
#include "hca/dead_qp.h"
#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/gsi.h"
#include "hca/lost_memory.h"
#include "hca/moderation.h"
#include "hca/path_migration.h"
#include "hca/peer.h"
#include "hca/polling.h"
#include "hca/raw_packet.h"
#include "hca/requester.h"
#include "hca/responder.h"
#include "hca/service.h"
#include "hca/xrc.h"
#include "host/fd.h"
#include "host/guardian.h"
#include "host/mutex.h"

#define RX_BUDGET    128
#define NEAR_MOST    64
#define HOUSEKEEP_NS 1000000000ull
#define HELD_NS	     100000 /* between looks at what neighbours do */

struct urxe_engine urxe_hca;

static URXE_MUTEX(users_lock);

static void init_lists(void)
{
	struct urxe_engine *e = &urxe_hca;

	CDS_INIT_LIST_HEAD(&e->contexts);
	for (unsigned i = 0; i < URXE_MW_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&e->windows[i]);
	CDS_INIT_LIST_HEAD(&e->ready);
	CDS_INIT_LIST_HEAD(&e->full);
	atomic_store(&e->any_full, false);
	CDS_INIT_LIST_HEAD(&e->held);
	CDS_INIT_LIST_HEAD(&e->acks_waiting);
	CDS_INIT_LIST_HEAD(&e->acks_due);
	for (unsigned i = 0; i < 64; i++) {
		CDS_INIT_LIST_HEAD(&e->peers[i]);
		CDS_INIT_LIST_HEAD(&e->mcast[i]);
	}
	e->mcast_groups = e->mcast_members = 0;
	urxe_polling_init();
	e->now = urxe_now();
	urxe_wheel_init(&e->wheel, e->now);
	e->housekeep_at = e->now + HOUSEKEEP_NS;
	e->earliest = UINT64_MAX;
	atomic_store(&e->kicked, NULL);
	atomic_store(&e->armed, 0);
	atomic_store(&e->leased, false);
	atomic_store(&e->polled_at, 0);
	atomic_store(&e->sleep_until, 0);
}

static int start(void)
{
	struct urxe_engine *e = &urxe_hca;
	int ret;

	init_lists();
	owned_lock_init();
	e->qps = mmap(NULL, sizeof(*e->qps) * URXE_QP_SLOTS, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->qps == MAP_FAILED)
		return -ENOMEM;
	ret = urxe_segment_join(&e->seg);
	if (ret)
		goto err_qps;
	ret = urxe_direct_start();
	if (ret)
		goto err_segment;
	ret = urxe_wire_create(e->seg, &e->wire);
	if (ret)
		goto err_table;
	urxe_xrc_started();
	urxe_gsi_started();
	ret = urxe_service_start();
	if (ret)
		goto err_wire;
	return 0;

err_wire:
	urxe_wire_destroy(e->wire);
err_table:
	urxe_direct_stop();
err_segment:
	urxe_segment_leave(e->seg);
	e->wire = NULL;
	e->seg = NULL;
err_qps:
	munmap(e->qps, sizeof(*e->qps) * URXE_QP_SLOTS);
	return ret;
}

static void stop(void)
{
	struct urxe_engine *e = &urxe_hca;

	urxe_service_stop();
	urxe_xrc_stopped();
	urxe_dead_qp_clear();
	urxe_direct_stop();
	urxe_wire_destroy(e->wire);
	urxe_segment_leave(e->seg);
	munmap(e->qps, sizeof(*e->qps) * URXE_QP_SLOTS);
	e->wire = NULL;
	e->seg = NULL;
}

void urxe_users_lock(void)
{
	pthread_mutex_lock(&users_lock);
}

void urxe_users_unlock(void)
{
	pthread_mutex_unlock(&users_lock);
}

int urxe_engine_get(void)
{
	int ret = 0;

	pthread_mutex_lock(&users_lock);
	if (!urxe_hca.users)
		ret = start();
	if (!ret)
		urxe_hca.users++;
	pthread_mutex_unlock(&users_lock);
	return ret;
}

void urxe_engine_put(void)
{
	pthread_mutex_lock(&users_lock);
	if (!--urxe_hca.users)
		stop();
	pthread_mutex_unlock(&users_lock);
}

void urxe_engine_ready(struct urxe_qp *qp)
{
	cds_list_del(&qp->ready_node);
	cds_list_add_tail(&qp->ready_node, &urxe_hca.ready);
}

void urxe_engine_look_near(struct urxe_qp *qp)
{
	bool near = qp->proto.path.here &&
		    urxe_wire_neighbour(urxe_hca.wire, &qp->proto.path, qp->proto.attr.dest_qp_num);

	if (near && !qp->near)
		urxe_peer_forget(qp);
	qp->near = near;
}

void urxe_engine_full(struct urxe_qp *qp, const struct urxe_path *path, uint32_t qpn)
{
	if (!path->here)
		return;
	qp->full_slot = urxe_owner_of(urxe_hca.seg, qpn);
	cds_list_del(&qp->full_node);
	cds_list_add_tail(&qp->full_node, &urxe_hca.full);
	atomic_store_explicit(&urxe_hca.any_full, true, memory_order_relaxed);
}

/*
 * Neighbours have taken packets: QPs that waited for room send again. The first may fill the ring
 * again, and the others come back in the same order: so another one is the first each time.
 */
static void look_for_room(void)
{
	struct urxe_qp *qp, *next;

	if (!cds_list_empty(&urxe_hca.full)) {
		qp = cds_list_first_entry(&urxe_hca.full, struct urxe_qp, full_node);
		cds_list_del(&qp->full_node);
		cds_list_add_tail(&qp->full_node, &urxe_hca.full);
	}
	cds_list_for_each_entry_safe (qp, next, &urxe_hca.full, full_node) {
		if (!qp->full_slot || !urxe_wire_has_room(urxe_hca.wire, qp->full_slot))
			continue;
		cds_list_del_init(&qp->full_node);
		qp->answer_at = 0;
		if (qp->full_wait)
			qp->rnr_until = 0;
		qp->full_wait = false;
		urxe_engine_ready(qp);
	}
	atomic_store_explicit(&urxe_hca.any_full, !cds_list_empty(&urxe_hca.full),
			      memory_order_relaxed);
}

/* Often they are at it for microseconds; but one of them may be stopped by a debugger. */
void urxe_engine_hold(struct urxe_qp *qp)
{
	struct urxe_engine *e = &urxe_hca;

	cds_list_del(&qp->held_node);
	cds_list_add_tail(&qp->held_node, &e->held);
	e->held_at = e->now + HELD_NS;
	if (e->held_at < e->earliest)
		e->earliest = e->held_at;
}

static void run_held(void)
{
	struct cds_list_head *last = urxe_hca.held.prev, *node;

	do {
		node = urxe_hca.held.next;
		cds_list_del_init(node);
		urxe_engine_ready(cds_list_entry(node, struct urxe_qp, held_node));
	} while (node != last);
}

/*
 * A program that polls gets what has come before the peer gets its acknowledgement: often it has an
 * answer, for which the peer waits, and the acknowledgement follows that. It goes when the lock is
 * taken next: by the program that posts or polls again, or by the service thread at the lease's
 * end, or soon after its own turn.
 */
void urxe_engine_ack_waits(struct urxe_qp *qp)
{
	if (!urxe_hca.acks_may_wait) {
		urxe_engine_ready(qp);
	} else if (cds_list_empty(&qp->ready_node)) {
		qp->ack_later = true;
		cds_list_add_tail(&qp->ready_node, &urxe_hca.acks_waiting);
		atomic_store_explicit(&urxe_hca.acks_wait, true, memory_order_relaxed);
	}
}

void urxe_engine_send_ack(struct urxe_qp *qp)
{
	if (!qp->ack_later)
		return;
	cds_list_del_init(&qp->ready_node);
	qp->ack_later = false;
	urxe_responder_run(qp);
}

/* The lock was taken: acknowledgements have waited long enough. */
static void acks_fall_due(void)
{
	if (cds_list_empty(&urxe_hca.acks_waiting))
		return;
	cds_list_splice(&urxe_hca.acks_waiting, &urxe_hca.acks_due);
	CDS_INIT_LIST_HEAD(&urxe_hca.acks_waiting);
	atomic_store_explicit(&urxe_hca.acks_wait, false, memory_order_relaxed);
}

static void take_kicked(void)
{
	struct urxe_qp *qp = atomic_load(&urxe_hca.kicked);

	if (qp)
		qp = atomic_exchange(&urxe_hca.kicked, NULL);
	while (qp) {
		struct urxe_qp *next = qp->kick_next;

		atomic_store(&qp->kicked, false);
		urxe_engine_ready(qp);
		qp = next;
	}
}

/* Responses go first, because the peer waits for them. */
static void run(struct urxe_qp *qp)
{
	if (qp->ack_later) {
		qp->transport->run(qp);
		qp->ack_later = false;
		urxe_responder_run(qp);
	} else if (urxe_responder_run(qp)) {
		qp->transport->run(qp);
	}
}

/*
 * Runs each ready QP once per round. A QP that has more than one batch goes to the end of the list,
 * so that none starves another.
 */
static void run_ready(void)
{
	unsigned budget = 4 * URXE_TX_BATCH;

	take_kicked();
	while (budget--) {
		struct cds_list_head *list = &urxe_hca.ready;
		struct urxe_qp *qp;

		if (cds_list_empty(list))
			list = &urxe_hca.acks_due;
		if (cds_list_empty(list))
			break;
		qp = cds_list_first_entry(list, struct urxe_qp, ready_node);
		cds_list_del_init(&qp->ready_node);
		run(qp);
	}
}

static void locked(void)
{
	urxe_hca.cancel = PTHREAD_CANCEL_DISABLE;
	urxe_cancel_disable(&urxe_hca.cancel);
	acks_fall_due();
}

void urxe_engine_lock(void)
{
	urxe_engine_take();
	urxe_engine_locked();
}

void urxe_engine_locked(void)
{
	locked();
	take_kicked();
}

static bool try_lock(bool often)
{
	if (!urxe_engine_try(often))
		return false;
	locked();
	return true;
}

/* Does something become due before the service thread would look again? What is wanted of it is
 * due at once. */
static bool service_oversleeps(void)
{
	uint64_t until = atomic_load(&urxe_hca.sleep_until), earliest = urxe_hca.earliest;

	urxe_hca.earliest = UINT64_MAX;
	return until &&
	       (earliest < until || !cds_list_empty(&urxe_hca.ready) ||
		!cds_list_empty(&urxe_hca.acks_waiting) || !cds_list_empty(&urxe_hca.acks_due) ||
		urxe_gsi_deadline() < until || urxe_guardian_is_wanted(urxe_hca.seg));
}

void urxe_engine_unlock(void)
{
	int cancel = urxe_hca.cancel;
	bool alive;

	do {
		urxe_cancel_disable(&cancel);
		alive = urxe_hca.wire;
		if (alive) {
			run_ready();
			if (urxe_segment_servers_changed(urxe_hca.seg))
				urxe_wire_housekeep(urxe_hca.wire);
			if (service_oversleeps()) {
				/* Awake, it finds out by itself how long
				 * to sleep: once is enough. */
				atomic_store(&urxe_hca.sleep_until, 0);
				urxe_service_wake();
			}
		}
		urxe_engine_give();
		/* A thread that pushed after the stack was taken, and found the lock held, relies
		 * on us. */
	} while (alive && atomic_load(&urxe_hca.kicked) && urxe_engine_try(false));
	if (cancel == PTHREAD_CANCEL_ENABLE)
		pthread_setcancelstate(cancel, NULL);
}

static void on_timer(struct urxe_timer *timer, uint64_t now)
{
	urxe_completer_timer(caa_container_of(timer, struct urxe_qp, timer), now);
}

/* What is due by the clock. */
static void run_timers(void)
{
	struct urxe_engine *e = &urxe_hca;

	e->ran_at = e->now;
	urxe_wheel_run(&e->wheel, e->now, on_timer);
	urxe_gsi_run(e->now);
	urxe_moderation_run(e->now);
	if (e->now >= e->housekeep_at) {
		e->housekeep_at = e->now + HOUSEKEEP_NS;
		urxe_wire_housekeep(e->wire);
		urxe_gsi_housekeep();
		urxe_direct_housekeep();
		urxe_xrc_housekeep();
	}
}

/* Under the lock. Returns whether packets came in. Attended: nobody
 * sleeps on the wire meanwhile. */
static bool turn(bool attended)
{
	struct urxe_engine *e = &urxe_hca;
	int n;

	if (!e->wire)
		return false;
	e->near_since = 0;
	atomic_store_explicit(&e->turned_at, urxe_engine_clock(), memory_order_relaxed);
	urxe_wire_attend(e->wire, attended);
	n = urxe_wire_poll(e->wire, RX_BUDGET, e->now, urxe_dispatch, NULL);
	if (urxe_wire_missed(e->wire))
		urxe_service_wake();
	if (atomic_load_explicit(&e->any_full, memory_order_relaxed))
		look_for_room();
	if (!cds_list_empty(&e->held) && e->now >= e->held_at)
		run_held();
	if (e->now != e->ran_at)
		run_timers();
	return n > 0;
}

/*
 * A turn for neighbours' packets alone: a program that waits for one is to have it before the
 * sockets are asked, and timers looked at. Those have their turn when the rings are empty, and
 * after NEAR_MOST packets. False: there were none.
 */
static bool turn_near(void)
{
	struct urxe_engine *e = &urxe_hca;
	int n;

	if (!e->wire || e->near_since >= NEAR_MOST || !cds_list_empty(&e->full))
		return false;
	n = urxe_wire_poll_near(e->wire, RX_BUDGET, urxe_dispatch);
	e->near_since += n;
	return n > 0;
}

bool urxe_engine_turn(bool acks_may_wait)
{
	bool due = !cds_list_empty(&urxe_hca.acks_due), busy;

	urxe_hca.acks_may_wait = acks_may_wait;
	busy = turn(false) || due;
	urxe_hca.acks_may_wait = false;
	urxe_engine_unlock();
	return busy;
}

/* Under the lock. Short packets take less time than reading the clock. */
static void polled(void)
{
	struct urxe_engine *e = &urxe_hca;

	if (e->now_is_old) {
		e->now_is_old = false;
		urxe_engine_clock();
	}
	if (atomic_load_explicit(&e->polled_at, memory_order_relaxed) != e->now)
		urxe_engine_polled(e->now);
}

void urxe_engine_progress(bool often)
{
	bool leased;

	if (!try_lock(often)) {
		urxe_engine_polled(urxe_now());
		return;
	}
	leased = atomic_load(&urxe_hca.leased);
	/* A program that is about to sleep may not poll again. */
	urxe_hca.acks_may_wait = leased || !atomic_load(&urxe_hca.armed);
	if (!turn_near())
		turn(leased);
	urxe_hca.acks_may_wait = false;
	polled();
	urxe_engine_unlock();
}

void urxe_engine_defer(struct urxe_qp *qp)
{
	struct urxe_qp *top;

	if (atomic_exchange(&qp->kicked, true))
		return;
	top = atomic_load(&urxe_hca.kicked);
	do {
		qp->kick_next = top;
	} while (!atomic_compare_exchange_weak(&urxe_hca.kicked, &top, qp));
}

/* A program that polls posts many large messages in a row, each of which takes microseconds. */
static void posted(void)
{
	if (urxe_hca.now_is_old && atomic_load_explicit(&urxe_hca.polled_at, memory_order_relaxed))
		polled();
}

void urxe_engine_kick(struct urxe_qp *qp)
{
	if (try_lock(true)) {
		if (!urxe_requester_short(qp)) {
			urxe_engine_ready(qp);
			posted();
		}
		urxe_engine_unlock();
		return;
	}
	/* The lock's owner does it, unless it was given back before the QP was there to be seen. */
	urxe_engine_defer(qp);
	if (try_lock(true))
		urxe_engine_unlock();
}

int urxe_engine_add_qp(struct urxe_qp *qp)
{
	qp->proto.qpn = urxe_segment_qpn_alloc(urxe_hca.seg);
	if (!qp->proto.qpn)
		return -ENOMEM;
	urxe_hca.qps[urxe_qpn_index(qp->proto.qpn)] = qp;
	return 0;
}

void urxe_engine_forget_qp(struct urxe_qp *qp)
{
	cds_list_del_init(&qp->ready_node);
	cds_list_del_init(&qp->full_node);
	cds_list_del_init(&qp->held_node);
	urxe_timer_disarm(&urxe_hca.wheel, &qp->timer);
	urxe_peer_forget(qp);
	urxe_wire_void_refs(urxe_hca.wire, &qp->proto.path, qp->proto.attr.dest_qp_num);
	if (qp->peer)
		urxe_peer_put(qp->peer);
	qp->peer = NULL;
	urxe_alternate_free(qp->alternate);
	qp->alternate = NULL;
}

void urxe_engine_remove_qp(struct urxe_qp *qp)
{
	take_kicked();
	urxe_engine_forget_qp(qp);
	urxe_hca.qps[urxe_qpn_index(qp->proto.qpn)] = NULL;
	urxe_segment_qpn_free(urxe_hca.seg, qp->proto.qpn);
}

void urxe_engine_pkeys_changed(const struct urxe_port *port)
{
	for (unsigned i = 0; i < URXE_QP_SLOTS; i++)
		if (urxe_hca.qps[i] && urxe_hca.qps[i]->port == port)
			urxe_direct_publish(urxe_hca.qps[i]);
}

struct urxe_qp *urxe_engine_qp(uint32_t qpn)
{
	struct urxe_qp *qp = urxe_hca.qps[urxe_qpn_index(qpn & URXE_QPN_MASK)];

	return qp && qp->proto.qpn == qpn ? qp : NULL;
}

bool urxe_owns_fd(int fd)
{
	return urxe_fd_is_ours(fd);
}

static void send_acks(struct cds_list_head *list)
{
	struct urxe_qp *qp;

	cds_list_for_each_entry (qp, list, ready_node)
		if (urxe_responder_ack_alone(qp))
			urxe_responder_run(qp);
}

/*
 * In a signal handler the thread that was interrupted may hold the lock of a queue, of the heap, or
 * of anything: so nothing is done there that could complete a WR, and no memory is allocated. When
 * it holds the engine lock, nothing at all. What is under way on links with a delay arrives first.
 */
void urxe_ending(bool in_handler)
{
	if (!urxe_hca.users || !try_lock(false))
		return;
	if (in_handler) {
		urxe_wire_ending(urxe_hca.wire);
		urxe_wire_drain(urxe_hca.wire);
		send_acks(&urxe_hca.acks_due);
		urxe_engine_give();
	} else {
		urxe_engine_unlock();
		if (urxe_hca.users && try_lock(false)) {
			urxe_wire_drain(urxe_hca.wire);
			urxe_engine_unlock();
		}
	}
}

/*
 * The child of a fork has its parent's objects and none of its threads. It leaves the parent's
 * sockets and slot alone, and starts an engine of its own when it opens a device.
 */
void urxe_forked(void)
{
	struct urxe_engine *e = &urxe_hca;

	memset(&e->lock, 0, sizeof(e->lock));
	atomic_store(&e->holder, 0);
	urxe_contexts_forked();
	if (!e->users)
		return;
	urxe_raw_packet_forked();
	urxe_moderation_forked();
	urxe_xrc_forked();
	urxe_gsi_forked();
	urxe_lost_memory_forked();
	urxe_dead_qp_clear();
	urxe_service_forked();
	urxe_direct_forked();
	urxe_wire_forked(e->wire);
	urxe_segment_forked(e->seg);
	e->wire = NULL;
	e->seg = NULL;
	e->users = 0;
	init_lists();
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues (IBTA vol. 1, 11.2.8, 11.4.2): a ring with one producer, the holder of the
 * engine lock, and consumers that take turns by cq->lock; those of a thread domain, or of one
 * thread, need no turns. The producer writes an entry and releases it by `head`, a consumer copies
 * entries and releases their places by `tail`: neither waits for the other, and neither takes a
 * lock for it. A CQ that has ever been armed is the exception: whether it is armed is decided
 * together with the place of the entry, under cq->lock. A thread that moves entries has both the
 * engine lock and cq->lock.
 *
 * A poll that finds nothing turns the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/owned_lock.h"
#include "hca/moderation.h"
#include "hca/polling.h"
#include "hca/service.h"
#include "host/ticks.h"

static uint32_t ring_size(uint32_t entries)
{
	uint32_t size = 1;

	while (size < entries)
		size <<= 1;
	return size;
}

/* A ring of zeros. */
static struct urxe_cqe *new_ring(struct ibv_pd *pd, uint32_t size, bool *custom)
{
	size_t bytes = size * sizeof(struct urxe_cqe);
	struct urxe_cqe *ring = urxe_buffer_alloc(pd, bytes, URXE_BUFFER_CQ, custom);

	return ring ? memset(ring, 0, bytes) : NULL;
}

static struct urxe_cq *new_cq(struct ibv_context *context, uint32_t cqe, void *cq_context,
			      struct ibv_comp_channel *channel, uint32_t vector, struct ibv_pd *pd)
{
	struct urxe_cq *cq;

	if (!urxe_context_here(context))
		return NULL;
	if (!cqe || cqe > URXE_MAX_CQE || vector >= (uint32_t)context->num_comp_vectors ||
	    (channel && channel->context != context))
		return urxe_fail(EINVAL);
	if (channel && urxe_channel_inherited(channel))
		return urxe_fail(EIO);
	cq = urxe_object_new(context, URXE_CQS, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->size = ring_size(cqe);
	cq->pd = pd;
	cq->ring = new_ring(pd, cq->size, &cq->custom);
	if (!cq->ring) {
		urxe_object_free(context, URXE_CQS, cq);
		return urxe_fail(ENOMEM);
	}
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	CDS_INIT_LIST_HEAD(&cq->event_node);
	CDS_INIT_LIST_HEAD(&cq->moderation.node);
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = cqe;
	cq->event_at = UINT32_MAX; /* of nothing */
	cq->forks = urxe_forks;
	if (pd)
		urxe_pd_use(to_pd(pd), 1);
	if (channel)
		__atomic_fetch_add(&channel->refcnt, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&to_context(context)->lock);
	cds_list_add(&cq->node, &to_context(context)->cqs);
	pthread_mutex_unlock(&to_context(context)->lock);
	return cq;
}

struct ibv_cq *urxe_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector)
{
	struct urxe_cq *cq;

	if (cqe < 0 || comp_vector < 0)
		return urxe_fail(EINVAL);
	cq = new_cq(context, cqe, cq_context, channel, comp_vector, NULL);
	return cq ? &cq->ibv : NULL;
}

#define CREATE_FLAGS (IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
#define WC_FLAGS     IBV_CREATE_CQ_SUP_WC_FLAGS

struct ibv_cq_ex *urxe_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_pd *pd = NULL;
	uint32_t flags = 0;
	struct urxe_cq *cq;

	if (urxe_missing(attr))
		return NULL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		flags = attr->flags;
	if ((attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
	    (attr->wc_flags & ~WC_FLAGS) || (flags & ~CREATE_FLAGS))
		return urxe_fail(EOPNOTSUPP);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		pd = attr->parent_domain;
		if (!pd || pd->context != context || !to_pd(pd)->of)
			return urxe_fail(EINVAL);
	}
	cq = new_cq(context, attr->cqe, attr->cq_context, attr->channel, attr->comp_vector, pd);
	if (!cq)
		return NULL;
	cq->ignore_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq->lock.elided = (pd && to_pd(pd)->td) || (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	urxe_cq_ex_fill(cq, attr->wc_flags);
	return &cq->ex;
}

/* Takes cq->lock as soon as no other thread is between start_poll and
 * end_poll. EDEADLK: this one is. */
static int lock_between_batches(struct urxe_cq *cq)
{
	urxe_lock_program(&cq->lock);
	while (atomic_load_explicit(&cq->batch.taken, memory_order_acquire)) {
		bool own = cq->batch_owner == owned_lock_self();

		urxe_unlock_program(&cq->lock);
		if (own)
			return EDEADLK;
		urxe_lock_wait(&cq->batch);
		urxe_lock_program(&cq->lock);
	}
	return 0;
}

/* Moves the entries to another ring and exchanges the rings. Under both locks. */
static int move(struct urxe_cq *cq, int cqe, struct urxe_cqe **ring, bool *custom)
{
	uint32_t head = atomic_load(&cq->head), tail = atomic_load(&cq->tail), count = head - tail;
	struct urxe_cqe *old = cq->ring;
	bool old_custom = cq->custom;

	if (count > (uint32_t)cqe)
		return EINVAL;
	for (uint32_t i = 0; i < count; i++)
		(*ring)[i] = old[(tail + i) & (cq->size - 1)];
	cq->ring = *ring;
	cq->custom = *custom;
	cq->size = ring_size(cqe);
	cq->ibv.cqe = cqe;
	cq->event_at -= tail;
	atomic_store(&cq->tail, 0);
	atomic_store(&cq->head, count);
	*ring = old;
	*custom = old_custom;
	return 0;
}

/* The same with no other thread between start_poll and end_poll. */
static int move_between_batches(struct urxe_cq *cq, int cqe, struct urxe_cqe **ring, bool *custom)
{
	int ret = lock_between_batches(cq);

	if (ret)
		return ret;
	atomic_store_explicit(&cq->batch.taken, true, memory_order_relaxed);
	cq->batch_owner = owned_lock_self();
	urxe_unlock_program(&cq->lock);
	urxe_engine_lock();
	urxe_lock(&cq->lock);
	ret = move(cq, cqe, ring, custom);
	urxe_unlock(&cq->lock);
	urxe_engine_unlock();
	urxe_unlock(&cq->batch);
	return ret;
}

int urxe_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct urxe_cq *cq = to_cq(ibv);
	struct urxe_cqe *ring;
	bool custom;
	int ret;

	if (urxe_inherited(cq->forks))
		return EIO;
	if (cqe <= 0 || cqe > URXE_MAX_CQE)
		return EINVAL;
	/* Without a lock, as this may be the program's allocator. */
	ring = new_ring(cq->pd, ring_size(cqe), &custom);
	if (!ring)
		return ENOMEM;
	/* What was posted, and left to the thread that has the engine, is done: a poll would find
	 * it, too. */
	urxe_engine_lock();
	urxe_engine_unlock();
	ret = move_between_batches(cq, cqe, &ring, &custom);
	urxe_buffer_free(cq->pd, ring, URXE_BUFFER_CQ, custom);
	return ret;
}

void urxe_cq_disarm(struct urxe_cq *cq)
{
	if (cq->arm != URXE_ARM_NONE)
		atomic_fetch_sub(&urxe_hca.armed, 1);
	cq->arm = URXE_ARM_NONE;
}

void urxe_cq_told(struct urxe_cq *cq, uint32_t place)
{
	cq->event_at = place;
	cq->moderation.pending = 0;
	urxe_cq_disarm(cq);
}

int urxe_destroy_cq(struct ibv_cq *ibv)
{
	struct urxe_cq *cq = to_cq(ibv);

	if (atomic_load(&cq->users))
		return EBUSY;
	if (!urxe_inherited(cq->forks)) {
		urxe_engine_lock();
		urxe_moderation_forget(cq);
		urxe_cq_disarm(cq);
		urxe_engine_unlock();
		if (ibv->channel)
			urxe_channel_forget(cq);
		urxe_events_forget(to_context(ibv->context), &cq->async);
		urxe_events_wait(&ibv->mutex, &ibv->cond, &ibv->comp_events_completed,
				 &cq->events_taken);
		urxe_events_wait(&ibv->mutex, &ibv->cond, &ibv->async_events_completed,
				 &cq->async.taken);
		pthread_mutex_lock(&to_context(ibv->context)->lock);
		cds_list_del(&cq->node);
		pthread_mutex_unlock(&to_context(ibv->context)->lock);
	}
	if (ibv->channel)
		__atomic_fetch_sub(&ibv->channel->refcnt, 1, __ATOMIC_SEQ_CST);
	urxe_buffer_free(cq->pd, cq->ring, URXE_BUFFER_CQ, cq->custom);
	if (cq->pd)
		urxe_pd_use(to_pd(cq->pd), -1);
	urxe_object_free(ibv->context, URXE_CQS, cq);
	return 0;
}

int urxe_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	if (urxe_inherited(to_cq(ibv)->forks))
		return EIO;
	if (!attr || (attr->attr_mask & ~IBV_CQ_ATTR_MODERATE))
		return EINVAL;
	if (attr->attr_mask)
		urxe_moderation_set(to_cq(ibv), &attr->moderate);
	return 0;
}

/* Whether a CQ that is armed like this has an event for this completion. */
static bool notifies(enum urxe_arm arm, const struct urxe_cqe *cqe)
{
	return arm == URXE_ARM_NEXT ||
	       (arm == URXE_ARM_SOLICITED && (cqe->solicited || cqe->status != IBV_WC_SUCCESS));
}

/*
 * Whether there is a completion that no event will ever be for. Programs that poll until nothing is
 * left and then ask for an event, without a look in between, count on one for what came meanwhile,
 * as mlx5 makes it: UCX does. A program that has not yet looked at what the last event was for is
 * going to.
 */
static bool missed(const struct urxe_cq *cq, enum urxe_arm arm)
{
	uint32_t head = atomic_load(&cq->head), tail = atomic_load(&cq->tail);

	if (cq->event_at - tail < head - tail)
		return false;
	for (; tail != head; tail++) {
		const struct urxe_cqe *cqe = &cq->ring[tail & (cq->size - 1)];

		if (cqe->status != URXE_WC_GONE && notifies(arm, cqe))
			return true;
	}
	return false;
}

int urxe_req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct urxe_cq *cq = to_cq(ibv);
	enum urxe_arm arm = solicited_only ? URXE_ARM_SOLICITED : URXE_ARM_NEXT;
	bool now;

	if (!ibv->channel)
		return 0; /* nobody can wait for the event */
	/* Between the last entry that was made without the lock, and a look at what there is. */
	if (!atomic_load_explicit(&cq->armed_once, memory_order_acquire)) {
		urxe_engine_lock();
		atomic_store_explicit(&cq->armed_once, true, memory_order_release);
		urxe_engine_unlock();
	}
	urxe_lock(&cq->lock);
	now = missed(cq, arm);
	if (now) {
		urxe_cq_told(cq, atomic_load(&cq->head) - 1);
	} else {
		if (cq->arm == URXE_ARM_NONE)
			atomic_fetch_add(&urxe_hca.armed, 1);
		/* Asking for the next solicited one does not take back asking for the next one. */
		if (cq->arm < arm)
			cq->arm = arm;
	}
	urxe_unlock(&cq->lock);
	if (now)
		urxe_channel_notify(cq);
	else
		urxe_engine_watch();
	return 0;
}

/* A consumer that asked to ignore overruns promises that there are none. */
static void overrun(struct urxe_cq *cq, struct urxe_qp *qp)
{
	if (cq->ignore_overrun)
		return;
	if (!cq->overflow)
		urxe_event_cq(cq, IBV_EVENT_CQ_ERR);
	cq->overflow = true;
	if (!qp)
		return;
	qp->overrun = true;
	urxe_engine_ready(qp);
}

struct urxe_cqe *urxe_cq_claim(struct urxe_cq *cq, struct urxe_qp *qp)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	/* Acquire: the consumer has read the entry whose place this is. */
	if (head - atomic_load_explicit(&cq->tail, memory_order_acquire) < (uint32_t)cq->ibv.cqe)
		return &cq->ring[head & (cq->size - 1)];
	overrun(cq, qp);
	return NULL;
}

/* Between asking for an event and looking for what has come, and the same here the other way round,
 * lies the lock: one of the two sees the other. */
static void push_and_notify(struct urxe_cq *cq, const struct urxe_cqe *cqe)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	bool notify;

	urxe_lock(&cq->lock);
	atomic_store_explicit(&cq->head, head + 1, memory_order_release);
	notify = notifies(cq->arm, cqe) && !urxe_moderation_waits(cq);
	if (notify)
		urxe_cq_told(cq, head);
	urxe_unlock(&cq->lock);
	if (notify)
		urxe_channel_notify(cq);
}

void urxe_cq_push(struct urxe_cq *cq, struct urxe_cqe *cqe)
{
	uint32_t head = atomic_load_explicit(&cq->head, memory_order_relaxed);

	if (cq->want_timestamp)
		cqe->timestamp = urxe_now();
	if (atomic_load_explicit(&cq->armed_once, memory_order_relaxed))
		push_and_notify(cq, cqe);
	else
		atomic_store_explicit(&cq->head, head + 1, memory_order_release);
	urxe_prefetch(cqe + 1, sizeof(*cqe));
}

void urxe_cq_add(struct urxe_cq *cq, struct urxe_qp *qp, const struct urxe_cqe *cqe)
{
	struct urxe_cqe *to = urxe_cq_claim(cq, qp);

	if (!to)
		return;
	*to = *cqe;
	urxe_cq_push(cq, to);
}

/* Between start_poll and end_poll entries stay where they are, and a thread
 * reads them without a lock. */
static void mark_gone(struct urxe_cq *cq, uint32_t qpn)
{
	for (uint32_t i = atomic_load(&cq->tail); i != atomic_load(&cq->head); i++) {
		struct urxe_cqe *cqe = &cq->ring[i & (cq->size - 1)];

		if (cqe->qp_num == qpn)
			__atomic_store_n(&cqe->status, URXE_WC_GONE, __ATOMIC_RELAXED);
	}
}

static void take_out(struct urxe_cq *cq, uint32_t qpn)
{
	uint32_t head = atomic_load(&cq->head), to = head;

	for (uint32_t i = head; i != atomic_load(&cq->tail); i--) {
		struct urxe_cqe *cqe = &cq->ring[(i - 1) & (cq->size - 1)];

		if (cqe->qp_num != qpn)
			cq->ring[--to & (cq->size - 1)] = *cqe;
	}
	atomic_store(&cq->tail, to);
}

/*
 * Takes out the entries of a QP that is destroyed or reset, as hardware does: what a program polls
 * afterwards is of QPs that it still knows. Engine lock.
 */
void urxe_cq_clean(struct urxe_cq *cq, uint32_t qpn)
{
	urxe_lock(&cq->lock);
	if (atomic_load_explicit(&cq->batch.taken, memory_order_acquire))
		mark_gone(cq, qpn);
	else
		take_out(cq, qpn);
	urxe_unlock(&cq->lock);
}

static bool empty(struct urxe_cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_acquire) ==
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

static void to_wc(const struct urxe_cqe *cqe, struct ibv_wc *wc)
{
	*wc = (struct ibv_wc){
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cqe->opcode,
		.byte_len = cqe->byte_len,
		.imm_data = cqe->imm,
		.qp_num = cqe->qp_num,
		.src_qp = cqe->src_qp,
		.wc_flags = cqe->wc_flags,
		.pkey_index = cqe->pkey_index,
		.slid = cqe->slid,
		.sl = cqe->sl,
		.dlid_path_bits = cqe->dlid_path_bits,
	};
}

/*
 * An empty CQ: turns the engine. A poller that finds nothing for long gives way now
 * and then. Apart, so that a poll that finds something is short, and becomes part of
 * the extended interface's.
 */
static __attribute__((noinline)) void turn_engine(struct urxe_cq *cq)
{
	unsigned idle;

	if (urxe_engine_quiet())
		return;
	urxe_engine_progress(true);
	/* A turn that two pollers count as one does no harm. */
	idle = atomic_load_explicit(&cq->idle, memory_order_relaxed);
	atomic_store_explicit(&cq->idle, idle + 1, memory_order_relaxed);
	if (!idle)
		atomic_store_explicit(&cq->idle_since, urxe_ticks(), memory_order_relaxed);
	urxe_engine_give_way(idle, atomic_load_explicit(&cq->idle_since, memory_order_relaxed),
			     &cq->head);
}

int urxe_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct urxe_cq *cq = to_cq(ibv);
	uint32_t head, tail;
	int got = 0;

	if (empty(cq)) {
		turn_engine(cq);
		if (empty(cq))
			return 0;
	}
	if (atomic_load_explicit(&cq->idle, memory_order_relaxed))
		atomic_store_explicit(&cq->idle, 0, memory_order_relaxed);
	urxe_lock_program(&cq->lock);
	/* What there is belongs to the thread that has the batch: to wait
	 * for it could be for ever. */
	if (__builtin_expect(atomic_load_explicit(&cq->batch.taken, memory_order_acquire), false))
		n = 0;
	head = atomic_load_explicit(&cq->head, memory_order_acquire);
	tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	while (got < n && tail != head) {
		const struct urxe_cqe *cqe = &cq->ring[tail++ & (cq->size - 1)];

		if (__builtin_expect(cqe->status != URXE_WC_GONE, true))
			to_wc(cqe, &wc[got++]);
	}
	if (n > 0)
		atomic_store_explicit(&cq->tail, tail, memory_order_release);
	urxe_unlock_program(&cq->lock);
	return got;
}

#define CQE_REST offsetof(struct urxe_cqe, timestamp)

/*
 * One entry into cq->current and what the program reads of cq->ex, by the thread whose `tail` is;
 * false when there is none. From the ring: a load from cq->current would wait for the stores to it.
 */
static inline __attribute__((always_inline)) bool take(struct urxe_cq *cq)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);

	while (__builtin_expect(tail != atomic_load_explicit(&cq->head, memory_order_acquire),
				true)) {
		const struct urxe_cqe *cqe = &cq->ring[tail++ & (cq->size - 1)];
		uint32_t status = __atomic_load_n(&cqe->status, __ATOMIC_RELAXED);

		cq->ex.wr_id = cqe->wr_id;
		cq->ex.status = status;
		memcpy((char *)&cq->current + CQE_REST, (const char *)cqe + CQE_REST,
		       sizeof(*cqe) - CQE_REST);
		atomic_store_explicit(&cq->tail, tail, memory_order_release);
		if (__builtin_expect(status != URXE_WC_GONE, true))
			return true;
	}
	return false;
}

/* The first one of a batch makes other threads wait for its end: until then entries are taken
 * without a lock. An errno; ENOENT: there is none. */
int urxe_cq_take_first(struct urxe_cq *cq)
{
	bool got;
	int ret;

	if (empty(cq)) {
		turn_engine(cq);
		if (empty(cq))
			return ENOENT;
	}
	if (atomic_load_explicit(&cq->idle, memory_order_relaxed))
		atomic_store_explicit(&cq->idle, 0, memory_order_relaxed);
	ret = lock_between_batches(cq);
	if (ret)
		return ret;
	got = take(cq);
	atomic_store_explicit(&cq->batch.taken, got && !cq->lock.elided, memory_order_relaxed);
	cq->batch_owner = owned_lock_self();
	urxe_unlock_program(&cq->lock);
	return got ? 0 : ENOENT;
}

static bool is_armed(struct urxe_cq *cq)
{
	bool armed;

	if (!atomic_load_explicit(&cq->armed_once, memory_order_relaxed))
		return false;
	urxe_lock(&cq->lock);
	armed = cq->arm != URXE_ARM_NONE;
	urxe_unlock(&cq->lock);
	return armed;
}

/*
 * The event for what the turn brings would be read after the program has had that completion, and
 * lead to an empty CQ: programs that sleep until an event has come, and then read a batch, end
 * there (ibv_rc_pingpong -t -e).
 */
static __attribute__((noinline)) bool take_after_turn(struct urxe_cq *cq)
{
	if (urxe_inherited(cq->forks) || is_armed(cq))
		return false;
	turn_engine(cq);
	if (!take(cq))
		return false;
	atomic_store_explicit(&cq->idle, 0, memory_order_relaxed);
	return true;
}

bool urxe_cq_take_next(struct urxe_cq *cq)
{
	return take(cq) || take_after_turn(cq);
}

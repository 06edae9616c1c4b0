/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Where completions come from. Each work queue has one: a completion queue of the program's, which
 * several queues may share, or one of its own. Its lock guards the verbs CQ, the entries, and the
 * rings of all queues that complete there. What cannot be done under the lock is noted in
 * `deferred` and done by vipl_cq_unlock().
 */
#ifndef VIPL_CQ_H
#define VIPL_CQ_H

#include <stdbool.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>

#include "common/owned_lock.h"
#include "vipl/branch.h"
#include "vipl/vipl.h"

struct vipl_nic;
struct vipl_vi;
struct vipl_queue;

/* A registration of VipSendNotify, VipRecvNotify or VipCQNotify. */
struct vipl_notice {
	STAILQ_ENTRY(vipl_notice) link;
	void *context;
	VIP_VI_CALLBACK vi_handler;
	VIP_CQ_CALLBACK cq_handler;
};
STAILQ_HEAD(vipl_notices, vipl_notice);

struct vipl_cq_entry {
	void *vi; /* its handle */
	bool recv;
};

enum vipl_deferred {
	VIPL_WAKE = 1,	/* something has completed without an event of the verbs CQ */
	VIPL_BREAK = 2, /* VIs are on the list of broken ones */
};

struct vipl_cq {
	/* What each completion needs is a cache line. */
	struct owned_lock lock __attribute__((aligned(64)));
	unsigned deferred;
	unsigned head, tail, size;     /* of entries, a ring; size: a power of two */
	struct ibv_cq *ibv;	       /* NULL: closed */
	struct vipl_cq_entry *entries; /* only where there is a handle */

	void *handle;		      /* NULL: a queue's own */
	struct vipl_nic *_Atomic nic; /* who has a stale handle reads it as well */
	unsigned capacity;	      /* of the verbs CQ */
	unsigned reserved;	      /* of that, for the queues' work requests */

	struct vipl_vi *broken; /* linked by broken_next */

	struct vipl_notices notices;	 /* of VipCQNotify */
	unsigned noticed;		 /* registrations here and on queues that complete here */
	LIST_ENTRY(vipl_cq) link;	 /* among the NIC's */
	LIST_ENTRY(vipl_cq) notice_link; /* among those that the helper serves */
	bool served;			 /* it is there */
	unsigned users;			 /* queues that complete here; under the NIC's lock */

	bool fired; /* an event came while nobody waited; under the NIC's wait_lock */
};

/* Opens a CQ for so many entries; handle: NULL for a queue's own. -errno. */
int vipl_cq_open(struct vipl_cq *cq, struct vipl_nic *nic, unsigned entries, void *handle);
void vipl_cq_close(struct vipl_cq *cq);

/* Makes room for another so many work requests, with the lock held. -ENOMEM. */
int vipl_cq_reserve(struct vipl_cq *cq, unsigned count);

/* Takes what has completed, with the lock held (queue.c). */
void vipl_cq_poll(struct vipl_cq *cq);

/* The queue of the next descriptor that has completed, with the lock held (queue.c). False: none
 * has. */
bool vipl_cq_take(struct vipl_cq *cq, VIP_VI_HANDLE *vi, VIP_BOOLEAN *recv);

/* Room in the full ring of entries, with the lock held. False: there is
 * no memory, as is reported. */
bool vipl_cq_make_room(struct vipl_cq *cq);

/* An entry for the program, with the lock held. */
static inline void vipl_cq_push(struct vipl_cq *cq, void *vi, bool recv)
{
	if (vipl_unlikely(cq->tail - cq->head == cq->size) && !vipl_cq_make_room(cq))
		return;
	cq->entries[cq->tail++ & (cq->size - 1)] = (struct vipl_cq_entry){.vi = vi, .recv = recv};
}

/* Without regard to its users; NIC's lock held. */
void vipl_cq_free(struct vipl_cq *cq);

void vipl_cq_run_deferred(struct vipl_cq *cq, unsigned deferred);

static inline void vipl_cq_unlock(struct vipl_cq *cq)
{
	unsigned deferred = cq->deferred;

	if (vipl_likely(!deferred)) {
		owned_unlock(&cq->lock);
		return;
	}
	vipl_cq_run_deferred(cq, deferred); /* unlocks */
}

/* By the thread that has taken the lock by owned_lock_own(). */
vipl_inline void vipl_cq_leave(struct vipl_cq *cq)
{
	unsigned deferred = cq->deferred;

	if (vipl_likely(!deferred))
		owned_unlock_own(&cq->lock);
	else
		vipl_cq_run_deferred(cq, deferred);
}

#endif

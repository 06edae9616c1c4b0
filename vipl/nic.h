/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A NIC handle: a verbs context of its own, and what was made with it. Its lock guards everything
 * that is not said to be guarded otherwise; it is recursive because ending one VI can break others
 * that share its CQ.
 *
 * Order of locks: lock, a CQ's lock, then one of memory_lock, wait_lock, error_lock.
 */
#ifndef VIPL_NIC_H
#define VIPL_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "vipl/device.h"
#include "vipl/handle.h"
#include "vipl/memory.h"
#include "vipl/vi.h"
#include "vipl/wait.h"

/* Both ends of a connection must agree on it, whatever their devices are. */
#define VIPL_TRANSFER_MAX (1u << 20)

struct vipl_waiter;
struct vipl_error;
struct vipl_id;

struct vipl_nic {
	void *handle;
	pthread_mutex_t lock;
	bool closing;
	unsigned sleepers;    /* threads that wait for a connection; VipCloseNic() awaits them */
	pthread_cond_t awake; /* there are none any more */

	struct vipl_device device;
	struct ibv_context *context;
	struct ibv_device_attr limits;
	bool iwarp;
	unsigned send_sge, recv_sge, read_sge;

	/* Memory. */
	struct vipl_domain first;
	LIST_HEAD(, vipl_ptag) ptags;
	struct owned_lock memory_lock; /* the table of regions */
	struct vipl_regions *regions;
	_Atomic uint32_t memory_generation;

	LIST_HEAD(, vipl_vi) vis;
	uintptr_t qps; /* made so far; numbers them for their events (qp_context) */
	LIST_HEAD(, vipl_cq) cqs;

	/* Connections (cm.h). */
	struct rdma_event_channel *cm_channel;
	pthread_cond_t peers; /* some request of a peer has a result */
	LIST_HEAD(, vipl_conn) conns;
	LIST_HEAD(, vipl_listener) listeners;
	LIST_HEAD(, vipl_id) dying;
	bool dead; /* one of them may be destroyed */

	/* Who takes their events (cm_take.c). */
	pthread_cond_t
		*taker_cond; /* what a thread that does so waits for; NULL: the helper does */
	pthread_t taker;
	int taker_fd; /* wakes it */
	int cm_watch; /* tells the helper that it is to take them */
	int cm_timer; /* nobody has waited for a moment */
	bool cm_watched;

	/* Waiting (wait.h), under wait_lock. */
	pthread_mutex_t wait_lock;
	struct ibv_comp_channel *channel;
	pthread_cond_t asleep; /* there are no waiters any more */
	struct vipl_waiter *leader;
	int leader_fd;
	TAILQ_HEAD(, vipl_waiter) waiters;

	/* The helper thread (helper.h). */
	bool helping; /* under wait_lock, like */
	bool stop;    /* set at the end */
	bool orphan;  /* the helper closes the NIC itself; of no other thread's use */
	pthread_t helper;
	int helper_fd;
	struct vipl_deadline helper_due; /* when it looks at everything again; under lock */
	LIST_HEAD(, vipl_cq) served;	 /* CQs with registrations of Notify; under wait_lock */

	/* Errors (error.h), under error_lock. */
	pthread_mutex_t error_lock;
	TAILQ_HEAD(, vipl_error) errors;
	unsigned error_count;
	VIP_ERROR_HANDLER error_handler;
	void *error_context;

	bool name_service;
};

static inline struct vipl_nic *vipl_nic_lookup(VIP_NIC_HANDLE handle)
{
	return vipl_handle_lookup(handle, VIPL_KIND_NIC);
}

static inline void vipl_nic_lock(struct vipl_nic *nic)
{
	pthread_mutex_lock(&nic->lock);
}

static inline void vipl_nic_unlock(struct vipl_nic *nic)
{
	pthread_mutex_unlock(&nic->lock);
}

/* Condition variables with the monotonic clock. True: the time has passed. */
void vipl_cond_init(pthread_cond_t *cond);
bool vipl_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
		    const struct vipl_deadline *deadline);

/* The reliability levels that it has, and those at which it has RDMA reads. */
VIP_RELIABILITY_LEVEL vipl_nic_levels(const struct vipl_nic *nic);
VIP_RELIABILITY_LEVEL vipl_nic_read_levels(const struct vipl_nic *nic);

/* The last step of closing it, without its helper. */
void vipl_nic_free(struct vipl_nic *nic);

/* Around a wait for something of the NIC, with its lock held. -ECANCELED: it closes. */
int vipl_nic_sleep(struct vipl_nic *nic);
void vipl_nic_awake(struct vipl_nic *nic);

#endif

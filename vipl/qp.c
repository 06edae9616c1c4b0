// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The QP of a VI (vi.h): RC for the reliable levels, UC for the unreliable one. Each connection has
 * a new one, so that what is late of the last one finds nobody. All functions are called with the
 * NIC's lock.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "vipl/cm.h"
#include "vipl/nic.h"
#include "vipl/post.h"
#include "vipl/wait.h"

#define INLINE_WANTED 64
#define FLUSH_TIME    2000 /* milliseconds, after which a device is not waited for */

/* What rdma_cm says of RC, which a UC QP does not want to hear. */
#define RTR_UC (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTS_UC (IBV_QP_STATE | IBV_QP_SQ_PSN)

int vipl_qp_create(struct vipl_vi *vi)
{
	struct vipl_nic *nic = vi->nic;
	struct ibv_qp_init_attr init = {
		.qp_context = (void *)++nic->qps,
		.qp_type = vi->reliable ? IBV_QPT_RC : IBV_QPT_UC,
		.send_cq = vi->sq.cq->ibv,
		.recv_cq = vi->rq.cq->ibv,
		.cap = {.max_send_wr = VIPL_DEPTH + VIPL_EXTRA_WRS,
			.max_recv_wr = VIPL_DEPTH + nic->iwarp,
			.max_send_sge = nic->send_sge + nic->iwarp,
			.max_recv_sge = nic->recv_sge + nic->iwarp,
			.max_inline_data = INLINE_WANTED},
	};

	vi->qp = ibv_create_qp(vi->domain->pd, &init);
	if (!vi->qp) {
		init.cap.max_inline_data = 0;
		vi->qp = ibv_create_qp(vi->domain->pd, &init);
	}
	if (!vi->qp)
		return -errno;
	vi->max_inline = init.cap.max_inline_data;
	return 0;
}

/* A device takes what a QP has completed out of its CQs: with their locks,
 * in the order of addresses. */
void vipl_qp_destroy_of(struct vipl_vi *vi, struct ibv_qp *qp)
{
	struct vipl_cq *first = vi->sq.cq, *second = vi->rq.cq;

	if (first > second) {
		first = vi->rq.cq;
		second = vi->sq.cq;
	}
	owned_lock(&first->lock);
	if (second != first)
		owned_lock(&second->lock);
	ibv_destroy_qp(qp);
	if (second != first)
		vipl_cq_unlock(second);
	vipl_cq_unlock(first);
}

void vipl_qp_destroy(struct vipl_vi *vi)
{
	if (vi->qp)
		vipl_qp_destroy_of(vi, vi->qp);
	vi->qp = NULL;
	vi->prepared = false;
}

static int modify(struct vipl_vi *vi, struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return -errno;
	/* Who accepts says in its answer how many reads there may be, which is still to be sent. */
	if (vi->conn->accepting) {
		attr.max_dest_rd_atomic = vi->conn->responder_resources;
		attr.max_rd_atomic = vi->conn->initiator_depth;
	}
	if (state == IBV_QPS_INIT) {
		attr.qp_access_flags =
			(vi->attributes.EnableRdmaWrite ? IBV_ACCESS_REMOTE_WRITE : 0) |
			(vi->attributes.EnableRdmaRead ? IBV_ACCESS_REMOTE_READ : 0);
	} else if (!vi->reliable) {
		mask &= state == IBV_QPS_RTR ? RTR_UC : RTS_UC;
	} else if (state == IBV_QPS_RTS && mask & IBV_QP_RNR_RETRY) {
		attr.rnr_retry = 0;
	}
	return -ibv_modify_qp(vi->qp, &attr, mask);
}

/* Descriptors that were posted before are given to the QP. */
static int release_receives(struct vipl_vi *vi)
{
	struct vipl_queue *queue = &vi->rq;
	int ret = 0;

	owned_lock(&queue->cq->lock);
	vipl_queue_leave_qp(queue);
	queue->wrs = 0;
	if (vi->headers)
		ret = vipl_post_greeting_recv(vi);
	vipl_post_held(queue);
	vipl_queue_set_mode(queue, VIPL_OPEN);
	vipl_cq_unlock(queue->cq);
	return ret;
}

int vipl_qp_prepare(struct vipl_vi *vi, struct rdma_cm_id *id)
{
	int ret = 0;

	if (!vi->qp)
		ret = vipl_qp_create(vi);
	vi->prepared = true;
	if (!ret)
		ret = modify(vi, id, IBV_QPS_INIT);
	if (ret)
		return ret;
	owned_lock(&vi->sq.cq->lock);
	vipl_queue_leave_qp(&vi->sq);
	vi->sq.wrs = 0; /* a greeting may have been on its way */
	vipl_cq_unlock(vi->sq.cq);
	atomic_store(&vi->broken, false);
	return release_receives(vi);
}

int vipl_qp_connect(struct vipl_vi *vi, struct rdma_cm_id *id)
{
	int ret = modify(vi, id, IBV_QPS_RTR);

	return ret ? ret : modify(vi, id, IBV_QPS_RTS);
}

void vipl_qp_fail(struct vipl_vi *vi)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (vi->qp)
		ibv_modify_qp(vi->qp, &attr, IBV_QP_STATE);
}

/* Posted receives stay posted, for the next attempt. */
void vipl_qp_abandon(struct vipl_vi *vi, struct ibv_qp **later)
{
	struct vipl_queue *queue = &vi->rq;

	owned_lock(&queue->cq->lock);
	vipl_queue_leave_qp(queue);
	vipl_queue_set_mode(queue, vipl_recv_mode(vi->state));
	vipl_cq_unlock(queue->cq);
	if (later) {
		vipl_qp_fail(vi);
		*later = vi->qp;
		vi->qp = NULL;
	}
	if (vi->prepared)
		vipl_qp_destroy(vi);
	owned_lock(&queue->cq->lock);
	for (unsigned i = queue->done; i != queue->tail; i++)
		vipl_post_take_back(queue, vipl_slot(queue, i));
	vipl_cq_unlock(queue->cq);
}

/* True when all work requests of the QP have completed. */
static bool drained(struct vipl_queue *queue)
{
	bool empty;

	owned_lock(&queue->cq->lock);
	vipl_cq_poll(queue->cq);
	empty = !queue->wrs;
	vipl_cq_unlock(queue->cq);
	return empty;
}

/*
 * A device in software sends its acknowledgements when it is polled: the peer's last message, which
 * the program has got, would else come back to it as flushed.
 */
void vipl_qp_settle(struct vipl_vi *vi)
{
	drained(&vi->sq);
	drained(&vi->rq);
}

static void flush(struct vipl_queue *queue)
{
	owned_lock(&queue->cq->lock);
	vipl_queue_flush(queue);
	vipl_queue_leave_qp(queue);
	vipl_cq_unlock(queue->cq);
}

void vipl_qp_finish(struct vipl_vi *vi)
{
	struct vipl_deadline deadline = vipl_deadline(FLUSH_TIME);

	if (vi->prepared) {
		vipl_qp_fail(vi);
		while (!(drained(&vi->sq) & drained(&vi->rq)) && !vipl_deadline_passed(&deadline))
			sched_yield();
		vipl_qp_destroy(vi);
	}
	flush(&vi->sq);
	flush(&vi->rq);
}

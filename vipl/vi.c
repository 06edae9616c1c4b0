// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* VipCreateVi and its kin, and what an event does to a VI (vi.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vipl/bounce.h"
#include "vipl/cm.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/object.h"

static void set_mode(struct vipl_queue *queue, enum vipl_mode mode)
{
	owned_lock(&queue->cq->lock);
	vipl_queue_set_mode(queue, mode);
	vipl_cq_unlock(queue->cq);
}

VIP_RETURN vipl_vi_event(struct vipl_vi *vi, enum vipl_event event)
{
	struct vipl_transition to = vipl_transition(vi->state, event);

	if (to.next == vi->state)
		return to.result;
	vi->state = to.next;
	set_mode(&vi->sq, vipl_send_mode(to.next));
	set_mode(&vi->rq, vipl_recv_mode(to.next));
	return to.result;
}

void vipl_vi_mark(struct vipl_queue *queue, VIP_ERROR_CODE code)
{
	struct vipl_vi *vi = queue->vi;

	if (atomic_exchange(&vi->broken, true))
		return;
	vi->broken_code = code;
	vi->broken_next = queue->cq->broken;
	queue->cq->broken = vi;
	queue->cq->deferred |= VIPL_BREAK;
}

void vipl_vi_break_locked(struct vipl_vi *vi, enum vipl_event event, VIP_ERROR_CODE code)
{
	VIP_VI_STATE before = vi->state;

	if (before != VIP_STATE_CONNECTED)
		return;
	atomic_store(&vi->broken, true);
	vipl_vi_event(vi, event);
	vipl_qp_fail(vi);
	if (vi->conn)
		vipl_conn_hang_up(vi->conn);
	vipl_report_vi(vi, code, NULL, 0);
}

void vipl_vi_break(struct vipl_vi *vi, VIP_ERROR_CODE code)
{
	struct vipl_nic *nic = vi->nic;

	vipl_nic_lock(nic);
	vipl_vi_break_locked(vi, VIPL_ERROR, code);
	vipl_nic_unlock(nic);
}

/* What attributes ask of the NIC. */
static VIP_RETURN check(struct vipl_nic *nic, const VIP_VI_ATTRIBUTES *attributes,
			struct vipl_ptag **ptag)
{
	VIP_RELIABILITY_LEVEL level = attributes->ReliabilityLevel;

	if (!level || level & (level - 1) || !(level & vipl_nic_levels(nic)))
		return VIP_INVALID_RELIABILITY_LEVEL;
	if (!attributes->MaxTransferSize || attributes->MaxTransferSize > VIPL_TRANSFER_MAX)
		return VIP_INVALID_MTU;
	if (attributes->QoS)
		return VIP_INVALID_QOS;
	if (vipl_ptag_lookup(nic, attributes->Ptag, ptag))
		return VIP_INVALID_PTAG;
	if (attributes->EnableRdmaRead && !(level & vipl_nic_read_levels(nic)))
		return VIP_INVALID_RDMAREAD;
	return VIP_SUCCESS;
}

static void take_attributes(struct vipl_vi *vi, const VIP_VI_ATTRIBUTES *attributes,
			    struct vipl_ptag *ptag)
{
	if (ptag)
		ptag->users++;
	if (vi->ptag)
		vi->ptag->users--;
	vi->ptag = ptag;
	vi->domain = vipl_ptag_domain(vi->nic, ptag);
	vi->attributes = *attributes;
	vi->reliable = attributes->ReliabilityLevel != VIP_SERVICE_UNRELIABLE;
	vi->may_read = attributes->ReliabilityLevel & vipl_nic_read_levels(vi->nic);
}

/* The queue is closed: its lock is that of its own CQ. */
static int open_queue(struct vipl_queue *queue, struct vipl_vi *vi, struct vipl_cq *cq, bool recv)
{
	int ret = 0;

	if (!queue->slots)
		queue->slots = calloc(VIPL_DEPTH, sizeof(*queue->slots));
	if (!queue->slots)
		return -ENOMEM;
	if (!cq)
		ret = vipl_cq_open(&queue->own, vi->nic, 0, NULL);
	if (ret)
		return ret;
	owned_lock(&queue->own.lock);
	queue->vi = vi;
	if (!queue->wr_id)
		queue->wr_id = (uintptr_t)queue;
	queue->nic = vi->nic;
	queue->memory_generation = &vi->nic->memory_generation;
	queue->recv = recv;
	queue->wrs = 0;
	queue->reserved = 0;
	queue->kept = 0;
	queue->max_sge = recv ? vi->nic->recv_sge : vi->nic->send_sge;
	STAILQ_INIT(&queue->notices);
	queue->home = (struct vipl_access){0};
	memset(queue->cached, 0, sizeof(queue->cached));
	/* Headers belong to slots, which then have to stay where they are. */
	queue->mask = (vi->nic->iwarp ? VIPL_DEPTH : VIPL_SHORT) - 1;
	vipl_queue_move(queue, cq ? cq : &queue->own);
	owned_unlock(&queue->own.lock);
	queue->cq->users++;
	set_mode(queue, recv ? vipl_recv_mode(VIP_STATE_IDLE) : vipl_send_mode(VIP_STATE_IDLE));
	return 0;
}

static void close_queue(struct vipl_queue *queue)
{
	struct vipl_cq *cq = queue->cq;

	owned_lock(&cq->lock);
	if (queue->mode == VIPL_CLOSED) {
		vipl_cq_unlock(cq);
		return;
	}
	cq->users--;
	vipl_queue_set_mode(queue, VIPL_CLOSED);
	for (; queue->done != queue->tail; queue->done++)
		vipl_bounce_drop(vipl_slot(queue, queue->done), queue->vi->domain);
	queue->head = queue->tail;
	vipl_queue_leave_qp(queue);
	vipl_notices_cancel(cq, queue);
	vipl_queue_move(queue, &queue->own);
	vipl_cq_unlock(cq);
	if (cq == &queue->own)
		vipl_cq_close(cq);
}

/* Memory for what iWARP lacks. */
static int open_headers(struct vipl_vi *vi)
{
	void *addr = NULL;
	int ret = 0;

	vi->headers = NULL;
	if (vi->nic->iwarp)
		ret = vipl_buffer_get(vi->domain, VIPL_HEADERS * sizeof(*vi->headers), &addr,
				      &vi->headers_lkey);
	vi->headers = addr;
	return ret;
}

static void close_headers(struct vipl_vi *vi)
{
	if (vi->headers)
		vipl_buffer_put(vi->domain, vi->headers);
	vi->headers = NULL;
}

static void close_vi(struct vipl_vi *vi)
{
	vipl_cm_reap(vi);
	vipl_qp_destroy(vi);
	close_queue(&vi->sq);
	close_queue(&vi->rq);
	close_headers(vi);
	if (vi->ptag)
		vi->ptag->users--;
	vi->ptag = NULL;
	vipl_object_put(VIPL_KIND_VI, vi);
}

/* Error returns leave no QP, but possibly queues: close_vi() takes what is there. */
static int open_vi(struct vipl_vi *vi, struct vipl_cq *send_cq, struct vipl_cq *recv_cq)
{
	int ret = open_queue(&vi->sq, vi, send_cq, false);

	if (!ret)
		ret = open_queue(&vi->rq, vi, recv_cq, true);
	if (!ret)
		ret = open_headers(vi);
	if (!ret)
		ret = vipl_qp_create(vi);
	return ret;
}

static VIP_RETURN create(struct vipl_nic *nic, const VIP_VI_ATTRIBUTES *attributes,
			 struct vipl_cq *send_cq, struct vipl_cq *recv_cq, VIP_VI_HANDLE *handle)
{
	struct vipl_ptag *ptag;
	VIP_RETURN result = check(nic, attributes, &ptag);
	struct vipl_vi *vi;

	if (result)
		return result;
	vi = vipl_object_get(VIPL_KIND_VI, sizeof(*vi));
	if (!vi)
		return VIP_ERROR_RESOURCE;
	vi->nic = nic;
	vi->state = VIP_STATE_IDLE;
	vi->qp = NULL;
	vi->conn = NULL;
	vi->ptag = NULL;
	if (!vi->sq.cq) { /* made for the first time */
		vi->sq.cq = &vi->sq.own;
		vi->rq.cq = &vi->rq.own;
	}
	take_attributes(vi, attributes, ptag);
	if (!nic->closing && !open_vi(vi, send_cq, recv_cq)) {
		vi->handle = vipl_handle_create(VIPL_KIND_VI, vi);
		if (vi->handle) {
			LIST_INSERT_HEAD(&nic->vis, vi, link);
			*handle = vi->handle;
			return VIP_SUCCESS;
		}
	}
	close_vi(vi);
	return VIP_ERROR_RESOURCE;
}

/* A CQ of this NIC, or none. */
static bool find_cq(struct vipl_nic *nic, VIP_CQ_HANDLE handle, struct vipl_cq **cq)
{
	*cq = handle ? vipl_handle_lookup(handle, VIPL_KIND_CQ) : NULL;
	return !handle || (*cq && (*cq)->nic == nic);
}

VIP_RETURN VipCreateVi(VIP_NIC_HANDLE nic_handle, VIP_VI_ATTRIBUTES *attributes,
		       VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq, VIP_VI_HANDLE *handle)
{
	struct vipl_nic *nic = vipl_nic_lookup(nic_handle);
	VIP_RETURN result = VIP_INVALID_PARAMETER;
	struct vipl_cq *send, *recv;

	if (!nic || !attributes || !handle)
		return VIP_INVALID_PARAMETER;
	*handle = NULL;
	vipl_nic_lock(nic);
	if (find_cq(nic, send_cq, &send) && find_cq(nic, recv_cq, &recv))
		result = create(nic, attributes, send, recv, handle);
	vipl_nic_unlock(nic);
	return result;
}

void vipl_vi_free(struct vipl_vi *vi)
{
	vipl_handle_destroy(vi->handle);
	vi->handle = NULL;
	LIST_REMOVE(vi, link);
	if (vi->conn)
		vipl_conn_drop(vi->conn);
	close_vi(vi);
}

static bool is_empty(struct vipl_queue *queue)
{
	bool empty;

	owned_lock(&queue->cq->lock);
	empty = queue->head == queue->tail;
	vipl_cq_unlock(queue->cq);
	return empty;
}

VIP_RETURN VipDestroyVi(VIP_VI_HANDLE handle)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	VIP_RETURN result;
	struct vipl_nic *nic;

	if (!vi)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	if (vi->handle != handle) {
		vipl_nic_unlock(nic);
		return VIP_INVALID_PARAMETER;
	}
	result = vipl_transition(vi->state, VIPL_DESTROY).result;
	if (!result && (!is_empty(&vi->sq) || !is_empty(&vi->rq)))
		result = VIP_ERROR_RESOURCE;
	if (!result)
		vipl_vi_free(vi);
	vipl_nic_unlock(nic);
	return result;
}

VIP_RETURN VipQueryVi(VIP_VI_HANDLE handle, VIP_VI_STATE *state, VIP_VI_ATTRIBUTES *attributes,
		      VIP_BOOLEAN *send_empty, VIP_BOOLEAN *recv_empty)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	struct vipl_nic *nic;
	bool known;

	if (!vi || !state || !attributes || !send_empty || !recv_empty)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	known = vi->handle == handle;
	if (known) {
		*state = vi->state;
		*attributes = vi->attributes;
		*send_empty = is_empty(&vi->sq);
		*recv_empty = is_empty(&vi->rq);
	}
	vipl_nic_unlock(nic);
	return known ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

/* What an idle VI has that its attributes decide. */
struct resources {
	struct vipl_domain *domain;
	struct ibv_qp *qp;
	unsigned max_inline;
	struct vipl_header *headers;
	uint32_t headers_lkey;
};

static struct resources detach_resources(struct vipl_vi *vi)
{
	struct resources resources = {vi->domain, vi->qp, vi->max_inline, vi->headers,
				      vi->headers_lkey};

	vi->qp = NULL;
	vi->headers = NULL;
	return resources;
}

static void attach_resources(struct vipl_vi *vi, const struct resources *resources)
{
	vi->domain = resources->domain;
	vi->qp = resources->qp;
	vi->max_inline = resources->max_inline;
	vi->headers = resources->headers;
	vi->headers_lkey = resources->headers_lkey;
}

static void destroy_resources(struct vipl_vi *vi, const struct resources *resources)
{
	if (resources->qp)
		vipl_qp_destroy_of(vi, resources->qp);
	if (resources->headers)
		vipl_buffer_put(resources->domain, resources->headers);
}

/* With other attributes it takes another QP, and headers elsewhere. What it has goes when these are
 * there. */
static VIP_RETURN set(struct vipl_vi *vi, const VIP_VI_ATTRIBUTES *attributes)
{
	struct vipl_ptag *ptag, *ptag_before = vi->ptag;
	VIP_VI_ATTRIBUTES before = vi->attributes;
	VIP_RETURN result = check(vi->nic, attributes, &ptag);
	struct resources old, spare;

	if (result)
		return result;
	vipl_cm_reap(vi);
	spare = old = detach_resources(vi);
	take_attributes(vi, attributes, ptag);
	if (open_headers(vi) || vipl_qp_create(vi)) {
		result = VIP_ERROR_RESOURCE;
		spare = detach_resources(vi);
		take_attributes(vi, &before, ptag_before);
		attach_resources(vi, &old);
	}
	destroy_resources(vi, &spare);
	atomic_fetch_add(&vi->nic->memory_generation, 1);
	return result;
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE handle, VIP_VI_ATTRIBUTES *attributes)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);
	VIP_RETURN result;
	struct vipl_nic *nic;

	if (!vi || !attributes)
		return VIP_INVALID_PARAMETER;
	nic = vi->nic;
	vipl_nic_lock(nic);
	result = vi->handle == handle ? vipl_transition(vi->state, VIPL_SET).result
				      : VIP_INVALID_PARAMETER;
	if (!result)
		result = set(vi, attributes);
	vipl_nic_unlock(nic);
	return result;
}

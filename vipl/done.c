// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* VipSendDone, VipRecvDone, VipSendWait, VipRecvWait (source, 2.1 and 2.3). */
#include <errno.h>

#include "vipl/nic.h"
#include "vipl/wait.h"

static __attribute__((noinline)) VIP_RETURN done_shared(struct vipl_queue *queue,
							VIP_DESCRIPTOR **descriptor)
{
	struct vipl_cq *cq = vipl_queue_lock(queue);
	VIP_RETURN result = vipl_queue_take(queue, descriptor);

	vipl_cq_unlock(cq);
	return result;
}

vipl_inline VIP_RETURN done(struct vipl_queue *queue, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_cq *cq = vipl_queue_enter(queue);
	VIP_RETURN result;

	if (vipl_unlikely(!cq))
		return done_shared(queue, descriptor);
	result = vipl_queue_take(queue, descriptor);
	vipl_cq_leave(cq);
	return result;
}

/* Takes the head, or sees to it that an event of that CQ comes when there is one. */
static VIP_RETURN done_or_armed(struct vipl_queue *queue, VIP_DESCRIPTOR **descriptor,
				struct vipl_cq **armed)
{
	struct vipl_cq *cq = vipl_queue_lock(queue);
	VIP_RETURN result = vipl_queue_take(queue, descriptor);

	if (result == VIP_NOT_DONE && cq->ibv && !ibv_req_notify_cq(cq->ibv, 0))
		result = vipl_queue_take(queue, descriptor);
	vipl_cq_unlock(cq);
	*armed = cq;
	return result;
}

static VIP_RETURN wait_for(struct vipl_queue *queue, VIP_ULONG timeout, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_deadline deadline = vipl_deadline(timeout);
	struct vipl_cq *cq;
	VIP_RETURN result;
	int ret = 0;

	while (true) {
		result = ret ? done(queue, descriptor) : done_or_armed(queue, descriptor, &cq);
		if (result != VIP_NOT_DONE)
			return result;
		if (ret)
			return ret == -ETIMEDOUT ? VIP_TIMEOUT : VIP_INVALID_PARAMETER;
		ret = timeout ? vipl_wait(cq, &deadline) : -ETIMEDOUT;
	}
}

VIP_RETURN VipSendDone(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? done(&vi->sq, descriptor) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipRecvDone(VIP_VI_HANDLE handle, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? done(&vi->rq, descriptor) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipSendWait(VIP_VI_HANDLE handle, VIP_ULONG timeout, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? wait_for(&vi->sq, timeout, descriptor) : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipRecvWait(VIP_VI_HANDLE handle, VIP_ULONG timeout, VIP_DESCRIPTOR **descriptor)
{
	struct vipl_vi *vi = vipl_handle_lookup(handle, VIPL_KIND_VI);

	return vi && descriptor ? wait_for(&vi->rq, timeout, descriptor) : VIP_INVALID_PARAMETER;
}

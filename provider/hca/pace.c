/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Rate limits of QPs (pace.h). */
#include <errno.h>

#include "hca/completer.h"
#include "hca/engine.h"
#include "hca/pace.h"

#define BURST_NS    50000000ull /* by default: longer than a busy machine lets a thread wait */
#define LEAST_BYTES 64

int urxe_pace_set(struct urxe_qp *qp, const struct ibv_qp_rate_limit_attr *attr)
{
	uint64_t kbps = attr->rate_limit;

	if (kbps > URXE_PACE_MAX_KBPS || (!kbps && attr->max_burst_sz))
		return EINVAL;
	qp->proto.attr.rate_limit = kbps;
	qp->pace.burst_ns = BURST_NS;
	qp->pace.waits = false;
	if (attr->max_burst_sz)
		qp->pace.burst_ns = (uint64_t)attr->max_burst_sz * 8000000 / kbps;
	qp->pace.at = urxe_now();
	qp->pace.paid = qp->proto.psn;
	return 0;
}

int urxe_modify_qp_rate_limit(struct ibv_qp *ibv, struct ibv_qp_rate_limit_attr *attr)
{
	struct urxe_qp *qp = to_qp(ibv);
	int state = atomic_load(&qp->proto.state), ret = EINVAL;

	if (urxe_inherited(qp->forks))
		return EIO;
	if (!attr || attr->comp_mask)
		return EINVAL;
	urxe_engine_lock();
	if (state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD)
		ret = urxe_pace_set(qp, attr);
	urxe_engine_unlock();
	return ret;
}

bool urxe_pace_admits(const struct urxe_qp *qp)
{
	return !qp->proto.attr.rate_limit || qp->pace.at <= urxe_hca.now;
}

bool urxe_pace_wait(struct urxe_qp *qp)
{
	if (!qp->proto.attr.rate_limit)
		return true;
	urxe_hca.now = urxe_now();
	if (urxe_pace_admits(qp))
		return true;
	qp->pace.waits = true;
	qp->full_wait = true;
	qp->rnr_until = qp->pace.at;
	urxe_completer_arm(qp);
	return false;
}

void urxe_pace_charge(struct urxe_qp *qp, uint32_t payload)
{
	uint64_t bytes = payload > LEAST_BYTES ? payload : LEAST_BYTES;
	uint64_t unused = qp->pace.waits ? BURST_NS : qp->pace.burst_ns;
	uint64_t earliest = urxe_hca.now - unused;

	if (!qp->proto.attr.rate_limit)
		return;
	if (qp->pace.at < earliest)
		qp->pace.at = earliest;
	qp->pace.at += bytes * 8000000 / qp->proto.attr.rate_limit;
}

void urxe_pace_idle(struct urxe_qp *qp)
{
	qp->pace.waits = false;
}

void urxe_pace_count(struct urxe_qp *qp, uint32_t span, uint32_t payload)
{
	if (urxe_psn_diff(qp->proto.psn, qp->pace.paid) < 0)
		return;
	qp->pace.paid = urxe_psn_add(qp->proto.psn, span);
	urxe_pace_charge(qp, payload);
}

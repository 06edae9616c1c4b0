/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows (IBTA vol. 1, 10.6.7): an R_Key over a part of a region. A window that is bound is
 * a row of the registration table. Type 1 is bound by a verb, which chooses its key; type 2 (2B:
 * to one QP) by a work request, whose poster chooses the key's last byte. Binding and invalidation
 * run when the send queue reaches them, under the engine lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "hca/direct.h"
#include "hca/engine.h"
#include "hca/memory.h"

/* Programs give a window its region's rights, of which those that are local say nothing of it. */
#define MW_ACCESS                                                                    \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED)

/* The part of an R_Key that a bind chooses; the rest, the index, is the window's. */
#define MW_KEY 0xffu

static struct cds_list_head *bucket(uint32_t key)
{
	return &urxe_hca.windows[(key >> 8) % URXE_MW_BUCKETS];
}

/* The window that a key is of, whatever its last byte. */
static struct urxe_mw *find(uint32_t key)
{
	struct urxe_mw *mw;

	cds_list_for_each_entry (mw, bucket(key), node)
		if (mw->ibv.handle >> 8 == key >> 8)
			return mw;
	return NULL;
}

struct ibv_mw *urxe_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct urxe_mw *mw;
	uint32_t index;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return urxe_fail(EINVAL);
	if (!urxe_context_here(pd->context))
		return NULL;
	mw = urxe_object_new(pd->context, URXE_MWS, sizeof(*mw));
	index = mw ? urxe_segment_key_index_alloc(urxe_hca.seg) : 0;
	if (!index) {
		urxe_object_free(pd->context, URXE_MWS, mw);
		return urxe_fail(ENOMEM);
	}
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.type = type;
	mw->forks = urxe_forks;
	mw->ibv.rkey = mw->ibv.handle = index << 8;
	urxe_pd_use(to_pd(pd), 1);
	urxe_engine_lock();
	cds_list_add(&mw->node, bucket(mw->ibv.handle));
	urxe_engine_unlock();
	return &mw->ibv;
}

/* Takes the key away; URXE_BOUND_LATER while a neighbour works by it. */
static enum urxe_bound unbind(struct urxe_mw *mw)
{
	if (mw->bound_to) {
		pthread_mutex_lock(&urxe_regions_lock);
		mempool_table_remove(urxe_hca.table, mw->bound_to);
		pthread_mutex_unlock(&urxe_regions_lock);
		mw->ticket = urxe_direct_change();
		mw->leaving = mw->bound_to;
		mw->bound_to = 0;
		mw->mr->windows--;
		mw->mr = NULL;
	}
	if (!urxe_direct_over(mw->ticket))
		return URXE_BOUND_LATER;
	mw->leaving = 0;
	return URXE_BOUND;
}

uint64_t urxe_mw_revoke(struct urxe_mw *mw)
{
	unbind(mw);
	cds_list_del(&mw->node);
	urxe_segment_key_index_free(urxe_hca.seg, mw->ibv.handle >> 8);
	return mw->leaving ? mw->ticket : 0;
}

int urxe_dealloc_mw(struct ibv_mw *ibv)
{
	struct urxe_mw *mw = to_mw(ibv);

	if (!urxe_inherited(mw->forks)) {
		uint64_t ticket;

		urxe_engine_lock();
		ticket = urxe_mw_revoke(mw);
		urxe_engine_unlock();
		if (ticket)
			urxe_direct_wait();
	}
	urxe_pd_use(to_pd(ibv->pd), -1);
	urxe_object_free(ibv->context, URXE_MWS, mw);
	return 0;
}

int urxe_mw_set_bind(struct urxe_qp *qp, struct urxe_send_wqe *wqe, struct ibv_mw *mw,
		     uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	const struct ibv_device *device = qp->ibv.context->device;

	if (!mw || (!info->mr && info->length) || (info->mw_access_flags & ~MW_ACCESS))
		return EINVAL;
	/* Another device's may have the same numbers. */
	if (mw->context->device != device || (info->mr && info->mr->context->device != device))
		return EINVAL;
	if (urxe_inherited(to_mw(mw)->forks) ||
	    (info->mr && urxe_inherited(to_mr(info->mr)->forks)))
		return EIO;
	wqe->bind.addr = info->addr;
	wqe->bind.length = info->length;
	wqe->bind.access = info->mw_access_flags;
	wqe->bind.window = mw->handle;
	wqe->bind.region = info->mr ? info->mr->lkey : 0;
	wqe->bind.rkey = (mw->handle & ~MW_KEY) | (rkey & MW_KEY);
	return 0;
}

/* May this window be bound like that (10.6.7.2.1)? Fills the row it would have. */
static bool bind_ok(struct urxe_qp *qp, const struct urxe_send_wqe *wqe, const struct urxe_mw *mw,
		    const struct urxe_mr *mr, struct mempool_row *row)
{
	unsigned access = wqe->bind.access;
	uint64_t va;

	if (to_pd(mw->ibv.pd)->number != qp->pd->number ||
	    to_pd(mr->ibv.pd)->number != qp->pd->number)
		return false;
	if (mw->ibv.type == IBV_MW_TYPE_2 && (mw->bound_to || !wqe->bind.length))
		return false;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	if (mempool_table_match(urxe_hca.table, wqe->bind.region, qp->pd->number, 0, wqe->bind.addr,
				wqe->bind.length, RMEMPOOL_MW_BIND, false, &va) != RMEMPOOL_OK)
		return false;
	*row = (struct mempool_row){
		.iova = access & IBV_ACCESS_ZERO_BASED ? 0 : wqe->bind.addr,
		.length = wqe->bind.length,
		.va = va,
		.key = wqe->bind.rkey,
		.pd = qp->pd->number,
		.access = (access & (RMEMPOOL_REMOTE_WRITE | RMEMPOOL_REMOTE_READ |
				     RMEMPOOL_REMOTE_ATOMIC)) |
			  (mr->access & IBV_ACCESS_ON_DEMAND ? 0 : URXE_RESIDENT),
		.qpn = qp->proto.qpn,
		.parent = wqe->bind.region,
		.object = mr->place.object,
		.kind = mw->ibv.type == IBV_MW_TYPE_1 ? MEMPOOL_WINDOW_1 : MEMPOOL_WINDOW_2,
	};
	return true;
}

enum urxe_bound urxe_mw_execute_bind(struct urxe_qp *qp, const struct urxe_send_wqe *wqe)
{
	struct urxe_mw *mw = find(wqe->bind.window);
	struct mempool_row row;
	struct urxe_mr *mr;
	int ret;

	if (!mw)
		return URXE_NOT_BOUND;
	/* Length zero takes a type 1 window's binding away. */
	if (mw->ibv.type == IBV_MW_TYPE_1 && !wqe->bind.length) {
		if (to_pd(mw->ibv.pd)->number != qp->pd->number)
			return URXE_NOT_BOUND;
		return unbind(mw);
	}
	mr = urxe_mr_find(to_context(qp->ibv.context), wqe->bind.region);
	if (!mr || !bind_ok(qp, wqe, mw, mr, &row))
		return URXE_NOT_BOUND;
	if (unbind(mw) == URXE_BOUND_LATER)
		return URXE_BOUND_LATER;
	pthread_mutex_lock(&urxe_regions_lock);
	ret = mempool_table_add(urxe_hca.table, &row);
	pthread_mutex_unlock(&urxe_regions_lock);
	if (ret)
		return URXE_NOT_BOUND;
	mw->bound_to = row.key;
	mw->mr = mr;
	mr->windows++;
	return URXE_BOUND;
}

/*
 * Invalidates a type 2 window, by a local work request or by a peer's SEND with Invalidate (then
 * on the QP it is bound to). Regions of ibv_reg_mr() cannot be invalidated (10.6.5).
 */
enum urxe_bound urxe_invalidate(struct urxe_qp *qp, uint32_t rkey)
{
	struct urxe_mw *mw = find(rkey);
	struct mempool_row row;

	if (mw && mw->leaving == rkey)
		return unbind(mw);
	if (mempool_table_get(urxe_hca.table, rkey, &row) || row.kind != MEMPOOL_WINDOW_2 ||
	    row.pd != qp->pd->number || row.qpn != qp->proto.qpn || !mw || mw->bound_to != rkey)
		return URXE_NOT_BOUND;
	return unbind(mw);
}

/* ibv_bind_mw(3): type 1 only. The new R_Key is in mw->rkey when this returns. */
int urxe_bind_mw(struct ibv_qp *ibv, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_BIND_MW, .wr_id = bind->wr_id, .send_flags = bind->send_flags};
	struct ibv_send_wr *bad;
	uint32_t old = mw->rkey;
	int ret;

	/* verbs.h asks the window's device, whatever the QP's is. */
	if (mw->type != IBV_MW_TYPE_1 || ibv->context->device != mw->context->device)
		return EINVAL;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(old);
	wr.bind_mw.bind_info = bind->bind_info;
	mw->rkey = wr.bind_mw.rkey;
	ret = urxe_post_send(ibv, &wr, &bad);
	if (ret)
		mw->rkey = old;
	return ret;
}

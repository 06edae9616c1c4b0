/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "hca/moderation.h"

static CDS_LIST_HEAD(waiting); /* CQs with an event that waits, by node. Engine lock. */

bool urxe_moderation_waits(struct urxe_cq *cq)
{
	struct urxe_moderation *m = &cq->moderation;

	if (!m->count)
		return false;
	if (++m->pending >= m->count) {
		cds_list_del_init(&m->node);
		return false;
	}
	if (m->pending == 1) {
		m->due = urxe_now() + m->period;
		cds_list_del(&m->node);
		cds_list_add_tail(&m->node, &waiting);
		if (m->due < urxe_hca.earliest)
			urxe_hca.earliest = m->due;
	}
	return true;
}

void urxe_moderation_forget(struct urxe_cq *cq)
{
	cds_list_del_init(&cq->moderation.node);
}

/* The program may have been told in another way meanwhile, or looks for itself. */
static void end(struct urxe_cq *cq)
{
	bool notify;

	cds_list_del_init(&cq->moderation.node);
	urxe_lock(&cq->lock);
	notify = cq->arm != URXE_ARM_NONE && cq->moderation.pending;
	if (notify)
		urxe_cq_told(cq, atomic_load(&cq->head) - 1);
	urxe_unlock(&cq->lock);
	if (notify)
		urxe_channel_notify(cq);
}

void urxe_moderation_run(uint64_t now)
{
	struct urxe_cq *cq, *next;

	cds_list_for_each_entry_safe (cq, next, &waiting, moderation.node)
		if (cq->moderation.due <= now)
			end(cq);
}

uint64_t urxe_moderation_deadline(void)
{
	const struct urxe_cq *cq;
	uint64_t earliest = UINT64_MAX;

	cds_list_for_each_entry (cq, &waiting, moderation.node)
		if (cq->moderation.due < earliest)
			earliest = cq->moderation.due;
	return earliest;
}

void urxe_moderation_set(struct urxe_cq *cq, const struct ibv_moderate_cq *to)
{
	bool on = to->cq_count > 1 && to->cq_period;

	urxe_engine_lock();
	urxe_lock(&cq->lock);
	cq->moderation.count = on ? to->cq_count : 0;
	cq->moderation.period = to->cq_period * 1000ull;
	urxe_unlock(&cq->lock);
	end(cq);
	urxe_engine_unlock();
}

void urxe_moderation_forked(void)
{
	CDS_INIT_LIST_HEAD(&waiting);
}

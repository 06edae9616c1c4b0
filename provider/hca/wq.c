/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/engine.h"
#include "hca/rss.h"
#include "hca/wq.h"

struct urxe_wq {
	struct ibv_wq ibv;
	struct ibv_qp *qp; /* whose receive half it is */
	atomic_int users;  /* tables */
};

struct urxe_rwq_table {
	struct ibv_rwq_ind_table ibv;
	atomic_int users; /* QPs */
	uint32_t size;
	struct urxe_wq *wqs[];
};

struct urxe_rss {
	struct urxe_rwq_table *table;
	uint64_t fields;
	uint8_t key[URXE_RSS_KEY_LEN];
};

static struct urxe_wq *to_wq(struct ibv_wq *wq)
{
	return caa_container_of(wq, struct urxe_wq, ibv);
}

/* ---- work queues ---- */

struct ibv_qp *urxe_wq_qp(struct ibv_wq *wq)
{
	return to_wq(wq)->qp;
}

static int post_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	/* The context's own operation, which another one is in the child of a fork. */
	return ibv_post_recv(to_wq(wq)->qp, wr, bad);
}

struct ibv_wq *urxe_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	struct ibv_qp_init_attr_ex qp;
	struct urxe_wq *wq;
	uint32_t flags;

	if (!attr || attr->wq_type != IBV_WQT_RQ || !attr->pd || !attr->cq || !attr->max_wr)
		return urxe_fail(EINVAL);
	flags = attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS ? attr->create_flags : 0;
	if ((attr->comp_mask & ~IBV_WQ_INIT_ATTR_FLAGS) || (flags & ~IBV_WQ_FLAGS_CVLAN_STRIPPING))
		return urxe_fail(EOPNOTSUPP);
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return NULL;
	qp = (struct ibv_qp_init_attr_ex){
		.send_cq = attr->cq,
		.recv_cq = attr->cq,
		.cap = {.max_recv_wr = attr->max_wr, .max_recv_sge = attr->max_sge},
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = attr->pd,
		.create_flags = flags ? IBV_QP_CREATE_CVLAN_STRIPPING : 0,
	};
	wq->qp = urxe_create_qp_ex(context, &qp);
	if (!wq->qp) {
		free(wq);
		return NULL;
	}
	wq->ibv = (struct ibv_wq){
		.context = context,
		.pd = attr->pd,
		.cq = attr->cq,
		.wq_num = wq->qp->qp_num,
		.handle = wq->qp->handle,
		.state = IBV_WQS_RESET,
		.wq_type = attr->wq_type,
		.post_recv = post_recv,
	};
	to_qp(wq->qp)->wq = &wq->ibv;
	return &wq->ibv;
}

static int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};

	return urxe_modify_qp(qp, &attr, IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0));
}

/* RESET to RDY; both to ERR, which flushes; ERR and RDY to RESET. */
static int change_state(struct urxe_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq *ibv = &wq->ibv;
	int ret;

	switch (state) {
	case IBV_WQS_RESET: ret = to_state(wq->qp, IBV_QPS_RESET); break;
	case IBV_WQS_RDY:
		if (ibv->state != IBV_WQS_RESET)
			return ibv->state == IBV_WQS_RDY ? 0 : EINVAL;
		ret = to_state(wq->qp, IBV_QPS_INIT);
		if (!ret)
			ret = to_state(wq->qp, IBV_QPS_RTR);
		break;
	case IBV_WQS_ERR: ret = to_state(wq->qp, IBV_QPS_ERR); break;
	default: return EINVAL;
	}
	if (!ret)
		ibv->state = state;
	return ret;
}

int urxe_modify_wq(struct ibv_wq *ibv, struct ibv_wq_attr *attr)
{
	struct urxe_wq *wq = to_wq(ibv);
	uint32_t flags;
	int ret = 0;

	if (!attr)
		return EINVAL;
	flags = attr->attr_mask & IBV_WQ_ATTR_FLAGS ? attr->flags_mask : 0;
	if ((attr->attr_mask & ~(IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE | IBV_WQ_ATTR_FLAGS)) ||
	    (flags & ~IBV_WQ_FLAGS_CVLAN_STRIPPING))
		return EOPNOTSUPP;
	if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) && attr->curr_wq_state != ibv->state)
		return EINVAL;
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		ret = change_state(wq, attr->wq_state);
	if (!ret && flags) {
		urxe_engine_lock();
		to_qp(wq->qp)->strip_vlan = attr->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING;
		urxe_engine_unlock();
	}
	return ret;
}

int urxe_destroy_wq(struct ibv_wq *ibv)
{
	struct urxe_wq *wq = to_wq(ibv);
	int ret;

	if (atomic_load(&wq->users))
		return EBUSY;
	ret = urxe_destroy_qp(wq->qp);
	if (!ret)
		free(wq);
	return ret;
}

/* ---- tables ---- */

struct ibv_rwq_ind_table *urxe_create_rwq_ind_table(struct ibv_context *context,
						    struct ibv_rwq_ind_table_init_attr *attr)
{
	static _Atomic uint32_t next = 1;
	struct urxe_rwq_table *table;
	uint32_t size;

	if (urxe_missing(attr))
		return NULL;
	if (attr->comp_mask || attr->log_ind_tbl_size > URXE_MAX_RWQ_TABLE_LOG || !attr->ind_tbl)
		return urxe_fail(attr->comp_mask ? EOPNOTSUPP : EINVAL);
	size = 1u << attr->log_ind_tbl_size;
	for (uint32_t i = 0; i < size; i++) {
		if (!attr->ind_tbl[i] || attr->ind_tbl[i]->context != context)
			return urxe_fail(EINVAL);
		if (urxe_inherited(to_qp(to_wq(attr->ind_tbl[i])->qp)->forks))
			return urxe_fail(EIO);
	}
	table = urxe_object_new(context, URXE_RWQ_TABLES,
				sizeof(*table) + size * sizeof(table->wqs[0]));
	if (!table)
		return NULL;
	table->ibv.context = context;
	table->ibv.ind_tbl_handle = table->ibv.ind_tbl_num = atomic_fetch_add(&next, 1);
	table->size = size;
	for (uint32_t i = 0; i < size; i++) {
		table->wqs[i] = to_wq(attr->ind_tbl[i]);
		atomic_fetch_add(&table->wqs[i]->users, 1);
	}
	return &table->ibv;
}

int urxe_destroy_rwq_ind_table(struct ibv_rwq_ind_table *ibv)
{
	struct urxe_rwq_table *table = caa_container_of(ibv, struct urxe_rwq_table, ibv);

	if (atomic_load(&table->users))
		return EBUSY;
	for (uint32_t i = 0; i < table->size; i++)
		atomic_fetch_sub(&table->wqs[i]->users, 1);
	urxe_object_free(ibv->context, URXE_RWQ_TABLES, table);
	return 0;
}

/* ---- QPs ---- */

int urxe_rss_create(const struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		    struct urxe_rss **out)
{
	struct urxe_rss *rss;
	int ret;

	if (attr->qp_type != IBV_QPT_RAW_PACKET)
		return EOPNOTSUPP;
	if ((attr->comp_mask & URXE_RSS_ATTRS) != URXE_RSS_ATTRS || !attr->rwq_ind_tbl ||
	    attr->rwq_ind_tbl->context != context || attr->send_cq || attr->recv_cq || attr->srq)
		return EINVAL;
	ret = urxe_rss_check(&attr->rx_hash_conf);
	if (ret)
		return ret;
	rss = calloc(1, sizeof(*rss));
	if (!rss)
		return ENOMEM;
	rss->table = caa_container_of(attr->rwq_ind_tbl, struct urxe_rwq_table, ibv);
	rss->fields = attr->rx_hash_conf.rx_hash_fields_mask;
	memcpy(rss->key, attr->rx_hash_conf.rx_hash_key, sizeof(rss->key));
	atomic_fetch_add(&rss->table->users, 1);
	attr->send_cq = attr->recv_cq = rss->table->wqs[0]->ibv.cq;
	*out = rss;
	return 0;
}

void urxe_rss_destroy(struct urxe_rss *rss)
{
	if (!rss)
		return;
	atomic_fetch_sub(&rss->table->users, 1);
	free(rss);
}

struct urxe_qp *urxe_rss_choose(const struct urxe_rss *rss, const struct urxe_frame *frame)
{
	uint32_t hash = urxe_rss_hash(rss->key, rss->fields, frame);

	return to_qp(rss->table->wqs[hash & (rss->table->size - 1)]->qp);
}

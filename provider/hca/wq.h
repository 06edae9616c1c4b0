/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive work queues (ibv_create_wq(3)), tables of them, and QPs that spread frames over such a
 * table by a hash (receive side scaling). A work queue is the receive half of a raw packet QP of
 * its own, so that there is one way to receive.
 */
#ifndef URXE_HCA_WQ_H
#define URXE_HCA_WQ_H

#include "hca/frame.h"
#include "hca/hca.h"

#define URXE_MAX_RWQ_TABLE_LOG 10 /* log2 of the places in a table */

struct ibv_wq *urxe_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int urxe_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int urxe_destroy_wq(struct ibv_wq *wq);
/* Whose receive half it is; that counts the work queue's events. */
struct ibv_qp *urxe_wq_qp(struct ibv_wq *wq);
struct ibv_rwq_ind_table *urxe_create_rwq_ind_table(struct ibv_context *context,
						    struct ibv_rwq_ind_table_init_attr *attr);
int urxe_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);

/* What a QP is created with that has a table and a hash. */
#define URXE_RSS_ATTRS (IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH)
/* Makes what such a QP needs, and gives it the table's CQ: an errno, as of ibv_create_qp_ex(3). */
int urxe_rss_create(const struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
		    struct urxe_rss **rss);
/* rss may be NULL. */
void urxe_rss_destroy(struct urxe_rss *rss);
/* Which QP receives a frame: its work queue's. Engine lock. */
struct urxe_qp *urxe_rss_choose(const struct urxe_rss *rss, const struct urxe_frame *frame);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Device contexts (ibv_open_device(3)): what a program holds, with the operation tables that the
 * inline functions of verbs.h call. Opening the first one starts the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/device.h"
#include "hca/counters.h"
#include "hca/direct.h"
#include "hca/dm.h"
#include "hca/engine.h"
#include "hca/memory.h"
#include "hca/moderation.h"
#include "hca/pace.h"
#include "hca/query.h"
#include "hca/raw_packet.h"
#include "hca/tag_matching.h"
#include "hca/wq.h"
#include "hca/xrc.h"
#include "host/log.h"
#include "host/mutex.h"

unsigned urxe_forks;

static URXE_MUTEX(taking_over);

static void fill_ops(struct urxe_context *ctx)
{
	struct verbs_context *v = &ctx->vctx;
	struct ibv_context_ops *ops = &v->context.ops;

	v->sz = sizeof(*v);
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->query_port = urxe_query_port_ex;
	v->query_device_ex = urxe_query_device_ex;
	v->query_rt_values = urxe_query_rt_values;
	v->create_cq_ex = urxe_create_cq_ex;
	v->modify_cq = urxe_modify_cq;
	v->create_qp_ex = urxe_create_qp_ex;
	v->create_srq_ex = urxe_create_srq_ex;
	v->post_srq_ops = urxe_post_srq_ops;
	v->advise_mr = urxe_advise_mr;
	v->alloc_null_mr = urxe_alloc_null_mr;
	v->open_xrcd = urxe_open_xrcd;
	v->close_xrcd = urxe_close_xrcd;
	v->get_srq_num = urxe_get_srq_num;
	v->open_qp = urxe_open_qp;
	v->modify_qp_rate_limit = urxe_modify_qp_rate_limit;
	v->create_wq = urxe_create_wq;
	v->modify_wq = urxe_modify_wq;
	v->destroy_wq = urxe_destroy_wq;
	v->create_rwq_ind_table = urxe_create_rwq_ind_table;
	v->destroy_rwq_ind_table = urxe_destroy_rwq_ind_table;
	v->ibv_create_flow = urxe_create_flow;
	v->ibv_destroy_flow = urxe_destroy_flow;
	v->create_counters = urxe_create_counters;
	v->destroy_counters = urxe_destroy_counters;
	v->attach_counters_point_flow = urxe_attach_counters;
	v->read_counters = urxe_read_counters;
	v->alloc_dm = urxe_alloc_dm;
	v->free_dm = urxe_free_dm;
	v->reg_dm_mr = urxe_reg_dm_mr;
	v->alloc_td = urxe_alloc_td;
	v->dealloc_td = urxe_dealloc_td;
	v->alloc_parent_domain = urxe_alloc_parent_domain;
	ops->alloc_mw = urxe_alloc_mw;
	ops->bind_mw = urxe_bind_mw;
	ops->dealloc_mw = urxe_dealloc_mw;
	ops->poll_cq = urxe_poll_cq;
	ops->req_notify_cq = urxe_req_notify_cq;
	ops->post_send = urxe_post_send;
	ops->post_recv = urxe_post_recv;
	ops->post_srq_recv = urxe_post_srq_recv;
}

/*
 * In the child of a fork, where threads that are not there may have the locks of queues. The
 * operations that a program calls all the time ask whose object it is in such a context alone.
 */
static int poll_ours(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return urxe_inherited(to_cq(cq)->forks) ? 0 : urxe_poll_cq(cq, n, wc);
}

static int notify_ours(struct ibv_cq *cq, int solicited_only)
{
	return urxe_inherited(to_cq(cq)->forks) ? EIO : urxe_req_notify_cq(cq, solicited_only);
}

static int send_ours(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (!urxe_inherited(to_qp(qp)->forks))
		return urxe_post_send(qp, wr, bad);
	*bad = wr;
	return EIO;
}

static int receive_ours(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (!urxe_inherited(to_qp(qp)->forks))
		return urxe_post_recv(qp, wr, bad);
	*bad = wr;
	return EIO;
}

static int receive_shared_ours(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad)
{
	if (!urxe_inherited(to_srq(srq)->forks))
		return urxe_post_srq_recv(srq, wr, bad);
	*bad = wr;
	return EIO;
}

static void context_forked(struct urxe_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->vctx.context.ops;

	urxe_context_file_forked(&ctx->file);
	pthread_mutex_init(&ctx->lock, NULL);
	ops->poll_cq = poll_ours;
	ops->req_notify_cq = notify_ours;
	ops->post_send = send_ours;
	ops->post_recv = receive_ours;
	ops->post_srq_recv = receive_shared_ours;
}

void urxe_contexts_forked(void)
{
	struct urxe_context *ctx;

	urxe_forks++;
	if (urxe_hca.users)
		cds_list_for_each_entry (ctx, &urxe_hca.contexts, node)
			context_forked(ctx);
}

/* Makes it one of this process: -errno. Objects that a parent left in it
 * are not looked at any more. */
static int attach(struct urxe_context *ctx)
{
	struct urxe_fdqueue *events, *parents = ctx->events;
	int fd, ret = urxe_engine_get();

	if (ret)
		return ret;
	ret = urxe_events_create(&events, &fd);
	if (ret) {
		urxe_engine_put();
		return ret;
	}
	ctx->events = events;
	ctx->vctx.context.async_fd = fd;
	if (parents)
		urxe_events_destroy(parents, true);
	for (unsigned i = 0; i < URXE_MR_BUCKETS; i++)
		CDS_INIT_LIST_HEAD(&ctx->mrs[i]);
	CDS_INIT_LIST_HEAD(&ctx->cqs);
	urxe_users_lock();
	urxe_engine_lock();
	cds_list_add(&ctx->node, &urxe_hca.contexts);
	urxe_engine_unlock();
	urxe_users_unlock();
	atomic_store(&ctx->forks, urxe_forks);
	return 0;
}

bool urxe_context_here(struct ibv_context *context)
{
	struct urxe_context *ctx = to_context(context);
	int ret = 0;

	if (!urxe_inherited(ctx->forks))
		return true;
	pthread_mutex_lock(&taking_over);
	if (urxe_inherited(ctx->forks))
		ret = attach(ctx);
	pthread_mutex_unlock(&taking_over);
	if (ret)
		errno = -ret;
	return !ret;
}

/* A context that has its file; NULL and errno, and then the file is closed. */
static struct ibv_context *open_context(struct ibv_device *device, struct urxe_context_file *file)
{
	struct urxe_context *ctx = calloc(1, sizeof(*ctx));
	int ret = -ENOMEM;

	if (!ctx)
		goto err;
	ctx->dev = urxe_device_of(device);
	ctx->file = *file;
	ctx->vctx.context.device = device;
	ctx->vctx.context.cmd_fd = file->fd;
	ctx->vctx.context.num_comp_vectors = 16;
	pthread_mutex_init(&ctx->vctx.context.mutex, NULL);
	pthread_mutex_init(&ctx->lock, NULL);
	fill_ops(ctx);
	ret = attach(ctx);
	if (!ret)
		return &ctx->vctx.context;
err:
	if (ret == -ENOMEM)
		urxe_log(URXE_LOG_ERROR,
			 "no memory to open %s, or no address space where that is limited (ulimit "
			 "-v): it takes some 320 MiB, most of which are never touched",
			 device->name);
	else if (ret == -EMFILE)
		urxe_log(URXE_LOG_ERROR,
			 "no file descriptors to open %s, which takes a dozen: raise the limit "
			 "(ulimit -n)",
			 device->name);
	free(ctx);
	urxe_context_file_close(file);
	return urxe_fail(-ret);
}

struct ibv_context *urxe_open_device(struct ibv_device *device)
{
	struct urxe_context_file file;

	/* Without it (descriptors, address space, RLIMIT_FSIZE) there is no device memory, and no
	 * import. */
	urxe_context_file_create(&file, device->name);
	return open_context(device, &file);
}

static struct ibv_device *find_device(const char *name)
{
	struct ibv_device **devices = urxe_get_devices(NULL);

	for (; devices && *devices; devices++)
		if (!strcmp((*devices)->name, name))
			return *devices;
	return NULL;
}

bool urxe_import_device(int cmd_fd, struct ibv_context **context)
{
	struct urxe_context_file file;
	struct ibv_device *device;
	char name[64];
	int ret = urxe_context_file_open(&file, cmd_fd);

	*context = NULL;
	if (ret) {
		errno = -ret;
		return ret != -ENOENT && ret != -EBADF;
	}
	urxe_context_file_device(&file, name, sizeof(name));
	device = find_device(name);
	if (device) {
		*context = open_context(device, &file);
	} else {
		urxe_context_file_close(&file);
		errno = ENODEV;
	}
	return true;
}

void *urxe_object_new(struct ibv_context *context, enum urxe_counted kind, size_t size)
{
	static const uint32_t most[] = {
		[URXE_CQS] = URXE_MAX_CQ, [URXE_SRQS] = URXE_MAX_SRQ,	   [URXE_AHS] = URXE_MAX_AH,
		[URXE_MWS] = URXE_MAX_MR, [URXE_RWQ_TABLES] = URXE_MAX_QP,
	};
	_Atomic uint32_t *count = &to_context(context)->objects[kind];
	void *object = NULL;

	if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < most[kind])
		object = calloc(1, size);
	if (!object) {
		atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
		errno = ENOMEM;
	}
	return object;
}

void urxe_object_free(struct ibv_context *context, enum urxe_counted kind, void *object)
{
	if (object)
		atomic_fetch_sub_explicit(&to_context(context)->objects[kind], 1,
					  memory_order_relaxed);
	free(object);
}

/*
 * Programs leave objects behind: those stop working, as they do when the kernel closes a context.
 * Their memory stays, because the program still has pointers to it. Neighbours may still be at
 * work.
 */
static void abandon_objects(struct urxe_context *ctx)
{
	struct ibv_context *context = &ctx->vctx.context;
	struct urxe_mw *mw, *next;
	struct urxe_mr *mr;
	struct urxe_cq *cq;

	for (unsigned i = 0; i < URXE_QP_SLOTS; i++)
		if (urxe_hca.qps[i] && urxe_hca.qps[i]->ibv.context == context)
			urxe_qp_retract(urxe_hca.qps[i]);
	urxe_xrc_abandon(context);
	for (unsigned i = 0; i < URXE_MW_BUCKETS; i++)
		cds_list_for_each_entry_safe (mw, next, &urxe_hca.windows[i], node)
			if (mw->ibv.context == context)
				urxe_mw_revoke(mw);
	for (unsigned i = 0; i < URXE_MR_BUCKETS; i++)
		cds_list_for_each_entry (mr, &ctx->mrs[i], node)
			urxe_mr_revoke(mr, false);
	cds_list_for_each_entry (cq, &ctx->cqs, node) {
		urxe_moderation_forget(cq);
		urxe_cq_disarm(cq);
	}
}

int urxe_close_device(struct ibv_context *context)
{
	struct urxe_context *ctx = to_context(context);
	struct urxe_mr *mr;

	if (!urxe_inherited(ctx->forks)) {
		urxe_users_lock();
		urxe_engine_lock();
		abandon_objects(ctx);
		cds_list_del(&ctx->node);
		urxe_engine_unlock();
		urxe_users_unlock();
		urxe_direct_changed();
		for (unsigned i = 0; i < URXE_MR_BUCKETS; i++)
			cds_list_for_each_entry (mr, &ctx->mrs[i], node)
				urxe_place_put(&mr->place);
		urxe_engine_put();
	}
	urxe_events_destroy(ctx->events, urxe_inherited(ctx->forks));
	urxe_context_file_close(&ctx->file);
	free(ctx);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs of the adapter, as the floor above calls them: for each function ibv_X of libibverbs
 * that takes an object of a device, urxe_X with the same arguments, results and errno, called only
 * with objects of a urxe device. What verbs.h defines as inline functions goes through the
 * operation tables of the context, QP and CQ that these functions fill in.
 */
#ifndef URXE_HCA_VERBS_H
#define URXE_HCA_VERBS_H

#include <stdbool.h>
#include <infiniband/verbs.h>

/* The devices: NULL-terminated, stable pointers, nothing to free. *num may be NULL. NULL on error
 * (errno). */
struct ibv_device **urxe_get_devices(int *num);
/* Is it one of ours? Any pointer may be asked. Cheap: called in front of every verb. */
bool urxe_is_device(const struct ibv_device *device);
static inline bool urxe_is_context(const struct ibv_context *context)
{
	return urxe_is_device(context->device);
}

int urxe_get_device_index(struct ibv_device *device);
__be64 urxe_get_device_guid(struct ibv_device *device);
struct ibv_context *urxe_open_device(struct ibv_device *device);
int urxe_close_device(struct ibv_context *context);
/*
 * Is cmd_fd one of a urxe context? If so, *context is that context once more, to which the
 * descriptor belongs from now on (under another number); or NULL, with errno, and the descriptor is
 * the caller's.
 */
bool urxe_import_device(int cmd_fd, struct ibv_context **context);
int urxe_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
/* The object in an event's element. */
enum urxe_event_about {
	URXE_ABOUT_DEVICE, /* or its port: there is none */
	URXE_ABOUT_CQ,
	URXE_ABOUT_QP,
	URXE_ABOUT_SRQ,
	URXE_ABOUT_WQ,
};
enum urxe_event_about urxe_event_about(enum ibv_event_type type);
void urxe_ack_async_event(struct ibv_async_event *event);
int urxe_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int urxe_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int urxe_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int urxe_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags);
ssize_t urxe_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags);
int urxe_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int urxe_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey);

struct ibv_pd *urxe_alloc_pd(struct ibv_context *context);
int urxe_dealloc_pd(struct ibv_pd *pd);
struct ibv_pd *urxe_import_pd(struct ibv_context *context, uint32_t handle);
void urxe_unimport_pd(struct ibv_pd *pd);
struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr);
struct ibv_td *urxe_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int urxe_dealloc_td(struct ibv_td *td);
struct ibv_mr *urxe_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned access);
int urxe_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int urxe_dereg_mr(struct ibv_mr *mr);
struct ibv_mr *urxe_import_mr(struct ibv_pd *pd, uint32_t handle);
void urxe_unimport_mr(struct ibv_mr *mr);
struct ibv_dm *urxe_import_dm(struct ibv_context *context, uint32_t handle);
void urxe_unimport_dm(struct ibv_dm *dm);

struct ibv_comp_channel *urxe_create_comp_channel(struct ibv_context *context);
int urxe_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *urxe_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			      struct ibv_comp_channel *channel, int comp_vector);
int urxe_resize_cq(struct ibv_cq *cq, int cqe);
int urxe_destroy_cq(struct ibv_cq *cq);
int urxe_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void urxe_ack_cq_events(struct ibv_cq *cq, unsigned nevents);

struct ibv_srq *urxe_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int urxe_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int urxe_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int urxe_destroy_srq(struct ibv_srq *srq);

struct ibv_qp *urxe_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int urxe_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
int urxe_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int urxe_destroy_qp(struct ibv_qp *qp);
struct ibv_qp_ex *urxe_qp_to_qp_ex(struct ibv_qp *qp);
int urxe_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int urxe_set_ece(struct ibv_qp *qp, struct ibv_ece *ece);
int urxe_query_ece(struct ibv_qp *qp, struct ibv_ece *ece);

struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int urxe_destroy_ah(struct ibv_ah *ah);
int urxe_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *attr);
struct ibv_ah *urxe_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				      uint8_t port);
int urxe_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t mac[6], uint16_t *vid);
int urxe_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int urxe_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* The adapter's descriptors, which a program must not close or replace: true if fd is one of
 * them. */
bool urxe_owns_fd(int fd);
/* Around a fork: so the engine, and the list of contexts, are at one side of a
 * start, a stop or a change. */
void urxe_users_lock(void);
void urxe_users_unlock(void);
/* To be called in the child of a fork (registered with pthread_atfork by the library itself). */
void urxe_forked(void);
/*
 * Whether threads may be cancelled: as long as they may not, a verb need not disable it. They
 * may, unless the caller, which sees each pthread_cancel(), has said otherwise: false in the
 * beginning, before any thread is in a verb, and true before each cancellation. The first ones wait
 * for the threads that are in a verb.
 */
void urxe_may_cancel(bool may);
/*
 * To be called when the process ends without having destroyed its QPs: their acknowledgements
 * leave. in_handler: it may be a signal handler that ends it; then acknowledgements leave,
 * and nothing else is done.
 */
void urxe_ending(bool in_handler);

#endif

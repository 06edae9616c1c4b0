/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs whose only difference is the provider that serves them: an object of a urxe device is
 * ours, anything else goes to the next definition. One line a verb. Those that need more are in
 * verbs_device.c and verbs_more.c; what verbs.h defines inline reaches the adapter through the
 * operation tables of the context, QP and CQ and never comes here.
 *
 * Called by any thread of the program; there is no state but the looked-up next definitions.
 */
#include <errno.h>
#include <infiniband/verbs.h>

#include "hca/verbs.h"
#include "preload/preload.h"

/* Manual pages call the result of most verbs "the value of errno": programs print either. */
static int with_errno(int ret)
{
	if (ret)
		errno = ret;
	return ret;
}

/*
 * what becomes of our result; result, name without ibv_, version, parameters, arguments, context of
 * the object, result if nobody can answer.
 */
#define VERB_BY(answer, result, name, version, params, args, context_of, nobody)                 \
	URXE_SERVED_VERB(result, ibv_##name, version, params, args, urxe_is_context(context_of), \
			 answer(urxe_##name args), nobody)
#define VERB(result, name, version, params, args, context_of, nobody) \
	VERB_BY(, result, name, version, params, args, context_of, nobody)
#define ERRNO_VERB(name, version, params, args, context_of) \
	VERB_BY(with_errno, int, name, version, params, args, context_of, ENOSYS)

/* clang-format off */

/* Context, GIDs and P_Keys */
VERB(int, get_async_event, "IBVERBS_1.1", (struct ibv_context *context, struct ibv_async_event *event), (context, event), context, URXE_NOBODY_MINUS)
ERRNO_VERB(query_device, "IBVERBS_1.1", (struct ibv_context *context, struct ibv_device_attr *attr), (context, attr), context)
VERB(int, query_gid, "IBVERBS_1.1", (struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid), (context, port, index, gid), context, URXE_NOBODY_MINUS)
VERB(int, query_pkey, "IBVERBS_1.1", (struct ibv_context *context, uint8_t port, int index, __be16 *pkey), (context, port, index, pkey), context, URXE_NOBODY_MINUS)
VERB(int, get_pkey_index, "IBVERBS_1.5", (struct ibv_context *context, uint8_t port, __be16 pkey), (context, port, pkey), context, URXE_NOBODY_MINUS)

/* Protection domains and memory */
VERB(struct ibv_pd *, alloc_pd, "IBVERBS_1.1", (struct ibv_context *context), (context), context, URXE_NOBODY_NULL)
ERRNO_VERB(dealloc_pd, "IBVERBS_1.1", (struct ibv_pd *pd), (pd), pd->context)
VERB(struct ibv_mr *, reg_mr_iova2, "IBVERBS_1.8", (struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access), (pd, addr, length, iova, access), pd->context, URXE_NOBODY_NULL)
VERB(int, rereg_mr, "IBVERBS_1.1", (struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access), (mr, flags, pd, addr, length, access), mr->context, ENOSYS)
VERB(struct ibv_pd *, import_pd, "IBVERBS_1.10", (struct ibv_context *context, uint32_t handle), (context, handle), context, URXE_NOBODY_NULL)
VERB(struct ibv_mr *, import_mr, "IBVERBS_1.10", (struct ibv_pd *pd, uint32_t handle), (pd, handle), pd->context, URXE_NOBODY_NULL)
VERB(struct ibv_dm *, import_dm, "IBVERBS_1.13", (struct ibv_context *context, uint32_t handle), (context, handle), context, URXE_NOBODY_NULL)
ERRNO_VERB(dereg_mr, "IBVERBS_1.1", (struct ibv_mr *mr), (mr), mr->context)

/* Completions */
VERB(struct ibv_comp_channel *, create_comp_channel, "IBVERBS_1.0", (struct ibv_context *context), (context), context, URXE_NOBODY_NULL)
ERRNO_VERB(destroy_comp_channel, "IBVERBS_1.0", (struct ibv_comp_channel *channel), (channel), channel->context)
VERB(struct ibv_cq *, create_cq, "IBVERBS_1.1", (struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int comp_vector), (context, cqe, cq_context, channel, comp_vector), context, URXE_NOBODY_NULL)
ERRNO_VERB(resize_cq, "IBVERBS_1.1", (struct ibv_cq *cq, int cqe), (cq, cqe), cq->context)
ERRNO_VERB(destroy_cq, "IBVERBS_1.1", (struct ibv_cq *cq), (cq), cq->context)
VERB(int, get_cq_event, "IBVERBS_1.1", (struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context), (channel, cq, cq_context), channel->context, URXE_NOBODY_MINUS)

/* Queue pairs and shared receive queues */
VERB(struct ibv_srq *, create_srq, "IBVERBS_1.1", (struct ibv_pd *pd, struct ibv_srq_init_attr *attr), (pd, attr), pd->context, URXE_NOBODY_NULL)
ERRNO_VERB(modify_srq, "IBVERBS_1.1", (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask), srq->context)
ERRNO_VERB(query_srq, "IBVERBS_1.1", (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr), srq->context)
ERRNO_VERB(destroy_srq, "IBVERBS_1.1", (struct ibv_srq *srq), (srq), srq->context)
VERB(struct ibv_qp *, create_qp, "IBVERBS_1.1", (struct ibv_pd *pd, struct ibv_qp_init_attr *attr), (pd, attr), pd->context, URXE_NOBODY_NULL)
ERRNO_VERB(query_qp, "IBVERBS_1.1", (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init), (qp, attr, mask, init), qp->context)
ERRNO_VERB(modify_qp, "IBVERBS_1.1", (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask), qp->context)
ERRNO_VERB(destroy_qp, "IBVERBS_1.1", (struct ibv_qp *qp), (qp), qp->context)
VERB(struct ibv_qp_ex *, qp_to_qp_ex, "IBVERBS_1.6", (struct ibv_qp *qp), (qp), qp->context, URXE_NOBODY_NULL)
VERB(int, query_qp_data_in_order, "IBVERBS_1.14", (struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags), (qp, op, flags), qp->context, 0)
ERRNO_VERB(set_ece, "IBVERBS_1.10", (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context)
ERRNO_VERB(query_ece, "IBVERBS_1.10", (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece), qp->context)

/* Addresses and multicast */
VERB(struct ibv_ah *, create_ah, "IBVERBS_1.1", (struct ibv_pd *pd, struct ibv_ah_attr *attr), (pd, attr), pd->context, URXE_NOBODY_NULL)
ERRNO_VERB(destroy_ah, "IBVERBS_1.1", (struct ibv_ah *ah), (ah), ah->context)
VERB(int, init_ah_from_wc, "IBVERBS_1.1", (struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr), (context, port, wc, grh, attr), context, URXE_NOBODY_MINUS)
VERB(struct ibv_ah *, create_ah_from_wc, "IBVERBS_1.1", (struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port), (pd, wc, grh, port), pd->context, URXE_NOBODY_NULL)
ERRNO_VERB(resolve_eth_l2_from_gid, "IBVERBS_1.1", (struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid), (context, attr, mac, vid), context)
ERRNO_VERB(attach_mcast, "IBVERBS_1.1", (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), qp->context)
ERRNO_VERB(detach_mcast, "IBVERBS_1.1", (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid), qp->context)

/* clang-format on */

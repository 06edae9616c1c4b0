// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Preloaded into programs that have no option for it: QPs wait 4.096 us << 18 = 1 s for an
 * acknowledgement, whatever the program asks for (see `patience` in interop).
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>

#pragma GCC visibility push(default)

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	__typeof__(&ibv_modify_qp) next = dlsym(RTLD_NEXT, "ibv_modify_qp");

	if (attr_mask & IBV_QP_TIMEOUT)
		attr->timeout = 18;
	return next(qp, attr, attr_mask);
}
